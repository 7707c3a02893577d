//! The log directory of one writer, and the lock that keeps other writers out.

use std::io;
use std::path::{Path, PathBuf};

use super::create::{create_again, create_next};
use super::current::Current;
use crate::entries;
use crate::error::{At, FileError, LastSeqError};
use crate::event::Event;
use crate::fs::{FileId, Fs, FsFile, Space};
use crate::lock;
use crate::made::Made;
use crate::name::FileName;
use crate::tail;

/// A log directory whose lock is held until this is dropped.
pub(crate) struct LogDir<F: Fs> {
    fs: F,
    path: PathBuf,
    lock: F::File,
    /// The names of the newest files, so that their order holds even if files are removed.
    made: Made,
}

/// A log directory for reading: no lock is needed.
pub(crate) struct DirView<'d, F> {
    pub(crate) fs: &'d F,
    pub(crate) path: &'d Path,
}

impl<F> Clone for DirView<'_, F> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<F> Copy for DirView<'_, F> {}

impl<F: Fs> LogDir<F> {
    pub(super) fn new(fs: F, path: &Path, lock: F::File, made: Made) -> LogDir<F> {
        LogDir { fs, path: path.to_owned(), lock, made }
    }

    pub(crate) fn fs(&self) -> &F {
        &self.fs
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// For code that only reads.
    pub(crate) fn view(&self) -> DirView<'_, F> {
        DirView { fs: &self.fs, path: &self.path }
    }

    /// The recorder's own files.
    pub(crate) fn made(&self) -> &Made {
        &self.made
    }

    /// Adds the continued file to the list, if it is missing there.
    pub(super) fn list(&mut self, name: FileName) -> Result<(), FileError> {
        if self.made.has(name) { Ok(()) } else { self.made.add(&self.fs, &self.path, name) }
    }

    /// Creates the next file.
    pub(super) fn create_next(
        &mut self,
        events: &mut Vec<Event>,
    ) -> Result<Current<F::File>, FileError> {
        create_next(&self.fs, &self.path, &mut self.made, events)
    }

    /// Creates the file of a name again; `None`: that name or a newer one is taken.
    pub(super) fn create_again(
        &mut self,
        name: FileName,
    ) -> Result<Option<Current<F::File>>, FileError> {
        create_again(&self.fs, &self.path, &mut self.made, name)
    }

    /// Creates the directory again if another process removed it, and locks it.
    pub(super) fn restore(&mut self) -> Result<(), FileError> {
        lock::ensure_dir(&self.fs, &self.path)?;
        let path = self.lock_path();
        let stat = self.lock.stat().at("look at", &path)?;
        if stat.links == 0 || !self.has_name(&path, stat.id) {
            self.relock()?;
        }
        Ok(())
    }

    /// Takes the lock again if another process deleted its file.
    pub(super) fn hold_lock(&mut self) -> Result<(), FileError> {
        match self.lock.stat().at("look at", &self.lock_path())?.links {
            0 => self.relock(),
            _ => Ok(()),
        }
    }

    fn relock(&mut self) -> Result<(), FileError> {
        self.lock = lock::acquire(&self.fs, &self.path)?;
        Ok(())
    }

    fn lock_path(&self) -> PathBuf {
        self.path.join(lock::LOCK_FILE)
    }

    /// Whether a path still refers to a file. If the path cannot be read (an I/O error, no
    /// permission), the answer is yes, because the file can still be written.
    pub(super) fn has_name(&self, path: &Path, id: FileId) -> bool {
        match self.fs.stat(path) {
            Ok(named) => named.id == id,
            Err(error) => {
                !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
            }
        }
    }

    /// The `seq` of the last line in the recorder's own files.
    pub(super) fn last_seq(&self) -> Result<Option<u64>, LastSeqError> {
        let entries = entries::list(&self.fs, &self.path);
        let mut entries = entries.map_err(LastSeqError::Unreadable)?;
        entries.retain(|(name, _)| self.made.may_be_ours(*name));
        tail::last_seq_in(&self.fs, &self.path, &entries)
    }

    pub(super) fn space(&self) -> Result<Space, FileError> {
        self.fs.space(&self.path).at("ask for the room in", &self.path)
    }

    pub(super) fn announce_recovery(&mut self) {
        lock::announce_recovery(&mut self.lock);
    }

    /// Syncs the names in the directory, and its own name, to the device.
    pub(crate) fn sync_names(&self) -> Result<(), FileError> {
        // Some file systems have nothing to do, and report this with an error.
        let has_nothing_to_do = |error: &io::Error| {
            matches!(error.raw_os_error(), Some(libc::EINVAL | libc::EOPNOTSUPP))
        };
        match self.fs.sync_dir(&self.path) {
            Err(error) if !has_nothing_to_do(&error) => {
                return Err(FileError::new("sync", &self.path, error));
            }
            _ => {}
        }
        // This process may not be allowed to read the directory above. The log directory is usually
        // older.
        let is_forbidden =
            |error: &io::Error| matches!(error.raw_os_error(), Some(libc::EACCES | libc::EPERM));
        match self.path.parent().map(|above| (above, self.fs.sync_dir(above))) {
            Some((above, Err(error))) if !has_nothing_to_do(&error) && !is_forbidden(&error) => {
                Err(FileError::new("sync", above, error))
            }
            _ => Ok(()),
        }
    }
}

impl<F: Fs> Drop for LogDir<F> {
    /// A process that is being started at this moment also has the descriptor until it executes its
    /// program: closing it here would not release the lock.
    fn drop(&mut self) {
        // If the lock cannot be released now, it ends with the last descriptor.
        let _: io::Result<()> = self.lock.unlock();
    }
}
