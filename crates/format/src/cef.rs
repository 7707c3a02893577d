//! ArcSight's Common Event Format, version 0.
//!
//! `CEF:0|vendor|product|version|class|name|severity|key=value …`. Source: "Implementing ArcSight
//! Common Event Format (CEF)", Micro Focus Security ArcSight, version 26: in the header `|` and `\`
//! are escaped, in the extension `=`, `\` and line ends. It has no escape for other control
//! characters: they are replaced by visible text.

use tacho_record::time::TimeFormatter;
use tacho_record::{EventKind, Field, Record};

use crate::Formatter;
use crate::escape::{Escape, hex, is_control, name, rewritten, sql};
use crate::place::Place;
use crate::words::{
    PRODUCT, VERSION, end_us, has_sentence, number, sentence, severity, status, tables,
};

/// A field of the header.
struct Header;

impl Escape for Header {
    fn is_special(byte: u8) -> bool {
        is_control(byte) || byte == b'|' || byte == b'\\'
    }

    fn append(out: &mut Vec<u8>, rest: &[u8]) -> usize {
        if is_control(rest[0]) {
            out.push(b' ');
        } else {
            out.extend_from_slice(&[b'\\', rest[0]]);
        }
        1
    }
}

/// A value of the extension.
struct Value;

impl Escape for Value {
    fn is_special(byte: u8) -> bool {
        is_control(byte) || byte == b'=' || byte == b'\\'
    }

    fn append(out: &mut Vec<u8>, rest: &[u8]) -> usize {
        match rest[0] {
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.push(b'\t'),
            byte if is_control(byte) => {
                // An escaped backslash: a reader displays `\x1b`.
                out.extend_from_slice(b"\\\\x");
                hex(out, byte, b"0123456789abcdef");
            }
            byte => out.extend_from_slice(&[b'\\', byte]),
        }
        1
    }
}

