//! Lines that are formatted but not in the file yet.

use tacho_logdir::{FileError, Fs, LogFiles};
use tacho_record::Record;
use tacho_record::json;
use tacho_record::time::TimeFormatter;

use super::context::Context;
use crate::control::{Severity, Timestamps};

/// A buffer that a huge statement made larger than this is shrunk again, bytes.
pub(super) const BUFFER_BYTES_MAX: usize = 4 << 20;

/// A batch of lines, see the module documentation.
pub(super) struct Batch {
    bytes: Vec<u8>,
    /// How much of it is in the file, bytes.
    progress: usize,
    /// `seq` of the next line.
    next_seq: u64,
    /// `seq` of the last line in the file.
    written_seq: u64,
    clock: TimeFormatter,
    zone: Timestamps,
    /// Producers that wait for its lines: connection, `rec_no`.
    awaited: Vec<(u64, u64)>,
    /// Entries of the table of running statements that the batch completes.
    finished: Vec<usize>,
}

/// The result of writing a batch.
pub(super) struct WrittenBatch<'b> {
    /// `seq` of the last line.
    pub(super) written_seq: u64,
    pub(super) lines: u64,
    pub(super) bytes: u64,
    /// Producers that wait for these lines: connection, `rec_no`.
    pub(super) awaited: std::vec::Drain<'b, (u64, u64)>,
    /// Entries of the table of running statements that the batch completed.
    pub(super) finished: std::vec::Drain<'b, usize>,
}

impl Batch {
    /// `last_seq`: `seq` of the last line in the file.
    pub(super) fn new(last_seq: u64) -> Batch {
        Batch {
            bytes: Vec::with_capacity(1 << 20),
            progress: 0,
            next_seq: last_seq + 1,
            written_seq: last_seq,
            clock: TimeFormatter::utc(),
            zone: Timestamps::Utc,
            awaited: Vec::new(),
            finished: Vec::new(),
        }
    }

    /// Applies the setting of the time zone.
    pub(super) fn set_zone(&mut self, zone: Timestamps, context: &Context) {
        if std::mem::replace(&mut self.zone, zone) == zone {
            return;
        }
        self.clock = match zone {
            Timestamps::Utc => TimeFormatter::utc(),
            Timestamps::System => TimeFormatter::system().unwrap_or_else(|error| {
                let text = format!("{error}; time stamps are in UTC. Set TZ or /etc/localtime.");
                context.say(Severity::Warning, &text);
                TimeFormatter::utc()
            }),
        };
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Its length, bytes.
    pub(super) fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// `seq` of the next line.
    pub(super) fn next_seq(&self) -> u64 {
        self.next_seq
    }

    /// `seq` of the last line, in the batch or in the file.
    pub(super) fn last_seq(&self) -> u64 {
        self.next_seq.saturating_sub(1)
    }

    /// `seq` of the last line in the file.
    pub(super) fn written_seq(&self) -> u64 {
        self.written_seq
    }

    /// Takes the `seq` of the next line.
    pub(super) fn take_seq(&mut self) -> u64 {
        let seq = self.next_seq;
        self.next_seq += 1;
        seq
    }

    /// Appends a line whose `seq` was [taken](Self::take_seq).
    pub(super) fn write(&mut self, record: &Record<'_>) {
        json::write_line(&mut self.bytes, record, &mut self.clock);
    }

    /// The buffer for a line, and the formatter of its times.
    #[inline]
    pub(super) fn formatting(&mut self) -> (&mut Vec<u8>, &mut TimeFormatter) {
        (&mut self.bytes, &mut self.clock)
    }

    /// The formatter of times.
    pub(super) fn clock(&mut self) -> &mut TimeFormatter {
        &mut self.clock
    }

    /// The producer of a record waits for the last line.
    #[inline]
    pub(super) fn note_awaited(&mut self, conn: u64, rec_no: u64) {
        self.awaited.push((conn, rec_no));
    }

    /// The batch has the completion of a running statement.
    pub(super) fn note_finished(&mut self, entry: usize) {
        self.finished.push(entry);
    }

    /// Forgets what belongs to the previous arena.
    pub(super) fn begin_arena(&mut self) {
        self.awaited.clear();
        self.finished.clear();
    }

    /// Appends the batch to the file, from where the last attempt stopped.
    pub(super) fn write_to<F: Fs>(&mut self, files: &mut LogFiles<F>) -> Result<(), FileError> {
        files.write(&self.bytes, &mut self.progress)
    }

    /// The whole batch is in the file: empties it.
    pub(super) fn take_written(&mut self) -> WrittenBatch<'_> {
        let lines = self.next_seq - 1 - self.written_seq;
        let bytes = self.bytes.len() as u64;
        self.written_seq = self.next_seq - 1;
        self.bytes.clear();
        self.bytes.shrink_to(BUFFER_BYTES_MAX);
        self.progress = 0;
        WrittenBatch {
            written_seq: self.written_seq,
            lines,
            bytes,
            awaited: self.awaited.drain(..),
            finished: self.finished.drain(..),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use tacho_logdir::Options;
    use tacho_logdir::faulty::FaultyFs;

    use super::*;

    #[test]
    fn a_batch_is_continued_after_an_error_and_empty_when_it_is_written() {
        let fs = FaultyFs::new();
        fs.create_dir(Path::new("/data")).expect("an empty file system");
        let dir = Path::new("/data/tacho");
        let options = Options { rotate_bytes: 0 };
        let (mut files, _) = LogFiles::open(fs.clone(), dir, options).expect("opens");
        let mut batch = Batch::new(6);
        for _ in 0..2 {
            let seq = batch.take_seq();
            batch.write(&Record { seq, ..Record::default() });
        }
        batch.note_awaited(3, 4);
        let bytes = batch.len();
        fs.set_room(Some(bytes / 2));
        assert!(batch.write_to(&mut files).is_err());
        assert_eq!((batch.written_seq(), batch.next_seq()), (6, 9));
        fs.set_room(None);
        batch.write_to(&mut files).expect("there is room");
        let WrittenBatch { written_seq, lines, bytes: written, awaited, .. } = batch.take_written();
        assert_eq!((written_seq, lines, written), (8, 2, bytes));
        assert_eq!(awaited.collect::<Vec<_>>(), [(3, 4)]);
        assert_eq!((batch.written_seq(), batch.next_seq(), batch.is_empty()), (8, 9, true));
        assert_eq!(fs.read(files.current_file()).len() as u64, bytes);
    }
}
