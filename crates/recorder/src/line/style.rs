//! What all lines need, and writing them.

use tacho_filter::Program;
use tacho_record::Record;
use tacho_record::json;
use tacho_record::time::TimeFormatter;
use tacho_ring::codec::{PRESENT_BLOCKED, View};

use super::digests::Digests;
use super::load::{Buffers, Shortfall};
use super::parts::{Commands, Known};
use crate::control::Filters;

/// Buffers that are reused for every line.
#[derive(Default)]
pub struct Scratch {
    pub(super) start: Buffers,
    pub(super) end: Buffers,
    pub(super) extras: Vec<Buffers>,
    pub(super) known: Vec<Known>,
    pub(super) commands: Commands,
    pub(super) digests: Digests,
    /// Since the last [`Scratch::take_shortfall`].
    pub(super) shortfall: Shortfall,
}

/// Buffers for errors and tables that are kept for the next line.
const EXTRAS_KEPT: usize = 64;

/// What lines need beside their records.
pub struct Style<'s> {
    /// Formats times.
    pub clock: &'s mut TimeFormatter,
    /// `seq` of the `start` line of the recorder whose records these are.
    pub run: Option<u64>,
    /// Longest statement text, bytes; 0 = no limit.
    pub max_statement_bytes: u64,
    /// Which statements are wanted, and how.
    pub filters: &'s Filters,
    /// Whether one that is not wanted may be left out.
    pub may_skip: bool,
    /// Lines of statements have their digests.
    pub digest: bool,
    /// No literal may go to the disk.
    pub redact_literals: bool,
}

impl<'s> Style<'s> {
    /// The filter of a statement that started then.
    #[inline]
    pub(super) fn filter(&self, started_us: i64) -> Program<'s> {
        Program::new(self.filters.at(started_us))
    }
}

/// What became of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// It is in the line.
    Line,
    /// The filter does not want it: there is no line.
    Filtered,
    /// It cannot be read, and was counted: there is no line.
    Unreadable,
}

impl Scratch {
    /// Whether lines since the last [`Scratch::take_shortfall`] had to do without something.
    #[inline]
    pub fn is_short(&self) -> bool {
        self.shortfall.damaged > 0 || self.shortfall.no_memory_bytes.is_some()
    }

    /// What the lines since the last call had to do without.
    pub fn take_shortfall(&mut self) -> Shortfall {
        std::mem::take(&mut self.shortfall)
    }

    /// Gives back what a huge line has taken, beyond `bytes` for each buffer.
    pub fn shrink(&mut self, bytes: usize) {
        let Scratch { start, end, extras, digests, .. } = self;
        digests.shrink(bytes);
        // Some records of 8 KiB and more are not worth it; a million small ones are.
        extras.truncate(EXTRAS_KEPT);
        [start, end].into_iter().chain(extras).for_each(|buffers| buffers.shrink(bytes));
    }
}

/// Whether an error says that a rule has blocked the statement: its text is the rule's name.
pub(super) fn is_blocked(view: &View<'_>) -> bool {
    view.body.present & PRESENT_BLOCKED != 0
}

/// Appends the line; without its texts, if there is not enough memory for them.
#[inline]
pub(super) fn write(
    out: &mut Vec<u8>,
    record: &mut Record<'_>,
    style: &mut Style<'_>,
    shortfall: &mut Shortfall,
) {
    if json::try_write_line(out, record, style.clock).is_err() {
        write_less(out, record, style, shortfall);
    }
}

#[cold]
#[inline(never)]
fn write_less(
    out: &mut Vec<u8>,
    record: &mut Record<'_>,
    style: &mut Style<'_>,
    shortfall: &mut Shortfall,
) {
    let bytes = record.sql.map_or(0, |sql| sql.len() as u64);
    let is_rewritten = record.rewritten_query.take().is_some();
    if is_rewritten && json::try_write_line(out, record, style.clock).is_ok() {
        shortfall.no_memory_bytes = Some(bytes);
        return;
    }
    shortfall.no_memory_bytes = Some(record.sql_bytes.unwrap_or(bytes));
    if record.sql.take().is_some() {
        record.sql_bytes.get_or_insert(bytes);
        without_text(record);
        if json::try_write_line(out, record, style.clock).is_ok() {
            return;
        }
    }
    // What is left is as small as a name.
    record.error = &[];
    record.tables = &[];
    record.old_value = &[];
    record.new_value = &[];
    record.detail = &[];
    record.attributes = &[];
    json::write_line(out, record, style.clock);
}

/// Takes out what only says how to read the text.
pub(super) fn without_text(record: &mut Record<'_>) {
    record.sql_redacted = false;
    record.charset = None;
    record.sql_charset = &[];
}
