//! What a digest needs from sixteen bytes: where words and numbers end, and the special bytes.

use wide::CmpEq;

use crate::block::{BLOCK_BYTES, Bits, Block, all, bits, within};

/// The last of the control characters in [`Parts::others`].
pub(crate) const CONTROL_MAX: u8 = 8;

/// Classes of some bytes: each number has a bit for each byte, the lowest for the first byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Parts<B> {
    pub(crate) digits: B,
    /// Bytes after which a digit begins a number ([`crate::class::opens_number`]).
    pub(crate) openers: B,
    /// `'`, backticks and backslashes.
    pub(crate) quotes: B,
    /// Other bytes that can begin a literal or a comment, and the first control characters.
    pub(crate) others: B,
}

impl Block {
    #[inline]
    fn words(self) -> Bits {
        let bytes = self.vector();
        let letters = within(bytes | all(0x20), b'a', b'z');
        let others = bytes.cmp_eq(all(b'_')) | bytes.cmp_eq(all(b'$'));
        bits(letters | within(bytes, b'0', b'9') | others)
    }

    #[inline]
    fn digits(self) -> Bits {
        bits(within(self.vector(), b'0', b'9'))
    }

    /// Number of letters, digits, `_` and `$` at its beginning.
    #[inline]
    pub(crate) fn word_bytes(self) -> usize {
        self.words().first_unset()
    }

    /// Number of digits at its beginning.
    #[inline]
    pub(crate) fn digit_bytes(self) -> usize {
        self.digits().first_unset()
    }

    /// The same, with or without a blank before them, and without a branch for it.
    #[inline]
    pub(crate) fn digit_bytes_after_blank(self) -> usize {
        let Bits(blanks) = bits(self.vector().cmp_eq(all(b' ')));
        Bits(self.digits().0 | blanks & 1).first_unset()
    }

    /// A bit for each letter, digit, `_` and `$`, the first byte's the lowest.
    #[inline]
    pub(crate) fn word_bits(self) -> u16 {
        self.words().0 as u16
    }

    /// The same for control characters and blanks.
    #[inline]
    pub(crate) fn gap_bits(self) -> u16 {
        bits(within(self.vector(), 0, b' ')).0 as u16
    }

    /// The classes of its bytes, for a [form](crate::digest::form).
    #[inline]
    pub(crate) fn parts(self) -> Parts<u16> {
        let bytes = self.vector();
        let is = |byte| bytes.cmp_eq(all(byte));
        let bits = |mask| bits(mask).0 as u16;
        let digits = within(bytes, b'0', b'9');
        let is_low = (bytes & all(0xC0)).cmp_eq(all(0));
        let operators = (bytes | all(2)).cmp_eq(all(b'/'));
        let others = operators | within(bytes, b'"', b'#') | within(bytes, 0, CONTROL_MAX);
        Parts {
            digits: bits(digits),
            openers: bits(is_low) & !bits(digits | is(b'.') | is(b'$')),
            quotes: bits(is(b'\'') | is(b'`') | is(b'\\')),
            others: bits(others),
        }
    }
}

/// Where the digits that begin at `at` end; `at` is not beyond the end.
#[inline]
pub(crate) fn digits_end(text: &[u8], mut at: usize) -> usize {
    loop {
        let digits = Block::at(text, at).digit_bytes();
        at += digits;
        if digits < BLOCK_BYTES {
            return at;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::class::{is_word, opens_number};

    /// One byte at a time.
    fn which(block: Block, is: impl Fn(u8) -> bool) -> u32 {
        let bit = |(index, byte): (usize, &u8)| u32::from(is(*byte)) << index;
        block.bytes().iter().enumerate().map(bit).fold(0, |bits, bit| bits | bit)
    }

    #[test]
    fn every_byte_has_its_class_at_every_offset() {
        for byte in 0..=255_u8 {
            for around in [b'a', b' ', b'7', 0xC3] {
                for place in 0..BLOCK_BYTES {
                    let mut bytes = [around; BLOCK_BYTES];
                    bytes[place] = byte;
                    let block = Block::at(&bytes, 0);
                    assert_eq!(block.words().0, which(block, is_word), "{bytes:?}");
                    let digits = which(block, |byte| byte.is_ascii_digit());
                    assert_eq!(block.digits().0, digits, "{bytes:?}");
                    let either = which(block, |byte| byte == b'\'' || byte == 0xA3);
                    assert_eq!(block.either(b'\'', 0xA3).0, either, "{bytes:?}");
                    let which = |is: fn(u8) -> bool| which(block, is) as u16;
                    let parts = Parts {
                        digits: digits as u16,
                        openers: which(opens_number),
                        quotes: which(|byte| matches!(byte, b'\'' | b'`' | b'\\')),
                        others: which(|byte| {
                            matches!(byte, b'"' | b'#' | b'-' | b'/' | 0..=CONTROL_MAX)
                        }),
                    };
                    assert_eq!(block.parts(), parts, "{bytes:?}");
                }
            }
        }
        assert_eq!(Block::at(b"abc_$9Z.", 0).word_bytes(), 7);
        assert_eq!(Block::at(&[b'a'; 20], 0).word_bytes(), BLOCK_BYTES);
        assert_eq!(Block::at(b"12e5", 0).digit_bytes(), 2);
        assert_eq!(Block::at(b" 12,", 0).digit_bytes_after_blank(), 3);
        assert_eq!(Block::at(b"12 ,", 0).digit_bytes_after_blank(), 2);
        assert_eq!(Block::at(b"  12", 0).digit_bytes_after_blank(), 1);
        assert_eq!(Block::at(b"a1 b\0", 0).gap_bits(), !0b1011);
        assert_eq!(Block::at(b"a1=b\0", 0).word_bits(), 0b1011);
        assert_eq!(Block::at(b"it's", 0).bytes_until(b'\'', b'\\'), 2);
        assert_eq!(Block::at(b"its", 0).bytes_until(b'\'', b'\\'), BLOCK_BYTES);
    }
}
