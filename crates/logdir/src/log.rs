//! [`LogFiles`]: open, write, rotate.

use std::io;
use std::path::{Path, PathBuf};

use super::aside::set_aside;
use super::create::{create_next, reopen};
use super::current::{Current, Left, Rescue};
use super::entries;
use super::error::{At, FileError, FileErrorKind, LastSeqError};
use super::event::Event;
use super::form::Form;
use super::fs::{Fs, FsFile, RealFs, Space};
use super::lock;
use super::made::Made;
use super::name::FileName;
use super::seal::{Removed, SealOptions, Sealer};
use super::sizes::Sizes;
use super::sync::Unsynced;
use super::tail;

/// Settings of a log directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// A line that would make the file longer than this many bytes begins a new file.
    /// A single longer line gets a file of its own. 0: no limit.
    pub rotate_bytes: u64,
}

/// What [`LogFiles::open`] found.
#[derive(Debug)]
pub struct Opened {
    /// Length of the line without a newline that was cut off, bytes.
    pub torn_bytes: u64,
    /// `seq` of the last complete line in the directory; `None`: no line yet.
    pub last_seq: Result<Option<u64>, LastSeqError>,
}

/// The log directory of one writer.
pub struct LogFiles<F: Fs = RealFs> {
    pub(crate) fs: F,
    pub(crate) dir: PathBuf,
    rotate_bytes: u64,
    /// Held, not used: the lock ends with it.
    pub(crate) lock: F::File,
    pub(crate) current: Current<F::File>,
    /// The names of the newest files, so that the order holds even if files are removed.
    pub(crate) made: Made,
    /// A copy out of an unlinked current file that has not been completed.
    pub(crate) rescue: Option<Rescue<F::File>>,
    /// How many bytes before `current.bytes` belong to the unfinished batch.
    pub(crate) batch_bytes: u64,
    /// The last batch ended in an error, and the caller will come back with it.
    pub(crate) unfinished: bool,
    /// A write failed, and may nevertheless have left bytes in the file.
    pub(crate) unsure: bool,
    pub(crate) rotate_requested: bool,
    /// See [`LogFiles::due_rotations`].
    due_rotations: u64,
    /// What was last said about rotation not working.
    rotate_failure: Option<(FileErrorKind, Option<i32>)>,
    pub(crate) events: Vec<Event>,
    pub(crate) bytes_written: u64,
    pub(crate) sealer: Option<Box<Sealer<F>>>,
    /// How to seal, if that could not begin yet.
    pub(crate) wanted_seal: Option<SealOptions>,
    /// Files that were left since the sealer was last told.
    pub(crate) left: Vec<Left>,
    /// `progress` of the batch, as far as the file is concerned.
    pub(crate) batch_end: usize,
    /// The tombstones.
    pub(crate) removed: Removed,
    /// How long closed files are.
    pub(crate) sizes: Sizes,
    /// What was last said about the seal.
    pub(crate) seal_failure: Option<(FileErrorKind, Option<i32>)>,
    /// The current file was changed by somebody: the next one says so.
    pub(crate) damaged: bool,
    /// The current file is a copy of an unlinked one, under another name.
    pub(crate) rewritten: bool,
    /// Where lines shall survive the machine.
    pub(crate) unsynced: Option<Unsynced<F::File>>,
    /// Where that is not asked for: the last sync has failed.
    pub(crate) sync_failed: bool,
}

/// A smaller file is not taken for one that was full or old enough, whatever the settings say: it costs
/// nothing to make very many of them, and if the line about a removal filled a file by itself, retention
/// by count would never come to an end.
const FULL_BYTES_MIN: u64 = 4096;

