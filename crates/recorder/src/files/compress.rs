//! Closed files made smaller: `audit-….jsonl` becomes `audit-….jsonl.zst`, the same bytes.
//!
//! The plain file goes only when the other one is on the device under its name, and was read back
//! from there and found to be the same. So after a death at any place at least one of both is
//! complete, and where both are there, the plain one is the one to read; the next attempt simply
//! begins again.
//!
//! Done by a thread that nobody waits for ([`Compressor::run`]): it takes a block, looks whether it
//! shall end, and takes the next. Level 3, one thread, some MiB of memory.

use std::io::{self, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use sha2::{Digest as _, Sha256};

use super::error::{At, FileError};
use super::fs::{Fs, FsFile, OpenMode};
use super::log::LogFiles;
use super::name::FileName;
use super::tail::{self, HEAD_BYTES, LastSeqError};

const LEVEL: i32 = 3;
const BLOCK_BYTES: usize = 128 * 1024;
/// Largest window that is read, as a power of two: what `zstd` itself allows without `--long`.
const WINDOW_LOG_MAX: u32 = 27;

/// A file that was compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compressed {
    /// Length of its lines.
    pub bytes: u64,
    /// Length of the file that they are in now.
    pub compressed_bytes: u64,
}

/// Why a file was not compressed. It is as it was.
#[derive(Debug, thiserror::Error)]
pub enum CompressError {
    /// Something did not work.
    #[error(transparent)]
    File(#[from] FileError),
    /// The compressed file does not give the lines back, or the plain one was changed meanwhile.
    #[error("{} was read back and is not what was compressed", .0.display())]
    Differs(PathBuf),
    /// It was to end before its work was done.
    #[error("stopped before it was done")]
    Cancelled,
}

/// What compresses one file; to be given to a thread.
pub struct Compressor<F> {
    fs: F,
    dir: PathBuf,
    name: FileName,
}

impl<F: Fs> LogFiles<F> {
    /// The oldest closed plain file that is none of those to be passed over. Not the one with the last
    /// line, from which the next start goes on without decompressing.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub fn next_to_compress(
        &self,
        pass_over: impl Fn(FileName) -> bool,
    ) -> Result<Option<Compressor<F>>, FileError> {
        let mut plain: Vec<FileName> = Vec::new();
        for entry in self.fs.list(&self.dir).at("list", &self.dir)? {
            let name = FileName::parse(&entry).filter(|(_, ending)| *ending == "jsonl");
            plain.extend(name.map(|(name, _)| name).filter(|name| *name < self.current_name()));
        }
        plain.sort_unstable();
        let mut sizes = Vec::new();
        for name in &plain {
            let path = self.dir.join(name.log_file());
            match self.fs.stat(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => sizes.push(0),
                stat => {
                    let stat = stat.at("look at", &path)?;
                    sizes.push(if stat.is_file { stat.bytes } else { 0 });
                }
            }
        }
        if !self.has_lines() {
            let last = sizes.iter().rposition(|bytes| *bytes > 0).unwrap_or(0);
            plain.truncate(last);
        }
        let wanted = |(name, bytes): &(FileName, u64)| {
            *bytes > 0 && !pass_over(*name) && self.has_left(*name)
        };
        let name = plain.into_iter().zip(sizes).find(wanted).map(|(name, _)| name);
        Ok(name.map(|name| Compressor { fs: self.fs.clone(), dir: self.dir.clone(), name }))
    }
}

impl<F: Fs> Compressor<F> {
    /// Which file.
    #[must_use]
    pub fn name(&self) -> FileName {
        self.name
    }

    /// Compresses it. Ends soon when `cancel` is set, and leaves nothing behind.
    ///
    /// # Errors
    /// See [`CompressError`].
    pub fn run(&self, cancel: &AtomicBool) -> Result<Compressed, CompressError> {
        let new = self.dir.join(format!("{}.jsonl.zst.new", self.name));
        let result = self.run_to(&new, cancel);
        if result.is_err() {
            // Where this does not work either, the next attempt does it, or retention.
            let _: io::Result<()> = self.fs.remove(&new);
        }
        result
    }

