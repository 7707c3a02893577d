//! Writing: [`LogFiles`] appends batches of lines to the current file, and coordinates the parts
//! that each own one concern.
//!
//! | module | responsibility |
//! |---|---|
//! | `directory` | the directory, its lock, and the list of the newest files |
//! | `open` | opening a directory |
//! | `create` | continuing the newest file, creating the next one or the same one again |
//! | `current` | the file that is being written |
//! | `appender` | that file, and the position of the running batch in it |
//! | `rescue` | a copy of a file that another process has unlinked |
//! | `repair` | detecting and repairing changes by other processes |
//! | `rotation` | when a new file begins |
//! | `device` | what may not be on the device |
//! | `sealing` | reports lines to the sealer |
//! | `closed` | closed files: retention, packing, inventory, other formats |

mod appender;
mod closed;
mod create;
pub(crate) mod current;
mod device;
pub(crate) mod directory;
mod open;
mod repair;
mod rescue;
mod rotation;
mod sealing;

use std::path::Path;

use tacho_chain::key::VerifierKey;

use crate::error::{FileError, FileErrorKind};
use crate::event::Event;
use crate::fs::{Fs, RealFs, Space};
use crate::name::FileName;
use crate::seal::{self, SealOptions, Sealed};
use crate::sizes::Sizes;
use appender::Appender;
use current::Current;
use device::Device;
pub use device::SyncMark;
use directory::LogDir;
pub use open::Opened;
use open::OpenedLog;
use rotation::Rotation;
use sealing::Sealing;

/// Settings of a log directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// A line that would make the file longer than this many bytes begins a new file.
    /// A single longer line gets a file of its own. 0: no limit.
    pub rotate_bytes: u64,
}

/// The log directory of one writer.
pub struct LogFiles<F: Fs = RealFs> {
    dir: LogDir<F>,
    appender: Appender<F::File>,
    rotation: Rotation,
    device: Device<F::File>,
    sealing: Sealing<F>,
    /// Lengths of closed files.
    sizes: Sizes,
    /// Events for the caller.
    events: Vec<Event>,
}

impl<F: Fs> LogFiles<F> {
    /// Opens a log directory for writing: creates it if it is missing (with at most one directory
    /// above it), locks it, sets aside files that SQL planted, cuts a torn last line off the newest
    /// file, and continues that file or begins a new one.
    ///
    /// # Errors
    /// [`FileErrorKind::Locked`] if another writer has it; otherwise the operating system's error.
    /// A `seq` that cannot be read is not an error here but in [`Opened`].
    pub fn open(fs: F, dir: &Path, options: Options) -> Result<(LogFiles<F>, Opened), FileError> {
        LogFiles::open_with_key(fs, dir, options, Path::new(""))
    }

