//! Receives the lines of the log, and converts or sends them.

use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tacho_logdir::read::reader::Placed;
use tacho_logdir::read::{Sink, Window};
use tacho_record::{Line, OwnedRecord};
use tacho_ship::syslog::{Look, Shipment};

use super::{ConvertError, Converter};
use crate::line_limit;
use crate::scan::{Due, Scan};
use crate::tail::TailError;

/// Takes the lines of one run.
pub struct Output<T> {
    /// Messages about reading.
    pub scan: Scan,
    window: Window,
    target: T,
}

/// Converts or sends lines.
pub trait Target {
    /// Whether the line need not be understood.
    fn skips(&self, _path: &Path, _line: Placed) -> bool {
        false
    }

    /// Looks at a line of the time range or, if not `is_wanted`, of another time. Returns whether
    /// [`Target::take`] is to be called for it.
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
    fn take(&mut self) -> Result<(), ConvertError>;

    /// The reader pauses, or is done.
    ///
    /// # Errors
    /// The run ends with the error.
    fn flush(&mut self) -> Result<(), ConvertError>;
}

impl<T: Target> Output<T> {
    /// Takes the lines of `window`.
    pub fn new(scan: Scan, window: Window, target: T) -> Self {
        Self { scan, window, target }
    }

    /// The conversion or the sender.
    pub fn target(&mut self) -> &mut T {
        &mut self.target
    }

    fn look_at(&mut self, path: &Path, placed: Placed) -> Result<bool, String> {
        if placed.is_too_long {
            return Err(line_limit::too_long());
        }
        if self.target.skips(path, placed) {
            return Ok(false);
        }
        let line = Line::parse(placed.bytes)?;
        let is_wanted = self.window.contains(line.ts);
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
        self.target.take()
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
    pub fn finish(&mut self) -> Result<Vec<String>, ConvertError> {
        self.converter.finish(&mut self.out).and_then(|()| self.out.flush()).map_err(unwritten)?;
        Ok(self.converter.left_out())
    }
}

fn unwritten(error: io::Error) -> ConvertError {
    TailError::Output(error).into()
}

impl Target for Conversion {
    fn look_at(
        &mut self,
        _scan: &mut Scan,
        _path: &Path,
        _offset: u64,
        line: &Line,
        is_wanted: bool,
    ) -> Result<bool, String> {
        // Also of a line that is not wanted: a broken one is reported.
        self.waiting = Some(OwnedRecord::of_line(line).map_err(|error| error.to_string())?);
        Ok(is_wanted)
    }

    fn take(&mut self) -> Result<(), ConvertError> {
        let no_record = || unwritten(io::Error::other("a line is shown that was not parsed"));
        let record = self.waiting.take().ok_or_else(no_record)?;
        self.converter.take(record, &mut self.out).map_err(unwritten)
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

    fn take(&mut self) -> Result<(), ConvertError> {
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
