//! Lines of statements that have not ended, and the arena's table of them.

use std::sync::atomic::Ordering;

use tacho_ring::arena::Arena;
use tacho_ring::layout::RunningEntry;

use super::batch::Batch;
use super::context::Context;
use super::intake::Intake;
use super::lines::{Channels, Lines, gather, settle_statement};
use crate::join::{Ending, Open, Start};

/// A statement that has gathered this many errors and tables gets a `running` line.
const EXTRAS_MAX: usize = 1024;

/// Writes a `running` line for every statement that started before `before_us` and has
/// none yet, or that has gathered much since its last one; what it holds may leave the
/// arena then.
pub(super) fn write_lines(
    before_us: i64,
    intake: &mut Intake,
    lines: &mut Lines,
    batch: &mut Batch,
    context: &Context,
) {
    intake.enqueue();
    let (drain, join, _) = intake.parts();
    let to = &mut Channels { drain, batch, context };
    for (conn, open) in join.open_since(i64::MAX) {
        if is_due(open, before_us) {
            write_line(conn, open, lines, to);
        }
    }
}

fn is_due(open: &Open, before_us: i64) -> bool {
    let has_line = matches!(open.start, Start::Running { .. });
    // Another line when it has gathered something: errors that a stored routine handles
    // and tables it uses are without number, and would fill the arena in the end.
    open.awaited
        || open.extras.len() >= EXTRAS_MAX
        || (open.ts_us < before_us && !has_line)
        || (before_us == i64::MAX && !open.extras.is_empty())
}

fn write_line(conn: u64, open: &mut Open, lines: &mut Lines, to: &mut Channels<'_>) {
    if let Start::Record(place) = &mut open.start {
        gather(place, to.drain);
    }
    let first = match &open.start {
        Start::Record(place) => Some(Box::new(lines.carry_over(to.drain, place))),
        Start::Running { .. } => None,
    };
    let is_rewritten = lines.is_rewritten(to.drain, &open.extras);
    let error = lines.last_error(to.drain, &open.extras);
    let Some(seq) = lines.write_statement(conn, open, &Ending::Running, false, to) else {
        return;
    };
    settle_statement(conn, open, &Ending::Running, seq, to);
    if let Some(carry_over) = first {
        remember(to.drain.arena(), conn, open, seq);
        open.start = Start::Running { seq, carry_over };
    }
    if let Start::Running { carry_over, .. } = &mut open.start {
        // Its error may quote the new text, which is not known any more by then.
        carry_over.has_secret |= is_rewritten;
        // Only its end tells whether it is the message of its outcome.
        if error.is_some() {
            carry_over.error = error;
        }
    }
    open.extras.clear();
    open.awaited = false;
}

/// Puts a statement that has a `running` line into the table.
pub(super) fn remember(arena: &Arena, conn: u64, open: &Open, seq: u64) {
    let free = |e: &&RunningEntry| e.running_seq.load(Ordering::Relaxed) == 0;
    // A full table costs the `interrupted` line after a crash: the `running` line
    // without a completion then says the same.
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

/// A statement of the table has its completion in line `done_seq`. Returns its entry, which is free
/// when that line is in the file.
pub(super) fn finish(arena: &Arena, running_seq: u64, done_seq: u64) -> Option<usize> {
    let mut entries = arena.running().iter();
    let found = entries.position(|e| e.running_seq.load(Ordering::Relaxed) == running_seq)?;
    arena.running()[found].done_seq.store(done_seq, Ordering::Relaxed);
    Some(found)
}
