//! The answer to a question: columns and rows of values, independent of their format.

use tacho_record::charset::{Charset, restore};
use tacho_sql::digest::{Normaliser, TEXT_BYTES_DEFAULT};
use tacho_sql::redact::Setting;
use tacho_sql::{Doubt, Mode};

use super::groups::{Folded, Group};
use super::key::{By, Keys};
use super::list::Row;
use super::query::{Query, Subject};
use super::tally::Counted;

/// A value of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cell {
    /// Not known.
    Missing,
    /// A text or a word; empty: the lines have none.
    Text(String),
    /// A digest with its version.
    Digest(String),
    /// A number.
    Number(u64),
    /// A duration, µs.
    Duration(u64),
    /// A moment, µs since 1970-01-01 UTC.
    Time(i64),
}

/// Where a column is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    /// Everywhere.
    All,
    /// Only in the table for people.
    Table,
    /// Only in JSON and CSV.
    Data,
}

/// A column.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// Its name in the table.
    pub header: &'static str,
    /// Its name in JSON and CSV.
    pub name: &'static str,
    /// Where it is shown.
    pub shown: Shown,
    what: What,
}

/// What a column of groups has.
#[derive(Clone, Copy, Debug, PartialEq)]
enum What {
    Key(usize),
    Count,
    Succeeded,
    Errors,
    Rows,
    RowsSent,
    RowsAffected,
    RowsExamined,
    Time,
    Quantile(f64),
    Max,
    First,
    Last,
    Duration,
    State,
    Kept(usize),
    Host,
    Statement,
}

const fn column(header: &'static str, name: &'static str, shown: Shown, what: What) -> Column {
    Column { header, name, shown, what }
}

const FIGURES: [Column; 14] = [
    column("COUNT", "count", Shown::All, What::Count),
    column("ERRORS", "errors", Shown::All, What::Errors),
    column("ROWS", "rows", Shown::Table, What::Rows),
    column("", "rows_sent", Shown::Data, What::RowsSent),
    column("", "rows_affected", Shown::Data, What::RowsAffected),
    column("EXAMINED", "rows_examined", Shown::All, What::RowsExamined),
    column("TIME", "query_time_us", Shown::All, What::Time),
    column("P50", "p50_us", Shown::All, What::Quantile(0.5)),
    column("P95", "p95_us", Shown::All, What::Quantile(0.95)),
    column("P99", "p99_us", Shown::All, What::Quantile(0.99)),
    column("MAX", "max_us", Shown::All, What::Max),
    column("", "first", Shown::Data, What::First),
    column("", "last", Shown::Data, What::Last),
    column("STATEMENT", "statement", Shown::All, What::Statement),
];

const LOGINS: [Column; 5] = [
    column("LOGINS", "logins", Shown::All, What::Succeeded),
    column("FAILED", "failed", Shown::All, What::Errors),
    column("FIRST", "first", Shown::All, What::First),
    column("LAST", "last", Shown::All, What::Last),
    column("LAST ERROR", "error", Shown::All, What::Kept(0)),
];

const ERRORS: [Column; 4] = [
    column("COUNT", "count", Shown::All, What::Count),
    column("FIRST", "first", Shown::All, What::First),
    column("LAST", "last", Shown::All, What::Last),
    column("LAST MESSAGE", "error", Shown::All, What::Kept(0)),
];

const SESSIONS: [Column; 13] = [
    column("USER", "user", Shown::All, What::Kept(0)),
    column("HOST", "host", Shown::All, What::Host),
    column("PROGRAM", "program", Shown::Data, What::Kept(3)),
    column("FROM", "first", Shown::All, What::First),
    column("", "last", Shown::Data, What::Last),
    column("STATE", "state", Shown::All, What::State),
    column("DURATION", "duration_us", Shown::All, What::Duration),
    column("STATEMENTS", "count", Shown::All, What::Count),
    column("ERRORS", "errors", Shown::All, What::Errors),
    column("ROWS", "rows", Shown::Table, What::Rows),
    column("", "rows_sent", Shown::Data, What::RowsSent),
    column("", "rows_affected", Shown::Data, What::RowsAffected),
    column("TIME", "query_time_us", Shown::All, What::Time),
];

