//! The writing side: which entry comes next. No I/O: the caller writes the bytes to the files.
//!
//! A frame counts as soon as it is made, so its bytes must reach the sidecar before those of any
//! later entry. Signed entries come as a [`Step`], because each includes a new key, which must be
//! in the key file first.

use zeroize::Zeroizing;

use crate::entry::{
    Checkpoint, CheckpointReason, Epoch, EpochReason, Frame, RemovalReason, Tombstone,
};
use crate::hash::Hash;
use crate::key::{SecretKey, VerifierKey};
use crate::key_file::{self, KeyFile};
use crate::note;

/// The position of the chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    /// The log file, without its directory.
    pub file: String,
    /// How much of the file is in frames, bytes.
    pub offset: u64,
    /// `seq` of the last line in a frame.
    pub seq: u64,
    /// The chain.
    pub hash: Hash,
}

/// The chain of a log directory that is being written.
#[derive(Debug)]
pub struct Chain {
    root: VerifierKey,
    directory: Option<Vec<u8>>,
    epoch: u64,
    secret: SecretKey,
    /// None in epoch 0, in which there are no checkpoints.
    signer: Option<SecretKey>,
    position: Position,
    previous_tombstone: Hash,
}

/// A signed entry that does not count yet: its keys must reach the key file first.
#[derive(Debug)]
pub struct Step {
    /// The last checkpoint of the file before, to be appended to its sidecar.
    pub closing: Option<String>,
    /// An epoch that begins a sidecar, or a checkpoint.
    pub note: String,
    epoch: u64,
    /// The key of the new epoch; none: the epoch continues.
    secret: Option<SecretKey>,
    signer: SecretKey,
    after: Position,
}

impl Step {
    /// The log file of the note's sidecar.
    #[must_use]
    pub fn file(&self) -> &str {
        &self.after.file
    }

    /// Whether a key file belongs to this step.
    #[must_use]
    pub fn is_in(&self, key: &KeyFile) -> bool {
        key.note.as_deref() == Some(&*self.note)
    }
}

impl Chain {
    /// Continues at a position, with the keys of a key file.
    #[must_use]
    pub fn new(key: KeyFile, position: Position) -> Chain {
        let KeyFile { root, directory, epoch, secret, signer, .. } = key;
        let previous_tombstone = Hash::ZERO;
        Chain { root, directory, epoch, secret, signer, position, previous_tombstone }
    }

    /// The current position.
    #[must_use]
    pub fn position(&self) -> &Position {
        &self.position
    }

    /// The root key.
    #[must_use]
    pub fn root(&self) -> &VerifierKey {
        &self.root
    }

    /// Begins an epoch in a file: the file of the position, if none of it is in the chain yet, or
    /// another one. Reasons that do not continue the chain begin a new one.
    ///
    /// # Errors
    /// If there is no randomness.
    pub fn next_epoch(
        &self,
        reason: EpochReason,
        file: &str,
        time_s: i64,
    ) -> Result<Step, getrandom::Error> {
        let origin = self.root.origin();
        let (secret, signer) = (SecretKey::generate()?, SecretKey::generate()?);
        let Position { file: before, seq, mut hash, .. } = self.position.clone();
        let mut closing = None;
        if before != file
            && let Some(signer) = &self.signer
        {
            let last = self.checkpoint_text(CheckpointReason::Rotate, None, time_s);
            let last = note::sign(&last, origin, signer);
            hash = hash.after(last.as_bytes());
            closing = Some(last);
        }
        let epoch = Epoch {
            root: self.root.clone(),
            number: self.epoch.saturating_add(1),
            key: secret.public(origin),
            signer: signer.public(origin),
            reason,
            time_s,
            file: file.to_owned(),
            seq,
            previous: (reason.continues() && before != file).then_some(before),
            chain: if reason.continues() { hash } else { Hash::ZERO },
        };
        let note = note::sign(&epoch.to_text(), origin, &self.secret);
        let hash = epoch.chain.after(note.as_bytes());
        let after = Position { file: epoch.file, offset: 0, seq, hash };
        Ok(Step { closing, note, epoch: epoch.number, secret: Some(secret), signer, after })
    }

