//! Getting lines from the page cache to the device.
//!
//! A write that has succeeded is in the memory of the operating system, which survives the death
//! of the server and not that of the machine. [`Device::sync`] makes everything that was written
//! survive that, too: the current file, those that were left since the last time, and their names.
//!
//! # After an error
//!
//! Linux reports a page that could not be written back once, and then takes it for clean: the next
//! fdatasync(2) succeeds, and the page is not on the device ("fsyncgate", LWN 752063). So what was
//! not synced is read back and written to the same place again before the next try. That works
//! where the page cache still has the bytes (ext4, XFS); a file system that drops them gives back
//! what the device has, which `tacho verify` then shows.

use super::current::Current;
use super::directory::LogDir;
use crate::entries;
use crate::error::{At, FileError, FileErrorKind};
use crate::form::Form;
use crate::fs::{Fs, FsFile, OpenMode};
use crate::name::FileName;
use crate::sync::{Tail, Unsynced, sync_tail};

/// How much of the end of the log is written again where another writer may have failed to sync it, bytes.
/// More would take seconds of the disk's time, while statements wait. The limit is reached only if
/// it is unknown what was synced, or the device had failed for long.
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

/// What of the log may not be on the device.
pub(super) struct Device<L> {
    /// What may not be there; `None`: lines need not survive the machine.
    unsynced: Option<Unsynced<L>>,
    /// Where they need not: the last sync has failed.
    has_failed: bool,
}

impl<L> Default for Device<L> {
    fn default() -> Device<L> {
        Device { unsynced: None, has_failed: false }
    }
}

impl<L: FsFile> Device<L> {
    /// Whether lines are to survive the machine.
    pub(super) fn is_durable(&self) -> bool {
        self.unsynced.is_some()
    }

    /// Sets whether lines are to survive the machine. Files that are left from now on are then
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

    /// How far the log is on the device; `None`: it need not be.
    pub(super) fn mark(&self, current: &Current<L>) -> Option<SyncMark> {
        let unsynced = self.unsynced.as_ref()?;
        let current = SyncMark { file: current.name, bytes: unsynced.current_bytes };
        let left = unsynced.left.first();
        Some(left.map_or(current, |tail| SyncMark { file: tail.name, bytes: tail.from }))
    }

    /// Where in each file begins what is not on the device for certain, for tests.
    #[cfg(test)]
    pub(super) fn doubted(&self, current: &Current<L>) -> Vec<(FileName, u64)> {
        let unsynced = self.unsynced.as_ref().expect("it is durable");
        let left = unsynced.left.iter().map(|tail| (tail.name, tail.from));
        left.chain([(current.name, unsynced.current_bytes)]).collect()
    }

    /// Doubts what another writer has written behind `mark`; see
    /// [`LogFiles::doubt_predecessor`](super::LogFiles::doubt_predecessor).
    pub(super) fn doubt_predecessor<F: Fs<File = L>>(
        &mut self,
        dir: &LogDir<F>,
        current: &Current<L>,
        mark: Option<SyncMark>,
    ) -> Result<u64, FileError> {
        let Some(unsynced) = &mut self.unsynced else { return Ok(0) };
        // A mark behind the end of the log is wrong.
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
            // Packed files were brought to the device before their plain form was removed.
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
        // Without a mark, nothing was promised that could be broken.
        Ok(if mark.is_some() { doubt.left_out } else { 0 })
    }

    /// Waits until everything that was written is on the device. `true`: there was something to do.
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
            // A file that was deleted since has nothing to be found by.
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

    /// Whether another file may be left: each takes a descriptor of the server until it is synced.
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

/// How much of what another writer has left is written again.
struct Doubt {
    /// How much more may be, bytes.
    budget: u64,
    /// How much cannot be, bytes.
    left_out: u64,
}

impl Doubt {
    /// Doubts the newest bytes between `from` and `end`, as far as the budget goes: those before them
    /// have had more time to get to the device. Returns where they begin.
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
        assert_eq!(doubt.take(9, 4), 4, "a mark behind the end");
        assert_eq!(doubt.left_out, 15);
    }
}
