//! Follows the log as it is written.
//!
//! Polling instead of file notification: checking ten times a second costs almost nothing, works
//! the same on every file system, and cannot lose a notification.

use std::collections::{BTreeSet, VecDeque};
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::time::Duration;

use super::content::{self, Access, Links, Opened};
use super::files::{Input, LogFile, list};
use super::newest::Newest;
use super::reader::Forward;
use super::request::{ReadError, Sink};
use super::scan;

/// Interval between checks of the files.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// A file that is being followed.
struct Current {
    path: PathBuf,
    lines: Forward<File>,
}

/// Follows an input.
pub struct Follower<'a> {
    place: Input,
    access: &'a Access,
    /// Log files that were found, by the stem of their names, because compression renames a file.
    known: BTreeSet<String>,
    current: Option<Current>,
    /// Files to read after the current one.
    next: VecDeque<PathBuf>,
    /// Reported entries that have the name of a log file but are not one.
    refused: BTreeSet<PathBuf>,
}

impl<'a> Follower<'a> {
    /// Begins where the scan of `files` ended: at the end of the newest one.
    pub fn new(
        place: Input,
        files: &[LogFile],
        refused: BTreeSet<PathBuf>,
        newest: Option<Newest>,
        access: &'a Access,
    ) -> Self {
        let limit = access.line_bytes_max;
        let current = files.last().zip(newest).map(|(log, newest)| Current {
            path: log.path.clone(),
            lines: Forward::new(newest.file, newest.end..newest.end, limit),
        });
        let known = files.iter().map(|file| file.stem.clone()).collect();
        Self { place, access, known, current, next: VecDeque::new(), refused }
    }

    /// Shows new lines until the sink stops it.
    ///
    /// # Errors
    /// The directory can no longer be read, or the sink failed.
    pub fn run<S: Sink>(&mut self, sink: &mut S) -> Result<(), S::Error> {
        while !sink.stopped() {
            self.poll(sink)?;
            sink.flush()?;
            std::thread::sleep(POLL_INTERVAL);
        }
        sink.flush()
    }

    fn poll<S: Sink>(&mut self, sink: &mut S) -> Result<(), S::Error> {
        self.read_current(sink)?;
        self.look_for_next(sink)?;
        while let Some(path) = self.next.pop_front() {
            if sink.stopped() {
                break;
            }
            // The recorder finishes a file before it begins the next. Only now that the next one
            // exists is it certain that this one is complete.
            self.read_current(sink)?;
            self.close_current(sink)?;
            let links = match &self.place {
                Input::Directory(_) => Links::Refuse,
                Input::File(_) | Input::Stream(_) => Links::Follow,
            };
            match content::open_log(&path, links, self.access) {
                Ok(Opened::Packed(path, lines)) => {
                    scan::packed(&path, lines, sink, |line, sink| sink.show(line))?;
                }
                Ok(Opened::Plain(file)) => {
                    self.current = Some(Current {
                        path,
                        lines: Forward::new(file, 0..0, self.access.line_bytes_max),
                    });
                }
                Err(error) => sink.problem(&path, &error.to_string()),
            }
            self.read_current(sink)?;
        }
        Ok(())
    }

    fn read_current<S: Sink>(&mut self, sink: &mut S) -> Result<(), S::Error> {
        let Some(current) = &mut self.current else { return Ok(()) };
        let lines = &mut current.lines;
        let length = match lines.file().metadata() {
            Ok(metadata) => metadata.len(),
            Err(error) => return current.fail(sink, &error),
        };
        if length < lines.end() {
            return current.start_again(sink);
        }
        lines.extend_to(length);
        loop {
            match lines.next_line() {
                Ok(Some(line)) => {
                    if sink.wants(&current.path, line) {
                        sink.show(line.bytes)?;
                    }
                    if !sink.scanned(line.bytes.len() as u64 + 1)? {
                        return Ok(());
                    }
                }
                Ok(None) => return Ok(()),
                // Truncated between the two checks.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    return current.start_again(sink);
                }
                Err(error) => return current.fail(sink, &error),
            }
        }
    }

    /// A line without a newline in a finished file will never get one.
    fn close_current<S: Sink>(&mut self, sink: &mut S) -> Result<(), S::Error> {
        let Some(current) = self.current.take() else { return Ok(()) };
        let rest = current.lines.unfinished();
        if (rest.is_too_long || !rest.bytes.is_empty()) && sink.wants(&current.path, rest) {
            sink.show(rest.bytes)?;
        }
        Ok(())
    }

    fn look_for_next<S: Sink>(&mut self, sink: &mut S) -> Result<(), S::Error> {
        // The name may refer to another file now, as after `mv` or when an editor saves.
        if let Some(current) = &self.current
            && let Ok(named) = std::fs::metadata(&current.path)
            && let Ok(open) = current.lines.file().metadata()
            && (named.dev(), named.ino()) != (open.dev(), open.ino())
        {
            self.next.push_back(current.path.clone());
        }
        let Input::Directory(directory) = &self.place else { return Ok(()) };
        let listing = list(directory).map_err(ReadError::of(directory))?;
        listing.report(&mut self.refused, sink);
        for file in listing.files {
            if !self.known.insert(file.stem) {
                continue;
            }
            // Even if its name sorts before the current one: then the clock was set back.
            self.next.push_back(file.path);
        }
        Ok(())
    }
}

impl Current {
    fn start_again<S: Sink>(&mut self, sink: &mut S) -> Result<(), S::Error> {
        sink.flush()?;
        sink.note(&format!("{}: file truncated, reading it from its start", self.path.display()));
        match self.lines.file().try_clone() {
            Ok(file) => self.lines = Forward::new(file, 0..0, self.lines.limit()),
            Err(error) => return self.fail(sink, &error),
        }
        Ok(())
    }

    fn fail<S: Sink>(&self, sink: &mut S, error: &io::Error) -> Result<(), S::Error> {
        sink.flush()?;
        let error = io::Error::new(error.kind(), error.to_string());
        Err(ReadError::Read { path: self.path.clone(), error }.into())
    }
}
