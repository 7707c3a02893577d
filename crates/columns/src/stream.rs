//! A sequence of bytes whose length the reader knows: constant, stored, or compressed with zstd.

use std::io;

use zstd::bulk::{Compressor, Decompressor};

use crate::bytes::{Cursor, Damage, Decoded, put_varint};

const STORED: u8 = 0;
const CONSTANT: u8 = 1;
const COMPRESSED: u8 = 2;

/// Begins each frame of zstd. Streams are short and many, so it is not stored.
const MAGIC: [u8; 4] = 0xFD2F_B528_u32.to_le_bytes();
/// Shorter streams are stored.
const COMPRESSED_FROM: usize = 24;

/// Writes streams.
pub(crate) struct Packer {
    compressor: Compressor<'static>,
    buffer: Vec<u8>,
}

impl Packer {
    pub(crate) fn new(level: i32) -> io::Result<Self> {
        let mut compressor = Compressor::new(level)?;
        compressor.include_contentsize(false)?;
        Ok(Self { compressor, buffer: Vec::new() })
    }

    /// Appends a stream. One without bytes takes none.
    pub(crate) fn put(&mut self, out: &mut Vec<u8>, bytes: &[u8]) -> io::Result<()> {
        let Some((first, rest)) = bytes.split_first() else { return Ok(()) };
        if rest.iter().all(|byte| byte == first) {
            out.extend_from_slice(&[CONSTANT, *first]);
            return Ok(());
        }
        if bytes.len() >= COMPRESSED_FROM {
            self.buffer.clear();
            self.buffer.reserve(zstd::zstd_safe::compress_bound(bytes.len()));
            self.compressor.compress_to_buffer(bytes, &mut self.buffer)?;
            if let Some(frame) = self.buffer.strip_prefix(&MAGIC)
                && frame.len() + 3 < bytes.len()
            {
                out.push(COMPRESSED);
                put_varint(out, frame.len() as u64);
                out.extend_from_slice(frame);
                return Ok(());
            }
        }
        out.push(STORED);
        out.extend_from_slice(bytes);
        Ok(())
    }
}

/// Reads streams.
pub(crate) struct Unpacker {
    decompressor: Decompressor<'static>,
    frame: Vec<u8>,
}

impl Unpacker {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self { decompressor: Decompressor::new()?, frame: Vec::new() })
    }

    /// The next stream, of `length` bytes. The caller has bounded the length.
    pub(crate) fn take(&mut self, from: &mut Cursor<'_>, length: usize) -> Decoded<Vec<u8>> {
        if length == 0 {
            return Ok(Vec::new());
        }
        match from.byte()? {
            STORED => Ok(from.take(length)?.to_vec()),
            CONSTANT => Ok(vec![from.byte()?; length]),
            COMPRESSED => {
                let stored = from.count(length)?;
                self.frame.clear();
                self.frame.extend_from_slice(&MAGIC);
                self.frame.extend_from_slice(from.take(stored)?);
                let mut bytes = Vec::with_capacity(length);
                match self.decompressor.decompress_to_buffer(&self.frame, &mut bytes) {
                    Ok(count) if count == length => Ok(bytes),
                    _ => Err(Damage("a stream cannot be decompressed")),
                }
            }
            _ => Err(Damage("a stream has an unknown form")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packed(bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        Packer::new(1).unwrap().put(&mut out, bytes).unwrap();
        out
    }

    #[test]
    fn each_form_is_read_back() {
        let mixed: Vec<u8> = (0..3000_u32).map(|at| (at * at / 7 % 5) as u8).collect();
        let random: Vec<u8> =
            (0..3000_u32).map(|at| (at.wrapping_mul(0x9E37_79B9) >> 24) as u8).collect();
        for bytes in [&b""[..], b"x", b"xy", &[7; 5000], &mixed, &random] {
            let out = packed(bytes);
            assert!(out.len() <= bytes.len() + 1);
            let mut cursor = Cursor::new(&out);
            let read = Unpacker::new().unwrap().take(&mut cursor, bytes.len());
            assert_eq!(read.as_deref(), Ok(bytes));
            assert_eq!(cursor.end(""), Ok(()));
        }
        assert_eq!(packed(&[7; 5000]).len(), 2);
    }

    #[test]
    fn another_length_is_damage() {
        let mixed: Vec<u8> = (0..3000_u32).map(|at| (at * at / 7 % 5) as u8).collect();
        let out = packed(&mixed);
        for length in [1, 2999, 3001] {
            assert!(Unpacker::new().unwrap().take(&mut Cursor::new(&out), length).is_err());
        }
        assert!(Unpacker::new().unwrap().take(&mut Cursor::new(&[9, 9]), 1).is_err());
    }
}
