//! Where the secret lies between two starts.
//!
//! The file has the key of the running epoch and the note that began the epoch. The note is in
//! the key file *before* it is in the sidecar: whatever the moment of a crash, a recorder that
//! starts finds the note in both, or appends it to the sidecar and goes on.

use std::fmt::Write as _;

use zeroize::Zeroizing;

use crate::entry::Epoch;
use crate::key::{SecretKey, VerifierKey};
use crate::note::Note;

const HEAD: &str = "tachograph-signing-key-v1";

/// Bytes of the longest key file.
pub const BYTES_MAX: usize = 8192;

/// A key file that makes no sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a signing key file")]
pub struct NotAKeyFile;

/// The content of a key file.
#[derive(Debug)]
pub struct KeyFile {
    /// The key that everything hangs on.
    pub root: VerifierKey,
    /// Number of the epoch; 0: nothing was signed yet, and the secret is the root's.
    pub epoch: u64,
    /// The epoch's key.
    pub secret: SecretKey,
    /// The note that began the epoch; none in epoch 0.
    pub note: Option<String>,
}

impl KeyFile {
    /// A new root.
    ///
    /// # Errors
    /// When there is no randomness.
    pub fn generate() -> Result<KeyFile, getrandom::Error> {
        let secret = SecretKey::generate()?;
        Ok(KeyFile { root: secret.root(), epoch: 0, secret, note: None })
    }

    /// What the note says.
    #[must_use]
    pub fn begun(&self) -> Option<Epoch> {
        let note = Note::parse(self.note.as_deref()?)?;
        Epoch::parse(&note.text).ok()
    }

    /// The bytes of the file.
    #[must_use]
    pub fn to_text(&self) -> Zeroizing<String> {
        text(&self.root, self.epoch, &self.secret, self.note.as_deref())
    }

    /// Reads [`KeyFile::to_text`].
    ///
    /// # Errors
    /// [`NotAKeyFile`], also when key and note do not belong together.
    pub fn parse(text: &str) -> Result<KeyFile, NotAKeyFile> {
        let read = || {
            let rest = text.strip_prefix(HEAD)?.strip_prefix("\nroot ")?;
            let (root, rest) = rest.split_once("\nepoch ")?;
            let (epoch, rest) = rest.split_once("\nsecret ")?;
            let (secret, note) = rest.split_once('\n')?;
            let note = (!note.is_empty()).then(|| note.to_owned());
            let secret = SecretKey::from_base64(secret)?;
            Some(KeyFile { root: root.parse().ok()?, epoch: epoch.parse().ok()?, secret, note })
        };
        let file = read().ok_or(NotAKeyFile)?;
        let is_sound = match file.begun() {
            None => file.note.is_none() && file.epoch == 0 && file.secret.root() == file.root,
            Some(epoch) => {
                epoch.number == file.epoch
                    && epoch.root == file.root
                    && epoch.key == file.secret.public(file.root.origin())
            }
        };
        if is_sound { Ok(file) } else { Err(NotAKeyFile) }
    }
}

/// The bytes of a key file.
#[must_use]
pub fn text(
    root: &VerifierKey,
    epoch: u64,
    secret: &SecretKey,
    note: Option<&str>,
) -> Zeroizing<String> {
    // With room for all of it: growing would leave a copy of the secret in freed memory.
    let mut text = Zeroizing::new(String::with_capacity(BYTES_MAX));
    let secret = secret.to_base64();
    let note = note.unwrap_or("");
    // Writing to a String cannot fail.
    let _ = write!(text, "{HEAD}\nroot {root}\nepoch {epoch}\nsecret {}\n{note}", *secret);
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chain::{Chain, Position};
    use crate::entry::EpochReason;
    use crate::hash::Hash;

    #[test]
    fn a_key_file_reads_back() {
        let file = KeyFile::generate().expect("randomness");
        let again = KeyFile::parse(&file.to_text()).expect("reads back");
        assert_eq!((again.root.clone(), again.epoch, again.note), (file.root.clone(), 0, None));

        let name = "audit-20261121T015944Z-000042.jsonl".to_owned();
        let position = Position { file: name.clone(), offset: 0, seq: 0, hash: Hash::ZERO };
        let chain = Chain::new(file.root.clone(), 0, file.secret, position);
        let next = chain.next_epoch(EpochReason::First, &name, 5).expect("randomness");
        let text = text(&file.root, 1, &next.secret, Some(&next.note));
        let again = KeyFile::parse(&text).expect("reads back");
        assert_eq!((again.epoch, again.note.as_deref()), (1, Some(&*next.note)));
        assert_eq!(again.begun().expect("a note").file, name);
        // A key that is not the one of the note.
        let other = KeyFile::generate().expect("randomness").secret.to_base64();
        let mixed = text.replace(next.secret.to_base64().as_str(), &other);
        assert_eq!(KeyFile::parse(&mixed).expect_err("refused"), NotAKeyFile);
        for end in 0..text.len() {
            assert!(KeyFile::parse(&text[..text.floor_char_boundary(end)]).is_err(), "{end}");
        }
    }
}
