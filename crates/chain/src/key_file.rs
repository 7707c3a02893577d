//! Storage of the secrets between two starts.
//!
//! The file has the two current keys, and the note that began the newer of them: an epoch, or the
//! newest checkpoint. The note is in the key file *before* it is in the sidecar: whenever a crash
//! happens, a recorder that starts finds the note in both, or appends it to the sidecar and
//! continues. Otherwise another process has removed the note from the sidecar.
//!
//! The file names the log directory that its keys belong to, so that they never seal another one.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use zeroize::Zeroizing;

use crate::entry::{Checkpoint, Epoch};
use crate::hash::Hash;
use crate::key::{SecretKey, VerifierKey};
use crate::note::Note;
use crate::sidecar::{Entries, Meaning};

const HEAD: &str = "tachograph-signing-key-v2";
/// Version 1 does not name the log directory.
const HEAD_V1: &str = "tachograph-signing-key-v1";
/// Stands for a key or a directory that does not exist.
const NONE: &str = "-";

/// Bytes of the longest key file: a path has up to 4096, in base64.
pub const BYTES_MAX: usize = 16384;

/// A key file that cannot be parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a signing key file")]
pub struct NotAKeyFile;

/// The content of a key file.
#[derive(Debug)]
pub struct KeyFile {
    /// The root key.
    pub root: VerifierKey,
    /// Path of the log directory that the key belongs to; none: the key has not been used yet, or
    /// only by a recorder that wrote version 1.
    pub directory: Option<Vec<u8>>,
    /// Number of the epoch; 0: nothing was signed yet, and the secret belongs to the root.
    pub epoch: u64,
    /// The epoch's key.
    pub secret: SecretKey,
    /// Signs the next checkpoint; none in epoch 0.
    pub signer: Option<SecretKey>,
    /// The last checkpoint of the file before, when the note is an epoch that follows one.
    pub closing: Option<String>,
    /// The note that began the newest key; none in epoch 0.
    pub note: Option<String>,
}

/// The position that the note of a key file states.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Begun {
    /// The log file, without its directory.
    pub file: String,
    /// How much of the file is in frames before it, bytes.
    pub offset: u64,
    /// `seq` of the last line before it.
    pub seq: u64,
    /// The chain before it.
    pub chain: Hash,
    /// Whether it is the first entry of its sidecar.
    pub is_epoch: bool,
}

impl KeyFile {
    /// A new root.
    ///
    /// # Errors
    /// If there is no randomness.
    pub fn generate() -> Result<KeyFile, getrandom::Error> {
        Ok(KeyFile::of_root(SecretKey::generate()?))
    }

    /// The key file of a root that has signed nothing yet.
    #[must_use]
    pub fn of_root(secret: SecretKey) -> KeyFile {
        let root = secret.root();
        KeyFile { root, directory: None, epoch: 0, secret, signer: None, closing: None, note: None }
    }

    /// What the note says; `None` in epoch 0.
    #[must_use]
    pub fn begun(&self) -> Option<Begun> {
        let note = Note::parse(self.note.as_deref()?)?;
        if let Ok(epoch) = Epoch::parse(&note.text) {
            let Epoch { file, seq, chain, .. } = epoch;
            return Some(Begun { file, offset: 0, seq, chain, is_epoch: true });
        }
        let Checkpoint { file, offset, seq, chain, .. } = Checkpoint::parse(&note.text).ok()?;
        Some(Begun { file, offset, seq, chain, is_epoch: false })
    }

    /// The last checkpoint of the file before.
    #[must_use]
    pub fn closed(&self) -> Option<Checkpoint> {
        let note = Note::parse(self.closing.as_deref()?)?;
        Checkpoint::parse(&note.text).ok()
    }

    /// The bytes of the file.
    #[must_use]
    pub fn to_text(&self) -> Zeroizing<String> {
        let notes = [self.closing.as_deref(), self.note.as_deref()];
        let directory = self.directory.as_deref();
        text(&self.root, directory, self.epoch, &self.secret, self.signer.as_ref(), notes)
    }

