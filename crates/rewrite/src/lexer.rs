//! The tokens of a statement, as MySQL splits it (8.0 and 9.7, `sql/sql_lex.cc`).
//!
//! It reads the statements that a rule can be about, and rejects the rest: a text whose tokens are
//! ambiguous, and one with several statements. Rejected texts are not rewritten. Comments are not
//! tokens; optimizer hints are.
//!
//! The digest's lexer (`tacho_sql::digest`) reads any text, folds lists and creates text; this one
//! does none of that, and cannot panic. Where both read a token, they read the same one: the tests
//! compare them.

use tacho_sql::block;

use crate::reading::Reading;
use crate::token::{Cause, Kind, Refused, Token};

/// Splits a text into tokens. Ends with the statement, or at rejected text.
#[derive(Clone, Copy, Debug)]
pub struct Lexer<'t> {
    text: &'t [u8],
    reading: Reading,
    at: usize,
    /// The last token was the point after a name: text directly after it is a name, too.
    is_qualified: bool,
    /// The last token may be followed by a point that makes it a qualifier.
    was_name: bool,
    refused: Option<Refused>,
}

/// White space, as defined by the server's `my_isspace` for ASCII.
#[inline]
pub(crate) const fn is_space(byte: u8) -> bool {
    matches!(byte, b'\t'..=b'\r' | b' ')
}

/// Whether a byte may be part of a name without quotes.
#[inline]
pub(crate) const fn is_word(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' | b'_' | b'$' | 0x80..)
}

/// Operators of several bytes, the longest first.
const OPERATORS: &[&[u8]] =
    &[b"<=>", b"->>", b"<=", b"<>", b"!=", b"<<", b">=", b">>", b"&&", b"||", b":=", b"->"];

impl<'t> Iterator for Lexer<'t> {
    type Item = Token<'t>;

    #[inline]
    fn next(&mut self) -> Option<Token<'t>> {
        self.skip()?;
        let start = self.at;
        let byte = self.byte_at(start)?;
        let is_qualified = core::mem::take(&mut self.is_qualified);
        let kind = match byte {
            _ if is_word(byte) => self.word(start, byte, is_qualified)?,
            b'\'' => self.string(start)?,
            b'"' if self.reading.is_unknown => return self.refuse(start, Cause::Mode),
            b'"' if self.reading.ansi_quotes => self.quoted(start)?,
            b'"' => self.string(start)?,
            b'`' => self.quoted(start)?,
            b'.' if !self.was_name
                && self.byte_at(start.saturating_add(1)).is_some_and(is_digit) =>
            {
                self.at = self.fraction_end(start.saturating_add(1));
                Kind::Number
            }
            b'@' => self.variable(start)?,
            b'?' => self.one(Kind::Mark),
            b';' => return self.end(start),
            b'/' if self.byte_at(start.saturating_add(1)) == Some(b'*') => self.hint(start)?,
            b'\\' | 0..=b' ' | 0x7F => return self.refuse(start, Cause::Byte),
            _ => self.operator(start, byte),
        };
        let text = self.text.get(start..self.at)?;
        if kind == Kind::Other && byte == b'.' {
            let next = self.byte_at(self.at);
            self.is_qualified = self.was_name && next.is_some_and(is_word);
        }
        self.was_name = matches!(kind, Kind::Word | Kind::Quoted);
        Some(Token { kind, start, text })
    }
}

#[inline]
fn is_digit(byte: u8) -> bool {
    byte.is_ascii_digit()
}

