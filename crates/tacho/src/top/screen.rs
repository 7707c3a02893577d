//! The lines of one update.

use jiff::Timestamp;
use unicode_width::UnicodeWidthStr as _;

use super::running::Statement;
use super::state::Top;
use super::terminal::Size;
use crate::report::answer::{Answer, Cell, Shown};
use crate::report::stats::Measure;
use crate::report::table;
use crate::say;
use crate::tail::sanitize::push_sanitized;
use crate::tail::table::took;

const HELP: &str = "\
Keys

  < >   the measure by which groups are ordered: the one before, the next one
  c     order by count           d   group by digest
  e     by errors                u   by user
  r     by rows                  h   by host
  x     by examined rows         b   by default database
  t     by the sum of the times  a   by table
  m     by the longest time      o   by sql_command
                                 n   by errno

  space pause, and continue
  q     quit

RUNNING has the statements that have not ended, whatever the filter.
The rest has those that ended in the window.

Any key: back";

/// How a line is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// As it is.
    Plain,
    /// The header of a table.
    Header,
    /// Something needs attention.
    Alert,
}

/// A line without control characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScreenLine {
    /// The text.
    pub text: String,
    /// How it is shown.
    pub style: Style,
}

/// The lines of an update, no more than there is room for.
pub fn lines(state: &Top<'_>, size: Size) -> Vec<ScreenLine> {
    let mut screen = Screen { lines: Vec::new(), size };
    if state.has_help {
        HELP.lines().for_each(|line| screen.push(Style::Plain, line));
        return screen.finish();
    }
    screen.push_ends(&title(state), &clock(state));
    screen.push(Style::Plain, &covered(state));
    for lack in lacks(state) {
        screen.push(Style::Alert, &lack);
    }
    push_running(&mut screen, state);
    push_groups(&mut screen, state);
    screen.finish()
}

/// Lines that are added one after the other.
struct Screen {
    lines: Vec<ScreenLine>,
    size: Size,
}

impl Screen {
    fn push(&mut self, style: Style, line: &str) {
        let mut text = String::new();
        push_sanitized(&mut text, line, self.size.width);
        self.lines.push(ScreenLine { text: text.trim_end().to_owned(), style });
    }

    /// A line with a text at each end.
    fn push_ends(&mut self, left: &str, right: &str) {
        let used = left.width() + right.width();
        let fill = self.size.width.map_or(2, |width| width.saturating_sub(used).max(2));
        self.push(Style::Plain, &format!("{left}{}{right}", " ".repeat(fill)));
    }

    /// A table with so many of its rows.
    fn push_table(&mut self, table: &str, row_count: usize) {
        for (number, line) in table.lines().take(row_count + 1).enumerate() {
            // Its cells are sanitized, and cut to the width.
            let style = if number == 0 { Style::Header } else { Style::Plain };
            self.lines.push(ScreenLine { text: line.to_owned(), style });
        }
    }

    /// Lines that are left.
    fn room(&self) -> usize {
        self.size.height.saturating_sub(self.lines.len())
    }

    fn finish(mut self) -> Vec<ScreenLine> {
        self.lines.truncate(self.size.height);
        self.lines
    }
}

fn title(state: &Top<'_>) -> String {
    let mut servers = state.running.servers.clone();
    servers.dedup();
    let servers = servers.iter().map(|server| format!("  {server}")).collect::<String>();
    format!("tacho top  {}{servers}", state.log())
}

fn clock(state: &Top<'_>) -> String {
    let time = Timestamp::from_microsecond(state.now_us).unwrap_or_default();
    let time = time.to_zoned(state.zone.clone()).strftime("%H:%M:%S");
    if state.is_paused { format!("PAUSED at {time}") } else { time.to_string() }
}

/// What was counted in the window.
fn covered(state: &Top<'_>) -> String {
    let all = &state.total.all;
    let seconds = state.window().as_secs_f64();
    let window = took(u64::try_from(state.window().as_micros()).unwrap_or(u64::MAX));
    if !state.is_at_end {
        return format!("reading the last {window} of the log …");
    }
    if all.count == 0 {
        return format!("no statement ended in the last {window}");
    }
    format!(
        "last {window}: {}, {:.1}/s; {}; {} of time; {} sent, {} changed",
        say::counted(all.count, "statement"),
        all.count as f64 / seconds,
        say::counted(all.errors, "error"),
        took(all.time_us),
        say::counted(all.rows_sent, "row"),
        say::grouped(all.rows_affected),
    )
}

