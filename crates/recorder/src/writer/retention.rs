//! Decides which closed file is removed when. The removal itself is in [`tacho_logdir`].
//!
//! Each round removes at most one file, after its line is in the log.
//!
//! A clock that is set forward makes all files too old at once, and a client that rotates again and
//! again makes them too many. By age and by count the log therefore shrinks only slowly
//! ([`Brake`]). By age, two files are removed for each new one; by count, one for each new one that
//! was begun because the previous one was full or old enough
//! ([`LogFiles::due_rotations`](tacho_logdir::LogFiles::due_rotations)). A log at its limit loses
//! one file for each of these and is never delayed. To remove the rest at once, set
//! `tacho_retention_days` or `tacho_retention_files` again.
//!
//! A file that a hub does not have waits for it ([`HubWait`]).

use std::sync::atomic::Ordering;

use tacho_logdir::{Due, FileName, Fs, Keep, LogFiles, Outlook, RemovalReason};
use tacho_ring::sys;
use tacho_settings::Setting;

use super::brake::Brake;
use super::context::Context;
use super::hub_wait::{HubWait, Lack, Verdict};
use super::packing::Packing;
use super::rate_limit::RateLimit;
use super::secondary_format::SecondaryFormat;
use super::stale::Stale;
use crate::control::{Control, Severity};

/// Interval between looks if no file has changed, µs.
const LOOK_EVERY_US: i64 = 60_000_000;
/// Interval while a due file is still being read, µs.
const LOOK_AGAIN_US: i64 = 200_000;
/// Interval while a due file waits for a hub, or for the disk to fill, µs.
const LOOK_WAITING_US: i64 = 5_000_000;
/// How many files may be removed by age for each new one.
const GO_FOR_ONE: u64 = 2;

/// The other users of closed files.
pub(super) struct Needs<'n> {
    pub(super) packing: &'n Packing,
    pub(super) secondary_format: &'n SecondaryFormat,
}

/// A file that is being removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Removal {
    /// Which, and why.
    pub(super) due: Due,
    /// A hub does not have it.
    pub(super) lack: Option<Lack>,
}

impl Removal {
    /// The reason, as the line in the log has it.
    pub(super) fn reason(&self) -> String {
        match &self.lack {
            Some(lack) => format!("{}, {}", self.due.reason, lack.hubs),
            None => self.due.reason.to_string(),
        }
    }
}

/// The setting that is a reason to remove a file.
pub(super) fn setting_of(reason: RemovalReason) -> Setting {
    match reason {
        RemovalReason::Size => Setting::RetentionBytes,
        RemovalReason::Count => Setting::RetentionFiles,
        RemovalReason::Age | RemovalReason::Request => Setting::RetentionDays,
    }
}

/// State of the retention.
#[derive(Default)]
pub(super) struct Retention {
    keep: Keep,
    /// What happens to files that a hub does not have.
    unshipped: u64,
    /// Time of the next look, by the monotonic clock.
    look_at_us: i64,
    /// Removals that a crash interrupted were completed.
    is_tidy: bool,
    /// A file whose tombstone is on the device. Its line is in the log when the batch is empty.
    leaving: Option<Removal>,
    by_age: Brake,
    by_count: Brake,
    /// The current file in the last round.
    current: Option<FileName>,
    /// New files for which no allowance by age was given yet.
    begun_count: u64,
    /// At the last look: how many files were begun because the previous one was full or old enough.
    due_rotations: u64,
    /// A reported entry that has the name of a log file but is not one.
    skipped: Option<FileName>,
    is_ahead: bool,
    hub_wait: HubWait,
    failure_limit: RateLimit,
}

impl Retention {
    /// The file that is being removed.
    pub(super) fn leaving_name(&self) -> Option<FileName> {
        self.leaving.as_ref().map(|removal| removal.due.name)
    }

    /// The size of a file has changed.
    pub(super) fn look_soon(&mut self) {
        self.look_at_us = 0;
    }

    /// Notes which file is current.
    fn note_current(&mut self, current: FileName) {
        let before = self.current.replace(current);
        if before.is_some_and(|before| before != current) {
            self.begun_count += 1;
            self.look_at_us = 0;
        }
    }

    /// Gives the allowances for the time and the growth of the log. `due_rotations`: how many files
    /// were begun so far because the previous one was full or old enough.
    fn allow(&mut self, outlook: &Outlook, due_rotations: u64, now_us: i64) {
        let closed_count = outlook.closed_count;
        let begun = std::mem::take(&mut self.begun_count).saturating_mul(GO_FOR_ONE);
        self.by_age.look(closed_count, outlook.old_count, begun, now_us);
        let before = std::mem::replace(&mut self.due_rotations, due_rotations);
        let full = due_rotations.saturating_sub(before);
        self.by_count.look(closed_count, outlook.excess_count, full, now_us);
    }