    /// Reads [`KeyFile::to_text`].
    ///
    /// # Errors
    /// [`NotAKeyFile`], also when keys and notes do not belong together.
    pub fn parse(text: &str) -> Result<KeyFile, NotAKeyFile> {
        read(text).filter(KeyFile::is_sound).ok_or(NotAKeyFile)
    }

    fn is_sound(&self) -> bool {
        let Some(note) = &self.note else {
            return self.epoch == 0 && self.signer.is_none() && self.secret.root() == self.root;
        };
        let Some(note) = Note::parse(note) else { return false };
        let origin = self.root.origin();
        let signer = self.signer.as_ref().map(|signer| signer.public(origin));
        if let Ok(epoch) = Epoch::parse(&note.text) {
            return epoch.number == self.epoch
                && epoch.root == self.root
                && epoch.key == self.secret.public(origin)
                && Some(epoch.signer) == signer;
        }
        let checkpoint = Checkpoint::parse(&note.text);
        checkpoint.is_ok_and(|checkpoint| checkpoint.next == signer && signer.is_some())
            && self.closing.is_none()
            && self.epoch > 0
    }
}

fn read(text: &str) -> Option<KeyFile> {
    let (rest, names_directory) = match text.strip_prefix(HEAD_V1) {
        Some(rest) => (rest, false),
        None => (text.strip_prefix(HEAD)?, true),
    };
    let rest = rest.strip_prefix("\nroot ")?;
    let (root, directory, rest) = if names_directory {
        let (root, rest) = rest.split_once("\ndirectory ")?;
        let (directory, rest) = rest.split_once("\nepoch ")?;
        (root, path(directory)?, rest)
    } else {
        let (root, rest) = rest.split_once("\nepoch ")?;
        (root, None, rest)
    };
    let (epoch, rest) = rest.split_once("\nsecret ")?;
    let (secret, rest) = rest.split_once("\nsigner ")?;
    let (signer, notes) = rest.split_once('\n')?;
    let signer = match signer {
        NONE => None,
        signer => Some(SecretKey::from_base64(signer)?),
    };
    let mut file = KeyFile {
        root: root.parse().ok()?,
        directory,
        epoch: epoch.parse().ok()?,
        secret: SecretKey::from_base64(secret)?,
        signer,
        closing: None,
        note: None,
    };
    let mut entries = Entries::new(notes.as_bytes());
    while let Some(entry) = entries.next_entry().ok()? {
        let is_closing = match entry.meaning? {
            Meaning::Epoch(..) => false,
            Meaning::Checkpoint(checkpoint, _) => !checkpoint.reason.hands_over(),
            _ => return None,
        };
        let place = if is_closing { &mut file.closing } else { &mut file.note };
        let is_second = place.replace(String::from_utf8(entry.bytes).ok()?).is_some();
        if is_second || (is_closing && file.note.is_some()) {
            return None;
        }
    }
    (!entries.is_torn()).then_some(file)
}

/// A path, or the mark for none. `None`: the text is neither.
fn path(text: &str) -> Option<Option<Vec<u8>>> {
    if text == NONE {
        return Some(None);
    }
    let path = STANDARD.decode(text).ok()?;
    (!path.is_empty()).then_some(Some(path))
}

