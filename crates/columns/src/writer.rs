//! Writes a file.

use std::io::{self, Write};

use twox_hash::XxHash3_64;

use crate::encode::Encoder;
use crate::layout::{
    COLUMNS, CONTENT_BYTES, ENTRY_BYTES, FRAME_BYTES_MAX, FRAMES_MAX, Footer, MAGIC, WHOLE,
    checksum,
};
use crate::stream::Packer;

/// The level of zstd for streams, and for content that is not lines.
const LEVEL: i32 = 3;
/// The same for the dictionary, of which there is one.
const DICTIONARY_LEVEL: i32 = 9;

/// Encodes content that comes in parts.
pub struct Writer<W> {
    target: W,
    encoder: Encoder,
    packer: Packer,
    frame: Vec<u8>,
    table: Vec<u8>,
    frames: usize,
    length: u64,
    is_complete: bool,
}

impl<W: Write> Writer<W> {
    /// Writes to `target`.
    ///
    /// # Errors
    /// There is not enough memory, or it cannot be written.
    pub fn new(mut target: W) -> io::Result<Self> {
        target.write_all(&MAGIC)?;
        Ok(Self {
            target,
            encoder: Encoder::new(LEVEL)?,
            packer: Packer::new(LEVEL)?,
            frame: Vec::new(),
            table: Vec::new(),
            frames: 0,
            length: 0,
            is_complete: false,
        })
    }

    /// Appends content: [`CONTENT_BYTES`], the last time less or as much.
    ///
    /// # Errors
    /// It has another length, is too much for a file, or cannot be written.
    pub fn part(&mut self, content: &[u8]) -> io::Result<()> {
        if self.is_complete || content.is_empty() || content.len() > CONTENT_BYTES {
            let text = "a part of a file by columns has the wrong length";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        if self.frames as u64 >= FRAMES_MAX {
            return Err(io::Error::other("a file by columns has too many frames"));
        }
        self.is_complete = content.len() < CONTENT_BYTES;
        let checksum = checksum(self.frames, content).to_le_bytes();
        self.frame.clear();
        self.frame.extend_from_slice(&checksum);
        self.frame.push(COLUMNS);
        self.encoder.frame(content, &mut self.frame)?;
        // It would be longer only for bytes that are no lines, and hardly then.
        if self.frame.len() > FRAME_BYTES_MAX.min(content.len()) {
            self.frame.truncate(checksum.len());
            self.frame.push(WHOLE);
            self.packer.put(&mut self.frame, content)?;
        }
        let bytes = u32::try_from(self.frame.len()).map_err(io::Error::other)?;
        self.table.extend_from_slice(&bytes.to_le_bytes());
        self.frames += 1;
        self.length += content.len() as u64;
        self.target.write_all(&self.frame)
    }

    /// Appends the dictionary and the table.
    ///
    /// # Errors
    /// They cannot be written.
    pub fn finish(mut self) -> io::Result<W> {
        let dictionary = self.encoder.dictionary();
        let stored = zstd::bulk::compress(&dictionary, DICTIONARY_LEVEL)?;
        let number = |bytes: usize| u32::try_from(bytes).map_err(io::Error::other);
        let footer = Footer {
            dictionary_stored: number(stored.len())?,
            dictionary_bytes: number(dictionary.len())?,
            dictionary_checksum: XxHash3_64::oneshot(&dictionary),
            frames: number(self.table.len() / ENTRY_BYTES as usize)?,
            length: self.length,
        };
        self.target.write_all(&stored)?;
        self.target.write_all(&footer.to_bytes(&self.table))?;
        Ok(self.target)
    }
}
