//! Compares the log with the counts of the clients.

use std::path::Path;

use anyhow::Result;
use tacho_tests::log::{self, Invariants, Line, TagCounter};
use tacho_tests::sysbench::Report;
use tacho_tests::tagged::Tally;
use tacho_tests::verdict::Verdict;

use crate::{COUNTED_USER, RUN};

/// The counts of clients and server while the server ran.
pub struct Expected<'a> {
    /// The tagging client.
    pub tally: &'a Tally,
    /// sysbench, for the run that was recorded completely.
    pub report: &'a Report,
    /// `Tacho_records_written`, read by the last connection.
    pub records_written: u64,
    /// `Tacho_records_lost`.
    pub records_lost: u64,
    /// The connection that read these.
    pub status_conn: u64,
}

/// The findings in the log.
pub struct Findings {
    /// Lines of all files.
    pub lines: u64,
    /// Bytes of all files.
    pub bytes: u64,
    /// Acknowledged statements that are missing.
    pub missing: u64,
    /// Statements that are there more than once.
    pub duplicate: u64,
    /// All violations; empty if everything is right.
    pub problems: Vec<String>,
    /// A few lines as samples.
    pub samples: Vec<String>,
}

/// Reads the whole log. The server must have stopped, so that the log is complete.
pub fn check(directory: &Path, expected: &Expected) -> Result<Findings> {
    let mut invariants = Invariants::default();
    let mut tags = TagCounter::new(RUN);
    let mut samples = Samples::default();
    let mut lines = 0;
    let mut counted = 0;
    let mut late_strangers = 0;
    let bytes = log::read(directory, |line, text| {
        lines += 1;
        invariants.see(line);
        tags.see(line);
        samples.see(line, text);
        counted += u64::from(is_counted(line));
        // After its last reading the server had only the end of sessions and of itself to
        // record, that reading, and that its connection had just turned recording on again.
        let is_expected = matches!(&*line.event, "disconnect" | "stop" | "config");
        if line.seq > expected.records_written
            && line.conn != Some(expected.status_conn)
            && !is_expected
            && !is_quit(line)
        {
            late_strangers += 1;
        }
    })?;

    let verdict = Verdict::new(expected.tally, &tags.finish());
    let answered = expected.report.answered();
    let mut problems = Vec::new();
    if !verdict.is_good() {
        problems.push(format!("tagged statements: {verdict}"));
    }
    if counted != answered {
        problems.push(format!("sysbench got {answered} answers, the log has {counted} of them"));
    }
    if expected.report.reconnects != 0 {
        problems.push(format!("sysbench lost {} connections", expected.report.reconnects));
    }
    if expected.records_lost != 0 {
        problems.push(format!("the server counted {} lost records", expected.records_lost));
    }
    if lines < expected.records_written {
        let written = expected.records_written;
        problems.push(format!("the server wrote {written} records, the log has {lines} lines"));
    }
    if late_strangers != 0 {
        problems.push(format!(
            "{late_strangers} lines after number {} which the server had not counted as written",
            expected.records_written
        ));
    }
    problems.extend(invariants.finish());
    Ok(Findings {
        lines,
        bytes,
        missing: verdict.missing.len() as u64 + answered.saturating_sub(counted),
        duplicate: verdict.duplicate.len() as u64 + counted.saturating_sub(answered),
        problems,
        samples: samples.finish(),
    })
}

/// Whether sysbench counts this line's statement. It counts each answered Execute (it
/// prepares what it can) and Query, with errors apart, and not the Prepare and Close around
/// them. Its account does nothing else, so the numbers must be equal, not just similar.
fn is_counted(line: &Line) -> bool {
    line.is_statement()
        && line.user.as_deref() == Some(COUNTED_USER)
        && matches!(line.command.as_deref(), Some("Execute" | "Query"))
}

fn is_quit(line: &Line) -> bool {
    line.command.as_deref() == Some("Quit")
}

/// One line each of a session, a good statement and a failed one.
#[derive(Default)]
struct Samples {
    connect: Option<String>,
    ok: Option<String>,
    error: Option<String>,
}

impl Samples {
    fn see(&mut self, line: &Line, text: &str) {
        let is_tagged = || line.sql.as_deref().is_some_and(|sql| sql.contains("id:run-"));
        let place = match (&*line.event, line.outcome.as_deref()) {
            ("connect", _) => &mut self.connect,
            ("statement", Some("ok")) if is_counted(line) => &mut self.ok,
            ("statement", Some("error")) if is_tagged() => &mut self.error,
            _ => return,
        };
        if place.is_none() {
            *place = Some(text.to_owned());
        }
    }

    fn finish(self) -> Vec<String> {
        [self.connect, self.ok, self.error].into_iter().flatten().collect()
    }
}
