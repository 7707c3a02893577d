//! A text whose plain literals are left blank, as in a paper form: texts with the same form have
//! the same tokens, and so the same digest.
//!
//! Computing the form of a text needs no tokens: the text is copied, except for what can begin a
//! literal. Anything that is not understood is copied unchanged, so that texts that differ there
//! have different forms.
//!
//! Only parts that the lexer reads in the same way in every mode are left blank: decimal numbers,
//! strings without a backslash, comments that are always comments. A text in which a quote, a
//! backslash or a comment may have another meaning has no form.

use memchr::memchr;

use crate::block::{BLOCK_BYTES, Block};
use crate::class::{ends_number, is_word, opens_number};
use crate::digest::block::{CONTROL_MAX, Parts, digits_end};
use crate::mode::Mode;
use crate::text::{MORE_ROWS, long_comment_end, quoted_end, versioned_opener};

/// Longest text that has a form, bytes. For longer ones the lexer is as fast.
const TEXT_BYTES_MAX: usize = 2 << 10;

/// Placeholders in a form. A text that contains such a byte has no form.
const NUMBER: u8 = 1;
const STRING: u8 = 2;
const STRING_IN_DOUBLE: u8 = 3;
const COMMENT: u8 = 4;
const _: () = assert!(COMMENT <= CONTROL_MAX);

/// Bytes that are processed together.
const WINDOW_BYTES: usize = u64::BITS as usize;

/// A reusable buffer for forms.
pub(crate) struct Form {
    /// The form, followed by unused bytes.
    bytes: Box<Buffer>,
}

type Buffer = [u8; TEXT_BYTES_MAX + BLOCK_BYTES];

impl Form {
    pub(crate) fn new() -> Form {
        Form { bytes: Box::new([0; TEXT_BYTES_MAX + BLOCK_BYTES]) }
    }

    /// Whether `text` may have a form, by its length.
    #[inline]
    pub(crate) fn may_be_of(text: &[u8]) -> bool {
        text.len() <= TEXT_BYTES_MAX
    }

    /// The form of `text`, if it has one.
    #[inline]
    pub(crate) fn of(&mut self, text: &[u8], mode: &Mode) -> Option<&[u8]> {
        if !Form::may_be_of(text) || (mode.grouping.mixes_ascii() && !text.is_ascii()) {
            return None;
        }
        let end = Reader { text, mode }.read(&mut self.bytes)?;
        self.bytes.get(..end)
    }
}

/// Reads a text in a mode in which every ASCII byte stands for itself.
struct Reader<'t> {
    text: &'t [u8],
    mode: &'t Mode,
}

