//! Pauses: back-off, `Retry-After`, most bytes per second.

use std::time::{Duration, Instant};

/// First and longest pause after a failure.
const FIRST: Duration = Duration::from_millis(200);
const MAX: Duration = Duration::from_secs(30);
/// Longest pause that a hub can ask for.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(300);
/// Pause after a failure that only an operator can repair.
pub const SELDOM: Duration = Duration::from_secs(60);
/// How much may be sent at once after a time without sending.
const BURST: Duration = Duration::from_secs(1);

/// Growing pauses.
#[derive(Debug)]
pub struct Backoff {
    next: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { next: FIRST }
    }
}

impl Backoff {
    /// The next pause. `chance` is a random number: many shippers must not come back at once.
    pub fn pause(&mut self, retry_after: Option<Duration>, chance: u32) -> Duration {
        if let Some(pause) = retry_after {
            return pause.min(RETRY_AFTER_MAX);
        }
        let longest = self.next;
        self.next = (2 * longest).min(MAX);
        let half = longest / 2;
        half + half.mul_f64(f64::from(chance) / f64::from(u32::MAX))
    }

    /// It worked.
    pub fn reset(&mut self) {
        *self = Self::default();
    }
}

/// Most bytes per second.
#[derive(Debug)]
pub struct Rate {
    /// When what was sent is paid for.
    paid: Instant,
}

impl Rate {
    /// Nothing was sent yet.
    #[must_use]
    pub fn new(now: Instant) -> Self {
        Self { paid: now }
    }

    /// Counts bytes that were sent. 0 bytes per second: unlimited.
    pub fn sent(&mut self, now: Instant, bytes: usize, bytes_per_second: u64) {
        if bytes_per_second > 0 {
            let from = self.paid.max(now.checked_sub(BURST).unwrap_or(now));
            self.paid = from + Duration::from_secs_f64(bytes as f64 / bytes_per_second as f64);
        }
    }

    /// How long to wait before more is sent.
    #[must_use]
    pub fn pause(&self, now: Instant) -> Duration {
        self.paid.saturating_duration_since(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_and_differ() {
        let mut backoff = Backoff::default();
        assert_eq!(backoff.pause(None, 0), FIRST / 2);
        assert_eq!(backoff.pause(None, u32::MAX), 2 * FIRST);
        for _ in 0..20 {
            backoff.pause(None, 0);
        }
        assert_eq!(backoff.pause(None, u32::MAX), MAX);
        assert_eq!(backoff.pause(Some(Duration::from_secs(7)), 0), Duration::from_secs(7));
        assert_eq!(backoff.pause(Some(Duration::MAX), 0), RETRY_AFTER_MAX);
        backoff.reset();
        assert_eq!(backoff.pause(None, u32::MAX), FIRST);
    }

    #[test]
    fn bytes_are_paid_for_with_time() {
        let begin = Instant::now() + Duration::from_secs(100);
        let mut rate = Rate::new(begin);
        rate.sent(begin, 500, 1000);
        assert_eq!(rate.pause(begin), Duration::from_millis(500));
        rate.sent(begin, 500, 1000);
        assert_eq!(rate.pause(begin), Duration::from_secs(1));
        // After a long time without sending, a second's worth is free.
        let later = begin + Duration::from_secs(60);
        rate.sent(later, 1500, 1000);
        assert_eq!(rate.pause(later), Duration::from_millis(500));
        rate.sent(later, 1500, 0);
        assert_eq!(rate.pause(later), Duration::from_millis(500));
    }
}
