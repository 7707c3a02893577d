//! Compares a statement with the rules: first by its shape, then token by token.

use crate::lexer::Lexer;
use crate::program::{
    CLASS_EXACT, CLASS_KEYWORD, CLASS_LITERAL, CLASS_NAME, CLASS_PARAMETER, CLASS_QUOTED, Expected,
    Program, RULE_HAS_DATABASE, RULE_NEEDS_USUAL_MODE, RULE_NEEDS_UTF8, Rule, TOKEN_APART,
    TOKEN_GLUED, TOKEN_MAY_BE_NULL, TOKEN_MAY_HAVE_SIGN,
};
use crate::reading::Reading;
use crate::shape::{Outcome, Shape};
use crate::token::{Kind, Token};

/// Longest statement that is rewritten, bytes.
pub const TEXT_BYTES_MAX: usize = 1 << 30;
/// Most parameters of a pattern: their positions are on the stack of a query thread.
pub const PARAMETERS_MAX: usize = 256;

/// Facts about a statement before it is parsed.
#[derive(Clone, Copy, Debug)]
pub struct Statement<'t> {
    /// Its text, to the end of its packet.
    pub text: &'t [u8],
    /// How to read it.
    pub reading: Reading,
    /// The session's database.
    pub database: &'t [u8],
}

/// The positions of the literals that replace the parameters of a pattern.
#[derive(Debug)]
pub struct Parameters {
    places: [(u32, u32); PARAMETERS_MAX],
    count: usize,
}

impl Default for Parameters {
    fn default() -> Parameters {
        Parameters { places: [(0, 0); PARAMETERS_MAX], count: 0 }
    }
}

impl Parameters {
    fn keep(&mut self, start: usize, end: usize) -> bool {
        let Some(place) = self.places.get_mut(self.count) else { return false };
        // The text is not longer than `TEXT_BYTES_MAX`.
        *place = (start as u32, end as u32);
        self.count = self.count.saturating_add(1);
        true
    }

    /// The text of one parameter.
    pub fn get<'t>(&self, index: usize, text: &'t [u8]) -> Option<&'t [u8]> {
        let (start, end) = *self.places.get(..self.count)?.get(index)?;
        text.get(start as usize..end as usize)
    }
}

/// The result for a statement.
#[derive(Clone, Copy, Debug)]
pub enum RuleMatch<'p> {
    /// No rule has its shape, or it is rejected: that holds for all statements of its form.
    NoShape,
    /// No rule matches.
    Nothing,
    /// This rule rewrites it.
    Rule(Rule<'p>),
}

impl<'p> Program<'p> {
    /// The first rule that matches; `parameters` then has those of the statement.
    pub fn find(&self, statement: &Statement<'_>, parameters: &mut Parameters) -> RuleMatch<'p> {
        if statement.text.len() > TEXT_BYTES_MAX {
            return RuleMatch::Nothing;
        }
        let lexer = Lexer::new(statement.text, statement.reading);
        // The lexer may have read the whole text: restarted at its beginning, it serves each rule.
        let shape = match Shape::of(lexer, &self.limits()) {
            Outcome::Whole(shape) => shape,
            Outcome::Beyond | Outcome::Refused(_) => return RuleMatch::NoShape,
        };
        let mut found = RuleMatch::NoShape;
        for rule in self.rules_of(shape) {
            if rule.matches(statement, lexer, parameters) {
                return RuleMatch::Rule(rule);
            }
            found = RuleMatch::Nothing;
        }
        found
    }
}

impl Rule<'_> {
    fn matches<'t>(
        &self,
        statement: &Statement<'t>,
        mut lexer: Lexer<'t>,
        parameters: &mut Parameters,
    ) -> bool {
        let reading = statement.reading;
        let has = |flag: u8| self.flags & flag != 0;
        let is_usual = !reading.ansi_quotes && !reading.no_escapes && !reading.is_unknown;
        if (has(RULE_HAS_DATABASE) && self.database != statement.database)
            || (has(RULE_NEEDS_UTF8) && !reading.is_utf8)
            || (has(RULE_NEEDS_USUAL_MODE) && !is_usual)
        {
            return false;
        }
        parameters.count = 0;
        // The effect of the previous token on the next one, and its end.
        let mut before = (0, 0);
        for expected in self.tokens() {
            let Some(token) = lexer.next() else { return false };
            let (flags, end) = before;
            let is_glued = token.start == end;
            if (flags & TOKEN_GLUED != 0 && !is_glued) || (flags & TOKEN_APART != 0 && is_glued) {
                return false;
            }
            before = (expected.flags, token.end());
            let matches = if expected.class == CLASS_PARAMETER {
                parameter(&expected, token, &mut lexer)
                    .is_some_and(|end| parameters.keep(token.start, end))
            } else {
                is_same(&expected, &token, reading)
            };
            if !matches {
                return false;
            }
        }
        lexer.next().is_none() && lexer.refused().is_none()
    }
}

/// The end of the literal that begins with `token`, if it is one.
#[inline]
fn parameter<'t>(
    expected: &Expected<'_>,
    token: Token<'t>,
    lexer: &mut Lexer<'t>,
) -> Option<usize> {
    let mut token = token;
    if token.kind == Kind::Sign && expected.flags & TOKEN_MAY_HAVE_SIGN != 0 {
        while token.kind == Kind::Sign {
            token = lexer.next()?;
        }
        // Before anything else it is an operator.
        return (token.kind == Kind::Number).then_some(token.end());
    }
    // The `?` of a prepared statement is not a literal: in a new text the server would report an
    // error.
    let is_value = match token.kind {
        Kind::Number | Kind::String => true,
        _ => token.is_null() && expected.flags & TOKEN_MAY_BE_NULL != 0,
    };
    is_value.then_some(token.end())
}

#[inline]
fn is_same(expected: &Expected<'_>, token: &Token<'_>, reading: Reading) -> bool {
    match expected.class {
        CLASS_KEYWORD => token.kind == Kind::Word && token.text.eq_ignore_ascii_case(expected.text),
        CLASS_NAME => {
            matches!(token.kind, Kind::Word | Kind::Quoted) && token.name() == expected.text
        }
        CLASS_QUOTED => token.kind == Kind::Quoted && token.name() == expected.text,
        CLASS_LITERAL => is_same_literal(expected.text, token, reading),
        CLASS_EXACT => {
            token.text == expected.text || (token.text == b"<>" && expected.text == b"!=")
        }
        _ => false,
    }
}

/// Whether a literal equals that of the pattern, which is written for the usual mode.
fn is_same_literal(expected: &[u8], token: &Token<'_>, reading: Reading) -> bool {
    if !matches!(token.kind, Kind::Number | Kind::String) {
        return false;
    }
    if token.text == expected {
        // A backslash has another meaning there.
        return !reading.no_escapes || !expected.contains(&b'\\');
    }
    matches!((contents(expected), contents(token.text)), (Some(one), Some(other)) if one == other)
}

/// The contents of a string's quotes, if every character stands for itself.
fn contents(literal: &[u8]) -> Option<&[u8]> {
    match literal {
        [b'\'', body @ .., b'\''] | [b'"', body @ .., b'"'] => {
            (!body.iter().any(|byte| matches!(byte, b'\'' | b'"' | b'\\'))).then_some(body)
        }
        _ => None,
    }
}
