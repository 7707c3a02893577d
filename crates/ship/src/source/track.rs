//! One log file: the next bytes to ship.
//!
//! ```text
//!   lines:    | at the hub | covered by frames that were read | whole, without a frame | torn |
//!   sidecar:  | at the hub | read, waits for its lines | … |
//! ```
//!
//! The lines that a frame covers go before the frame.

use std::io;
use std::time::{Duration, Instant};

use tacho_chain::verify::Locked;
use tacho_logdir::read::content::Access;
use tacho_logdir::read::files::LogFile;

use super::Portion;
use super::content::Content;
use super::look::Look;
use super::sidecar::{self, Part};
use crate::protocol::names::Stem;
use crate::protocol::{BEFORE_BYTES, BODY_BYTES_MAX, FileName};

/// How long a whole line waits for its frame.
pub const GRACE: Duration = Duration::from_secs(60);

/// The next step.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// These bytes.
    Ship(Portion),
    /// Lines that wait for their frame; so many bytes.
    Wait(u64),
    /// Nothing now.
    Idle,
    /// Nothing any more.
    Complete,
    /// The file ends before what the hub has.
    Shorter(FileName),
}

/// How lines without a frame are treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// They wait for [`GRACE`].
    Wait,
    /// No recorder writes a frame now.
    None,
}

/// The progress of one log file.
pub struct Track {
    stem: Stem,
    /// The hub's offset of the lines.
    pub lines: u64,
    /// The hub's offset of the sidecar.
    pub chain: u64,
    content: Option<Content>,
    /// Entries that wait for their lines.
    part: Part,
    /// Where the file ends, if the last entry that the hub has says that nothing follows.
    end: Option<u64>,
    /// The length of the sidecar when that was looked for.
    looked_at: u64,
    /// Since when whole lines have waited for a frame.
    waiting_since: Option<Instant>,
    /// They have waited for too long: lines are shipped without a frame.
    is_stalled: bool,
    /// No key opens the file.
    is_locked: bool,
    /// The length of the sidecar when nothing was left of a file that is not written any more.
    settled: Option<u64>,
}

impl Track {
    /// Continues where the hub's copy ends.
    pub fn new(stem: Stem, lines: u64, chain: u64) -> Self {
        Self {
            stem,
            lines,
            chain,
            content: None,
            part: Part::default(),
            end: None,
            looked_at: 0,
            waiting_since: None,
            is_stalled: false,
            is_locked: false,
            settled: None,
        }
    }

    /// Nothing is left of a file that is not written any more, unless its sidecar grows.
    pub fn settle(&mut self) {
        self.settled = Some(self.chain);
    }

    /// Whether nothing was left when the sidecar had this length.
    pub fn is_settled_at(&self, length: u64) -> bool {
        self.settled == Some(length)
    }

    /// Whether nothing is left.
    pub fn is_settled(&self) -> bool {
        self.settled == Some(self.chain)
    }

    /// The hub has the file up to `offset`.
    pub fn set(&mut self, name: &FileName, offset: u64) {
        self.settled = None;
        match name {
            FileName::Lines(_) => self.lines = offset,
            FileName::Chain(_) => {
                self.chain = offset;
                self.part = Part { covered: self.part.covered, ..Part::default() };
            }
            FileName::Removed => {}
        }
    }

    /// A file with such an end is not written any more.
    fn is_ended(&self) -> bool {
        self.end.is_some_and(|end| self.lines >= end || self.is_locked)
    }

    /// Whether lines are missing at the hub because no key opens the file.
    pub fn is_missing_lines(&self) -> bool {
        self.is_locked && (self.lines == 0 || self.lines < self.part.covered)
    }

    /// The next step: about `budget` bytes of lines at most.
    ///
    /// # Errors
    /// When a file cannot be read.
    pub fn next(
        &mut self,
        look: &Look,
        access: &Access,
        budget: usize,
        patience: Patience,
    ) -> io::Result<Step> {
        let length = look.chains.get(&self.stem).copied().unwrap_or(0);
        if self.settled == Some(length) {
            return Ok(Step::Idle);
        }
        // Before the file is read: so the read finds everything that was written until then.
        let is_left = look.is_left(&self.stem);
        if let Some(step) = self.read_sidecar(look, budget)? {
            return Ok(step);
        }
        let log = look.logs.get(&self.stem);
        if let Some(log) = log
            && let Some(step) = self.next_lines(log, look, access, budget, patience)?
        {
            return Ok(step);
        }
        if !self.part.bytes.is_empty() {
            return Ok(Step::Ship(Portion {
                name: FileName::Chain(self.stem.clone()),
                offset: self.chain,
                before: self.part.before.clone(),
                bytes: self.part.bytes.clone(),
            }));
        }
        if self.is_ended() {
            return Ok(Step::Complete);
        }
        if is_left {
            // Nothing more comes, unless its sidecar grows.
            self.content = None;
            self.settled = Some(length);
        }
        Ok(Step::Idle)
    }

