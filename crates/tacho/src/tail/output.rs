//! Where lines and messages go: stdout for the log, stderr for all that is about reading it.

use std::io::{self, BufWriter, IsTerminal as _, Stdout, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use jiff::tz::TimeZone;

use super::TailError;
use super::filter::Filter;
use super::line::Line;
use super::reader::Placed;
use super::table::Table;
use super::visible::visible;
use crate::cli::{Color, Format, TailArgs};

/// A scan that takes longer than this says how far it is.
const PROGRESS_AFTER: Duration = Duration::from_secs(2);
const PROGRESS_INTERVAL: Duration = Duration::from_millis(250);

/// How much is read between two looks at the clock and at Ctrl-C.
const TICK_BYTES: u64 = 1 << 20;

/// The output of one call, with the filter before it and the count of problems.
pub struct Output {
    out: BufWriter<Stdout>,
    table: Option<Table>,
    header_due: bool,
    filter: Filter,
    /// Broken lines and unreadable files so far.
    pub problem_count: u64,
    stop: Arc<AtomicBool>,
    progress: Progress,
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
    /// Makes the output of a command line. `stop` is set when the user wants to leave.
    pub fn new(args: &TailArgs, filter: Filter, zone: TimeZone, stop: Arc<AtomicBool>) -> Self {
        let terminal = io::stdout().is_terminal();
        let table = (args.format == Format::Table)
            .then(|| Table::new(table_width(args, terminal), use_color(args, terminal), zone));
        Self {
            out: BufWriter::with_capacity(64 * 1024, io::stdout()),
            header_due: table.is_some(),
            table,
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
        }
    }

    /// Whether a line is wanted; a broken one is told and never wanted.
    pub fn wants(&mut self, path: &Path, line: Placed) -> bool {
        match Line::parse(line.bytes) {
            Ok(parsed) => self.filter.matches(&parsed),
            Err(reason) => {
                self.problem(path, Some(line.offset), &format!("broken line: {reason}"));
                false
            }
        }
    }

    /// Shows a line that [`Output::wants`] has let pass.
    ///
    /// # Errors
    /// When stdout cannot be written to.
    pub fn show(&mut self, bytes: &[u8]) -> Result<(), TailError> {
        self.clear_progress();
        self.write(bytes).map_err(TailError::Output)
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let Some(table) = &self.table else {
            self.out.write_all(bytes)?;
            return self.out.write_all(b"\n");
        };
        if std::mem::take(&mut self.header_due) {
            self.out.write_all(table.header().as_bytes())?;
        }
        // The line was parsed before, so this cannot fail; a lost line would be worse than an
        // error, though.
        let line = Line::parse(bytes).map_err(io::Error::other)?;
        self.out.write_all(table.format(&line).as_bytes())
    }

    /// Hands all that was shown to the system.
    ///
    /// # Errors
    /// When stdout cannot be written to.
    pub fn flush(&mut self) -> Result<(), TailError> {
        self.out.flush().map_err(TailError::Output)
    }

    /// Tells of something wrong with the data, and counts it.
    pub fn problem(&mut self, path: &Path, offset: Option<u64>, reason: &str) {
        self.problem_count += 1;
        let place = offset.map(|offset| format!(" at byte {offset}")).unwrap_or_default();
        self.note(&format!("{}{place}: {reason}", path.display()));
    }

    /// Tells something that is not a problem.
    pub fn note(&mut self, text: &str) {
        self.clear_progress();
        // A closed stderr must not stop the log; the exit code still says it.
        let _ = writeln!(io::stderr(), "tacho: {}", visible(text));
    }

    /// Whether the user wants to leave.
    pub fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Says how much there is to scan.
    pub fn expect(&mut self, bytes: u64) {
        self.progress.total_bytes += bytes;
    }

    /// Counts scanned bytes. Returns false when the user wants to leave.
    ///
    /// # Errors
    /// When stdout cannot be written to.
    pub fn scanned(&mut self, bytes: u64) -> Result<bool, TailError> {
        self.progress.scanned_bytes += bytes;
        self.progress.tick_bytes += bytes;
        if self.progress.tick_bytes < TICK_BYTES {
            return Ok(true);
        }
        self.progress.tick_bytes = 0;
        let now = Instant::now();
        if self.progress.enabled && now >= self.progress.next {
            // What was shown must be above the progress line, not in the middle of it.
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

    /// Takes the progress line away.
    pub fn clear_progress(&mut self) {
        if std::mem::take(&mut self.progress.shown) {
            let _ = write!(io::stderr(), "\r\x1b[K");
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
