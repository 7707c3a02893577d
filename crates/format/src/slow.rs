//! MariaDB's slow query log, with its extended header.
//!
//! Source: `sql/log.cc` of MariaDB 10.11 (`MYSQL_QUERY_LOG::write`); readers are `pt-query-digest`
//! (Percona Toolkit 3.2, SlowLogParser) and `mariadb-dumpslow`. Both treat a line that begins with
//! `#` as a header anywhere, and ignore lines that look like the beginning of the file. The server
//! writes statements unchanged, so such a line in a statement confuses them; here it gets a blank
//! before it.

use tacho_record::charset::{Charset, TextSink};
use tacho_record::time::TimeFormatter;
use tacho_record::{EventKind, Field, Outcome, Record};

use crate::Formatter;
use crate::escape::{Escape, backslash, is_control, name};
use crate::place::Place;
use crate::words::{end_us, number, seconds};

/// A name in a header: without blanks, because another name may follow.
struct Name;

impl Escape for Name {
    fn is_special(byte: u8) -> bool {
        is_control(byte) || byte == b' '
    }

    fn append(out: &mut Vec<u8>, rest: &[u8]) -> usize {
        backslash(out, rest[0]);
        1
    }
}

/// A name in backquotes, on one line and without the end of a statement in it.
struct Quoted;

impl Escape for Quoted {
    fn is_special(byte: u8) -> bool {
        is_control(byte) || matches!(byte, b'`' | b';')
    }

    fn append(out: &mut Vec<u8>, rest: &[u8]) -> usize {
        backslash(out, rest[0]);
        1
    }
}

/// Whether the server's slow log could have the statement of this record: it has ended, with a
/// time, as text or as an execution. Pings and similar commands are not in the slow log of 10.11.
fn is_statement(record: &Record) -> bool {
    record.event == Some(EventKind::Statement)
        && matches!(record.command, b"Query" | b"Execute")
        && matches!(record.outcome, Some(Outcome::Ok | Outcome::Error))
}

/// Appends the statement if it has ended: only then does it have a time.
pub fn write(by: &mut Formatter, out: &mut Vec<u8>, record: &Record, clock: &mut TimeFormatter) {
    let Some(query_time_us) = record.query_time_us else { return };
    if !is_statement(record) {
        return;
    }
    append_header(out, record, query_time_us, clock);
    append_use(by, out, record);
    // The start, as in the server's log; the header has the end.
    out.extend_from_slice(b"SET timestamp=");
    number(out, record.ts_us.max(0).unsigned_abs() / 1_000_000);
    out.extend_from_slice(b";\n");
    append_text(out, record);
    out.push(b'\n');
}

fn append_header(
    out: &mut Vec<u8>,
    record: &Record,
    query_time_us: u64,
    clock: &mut TimeFormatter,
) {
    // 2026-11-22T03:49:26 to 261122  3:49:26.
    let time = clock.format(end_us(record));
    let hour = if time[11] == b'0' { [b' ', time[12]] } else { [time[11], time[12]] };
    for part in
        [&b"# Time: "[..], &time[2..4], &time[5..7], &time[8..10], b" ", &hour, &time[13..19]]
    {
        out.extend_from_slice(part);
    }
    out.extend_from_slice(b"\n# User@Host: ");
    let account = [(record.priv_user, &b"["[..]), (record.user, b"] @ "), (record.host, b" [")];
    for (value, after) in account {
        name::<Name>(out, value);
        out.extend_from_slice(after);
    }
    name::<Name>(out, record.ip);
    out.extend_from_slice(b"]\n# Thread_id: ");
    number(out, record.conn.unwrap_or(0));
    out.extend_from_slice(b"  Schema: ");
    name::<Name>(out, record.db);
    out.extend_from_slice(b"  QC_hit: No\n# Query_time: ");
    seconds(out, query_time_us);
    out.extend_from_slice(b"  Lock_time: ");
    seconds(out, record.lock_time_us.unwrap_or(0));
    for (key, value) in [
        ("  Rows_sent: ", record.rows_sent),
        ("  Rows_examined: ", record.rows_examined),
        ("\n# Rows_affected: ", record.rows_affected),
    ] {
        out.extend_from_slice(key.as_bytes());
        // mariadb-dumpslow requires all of them.
        number(out, value.unwrap_or(0));
    }
    if let Some(bytes) = record.bytes_sent {
        out.extend_from_slice(b"  Bytes_sent: ");
        number(out, bytes);
    }
    out.push(b'\n');
}

