//! How much memory the lines of a record may need, before they are written.
//!
//! Texts may be huge, and growing the buffer must not be what ends a database server when memory
//! is short. Short texts are multiplied by the most that any format makes of a byte; long ones are
//! measured.

use tacho_record::Record;
use tacho_record::charset::{Charset, TextSink};

/// Most bytes that one byte of a text becomes: `\u0000`, `&quot;`; U+FFFD has three.
const GROWTH_MAX: usize = 6;
/// How often a name may be in what is written: ECS has the user thrice, OCSF a table.
const NAME_COPIES: usize = 3;
/// How often a message may be: as `message`, and as the detail of the status.
const MESSAGE_COPIES: usize = 2;
/// Keys, numbers and times of a record, and of a table.
const FIXED_BYTES: usize = 4096;
const TABLE_FIXED_BYTES: usize = 512;
const ATTRIBUTE_FIXED_BYTES: usize = 64;
/// Texts up to this length need not be measured.
const SHORT_BYTES: usize = 4 << 10;

/// An upper bound for what all formats but syslog write of `record`, bytes.
pub fn room_for(record: &Record, server_host: &[u8]) -> usize {
    let names = [
        server_host,
        record.user,
        record.priv_user,
        record.proxy_user,
        record.os_user,
        record.host,
        record.ip,
        record.db,
        record.command,
        record.sql_command,
        record.sqlstate,
        record.blocked_by,
        record.sql_charset,
        record.digest,
        record.cause,
        record.server,
        record.signing_key,
        record.program,
        record.tls,
        record.variable,
        record.class,
        record.action,
        record.object,
        record.producer,
    ];
    let names = names.iter().map(|name| name.len()).fold(0, usize::saturating_add);
    let names = names.saturating_mul(NAME_COPIES * GROWTH_MAX);
    // The lines of tables repeat who it was.
    let tables = record.tables.iter().map(|used| {
        let own = used.db.len() + used.table.len() + used.new_db.len() + used.new_table.len();
        (own * NAME_COPIES * GROWTH_MAX).saturating_add(names).saturating_add(TABLE_FIXED_BYTES)
    });
    // Attributes are in the sentence, and by themselves.
    let attributes = record.attributes.iter().map(|attribute| {
        (attribute.key.len() + attribute.value.len())
            .saturating_mul(NAME_COPIES * GROWTH_MAX)
            .saturating_add(ATTRIBUTE_FIXED_BYTES)
    });
    let messages = [record.error, record.old_value, record.new_value, record.detail];
    let messages = messages.iter().map(|text| text_room(text, Charset::UTF8MB4));
    let charset = record.text_charset().unwrap_or(Charset::BINARY);
    let of_statement = |text: Option<&[u8]>| text_room(text.unwrap_or_default(), charset);
    tables
        .chain(attributes)
        .chain([record.sql, record.rewritten_query].map(of_statement))
        .chain([names, FIXED_BYTES])
        .chain(messages.map(|room| room.saturating_mul(MESSAGE_COPIES)))
        .fold(0, usize::saturating_add)
}

fn text_room(bytes: &[u8], charset: &Charset) -> usize {
    if bytes.len() <= SHORT_BYTES {
        return bytes.len() * GROWTH_MAX;
    }
    let mut counter = Counter(0);
    let _fidelity = charset.decode(bytes, &mut counter);
    counter.0
}

/// Counts a text as if every byte that some format escapes became the longest escape.
struct Counter(usize);

impl TextSink for Counter {
    fn text(&mut self, utf8: &[u8]) {
        let is_escaped = |byte: &&u8| {
            **byte < 0x20 || matches!(**byte, 0x7F | 0xEF) || b"\"'\\/<>&,|=.;`".contains(byte)
        };
        let escaped = utf8.iter().filter(is_escaped).count();
        self.0 = self.0.saturating_add(utf8.len() + escaped * (GROWTH_MAX - 1));
        // The slow log puts a blank in front of some lines; a line end is counted as escaped.
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

    const FORMATS: [Format; 9] = [
        Format::Csv,
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

    /// Every text of the record is this one.
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
        let room = room_for(record, server_host.as_bytes());
        for format in FORMATS {
            let mut out = Vec::new();
            Formatter::new(format, server_host).write(&mut out, record, &mut TimeFormatter::utc());
            assert!(out.len() <= room, "{format:?}: {} in {room}", out.len());
        }
    }

    #[test]
    fn no_lines_need_more_room_than_was_said() {
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
        assert!(room_for(&record, b"db1") < sql.len() + 2 * FIXED_BYTES);
    }
}
