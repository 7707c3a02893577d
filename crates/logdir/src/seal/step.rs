//! Signatures: with each of them the keys change, and the old ones are destroyed.

use std::io;

use tacho_chain::chain::Step;
use tacho_chain::entry::{CheckpointReason, EpochReason};
use tacho_chain::key_file::{self, KeyFile};

use super::scan::read_private;
use super::sidecar::Sidecar;
use super::{Sealer, no_randomness, sidecar_name};
use crate::error::{At, FileError};
use crate::fs::{Fs, OpenMode};
use crate::sync::sync_tail;

/// An idle log is signed after 2, 4, 8 … intervals; this many at most.
const IDLE_INTERVALS_MAX: i64 = 64;

/// A pending step: its keys must be in the key file before its note is in the sidecar.
pub(super) struct Pending {
    step: Step,
    /// The keys are in the key file.
    is_saved: bool,
}

/// When a checkpoint is due.
pub(super) struct Due {
    /// Start of the interval after which the next one is due.
    signed_at_s: i64,
    /// When it was signed by this sealer.
    pub(super) last_signed_s: Option<i64>,
    /// There is unsigned content since then.
    pub(super) has_unsigned: bool,
    idle_intervals: i64,
}

impl Due {
    pub(super) fn new(now_s: i64) -> Due {
        Due { signed_at_s: now_s, last_signed_s: None, has_unsigned: false, idle_intervals: 2 }
    }

    pub(super) fn is_now(&self, now_s: i64, interval_s: u64) -> bool {
        let interval_s = i64::try_from(interval_s).unwrap_or(i64::MAX);
        let intervals = if self.has_unsigned { 1 } else { self.idle_intervals };
        let wait_s = interval_s.saturating_mul(intervals);
        // After the clock was set back, the checkpoint must not be delayed for ever.
        let has_stepped_back = now_s < self.signed_at_s;
        interval_s > 0 && (has_stepped_back || now_s.saturating_sub(self.signed_at_s) >= wait_s)
    }

    fn signed(&mut self, now_s: i64) {
        let idle_intervals =
            if self.has_unsigned { 2 } else { (self.idle_intervals * 2).min(IDLE_INTERVALS_MAX) };
        *self = Due {
            signed_at_s: now_s,
            last_signed_s: Some(now_s),
            has_unsigned: false,
            idle_intervals,
        };
    }
}

impl<F: Fs> Sealer<F> {
    /// Signs the end of the file, and the beginning of the next one.
    pub(super) fn leave_file(&mut self, fs: &F) -> Result<(), FileError> {
        let Some(next) = self.files.get(1) else { return Ok(()) };
        let (file, reason) = (next.file.clone(), next.reason);
        self.begin_epoch(fs, reason, &file)
    }

    /// Begins an epoch in a file.
    pub(super) fn begin_epoch(
        &mut self,
        fs: &F,
        reason: EpochReason,
        file: &str,
    ) -> Result<(), FileError> {
        // Includes the name of the new file: a key file must not know of more than exists.
        self.names_synced = false;
        self.sync(fs)?;
        let step = self.chain.next_epoch(reason, file, fs.now_s());
        let step = step.map_err(|error| no_randomness(&self.options.key_file, error))?;
        self.pending = Some(Pending { step, is_saved: false });
        Ok(())
    }

    /// Signs everything that is in frames.
    pub(super) fn checkpoint(&mut self, fs: &F, reason: CheckpointReason) -> Result<(), FileError> {
        if let Some(sidecar) = &mut self.sidecar {
            sidecar.hold(fs)?;
        }
        self.sync(fs)?;
        let step = self.chain.checkpoint(reason, fs.now_s());
        let step = step.map_err(|error| no_randomness(&self.options.key_file, error))?;
        self.pending = step.map(|step| Pending { step, is_saved: false });
        Ok(())
    }

    /// Waits until the content to be signed is on the device: the key file will be there, and after
    /// a power failure it must not know of more than exists.
    pub(super) fn sync(&mut self, fs: &F) -> Result<(), FileError> {
        let synced = self.sync_files(fs);
        if synced.is_err() {
            self.failed_at_s = Some(fs.now_s());
        }
        synced
    }

    fn sync_files(&mut self, fs: &F) -> Result<(), FileError> {
        let position = self.chain.position();
        let log = self.dir.join(&position.file);
        match (fs.stat(&log), self.files.front_mut()) {
            (Ok(stat), Some(waiting)) if stat.is_file => {
                let file = fs.open(&log, OpenMode::Read).at("open", &log)?;
                sync_tail(&file, &log, waiting.synced, &mut waiting.is_doubtful)?;
                waiting.synced = position.offset;
            }
            // Renamed, deleted or replaced by another process: there is nothing to wait for.
            (Ok(_), _) => {}
            (Err(error), _) if error.kind() == io::ErrorKind::NotFound => {}
            (Err(error), _) => return Err(FileError::new("look at", &log, error)),
        }
        if let Some(sidecar) = &mut self.sidecar {
            sidecar.sync()?;
        }
        if !self.names_synced {
            fs.sync_dir(&self.dir).at("sync", &self.dir)?;
            self.names_synced = true;
        }
        Ok(())
    }

    /// Key file first, then sidecars: see the module documentation.
    pub(super) fn enter_step(&mut self, fs: &F) -> Result<(), FileError> {
        self.save_keys(fs)?;
        let Some(Pending { step, .. }) = &mut self.pending else { return Ok(()) };
        if let Some(closing) = step.closing.take() {
            // Appended to the old sidecar; then this function is called again.
            self.out = closing.into_bytes();
            return Ok(());
        }
        let is_other_file = step.file() != self.chain.position().file;
        if is_other_file && let Some(sidecar) = &mut self.sidecar {
            // Includes its last checkpoint: the key file will soon drop it.
            sidecar.sync()?;
        }
        if is_other_file || self.sidecar.is_none() {
            let path = self.dir.join(sidecar_name(step.file()));
            self.sidecar = Some(Sidecar::create(fs, path)?);
            self.names_synced = false;
        }
        if let Some(Pending { step, .. }) = self.pending.take() {
            self.out = step.note.clone().into_bytes();
            self.chain.enter(step);
        }
        if is_other_file {
            self.files.pop_front();
        }
        if !is_other_file || self.wanted == Some(CheckpointReason::Interval) {
            self.wanted = None;
        }
        self.due.signed(fs.now_s());
        Ok(())
    }

    /// Replaces the old keys by the new ones. If this fails, the step is given up, so that frames
    /// continue; except if the new keys may have been written nevertheless.
    fn save_keys(&mut self, fs: &F) -> Result<(), FileError> {
        let Some(Pending { step, is_saved: is_saved @ false }) = &mut self.pending else {
            return Ok(());
        };
        let text = self.chain.key_file(step);
        let path = &self.options.key_file;
        let Err(error) = fs.replace(path, text.as_bytes(), true) else {
            *is_saved = true;
            self.failed_at_s = None;
            return Ok(());
        };
        self.failed_at_s = Some(fs.now_s());
        let is_unchanged = match read_private(fs, path, key_file::BYTES_MAX) {
            Ok(Some(text)) => KeyFile::parse(&text).is_ok_and(|key| !step.is_in(&key)),
            Ok(None) => true,
            Err(_) => false,
        };
        if is_unchanged {
            self.pending = None;
        }
        Err(FileError::new("write", path, error))
    }
}
