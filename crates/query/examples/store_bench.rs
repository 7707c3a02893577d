//! Zone: outside.
//!
//! How fast records are indexed and found: a log of made-up records is indexed and merged, and five
//! questions are asked.
//!
//! ```sh
//! cargo run --release -p tacho-query --example store_bench -- DIR 10000000
//! ```
//!
//! The records are those of three servers over one day. Users, databases, tables and statements
//! have the skew of real loads (the n-th most frequent one has 1/n of the first one's records): 40
//! users, 8 databases, 2,000 statements, 300 connections at a time, which change; 1 % errors; a
//! line has about 450 bytes. `DIR` is emptied except for the log, which is made once.

use std::error::Error;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tacho_query::{Cancel, Pool, Request, Settings, find_library};
use tacho_store::{Durable, Indexer, IndexerOptions, MergeOptions, Store, merge_step};

const SERVERS: u64 = 3;
const FILE: &str = "audit-20261121T000000Z-000001.jsonl";
/// 2026-11-21T00:00:00Z.
const BEGIN_US: u64 = 1_795_219_200_000_000;
const DAY_US: u64 = 86_400_000_000;
/// Each question is asked so often; the median counts.
const REPEATS: usize = 5;

/// Random numbers (xorshift64*): the same for every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    fn below(&mut self, count: u64) -> u64 {
        self.next() % count
    }

    /// 0 is the most frequent one: frequencies are about 1, 1/2, 1/3 …
    fn skewed(&mut self, count: u64) -> u64 {
        let unit = (self.next() >> 11) as f64 / (1_u64 << 53) as f64;
        ((count as f64 + 1.0).powf(unit) - 1.0) as u64
    }
}

fn generate(path: &Path, server: u64, rows: u64) -> std::io::Result<()> {
    let mut out = BufWriter::with_capacity(1 << 20, File::create(path)?);
    let mut random = Random(0x9E37_79B9 + server);
    let commands =
        ["select", "select", "select", "insert", "update", "delete", "commit", "set_option"];
    for seq in 1..=rows {
        let at_us = BEGIN_US + DAY_US / rows * seq;
        let (second, micro) = (at_us / 1_000_000 % 86_400, at_us % 1_000_000);
        let statement = random.skewed(2_000);
        let (user, db) = (random.skewed(40), random.skewed(8));
        let conn = seq / (rows / 2_000).max(1) * 7 + random.below(300);
        let time_us = 40 + random.below(200) * random.below(200) * (1 + statement % 7);
        let (outcome, error) = match random.below(100) {
            0 => ("error", ",\"errno\":1062,\"sqlstate\":\"23000\",\"error\":\"Duplicate entry\""),
            _ => ("ok", ""),
        };
        writeln!(
            out,
            "{{\"v\":1,\"seq\":{seq},\"ts\":\"2026-11-21T{:02}:{:02}:{:02}.{micro:06}+00:00\",\
             \"event\":\"statement\",\"outcome\":\"{outcome}\",\"run\":1,\"conn\":{conn},\
             \"conn_seq\":{seq},\"query_id\":{seq},\"user\":\"app{user}\",\"priv_user\":\"app{user}\",\
             \"host\":\"web{}.example.net\",\"ip\":\"10.0.{}.{}\",\"port\":{},\"db\":\"shop{db}\",\
             \"command\":\"Query\",\"sql_command\":\"{}\"{error},\"sql\":\"SELECT c{statement}, \
             name, price FROM t{} WHERE id = {} AND code = 'x{:08x}' LIMIT 10\",\
             \"sql_charset\":\"utf8mb4\",\"digest\":\"1:{:032x}\",\
             \"tables\":[{{\"access\":\"read\",\"db\":\"shop{db}\",\"table\":\"t{}\"}}],\
             \"rows_sent\":{},\"rows_examined\":{},\"query_time_us\":{time_us},\"lock_time_us\":{}}}",
            second / 3_600,
            second / 60 % 60,
            second % 60,
            user % 9,
            conn % 4,
            conn % 250,
            30_000 + conn % 20_000,
            commands[(statement % 8) as usize],
            statement % 60,
            random.below(10_000_000),
            random.next() as u32,
            u128::from(statement + 1) * 0x1234_5678_9ABC_DEF0_1234_5678,
            statement % 60,
            random.skewed(1_000),
            random.skewed(100_000),
            random.below(30),
        )?;
    }
    out.flush()
}

fn logs(dir: &Path, rows: u64) -> std::io::Result<Vec<(String, PathBuf)>> {
    let mut logs = Vec::new();
    for server in 1..=SERVERS {
        let origin = format!("db{server}");
        let path = dir.join(format!("replica-{rows}/{origin}/1/{FILE}"));
        if !path.exists() {
            fs::create_dir_all(path.parent().ok_or(std::io::ErrorKind::InvalidInput)?)?;
            let temporary = path.with_extension("tmp");
            generate(&temporary, server, rows / SERVERS)?;
            fs::rename(temporary, &path)?;
        }
        logs.push((origin, path));
    }
    Ok(logs)
}

