//! The text of a digest under construction. It is written into a buffer of fixed size; when that is
//! full, the part that can no longer change goes to the hash, and its beginning is kept.
//!
//! Short pieces are copied together with the bytes after them: a copy of a length that the compiler
//! knows is two instructions, one of variable length is a call. So there is always some space at
//! the end.

use crate::digest::shapes::Shapes;

/// Bytes that can be written at once.
pub(crate) const ROOM_BYTES: usize = 64;
/// Bytes of the buffer before that: roughly what goes to the hash at a time. BLAKE3 is fastest from
/// 8 KiB on.
const BUFFER_BYTES: usize = 16 << 10;

/// Bytes of a [`Padded`] text with its padding.
pub(crate) const PADDED_BYTES: usize = 32;

/// A short text padded with blanks. The last byte is its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Padded([u8; PADDED_BYTES]);

impl Padded {
    pub(crate) const fn new(text: &str) -> Padded {
        let text = text.as_bytes();
        // At least one blank.
        assert!(text.len() + 1 < PADDED_BYTES);
        let mut bytes = [b' '; PADDED_BYTES];
        let mut index = 0;
        while index < text.len() {
            bytes[index] = text[index];
            index += 1;
        }
        bytes[PADDED_BYTES - 1] = text.len() as u8;
        Padded(bytes)
    }

    #[inline]
    pub(crate) fn bytes(&self) -> &[u8; PADDED_BYTES] {
        &self.0
    }

    #[inline]
    pub(crate) const fn len(&self) -> usize {
        self.0[PADDED_BYTES - 1] as usize
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// See the module documentation.
pub(crate) struct Out {
    /// The end of the text, followed by unused bytes.
    buffer: Box<[u8; BUFFER_BYTES + ROOM_BYTES]>,
    /// Bytes of the text in the buffer.
    bytes: usize,
    /// The requested part of the text before the buffer, once that has been full.
    kept: Vec<u8>,
    /// Requested bytes of the text.
    bytes_max: usize,
    hasher: Option<Box<blake3::Hasher>>,
    shapes: Shapes,
    /// The buffer has been full.
    is_long: bool,
    is_cut: bool,
    out_of_memory: bool,
}

/// A finished text.
pub(crate) struct Finished {
    pub(crate) hash: [u8; 16],
    pub(crate) is_cut: bool,
    pub(crate) out_of_memory: bool,
}

impl Out {
    pub(crate) fn new() -> Out {
        Out {
            buffer: Box::new([0; BUFFER_BYTES + ROOM_BYTES]),
            bytes: 0,
            kept: Vec::new(),
            bytes_max: 0,
            hasher: None,
            shapes: Shapes::default(),
            is_long: false,
            is_cut: false,
            out_of_memory: false,
        }
    }

    /// Starts another text.
    pub(crate) fn begin(&mut self, bytes_max: usize) {
        self.bytes = 0;
        self.kept.clear();
        self.bytes_max = bytes_max;
        self.is_long = false;
        self.is_cut = false;
        self.out_of_memory = false;
    }

    /// The text, after [`Out::finish`].
    pub(crate) fn text(&self) -> &[u8] {
        if self.is_long { &self.kept } else { &self.buffer[..self.bytes] }
    }

    /// Bytes of the text in the buffer.
    #[inline]
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Releases the memory of a large text, beyond `bytes`.
    pub(crate) fn shrink(&mut self, bytes: usize) {
        if self.kept.capacity() > bytes {
            self.kept = Vec::new();
        }
    }

    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.bytes > BUFFER_BYTES
    }

    /// Where to write, if the buffer is not full.
    #[inline]
    pub(crate) fn room(&mut self) -> &mut [u8] {
        // Tells the compiler that the index is within the buffer.
        let bytes = self.bytes.min(BUFFER_BYTES);
        &mut self.buffer[bytes..bytes + ROOM_BYTES]
    }

    /// Adds so many bytes of the space to the text.
    #[inline]
    pub(crate) fn wrote(&mut self, bytes: usize) {
        self.bytes += bytes;
    }

    /// Removes everything after the first `bytes` of the buffer.
    #[inline]
    pub(crate) fn truncate(&mut self, bytes: usize) {
        self.bytes = bytes;
    }

    /// Takes the first `end` bytes, which can no longer change, out of the buffer. Returns their
    /// number.
    pub(crate) fn settle(&mut self, end: usize) -> usize {
        // The last blank may be the end of the text, where it is removed.
        let end = end.saturating_sub(1);
        self.hash_and_keep(end);
        self.buffer.copy_within(end..self.bytes, 0);
        self.bytes -= end;
        end
    }

    fn hash_and_keep(&mut self, end: usize) {
        let hasher = self.hasher.get_or_insert_with(|| Box::new(hasher()));
        if !self.is_long {
            hasher.reset();
            self.is_long = true;
        }
        let text = &self.buffer[..end];
        hasher.update(text);
        let wanted = (self.bytes_max - self.kept.len()).min(end);
        self.is_cut |= wanted < end;
        self.out_of_memory |= self.kept.try_reserve(wanted).is_err();
        if !self.out_of_memory {
            self.kept.extend_from_slice(&text[..wanted]);
        }
    }

    /// Ends the text: a blank at the end is removed.
    pub(crate) fn finish(&mut self) -> Finished {
        if self.bytes > 0 && self.buffer[self.bytes - 1] == b' ' {
            self.bytes -= 1;
        }
        let hash = if self.is_long {
            self.hash_and_keep(self.bytes);
            self.hasher.as_deref().map_or([0; 16], finished)
        } else {
            let hasher = self.hasher.get_or_insert_with(|| Box::new(hasher()));
            let hash = self.shapes.hash_of(&self.buffer[..self.bytes], |text| {
                hasher.reset();
                finished(hasher.update(text))
            });
            self.is_cut = self.bytes > self.bytes_max;
            self.bytes = self.bytes.min(self.bytes_max);
            hash
        };
        Finished { hash, is_cut: self.is_cut, out_of_memory: self.out_of_memory }
    }
}

fn finished(hasher: &blake3::Hasher) -> [u8; 16] {
    let mut hash = [0; 16];
    hash.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
    hash
}

/// BLAKE3 in its mode for a key with a context string: digests of another version, and other
/// hashes, are never equal by accident.
fn hasher() -> blake3::Hasher {
    blake3::Hasher::new_derive_key("tachograph statement digest 1")
}