    /// As [`open`](Self::open), for a log that may be sealed. `key_file`: the signing key; empty:
    /// the log is not sealed. The key shows which files are not planted if there is no list.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_with_key(
        fs: F,
        dir: &Path,
        options: Options,
        key_file: &Path,
    ) -> Result<(LogFiles<F>, Opened), FileError> {
        let OpenedLog { dir, current, is_continued, events, opened } =
            open::open(fs, dir, key_file)?;
        let rotation = Rotation::new(options.rotate_bytes);
        let is_full = is_continued && rotation.is_full(current.bytes);
        let mut files = LogFiles {
            dir,
            appender: Appender::new(current),
            rotation,
            device: Device::default(),
            sealing: Sealing::default(),
            sizes: Sizes::default(),
            events,
        };
        if is_full {
            files.try_due_rotation();
        }
        Ok((files, opened))
    }

    /// Appends a batch of complete lines.
    ///
    /// `progress` is how many bytes of the batch are in the files; it is 0 for a new batch and
    /// advances with every byte. After an error, calling again with the same batch and the same
    /// `progress` continues exactly there. `progress` decreases only if another process damaged the
    /// file under the batch, by the bytes that must be written again.
    ///
    /// A new batch (`progress` 0) after an unfinished one gives the old one up: its
    /// complete lines stay, its torn line is cut off.
    ///
    /// # Errors
    /// None of them loses data, and all except [`FileErrorKind::InvalidBatch`] end with their
    /// cause.
    pub fn write(&mut self, batch: &[u8], progress: &mut usize) -> Result<(), FileError> {
        if batch.last().is_some_and(|&byte| byte != b'\n') || *progress > batch.len() {
            return Err(self.appender.refuse(FileErrorKind::InvalidBatch, "append to"));
        }
        let result = self.write_batch(batch, progress);
        self.appender.end_batch(result.is_err());
        self.seal_written(batch);
        result
    }

    /// Checks that the current file is still in its place and unchanged, and repairs it if not, as
    /// every [`write`](Self::write) does. For idle times, and before [`close`](Self::close).
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub fn check(&mut self) -> Result<(), FileError> {
        if self.appender.is_unfinished() {
            // A repair may decrease `progress`, which the next write passes.
            return Ok(());
        }
        let result = self.write_batch(&[], &mut 0);
        self.seal_written(&[]);
        result
    }

    /// Begins a new file, unless the current one is empty. In the middle of an unfinished
    /// batch, the next [`write`](Self::write) does so at the end of the line.
    ///
    /// # Errors
    /// No new file can be created; the old one then stays the current one.
    pub fn rotate_now(&mut self) -> Result<(), FileError> {
        if self.appender.is_unfinished() {
            self.rotation.request();
            return Ok(());
        }
        self.check()?;
        if self.current_bytes() == 0 {
            return Ok(());
        }
        let result = self.rotate();
        self.seal_written(&[]);
        result
    }

    /// Begins a new file if the current one has lines and was begun at least `interval_s` seconds
    /// ago; 0: never. If no new file can be created, the old one stays the current one, which is
    /// reported once.
    pub fn rotate_when_older(&mut self, interval_s: u64) {
        let age_s = self.dir.fs().now_s().saturating_sub(self.current_name().stamp_s());
        let is_due = interval_s > 0 && u64::try_from(age_s).is_ok_and(|age_s| age_s >= interval_s);
        if !is_due || self.current_bytes() == 0 {
            return;
        }
        if self.appender.is_unfinished() {
            self.rotation.request();
        } else if self.check().is_ok() && self.current_bytes() > 0 {
            self.try_due_rotation();
        }
    }

    /// When the current file will be rotated because of its age, s since 1970-01-01 UTC; `None`:
    /// never.
    #[must_use]
    pub fn rotate_due_s(&self, interval_s: u64) -> Option<i64> {
        let interval_s = i64::try_from(interval_s).ok().filter(|interval_s| *interval_s > 0)?;
        let stamp_s = self.current_name().stamp_s();
        (self.current_bytes() > 0).then(|| stamp_s.saturating_add(interval_s))
    }

    /// How many files were begun since `open` because the previous one was full or old enough, and
    /// had at least 4 KiB: not those that were requested, or needed after a change by another
    /// process. A rotation that was delayed to the end of a batch counts as requested.
    #[must_use]
    pub fn due_rotations(&self) -> u64 {
        self.rotation.due_count()
    }

    /// Changes the size at which files are rotated, from the next line on.
    pub fn set_rotate_bytes(&mut self, rotate_bytes: u64) {
        self.rotation.set_max_bytes(rotate_bytes);
    }

    /// Free space for the log.
    ///
    /// # Errors
    /// The file system does not report it.
    pub fn space(&self) -> Result<Space, FileError> {
        self.dir.space()
    }

    /// The log directory.
    #[must_use]
    pub fn directory(&self) -> &Path {
        self.dir.path()
    }

    /// The current file.
    #[must_use]
    pub fn current_file(&self) -> &Path {
        &self.appender.current().path
    }

    /// Name of the current file.
    #[must_use]
    pub fn current_name(&self) -> FileName {
        self.appender.current().name
    }

    /// Length of the current file.
    #[must_use]
    pub fn current_bytes(&self) -> u64 {
        self.appender.current().bytes
    }

    /// Bytes of batches written since `open`, without copies of unlinked files.
    #[must_use]
    pub fn bytes_written(&self) -> u64 {
        self.appender.bytes_written()
    }

    /// Events since the last call, oldest first.
    pub fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    /// Notes for processes that wait for the lock that the holder is recovering what a dead server
    /// left, and will release the lock: a start may wait for that.
    pub fn announce_recovery(&mut self) {
        self.dir.announce_recovery();
    }

    /// Ends writing: makes a last check, cuts off the torn line of a batch that was given up, and
    /// releases the lock.
    ///
    /// # Errors
    /// As [`write`](Self::write). The files are released nevertheless; a caller that wants to wait
    /// calls [`check`](Self::check) until it succeeds.
    pub fn close(mut self) -> Result<(), FileError> {
        self.write_batch(&[], &mut 0)?;
        self.seal_written(&[]);
        self.sealing.stop(&self.dir)
    }

    fn write_batch(&mut self, batch: &[u8], progress: &mut usize) -> Result<(), FileError> {
        self.appender.begin_batch(*progress, &mut self.device)?;
        self.repair(batch, progress)?;
        let mut may_rotate = true;
        while *progress < batch.len() {
            let rest = &batch[*progress..];
            let count = match may_rotate {
                true => self.rotation.fitting(self.appender.current(), rest),
                false => rest.len(),
            };
            if count == 0 {
                may_rotate = match self.rotation.is_requested() {
                    true => self.try_rotate(),
                    false => self.try_due_rotation(),
                };
            } else if let Err(error) = self.appender.append(rest, count, progress) {
                let is_too_large = error.kind() == FileErrorKind::FileTooLarge;
                if !is_too_large || !self.appender.current().has_lines() {
                    return Err(error);
                }
                // A limit on the size of one file: the line fits into another file.
                self.appender.take_back_line(progress, &mut self.device)?;
                let closed_bytes = self.current_bytes();
                self.rotate()?;
                self.rotation.note_due(closed_bytes);
            }
        }
        if self.rotation.is_requested() && may_rotate {
            self.try_rotate();
        }
        Ok(())
    }

    /// Begins a new file; the old one is closed only when the new one exists.
    fn rotate(&mut self) -> Result<(), FileError> {
        self.device.may_leave()?;
        self.keep_before_leaving()?;
        let next = self.dir.create_next(&mut self.events)?;
        let opened = next.path.clone();
        let (closed, closed_bytes) = (self.current_file().to_owned(), self.current_bytes());
        self.replace_current(next);
        self.events.push(Event::Rotated { closed, closed_bytes, opened });
        self.sealing.retry(&self.dir, self.appender.current(), &mut self.events);
        Ok(())
    }

    fn try_rotate(&mut self) -> bool {
        match self.rotate() {
            Ok(()) => true,
            Err(error) => {
                self.rotation.report(error, &mut self.events);
                false
            }
        }
    }

    /// As [`try_rotate`](Self::try_rotate), because the current file is full or old enough.
    fn try_due_rotation(&mut self) -> bool {
        let closed_bytes = self.current_bytes();
        let is_rotated = self.try_rotate();
        if is_rotated {
            self.rotation.note_due(closed_bytes);
        }
        is_rotated
    }

    /// Replaces the current file by another one.
    fn replace_current(&mut self, next: Current<F::File>) {
        self.sealing.note_left(&self.appender, next.name);
        self.rotation.note_done();
        let left = self.appender.replace(next);
        self.device.note_left(left);
    }
}

