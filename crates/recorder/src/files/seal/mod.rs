//! Sealing: the sidecars that make changes of the log detectable (`docs/specs/chain.md`).
//!
//! [`LogFiles`](super::LogFiles) tells the sealer which complete lines are in which file; the
//! sealer hashes them and brings frames, checkpoints and new keys to the files. No thread, no
//! sleep. An error stops nothing but the sealer: what it is told meanwhile is remembered as
//! hashes (a frame goes on growing), and the next call goes on where it stopped.
//!
//! The order of the steps is what makes a crash harmless:
//!
//! 1. Log lines are in the log file before their frame is in the sidecar. A crash between leaves
//!    lines without a frame: they get one marked `recovered`.
//! 2. The note of a new epoch is in the key file, with the new key and without the old one, before
//!    it is in the sidecar. A crash between: the note is appended at the next start.
//! 3. A checkpoint is in the sidecar before it is in the file beside the key. So what that
//!    file has and the sidecar has not was taken out of the sidecar.

mod bury;
mod open;
mod scan;
#[cfg(test)]
mod tests;

pub(super) use bury::Removed;
pub(super) use open::{Begin, Log, open as begin_sealing};

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};
use tacho_chain::SIDECAR_ENDING;
use tacho_chain::chain::{Chain, NextEpoch};
use tacho_chain::entry::{CheckpointReason, EpochReason, Frame};
use tacho_chain::hash::Hash;
use tacho_chain::key::VerifierKey;
use tacho_chain::key_file;

use super::error::{At, FileError};
use super::fs::{Fs, FsFile, OpenMode};
use super::tail::{self, STEP_BYTES};

/// Files that may wait for being sealed. Beyond that the oldest are given up, and it is declared.
const WAITING_MAX: usize = 1024;

/// How a log directory is sealed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealOptions {
    /// Where the signing key lies; made if it is missing. Beside it, with `.checkpoint` behind its
    /// name, lies the newest checkpoint.
    pub key_file: PathBuf,
    /// How often the chain is signed, s; 0: only at rotation and stop.
    pub checkpoint_interval_s: u64,
}

/// What sealing has begun with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sealed {
    /// The key that verifies everything.
    pub root: VerifierKey,
    /// The root is used for the first time: the server made it, or `tacho keygen`.
    pub is_new_root: bool,
    /// A break of the chain that had to be declared.
    pub declared: Option<EpochReason>,
    /// Lines that had no frame yet, bytes.
    pub recovered_bytes: u64,
}

/// Complete lines that are in a log file and in no frame yet.
struct Unframed {
    start: u64,
    end: u64,
    last_seq: u64,
    lines: u64,
    hasher: Sha256,
    recovered: bool,
}

/// A log file that the chain has to go through.
struct Waiting {
    file: String,
    reason: EpochReason,
    unframed: VecDeque<Unframed>,
    /// End of what was told of it, bytes.
    end: u64,
}

/// The sidecar that is being written.
struct Sidecar<L> {
    file: L,
    path: PathBuf,
    /// Length as far as we made it.
    bytes: u64,
    /// A write failed, and may nevertheless have left bytes.
    unsure: bool,
}

/// See the module documentation.
pub(super) struct Sealer<F: Fs> {
    dir: PathBuf,
    options: SealOptions,
    chain: Chain,
    /// `None` until the first entry of its file.
    sidecar: Option<Sidecar<F::File>>,
    /// The newest entry, as far as it is not in the sidecar yet.
    out: Vec<u8>,
    /// The file the chain is in, then those that follow it. Never empty.
    files: VecDeque<Waiting>,
    /// The epoch that begins now, and whether its key is in the key file.
    next: Option<(NextEpoch, bool)>,
    /// The chain has a checkpoint for the end of its file.
    closed: bool,
    /// The next checkpoint that somebody asked for.
    wanted: Option<CheckpointReason>,
    /// A checkpoint that is not beside the key yet.
    unsaved: Option<String>,
    checkpoint_at_s: i64,
    /// `seq` of the last line that was told of.
    last_seq: u64,
}

