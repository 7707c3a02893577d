//! How long a start waits for another writer of the log.
//!
//! A server that does not wait is one without an audit log; one that waits for ever is none at all. Who
//! holds the lock to write what a dead server has left says so, and comes to an end: it is waited for as
//! long as the log grows. Anybody else may hold it for ever.

use std::fs::DirEntry;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tacho_logdir::is_recovering;
use tacho_recorder::control::Severity;
use tacho_recorder::opening::OpenError;

use crate::error_log;

/// For a writer that says nothing of what it does. Then this is told.
const OTHER: Duration = Duration::from_secs(5);
/// The same where that may be a recorder, whose server has just died and which does not know it yet.
const RECORDER: Duration = Duration::from_secs(60);
/// For one that writes what a dead server has left, and gets no further.
const STALLED: Duration = Duration::from_secs(60);
/// For all of it together: systemd waits for MariaDB for 15 minutes.
const ALTOGETHER: Duration = Duration::from_secs(600);
/// How often is looked how far it is.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How often it is told.
const TELL_EVERY: Duration = Duration::from_secs(30);

/// See the module documentation. Times are those since the start began to wait.
pub struct Patience {
    log_directory: PathBuf,
    since: Instant,
    limits: Limits,
    looked: Option<Duration>,
    told: Option<Duration>,
}

/// When it is over.
struct Limits {
    /// For a writer that says nothing.
    other: Duration,
    /// Whether the holder says that it writes what a dead server has left, and since when it says so, or
    /// does not.
    recovers: (bool, Duration),
    /// How large the log was when it last grew, and when that was.
    grown: (u64, Duration),
}

impl Limits {
    /// Whether it is worth waiting at this time.
    fn go_on(&mut self, now: Duration, recovers: bool, log_bytes: u64) -> bool {
        if recovers != self.recovers.0 {
            self.recovers = (recovers, now);
            self.grown = (log_bytes, now);
        }
        // Less is as good: a file was packed.
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

impl Patience {
    /// Of a start. `external`: a recorder is to write, and may hold the log.
    pub fn new(log_directory: &Path, external: bool) -> Patience {
        let other = if external { RECORDER } else { OTHER };
        let (recovers, grown) = ((false, Duration::ZERO), (0, Duration::ZERO));
        Patience {
            log_directory: log_directory.to_owned(),
            since: Instant::now(),
            limits: Limits { other, recovers, grown },
            looked: None,
            told: None,
        }
    }

    /// Whether the lock, for which there is this `error`, is to be waited for.
    pub fn goes_on(&mut self, error: &OpenError) -> bool {
        let now = self.since.elapsed();
        if self.looked.is_some_and(|looked| now - looked < LOOK_EVERY) {
            return true;
        }
        self.looked = Some(now);
        let recovers = is_recovering(&self.log_directory);
        let is_worth_it = self.limits.go_on(now, recovers, log_bytes(&self.log_directory));
        let is_due = self.told.is_none_or(|told| now - told >= TELL_EVERY);
        if is_worth_it && now >= OTHER && is_due {
            self.told = Some(now);
            let text = if recovers {
                format!(
                    "{error} It writes what a server has left that died, and is waited for while it gets \
                     on, {} minutes at most",
                    ALTOGETHER.as_secs() / 60
                )
            } else {
                format!("{error} It is waited for, {} seconds at most", self.limits.other.as_secs())
            };
            error_log::write(Severity::Warning, &text);
        }
        is_worth_it
    }
}

/// Length of all files of a log. What cannot be looked at does not count: it is a sign of life, no more.
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
    fn who_says_nothing_is_waited_for_for_seconds() {
        let mut limits = limits();
        assert!(limits.go_on(seconds(5), false, 1));
        assert!(!limits.go_on(seconds(6), false, 2), "it may write for ever");
    }

    #[test]
    fn who_recovers_is_waited_for_while_it_gets_on() {
        let mut limits = limits();
        assert!(limits.go_on(seconds(4), true, 7));
        for time in 1..=8 {
            assert!(limits.go_on(seconds(60 * time), true, 100 + time));
        }
        assert!(limits.go_on(seconds(540), true, 108));
        assert!(!limits.go_on(seconds(541), true, 108), "it hangs");
        // The server that takes the log next may serve for ever.
        assert!(limits.go_on(seconds(545), false, 108));
        assert!(!limits.go_on(seconds(551), false, 109));
    }

    #[test]
    fn no_start_waits_for_ever() {
        let mut limits = limits();
        assert!((0..=600).all(|time| limits.go_on(seconds(time), true, time)));
        assert!(!limits.go_on(seconds(601), true, 601));
    }
}
