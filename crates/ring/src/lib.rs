//! Zone: hot (producer half) and outside (consumer half). No allocator, no panic.
//!
//! The arena: one file in shared memory, mapped by the database server and by whoever
//! drains it. It is cut into chunks. Each operating-system thread of the server owns at
//! most one open chunk and is its only writer, so that threads never contend for a
//! record; taking the next chunk is one compare-and-swap per some hundred records.
//!
//! ```text
//! producer thread                       the writer
//! ───────────────                       ──────────
//! acquire chunk  ◄── free list ◄──────  recycle   (all records settled)
//!   │  IDLE ⇄ BUSY                        ▲
//!   ▼                                     │
//! append records ──── commit word ─────►  drain   (any state)
//!   │                                     ▲
//!   ▼                                     │
//! close (full, session ended)             steal   (IDLE only, when chunks are short)
//! ```
//!
//! | module | contents |
//! |---|---|
//! | [`layout`] | every byte of the file, asserted at compile time |
//! | [`chunk`] | the states of a chunk and who may change them |
//! | [`free`] | the list of free chunks |
//! | [`ahead`] | prefetches what the next change of chunk needs |
//! | [`backpressure`] | waiting for a free chunk |
//! | [`wakeup`] | waking the writer |
//! | [`session`] | state that follows a connection from thread to thread |
//! | [`codec`] | one record as bytes, and back with every length checked |
//! | [`captured`], [`params`] | what only the records of a capture have |
//! | [`producer`] | append, fragments |
//! | [`wait`] | back-pressure: where a query thread of the server may block |
//! | [`swap`] | a value that is rarely read and can be replaced: the filter |
//! | [`consumer`] | reads committed records from untrusted memory |
//! | [`arena`] | the mapping: validated offsets turned into references |
//! | [`sync`], [`sys`] | the only access to atomics and to the operating system |
//!
//! The normative text is `docs/specs/arena.md`.

#![cfg_attr(not(test), no_std)]
#![cfg_attr(
    not(any(test, loom)),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::unreachable,
        clippy::indexing_slicing,
        clippy::arithmetic_side_effects
    )
)]

#[cfg(loom)]
extern crate std;

#[cfg(not(loom))]
pub mod ahead;
#[cfg(not(loom))]
pub mod arena;
pub mod backpressure;
pub mod captured;
pub mod chunk;
#[cfg(not(loom))]
pub mod codec;
#[cfg(not(loom))]
pub mod consumer;
pub mod free;
pub mod layout;
#[cfg(all(test, loom))]
mod models;
pub mod params;
#[cfg(not(loom))]
pub mod producer;
pub mod session;
pub mod swap;
pub mod sync;
#[cfg(not(loom))]
pub mod sys;
#[cfg(not(loom))]
pub mod wait;
pub mod wakeup;
