//! The tree of a search.

use crate::lexer::{self, Token, TokenKind};
use crate::target::{self, Target};
use crate::value::{self, Pattern, Test};
use crate::{DEPTH_MAX, SearchError};

/// A search, or a part of it.
#[derive(Clone, Debug, PartialEq)]
pub enum Expr {
    /// All of them; at least two.
    And(Vec<Expr>),
    /// One of them; at least two.
    Or(Vec<Expr>),
    /// Not this; records without the field are found.
    Not(Box<Expr>),
    /// A field, or text anywhere in the statement.
    Term(Term),
}

impl Expr {
    /// Calls `visit` with every term.
    pub fn each(&self, visit: &mut impl FnMut(&Term)) {
        match self {
            Self::And(parts) | Self::Or(parts) => parts.iter().for_each(|it| it.each(visit)),
            Self::Not(inner) => inner.each(visit),
            Self::Term(term) => visit(term),
        }
    }

    /// The same with terms that `visit` may change.
    ///
    /// # Errors
    /// The first one of `visit`.
    pub fn try_each_mut<E>(
        &mut self,
        visit: &mut impl FnMut(&mut Term) -> Result<(), E>,
    ) -> Result<(), E> {
        match self {
            Self::And(parts) | Self::Or(parts) => {
                parts.iter_mut().try_for_each(|it| it.try_each_mut(visit))
            }
            Self::Not(inner) => inner.try_each_mut(visit),
            Self::Term(term) => visit(term),
        }
    }
}

/// A condition on one field.
#[derive(Clone, Debug, PartialEq)]
pub struct Term {
    /// The field. `None`: the statement's text, or its error.
    pub target: Option<&'static Target>,
    /// What is asked of it.
    pub test: Test,
}

/// Reads a text. `None`: it is empty.
///
/// # Errors
/// The first thing that is wrong.
pub fn parse(text: &str) -> Result<Option<Expr>, SearchError> {
    let tokens = lexer::tokens(text)?;
    let end = text.chars().count();
    let mut parser = Parser { tokens: &tokens, at: 0, depth: 0, end };
    if tokens.is_empty() {
        return Ok(None);
    }
    let expr = parser.or()?;
    match parser.peek() {
        None => Ok(Some(expr)),
        Some(token) => {
            Err(wrong_at(token, format!("{} has no opening bracket", token.kind.describe()), ""))
        }
    }
}

const TERM: &str = "a word, \"text\", field:value or (";

struct Parser<'a> {
    tokens: &'a [Token],
    at: usize,
    depth: usize,
    end: usize,
}

