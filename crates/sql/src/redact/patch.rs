//! Ranges to remove from a text, and the text without them.

use std::collections::TryReserveError;

use super::lexer::{REDACTED, SECRET};

/// One range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Patch {
    pub(super) start: usize,
    pub(super) end: usize,
    /// False for one secret, true for a part that could not be understood.
    pub(super) is_rest: bool,
}

/// `text` with a marker for each range. Ranges that overlap, or have only white space between them,
/// share one marker.
///
/// # Errors
/// If there is not enough memory.
pub(super) fn apply(text: &[u8], mut patches: Vec<Patch>) -> Result<Vec<u8>, TryReserveError> {
    patches.sort_unstable();
    let mut result = Vec::new();
    let markers = patches.len().saturating_mul(SECRET.len().max(REDACTED.len()));
    result.try_reserve_exact(text.len().saturating_add(markers))?;
    let mut at = 0;
    let mut patches = patches.into_iter().peekable();
    while let Some(mut patch) = patches.next() {
        while let Some(next) = patches.next_if(|next| {
            text.get(patch.end..next.start)
                .is_none_or(|gap| gap.iter().all(u8::is_ascii_whitespace))
        }) {
            patch.end = patch.end.max(next.end);
            patch.is_rest |= next.is_rest;
        }
        result.extend_from_slice(&text[at..patch.start]);
        result.extend_from_slice(if patch.is_rest { REDACTED } else { SECRET });
        at = patch.end;
    }
    result.extend_from_slice(&text[at..]);
    Ok(result)
}
