//! Statistics by rollups are those by records: for random records, filters and time ranges, with
//! segments of all levels.

use std::fs::{self, OpenOptions};
use std::io::Write as _;

use serde_json::Value;
use tacho_query::{Cancel, Request};
use tacho_store::rollup::{CONNECTION_DIMENSIONS, DIMENSIONS, Part, PartKind, SUMS, View};
use tacho_store::{Durable, Indexer, IndexerOptions, MergeOptions, Store, merge_step};

use crate::Hub;

const FILE: &str = "audit-20261121T100000Z-000001.jsonl";
/// 2026-11-21T10:00:00Z.
const BEGIN_US: i64 = 1_795_255_200_000_000;
const MINUTE_US: i64 = 60_000_000;
const HOUR_US: i64 = 60 * MINUTE_US;
const LENGTH_US: i64 = 4 * HOUR_US;

/// Random numbers (xorshift64*).
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, count: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) % count
    }

    pub fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }

    /// A number of any size.
    fn number(&mut self) -> u64 {
        let bits = self.below(65) as u32;
        let number = self.below(u64::MAX);
        let power = 1_u64.checked_shl(bits).unwrap_or(0);
        match self.below(4) {
            0 => power.wrapping_sub(1),
            1 => power,
            _ => number.checked_shr(bits).unwrap_or(0),
        }
    }
}

fn line(random: &mut Random, seq: u64) -> String {
    if random.below(50) == 0 {
        return "not a record".to_owned();
    }
    let at_us = BEGIN_US + random.below(LENGTH_US as u64) as i64;
    let ts = jiff::Timestamp::from_microsecond(at_us).unwrap();
    let event = random.of(&["statement", "statement", "connect", "connect_failed", "start"]);
    let mut line = format!("{{\"v\":1,\"seq\":{seq},\"ts\":\"{ts:.6}\",\"event\":\"{event}\"");
    let mut add = |random: &mut Random, name: &str, values: &[&str]| {
        if random.below(4) > 0 {
            let value = serde_json::to_string(random.of(values)).unwrap();
            line += &format!(",\"{name}\":{value}");
        }
    };
    add(random, "outcome", &["ok", "error", "running"]);
    for (name, count) in [("run", 2), ("conn", 9), ("conn_seq", 1_000)] {
        if random.below(5) > 0 {
            let number = if random.below(60) > 0 { random.below(count) } else { random.number() };
            line += &format!(",\"{name}\":{number}");
        }
    }
    let mut add = |random: &mut Random, name: &str, values: &[&str]| {
        if random.below(4) > 0 {
            let value = serde_json::to_string(random.of(values)).unwrap();
            line += &format!(",\"{name}\":{value}");
        }
    };
    add(random, "user", &["app0", "app1", "", "o'brien", "é\"\\"]);
    add(random, "host", &["web1", "web2"]);
    add(random, "ip", &["10.0.0.1", "10.0.0.2"]);
    add(random, "db", &["shop", "bank"]);
    add(random, "sql_command", &["select", "insert", "update"]);
    if random.below(5) == 0 {
        line += &format!(",\"errno\":{}", random.of(&[1064, 1062, 4_294_967_295_u64]));
    }
    if random.below(3) > 0 {
        line += &format!(",\"digest\":\"1:{:032x}\"", random.below(5) + 10);
    }
    for name in ["rows_sent", "rows_examined", "rows_affected", "query_time_us", "lock_time_us"] {
        match random.below(4) {
            0 => {}
            1 => line += &format!(",\"{name}\":{}", random.number()),
            _ => line += &format!(",\"{name}\":{}", random.below(3_000)),
        }
    }
    line + "}"
}

/// A store that is merged now and then while records come.
fn hub(random: &mut Random) -> Hub {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(&dir.path().join("store")).unwrap();
    let indexer = Indexer::start(store.clone(), IndexerOptions::default()).unwrap();
    let options = MergeOptions { fan_in: 3, ..MergeOptions::default() };
    let mut seq = 0;
    for _ in 0..30 {
        for origin in ["db1", "db2"] {
            let path = dir.path().join(format!("replica/{origin}/1/{FILE}"));
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            let mut file = OpenOptions::new().append(true).create(true).open(&path).unwrap();
            for _ in 0..random.below(40) {
                seq += 1;
                writeln!(file, "{}", line(random, seq)).unwrap();
            }
            let offset = file.metadata().unwrap().len();
            let (origin, file) = (origin.to_owned(), FILE.to_owned());
            indexer.notify(Durable { origin, generation: 1, file, path, offset });
        }
        indexer.flush();
        if random.below(3) > 0 {
            merge_step(&store, &options).unwrap();
        }
    }
    Hub::of_store(dir, store, |_| {})
}

