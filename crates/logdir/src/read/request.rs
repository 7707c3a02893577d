//! What is to be read, and what takes the lines.

use std::io;
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use super::reader::Placed;

/// Why a log cannot be read, or not be read on.
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
        /// What was being read.
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

/// How many lines of those that are there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lines {
    /// All that are wanted.
    All,
    /// The newest that are wanted, at most this many.
    Last(usize),
}

/// A time range: `since` belongs to it, `until` does not.
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

/// What is to be read.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Files of a directory that are older than the one of this name (without an ending) are passed
    /// over.
    pub from: Option<&'a str>,
    /// Of what is there.
    pub lines: Lines,
    /// Only parts of files that can have lines of this range are read. The sink has to look at the
    /// time of each line.
    pub window: Window,
    /// Whether to go on with what comes.
    pub follow: bool,
}

/// Takes the lines of a log.
pub trait Sink {
    /// Why it can take no more.
    type Error: From<ReadError>;

    /// Whether a line is wanted. It is given lines in an order of the reader's choice, and may be
    /// given a broken one.
    fn wants(&mut self, path: &Path, line: Placed<'_>) -> bool;

    /// Takes a line that was wanted, in the order of the log.
    ///
    /// # Errors
    /// The reading ends with the error.
    fn show(&mut self, bytes: &[u8]) -> Result<(), Self::Error>;

    /// The reader pauses, or is done.
    ///
    /// # Errors
    /// The reading ends with the error.
    fn flush(&mut self) -> Result<(), Self::Error>;

    /// Something is wrong with a file. The reading goes on.
    fn problem(&mut self, path: &Path, reason: &str);

    /// Something is worth saying that is no problem.
    fn note(&mut self, text: &str);

    /// Lines that were wanted are left out, because the newer ones have this many bytes.
    fn out_of_room(&mut self, path: &Path, bytes_max: usize);

    /// So many more bytes will be read.
    fn expect(&mut self, _bytes: u64) {}

    /// So many bytes were read. Returns whether to go on.
    ///
    /// # Errors
    /// The reading ends with the error.
    fn scanned(&mut self, bytes: u64) -> Result<bool, Self::Error>;

    /// Whether to end.
    fn stopped(&self) -> bool;

    /// Whether it has to know the newest run of the server before the first line.
    fn wants_last_run(&self) -> bool {
        false
    }

    /// The newest run; `None`: no line names its run.
    fn last_run(&mut self, _run: Option<u64>) {}
}
