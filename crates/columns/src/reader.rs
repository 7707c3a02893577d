//! Reads a file at any offset of its content.

use std::fs::File;
use std::io::{self, Read};
use std::sync::{Mutex, PoisonError};

use tacho_seekable::damage::{damaged, read_at};
use twox_hash::XxHash3_64;
use zstd::bulk::Decompressor;
use zstd::zstd_safe;

use crate::bytes::{Cursor, Damage};
use crate::decode;
use crate::dictionary::{DICTIONARY_BYTES_MAX, Dictionary};
use crate::layout::{
    COLUMNS, CONTENT_BYTES, ENTRY_BYTES, FOOTER_BYTES, FRAME_BYTES_MAX, FRAME_HEAD_BYTES,
    FRAMES_MAX, Footer, MAGIC, WHOLE, checksum, number,
};
use crate::stream::Unpacker;

/// Where a frame is in the file.
#[derive(Clone, Copy, Debug)]
struct FramePlace {
    offset: u64,
    bytes: usize,
}

/// The end of a file: its table and its numbers.
#[derive(Debug)]
struct Table {
    frames: Vec<FramePlace>,
    footer: Footer,
    /// Where the dictionary begins.
    dictionary: u64,
    /// Bytes of the file.
    stored: u64,
}

impl Table {
    fn read(file: &File) -> io::Result<Self> {
        let no_table = || damaged("it does not end with the table of a file by columns");
        let metadata = file.metadata()?;
        // A directory, a device: nothing that a writer has made.
        let stored = if metadata.is_file() { metadata.len() } else { 0 };
        let mut bytes = [0; FOOTER_BYTES];
        let at = stored.checked_sub(FOOTER_BYTES as u64).ok_or_else(no_table)?;
        read_at(file, &mut bytes, at)?;
        let footer = Footer::parse(&bytes).ok_or_else(no_table)?;
        let count = u64::from(footer.frames);
        let table_bytes = count * ENTRY_BYTES;
        let begin = at.checked_sub(table_bytes).ok_or_else(no_table)?;
        let dictionary = begin.checked_sub(u64::from(footer.dictionary_stored));
        let dictionary = dictionary.ok_or_else(no_table)?;
        if count > FRAMES_MAX || footer.length.div_ceil(CONTENT_BYTES as u64) != count {
            return Err(damaged("the table of the file by columns has a wrong length"));
        }
        // 4 MiB at most.
        let mut table = vec![0; usize::try_from(table_bytes).map_err(io::Error::other)?];
        read_at(file, &mut table, begin)?;
        if footer.to_bytes(&table)[table.len()..] != bytes {
            return Err(damaged("the table of the file by columns has a wrong checksum"));
        }
        let (mut frames, mut offset) = (Vec::new(), MAGIC.len() as u64);
        for entry in table.chunks_exact(ENTRY_BYTES as usize) {
            let bytes = number(entry) as usize;
            if !(FRAME_HEAD_BYTES..=FRAME_BYTES_MAX).contains(&bytes) {
                return Err(damaged("a frame of the file by columns has a wrong size"));
            }
            frames.push(FramePlace { offset, bytes });
            offset += bytes as u64;
        }
        let mut magic = [0; MAGIC.len()];
        read_at(file, &mut magic, 0)?;
        if offset != dictionary || magic != MAGIC {
            return Err(damaged("the frames of the file by columns do not add up to its length"));
        }
        Ok(Self { frames, footer, dictionary, stored })
    }
}

/// Bytes of the content of a file, from its table alone.
///
/// # Errors
/// The file cannot be read, or has no good table (kind `InvalidData`).
pub fn length(file: &File) -> io::Result<u64> {
    Ok(Table::read(file)?.footer.length)
}

/// A file that is open for reading at any offset of its content.
#[derive(Debug)]
pub struct ColumnsReader {
    file: File,
    table: Table,
    state: Mutex<LastFrame>,
}

/// What was decoded. Neighbouring slices are in the same frame.
#[derive(Default)]
struct LastFrame {
    /// It is read when the first frame is.
    dictionary: Option<Dictionary>,
    unpacker: Option<Unpacker>,
    frame: Option<usize>,
    content: Vec<u8>,
}

impl std::fmt::Debug for LastFrame {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("LastFrame").field("frame", &self.frame).finish_non_exhaustive()
    }
}

