//! From the batch to the file, and what follows from its being there.

use std::path::Path;
use std::sync::atomic::Ordering;

use tacho_logdir::{Event, FileError, Fs, Sealed};
use tacho_ring::producer::Futex;
use tacho_ring::sys;
use tacho_settings::{Setting, SettingNames};

use super::Writer;
use super::losses::confirm_losses;
use crate::annex;
use crate::arena_file::ArenaFile;
use crate::arena_list;
use crate::control::{Severity, Status};

/// How long a failed write is left alone, µs.
const RETRY_US: i64 = 250_000;
/// Buffers that one huge statement has made larger than this are made smaller again, bytes.
const BUFFER_BYTES_MAX: usize = 4 << 20;

impl<F: Fs> Writer<F> {
    /// Writes the batch. `false`: it could not all be written, and is tried again later.
    pub(super) fn write_out(&mut self, now_us: i64) -> bool {
        if self.batch.is_empty() {
            return true;
        }
        if self.outages.is_failing()
            && now_us < self.retry_at_us
            && now_us > self.retry_at_us - RETRY_US
        {
            return false;
        }
        let result = self.files.write(&self.batch, &mut self.progress);
        self.tell_events();
        if let Err(error) = result {
            self.tell_failure(&error);
            self.retry_at_us = now_us + RETRY_US;
            return false;
        }
        if self.outages.succeeded() {
            self.say(Severity::Note, "the audit log can be written again and goes on");
        }
        if let Some(count) = self.outages.overdue(sys::monotonic_us()) {
            let text =
                format!("the audit log could not be written {count} more times, each briefly");
            self.say(Severity::Warning, &text);
        }
        let lines = self.next_seq - 1 - self.written_seq;
        self.status.records_written.fetch_add(lines, Ordering::Relaxed);
        self.status.bytes_written.fetch_add(self.batch.len() as u64, Ordering::Relaxed);
        self.written_seq = self.next_seq - 1;
        self.batch.clear();
        self.batch.shrink_to(BUFFER_BYTES_MAX);
        self.scratch.shrink(BUFFER_BYTES_MAX);
        self.progress = 0;
        self.publish_written();
        self.remove_recovered();
        true
    }

    /// Tells the arena what is in the file, for recovery.
    pub(super) fn publish_written(&mut self) {
        let Writer { drain, awaited, syncing, finished, written_seq, .. } = self;
        let arena = drain.arena();
        let state = &arena.shared().writer.0;
        state.written_seq.store(*written_seq, Ordering::Relaxed);
        confirm_losses(arena, *written_seq);
        for index in finished.drain(..) {
            if let Some(entry) = arena.running().get(index) {
                entry.running_seq.store(0, Ordering::Relaxed);
            }
        }
        syncing.waiting.extend(awaited.drain(..));
    }

    /// Removes the arena as soon as everything that was formatted so far is in the file.
    pub(crate) fn remove_when_written(&mut self, dead: ArenaFile) {
        self.recovered.push(dead);
        if self.batch.is_empty() {
            self.remove_recovered();
        }
    }

    pub(super) fn remove_recovered(&mut self) {
        for path in std::mem::take(&mut self.gone) {
            self.forget_arena(&path);
            // Pieces of texts, of which nobody has the rest.
            if let Err(error) = annex::remove_all(&path) {
                self.say(Severity::Warning, &error.to_string());
            }
        }
        for dead in std::mem::take(&mut self.recovered) {
            self.forget_arena(dead.path());
            // Harmless but for the memory: all its records are marked as written.
            if let Err(error) = dead.remove() {
                self.say(Severity::Warning, &error.to_string());
            }
        }
    }

    /// Before it is removed: a list without it is right, one with it would miss it.
    fn forget_arena(&self, path: &Path) {
        if let Err(error) = arena_list::forget(self.log_directory(), path) {
            let list = self.log_directory().join(arena_list::NAME);
            self.say(Severity::Warning, &format!("{}: {error}", list.display()));
        }
    }

