//! Zone: outside (and the embedded writer thread).
//!
//! Log records in the formats that other tools already read, and log lines read back as records.
//!
//! | module | what it owns |
//! |---|---|
//! | [`Formatter`] | one record as the lines of another format |
//! | [`line`](mod@line) | a line of our own log, parsed |
//! | [`owned`] | a record that owns its bytes, made from a line |
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
pub mod line;
mod ocsf;
pub mod owned;
mod percona;
mod room;
mod slow;
mod syslog;
mod words;

pub use formatter::{Format, Formatter, host_name};
pub use syslog::Body;
