//! How fast files may go for a reason that can be a mistake or an attack.

use super::rate_limit::RateLimit;

pub(super) const HOUR_US: i64 = 3_600_000_000;
/// Of so many files one may go in an hour.
const PART_IN_AN_HOUR: u64 = 100;

/// Lets a hundredth of the closed files go in an hour (one at least; none in the first hour after a
/// start), and so many more as the log has grown by. Whoever notices has time to look into it.
#[derive(Default)]
pub(super) struct Brake {
    /// How many files may go for the time that has passed.
    hourly: u64,
    /// How many files may go for those that were begun.
    grown: u64,
    /// So many may go whatever the allowance says: those that had to when an operator has said that they
    /// shall. What has to go later, by a clock that may be wrong then, is not meant.
    asked_count: u64,
    /// When there is the next allowance; unknown until the first look.
    hour_at_us: Option<i64>,
    /// An operator has said so, and no look at the files has succeeded since.
    is_said: bool,
    limit: RateLimit,
}

impl Brake {
    /// Hears whether an operator has said that what has to go shall go.
    pub(super) fn hear(&mut self, is_said: bool) {
        self.is_said |= is_said;
    }

    /// Nothing has to go, so nothing was meant.
    pub(super) fn forget_request(&mut self) {
        self.is_said = false;
    }

    /// Takes a look at the files: so many are closed, so many of them have to go. `grown`: how many may go
    /// for those that were begun since the last look.
    pub(super) fn look(&mut self, closed_count: u64, due_count: u64, grown: u64, now_us: i64) {
        let hourly = closed_count / PART_IN_AN_HOUR + 1;
        // A start is no hour: a server that starts again and again would let one go each time, and a
        // clock is most often wrong when the machine has just started.
        let hour_at_us = *self.hour_at_us.get_or_insert(now_us + HOUR_US);
        if now_us >= hour_at_us {
            self.hour_at_us = Some(now_us + HOUR_US);
            self.hourly = self.hourly.max(hourly);
        }
        // What was not used is no reason for many to go at once later. What the log has grown by is not
        // used at once: one file goes after a look, and others may have been begun by the next one.
        self.hourly = self.hourly.min(hourly);
        self.grown = (self.grown + grown).min(due_count);
        if std::mem::take(&mut self.is_said) {
            self.asked_count = due_count;
        }
    }

    /// Whether one may go now.
    pub(super) fn is_open(&self) -> bool {
        self.hourly > 0 || self.grown > 0 || self.asked_count > 0
    }

    /// The oldest file goes; `is_reason`: this brake has let it.
    pub(super) fn pass(&mut self, is_reason: bool) {
        // Whatever it goes for, it was one of those that were meant.
        if self.asked_count > 0 {
            self.asked_count -= 1;
        } else if is_reason && self.grown > 0 {
            self.grown -= 1;
        } else if is_reason {
            self.hourly = self.hourly.saturating_sub(1);
        }
    }

    /// Whether to tell once more that files stay.
    pub(super) fn may_tell(&mut self, now_us: i64) -> bool {
        self.limit.allows(now_us)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many go when there are many that have to.
    fn take(brake: &mut Brake, closed_count: u64, grown: u64, now_us: i64) -> u64 {
        brake.look(closed_count, closed_count, grown, now_us);
        let mut count = 0;
        while brake.is_open() {
            brake.pass(true);
            count += 1;
        }
        count
    }

    #[test]
    fn a_hundredth_goes_in_an_hour_and_nothing_for_a_start() {
        let mut brake = Brake::default();
        let start_us = 77_000_000;
        assert_eq!(take(&mut brake, 250, 0, start_us), 0);
        assert_eq!(take(&mut brake, 250, 0, start_us + HOUR_US - 1), 0);
        assert_eq!(take(&mut brake, 250, 0, start_us + HOUR_US), 3);
        assert_eq!(take(&mut brake, 250, 0, start_us + HOUR_US + 1), 0);
        assert_eq!(take(&mut brake, 5, 0, start_us + 2 * HOUR_US), 1);
        // What was not used does not add up.
        for hour in 3..10 {
            brake.look(250, 250, 0, start_us + hour * HOUR_US);
        }
        assert_eq!(take(&mut brake, 250, 0, start_us + 10 * HOUR_US), 3);
    }

    #[test]
    fn what_the_log_grows_by_may_go_and_what_was_meant() {
        let mut brake = Brake::default();
        assert_eq!(take(&mut brake, 250, 0, 0), 0);
        assert_eq!(take(&mut brake, 250, 2, 1), 2);
        assert_eq!(take(&mut brake, 250, 4, 2), 4);
        // A burst may go one by one, with a look before each; what had not to go gives nothing later.
        for due_count in (1..=9).rev() {
            brake.look(250, due_count, if due_count == 9 { 9 } else { 0 }, 2);
            assert!(brake.is_open(), "{due_count}");
            brake.pass(true);
        }
        assert!(!brake.is_open());
        brake.look(250, 0, 9, 2);
        brake.look(250, 9, 0, 2);
        assert!(!brake.is_open());
        // As many as had to go when that was said, by whatever reason they go.
        brake.hear(true);
        brake.look(250, 3, 0, 3);
        brake.pass(false);
        brake.pass(true);
        assert!(brake.is_open());
        brake.pass(true);
        assert!(!brake.is_open());
        brake.look(250, 250, 0, 4);
        assert!(!brake.is_open(), "what has to go later was not meant");
        brake.hear(true);
        brake.forget_request();
        brake.look(250, 250, 0, 5);
        assert!(!brake.is_open());
    }
}
