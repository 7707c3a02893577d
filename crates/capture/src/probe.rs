//! From events to records in the arena, by the calls that a server's plugin makes.
//!
//! A command with a text has a `Start` when it begins and an `End` with its answer, so that a
//! capture that is killed has lost nothing that it has seen. Other commands are one `Point`.

use std::collections::HashMap;
use std::ffi::c_void;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use tacho_embed::Recorder;
use tacho_probe::{Thread, tacho_probe_emit, tacho_probe_end_known, tacho_probe_session};
use tacho_ring::chunk::Killed;
use tacho_ring::codec::{
    Bytes, Event as Record, PRESENT_ANSWER, PRESENT_FIGURES, PRESENT_OUTERMOST, PRESENT_QUERY_TIME,
    PRESENT_ROWS_AFFECTED, PRESENT_ROWS_SENT, PRESENT_SQLSTATE, PRESENT_TEXT, RecordKind,
    STRING_CHARSET, STRING_COMMAND, STRING_COUNT, STRING_DB, STRING_IP, STRING_OS_USER,
    STRING_PROXY_USER, STRING_USER, captured_conn,
};
use tacho_ring::layout::OVERFLOW_DROP;
use tacho_ring::session;
use tacho_settings::Setting;

use crate::metrics::Recorded;
use crate::mysql::{AnswerBytes, Client, CommandEnd, Event, Failure, Identity, Output, Remarks};

/// Longest part of a name in [`STRING_PROXY_USER`], bytes.
const PART_BYTES_MAX: usize = 128;

/// The statement of a connection that has begun.
struct Open {
    text_id: u64,
    text_bytes: u32,
}

/// Whether the capture is to end.
struct Stop<'r> {
    fd: BorrowedFd<'r>,
    /// It was found while a record waited for the writer.
    is_found: AtomicBool,
}

impl Stop<'_> {
    /// Asked while no chunk of the arena is free.
    unsafe extern "C" fn ask(stop: *const c_void) -> bool {
        // SAFETY: `Probe::stopped_by` sets both, and the box lives as long as the thread's state.
        let stop = unsafe { &*stop.cast::<Stop<'_>>() };
        let is_found = is_readable(stop.fd);
        stop.is_found.fetch_or(is_found, Ordering::Relaxed);
        is_found
    }
}

/// Whether a descriptor can be read from.
pub(crate) fn is_readable(fd: BorrowedFd<'_>) -> bool {
    let mut poll = libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one valid entry; it does not wait.
    let ready = unsafe { libc::poll(&mut poll, 1, 0) };
    ready > 0 || (ready < 0 && io::Error::last_os_error().kind() != io::ErrorKind::Interrupted)
}

/// Writes records, see the module documentation.
pub struct Probe<'r> {
    recorder: &'r Recorder,
    stop: Option<Box<Stop<'r>>>,
    thread: Thread,
    open: HashMap<u32, Open>,
    last_text_id: u64,
    /// Stands for no connection.
    no_session: Identity,
    /// [`STRING_PROXY_USER`].
    captured: Vec<u8>,
    recorded: Recorded,
}

impl<'r> Probe<'r> {
    /// Into the arena of this recorder.
    pub fn new(recorder: &'r Recorder) -> Probe<'r> {
        Probe {
            recorder,
            stop: None,
            thread: Thread::default(),
            open: HashMap::new(),
            last_text_id: 0,
            no_session: Identity::default(),
            captured: Vec::new(),
            recorded: Recorded::default(),
        }
    }

    /// Of one of several threads, by its index: no two may write records of one connection, also of
    /// none.
    pub fn of_thread(mut self, index: u32) -> Probe<'r> {
        self.no_session.number = index;
        self
    }

    /// What was recorded.
    pub fn recorded(&self) -> &Recorded {
        &self.recorded
    }

