//! A hash of a statement without its literals, computed without splitting it into tokens: sixteen
//! bytes at a time, and one at a time where a literal can begin.
//!
//! Statements with the same hash have the same [shape](crate::shape), or are all rejected (except
//! for two that have it by accident). So the result that no rule has the shape of one holds for
//! all. The reverse is not true: white space and the case of words count here.
//!
//! The hash is SipHash-1-3 with a secret key. Without the key, a client cannot construct a statement
//! that has the number of another one, to hide behind it.

use tacho_sql::block::{BLOCK_BYTES, Block, find};
use tacho_sql::class::ends_number;

use crate::lexer::is_word;
use crate::marks::marks;
use crate::reading::Modes;
use crate::siphash::SipHash;

/// Longest text that has a form, bytes. (Splitting a longer one into tokens nearly always ends
/// early.)
pub const TEXT_BYTES_MAX: usize = 64 << 10;

/// The secret key of the hash.
#[derive(Clone, Copy, Debug, Default)]
pub struct Key(pub [u64; 2]);

/// The kind of text after a part.
#[derive(Clone, Copy)]
enum Behind {
    Number = 1,
    String = 2,
    StringInDouble = 3,
    Comment = 4,
    /// Text that is hashed unchanged.
    Plain = 5,
    /// The continuation of such text.
    Text = 6,
    End = 7,
}

/// Added to the kind after a part if the text ends there.
const AT_END: u64 = 8;

/// The keyed hash of a form, as words.
///
/// Two forms have different words: the last word is that of a part, which says how many words it
/// and the blocks before it have, up to the part before. So the form can be read from its words,
/// backwards.
struct Hash {
    sip: SipHash,
    /// Whole blocks since the last part.
    block_count: u64,
}

impl Hash {
    #[inline]
    fn new(key: &Key, salt: u64, modes: Modes) -> Hash {
        let mut sip = SipHash::new(key.0);
        // The salt counts up from 0, and does not reach the highest byte.
        sip.word(salt ^ u64::from(modes.0) << 56);
        Hash { sip, block_count: 0 }
    }

    /// Sixteen bytes, with more of the same kind behind them.
    #[inline]
    fn whole(&mut self, block: Block) {
        let number = block.number();
        self.sip.word(number as u64);
        self.sip.word((number >> 64) as u64);
        self.block_count = self.block_count.wrapping_add(1);
    }

    /// The first `bytes` of a block, fewer than it has, and the kind after them.
    #[inline]
    fn part(&mut self, block: Block, bytes: usize, behind: u64) {
        let number = block.beginning(bytes);
        self.sip.word(number as u64);
        if bytes > size_of::<u64>() {
            self.sip.word((number >> 64) as u64);
        }
        self.sip.word(bytes as u64 | behind << 8 | self.block_count << 16);
        self.block_count = 0;
    }

    /// Text that is hashed unchanged.
    #[inline(never)]
    fn text(&mut self, text: &[u8], mut at: usize, end: usize) {
        while end.saturating_sub(at) >= BLOCK_BYTES {
            self.whole(Block::at(text, at));
            at = at.saturating_add(BLOCK_BYTES);
        }
        self.part(Block::at(text, at), end.saturating_sub(at), Behind::Text as u64);
    }
}

/// The text at a special position.
enum There {
    /// Text to keep, up to here.
    Plain(usize),
    /// Text to leave out, up to here.
    Blank(usize, Behind),
}

/// Whether a digit behind this byte may begin a number.
#[inline]
fn is_opener(byte: u8) -> bool {
    byte < 0x40 && !byte.is_ascii_digit()
}

