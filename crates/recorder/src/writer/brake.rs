//! Rate limit for removals whose reason may be a mistake or an attack.

use super::rate_limit::RateLimit;

pub(super) const HOUR_US: i64 = 3_600_000_000;
/// One in this many files may be removed per hour.
const PART_IN_AN_HOUR: u64 = 100;

/// Allows the removal of a hundredth of the closed files per hour (at least one; none in the first
/// hour after a start), plus as many as the log has grown by. This leaves the operator time to
/// react.
#[derive(Default)]
pub(super) struct Brake {
    /// Allowance for the time that has passed, files.
    hourly: u64,
    /// Allowance for new files that were begun.
    grown: u64,
    /// Removals that an operator requested, exempt from the allowances: the files that were due at
    /// that time. Files that become due later are not included, because the clock may then be
    /// wrong.
    requested_count: u64,
    /// Time of the next hourly allowance; unknown until the first look.
    hour_at_us: Option<i64>,
    /// An operator has requested the removal, and no look at the files has succeeded since.
    is_requested: bool,
    limit: RateLimit,
}

impl Brake {
    /// Notes whether an operator requested the removal of due files.
    pub(super) fn note_request(&mut self, is_requested: bool) {
        self.is_requested |= is_requested;
    }

    /// Nothing is due, so the request covers nothing.
    pub(super) fn forget_request(&mut self) {
        self.is_requested = false;
    }

    /// Updates the allowances: `closed_count` files are closed, `due_count` of them are due.
    /// `grown`: further allowance for files that were begun since the last look.
    pub(super) fn look(&mut self, closed_count: u64, due_count: u64, grown: u64, now_us: i64) {
        let hourly = closed_count / PART_IN_AN_HOUR + 1;
        // A start earns no allowance: a server that restarts in a loop would remove a file each
        // time, and a clock is most often wrong just after the machine has started.
        let hour_at_us = *self.hour_at_us.get_or_insert(now_us + HOUR_US);
        if now_us >= hour_at_us {
            self.hour_at_us = Some(now_us + HOUR_US);
            self.hourly = self.hourly.max(hourly);
        }
        // Unused hourly allowances do not accumulate. The allowance for growth is not used at once:
        // each look removes one file, and others may have been begun by the next look.
        self.hourly = self.hourly.min(hourly);
        self.grown = (self.grown + grown).min(due_count);
        if std::mem::take(&mut self.is_requested) {
            self.requested_count = due_count;
        }
    }

    /// Whether a file may be removed now.
    pub(super) fn is_open(&self) -> bool {
        self.hourly > 0 || self.grown > 0 || self.requested_count > 0
    }

    /// The oldest file is being removed; `is_reason`: by an allowance of this brake.
    pub(super) fn pass(&mut self, is_reason: bool) {
        // For any reason: it was one of the requested files.
        if self.requested_count > 0 {
            self.requested_count -= 1;
        } else if is_reason && self.grown > 0 {
            self.grown -= 1;
        } else if is_reason {
            self.hourly = self.hourly.saturating_sub(1);
        }
    }

    /// Whether to report again that due files stay.
    pub(super) fn may_report(&mut self, now_us: i64) -> bool {
        self.limit.allows(now_us)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many files are removed when many are due.
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
    fn a_hundredth_may_be_removed_per_hour_and_nothing_at_a_start() {
        let mut brake = Brake::default();
        let start_us = 77_000_000;
        assert_eq!(take(&mut brake, 250, 0, start_us), 0);
        assert_eq!(take(&mut brake, 250, 0, start_us + HOUR_US - 1), 0);
        assert_eq!(take(&mut brake, 250, 0, start_us + HOUR_US), 3);
        assert_eq!(take(&mut brake, 250, 0, start_us + HOUR_US + 1), 0);
        assert_eq!(take(&mut brake, 5, 0, start_us + 2 * HOUR_US), 1);
        // Unused allowances do not accumulate.
        for hour in 3..10 {
            brake.look(250, 250, 0, start_us + hour * HOUR_US);
        }
        assert_eq!(take(&mut brake, 250, 0, start_us + 10 * HOUR_US), 3);
    }

    #[test]
    fn growth_and_requests_allow_removals() {
        let mut brake = Brake::default();
        assert_eq!(take(&mut brake, 250, 0, 0), 0);
        assert_eq!(take(&mut brake, 250, 2, 1), 2);
        assert_eq!(take(&mut brake, 250, 4, 2), 4);
        // A burst is removed one by one, with a look before each; files that were not due give no
        // allowance later.
        for due_count in (1..=9).rev() {
            brake.look(250, due_count, if due_count == 9 { 9 } else { 0 }, 2);
            assert!(brake.is_open(), "{due_count}");
            brake.pass(true);
        }
        assert!(!brake.is_open());
        brake.look(250, 0, 9, 2);
        brake.look(250, 9, 0, 2);
        assert!(!brake.is_open());
        // A request covers the files that were due, whatever the reason for their removal.
        brake.note_request(true);
        brake.look(250, 3, 0, 3);
        brake.pass(false);
        brake.pass(true);
        assert!(brake.is_open());
        brake.pass(true);
        assert!(!brake.is_open());
        brake.look(250, 250, 0, 4);
        assert!(!brake.is_open(), "files due later were not requested");
        brake.note_request(true);
        brake.forget_request();
        brake.look(250, 250, 0, 5);
        assert!(!brake.is_open());
    }
}
