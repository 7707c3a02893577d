//! Lines as columns.
//!
//! On a terminal a line is one row of its width. In a pipe nothing is cut and times are complete,
//! so that `grep` and `less -S` have all of it.

use anstyle::Style;
use tacho_record::Line;

use super::row::{Align, BAD, DIM, GAP, KIND, Look, OPEN, PLAIN, Role, Row, TIME_FORMAT};
use crate::say;

/// In a narrower table the columns DB and ROWS and the date are omitted in favour of the statement.
const WIDE_COLUMNS: usize = 110;

/// Formats rows.
#[derive(Debug)]
pub struct Table {
    look: Look,
}

impl Table {
    /// Makes a table.
    pub fn new(look: Look) -> Self {
        Self { look }
    }

    fn is_wide(&self) -> bool {
        self.look.width.is_none_or(|width| width >= WIDE_COLUMNS)
    }

    /// The names of the columns.
    pub fn header(&self) -> String {
        let names = ["TIME", "CONN", "USER", "DB", "RESULT", "COMMAND", "TOOK", "ROWS"];
        let mut row = self.row(names, [DIM; 8], Role::Context);
        row.styled("SQL", DIM);
        row.finish()
    }

    fn row(&self, cells: [&str; 8], styles: [Style; 8], role: Role) -> Row {
        use Align::{Left, Right};
        let aligns = [Left, Right, Left, Left, Left, Left, Right, Right];
        let mut row = Row::new(&self.look, role);
        for (index, width) in self.widths().into_iter().enumerate() {
            if width > 0 {
                row.cell(cells[index], width, aligns[index], styles[index]);
            }
        }
        row
    }

    /// Widths of the columns before the statement; a column of width 0 is omitted.
    fn widths(&self) -> [usize; 8] {
        match self.look.width {
            None => [32, 6, 16, 16, 11, 14, 7, 7],
            Some(_) if self.is_wide() => [18, 6, 10, 10, 11, 12, 7, 6],
            Some(_) => [12, 6, 10, 0, 11, 10, 7, 0],
        }
    }

    /// The row of a line, with its line end.
    pub fn format(&self, line: &Line, role: Role) -> String {
        let (result, result_style) = result(line);
        let command: &str = if line.event != "statement" {
            &line.event
        } else if line.sql_command.is_empty() {
            &line.command
        } else {
            &line.sql_command
        };
        let number = |n: Option<u64>| n.map(|n| n.to_string()).unwrap_or_default();
        let gap = line.event == "lost";
        let mut row = self.row(
            [
                &self.time(line),
                &number(line.conn),
                &line.user,
                &line.db,
                &result,
                command,
                &line.query_time_us.map(took).unwrap_or_default(),
                &number(line.rows_affected.or(line.rows_sent)),
            ],
            [DIM, PLAIN, PLAIN, PLAIN, result_style, if gap { GAP } else { KIND }, DIM, DIM],
            role,
        );
        row.rest(&detail(line), if gap { GAP } else { PLAIN }, &self.look, line.sql_text());
        row.finish()
    }

    fn time(&self, line: &Line) -> String {
        let format = match self.look.width {
            Some(_) if self.is_wide() => "%m-%d %H:%M:%S.%3f",
            Some(_) => "%H:%M:%S.%3f",
            None => TIME_FORMAT,
        };
        line.ts.to_zoned(self.look.zone.clone()).strftime(format).to_string()
    }
}

fn result(line: &Line) -> (String, Style) {
    match &*line.outcome {
        "error" if line.errno != 0 => (line.errno.to_string(), BAD),
        "error" => ("error".to_owned(), BAD),
        "running" => ("running".to_owned(), OPEN),
        "interrupted" => (line.outcome.to_string(), BAD),
        other => (other.to_owned(), PLAIN),
    }
}

