//! The thread that writes each log file once more in another format. What it does is in
//! [`tacho_logdir`].
//!
//! The writer tells it which file is current and what is wanted, and rings when there are new
//! lines; it reads those from the log file, as anybody could. Neither waits for the other: the
//! lock between them is held for some words, never while something is converted or written. What
//! goes wrong with a rendition is told, tried again, and of no concern to the log.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::Duration;

use tacho_format::{Format, host_name};
use tacho_logdir::{
    Due, FileName, Fs, LogFiles, Plan, RemovalReason, SecondaryFormat as Files, SecondaryState,
    Trouble,
};
use tacho_ring::sys;

use super::context::Context;
use super::rate_limit::{Outages, RateLimit};
use super::stale::Stale;
use crate::control::{FORMAT_UNSAID, Severity};
use crate::pause;

/// How long trouble is left alone.
const RETRY: Duration = Duration::from_secs(1);
const RETRY_US: i64 = 1_000_000;
/// Behind the statements of the server, before what compresses files.
const NICE: i32 = 10;

/// What the setting's numbers mean; see `tacho_setting`.
fn format_of(number: u32) -> Option<Format> {
    match number {
        1 => Some(Format::Csv),
        2 => Some(Format::PerconaJson),
        3 => Some(Format::PerconaNew),
        4 => Some(Format::PerconaOld),
        _ => None,
    }
}

/// What writer and thread know of each other.
struct Shared {
    plan: Plan,
    /// Something has changed since the thread has looked.
    is_news: bool,
    /// It shall end, having done what there is, but not later than this, µs of a clock that is
    /// never set.
    end_by_us: Option<i64>,
    /// Files up to this one will be removed as they are.
    let_go: Option<FileName>,
    /// The thread has done with all files before this one.
    needed_from: FileName,
    /// How much of the log is not in its renditions yet, bytes of lines.
    behind_bytes: u64,
    /// What holds it up, when that has become another thing.
    held_up: Option<String>,
    /// For the error log.
    messages: Vec<(Severity, String)>,
}

/// A [`Shared`], and what wakes the thread.
struct Link {
    shared: Mutex<Shared>,
    wakeup: Condvar,
}

impl Link {
    fn lock(&self) -> MutexGuard<'_, Shared> {
        // Whoever panicked has left whole words in it.
        self.shared.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn tell(&self, change: impl FnOnce(&mut Shared)) {
        let mut shared = self.lock();
        change(&mut shared);
        shared.is_news = true;
        drop(shared);
        self.wakeup.notify_one();
    }

    fn wait_for_news(&self, shared: MutexGuard<'_, Shared>) {
        drop(self.wakeup.wait_while(shared, |shared| !shared.is_news));
    }

    /// Waits until it is time to try again what has failed: new lines change nothing.
    fn wait_in_trouble(&self, shared: MutexGuard<'_, Shared>) {
        let is_quiet = |shared: &mut Shared| shared.end_by_us.is_none() && shared.let_go.is_none();
        drop(self.wakeup.wait_timeout_while(shared, RETRY, is_quiet));
    }
}

struct Running {
    link: Arc<Link>,
    thread: JoinHandle<()>,
}

/// What the writer knows of the renditions.
#[derive(Default)]
pub(super) struct SecondaryFormat {
    running: Option<Running>,
    /// What the last recorder has left was looked at.
    has_begun: bool,
    /// The format beside the current file.
    format: Option<Format>,
    retry_at_us: i64,
    limit: RateLimit,
    /// The oldest file that the thread may still read, when last looked. `None`: there is no thread.
    needed_from: Option<FileName>,
    /// What the thread was last told.
    told: Option<(Plan, u64)>,
}

impl SecondaryFormat {
    /// Whether it is known what the last recorder has left unfinished.
    pub(super) fn is_known(&self) -> bool {
        self.has_begun
    }

    /// Whether a file is still needed as it is, or nobody knows.
    pub(super) fn needs(&self, name: FileName) -> bool {
        !self.has_begun || self.needed_from.is_some_and(|needed_from| needed_from <= name)
    }

