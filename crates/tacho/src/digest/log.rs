//! The statements of a log.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Zoned;
use tacho_logdir::read::reader::Placed;
use tacho_logdir::read::{self, Lines, Request, Sink};
use tacho_record::charset::{Charset, restore};
use tacho_record::{Line, OwnedRecord};

use super::Printer;
use crate::cli::log::{ReadArgs, find_all};
use crate::filter::{Filter, Gate};
use crate::joined::{self, Joined};
use crate::scan::Scan;
use crate::tail::{self, TailError, since};

/// Prints the digests of the statements of logs. Returns the number of problems, each reported.
///
/// # Errors
/// A log cannot be read, or stdout not be written.
pub(super) fn print(
    paths: &[PathBuf],
    args: &ReadArgs,
    printer: &mut Printer<'_>,
) -> Result<u64, TailError> {
    let window = since::window(&args.range, &Zoned::now())?;
    let filter = Filter::new(&args.filter, window);
    let access = tail::access(&args.identity)?;
    let places = find_all(paths)?;
    for place in &places {
        tail::check(place, &filter, false)?;
    }
    let request =
        Request { from: None, lines: Lines::All, newest_first: false, window, follow: false };
    let mut statements = Statements {
        gate: Gate::new(filter, &joined::FIELDS),
        scan: Scan::new(Arc::default()),
        joined: Joined::default(),
        waiting: None,
        printer,
    };
    for place in places {
        read::read(place, &request, &access, &mut statements)?;
    }
    let Statements { joined, gate, printer, scan, .. } = &mut statements;
    let printed = joined.finish(&gate.filter, |record| print_one(record, printer));
    printed.map_err(TailError::Output)?;
    scan.clear_progress();
    Ok(scan.problem_count)
}

/// Prints the statements among the lines of a log.
struct Statements<'p, 'a> {
    gate: Gate,
    scan: Scan,
    joined: Joined,
    /// The line that is wanted.
    waiting: Option<Waiting>,
    printer: &'p mut Printer<'a>,
}

/// A line that is wanted.
enum Waiting {
    /// Of several about its statement.
    Part(Box<OwnedRecord>),
    /// All there is about its statement.
    Whole { sql: Vec<u8>, charset: String, is_redacted: bool, digest: String },
}

impl Statements<'_, '_> {
    fn look_at(&mut self, placed: Placed<'_>) -> Result<bool, String> {
        if !joined::wants(&mut self.gate, placed)? {
            return Ok(false);
        }
        let line = Line::parse(placed.bytes)?;
        if joined::is_part(&line) {
            let record = OwnedRecord::of_line(&line).map_err(|error| error.to_string())?;
            self.waiting = Some(Waiting::Part(Box::new(record)));
            return Ok(true);
        }
        let Some(sql) = line.sql.text.as_deref().filter(|_| line.event == "statement") else {
            return Ok(false);
        };
        if !self.gate.filter.window().contains(line.ts) {
            return Ok(false);
        }
        let charset = line.sql_charset.to_string();
        let set = Charset::by_name(charset.as_bytes()).unwrap_or(Charset::BINARY);
        let sql = restore(sql, line.sql.b64.as_deref(), set).map_err(|error| error.to_string())?;
        let (is_redacted, digest) = (line.sql_redacted, line.digest.into_owned());
        self.waiting = Some(Waiting::Whole { sql, charset, is_redacted, digest });
        Ok(true)
    }
}

impl Sink for Statements<'_, '_> {
    type Error = TailError;

    fn wants(&mut self, path: &Path, line: Placed<'_>) -> bool {
        self.look_at(line).unwrap_or_else(|reason| {
            self.scan.problem_at(path, Some(line.offset), &format!("broken line: {reason}"));
            false
        })
    }

    fn show(&mut self, _: &[u8]) -> Result<(), TailError> {
        let Self { waiting, joined, gate, printer, .. } = self;
        let printed = match waiting.take() {
            None => Ok(()),
            Some(Waiting::Part(record)) => {
                joined.push(*record, &gate.filter, |record| print_one(record, printer))
            }
            Some(Waiting::Whole { sql, charset, is_redacted, digest }) => {
                let digest = Some(&*digest).filter(|digest| !digest.is_empty());
                printer.print(&sql, charset.as_bytes(), is_redacted, digest)
            }
        };
        printed.map_err(TailError::Output)
    }

    fn problem(&mut self, path: &Path, reason: &str) {
        self.scan.problem_at(path, None, reason);
    }

    fn note(&mut self, text: &str) {
        self.scan.note(text);
    }

    fn wants_last_run(&self) -> bool {
        self.gate.filter.wants_last_run()
    }

    fn last_run(&mut self, run: Option<u64>) {
        self.gate.filter.take_last_run(run, &mut self.scan);
    }
}

/// Prints the digest of a statement with a text.
fn print_one(record: &OwnedRecord, printer: &mut Printer<'_>) -> io::Result<()> {
    let Some(sql) = &record.sql else { return Ok(()) };
    let digest = (!record.digest.is_empty()).then(|| String::from_utf8_lossy(&record.digest));
    printer.print(sql, &record.sql_charset, record.sql_redacted, digest.as_deref())
}