impl<F: Fs> LogFiles<F> {
    /// Opens a log directory for writing: makes it if it is missing (with at most one
    /// directory above it), locks it, sets aside what SQL has planted among the files, cuts a torn last
    /// line off the newest file and goes on with that file, or begins a new one.
    ///
    /// # Errors
    /// [`FileErrorKind::Locked`] when another writer has it; otherwise what the operating
    /// system said. A `seq` that cannot be read is not an error here but in [`Opened`].
    pub fn open(fs: F, dir: &Path, options: Options) -> Result<(LogFiles<F>, Opened), FileError> {
        LogFiles::open_with_key(fs, dir, options, Path::new(""))
    }

    /// As [`open`](Self::open), for a log that may be sealed. `key_file`: the key that it is sealed with;
    /// empty: it is not sealed. It says which files are not planted where no list of them says so.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_with_key(
        fs: F,
        dir: &Path,
        options: Options,
        key_file: &Path,
    ) -> Result<(LogFiles<F>, Opened), FileError> {
        lock::ensure_dir(&fs, dir)?;
        let lock = lock::acquire(&fs, dir)?;
        let (made, events) = set_aside(&fs, dir, key_file)?;
        LogFiles::open_locked(fs, dir, options, lock, made, events)
    }

    fn open_locked(
        fs: F,
        dir: &Path,
        options: Options,
        lock: F::File,
        mut made: Made,
        mut events: Vec<Event>,
    ) -> Result<(LogFiles<F>, Opened), FileError> {
        let entries = entries::list(&fs, dir)?;
        let mut torn_bytes = 0;
        let mut newest_file = None;
        // The torn line is in the newest file that is not empty. Empty ones are newer than it
        // where a file system has made a file and reported an error (NFS can).
        for (position, (name, form)) in entries.iter().rev().enumerate() {
            let path = dir.join(format!("{name}.{}", form.ending()));
            if *form != Form::Plain || !fs.stat(&path).at("look at", &path)?.is_file {
                break;
            }
            let (current, torn) = reopen(&fs, *name, path)?;
            let is_empty = current.bytes == 0;
            torn_bytes += torn;
            if position == 0 {
                newest_file = Some(current);
            }
            if !is_empty {
                break;
            }
        }
        let last_seq = tail::last_seq_in(&fs, dir, &entries);
        let (current, full) = match newest_file {
            Some(current) => {
                let full = options.rotate_bytes > 0 && current.bytes >= options.rotate_bytes;
                if !made.has(current.name) {
                    made.add(&fs, dir, current.name)?;
                }
                (current, full)
            }
            None => (create_next(&fs, dir, &mut made, &mut events)?, false),
        };
        let mut files = LogFiles {
            fs,
            dir: dir.to_owned(),
            rotate_bytes: options.rotate_bytes,
            lock,
            current,
            made,
            rescue: None,
            batch_bytes: 0,
            unfinished: false,
            unsure: false,
            rotate_requested: false,
            due_rotations: 0,
            rotate_failure: None,
            events,
            bytes_written: 0,
            sealer: None,
            wanted_seal: None,
            left: Vec::new(),
            batch_end: 0,
            removed: Removed::default(),
            sizes: Sizes::default(),
            seal_failure: None,
            damaged: false,
            rewritten: false,
            unsynced: None,
            sync_failed: false,
        };
        if full {
            files.try_due_rotation();
        }
        Ok((files, Opened { torn_bytes, last_seq }))
    }

    /// Appends a batch of complete lines.
    ///
    /// `progress` is how many bytes of the batch are in the files; it is 0 for a new batch
    /// and advances with every byte. After an error, calling again with the same batch and
    /// the same `progress` goes on exactly there. `progress` goes back only when somebody
    /// damaged the file under the batch, by the bytes that have to be written again.
    ///
    /// A new batch (`progress` 0) after an unfinished one gives the old one up: its
    /// complete lines stay, its torn line is cut off.
    ///
    /// # Errors
    /// Nothing is lost by any of them, and all but [`FileErrorKind::InvalidBatch`] pass
    /// when their cause does.
    pub fn write(&mut self, batch: &[u8], progress: &mut usize) -> Result<(), FileError> {
        if batch.last().is_some_and(|&byte| byte != b'\n') || *progress > batch.len() {
            let kind = FileErrorKind::InvalidBatch;
            return Err(FileError::of_kind(kind, "append to", &self.current.path));
        }
        let result = self.write_batch(batch, progress);
        self.unfinished = result.is_err();
        self.seal_written(batch);
        result
    }

    /// Looks whether the current file is still where and what it was, and mends it if not,
    /// as every [`write`](Self::write) does. For quiet times, and before [`close`](Self::close).
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub fn check(&mut self) -> Result<(), FileError> {
        if self.unfinished {
            // Mending may move `progress` back, which is in the hands of the next write.
            return Ok(());
        }
        let result = self.write_batch(&[], &mut 0);
        self.seal_written(&[]);
        result
    }

    /// Whether a batch was begun that is not all in the file.
    pub(crate) fn is_unfinished(&self) -> bool {
        self.unfinished
    }

    /// Begins a new file, unless the current one is empty. In the middle of an unfinished
    /// batch, the next [`write`](Self::write) does so at the end of the line.
    ///
    /// # Errors
    /// When no new file can be made; the old one then goes on.
    pub fn rotate_now(&mut self) -> Result<(), FileError> {
        if self.unfinished {
            self.rotate_requested = true;
            return Ok(());
        }
        self.check()?;
        if self.current.bytes == 0 {
            return Ok(());
        }
        let result = self.rotate();
        self.seal_written(&[]);
        result
    }

    /// Begins a new file if the current one has lines and was begun `interval_s` seconds ago or
    /// earlier; 0: never. Where no new file can be made, the old one goes on, which is told once.
    pub fn rotate_when_older(&mut self, interval_s: u64) {
        let age_s = self.fs.now_s().saturating_sub(self.current.name.stamp_s());
        let is_due = interval_s > 0 && u64::try_from(age_s).is_ok_and(|age_s| age_s >= interval_s);
        if !is_due || self.current.bytes == 0 {
            return;
        }
        if self.unfinished {
            self.rotate_requested = true;
        } else if self.check().is_ok() && self.current.bytes > 0 {
            self.try_due_rotation();
        }
    }

    /// When the current file will be followed by another one because of its age, s since 1970-01-01 UTC;
    /// `None`: not for that.
    #[must_use]
    pub fn rotate_due_s(&self, interval_s: u64) -> Option<i64> {
        let interval_s = i64::try_from(interval_s).ok().filter(|interval_s| *interval_s > 0)?;
        let stamp_s = self.current.name.stamp_s();
        (self.current.bytes > 0).then(|| stamp_s.saturating_add(interval_s))
    }

    /// How many files were begun since `open` because the one before was full, or old enough, and had
    /// 4 KiB at least: not those that somebody has asked for, and not those that a disturbance made
    /// necessary. One that had to be put off to the end of a batch counts as asked for.
    #[must_use]
    pub fn due_rotations(&self) -> u64 {
        self.due_rotations
    }

    /// Changes the size at which files are rotated, from the next line on.
    pub fn set_rotate_bytes(&mut self, rotate_bytes: u64) {
        self.rotate_bytes = rotate_bytes;
    }

    /// How much room there is for the log.
    ///
    /// # Errors
    /// When nobody knows.
    pub fn space(&self) -> Result<Space, FileError> {
        self.fs.space(&self.dir).at("ask for the room in", &self.dir)
    }

    /// The log directory.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.dir
    }

    /// The file that is written now.
    #[must_use]
    pub fn current_file(&self) -> &Path {
        &self.current.path
    }

    /// Whether the current file has a complete line.
    pub(crate) fn has_lines(&self) -> bool {
        self.current.line_end > 0
    }

    /// Name of the file that is written now.
    #[must_use]
    pub fn current_name(&self) -> FileName {
        self.current.name
    }

    /// Length of the current file.
    #[must_use]
    pub fn current_bytes(&self) -> u64 {
        self.current.bytes
    }

    /// Bytes of batches written since `open`, copies of unlinked files not counted.
    #[must_use]
    pub fn bytes_written(&self) -> u64 {
        self.bytes_written
    }

    /// What has happened since the last call, oldest first.
    pub fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    /// Ends writing: a last check, the torn line of a batch that was given up is cut off,
    /// and the lock is let go.
    ///
    /// # Errors
    /// As [`write`](Self::write). The files are let go all the same; a caller that wants to
    /// wait for better times calls [`check`](Self::check) until it succeeds.
    pub fn close(mut self) -> Result<(), FileError> {
        self.write_batch(&[], &mut 0)?;
        self.seal_written(&[]);
        match &mut self.sealer {
            Some(sealer) => sealer.stop(&self.fs),
            None => Ok(()),
        }
    }

    fn write_batch(&mut self, batch: &[u8], progress: &mut usize) -> Result<(), FileError> {
        if *progress == 0 {
            self.cut_given_up_line()?;
            self.batch_bytes = 0;
        }
        self.batch_end = *progress;
        self.heal(batch, progress)?;
        let mut may_rotate = true;
        while *progress < batch.len() {
            let rest = &batch[*progress..];
            let count = if may_rotate { self.fitting(rest) } else { rest.len() };
            if count == 0 {
                may_rotate = match self.rotate_requested {
                    true => self.try_rotate(),
                    false => self.try_due_rotation(),
                };
                continue;
            }
            match self.current.file.write(&rest[..count]) {
                Ok(0) => {
                    let error = io::Error::from(io::ErrorKind::WriteZero);
                    return Err(FileError::new("append to", &self.current.path, error));
                }
                Ok(written) => self.advance(rest, written, progress),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.unsure = true;
                    let error = FileError::new("append to", &self.current.path, error);
                    if error.kind() != FileErrorKind::FileTooLarge || self.current.line_end == 0 {
                        return Err(error);
                    }
                    // A limit on the size of one file: the line fits into another file.
                    self.take_back_line(progress)?;
                    let closed_bytes = self.current.bytes;
                    self.rotate()?;
                    self.note_due_rotation(closed_bytes);
                }
            }
        }
        if self.rotate_requested && may_rotate {
            self.try_rotate();
        }
        Ok(())
    }

    /// How many bytes of `rest` go into the current file, up to a line end; 0: rotate first.
    fn fitting(&self, rest: &[u8]) -> usize {
        let first_line = || rest.iter().position(|&b| b == b'\n').map_or(rest.len(), |at| at + 1);
        let must_finish_line = self.current.is_mid_line();
        if self.rotate_requested && self.current.bytes > 0 {
            return if must_finish_line { first_line() } else { 0 };
        }
        let room = self.rotate_bytes.saturating_sub(self.current.bytes);
        if self.rotate_bytes == 0 || rest.len() as u64 <= room {
            return rest.len();
        }
        match rest[..room as usize].iter().rposition(|&byte| byte == b'\n') {
            Some(at) => at + 1,
            None if must_finish_line || self.current.bytes == 0 => first_line(),
            None => 0,
        }
    }

    /// Notes that the first `written` bytes of `rest` are in the file.
    pub(crate) fn advance(&mut self, rest: &[u8], written: usize, progress: &mut usize) {
        *progress += written;
        self.batch_end = *progress;
        self.current.bytes += written as u64;
        self.batch_bytes += written as u64;
        self.bytes_written += written as u64;
        if let Some(at) = rest[..written].iter().rposition(|&byte| byte == b'\n') {
            self.current.line_end = self.current.bytes - (written - at - 1) as u64;
        }
    }

    /// Notes that the file ends at `end` again, a line end, and that the bytes of the
    /// batch behind it have to be written again. Returns how many those are.
    pub(crate) fn rewind(&mut self, end: u64, progress: &mut usize) -> u64 {
        let again = self.batch_bytes.min(self.current.bytes - end);
        // `batch_bytes` never exceeds `progress`, so neither subtraction can wrap.
        *progress -= again as usize;
        self.batch_end = *progress;
        self.batch_bytes -= again;
        self.bytes_written -= again;
        self.current.bytes = end;
        self.current.line_end = end;
        self.note_cut(end);
        again
    }

    /// Cuts off the line that the unfinished batch has begun, to write it elsewhere.
    pub(crate) fn take_back_line(&mut self, progress: &mut usize) -> Result<(), FileError> {
        if self.current.is_mid_line() {
            let end = self.current.line_end;
            self.current.file.set_len(end).at("truncate", &self.current.path)?;
            self.rewind(end, progress);
        }
        Ok(())
    }

    /// Cuts off the torn line of a batch that the caller has given up.
    fn cut_given_up_line(&mut self) -> Result<(), FileError> {
        if self.current.is_mid_line() {
            let Current { file, path, line_end, .. } = &self.current;
            // Never to a greater length: if somebody has truncated the file below, this
            // would make a hole, and `heal` would not see the loss.
            if file.stat().at("look at", path)?.bytes > *line_end {
                file.set_len(*line_end).at("truncate", path)?;
            }
            self.bytes_written -= self.current.bytes - self.current.line_end;
            self.current.bytes = self.current.line_end;
            self.note_cut(self.current.line_end);
        }
        Ok(())
    }

    /// Tells whoever waits for the lock that it is held to write what a dead server has left, and comes
    /// to an end: a start may wait for that.
    pub fn tell_recovery(&mut self) {
        lock::tell_recovery(&mut self.lock);
    }

    pub(crate) fn create_next(&mut self) -> Result<Current<F::File>, FileError> {
        create_next(&self.fs, &self.dir, &mut self.made, &mut self.events)
    }

    /// Begins a new file; the old one is closed only when the new one exists.
    pub(crate) fn rotate(&mut self) -> Result<(), FileError> {
        self.may_leave()?;
        self.keep_before_leaving()?;
        let next = self.create_next()?;
        let opened = next.path.clone();
        let (closed, closed_bytes) = self.replace_current(next);
        self.events.push(Event::Rotated { closed, closed_bytes, opened });
        self.retry_seal();
        Ok(())
    }

    pub(crate) fn try_rotate(&mut self) -> bool {
        match self.rotate() {
            Ok(()) => true,
            Err(error) => {
                self.report_rotate_failure(error);
                false
            }
        }
    }

    /// As [`try_rotate`](Self::try_rotate), because the current file is full or old enough.
    fn try_due_rotation(&mut self) -> bool {
        let closed_bytes = self.current.bytes;
        let is_rotated = self.try_rotate();
        if is_rotated {
            self.note_due_rotation(closed_bytes);
        }
        is_rotated
    }

    fn note_due_rotation(&mut self, closed_bytes: u64) {
        self.due_rotations += u64::from(closed_bytes >= FULL_BYTES_MIN);
    }

    pub(crate) fn report_rotate_failure(&mut self, error: FileError) {
        let failure = Some((error.kind(), error.errno()));
        if self.rotate_failure != failure {
            self.rotate_failure = failure;
            self.events.push(Event::RotateFailed { error });
        }
    }

    /// Returns the path and the length of the file that is left.
    pub(crate) fn replace_current(&mut self, next: Current<F::File>) -> (PathBuf, u64) {
        self.note_left(next.name);
        self.batch_bytes = 0;
        self.unsure = false;
        self.rotate_requested = false;
        self.rotate_failure = None;
        let Current { file, name, path, bytes, .. } = std::mem::replace(&mut self.current, next);
        self.note_unsynced(file, name, &path);
        (path, bytes)
    }
}

impl<F: Fs> Drop for LogFiles<F> {
    /// A process that is being started at this moment has the descriptor, too, until it executes
    /// its program: closing it here would not end the lock.
    fn drop(&mut self) {
        // What cannot be let go now ends with the last descriptor.
        let _: io::Result<()> = self.lock.unlock();
    }
}
