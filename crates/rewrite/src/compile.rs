//! Compiles rules to a program.
//!
//! A pattern is read under the server's default `sql_mode`, and in UTF-8. Errors that its tokens
//! alone do not show, such as a syntax error, are not detected here: such a rule matches statements
//! that the server would reject.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;

use tacho_sql::digest::Normaliser;
use tacho_sql::words::{self, Role};
use tacho_sql::{Doubt, High, Mode, grouping::Grouping};

use crate::lexer::Lexer;
use crate::matching::PARAMETERS_MAX;
use crate::program::{
    CLASS_EXACT, CLASS_KEYWORD, CLASS_LITERAL, CLASS_NAME, CLASS_PARAMETER, CLASS_QUOTED,
    HEAD_BYTES, RULE_BYTES, RULE_HAS_DATABASE, RULE_NEEDS_USUAL_MODE, RULE_NEEDS_UTF8, SLOT_BYTES,
    TOKEN_APART, TOKEN_GLUED, TOKEN_MAY_BE_NULL, TOKEN_MAY_HAVE_SIGN,
};
use crate::reading::Reading;
use crate::shape::Shape;
use crate::token::{Cause, Kind, Refused, Token};

/// Longest pattern and longest replacement, bytes.
pub const RULE_TEXT_BYTES_MAX: usize = 32 << 10;
/// Longest name of a database, bytes: 64 characters.
const DATABASE_BYTES_MAX: usize = 256;
/// Most rules of one shape and one database (or of any): a statement of that shape is compared with
/// each of them, on a query thread.
pub const SHAPE_RULES_MAX: usize = 64;
/// Most rules of one shape in all databases: each database is compared.
pub const SHAPE_DATABASES_MAX: usize = 1024;
/// Longest text of a pattern without its literals that is reported, bytes.
const NORMALISED_BYTES_MAX: usize = RULE_TEXT_BYTES_MAX;

/// A rule as given by the user.
#[derive(Clone, Copy, Debug)]
pub struct RuleSource<'s> {
    /// Reported with each statement that it rewrites.
    pub id: u64,
    /// The statement to match.
    pub pattern: &'s [u8],
    /// The database that the session must use; `None`: any, or none.
    pub database: Option<&'s [u8]>,
    /// The statement that is executed instead.
    pub replacement: &'s [u8],
}

/// An error in a rule, with its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    part: &'static str,
    /// The character, the first is 1; 0: the whole part.
    character: usize,
    message: Cow<'static, str>,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.character {
            0 => write!(f, "{}: {}", self.part, self.message),
            character => write!(f, "{}, character {character}: {}", self.part, self.message),
        }
    }
}

impl std::error::Error for Error {}

/// A text of a rule, split into tokens.
struct Text<'s> {
    part: &'static str,
    text: &'s [u8],
    tokens: Vec<Token<'s>>,
}

impl<'s> Text<'s> {
    fn read(part: &'static str, text: &'s [u8]) -> Result<Text<'s>, Error> {
        let mut this = Text { part, text, tokens: Vec::new() };
        if text.len() > RULE_TEXT_BYTES_MAX {
            let message = format!("it is longer than {RULE_TEXT_BYTES_MAX} bytes");
            return Err(this.error(message));
        }
        if let Err(error) = std::str::from_utf8(text) {
            return Err(this.error_at(error.valid_up_to(), Cause::Charset.text()));
        }
        let mut lexer = Lexer::new(text, Reading::USUAL);
        this.tokens.extend(lexer.by_ref());
        if let Some(Refused { at, cause }) = lexer.refused() {
            return Err(this.error_at(at, cause.text()));
        }
        if this.tokens.is_empty() {
            return Err(this.error("it is empty"));
        }
        Ok(this)
    }

    fn error(&self, message: impl Into<Cow<'static, str>>) -> Error {
        Error { part: self.part, character: 0, message: message.into() }
    }

    fn error_at(&self, at: usize, message: impl Into<Cow<'static, str>>) -> Error {
        let before = self.text.get(..at).unwrap_or_default();
        // A byte that is not part of a character counts as one.
        let characters = String::from_utf8_lossy(before).chars().count();
        Error { character: characters.saturating_add(1), ..self.error(message) }
    }

    fn marks(&self) -> impl Iterator<Item = &Token<'s>> {
        self.tokens.iter().filter(|token| token.kind == Kind::Mark)
    }

    /// Whether the token at `index` is `what`, immediately after the previous token.
    fn is_glued(&self, index: usize, what: &[u8]) -> bool {
        let before = index.checked_sub(1).and_then(|before| self.tokens.get(before));
        match (before, self.tokens.get(index)) {
            (Some(before), Some(token)) => before.end() == token.start && token.text == what,
            _ => false,
        }
    }

    fn is(&self, index: usize, what: &[u8]) -> bool {
        self.tokens.get(index).is_some_and(|token| token.text == what)
    }

    /// Whether the name at `index` is a part of a qualified one.
    fn is_qualified(&self, index: usize) -> bool {
        // `@@session.`: a keyword.
        if index.checked_sub(1).is_some_and(|before| self.is(before, b"@@")) {
            return false;
        }
        let follows_point = index.checked_sub(1).is_some_and(|point| {
            self.is_glued(point, b".")
                && self
                    .tokens
                    .get(point)
                    .zip(self.tokens.get(index))
                    .is_some_and(|(point, name)| point.end() == name.start)
        });
        let next = index.saturating_add(1);
        let name = next.saturating_add(1);
        let is_qualifier = self.is_glued(next, b".")
            && self.tokens.get(name).is_some_and(|token| self.is_glued(name, token.text))
            && self.tokens.get(name).is_some_and(|it| matches!(it.kind, Kind::Word | Kind::Quoted));
        follows_point || is_qualifier
    }
}

