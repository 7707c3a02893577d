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
    /// The server's own counts; a capture has none.
    pub status: Option<Status>,
}

/// The counts of the server.
pub struct Status {
    /// `Tacho_records_written`, read by the last connection.
    pub records_written: u64,
    /// `Tacho_records_lost`.
    pub records_lost: u64,
    /// The connection that read these.
    pub conn: u64,
}

impl Status {
    /// Whether it should have counted this line as written. After its last reading the server had
    /// only the end of sessions and of itself to record, that reading, and that its connection had
    /// just turned recording on again.
    fn lacks(&self, line: &Line) -> bool {
        let is_expected = matches!(&*line.event, "disconnect" | "stop" | "config");
        line.seq > self.records_written
            && line.conn != Some(self.conn)
            && !is_expected
            && !is_quit(line)
    }
}

/// The findings in the log.
pub struct Findings {
    /// Lines of all files.
    pub lines: u64,
    /// Bytes of all files.
    pub bytes: u64,
    /// `Tacho_records_lost`; of a capture, the number of its `lost` lines.
    pub lost: u64,
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
    let (mut counted, mut lost_lines, mut late_strangers) = (0, 0, 0);
    let bytes = log::read(directory, |line, text| {
        lines += 1;
        invariants.see(line);
        tags.see(line);
        samples.see(line, text);
        counted += u64::from(is_counted(line));
        lost_lines += u64::from(line.event == "lost");
        late_strangers += u64::from(expected.status.as_ref().is_some_and(|it| it.lacks(line)));
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
    if let Some(status) = &expected.status {
        problems.extend(contradictions(status, lines, late_strangers));
    } else if lost_lines != 0 {
        problems.push(format!("the log declares {lost_lines} times that something is lost"));
    }
    problems.extend(invariants.finish());
    Ok(Findings {
        lines,
        bytes,
        lost: expected.status.as_ref().map_or(lost_lines, |status| status.records_lost),
        missing: verdict.missing.len() as u64 + answered.saturating_sub(counted),
        duplicate: verdict.duplicate.len() as u64 + counted.saturating_sub(answered),
        problems,
        samples: samples.finish(),
    })
}

/// What the log has otherwise than the server has counted.
fn contradictions(status: &Status, lines: u64, late_strangers: u64) -> Vec<String> {
    let mut problems = Vec::new();
    let Status { records_written: written, records_lost: lost, .. } = status;
    if *lost != 0 {
        problems.push(format!("the server counted {lost} lost records"));
    }
    if lines < *written {
        problems.push(format!("the server wrote {written} records, the log has {lines} lines"));
    }
    if late_strangers != 0 {
        problems.push(format!(
            "{late_strangers} lines after number {written} which the server had not counted as \
             written"
        ));
    }
    problems
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