impl Reader<'_> {
    /// Writes the form of the text. Returns its length, if the text has a form.
    #[inline]
    fn read(&self, form: &mut Buffer) -> Option<usize> {
        // A placeholder takes one byte and replaces at least one: `end` is never beyond `at`.
        let (mut at, mut end) = (0, 0);
        while at < self.text.len() {
            let start = at;
            let window = self.window(start);
            let numbers = window.digits & (window.openers << 1 | u64::from(self.is_open(start)));
            let marks = numbers | window.quotes | window.others;
            let window_end = self.text.len().min(start + WINDOW_BYTES);
            while at < window_end {
                let plain = (marks >> (at - start)).trailing_zeros() as usize;
                let stop = window_end.min(at + plain);
                end = self.copy(at, stop, form, end);
                at = stop;
                if at < window_end {
                    let (after, blank) = self.other(at, start, &window)?;
                    if let Some(blank) = blank {
                        *form.get_mut(end)? = blank;
                        end += 1;
                    } else {
                        end = self.copy(at, after, form, end);
                    }
                    at = after;
                }
            }
        }
        Some(end)
    }

    /// Copies everything before `stop`: returns the new end of the form. Whole blocks are copied,
    /// of a length that the compiler knows.
    #[inline]
    fn copy(&self, at: usize, stop: usize, form: &mut Buffer, end: usize) -> usize {
        let mut copied = 0;
        while copied < stop - at {
            let block = Block::at(self.text, at + copied);
            form[end + copied..][..BLOCK_BYTES].copy_from_slice(&block.bytes());
            copied += BLOCK_BYTES;
        }
        end + stop - at
    }

    /// The bytes of the window at `start`.
    #[inline]
    fn window(&self, start: usize) -> Parts<u64> {
        let mut window = Parts::default();
        for place in (0..WINDOW_BYTES).step_by(BLOCK_BYTES) {
            if start + place >= self.text.len() {
                break;
            }
            let parts = Block::at(self.text, start + place).parts();
            window.digits |= u64::from(parts.digits) << place;
            window.openers |= u64::from(parts.openers) << place;
            window.quotes |= u64::from(parts.quotes) << place;
            window.others |= u64::from(parts.others) << place;
        }
        window
    }

    /// Whether a digit or a quote at `at` begins a literal, whatever precedes it.
    #[inline]
    fn is_open(&self, at: usize) -> bool {
        at == 0 || opens_number(self.text[at - 1])
    }

    /// Whether a digit at `at` may continue a number from before a sign: `1e-5` has no fraction.
    #[inline]
    fn may_be_exponent(&self, at: usize) -> bool {
        at > 1 && matches!(self.text[at - 1], b'+' | b'-') && is_word(self.text[at - 2])
    }

    #[inline]
    fn byte_at(&self, at: usize) -> u8 {
        self.text.get(at).copied().unwrap_or(0)
    }

    /// The end of the part at `at` in the window at `start`, and its placeholder if it is not to be
    /// copied.
    #[inline]
    fn other(&self, at: usize, start: usize, window: &Parts<u64>) -> Option<(usize, Option<u8>)> {
        let place = at - start;
        let byte = self.text[at];
        match byte {
            b'0'..=b'9' => {
                let digits = (!(window.digits >> place)).trailing_zeros() as usize;
                let end = at + digits;
                if self.may_be_exponent(at) {
                    return Some((end, None));
                }
                if place + digits < WINDOW_BYTES && ends_number(self.byte_at(end)) {
                    return Some((end, Some(NUMBER)));
                }
                Some(self.long_number(at))
            }
            b'\'' | b'`' => {
                let is_name = byte == b'`';
                if !is_name && !self.is_open(at) {
                    return None;
                }
                let blank = (!is_name).then_some(STRING);
                let bytes = (window.quotes >> place >> 1).trailing_zeros() as usize;
                let end = at + 1 + bytes;
                let is_short = place + 1 + bytes < WINDOW_BYTES;
                if is_short && self.byte_at(end) == byte && self.byte_at(end + 1) != byte {
                    return Some((end + 1, blank));
                }
                Some((self.quotes_end(at)?, blank))
            }
            b'"' if self.is_open(at) && !self.mode.ansi_quotes => {
                Some((self.quotes_end(at)?, Some(STRING_IN_DOUBLE)))
            }
            b'/' if self.byte_at(at + 1) == b'*' => Some((self.comment_end(at)?, Some(COMMENT))),
            b'-' if self.byte_at(at + 1) != b'-' => Some((at + 1, None)),
            b'/' => Some((at + 1, None)),
            _ => None,
        }
    }

    /// A number of many digits, or with a point, or a name that begins like a number.
    #[inline(never)]
    fn long_number(&self, at: usize) -> (usize, Option<u8>) {
        let whole = digits_end(self.text, at);
        let mut end = whole;
        if self.byte_at(whole) == b'.' && self.byte_at(whole + 1).is_ascii_digit() {
            end = digits_end(self.text, whole + 1);
        }
        if ends_number(self.byte_at(end)) { (end, Some(NUMBER)) } else { (whole, None) }
    }

    /// The end of the quoted text at `at`, if it is the same whatever a backslash means.
    #[inline(never)]
    fn quotes_end(&self, at: usize) -> Option<usize> {
        let quote = self.text[at];
        let (end, is_closed) = quoted_end(self.text, at + 1, quote, false, self.mode.grouping);
        let may_escape = quote != b'`' && memchr(b'\\', &self.text[at..end]).is_some();
        (is_closed && !may_escape).then_some(end)
    }

    /// The end of the comment at `at`, if it is a comment for every server.
    #[inline(never)]
    fn comment_end(&self, at: usize) -> Option<usize> {
        let rest = &self.text[at..];
        if versioned_opener(rest) > 0 || rest.starts_with(MORE_ROWS) {
            return None;
        }
        let (end, is_closed) = long_comment_end(self.text, at + 2);
        is_closed.then_some(end)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::digest::fold::Fold;
    use crate::grouping::Grouping;
    use crate::mode::{Doubt, High};

    fn form(text: &[u8], mode: &Mode) -> Option<Vec<u8>> {
        Form::new().of(text, mode).map(<[u8]>::to_vec)
    }

    fn usual() -> Mode {
        Mode::new(Grouping::Bytes, High::LETTERS)
    }

    #[test]
    fn plain_literals_are_left_blank() {
        let cases: &[(&str, &str)] = &[
            ("SELECT c FROM sbtest1 WHERE id=4521", "SELECT c FROM sbtest1 WHERE id=\x01"),
            ("1, 2.5,'a''b' ,\"c\", '' /* d */", "\x01, \x01,\x02 ,\x03, \x02 \x04"),
            ("a1 _2 $3 t.4 @5 1e5 0x1F 1. .5 6b", "a1 _2 $3 t.4 @5 1e5 0x1F 1. .5 6b"),
            ("1e-5.5 1E+2 a-3 a - 3", "1e-5.5 1E+2 a-3 a - \x01"),
            ("`1 '2` 3 -4/5 \u{e9}6 '\u{e9}'", "`1 '2` \x01 -\x01/\x01 \u{e9}6 \x02"),
            ("12345678901234567890123456789012345678901234567890123456789012345,6", "\x01,\x01"),
            ("", ""),
        ];
        for (text, expected) in cases {
            let form = form(text.as_bytes(), &usual());
            assert_eq!(form.as_deref(), Some(expected.as_bytes()), "{text}");
        }
        let long = format!("'{}', `{}`, {:070}", "x".repeat(70), "y".repeat(70), 1);
        let expected = format!("\x02, `{}`, \x01", "y".repeat(70));
        assert_eq!(form(long.as_bytes(), &usual()), Some(expected.into_bytes()));
    }

    #[test]
    fn ambiguous_texts_have_no_form() {
        let texts = [
            "'a\\'",
            "'a",
            "\"a",
            "`a",
            "\\N",
            "-- a",
            "--1",
            "# a",
            "/* a",
            "/*! 1 */",
            "/*M! 1 */",
            "/* , ... */",
            "N'a'",
            "x'41'",
            "_utf8'a'",
            "@'a'",
            "t.\"a\"",
            "1\u{1}",
            "\0",
        ];
        for text in texts {
            assert_eq!(form(text.as_bytes(), &usual()), None, "{text:?}");
        }
        let ansi = Mode { ansi_quotes: true, ..usual() };
        assert_eq!(form(b"\"a\"", &ansi), None);
        let sjis = Mode::new(Grouping::Sjis, High::LETTERS);
        assert_eq!(form(b"'\x95\x5C'", &sjis), None);
        assert_eq!(form(b"'a'", &sjis), Some(vec![STRING]));
        assert_eq!(form(&[b'a'; TEXT_BYTES_MAX + 1], &usual()), None);
        assert_eq!(form(&[b'a'; TEXT_BYTES_MAX], &usual()), Some(vec![b'a'; TEXT_BYTES_MAX]));
    }

    /// Parts of random texts: what can be left blank, and what can surround it.
    const PARTS: &[&str] = &[
        "1",
        "23",
        "7",
        "1.5",
        "12345678901234567890",
        "'a'",
        "''",
        "'it''s'",
        "\"b\"",
        "'\u{e9}'",
        "/* c */",
        "/**/",
        "/*/ */",
        "/* , ... */",
        "/*!",
        "--",
        " ",
        " ",
        " ",
        ",",
        ", ",
        "(",
        ")",
        "(",
        ")",
        "=",
        "-",
        "- ",
        "+",
        "*",
        "/",
        "<",
        ">",
        ".",
        "...",
        "@",
        "@@",
        "?",
        ":",
        ";",
        "`d`",
        "`d``e`",
        "`",
        "'",
        "\"",
        "\n",
        "a",
        "b9",
        "t.",
        "N",
        "x",
        "_utf8mb4",
        "NULL",
        "NOT ",
        "IN (",
        "VALUES ",
        "SELECT ",
        "COUNT",
        "(1, 'a')",
        ", (2,'b')",
        "1e",
        "e5",
        "0x",
        "\u{e9}",
        "\u{a0}",
        "<secret>",
        "$",
        "!",
        "&&",
        "~",
    ];

    /// A literal or a comment for a placeholder: all of them differ.
    fn fill(blank: u8, number: usize) -> String {
        let (wide, letters) = (number % 4 * 23, "z'z".repeat(number % 3));
        match blank {
            NUMBER if number.is_multiple_of(5) => format!("{number}.{number:0wide$}"),
            NUMBER => format!("{number:0wide$}"),
            STRING => format!("'{:wide$}{}\u{e8}\n-- /* \"'", number, letters.replace('\'', "''")),
            STRING_IN_DOUBLE => format!("\"{number:wide$}{letters}\"\"#`\""),
            _ => format!("/* {number:wide$} {letters} `\" */"),
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            cases: 4000,
            failure_persistence: None,
            ..ProptestConfig::default()
        })]

        #[test]
        fn texts_of_one_form_have_one_digest(
            parts in prop::collection::vec(prop::sample::select(PARTS), 0..40),
            seed in 0..1000_usize,
            doubt in prop::sample::select(vec![Doubt::Guess, Doubt::Stop, Doubt::StopButEscapes]),
            flags in 0..8_u8,
        ) {
            let latin1 = High::of(|byte| Some(char::from(byte)));
            let mode = Mode {
                escapes: flags & 1 == 0,
                escapes_in_double: flags & 1 == 0,
                ansi_quotes: flags & 2 != 0,
                doubt,
                ..Mode::new(Grouping::Bytes, if flags & 4 == 0 { High::LETTERS } else { latin1 })
            };
            let one = parts.concat().into_bytes();
            let Some(form_of_one) = form(&one, &mode) else { return Ok(()) };
            let mut other = Vec::new();
            for (index, byte) in form_of_one.iter().enumerate() {
                match byte {
                    NUMBER..=COMMENT => other.extend(fill(*byte, seed + index).bytes()),
                    byte => other.push(*byte),
                }
            }
            if other.len() <= TEXT_BYTES_MAX {
                let form_of_other = form(&other, &mode);
                prop_assert_eq!(form_of_other.as_deref(), Some(&form_of_one[..]));
            }
            let (mut fold, mut other_fold) = (Fold::new(), Fold::new());
            let one = crate::digest::read(&mut fold, &one, mode, usize::MAX);
            let other = crate::digest::read(&mut other_fold, &other, mode, usize::MAX);
            prop_assert_eq!(one.text, other.text);
            prop_assert_eq!(one.digest, other.digest);
            prop_assert_eq!(
                (one.is_broken, one.is_given_up),
                (other.is_broken, other.is_given_up)
            );
        }
    }
}
