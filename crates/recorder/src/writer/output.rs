//! From the batch to the file, and the consequences of a written batch.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use tacho_logdir::{Event, FileError, Fs, LogFiles};
use tacho_ring::arena::Arena;
use tacho_ring::sys;
use tacho_settings::Setting;

use super::batch::{Batch, WrittenBatch};
use super::context::Context;
use super::dead_arenas::DeadArenas;
use super::durability::Durability;
use super::file_events::{describe, name_of, severity_of};
use super::losses::confirm_losses;
use super::rate_limit::Outages;
use crate::arena_file::ArenaFile;
use crate::control::Severity;

/// Wait before a failed write is retried, µs.
const RETRY_US: i64 = 250_000;

/// Writes batches to the file, see the module documentation.
pub(super) struct Output<F: Fs> {
    pub(super) files: LogFiles<F>,
    pub(super) batch: Batch,
    pub(super) durability: Durability,
    pub(super) dead_arenas: DeadArenas,
    outages: Outages,
    /// When a failed write is retried, µs since 1970-01-01 UTC.
    retry_at_us: i64,
    /// Files that were set aside and have no line in the log yet: old name, new name.
    set_aside: Vec<(String, String)>,
}

impl<F: Fs> Output<F> {
    /// `last_seq`: `seq` of the last line in the files.
    pub(super) fn new(files: LogFiles<F>, last_seq: u64) -> Output<F> {
        Output {
            files,
            batch: Batch::new(last_seq),
            durability: Durability::default(),
            dead_arenas: DeadArenas::default(),
            outages: Outages::default(),
            retry_at_us: 0,
            set_aside: Vec::new(),
        }
    }

    /// Whether the file cannot be written at the moment.
    pub(super) fn is_failing(&self) -> bool {
        self.outages.is_failing()
    }

    /// Retries a failed write at once.
    pub(super) fn forget_pause(&mut self) {
        self.retry_at_us = 0;
    }

    /// Writes the batch, whose lines are about this arena. `false`: not all of it was written; the
    /// rest is retried later.
    pub(super) fn write(&mut self, now_us: i64, arena: &Arena, context: &Context) -> bool {
        if self.batch.is_empty() {
            return true;
        }
        if self.outages.is_failing()
            && now_us < self.retry_at_us
            && now_us > self.retry_at_us - RETRY_US
        {
            return false;
        }
        let result = self.batch.write_to(&mut self.files);
        self.report_events(context);
        if let Err(error) = result {
            self.report_failure(&error, context);
            self.retry_at_us = now_us + RETRY_US;
            return false;
        }
        if self.outages.succeeded() {
            context.say(Severity::Note, "the audit log can be written again and continues");
        }
        if let Some(count) = self.outages.overdue(sys::monotonic_us()) {
            let text =
                format!("the audit log could not be written {count} more times, each briefly");
            context.say(Severity::Warning, &text);
        }
        self.note_written(arena, context);
        self.dead_arenas.remove(self.files.directory(), context);
        true
    }

    /// Stores in the arena how far the file is written, for recovery.
    fn note_written(&mut self, arena: &Arena, context: &Context) {
        let WrittenBatch { written_seq, lines, bytes, awaited, finished } =
            self.batch.take_written();
        context.status.records_written.fetch_add(lines, Ordering::Relaxed);
        context.status.bytes_written.fetch_add(bytes, Ordering::Relaxed);
        arena.shared().writer.0.written_seq.store(written_seq, Ordering::Relaxed);
        confirm_losses(arena, written_seq);
        for index in finished {
            if let Some(entry) = arena.running().get(index) {
                entry.running_seq.store(0, Ordering::Relaxed);
            }
        }
        self.durability.wait_for(awaited);
    }

    /// Removes the arena as soon as everything that was formatted so far is in the file.
    pub(super) fn remove_when_written(&mut self, dead: ArenaFile, context: &Context) {
        self.dead_arenas.add(dead);
        if self.batch.is_empty() {
            self.dead_arenas.remove(self.files.directory(), context);
        }
    }

    /// Begins a new file if this was requested, or the current one is old enough.
    pub(super) fn rotate(&mut self, context: &Context) {
        let control = &context.control;
        self.files.rotate_when_older(control.setting(Setting::RotateIntervalS));
        if control.rotate_now.swap(false, Ordering::Relaxed)
            && let Err(error) = self.files.rotate_now()
        {
            self.report_failure(&error, context);
        }
    }

    fn report_failure(&mut self, error: &FileError, context: &Context) {
        context.status.write_errors.fetch_add(1, Ordering::Relaxed);
        let text = error.to_string();
        match self.outages.failed(sys::monotonic_us()) {
            Some(0) => context.say(Severity::Error, &text),
            Some(count) => {
                let text = format!("{text} (And {count} more times since the last message.)");
                context.say(Severity::Error, &text);
            }
            None => {}
        }
        context.show_error(&text);
    }

    /// Reports events of the files.
    pub(super) fn report_events(&mut self, context: &Context) {
        for event in self.files.take_events() {
            let severity = severity_of(&event);
            let text = describe(&event, context.control.names());
            if let Event::SetAside { from, to } = &event {
                self.set_aside.push((name_of(from), name_of(to)));
            }
            context.say(severity, &text);
            if severity == Severity::Warning {
                context.show_error(&text);
            }
        }
        let path = self.files.current_file().to_string_lossy();
        let current = &context.status.current_file;
        let mut current = current.lock().unwrap_or_else(PoisonError::into_inner);
        if *current != path {
            current.clear();
            current.push_str(&path);
        }
    }

    /// Files that were set aside since the last call: old name, new name.
    pub(super) fn take_set_aside(&mut self) -> Vec<(String, String)> {
        std::mem::take(&mut self.set_aside)
    }

    /// Applies the durability setting.
    pub(super) fn take_durability(&mut self, arena: &Arena) {
        self.durability.take_setting(arena, &mut self.files);
    }

    /// Accounts for lines of the previous writer that may not be on the device.
    pub(super) fn doubt_device(&mut self, arena: &Arena, context: &Context) {
        self.take_durability(arena);
        self.durability.doubt_predecessor(arena, &mut self.files, context);
    }

    /// Syncs the file to the device if that is due or a producer waits for it, and releases the
    /// producers.
    pub(super) fn settle(&mut self, arena: &Arena, context: &Context) {
        // While the file cannot be written, there is nothing to sync.
        let may_sync = self.batch.is_empty();
        self.durability.settle(arena, &mut self.files, may_sync, context);
        self.durability.note_synced(arena, &self.files);
    }

    /// Syncs the file to the device. `false`: it should be there but is not.
    pub(super) fn sync(&mut self, arena: &Arena, context: &Context) -> bool {
        self.durability.sync(arena, &mut self.files, context)
    }

    /// Before another writer takes over: syncs the file to the device, if the setting requires it.
    pub(super) fn hand_over(&mut self, arena: &Arena, context: &Context) {
        if self.durability.is_wanted() {
            // A failure is reported there.
            self.sync(arena, context);
            // Then the next writer need not doubt what is on the device.
            self.durability.note_synced(arena, &self.files);
        }
    }
}
