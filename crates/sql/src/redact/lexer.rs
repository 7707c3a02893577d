//! Splits statement text into tokens, under one *reading*.
//!
//! How the server splits a statement depends on settings that the recorder does not get: `sql_mode`
//! (NO_BACKSLASH_ESCAPES, ANSI_QUOTES) and the server version, which decides about `/*!50701 … */`.
//! A [`Reading`] is one guess at all of them; the caller tries each guess that could make a
//! difference and removes everything that any of them calls a secret.
//!
//! The rules are those of `Lex_input_stream::lex_one_token` (MariaDB `sql/sql_lex.cc`): tokens
//! cannot be interrupted by comments (`PASS/**/WORD` is two words), `--` begins a comment only
//! before white space or a control character, comments do not nest except one level inside a
//! skipped versioned comment, and a NUL byte ends a line comment.

use std::collections::TryReserveError;

use crate::grouping::Grouping;
use crate::text::{line_comment_end, long_comment_end, quoted_end, versioned_opener};
use memchr::{memchr, memmem};

/// One guess at the settings that decide where strings and comments end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reading {
    /// Backslash escapes inside `'…'`.
    pub(super) escapes: bool,
    /// Backslash escapes inside `"…"`. Under ANSI_QUOTES there are none.
    pub(super) escapes_in_double: bool,
    /// The contents of `/*! … */` are code.
    pub(super) runs_versioned: bool,
    /// `--` before a byte above 0x7F begins a comment: the byte is a space or a control character.
    pub(super) comments_before_high: bool,
    /// How bytes group into characters.
    pub(super) grouping: Grouping,
}

impl Reading {
    /// The readings under which `text` may split into different tokens.
    pub(super) fn all(text: &[u8], grouping: Grouping) -> Vec<Reading> {
        let backslash = memchr(b'\\', text).is_some();
        let double = backslash && memchr(b'"', text).is_some();
        let versioned = has_versioned_comment(text);
        let mut all = Vec::with_capacity(6);
        for runs_versioned in if versioned { &[true, false][..] } else { &[true][..] } {
            let mut push = |escapes, escapes_in_double| {
                all.push(Reading {
                    escapes,
                    escapes_in_double,
                    runs_versioned: *runs_versioned,
                    comments_before_high: false,
                    grouping,
                });
            };
            push(true, true);
            if backslash {
                push(false, false);
            }
            if double {
                push(true, false);
            }
        }
        if text.windows(3).any(|three| three.starts_with(b"--") && three[2] >= 0x80) {
            let with_comments =
                |reading: &Reading| Reading { comments_before_high: true, ..*reading };
            all.extend(all.clone().iter().map(with_comments));
        }
        if grouping == Grouping::Unknown && has_grouping_doubt(text) {
            let grouped = |grouping| all.iter().map(move |one| Reading { grouping, ..*one });
            return GROUPINGS.into_iter().flat_map(grouped).collect();
        }
        all
    }
}

/// Every way in which bytes can group into characters.
const GROUPINGS: [Grouping; 6] = [
    Grouping::Bytes,
    Grouping::Sjis,
    Grouping::Big5,
    Grouping::Gbk,
    Grouping::Gb18030,
    Grouping::Euckr,
];

/// True if the positions of the quotes of `text` depend on the grouping of bytes: the second byte
/// of a character can look like a backslash or a backtick.
fn has_grouping_doubt(text: &[u8]) -> bool {
    text.windows(2).any(|pair| pair[0] >= 0x80 && matches!(pair[1], b'\\' | b'`'))
}

/// True when `text` has a `/*!` or `/*M!` anywhere, quoted or not.
fn has_versioned_comment(text: &[u8]) -> bool {
    memmem::find(text, b"/*!").is_some() || memmem::find(text, b"/*M!").is_some()
}

/// True if the versioned comments of `text` need not all be executed or all be skipped: they name
/// different versions, or contain another comment.
pub(super) fn has_mixed_versions(text: &[u8]) -> bool {
    let mut first: Option<&[u8]> = None;
    for at in memmem::find_iter(text, b"/*") {
        let opener = versioned_opener(&text[at..]);
        if opener == 0 {
            if first.is_some() {
                return true;
            }
            continue;
        }
        let opener = &text[at..at + opener];
        if *first.get_or_insert(opener) != opener {
            return true;
        }
    }
    false
}

