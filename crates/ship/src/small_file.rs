//! Reads files that must be small. They come from other sources, so a size limit keeps them from
//! exhausting memory or time.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

/// The content of a file of at most `bytes_max` bytes.
///
/// # Errors
/// It cannot be read, or is larger ([`io::ErrorKind::FileTooLarge`]).
pub fn read(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    // Does not use the size in the file's metadata: a device or a pipe has none.
    File::open(path)?.take(bytes_max + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > bytes_max { Err(io::ErrorKind::FileTooLarge.into()) } else { Ok(bytes) }
}

/// The same for text.
///
/// # Errors
/// As [`read`], and if it is not UTF-8.
pub fn read_text(path: &Path, bytes_max: u64) -> io::Result<String> {
    String::from_utf8(read(path, bytes_max)?)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_are_too_large_are_not_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        std::fs::write(&path, b"12345").unwrap();
        assert_eq!(read(&path, 5).unwrap(), b"12345");
        assert_eq!(read_text(&path, 5).unwrap(), "12345");
        assert_eq!(read(&path, 4).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        let endless = read(Path::new("/dev/zero"), 1000).unwrap_err();
        assert_eq!(endless.kind(), io::ErrorKind::FileTooLarge);
    }
}
