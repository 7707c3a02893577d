//! The arena's table of statements that have a `running` line and have not ended.

use std::sync::atomic::Ordering;

use tacho_ring::arena::Arena;
use tacho_ring::layout::RunningEntry;

use crate::join::Open;

/// Adds a statement that has a `running` line to the table.
pub(super) fn remember(arena: &Arena, conn: u64, open: &Open, seq: u64) {
    let free = |e: &&RunningEntry| e.running_seq.load(Ordering::Relaxed) == 0;
    // A full table costs the `interrupted` line after a crash: the `running` line without a
    // completion means the same.
    if let Some(entry) = arena.running().iter().find(free) {
        entry.done_seq.store(0, Ordering::Relaxed);
        entry.conn.store(conn, Ordering::Relaxed);
        entry.conn_seq.store(open.conn_seq, Ordering::Relaxed);
        entry.query_id.store(open.query_id, Ordering::Relaxed);
        entry.text_id.store(open.text_id, Ordering::Relaxed);
        entry.ts_us.store(open.ts_us, Ordering::Relaxed);
        entry.text_bytes.store(u64::from(open.text_bytes), Ordering::Relaxed);
        // SYNC running: Release, so that a reader after a crash never sees half an entry.
        entry.running_seq.store(seq, Ordering::Release);
    }
}

/// Line `done_seq` completes a statement of the table. Returns its entry, which is free once that
/// line is in the file.
pub(super) fn finish(arena: &Arena, running_seq: u64, done_seq: u64) -> Option<usize> {
    let mut entries = arena.running().iter();
    let found = entries.position(|e| e.running_seq.load(Ordering::Relaxed) == running_seq)?;
    arena.running()[found].done_seq.store(done_seq, Ordering::Relaxed);
    Some(found)
}
