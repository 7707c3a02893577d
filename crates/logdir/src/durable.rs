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

use std::io;
use std::path::Path;

use super::entries;
use super::error::{At, FileError, FileErrorKind};
use super::form::Form;
use super::fs::{Fs, FsFile, OpenMode};
use super::log::LogFiles;
use super::name::FileName;
use super::sync::{Tail, Unsynced, sync_tail};

/// How much of the end of the log is written again where another writer may have failed to sync it, bytes.
/// More would take seconds of the disk's time, while statements wait. It is reached only where nobody
/// knows what was synced, or the device had failed for long.
const DOUBT_BYTES: u64 = 64 << 20;

/// Files that wait for the device at once. With more, the current one grows instead.
const LEFT_MAX: usize = 64;

/// All that was written before this place is on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyncMark {
    /// A file.
    pub file: FileName,
    /// A place in it, bytes.
    pub bytes: u64,
}

impl<F: Fs> LogFiles<F> {
    /// Whether [`sync`](Self::sync) will be called: files that are left from now on are then
    /// remembered until they are on the device.
    pub fn set_durable(&mut self, durable: bool) {
        if durable == self.unsynced.is_some() {
            return;
        }
        if let Some(unsynced) = self.unsynced.take() {
            self.sync_failed = unsynced.is_doubtful;
            return;
        }
        let is_doubtful = std::mem::take(&mut self.sync_failed);
        let current_bytes = if is_doubtful { 0 } else { self.current.bytes };
        let unsynced = Unsynced { left: Vec::new(), current_bytes, is_doubtful, names: true };
        self.unsynced = Some(unsynced);
    }

    /// How far all is on the device; `None`: nobody looks after that.
    pub fn sync_mark(&self) -> Option<SyncMark> {
        let unsynced = self.unsynced.as_ref()?;
        let current = SyncMark { file: self.current.name, bytes: unsynced.current_bytes };
        Some(
            unsynced
                .left
                .first()
                .map_or(current, |tail| SyncMark { file: tail.name, bytes: tail.from }),
        )
    }

    /// Where in each file begins what is not on the device for certain, for tests.
    #[cfg(test)]
    pub(crate) fn doubted(&self) -> Vec<(FileName, u64)> {
        let unsynced = self.unsynced.as_ref().expect("it is durable");
        let left = unsynced.left.iter().map(|tail| (tail.name, tail.from));
        left.chain([(self.current.name, unsynced.current_bytes)]).collect()
    }

