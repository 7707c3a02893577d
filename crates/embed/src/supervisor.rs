//! The writer thread: writes the log, or supervises the recorder outside the server that does.
//!
//! The process that has the lock of the log directory writes. With `tacho_writer=EXTERNAL` this
//! thread writes until a recorder connects; then it closes the log, and waits at the connection.
//! When that ends, for any reason, it opens the log again and continues where the recorder stopped.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::Duration;

use tacho_logdir::FileError;
use tacho_recorder::arena_file::ArenaFile;
use tacho_recorder::arena_list;
use tacho_recorder::control::{ConfigChange, Control, Severity, Status};
use tacho_recorder::external::channel::{Received, wait};
use tacho_recorder::external::message::{
    Attach, Bytes, Figures, FilterList, Request, Settings, ToRecorder, ToServer,
};
use tacho_recorder::opening;
use tacho_recorder::recover;
use tacho_recorder::writer::Writer;
use tacho_ring::arena::Arena;
use tacho_ring::layout::OVERFLOW_LET_GO;
use tacho_ring::producer::Futex;
use tacho_ring::sys;
use tacho_settings::Setting;

use crate::error_log;
use crate::listener::{Candidate, Listener};
use crate::outside::Outside;
use crate::priority;
use crate::silence::{Progress, SILENCE_US, is_silent};

/// How long a server that is shutting down waits for a log that cannot be written, µs.
const ENDING_TIMEOUT_US: i64 = 10_000_000;
/// Interval between checks for a recorder that wants the log, ms.
const LOOK_EVERY_MS: u64 = 100;
/// Interval between checks of a silent recorder that writes, ms.
const WATCH_EVERY_MS: i32 = 500;
/// How much longer than its timeout a recorder may take to stop, µs.
const STOP_GRACE_US: i64 = 2_000_000;
/// How long to wait for another writer of the log before this is reported, µs.
const LOCKED_US: i64 = 3_000_000;

/// The writer thread, see the module documentation.
pub struct Supervisor {
    pub control: Arc<Control>,
    pub status: Arc<Status>,
    /// Set when everything is written.
    pub drained: Arc<AtomicBool>,
    pub ending: Option<&'static AtomicU8>,
    pub arena: Arena,
    pub arena_path: PathBuf,
    pub arena_directory: PathBuf,
    pub log_directory: PathBuf,
    pub signing_key_file: PathBuf,
    pub outside: Arc<Outside>,
}

/// Why this thread has stopped writing.
enum Until {
    Stop,
    Candidate(Candidate),
}

/// A change of a setting that was sent to the recorder.
struct Sent {
    change: ConfigChange,
    /// Its line, if the recorder has begun to write it.
    seq: Option<u64>,
}

/// A recorder that has the log.
struct Attached<'a> {
    of: &'a Supervisor,
    candidate: Candidate,
    settings: Settings,
    filter_version: u64,
    figures: Figures,
    sent: Vec<Sent>,
    heard_us: i64,
    progress: Progress,
    /// It has reported that it has the lock of the log.
    has_log: bool,
    is_silent: bool,
    stop_us: Option<i64>,
    is_released: bool,
    ending: Ending,
}

/// How the connection to a recorder ended.
enum Left {
    /// The log must be taken back; a message with its severity.
    Gone(Severity, String),
    /// The recorder stopped in the orderly way.
    Stopped { is_drained: bool },
}

/// How long the server has been shutting down while the log cannot be written.
#[derive(Default)]
struct Ending {
    since_us: Option<i64>,
}

impl Supervisor {
    /// Main function of the thread.
    pub fn guarded(self, writer: Writer) {
        priority::raise();
        let outcome = catch_unwind(AssertUnwindSafe(|| self.run(writer)));
        self.outside.set_writer(None);
        if outcome.is_err() {
            // The database continues. Records in the arena are recovered at the next start; later
            // ones are counted.
            let shared = self.arena.shared();
            shared.settings.0.overflow.store(OVERFLOW_LET_GO, Ordering::Relaxed);
            shared.backpressure.0.open(&Futex);
            error_log::write(
                Severity::Error,
                "internal error: the writer stopped; further records are dropped when the arena \
                 is full, and counted in Tacho_records_lost. UNINSTALL and INSTALL the plugin",
            );
        }
    }