impl ColumnsReader {
    /// Reads and checks the table.
    ///
    /// # Errors
    /// The file cannot be read, or is not of this format (kind `InvalidData`).
    pub fn open(file: File) -> io::Result<Self> {
        let table = Table::read(&file)?;
        Ok(Self { file, table, state: Mutex::default() })
    }

    /// Bytes of the content.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.table.footer.length
    }

    /// The same, if the file still has the length that it had when it was opened.
    ///
    /// # Errors
    /// The file cannot be looked at, or has another length (kind `InvalidData`).
    pub fn length_now(&self) -> io::Result<u64> {
        match self.file.metadata()?.len() == self.table.stored {
            true => Ok(self.length()),
            false => Err(damaged("the file by columns has another length than before")),
        }
    }

    /// The file.
    #[must_use]
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Reads content at an offset, as pread(2): as much as there is in one frame, nothing behind
    /// the end.
    ///
    /// # Errors
    /// The file cannot be read, or is damaged (kind `InvalidData`).
    pub fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        if offset >= self.length() || buffer.is_empty() {
            return Ok(0);
        }
        let size = CONTENT_BYTES as u64;
        let [at, begin] = [offset / size, offset % size].map(|it| it as usize);
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.frame != Some(at) {
            state.frame = None;
            state.content = self.decode(at, &mut state)?;
            state.frame = Some(at);
        }
        let rest = &state.content[begin..];
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }

    /// Reads the content from its beginning to its end.
    #[must_use]
    pub fn into_read(self) -> Sequential {
        Sequential { reader: self, offset: 0 }
    }

    fn decode(&self, at: usize, state: &mut LastFrame) -> io::Result<Vec<u8>> {
        let FramePlace { offset, bytes } = self.table.frames[at];
        let before = at as u64 * CONTENT_BYTES as u64;
        let length = (self.length() - before).min(CONTENT_BYTES as u64) as usize;
        let mut frame = vec![0; bytes];
        read_at(&self.file, &mut frame, offset)?;
        let unpacker = match &mut state.unpacker {
            Some(unpacker) => unpacker,
            none => none.insert(Unpacker::new()?),
        };
        let (head, body) = frame.split_at(FRAME_HEAD_BYTES);
        let content = match head[FRAME_HEAD_BYTES - 1] {
            WHOLE => {
                let mut from = Cursor::new(body);
                let content = unpacker.take(&mut from, length);
                content.and_then(|it| from.end("a frame is too long").map(|()| it))
            }
            COLUMNS => {
                let dictionary = match &state.dictionary {
                    Some(dictionary) => dictionary,
                    None => state.dictionary.insert(self.dictionary()?),
                };
                decode::frame(body, length, dictionary, unpacker)
            }
            _ => Err(Damage("it has an unknown form")),
        };
        let fault =
            |text: &str| damaged(format!("frame {} of the file is damaged: {text}", at + 1));
        let content = content.map_err(|Damage(text)| fault(text))?;
        match checksum(at, &content) == number(&head[..FRAME_HEAD_BYTES - 1]) {
            true => Ok(content),
            false => Err(fault("its content has another checksum")),
        }
    }

    fn dictionary(&self) -> io::Result<Dictionary> {
        let Footer { dictionary_stored, dictionary_bytes, dictionary_checksum, .. } =
            self.table.footer;
        let [stored, bytes] = [dictionary_stored, dictionary_bytes].map(|it| it as usize);
        let fault = |text: &str| damaged(format!("the dictionary of the file is damaged: {text}"));
        if bytes > DICTIONARY_BYTES_MAX || stored > zstd_safe::compress_bound(bytes) {
            return Err(fault("it is too long"));
        }
        let mut frame = vec![0; stored];
        read_at(&self.file, &mut frame, self.table.dictionary)?;
        let mut dictionary = Vec::with_capacity(bytes);
        let read = Decompressor::new()?.decompress_to_buffer(&frame, &mut dictionary);
        if read.map_err(|error| fault(&error.to_string()))? != bytes {
            return Err(fault("it has another length"));
        }
        if XxHash3_64::oneshot(&dictionary) != dictionary_checksum {
            return Err(fault("it has another checksum"));
        }
        Dictionary::read(&dictionary).map_err(|Damage(text)| fault(text))
    }
}

/// The content of a file, one byte after the other.
#[derive(Debug)]
pub struct Sequential {
    reader: ColumnsReader,
    offset: u64,
}

impl Read for Sequential {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.reader.read_at(buffer, self.offset)?;
        self.offset += count as u64;
        Ok(count)
    }
}
