//! Lines of a replica are in the store once, and come back as they were.

mod forget;
mod merging;
mod rows;
mod versions;

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use proptest::prelude::*;
use rows::{column, records};
use tacho_record::json::write_line;
use tacho_record::time::TimeFormatter;
use tacho_record::{Attribute, EventKind, Outcome, Record, TableAccess, TableUse};
use tacho_store::{
    Durable, Indexer, IndexerOptions, MergeOptions, Reader, Snapshot, Store, StoreError, line_json,
    merge_step,
};

const FILE: &str = "audit-20261121T100000Z-000001.jsonl";

/// A replica and a store.
struct Hub {
    dir: tempfile::TempDir,
}

impl Hub {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    fn store_dir(&self) -> PathBuf {
        self.dir.path().join("store")
    }

    fn open(&self) -> Store {
        Store::open(&self.store_dir()).unwrap()
    }

    fn path(&self, origin: &str, generation: u32) -> PathBuf {
        self.dir.path().join(format!("replica/{origin}/{generation}/{FILE}"))
    }

    /// Appends to a log file, and says so.
    fn append(&self, indexer: &Indexer, origin: &str, generation: u32, bytes: &[u8]) {
        let path = self.path(origin, generation);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let mut file = OpenOptions::new().append(true).create(true).open(&path).unwrap();
        file.write_all(bytes).unwrap();
        self.notify(indexer, origin, generation);
    }

    fn notify(&self, indexer: &Indexer, origin: &str, generation: u32) {
        let path = self.path(origin, generation);
        let offset = fs::metadata(&path).unwrap().len();
        let (origin, file) = (origin.to_owned(), FILE.to_owned());
        indexer.notify(Durable { origin, generation, file, path, offset });
    }
}

fn start(store: &Store) -> Indexer {
    let options = IndexerOptions {
        interval: Duration::ZERO,
        retry: Duration::from_millis(10),
        ..IndexerOptions::default()
    };
    Indexer::start(store.clone(), options).unwrap()
}

fn line(seq: u64) -> String {
    let second = seq % 60;
    format!(
        "{{\"v\":1,\"seq\":{seq},\"ts\":\"2026-11-21T10:00:{second:02}.000000+00:00\",\
         \"event\":\"statement\",\"outcome\":\"ok\",\"sql\":\"SELECT {seq}\"}}\n"
    )
}

fn lines(range: impl Iterator<Item = u64>) -> String {
    range.map(line).collect()
}

/// The answer for a line.
fn expected(line: &str, server: &str) -> String {
    format!("{},\"server\":\"{server}\"}}", line.trim_end().strip_suffix('}').unwrap())
}

