//! The cost of one log line: `cargo run --release -p tacho-record --example line_cost`.
//!
//! Prints ns per line of a statement with 200 bytes of SQL, the best and the median of many
//! batches, because other work on the machine only ever adds. For instructions per line, which
//! do not depend on the machine's load, give a case and a number of batches and subtract:
//!
//! ```text
//! valgrind --tool=callgrind target/release/examples/line_cost utf8mb4 1
//! valgrind --tool=callgrind target/release/examples/line_cost utf8mb4 101
//! ```
//!
//! The difference between the two, divided by 100,000, is the figure.

use std::hint::black_box;
use std::time::Instant;

use tacho_record::json::write_line;
use tacho_record::time::TimeFormatter;
use tacho_record::{EventKind, Outcome, Record, TableAccess, TableUse};

const LINES_PER_BATCH: u32 = 1_000;
const BATCHES: usize = 2_000;

const SQL: &str = "SELECT o.id, o.created_at, o.total_cents, c.name, c.email FROM orders o \
     JOIN customers c ON c.id = o.customer_id WHERE o.status = 'open' AND o.created_at >= \
     '2026-11-01' ORDER BY o.created_at DESC LIMIT 50";

/// Name, text and character set of a case.
fn cases() -> Vec<(&'static str, Vec<u8>, &'static str)> {
    let ascii = format!("{SQL:.200}").into_bytes();
    let accents = "SELECT 'Größe, Maß, Fuß' ".repeat(7).into_bytes();
    let mut blob = ascii.clone();
    blob[150] = 0xFF;
    let lines: Vec<u8> = ascii
        .iter()
        .enumerate()
        .map(|(at, byte)| if at % 40 == 39 { b'\n' } else { *byte })
        .collect();
    let mut kanji = b"SELECT '".to_vec();
    kanji.extend(b"\x95\x5C\x8E\xA6".repeat(48));
    vec![
        ("utf8mb4", ascii.clone(), "utf8mb4"),
        ("newlines", lines, "utf8mb4"),
        ("accents", accents, "utf8mb4"),
        ("latin1", ascii, "latin1"),
        ("sjis", kanji, "sjis"),
        ("invalid", blob, "utf8mb4"),
    ]
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let only = arguments.next();
    let batches = arguments.next().map_or(BATCHES, |count| count.parse().expect("a number"));
    let mut clock = TimeFormatter::system().expect("a local time zone");
    let mut out = Vec::with_capacity(1 << 20);
    for (name, sql, charset) in cases() {
        if only.as_deref().is_some_and(|only| only != name) {
            continue;
        }
        let tables = [TableUse {
            access: TableAccess::Read,
            db: b"shop",
            table: b"orders",
            new_db: b"",
            new_table: b"",
        }];
        let mut record = Record {
            ts_us: 1_795_219_323_123_456,
            event: Some(EventKind::Statement),
            outcome: Some(Outcome::Ok),
            conn: Some(4_711),
            user: b"shop_app",
            priv_user: b"shop_app",
            host: b"app-17.internal",
            ip: b"10.20.30.40",
            db: b"shop",
            command: b"Query",
            sql_command: b"select",
            sql: Some(&sql),
            sql_charset: charset.as_bytes(),
            tables: &tables,
            rows_sent: Some(50),
            rows_examined: Some(12_345),
            query_time_us: Some(1_834),
            lock_time_us: Some(12),
            ..Record::default()
        };
        let mut batch_ns = Vec::with_capacity(batches);
        let mut line_bytes = 0;
        for _ in 0..batches {
            out.clear();
            let start = Instant::now();
            for _ in 0..LINES_PER_BATCH {
                record.seq += 1;
                record.conn_seq = Some(record.seq);
                record.query_id = Some(record.seq + 1_000_000);
                record.ts_us += 1;
                write_line(&mut out, black_box(&record), &mut clock);
            }
            batch_ns.push(start.elapsed().as_nanos() as f64 / f64::from(LINES_PER_BATCH));
            line_bytes = out.len() / LINES_PER_BATCH as usize;
        }
        batch_ns.sort_by(f64::total_cmp);
        let (best, median) = (batch_ns[0], batch_ns[batches / 2]);
        println!("{name:10} {line_bytes:5} B/line {best:7.1} ns/line best {median:7.1} ns median");
    }
}
