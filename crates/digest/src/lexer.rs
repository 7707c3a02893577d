//! A statement's bytes to tokens, as MariaDB's `Lex_input_stream::lex_one_token` cuts them
//! (10.11, `sql/sql_lex.cc`).
//!
//! The lexer keeps a place in the text and two or three facts, and looks at each byte once, but
//! for the second look at strings with a backslash where [`Doubt::Stop`] asks for it.

use memchr::memchr;

use crate::charsets;
use crate::class::{CLASSES, Class, is_word};
use crate::keywords::{self, Keyword};
use crate::mode::{Doubt, Mode};
use crate::text::{line_comment_end, long_comment_end, quoted_end, versioned_opener};

/// One token.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Token<'t> {
    /// A number: the signs before it go with it.
    Number,
    /// Another literal, a `?`, a user variable's name, or a host's.
    Literal,
    /// NULL, which is a literal or not.
    Null,
    /// A keyword and its text.
    Keyword(&'static Keyword, &'static str),
    /// A keyword that is one, or this one, only before the parenthesis that follows; its text.
    Function(&'static Keyword, &'static str),
    /// A name without quotes.
    Name(&'t [u8]),
    /// The contents of quotes around a name. Quotes that are doubled there are backticks, but
    /// under ANSI_QUOTES.
    Quoted(&'t [u8], u8),
    /// `_utf8mb4` and the like.
    Introducer,
    /// `@@`, and whether a name follows at once.
    Variable(bool),
    /// An operator of several bytes.
    Operator(&'static str),
    /// Any other byte.
    Byte(u8),
    /// `...`, of a text that is normalised.
    More,
    /// `/* , ... */`, of a text that is normalised.
    MoreRows,
    /// Nothing can be said of the rest.
    Doubt,
}

/// What the last token says of the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Any,
    /// Before a point that a name follows.
    Point,
    /// After a point: a word is a name.
    Name,
    /// After `@@`: no literal, no function.
    Variable,
    /// After `@`: a word is the name of a user variable or a host.
    Host,
}

/// Cuts a text into tokens.
pub(crate) struct Lexer<'t> {
    text: &'t [u8],
    at: usize,
    mode: Mode,
    next: Next,
    /// Inside a versioned comment, where `*/` is its end.
    in_versioned: bool,
    /// Something was not closed, or cannot be part of a statement.
    is_broken: bool,
}

impl<'t> Lexer<'t> {
    pub(crate) fn new(text: &'t [u8], mode: Mode) -> Lexer<'t> {
        Lexer { text, at: 0, mode, next: Next::Any, in_versioned: false, is_broken: false }
    }

    /// Whether what was read so far can be of a statement that the server has parsed, to the end
    /// of what it was given.
    pub(crate) fn is_broken(&self) -> bool {
        self.is_broken
    }

    fn rest(&self) -> &'t [u8] {
        &self.text[self.at..]
    }

    #[inline]
    fn peek(&self, ahead: usize) -> Option<u8> {
        self.text.get(self.at + ahead).copied()
    }

    /// Whether a byte at `at` begins something that may be part of a name without quotes.
    #[inline]
    fn is_name_at(&self, at: usize) -> bool {
        self.text
            .get(at)
            .is_some_and(|&byte| is_word(byte) || (byte >= 0x80 && self.mode.high.is_letter(byte)))
    }

    /// The end of the name that goes on at `at`.
    #[inline]
    fn name_end(&self, at: usize) -> usize {
        let rest = &self.text[at..];
        let at = at + rest.iter().position(|&byte| !is_word(byte)).unwrap_or(rest.len());
        match self.text.get(at) {
            Some(0x80..) => self.name_end_beyond_ascii(at),
            _ => at,
        }
    }

    #[inline(never)]
    fn name_end_beyond_ascii(&self, mut at: usize) -> usize {
        while let Some(&byte) = self.text.get(at) {
            if is_word(byte) {
                at += 1;
            } else if byte >= 0x80 && self.mode.high.is_letter(byte) {
                at += self.mode.grouping.char_bytes(&self.text[at..]);
            } else {
                break;
            }
        }
        at
    }

