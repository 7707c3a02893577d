//! Files beside the arena, for the pieces of records that are larger than what is free in the arena.
//!
//! Such a record can only come in if its beginning makes room for its end, before its line can be
//! written. If the writer had that beginning in its memory alone, it would be lost with the writer. So
//! it goes here first, and then its chunks are given back.
//!
//! A file of the spill is there for as long as something in it is in no line of the log; a new one is begun
//! when it is large, so that one slow client does not keep the texts of all others. Its name is the arena's with
//! a number and the ending `annex`; its mode and owner are the arena's, because it holds what the arena holds: texts as they
//! came, secrets included. It is one record after the other, byte for byte as they were in their chunks, so
//! that the mark in a record's header (`line_seq`) says here what it says there: which line it went into.
//! What a dying writer had not finished is at the end of a file, and still in the arena: nobody but who has begun a
//! file puts something into it.
//!
//! Only the writer, who has the lock of the log, changes anything here.

use std::fs::File;
use std::io;
use std::mem::offset_of;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tacho_logdir::private_file;
use tacho_ring::arena::Arena;
use tacho_ring::layout::{RECORD_ALIGN, RECORD_HEADER_BYTES, RecordHeader};

use crate::arena_file::{ArenaError, ArenaFile, io_error, refused};
use crate::drain::Ref;

/// Ending of the files' names.
pub const ENDING: &str = "annex";

/// In the index of a chunk: the record is in the spill, in the file with the number that is the rest.
const SPILL: u32 = 1 << 31;

/// How many names may be taken before a file is given up.
const LEAPS_MAX: u32 = 64;

/// A file is not gone on with when it is as large as this.
const FILE_BYTES_MAX: u64 = 16 << 20;

impl Ref {
    /// Whether the record is in the spill. Its position is counted in units of [`RECORD_ALIGN`] there.
    #[inline]
    pub(crate) fn is_spilled(&self) -> bool {
        self.chunk & SPILL != 0
    }

    fn offset(&self) -> u64 {
        u64::from(self.position) * RECORD_ALIGN as u64
    }
}

/// An arena to be read, with what is in its spill.
#[derive(Clone)]
pub struct ArenaSource {
    pub(crate) arena: Arena,
    pub(crate) spill: Spill,
}

impl ArenaSource {
    /// An arena that is a file. Whoever calls this has the lock of the log, or only looks.
    ///
    /// # Errors
    /// Something is in its spill that cannot be read: nobody may go on as if it were not there.
    pub fn open(arena: Arena, path: &Path) -> Result<ArenaSource, ArenaError> {
        Ok(ArenaSource { arena, spill: Spill::open(path, arena.geometry().chunk_bytes)? })
    }

    /// An arena that was just made: nothing is in its spill.
    #[must_use]
    pub fn of_new(made: &ArenaFile) -> ArenaSource {
        let arena = made.arena();
        ArenaSource { arena, spill: Spill::empty(made.path(), arena.geometry().chunk_bytes) }
    }
}

/// Without a spill: what would be there is in the writer's memory.
impl From<Arena> for ArenaSource {
    fn from(arena: Arena) -> ArenaSource {
        ArenaSource { arena, spill: Spill::default() }
    }
}

/// One file.
#[derive(Clone)]
struct Part {
    number: u32,
    path: PathBuf,
    file: Arc<File>,
    /// Where its records end, bytes.
    end: u64,
    /// Records that are in no line yet.
    unsettled: u32,
    /// Highest `seq` of a line that one of its records went into.
    max_seq: u64,
}

/// See the module documentation.
#[derive(Clone, Default)]
pub(crate) struct Spill {
    /// Where the arena is; `None`: there is no place for a spill.
    arena: Option<PathBuf>,
    record_bytes_max: u32,
    parts: Vec<Part>,
    /// The one that is gone on with.
    open: Option<u32>,
    next_number: u32,
    /// What was there before, and was not told of yet; the last one first.
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
                // The directory may be open to everybody, and what is in here is believed.
                match error {
                    ArenaError::Foreign { .. } => {}
                    // What was there when it was listed is gone: others may remove their own.
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

    /// Size of the record at `offset`; `None`: the file ends there, or within it.
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

    /// Puts a record at the end. `None`: it has no room.
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
            // A part of it may be there, and nothing must come behind that.
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
            // Not again where something is in the way.
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
        // What cannot be read is counted as damaged by who wants it.
        self.part(at)?.file.read_exact_at(to, at.offset()).ok()?;
        Some(to)
    }

    /// A record is not needed, and makes no sense.
    pub(crate) fn forget(&mut self, at: Ref) {
        if let Some(part) = self.part_mut(at) {
            part.unsettled = part.unsettled.saturating_sub(1);
        }
    }