/// A token of a pattern, to be written.
struct Wanted<'s> {
    class: u8,
    flags: u8,
    text: &'s [u8],
}

/// What the tokens before a position determine about it.
#[derive(Clone, Copy, Default)]
struct Before {
    starts_expression: bool,
    is_not: bool,
    is_sign: bool,
}

/// The token to match at `index`, and its effect on the next one.
fn wanted<'s>(
    pattern: &Text<'s>,
    index: usize,
    token: &Token<'s>,
    before: Before,
) -> (Wanted<'s>, Before) {
    let exact = Wanted { class: CLASS_EXACT, flags: 0, text: token.text };
    let next = index.saturating_add(1);
    let is_called = pattern.is(next, b"(");
    match token.kind {
        Kind::Mark => {
            let flags = match before {
                Before { starts_expression: false, .. } | Before { is_sign: true, .. } => 0,
                Before { is_not: true, .. } => TOKEN_MAY_HAVE_SIGN,
                _ => TOKEN_MAY_HAVE_SIGN | TOKEN_MAY_BE_NULL,
            };
            (Wanted { class: CLASS_PARAMETER, flags, text: b"" }, Before::default())
        }
        Kind::Number | Kind::String => {
            (Wanted { class: CLASS_LITERAL, ..exact }, Before::default())
        }
        Kind::Word if pattern.is_qualified(index) => {
            (Wanted { class: CLASS_NAME, ..exact }, Before::default())
        }
        Kind::Word => {
            let word = words::look_up(token.text);
            let is_known = words::is_mysql_keyword(token.text);
            let (class, flags) = match word.role {
                Role::Keyword => (CLASS_KEYWORD, 0),
                Role::Function if pattern.is_glued(next, b"(") => (CLASS_KEYWORD, TOKEN_GLUED),
                Role::Function if is_called => (CLASS_NAME, TOKEN_APART),
                Role::Name if is_known => (CLASS_KEYWORD, 0),
                Role::Function | Role::Name => (CLASS_NAME, 0),
            };
            let is_keyword = word.role == Role::Keyword;
            let starts_expression = is_keyword && word.starts_expression;
            let is_not = is_keyword && word.is_not;
            let after = Before { starts_expression, is_not, is_sign: false };
            (Wanted { class, flags, ..exact }, after)
        }
        Kind::Quoted => {
            let name = token.name();
            let is_plain = !name.iter().any(|byte| matches!(byte, b'`' | b'"'));
            let class = match words::look_up(name).role {
                _ if !is_plain => CLASS_EXACT,
                _ if pattern.is_qualified(index) => CLASS_NAME,
                Role::Keyword => CLASS_QUOTED,
                Role::Function if is_called => CLASS_QUOTED,
                Role::Function | Role::Name => CLASS_NAME,
            };
            let text = if is_plain { name } else { token.text };
            (Wanted { class, flags: 0, text }, Before::default())
        }
        Kind::Variable => (exact, Before::default()),
        // For the digest it is a comment.
        Kind::Hint => (exact, before),
        Kind::Sign => (exact, Before { starts_expression: true, is_not: false, is_sign: true }),
        Kind::Other => {
            let starts_expression = words::operator_starts_expression(token.text);
            let text = if token.text == b"<>" { b"!=" } else { token.text };
            let after = Before { starts_expression, ..Before::default() };
            (Wanted { text, ..exact }, after)
        }
    }
}

