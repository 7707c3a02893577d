//! Renditions: each log file in another format, too, beside it: `audit-….jsonl` and `audit-….csv`.
//!
//! The lines remain the log, which is sealed, recovered and read. A rendition is made only from
//! them, so it can be made again at any time, and a crash can neither lose nor double its content.
//! The reasons are in `docs/decisions/2026-11-22-other-formats-beside-the-log.md`.
//!
//! # How
//!
//! [`SecondaryFormat`] follows the log, file by file, oldest first. Its caller drives it: a call of
//! [`SecondaryFormat::step`] converts one block of lines and returns. No thread, no sleep, no
//! retry; after an error it can continue.
//!
//! - **Restarting is continuing.** It converts a file from its first line and *compares* the result
//!   with the existing bytes; where they differ or end, it truncates and appends. So a crash, a
//!   short write, a torn end and bytes of another process are all handled in the same way, and a
//!   program that follows a rendition does not see it replaced.
//! - **Events that began in one file and end in a later one** are held by a [`Joiner`] and go to
//!   the rendition of the file where they end. The events that were held when the oldest unfinished
//!   file began are in [`state`], with the list of unfinished files: everything can be made again
//!   from there.
//! - **An obstacle blocks one file, not the others.** A directory with the name of a rendition is
//!   reported while its log file is written, so that an operator can move it away; after that the
//!   file has no rendition, but its lines still count for the joiner.
//! - The list is on the disk before a file on it gets a rendition. A file is removed from the list
//!   when its rendition is complete and synced.
//!
//! | module | responsibility |
//! |---|---|
//! | `state` | `.renditions`: unfinished files, and the events held when the oldest began |
//! | `source` | complete lines of a log file that may still grow |
//! | `target` | comparing or appending bytes |
//! | `work` | one file: lines in, bytes of the format out |

mod source;
mod state;
mod target;
#[cfg(test)]
mod tests;
mod work;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use tacho_format::Format;
use tacho_format::join::{HELD_BYTES_MAX, Joiner};
use tacho_record::Line;
use tacho_record::OwnedRecord;
use tacho_record::json;
use tacho_record::time::TimeFormatter;

use super::ending::Content;
use super::entries;
use super::error::FileError;
use super::fs::Fs;
use super::name::FileName;
pub use state::PendingFiles;
use work::Work;

/// Why a rendition cannot continue at the moment.
#[derive(Debug, thiserror::Error)]
pub enum Trouble {
    /// An operation failed.
    #[error(transparent)]
    File(#[from] FileError),
    /// Another process changed a file meanwhile.
    #[error("{} was {what} by another process: starting it again", path.display())]
    Changed {
        /// The log file or its rendition.
        path: PathBuf,
        /// The change.
        what: &'static str,
    },
    /// The name of the rendition is taken by an entry that is not a file.
    #[error("{} is not a regular file, and in the way of the other format: move it away",
        .0.display())]
    InTheWay(PathBuf),
    /// A statement is larger than the available memory.
    #[error("there is not enough memory for a line of {}", .0.display())]
    Memory(PathBuf),
    /// The remaining space on the disk is reserved for the log.
    #[error("{free_bytes} bytes are left on the disk: they are kept for the log itself")]
    Room {
        /// Free space.
        free_bytes: u64,
    },
}

/// The writer's instructions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The current file. Earlier ones are closed.
    pub current: FileName,
    /// The formats, each with the first file that has it, oldest first; `None`: no other format.
    pub formats: Vec<(FileName, Option<Format>)>,
    /// Times are in UTC instead of local time.
    pub utc: bool,
}

impl Plan {
    fn format_of(&self, name: FileName) -> Option<Format> {
        let found = self.formats.iter().rev().find(|(from, _)| *from <= name);
        found.and_then(|(_, format)| *format)
    }
}