    /// Records do not wait for a writer that cannot write once `stop` is readable. What is given up
    /// is counted.
    pub fn stopped_by(mut self, stop: BorrowedFd<'r>) -> Probe<'r> {
        let stop = Box::new(Stop { fd: stop, is_found: AtomicBool::new(false) });
        let session = std::ptr::from_ref(&*stop).cast();
        self.thread.open.killed = Killed { ask: Some(Stop::ask), session };
        self.stop = Some(stop);
        self
    }

    /// One wait of a record was enough: the writer cannot write.
    fn stop_waiting(&self) {
        if let Some(stop) = &self.stop
            && stop.is_found.load(Ordering::Relaxed)
        {
            self.recorder.set(Setting::Overflow, OVERFLOW_DROP.into());
        }
    }

    /// Packets of any connection were not captured between these times; `packets` is 0 if their
    /// number is not known.
    pub fn unseen(&mut self, cause: &'static str, packets: u64, since_us: i64, ts_us: i64) {
        self.recorded.lost(cause, 0);
        let since = u64::try_from(since_us).unwrap_or(0);
        let record = Record {
            kind: RecordKind::Lost as u32,
            present: PRESENT_FIGURES,
            ts_us,
            figures: [0, since, packets, 0, 0],
            ..Record::EMPTY
        };
        // Of no connection, but of a capture.
        let no_session = std::mem::take(&mut self.no_session);
        self.put(&no_session, &Client::default(), record, cause);
        self.no_session = no_session;
    }

    fn put(&mut self, who: &Identity, client: &Client, record: Record, command: &str) {
        let port = if who.port == 0 { String::new() } else { who.port.to_string() };
        let session = if who.is_partial { "partial" } else { "" };
        self.captured.clear();
        for part in [
            port.as_bytes(),
            who.server_addr.as_bytes(),
            session.as_bytes(),
            &client.program,
            &client.version,
        ] {
            self.captured.push(0);
            let part = &part[..part.len().min(PART_BYTES_MAX)];
            self.captured.extend(part.iter().filter(|byte| **byte != 0));
        }
        let mut strings = [Bytes::EMPTY; STRING_COUNT];
        for (which, text) in [
            (STRING_USER, &who.user[..]),
            (STRING_PROXY_USER, &self.captured),
            (STRING_OS_USER, &who.os_user),
            (STRING_IP, who.ip.as_bytes()),
            (STRING_DB, &who.db),
            (STRING_COMMAND, command.as_bytes()),
            (STRING_CHARSET, &who.charset),
        ] {
            strings[which] = Bytes::of(text);
        }
        self.emit_record(who, Record { strings, ..record });
    }

    /// A record without anything but what it has.
    fn emit_record(&mut self, who: &Identity, record: Record) {
        let conn = captured_conn(who.conn, who.number);
        let record = Record { conn, ..record };
        let probe = self.recorder.probe();
        // SAFETY: the recorder lives as long as `self`, and with it the probe; all texts outlive
        // the calls; `thread` belongs to this thread.
        unsafe {
            let slot = tacho_probe_session(probe, record.conn, record.ts_us);
            tacho_probe_emit(probe, &mut self.thread, slot, &record);
        }
        self.stop_waiting();
    }

    /// The message of an error, before the record of what has failed.
    fn put_failure(&mut self, who: &Identity, ts_us: i64, failure: Option<&Failure>) {
        let Some(failure) = failure.filter(|failure| !failure.message.is_empty()) else { return };
        let record = Record {
            kind: RecordKind::Error as u32,
            present: PRESENT_TEXT,
            ts_us,
            errno_: failure.errno,
            text: Bytes::of(&failure.message),
            ..Record::EMPTY
        };
        self.put(who, &Client::default(), record, "");
    }

    fn put_login(
        &mut self,
        who: &Identity,
        ts_us: i64,
        kind: RecordKind,
        failure: Option<&Failure>,
        client: &Client,
    ) {
        self.put_failure(who, ts_us, failure);
        let record = failed(Record { kind: kind as u32, ts_us, ..Record::EMPTY }, failure);
        self.put(who, client, record, "");
    }

    fn start(&mut self, who: &Identity, ts_us: i64, command: &str, text: Option<&[u8]>) {
        self.last_text_id += 1;
        let text_id = self.last_text_id;
        let text_bytes = text.map_or(0, |text| u32::try_from(text.len()).unwrap_or(u32::MAX));
        self.open.insert(who.number, Open { text_id, text_bytes });
        let record = Record {
            kind: RecordKind::Start as u32,
            present: PRESENT_OUTERMOST | text.map_or(0, |_| PRESENT_TEXT),
            text_id,
            ts_us,
            text: Bytes::of(text.unwrap_or_default()),
            ..Record::EMPTY
        };
        self.put(who, &Client::default(), record, command);
    }

    fn end(&mut self, who: &Identity, ts_us: i64, end: &CommandEnd) {
        let open = self.open.remove(&who.number);
        self.put_failure(who, ts_us, end.failure.as_ref());
        if open.is_some() && end.remarks != Remarks::default() {
            self.put_remarks(who, ts_us, &end.remarks);
        }
        let mut record = with_figures(Record { ts_us, ..Record::EMPTY }, end);
        record = failed(record, end.failure.as_ref());
        record.kind = RecordKind::Point as u32;
        record.shown_bytes = u32::MAX;
        if let Some(Open { text_id, text_bytes }) = open {
            let conn = captured_conn(who.conn, who.number);
            record.text_id = text_id;
            let probe = self.recorder.probe();
            // SAFETY: as in `put`.
            let is_known = unsafe {
                let slot = tacho_probe_session(probe, conn, ts_us);
                tacho_probe_end_known(slot, text_id, 0, text_bytes)
            };
            if is_known {
                record.kind = RecordKind::End as u32;
            }
            if end.is_one {
                record.shown_bytes = text_bytes;
            }
        }
        self.put(who, &Client::default(), record, end.command);
    }

    /// What the answer says about its statement, before the record of its end.
    fn put_remarks(&mut self, who: &Identity, ts_us: i64, remarks: &Remarks) {
        let Remarks { last_insert_id, warnings, info } = remarks;
        let record = Record {
            kind: RecordKind::Answer as u32,
            present: PRESENT_TEXT | PRESENT_FIGURES,
            ts_us,
            figures: [*last_insert_id, *warnings, 0, 0, 0],
            text: Bytes::of(info),
            ..Record::EMPTY
        };
        self.emit_record(who, record);
    }

    fn point(&mut self, who: &Identity, ts_us: i64, end: &CommandEnd) {
        self.put_failure(who, ts_us, end.failure.as_ref());
        let record = Record {
            kind: RecordKind::Point as u32,
            present: PRESENT_OUTERMOST,
            ts_us,
            shown_bytes: u32::MAX,
            ..Record::EMPTY
        };
        let record = failed(with_figures(record, end), end.failure.as_ref());
        self.put(who, &Client::default(), record, end.command);
    }

    fn disconnect(&mut self, who: &Identity, ts_us: i64) {
        let record = Record { kind: RecordKind::Disconnect as u32, ts_us, ..Record::EMPTY };
        self.put(who, &Client::default(), record, "");
        self.forget(who);
    }

    fn forget(&mut self, who: &Identity) {
        self.open.remove(&who.number);
        let conn = captured_conn(who.conn, who.number);
        if let Some(slot) = session::find(self.recorder.arena().sessions(), conn) {
            session::forget(slot);
        }
    }
}

impl Output for Probe<'_> {
    fn leave(&mut self, who: &Identity) {
        self.forget(who);
    }

