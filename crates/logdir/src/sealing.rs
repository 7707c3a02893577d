//! What the sealer is told: which complete lines are in which file.

use std::io;
use std::path::Path;

use tacho_chain::entry::EpochReason;
use tacho_chain::key::VerifierKey;

use super::current::{Current, Left};
use super::entries;
use super::error::{At, FileError, FileErrorKind, LastSeqError};
use super::event::Event;
use super::fs::{Fs, FsFile, OpenMode};
use super::log::LogFiles;
use super::name::FileName;
use super::seal::{self, Begin, Log, SealOptions, Sealed, Sealer, begin_sealing};
use super::tail;

impl<F: Fs> LogFiles<F> {
    /// Begins to seal the log (`docs/specs/chain.md`), after [`open`](Self::open) and before the first
    /// batch. `last_seq` is what `open` found. Begins a new file where the seal cannot go on in
    /// the current one.
    ///
    /// # Errors
    /// When key or sidecar cannot be read or written, or the key file makes no sense. The log is
    /// not sealed then, until a rotation with which it can be.
    pub fn seal(&mut self, options: &SealOptions, last_seq: u64) -> Result<Sealed, FileError> {
        let mut begun = self.try_seal(options, last_seq);
        if let Ok(None) = begun {
            begun = self.rotate().and_then(|()| self.try_seal(options, last_seq));
        }
        let error = match begun {
            Ok(Some(sealed)) => return Ok(sealed),
            Ok(None) => FileError::of_kind(FileErrorKind::FileGone, "seal", &self.current.path),
            Err(error) => error,
        };
        self.leave_sealed_file();
        self.wanted_seal = Some(options.clone());
        Err(error)
    }

    /// Whether there is a key that the log can be sealed with: in this file, or in one beside it.
    ///
    /// # Errors
    /// The directory or a key file cannot be read.
    pub fn has_key(&self, key_file: &Path) -> Result<bool, FileError> {
        seal::has_key(&self.fs, &self.dir, key_file)
    }

    /// Says that the log will not be sealed. What nobody seals never stands in a file with a
    /// sidecar, where it would look like what somebody has added: another one is begun.
    pub fn leave_sealed_file(&mut self) {
        let sidecar = format!("{}.{}", self.current.name, tacho_chain::SIDECAR_ENDING);
        let is_sealed = match self.fs.list(&self.dir) {
            Ok(names) => names.contains(&sidecar),
            // Who cannot look takes the safe way, and says why that fails, if it does.
            Err(_) => true,
        };
        if is_sealed {
            self.try_rotate();
        }
    }

    /// `None`: it can only begin in a file that nobody has written to.
    fn try_seal(
        &mut self,
        options: &SealOptions,
        last_seq: u64,
    ) -> Result<Option<Sealed>, FileError> {
        let name = self.current.name.log_file();
        let (bytes, made) = (self.current.line_end, &self.made);
        let log = Log { file: &self.current.file, name: &name, bytes, made };
        match begin_sealing(&self.fs, &self.dir, options, &log, last_seq)? {
            Begin::Ready(ready) => {
                let (sealer, sealed) = *ready;
                self.sealer = Some(Box::new(sealer));
                self.left.clear();
                self.wanted_seal = None;
                Ok(Some(sealed))
            }
            Begin::NeedsNewFile => Ok(None),
        }
    }

    /// Tries again to begin to seal, in a file that was just begun.
    pub(crate) fn retry_seal(&mut self) {
        let Some(options) = self.wanted_seal.clone() else { return };
        let begun = match self.last_seq() {
            Ok(last_seq) => self.try_seal(&options, last_seq.unwrap_or(0)),
            Err(error) => Err(FileError::new("seal", &self.dir, io::Error::other(error))),
        };
        match begun {
            Ok(Some(sealed)) => {
                self.seal_failure = None;
                self.events.push(Event::SealBegun { sealed });
            }
            // Somebody else was faster with a sidecar for it: the next file will do.
            Ok(None) => {}
            Err(error) => self.tell_seal(Err(error)),
        }
    }

    /// The `seq` of the last line in our files.
    fn last_seq(&self) -> Result<Option<u64>, LastSeqError> {
        let mut entries = entries::list(&self.fs, &self.dir).map_err(LastSeqError::Unreadable)?;
        entries.retain(|(name, _)| self.made.may_be_ours(*name));
        tail::last_seq_in(&self.fs, &self.dir, &entries)
    }

    /// The key that verifies the log, if it is sealed.
    #[must_use]
    pub fn root_key(&self) -> Option<&VerifierKey> {
        self.sealer.as_ref().map(|sealer| sealer.root())
    }

