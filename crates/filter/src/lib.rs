//! Zone: hot (deciding), cold (compiling). Which statements are recorded, and how, and which are
//! not executed.
//!
//! A filter is an ordered list of rules in JSON (`docs/specs/filter.md`). [`compile`] turns it into
//! a [`Program`]: bytes without pointers, which [`Program::decide`] evaluates. Deciding does not
//! allocate and cannot panic, so a query thread may do it; the writer decides again with the same
//! bytes when it knows how a statement has ended.
//!
//! | module | contents |
//! |---|---|
//! | [`program`] | the bytes of a compiled filter |
//! | [`decide`] | compares rules with the known facts, three-valued |
//! | [`block`] | which statements are not executed |
//! | [`glob`] | `*` and `?` |
//! | [`network`] | addresses and prefixes |
//! | [`mod@compile`] | from JSON, with the position of errors |
//! | [`class`] | the classes of `sql_command` |
//! | [`cover`] | rules that an earlier rule makes useless |
//! | [`known`] | what the servers support in a filter |
//! | [`tables`] | whether the tables of a statement are all known |

#![cfg_attr(not(any(test, feature = "compile")), no_std)]
#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::unreachable,
        clippy::indexing_slicing,
        clippy::arithmetic_side_effects
    )
)]

pub mod block;
#[cfg(feature = "compile")]
pub mod class;
#[cfg(feature = "compile")]
pub mod compile;
#[cfg(feature = "compile")]
pub mod cover;
pub mod decide;
pub mod glob;
#[cfg(feature = "compile")]
pub mod known;
pub mod network;
pub mod program;
pub mod tables;

pub use block::{Begun, CommandSet};
pub use decide::{Decision, Ended, Event, Facts, Session};
pub use program::{Action, Block, Overflow, Program};
pub use tables::{Coverage, Report, Tables};
