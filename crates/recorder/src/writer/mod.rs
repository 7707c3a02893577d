//! The writer: drain, join, format, write, recycle.
//!
//! A record counts as written when its line is in the file (the kernel has it): only then is its
//! chunk recycled. The `seq` of the line is stored in the record before the write, so that after a
//! crash the last line in the file determines which records are in it.
//!
//! [`Writer`] runs the round; each part owns its state, and receives the state of others as
//! arguments.
//!
//! | module | responsibility |
//! |---|---|
//! | `round` | the round, and freeing chunks when chunks are short |
//! | `context` | settings, status, error log |
//! | `intake` | from the arena to the queue |
//! | `queue` | the order of the lines |
//! | `lines` | from the queue to the batch |
//! | `filter_sync` | the filters that lines depend on |
//! | `running` | lines of statements that have not ended |
//! | `running_table` | the arena's table of these statements |
//! | `own_lines` | lines of the recorder itself |
//! | `losses` | lines about lost records |
//! | `batch` | lines that are not in the file yet |
//! | `output` | from the batch to the file; errors |
//! | `file_events` | messages about events of the files |
//! | `durability` | from the file to the device; producers that wait |
//! | `dead_arenas` | arenas of dead servers , removed after the batch is written |
//! | `takeover` | continuing where another writer left a living arena |
//! | `relief` | moving incomplete records out of the arena |
//! | `pace` | how long the writer sleeps |
//! | `rate_limit` | limits repeated messages in the error log |
//! | `upkeep` | maintenance of files: the next eight |
//! | `retention` | which closed file is removed when |
//! | `brake` | rate limit for suspicious removals |
//! | `hub_wait` | a due file waits for the hubs that do not have it |
//! | `packing` | the thread that compresses and encrypts closed files |
//! | `secondary_format` | the thread that writes each file in another format, too |
//! | `space` | free space on the disk, and the warning that it is low |
//! | `stale` | which of these must look again because another part changed a file |
//! | `inventory` | overview of the log files, for SHOW STATUS |

mod batch;
mod brake;
mod context;
mod dead_arenas;
mod durability;
mod file_events;
mod filter_sync;
mod hub_wait;
mod intake;
mod inventory;
mod lines;
mod losses;
mod output;
mod own_lines;
mod pace;
mod packing;
mod queue;
mod rate_limit;
mod relief;
mod retention;
mod round;
mod running;
mod running_table;
mod secondary_format;
mod space;
mod stale;
mod takeover;
mod upkeep;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tacho_logdir::{FileError, Fs, LogFiles, RealFs};
use tacho_record::EventKind;
use tacho_ring::arena::Arena;
use tacho_ring::sys;

use crate::arena_file::ArenaFile;
use crate::control::{ConfigLogged, Control, Log, Severity, Status};
use crate::drain::Drain;
use crate::join::{Join, Ready};
use crate::spill::ArenaSource;
use context::Context;
use intake::Intake;
use lines::Lines;
use losses::Losses;
pub(crate) use losses::confirm_losses;
use output::Output;
use own_lines::OwnLines;
use pace::{Outlook, Pace};
use rate_limit::RateLimit;
use tacho_settings::{Setting, SettingNames};
use upkeep::Upkeep;

/// Writes the lines of one arena, see the module documentation.
pub struct Writer<F: Fs = RealFs> {
    /// Before `output`, whose files hold the lock of the directory: the threads that work on closed
    /// files end before the lock is released.
    upkeep: Upkeep,
    intake: Intake,
    lines: Lines,
    own_lines: OwnLines,
    losses: Losses,
    output: Output<F>,
    pace: Pace,
    spill_limit: RateLimit,
    context: Context,
}

impl<F: Fs> Writer<F> {
    /// Writes the records of `arena` into `files`; `last_seq` is the `seq` of the last line there.
    pub fn new(
        source: impl Into<ArenaSource>,
        files: LogFiles<F>,
        last_seq: u64,
        control: Arc<Control>,
        status: Arc<Status>,
        log: Log,
    ) -> Writer<F> {
        let now_us = sys::now_us();
        let mut writer = Writer {
            upkeep: Upkeep::default(),
            intake: Intake::new(source),
            lines: Lines::default(),
            own_lines: OwnLines::default(),
            losses: Losses::new(now_us),
            output: Output::new(files, last_seq),
            pace: Pace::default(),
            spill_limit: RateLimit::default(),
            context: Context::new(control, status, log),
        };
        writer.take_names();
        writer.take_settings();
        writer
    }

    /// Starts with another arena: the server's own, after the records of a dead one.
    pub fn with_arena(mut self, source: impl Into<ArenaSource>) -> Writer<F> {
        self.take_up(source);
        self
    }

