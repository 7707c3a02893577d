//! Digests in header fields.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256};

use super::BEFORE_BYTES;

/// A field that has no SHA-256 digest in the form that it must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no digest of the form sha-256=:BASE64:")]
pub struct NoDigest;

/// `Content-Digest` (RFC 9530): SHA-256 of the body as it is sent, so of compressed bytes if it is
/// compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContentDigest([u8; 32]);

impl ContentDigest {
    /// The digest of a body.
    #[must_use]
    pub fn of(body: &[u8]) -> Self {
        Self(Sha256::digest(body).into())
    }
}

/// Digests of other algorithms in the field are passed over, as RFC 9530 requires.
impl FromStr for ContentDigest {
    type Err = NoDigest;

    fn from_str(text: &str) -> Result<Self, NoDigest> {
        let members = text.split(',').map(str::trim);
        // The last one counts where a key is repeated (RFC 9651, 4.2.2).
        let value = members.filter_map(|member| member.strip_prefix("sha-256=")).next_back();
        parse_item(value.ok_or(NoDigest)?).map(Self)
    }
}

impl fmt::Display for ContentDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha-256=:{}:", STANDARD.encode(self.0))
    }
}

/// `Tacho-Before`: SHA-256 of the bytes of the file before the offset, [`BEFORE_BYTES`] at most.
/// If those that the hub has are others, the body does not belong behind them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Before([u8; 32]);

impl Before {
    /// How many bytes before `offset` are hashed.
    #[must_use]
    pub fn length(offset: u64) -> u64 {
        offset.min(BEFORE_BYTES)
    }

    /// The digest of these bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// A digest that was computed before.
    #[must_use]
    pub fn from_hash(hash: [u8; 32]) -> Self {
        Self(hash)
    }
}

impl FromStr for Before {
    type Err = NoDigest;

    fn from_str(text: &str) -> Result<Self, NoDigest> {
        parse_item(text.trim().strip_prefix("sha-256=").ok_or(NoDigest)?).map(Self)
    }
}

impl fmt::Display for Before {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha-256=:{}:", STANDARD.encode(self.0))
    }
}

/// A byte sequence of RFC 9651: `:BASE64:`.
fn parse_item(text: &str) -> Result<[u8; 32], NoDigest> {
    let text = text.strip_prefix(':').and_then(|text| text.strip_suffix(':')).ok_or(NoDigest)?;
    STANDARD.decode(text).ok().and_then(|bytes| bytes.try_into().ok()).ok_or(NoDigest)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 9530, section 2.
    const BODY: &[u8] = b"{\"hello\": \"world\"}\n";
    const FIELD: &str = "sha-256=:RK/0qy18MlBSVnWgjwz6lZEWjP/lF5HF9bvEF8FabDg=:";

    #[test]
    fn digests_are_those_of_the_rfc() {
        assert_eq!(ContentDigest::of(BODY).to_string(), FIELD);
        let both = format!("sha-512=:YMAam51Jz/jOATT6/zvHrLVgOYTGFy1d6GJiOHTohq4=:, {FIELD}");
        for text in [FIELD, &both] {
            assert_eq!(text.parse(), Ok(ContentDigest::of(BODY)));
        }
        assert_eq!(FIELD.parse(), Ok(Before::of(BODY)));
        assert_eq!(Before::of(BODY).to_string(), FIELD);
    }

    #[test]
    fn what_is_no_digest_is_refused() {
        for bad in ["", "sha-256", "sha-256=:AAAA:", "sha-256=RK", "SHA-256=:x:", "md5=:AAAA:"] {
            assert_eq!(bad.parse::<ContentDigest>(), Err(NoDigest), "{bad}");
            assert_eq!(bad.parse::<Before>(), Err(NoDigest), "{bad}");
        }
    }

    #[test]
    fn no_more_is_hashed_than_there_is() {
        assert_eq!(Before::length(7), 7);
        assert_eq!(Before::length(1 << 40), BEFORE_BYTES);
    }
}
