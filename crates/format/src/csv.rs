//! MariaDB's server_audit, in the form that it writes to a file.
//!
//! `timestamp,serverhost,username,host,connectionid,queryid,operation,database,object,retcode`.
//! Source: `plugin/server_audit/server_audit.c` of MariaDB 10.11 (`log_header`, `log_connection`,
//! `log_proxy`, `log_statement_ex`, `log_table`, `log_rename`), and its own output beside ours in
//! `tests/mariadb/server_audit.rs`. It escapes statements and nothing else; here names are escaped,
//! too, because the client chooses the user name.

use tacho_record::time::{TIME_BYTES, TimeFormatter};
use tacho_record::{EventKind, Field, Outcome, Record, TableAccess, TableUse};

use crate::Formatter;
use crate::escape::{Escape, backslash, is_control, name, sql};
use crate::place::Place;
use crate::words::{end_us, has_sentence, host, is_said_elsewhere, number, sentence, status};

/// Inside `'…'`.
struct Quoted;

impl Escape for Quoted {
    fn is_special(byte: u8) -> bool {
        is_control(byte) || byte == b'\'' || byte == b'\\'
    }

    fn append(out: &mut Vec<u8>, rest: &[u8]) -> usize {
        backslash(out, rest[0]);
        1
    }
}

/// A field without quotes: commas in it are escaped.
struct Bare;

impl Escape for Bare {
    fn is_special(byte: u8) -> bool {
        Quoted::is_special(byte) || byte == b','
    }

    fn append(out: &mut Vec<u8>, rest: &[u8]) -> usize {
        Quoted::append(out, rest)
    }
}

/// A part of a field that has `|`, `.` or backquotes as separators.
struct Part;

impl Escape for Part {
    fn is_special(byte: u8) -> bool {
        Bare::is_special(byte) || matches!(byte, b'|' | b'.' | b'`')
    }

    fn append(out: &mut Vec<u8>, rest: &[u8]) -> usize {
        Quoted::append(out, rest)
    }
}

pub fn write(by: &Formatter, out: &mut Vec<u8>, record: &Record, clock: &mut TimeFormatter) {
    let Some(event) = record.event else { return };
    for used in record.tables {
        append_table(by, out, record, used, clock);
    }
    match event {
        EventKind::Table => {}
        EventKind::Connect => {
            append_connection(by, out, record, "CONNECT", clock);
            if !record.proxy_user.is_empty() && record.errno == 0 {
                append_proxy(by, out, record, clock);
            }
        }
        EventKind::ConnectFailed => append_connection(by, out, record, "FAILED_CONNECT", clock),
        EventKind::Disconnect => append_connection(by, out, record, "DISCONNECT", clock),
        EventKind::ChangeUser => append_connection(by, out, record, "CHANGEUSER", clock),
        EventKind::Statement if is_said_elsewhere(record) => {}
        EventKind::Statement => append_statement(by, out, record, clock),
        EventKind::Lost
        | EventKind::Start
        | EventKind::Stop
        | EventKind::Config
        | EventKind::Notice => {
            debug_assert!(has_sentence(event));
            append_recorder(by, out, record, event, clock);
        }
    }
}

/// Everything up to and including `operation`.
fn append_header(
    by: &Formatter,
    out: &mut Vec<u8>,
    record: &Record,
    operation: &str,
    time: &[u8; TIME_BYTES],
) {
    // 2026-11-22T03:49:26 to 20261122 03:49:26.
    for part in [&time[0..4], &time[5..7], &time[8..10], b" ", &time[11..19], b","] {
        out.extend_from_slice(part);
    }
    name::<Bare>(out, &by.server_host);
    out.push(b',');
    name::<Bare>(out, record.user);
    out.push(b',');
    name::<Bare>(out, host(record));
    out.push(b',');
    number(out, record.conn.unwrap_or(0));
    out.push(b',');
    number(out, record.query_id.unwrap_or(0));
    out.push(b',');
    out.extend_from_slice(operation.as_bytes());
}

/// The rest of a line after its object.
fn append_retcode(out: &mut Vec<u8>, retcode: Option<u32>) {
    out.push(b',');
    if let Some(retcode) = retcode {
        number(out, retcode);
    }
    out.push(b'\n');
}

fn append_database(out: &mut Vec<u8>, db: &[u8]) {
    out.push(b',');
    name::<Bare>(out, db);
    out.push(b',');
}

fn append_connection(
    by: &Formatter,
    out: &mut Vec<u8>,
    record: &Record,
    operation: &str,
    clock: &mut TimeFormatter,
) {
    append_header(by, out, record, operation, clock.format(record.ts_us));
    append_database(out, record.db);
    // The original has no reason for the end of a session.
    let has_reason = record.event != Some(EventKind::Disconnect);
    append_retcode(out, Some(if has_reason { record.errno } else { 0 }));
}

