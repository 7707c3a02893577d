//! Follows the log as it is written.
//!
//! Polling, not file notification: a look ten times a second costs next to nothing, works the
//! same on every file system, and cannot lose an event of its own.

use std::collections::{BTreeSet, VecDeque};
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use signal_hook::consts::{SIGINT, SIGTERM};

use super::TailError;
use super::files::{LogFile, Place, list};
use super::output::Output;
use super::reader::Forward;
use super::scan::{self, Newest};
use crate::content::{self, Links, Opened};

/// Time between two looks at the files.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Makes Ctrl-C and SIGTERM set `stop`, so that the line being written is finished. The second
/// one ends the program at once, for when stdout takes nothing more.
///
/// # Errors
/// When the system refuses the handlers.
pub fn catch_signals(stop: &Arc<AtomicBool>) -> io::Result<()> {
    for signal in [SIGINT, SIGTERM] {
        // Handlers run in the order of their registration: the first signal finds `stop` unset.
        let code = 128 + signal;
        signal_hook::flag::register_conditional_shutdown(signal, code, Arc::clone(stop))?;
        signal_hook::flag::register(signal, Arc::clone(stop))?;
    }
    Ok(())
}

/// A file that is being followed.
struct Current {
    path: PathBuf,
    lines: Forward<File>,
}

/// Follows a place.
pub struct Follower {
    place: Place,
    /// Log files that were seen, by the stem of their names: compression renames a file.
    known: BTreeSet<String>,
    current: Option<Current>,
    /// Files to read after the current one.
    next: VecDeque<PathBuf>,
    /// What has the name of a log file and is none, and was reported.
    refused: BTreeSet<PathBuf>,
}

impl Follower {
    /// Begins where the scan of `files` has ended: at the end of the newest one.
    pub fn new(
        place: Place,
        files: &[LogFile],
        refused: BTreeSet<PathBuf>,
        newest: Option<Newest>,
    ) -> Self {
        let current = files.last().zip(newest).map(|(log, newest)| Current {
            path: log.path.clone(),
            lines: Forward::new(newest.file, newest.end..newest.end),
        });
        let known = files.iter().map(|file| file.stem.clone()).collect();
        Self { place, known, current, next: VecDeque::new(), refused }
    }

    /// Shows lines as they come, until the user wants to leave.
    ///
    /// # Errors
    /// When the directory cannot be read any more or stdout cannot be written to.
    pub fn run(&mut self, output: &mut Output) -> Result<(), TailError> {
        while !output.stopped() {
            self.poll(output)?;
            output.flush()?;
            std::thread::sleep(POLL_INTERVAL);
        }
        output.flush()
    }

    fn poll(&mut self, output: &mut Output) -> Result<(), TailError> {
        self.read_current(output)?;
        self.look_for_next(output)?;
        while let Some(path) = self.next.pop_front() {
            if output.stopped() {
                break;
            }
            // The recorder finishes a file before it begins the next. Only now that the next is
            // there is it certain that nothing more comes.
            self.read_current(output)?;
            self.close_current(output)?;
            let links = match &self.place {
                Place::Directory(_) => Links::Refuse,
                Place::File(_) | Place::Stream(_) => Links::Follow,
            };
            match content::open_log(&path, links, &output.identities) {
                Ok(Opened::Packed(path, lines)) => {
                    scan::packed(&path, lines, output, |line, output| output.show(line))?;
                }
                Ok(Opened::Plain(file)) => {
                    self.current = Some(Current { path, lines: Forward::new(file, 0..0) });
                }
                Err(error) => output.problem(&path, None, &error.to_string()),
            }
            self.read_current(output)?;
        }
        Ok(())
    }

    fn read_current(&mut self, output: &mut Output) -> Result<(), TailError> {
        let Some(current) = &mut self.current else { return Ok(()) };
        let lines = &mut current.lines;
        let length = match lines.file().metadata() {
            Ok(metadata) => metadata.len(),
            Err(error) => return current.fail(output, &error),
        };
        if length < lines.end() {
            return current.start_again(output);
        }
        lines.extend_to(length);
        loop {
            match lines.next_line() {
                Ok(Some(line)) => {
                    if output.wants(&current.path, line) {
                        output.show(line.bytes)?;
                    }
                    if !output.scanned(line.bytes.len() as u64 + 1)? {
                        return Ok(());
                    }
                }
                Ok(None) => return Ok(()),
                // It was cut between the two looks at it.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    return current.start_again(output);
                }
                Err(error) => return current.fail(output, &error),
            }
        }
    }

    /// What has no newline when a file is finished will never get one.
    fn close_current(&mut self, output: &mut Output) -> Result<(), TailError> {
        let Some(current) = self.current.take() else { return Ok(()) };
        let rest = current.lines.unfinished();
        if (rest.is_too_long || !rest.bytes.is_empty()) && output.wants(&current.path, rest) {
            output.show(rest.bytes)?;
        }
        Ok(())
    }

    fn look_for_next(&mut self, output: &mut Output) -> Result<(), TailError> {
        // The name may stand for another file by now, as after `mv` or an editor's save.
        if let Some(current) = &self.current
            && let Ok(named) = std::fs::metadata(&current.path)
            && let Ok(open) = current.lines.file().metadata()
            && (named.dev(), named.ino()) != (open.dev(), open.ino())
        {
            self.next.push_back(current.path.clone());
        }
        let Place::Directory(directory) = &self.place else { return Ok(()) };
        let listing =
            list(directory).map_err(|error| TailError::Read { path: directory.clone(), error })?;
        listing.report(&mut self.refused, output);
        for file in listing.files {
            if !self.known.insert(file.stem) {
                continue;
            }
            // Also when its name sorts before the current one: then the clock was set back.
            self.next.push_back(file.path);
        }
        Ok(())
    }
}

impl Current {
    fn start_again(&mut self, output: &mut Output) -> Result<(), TailError> {
        output.flush()?;
        output.note(&format!("{}: file truncated, reading it from its start", self.path.display()));
        match self.lines.file().try_clone() {
            Ok(file) => self.lines = Forward::new(file, 0..0),
            Err(error) => return self.fail(output, &error),
        }
        Ok(())
    }

    fn fail(&self, output: &mut Output, error: &io::Error) -> Result<(), TailError> {
        output.flush()?;
        Err(TailError::Read {
            path: self.path.clone(),
            error: io::Error::new(error.kind(), error.to_string()),
        })
    }
}
