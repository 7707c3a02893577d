//! What to read, and the receiver of the lines.

use std::io;
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use super::reader::Placed;

/// Why a log cannot be read, or no further.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The only file cannot be opened.
    #[error("{}: {error}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// The directory has no log file.
    #[error("{}: no log file (audit-*.jsonl) in this directory", .0.display())]
    NoFiles(PathBuf),
    /// The directory, a file or a stream cannot be read.
    #[error("{}: {error}", path.display())]
    Read {
        /// The path that was being read.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
}

impl ReadError {
    pub(super) fn of(path: &Path) -> impl FnOnce(io::Error) -> Self {
        |error| Self::Read { path: path.to_owned(), error }
    }
}

/// How many of the existing lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lines {
    /// All that the sink wants.
    All,
    /// The newest that the sink wants, at most this many.
    Last(usize),
}

/// A time range: `since` is included, `until` is not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Window {
    /// First moment of it.
    pub since: Option<Timestamp>,
    /// First moment after it.
    pub until: Option<Timestamp>,
}

impl Window {
    /// Whether a line of this time is in the range.
    pub fn contains(&self, ts: Timestamp) -> bool {
        self.since.is_none_or(|since| ts >= since) && self.until.is_none_or(|until| ts < until)
    }
}

/// What to read.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Files of a directory that are older than the one of this name (without an ending) are
    /// skipped.
    pub from: Option<&'a str>,
    /// Which existing lines.
    pub lines: Lines,
    /// Whether the newest of them is shown first.
    pub newest_first: bool,
    /// Only parts of files that can have lines of this range are read. The sink must check the time
    /// of each line.
    pub window: Window,
    /// Whether to continue with new lines.
    pub follow: bool,
}

/// Receives the lines of a log.
///
/// Methods that only some receivers need have a default: a receiver that takes its lines in
/// [`Sink::wants`] wants none, so it needs no [`Sink::show`].
pub trait Sink {
    /// Why it cannot receive more.
    type Error: From<ReadError>;

    /// Whether a line is wanted. The reader chooses the order of calls, and may pass a broken line.
    fn wants(&mut self, path: &Path, line: Placed<'_>) -> bool;

    /// Receives a wanted line, in the order of the request.
    ///
    /// # Errors
    /// The reading ends with the error.
    fn show(&mut self, _bytes: &[u8]) -> Result<(), Self::Error> {
        Ok(())
    }

    /// The reader pauses, or is done.
    ///
    /// # Errors
    /// The reading ends with the error.
    fn flush(&mut self) -> Result<(), Self::Error> {
        Ok(())
    }

    /// A problem with a file. The reading continues.
    fn problem(&mut self, path: &Path, reason: &str);

    /// Information that is not a problem.
    fn note(&mut self, text: &str);

    /// Wanted lines are left out, because the newer ones use this many bytes.
    fn out_of_room(&mut self, _path: &Path, _bytes_max: usize) {}

    /// This many more bytes will be read.
    fn expect(&mut self, _bytes: u64) {}

    /// This many bytes were read. Returns whether to continue.
    ///
    /// # Errors
    /// The reading ends with the error.
    fn scanned(&mut self, _bytes: u64) -> Result<bool, Self::Error> {
        Ok(true)
    }

    /// Whether to stop.
    fn stopped(&self) -> bool {
        false
    }

    /// Whether it must know the newest run of the server before the first line.
    fn wants_last_run(&self) -> bool {
        false
    }

    /// The newest run; `None`: no line names its run.
    fn last_run(&mut self, _run: Option<u64>) {}
}
