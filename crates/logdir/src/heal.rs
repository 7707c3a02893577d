//! What others did to the current file, noticed before each batch and mended.

use std::io;
use std::path::PathBuf;

use super::create::create_again;
use super::current::{Current, Rescue};
use super::error::{At, FileError, FileErrorKind};
use super::event::Event;
use super::fs::{FileId, Fs, FsFile, Stat};
use super::lines::{self, STEP_BYTES};
use super::lock;
use super::log::LogFiles;

/// How many times in a row a file is written again before the caller is told that it is of no use
/// just now: somebody deletes faster than we write.
const RESCUES_MAX: u32 = 4;

impl<F: Fs> LogFiles<F> {
    /// Makes the current file what we believe it to be, or our belief what it is.
    pub(crate) fn heal(&mut self, batch: &[u8], progress: &mut usize) -> Result<(), FileError> {
        let stat = self.current.file.stat().at("look at", &self.current.path)?;
        if stat.bytes < self.current.bytes {
            self.accept_truncation(stat.bytes, progress)?;
        } else if stat.bytes > self.current.bytes {
            self.accept_growth(stat.bytes, batch, progress)?;
        }
        self.unsure = false;
        if !self.keep_name(stat)? {
            return self.leave_moved(progress);
        }
        if self.lock.stat().at("look at", &self.lock_path())?.links == 0 {
            self.hold_lock()?;
        }
        Ok(())
    }

    /// Writes the current file again wherever it has been deleted. `false`: it was renamed.
    fn keep_name(&mut self, mut stat: Stat) -> Result<bool, FileError> {
        for _ in 0..RESCUES_MAX {
            let mut id = stat.id;
            if stat.links == 0 || self.rescue.is_some() {
                id = self.rescue_unlinked()?;
            }
            if self.has_name(&self.current.path, id) {
                return Ok(true);
            }
            // Without its name and renamed are two things: it may have been deleted since we looked,
            // and who deletes a whole directory deletes also what was just written again.
            stat = self.current.file.stat().at("look at", &self.current.path)?;
            if stat.links > 0 {
                return Ok(false);
            }
        }
        Err(self.deleted_again())
    }

    /// Before the current file is left for good: what was deleted since the batch began is written
    /// again, as nobody looks at it later.
    pub(crate) fn keep_before_leaving(&mut self) -> Result<(), FileError> {
        for _ in 0..RESCUES_MAX {
            if self.current.file.stat().at("look at", &self.current.path)?.links > 0 {
                return Ok(());
            }
            self.rescue_unlinked()?;
        }
        Err(self.deleted_again())
    }

    fn deleted_again(&self) -> FileError {
        FileError::new("keep", &self.current.path, io::Error::from_raw_os_error(libc::ENOENT))
    }

    /// The file is shorter than we made it.
    fn accept_truncation(&mut self, bytes: u64, progress: &mut usize) -> Result<(), FileError> {
        let Current { file, path, .. } = &self.current;
        // A line cut in its middle is no line for any reader, and would swallow the next.
        let end = lines::line_end(file, bytes).at("read", path)?;
        if end < bytes {
            file.set_len(end).at("truncate", path)?;
        }
        let missing_bytes = self.current.bytes - end;
        self.note_cut_by_others(end);
        let rewritten_bytes = self.rewind(end, progress);
        self.events.push(Event::Truncated {
            path: self.current.path.clone(),
            gone_bytes: missing_bytes - rewritten_bytes,
            rewritten_bytes,
        });
        Ok(())
    }

    /// The file is longer than we made it.
    fn accept_growth(
        &mut self,
        bytes: u64,
        batch: &[u8],
        progress: &mut usize,
    ) -> Result<(), FileError> {
        if self.unsure {
            self.adopt(bytes, batch, progress)?;
        }
        let foreign_bytes = bytes - self.current.bytes;
        if foreign_bytes == 0 {
            return Ok(());
        }
        let Current { file, path, .. } = &self.current;
        // Behind the torn line of ours nothing can stand as a line; that line is begun again.
        let end = if self.current.is_mid_line() {
            self.current.line_end
        } else {
            lines::line_end(file, bytes).at("read", path)?.max(self.current.bytes)
        };
        if end < bytes {
            file.set_len(end).at("truncate", path)?;
        }
        let kept_bytes = end.saturating_sub(self.current.bytes);
        if end < self.current.bytes {
            self.rewind(end, progress);
        } else {
            self.current.bytes = end;
            self.current.line_end = end;
            if kept_bytes > 0 {
                // The bytes before the end are no longer those of the batch.
                self.batch_bytes = 0;
            }
        }
        let path = self.current.path.clone();
        let removed_bytes = foreign_bytes - kept_bytes;
        self.events.push(Event::Foreign { path, kept_bytes, removed_bytes });
        Ok(())
    }