fn index(store: &Store, logs: &[(String, PathBuf)]) -> Result<(u64, u64), Box<dyn Error>> {
    let indexer = Indexer::start(store.clone(), IndexerOptions::default())?;
    for (origin, path) in logs {
        let (origin, path) = (origin.clone(), path.clone());
        let offset = fs::metadata(&path)?.len();
        indexer.notify(Durable { origin, generation: 1, file: FILE.to_owned(), path, offset });
    }
    indexer.flush();
    let report = indexer.report();
    match report.error {
        Some(error) => Err(error.into()),
        None => Ok((report.records, report.bytes)),
    }
}

fn questions() -> Vec<(&'static str, String)> {
    let hour =
        "ts >= TIMESTAMPTZ '2026-11-21 10:00:00+00' AND ts < TIMESTAMPTZ '2026-11-21 11:00:00+00'";
    let condition = |q: &str| match tacho_search::parse(q) {
        Ok(search) => search.condition(),
        Err(error) => panic!("{q}: {error}"),
    };
    vec![
        (
            "first page: statements, errors, percentiles by minute of an hour",
            format!(
                "SELECT date_trunc('minute', ts) AS m, count(*), count(errno), \
                 approx_quantile(query_time_us, [0.5, 0.99]) FROM records WHERE {hour} GROUP BY m"
            ),
        ),
        (
            "top 20 digests of the day by time",
            "SELECT digest, count(*), sum(query_time_us) AS t FROM records GROUP BY digest \
             ORDER BY t DESC LIMIT 20"
                .to_owned(),
        ),
        (
            "errors of one user, newest 100",
            format!(
                "SELECT seq, ts, sql FROM records WHERE {} ORDER BY ts DESC LIMIT 100",
                condition("user:app7 errno:>0")
            ),
        ),
        (
            "one connection",
            format!(
                "SELECT seq, ts, sql FROM records WHERE {} ORDER BY ts LIMIT 1000",
                condition("server:db2 run:1 conn:7041")
            ),
        ),
        (
            "a literal in one hour",
            format!("SELECT seq, sql FROM records WHERE {hour} AND {}", condition("x0badc0de")),
        ),
    ]
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, dir, rows] = &arguments[..] else { return Err("usage: store_bench DIR ROWS".into()) };
    let (dir, rows) = (Path::new(dir), rows.parse()?);
    let logs = logs(dir, rows)?;
    let store_dir = dir.join("store");
    if store_dir.exists() {
        fs::remove_dir_all(&store_dir)?;
    }
    let store = Store::open(&store_dir)?;
    let begin = Instant::now();
    let (records, bytes) = index(&store, &logs)?;
    let seconds = begin.elapsed().as_secs_f64();
    let rate = records as f64 / seconds;
    println!("indexed: {records} records of {} B in {seconds:.1} s: {rate:.0}/s", bytes / records);
    let begin = Instant::now();
    let mut merged = 0;
    while let Some(done) = merge_step(&store, &MergeOptions::default())? {
        merged += done.rows;
    }
    let seconds = begin.elapsed().as_secs_f64();
    let snapshot = store.snapshot();
    let stored: u64 = snapshot.segments().map(|segment| segment.bytes).sum();
    println!(
        "merged: {merged} rows in {seconds:.1} s, now {} segments, {:.1} B a record",
        snapshot.segments().count(),
        stored as f64 / records as f64
    );
    let pool = Pool::new(Settings {
        command: vec![dir_of_examples()?.join("tacho-query-worker").into()],
        library: find_library().ok_or("run scripts/setup-duckdb.sh")?,
        data_dir: store.segments_dir(),
        temp_dir: dir.join("temp"),
        workers: 1,
        waiting: 1,
        memory_bytes: 512 << 20,
        threads: 2,
        temp_bytes: 4 << 30,
    });
    for (name, sql) in questions() {
        let mut times = Vec::new();
        let mut found = 0;
        for _ in 0..REPEATS {
            let request = Request {
                sql: sql.clone(),
                files: snapshot.files(i64::MIN, i64::MAX).into_iter().map(Into::into).collect(),
                max_rows: 1_000_000,
                max_bytes: 1 << 30,
                timeout: Duration::from_secs(300),
                ..Request::default()
            };
            let begin = Instant::now();
            found = pool.fetch(&request, &Cancel::default())?.rows.len();
            times.push(begin.elapsed());
        }
        times.sort_unstable();
        println!("{name}: {} ms ({found} rows)", times[REPEATS / 2].as_millis());
    }
    Ok(())
}

/// Where cargo has put the worker.
fn dir_of_examples() -> Result<PathBuf, Box<dyn Error>> {
    let program = std::env::current_exe()?;
    Ok(program.parent().and_then(Path::parent).ok_or("no directory")?.to_owned())
}