/// The kind of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Letters, digits, `_`, `$`, not starting with a digit: a keyword or a name.
    Word,
    /// A name in backticks.
    Name,
    /// A literal in quotes, with its `N`, `X` or `B` if it has one. `"…"` may be a name.
    Text,
    /// Starts with a digit: `1`, `1.5`, `0x1F`, `1e5`.
    Number,
    /// One other byte.
    Punct(u8),
    /// The mark that an earlier pass put in the place of a secret.
    Marker,
    /// A comment that is not executed.
    Comment,
}

/// One token: its kind and position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Token {
    /// Its kind.
    pub(super) kind: Kind,
    /// First byte.
    pub(super) start: usize,
    /// One past the last byte.
    pub(super) end: usize,
    /// The contents between delimiters; without delimiters, the same as start and end.
    pub(super) body: (usize, usize),
    /// False if the text ended within it.
    pub(super) closed: bool,
}

/// The text that replaces one secret.
pub(super) const SECRET: &[u8] = b"<secret>";
/// The text that replaces everything up to the end.
pub(super) const REDACTED: &[u8] = b"<redacted>";

/// Splits a text into tokens. Copy it to look ahead.
#[derive(Clone, Copy)]
pub(super) struct Lexer<'t> {
    text: &'t [u8],
    at: usize,
    reading: Reading,
    /// Inside a versioned comment that is executed, which `*/` ends.
    in_versioned: bool,
}

impl<'t> Lexer<'t> {
    pub(super) fn new(text: &'t [u8], at: usize, reading: Reading) -> Self {
        Lexer { text, at, reading, in_versioned: false }
    }

    /// Where the search for the next token begins.
    pub(super) fn position(&self) -> usize {
        self.at
    }

    /// The next token that is not a comment.
    pub(super) fn next_code(&mut self) -> Option<Token> {
        self.find(|token| token.kind != Kind::Comment)
    }

    fn rest(&self) -> &'t [u8] {
        &self.text[self.at..]
    }

    fn token(&mut self, kind: Kind, start: usize, body: (usize, usize), closed: bool) -> Token {
        Token { kind, start, end: self.at, body, closed }
    }

    /// A token without delimiters, from `start` to here.
    fn plain(&mut self, kind: Kind, start: usize) -> Token {
        self.token(kind, start, (start, self.at), true)
    }

    fn line_comment(&mut self, opener: usize) -> Token {
        let start = self.at;
        let body = start + opener;
        self.at = line_comment_end(self.text, body);
        self.token(Kind::Comment, start, (body, self.at), true)
    }

    fn long_comment(&mut self) -> Token {
        let start = self.at;
        let body = start + 2;
        let (end, closed) = long_comment_end(self.text, body);
        self.at = end;
        let body_end = if closed { end - 2 } else { end };
        self.token(Kind::Comment, start, (body, body_end), closed)
    }

    /// A versioned comment that is not executed; it may contain one level of comments.
    fn skipped_comment(&mut self, opener: usize) -> Token {
        let start = self.at;
        let body = start + opener;
        self.at = body;
        while self.at < self.text.len() {
            if self.rest().starts_with(b"/*") {
                self.long_comment();
            } else if self.rest().starts_with(b"*/") {
                self.at += 2;
                // The body stays empty: another reading checks it.
                return self.token(Kind::Comment, start, (body, body), true);
            } else {
                self.at += 1;
            }
        }
        self.token(Kind::Comment, start, (body, body), false)
    }

    /// `'…'`, `"…"` or `` `…` ``, whose opening quote is at `quote_at`.
    fn quoted(&mut self, start: usize, quote_at: usize) -> Token {
        let quote = self.text[quote_at];
        let (kind, escapes) = match quote {
            b'\'' => (Kind::Text, self.reading.escapes),
            b'"' => (Kind::Text, self.reading.escapes_in_double),
            _ => (Kind::Name, false),
        };
        let body = quote_at + 1;
        let (end, closed) = quoted_end(self.text, body, quote, escapes, self.reading.grouping);
        self.at = end;
        self.token(kind, start, (body, end - usize::from(closed)), closed)
    }

    fn word(&mut self) -> Token {
        let start = self.at;
        self.at += self.rest().iter().take_while(|&&byte| is_word_byte(byte)).count();
        let is_prefix = self.at == start + 1 && b"nNxXbB".contains(&self.text[start]);
        if is_prefix && self.rest().first() == Some(&b'\'') {
            return self.quoted(start, start + 1);
        }
        self.plain(Kind::Word, start)
    }

    /// `12`, `0x1F` and names like `1st` are as long as a word; `1.5` and `1e5` end with their
    /// digits, so that a keyword may follow without a space.
    fn number(&mut self) -> Token {
        let start = self.at;
        self.digits();
        let is_point = self.rest().first() == Some(&b'.');
        if is_point && self.rest().get(1).is_some_and(u8::is_ascii_digit) {
            self.at += 1;
            self.digits();
        }
        match self.rest() {
            [b'e' | b'E', b'+' | b'-', b'0'..=b'9', ..] => self.at += 2,
            [b'e' | b'E', b'0'..=b'9', ..] => self.at += 1,
            _ if is_point => return self.plain(Kind::Number, start),
            _ => {
                self.at += self.rest().iter().take_while(|&&byte| is_word_byte(byte)).count();
                return self.plain(Kind::Number, start);
            }
        }
        self.digits();
        self.plain(Kind::Number, start)
    }

    fn digits(&mut self) {
        self.at += self.rest().iter().take_while(|byte| byte.is_ascii_digit()).count();
    }

    /// One byte as punctuation.
    fn punct(&mut self) -> Token {
        self.at += 1;
        self.plain(Kind::Punct(self.text[self.at - 1]), self.at - 1)
    }
}

