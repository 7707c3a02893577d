//! Zone: outside, and a thread of the server that nothing waits for. zstd's seekable format:
//! independent frames, and a table of their sizes in a skippable frame at the end (version 0.1.0,
//! `contrib/seekable_format` of zstd). `zstd -d` decompresses such a file as any other, and a slice
//! of it is read by decompressing only the frames that it lies in.
//!
//! A reader accepts one spelling, that of [`Writer`]: each frame has a checksum and the size of its
//! content, each but the last has [`CONTENT_BYTES`] of content, and the sizes in the table add up
//! to the file. So bytes that were changed or cut are an error, and never other content.

pub mod damage;

use std::fs::File;
use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};

use zstd::bulk::{Compressor, Decompressor};
use zstd::zstd_safe::{self, CParameter};

use damage::{damaged, read_at};

/// Content of a frame, bytes. The last frame has less.
pub const CONTENT_BYTES: usize = 1 << 20;
/// Frames of a file. It bounds the memory for the table of a file, whatever the file says.
const FRAMES_MAX: u64 = 1 << 20;
/// Content of a file, bytes.
pub const LENGTH_MAX: u64 = FRAMES_MAX * CONTENT_BYTES as u64;

/// Begins the skippable frame of the table.
const TABLE_MAGIC: u32 = 0x184D_2A5E;
/// Ends the file.
const END_MAGIC: u32 = 0x8F92_EAB1;
const HEADER_BYTES: u64 = 8;
const ENTRY_BYTES: u64 = 8;
const FOOTER_BYTES: u64 = 9;
/// The longest header of a zstd frame.
const FRAME_HEADER_BYTES: usize = 18;
/// Where a frame says what is in it, and the bit that says that it has a checksum.
const DESCRIPTOR: (usize, u8) = (4, 1 << 2);

/// Compresses content that comes in parts.
pub struct Writer<W> {
    target: W,
    compressor: Compressor<'static>,
    entries: Vec<u8>,
    is_complete: bool,
}

impl<W: Write> Writer<W> {
    /// Writes to `target`, with a level of zstd.
    ///
    /// # Errors
    /// There is not enough memory.
    pub fn new(target: W, level: i32) -> io::Result<Self> {
        let mut compressor = Compressor::new(level)?;
        compressor.set_parameter(CParameter::ChecksumFlag(true))?;
        compressor.set_parameter(CParameter::ContentSizeFlag(true))?;
        Ok(Self { target, compressor, entries: Vec::new(), is_complete: false })
    }

    /// Appends content: [`CONTENT_BYTES`], the last time less or as much.
    ///
    /// # Errors
    /// It has another length, is too much for a file, or cannot be written.
    pub fn part(&mut self, content: &[u8]) -> io::Result<()> {
        if self.is_complete || content.is_empty() || content.len() > CONTENT_BYTES {
            let text = "a part of a compressed file has the wrong length";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        if self.entries.len() as u64 / ENTRY_BYTES >= FRAMES_MAX {
            return Err(io::Error::other("a compressed file has too many frames"));
        }
        self.is_complete = content.len() < CONTENT_BYTES;
        let frame = self.compressor.compress(content)?;
        for bytes in [frame.len(), content.len()] {
            let bytes = u32::try_from(bytes).map_err(io::Error::other)?;
            self.entries.extend_from_slice(&bytes.to_le_bytes());
        }
        self.target.write_all(&frame)
    }

    /// Appends the table.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn finish(mut self) -> io::Result<W> {
        let too_long = |_| io::Error::other("a compressed file has too many frames");
        let size = u32::try_from(self.entries.len() as u64 + FOOTER_BYTES).map_err(too_long)?;
        let count = u32::try_from(self.entries.len() as u64 / ENTRY_BYTES).map_err(too_long)?;
        let mut table = Vec::with_capacity(self.entries.len() + 17);
        table.extend_from_slice(&TABLE_MAGIC.to_le_bytes());
        table.extend_from_slice(&size.to_le_bytes());
        table.append(&mut self.entries);
        table.extend_from_slice(&count.to_le_bytes());
        // No checksums in the table: the frames have them.
        table.push(0);
        table.extend_from_slice(&END_MAGIC.to_le_bytes());
        self.target.write_all(&table)?;
        Ok(self.target)
    }
}

