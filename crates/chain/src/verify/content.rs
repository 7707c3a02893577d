//! The lines of a frame, read once, in bounded memory.

use std::io::{self, Read};

use sha2::{Digest as _, Sha256};

use crate::entry::Frame;
use crate::hash::Hash;

const BUFFER_BYTES: usize = 64 * 1024;
/// Enough for `{"v":1,"seq":18446744073709551615,"ts":"…","event":"lost"`.
const HEAD_BYTES: usize = 112;
/// No line is shorter: `{"v":1,"seq":1,"ts":"` and the mandatory rest.
const LINE_BYTES_MIN: u64 = 32;

/// A log file that is read frame by frame.
pub struct Content<'a> {
    source: Box<dyn Read + 'a>,
    buffer: Vec<u8>,
    /// The unused part of the buffer.
    begin: usize,
    end: usize,
    /// Lines that were read.
    pub lines: u64,
    /// Bytes that were read.
    pub bytes: u64,
    head: Vec<u8>,
}

/// What was read for a frame.
#[derive(Debug, Default)]
pub struct Run {
    /// Bytes that were missing at the end of the file.
    pub missing_bytes: u64,
    /// Lines.
    pub lines: u64,
    /// `lost` lines.
    pub lost_lines: u64,
    /// The first line whose `seq` is not the expected one: its number in the file.
    pub first_odd_line: Option<u64>,
    /// SHA-256 of what was read.
    pub digest: Option<Hash>,
    /// The last byte ends a line.
    pub is_whole: bool,
    /// After the last newline there is text that cannot be the beginning of a line with the
    /// expected number.
    has_odd_rest: bool,
}

impl Run {
    /// Whether it matches the frame.
    pub fn fits(&self, frame: &Frame) -> bool {
        self.missing_bytes == 0
            && self.digest == Some(frame.digest)
            && self.lines == frame.lines
            && self.is_whole
    }

    /// Whether the present part of an incomplete frame may be its beginning. A hash covers a frame
    /// as a whole, so this depends on the lines: each has the expected number, and the missing
    /// bytes suffice for the missing lines.
    pub fn may_be_cut(&self, frame: &Frame) -> bool {
        if self.first_odd_line.is_some() || self.has_odd_rest {
            return false;
        }
        let Some(missing_lines) = frame.lines.checked_sub(self.lines) else { return false };
        let rest_lines = u64::from(!self.is_whole && self.has_bytes(frame));
        match missing_lines.checked_sub(rest_lines) {
            // All lines end, and yet bytes are missing.
            Some(0) if rest_lines == 0 => false,
            Some(lines) => self.missing_bytes >= lines.saturating_mul(LINE_BYTES_MIN),
            None => false,
        }
    }

    fn has_bytes(&self, frame: &Frame) -> bool {
        self.missing_bytes < frame.end - frame.start
    }
}

