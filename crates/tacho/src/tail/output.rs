//! Where lines go: as they are or as a table, to stdout.

use std::collections::BTreeSet;
use std::io::{self, BufWriter, IsTerminal as _, Stdout, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use jiff::tz::TimeZone;
use tacho_logdir::read::Sink;
use tacho_logdir::read::reader::Placed;
use tacho_record::Line;

use super::table::Table;
use super::{TailError, Verdict};
use crate::cli::{Color, Format, TailArgs};
use crate::filter::Filter;
use crate::line_limit;
use crate::scan::{Due, Scan};

/// How many runs are listed.
const RUNS_NAMED: usize = 8;
/// How many are counted.
const RUNS_MAX: usize = 1000;

/// The output of one call, with the filter before it and the count of problems.
pub struct Output {
    out: BufWriter<Stdout>,
    form: Form,
    filter: Filter,
    scan: Scan,
    runs: Runs,
}

/// The runs of the server whose lines were shown.
#[derive(Default)]
struct Runs {
    /// Of the last line.
    now: Option<u64>,
    /// The newest ones, [`RUNS_MAX`] at most.
    seen: BTreeSet<u64>,
}

impl Runs {
    /// Returns the run of a line if the previous line belongs to another one.
    fn next(&mut self, line: &Line) -> Option<u64> {
        let run = line.run?;
        self.seen.insert(run);
        if self.seen.len() > RUNS_MAX {
            self.seen.pop_first();
        }
        (self.now.replace(run) != Some(run)).then_some(run)
    }
}

/// The form of lines.
enum Form {
    /// Unchanged.
    Lines,
    /// As rows; `true` while the header is not yet written.
    Table(Table, bool),
}

impl Output {
    /// Creates the output of a command line. Ctrl-C sets `stop`.
    pub fn new(args: &TailArgs, filter: Filter, zone: TimeZone, stop: Arc<AtomicBool>) -> Self {
        let terminal = io::stdout().is_terminal();
        let form = match args.format {
            Format::Table => {
                let color = use_color(args, terminal);
                Form::Table(Table::new(table_width(args, terminal), color, zone), true)
            }
            Format::Json => Form::Lines,
        };
        Self {
            out: BufWriter::with_capacity(64 * 1024, io::stdout()),
            form,
            filter,
            scan: Scan::new(stop),
            runs: Runs::default(),
        }
    }

    fn look_at(&self, placed: Placed) -> Result<bool, String> {
        if placed.is_too_long {
            return Err(line_limit::too_long());
        }
        Ok(self.filter.matches(&Line::parse(placed.bytes)?))
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.form {
            Form::Lines => {
                if self.filter.may_mix_runs() {
                    self.runs.next(&Line::parse(bytes).map_err(io::Error::other)?);
                }
                self.out.write_all(bytes)?;
                self.out.write_all(b"\n")
            }
            Form::Table(table, header_due) => {
                if std::mem::take(header_due) {
                    self.out.write_all(table.header().as_bytes())?;
                }
                // The line was parsed before, so this cannot fail; but losing a line would be worse
                // than an error.
                let line = Line::parse(bytes).map_err(io::Error::other)?;
                if self.filter.may_mix_runs()
                    && let Some(run) = self.runs.next(&line)
                {
                    self.out.write_all(table.run(run).as_bytes())?;
                }
                self.out.write_all(table.format(&line).as_bytes())
            }
        }
    }

    /// Reports that the lines of one connection id are of several connections.
    fn report_runs(&mut self) {
        if self.runs.seen.len() < 2 {
            return;
        }
        let count = self.runs.seen.len();
        let at_least = if count == RUNS_MAX { "at least " } else { "" };
        let newest = self.runs.seen.iter().rev().take(RUNS_NAMED).rev();
        let names = newest.map(u64::to_string).collect::<Vec<_>>().join(", ");
        let more = if count > RUNS_NAMED { "…, " } else { "" };
        self.note(&format!(
            "these lines are of {at_least}{count} runs of the server, in each of which the id is another \
             connection: {more}{names}; show one run with --run N, the newest with --run last"
        ));
    }

    /// Reports the number of problems.
    pub fn finish(&mut self) -> Verdict {
        self.scan.clear_progress();
        self.report_runs();
        self.scan.finish()
    }
}

impl Sink for Output {
    type Error = TailError;

    fn wants(&mut self, path: &Path, line: Placed) -> bool {
        self.look_at(line).unwrap_or_else(|reason| {
            self.scan.problem_at(path, Some(line.offset), &format!("broken line: {reason}"));
            false
        })
    }

    fn show(&mut self, bytes: &[u8]) -> Result<(), TailError> {
        self.scan.clear_progress();
        self.write(bytes).map_err(TailError::Output)
    }

    fn flush(&mut self) -> Result<(), TailError> {
        self.out.flush().map_err(TailError::Output)
    }

    fn problem(&mut self, path: &Path, reason: &str) {
        self.scan.problem_at(path, None, reason);
    }

    fn note(&mut self, text: &str) {
        self.scan.note(text);
    }

    fn out_of_room(&mut self, path: &Path, bytes_max: usize) {
        self.scan.out_of_room(path, bytes_max);
    }

    fn expect(&mut self, bytes: u64) {
        self.scan.expect(bytes);
    }

    fn scanned(&mut self, bytes: u64) -> Result<bool, TailError> {
        match self.scan.scanned(bytes) {
            Due::Nothing => return Ok(true),
            Due::Check => {}
            Due::Progress => {
                self.flush()?;
                self.scan.show_progress();
            }
        }
        Ok(!self.stopped())
    }

    fn stopped(&self) -> bool {
        self.scan.is_stopped()
    }

    fn wants_last_run(&self) -> bool {
        self.filter.wants_last_run()
    }

    fn last_run(&mut self, run: Option<u64>) {
        match run {
            Some(run) => self.filter.set_last_run(run),
            None => self.note("no line of this log names its run; lines of all runs are shown"),
        }
    }
}

fn table_width(args: &TailArgs, terminal: bool) -> Option<usize> {
    let width = args.width.or_else(|| {
        let size = terminal.then(|| terminal_size::terminal_size_of(io::stdout())).flatten();
        size.map(|(width, _)| usize::from(width.0))
    });
    width.filter(|width| *width > 0)
}

fn use_color(args: &TailArgs, terminal: bool) -> bool {
    let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
        || std::env::var_os("TERM").is_some_and(|value| value == "dumb");
    match args.color {
        Color::Auto => terminal && !refused && !args.no_color,
        Color::Always => true,
        Color::Never => false,
    }
}
