//! The text of a digest while it is made: its beginning, which is kept, and behind that what has
//! not gone to the hash.
//!
//! Short pieces are copied with whatever is behind them: a copy of a length that the compiler
//! knows is two instructions, one that varies is a call. So there is always some room at the end.

use crate::shapes::Shapes;

/// Bytes that can be written at once.
pub(crate) const ROOM_BYTES: usize = 64;
/// The buffer's first length, bytes: what goes to the hash at a time, nearly.
const BUFFER_BYTES: usize = 16 << 10;

/// Bytes of a [`Padded`] text with what is behind it.
pub(crate) const PADDED_BYTES: usize = 32;

/// A short text with blanks behind it. The last byte is its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Padded([u8; PADDED_BYTES]);

impl Padded {
    pub(crate) const fn new(text: &str) -> Padded {
        let text = text.as_bytes();
        // One blank at least.
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
    /// The text, and bytes that mean nothing.
    buffer: Vec<u8>,
    /// Bytes of the text in the buffer.
    bytes: usize,
    /// Bytes at the begin of it that have gone to the hash.
    hashed: usize,
    /// Bytes of the text that are wanted.
    bytes_max: usize,
    hasher: Option<Box<blake3::Hasher>>,
    shapes: Shapes,
    is_hashed: bool,
    is_cut: bool,
    out_of_memory: bool,
}

/// What a finished text is.
pub(crate) struct Finished {
    pub(crate) hash: [u8; 16],
    pub(crate) is_cut: bool,
    pub(crate) out_of_memory: bool,
}

impl Out {
    pub(crate) fn new() -> Out {
        Out {
            buffer: Vec::new(),
            bytes: 0,
            hashed: 0,
            bytes_max: 0,
            hasher: None,
            shapes: Shapes::default(),
            is_hashed: false,
            is_cut: false,
            out_of_memory: false,
        }
    }

    /// Begins another text.
    pub(crate) fn begin(&mut self, bytes_max: usize) {
        self.bytes = 0;
        self.hashed = 0;
        self.bytes_max = bytes_max;
        self.is_hashed = false;
        self.is_cut = false;
        self.out_of_memory = false;
    }

    /// The text, after [`Out::finish`].
    pub(crate) fn text(&self) -> &[u8] {
        &self.buffer[..self.bytes]
    }

    /// Bytes of the text, without what was forgotten of it.
    #[inline]
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Gives back what a large text has taken, beyond `bytes`.
    pub(crate) fn shrink(&mut self, bytes: usize) {
        if self.buffer.capacity() > bytes {
            self.buffer = Vec::new();
            self.bytes = 0;
        }
    }

    /// Where to write; `None`: [`Out::settle`] or [`Out::grow`] first.
    #[inline]
    pub(crate) fn room(&mut self) -> Option<&mut [u8; ROOM_BYTES]> {
        self.buffer.get_mut(self.bytes..)?.first_chunk_mut()
    }

    /// As many bytes of the room are the text's now.
    #[inline]
    pub(crate) fn wrote(&mut self, bytes: usize) {
        self.bytes += bytes;
    }

    /// Takes back what is behind `bytes`, which has not gone to the hash.
    #[inline]
    pub(crate) fn truncate(&mut self, bytes: usize) {
        self.bytes = bytes;
    }

    /// Hashes the text up to `end`, which cannot change any more, and forgets of it what is not
    /// wanted: the number of bytes that the rest has come forward.
    pub(crate) fn settle(&mut self, end: usize) -> usize {
        // The last blank may be the end of the text, which has none there.
        let end = end.saturating_sub(1);
        if end <= self.hashed {
            return 0;
        }
        self.hash(end);
        let kept = self.bytes_max.min(end);
        self.is_cut |= kept < end;
        self.buffer.copy_within(end..self.bytes, kept);
        self.bytes -= end - kept;
        self.hashed = kept;
        end - kept
    }

    /// Makes room, if there is none. `false`: there is not enough memory.
    pub(crate) fn grow(&mut self) -> bool {
        if self.room().is_some() {
            return true;
        }
        let more = self.buffer.len().max(BUFFER_BYTES);
        self.out_of_memory |= self.buffer.try_reserve_exact(more).is_err();
        if !self.out_of_memory {
            self.buffer.resize(self.buffer.len() + more, 0);
        }
        !self.out_of_memory
    }

    fn hash(&mut self, end: usize) {
        let hasher = self.hasher.get_or_insert_with(|| Box::new(hasher()));
        if !self.is_hashed {
            hasher.reset();
            self.is_hashed = true;
        }
        hasher.update(&self.buffer[self.hashed..end]);
    }

    /// The hash of the text up to `end`.
    fn whole_hash(&mut self, end: usize) -> [u8; 16] {
        if self.is_hashed {
            self.hash(end);
            self.hashed = end;
            return self.hasher.as_deref().map_or([0; 16], finished);
        }
        let hasher = self.hasher.get_or_insert_with(|| Box::new(hasher()));
        self.shapes.hash_of(&self.buffer[..end], |text| {
            hasher.reset();
            finished(hasher.update(text))
        })
    }

    /// Ends the text: no blank stands at its end.
    pub(crate) fn finish(&mut self) -> Finished {
        if self.bytes > self.hashed && self.buffer[self.bytes - 1] == b' ' {
            self.bytes -= 1;
        }
        let end = self.bytes;
        let hash = self.whole_hash(end);
        if end > self.bytes_max {
            self.is_cut = true;
            self.bytes = self.bytes_max;
        }
        Finished { hash, is_cut: self.is_cut, out_of_memory: self.out_of_memory }
    }
}

fn finished(hasher: &blake3::Hasher) -> [u8; 16] {
    let mut hash = [0; 16];
    hash.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
    hash
}

/// BLAKE3 in its mode for a key that says what it is for: digests of another version, and hashes
/// of anything else, are never the same by accident.
fn hasher() -> blake3::Hasher {
    blake3::Hasher::new_derive_key("tachograph statement digest 1")
}
