//! URLs that an expression concatenates from literals: `CONCAT('https:', '//user:password@host')`.
//! Adjacent literals are one literal, which is checked as a whole.

use std::borrow::Cow;
use std::collections::TryReserveError;

use super::lexer::{Kind, Token};
use super::scan::{Scan, appended};
use super::url;

/// Where CONCAT and `||` concatenate literals.
#[derive(Default)]
pub(super) struct Parts {
    /// A bit for each depth of parentheses: set if the open parenthesis belongs to a CONCAT.
    concats: u64,
    /// Literals up to here were checked.
    end: usize,
}

impl Parts {
    /// At an opening parenthesis, at depth `depth`.
    pub(super) fn open(&mut self, depth: usize, is_concat: bool) {
        // Deeper ones are not checked.
        let bit = bit_of(depth);
        self.concats = if is_concat { self.concats | bit } else { self.concats & !bit };
    }
}

fn bit_of(depth: usize) -> u64 {
    u32::try_from(depth).ok().and_then(|depth| 1_u64.checked_shl(depth)).unwrap_or(0)
}

impl<'t> Scan<'_, 't> {
    /// Removes `token` and the literals concatenated with it, if they make a URL with a password.
    pub(super) fn url_in_parts(&mut self, token: Token) {
        if token.start < self.parts.end {
            return;
        }
        match self.parts_from(token) {
            Ok((value, end)) => {
                self.parts.end = end;
                if url::has_password(&value) {
                    self.take_parts(token, end);
                }
            }
            Err(_) => self.work.gave_up = true,
        }
    }

    /// The concatenated value of the literals from `token` on, and where the last one ends. Nothing
    /// for a single literal: [`Scan::look_into`] checks it.
    fn parts_from(&self, token: Token) -> Result<(Cow<'t, [u8]>, usize), TryReserveError> {
        let in_concat = self.parts.concats & bit_of(self.parens) != 0;
        let mut value = Cow::Borrowed(&[][..]);
        let mut end = token.end;
        let mut ahead = self.lexer;
        let mut has_operator = false;
        loop {
            let mut next = ahead.next_code();
            let is_operator = match next.map(|next| next.kind) {
                Some(Kind::Punct(b',')) => in_concat,
                Some(Kind::Punct(b'|')) => Self::is_punct(ahead.next_code(), b'|'),
                _ => false,
            };
            if is_operator {
                next = ahead.next_code();
            }
            let Some(next) = next.filter(|next| next.kind == Kind::Text) else { break };
            if value.is_empty() {
                value = self.value(token)?;
            }
            value = Cow::Owned(appended(value, &self.value(next)?)?);
            has_operator |= is_operator;
            end = next.end;
        }
        Ok((if has_operator { value } else { Cow::Borrowed(&[]) }, end))
    }

    fn take_parts(&mut self, token: Token, end: usize) {
        self.secret(token);
        let mut ahead = self.lexer;
        while let Some(next) = ahead.next_code().filter(|next| next.start < end) {
            if next.kind == Kind::Text {
                self.secret(next);
            }
        }
    }
}
