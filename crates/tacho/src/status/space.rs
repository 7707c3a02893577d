//! The disk, and when limits are reached.

use tacho_logdir::{Fs as _, RealFs, Space};

use super::log::{Log, advice, age};
use super::report::{Health, Report};
use super::spec::{Check, Metric};
use crate::limits::Limits;
use crate::say;

const DAY_S: f64 = 86_400.0;
/// The growth is that of this time, if the log is as old.
const WINDOW_S: f64 = 7.0 * DAY_S;
/// The growth of a shorter time says nothing.
const AGE_MIN_S: f64 = 3_600.0;

/// How a log grows.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Growth {
    /// Bytes of all files now.
    bytes: f64,
    /// Number of files now.
    files: f64,
    /// Bytes in a second.
    rate: f64,
}

impl Growth {
    /// Of files by the times at which they were begun, oldest first. `None`: the log is too young,
    /// or does not grow.
    fn of(sizes: &[(i64, u64)], now_s: f64) -> Option<Self> {
        let mut new_bytes = 0.0;
        let mut span_s = 0.0;
        for (begun_s, bytes) in sizes.iter().rev() {
            if span_s >= WINDOW_S {
                break;
            }
            new_bytes += *bytes as f64;
            span_s = now_s - *begun_s as f64;
        }
        let bytes = sizes.iter().map(|(_, bytes)| *bytes as f64).sum();
        let rate = new_bytes / span_s;
        (span_s >= AGE_MIN_S && rate > 0.0).then_some(Self {
            bytes,
            files: sizes.len() as f64,
            rate,
        })
    }

    /// The most that retention keeps, bytes, and how far that reaches back, s. Infinite: no limit.
    fn kept(&self, limits: &Limits) -> (f64, f64) {
        let limit = |number: u64, bytes: f64| if number == 0 { f64::INFINITY } else { bytes };
        let keep = limits.keep;
        let by_age = limit(keep.days, self.rate * keep.days as f64 * DAY_S);
        let by_size = limit(keep.bytes, keep.bytes as f64);
        // And the file that is written.
        let by_count = (keep.files as f64 + 1.0) * self.bytes / self.files;
        let most = by_age.min(by_size).min(limit(keep.files, by_count));
        (most, most / self.rate)
    }
}

/// Answers `disk`, `disk-full` and `reach`.
pub fn look(report: &mut Report, log: &Log, limits: &Limits) {
    let growth = Growth::of(&log.sizes, report.now_us as f64 / 1e6);
    if let Some(growth) = growth {
        report.set(Metric::Growth, growth.rate * DAY_S);
        if limits.keep.bytes > 0 {
            let left_s = (limits.keep.bytes as f64 - growth.bytes).max(0.0) / growth.rate;
            report.set(Metric::LimitIn, left_s);
        }
    }
    let space = match RealFs.space(&log.path) {
        Ok(space) => space,
        Err(error) => {
            let text = format!("cannot read the free space: {error}{}", advice(&error));
            report.note(Check::Disk, Health::Unknown, text);
            return;
        }
    };
    show_disk(report, space);
    match growth {
        Some(growth) => forecast(report, &growth, limits, space),
        None => {
            let text = "no forecast: the log is less than an hour old, or does not grow";
            report.note(Check::DiskFull, Health::Ok, text);
            report.note(Check::Reach, Health::Ok, text);
        }
    }
}

fn show_disk(report: &mut Report, space: Space) {
    report.set(Metric::DiskFree, space.free_bytes as f64);
    report.set(Metric::DiskSize, space.total_bytes as f64);
    let percent = space.free_bytes as f64 * 100.0 / (space.total_bytes.max(1)) as f64;
    let (free, total) = (say::bytes(space.free_bytes), say::bytes(space.total_bytes));
    report.measure(Check::Disk, percent, format!("{free} of {total} free ({percent:.1} %)"));
}

fn forecast(report: &mut Report, growth: &Growth, limits: &Limits, space: Space) {
    let speed = format!("at {} a day", say::bytes((growth.rate * DAY_S) as u64));
    let assumed = if limits.is_known { "" } else { " (by default settings; see --config)" };
    let free = space.free_bytes as f64;
    let (kept_bytes, kept_s) = growth.kept(limits);
    if kept_bytes - growth.bytes <= free {
        let kept = say::bytes(kept_bytes as u64);
        let text = format!("retention keeps {kept}{assumed}, for which there is space, {speed}");
        report.note(Check::DiskFull, Health::Ok, text);
    } else {
        let left_s = free / growth.rate;
        let text = format!("the log fills the disk in {} {speed}{assumed}", age(left_s));
        report.measure(Check::DiskFull, left_s, text);
    }
    let reach_s = kept_s.min((growth.bytes + free) / growth.rate);
    let text = format!("the log will reach back {} {speed}{assumed}", age(reach_s));
    report.measure(Check::Reach, reach_s, text);
}

#[cfg(test)]
mod tests {
    use super::*;
    use tacho_logdir::Keep;

    const GB: u64 = 1_000_000_000;
    const DAY: i64 = 86_400;

    #[test]
    fn the_growth_is_that_of_a_week() {
        let now_s = 1_000.0 * DAY_S;
        let files = |ages: &[i64]| -> Vec<(i64, u64)> {
            ages.iter().map(|age| (1_000 * DAY - age, GB)).collect()
        };
        let rate =
            |sizes: &[(i64, u64)]| Growth::of(sizes, now_s).map(|it| (it.rate * DAY_S).round());
        assert_eq!(rate(&[]), None);
        assert_eq!(rate(&files(&[3_599])), None, "too young");
        assert_eq!(rate(&files(&[DAY])), Some(1e9));
        // Ten files of a day each; the oldest ones do not count.
        let days: Vec<i64> = (1..=10).rev().map(|day| day * DAY).collect();
        assert_eq!(rate(&files(&days)), Some(1e9));
        // One file in a month.
        assert_eq!(rate(&files(&[30 * DAY])), Some(33_333_333.0));
        assert_eq!(rate(&[(990 * DAY, 0)]), None, "it does not grow");
        assert_eq!(rate(&files(&[-DAY])), None, "from the future");
    }

    #[test]
    fn the_lowest_limit_counts() {
        let growth = Growth { bytes: 10e9, files: 10.0, rate: 1e9 / DAY_S };
        let kept = |days, bytes, files| {
            let keep = Keep { days, bytes, files };
            let limits = Limits { keep, is_known: true, ..Limits::default() };
            let (bytes, seconds) = growth.kept(&limits);
            ((bytes / 1e9).round(), (seconds / DAY_S).round())
        };
        assert_eq!(kept(0, 0, 0), (f64::INFINITY, f64::INFINITY));
        assert_eq!(kept(183, 0, 0), (183.0, 183.0));
        assert_eq!(kept(183, 20 * GB, 0), (20.0, 20.0));
        assert_eq!(kept(183, 20 * GB, 9), (10.0, 10.0));
        assert_eq!(kept(7, 20 * GB, 9), (7.0, 7.0));
    }
}
