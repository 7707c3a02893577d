//! The file that stores the position of a sender, from which the next run resumes.
//!
//! One JSON object, replaced as a whole: `{"v":1,"file":"audit-…","seq":7,"ts":"…"}`. The file is
//! the log file's name without its ending, because compression changes that. `ts` distinguishes
//! a line from another one with the same number, which a log has after a power failure.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::order::Mark;
use crate::report::Report;
use crate::small_file;

/// Time between two writes of the state.
const INTERVAL: Duration = Duration::from_secs(1);
/// It is one line.
const BYTES_MAX: u64 = 64 << 10;
/// Time between two messages about a failure.
const TELL_INTERVAL: Duration = Duration::from_secs(600);

/// What the file holds.
#[derive(Debug, Serialize, Deserialize)]
struct Content {
    v: u32,
    file: String,
    seq: u64,
    ts: Timestamp,
}

/// Why the state cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// It cannot be read or written.
    #[error("cannot use the state file {}: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// It is something else.
    #[error(
        "{} is not a state file of `tacho convert` ({reason}); name another file with --state",
        path.display()
    )]
    Content {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// Two would send the same lines.
    #[error("the state file {} is in use by another `tacho convert`", .0.display())]
    Used(PathBuf),
}

/// The file, and what was written last.
pub struct StateFile {
    path: PathBuf,
    saved: Option<Mark>,
    next: Instant,
    reported: Option<Instant>,
    report: Report,
    /// Holds the lock.
    _lock: File,
}

impl StateFile {
    /// Opens the state at `path`; there may be none yet.
    ///
    /// # Errors
    /// When another sender has it, or it cannot be understood, or its directory not be written to.
    pub fn open(path: &Path, report: Report) -> Result<Self, StateError> {
        let fail = |error| StateError::File { path: path.to_owned(), error };
        let lock = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(beside(path, ".lock"))
            .map_err(fail)?;
        // SAFETY: the descriptor is open; flock takes no memory.
        if unsafe { libc::flock(lock.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } == -1 {
            let error = io::Error::last_os_error();
            return Err(match error.kind() {
                io::ErrorKind::WouldBlock => StateError::Used(path.to_owned()),
                _ => fail(error),
            });
        }
        let saved = match small_file::read(path, BYTES_MAX) {
            Ok(bytes) => Some(
                understand(&bytes)
                    .map_err(|reason| StateError::Content { path: path.to_owned(), reason })?,
            ),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(fail(error)),
        };
        let next = Instant::now() + INTERVAL;
        Ok(Self { path: path.to_owned(), saved, next, reported: None, report, _lock: lock })
    }

    /// The line that was sent last.
    pub fn saved(&self) -> Option<&Mark> {
        self.saved.as_ref()
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes `mark` if it is time to.
    pub fn save_in_time(&mut self, mark: Option<&Mark>) {
        let now = Instant::now();
        if now < self.next {
            return;
        }
        self.next = now + INTERVAL;
        if let Err(error) = self.save(mark) {
            // What was sent since is sent again by the next start, and nothing is lost: no reason
            // to stop.
            if self.reported.is_none_or(|reported| now - reported >= TELL_INTERVAL) {
                self.reported = Some(now);
                let text = format!("{error}; the next run would send some messages again");
                (self.report)(&text);
            }
        }
    }

    /// Writes `mark`, also if it is before what was written last. `None`: nothing was sent for
    /// certain.
    ///
    /// # Errors
    /// When it cannot be written. What was there is still there.
    pub fn save(&mut self, mark: Option<&Mark>) -> Result<(), StateError> {
        if self.saved.as_ref() == mark {
            return Ok(());
        }
        let written = match mark {
            Some(mark) => self.write(mark),
            None => std::fs::remove_file(&self.path),
        };
        written.map_err(|error| StateError::File { path: self.path.clone(), error })?;
        self.saved = mark.cloned();
        self.reported = None;
        Ok(())
    }

    fn write(&self, mark: &Mark) -> io::Result<()> {
        let content = Content { v: 1, file: mark.file.to_string(), seq: mark.seq, ts: mark.ts };
        let mut bytes = serde_json::to_vec(&content)?;
        bytes.push(b'\n');
        let new = beside(&self.path, ".new");
        let mut file = File::create(&new)?;
        file.write_all(&bytes)?;
        // A power failure must not leave an empty file under the name.
        file.sync_all()?;
        std::fs::rename(&new, &self.path)
    }
}

fn understand(bytes: &[u8]) -> Result<Mark, String> {
    let content: Content = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    if content.v != 1 {
        return Err(format!("version {} is not supported, expected 1", content.v));
    }
    Ok(Mark { file: content.file.into(), seq: content.seq, ts: content.ts })
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report;

    fn mark(seq: u64) -> Mark {
        let ts = "2026-11-21T10:00:00.000001Z".parse().unwrap();
        Mark { file: "audit-20261121T100000Z-000001".into(), seq, ts }
    }

    #[test]
    fn what_is_saved_is_found() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("state");
        let mut state = StateFile::open(&path, report::none()).unwrap();
        assert_eq!(state.saved(), None);
        assert!(matches!(StateFile::open(&path, report::none()), Err(StateError::Used(_))));
        state.save(None).unwrap();
        assert!(!path.exists());
        for seq in [7, 9, 8] {
            state.save(Some(&mark(seq))).unwrap();
        }
        assert_eq!(
            std::fs::read_to_string(&path).unwrap(),
            "{\"v\":1,\"file\":\"audit-20261121T100000Z-000001\",\"seq\":8,\
             \"ts\":\"2026-11-21T10:00:00.000001Z\"}\n"
        );
        drop(state);
        assert_eq!(StateFile::open(&path, report::none()).unwrap().saved(), Some(&mark(8)));
    }

    #[test]
    fn something_else_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("state");
        for content in
            ["", "{}", "{\"v\":2,\"file\":\"a\",\"seq\":1,\"ts\":\"2026-11-21T10:00:00Z\"}"]
        {
            std::fs::write(&path, content).unwrap();
            assert!(
                matches!(StateFile::open(&path, report::none()), Err(StateError::Content { .. })),
                "{content}"
            );
        }
    }

    #[test]
    fn a_state_that_cannot_be_written_leaves_the_old_one() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("state");
        let mut state = StateFile::open(&path, report::none()).unwrap();
        state.save(Some(&mark(1))).unwrap();
        // The new one's name is taken by something that cannot be replaced.
        std::fs::create_dir(beside(&path, ".new")).unwrap();
        assert!(state.save(Some(&mark(2))).is_err());
        assert_eq!(state.saved(), Some(&mark(1)));
    }
}
