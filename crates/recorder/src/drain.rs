//! Finding committed records in the arena, and giving chunks back.
//!
//! For each chunk, the drain remembers how far it has read and how many of its records are not in a
//! line yet. It never trusts the arena: it checks what it reads, and damage loses only the rest of
//! one chunk, which is counted.

use std::mem::offset_of;
use std::path::PathBuf;
use std::sync::Arc;

use tacho_ring::arena::Arena;
use tacho_ring::chunk::{self, BUSY, CLOSED, FREE, IDLE};
use tacho_ring::codec::{
    BODY_BYTES, Body, FIGURES_BYTES, PRESENT_FIGURES, PRESENT_TEXT, RecordKind, STRING_COUNT,
};
use tacho_ring::consumer::{self, Chunk, Next};
use tacho_ring::free;
use tacho_ring::layout::{
    ChunkControl, FRAGMENT_FIRST, FRAGMENT_LAST, FRAGMENT_WHOLE, RECORD_HEADER_BYTES, RecordHeader,
};
use tacho_ring::sync::Ordering;

use crate::arena_error::ArenaError;
pub use crate::record_ref::Ref;
use crate::spill::{ArenaSource, Spill};

/// Header and fixed part of a record: enough to order and join it.
#[derive(Clone, Copy, Debug)]
pub struct Head {
    /// Its kind.
    pub kind: RecordKind,
    /// One of `FRAGMENT_*`.
    pub fragment: u8,
    /// Number of the fragment.
    pub fragment_number: u16,
    /// `seq` of the line that it became part of, 0 = none.
    pub line_seq: u64,
    /// Connection id.
    pub conn: u64,
    /// Number within the connection.
    pub rec_no: u64,
    /// µs since 1970-01-01 UTC.
    pub ts_us: i64,
    /// Query id.
    pub query_id: u64,
    /// Joins an end with its start.
    pub text_id: u64,
    /// Number of the line within the connection.
    pub conn_seq: u64,
    /// Length of the text.
    pub text_bytes: u32,
    /// Error number.
    pub errno: u32,
    /// Bits `PRESENT_*`.
    pub present: u32,
    /// Length of the statement at its end.
    pub shown_bytes: u32,
    /// The rest of the end of a statement, if the record has nothing else: no text and no strings.
    pub end: Option<EndParts>,
}

/// The fields that only ends have.
#[derive(Clone, Copy, Debug)]
pub struct EndParts {
    /// The server's number of the statement's class.
    pub sql_command: i32,
    /// SQLSTATE.
    pub sqlstate: [u8; 5],
    /// The figures; the bits `PRESENT_*` say which of them are valid.
    pub figures: [u64; 5],
}

/// Place of `ts_us` in a record's header.
const TS_AT: usize = offset_of!(RecordHeader, ts_us);
/// Size of the header and the fixed part of a record.
const HEAD_BYTES: usize = RECORD_HEADER_BYTES + BODY_BYTES;

impl Head {
    /// From the beginning of a record of `record_bytes` bytes.
    fn read(bytes: &[u8; HEAD_BYTES], record_bytes: u32) -> Option<Head> {
        let u32_at = |at| u32::from_le_bytes(array(bytes, at));
        let u64_at = |at| u64::from_le_bytes(array(bytes, at));
        let fragment = bytes[5];
        let has_body = fragment <= FRAGMENT_FIRST;
        if fragment > FRAGMENT_LAST || (has_body && (record_bytes as usize) < HEAD_BYTES) {
            return None;
        }
        let body = |at| if has_body { u32_at(RECORD_HEADER_BYTES + at) } else { 0 };
        Some(Head {
            kind: RecordKind::from_byte(bytes[4])?,
            fragment,
            fragment_number: u16::from_le_bytes(array(bytes, 6)),
            line_seq: u64_at(8),
            conn: u64_at(16),
            rec_no: u64_at(24),
            ts_us: u64_at(32) as i64,
            query_id: u64_at(40),
            text_id: u64_at(48),
            conn_seq: u64_at(56),
            text_bytes: body(offset_of!(Body, text_bytes)),
            errno: body(offset_of!(Body, errno)),
            present: body(offset_of!(Body, present)),
            shown_bytes: body(offset_of!(Body, shown_bytes)),
            end: None,
        })
    }

