//! Verification of a log that grows: what was read is not read again.
//!
//! A [`Follower`] keeps the state behind the last entry whose lines are all there. Only that part
//! of the log is final. A report continues from a copy of the state to the end of the existing
//! bytes, so it says what [`super::verify`] says about the same directory at that moment.
//!
//! Files only grow, and the newest one with a sidecar is the one that grows. If an older file
//! changes, or one appears between others, everything has to be read again: [`Follower::restart`].
//! Nothing else is read twice, except for what is bounded by a constant.

mod buried;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufReader, Read};

use super::content::Content;
use super::missing::Memory;
use super::removed::Removed;
use super::walk::{FileRank, Open, Walk};
use super::{Directory, Options, Parts, Report, note_name};
use crate::SIDECAR_ENDING;
use crate::entry::CheckpointReason;
use crate::sidecar::{Entries, Meaning};
use buried::{GONE, HUB_TOMBSTONES_MAX, lengths};

/// Tombstones of the recorder that are kept: each needs about 1 KiB of memory.
const TOMBSTONES_MAX: usize = 100_000;
/// A frame waits for its lines while no more than this is behind it in the sidecar, and no more
/// lines are there that it may cover: both are read for each report.
const WAIT_SIDECAR_BYTES: u64 = 1 << 20;
const WAIT_LINES_BYTES: u64 = 64 << 20;

/// A log directory whose files only grow, at one moment.
pub trait GrowingDirectory: Directory {
    /// Length of a file, bytes; 0: it is not there.
    fn length(&self, name: &str) -> u64;

    /// A file from an offset on, up to its length.
    ///
    /// # Errors
    /// If it cannot be read.
    fn open_from(&self, name: &str, offset: u64) -> io::Result<Box<dyn Read + '_>>;

    /// Files that are new or longer than at the last call of [`Follower::advance`]. More names do
    /// no harm.
    ///
    /// # Errors
    /// If it cannot be read.
    fn news(&self) -> io::Result<Vec<String>> {
        self.names()
    }
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
    /// Files that were read, and have a tombstone of a hub since.
    buried: BTreeSet<String>,
    tombstones_max: usize,
    /// All log files, sidecars and tombstones.
    stems: BTreeMap<String, Parts>,
    last_sealed: Option<String>,
    is_stale: bool,
    /// Lines of files that nothing seals.
    counted: BTreeMap<String, Counted>,
    /// Lines behind the entries of the current file.
    tail: Tail,
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
    /// The next entry waits for its lines.
    waits: bool,
    /// A frame was read without its lines, when the file had so many bytes.
    lines_missed_at: Option<u64>,
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

#[derive(Clone, Default)]
struct Tail {
    stem: String,
    from: u64,
    counted: Counted,
}

impl Follower {
    /// Nothing was read yet.
    #[must_use]
    pub fn new(options: Options) -> Self {
        Self {
            options,
            memory: Memory::default(),
            current: None,
            done: BTreeMap::new(),
            removed: Removed::default(),
            buried: BTreeSet::new(),
            tombstones_max: TOMBSTONES_MAX,
            stems: BTreeMap::new(),
            last_sealed: None,
            is_stale: false,
            counted: BTreeMap::new(),
            tail: Tail::default(),
        }
    }

    /// Forgets what was read. The next call of [`Follower::advance`] needs all names as news.
    pub fn restart(&mut self) {
        let tombstones_max = self.tombstones_max;
        *self = Self { tombstones_max, ..Self::new(std::mem::take(&mut self.options)) };
    }

    /// Keeps so many tombstones of the recorder, and counts those beyond.
    pub fn keep_tombstones(&mut self, most: usize) {
        self.tombstones_max = most;
    }

    /// Reads what was appended to the newest files. Returns whether an older file has changed:
    /// from then on reports do not see that, until [`Follower::restart`].
    ///
    /// # Errors
    /// If something cannot be read because of the machine. Then it is restarted.
    pub fn advance(&mut self, directory: &dyn GrowingDirectory) -> io::Result<bool> {
        let result = self.try_advance(directory);
        if result.is_err() {
            self.restart();
        }
        result.map(|()| self.is_stale)
    }

