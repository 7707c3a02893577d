//! The rendition of one file: lines in, bytes of the format out.

use std::collections::TryReserveError;
use std::path::{Path, PathBuf};

use tacho_format::join::Joiner;
use tacho_format::{Format, Formatter};
use tacho_record::Line;
use tacho_record::OwnedRecord;
use tacho_record::time::TimeFormatter;

use super::super::ending::Content;
use super::super::fs::Fs;
use super::super::name::FileName;
use super::Trouble;
use super::source::LogLines;
use super::target::Target;

/// Buffer memory that is kept, bytes.
const KEPT_BYTES: usize = 1 << 20;
/// A larger line is read only if there is memory for all its copies.
const LARGE_BYTES: usize = 1 << 20;
/// The line, the record, and the intermediate copy.
const COPIES: usize = 3;

pub(super) struct Work<F: Fs> {
    name: FileName,
    source: LogLines<F::File>,
    path: PathBuf,
    place: Destination<F::File>,
    out: Out,
    /// How much of `out` is in the file.
    progress: usize,
    /// The part of the log file that is done, bytes.
    done: u64,
    is_ended: bool,
    broken_count: u64,
    is_broken_told: bool,
    note: Option<String>,
}

/// Destination of the bytes.
enum Destination<L> {
    /// Not open yet: the file is created with the first line.
    Open,
    /// The file.
    File(Target<L>),
    /// None: the name is taken. Events that end in a later file still need these lines.
    Blocked,
}

/// Converts a record to bytes.
struct Out {
    formatter: Formatter,
    clock: TimeFormatter,
    utc: Option<bool>,
    bytes: Vec<u8>,
}

impl Out {
    fn write(&mut self, record: &OwnedRecord) -> Result<(), TryReserveError> {
        let Out { formatter, clock, bytes, .. } = self;
        record.with(|record| formatter.try_write(bytes, record, clock))
    }
}

impl<F: Fs> Work<F> {
    /// `None`: the log file does not exist.
    pub(super) fn begin(
        fs: &F,
        dir: &Path,
        name: FileName,
        (format, content): (Format, Content),
        host: &str,
    ) -> Result<Option<Work<F>>, Trouble> {
        let Some(source) = LogLines::open(fs, dir, name)? else { return Ok(None) };
        Ok(Some(Work {
            name,
            source,
            path: dir.join(format!("{name}.{}", content.ending())),
            place: Destination::Open,
            out: Out {
                formatter: Formatter::new(format, host),
                clock: TimeFormatter::utc(),
                utc: None,
                bytes: Vec::new(),
            },
            progress: 0,
            done: 0,
            is_ended: false,
            broken_count: 0,
            is_broken_told: false,
            note: None,
        }))
    }

    pub(super) fn name(&self) -> FileName {
        self.name
    }

    /// Sets the time zone of further lines.
    pub(super) fn set_clock(&mut self, utc: bool) {
        if self.out.utc.replace(utc) != Some(utc) {
            // Without a zone the log's own times are in UTC, too, which the writer has reported.
            let system = || TimeFormatter::system().unwrap_or_else(|_| TimeFormatter::utc());
            self.out.clock = if utc { TimeFormatter::utc() } else { system() };
        }
    }

    /// How much of the log file is in the rendition, bytes of lines.
    pub(super) fn done(&self) -> u64 {
        self.done
    }

    /// Takes the next lines of the log, to be flushed. `false`: there are none. For a closed file,
    /// it no longer waits until an obstacle is gone.
    pub(super) fn take_lines(
        &mut self,
        fs: &F,
        joiner: &mut Joiner,
        is_closed: bool,
    ) -> Result<bool, Trouble> {
        let lines = self.source.next_lines(fs)?;
        if lines.is_empty() {
            return Ok(false);
        }
        let Out { formatter, clock, bytes, .. } = &mut self.out;
        if matches!(self.place, Destination::Open) {
            self.place = match Target::open(fs, &self.path) {
                Err(Trouble::InTheWay(path)) if is_closed => {
                    self.note = Some(format!(
                        "{} is not a regular file: {} is not written in the other format",
                        path.display(),
                        self.name.log_file()
                    ));
                    Destination::Blocked
                }
                opened => Destination::File(opened?),
            };
            formatter.begin(bytes, self.name.stamp_s().saturating_mul(1_000_000), clock);
        }
        let mut is_memory_short = false;
        for line in lines.split_inclusive(|byte| *byte == b'\n') {
            if line.len() > LARGE_BYTES && !has_room(line.len()) {
                is_memory_short = true;
                break;
            }
            let record = Line::parse(line).ok().and_then(|line| OwnedRecord::of_line(&line).ok());
            let Some(record) = record else {
                self.broken_count += 1;
                continue;
            };
            if joiner.push(record, |record| self.out.write(record)).is_err() {
                is_memory_short = true;
                break;
            }
        }
        self.source.taken();
        if is_memory_short { Err(self.out_of_memory()) } else { Ok(true) }
    }

    /// Writes events that have not ended.
    pub(super) fn give_out(&mut self, joiner: &mut Joiner) -> Result<(), Trouble> {
        let given = joiner.finish(|record| self.out.write(record));
        given.map_err(|_| self.out_of_memory())
    }

    /// Writes the converted bytes to the file.
    pub(super) fn flush(&mut self, fs: &F) -> Result<(), Trouble> {
        if let Destination::File(target) = &mut self.place {
            target.put(fs, &self.out.bytes, &mut self.progress)?;
        }
        self.done = self.source.offset();
        self.progress = 0;
        self.out.bytes.clear();
        self.out.bytes.shrink_to(KEPT_BYTES);
        Ok(())
    }

    /// Writes the end of the format. A log file without a line has no rendition.
    pub(super) fn end(&mut self, fs: &F) -> Result<(), Trouble> {
        if !matches!(self.place, Destination::Open) && !std::mem::replace(&mut self.is_ended, true)
        {
            self.out.formatter.end(&mut self.out.bytes);
        }
        self.flush(fs)?;
        match &mut self.place {
            Destination::File(target) => target.finish(fs),
            Destination::Open | Destination::Blocked => Ok(()),
        }
    }

    pub(super) fn sync(&self) -> Result<(), Trouble> {
        match &self.place {
            Destination::File(target) => target.sync(),
            Destination::Open | Destination::Blocked => Ok(()),
        }
    }

    /// Reports once that the name is taken, and once that there are lines of another process.
    pub(super) fn take_notes(&mut self) -> impl Iterator<Item = String> {
        let is_news = self.broken_count > 0
            && !std::mem::replace(&mut self.is_broken_told, self.broken_count > 0);
        let (log, rendition) = (self.source.path().display(), self.path.display());
        let broken = || format!("{log} has lines that are not records and are not in {rendition}");
        self.note.take().into_iter().chain(is_news.then(broken))
    }

    fn out_of_memory(&self) -> Trouble {
        Trouble::Memory(self.source.path().to_owned())
    }
}

/// Whether there is memory for the record of a line of this length. Reading a record cannot fail
/// gracefully, so the memory is allocated, and freed, beforehand.
fn has_room(line_bytes: usize) -> bool {
    let Some(bytes) = line_bytes.checked_mul(COPIES) else { return false };
    Vec::<u8>::new().try_reserve_exact(bytes).is_ok()
}
