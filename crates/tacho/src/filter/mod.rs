//! The filters of lines.
//!
//! | module | contents |
//! |---|---|
//! | `value` | the values of filters by a field |
//! | `gate` | decides about a line in a file, and parses of it only what that needs |

mod gate;
mod value;

use std::ops::RangeInclusive;

use regex::Regex;
use tacho_logdir::read::Window;
use tacho_record::Field;
use tacho_record::line::members::FieldSet;

use crate::cli::{Condition, Criterion, FilterArgs};
use crate::scan::Scan;
use crate::view::{NotTables, View};
pub use gate::Gate;
pub use value::{Pattern, Run, Value};

/// Whether a line passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fit {
    /// It does not.
    No,
    /// It says that records are missing, which might have passed: hiding it would be misleading.
    Gap,
    /// It does.
    Yes,
}

/// All filters of one call. Every line passes without a filter.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    window: Window,
    seqs: Option<RangeInclusive<u64>>,
    /// By `event`: these also apply to `lost` lines.
    events: Vec<Condition>,
    /// By other fields, those that cost the least first.
    conditions: Vec<Condition>,
    min_time_us: Option<u64>,
    /// Whether lines without a time pass in spite of `min_time_us`.
    keeps_unmeasured: bool,
    min_rows: Option<u64>,
    /// The run of [`Run::Last`]; later runs also match.
    last_run: u64,
}

impl Filter {
    /// Makes the filter of a command line.
    pub fn new(args: &FilterArgs, window: Window) -> Self {
        let all = args.fields.0.iter().cloned();
        let (events, mut conditions): (Vec<_>, Vec<_>) =
            all.partition(|condition| condition.by == Criterion::Event);
        conditions.sort_by_key(|condition| cost(condition.by));
        let us = |time: std::time::Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        Self {
            window,
            seqs: args.seq.clone(),
            events,
            conditions,
            min_time_us: args.min_time.map(us),
            keeps_unmeasured: false,
            min_rows: args.min_rows,
            last_run: 0,
        }
    }

    /// Lets lines without a time pass, for a caller that reports how many there are.
    #[must_use]
    pub fn keeping_unmeasured(self) -> Self {
        Self { keeps_unmeasured: true, ..self }
    }

    fn by(&self, by: Criterion) -> impl Iterator<Item = &Condition> {
        self.conditions.iter().filter(move |condition| condition.by == by)
    }

    /// Whether the newest run of the log must be known.
    pub fn wants_last_run(&self) -> bool {
        let is_last = |value: &Value| matches!(value, Value::Run(Run::Last));
        self.by(Criterion::Run).any(|condition| condition.values.iter().any(is_last))
    }

    /// Takes the newest run of a log. `None`: no line names its run, which is reported.
    pub fn take_last_run(&mut self, run: Option<u64>, scan: &mut Scan) {
        self.last_run = run.unwrap_or(0);
        if run.is_none() {
            scan.note("no line of this log names its run, so `last` is all of them");
        }
    }

    /// Whether lines of several runs could be mistaken for those of one connection.
    pub fn may_mix_runs(&self) -> bool {
        let is_one = |condition: &Condition| {
            !condition.is_not && matches!(condition.values[..], [Value::Run(Run::Number(_))])
        };
        self.by(Criterion::Conn).any(|condition| !condition.is_not)
            && !self.by(Criterion::Run).any(is_one)
    }

    /// The expressions that the text of a shown statement may match.
    pub fn searched_texts(&self) -> Vec<Regex> {
        let shown = self.by(Criterion::Grep).filter(|condition| !condition.is_not);
        let values = shown.flat_map(|condition| &condition.values);
        values
            .filter_map(|value| if let Value::Regex(it) = value { Some(it) } else { None })
            .cloned()
            .collect()
    }

    /// The fields of a line that [`Filter::judge`] looks at.
    pub fn fields(&self) -> FieldSet {
        let mut fields: FieldSet = [Field::ts, Field::event].into_iter().collect();
        fields.extend(self.conditions.iter().flat_map(|it| fields_of(it.by).iter().copied()));
        if self.seqs.is_some() {
            fields.extend([Field::seq]);
        }
        if self.min_time_us.is_some() {
            fields.extend([Field::query_time_us]);
        }
        if self.min_rows.is_some() {
            fields.extend([Field::rows_sent, Field::rows_affected]);
        }
        fields
    }

    /// The range of times.
    pub fn window(&self) -> Window {
        self.window
    }

    /// Whether every line of the range of times passes.
    pub fn is_by_time_only(&self) -> bool {
        self.seqs.is_none()
            && self.events.is_empty()
            && self.conditions.is_empty()
            && self.min_time_us.is_none()
            && self.min_rows.is_none()
    }

    /// Whether only chosen kinds of events pass.
    pub fn chooses_events(&self) -> bool {
        self.events.iter().any(|condition| !condition.is_not)
    }

