//! Zone: outside (and the embedded writer thread).
//!
//! The record, and everything between it and the bytes of a log line: character sets, time, JSON.
//!
//! **`fields.rs` is the one table of all fields.** To add a field, add an entry there; the compiler
//! then reports the output formats that need a position for it.
//!
//! | module | contents |
//! |---|---|
//! | `fields` | the fields and their kinds |
//! | `record` | a line to be written: [`Record`], borrowed |
//! | [`json`] | one line of strictly valid JSON from a record |
//! | [`line`](mod@line) | a line that was read: [`Line`], borrowed |
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
