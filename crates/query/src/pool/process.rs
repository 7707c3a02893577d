//! One worker process.

use std::ffi::OsString;
use std::io;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::{Cancel, QueryError, Request, TICK};
use crate::frame::{self, ColumnInfo, End, Failure, Setup, from_worker, to_worker};

/// How long a query that was cancelled may take to end before its worker is killed.
const GRACE: Duration = Duration::from_secs(1);
/// How long a worker may take to start.
const START: Duration = Duration::from_secs(20);

/// A running worker. It is killed when this is dropped.
pub struct Worker {
    child: Child,
    input: ChildStdin,
    output: ChildStdout,
    is_idle: bool,
    /// For intermediate results of this worker alone.
    temp_dir: PathBuf,
}

/// A name that no other worker has, of this process or another one.
fn unique_name() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// What a frame of the worker means for the query.
enum Step {
    Continue,
    Done(bool),
}

impl Worker {
    /// Starts a worker, and waits until it takes queries.
    pub fn start(command: &[OsString], setup: &Setup) -> Result<Self, QueryError> {
        let unavailable = |error: &dyn std::fmt::Display| {
            QueryError::Unavailable(format!("cannot start the query process: {error}"))
        };
        let [program, arguments @ ..] = command else {
            return Err(unavailable(&"it has no program"));
        };
        let mut child = Command::new(program)
            .args(arguments)
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| unavailable(&error))?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(unavailable(&"it has no pipes"));
        };
        let temp_dir = setup.temp_dir.join(unique_name());
        let setup = Setup { temp_dir: temp_dir.clone(), ..setup.clone() };
        let mut worker = Self { child, input, output, is_idle: false, temp_dir };
        frame::write_json(&mut worker.input, to_worker::SETUP, &setup)
            .map_err(|error| unavailable(&error))?;
        if !worker.wait(Instant::now() + START).map_err(|error| unavailable(&error))? {
            return Err(unavailable(&"it does not answer"));
        }
        match frame::read(&mut worker.output) {
            Ok(Some((from_worker::READY, _))) => {}
            Ok(Some((from_worker::FAILURE, content))) => {
                let failure: Failure =
                    serde_json::from_slice(&content).map_err(|error| unavailable(&error))?;
                return Err(QueryError::Unavailable(failure.message));
            }
            Ok(_) => return Err(unavailable(&worker.fate())),
            Err(error) => return Err(unavailable(&error)),
        }
        worker.is_idle = true;
        Ok(worker)
    }

    /// Whether it takes another query.
    pub fn is_idle(&self) -> bool {
        self.is_idle
    }

    /// Runs a query: see [`Pool::stream`](super::Pool::stream).
    pub fn run(
        &mut self,
        query: &Request,
        cancel: &Cancel,
        deadline: Instant,
        take: &mut dyn FnMut(&[ColumnInfo], &[u8]) -> bool,
    ) -> Result<(Vec<ColumnInfo>, bool), QueryError> {
        self.is_idle = false;
        if frame::write_json(&mut self.input, to_worker::QUERY, query).is_err() {
            return Err(QueryError::Died(self.fate()));
        }
        let mut columns = Vec::new();
        let mut is_stopping: Option<Instant> = None;
        let mut is_wanted = true;
        loop {
            let now = Instant::now();
            if is_stopping.is_none() && (cancel.is_cancelled() || now >= deadline || !is_wanted) {
                is_stopping = Some(now + GRACE);
                // If it is dead, the next read says so.
                let _ = frame::write(&mut self.input, to_worker::CANCEL, b"");
            }
            if is_stopping.is_some_and(|end| now >= end) {
                return Err(QueryError::Cancelled);
            }
            if !self.wait(now + TICK).map_err(|error| QueryError::Died(error.to_string()))? {
                continue;
            }
            let step = self.step(&mut columns, &mut |columns, rows| {
                // Rows that were on their way.
                if is_stopping.is_none() {
                    is_wanted &= take(columns, rows);
                }
            })?;
            if let Step::Done(is_truncated) = step {
                return match is_stopping {
                    Some(_) => Err(QueryError::Cancelled),
                    None => Ok((columns, is_truncated)),
                };
            }
        }
    }

    fn step(
        &mut self,
        columns: &mut Vec<ColumnInfo>,
        take: &mut dyn FnMut(&[ColumnInfo], &[u8]),
    ) -> Result<Step, QueryError> {
        let (kind, content) = match frame::read(&mut self.output) {
            Ok(Some(frame)) => frame,
            Ok(None) => return Err(QueryError::Died(self.fate())),
            Err(error) => return Err(QueryError::Died(error.to_string())),
        };
        let nonsense = |error: serde_json::Error| QueryError::Died(error.to_string());
        match kind {
            from_worker::COLUMNS => {
                *columns = serde_json::from_slice(&content).map_err(nonsense)?;
                take(columns, b"");
            }
            from_worker::ROWS => take(columns, &content),
            from_worker::END => {
                let end: End = serde_json::from_slice(&content).map_err(nonsense)?;
                self.is_idle = true;
                return Ok(Step::Done(end.is_truncated));
            }
            from_worker::FAILURE => {
                let failure: Failure = serde_json::from_slice(&content).map_err(nonsense)?;
                self.is_idle = true;
                return Err(QueryError::of(failure.kind, failure.message));
            }
            other => return Err(QueryError::Died(format!("it sent a frame of kind {other}"))),
        }
        Ok(Step::Continue)
    }

    /// Waits until the worker has sent something, or is dead.
    fn wait(&self, until: Instant) -> io::Result<bool> {
        let rest = until.saturating_duration_since(Instant::now()).as_millis().max(1);
        let mut poll =
            libc::pollfd { fd: self.output.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        let rest = i32::try_from(rest).unwrap_or(i32::MAX);
        // SAFETY: one valid entry.
        match unsafe { libc::poll(&mut poll, 1, rest) } {
            0 => Ok(false),
            1.. => Ok(true),
            _ => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::Interrupted => Ok(false),
                error => Err(error),
            },
        }
    }

    /// How it ended.
    fn fate(&mut self) -> String {
        // It has closed its pipe: it is about to end, or will be killed.
        let _ = self.child.kill();
        match self.child.wait() {
            Ok(status) => status.to_string(),
            Err(error) => error.to_string(),
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        // DuckDB makes it when it needs it.
        let _ = std::fs::remove_dir_all(&self.temp_dir);
    }
}
