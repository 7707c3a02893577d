//! A text, cut into its template and its literals: numbers, hexadecimal digits, and what is in
//! quotes. It is made for SQL, and any text is its template with its literals.

use std::ops::Range;

use memchr::memchr;

use crate::line::{digits, number};
use crate::pattern::{DIGITS_MAX, PlaceKind};

/// Literals of a text. One with more is stored as it is.
const LITERALS_MAX: usize = 250;
/// Length of a template, bytes, and of a text that is cut.
pub(crate) const TEMPLATE_BYTES_MAX: usize = 4 << 10;
/// Hexadecimal digits in a row that are taken for a number: fewer are often words.
const HEX_FROM: usize = 4;
/// The same outside of quotes, where names are.
const HEX_FROM_OUTSIDE: usize = 16;
const HEX_MAX: usize = 254;

/// How a text is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    /// It may have quoted texts, which are literals; a digit in a name is not one.
    Outer,
    /// It was in quotes: all digits are literals.
    Quoted,
}

/// The parts of a text. It is used again for the next one.
#[derive(Default)]
pub(crate) struct Cut {
    pub(crate) template: Vec<u8>,
    pub(crate) numbers: Vec<u64>,
    pub(crate) hex: Vec<u8>,
    /// Where the quoted texts are in the text.
    pub(crate) texts: Vec<Range<u32>>,
    places: usize,
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$') || byte >= 0x80
}

impl Cut {
    /// `false`: the text must be stored as it is.
    pub(crate) fn cut(&mut self, text: &[u8], level: Level) -> bool {
        self.template.clear();
        self.numbers.clear();
        self.hex.clear();
        self.texts.clear();
        self.places = 0;
        if text.len() > TEMPLATE_BYTES_MAX {
            return false;
        }
        let mut at = 0;
        while let Some(byte) = text.get(at) {
            at = match byte {
                b'\'' if level == Level::Outer => self.quoted(text, at, 1),
                b'\\' if level == Level::Outer && text.get(at + 1) == Some(&b'"') => {
                    self.quoted(text, at, 2)
                }
                byte if is_word(*byte) => {
                    let rest = &text[at..];
                    let count = rest.iter().position(|byte| !is_word(*byte));
                    let end = at + count.unwrap_or(rest.len());
                    let is_fraction = at > 0 && text[at - 1] == b'.';
                    self.word(&text[at..end], level, is_fraction);
                    end
                }
                byte => {
                    self.template.push(*byte);
                    at + 1
                }
            };
        }
        self.places <= LITERALS_MAX
    }

    /// A quoted text that begins here. Returns where it ends.
    fn quoted(&mut self, text: &[u8], at: usize, quote_bytes: usize) -> usize {
        let quote = &text[at..at + quote_bytes];
        let begin = at + quote_bytes;
        let Some(end) = end_of_quoted(text, begin, quote) else {
            self.template.extend_from_slice(&text[at..]);
            return text.len();
        };
        self.template.extend_from_slice(quote);
        if end > begin {
            self.template.push(PlaceKind::Text.mark());
            self.texts.push(begin as u32..end as u32);
            self.places += 1;
        }
        self.template.extend_from_slice(quote);
        end + quote_bytes
    }

    fn word(&mut self, word: &[u8], level: Level, is_fraction: bool) {
        if word.iter().all(u8::is_ascii_digit) {
            return self.digits(word, is_fraction);
        }
        let hex_from = match level {
            Level::Outer => HEX_FROM_OUTSIDE,
            Level::Quoted => HEX_FROM,
        };
        if word.len() >= hex_from
            && word.iter().any(u8::is_ascii_digit)
            && let Some(kind) = hex_kind(word)
        {
            return word.chunks(HEX_MAX).for_each(|digits| self.hex(digits, kind));
        }
        if level == Level::Outer {
            return self.template.extend_from_slice(word);
        }
        for run in word.chunk_by(|one, two| one.is_ascii_digit() == two.is_ascii_digit()) {
            match run[0].is_ascii_digit() {
                true => self.digits(run, false),
                false => self.template.extend_from_slice(run),
            }
        }
    }

    fn digits(&mut self, run: &[u8], is_fraction: bool) {
        // Two digits are often a part of a date, with a zero if it is small.
        let is_fixed = run.len() == 2 || is_fraction || run[0] == b'0' && run.len() > 1;
        if run.len() > DIGITS_MAX {
            return run.chunks(HEX_MAX).for_each(|digits| self.hex(digits, PlaceKind::LowerHex));
        }
        let found = if is_fixed { digits(run) } else { number(run) };
        let Some(found) = found else { return self.template.extend_from_slice(run) };
        let kind = if is_fixed { PlaceKind::Digits } else { PlaceKind::Number };
        self.template.push(kind.mark());
        if is_fixed {
            self.template.push(run.len() as u8);
        }
        self.numbers.push(found);
        self.places += 1;
    }

