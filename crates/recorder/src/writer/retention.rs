//! Which closed file goes when. How it goes is in [`crate::files`].
//!
//! One file at most in a round, and its line stands in the log before it goes.
//!
//! A clock that is set forward makes everything too old at once. So by age the log becomes shorter
//! only slowly, in proportion to its own size and growth: a hundredth of the files in an hour (one
//! at least; none in the first hour after a start) and two for each that is begun. Who notices has days to set the clock right; a log
//! that is as long as it may be loses one file for each that is begun, and never feels it. Who
//! wants the rest to go at once sets `tacho_retention_days` again.

use std::sync::atomic::Ordering;

use tacho_ring::sys;

use super::Writer;
use super::seldom::Seldom;
use crate::control::{Severity, Status};
use crate::files::{Due, FileName, Fs, Keep, Outlook, RemovalReason};

/// How often is looked, when nothing has happened to the files, µs.
const LOOK_EVERY_US: i64 = 60_000_000;
/// When a file that has to go is still read, µs.
const LOOK_AGAIN_US: i64 = 200_000;
const HOUR_US: i64 = 3_600_000_000;
/// How many files may go by age for each that is begun.
const GO_FOR_ONE: u64 = 2;
/// Of so many files one may go in an hour by age.
const PART_IN_AN_HOUR: u64 = 100;

/// What is known of the closed files.
#[derive(Default)]
pub(super) struct Retention {
    keep: Keep,
    /// When to look again, by the clock that is never set.
    look_at_us: i64,
    /// What a crash has left was looked for.
    is_tidy: bool,
    /// A file whose tombstone is on the device. Its line is in the log when the batch is empty.
    leaving: Option<Due>,
    /// How many files may go by age.
    allowance: u64,
    /// So many may go by age whatever the brake says: those that were too old when somebody has said
    /// that what is too old shall go. What becomes too old later, by a clock that may be wrong then, is
    /// not meant.
    asked_count: u64,
    /// When there is the next allowance; unknown until the first look.
    hour_at_us: Option<i64>,
    /// The file that was written in the last round.
    current: Option<FileName>,
    /// Files were begun that no allowance was given for yet.
    begun_count: u64,
    /// What has the name of a log file, is none, and was told of.
    passed_over: Option<FileName>,
    slow_seldom: Seldom,
    is_ahead: bool,
    failure_seldom: Seldom,
    /// An operator has said how long files are kept, and no look at them has succeeded since.
    is_said: bool,
}

impl Retention {
    /// The file that is on its way out.
    pub(super) fn leaving_name(&self) -> Option<FileName> {
        self.leaving.map(|due| due.name)
    }

    /// Something has become another size.
    pub(super) fn look_soon(&mut self) {
        self.look_at_us = 0;
    }

    /// Hears which file is written.
    fn hear_of(&mut self, current: FileName) {
        let before = self.current.replace(current);
        if before.is_some_and(|before| before != current) {
            self.begun_count += 1;
            self.look_at_us = 0;
        }
    }

    /// Gives what the time and the growth of the log allow.
    fn allow(&mut self, closed_count: u64, now_us: i64) {
        let hourly = closed_count / PART_IN_AN_HOUR + 1;
        // A start is no hour: a server that starts again and again would let one go each time, and a
        // clock is most often wrong when the machine has just started.
        if now_us >= *self.hour_at_us.get_or_insert(now_us + HOUR_US) {
            self.hour_at_us = Some(now_us + HOUR_US);
            self.allowance = self.allowance.max(hourly);
        }
        // What was not used is no reason for many to go at once later.
        let begun = std::mem::take(&mut self.begun_count).saturating_mul(GO_FOR_ONE);
        self.allowance = (self.allowance + begun).min(hourly + begun);
    }
}

impl<F: Fs> Writer<F> {
    /// Lets a file go that is not kept any longer. Only with an empty batch.
    pub(super) fn retain(&mut self) {
        debug_assert!(self.batch.is_empty());
        let now_us = sys::monotonic_us();
        self.retention.hear_of(self.files.current_name());
        if let Some(due) = self.retention.leaving {
            if now_us >= self.retention.look_at_us {
                self.remove(due, now_us);
            }
            return;
        }
        // SYNC retain: pairs with the Release in `Recorder::retain`: what was said is about the
        // settings that are read now.
        let said_now = self.control.retain_now.swap(false, Ordering::Acquire);
        // Until a look has succeeded.
        let said = std::mem::take(&mut self.retention.is_said) || said_now;
        let keep = Keep {
            days: self.control.retention_days.load(Ordering::Relaxed),
            bytes: self.control.retention_bytes.load(Ordering::Relaxed),
        };
        let changed = std::mem::replace(&mut self.retention.keep, keep) != keep;
        let is_due = said_now || changed || now_us >= self.retention.look_at_us;
        // At the end nothing new is begun: its line would be behind the `stop`.
        let is_ending = self.control.stop.load(Ordering::Relaxed);
        if keep == Keep::default() || !is_due || is_ending {
            self.retention.is_said = said && keep != Keep::default();
            return;
        }
        self.retention.look_at_us = now_us + LOOK_EVERY_US;
        if !self.retention.is_tidy {
            match self.files.finish_removals() {
                Ok(_) => self.retention.is_tidy = true,
                Err(error) => {
                    self.retention.is_said = said;
                    return self.tell_retention_failure(&error.to_string(), now_us);
                }
            }
        }
        match self.files.outlook(&keep) {
            Ok(outlook) => self.let_go(&outlook, said, now_us),
            Err(error) => {
                self.retention.is_said = said;
                self.tell_retention_failure(&error.to_string(), now_us);
            }
        }
    }

