//! The texts of a statement in its line: which parts are shown.

use std::borrow::Cow;

use tacho_filter::Action;
use tacho_record::{Outcome, Record};
use tacho_sql::redact;

use super::answer::AnswerRecord;
use super::digests::{Digests, Found, Ordinary};
use super::parts::TextKind;
use super::secrets::{Shown, clean_message, executes_text, quotes_another_text};
use super::style::{Style, without_text};
use super::{params, texts};
use crate::join::{CarryOver, StatementEnd};

/// The texts of a statement, and what decides how they are shown.
pub(super) struct Texts<'t> {
    /// `None`: there is none, or it must not be shown.
    pub(super) text: Option<&'t [u8]>,
    pub(super) text_bytes: u32,
    pub(super) kind: &'t TextKind,
    /// There is a text that cannot or must not be shown.
    pub(super) is_gone: bool,
    /// The text after rewriting.
    pub(super) rewritten: Option<&'t [u8]>,
    pub(super) action: Action,
    /// State of the start.
    pub(super) carry_over: Option<&'t CarryOver>,
    pub(super) ended: Option<&'t StatementEnd>,
}

impl<'t> Texts<'t> {
    /// The text, if it is one that is shown as it is, with its digest, unless it has a secret.
    #[inline(always)]
    pub(super) fn ordinary(&self, record: &Record<'_>, style: &Style<'_>) -> Option<Ordinary<'t>> {
        let limit = usize::try_from(style.max_statement_bytes).unwrap_or(usize::MAX);
        let text = self.text.filter(|text| {
            text.len() >= self.text_bytes as usize && (limit == 0 || text.len() <= limit)
        })?;
        let TextKind { setting, is_sql, .. } = *self.kind;
        let is_ordinary = style.digest && !style.redact_literals && is_sql && setting.is_ordinary();
        let charset = record.charset.filter(|_| is_ordinary)?;
        Some(Ordinary { text, setting, charset })
    }

    /// The text, unless its JSON was found.
    #[inline(always)]
    pub(super) fn without_json(&self, found: Option<Found>) -> Option<&'t [u8]> {
        if matches!(found, Some(Found::Json(_))) { None } else { self.text }
    }

    /// Puts the shown parts into the line, with the digest if it is wanted.
    #[inline(always)]
    pub(super) fn put<'r>(
        &self,
        (shown, rewritten): (&'r Option<Shown<'_>>, &'r Option<Shown<'_>>),
        message: Option<&'r [u8]>,
        (found, digests): (Option<Found>, Option<&'r mut Digests>),
        record: &mut Record<'r>,
    ) where
        't: 'r,
    {
        if let (Some(shown), Some(text)) = (shown, self.text) {
            texts::put(record, shown, (text, found), self.kind, digests);
        } else if let (Some(Found::Json(index)), Some(digests)) = (found, digests) {
            record.sql = self.text;
            record.text_json = digests.json(index);
        } else if self.is_gone {
            record.sql_bytes = Some(self.text_bytes.into());
            without_text(record);
        }
        record.rewritten_query = rewritten.as_ref().map(|shown| &*shown.text);
        if let Some(message) = message {
            record.error = message;
        }
    }

    /// The parameters as JSON, without secrets. `None`: they may not be shown.
    #[cold]
    #[inline(never)]
    pub(super) fn params(
        &self,
        (params, whole_bytes): (&[u8], u64),
        record: &mut Record<'_>,
        style: &Style<'_>,
    ) -> Option<Vec<u8>> {
        // Of a text that is not whole, the word that makes a parameter a secret may be missing.
        let is_whole = |text: &&[u8]| text.len() as u64 >= u64::from(self.text_bytes);
        let text = self.text.filter(is_whole).filter(|_| !style.redact_literals)?;
        record.params_bytes = (whole_bytes != 0).then_some(whole_bytes);
        let params = (params, whole_bytes != 0);
        Some(params::json(params, text, self.kind.setting, record.text_charset()))
    }

    /// Puts what the answer says into the line. `is_redacted`: something was removed from the shown
    /// texts.
    #[cold]
    #[inline(never)]
    pub(super) fn answer<'v>(
        &self,
        answer: &AnswerRecord<'v>,
        is_redacted: bool,
        record: &mut Record<'v>,
        style: &Style<'_>,
    ) {
        let has_secret = self.carry_over.is_some_and(|carry_over| carry_over.has_secret);
        let is_redacted = is_redacted || has_secret || self.is_gone;
        answer.put(self.has_no_literals(style), is_redacted, record);
    }

    /// Whether all literals of the statement are removed.
    fn has_no_literals(&self, style: &Style<'_>) -> bool {
        let carry_over = self.carry_over;
        style.redact_literals
            || self.action.no_text
            || carry_over.is_some_and(|carry_over| carry_over.no_literals)
    }

    /// Whether the server has parsed all of the text, as one statement.
    #[inline(always)]
    pub(super) fn is_parsed(&self, record: &Record<'_>) -> bool {
        // If the end has no text, it is unknown how much of the text belongs to the statement.
        let is_whole = |end: &StatementEnd| {
            end.shown_bytes != u32::MAX
                && self.text.is_some_and(|text| end.shown_bytes as usize >= text.len())
        };
        record.outcome == Some(Outcome::Ok) && self.ended.is_some_and(is_whole)
    }

    /// The text after rewriting, unless the original text cannot or must not be shown.
    #[inline(always)]
    pub(super) fn shown_rewritten(&self) -> Option<&'t [u8]> {
        if self.is_gone || self.action.no_text { None } else { self.rewritten }
    }

    /// The redacted message of its error. `is_redacted`: something was removed from the shown
    /// texts.
    pub(super) fn clean<'m>(
        &self,
        message: &'m [u8],
        is_redacted: bool,
        record: &Record<'_>,
        style: &Style<'_>,
    ) -> Cow<'m, [u8]> {
        let Texts { text, kind, is_gone, carry_over, .. } = *self;
        if self.has_no_literals(style) {
            return redact::message_without_literals(record.errno, message).into();
        }
        let has_secret = is_redacted || carry_over.is_some_and(|carry_over| carry_over.has_secret);
        let shows_prepared = || {
            text.is_some_and(|text| redact::shows_prepared(text, kind.setting))
                || carry_over.is_some_and(|carry_over| carry_over.shows_prepared)
        };
        let is_hidden = executes_text(record) && !shows_prepared()
            || quotes_another_text(record, message, text, kind);
        clean_message(record.errno, message, has_secret || is_hidden || is_gone)
    }
}

/// Whether something was removed from a text.
#[inline(always)]
pub(super) fn is_redacted(shown: &Option<Shown<'_>>) -> bool {
    shown.as_ref().is_some_and(|shown| shown.redacted)
}
