//! Zone: outside (and the embedded writer thread).
//!
//! The record, and everything between it and the bytes of a log line: character sets, time, JSON.
//!
//! | module | what it owns |
//! |---|---|
//! | `record` | the fields of one log line, version 1 |
//! | [`charset`] | bytes of any server character set to Unicode, and whether that was lossless |
//! | [`time`] | UTC microseconds to RFC 3339 with a numeric offset, without a process-wide lock |
//! | [`json`] | one line of strictly valid JSON from a record |
//!
//! The normative text is `docs/specs/record.md`.

pub mod charset;
mod digits;
pub mod json;
mod record;
pub mod time;

pub use record::{Attribute, DIGEST_BYTES, EventKind, Outcome, Record, TableAccess, TableUse};
