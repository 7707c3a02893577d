//! Files beside the arena, for fragments of records that are larger than the free part of the
//! arena.
//!
//! Such a record can only arrive if its beginning makes room for its end, before its line can be
//! written. If the writer kept that beginning only in memory, it would be lost with the writer. So
//! the writer first copies it here, and then recycles its chunks.
//!
//! A file of the spill exists while it has a record that is in no line of the log. A new file is
//! begun when the current one is large, so that one slow client does not keep the texts of all
//! others. Its name is the arena's with a number and the ending `annex`; its mode and owner are the
//! arena's, because it has the same content: raw texts, secrets included. Records follow each
//! other, byte for byte as in their chunks, so the mark in a record's header (`line_seq`) has the
//! same meaning here: the line of the record. A fragment that a dying writer had not finished is at
//! the end of a file, and still in the arena: only the writer that began a file appends to it.
//!
//! Only the writer, which holds the lock of the log, changes these files.

use std::fs::File;
use std::io;
use std::mem::offset_of;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tacho_logdir::private_file;
use tacho_ring::arena::Arena;
use tacho_ring::layout::{RECORD_ALIGN, RECORD_HEADER_BYTES, RecordHeader};

use crate::arena_error::{ArenaError, io_error, refused};
use crate::record_ref::{Ref, SPILL};

/// Ending of the files' names.
pub const ENDING: &str = "annex";

/// How many taken names are skipped before a file is given up.
const LEAPS_MAX: u32 = 64;

/// A file of this size is not continued.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// An arena to read, with its spill.
#[derive(Clone)]
pub struct ArenaSource {
    pub(crate) arena: Arena,
    pub(crate) spill: Spill,
}

impl ArenaSource {
    /// An arena in a file. The caller holds the lock of the log, or only reads.
    ///
    /// # Errors
    /// A file of the spill cannot be read: the log must not continue as if the file did not exist.
    pub fn open(arena: Arena, path: &Path) -> Result<ArenaSource, ArenaError> {
        Ok(ArenaSource { arena, spill: Spill::open(path, arena.geometry().chunk_bytes)? })
    }

    /// The same without reading the spill, which is empty.
    pub(crate) fn empty(arena: Arena, path: &Path) -> ArenaSource {
        ArenaSource { arena, spill: Spill::empty(path, arena.geometry().chunk_bytes) }
    }
}

/// Without a spill: such fragments stay in the writer's memory.
impl From<Arena> for ArenaSource {
    fn from(arena: Arena) -> ArenaSource {
        ArenaSource { arena, spill: Spill::default() }
    }
}

/// One file of the spill.
#[derive(Clone)]
struct Part {
    number: u32,
    path: PathBuf,
    file: Arc<File>,
    /// End of its records, bytes.
    end: u64,
    /// Records that are in no line yet.
    unsettled: u32,
    /// Highest `seq` of a line that one of its records went into.
    max_seq: u64,
}

/// The spill of one arena, see the module documentation.
#[derive(Clone, Default)]
pub(crate) struct Spill {
    /// Path of the arena; `None`: there is no place for a spill.
    arena: Option<PathBuf>,
    record_bytes_max: u32,
    parts: Vec<Part>,
    /// The file that is being written.
    open: Option<u32>,
    next_number: u32,
    /// Records of earlier writers that were not reported yet; the last one first.
    unread: Vec<Ref>,
    damaged: u64,
    error: Option<Arc<ArenaError>>,
}

impl Spill {
    fn empty(arena: &Path, record_bytes_max: u32) -> Spill {
        Spill { arena: Some(arena.to_owned()), record_bytes_max, ..Spill::default() }
    }

    fn open(arena: &Path, record_bytes_max: u32) -> Result<Spill, ArenaError> {
        Spill::of(arena, record_bytes_max, files(arena)?)
    }

    fn of(
        arena: &Path,
        record_bytes_max: u32,
        listed: Vec<(u32, PathBuf)>,
    ) -> Result<Spill, ArenaError> {
        let mut spill = Spill::empty(arena, record_bytes_max);
        for (number, path) in listed {
            if let Err(error) = spill.take_up(number, &path) {
                // All users may write to the directory, and the content of a spill is trusted.
                match error {
                    ArenaError::Foreign { .. } => {}
                    // The file was removed after it was listed: other users may remove their own
                    // files.
                    ArenaError::Io { ref source, .. }
                        if source.kind() == io::ErrorKind::NotFound => {}
                    ArenaError::Planted { .. } => spill.error = Some(Arc::new(error)),
                    error => return Err(error),
                }
            }
        }
        spill.unread.reverse();
        Ok(spill)
    }