/// The renditions of one log, see the module documentation.
pub struct SecondaryFormat<F: Fs> {
    fs: F,
    dir: PathBuf,
    host: String,
    state: PendingFiles,
    /// The state on the disk is up to date.
    is_listed: bool,
    /// The newest file in the state.
    seen: FileName,
    joiner: Joiner,
    work: Option<Work<F>>,
    /// Lengths of unfinished closed files, bytes.
    lengths: BTreeMap<FileName, u64>,
    notes: Vec<String>,
}

impl<F: Fs> SecondaryFormat<F> {
    pub(crate) fn new(
        fs: F,
        dir: &Path,
        state: PendingFiles,
        seen: FileName,
        host: &str,
    ) -> SecondaryFormat<F> {
        SecondaryFormat {
            fs,
            dir: dir.to_owned(),
            host: host.to_owned(),
            state,
            is_listed: false,
            seen,
            joiner: Joiner::new(HELD_BYTES_MAX),
            work: None,
            lengths: BTreeMap::new(),
            notes: Vec::new(),
        }
    }

    /// Continues by one block of lines. `false`: all lines of the log are done.
    ///
    /// # Errors
    /// It cannot continue. A later call retries, and continues where this one stopped.
    pub fn step(&mut self, plan: &Plan) -> Result<bool, Trouble> {
        let result = self.try_step(plan);
        if let Err(Trouble::Changed { .. } | Trouble::Memory(_)) = result {
            // The bytes that were written are not there: start again from the first line.
            self.work = None;
        }
        result
    }

    fn try_step(&mut self, plan: &Plan) -> Result<bool, Trouble> {
        self.list(plan)?;
        let Some(&(name, format)) = self.state.pending.front() else { return Ok(false) };
        let known = format.and_then(|format| Some((format, Content::of_format(format)?)));
        let Some(known) = known else {
            self.leave();
            return Ok(true);
        };
        let is_closed = name < plan.current;
        if self.work.is_none() && !self.begin(name, known, is_closed)? {
            return Ok(is_closed);
        }
        let Some(work) = &mut self.work else { return Ok(false) };
        work.set_clock(plan.utc);
        work.flush(&self.fs)?;
        if work.take_lines(&self.fs, &mut self.joiner, is_closed)? {
            work.flush(&self.fs)?;
            return Ok(true);
        }
        if !is_closed {
            return Ok(false);
        }
        if self.state.pending.get(1).is_none_or(|(_, next)| next.is_none()) {
            // No later file continues with them.
            work.give_out(&mut self.joiner)?;
        }
        work.end(&self.fs)?;
        work.sync()?;
        self.leave();
        self.list(plan)?;
        Ok(true)
    }

    /// The oldest file whose rendition is not complete.
    #[must_use]
    pub fn oldest(&self) -> Option<FileName> {
        self.state.pending.front().map(|(name, _)| *name)
    }

    /// Backlog of the renditions, bytes of lines. Files whose length is unknown do not count: the
    /// error is reported where the file is needed.
    pub fn behind_bytes(&mut self, current: FileName) -> u64 {
        let mut sum = 0_u64;
        for &(name, format) in &self.state.pending {
            if format.is_none() {
                continue;
            }
            let known = self.lengths.get(&name).copied();
            let bytes = known.or_else(|| {
                let bytes = self.fs.stat(&self.dir.join(name.log_file())).ok()?.bytes;
                if name < current {
                    self.lengths.insert(name, bytes);
                }
                Some(bytes)
            });
            let done = self.work.as_ref().filter(|work| work.name() == name).map_or(0, Work::done);
            sum = sum.saturating_add(bytes.unwrap_or(0).saturating_sub(done));
        }
        sum
    }

    /// Leaves the oldest files up to `name` as they are: they will be removed.
    pub fn leave_up_to(&mut self, name: FileName) {
        while let Some(oldest) = self.oldest().filter(|oldest| *oldest <= name) {
            self.notes.push(format!(
                "{} is removed before all of it was written in the other format",
                oldest.log_file()
            ));
            self.leave();
        }
    }

