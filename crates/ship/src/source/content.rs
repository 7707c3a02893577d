//! Lines of a log file at any offset, whatever its form.

use std::fs::File;
use std::io::{self, BufRead};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};

use tacho_logdir::read::content::{self, Access, Links, Opened};
use tacho_logdir::read::files::LogFile;
use tacho_logdir::read::reader::complete_length;

use crate::protocol::BEFORE_BYTES;

/// An open log file.
pub enum Content {
    /// It may be written while it is read.
    Plain(File),
    /// It can be read from its start only, and does not change.
    Packed(Stream),
}

/// The unpacked bytes of a file.
pub struct Stream {
    source: Box<dyn BufRead>,
    /// Offset of what is kept.
    base: u64,
    /// Bytes that were read and may be asked for.
    kept: Vec<u8>,
    is_over: bool,
}

impl Content {
    /// Opens a log file, in its present form.
    ///
    /// # Errors
    /// When it cannot be opened, or no key opens it.
    pub fn open(log: &LogFile, access: &Access) -> io::Result<Self> {
        Ok(match content::open_log(&log.path, Links::Refuse, access)? {
            Opened::Plain(file) => Self::Plain(file),
            Opened::Packed(path, _) => Self::Packed(Stream {
                source: content::read_log(&path, Links::Refuse, access)?,
                base: 0,
                kept: Vec::new(),
                is_over: false,
            }),
        })
    }

    /// Up to `count` bytes from `offset` on; fewer at the end. `None`: they were passed already,
    /// and the file has to be opened again.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn read(&mut self, offset: u64, count: usize) -> io::Result<Option<Vec<u8>>> {
        match self {
            Self::Plain(file) => {
                let mut bytes = vec![0; count];
                let mut length = 0;
                while length < count {
                    match file.read_at(&mut bytes[length..], offset + length as u64) {
                        Ok(0) => break,
                        Ok(read) => length += read,
                        Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                        Err(error) => return Err(error),
                    }
                }
                bytes.truncate(length);
                Ok(Some(bytes))
            }
            Self::Packed(stream) => stream.read(offset, count),
        }
    }

    /// Whether the file ends before `offset`.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn ends_before(&mut self, offset: u64) -> io::Result<bool> {
        match self {
            Self::Plain(file) => Ok(file.metadata()?.len() < offset),
            Self::Packed(stream) => {
                stream.read_to(offset)?;
                Ok(stream.end() < offset)
            }
        }
    }

    /// The end of the last whole line, if it is known without reading all of the file.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn whole_end(&self) -> io::Result<Option<u64>> {
        match self {
            Self::Plain(file) => complete_length(file, file.metadata()?.len()).map(Some),
            Self::Packed(_) => Ok(None),
        }
    }

    /// Whether the name of a plain file has another file by now.
    pub fn is_replaced(&self, log: &LogFile) -> bool {
        let Self::Plain(file) = self else { return false };
        match (std::fs::symlink_metadata(&log.path), file.metadata()) {
            (Ok(named), Ok(open)) => (named.dev(), named.ino()) != (open.dev(), open.ino()),
            // It may be packed: what is open has the same lines.
            _ => false,
        }
    }
}

impl Stream {
    fn end(&self) -> u64 {
        self.base + self.kept.len() as u64
    }

    fn read(&mut self, offset: u64, count: usize) -> io::Result<Option<Vec<u8>>> {
        if offset < self.base {
            return Ok(None);
        }
        self.forget_before(offset);
        self.read_to(offset + count as u64)?;
        let start = usize::try_from(offset - self.base).unwrap_or(usize::MAX);
        let kept = self.kept.get(start..).unwrap_or_default();
        Ok(Some(kept[..count.min(kept.len())].to_vec()))
    }

    fn read_to(&mut self, end: u64) -> io::Result<()> {
        while !self.is_over && self.end() < end {
            let bytes = match self.source.fill_buf() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                bytes => bytes?,
            };
            let count = bytes.len();
            self.is_over = count == 0;
            self.kept.extend_from_slice(bytes);
            self.source.consume(count);
            if self.kept.len() > 2 * crate::protocol::BODY_BYTES_MAX {
                // On the way to a far offset.
                self.forget_before(end.min(self.end()));
            }
        }
        Ok(())
    }

    /// Keeps what a digest of the bytes before `offset` needs.
    fn forget_before(&mut self, offset: u64) {
        let keep_from = offset.saturating_sub(BEFORE_BYTES).max(self.base);
        let count = usize::try_from(keep_from - self.base).unwrap_or(usize::MAX);
        let count = count.min(self.kept.len());
        self.kept.drain(..count);
        self.base += count as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(bytes: &'static [u8]) -> Content {
        Content::Packed(Stream {
            source: Box::new(bytes),
            base: 0,
            kept: Vec::new(),
            is_over: false,
        })
    }

    #[test]
    fn a_stream_can_go_back_a_little() {
        static BYTES: [u8; 30_000] = {
            let mut bytes = [0; 30_000];
            let mut at = 0;
            while at < bytes.len() {
                bytes[at] = (at % 251) as u8;
                at += 1;
            }
            bytes
        };
        let mut content = stream(&BYTES);
        for (offset, count) in [(0, 10), (10, 20_000), (15_914, 4096), (20_010, 50_000)] {
            let bytes = content.read(offset as u64, count).unwrap().unwrap();
            assert_eq!(bytes, BYTES[offset..(offset + count).min(BYTES.len())]);
        }
        // Bytes far behind are gone.
        assert_eq!(content.read(0, 1).unwrap(), None);
        assert!(!content.ends_before(30_000).unwrap());
        assert!(content.ends_before(30_001).unwrap());
    }
}
