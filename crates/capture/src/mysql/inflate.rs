//! Compressed packets: zlib, or zstd of MySQL 8.

use std::io::Read;

/// Bytes of a compressed packet's header.
const HEAD_BYTES: usize = 7;

/// Bytes of a buffer that stay allocated between packets.
const KEPT_BYTES: usize = 64 << 10;

/// A packet has less than 16 MiB: a frame that asks for a larger window is not from a client.
const ZSTD_WINDOW_LOG: u32 = 24;

/// The algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// zlib.
    Zlib,
    /// zstd.
    Zstd,
}

/// One direction of a compressed connection.
#[derive(Default)]
pub struct Inflater {
    head: [u8; HEAD_BYTES],
    head_bytes: usize,
    /// Bytes that the current packet still has.
    left: usize,
    /// Its length after decompression; 0: it is not compressed.
    plain_bytes: usize,
    packed: Vec<u8>,
    plain: Vec<u8>,
}

/// It is not a compressed packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damaged;

impl Inflater {
    /// Memory that it holds, bytes.
    pub fn held_bytes(&self) -> usize {
        self.packed.capacity() + self.plain.capacity()
    }

    /// Bytes of the packet that is arriving, or that is damaged.
    pub fn arrived_bytes(&self) -> u64 {
        (self.head_bytes + self.packed.len()) as u64
    }

    /// Takes bytes from `input` and returns the next ones after decompression; `None`: `input` is
    /// empty.
    ///
    /// # Errors
    /// A packet is damaged, or longer than its header says.
    pub fn next(
        &mut self,
        input: &mut &[u8],
        algorithm: Algorithm,
    ) -> Result<Option<&[u8]>, Damaged> {
        loop {
            if input.is_empty() && self.head_bytes == 0 {
                self.shrink();
                return Ok(None);
            }
            if self.head_bytes < HEAD_BYTES {
                let wanted = HEAD_BYTES - self.head_bytes;
                let (part, rest) = input.split_at(wanted.min(input.len()));
                *input = rest;
                self.head[self.head_bytes..self.head_bytes + part.len()].copy_from_slice(part);
                self.head_bytes += part.len();
                if self.head_bytes < HEAD_BYTES {
                    return Ok(None);
                }
                let [a, b, c, _seq, d, e, f] = self.head;
                self.left = u32::from_le_bytes([a, b, c, 0]) as usize;
                self.plain_bytes = u32::from_le_bytes([d, e, f, 0]) as usize;
            }
            let (part, rest) = input.split_at(self.left.min(input.len()));
            *input = rest;
            self.left -= part.len();
            self.packed.extend_from_slice(part);
            if self.left > 0 {
                return Ok(None);
            }
            if self.plain_bytes == 0 {
                std::mem::swap(&mut self.plain, &mut self.packed);
            } else {
                self.unpack(algorithm)?;
            }
            self.head_bytes = 0;
            self.packed.clear();
            if !self.plain.is_empty() {
                return Ok(Some(&self.plain));
            }
        }
    }

    /// Connections that are idle hold no large buffers.
    fn shrink(&mut self) {
        for buffer in [&mut self.packed, &mut self.plain] {
            if buffer.capacity() > KEPT_BYTES {
                *buffer = Vec::new();
            }
        }
    }

    fn unpack(&mut self, algorithm: Algorithm) -> Result<(), Damaged> {
        self.plain.clear();
        // One byte more than it may have, so that a longer one is noticed.
        let limit = self.plain_bytes as u64 + 1;
        let packed = &self.packed[..];
        let read = match algorithm {
            Algorithm::Zlib => {
                flate2::read::ZlibDecoder::new(packed).take(limit).read_to_end(&mut self.plain)
            }
            Algorithm::Zstd => zstd::stream::read::Decoder::new(packed).and_then(|mut decoder| {
                decoder.window_log_max(ZSTD_WINDOW_LOG)?;
                decoder.take(limit).read_to_end(&mut self.plain)
            }),
        };
        match read {
            Ok(bytes) if bytes == self.plain_bytes => Ok(()),
            _ => Err(Damaged),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn packet(seq: u8, packed: &[u8], plain_bytes: usize) -> Vec<u8> {
        let (length, plain) = ((packed.len() as u32).to_le_bytes(), plain_bytes as u32);
        [&length[..3], &[seq], &plain.to_le_bytes()[..3], packed].concat()
    }

    fn zlib(plain: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(plain).unwrap();
        encoder.finish().unwrap()
    }

    fn inflated(bytes: &[u8], part: usize, algorithm: Algorithm) -> Result<Vec<u8>, Damaged> {
        let mut inflater = Inflater::default();
        let mut plain = Vec::new();
        for mut input in bytes.chunks(part) {
            while let Some(bytes) = inflater.next(&mut input, algorithm)? {
                plain.extend_from_slice(bytes);
            }
        }
        Ok(plain)
    }

    #[test]
    fn packed_and_plain_packets_in_parts_of_any_length() {
        let text = b"SELECT 'a', 'a', 'a', 'a', 'a', 'a'";
        let zstd = zstd::encode_all(&text[..], 3).unwrap();
        for (algorithm, packed) in [(Algorithm::Zlib, zlib(text)), (Algorithm::Zstd, zstd)] {
            let bytes = [packet(0, b"plain ", 0), packet(1, &packed, text.len())].concat();
            for part in 1..=bytes.len() {
                let plain = inflated(&bytes, part, algorithm);
                assert_eq!(plain.as_deref(), Ok(&[b"plain ", &text[..]].concat()[..]), "{part}");
            }
        }
    }

    #[test]
    fn an_idle_connection_holds_no_large_buffers() {
        let text = vec![b'x'; 1 << 20];
        for packet in [packet(0, &text, 0), packet(0, &zlib(&text), text.len())] {
            let mut inflater = Inflater::default();
            let mut input = &packet[..];
            while inflater.next(&mut input, Algorithm::Zlib).unwrap().is_some() {}
            assert!(inflater.held_bytes() <= 2 * KEPT_BYTES, "{}", inflater.held_bytes());
        }
    }

    #[test]
    fn a_packet_that_is_longer_than_it_says_is_damaged() {
        let bomb = zlib(&vec![0; 1 << 20]);
        for plain_bytes in [1, 100, (1 << 20) - 1, (1 << 20) + 1] {
            let bytes = packet(0, &bomb, plain_bytes);
            assert_eq!(inflated(&bytes, 999, Algorithm::Zlib), Err(Damaged), "{plain_bytes}");
        }
        assert_eq!(inflated(&packet(0, b"junk", 9), 5, Algorithm::Zlib), Err(Damaged));
        assert_eq!(inflated(&packet(0, b"junk", 9), 5, Algorithm::Zstd), Err(Damaged));
    }
}