impl<'t> Lexer<'t> {
    /// Starts at the beginning of a text.
    pub fn new(text: &'t [u8], reading: Reading) -> Lexer<'t> {
        let other = || text.iter().position(|byte| !byte.is_ascii());
        let at = if reading.is_utf8 { None } else { other() };
        let refused = at.map(|at| Refused { at, cause: Cause::Charset });
        Lexer { text, reading, at: 0, is_qualified: false, was_name: false, refused }
    }

    /// The reason of the rejection, if it has ended with one.
    pub fn refused(&self) -> Option<Refused> {
        self.refused
    }

    #[inline]
    fn byte_at(&self, at: usize) -> Option<u8> {
        self.text.get(at).copied()
    }

    #[inline]
    fn starts_with(&self, at: usize, what: &[u8]) -> bool {
        self.text.get(at..).is_some_and(|rest| rest.starts_with(what))
    }

    #[cold]
    fn refuse<T>(&mut self, at: usize, cause: Cause) -> Option<T> {
        self.refused = Some(Refused { at, cause });
        None
    }

    /// Advances to the next token; `None`: there is none.
    #[inline]
    fn skip(&mut self) -> Option<()> {
        if self.refused.is_some() {
            return None;
        }
        loop {
            let byte = self.byte_at(self.at)?;
            if is_space(byte) {
                self.at = self.at.saturating_add(1);
            } else if matches!(byte, b'#' | b'-' | b'/') {
                let end = self.comment(byte)?;
                if end == self.at {
                    return Some(());
                }
                self.at = end;
            } else {
                return Some(());
            }
            // A point and a name with something between them are separate tokens.
            self.is_qualified = false;
            self.was_name = false;
        }
    }

    /// The end of the comment that begins with this byte, or its position if it does not begin one.
    fn comment(&mut self, byte: u8) -> Option<usize> {
        let (at, text) = (self.at, self.text);
        let next = |bytes: usize| text.get(at.saturating_add(bytes)).copied();
        match (byte, next(1)) {
            (b'#', _) => self.line_end(at),
            (b'-', Some(b'-')) if next(2).is_none_or(|it| it <= b' ' || it == 0x7F) => {
                self.line_end(at)
            }
            (b'/', Some(b'*')) if next(2) == Some(b'!') => self.refuse(at, Cause::Versioned),
            (b'/', Some(b'*')) if self.starts_with(at, b"/*M!") => {
                self.refuse(at, Cause::Versioned)
            }
            // A hint is a token.
            (b'/', Some(b'*')) if next(2) == Some(b'+') => Some(at),
            (b'/', Some(b'*')) => self.comment_end(at),
            _ => Some(at),
        }
    }

    /// The end of a comment to the end of the line. For the server, a NUL ends it, too.
    fn line_end(&self, at: usize) -> Option<usize> {
        let rest = self.text.get(at..).unwrap_or_default();
        match rest.iter().position(|byte| matches!(byte, b'\n' | 0)) {
            Some(bytes) => Some(at.saturating_add(bytes)),
            None => Some(self.text.len()),
        }
    }

    /// The end of the comment with stars at `at`.
    fn comment_end(&mut self, at: usize) -> Option<usize> {
        let mut star = at.saturating_add(2);
        while let Some(found) = block::find(self.text, star, b'*', b'*') {
            star = found.saturating_add(1);
            if self.byte_at(star) == Some(b'/') {
                return Some(star.saturating_add(1));
            }
        }
        self.refuse(at, Cause::OpenComment)
    }

    fn hint(&mut self, start: usize) -> Option<Kind> {
        self.at = self.comment_end(start)?;
        Some(Kind::Hint)
    }

    /// A semicolon: the statement ends.
    fn end(&mut self, start: usize) -> Option<Token<'t>> {
        let rest = self.text.get(start..).unwrap_or_default();
        match rest.iter().position(|byte| !is_space(*byte) && *byte != b';') {
            Some(bytes) => self.refuse(start.saturating_add(bytes), Cause::Several),
            None => {
                self.at = self.text.len();
                None
            }
        }
    }

    #[inline]
    fn one(&mut self, kind: Kind) -> Kind {
        self.at = self.at.saturating_add(1);
        kind
    }

    fn operator(&mut self, start: usize, byte: u8) -> Kind {
        for operator in OPERATORS {
            if self.starts_with(start, operator) {
                self.at = start.saturating_add(operator.len());
                return Kind::Other;
            }
        }
        self.one(if matches!(byte, b'+' | b'-') { Kind::Sign } else { Kind::Other })
    }

    /// The end of the name that continues at `at`.
    #[inline]
    fn name_end(&self, at: usize) -> usize {
        let rest = self.text.get(at..).unwrap_or_default();
        let bytes = rest.iter().position(|byte| !is_word(*byte)).unwrap_or(rest.len());
        at.saturating_add(bytes)
    }

    /// A word, a number, or a literal with a letter before its quotes.
    #[inline]
    fn word(&mut self, start: usize, byte: u8, is_qualified: bool) -> Option<Kind> {
        if is_digit(byte)
            && !is_qualified
            && let Some(end) = self.number_end(start)
        {
            self.at = end;
            return Some(Kind::Number);
        }
        if byte == b'$' {
            return self.refuse(start, Cause::Dollar);
        }
        let end = self.name_end(start);
        let is_prefix = end == start.saturating_add(1)
            && !is_qualified
            && self.byte_at(end) == Some(b'\'')
            && matches!(byte, b'n' | b'N' | b'x' | b'X' | b'b' | b'B');
        if is_prefix {
            return self.string(end);
        }
        self.at = end;
        Some(Kind::Word)
    }

    fn digits_end(&self, at: usize) -> usize {
        let rest = self.text.get(at..).unwrap_or_default();
        let bytes = rest.iter().position(|byte| !is_digit(*byte)).unwrap_or(rest.len());
        at.saturating_add(bytes)
    }

