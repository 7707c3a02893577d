//! Whether an external recorder hangs.
//!
//! It sends messages on one thread and writes on another one: both are checked. A round of the
//! writer may take long on a slow disk, so lines that reach the file count as well as its
//! beginning.

use std::sync::atomic::Ordering;

use tacho_ring::layout::WriterState;

/// A recorder that sent nothing for this long hangs, µs. It sends a message every second.
pub const SILENCE_US: i64 = 5_000_000;

/// The progress of a writer, and since when it has not changed.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// The stored beginning of a round, and the last line in the file.
    seen: (i64, u64),
    /// µs of a monotonic clock.
    since_us: i64,
}

impl Progress {
    /// Nothing has been seen before `now_us`.
    pub fn new(now_us: i64) -> Self {
        Self { seen: (0, 0), since_us: now_us }
    }

    /// Looks at what a writer keeps in the arena: [`Self::update`].
    pub fn look(&mut self, writer: &WriterState, now_us: i64) -> i64 {
        let heartbeat_us = writer.heartbeat_us.load(Ordering::Relaxed);
        self.update((heartbeat_us, writer.written_seq.load(Ordering::Relaxed)), now_us)
    }

    /// Returns for how long nothing has changed, µs.
    fn update(&mut self, seen: (i64, u64), now_us: i64) -> i64 {
        if seen != self.seen {
            *self = Self { seen, since_us: now_us };
        }
        now_us - self.since_us
    }
}

/// Whether a recorder hangs, given the time since its last message and since the last progress of
/// its writer, µs. It sleeps for the interval between rounds.
pub fn is_silent(heard_us: i64, progress_us: i64, flush_interval_ms: u64) -> bool {
    let interval_us = i64::try_from(flush_interval_ms.saturating_mul(1_000)).unwrap_or(i64::MAX);
    heard_us > SILENCE_US || progress_us > SILENCE_US.saturating_add(interval_us)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recorder_that_sends_messages_but_does_not_write_hangs() {
        let later_us = SILENCE_US + 1;
        assert!(!is_silent(SILENCE_US, SILENCE_US, 0));
        assert!(is_silent(later_us, 0, 100));
        assert!(is_silent(0, later_us + 100_000, 100));
        assert!(!is_silent(0, later_us, 100), "it may be asleep");
        assert!(!is_silent(0, i64::MAX, u64::MAX));
    }

    #[test]
    fn a_long_round_that_writes_is_progress() {
        let mut progress = Progress::new(0);
        let [before_us, later_us] = [SILENCE_US, 2 * SILENCE_US];
        assert_eq!(progress.update((1, 10), before_us), 0);
        assert_eq!(progress.update((1, 11), later_us), 0);
        assert_eq!(progress.update((1, 11), later_us + 7), 7);
        assert_eq!(progress.update((2, 11), later_us + 8), 0);
    }
}