/// What the result lacks.
fn lacks(state: &Top<'_>) -> Vec<String> {
    let gaps = &state.total.gaps;
    let mut lacks: Vec<String> = state.running.problem.iter().cloned().collect();
    if gaps.lost_lines > 0 {
        let causes: Vec<&str> = gaps.causes.keys().map(String::as_str).collect();
        let records = say::counted(gaps.lost_records, "record");
        lacks.push(format!("LOST in this time: {records} ({})", causes.join(", ")));
    }
    lacks.extend(state.messages.iter().cloned());
    lacks
}

fn push_running(screen: &mut Screen, state: &Top<'_>) {
    let statements = &state.running.statements;
    screen.push(Style::Plain, "");
    screen.push(Style::Plain, &format!("RUNNING: {}", statements.len()));
    if statements.is_empty() {
        return;
    }
    // The groups get the larger part.
    let most = (screen.room() / 3).max(3);
    let rows = statements.iter().take(most).map(|one| cells(one, state.now_us)).collect();
    let table = table::format(&Answer::of_running(rows), screen.size.width, &state.zone);
    screen.push_table(&table, most);
    if statements.len() > most {
        let rest = say::grouped((statements.len() - most) as u64);
        screen.push(Style::Plain, &format!("… and {rest} more"));
    }
}

fn cells(statement: &Statement, now_us: i64) -> Vec<Cell> {
    let text = |text: &str| Cell::Text(text.to_owned());
    // One that began after the clock was read.
    let took_us = now_us.saturating_sub(statement.ts_us).max(0);
    let took = match u64::try_from(took_us) {
        Ok(us) if statement.ts_us != i64::MAX => Cell::Duration(us),
        _ => Cell::Missing,
    };
    vec![
        Cell::Number(statement.conn),
        text(&statement.user),
        text(&statement.host),
        text(&statement.db),
        took,
        text(&statement.text),
    ]
}

fn push_groups(screen: &mut Screen, state: &Top<'_>) {
    screen.push(Style::Plain, "");
    let by: Vec<&str> = state.query.by.iter().map(|by| by.name()).collect();
    let order = measure_name(state.query.sort);
    screen.push(Style::Plain, &format!("ENDED, by {}, ordered by {order}", by.join(", ")));
    // The last line has the keys.
    let room = screen.room().saturating_sub(2);
    let mut answer = Answer::of(&state.query, state.total.clone(), room.max(1));
    hide_columns(&mut answer, screen.size.width, state.query.sort);
    let table = table::format(&answer, screen.size.width, &state.zone);
    screen.push_table(&table, room);
    if answer.folded.count > 0 {
        let count = say::counted(answer.folded.stats.count, "statement");
        screen.push(Style::Plain, &format!("{count} in small groups that are not shown"));
    }
    if screen.size.width.is_some() {
        while screen.room() > 1 {
            screen.push(Style::Plain, "");
        }
        screen.lines.truncate(screen.size.height.saturating_sub(1));
        screen
            .push(Style::Plain, "q quit   < > order   d u h b a o n group   space pause   ? help");
    }
}

/// Makes room for the statement in a narrow terminal. The column of the order stays.
fn hide_columns(answer: &mut Answer, width: Option<usize>, sort: Measure) {
    let Some(width) = width.filter(|_| answer.columns.iter().any(|c| c.name == "statement")) else {
        return;
    };
    for (at_least, name, measure) in [
        (140, "p50_us", Measure::P50),
        (140, "p99_us", Measure::P99),
        (120, "rows_examined", Measure::Examined),
        (90, "max_us", Measure::Max),
        (80, "rows", Measure::Rows),
    ] {
        for column in &mut answer.columns {
            if width < at_least && column.name == name && sort != measure {
                column.shown = Shown::Data;
            }
        }
    }
}

fn measure_name(measure: Measure) -> &'static str {
    match measure {
        Measure::Count => "count",
        Measure::Errors => "errors",
        Measure::Rows => "rows",
        Measure::Examined => "examined rows",
        Measure::Time => "time",
        Measure::P50 => "p50",
        Measure::P95 => "p95",
        Measure::P99 => "p99",
        Measure::Max => "longest time",
    }
}
