//! The newest file, which may be written while it is read.

use std::fs::File;
use std::io;
use std::time::Duration;

use super::files::LogFile;
use super::reader::complete_length;
use super::request::{ReadError, Sink};
use crate::form::Form;

/// How long a line that is being written may take to become complete.
const SETTLE_TIME: Duration = Duration::from_millis(500);
const SETTLE_INTERVAL: Duration = Duration::from_millis(20);

/// The newest file, open, and its length at that time.
pub struct Newest {
    /// The file.
    pub file: File,
    /// End of the existing content; everything after it is new.
    pub end: u64,
}

/// Opens the newest file. If it will be followed, an incomplete last line is left for later.
/// Otherwise this waits briefly for its end, because a busy server is always in the middle of a
/// line; a line that is still incomplete then is broken.
///
/// # Errors
/// It is the only file and cannot be opened.
pub fn open_newest<S: Sink>(
    files: &[LogFile],
    follow: bool,
    sink: &mut S,
) -> Result<Option<Newest>, ReadError> {
    let Some(newest) = files.last().filter(|newest| newest.form == Form::Plain) else {
        return Ok(None);
    };
    let open = || {
        let file = newest.links().open(&newest.path)?;
        let end = if follow {
            complete_length(&file, file.metadata()?.len())?
        } else {
            settled_length(&file)?
        };
        Ok(Newest { file, end })
    };
    match open() {
        Ok(newest) => Ok(Some(newest)),
        Err(error) if files.len() == 1 => Err(ReadError::Open { path: newest.path.clone(), error }),
        Err(error) => {
            sink.problem(&newest.path, &error.to_string());
            Ok(None)
        }
    }
}

fn settled_length(file: &File) -> io::Result<u64> {
    let length = file.metadata()?.len();
    let complete = complete_length(file, length)?;
    if complete == length {
        return Ok(length);
    }
    for _ in 0..SETTLE_TIME.as_millis() / SETTLE_INTERVAL.as_millis() {
        std::thread::sleep(SETTLE_INTERVAL);
        let grown = complete_length(file, file.metadata()?.len())?;
        if grown > complete {
            return Ok(grown);
        }
    }
    Ok(length)
}
