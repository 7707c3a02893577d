//! Hashes of passwords: argon2id with the parameters that OWASP recommends (19 MiB, 2 passes).

use std::sync::LazyLock;

use argon2::Argon2;
use argon2::password_hash::{PasswordHash, PasswordHasher as _, PasswordVerifier as _, SaltString};

/// Shortest and longest password, characters and bytes.
const LENGTH_MIN: usize = 12;
const BYTES_MAX: usize = 1024;

/// A password that is not allowed.
#[derive(Debug, thiserror::Error)]
pub enum PasswordError {
    /// Too short or too long.
    #[error("a password has at least {LENGTH_MIN} characters and at most {BYTES_MAX} bytes")]
    Length,
    /// It cannot be hashed.
    #[error("cannot hash the password: {0}")]
    Hash(String),
}

/// Compared where there is no account.
static DECOY: LazyLock<Option<String>> = LazyLock::new(|| hash("not a password").ok());

/// The hash of a password, with its salt and parameters.
///
/// # Errors
/// It is not allowed, or the system has no random bytes.
pub fn hash(password: &str) -> Result<String, PasswordError> {
    if password.chars().count() < LENGTH_MIN || password.len() > BYTES_MAX {
        return Err(PasswordError::Length);
    }
    let failed = |error: &dyn std::fmt::Display| PasswordError::Hash(error.to_string());
    let mut salt = [0; 16];
    getrandom::fill(&mut salt).map_err(|error| failed(&error))?;
    let salt = SaltString::encode_b64(&salt).map_err(|error| failed(&error))?;
    let hash = Argon2::default().hash_password(password.as_bytes(), &salt);
    Ok(hash.map_err(|error| failed(&error))?.to_string())
}

/// Whether a password has this hash. `None`: takes as long, and is never true.
#[must_use]
pub fn verify(hash: Option<&str>, password: &str) -> bool {
    let is_known = hash.is_some();
    let Some(hash) = hash.or(DECOY.as_deref()) else { return false };
    if password.len() > BYTES_MAX {
        return false;
    }
    let parsed = PasswordHash::new(hash);
    let is_same = parsed
        .is_ok_and(|hash| Argon2::default().verify_password(password.as_bytes(), &hash).is_ok());
    is_same && is_known
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_verified_by_its_hash_alone() {
        let hash = hash("correct horse battery").unwrap();
        assert!(hash.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{hash}");
        assert!(verify(Some(&hash), "correct horse battery"));
        assert!(!verify(Some(&hash), "correct horse batterY"));
        assert!(!verify(None, "not a password"));
        assert!(!verify(Some("nonsense"), "nonsense"));
    }

    #[test]
    fn short_and_endless_passwords_are_refused() {
        assert!(matches!(hash("elevenchars"), Err(PasswordError::Length)));
        assert!(matches!(hash(&"x".repeat(2000)), Err(PasswordError::Length)));
    }
}
