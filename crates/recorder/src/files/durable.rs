//! Getting lines from the page cache to the device.
//!
//! A write that has succeeded is in the memory of the operating system, which survives the death
//! of the server and not that of the machine. [`LogFiles::sync`] makes all that was written
//! survive that, too: the current file, those that were left since the last time, and their names.
//!
//! # After an error
//!
//! Linux tells of a page that could not be written back once, and then takes it for clean: the next
//! fdatasync(2) succeeds, and the page is not on the device ("fsyncgate", LWN 752063). So what was
//! not synced is read back and written to the same place again before the next try. That works
//! where the page cache still has the bytes (ext4, XFS); a file system that drops them gives back
//! what the device has, which `tacho verify` then shows.

use std::path::{Path, PathBuf};

use super::error::{At, FileError, FileErrorKind};
use super::fs::{Fs, FsFile, OpenMode};
use super::log::LogFiles;

/// Rewritten at once, bytes.
const BLOCK_BYTES: usize = 64 * 1024;

/// What may not be on the device.
pub(super) struct Unsynced<L> {
    /// Files that were left, oldest first.
    left: Vec<Tail<L>>,
    /// How much of the current file is on the device for certain, bytes.
    current_bytes: u64,
    /// Part of what fdatasync(2) would call clean of the current file is not on the device.
    is_doubtful: bool,
    /// Names of files were made.
    names: bool,
}

impl<L> Default for Unsynced<L> {
    fn default() -> Unsynced<L> {
        // The file and the directory that were found may have been made a moment ago.
        Unsynced { left: Vec::new(), current_bytes: 0, is_doubtful: false, names: true }
    }
}

/// The end of a file that was left.
struct Tail<L> {
    file: L,
    path: PathBuf,
    /// Where it begins, bytes.
    from: u64,
    /// See [`Unsynced::is_doubtful`].
    is_doubtful: bool,
}

impl<F: Fs> LogFiles<F> {
    /// Whether [`sync`](Self::sync) will be called: files that are left are then remembered until
    /// they are on the device.
    pub fn set_durable(&mut self, durable: bool) {
        if durable != self.unsynced.is_some() {
            self.unsynced = durable.then(Unsynced::default);
        }
    }

    /// Waits until everything that was written is on the device, with the names of the files.
    /// Does nothing where nothing was written since the last time, or it is not
    /// [durable](Self::set_durable). Not in the middle of a batch. `true`: it has done something.
    ///
    /// # Errors
    /// As [`check`](Self::check), fdatasync(2) and fsync(2). Nothing may be taken for synced then; the
    /// next call tries all of it again.
    pub fn sync(&mut self) -> Result<bool, FileError> {
        if self.unsynced.is_none() {
            return Ok(false);
        }
        if self.unfinished {
            return Err(FileError::of_kind(
                FileErrorKind::Other,
                "sync half of",
                &self.current.path,
            ));
        }
        // What somebody has unlinked has no name to be found by.
        self.check()?;
        let Some(unsynced) = &mut self.unsynced else { return Ok(false) };
        let current = &self.current;
        let is_dirty = current.bytes > unsynced.current_bytes;
        if !is_dirty && unsynced.left.is_empty() && !unsynced.names {
            return Ok(false);
        }
        for Tail { file, path, from, is_doubtful } in &mut unsynced.left {
            sync_tail(&self.fs, file, path, *from, is_doubtful)?;
        }
        let Unsynced { current_bytes, is_doubtful, .. } = unsynced;
        if is_dirty {
            sync_tail(&self.fs, &current.file, &current.path, *current_bytes, is_doubtful)?;
        }
        if unsynced.names {
            self.fs.sync_dir(&self.dir).at("sync", &self.dir)?;
            if let Some(above) = self.dir.parent() {
                self.fs.sync_dir(above).at("sync", above)?;
            }
        }
        unsynced.left.clear();
        unsynced.current_bytes = current.bytes;
        unsynced.names = false;
        Ok(true)
    }

    /// Remembers a current file that was left.
    pub(super) fn note_unsynced(&mut self, file: F::File, path: &Path) {
        if let Some(unsynced) = &mut self.unsynced {
            let from = std::mem::take(&mut unsynced.current_bytes);
            let is_doubtful = std::mem::take(&mut unsynced.is_doubtful);
            unsynced.left.push(Tail { file, path: path.to_owned(), from, is_doubtful });
            unsynced.names = true;
        }
    }

    /// The current file is a new copy of what it was.
    pub(super) fn note_copied(&mut self) {
        if let Some(unsynced) = &mut self.unsynced {
            unsynced.current_bytes = 0;
            unsynced.names = true;
        }
    }

    /// The current file is shorter than it was.
    pub(super) fn note_cut(&mut self, bytes: u64) {
        if let Some(unsynced) = &mut self.unsynced {
            unsynced.current_bytes = unsynced.current_bytes.min(bytes);
        }
    }
}

fn sync_tail<F: Fs>(
    fs: &F,
    file: &F::File,
    path: &Path,
    from: u64,
    is_doubtful: &mut bool,
) -> Result<(), FileError> {
    // Until it has succeeded.
    if std::mem::replace(is_doubtful, true) {
        rewrite(fs, file, path, from)?;
    }
    file.sync_data().at("sync", path)?;
    *is_doubtful = false;
    Ok(())
}

/// Makes every page of the end of a file dirty again.
fn rewrite<F: Fs>(fs: &F, file: &F::File, path: &Path, from: u64) -> Result<(), FileError> {
    // The log file itself is open for appending only, whatever position a write names.
    let again = fs.open(path, OpenMode::Rewrite).at("open", path)?;
    let (named, stat) = (again.stat().at("look at", path)?, file.stat().at("look at", path)?);
    if named.id != stat.id {
        // Renamed or deleted by somebody, and not ours to write any more.
        return Ok(());
    }
    let mut block = vec![0; BLOCK_BYTES];
    let mut at = from.min(stat.bytes);
    while at < stat.bytes {
        let wanted = block.len().min(usize::try_from(stat.bytes - at).unwrap_or(usize::MAX));
        let count = file.read_at(&mut block[..wanted], at).at("read", path)?;
        let mut done = 0;
        while done < count {
            let written = again.write_at(&block[done..count], at + done as u64);
            done += written.at("write", path)?.max(1);
        }
        if count == 0 {
            break;
        }
        at += count as u64;
    }
    Ok(())
}
