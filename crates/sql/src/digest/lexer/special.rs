//! Tokens that begin with an ambiguous byte: comments, operators, points, variables, and the marks
//! of normalised texts.

use super::{Lexer, has_comment_mark};
use crate::block::Block;
use crate::class::is_word;
use crate::digest::fold::Fold;
use crate::digest::keywords;
use crate::text::{MORE_ROWS, line_comment_end, long_comment_end, versioned_opener};

impl Lexer<'_> {
    /// See the module documentation; `byte` is the one at `at`.
    #[inline]
    pub(super) fn special(&mut self, at: usize, byte: u8, fold: &mut Fold) -> usize {
        let second = self.byte_at(at + 1).unwrap_or(0);
        match (byte, second) {
            (b'.', b'`') => {}
            (b'?', _) => {
                fold.value();
                return self.list(at + 1, fold);
            }
            _ => return self.rare(at, byte, second, fold),
        }
        fold.byte(byte);
        at + 1
    }

    #[inline(never)]
    fn rare(&mut self, at: usize, byte: u8, second: u8, fold: &mut Fold) -> usize {
        let rest = &self.text[at..];
        let operator = match (byte, second) {
            (b'#', _) => return self.line_comment(at + 1, fold),
            (b'-', b'-') => match rest.get(2) {
                None | Some(0..=b' ' | 0x7F) => return self.line_comment(at + 2, fold),
                // White space in some character sets.
                Some(0x80..) if self.mode.stops() => return self.doubt(fold),
                Some(&high @ 0x80..) if self.mode.high.is_space(high) => {
                    return self.line_comment(at + 2, fold);
                }
                _ => "",
            },
            (b'/', b'*') => return self.long_comment(at, fold),
            (b'*', b'/') if self.in_versioned => {
                self.in_versioned = false;
                return at + 2;
            }
            (b'.', b'0'..=b'9') => {
                fold.number();
                let end = self.fraction_end(at + 1);
                return self.list(end, fold);
            }
            (b'.', b'.') if rest.starts_with(b"...") => {
                fold.more();
                return at + 3;
            }
            (b'.', _) if self.is_name_at(at + 1) => return self.qualified(at, fold),
            (b'@', b'@') => return self.variable(at + 2, fold),
            (b'@', b'\'' | b'"' | b'`') => "",
            (b'@', _) => {
                fold.byte(b'@');
                fold.value();
                return self.host_end(at + 1);
            }
            (b'<', _) if self.mode.stops() && rest.starts_with(b"<secret>") => {
                fold.value();
                return at + b"<secret>".len();
            }
            (b'<', _) if self.mode.stops() && rest.starts_with(crate::digest::REDACTED) => {
                return self.doubt(fold);
            }
            (b'<', b'=') if rest.get(2) == Some(&b'>') => "<=>",
            (b'<', b'=') => "<=",
            (b'<', b'>') | (b'!', b'=') => "!=",
            (b'<', b'<') => "<<",
            (b'>', b'=') => ">=",
            (b'>', b'>') => ">>",
            (b'&', b'&') => "&&",
            (b'|', b'|') => "||",
            (b':', b'=') => ":=",
            (b'\\', b'N') => {
                fold.null();
                return at + 2;
            }
            (b'\\', _) if self.mode.stops() && self.in_versioned => return self.doubt(fold),
            (b'\\', _) => {
                self.is_broken = true;
                ""
            }
            _ => "",
        };
        if operator.is_empty() {
            fold.byte(byte);
            return at + 1;
        }
        fold.operator(operator);
        // `<>` is as long as `!=`.
        let end = at + operator.len();
        end + usize::from(self.byte_at(end) == Some(b' '))
    }

    /// After `@@`: no literal, no function.
    fn variable(&mut self, at: usize, fold: &mut Fold) -> usize {
        let is_name = self.is_name_at(at);
        fold.variable(is_name || self.byte_at(at) == Some(b'`'));
        if !is_name {
            return at;
        }
        let block = Block::at(self.padded, at);
        let end = self.name_end(at);
        let word = &self.text[at..end];
        match keywords::find_word(block, word) {
            Some(keyword) if !keyword.bare().is_empty() => {
                fold.word(keyword.kind, keyword.bare());
            }
            _ => fold.name(word),
        }
        self.qualified(end, fold)
    }

    /// The end of the name of a user variable or a host after `@`, which may be empty.
    fn host_end(&self, mut at: usize) -> usize {
        if self.byte_at(at) == Some(b'?') {
            return at + 1;
        }
        while let Some(&byte) = self.text.get(at) {
            if is_word(byte) || byte == b'.' {
                at += 1;
            } else if byte >= 0x80 && self.mode.high.is_letter(byte) {
                at += self.mode.grouping.char_bytes(&self.text[at..]);
            } else {
                break;
            }
        }
        at
    }

    /// A comment, or the beginning of a versioned one.
    fn long_comment(&mut self, at: usize, fold: &mut Fold) -> usize {
        let rest = &self.text[at..];
        let opener = versioned_opener(rest);
        if opener > 0 {
            // A comment inside a comment: which of them are executed decides where they end.
            if self.mode.stops() && self.in_versioned {
                return self.doubt(fold);
            }
            self.in_versioned = true;
            return at + opener;
        }
        if rest.starts_with(MORE_ROWS) {
            fold.more_rows();
            return at + MORE_ROWS.len();
        }
        let (end, closed) = long_comment_end(self.text, at + 2);
        self.is_broken |= !closed;
        end
    }

    /// A comment to the end of the line; its text begins at `body`.
    fn line_comment(&mut self, body: usize, fold: &mut Fold) -> usize {
        let end = line_comment_end(self.text, body);
        if self.mode.stops() && self.in_versioned && has_comment_mark(&self.text[body..end]) {
            return self.doubt(fold);
        }
        end
    }
}
