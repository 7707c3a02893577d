//! Zone: outside.
//!
//! How fast records are indexed and found: made-up records are indexed and merged hour by hour, and
//! the questions of the web UI are asked.
//!
//! ```sh
//! cargo build --release -p tacho-query --bin tacho-query-worker
//! cargo run --release -p tacho-query --example store_bench -- DIR 10000000 7
//! ```
//!
//! These are 10,000,000 records of three servers in 7 days. Each of 40 applications has a user, a
//! database, 50 statements and 7 connections from 4 hosts; 300 others are used once. The n-th most
//! frequent application has 1/n of the first one's records, and so have its statements. 1 % are
//! errors; a line has about 590 bytes. `DIR` is emptied; it needs 60 bytes a record, and the log of
//! one hour, which is deleted when it is indexed.
//!
//! With `backlog` as a fourth argument all hours arrive at the same time, as from many servers
//! after a time without a hub; the log of all of them is kept until then. With 0 records the
//! questions are asked about the index that `DIR` already has. With `searches` only texts are
//! searched, with a scan before the query and without.

mod searches;

use std::error::Error;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tacho_query::{Cancel, Pool, Request, Settings, find_library};
use tacho_store::rollup::{PartKind, View};
use tacho_store::{Durable, Indexer, IndexerOptions, MergeOptions, Snapshot, Store, merge_step};

const SERVERS: u64 = 3;
/// 2026-10-21T00:00:00Z.
const BEGIN_US: u64 = 1_792_540_800_000_000;
const HOUR_US: u64 = 3_600_000_000;
const DAY_US: i64 = 86_400_000_000;
/// Each question is asked so often; the median counts.
const REPEATS: usize = 9;

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

/// The digest of a statement is its number times this.
const DIGEST: u128 = 0x1234_5678_9ABC_DEF0_1234_5678;

const COMMANDS: [&str; 8] =
    ["select", "select", "select", "insert", "update", "delete", "commit", "set_option"];

/// Writes the lines of an hour. Returns how many there are.
fn generate(
    path: &Path,
    random: &mut Random,
    hour: u64,
    first: u64,
    rows: u64,
) -> std::io::Result<()> {
    let mut out = BufWriter::with_capacity(1 << 20, File::create(path)?);
    let day = jiff::Timestamp::from_microsecond((BEGIN_US + hour * HOUR_US) as i64);
    let day = day.map_err(std::io::Error::other)?.strftime("%Y-%m-%dT%H").to_string();
    for row in 0..rows {
        let seq = first + row;
        let at_us = HOUR_US / rows * row;
        let (second, micro) = (at_us / 1_000_000, at_us % 1_000_000);
        let app = random.skewed(40);
        let statement = app * 50 + random.skewed(50);
        let pooled = app + 40 * random.below(7);
        let conn = if random.below(1_000) == 0 { 1_000 + seq } else { pooled };
        let host = pooled / 40 % 4;
        let time_us = 40 + random.below(200) * random.below(200) * (1 + statement % 7);
        let (outcome, error) = match random.below(100) {
            0 => ("error", ",\"errno\":1062,\"sqlstate\":\"23000\",\"error\":\"Duplicate entry\""),
            _ => ("ok", ""),
        };
        writeln!(
            out,
            "{{\"v\":1,\"seq\":{seq},\"ts\":\"{day}:{:02}:{:02}.{micro:06}+00:00\",\
             \"event\":\"statement\",\"outcome\":\"{outcome}\",\"run\":1,\"conn\":{conn},\
             \"conn_seq\":{seq},\"query_id\":{seq},\"user\":\"app{app}\",\
             \"priv_user\":\"app{app}\",\
             \"host\":\"web{host}.app{app}.example.net\",\"ip\":\"10.0.{app}.{host}\",\"port\":{},\
             \"db\":\"shop{app}\",\"command\":\"Query\",\"sql_command\":\"{}\"{error},\
             \"sql\":\"SELECT c{statement}, \
             name, price FROM t{} WHERE id = {} AND code = 'x{:08x}' LIMIT 10\",\
             \"sql_charset\":\"utf8mb4\",\"digest\":\"1:{:032x}\",\
             \"tables\":[{{\"access\":\"read\",\"db\":\"shop{app}\",\"table\":\"t{}\"}}],\
             \"rows_sent\":{},\"rows_examined\":{},\"query_time_us\":{time_us},\
             \"lock_time_us\":{}}}",
            second / 60,
            second % 60,
            30_000 + conn % 20_000,
            COMMANDS[(statement % 8) as usize],
            statement % 60,
            random.below(10_000_000),
            random.next() as u32,
            u128::from(statement + 1) * DIGEST,
            statement % 60,
            random.skewed(1_000),
            random.skewed(100_000),
            random.below(30),
        )?;
    }
    out.flush()
}