/// The last column: the statement, or a description of another event.
fn detail<'a>(line: &'a Line) -> std::borrow::Cow<'a, str> {
    let mut text = String::new();
    let mut add = |name: &str, value: &str| {
        if !value.is_empty() {
            if !text.is_empty() {
                text.push(' ');
            }
            text.push_str(name);
            text.push_str(value);
        }
    };
    match &*line.event {
        _ if !line.sql_text().is_empty() => return line.sql_text().into(),
        "lost" => {
            let records =
                line.count.map_or_else(|| "some records".to_owned(), |n| say::counted(n, "record"));
            add("", &format!("{records} lost"));
            add("cause=", &line.cause);
        }
        "connect" | "change_user" | "connect_failed" => {
            add("host=", &line.host);
            add("ip=", &line.ip);
            add("tls=", &line.tls);
            add("", &line.error);
        }
        "notice" => {
            add("", &line.class);
            add("", &line.action);
            add("", &line.object);
            add("", &line.producer);
            add("", &line.detail);
            for attribute in &line.attributes {
                add("", &format!("{}={}", attribute.key, attribute.value));
            }
        }
        "table" => {
            for table in &line.tables {
                add("", &format!("{} {}.{}", table.access, table.db, table.table));
                if !table.new_table.is_empty() {
                    add("-> ", &format!("{}.{}", table.new_db, table.new_table));
                }
            }
        }
        "config" => {
            // In one line: filters have several.
            let shown = |value: &str| {
                let words: Vec<&str> = value.split_whitespace().collect();
                if words.is_empty() { "''".to_owned() } else { words.join(" ") }
            };
            let (old, new) = (shown(&line.old_value), shown(&line.new_value));
            add("", &format!("{}: {old} -> {new}", &*line.variable));
        }
        _ => {
            add("", &line.server);
            if let Some(seq) = line.running_seq {
                let does = if line.outcome == "running" { "continues" } else { "ends" };
                add("", &format!("({does} the statement of line seq {seq})"));
            }
            add("", &line.error);
        }
    }
    text.into()
}

