//! Zone: outside. Where the threads of a server spend their time, hardly stopping any.
//!
//! The library behind `tacho pmp`. It looks at all threads of a process some times a second, and
//! counts what it sees:
//!
//! | part | what it is |
//! |---|---|
//! | [`process`] | which process, and whether we may |
//! | [`task`], [`state`] | what the kernel tells of a thread without disturbing it |
//! | [`sampler`] | one round over all threads, and the next |
//! | [`stop`] | the short stop that some threads need |
//! | [`memory`], [`unwind`], [`frame_sizes`] | from registers and a copied stack to addresses |
//! | [`maps`], [`modules`], [`image`], [`symbols`] | from addresses to names |
//! | [`profile`] | what was seen, counted |
//! | [`verdict`] | known patterns in it, in words |
//! | [`bpftrace`] | the same question to the kernel |
//! | [`processlist`] | what the server says about its threads meanwhile |
//! | [`report`], [`pt_pmp`], [`folded`], [`flame`], [`html`], [`diff`] | what comes out |
//!
//! What it owes the process it looks at: no thread is stopped that need not be, none for longer
//! than a copy takes, none stays stopped, whatever happens to us; nothing is written to it. What
//! it reads there, it does not trust.

pub mod bpftrace;
pub mod diff;
pub mod flame;
pub mod folded;
pub mod frame_sizes;
pub mod html;
pub mod image;
pub mod maps;
pub mod memory;
pub mod modules;
pub mod process;
pub mod processlist;
pub mod profile;
pub mod pt_pmp;
pub mod report;
pub mod sampler;
pub mod state;
pub mod stop;
pub mod symbols;
pub mod task;
pub mod unwind;
pub mod verdict;