/// The default database, if it has changed.
fn append_use(by: &mut Formatter, out: &mut Vec<u8>, record: &Record) {
    if record.db.is_empty() || by.slow_db == record.db {
        return;
    }
    // The server always quotes; mariadb-dumpslow treats a quoted name as a part of the statement.
    let quote: &[u8] = if record.db.iter().all(is_word) { b"" } else { b"`" };
    for part in [b"use ", quote] {
        out.extend_from_slice(part);
    }
    name::<Quoted>(out, record.db);
    for part in [quote, b";\n"] {
        out.extend_from_slice(part);
    }
    by.slow_db.clear();
    by.slow_db.extend_from_slice(record.db);
}

fn is_word(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || *byte == b'_'
}

/// Appends the statement and its semicolon.
fn append_text(out: &mut Vec<u8>, record: &Record) {
    let Some(sql) = record.sql.filter(|sql| !sql.is_empty()) else {
        // Without any text pt-query-digest would treat the next header as the statement.
        out.extend_from_slice(b"/* No query */;");
        return;
    };
    let start = out.len();
    let charset = record.text_charset().unwrap_or(Charset::BINARY);
    let mut sink = Raw(out);
    // The log has the original bytes; these tools need text.
    let _fidelity = charset.decode(sql, &mut sink);
    guard(out, start);
    if !out.ends_with(b";") {
        out.push(b';');
    }
}

/// Unchanged text.
struct Raw<'a>(&'a mut Vec<u8>);

impl TextSink for Raw<'_> {
    fn text(&mut self, utf8: &[u8]) {
        self.0.extend_from_slice(utf8);
    }

    fn character(&mut self, character: char) {
        self.0.character(character);
    }
}

/// Puts a blank before each line of the text from `start` on that would be misread. Most texts have
/// no such line, so nothing is moved.
fn guard(out: &mut Vec<u8>, start: usize) {
    let looks_bad = |index: usize, line: &[u8]| is_misleading(line, index == 0);
    if !out[start..].split(|byte| *byte == b'\n').enumerate().any(|(i, line)| looks_bad(i, line)) {
        return;
    }
    let text = out.split_off(start);
    for (index, line) in text.split(|byte| *byte == b'\n').enumerate() {
        if index > 0 {
            out.push(b'\n');
        }
        if looks_bad(index, line) {
            out.push(b' ');
        }
        out.extend_from_slice(line);
    }
}

/// Whether one of the programs would treat the line as a header, or discard it: their own
/// conditions, slightly extended.
fn is_misleading(line: &[u8], is_first: bool) -> bool {
    let begins = |word: &str| {
        line.get(..word.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(word.as_bytes()))
    };
    let has = |word: &str| line.windows(word.len()).any(|window| window == word.as_bytes());
    let is_setting = || {
        let names = ["timestamp", "insert_id", "last_insert_id"];
        begins("use ") || names.iter().any(|name| begins(&["set ", name].concat()))
    };
    // The three lines at the beginning of a server's file.
    let is_start = || {
        begins("tcp port")
            || begins("time") && has("Id") && has("Command")
            || has("Version") && (has("started with") || has("embedded library"))
    };
    begins("#") || is_first && is_setting() || is_start()
}

