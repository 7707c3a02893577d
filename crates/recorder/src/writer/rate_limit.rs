//! Limits repeated messages: a few at once, then rarely. Otherwise one recurring problem would hide
//! all others in the error log, and might fill the disk.

/// How many messages of one kind may follow each other at once.
const AT_ONCE: u32 = 3;
/// After that, one more message is allowed each time this much time has passed, µs.
const EVERY_US: i64 = 60_000_000;

/// Decides whether to report something again.
#[derive(Debug)]
pub(super) struct RateLimit {
    left: u32,
    /// Start of the interval after which another message is allowed, while `left` is not the
    /// maximum.
    since_us: i64,
}

impl Default for RateLimit {
    fn default() -> RateLimit {
        RateLimit { left: AT_ONCE, since_us: 0 }
    }
}

impl RateLimit {
    /// `true`: report it. `now_us` comes from a monotonic clock.
    pub(super) fn allows(&mut self, now_us: i64) -> bool {
        let earned = u32::try_from((now_us - self.since_us) / EVERY_US).unwrap_or(0);
        self.left = self.left.saturating_add(earned).min(AT_ONCE);
        self.since_us += i64::from(earned) * EVERY_US;
        if self.left == AT_ONCE {
            self.since_us = now_us;
        }
        let allowed = self.left > 0;
        self.left -= u32::from(allowed);
        allowed
    }
}

/// Periods in which the log cannot be written.
#[derive(Debug, Default)]
pub(super) struct Outages {
    failing: bool,
    /// The current one was reported.
    reported: bool,
    /// Number of past ones that were not reported.
    unreported: u64,
    limit: RateLimit,
}

impl Outages {
    /// Whether the log cannot be written now.
    pub(super) fn is_failing(&self) -> bool {
        self.failing
    }

    /// A write has failed. If this must be reported now: the number of earlier unreported periods.
    pub(super) fn failed(&mut self, now_us: i64) -> Option<u64> {
        if !std::mem::replace(&mut self.failing, true) {
            self.reported = false;
        }
        if self.reported || !self.limit.allows(now_us) {
            return None;
        }
        self.reported = true;
        Some(std::mem::take(&mut self.unreported))
    }

    /// A write has succeeded. `true`: report the end of the period.
    pub(super) fn succeeded(&mut self) -> bool {
        if !std::mem::take(&mut self.failing) {
            return false;
        }
        self.unreported += u64::from(!self.reported);
        self.reported
    }

    /// Number of past periods to report now, although none is in progress.
    pub(super) fn overdue(&mut self, now_us: i64) -> Option<u64> {
        let due = !self.failing && self.unreported > 0 && self.limit.allows(now_us);
        due.then(|| std::mem::take(&mut self.unreported))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_at_once_and_then_one_a_minute() {
        let mut limit = RateLimit::default();
        let second = 1_000_000;
        let reported: Vec<i64> = (0..600).filter(|n| limit.allows(1_000 + n * second)).collect();
        assert_eq!(reported, [0, 1, 2, 60, 120, 180, 240, 300, 360, 420, 480, 540]);
        // After a quiet time all messages are allowed again, and no more.
        let later = 10_000 * second;
        let reported = (0..60).filter(|n| limit.allows(later + n * second)).count();
        assert_eq!(reported as u32, AT_ONCE);
    }

    #[test]
    fn unreported_outages_are_counted() {
        let mut outages = Outages::default();
        let mut now_us = 5;
        for _ in 0..AT_ONCE {
            assert_eq!(outages.failed(now_us), Some(0));
            assert_eq!(outages.failed(now_us + 1), None, "a lasting one is reported once");
            assert!(outages.succeeded() && !outages.succeeded());
        }
        for _ in 0..7 {
            assert_eq!(outages.failed(now_us), None);
            assert!(!outages.succeeded(), "its beginning was not reported");
        }
        assert_eq!(outages.overdue(now_us), None);
        // A lasting period is reported in the end, and then its end.
        assert_eq!(outages.failed(now_us), None);
        now_us += EVERY_US;
        assert_eq!(outages.failed(now_us), Some(7));
        assert!(outages.is_failing() && outages.succeeded());
        // So are past ones, even if none follows.
        assert_eq!(outages.failed(now_us), None);
        assert!(!outages.succeeded());
        now_us += EVERY_US;
        assert_eq!(outages.overdue(now_us), Some(1));
        assert_eq!(outages.overdue(now_us + EVERY_US), None);
    }
}
