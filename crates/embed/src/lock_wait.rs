//! How long a start waits for another writer of the log.
//!
//! A server that does not wait has no audit log; one that waits for ever does not start. A process
//! that holds the lock to recover what a dead server left announces this, and will finish: the
//! start waits while the log grows. Any other process may hold the lock for ever.

use std::fs::DirEntry;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tacho_logdir::is_recovering;
use tacho_recorder::control::Severity;
use tacho_recorder::opening::OpenError;

use crate::error_log;

/// Limit for a writer that announces nothing. After this time the wait is reported.
const OTHER: Duration = Duration::from_secs(5);
/// The same if it may be a recorder that has not noticed the death of its server yet.
const RECORDER: Duration = Duration::from_secs(60);
/// Limit without progress for a process that recovers what a dead server left.
const STALLED: Duration = Duration::from_secs(60);
/// Limit for the whole wait: systemd waits for MariaDB for 15 minutes.
const ALTOGETHER: Duration = Duration::from_secs(600);
/// Interval between checks of the progress.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Interval between messages.
const REPORT_EVERY: Duration = Duration::from_secs(30);

/// A wait for the lock, see the module documentation. Times are relative to its beginning.
pub struct LockWait {
    log_directory: PathBuf,
    since: Instant,
    limits: Limits,
    looked: Option<Duration>,
    reported: Option<Duration>,
}

/// When the wait ends.
struct Limits {
    /// Limit for a writer that announces nothing.
    other: Duration,
    /// Whether the holder announces that it recovers what a dead server left, and since when this
    /// has not changed.
    recovers: (bool, Duration),
    /// Size of the log when it last grew, and that time.
    grown: (u64, Duration),
}

impl Limits {
    /// Whether to continue waiting at this time.
    fn allows(&mut self, now: Duration, recovers: bool, log_bytes: u64) -> bool {
        if recovers != self.recovers.0 {
            self.recovers = (recovers, now);
            self.grown = (log_bytes, now);
        }
        // A smaller size is progress, too: a file was packed.
        if log_bytes != self.grown.0 {
            self.grown = (log_bytes, now);
        }
        let is_near_its_end = if recovers {
            now - self.grown.1 <= STALLED
        } else {
            now - self.recovers.1 <= self.other
        };
        is_near_its_end && now <= ALTOGETHER
    }
}

impl LockWait {
    /// Begins to wait. `external`: a recorder is to write, and may hold the log.
    pub fn new(log_directory: &Path, external: bool) -> LockWait {
        let other = if external { RECORDER } else { OTHER };
        let (recovers, grown) = ((false, Duration::ZERO), (0, Duration::ZERO));
        LockWait {
            log_directory: log_directory.to_owned(),
            since: Instant::now(),
            limits: Limits { other, recovers, grown },
            looked: None,
            reported: None,
        }
    }

    /// Whether to continue waiting for the lock, which failed with `error`.
    pub fn continues(&mut self, error: &OpenError) -> bool {
        let now = self.since.elapsed();
        if self.looked.is_some_and(|looked| now - looked < LOOK_EVERY) {
            return true;
        }
        self.looked = Some(now);
        let recovers = is_recovering(&self.log_directory);
        let is_worth_it = self.limits.allows(now, recovers, log_bytes(&self.log_directory));
        let is_due = self.reported.is_none_or(|reported| now - reported >= REPORT_EVERY);
        if is_worth_it && now >= OTHER && is_due {
            self.reported = Some(now);
            let text = if recovers {
                format!(
                    "{error} It recovers what a dead server left; this start waits while it makes \
                     progress, {} minutes at most",
                    ALTOGETHER.as_secs() / 60
                )
            } else {
                format!(
                    "{error} This start waits for it, {} seconds at most",
                    self.limits.other.as_secs()
                )
            };
            error_log::write(Severity::Warning, &text);
        }
        is_worth_it
    }
}

/// Length of all files of a log. Files whose length is unknown do not count: the sum only shows
/// progress.
fn log_bytes(directory: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(directory) else { return 0 };
    let bytes = |entry: DirEntry| entry.metadata().map_or(0, |it| it.len());
    entries.filter_map(Result::ok).map(bytes).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn limits() -> Limits {
        Limits { other: OTHER, recovers: (false, seconds(0)), grown: (0, seconds(0)) }
    }

    #[test]
    fn the_wait_for_a_silent_writer_takes_seconds() {
        let mut limits = limits();
        assert!(limits.allows(seconds(5), false, 1));
        assert!(!limits.allows(seconds(6), false, 2), "it may never end");
    }

    #[test]
    fn the_wait_for_a_recovery_lasts_while_it_makes_progress() {
        let mut limits = limits();
        assert!(limits.allows(seconds(4), true, 7));
        for time in 1..=8 {
            assert!(limits.allows(seconds(60 * time), true, 100 + time));
        }
        assert!(limits.allows(seconds(540), true, 108));
        assert!(!limits.allows(seconds(541), true, 108), "no progress");
        // The server that takes the log next may run for ever.
        assert!(limits.allows(seconds(545), false, 108));
        assert!(!limits.allows(seconds(551), false, 109));
    }

    #[test]
    fn no_start_waits_for_ever() {
        let mut limits = limits();
        assert!((0..=600).all(|time| limits.allows(seconds(time), true, time)));
        assert!(!limits.allows(seconds(601), true, 601));
    }
}
