//! The thread that writes each log file in another format, too. The conversion itself is in
//! [`tacho_logdir`].
//!
//! The writer tells the thread which file is current and which format is wanted, and wakes it when
//! there are new lines; the thread reads these from the log file, as any reader could. Neither
//! waits for the other: the lock between them is held only to copy small values, never during a
//! conversion or a write. A failure of a rendition is reported and retried, and does not affect the
//! log.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::Duration;

use tacho_format::{Format, host_name};
use tacho_logdir::{
    Due, FileName, Fs, LogFiles, PendingFiles, Plan, RemovalReason, SecondaryFormat as Files,
    Trouble,
};
use tacho_ring::sys;
use tacho_settings::Setting;

use super::context::Context;
use super::rate_limit::{Outages, RateLimit};
use super::stale::Stale;
use crate::control::Severity;
use crate::pause;
use crate::settings::FORMAT_NOT_SET;

/// Wait after a failure.
const RETRY: Duration = Duration::from_secs(1);
const RETRY_US: i64 = 1_000_000;
/// After the server's statements, before the thread that compresses files.
const NICE: i32 = 10;

/// Meaning of the setting's numbers; see `tacho_settings`.
fn format_of(number: u64) -> Option<Format> {
    match number {
        1 => Some(Format::Csv),
        2 => Some(Format::PerconaJson),
        3 => Some(Format::PerconaNew),
        4 => Some(Format::PerconaOld),
        _ => None,
    }
}

/// State that writer and thread share.
struct Shared {
    plan: Plan,
    /// Something has changed since the thread last looked.
    is_news: bool,
    /// The thread must finish its work and end, but not later than this time, µs of a monotonic
    /// clock.
    end_by_us: Option<i64>,
    /// Files up to this one will be removed as they are.
    removed_up_to: Option<FileName>,
    /// The thread has finished all files before this one.
    needed_from: FileName,
    /// Backlog of the renditions, bytes of lines.
    behind_bytes: u64,
    /// The cause that blocks the thread, if it has changed.
    held_up: Option<String>,
    /// For the error log.
    messages: Vec<(Severity, String)>,
}

/// [`Shared`] state, and the condition that wakes the thread.
struct Link {
    shared: Mutex<Shared>,
    wakeup: Condvar,
}

impl Link {
    fn lock(&self) -> MutexGuard<'_, Shared> {
        // A panic cannot leave a value half written.
        self.shared.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn update(&self, change: impl FnOnce(&mut Shared)) {
        let mut shared = self.lock();
        change(&mut shared);
        shared.is_news = true;
        drop(shared);
        self.wakeup.notify_one();
    }

    fn wait_for_news(&self, shared: MutexGuard<'_, Shared>) {
        drop(self.wakeup.wait_while(shared, |shared| !shared.is_news));
    }

    /// Waits until a failed step can be retried: new lines do not matter.
    fn wait_in_trouble(&self, shared: MutexGuard<'_, Shared>) {
        let is_quiet =
            |shared: &mut Shared| shared.end_by_us.is_none() && shared.removed_up_to.is_none();
        drop(self.wakeup.wait_timeout_while(shared, RETRY, is_quiet));
    }
}

struct Running {
    link: Arc<Link>,
    thread: JoinHandle<()>,
}

/// The writer's state of the renditions.
#[derive(Default)]
pub(super) struct SecondaryFormat {
    running: Option<Running>,
    /// The work that the last recorder left was read.
    has_begun: bool,
    /// The format of the current file's rendition.
    format: Option<Format>,
    retry_at_us: i64,
    limit: RateLimit,
    /// The oldest file that the thread may still read, as of the last look. `None`: there is no
    /// thread.
    needed_from: Option<FileName>,
    /// The last plan that the thread received.
    sent: Option<(Plan, u64)>,
}

impl SecondaryFormat {
    /// Whether the work that the last recorder left unfinished is known.
    pub(super) fn is_known(&self) -> bool {
        self.has_begun
    }

    /// Whether a file is still needed unchanged, or this is unknown.
    pub(super) fn needs(&self, name: FileName) -> bool {
        !self.has_begun || self.needed_from.is_some_and(|needed_from| needed_from <= name)
    }

