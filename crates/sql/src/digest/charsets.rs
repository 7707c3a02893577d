//! The names that can precede a literal as `_name`.

/// MariaDB 10.11's character sets.
const NAMES: [&str; 41] = [
    "armscii8", "ascii", "big5", "binary", "cp1250", "cp1251", "cp1256", "cp1257", "cp850",
    "cp852", "cp866", "cp932", "dec8", "eucjpms", "euckr", "gb2312", "gbk", "geostd8", "greek",
    "hebrew", "hp8", "keybcs2", "koi8r", "koi8u", "latin1", "latin2", "latin5", "latin7", "macce",
    "macroman", "sjis", "swe7", "tis620", "ucs2", "ujis", "utf16", "utf16le", "utf32", "utf8",
    "utf8mb3", "utf8mb4",
];

/// Whether the server has a character set of this name.
pub(crate) fn is_known(name: &[u8]) -> bool {
    NAMES.iter().any(|known| known.as_bytes().eq_ignore_ascii_case(name))
}