/// Times of the parts of the work.
#[derive(Default)]
struct Spent {
    records: u64,
    bytes: u64,
    indexing: Duration,
    merging: Duration,
    merged: u64,
}

fn fill(
    store: &Store,
    dir: &Path,
    (rows, hours): (u64, u64),
    is_backlog: bool,
) -> Result<Spent, Box<dyn Error>> {
    let indexer = Indexer::start(store.clone(), IndexerOptions::default())?;
    let mut spent = Spent::default();
    let per_hour = rows / SERVERS / hours;
    let mut randoms: Vec<Random> =
        (1..=SERVERS).map(|server| Random(0x9E37_79B9 + server)).collect();
    let mut files = Vec::new();
    for hour in 0..hours {
        for (server, random) in (1..=SERVERS).zip(&mut randoms) {
            let (origin, file) =
                (format!("db{server}"), format!("audit-20261021T000000Z-{:06}.jsonl", hour + 1));
            let path = dir.join(format!("replica/{origin}/1/{file}"));
            fs::create_dir_all(path.parent().ok_or("no directory")?)?;
            generate(&path, random, hour, hour * per_hour + 1, per_hour)?;
            let offset = fs::metadata(&path)?.len();
            spent.bytes += offset;
            files.push(Durable { origin, generation: 1, file, path, offset });
        }
        if !is_backlog || hour + 1 == hours {
            take_in(store, &indexer, std::mem::take(&mut files), is_backlog, &mut spent)?;
        }
    }
    spent.records = indexer.report().records;
    Ok(spent)
}

/// Indexes and merges files, and removes them.
fn take_in(
    store: &Store,
    indexer: &Indexer,
    files: Vec<Durable>,
    is_backlog: bool,
    spent: &mut Spent,
) -> Result<(), Box<dyn Error>> {
    // Fewer segments become one, so that few records are enough for merges of many hours.
    let (parts, fan_in) = if is_backlog { (16, 4) } else { (1, MergeOptions::default().fan_in) };
    let options = MergeOptions { fan_in, ..MergeOptions::default() };
    for part in 1..=parts {
        let begin = Instant::now();
        for file in &files {
            indexer.notify(Durable { offset: file.offset * part / parts, ..file.clone() });
        }
        indexer.flush();
        spent.indexing += begin.elapsed();
        if let Some(error) = indexer.report().error {
            return Err(error.into());
        }
        let begin = Instant::now();
        while let Some(done) = merge_step(store, &options)? {
            spent.merged += done.rows;
        }
        spent.merging += begin.elapsed();
    }
    for file in files {
        fs::remove_file(file.path)?;
    }
    Ok(())
}

/// The most memory that this process has had, in kB.
fn memory_at_most() -> std::io::Result<String> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    Ok(line.unwrap_or("unknown").trim().to_owned())
}

/// A question: queries that are asked one after the other.
struct Question {
    name: &'static str,
    requests: Vec<Request>,
}

fn condition(search: &str) -> Result<String, Box<dyn Error>> {
    Ok(tacho_search::parse(search)?.condition())
}

/// A query over a view of statistics.
fn counted(
    snapshot: &Snapshot,
    view: View,
    (from_us, to_us): (i64, i64),
    coarsest: PartKind,
    sql: &str,
) -> Request {
    let parts = snapshot.parts(from_us, to_us, coarsest);
    let views = vec![(view.name().to_owned(), view.select(&parts, None, "true"))];
    Request { sql: sql.to_owned(), views, ..Request::default() }
}