    /// Whether the brake allows to remove a file for this reason.
    fn may_remove(&self, reason: RemovalReason) -> bool {
        match reason {
            RemovalReason::Age => self.by_age.is_open(),
            RemovalReason::Count => self.by_count.is_open(),
            RemovalReason::Size | RemovalReason::Request => true,
        }
    }

    /// Notes that a file is being removed.
    fn note_going(&mut self, removal: Removal) {
        let reason = removal.due.reason;
        self.by_age.pass(reason == RemovalReason::Age);
        self.by_count.pass(reason == RemovalReason::Count);
        self.leaving = Some(removal);
        self.look_at_us = 0;
    }

    /// Removes an expired file, if its line is in the log. Returns the next one, whose line must
    /// then be written.
    pub(super) fn look_after<F: Fs>(
        &mut self,
        files: &mut LogFiles<F>,
        needs: &Needs<'_>,
        stale: &mut Stale,
        context: &Context,
    ) -> Option<Removal> {
        let now_us = sys::monotonic_us();
        self.note_current(files.current_name());
        if self.leaving.is_some() {
            if now_us >= self.look_at_us {
                stale.inventory |= self.remove(now_us, files, context);
            }
            return None;
        }
        let control = &context.control;
        let is_asked = self.take_requests(control);
        let keep = Keep {
            days: control.setting(Setting::RetentionDays),
            bytes: control.setting(Setting::RetentionBytes),
            files: control.setting(Setting::RetentionFiles),
        };
        let unshipped = control.setting(Setting::RetentionUnshipped);
        let has_changed = std::mem::replace(&mut self.keep, keep) != keep
            || std::mem::replace(&mut self.unshipped, unshipped) != unshipped;
        if keep == Keep::default() {
            self.by_age.forget_request();
            self.by_count.forget_request();
            return None;
        }
        let is_due = is_asked || has_changed || now_us >= self.look_at_us;
        // At the end no removal is begun: its line would follow the `stop` line.
        if !is_due || control.stop.load(Ordering::Relaxed) {
            return None;
        }
        self.look_at_us = now_us + LOOK_EVERY_US;
        self.look(now_us, files, needs, context).unwrap_or_else(|error| {
            self.report_failure(&error, now_us, context);
            None
        })
    }

    /// Takes an operator's requests. `true`: remove due files at once.
    fn take_requests(&mut self, control: &Control) -> bool {
        // SYNC retain: pairs with the Release in `Recorder::retain`: the request refers to the
        // settings that are read after it.
        let days_requested = control.retain_now.swap(false, Ordering::Acquire);
        // SYNC retain: as above.
        let files_requested = control.retain_files_now.swap(false, Ordering::Acquire);
        // Kept until a look has succeeded.
        self.by_age.note_request(days_requested);
        self.by_count.note_request(files_requested);
        days_requested || files_requested
    }

    /// Looks for a due file, and records in the chain that it will be removed.
    fn look<F: Fs>(
        &mut self,
        now_us: i64,
        files: &mut LogFiles<F>,
        needs: &Needs<'_>,
        context: &Context,
    ) -> Result<Option<Removal>, String> {
        if !self.is_tidy {
            files.finish_removals().map_err(|error| error.to_string())?;
            self.is_tidy = true;
        }
        let outlook = files.outlook(&self.keep).map_err(|error| error.to_string())?;
        self.allow(&outlook, files.due_rotations(), now_us);
        self.report_ahead(&outlook, context);
        if let Some(name) = outlook.skipped
            && self.skipped.replace(name) != Some(name)
        {
            let text = format!("{}: not a regular file, ignored", name.log_file());
            context.say(Severity::Warning, &text);
        }
        let Some(&first) = outlook.due.first() else { return Ok(None) };
        if needs.packing.is_at(first.name) {
            // Packing would create it again. After that, the next look finds it.
            return Ok(None);
        }
        let verdict = self.hub_wait.judge(&outlook, first, files, now_us, context)?;
        let Verdict::Remove(lack) = verdict else {
            self.look_at_us = now_us + LOOK_WAITING_US;
            return Ok(None);
        };
        let mut reasons = outlook.due.iter();
        let Some(&due) = reasons.find(|due| self.may_remove(due.reason)) else {
            outlook
                .due
                .iter()
                .for_each(|due| self.report_slow(due.reason, &outlook, now_us, context));
            return Ok(None);
        };
        // Only now: its rendition is removed with it, complete or not.
        if !needs.secondary_format.may_remove(due) {
            if needs.secondary_format.is_known() {
                self.look_at_us = now_us + LOOK_AGAIN_US;
            }
            return Ok(None);
        }
        files.bury(due).map_err(|error| error.to_string())?;
        let removal = Removal { due, lack };
        self.note_going(removal.clone());
        Ok(Some(removal))
    }