fn sidecar_name(log: &str) -> String {
    format!("{}.{SIDECAR_ENDING}", log.strip_suffix(".jsonl").unwrap_or(log))
}

/// The file beside the key.
pub(super) fn checkpoint_path(key_file: &Path) -> PathBuf {
    let mut name = key_file.as_os_str().to_owned();
    name.push(".checkpoint");
    PathBuf::from(name)
}

fn no_randomness(path: &Path, error: getrandom::Error) -> FileError {
    FileError::new("make a key for", path, io::Error::other(error.to_string()))
}

impl<F: Fs> Sealer<F> {
    /// The key that verifies everything.
    pub(super) fn root(&self) -> &VerifierKey {
        self.chain.root()
    }

    pub(super) fn set_interval_s(&mut self, interval_s: u64) {
        self.options.checkpoint_interval_s = interval_s;
    }

    /// How much of the newest file was told of, bytes.
    pub(super) fn end(&self) -> u64 {
        self.files.back().map_or(0, |waiting| waiting.end)
    }

    /// Complete lines that are in the newest file from `start` on.
    pub(super) fn appended(&mut self, lines: &[u8], start: u64, recovered: bool) {
        let Some(waiting) = self.files.back_mut() else { return };
        if let Some(seq) = last_seq(lines) {
            self.last_seq = seq;
        }
        let end = start + lines.len() as u64;
        waiting.end = end;
        let goes_on = |last: &Unframed| last.end == start && last.recovered == recovered;
        if !waiting.unframed.back().is_some_and(goes_on) {
            let (hasher, last_seq) = (Sha256::new(), self.last_seq);
            let begun = Unframed { start, end, last_seq, lines: 0, hasher, recovered };
            waiting.unframed.push_back(begun);
        }
        if let Some(last) = waiting.unframed.back_mut() {
            last.hasher.update(lines);
            last.lines += newlines(lines);
            last.end = end;
            last.last_seq = self.last_seq;
        }
    }

    /// As [`Sealer::appended`], for lines that have to be read from the file.
    pub(super) fn appended_in_file(
        &mut self,
        file: &F::File,
        path: &Path,
        start: u64,
        end: u64,
    ) -> Result<(), FileError> {
        let mut buffer = vec![0; STEP_BYTES];
        let mut offset = start;
        // `seq` of the last line is read when all of it is there: a line may be longer than a step.
        let last_seq = tail::seq_before(file, end).at("read", path)?;
        while offset < end {
            let left = usize::try_from(end - offset).unwrap_or(usize::MAX);
            let step = &mut buffer[..STEP_BYTES.min(left)];
            tail::read_exact_at(file, step, offset).at("read", path)?;
            self.appended(step, offset, true);
            offset += step.len() as u64;
        }
        if let Some(seq) = last_seq {
            self.last_seq = seq;
            if let Some(last) = self.files.back_mut().and_then(|file| file.unframed.back_mut()) {
                last.last_seq = seq;
            }
        }
        Ok(())
    }

    /// The newest file ends at `end` now, which is less than what was told of it.
    pub(super) fn cut(&mut self, end: u64) {
        if let Some(waiting) = self.files.back_mut() {
            waiting.end = end;
        }
    }

    /// Another file is being written.
    pub(super) fn rotated(&mut self, file: &str, reason: EpochReason) {
        self.files.push_back(Waiting {
            file: file.to_owned(),
            reason,
            unframed: VecDeque::new(),
            end: 0,
        });
        if self.files.len() > WAITING_MAX {
            // The one that the chain is in stays; what is not in frames yet has none then.
            self.files.remove(1);
            if let Some(next) = self.files.get_mut(1) {
                next.reason = EpochReason::GivenUp;
            }
        }
    }