fn append(to: &mut Vec<u8>, text: &[u8]) {
    to.extend_from_slice(&(text.len() as u32).to_le_bytes());
    to.extend_from_slice(text);
}

/// A compiled rule without its position among the others.
struct Compiled {
    shape: Shape,
    first: u64,
    id: u64,
    flags: u8,
    database: Vec<u8>,
    tokens: Vec<u8>,
    pieces: Vec<u8>,
}

/// Rules to be compiled together.
#[derive(Default)]
pub struct Compiler {
    rules: Vec<Compiled>,
    /// Indices of the rules with a shape.
    shapes: HashMap<u64, Vec<usize>>,
}

impl Compiler {
    /// Number of rules.
    pub fn count(&self) -> usize {
        self.rules.len()
    }

    /// Adds a rule.
    ///
    /// # Errors
    /// What is wrong with the rule; then nothing is added.
    pub fn add(&mut self, source: &RuleSource<'_>) -> Result<(), Error> {
        let pattern = Text::read("pattern", source.pattern)?;
        let replacement = Text::read("replacement", source.replacement)?;
        let parameters = pattern.marks().count();
        if parameters > PARAMETERS_MAX {
            return Err(pattern.error(format!("it has more than {PARAMETERS_MAX} parameters")));
        }
        if let Some(mark) = replacement.marks().nth(parameters) {
            let message = format!("there are more parameters than in the pattern ({parameters})");
            return Err(replacement.error_at(mark.start, message));
        }
        let database = source.database.unwrap_or_default();
        let part = Text { part: "pattern_database", text: database, tokens: Vec::new() };
        if database.len() > DATABASE_BYTES_MAX {
            return Err(part.error(format!("it is longer than {DATABASE_BYTES_MAX} bytes")));
        }
        if source.database.is_some_and(<[u8]>::is_empty) {
            return Err(part.error("it is empty; NULL stands for any"));
        }
        let mut shape = Shape::default();
        let mut first = 0;
        let mut tokens = Vec::new();
        let mut before = Before::default();
        for (index, token) in pattern.tokens.iter().enumerate() {
            shape.add(token);
            if shape.tokens == 1 {
                first = shape.bit();
            }
            let (wanted, after) = wanted(&pattern, index, token, before);
            before = after;
            tokens.extend_from_slice(&[wanted.class, wanted.flags]);
            // Not longer than the pattern.
            tokens.extend_from_slice(&(wanted.text.len() as u16).to_le_bytes());
            tokens.extend_from_slice(wanted.text);
        }
        let mut flags = 0;
        if source.database.is_some() {
            flags |= RULE_HAS_DATABASE;
        }
        if !source.pattern.is_ascii() || !source.replacement.is_ascii() {
            flags |= RULE_NEEDS_UTF8;
        }
        let depends_on_mode = |token: &Token<'_>| {
            let is_quoted = matches!(token.kind, Kind::String | Kind::Variable);
            is_quoted && token.text.iter().any(|byte| matches!(byte, b'"' | b'\\'))
        };
        if replacement.tokens.iter().any(depends_on_mode) {
            flags |= RULE_NEEDS_USUAL_MODE;
        }
        let with_shape = self.shapes.entry(shape.number()).or_default();
        let is_alike = |rule: &Compiled| {
            (rule.flags ^ flags) & RULE_HAS_DATABASE == 0 && rule.database == database
        };
        let others = with_shape.iter().filter_map(|index| self.rules.get(*index));
        if others.filter(|rule| is_alike(rule)).count() >= SHAPE_RULES_MAX {
            let message = format!("there are {SHAPE_RULES_MAX} rules of this shape already");
            return Err(pattern.error(message));
        }
        if with_shape.len() >= SHAPE_DATABASES_MAX {
            let message = "rules of this shape already, of all databases";
            return Err(pattern.error(format!("there are {SHAPE_DATABASES_MAX} {message}")));
        }
        with_shape.push(self.rules.len());
        let pieces = pieces(&replacement);
        let (id, database) = (source.id, database.to_vec());
        self.rules.push(Compiled { shape, first, id, flags, database, tokens, pieces });
        Ok(())
    }

    /// The program; no bytes for no rules.
    ///
    /// # Errors
    /// The rules are too large together.
    pub fn finish(self) -> Result<Vec<u8>, Error> {
        if self.rules.is_empty() {
            return Ok(Vec::new());
        }
        let too_large = || Error {
            part: "rules",
            character: 0,
            message: Cow::Borrowed("they are larger than 1 GiB together"),
        };
        let slots = self.rules.len().saturating_mul(2).next_power_of_two();
        let of_rule = |rule: &Compiled| {
            let parts = [RULE_BYTES, rule.database.len(), rule.tokens.len(), rule.pieces.len()];
            parts.into_iter().fold(0, usize::saturating_add)
        };
        let start = slots.saturating_mul(SLOT_BYTES).saturating_add(HEAD_BYTES);
        let bytes = self.rules.iter().map(of_rule).fold(start, usize::saturating_add);
        if bytes > 1 << 30 {
            return Err(too_large());
        }
        // From the last to the first: each then knows the position of the next one of its slot.
        let mut heads = vec![0u32; slots];
        let mut places = vec![0usize; self.rules.len()];
        let mut place = start;
        for (rule, at) in self.rules.iter().zip(&mut places) {
            *at = place;
            place = place.saturating_add(of_rule(rule));
        }
        let mut nexts = vec![0u32; self.rules.len()];
        let slot_of = |rule: &Compiled| rule.shape.number() as usize & slots.wrapping_sub(1);
        for ((rule, place), next) in self.rules.iter().zip(&places).zip(&mut nexts).rev() {
            if let Some(head) = heads.get_mut(slot_of(rule)) {
                *next = std::mem::replace(head, *place as u32);
            }
        }
        let tokens = self.rules.iter().map(|rule| rule.shape.tokens).max().unwrap_or(0);
        let first = self.rules.iter().fold(0, |first, rule| first | rule.first);
        let mut program = Vec::with_capacity(bytes);
        for number in [slots as u32, self.rules.len() as u32, tokens, 0] {
            program.extend_from_slice(&number.to_le_bytes());
        }
        program.extend_from_slice(&first.to_le_bytes());
        heads.iter().for_each(|head| program.extend_from_slice(&head.to_le_bytes()));
        for (rule, next) in self.rules.iter().zip(nexts) {
            program.extend_from_slice(&rule.shape.number().to_le_bytes());
            program.extend_from_slice(&rule.id.to_le_bytes());
            program.extend_from_slice(&next.to_le_bytes());
            program.extend_from_slice(&[rule.flags, 0]);
            program.extend_from_slice(&(rule.database.len() as u16).to_le_bytes());
            program.extend_from_slice(&(rule.tokens.len() as u32).to_le_bytes());
            program.extend_from_slice(&rule.database);
            program.extend_from_slice(&rule.tokens);
            program.extend_from_slice(&rule.pieces);
        }
        Ok(program)
    }
}

