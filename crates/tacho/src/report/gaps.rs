//! What the log lacks: recorded losses, missing numbers, damaged lines.

use std::collections::BTreeMap;

use tacho_logdir::read::Window;
use tacho_record::Line;

/// What is known to be missing in the part of the log that was read.
#[derive(Clone, Debug, Default)]
pub struct Gaps {
    /// `lost` lines.
    pub lost_lines: u64,
    /// The records that they count.
    pub lost_records: u64,
    /// Lines of them that do not know how many records were lost.
    pub lost_uncounted: u64,
    /// How many `lost` lines have each cause.
    pub causes: BTreeMap<String, u64>,
    /// Lines that cannot be read, each already reported.
    pub damaged_lines: u64,
    /// Lines whose numbers are missing in the sequence.
    pub missing_lines: u64,
    /// When the log begins, if that is in the window: µs since 1970-01-01 UTC.
    pub begins_us: Option<i64>,
}

impl Gaps {
    /// Counts a `lost` line if its range is in the window.
    pub fn lost(&mut self, line: &Line, window: Window) {
        let begin = line.start_ts.unwrap_or(line.ts);
        let is_before = window.since.is_some_and(|since| line.ts < since);
        let is_after = window.until.is_some_and(|until| begin >= until);
        if is_before || is_after {
            return;
        }
        self.lost_lines += 1;
        match line.count {
            Some(count) => self.lost_records = self.lost_records.saturating_add(count),
            None => self.lost_uncounted += 1,
        }
        *self.causes.entry(line.cause.text.to_string()).or_default() += 1;
    }

    /// Adds those of another part.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in [
            (&mut self.lost_lines, other.lost_lines),
            (&mut self.lost_records, other.lost_records),
            (&mut self.lost_uncounted, other.lost_uncounted),
            (&mut self.damaged_lines, other.damaged_lines),
            (&mut self.missing_lines, other.missing_lines),
        ] {
            *mine = mine.saturating_add(theirs);
        }
        self.begins_us = self.begins_us.max(other.begins_us);
        for (cause, count) in &other.causes {
            *self.causes.entry(cause.clone()).or_default() += count;
        }
    }

    /// Whether nothing is known to be missing.
    pub fn is_none(&self) -> bool {
        self.lost_lines == 0 && self.damaged_lines == 0 && self.missing_lines == 0
    }
}

/// The numbers of the lines of one piece of a log. A log has them without a gap.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sequence {
    /// Of the first line, and its time; `None` before it.
    first: Option<(u64, i64)>,
    last: u64,
    /// Numbers that are missing between the two.
    missing: u64,
}

impl Sequence {
    /// The next line of the piece.
    pub fn next(&mut self, seq: u64, ts_us: i64) {
        if self.first.is_none() {
            self.first = Some((seq, ts_us));
        } else if let Some(gap) = seq.checked_sub(self.last.saturating_add(1)) {
            self.missing = self.missing.saturating_add(gap);
        }
        // Otherwise another log begins, as in a pipe from several files.
        self.last = seq;
    }

    /// Continues with the next piece of the same log.
    pub fn join(&mut self, next: Self) {
        let Some((seq, ts_us)) = next.first else { return };
        self.next(seq, ts_us);
        self.missing = self.missing.saturating_add(next.missing);
        self.last = next.last;
    }

    /// When the first line happened, µs since 1970-01-01 UTC.
    pub fn begins_us(&self) -> Option<i64> {
        self.first.map(|(_, ts_us)| ts_us)
    }

    /// Missing lines, without those that are there but damaged.
    pub fn missing(&self, damaged_lines: u64) -> u64 {
        self.missing.saturating_sub(damaged_lines)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::Timestamp;

    #[test]
    fn losses_count_if_they_overlap_the_window() {
        let lost = |since: &str, until: &str| {
            let text = br#"{"v":1,"seq":9,"ts":"2026-11-21T10:00:00Z","event":"lost","start_ts":"2026-11-21T09:00:00Z","count":17,"cause":"dropped"}"#;
            let at = |text: &str| text.parse::<Timestamp>().ok();
            let mut gaps = Gaps::default();
            gaps.lost(&Line::parse(text).unwrap(), Window { since: at(since), until: at(until) });
            (gaps.lost_lines, gaps.lost_records, gaps.causes.get("dropped").copied())
        };
        assert_eq!(lost("", ""), (1, 17, Some(1)));
        assert_eq!(lost("2026-11-21T10:00:00Z", ""), (1, 17, Some(1)));
        assert_eq!(lost("", "2026-11-21T09:00:01Z"), (1, 17, Some(1)));
        assert_eq!(lost("2026-11-21T10:00:01Z", ""), (0, 0, None));
        assert_eq!(lost("", "2026-11-21T09:00:00Z"), (0, 0, None));
    }

    #[test]
    fn missing_numbers_are_found_within_and_between_pieces() {
        let sequence = |numbers: &[u64]| {
            let mut sequence = Sequence::default();
            numbers.iter().for_each(|seq| sequence.next(*seq, 0));
            sequence
        };
        let mut all = sequence(&[]);
        all.join(sequence(&[5, 6, 9]));
        assert_eq!(all.missing(0), 2);
        all.join(sequence(&[]));
        all.join(sequence(&[10, 11]));
        all.join(sequence(&[14, 15]));
        assert_eq!((all.missing(0), all.missing(1), all.missing(9)), (4, 3, 0));
        assert_eq!(sequence(&[7, 8, 1, 2]).missing(0), 0);
    }
}
