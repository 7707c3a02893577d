//! Which part of a text may be written.

use std::borrow::Cow;

use tacho_record::charset::Charset;
use tacho_record::{Outcome, Record};
use tacho_sql::digest::{Normaliser, REDACTED};
use tacho_sql::redact::{self, Parsed};

use super::parts::TextKind;
use super::style::Style;

/// Text that may be written, and whether something was removed from it.
pub(super) struct Shown<'t> {
    pub(super) text: Cow<'t, [u8]>,
    pub(super) redacted: bool,
    pub(super) whole_bytes: Option<u64>,
    /// A part of the text is unknown: the digest of the received text may depend on a secret
    /// without quotes.
    pub(super) is_given_up: bool,
}

/// `is_parsed`: the server has parsed all of `text`, as one statement. `text_bytes`: length of the
/// whole text, of which `text` may be the beginning.
pub(super) fn show<'t>(
    text: &'t [u8],
    text_bytes: u32,
    record: &Record<'_>,
    kind: &TextKind,
    is_parsed: bool,
    style: &Style<'_>,
    normaliser: &mut Normaliser,
) -> Shown<'t> {
    // The word that makes a literal a secret may be in the missing part.
    let is_part = matches!(record.outcome, Some(Outcome::Running | Outcome::Interrupted))
        && text_bytes as usize > text.len();
    let cleaned = if style.redact_literals {
        Cow::Owned(without_literals(text, kind, is_parsed, normaliser))
    } else {
        redact::secrets(text, if is_part { kind.setting.of_part() } else { kind.setting })
    };
    let redacted = matches!(cleaned, Cow::Owned(_));
    // Before truncation, which would hide it.
    let is_given_up = redacted && cleaned.ends_with(REDACTED);
    let limit = usize::try_from(style.max_statement_bytes).unwrap_or(usize::MAX);
    if limit == 0 || cleaned.len() <= limit {
        let whole_bytes = redacted.then_some(text.len() as u64);
        return Shown { text: cleaned, redacted, whole_bytes, is_given_up };
    }
    // Truncated after redaction, so that truncation can never hide that something is a secret.
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

/// Whether it executes another text that it does not show: without a literal, the text comes from a
/// variable, and may have a secret.
pub(super) fn executes_text(record: &Record<'_>) -> bool {
    matches!(record.sql_command, b"prepare_sql" | b"prepare" | b"execute_immediate")
}

/// Whether a message quotes a text that the statement does not show. A procedure or a block
/// prepares texts of its own, and SIGNAL may take its message from a variable.
pub(super) fn quotes_another_text(
    record: &Record<'_>,
    message: &[u8],
    text: Option<&[u8]>,
    kind: &TextKind,
) -> bool {
    const ER_PARSE_ERROR: u32 = 1064;
    const ER_SYNTAX_ERROR: u32 = 1149;
    let quoted = match (record.errno, record.sql_command) {
        (ER_PARSE_ERROR | ER_SYNTAX_ERROR, _) => between_quotes(message),
        (_, b"signal" | b"resignal") => message,
        _ => &[],
    };
    let is_shown = quoted.is_empty()
        || text.is_some_and(|text| text.windows(quoted.len()).any(|part| part == quoted));
    !is_shown || matches!(redact::secrets(message, kind.setting), Cow::Owned(_))
}

/// The part between the first and the last quotation mark.
fn between_quotes(message: &[u8]) -> &[u8] {
    let is_quote = |byte: &u8| matches!(byte, b'\'' | b'"' | b'`');
    let Some(first) = message.iter().position(is_quote) else { return &[] };
    let last = message.iter().rposition(is_quote).unwrap_or(first);
    message.get(first + 1..last).unwrap_or_default()
}

/// Error messages quote the statement, or are its own words. If it has or may have secrets, only
/// the server's words remain.
pub(super) fn clean_message(errno: u32, message: &[u8], is_hidden: bool) -> Cow<'_, [u8]> {
    if is_hidden { redact::message_without_literals(errno, message).into() } else { message.into() }
}