    /// Completes the rendition of the current file, until it is continued. Call it when all lines
    /// are in the rendition.
    ///
    /// # Errors
    /// As [`SecondaryFormat::step`].
    pub fn end(&mut self) -> Result<(), Trouble> {
        self.work.as_mut().map_or(Ok(()), |work| work.end(&self.fs))
    }

    /// Messages for the error log, since the last call.
    pub fn take_notes(&mut self) -> Vec<String> {
        let mut notes = std::mem::take(&mut self.notes);
        notes.extend(self.work.iter_mut().flat_map(Work::take_notes));
        notes
    }

    /// Updates the list, in memory and on the disk.
    fn list(&mut self, plan: &Plan) -> Result<(), Trouble> {
        if plan.current > self.seen {
            let mut new: Vec<FileName> = entries::list(&self.fs, &self.dir)?
                .into_iter()
                .map(|(name, _)| name)
                .filter(|name| *name > self.seen && *name <= plan.current)
                .collect();
            new.dedup();
            for name in new {
                let format = plan.format_of(name);
                // Files after an unfinished one are listed even without a format: otherwise the
                // next start would assume the same format for them.
                if format.is_some() || !self.state.pending.is_empty() {
                    self.state.pending.push_back((name, format));
                    self.is_listed = false;
                }
            }
            self.seen = plan.current;
        }
        // The format of a file may change while it has no line.
        let format = plan.format_of(plan.current);
        match self.state.pending.back_mut().filter(|last| last.0 == plan.current) {
            Some(last) if last.1 != format => {
                last.1 = format;
                self.is_listed = false;
                self.work = self.work.take().filter(|work| work.name() != plan.current);
            }
            Some(_) => {}
            // Until now it was to have no rendition.
            None if format.is_some() && self.seen == plan.current => {
                self.state.pending.push_back((plan.current, format));
                self.is_listed = false;
            }
            None => {}
        }
        if !self.is_listed {
            self.state.write(&self.fs, &self.dir)?;
            self.is_listed = true;
        }
        Ok(())
    }

    /// Opens the oldest file of the list. `false`: it does not exist.
    fn begin(
        &mut self,
        name: FileName,
        known: (Format, Content),
        is_closed: bool,
    ) -> Result<bool, Trouble> {
        let work = Work::begin(&self.fs, &self.dir, name, known, &self.host)?;
        if work.is_none() && is_closed {
            self.notes.push(format!(
                "{} no longer exists, and has no complete rendition in another format",
                name.log_file()
            ));
            self.leave();
        }
        self.joiner = Joiner::new(HELD_BYTES_MAX);
        for line in self.state.held.split_inclusive(|byte| *byte == b'\n') {
            // The log's own lines; foreign content is not a record.
            let record = Line::parse(line).ok().and_then(|line| OwnedRecord::of_line(&line).ok());
            if let Some(record) = record {
                let held = self.joiner.push(record, |_| Err(()));
                debug_assert!(held.is_ok(), "only statements that run were held");
            }
        }
        self.work = work;
        Ok(self.work.is_some())
    }

    /// Finishes the oldest file of the list.
    fn leave(&mut self) {
        if let Some(mut work) = self.work.take() {
            self.notes.extend(work.take_notes());
            let mut clock = TimeFormatter::utc();
            let held = &mut self.state.held;
            held.clear();
            for record in self.joiner.held() {
                let written = record.with(|record| json::try_write_line(held, record, &mut clock));
                if written.is_err() {
                    self.notes.push(format!(
                        "there was not enough memory to keep the text of statement {}: if the \
                         server dies before it ends, it is without a text in the other format",
                        record.seq
                    ));
                }
            }
        }
        if let Some((name, _)) = self.state.pending.pop_front() {
            self.lengths.remove(&name);
        }
        while self.state.pending.front().is_some_and(|(_, format)| format.is_none()) {
            self.state.pending.pop_front();
        }
        self.is_listed = false;
    }
}
