//! Numbers and strings, and lists of them.
//!
//! A digest only needs to know that a list of values, or of rows of values, continues: so after a
//! value or a row, plain literals, commas and parentheses are skipped. Anything else ends the
//! skipped part and is read as usual.

use memchr::memchr;

use super::{Lexer, WINDOW_BYTES, Window, has_comment_mark};
use crate::block::{BLOCK_BYTES, Block};
use crate::class::{CLASSES, Class, ends_number};
use crate::digest::block::digits_end;
use crate::digest::fold::{Fold, Shape};
use crate::mode::Doubt;
use crate::text::quoted_end;

/// Blocks of a string that are checked one at a time.
const SIMPLE_BLOCKS: usize = 4;

/// Whether the last of the first `bytes` is a digit.
#[inline]
fn ends_with_digit(window: &[u8], bytes: usize) -> bool {
    bytes > 0 && window[bytes - 1] != b' '
}

impl Lexer<'_> {
    /// `12`, `1.5`, `1e5`, `0x1F`, `0b1`, and names that begin with a digit.
    #[inline]
    pub(super) fn number(&mut self, at: usize, window: &Window, fold: &mut Fold) -> usize {
        let digits = Block::of(window).digit_bytes();
        if ends_number(window[digits]) {
            fold.number();
            return self.list(at + digits, fold);
        }
        self.other_number(at, fold)
    }

    #[inline(never)]
    fn other_number(&mut self, at: usize, fold: &mut Fold) -> usize {
        if let Some(end) = self.number_end(at) {
            fold.number();
            return self.list(end, fold);
        }
        let end = self.name_end(at);
        if self.mode.stops() {
            // It may be a truncated `1e-5`.
            fold.number();
        } else {
            fold.quoted(&self.text[at..end], b'`');
        }
        self.qualified(end, fold)
    }

    /// The end of the number at `at`; `None`: it is a name.
    #[inline]
    fn number_end(&self, at: usize) -> Option<usize> {
        let end = at + Block::at(self.padded, at).digit_bytes();
        match self.byte_at(end) {
            Some(byte) if !ends_number(byte) => self.other_number_end(at),
            _ => Some(end),
        }
    }

    /// The same, if a point, letters or many digits follow the first ones.
    #[inline(never)]
    fn other_number_end(&self, at: usize) -> Option<usize> {
        let end = digits_end(self.padded, at);
        if self.byte_at(end) == Some(b'.') {
            return Some(self.fraction_end(end + 1));
        }
        if self.text[at] == b'0' {
            let is_digit: fn(&u8) -> bool = match self.byte_at(at + 1) {
                Some(b'x') => u8::is_ascii_hexdigit,
                Some(b'b') => |byte| matches!(byte, b'0' | b'1'),
                _ => |_| false,
            };
            let digits = self.text[at + 1..].iter().skip(1).take_while(|b| is_digit(b)).count();
            if digits > 0 && !self.is_name_at(at + 2 + digits) {
                return Some(at + 2 + digits);
            }
        }
        match self.exponent_end(end) {
            Some(end) => Some(end),
            None if self.is_name_at(end) => None,
            None => Some(end),
        }
    }

    /// The rest of a number after its point.
    #[inline]
    pub(super) fn fraction_end(&self, at: usize) -> usize {
        let end = digits_end(self.padded, at);
        self.exponent_end(end).unwrap_or(end)
    }

    #[inline]
    fn exponent_end(&self, at: usize) -> Option<usize> {
        match self.text[at..] {
            [b'e' | b'E', b'0'..=b'9', ..] | [b'e' | b'E', b'+' | b'-', b'0'..=b'9', ..] => {
                Some(digits_end(self.padded, at + 2))
            }
            _ => None,
        }
    }

    /// The end of the string at `at` if it is in single quotes, contains neither a quote nor a
    /// backslash, and is not long: its end is the same in every mode.
    #[inline]
    fn simple_string_end(&self, at: usize) -> Option<usize> {
        if self.text[at] != b'\'' || self.in_versioned || self.mode.grouping.mixes_ascii() {
            return None;
        }
        let mut end = at + 1;
        for _ in 0..SIMPLE_BLOCKS {
            let bytes = Block::at(self.padded, end).bytes_until(b'\'', b'\\');
            end += bytes;
            if bytes < BLOCK_BYTES {
                let is_end = self.text[end] == b'\'' && self.byte_at(end + 1) != Some(b'\'');
                return is_end.then_some(end + 1);
            }
            if end >= self.text.len() {
                return None;
            }
        }
        None
    }

    /// The end of the quoted text that opens at `at`, and whether it is closed; `None`: the end
    /// depends on unknown settings.
    #[inline(never)]
    fn string_end(&mut self, at: usize) -> Option<(usize, bool)> {
        let quote = self.text[at];
        let mode = &self.mode;
        let escapes = if quote == b'"' { mode.escapes_in_double } else { mode.escapes };
        let (end, closed) = quoted_end(self.text, at + 1, quote, escapes, mode.grouping);
        self.is_broken |= !closed;
        if mode.stops() && self.is_in_doubt(at, end, escapes) {
            return None;
        }
        Some((end, closed))
    }

    /// Whether the string at `at` may have another end than `end`.
    #[inline(never)]
    fn is_in_doubt(&self, at: usize, end: usize, escapes: bool) -> bool {
        let body = &self.text[at + 1..end];
        if self.in_versioned && has_comment_mark(body) {
            return true;
        }
        self.mode.doubt == Doubt::Stop && memchr(b'\\', body).is_some() && {
            let quote = self.text[at];
            quoted_end(self.text, at + 1, quote, !escapes, self.mode.grouping).0 != end
        }
    }

    /// A literal in quotes, or a quoted name.
    #[inline]
    pub(super) fn string(&mut self, at: usize, fold: &mut Fold) -> usize {
        if let Some(end) = self.simple_string_end(at) {
            fold.value();
            return self.list(end, fold);
        }
        self.other_string(at, fold)
    }

    #[inline(never)]
    fn other_string(&mut self, at: usize, fold: &mut Fold) -> usize {
        let Some((end, closed)) = self.string_end(at) else { return self.doubt(fold) };
        if self.is_name_in_quotes(at) {
            fold.quoted(&self.text[at + 1..end - usize::from(closed)], b'"');
            return end;
        }
        fold.value();
        self.list(end, fold)
    }

    #[inline]
    fn is_name_in_quotes(&self, at: usize) -> bool {
        self.text[at] == b'"' && self.mode.ansi_quotes
    }

    /// The quotes of `X'…'` and `B'…'`: a number.
    pub(super) fn bits(&mut self, at: usize, fold: &mut Fold) -> usize {
        let Some((end, _)) = self.string_end(at) else { return self.doubt(fold) };
        fold.number();
        self.list(end, fold)
    }

    /// The end of a literal at `at` that is a value after a comma or a parenthesis, whatever
    /// precedes that. `None`: it is something else, or needs a closer look.
    #[inline]
    fn literal_end(&mut self, at: usize) -> Option<usize> {
        let byte = self.byte_at(at)?;
        match CLASSES[usize::from(byte)] {
            Class::Digit => self.number_end(at),
            Class::Quote => match self.simple_string_end(at) {
                Some(end) => Some(end),
                None if self.is_name_in_quotes(at) => None,
                None => Some(self.string_end(at)?.0),
            },
            Class::Letter => self.null_end(at),
            _ => match byte {
                b'?' => Some(at + 1),
                b'-' | b'+' if self.byte_at(at + 1).is_some_and(|next| next.is_ascii_digit()) => {
                    self.number_end(at + 1)
                }
                _ => None,
            },
        }
    }

    #[inline]
    fn null_end(&self, at: usize) -> Option<usize> {
        const NULL: u32 = u32::from_le_bytes(*b"NULL");
        const CASE: u32 = 0xDFDF_DFDF;
        let is_null = Block::at(self.padded, at).number() as u32 & CASE == NULL;
        // A point may turn it into a name.
        let ends = match self.byte_at(at + 4) {
            Some(byte) => ends_number(byte),
            None => true,
        };
        (is_null && ends).then_some(at + 4)
    }

    /// After a value: the end of its list of values.
    #[inline]
    pub(super) fn list(&mut self, start: usize, fold: &mut Fold) -> usize {
        let mut end = start;
        if self.may_go_on(start) && fold.has_spare_tokens() {
            while let Some(next) = self.next_value_end(end) {
                end = next;
            }
            if end > start {
                fold.values_go_on();
            }
        }
        end + usize::from(self.byte_at(end) == Some(b' '))
    }

    /// Whether a comma can follow.
    #[inline]
    fn may_go_on(&self, at: usize) -> bool {
        self.byte_at(at).is_some_and(|byte| byte == b',' || byte <= b' ')
    }

    /// The end of a value after the comma that follows `at`.
    #[inline]
    fn next_value_end(&mut self, at: usize) -> Option<usize> {
        // A number after a comma, with or without a blank: the most frequent case in long lists.
        if let Some([b',', window @ ..]) = self.padded[at..].first_chunk::<WINDOW_BYTES>() {
            let bytes = Block::of(window).digit_bytes_after_blank();
            if ends_number(window[bytes]) && ends_with_digit(window, bytes) {
                return Some(at + 1 + bytes);
            }
        }
        let at = self.gap_end(at);
        if self.byte_at(at) != Some(b',') {
            return None;
        }
        self.literal_end(self.gap_end(at + 1))
    }

    /// After the closing parenthesis of a row: the end of the following rows of its shape.
    #[inline]
    pub(super) fn rows(&mut self, start: usize, shape: Shape, fold: &mut Fold) -> usize {
        let mut end = start;
        if self.may_go_on(start) && fold.has_spare_tokens() {
            while let Some(next) = self.next_row_end(end, shape) {
                end = next;
            }
            if end > start {
                fold.rows_go_on();
            }
        }
        end + usize::from(self.byte_at(end) == Some(b' '))
    }

    /// The end of a row of this shape after the comma that follows `at`.
    #[inline]
    fn next_row_end(&mut self, at: usize, shape: Shape) -> Option<usize> {
        let at = self.gap_end(at);
        if self.byte_at(at) != Some(b',') {
            return None;
        }
        let at = self.gap_end(at + 1);
        if self.byte_at(at) != Some(b'(') {
            return None;
        }
        let first = self.literal_end(self.gap_end(at + 1))?;
        let mut last = first;
        while let Some(next) = self.next_value_end(last) {
            last = next;
        }
        let row = if last == first { Shape::One } else { Shape::Several };
        let close = self.gap_end(last);
        (self.byte_at(close) == Some(b')') && row == shape).then_some(close + 1)
    }
}