/// Durability.
impl<F: Fs> LogFiles<F> {
    /// Sets whether [`sync`](Self::sync) will be called: files that are left from now on are then
    /// remembered until they are on the device.
    pub fn set_durable(&mut self, durable: bool) {
        self.device.set_durable(durable, self.appender.current());
    }

    /// How much of the log is on the device; `None`: it is not [durable](Self::set_durable).
    pub fn sync_mark(&self) -> Option<SyncMark> {
        self.device.mark(self.appender.current())
    }

    /// For tests: in each file, where the part begins that is not surely on the device.
    #[cfg(test)]
    pub(crate) fn doubted(&self) -> Vec<(FileName, u64)> {
        self.device.doubted(self.appender.current())
    }

    /// Another writer wrote here, and is gone: the next [`sync`](Self::sync) does not trust
    /// anything that it wrote after `mark`, because the kernel may have reported an error of the
    /// device to that writer. Makes this log [durable](Self::set_durable). Returns how many bytes
    /// after the mark are too many to be checked.
    ///
    /// # Errors
    /// The files before the current one cannot be read; the current one is marked as doubtful
    /// nevertheless.
    pub fn doubt_predecessor(&mut self, mark: Option<SyncMark>) -> Result<u64, FileError> {
        self.set_durable(true);
        self.device.doubt_predecessor(&self.dir, self.appender.current(), mark)
    }

