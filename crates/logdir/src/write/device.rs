//! Syncing lines from the page cache to the device.
//!
//! A successful write is in the memory of the operating system, which survives the death of the
//! server but not of the machine. [`Device::sync`] makes everything that was written survive the
//! latter, too: the current file, those that were left since the last sync, and their names.
//!
//! # After an error
//!
//! Linux reports a page that could not be written back once, and then considers it clean: the next
//! fdatasync(2) succeeds, although the page is not on the device ("fsyncgate", LWN 752063). So
//! unsynced bytes are read back and written to the same position again before the next attempt.
//! This works if the page cache still has the bytes (ext4, XFS); a file system that drops them
//! returns the content of the device, which `tacho verify` then reports.

use super::current::Current;
use super::directory::LogDir;
use crate::entries;
use crate::error::{At, FileError, FileErrorKind};
use crate::form::Form;
use crate::fs::{Fs, FsFile, OpenMode};
use crate::name::FileName;
use crate::sync::{Tail, Unsynced, sync_tail};

/// How much of the end of the log is written again if another writer may have failed to sync it,
/// bytes. More would take seconds of disk time, while statements wait. The limit is reached only if
/// it is unknown how much was synced, or the device failed for long.
const DOUBT_BYTES: u64 = 64 << 20;

/// Limit of files that wait for a sync. Beyond it, the current one grows instead.
const LEFT_MAX: usize = 64;

/// Everything that was written before this position is on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyncMark {
    /// A file.
    pub file: FileName,
    /// A position in it, bytes.
    pub bytes: u64,
}

/// State of what may not be on the device.
pub(super) struct Device<L> {
    /// Parts that may not be there; `None`: lines need not survive the machine.
    unsynced: Option<Unsynced<L>>,
    /// In the latter case: whether the last sync failed.
    has_failed: bool,
}

impl<L> Default for Device<L> {
    fn default() -> Device<L> {
        Device { unsynced: None, has_failed: false }
    }
}

impl<L: FsFile> Device<L> {
    /// Whether lines must survive the machine.
    pub(super) fn is_durable(&self) -> bool {
        self.unsynced.is_some()
    }

    /// Sets whether lines must survive the machine. If so, files that are left from now on are
    /// remembered until they are on the device.
    pub(super) fn set_durable(&mut self, durable: bool, current: &Current<L>) {
        if durable == self.unsynced.is_some() {
            return;
        }
        if let Some(unsynced) = self.unsynced.take() {
            self.has_failed = unsynced.is_doubtful;
            return;
        }
        let is_doubtful = std::mem::take(&mut self.has_failed);
        let current_bytes = if is_doubtful { 0 } else { current.bytes };
        let unsynced = Unsynced { left: Vec::new(), current_bytes, is_doubtful, names: true };
        self.unsynced = Some(unsynced);
    }

    /// How much of the log is on the device; `None`: lines need not survive the machine.
    pub(super) fn mark(&self, current: &Current<L>) -> Option<SyncMark> {
        let unsynced = self.unsynced.as_ref()?;
        let current = SyncMark { file: current.name, bytes: unsynced.current_bytes };
        let left = unsynced.left.first();
        Some(left.map_or(current, |tail| SyncMark { file: tail.name, bytes: tail.from }))
    }

    /// For tests: in each file, where the part begins that is not surely on the device.
    #[cfg(test)]
    pub(super) fn doubted(&self, current: &Current<L>) -> Vec<(FileName, u64)> {
        let unsynced = self.unsynced.as_ref().expect("it is durable");
        let left = unsynced.left.iter().map(|tail| (tail.name, tail.from));
        left.chain([(current.name, unsynced.current_bytes)]).collect()
    }

    /// Marks as doubtful what another writer wrote after `mark`; see
    /// [`LogFiles::doubt_predecessor`](super::LogFiles::doubt_predecessor).
    pub(super) fn doubt_predecessor<F: Fs<File = L>>(
        &mut self,
        dir: &LogDir<F>,
        current: &Current<L>,
        mark: Option<SyncMark>,
    ) -> Result<u64, FileError> {
        let Some(unsynced) = &mut self.unsynced else { return Ok(0) };
        // A mark after the end of the log is wrong.
        let is_known = |mark: &SyncMark| {
            mark.file < current.name || mark.file == current.name && mark.bytes <= current.bytes
        };
        let mark = mark.filter(is_known);
        let known = |name| mark.filter(|mark| mark.file == name).map_or(0, |mark| mark.bytes);
        let mut doubt = Doubt { budget: DOUBT_BYTES, left_out: 0 };
        let from = doubt.take(known(current.name), current.bytes);
        unsynced.current_bytes = unsynced.current_bytes.min(from);
        unsynced.is_doubtful = from < current.bytes;
        if mark.is_some_and(|mark| mark.file == current.name) {
            return Ok(doubt.left_out);
        }
        let entries = entries::list(dir.fs(), dir.path())?;
        let before = entries.iter().rev().filter(|(name, _)| *name < current.name);
        // Without a mark, the other writer may have begun the current file just before it ended.
        let oldest = mark.map(|mark| mark.file);
        let before = before.take_while(|(name, _)| oldest.is_none_or(|oldest| *name >= oldest));
        for (name, form) in before.take(if mark.is_some() { LEFT_MAX } else { 1 }) {
            // Packed files were synced before their plain form was removed.
            if *form != Form::Plain {
                continue;
            }
            let path = dir.path().join(format!("{name}.{}", Form::Plain.ending()));
            let file = dir.fs().open(&path, OpenMode::Append).at("open", &path)?;
            let end = file.stat().at("look at", &path)?.bytes;
            let from = doubt.take(known(*name).min(end), end);
            if from < end {
                let tail = Tail { name: *name, file, path, from, is_doubtful: true };
                unsynced.left.insert(0, tail);
            }
        }
        // Without a mark, no durability was promised.
        Ok(if mark.is_some() { doubt.left_out } else { 0 })
    }