    fn run(&self, mut writer: Writer) {
        let mut listener = Listener::new(&self.arena_directory, &self.log_directory);
        loop {
            let candidate = match self.write(&mut writer, &mut listener) {
                Until::Stop => return self.finish(writer),
                Until::Candidate(candidate) => candidate,
            };
            let first_seq = writer.last_seq();
            let records = self.status.records_written.load(Ordering::Relaxed);
            report_close(writer.hand_over());
            let (left, sent) = self.attend(candidate);
            let is_drained = match left {
                Left::Stopped { is_drained } => {
                    self.drained.store(is_drained, Ordering::Relaxed);
                    return;
                }
                Left::Gone(severity, text) => {
                    error_log::write(severity, &text);
                    self.take_back(sent)
                }
            };
            let Some(taken) = is_drained else { return };
            writer = taken;
            // The lines that it wrote, whether or not it reported them, and those recovered since.
            let lines = writer.last_seq().saturating_sub(first_seq);
            self.status.records_written.fetch_max(records + lines, Ordering::Relaxed);
            self.outside.set_writer(None);
        }
    }

    fn written_seq(&self) -> u64 {
        self.arena.shared().writer.0.written_seq.load(Ordering::Relaxed)
    }

    fn is_stopped(&self) -> bool {
        self.control.stop.load(Ordering::Relaxed)
    }

    /// A server does not end before its statements do, and these wait for space in the arena:
    /// without this it would hang until an operator kills it. The arena counts the records that are
    /// dropped, and the next server reports them.
    fn look_at_end(&self, ending: &mut Ending, is_failing: bool) {
        let is_ending = self.ending.is_some_and(|it| it.load(Ordering::Relaxed) != 0);
        if !is_failing || !is_ending {
            ending.since_us = None;
            return;
        }
        let now_us = sys::monotonic_us();
        if now_us - *ending.since_us.get_or_insert(now_us) <= ENDING_TIMEOUT_US {
            return;
        }
        let shared = self.arena.shared();
        if shared.settings.0.overflow.swap(OVERFLOW_LET_GO, Ordering::Relaxed) != OVERFLOW_LET_GO {
            error_log::write(
                Severity::Warning,
                "the server shuts down while the audit log cannot be written: waiting \
                 statements are released, and records that do not fit are counted as lost",
            );
        }
        shared.backpressure.0.open(&Futex);
    }

    /// Writes until it must stop, or a recorder may have the log.
    fn write(&self, writer: &mut Writer, listener: &mut Listener) -> Until {
        let mut ending = Ending::default();
        while !self.is_stopped() {
            let started_us = sys::monotonic_us();
            listener.set_open(self.outside.is_wanted());
            let is_written = writer.round();
            self.look_at_end(&mut ending, writer.is_failing());
            // Nothing may be only in this process, which is the case after a few rounds.
            if is_written
                && writer.may_release()
                && let Some(candidate) = listener.next()
            {
                return Until::Candidate(candidate);
            }
            let at_most_ms = if listener.is_open() { LOOK_EVERY_MS } else { u64::MAX };
            writer.sleep(started_us, at_most_ms);
        }
        // The timeout includes the time that it has already waited.
        self.stop_since(ending.since_us);
        Until::Stop
    }

    fn stop_since(&self, since_us: Option<i64>) {
        if let Some(since_us) = since_us {
            let waited_ms = ((sys::monotonic_us() - since_us) / 1_000).max(0) as u64;
            let timeout_ms = &self.control.stop_timeout_ms;
            let left_ms = timeout_ms.load(Ordering::Relaxed).saturating_sub(waited_ms);
            timeout_ms.store(left_ms, Ordering::Relaxed);
        }
    }