    /// Counts lines that nothing seals, which a report needs. Returns whether that is done; it is
    /// not if so many bytes are not enough.
    ///
    /// # Errors
    /// If something cannot be read because of the machine.
    pub fn prepare(&mut self, directory: &dyn GrowingDirectory, bytes: u64) -> io::Result<bool> {
        let mut left = bytes;
        if let Some((stem, from)) = self.current.as_ref().and_then(Current::tail) {
            if self.tail.stem != stem || self.tail.from != from {
                self.tail = Tail { stem: stem.to_owned(), from, counted: Counted::default() };
            }
            let log = format!("{stem}.jsonl");
            count(&mut self.tail.counted, directory, &log, from, &mut left)?;
        }
        let first = self.first_open();
        for (stem, parts) in self.stems.range(first..) {
            if is_unsealed(self.current.as_ref(), stem, parts) {
                let counted = self.counted.entry(stem.clone()).or_default();
                count(counted, directory, &format!("{stem}.jsonl"), 0, &mut left)?;
            }
            if left == 0 {
                return Ok(false);
            }
        }
        Ok(left > 0)
    }

    /// The state of the log as it is in the directory now. Reads only what is behind the state.
    ///
    /// # Errors
    /// If something cannot be read because of the machine.
    pub fn report(&mut self, directory: &dyn GrowingDirectory) -> io::Result<Report> {
        self.advance(directory)?;
        self.prepare(directory, u64::MAX)?;
        let names = directory.names()?;
        let newest = self.stems.keys().next_back();
        let mut progress = |_| {};
        let memory = self.memory.clone();
        let mut walk = Walk::resume(directory, &self.options, &mut progress, memory);
        for (stem, parts) in self.stems.range(self.first_open()..) {
            let place = FileRank { is_newest: newest == Some(stem), is_last_sealed: true };
            let current = self.current.as_ref().filter(|current| current.stem == *stem);
            if is_unsealed(self.current.as_ref(), stem, parts) {
                if parts.sidecar {
                    walk.no_entry(&format!("{stem}.{SIDECAR_ENDING}"), place);
                }
                let lines = self.counted.get(stem).map_or(0, |counted| counted.lines);
                walk.unsealed_lines(&format!("{stem}.jsonl"), lines);
            } else if let Some(current) = current.filter(|current| current.bytes > 0) {
                let mut current = current.clone();
                let mut open = current.read(&mut walk, directory, false)?;
                let tail = self.tail_of(stem, &open);
                current.close(&mut walk, &mut open, parts, place, tail)?;
            } else {
                walk.file(stem, parts, &self.removed, place)?;
            }
        }
        for (stem, parts) in &self.stems {
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

    /// The first file that is not final.
    fn first_open(&self) -> String {
        let first = self.current.as_ref().map(|current| current.stem.clone());
        let first = first.or_else(|| self.done.keys().next_back().map(|stem| format!("{stem}\0")));
        first.unwrap_or_default()
    }

    fn tail_of(&self, stem: &str, open: &Open<'_>) -> Option<(u64, u64)> {
        let from = open.content.as_ref()?.bytes;
        let Tail { stem: counted_stem, from: counted_from, counted } = &self.tail;
        let is_it = counted_stem == stem && *counted_from == from;
        is_it.then_some((counted.bytes, counted.lines))
    }

    fn try_advance(&mut self, directory: &dyn GrowingDirectory) -> io::Result<()> {
        self.note_news(directory)?;
        let Some(last_sealed) = &self.last_sealed else { return Ok(()) };
        let mut progress = |_| {};
        let memory = std::mem::take(&mut self.memory);
        let mut walk = Walk::resume(directory, &self.options, &mut progress, memory);
        let first = self.done.keys().next_back().map(|stem| format!("{stem}\0"));
        for (stem, parts) in self.stems.range(first.unwrap_or_default()..=last_sealed.clone()) {
            if stem == last_sealed {
                let current = self.current.get_or_insert_with(|| Current::new(stem, &walk));
                let open = current.read(&mut walk, directory, true)?;
                current.keep(open);
                break;
            }
            let place = FileRank { is_newest: false, is_last_sealed: false };
            let mut current = self.current.take().unwrap_or_else(|| Current::new(stem, &walk));
            let has_entries = parts.sidecar && {
                let mut open = current.read(&mut walk, directory, false)?;
                if current.bytes > 0 {
                    current.close(&mut walk, &mut open, parts, place, None)?;
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
        Ok(())
    }

    /// Notes new files and tombstones, and whether something has changed that is not at the end.
    fn note_news(&mut self, directory: &dyn GrowingDirectory) -> io::Result<()> {
        if self.removed.is_cut(directory) {
            self.removed = Removed::default();
            self.is_stale = true;
        }
        let newest = self.current.as_ref().map(|current| current.stem.clone());
        let is_current = |stem: &str| newest.as_deref() == Some(stem);
        let newest_final = self.done.keys().next_back().cloned();
        let last = newest.as_ref().or(newest_final.as_ref());
        let is_old = |stem: &str| last.is_some_and(|last| stem <= last.as_str());
        let is_changed = |stem: &str| {
            is_old(stem)
                && !is_current(stem)
                && self.done.get(stem) != Some(&lengths(directory, stem))
        };
        let (stems, is_stale) = (&mut self.stems, &mut self.is_stale);
        let (done, buried) = (&self.done, &mut self.buried);
        let most = (self.tombstones_max, HUB_TOMBSTONES_MAX);
        self.removed.read_on(directory, most, &mut |stem, gone| {
            stems.entry(stem.to_owned()).or_default();
            // A hub removes what was read, or has removed it already.
            let is_buried = gone.reason.is_none() && done.contains_key(stem);
            *is_stale |= is_changed(stem) && !(is_buried && lengths(directory, stem) == GONE);
            buried.extend(is_buried.then(|| stem.to_owned()));
        })?;
        for name in directory.news()? {
            let Some(stem) = note_name(stems, &name) else { continue };
            *is_stale |= is_changed(stem);
            if name.ends_with(SIDECAR_ENDING) && self.last_sealed.as_deref() < Some(stem) {
                self.last_sealed = Some(stem.to_owned());
            }
        }
        if let Some(current) = &self.current
            && let Some(bytes) = current.lines_missed_at
        {
            *is_stale |= directory.length(&current.log()) > bytes;
        }
        self.forget_buried(directory);
        Ok(())
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
            waits: false,
            lines_missed_at: None,
        }
    }

    fn log(&self) -> String {
        format!("{}.jsonl", self.stem)
    }

    /// Its name, and where the part begins that no entry covers.
    fn tail(&self) -> Option<(&str, u64)> {
        match self.reading {
            Reading::At { bytes, .. } if self.bytes > 0 => Some((&self.stem, bytes)),
            _ => None,
        }
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
        (self.is_torn, self.waits) = (false, false);
        let sidecar_end = directory.length(&open.sidecar);
        loop {
            let Some(entry) = entries.next_entry()? else {
                self.is_torn = entries.is_torn();
                break;
            };
            let frame_end = match &entry.meaning {
                Some(Meaning::Frame(frame)) => frame.end,
                _ => 0,
            };
            if frame_end > lines_end {
                let lines = lines_end
                    .saturating_sub(open.content.as_ref().map_or(0, |content| content.bytes));
                self.waits = waits
                    && sidecar_end.saturating_sub(self.bytes) <= WAIT_SIDECAR_BYTES
                    && lines <= WAIT_LINES_BYTES;
                if self.waits {
                    break;
                }
                self.lines_missed_at = Some(lines_end);
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
        place: FileRank,
        tail: Option<(u64, u64)>,
    ) -> io::Result<()> {
        walk.close(open, self.is_torn, place);
        if !parts.has_log() {
            walk.note_missing(&self.stem, self.first_seq);
        }
        walk.tail(open, place.is_last_sealed, tail)
    }
}

/// Whether nothing seals a log file that is not final.
fn is_unsealed(current: Option<&Current>, stem: &str, parts: &Parts) -> bool {
    let current = current.filter(|current| current.stem == *stem);
    let has_entry = current.is_some_and(|current| current.bytes > 0 || current.waits);
    parts.has_log() && !has_entry
}

/// Counts more of the lines of a file from an offset on, `left` bytes at most.
fn count(
    counted: &mut Counted,
    directory: &dyn GrowingDirectory,
    log: &str,
    from: u64,
    left: &mut u64,
) -> io::Result<()> {
    let at = from + counted.bytes;
    if directory.length(log) <= at {
        return Ok(());
    }
    let mut content = Content::new(Box::new(directory.open_from(log, at)?.take(*left)));
    let (bytes, lines) = content.rest()?;
    counted.bytes += bytes;
    counted.lines += lines;
    *left -= bytes;
    Ok(())
}
