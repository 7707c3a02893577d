//! Reads sixteen bytes of a text at a time, without a branch for each byte and without a panic.
//!
//! Names, numbers and short strings nearly always end within one block. (`wide`: SSE2 on x86-64,
//! which every such processor has, NEON on ARM, and without `unsafe` here.) Digests and rules that
//! rewrite use it; what only one of them needs is in its own module.

pub use wide::i8x16;
use wide::{CmpEq, CmpLt};

/// Bytes of a block.
pub const BLOCK_BYTES: usize = 16;

/// Bytes of a text from some offset, zeros beyond its end.
#[derive(Clone, Copy, Debug)]
pub struct Block(u128);

/// One bit for each byte of a block, the first byte's the lowest.
#[derive(Clone, Copy, Debug)]
pub struct Bits(pub u32);

impl Bits {
    /// The index of the first bit that is set, or [`BLOCK_BYTES`].
    #[inline]
    pub fn first(self) -> usize {
        (self.0 | 1 << BLOCK_BYTES).trailing_zeros() as usize
    }

    /// The index of the first bit that is not set, or [`BLOCK_BYTES`].
    #[inline]
    pub fn first_unset(self) -> usize {
        Bits(!self.0).first()
    }
}

/// For each length, a mask of the bits of a block that count.
#[allow(clippy::indexing_slicing)] // When it is compiled.
static MASKS: [u128; BLOCK_BYTES + 1] = {
    let mut masks = [0; BLOCK_BYTES + 1];
    let mut bytes = 1;
    while bytes <= BLOCK_BYTES {
        masks[bytes] = masks[bytes - 1] << 8 | 0xFF;
        bytes += 1;
    }
    masks
};

impl Block {
    /// No bytes.
    pub const EMPTY: Block = Block(0);

    /// The block at `at`; beyond the end of the text it is empty.
    #[inline]
    pub fn at(text: &[u8], at: usize) -> Block {
        Block::begin(text, text.get(at..).unwrap_or_default())
    }

    /// The block at the beginning of `rest`, which is the end of the text.
    #[inline]
    pub fn begin(text: &[u8], rest: &[u8]) -> Block {
        match rest.first_chunk::<BLOCK_BYTES>() {
            Some(bytes) => Block(u128::from_le_bytes(*bytes)),
            None => Block::near_end(text, rest),
        }
    }

    #[inline]
    fn near_end(text: &[u8], rest: &[u8]) -> Block {
        match text.last_chunk::<BLOCK_BYTES>() {
            // Without a copy of variable length.
            Some(last) => {
                let missing = BLOCK_BYTES.saturating_sub(rest.len()) as u32;
                let bits = missing.wrapping_mul(u8::BITS);
                Block(u128::from_le_bytes(*last).checked_shr(bits).unwrap_or(0))
            }
            None => {
                let number = |number: u128, byte: &u8| number << u8::BITS | u128::from(*byte);
                Block(rest.iter().rev().fold(0, number))
            }
        }
    }

    /// The first bytes of a window, which has enough of them.
    #[inline]
    pub fn of<const N: usize>(window: &[u8; N]) -> Block {
        const { assert!(N >= BLOCK_BYTES) };
        window.first_chunk().map_or(Block(0), |bytes| Block(u128::from_le_bytes(*bytes)))
    }

    /// The block of a [number](Block::number).
    #[inline]
    pub const fn of_number(number: u128) -> Block {
        Block(number)
    }

    /// The block as a number.
    #[inline]
    pub const fn number(self) -> u128 {
        self.0
    }

    /// Its first `bytes` as a number, zeros after them.
    #[inline]
    pub fn beginning(self, bytes: usize) -> u128 {
        self.0 & MASKS.get(bytes).copied().unwrap_or(u128::MAX)
    }

    /// Its bytes.
    #[inline]
    pub fn bytes(self) -> [u8; BLOCK_BYTES] {
        self.0.to_le_bytes()
    }

    /// Its bytes, as a vector.
    #[inline]
    pub fn vector(self) -> i8x16 {
        i8x16::new(self.bytes().map(|byte| byte as i8))
    }

    /// A bit for each `one` and `other`.
    #[inline]
    pub fn either(self, one: u8, other: u8) -> Bits {
        let bytes = self.vector();
        bits(bytes.cmp_eq(all(one)) | bytes.cmp_eq(all(other)))
    }

    /// How many bytes are before the first `one` or `other`.
    #[inline]
    pub fn bytes_until(self, one: u8, other: u8) -> usize {
        self.either(one, other).first()
    }
}

/// The index of the first `one` or `other`, neither of them 0, at or after `at`; `None`: there is
/// none.
#[inline]
pub fn find(text: &[u8], mut at: usize, one: u8, other: u8) -> Option<usize> {
    while at < text.len() {
        let before = Block::at(text, at).bytes_until(one, other);
        at = at.saturating_add(before);
        if before < BLOCK_BYTES {
            return Some(at);
        }
    }
    None
}

/// A block filled with one byte.
#[inline]
pub fn all(byte: u8) -> i8x16 {
    i8x16::splat(byte as i8)
}

/// The bytes from `first` to `last`, by a signed comparison: `first` is the least value.
#[inline]
#[allow(clippy::arithmetic_side_effects)] // Each byte wraps alone.
pub fn within(bytes: i8x16, first: u8, last: u8) -> i8x16 {
    let least = i8::MIN as u8;
    let moved = bytes + all(least.wrapping_sub(first));
    let end = least.wrapping_add(last.wrapping_sub(first)).wrapping_add(1);
    moved.cmp_lt(all(end))
}

/// A bit for each byte for which a comparison is true.
#[inline]
pub fn bits(mask: i8x16) -> Bits {
    Bits(mask.move_mask() as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_end_with_the_text() {
        let text: Vec<u8> = (1..=40).collect();
        for end in 0..=text.len() {
            for at in 0..=end + 2 {
                let mut expected = text.get(at..end).unwrap_or_default().to_vec();
                expected.resize(expected.len().max(BLOCK_BYTES), 0);
                expected.truncate(BLOCK_BYTES);
                let block = Block::at(&text[..end], at);
                assert_eq!(block.0.to_le_bytes()[..], expected, "{at}, {end}");
                for bytes in 0..20 {
                    let mut cut = expected.clone();
                    cut[bytes.min(BLOCK_BYTES)..].fill(0);
                    assert_eq!(block.beginning(bytes).to_le_bytes()[..], cut, "{bytes}");
                }
            }
        }
    }

    #[test]
    fn bytes_are_found_at_every_offset() {
        for place in 0..40 {
            let mut text = vec![b'a'; 41];
            text[place] = b'\'';
            for at in 0..41 {
                let expected = (at <= place).then_some(place);
                assert_eq!(find(&text, at, b'\'', b'\\'), expected);
                assert_eq!(find(&text, at, b'\\', b'\''), expected);
            }
        }
        assert_eq!(find(b"", 0, b'a', b'b'), None);
        assert_eq!(find(b"ab", 7, b'a', b'b'), None);
    }
}
