//! The hub's own log: what people, and programs with their tokens, do with the hub.
//!
//! It is a log as a recorder writes it, in `audit/` of the data directory: the same lines, files
//! and seal. The hub ships it to itself under the name [`HUB`], so it is verified and searched as
//! every other log. `docs/guide/roles.md` lists what is recorded.
//!
//! A record is on the disk before the answer that it is about is sent. One thread writes: it takes
//! all entries that wait, and puts them on the disk with one sync. If it cannot, the requests that
//! wait are refused, and others until it can.
//!
//! Changes of the database take another way: the entry is stored in the transaction that makes the
//! change (`outbox`), and moves to the log from there. So there is no change without its record,
//! and another process can make one.
//!
//! | module | what it owns |
//! |---|---|
//! | [`entry`] | one record: who, from where, what |
//! | [`outbox`] | entries in the database that are not in the log yet |
//! | `log` | the files |
//! | `sessions` | numbers of sessions in the log |
//! | `thread` | takes entries, puts them on the disk, answers |
//! | [`repeats`] | which requests were recorded lately |

pub mod entry;
mod log;
pub mod outbox;
pub mod repeats;
mod sessions;
mod thread;

use std::io;
use std::path::PathBuf;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use tacho_ship::protocol::{Code, Origin};
use tokio::sync::oneshot;

use crate::api::ApiError;
use crate::data::DataDirectory;
use crate::database::Database;
use crate::say::say;
pub use entry::{Entry, Kind, Maker, RequestSource};
use repeats::Repeats;

/// The name of the hub's own log among the servers.
pub const HUB: &str = "tacho-hub";

/// Whether a name belongs to the hub. One that differs only in case would be taken for it.
#[must_use]
pub fn is_hub(origin: &Origin) -> bool {
    origin.as_str().eq_ignore_ascii_case(HUB)
}

/// The entry is not on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the hub cannot write its own log, and does nothing unrecorded; its messages have the cause"
)]
pub struct NotRecorded;

impl From<NotRecorded> for ApiError {
    fn from(error: NotRecorded) -> Self {
        Self::new(Code::Unavailable, error.to_string()).retry_after(5)
    }
}

/// Settings of the log.
#[derive(Clone, Debug)]
pub struct Options {
    /// The log directory.
    pub directory: PathBuf,
    /// The signing key.
    pub key_file: PathBuf,
    /// Files that ended longer ago are removed, days; 0: none.
    pub keep_days: u64,
}

impl Options {
    /// Those of a data directory.
    #[must_use]
    pub fn of(data: &DataDirectory, keep_days: u64) -> Self {
        Self { directory: data.audit(), key_file: data.audit_key(), keep_days }
    }
}

/// What the thread is asked to do.
enum Message {
    /// Write an entry.
    Write(Box<Entry>, oneshot::Sender<Result<(), NotRecorded>>),
    /// Write what is in the database.
    Drain(oneshot::Sender<Result<(), NotRecorded>>),
    /// End.
    Stop,
}

/// Why the log cannot be written, shared with the thread.
type Trouble = Arc<Mutex<Option<String>>>;

/// Writes records. A clone writes to the same log.
#[derive(Clone)]
pub struct Audit {
    sender: Sender<Message>,
    trouble: Trouble,
    repeats: Arc<Repeats>,
}

/// The thread, until it is dropped: then the log ends.
pub struct AuditThread {
    sender: Sender<Message>,
    thread: Option<JoinHandle<()>>,
}

impl Audit {
    /// Opens the log, and starts its thread. A log that cannot be opened is no error here: the
    /// hub still receives logs, and the thread tries again.
    ///
    /// # Errors
    /// There can be no more threads.
    pub fn start(options: Options, database: Database) -> io::Result<(Self, AuditThread)> {
        let (sender, receiver) = channel();
        let trouble = Trouble::default();
        let mut work = thread::Work::new(options, database, Arc::clone(&trouble));
        // Before the shipper looks whether a recorder has the directory.
        work.begin();
        let thread = std::thread::Builder::new().name("audit".to_owned());
        let thread = thread.spawn(move || work.run(&receiver))?;
        let audit = Self { sender: sender.clone(), trouble, repeats: Arc::default() };
        Ok((audit, AuditThread { sender, thread: Some(thread) }))
    }

    /// Whether records can be written, as far as is known: for requests that should not begin
    /// otherwise.
    ///
    /// # Errors
    /// The last one could not be written.
    pub fn ready(&self) -> Result<(), NotRecorded> {
        if self.trouble().is_some() { Err(NotRecorded) } else { Ok(()) }
    }

    /// Why records cannot be written.
    #[must_use]
    pub fn trouble(&self) -> Option<String> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Writes an entry and waits until it is on the disk.
    ///
    /// # Errors
    /// It is not.
    pub async fn write(&self, entry: Entry) -> Result<(), NotRecorded> {
        self.ready()?;
        self.ask(|answer| Message::Write(Box::new(entry), answer)).await
    }

    /// Writes the entries in the database to the log. They are on the disk already, so a failure
    /// only delays them.
    ///
    /// # Errors
    /// Some are not in the log yet.
    pub async fn drain(&self) -> Result<(), NotRecorded> {
        self.ask(Message::Drain).await
    }

    /// Which requests were recorded lately.
    #[must_use]
    pub fn repeats(&self) -> &Repeats {
        &self.repeats
    }

    async fn ask(
        &self,
        message: impl FnOnce(oneshot::Sender<Result<(), NotRecorded>>) -> Message,
    ) -> Result<(), NotRecorded> {
        let (answer, answered) = oneshot::channel();
        // If the thread is gone, nothing can be recorded.
        self.sender.send(message(answer)).map_err(|_| NotRecorded)?;
        answered.await.unwrap_or(Err(NotRecorded))
    }
}

impl Drop for AuditThread {
    fn drop(&mut self) {
        // A receiver that is gone has ended already.
        let _ = self.sender.send(Message::Stop);
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            say("the thread of the hub's own log ended by a panic");
        }
    }
}

#[cfg(test)]
mod tests;