/// A query over the records.
fn found(
    snapshot: &Snapshot,
    (from_us, to_us): (i64, i64),
    condition: &str,
    rest: &str,
) -> Request {
    let sql = format!(
        "SELECT * FROM records WHERE ts >= make_timestamptz({from_us}) \
         AND ts < make_timestamptz({to_us}) AND {condition} {rest}"
    );
    let files = snapshot.files(from_us, to_us).into_iter().map(Into::into).collect();
    Request { sql, files, ..Request::default() }
}

/// The ranking by time alone.
const TIME: &str = "SELECT digest, sum(query_time_us)::DOUBLE AS t, sum(t) OVER (), \
                    count(*) OVER () FROM statistics GROUP BY digest ORDER BY t DESC LIMIT 20";
/// The same with all other sums of all digests.
const SUMS: &str = "SELECT digest, sum(query_time_us)::DOUBLE AS t, sum(t) OVER (), \
                    count(*) OVER (), sum(n), sum(n) FILTER (WHERE errno IS NOT NULL OR \
                    outcome = 'error'), sum(rows_sent), sum(rows_examined), sum(rows_affected) \
                    FROM statistics GROUP BY digest ORDER BY t DESC LIMIT 20";

fn top(snapshot: &Snapshot, range: (i64, i64), coarsest: PartKind, sql: &str) -> Vec<Request> {
    vec![counted(snapshot, View::Statistics, range, coarsest, sql)]
}

/// The first query of a page: the time of its rows.
fn page(snapshot: &Snapshot, (from_us, to_us): (i64, i64), order: &str) -> Vec<Request> {
    let sql = format!(
        "SELECT min(ts), max(ts) FROM (SELECT ts FROM records WHERE \
         ts >= make_timestamptz({from_us}) AND ts < make_timestamptz({to_us}) \
         ORDER BY {order} LIMIT 101)"
    );
    let files = snapshot.files(from_us, to_us).into_iter().map(Into::into).collect();
    vec![Request { sql, files, ..Request::default() }]
}

/// The columns that say where the line of a record is.
const KEY: &str = "ts, \"server\", seq, generation, file, \"offset\"";

/// The second query of a page: its newest 100 rows, whose time is known by then.
fn page_of(snapshot: &Snapshot, (from_us, to_us): (i64, i64), columns: &str) -> Vec<Request> {
    let rows: u64 = snapshot.segments().map(|it| it.rows).sum();
    let begin = snapshot.segments().map(|it| it.min_ts_us).min().unwrap_or(from_us);
    let end = snapshot.segments().map(|it| it.max_ts_us).max().unwrap_or(to_us);
    // Records are at equal distances.
    let from_us = to_us - (end - begin) / rows.max(1) as i64 * 101;
    let sql = format!(
        "SELECT {columns} FROM records WHERE ts >= make_timestamptz({from_us}) \
         AND ts < make_timestamptz({to_us}) ORDER BY ts DESC, \"server\" DESC, \
         coalesce(seq, 0) DESC, generation DESC, file DESC, \"offset\" DESC LIMIT 4096"
    );
    let files = snapshot.files(from_us, to_us).into_iter().map(Into::into).collect();
    vec![Request { sql, files, ..Request::default() }]
}

/// The most frequent digests.
fn digests() -> String {
    let digests = (1..=20_u128).map(|it| format!("'1:{:032x}'", it * DIGEST));
    digests.collect::<Vec<_>>().join(", ")
}

/// The statement times of the most frequent digests, for percentiles.
fn times(snapshot: &Snapshot, range: (i64, i64), coarsest: PartKind) -> Vec<Request> {
    let sql = format!(
        "SELECT digest::VARCHAR AS k, time_histogram(times, time_us) FROM times \
         WHERE digest::VARCHAR IN ({}) GROUP BY ALL",
        digests()
    );
    vec![counted(snapshot, View::Times, range, coarsest, &sql)]
}