/// The hash of a text; `None`: it has none, and must be split into tokens. `salt` is part of it.
#[inline]
pub fn number(text: &[u8], modes: Modes, key: &Key, salt: u64) -> Option<u64> {
    if text.len() > TEXT_BYTES_MAX || (!modes.has(Modes::UTF8) && !text.is_ascii()) {
        return None;
    }
    let mut hash = Hash::new(key, salt, modes);
    // What is left of the text.
    let mut rest = text;
    // Whether a digit that follows may begin a number.
    let mut is_open = true;
    while !rest.is_empty() {
        let block = Block::begin(text, rest);
        let marks = marks(block, is_open);
        let plain = marks.first();
        if plain < BLOCK_BYTES {
            let place = text.len().wrapping_sub(rest.len()).wrapping_add(plain);
            let end = match look(text, place, modes)? {
                There::Blank(end, what) => {
                    if end == text.len() {
                        hash.part(block, plain, what as u64 | AT_END);
                        return Some(hash.sip.finish());
                    }
                    hash.part(block, plain, what as u64);
                    end
                }
                There::Plain(end) => {
                    hash.part(block, plain, Behind::Plain as u64);
                    hash.text(text, place, end);
                    end
                }
            };
            rest = text.get(end..)?;
            let before = text.get(end.wrapping_sub(1));
            is_open = before.is_some_and(|byte| is_opener(*byte));
        } else if let Some(behind) = rest.get(BLOCK_BYTES..) {
            hash.whole(block);
            rest = behind;
            is_open = marks.last_is_opener;
        } else {
            hash.part(block, rest.len(), Behind::End as u64);
            return Some(hash.sip.finish());
        }
    }
    hash.part(Block::EMPTY, 0, Behind::End as u64);
    Some(hash.sip.finish())
}

/// The text at `at`; `None`: a text that contains it has no form.
#[inline]
fn look(text: &[u8], at: usize, modes: Modes) -> Option<There> {
    let next = at.wrapping_add(1);
    match *text.get(at)? {
        b'0'..=b'9' => Some(digits(text, at)),
        b'\'' => {
            let end = quotes_end(text, at, modes)?;
            Some(There::Blank(end, Behind::String))
        }
        b'"' if modes.has(Modes::UNKNOWN) => None,
        b'"' if !modes.has(Modes::ANSI_QUOTES) => {
            let end = quotes_end(text, at, modes)?;
            Some(There::Blank(end, Behind::StringInDouble))
        }
        // A name.
        quote @ (b'"' | b'`') => Some(There::Plain(name_end(text, at, quote)?)),
        b'/' if text.get(next) == Some(&b'*') => comment(text, at),
        b'-' if text.get(next) != Some(&b'-') => Some(There::Plain(next)),
        b'/' => Some(There::Plain(next)),
        // A comment to the end of the line; a backslash outside quotes.
        _ => None,
    }
}

/// Digits that may be a number.
#[inline]
fn digits(text: &[u8], at: usize) -> There {
    // Before the beginning, where the index wraps, there is nothing either.
    let byte_at = |at: usize| text.get(at).copied().unwrap_or(b' ');
    let before = |bytes: usize| byte_at(at.wrapping_sub(bytes));
    let digits_end = |at: usize| {
        let rest = text.get(at..).unwrap_or_default();
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        at.wrapping_add(digits)
    };
    let whole = digits_end(at);
    // `.5`, and `e-5` of `1e-5`, belong to the preceding text.
    let is_part = match before(1) {
        b'.' | b'$' => true,
        b'+' | b'-' => is_word(before(2)),
        _ => false,
    };
    if is_part {
        return There::Plain(whole);
    }
    let mut end = whole;
    let point = whole.wrapping_add(1);
    if byte_at(whole) == b'.' && byte_at(point).is_ascii_digit() {
        end = digits_end(point);
    }
    if ends_number(byte_at(end)) { There::Blank(end, Behind::Number) } else { There::Plain(whole) }
}

/// The position after a string that opens at `at`.
#[inline]
fn quotes_end(text: &[u8], at: usize, modes: Modes) -> Option<usize> {
    let quote = *text.get(at)?;
    let mut place = at.saturating_add(1);
    loop {
        let mark = find(text, place, quote, b'\\')?;
        let next = mark.saturating_add(1);
        let is_quote = text.get(mark) == Some(&quote);
        if is_quote && text.get(next) != Some(&quote) {
            return Some(next);
        }
        if !is_quote && modes.has(Modes::UNKNOWN) {
            return None;
        }
        let is_plain = !is_quote && modes.has(Modes::NO_ESCAPES);
        place = if is_plain { next } else { next.saturating_add(1) };
    }
}

/// The position after a quoted name that opens at `at`.
#[inline(never)]
fn name_end(text: &[u8], at: usize, quote: u8) -> Option<usize> {
    let mut place = at.saturating_add(1);
    loop {
        let next = find(text, place, quote, quote)?.saturating_add(1);
        if text.get(next) != Some(&quote) {
            return Some(next);
        }
        place = next.saturating_add(1);
    }
}