impl Iterator for Lexer<'_> {
    type Item = Token;

    fn next(&mut self) -> Option<Token> {
        loop {
            let rest = self.rest();
            let first = *rest.first()?;
            let token = match first {
                // White space, control characters. A byte above 0x7F can be a letter or a
                // space, depending on the character set; as neither it hides no keyword.
                0..=b' ' | 0x7F => {
                    self.at += 1;
                    continue;
                }
                0x80.. => {
                    self.at += self.reading.grouping.char_bytes(rest);
                    continue;
                }
                b'\'' | b'"' | b'`' => self.quoted(self.at, self.at),
                b'0'..=b'9' => self.number(),
                b'#' => self.line_comment(1),
                b'-' if rest.starts_with(b"--")
                    && rest.get(2).is_none_or(|&byte| is_space_or_control(byte)) =>
                {
                    self.line_comment(2)
                }
                b'-' if self.reading.comments_before_high
                    && rest.starts_with(b"--")
                    && rest.get(2).is_some_and(|&byte| byte >= 0x80) =>
                {
                    let mut token = self.line_comment(2);
                    // The body stays empty: another reading checks it.
                    token.body = (token.end, token.end);
                    token
                }
                b'/' if rest.starts_with(b"/*") => {
                    let opener = versioned_opener(rest);
                    if opener == 0 {
                        self.long_comment()
                    } else if self.reading.runs_versioned {
                        self.at += opener;
                        self.in_versioned = true;
                        continue;
                    } else {
                        self.skipped_comment(opener)
                    }
                }
                b'*' if self.in_versioned && rest.starts_with(b"*/") => {
                    self.at += 2;
                    self.in_versioned = false;
                    continue;
                }
                b'<' => match [SECRET, REDACTED].into_iter().find(|mark| rest.starts_with(mark)) {
                    Some(mark) => {
                        self.at += mark.len();
                        self.plain(Kind::Marker, self.at - mark.len())
                    }
                    None => self.punct(),
                },
                byte if is_word_byte(byte) => self.word(),
                _ => self.punct(),
            };
            return Some(token);
        }
    }
}

fn is_word_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$'
}

fn is_space_or_control(byte: u8) -> bool {
    byte <= b' ' || byte == 0x7F
}

/// The value of a literal body: doubled quotes become one and, with `escapes`, backslashes are
/// removed. Suitable for finding words, not for display: `\n` becomes a space.
///
/// # Errors
/// If there is not enough memory.
pub(super) fn unescape(
    body: &[u8],
    quote: u8,
    escapes: bool,
    grouping: Grouping,
) -> Result<Vec<u8>, TryReserveError> {
    let mut value = Vec::new();
    value.try_reserve_exact(body.len())?;
    let mut at = 0;
    while let rest @ [first, ..] = &body[at..] {
        match rest {
            [b'\\', escaped, ..] if escapes => {
                let is_control = matches!(escaped, b'n' | b't' | b'r' | b'0' | b'b' | b'Z');
                value.push(if is_control { b' ' } else { *escaped });
                at += 2;
            }
            [_, second, ..] if *first == quote && *second == quote => {
                value.push(quote);
                at += 2;
            }
            _ => {
                let bytes = grouping.char_bytes(rest).min(rest.len());
                value.extend_from_slice(&rest[..bytes]);
                at += bytes;
            }
        }
    }
    Ok(value)
}