    fn hex(&mut self, digits: &[u8], kind: PlaceKind) {
        self.template.extend_from_slice(&[kind.mark(), digits.len() as u8]);
        let value = |digit: u8| match digit {
            b'0'..=b'9' => digit - b'0',
            _ => (digit & 7) + 9,
        };
        // An odd digit is the first one.
        let (odd, pairs) = digits.split_at(digits.len() % 2);
        self.hex.extend(odd.iter().map(|digit| value(*digit)));
        self.hex.extend(pairs.chunks_exact(2).map(|two| value(two[0]) << 4 | value(two[1])));
        self.places += 1;
    }
}

fn hex_kind(word: &[u8]) -> Option<PlaceKind> {
    let is_lower = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let is_upper = |byte: &u8| matches!(byte, b'0'..=b'9' | b'A'..=b'F');
    if word.iter().all(is_lower) {
        Some(PlaceKind::LowerHex)
    } else if word.iter().all(is_upper) {
        Some(PlaceKind::UpperHex)
    } else {
        None
    }
}

/// Where the quote is that ends a quoted text. In the JSON text a backslash of SQL is two.
fn end_of_quoted(text: &[u8], begin: usize, quote: &[u8]) -> Option<usize> {
    let mut at = begin;
    loop {
        at += memchr(quote[0], &text[at..])?;
        if !text[at..].starts_with(quote) {
            // Of an escape in JSON: the byte behind the backslash is part of it.
            at = (at + 2).min(text.len());
            continue;
        }
        let before = text[begin..at].iter().rev().take_while(|byte| **byte == b'\\').count();
        if quote.len() == 2 || before / 2 % 2 == 0 {
            return Some(at);
        }
        at += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(text: &str, level: Level) -> (Vec<u8>, Vec<u64>, Vec<u8>, Vec<String>) {
        let mut cut = Cut::default();
        assert!(cut.cut(text.as_bytes(), level));
        let texts = cut.texts.iter().map(|it| text[it.start as usize..it.end as usize].to_owned());
        (cut.template, cut.numbers, cut.hex, texts.collect())
    }

    #[test]
    fn literals_leave_a_statement() {
        let text = "UPDATE t3_17 SET a = 'new', b = 1.50 WHERE id = 1234567 AND c = '' LIMIT 20";
        let (template, numbers, _, texts) = cut(text, Level::Outer);
        let expected: &[u8] = b"UPDATE t3_17 SET a = '\x02', b = \x01.\x04\x02 \
                                WHERE id = \x01 AND c = '' LIMIT \x04\x02";
        assert_eq!(template, expected);
        assert_eq!(numbers, [1, 50, 1_234_567, 20]);
        assert_eq!(texts, ["new"]);
    }

    #[test]
    fn quoted_texts_end_at_their_quote() {
        // As in the JSON text of a line: a backslash is two.
        for (text, expected) in [
            (r#"'a' 'b'"#, &["a", "b"][..]),
            (r"'it''s'", &["it", "s"]),
            (r"'it\\'s' 'b'", &[r"it\\'s", "b"]),
            (r"'a\\\\' 'b'", &[r"a\\\\", "b"]),
            (r#"\"a b\" 'c'"#, &["a b", "c"]),
            (r#"\"a\\n'b\" 'c'"#, &[r"a\\n'b", "c"]),
            ("'no end", &[]),
        ] {
            assert_eq!(cut(text, Level::Outer).3, expected, "{text}");
        }
    }

    #[test]
    fn literals_leave_a_quoted_text() {
        let (template, numbers, hex, _) = cut("user123@x.net 2026-01-31 0a1b2", Level::Quoted);
        let expected = b"user\x01@x.net \x01-\x04\x02-\x04\x02 \x05\x05";
        assert_eq!(template, expected);
        assert_eq!(numbers, [123, 2026, 1, 31]);
        assert_eq!(hex, [0, 0xA1, 0xB2]);
        let (template, _, hex, _) = cut("DEAD00 beef", Level::Quoted);
        assert_eq!((&template[..], &hex[..]), (&b"\x06\x06 beef"[..], &[0xDE, 0xAD, 0][..]));
    }
}