    /// Makes the chain longer by all that was told, and signs it if it is time.
    pub(super) fn advance(&mut self, fs: &F) -> Result<(), FileError> {
        let interval_s = i64::try_from(self.options.checkpoint_interval_s).unwrap_or(i64::MAX);
        let now_s = fs.now_s();
        // A clock that has stepped back must not put it off for ever.
        let is_early = now_s < self.checkpoint_at_s
            && now_s >= self.checkpoint_at_s.saturating_sub(interval_s);
        if interval_s > 0 && !is_early && self.wanted.is_none() {
            self.checkpoint_at_s = now_s.saturating_add(interval_s);
            self.wanted = Some(CheckpointReason::Interval);
        }
        self.drive(fs)
    }

    /// The last checkpoint.
    pub(super) fn stop(&mut self, fs: &F) -> Result<(), FileError> {
        self.wanted = Some(CheckpointReason::Stop);
        self.drive(fs)
    }

    /// One step after the other, until there is none or one fails.
    fn drive(&mut self, fs: &F) -> Result<(), FileError> {
        loop {
            self.flush(fs)?;
            // Without its copy beside the key frames go on, but no epoch begins.
            let saved = self.save_checkpoint(fs);
            if self.next.is_some() {
                saved?;
                self.enter_epoch(fs)?;
                continue;
            }
            if let Some(unframed) =
                self.files.front_mut().and_then(|file| file.unframed.pop_front())
            {
                let Unframed { start, end, last_seq, lines, hasher, recovered } = unframed;
                let digest = Hash(hasher.finalize().into());
                let frame = Frame { start, end, last_seq, lines, digest, recovered };
                self.out = self.chain.frame(&frame).into_bytes();
                continue;
            }
            if self.files.len() > 1 {
                saved?;
                self.leave_file(fs)?;
                continue;
            }
            let Some(reason) = self.wanted else { return saved };
            self.hold_sidecar(fs)?;
            self.wanted = None;
            self.checkpoint(reason, fs.now_s());
        }
    }

    fn checkpoint(&mut self, reason: CheckpointReason, now_s: i64) {
        let note = self.chain.checkpoint(reason, now_s);
        self.out = note.clone().into_bytes();
        self.unsaved = Some(note);
    }

    /// Everything of the file is in frames, and another one follows.
    fn leave_file(&mut self, fs: &F) -> Result<(), FileError> {
        if !self.closed {
            self.hold_sidecar(fs)?;
            self.checkpoint(CheckpointReason::Rotate, fs.now_s());
            self.closed = true;
            return Ok(());
        }
        let Some(next) = self.files.get(1) else { return Ok(()) };
        let (file, reason) = (next.file.clone(), next.reason);
        self.begin_epoch(reason, &file, fs.now_s())?;
        self.files.pop_front();
        self.sidecar = None;
        self.closed = false;
        Ok(())
    }

    fn begin_epoch(
        &mut self,
        reason: EpochReason,
        file: &str,
        now_s: i64,
    ) -> Result<(), FileError> {
        let next = self.chain.next_epoch(reason, file, now_s);
        let next = next.map_err(|error| no_randomness(&self.options.key_file, error))?;
        self.next = Some((next, false));
        Ok(())
    }

    /// Key file first, then sidecar: see the module documentation.
    fn enter_epoch(&mut self, fs: &F) -> Result<(), FileError> {
        let Some((next, is_saved)) = &mut self.next else { return Ok(()) };
        if !*is_saved {
            let (number, root) = (next.number(), self.chain.root());
            let text = key_file::text(root, number, &next.secret, Some(&next.note));
            let path = &self.options.key_file;
            fs.replace(path, text.as_bytes(), true).at("write", path)?;
            *is_saved = true;
        }
        if self.sidecar.is_none() {
            let path = self.dir.join(sidecar_name(next.file()));
            self.sidecar = Some(create_sidecar(fs, path)?);
        }
        if let Some((next, _)) = self.next.take() {
            self.out = next.note.clone().into_bytes();
            self.chain.enter(next);
        }
        Ok(())
    }