    fn emit(&mut self, who: &Identity, ts_us: i64, event: &Event<'_>) {
        self.recorded.count(event);
        match event {
            Event::Login { failure, client } => {
                self.put_login(who, ts_us, RecordKind::Connect, failure.as_ref(), client);
            }
            Event::ChangeUser { failure } => {
                let (kind, client) = (RecordKind::ChangeUser, Client::default());
                self.put_login(who, ts_us, kind, failure.as_ref(), &client);
            }
            Event::Start { command, text } => self.start(who, ts_us, command, *text),
            Event::Params { text, whole_bytes } => {
                let record = Record {
                    kind: RecordKind::Params as u32,
                    present: PRESENT_TEXT | PRESENT_FIGURES,
                    ts_us,
                    figures: [*whole_bytes, 0, 0, 0, 0],
                    text: Bytes::of(text),
                    ..Record::EMPTY
                };
                self.emit_record(who, record);
            }
            Event::End(end) => self.end(who, ts_us, end),
            Event::Point(end) => self.point(who, ts_us, end),
            Event::Disconnect => self.disconnect(who, ts_us),
            Event::Lost { cause, bytes, since_us } => {
                let since = u64::try_from(*since_us).unwrap_or(0);
                let record = Record {
                    kind: RecordKind::Lost as u32,
                    present: PRESENT_FIGURES,
                    ts_us,
                    figures: [*bytes, since, 0, 0, 0],
                    ..Record::EMPTY
                };
                self.put(who, &Client::default(), record, cause.name());
            }
        }
    }
}

fn failed(record: Record, failure: Option<&Failure>) -> Record {
    let Some(failure) = failure else { return record };
    let mut record = Record { errno_: failure.errno, ..record };
    if let Some(state) = failure.sqlstate {
        record.present |= PRESENT_SQLSTATE;
        record.sqlstate[..state.len()].copy_from_slice(&state);
    }
    record
}

fn with_figures(record: Record, end: &CommandEnd) -> Record {
    let mut present = PRESENT_FIGURES | PRESENT_QUERY_TIME;
    if end.rows_sent.is_some() {
        present |= PRESENT_ROWS_SENT;
    }
    if end.rows_affected.is_some() {
        present |= PRESENT_ROWS_AFFECTED;
    }
    let sent = end.rows_sent.unwrap_or(0);
    let affected = end.rows_affected.unwrap_or(0);
    let mut figures = [sent, 0, affected, end.query_time_us, 0];
    let AnswerBytes { bytes_sent, first_byte_us } = end.answer;
    if bytes_sent > 0 {
        present |= PRESENT_ANSWER;
        (figures[1], figures[4]) = (bytes_sent, first_byte_us);
    }
    Record { present: record.present | present, figures, ..record }
}
