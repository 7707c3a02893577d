//! Elastic Common Schema, version 9.4.0.
//!
//! One document per line. Fields that the schema does not have are in `tacho`, under our own names,
//! as the schema requires of custom fields. Source: the published fields of ECS 9.4.0; a test
//! checks the name and type of every field against them.

use tacho_record::time::TimeFormatter;
use tacho_record::{EventKind, Field, Outcome, Record};

use crate::Formatter;
use crate::escape::Json;
use crate::json::{Object, object};
use crate::place::Place;
use crate::words::{has_sentence, number, sentence};

/// The version of the schema.
const SCHEMA: &str = "9.4.0";

pub fn write(by: &Formatter, out: &mut Vec<u8>, record: &Record, clock: &mut TimeFormatter) {
    let Some(event) = record.event else { return };
    object(out, |o| {
        o.made("@timestamp", |out| out.extend_from_slice(clock.format(record.ts_us)));
        o.object("ecs", |o| o.word("version", SCHEMA));
        if has_sentence(event) {
            o.made("message", |out| sentence::<Json>(out, record, clock));
        } else {
            o.text("message", record.error);
        }
        o.object("event", |o| append_event(o, record, event));
        o.object("user", |o| {
            o.text("name", record.user);
            if record.priv_user != record.user {
                o.object("effective", |o| o.text("name", record.priv_user));
            }
        });
        append_source(o, record);
        o.object("host", |o| o.text("name", &by.server_host));
        o.object("service", |o| {
            o.word("type", "mysql");
            o.text("version", record.server);
        });
        if record.errno != 0 {
            o.object("error", |o| {
                o.made("code", |out| number(out, record.errno));
                o.text("message", record.error);
            });
        }
        o.object("related", |o| {
            o.texts("user", &[record.user, record.priv_user]);
            o.texts("ip", &[record.ip]);
            o.texts("hosts", &[&by.server_host, record.host]);
        });
        o.object("tacho", |o| o.extensions(record, place, clock));
    });
    out.push(b'\n');
}

/// `event.category` and `event.type` have their own lists in the schema.
fn append_event(o: &mut Object, record: &Record, event: EventKind) {
    let (category, kind) = match event {
        EventKind::Connect => ("session", "start"),
        EventKind::ConnectFailed => ("authentication", "start"),
        EventKind::Disconnect => ("session", "end"),
        EventKind::ChangeUser => ("authentication", "start"),
        EventKind::Statement | EventKind::Table => ("database", kind(record.sql_command)),
        EventKind::Lost => ("database", "error"),
        EventKind::Start => ("process", "start"),
        EventKind::Stop => ("process", "end"),
        EventKind::Config => ("configuration", "change"),
        EventKind::Notice => ("database", "info"),
    };
    o.word("kind", "event");
    o.texts(
        "category",
        &match event {
            EventKind::Connect => [&b"authentication"[..], category.as_bytes()],
            _ => [category.as_bytes(), b""],
        },
    );
    o.texts("type", &[kind.as_bytes()]);
    if event == EventKind::Statement && !record.sql_command.is_empty() {
        o.text("action", record.sql_command);
    } else {
        o.word("action", event.name());
    }
    match record.outcome {
        Some(Outcome::Ok) => o.word("outcome", "success"),
        Some(Outcome::Error | Outcome::Interrupted) => o.word("outcome", "failure"),
        Some(Outcome::Running) => o.word("outcome", "unknown"),
        None => {}
    }
    if record.errno != 0 {
        o.made("code", |out| number(out, record.errno));
    }
    // Nanoseconds.
    o.number("duration", record.query_time_us.map(|us| us.saturating_mul(1000)));
    o.number("sequence", Some(record.seq));
    o.word("module", "tacho");
    o.word("dataset", "tacho.audit");
    o.word("provider", "tacho");
}

/// By the server's own class of the statement, never by its text. The schema has neither `creation`
/// nor `deletion` for the category `database`.
fn kind(sql_command: &[u8]) -> &'static str {
    const CHANGES: [&[u8]; 10] = [
        b"insert",
        b"replace",
        b"load",
        b"update",
        b"delete",
        b"truncate",
        b"create_",
        b"alter_",
        b"drop_",
        b"rename_",
    ];
    let is_change = CHANGES.iter().any(|beginning| sql_command.starts_with(beginning));
    if is_change { "change" } else { "access" }
}

fn append_source(o: &mut Object, record: &Record) {
    o.object("source", |o| {
        o.text("address", if record.ip.is_empty() { record.host } else { record.ip });
        o.text("domain", record.host);
        o.text("ip", record.ip);
        o.number("port", record.port.map(u64::from));
    });
}

/// The position of each field.
pub const fn place(field: Field) -> Place {
    match field {
        Field::seq => Place::In("event.sequence"),
        Field::ts => Place::In("@timestamp"),
        Field::user => Place::In("user.name"),
        Field::priv_user => Place::In("user.effective.name"),
        Field::host => Place::In("source.domain"),
        Field::ip => Place::In("source.ip"),
        Field::port => Place::In("source.port"),
        Field::errno => Place::In("error.code"),
        Field::error => Place::In("error.message"),
        Field::start_ts => Place::In("message"),
        Field::server => Place::In("service.version"),
        Field::event
        | Field::outcome
        | Field::run
        | Field::conn
        | Field::conn_seq
        | Field::query_id
        | Field::proxy_user
        | Field::os_user
        | Field::db
        | Field::command
        | Field::sql_command
        | Field::sqlstate
        | Field::blocked_by
        | Field::sql
        | Field::sql_bytes
        | Field::params
        | Field::params_bytes
        | Field::first_byte_us
        | Field::bytes_sent
        | Field::warnings
        | Field::last_insert_id
        | Field::info
        | Field::sql_redacted
        | Field::digest
        | Field::rewrite_rule
        | Field::rewritten_query
        | Field::tables
        | Field::rows_sent
        | Field::rows_examined
        | Field::rows_affected
        | Field::query_time_us
        | Field::lock_time_us
        | Field::running_seq
        | Field::count
        | Field::cause
        | Field::signing_key
        | Field::program
        | Field::tls
        | Field::source
        | Field::server_addr
        | Field::session
        | Field::lost_bytes
        | Field::lost_packets
        | Field::client_version
        | Field::variable
        | Field::old_value
        | Field::new_value
        | Field::class
        | Field::action
        | Field::object
        | Field::producer
        | Field::detail
        | Field::detail_bytes
        | Field::attributes => Place::Extension,
        Field::sql_charset => Place::Nowhere,
    }
}
