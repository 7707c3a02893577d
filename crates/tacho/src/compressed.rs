//! Compressed log files (`.jsonl.zst`), read from their start.

use std::cell::Cell;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// Largest window of a compressed file, as a power of two: 128 MiB, what `zstd` itself allows
/// without `--long`. A hostile file cannot make this program take more.
const WINDOW_LOG_MAX: u32 = 27;

/// What decompresses a stream.
///
/// # Errors
/// When there is no memory for it.
pub fn decoder<R: Read>(source: R) -> io::Result<zstd::Decoder<'static, BufReader<R>>> {
    let mut decoder = zstd::Decoder::new(source)?;
    decoder.window_log_max(WINDOW_LOG_MAX)?;
    Ok(decoder)
}

/// Whether a file of this name is compressed.
pub fn is_compressed(path: &Path) -> bool {
    path.extension() == Some(OsStr::new("zst"))
}

/// What a plain file of this name is called when it is compressed.
pub fn compressed_path(plain: &Path) -> PathBuf {
    let mut path = plain.as_os_str().to_owned();
    path.push(".zst");
    PathBuf::from(path)
}

/// Opens a file of lines, decompressed if its name says so.
///
/// # Errors
/// When it cannot be opened.
pub fn open(path: &Path) -> io::Result<Box<dyn BufRead>> {
    let file = File::open(path)?;
    if !is_compressed(path) {
        return Ok(Box::new(BufReader::new(file)));
    }
    Ok(Box::new(BufReader::new(decoder(file)?)))
}

/// A compressed file as a stream of lines.
pub struct Lines {
    source: BufReader<zstd::Decoder<'static, BufReader<Counted>>>,
    taken: Rc<Cell<u64>>,
    offset: u64,
    line: Vec<u8>,
}

impl Lines {
    /// Opens a compressed file.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn open(path: &Path) -> io::Result<Lines> {
        let taken = Rc::new(Cell::new(0));
        let counted = Counted { file: File::open(path)?, taken: Rc::clone(&taken) };
        let source = BufReader::new(decoder(counted)?);
        Ok(Lines { source, taken, offset: 0, line: Vec::new() })
    }

    /// The next line without its newline, and where it begins in what was compressed. A last one
    /// without a newline is a line, too.
    ///
    /// # Errors
    /// When the file cannot be read, or makes no sense as compressed data.
    pub fn next_line(&mut self) -> io::Result<Option<(u64, &[u8])>> {
        self.line.clear();
        let offset = self.offset;
        let length = self.source.read_until(b'\n', &mut self.line)?;
        self.offset += length as u64;
        let line = self.line.strip_suffix(b"\n").unwrap_or(&self.line);
        Ok((length > 0).then_some((offset, line)))
    }

    /// How much of the compressed file was read since this was last asked, bytes.
    pub fn take_read_bytes(&self) -> u64 {
        self.taken.take()
    }
}

/// Counts what is read.
struct Counted {
    file: File,
    taken: Rc<Cell<u64>>,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read(buffer)?;
        self.taken.set(self.taken.get() + count as u64);
        Ok(count)
    }
}
