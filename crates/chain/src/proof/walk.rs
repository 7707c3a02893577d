//! The entries of one sidecar, or of an extract of it.

use super::finding;
use super::keys::Keys;
use crate::entry::{Checkpoint, CheckpointReason, Frame};
use crate::hash::Hash;
use crate::key::VerifierKey;
use crate::note::Note;
use crate::sidecar::{Entry, Meaning};
use crate::verify::{Finding, LogState};

/// What an entry adds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// The sidecar begins.
    Epoch,
    /// A frame, which is proven by the next [`Step::Signed`].
    Frame {
        /// The frame.
        frame: Frame,
        /// `seq` of its first line.
        first_seq: u64,
    },
    /// A checkpoint with a good signature, over all frames since the signed entry before.
    Signed {
        /// The checkpoint.
        checkpoint: Box<Checkpoint>,
        /// A trusted root leads to the key that has signed it.
        is_believed: bool,
    },
}

/// Checks one entry after the other. After a fault nothing more of the file is proven.
#[derive(Debug)]
pub struct SidecarWalk<'a> {
    keys: &'a Keys,
    file: String,
    may_omit: bool,
    position: Option<Position>,
    /// Signs the next checkpoint.
    signer: Option<VerifierKey>,
    is_believed: bool,
    /// Frames since the last signed entry.
    frames: u64,
    /// Reason of the last checkpoint.
    ended: Option<CheckpointReason>,
    findings: Vec<Finding>,
    is_faulty: bool,
}

#[derive(Debug)]
struct Position {
    hash: Hash,
    seq: u64,
    offset: u64,
}

impl<'a> SidecarWalk<'a> {
    /// The sidecar of a log file. `may_omit`: frames may have been left out of it.
    #[must_use]
    pub fn new(keys: &'a Keys, file: &str, may_omit: bool) -> Self {
        Self {
            keys,
            file: file.to_owned(),
            may_omit,
            position: None,
            signer: None,
            is_believed: false,
            frames: 0,
            ended: None,
            findings: Vec::new(),
            is_faulty: false,
        }
    }

    /// What was found.
    #[must_use]
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// The chain, if the last entry was the last checkpoint of the file.
    #[must_use]
    pub fn end_of_file(&self) -> Option<Hash> {
        let is_end = self.ended == Some(CheckpointReason::Rotate) && !self.is_faulty;
        self.position.as_ref().filter(|_| is_end).map(|position| position.hash)
    }

    /// The end of the last frame: offset in bytes, and `seq` of its last line.
    #[must_use]
    pub fn end_of_frames(&self) -> Option<(u64, u64)> {
        self.position.as_ref().map(|position| (position.offset, position.seq))
    }

    /// The next entry; `None`: it is not what a recorder writes.
    pub fn next(&mut self, entry: &Entry) -> Option<Step> {
        if self.is_faulty {
            return None;
        }
        let step = match (&entry.meaning, &self.position) {
            (Some(Meaning::Epoch(..)), None) => self.begin(entry),
            (Some(Meaning::Frame(frame)), Some(_)) => self.frame(frame),
            (Some(Meaning::Checkpoint(checkpoint, note)), Some(_)) => {
                self.checkpoint(checkpoint, note)
            }
            (_, None) => self.fault("the first entry of its sidecar is not an epoch"),
            _ => self.fault("its sidecar has something that is not an entry"),
        };
        if let Some(position) = &mut self.position {
            position.hash = position.hash.after(&entry.bytes);
        }
        step
    }

    fn begin(&mut self, entry: &Entry) -> Option<Step> {
        let Some(keys) = self.keys.of(&self.file).filter(|keys| keys.bytes == entry.bytes) else {
            return self.fault("its sidecar begins with another epoch than that of the file");
        };
        let epoch = &keys.epoch;
        self.position = Some(Position { hash: epoch.chain, seq: epoch.seq, offset: 0 });
        self.signer = Some(epoch.signer.clone());
        self.is_believed = keys.is_believed;
        Some(Step::Epoch)
    }

    fn frame(&mut self, frame: &Frame) -> Option<Step> {
        let position = self.position.as_mut()?;
        let (offset, seq) = (position.offset, position.seq);
        let first_seq = seq.saturating_add(1);
        let seqs = Some((first_seq, frame.last_seq));
        position.offset = frame.end;
        position.seq = frame.last_seq;
        self.frames += 1;
        match self.ended.take() {
            Some(CheckpointReason::Rotate) => {
                return self.fault("its sidecar continues behind its last checkpoint");
            }
            Some(CheckpointReason::Stop) => {
                let text = "these lines were added after the recorder had stopped";
                self.say(LogState::Modified, seqs, text);
            }
            _ => {}
        }
        if frame.start != offset {
            let text = format!("a frame begins at byte {}, not at {offset}", frame.start);
            self.say(LogState::Modified, seqs, &text);
        }
        let advance = frame.last_seq.checked_sub(seq);
        if advance.is_none_or(|advance| advance > frame.lines) {
            let text = "the numbers of the sealed records do not follow each other";
            self.say(LogState::Gap, seqs, text);
        }
        Some(Step::Frame { frame: frame.clone(), first_seq })
    }

    fn checkpoint(&mut self, checkpoint: &Checkpoint, note: &Note) -> Option<Step> {
        if self.ended == Some(CheckpointReason::Rotate) {
            return self.fault("its sidecar continues behind its last checkpoint");
        }
        if !self.signer.as_ref().is_some_and(|key| note.is_by(key)) {
            return self.fault("a checkpoint is not signed by the key that the one before names");
        }
        let position = self.position.as_mut()?;
        let fits = checkpoint.chain == position.hash
            && checkpoint.seq == position.seq
            && checkpoint.offset == position.offset;
        // Of a run that was left out, the checkpoint says where it ends.
        let is_omitted = self.may_omit
            && self.frames == 0
            && checkpoint.seq >= position.seq
            && checkpoint.offset >= position.offset;
        if checkpoint.file != self.file || !fits && !is_omitted {
            return self.fault("a checkpoint was signed for other entries than those before it");
        }
        let Checkpoint { chain, seq, offset, .. } = *checkpoint;
        *position = Position { hash: chain, seq, offset };
        self.frames = 0;
        self.ended = Some(checkpoint.reason);
        self.signer.clone_from(&checkpoint.next);
        Some(Step::Signed {
            checkpoint: Box::new(checkpoint.clone()),
            is_believed: self.is_believed,
        })
    }

    fn fault(&mut self, text: &str) -> Option<Step> {
        self.is_faulty = true;
        self.say(LogState::Modified, None, text);
        None
    }

    /// A hostile sidecar may have a fault in every frame.
    fn say(&mut self, state: LogState, seqs: Option<(u64, u64)>, text: &str) {
        const FINDINGS_MAX: usize = 100;
        if self.findings.len() < FINDINGS_MAX {
            self.findings.push(finding(state, &self.file, seqs, text));
        }
    }
}