    fn stop_timeout_us(&self) -> i64 {
        self.control.stop_timeout_ms.load(Ordering::Relaxed) as i64 * 1_000
    }

    /// Writes everything, and the `stop` line.
    fn finish(&self, mut writer: Writer) {
        let stop_us = sys::monotonic_us();
        loop {
            if writer.finish() {
                self.drained.store(true, Ordering::Relaxed);
                // Under the lock of the log, and before the arena is removed.
                if let Err(error) = arena_list::forget(&self.log_directory, &self.arena_path) {
                    let list = self.log_directory.join(arena_list::NAME);
                    error_log::write(Severity::Warning, &format!("{}: {error}", list.display()));
                }
                break;
            }
            if sys::monotonic_us() - stop_us > self.stop_timeout_us() {
                break;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        report_close(writer.close());
    }

    /// Hands the log to a recorder, and waits until it is released. Returns the changes that were
    /// sent to the recorder but perhaps not written.
    fn attend(&self, mut candidate: Candidate) -> (Left, Vec<Sent>) {
        let settings = Settings::of(&self.control);
        let filters = FilterList::newer_than(&self.control, 0).unwrap_or_default();
        let filter_version = filters.version();
        let attach = ToRecorder::Attach(Box::new(Attach {
            arena: Bytes::from(&*self.arena_path),
            log_directory: Bytes::from(&*self.log_directory),
            signing_key_file: Bytes::from(&*self.signing_key_file),
            pid: std::process::id(),
            settings: settings.clone(),
            filters,
        }));
        let sent = candidate.channel.send(&attach);
        let mut attached = Attached {
            of: self,
            candidate,
            settings,
            filter_version,
            figures: Figures::default(),
            sent: Vec::new(),
            heard_us: sys::monotonic_us(),
            progress: Progress::new(sys::monotonic_us()),
            has_log: false,
            is_silent: false,
            stop_us: None,
            is_released: false,
            ending: Ending::default(),
        };
        let left = match sent {
            Ok(()) => attached.watch(),
            Err(error) => attached.gone(&error.to_string()),
        };
        self.stop_since(attached.stop_us.or(attached.ending.since_us));
        (left, attached.sent)
    }

    /// Opens the log again and continues, as soon as no other process has it. `None`: it had to
    /// stop and could not open the log.
    fn take_back(&self, sent: Vec<Sent>) -> Option<Writer> {
        let since_us = sys::monotonic_us();
        let mut said = String::new();
        let mut ending = Ending::default();
        // Kept: while this process has the lock, no other one gives new numbers to lines that marks
        // in the arena refer to.
        let mut held = None;
        let (files, last_seq, nothing, living) = loop {
            let opened = held.take().map_or_else(
                || {
                    let names = self.control.names();
                    let Self { log_directory, signing_key_file, .. } = self;
                    opening::open(log_directory, signing_key_file, names, &error_log::write)
                },
                Ok,
            );
            let opened = opened.map_err(|error| {
                // The kernel releases the lock of a dead recorder a moment after its connection.
                let is_soon = sys::monotonic_us() - since_us < LOCKED_US;
                let is_reported = error.locked_by().is_none() || !is_soon;
                (error.to_string(), is_reported)
            });
            let opened = opened.and_then(|(files, last_seq)| {
                let nothing = ArenaFile::placeholder();
                let living = recover::take_up_living(self.arena, &self.arena_path, last_seq);
                match nothing.and_then(|nothing| Ok((nothing, living?))) {
                    Ok((nothing, living)) => Ok((files, last_seq, nothing, living)),
                    Err(error) => {
                        held = Some((files, last_seq));
                        Err((error.to_string(), true))
                    }
                }
            });
            match opened {
                Ok(opened) => break opened,
                Err((why, is_reported)) => {
                    if is_reported && why != said {
                        let text = format!("the audit log cannot be taken back yet: {why}");
                        error_log::write(Severity::Error, &text);
                        Status::set(&self.status.last_error, &text);
                        said = why;
                    }
                }
            }
            self.look_at_end(&mut ending, !said.is_empty());
            if self.is_stopped() && sys::monotonic_us() - since_us > self.stop_timeout_us() {
                return None;
            }
            std::thread::sleep(Duration::from_millis(10));
        };
        let unwritten = sent.into_iter().filter(|sent| sent.seq.is_none_or(|seq| seq > last_seq));
        {
            let changes = &self.control.config_changes;
            let mut changes = changes.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            changes.splice(0..0, unwritten.map(|sent| sent.change));
        }
        let (control, status) = (self.control.clone(), self.status.clone());
        let log = Box::new(error_log::write);
        let writer = Writer::new(nothing.arena(), files, last_seq, control, status, log);
        let (writer, recovered) =
            recover::succeed(writer, living, &self.arena_directory, &self.log_directory);
        if let Err(error) = recovered {
            error_log::write(Severity::Warning, &error.to_string());
        }
        Some(writer)
    }
}

fn report_close(closed: Result<(), FileError>) {
    if let Err(error) = closed {
        error_log::write(Severity::Error, &format!("closing the audit log: {error}"));
    }
}

impl Attached<'_> {
    fn gone(&self, why: &str) -> Left {
        let text = format!(
            "the recorder, process {}, has gone ({why}): the server writes the audit log itself again",
            self.candidate.peer.pid
        );
        Left::Gone(Severity::Warning, text)
    }

    /// Runs until the connection ends.
    fn watch(&mut self) -> Left {
        loop {
            let sent = self.send_changes();
            let channel = &mut self.candidate.channel;
            if let Err(error) = sent.and_then(|()| channel.flush()) {
                // Its last messages can still be read.
                if let Some(left) = self.receive_messages() {
                    return left;
                }
                return self.gone(&error.to_string());
            }
            let fd = (channel.descriptor(), channel.has_unsent());
            if let Err(error) = wait(&[fd, (self.of.outside.descriptor(), false)], WATCH_EVERY_MS) {
                return self.gone(&error.to_string());
            }
            self.of.outside.clear();
            if let Some(left) = self.receive_messages() {
                return left;
            }
            let now_us = sys::monotonic_us();
            if !self.has_log && now_us - self.heard_us > SILENCE_US {
                // If it gets the lock later, it releases it: this connection is closed by then.
                return self.gone("it has not taken the log");
            }
            self.look_at_silence();
            let is_over = |since_us| now_us - since_us > self.of.stop_timeout_us() + STOP_GRACE_US;
            if self.stop_us.is_some_and(is_over) {
                return Left::Stopped { is_drained: false };
            }
        }
    }

    /// Sends changes to the recorder.
    fn send_changes(&mut self) -> std::io::Result<()> {
        let control = &self.of.control;
        let channel = &mut self.candidate.channel;
        let settings = Settings::of(control);
        if settings != self.settings {
            self.settings = settings.clone();
            channel.send(&ToRecorder::Settings(settings))?;
        }
        if let Some(filters) = FilterList::newer_than(control, self.filter_version) {
            self.filter_version = filters.version();
            channel.send(&ToRecorder::Filters(filters))?;
        }
        let changes = {
            let waiting = &control.config_changes;
            let mut waiting = waiting.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            std::mem::take(&mut *waiting)
        };
        for mut change in changes {
            change.number = self.sent.last().map_or(1, |sent| sent.change.number + 1);
            let message = ToRecorder::Config((&change).into());
            // Kept, even if it cannot be sent.
            self.sent.push(Sent { change, seq: None });
            channel.send(&message)?;
        }
        for (wanted, request) in [
            (&control.rotate_now, Request::Rotate),
            (&control.flush_now, Request::Flush),
            // SYNC retain: pairs with the Release in `Recorder::retain`, as in the writer.
            (&control.retain_now, Request::Retain),
            (&control.retain_files_now, Request::RetainFiles),
        ] {
            if wanted.swap(false, Ordering::Acquire) {
                channel.send(&ToRecorder::Request(request))?;
            }
        }
        if self.of.is_stopped() && self.stop_us.is_none() {
            self.stop_us = Some(sys::monotonic_us());
            let timeout_ms = control.stop_timeout_ms.load(Ordering::Relaxed);
            channel.send(&ToRecorder::Stop { timeout_ms })?;
        }
        if !self.of.outside.is_wanted() && self.stop_us.is_none() && !self.is_released {
            self.is_released = true;
            channel.send(&ToRecorder::Release)?;
        }
        Ok(())
    }

    /// Receives its messages. `Some`: the connection is over.
    fn receive_messages(&mut self) -> Option<Left> {
        let pid = self.candidate.peer.pid;
        loop {
            let message = match self.candidate.channel.receive::<ToServer>() {
                Ok(Received::Message(message)) => message,
                Ok(Received::Nothing) => return None,
                Ok(Received::End) => return Some(self.gone("its process ended")),
                Err(error) => return Some(self.gone(&error.to_string())),
            };
            self.heard_us = sys::monotonic_us();
            match message {
                ToServer::Opened => {
                    self.has_log = true;
                    self.of.outside.set_writer(Some(pid));
                }
                ToServer::Attached => {
                    // Rounds begin here.
                    self.progress = Progress::new(self.heard_us);
                    let text = format!(
                        "the audit log is written by the recorder, process {pid}, from here on"
                    );
                    error_log::write(Severity::Note, &text);
                }
                ToServer::Refused(why) => {
                    let text = format!(
                        "the recorder, process {pid}, cannot write the audit log: {why}. The server \
                         writes it itself again"
                    );
                    return Some(Left::Gone(Severity::Error, text));
                }
                ToServer::Figures(figures) => {
                    figures.add_to(&self.of.status, &self.figures);
                    self.figures = *figures;
                    let written_seq = self.of.written_seq();
                    self.sent.retain(|sent| sent.seq.is_none_or(|seq| seq > written_seq));
                }
                ToServer::Say { severity, text } => error_log::write(severity, &text),
                ToServer::ConfigLogged { number, seq } => {
                    for sent in self.sent.iter_mut().filter(|it| it.change.number == number) {
                        sent.seq = Some(seq);
                    }
                }
                ToServer::Released(why) => {
                    let text = format!(
                        "the server writes the audit log itself again: the recorder, process {pid}, \
                         has released it ({why})"
                    );
                    return Some(Left::Gone(Severity::Note, text));
                }
                ToServer::Stopped { is_drained } if self.stop_us.is_some() => {
                    return Some(Left::Stopped { is_drained });
                }
                // In any case, this server continues, and so does its log.
                ToServer::Stopped { .. } => return Some(self.gone("it stopped without a request")),
                // Sent before it got the log.
                ToServer::Hello { .. } => {}
            }
        }
    }

    /// A recorder that hangs is like a disk that hangs: statements wait. But this is reported.
    fn look_at_silence(&mut self) {
        let now_us = sys::monotonic_us();
        let is_silent = is_silent(
            now_us - self.heard_us,
            self.progress.look(&self.of.arena.shared().writer.0, now_us),
            self.of.control.setting(Setting::FlushIntervalMs),
        );
        if is_silent != self.is_silent {
            self.is_silent = is_silent;
            let pid = self.candidate.peer.pid;
            if is_silent {
                let text = format!(
                    "the recorder, process {pid}, does not answer: nothing is written to the audit \
                     log, and statements will wait for it. Resume or kill it: the server then writes \
                     the log itself"
                );
                error_log::write(Severity::Error, &text);
                Status::set(&self.of.status.last_error, &text);
            } else {
                let text = format!("the recorder, process {pid}, answers again");
                error_log::write(Severity::Note, &text);
            }
        }
        let is_failing = is_silent || self.figures.is_failing;
        let Attached { of, ending, .. } = self;
        of.look_at_end(ending, is_failing);
    }
}