    /// Whether a file may be removed. If not, then soon: its rendition is removed with it, so it is
    /// enough to wait until the thread no longer works on it. While the unfinished work is unknown,
    /// only files for which the disk has no space are removed.
    pub(super) fn may_remove(&self, due: Due) -> bool {
        if !self.has_begun {
            return due.reason == RemovalReason::Size;
        }
        let needing = self.running.as_ref().filter(|_| self.needs(due.name));
        let Some(running) = needing else { return true };
        running.link.update(|shared| shared.removed_up_to = Some(due.name));
        false
    }

    /// Applies the setting: another format begins with another file. Only with an empty batch.
    pub(super) fn follow<F: Fs>(
        &mut self,
        files: &mut LogFiles<F>,
        stale: &mut Stale,
        context: &Context,
    ) {
        let number = context.control.setting(Setting::Format);
        let now_us = sys::monotonic_us();
        // While the setting is unknown, no format change may begin; nor at the end.
        let is_ending = context.control.stop.load(Ordering::Relaxed);
        if number == FORMAT_NOT_SET || is_ending || now_us < self.retry_at_us {
            return;
        }
        let wanted = format_of(number);
        let utc = context.control.is_on(Setting::Timestamps);
        let begun = self.begin(wanted, utc, files, stale);
        if let Err(text) = begun.and_then(|()| self.switch(wanted, utc, files)) {
            self.retry_at_us = now_us + RETRY_US;
            let name = context.name(Setting::Format);
            let text = format!("{name} cannot be applied at the moment: {text}");
            let is_news = self.limit.allows(now_us);
            context.report(Severity::Warning, &text, is_news);
        }
    }

    /// Continues the work that the last recorder left.
    fn begin<F: Fs>(
        &mut self,
        wanted: Option<Format>,
        utc: bool,
        files: &LogFiles<F>,
        stale: &mut Stale,
    ) -> Result<(), String> {
        if self.has_begun {
            return Ok(());
        }
        let state = files.secondary_state();
        let state = state
            .map_err(|error| format!("{error}. Until it can, closed files stay as they are"))?;
        if let Some(&(last, format)) = state.pending.back() {
            // A file that was begun just before the server died has the format of the previous one.
            self.run(state, last, format, utc, files)?;
        } else if wanted.is_some() {
            self.begin_with_current(wanted, utc, files)?;
        }
        self.has_begun = true;
        // Files whose state was unknown may now be removed or compressed.
        (stale.packing, stale.retention) = (true, true);
        Ok(())
    }

    /// Makes the current file, including its present content, the first one in a format.
    fn begin_with_current<F: Fs>(
        &mut self,
        wanted: Option<Format>,
        utc: bool,
        files: &LogFiles<F>,
    ) -> Result<(), String> {
        let current = files.current_name();
        let mut state = PendingFiles::default();
        state.pending.push_back((current, wanted));
        files.list_secondary(&state).map_err(|error| error.to_string())?;
        self.run(state, current, wanted, utc, files)
    }

    fn run<F: Fs>(
        &mut self,
        state: PendingFiles,
        seen: FileName,
        format: Option<Format>,
        utc: bool,
        files: &LogFiles<F>,
    ) -> Result<(), String> {
        let plan = Plan { current: files.current_name(), formats: vec![(seen, format)], utc };
        let files = files.secondary_format(state, seen, &host_name());
        self.start(files, plan).map_err(|error| error.to_string())?;
        self.format = format;
        Ok(())
    }

    fn switch<F: Fs>(
        &mut self,
        wanted: Option<Format>,
        utc: bool,
        files: &mut LogFiles<F>,
    ) -> Result<(), String> {
        if self.format == wanted {
            return Ok(());
        }
        files.rotate_now().map_err(|error| error.to_string())?;
        if files.current_bytes() > 0 {
            // Not yet: a batch is being written.
            return Ok(());
        }
        let current = files.current_name();
        match &self.running {
            None => self.begin_with_current(wanted, utc, files)?,
            Some(running) => running.link.update(|shared| {
                shared.plan.current = current;
                let needed_from = shared.needed_from;
                let formats = &mut shared.plan.formats;
                formats.retain(|(from, _)| *from != current);
                formats.push((current, wanted));
                // Formats that no unfinished file uses are dropped.
                while formats.len() > 1 && formats[1].0 <= needed_from {
                    formats.remove(0);
                }
            }),
        }
        self.format = wanted;
        Ok(())
    }

