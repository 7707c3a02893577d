//! What happens again and again is told a few times, and then seldom: an error log that is
//! full of one thing shows nothing else, and may fill a disk.

/// How many messages of one kind may follow each other at once.
const AT_ONCE: u32 = 3;
/// After that, one may be told each time when so much time has passed, µs.
const EVERY_US: i64 = 60_000_000;

/// Whether to tell of something once more.
#[derive(Debug)]
pub(super) struct RateLimit {
    left: u32,
    /// From when on the time for the next one runs, while `left` is not all.
    since_us: i64,
}

impl Default for RateLimit {
    fn default() -> RateLimit {
        RateLimit { left: AT_ONCE, since_us: 0 }
    }
}

impl RateLimit {
    /// `true`: tell it. `now_us` is of a clock that is never set.
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

/// Times in which the log cannot be written.
#[derive(Debug, Default)]
pub(super) struct Outages {
    failing: bool,
    /// The error log has heard of the one that lasts.
    told: bool,
    /// How many came and went without a word.
    untold: u64,
    limit: RateLimit,
}

impl Outages {
    /// Whether it cannot be written at the moment.
    pub(super) fn is_failing(&self) -> bool {
        self.failing
    }

    /// A write has failed. If that is to be told now: how many such times were not told before.
    pub(super) fn failed(&mut self, now_us: i64) -> Option<u64> {
        if !std::mem::replace(&mut self.failing, true) {
            self.told = false;
        }
        if self.told || !self.limit.allows(now_us) {
            return None;
        }
        self.told = true;
        Some(std::mem::take(&mut self.untold))
    }

    /// A write has succeeded. `true`: tell that it is over.
    pub(super) fn succeeded(&mut self) -> bool {
        if !std::mem::take(&mut self.failing) {
            return false;
        }
        self.untold += u64::from(!self.told);
        self.told
    }

    /// How many times have come and gone that are to be told now, though none lasts.
    pub(super) fn overdue(&mut self, now_us: i64) -> Option<u64> {
        let due = !self.failing && self.untold > 0 && self.limit.allows(now_us);
        due.then(|| std::mem::take(&mut self.untold))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_at_once_and_then_one_a_minute() {
        let mut limit = RateLimit::default();
        let second = 1_000_000;
        let told: Vec<i64> = (0..600).filter(|n| limit.allows(1_000 + n * second)).collect();
        assert_eq!(told, [0, 1, 2, 60, 120, 180, 240, 300, 360, 420, 480, 540]);
        // A quiet time gives all of them back, and no more.
        let later = 10_000 * second;
        let told = (0..60).filter(|n| limit.allows(later + n * second)).count();
        assert_eq!(told as u32, AT_ONCE);
    }

    #[test]
    fn what_was_not_told_is_counted() {
        let mut outages = Outages::default();
        let mut now_us = 5;
        for _ in 0..AT_ONCE {
            assert_eq!(outages.failed(now_us), Some(0));
            assert_eq!(outages.failed(now_us + 1), None, "one that lasts is told once");
            assert!(outages.succeeded() && !outages.succeeded());
        }
        for _ in 0..7 {
            assert_eq!(outages.failed(now_us), None);
            assert!(!outages.succeeded(), "nobody was told that it failed");
        }
        assert_eq!(outages.overdue(now_us), None);
        // One that lasts is told in the end, and then its end.
        assert_eq!(outages.failed(now_us), None);
        now_us += EVERY_US;
        assert_eq!(outages.failed(now_us), Some(7));
        assert!(outages.is_failing() && outages.succeeded());
        // And what has come and gone, even if none follows.
        assert_eq!(outages.failed(now_us), None);
        assert!(!outages.succeeded());
        now_us += EVERY_US;
        assert_eq!(outages.overdue(now_us), Some(1));
        assert_eq!(outages.overdue(now_us + EVERY_US), None);
    }
}