    /// A failed write may have left bytes: those that are the next of the batch are ours.
    fn adopt(&mut self, bytes: u64, batch: &[u8], progress: &mut usize) -> Result<(), FileError> {
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

    /// Writes the content of the unlinked current file into a new one and goes on there.
    fn rescue_unlinked(&mut self) -> Result<FileId, FileError> {
        lock::ensure_dir(&self.fs, &self.dir)?;
        self.hold_lock()?;
        if let Some(rescue) = &self.rescue {
            // Somebody may have removed that one too. If it was renamed, it is completed where
            // it is, and the next look at it finds it moved.
            let path = &rescue.target.path;
            if rescue.target.file.stat().at("look at", path)?.links == 0 {
                self.rescue = None;
            }
        }
        let mut rescue = match self.rescue.take() {
            Some(rescue) => rescue,
            None => {
                let target =
                    match create_again(&self.fs, &self.dir, &mut self.made, self.current.name)? {
                        Some(target) => target,
                        None => self.create_next()?,
                    };
                Rescue { target, copied_bytes: 0 }
            }
        };
        let id = match copy(&self.current, &mut rescue) {
            Ok(id) => id,
            Err(error) => {
                self.rescue = Some(rescue);
                return Err(error);
            }
        };
        let mut target = rescue.target;
        target.bytes = self.current.bytes;
        target.line_end = self.current.line_end;
        self.events.push(Event::Recreated { path: target.path.clone(), bytes: target.bytes });
        // Not `replace_current`: the bytes of the batch are in the copy at the same place.
        if self.current.name != target.name {
            // The sealer has to know it by its new name, from the start.
            self.note_left(target.name);
            self.rewritten = true;
        }
        self.current = target;
        self.note_copied();
        Ok(id)
    }

    /// The current file has another name now. Its lines are whole there; the line begun is
    /// taken back, and a new file takes over.
    fn leave_moved(&mut self, progress: &mut usize) -> Result<(), FileError> {
        self.take_back_line(progress)?;
        let next = lock::ensure_dir(&self.fs, &self.dir)
            .and_then(|()| self.hold_lock())
            .and_then(|()| self.create_next());
        match next {
            Ok(next) => {
                let opened = next.path.clone();
                let (from, _) = self.replace_current(next);
                self.events.push(Event::Moved { from, opened });
                Ok(())
            }
            Err(error) if matches!(error.kind(), FileErrorKind::Locked { .. }) => Err(error),
            Err(error) => {
                // The moved file takes lines as well as before, and blocking the server
                // would help nobody.
                self.report_rotate_failure(error);
                Ok(())
            }
        }
    }

    /// Takes the lock again if its file is not the one in the directory any more.
    fn hold_lock(&mut self) -> Result<(), FileError> {
        let path = self.lock_path();
        let stat = self.lock.stat().at("look at", &path)?;
        if stat.links == 0 || !self.has_name(&path, stat.id) {
            self.lock = lock::acquire(&self.fs, &self.dir)?;
        }
        Ok(())
    }

    fn lock_path(&self) -> PathBuf {
        self.dir.join(lock::LOCK_FILE)
    }

    /// Whether a path still names a file. A path that cannot be looked at (an I/O error, no
    /// permission) is no reason to leave a file that can still be written.
    fn has_name(&self, path: &std::path::Path, id: FileId) -> bool {
        match self.fs.stat(path) {
            Ok(named) => named.id == id,
            Err(error) => {
                !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
            }
        }
    }
}

/// Goes on copying where the last call stopped. Returns what the copy is known by.
fn copy<L: FsFile>(source: &Current<L>, rescue: &mut Rescue<L>) -> Result<FileId, FileError> {
    let Rescue { target, copied_bytes } = rescue;
    // A failed write may have left bytes, somebody may have cut some off, and the source
    // may have lost its torn line since.
    let Stat { id, bytes, .. } = target.file.stat().at("look at", &target.path)?;
    *copied_bytes = bytes.min(*copied_bytes).min(source.bytes);
    if bytes > *copied_bytes {
        target.file.set_len(*copied_bytes).at("truncate", &target.path)?;
    }
    let mut buffer = vec![0; STEP_BYTES];
    while *copied_bytes < source.bytes {
        let left = usize::try_from(source.bytes - *copied_bytes).unwrap_or(usize::MAX);
        let step = &mut buffer[..STEP_BYTES.min(left)];
        lines::read_exact_at(&source.file, step, *copied_bytes).at("read", &source.path)?;
        match target.file.write(step) {
            Ok(0) => {
                let error = io::Error::from(io::ErrorKind::WriteZero);
                return Err(FileError::new("copy to", &target.path, error));
            }
            Ok(count) => *copied_bytes += count as u64,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(FileError::new("copy to", &target.path, error)),
        }
    }
    Ok(id)
}
