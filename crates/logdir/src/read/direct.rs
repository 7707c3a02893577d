//! Files that are read at any offset of their content: plain ones, and compressed ones that the
//! recorder has made, which are in zstd's seekable format.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use tacho_seekable::Reader;

use super::files::LogFile;
use crate::form::Form;

/// Content that can be read at any offset.
pub trait ReadAt {
    /// Fills the buffer.
    ///
    /// # Errors
    /// It cannot be read, or ends before.
    fn fill_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()>;
}

impl ReadAt for File {
    fn fill_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.read_exact_at(buffer, offset)
    }
}

impl<T: ReadAt> ReadAt for &T {
    fn fill_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        (*self).fill_at(buffer, offset)
    }
}

/// A log file that can be read at any offset.
#[derive(Debug)]
pub enum Direct {
    /// Plain.
    Plain(File),
    /// Compressed.
    Compressed(Reader),
}

impl Direct {
    /// A file of that form. `None`: it can only be read from its start.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn of(file: &File, form: Form) -> io::Result<Option<Self>> {
        match form {
            Form::Plain => Ok(Some(Self::Plain(file.try_clone()?))),
            Form::Compressed => match Reader::open(file.try_clone()?) {
                Ok(reader) => Ok(Some(Self::Compressed(reader))),
                // Of another program or an older release, or damaged: then reading it says how.
                Err(error) if error.kind() == io::ErrorKind::InvalidData => Ok(None),
                Err(error) => Err(error),
            },
            Form::Encrypted | Form::CompressedEncrypted => Ok(None),
        }
    }

    /// Bytes of its content.
    ///
    /// # Errors
    /// It cannot be looked at.
    pub fn length(&self) -> io::Result<u64> {
        match self {
            Self::Plain(file) => Ok(file.metadata()?.len()),
            Self::Compressed(reader) => Ok(reader.length()),
        }
    }
}

impl ReadAt for Direct {
    fn fill_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        match self {
            Self::Plain(file) => file.fill_at(buffer, offset),
            Self::Compressed(reader) => {
                let mut done = 0;
                while done < buffer.len() {
                    match reader.read_at(&mut buffer[done..], offset + done as u64)? {
                        0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                        count => done += count,
                    }
                }
                Ok(())
            }
        }
    }
}

/// How many bytes are read of a log file that is read to its end: those of its content if it can be
/// read at any offset, otherwise those that are stored.
pub fn bytes(log: &LogFile) -> u64 {
    let stored = || std::fs::metadata(&log.path).map_or(0, |metadata| metadata.len());
    if log.form != Form::Compressed {
        return stored();
    }
    let length = log.links().open(&log.path).and_then(|file| tacho_seekable::length(&file));
    length.unwrap_or_else(|_| stored())
}
