//! Closed files: retention, packing, the inventory, and other formats beside them.

use super::LogFiles;
use crate::ending::{Content, list_parts};
use crate::error::FileError;
use crate::fs::Fs;
use crate::inventory::{self, Inventory};
use crate::name::FileName;
use crate::pack::{self, Packed, Packer, Packing, Unremoved};
use crate::retain::{self, ClosedFiles, Due, Keep, Outlook, RetainError};
use crate::secondary_format::{PendingFiles, SecondaryFormat};

/// Retention.
impl<F: Fs> LogFiles<F> {
    /// Determines which file is due next.
    ///
    /// # Errors
    /// The directory cannot be read; and as [`check`](Self::check).
    pub fn outlook(&mut self, keep: &Keep) -> Result<Outlook, FileError> {
        let closed = ClosedFiles::list(self.dir.view(), self.current_name())?;
        let LogFiles { dir, sizes, sealing, appender, .. } = self;
        let total = || {
            let current = appender.current().name;
            sizes.total(dir.view(), closed.parts(), current, |name| sealing.has_left(name))
        };
        let mut outlook = closed.outlook(dir.view(), keep, total)?;
        let Some(&Due { name, .. }) = outlook.due.first() else { return Ok(outlook) };
        // Another process may have removed or truncated the current file, and with it the last
        // line.
        self.check()?;
        if !self.may_lose(name, &closed)? {
            outlook.due.clear();
        }
        Ok(outlook)
    }

    /// Whether a closed file, the first regular one, does not have the last line of the log.
    fn may_lose(&self, name: FileName, closed: &ClosedFiles) -> Result<bool, FileError> {
        let current = self.appender.current();
        // If the current file was moved away and no other one could follow it, its lines are
        // elsewhere.
        Ok(retain::has_name(&self.dir, current)?
            && !self.appender.is_unfinished()
            && self.sealing.has_left(name)
            && !closed.last_lines_are_in(self.dir.view(), current, name)?)
    }

    /// Records in the chain that a file will be removed. After that, [`LogFiles::remove`] may
    /// remove it.
    ///
    /// # Errors
    /// It cannot be recorded: the file must stay.
    pub fn bury(&mut self, due: Due) -> Result<(), RetainError> {
        self.sealing.bury(&self.dir, due)?;
        // The tombstone's file may be a new one.
        Ok(retain::sync_dir(&self.dir)?)
    }

    /// Removes a file with a tombstone: the log file first, its sidecar last. Can be called again
    /// after any error.
    ///
    /// # Errors
    /// A part of it could not be removed.
    pub fn remove(&mut self, name: FileName) -> Result<(), FileError> {
        // Lines that the next start continues from, and the line about the removal, must be on the
        // device when older lines are removed.
        self.sync_current()?;
        retain::remove(&self.dir, name)
    }

    /// Removes the sidecars of removed files that a crash has left. Returns their number.
    ///
    /// # Errors
    /// The directory cannot be read, or one of them could not be removed.
    pub fn finish_removals(&mut self) -> Result<u64, FileError> {
        let orphans = retain::orphans(&self.dir, self.current_name())?;
        if orphans.is_empty() {
            return Ok(0);
        }
        self.sealing.read_removed(&self.dir)?;
        let mut count = 0;
        for name in orphans {
            // Any other sidecar shows that its log file is missing.
            if self.sealing.is_buried(name) {
                self.remove(name)?;
                count += 1;
            }
        }
        Ok(count)
    }

    /// Renditions of closed files from this one on may have grown.
    pub fn forget_sizes(&mut self, from: FileName) {
        self.sizes.forget(from);
    }
}

/// Packing, and the inventory.
impl<F: Fs> LogFiles<F> {
    /// The oldest part of a closed file that must still be packed, except files to skip: the log
    /// file before its rendition. Not the file with the last line, from which the next start
    /// continues, and no log file without a line.
    ///
    /// # Errors
    /// The directory cannot be read, or the lines after the file cannot be synced.
    pub fn next_to_pack(
        &mut self,
        packing: &Packing,
        pass_over: impl Fn(FileName, Content) -> bool,
    ) -> Result<Option<Packer<F>>, FileError> {
        let all = list_parts(self.dir.fs(), self.dir.path())?;
        let mut tasks = pack::tasks(&self.dir, self.appender.current(), packing, &all);
        let found = tasks.find(|task| {
            !pass_over(task.name, task.content)
                && self.sealing.has_left(task.name)
                && task.may_have_lines(&self.dir)
        });
        let Some(task) = found else { return Ok(None) };
        if packing.recipients.is_some() {
            // After a power failure, the next start must find a readable line.
            self.sync_current()?;
        }
        Ok(Some(Packer::new(&self.dir, task, packing)))
    }

    /// Removes the original of a packed file, if both are unchanged since. `None`: they are not,
    /// and the file must be packed again.
    ///
    /// # Errors
    /// It still cannot be removed.
    pub fn remove_unpacked(
        &self,
        name: FileName,
        unremoved: &Unremoved,
    ) -> Result<Option<Packed>, FileError> {
        pack::remove_unpacked(self.dir.fs(), self.dir.path(), name, unremoved)
    }

    /// Makes the overview of the log files. `before` is the previous result.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn inventory(
        &mut self,
        packing: &Packing,
        before: &Inventory,
    ) -> Result<Inventory, FileError> {
        let LogFiles { dir, sizes, sealing, appender, .. } = self;
        let all = list_parts(dir.fs(), dir.path())?;
        let current = appender.current();
        let mut found = inventory::look(dir, current, packing, &all, before);
        found.bytes = sizes.total(dir.view(), &all, current.name, |name| sealing.has_left(name))?;
        Ok(found)
    }
}

/// Other formats beside the log.
impl<F: Fs> LogFiles<F> {
    /// The work that the last recorder left unfinished.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn secondary_state(&self) -> Result<PendingFiles, FileError> {
        PendingFiles::read(self.dir.fs(), self.dir.path())
    }

    /// Lists the files that will have a rendition. Must be called before another file follows them:
    /// otherwise a recorder that dies before their thread has looked would leave unlisted files.
    ///
    /// # Errors
    /// The list cannot be written.
    pub fn list_secondary(&self, state: &PendingFiles) -> Result<(), FileError> {
        state.write(self.dir.fs(), self.dir.path())
    }

    /// Continues the renditions in `state`, and those of all files after `seen`. `host` is the name
    /// of the server's machine.
    #[must_use]
    pub fn secondary_format(
        &self,
        state: PendingFiles,
        seen: FileName,
        host: &str,
    ) -> SecondaryFormat<F> {
        SecondaryFormat::new(self.dir.fs().clone(), self.dir.path(), state, seen, host)
    }
}
