//! The text of a line, with its digest.

use tacho_record::Record;

use super::digests::{Digests, Found};
use super::parts::TextKind;
use super::secrets::Shown;

/// Puts the text that may be shown into the line of a record, with its digest if that is wanted;
/// `text` is the received text, `found` what `digests` has of it, if that is known.
#[inline(always)]
pub(super) fn put<'r>(
    record: &mut Record<'r>,
    shown: &'r Shown<'_>,
    (text, found): (&[u8], Option<Found>),
    kind: &TextKind,
    digests: Option<&'r mut Digests>,
) {
    record.sql = Some(&shown.text);
    record.sql_bytes = shown.whole_bytes;
    record.sql_redacted = shown.redacted;
    if let Some(digests) = digests {
        record.digest = digest_of(digests, (text, found), kind, shown);
    }
}

/// The digest of the received text, or of the shown one if the received text has an unknown part;
/// empty: none.
#[inline(always)]
fn digest_of<'d>(
    digests: &'d mut Digests,
    (text, found): (&[u8], Option<Found>),
    kind: &TextKind,
    shown: &Shown<'_>,
) -> &'d [u8] {
    match kind.setting.digest_mode() {
        Some(mode) if kind.is_sql && shown.is_given_up => digests.of(None, &shown.text, mode),
        Some(mode) if kind.is_sql => digests.of(found, text, mode),
        _ => &[],
    }
}
