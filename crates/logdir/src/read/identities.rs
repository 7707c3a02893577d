//! Secret keys that open encrypted files (`.age`).

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::PathBuf;

use age::DecryptError;
use tacho_chain::verify::Locked;

use super::content::BUFFER_BYTES;

/// The beginning of an encrypted file.
const AGE_HEAD: &[u8] = b"age-encryption.org/";
/// The beginning of the last line of its header.
const AGE_HEAD_END: &[u8] = b"---";
/// Longest header that is read. The recorder's header has two lines, some 100 bytes, for each
/// recipient, and one that age adds with a few more. The crate takes quadratic time.
const AGE_HEAD_LINES_MAX: usize = 4096;
const AGE_HEAD_BYTES_MAX: usize = 256 * 1024;

/// Why a file has no usable secret key.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// It cannot be read.
    #[error("{}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system says.
        #[source]
        error: io::Error,
    },
    /// A key in it has an unsupported kind.
    #[error("{}", path.display())]
    Key {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        error: DecryptError,
    },
    /// The file is encrypted itself.
    #[error("{}: it is encrypted itself; decrypt it first (age --decrypt)", .0.display())]
    Encrypted(PathBuf),
    /// The file has no key.
    #[error("{}: there is no secret key (AGE-SECRET-KEY-1...) in it", .0.display())]
    Empty(PathBuf),
}

/// The secret keys that open encrypted files.
#[derive(Default)]
pub struct Identities(pub(super) Vec<Box<dyn age::Identity + Send + Sync>>);

impl Identities {
    /// Reads files in the format of `age-keygen`.
    ///
    /// # Errors
    /// One of them cannot be read, or has no key.
    pub fn read(paths: &[PathBuf]) -> Result<Identities, IdentityError> {
        let mut all = Vec::new();
        for path in paths {
            let unread = |error| IdentityError::Read { path: path.clone(), error };
            let mut file = BufReader::new(File::open(path).map_err(unread)?);
            if file.fill_buf().map_err(unread)?.starts_with(AGE_HEAD) {
                return Err(IdentityError::Encrypted(path.clone()));
            }
            let file = age::IdentityFile::from_buffer(file).map_err(unread)?;
            let keys = file.into_identities();
            let keys = keys.map_err(|error| IdentityError::Key { path: path.clone(), error })?;
            if keys.is_empty() {
                return Err(IdentityError::Empty(path.clone()));
            }
            all.extend(keys);
        }
        Ok(Identities(all))
    }

    /// Decrypts a stream.
    pub(super) fn decrypt<'a>(&self, source: impl Read + 'a) -> io::Result<Box<dyn Read + 'a>> {
        let to_io = |error: DecryptError| match error {
            DecryptError::Io(error) => error,
            DecryptError::NoMatchingKeys => Locked.into(),
            error => io::Error::new(io::ErrorKind::InvalidData, error),
        };
        let mut source = BufReader::with_capacity(BUFFER_BYTES, source);
        let head = age_head(&mut source)?;
        let source = io::Cursor::new(head).chain(source);
        let decryptor = age::Decryptor::new_buffered(source).map_err(to_io)?;
        let keys = self.0.iter().map(|key| key.as_ref() as &dyn age::Identity);
        Ok(Box::new(decryptor.decrypt(keys).map_err(to_io)?))
    }
}

/// Reads the header of an encrypted file, up to its last line. The crate `age` reads it line by
/// line and parses all of it after each, so it gets a short one.
fn age_head(source: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let invalid = |text: String| Err(io::Error::new(io::ErrorKind::InvalidData, text));
    let mut head = Vec::new();
    for _ in 0..AGE_HEAD_LINES_MAX {
        let start = head.len();
        let room = (AGE_HEAD_BYTES_MAX - start) as u64;
        source.by_ref().take(room).read_until(b'\n', &mut head)?;
        if !head.starts_with(AGE_HEAD) {
            return invalid("it does not begin as an encrypted file of age does".to_owned());
        }
        let line = &head[start..];
        if line.last() != Some(&b'\n') {
            if head.len() == AGE_HEAD_BYTES_MAX {
                break;
            }
            return invalid("the header of the encrypted file is not complete".to_owned());
        }
        if line.starts_with(AGE_HEAD_END) {
            return Ok(head);
        }
    }
    invalid(format!(
        "the header of the encrypted file is longer than {AGE_HEAD_LINES_MAX} lines or \
         {AGE_HEAD_BYTES_MAX} bytes"
    ))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use super::super::content::unpack;
    use super::*;
    use crate::form::Form;

    /// The crate would read all of it, and again after each line.
    #[test]
    fn a_long_age_header_is_refused_before_it_is_parsed() {
        struct Endless<'a>(&'a [u8], usize, Rc<Cell<u64>>);
        impl Read for Endless<'_> {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                buffer.iter_mut().for_each(|byte| {
                    *byte = self.0[self.1 % self.0.len()];
                    self.1 += 1;
                });
                self.2.set(self.2.get() + buffer.len() as u64);
                Ok(buffer.len())
            }
        }
        for rest in [&b"-> a\n\n"[..], b"-> X25519 x\nAAAA\n", b"x", b"\n", b"-> ", b"\0"] {
            let taken = Rc::new(Cell::new(0));
            let source = Endless(rest, 0, Rc::clone(&taken));
            let source = (&b"age-encryption.org/v1\n"[..]).chain(source);
            let error =
                unpack(source, Form::Encrypted, &Identities::default()).err().expect("refused");
            assert!(error.to_string().contains("longer than"), "{error}");
            assert!(
                taken.get() <= (AGE_HEAD_BYTES_MAX + 2 * BUFFER_BYTES) as u64,
                "{}",
                taken.get()
            );
        }
        for text in ["", "age-encryption.org/v1", "age-encryption.org/v1\n-> a\n", "-> a\n", "junk"]
        {
            let error = unpack(text.as_bytes(), Form::Encrypted, &Identities::default()).err();
            assert_eq!(error.expect("refused").kind(), io::ErrorKind::InvalidData, "{text}");
        }
    }

    #[test]
    fn headers_as_long_as_the_recorder_writes_are_read() {
        let keys: Vec<_> = (0..1000).map(|_| age::x25519::Identity::generate()).collect();
        let recipients: Vec<_> = keys.iter().map(age::x25519::Identity::to_public).collect();
        let recipients = recipients.iter().map(|key| key as &dyn age::Recipient);
        let encryptor = age::Encryptor::with_recipients(recipients).unwrap();
        let mut encrypted = Vec::new();
        let mut writer = encryptor.wrap_output(&mut encrypted).unwrap();
        io::Write::write_all(&mut writer, b"lines").unwrap();
        writer.finish().unwrap();
        let identities = Identities(vec![Box::new(keys[999].clone())]);
        let mut text = String::new();
        let mut source = unpack(&encrypted[..], Form::Encrypted, &identities).unwrap();
        source.read_to_string(&mut text).unwrap();
        assert_eq!(text, "lines");
    }

    #[test]
    fn files_that_are_not_identity_files_are_errors() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("key");
        let message = |text: &str| {
            std::fs::write(&path, text).unwrap();
            let error = Identities::read(std::slice::from_ref(&path)).err().expect("none");
            let cause = std::error::Error::source(&error).map(ToString::to_string);
            format!("{error}: {}", cause.unwrap_or_default())
        };
        assert!(message("").contains("no secret key"));
        assert!(message("age-encryption.org/v1\n-> scrypt").contains("encrypted itself"));
        assert!(message("secret").contains("line 1") && !message("secret").contains("secret data"));
    }
}