/// A comment with stars: a hint counts, and a comment that only some servers execute has no form.
#[inline(never)]
fn comment(text: &[u8], at: usize) -> Option<There> {
    let body = at.saturating_add(2);
    let rest = text.get(body..)?;
    if rest.starts_with(b"!") || rest.starts_with(b"M!") {
        return None;
    }
    let mut star = body;
    loop {
        star = find(text, star, b'*', b'*')?.saturating_add(1);
        if text.get(star) == Some(&b'/') {
            let end = star.saturating_add(1);
            let is_hint = rest.starts_with(b"+");
            return Some(if is_hint {
                There::Plain(end)
            } else {
                There::Blank(end, Behind::Comment)
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reading::Reading;

    const KEY: Key = Key([0x9E37_79B9_7F4A_7C15, 0xBF58_476D_1CE4_E5B9]);

    fn of(text: &[u8], reading: Reading) -> Option<u64> {
        number(text, reading.modes(), &KEY, 1)
    }

    fn usual(text: &str) -> Option<u64> {
        of(text.as_bytes(), Reading::USUAL)
    }

    #[test]
    fn literals_do_not_count() {
        let same: &[&[&str]] = &[
            &["SELECT c FROM sbtest1 WHERE id=5001", "SELECT c FROM sbtest1 WHERE id=7"],
            &["a = 1, b='x',c=\"y\"", "a = 123456789012345678901, b='it''s \\' \"',c=\"\""],
            &["1.5 + 2", "2 + 33333.123456"],
            &["a /* b */ c", "a /**/ c"],
            &["a IN (1,22,'x')", "a IN (22,1,'yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy')"],
        ];
        for texts in same {
            for text in *texts {
                assert!(usual(text).is_some());
                assert_eq!(usual(text), usual(texts[0]), "{text}");
            }
        }
    }

    #[test]
    fn everything_else_counts() {
        let texts = [
            "SELECT c FROM sbtest1 WHERE id=5001",
            "SELECT c FROM sbtest2 WHERE id=5001",
            "SELECT c FROM sbtest1 WHERE id= 5001",
            "SELECT c FROM sbtest1 WHERE id='5001'",
            "SELECT c FROM sbtest1 WHERE id=\"5001\"",
            "SELECT c FROM sbtest1 WHERE id=/**/",
            "SELECT c FROM sbtest1 WHERE id=",
            "SELECT c FROM sbtest1 WHERE id=1,1",
            "SELECT c FROM sbtest1 WHERE id=1e-5",
            "SELECT c FROM sbtest1 WHERE id=1e-6",
            "SELECT c FROM sbtest1 WHERE id=t.5",
            "SELECT c FROM sbtest1 WHERE id=t.6",
            "SELECT c FROM sbtest1 WHERE id=`5`",
            "SELECT c FROM sbtest1 WHERE id=`6`",
            "SELECT c FROM sbtest1 WHERE id=/*+ 5 */",
            "SELECT c FROM sbtest1 WHERE id=/*+ 6 */",
            "select c FROM sbtest1 WHERE id=5001",
            "",
            "\0",
            "\0\0",
        ];
        let mut numbers: Vec<u64> = texts.iter().map(|text| usual(text).unwrap()).collect();
        let text = texts[0].as_bytes();
        numbers.extend(number(text, Reading::USUAL.modes(), &KEY, 2));
        numbers.extend(number(text, Reading::USUAL.modes(), &Key([1, 2]), 1));
        numbers.extend(of(text, Reading { no_escapes: true, ..Reading::USUAL }));
        let count = numbers.len();
        assert_eq!(count, texts.len() + 3);
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), count);
    }

    #[test]
    fn ambiguous_texts_have_no_form() {
        for text in ["'a", "'a\\'", "\"a", "`a", "-- a", "--1", "# a", "/* a", "/*! 1 */", "\\N"] {
            assert_eq!(usual(text), None, "{text}");
        }
        let unknown = Reading { is_unknown: true, ..Reading::USUAL };
        assert_eq!(of(b"\"a\"", unknown), None);
        assert_eq!(of(b"'a\\b'", unknown), None);
        assert!(of(b"'a'", unknown).is_some());
        let latin1 = Reading { is_utf8: false, ..Reading::USUAL };
        assert_eq!(of(b"'\xE9'", latin1), None);
        assert!(of(b"'e'", latin1).is_some());
        assert_eq!(of(&vec![b'a'; TEXT_BYTES_MAX + 1], Reading::USUAL), None);
        assert!(of(&vec![b'a'; TEXT_BYTES_MAX], Reading::USUAL).is_some());
    }
}
