//! Common parts of all lines, and writing them.

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
    /// Accumulated since the last [`Scratch::take_shortfall`].
    pub(super) shortfall: Shortfall,
}

/// Buffers for errors and tables that are kept for later lines.
const EXTRAS_KEPT: usize = 64;

/// Input of all lines besides their records.
pub struct Style<'s> {
    /// Formats times.
    pub clock: &'s mut TimeFormatter,
    /// `seq` of the `start` line of the recorder that recorded them.
    pub run: Option<u64>,
    /// Longest statement text, bytes; 0 = no limit.
    pub max_statement_bytes: u64,
    /// Which statements are recorded, and how.
    pub filters: &'s Filters,
    /// Whether a statement may be left out if the filter discards it.
    pub may_skip: bool,
    /// Lines of statements have their digests.
    pub digest: bool,
    /// All literals must be redacted.
    pub redact_literals: bool,
}

impl<'s> Style<'s> {
    /// The filter for a statement that started then.
    #[inline]
    pub(super) fn filter(&self, started_us: i64) -> Program<'s> {
        Program::new(self.filters.at(started_us))
    }
}

/// The result for a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// It is in the line.
    Line,
    /// The filter discarded it: there is no line.
    Filtered,
    /// It cannot be read, and was counted: there is no line.
    Unreadable,
}

impl Scratch {
    /// Whether lines since the last [`Scratch::take_shortfall`] miss something.
    #[inline]
    pub fn is_short(&self) -> bool {
        self.shortfall.damaged > 0 || self.shortfall.no_memory_bytes.is_some()
    }

    /// What the lines since the last call are missing.
    pub fn take_shortfall(&mut self) -> Shortfall {
        std::mem::take(&mut self.shortfall)
    }

    /// Frees the memory of a huge line, beyond `bytes` in each buffer.
    pub fn shrink(&mut self, bytes: usize) {
        let Scratch { start, end, extras, digests, .. } = self;
        digests.shrink(bytes);
        // Keeping some buffers of 8 KiB is cheap; a million small ones are not.
        extras.truncate(EXTRAS_KEPT);
        [start, end].into_iter().chain(extras).for_each(|buffers| buffers.shrink(bytes));
    }
}

/// Whether an error record says that a rule has blocked the statement: its text is the rule's name.
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
    // The remaining fields are as small as a name.
    record.error = &[];
    record.tables = &[];
    record.old_value = &[];
    record.new_value = &[];
    record.detail = &[];
    record.attributes = &[];
    record.params = &[];
    record.info = &[];
    json::write_line(out, record, style.clock);
}

/// Removes the fields that only describe how to read the text.
pub(super) fn without_text(record: &mut Record<'_>) {
    record.text_json = &[];
    record.sql_redacted = false;
    record.charset = None;
    record.sql_charset = &[];
}
