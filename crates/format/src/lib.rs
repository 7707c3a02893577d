//! Zone: outside (and the embedded writer thread).
//!
//! Log records in the formats that other tools already read.
//!
//! | module | what it owns |
//! |---|---|
//! | [`Formatter`] | one record as the lines of another format |
//! | [`Place`] | where a format has a field |
//! | [`join`] | `running` lines and the lines that complete them, as one record |
//!
//! A format is a file of its own. Each appends to the caller's buffer and allocates nothing else,
//! cannot fail and cannot panic, and lets nothing that a client sent end a line, a field or an
//! element. What a format has no name for is written as an extension that its table in
//! `docs/specs/formats.md`, the normative text, names; nothing is left out silently.

mod cef;
mod csv;
mod ecs;
mod escape;
mod formatter;
pub mod join;
mod json;
mod leef;
mod ocsf;
mod percona;
mod place;
mod size_bound;
mod slow;
mod syslog;
mod words;

pub use formatter::{Format, Formatter, host_name};
pub use place::Place;
pub use syslog::Body;
