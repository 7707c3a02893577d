//! Which part of a time range is searched first.

use tacho_store::SegmentInfo;

/// A search begins with the newest (or oldest) time that has about so many records, and continues
/// with more of them until it has found enough.
const ROWS: u64 = 200_000;
/// How many times as many records the next window has.
const GROWTH: u64 = 8;

/// Time ranges that touch each other, each with more records than the one before. They are only an
/// order in which the range is searched: which segments a query reads follows from its time.
pub struct Windows {
    /// The segments that begin in the rest of the range; the next one last.
    segments: Vec<Span>,
    from_us: i64,
    to_us: i64,
    rows: u64,
    is_descending: bool,
}

/// Earliest and latest time of a segment, and its records.
#[derive(Clone, Copy)]
struct Span {
    min_us: i64,
    max_us: i64,
    rows: u64,
}

impl Windows {
    /// Those of the range, from its end (or its begin) on.
    pub fn new<'a>(
        segments: impl Iterator<Item = &'a SegmentInfo>,
        (from_us, to_us): (i64, i64),
        is_descending: bool,
    ) -> Self {
        let mut segments: Vec<Span> = segments
            .filter(|it| it.max_ts_us >= from_us && it.min_ts_us < to_us)
            .map(|it| Span { min_us: it.min_ts_us, max_us: it.max_ts_us, rows: it.rows })
            .collect();
        if is_descending {
            segments.sort_unstable_by_key(|it| it.max_us);
        } else {
            segments.sort_unstable_by_key(|it| std::cmp::Reverse(it.min_us));
        }
        Self { segments, from_us, to_us, rows: ROWS, is_descending }
    }

    /// Where the window of the next `self.rows` records ends.
    fn edge(&mut self) -> i64 {
        let mut rows = 0;
        let mut edge_us = if self.is_descending { self.to_us } else { self.from_us };
        while let Some(&span) = self.segments.last() {
            // A window ended within another segment, and has all of this one.
            if span.min_us >= self.to_us || span.max_us < self.from_us {
                self.segments.pop();
                continue;
            }
            // Those that do not reach behind the edge do not widen the window.
            let is_inside = match self.is_descending {
                true => span.min_us >= edge_us,
                false => span.max_us < edge_us,
            };
            if rows >= self.rows && !is_inside {
                break;
            }
            if let Some(part_us) = self.part_us(span, self.rows.saturating_sub(rows)) {
                return if self.is_descending {
                    edge_us.min(part_us)
                } else {
                    edge_us.max(part_us)
                };
            }
            rows += span.rows;
            edge_us = match self.is_descending {
                true => edge_us.min(span.min_us),
                false => edge_us.max(span.max_us.saturating_add(1)),
            };
            self.segments.pop();
        }
        edge_us
    }

    /// The time within a segment up to which it has about so many records, if it has many more. The
    /// rows of each server are sorted by time, so a query skips the others.
    fn part_us(&self, span: Span, rows: u64) -> Option<i64> {
        let begin_us = span.min_us.max(self.from_us);
        let end_us = span.max_us.saturating_add(1).min(self.to_us);
        let length = u128::try_from(end_us.saturating_sub(begin_us)).ok()?;
        let whole = u128::try_from(span.max_us.saturating_sub(span.min_us)).ok()?.max(1);
        let left = u128::from(span.rows) * length / whole;
        if left <= u128::from(self.rows) * 2 {
            return None;
        }
        let part = i64::try_from(u128::from(rows) * whole / u128::from(span.rows)).ok()?.max(1);
        Some(if self.is_descending { end_us - part } else { begin_us + part })
    }
}

impl Iterator for Windows {
    type Item = (i64, i64);

    fn next(&mut self) -> Option<(i64, i64)> {
        if self.from_us >= self.to_us || self.segments.is_empty() {
            return None;
        }
        let edge_us = self.edge();
        self.rows = self.rows.saturating_mul(GROWTH);
        let is_last = self.segments.is_empty();
        let range = if self.is_descending {
            let from_us = if is_last { self.from_us } else { edge_us.max(self.from_us) };
            let range = (from_us, self.to_us);
            self.to_us = from_us;
            range
        } else {
            let to_us = if is_last { self.to_us } else { edge_us.min(self.to_us) };
            let range = (self.from_us, to_us);
            self.from_us = to_us;
            range
        };
        Some(range)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(min_ts_us: i64, max_ts_us: i64, rows: u64) -> SegmentInfo {
        SegmentInfo { id: 1, level: 2, rows, bytes: 1, rollup_bytes: None, min_ts_us, max_ts_us }
    }

    fn windows(segments: &[SegmentInfo], range: (i64, i64), descending: bool) -> Vec<(i64, i64)> {
        Windows::new(segments.iter(), range, descending).collect()
    }

    #[test]
    fn small_segments_are_taken_whole() {
        let segments = [segment(0, 99, 150_000), segment(100, 199, 150_000), segment(200, 299, 10)];
        assert_eq!(windows(&segments, (0, 300), true), [(0, 300)]);
        let segments: Vec<_> = (0..4).map(|at| segment(at * 100, at * 100 + 99, 150_000)).collect();
        assert_eq!(windows(&segments, (0, 400), true), [(200, 400), (0, 200)]);
        assert_eq!(windows(&segments, (0, 400), false), [(0, 200), (200, 400)]);
        assert_eq!(windows(&[], (0, 400), false), []);
    }

    #[test]
    fn a_large_segment_is_searched_in_parts() {
        let segments = [segment(0, 3_600_000_000, 10_000_000)];
        let range = (0, 3_600_000_001);
        let newest = windows(&segments, range, true);
        assert_eq!(newest[0], (3_528_000_001, 3_600_000_001));
        let oldest = windows(&segments, range, false);
        assert_eq!(oldest[0], (0, 72_000_000));
        assert_eq!((newest.len(), oldest.len()), (3, 3));
    }

    /// Whatever the segments are: the windows touch each other, and cover the range.
    #[test]
    fn windows_cover_the_range() {
        let mut random = 7_u64;
        let mut below = |count: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (random >> 33) % count
        };
        for _ in 0..500 {
            let segments: Vec<_> = (0..1 + below(20))
                .map(|_| {
                    let begin = below(1_000_000) as i64;
                    segment(begin, begin + below(200_000) as i64, 1 + below(5_000_000))
                })
                .collect();
            let from = below(1_200_000) as i64;
            let range = (from, from + 1 + below(1_200_000) as i64);
            let is_any =
                segments.iter().any(|it| it.max_ts_us >= range.0 && it.min_ts_us < range.1);
            for is_descending in [true, false] {
                let mut found = windows(&segments, range, is_descending);
                if is_descending {
                    found.reverse();
                }
                assert!(found.is_empty() != is_any);
                assert!(found.iter().all(|(from_us, to_us)| from_us < to_us), "{found:?}");
                assert!(found.windows(2).all(|pair| pair[0].1 == pair[1].0), "{found:?}");
                if let (Some(first), Some(last)) = (found.first(), found.last()) {
                    assert_eq!((first.0, last.1), range);
                }
            }
        }
    }
}