/// The account that grants the privileges. Its host is not in our log.
fn append_proxy(by: &Formatter, out: &mut Vec<u8>, record: &Record, clock: &mut TimeFormatter) {
    append_header(by, out, record, "PROXY_CONNECT", clock.format(record.ts_us));
    append_database(out, record.db);
    out.push(b'`');
    name::<Part>(out, record.priv_user);
    out.extend_from_slice(b"`@``");
    append_retcode(out, Some(record.errno));
}

fn append_statement(by: &Formatter, out: &mut Vec<u8>, record: &Record, clock: &mut TimeFormatter) {
    let is_query = match record.command {
        b"Query" | b"Execute" => true,
        b"Prepare" => record.errno != 0,
        _ => false,
    };
    let (operation, retcode) = match record.outcome {
        Some(Outcome::Running) => ("RUNNING", None),
        Some(Outcome::Interrupted) => ("INTERRUPTED", Some(status(record))),
        _ if is_query => ("QUERY", Some(record.errno)),
        _ => ("COMMAND", Some(record.errno)),
    };
    append_header(by, out, record, operation, clock.format(end_us(record)));
    append_database(out, record.db);
    out.push(b'\'');
    if !is_query {
        name::<Quoted>(out, record.command);
        if record.sql.is_some() {
            out.extend_from_slice(b": ");
        }
    }
    sql::<Quoted>(out, record);
    out.push(b'\'');
    append_retcode(out, retcode);
}

fn append_table(
    by: &Formatter,
    out: &mut Vec<u8>,
    record: &Record,
    used: &TableUse,
    clock: &mut TimeFormatter,
) {
    let operation = match used.access {
        TableAccess::Read => "READ",
        TableAccess::Write => "WRITE",
        TableAccess::Create => "CREATE",
        TableAccess::Drop => "DROP",
        TableAccess::Rename => "RENAME",
        TableAccess::Alter => "ALTER",
    };
    append_header(by, out, record, operation, clock.format(record.ts_us));
    append_database(out, used.db);
    if used.access == TableAccess::Rename {
        name::<Part>(out, used.table);
        out.push(b'|');
        name::<Part>(out, used.new_db);
        out.push(b'.');
        name::<Part>(out, used.new_table);
    } else {
        name::<Bare>(out, used.table);
    }
    append_retcode(out, None);
}

fn append_recorder(
    by: &Formatter,
    out: &mut Vec<u8>,
    record: &Record,
    event: EventKind,
    clock: &mut TimeFormatter,
) {
    let operation = match event {
        EventKind::Lost => "AUDIT_LOST",
        EventKind::Start => "AUDIT_START",
        EventKind::Stop => "AUDIT_STOP",
        EventKind::Notice => "AUDIT_NOTICE",
        _ => "AUDIT_CONFIG",
    };
    append_header(by, out, record, operation, clock.format(record.ts_us));
    append_database(out, record.db);
    if event == EventKind::Config {
        // As in MariaDB Enterprise's server_audit2.
        name::<Bare>(out, record.variable);
        out.push(b'=');
        name::<Bare>(out, record.new_value);
    } else {
        out.push(b'\'');
        sentence::<Quoted>(out, record, clock);
        out.push(b'\'');
    }
    append_retcode(out, Some(0));
}