/// Compresses a stream of any pieces.
pub struct Stream<W> {
    writer: Writer<W>,
    /// Less than [`CONTENT_BYTES`].
    part: Vec<u8>,
}

impl<W: Write> Stream<W> {
    /// As [`Writer::new`].
    ///
    /// # Errors
    /// There is not enough memory.
    pub fn new(target: W, level: i32) -> io::Result<Self> {
        let mut part = Vec::new();
        part.try_reserve_exact(CONTENT_BYTES).map_err(io::Error::other)?;
        Ok(Self { writer: Writer::new(target, level)?, part })
    }

    /// Appends the rest and the table.
    ///
    /// # Errors
    /// They cannot be written.
    pub fn finish(mut self) -> io::Result<W> {
        if !self.part.is_empty() {
            self.writer.part(&self.part)?;
        }
        self.writer.finish()
    }
}

impl<W: Write> Write for Stream<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = bytes.len().min(CONTENT_BYTES - self.part.len());
        self.part.extend_from_slice(&bytes[..count]);
        if self.part.len() == CONTENT_BYTES {
            self.writer.part(&self.part)?;
            self.part.clear();
        }
        Ok(count)
    }

    /// A part of a frame stays in memory.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Where a frame is in the file.
#[derive(Clone, Copy, Debug)]
struct Frame {
    offset: u64,
    bytes: usize,
}

/// A file of this format, open for reading at any offset of its content.
#[derive(Debug)]
pub struct Reader {
    file: File,
    frames: Vec<Frame>,
    length: u64,
    /// Bytes of the file when it was opened.
    stored: u64,
    /// Neighbouring slices are in the same frame.
    last: Mutex<Content>,
}

/// Content of the frame that was read last.
#[derive(Debug, Default)]
struct Content {
    frame: Option<usize>,
    bytes: Vec<u8>,
}

/// The numbers at the end of a file.
struct Footer {
    frames: u64,
    /// Where the table begins.
    table: u64,
    /// Bytes of the file.
    stored: u64,
}

fn number(bytes: &[u8]) -> u32 {
    bytes.iter().rev().fold(0, |sum, byte| sum << 8 | u32::from(*byte))
}

impl Footer {
    fn read(file: &File) -> io::Result<Self> {
        let no_table = || damaged("it does not end with the table of a compressed file");
        let metadata = file.metadata()?;
        // A directory, a device: nothing that the hub has written.
        let stored = if metadata.is_file() { metadata.len() } else { 0 };
        let mut footer = [0; FOOTER_BYTES as usize];
        let at = stored.checked_sub(FOOTER_BYTES).ok_or_else(no_table)?;
        read_at(file, &mut footer, at)?;
        let frames = u64::from(number(&footer[..4]));
        let before = HEADER_BYTES + frames * ENTRY_BYTES;
        let is_end = footer[4] == 0 && number(&footer[5..]) == END_MAGIC;
        match at.checked_sub(before) {
            Some(table) if is_end && frames <= FRAMES_MAX => Ok(Self { frames, table, stored }),
            _ => Err(no_table()),
        }
    }
}

/// Bytes of the content of a file, from the end of its table alone.
///
/// # Errors
/// The file cannot be read, or does not end with a table (kind `InvalidData`).
pub fn length(file: &File) -> io::Result<u64> {
    let Footer { frames, table, .. } = Footer::read(file)?;
    let Some(whole) = frames.checked_sub(1) else { return Ok(0) };
    let mut entry = [0; ENTRY_BYTES as usize];
    read_at(file, &mut entry, table + HEADER_BYTES + whole * ENTRY_BYTES)?;
    Ok(whole * CONTENT_BYTES as u64 + u64::from(number(&entry[4..])))
}