/// The replacement, to the end of its last token: the texts between its parameters.
fn pieces(replacement: &Text<'_>) -> Vec<u8> {
    let end = replacement.tokens.last().map_or(0, Token::end);
    let mut pieces = vec![0; 4];
    let mut count = 1u32;
    let mut start = 0;
    for mark in replacement.marks() {
        let piece = replacement.text.get(start..mark.start).unwrap_or_default();
        // Two adjacent literals stay two.
        let is_between = piece.is_empty() && start > 0;
        append(&mut pieces, if is_between { b" " } else { piece });
        count = count.saturating_add(1);
        start = mark.end();
    }
    append(&mut pieces, replacement.text.get(start..end).unwrap_or_default());
    if let Some(head) = pieces.first_chunk_mut() {
        *head = count.to_le_bytes();
    }
    pieces
}

/// A pattern without its literals, and its digest, as in the log for the statements that it
/// matches.
///
/// # Errors
/// What is wrong with the pattern.
pub fn normalise(pattern: &[u8]) -> Result<(String, String), Error> {
    let text = Text::read("pattern", pattern)?;
    let mode = Mode { doubt: Doubt::Guess, ..Mode::new(Grouping::Bytes, High::LETTERS) };
    let mut normaliser = Normaliser::default();
    let normalised = normaliser.normalise(pattern, mode, NORMALISED_BYTES_MAX);
    if normalised.out_of_memory {
        return Err(text.error("there is not enough memory"));
    }
    let shown = String::from_utf8_lossy(normalised.text).into_owned();
    Ok((shown, normalised.digest.to_string()))
}