    /// Brings the newest entry to the sidecar.
    fn flush(&mut self, fs: &F) -> Result<(), FileError> {
        if self.out.is_empty() {
            return Ok(());
        }
        let Some(sidecar) = &mut self.sidecar else { return Ok(()) };
        if sidecar.unsure {
            restore(fs, sidecar)?;
        }
        while !self.out.is_empty() {
            match sidecar.file.write(&self.out) {
                Ok(0) => {
                    sidecar.unsure = true;
                    let error = io::Error::from(io::ErrorKind::WriteZero);
                    return Err(FileError::new("append to", &sidecar.path, error));
                }
                Ok(count) => {
                    sidecar.bytes += count as u64;
                    self.out.drain(..count);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    sidecar.unsure = true;
                    return Err(FileError::new("append to", &sidecar.path, error));
                }
            }
        }
        Ok(())
    }

    fn save_checkpoint(&mut self, fs: &F) -> Result<(), FileError> {
        if let Some(note) = &self.unsaved {
            let path = checkpoint_path(&self.options.key_file);
            fs.replace(&path, note.as_bytes(), false).at("write", &path)?;
            self.unsaved = None;
        }
        Ok(())
    }

    /// Looks whether the sidecar is still there, and writes it again from the open file if it was
    /// deleted.
    fn hold_sidecar(&mut self, fs: &F) -> Result<(), FileError> {
        match &mut self.sidecar {
            Some(sidecar) => restore(fs, sidecar),
            None => Ok(()),
        }
    }
}

/// How many there are. Runs of 255 fit into a byte each, which the compiler makes vectors of: the
/// plain count costs five instructions per byte.
fn newlines(bytes: &[u8]) -> u64 {
    let count = |run: &[u8]| run.iter().fold(0_u8, |sum, &byte| sum + u8::from(byte == b'\n'));
    bytes.chunks(255).map(|run| u64::from(count(run))).sum()
}

fn last_seq(lines: &[u8]) -> Option<u64> {
    let body = lines.strip_suffix(b"\n")?;
    let start = body.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
    tail::parse_seq(&body[start..])
}

fn create_sidecar<F: Fs>(fs: &F, path: PathBuf) -> Result<Sidecar<F::File>, FileError> {
    let file = match fs.open(&path, OpenMode::AppendNew) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            // Made by an attempt that reported an error, or died: it is empty then.
            let file = fs.open(&path, OpenMode::Append).at("open", &path)?;
            if file.stat().at("look at", &path)?.bytes > 0 {
                return Err(FileError::new("create", &path, error));
            }
            file
        }
        file => file.at("create", &path)?,
    };
    Ok(Sidecar { file, path, bytes: 0, unsure: false })
}

/// Makes the sidecar what we wrote, as far as that can be done.
fn restore<F: Fs>(fs: &F, sidecar: &mut Sidecar<F::File>) -> Result<(), FileError> {
    let Sidecar { file, path, bytes, unsure } = sidecar;
    let stat = file.stat().at("look at", path)?;
    if stat.bytes > *bytes {
        file.set_len(*bytes).at("truncate", path)?;
    }
    // What somebody has cut off is gone. Verification says so; it is not for us to hide.
    *bytes = stat.bytes.min(*bytes);
    *unsure = false;
    match fs.stat(path) {
        Ok(named) if named.id == stat.id => return Ok(()),
        Ok(_) => {
            let error = io::Error::from(io::ErrorKind::AlreadyExists);
            return Err(FileError::new("write again", path, error));
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(FileError::new("look at", path, error)),
    }
    let mut copy = fs.open(path, OpenMode::AppendNew).at("create", path)?;
    let mut buffer = vec![0; STEP_BYTES];
    let mut offset = 0;
    while offset < *bytes {
        let left = usize::try_from(*bytes - offset).unwrap_or(usize::MAX);
        let step = &mut buffer[..STEP_BYTES.min(left)];
        tail::read_exact_at(file, step, offset).at("read", path)?;
        let mut rest = &step[..];
        while !rest.is_empty() {
            match copy.write(rest) {
                Ok(0) => {
                    let error = io::Error::from(io::ErrorKind::WriteZero);
                    return Err(FileError::new("write again", path, error));
                }
                Ok(count) => rest = &rest[count..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(FileError::new("write again", path, error)),
            }
        }
        offset += step.len() as u64;
    }
    *file = copy;
    Ok(())
}
