//! The hub's side: workers, limits, cancellation.

mod process;

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::frame::{ColumnInfo, FailureKind, Setup, Times};
use crate::prescan::Prescan;
use crate::rows::RowPlace;
use process::Worker;

/// How often a waiting query looks whether it was cancelled.
const TICK: Duration = Duration::from_millis(20);

/// How queries are executed.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The program of a worker and its arguments; it calls [`run_worker`](crate::run_worker).
    pub command: Vec<OsString>,
    /// DuckDB's library.
    pub library: PathBuf,
    /// The only directory with files that a query may read.
    pub data_dir: PathBuf,
    /// For intermediate results; each worker has a directory of its own in it.
    pub temp_dir: PathBuf,
    /// Queries at the same time.
    pub workers: usize,
    /// Queries that may wait for a worker.
    pub waiting: usize,
    /// Memory of each worker, in bytes.
    pub memory_bytes: u64,
    /// Threads of each worker.
    pub threads: u32,
    /// Temporary space of each worker, in bytes.
    pub temp_bytes: u64,
}

/// A query.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Request {
    /// One `SELECT` over the view `records`.
    pub sql: String,
    /// The segments of the view, as a snapshot of the store gives them. They must exist until the
    /// query has ended. Without any there is no view `records`, only `views`.
    pub files: Vec<PathBuf>,
    /// What the view has of them, as behind `SELECT`; by default everything.
    pub columns: Option<String>,
    /// A condition in SQL that all rows of the view meet.
    pub filter: Option<String>,
    /// Further views: name, and `SELECT` over `records` or files of the store.
    pub views: Vec<(String, String)>,
    /// The SQL is a user's: it may refer to the views only.
    pub is_users: bool,
    /// How times are written.
    pub times: Times,
    /// A property of all rows of the view that the query finds. Parts of the files that cannot have
    /// such rows are not read.
    pub prescan: Option<Prescan>,
    /// The view has two more columns: `segment_file` and `segment_row`, the [`RowPlace`] of a row.
    pub has_places: bool,
    /// Instead of a query: these rows, with all columns of the files and times in µs. If they have
    /// more than `max_bytes`, the answer has none of them.
    pub places: Vec<RowPlace>,
    /// Rows at most; the others are left out.
    pub max_rows: u64,
    /// Bytes of all rows at most; the others are left out.
    pub max_bytes: u64,
    /// How long it may take, the wait for a worker included.
    #[serde(skip)]
    pub timeout: Duration,
}

/// The result of a query.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answer {
    /// The columns.
    pub columns: Vec<ColumnInfo>,
    /// The rows.
    pub rows: Vec<Vec<Value>>,
    /// Rows were left out.
    pub is_truncated: bool,
}

/// Why a query failed.
#[derive(Debug, thiserror::Error)]
pub enum QueryError {
    /// The SQL is not valid, or refers to something that users may not use.
    #[error("{message}")]
    Sql {
        /// Whether it is forbidden, not wrong.
        is_forbidden: bool,
        /// DuckDB's message.
        message: String,
    },
    /// It was cancelled.
    #[error("the query was cancelled")]
    Cancelled,
    /// It took longer than it may.
    #[error("the query was stopped after {} s", .0.as_secs())]
    Timeout(Duration),
    /// It needs more memory or temporary space than it may use.
    #[error("the query needs too much memory: {0}")]
    Memory(String),
    /// Too many queries wait.
    #[error("too many queries are waiting")]
    Busy,
    /// The worker cannot be started.
    #[error("queries are not available: {0}")]
    Unavailable(String),
    /// The worker died, or sent nonsense. A new one takes its place.
    #[error("the query process ended: {0}")]
    Died(String),
}

impl QueryError {
    fn of(kind: FailureKind, message: String) -> Self {
        match kind {
            FailureKind::Setup => Self::Unavailable(message),
            FailureKind::Sql => Self::Sql { is_forbidden: false, message },
            FailureKind::Forbidden => Self::Sql { is_forbidden: true, message },
            FailureKind::Cancelled => Self::Cancelled,
            FailureKind::Memory => Self::Memory(message),
        }
    }
}

/// Cancels a query. A clone cancels the same one.
#[derive(Clone, Debug, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// Cancels it, now or when it begins.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether it is cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

