//! Room on the disk, and the warning that it ends.
//!
//! When the disk is full the server waits for it (`tacho_overflow`), so somebody has to hear of it
//! before. Told when the limit is passed, at each half of what was left then, and when there is
//! enough again.

use std::sync::atomic::Ordering;

use tacho_logdir::{Fs, LogFiles, Space};
use tacho_ring::sys;

use super::context::Context;
use super::rate_limit::RateLimit;
use crate::control::Severity;

/// How often is looked: at 100 MB a second, a gigabyte is written between two looks, µs.
const LOOK_EVERY_US: i64 = 10_000_000;

/// What was last told of the room on the disk.
#[derive(Debug, Default)]
pub(super) struct SpaceWatch {
    look_at_us: i64,
    /// `None`: there is enough. Otherwise the room at which it is told again, bytes.
    warn_at_bytes: Option<u64>,
    percent: u64,
    limit: RateLimit,
    failure_limit: RateLimit,
}

/// What is to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum News {
    Short,
    Enough,
}

impl SpaceWatch {
    /// Whether the room there is now is worth a word.
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
        // A little more than the limit, or it would be told again and again.
        let is_enough = space.free_bytes >= limit_bytes + limit_bytes / 10;
        (is_enough && self.warn_at_bytes.take().is_some()).then_some(News::Enough)
    }

    /// Looks how much room there is, now and then.
    pub(super) fn look<F: Fs>(&mut self, files: &LogFiles<F>, context: &Context) {
        let now_us = sys::monotonic_us();
        let percent = context.control.disk_warn_percent.load(Ordering::Relaxed);
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
            context.name("disk_warn_percent"),
            context.name("overflow"),
            context.name("retention_days"),
            context.name("retention_bytes"),
            context.name("retention_files")
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
    fn it_is_told_when_it_ends_and_at_each_half() {
        let mut watch = SpaceWatch::default();
        let mut told =
            |free_bytes, percent| watch.news(Space { free_bytes, total_bytes: 10_000 }, percent);
        assert_eq!(told(5000, 10), None);
        assert_eq!(told(1000, 10), None);
        assert_eq!(told(999, 10), Some(News::Short));
        assert_eq!(told(998, 10), None);
        assert_eq!(told(1001, 10), None, "up and down around the limit");
        assert_eq!(told(500, 10), None);
        assert_eq!(told(499, 10), Some(News::Short));
        assert_eq!(told(100, 10), Some(News::Short));
        assert_eq!(told(0, 10), Some(News::Short));
        assert_eq!(told(5000, 10), Some(News::Enough));
        assert_eq!(told(5000, 10), None);
        // Another limit is another question; none is no question.
        assert_eq!(told(5000, 60), Some(News::Short));
        assert_eq!(told(5000, 0), None);
        assert_eq!(told(0, 0), None);
        assert_eq!(told(5000, 60), Some(News::Short));
    }
}
