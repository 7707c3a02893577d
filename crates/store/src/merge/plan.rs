//! Which segments are merged next.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::segment::SegmentInfo;

/// µs of an hour.
const HOUR_US: i64 = 3_600_000_000;
/// Levels of mixed hours.
const MIXED_LEVELS: u8 = 2;
/// The highest level.
const LEVEL_MAX: u8 = 9;

/// When segments are merged.
#[derive(Clone, Debug)]
pub struct MergeOptions {
    /// So many segments of a level become one of the next.
    pub fan_in: usize,
    /// Segments of so many bytes are not merged any more.
    pub bytes_max: u64,
    /// An hour that ended so long ago becomes one segment, µs.
    pub settled_us: i64,
    /// How long the merger waits when there is nothing to merge.
    pub pause: Duration,
}

impl Default for MergeOptions {
    fn default() -> Self {
        Self {
            fan_in: 12,
            bytes_max: 512 << 20,
            settled_us: HOUR_US / 4,
            pause: Duration::from_millis(500),
        }
    }
}

/// How the rows of a merge are divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Split {
    /// One segment.
    No,
    /// One for each hour of `ts`. Rows of too many hours become one of the level below.
    Hours,
}

/// A merge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Merge {
    /// The segments.
    pub ids: Vec<u64>,
    /// The level of what they become.
    pub level: u8,
    /// How their rows are divided.
    pub split: Split,
}

/// The hour of a time, counted from 1970.
pub fn hour_of(ts_us: i64) -> i64 {
    ts_us.div_euclid(HOUR_US)
}

/// The level by which a segment is merged: rows of several hours are divided, whatever wrote them.
fn level_of(segment: &SegmentInfo) -> u8 {
    match hour_of(segment.min_ts_us) == hour_of(segment.max_ts_us) {
        true => segment.level,
        false => segment.level.min(MIXED_LEVELS - 1),
    }
}

/// The most urgent merge: small segments first, because every query reads them all.
pub fn next(segments: &[SegmentInfo], options: &MergeOptions, now_us: i64) -> Option<Merge> {
    for level in 0..MIXED_LEVELS {
        let ids: Vec<u64> =
            segments.iter().filter(|it| level_of(it) == level).map(|it| it.id).collect();
        if ids.len() >= options.fan_in {
            let is_last = level + 1 == MIXED_LEVELS;
            let split = if is_last { Split::Hours } else { Split::No };
            return Some(Merge { ids, level: level + 1, split });
        }
    }
    let mut hours: BTreeMap<i64, Vec<&SegmentInfo>> = BTreeMap::new();
    for segment in segments.iter().filter(|it| level_of(it) >= MIXED_LEVELS) {
        if segment.bytes < options.bytes_max {
            hours.entry(hour_of(segment.min_ts_us)).or_default().push(segment);
        }
    }
    hours.iter().find_map(|(&hour, of_hour)| next_of_hour(hour, of_hour, options, now_us))
}

fn next_of_hour(
    hour: i64,
    segments: &[&SegmentInfo],
    options: &MergeOptions,
    now_us: i64,
) -> Option<Merge> {
    let merge = |segments: &[&SegmentInfo]| {
        let level = segments.iter().map(|it| it.level).max().unwrap_or(0);
        let ids = segments.iter().map(|it| it.id).collect();
        Some(Merge { ids, level: (level + 1).min(LEVEL_MAX), split: Split::No })
    };
    let end_us = (hour + 1).saturating_mul(HOUR_US);
    let is_settled = now_us.saturating_sub(end_us) >= options.settled_us;
    let bytes: u64 = segments.iter().map(|it| it.bytes).sum();
    let largest = segments.iter().map(|it| it.bytes).max().unwrap_or(0);
    // Late records must not rewrite the whole hour again and again.
    let is_worth = (bytes - largest) * 4 >= largest || segments.len() >= options.fan_in;
    if is_settled && segments.len() > 1 && is_worth {
        return merge(segments);
    }
    for level in MIXED_LEVELS..LEVEL_MAX {
        let of_level: Vec<&SegmentInfo> =
            segments.iter().copied().filter(|it| it.level == level).collect();
        if of_level.len() >= options.fan_in {
            return merge(&of_level);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(id: u64, level: u8, hour: i64, bytes: u64) -> SegmentInfo {
        let at = hour * HOUR_US + 5;
        SegmentInfo { id, level, rows: 1, bytes, rollup_bytes: None, min_ts_us: at, max_ts_us: at }
    }

    #[test]
    fn small_segments_first_then_hours_that_are_over() {
        let options = MergeOptions { fan_in: 3, ..MergeOptions::default() };
        let now = 100 * HOUR_US + 1;
        let mut all: Vec<_> = (1..3).map(|id| segment(id, 0, 100, 10)).collect();
        assert_eq!(next(&all, &options, now), None);
        all.push(segment(3, 0, 100, 10));
        let mixed = Merge { ids: vec![1, 2, 3], level: 1, split: Split::No };
        assert_eq!(next(&all, &options, now), Some(mixed));
        for segment in &mut all {
            segment.level = 1;
        }
        let hours = Merge { ids: vec![1, 2, 3], level: 2, split: Split::Hours };
        assert_eq!(next(&all, &options, now), Some(hours.clone()));

        // Written by an earlier version.
        all[2].level = 2;
        all[2].max_ts_us += 40 * HOUR_US;
        assert_eq!(next(&all, &options, now), Some(hours));
        all[2].max_ts_us = all[2].min_ts_us;
        assert_eq!(next(&all, &options, now), None);

        let old = [segment(4, 2, 50, 100), segment(5, 3, 50, 100), segment(6, 2, 51, 100)];
        let hour = Merge { ids: vec![4, 5], level: 4, split: Split::No };
        assert_eq!(next(&old, &options, now), Some(hour));
        // The hour is not over.
        assert_eq!(next(&old, &options, 51 * HOUR_US), None);
        // A little that came late, and a segment that is large enough.
        assert_eq!(next(&[segment(4, 4, 50, 1_000), segment(5, 2, 50, 10)], &options, now), None);
        let large = [segment(4, 4, 50, 1 << 40), segment(5, 2, 50, 1 << 40)];
        assert_eq!(next(&large, &options, now), None);
    }

    #[test]
    fn merging_ends() {
        let options = MergeOptions { fan_in: 3, ..MergeOptions::default() };
        let mut all: Vec<_> = (1..100).map(|id| segment(id, 0, id as i64 % 5, 10)).collect();
        let mut next_id = 100;
        let mut count = 0;
        while let Some(merge) = next(&all, &options, 1_000 * HOUR_US) {
            let merged: Vec<_> = all.extract_if(.., |it| merge.ids.contains(&it.id)).collect();
            assert_eq!(merged.len(), merge.ids.len());
            for hour in 0..5 {
                let bytes = merged.len() as u64 * 2;
                all.push(segment(next_id, merge.level, hour, bytes));
                next_id += 1;
                if merge.split == Split::No {
                    break;
                }
            }
            count += 1;
            assert!(count < 200, "{all:?}");
        }
    }
}
