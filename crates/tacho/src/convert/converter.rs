//! Records in, bytes of another format out.

use std::io::{self, Write};

use tacho_format::{Format, Formatter};
use tacho_record::OwnedRecord;
use tacho_record::time::TimeFormatter;
use tacho_record::{EventKind, Outcome};

use crate::filter::Filter;
use crate::joined::Joined;
use crate::say;

/// Converts the records of one log, in its order.
pub struct Converter {
    joined: Option<Joined>,
    sink: Sink,
}

/// What is behind the joiner.
struct Sink {
    format: Format,
    formatter: Formatter,
    clock: TimeFormatter,
    has_begun: bool,
    buffer: Vec<u8>,
    left_out: LeftOut,
}

/// Records that a slow log cannot hold.
#[derive(Default)]
struct LeftOut {
    without_time: u64,
    lost_lines: u64,
}

impl Converter {
    /// Of a format.
    pub fn new(format: Format, formatter: Formatter, clock: TimeFormatter) -> Self {
        Self {
            joined: (!format.knows_running()).then(Joined::default),
            sink: Sink {
                format,
                formatter,
                clock,
                has_begun: false,
                buffer: Vec::new(),
                left_out: LeftOut::default(),
            },
        }
    }

    /// Whether lines of one statement become one record.
    pub fn joins(&self) -> bool {
        self.joined.is_some()
    }

    /// Takes a record; writes what is whole now and passes the filter.
    ///
    /// # Errors
    /// The output cannot be written.
    pub fn take(
        &mut self,
        record: OwnedRecord,
        filter: &Filter,
        out: &mut impl Write,
    ) -> io::Result<()> {
        let Self { joined, sink } = self;
        match joined {
            Some(joined) => joined.push(record, filter, |record| sink.write(record, out)),
            None => sink.write(&record, out),
        }
    }

    /// Writes what was held back, and the end of the file.
    ///
    /// # Errors
    /// The output cannot be written.
    pub fn finish(&mut self, filter: &Filter, out: &mut impl Write) -> io::Result<()> {
        let Self { joined, sink } = self;
        if let Some(joined) = joined {
            joined.finish(filter, |record| sink.write(record, out))?;
        }
        sink.finish(out)
    }

    /// Sentences about records that the format cannot hold.
    pub fn left_out(&self) -> Vec<String> {
        let LeftOut { without_time, lost_lines } = self.sink.left_out;
        let mut sentences = Vec::new();
        if without_time > 0 {
            let statements = say::counted(without_time, "statement");
            sentences.push(format!(
                "{statements} without a query time left out: still running, interrupted or not measured"
            ));
        }
        if lost_lines > 0 {
            let lines = say::counted(lost_lines, "`lost` line");
            sentences.push(format!("{lines} in the log: statements are missing"));
        }
        sentences
    }
}

impl Sink {
    fn write(&mut self, record: &OwnedRecord, out: &mut impl Write) -> io::Result<()> {
        if self.format == Format::Slow && !self.is_slow(record) {
            return Ok(());
        }
        self.begin(record.ts_us);
        let Self { formatter, buffer, clock, .. } = self;
        record.with(|record| formatter.write(buffer, record, clock));
        out.write_all(&self.buffer)?;
        self.buffer.clear();
        // A huge statement leaves nothing behind it for the usual ones.
        self.buffer.shrink_to(1 << 20);
        Ok(())
    }

    fn is_slow(&mut self, record: &OwnedRecord) -> bool {
        let has_ended = matches!(record.outcome, Some(Outcome::Ok | Outcome::Error));
        match (record.event, record.query_time_us) {
            (Some(EventKind::Lost), _) => self.left_out.lost_lines += 1,
            (Some(EventKind::Statement), Some(_)) if has_ended => return true,
            (Some(EventKind::Statement), _) if record.sql.is_some() => {
                self.left_out.without_time += 1;
            }
            _ => {}
        }
        false
    }

    fn begin(&mut self, begun_us: i64) {
        if !std::mem::replace(&mut self.has_begun, true) {
            self.formatter.begin(&mut self.buffer, begun_us, &mut self.clock);
        }
    }

    fn finish(&mut self, out: &mut impl Write) -> io::Result<()> {
        // Also a file without a record is a whole one; nothing in it shows this time.
        self.begin(0);
        self.formatter.end(&mut self.buffer);
        out.write_all(&self.buffer)?;
        self.buffer.clear();
        Ok(())
    }
}