    fn let_go(&mut self, outlook: &Outlook, said: bool, now_us: i64) {
        let retention = &mut self.retention;
        retention.allow(outlook.closed_count, now_us);
        let is_ahead = outlook.is_ahead && retention.keep.days > 0;
        // Once, and again when it has become right and wrong again: it may last for years.
        if is_ahead && !std::mem::replace(&mut retention.is_ahead, is_ahead) {
            let text = format!(
                "the name of the current log file is of a time that has not come yet: the clock was \
                 set forward when a file was begun, or is set back now. Until that time has come, \
                 files that were begun since do not become old: {} removes at most what is older \
                 than that",
                self.control.name("retention_days")
            );
            self.say(Severity::Warning, &text);
        }
        self.retention.is_ahead = is_ahead;
        let retention = &mut self.retention;
        if said {
            retention.asked_count = outlook.old_count;
        }
        if let Some(name) = outlook.passed_over
            && retention.passed_over.replace(name) != Some(name)
        {
            let text = format!("{}: this is no plain file. It is left alone", name.log_file());
            self.say(Severity::Warning, &text);
        }
        let retention = &mut self.retention;
        let Some(due) = outlook.due else { return };
        if self.packing.is_at(due.name) {
            // It would come back, smaller. When that is done, there is another look.
            return;
        }
        let is_asked = retention.asked_count > 0;
        let is_braked = due.reason == RemovalReason::Age && !is_asked;
        if is_braked && retention.allowance == 0 {
            return self.tell_slow(outlook.old_count, now_us);
        }
        // Only now: what is beside it goes with it, whether it is complete or not.
        if !self.renditions.lets_go(due) {
            if self.renditions.is_known() {
                self.retention.look_at_us = now_us + LOOK_AGAIN_US;
            }
            return;
        }
        if let Err(error) = self.files.bury(due) {
            return self.tell_retention_failure(&error.to_string(), now_us);
        }
        self.retention.allowance -= u64::from(is_braked);
        self.retention.asked_count -= u64::from(is_asked);
        self.retention.leaving = Some(due);
        self.retention.look_at_us = 0;
        self.note_own_config("file_removed", &due.name.log_file(), &due.reason.to_string());
    }

    fn remove(&mut self, due: Due, now_us: i64) {
        if let Err(error) = self.files.remove(due.name) {
            self.retention.look_at_us = now_us + LOOK_EVERY_US;
            return self.tell_retention_failure(&error.to_string(), now_us);
        }
        self.retention.leaving = None;
        // There may be more.
        self.retention.look_at_us = 0;
        self.survey.look_soon();
        self.status.files_removed.fetch_add(1, Ordering::Relaxed);
        let setting = match due.reason {
            RemovalReason::Size => "retention_bytes",
            RemovalReason::Age | RemovalReason::Request => "retention_days",
        };
        let setting = self.control.name(setting);
        let text = format!("{} was removed ({setting})", due.name.log_file());
        self.say(Severity::Note, &text);
    }

    fn tell_slow(&mut self, old_count: u64, now_us: i64) {
        if !self.retention.slow_seldom.allows(now_us) {
            return;
        }
        let days = self.retention.keep.days;
        let name = self.control.name("retention_days");
        let text = format!(
            "{old_count} log files are older than {name}={days}, which is more than may go at once: \
             is the clock right? They go slowly. If they shall go now: SET GLOBAL {name}={days}"
        );
        self.say(Severity::Warning, &text);
        Status::set(&self.status.last_error, &text);
    }

    fn tell_retention_failure(&mut self, error: &str, now_us: i64) {
        let text = format!("a log file that should go stays for now: {error}");
        if self.retention.failure_seldom.allows(now_us) {
            self.say(Severity::Warning, &text);
        }
        Status::set(&self.status.last_error, &text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many go by age when there are many that are too old.
    fn take(retention: &mut Retention, closed_count: u64, now_us: i64) -> u64 {
        retention.allow(closed_count, now_us);
        std::mem::take(&mut retention.allowance)
    }

    #[test]
    fn a_hundredth_goes_in_an_hour_and_nothing_for_a_start() {
        let mut retention = Retention::default();
        let start_us = 77_000_000;
        assert_eq!(take(&mut retention, 250, start_us), 0);
        assert_eq!(take(&mut retention, 250, start_us + HOUR_US - 1), 0);
        assert_eq!(take(&mut retention, 250, start_us + HOUR_US), 3);
        assert_eq!(take(&mut retention, 250, start_us + HOUR_US + 1), 0);
        assert_eq!(take(&mut retention, 5, start_us + 2 * HOUR_US), 1);
        // What was not used does not add up.
        for hour in 3..10 {
            retention.allow(250, start_us + hour * HOUR_US);
        }
        assert_eq!(take(&mut retention, 250, start_us + 10 * HOUR_US), 3);
    }

    #[test]
    fn two_go_for_each_that_is_begun() {
        let mut retention = Retention::default();
        let names: Vec<FileName> = (0..4).fold(Vec::new(), |mut names, second| {
            names.push(FileName::after(names.last().copied(), second));
            names
        });
        retention.hear_of(names[0]);
        assert_eq!(take(&mut retention, 250, 0), 0);
        retention.hear_of(names[1]);
        retention.hear_of(names[1]);
        assert_eq!(take(&mut retention, 250, 1), 2);
        retention.hear_of(names[2]);
        retention.hear_of(names[3]);
        assert_eq!(take(&mut retention, 250, 2), 4);
    }
}
