//! Verification of a log that grows: what was read is not read again.
//!
//! A [`Follower`] keeps the state behind the last entry whose lines are all there. Only that part
//! of the log is final. A report continues from a copy of the state to the end of the existing
//! bytes, so it says what [`super::verify`] says about the same directory at that moment.
//!
//! Files only grow, and the newest one with a sidecar is the one that grows. If an older file
//! changes, or one appears between others, everything is read again.

use std::collections::BTreeMap;
use std::io::{self, BufReader, Read};

use super::content::Content;
use super::missing::Memory;
use super::removed::Removed;
use super::walk::{Open, Place, Walk};
use super::{Directory, LOG_ENDINGS, Options, Parts, Report, list, newest_sidecar};
use crate::entry::CheckpointReason;
use crate::sidecar::{Entries, Meaning};
use crate::{REMOVED_FILE, SIDECAR_ENDING};

/// A log directory whose files only grow, at one moment.
pub trait GrowingDirectory: Directory {
    /// Length of a file, bytes; 0: it is not there.
    fn length(&self, name: &str) -> u64;

    /// A file from an offset on, up to its length.
    ///
    /// # Errors
    /// If it cannot be read.
    fn open_from(&self, name: &str, offset: u64) -> io::Result<Box<dyn Read + '_>>;
}

/// The state of a verification between two looks at a directory.
pub struct Follower {
    options: Options,
    memory: Memory,
    /// The newest file with a sidecar.
    current: Option<Current>,
    /// Lengths of the older files.
    done: BTreeMap<String, (u64, u64)>,
    removed: Removed,
    removed_bytes: Option<u64>,
    /// Lines of files without a sidecar.
    counted: BTreeMap<String, Counted>,
}

/// How far the newest sealed part of a log goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sealed {
    /// The file, without ending.
    pub stem: String,
    /// Bytes of it that frames cover.
    pub offset: u64,
    /// `seq` of the last line in them.
    pub seq: u64,
}

/// A file that is being read.
#[derive(Clone)]
struct Current {
    stem: String,
    first_seq: u64,
    /// The next entry in the sidecar: number of its line, and its offset.
    line: u64,
    bytes: u64,
    is_torn: bool,
    is_first_entry: bool,
    bad_frames: u64,
    signed: Option<CheckpointReason>,
    recovered: Option<(u64, u64)>,
    reading: Reading,
}

/// The lines of a file.
#[derive(Clone, Copy)]
enum Reading {
    /// Nothing was read yet.
    Begin,
    /// Read up to here.
    At { bytes: u64, lines: u64 },
    /// It is not read any more, because it was cut or cannot be read.
    End,
}

#[derive(Clone, Copy, Default)]
struct Counted {
    bytes: u64,
    lines: u64,
}

impl Follower {
    /// Nothing was read yet.
    #[must_use]
    pub fn new(options: Options) -> Self {
        Self {
            options,
            memory: Memory::following(),
            current: None,
            done: BTreeMap::new(),
            removed: Removed::default(),
            removed_bytes: None,
            counted: BTreeMap::new(),
        }
    }

    /// Reads what was appended. Returns whether everything had to be read again.
    ///
    /// # Errors
    /// If something cannot be read because of the machine. The next call reads everything again.
    pub fn advance(&mut self, directory: &dyn GrowingDirectory) -> io::Result<bool> {
        let result = self.try_advance(directory);
        if result.is_err() {
            *self = Self::new(std::mem::take(&mut self.options));
        }
        result
    }

