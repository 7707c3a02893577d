//! The hash of a statement's tokens: the same for all statements that a pattern may match.
//!
//! It omits what the comparison decides afterwards: the case of words, quotes around names, the
//! values of literals, signs (they may belong to a number), and the text of hints. Two statements
//! of one shape need not match the same rule; two that match one rule have one shape.

use crate::lexer::Lexer;
use crate::token::{Kind, Refused, Token};

/// A hash that is extended with each token (FNV-1a). It is not keyed: two statements with the same
/// hash are only compared with the same rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    hash: u64,
    /// Number of tokens; signs do not count.
    pub tokens: u32,
}

/// Which shapes to search for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// The largest number of tokens.
    pub tokens: u32,
    /// A bit for each first token ([`Shape::bit`]).
    pub first: u64,
}

impl Limits {
    /// Any shape.
    pub const ALL: Limits = Limits { tokens: u32::MAX, first: u64::MAX };
}

/// The result for a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A shape.
    Whole(Shape),
    /// A shape outside the limits.
    Beyond,
    /// It contains rejected text.
    Refused(Refused),
}

// Represents a kind of token beside its bytes. No text begins with such a byte.
const VALUE: u8 = 1;
const WORD: u8 = 2;
const VARIABLE: u8 = 3;
const HINT: u8 = 4;
const OTHER: u8 = 5;

impl Default for Shape {
    fn default() -> Shape {
        Shape { hash: 0xCBF2_9CE4_8422_2325, tokens: 0 }
    }
}

impl Shape {
    /// The shape as a number.
    pub fn number(self) -> u64 {
        // The low bits choose an entry of a table.
        self.hash ^ self.hash >> 32
    }

    #[inline]
    fn byte(&mut self, byte: u8) {
        self.hash = (self.hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3);
    }

    /// Adds a token.
    #[inline]
    pub fn add(&mut self, token: &Token<'_>) {
        if token.kind == Kind::Sign {
            return;
        }
        self.tokens = self.tokens.saturating_add(1);
        if token.is_value() {
            return self.byte(VALUE);
        }
        match token.kind {
            Kind::Word | Kind::Quoted => {
                self.byte(WORD);
                let name = token.name();
                // If it contains quotes, its spelling depends on those around it.
                if name.iter().any(|byte| matches!(byte, b'`' | b'"')) {
                    return;
                }
                name.iter().for_each(|byte| self.byte(byte.to_ascii_lowercase()));
            }
            // The contents of its quotes are ignored: a form treats them as a literal.
            Kind::Variable => self.byte(VARIABLE),
            Kind::Hint => self.byte(HINT),
            _ => {
                self.byte(OTHER);
                let operator = if token.text == b"<>" { b"!=" } else { token.text };
                operator.iter().for_each(|byte| self.byte(*byte));
            }
        }
    }

    /// One of 64 bits.
    pub fn bit(self) -> u64 {
        1u64.wrapping_shl(self.number() as u32)
    }

    /// The shape of a text.
    pub fn of(lexer: Lexer<'_>, limits: &Limits) -> Outcome {
        let mut lexer = lexer;
        let mut shape = Shape::default();
        for token in lexer.by_ref() {
            shape.add(&token);
            let is_beyond = shape.tokens > limits.tokens
                || (shape.tokens == 1 && limits.first & shape.bit() == 0);
            if is_beyond {
                return Outcome::Beyond;
            }
        }
        match lexer.refused() {
            Some(refused) => Outcome::Refused(refused),
            None => Outcome::Whole(shape),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reading::Reading;

    fn shape(text: &str) -> u64 {
        match Shape::of(Lexer::new(text.as_bytes(), Reading::USUAL), &Limits::ALL) {
            Outcome::Whole(shape) => shape.number(),
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn shapes_are_those_of_patterns() {
        let same = [
            "SELECT a FROM `t` WHERE id = 5 AND b != 'x'",
            "select A from T where ID=-7 and B<>?",
            "SELECT a /* c */ FROM t -- d\n WHERE id = NULL AND b <> 0x1F;",
        ];
        for text in same {
            assert_eq!(shape(text), shape(same[0]), "{text}");
        }
        let others = [
            "SELECT a FROM t WHERE id = 5 AND b = 'x'",
            "SELECT a FROM t WHERE id = 5 AND b != x",
            "SELECT a FROM t WHERE id = 5, 5 AND b != 'x'",
            "SELECT a FROM t WHERE id = `null` AND b != 'x'",
            "SELECT a FROM tWHERE id = 5 AND b != 'x'",
            "",
        ];
        for text in others {
            assert_ne!(shape(text), shape(same[0]), "{text}");
        }
    }

    #[test]
    fn long_texts_are_given_up_early() {
        let limits = |tokens| Limits { tokens, ..Limits::ALL };
        let lexer = Lexer::new(b"a, a, a, 'b", Reading::USUAL);
        assert_eq!(Shape::of(lexer, &limits(5)), Outcome::Beyond);
        assert!(matches!(Shape::of(lexer, &limits(6)), Outcome::Refused(_)));
        let lexer = Lexer::new(b"a, a, a", Reading::USUAL);
        assert!(matches!(Shape::of(lexer, &limits(5)), Outcome::Whole(Shape { tokens: 5, .. })));
    }

    #[test]
    fn texts_are_given_up_at_their_first_word() {
        let first = |text: &'static [u8]| {
            let mut shape = Shape::default();
            shape.add(&Lexer::new(text, Reading::USUAL).next().unwrap());
            shape.bit()
        };
        assert_ne!(first(b"SELECT"), first(b"INSERT"), "choose other words");
        let limits = Limits { first: first(b"SELECT"), ..Limits::ALL };
        let of = |text| Shape::of(Lexer::new(text, Reading::USUAL), &limits);
        assert_eq!(of(b"INSERT INTO t VALUES (1)"), Outcome::Beyond);
        assert!(matches!(of(b" /* a */ select 1"), Outcome::Whole(_)));
    }
}
