//! Output for users: results on stdout, problems on stderr, both safe on a terminal.

use std::fmt::Display;
use std::io::{self, Write};
use std::sync::Arc;

use serde::Serialize;
use tacho_record::time::TimeFormatter;
use tacho_ship::report::Report;
pub use tacho_ship::words::{counted, grouped};

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

/// The text of a time, µs since 1970-01-01 UTC.
pub fn time(clock: &mut TimeFormatter, time_us: i64) -> String {
    String::from_utf8_lossy(clock.format(time_us)).into_owned()
}
