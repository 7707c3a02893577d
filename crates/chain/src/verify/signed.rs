//! Signed entries: epochs and checkpoints, and by which key each must be signed.

use super::report::LogState;
use super::walk::{Before, Open, Walk};
use crate::entry::{Checkpoint, CheckpointReason, Epoch, EpochReason};
use crate::note::Note;

impl Walk<'_> {
    /// Whether the key of a trusted epoch has signed a note.
    pub fn is_by_known_key(&self, note: &Note) -> bool {
        self.known.signer(note).is_some()
    }

    /// Number of trusted keys that may have signed a note, by its key id.
    pub fn known_keys(&self, note: &Note) -> usize {
        self.known.count(note)
    }

    /// The first entry of a file. `is_closed`: the file before ends with its last checkpoint.
    pub(super) fn epoch(
        &mut self,
        sidecar: &str,
        line: Option<u64>,
        epoch: &Epoch,
        note: &Note,
        is_closed: bool,
    ) {
        let root_believed = self.options.keys.contains(&epoch.root);
        let mut is_believed = root_believed;
        if !root_believed && !self.wrong_key_told {
            self.wrong_key_told = true;
            let text = format!("sealed under another root key: {}", epoch.root);
            self.say(LogState::WrongKey, sidecar, line, text);
        }
        let mut number = self.epoch.saturating_add(1);
        // Without the files before, their last key is unknown.
        let mut signer = self.key.clone();
        let mut is_gap = false;
        if epoch.reason.is_by_root() {
            signer = Some(epoch.root.clone());
            number = 1;
        } else if !epoch.reason.continues() {
            // The missing files may have had more epochs.
            if !self.is_by_known_key(note) {
                is_gap = true;
                self.say(LogState::Gap, sidecar, line, "the key that has signed this is missing");
            } else if epoch.number <= self.epoch {
                self.say(LogState::Modified, sidecar, line, "an old key begins a new epoch");
            }
            number = epoch.number;
            signer = self.known.signer(note);
        } else {
            is_gap = self.continues(sidecar, line, epoch, is_closed);
            is_believed &= self.is_believed;
        }
        if !is_gap {
            if !signer.is_some_and(|key| note.is_by(&key)) {
                is_believed = false;
                let text = "the new key is not signed by the key before";
                self.say(LogState::Modified, sidecar, line, text);
            } else if epoch.number != number {
                let text =
                    format!("epoch {} follows epoch {}", epoch.number, number.saturating_sub(1));
                self.say(LogState::Modified, sidecar, line, text);
            }
        }
        is_believed &= !is_gap;
        self.declared(sidecar, line, epoch);
        if is_believed {
            self.known.add(&epoch.key);
        }
        self.is_believed = is_believed;
        self.is_signer_believed = is_believed;
        self.key = Some(epoch.key.clone());
        self.signer = Some(epoch.signer.clone());
        self.epoch = epoch.number;
        self.before =
            Some(Before { file: epoch.file.clone(), hash: epoch.chain, seq: epoch.seq, offset: 0 });
    }

    /// Whether an epoch continues the entry before it. Returns whether files are missing.
    fn continues(
        &mut self,
        sidecar: &str,
        line: Option<u64>,
        epoch: &Epoch,
        is_closed: bool,
    ) -> bool {
        let unsealed = epoch.previous.clone().filter(|file| self.unsealed.as_ref() == Some(file));
        let no_sidecar = "its sidecar is missing: the file after it continues it";
        let Some(before) = &self.before else {
            if let Some(file) = unsealed {
                self.say_of(LogState::Gap, &file, (1, epoch.seq), no_sidecar);
                return true;
            }
            let text = match &epoch.previous {
                Some(file) => format!("the files before it are missing, up to {file}"),
                None => "the files before it are missing".to_owned(),
            };
            self.say_of(LogState::Gap, sidecar, (1, epoch.seq), text);
            return true;
        };
        if epoch.previous.as_ref() != Some(&before.file) {
            let seqs = (before.seq.saturating_add(1), epoch.seq);
            if let Some(file) = unsealed {
                self.say_of(LogState::Gap, &file, seqs, no_sidecar);
                return true;
            }
            let text = match &epoch.previous {
                Some(file) => format!("it continues {file}, which is missing"),
                None => "it does not continue any file of this directory".to_owned(),
            };
            self.say_of(LogState::Gap, sidecar, seqs, text);
            return true;
        }
        if epoch.chain != before.hash || epoch.seq != before.seq {
            let text = "the chain does not continue from the entry before it";
            self.say(LogState::Modified, sidecar, line, text);
        } else if !is_closed {
            // The key that signs epochs lives as long as its file: it alone must not be able to
            // state how that file ended.
            let file = before.file.clone();
            let text = "the file does not end with its last checkpoint, and another one follows";
            self.say(LogState::Modified, &file, None, text);
        }
        false
    }

    /// Breaks that the recorder itself declares.
    fn declared(&mut self, sidecar: &str, line: Option<u64>, epoch: &Epoch) {
        let text = match epoch.reason {
            EpochReason::First if self.before.is_some() => "another log begins here",
            EpochReason::First | EpochReason::Rotate => return,
            EpochReason::NoKey => "the recorder was started without its signing key",
            EpochReason::RolledBack => {
                "the recorder did not find what it knew to be sealed: the directory, or its key file, \
                 was rolled back"
            }
            EpochReason::Damaged => "another process had changed the file before this one",
            EpochReason::GivenUp => "too many files could not be sealed: some were given up",
        };
        self.say(LogState::BrokenChain, sidecar, line, text);
    }

    pub(super) fn checkpoint(
        &mut self,
        open: &mut Open<'_>,
        line: Option<u64>,
        checkpoint: &Checkpoint,
        note: &Note,
        bytes: &[u8],
    ) {
        let Some(before) = &self.before else { return };
        let fits = checkpoint.chain == before.hash
            && checkpoint.seq == before.seq
            && checkpoint.offset == before.offset
            && checkpoint.file == open.log;
        let is_signed = self.signer.as_ref().is_some_and(|key| note.is_by(key));
        let note = String::from_utf8_lossy(bytes).into_owned();
        if self.options.expect.as_deref() == Some(&note) {
            self.expected_found |= fits && is_signed;
        }
        if !is_signed {
            let text = "the checkpoint is not signed by the key that the checkpoint before names";
            self.say(LogState::Modified, &open.sidecar, line, text);
        } else if !fits {
            let text = "the checkpoint was signed for other entries than those before it";
            self.say(LogState::Modified, &open.sidecar, line, text);
        } else {
            self.report.unsigned_lines = 0;
            self.ended = Some(checkpoint.reason);
            if self.is_signer_believed {
                self.report.checkpoint = Some((checkpoint.clone(), note));
            }
        }
        self.is_signer_believed &= is_signed;
        open.signed = Some(checkpoint.reason);
        self.signer.clone_from(&checkpoint.next);
    }

    /// Whether only a recorder that starts may write after the part of the file that was read.
    pub(super) fn is_behind_stop(open: &Open<'_>) -> bool {
        open.signed == Some(CheckpointReason::Stop)
    }
}