impl Hub {
    fn ask(&self, view: View, parts: &[Part], filter: &str, sql: &str) -> Vec<Value> {
        let views = vec![(view.name().to_owned(), view.select(parts, None, filter))];
        let sql = format!("{sql} ORDER BY ALL");
        let request = Request {
            files: Vec::new(),
            views,
            max_rows: 100_000,
            max_bytes: 64 << 20,
            ..self.request(&sql)
        };
        let answer = self.pool.fetch(&request, &Cancel::default());
        let answer = answer.unwrap_or_else(|error| panic!("{sql} of {filter}: {error}"));
        assert!(!answer.is_truncated);
        answer.rows.into_iter().map(Value::from).collect()
    }
}

fn names(columns: &[&str]) -> String {
    columns.iter().map(|it| format!("\"{it}\"")).collect::<Vec<_>>().join(", ")
}

/// View, the coarsest rollup that the question allows, and the question.
fn questions() -> Vec<(View, PartKind, String)> {
    use PartKind::{Hours, Minutes};
    use View::{Connections, Statistics, Times};
    let minute = "epoch_us(ts) // 60000000 AS minute";
    let sums: Vec<String> = SUMS.iter().map(|it| format!("sum({it})")).collect();
    let sums = format!("sum(n), {}", sums.join(", "));
    let (all, of_connections) = (names(DIMENSIONS), names(CONNECTION_DIMENSIONS));
    let by_all = format!("{all}, {sums} FROM statistics GROUP BY ALL");
    let errors = "sum(n) FILTER (WHERE errno IS NOT NULL)";
    let connections = format!("{of_connections}, conn FROM connections");
    let times = "time_histogram(times, time_us)";
    let estimate = "approx_count_distinct(hash(\"server\", run, conn)) FROM connections";
    vec![
        (Statistics, Minutes, format!("SELECT {minute}, {by_all}")),
        (Statistics, Hours, format!("SELECT epoch_us(ts) // 3600000000 AS hour, {by_all}")),
        (
            Statistics,
            Hours,
            format!("SELECT coalesce(host, ip), {sums}, {errors} FROM statistics GROUP BY ALL"),
        ),
        (Times, Minutes, format!("SELECT {minute}, {all}, {times} FROM times GROUP BY ALL")),
        (Times, Hours, format!("SELECT digest, {times} FROM times GROUP BY ALL")),
        (Connections, Minutes, format!("SELECT DISTINCT {minute}, {connections}")),
        (Connections, Hours, format!("SELECT DISTINCT {connections}")),
        (Connections, Hours, format!("SELECT {estimate}")),
    ]
}

const TERMS: &[&str] = &[
    "user:app1",
    "user:\"o'brien\"",
    "user:*",
    "host:10.*",
    "ip:*.1",
    "db:(shop or bank)",
    "server:db1",
    "run:1",
    "errno:>0",
    "errno:0",
    "errno:1062..1064",
    "event:connect_failed",
    "outcome:error",
    "digest:0",
    "digest:0000000000000000000000000000000b",
    "sql_command:*e*",
    "sql_command:select",
];

fn search(random: &mut Random) -> String {
    let mut text = String::new();
    for _ in 0..random.below(4) {
        let not = random.of(&["", "-"]);
        let and = random.of(&["", "or "]);
        if !text.is_empty() {
            text += and;
        }
        text += &format!("{not}{} ", random.of(TERMS));
    }
    text
}

fn range(random: &mut Random) -> (i64, i64) {
    let mut at = || {
        let at_us = BEGIN_US - MINUTE_US + random.below((LENGTH_US + 2 * MINUTE_US) as u64) as i64;
        if random.below(2) == 0 { at_us / MINUTE_US * MINUTE_US } else { at_us }
    };
    let (a, b) = (at(), at());
    (a.min(b), a.max(b))
}

#[test]
fn rollups_count_what_the_records_are() {
    let mut by_rollups = 0;
    for seed in 1..=3 {
        let mut random = Random(0x9E37_79B9_7F4A_7C15 ^ seed);
        let hub = hub(&mut random);
        let levels: Vec<u8> = hub.snapshot.segments().map(|segment| segment.level).collect();
        assert!(levels.contains(&0) || levels.contains(&1), "{levels:?}");
        assert!(levels.iter().any(|&level| level >= 2), "{levels:?}");
        for question in 0..15 {
            let (from_us, to_us) = range(&mut random);
            let text = search(&mut random);
            let search = tacho_search::parse(&text).unwrap();
            let condition = search.condition();
            let records = hub.snapshot.parts(from_us, to_us, PartKind::Records);
            assert!(records.iter().all(|part| part.kind == PartKind::Records));
            for (view, coarsest, sql) in questions() {
                let parts = hub.snapshot.parts(from_us, to_us, coarsest);
                by_rollups += u32::from(parts.iter().any(|part| part.kind == coarsest));
                if !search.columns().iter().all(|column| view.dimensions().contains(column)) {
                    continue;
                }
                let found = hub.ask(view, &parts, &condition, &sql);
                let wanted = hub.ask(view, &records, &condition, &sql);
                assert_eq!(found, wanted, "seed {seed}, question {question}: {sql} of {text:?}");
            }
        }
    }
    assert!(by_rollups > 150, "{by_rollups}");
}