    /// Waits until everything that was written is on the device, with the names of the files. Does
    /// nothing if nothing was written since the last time, or the log is not
    /// [durable](Self::set_durable). Not in the middle of a batch. `true`: a sync was necessary.
    ///
    /// # Errors
    /// As [`check`](Self::check), fdatasync(2) and fsync(2). Nothing counts as synced then; the
    /// next call retries all of it.
    pub fn sync(&mut self) -> Result<bool, FileError> {
        if !self.device.is_durable() {
            return Ok(false);
        }
        if self.appender.is_unfinished() {
            return Err(self.appender.refuse(FileErrorKind::Other, "sync half of"));
        }
        // A file that another process unlinked has no name under which it could be found.
        self.check()?;
        let result = self.device.sync(&self.dir, self.appender.current());
        self.sealing.note_sync(&result);
        result
    }

    /// Waits until the content of the current file is on the device, durable or not.
    fn sync_current(&mut self) -> Result<(), FileError> {
        let result = self.device.sync_current(self.appender.current());
        self.sealing.note_sync(&result);
        result
    }
}

/// The seal.
impl<F: Fs> LogFiles<F> {
    /// Begins to seal the log (`docs/specs/chain.md`), after [`open`](Self::open) and before the
    /// first batch. `last_seq` is the result of `open`. Begins a new file if the seal cannot
    /// continue in the current one.
    ///
    /// # Errors
    /// Key or sidecar cannot be read or written, or the key file is malformed. The log is then not
    /// sealed, until a rotation succeeds in beginning it.
    pub fn seal(&mut self, options: &SealOptions, last_seq: u64) -> Result<Sealed, FileError> {
        let mut begun = self.begin_seal(options, last_seq);
        if let Ok(None) = begun {
            begun = self.rotate().and_then(|()| self.begin_seal(options, last_seq));
        }
        let error = match begun {
            Ok(Some(sealed)) => return Ok(sealed),
            Ok(None) => self.appender.refuse(FileErrorKind::FileGone, "seal"),
            Err(error) => error,
        };
        self.leave_sealed_file();
        self.sealing.want(options);
        Err(error)
    }

    fn begin_seal(
        &mut self,
        options: &SealOptions,
        last_seq: u64,
    ) -> Result<Option<Sealed>, FileError> {
        self.sealing.begin(&self.dir, self.appender.current(), options, last_seq)
    }

    /// Whether there is a key for the log, in this file or in one beside it.
    ///
    /// # Errors
    /// The directory or a key file cannot be read.
    pub fn has_key(&self, key_file: &Path) -> Result<bool, FileError> {
        seal::has_key(self.dir.fs(), self.dir.path(), key_file)
    }

    /// Declares that the log will not be sealed. Begins another file, because lines without a seal
    /// are never in a file with a sidecar, where they would look like lines that were added later.
    pub fn leave_sealed_file(&mut self) {
        if Sealing::may_have_sidecar(&self.dir, self.current_name()) {
            self.try_rotate();
        }
    }

    /// The key that verifies the log, if it is sealed.
    #[must_use]
    pub fn root_key(&self) -> Option<&VerifierKey> {
        self.sealing.root_key()
    }

    /// When the log was last signed, s since 1970-01-01 UTC; `None`: not since it was opened.
    #[must_use]
    pub fn checkpoint_s(&self) -> Option<i64> {
        self.sealing.checkpoint_s()
    }

    /// Changes how often the chain is signed, s; 0: only at rotation and stop.
    pub fn set_checkpoint_interval_s(&mut self, interval_s: u64) {
        self.sealing.set_checkpoint_interval_s(interval_s);
    }

    /// Signs the chain if that is due, even if nothing is written. For every round.
    pub fn tick(&mut self) {
        self.seal_written(&[]);
    }

    /// Seals the complete lines that are in the files.
    fn seal_written(&mut self, batch: &[u8]) {
        let LogFiles { sealing, dir, appender, events, rotation, .. } = self;
        if sealing.advance(dir, appender, batch, events) {
            rotation.request();
        }
    }
}
