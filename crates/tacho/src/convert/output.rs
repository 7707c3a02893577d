//! Receives the lines of the log, and converts or sends them.

use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tacho_logdir::read::Sink;
use tacho_logdir::read::reader::Placed;
use tacho_record::{Line, OwnedRecord};
use tacho_ship::syslog::{Look, Shipment};

use super::{ConvertError, Converter};
use crate::filter::{Filter, Fit, Gate};
use crate::joined;
use crate::scan::{Due, Scan};
use crate::tail::TailError;

/// Takes the lines of one run.
pub struct Output<T> {
    /// Messages about reading.
    pub scan: Scan,
    gate: Gate,
    target: T,
}

/// Converts or sends lines.
pub trait Target {
    /// Whether the line need not be understood.
    fn skips(&self, _path: &Path, _line: Placed) -> bool {
        false
    }

    /// Whether a line passes the filter. A line that does not is only looked at if
    /// [`Target::looks_at_all`].
    ///
    /// # Errors
    /// When the line is broken.
    fn wants(&self, gate: &mut Gate, placed: Placed<'_>) -> Result<bool, String> {
        Ok(gate.judge(placed)? != Fit::No)
    }

    /// Whether it also looks at lines that it does not want.
    fn looks_at_all(&self) -> bool {
        false
    }

    /// Looks at a line. Returns whether [`Target::take`] is to be called for it.
    ///
    /// # Errors
    /// When the line is broken.
    fn look_at(
        &mut self,
        scan: &mut Scan,
        path: &Path,
        offset: u64,
        line: &Line,
        is_wanted: bool,
    ) -> Result<bool, String>;

    /// Takes the line that was looked at.
    ///
    /// # Errors
    /// The run ends with the error.
    fn take(&mut self, filter: &Filter) -> Result<(), ConvertError>;

    /// The reader pauses, or is done.
    ///
    /// # Errors
    /// The run ends with the error.
    fn flush(&mut self) -> Result<(), ConvertError>;
}

impl<T: Target> Output<T> {
    /// Takes the lines that pass the filter.
    pub fn new(scan: Scan, filter: Filter, target: T) -> Self {
        Self { scan, gate: Gate::new(filter, &joined::FIELDS), target }
    }

    /// The conversion or the sender.
    pub fn target(&mut self) -> &mut T {
        &mut self.target
    }

    /// The same, and the filter.
    pub fn parts(&mut self) -> (&mut T, &Filter) {
        (&mut self.target, &self.gate.filter)
    }

    fn look_at(&mut self, path: &Path, placed: Placed) -> Result<bool, String> {
        if !placed.is_too_long && self.target.skips(path, placed) {
            return Ok(false);
        }
        let is_wanted = self.target.wants(&mut self.gate, placed)?;
        if !is_wanted && !self.target.looks_at_all() {
            return Ok(false);
        }
        let line = Line::parse(placed.bytes)?;
        let window = self.gate.filter.window();
        let is_wanted = is_wanted && (window.contains(line.ts) || joined::is_part(&line));
        self.target.look_at(&mut self.scan, path, placed.offset, &line, is_wanted)
    }
}

impl<T: Target> Sink for Output<T> {
    type Error = ConvertError;

    fn wants(&mut self, path: &Path, line: Placed) -> bool {
        self.look_at(path, line).unwrap_or_else(|reason| {
            self.scan.problem_at(path, Some(line.offset), &format!("broken line: {reason}"));
            false
        })
    }

    fn show(&mut self, _bytes: &[u8]) -> Result<(), ConvertError> {
        self.scan.clear_progress();
        self.target.take(&self.gate.filter)
    }