    /// Signs the position, and hands over to another key. `None`: no epoch has begun yet.
    ///
    /// # Errors
    /// If there is no randomness.
    pub fn checkpoint(
        &self,
        reason: CheckpointReason,
        time_s: i64,
    ) -> Result<Option<Step>, getrandom::Error> {
        let Some(signer) = &self.signer else { return Ok(None) };
        let next = SecretKey::generate()?;
        let text = self.checkpoint_text(reason, Some(&next), time_s);
        let note = note::sign(&text, self.root.origin(), signer);
        let hash = self.position.hash.after(note.as_bytes());
        let after = Position { hash, ..self.position.clone() };
        let epoch = self.epoch;
        Ok(Some(Step { closing: None, note, epoch, secret: None, signer: next, after }))
    }

    fn checkpoint_text(
        &self,
        reason: CheckpointReason,
        next: Option<&SecretKey>,
        time_s: i64,
    ) -> String {
        let Position { file, offset, seq, hash } = &self.position;
        let checkpoint = Checkpoint {
            origin: self.root.origin().to_owned(),
            seq: *seq,
            chain: *hash,
            time_s,
            file: file.clone(),
            offset: *offset,
            reason,
            next: next.map(|key| key.public(self.root.origin())),
        };
        checkpoint.to_text()
    }

    /// The key file that must be on disk before a step is entered.
    #[must_use]
    pub fn key_file(&self, step: &Step) -> Zeroizing<String> {
        let secret = step.secret.as_ref().unwrap_or(&self.secret);
        let notes = [step.closing.as_deref(), Some(&*step.note)];
        let directory = self.directory.as_deref();
        key_file::text(&self.root, directory, step.epoch, secret, Some(&step.signer), notes)
    }

    /// Whether a key file is the current one.
    #[must_use]
    pub fn is_key_of(&self, key: &KeyFile) -> bool {
        let public = |signer: &Option<SecretKey>| signer.as_ref().map(SecretKey::root);
        key.epoch == self.epoch
            && key.secret.root() == self.secret.root()
            && public(&key.signer) == public(&self.signer)
    }

    /// Enters a step that this chain has made at this position. The old keys are destroyed.
    pub fn enter(&mut self, step: Step) {
        if let Some(secret) = step.secret {
            self.secret = secret;
        }
        self.signer = Some(step.signer);
        self.epoch = step.epoch;
        self.position = step.after;
    }

    /// The line of a frame. Its bytes begin at `start`, which is the position unless another
    /// process has changed the file.
    pub fn frame(&mut self, frame: &Frame) -> String {
        let line = frame.to_line();
        self.position.offset = frame.end;
        self.position.seq = frame.last_seq;
        self.position.hash = self.position.hash.after(line.as_bytes());
        line
    }

    /// Sets which tombstone is the last in `removed.chain`, by its bytes.
    pub fn set_last_tombstone(&mut self, note: &[u8]) {
        self.previous_tombstone = Hash::of(note);
    }

    /// A tombstone. It counts once [`Chain::set_last_tombstone`] was called, when it is in the
    /// file.
    #[must_use]
    pub fn tombstone(&self, gone: &Gone, reason: RemovalReason, time_s: i64) -> String {
        let tombstone = Tombstone {
            origin: self.root.origin().to_owned(),
            file: gone.file.clone(),
            first_seq: gone.first_seq,
            last_seq: gone.last_seq,
            chain: gone.chain,
            time_s,
            reason,
            previous: self.previous_tombstone,
        };
        note::sign(&tombstone.to_text(), self.root.origin(), &self.secret)
    }
}

/// What a tombstone states about a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gone {
    /// The log file, without its directory.
    pub file: String,
    /// `seq` of its first line.
    pub first_seq: u64,
    /// `seq` of its last line.
    pub last_seq: u64,
    /// The chain at its end.
    pub chain: Hash,
}