/// The sums of the most frequent digests, in pieces.
fn course(
    snapshot: &Snapshot,
    range: (i64, i64),
    coarsest: PartKind,
    minutes: i64,
) -> Vec<Request> {
    let sql = format!(
        "SELECT digest, epoch_us(ts) // {} AS piece, sum(query_time_us) FROM statistics \
         WHERE digest IN ({}) GROUP BY ALL",
        minutes * 60_000_000,
        digests()
    );
    vec![counted(snapshot, View::Statistics, range, coarsest, &sql)]
}

fn overview(snapshot: &Snapshot, range: (i64, i64), coarsest: PartKind) -> Vec<Request> {
    let of = |view, sql| counted(snapshot, view, range, coarsest, sql);
    vec![
        of(
            View::Statistics,
            "SELECT epoch_us(ts) // 900000000 AS piece, \"server\", sql_command, sum(n), \
             sum(n) FILTER (WHERE errno IS NOT NULL) FROM statistics GROUP BY ALL",
        ),
        of(
            View::Times,
            "SELECT epoch_us(ts) // 900000000 AS piece, time_histogram(times, time_us) \
             FROM times GROUP BY ALL",
        ),
        of(
            View::Connections,
            "SELECT epoch_us(ts) // 900000000 AS piece, \
             approx_count_distinct(hash(\"server\", run, conn)) FROM connections GROUP BY ALL",
        ),
    ]
}

fn questions(snapshot: &Snapshot, days: i64) -> Result<Vec<Question>, Box<dyn Error>> {
    let begin = BEGIN_US as i64;
    let end = begin + days * DAY_US;
    // A day that begins and ends within a minute, as one until now does.
    let day = (end - DAY_US - 7_000_001, end - 7_000_001);
    let all = (begin, end);
    let hour = (end - 5 * HOUR_US as i64, end - 4 * HOUR_US as i64);
    let of = |name, requests| Question { name, requests };
    let newest = "ORDER BY ts DESC LIMIT 100";
    let literal = |range, condition: &str| vec![found(snapshot, range, condition, newest)];
    let number = condition("\"id = 99999999\"")?;
    let lower = |column: &str| format!("contains(lower({column}), lower('id = 99999999'))");
    let converted = format!("({} OR {})", lower("sql"), lower("error"));
    Ok(vec![
        of("top 20 digests of a day", top(snapshot, day, PartKind::Hours, TIME)),
        of("the same with all sums", top(snapshot, day, PartKind::Hours, SUMS)),
        of("the same from the records", top(snapshot, day, PartKind::Records, TIME)),
        of("top 20 digests of all days", top(snapshot, all, PartKind::Hours, TIME)),
        of("the same with all sums", top(snapshot, all, PartKind::Hours, SUMS)),
        of("course of a day by hours", course(snapshot, day, PartKind::Hours, 60)),
        of("course of a day by 61 minutes", course(snapshot, day, PartKind::Minutes, 61)),
        of("statement times of 20 digests of a day", times(snapshot, day, PartKind::Hours)),
        of("overview of a day", overview(snapshot, day, PartKind::Minutes)),
        of("the same from the records", overview(snapshot, day, PartKind::Records)),
        of(
            "first page: the newest 100 records",
            vec![found(snapshot, (end - 600_000_000, end), "true", newest)],
        ),
        of("the time of the newest 100 records", page(snapshot, hour, "ts DESC")),
        of(
            "the same by the whole key",
            page(
                snapshot,
                hour,
                "ts DESC, \"server\" DESC, coalesce(seq, 0) DESC, generation DESC, file DESC, \
                 \"offset\" DESC",
            ),
        ),
        of("the keys of 100 records", page_of(snapshot, hour, KEY)),
        of("all columns of 100 records", page_of(snapshot, hour, "*")),
        of(
            "errors of one user in all days, the newest 100",
            vec![found(snapshot, all, &condition("user:app7 errno:>0")?, newest)],
        ),
        of(
            "one connection of all days, the first 1000",
            vec![found(
                snapshot,
                all,
                &condition("server:db2 run:1 conn:47")?,
                "ORDER BY ts LIMIT 1000",
            )],
        ),
        of("a literal in one hour", literal(hour, &condition("x0badc0de")?)),
        of("a literal in a day", literal(day, &condition("x0badc0de")?)),
        of("a number in a day", literal(day, &number)),
        of("the same, all statements converted", literal(day, &converted)),
    ])
}

