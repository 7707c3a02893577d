//! The sidecar that is being written.

use std::io;
use std::path::PathBuf;

use crate::error::{At, FileError};
use crate::fs::{Fs, FsFile, OpenMode};
use crate::lines::{self, STEP_BYTES};
use crate::sync::sync_tail;

/// A sidecar, see the module documentation.
pub(super) struct Sidecar<F: Fs> {
    file: F::File,
    path: PathBuf,
    /// Length according to this writer.
    bytes: u64,
    /// How much of it is surely on the device, bytes.
    synced: u64,
    /// The rest may have parts that fdatasync(2) would consider clean.
    is_doubtful: bool,
    /// A write failed, but may have left bytes.
    unsure: bool,
    /// An incomplete copy that replaces a deleted sidecar.
    copy: Option<F::File>,
}

impl<F: Fs> Sidecar<F> {
    /// Creates an empty one.
    pub(super) fn create(fs: &F, path: PathBuf) -> Result<Sidecar<F>, FileError> {
        let file = match fs.open(&path, OpenMode::AppendNew) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                // Left by an attempt that reported an error, or died: it is empty then.
                let file = fs.open(&path, OpenMode::Append).at("open", &path)?;
                if file.stat().at("look at", &path)?.bytes > 0 {
                    return Err(FileError::new("create", &path, error));
                }
                file
            }
            file => file.at("create", &path)?,
        };
        let (bytes, synced) = (0, 0);
        Ok(Sidecar { file, path, bytes, synced, is_doubtful: false, unsure: false, copy: None })
    }

    /// Continues a sidecar that has `bytes` bytes of entries, and cuts off anything after them. The
    /// first `synced` of them are on the device.
    pub(super) fn reopen(
        fs: &F,
        path: PathBuf,
        bytes: u64,
        synced: u64,
    ) -> Result<Sidecar<F>, FileError> {
        let file = match fs.open(&path, OpenMode::AppendNew) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                fs.open(&path, OpenMode::Append).at("open", &path)?
            }
            file => file.at("create", &path)?,
        };
        if file.stat().at("look at", &path)?.bytes > bytes {
            file.set_len(bytes).at("truncate", &path)?;
        }
        // The writer of the rest may have died after a failed sync.
        Ok(Sidecar { file, path, bytes, synced, is_doubtful: true, unsure: false, copy: None })
    }

    /// Appends `out`, and removes from it what was appended.
    pub(super) fn append(&mut self, fs: &F, out: &mut Vec<u8>) -> Result<(), FileError> {
        if self.unsure && !out.is_empty() {
            self.hold(fs)?;
        }
        while !out.is_empty() {
            let error = match self.file.write(out) {
                Ok(0) => io::ErrorKind::WriteZero.into(),
                Ok(count) => {
                    self.bytes += count as u64;
                    out.drain(..count);
                    continue;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => error,
            };
            self.unsure = true;
            return Err(FileError::new("append to", &self.path, error));
        }
        Ok(())
    }

    /// Waits until it is on the device.
    pub(super) fn sync(&mut self) -> Result<(), FileError> {
        sync_tail(&self.file, &self.path, self.synced, &mut self.is_doubtful)?;
        self.synced = self.bytes;
        Ok(())
    }

    /// Restores the sidecar as far as possible: if it was deleted or replaced, it is written again
    /// from the open file.
    pub(super) fn hold(&mut self, fs: &F) -> Result<(), FileError> {
        let Sidecar { file, path, bytes, synced, unsure, copy, .. } = self;
        let stat = file.stat().at("look at", path)?;
        if stat.bytes > *bytes {
            file.set_len(*bytes).at("truncate", path)?;
        }
        // Bytes that another process cut off are gone. Verification reports this; the writer must
        // not hide it.
        *bytes = stat.bytes.min(*bytes);
        *synced = (*synced).min(*bytes);
        *unsure = false;
        let named = match fs.stat(path) {
            Ok(named) => Some(named.id),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(FileError::new("look at", path, error)),
        };
        if named == Some(stat.id) {
            return Ok(());
        }
        // The copy may be incomplete, and may have been deleted since.
        let begun = match copy.take() {
            Some(begun) if named == Some(begun.stat().at("look at", path)?.id) => {
                begun.set_len(0).at("truncate", path)?;
                begun
            }
            _ => {
                if named.is_some() {
                    fs.remove(path).at("remove what is in the place of", path)?;
                }
                fs.open(path, OpenMode::AppendNew).at("create", path)?
            }
        };
        let begun = copy.insert(begun);
        let mut buffer = vec![0; STEP_BYTES];
        let mut offset = 0;
        while offset < *bytes {
            let left = usize::try_from(*bytes - offset).unwrap_or(usize::MAX);
            let step = &mut buffer[..STEP_BYTES.min(left)];
            lines::read_exact_at(file, step, offset).at("read", path)?;
            write_all(begun, step).at("write again", path)?;
            offset += step.len() as u64;
        }
        if let Some(whole) = copy.take() {
            *file = whole;
            *synced = 0;
        }
        Ok(())
    }
}

/// Appends all of it.
pub(super) fn write_all<L: FsFile>(file: &mut L, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match file.write(bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => bytes = &bytes[count..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