impl<'a> Content<'a> {
    /// Reads from the start of a file.
    pub fn new(source: Box<dyn Read + 'a>) -> Content<'a> {
        Content {
            source,
            buffer: vec![0; BUFFER_BYTES],
            begin: 0,
            end: 0,
            lines: 0,
            bytes: 0,
            head: Vec::with_capacity(HEAD_BYTES),
        }
    }

    /// Continues a file: the source is what is behind so many bytes and lines.
    pub fn resume(source: Box<dyn Read + 'a>, bytes: u64, lines: u64) -> Content<'a> {
        Content { bytes, lines, ..Content::new(source) }
    }

    /// Fills the buffer if it is empty. `false`: the end of the file.
    fn fill(&mut self) -> io::Result<bool> {
        while self.begin == self.end {
            match self.source.read(&mut self.buffer) {
                Ok(0) => return Ok(false),
                Ok(count) => (self.begin, self.end) = (0, count),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Reads `bytes` bytes, whose first line should have the number `seq`.
    ///
    /// # Errors
    /// If the source cannot be read.
    pub fn run(&mut self, bytes: u64, mut seq: u64) -> io::Result<Run> {
        let mut run = Run { missing_bytes: bytes, ..Run::default() };
        let mut hasher = Sha256::new();
        self.head.clear();
        while run.missing_bytes > 0 && self.fill()? {
            let left = usize::try_from(run.missing_bytes).unwrap_or(usize::MAX);
            let piece = self.begin..self.end.min(self.begin.saturating_add(left));
            self.begin = piece.end;
            run.missing_bytes -= piece.len() as u64;
            self.bytes += piece.len() as u64;
            hasher.update(&self.buffer[piece.clone()]);
            for part in self.buffer[piece].split_inclusive(|&byte| byte == b'\n') {
                let room = HEAD_BYTES - self.head.len();
                self.head.extend_from_slice(&part[..room.min(part.len())]);
                run.is_whole = part.ends_with(b"\n");
                if run.is_whole {
                    run.lines += 1;
                    self.lines += 1;
                    run.lost_lines += u64::from(is_lost(&self.head));
                    if seq_of(&self.head) != Some(seq) {
                        run.first_odd_line.get_or_insert(self.lines);
                    }
                    seq = seq.saturating_add(1);
                    self.head.clear();
                }
            }
        }
        run.has_odd_rest = !begins_line(&self.head, seq);
        run.digest = Some(Hash(hasher.finalize().into()));
        Ok(run)
    }

    /// Reads to the end of the file: how many bytes and lines that was.
    ///
    /// # Errors
    /// If the source cannot be read.
    pub fn rest(&mut self) -> io::Result<(u64, u64)> {
        let (mut bytes, mut lines) = (0, 0);
        while self.fill()? {
            let piece = &self.buffer[self.begin..self.end];
            bytes += piece.len() as u64;
            lines += piece.iter().filter(|&&byte| byte == b'\n').count() as u64;
            self.begin = self.end;
        }
        self.bytes += bytes;
        Ok((bytes, lines))
    }
}

/// `seq` of a line of version 1, from its beginning.
fn seq_of(head: &[u8]) -> Option<u64> {
    let rest = head.strip_prefix(br#"{"v":1,"seq":"#)?;
    let digits = rest.iter().position(|byte| !byte.is_ascii_digit())?;
    std::str::from_utf8(&rest[..digits]).ok()?.parse().ok()
}

/// Whether this can be the beginning of a line with the number `seq`.
fn begins_line(head: &[u8], seq: u64) -> bool {
    let expected = format!("{{\"v\":1,\"seq\":{seq},\"ts\":\"");
    head.iter().zip(expected.as_bytes()).all(|(byte, expected)| byte == expected)
}

/// Whether a line reports lost records. `event` follows `ts`, which contains no quote.
fn is_lost(head: &[u8]) -> bool {
    const TIME: &[u8] = br#","ts":""#;
    let Some(at) = head.windows(TIME.len()).position(|part| part == TIME) else { return false };
    let rest = &head[at + TIME.len()..];
    let Some(quote) = rest.iter().position(|&byte| byte == b'"') else { return false };
    rest[quote..].starts_with(br#"","event":"lost""#)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_lines_are_found_and_not_made_up() {
        let line =
            br#"{"v":1,"seq":3,"ts":"2026-11-21T03:03:07.599976+00:00","event":"lost","count":2}"#;
        assert!(is_lost(line) && line.len() < HEAD_BYTES);
        assert_eq!(seq_of(line), Some(3));
        let other = br#"{"v":1,"seq":3,"ts":"","event":"statement","sql":"\",\"event\":\"lost\""}"#;
        assert!(!is_lost(other));
        assert!(!is_lost(b"") && !is_lost(br#","ts":"#) && !is_lost(br#","ts":"x"#));
    }

    #[test]
    fn a_run_is_read_over_any_borders() {
        struct Slow<'a>(&'a [u8]);
        impl Read for Slow<'_> {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                let count = self.0.len().min(3).min(buffer.len());
                buffer[..count].copy_from_slice(&self.0[..count]);
                self.0 = &self.0[count..];
                Ok(count)
            }
        }
        let text = b"{\"v\":1,\"seq\":1}\n{\"v\":1,\"seq\":2}\n{\"v\":1,\"seq\":4}\nrest";
        let mut content = Content::new(Box::new(Slow(text)));
        let run = content.run(32, 1).expect("reads");
        assert_eq!((run.lines, run.first_odd_line, run.is_whole), (2, None, true));
        assert_eq!(run.digest, Some(Hash::of(&text[..32])));
        let run = content.run(16, 3).expect("reads");
        assert_eq!(run.first_odd_line, Some(3));
        assert_eq!(content.rest().expect("reads"), (4, 0));
        assert_eq!(content.run(5, 4).expect("reads").missing_bytes, 5);
    }
}