/// ` key=value`.
fn field(out: &mut Vec<u8>, key: &str, append: impl FnOnce(&mut Vec<u8>)) {
    out.push(b' ');
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

/// A custom field and its label.
fn custom(out: &mut Vec<u8>, key: &str, label: &str, append: impl FnOnce(&mut Vec<u8>)) {
    field(out, key, append);
    out.push(b' ');
    out.extend_from_slice(key.as_bytes());
    out.extend_from_slice(b"Label=");
    out.extend_from_slice(label.as_bytes());
}

/// A custom text and its label, if there is a text.
fn custom_name(out: &mut Vec<u8>, key: &str, label: &str, value: &[u8]) {
    if !value.is_empty() {
        custom(out, key, label, |out| name::<Value>(out, value));
    }
}

/// A custom number and its label, if there is a number.
fn custom_number(out: &mut Vec<u8>, key: &str, label: &str, value: Option<u64>) {
    if let Some(value) = value {
        custom(out, key, label, |out| number(out, value));
    }
}

pub fn write(by: &Formatter, out: &mut Vec<u8>, record: &Record, clock: &mut TimeFormatter) {
    let Some(event) = record.event else { return };
    let class = if record.sql_command.is_empty() || event != EventKind::Statement {
        event.name().as_bytes()
    } else {
        record.sql_command
    };
    out.extend_from_slice(b"CEF:0|");
    for part in [PRODUCT, "tacho", VERSION, event.name()] {
        out.extend_from_slice(part.as_bytes());
        out.push(b'|');
    }
    name::<Header>(out, class);
    out.push(b'|');
    number(out, severity(record, event));
    // The key that every line has begins the extension, without a leading blank.
    out.extend_from_slice(b"|rt=");
    number(out, record.ts_us.max(0).unsigned_abs() / 1000);
    count(out, "externalId", Some(record.seq));
    text(out, "dvchost", &by.server_host);
    text(out, "suser", record.user);
    text(out, "duser", record.priv_user);
    text(out, "shost", record.host);
    text(out, "src", record.ip);
    count(out, "spt", record.port.map(u64::from));
    text(out, "act", record.command);
    if let Some(outcome) = record.outcome {
        field(out, "outcome", |out| out.extend_from_slice(outcome.name().as_bytes()));
    }
    if status(record) != 0 {
        count(out, "reason", Some(u64::from(status(record))));
    }
    if record.query_time_us.is_some() {
        count(out, "start", Some(record.ts_us.max(0).unsigned_abs() / 1000));
        count(out, "end", Some(end_us(record).max(0).unsigned_abs() / 1000));
    }
    append_custom(out, record);
    if has_sentence(event) {
        field(out, "msg", |out| sentence::<Value>(out, record, clock));
    } else {
        text(out, "msg", record.error);
    }
    out.push(b'\n');
}

fn append_custom(out: &mut Vec<u8>, record: &Record) {
    if record.sql.is_some() {
        custom(out, "cs1", "sql", |out| sql::<Value>(out, record));
    }
    custom_name(out, "cs2", "db", record.db);
    if !record.tables.is_empty() {
        custom(out, "cs3", "tables", |out| tables::<Value>(out, record.tables));
    }
    custom_name(out, "cs4", "sqlstate", record.sqlstate);
    custom_name(out, "cs5", "os_user", record.os_user);
    // There are six: the last is for what the begin and end of a session have, or else for a
    // statement.
    if record.proxy_user.is_empty() {
        custom_name(out, "cs6", "digest", record.digest);
    } else {
        custom_name(out, "cs6", "proxy_user", record.proxy_user);
    }
    // These are also for fields without another key.
    custom_number(out, "flexNumber1", "rewrite_rule", record.rewrite_rule);
    if record.rewritten_query.is_some() {
        custom(out, "flexString1", "rewritten_query", |out| rewritten::<Value>(out, record));
    }
    custom_name(out, "flexString2", "blocked_by", record.blocked_by);
    custom_number(out, "cn1", "conn", record.conn);
    custom_number(out, "cn2", "query_time_us", record.query_time_us);
    // There are three: rows changed, otherwise rows sent or records lost.
    if let Some(rows) = record.rows_affected {
        custom_number(out, "cn3", "rows_affected", Some(rows));
    } else if let Some(rows) = record.rows_sent {
        custom_number(out, "cn3", "rows_sent", Some(rows));
    } else {
        custom_number(out, "cn3", "count", record.count);
    }
}

/// The position of each field.
pub const fn place(field: Field) -> Place {
    match field {
        Field::seq => Place::In("externalId"),
        Field::ts => Place::In("rt"),
        Field::event => Place::In("name"),
        Field::outcome => Place::In("outcome"),
        Field::conn => Place::In("cn1"),
        Field::user => Place::In("suser"),
        Field::priv_user => Place::In("duser"),
        Field::proxy_user | Field::digest => Place::In("cs6"),
        Field::os_user => Place::In("cs5"),
        Field::host => Place::In("shost"),
        Field::ip => Place::In("src"),
        Field::port => Place::In("spt"),
        Field::db => Place::In("cs2"),
        Field::command => Place::In("act"),
        Field::sql_command => Place::In("class"),
        Field::errno => Place::In("reason"),
        Field::sqlstate => Place::In("cs4"),
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
        Field::blocked_by => Place::In("flexString2"),
        Field::sql => Place::In("cs1"),
        Field::rewrite_rule => Place::In("flexNumber1"),
        Field::rewritten_query => Place::In("flexString1"),
        Field::tables => Place::In("cs3"),
        Field::rows_sent | Field::rows_affected | Field::count => Place::In("cn3"),
        Field::query_time_us => Place::In("cn2"),
        Field::run
        | Field::conn_seq
        | Field::query_id
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
        | Field::rows_examined
        | Field::lock_time_us
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
            outcome: Some(Outcome::Error),
            conn: Some(7),
            user: b"a=b|c\\",
            db: b"shop",
            command: b"Query",
            sql_command: b"sel|ect\n",
            errno: 1146,
            error: b"no\ntable",
            blocked_by: b"no=drops",
            sql: Some(b"SELECT a=1\r\n\x1b"),
            sql_charset: b"utf8mb4",
            digest: b"1:00ff",
            rewrite_rule: Some(3),
            rewritten_query: Some(b"SELECT b=2\n"),
            rows_sent: Some(0),
            ..Record::default()
        };
        let mut out = Vec::new();
        let mut by = Formatter::new(Format::Cef, "db1");
        by.write(&mut out, &record, &mut TimeFormatter::utc());
        assert_eq!(
            String::from_utf8(out).unwrap(),
            concat!(
                "CEF:0|Tachograph|tacho|",
                env!("CARGO_PKG_VERSION"),
                r"|statement|sel\|ect |4|rt=1795319366500 externalId=5 dvchost=db1 ",
                r"suser=a\=b|c\\ act=Query outcome=error reason=1146 ",
                r"cs1=SELECT a\=1\r\n\\x1b cs1Label=sql cs2=shop cs2Label=db ",
                r"cs6=1:00ff cs6Label=digest ",
                r"flexNumber1=3 flexNumber1Label=rewrite_rule ",
                r"flexString1=SELECT b\=2\n flexString1Label=rewritten_query ",
                r"flexString2=no\=drops flexString2Label=blocked_by ",
                r"cn1=7 cn1Label=conn cn3=0 cn3Label=rows_sent msg=no\ntable",
                "\n"
            )
        );
    }
}
