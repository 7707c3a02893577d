//! The number and the time of a line, and the last line of a file that grows.

use std::io;

use tacho_replica::ReplicaFile;

/// How much of a line is read for its number and time.
const HEAD_BYTES: usize = 256;
/// How far back the beginning of a line is looked for: longer than any line of a recorder.
const LINE_BYTES_MAX: u64 = 64 << 20;
const BUFFER_BYTES: usize = 64 << 10;

/// The last line that has landed and is whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewestLine {
    /// Its number.
    pub seq: u64,
    /// Its time, as it is in the line.
    pub ts: String,
}

impl NewestLine {
    /// From the beginning of a line of version 1.
    #[must_use]
    pub fn of(line: &[u8]) -> Option<Self> {
        let line = String::from_utf8_lossy(line);
        let rest = line.strip_prefix(r#"{"v":1,"seq":"#)?;
        let (seq, rest) = rest.split_once(r#","ts":""#)?;
        let (ts, _) = rest.split_once('"')?;
        Some(Self { seq: seq.parse().ok()?, ts: ts.to_owned() })
    }

    /// Its time, µs since 1970-01-01 UTC.
    #[must_use]
    pub fn ts_us(&self) -> Option<i64> {
        self.ts.parse::<jiff::Timestamp>().ok().map(jiff::Timestamp::as_microsecond)
    }

    /// The last line that is whole in the first `length` bytes of a file; `None`: there is none.
    ///
    /// # Errors
    /// The file cannot be read, or is shorter.
    pub fn in_file(file: &ReplicaFile, length: u64) -> io::Result<Option<Self>> {
        let Some(end) = newline_before(file, length)? else { return Ok(None) };
        let begin = newline_before(file, end)?.map_or(0, |at| at + 1);
        let mut head = vec![0; usize::try_from(end - begin).unwrap_or(HEAD_BYTES).min(HEAD_BYTES)];
        file.read_exact_at(&mut head, begin)?;
        Ok(Self::of(&head))
    }
}

/// The offset of the last newline before another offset.
fn newline_before(file: &ReplicaFile, before: u64) -> io::Result<Option<u64>> {
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut end = before;
    while end > 0 && before - end < LINE_BYTES_MAX {
        let begin = end.saturating_sub(BUFFER_BYTES as u64);
        let part = &mut buffer[..usize::try_from(end - begin).unwrap_or_default()];
        file.read_exact_at(part, begin)?;
        if let Some(at) = part.iter().rposition(|&byte| byte == b'\n') {
            return Ok(Some(begin + at as u64));
        }
        end = begin;
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt as _;

    use super::*;

    #[test]
    fn the_newest_line_is_read_from_its_beginning() {
        let line = br#"{"v":1,"seq":17,"ts":"2026-11-21T03:03:07.599976+00:00","event":"lost"}"#;
        let newest = NewestLine::of(line).unwrap();
        assert_eq!((newest.seq, newest.ts.as_str()), (17, "2026-11-21T03:03:07.599976+00:00"));
        assert_eq!(NewestLine::of(b"{}"), None);
        assert_eq!(NewestLine::of(b"\xff"), None);
    }

    #[test]
    fn the_newest_line_may_be_long() {
        let file = tempfile::tempfile().unwrap();
        let line = |seq: u64, bytes: usize| {
            let text = "é".repeat(bytes / 2);
            format!("{{\"v\":1,\"seq\":{seq},\"ts\":\"2026\",\"sql\":\"{text}\"}}\n")
        };
        let text = line(1, 0) + &line(2, 3 << 20) + "{\"v\":1,\"seq\":3,\"ts\":\"2";
        file.write_all_at(text.as_bytes(), 0).unwrap();
        let file = ReplicaFile::Plain(file);
        let seq =
            |length: usize| NewestLine::in_file(&file, length as u64).unwrap().map(|line| line.seq);
        let first = line(1, 0).len();
        assert_eq!([first - 1, first, text.len()].map(seq), [None, Some(1), Some(2)]);
        assert!(NewestLine::in_file(&file, 1 << 30).is_err(), "a file that was cut");
    }
}
