//! The recipients of closed files: public keys of age (<https://age-encryption.org/v1>).
//!
//! This module has only public keys. Neither the recorder nor a later intruder on its machine can
//! read what was encrypted to them.

use std::fmt;
use std::fs::OpenOptions;
use std::io::{self, Read as _, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use age::stream::StreamWriter;

/// Longest file of recipients that is read, bytes: some hundred keys.
const BYTES_MAX: u64 = 64 * 1024;

/// Public keys, at least one.
pub struct Recipients {
    keys: Vec<age::x25519::Recipient>,
}

/// Why there are no recipients.
#[derive(Debug, thiserror::Error)]
pub enum RecipientsError {
    /// The file cannot be read.
    #[error("{0}")]
    Unreadable(#[from] io::Error),
    /// It is too long.
    #[error("it is longer than {BYTES_MAX} bytes")]
    TooLong,
    /// A line is not a public key.
    #[error("line {0} is not a public key of age (age1...)")]
    NotAKey(usize),
    /// A line is a secret key.
    #[error(
        "line {0} is a SECRET key. It must not be on this machine: whoever has it can read the log. \
         Put the public key here (age-keygen -y), and make new ones if others may have seen it"
    )]
    Secret(usize),
    /// There is no key.
    #[error("there is no public key (age1...) in it")]
    Empty,
}

impl Recipients {
    /// Parses a text: one key per line; empty lines and lines that begin with `#` are ignored.
    ///
    /// # Errors
    /// See [`RecipientsError`].
    pub fn parse(text: &str) -> Result<Recipients, RecipientsError> {
        let mut keys = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            if line.to_ascii_uppercase().starts_with("AGE-SECRET-KEY-") {
                return Err(RecipientsError::Secret(index + 1));
            }
            keys.push(line.parse().map_err(|_| RecipientsError::NotAKey(index + 1))?);
        }
        if keys.is_empty() {
            return Err(RecipientsError::Empty);
        }
        Ok(Recipients { keys })
    }

    /// Reads a file.
    ///
    /// # Errors
    /// See [`RecipientsError`].
    pub fn read(path: &Path) -> Result<Recipients, RecipientsError> {
        // Non-blocking, for the case of a pipe.
        let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
        if !file.metadata()?.is_file() {
            return Err(io::Error::other("not a regular file").into());
        }
        let mut text = String::new();
        file.take(BYTES_MAX + 1).read_to_string(&mut text)?;
        if text.len() as u64 > BYTES_MAX {
            return Err(RecipientsError::TooLong);
        }
        Recipients::parse(&text)
    }

    /// A writer that encrypts to `to`, for these recipients only.
    pub(crate) fn encrypt<W: Write>(&self, to: W) -> io::Result<StreamWriter<W>> {
        let keys = self.keys.iter().map(|key| key as &dyn age::Recipient);
        age::Encryptor::with_recipients(keys).map_err(io::Error::other)?.wrap_output(to)
    }
}

/// The keys, separated by commas.
impl fmt::Display for Recipients {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, key) in self.keys.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            write!(f, "{comma}{key}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Recipients {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Recipients({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_keys_and_invalid_lists() {
        use age::secrecy::ExposeSecret as _;
        let secret = age::x25519::Identity::generate();
        let (one, two) = (secret.to_public(), age::x25519::Identity::generate().to_public());
        let text = format!("# ours\n\n  {one}\r\n# theirs\n{two}");
        let recipients = Recipients::parse(&text).expect("two keys");
        assert_eq!(recipients.to_string(), format!("{one},{two}"));
        let error = |text: &str| Recipients::parse(text).expect_err("no list").to_string();
        assert!(error("").contains("no public key") && error("# none\n").contains("no public key"));
        assert!(error(&format!("{text}\nage1x")).contains("line 6 is not"));
        assert!(error(&one.to_string()[..60]).contains("line 1 is not"));
        let secret = secret.to_string();
        let message = error(&format!("# x\n{}\n", secret.expose_secret()));
        assert!(
            message.contains("line 2 is a SECRET key") && !message.contains(secret.expose_secret())
        );
        assert!(error(&secret.expose_secret().to_lowercase()).contains("SECRET"));
    }

    #[test]
    fn files_without_recipients() {
        let read = |path: &str| Recipients::read(Path::new(path)).expect_err("no list").to_string();
        assert!(read("/nonexistent/recipients").contains("No such file"));
        assert!(read("/dev/null").contains("not a regular file"));
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("long");
        std::fs::write(&path, "#".repeat(70_000)).expect("written");
        assert!(read(path.to_str().expect("a path")).contains("longer"));
        std::fs::write(&path, [0xff]).expect("written");
        assert!(matches!(Recipients::read(&path), Err(RecipientsError::Unreadable(_))));
    }
}
