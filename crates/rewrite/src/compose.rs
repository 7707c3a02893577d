//! The text that is executed instead of a statement.
//!
//! The literals replace each `?` of the replacement, as they were written. A literal must not merge
//! with the text beside it: a blank separates them where they could, and a signed number after a
//! sign gets parentheses (two signs could begin a comment).

use crate::lexer::{is_space, is_word};
use crate::matching::Parameters;
use crate::program::Rule;

/// Whether a literal may follow this byte directly.
fn may_precede(byte: u8) -> bool {
    is_space(byte) || b"(,=<>+-*/%!&|^~".contains(&byte)
}

/// Whether this byte may follow a literal directly.
fn may_follow(byte: u8) -> bool {
    is_space(byte) || b"),;=<>+-*/%!&|^".contains(&byte)
}

/// Passes the new text to `sink`, in pieces. `None`: the rule uses a parameter that does not exist.
pub fn compose(
    rule: &Rule<'_>,
    text: &[u8],
    parameters: &Parameters,
    mut sink: impl FnMut(&[u8]),
) -> Option<()> {
    let mut pieces = rule.pieces().peekable();
    let mut index = 0usize;
    while let Some(piece) = pieces.next() {
        sink(piece);
        let Some(next) = pieces.peek() else { break };
        let literal = parameters.get(index, text)?;
        index = index.saturating_add(1);
        let is_sign = |byte: Option<&u8>| matches!(byte, Some(b'+' | b'-'));
        let is_wrapped = is_sign(piece.last()) && is_sign(literal.first());
        if is_wrapped {
            sink(b"(");
        } else if piece.last().is_some_and(|byte| !may_precede(*byte)) {
            sink(b" ");
        }
        sink(literal);
        if is_wrapped {
            sink(b")");
        }
        let is_word_behind = next.first().is_some_and(|byte| is_word(*byte) || !may_follow(*byte));
        if is_word_behind {
            sink(b" ");
        }
    }
    Some(())
}

/// Bytes of the new text.
pub fn length(rule: &Rule<'_>, text: &[u8], parameters: &Parameters) -> Option<usize> {
    let mut bytes = 0usize;
    compose(rule, text, parameters, |piece| bytes = bytes.saturating_add(piece.len()))?;
    Some(bytes)
}

/// Writes the new text. `None`: it does not fit exactly into `room`.
pub fn write(rule: &Rule<'_>, text: &[u8], parameters: &Parameters, room: &mut [u8]) -> Option<()> {
    let mut rest = Some(room);
    compose(rule, text, parameters, |piece| {
        rest = rest.take().and_then(|room| {
            let (to, behind) = room.split_at_mut_checked(piece.len())?;
            to.iter_mut().zip(piece).for_each(|(to, byte)| *to = *byte);
            Some(behind)
        });
    })?;
    rest.is_some_and(|rest| rest.is_empty()).then_some(())
}
