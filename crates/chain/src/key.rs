//! Keys: Ed25519, in the text forms of C2SP signed notes.
//!
//! The *origin* of a log is `tachograph/` and the first 16 hexadecimal digits of the SHA-256 hash of
//! its root public key. It is the name of all its keys; the key id tells them apart.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ed25519_dalek::{Signature, Signer as _, SigningKey, VerifyingKey};
use zeroize::Zeroizing;

use crate::hash::{Hash, hex_digit};

/// Signature type of Ed25519 (C2SP signed-note, "Signature types").
const ED25519: u8 = 1;
/// Begins every origin.
pub const ORIGIN_PREFIX: &str = "tachograph/";

/// Whether a text has the form of an origin.
#[must_use]
pub fn is_origin(text: &str) -> bool {
    text.strip_prefix(ORIGIN_PREFIX)
        .is_some_and(|id| id.len() == 16 && id.bytes().all(|b| hex_digit(b).is_some()))
}

/// A text that is not a verifier key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a verifier key: expected <name>+<key id>+<key>, as `tacho keygen` prints it")]
pub struct NotAKey;

/// A public key and its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifierKey {
    origin: String,
    key: VerifyingKey,
}

impl VerifierKey {
    fn new(origin: String, key: VerifyingKey) -> VerifierKey {
        VerifierKey { origin, key }
    }

    /// Name of the log.
    #[must_use]
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// Whether the name follows from this key: then it can be a root.
    #[must_use]
    pub fn is_root(&self) -> bool {
        self.origin == origin_of(&self.key)
    }

    /// First four bytes of SHA-256 over name, newline, signature type and key.
    #[must_use]
    pub fn id(&self) -> [u8; 4] {
        let mut input = self.origin.clone().into_bytes();
        input.extend([b'\n', ED25519]);
        input.extend(self.key.as_bytes());
        let [a, b, c, d, ..] = Hash::of(&input).0;
        [a, b, c, d]
    }

    /// Whether `signature` is this key's over `text`. Strict (RFC 8032 with the checks of
    /// <https://hdevalence.ca/blog/2020-10-04-its-25519am>): one text has one signature.
    #[must_use]
    pub fn verifies(&self, text: &[u8], signature: &[u8; 64]) -> bool {
        self.key.verify_strict(text, &Signature::from_bytes(signature)).is_ok()
    }
}

fn origin_of(key: &VerifyingKey) -> String {
    let hash = Hash::of(key.as_bytes()).to_string();
    format!("{ORIGIN_PREFIX}{}", &hash[..16])
}

impl fmt::Display for VerifierKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d] = self.id();
        let mut key = [ED25519; 33];
        key[1..].copy_from_slice(self.key.as_bytes());
        write!(f, "{}+{a:02x}{b:02x}{c:02x}{d:02x}+{}", self.origin, STANDARD.encode(key))
    }
}

impl FromStr for VerifierKey {
    type Err = NotAKey;

    fn from_str(text: &str) -> Result<VerifierKey, NotAKey> {
        let mut parts = text.splitn(3, '+');
        let (Some(origin), Some(_), Some(key)) = (parts.next(), parts.next(), parts.next()) else {
            return Err(NotAKey);
        };
        let bytes: [u8; 33] =
            STANDARD.decode(key).ok().and_then(|key| key.try_into().ok()).ok_or(NotAKey)?;
        let [ED25519, key @ ..] = bytes else { return Err(NotAKey) };
        let key = VerifyingKey::from_bytes(&key).map_err(|_| NotAKey)?;
        let key = VerifierKey::new(origin.to_owned(), key);
        // Formatting it again rejects a wrong key id and any second spelling.
        if is_origin(origin) && key.to_string() == text { Ok(key) } else { Err(NotAKey) }
    }
}

/// A secret key. It is wiped from memory when it is dropped.
pub struct SecretKey(SigningKey);

impl SecretKey {
    /// A new key, from the operating system's source of randomness.
    ///
    /// # Errors
    /// When that source fails.
    pub fn generate() -> Result<SecretKey, getrandom::Error> {
        let mut seed = Zeroizing::new([0; 32]);
        getrandom::fill(&mut *seed)?;
        Ok(SecretKey(SigningKey::from_bytes(&seed)))
    }

    /// From its 32 bytes (the seed of RFC 8032).
    #[must_use]
    pub fn from_bytes(seed: &[u8; 32]) -> SecretKey {
        SecretKey(SigningKey::from_bytes(seed))
    }

    /// In base64.
    #[must_use]
    pub fn to_base64(&self) -> Zeroizing<String> {
        let seed = Zeroizing::new(self.0.to_bytes());
        Zeroizing::new(STANDARD.encode(*seed))
    }

    /// Reads [`SecretKey::to_base64`].
    #[must_use]
    pub fn from_base64(text: &str) -> Option<SecretKey> {
        let bytes = Zeroizing::new(STANDARD.decode(text).ok()?);
        let mut seed = Zeroizing::new([0; 32]);
        if bytes.len() != seed.len() {
            return None;
        }
        seed.copy_from_slice(&bytes);
        Some(SecretKey::from_bytes(&seed))
    }

    /// The public half, as a root: the origin follows from it.
    #[must_use]
    pub fn root(&self) -> VerifierKey {
        let key = self.0.verifying_key();
        VerifierKey::new(origin_of(&key), key)
    }

    /// The public half, as a key of the log `origin`.
    #[must_use]
    pub fn public(&self, origin: &str) -> VerifierKey {
        VerifierKey::new(origin.to_owned(), self.0.verifying_key())
    }

    /// Signs.
    #[must_use]
    pub fn sign(&self, text: &[u8]) -> [u8; 64] {
        self.0.sign(text).to_bytes()
    }
}

/// Does not print the key.
impl fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretKey")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_read_back_and_have_one_spelling() {
        let secret = SecretKey::from_bytes(&[7; 32]);
        let root = secret.root();
        assert!(root.is_root());
        let text = root.to_string();
        assert_eq!(text.parse(), Ok(root.clone()));
        for at in 0..text.len() {
            let mut other = text.clone().into_bytes();
            other[at] ^= 1;
            if let Ok(other) = String::from_utf8(other) {
                assert_eq!(other.parse::<VerifierKey>(), Err(NotAKey), "{other}");
            }
        }
        let again = SecretKey::from_base64(&secret.to_base64()).expect("reads back");
        assert_eq!(again.root(), root);
        assert_eq!(format!("{secret:?}"), "SecretKey");
    }

    #[test]
    fn an_epoch_key_is_not_a_root() {
        let root = SecretKey::from_bytes(&[7; 32]).root();
        let epoch = SecretKey::from_bytes(&[8; 32]).public(root.origin());
        assert!(!epoch.is_root());
        assert_ne!(epoch.id(), root.id());
    }

    #[test]
    fn new_keys_differ() {
        let key = || SecretKey::generate().expect("randomness").root();
        assert_ne!(key(), key());
    }
}
