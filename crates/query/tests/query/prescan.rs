//! Searches find the same with a scan before them as without: for random records, texts and time
//! ranges, and files with pages of all kinds.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::{WriterProperties, WriterPropertiesBuilder, WriterVersion};
use parquet::schema::types::ColumnPath;
use serde_json::json;
use tacho_query::{Cancel, Needle, Prescan, QueryError, Request};
use tacho_search::Search;

use crate::Hub;
use crate::rollups::Random;
use crate::search::{in_another_case, text};

/// 2026-11-21T09:00:00Z.
const BEGIN_US: i64 = 1_795_251_600_000_000;
const RECORDS: u64 = 3_000;
const WORDS: &[&str] = &["select", "INSERT", "drop table", "x0bad", "kiki", "Straße", "= 7"];

/// A record for each second. Its statement, its error, or both may be missing, and some are long.
fn line(random: &mut Random, seq: u64) -> String {
    let ts = jiff::Timestamp::from_microsecond(BEGIN_US + seq as i64 * 1_000_000).unwrap();
    let mut line = format!(
        "{{\"v\":1,\"seq\":{seq},\"ts\":\"{ts:.6}\",\"event\":\"statement\",\"outcome\":\"ok\",\
         \"user\":\"app{}\"",
        random.below(3)
    );
    for (name, is_there) in [("error", random.below(6) == 0), ("sql", random.below(50) > 0)] {
        if !is_there {
            continue;
        }
        // Texts that repeat are in the dictionary.
        let mut value = match random.below(3) {
            0 => random.of(WORDS).repeat(1 + random.below(3) as usize),
            _ => format!("{}{}", random.of(WORDS), text(random, 12)),
        };
        if random.below(20) == 0 {
            value += &"lorem ipsum ".repeat(random.below(200) as usize);
            value += &text(random, 6);
        }
        line += &format!(",\"{name}\":{}", serde_json::to_string(&value).unwrap());
    }
    line + "}"
}

fn small() -> WriterPropertiesBuilder {
    WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(1).unwrap()))
        .set_max_row_group_row_count(Some(100))
        .set_write_batch_size(16)
        .set_data_page_row_count_limit(32)
        .set_data_page_size_limit(512)
        .set_dictionary_page_size_limit(1_024)
}

/// How files are written again: several row groups and pages, dictionaries and plain pages.
fn forms() -> Vec<WriterProperties> {
    let no_dictionary = small().set_dictionary_enabled(false);
    let newer = small().set_writer_version(WriterVersion::PARQUET_2_0);
    // Values as differences, which the scan does not read.
    let differences = newer.clone().set_column_dictionary_enabled(ColumnPath::from("sql"), false);
    let large = small().set_dictionary_page_size_limit(1 << 20).set_data_page_size_limit(1 << 20);
    let plain = small().set_compression(Compression::UNCOMPRESSED);
    [small(), no_dictionary, newer, differences, large, plain]
        .into_iter()
        .map(WriterPropertiesBuilder::build)
        .collect()
}

/// Writes the rows of a file again, from number `from` on, `count` at most.
fn write_again(old: &Path, new: &Path, (from, count): (usize, usize), form: WriterProperties) {
    let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(old).unwrap()).unwrap();
    let reader = reader.with_offset(from).with_limit(count).with_batch_size(64);
    let schema = reader.schema().clone();
    let mut writer = ArrowWriter::try_new(File::create(new).unwrap(), schema, Some(form)).unwrap();
    for batch in reader.build().unwrap() {
        writer.write(&batch.unwrap()).unwrap();
    }
    writer.close().unwrap();
}

/// A store with these lines, and files with the rows of its segment, each in another form.
pub fn in_all_forms(lines: Vec<String>) -> (Hub, Vec<PathBuf>) {
    let count = lines.len();
    let hub = Hub::of_lines(lines.into_iter(), |settings| settings.threads = 2);
    let old: Vec<PathBuf> =
        hub.snapshot.files(i64::MIN, i64::MAX).into_iter().map(Into::into).collect();
    let [empty, segment] = &old[..] else { panic!("{old:?}") };
    let mut files = vec![empty.clone()];
    let forms = forms();
    let rows = count / forms.len();
    for (at, form) in forms.into_iter().enumerate() {
        let new = hub.store.segments_dir().join(format!("again-{at}.parquet"));
        write_again(segment, &new, (at * rows, rows), form);
        files.push(new);
    }
    (hub, files)
}

fn prescan(search: &Search, (from_us, to_us): (i64, i64)) -> Option<Prescan> {
    let needle = |it: tacho_search::Needle| Needle {
        columns: it.columns.iter().map(|&column| column.to_owned()).collect(),
        text: it.text,
    };
    let any = search.needles()?.into_iter().map(needle).collect();
    Some(Prescan { any, from_us, to_us })
}

/// A term: a part of a text, quoted or with wildcards, in a field or not.
fn term(random: &mut Random) -> String {
    let source = match random.below(5) {
        0 => text(random, 5),
        1 => "nowhere".to_owned(),
        2 => format!("{}{}", random.of(WORDS), text(random, 1)),
        _ => random.of(WORDS).to_owned(),
    };
    let needle = in_another_case(random, &source);
    let quoted = format!("\"{}\"", needle.replace('\\', "\\\\").replace('"', "\\\""));
    let with_stars = || {
        let letters = needle.chars().filter(|c| c.is_alphanumeric());
        letters.map(|c| if c == 'e' { "*".to_owned() } else { c.to_string() }).collect::<String>()
    };
    let value = if random.below(5) == 0 { format!("a*{}?", with_stars()) } else { quoted };
    random.of(&["", "", "sql:", "error:"]).to_owned() + &value
}

