//! Zone: outside (and the embedded writer thread).
//!
//! Log records in the formats that other tools already read.
//!
//! | module | contents |
//! |---|---|
//! | [`Formatter`] | one record as the lines of another format |
//! | [`Place`] | the position of a field in a format |
//! | [`join`] | `running` lines and the lines that complete them, as one record |
//!
//! Each format has its own file. Each appends to the caller's buffer and allocates nothing else,
//! cannot fail and cannot panic, and never lets client data end a line, a field or an element.
//! Fields for which a format has no name are written as extensions, which its table in
//! `docs/specs/formats.md`, the normative text, lists; nothing is omitted silently.

mod cef;
mod csv;
mod csv_full;
mod ecs;
mod escape;
mod formatter;
pub mod join;
mod json;
mod json_array;
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