/// Columns of a list, whose values [`list_cells`] makes.
const LIST: [Column; 10] = [
    column("TIME", "ts", Shown::All, What::First),
    column("", "seq", Shown::Data, What::Count),
    column("USER", "user", Shown::All, What::Key(0)),
    column("HOST", "host", Shown::All, What::Key(0)),
    column("DB", "db", Shown::All, What::Key(0)),
    column("RESULT", "", Shown::Table, What::Key(0)),
    column("", "outcome", Shown::Data, What::Key(0)),
    column("", "errno", Shown::Data, What::Count),
    column("COMMAND", "sql_command", Shown::All, What::Key(0)),
    column("STATEMENT", "sql", Shown::All, What::Key(0)),
];

/// Columns of the statements that run, whose values `tacho top` makes.
const RUNNING: [Column; 6] = [
    column("CONN", "conn", Shown::All, What::Count),
    column("USER", "user", Shown::All, What::Key(0)),
    column("HOST", "host", Shown::All, What::Key(0)),
    column("DB", "db", Shown::All, What::Key(0)),
    column("TIME", "query_time_us", Shown::All, What::Duration),
    column("STATEMENT", "sql", Shown::All, What::Key(0)),
];

/// The answer.
#[derive(Debug)]
pub struct Answer {
    /// The columns, of all formats.
    pub columns: Vec<Column>,
    /// A value for each column.
    pub rows: Vec<Vec<Cell>>,
    /// How many rows there are, shown or not.
    pub row_count: u64,
    /// Groups that did not fit into memory.
    pub folded: Folded,
}

impl Answer {
    /// Statements that run, with a value for each of the columns of `RUNNING`.
    pub fn of_running(rows: Vec<Vec<Cell>>) -> Self {
        let row_count = rows.len() as u64;
        Self { columns: RUNNING.to_vec(), rows, row_count, folded: Folded::default() }
    }

    /// The largest groups, or the newest rows.
    pub fn of(query: &Query, counted: Counted, top: usize) -> Self {
        let columns = columns(query);
        let limit = if top == 0 { usize::MAX } else { top };
        if query.is_list() {
            let (rows, dropped) = counted.rows.sorted();
            let row_count = rows.len() as u64 + dropped;
            let rows = rows.iter().map(list_cells).collect();
            return Self { columns, rows, row_count, folded: Folded::default() };
        }
        let (groups, folded) = counted.groups.sorted(query.sort);
        let row_count = groups.len() as u64;
        let mut cells = Cells { query, normaliser: Normaliser::default() };
        let rows = groups
            .iter()
            .take(limit)
            .map(|(key, group)| columns.iter().map(|c| cells.of(c.what, key, group)).collect())
            .collect();
        Self { columns, rows, row_count, folded }
    }
}

fn columns(query: &Query) -> Vec<Column> {
    let figures: &[Column] = match query.subject {
        Subject::Ddl | Subject::Grants => return LIST.to_vec(),
        Subject::Statements | Subject::Slow => &FIGURES,
        Subject::Logins => &LOGINS,
        Subject::Errors => &ERRORS,
        Subject::Sessions => &SESSIONS,
    };
    let keys = query
        .by
        .iter()
        .enumerate()
        .map(|(index, by)| column(header(*by), by.name(), Shown::All, What::Key(index)));
    let has_statement = !query.keep.is_empty();
    let figures = figures.iter().filter(|c| c.what != What::Statement || has_statement);
    keys.chain(figures.copied()).collect()
}

