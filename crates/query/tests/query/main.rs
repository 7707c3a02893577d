//! Queries in a worker process: answers, limits, and attempts to break out.

mod breakout;
mod prescan;
mod rollups;
mod rows;
mod search;

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use serde_json::{Value, json};
use tacho_query::{Answer, Cancel, Pool, QueryError, Request, Settings, Times, find_library};
use tacho_store::{COLUMNS, Durable, Indexer, IndexerOptions, Snapshot, Store, record_json};

/// DuckDB's library, which is fetched if it is not there.
fn library() -> PathBuf {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    let fetched = || {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/setup-duckdb.sh");
        let output = Command::new(script).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().into()
    };
    LIBRARY.get_or_init(|| find_library().unwrap_or_else(fetched)).clone()
}

/// A store with some records, and a pool.
struct Hub {
    dir: tempfile::TempDir,
    store: Store,
    snapshot: Snapshot,
    pool: Pool,
}

fn line(seq: u64) -> String {
    let tables = match seq % 3 {
        0 => r#","tables":[{"access":"read","db":"shop","table":"card"}]"#,
        _ => "",
    };
    format!(
        "{{\"v\":1,\"seq\":{seq},\"ts\":\"2026-11-21T10:{:02}:{:02}.000007+01:00\",\
         \"event\":\"statement\",\"outcome\":\"ok\",\"user\":\"app{}\",\"sql\":\"SELECT {seq}\"\
         {tables},\"rows_sent\":{seq},\"query_time_us\":{}}}",
        seq / 60 % 60,
        seq % 60,
        seq % 2,
        seq * 10
    )
}

impl Hub {
    fn new() -> Self {
        Self::with(|_| {})
    }

    fn with(change: impl FnOnce(&mut Settings)) -> Self {
        Self::of_lines((1..=300).map(line), change)
    }

    fn of_lines(lines: impl Iterator<Item = String>, change: impl FnOnce(&mut Settings)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("replica/db1/1/audit-20261121T100000Z-000001.jsonl");
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let text: String = lines.map(|line| line + "\n").collect();
        fs::write(&path, &text).unwrap();
        let store = Store::open(&dir.path().join("store")).unwrap();
        let indexer = Indexer::start(store.clone(), IndexerOptions::default()).unwrap();
        indexer.notify(Durable {
            origin: "db1".to_owned(),
            generation: 1,
            file: "audit-20261121T100000Z-000001.jsonl".to_owned(),
            path,
            offset: text.len() as u64,
        });
        indexer.flush();
        Self::of_store(dir, store, change)
    }

    fn of_store(dir: tempfile::TempDir, store: Store, change: impl FnOnce(&mut Settings)) -> Self {
        fs::create_dir(dir.path().join("temp")).unwrap();
        let mut settings = Settings {
            command: vec![env!("CARGO_BIN_EXE_tacho-query-worker").into()],
            library: library(),
            data_dir: store.segments_dir(),
            temp_dir: dir.path().join("temp"),
            workers: 1,
            waiting: 4,
            memory_bytes: 256 << 20,
            threads: 1,
            temp_bytes: 64 << 20,
        };
        change(&mut settings);
        let snapshot = store.snapshot();
        Self { dir, store, snapshot, pool: Pool::new(settings) }
    }

    fn request(&self, sql: &str) -> Request {
        let files = self.snapshot.files(i64::MIN, i64::MAX);
        Request {
            sql: sql.to_owned(),
            files: files.into_iter().map(Into::into).collect(),
            max_rows: 1_000,
            max_bytes: 1 << 20,
            timeout: Duration::from_secs(60),
            ..Request::default()
        }
    }

    fn fetch(&self, sql: &str) -> Answer {
        self.pool.fetch(&self.request(sql), &Cancel::default()).unwrap()
    }

    fn users(&self, sql: &str) -> Result<Answer, QueryError> {
        let request = Request { is_users: true, ..self.request(sql) };
        self.pool.fetch(&request, &Cancel::default())
    }
}

#[test]
fn records_come_back_as_their_lines() {
    let hub = Hub::new();
    let sql = "SELECT * FROM records ORDER BY seq";
    let request = Request { times: Times::Micros, ..hub.request(sql) };
    let answer = hub.pool.fetch(&request, &Cancel::default()).unwrap();
    assert_eq!(answer.columns.len(), COLUMNS.len());
    let found: Vec<String> = answer.rows.iter().map(|row| record_json(row).unwrap()).collect();
    let server = ",\"server\":\"db1\"}";
    let wanted = (1..=300).map(|seq| line(seq).strip_suffix('}').unwrap().to_owned() + server);
    assert_eq!(found, wanted.collect::<Vec<_>>());
}

