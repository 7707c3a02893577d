//! Splits a statement's bytes into tokens, as MariaDB's `Lex_input_stream::lex_one_token` does
//! (10.11, `sql/sql_lex.cc`).
//!
//! The lexer keeps a position in the text and two or three flags, and passes each token to [`Fold`]
//! as soon as its end is known. It reads each byte once, except strings with a backslash if
//! [`Doubt::Stop`](crate::Doubt::Stop) requires a second look, text after a word that may be a
//! function, and a row of literals that turns out to contain more.
//!
//! | module | what it reads |
//! |---|---|
//! | this one | words and names |
//! | `literals` | numbers, strings, and lists of them at a stride |
//! | `special` | comments, operators, variables |

mod literals;
mod special;

use memchr::memmem;

use crate::block::{BLOCK_BYTES, Block};
use crate::class::{CLASSES, Class, is_joint, is_word};
use crate::digest::charsets;
use crate::digest::fold::Fold;
use crate::digest::keywords::{self, Keyword, Usage};
use crate::mode::Mode;
use crate::span::{SPAN_BYTES, Span};
use crate::text::{line_comment_end, long_comment_end, quoted_end, versioned_opener};

/// Bytes that can be read at the start of a token without checking for the end of the text: a
/// block, the quote before it, and two bytes after it.
const WINDOW_BYTES: usize = BLOCK_BYTES + 3;
type Window = [u8; WINDOW_BYTES];

/// Splits a text into tokens.
///
/// Its functions take the position where something begins, and return the position where reading
/// continues.
pub(crate) struct Lexer<'t> {
    text: &'t [u8],
    /// The text followed in memory by zeros, which are white space.
    padded: &'t [u8],
    mode: Mode,
    /// Inside a versioned comment, which `*/` ends.
    in_versioned: bool,
    /// Something was not closed, or cannot be part of a statement.
    is_broken: bool,
    /// The meaning of the rest is unknown.
    is_given_up: bool,
}