    /// Informs the thread of new lines, and reports its messages.
    pub(super) fn look_after<F: Fs>(
        &mut self,
        files: &mut LogFiles<F>,
        stale: &mut Stale,
        context: &Context,
    ) {
        let Some(running) = &self.running else {
            if self.format.is_none() {
                context.status.format_behind_bytes.store(0, Ordering::Relaxed);
            }
            return;
        };
        if running.thread.is_finished() {
            // The thread only ends on request, or by a panic.
            let messages = self.stop(0);
            self.needed_from = None;
            return report(messages, context);
        }
        let written = context.status.bytes_written.load(Ordering::Relaxed);
        let utc = context.control.is_on(Setting::Timestamps);
        let mut shared = running.link.lock();
        let messages = std::mem::take(&mut shared.messages);
        let held_up = shared.held_up.take();
        context.status.format_behind_bytes.store(shared.behind_bytes, Ordering::Relaxed);
        let needed_from = Some(shared.needed_from);
        (shared.plan.current, shared.plan.utc) = (files.current_name(), utc);
        let sent = self.sent.as_ref();
        let is_news = sent.is_none_or(|(plan, bytes)| *plan != shared.plan || *bytes != written);
        if is_news {
            self.sent = Some((shared.plan.clone(), written));
            shared.is_news = true;
        }
        drop(shared);
        if is_news {
            running.link.wakeup.notify_one();
        }
        if self.needed_from != needed_from {
            let before = std::mem::replace(&mut self.needed_from, needed_from);
            // Files that it needed may now be removed or compressed.
            *stale = Stale { packing: true, retention: true, inventory: true };
            if let Some(before) = before {
                files.forget_sizes(before);
            }
        }
        if let Some(text) = held_up {
            context.show_error(&text);
        }
        report(messages, context);
    }

    /// Lets the thread finish its work, and ends it.
    pub(super) fn end<F: Fs>(&mut self, files: &mut LogFiles<F>, context: &Context) {
        self.look_after(files, &mut Stale::default(), context);
        let stop_timeout_ms = context.control.stop_timeout_ms.load(Ordering::Relaxed);
        let timeout_us = i64::try_from(stop_timeout_ms).unwrap_or(i64::MAX / 1_000_000) * 1_000;
        report(self.stop(timeout_us), context);
    }

    fn start<F: Fs>(&mut self, mut files: Files<F>, plan: Plan) -> std::io::Result<()> {
        let needed_from = files.oldest().unwrap_or(plan.current);
        // Known before the thread's first step, which may take long: never less than is left.
        let behind_bytes = files.behind_bytes(plan.current);
        self.needed_from = Some(needed_from);
        self.sent = None;
        let link = Arc::new(Link {
            shared: Mutex::new(Shared {
                plan,
                is_news: true,
                end_by_us: None,
                removed_up_to: None,
                needed_from,
                behind_bytes,
                held_up: None,
                messages: Vec::new(),
            }),
            wakeup: Condvar::new(),
        });
        let link_too = link.clone();
        let thread = std::thread::Builder::new().name("tacho-format".to_owned());
        let thread = thread.spawn(move || {
            super::packing::lower_priority(NICE);
            run_thread(&link_too, &mut files);
        })?;
        self.running = Some(Running { link, thread });
        Ok(())
    }

    /// Ends the thread, and returns its last messages.
    fn stop(&mut self, timeout_us: i64) -> Vec<(Severity, String)> {
        let Some(Running { link, thread }) = self.running.take() else { return Vec::new() };
        link.update(|shared| shared.end_by_us = Some(sys::monotonic_us() + timeout_us));
        let ended = thread.join();
        let mut messages = std::mem::take(&mut link.lock().messages);
        if ended.is_err() {
            messages.push(panicked());
        }
        messages
    }
}