    /// What is in the quotes that open at `quote_at`, without them.
    fn quoted(&mut self, quote_at: usize, escapes: bool) -> &'t [u8] {
        let quote = self.text[quote_at];
        let (end, closed) = quoted_end(self.text, quote_at + 1, quote, escapes, self.mode.grouping);
        self.at = end;
        self.is_broken |= !closed;
        &self.text[quote_at + 1..end - usize::from(closed)]
    }

    /// A literal in quotes; `None`: where it ends depends on what nobody knows.
    fn string(&mut self, quote_at: usize) -> Option<Token<'t>> {
        let quote = self.text[quote_at];
        let mode = self.mode;
        let is_double = quote == b'"';
        let escapes = if is_double { mode.escapes_in_double } else { mode.escapes };
        let body = self.quoted(quote_at, escapes);
        if mode.stops() {
            let in_doubt = self.in_versioned && has_comment_mark(body);
            let is_escaped = mode.doubt == Doubt::Stop && memchr(b'\\', body).is_some();
            if in_doubt
                || (is_escaped && {
                    let other = quoted_end(self.text, quote_at + 1, quote, !escapes, mode.grouping);
                    other.0 != self.at
                })
            {
                return None;
            }
        }
        if is_double && mode.ansi_quotes {
            return Some(Token::Quoted(body, quote));
        }
        Some(Token::Literal)
    }

    /// A word, or a literal with a letter before its quotes.
    #[inline]
    fn word(&mut self) -> Token<'t> {
        let start = self.at;
        let end = self.name_end(start);
        let word = &self.text[start..end];
        if let [b'n' | b'N' | b'x' | b'X' | b'b' | b'B'] = word
            && self.text.get(end) == Some(&b'\'')
        {
            return match self.string(end) {
                None => Token::Doubt,
                Some(token) if matches!(word, [b'n' | b'N']) => token,
                Some(_) => Token::Number,
            };
        }
        self.at = end;
        if self.is_qualifier() {
            return Token::Name(word);
        }
        if let Some(keyword) = keywords::find(word)
            && let Some(token) = self.keyword(keyword)
        {
            return token;
        }
        if word[0] == b'_' && charsets::is_known(&word[1..]) {
            return Token::Introducer;
        }
        Token::Name(word)
    }

    /// Whether what ends here qualifies a name: then it is the name of a database or a table, and
    /// digits after the point are a name, too.
    #[inline]
    fn is_qualifier(&mut self) -> bool {
        let is_qualifier = self.peek(0) == Some(b'.') && self.is_name_at(self.at + 1);
        if is_qualifier {
            self.next = Next::Point;
        }
        is_qualifier
    }

    /// What a keyword is here; `None`: a name.
    #[inline]
    fn keyword(&self, keyword: &'static Keyword) -> Option<Token<'t>> {
        if keyword.is_the_same_in_calls() {
            let text = keyword.bare();
            return Some(match keyword.is("NULL") {
                true => Token::Null,
                false => Token::Keyword(keyword, text),
            });
        }
        if keyword.bare().is_empty() {
            let call = keyword.call();
            return self.is_call().then_some(match keyword.is_another_in_calls() {
                true => Token::Keyword(keyword, call),
                false => Token::Function(keyword, call),
            });
        }
        if self.is_call() || self.is_call_after_gap() {
            return Some(Token::Function(keyword, keyword.call()));
        }
        Some(Token::Keyword(keyword, keyword.bare()))
    }

    /// Whether a parenthesis follows at once: what the server asks for.
    #[inline]
    fn is_call(&self) -> bool {
        self.peek(0) == Some(b'(') && !self.rest().starts_with(INTRODUCER.as_bytes())
    }

    /// Whether one follows white space and comments.
    #[inline(never)]
    fn is_call_after_gap(&self) -> bool {
        let mut at = self.at;
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
                [b'(', ..] => return !rest.starts_with(INTRODUCER.as_bytes()),
                _ => return false,
            }
        }
    }

    /// `12`, `1.5`, `1e5`, `0x1F`, `0b1`, and names that begin with a digit.
    fn number(&mut self) -> Token<'t> {
        let start = self.at;
        let token = self.number_or_name(start);
        self.unless_digits(start, token)
    }

    /// What begins with a digit and is a name may be what a cut has left of `1e-5`: in doubt it is
    /// no name.
    fn unless_digits(&self, start: usize, token: Token<'t>) -> Token<'t> {
        let begins = self.text.get(start).is_some_and(u8::is_ascii_digit);
        if begins && self.mode.stops() { Token::Number } else { token }
    }

    fn number_or_name(&mut self, start: usize) -> Token<'t> {
        if self.text[start] == b'0' {
            let is_digit: fn(&u8) -> bool = match self.peek(1) {
                Some(b'x') => u8::is_ascii_hexdigit,
                Some(b'b') => |byte| matches!(byte, b'0' | b'1'),
                _ => |_| false,
            };
            let digits = self.text[start + 1..].iter().skip(1).take_while(|b| is_digit(b)).count();
            if digits > 0 && !self.is_name_at(start + 2 + digits) {
                self.at = start + 2 + digits;
                return Token::Number;
            }
        }
        let end = self.digits_end(start);
        self.at = end;
        match self.text[end..] {
            [b'e' | b'E', b'0'..=b'9', ..] | [b'e' | b'E', b'+' | b'-', b'0'..=b'9', ..] => {
                self.at = self.digits_end(end + 2);
                Token::Number
            }
            [b'.', ..] => self.real(end + 1),
            _ if self.is_name_at(end) => {
                self.at = self.name_end(end);
                let name = Token::Name(&self.text[start..self.at]);
                self.is_qualifier();
                name
            }
            _ => Token::Number,
        }
    }

    /// The rest of a number after its point.
    fn real(&mut self, after_point: usize) -> Token<'t> {
        let end = self.digits_end(after_point);
        self.at = match self.text[end..] {
            [b'e' | b'E', b'0'..=b'9', ..] | [b'e' | b'E', b'+' | b'-', b'0'..=b'9', ..] => {
                self.digits_end(end + 2)
            }
            _ => end,
        };
        Token::Number
    }

    fn digits_end(&self, at: usize) -> usize {
        at + self.text[at..].iter().take_while(|byte| byte.is_ascii_digit()).count()
    }

    /// After `@`.
    fn host(&mut self) -> Token<'t> {
        let rest = self.rest();
        if let [b'?', ..] = rest {
            self.at += 1;
        } else {
            let mut at = self.at;
            while let Some(&byte) = self.text.get(at) {
                if is_word(byte) || byte == b'.' {
                    at += 1;
                } else if byte >= 0x80 && self.mode.high.is_letter(byte) {
                    at += self.mode.grouping.char_bytes(&self.text[at..]);
                } else {
                    break;
                }
            }
            self.at = at;
        }
        Token::Literal
    }

    /// Takes an operator of several bytes.
    fn operator(&mut self, text: &'static str) -> Token<'t> {
        self.at += text.len();
        Token::Operator(text)
    }

    fn byte(&mut self, byte: u8) -> Token<'t> {
        self.at += 1;
        Token::Byte(byte)
    }

    /// Passes over a comment; `None`: it was one.
    fn long_comment(&mut self) -> Option<Token<'t>> {
        const MORE_ROWS: &[u8] = b"/* , ... */";
        let rest = self.rest();
        let opener = versioned_opener(rest);
        if opener > 0 {
            // One inside of another: which of them are run decides where they end.
            if self.mode.stops() && self.in_versioned {
                return Some(Token::Doubt);
            }
            self.at += opener;
            self.in_versioned = true;
            return None;
        }
        if rest.starts_with(MORE_ROWS) {
            self.at += MORE_ROWS.len();
            return Some(Token::MoreRows);
        }
        let (end, closed) = long_comment_end(self.text, self.at + 2);
        self.at = end;
        self.is_broken |= !closed;
        None
    }

    fn line_comment(&mut self, opener: usize) -> Option<Token<'t>> {
        let body = self.at + opener;
        let end = line_comment_end(self.text, body);
        let is_cut_by_versioned =
            self.mode.stops() && self.in_versioned && has_comment_mark(&self.text[body..end]);
        self.at = end;
        is_cut_by_versioned.then_some(Token::Doubt)
    }

    /// What begins with a byte that can be part of several tokens. `None`: a comment.
    fn special(&mut self, byte: u8) -> Option<Token<'t>> {
        let rest = self.rest();
        let second = rest.get(1).copied().unwrap_or(0);
        Some(match (byte, second) {
            (b'#', _) => return self.line_comment(1),
            (b'-', b'-') => match rest.get(2) {
                None | Some(0..=b' ' | 0x7F) => return self.line_comment(2),
                // White space in some character sets.
                Some(&high @ 0x80..) if self.mode.stops() || self.mode.high.is_space(high) => {
                    if self.mode.stops() {
                        return Some(Token::Doubt);
                    }
                    return self.line_comment(2);
                }
                _ => self.byte(byte),
            },
            (b'/', b'*') => return self.long_comment(),
            (b'*', b'/') if self.in_versioned => {
                self.at += 2;
                self.in_versioned = false;
                return None;
            }
            (b'.', b'0'..=b'9') => self.real(self.at + 1),
            (b'.', b'.') if rest.starts_with(b"...") => {
                self.at += 3;
                Token::More
            }
            (b'.', _) => {
                self.at += 1;
                if self.is_name_at(self.at) {
                    self.next = Next::Name;
                }
                Token::Byte(b'.')
            }
            (b'@', second) => {
                self.at += 1;
                self.next = match second {
                    b'\'' | b'"' | b'`' => Next::Any,
                    b'@' => {
                        self.at += 1;
                        if self.is_name_at(self.at) {
                            self.next = Next::Variable;
                        }
                        let is_variable = self.is_name_at(self.at) || self.peek(0) == Some(b'`');
                        return Some(Token::Variable(is_variable));
                    }
                    _ => Next::Host,
                };
                Token::Byte(b'@')
            }
            (b'<', _) if self.mode.stops() && rest.starts_with(b"<secret>") => {
                self.at += b"<secret>".len();
                Token::Literal
            }
            (b'<', _) if self.mode.stops() && rest.starts_with(crate::REDACTED) => Token::Doubt,
            (b'<', b'=') if rest.get(2) == Some(&b'>') => self.operator("<=>"),
            (b'<', b'=') => self.operator("<="),
            (b'<', b'>') | (b'!', b'=') => {
                self.at += 2;
                Token::Operator("!=")
            }
            (b'<', b'<') => self.operator("<<"),
            (b'>', b'=') => self.operator(">="),
            (b'>', b'>') => self.operator(">>"),
            (b'&', b'&') => self.operator("&&"),
            (b'|', b'|') => self.operator("||"),
            (b':', b'=') => self.operator(":="),
            (b'\\', b'N') => {
                self.at += 2;
                Token::Null
            }
            (b'\\', _) if self.mode.stops() && self.in_versioned => Token::Doubt,
            (b'\\', _) => {
                self.is_broken = true;
                self.byte(byte)
            }
            (b'(', b'_') if rest.starts_with(INTRODUCER.as_bytes()) => {
                self.at += INTRODUCER.len();
                Token::Introducer
            }
            (b'?', _) => {
                self.at += 1;
                Token::Literal
            }
            _ => self.byte(byte),
        })
    }

    /// A byte above 0x7F. `None`: white space.
    fn high(&mut self, byte: u8) -> Option<Token<'t>> {
        if self.mode.high.is_letter(byte) {
            return Some(self.word());
        }
        if self.mode.high.is_space(byte) {
            self.at += 1;
            return None;
        }
        Some(self.byte(byte))
    }

    /// The next token.
    #[inline]
    pub(crate) fn next(&mut self) -> Option<Token<'t>> {
        if self.next != Next::Any {
            match std::mem::replace(&mut self.next, Next::Any) {
                Next::Point => {
                    self.next = Next::Name;
                    return Some(self.byte(b'.'));
                }
                Next::Name => {
                    let start = self.at;
                    self.at = self.name_end(start);
                    let name = Token::Name(&self.text[start..self.at]);
                    self.is_qualifier();
                    return Some(self.unless_digits(start, name));
                }
                Next::Variable => {
                    let start = self.at;
                    self.at = self.name_end(start);
                    let word = &self.text[start..self.at];
                    self.is_qualifier();
                    return Some(match keywords::find(word) {
                        Some(keyword) if !keyword.bare().is_empty() => {
                            Token::Keyword(keyword, keyword.bare())
                        }
                        _ => Token::Name(word),
                    });
                }
                Next::Host => return Some(self.host()),
                Next::Any => {}
            }
        }
        loop {
            let byte = self.peek(0)?;
            let token = match CLASSES[usize::from(byte)] {
                Class::Space => {
                    self.at += 1;
                    continue;
                }
                Class::Letter => self.word(),
                Class::Digit => self.number(),
                Class::Single => self.byte(byte),
                Class::Quote => self.string(self.at).unwrap_or(Token::Doubt),
                Class::Backtick => {
                    let body = self.quoted(self.at, false);
                    if self.mode.stops() && self.in_versioned && has_comment_mark(body) {
                        Token::Doubt
                    } else {
                        Token::Quoted(body, b'`')
                    }
                }
                Class::Special => match self.special(byte) {
                    Some(token) => token,
                    None => continue,
                },
                Class::High => match self.high(byte) {
                    Some(token) => token,
                    None => continue,
                },
            };
            return Some(token);
        }
    }
}

/// What is written for an introducer.
pub(crate) const INTRODUCER: &str = "(_charset)";

/// Whether there is a begin or an end of a comment in it: in a versioned comment that the server
/// skips these count, whatever is around them.
fn has_comment_mark(text: &[u8]) -> bool {
    text.windows(2).any(|pair| matches!(pair, b"*/" | b"/*"))
}