    /// The rest of a usual end, whose record is at `at` in `chunk`. `None`: the record has more
    /// than header, body and figures.
    fn end_parts(&self, bytes: &[u8; HEAD_BYTES], chunk: &Chunk<'_>, at: &Ref) -> Option<EndParts> {
        let body_at = |at| RECORD_HEADER_BYTES + at;
        let string_bytes = array(bytes, body_at(offset_of!(Body, string_bytes)));
        if self.fragment != FRAGMENT_WHOLE
            || self.present & PRESENT_TEXT != 0
            || self.text_bytes != 0
            || string_bytes != [0; 2 * STRING_COUNT]
        {
            return None;
        }
        let mut figures = [0; FIGURES_BYTES];
        if self.present & PRESENT_FIGURES != 0 {
            if (at.bytes as usize) < HEAD_BYTES + FIGURES_BYTES {
                return None;
            }
            let figures_at = at.position + HEAD_BYTES as u32;
            chunk.fetch(figures_at, FIGURES_BYTES as u32, &mut figures)?;
        }
        Some(EndParts {
            sql_command: i32::from_le_bytes(array(bytes, body_at(offset_of!(Body, sql_command)))),
            sqlstate: array(bytes, body_at(offset_of!(Body, sqlstate))),
            figures: std::array::from_fn(|i| u64::from_le_bytes(array(&figures, 8 * i))),
        })
    }
}

/// Copies a record that is shorter than header and fixed part; the rest of the buffer keeps what an
/// earlier record left there. A separate function, because inlining it would turn the copy of a
/// fixed size into one of variable size.
#[cold]
#[inline(never)]
fn fetch_short(chunk: &Chunk<'_>, at: &Ref, buffer: &mut [u8; HEAD_BYTES]) -> bool {
    chunk.fetch(at.position, at.bytes, buffer).is_some()
}

/// Of a fixed size, so that the compiler can prove that all accesses are in range.
fn array<const N: usize, const FROM: usize>(bytes: &[u8; FROM], at: usize) -> [u8; N] {
    bytes[at..].first_chunk().copied().unwrap_or([0; N])
}

#[derive(Clone, Copy, Debug, Default)]
struct Track {
    generation: u64,
    position: u32,
    /// Records that were read and are in no line yet.
    unsettled: u32,
    /// Highest `seq` of a line that a record of this chunk went into.
    max_seq: u64,
    /// Read to its end, and closed.
    drained: bool,
    /// Since when it is BUSY at this position, µs; 0 = it is not.
    busy_since_us: i64,
}

/// Reads the records of one arena, see the module documentation.
pub struct Drain {
    arena: Arena,
    spill: Spill,
    tracks: Vec<Track>,
    /// The chunks that were in use at the last pass and have not been recycled since: an arena has
    /// thousands, of which usually few are in use.
    in_use: Vec<u32>,
    /// Those of them that have new records: `ts_us` of the next record, index, whether the chunk is
    /// closed.
    unread: Vec<(i64, u32, bool)>,
    /// Damaged chunks since the last [`Drain::take_damaged`].
    damaged: u64,
    /// Directory that lists the threads of the producers' process; `None`: no thread is known to be
    /// dead.
    tasks: Option<PathBuf>,
}

/// Chunks that are tested for being free together.
const GROUP_CHUNKS: usize = 8;

/// A BUSY chunk is closed after this time if its owner no longer exists, µs.
const DEAD_OWNER_US: i64 = 2_000_000;

impl Drain {
    /// Reads an arena, and what an earlier writer put into its spill.
    pub fn new(source: impl Into<ArenaSource>) -> Drain {
        let ArenaSource { arena, spill } = source.into();
        let count = arena.geometry().chunk_count as usize;
        Drain {
            arena,
            spill,
            tracks: vec![Track::default(); count],
            in_use: Vec::new(),
            unread: Vec::new(),
            damaged: 0,
            tasks: Some(PathBuf::from("/proc/self/task")),
        }
    }

    /// The producers are threads of another process, which this directory lists; `None`: no list.
    pub fn set_tasks(&mut self, tasks: Option<PathBuf>) {
        self.tasks = tasks;
    }

    /// The arena.
    pub fn arena(&self) -> &Arena {
        &self.arena
    }

    /// Reads every record that was committed since the last pass: first what an earlier writer left
    /// in the spill, then chunk by chunk, beginning with the chunk whose next record is the oldest.
    /// This mostly reads the records of a connection that filled several chunks in their order; the
    /// join reorders the others.
    pub fn pass(&mut self, mut found: impl FnMut(&Head, Ref)) {
        self.read_spill(&mut found);
        self.find_unread();
        let mut unread = std::mem::take(&mut self.unread);
        unread.sort_unstable();
        for (_, index, closed) in unread.drain(..) {
            self.read_chunk(index, closed, &mut found);
        }
        self.unread = unread;
    }