    /// Whether a line passes.
    ///
    /// # Errors
    /// The line is broken.
    pub fn judge(&self, line: &(impl View + ?Sized)) -> Result<Fit, NotTables> {
        if !self.window.contains(line.ts()) {
            return Ok(Fit::No);
        }
        if let Some(seqs) = &self.seqs
            && !line.number(Field::seq).is_some_and(|seq| seqs.contains(&seq))
        {
            return Ok(Fit::No);
        }
        let event = line.text(Field::event);
        if !self.events.iter().all(|it| it.values.iter().any(|v| v.is_text(&event)) != it.is_not) {
            return Ok(Fit::No);
        }
        Ok(match self.passes(line)? {
            true => Fit::Yes,
            false if event == "lost" => Fit::Gap,
            false => Fit::No,
        })
    }

    /// Whether a line of the right event, time and number passes the other filters.
    fn passes(&self, line: &(impl View + ?Sized)) -> Result<bool, NotTables> {
        let number = |field| line.number(field);
        if let Some(min) = self.min_time_us {
            match number(Field::query_time_us) {
                None if !self.keeps_unmeasured => return Ok(false),
                Some(us) if us < min => return Ok(false),
                _ => {}
            }
        }
        if let Some(min) = self.min_rows
            && number(Field::rows_sent).max(number(Field::rows_affected)).is_none_or(|n| n < min)
        {
            return Ok(false);
        }
        for condition in &self.conditions {
            if self.meets(condition, line)? == condition.is_not {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether a line has one of the values of a condition.
    fn meets(&self, condition: &Condition, line: &(impl View + ?Sized)) -> Result<bool, NotTables> {
        let text = |field| {
            let text = line.text(field);
            condition.values.iter().any(|value| value.is_text(&text))
        };
        let number = |number| condition.values.iter().any(|value| value.is_number(number));
        Ok(match condition.by {
            Criterion::User => text(Field::user) || text(Field::priv_user),
            Criterion::Host => text(Field::host) || text(Field::ip),
            Criterion::Event => text(Field::event),
            Criterion::SqlCommand => text(Field::sql_command),
            Criterion::Outcome => text(Field::outcome),
            Criterion::Digest => text(Field::digest),
            Criterion::Grep => text(Field::sql),
            Criterion::Conn => number(line.number(Field::conn)),
            // A line without one is about a success.
            Criterion::Errno => number(Some(line.number(Field::errno).unwrap_or(0))),
            Criterion::Run => {
                let run = line.number(Field::run);
                condition.values.iter().any(|value| value.is_run(run, self.last_run))
            }
            Criterion::Db => text(Field::db) || uses_db(line, &condition.values)?,
            Criterion::Table => uses_table(line, &condition.values)?,
        })
    }
}

/// Whether one of the tables of a line may be one of those; only then are they parsed.
fn may_use(line: &(impl View + ?Sized), values: &[Value]) -> bool {
    values.iter().any(|value| line.tables_may_have(value.part()))
}

fn uses_db(line: &(impl View + ?Sized), values: &[Value]) -> Result<bool, NotTables> {
    if !may_use(line, values) {
        return Ok(false);
    }
    let mut found = false;
    line.tables(&mut |tables| {
        let has = |name: &str| values.iter().any(|value| value.is_text(name));
        found = tables.iter().any(|used| has(&used.db) || has(&used.new_db));
    })?;
    Ok(found)
}

fn uses_table(line: &(impl View + ?Sized), values: &[Value]) -> Result<bool, NotTables> {
    if !may_use(line, values) {
        return Ok(false);
    }
    let mut found = false;
    let mut whole = String::new();
    line.tables(&mut |tables| {
        let mut has = |db: &str, table: &str| {
            whole.clear();
            whole.extend([db, ".", table]);
            !table.is_empty() && values.iter().any(|value| value.is_text(&whole))
        };
        found = tables
            .iter()
            .any(|used| has(&used.db, &used.table) || has(&used.new_db, &used.new_table));
    })?;
    Ok(found)
}

/// The fields that a condition looks at.
const fn fields_of(by: Criterion) -> &'static [Field] {
    match by {
        Criterion::User => &[Field::user, Field::priv_user],
        Criterion::Db => &[Field::db, Field::tables],
        Criterion::Table => &[Field::tables],
        Criterion::Host => &[Field::host, Field::ip],
        Criterion::Conn => &[Field::conn],
        Criterion::Run => &[Field::run],
        Criterion::Event => &[Field::event],
        Criterion::SqlCommand => &[Field::sql_command],
        Criterion::Errno => &[Field::errno],
        Criterion::Outcome => &[Field::outcome],
        Criterion::Grep => &[Field::sql],
        Criterion::Digest => &[Field::digest],
    }
}

/// The order in which conditions are checked: numbers, words, names, lists, texts.
const fn cost(by: Criterion) -> u8 {
    match by {
        Criterion::Conn | Criterion::Run | Criterion::Errno => 0,
        Criterion::Event | Criterion::Outcome => 1,
        Criterion::User | Criterion::Host | Criterion::SqlCommand | Criterion::Digest => 2,
        Criterion::Db | Criterion::Table => 3,
        Criterion::Grep => 4,
    }
}

#[cfg(test)]
mod tests;
