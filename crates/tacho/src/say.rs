//! Output for users: results on stdout, problems on stderr, both safe on a terminal.

use std::fmt::Display;
use std::io::{self, IsTerminal as _, Write};
use std::sync::Arc;

use serde::Serialize;
use tacho_record::time::TimeFormatter;
use tacho_ship::report::Report;
pub use tacho_ship::words::{counted, grouped};
use unicode_width::UnicodeWidthStr as _;

use crate::tail::sanitize::{push_sanitized, sanitize};

/// Writes one line of the result.
///
/// # Errors
/// Stdout cannot be written.
pub fn result(text: &str) -> io::Result<()> {
    write_line(sanitize(text).as_bytes())
}

/// Writes one JSON object as a line, for programs: with JSON's own escapes only.
///
/// # Errors
/// Stdout cannot be written.
pub fn json(value: &impl Serialize) -> io::Result<()> {
    write_line(&serde_json::to_vec(value)?)
}

fn write_line(text: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text)?;
    out.write_all(b"\n")?;
    // Line by line, in order with stderr: a line reports that something has been done.
    out.flush()
}

/// Warns about a spelling that a later release rejects.
pub fn old_spelling(text: impl Display) {
    problem(format_args!("warning: {text}; the old form works in this release only"));
}

/// Reports a problem.
pub fn problem(text: impl Display) {
    // A closed stderr must not stop a recovery; the exit code still reports the problem.
    let _ = writeln!(io::stderr(), "tacho: {}", sanitize(&text.to_string()));
}

/// [`problem`] for libraries.
pub fn reporter() -> Report {
    Arc::new(|text| problem(text))
}

/// A clock for displayed times, in the reader's zone; in UTC if there is none.
pub fn clock() -> TimeFormatter {
    TimeFormatter::system().unwrap_or_else(|error| {
        problem(format!("{error}; times are in UTC"));
        TimeFormatter::utc()
    })
}

/// The gap of a capture that encrypted connections are.
pub fn not_seen(encrypted: u64) -> String {
    let are = if encrypted == 1 { "is" } else { "are" };
    let connections = counted(encrypted, "connection");
    format!("{connections} {are} encrypted: their statements are not seen")
}

/// Milliseconds as text, in the unit that fits.
pub fn age(age_ms: i64) -> String {
    let whole =
        |unit_ms: i64, name: &str| format!("{} {name}", grouped((age_ms / unit_ms).unsigned_abs()));
    match age_ms {
        ..1_000 => format!("{age_ms} ms"),
        1_000..120_000 => format!("{}.{} s", age_ms / 1_000, age_ms / 100 % 10),
        120_000..7_200_000 => whole(60_000, "min"),
        7_200_000..172_800_000 => whole(3_600_000, "hours"),
        _ => whole(86_400_000, "days"),
    }
}

/// A number of bytes as text, in the unit that fits.
pub fn bytes(bytes: u64) -> String {
    let mut unit = 1_000;
    for name in ["kB", "MB", "GB", "TB", "PB"] {
        if bytes >= unit && (bytes < unit * 1_000 || name == "PB") {
            return format!("{}.{} {name}", grouped(bytes / unit), bytes / (unit / 10) % 10);
        }
        unit *= 1_000;
    }
    counted(bytes, "byte")
}

/// Writes rows as lines with columns, which are cut to the width of a terminal. The columns of
/// `right` have their values on the right.
///
/// # Errors
/// Stdout cannot be written.
pub fn rows<const N: usize>(rows: &[[String; N]], right: &[usize]) -> io::Result<()> {
    let is_terminal = io::stdout().is_terminal();
    let size = is_terminal.then(|| terminal_size::terminal_size_of(io::stdout())).flatten();
    let width = size.map(|(width, _)| usize::from(width.0)).filter(|width| *width > 0);
    for line in table(rows, right) {
        let mut text = String::new();
        push_sanitized(&mut text, &line, width);
        write_line(text.as_bytes())?;
    }
    Ok(())
}

fn table<const N: usize>(rows: &[[String; N]], right: &[usize]) -> Vec<String> {
    let widths: [usize; N] =
        std::array::from_fn(|at| rows.iter().map(|row| row[at].width()).max().unwrap_or(0));
    let line = |row: &[String; N]| {
        let mut line = String::new();
        for (at, cell) in row.iter().enumerate() {
            let fill = " ".repeat(widths[at].saturating_sub(cell.width()));
            let (before, behind) = if right.contains(&at) { (&*fill, "") } else { ("", &*fill) };
            line.push_str(&format!("{before}{cell}{behind}  "));
        }
        line.trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

/// The text of a time, µs since 1970-01-01 UTC.
pub fn time(clock: &mut TimeFormatter, time_us: i64) -> String {
    String::from_utf8_lossy(clock.format(time_us)).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_have_fitting_units() {
        assert_eq!(age(-5), "-5 ms");
        assert_eq!(age(1_250), "1.2 s");
        assert_eq!(age(120_000), "2 min");
        assert_eq!(age(7_200_000), "2 hours");
        assert_eq!(age(172_800_000), "2 days");
        assert_eq!(age(i64::MAX), "106,751,991,167 days");
    }

    #[test]
    fn columns_are_aligned() {
        let rows = [["A", "NUMBER", "C"], ["über", "1", "x"], ["b", "22", ""]];
        let rows = rows.map(|row| row.map(str::to_owned));
        assert_eq!(table(&rows, &[1]), ["A     NUMBER  C", "über       1  x", "b         22"]);
    }

    #[test]
    fn sizes_have_fitting_units() {
        assert_eq!(bytes(0), "0 bytes");
        assert_eq!(bytes(999), "999 bytes");
        assert_eq!(bytes(1_250), "1.2 kB");
        assert_eq!(bytes(999_999_999), "999.9 MB");
        assert_eq!(bytes(12_000_000_000), "12.0 GB");
        assert_eq!(bytes(u64::MAX), "18,446.7 PB");
    }
}
