//! A copy of a file that another process has unlinked.

use std::io;

use super::current::Current;
use crate::error::{At, FileError};
use crate::fs::{FileId, FsFile, Stat};
use crate::lines::{self, STEP_BYTES};

/// An incomplete copy of an unlinked file. It survives a failed call, so a full disk in the middle
/// costs nothing but time.
pub(super) struct Rescue<L> {
    target: Current<L>,
    copied_bytes: u64,
}

impl<L: FsFile> Rescue<L> {
    pub(super) fn new(target: Current<L>) -> Rescue<L> {
        Rescue { target, copied_bytes: 0 }
    }

    /// Whether another process has removed the copy, too. If it was renamed, it is completed under
    /// the new name, and the next check detects the move.
    pub(super) fn is_unlinked(&self) -> Result<bool, FileError> {
        let path = &self.target.path;
        Ok(self.target.file.stat().at("look at", path)?.links == 0)
    }

    /// Continues copying where the last call stopped. Returns the identity of the copy.
    pub(super) fn copy(&mut self, source: &Current<L>) -> Result<FileId, FileError> {
        let Rescue { target, copied_bytes } = self;
        // A failed write may have left bytes, another process may have cut some off, and the source
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

    /// The complete copy, as the current file in place of `source`.
    pub(super) fn into_current(self, source: &Current<L>) -> Current<L> {
        let (bytes, line_end) = (source.bytes, source.line_end);
        Current { bytes, line_end, ..self.target }
    }
}