    /// Whether a file may be removed. If not, soon: its rendition would go with it, so nobody waits
    /// until that is complete, only until the thread is not at it any more. Where nobody knows what is
    /// unfinished, only what the disk has no room for goes.
    pub(super) fn lets_go(&self, due: Due) -> bool {
        if !self.has_begun {
            return due.reason == RemovalReason::Size;
        }
        let needing = self.running.as_ref().filter(|_| self.needs(due.name));
        let Some(running) = needing else { return true };
        running.link.tell(|shared| shared.let_go = Some(due.name));
        false
    }

    /// Follows the setting: another format begins with another file. Only with an empty batch.
    pub(super) fn follow<F: Fs>(
        &mut self,
        files: &mut LogFiles<F>,
        stale: &mut Stale,
        context: &Context,
    ) {
        let number = context.control.format.load(Ordering::Relaxed);
        let now_us = sys::monotonic_us();
        // Before it is said, nothing may be taken for another one. At the end nothing is begun.
        let is_ending = context.control.stop.load(Ordering::Relaxed);
        if number == FORMAT_UNSAID || is_ending || now_us < self.retry_at_us {
            return;
        }
        let wanted = format_of(number);
        let utc = context.control.utc.load(Ordering::Relaxed) != 0;
        let begun = self.begin(wanted, utc, files, stale);
        if let Err(text) = begun.and_then(|()| self.switch(wanted, utc, files)) {
            self.retry_at_us = now_us + RETRY_US;
            let name = context.name("format");
            let text = format!("{name} cannot be followed at the moment: {text}");
            let is_news = self.limit.allows(now_us);
            context.report(Severity::Warning, &text, is_news);
        }
    }