    /// Leaves the arena for another one. Lines in the batch still go to the file; records that are
    /// not formatted yet stay unmarked in their arena.
    pub(crate) fn take_up(&mut self, source: impl Into<ArenaSource>) {
        self.intake.take_up(source);
        // All of these refer to records of the old arena.
        self.output.batch.begin_arena();
        self.output.durability.begin_arena();
        self.lines.filter_sync.begin_arena();
        // Unreported losses may date from any time of the arena's life: its writer may have read
        // the counters long before it died, and never have been able to write.
        self.losses.set_seen(self.arena().header().created_us);
        self.take_names();
    }

    /// Uses the setting names of the arena's server.
    fn take_names(&self) {
        let server = self.arena().header().server;
        // The header of an arena without a server has no name: the caller knows the names, or gets
        // them soon.
        if let Some(length @ 1..) = server.iter().position(|byte| *byte == 0) {
            let server = String::from_utf8_lossy(&server[..length]);
            self.context.control.set_names(SettingNames::of_server(&server));
        }
    }

    /// Sets the callback for the lines of changes.
    pub fn set_config_logged(&mut self, logged: ConfigLogged) {
        self.own_lines.set_config_logged(logged);
    }

    /// The producers are threads of another process; see [`Drain::set_tasks`].
    pub fn set_tasks(&mut self, tasks: Option<PathBuf>) {
        self.intake.set_tasks(tasks);
    }

    /// The records come from a packet file: their times are in the past. A statement gets a
    /// `running` line only if its chunk is needed.
    pub fn set_replay(&mut self) {
        self.intake.set_replay();
    }

    /// The filters come from another process: records that a newer filter let through wait for it.
    pub fn wait_for_filters(&mut self) {
        self.lines.filter_sync.set_remote();
    }

    /// The filters belong to the server that has, or had, this arena. The recovery of other arenas
    /// uses none.
    pub fn know_filters_of(&mut self, arena: &Path) {
        self.lines.filter_sync.know_arena(arena);
    }

    /// Before a dead arena is recovered: uses its server's filters, if known.
    pub(crate) fn take_filters_of_dead(&mut self, path: &Path) {
        let Writer { lines, intake, context, .. } = self;
        lines.filter_sync.take_of_dead(intake.arena(), path, &context.control);
    }

    /// Whether another writer may take over: everything in this writer's memory is also in the
    /// arena or in the file. Nor may this writer know of a failed sync: the next writer would
    /// believe that the lines are on the device, because the kernel reports an error only once.
    pub fn may_release(&mut self) -> bool {
        self.output.durability.may_release()
            && self.output.batch.is_empty()
            && self.intake.is_empty()
    }

    /// The arena.
    pub fn arena(&self) -> &Arena {
        self.intake.arena()
    }

    /// Number of connections that have state.
    pub fn connection_count(&self) -> usize {
        self.intake.join.connection_count()
    }

    /// The parts that recovery uses.
    pub(crate) fn parts(&mut self) -> (&mut Drain, &mut Join, &mut Vec<Ready>) {
        self.intake.parts()
    }

    /// See [`LogFiles::announce_recovery`].
    pub fn announce_recovery(&mut self) {
        self.output.files.announce_recovery();
    }

    pub(crate) fn log_directory(&self) -> &Path {
        self.output.files.directory()
    }

    /// `seq` of the last line in the file.
    pub fn last_seq(&self) -> u64 {
        self.output.batch.written_seq()
    }

    /// `seq` of the next line.
    pub(crate) fn next_seq(&self) -> u64 {
        self.output.batch.next_seq()
    }

    /// Writes to the error log.
    pub fn say(&self, severity: Severity, text: &str) {
        self.context.say(severity, text);
    }

    fn take_settings(&mut self) {
        let Writer { output, intake, context, .. } = self;
        let control = &context.control;
        output.batch.set_zone(control.timestamps(), context);
        let arena = intake.arena();
        output.take_durability(arena);
        output.files.set_rotate_bytes(control.setting(Setting::RotateBytes));
        let interval_s = control.setting(Setting::CheckpointIntervalS);
        output.files.set_checkpoint_interval_s(interval_s);
        let flush_bytes = control.setting(Setting::FlushBytes);
        let chunk_bytes = u64::from(arena.geometry().chunk_bytes);
        let limit = u32::try_from((flush_bytes / chunk_bytes).max(1)).unwrap_or(u32::MAX);
        arena.shared().wakeup.0.closed_limit.store(limit, Ordering::Relaxed);
    }
}

/// Lines that do not come from the arena.
impl<F: Fs> Writer<F> {
    /// A line of the recorder itself: `start`, `stop`.
    pub fn note(&mut self, event: EventKind, server: &str) {
        self.note_at(event, server.as_bytes(), sys::now_us());
    }

