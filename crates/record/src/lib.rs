//! Zone: outside (and the embedded writer thread).
//!
//! The record, and everything between it and the bytes of a log line: character sets, time, JSON.
//!
//! **`fields.rs` is the one table of all fields.** To add one is to add an entry there; the compiler
//! names the output formats that have to say what they do with it.
//!
//! | module | what it owns |
//! |---|---|
//! | `fields` | the fields, and what each of them is |
//! | `record` | a line as it is written: [`Record`], borrowed |
//! | [`json`] | one line of strictly valid JSON from a record |
//! | [`line`](mod@line) | a line as it is read: [`Line`], borrowed |
//! | `owned` | a record that owns its bytes, made from a line |
//! | [`charset`] | bytes of any server character set to Unicode, and whether that was lossless |
//! | [`time`] | UTC microseconds to RFC 3339 with a numeric offset, without a process-wide lock |
//!
//! The normative text is `docs/specs/record.md`.

pub mod charset;
mod digits;
mod fields;
pub mod json;
pub mod line;
mod owned;
mod record;
pub mod time;

pub use fields::{Field, Kind};
pub use line::Line;
pub use owned::{LineError, OwnedRecord, OwnedTable};
pub use record::{
    ACTIONS, Attribute, CLASSES, DIGEST_BYTES, EventKind, Length, Outcome, Record, TableAccess,
    TableUse, Value,
};
