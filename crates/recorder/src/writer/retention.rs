//! Which closed file goes when. How it goes is in [`crate::files`].
//!
//! One file at most in a round, and its line stands in the log before it goes.
//!
//! A clock that is set forward makes everything too old at once, and whoever begins one file after the
//! other makes everything too much. So by age and by count the log becomes shorter only slowly
//! ([`Brake`]). By age, two files go for each that is begun; by count, one for each that was begun because
//! the one before was full or old enough ([`LogFiles::due_rotations`](tacho_logdir::LogFiles::due_rotations)). A log that is as long as it may be loses one file for each of
//! these, and never feels it. Who wants the rest to go at once sets `tacho_retention_days` or
//! `tacho_retention_files` again.

use std::sync::atomic::Ordering;

use tacho_logdir::{Due, FileName, Fs, Keep, Outlook, RemovalReason};
use tacho_ring::sys;
use tacho_settings::Setting;

use super::Writer;
use super::brake::Brake;
use super::seldom::Seldom;
use crate::control::{Severity, Status};

/// How often is looked, when nothing has happened to the files, µs.
const LOOK_EVERY_US: i64 = 60_000_000;
/// When a file that has to go is still read, µs.
const LOOK_AGAIN_US: i64 = 200_000;
/// How many files may go by age for each that is begun.
const GO_FOR_ONE: u64 = 2;

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
    by_age: Brake,
    by_count: Brake,
    /// The file that was written in the last round.
    current: Option<FileName>,
    /// Files were begun that no allowance by age was given for yet.
    begun_count: u64,
    /// How many files were begun, when last looked, because the one before was full or old enough.
    due_rotations: u64,
    /// What has the name of a log file, is none, and was told of.
    passed_over: Option<FileName>,
    is_ahead: bool,
    failure_seldom: Seldom,
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

    /// Gives what the time and the growth of the log allow. `due_rotations`: so many files were begun by
    /// now because the one before was full or old enough.
    fn allow(&mut self, outlook: &Outlook, due_rotations: u64, now_us: i64) {
        let closed_count = outlook.closed_count;
        let begun = std::mem::take(&mut self.begun_count).saturating_mul(GO_FOR_ONE);
        self.by_age.look(closed_count, outlook.old_count, begun, now_us);
        let before = std::mem::replace(&mut self.due_rotations, due_rotations);
        let full = due_rotations.saturating_sub(before);
        self.by_count.look(closed_count, outlook.excess_count, full, now_us);
    }

    /// Whether no brake holds a file that has to go for this reason.
    fn lets_go(&self, reason: RemovalReason) -> bool {
        match reason {
            RemovalReason::Age => self.by_age.is_open(),
            RemovalReason::Count => self.by_count.is_open(),
            RemovalReason::Size | RemovalReason::Request => true,
        }
    }

    /// Notes that a file goes.
    fn note_going(&mut self, due: Due) {
        self.by_age.pass(due.reason == RemovalReason::Age);
        self.by_count.pass(due.reason == RemovalReason::Count);
        self.leaving = Some(due);
        self.look_at_us = 0;
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
        let days_said = self.control.retain_now.swap(false, Ordering::Acquire);
        // SYNC retain: as above.
        let files_said = self.control.retain_files_now.swap(false, Ordering::Acquire);
        // Until a look has succeeded.
        self.retention.by_age.hear(days_said);
        self.retention.by_count.hear(files_said);
        let keep = Keep {
            days: self.control.setting(Setting::RetentionDays),
            bytes: self.control.setting(Setting::RetentionBytes),
            files: self.control.setting(Setting::RetentionFiles),
        };
        let changed = std::mem::replace(&mut self.retention.keep, keep) != keep;
        if keep == Keep::default() {
            self.retention.by_age.forget_request();
            self.retention.by_count.forget_request();
            return;
        }
        let is_due = days_said || files_said || changed || now_us >= self.retention.look_at_us;
        // At the end nothing new is begun: its line would be behind the `stop`.
        if !is_due || self.control.stop.load(Ordering::Relaxed) {
            return;
        }
        self.retention.look_at_us = now_us + LOOK_EVERY_US;
        if !self.retention.is_tidy {
            match self.files.finish_removals() {
                Ok(_) => self.retention.is_tidy = true,
                Err(error) => return self.tell_retention_failure(&error.to_string(), now_us),
            }
        }
        match self.files.outlook(&keep) {
            Ok(outlook) => self.let_go(&outlook, now_us),
            Err(error) => self.tell_retention_failure(&error.to_string(), now_us),
        }
    }

    fn let_go(&mut self, outlook: &Outlook, now_us: i64) {
        self.retention.allow(outlook, self.files.due_rotations(), now_us);
        self.tell_ahead(outlook);
        if let Some(name) = outlook.passed_over
            && self.retention.passed_over.replace(name) != Some(name)
        {
            let text = format!("{}: this is no plain file. It is left alone", name.log_file());
            self.say(Severity::Warning, &text);
        }
        let Some(first) = outlook.due.first() else { return };
        if self.packing.is_at(first.name) {
            // It would come back, smaller. When that is done, there is another look.
            return;
        }
        let mut reasons = outlook.due.iter();
        let Some(&due) = reasons.find(|due| self.retention.lets_go(due.reason)) else {
            outlook.due.iter().for_each(|due| self.tell_slow(due.reason, outlook, now_us));
            return;
        };
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
        self.retention.note_going(due);
        self.note_own_config("file_removed", &due.name.log_file(), &due.reason.to_string());
    }

    /// Says that the clock was ahead once, and again when it has become right and wrong again: it may
    /// last for years.
    fn tell_ahead(&mut self, outlook: &Outlook) {
        let is_ahead = outlook.is_ahead && self.retention.keep.days > 0;
        if is_ahead && !self.retention.is_ahead {
            let text = format!(
                "the name of the current log file is of a time that has not come yet: the clock was \
                 set forward when a file was begun, or is set back now. Until that time has come, \
                 files that were begun since do not become old: {} removes at most what is older \
                 than that",
                self.control.name(Setting::RetentionDays)
            );
            self.say(Severity::Warning, &text);
        }
        self.retention.is_ahead = is_ahead;
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
            RemovalReason::Size => Setting::RetentionBytes,
            RemovalReason::Count => Setting::RetentionFiles,
            RemovalReason::Age | RemovalReason::Request => Setting::RetentionDays,
        };
        let setting = self.control.name(setting);
        let text = format!("{} was removed ({setting})", due.name.log_file());
        self.say(Severity::Note, &text);
    }

    /// Says that files stay that have to go, because they are suspiciously many.
    fn tell_slow(&mut self, reason: RemovalReason, outlook: &Outlook, now_us: i64) {
        let Keep { days, files, .. } = self.retention.keep;
        let (brake, text) = match reason {
            RemovalReason::Age => {
                let name = self.control.name(Setting::RetentionDays);
                let text = format!(
                    "{} log files are older than {name}={days}, which is more than may go at once: \
                     is the clock right? They go slowly. If they shall go now: SET GLOBAL \
                     {name}={days}",
                    outlook.old_count
                );
                (&mut self.retention.by_age, text)
            }
            RemovalReason::Count => {
                let name = self.control.name(Setting::RetentionFiles);
                let text = format!(
                    "there are {} more closed log files than {name}={files}, which is more than may \
                     go at once: was {} set again and again, or the limit lowered in the \
                     configuration? They go slowly. To remove them now: SET GLOBAL {name}={files}",
                    outlook.excess_count,
                    self.control.name(Setting::RotateNow)
                );
                (&mut self.retention.by_count, text)
            }
            // Nothing holds these.
            RemovalReason::Size | RemovalReason::Request => return,
        };
        if brake.may_tell(now_us) {
            self.say(Severity::Warning, &text);
            Status::set(&self.status.last_error, &text);
        }
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

    fn outlook(excess_count: u64) -> Outlook {
        Outlook { closed_count: 250, excess_count, old_count: 250, ..Outlook::default() }
    }

    /// How many go for a reason when there are many that have to.
    fn take(retention: &mut Retention, reason: RemovalReason) -> u64 {
        let mut count = 0;
        while retention.lets_go(reason) {
            let name = FileName::after(None, 0);
            retention.note_going(Due { name, reason });
            count += 1;
        }
        count
    }

    fn names() -> Vec<FileName> {
        (0..4).fold(Vec::new(), |mut names, second| {
            names.push(FileName::after(names.last().copied(), second));
            names
        })
    }

    #[test]
    fn by_age_two_go_for_each_that_is_begun() {
        let mut retention = Retention::default();
        let names = names();
        let take = |retention: &mut Retention, now_us| {
            retention.allow(&outlook(0), 0, now_us);
            take(retention, RemovalReason::Age)
        };
        retention.hear_of(names[0]);
        assert_eq!(take(&mut retention, 0), 0);
        retention.hear_of(names[1]);
        retention.hear_of(names[1]);
        assert_eq!(take(&mut retention, 1), 2);
        retention.hear_of(names[2]);
        retention.hear_of(names[3]);
        assert_eq!(take(&mut retention, 2), 4);
    }

    #[test]
    fn by_count_one_goes_for_each_that_was_full_and_none_for_one_that_was_asked_for() {
        let mut retention = Retention::default();
        for name in names() {
            retention.hear_of(name);
        }
        retention.allow(&outlook(9), 0, 0);
        assert_eq!(take(&mut retention, RemovalReason::Count), 0, "begun, and not because of size");
        retention.allow(&outlook(9), 3, 1);
        assert_eq!(take(&mut retention, RemovalReason::Count), 3);
        retention.allow(&outlook(9), 3, 2);
        assert_eq!(take(&mut retention, RemovalReason::Count), 0);
        // Each brake hears its own request.
        retention.by_age.hear(true);
        retention.allow(&outlook(9), 3, 3);
        assert!(retention.lets_go(RemovalReason::Age) && !retention.lets_go(RemovalReason::Count));
        assert!(retention.lets_go(RemovalReason::Size));
    }
}
