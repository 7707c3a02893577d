//! Sealing: the sidecars that make changes of the log detectable (`docs/specs/chain.md`).
//!
//! [`LogFiles`](super::LogFiles) reports to the sealer which complete lines are in which file; the
//! sealer hashes them and writes frames, checkpoints and new keys. No thread, no sleep. An error
//! stops only the sealer: lines that are reported meanwhile are kept as hashes (a frame grows), and
//! the next call continues where it stopped.
//!
//! The order of the steps makes crashes harmless:
//!
//! 1. Log lines are in the log file before their frame is in the sidecar. A crash in between leaves
//!    lines without a frame: they get one marked `recovered`.
//! 2. Log and sidecar are on the device before they are signed.
//! 3. A signature is in the key file, with the new keys and without the old ones, before it is in
//!    the sidecar. After a crash in between, the next start appends it. So a signature in the key
//!    file that the sidecar lacks and cannot take was removed from the sidecar.
//!
//! | module | responsibility |
//! |---|---|
//! | `open` | beginning, and continuing after a stop or a crash |
//! | `key_of` | which key file belongs to a log directory |
//! | `resume` | the position where the keys of a key file continue |
//! | `scan` | the end of a sidecar |
//! | `sidecar` | the sidecar that is being written |
//! | `step` | signatures and keys |

mod bury;
mod key_of;
mod open;
mod resume;
mod scan;
mod sidecar;
mod step;
#[cfg(test)]
mod tests;

pub(crate) use bury::Removed;
pub(crate) use open::{Begin, Log, has_key, newest_sealed, open as begin_sealing};
pub(crate) use scan::sealed_seq;

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};
use tacho_chain::SIDECAR_ENDING;
use tacho_chain::chain::{Chain, Position};
use tacho_chain::entry::{CheckpointReason, EpochReason, Frame};
use tacho_chain::hash::Hash;
use tacho_chain::key::VerifierKey;

use super::error::{At, FileError};
use super::fs::Fs;
use super::lines::{self, STEP_BYTES};
use sidecar::Sidecar;
use step::{Due, Pending};

/// Limit of files that wait for their seal. Beyond it the oldest are given up, which is declared.
/// (Smaller in tests, which check each of them.)
const WAITING_MAX: usize = if cfg!(test) { 64 } else { 1024 };

/// How a log directory is sealed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealOptions {
    /// Path of the signing keys, which are created if they are missing. If they belong to another
    /// log, this log has its own beside them: [`Sealed::key_file`].
    pub key_file: PathBuf,
    /// How often the chain is signed, s; 0: only at rotation and stop.
    pub checkpoint_interval_s: u64,
    /// Whether the chain may be broken, which is declared, if this key cannot continue it.
    /// Otherwise that is an error.
    pub may_break: bool,
}

/// The start of sealing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sealed {
    /// The key that verifies everything.
    pub root: VerifierKey,
    /// Path of the signing keys.
    pub key_file: PathBuf,
    /// The root is used for the first time: created by the server or by `tacho keygen`.
    pub is_new_root: bool,
    /// A break of the chain that had to be declared.
    pub declared: Option<EpochReason>,
    /// Bytes of lines that had no frame.
    pub recovered_bytes: u64,
}

/// Complete lines that are in a log file but not in a frame yet.
struct Unframed {
    start: u64,
    end: u64,
    last_seq: u64,
    lines: u64,
    hasher: Sha256,
    recovered: bool,
}

/// A log file that the chain must cover.
struct Waiting {
    file: String,
    reason: EpochReason,
    unframed: VecDeque<Unframed>,
    /// End of the lines that were reported, bytes.
    end: u64,
    /// How much of it is surely on the device, bytes.
    synced: u64,
    /// The rest may have parts that fdatasync(2) would consider clean.
    is_doubtful: bool,
}

impl Waiting {
    fn new(file: String, reason: EpochReason, end: u64) -> Waiting {
        let unframed = VecDeque::new();
        Waiting { file, reason, unframed, end, synced: 0, is_doubtful: false }
    }
}

