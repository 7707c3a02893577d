//! Opening a log directory.

use std::path::Path;

use super::create::reopen;
use super::current::Current;
use super::directory::LogDir;
use crate::aside::set_aside;
use crate::entries::{self, Entry};
use crate::error::{At, FileError, LastSeqError};
use crate::event::Event;
use crate::form::Form;
use crate::fs::Fs;
use crate::{lock, tail};

/// Result of [`LogFiles::open`](super::LogFiles::open).
#[derive(Debug)]
pub struct Opened {
    /// Length of the line without a newline that was cut off, bytes.
    pub torn_bytes: u64,
    /// `seq` of the last complete line in the directory; `None`: no line yet.
    pub last_seq: Result<Option<u64>, LastSeqError>,
}

/// Initial state of a writer.
pub(super) struct OpenedLog<F: Fs> {
    pub(super) dir: LogDir<F>,
    pub(super) current: Current<F::File>,
    /// The current file is not a new one.
    pub(super) is_continued: bool,
    pub(super) events: Vec<Event>,
    pub(super) opened: Opened,
}

/// Creates the directory if it is missing, locks it, sets aside files that SQL planted, cuts a torn
/// line, and continues the newest file or begins a new one.
pub(super) fn open<F: Fs>(fs: F, path: &Path, key_file: &Path) -> Result<OpenedLog<F>, FileError> {
    lock::ensure_dir(&fs, path)?;
    let lock = lock::acquire(&fs, path)?;
    let (made, mut events) = set_aside(&fs, path, key_file)?;
    let mut dir = LogDir::new(fs, path, lock, made);
    let entries = entries::list(dir.fs(), path)?;
    let End { newest, torn_bytes } = cut_torn_line(dir.fs(), path, &entries)?;
    let last_seq = tail::last_seq_in(dir.fs(), path, &entries);
    let is_continued = newest.is_some();
    let current = match newest {
        Some(current) => {
            dir.list(current.name)?;
            current
        }
        None => dir.create_next(&mut events)?,
    };
    let opened = Opened { torn_bytes, last_seq };
    Ok(OpenedLog { dir, current, is_continued, events, opened })
}

/// The end of a log.
struct End<L> {
    /// The newest file, if it can be continued.
    newest: Option<Current<L>>,
    /// Length of the torn line that was cut off.
    torn_bytes: u64,
}

/// Cuts off a torn last line.
fn cut_torn_line<F: Fs>(fs: &F, dir: &Path, entries: &[Entry]) -> Result<End<F::File>, FileError> {
    let mut torn_bytes = 0;
    let mut newest = None;
    // The torn line is in the newest file that is not empty. Newer empty files exist if a file
    // system created a file and reported an error (NFS can).
    for (position, (name, form)) in entries.iter().rev().enumerate() {
        let path = dir.join(format!("{name}.{}", form.ending()));
        if *form != Form::Plain || !fs.stat(&path).at("look at", &path)?.is_file {
            break;
        }
        let (current, torn) = reopen(fs, *name, path)?;
        let is_empty = current.bytes == 0;
        torn_bytes += torn;
        if position == 0 {
            newest = Some(current);
        }
        if !is_empty {
            break;
        }
    }
    Ok(End { newest, torn_bytes })
}