    /// Takes up what the last recorder has left.
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
            // A file that was begun when its maker died has the format of the one before.
            self.run(state, last, format, utc, files)?;
        } else if wanted.is_some() {
            self.begin_with_current(wanted, utc, files)?;
        }
        self.has_begun = true;
        // What was unknown may go, or become smaller.
        (stale.packing, stale.retention) = (true, true);
        Ok(())
    }

    /// The current file, whatever is in it, is the first one in a format.
    fn begin_with_current<F: Fs>(
        &mut self,
        wanted: Option<Format>,
        utc: bool,
        files: &LogFiles<F>,
    ) -> Result<(), String> {
        let current = files.current_name();
        let mut state = SecondaryState::default();
        state.pending.push_back((current, wanted));
        files.list_secondary(&state).map_err(|error| error.to_string())?;
        self.run(state, current, wanted, utc, files)
    }

    fn run<F: Fs>(
        &mut self,
        state: SecondaryState,
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
            // Not yet: a batch is on its way.
            return Ok(());
        }
        let current = files.current_name();
        match &self.running {
            None => self.begin_with_current(wanted, utc, files)?,
            Some(running) => running.link.tell(|shared| {
                shared.plan.current = current;
                let needed_from = shared.needed_from;
                let formats = &mut shared.plan.formats;
                formats.retain(|(from, _)| *from != current);
                formats.push((current, wanted));
                // What no unfinished file goes by is history.
                while formats.len() > 1 && formats[1].0 <= needed_from {
                    formats.remove(0);
                }
            }),
        }
        self.format = wanted;
        Ok(())
    }

    /// Tells the thread of new lines, and reports what it has to say.
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
            // It only ends when it is told to, or by a panic.
            let messages = self.stop(0);
            self.needed_from = None;
            return report(messages, context);
        }
        let written = context.status.bytes_written.load(Ordering::Relaxed);
        let utc = context.control.utc.load(Ordering::Relaxed) != 0;
        let mut shared = running.link.lock();
        let messages = std::mem::take(&mut shared.messages);
        let held_up = shared.held_up.take();
        context.status.format_behind_bytes.store(shared.behind_bytes, Ordering::Relaxed);
        let needed_from = Some(shared.needed_from);
        (shared.plan.current, shared.plan.utc) = (files.current_name(), utc);
        let told = self.told.as_ref();
        let is_news = told.is_none_or(|(plan, bytes)| *plan != shared.plan || *bytes != written);
        if is_news {
            self.told = Some((shared.plan.clone(), written));
            shared.is_news = true;
        }
        drop(shared);
        if is_news {
            running.link.wakeup.notify_one();
        }
        if self.needed_from != needed_from {
            let before = std::mem::replace(&mut self.needed_from, needed_from);
            // What it needed may go, or become smaller.
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

    /// Lets the thread do what there is, and ends it.
    pub(super) fn end<F: Fs>(&mut self, files: &mut LogFiles<F>, context: &Context) {
        self.look_after(files, &mut Stale::default(), context);
        let patience_ms = context.control.patience_ms.load(Ordering::Relaxed);
        let patience_us = i64::try_from(patience_ms).unwrap_or(i64::MAX / 1_000_000) * 1_000;
        report(self.stop(patience_us), context);
    }

    fn start<F: Fs>(&mut self, mut files: Files<F>, plan: Plan) -> std::io::Result<()> {
        let needed_from = files.oldest().unwrap_or(plan.current);
        self.needed_from = Some(needed_from);
        self.told = None;
        let link = Arc::new(Link {
            shared: Mutex::new(Shared {
                plan,
                is_news: true,
                end_by_us: None,
                let_go: None,
                needed_from,
                behind_bytes: 0,
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

    /// Ends the thread, and gives what it had to say last.
    fn stop(&mut self, patience_us: i64) -> Vec<(Severity, String)> {
        let Some(Running { link, thread }) = self.running.take() else { return Vec::new() };
        link.tell(|shared| shared.end_by_us = Some(sys::monotonic_us() + patience_us));
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
        // Nobody is left who could be told: the next start goes on.
        let _: Vec<(Severity, String)> = self.stop(0);
    }
}

fn panicked() -> (Severity, String) {
    let text = "internal error (panic): the log goes on, and nothing of it is written in another \
                format until the plugin is installed again";
    (Severity::Error, text.to_owned())
}

/// The thread.
fn run_thread<F: Fs>(link: &Link, files: &mut Files<F>) {
    let mut outages = Outages::default();
    let mut held_up_by = None;
    loop {
        pause::here();
        let mut shared = link.lock();
        shared.is_news = false;
        let (plan, end_by_us) = (shared.plan.clone(), shared.end_by_us);
        let let_go = shared.let_go.take();
        drop(shared);
        if let Some(name) = let_go {
            files.let_go(name);
        }
        let is_late = end_by_us.is_some_and(|by_us| sys::monotonic_us() > by_us);
        let is_more = files.step(&plan);
        let mut messages = messages_of(files, &is_more, &mut outages);
        let is_end = end_by_us.is_some() && may_end(files, &is_more, is_late, &mut messages);
        // What is left of the disk is another number each time, and the same trouble.
        let trouble = is_more.as_ref().err();
        let is_another = held_up_by != trouble.map(std::mem::discriminant);
        held_up_by = trouble.map(std::mem::discriminant);
        let behind_bytes = files.behind_bytes(plan.current);
        let mut shared = link.lock();
        shared.behind_bytes = behind_bytes;
        if let Some(trouble) = trouble.filter(|_| is_another) {
            shared.held_up = Some(failure(trouble).1);
        }
        // What is not listed on the disk as done is needed after a death; and without a
        // list it is unknown what is needed of what came since it was made.
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

/// What the error log has to hear after a step.
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

/// Whether the thread, which was told to end, has done what there is, or cannot.
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
                        the next start goes on";
            messages.push((Severity::Warning, text.to_owned()));
            true
        }
        Ok(true) => false,
        Err(_) => true,
    }
}

fn failure(trouble: &Trouble) -> (Severity, String) {
    let text = format!("the audit log goes on, but not in the other format for now: {trouble}");
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