    /// A record went into line `seq`.
    #[cold]
    #[inline(never)]
    pub(crate) fn settle(&mut self, at: Ref, seq: u64) {
        if let Err(error) = self.mark(at, seq) {
            // Its line is written all the same.
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
    /// It has its old one.
    #[cold]
    #[inline(never)]
    pub(crate) fn mark(&self, at: Ref, seq: u64) -> Result<(), ArenaError> {
        let Some(part) = self.part(at) else { return Ok(()) };
        let mark_at = at.offset() + offset_of!(RecordHeader, line_seq) as u64;
        let marked = part.file.write_all_at(&seq.to_le_bytes(), mark_at);
        marked.map_err(io_error("marking a record in the annex of the arena", &part.path))
    }

    /// Removes what is in lines up to `written_seq`, file by file.
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
            // Never gone on with: what failed to be removed is not looked at again by this writer.
            *open = open.filter(|number| *number != part.number);
            if let Err(failed) = remove(&part.path) {
                *error = Some(Arc::new(failed));
            }
            false
        });
    }

    /// Files that make no sense from some place on, since the last call.
    pub(crate) fn take_damaged(&mut self) -> u64 {
        std::mem::take(&mut self.damaged)
    }

    /// What went wrong since the last call.
    pub(crate) fn take_error(&mut self) -> Option<Arc<ArenaError>> {
        self.error.take()
    }
}

