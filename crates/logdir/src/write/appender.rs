//! The current file, and the position of the running batch in it.

use std::io;

use super::current::Current;
use super::device::Device;
use super::directory::LogDir;
use super::rescue::Rescue;
use crate::error::{At, FileError, FileErrorKind};
use crate::event::Event;
use crate::fs::{FileId, Fs, FsFile, Stat};
use crate::lines::{self, STEP_BYTES};

/// The complete lines of a file, and the position of the last ones in the batch.
#[derive(Clone, Copy)]
pub(super) struct CompleteLines {
    /// Length of the file up to their end.
    pub(super) bytes: u64,
    /// How many of the last bytes belong to the batch.
    pub(super) batch_bytes: u64,
    /// End of these in the batch.
    pub(super) batch_end: usize,
}

/// The file that batches are appended to. It knows how much of the running batch is in the file;
/// the caller's `progress` is the same position within the batch.
pub(super) struct Appender<L> {
    current: Current<L>,
    /// An incomplete copy of the unlinked current file.
    rescue: Option<Rescue<L>>,
    /// How many bytes before `current.bytes` belong to the unfinished batch.
    batch_bytes: u64,
    /// `progress` of the batch, according to the file.
    batch_end: usize,
    /// The last batch ended with an error, and the caller will repeat it.
    is_unfinished: bool,
    /// A write failed, but may have left bytes in the file.
    is_unsure: bool,
    bytes_written: u64,
}

impl<L: FsFile> Appender<L> {
    pub(super) fn new(current: Current<L>) -> Appender<L> {
        Appender {
            current,
            rescue: None,
            batch_bytes: 0,
            batch_end: 0,
            is_unfinished: false,
            is_unsure: false,
            bytes_written: 0,
        }
    }

    pub(super) fn current(&self) -> &Current<L> {
        &self.current
    }

    /// Bytes of batches that were written, without copies of unlinked files.
    pub(super) fn bytes_written(&self) -> u64 {
        self.bytes_written
    }

    /// Whether a batch was begun that is not completely in the file.
    pub(super) fn is_unfinished(&self) -> bool {
        self.is_unfinished
    }

    /// Notes how a call with a batch ended.
    pub(super) fn end_batch(&mut self, is_unfinished: bool) {
        self.is_unfinished = is_unfinished;
    }

    /// The complete lines of the file and of the batch in it.
    pub(super) fn complete_lines(&self) -> CompleteLines {
        let over = self.current.bytes - self.current.line_end;
        CompleteLines {
            bytes: self.current.line_end,
            batch_bytes: self.batch_bytes.saturating_sub(over),
            batch_end: self.batch_end.saturating_sub(over as usize),
        }
    }

    /// Starts or continues a batch. A new one (`progress` 0) gives up the previous one, whose torn
    /// line is cut off.
    pub(super) fn begin_batch(
        &mut self,
        progress: usize,
        device: &mut Device<L>,
    ) -> Result<(), FileError> {
        if progress == 0 {
            self.cut_given_up_line(device)?;
            self.batch_bytes = 0;
        }
        self.batch_end = progress;
        Ok(())
    }

    fn cut_given_up_line(&mut self, device: &mut Device<L>) -> Result<(), FileError> {
        if self.current.is_mid_line() {
            let Current { file, path, line_end, .. } = &self.current;
            // Never extends the file: if another process truncated it further, this would create a
            // hole, and the repair would not detect the loss.
            if file.stat().at("look at", path)?.bytes > *line_end {
                file.set_len(*line_end).at("truncate", path)?;
            }
            self.bytes_written -= self.current.bytes - self.current.line_end;
            self.current.bytes = self.current.line_end;
            device.note_cut(self.current.line_end);
        }
        Ok(())
    }