    /// The end of the number at `start`; `None`: it is a name that begins with a digit.
    fn number_end(&self, start: usize) -> Option<usize> {
        let end = self.digits_end(start);
        match self.byte_at(end) {
            Some(b'.') => return Some(self.fraction_end(end.saturating_add(1))),
            Some(byte) if is_word(byte) => {}
            _ => return Some(end),
        }
        if self.byte_at(start) == Some(b'0') {
            let is_part: fn(&u8) -> bool = match self.byte_at(start.saturating_add(1)) {
                Some(b'x') => u8::is_ascii_hexdigit,
                Some(b'b') => |byte| matches!(byte, b'0' | b'1'),
                _ => |_| false,
            };
            let body = start.saturating_add(2);
            let rest = self.text.get(body..).unwrap_or_default();
            let bytes = rest.iter().take_while(|byte| is_part(byte)).count();
            let end = body.saturating_add(bytes);
            if bytes > 0 && !self.byte_at(end).is_some_and(is_word) {
                return Some(end);
            }
        }
        self.exponent_end(end)
    }

    /// The rest of a number after its point.
    fn fraction_end(&self, at: usize) -> usize {
        let end = self.digits_end(at);
        self.exponent_end(end).unwrap_or(end)
    }

    fn exponent_end(&self, at: usize) -> Option<usize> {
        match self.text.get(at..).unwrap_or_default() {
            [b'e' | b'E', b'0'..=b'9', ..] | [b'e' | b'E', b'+' | b'-', b'0'..=b'9', ..] => {
                Some(self.digits_end(at.saturating_add(2)))
            }
            _ => None,
        }
    }

    /// The position after the quote that closes the one at `at`.
    #[inline]
    fn closed(&mut self, at: usize, escapes: bool) -> Option<usize> {
        let quote = self.byte_at(at)?;
        let other = if escapes { b'\\' } else { quote };
        let mut place = at.saturating_add(1);
        while let Some(mark) = block::find(self.text, place, quote, other) {
            let next = mark.saturating_add(1);
            let is_quote = self.byte_at(mark) == Some(quote);
            if is_quote && self.byte_at(next) != Some(quote) {
                return Some(next);
            }
            if !is_quote && self.reading.is_unknown {
                return self.refuse(mark, Cause::Mode);
            }
            // Doubled, or escaped.
            place = next.saturating_add(1);
        }
        self.refuse(at, Cause::OpenQuote)
    }

    /// The string that opens at `quote`.
    fn string(&mut self, quote: usize) -> Option<Kind> {
        // If it is unknown what a backslash means, it must be found.
        let escapes = !self.reading.no_escapes || self.reading.is_unknown;
        self.at = self.closed(quote, escapes)?;
        Some(Kind::String)
    }

    fn quoted(&mut self, start: usize) -> Option<Kind> {
        self.at = self.closed(start, false)?;
        Some(Kind::Quoted)
    }

    /// `@name`, `@'name'`, or the `@@` before the name of a setting.
    fn variable(&mut self, start: usize) -> Option<Kind> {
        let body = start.saturating_add(1);
        self.at = match self.byte_at(body) {
            Some(b'@') => body.saturating_add(1),
            Some(b'\'') => {
                self.string(body)?;
                self.at
            }
            Some(b'"') if self.reading.is_unknown => return self.refuse(body, Cause::Mode),
            Some(b'"') if !self.reading.ansi_quotes => {
                self.string(body)?;
                self.at
            }
            Some(b'"' | b'`') => self.closed(body, false)?,
            _ => {
                let rest = self.text.get(body..).unwrap_or_default();
                let is_end = |byte: &u8| !is_word(*byte) && *byte != b'.';
                body.saturating_add(rest.iter().position(is_end).unwrap_or(rest.len()))
            }
        };
        Some(Kind::Variable)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str, reading: Reading) -> Vec<(Kind, &str)> {
        let lexer = Lexer::new(text.as_bytes(), reading);
        lexer.map(|it| (it.kind, std::str::from_utf8(it.text).unwrap())).collect()
    }

    fn refused(text: &[u8], reading: Reading) -> Option<Refused> {
        let mut lexer = Lexer::new(text, reading);
        while lexer.next().is_some() {}
        lexer.refused()
    }

