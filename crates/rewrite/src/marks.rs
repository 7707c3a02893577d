//! The special bytes of a [form](crate::form), sixteen at a time.

use tacho_sql::block::{BLOCK_BYTES, Bits, Block, all, bits, within};
use wide::CmpEq;

/// The bytes of a block that a [form](crate::form) must check.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Marks {
    bits: Bits,
    /// A digit after the block may begin a number.
    pub(crate) last_is_opener: bool,
}

impl Marks {
    /// The index of the first one, or [`BLOCK_BYTES`].
    #[inline]
    pub(crate) fn first(self) -> usize {
        self.bits.first()
    }
}

/// One bit for each byte that a [form](crate::form) must check: a digit after a byte that may open
/// a number, quotes, and bytes that can begin a comment. `is_open`: the byte before the block may
/// open a number.
#[inline]
pub(crate) fn marks(block: Block, is_open: bool) -> Marks {
    let bytes = block.vector();
    let digits = within(bytes, b'0', b'9');
    let low = (bytes & all(0xC0)).cmp_eq(all(0));
    // `"` and `#`, `'` and `/`, `-` and `/`: pairs that differ in one bit.
    let others = (bytes | all(1)).cmp_eq(all(b'#'))
        | (bytes | all(8)).cmp_eq(all(b'/'))
        | (bytes | all(2)).cmp_eq(all(b'/'))
        | bytes.cmp_eq(all(b'`'))
        | bytes.cmp_eq(all(b'\\'));
    let Bits(digits) = bits(digits);
    let openers = bits(low).0 & !digits;
    let opened = openers << 1 | u32::from(is_open);
    let last_is_opener = opened >> BLOCK_BYTES & 1 != 0;
    Marks { bits: Bits((digits & opened) | bits(others).0), last_is_opener }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_the_bytes_that_a_form_checks() {
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
                        let marks = marks(Block::at(&bytes, 0), is_open);
                        let expected = (expected, opens);
                        assert_eq!((marks.bits.0, marks.last_is_opener), expected, "{bytes:?}");
                    }
                }
            }
        }
    }
}