    fn read_spill(&mut self, found: &mut impl FnMut(&Head, Ref)) {
        while let Some(at) = self.spill.next() {
            let mut beginning = [0; HEAD_BYTES];
            let bytes = (at.bytes as usize).min(HEAD_BYTES);
            let is_read = self.spill.fetch(Ref { bytes: bytes as u32, ..at }, &mut beginning);
            let head = is_read.is_some().then(|| Head::read(&beginning, at.bytes)).flatten();
            match head {
                Some(head) => found(&head, at),
                None => {
                    self.damaged += 1;
                    self.spill.forget(at);
                }
            }
        }
        self.damaged += self.spill.take_damaged();
    }

    /// Fills `in_use` and `unread`.
    fn find_unread(&mut self) {
        let Drain { arena, tracks, in_use, unread, .. } = self;
        in_use.clear();
        // A separate loop, because it visits all chunks, most of which are free.
        const { assert!(FREE == 0) };
        let (groups, rest) = arena.controls().as_chunks::<GROUP_CHUNKS>();
        let mut take_used = |first: usize, controls: &[ChunkControl]| {
            let states = controls.iter().map(|control| chunk::state_of(chunk::look(control)));
            let used = states.enumerate().filter(|(_, state)| *state != FREE);
            in_use.extend(used.map(|(index, _)| (first + index) as u32));
        };
        for (index, group) in groups.iter().enumerate() {
            let words = group.iter().fold(0, |words, control| words | chunk::look(control));
            if chunk::state_of(words) != FREE {
                take_used(index * GROUP_CHUNKS, group);
            }
        }
        take_used(groups.len() * GROUP_CHUNKS, rest);
        for index in in_use.iter().copied() {
            let (Some(control), Some(track)) =
                (arena.controls().get(index as usize), tracks.get_mut(index as usize))
            else {
                continue;
            };
            let word = chunk::look(control);
            let generation = chunk::generation_of(word);
            if generation != track.generation {
                *track = Track { generation, ..Track::default() };
            }
            // Read before the chunk's records: a chunk that is closed now has all of its records.
            let closed = chunk::state_of(word) == CLOSED;
            if track.drained {
                continue;
            }
            match consumer::peek(arena, index, track.position) {
                Next::Empty | Next::End => track.drained = closed,
                Next::Record(_) | Next::Damaged => {
                    let mut head = [0; TS_AT + 8];
                    let bytes = (TS_AT + 8) as u32;
                    consumer::fetch(arena, index, track.position, bytes, &mut head);
                    let ts_us = head.last_chunk().map_or(0, |ts| i64::from_le_bytes(*ts));
                    unread.push((ts_us, index, closed));
                }
            }
        }
    }

    /// Reads what was added to a chunk since the last pass; `closed`: nothing more will be added.
    fn read_chunk(&mut self, index: u32, closed: bool, found: &mut impl FnMut(&Head, Ref)) {
        let Drain { arena, tracks, damaged, .. } = self;
        let (Some(track), Some(chunk)) = (tracks.get_mut(index as usize), Chunk::of(arena, index))
        else {
            return;
        };
        let mut buffer = [0u8; HEAD_BYTES];
        loop {
            match chunk.peek(track.position) {
                Next::Record(bytes) => {
                    let at = Ref { chunk: index, position: track.position, bytes };
                    track.position += bytes;
                    track.unsettled += 1;
                    track.busy_since_us = 0;
                    // Nearly always the fixed size, for which the compiler generates better code.
                    let copied = if bytes as usize >= HEAD_BYTES {
                        chunk.fetch(at.position, HEAD_BYTES as u32, &mut buffer).is_some()
                    } else {
                        fetch_short(&chunk, &at, &mut buffer)
                    };
                    let mut head = if copied { Head::read(&buffer, bytes) } else { None };
                    match &mut head {
                        Some(head) => {
                            if head.kind == RecordKind::End {
                                head.end = head.end_parts(&buffer, &chunk, &at);
                            }
                            found(head, at);
                        }
                        None => {
                            track.unsettled -= 1;
                            *damaged += 1;
                        }
                    }
                }
                Next::Empty | Next::End => {
                    track.drained = closed;
                    return;
                }
                Next::Damaged => {
                    // The rest of the chunk cannot be parsed. Its owner, if any, will close it;
                    // records that it appends until then are lost, too.
                    track.position = arena.geometry().chunk_bytes;
                    *damaged += 1;
                }
            }
        }
    }

    /// Lower limit of the number of records that were damaged since the last call.
    pub fn take_damaged(&mut self) -> u64 {
        std::mem::take(&mut self.damaged)
    }

