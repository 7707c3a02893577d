//! Percona's audit_log plugin: JSON, NEW (XML elements) and OLD (XML attributes).
//!
//! Source: `plugin/audit_log/audit_log.cc` of percona-server 8.0 (`audit_log_general_record`,
//! `audit_log_connection_record`, `audit_log_audit_record`, `audit_log_header`). A record is the
//! same list of fields in all three; only the notation of a field differs.

pub mod json;
pub mod xml;

use tacho_record::time::{TIME_BYTES, TimeFormatter};
use tacho_record::{EventKind, Field, Outcome, Record};

use crate::Formatter;
use crate::escape::{Escape, name, sql};
use crate::place::Place;
use crate::words::{
    end_us, has_sentence, is_said_elsewhere, number, seconds, sentence, status, tables,
    user_at_host,
};

/// Appends the beginning of a file, in both forms of XML.
pub fn begin(out: &mut Vec<u8>) {
    out.extend_from_slice(b"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<AUDIT>\n");
}

/// Appends the end of a file.
pub fn end(out: &mut Vec<u8>) {
    out.extend_from_slice(b"</AUDIT>\n");
}

/// How a kind of file writes a field. The names of fields are those of the JSON form; XML has them
/// in upper case.
trait Style {
    /// Its rule for text.
    type Text: Escape;

    fn open(out: &mut Vec<u8>);
    fn close(out: &mut Vec<u8>);

    /// Appends the field, with its value from `append`.
    fn field(out: &mut Vec<u8>, key: &str, kind: Kind, append: impl FnOnce(&mut Vec<u8>));

    /// Whether it has the figures of a statement.
    const HAS_FIGURES: bool;

    /// Its name for the server's command line.
    const STARTUP_OPTIONS: &'static str;
}

/// The type of a value in JSON.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// The first field, a text.
    First,
    Text,
    Number,
}

/// Appends a record.
fn write<S: Style>(by: &Formatter, out: &mut Vec<u8>, record: &Record, clock: &mut TimeFormatter) {
    let Some(event) = record.event else { return };
    if is_said_elsewhere(record) {
        return;
    }
    S::open(out);
    match event {
        EventKind::Connect | EventKind::ConnectFailed => {
            append_connection::<S>(by, out, record, "Connect", clock);
        }
        EventKind::Disconnect => append_connection::<S>(by, out, record, "Quit", clock),
        EventKind::ChangeUser => append_connection::<S>(by, out, record, "Change user", clock),
        EventKind::Start => append_server::<S>(by, out, record, "Audit", clock),
        EventKind::Stop => append_server::<S>(by, out, record, "NoAudit", clock),
        EventKind::Statement
        | EventKind::Table
        | EventKind::Lost
        | EventKind::Config
        | EventKind::Notice => {
            append_general::<S>(by, out, record, event, clock);
        }
    }
    S::close(out);
}

fn text<S: Style>(out: &mut Vec<u8>, key: &str, value: &[u8]) {
    S::field(out, key, Kind::Text, |out| name::<S::Text>(out, value));
}

/// `name`, `record`, `timestamp`.
fn append_head<S: Style>(
    by: &Formatter,
    out: &mut Vec<u8>,
    record: &Record,
    title: impl FnOnce(&mut Vec<u8>),
    time: &[u8; TIME_BYTES],
) {
    S::field(out, "name", Kind::First, title);
    S::field(out, "record", Kind::Text, |out| {
        number(out, record.seq);
        out.push(b'_');
        // With a precision of one second, without the zone.
        out.extend_from_slice(&by.file_begun[..19]);
    });
    S::field(out, "timestamp", Kind::Text, |out| append_timestamp(out, time));
}

/// `2026-11-22T03:49:26 UTC`, with the offset in other zones.
fn append_timestamp(out: &mut Vec<u8>, time: &[u8; TIME_BYTES]) {
    let (second, offset) = (&time[..19], &time[26..]);
    out.extend_from_slice(second);
    let is_utc = offset == b"+00:00";
    out.extend_from_slice(if is_utc { b" UTC" } else { offset });
}

fn append_connection_id<S: Style>(out: &mut Vec<u8>, record: &Record) {
    S::field(out, "connection_id", Kind::Text, |out| number(out, record.conn.unwrap_or(0)));
}

fn append_connection<S: Style>(
    by: &Formatter,
    out: &mut Vec<u8>,
    record: &Record,
    title: &str,
    clock: &mut TimeFormatter,
) {
    let title = |out: &mut Vec<u8>| out.extend_from_slice(title.as_bytes());
    append_head::<S>(by, out, record, title, clock.format(record.ts_us));
    append_connection_id::<S>(out, record);
    S::field(out, "status", Kind::Number, |out| number(out, record.errno));
    text::<S>(out, "user", record.user);
    text::<S>(out, "priv_user", record.priv_user);
    text::<S>(out, "os_login", record.os_user);
    text::<S>(out, "proxy_user", record.proxy_user);
    text::<S>(out, "host", record.host);
    text::<S>(out, "ip", record.ip);
    text::<S>(out, "db", record.db);
}

