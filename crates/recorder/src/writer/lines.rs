//! From the queue to the batch: writes lines, and settles their records.

use std::sync::atomic::Ordering;

use tacho_record::time::TimeFormatter;
use tacho_ring::arena::Arena;
use tacho_ring::sys;
use tacho_settings::Setting;

use super::batch::{BUFFER_BYTES_MAX, Batch};
use super::context::Context;
use super::filter_sync::FilterSync;
use super::losses::count_corrupt;
use super::own_lines::run_of;
use super::rate_limit::RateLimit;
use super::running_table;
use crate::control::Severity;
use crate::drain::{Drain, Ref};
use crate::join::{CarryOver, EarlyRecord, Ending, Open, Ready, RecordPlace, Start};
use crate::line::{self, Scratch, Shortfall, Style, Written};

/// Makes lines.
#[derive(Default)]
pub(super) struct Lines {
    pub(super) filter_sync: FilterSync,
    scratch: Scratch,
    memory_limit: RateLimit,
}

/// Source of records, and destination of their lines.
pub(super) struct Channels<'w> {
    pub(super) drain: &'w mut Drain,
    pub(super) batch: &'w mut Batch,
    pub(super) context: &'w Context,
}

impl Lines {
    /// Frees the memory of a huge line.
    pub(super) fn shrink(&mut self) {
        self.scratch.shrink(BUFFER_BYTES_MAX);
    }

    /// Writes the line of an item of the queue.
    pub(super) fn format(&mut self, item: &mut Ready, to: &mut Channels<'_>) {
        match item {
            Ready::Statement { conn, open, ending, .. } => {
                self.format_statement(*conn, open, ending, to);
            }
            Ready::Single { place, awaited, error, .. } => {
                gather(place, to.drain);
                let written = self.write_single(place, error.as_ref(), awaited.is_none(), to);
                if let (Written::Unreadable, Some(error)) = (written, error) {
                    // The record of this message cannot be read: the message gets a line of its
                    // own.
                    self.write_single(error, None, false, to);
                }
                if let Some((conn, rec_no)) = *awaited {
                    to.batch.note_awaited(conn, rec_no);
                }
            }
            Ready::Nothing { at } => {
                for at in at {
                    // Settled with the previous line, because they have no line of their own.
                    to.drain.settle(*at, to.batch.last_seq());
                }
            }
        }
    }

    fn format_statement(
        &mut self,
        conn: u64,
        open: &mut Open,
        ending: &mut Ending,
        to: &mut Channels<'_>,
    ) {
        if let Start::Record(place) = &mut open.start {
            gather(place, to.drain);
        }
        if let Ending::Record(place) = ending {
            gather(place, to.drain);
        }
        // A producer waits until this line is in the file.
        let may_skip = !open.awaited;
        let Some(seq) = self.write_statement(conn, open, ending, may_skip, to) else {
            // With the previous line, because it has no line of its own.
            return settle_statement(conn, open, ending, to.batch.last_seq(), to.drain, to.batch);
        };
        settle_statement(conn, open, ending, seq, to.drain, to.batch);
        if let Start::Running { seq: running_seq, .. } = &open.start {
            if let Some(entry) = running_table::finish(to.drain.arena(), *running_seq, seq) {
                to.batch.note_finished(entry);
            }
        } else if matches!(ending, Ending::Running) {
            // The last lines of an orderly stop. If it does not complete, the next server completes
            // them.
            running_table::remember(to.drain.arena(), conn, open, seq);
        }
    }

    /// `may_skip`: leave it out if the filter discards it.
    fn write_single(
        &mut self,
        place: &RecordPlace,
        error: Option<&RecordPlace>,
        may_skip: bool,
        to: &mut Channels<'_>,
    ) -> Written {
        let seq = to.batch.next_seq();
        let (out, clock) = to.batch.formatting();
        let arena = to.drain.arena();
        let mut style = style(&self.filter_sync, clock, may_skip, arena, to.context);
        let written =
            line::write_single(out, to.drain, &mut self.scratch, &mut style, seq, place, error);
        if self.scratch.is_short() {
            self.report_shortfall(to);
        }
        let settled_with = match written {
            Written::Line => to.batch.take_seq(),
            // With the previous line, because it has no line of its own.
            Written::Filtered | Written::Unreadable => to.batch.last_seq(),
        };
        settle(place, settled_with, to.drain);
        if let (Written::Line | Written::Filtered, Some(error)) = (written, error) {
            settle(error, settled_with, to.drain);
        }
        if written == Written::Filtered {
            to.context.status.records_filtered.fetch_add(1, Ordering::Relaxed);
        }
        written
    }

