//! Converts bytes of any character set of the server to Unicode and back.
//!
//! The server's own conversion is the reference: `charset/tables` is generated from a running
//! MariaDB 10.11 by `scripts/charset-tables.py`, and a test compares the decoder with the server's
//! answer for every sequence. No other library agrees with it: the server's latin1 is cp1252 with
//! C1 controls in its gaps, its sjis keeps the ASCII backslash, its euckr is cp949.
//!
//! Decoding reports whether it was exact. Only an exact text gives the bytes back; for any other
//! text the log also keeps the bytes. [`restore`] reverses both.

mod multi;
mod one_byte;
mod tables;
mod unicode;

use std::sync::LazyLock;

use base64::Engine as _;

use multi::Table;
use one_byte::OneByte;
use tables::one_byte as t;
use unicode::Width;

/// Whether a decoded text alone gives the original bytes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Fidelity {
    /// Encoding the text in the same character set gives exactly the same bytes.
    Exact,
    /// It does not: something was ill-formed or unassigned (shown as U+FFFD), or another byte
    /// sequence is the usual one for the same character.
    Inexact,
}

impl Fidelity {
    fn exact_if(exact: bool) -> Self {
        if exact { Self::Exact } else { Self::Inexact }
    }
}

/// The destination of decoded text.
pub trait TextSink {
    /// Appends UTF-8 text.
    fn text(&mut self, utf8: &[u8]);
    /// Appends one character.
    fn character(&mut self, character: char);
}

impl TextSink for Vec<u8> {
    fn text(&mut self, utf8: &[u8]) {
        self.extend_from_slice(utf8);
    }

    fn character(&mut self, character: char) {
        self.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
    }
}

/// A character set of the server.
#[derive(Debug)]
pub struct Charset {
    name: &'static str,
    codec: Codec,
}

#[derive(Debug)]
enum Codec {
    Utf8,
    Utf16 { big_endian: bool },
    FixedWidth(Width),
    OneByte(&'static OneByte),
    Multi(&'static LazyLock<Table>),
}

impl Charset {
    /// UTF-8: the server's names, messages and most statements.
    pub const UTF8MB4: &'static Charset = &ALL[0];
    /// No character set. Bytes that are valid UTF-8 are displayed as text.
    pub const BINARY: &'static Charset = &ALL[1];

    /// All character sets of MariaDB 10.11.
    pub fn all() -> &'static [Charset] {
        &ALL
    }

    /// The set with this name on the server; `utf8` is `utf8mb3`, as in the server.
    pub fn by_name(name: &[u8]) -> Option<&'static Charset> {
        let name = if name == b"utf8" { b"utf8mb3" } else { name };
        ALL.iter().find(|charset| charset.name.as_bytes() == name)
    }

    /// The server's name for it.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Whether ASCII bytes always stand for themselves and need no decoding.
    pub fn keeps_ascii(&self) -> bool {
        match &self.codec {
            Codec::Utf8 | Codec::Multi(_) => true,
            Codec::OneByte(set) => set.ascii_compatible,
            Codec::Utf16 { .. } | Codec::FixedWidth(_) => false,
        }
    }

    /// Whether each byte is a character.
    pub fn has_one_byte_characters(&self) -> bool {
        matches!(self.codec, Codec::OneByte(_))
    }

    /// Converts `bytes` to Unicode and reports whether the text alone gives them back.
    ///
    /// UTF-8 is strict: surrogates and overlong forms are ill-formed. Four-byte sequences in
    /// `utf8mb3` are still text; the server itself would display them as `????`.
    pub fn decode<S: TextSink>(&self, bytes: &[u8], sink: &mut S) -> Fidelity {
        match &self.codec {
            Codec::Utf8 => unicode::decode_utf8(bytes, sink),
            Codec::Utf16 { big_endian } => unicode::decode_utf16(bytes, *big_endian, sink),
            Codec::FixedWidth(width) => unicode::decode_fixed_width(bytes, *width, sink),
            Codec::OneByte(set) => set.decode(bytes, sink),
            Codec::Multi(table) => table.decode(bytes, sink),
        }
    }

    /// Where to cut `bytes` so that at most `bytes_max` remain and no character is cut in two.
    pub fn cut(&self, bytes: &[u8], bytes_max: usize) -> usize {
        if bytes.len() <= bytes_max {
            return bytes.len();
        }
        match &self.codec {
            Codec::Utf8 => unicode::cut_utf8(bytes, bytes_max),
            Codec::Utf16 { big_endian } => unicode::cut_utf16(bytes, bytes_max, *big_endian),
            Codec::FixedWidth(width) => bytes_max - bytes_max % width.bytes(),
            Codec::OneByte(_) => bytes_max,
            Codec::Multi(table) => table.cut(bytes, bytes_max),
        }
    }