    fn note_at(&mut self, event: EventKind, server: &[u8], ts_us: i64) {
        let Writer { output: Output { files, batch, .. }, intake, .. } = self;
        let is_start = event == EventKind::Start;
        let key = files.root_key().filter(|_| is_start).map(ToString::to_string);
        let key = key.as_deref().unwrap_or("");
        own_lines::note(event, server, ts_us, key, intake.arena(), batch);
    }

    /// A `config` line for a change that the recorder made.
    fn note_change(&mut self, variable: &str, old_value: &str, new_value: &str) {
        let batch = &mut self.output.batch;
        own_lines::own_change(variable, old_value, new_value, self.intake.arena(), batch);
    }

    fn count_corrupt_records(&mut self) {
        let count = self.intake.take_corrupt(sys::monotonic_us());
        if count > 0 {
            self.count_corrupt(count);
        }
    }

    pub(crate) fn count_corrupt(&self, count: u64) {
        losses::count_corrupt(self.arena(), count);
    }

    /// After the last round: every loss must have a line.
    pub(crate) fn report_last_losses(&mut self, now_us: i64) {
        self.count_corrupt_records();
        let Writer { losses, output, intake, context, .. } = self;
        losses.write_last(now_us, intake.arena(), &mut output.batch, context);
    }

    /// Writes a line that reports a missing arena, whose recorder did not stop, and whose records
    /// are gone.
    pub(crate) fn report_gone(&mut self, path: &Path) {
        losses::write_gone(path, &mut self.output.batch, &self.context);
        self.output.dead_arenas.add_gone(path);
    }

    /// Removes the arena as soon as everything that was formatted so far is in the file.
    pub(crate) fn remove_when_written(&mut self, dead: ArenaFile) {
        self.output.remove_when_written(dead, &self.context);
    }
}

/// Between two rounds, and at the end.
impl<F: Fs> Writer<F> {
    /// Sleeps until the interval is over (`at_most_ms` if that is less), enough records wait, or it
    /// is woken.
    pub fn sleep(&mut self, started_us: i64, at_most_ms: u64) {
        let Writer { pace, output, lines, intake, context, .. } = self;
        let durability = &output.durability;
        let outlook = Outlook {
            is_failing: output.is_failing(),
            is_device_failing: durability.is_failing(),
            is_device_waited_for: durability.is_waited_for(),
            sync_due_us: durability.due_us(context),
            is_filter_waited_for: lines.filter_sync.is_waiting(),
        };
        let settings = (&*context.control, &*context.status);
        pace.sleep(started_us, at_most_ms, &outlook, intake.arena(), settings);
    }

    /// For tests, which have no clock: the next round retries the write.
    #[cfg(test)]
    pub(crate) fn forget_pause(&mut self) {
        self.output.forget_pause();
    }

    /// Whether statements wait, or soon will, because writes fail.
    pub fn is_failing(&self) -> bool {
        self.output.is_failing() || self.output.durability.is_failing()
    }

    /// When recording stops: writes open statements as `running` lines, and the `stop` line.
    /// `false`: the file cannot be written.
    pub fn finish(&mut self) -> bool {
        let now_us = sys::now_us();
        self.output.forget_pause();
        self.upkeep.cancel_packing();
        if !self.round() {
            return false;
        }
        self.report_last_losses(now_us);
        // The round has emptied the queue, so it has only these items.
        self.intake.finish(now_us);
        if !self.write_queue(now_us) {
            return false;
        }
        // Another call after a failed one must not write it again.
        if !self.own_lines.set_has_stop(true) {
            self.note(EventKind::Stop, "");
        }
        if !self.write_out(now_us) || !self.output.sync(self.intake.arena(), &self.context) {
            return false;
        }
        self.recycle();
        true
    }

    /// Closes the files, for another writer of the living arena.
    ///
    /// # Errors
    /// As [`Writer::close`].
    pub fn hand_over(mut self) -> Result<(), FileError> {
        self.output.hand_over(self.intake.arena(), &self.context);
        self.close()
    }

    /// Closes the files, after the threads that read them have ended.
    ///
    /// # Errors
    /// As [`LogFiles::close`].
    pub fn close(mut self) -> Result<(), FileError> {
        self.upkeep.end(&mut self.output.files, &self.context);
        self.output.files.close()
    }

    /// For recovery: formats the whole queue and writes it. `false`: the lines wait in the batch,
    /// before all later ones, until the file can be written.
    pub(crate) fn flush(&mut self) -> bool {
        self.output.forget_pause();
        let now_us = sys::now_us();
        while !self.write_queue(now_us) {}
        self.write_out(now_us)
    }
}
