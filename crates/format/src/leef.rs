//! QRadar's Log Event Extended Format 2.0.
//!
//! `LEEF:2.0|vendor|product|version|event|delimiter|key=value…`, here with the tab as delimiter.
//! Source: "IBM QRadar Log Event Extended Format (LEEF)", version 2. It has no escapes: `|` is not
//! permitted in the header, the delimiter and line ends are not permitted in a value. They become
//! `\t`, `\n` and so on, and a backslash becomes two, so that the original value can be recovered.

use tacho_record::time::TimeFormatter;
use tacho_record::{EventKind, Field, Record};

use crate::Formatter;
use crate::escape::{Escape, backslash, is_control, name, rewritten, sql};
use crate::place::Place;
use crate::words::{PRODUCT, VERSION, has_sentence, number, sentence, severity, status, tables};

struct Header;

impl Escape for Header {
    fn is_special(byte: u8) -> bool {
        is_control(byte) || byte == b'|'
    }

    fn append(out: &mut Vec<u8>, _rest: &[u8]) -> usize {
        out.push(b'_');
        1
    }
}

struct Value;

impl Escape for Value {
    fn is_special(byte: u8) -> bool {
        is_control(byte) || byte == b'\\'
    }

    fn append(out: &mut Vec<u8>, rest: &[u8]) -> usize {
        backslash(out, rest[0]);
        1
    }
}

/// A category for searches in QRadar.
fn category(event: EventKind) -> &'static str {
    match event {
        EventKind::Connect
        | EventKind::Disconnect
        | EventKind::ChangeUser
        | EventKind::ConnectFailed => "session",
        EventKind::Statement | EventKind::Table => "statement",
        EventKind::Lost
        | EventKind::Start
        | EventKind::Stop
        | EventKind::Config
        | EventKind::Notice => "audit",
    }
}

fn field(out: &mut Vec<u8>, key: &str, append: impl FnOnce(&mut Vec<u8>)) {
    out.push(b'\t');
    out.extend_from_slice(key.as_bytes());
    out.push(b'=');
    append(out);
}

fn text(out: &mut Vec<u8>, key: &str, value: &[u8]) {
    if !value.is_empty() {
        field(out, key, |out| name::<Value>(out, value));
    }
}

fn count(out: &mut Vec<u8>, key: &str, value: Option<u64>) {
    if let Some(value) = value {
        field(out, key, |out| number(out, value));
    }
}

pub fn write(by: &Formatter, out: &mut Vec<u8>, record: &Record, clock: &mut TimeFormatter) {
    let Some(event) = record.event else { return };
    out.extend_from_slice(b"LEEF:2.0|");
    for part in [PRODUCT, "tacho", VERSION] {
        out.extend_from_slice(part.as_bytes());
        out.push(b'|');
    }
    out.extend_from_slice(event.name().as_bytes());
    if event == EventKind::Statement && !record.sql_command.is_empty() {
        out.push(b':');
        name::<Header>(out, record.sql_command);
    }
    // Without a `devTimeFormat` the time is in ms since 1970.
    out.extend_from_slice(b"|x09|devTime=");
    number(out, record.ts_us.max(0).unsigned_abs() / 1000);
    field(out, "cat", |out| out.extend_from_slice(category(event).as_bytes()));
    count(out, "sev", Some(u64::from(severity(record, event))));
    text(out, "identHostName", &by.server_host);
    text(out, "usrName", record.user);
    text(out, "accountName", record.priv_user);
    text(out, "src", record.ip);
    count(out, "srcPort", record.port.map(u64::from));
    text(out, "srcHostName", record.host);
    count(out, "seq", Some(record.seq));
    if let Some(outcome) = record.outcome {
        field(out, "outcome", |out| out.extend_from_slice(outcome.name().as_bytes()));
    }
    count(out, "retcode", record.outcome.map(|_| u64::from(status(record))));
    count(out, "run", record.run);
    count(out, "conn", record.conn);
    count(out, "connSeq", record.conn_seq);
    count(out, "queryId", record.query_id);
    text(out, "db", record.db);
    text(out, "command", record.command);
    text(out, "sqlstate", record.sqlstate);
    text(out, "blockedBy", record.blocked_by);
    text(out, "osUser", record.os_user);
    text(out, "proxyUser", record.proxy_user);
    if record.sql.is_some() {
        field(out, "sql", |out| sql::<Value>(out, record));
    }
    text(out, "digest", record.digest);
    count(out, "rewriteRule", record.rewrite_rule);
    if record.rewritten_query.is_some() {
        field(out, "rewrittenQuery", |out| rewritten::<Value>(out, record));
    }
    if !record.tables.is_empty() {
        field(out, "tables", |out| tables::<Value>(out, record.tables));
    }
    count(out, "rowsSent", record.rows_sent);
    count(out, "rowsExamined", record.rows_examined);
    count(out, "rowsAffected", record.rows_affected);
    count(out, "queryTimeUs", record.query_time_us);
    count(out, "lockTimeUs", record.lock_time_us);
    count(out, "count", record.count);
    if has_sentence(event) {
        field(out, "msg", |out| sentence::<Value>(out, record, clock));
    } else {
        text(out, "msg", record.error);
    }
    out.push(b'\n');
}

