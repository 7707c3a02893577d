//! The writing side: which entry comes next. No I/O: the caller brings the bytes to the files.
//!
//! An entry counts as soon as it is made, so its bytes must get into the sidecar before those
//! of any later one.

use crate::entry::{
    Checkpoint, CheckpointReason, Epoch, EpochReason, Frame, RemovalReason, Tombstone,
};
use crate::hash::Hash;
use crate::key::{SecretKey, VerifierKey};
use crate::note;

/// Where the chain stands.
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
    epoch: u64,
    secret: SecretKey,
    position: Position,
    previous_tombstone: Hash,
}

/// A new epoch that has been signed and not been entered yet: between the two its key must
/// reach the key file.
#[derive(Debug)]
pub struct NextEpoch {
    /// The key of the new epoch.
    pub secret: SecretKey,
    /// Its note, to be appended to the sidecar.
    pub note: String,
    epoch: Epoch,
}

impl NextEpoch {
    /// Number of the new epoch.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.epoch.number
    }

    /// The log file that it begins in.
    #[must_use]
    pub fn file(&self) -> &str {
        &self.epoch.file
    }
}

impl Chain {
    /// Goes on at a position, with the key of an epoch (0: the root itself).
    #[must_use]
    pub fn new(root: VerifierKey, epoch: u64, secret: SecretKey, position: Position) -> Chain {
        Chain { root, epoch, secret, position, previous_tombstone: Hash::ZERO }
    }

    /// Where it stands.
    #[must_use]
    pub fn position(&self) -> &Position {
        &self.position
    }

    /// The key that everything hangs on.
    #[must_use]
    pub fn root(&self) -> &VerifierKey {
        &self.root
    }

    /// Makes the key of the next epoch, and signs it.
    ///
    /// `file` is the file that it begins in: at the position for the file it is in, at the
    /// start for another one. Reasons that do not continue the chain begin a new one.
    ///
    /// # Errors
    /// When there is no randomness.
    pub fn next_epoch(
        &self,
        reason: EpochReason,
        file: &str,
        time_s: i64,
    ) -> Result<NextEpoch, getrandom::Error> {
        let secret = SecretKey::generate()?;
        let same_file = self.position.file == file;
        let goes_on = reason.continues() && !same_file;
        let epoch = Epoch {
            root: self.root.clone(),
            number: self.epoch + 1,
            key: secret.public(self.root.origin()),
            reason,
            time_s,
            file: file.to_owned(),
            offset: if same_file { self.position.offset } else { 0 },
            seq: self.position.seq,
            previous: goes_on.then(|| self.position.file.clone()),
            chain: if reason.continues() { self.position.hash } else { Hash::ZERO },
        };
        let note = note::sign(&epoch.to_text(), self.root.origin(), &self.secret);
        Ok(NextEpoch { secret, note, epoch })
    }

    /// Enters an epoch that [`Chain::next_epoch`] made. The old key is gone with this.
    pub fn enter(&mut self, next: NextEpoch) {
        let NextEpoch { secret, note, epoch } = next;
        self.secret = secret;
        self.epoch = epoch.number;
        self.position = Position {
            file: epoch.file,
            offset: epoch.offset,
            seq: epoch.seq,
            hash: epoch.chain.after(note.as_bytes()),
        };
    }

    /// The line of a frame. Its bytes begin at `start`, which is the position unless somebody
    /// else has changed the file.
    pub fn frame(&mut self, frame: &Frame) -> String {
        let line = frame.to_line();
        self.position.offset = frame.end;
        self.position.seq = frame.last_seq;
        self.position.hash = self.position.hash.after(line.as_bytes());
        line
    }

    /// A checkpoint of the position.
    pub fn checkpoint(&mut self, reason: CheckpointReason, time_s: i64) -> String {
        let Position { file, offset, seq, hash } = &self.position;
        let checkpoint = Checkpoint {
            origin: self.root.origin().to_owned(),
            seq: *seq,
            chain: *hash,
            time_s,
            file: file.clone(),
            offset: *offset,
            reason,
        };
        let note = note::sign(&checkpoint.to_text(), self.root.origin(), &self.secret);
        self.position.hash = hash.after(note.as_bytes());
        note
    }

    /// Says which tombstone is the last in `removed.chain`, by its bytes.
    pub fn set_last_tombstone(&mut self, note: &[u8]) {
        self.previous_tombstone = Hash::of(note);
    }

    /// A tombstone. It counts when [`Chain::set_last_tombstone`] is told that it is in the file.
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

/// What a tombstone tells of a file.
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