    fn flush(&mut self) -> Result<(), ConvertError> {
        self.target.flush()
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

    fn scanned(&mut self, bytes: u64) -> Result<bool, ConvertError> {
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
        self.gate.filter.wants_last_run()
    }

    fn last_run(&mut self, run: Option<u64>) {
        self.gate.filter.take_last_run(run, &mut self.scan);
    }
}

/// Lines in another format, to a file.
pub struct Conversion {
    converter: Converter,
    out: BufWriter<Box<dyn Write>>,
    /// A line is taken as soon as it is wanted, so its record, which was made to see whether it is
    /// whole, waits here.
    waiting: Option<OwnedRecord>,
}

impl Conversion {
    /// Converts to `out`.
    pub fn new(converter: Converter, out: Box<dyn Write>) -> Self {
        Self { converter, out: BufWriter::with_capacity(64 * 1024, out), waiting: None }
    }

    /// Writes what was held back until the end of the log. Returns sentences about records that
    /// the format cannot hold.
    ///
    /// # Errors
    /// The output cannot be written.
    pub fn finish(&mut self, filter: &Filter) -> Result<Vec<String>, ConvertError> {
        let finished = self.converter.finish(filter, &mut self.out);
        finished.and_then(|()| self.out.flush()).map_err(unwritten)?;
        Ok(self.converter.left_out())
    }
}

fn unwritten(error: io::Error) -> ConvertError {
    TailError::Output(error).into()
}

impl Target for Conversion {
    fn wants(&self, gate: &mut Gate, placed: Placed<'_>) -> Result<bool, String> {
        if self.converter.joins() {
            return joined::wants(gate, placed);
        }
        Ok(gate.judge(placed)? != Fit::No)
    }

    fn look_at(
        &mut self,
        _scan: &mut Scan,
        _path: &Path,
        _offset: u64,
        line: &Line,
        is_wanted: bool,
    ) -> Result<bool, String> {
        self.waiting = Some(OwnedRecord::of_line(line).map_err(|error| error.to_string())?);
        Ok(is_wanted)
    }

    fn take(&mut self, filter: &Filter) -> Result<(), ConvertError> {
        let no_record = || unwritten(io::Error::other("a line is shown that was not parsed"));
        let record = self.waiting.take().ok_or_else(no_record)?;
        self.converter.take(record, filter, &mut self.out).map_err(unwritten)
    }

    fn flush(&mut self) -> Result<(), ConvertError> {
        self.out.flush().map_err(unwritten)
    }
}

/// Lines as messages, to somewhere else.
pub struct Sent {
    /// The sender.
    pub shipment: Shipment,
    /// Set by Ctrl-C.
    stop: Arc<AtomicBool>,
    /// An error that is returned when the next line is taken: reading ends with it.
    failure: Option<ConvertError>,
}

impl Sent {
    /// Sends.
    pub fn new(shipment: Shipment, stop: Arc<AtomicBool>) -> Self {
        Self { shipment, stop, failure: None }
    }
}

impl Target for Sent {
    fn skips(&self, path: &Path, line: Placed) -> bool {
        // Readers check for Ctrl-C now and then, and file by file: if a line were sent after a
        // skipped one, the next run would not send the skipped one.
        self.stop.load(Ordering::Relaxed) || self.shipment.skips(path, line)
    }

    /// The position in the log moves with every line.
    fn looks_at_all(&self) -> bool {
        true
    }

    fn look_at(
        &mut self,
        scan: &mut Scan,
        path: &Path,
        offset: u64,
        line: &Line,
        is_wanted: bool,
    ) -> Result<bool, String> {
        match self.shipment.look_at(path, offset, line)? {
            Look::New => {}
            Look::Known => return Ok(false),
            Look::Odd(reason) => scan.problem_at(path, Some(offset), &reason),
            Look::AnotherLog(seq) => {
                self.failure = Some(ConvertError::AnotherLog { path: path.to_owned(), seq });
                return Ok(true);
            }
        }
        Ok(is_wanted)
    }

    fn take(&mut self, _filter: &Filter) -> Result<(), ConvertError> {
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        self.shipment.send();
        Ok(())
    }

    fn flush(&mut self) -> Result<(), ConvertError> {
        self.shipment.look();
        Ok(())
    }
}
