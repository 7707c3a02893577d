//! Zone: outside (and the embedded writer thread).
//!
//! An audit event as an owned or borrowed value, and everything between it and the
//! bytes of a log line: character sets, time, JSON, redaction of secrets.
//!
//! | module | what it owns |
//! |---|---|
//! | [`record`] | the fields of one log line, version 1 |
//! | [`charset`] | bytes of any server character set to Unicode, and whether that was lossless |
//! | [`time`] | UTC microseconds to RFC 3339 with a numeric offset, without a process-wide lock |
//! | [`json`] | one line of strictly valid JSON from a record |
//! | [`redact`] | secrets out of statement text, failing closed |
//!
//! The normative text is `docs/specs/record.md`.

pub mod charset;
mod digits;
pub mod json;
pub mod record;
pub mod redact;
pub mod time;