fn search(random: &mut Random) -> String {
    let (a, b) = (term(random), term(random));
    match random.below(8) {
        0 => format!("{a} user:app1"),
        1 => format!("{a} or {b}"),
        2 => format!("{a} -{b}"),
        3 => format!("{a} or user:app2"),
        4 => format!("({a} or {b}) -user:app0"),
        5 => format!("-{a}"),
        _ => a,
    }
}

#[test]
fn a_scan_changes_no_answer() {
    let mut random = Random(0x1234_5678_9ABC_DEF1);
    let lines = (1..=RECORDS).map(|seq| line(&mut random, seq)).collect();
    let (hub, files) = in_all_forms(lines);
    let (mut scans, mut found) = (0, 0);
    for _ in 0..120 {
        let text = search(&mut random);
        let search = tacho_search::parse(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
        // The same search comes again, as for the next page.
        for _ in 0..2 {
            let length_us = RECORDS as i64 * 1_000_000;
            let from_us = BEGIN_US + random.below(length_us as u64) as i64 - length_us / 2;
            let range = match random.below(3) {
                0 => (i64::MIN, i64::MAX),
                _ => (from_us, from_us + random.below(length_us as u64) as i64),
            };
            let (from_us, to_us) = range;
            let time = match range {
                (i64::MIN, _) => String::new(),
                _ => format!(
                    "ts >= make_timestamptz({from_us}) AND ts < make_timestamptz({to_us}) AND"
                ),
            };
            let sql = format!("SELECT seq FROM records WHERE {time} ({})", search.condition());
            let ask = |prescan| {
                let limits = Request { max_rows: RECORDS, ..hub.request(&sql) };
                let request = Request { files: files.clone(), prescan, ..limits };
                let answer = hub.pool.fetch(&request, &Cancel::default()).unwrap();
                assert!(!answer.is_truncated);
                answer.rows.iter().map(|row| row[0].as_u64().unwrap()).collect::<BTreeSet<_>>()
            };
            let wanted = ask(None);
            let scan = prescan(&search, range);
            scans += usize::from(scan.is_some());
            found += usize::from(scan.is_some() && !wanted.is_empty());
            assert_eq!(ask(scan), wanted, "{text}, {range:?}");
        }
    }
    assert!(scans > 100 && found > 50, "{scans}, {found}");
}

#[test]
fn no_other_character_becomes_the_letters_of_a_needle() {
    let hub = Hub::new();
    let answer = hub.fetch(
        "SELECT chr(code::INTEGER) AS c FROM range(128, 1114112) AS r(code) \
         WHERE code NOT BETWEEN 55296 AND 57343 AND regexp_matches(lower(c), '[\\x00-\\x7F]')",
    );
    // `Search::needles` has neither `i` nor `k`.
    assert_eq!(answer.rows, [[json!("İ")], [json!("\u{212A}")]]);
}

/// The worker is in the scan: the query itself has not begun.
#[test]
fn a_scan_is_cancelled_while_it_runs() {
    const FILES: usize = 200_000;
    let hub = Hub::new();
    let request = hub.request("SELECT count(*) FROM records");
    let any = vec![Needle { columns: vec!["sql".to_owned()], text: "nowhere".to_owned() }];
    let scan = Prescan { any, from_us: i64::MIN, to_us: i64::MAX };
    let files = request.files.iter().cycle().take(FILES).cloned().collect();
    let long = Request { files, prescan: Some(scan), ..request.clone() };
    assert_eq!(hub.pool.fetch(&request, &Cancel::default()).unwrap().rows, [[json!(300)]]);
    let cancel = Cancel::default();
    std::thread::scope(|scope| {
        let query = scope.spawn(|| hub.pool.fetch(&long, &cancel));
        std::thread::sleep(Duration::from_millis(300));
        assert!(!query.is_finished());
        cancel.cancel();
        let result = query.join().unwrap();
        assert!(matches!(result, Err(QueryError::Cancelled)), "{result:?}");
    });
    assert_eq!(hub.pool.fetch(&request, &Cancel::default()).unwrap().rows, [[json!(300)]]);
}

#[test]
fn a_scan_is_cancelled_and_needs_no_more_files_than_the_query() {
    let hub = Hub::new();
    let any = vec![Needle { columns: vec!["sql".to_owned()], text: "select".to_owned() }];
    let scan = Prescan { any, from_us: i64::MIN, to_us: i64::MAX };
    let count = "SELECT count(*) FROM records";
    let request = Request { prescan: Some(scan.clone()), ..hub.request(count) };
    let cancel = Cancel::default();
    cancel.cancel();
    let result = hub.pool.fetch(&request, &cancel);
    assert!(matches!(result, Err(QueryError::Cancelled)), "{result:?}");
    let late = Request { timeout: Duration::ZERO, ..request.clone() };
    let result = hub.pool.fetch(&late, &Cancel::default());
    assert!(matches!(result, Err(QueryError::Timeout(_))), "{result:?}");
    assert_eq!(hub.pool.fetch(&request, &Cancel::default()).unwrap().rows, [[json!(300)]]);
    // Nothing of a column that is not there can be said.
    for (column, text, rows) in [("sql", "nowhere", 0), ("nowhere", "select", 300)] {
        let any = vec![Needle { columns: vec![column.to_owned()], text: text.to_owned() }];
        let request = Request { prescan: Some(Prescan { any, ..scan.clone() }), ..request.clone() };
        let answer = hub.pool.fetch(&request, &Cancel::default()).unwrap();
        assert_eq!(answer.rows, [[json!(rows)]]);
    }
    let gone = Request { files: vec![hub.dir.path().join("gone")], ..request };
    assert!(hub.pool.fetch(&gone, &Cancel::default()).is_err());
    assert_eq!(hub.fetch(count).rows, [[json!(300)]]);
}