/// The position of each field.
pub const fn place(field: Field) -> Place {
    match field {
        Field::ts => Place::In("SET timestamp"),
        Field::conn => Place::In("Thread_id"),
        Field::user | Field::priv_user | Field::host | Field::ip => Place::In("User@Host"),
        Field::db => Place::In("Schema"),
        Field::sql => Place::In("statement"),
        Field::rows_sent => Place::In("Rows_sent"),
        Field::rows_examined => Place::In("Rows_examined"),
        Field::rows_affected => Place::In("Rows_affected"),
        Field::query_time_us => Place::In("Query_time"),
        Field::lock_time_us => Place::In("Lock_time"),
        Field::bytes_sent => Place::In("Bytes_sent"),
        Field::seq
        | Field::event
        | Field::outcome
        | Field::run
        | Field::conn_seq
        | Field::query_id
        | Field::proxy_user
        | Field::os_user
        | Field::port
        | Field::command
        | Field::sql_command
        | Field::errno
        | Field::sqlstate
        | Field::error
        | Field::blocked_by
        | Field::sql_bytes
        | Field::params
        | Field::params_bytes
        | Field::first_byte_us
        | Field::warnings
        | Field::last_insert_id
        | Field::info
        | Field::sql_redacted
        | Field::sql_charset
        | Field::digest
        | Field::rewrite_rule
        | Field::rewritten_query
        | Field::tables
        | Field::start_ts
        | Field::running_seq
        | Field::count
        | Field::cause
        | Field::server
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
        | Field::attributes => Place::Nowhere,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Format;

    fn base() -> Record<'static> {
        Record {
            seq: 5,
            ts_us: 1_795_319_365_900_000,
            event: Some(EventKind::Statement),
            outcome: Some(Outcome::Ok),
            conn: Some(7),
            user: b"app",
            priv_user: b"app",
            host: b"web1",
            ip: b"10.0.0.7",
            db: b"shop",
            command: b"Query",
            sql: Some(b"SELECT 1"),
            sql_charset: b"utf8mb4",
            rows_sent: Some(1),
            rows_examined: Some(2),
            query_time_us: Some(1_500_000),
            lock_time_us: Some(20),
            ..Record::default()
        }
    }

    fn lines(records: &[Record]) -> String {
        let mut out = Vec::new();
        let mut by = Formatter::new(Format::Slow, "db1");
        for record in records {
            by.write(&mut out, record, &mut TimeFormatter::utc());
        }
        String::from_utf8(out).unwrap()
    }

    const HEADER: &str = "# Time: 261122  3:49:27\n# User@Host: app[app] @ web1 [10.0.0.7]\n\
        # Thread_id: 7  Schema: shop  QC_hit: No\n\
        # Query_time: 1.500000  Lock_time: 0.000020  Rows_sent: 1  Rows_examined: 2\n\
        # Rows_affected: 0\n";
    const TIMESTAMP: &str = "SET timestamp=1795319365;\n";

    #[test]
    fn bytes_sent_are_behind_the_rows_if_they_are_known() {
        let captured = Record { bytes_sent: Some(60), db: b"", ..base() };
        let header = HEADER.replace("Schema: shop", "Schema: ");
        let header = header.replace("Rows_affected: 0", "Rows_affected: 0  Bytes_sent: 60");
        assert_eq!(lines(&[captured]), format!("{header}{TIMESTAMP}SELECT 1;\n"));
    }

    #[test]
    fn use_is_written_when_the_database_changes() {
        let execute = Record { command: b"Execute", ..base() };
        let odd = Record { db: b"o`d;\nd", ..base() };
        let odd_header = HEADER.replace("Schema: shop", "Schema: o`d;\\nd");
        assert_eq!(
            lines(&[base(), execute, odd]),
            format!(
                "{HEADER}use shop;\n{TIMESTAMP}SELECT 1;\n\
                 {HEADER}{TIMESTAMP}SELECT 1;\n\
                 {odd_header}use `o\\x60d\\x3b\\nd`;\n{TIMESTAMP}SELECT 1;\n"
            )
        );
    }

    #[test]
    fn a_statement_that_has_not_ended_has_no_time() {
        let interrupted =
            Record { outcome: Some(Outcome::Interrupted), query_time_us: None, ..base() };
        let connect = Record { event: Some(EventKind::Connect), ..base() };
        let ping = Record { command: b"Ping", sql: None, ..base() };
        assert_eq!(lines(&[interrupted, connect, ping]), "");
    }

    #[test]
    fn no_line_of_a_statement_looks_like_a_header() {
        let text = |sql| {
            let line = lines(&[Record { sql: Some(sql), ..base() }]);
            line.split_once(TIMESTAMP).unwrap().1.to_owned()
        };
        assert_eq!(text(b"SELECT 1;"), "SELECT 1;\n");
        assert_eq!(text(b""), "/* No query */;\n");
        assert_eq!(text(b"use shop"), " use shop;\n");
        assert_eq!(text(b"set timestamp=1"), " set timestamp=1;\n");
        assert_eq!(text(b"SET @a = 1\ntime, Version"), "SET @a = 1\ntime, Version;\n");
        assert_eq!(text(b"# x\nSELECT\n1"), " # x\nSELECT\n1;\n");
        assert_eq!(
            text(b"SELECT 1;\n# Time: 1\nuse x;\nTime  Id Command Argument\nTCP Port: 1\n\n"),
            "SELECT 1;\n # Time: 1\nuse x;\n Time  Id Command Argument\n TCP Port: 1\n\n;\n"
        );
        assert_eq!(
            text(b"a\n/x/mysqld, Version: 1 started with:"),
            "a\n /x/mysqld, Version: 1 started with:;\n"
        );
    }

    #[test]
    fn names_stay_in_their_place() {
        let odd = Record { user: b"a b] @ root [1\n# Time: ", db: b"d Query_time: 9", ..base() };
        let line = lines(&[odd]);
        assert!(line.contains("app[a\\x20b]\\x20@\\x20root\\x20[1\\n#\\x20Time:\\x20] @ web1 ["));
        assert!(line.contains("Schema: d\\x20Query_time:\\x209  QC_hit: No\n"));
    }
}
