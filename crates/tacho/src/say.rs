//! Output for users: results on stdout, problems on stderr, both safe on a terminal.

use std::fmt::Display;
use std::io::{self, Write};

use serde::Serialize;
use tacho_record::time::TimeFormatter;

use crate::tail::sanitize::sanitize;

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

/// A clock for displayed times, in the reader's zone; in UTC if there is none.
pub fn clock() -> TimeFormatter {
    TimeFormatter::system().unwrap_or_else(|error| {
        problem(format!("{error}; times are in UTC"));
        TimeFormatter::utc()
    })
}

/// The text of a time, µs since 1970-01-01 UTC.
pub fn time(clock: &mut TimeFormatter, time_us: i64) -> String {
    String::from_utf8_lossy(clock.format(time_us)).into_owned()
}

/// `1234567` as `1,234,567`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3 + 1);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `1 line`, `2 lines`.
pub fn counted(number: u64, noun: &str) -> String {
    let ending = if number == 1 { "" } else { "s" };
    format!("{} {noun}{ending}", grouped(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(1_234_567), "1,234,567");
        assert_eq!(counted(1, "line"), "1 line");
        assert_eq!(counted(1_000, "line"), "1,000 lines");
    }
}