#[test]
fn lines_come_back_also_those_that_columns_cannot_hold() {
    let hub = Hub::new();
    let store = hub.open();
    let indexer = start(&store);
    let head = r#"{"v":1,"seq":1,"ts":"2026-11-21T01:02:03.123456+01:00","event":"statement""#;
    let same = [
        format!(r#"{head},"later":{{"x":[1]}}}}"#),
        format!(r#"{head},"user":"a\ufffd","user_b64":"Yf8="}}"#),
        format!(r#"{head},"user":"\u0061"}}"#),
        format!(r#"{head} }}"#),
        format!(r#"{head},"sql":"","rows_sent":18446744073709551615}}"#),
        format!(r#"{head},"attributes":[{{"key":"","value":"x"}}]}}"#),
        head.replace("+01:00", "-00:00") + "}",
        head.replace("01:02:03.123456+01:00", "01:02:03Z") + "}",
        head.replace("\"seq\":1", "\"seq\":18446744073709551615") + "}",
    ];
    for line in &same {
        hub.append(&indexer, "db1", 1, format!("{line}\n").as_bytes());
    }
    indexer.flush();
    let mut found = records(&store.snapshot());
    let mut wanted: Vec<_> = same.iter().map(|line| expected(line, "db1")).collect();
    found.sort();
    wanted.sort();
    assert_eq!(found, wanted);
    assert!(same.iter().all(|line| found.contains(&line_json("db1", line, true))));
    assert_eq!(indexer.report().unreadable, 0);

    for line in [&b"not JSON"[..], b"\xFF", b"", b"{\"v\":2,\"seq\":1}", b"{\"v\":1,\"seq\":0}"] {
        hub.append(&indexer, "db2", 1, &[line, b"\n"].concat());
    }
    indexer.flush();
    assert_eq!(indexer.report().unreadable, 5);
    let texts = records(&store.snapshot());
    assert!(texts.contains(&r#"{"raw":"not JSON","server":"db2"}"#.to_owned()), "{texts:?}");
    for line in ["not JSON", "", "{\"v\":2,\"seq\":1}", "{\"v\":1,\"seq\":0}"] {
        assert!(texts.contains(&line_json("db2", line, false)), "{line}: {texts:?}");
    }
    assert_eq!(store.origins()["db2"].records, 5);
}

#[test]
fn the_records_own_server_is_its_version() {
    let hub = Hub::new();
    let store = hub.open();
    let indexer = start(&store);
    let head = r#"{"v":1,"seq":1,"ts":"2026-11-21T01:02:03.123456+01:00","event":"start""#;
    let first = format!(r#"{head},"server":"MariaDB 10.11"}}"#);
    let second = format!(r#"{head},"server":"MariaDB 10.11","later":1}}"#);
    hub.append(&indexer, "db1", 1, format!("{first}\n{second}\n").as_bytes());
    indexer.flush();
    let renamed = |line: &str| expected(&line.replace("\"server\"", "\"server_version\""), "db1");
    assert_eq!(records(&store.snapshot()), [renamed(&first), renamed(&second)]);
    assert_eq!(line_json("db1", &first, true), renamed(&first));
}

#[test]
fn what_is_indexed_is_indexed_once_whenever_the_process_ends() {
    let hub = Hub::new();
    let all = lines(1..=300);
    let mut at = 0;
    // Pieces end anywhere, also within a line.
    for piece in [1, 70, 5_000, 37, 9_000, 1_000_000] {
        let store = hub.open();
        assert_eq!(store.rebuilt(), None);
        let indexer = start(&store);
        let end = all.len().min(at + piece);
        hub.append(&indexer, "db1", 1, &all.as_bytes()[at..end]);
        at = end;
        indexer.flush();
        let whole = all[..end].rfind('\n').map_or(0, |last| last + 1);
        assert_eq!(store.watermark("db1", 1, FILE), whole as u64);
        let wanted: Vec<_> = all[..whole].lines().map(|line| expected(line, "db1")).collect();
        let mut found = records(&store.snapshot());
        found.sort_by_key(|record| record.split(',').nth(1).map(|seq| (seq.len(), seq.to_owned())));
        assert_eq!(found, wanted);
        // A segment that was written and not committed.
        fs::write(hub.store_dir().join("segments/0000009999.parquet"), b"torn").unwrap();
    }
    assert!(!hub.open().dir().join("segments/0000009999.parquet").exists());
}

#[test]
fn lines_of_two_generations_at_the_same_place_are_one() {
    let hub = Hub::new();
    let store = hub.open();
    let indexer = start(&store);
    hub.append(&indexer, "db1", 1, lines(1..=50).as_bytes());
    indexer.flush();
    // The host has lost lines 31 to 50, and has written others.
    let (kept, others) = (lines(1..=30), lines(131..=140));
    hub.append(&indexer, "db1", 2, kept.as_bytes());
    hub.append(&indexer, "db1", 2, others.as_bytes());
    indexer.flush();
    assert_eq!(column(&store.snapshot(), "seq").len(), 60);
    assert_eq!(indexer.report().known, 30);
    let totals = store.origins()["db1"];
    assert_eq!((totals.records, totals.generation, totals.seq), (60, 2, 140));
    // A changed line is another one; those behind it are the same.
    let changed = lines(1..=50).replacen("SELECT 7\"", "SELECT 8\"", 1);
    hub.append(&indexer, "db1", 3, changed.as_bytes());
    indexer.flush();
    assert_eq!(column(&store.snapshot(), "seq").len(), 61);
}

#[test]
fn rows_are_sorted_by_server_and_time() {
    let hub = Hub::new();
    let store = hub.open();
    let options = IndexerOptions { linger: Duration::from_secs(60), ..IndexerOptions::default() };
    let indexer = Indexer::start(store.clone(), options).unwrap();
    for origin in ["db2", "db1"] {
        hub.append(&indexer, origin, 1, lines((1..=40).rev()).as_bytes());
    }
    indexer.flush();
    let (servers, seqs) = (column(&store.snapshot(), "server"), column(&store.snapshot(), "seq"));
    assert_eq!(store.snapshot().segments().count(), 1);
    assert_eq!((servers[0].as_str(), servers[79].as_str()), (Some("db1"), Some("db2")));
    assert!(seqs[..40].is_sorted_by_key(|seq| seq.as_u64()));
    assert!(seqs[40..].is_sorted_by_key(|seq| seq.as_u64()));
}

#[test]
fn a_damaged_store_is_built_again() {
    let hub = Hub::new();
    let damages: [fn(&Path); 5] = [
        // An earlier version.
        |segments| {
            let path = segments.with_file_name("catalogue.sqlite");
            let connection = rusqlite::Connection::open(path).unwrap();
            connection.pragma_update(None, "user_version", 1).unwrap();
        },
        |segments| {
            let mut paths = fs::read_dir(segments).unwrap().map(|entry| entry.unwrap().path());
            let is_rollup = |path: &PathBuf| path.to_string_lossy().ends_with(".hours.parquet");
            fs::remove_file(paths.find(is_rollup).unwrap()).unwrap();
        },
        |segments| {
            let mut paths = fs::read_dir(segments).unwrap().map(|entry| entry.unwrap().path());
            let first = paths.find(|path| !path.ends_with("empty.parquet")).unwrap();
            fs::remove_file(first).unwrap();
        },
        |segments| {
            let mut paths = fs::read_dir(segments).unwrap().map(|entry| entry.unwrap().path());
            let first = paths.find(|path| !path.ends_with("empty.parquet")).unwrap();
            let bytes = fs::read(&first).unwrap();
            fs::write(first, vec![0; bytes.len()]).unwrap();
        },
        |segments| {
            fs::write(segments.with_file_name("catalogue.sqlite"), vec![7; 4096]).unwrap();
        },
    ];
    {
        let store = hub.open();
        let indexer = start(&store);
        hub.append(&indexer, "db1", 1, lines(1..=9).as_bytes());
        indexer.flush();
    }
    for damage in damages {
        damage(&hub.store_dir().join("segments"));
        let store = hub.open();
        assert!(store.rebuilt().is_some());
        assert_eq!(store.watermark("db1", 1, FILE), 0);
        let indexer = start(&store);
        hub.notify(&indexer, "db1", 1);
        indexer.flush();
        assert_eq!(records(&store.snapshot()).len(), 9);
        let options = MergeOptions { fan_in: 1, ..MergeOptions::default() };
        merge_step(&store, &options).unwrap().unwrap();
    }
}

#[test]
fn rollups_are_made_again_byte_by_byte() {
    let rollups = |hub: &Hub| {
        let store = hub.open();
        let indexer = start(&store);
        let text: String = (1..=500)
            .map(|seq| {
                let fields = format!("\"conn\":{},\"user\":\"u{}\"", seq % 7, seq % 11);
                line(seq).replace("\"sql\"", &format!("{fields},\"sql\""))
            })
            .collect();
        hub.append(&indexer, "db1", 1, text.as_bytes());
        indexer.flush();
        let options = MergeOptions { fan_in: 1, ..MergeOptions::default() };
        merge_step(&store, &options).unwrap().unwrap();
        let segment = store.snapshot().segments().next().unwrap().clone();
        ["minutes", "hours"].map(|step| {
            let name = format!("{:010}.{step}.parquet", segment.id);
            fs::read(store.segments_dir().join(name)).unwrap()
        })
    };
    let [first, second] = [Hub::new(), Hub::new()].map(|hub| rollups(&hub));
    assert_eq!(first, second);
}

#[test]
fn digests_have_their_texts() {
    let hub = Hub::new();
    let digest = |digit: char| format!("1:{}", digit.to_string().repeat(32));
    for round in 0..2 {
        let store = hub.open();
        let indexer = start(&store);
        let fields = format!("\"sql\":\"SELECT {round}\",\"digest\":\"{}\"", digest('a'));
        let line = line(round + 1).replace(&format!("\"sql\":\"SELECT {}\"", round + 1), &fields);
        assert!(line.contains("digest"));
        hub.append(&indexer, "db1", 1, line.as_bytes());
        indexer.flush();
        let texts = store.digest_texts([&*digest('a'), &*digest('b')]).unwrap();
        assert_eq!(texts.into_iter().collect::<Vec<_>>(), [(digest('a'), "SELECT ?".to_owned())]);
    }
}

#[test]
fn an_error_changes_nothing_and_is_reported() {
    let hub = Hub::new();
    let store = hub.open();
    let indexer = start(&store);
    hub.append(&indexer, "db1", 1, lines(1..=9).as_bytes());
    indexer.flush();
    let segments = hub.store_dir().join("segments");
    let aside = hub.store_dir().join("aside");
    fs::rename(&segments, &aside).unwrap();
    hub.append(&indexer, "db1", 1, lines(10..=12).as_bytes());
    indexer.flush();
    assert!(indexer.report().error.is_some());
    assert_eq!(store.origins()["db1"].records, 9);
    fs::rename(&aside, &segments).unwrap();
    indexer.flush();
    while indexer.report().error.is_some() {
        indexer.flush();
    }
    assert_eq!(records(&store.snapshot()).len(), 12);
}

#[test]
fn a_file_that_cannot_be_read_does_not_stop_others() {
    let hub = Hub::new();
    let store = hub.open();
    let indexer = start(&store);
    let file = hub.path("db1", 1);
    hub.append(&indexer, "db1", 1, b"");
    let durable = Durable {
        origin: "db1".to_owned(),
        generation: 1,
        file: FILE.to_owned(),
        path: file.clone(),
        offset: 100,
    };
    indexer.notify(durable);
    hub.append(&indexer, "db2", 1, lines(1..=9).as_bytes());
    indexer.flush();
    assert_eq!(records(&store.snapshot()).len(), 9);
    let failed = indexer.report().failed;
    let (key, failure) = failed.first_key_value().unwrap();
    assert_eq!((failed.len(), &*key.origin, failure.indexed), (1, "db1", 0));
    assert!(failure.reason.contains(FILE), "{failure:?}");
    // It is tried again.
    fs::write(&file, lines(1..=9)).unwrap();
    while !indexer.report().failed.is_empty() {
        indexer.flush();
    }
    // Of the first 100 bytes no line is whole.
    assert_eq!(store.watermark("db1", 1, FILE), 0);
    hub.notify(&indexer, "db1", 1);
    indexer.flush();
    assert_eq!(records(&store.snapshot()).len(), 18);
}

#[test]
fn merging_changes_no_record_and_snapshots_keep_theirs() {
    let hub = Hub::new();
    let store = hub.open();
    let indexer = start(&store);
    let sorted = |snapshot: &Snapshot| {
        let mut all = records(snapshot);
        all.sort();
        all
    };
    let options = MergeOptions { fan_in: 3, ..MergeOptions::default() };
    let mut wanted = Vec::new();
    let mut first = None;
    for part in 0..27_usize {
        let origin = ["db1", "db2"][part % 2];
        // Of three hours.
        let text = lines((1..=20).map(|seq| seq + part as u64 * 20));
        let text = text.replace("T10:", ["T10:", "T11:", "T12:"][part % 3]);
        hub.append(&indexer, origin, 1, text.as_bytes());
        indexer.flush();
        wanted.extend(text.lines().map(|line| expected(line, origin)));
        wanted.sort();
        if part == 2 {
            first = Some((store.snapshot(), wanted.clone()));
        }
        while merge_step(&store, &options).unwrap().is_some() {
            assert_eq!(sorted(&store.snapshot()), wanted);
        }
    }
    let after = store.snapshot();
    assert_eq!(after.segments().count(), 3);
    for info in after.segments() {
        assert_eq!(info.min_ts_us / 3_600_000_000, info.max_ts_us / 3_600_000_000);
        assert_eq!(info.rows, 180);
    }
    // The first snapshot's files are there until it is dropped.
    let (first, wanted_first) = first.unwrap();
    assert_eq!(first.segments().count(), 3);
    assert_eq!(sorted(&first), wanted_first);
    assert_eq!(store.empty_trash().unwrap(), 0);
    let files = || fs::read_dir(store.segments_dir()).unwrap().count();
    // With their rollups, and the empty one.
    assert_eq!(files(), 3 + 3 * 3 + 1);
    drop(first);
    // While another process reads, nothing is deleted.
    let reader = Reader::snapshot(store.dir()).unwrap();
    assert_eq!(store.empty_trash().unwrap(), 3);
    assert_eq!(sorted(&reader), wanted);
    drop(reader);
    assert_eq!(store.empty_trash().unwrap(), 0);
    assert_eq!(files(), 3 * 3 + 1);
    drop((indexer, after, store));
    let store = hub.open();
    assert_eq!((store.rebuilt(), sorted(&store.snapshot())), (None, wanted));
}

#[test]
fn another_process_reads_and_does_not_write() {
    let hub = Hub::new();
    assert!(matches!(Reader::snapshot(&hub.store_dir()), Err(StoreError::Missing(_))));
    let store = hub.open();
    let indexer = start(&store);
    hub.append(&indexer, "db1", 1, lines(1..=9).as_bytes());
    indexer.flush();
    assert!(matches!(Store::open(&hub.store_dir()), Err(StoreError::Locked(_))));
    let snapshot = Reader::snapshot(&hub.store_dir()).unwrap();
    hub.append(&indexer, "db1", 1, lines(10..=12).as_bytes());
    indexer.flush();
    assert_eq!(records(&snapshot).len(), 9);
    assert_eq!(records(&Reader::snapshot(&hub.store_dir()).unwrap()).len(), 12);
}

fn any_text() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        4 => "[a-z\"\\\\\n\t\u{0}\u{1f}\u{7f}é表😀\u{2028}]{0,12}".prop_map(String::into_bytes),
        1 => proptest::collection::vec(any::<u8>(), 0..12),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn any_record_comes_back(
        cases in proptest::collection::vec(
            (proptest::collection::vec(any_text(), 16), any::<u64>(), any::<i64>(), 0..6_usize),
            1..12,
        ),
    ) {
        let mut text = Vec::new();
        let mut wanted = Vec::new();
        for (texts, number, ts_us, zone) in &cases {
            let zone = ["UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Asia/Tokyo",
                "Pacific/Chatham"][*zone];
            let some = |bit: u32| (number >> bit & 1 == 1).then_some(number >> (bit % 60));
            let tables = [TableUse {
                access: TableAccess::Rename,
                db: &texts[10],
                table: &texts[11],
                new_db: &texts[12],
                new_table: &texts[13],
            }];
            let attributes = [Attribute { key: &texts[14], value: &texts[15] }];
            let record = Record {
                seq: (*number).max(1),
                ts_us: *ts_us,
                event: Some(EventKind::ALL[*number as usize % EventKind::ALL.len()]),
                outcome: some(3).map(|_| Outcome::Error),
                run: some(4), conn: some(5), conn_seq: some(6), query_id: some(7),
                user: &texts[0], host: &texts[1], db: &texts[2], sql_command: &texts[3],
                error: &texts[4], port: some(8).map(|port| port as u16), errno: *number as u32,
                sql: some(9).map(|_| &texts[5][..]), sql_charset: b"latin1",
                sql_redacted: some(10).is_some(),
                digest: if some(11).is_some() { b"1:00112233445566778899aabbccddeeff" } else { b"" },
                tables: if some(12).is_some() { &tables } else { &[] },
                rows_sent: some(13), query_time_us: some(14), start_ts_us: some(15).map(|_| *ts_us),
                variable: &texts[6], old_value: &texts[7], class: b"message", object: &texts[8],
                detail: &texts[9],
                attributes: if some(16).is_some() { &attributes } else { &[] },
                ..Record::default()
            };
            let begin = text.len();
            write_line(&mut text, &record, &mut TimeFormatter::named(zone).unwrap());
            wanted.push(expected(std::str::from_utf8(&text[begin..]).unwrap(), "db1"));
        }
        let hub = Hub::new();
        let store = hub.open();
        let indexer = start(&store);
        hub.append(&indexer, "db1", 1, &text);
        indexer.flush();
        let mut found = records(&store.snapshot());
        found.sort();
        wanted.sort();
        prop_assert_eq!(found, wanted);
        prop_assert_eq!(indexer.report().unreadable, 0);
    }
}
