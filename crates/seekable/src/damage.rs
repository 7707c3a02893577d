//! Damage of compressed files: what errors of reading say about their content.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

/// The disk cannot read a part of the file: errno(3) on Linux.
const EIO: i32 = 5;

/// An error that says that the content of a file is not what was written.
#[must_use]
pub fn damaged(text: impl Into<String>) -> io::Error {
    // Without a number of the operating system: a fault of the content.
    io::Error::new(io::ErrorKind::InvalidData, text.into())
}

/// Reads what the length of the file, or its table, says is there.
///
/// # Errors
/// It is not there, or the disk cannot read it (kind `InvalidData`); or another error of pread(2).
pub fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<()> {
    file.read_exact_at(buffer, offset).map_err(fault_of)
}

/// What an error says about the content. A sector that the disk cannot read is as good as changed:
/// a copy of the file is needed, and a hub starts without it.
fn fault_of(error: io::Error) -> io::Error {
    if error.kind() == io::ErrorKind::UnexpectedEof {
        damaged("the compressed file was cut")
    } else if error.raw_os_error() == Some(EIO) {
        damaged(format!("a part of the compressed file cannot be read from the disk: {error}"))
    } else {
        error
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sector_that_cannot_be_read_is_damage_and_a_missing_permission_is_not() {
        let kind = |number| fault_of(io::Error::from_raw_os_error(number)).kind();
        assert_eq!(kind(EIO), io::ErrorKind::InvalidData);
        let denied = 13;
        assert_eq!(kind(denied), io::ErrorKind::PermissionDenied);
    }
}
