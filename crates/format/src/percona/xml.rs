//! `audit_log_format = NEW` and `OLD`: XML.
//!
//! This output is well-formed even where the original is not: a control character that XML 1.0 does
//! not permit, not even as a character reference, becomes U+FFFD, because one such character makes
//! a parser reject the whole file.

use tacho_record::Record;
use tacho_record::time::TimeFormatter;

use super::{Kind, Style};
use crate::Formatter;
use crate::escape::Escape;

/// Text of an element, or of an attribute in double quotes (XML 1.0, section 2.2 and 2.4).
pub struct Text;

/// The first byte of U+FFFE and U+FFFF, which XML does not permit either.
const NONCHARACTERS: u8 = 0xEF;

impl Escape for Text {
    fn is_special(byte: u8) -> bool {
        byte < 0x20 || matches!(byte, b'<' | b'>' | b'&' | b'"' | NONCHARACTERS)
    }

    fn append(out: &mut Vec<u8>, rest: &[u8]) -> usize {
        const REPLACEMENT: &[u8] = "\u{FFFD}".as_bytes();
        let entity: &[u8] = match rest {
            [b'<', ..] => b"&lt;",
            [b'>', ..] => b"&gt;",
            [b'&', ..] => b"&amp;",
            [b'"', ..] => b"&quot;",
            [b'\t', ..] => b"&#9;",
            [b'\n', ..] => b"&#10;",
            [b'\r', ..] => b"&#13;",
            [NONCHARACTERS, 0xBF, 0xBE | 0xBF, ..] => {
                out.extend_from_slice(REPLACEMENT);
                return 3;
            }
            [NONCHARACTERS, ..] => &[NONCHARACTERS],
            _ => REPLACEMENT,
        };
        out.extend_from_slice(entity);
        1
    }
}

/// Appends a name in upper case.
fn append_key(out: &mut Vec<u8>, key: &str) {
    out.extend(key.bytes().map(|byte| byte.to_ascii_uppercase()));
}

struct New;

impl Style for New {
    type Text = Text;
    const HAS_FIGURES: bool = false;
    const STARTUP_OPTIONS: &'static str = "startup_options";

    fn open(out: &mut Vec<u8>) {
        out.extend_from_slice(b"<AUDIT_RECORD>\n");
    }

    fn close(out: &mut Vec<u8>) {
        out.extend_from_slice(b"</AUDIT_RECORD>\n");
    }

    fn field(out: &mut Vec<u8>, key: &str, _kind: Kind, append: impl FnOnce(&mut Vec<u8>)) {
        out.extend_from_slice(b"  <");
        append_key(out, key);
        out.push(b'>');
        append(out);
        out.extend_from_slice(b"</");
        append_key(out, key);
        out.extend_from_slice(b">\n");
    }
}

struct Old;

impl Style for Old {
    type Text = Text;
    const HAS_FIGURES: bool = false;
    const STARTUP_OPTIONS: &'static str = "startup_options";

    fn open(out: &mut Vec<u8>) {
        out.extend_from_slice(b"<AUDIT_RECORD\n");
    }

    fn close(out: &mut Vec<u8>) {
        out.extend_from_slice(b"/>\n");
    }

    fn field(out: &mut Vec<u8>, key: &str, _kind: Kind, append: impl FnOnce(&mut Vec<u8>)) {
        out.extend_from_slice(b"  ");
        append_key(out, key);
        out.extend_from_slice(b"=\"");
        append(out);
        out.extend_from_slice(b"\"\n");
    }
}

pub fn write_new(by: &Formatter, out: &mut Vec<u8>, record: &Record, clock: &mut TimeFormatter) {
    super::write::<New>(by, out, record, clock);
}

pub fn write_old(by: &Formatter, out: &mut Vec<u8>, record: &Record, clock: &mut TimeFormatter) {
    super::write::<Old>(by, out, record, clock);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Format;
    use tacho_record::{EventKind, Outcome};

    fn file(format: Format, record: &Record) -> String {
        let mut out = Vec::new();
        let mut by = Formatter::new(format, "db1");
        let mut clock = TimeFormatter::utc();
        by.begin(&mut out, 0, &mut clock);
        by.write(&mut out, record, &mut clock);
        by.end(&mut out);
        String::from_utf8(out).unwrap()
    }

    fn record() -> Record<'static> {
        Record {
            seq: 12,
            ts_us: 1_795_319_366_500_000,
            event: Some(EventKind::Statement),
            outcome: Some(Outcome::Error),
            conn: Some(7),
            user: b"app",
            priv_user: b"app",
            host: b"web1",
            db: b"shop",
            command: b"Query",
            sql_command: b"select",
            errno: 1146,
            sql: Some("a<b>&\"c'\t\n\r\x01 \u{FFFE}\u{FFFF}\u{FF21}".as_bytes()),
            sql_charset: b"utf8mb4",
            ..Record::default()
        }
    }

    const SQLTEXT: &str = "a&lt;b&gt;&amp;&quot;c'&#9;&#10;&#13;\u{FFFD} \u{FFFD}\u{FFFD}\u{FF21}";

    #[test]
    fn elements() {
        let expected = format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<AUDIT>\n<AUDIT_RECORD>\n  \
             <NAME>Query</NAME>\n  <RECORD>12_1970-01-01T00:00:00</RECORD>\n  \
             <TIMESTAMP>2026-11-22T03:49:26 UTC</TIMESTAMP>\n  \
             <COMMAND_CLASS>select</COMMAND_CLASS>\n  <CONNECTION_ID>7</CONNECTION_ID>\n  \
             <STATUS>1146</STATUS>\n  <SQLTEXT>{SQLTEXT}</SQLTEXT>\n  \
             <USER>app[app] @ web1 []</USER>\n  <HOST>web1</HOST>\n  <OS_USER></OS_USER>\n  \
             <IP></IP>\n  <DB>shop</DB>\n</AUDIT_RECORD>\n</AUDIT>\n"
        );
        assert_eq!(file(Format::PerconaNew, &record()), expected);
    }

    #[test]
    fn attributes() {
        let expected = format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<AUDIT>\n<AUDIT_RECORD\n  \
             NAME=\"Query\"\n  RECORD=\"12_1970-01-01T00:00:00\"\n  \
             TIMESTAMP=\"2026-11-22T03:49:26 UTC\"\n  COMMAND_CLASS=\"select\"\n  \
             CONNECTION_ID=\"7\"\n  STATUS=\"1146\"\n  SQLTEXT=\"{SQLTEXT}\"\n  \
             USER=\"app[app] @ web1 []\"\n  HOST=\"web1\"\n  OS_USER=\"\"\n  IP=\"\"\n  \
             DB=\"shop\"\n/>\n</AUDIT>\n"
        );
        assert_eq!(file(Format::PerconaOld, &record()), expected);
    }
}