    /// Reads the entries behind those that the hub has.
    fn read_sidecar(&mut self, look: &Look, budget: usize) -> io::Result<Option<Step>> {
        let Some(&seen) = look.chains.get(&self.stem) else { return Ok(None) };
        let name = FileName::Chain(self.stem.clone());
        let path = look.path(&name);
        // It may have grown since the look, and more of it been shipped than there was then.
        let length = if seen < self.chain { std::fs::metadata(&path)?.len() } else { seen };
        if length < self.chain {
            return Ok(Some(Step::Shorter(name)));
        }
        if !self.part.bytes.is_empty() || self.is_ended() {
            return Ok(None);
        }
        if length == self.chain {
            if self.looked_at != length {
                self.end = sidecar::end_of_file(&path, length)?;
                self.looked_at = length;
                self.part.covered = self.part.covered.max(self.end.unwrap_or_default());
            }
            return Ok(None);
        }
        let covered = self.part.covered;
        self.part = sidecar::read(&path, self.chain, self.lines + budget as u64)?;
        self.part.covered = self.part.covered.max(covered);
        Ok(None)
    }

    fn next_lines(
        &mut self,
        log: &LogFile,
        look: &Look,
        access: &Access,
        budget: usize,
        patience: Patience,
    ) -> io::Result<Option<Step>> {
        if self.is_ended() || self.is_locked {
            return Ok(None);
        }
        let at_hub = self.lines;
        let opened = self.open(log, access);
        let Some(content) = (match opened {
            Err(error) if Locked::is(&error) => {
                self.is_locked = true;
                return Ok(None);
            }
            opened => opened?,
        }) else {
            return Ok(None);
        };
        if content.ends_before(at_hub)? {
            return Ok(Some(Step::Shorter(FileName::Lines(self.stem.clone()))));
        }
        let covered = self.part.covered;
        if self.lines < covered {
            let count = usize::try_from(covered - self.lines).unwrap_or(usize::MAX);
            // Up to the end of the frame: the few bytes behind a full body would cost another one.
            let most = (budget + budget / 4).min(BODY_BYTES_MAX);
            let count = if count <= most { count } else { budget };
            self.waiting_since = None;
            self.is_stalled = false;
            let portion = self.portion(log, access, count)?;
            // Bytes that a frame covers and that are not there: the file was cut. A recorder
            // declares that at its next batch.
            return Ok(Some(if portion.bytes.is_empty() {
                Step::Idle
            } else {
                Step::Ship(portion)
            }));
        }
        if !self.part.bytes.is_empty() {
            return Ok(None);
        }
        self.unsealed_lines(log, look, access, budget, patience)
    }

    /// Whole lines that no frame covers.
    fn unsealed_lines(
        &mut self,
        log: &LogFile,
        look: &Look,
        access: &Access,
        budget: usize,
        patience: Patience,
    ) -> io::Result<Option<Step>> {
        let end = match &self.content {
            Some(content) => content.whole_end()?,
            None => None,
        };
        let mut portion = match end {
            Some(end) if end <= self.lines => return Ok(self.no_lines()),
            Some(end) => {
                let count = usize::try_from(end - self.lines).unwrap_or(budget).min(budget);
                self.portion(log, access, count)?
            }
            None => self.portion(log, access, budget)?,
        };
        if let Some(newline) = portion.bytes.iter().rposition(|byte| *byte == b'\n') {
            portion.bytes.truncate(newline + 1);
        } else if portion.bytes.len() < budget {
            return Ok(self.no_lines());
        }
        let since = *self.waiting_since.get_or_insert_with(Instant::now);
        let is_unsealed_log = look.chains.is_empty();
        if self.is_stalled
            || is_unsealed_log
            || patience == Patience::None
            || since.elapsed() >= GRACE
        {
            self.is_stalled = true;
            return Ok(Some(Step::Ship(portion)));
        }
        let bytes = end.map_or(portion.bytes.len() as u64, |end| end - self.lines);
        Ok(Some(Step::Wait(bytes)))
    }

    fn no_lines(&mut self) -> Option<Step> {
        self.waiting_since = None;
        None
    }

    fn open(&mut self, log: &LogFile, access: &Access) -> io::Result<Option<&mut Content>> {
        if self.content.as_ref().is_some_and(|content| content.is_replaced(log)) {
            self.content = None;
        }
        if self.content.is_none() {
            match Content::open(log, access) {
                // Removed in the meantime.
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                content => self.content = Some(content?),
            }
        }
        Ok(self.content.as_mut())
    }

    /// Lines from the hub's end on, with what is before them.
    fn portion(&mut self, log: &LogFile, access: &Access, count: usize) -> io::Result<Portion> {
        let before = self.lines.min(BEFORE_BYTES);
        let before_count = usize::try_from(before).unwrap_or_default();
        let mut bytes = Vec::new();
        let from = self.lines - before;
        for _ in 0..2 {
            let Some(content) = self.open(log, access)? else { break };
            match content.read(from, before_count + count)? {
                Some(read) => {
                    bytes = read;
                    break;
                }
                // A packed file is read again from its start.
                None => self.content = None,
            }
        }
        let rest = bytes.split_off(before_count.min(bytes.len()));
        Ok(Portion {
            name: FileName::Lines(self.stem.clone()),
            offset: self.lines,
            before: bytes,
            bytes: rest,
        })
    }

    /// An empty portion: asks whether the hub has the same.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn probe(&mut self, look: &Look, access: &Access) -> io::Result<Option<Portion>> {
        let Some(log) = look.logs.get(&self.stem) else { return Ok(None) };
        match self.portion(log, access, 0) {
            Err(error) if Locked::is(&error) => Ok(None),
            portion => portion.map(Some),
        }
    }
}

#[cfg(test)]
mod tests;
