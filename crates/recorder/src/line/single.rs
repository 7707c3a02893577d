//! The line of a record that has a line of its own.

use std::borrow::Cow;

use tacho_record::{EventKind, Outcome, Record};
use tacho_ring::codec::{
    Captured, PRESENT_SQLSTATE, PRESENT_TEXT, RecordKind, STRING_COMMAND, STRING_HOST, STRING_IP,
    STRING_PRIV_USER, STRING_PROXY_USER, STRING_USER, View, server_conn,
};
use tacho_sql::digest::Normaliser;
use tacho_sql::redact;

use super::digests::Digests;
use super::load::Loaded;
use super::notice::Notice;
use super::parts::{TextKind, end_of, identify, know, outcome_of, table_of};
use super::secrets::{Shown, clean_message, show};
use super::style::{Scratch, Style, Written, is_blocked, write};
use super::{texts, wanted};
use crate::drain::Drain;
use crate::join::RecordPlace;

/// The event of a record with a line of its own.
fn event_of(view: &View<'_>) -> EventKind {
    match view.kind {
        RecordKind::Connect if view.body.errno != 0 => EventKind::ConnectFailed,
        RecordKind::Connect => EventKind::Connect,
        RecordKind::Disconnect => EventKind::Disconnect,
        RecordKind::ChangeUser => EventKind::ChangeUser,
        RecordKind::Table => EventKind::Table,
        RecordKind::Config => EventKind::Config,
        RecordKind::Notice => EventKind::Notice,
        RecordKind::Lost => EventKind::Lost,
        _ => EventKind::Statement,
    }
}

/// The change of a setting.
fn config<'r>(view: &View<'r>, values: &'r [u8], record: &mut Record<'r>) {
    record.variable = view.string(STRING_COMMAND);
    let (old, new) = values.split_at(values.len().min(view.body.shown_bytes as usize));
    (record.old_value, record.new_value) = (old, new);
    record.user = view.string(STRING_USER);
    record.priv_user = view.string(STRING_PRIV_USER);
    record.host = view.string(STRING_HOST);
    record.ip = view.string(STRING_IP);
}

/// What a capture has not seen.
fn lost<'r>(view: &View<'r>, record: &mut Record<'r>) {
    identify(record, view.header.conn, &view.strings());
    record.command = &[];
    record.cause = view.string(STRING_COMMAND);
    let [bytes, since_us, packets, ..] = view.figures;
    record.lost_bytes = (bytes != 0).then_some(bytes);
    record.lost_packets = (packets != 0).then_some(packets);
    record.start_ts_us = i64::try_from(since_us).ok();
}

/// Fields of the records of a session; a client sends its attributes when it logs in.
fn session<'r>(view: &View<'r>, record: &mut Record<'r>) {
    if view.kind == RecordKind::Disconnect {
        record.outcome = None;
    }
    let proxy_user = view.string(STRING_PROXY_USER);
    if let Some(captured) = Captured::read(view.header.conn, proxy_user) {
        record.program = captured.program;
        record.client_version = captured.client_version;
    }
}

/// The text and the message of a line, unredacted.
#[derive(Default)]
struct Texts<'t> {
    sql: Option<(&'t [u8], &'t TextKind)>,
    message: Option<&'t [u8]>,
    /// No text may be shown.
    no_text: bool,
}

impl<'t> Texts<'t> {
    /// An error of the record itself, or of an unknown statement.
    fn take_error(&mut self, error: &Loaded<'t>, record: &mut Record<'t>) {
        if is_blocked(&error.view) {
            record.blocked_by = error.text.unwrap_or_default();
        } else {
            // The text of an error record is its message.
            self.message = error.text.ok();
        }
    }

    /// The text of a statement, or what its line says about a text that it does not show.
    fn take_sql(&mut self, loaded: &Loaded<'t>, kind: &'t TextKind, record: &mut Record<'t>) {
        let Loaded { view, text } = loaded;
        if view.body.present & PRESENT_TEXT == 0 {
            return;
        }
        match text {
            Ok(text) if !self.no_text => self.sql = Some((text, kind)),
            _ => record.sql_bytes = Some(view.body.text_bytes.into()),
        }
    }

