//! The token that a byte can begin.

/// Classes of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Class {
    /// White space and control characters.
    Space,
    /// A letter, `_` or `$`.
    Letter,
    /// `0` to `9`.
    Digit,
    /// `'` and `"`.
    Quote,
    /// A backtick.
    Backtick,
    /// Above 0x7F: depends on the character set.
    High,
    /// `(`.
    Open,
    /// `)`.
    Close,
    /// The first byte of a comment or of an operator of several bytes, or a byte whose meaning
    /// depends on the next.
    Special,
    /// An operator or a bracket of one byte.
    Single,
}

/// The class of each byte.
pub static CLASSES: [Class; 256] = {
    let mut classes = [Class::Single; 256];
    let mut byte = 0;
    while byte < 256 {
        classes[byte] = match byte as u8 {
            0..=b' ' | 0x7F => Class::Space,
            b'A'..=b'Z' | b'a'..=b'z' | b'_' | b'$' => Class::Letter,
            b'0'..=b'9' => Class::Digit,
            b'\'' | b'"' => Class::Quote,
            b'`' => Class::Backtick,
            0x80.. => Class::High,
            b'(' => Class::Open,
            b')' => Class::Close,
            b'#' | b'-' | b'/' | b'*' | b'.' | b'@' | b'<' | b'>' | b'!' | b'&' | b'|' | b':'
            | b'\\' | b'?' => Class::Special,
            _ => Class::Single,
        };
        byte += 1;
    }
    classes
};

/// Whether an ASCII byte may be part of a name without quotes.
#[inline]
pub const fn is_word(byte: u8) -> bool {
    matches!(CLASSES[byte as usize], Class::Letter | Class::Digit)
}

/// Whether a byte after a word may change its meaning: the point of a qualified name, a quote, or
/// the first byte of a character beyond ASCII.
#[inline]
pub fn is_joint(byte: u8) -> bool {
    static JOINTS: [bool; 256] = {
        let mut joints = [false; 256];
        joints[b'.' as usize] = true;
        joints[b'\'' as usize] = true;
        let mut byte = 0x80;
        while byte < 256 {
            joints[byte] = true;
            byte += 1;
        }
        joints
    };
    JOINTS[usize::from(byte)]
}

/// Whether a digit after this byte certainly begins a number: it is not part of a name, of another
/// number, or of a variable. (After bytes from 0x40 it may, too.)
#[inline]
pub const fn opens_number(byte: u8) -> bool {
    byte < 0x40 && !matches!(byte, b'0'..=b'9' | b'.' | b'$')
}

/// Whether a number ends before this byte, if everything before it is digits.
#[inline]
pub fn ends_number(byte: u8) -> bool {
    static ENDS: [bool; 256] = {
        let mut ends = [false; 256];
        let mut byte = 0;
        while byte < 0x80 {
            ends[byte] = byte as u8 != b'.' && !is_word(byte as u8);
            byte += 1;
        }
        ends
    };
    ENDS[usize::from(byte)]
}
