//! Compressed log files: zstd, level 3, one thread, some MiB of memory.

use std::io::{self, BufReader, Read, Write};
use std::path::Path;

use sha2::{Digest as _, Sha256};
use zstd::stream::write::Decoder;

use super::error::{FileError, LastSeqError};
use super::fs::{Fs, OpenMode};
use super::lines::{self, HEAD_BYTES};
use super::stream::Stream;

pub(crate) const LEVEL: i32 = 3;
const BLOCK_BYTES: usize = 128 * 1024;
/// Largest window that is read, as a power of two: the limit of `zstd` without `--long`.
const WINDOW_LOG_MAX: u32 = 27;

/// Passes compressed bytes on, and decompresses a copy of them: their real content is verified
/// before the original is removed. This must happen here, because it is impossible once they are
/// encrypted.
pub(crate) struct Checked<W> {
    to: W,
    decoder: Decoder<'static, Hasher>,
}

impl<W: Write> Checked<W> {
    pub(crate) fn new(to: W) -> io::Result<Checked<W>> {
        let mut decoder = Decoder::new(Hasher::default())?;
        decoder.window_log_max(WINDOW_LOG_MAX)?;
        Ok(Checked { to, decoder })
    }

    /// The target, and hash and length of the decompressed content.
    pub(crate) fn finish(mut self) -> io::Result<(W, [u8; 32], u64)> {
        self.decoder.flush()?;
        let Hasher { hasher, bytes } = self.decoder.into_inner();
        Ok((self.to, hasher.finalize().into(), bytes))
    }
}

impl<W: Write> Write for Checked<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.to.write(bytes)?;
        self.decoder.write_all(&bytes[..count])?;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

#[derive(Default)]
struct Hasher {
    hasher: Sha256,
    bytes: u64,
}

impl Write for Hasher {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.hasher.update(bytes);
        self.bytes += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// `seq` of the last line of a compressed file; `None`: it has no line.
pub(crate) fn last_seq<F: Fs>(fs: &F, path: &Path) -> Result<Option<u64>, LastSeqError> {
    let unreadable = |error| LastSeqError::Unreadable(FileError::new("decompress", path, error));
    let file = fs.open(path, OpenMode::Read).map_err(unreadable)?;
    let source = BufReader::new(Stream::new(&file));
    let mut decoder = zstd::Decoder::with_buffer(source).map_err(unreadable)?;
    decoder.window_log_max(WINDOW_LOG_MAX).map_err(unreadable)?;
    let mut buffer = vec![0; BLOCK_BYTES];
    // Of the current line: its beginning, its last byte, where it began.
    let (mut head, mut end, mut start) = (Vec::with_capacity(HEAD_BYTES), 0, 0);
    let mut last = None;
    let mut offset = 0;
    loop {
        let count = match decoder.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(unreadable(error)),
        };
        for piece in buffer[..count].split_inclusive(|&byte| byte == b'\n') {
            let body = piece.strip_suffix(b"\n").unwrap_or(piece);
            head.extend_from_slice(&body[..body.len().min(HEAD_BYTES - head.len())]);
            end = body.last().copied().unwrap_or(end);
            offset += piece.len() as u64;
            if body.len() < piece.len() {
                last = Some((lines::parse_seq(&head).filter(|_| end == b'}'), start));
                (head, end, start) = (Vec::with_capacity(HEAD_BYTES), 0, offset);
            }
        }
    }
    match last {
        None => Ok(None),
        Some((Some(seq), _)) => Ok(Some(seq)),
        Some((None, offset)) => Err(LastSeqError::Unparsable { path: path.to_owned(), offset }),
    }
}
