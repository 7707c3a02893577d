//! The entries of a sidecar that prove some of its lines.
//!
//! An extract has the sidecar's signed entries from its beginning, and, of the frames between two
//! of them, all or none.

use tacho_chain::entry::Frame;

/// An extract in the making.
pub(super) struct Extract<'a> {
    /// Where the records begin that are to be proven, in ascending order.
    offsets: &'a [u64],
    /// How many of them have been passed.
    passed: usize,
    /// Frames since the last signed entry.
    frames: Vec<u8>,
    has_records: bool,
    /// The parts of the log file that are needed.
    ranges: Vec<(u64, u64)>,
    /// Records that are in no frame.
    lone: Vec<u64>,
}

impl<'a> Extract<'a> {
    pub(super) fn new(offsets: &'a [u64]) -> Self {
        Self {
            offsets,
            passed: 0,
            frames: Vec::new(),
            has_records: false,
            ranges: Vec::new(),
            lone: Vec::new(),
        }
    }

    /// A frame of the sidecar.
    pub(super) fn frame(&mut self, frame: &Frame, bytes: &[u8]) {
        if self.is_complete() {
            return;
        }
        self.frames.extend_from_slice(bytes);
        self.skip_to(frame.start);
        let before = self.passed;
        while self.next_offset().is_some_and(|offset| offset < frame.end) {
            self.passed += 1;
        }
        if self.passed > before {
            self.has_records = true;
            self.ranges.push((frame.start, frame.end));
        }
    }

    /// A signed entry of the sidecar. Returns what the extract gets.
    pub(super) fn signed(&mut self, bytes: &[u8]) -> Vec<u8> {
        if self.is_complete() {
            return Vec::new();
        }
        let mut piece = self.take_frames();
        piece.extend_from_slice(bytes);
        piece
    }

    /// The end of the sidecar, or of what of it is in order. Returns what the extract gets.
    pub(super) fn end(&mut self) -> Vec<u8> {
        self.skip_to(u64::MAX);
        self.take_frames()
    }

    /// The needed parts of the log file, and the records that are in no frame.
    pub(super) fn into_parts(self) -> (Vec<(u64, u64)>, Vec<u64>) {
        (self.ranges, self.lone)
    }

    /// Nothing that follows is needed.
    fn is_complete(&self) -> bool {
        self.passed == self.offsets.len() && !self.has_records
    }

    fn next_offset(&self) -> Option<u64> {
        self.offsets.get(self.passed).copied()
    }

    fn skip_to(&mut self, end: u64) {
        while let Some(offset) = self.next_offset().filter(|offset| *offset < end) {
            self.lone.push(offset);
            self.passed += 1;
        }
    }

    fn take_frames(&mut self) -> Vec<u8> {
        let frames = std::mem::take(&mut self.frames);
        if std::mem::take(&mut self.has_records) { frames } else { Vec::new() }
    }
}

/// Ranges in order, none touching another, none beyond the end of the file.
pub(super) fn merge(mut ranges: Vec<(u64, u64)>, end: u64) -> Vec<(u64, u64)> {
    ranges.sort_unstable();
    let mut merged: Vec<(u64, u64)> = Vec::with_capacity(ranges.len());
    for (from, to) in ranges {
        let to = to.min(end);
        match merged.last_mut() {
            Some(last) if from <= last.1 => last.1 = last.1.max(to),
            _ if from < to => merged.push((from, to)),
            _ => {}
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_merged_and_end_with_the_file() {
        let ranges = vec![(30, 40), (0, 10), (10, 20), (35, 90), (95, 99)];
        assert_eq!(merge(ranges, 50), [(0, 20), (30, 50)]);
        assert_eq!(merge(Vec::new(), 50), []);
    }
}
