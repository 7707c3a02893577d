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

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}: {}", self.line, self.column, self.message)
    }
}

impl std::error::Error for Error {}
