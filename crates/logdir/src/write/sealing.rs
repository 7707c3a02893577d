//! Reports to the sealer which complete lines are in which file.

use std::io;
use std::path::PathBuf;

use tacho_chain::SIDECAR_ENDING;
use tacho_chain::entry::EpochReason;
use tacho_chain::key::VerifierKey;

use super::appender::{Appender, CompleteLines};
use super::current::Current;
use super::directory::LogDir;
use crate::error::{At, FileError, Reported};
use crate::event::Event;
use crate::fs::{Fs, FsFile, OpenMode};
use crate::name::FileName;
use crate::retain::{Due, RetainError};
use crate::seal::{Begin, Log, Removed, SealOptions, Sealed, Sealer, begin_sealing};

/// A file that was left, and that the sealer does not know about yet.
struct Left {
    path: PathBuf,
    lines: CompleteLines,
    /// It is a copy of an unlinked file, under a name that the sealer did not know.
    is_rewritten: bool,
    /// Another process changed it.
    is_damaged: bool,
    /// The name of the next file.
    next: FileName,
}

/// The seal of the log, if it is sealed.
pub(super) struct Sealing<F: Fs> {
    sealer: Option<Box<Sealer<F>>>,
    /// How to seal, if sealing could not begin yet.
    wanted: Option<SealOptions>,
    /// Files that were left since lines were last reported to the sealer.
    left: Vec<Left>,
    /// Another process changed the current file: the next one declares it.
    is_damaged: bool,
    /// The current file is a copy of an unlinked one, under another name.
    is_rewritten: bool,
    /// The tombstones.
    removed: Removed,
    reported: Reported,
}

impl<F: Fs> Default for Sealing<F> {
    fn default() -> Sealing<F> {
        Sealing {
            sealer: None,
            wanted: None,
            left: Vec::new(),
            is_damaged: false,
            is_rewritten: false,
            removed: Removed::default(),
            reported: Reported::default(),
        }
    }
}

impl<F: Fs> Sealing<F> {
    /// Begins to seal. `None`: this is only possible in a file without lines.
    pub(super) fn begin(
        &mut self,
        dir: &LogDir<F>,
        current: &Current<F::File>,
        options: &SealOptions,
        last_seq: u64,
    ) -> Result<Option<Sealed>, FileError> {
        let name = current.name.log_file();
        let (bytes, made) = (current.line_end, dir.made());
        let log = Log { file: &current.file, name: &name, bytes, made };
        match begin_sealing(dir.fs(), dir.path(), options, &log, last_seq)? {
            Begin::Ready(ready) => {
                let (sealer, sealed) = *ready;
                self.sealer = Some(Box::new(sealer));
                self.left.clear();
                self.wanted = None;
                Ok(Some(sealed))
            }
            Begin::NeedsNewFile => Ok(None),
        }
    }

    /// Stores how to seal, for [`retry`](Self::retry).
    pub(super) fn want(&mut self, options: &SealOptions) {
        self.wanted = Some(options.clone());
    }

    /// Retries to begin sealing, in a file that was just begun.
    pub(super) fn retry(
        &mut self,
        dir: &LogDir<F>,
        current: &Current<F::File>,
        events: &mut Vec<Event>,
    ) {
        let Some(options) = self.wanted.clone() else { return };
        let begun = match dir.last_seq() {
            Ok(last_seq) => self.begin(dir, current, &options, last_seq.unwrap_or(0)),
            Err(error) => Err(FileError::new("seal", dir.path(), io::Error::other(error))),
        };
        match begun {
            Ok(Some(sealed)) => {
                self.reported = Reported::default();
                events.push(Event::SealBegun { sealed });
            }
            // Another process created a sidecar for it first: the next file will do.
            Ok(None) => {}
            Err(error) => self.report(error, events),
        }
    }

    /// Reports that the seal cannot be written, once until the cause changes.
    fn report(&mut self, error: FileError, events: &mut Vec<Event>) {
        if self.reported.is_news(&error) {
            events.push(Event::SealFailed { error });
        }
    }

