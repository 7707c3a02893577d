//! Which closed file goes when. How it goes is in [`tacho_logdir`].
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

use tacho_logdir::{Due, FileName, Fs, Keep, LogFiles, Outlook, RemovalReason};
use tacho_ring::sys;

use super::brake::Brake;
use super::context::Context;
use super::packing::Packing;
use super::rate_limit::RateLimit;
use super::secondary_format::SecondaryFormat;
use super::stale::Stale;
use crate::control::{Control, Severity};

/// How often is looked, when nothing has happened to the files, µs.
const LOOK_EVERY_US: i64 = 60_000_000;
/// When a file that has to go is still read, µs.
const LOOK_AGAIN_US: i64 = 200_000;
/// How many files may go by age for each that is begun.
const GO_FOR_ONE: u64 = 2;

/// What else works on closed files.
pub(super) struct Needs<'n> {
    pub(super) packing: &'n Packing,
    pub(super) secondary_format: &'n SecondaryFormat,
}

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
    failure_limit: RateLimit,
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

    /// Removes a file that is not kept any longer, if its line is in the log. Returns the next one: its
    /// line has to be written.
    pub(super) fn look_after<F: Fs>(
        &mut self,
        files: &mut LogFiles<F>,
        needs: &Needs<'_>,
        stale: &mut Stale,
        context: &Context,
    ) -> Option<Due> {
        let now_us = sys::monotonic_us();
        self.hear_of(files.current_name());
        if let Some(due) = self.leaving {
            if now_us >= self.look_at_us {
                stale.inventory |= self.remove(due, now_us, files, context);
            }
            return None;
        }
        let control = &context.control;
        let is_asked = self.take_requests(control);
        let keep = Keep {
            days: control.retention_days.load(Ordering::Relaxed),
            bytes: control.retention_bytes.load(Ordering::Relaxed),
            files: control.retention_files.load(Ordering::Relaxed),
        };
        let has_changed = std::mem::replace(&mut self.keep, keep) != keep;
        if keep == Keep::default() {
            self.by_age.forget_request();
            self.by_count.forget_request();
            return None;
        }
        let is_due = is_asked || has_changed || now_us >= self.look_at_us;
        // At the end nothing new is begun: its line would be behind the `stop`.
        if !is_due || control.stop.load(Ordering::Relaxed) {
            return None;
        }
        self.look_at_us = now_us + LOOK_EVERY_US;
        self.look(now_us, files, needs, context).unwrap_or_else(|error| {
            self.report_failure(&error, now_us, context);
            None
        })
    }

    /// Takes what an operator has said. `true`: what has to go shall go at once.
    fn take_requests(&mut self, control: &Control) -> bool {
        // SYNC retain: pairs with the Release in `Recorder::retain`: what was said is about the
        // settings that are read after it.
        let days_said = control.retain_now.swap(false, Ordering::Acquire);
        // SYNC retain: as above.
        let files_said = control.retain_files_now.swap(false, Ordering::Acquire);
        // Until a look has succeeded.
        self.by_age.hear(days_said);
        self.by_count.hear(files_said);
        days_said || files_said
    }

    /// Looks for a file that has to go, and says in the chain that it will be removed.
    fn look<F: Fs>(
        &mut self,
        now_us: i64,
        files: &mut LogFiles<F>,
        needs: &Needs<'_>,
        context: &Context,
    ) -> Result<Option<Due>, String> {
        if !self.is_tidy {
            files.finish_removals().map_err(|error| error.to_string())?;
            self.is_tidy = true;
        }
        let outlook = files.outlook(&self.keep).map_err(|error| error.to_string())?;
        self.allow(&outlook, files.due_rotations(), now_us);
        self.report_ahead(&outlook, context);
        if let Some(name) = outlook.passed_over
            && self.passed_over.replace(name) != Some(name)
        {
            let text = format!("{}: this is no plain file. It is left alone", name.log_file());
            context.say(Severity::Warning, &text);
        }
        let Some(first) = outlook.due.first() else { return Ok(None) };
        if needs.packing.is_at(first.name) {
            // It would come back, smaller. When that is done, there is another look.
            return Ok(None);
        }
        let mut reasons = outlook.due.iter();
        let Some(&due) = reasons.find(|due| self.lets_go(due.reason)) else {
            outlook
                .due
                .iter()
                .for_each(|due| self.report_slow(due.reason, &outlook, now_us, context));
            return Ok(None);
        };
        // Only now: what is beside it goes with it, whether it is complete or not.
        if !needs.secondary_format.lets_go(due) {
            if needs.secondary_format.is_known() {
                self.look_at_us = now_us + LOOK_AGAIN_US;
            }
            return Ok(None);
        }
        files.bury(due).map_err(|error| error.to_string())?;
        self.note_going(due);
        Ok(Some(due))
    }

    /// Says that the clock was ahead once, and again when it has become right and wrong again: it may
    /// last for years.
    fn report_ahead(&mut self, outlook: &Outlook, context: &Context) {
        let is_ahead = outlook.is_ahead && self.keep.days > 0;
        if is_ahead && !self.is_ahead {
            let text = format!(
                "the name of the current log file is of a time that has not come yet: the clock was \
                 set forward when a file was begun, or is set back now. Until that time has come, \
                 files that were begun since do not become old: {} removes at most what is older \
                 than that",
                context.name("retention_days")
            );
            context.say(Severity::Warning, &text);
        }
        self.is_ahead = is_ahead;
    }

    /// `true`: the file is gone.
    fn remove<F: Fs>(
        &mut self,
        due: Due,
        now_us: i64,
        files: &mut LogFiles<F>,
        context: &Context,
    ) -> bool {
        if let Err(error) = files.remove(due.name) {
            self.look_at_us = now_us + LOOK_EVERY_US;
            self.report_failure(&error.to_string(), now_us, context);
            return false;
        }
        self.leaving = None;
        // There may be more.
        self.look_at_us = 0;
        context.status.files_removed.fetch_add(1, Ordering::Relaxed);
        let setting = match due.reason {
            RemovalReason::Size => "retention_bytes",
            RemovalReason::Count => "retention_files",
            RemovalReason::Age | RemovalReason::Request => "retention_days",
        };
        let setting = context.name(setting);
        let text = format!("{} was removed ({setting})", due.name.log_file());
        context.say(Severity::Note, &text);
        true
    }

    /// Says that files stay that have to go, because they are suspiciously many.
    fn report_slow(
        &mut self,
        reason: RemovalReason,
        outlook: &Outlook,
        now_us: i64,
        context: &Context,
    ) {
        let Keep { days, files, .. } = self.keep;
        let (brake, text) = match reason {
            RemovalReason::Age => {
                let name = context.name("retention_days");
                let text = format!(
                    "{} log files are older than {name}={days}, which is more than may go at once: \
                     is the clock right? They go slowly. If they shall go now: SET GLOBAL \
                     {name}={days}",
                    outlook.old_count
                );
                (&mut self.by_age, text)
            }
            RemovalReason::Count => {
                let name = context.name("retention_files");
                let text = format!(
                    "there are {} more closed log files than {name}={files}, which is more than may \
                     go at once: was {} set again and again, or the limit lowered in the \
                     configuration? They go slowly. To remove them now: SET GLOBAL {name}={files}",
                    outlook.excess_count,
                    context.name("rotate_now")
                );
                (&mut self.by_count, text)
            }
            // No brake holds these.
            RemovalReason::Size | RemovalReason::Request => return,
        };
        if brake.may_tell(now_us) {
            context.report(Severity::Warning, &text, true);
        }
    }

    fn report_failure(&mut self, error: &str, now_us: i64, context: &Context) {
        let text = format!("a log file that should go stays for now: {error}");
        let is_news = self.failure_limit.allows(now_us);
        context.report(Severity::Warning, &text, is_news);
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
