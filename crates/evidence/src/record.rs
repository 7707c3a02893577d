//! The lines of `records.jsonl`: the position of each record, and the record as it is in the log.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use tacho_ship::protocol::{FileName, Origin, Stem};

/// Longest line of a log that is exported or read, bytes: a statement of 64 MiB with escapes.
pub const LINE_BYTES_MAX: u64 = 128 << 20;
/// Longest line of `records.jsonl`, bytes: a line in base64, and its position.
pub const RECORD_BYTES_MAX: u64 = LINE_BYTES_MAX / 3 * 4 + 4096;

/// Where a record is. Records are in this order, and no position occurs twice.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub struct Position {
    /// The server.
    pub server: Origin,
    /// The generation of its log.
    pub generation: u64,
    /// The log file.
    pub file: FileName,
    /// Where its line begins, bytes.
    pub offset: u64,
    /// How long the line is, bytes, with its newline.
    pub bytes: u64,
}

impl Position {
    /// The log file, if it is one.
    #[must_use]
    pub fn stem(&self) -> Option<&Stem> {
        if let FileName::Lines(stem) = &self.file { Some(stem) } else { None }
    }

    /// The line of `records.jsonl` for a line of the log (which ends with a newline). A line that
    /// is not a JSON object in UTF-8, which no recorder writes, is there in base64.
    #[must_use]
    pub fn to_line(&self, line: &[u8]) -> Vec<u8> {
        let text = line.strip_suffix(b"\n").unwrap_or(line);
        if is_object(text) {
            let out = self.with(b"\"record\":", text, b"}\n");
            // Readers have a limit for how deep objects are in each other.
            if Self::read(&out).is_some() {
                return out;
            }
        }
        self.with(b"\"base64\":\"", STANDARD.encode(line).as_bytes(), b"\"}\n")
    }

    fn with(&self, key: &[u8], value: &[u8], end: &[u8]) -> Vec<u8> {
        let Self { server, generation, file, offset, bytes } = self;
        let head = format!(
            "{{\"server\":\"{server}\",\"generation\":{generation},\"file\":\"{file}\",\
             \"offset\":{offset},\"bytes\":{bytes},"
        );
        [head.as_bytes(), key, value, end].concat()
    }

    /// The position in a line of `records.jsonl`. The rest is checked by making the line again.
    #[must_use]
    pub fn read(line: &[u8]) -> Option<Self> {
        serde_json::from_slice(line).ok()
    }
}

fn is_object(text: &[u8]) -> bool {
    text.first() == Some(&b'{') && serde_json::from_slice::<serde::de::IgnoredAny>(text).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_a_log_has_one_line() {
        let position = Position {
            server: "db1".parse().unwrap(),
            generation: 1,
            file: "audit-20261121T100000Z-000001.jsonl".parse().unwrap(),
            offset: 7,
            bytes: 8,
        };
        let line = position.to_line(b"{\"v\":1}\n");
        assert!(line.ends_with(b"\"offset\":7,\"bytes\":8,\"record\":{\"v\":1}}\n"));
        assert_eq!(Position::read(&line), Some(position.clone()));
        for odd in [&b"{\"v\":\n"[..], b"\xff\n", b"[1]\n", b"{} {}\n", b"\n"] {
            let line = position.to_line(odd);
            assert!(line.windows(10).any(|part| part == b"\"base64\":\""), "{odd:?}");
            assert_eq!(Position::read(&line), Some(position.clone()));
        }
        assert_eq!(Position::read(b"{}"), None);
    }
}