impl<'t> Lexer<'t> {
    pub(crate) fn new(text: &'t [u8], mode: Mode) -> Lexer<'t> {
        let padded = text;
        Lexer { text, padded, mode, in_versioned: false, is_broken: false, is_given_up: false }
    }

    /// Whether the text cannot be a statement that the server has parsed up to its end.
    pub(crate) fn is_broken(&self) -> bool {
        self.is_broken
    }

    /// Whether it ended before the end of the text, in doubt.
    pub(crate) fn is_given_up(&self) -> bool {
        self.is_given_up
    }

    /// Reads the whole text: its last tokens from a copy that is followed by zeros.
    pub(crate) fn read(&mut self, fold: &mut Fold) {
        let at = self.read_spans(0, fold);
        let left = self.text.len() - at;
        // Enough zeros that a whole span exists at each byte of the text, and none after it.
        let mut padded = [0; 2 * SPAN_BYTES - 1];
        let text_bytes = match self.text.last_chunk::<SPAN_BYTES>() {
            // More than is left, but of a length that the compiler knows.
            Some(last) => {
                padded[..SPAN_BYTES].copy_from_slice(last);
                SPAN_BYTES
            }
            None => {
                padded[..left].copy_from_slice(&self.text[at..]);
                left
            }
        };
        let padded = &padded[..text_bytes + SPAN_BYTES - 1];
        let mut rest = Lexer { text: &padded[..text_bytes], padded, ..*self };
        rest.read_spans(text_bytes - left, fold);
        let Lexer { in_versioned, is_broken, is_given_up, .. } = rest;
        *self = Lexer { in_versioned, is_broken, is_given_up, ..*self };
    }

    /// Reads the tokens from `at` whose start has a whole span: returns the position of the next
    /// one.
    #[inline(never)]
    fn read_spans(&mut self, mut at: usize, fold: &mut Fold) -> usize {
        while let Some(span) = self.padded[at..].first_chunk::<SPAN_BYTES>() {
            at = self.read_span(at, span, fold);
        }
        at
    }

    /// Reads the tokens of the span at `base`, except its last ones, which may end after it:
    /// returns where reading continues.
    #[inline]
    fn read_span(&mut self, base: usize, bytes: &[u8; SPAN_BYTES], fold: &mut Fold) -> usize {
        let span = Span::of(bytes);
        let mut starts = span.starts();
        loop {
            let place = starts.next();
            let Some(window) = bytes.get(place..).and_then(<[u8]>::first_chunk::<WINDOW_BYTES>)
            else {
                return base + place;
            };
            let (at, byte) = (base + place, window[0]);
            let next = match CLASSES[usize::from(byte)] {
                Class::Letter => match self.word(window, span.word_bytes(place), fold) {
                    Word::Read => {
                        starts = starts.rest();
                        continue;
                    }
                    Word::Qualifier(qualifier_bytes) => {
                        let name = place + qualifier_bytes + 1;
                        // A token that is not completely in this span is in the one that begins
                        // here.
                        let Some(block) = bytes.get(name..).and_then(<[u8]>::first_chunk) else {
                            return at;
                        };
                        let block = Block::of::<BLOCK_BYTES>(block);
                        let name_bytes = span.word_bytes(name);
                        if name_bytes < BLOCK_BYTES && !is_joint(block.bytes()[name_bytes]) {
                            let qualifier = (Block::of(window), qualifier_bytes);
                            fold.short_qualified_name(qualifier, (block, name_bytes));
                            starts = starts.rest().rest().rest();
                            continue;
                        }
                        self.joined_word(at, Block::of(window), fold)
                    }
                    Word::Joined => self.joined_word(at, Block::of(window), fold),
                    Word::Other(bytes, found) => self.other_word(at, at + bytes, found, fold),
                },
                Class::Single => {
                    fold.byte(byte);
                    starts = starts.rest();
                    continue;
                }
                Class::Open => {
                    if window[1] == b'_' && self.is_introducer_at(at) {
                        fold.introducer();
                        at + INTRODUCER.len()
                    } else {
                        fold.byte(byte);
                        starts = starts.rest();
                        continue;
                    }
                }
                Class::Close => {
                    fold.close();
                    match fold.last_shape() {
                        Some(shape) => self.rows(at + 1, shape, fold),
                        None => {
                            starts = starts.rest();
                            continue;
                        }
                    }
                }
                Class::Space => {
                    starts = starts.rest();
                    continue;
                }
                Class::Digit => self.number(at, window, fold),
                Class::Quote => self.string(at, fold),
                Class::Backtick => self.backtick(at, window, fold),
                Class::Special => self.special(at, byte, fold),
                Class::High => self.high(at, byte, fold),
            };
            if next - base >= SPAN_BYTES {
                return next;
            }
            starts = span.starts_from(next - base);
        }
    }

    #[inline]
    fn byte_at(&self, at: usize) -> Option<u8> {
        self.text.get(at).copied()
    }

    /// The end of the white space at `at`.
    #[inline]
    fn gap_end(&self, mut at: usize) -> usize {
        while let Some(&byte) = self.text.get(at)
            && CLASSES[usize::from(byte)] == Class::Space
        {
            at += 1;
        }
        at
    }

    /// Whether a byte at `at` begins something that may be part of a name without quotes.
    #[inline]
    fn is_name_at(&self, at: usize) -> bool {
        self.byte_at(at)
            .is_some_and(|byte| is_word(byte) || (byte >= 0x80 && self.mode.high.is_letter(byte)))
    }

    /// The end of the name that continues at `at`.
    fn name_end(&self, mut at: usize) -> usize {
        loop {
            let bytes = Block::at(self.padded, at).word_bytes();
            at += bytes;
            if bytes == BLOCK_BYTES {
                continue;
            }
            match self.byte_at(at) {
                Some(byte @ 0x80..) if self.mode.high.is_letter(byte) => {
                    at += self.mode.grouping.char_bytes(&self.text[at..]);
                }
                _ => return at,
            }
        }
    }

    /// A word of `bytes`, if it is only that.
    #[inline]
    fn word(&self, window: &Window, bytes: usize, fold: &mut Fold) -> Word {
        // A word that seems to end with the span is longer than a block.
        if bytes >= BLOCK_BYTES {
            return Word::Joined;
        }
        if is_joint(window[bytes]) {
            let is_qualifier =
                window[bytes] == b'.' && CLASSES[usize::from(window[bytes + 1])] == Class::Letter;
            return if is_qualifier { Word::Qualifier(bytes) } else { Word::Joined };
        }
        let block = Block::of(window);
        match keywords::find(block, bytes) {
            Some(keyword) if keyword.usage() == Usage::Always => {
                fold.word(keyword.kind, keyword.bare());
            }
            None if window[0] != b'_' => fold.short_name(block, bytes),
            found => return Word::Other(bytes, found),
        }
        Word::Read
    }

    /// A word that is long, or may continue after its end.
    #[inline(never)]
    fn joined_word(&mut self, at: usize, block: Block, fold: &mut Fold) -> usize {
        let end = self.name_end(at);
        let word = &self.text[at..end];
        match self.byte_at(end) {
            Some(b'.') if self.is_name_at(end + 1) => {
                fold.name(word);
                return self.qualified(end, fold);
            }
            Some(b'\'') => match word {
                [b'n' | b'N'] => return self.string(end, fold),
                [b'x' | b'X' | b'b' | b'B'] => return self.bits(end, fold),
                _ => {}
            },
            _ => {}
        }
        self.other_word(at, end, keywords::find_word(block, word), fold)
    }

    /// A word that may be a keyword, depending on what follows.
    #[inline(never)]
    fn other_word(
        &mut self,
        at: usize,
        end: usize,
        keyword: Option<&'static Keyword>,
        fold: &mut Fold,
    ) -> usize {
        if let Some(keyword) = keyword {
            match keyword.usage() {
                Usage::Always => {
                    fold.word(keyword.kind, keyword.bare());
                    return end;
                }
                Usage::Null => {
                    fold.null();
                    return end;
                }
                Usage::Call if self.is_call(end) => {
                    fold.function(keyword.kind, keyword.call());
                    return end;
                }
                Usage::Another if self.is_call(end) => {
                    fold.word(keyword.kind, keyword.call());
                    return end;
                }
                Usage::Call | Usage::Another => {}
                Usage::AlsoCall => {
                    if self.is_call_after_gap(end) {
                        fold.function(keyword.kind, keyword.call());
                    } else {
                        fold.word(keyword.kind, keyword.bare());
                    }
                    return end;
                }
            }
        }
        let word = &self.text[at..end];
        if word[0] == b'_' && charsets::is_known(&word[1..]) {
            fold.introducer();
        } else {
            fold.name(word);
        }
        end
    }

    /// After a name that may be followed by a point: then it names a database or a table, and
    /// digits after the point are a name, too.
    #[inline]
    fn qualified(&mut self, mut at: usize, fold: &mut Fold) -> usize {
        while self.byte_at(at) == Some(b'.') && self.is_name_at(at + 1) {
            fold.byte(b'.');
            let end = self.name_end(at + 1);
            let name = &self.text[at + 1..end];
            if self.mode.stops() && name[0].is_ascii_digit() {
                // A truncated `1e-5` looks like a name.
                fold.number();
            } else {
                fold.name(name);
            }
            at = end;
        }
        at
    }

    /// Whether a parenthesis follows immediately, as the server requires.
    #[inline]
    fn is_call(&self, at: usize) -> bool {
        self.byte_at(at) == Some(b'(') && !self.is_introducer_at(at)
    }

    #[inline]
    fn is_introducer_at(&self, at: usize) -> bool {
        self.byte_at(at + 1) == Some(b'_') && self.text[at..].starts_with(INTRODUCER)
    }

    /// Whether a parenthesis follows white space and comments.
    #[inline(never)]
    fn is_call_after_gap(&self, mut at: usize) -> bool {
        loop {
            let rest = &self.text[at..];
            at = match *rest {
                [0..=b' ' | 0x7F, ..] => at + 1,
                [high @ 0x80..=0xFF, ..] if self.mode.high.is_space(high) => at + 1,
                [b'/', b'*', ..] => match versioned_opener(rest) {
                    0 => long_comment_end(self.text, at + 2).0,
                    opener => at + opener,
                },
                [b'*', b'/', ..] if self.in_versioned => at + 2,
                [b'#', ..] => line_comment_end(self.text, at + 1),
                [b'-', b'-'] | [b'-', b'-', 0..=b' ' | 0x7F, ..] => {
                    line_comment_end(self.text, at + 2)
                }
                [b'(', ..] => return !self.is_introducer_at(at),
                _ => return false,
            }
        }
    }

    /// A name in backticks.
    #[inline]
    fn backtick(&mut self, at: usize, window: &Window, fold: &mut Fold) -> usize {
        let [_, body @ ..] = window;
        let block = Block::of(body);
        let bytes = block.bytes_until(b'`', b'`');
        let is_short = bytes < BLOCK_BYTES && window[bytes + 2] != b'`';
        if is_short && !self.in_versioned && !self.mode.grouping.mixes_ascii() {
            fold.short_name(block, bytes);
            return at + bytes + 2 + usize::from(window[bytes + 2] == b' ');
        }
        self.long_backtick(at, fold)
    }

    #[inline(never)]
    fn long_backtick(&mut self, at: usize, fold: &mut Fold) -> usize {
        let (end, closed) = quoted_end(self.text, at + 1, b'`', false, self.mode.grouping);
        self.is_broken |= !closed;
        let body = &self.text[at + 1..end - usize::from(closed)];
        if self.mode.stops() && self.in_versioned && has_comment_mark(body) {
            return self.doubt(fold);
        }
        fold.quoted(body, b'`');
        end
    }

    /// A byte above 0x7F.
    #[inline(never)]
    fn high(&mut self, at: usize, byte: u8, fold: &mut Fold) -> usize {
        if self.mode.high.is_letter(byte) {
            return self.joined_word(at, Block::at(self.padded, at), fold);
        }
        if !self.mode.high.is_space(byte) {
            fold.byte(byte);
        }
        at + 1
    }

    /// The meaning of the rest is unknown.
    fn doubt(&mut self, fold: &mut Fold) -> usize {
        fold.doubt();
        self.is_given_up = true;
        self.text.len()
    }
}

/// The result of reading a word.
enum Word {
    /// One token, passed to the fold.
    Read,
    /// A word of this length, followed by a point and a letter.
    Qualifier(usize),
    /// Long, or it may continue after its end.
    Joined,
    /// A word of this length; its meaning depends on what follows.
    Other(usize, Option<&'static Keyword>),
}

/// The text of an introducer.
const INTRODUCER: &[u8] = b"(_charset)";

/// Whether it contains the beginning or end of a comment: in a versioned comment that the server
/// skips, these count in any context.
fn has_comment_mark(text: &[u8]) -> bool {
    memmem::find(text, b"*/").is_some() || memmem::find(text, b"/*").is_some()
}
