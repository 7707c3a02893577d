//! Where the parts of a statement end: shared by all its readers.
//!
//! The rules are those of MariaDB's `Lex_input_stream` (10.11, `sql/sql_lex.cc`). The redaction of
//! secrets (`tacho_sql::redact`) applies the same rules, in several readings.

use memchr::{memchr, memchr2};

use crate::block::{BLOCK_BYTES, Block};
use crate::grouping::Grouping;

/// The end of quoted text: `body` is the position after the opening quote. Returns the position
/// after the closing one, and whether there is one.
///
/// A doubled quote stands for one, and with `escapes` a backslash escapes its character.
#[inline]
pub fn quoted_end(
    text: &[u8],
    body: usize,
    quote: u8,
    escapes: bool,
    grouping: Grouping,
) -> (usize, bool) {
    if grouping.mixes_ascii() {
        return quoted_end_of_chars(text, body, quote, escapes, grouping);
    }
    let other = if escapes { b'\\' } else { quote };
    let mut at = body;
    while let Some(mark) = find_either(text, at, quote, other) {
        at = mark + 1;
        if text[mark] == quote && text.get(at) != Some(&quote) {
            return (at, true);
        }
        // Doubled, or escaped.
        at += 1;
        if at >= text.len() {
            break;
        }
    }
    (text.len(), false)
}

/// The same, if a part of a character can look like a quote.
#[inline(never)]
fn quoted_end_of_chars(
    text: &[u8],
    body: usize,
    quote: u8,
    escapes: bool,
    grouping: Grouping,
) -> (usize, bool) {
    let mut at = body;
    while at < text.len() {
        let rest = &text[at..];
        match *rest {
            [first, second, ..] if first == quote && second == quote => at += 2,
            [first, ..] if first == quote => return (at + 1, true),
            [b'\\', ..] if escapes => at = (at + 2).min(text.len()),
            _ => at += grouping.char_bytes(rest),
        }
    }
    (text.len(), false)
}

/// The position of the first `one` or `other`, neither of them 0, from `at` on. Most strings are
/// short.
#[inline]
fn find_either(text: &[u8], at: usize, one: u8, other: u8) -> Option<usize> {
    let mut at = at;
    for _ in 0..SHORT_BLOCKS {
        let before = Block::at(text, at).bytes_until(one, other);
        at += before;
        if before < BLOCK_BYTES {
            return Some(at);
        }
        if at >= text.len() {
            return None;
        }
    }
    memchr2(one, other, &text[at..]).map(|before| at + before)
}

/// Blocks of a string that are checked before a search that starts more slowly, but is faster.
const SHORT_BLOCKS: usize = 3;

/// The position after the next `*/` at or after `body`, and whether there is one.
#[inline]
pub fn long_comment_end(text: &[u8], body: usize) -> (usize, bool) {
    let mut at = body + 1;
    while let Some(slash) = text.get(at..).and_then(|rest| memchr(b'/', rest)) {
        at += slash + 1;
        if text[at - 2] == b'*' {
            return (at, true);
        }
    }
    (text.len(), false)
}

/// Replaces the rows of a normalised text: it looks like a comment.
pub(crate) const MORE_ROWS: &[u8] = b"/* , ... */";

/// The end of a line comment: before its newline or NUL, or the end of the text.
#[inline]
pub fn line_comment_end(text: &[u8], body: usize) -> usize {
    memchr2(b'\n', 0, &text[body..]).map_or(text.len(), |end| body + end)
}

/// Length of `/*!`, `/*M!` and up to six digits at the start of `rest`, or 0.
///
/// Servers accept five or six digits. Accepting six can only reveal a keyword that a five-digit
/// server reads as part of a longer word.
pub fn versioned_opener(rest: &[u8]) -> usize {
    let marker = if rest.starts_with(b"/*!") {
        3
    } else if rest.starts_with(b"/*M!") {
        4
    } else {
        return 0;
    };
    let digits = rest[marker..].iter().take(6).take_while(|byte| byte.is_ascii_digit()).count();
    if digits < 5 { marker } else { marker + digits }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_end_where_the_server_ends_them() {
        let end = |text: &[u8], escapes, grouping| quoted_end(text, 1, text[0], escapes, grouping);
        assert_eq!(end(b"'a''b' c", true, Grouping::Bytes), (6, true));
        assert_eq!(end(b"'a\\'b' c", true, Grouping::Bytes), (6, true));
        assert_eq!(end(b"'a\\'b' c", false, Grouping::Bytes), (4, true));
        assert_eq!(end(b"'a\\", true, Grouping::Bytes), (3, false));
        assert_eq!(end(b"'\x83\\' c", true, Grouping::Sjis), (4, true));
        assert_eq!(end(b"'\x83\\' c", true, Grouping::Bytes), (6, false));
        assert_eq!(end(b"`a``\\` c", false, Grouping::Gbk), (6, true));
    }

    #[test]
    fn comments_end_where_the_server_ends_them() {
        assert_eq!(long_comment_end(b"/* a */ b", 2), (7, true));
        assert_eq!(long_comment_end(b"/**/b", 2), (4, true));
        assert_eq!(long_comment_end(b"/*/ b", 2), (5, false));
        assert_eq!(long_comment_end(b"/*", 2), (2, false));
        assert_eq!(line_comment_end(b"# a\nb", 1), 3);
        assert_eq!(line_comment_end(b"# a\0b", 1), 3);
        assert_eq!(line_comment_end(b"# a", 1), 3);
    }
}