    /// Whether the current file may have a sidecar.
    pub(super) fn may_have_sidecar(dir: &LogDir<F>, current: FileName) -> bool {
        let sidecar = format!("{current}.{SIDECAR_ENDING}");
        // If the directory cannot be read, the safe answer is yes.
        dir.fs().list(dir.path()).map_or(true, |names| names.contains(&sidecar))
    }

    /// The key that verifies the log, if it is sealed.
    pub(super) fn root_key(&self) -> Option<&VerifierKey> {
        self.sealer.as_ref().map(|sealer| sealer.root())
    }

    /// When the chain was last signed, s since 1970-01-01 UTC.
    pub(super) fn checkpoint_s(&self) -> Option<i64> {
        self.sealer.as_ref().and_then(|sealer| sealer.checkpoint_s())
    }

    pub(super) fn set_checkpoint_interval_s(&mut self, interval_s: u64) {
        if let Some(sealer) = &mut self.sealer {
            sealer.set_interval_s(interval_s);
        }
    }

    /// Extends the chain by the complete lines that are in the files, and signs it if that is due.
    /// `true`: the current file differs from the sealed one, and another one must follow it.
    pub(super) fn advance(
        &mut self,
        dir: &LogDir<F>,
        appender: &Appender<F::File>,
        batch: &[u8],
        events: &mut Vec<Event>,
    ) -> bool {
        let Some(sealer) = &mut self.sealer else { return false };
        for left in std::mem::take(&mut self.left) {
            let is_ours = seal_left(sealer, dir, &left, batch, events);
            let reason = if is_ours { EpochReason::Rotate } else { EpochReason::Damaged };
            sealer.rotated(&left.next.log_file(), reason);
        }
        let Current { file, path, .. } = appender.current();
        let lines = appender.complete_lines();
        let mut result = Ok(true);
        if self.is_rewritten {
            result = seal_copy(sealer, file, path, &lines).map(|()| true);
            self.is_rewritten = result.is_err();
        }
        let mut needs_new_file = false;
        if result.is_ok() {
            if !seal_lines(sealer, batch, &lines) {
                self.is_damaged = true;
            }
            needs_new_file = self.is_damaged;
            result = sealer.advance(dir.fs());
            if sealer.wants_writeback(dir.fs().now_s()) {
                file.start_sync();
            }
        }
        match result {
            Ok(true) if self.reported.clear() => events.push(Event::SealResumed),
            Ok(_) => {}
            Err(error) => self.report(error, events),
        }
        needs_new_file
    }

    /// Another process truncated the current file to `end`.
    pub(super) fn note_cut_by_others(&mut self, end: u64) {
        if let Some(sealer) = &mut self.sealer
            && self.left.is_empty()
            && end < sealer.end()
        {
            // Now, and not later by the length: there may be as many new lines as removed ones.
            sealer.cut(end);
            self.is_damaged = true;
        }
    }

    /// Stores what the sealer must know about the current file before another one follows it.
    pub(super) fn note_left(&mut self, appender: &Appender<F::File>, next: FileName) {
        if self.sealer.is_some() {
            self.left.push(Left {
                path: appender.current().path.clone(),
                lines: appender.complete_lines(),
                is_rewritten: std::mem::take(&mut self.is_rewritten),
                is_damaged: std::mem::take(&mut self.is_damaged),
                next,
            });
        }
    }

    /// The current file was replaced by a copy; `is_renamed`: under a name that the sealer does not
    /// know.
    pub(super) fn note_copied(&mut self, is_renamed: bool) {
        self.is_rewritten |= is_renamed;
        if let Some(sealer) = &mut self.sealer {
            sealer.copied();
        }
    }

    /// A sync of a log file failed. The sealer opens the files anew, and Linux reports a failure
    /// only to processes that had them open before. (A failure that the sealer meets first is
    /// reported here, too, because these files were open.)
    pub(super) fn note_sync<T>(&mut self, result: &Result<T, FileError>) {
        if let Some(sealer) = self.sealer.as_mut().filter(|_| result.is_err()) {
            sealer.doubt_logs();
        }
    }

