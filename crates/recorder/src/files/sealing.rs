//! What the sealer is told: which complete lines are in which file.

use tacho_chain::entry::EpochReason;
use tacho_chain::key::VerifierKey;

use super::error::{FileError, FileErrorKind};
use super::fs::Fs;
use super::log::{Current, Event, LogFiles};
use super::name::FileName;
use super::seal::{Begin, Log, SealOptions, Sealed, Sealer, begin_sealing};

/// A file that another one has followed.
pub(super) struct Left {
    /// Its length.
    pub(super) bytes: u64,
    /// How many bytes before that belong to the batch.
    pub(super) batch_bytes: u64,
    /// Where in the batch they end.
    pub(super) batch_end: usize,
    /// The name of the file that follows.
    pub(super) next: FileName,
}

impl<F: Fs> LogFiles<F> {
    /// Begins to seal the log (`docs/specs/chain.md`), after [`open`](Self::open) and before the first
    /// batch. `last_seq` is what `open` found. Begins a new file where the seal cannot go on in
    /// the current one.
    ///
    /// # Errors
    /// When key or sidecar cannot be read or written, or the key file makes no sense. The log is
    /// not sealed then.
    pub fn seal(&mut self, options: &SealOptions, last_seq: u64) -> Result<Sealed, FileError> {
        let mut may_rotate = true;
        loop {
            let name = self.current.name.log_file();
            let log = Log { file: &self.current.file, name: &name, bytes: self.current.line_end };
            match begin_sealing(&self.fs, &self.dir, options, &log, last_seq)? {
                Begin::Ready(ready) => {
                    let (sealer, sealed) = *ready;
                    self.sealer = Some(Box::new(sealer));
                    self.left.clear();
                    return Ok(sealed);
                }
                Begin::NeedsNewFile if may_rotate => self.rotate()?,
                Begin::NeedsNewFile => {
                    let kind = FileErrorKind::FileGone;
                    return Err(FileError::of_kind(kind, "seal", &self.current.path));
                }
            }
            may_rotate = false;
        }
    }

    /// The key that verifies the log, if it is sealed.
    #[must_use]
    pub fn root_key(&self) -> Option<&VerifierKey> {
        self.sealer.as_ref().map(|sealer| sealer.root())
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
    pub(super) fn seal_written(&mut self, batch: &[u8]) {
        let Some(sealer) = &mut self.sealer else { return };
        let mut result = Ok(());
        for left in std::mem::take(&mut self.left) {
            let Left { bytes, batch_bytes, batch_end, next } = left;
            let is_ours = seal_lines(sealer, batch, batch_end, bytes, batch_bytes);
            let is_damaged = std::mem::take(&mut self.damaged) || !is_ours;
            let reason = if is_damaged { EpochReason::Damaged } else { EpochReason::Rotate };
            sealer.rotated(&next.log_file(), reason);
        }
        let Current { file, path, bytes, line_end, .. } = &self.current;
        let over = bytes - line_end;
        let batch_bytes = self.batch_bytes.saturating_sub(over);
        let batch_end = self.batch_end.saturating_sub(over as usize);
        if self.rewritten {
            let (start, end) = (sealer.end(), line_end - batch_bytes);
            if start < end {
                result = sealer.appended_in_file(file, path, start, end);
            }
            self.rewritten = result.is_err();
        }
        if result.is_ok() {
            if !seal_lines(sealer, batch, batch_end, *line_end, batch_bytes) {
                // What is sealed is not what is there: the next file begins soon, and says so.
                self.damaged = true;
                self.rotate_requested = true;
            }
            result = sealer.advance(&self.fs);
        }
        self.tell_seal(result);
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
    pub(super) fn note_left(&mut self, next: FileName) {
        if self.sealer.is_some() {
            let over = self.current.bytes - self.current.line_end;
            self.left.push(Left {
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
