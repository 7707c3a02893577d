//! The thread of the hub's own log.

use std::sync::PoisonError;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::log::{Log, Reason};
use super::{Entry, Kind, Message, NotRecorded, Options, RequestSource, Trouble, outbox};
use crate::accounts::session;
use crate::clock::now_us;
use crate::database::{Database, DatabaseError};
use crate::say::say;

/// Time between two looks into the database, and two tries to write.
const INTERVAL: Duration = Duration::from_secs(1);
/// Entries that are put on the disk together.
const BATCH_MAX: usize = 256;

type Answer = oneshot::Sender<Result<(), NotRecorded>>;

/// State of the thread.
pub(super) struct Work {
    options: Options,
    database: Database,
    log: Option<Log>,
    trouble: Trouble,
    /// What could not be done besides writing, as last said.
    said: String,
}

impl Work {
    pub(super) fn new(options: Options, database: Database, trouble: Trouble) -> Self {
        Self { options, database, log: None, trouble, said: String::new() }
    }

    /// Opens the log.
    pub(super) fn begin(&mut self) {
        if let Err(reason) = self.opened().map(drop) {
            self.fail(reason);
        }
    }

    /// Until it is asked to stop.
    pub(super) fn run(&mut self, receiver: &Receiver<Message>) {
        let mut next_look = Instant::now();
        loop {
            let mut messages = Vec::new();
            let mut is_last = false;
            match receiver.recv_timeout(next_look.saturating_duration_since(Instant::now())) {
                Ok(message) => messages.push(message),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => is_last = true,
            }
            while messages.len() < BATCH_MAX
                && let Ok(message) = receiver.try_recv()
            {
                messages.push(message);
            }
            let (mut entries, mut writers, mut drains) = (Vec::new(), Vec::new(), Vec::new());
            for message in messages {
                match message {
                    Message::Write(entry, answer) => {
                        entries.push(*entry);
                        writers.push(answer);
                    }
                    Message::Drain(answer) => drains.push(answer),
                    Message::Stop => is_last = true,
                }
            }
            answer(writers, self.record(entries));
            let now = Instant::now();
            let is_due = now >= next_look;
            if is_due {
                next_look = now + INTERVAL;
                self.upkeep();
            }
            if is_due || is_last || !drains.is_empty() {
                answer(drains, self.drain());
            }
            if is_last {
                self.end();
                return;
            }
        }
    }

    fn opened(&mut self) -> Result<&mut Log, Reason> {
        let log = match self.log.take() {
            Some(log) => log,
            None => Log::open(&self.options)?,
        };
        Ok(self.log.insert(log))
    }

    /// Puts entries on the disk; after a failure together with a record of it.
    fn record(&mut self, mut entries: Vec<Entry>) -> Result<(), NotRecorded> {
        let trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(reason) = trouble {
            let outage = Entry::change("", RequestSource::default(), "hub.log_error", &reason, "");
            entries.insert(0, outage);
        }
        if entries.is_empty() {
            return Ok(());
        }
        match self.opened().and_then(|log| log.write(&entries)) {
            Ok(()) => {
                let mut trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
                if trouble.take().is_some() {
                    say("the hub's own log is written again");
                }
                Ok(())
            }
            Err(reason) => {
                self.fail(reason);
                Err(NotRecorded)
            }
        }
    }

    fn fail(&mut self, reason: Reason) {
        let mut trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        if trouble.as_ref() != Some(&reason) {
            say(&format!(
                "cannot write the hub's own log, and refuse what must be in it: {reason}"
            ));
            *trouble = Some(reason);
        }
    }

    /// Every second: tries again after a failure, ends sessions that have expired.
    fn upkeep(&mut self) {
        // A failure has been said, and is tried again with the next look.
        let is_good = self.record(Vec::new()).is_ok();
        if is_good && let Some(log) = &mut self.log {
            let kept = log.upkeep();
            self.say_once("cannot remove an old file of the hub's own log", kept);
        }
        let ended = session::expire(&self.database, now_us(), |it| {
            let source = RequestSource { session: it.id, ..RequestSource::default() };
            let mut entry = Entry::new(Kind::Disconnect, &it.user, source);
            entry.ts_us = it.expires_us;
            entry.with("reason", "expired")
        });
        self.say_once("cannot end sessions that have expired", ended);
    }

    /// Moves entries from the database to the log.
    fn drain(&mut self) -> Result<(), NotRecorded> {
        loop {
            match self.database.read(outbox::read) {
                Ok(None) => return Ok(()),
                Ok(Some((entries, last))) => {
                    self.record(entries)?;
                    let deleted: Result<(), DatabaseError> =
                        self.database.write(|transaction| outbox::delete(transaction, last));
                    if deleted.is_err() {
                        self.say_once("cannot delete entries that are in the log", deleted);
                        return Ok(());
                    }
                }
                Err(error) => {
                    self.say_once::<()>("cannot read entries for the hub's own log", Err(error));
                    return Err(NotRecorded);
                }
            }
        }
    }

    fn say_once<T>(&mut self, what: &str, result: Result<T, impl std::fmt::Display>) {
        let Err(error) = result else { return };
        let text = format!("{what}: {error}");
        if self.said != text {
            say(&text);
            self.said = text;
        }
    }

    fn end(&mut self) {
        if let Some(log) = self.log.take()
            && let Err(reason) = log.close()
        {
            say(&format!("the hub's own log has no end: {reason}"));
        }
    }
}

fn answer(waiting: Vec<Answer>, result: Result<(), NotRecorded>) {
    for answer in waiting {
        // A request that is gone needs no answer.
        let _ = answer.send(result);
    }
}