    /// Appends the first `count` bytes of `rest`, as far as one write(2) does.
    pub(super) fn append(
        &mut self,
        rest: &[u8],
        count: usize,
        progress: &mut usize,
    ) -> Result<(), FileError> {
        match self.current.file.write(&rest[..count]) {
            Ok(0) => {
                let error = io::Error::from(io::ErrorKind::WriteZero);
                Err(FileError::new("append to", &self.current.path, error))
            }
            Ok(written) => {
                self.advance(rest, written, progress);
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            Err(error) => {
                self.is_unsure = true;
                Err(FileError::new("append to", &self.current.path, error))
            }
        }
    }

    /// Notes that the first `written` bytes of `rest` are in the file.
    fn advance(&mut self, rest: &[u8], written: usize, progress: &mut usize) {
        *progress += written;
        self.batch_end = *progress;
        self.current.bytes += written as u64;
        self.batch_bytes += written as u64;
        self.bytes_written += written as u64;
        if let Some(at) = rest[..written].iter().rposition(|&byte| byte == b'\n') {
            self.current.line_end = self.current.bytes - (written - at - 1) as u64;
        }
    }

    /// Notes that the file now ends at `end`, a line end, and that the bytes of the batch after it
    /// must be written again. Returns their number.
    pub(super) fn rewind(&mut self, end: u64, progress: &mut usize, device: &mut Device<L>) -> u64 {
        let again = self.batch_bytes.min(self.current.bytes - end);
        // `batch_bytes` never exceeds `progress`, so neither subtraction can wrap.
        *progress -= again as usize;
        self.batch_end = *progress;
        self.batch_bytes -= again;
        self.bytes_written -= again;
        self.current.bytes = end;
        self.current.line_end = end;
        device.note_cut(end);
        again
    }

    /// Cuts off the line that the unfinished batch began, so that it can be written elsewhere.
    pub(super) fn take_back_line(
        &mut self,
        progress: &mut usize,
        device: &mut Device<L>,
    ) -> Result<(), FileError> {
        if self.current.is_mid_line() {
            let end = self.current.line_end;
            self.current.file.set_len(end).at("truncate", &self.current.path)?;
            self.rewind(end, progress, device);
        }
        Ok(())
    }

    /// Notes that the length of the file was checked.
    pub(super) fn note_checked(&mut self) {
        self.is_unsure = false;
    }

    /// The file is `bytes` long, more than expected: bytes that a failed write left, and that are
    /// the next ones of the batch, belong to it.
    pub(super) fn adopt(
        &mut self,
        bytes: u64,
        batch: &[u8],
        progress: &mut usize,
    ) -> Result<(), FileError> {
        if !self.is_unsure {
            return Ok(());
        }
        let mut buffer = vec![0; STEP_BYTES];
        while *progress < batch.len() && self.current.bytes < bytes {
            let rest = &batch[*progress..];
            let left = usize::try_from(bytes - self.current.bytes).unwrap_or(usize::MAX);
            let step = &mut buffer[..STEP_BYTES.min(left).min(rest.len())];
            lines::read_exact_at(&self.current.file, step, self.current.bytes)
                .at("read", &self.current.path)?;
            let same = step.iter().zip(rest).take_while(|(a, b)| a == b).count();
            let differs = same < step.len();
            self.advance(rest, same, progress);
            if differs {
                break;
            }
        }
        Ok(())
    }

    /// Accepts complete lines of another process up to `end`.
    pub(super) fn take_foreign(&mut self, end: u64) {
        if end > self.current.bytes {
            // The bytes before the end are no longer those of the batch.
            self.batch_bytes = 0;
        }
        self.current.bytes = end;
        self.current.line_end = end;
    }

    /// State of the file.
    pub(super) fn stat(&self) -> Result<Stat, FileError> {
        self.current.file.stat().at("look at", &self.current.path)
    }

    /// Whether an incomplete copy of the file exists.
    pub(super) fn is_being_rescued(&self) -> bool {
        self.rescue.is_some()
    }

    /// Copies the unlinked file to one of the same name, or the next one. Returns the copy, to
    /// which the caller must [switch](Self::follow).
    pub(super) fn rescue<F: Fs<File = L>>(
        &mut self,
        dir: &mut LogDir<F>,
        events: &mut Vec<Event>,
    ) -> Result<(Current<L>, FileId), FileError> {
        if let Some(rescue) = &self.rescue
            && rescue.is_unlinked()?
        {
            self.rescue = None;
        }
        let mut rescue = match self.rescue.take() {
            Some(rescue) => rescue,
            None => Rescue::new(match dir.create_again(self.current.name)? {
                Some(target) => target,
                None => dir.create_next(events)?,
            }),
        };
        match rescue.copy(&self.current) {
            Ok(id) => Ok((rescue.into_current(&self.current), id)),
            Err(error) => {
                self.rescue = Some(rescue);
                Err(error)
            }
        }
    }

    /// Switches to a copy of the file, in which the bytes of the batch are at the same position.
    pub(super) fn follow(&mut self, copy: Current<L>) {
        self.current = copy;
    }

    /// Switches to another file. Returns the previous one.
    pub(super) fn replace(&mut self, next: Current<L>) -> Current<L> {
        self.batch_bytes = 0;
        self.is_unsure = false;
        std::mem::replace(&mut self.current, next)
    }

    /// Error: another process deletes the file as often as it is written again.
    pub(super) fn deleted_again(&self) -> FileError {
        FileError::new("keep", &self.current.path, io::Error::from_raw_os_error(libc::ENOENT))
    }

    /// An error about the file.
    pub(super) fn refuse(&self, kind: FileErrorKind, operation: &'static str) -> FileError {
        FileError::of_kind(kind, operation, &self.current.path)
    }
}