    /// Copies a whole record into `buffer`.
    pub fn fetch<'b>(&self, at: Ref, buffer: &'b mut Vec<u8>) -> Option<&'b [u8]> {
        // Only grows: the writer uses the same few buffers for everything.
        if buffer.len() < at.bytes as usize {
            buffer.resize(at.bytes as usize, 0);
        }
        if at.is_spilled() {
            return self.spill.fetch(at, buffer);
        }
        consumer::fetch(&self.arena, at.chunk, at.position, at.bytes, buffer)
    }

    /// Copies a record to the spill, so that its chunk can be recycled once this record is settled.
    /// `None`: there is no space for it.
    pub fn spill(&mut self, at: Ref) -> Option<Ref> {
        let mut record = vec![0; at.bytes as usize];
        let record = consumer::fetch(&self.arena, at.chunk, at.position, at.bytes, &mut record)?;
        self.spill.append(record)
    }

    /// The error of the spill since the last call.
    pub fn take_spill_error(&mut self) -> Option<Arc<ArenaError>> {
        self.spill.take_error()
    }

    /// A record became part of line `seq`.
    pub fn settle(&mut self, at: Ref, seq: u64) {
        consumer::settle(&self.arena, at.chunk, at.position, seq);
        let Some(track) = self.tracks.get_mut(at.chunk as usize) else {
            // It is in the spill, not in a chunk.
            return self.spill.settle(at, seq);
        };
        track.unsettled = track.unsettled.saturating_sub(1);
        track.max_seq = track.max_seq.max(seq);
    }

    /// A record became part of a line that never reached the file.
    ///
    /// # Errors
    /// The record is in the spill, which cannot be written.
    pub fn settle_back(&self, at: Ref) -> Result<(), ArenaError> {
        if at.is_spilled() {
            return self.spill.mark(at, 0);
        }
        consumer::settle(&self.arena, at.chunk, at.position, 0);
        Ok(())
    }

    /// Recycles every chunk that was read to its end and whose records are all in lines up to
    /// `written_seq`. Returns how many.
    pub fn recycle(&mut self, written_seq: u64) -> u32 {
        self.spill.remove_written(written_seq);
        let Drain { arena, tracks, in_use, .. } = self;
        let before = in_use.len();
        in_use.retain(|index| {
            let Some(track) = tracks.get_mut(*index as usize) else { return false };
            if !track.drained || track.unsettled != 0 || track.max_seq > written_seq {
                return true;
            }
            if let Some(control) = arena.controls().get(*index as usize) {
                chunk::release(control);
                track.drained = false;
                free::push(&arena.shared().free_head.0, arena.controls(), *index);
            }
            false
        });
        (before - in_use.len()) as u32
    }

    /// Takes idle chunks from their owners, except chunks that became idle and empty just now.
    /// Returns how many.
    pub fn steal_idle(&mut self) -> u32 {
        let Drain { arena, tracks, in_use, .. } = self;
        let mut count = 0;
        for index in in_use.iter().map(|index| *index as usize) {
            let (Some(control), Some(track)) = (arena.controls().get(index), tracks.get(index))
            else {
                continue;
            };
            let word = chunk::look(control);
            if chunk::state_of(word) == IDLE
                && (track.position > 0 || track.generation == chunk::generation_of(word))
                && chunk::steal(control, word)
            {
                count += 1;
            }
        }
        count
    }

    /// Closes chunks whose owners died while they wrote, after a bounded wait. `now_us` comes from
    /// a monotonic clock. Returns how many: each has lost one record.
    pub fn bury_dead(&mut self, now_us: i64) -> u32 {
        let Drain { arena, tracks, in_use, tasks, .. } = self;
        let mut count = 0;
        for index in in_use.iter().map(|index| *index as usize) {
            let (Some(control), Some(track)) = (arena.controls().get(index), tracks.get_mut(index))
            else {
                continue;
            };
            let word = chunk::look(control);
            if chunk::state_of(word) != BUSY {
                track.busy_since_us = 0;
                continue;
            }
            if track.busy_since_us == 0 {
                track.busy_since_us = now_us;
            } else if now_us.saturating_sub(track.busy_since_us) > DEAD_OWNER_US {
                let owner = control.owner.load(Ordering::Relaxed);
                // Without /proc (a server in a chroot) no thread counts as dead.
                let is_dead =
                    |tasks: &PathBuf| tasks.is_dir() && !tasks.join(owner.to_string()).exists();
                if tasks.as_ref().is_some_and(is_dead) && chunk::bury(control, word) {
                    count += 1;
                }
            }
        }
        count
    }

    /// Chunks in use, as of the last pass. For the exact number all chunks must be read
    /// ([`Arena::free_count`]).
    pub fn used_count(&self) -> u32 {
        self.in_use.len() as u32
    }

    /// Bytes of these chunks.
    pub fn used_bytes(&self) -> u64 {
        u64::from(self.used_count()) * u64::from(self.arena.geometry().chunk_bytes)
    }
}
