//! Where lines go: as they are or as a table, to stdout.

use std::collections::BTreeSet;
use std::io::{self, BufWriter, IsTerminal as _, Stdout, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use jiff::tz::TimeZone;
use tacho_logdir::read::Sink;
use tacho_logdir::read::reader::Placed;
use tacho_record::{Field, Line};

use super::context::{self, Context};
use super::form::Form;
use super::row::{Look, Role};
use super::{TailError, Verdict};
use crate::cli::{Color, Format, TailArgs};
use crate::filter::{Filter, Fit, Gate};
use crate::say;
use crate::scan::{Due, Scan};

/// How many runs are listed.
const RUNS_NAMED: usize = 8;
/// How many are counted.
const RUNS_MAX: usize = 1000;

/// The output of one call, with the filter before it and the count of problems.
pub struct Output {
    out: BufWriter<Stdout>,
    form: Form,
    header_due: bool,
    /// The filter.
    pub gate: Gate,
    /// Messages.
    pub scan: Scan,
    mode: Mode,
    runs: Runs,
}

/// What is done with the lines.
enum Mode {
    /// They are shown.
    Show,
    /// They are kept.
    Keep(Vec<Vec<u8>>),
    /// They are counted: those that match, and those that may hide some that do.
    Count(u64, u64),
    /// They are shown with others of their connections.
    Context(Context, Next),
}

/// What [`Output::show`] gets next.
#[derive(Default)]
struct Next {
    /// Lines to be shown before it.
    before: Vec<Vec<u8>>,
    is_match: bool,
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

impl Output {
    /// Creates the output of a command line. Ctrl-C sets `stop`.
    pub fn new(args: &TailArgs, filter: Filter, zone: TimeZone, stop: Arc<AtomicBool>) -> Self {
        let terminal = io::stdout().is_terminal();
        let form = match args.format {
            Format::Table => {
                let look = Look {
                    width: table_width(args, terminal),
                    color: use_color(args, terminal),
                    zone,
                    marks: args.context().is_some(),
                    searched: filter.searched_texts(),
                };
                Form::for_people(&args.fields, look)
            }
            Format::Json => Form::for_programs(&args.fields),
        };
        let also: &[Field] = if args.context().is_some() { &context::FIELDS } else { &[] };
        Self {
            out: BufWriter::with_capacity(64 * 1024, io::stdout()),
            form,
            header_due: true,
            gate: Gate::new(filter, also),
            scan: Scan::new(stop),
            mode: if args.count { Mode::Count(0, 0) } else { Mode::Show },
            runs: Runs::default(),
        }
    }

    /// Begins to show lines with others of their connections.
    pub fn show_context(&mut self, context: Context) {
        self.mode = Mode::Context(context, Next::default());
    }

    /// Begins to keep lines instead of showing them.
    pub fn keep(&mut self) {
        self.mode = Mode::Keep(Vec::new());
    }

    /// The lines that were kept since [`Output::keep`].
    pub fn kept(&mut self) -> Vec<Vec<u8>> {
        match std::mem::replace(&mut self.mode, Mode::Show) {
            Mode::Keep(lines) => lines,
            _ => Vec::new(),
        }
    }

    fn look_at(&mut self, placed: Placed) -> Result<bool, String> {
        match &mut self.mode {
            Mode::Show | Mode::Keep(_) => Ok(self.gate.judge(placed)? != Fit::No),
            Mode::Count(matches, gaps) => {
                match self.gate.judge(placed)? {
                    Fit::No => {}
                    Fit::Gap => *gaps += 1,
                    Fit::Yes => *matches += 1,
                }
                Ok(false)
            }
            Mode::Context(context, next) => {
                let (fit, is_in_window, session, has_ended) =
                    self.gate.ask(placed, |filter, line| {
                        Ok((
                            filter.judge(line)?,
                            filter.window().contains(line.ts()),
                            context::session_of(line),
                            line.text(Field::event) == "disconnect",
                        ))
                    })?;
                next.is_match = fit != Fit::No && context.shows(placed.bytes);
                let Some(session) = session.filter(|_| is_in_window) else {
                    return Ok(next.is_match);
                };
                let is_shown = if next.is_match {
                    next.before = context.matched(session);
                    true
                } else {
                    context.other(session, placed.bytes)
                };
                if has_ended {
                    context.end(session);
                }
                Ok(is_shown)
            }
        }
    }

    /// Writes a line.
    ///
    /// # Errors
    /// Stdout cannot be written.
    pub fn write(&mut self, bytes: &[u8], role: Role) -> Result<(), TailError> {
        if std::mem::take(&mut self.header_due)
            && let Some(header) = self.form.header()
        {
            self.out.write_all(header.as_bytes()).map_err(TailError::Output)?;
        }
        if self.gate.filter.may_mix_runs() {
            let line = Line::parse(bytes).map_err(TailError::changed)?;
            if let Some(run) = self.runs.next(&line).and_then(|run| self.form.run(run)) {
                self.out.write_all(run.as_bytes()).map_err(TailError::Output)?;
            }
        }
        let line = self.form.line(bytes, role).map_err(TailError::changed)?;
        self.out.write_all(&line).map_err(TailError::Output)?;
        if let Form::Lines = self.form {
            self.out.write_all(b"\n").map_err(TailError::Output)?;
        }
        Ok(())
    }

    fn flush_out(&mut self) -> Result<(), TailError> {
        self.out.flush().map_err(TailError::Output)
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

    /// Writes what is known at the end, and reports the number of problems.
    ///
    /// # Errors
    /// Stdout cannot be written.
    pub fn finish(&mut self) -> Result<Verdict, TailError> {
        self.scan.clear_progress();
        if let Mode::Count(matches, gaps) = self.mode {
            writeln!(self.out, "{matches}").map_err(TailError::Output)?;
            if gaps > 0 {
                let lines = say::counted(gaps, "`lost` line");
                self.note(&format!(
                    "{lines} not counted: records are missing, which might have matched"
                ));
            }
        }
        if let Mode::Context(Context { is_incomplete: true, .. }, _) = self.mode {
            self.note("some lines before a match are not shown: too many connections had lines");
        }
        self.flush_out()?;
        self.report_runs();
        Ok(self.scan.finish())
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
        let Next { before, is_match } = match &mut self.mode {
            Mode::Keep(lines) => {
                lines.push(bytes.to_vec());
                return Ok(());
            }
            Mode::Context(_, next) => std::mem::take(next),
            Mode::Show | Mode::Count(..) => Next { before: Vec::new(), is_match: true },
        };
        before.iter().try_for_each(|line| self.write(line, Role::Context))?;
        self.write(bytes, if is_match { Role::Match } else { Role::Context })
    }

    fn flush(&mut self) -> Result<(), TailError> {
        // What was there when it was looked for has been read.
        if let Mode::Context(context, _) = &mut self.mode {
            context.begin();
        }
        self.flush_out()
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
                self.flush_out()?;
                self.scan.show_progress();
            }
        }
        Ok(!self.stopped())
    }

    fn stopped(&self) -> bool {
        self.scan.is_stopped()
    }

    fn wants_last_run(&self) -> bool {
        self.gate.filter.wants_last_run()
    }

    fn last_run(&mut self, run: Option<u64>) {
        self.gate.filter.take_last_run(run, &mut self.scan);
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
