//! The files of the hub's own log: opened, written, rotated, removed.

use std::time::{Duration, Instant};

use tacho_logdir::{Event, Keep, LogFiles, RealFs, SealOptions};
use tacho_record::json::write_line;
use tacho_record::time::TimeFormatter;
use tacho_record::{EventKind, Record};

use super::sessions::Sessions;
use super::{Entry, Kind, Options, RequestSource};
use crate::clock::now_us;
use crate::say::say;

/// A file of this length is followed by another one.
const ROTATE_BYTES: u64 = 64 << 20;
/// So is one of this age, s: whole files are removed when they are too old.
const ROTATE_S: u64 = 7 * 86_400;
/// How often the log is signed, s.
const CHECKPOINT_S: u64 = 60;
/// When files that are too old are looked for, after the start and after each look. A look removes
/// one file: a clock that is wrong for an hour does not empty the log.
const FIRST_LOOK: Duration = Duration::from_secs(3_600);
const LOOK: Duration = Duration::from_secs(86_400);

/// The log, open for writing.
pub(super) struct Log {
    files: LogFiles,
    clock: TimeFormatter,
    sessions: Sessions,
    /// Number of the last line in the files.
    seq: u64,
    /// Number of the `start` line.
    run: u64,
    /// Why the seal cannot be written; `None`: it can.
    unsealed: Option<String>,
    keep: Keep,
    next_look: Instant,
}

/// Why something is not on the disk, for people.
pub(super) type Reason = String;

impl Log {
    /// Opens the log and writes its `start` line.
    ///
    /// # Errors
    /// The log cannot be opened, sealed or written.
    pub(super) fn open(options: &Options) -> Result<Self, Reason> {
        let settings = tacho_logdir::Options { rotate_bytes: ROTATE_BYTES };
        let (directory, key_file) = (&options.directory, &options.key_file);
        let (mut files, opened) = LogFiles::open_with_key(RealFs, directory, settings, key_file)
            .map_err(|error| error.to_string())?;
        let seq = opened.last_seq.map_err(|error| error.to_string())?.unwrap_or(0);
        files.set_durable(true);
        let seal = SealOptions {
            key_file: key_file.clone(),
            checkpoint_interval_s: CHECKPOINT_S,
            // A lost key must not keep people out for ever; the seal declares the break.
            may_break: true,
        };
        let sealed = files.seal(&seal, seq).map_err(|error| error.to_string())?;
        if sealed.is_new_root {
            say(&format!("the hub's own log is sealed; its public key is {}", sealed.root));
        }
        if let Some(reason) = sealed.declared {
            say(&format!("the chain of the hub's own log is broken ({reason})"));
        }
        let keep = Keep { days: options.keep_days, ..Keep::default() };
        let mut log = Self {
            files,
            clock: TimeFormatter::utc(),
            sessions: Sessions::default(),
            seq,
            run: seq + 1,
            unsealed: None,
            keep,
            next_look: Instant::now() + FIRST_LOOK,
        };
        log.note(EventKind::Start, &sealed.root.to_string())?;
        if let Err(error) = log.files.finish_removals() {
            say(&format!("the hub's own log: {error}"));
        }
        Ok(log)
    }

    /// Writes entries; when it returns, they are on the disk.
    ///
    /// # Errors
    /// Some are not.
    pub(super) fn write(&mut self, entries: &[Entry]) -> Result<(), Reason> {
        if self.unsealed.is_some() {
            // Its lines wait for their seal: no more of them until it can be written.
            let checked = self.files.check();
            self.report();
            checked.map_err(|error| error.to_string())?;
            self.sealed()?;
        }
        let mut batch = Vec::new();
        for (seq, entry) in (self.seq + 1..).zip(entries) {
            let session = &entry.source.session;
            let place = self.sessions.next(session);
            entry.append(&mut batch, seq, self.run, place, &mut self.clock);
            if entry.kind == Kind::Disconnect {
                self.sessions.end(session);
            }
        }
        self.append(&batch)
    }

    fn append(&mut self, batch: &[u8]) -> Result<(), Reason> {
        let mut progress = 0;
        let written = self.files.write(batch, &mut progress);
        // Of a batch that could not be written, the lines that are whole stay. The next batch cuts
        // off the rest.
        let done = batch.get(..progress).unwrap_or(batch);
        self.seq += done.iter().filter(|&&byte| byte == b'\n').count() as u64;
        let synced = written.and_then(|()| self.files.sync());
        self.report();
        synced.map_err(|error| error.to_string())?;
        self.sealed()
    }

    fn sealed(&self) -> Result<(), Reason> {
        self.unsealed.clone().map_or(Ok(()), Err)
    }

    /// Writes a line about the log itself.
    fn note(&mut self, event: EventKind, signing_key: &str) -> Result<(), Reason> {
        let record = Record {
            seq: self.seq + 1,
            ts_us: now_us(),
            event: Some(event),
            run: Some(self.run),
            server: concat!("tacho-hub ", env!("CARGO_PKG_VERSION")).as_bytes(),
            signing_key: signing_key.as_bytes(),
            ..Record::default()
        };
        let mut line = Vec::new();
        write_line(&mut line, &record, &mut self.clock);
        self.append(&line)
    }

    /// What is due although nothing is written: a signature, another file, the end of an old one.
    ///
    /// # Errors
    /// A file that is too old cannot be removed.
    pub(super) fn upkeep(&mut self) -> Result<(), Reason> {
        self.files.rotate_when_older(ROTATE_S);
        self.files.tick();
        self.report();
        let now = Instant::now();
        if now < self.next_look {
            return Ok(());
        }
        self.next_look = now + LOOK;
        self.remove_oldest()
    }

    fn remove_oldest(&mut self) -> Result<(), Reason> {
        let outlook = self.files.outlook(&self.keep).map_err(|error| error.to_string())?;
        let Some(due) = outlook.due.first().copied() else { return Ok(()) };
        self.files.bury(due).map_err(|error| error.to_string())?;
        let (name, reason) = (due.name.log_file(), due.reason.to_string());
        let line = Entry::change("", RequestSource::default(), "file_removed", &name, &reason);
        self.write(&[line])?;
        self.files.remove(due.name).map_err(|error| error.to_string())
    }

    /// Writes the last line, and signs the log up to it.
    ///
    /// # Errors
    /// That failed; the log is closed nevertheless.
    pub(super) fn close(mut self) -> Result<(), Reason> {
        let stopped = self.note(EventKind::Stop, "");
        self.files.close().map_err(|error| error.to_string())?;
        stopped
    }

    /// Says what has happened to the files.
    fn report(&mut self) {
        for event in self.files.take_events() {
            match event {
                Event::Rotated { .. } => {}
                Event::SealFailed { error } => self.unsealed = Some(error.to_string()),
                Event::SealResumed | Event::SealBegun { .. } => self.unsealed = None,
                Event::RotateFailed { error } => {
                    say(&format!("the hub's own log stays in its file: {error}"));
                }
                changed => say(&format!("another process changed the hub's own log: {changed:?}")),
            }
        }
    }
}