    fn take_up(&mut self, number: u32, path: &Path) -> Result<(), ArenaError> {
        let action = "opening the annex of the arena";
        let file = private_file::open(path).map_err(|refusal| refused(action, path, refusal))?;
        let metadata = file.metadata().map_err(io_error(action, path))?;
        let file_bytes = metadata.size();
        let mut end = 0;
        loop {
            let action = "reading the annex of the arena";
            let found = self.record_at(&file, end, file_bytes).map_err(io_error(action, path))?;
            let Some(bytes) = found else { break };
            let (chunk, position) = (SPILL | number, (end / RECORD_ALIGN as u64) as u32);
            self.unread.push(Ref { chunk, position, bytes });
            end += u64::from(bytes);
        }
        self.next_number = self.next_number.max(number.saturating_add(1));
        let (path, file) = (path.to_owned(), Arc::new(file));
        self.parts.push(Part { number, path, file, end, unsettled: 0, max_seq: 0 });
        Ok(())
    }

    /// Size of the record at `offset`; `None`: the file ends there or inside the record.
    fn record_at(&mut self, file: &File, offset: u64, file_bytes: u64) -> io::Result<Option<u32>> {
        if offset + RECORD_HEADER_BYTES as u64 > file_bytes {
            return Ok(None);
        }
        let mut word = [0; size_of::<u32>()];
        file.read_exact_at(&mut word, offset)?;
        let bytes = u32::from_le_bytes(word);
        if !self.may_be_size(bytes) || u32::try_from(offset / RECORD_ALIGN as u64).is_err() {
            self.damaged += 1;
            return Ok(None);
        }
        Ok((offset + u64::from(bytes) <= file_bytes).then_some(bytes))
    }

    fn may_be_size(&self, bytes: u32) -> bool {
        let range = RECORD_HEADER_BYTES as u32..=self.record_bytes_max;
        range.contains(&bytes) && bytes.is_multiple_of(RECORD_ALIGN as u32)
    }

    /// The next of the records that were in it when it was opened.
    #[cold]
    #[inline(never)]
    pub(crate) fn next(&mut self) -> Option<Ref> {
        let at = self.unread.pop()?;
        if let Some(part) = self.part_mut(at) {
            part.unsettled += 1;
        }
        Some(at)
    }

    /// Appends a record. `None`: there is no space.
    #[cold]
    #[inline(never)]
    pub(crate) fn append(&mut self, record: &[u8]) -> Option<Ref> {
        let bytes = u32::from_le_bytes(*record.first_chunk()?);
        if !self.may_be_size(bytes) || bytes as usize != record.len() {
            return None;
        }
        let place = match self.open.and_then(|n| self.parts.iter().position(|p| p.number == n)) {
            Some(place) => place,
            None => self.begin_part()?,
        };
        let part = self.parts.get_mut(place)?;
        if let Err(source) = part.file.write_all_at(record, part.end) {
            // A part of the record may be in the file, and nothing may follow it.
            self.open = None;
            let error = io_error("writing the annex of the arena", &part.path)(source);
            self.error = Some(Arc::new(error));
            return None;
        }
        let position = (part.end / RECORD_ALIGN as u64) as u32;
        part.end += u64::from(bytes);
        part.unsettled += 1;
        let chunk = SPILL | part.number;
        if part.end >= FILE_BYTES_MAX {
            self.open = None;
        }
        Some(Ref { chunk, position, bytes })
    }

