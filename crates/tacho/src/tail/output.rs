//! The destination of lines and messages: stdout for the log, stderr for messages about reading it.

use std::collections::BTreeSet;
use std::io::{self, BufWriter, IsTerminal as _, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use jiff::tz::TimeZone;
use tacho_logdir::read::Sink;
use tacho_logdir::read::reader::Placed;
use tacho_record::Line;
use tacho_record::OwnedRecord;

use super::TailError;
use super::filter::Filter;
use super::sanitize::sanitize;
use super::table::Table;
use crate::cli::{Color, Format, TailArgs};
use crate::convert::{Converter, Look, Shipment};
use crate::line_limit;

/// A scan that takes longer than this shows its progress.
const PROGRESS_AFTER: Duration = Duration::from_secs(2);
const PROGRESS_INTERVAL: Duration = Duration::from_millis(250);

/// How many runs are listed.
const RUNS_NAMED: usize = 8;
/// How many are counted.
const RUNS_MAX: usize = 1000;

/// How much is read between two checks of the clock and of Ctrl-C.
const TICK_BYTES: u64 = 1 << 20;

/// The output of one call, with the filter before it and the count of problems.
pub struct Output {
    out: BufWriter<Box<dyn Write>>,
    form: Form,
    filter: Filter,
    /// Broken lines and unreadable files so far.
    pub problem_count: u64,
    stop: Arc<AtomicBool>,
    progress: Progress,
    /// An error that is returned when the next line is shown; it ends reading.
    failure: Option<TailError>,
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
    /// In another format.
    Converted(Box<Conversion>),
    /// As messages to a receiver.
    Sent(Box<Shipment>),
}

/// A conversion.
struct Conversion {
    converter: Converter,
    /// A line is shown as soon as it passes the filters; its record, which was created to check
    /// whether it is complete, is kept here until then.
    waiting: Option<OwnedRecord>,
}

struct Progress {
    enabled: bool,
    shown: bool,
    next: Instant,
    scanned_bytes: u64,
    total_bytes: u64,
    tick_bytes: u64,
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
        Self::of(form, Box::new(io::stdout()), filter, stop)
    }

    /// Creates the output of a conversion, to stdout or a file.
    pub fn converted(
        converter: Converter,
        out: Box<dyn Write>,
        filter: Filter,
        stop: Arc<AtomicBool>,
    ) -> Self {
        let conversion = Conversion { converter, waiting: None };
        Self::of(Form::Converted(Box::new(conversion)), out, filter, stop)
    }

    /// Creates the output that sends.
    pub fn sent(shipment: Shipment, filter: Filter, stop: Arc<AtomicBool>) -> Self {
        Self::of(Form::Sent(Box::new(shipment)), Box::new(io::sink()), filter, stop)
    }

    fn of(form: Form, out: Box<dyn Write>, filter: Filter, stop: Arc<AtomicBool>) -> Self {
        Self {
            out: BufWriter::with_capacity(64 * 1024, out),
            form,
            filter,
            problem_count: 0,
            stop,
            progress: Progress {
                enabled: io::stderr().is_terminal(),
                shown: false,
                next: Instant::now() + PROGRESS_AFTER,
                scanned_bytes: 0,
                total_bytes: 0,
                tick_bytes: 0,
            },
            failure: None,
            runs: Runs::default(),
        }
    }

    fn look_at(&mut self, path: &Path, placed: Placed) -> Result<bool, String> {
        if placed.is_too_long {
            return Err(line_limit::too_long());
        }
        if let Form::Sent(shipment) = &self.form {
            // Readers check for Ctrl-C occasionally, and file by file: if a line were sent after a
            // skipped one, the next run would not send the skipped one.
            if self.stopped() || shipment.skips(path, placed) {
                return Ok(false);
            }
        }
        let line = Line::parse(placed.bytes)?;
        let is_wanted = self.filter.matches(&line);
        match &mut self.form {
            Form::Converted(conversion) => {
                // Also for a filtered line: a broken one is reported.
                let record = OwnedRecord::of_line(&line).map_err(|error| error.to_string())?;
                conversion.waiting = Some(record);
            }
            Form::Sent(shipment) => match shipment.look_at(path, placed.offset, &line)? {
                Look::New => {}
                Look::Known => return Ok(false),
                Look::Odd(reason) => self.problem_at(path, Some(placed.offset), &reason),
                Look::AnotherLog(seq) => {
                    self.failure = Some(TailError::AnotherLog { path: path.to_owned(), seq });
                    return Ok(true);
                }
            },
            Form::Lines | Form::Table(..) => {}
        }
        Ok(is_wanted)
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
            Form::Converted(conversion) => match conversion.waiting.take() {
                Some(record) => conversion.converter.take(record, &mut self.out),
                None => Err(io::Error::other("a line is shown that was not parsed")),
            },
            Form::Sent(shipment) => {
                shipment.send();
                Ok(())
            }
        }
    }

    /// Writes what a conversion has held until the end of the log, and returns the converter.
    ///
    /// # Errors
    /// The output cannot be written.
    pub fn finish_conversion(&mut self) -> Result<Option<&Converter>, TailError> {
        self.clear_progress();
        let Form::Converted(conversion) = &mut self.form else { return Ok(None) };
        let converter = &mut conversion.converter;
        converter.finish(&mut self.out).map_err(TailError::Output)?;
        self.out.flush().map_err(TailError::Output)?;
        Ok(Some(converter))
    }

    /// The sender, if lines are sent.
    pub fn shipment(&mut self) -> Option<&mut Shipment> {
        match &mut self.form {
            Form::Sent(shipment) => Some(shipment),
            _ => None,
        }
    }

    /// Reports a problem of the data, and counts it.
    fn problem_at(&mut self, path: &Path, offset: Option<u64>, reason: &str) {
        self.problem_count += 1;
        let place = offset.map(|offset| format!(" at byte {offset}")).unwrap_or_default();
        self.note(&format!("{}{place}: {reason}", path.display()));
    }

    /// Reports that the lines of one connection id belong to several connections.
    pub fn report_runs(&mut self) {
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

    /// Clears the progress line.
    pub fn clear_progress(&mut self) {
        if std::mem::take(&mut self.progress.shown) {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

impl Sink for Output {
    type Error = TailError;

    fn wants(&mut self, path: &Path, line: Placed) -> bool {
        match self.look_at(path, line) {
            Ok(is_wanted) => is_wanted,
            Err(reason) => {
                self.problem_at(path, Some(line.offset), &format!("broken line: {reason}"));
                false
            }
        }
    }

    fn show(&mut self, bytes: &[u8]) -> Result<(), TailError> {
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        self.clear_progress();
        self.write(bytes).map_err(TailError::Output)
    }

    fn flush(&mut self) -> Result<(), TailError> {
        if let Form::Sent(shipment) = &mut self.form {
            shipment.look();
        }
        self.out.flush().map_err(TailError::Output)
    }

    fn problem(&mut self, path: &Path, reason: &str) {
        self.problem_at(path, None, reason);
    }

    fn note(&mut self, text: &str) {
        self.clear_progress();
        // A closed stderr must not stop the log; the exit code still reports the problem.
        let _ = writeln!(io::stderr(), "tacho: {}", sanitize(text));
    }

    fn out_of_room(&mut self, path: &Path, bytes_max: usize) {
        let reason = format!(
            "older lines are not shown, because the newest ones are longer than {bytes_max} bytes in \
             all; request fewer lines or raise --max-line-size"
        );
        self.problem(path, &reason);
    }

    fn expect(&mut self, bytes: u64) {
        self.progress.total_bytes += bytes;
    }

    fn scanned(&mut self, bytes: u64) -> Result<bool, TailError> {
        self.progress.scanned_bytes += bytes;
        self.progress.tick_bytes += bytes;
        if self.progress.tick_bytes < TICK_BYTES {
            return Ok(true);
        }
        self.progress.tick_bytes = 0;
        let now = Instant::now();
        if self.progress.enabled && now >= self.progress.next {
            // Shown lines must be above the progress line, not within it.
            self.flush()?;
            self.progress.next = now + PROGRESS_INTERVAL;
            self.progress.shown = true;
            let _ = write!(
                io::stderr(),
                "\r\x1b[Kscanned {} of {}",
                mebibytes(self.progress.scanned_bytes),
                mebibytes(self.progress.total_bytes)
            );
        }
        Ok(!self.stopped())
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
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

fn mebibytes(bytes: u64) -> String {
    let tenths = bytes / (1 << 20) * 10 + bytes % (1 << 20) * 10 / (1 << 20);
    format!("{}.{} MiB", tenths / 10, tenths % 10)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mebibytes_have_one_decimal() {
        assert_eq!(mebibytes(0), "0.0 MiB");
        assert_eq!(mebibytes((3 << 20) + (1 << 19)), "3.5 MiB");
        assert_eq!(mebibytes(u64::MAX), "17592186044415.9 MiB");
    }
}
