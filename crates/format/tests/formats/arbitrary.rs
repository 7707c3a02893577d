//! Records with arbitrary bytes in every field.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use tacho_record::{EventKind, Outcome, TableAccess};
use tacho_record::{OwnedRecord, OwnedTable};

const EVENTS: [EventKind; 11] = [
    EventKind::Connect,
    EventKind::Disconnect,
    EventKind::ChangeUser,
    EventKind::ConnectFailed,
    EventKind::Statement,
    EventKind::Table,
    EventKind::Lost,
    EventKind::Start,
    EventKind::Stop,
    EventKind::Config,
    EventKind::Notice,
];

const OUTCOMES: [Option<Outcome>; 5] = [
    None,
    Some(Outcome::Ok),
    Some(Outcome::Error),
    Some(Outcome::Running),
    Some(Outcome::Interrupted),
];

const ACCESSES: [TableAccess; 6] = [
    TableAccess::Read,
    TableAccess::Write,
    TableAccess::Create,
    TableAccess::Drop,
    TableAccess::Rename,
    TableAccess::Alter,
];

/// Arbitrary bytes, with characters that have a meaning in the formats.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        vec(any::<u8>(), 0..6),
        prop::sample::select(
            &[
                "\n",
                "\r",
                "\t",
                ",",
                "'",
                "\"",
                "\\",
                "|",
                "=",
                "`",
                ".",
                "<",
                ">",
                "&",
                "]]>",
                "\0",
                "\x1b",
                "\u{85}",
                "\u{2028}",
                "\u{FFFE}",
                "</SQLTEXT>",
                "\n# Time: ",
                ";\n#",
                "' ,0\n20260101 00:00:00,h,root,l,1,1,QUERY,,'",
                " cs1=",
                "\tusrName=",
                "%n",
                "ä",
            ][..]
        )
        .prop_map(|text| text.as_bytes().to_vec()),
    ];
    vec(piece, 0..5).prop_map(|pieces| pieces.concat())
}

fn table() -> impl Strategy<Value = OwnedTable> {
    let names = [bytes(), bytes(), bytes(), bytes()];
    (prop::sample::select(&ACCESSES[..]), names).prop_map(|(access, names)| {
        let [db, table, new_db, new_table] = names;
        OwnedTable { access, db, table, new_db, new_table }
    })
}

pub fn record() -> impl Strategy<Value = OwnedRecord> {
    let words = (prop::sample::select(&EVENTS[..]), prop::sample::select(&OUTCOMES[..]));
    let number = || option::of(any::<u64>());
    let numbers = (vec(number(), 14), any::<u32>(), option::of(any::<u16>()));
    // Both are instants that a line can have.
    let times = (1..=u64::MAX, -62_000_000_000_000_000..253_000_000_000_000_000_i64);
    let commands = prop::sample::select(&["Query", "Execute", "Prepare", "Quit", "Ping", ""][..]);
    let charsets = prop::sample::select(&["utf8mb4", "latin1", "binary", "sjis", "ucs2", "no"][..]);
    let sql = (option::of(bytes()), any::<bool>(), charsets, option::of(bytes()));
    (words, numbers, times, vec(bytes(), 29), commands, sql, vec(table(), 0..3)).prop_map(
        |(words, (numbers, errno, port), (seq, ts_us), texts, command, sql, tables)| {
            let mut texts = texts.into_iter();
            let mut text = || texts.next().unwrap_or_default();
            let mut numbers = numbers.into_iter();
            let mut number = || numbers.next().flatten();
            let record = OwnedRecord {
                seq,
                ts_us,
                event: Some(words.0),
                outcome: words.1,
                run: number(),
                conn: number(),
                conn_seq: number(),
                query_id: number(),
                user: text(),
                priv_user: text(),
                proxy_user: text(),
                os_user: text(),
                host: text(),
                ip: text(),
                port,
                db: text(),
                command: if command.is_empty() { text() } else { command.into() },
                source: text(),
                server_addr: text(),
                session: text(),
                sql_command: text(),
                errno,
                sqlstate: text(),
                error: text(),
                blocked_by: text(),
                sql: sql.0,
                sql_bytes: number(),
                sql_redacted: sql.1,
                sql_charset: sql.2.into(),
                digest: b"1:00112233445566778899aabbccddeeff".to_vec(),
                rewrite_rule: number(),
                rewritten_query: sql.3,
                tables,
                rows_sent: number(),
                rows_examined: number(),
                rows_affected: number(),
                query_time_us: number(),
                lock_time_us: number(),
                start_ts_us: Some(ts_us),
                running_seq: number(),
                count: number(),
                cause: text(),
                lost_bytes: number(),
                lost_packets: number(),
                server: text(),
                program: text(),
                client_version: text(),
                tls: text(),
                signing_key: text(),
                variable: text(),
                old_value: text(),
                new_value: text(),
                // The fields of a notice are set below, if it is one.
                ..OwnedRecord::default()
            };
            if record.event != Some(EventKind::Notice) {
                return record;
            }
            OwnedRecord {
                class: b"message".to_vec(),
                action: b"user".to_vec(),
                object: text(),
                producer: text(),
                detail: text(),
                detail_bytes: number(),
                attributes: vec![(text(), text())],
                ..record
            }
        },
    )
}
