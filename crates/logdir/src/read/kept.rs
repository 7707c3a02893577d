//! The newest lines, kept in memory until they are shown.

use std::collections::VecDeque;
use std::path::Path;

use super::request::Sink;

/// Memory used for the newest lines until they are shown.
pub(super) struct Kept {
    bytes: usize,
    bytes_max: usize,
    /// There are more lines, but no space for them.
    pub(super) is_full: bool,
}

impl Kept {
    pub(super) fn new(line_bytes_max: usize) -> Self {
        // Twice: for the longest line, and as much for others.
        Self { bytes: 0, bytes_max: line_bytes_max.saturating_mul(2), is_full: false }
    }

    fn fits(&self, line: &[u8]) -> bool {
        self.bytes.saturating_add(line.len()) <= self.bytes_max
    }

    /// Adds an older line, if there is space for it.
    pub(super) fn add(&mut self, newest_first: &mut Vec<Vec<u8>>, line: &[u8]) -> bool {
        if !self.fits(line) {
            self.is_full = true;
            return false;
        }
        self.bytes += line.len();
        newest_first.push(line.to_vec());
        true
    }

    /// Adds a newer line to the newest `count` of a file, and drops older ones.
    pub(super) fn push(&mut self, last: &mut VecDeque<Vec<u8>>, line: &[u8], count: usize) {
        while last.len() >= count.max(1) {
            self.bytes -= last.pop_front().map_or(0, |oldest| oldest.len());
        }
        while !self.fits(line) {
            self.is_full = true;
            let Some(oldest) = last.pop_front() else { return };
            self.bytes -= oldest.len();
        }
        self.bytes += line.len();
        last.push_back(line.to_vec());
    }

    pub(super) fn report<S: Sink>(&self, path: &Path, sink: &mut S) {
        if self.is_full {
            sink.out_of_room(path, self.bytes_max);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn older_lines_are_dropped_for_newer_ones_and_there_is_a_limit() {
        let mut kept = Kept::new(4);
        let mut last = VecDeque::new();
        for line in [&b"aaa"[..], b"bbb", b"cc"] {
            kept.push(&mut last, line, 2);
        }
        assert_eq!(last, [b"bbb".to_vec(), b"cc".to_vec()]);
        assert!(!kept.is_full);
        // Three lines are requested, but there is space for eight bytes.
        kept.push(&mut last, b"dddd", 3);
        assert!(kept.is_full);
        assert_eq!(last, [b"cc".to_vec(), b"dddd".to_vec()]);
        let mut newest_first = Vec::new();
        assert!(kept.add(&mut newest_first, b"ee") && !kept.add(&mut newest_first, b"f"));
        assert_eq!(newest_first, [b"ee".to_vec()]);
    }
}