    /// Converts `text` to bytes of this set: the inverse of an exact [`Charset::decode`].
    ///
    /// # Errors
    ///
    /// [`RestoreError::NotInCharset`] if the set does not have a character of `text`.
    pub fn encode(&self, text: &str) -> Result<Vec<u8>, RestoreError> {
        let encoded = match &self.codec {
            Codec::Utf8 => Ok(text.as_bytes().to_vec()),
            Codec::Utf16 { big_endian } => Ok(unicode::encode_utf16(text, *big_endian)),
            Codec::FixedWidth(width) => unicode::encode_fixed_width(text, *width),
            Codec::OneByte(set) => set.encode(text),
            Codec::Multi(table) => table.encode(text),
        };
        encoded.map_err(|character| RestoreError::NotInCharset { character, charset: self.name })
    }
}

/// Why the original bytes of a field cannot be restored.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum RestoreError {
    /// The `_b64` field is not base64.
    #[error("the _b64 field is not base64: {0}")]
    Base64(#[from] base64::DecodeError),
    /// The text has a character that its character set does not have.
    #[error("character set {charset} has no {character:?}")]
    NotInCharset {
        /// The first such character.
        character: char,
        /// The server's name of the set.
        charset: &'static str,
    },
}

/// Restores the original bytes of a field of a log line: from its `_b64` companion if the line has
/// one, otherwise from its text, which is in `charset`.
///
/// # Errors
///
/// If the line was not written by this product or was changed afterwards: see [`RestoreError`].
pub fn restore(
    text: &str,
    original_b64: Option<&str>,
    charset: &Charset,
) -> Result<Vec<u8>, RestoreError> {
    match original_b64 {
        Some(original) => Ok(base64::engine::general_purpose::STANDARD.decode(original)?),
        None => charset.encode(text),
    }
}

/// Length of the run of ASCII bytes that `bytes` starts with.
fn ascii_prefix_bytes(bytes: &[u8]) -> usize {
    let words = bytes.chunks_exact(8).take_while(|word| word.is_ascii()).count();
    let start = words * 8;
    start + bytes[start..].iter().take_while(|byte| byte.is_ascii()).count()
}

const fn one_byte(name: &'static str, set: &'static OneByte) -> Charset {
    Charset { name, codec: Codec::OneByte(set) }
}

const fn multi(name: &'static str, table: &'static LazyLock<Table>) -> Charset {
    Charset { name, codec: Codec::Multi(table) }
}

/// Two tables of 128 KiB and one of 256 KiB each, built at the first use of the set.
macro_rules! table {
    ($charset:ident) => {{
        static TABLE: LazyLock<Table> = LazyLock::new(|| Table::new(&tables::$charset::SOURCE));
        multi(stringify!($charset), &TABLE)
    }};
}

// The usual client character sets come first, because `by_name` searches from the front.
static ALL: [Charset; 40] = [
    Charset { name: "utf8mb4", codec: Codec::Utf8 },
    Charset { name: "binary", codec: Codec::Utf8 },
    Charset { name: "utf8mb3", codec: Codec::Utf8 },
    one_byte("latin1", &t::LATIN1),
    table!(big5),
    table!(cp932),
    table!(eucjpms),
    table!(euckr),
    table!(gb2312),
    table!(gbk),
    table!(sjis),
    table!(ujis),
    Charset { name: "ucs2", codec: Codec::FixedWidth(Width::Ucs2) },
    Charset { name: "utf16", codec: Codec::Utf16 { big_endian: true } },
    Charset { name: "utf16le", codec: Codec::Utf16 { big_endian: false } },
    Charset { name: "utf32", codec: Codec::FixedWidth(Width::Utf32) },
    one_byte("armscii8", &t::ARMSCII8),
    one_byte("ascii", &t::ASCII),
    one_byte("cp1250", &t::CP1250),
    one_byte("cp1251", &t::CP1251),
    one_byte("cp1256", &t::CP1256),
    one_byte("cp1257", &t::CP1257),
    one_byte("cp850", &t::CP850),
    one_byte("cp852", &t::CP852),
    one_byte("cp866", &t::CP866),
    one_byte("dec8", &t::DEC8),
    one_byte("geostd8", &t::GEOSTD8),
    one_byte("greek", &t::GREEK),
    one_byte("hebrew", &t::HEBREW),
    one_byte("hp8", &t::HP8),
    one_byte("keybcs2", &t::KEYBCS2),
    one_byte("koi8r", &t::KOI8R),
    one_byte("koi8u", &t::KOI8U),
    one_byte("latin2", &t::LATIN2),
    one_byte("latin5", &t::LATIN5),
    one_byte("latin7", &t::LATIN7),
    one_byte("macce", &t::MACCE),
    one_byte("macroman", &t::MACROMAN),
    one_byte("swe7", &t::SWE7),
    one_byte("tis620", &t::TIS620),
];