/// The position of each field.
pub const fn place(field: Field) -> Place {
    match field {
        Field::seq => Place::In("seq"),
        Field::ts => Place::In("devTime"),
        Field::event | Field::sql_command => Place::In("event"),
        Field::outcome => Place::In("outcome"),
        Field::run => Place::In("run"),
        Field::conn => Place::In("conn"),
        Field::conn_seq => Place::In("connSeq"),
        Field::query_id => Place::In("queryId"),
        Field::user => Place::In("usrName"),
        Field::priv_user => Place::In("accountName"),
        Field::proxy_user => Place::In("proxyUser"),
        Field::os_user => Place::In("osUser"),
        Field::host => Place::In("srcHostName"),
        Field::ip => Place::In("src"),
        Field::port => Place::In("srcPort"),
        Field::db => Place::In("db"),
        Field::command => Place::In("command"),
        Field::errno => Place::In("retcode"),
        Field::sqlstate => Place::In("sqlstate"),
        Field::error
        | Field::start_ts
        | Field::cause
        | Field::server
        | Field::variable
        | Field::old_value
        | Field::new_value
        | Field::class
        | Field::action
        | Field::object
        | Field::producer
        | Field::detail
        | Field::attributes => Place::In("msg"),
        Field::blocked_by => Place::In("blockedBy"),
        Field::sql => Place::In("sql"),
        Field::digest => Place::In("digest"),
        Field::rewrite_rule => Place::In("rewriteRule"),
        Field::rewritten_query => Place::In("rewrittenQuery"),
        Field::tables => Place::In("tables"),
        Field::rows_sent => Place::In("rowsSent"),
        Field::rows_examined => Place::In("rowsExamined"),
        Field::rows_affected => Place::In("rowsAffected"),
        Field::query_time_us => Place::In("queryTimeUs"),
        Field::lock_time_us => Place::In("lockTimeUs"),
        Field::count => Place::In("count"),
        Field::sql_bytes
        | Field::params
        | Field::params_bytes
        | Field::first_byte_us
        | Field::bytes_sent
        | Field::warnings
        | Field::last_insert_id
        | Field::info
        | Field::sql_redacted
        | Field::sql_charset
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Format;
    use tacho_record::Outcome;

    #[test]
    fn a_statement() {
        let record = Record {
            seq: 5,
            ts_us: 1_795_319_366_500_000,
            event: Some(EventKind::Statement),
            outcome: Some(Outcome::Ok),
            conn: Some(7),
            user: b"a\tusrName=root",
            ip: b"10.0.0.7",
            command: b"Query",
            sql_command: b"sel|ect",
            sql: Some(b"SELECT '\\t\t'\n"),
            sql_charset: b"utf8mb4",
            digest: b"1:00ff",
            rewrite_rule: Some(3),
            rewritten_query: Some(b"SELECT\t2"),
            rows_sent: Some(0),
            ..Record::default()
        };
        let mut out = Vec::new();
        let mut by = Formatter::new(Format::Leef, "db1");
        by.write(&mut out, &record, &mut TimeFormatter::utc());
        assert_eq!(
            String::from_utf8(out).unwrap(),
            concat!(
                "LEEF:2.0|Tachograph|tacho|",
                env!("CARGO_PKG_VERSION"),
                "|statement:sel_ect|x09|devTime=1795319366500\tcat=statement\tsev=1\t",
                "identHostName=db1\tusrName=a\\tusrName=root\tsrc=10.0.0.7\tseq=5\toutcome=ok\t",
                "retcode=0\tconn=7\tcommand=Query\tsql=SELECT '\\\\t\\t'\\n\t",
                "digest=1:00ff\trewriteRule=3\trewrittenQuery=SELECT\\t2\trowsSent=0\n"
            )
        );
    }
}
