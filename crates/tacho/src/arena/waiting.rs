//! Counts the records of an arena that are not in the log yet.

use std::collections::BTreeSet;
use std::mem::offset_of;

use tacho_ring::arena::Arena;
use tacho_ring::chunk;
use tacho_ring::codec::RecordKind;
use tacho_ring::consumer::{Chunk, Next};
use tacho_ring::layout::{FRAGMENT_FIRST, RECORD_HEADER_BYTES, RecordHeader, RunningEntry};
use tacho_ring::sync::Ordering;

use super::records::is_same;

/// An arena may have a hundred million records, and the question is asked every minute.
const RECORDS_MAX: u64 = 1_000_000;

/// The records that are not in the log yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    /// Their number.
    pub records: u64,
    /// Time of the oldest that the writer could take, µs since 1970-01-01 UTC: errors and tables of
    /// a statement with a `running` line stay until its end.
    pub oldest_us: Option<i64>,
    /// There may be more: the arena was not read to its end.
    pub has_more: bool,
}

impl Waiting {
    /// Adds those of another arena, or of a chunk.
    pub fn add(&mut self, other: Waiting) {
        self.records += other.records;
        self.oldest_us = [self.oldest_us, other.oldest_us].into_iter().flatten().min();
        self.has_more |= other.has_more;
    }
}

/// Counts the records that are in no line of a log whose last line is `last_seq`. Those in the
/// spill do not count.
pub fn count(arena: &Arena, last_seq: u64) -> Waiting {
    let mut waiting = Waiting::default();
    let mut seen = 0;
    let running = connections_with_running_line(arena);
    for (index, control) in (0..).zip(arena.controls()) {
        let word = chunk::look(control);
        if chunk::state_of(word) == chunk::FREE {
            continue;
        }
        if seen >= RECORDS_MAX {
            waiting.has_more = true;
            break;
        }
        let Some(chunk) = Chunk::of(arena, index) else { continue };
        let of_chunk = count_in(&chunk, last_seq, &running, &mut seen);
        // A chunk that was freed meanwhile is in the log.
        if is_same(arena, index, word) {
            waiting.add(of_chunk);
        }
    }
    waiting
}

fn connections_with_running_line(arena: &Arena) -> BTreeSet<u64> {
    let is_open = |entry: &&RunningEntry| {
        entry.running_seq.load(Ordering::Relaxed) != 0
            && entry.done_seq.load(Ordering::Relaxed) == 0
    };
    arena.running().iter().filter(is_open).map(|it| it.conn.load(Ordering::Relaxed)).collect()
}

fn count_in(chunk: &Chunk<'_>, last_seq: u64, running: &BTreeSet<u64>, seen: &mut u64) -> Waiting {
    let mut waiting = Waiting::default();
    let mut position = 0;
    let mut buffer = [0; RECORD_HEADER_BYTES];
    while let Next::Record(bytes) = chunk.peek(position) {
        let Some(head) = chunk.fetch(position, RECORD_HEADER_BYTES as u32, &mut buffer) else {
            break;
        };
        *seen += 1;
        position += bytes;
        let u64_at = |at: usize| head[at..].first_chunk().map_or(0, |it| u64::from_ne_bytes(*it));
        let line_seq = u64_at(offset_of!(RecordHeader, line_seq));
        let is_written = line_seq != 0 && line_seq <= last_seq;
        if is_written || head[offset_of!(RecordHeader, fragment)] > FRAGMENT_FIRST {
            continue;
        }
        let kind = RecordKind::from_byte(head[offset_of!(RecordHeader, kind)]);
        let waits_for_end = matches!(kind, Some(RecordKind::Error | RecordKind::Table))
            && running.contains(&u64_at(offset_of!(RecordHeader, conn)));
        let ts_us = u64_at(offset_of!(RecordHeader, ts_us)).cast_signed();
        let oldest_us = (!waits_for_end).then_some(ts_us);
        waiting.add(Waiting { records: 1, oldest_us, has_more: false });
    }
    waiting
}