    /// When it was last signed what the log is, s since 1970-01-01 UTC; `None`: not since it was opened.
    #[must_use]
    pub fn checkpoint_s(&self) -> Option<i64> {
        self.sealer.as_ref().and_then(|sealer| sealer.checkpoint_s())
    }

    /// Changes how often the chain is signed, s; 0: only at rotation and stop.
    pub fn set_checkpoint_interval_s(&mut self, interval_s: u64) {
        if let Some(sealer) = &mut self.sealer {
            sealer.set_interval_s(interval_s);
        }
    }

    /// Signs the chain if it is time, also when nothing is written. For every round.
    pub fn tick(&mut self) {
        self.seal_written(&[]);
    }

    /// Tells the sealer which complete lines are in the files.
    pub(crate) fn seal_written(&mut self, batch: &[u8]) {
        let Some(sealer) = &mut self.sealer else { return };
        for left in std::mem::take(&mut self.left) {
            let Left { path, rewritten, damaged, bytes, batch_bytes, batch_end, next } = left;
            let mut is_ours = !damaged;
            if rewritten {
                let (start, end) = (sealer.end(), bytes - batch_bytes);
                let read = self.fs.open(&path, OpenMode::Read).at("open", &path);
                let read = read.and_then(|file| {
                    if start < end {
                        sealer.appended_in_file(&file, &path, start, end)
                    } else {
                        Ok(())
                    }
                });
                if let Err(error) = read {
                    // The file after it says that this one is not what it should be.
                    is_ours = false;
                    self.events.push(Event::SealFailed { error });
                }
            }
            is_ours &= seal_lines(sealer, batch, batch_end, bytes, batch_bytes);
            let reason = if is_ours { EpochReason::Rotate } else { EpochReason::Damaged };
            sealer.rotated(&next.log_file(), reason);
        }
        let Current { file, path, bytes, line_end, .. } = &self.current;
        let over = bytes - line_end;
        let batch_bytes = self.batch_bytes.saturating_sub(over);
        let batch_end = self.batch_end.saturating_sub(over as usize);
        let mut result = Ok(true);
        if self.rewritten {
            let (start, end) = (sealer.end(), line_end - batch_bytes);
            if start < end {
                result = sealer.appended_in_file(file, path, start, end).map(|()| true);
            }
            self.rewritten = result.is_err();
        }
        if result.is_ok() {
            if !seal_lines(sealer, batch, batch_end, *line_end, batch_bytes) {
                self.damaged = true;
            }
            // What is sealed is not what is there: the next file begins soon, and says so.
            self.rotate_requested |= self.damaged;
            result = sealer.advance(&self.fs);
            if sealer.wants_writeback(self.fs.now_s()) {
                file.start_sync();
            }
        }
        match result {
            Ok(true) => self.tell_seal(Ok(())),
            Ok(false) => {}
            Err(error) => self.tell_seal(Err(error)),
        }
    }

    /// The current file was cut to `end` by somebody.
    pub(crate) fn note_cut_by_others(&mut self, end: u64) {
        if let Some(sealer) = &mut self.sealer
            && self.left.is_empty()
            && end < sealer.end()
        {
            // Now, and not by its length later: the lines that come may be as many as those that went.
            sealer.cut(end);
            self.damaged = true;
        }
    }

    fn tell_seal(&mut self, result: Result<(), FileError>) {
        match result {
            Ok(()) => {
                if self.seal_failure.take().is_some() {
                    self.events.push(Event::SealResumed);
                }
            }
            Err(error) => {
                let failure = Some((error.kind(), error.errno()));
                if self.seal_failure != failure {
                    self.seal_failure = failure;
                    self.events.push(Event::SealFailed { error });
                }
            }
        }
    }

    /// Remembers for the sealer what it has to know of the current file when it is left.
    pub(crate) fn note_left(&mut self, next: FileName) {
        if self.sealer.is_some() {
            let over = self.current.bytes - self.current.line_end;
            self.left.push(Left {
                path: self.current.path.clone(),
                rewritten: std::mem::take(&mut self.rewritten),
                damaged: std::mem::take(&mut self.damaged),
                bytes: self.current.line_end,
                batch_bytes: self.batch_bytes.saturating_sub(over),
                batch_end: self.batch_end.saturating_sub(over as usize),
                next,
            });
        }
    }
}

/// Tells the sealer of the complete lines of a file up to `end`, the last `batch_bytes` of which
/// are those before `batch_end` in the batch. `false`: the file is not what it was told of.
fn seal_lines<F: Fs>(
    sealer: &mut Sealer<F>,
    batch: &[u8],
    batch_end: usize,
    end: u64,
    batch_bytes: u64,
) -> bool {
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
