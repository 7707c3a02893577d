//! Sixteen bytes of a text at a time.
//!
//! (`wide`: SSE2 on x86-64, which every such processor has, NEON on ARM, without `unsafe` here;
//! the digests are made with it, too.)

use wide::{CmpEq, CmpLt, i8x16};

/// Bytes of a block.
pub(crate) const BLOCK_BYTES: usize = 16;

/// Bytes of a text from some place on, zeros beyond its end.
#[derive(Clone, Copy)]
pub(crate) struct Block(u128);

/// The place of the first bit that is set, or [`BLOCK_BYTES`].
#[inline]
fn first(bits: u32) -> usize {
    (bits | 1 << BLOCK_BYTES).trailing_zeros() as usize
}

/// What of a block a [form](crate::form) has to look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Marks {
    /// One bit for each byte, the first byte's the lowest.
    bits: u32,
    /// A digit behind the block may begin a number.
    pub(crate) last_is_opener: bool,
}

impl Marks {
    /// The place of the first one, or [`BLOCK_BYTES`].
    #[inline]
    pub(crate) fn first(self) -> usize {
        first(self.bits)
    }
}

/// For each length the bits of a block that count.
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
    pub(crate) const EMPTY: Block = Block(0);

    /// The block at `at`; beyond the end of the text it is empty.
    #[inline]
    pub(crate) fn at(text: &[u8], at: usize) -> Block {
        Block::begin(text, text.get(at..).unwrap_or_default())
    }

    /// The block that `rest` begins with, which is the end of the text.
    #[inline]
    pub(crate) fn begin(text: &[u8], rest: &[u8]) -> Block {
        match rest.first_chunk::<BLOCK_BYTES>() {
            Some(bytes) => Block(u128::from_le_bytes(*bytes)),
            None => Block::near_end(text, rest),
        }
    }

    #[inline]
    fn near_end(text: &[u8], rest: &[u8]) -> Block {
        match text.last_chunk::<BLOCK_BYTES>() {
            // Without a copy of a length that varies.
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

    /// All of it as a number.
    #[inline]
    pub(crate) fn number(self) -> u128 {
        self.0
    }

    /// The first `bytes` of it as a number, zeros behind them.
    #[inline]
    pub(crate) fn beginning(self, bytes: usize) -> u128 {
        self.0 & MASKS.get(bytes).copied().unwrap_or(u128::MAX)
    }

    #[inline]
    fn vector(self) -> i8x16 {
        let Block(number) = self;
        i8x16::new(number.to_le_bytes().map(|byte| byte as i8))
    }

    /// One bit for each byte that a [form](crate::form) has to look at: a digit behind a byte that
    /// may open a number, quotes, and what can begin a comment. `is_open`: the byte before the
    /// block is one that may.
    #[inline]
    pub(crate) fn marks(self, is_open: bool) -> Marks {
        let bytes = self.vector();
        let digits = within(bytes, b'0', b'9');
        let low = (bytes & all(0xC0)).cmp_eq(all(0));
        // `"` and `#`, `'` and `/`, `-` and `/`: pairs that differ in one bit.
        let others = (bytes | all(1)).cmp_eq(all(b'#'))
            | (bytes | all(8)).cmp_eq(all(b'/'))
            | (bytes | all(2)).cmp_eq(all(b'/'))
            | bytes.cmp_eq(all(b'`'))
            | bytes.cmp_eq(all(b'\\'));
        let digits = bits(digits);
        let openers = bits(low) & !digits;
        let opened = openers << 1 | u32::from(is_open);
        let last_is_opener = opened >> BLOCK_BYTES & 1 != 0;
        Marks { bits: (digits & opened) | bits(others), last_is_opener }
    }

    /// How many bytes are before the first `one` or `other`.
    #[inline]
    pub(crate) fn bytes_until(self, one: u8, other: u8) -> usize {
        let bytes = self.vector();
        first(bits(bytes.cmp_eq(all(one)) | bytes.cmp_eq(all(other))))
    }
}

/// The place of the first `one` or `other`, neither of them 0, at or behind `at`; `None`: there is
/// none.
#[inline]
pub(crate) fn find(text: &[u8], mut at: usize, one: u8, other: u8) -> Option<usize> {
    while at < text.len() {
        let before = Block::at(text, at).bytes_until(one, other);
        at = at.saturating_add(before);
        if before < BLOCK_BYTES {
            return Some(at);
        }
    }
    None
}

#[inline]
fn all(byte: u8) -> i8x16 {
    i8x16::splat(byte as i8)
}

/// The bytes from `first` to `last`. They are compared as signed: the least of those is `first`.
#[inline]
#[allow(clippy::arithmetic_side_effects)] // Each byte wraps round by itself.
fn within(bytes: i8x16, first: u8, last: u8) -> i8x16 {
    let least = i8::MIN as u8;
    let moved = bytes + all(least.wrapping_sub(first));
    let end = least.wrapping_add(last.wrapping_sub(first)).wrapping_add(1);
    moved.cmp_lt(all(end))
}

#[inline]
fn bits(mask: i8x16) -> u32 {
    mask.move_mask() as u32
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
    fn marks_are_what_a_form_looks_at() {
        for byte in 0..=255_u8 {
            for around in [b'a', b' ', b'7', b'.', 0xC3] {
                for place in 0..BLOCK_BYTES {
                    let mut bytes = [around; BLOCK_BYTES];
                    bytes[place] = byte;
                    for is_open in [false, true] {
                        let mut expected = 0;
                        let mut opens = is_open;
                        for (index, byte) in bytes.iter().enumerate() {
                            let is_digit = byte.is_ascii_digit();
                            let is_mark = (is_digit && opens) || b"'\"`\\#-/".contains(byte);
                            expected |= u32::from(is_mark) << index;
                            opens = *byte < 0x40 && !is_digit;
                        }
                        let marks = Block::at(&bytes, 0).marks(is_open);
                        let expected = Marks { bits: expected, last_is_opener: opens };
                        assert_eq!(marks, expected, "{bytes:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn bytes_are_found_wherever_they_are() {
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
