//! Closed files: retention, packing, the inventory, and other formats beside them.

use super::LogFiles;
use crate::ending::{Content, list_parts};
use crate::error::FileError;
use crate::fs::Fs;
use crate::inventory::{self, Inventory};
use crate::name::FileName;
use crate::pack::{self, Packed, Packer, Packing, Unremoved};
use crate::retain::{self, ClosedFiles, Due, Keep, Outlook, RetainError};
use crate::secondary_format::{SecondaryFormat, State};

/// Retention.
impl<F: Fs> LogFiles<F> {
    /// Looks which file has to go next.
    ///
    /// # Errors
    /// When the directory cannot be read; and as [`check`](Self::check).
    pub fn outlook(&mut self, keep: &Keep) -> Result<Outlook, FileError> {
        let closed = ClosedFiles::list(&self.dir, self.current_name())?;
        let LogFiles { dir, sizes, sealing, appender, .. } = self;
        let total = || {
            let current = appender.current().name;
            sizes.total(dir, closed.parts(), current, |name| sealing.has_left(name))
        };
        let mut outlook = closed.outlook(dir, keep, total)?;
        let Some(&Due { name, .. }) = outlook.due.first() else { return Ok(outlook) };
        // Somebody may have removed or cut the current file, and with it the last line.
        self.check()?;
        if !self.may_lose(name, &closed)? {
            outlook.due.clear();
        }
        Ok(outlook)
    }

    /// Whether the log can do without a closed file, the first one of those that are plain files.
    fn may_lose(&self, name: FileName, closed: &ClosedFiles) -> Result<bool, FileError> {
        let current = self.appender.current();
        // If the current file was moved away and could not be followed by another, its lines are
        // elsewhere.
        Ok(retain::has_name(&self.dir, current)?
            && !self.appender.is_unfinished()
            && self.sealing.has_left(name)
            && !closed.last_lines_are_in(&self.dir, current, name)?)
    }

    /// Says in the chain that a file will be removed. When this has succeeded, [`LogFiles::remove`]
    /// may do so.
    ///
    /// # Errors
    /// When it cannot be said. The file must stay then.
    pub fn bury(&mut self, due: Due) -> Result<(), RetainError> {
        self.sealing.bury(&self.dir, due)?;
        // The tombstone's file may be a new one.
        Ok(retain::sync_dir(&self.dir)?)
    }

    /// Removes a buried file: the log file first, its sidecar last. Can be called again after any
    /// error.
    ///
    /// # Errors
    /// When something of it is still there.
    pub fn remove(&mut self, name: FileName) -> Result<(), FileError> {
        // What the next start continues from, and the line about the removal, must not be
        // only in memory when older lines go.
        self.sync_current()?;
        retain::remove(&self.dir, name)
    }

    /// Removes the sidecars of removed files that a crash has left. Returns how many those were.
    ///
    /// # Errors
    /// When the directory cannot be read, or one of them is still there.
    pub fn finish_removals(&mut self) -> Result<u64, FileError> {
        let orphans = retain::orphans(&self.dir, self.current_name())?;
        if orphans.is_empty() {
            return Ok(0);
        }
        self.sealing.read_removed(&self.dir)?;
        let mut count = 0;
        for name in orphans {
            // Any other is what shows that its log file is missing.
            if self.sealing.is_buried(name) {
                self.remove(name)?;
                count += 1;
            }
        }
        Ok(count)
    }

    /// What is beside closed files from this one on may have become longer.
    pub fn forget_sizes(&mut self, from: FileName) {
        self.sizes.forget(from);
    }
}

/// Packing, and the inventory.
impl<F: Fs> LogFiles<F> {
    /// The oldest closed file that is not as it shall be, and none of those to be passed over: the
    /// log file before its rendition. Not those of the last line, from which the next start continues;
    /// and none of a log file without a line.
    ///
    /// # Errors
    /// When the directory cannot be read, or the lines behind the file not be synced.
    pub fn next_to_pack(
        &mut self,
        packing: &Packing,
        pass_over: impl Fn(FileName, Content) -> bool,
    ) -> Result<Option<Packer<F>>, FileError> {
        let all = list_parts(self.dir.fs(), self.dir.path())?;
        let mut wishes = pack::wishes(&self.dir, self.appender.current(), packing, &all);
        let found = wishes.find(|wish| {
            !pass_over(wish.name, wish.content)
                && self.sealing.has_left(wish.name)
                && wish.may_have_lines(&self.dir)
        });
        let Some(wish) = found else { return Ok(None) };
        if packing.recipients.is_some() {
            // After a power failure the next start must find a line that it can read.
            self.sync_current()?;
        }
        Ok(Some(Packer::new(&self.dir, wish, packing)))
    }

    /// Removes what a packed file was made from, if both are as they were then. `None`: they are not, and
    /// it has to be packed again.
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

    /// Looks what there is of the log. `before` is what it found the last time.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub fn inventory(
        &mut self,
        packing: &Packing,
        before: &Inventory,
    ) -> Result<Inventory, FileError> {
        let LogFiles { dir, sizes, sealing, appender, .. } = self;
        let all = list_parts(dir.fs(), dir.path())?;
        let current = appender.current();
        let mut found = inventory::look(dir, current, packing, &all, before);
        found.bytes = sizes.total(dir, &all, current.name, |name| sealing.has_left(name))?;
        Ok(found)
    }
}

/// Other formats beside the log.
impl<F: Fs> LogFiles<F> {
    /// What the last recorder has left unfinished.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn secondary_state(&self) -> Result<State, FileError> {
        State::read(self.dir.fs(), self.dir.path())
    }

    /// Lists what there will be a rendition of. Before any of it may be followed by another file: a
    /// recorder that dies before their thread has looked would otherwise leave files that are not listed.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn list_secondary(&self, state: &State) -> Result<(), FileError> {
        state.write(self.dir.fs(), self.dir.path())
    }

    /// Takes up the renditions that `state` has, and those of all files behind `seen`. `host` is
    /// the name of the server's machine.
    #[must_use]
    pub fn secondary_format(&self, state: State, seen: FileName, host: &str) -> SecondaryFormat<F> {
        SecondaryFormat::new(self.dir.fs().clone(), self.dir.path(), state, seen, host)
    }
}
