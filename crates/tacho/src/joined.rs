//! Filters statements as a whole: a long one has two lines in the log, each with a part of what a
//! filter may ask for.
//!
//! A line that is all there is about its event is filtered before it is parsed. The others are
//! joined first.

use tacho_format::join::{self, HELD_BYTES_MAX, Joiner};
use tacho_logdir::read::reader::Placed;
use tacho_record::{EventKind, Field, Outcome, OwnedRecord};

use crate::filter::{Filter, Fit, Gate};
use crate::view::View;

/// The fields that [`is_part`] needs.
pub const FIELDS: [Field; 3] = [Field::event, Field::outcome, Field::running_seq];

/// Whether a line is one of several of its statement, or ends the wait for such lines.
pub fn is_part(line: &dyn View) -> bool {
    let (event, outcome) = (line.text(Field::event), line.text(Field::outcome));
    join::is_part(&event, &outcome, line.number(Field::running_seq))
}

/// Whether a line has to be parsed. If it [is a part](is_part), or in the filter's range of times,
/// it is then passed to [`Joined::push`]. `gate` must read [`FIELDS`].
///
/// # Errors
/// The line is broken, or too long.
pub fn wants(gate: &mut Gate, placed: Placed<'_>) -> Result<bool, String> {
    // Most lines that are read are in the range: reading their time first would cost more.
    if gate.filter.is_by_time_only() && !placed.is_too_long {
        return Ok(true);
    }
    gate.ask(placed, |filter, line| Ok(is_part(line) || filter.judge(line)? != Fit::No))
}

/// Joins the records of one log, and filters those that were joined.
#[derive(Debug)]
pub struct Joined {
    joiner: Joiner,
}

impl Default for Joined {
    fn default() -> Self {
        Self { joiner: Joiner::new(HELD_BYTES_MAX) }
    }
}

impl Joined {
    /// Takes a record that [`wants`] accepted, and passes those that are complete to `emit`.
    ///
    /// # Errors
    /// Those of `emit`.
    pub fn push<E>(
        &mut self,
        record: OwnedRecord,
        filter: &Filter,
        mut emit: impl FnMut(&OwnedRecord) -> Result<(), E>,
    ) -> Result<(), E> {
        let is_whole = match record.event {
            Some(EventKind::Statement) => {
                record.running_seq.is_none() && record.outcome != Some(Outcome::Running)
            }
            Some(EventKind::Start | EventKind::Stop) => false,
            _ => true,
        };
        self.joiner.push(record, |record| {
            if is_whole || passes(record, filter) { emit(record) } else { Ok(()) }
        })
    }

    /// Passes to `emit` what is still running at the end of the log.
    ///
    /// # Errors
    /// Those of `emit`.
    pub fn finish<E>(
        &mut self,
        filter: &Filter,
        mut emit: impl FnMut(&OwnedRecord) -> Result<(), E>,
    ) -> Result<(), E> {
        self.joiner.finish(|record| if passes(record, filter) { emit(record) } else { Ok(()) })
    }
}

fn passes(record: &OwnedRecord, filter: &Filter) -> bool {
    // A line that was parsed completely is not broken.
    record.with_line(|line| filter.judge(line).is_ok_and(|fit| fit != Fit::No))
}