    /// Reports once that the clock was ahead, and again only after it was right in between: the
    /// state may last for years.
    fn report_ahead(&mut self, outlook: &Outlook, context: &Context) {
        let is_ahead = outlook.is_ahead && self.keep.days > 0;
        if is_ahead && !self.is_ahead {
            let text = format!(
                "the name of the current log file is dated in the future: the clock was \
                 set forward when a file was begun, or is set back now. Until that time, files that \
                 were begun since do not expire: {} removes at most older files",
                context.name(Setting::RetentionDays)
            );
            context.say(Severity::Warning, &text);
        }
        self.is_ahead = is_ahead;
    }

    /// `true`: the file is gone.
    fn remove<F: Fs>(&mut self, now_us: i64, files: &mut LogFiles<F>, context: &Context) -> bool {
        let Some(Removal { due, lack }) = self.leaving.clone() else { return false };
        if let Err(error) = files.remove(due.name) {
            self.look_at_us = now_us + LOOK_EVERY_US;
            self.report_failure(&error.to_string(), now_us, context);
            return false;
        }
        self.leaving = None;
        // There may be more files.
        self.look_at_us = 0;
        context.status.files_removed.fetch_add(1, Ordering::Relaxed);
        let setting = context.name(setting_of(due.reason));
        let text = format!("{} was removed ({setting})", due.name.log_file());
        match lack {
            None => context.say(Severity::Note, &text),
            Some(Lack { hubs, cause }) => {
                context.report(Severity::Warning, &format!("{text}, {hubs}{cause}"), true);
            }
        }
        true
    }

    /// Reports that due files stay because their number is suspicious.
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
                let name = context.name(Setting::RetentionDays);
                let text = format!(
                    "{} log files are older than {name}={days}, which is more than may go at once: \
                     is the clock right? They go slowly. To remove them now: SET GLOBAL \
                     {name}={days}",
                    outlook.old_count
                );
                (&mut self.by_age, text)
            }
            RemovalReason::Count => {
                let name = context.name(Setting::RetentionFiles);
                let text = format!(
                    "there are {} more closed log files than {name}={files}, which is more than may \
                     go at once: was {} set again and again, or the limit lowered in the \
                     configuration? They go slowly. To remove them now: SET GLOBAL {name}={files}",
                    outlook.excess_count,
                    context.name(Setting::RotateNow)
                );
                (&mut self.by_count, text)
            }
            // These are not rate-limited.
            RemovalReason::Size | RemovalReason::Request => return,
        };
        if brake.may_report(now_us) {
            context.report(Severity::Warning, &text, true);
        }
    }

    fn report_failure(&mut self, error: &str, now_us: i64, context: &Context) {
        let text = format!("cannot remove an expired log file: {error}");
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

    /// How many files are removed for a reason if many are due.
    fn take(retention: &mut Retention, reason: RemovalReason) -> u64 {
        let mut count = 0;
        while retention.may_remove(reason) {
            let name = FileName::after(None, 0);
            retention.note_going(Removal { due: Due { name, reason }, lack: None });
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
    fn by_age_two_are_removed_for_each_new_file() {
        let mut retention = Retention::default();
        let names = names();
        let take = |retention: &mut Retention, now_us| {
            retention.allow(&outlook(0), 0, now_us);
            take(retention, RemovalReason::Age)
        };
        retention.note_current(names[0]);
        assert_eq!(take(&mut retention, 0), 0);
        retention.note_current(names[1]);
        retention.note_current(names[1]);
        assert_eq!(take(&mut retention, 1), 2);
        retention.note_current(names[2]);
        retention.note_current(names[3]);
        assert_eq!(take(&mut retention, 2), 4);
    }

    #[test]
    fn by_count_one_is_removed_for_each_full_file_and_none_for_a_requested_one() {
        let mut retention = Retention::default();
        for name in names() {
            retention.note_current(name);
        }
        retention.allow(&outlook(9), 0, 0);
        assert_eq!(take(&mut retention, RemovalReason::Count), 0, "begun, and not because of size");
        retention.allow(&outlook(9), 3, 1);
        assert_eq!(take(&mut retention, RemovalReason::Count), 3);
        retention.allow(&outlook(9), 3, 2);
        assert_eq!(take(&mut retention, RemovalReason::Count), 0);
        // Each brake has its own request.
        retention.by_age.note_request(true);
        retention.allow(&outlook(9), 3, 3);
        assert!(
            retention.may_remove(RemovalReason::Age) && !retention.may_remove(RemovalReason::Count)
        );
        assert!(retention.may_remove(RemovalReason::Size));
    }
}