/// Asks a question once. Returns the number of rows.
fn ask(pool: &Pool, question: &Question) -> Result<usize, Box<dyn Error>> {
    let mut rows = 0;
    for request in &question.requests {
        let request = Request {
            max_rows: 1_000_000,
            max_bytes: 1 << 30,
            timeout: Duration::from_secs(300),
            ..request.clone()
        };
        rows += pool.fetch(&request, &Cancel::default())?.rows.len();
    }
    Ok(rows)
}

/// Asks all questions in turn, so that a slow moment of the machine is one of all of them.
fn ask_all(pool: &Pool, questions: &[Question]) -> Result<(), Box<dyn Error>> {
    let mut asked = vec![(Vec::new(), 0); questions.len()];
    for _ in 0..REPEATS {
        for (question, (times, rows)) in questions.iter().zip(&mut asked) {
            let begin = Instant::now();
            *rows = ask(pool, question)?;
            times.push(begin.elapsed().as_micros());
        }
    }
    for (question, (mut times, rows)) in questions.iter().zip(asked) {
        times.sort_unstable();
        let median = times[REPEATS / 2] as f64 / 1e3;
        println!("{}: {median:.1} ms ({rows} rows)", question.name);
    }
    Ok(())
}

fn build(dir: &Path, size: (u64, u64), is_backlog: bool) -> Result<Store, Box<dyn Error>> {
    for name in ["store", "replica", "temp"] {
        if dir.join(name).exists() {
            fs::remove_dir_all(dir.join(name))?;
        }
    }
    let store = Store::open(&dir.join("store"))?;
    let spent = fill(&store, dir, size, is_backlog)?;
    let rate = |count: u64, time: Duration| count as f64 / time.as_secs_f64();
    println!(
        "indexed: {} records of {} B, {:.0}/s; merged: {} rows, {:.0}/s; memory at most {}",
        spent.records,
        spent.bytes / spent.records.max(1),
        rate(spent.records, spent.indexing),
        spent.merged,
        rate(spent.merged, spent.merging),
        memory_at_most()?
    );
    Ok(store)
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, dir, rows, days, more @ ..] = &arguments[..] else {
        return Err("usage: store_bench DIR ROWS DAYS [backlog] [searches]".into());
    };
    let (dir, rows, days) = (Path::new(dir), rows.parse()?, days.parse::<u64>()?.max(1));
    let store = match rows {
        0 => Store::open(&dir.join("store"))?,
        _ => build(dir, (rows, days * 24), more.iter().any(|it| it == "backlog"))?,
    };
    let snapshot = store.snapshot();
    let records: u64 = snapshot.segments().map(|it| it.rows).sum();
    let sum = |bytes: &dyn Fn(&tacho_store::SegmentInfo) -> u64| {
        snapshot.segments().map(bytes).sum::<u64>() as f64 / records.max(1) as f64
    };
    println!(
        "{} segments; bytes a record: {:.1}, minutes {:.1}, hours {:.1}",
        snapshot.segments().count(),
        sum(&|it| it.bytes),
        sum(&|it| it.rollup_bytes.map_or(0, |[minutes, _]| minutes)),
        sum(&|it| it.rollup_bytes.map_or(0, |[_, hours]| hours))
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
    if !more.iter().any(|it| it == "searches") {
        ask_all(&pool, &questions(&snapshot, days as i64)?)?;
    }
    let code = searches::code_of_one(&pool, &snapshot, days as i64)?;
    ask_all(&pool, &searches::searches(&snapshot, days as i64, &code)?)
}

/// Where cargo has put the worker.
fn dir_of_examples() -> Result<PathBuf, Box<dyn Error>> {
    let program = std::env::current_exe()?;
    Ok(program.parent().and_then(Path::parent).ok_or("no directory")?.to_owned())
}
