//! Logs as one file for other programs: Parquet or SQLite.
//!
//! | module | responsibility |
//! |---|---|
//! | `sqlite` | a database with the table `records` |
//!
//! Parquet files are written by `tacho_store`, with the columns of the hub's index.

pub mod sqlite;

use std::io::Write;
use std::path::Path;

use tacho_format::join::{self, HELD_BYTES_MAX, Joiner};
use tacho_logdir::read::Sink;
use tacho_logdir::read::reader::Placed;
use tacho_progress::Progress;
use tacho_record::OwnedRecord;
use tacho_record::line::Line;
use tacho_ship::words::megabytes;
use tacho_store::TableWriter;

use crate::say::say;

/// Takes records.
pub trait Target {
    /// Takes one.
    ///
    /// # Errors
    /// It cannot be written.
    fn push(&mut self, line: &Line<'_>) -> anyhow::Result<()>;
}

impl<W: Write + Send> Target for TableWriter<W> {
    fn push(&mut self, line: &Line<'_>) -> anyhow::Result<()> {
        Ok(TableWriter::push(self, line)?)
    }
}

/// Passes the records of logs to a target.
pub struct Converter<'a, T> {
    target: &'a mut T,
    /// Joins the lines of long statements.
    joiner: Joiner,
    progress: Progress,
    scanned_bytes: u64,
    /// Records that were passed on.
    pub records: u64,
    /// Lines and files that could not be read, each already reported.
    pub problems: u64,
    failed: Option<anyhow::Error>,
}

impl<'a, T: Target> Converter<'a, T> {
    /// Nothing was read yet.
    pub fn new(target: &'a mut T) -> Self {
        Self {
            target,
            joiner: Joiner::new(HELD_BYTES_MAX),
            progress: Progress::new(true),
            scanned_bytes: 0,
            records: 0,
            problems: 0,
            failed: None,
        }
    }

    /// A log was read to its end.
    ///
    /// # Errors
    /// The target cannot be written.
    pub fn end_log(&mut self) -> anyhow::Result<()> {
        let Self { joiner, target, records, .. } = self;
        joiner.finish(|record| push(*target, records, record))?;
        self.progress.end();
        Ok(())
    }

    fn take(&mut self, bytes: &[u8]) -> Result<anyhow::Result<()>, String> {
        let line = Line::parse(bytes)?;
        if !join::is_part(&line.event, &line.outcome, line.running_seq) && line.seq > 0 {
            self.records += 1;
            return Ok(self.target.push(&line));
        }
        let record = OwnedRecord::of_line(&line).map_err(|error| error.to_string())?;
        let Self { joiner, target, records, .. } = self;
        Ok(joiner.push(record, |record| push(*target, records, record)))
    }

    fn report(&mut self, path: &Path, reason: &str) {
        self.progress.end();
        self.problems += 1;
        say(&format!("{}: {reason}", path.display()));
    }
}

fn push<T: Target>(target: &mut T, records: &mut u64, record: &OwnedRecord) -> anyhow::Result<()> {
    *records += 1;
    record.with_line(|line| target.push(line))
}

impl<T: Target> Sink for Converter<'_, T> {
    type Error = anyhow::Error;

    fn wants(&mut self, path: &Path, line: Placed<'_>) -> bool {
        if self.failed.is_some() {
            return false;
        }
        if line.is_too_long {
            self.report(path, &format!("the line at byte {} is too long", line.offset));
            return false;
        }
        match self.take(line.bytes) {
            Ok(pushed) => self.failed = pushed.err(),
            Err(reason) => {
                self.report(path, &format!("broken line at byte {}: {reason}", line.offset));
            }
        }
        false
    }

    fn problem(&mut self, path: &Path, reason: &str) {
        self.report(path, reason);
    }

    fn note(&mut self, text: &str) {
        self.progress.end();
        say(text);
    }

    fn flush(&mut self) -> anyhow::Result<()> {
        self.failed.take().map_or(Ok(()), Err)
    }

    fn scanned(&mut self, bytes: u64) -> anyhow::Result<bool> {
        self.scanned_bytes += bytes;
        let scanned_bytes = self.scanned_bytes;
        self.progress.show(|| format!("{} converted", megabytes(scanned_bytes, None)));
        self.failed.take().map_or(Ok(true), Err)
    }
}
