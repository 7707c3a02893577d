//! Text inside a JSON string (RFC 8259, section 7).
//!
//! Only characters that must be escaped are: the quote, the backslash and controls below U+0020.
//! U+007F, U+2028 and U+2029 are legal and stay unchanged, as do bidirectional controls: a viewer
//! decides how to display them, the log contains what was sent.

use crate::charset::TextSink;

/// A [`TextSink`] that escapes.
pub(super) struct EscapedText<'a> {
    out: &'a mut Vec<u8>,
}

impl<'a> EscapedText<'a> {
    pub(super) fn new(out: &'a mut Vec<u8>) -> Self {
        Self { out }
    }
}

impl TextSink for EscapedText<'_> {
    fn text(&mut self, utf8: &[u8]) {
        let mut rest = utf8;
        loop {
            let (plain, special) = rest.split_at(plain_prefix_bytes(rest));
            self.out.extend_from_slice(plain);
            let Some((&byte, tail)) = special.split_first() else { return };
            append_escape(self.out, byte);
            rest = tail;
        }
    }

    fn character(&mut self, character: char) {
        let mut utf8 = [0; 4];
        let utf8 = character.encode_utf8(&mut utf8).as_bytes();
        if let [byte] = *utf8
            && is_special(byte)
        {
            append_escape(self.out, byte);
        } else {
            self.out.extend_from_slice(utf8);
        }
    }
}

const fn is_special(byte: u8) -> bool {
    byte < 0x20 || byte == b'"' || byte == b'\\'
}

/// Whether `bytes` are ASCII without anything to escape, as nearly all names and most statements
/// are. One pass, because it decides whether a field is just copied; without loops for names, and
/// with a last step that overlaps the one before it instead of a loop over single bytes.
pub(super) fn is_plain_ascii(bytes: &[u8]) -> bool {
    match bytes.len() {
        0..8 => not_plain_mask(short_word(bytes)) == 0,
        8..16 => ends_are_plain::<8>(bytes),
        16..32 => ends_are_plain::<16>(bytes),
        _ => {
            let mut found = [0; 32];
            for block in bytes.as_chunks().0 {
                gather(block, &mut found);
            }
            if let Some(last) = bytes.last_chunk() {
                gather(last, &mut found);
            }
            is_none_found(&found)
        }
    }
}

/// Whether the first and the last `N` bytes are plain; they may overlap.
fn ends_are_plain<const N: usize>(bytes: &[u8]) -> bool {
    bytes.first_chunk::<N>().is_some_and(is_plain_block)
        && bytes.last_chunk::<N>().is_some_and(is_plain_block)
}

fn is_plain_block<const N: usize>(block: &[u8; N]) -> bool {
    let mut found = [0; N];
    gather(block, &mut found);
    is_none_found(&found)
}

/// Sets the high bit of `found` if a byte of the block is special or not ASCII. Without comparisons
/// and early exits, so that the compiler generates vector code.
#[inline(always)]
fn gather<const N: usize>(block: &[u8; N], found: &mut [u8; N]) {
    for (found, byte) in found.iter_mut().zip(block) {
        let below_space = byte.wrapping_sub(b' ');
        let quote = (byte ^ b'"').wrapping_sub(1);
        let backslash = (byte ^ b'\\').wrapping_sub(1);
        *found |= byte | below_space | quote | backslash;
    }
}

fn is_none_found<const N: usize>(found: &[u8; N]) -> bool {
    let words = found.as_chunks::<8>().0.iter();
    words.fold(0, |all, word| all | u64::from_le_bytes(*word)) & HIGHS == 0
}

/// Up to seven bytes as one word, padded with copies of some of them and with plain bytes.
/// Overlapping loads are much cheaper than a loop.
fn short_word(bytes: &[u8]) -> u64 {
    const PLAIN: u64 = u64::from_le_bytes([b'a'; 8]);
    match (bytes.first_chunk::<4>(), bytes.last_chunk::<4>(), bytes) {
        (Some(first), Some(last), _) => {
            u64::from(u32::from_le_bytes(*first)) | u64::from(u32::from_le_bytes(*last)) << 32
        }
        (_, _, [first, .., last]) => {
            let middle = bytes[bytes.len() / 2];
            u64::from_le_bytes([*first, middle, *last, b'a', b'a', b'a', b'a', b'a'])
        }
        (_, _, [only]) => PLAIN & !0xFF | u64::from(*only),
        _ => PLAIN,
    }
}

