//! Free space on the disk, and the warning that it is low.
//!
//! When the disk is full the server waits for it (`tacho_overflow`), so an operator needs an early
//! warning: when the free space falls below the limit, at each half of what was left then, and when
//! there is enough again.

use std::sync::atomic::Ordering;

use tacho_logdir::{Fs, LogFiles, Space};
use tacho_ring::sys;
use tacho_settings::Setting;

use super::context::Context;
use super::rate_limit::RateLimit;
use crate::control::Severity;

/// Interval between checks, µs: at 100 MB a second, a gigabyte is written between two of them.
const LOOK_EVERY_US: i64 = 10_000_000;

/// The last reported state of the free space.
#[derive(Debug, Default)]
pub(super) struct SpaceWatch {
    look_at_us: i64,
    /// `None`: there is enough. Otherwise the free space at which to report again, bytes.
    warn_at_bytes: Option<u64>,
    percent: u64,
    limit: RateLimit,
    failure_limit: RateLimit,
}

/// What to report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum News {
    Short,
    Enough,
}

impl SpaceWatch {
    /// Decides whether to report the free space.
    fn news(&mut self, space: Space, percent: u64) -> Option<News> {
        if std::mem::replace(&mut self.percent, percent) != percent {
            self.warn_at_bytes = None;
        }
        let limit_bytes = space.total_bytes / 100 * percent;
        if space.free_bytes < limit_bytes {
            if self.warn_at_bytes.is_some_and(|at_bytes| space.free_bytes > at_bytes) {
                return None;
            }
            self.warn_at_bytes = Some(space.free_bytes / 2);
            return Some(News::Short);
        }
        // A little above the limit, so that small changes are not reported again and again.
        let is_enough = space.free_bytes >= limit_bytes + limit_bytes / 10;
        (is_enough && self.warn_at_bytes.take().is_some()).then_some(News::Enough)
    }

    /// Checks the free space at intervals.
    pub(super) fn look<F: Fs>(&mut self, files: &LogFiles<F>, context: &Context) {
        let now_us = sys::monotonic_us();
        let percent = context.control.setting(Setting::DiskWarnPercent);
        if now_us < self.look_at_us && percent == self.percent {
            return;
        }
        self.look_at_us = now_us + LOOK_EVERY_US;
        let space = match files.space() {
            Ok(space) => space,
            Err(error) => {
                if self.failure_limit.allows(now_us) {
                    context.say(Severity::Warning, &error.to_string());
                }
                return;
            }
        };
        context.status.disk_free_bytes.store(space.free_bytes, Ordering::Relaxed);
        match self.news(space, percent) {
            Some(News::Short) => self.warn(space, now_us, context),
            Some(News::Enough) => {
                context.say(Severity::Note, "there is enough room for the audit log again");
            }
            None => {}
        }
    }

    fn warn(&mut self, space: Space, now_us: i64, context: &Context) {
        let Space { free_bytes, total_bytes } = space;
        let text = format!(
            "the file system of the audit log has {free_bytes} of {total_bytes} bytes left, less \
             than {}. When it is full, {} decides what happens. Free space, or keep less ({}, {}, {})",
            context.name(Setting::DiskWarnPercent),
            context.name(Setting::Overflow),
            context.name(Setting::RetentionDays),
            context.name(Setting::RetentionBytes),
            context.name(Setting::RetentionFiles)
        );
        if self.limit.allows(now_us) {
            context.say(Severity::Warning, &text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn low_space_is_reported_at_the_limit_and_at_each_half() {
        let mut watch = SpaceWatch::default();
        let mut news =
            |free_bytes, percent| watch.news(Space { free_bytes, total_bytes: 10_000 }, percent);
        assert_eq!(news(5000, 10), None);
        assert_eq!(news(1000, 10), None);
        assert_eq!(news(999, 10), Some(News::Short));
        assert_eq!(news(998, 10), None);
        assert_eq!(news(1001, 10), None, "up and down around the limit");
        assert_eq!(news(500, 10), None);
        assert_eq!(news(499, 10), Some(News::Short));
        assert_eq!(news(100, 10), Some(News::Short));
        assert_eq!(news(0, 10), Some(News::Short));
        assert_eq!(news(5000, 10), Some(News::Enough));
        assert_eq!(news(5000, 10), None);
        // Another limit starts anew; without one nothing is reported.
        assert_eq!(news(5000, 60), Some(News::Short));
        assert_eq!(news(5000, 0), None);
        assert_eq!(news(0, 0), None);
        assert_eq!(news(5000, 60), Some(News::Short));
    }
}
