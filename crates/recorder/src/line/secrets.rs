//! What of a text may go to the disk.

use std::borrow::Cow;

use tacho_digest::{Normaliser, REDACTED};
use tacho_event::charset::Charset;
use tacho_event::record::Record;
use tacho_event::redact::{self, Parsed};

use super::Style;
use super::parts::TextKind;

/// Text that may go to the disk, and whether something was taken out of it.
pub(super) struct Shown<'t> {
    pub(super) text: Cow<'t, [u8]>,
    pub(super) redacted: bool,
    pub(super) whole_bytes: Option<u64>,
    /// A part of the text is not known: the digest of what came may depend on a secret without quotes.
    pub(super) is_given_up: bool,
}

/// `is_parsed`: the server has parsed all of `text`, as one statement.
pub(super) fn show<'t>(
    text: &'t [u8],
    record: &Record<'_>,
    kind: &TextKind,
    is_parsed: bool,
    style: &Style<'_>,
    normaliser: &mut Normaliser,
) -> Shown<'t> {
    let cleaned = if style.redact_literals {
        Cow::Owned(without_literals(text, kind, is_parsed, normaliser))
    } else {
        redact::secrets(text, kind.setting)
    };
    let redacted = matches!(cleaned, Cow::Owned(_));
    // Before it is cut: a cut would hide that.
    let is_given_up = redacted && cleaned.ends_with(REDACTED);
    let limit = usize::try_from(style.max_statement_bytes).unwrap_or(usize::MAX);
    if limit == 0 || cleaned.len() <= limit {
        let whole_bytes = redacted.then_some(text.len() as u64);
        return Shown { text: cleaned, redacted, whole_bytes, is_given_up };
    }
    // Cut after redaction, so that a cut can never hide that something is a secret.
    let charset = record.text_charset().unwrap_or(Charset::BINARY);
    let end = charset.cut(&cleaned, limit);
    let cut = match cleaned {
        Cow::Borrowed(bytes) => Cow::Borrowed(&bytes[..end]),
        Cow::Owned(mut bytes) => {
            bytes.truncate(end);
            Cow::Owned(bytes)
        }
    };
    Shown { text: cut, redacted, whole_bytes: Some(text.len() as u64), is_given_up }
}

fn without_literals(
    text: &[u8],
    kind: &TextKind,
    is_parsed: bool,
    normaliser: &mut Normaliser,
) -> Vec<u8> {
    if kind.is_sql {
        let parsed = if is_parsed { Parsed::Yes } else { Parsed::Unknown };
        redact::literals(text, kind.setting, parsed, normaliser)
    } else if kind.is_name {
        text.to_vec()
    } else {
        REDACTED.to_vec()
    }
}

/// Whether it prepares another text. One without a literal does not show it, because it comes
/// from a variable: nobody can tell whether there is a secret in it.
pub(super) fn executes_text(record: &Record<'_>) -> bool {
    matches!(record.sql_command, b"prepare_sql" | b"prepare" | b"execute_immediate")
}

/// Whether an error's message quotes a text that is not the statement's: a CALL that runs has been
/// parsed, so what could not be parsed is a text that the procedure has prepared.
pub(super) fn quotes_another_text(record: &Record<'_>) -> bool {
    const ER_PARSE_ERROR: u32 = 1064;
    const ER_SYNTAX_ERROR: u32 = 1149;
    matches!(record.sql_command, b"call_procedure" | b"call")
        && matches!(record.errno, ER_PARSE_ERROR | ER_SYNTAX_ERROR)
}

/// Whether there is a literal in a text.
pub(super) fn has_literal(text: &[u8]) -> bool {
    text.iter().any(|byte| matches!(byte, b'\'' | b'"'))
}

/// Error messages quote the statement. When it has or may have secrets, what the message quotes
/// goes.
pub(super) fn clean_message(message: &[u8], redacted: bool) -> Cow<'_, [u8]> {
    let quote = message.iter().position(|b| matches!(b, b'\'' | b'"' | b'`'));
    let Some(quote) = quote.filter(|_| redacted) else { return message.into() };
    let mut cleaned = Vec::new();
    if cleaned.try_reserve_exact(quote + REDACTED.len()).is_err() {
        return REDACTED.into();
    }
    cleaned.extend_from_slice(&message[..quote]);
    cleaned.extend_from_slice(REDACTED);
    cleaned.into()
}