/// Seals a log, see the module documentation.
pub(crate) struct Sealer<F: Fs> {
    dir: PathBuf,
    options: SealOptions,
    chain: Chain,
    /// `None` until the first entry of its file.
    sidecar: Option<Sidecar<F>>,
    /// The part of the newest entry that is not in the sidecar yet.
    out: Vec<u8>,
    /// The file that the chain is in, then later files. Never empty.
    files: VecDeque<Waiting>,
    /// A signed step that is not in the chain yet.
    pending: Option<Pending>,
    /// When signing last failed.
    failed_at_s: Option<i64>,
    /// The names of log and sidecar are on the device.
    names_synced: bool,
    /// A requested checkpoint.
    wanted: Option<CheckpointReason>,
    due: Due,
    writeback_at_s: i64,
    /// `seq` of the last line that was reported.
    last_seq: u64,
}

fn sidecar_name(log: &str) -> String {
    format!("{}.{SIDECAR_ENDING}", log.strip_suffix(".jsonl").unwrap_or(log))
}

fn no_randomness(path: &Path, error: getrandom::Error) -> FileError {
    FileError::new("make a key for", path, io::Error::other(error.to_string()))
}

impl<F: Fs> Sealer<F> {
    /// Continues the chain in its present file.
    fn new(
        dir: &Path,
        options: &SealOptions,
        chain: Chain,
        sidecar: Option<Sidecar<F>>,
        out: Vec<u8>,
        now_s: i64,
    ) -> Sealer<F> {
        let Position { file, offset, seq, .. } = chain.position().clone();
        // Not used for a file that the chain is already in.
        let reason = EpochReason::Rotate;
        let waiting = Waiting::new(file, reason, offset);
        Sealer {
            dir: dir.to_owned(),
            options: options.clone(),
            chain,
            sidecar,
            out,
            files: VecDeque::from([waiting]),
            pending: None,
            failed_at_s: None,
            names_synced: false,
            wanted: None,
            due: Due::new(now_s),
            writeback_at_s: now_s,
            last_seq: seq,
        }
    }

    /// The key that verifies everything.
    pub(super) fn root(&self) -> &VerifierKey {
        self.chain.root()
    }

    /// When this sealer last signed.
    pub(super) fn checkpoint_s(&self) -> Option<i64> {
        self.due.last_signed_s
    }

    pub(super) fn set_interval_s(&mut self, interval_s: u64) {
        self.options.checkpoint_interval_s = interval_s;
    }

    /// How much of the newest file was reported, bytes.
    pub(super) fn end(&self) -> u64 {
        self.files.back().map_or(0, |waiting| waiting.end)
    }