    /// The state of the log as it is in the directory now. Reads only what is behind the state.
    ///
    /// # Errors
    /// If something cannot be read because of the machine.
    pub fn report(&mut self, directory: &dyn GrowingDirectory) -> io::Result<Report> {
        self.advance(directory)?;
        let names = directory.names()?;
        let stems = list(&names, &self.removed);
        let newest = stems.keys().next_back().cloned();
        let mut progress = |_| {};
        let memory = self.memory.clone();
        let mut walk = Walk::resume(directory, &self.options, &mut progress, memory);
        let first = self.current.as_ref().map(|current| current.stem.clone());
        let first = first.or_else(|| self.done.keys().next_back().map(|stem| format!("{stem}\0")));
        for (stem, parts) in stems.range(first.unwrap_or_default()..) {
            let place = Place { is_newest: newest.as_ref() == Some(stem), is_last_sealed: true };
            let current = self.current.clone().filter(|current| current.stem == *stem);
            match current {
                Some(mut current) if current.bytes > 0 => {
                    let mut open = current.read(&mut walk, directory, false)?;
                    current.close(&mut walk, &mut open, parts, place)?;
                }
                None if parts.has_log() && !parts.sidecar => {
                    let log = format!("{stem}.jsonl");
                    let lines =
                        count(self.counted.entry(stem.clone()).or_default(), directory, &log)?;
                    walk.unsealed_lines(&log, lines);
                }
                _ => {
                    walk.file(stem, parts, &self.removed, place)?;
                }
            }
        }
        for (stem, parts) in &stems {
            walk.check_order(stem, parts.has_log(), &self.removed);
        }
        walk.report_missing(&self.removed);
        self.removed.check(&mut walk);
        walk.strays(&names);
        Ok(walk.finish(&self.removed))
    }

    /// How far frames were compared with their lines.
    #[must_use]
    pub fn sealed(&self) -> Option<Sealed> {
        let before = self.memory.before.as_ref()?;
        let stem = before.file.trim_end_matches(".jsonl").to_owned();
        Some(Sealed { stem, offset: before.offset, seq: before.seq })
    }

    fn try_advance(&mut self, directory: &dyn GrowingDirectory) -> io::Result<bool> {
        let removed_bytes = directory.length(REMOVED_FILE);
        if self.removed_bytes != Some(removed_bytes) {
            self.removed = Removed::read(directory)?;
            self.removed_bytes = Some(removed_bytes);
        }
        let stems = list(&directory.names()?, &self.removed);
        let is_stale = self.is_stale(directory, &stems);
        if is_stale {
            self.memory = Memory::following();
            self.current = None;
            self.done.clear();
        }
        let Some(last_sealed) = newest_sidecar(&stems) else { return Ok(is_stale) };
        let mut progress = |_| {};
        let memory = std::mem::replace(&mut self.memory, Memory::following());
        let mut walk = Walk::resume(directory, &self.options, &mut progress, memory);
        let first = self.done.keys().next_back().map(|stem| format!("{stem}\0"));
        for (stem, parts) in stems.range(first.unwrap_or_default()..=last_sealed.clone()) {
            if *stem == last_sealed {
                let current = self.current.get_or_insert_with(|| Current::new(stem, &walk));
                let open = current.read(&mut walk, directory, true)?;
                current.keep(open);
                break;
            }
            let place = Place { is_newest: false, is_last_sealed: false };
            let mut current = self.current.take().unwrap_or_else(|| Current::new(stem, &walk));
            let has_entries = parts.sidecar && {
                let mut open = current.read(&mut walk, directory, false)?;
                if current.bytes > 0 {
                    current.close(&mut walk, &mut open, parts, place)?;
                }
                current.bytes > 0
            };
            if !has_entries {
                walk.file(stem, parts, &self.removed, place)?;
            }
            self.counted.remove(stem);
            self.done.insert(stem.clone(), lengths(directory, stem));
        }
        self.memory = walk.suspend();
        Ok(is_stale)
    }

    /// Whether something has changed that is not at the end.
    fn is_stale(&self, directory: &dyn GrowingDirectory, stems: &BTreeMap<String, Parts>) -> bool {
        let current = self.current.as_ref().map(|current| &current.stem);
        let Some(newest) = current.or_else(|| self.done.keys().next_back()) else { return false };
        let is_current = |stem: &String| current == Some(stem);
        stems.range(..=newest.clone()).any(|(stem, _)| {
            !is_current(stem) && self.done.get(stem) != Some(&lengths(directory, stem))
        })
    }
}

impl Current {
    fn new(stem: &str, walk: &Walk<'_>) -> Self {
        Self {
            stem: stem.to_owned(),
            first_seq: walk.last_seq().saturating_add(1),
            line: 1,
            bytes: 0,
            is_torn: false,
            is_first_entry: true,
            bad_frames: 0,
            signed: None,
            recovered: None,
            reading: Reading::Begin,
        }
    }