/// The position of each field.
pub const fn place(field: Field) -> Place {
    match field {
        Field::ts | Field::query_time_us => Place::In("timestamp"),
        Field::event | Field::outcome | Field::proxy_user => Place::In("operation"),
        Field::conn => Place::In("connectionid"),
        Field::query_id => Place::In("queryid"),
        Field::user => Place::In("username"),
        Field::priv_user
        | Field::command
        | Field::sql
        | Field::tables
        | Field::start_ts
        | Field::count
        | Field::cause
        | Field::server
        | Field::variable
        | Field::new_value
        | Field::class
        | Field::action
        | Field::object
        | Field::producer
        | Field::detail
        | Field::attributes => Place::In("object"),
        Field::host | Field::ip => Place::In("host"),
        Field::db => Place::In("database"),
        Field::errno => Place::In("retcode"),
        Field::seq
        | Field::run
        | Field::conn_seq
        | Field::os_user
        | Field::port
        | Field::sql_command
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
        | Field::rows_sent
        | Field::rows_examined
        | Field::rows_affected
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
        | Field::old_value
        | Field::detail_bytes => Place::Nowhere,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Format;

    fn lines(record: &Record) -> String {
        let mut out = Vec::new();
        let mut by = Formatter::new(Format::Csv, "db1");
        by.write(&mut out, record, &mut TimeFormatter::utc());
        String::from_utf8(out).unwrap()
    }

    /// 2026-11-22T03:49:26.5 UTC.
    const TS_US: i64 = 1_795_319_366_500_000;

    fn base() -> Record<'static> {
        Record {
            seq: 1,
            ts_us: TS_US,
            event: Some(EventKind::Statement),
            outcome: Some(Outcome::Ok),
            conn: Some(7),
            query_id: Some(9),
            user: b"app",
            host: b"web1",
            ip: b"10.0.0.7",
            db: b"shop",
            command: b"Query",
            sql: Some(b"SELECT 'a',\n\"b\\\" /* \x1b */"),
            sql_charset: b"utf8mb4",
            ..Record::default()
        }
    }

    #[test]
    fn a_statement_with_its_tables() {
        let used = |access, table, new_db, new_table| TableUse {
            access,
            db: b"shop",
            table,
            new_db,
            new_table,
        };
        let tables = [
            used(TableAccess::Read, b"t,1", b"", b""),
            used(TableAccess::Rename, b"a.b", b"d|e", b"c"),
        ];
        let record = Record {
            tables: &tables,
            errno: 1146,
            outcome: Some(Outcome::Error),
            query_time_us: Some(500_000),
            ..base()
        };
        assert_eq!(
            lines(&record),
            concat!(
                "20261122 03:49:26,db1,app,web1,7,9,READ,shop,t\\x2c1,\n",
                "20261122 03:49:26,db1,app,web1,7,9,RENAME,shop,a\\x2eb|d\\x7ce.c,\n",
                "20261122 03:49:27,db1,app,web1,7,9,QUERY,shop,",
                r#"'SELECT \'a\',\n"b\\" /* \x1b */',1146"#,
                "\n"
            )
        );
    }

    #[test]
    fn names_cannot_break_a_line() {
        let record = Record {
            event: Some(EventKind::ConnectFailed),
            user: b"a,b'\n\\",
            host: b"",
            errno: 1045,
            query_id: None,
            db: b"",
            ..base()
        };
        assert_eq!(
            lines(&record),
            "20261122 03:49:26,db1,a\\x2cb\\'\\n\\\\,10.0.0.7,7,0,FAILED_CONNECT,,,1045\n"
        );
    }

    #[test]
    fn a_proxied_session_has_a_line_for_the_proxy() {
        let record = Record {
            event: Some(EventKind::Connect),
            proxy_user: b"'worker'@'%'",
            priv_user: b"o'd`",
            query_id: None,
            ..base()
        };
        assert_eq!(
            lines(&record),
            concat!(
                "20261122 03:49:26,db1,app,web1,7,0,CONNECT,shop,,0\n",
                "20261122 03:49:26,db1,app,web1,7,0,PROXY_CONNECT,shop,`o\\'d\\x60`@``,0\n"
            )
        );
    }

    #[test]
    fn fields_without_a_name_in_the_original_are_written() {
        let of = |record: &Record| {
            let line = lines(record);
            line.splitn(7, ',').last().unwrap().to_owned()
        };
        let ended = |outcome| Record { outcome: Some(outcome), sql: Some(b"x"), ..base() };
        assert_eq!(of(&ended(Outcome::Running)), "RUNNING,shop,'x',\n");
        assert_eq!(of(&ended(Outcome::Interrupted)), "INTERRUPTED,shop,'x',2013\n");
        let ping = Record { command: b"Ping", sql: None, ..base() };
        assert_eq!(of(&ping), "COMMAND,shop,'Ping',0\n");
        let init = Record { command: b"Init DB", sql: Some(b"d"), ..base() };
        assert_eq!(of(&init), "COMMAND,shop,'Init DB: d',0\n");
        assert_eq!(lines(&Record { command: b"Quit", sql: None, ..base() }), "");
        let recorder = Record { seq: 1, ts_us: TS_US, ..Record::default() };
        let lost = Record {
            event: Some(EventKind::Lost),
            count: Some(5),
            cause: b"dropped",
            ..recorder.clone()
        };
        assert_eq!(
            of(&lost),
            "AUDIT_LOST,,'5 records lost, cause dropped to 2026-11-22T03:49:26.500000+00:00',0\n"
        );
        let config = Record {
            event: Some(EventKind::Config),
            variable: b"tacho_logging",
            new_value: b"OFF",
            ..recorder
        };
        assert_eq!(of(&config), "AUDIT_CONFIG,,tacho_logging=OFF,0\n");
    }
}