/// How far to go on where another user has taken a name: the numbers that follow may be taken, too, but not
/// those that nobody knows beforehand. At least 1.
fn leap() -> u32 {
    let mut random = [0; 2];
    // Without entropy it is the next number.
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
            // Not another way to write it.
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
/// Some of it cannot be removed. What belongs to other users is left alone.
pub fn remove_all(arena: &Path) -> Result<(), ArenaError> {
    let mut removed = Ok(());
    for (_, path) in files(arena)? {
        if path.symlink_metadata().is_ok_and(|found| found.uid() != private_file::user_id()) {
            continue;
        }
        // All of them, whatever becomes of one.
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
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const RECORD_BYTES_MAX: u32 = 4_096;

    fn record(mark: u8, bytes: u32) -> Vec<u8> {
        let mut record = vec![mark; bytes as usize];
        record[..4].copy_from_slice(&bytes.to_le_bytes());
        record[8..16].fill(0);
        record
    }

    /// As a version before 0.2 has left it.
    fn write(path: &Path, bytes: &[u8]) {
        std::fs::write(path, bytes).unwrap();
        std::fs::set_permissions(path, Permissions::from_mode(0o600)).unwrap();
    }

    fn open(arena: &Path) -> Spill {
        Spill::open(arena, RECORD_BYTES_MAX).unwrap()
    }

    /// Another user who makes and removes files must not keep anybody from the arena.
    #[test]
    fn what_is_gone_again_is_passed_over() {
        let dir = tempfile::tempdir().unwrap();
        let arena = dir.path().join("tacho-1.arena");
        let kept = record(b'a', 128);
        write(&part_path(&arena, 2), &kept);
        let listed = [1, 2].map(|number| (number, part_path(&arena, number))).to_vec();
        let mut spill = Spill::of(&arena, RECORD_BYTES_MAX, listed).unwrap();
        assert_eq!(all(&mut spill), [kept]);
        assert!(spill.take_error().is_none());
    }

    fn all(spill: &mut Spill) -> Vec<Vec<u8>> {
        let mut found = Vec::new();
        while let Some(at) = spill.next() {
            let mut buffer = vec![0; at.bytes as usize];
            found.push(spill.fetch(at, &mut buffer).expect("reads").to_vec());
        }
        found
    }

    fn count(arena: &Path) -> usize {
        files(arena).unwrap().len()
    }

    #[test]
    fn the_next_writer_finds_what_is_in_no_line() {
        let dir = tempfile::tempdir().unwrap();
        let arena = dir.path().join("tacho-1.arena");
        let mut spill = open(&arena);
        let (first, second) = (record(b'a', 128), record(b'b', RECORD_BYTES_MAX));
        let at = [spill.append(&first).unwrap(), spill.append(&second).unwrap()];
        // It dies, and its successor goes on in a file of its own.
        drop(spill);
        let mut spill = open(&arena);
        assert_eq!(all(&mut spill), [first, second]);
        let more = spill.append(&record(b'c', 64)).unwrap();
        assert_eq!(count(&arena), 2);
        spill.settle(at[0], 5);
        spill.settle(more, 6);
        spill.remove_written(5);
        assert_eq!(count(&arena), 2, "one has a record in no line, the other's is not written");
        spill.settle(at[1], 7);
        spill.remove_written(6);
        assert_eq!(count(&arena), 1, "its line is not written");
        drop(spill);
        let mut spill = open(&arena);
        let marks: Vec<_> = all(&mut spill).iter().map(|record| record[8]).collect();
        assert_eq!(marks, [5, 7]);
        spill.settle(at[0], 5);
        spill.settle(at[1], 7);
        spill.remove_written(7);
        assert_eq!(count(&arena), 0);
        assert!(spill.append(&record(b'd', 64)).is_some(), "there is a next time");
        assert_eq!(count(&arena), 1);
        assert!(spill.take_error().is_none() && spill.take_damaged() == 0);
        remove_all(&arena).unwrap();
        assert_eq!(count(&arena), 0);
    }

    #[test]
    fn one_slow_record_does_not_keep_all_others() {
        let dir = tempfile::tempdir().unwrap();
        let arena = dir.path().join("tacho-1.arena");
        let mut spill = open(&arena);
        let slow = spill.append(&record(b's', 64)).unwrap();
        for seq in 1..=4 * FILE_BYTES_MAX / u64::from(RECORD_BYTES_MAX) {
            let at = spill.append(&record(b'a', RECORD_BYTES_MAX)).unwrap();
            spill.settle(at, seq);
            spill.remove_written(seq);
            assert!(count(&arena) <= 2);
        }
        let mut buffer = [0; 64];
        assert_eq!(spill.fetch(slow, &mut buffer).unwrap(), record(b's', 64));
    }

    #[test]
    fn what_a_dying_writer_had_begun_is_not_read() {
        let dir = tempfile::tempdir().unwrap();
        let arena = dir.path().join("tacho-1.arena");
        let whole = record(b'a', 256);
        for torn_bytes in [0, 1, 4, 63, 64, 100, 1_023] {
            let mut bytes = whole.clone();
            bytes.extend_from_slice(&record(b'b', 1_024)[..torn_bytes]);
            write(&part_path(&arena, 0), &bytes);
            let mut spill = open(&arena);
            assert_eq!(all(&mut spill), std::slice::from_ref(&whole));
            let next = record(b'c', 64);
            assert!(spill.append(&next).is_some());
            assert!(spill.take_error().is_none() && spill.take_damaged() == 0);
            drop(spill);
            assert_eq!(all(&mut open(&arena)), [whole.clone(), next]);
            remove_all(&arena).unwrap();
        }
    }

    #[test]
    fn what_cannot_be_written_is_not_there() {
        let dir = tempfile::tempdir().unwrap();
        let gone = dir.path().join("gone");
        std::fs::create_dir(&gone).unwrap();
        let arena = gone.join("tacho-1.arena");
        let mut spill = open(&arena);
        std::fs::remove_dir(&gone).unwrap();
        assert!(spill.append(&record(b'a', 64)).is_none());
        let error = spill.take_error().unwrap().to_string();
        assert!(error.contains("making") && error.contains("tacho-1.0.annex"), "{error}");
        // Not every arena has a place for it.
        let mut none = Spill { record_bytes_max: RECORD_BYTES_MAX, ..Spill::default() };
        assert!(none.append(&record(b'a', 64)).is_none() && none.take_error().is_none());
    }

    /// The names that follow are known to everybody who can list the directory.
    #[test]
    fn names_that_others_took_do_not_keep_a_record_out() {
        let dir = tempfile::tempdir().unwrap();
        let arena = dir.path().join("tacho-1.arena");
        let mut spill = open(&arena);
        for number in 0..5_000 {
            std::fs::create_dir(part_path(&arena, number)).unwrap();
        }
        let at = spill.append(&record(b'a', 64)).unwrap();
        assert!(spill.take_error().is_none());
        let mut buffer = [0; 64];
        assert_eq!(spill.fetch(at, &mut buffer).unwrap(), record(b'a', 64));
        drop(spill);
        assert_eq!(all(&mut open(&arena)), [record(b'a', 64)]);
    }

    #[test]
    fn what_others_put_there_is_neither_read_nor_written() {
        let dir = tempfile::tempdir().unwrap();
        let arena = dir.path().join("tacho-1.arena");
        let target = dir.path().join("target");
        std::fs::write(&target, record(b'a', 64)).unwrap();
        std::os::unix::fs::symlink(&target, part_path(&arena, 4)).unwrap();
        std::fs::create_dir(part_path(&arena, 5)).unwrap();
        let mut spill = open(&arena);
        assert!(spill.next().is_none() && spill.take_error().is_some());
        assert!(spill.append(&record(b'b', 64)).is_some(), "beside it");
        spill.remove_written(u64::MAX);
        assert_eq!(std::fs::read(&target).unwrap(), record(b'a', 64));
        // Ours by its owner, and yet nothing that a writer writes.
        let mut strange = record(b'a', 64);
        strange.extend([7; 640]);
        write(&part_path(&arena, 6), &strange);
        let mut spill = open(&arena);
        let found = all(&mut spill);
        assert!(found.contains(&record(b'a', 64)) && spill.take_damaged() == 1, "{found:?}");
        // An SQL statement can have made this one.
        std::fs::write(part_path(&arena, 7), record(b'f', 64)).unwrap();
        let mut spill = open(&arena);
        assert!(!all(&mut spill).contains(&record(b'f', 64)));
        assert!(matches!(&*spill.take_error().unwrap(), ArenaError::Planted { .. }));
    }
}
