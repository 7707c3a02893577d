//! An upper bound for the memory that the lines of a record need, before they are written.
//!
//! Texts may be huge, and growing the buffer must not end a database server that is short of
//! memory. Short texts are multiplied by the largest growth of a byte in any format; long ones are
//! measured.

use tacho_record::charset::{Charset, TextSink};
use tacho_record::{Length, Record};

/// Largest number of bytes for one byte of a text: `\u0000`, `&quot;`; U+FFFD has three.
const GROWTH_MAX: usize = 6;
/// How often a name may occur in the output: ECS has the user thrice, OCSF a table.
const NAME_COPIES: usize = 3;
/// How often a message may occur: as `message`, and as the detail of the status.
const MESSAGE_COPIES: usize = 2;
/// Keys, numbers and times of a record, and of a table.
const FIXED_BYTES: usize = 4096;
const TABLE_FIXED_BYTES: usize = 512;
const ATTRIBUTE_FIXED_BYTES: usize = 64;
/// Texts up to this length need not be measured.
const SHORT_BYTES: usize = 4 << 10;

/// An upper bound for the output of `record` in all formats that are not the log's own line, bytes.
pub fn size_bound(record: &Record, server_host: &[u8]) -> usize {
    let charset = record.text_charset().unwrap_or(Charset::BINARY);
    let (mut names, mut texts) = (server_host.len(), FIXED_BYTES);
    record.each_text(|length, text| match length {
        Length::Name => names = names.saturating_add(text.len()),
        Length::Message => {
            let bytes = text_bound(text, Charset::UTF8MB4).saturating_mul(MESSAGE_COPIES);
            texts = texts.saturating_add(bytes);
        }
        Length::Statement => texts = texts.saturating_add(text_bound(text, charset)),
    });
    let names = names.saturating_mul(NAME_COPIES * GROWTH_MAX);
    // The lines of tables repeat the user and host.
    let tables = record.tables.iter().map(|used| {
        let own = used.db.len() + used.table.len() + used.new_db.len() + used.new_table.len();
        (own * NAME_COPIES * GROWTH_MAX).saturating_add(names).saturating_add(TABLE_FIXED_BYTES)
    });
    // Attributes occur in the sentence, and separately.
    let attributes = record.attributes.iter().map(|attribute| {
        (attribute.key.len() + attribute.value.len())
            .saturating_mul(NAME_COPIES * GROWTH_MAX)
            .saturating_add(ATTRIBUTE_FIXED_BYTES)
    });
    tables.chain(attributes).chain([names]).fold(texts, usize::saturating_add)
}

fn text_bound(bytes: &[u8], charset: &Charset) -> usize {
    if bytes.len() <= SHORT_BYTES {
        return bytes.len() * GROWTH_MAX;
    }
    let mut counter = Counter(0);
    let _fidelity = charset.decode(bytes, &mut counter);
    counter.0
}

/// Counts a text as if every byte that some format escapes had the longest escape.
struct Counter(usize);

impl TextSink for Counter {
    fn text(&mut self, utf8: &[u8]) {
        let is_escaped = |byte: &&u8| {
            **byte < 0x20 || matches!(**byte, 0x7F | 0xEF) || b"\"'\\/<>&,|=.;`".contains(byte)
        };
        let escaped = utf8.iter().filter(is_escaped).count();
        self.0 = self.0.saturating_add(utf8.len() + escaped * (GROWTH_MAX - 1));
        // The slow log puts a blank before some lines; a line end is counted as escaped.
    }

