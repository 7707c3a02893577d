//! The thread that indexes what has been landed.
//!
//! A round reads the new whole lines of all files, writes them as one segment, and commits it with
//! the watermarks. If anything fails, nothing has changed, and the round is repeated later.

mod round;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::catalogue::FileKey;
use crate::digests::Digests;
use crate::store::{Store, StoreError};

/// Bytes of a file of the replica are durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Durable {
    /// Name of the origin.
    pub origin: String,
    /// Generation of its log.
    pub generation: u32,
    /// Name of the log file, `audit-….jsonl`.
    pub file: String,
    /// The file in the replica, `…/<origin>/<generation>/<file>`.
    pub path: PathBuf,
    /// The durable offset, in bytes. Earlier ones count as notified, too.
    pub offset: u64,
}

/// How the indexer works.
pub struct IndexerOptions {
    /// Segments are written at most so often.
    pub interval: Duration,
    /// How long new lines wait for others of the same moment.
    pub linger: Duration,
    /// How long it waits after an error.
    pub retry: Duration,
    /// About how many bytes of lines a segment has at most.
    pub segment_bytes: u64,
    /// Called on the indexer's thread whenever new records are visible.
    pub changed: Box<dyn Fn() + Send>,
}

impl Default for IndexerOptions {
    fn default() -> Self {
        Self {
            interval: Duration::from_millis(400),
            linger: Duration::from_millis(50),
            retry: Duration::from_secs(1),
            segment_bytes: 32 << 20,
            changed: Box::new(|| {}),
        }
    }
}

/// What the indexer has done since it was started, and what it has to do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Rows written.
    pub records: u64,
    /// Bytes of the lines read.
    pub bytes: u64,
    /// Lines that an earlier generation has.
    pub known: u64,
    /// Lines that are not records; they are kept verbatim.
    pub unreadable: u64,
    /// Durable bytes that are not indexed, as of the last round.
    pub behind_bytes: u64,
    /// Files that cannot be read to their durable end. They are tried again, and the others do not
    /// wait for them.
    pub failed: BTreeMap<FileKey, Failure>,
    /// The error of the last round, if it failed.
    pub error: Option<String>,
}

/// Why a file cannot be indexed further.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The lines before this offset are indexed.
    pub indexed: u64,
    /// The error, with the path of the file.
    pub reason: String,
}

enum Message {
    Durable(Durable),
    Flush(Sender<()>),
    Stop,
}

/// The running indexer. It ends when this is dropped; what was notified and is not indexed then
/// is indexed after the next start.
pub struct Indexer {
    sender: Sender<Message>,
    report: Arc<Mutex<Report>>,
    thread: Option<JoinHandle<()>>,
}

impl Indexer {
    /// Starts the thread.
    ///
    /// # Errors
    /// If the catalogue cannot be read, or the system has no thread.
    pub fn start(store: Store, options: IndexerOptions) -> Result<Self, StoreError> {
        let digests = Digests::new(store.digests()?);
        let (sender, messages) = mpsc::channel();
        let report = Arc::new(Mutex::new(Report::default()));
        let shared = Arc::clone(&report);
        let dir = store.dir().to_owned();
        let mut state = Loop {
            store,
            options,
            report: shared,
            digests,
            pending: BTreeMap::new(),
            flushes: Vec::new(),
        };
        let thread = std::thread::Builder::new()
            .name("tacho-index".to_owned())
            .spawn(move || state.run(&messages))
            .map_err(StoreError::io(&dir))?;
        Ok(Self { sender, report, thread: Some(thread) })
    }

    /// Says that bytes are durable. Never blocks.
    pub fn notify(&self, durable: Durable) {
        // The thread ends only when this is dropped.
        let _ = self.sender.send(Message::Durable(durable));
    }

    /// Waits until everything that was notified before is indexed, or a round has failed.
    pub fn flush(&self) {
        let (done, waiter) = mpsc::channel();
        if self.sender.send(Message::Flush(done)).is_ok() {
            // An error: the thread has ended.
            let _ = waiter.recv();
        }
    }