/// A duration in at most seven columns, for anything under ten thousand hours.
pub fn took(us: u64) -> String {
    let (ms, s) = (us / 1000, us / 1_000_000);
    match us {
        0..1_000 => format!("{us}µs"),
        1_000..10_000 => format!("{ms}.{:02}ms", us % 1000 / 10),
        10_000..100_000 => format!("{ms}.{}ms", us % 1000 / 100),
        100_000..1_000_000 => format!("{ms}ms"),
        1_000_000..60_000_000 => format!("{s}.{:02}s", us % 1_000_000 / 10_000),
        60_000_000..3_600_000_000 => format!("{}m{:02}s", s / 60, s % 60),
        _ => format!("{}h{:02}m", s / 3600, s / 60 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::tz::TimeZone;
    use std::fmt::Write as _;
    use unicode_width::UnicodeWidthStr as _;

    fn table(width: Option<usize>, color: bool, zone: TimeZone) -> Table {
        Table::new(Look { width, color, zone, marks: false, searched: Vec::new() })
    }

    fn line(fields: &str) -> String {
        format!(
            r#"{{"v":1,"seq":9,"ts":"2026-11-21T10:00:00.123456+01:00","conn":12,"user":"app","db":"shop",{fields}}}"#
        )
    }

    fn show(width: Option<usize>, color: bool, fields: &str) -> String {
        let zone = TimeZone::fixed(jiff::tz::offset(1));
        let text = line(fields);
        table(width, color, zone).format(&Line::parse(text.as_bytes()).unwrap(), Role::Match)
    }

    const SELECT: &str = r#""event":"statement","outcome":"ok","sql_command":"select","sql":"SELECT 1\nFROM t","rows_sent":3,"query_time_us":1234"#;

    #[test]
    fn columns_are_under_their_names() {
        let table = table(Some(120), false, TimeZone::UTC);
        let header = table.header();
        let row = show(Some(120), false, SELECT);
        assert_eq!(
            row,
            "11-21 10:00:00.123     12 app        shop       ok          select        1.23ms      3 \
             SELECT 1\\nFROM t\n"
        );
        for (name, value) in [("USER", "app"), ("DB", "shop"), ("SQL", "SELECT")] {
            assert_eq!(header.find(name), row.find(value), "{name}");
        }
    }

    #[test]
    fn rows_are_cut_to_the_terminal() {
        let long = format!(
            r#""event":"statement","outcome":"ok","sql_command":"select","sql":"{}""#,
            "長い x ".repeat(100)
        );
        for width in 80..200 {
            let row = show(Some(width), false, &long);
            let used = row.trim_end_matches('\n').width();
            assert!((width - 1..=width).contains(&used), "{width}: {used}");
        }
        let piped = show(None, false, &long);
        assert!(piped.trim_end().ends_with("長い x"));
        assert!(piped.starts_with("2026-11-21T10:00:00.123456+01:00 "));
    }

    #[test]
    fn outcomes() {
        let result = |fields: &str| {
            let row = show(None, false, fields);
            row.split_whitespace().last().unwrap().to_owned()
        };
        assert_eq!(result(r#""event":"statement","outcome":"error","errno":1064"#), "1064");
        assert_eq!(result(r#""event":"statement","outcome":"running""#), "running");
        assert_eq!(result(r#""event":"statement","outcome":"interrupted""#), "interrupted");
    }

    #[test]
    fn other_events_say_what_they_are_about() {
        let gap = show(None, false, r#""event":"lost","count":17,"cause":"dropped""#);
        assert!(gap.contains(" lost ") && gap.ends_with("17 records lost cause=dropped\n"));
        let connect = show(None, false, r#""event":"connect","outcome":"ok","host":"web1""#);
        assert!(connect.ends_with("host=web1\n"), "{connect}");
        let config = show(
            None,
            false,
            r#""event":"config","variable":"tacho_logging","old_value":"ON","new_value":"OFF""#,
        );
        assert!(config.ends_with("tacho_logging: ON -> OFF\n"));
        let end = show(None, false, r#""event":"statement","outcome":"ok","running_seq":4"#);
        assert!(end.ends_with("(ends the statement of line seq 4)\n"));
    }

    #[test]
    fn no_field_can_reach_the_terminal() {
        let evil = r"\u001b]0;owned\u0007\u009b2J\r\n\u202e";
        for event in ["statement", "connect", "lost", "config", "start", evil] {
            let mut fields = format!(r#""event":"{event}""#);
            for name in [
                "outcome",
                "priv_user",
                "host",
                "ip",
                "command",
                "sql_command",
                "error",
                "cause",
                "server",
                "tls",
                "variable",
                "old_value",
                "new_value",
            ] {
                write!(fields, r#","{name}":"{evil}""#).unwrap();
            }
            for sql in ["", &format!(r#","sql":"{evil}""#)] {
                for width in [None, Some(80), Some(130)] {
                    let row = show(width, false, &format!("{fields}{sql}"));
                    let body = row.strip_suffix('\n').unwrap();
                    assert!(!body.contains(|c: char| c.is_control() || c == '\u{202e}'), "{row}");
                }
            }
        }
    }

    #[test]
    fn colours_are_our_own_and_end_in_the_row() {
        let row = show(Some(120), true, r#""event":"statement","outcome":"error","errno":1"#);
        assert!(row.contains("\u{1b}[31m1\u{1b}[0m"), "{row:?}");
        assert!(!show(Some(120), false, SELECT).contains('\u{1b}'));
    }

    #[test]
    fn durations_fit() {
        for (us, text) in [
            (0, "0µs"),
            (999, "999µs"),
            (1_234, "1.23ms"),
            (99_999, "99.9ms"),
            (999_999, "999ms"),
            (1_500_000, "1.50s"),
            (59_999_999, "59.99s"),
            (61_000_000, "1m01s"),
            (3_660_000_000, "1h01m"),
        ] {
            assert_eq!(took(us), text);
            assert!(took(us).width() <= 7);
        }
    }
}
