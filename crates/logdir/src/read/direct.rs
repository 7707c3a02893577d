//! Files that are read at any offset of their content: plain ones, compressed ones that the
//! recorder has made, which are in zstd's seekable format, and those of a hub by columns.

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
    /// By columns.
    Columns(tacho_columns::ColumnsReader),
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
            Form::Columns => tacho_columns::ColumnsReader::open(file.try_clone()?)
                .map(|it| Some(Self::Columns(it))),
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
            Self::Columns(reader) => Ok(reader.length()),
        }
    }
}

impl ReadAt for Direct {
    fn fill_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        match self {
            Self::Plain(file) => file.fill_at(buffer, offset),
            Self::Compressed(reader) => fill(buffer, offset, |to, at| reader.read_at(to, at)),
            Self::Columns(reader) => fill(buffer, offset, |to, at| reader.read_at(to, at)),
        }
    }
}

/// Fills a buffer from a reader that may give less.
fn fill(
    buffer: &mut [u8],
    offset: u64,
    read_at: impl Fn(&mut [u8], u64) -> io::Result<usize>,
) -> io::Result<()> {
    let mut done = 0;
    while done < buffer.len() {
        match read_at(&mut buffer[done..], offset + done as u64)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => done += count,
        }
    }
    Ok(())
}

/// How many bytes are read of a log file that is read to its end: those of its content if it can be
/// read at any offset, otherwise those that are stored.
pub fn bytes(log: &LogFile) -> u64 {
    let stored = || std::fs::metadata(&log.path).map_or(0, |metadata| metadata.len());
    let open = || log.links().open(&log.path);
    let length = match log.form {
        Form::Compressed => open().and_then(|file| tacho_seekable::length(&file)),
        Form::Columns => open().and_then(|file| tacho_columns::length(&file)),
        _ => return stored(),
    };
    length.unwrap_or_else(|_| stored())
}