fn wrong_at(token: &Token, message: String, expected: &str) -> SearchError {
    SearchError {
        message,
        expected: expected.to_owned(),
        position: token.position,
        length: token.length,
    }
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Option<&'a Token> {
        self.tokens.get(self.at)
    }

    /// Takes a word that connects terms.
    fn takes(&mut self, word: &str) -> bool {
        let is_it = matches!(self.peek(), Some(Token { kind: TokenKind::Word(text), .. })
            if text.eq_ignore_ascii_case(word));
        self.at += usize::from(is_it);
        is_it
    }

    fn is_before(&self, word: &str) -> bool {
        matches!(self.peek(), Some(Token { kind: TokenKind::Word(text), .. })
            if text.eq_ignore_ascii_case(word))
    }

    fn missing(&self, expected: &str) -> SearchError {
        match self.peek() {
            Some(token) => {
                let message = format!("unexpected {}", token.kind.describe());
                wrong_at(token, message, expected)
            }
            None => SearchError {
                message: "the search ends too early".to_owned(),
                expected: expected.to_owned(),
                position: self.end,
                length: 0,
            },
        }
    }

    fn deeper<T>(
        &mut self,
        then: impl FnOnce(&mut Self) -> Result<T, SearchError>,
    ) -> Result<T, SearchError> {
        if self.depth >= DEPTH_MAX {
            let mut error = self.missing("");
            error.message = format!("more than {DEPTH_MAX} brackets or negations in each other");
            return Err(error);
        }
        self.depth += 1;
        let result = then(self);
        self.depth -= 1;
        result
    }

    fn or(&mut self) -> Result<Expr, SearchError> {
        let mut parts = vec![self.and()?];
        while self.takes("or") {
            parts.push(self.and()?);
        }
        Ok(one_or(parts, Expr::Or))
    }

    fn and(&mut self) -> Result<Expr, SearchError> {
        let mut parts = vec![self.not()?];
        loop {
            if self.takes("and") {
                parts.push(self.not()?);
                continue;
            }
            let is_end = matches!(self.peek(), None | Some(Token { kind: TokenKind::Close, .. }));
            if is_end || self.is_before("or") {
                return Ok(one_or(parts, Expr::And));
            }
            parts.push(self.not()?);
        }
    }

    fn not(&mut self) -> Result<Expr, SearchError> {
        let is_minus = matches!(self.peek(), Some(Token { kind: TokenKind::Minus, .. }));
        if is_minus || self.is_before("not") {
            self.at += 1;
            return self.deeper(Self::not).map(|inner| match inner {
                Expr::Not(twice) => *twice,
                inner => Expr::Not(Box::new(inner)),
            });
        }
        self.primary()
    }

    fn primary(&mut self) -> Result<Expr, SearchError> {
        if self.is_before("or") || self.is_before("and") {
            return Err(self.missing(TERM));
        }
        let Some(token) = self.peek() else { return Err(self.missing(TERM)) };
        match &token.kind {
            TokenKind::Open => {
                self.at += 1;
                let inner = self.deeper(Self::or)?;
                self.close(token)?;
                Ok(inner)
            }
            TokenKind::Field(name) => {
                self.at += 1;
                self.field(name, token)
            }
            TokenKind::Quoted(text) => {
                self.at += 1;
                self.text(token, Pattern::exact(text))
            }
            TokenKind::Word(text) => {
                self.at += 1;
                self.text(token, Pattern::read(text))
            }
            TokenKind::Close | TokenKind::Minus => Err(self.missing(TERM)),
        }
    }

    fn close(&mut self, open: &Token) -> Result<(), SearchError> {
        match self.peek() {
            Some(Token { kind: TokenKind::Close, .. }) => {
                self.at += 1;
                Ok(())
            }
            Some(_) => Err(self.missing(")")),
            None => Err(wrong_at(open, "the bracket is not closed".to_owned(), ")")),
        }
    }

    fn text(&self, token: &Token, pattern: Pattern) -> Result<Expr, SearchError> {
        if pattern.pieces.is_empty() {
            return Err(wrong_at(token, "the text is empty".to_owned(), "a text"));
        }
        Ok(Expr::Term(Term { target: None, test: Test::Contains(pattern) }))
    }

    fn field(&mut self, name: &str, token: &Token) -> Result<Expr, SearchError> {
        let Some(target) = target::target(name) else {
            let mut expected = "a field of a record".to_owned();
            if let Some(similar) = target::similar(name) {
                expected = format!("{similar}:");
            }
            let expected = format!("{expected}; a text with a colon needs quotation marks");
            return Err(wrong_at(token, format!("there is no field {name}"), &expected));
        };
        // A blank behind the colon is forgiven only before a bracket or a quoted text.
        match self.peek() {
            Some(open @ Token { kind: TokenKind::Open, is_joined: true, .. }) => {
                self.at += 1;
                let values = self.values(target, token)?;
                self.close(open)?;
                Ok(values)
            }
            Some(Token { is_joined: true, .. }) => self.value(target, token),
            _ => Err(wrong_at(
                token,
                format!("{name}: has no value"),
                "a value right behind the colon, or * for any",
            )),
        }
    }

    /// Values in brackets: one of them.
    fn values(&mut self, target: &'static Target, field: &Token) -> Result<Expr, SearchError> {
        let mut parts = vec![self.value(target, field)?];
        while !matches!(self.peek(), None | Some(Token { kind: TokenKind::Close, .. })) {
            self.takes("or");
            parts.push(self.value(target, field)?);
        }
        Ok(one_or(parts, Expr::Or))
    }

    fn value(&mut self, target: &'static Target, field: &Token) -> Result<Expr, SearchError> {
        let (text, is_quoted) = match self.peek().map(|token| &token.kind) {
            Some(TokenKind::Word(text)) => (text, false),
            Some(TokenKind::Quoted(text)) => (text, true),
            _ => return Err(self.missing(&format!("a value of {}", target.name))),
        };
        let token = self.peek().unwrap_or(field);
        self.at += 1;
        let test = value::read(target, text, is_quoted).map_err(|expected| {
            let message = format!("{text:?} is not a value of {}", target.name);
            wrong_at(token, message, &expected)
        })?;
        if let Test::Contains(pattern) = &test
            && pattern.pieces.is_empty()
        {
            return Err(wrong_at(token, "the text is empty".to_owned(), "a text"));
        }
        Ok(Expr::Term(Term { target: Some(target), test }))
    }
}

fn one_or(mut parts: Vec<Expr>, many: impl FnOnce(Vec<Expr>) -> Expr) -> Expr {
    match parts.len() {
        1 => parts.swap_remove(0),
        _ => many(parts),
    }
}
