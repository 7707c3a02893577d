//! Texts that are crafted so that the rules take too long, or find too much: they lose all of their
//! literals, numbers and comments, and keep their words.

use std::collections::TryReserveError;

use crate::grouping::Grouping;

use super::lexer::{Kind, Lexer, REDACTED, Reading, SECRET};

/// The text without anything that any reading calls a literal, a number or a comment. Takes one
/// pass for each reading, and as much memory as two texts.
///
/// # Errors
/// If there is not enough memory.
pub(super) fn without_literals(
    text: &[u8],
    grouping: Grouping,
) -> Result<Vec<u8>, TryReserveError> {
    let mut goes: Vec<bool> = Vec::new();
    goes.try_reserve_exact(text.len())?;
    goes.resize(text.len(), false);
    for reading in Reading::all(text, grouping) {
        for token in Lexer::new(text, 0, reading) {
            let (start, end) = match token.kind {
                Kind::Text | Kind::Number => (token.start, token.end),
                Kind::Comment => token.body,
                _ => continue,
            };
            if text[start..end] != *SECRET && text[start..end] != *REDACTED {
                goes[start..end].fill(true);
            }
        }
    }
    let mut kept = Vec::new();
    kept.try_reserve(text.len())?;
    let mut before = false;
    for (byte, goes) in text.iter().zip(goes) {
        let new: &[u8] = match (before, goes) {
            (_, false) => std::slice::from_ref(byte),
            (false, true) => SECRET,
            (true, true) => &[],
        };
        kept.try_reserve(new.len())?;
        kept.extend_from_slice(new);
        before = goes;
    }
    Ok(kept)
}

/// The part of the text before its first ambiguous byte.
///
/// # Errors
/// If there is not enough memory.
pub(super) fn beginning(text: &[u8]) -> Result<Vec<u8>, TryReserveError> {
    let is_doubtful =
        |byte: &u8| matches!(byte, b'\'' | b'"' | b'`' | b'\\' | b'/' | b'#' | b'-' | 0x80..);
    let end = text.iter().position(is_doubtful).unwrap_or(text.len());
    let mut kept = Vec::new();
    kept.try_reserve_exact(end + REDACTED.len())?;
    kept.extend_from_slice(&text[..end]);
    kept.extend_from_slice(REDACTED);
    Ok(kept)
}
