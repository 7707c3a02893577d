//! The text that is executed instead of a statement.
//!
//! The literals are put where the replacement has `?`, as they were written. What stands beside
//! one shall not become a part of it, nor it of that: a blank parts them where they could, and a
//! signed number behind a sign gets parentheses (two signs could begin a comment).

use crate::lexer::{is_space, is_word};
use crate::matching::Parameters;
use crate::program::Rule;

/// Whether a literal may stand at once behind this byte.
fn may_precede(byte: u8) -> bool {
    is_space(byte) || b"(,=<>+-*/%!&|^~".contains(&byte)
}

/// Whether this byte may stand at once behind a literal.
fn may_follow(byte: u8) -> bool {
    is_space(byte) || b"),;=<>+-*/%!&|^".contains(&byte)
}

/// Gives the new text to `sink`, piece by piece. `None`: the rule asks for a parameter that there
/// is none of.
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

/// Writes the new text. `None`: it does not fit, to the byte, into `room`.
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
