//! Rows by their places are the rows that DuckDB reads: of all types, in files with pages of all
//! kinds, in any order.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;
use tacho_query::{Answer, Cancel, QueryError, Request, RowPlace, Times};
use tacho_record::{Field, Kind};
use tacho_store::COLUMNS;

use crate::Hub;
use crate::prescan::in_all_forms;
use crate::rollups::Random;
use crate::search::text;

const RECORDS: u64 = 3_000;

/// The value of a field in a line. `None`: the field is not in it.
fn value(random: &mut Random, field: Field, seq: u64) -> Option<String> {
    let ts = format!("\"2026-11-21T{:02}:00:00.{seq:06}+01:00\"", seq % 24);
    let is_always = matches!(field.kind(), Kind::Seq | Kind::Instant | Kind::Event);
    if !is_always && random.below(3) == 0 {
        return None;
    }
    Some(match field.kind() {
        Kind::Seq => seq.to_string(),
        Kind::Instant | Kind::Time => ts,
        Kind::Event => "\"statement\"".to_owned(),
        Kind::Outcome => "\"ok\"".to_owned(),
        Kind::Number => random.of(&[1, 4_711, u64::MAX]).to_string(),
        Kind::Port => random.of(&[1, 3_306, 65_535]).to_string(),
        Kind::Errno => random.of(&[1, 1_064, 4_294_967_295_u64]).to_string(),
        Kind::Flag => "true".to_owned(),
        Kind::Name | Kind::Word | Kind::CharsetName => {
            serde_json::to_string(&format!("n{}", random.below(5))).unwrap()
        }
        Kind::Digest => format!("\"1:{:032x}\"", random.below(9)),
        Kind::Message | Kind::Statement => {
            let long = "lorem ".repeat(if random.below(30) == 0 { 300 } else { 0 });
            serde_json::to_string(&format!("x{}{long}", text(random, 9))).unwrap()
        }
        Kind::Params => "[1,\"a\",null]".to_owned(),
        Kind::Tables => format!(
            "[{{\"access\":\"read\",\"db\":\"d\",\"table\":\"t{seq}\"}},\
             {{\"access\":\"write\",\"db\":\"d\",\"table\":\"u\"}}]"
        ),
        Kind::Attributes => {
            format!("[{{\"key\":\"a\",\"value\":\"{seq}\"}},{{\"key\":\"é\",\"value\":\"\"}}]")
        }
    })
}

fn line(random: &mut Random, seq: u64) -> String {
    if seq.is_multiple_of(50) {
        // As it is, in the column `raw`.
        return format!("no record, number {seq}");
    }
    let mut line = "{\"v\":1".to_owned();
    for &field in Field::ALL {
        if let Some(value) = value(random, field, seq) {
            line += &format!(",\"{}\":{value}", field.name());
        }
    }
    line + "}"
}

struct Rows {
    hub: Hub,
    files: Vec<PathBuf>,
}

impl Rows {
    fn new() -> Self {
        let mut random = Random(0x1357_9BDF_0246_8ACE);
        let (hub, files) = in_all_forms((1..=RECORDS).map(|seq| line(&mut random, seq)).collect());
        Self { hub, files }
    }

    fn ask(&self, request: Request) -> Result<Answer, QueryError> {
        self.hub.pool.fetch(&request, &Cancel::default())
    }

    /// All rows as DuckDB reads them, and their places.
    fn all(&self) -> (Vec<Vec<Value>>, Vec<RowPlace>) {
        let request = Request {
            files: self.files.clone(),
            times: Times::Micros,
            has_places: true,
            max_rows: RECORDS,
            max_bytes: 64 << 20,
            ..self.hub.request("SELECT * FROM records ORDER BY \"offset\"")
        };
        let answer = self.ask(request).unwrap();
        assert!(!answer.is_truncated);
        let mut rows = answer.rows;
        let place = |row: &mut Vec<Value>| {
            let [file, number] = &row.split_off(COLUMNS.len())[..] else { panic!("{row:?}") };
            RowPlace { file: file.as_str().unwrap().into(), row: number.as_u64().unwrap() }
        };
        let places = rows.iter_mut().map(place).collect();
        (rows, places)
    }

    fn at(&self, places: Vec<RowPlace>, max_bytes: u64) -> Result<Answer, QueryError> {
        self.ask(Request { places, max_bytes, ..self.hub.request("") })
    }
}

#[test]
fn rows_by_their_places_are_those_of_duckdb() {
    let rows = Rows::new();
    let (all, places) = rows.all();
    assert_eq!(all.len() as u64, RECORDS);
    // Each column has values, and rows without one.
    for (at, column) in COLUMNS.iter().enumerate() {
        assert!(all.iter().any(|row| !row[at].is_null()), "{}", column.name);
    }
    let mut random = Random(0xFEDC_BA98_7654_3211);
    for count in [1, 2, 7, 100, 1_000, RECORDS as usize] {
        // In any order, some of them twice.
        let wanted: Vec<usize> = match count {
            1_000.. => (0..count).rev().collect(),
            _ => (0..count).map(|_| random.below(RECORDS) as usize).collect(),
        };
        let at = wanted.iter().map(|&index| places[index].clone()).collect();
        let answer = rows.at(at, 64 << 20).unwrap();
        assert!(!answer.is_truncated);
        let names: Vec<&str> = answer.columns.iter().map(|column| &*column.name).collect();
        assert_eq!(names, COLUMNS.iter().map(|column| column.name).collect::<Vec<_>>());
        assert_eq!(answer.rows.len(), wanted.len());
        for (found, index) in answer.rows.iter().zip(wanted) {
            assert_eq!(found, &all[index], "{:?}", places[index]);
        }
    }
}

#[test]
fn rows_that_are_too_long_or_not_there_are_no_rows() {
    let rows = Rows::new();
    let (all, places) = rows.all();
    let bytes = |count: usize| {
        all[..count]
            .iter()
            .map(|row| serde_json::to_vec(row).unwrap().len() as u64 + 1)
            .sum::<u64>()
    };
    let at = |count: usize| places[..count].to_vec();
    let answer = rows.at(at(60), bytes(60)).unwrap();
    assert_eq!((answer.rows.len(), answer.is_truncated), (60, false));
    let answer = rows.at(at(60), bytes(60) - 1).unwrap();
    assert_eq!((answer.rows.len(), answer.is_truncated), (0, true));

    let file = rows.files[1].clone();
    let missing = |file: PathBuf, row| rows.at(vec![RowPlace { file, row }], 1 << 20);
    let count = RECORDS / 6;
    assert_eq!(missing(file.clone(), count - 1).unwrap().rows.len(), 1);
    let error = missing(file.clone(), count).unwrap_err().to_string();
    assert!(error.contains(&format!("has no row {count}")), "{error}");
    assert!(missing(rows.files[0].clone(), 0).is_err());
    assert!(missing("/nowhere".into(), 0).is_err());

    // Damaged pages, and a damaged footer: an error or other rows, and the worker lives.
    let good = fs::read(&file).unwrap();
    for at in (0..good.len()).step_by(good.len() / 30) {
        let mut bytes = good.clone();
        bytes[at] ^= 0x55;
        fs::write(&file, &bytes).unwrap();
        if let Err(error) = rows.at(places[..100].to_vec(), 64 << 20) {
            assert!(!matches!(error, QueryError::Died(_)), "byte {at}: {error}");
        }
    }
    fs::write(&file, &good).unwrap();
    assert_eq!(rows.at(at(100), 64 << 20).unwrap().rows, &all[..100]);
}