    /// Waits until everything that was written is on the device. `true`: a sync was necessary.
    pub(super) fn sync<F: Fs<File = L>>(
        &mut self,
        dir: &LogDir<F>,
        current: &Current<L>,
    ) -> Result<bool, FileError> {
        let Some(unsynced) = &mut self.unsynced else { return Ok(false) };
        let is_dirty =
            current.bytes > unsynced.current_bytes || unsynced.names || unsynced.is_doubtful;
        if !is_dirty && unsynced.left.is_empty() {
            return Ok(false);
        }
        while let Some(Tail { file, path, from, is_doubtful, .. }) = unsynced.left.first_mut() {
            // A deleted file no longer needs a sync.
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
            dir.sync_names()?;
            unsynced.names = false;
        }
        Ok(true)
    }

    /// Waits until the content of the current file is on the device, durable or not.
    pub(super) fn sync_current(&mut self, current: &Current<L>) -> Result<(), FileError> {
        let (from, is_doubtful) = match &mut self.unsynced {
            Some(unsynced) => (unsynced.current_bytes, &mut unsynced.is_doubtful),
            None => (0, &mut self.has_failed),
        };
        sync_tail(&current.file, &current.path, from, is_doubtful)
    }

    /// Whether another file may be left: each uses a descriptor of the server until it is synced.
    pub(super) fn may_leave(&self) -> Result<(), FileError> {
        match self.unsynced.as_ref().filter(|unsynced| unsynced.left.len() >= LEFT_MAX) {
            Some(unsynced) => {
                Err(FileError::of_kind(FileErrorKind::Io, "sync", &unsynced.left[0].path))
            }
            None => Ok(()),
        }
    }

    /// Remembers a file that was left.
    pub(super) fn note_left(&mut self, left: Current<L>) {
        if let Some(unsynced) = &mut self.unsynced {
            let Current { file, name, path, .. } = left;
            let from = std::mem::take(&mut unsynced.current_bytes);
            let is_doubtful = std::mem::take(&mut unsynced.is_doubtful);
            unsynced.left.push(Tail { name, file, path, from, is_doubtful });
            unsynced.names = true;
        }
    }

    /// The current file was replaced by a copy.
    pub(super) fn note_copied(&mut self) {
        if let Some(unsynced) = &mut self.unsynced {
            unsynced.current_bytes = 0;
            unsynced.names = true;
        }
    }

    /// The current file was truncated.
    pub(super) fn note_cut(&mut self, bytes: u64) {
        if let Some(unsynced) = &mut self.unsynced {
            unsynced.current_bytes = unsynced.current_bytes.min(bytes);
        }
    }
}

/// How much of another writer's data is written again.
struct Doubt {
    /// How much more can be, bytes.
    budget: u64,
    /// How much cannot be, bytes.
    left_out: u64,
}

impl Doubt {
    /// Marks the newest bytes between `from` and `end` as doubtful, as far as the budget permits:
    /// older bytes had more time to reach the device. Returns their beginning.
    fn take(&mut self, from: u64, end: u64) -> u64 {
        let doubted = end.saturating_sub(from).min(self.budget);
        self.budget -= doubted;
        self.left_out += end.saturating_sub(from) - doubted;
        end - doubted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_bytes_are_doubted_and_the_rest_is_counted() {
        let mut doubt = Doubt { budget: 10, left_out: 0 };
        assert_eq!(doubt.take(5, 9), 5);
        assert_eq!(doubt.take(0, 20), 14, "six of the budget are left");
        assert_eq!(doubt.take(3, 4), 4);
        assert_eq!((doubt.budget, doubt.left_out), (0, 15));
        assert_eq!(doubt.take(9, 4), 4, "a mark after the end");
        assert_eq!(doubt.left_out, 15);
    }
}