    /// What it has done.
    pub fn report(&self) -> Report {
        self.report.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Indexer {
    fn drop(&mut self) {
        let _ = self.sender.send(Message::Stop);
        if let Some(thread) = self.thread.take() {
            // A panic has been printed.
            let _ = thread.join();
        }
    }
}

/// A file with durable bytes that may not be indexed yet.
struct Pending {
    path: PathBuf,
    durable: u64,
}

struct Loop {
    store: Store,
    options: IndexerOptions,
    report: Arc<Mutex<Report>>,
    digests: Digests,
    pending: BTreeMap<FileKey, Pending>,
    flushes: Vec<Sender<()>>,
}

impl Loop {
    fn run(&mut self, messages: &mpsc::Receiver<Message>) {
        let mut not_before = Instant::now();
        loop {
            // Wait for the first message, then collect more of them until the round begins.
            let mut message = if self.pending.is_empty() {
                messages.recv().map_err(|_| RecvTimeoutError::Disconnected)
            } else {
                messages.recv_timeout(not_before.saturating_duration_since(Instant::now()))
            };
            let begin = not_before.max(Instant::now() + self.options.linger);
            loop {
                match message {
                    Ok(Message::Durable(durable)) => self.note(durable),
                    Ok(Message::Flush(done)) => self.flushes.push(done),
                    Ok(Message::Stop) | Err(RecvTimeoutError::Disconnected) => return,
                    Err(RecvTimeoutError::Timeout) => break,
                }
                let rest = match self.flushes.is_empty() {
                    true => begin.saturating_duration_since(Instant::now()),
                    false => Duration::ZERO,
                };
                message = messages.recv_timeout(rest);
            }
            let started = Instant::now();
            let is_done = self.round();
            not_before = match is_done {
                Ok(true) => started + self.options.interval,
                Ok(false) => started,
                Err(()) => Instant::now() + self.options.retry,
            };
            if is_done != Ok(false) {
                for done in self.flushes.drain(..) {
                    // The caller may have stopped waiting.
                    let _ = done.send(());
                }
            }
        }
    }

    fn note(&mut self, durable: Durable) {
        let Durable { origin, generation, file, path, offset } = durable;
        let key = FileKey { origin, generation, file };
        let pending = self.pending.entry(key).or_insert(Pending { path, durable: 0 });
        pending.durable = pending.durable.max(offset);
    }

    /// `Ok`: whether everything is indexed.
    fn round(&mut self) -> Result<bool, ()> {
        let limit = self.options.segment_bytes;
        let result = round::run(&self.store, &self.pending, limit, &mut self.digests);
        let mut report = self.report.lock().unwrap_or_else(PoisonError::into_inner);
        match result {
            Ok(done) => {
                // Those that this round has not tried are as before.
                report.failed.retain(|key, _| {
                    let is_tried = done.watermarks.contains_key(key);
                    self.pending.contains_key(key) && !is_tried && !self.store.is_forgotten(key)
                });
                self.pending.retain(|key, pending| {
                    let at = done.watermarks.get(key).map(|position| position.offset);
                    // What is left without progress is a line that has not arrived as a whole.
                    let is_unfinished = at.is_none_or(|at| at < pending.durable);
                    done.failed.contains_key(key) || (done.is_limited && is_unfinished)
                });
                report.records += done.records;
                report.bytes += done.bytes;
                report.known += done.known;
                report.unreadable += done.unreadable;
                report.behind_bytes = done.behind_bytes;
                let has_failed = !done.failed.is_empty();
                report.failed.extend(done.failed);
                report.error = None;
                drop(report);
                if done.records > 0 {
                    (self.options.changed)();
                }
                match done.is_limited || !has_failed {
                    true => Ok(self.pending.is_empty()),
                    // Only files are left that cannot be read.
                    false => Err(()),
                }
            }
            Err(error) => {
                report.error = Some(error.to_string());
                Err(())
            }
        }
    }
}