impl Drop for SecondaryFormat {
    fn drop(&mut self) {
        // No caller is left to report it to: the next start continues.
        let _: Vec<(Severity, String)> = self.stop(0);
    }
}

fn panicked() -> (Severity, String) {
    let text = "internal error (panic): the log continues, but is not written in another \
                format until the plugin is installed again";
    (Severity::Error, text.to_owned())
}

/// Main function of the thread.
fn run_thread<F: Fs>(link: &Link, files: &mut Files<F>) {
    let mut outages = Outages::default();
    let mut held_up_by = None;
    loop {
        pause::here();
        let mut shared = link.lock();
        shared.is_news = false;
        let (plan, end_by_us) = (shared.plan.clone(), shared.end_by_us);
        let removed_up_to = shared.removed_up_to.take();
        drop(shared);
        if let Some(name) = removed_up_to {
            files.leave_up_to(name);
        }
        let is_late = end_by_us.is_some_and(|by_us| sys::monotonic_us() > by_us);
        let is_more = files.step(&plan);
        let mut messages = messages_of(files, &is_more, &mut outages);
        let is_end = end_by_us.is_some() && may_end(files, &is_more, is_late, &mut messages);
        // For a full disk, the number of free bytes differs each time, but the problem is the same.
        let trouble = is_more.as_ref().err();
        let is_another = held_up_by != trouble.map(std::mem::discriminant);
        held_up_by = trouble.map(std::mem::discriminant);
        let behind_bytes = files.behind_bytes(plan.current);
        let mut shared = link.lock();
        shared.behind_bytes = behind_bytes;
        if let Some(trouble) = trouble.filter(|_| is_another) {
            shared.held_up = Some(failure(trouble).1);
        }
        // Files that the list on disk does not show as done are needed after a death; and without a
        // list it is unknown which newer files are needed.
        if is_more.is_ok() {
            shared.needed_from = files.oldest().unwrap_or(plan.current);
        }
        shared.messages.append(&mut messages);
        if is_end {
            return;
        }
        match is_more {
            Ok(true) => {}
            Ok(false) => link.wait_for_news(shared),
            Err(_) => link.wait_in_trouble(shared),
        }
    }
}

/// The messages for the error log after a step.
fn messages_of<F: Fs>(
    files: &mut Files<F>,
    is_more: &Result<bool, Trouble>,
    outages: &mut Outages,
) -> Vec<(Severity, String)> {
    let notes = files.take_notes().into_iter();
    let mut messages: Vec<_> = notes.map(|note| (Severity::Warning, note)).collect();
    match is_more {
        Ok(_) if outages.succeeded() => {
            let text = "the audit log is written in the other format again".to_owned();
            messages.push((Severity::Note, text));
        }
        Ok(_) => {}
        Err(trouble) => {
            messages.extend(outages.failed(sys::monotonic_us()).map(|_| failure(trouble)));
        }
    }
    messages
}

/// Whether the thread, which must end, has finished its work, or cannot.
fn may_end<F: Fs>(
    files: &mut Files<F>,
    is_more: &Result<bool, Trouble>,
    is_late: bool,
    messages: &mut Vec<(Severity, String)>,
) -> bool {
    match is_more {
        Ok(false) => {
            messages.extend(files.end().err().map(|trouble| failure(&trouble)));
            true
        }
        Ok(true) if is_late => {
            let text = "stopped before all of the audit log was written in the other format: \
                        the next start continues";
            messages.push((Severity::Warning, text.to_owned()));
            true
        }
        Ok(true) => false,
        Err(_) => true,
    }
}

fn failure(trouble: &Trouble) -> (Severity, String) {
    let text = format!("the audit log continues, but not in the other format for now: {trouble}");
    (Severity::Warning, text)
}

fn report(messages: Vec<(Severity, String)>, context: &Context) {
    for (severity, text) in messages {
        context.say(severity, &text);
        if severity != Severity::Note {
            context.show_error(&text);
        }
    }
}
