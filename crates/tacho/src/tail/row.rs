//! Rows of a table, for people.

use std::fmt::Write as _;
use std::ops::Range;

use anstyle::{AnsiColor, Style};
use jiff::tz::TimeZone;
use regex::Regex;

use super::sanitize::{push_sanitized, sanitize_ranges};

pub const PLAIN: Style = Style::new();
pub const DIM: Style = Style::new().dimmed();
pub const BAD: Style = AnsiColor::Red.on_default();
pub const OPEN: Style = AnsiColor::Yellow.on_default();
pub const KIND: Style = AnsiColor::Cyan.on_default();
pub const GAP: Style = AnsiColor::Red.on_default().bold();
/// What a filter searched for.
const FOUND: Style = AnsiColor::Magenta.on_default().bold();

/// A complete time.
pub const TIME_FORMAT: &str = "%Y-%m-%dT%H:%M:%S.%6f%:z";

/// The last column gets at least this much, even if the row is then too long.
const LAST_COLUMNS_MIN: usize = 16;

/// The form of all rows of a table.
#[derive(Clone, Debug)]
pub struct Look {
    /// `None`: nothing is cut.
    pub width: Option<usize>,
    /// Whether there are colours.
    pub color: bool,
    /// The reader's zone.
    pub zone: TimeZone,
    /// Whether lines that match have a mark, because others are shown, too.
    pub marks: bool,
    /// What is highlighted in statements.
    pub searched: Vec<Regex>,
}

/// Why a line is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It passes the filters.
    Match,
    /// It is near one that does; also the header.
    Context,
}

/// The alignment of a column.
#[derive(Clone, Copy)]
pub enum Align {
    Left,
    Right,
}

/// A row under construction.
pub struct Row {
    text: String,
    columns: usize,
    color: bool,
    /// Whether a text that is longer than its column is cut.
    is_cut: bool,
}

impl Row {
    /// Begins with the mark, if there are marks.
    pub fn new(look: &Look, role: Role) -> Self {
        let text = match (look.marks, role) {
            (false, _) => "",
            (true, Role::Match) => "> ",
            (true, Role::Context) => "  ",
        };
        let is_cut = look.width.is_some();
        Self { text: text.to_owned(), columns: text.len(), color: look.color, is_cut }
    }

    /// A column of a width, with a space after it. A number is never cut: it would be another
    /// number. A name is cut on a terminal.
    pub fn cell(&mut self, text: &str, width: usize, align: Align, style: Style) {
        let mut shown = String::new();
        let cut = (self.is_cut && matches!(align, Align::Left)).then_some(width);
        let used = push_sanitized(&mut shown, text, cut);
        let fill = width.saturating_sub(used);
        let (before, after) = match align {
            Align::Left => (0, fill),
            Align::Right => (fill, 0),
        };
        self.space(before);
        self.styled(&shown, style);
        self.space(after + 1);
        self.columns += used + fill + 1;
    }

    /// The last column, which gets the rest of the width. `sql`: the statement, if the text is one.
    pub fn rest(&mut self, text: &str, style: Style, look: &Look, sql: &str) {
        let width = look.width.map(|it| it.saturating_sub(self.columns).max(LAST_COLUMNS_MIN));
        self.searched(text, width, style, if sql.is_empty() { &[] } else { &look.searched });
    }

    /// A text of any length, with what was searched for.
    pub fn searched(&mut self, text: &str, width: Option<usize>, style: Style, searched: &[Regex]) {
        let found = if self.color { found(text, searched) } else { Vec::new() };
        let (shown, places) = sanitize_ranges(text, &found, width);
        let mut done = 0;
        for place in places {
            self.styled(&shown[done..place.start], style);
            self.styled(&shown[place.clone()], FOUND);
            done = place.end;
        }
        self.styled(&shown[done..], style);
    }

    /// A text that is safe.
    pub fn styled(&mut self, text: &str, style: Style) {
        if self.color && !text.is_empty() && style != Style::new() {
            write!(self.text, "{style}{text}{style:#}").expect("a String takes all text");
        } else {
            self.text.push_str(text);
        }
    }

    fn space(&mut self, count: usize) {
        self.text.extend(std::iter::repeat_n(' ', count));
    }

    /// The row, with its line end.
    pub fn finish(mut self) -> String {
        self.text.truncate(self.text.trim_end_matches(' ').len());
        self.text.push('\n');
        self.text
    }
}

/// The parts of a text that one of the expressions matches, in order and without overlaps.
fn found(text: &str, searched: &[Regex]) -> Vec<Range<usize>> {
    let matches = searched.iter().flat_map(|regex| regex.find_iter(text));
    let mut all: Vec<Range<usize>> = matches.map(|it| it.range()).collect();
    all.retain(|range| !range.is_empty());
    all.sort_unstable_by_key(|range| range.start);
    let mut merged: Vec<Range<usize>> = Vec::new();
    for range in all {
        match merged.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => merged.push(range),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rest(color: bool, searched: &[&str], width: Option<usize>, text: &str) -> String {
        let searched = searched.iter().map(|text| Regex::new(text).unwrap()).collect();
        let look = Look { width, color, zone: TimeZone::UTC, marks: false, searched };
        let mut row = Row::new(&look, Role::Match);
        row.rest(text, PLAIN, &look, text);
        row.finish()
    }

    #[test]
    fn what_was_searched_for_is_highlighted() {
        let on = "\u{1b}[1m\u{1b}[35m";
        let off = "\u{1b}[0m";
        let marked = rest(true, &["b+", "bc"], None, "abbc b");
        assert_eq!(marked, format!("a{on}bbc{off} {on}b{off}\n"));
        assert_eq!(rest(false, &["b+"], None, "abbc"), "abbc\n");
        // An empty match marks nothing, and a cut one ends with the text.
        assert_eq!(rest(true, &["x*"], None, "abc"), "abc\n");
        let cut = rest(true, &["b{20}"], Some(16), &format!("a{}", "b".repeat(20)));
        assert_eq!(cut, format!("a{on}{}…{off}\n", "b".repeat(14)));
        // The text has no escape sequence of its own.
        assert_eq!(rest(true, &["x"], None, "\u{1b}[31mx"), format!("\\e[31m{on}x{off}\n"));
    }
}
