//! Lines of statements that have not ended.

use super::batch::Batch;
use super::context::Context;
use super::intake::Intake;
use super::lines::{Channels, Lines, gather, settle_statement};
use super::running_table::remember;
use crate::join::{Ending, Open, Start};

/// A statement with this many errors and tables gets a `running` line.
const EXTRAS_MAX: usize = 1024;

/// Writes a `running` line for every statement that started before `before_us` and has none yet, or
/// that has many records since its last one; its records may then leave the arena.
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
    // Another line if it has many records: a stored routine may handle errors and access tables
    // without limit, which would fill the arena in the end.
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
    settle_statement(conn, open, &Ending::Running, seq, to.drain, to.batch);
    if let Some(carry_over) = first {
        remember(to.drain.arena(), conn, open, seq);
        open.start = Start::Running { seq, carry_over };
    }
    if let Start::Running { carry_over, .. } = &mut open.start {
        // Its error may quote the rewritten text, which is no longer known then.
        carry_over.has_secret |= is_rewritten;
        // Only its end shows whether this is the message of its outcome.
        if error.is_some() {
            carry_over.error = error;
        }
    }
    open.extras.clear();
    open.awaited = false;
}
