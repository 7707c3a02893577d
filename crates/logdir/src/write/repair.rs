//! Changes of the current file by other processes, detected before each batch and repaired.

use super::LogFiles;
use crate::error::{At, FileError, FileErrorKind};
use crate::event::Event;
use crate::fs::{FileId, Fs, FsFile, Stat};
use crate::lines;

/// How many times in a row a file is written again before the caller gets an error: another process
/// deletes faster than this one writes.
const RESCUES_MAX: u32 = 4;

impl<F: Fs> LogFiles<F> {
    /// Makes the current file match this writer's state, or the state match the file.
    pub(super) fn repair(&mut self, batch: &[u8], progress: &mut usize) -> Result<(), FileError> {
        let stat = self.appender.stat()?;
        if stat.bytes < self.current_bytes() {
            self.accept_truncation(stat.bytes, progress)?;
        } else if stat.bytes > self.current_bytes() {
            self.accept_growth(stat.bytes, batch, progress)?;
        }
        self.appender.note_checked();
        if !self.keep_name(stat)? {
            return self.leave_moved(progress);
        }
        self.dir.hold_lock()
    }

    /// Writes the current file again if it was deleted. `false`: it was renamed.
    fn keep_name(&mut self, mut stat: Stat) -> Result<bool, FileError> {
        for _ in 0..RESCUES_MAX {
            let mut id = stat.id;
            if stat.links == 0 || self.appender.is_being_rescued() {
                id = self.rescue_unlinked()?;
            }
            if self.dir.has_name(self.current_file(), id) {
                return Ok(true);
            }
            // A file without its name may have been renamed, or deleted since the last check;
            // deleting a whole directory also deletes a file that was just written again.
            stat = self.appender.stat()?;
            if stat.links > 0 {
                return Ok(false);
            }
        }
        Err(self.appender.deleted_again())
    }

    /// Before the writer leaves the current file for good: writes it again if it was deleted since
    /// the batch began, because it is not checked later.
    pub(super) fn keep_before_leaving(&mut self) -> Result<(), FileError> {
        for _ in 0..RESCUES_MAX {
            if self.appender.stat()?.links > 0 {
                return Ok(());
            }
            self.rescue_unlinked()?;
        }
        Err(self.appender.deleted_again())
    }

    /// The file is shorter than this writer's state.
    fn accept_truncation(&mut self, bytes: u64, progress: &mut usize) -> Result<(), FileError> {
        // A line that was cut in the middle is invalid for any reader, and would swallow the next
        // one.
        let current = self.appender.current();
        let end = lines::line_end(&current.file, bytes).at("read", &current.path)?;
        if end < bytes {
            current.file.set_len(end).at("truncate", &current.path)?;
        }
        let missing_bytes = current.bytes - end;
        self.sealing.note_cut_by_others(end);
        let rewritten_bytes = self.appender.rewind(end, progress, &mut self.device);
        self.events.push(Event::Truncated {
            path: self.current_file().to_owned(),
            gone_bytes: missing_bytes - rewritten_bytes,
            rewritten_bytes,
        });
        Ok(())
    }

    /// The file is longer than this writer's state.
    fn accept_growth(
        &mut self,
        bytes: u64,
        batch: &[u8],
        progress: &mut usize,
    ) -> Result<(), FileError> {
        self.appender.adopt(bytes, batch, progress)?;
        let current = self.appender.current();
        let foreign_bytes = bytes - current.bytes;
        if foreign_bytes == 0 {
            return Ok(());
        }
        // No line can follow the log's own torn line, which is begun again.
        let end = if current.is_mid_line() {
            current.line_end
        } else {
            lines::line_end(&current.file, bytes).at("read", &current.path)?.max(current.bytes)
        };
        if end < bytes {
            current.file.set_len(end).at("truncate", &current.path)?;
        }
        let path = current.path.clone();
        let kept_bytes = end.saturating_sub(current.bytes);
        if end < current.bytes {
            self.appender.rewind(end, progress, &mut self.device);
        } else {
            self.appender.take_foreign(end);
        }
        let removed_bytes = foreign_bytes - kept_bytes;
        self.events.push(Event::Foreign { path, kept_bytes, removed_bytes });
        Ok(())
    }

    /// Writes the content of the unlinked current file to a new one and continues there.
    fn rescue_unlinked(&mut self) -> Result<FileId, FileError> {
        self.dir.restore()?;
        let (copy, id) = self.appender.rescue(&mut self.dir, &mut self.events)?;
        self.events.push(Event::Recreated { path: copy.path.clone(), bytes: copy.bytes });
        let is_renamed = self.current_name() != copy.name;
        if is_renamed {
            // The sealer must know it by its new name, from the start.
            self.sealing.note_left(&self.appender, copy.name);
        }
        self.appender.follow(copy);
        self.device.note_copied();
        self.sealing.note_copied(is_renamed);
        Ok(id)
    }

    /// The current file has another name now. Its lines are complete there; the incomplete line is
    /// removed, and a new file follows.
    fn leave_moved(&mut self, progress: &mut usize) -> Result<(), FileError> {
        self.appender.take_back_line(progress, &mut self.device)?;
        let next = self.dir.restore().and_then(|()| self.dir.create_next(&mut self.events));
        match next {
            Ok(next) => {
                let (from, opened) = (self.current_file().to_owned(), next.path.clone());
                self.replace_current(next);
                self.events.push(Event::Moved { from, opened });
                Ok(())
            }
            Err(error) if matches!(error.kind(), FileErrorKind::Locked { .. }) => Err(error),
            Err(error) => {
                // The moved file accepts lines as before, and blocking the server would not help.
                self.rotation.report(error, &mut self.events);
                Ok(())
            }
        }
    }
}