#[test]
fn values_of_all_types_are_json() {
    let hub = Hub::new();
    let answer = hub.fetch(
        "SELECT 1::TINYINT, -2::HUGEINT, 1.50, 2.5::DOUBLE, 'NaN'::DOUBLE, true, NULL, 'a\"é', \
         'longer than twelve', TIMESTAMPTZ '2026-11-21 01:02:03.5+01', DATE '2026-11-21', [1, 2], \
         {'a': [{'b': 'x'}], 'c': NULL}, uuid '00000000-0000-0000-0000-000000000001', \
         INTERVAL 3 HOUR, MAP {'k': 1}, 18446744073709551615::UBIGINT",
    );
    assert_eq!(
        Value::from(answer.rows[0].clone()),
        json!([
            1, -2, 1.5, 2.5, "NaN", true, null, "a\"é", "longer than twelve",
            "2026-11-21T00:02:03.500000Z", "2026-11-21", [1, 2], {"a": [{"b": "x"}], "c": null},
            "00000000-0000-0000-0000-000000000001", "03:00:00", "{k=1}", 18446744073709551615_u64
        ])
    );
    let kinds: Vec<_> = answer.columns.iter().map(|column| &*column.kind).collect();
    assert_eq!(kinds[..4], ["integer", "integer", "number", "number"]);
}