/// The bytes of a key file.
#[must_use]
pub fn text(
    root: &VerifierKey,
    directory: Option<&[u8]>,
    epoch: u64,
    secret: &SecretKey,
    signer: Option<&SecretKey>,
    notes: [Option<&str>; 2],
) -> Zeroizing<String> {
    // With capacity for all of it: growing would leave a copy of the secrets in freed memory.
    let mut text = Zeroizing::new(String::with_capacity(BYTES_MAX));
    let secret = secret.to_base64();
    let signer = signer.map(SecretKey::to_base64);
    let signer = signer.as_ref().map_or(NONE, |signer| signer.as_str());
    let directory = directory.map_or_else(|| NONE.to_owned(), |path| STANDARD.encode(path));
    // Writing to a String cannot fail.
    let _ = writeln!(text, "{HEAD}\nroot {root}\ndirectory {directory}\nepoch {epoch}");
    let _ = writeln!(text, "secret {}\nsigner {signer}", *secret);
    notes.into_iter().flatten().for_each(|note| text.push_str(note));
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chain::{Chain, Position};
    use crate::entry::{CheckpointReason, EpochReason};

    fn name(number: u32) -> String {
        format!("audit-20261121T015944Z-{number:06}.jsonl")
    }

    /// Key files of a log that begins, is signed, and continues in a second file.
    fn key_files() -> Vec<Zeroizing<String>> {
        let mut file = KeyFile::generate().expect("randomness");
        let mut texts = vec![file.to_text()];
        file.directory = Some(b"/var/lib/mysql/\xfftacho\n".to_vec());
        let position = Position { file: name(1), offset: 0, seq: 0, hash: Hash::ZERO };
        let mut chain = Chain::new(file, position);
        let mut enter = |step: fn(&Chain) -> crate::chain::Step| {
            let step = step(&chain);
            texts.push(chain.key_file(&step));
            chain.enter(step);
        };
        enter(|chain| chain.next_epoch(EpochReason::First, &name(1), 5).expect("randomness"));
        enter(|chain| {
            chain.checkpoint(CheckpointReason::Interval, 6).expect("randomness").expect("begun")
        });
        enter(|chain| chain.next_epoch(EpochReason::Rotate, &name(2), 7).expect("randomness"));
        texts
    }

    #[test]
    fn a_key_file_reads_back() {
        let texts = key_files();
        let read: Vec<KeyFile> =
            texts.iter().map(|text| KeyFile::parse(text).expect("reads back")).collect();
        for (text, file) in texts.iter().zip(&read) {
            assert_eq!(*file.to_text(), **text);
        }
        let begun: Vec<_> =
            read.iter().map(|file| file.begun().map(|b| (b.file, b.is_epoch))).collect();
        let wanted = [None, Some((name(1), true)), Some((name(1), false)), Some((name(2), true))];
        assert_eq!(begun, wanted);
        assert_eq!(read.iter().map(|file| file.epoch).collect::<Vec<_>>(), [0, 1, 1, 2]);
        let closed = read[3].closed().expect("of the first file");
        assert_eq!((closed.file, closed.reason), (name(1), CheckpointReason::Rotate));
    }

    #[test]
    fn a_key_file_of_version_1_has_no_directory() {
        for text in key_files() {
            let file = KeyFile::parse(&text).expect("reads back");
            let (root, rest) = text.split_once("directory ").expect("a directory");
            let (_, rest) = rest.split_once('\n').expect("more lines");
            let old = format!("{}{rest}", root.replace(HEAD, HEAD_V1));
            let mut read = KeyFile::parse(&old).expect("version 1");
            assert_eq!(read.directory, None);
            read.directory.clone_from(&file.directory);
            assert_eq!(*read.to_text(), *text);
            // Each version has one spelling.
            assert!(KeyFile::parse(&old.replace(HEAD_V1, HEAD)).is_err());
            assert!(KeyFile::parse(&text.replace(HEAD, HEAD_V1)).is_err());
            for bad in ["", "Lw", "/=", "--"] {
                let bad = format!("{root}directory {bad}\n{rest}");
                assert!(KeyFile::parse(&bad).is_err(), "{bad}");
            }
        }
    }

    #[test]
    fn keys_and_notes_belong_together() {
        for text in key_files() {
            let file = KeyFile::parse(&text).expect("reads back");
            let other = KeyFile::generate().expect("randomness").secret.to_base64();
            let mut secrets = vec![];
            if file.note.as_deref().is_none_or(|note| note.starts_with("tachograph-epoch")) {
                secrets.push(file.secret.to_base64());
            }
            secrets.extend(file.signer.as_ref().map(SecretKey::to_base64));
            for secret in secrets {
                let mixed = text.replace(secret.as_str(), &other);
                assert_eq!(KeyFile::parse(&mixed).expect_err("refused"), NotAKeyFile);
            }
            for end in 0..text.len() {
                let cut = &text[..text.floor_char_boundary(end)];
                assert!(KeyFile::parse(cut).is_err(), "{end}");
            }
            assert!(KeyFile::parse(&format!("{}x", *text)).is_err());
        }
    }
}
