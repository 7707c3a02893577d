//! Zone: outside. Reads a log: existing lines, then new ones (feature `read`).
//!
//! The log may be hundreds of gigabytes, and the question is nearly always about its end or a few
//! minutes of it, so only the necessary parts are read: whole files are skipped by their names, a
//! position in a file is found by binary search, and the newest lines are found by reading blocks
//! backwards.
//!
//! [`read()`] passes lines to a [`Sink`], which decides what to do with them. No file is trusted:
//! links in a log directory are not followed, a line uses only a limited amount of memory, and a
//! broken file is reported to the sink as a problem and does not end the reading.
//!
//! | module | responsibility |
//! |---|---|
//! | `request` | what to read, and the receiver of the lines: [`Request`], [`Sink`] |
//! | [`files`] | the log files of a directory, by age |
//! | [`content`] | opening and unpacking a file in any form |
//! | [`identities`] | secret keys that open encrypted files |
//! | [`direct`] | files that can be read at any offset of their content |
//! | [`reader`] | lines of such a file: forward, backward, and the position of a time |
//! | [`line_limit`] | limits the length of lines |
//! | `scan` | existing lines |
//! | `newest` | the newest file, which may be written while it is read |
//! | `parts` | which parts of the files can hold an answer |
//! | `kept` | the newest lines, in memory until they are shown |
//! | [`pieces`] | existing lines in pieces that several threads can read |
//! | `follow` | new lines |
//! | [`directory`] | a log directory for verification |
//! | [`end`] | the end of a log with a bounded amount of reading: newest line, losses, checkpoint |
//! | [`sizes`] | the length of each log file with everything that belongs to it |

pub mod content;
pub mod direct;
pub mod directory;
pub mod end;
pub mod files;
mod follow;
pub mod identities;
mod kept;
pub mod line_limit;
mod newest;
mod parts;
pub mod pieces;
pub mod reader;
mod request;
mod scan;
pub mod sizes;
#[cfg(test)]
mod test_sink;

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use content::Access;
use files::{Input, LogFile, STDIN};
use follow::Follower;
use newest::open_newest;
pub use request::{Lines, ReadError, Request, Sink, Window};
use scan::{Scan, Wanted};

/// Passes the lines of an input to `sink`: existing ones, and with `follow` also new ones, until
/// the sink stops it.
///
/// # Errors
/// It cannot continue. Files that cannot be read are reported to the sink and skipped.
pub fn read<S: Sink>(
    place: Input,
    request: &Request<'_>,
    access: &Access,
    sink: &mut S,
) -> Result<(), S::Error> {
    let mut refused = BTreeSet::new();
    let wanted = Wanted { lines: request.lines, newest_first: request.newest_first };
    if let Input::Stream(path) = &place {
        let mut input: Box<dyn BufRead> = if path == Path::new(STDIN) {
            Box::new(io::stdin().lock())
        } else {
            Box::new(BufReader::new(File::open(path).map_err(ReadError::of(path))?))
        };
        return scan::stream(path, &mut input, wanted, access.line_bytes_max, sink);
    }
    let files = files_of(&place, request.follow, &mut refused, sink)?;
    // The newest file is opened first and its length read once: lines up to that are scanned, later
    // ones are followed, so no line is lost between the two.
    let newest = open_newest(&files, request.follow, sink)?;
    if sink.wants_last_run() {
        let run = Scan { files: &files, newest: newest.as_ref(), access }.newest_run(sink);
        sink.last_run(run);
    }
    let older = request.from.map_or(0, |from| files.partition_point(|file| *file.stem < *from));
    let scan = Scan { files: &files[older..], newest: newest.as_ref(), access };
    scan.run(wanted, request.window, sink)?;
    sink.flush()?;
    if request.follow {
        Follower::new(place, &files, refused, newest, access).run(sink)?;
    }
    Ok(())
}

/// The files of an input, oldest first; none of a stream. With `follow`, there need not be one yet.
fn files_of<S: Sink>(
    place: &Input,
    follow: bool,
    refused: &mut BTreeSet<PathBuf>,
    sink: &mut S,
) -> Result<Vec<LogFile>, ReadError> {
    match place {
        Input::Stream(_) => Ok(Vec::new()),
        Input::File(path) => {
            content::check_is_log(path).map_err(ReadError::of(path))?;
            Ok(vec![LogFile::named(path)])
        }
        Input::Directory(path) => {
            let listing = files::list(path).map_err(ReadError::of(path))?;
            listing.report(refused, sink);
            let files = listing.files;
            if files.is_empty() {
                if !follow {
                    return Err(ReadError::NoFiles(path.clone()));
                }
                sink.note(&format!("{}: no log file yet, waiting for one", path.display()));
            }
            Ok(files)
        }
    }
}
