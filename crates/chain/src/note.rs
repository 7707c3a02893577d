//! Signed notes (<https://c2sp.org/signed-note>), with exactly one Ed25519 signature.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::key::{SecretKey, VerifierKey};

/// Between the text and the signature.
const BLANK: &str = "\n\n";
/// Begins a signature line: em dash, space.
pub(crate) const DASH: &str = "\u{2014} ";

/// Signs a text (which must end with a newline and have no blank line).
#[must_use]
pub fn sign(text: &str, origin: &str, key: &SecretKey) -> String {
    debug_assert!(text.ends_with('\n') && !text.contains(BLANK));
    let mut signature = [0; 68];
    signature[..4].copy_from_slice(&key.public(origin).id());
    signature[4..].copy_from_slice(&key.sign(text.as_bytes()));
    format!("{text}\n{DASH}{origin} {}\n", STANDARD.encode(signature))
}

/// A note whose signature is not checked yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The text, with its last newline.
    pub text: String,
    /// Name of the key.
    pub name: String,
    /// Which of the keys of that name.
    pub key_id: [u8; 4],
    /// Over the text.
    pub signature: [u8; 64],
}

impl Note {
    /// Parses a note. `None`: it is not a note, or its spelling differs from that of [`sign`].
    #[must_use]
    pub fn parse(note: &str) -> Option<Note> {
        let (text, line) = note.split_once(BLANK)?;
        let line = line.strip_prefix(DASH)?.strip_suffix('\n')?;
        let (name, signature) = line.split_once(' ')?;
        if text.is_empty() || name.is_empty() || name.contains('+') {
            return None;
        }
        if note.bytes().any(|byte| byte < b' ' && byte != b'\n') {
            return None;
        }
        // Rejects non-zero unused bits, and with them any second spelling.
        let bytes: [u8; 68] = STANDARD.decode(signature).ok()?.try_into().ok()?;
        let (key_id, signature) = bytes.split_first_chunk::<4>()?;
        let signature = *signature.first_chunk::<64>()?;
        Some(Note { text: format!("{text}\n"), name: name.to_owned(), key_id: *key_id, signature })
    }

    /// Whether this key has signed it.
    #[must_use]
    pub fn is_by(&self, key: &VerifierKey) -> bool {
        self.name == key.origin()
            && self.key_id == key.id()
            && key.verifies(self.text.as_bytes(), &self.signature)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_change_of_a_note_is_noticed() {
        let key = SecretKey::from_bytes(&[7; 32]);
        let root = key.root();
        let note = sign("one\ntwo\n", root.origin(), &key);
        assert!(Note::parse(&note).expect("a note").is_by(&root));
        for at in 0..note.len() {
            for bit in 0..8 {
                let mut other = note.clone().into_bytes();
                other[at] ^= 1 << bit;
                let Ok(other) = String::from_utf8(other) else { continue };
                let parsed = Note::parse(&other);
                assert!(!parsed.is_some_and(|note| note.is_by(&root)), "byte {at}: {other}");
            }
        }
        assert_eq!(Note::parse(&format!("{note}\n")), None);
        assert_eq!(Note::parse(&note[..note.len() - 1]), None);
    }

    /// The example of c2sp.org/signed-note: made by another implementation.
    #[test]
    fn the_example_of_the_specification_is_a_note() {
        // Its text has a blank line, which our notes never have: only the last part is used here.
        let note = "ed \u{e8} subito sera.\n\n\u{2014} quasimodo.example/salvatore NnugSzTjtVAewIS+\
                    Z/iJhUPeFDkO/5QQ2i5ddnGITLlC+EhfLW9oJKONrMouFSQU0xMcXxj99ihAQwaqP3ZekRwNtIc=\n";
        let parsed = Note::parse(note).expect("a note");
        assert_eq!(parsed.name, "quasimodo.example/salvatore");
        assert_eq!(parsed.key_id, [0x36, 0x7b, 0xa0, 0x4b]);
    }
}