    fn character(&mut self, character: char) {
        self.text(character.encode_utf8(&mut [0; 4]).as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Format, Formatter};
    use tacho_record::time::TimeFormatter;
    use tacho_record::{Attribute, EventKind, Outcome, TableAccess, TableUse};

    const FORMATS: [Format; 10] = [
        Format::Csv,
        Format::CsvFull,
        Format::PerconaJson,
        Format::PerconaNew,
        Format::PerconaOld,
        Format::Ocsf,
        Format::Ecs,
        Format::Cef,
        Format::Leef,
        Format::Slow,
    ];

    const EVENTS: [EventKind; 7] = [
        EventKind::Statement,
        EventKind::Connect,
        EventKind::Table,
        EventKind::Lost,
        EventKind::Start,
        EventKind::Config,
        EventKind::Notice,
    ];

    /// A record with this text in every field.
    fn record<'a>(
        text: &'a [u8],
        tables: &'a [TableUse<'a>],
        attributes: &'a [Attribute<'a>],
    ) -> Record<'a> {
        Record {
            seq: u64::MAX,
            ts_us: i64::MAX,
            outcome: Some(Outcome::Error),
            run: Some(u64::MAX),
            conn: Some(u64::MAX),
            conn_seq: Some(u64::MAX),
            query_id: Some(u64::MAX),
            user: text,
            priv_user: text,
            proxy_user: text,
            os_user: text,
            host: text,
            ip: text,
            port: Some(u16::MAX),
            db: text,
            command: text,
            sql_command: text,
            errno: u32::MAX,
            sqlstate: text,
            error: text,
            blocked_by: text,
            sql: Some(text),
            sql_bytes: Some(u64::MAX),
            sql_redacted: true,
            digest: text,
            rewrite_rule: Some(u64::MAX),
            rewritten_query: Some(text),
            tables,
            rows_sent: Some(u64::MAX),
            rows_examined: Some(u64::MAX),
            rows_affected: Some(u64::MAX),
            query_time_us: Some(u64::MAX),
            lock_time_us: Some(u64::MAX),
            start_ts_us: Some(i64::MIN),
            count: Some(u64::MAX),
            cause: text,
            server: text,
            signing_key: text,
            program: text,
            tls: text,
            variable: text,
            old_value: text,
            new_value: text,
            class: text,
            action: text,
            object: text,
            producer: text,
            detail: text,
            detail_bytes: Some(u64::MAX),
            attributes,
            ..Record::default()
        }
    }

    fn check(record: &Record, server_host: &str) {
        let bound = size_bound(record, server_host.as_bytes());
        for format in FORMATS {
            let mut out = Vec::new();
            Formatter::new(format, server_host).write(&mut out, record, &mut TimeFormatter::utc());
            assert!(out.len() <= bound, "{format:?}: {} in {bound}", out.len());
        }
    }

    #[test]
    fn no_lines_are_larger_than_their_bound() {
        let long = SHORT_BYTES + 100;
        let texts: [Vec<u8>; 7] = [
            Vec::new(),
            vec![0; 40],
            vec![0; long],
            vec![0xFF; long],
            b"\"'\\&<=/\n#".repeat(long / 9 + 1),
            "\u{FFFE}\u{FFFF}\u{FF21}".repeat(long / 9 + 1).into_bytes(),
            b"\n#".repeat(long / 2),
        ];
        for text in &texts {
            let used = TableUse {
                access: TableAccess::Rename,
                db: text,
                table: text,
                new_db: text,
                new_table: text,
            };
            let tables = [used; 2];
            let attributes = [Attribute { key: text, value: text }; 2];
            let whole = record(text, &tables, &attributes);
            for event in EVENTS {
                check(&Record { event: Some(event), ..whole.clone() }, "db1");
            }
            for charset in ["utf8mb4", "latin1", "sjis", "ucs2", "binary"] {
                let sql_charset = charset.as_bytes();
                let event = Some(EventKind::Statement);
                let command: &[u8] = b"Query";
                check(&Record { event, command, sql_charset, ..whole.clone() }, "d=b|1\n");
                let sql = Some(&text[..]);
                let alone = Record { event, command, sql, sql_charset, ..Record::default() };
                check(&Record { outcome: Some(Outcome::Ok), query_time_us: Some(1), ..alone }, "");
            }
        }
    }

    #[test]
    fn a_plain_text_needs_little_more_than_its_length() {
        let sql = vec![b'x'; 1 << 20];
        let record = Record { sql: Some(&sql), sql_charset: b"utf8mb4", ..Record::default() };
        assert!(size_bound(&record, b"db1") < sql.len() + 2 * FIXED_BYTES);
    }
}