fn header(by: By) -> &'static str {
    match by {
        By::User => "USER",
        By::Host => "HOST",
        By::Db => "DB",
        By::Table => "TABLE",
        By::SqlCommand => "COMMAND",
        By::Digest => "DIGEST",
        By::Errno => "ERRNO",
        By::Hour => "HOUR",
        By::Session => "RUN/CONN",
    }
}

/// Makes the values of groups.
struct Cells<'a> {
    query: &'a Query,
    normaliser: Normaliser,
}

impl Cells<'_> {
    fn of(&mut self, what: What, key: &[u8], group: &Group) -> Cell {
        let stats = &group.stats;
        let us = |us: Option<u64>| us.map_or(Cell::Missing, Cell::Duration);
        let kept = |index| Cell::Text(group.kept.text(index).to_owned());
        match what {
            What::Key(index) => {
                let value = Keys::values(key).nth(index).unwrap_or_default();
                match (self.query.by.get(index), value.parse()) {
                    (Some(By::Errno), Ok(number)) => Cell::Number(number),
                    (Some(By::Digest), _) => Cell::Digest(value.into_owned()),
                    _ => Cell::Text(value.into_owned()),
                }
            }
            What::Count => Cell::Number(stats.count),
            What::Succeeded => Cell::Number(stats.count - stats.errors),
            What::Errors => Cell::Number(stats.errors),
            What::Rows => Cell::Number(stats.rows()),
            What::RowsSent => Cell::Number(stats.rows_sent),
            What::RowsAffected => Cell::Number(stats.rows_affected),
            What::RowsExamined => Cell::Number(stats.rows_examined),
            What::Time => Cell::Duration(stats.time_us),
            What::Quantile(q) => us(stats.quantile_us(q)),
            What::Max => us(stats.quantile_us(1.0)),
            What::First => Cell::Time(stats.first_us),
            What::Last => Cell::Time(stats.last_us),
            What::Duration => {
                us(stats.last_us.checked_sub(stats.first_us).and_then(|us| us.try_into().ok()))
            }
            What::State => Cell::Text(state(group).to_owned()),
            What::Kept(index) => kept(index),
            What::Host if group.kept.text(1).is_empty() => kept(2),
            What::Host => kept(1),
            What::Statement => Cell::Text(self.statement(group.kept.text(0), group.kept.text(1))),
        }
    }

    /// The text of a digest, from one of its statements: without literals.
    fn statement(&mut self, sql: &str, charset_name: &str) -> String {
        let name = charset_name.as_bytes();
        let charset = Charset::by_name(name).unwrap_or(Charset::BINARY);
        let Some(mode) = Setting::of(name, b"").digest_mode() else { return sql.to_owned() };
        // Of a text with bytes that are no characters, or one that was cut, an approximation.
        let Ok(bytes) = restore(sql, None, charset) else { return sql.to_owned() };
        let mode = Mode { escapes: true, escapes_in_double: true, doubt: Doubt::Guess, ..mode };
        let normalised = self.normaliser.normalise(&bytes, mode, TEXT_BYTES_DEFAULT);
        let mut text = Vec::new();
        let _ = charset.decode(normalised.text, &mut text);
        String::from_utf8_lossy(&text).into_owned()
    }
}

/// What is known of the ends of a session.
fn state(group: &Group) -> &'static str {
    match (group.has_begun, group.has_ended) {
        (true, true) => "closed",
        (true, false) => "no end",
        (false, true) => "no login",
        (false, false) => "part",
    }
}

fn list_cells(row: &Row) -> Vec<Cell> {
    let text = |text: &str| Cell::Text(text.to_owned());
    // As in the table of `tacho tail`.
    let result = match row.errno {
        0 => row.outcome.clone(),
        errno => errno.to_string(),
    };
    vec![
        Cell::Time(row.ts_us),
        Cell::Number(row.seq),
        text(&row.user),
        text(&row.host),
        text(&row.db),
        Cell::Text(result),
        text(&row.outcome),
        Cell::Number(row.errno),
        text(&row.sql_command),
        text(&row.sql),
    ]
}