impl Reader {
    /// Reads and checks the table.
    ///
    /// # Errors
    /// The file cannot be read, or is not of this format (kind `InvalidData`).
    pub fn open(file: File) -> io::Result<Self> {
        let footer = Footer::read(&file)?;
        let entries_bytes =
            usize::try_from(footer.frames * ENTRY_BYTES).map_err(io::Error::other)?;
        // 8 MiB at most.
        let mut table = vec![0; HEADER_BYTES as usize + entries_bytes];
        read_at(&file, &mut table, footer.table)?;
        let (header, entries) = table.split_at(HEADER_BYTES as usize);
        let size = footer.frames * ENTRY_BYTES + FOOTER_BYTES;
        if number(&header[..4]) != TABLE_MAGIC || u64::from(number(&header[4..])) != size {
            return Err(damaged("the table of the compressed file has no beginning"));
        }
        let (mut frames, mut offset, mut length) = (Vec::new(), 0, 0);
        for (at, entry) in (1..).zip(entries.chunks_exact(ENTRY_BYTES as usize)) {
            let [bytes, content] = [number(&entry[..4]), number(&entry[4..])].map(|it| it as usize);
            let is_last = at == footer.frames;
            let is_whole = content == CONTENT_BYTES || is_last && content < CONTENT_BYTES;
            let bytes_max = zstd_safe::compress_bound(content);
            if !is_whole || content == 0 || bytes == 0 || bytes > bytes_max {
                return Err(damaged(format!("frame {at} of the compressed file has a wrong size")));
            }
            frames.push(Frame { offset, bytes });
            offset += bytes as u64;
            length += content as u64;
        }
        if offset != footer.table {
            return Err(damaged("the frames of the compressed file do not add up to its length"));
        }
        let stored = footer.stored;
        let reader = Self { file, frames, length, stored, last: Mutex::default() };
        reader.check_length()?;
        Ok(reader)
    }

    /// The length that the last frame itself states.
    fn check_length(&self) -> io::Result<()> {
        let Some((at, last)) = self.frames.iter().enumerate().next_back() else { return Ok(()) };
        let mut header = vec![0; last.bytes.min(FRAME_HEADER_BYTES)];
        read_at(&self.file, &mut header, last.offset)?;
        match zstd_safe::get_frame_content_size(&header) {
            Ok(Some(bytes)) if bytes == self.content_bytes(at) as u64 => Ok(()),
            _ => Err(damaged("the last frame of the compressed file has another length")),
        }
    }

    /// Bytes of the content.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.length
    }

    /// The same, if the file still has the length that it had when it was opened.
    ///
    /// # Errors
    /// The file cannot be looked at, or has another length (kind `InvalidData`).
    pub fn length_now(&self) -> io::Result<u64> {
        match self.file.metadata()?.len() == self.stored {
            true => Ok(self.length),
            false => Err(damaged("the compressed file has another length than before")),
        }
    }

    /// The file.
    #[must_use]
    pub fn file(&self) -> &File {
        &self.file
    }

    fn content_bytes(&self, at: usize) -> usize {
        let rest = self.length - at as u64 * CONTENT_BYTES as u64;
        usize::try_from(rest).unwrap_or(CONTENT_BYTES).min(CONTENT_BYTES)
    }

    /// Reads content at an offset, as pread(2): as much as there is in one frame, nothing behind
    /// the end.
    ///
    /// # Errors
    /// The file cannot be read, or the frame is damaged (kind `InvalidData`).
    pub fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        if offset >= self.length || buffer.is_empty() {
            return Ok(0);
        }
        let size = CONTENT_BYTES as u64;
        let [at, begin] = [offset / size, offset % size].map(|it| it as usize);
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.frame != Some(at) {
            last.frame = None;
            last.bytes.resize(self.content_bytes(at), 0);
            self.decompress(at, &mut last.bytes)?;
            last.frame = Some(at);
        }
        let rest = &last.bytes[begin..];
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }

    fn decompress(&self, at: usize, content: &mut [u8]) -> io::Result<()> {
        let Frame { offset, bytes } = self.frames[at];
        let mut frame = vec![0; bytes];
        read_at(&self.file, &mut frame, offset)?;
        let fault =
            |text: &str| damaged(format!("frame {} of the file is damaged: {text}", at + 1));
        let (place, has_checksum) = DESCRIPTOR;
        if frame.get(place).is_none_or(|descriptor| descriptor & has_checksum == 0) {
            return Err(fault("it has no checksum"));
        }
        // Several frames in the place of one have as many checksums, but are none of ours.
        if zstd_safe::find_frame_compressed_size(&frame) != Ok(bytes) {
            return Err(fault("it has another length"));
        }
        match Decompressor::new()?.decompress_to_buffer(&frame, content) {
            Ok(count) if count == content.len() => Ok(()),
            Ok(_) => Err(fault("its content has another length")),
            Err(error) => Err(fault(&error.to_string())),
        }
    }
}
