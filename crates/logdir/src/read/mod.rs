//! Zone: outside. Reading a log: what is there, then what comes (feature `read`).
//!
//! The log may be hundreds of gigabytes and the question is nearly always about its end or a
//! few minutes of it, so nothing is read that the answer does not need: whole files are passed
//! over by their names, a place in a file is found by binary search, and the newest lines are
//! found by reading blocks backwards.
//!
//! [`read()`] gives lines to a [`Sink`], which decides what becomes of them. No file is trusted:
//! links in a log directory are not followed, a line takes only so much memory, and a broken file
//! is a problem that the sink is told, not the end.
//!
//! | module | what it owns |
//! |---|---|
//! | [`files`] | the log files of a directory, by age |
//! | [`content`] | a file opened and unpacked, whatever form it has by now |
//! | [`reader`] | lines of a plain file: forward, backward, and the place of a time |
//! | [`line_limit`] | lines that are too long |
//! | `scan` | the lines that are in the log already |
//! | `newest` | the newest file, which may be written while it is read |
//! | `parts` | which parts of the files can hold an answer |
//! | `kept` | the newest lines, in memory until they are shown |
//! | `follow` | lines as they are written |
//! | [`order`] | numbers of lines: known, missing, of another log |
//! | [`resume`] | where a new start goes on after the line that was handled last |
//! | [`directory`] | a log directory for verification |

pub mod content;
pub mod directory;
pub mod files;
mod follow;
mod kept;
pub mod line_limit;
mod newest;
pub mod order;
mod parts;
pub mod reader;
pub mod resume;
mod scan;

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use content::Access;
use files::{Input, LogFile, STDIN};
use follow::Follower;
use newest::open_newest;
use reader::Placed;
use scan::Scan;

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
    fn of(path: &Path) -> impl FnOnce(io::Error) -> Self {
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

/// Gives the lines of a place to `sink`: those that are there, and with `follow` those that come,
/// until the sink ends it.
///
/// # Errors
/// When it cannot go on. The sink is told of files that cannot be read, and they are passed over.
pub fn read<S: Sink>(
    place: Input,
    request: &Request<'_>,
    access: &Access,
    sink: &mut S,
) -> Result<(), S::Error> {
    let mut refused = BTreeSet::new();
    let files = match &place {
        Input::Stream(path) => {
            let mut input: Box<dyn BufRead> = if path == Path::new(STDIN) {
                Box::new(io::stdin().lock())
            } else {
                Box::new(BufReader::new(File::open(path).map_err(ReadError::of(path))?))
            };
            return scan::stream(path, &mut input, request.lines, access.line_bytes_max, sink);
        }
        Input::File(path) => {
            content::check_is_log(path).map_err(ReadError::of(path))?;
            vec![LogFile::named(path)]
        }
        Input::Directory(path) => {
            let listing = files::list(path).map_err(ReadError::of(path))?;
            listing.report(&mut refused, sink);
            let files = listing.files;
            if files.is_empty() {
                if !request.follow {
                    return Err(ReadError::NoFiles(path.clone()).into());
                }
                sink.note(&format!("{}: no log file yet, waiting for one", path.display()));
            }
            files
        }
    };
    // The newest file is opened first and its length taken once: what is there now is scanned,
    // what comes after it is followed, and no line falls between the two.
    let newest = open_newest(&files, request.follow, sink)?;
    if sink.wants_last_run() {
        let run = Scan { files: &files, newest: newest.as_ref(), access }.newest_run(sink);
        sink.last_run(run);
    }
    let older = request.from.map_or(0, |from| files.partition_point(|file| *file.stem < *from));
    let scan = Scan { files: &files[older..], newest: newest.as_ref(), access };
    scan.run(request.lines, request.window, sink)?;
    sink.flush()?;
    if request.follow {
        Follower::new(place, &files, refused, newest, access).run(sink)?;
    }
    Ok(())
}