    fn log(&self) -> String {
        format!("{}.jsonl", self.stem)
    }

    /// Reads the entries that are whole. `waits`: only those whose lines are all there.
    fn read<'a>(
        &mut self,
        walk: &mut Walk<'_>,
        directory: &'a dyn GrowingDirectory,
        waits: bool,
    ) -> io::Result<Open<'a>> {
        let sidecar = format!("{}.{SIDECAR_ENDING}", self.stem);
        let lines_end = directory.length(&self.log());
        let source = BufReader::new(directory.open_from(&sidecar, self.bytes)?);
        let mut entries = Entries::resume(source, self.line, self.bytes);
        let mut open = self.open(directory, sidecar)?;
        if open.content.is_some() && matches!(self.reading, Reading::Begin) {
            self.reading = Reading::At { bytes: 0, lines: 0 };
        }
        self.is_torn = false;
        loop {
            let Some(entry) = entries.next_entry()? else {
                self.is_torn = entries.is_torn();
                break;
            };
            let frame_end = match &entry.meaning {
                Some(Meaning::Frame(frame)) => frame.end,
                _ => 0,
            };
            if waits && frame_end > lines_end {
                break;
            }
            (self.line, self.bytes) = (entries.line(), entries.whole_bytes());
            walk.next_entry(&mut open, &entry)?;
        }
        Ok(open)
    }

    fn open<'a>(
        &self,
        directory: &'a dyn GrowingDirectory,
        sidecar: String,
    ) -> io::Result<Open<'a>> {
        let log = self.log();
        let at = match self.reading {
            Reading::Begin => Some((0, 0)),
            Reading::At { bytes, lines } => Some((bytes, lines)),
            Reading::End => None,
        };
        let content: Option<io::Result<Content<'a>>> = at.map(|(bytes, lines)| {
            let source = directory.open_from(&log, bytes)?;
            Ok(Content::resume(source, bytes, lines))
        });
        let content = match content.transpose() {
            // It has not arrived yet.
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            content => content?,
        };
        Ok(Open {
            sidecar,
            log,
            content,
            is_first_entry: self.is_first_entry,
            bad_frames: self.bad_frames,
            signed: self.signed,
            recovered: self.recovered,
        })
    }

    /// Keeps the state until there is more.
    fn keep(&mut self, open: Open<'_>) {
        self.is_first_entry = open.is_first_entry;
        self.bad_frames = open.bad_frames;
        self.signed = open.signed;
        self.recovered = open.recovered;
        self.reading = match (open.content, self.reading) {
            (Some(content), _) => Reading::At { bytes: content.bytes, lines: content.lines },
            // The log file is not there yet, so no frame was read either.
            (None, Reading::Begin) => Reading::Begin,
            (None, _) => Reading::End,
        };
    }

    /// The end of the file.
    fn close(
        &self,
        walk: &mut Walk<'_>,
        open: &mut Open<'_>,
        parts: &Parts,
        place: Place,
    ) -> io::Result<()> {
        walk.close(open, self.is_torn, place);
        if !parts.has_log() {
            walk.note_missing(&self.stem, self.first_seq);
        }
        walk.tail(open, place.is_last_sealed)
    }
}

/// Counts the lines that were appended to a file without a sidecar. Returns all of them.
fn count(counted: &mut Counted, directory: &dyn GrowingDirectory, log: &str) -> io::Result<u64> {
    let mut content = Content::new(directory.open_from(log, counted.bytes)?);
    let (bytes, lines) = content.rest()?;
    counted.bytes += bytes;
    counted.lines += lines;
    Ok(counted.lines)
}

/// Lengths of a log file, in any form, and of its sidecar.
fn lengths(directory: &dyn GrowingDirectory, stem: &str) -> (u64, u64) {
    let length = |ending: &str| directory.length(&format!("{stem}.{ending}"));
    (LOG_ENDINGS.iter().map(|ending| length(ending)).sum(), length(SIDECAR_ENDING))
}
