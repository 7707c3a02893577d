//! One step of the chain.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256};

/// Begins the input of every step, so that no other use of SHA-256 has the same input.
const DOMAIN: &[u8] = b"tachograph-chain-v1\0";

/// A SHA-256 hash, 32 bytes.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Hash(pub [u8; 32]);

impl Hash {
    /// The start of the first chain of a log.
    pub const ZERO: Hash = Hash([0; 32]);

    /// SHA-256 of some bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Hash {
        Hash(Sha256::digest(bytes).into())
    }

    /// The chain after one more entry: SHA-256 over the domain, this hash, the length of the entry
    /// (64 bits, little-endian) and its bytes as in the sidecar.
    #[must_use]
    pub fn after(&self, entry: &[u8]) -> Hash {
        let mut hasher = Sha256::new();
        hasher.update(DOMAIN);
        hasher.update(self.0);
        hasher.update((entry.len() as u64).to_le_bytes());
        hasher.update(entry);
        Hash(hasher.finalize().into())
    }

    /// Base64 with padding (RFC 4648, section 4).
    #[must_use]
    pub fn to_base64(&self) -> String {
        STANDARD.encode(self.0)
    }

    /// Reads [`Hash::to_base64`]; any other spelling is `None`.
    #[must_use]
    pub fn from_base64(text: &str) -> Option<Hash> {
        Some(Hash(STANDARD.decode(text).ok()?.try_into().ok()?))
    }

    /// Reads 64 lower-case hexadecimal digits, as `sha256sum` prints them.
    #[must_use]
    pub fn from_hex(text: &str) -> Option<Hash> {
        let mut bytes = [0; 32];
        let digits = text.as_bytes();
        if digits.len() != 64 {
            return None;
        }
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = hex_digit(pair[0])? << 4 | hex_digit(pair[1])?;
        }
        Some(Hash(bytes))
    }
}

/// The value of a lower-case hexadecimal digit.
pub(crate) fn hex_digit(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    }
}

/// As lower-case hexadecimal digits.
impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_read_back_and_have_one_spelling() {
        let hash = Hash::of(b"abc");
        // FIPS 180-2, appendix B.1.
        let hex = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(hash.to_string(), hex);
        assert_eq!(Hash::from_hex(hex), Some(hash));
        assert_eq!(Hash::from_hex(&hex.to_uppercase()), None);
        assert_eq!(Hash::from_base64(&hash.to_base64()), Some(hash));
        // The last digit before the padding has two unused bits: they must be 0.
        assert_eq!(Hash::from_base64("ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa1="), None);
        assert!(Hash::from_base64("ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=").is_some());
    }

    #[test]
    fn a_step_depends_on_the_hash_before_and_on_the_end_of_the_entry() {
        assert_ne!(Hash::ZERO.after(b"a"), Hash::of(b"").after(b"a"));
        assert_ne!(Hash::ZERO.after(b"ab"), Hash::ZERO.after(b"a").after(b"b"));
        assert_ne!(Hash::ZERO.after(b""), Hash::ZERO);
    }
}
