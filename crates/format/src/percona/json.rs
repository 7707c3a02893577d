//! `audit_log_format = JSON`: one object per line.

use tacho_record::Record;
use tacho_record::time::TimeFormatter;

use super::{Kind, Style};
use crate::Formatter;
use crate::escape::{self, Escape};

/// Percona escapes `/`, too, and uses upper-case digits.
pub struct Text;

impl Escape for Text {
    fn is_special(byte: u8) -> bool {
        escape::Json::is_special(byte) || byte == b'/'
    }

    fn append(out: &mut Vec<u8>, rest: &[u8]) -> usize {
        escape::json(out, rest[0], b"0123456789ABCDEF");
        1
    }
}

struct Json;

impl Style for Json {
    type Text = Text;
    const HAS_FIGURES: bool = true;
    // The original has this spelling.
    const STARTUP_OPTIONS: &'static str = "startup_optionsi";

    fn open(out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"audit_record\":{");
    }

    fn close(out: &mut Vec<u8>) {
        out.extend_from_slice(b"}}\n");
    }

    fn field(out: &mut Vec<u8>, key: &str, kind: Kind, append: impl FnOnce(&mut Vec<u8>)) {
        if kind != Kind::First {
            out.push(b',');
        }
        out.push(b'"');
        out.extend_from_slice(key.as_bytes());
        out.extend_from_slice(b"\":");
        if kind == Kind::Number {
            append(out);
        } else {
            out.push(b'"');
            append(out);
            out.push(b'"');
        }
    }
}

pub fn write(by: &Formatter, out: &mut Vec<u8>, record: &Record, clock: &mut TimeFormatter) {
    super::write::<Json>(by, out, record, clock);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Format;
    use tacho_record::{EventKind, Outcome};

    fn line(record: &Record, clock: &mut TimeFormatter) -> String {
        let mut out = Vec::new();
        let mut by = Formatter::new(Format::PerconaJson, "db1");
        by.begin(&mut out, 0, clock);
        by.write(&mut out, record, clock);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn keys_come_in_the_order_of_the_original() {
        let record = Record {
            seq: 12,
            ts_us: 1_795_319_366_500_000,
            event: Some(EventKind::Statement),
            outcome: Some(Outcome::Ok),
            conn: Some(7),
            user: b"app",
            priv_user: b"account",
            host: b"web1",
            ip: b"10.0.0.7",
            db: b"shop",
            command: b"Query",
            sql_command: b"select",
            sql: Some(b"SELECT 1/2 -- \"\xE4\x0B"),
            sql_charset: b"latin1",
            rows_sent: Some(1),
            query_time_us: Some(1_500_000),
            lock_time_us: Some(20),
            ..Record::default()
        };
        assert_eq!(
            line(&record, &mut TimeFormatter::utc()),
            concat!(
                r#"{"audit_record":{"name":"Query","record":"12_1970-01-01T00:00:00","#,
                r#""timestamp":"2026-11-22T03:49:28 UTC","command_class":"select","#,
                r#""connection_id":"7","status":0,"sqltext":"SELECT 1\/2 -- \"ä\u000B","#,
                r#""examined_row":null,"sent_row":1,"Query_time":1.500000,"Lock_time":0.000020,"#,
                r#""user":"account[app] @ web1 [10.0.0.7]","host":"web1","os_user":"","#,
                r#""ip":"10.0.0.7","db":"shop"}}"#,
                "\n"
            )
        );
    }

    #[test]
    fn connections_and_the_server() {
        let mut berlin = TimeFormatter::named("Europe/Berlin").expect("tzdata");
        let failed = Record {
            seq: 3,
            ts_us: 1_795_319_366_500_000,
            event: Some(EventKind::ConnectFailed),
            outcome: Some(Outcome::Error),
            conn: Some(8),
            user: b"a\",b",
            os_user: b"jane",
            errno: 1045,
            ..Record::default()
        };
        assert_eq!(
            line(&failed, &mut berlin),
            concat!(
                r#"{"audit_record":{"name":"Connect","record":"3_1970-01-01T01:00:00","#,
                r#""timestamp":"2026-11-22T04:49:26+01:00","connection_id":"8","status":1045,"#,
                r#""user":"a\",b","priv_user":"","os_login":"jane","proxy_user":"","host":"","#,
                r#""ip":"","db":""}}"#,
                "\n"
            )
        );
        let start =
            Record { event: Some(EventKind::Start), server: b"MariaDB 10.11", ..Record::default() };
        let line = line(&start, &mut TimeFormatter::utc());
        assert!(line.contains(r#""name":"Audit""#), "{line}");
        assert!(line.contains(r#""mysql_version":"MariaDB 10.11","startup_optionsi":"""#));
    }
}