    /// Gives back the chunks whose records are all in the file. Returns how many.
    pub(super) fn recycle(&mut self) -> u32 {
        let count = self.drain.recycle(self.written_seq);
        if count > 0 {
            self.arena().shared().gate.0.open(&Futex);
        }
        self.show_arena_use();
        count
    }

    pub(super) fn show_arena_use(&self) {
        self.status.arena_bytes_used.store(self.drain.used_bytes(), Ordering::Relaxed);
    }

    pub(super) fn tell_failure(&mut self, error: &FileError) {
        self.status.write_errors.fetch_add(1, Ordering::Relaxed);
        let text = error.to_string();
        match self.outages.failed(sys::monotonic_us()) {
            Some(0) => self.say(Severity::Error, &text),
            Some(count) => {
                let text = format!("{text} (And {count} more times since the last message.)");
                self.say(Severity::Error, &text);
            }
            None => {}
        }
        Status::set(&self.status.last_error, &text);
    }

    /// A line for each file that was set aside.
    pub(super) fn tell_set_aside(&mut self) {
        if self.stop_told {
            // Nothing comes behind that line; the error log has it.
            return;
        }
        for (from, to) in std::mem::take(&mut self.set_aside) {
            self.note_own_config("file_set_aside", &from, &to);
        }
    }

    pub(super) fn tell_events(&mut self) {
        for event in self.files.take_events() {
            let severity = match event {
                Event::Rotated { .. } | Event::SealResumed | Event::SealBegun { .. } => {
                    Severity::Note
                }
                _ => Severity::Warning,
            };
            let text = describe(&event, self.control.names());
            if let Event::SetAside { from, to } = &event {
                self.set_aside.push((name_of(from), name_of(to)));
            }
            self.say(severity, &text);
            if severity == Severity::Warning {
                Status::set(&self.status.last_error, &text);
            }
        }
        let path = self.files.current_file().to_string_lossy();
        let mut current =
            self.status.current_file.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if *current != path {
            current.clear();
            current.push_str(&path);
        }
    }
}

/// The name of a file without its directory.
fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// What happened to the files, in a sentence for the error log.
fn describe(event: &Event, names: SettingNames) -> String {
    match event {
        Event::Rotated { closed, closed_bytes, opened } => format!(
            "{} is complete ({closed_bytes} bytes), going on in {}",
            closed.display(),
            opened.display()
        ),
        Event::RotateFailed { error } => {
            format!("no new log file could be begun, going on in the old one: {error}")
        }
        Event::Recreated { path, bytes } => format!(
            "the log file was deleted; its {bytes} bytes were written again to {}. \
             Do not delete files that are still being written",
            path.display()
        ),
        Event::Moved { from, opened } => {
            format!("{} was renamed by somebody, going on in {}", from.display(), opened.display())
        }
        Event::Truncated { path, gone_bytes, .. } => format!(
            "{} was cut short by somebody: {gone_bytes} bytes of the audit log are gone. \
             Use SET GLOBAL {}=1 instead of copytruncate",
            path.display(),
            names.name(Setting::RotateNow)
        ),
        Event::SealFailed { error } => {
            format!("the audit log goes on and its seal cannot be written at the moment: {error}")
        }
        Event::SealBegun { sealed } => {
            let Sealed { root, declared, .. } = sealed;
            let broken = declared
                .map(|reason| format!("; its chain is broken ({reason}), and says so"))
                .unwrap_or_default();
            format!("the audit log is sealed from here on{broken}; its public key is {root}")
        }
        Event::SealResumed => "the seal of the audit log is complete again".to_owned(),
        Event::SetAside { from, to } => format!(
            "{} was not made by Tachograph; it is set aside as {}. An account with the privilege FILE \
             can make such files (secure_file_priv)",
            from.display(),
            to.display()
        ),
        Event::Foreign { path, kept_bytes, removed_bytes } => format!(
            "somebody else writes into {}: {kept_bytes} bytes were left, {removed_bytes} removed",
            path.display()
        ),
    }
}