    /// The `seq` of its line; `None`: the filter discards it, and `may_skip` allows that.
    pub(super) fn write_statement(
        &mut self,
        conn: u64,
        open: &Open,
        ending: &Ending,
        may_skip: bool,
        to: &mut Channels<'_>,
    ) -> Option<u64> {
        let seq = to.batch.next_seq();
        let (out, clock) = to.batch.formatting();
        let arena = to.drain.arena();
        let mut style = style(&self.filter_sync, clock, may_skip, arena, to.context);
        let statement = line::Statement { conn, open, ending };
        let written =
            line::write_statement(out, to.drain, &mut self.scratch, &mut style, seq, statement);
        if self.scratch.is_short() {
            self.report_shortfall(to);
        }
        if written != Written::Line {
            to.context.status.records_filtered.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        Some(to.batch.take_seq())
    }

    /// The state that remains of a start whose record leaves the arena.
    pub(super) fn carry_over(&mut self, drain: &Drain, place: &RecordPlace) -> CarryOver {
        let mut carry_over =
            line::carry_over(drain, &mut self.scratch, place, self.filter_sync.filters());
        carry_over.no_literals |= self.filter_sync.is_blind();
        carry_over
    }

    /// Whether the records of a statement include a rewritten text.
    pub(super) fn is_rewritten(&mut self, drain: &Drain, extras: &[RecordPlace]) -> bool {
        line::is_rewritten(drain, &mut self.scratch, extras)
    }

    /// Number and message of the last error among the records of a statement.
    pub(super) fn last_error(
        &mut self,
        drain: &Drain,
        extras: &[RecordPlace],
    ) -> Option<(u32, Vec<u8>)> {
        line::last_error(drain, &mut self.scratch, extras)
    }

    /// Counts records that proved to be damaged when their lines were written, and reports which
    /// texts are missing because of memory.
    fn report_shortfall(&mut self, to: &Channels<'_>) {
        let Shortfall { damaged, no_memory_bytes } = self.scratch.take_shortfall();
        if damaged > 0 {
            count_corrupt(to.drain.arena(), damaged);
        }
        let Some(bytes) = no_memory_bytes else { return };
        let text = format!(
            "not enough memory for the text of a statement, {bytes} bytes: its line has \
             `sql_bytes` and no `sql`. Give this machine more memory, or lower max_allowed_packet"
        );
        let is_news = self.memory_limit.allows(sys::monotonic_us());
        to.context.report(Severity::Error, &text, is_news);
    }
}

#[inline(always)]
fn style<'s>(
    filter_sync: &'s FilterSync,
    clock: &'s mut TimeFormatter,
    may_skip: bool,
    arena: &Arena,
    context: &Context,
) -> Style<'s> {
    Style {
        clock,
        run: run_of(arena),
        max_statement_bytes: context.control.setting(Setting::MaxStatementBytes),
        filters: filter_sync.filters(),
        may_skip,
        digest: context.control.is_on(Setting::Digest),
        redact_literals: arena.redacts_literals() || filter_sync.is_blind(),
    }
}

/// Appends the rest of a text that was mostly moved out of the arena to the moved part, so that the
/// whole text is never copied.
#[inline]
pub(super) fn gather(place: &mut RecordPlace, drain: &Drain) {
    if let RecordPlace::Memory(early, more) = place {
        gather_pieces(early, more, drain);
    }
}

#[inline(never)]
fn gather_pieces(early: &mut EarlyRecord, more: &[Ref], drain: &Drain) {
    let mut piece = Vec::new();
    for at in &more[early.gathered..] {
        early.take_more(drain.fetch(*at, &mut piece));
    }
    early.gathered = more.len();
}

/// Settles all records of a statement with the line of this `seq`.
pub(super) fn settle_statement(
    conn: u64,
    open: &Open,
    ending: &Ending,
    seq: u64,
    drain: &mut Drain,
    batch: &mut Batch,
) {
    if let Start::Record(place) = &open.start {
        settle(place, seq, drain);
    }
    for place in &open.extras {
        settle(place, seq, drain);
    }
    match ending {
        Ending::Record(place) => settle(place, seq, drain),
        Ending::Read { at, .. } => drain.settle(*at, seq),
        Ending::Derived(_) | Ending::Unknown | Ending::Running => {}
    }
    if open.awaited {
        batch.note_awaited(conn, open.rec_no);
    }
}

#[inline(always)]
fn settle(place: &RecordPlace, seq: u64, drain: &mut Drain) {
    match place {
        RecordPlace::Arena(first, more) | RecordPlace::Torn(first, more) => {
            drain.settle(*first, seq);
            more.iter().for_each(|at| drain.settle(*at, seq));
        }
        RecordPlace::Memory(_, more) => more.iter().for_each(|at| drain.settle(*at, seq)),
    }
}