#[test]
fn a_user_may_compute_with_the_view() {
    let hub = Hub::new();
    for (sql, wanted) in [
        ("SELECT count(*) FROM records", json!([300])),
        ("SELECT sum(rows_sent) FROM main.records WHERE \"user\" = 'app1';", json!([22500])),
        (
            "WITH a AS (SELECT seq FROM records), b AS (FROM a) SELECT max(seq) FROM b -- x",
            json!([300]),
        ),
        ("SELECT count(*) FROM records r JOIN records s USING (seq) WHERE r.seq < 11", json!([10])),
        ("SELECT count(*) FROM range(5), unnest([1, 2])", json!([10])),
        (
            "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < 9) \
          SELECT sum(n) FROM t",
            json!([45]),
        ),
        (
            "SELECT count(*) FROM records WHERE len(list_filter(tables, lambda t: t.db = 'shop')) > 0",
            json!([100]),
        ),
        ("SELECT quantile_cont(query_time_us, 0.5) FROM records", json!([1505.0])),
        ("VALUES (1)", json!([1])),
    ] {
        let answer = hub.users(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
        assert_eq!(Value::from(answer.rows[0].clone()), wanted, "{sql}");
    }
    let sql = "SELECT event FROM nowhere.records";
    assert!(matches!(hub.users(sql), Err(QueryError::Sql { is_forbidden: true, .. })));
    let error = hub.users("SELECT nothing FROM records").unwrap_err();
    assert!(error.to_string().contains("nothing"), "{error}");
}

#[test]
fn a_filter_and_further_views_limit_what_is_seen() {
    let hub = Hub::new();
    let request = Request {
        filter: Some("\"user\" = 'app1'".to_owned()),
        views: vec![("big".to_owned(), "SELECT seq FROM records WHERE seq > 290".to_owned())],
        is_users: true,
        ..hub.request("SELECT count(*) FROM big")
    };
    let answer = hub.pool.fetch(&request, &Cancel::default()).unwrap();
    assert_eq!(answer.rows, [[json!(5)]]);
    // The next query has its own.
    assert_eq!(hub.fetch("SELECT count(*) FROM records").rows, [[json!(300)]]);
}

#[test]
fn large_answers_are_cut() {
    let hub = Hub::new();
    let answer = hub.fetch("SELECT * FROM range(1000000)");
    assert!(answer.is_truncated);
    assert_eq!(answer.rows.len(), 1_000);
    let answer = hub.fetch("SELECT repeat('x', 100000) FROM range(1000)");
    assert!(answer.is_truncated);
    assert_eq!(answer.rows.len(), 10);
    assert!(!hub.fetch("SELECT * FROM range(1000)").is_truncated);
}

/// Takes minutes, and no memory.
const LONG: &str = "SELECT count(*) FROM range(1000000000000) WHERE hash(range) = 1";

#[test]
fn a_query_can_be_cancelled_and_ends_in_time() {
    let hub = Hub::new();
    let cancel = Cancel::default();
    std::thread::scope(|scope| {
        let query = scope.spawn(|| hub.pool.fetch(&hub.request(LONG), &cancel));
        std::thread::sleep(Duration::from_millis(300));
        cancel.cancel();
        assert!(matches!(query.join().unwrap(), Err(QueryError::Cancelled)));
    });
    let request = Request { timeout: Duration::from_millis(300), ..hub.request(LONG) };
    let result = hub.pool.fetch(&request, &Cancel::default());
    assert!(matches!(result, Err(QueryError::Timeout(_))), "{result:?}");
    let mut pieces = 0;
    let result = hub.pool.stream(
        &Request { max_rows: u64::MAX, ..hub.request("SELECT * FROM range(100000000)") },
        &Cancel::default(),
        &mut |_, _| {
            pieces += 1;
            pieces < 3
        },
    );
    assert!(matches!(result, Err(QueryError::Cancelled)));
    assert_eq!(hub.fetch("SELECT count(*) FROM records").rows, [[json!(300)]]);
}

#[test]
fn a_worker_outlives_the_thread_that_has_started_it() {
    let hub = Hub::new();
    std::thread::scope(|scope| scope.spawn(|| hub.fetch("SELECT 1")).join().unwrap());
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(hub.fetch("SELECT count(*) FROM records").rows, [[json!(300)]]);
}

#[test]
fn too_many_queries_are_refused_not_queued() {
    let hub = Hub::with(|settings| settings.waiting = 0);
    let cancel = Cancel::default();
    std::thread::scope(|scope| {
        // The queries of the loop below may be first.
        let query = scope.spawn(|| {
            loop {
                match hub.pool.fetch(&hub.request(LONG), &cancel) {
                    Err(QueryError::Busy) => std::thread::yield_now(),
                    other => return other,
                }
            }
        });
        while !matches!(
            hub.pool.fetch(&hub.request("SELECT 1"), &Cancel::default()),
            Err(QueryError::Busy)
        ) {
            assert!(!query.is_finished());
            std::thread::sleep(Duration::from_millis(5));
        }
        cancel.cancel();
        assert!(matches!(query.join().unwrap(), Err(QueryError::Cancelled)));
    });
}

#[test]
fn a_query_that_needs_too_much_fails_and_the_next_one_works() {
    let hub = Hub::with(|settings| {
        settings.memory_bytes = 64 << 20;
        settings.temp_bytes = 1 << 20;
    });
    for sql in [
        "SELECT list(repeat('x', 1000) || range) FROM range(10000000)",
        "SELECT count(*) FROM (SELECT DISTINCT repeat('x', 100) || range FROM range(10000000))",
        "SELECT length(repeat(repeat('x', 1000000), 3000))",
    ] {
        let error = hub.users(sql).unwrap_err();
        let is_expected =
            matches!(error, QueryError::Memory(_) | QueryError::Died(_) | QueryError::Sql { .. });
        assert!(is_expected, "{sql}: {error:?}");
        assert_eq!(hub.fetch("SELECT count(*) FROM records").rows, [[json!(300)]]);
    }
}

#[test]
fn a_missing_segment_is_an_error() {
    let hub = Hub::new();
    assert_eq!(hub.fetch("SELECT 1").rows, [[json!(1)]]);
    let request = Request { files: vec![hub.dir.path().join("gone")], ..hub.request("SELECT 1") };
    assert!(hub.pool.fetch(&request, &Cancel::default()).is_err());
    assert_eq!(hub.fetch("SELECT 1").rows, [[json!(1)]]);
}

#[test]
fn a_missing_library_or_program_is_an_error() {
    let hub = Hub::with(|settings| settings.library = "/nowhere/libduckdb.so".into());
    let error = hub.users("SELECT 1").unwrap_err();
    assert!(matches!(&error, QueryError::Unavailable(it) if it.contains("/nowhere")), "{error}");
    let hub = Hub::with(|settings| settings.command = vec!["/nowhere/hub".into()]);
    assert!(matches!(hub.users("SELECT 1"), Err(QueryError::Unavailable(_))));
    let hub = Hub::with(|settings| settings.command = vec!["/bin/true".into()]);
    assert!(matches!(hub.users("SELECT 1"), Err(QueryError::Unavailable(_))));
}