    fn run_to(&self, new: &Path, cancel: &AtomicBool) -> Result<Compressed, CompressError> {
        let path = self.dir.join(self.name.log_file());
        let plain = self.fs.open(&path, OpenMode::Read).at("open", &path)?;
        let before = plain.stat().at("look at", &path)?;
        match self.fs.remove(new) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            removed => removed.at("remove", new)?,
        }
        let file = self.fs.open(new, OpenMode::AppendNew).at("create", new)?;
        let (file, digest) = write(&plain, before.bytes, file, cancel, &path, new)?;
        file.sync_data().at("sync", new)?;
        if read_back(&file, cancel, new)? != (digest, before.bytes) {
            return Err(CompressError::Differs(new.to_owned()));
        }
        let compressed_bytes = file.stat().at("look at", new)?.bytes;
        // Somebody may have changed it, or put another file in its place.
        let after = self.fs.stat(&path).at("look at", &path)?;
        if (after.id, after.bytes) != (before.id, before.bytes) {
            return Err(CompressError::Differs(path));
        }
        let compressed = self.dir.join(format!("{}.jsonl.zst", self.name));
        self.fs.rename(new, &compressed).at("rename", new)?;
        self.fs.sync_dir(&self.dir).at("sync", &self.dir)?;
        self.fs.remove(&path).at("remove", &path)?;
        Ok(Compressed { bytes: before.bytes, compressed_bytes })
    }
}

/// Reads and writes files of the trait as those of the standard library.
struct Stream<L> {
    file: L,
    offset: u64,
}

impl<L> Stream<L> {
    fn new(file: L) -> Stream<L> {
        Stream { file, offset: 0 }
    }
}

impl<L: FsFile> Read for Stream<&L> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read_at(buffer, self.offset)?;
        self.offset += count as u64;
        Ok(count)
    }
}

impl<L: FsFile> Write for Stream<L> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Calls `take` with all that comes, block by block.
fn for_each_block(
    mut from: impl Read,
    cancel: &AtomicBool,
    mut take: impl FnMut(&[u8]) -> Result<(), CompressError>,
    failed: impl Fn(io::Error) -> FileError,
) -> Result<(), CompressError> {
    let mut buffer = vec![0; BLOCK_BYTES];
    loop {
        if cancel.load(Ordering::Relaxed) {
            return Err(CompressError::Cancelled);
        }
        match from.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(count) => take(&buffer[..count])?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(failed(error).into()),
        }
    }
}

/// Compresses a file into another one. Returns that, and the hash of what was read.
fn write<L: FsFile>(
    plain: &L,
    bytes: u64,
    file: L,
    cancel: &AtomicBool,
    path: &Path,
    new: &Path,
) -> Result<(L, [u8; 32]), CompressError> {
    let failed = |error| FileError::new("compress to", new, error);
    let mut encoder = zstd::Encoder::new(Stream::new(file), LEVEL).map_err(failed)?;
    encoder.include_checksum(true).map_err(failed)?;
    encoder.set_pledged_src_size(Some(bytes)).map_err(failed)?;
    let mut hasher = Sha256::new();
    // Not a byte more than was promised: who writes behind it is found by its length.
    let source = Stream::new(plain).take(bytes);
    for_each_block(
        source,
        cancel,
        |block| {
            hasher.update(block);
            Ok(encoder.write_all(block).map_err(failed)?)
        },
        |error| FileError::new("read", path, error),
    )?;
    let stream = encoder.finish().map_err(failed)?;
    Ok((stream.file, hasher.finalize().into()))
}

/// The hash and the length of what is in a compressed file.
fn read_back<L: FsFile>(
    file: &L,
    cancel: &AtomicBool,
    path: &Path,
) -> Result<([u8; 32], u64), CompressError> {
    let failed = |error| FileError::new("decompress", path, error);
    let decoder = zstd::Decoder::new(Stream::new(file)).map_err(failed)?;
    let (mut hasher, mut bytes) = (Sha256::new(), 0);
    for_each_block(
        decoder,
        cancel,
        |block| {
            hasher.update(block);
            bytes += block.len() as u64;
            Ok(())
        },
        failed,
    )?;
    Ok((hasher.finalize().into(), bytes))
}

/// `seq` of the last line of a compressed file; `None`: it has no line.
pub(super) fn last_seq<F: Fs>(fs: &F, path: &Path) -> Result<Option<u64>, LastSeqError> {
    let unreadable = |error| LastSeqError::Unreadable(FileError::new("decompress", path, error));
    let file = fs.open(path, OpenMode::Read).map_err(unreadable)?;
    let source = BufReader::new(Stream::new(&file));
    let mut decoder = zstd::Decoder::with_buffer(source).map_err(unreadable)?;
    decoder.window_log_max(WINDOW_LOG_MAX).map_err(unreadable)?;
    let mut buffer = vec![0; BLOCK_BYTES];
    // Of the line that is read: its beginning, its last byte, where it began.
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
                last = Some((tail::parse_seq(&head).filter(|_| end == b'}'), start));
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