    #[test]
    fn statements_are_cut_into_tokens() {
        use Kind::*;
        let cases: &[(&str, &[(Kind, &str)])] = &[
            (
                "SELECT a.`b``c` FROM t1",
                &[
                    (Word, "SELECT"),
                    (Word, "a"),
                    (Other, "."),
                    (Quoted, "`b``c`"),
                    (Word, "FROM"),
                    (Word, "t1"),
                ],
            ),
            (
                "1 1.5 .5 1e5 1.e-3 0x1F 0b1 1a 0x 5.a",
                &[
                    (Number, "1"),
                    (Number, "1.5"),
                    (Number, ".5"),
                    (Number, "1e5"),
                    (Number, "1.e-3"),
                    (Number, "0x1F"),
                    (Number, "0b1"),
                    (Word, "1a"),
                    (Word, "0x"),
                    (Number, "5."),
                    (Word, "a"),
                ],
            ),
            (
                "t.1 t . 1 `t`.5 t.x'1'",
                &[
                    (Word, "t"),
                    (Other, "."),
                    (Word, "1"),
                    (Word, "t"),
                    (Other, "."),
                    (Number, "1"),
                    (Quoted, "`t`"),
                    (Other, "."),
                    (Word, "5"),
                    (Word, "t"),
                    (Other, "."),
                    (Word, "x"),
                    (String, "'1'"),
                ],
            ),
            (
                r#"'a''b' 'a\'b' "c" N'd' x'41' _utf8'e' ''"#,
                &[
                    (String, "'a''b'"),
                    (String, r"'a\'b'"),
                    (String, "\"c\""),
                    (String, "N'd'"),
                    (String, "x'41'"),
                    (Word, "_utf8"),
                    (String, "'e'"),
                    (String, "''"),
                ],
            ),
            (
                "@a.b @'x' @`y` @@z @1 @",
                &[
                    (Variable, "@a.b"),
                    (Variable, "@'x'"),
                    (Variable, "@`y`"),
                    (Variable, "@@"),
                    (Word, "z"),
                    (Variable, "@1"),
                    (Variable, "@"),
                ],
            ),
            (
                "a<=>b->>'c'--1:=?",
                &[
                    (Word, "a"),
                    (Other, "<=>"),
                    (Word, "b"),
                    (Other, "->>"),
                    (String, "'c'"),
                    (Sign, "-"),
                    (Sign, "-"),
                    (Number, "1"),
                    (Other, ":="),
                    (Mark, "?"),
                ],
            ),
            (
                "a/* ' */b -- '\n# \"\nc/*+ d */-- ",
                &[(Word, "a"), (Word, "b"), (Word, "c"), (Hint, "/*+ d */")],
            ),
            ("a ; ;\n", &[(Word, "a")]),
            ("\u{e9}t\u{e9} 'x\u{e9}'", &[(Word, "\u{e9}t\u{e9}"), (String, "'x\u{e9}'")]),
            ("", &[]),
        ];
        for (text, expected) in cases {
            assert_eq!(kinds(text, Reading::USUAL), *expected, "{text}");
            assert_eq!(refused(text.as_bytes(), Reading::USUAL), None, "{text}");
        }
        let ansi = Reading { ansi_quotes: true, ..Reading::USUAL };
        assert_eq!(kinds("\"a\"\"b\"", ansi), [(Quoted, "\"a\"\"b\"")]);
        assert_eq!(kinds("@\"a\"", ansi), [(Variable, "@\"a\"")]);
        let no_escapes = Reading { no_escapes: true, ..Reading::USUAL };
        assert_eq!(kinds(r"'a\' b", no_escapes), [(String, r"'a\'"), (Word, "b")]);
    }

    #[test]
    fn ambiguous_texts_are_refused() {
        use Cause::*;
        let cases: &[(&[u8], usize, Cause)] = &[
            (b"a 'b", 2, OpenQuote),
            (b"a `b", 2, OpenQuote),
            (b"a \"b\\\"", 2, OpenQuote),
            (b"a /* b", 2, OpenComment),
            (b"a /*/", 2, OpenComment),
            (b"a /*+ b", 2, OpenComment),
            (b"a /*! b */", 2, Versioned),
            (b"a /*M! b */", 2, Versioned),
            (b"a; b", 3, Several),
            (b"a; -- b", 3, Several),
            (b"a \0", 2, Byte),
            (b"a -- b\0c", 6, Byte),
            (b"a \\N", 2, Byte),
            (b"a $$ b $$", 2, Dollar),
        ];
        for (text, at, cause) in cases {
            assert_eq!(refused(text, Reading::USUAL), Some(Refused { at: *at, cause: *cause }));
        }
        let latin1 = Reading { is_utf8: false, ..Reading::USUAL };
        assert_eq!(refused(b"a '\xE9'", latin1), Some(Refused { at: 3, cause: Charset }));
        let unknown = Reading { is_unknown: true, ..Reading::USUAL };
        assert_eq!(refused(b"a \"b\"", unknown), Some(Refused { at: 2, cause: Mode }));
        assert_eq!(refused(b"a 'b\\'", unknown), Some(Refused { at: 4, cause: Mode }));
        assert_eq!(refused(b"a @\"b\"", unknown), Some(Refused { at: 3, cause: Mode }));
        assert_eq!(refused(b"a 'b' `c\\`", unknown), None);
    }
}