    /// The part of the text that may be shown; `view` is its record.
    #[inline(always)]
    fn show(
        &self,
        view: &View<'_>,
        record: &Record<'_>,
        style: &Style<'_>,
        normaliser: &mut Normaliser,
    ) -> Option<Shown<'t>> {
        let (text, kind) = self.sql?;
        let is_whole = view.body.shown_bytes as usize == text.len();
        let is_parsed = record.outcome == Some(Outcome::Ok) && is_whole;
        Some(show(text, view.body.text_bytes, record, kind, is_parsed, style, normaliser))
    }

    /// The redacted message. `is_unknown`: a secret in it cannot be recognised.
    fn clean(
        &self,
        message: &'t [u8],
        is_unknown: bool,
        record: &Record<'_>,
        style: &Style<'_>,
    ) -> Cow<'t, [u8]> {
        let no_literals = style.redact_literals || self.no_text;
        if no_literals && record.event == Some(EventKind::Statement) {
            redact::message_without_literals(record.errno, message).into()
        } else {
            clean_message(record.errno, message, is_unknown)
        }
    }

    /// Puts the shown parts into the line, with the digest if it is wanted.
    #[inline(always)]
    fn put<'r>(
        &self,
        shown: &'r Option<Shown<'_>>,
        message: Option<&'r [u8]>,
        digests: Option<&'r mut Digests>,
        record: &mut Record<'r>,
    ) {
        if let (Some(shown), Some((text, kind))) = (shown, self.sql) {
            texts::put(record, shown, (text, None), kind, digests);
        } else {
            record.charset = None;
            record.sql_charset = &[];
        }
        if let Some(message) = message {
            record.error = message;
        }
    }
}

/// Writes the line of a record that has a line of its own, unless the filter discards it.
pub fn write_single(
    out: &mut Vec<u8>,
    drain: &Drain,
    scratch: &mut Scratch,
    style: &mut Style<'_>,
    seq: u64,
    place: &RecordPlace,
    error: Option<&RecordPlace>,
) -> Written {
    let Scratch { start, end, known, commands, digests, shortfall, .. } = scratch;
    let Some(loaded) = start.load(drain, place, shortfall) else { return Written::Unreadable };
    let Loaded { view, text } = loaded;
    let event = event_of(&view);
    let action = wanted::single(&style.filter(view.header.ts_us), &view);
    let error = error.and_then(|place| end.load(drain, place, shortfall));
    let blocks = error.as_ref().is_some_and(|loaded| is_blocked(&loaded.view));
    if action.skip && style.may_skip && !blocks {
        return Written::Filtered;
    }
    style.redact_literals |= action.literals;
    let mut record = Record {
        seq,
        ts_us: view.header.ts_us,
        event: Some(event),
        run: style.run,
        conn: server_conn(view.header.conn),
        conn_seq: (view.header.conn_seq != 0).then_some(view.header.conn_seq),
        ..Record::default()
    };
    let query_id = (view.header.query_id != 0).then_some(view.header.query_id);
    let (notice, attributes, table);
    let mut texts = Texts { no_text: action.no_text, ..Texts::default() };
    match event {
        EventKind::Config => config(&view, text.unwrap_or_default(), &mut record),
        EventKind::Lost => lost(&view, &mut record),
        EventKind::Notice => {
            notice = Notice::read(&view, text.unwrap_or_default(), style.redact_literals);
            attributes = notice.attributes();
            notice.fill(&view, &mut record);
            record.attributes = &attributes;
        }
        EventKind::Table => {
            table = [table_of(&view)];
            record.query_id = query_id;
            record.tables = &table;
        }
        _ if view.kind == RecordKind::Error => {
            outcome_of(&mut record, &end_of(&view));
            record.query_id = query_id;
            texts.take_error(&loaded, &mut record);
        }
        _ => {
            let kind = know(known, &view, &mut record);
            outcome_of(&mut record, &end_of(&view));
            session(&view, &mut record);
            record.query_id = query_id;
            commands.name(drain, view.body.sql_command, &mut record);
            texts.take_sql(&loaded, kind, &mut record);
        }
    }
    if view.body.present & PRESENT_SQLSTATE != 0 && view.body.errno != 0 {
        record.sqlstate = &view.body.sqlstate;
    }
    if let Some(error) = &error {
        texts.take_error(error, &mut record);
        if record.errno == 0 {
            record.errno = error.view.body.errno;
        }
    }
    let shown = texts.show(&view, &record, style, digests.normaliser());
    // The statement of a lone error is unknown, and so are its secrets.
    let is_unknown = shown.as_ref().is_some_and(|shown| shown.redacted)
        || record.sql_bytes.is_some()
        || view.kind == RecordKind::Error;
    let message = texts.message.map(|text| texts.clean(text, is_unknown, &record, style));
    texts.put(&shown, message.as_deref(), style.digest.then_some(digests), &mut record);
    write(out, &mut record, style, shortfall);
    Written::Line
}