    /// Whether the chain no longer needs the file.
    pub(super) fn has_left(&self, name: FileName) -> bool {
        self.sealer.as_ref().is_none_or(|sealer| sealer.has_left(&name.log_file()))
            && self.left.is_empty()
    }

    /// Records in the chain that a file will be removed.
    pub(super) fn bury(&mut self, dir: &LogDir<F>, due: Due) -> Result<(), RetainError> {
        let log = due.name.log_file();
        let Some(sealer) = &mut self.sealer else {
            let sidecar = dir.path().join(format!("{}.{SIDECAR_ENDING}", due.name));
            return match dir.fs().stat(&sidecar) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
                stat => {
                    stat.at("look at", &sidecar)?;
                    Err(RetainError::NoKey(log))
                }
            };
        };
        Ok(sealer.bury(dir.fs(), &mut self.removed, &log, due.reason)?)
    }

    /// Reads the tombstones again.
    pub(super) fn read_removed(&mut self, dir: &LogDir<F>) -> Result<(), FileError> {
        self.removed = Removed::read(dir.fs(), dir.path())?;
        Ok(())
    }

    /// Whether a file has a tombstone.
    pub(super) fn is_buried(&self, name: FileName) -> bool {
        self.removed.has(&name.log_file())
    }

    /// Makes the last checkpoint.
    pub(super) fn stop(&mut self, dir: &LogDir<F>) -> Result<(), FileError> {
        self.sealer.as_mut().map_or(Ok(()), |sealer| sealer.stop(dir.fs()))
    }
}

/// Reports the complete lines of a file that was left to the sealer. `false`: the file differs from
/// what the sealer knows.
fn seal_left<F: Fs>(
    sealer: &mut Sealer<F>,
    dir: &LogDir<F>,
    left: &Left,
    batch: &[u8],
    events: &mut Vec<Event>,
) -> bool {
    let Left { path, lines, is_rewritten, is_damaged, .. } = left;
    let mut is_ours = !is_damaged;
    if *is_rewritten {
        let file = dir.fs().open(path, OpenMode::Read).at("open", path);
        if let Err(error) = file.and_then(|file| seal_copy(sealer, &file, path, lines)) {
            // The next file declares that this one was changed.
            is_ours = false;
            events.push(Event::SealFailed { error });
        }
    }
    is_ours & seal_lines(sealer, batch, lines)
}

/// Reports the lines of a copy to the sealer that it does not know and that are not in the batch.
fn seal_copy<F: Fs>(
    sealer: &mut Sealer<F>,
    file: &F::File,
    path: &std::path::Path,
    lines: &CompleteLines,
) -> Result<(), FileError> {
    let (start, end) = (sealer.end(), lines.bytes - lines.batch_bytes);
    if start < end { sealer.appended_in_file(file, path, start, end) } else { Ok(()) }
}

/// Reports the complete lines of a file that are in the batch to the sealer. `false`: the file
/// differs from what the sealer knows.
fn seal_lines<F: Fs>(sealer: &mut Sealer<F>, batch: &[u8], lines: &CompleteLines) -> bool {
    let CompleteLines { bytes: end, batch_bytes, batch_end } = *lines;
    let sealed = sealer.end();
    let mut is_ours = true;
    if end < sealed {
        sealer.cut(end);
        is_ours = false;
    }
    let start = sealed.max(end.saturating_sub(batch_bytes)).min(end);
    if start < end {
        let lines = batch_end
            .checked_sub((end - start) as usize)
            .and_then(|begin| batch.get(begin..batch_end));
        match lines {
            Some(lines) => sealer.appended(lines, start, false),
            None => return false,
        }
        is_ours &= start == sealed;
    } else {
        is_ours &= end <= sealed;
    }
    is_ours
}
