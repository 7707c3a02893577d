//! The line of a record that is one by itself.

use tacho_record::{EventKind, Outcome, Record, TableAccess, TableUse};
use tacho_ring::codec::{
    PRESENT_SQLSTATE, PRESENT_TEXT, RecordKind, STRING_COMMAND, STRING_HOST, STRING_IP,
    STRING_PRIV_USER, STRING_USER,
};
use tacho_sql::redact;

use super::load::Loaded;
use super::notice::Notice;
use super::parts::{end_of, know, outcome_of, table_of};
use super::secrets::{clean_message, show};
use super::{Scratch, Style, Written, digest_of, is_blocked, wanted, write};
use crate::drain::Drain;
use crate::join::Place;

/// Writes the line of a record that is a line by itself, unless the filter does not want it.
pub fn write_single(
    out: &mut Vec<u8>,
    drain: &Drain,
    scratch: &mut Scratch,
    style: &mut Style<'_>,
    seq: u64,
    place: &Place,
    error: Option<&Place>,
) -> Written {
    let Scratch { start, end, known, commands, digests, shortfall, .. } = scratch;
    let Some(loaded) = start.load(drain, place, shortfall) else { return Written::Unreadable };
    let Loaded { view, text } = loaded;
    let failed = view.body.errno != 0;
    let event = match view.kind {
        RecordKind::Connect if failed => EventKind::ConnectFailed,
        RecordKind::Connect => EventKind::Connect,
        RecordKind::Disconnect => EventKind::Disconnect,
        RecordKind::ChangeUser => EventKind::ChangeUser,
        RecordKind::Table => EventKind::Table,
        RecordKind::Config => EventKind::Config,
        RecordKind::Notice => EventKind::Notice,
        _ => EventKind::Statement,
    };
    let treatment = wanted::single(&style.filter(view.header.ts_us), &view);
    let error = error.and_then(|place| end.load(drain, place, shortfall));
    let blocks = error.as_ref().is_some_and(|loaded| is_blocked(&loaded.view));
    if treatment.skip && style.may_skip && !blocks {
        return Written::Filtered;
    }
    style.redact_literals |= treatment.literals;
    let mut record = Record {
        seq,
        ts_us: view.header.ts_us,
        event: Some(event),
        run: style.run,
        conn: (view.header.conn != 0).then_some(view.header.conn),
        conn_seq: (view.header.conn_seq != 0).then_some(view.header.conn_seq),
        ..Record::default()
    };
    let (notice, attributes);
    let mut table =
        [TableUse { access: TableAccess::Read, db: &[], table: &[], new_db: &[], new_table: &[] }];
    let mut sql = None;
    let mut message = None;
    match event {
        EventKind::Config => {
            record.variable = view.string(STRING_COMMAND);
            let values = text.unwrap_or_default();
            let (old, new) = values.split_at(values.len().min(view.body.shown_bytes as usize));
            (record.old_value, record.new_value) = (old, new);
            record.user = view.string(STRING_USER);
            record.priv_user = view.string(STRING_PRIV_USER);
            record.host = view.string(STRING_HOST);
            record.ip = view.string(STRING_IP);
        }
        EventKind::Notice => {
            notice = Notice::read(&view, text.unwrap_or_default(), style.redact_literals);
            attributes = notice.attributes();
            notice.tell(&view, &mut record);
            record.attributes = &attributes;
        }
        EventKind::Table => {
            table[0] = table_of(&view);
            record.query_id = (view.header.query_id != 0).then_some(view.header.query_id);
            record.tables = &table;
        }
        _ if view.kind == RecordKind::Error => {
            outcome_of(&mut record, &end_of(&view));
            record.query_id = (view.header.query_id != 0).then_some(view.header.query_id);
            if is_blocked(&view) {
                record.blocked_by = text.unwrap_or_default();
            } else {
                // Its text is the message.
                message = text.ok();
            }
        }
        _ => {
            let kind = know(known, &view, &mut record);
            outcome_of(&mut record, &end_of(&view));
            if event == EventKind::Disconnect {
                record.outcome = None;
            }
            record.query_id = (view.header.query_id != 0).then_some(view.header.query_id);
            commands.name(drain, view.body.sql_command, &mut record);
            if view.body.present & PRESENT_TEXT != 0 {
                match text {
                    _ if treatment.no_text => {
                        record.sql_bytes = Some(view.body.text_bytes.into());
                    }
                    Ok(text) => sql = Some((text, kind)),
                    Err(_) => record.sql_bytes = Some(view.body.text_bytes.into()),
                }
            }
        }
    }
    if view.body.present & PRESENT_SQLSTATE != 0 && failed {
        record.sqlstate = &view.body.sqlstate;
    }
    let shown = sql.map(|(text, kind)| {
        let is_whole = view.body.shown_bytes as usize == text.len();
        let is_parsed = record.outcome == Some(Outcome::Ok) && is_whole;
        show(text, view.body.text_bytes, &record, kind, is_parsed, style, digests.normaliser())
    });
    let redacted = shown.as_ref().is_some_and(|s| s.redacted);
    if let Some(Loaded { view, text }) = &error {
        if is_blocked(view) {
            record.blocked_by = text.unwrap_or_default();
        } else {
            message = text.ok();
        }
        if record.errno == 0 {
            record.errno = view.body.errno;
        }
    }
    // Of an error by itself the statement is not known: its secrets cannot be told apart.
    let unknown = redacted || record.sql_bytes.is_some() || view.kind == RecordKind::Error;
    let cleaned = message.map(|text| {
        let no_literals = style.redact_literals || treatment.no_text;
        if no_literals && event == EventKind::Statement {
            redact::message_without_literals(record.errno, text).into()
        } else {
            clean_message(record.errno, text, unknown)
        }
    });
    match &shown {
        Some(shown) => {
            record.sql = Some(&shown.text);
            record.sql_bytes = shown.whole_bytes;
            record.sql_redacted = redacted;
            if let (true, Some((text, kind))) = (style.digest, sql) {
                record.digest = digest_of(digests, Some(text), kind, shown);
            }
        }
        None => {
            record.charset = None;
            record.sql_charset = &[];
        }
    }
    if let Some(cleaned) = &cleaned {
        record.error = cleaned;
    }
    write(out, &mut record, style, shortfall);
    Written::Line
}