fn append_general<S: Style>(
    by: &Formatter,
    out: &mut Vec<u8>,
    record: &Record,
    event: EventKind,
    clock: &mut TimeFormatter,
) {
    let title = |out: &mut Vec<u8>| match (event, record.outcome) {
        (EventKind::Lost, _) => out.extend_from_slice(b"Lost"),
        (EventKind::Config, _) => out.extend_from_slice(b"Config"),
        (EventKind::Notice, _) => out.extend_from_slice(b"Notice"),
        (EventKind::Table, _) => out.extend_from_slice(b"Table access"),
        (_, Some(Outcome::Running)) => out.extend_from_slice(b"Running"),
        (_, Some(Outcome::Interrupted)) => out.extend_from_slice(b"Interrupted"),
        _ => name::<S::Text>(out, record.command),
    };
    append_head::<S>(by, out, record, title, clock.format(end_us(record)));
    text::<S>(out, "command_class", record.sql_command);
    append_connection_id::<S>(out, record);
    S::field(out, "status", Kind::Number, |out| number(out, status(record)));
    S::field(out, "sqltext", Kind::Text, |out| match event {
        EventKind::Table => tables::<S::Text>(out, record.tables),
        _ if has_sentence(event) => sentence::<S::Text>(out, record, clock),
        _ => sql::<S::Text>(out, record),
    });
    if S::HAS_FIGURES {
        append_figures::<S>(out, record);
    }
    S::field(out, "user", Kind::Text, |out| {
        if !has_sentence(event) || event == EventKind::Notice {
            user_at_host::<S::Text>(out, record);
        }
    });
    text::<S>(out, "host", record.host);
    text::<S>(out, "os_user", record.os_user);
    text::<S>(out, "ip", record.ip);
    text::<S>(out, "db", record.db);
}

/// Rows and seconds, `null` if the server does not provide them.
fn append_figures<S: Style>(out: &mut Vec<u8>, record: &Record) {
    type Append = fn(&mut Vec<u8>, u64);
    let figures: [(&str, Option<u64>, Append); 4] = [
        ("examined_row", record.rows_examined, number),
        ("sent_row", record.rows_sent, number),
        ("Query_time", record.query_time_us, seconds),
        ("Lock_time", record.lock_time_us, seconds),
    ];
    for (key, value, append) in figures {
        S::field(out, key, Kind::Number, |out| match value {
            Some(value) => append(out, value),
            None => out.extend_from_slice(b"null"),
        });
    }
}

/// The server's command line is unknown here.
fn append_server<S: Style>(
    by: &Formatter,
    out: &mut Vec<u8>,
    record: &Record,
    title: &str,
    clock: &mut TimeFormatter,
) {
    let title = |out: &mut Vec<u8>| out.extend_from_slice(title.as_bytes());
    append_head::<S>(by, out, record, title, clock.format(record.ts_us));
    text::<S>(out, "mysql_version", record.server);
    text::<S>(out, S::STARTUP_OPTIONS, b"");
    S::field(out, "os_version", Kind::Text, |out| {
        for part in [std::env::consts::ARCH, "-", std::env::consts::OS] {
            out.extend_from_slice(part.as_bytes());
        }
    });
}

/// The position of each field.
pub const fn place(field: Field) -> Place {
    match field {
        Field::seq => Place::In("record"),
        Field::ts | Field::query_time_us => Place::In("timestamp"),
        Field::event | Field::outcome | Field::command => Place::In("name"),
        Field::conn => Place::In("connection_id"),
        Field::user => Place::In("user"),
        Field::priv_user => Place::In("priv_user"),
        Field::proxy_user => Place::In("proxy_user"),
        Field::os_user => Place::In("os_user"),
        Field::host => Place::In("host"),
        Field::ip => Place::In("ip"),
        Field::db => Place::In("db"),
        Field::sql_command => Place::In("command_class"),
        Field::errno => Place::In("status"),
        Field::sql
        | Field::tables
        | Field::start_ts
        | Field::count
        | Field::cause
        | Field::variable
        | Field::old_value
        | Field::new_value
        | Field::class
        | Field::action
        | Field::object
        | Field::producer
        | Field::detail
        | Field::attributes => Place::In("sqltext"),
        Field::rows_sent => Place::In("sent_row"),
        Field::rows_examined => Place::In("examined_row"),
        Field::lock_time_us => Place::In("Lock_time"),
        Field::server => Place::In("mysql_version"),
        Field::run
        | Field::conn_seq
        | Field::query_id
        | Field::port
        | Field::sqlstate
        | Field::error
        | Field::blocked_by
        | Field::sql_bytes
        | Field::params
        | Field::params_bytes
        | Field::first_byte_us
        | Field::bytes_sent
        | Field::warnings
        | Field::last_insert_id
        | Field::info
        | Field::sql_redacted
        | Field::sql_charset
        | Field::digest
        | Field::rewrite_rule
        | Field::rewritten_query
        | Field::rows_affected
        | Field::running_seq
        | Field::signing_key
        | Field::program
        | Field::tls
        | Field::source
        | Field::server_addr
        | Field::session
        | Field::lost_bytes
        | Field::lost_packets
        | Field::client_version
        | Field::detail_bytes => Place::Nowhere,
    }
}

/// The same for XML, which has no figures.
pub const fn place_in_xml(field: Field) -> Place {
    match field {
        Field::rows_sent | Field::rows_examined | Field::lock_time_us => Place::Nowhere,
        field => place(field),
    }
}