/// Not 0 if some byte of the word is special or not ASCII.
const fn not_plain_mask(word: u64) -> u64 {
    // Borrows can only start at a byte that is special or not ASCII, so they cause no wrong result.
    let below_space = word.wrapping_sub(SPACES);
    let quote = (word ^ QUOTES).wrapping_sub(ONES);
    let backslash = (word ^ BACKSLASHES).wrapping_sub(ONES);
    (word | below_space | quote | backslash) & HIGHS
}

const ONES: u64 = u64::from_le_bytes([0x01; 8]);
const HIGHS: u64 = u64::from_le_bytes([0x80; 8]);
const SPACES: u64 = u64::from_le_bytes([b' '; 8]);
const QUOTES: u64 = u64::from_le_bytes([b'"'; 8]);
const BACKSLASHES: u64 = u64::from_le_bytes([b'\\'; 8]);

/// Length of the run of bytes that need no escape at the start of `bytes`.
fn plain_prefix_bytes(bytes: &[u8]) -> usize {
    // Without an early exit inside a block the compiler generates vector code.
    let (blocks, _) = bytes.as_chunks::<32>();
    let mut plain = 0;
    for block in blocks {
        if block.iter().fold(false, |special, byte| special | is_special(*byte)) {
            break;
        }
        plain += block.len();
    }
    let (words, tail) = bytes[plain..].as_chunks::<8>();
    for word in words {
        let mask = special_mask(u64::from_le_bytes(*word));
        if mask != 0 {
            return plain + mask.trailing_zeros() as usize / 8;
        }
        plain += word.len();
    }
    plain + tail.iter().take_while(|byte| !is_special(**byte)).count()
}

/// The high bit of the *first* special byte of a little-endian word, perhaps with bits of later
/// bytes; 0 if no byte is special.
///
/// A subtraction borrows only from more significant bytes, and only if there was a match below
/// them; so the lowest set bit is always right.
const fn special_mask(word: u64) -> u64 {
    let below_space = word.wrapping_sub(SPACES) & !word;
    let quote = (word ^ QUOTES).wrapping_sub(ONES) & !(word ^ QUOTES);
    let backslash = (word ^ BACKSLASHES).wrapping_sub(ONES) & !(word ^ BACKSLASHES);
    (below_space | quote | backslash) & HIGHS
}

fn append_escape(out: &mut Vec<u8>, byte: u8) {
    const HEX_DIGITS: &[u8; 16] = b"0123456789abcdef";
    let short = match byte {
        b'"' | b'\\' => byte,
        0x08 => b'b',
        0x0C => b'f',
        b'\n' => b'n',
        b'\r' => b'r',
        b'\t' => b't',
        _ => {
            let digits = [byte >> 4, byte & 0xF].map(|digit| HEX_DIGITS[usize::from(digit)]);
            out.extend_from_slice(b"\\u00");
            out.extend_from_slice(&digits);
            return;
        }
    };
    out.extend_from_slice(&[b'\\', short]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_special_byte_is_found_at_every_offset() {
        for special in 0..=255_u8 {
            for length in (1..17).chain([31, 32, 33, 63, 64, 71]) {
                for at in 0..length {
                    // 0x21 and 0xA0 are next to special bytes, in value and in the low bits.
                    for filler in [b'!', b'#', b']', b' ', 0x7F, 0x80, 0xA0, 0xFF] {
                        let mut bytes = vec![filler; length];
                        bytes[at] = special;
                        let expected = if is_special(special) { at } else { length };
                        assert_eq!(plain_prefix_bytes(&bytes), expected, "{special:#x} {length}");
                        let plain = |byte: &u8| byte.is_ascii() && !is_special(*byte);
                        let expected = bytes.iter().all(plain);
                        assert_eq!(is_plain_ascii(&bytes), expected, "{special:#x} {length}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_special_byte_does_not_hide_another() {
        let mut out = Vec::new();
        EscapedText::new(&mut out).text(b"\x00\x01\x1F\x20\"\"\\\\\n\r\t\x08\x0C\x7F\xE2\x80\xA8!");
        let expected = b"\\u0000\\u0001\\u001f \\\"\\\"\\\\\\\\\\n\\r\\t\\b\\f\x7F\xE2\x80\xA8!";
        assert_eq!(out, expected);
    }
}