#[derive(Default)]
struct Slots {
    idle: Vec<Worker>,
    running: usize,
    waiting: usize,
}

/// Worker processes.
pub struct Pool {
    settings: Settings,
    slots: Mutex<Slots>,
    freed: Condvar,
}

impl Pool {
    /// A pool; workers are started when they are needed.
    pub fn new(settings: Settings) -> Self {
        Self { settings, slots: Mutex::new(Slots::default()), freed: Condvar::new() }
    }

    /// Executes a query, and collects its rows. Blocks.
    ///
    /// # Errors
    /// If the query fails, is cancelled, or exceeds a limit.
    pub fn fetch(&self, request: &Request, cancel: &Cancel) -> Result<Answer, QueryError> {
        let mut answer = Answer::default();
        let mut nonsense = None;
        let (columns, is_truncated) = self.stream(request, cancel, &mut |_, rows| {
            for line in rows.split_inclusive(|&byte| byte == b'\n') {
                match serde_json::from_slice(line) {
                    Ok(row) => answer.rows.push(row),
                    Err(error) => nonsense = Some(error),
                }
            }
            nonsense.is_none()
        })?;
        if let Some(error) = nonsense {
            return Err(QueryError::Died(error.to_string()));
        }
        answer.columns = columns;
        answer.is_truncated = is_truncated;
        Ok(answer)
    }

    /// Executes a query. `take` gets the columns, and rows as they come: JSON arrays, each with a
    /// newline; if there are no rows, it gets the columns alone. If it returns `false`, the query
    /// is cancelled. Returns the columns, and whether rows were left out. Blocks.
    ///
    /// # Errors
    /// If the query fails, is cancelled, or exceeds a limit.
    pub fn stream(
        &self,
        request: &Request,
        cancel: &Cancel,
        take: &mut dyn FnMut(&[ColumnInfo], &[u8]) -> bool,
    ) -> Result<(Vec<ColumnInfo>, bool), QueryError> {
        let deadline = Instant::now() + request.timeout;
        let worker = self.acquire(cancel, deadline, request.timeout)?;
        let mut slot = Slot { pool: self, worker };
        let mut worker = match slot.worker.take() {
            Some(worker) => worker,
            None => Worker::start(&self.settings.command, &self.setup())?,
        };
        let result = worker.run(request, cancel, deadline, take);
        // One that has died, or that may still send rows, is not used again.
        if worker.is_idle() {
            slot.worker = Some(worker);
        }
        match result {
            Err(QueryError::Cancelled) if !cancel.is_cancelled() && Instant::now() >= deadline => {
                Err(QueryError::Timeout(request.timeout))
            }
            other => other,
        }
    }

    fn setup(&self) -> Setup {
        let settings = &self.settings;
        Setup {
            library: settings.library.clone(),
            memory_bytes: settings.memory_bytes,
            threads: settings.threads,
            data_dir: settings.data_dir.clone(),
            temp_dir: settings.temp_dir.clone(),
            temp_bytes: settings.temp_bytes,
        }
    }

    fn slots(&self) -> MutexGuard<'_, Slots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the right to run a query, and takes a worker if there is one.
    fn acquire(
        &self,
        cancel: &Cancel,
        deadline: Instant,
        timeout: Duration,
    ) -> Result<Option<Worker>, QueryError> {
        let mut slots = self.slots();
        if slots.running >= self.settings.workers && slots.waiting >= self.settings.waiting {
            return Err(QueryError::Busy);
        }
        slots.waiting += 1;
        let result = loop {
            if cancel.is_cancelled() {
                break Err(QueryError::Cancelled);
            }
            if Instant::now() >= deadline {
                break Err(QueryError::Timeout(timeout));
            }
            if slots.running < self.settings.workers {
                break Ok(());
            }
            let waited = self.freed.wait_timeout(slots, TICK);
            slots = waited.unwrap_or_else(PoisonError::into_inner).0;
        };
        slots.waiting -= 1;
        result?;
        slots.running += 1;
        Ok(slots.idle.pop())
    }
}

/// The right to run a query, and the worker to give back.
struct Slot<'a> {
    pool: &'a Pool,
    worker: Option<Worker>,
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        let mut slots = self.pool.slots();
        slots.running -= 1;
        slots.idle.extend(self.worker.take());
        drop(slots);
        self.pool.freed.notify_one();
    }
}