    /// Another writer wrote here, and is gone: the next [`sync`](Self::sync) believes nothing of what it
    /// has written behind `mark`. An error of the device may have been told to that one. It makes this
    /// [durable](Self::set_durable). Returns how many bytes behind the mark are too many to be looked at.
    ///
    /// # Errors
    /// The files before the current one cannot be looked at; the current one is doubted all the same.
    pub fn doubt_predecessor(&mut self, mark: Option<SyncMark>) -> Result<u64, FileError> {
        self.set_durable(true);
        let Some(unsynced) = &mut self.unsynced else { return Ok(0) };
        let current = &self.current;
        // One that speaks of what is not there knows nothing.
        let is_known = |mark: &SyncMark| {
            mark.file < current.name || mark.file == current.name && mark.bytes <= current.bytes
        };
        let mark = mark.filter(is_known);
        let known = |name| mark.filter(|mark| mark.file == name).map_or(0, |mark| mark.bytes);
        let mut budget = DOUBT_BYTES;
        let mut left_out = 0;
        // The newest bytes first: those before them have had more time to get there.
        let mut doubt = |from: u64, end: u64| {
            let doubted = end.saturating_sub(from).min(budget);
            budget -= doubted;
            left_out += end.saturating_sub(from) - doubted;
            end - doubted
        };
        let from = doubt(known(current.name), current.bytes);
        unsynced.current_bytes = unsynced.current_bytes.min(from);
        unsynced.is_doubtful = from < current.bytes;
        if mark.is_some_and(|mark| mark.file == current.name) {
            return Ok(left_out);
        }
        let entries = entries::list(&self.fs, &self.dir)?;
        let before = entries.iter().rev().filter(|(name, _)| *name < current.name);
        // Where nobody knows, it may have begun the current one just before.
        let oldest = mark.map(|mark| mark.file);
        let before = before.take_while(|(name, _)| oldest.is_none_or(|oldest| *name >= oldest));
        for (name, form) in before.take(if mark.is_some() { LEFT_MAX } else { 1 }) {
            // Those that are packed were brought to the device before their plain form was removed.
            if *form != Form::Plain {
                continue;
            }
            let path = self.dir.join(format!("{name}.{}", Form::Plain.ending()));
            let file = self.fs.open(&path, OpenMode::Append).at("open", &path)?;
            let end = file.stat().at("look at", &path)?.bytes;
            let from = doubt(known(*name).min(end), end);
            if from < end {
                let tail = Tail { name: *name, file, path, from, is_doubtful: true };
                unsynced.left.insert(0, tail);
            }
        }
        // What nobody has vouched for is no promise that is broken.
        Ok(if mark.is_some() { left_out } else { 0 })
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
            let kind = FileErrorKind::Other;
            return Err(FileError::of_kind(kind, "sync half of", &self.current.path));
        }
        // What somebody has unlinked has no name to be found by.
        self.check()?;
        let result = self.sync_unsynced();
        self.doubt_seal(result.is_err());
        result
    }

    fn sync_unsynced(&mut self) -> Result<bool, FileError> {
        let Some(unsynced) = &mut self.unsynced else { return Ok(false) };
        let current = &self.current;
        let is_dirty =
            current.bytes > unsynced.current_bytes || unsynced.names || unsynced.is_doubtful;
        if !is_dirty && unsynced.left.is_empty() {
            return Ok(false);
        }
        while let Some(Tail { file, path, from, is_doubtful, .. }) = unsynced.left.first_mut() {
            // One that was deleted since has nothing to be found by.
            if file.stat().at("look at", path)?.links > 0 {
                sync_tail(file, path, *from, is_doubtful)?;
            }
            unsynced.left.remove(0);
        }
        let Unsynced { current_bytes, is_doubtful, .. } = unsynced;
        if is_dirty {
            sync_tail(&current.file, &current.path, *current_bytes, is_doubtful)?;
            *current_bytes = current.bytes;
        }
        if unsynced.names {
            sync_names(&self.fs, &self.dir)?;
            unsynced.names = false;
        }
        Ok(true)
    }

    /// Waits until the content of the current file is on the device, durable or not.
    pub(crate) fn sync_current(&mut self) -> Result<(), FileError> {
        let (from, is_doubtful) = match &mut self.unsynced {
            Some(unsynced) => (unsynced.current_bytes, &mut unsynced.is_doubtful),
            None => (0, &mut self.sync_failed),
        };
        let result = sync_tail(&self.current.file, &self.current.path, from, is_doubtful);
        self.doubt_seal(result.is_err());
        result
    }

    /// The sealer opens the files of the log anew, and Linux tells of a failure only those who had
    /// them open before. (What the sealer is told first is told here, too: these were open.)
    fn doubt_seal(&mut self, failed: bool) {
        if let Some(sealer) = self.sealer.as_mut().filter(|_| failed) {
            sealer.doubt_logs();
        }
    }

    /// Whether another file may be left: each takes a descriptor of the server until it is synced.
    pub(crate) fn may_leave(&self) -> Result<(), FileError> {
        match self.unsynced.as_ref().and_then(|unsynced| unsynced.left.first()) {
            Some(oldest) if self.unsynced.iter().all(|u| u.left.len() >= LEFT_MAX) => {
                Err(FileError::of_kind(FileErrorKind::Io, "sync", &oldest.path))
            }
            _ => Ok(()),
        }
    }

    /// Remembers a current file that was left.
    pub(crate) fn note_unsynced(&mut self, file: F::File, name: FileName, path: &Path) {
        if let Some(unsynced) = &mut self.unsynced {
            let from = std::mem::take(&mut unsynced.current_bytes);
            let is_doubtful = std::mem::take(&mut unsynced.is_doubtful);
            unsynced.left.push(Tail { name, file, path: path.to_owned(), from, is_doubtful });
            unsynced.names = true;
        }
    }

    /// The current file is a new copy of what it was.
    pub(crate) fn note_copied(&mut self) {
        if let Some(unsynced) = &mut self.unsynced {
            unsynced.current_bytes = 0;
            unsynced.names = true;
        }
        if let Some(sealer) = &mut self.sealer {
            sealer.copied();
        }
    }

    /// The current file is shorter than it was.
    pub(crate) fn note_cut(&mut self, bytes: u64) {
        if let Some(unsynced) = &mut self.unsynced {
            unsynced.current_bytes = unsynced.current_bytes.min(bytes);
        }
    }
}

/// Brings the names in the log directory to the device, and its own.
fn sync_names<F: Fs>(fs: &F, dir: &Path) -> Result<(), FileError> {
    // Some file systems have nothing to do, and say it with an error.
    let has_nothing_to_do =
        |error: &io::Error| matches!(error.raw_os_error(), Some(libc::EINVAL | libc::EOPNOTSUPP));
    match fs.sync_dir(dir) {
        Err(error) if !has_nothing_to_do(&error) => return Err(FileError::new("sync", dir, error)),
        _ => {}
    }
    // The directory above may be one that this process may not read. The log directory is
    // mostly older than that.
    let is_forbidden =
        |error: &io::Error| matches!(error.raw_os_error(), Some(libc::EACCES | libc::EPERM));
    match dir.parent().map(|above| (above, fs.sync_dir(above))) {
        Some((above, Err(error))) if !has_nothing_to_do(&error) && !is_forbidden(&error) => {
            Err(FileError::new("sync", above, error))
        }
        _ => Ok(()),
    }
}