    fn begin_part(&mut self) -> Option<usize> {
        let mut leaps = 0;
        let (number, path, file) = loop {
            let number = self.next_number;
            let path = part_path(self.arena.as_ref()?, number);
            // Not again with a name that is taken.
            self.next_number = number.saturating_add(1);
            let made = match number < SPILL {
                true => private_file::create(&path),
                false => Err(io::ErrorKind::FileTooLarge.into()),
            };
            match made {
                Ok(file) => break (number, path, Arc::new(file)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && leaps < LEAPS_MAX => {
                    leaps += 1;
                    self.next_number = number.saturating_add(leap());
                }
                Err(source) => {
                    let error = io_error("making the annex of the arena", &path)(source);
                    self.error = Some(Arc::new(error));
                    return None;
                }
            }
        };
        self.open = Some(number);
        self.parts.push(Part { number, path, file, end: 0, unsettled: 0, max_seq: 0 });
        Some(self.parts.len() - 1)
    }

    fn part(&self, at: Ref) -> Option<&Part> {
        self.parts.iter().find(|part| at.chunk == SPILL | part.number)
    }

    fn part_mut(&mut self, at: Ref) -> Option<&mut Part> {
        self.parts.iter_mut().find(|part| at.chunk == SPILL | part.number)
    }

    /// Copies a record into `buffer`.
    #[cold]
    #[inline(never)]
    pub(crate) fn fetch<'b>(&self, at: Ref, buffer: &'b mut [u8]) -> Option<&'b [u8]> {
        let to = buffer.get_mut(..at.bytes as usize)?;
        // The reader counts records that cannot be read as damaged.
        self.part(at)?.file.read_exact_at(to, at.offset()).ok()?;
        Some(to)
    }

    /// Removes a malformed record from the counts.
    pub(crate) fn forget(&mut self, at: Ref) {
        if let Some(part) = self.part_mut(at) {
            part.unsettled = part.unsettled.saturating_sub(1);
        }
    }

    /// A record became part of line `seq`.
    #[cold]
    #[inline(never)]
    pub(crate) fn settle(&mut self, at: Ref, seq: u64) {
        if let Err(error) = self.mark(at, seq) {
            // Its line is written nevertheless.
            self.error = Some(Arc::new(error));
        }
        if let Some(part) = self.part_mut(at) {
            part.unsettled = part.unsettled.saturating_sub(1);
            part.max_seq = part.max_seq.max(seq);
        }
    }

    /// Writes the mark of a record.
    ///
    /// # Errors
    /// The record keeps its old mark.
    #[cold]
    #[inline(never)]
    pub(crate) fn mark(&self, at: Ref, seq: u64) -> Result<(), ArenaError> {
        let Some(part) = self.part(at) else { return Ok(()) };
        let mark_at = at.offset() + offset_of!(RecordHeader, line_seq) as u64;
        let marked = part.file.write_all_at(&seq.to_le_bytes(), mark_at);
        marked.map_err(io_error("marking a record in the annex of the arena", &part.path))
    }

    /// Removes records that are in lines up to `written_seq`, file by file.
    #[inline]
    pub(crate) fn remove_written(&mut self, written_seq: u64) {
        if !self.parts.is_empty() && self.unread.is_empty() {
            self.remove_parts(written_seq);
        }
    }

    #[cold]
    #[inline(never)]
    fn remove_parts(&mut self, written_seq: u64) {
        let Spill { parts, open, error, .. } = self;
        parts.retain(|part| {
            if part.unsettled > 0 || part.max_seq > written_seq {
                return true;
            }
            // Never continued: this writer does not retry a removal that failed.
            *open = open.filter(|number| *number != part.number);
            if let Err(failed) = remove(&part.path) {
                *error = Some(Arc::new(failed));
            }
            false
        });
    }

    /// Number of files that are malformed from some place on, since the last call.
    pub(crate) fn take_damaged(&mut self) -> u64 {
        std::mem::take(&mut self.damaged)
    }

    /// The error since the last call.
    pub(crate) fn take_error(&mut self) -> Option<Arc<ArenaError>> {
        self.error.take()
    }
}

/// How many numbers to skip if another user has taken a name: following numbers may also be taken,
/// but unpredictable ones cannot. At least 1.
fn leap() -> u32 {
    let mut random = [0; 2];
    // Without entropy, the next number.
    getrandom::fill(&mut random).map_or(1, |()| u32::from(u16::from_le_bytes(random)) + 1)
}

fn part_path(arena: &Path, number: u32) -> PathBuf {
    arena.with_extension(format!("{number}.{ENDING}"))
}

/// The files of the annex of the arena at `path`, with their numbers, the oldest first.
///
/// # Errors
/// The directory cannot be listed.
pub fn files(arena: &Path) -> Result<Vec<(u32, PathBuf)>, ArenaError> {
    let (Some(directory), Some(stem)) = (arena.parent(), arena.file_stem()) else {
        return Ok(Vec::new());
    };
    // The parent of a bare name is an empty path.
    let directory = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
    let listing = || io_error("listing", directory);
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(listing())? {
        let path = entry.map_err(listing())?.path();
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
        let rest = stem.to_str().and_then(|stem| name.strip_prefix(stem)?.strip_prefix('.'));
        let number = rest.and_then(|rest| rest.strip_suffix(ENDING)?.strip_suffix('.'));
        if let Some(number) = number.and_then(|number| number.parse().ok())
            && number < SPILL
            // Only the canonical spelling of the number.
            && path.file_name() == part_path(arena, number).file_name()
        {
            found.push((number, path));
        }
    }
    found.sort_unstable();
    Ok(found)
}

/// Removes the whole spill of an arena.
///
/// # Errors
/// Some of it cannot be removed. Files of other users are left alone.
pub fn remove_all(arena: &Path) -> Result<(), ArenaError> {
    let mut removed = Ok(());
    for (_, path) in files(arena)? {
        if path.symlink_metadata().is_ok_and(|found| found.uid() != private_file::user_id()) {
            continue;
        }
        // Continues after a failure.
        removed = removed.and(remove(&path));
    }
    removed
}

fn remove(path: &Path) -> Result<(), ArenaError> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(io_error("removing the annex of the arena", path)(error))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
