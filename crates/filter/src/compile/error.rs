//! Errors in a filter, with their position.

use std::fmt;

/// An error in a filter, with its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// Line, from 1.
    pub line: usize,
    /// Character in the line, from 1.
    pub column: usize,
    /// What is wrong, and what is expected.
    pub message: String,
}

impl Error {
    /// At a byte of `text`.
    pub(super) fn at(text: &str, byte: usize, message: impl Into<String>) -> Error {
        let before = text.get(..byte).unwrap_or(text);
        let line_start = before.rfind('\n').map_or(0, |at| at.saturating_add(1));
        Error {
            line: before.matches('\n').count().saturating_add(1),
            column: before.get(line_start..).unwrap_or("").chars().count().saturating_add(1),
            message: message.into(),
        }
    }
}

/// Errors of one filter.
#[derive(Debug)]
pub(super) struct Errors {
    /// In the order in which they were found.
    pub(super) found: Vec<Error>,
    max: usize,
}

impl Errors {
    /// The search ends after `max` of them.
    pub(super) fn up_to(max: usize) -> Errors {
        Errors { found: Vec::new(), max }
    }

    /// Adds one. Returns whether to look for more.
    pub(super) fn add(&mut self, error: Error) -> bool {
        self.found.push(error);
        self.found.len() < self.max
    }
}

/// A position in a text, for ascending offsets.
#[derive(Debug)]
pub(super) struct Cursor<'t> {
    rest: &'t str,
    at: usize,
    line: usize,
    column: usize,
}

impl<'t> Cursor<'t> {
    pub(super) fn new(text: &'t str) -> Cursor<'t> {
        Cursor { rest: text, at: 0, line: 1, column: 1 }
    }

    /// Line and column of a byte, which is not before that of the last call.
    pub(super) fn place(&mut self, byte: usize) -> (usize, usize) {
        let (passed, rest) =
            self.rest.split_at_checked(byte.saturating_sub(self.at)).unwrap_or((self.rest, ""));
        for character in passed.chars() {
            if character == '\n' {
                (self.line, self.column) = (self.line.saturating_add(1), 1);
            } else {
                self.column = self.column.saturating_add(1);
            }
        }
        (self.rest, self.at) = (rest, byte);
        (self.line, self.column)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}: {}", self.line, self.column, self.message)
    }
}

impl std::error::Error for Error {}