    /// Adds complete lines that are in the newest file from `start` on.
    pub(super) fn appended(&mut self, lines: &[u8], start: u64, recovered: bool) {
        let Some(waiting) = self.files.back_mut() else { return };
        if let Some(seq) = last_seq(lines) {
            self.last_seq = seq;
        }
        let end = start + lines.len() as u64;
        waiting.end = end;
        let continues = |last: &Unframed| last.end == start && last.recovered == recovered;
        if !waiting.unframed.back().is_some_and(continues) {
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

    /// As [`Sealer::appended`], for lines that must be read from the file.
    pub(super) fn appended_in_file(
        &mut self,
        file: &F::File,
        path: &Path,
        start: u64,
        end: u64,
    ) -> Result<(), FileError> {
        let mut buffer = vec![0; STEP_BYTES];
        let mut offset = start;
        // The last `seq` is read once the range is known: a line may be longer than a step.
        let last_seq = lines::seq_before(file, end).at("read", path)?;
        while offset < end {
            let left = usize::try_from(end - offset).unwrap_or(usize::MAX);
            let step = &mut buffer[..STEP_BYTES.min(left)];
            lines::read_exact_at(file, step, offset).at("read", path)?;
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

    /// The newest file now ends at `end`, which is less than what was reported.
    pub(super) fn cut(&mut self, end: u64) {
        if let Some(waiting) = self.files.back_mut() {
            waiting.end = end;
        }
    }

    /// The newest file was replaced by a copy.
    pub(super) fn copied(&mut self) {
        if let Some(waiting) = self.files.back_mut() {
            waiting.synced = 0;
        }
    }

    /// A sync of a log file failed, or may have failed before this process began.
    pub(super) fn doubt_logs(&mut self) {
        self.files.iter_mut().for_each(|waiting| waiting.is_doubtful = true);
    }

    /// Another file is being written.
    pub(super) fn rotated(&mut self, file: &str, reason: EpochReason) {
        self.files.push_back(Waiting::new(file.to_owned(), reason, 0));
        if self.files.len() > WAITING_MAX {
            // The file that the chain is in stays; lines that are not in a frame yet remain without
            // one.
            self.files.remove(1);
            if let Some(next) = self.files.get_mut(1) {
                next.reason = EpochReason::GivenUp;
            }
        }
    }

    /// Extends the chain by all reported lines, and signs it if that is due. `false`: signing
    /// failed a moment ago, and is retried later.
    pub(super) fn advance(&mut self, fs: &F) -> Result<bool, FileError> {
        let has_more = self.files.iter().any(|file| !file.unframed.is_empty());
        self.due.has_unsigned |= has_more;
        let interval_s = self.options.checkpoint_interval_s;
        if self.due.is_now(fs.now_s(), interval_s) && self.wanted.is_none() {
            self.wanted = Some(CheckpointReason::Interval);
        }
        self.drive(fs)
    }

    /// Whether to start writing the log file to the device: at most once a second, so that a
    /// checkpoint need not wait for much.
    pub(super) fn wants_writeback(&mut self, now_s: i64) -> bool {
        let wants = self.due.has_unsigned && self.writeback_at_s != now_s;
        if wants {
            self.writeback_at_s = now_s;
        }
        wants
    }

    /// The last checkpoint.
    pub(super) fn stop(&mut self, fs: &F) -> Result<(), FileError> {
        self.wanted = Some(CheckpointReason::Stop);
        self.failed_at_s = None;
        self.drive(fs).map(|_| ())
    }

    /// Runs steps until there are none left or one fails. `false`: one failed a moment ago.
    fn drive(&mut self, fs: &F) -> Result<bool, FileError> {
        loop {
            if let Some(sidecar) = &mut self.sidecar {
                sidecar.append(fs, &mut self.out)?;
            }
            if self.pending.is_some() {
                self.enter_step(fs)?;
                continue;
            }
            if let Some(unframed) =
                self.files.front_mut().and_then(|file| file.unframed.pop_front())
            {
                let Unframed { start, end, last_seq, lines, hasher, recovered } = unframed;
                let digest = Hash(hasher.finalize().into());
                let frame = Frame { start, end, last_seq, lines, digest, recovered };
                self.out = self.chain.frame(&frame).into_bytes();
                self.due.has_unsigned = true;
                continue;
            }
            let is_left = self.files.len() > 1;
            if !is_left && self.wanted.is_none() {
                return Ok(true);
            }
            if self.failed_at_s == Some(fs.now_s()) {
                // Each attempt waits for the device: not in every round.
                return Ok(false);
            }
            match self.wanted {
                Some(reason) if !is_left => self.checkpoint(fs, reason)?,
                _ => self.leave_file(fs)?,
            }
        }
    }
}

/// Number of newlines. Counts in runs of 255 fit into a byte, which the compiler can vectorise: a
/// plain count costs five instructions per byte.
fn newlines(bytes: &[u8]) -> u64 {
    let count = |run: &[u8]| run.iter().fold(0_u8, |sum, &byte| sum + u8::from(byte == b'\n'));
    bytes.chunks(255).map(|run| u64::from(count(run))).sum()
}

fn last_seq(lines: &[u8]) -> Option<u64> {
    let body = lines.strip_suffix(b"\n")?;
    let start = body.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
    lines::parse_seq(&body[start..])
}
