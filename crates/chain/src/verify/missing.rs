//! Log files that are not here, while their sidecars are; and a walk that continues later.

use std::mem::take;

use super::Directory;
use super::Options;
use super::removed::{Gone, Removed};
use super::report::{LogState, Report};
use super::walk::{Before, Walk};
use crate::entry::CheckpointReason;
use crate::hash::Hash;
use crate::key::VerifierKey;
use crate::known::KnownKeys;

/// A log file that is not here.
#[derive(Clone)]
pub struct Missing {
    stem: String,
    seqs: (u64, u64),
    /// The chain at the end of its sidecar.
    hash: Option<Hash>,
}

/// What a [`Walk`] knows, without the directory. By default, nothing was read yet.
#[derive(Clone, Default)]
pub struct Memory {
    pub(super) report: Report,
    key: Option<VerifierKey>,
    epoch: u64,
    is_believed: bool,
    signer: Option<VerifierKey>,
    is_signer_believed: bool,
    known: KnownKeys,
    pub(super) before: Option<Before>,
    unsealed: Option<String>,
    ended: Option<CheckpointReason>,
    expected_found: bool,
    wrong_key_told: bool,
    missing: Vec<Missing>,
}

impl<'a> Walk<'a> {
    /// Continues.
    pub fn resume(
        directory: &'a dyn Directory,
        options: &'a Options,
        progress: &'a mut dyn FnMut(u64),
        memory: Memory,
    ) -> Walk<'a> {
        Walk {
            report: memory.report,
            key: memory.key,
            epoch: memory.epoch,
            is_believed: memory.is_believed,
            signer: memory.signer,
            is_signer_believed: memory.is_signer_believed,
            known: memory.known,
            before: memory.before,
            unsealed: memory.unsealed,
            ended: memory.ended,
            expected_found: memory.expected_found,
            wrong_key_told: memory.wrong_key_told,
            missing: Some(memory.missing),
            ..Walk::new(directory, options, progress)
        }
    }

    /// Stops, to continue later. Encrypted files and the order of removals are not kept: the first
    /// do not occur in a directory that grows, the other is checked at the end.
    pub fn suspend(self) -> Memory {
        Memory {
            report: self.report,
            key: self.key,
            epoch: self.epoch,
            is_believed: self.is_believed,
            signer: self.signer,
            is_signer_believed: self.is_signer_believed,
            known: self.known,
            before: self.before,
            unsealed: self.unsealed,
            ended: self.ended,
            expected_found: self.expected_found,
            wrong_key_told: self.wrong_key_told,
            missing: self.missing.unwrap_or_default(),
        }
    }

    /// Remembers that a log file is not here.
    pub fn note_missing(&mut self, stem: &str, first_seq: u64) {
        let seqs = (first_seq, self.last_seq());
        let hash = self.before.as_ref().map(|before| before.hash);
        if let Some(missing) = &mut self.missing {
            missing.push(Missing { stem: stem.to_owned(), seqs, hash });
        }
    }

    /// Reports the log files that are not here.
    pub fn report_missing(&mut self, removed: &Removed) {
        for missing in take(&mut self.missing).unwrap_or_default() {
            match removed.get(&missing.stem) {
                Some(gone) => self.removed_but_sidecar(gone, missing.hash),
                None => self.missing_but_sidecar(&format!("{}.jsonl", missing.stem), missing.seqs),
            }
        }
    }

    /// A file whose sidecar is still here beside its tombstone. `hash`: the chain at its end.
    pub(super) fn removed_but_sidecar(&mut self, gone: &Gone, hash: Option<Hash>) {
        if hash.is_some_and(|hash| hash != gone.chain) {
            let text = format!("the tombstone of {} belongs to another file", gone.file);
            self.say(LogState::Modified, gone.list(), Some(gone.line()), text);
        }
        self.report.add_removed(gone);
    }

    /// A file whose sidecar is here without a tombstone.
    pub(super) fn missing_but_sidecar(&mut self, log: &str, seqs: (u64, u64)) {
        self.say_of(LogState::Gap, log, seqs, "the file is missing, its sidecar is here");
    }

    /// Reports a log file without a sidecar.
    pub(super) fn unsealed_lines(&mut self, log: &str, lines: u64) {
        self.without_sidecar(log);
        self.say(LogState::NotSealed, log, None, format!("no sidecar; {lines} lines"));
    }

    /// After a log file without a sidecar.
    pub(super) fn without_sidecar(&mut self, log: &str) {
        // Whatever was announced: this file follows, and announces nothing.
        self.ended = None;
        let stem = log.split('.').next().unwrap_or_default();
        self.unsealed = Some(format!("{stem}.jsonl"));
    }
}
