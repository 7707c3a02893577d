//! Character lengths of the client character sets whose characters may end in an ASCII byte.
//!
//! In sjis, cp932, big5, gbk and gb18030 the second byte of a character can be 0x5C or 0x60: it
//! looks like a backslash or a backtick and is neither. In euckr it can be a letter. In every
//! other client character set all bytes of a multi-byte character are above 0x7F, so that
//! reading byte by byte finds the same quotes, escapes and words.
//!
//! The ranges are those of the server's `strings/ctype-*.c`; a byte that starts no valid
//! character is one byte long there as well, which matters: an invalid lead byte before a
//! quote must not swallow the quote.

/// How the bytes of a statement group into characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grouping {
    /// Every ASCII byte stands for itself.
    Bytes,
    /// sjis, cp932.
    Sjis,
    /// big5.
    Big5,
    /// gbk.
    Gbk,
    /// gb18030 (MySQL only).
    Gb18030,
    /// euckr.
    Euckr,
    /// A name unknown to this module.
    Unknown,
}

/// True for character sets with two or four bytes per ASCII character. The server does not
/// take them from clients.
pub fn is_wide(charset: &[u8]) -> bool {
    // ucs2, utf16, utf16le, utf32; checked for every statement.
    matches!(
        charset,
        [b'u' | b'U', b'c' | b'C', ..] | [b'u' | b'U', b't' | b'T', _, b'1' | b'3', ..]
    )
}

/// Single-byte sets, and multi-byte sets without ASCII bytes inside a character.
const BYTEWISE: &[&str] = &[
    "utf8mb4", "utf8mb3", "utf8", "latin1", "binary", "ascii", "armscii8", "cp1250", "cp1251",
    "cp1256", "cp1257", "cp850", "cp852", "cp866", "dec8", "eucjpms", "gb2312", "geostd8", "greek",
    "hebrew", "hp8", "keybcs2", "koi8r", "koi8u", "latin2", "latin5", "latin7", "macce",
    "macroman", "swe7", "tis620", "ujis",
];

impl Grouping {
    /// From the server's name of a character set, or of one of its collations.
    pub fn of(charset: &[u8]) -> Grouping {
        let name = charset.split(|&byte| byte == b'_').next().unwrap_or_default();
        let is = |known: &str| name.eq_ignore_ascii_case(known.as_bytes());
        if BYTEWISE.iter().any(|known| is(known)) {
            Grouping::Bytes
        } else if is("sjis") || is("cp932") {
            Grouping::Sjis
        } else if is("big5") {
            Grouping::Big5
        } else if is("gbk") {
            Grouping::Gbk
        } else if is("gb18030") {
            Grouping::Gb18030
        } else if is("euckr") {
            Grouping::Euckr
        } else {
            Grouping::Unknown
        }
    }

    /// Length in bytes of the character that `rest` begins with; at least 1.
    pub fn char_bytes(self, rest: &[u8]) -> usize {
        let [head, tail, ..] = *rest else { return 1 };
        if head < 0x80 {
            return 1;
        }
        let double = match self {
            Grouping::Bytes | Grouping::Unknown => false,
            Grouping::Sjis => {
                matches!(head, 0x81..=0x9F | 0xE0..=0xFC)
                    && matches!(tail, 0x40..=0x7E | 0x80..=0xFC)
            }
            Grouping::Big5 => {
                matches!(head, 0xA1..=0xF9) && matches!(tail, 0x40..=0x7E | 0xA1..=0xFE)
            }
            Grouping::Gbk => {
                matches!(head, 0x81..=0xFE) && matches!(tail, 0x40..=0x7E | 0x80..=0xFE)
            }
            Grouping::Gb18030 => {
                if let [0x81..=0xFE, 0x30..=0x39, 0x81..=0xFE, 0x30..=0x39, ..] = rest {
                    return 4;
                }
                matches!(head, 0x81..=0xFE) && matches!(tail, 0x40..=0x7E | 0x80..=0xFE)
            }
            Grouping::Euckr => {
                matches!(head, 0x81..=0xFE)
                    && matches!(tail, 0x41..=0x5A | 0x61..=0x7A | 0x81..=0xFE)
            }
        };
        if double { 2 } else { 1 }
    }

    /// True when a byte of a multi-byte character may be an ASCII byte.
    pub fn mixes_ascii(self) -> bool {
        !matches!(self, Grouping::Bytes)
    }
}
