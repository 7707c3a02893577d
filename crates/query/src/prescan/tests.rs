use std::fs::{self, File};

use parquet::data_type::{ByteArray, ByteArrayType, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;

use super::*;

const SCHEMA: &str =
    "message m { optional int64 ts; optional binary sql (UTF8); optional binary error (UTF8); }";

/// A row group: the first time, and a statement for each time; no errors.
type Group<'a> = (i64, Vec<Option<&'a str>>);

fn write(path: &Path, groups: &[Group]) {
    let properties = WriterProperties::builder()
        .set_compression(parquet::basic::Compression::ZSTD(Default::default()))
        .set_write_batch_size(4)
        .set_data_page_row_count_limit(4)
        .set_dictionary_page_size_limit(64)
        .build();
    let schema = Arc::new(parse_message_type(SCHEMA).unwrap());
    let file = File::create(path).unwrap();
    let mut writer = SerializedFileWriter::new(file, schema, Arc::new(properties)).unwrap();
    for (first, texts) in groups {
        let mut group = writer.next_row_group().unwrap();
        let times: Vec<i64> = (*first..).take(texts.len()).collect();
        let mut column = group.next_column().unwrap().unwrap();
        let levels = vec![1; times.len()];
        column.typed::<Int64Type>().write_batch(&times, Some(&levels), None).unwrap();
        column.close().unwrap();
        let values: Vec<ByteArray> = texts.iter().flatten().map(|&text| text.into()).collect();
        let levels: Vec<i16> = texts.iter().map(|text| text.is_some().into()).collect();
        let mut column = group.next_column().unwrap().unwrap();
        column.typed::<ByteArrayType>().write_batch(&values, Some(&levels), None).unwrap();
        column.close().unwrap();
        let mut column = group.next_column().unwrap().unwrap();
        let levels = vec![0; times.len()];
        column.typed::<ByteArrayType>().write_batch(&[], Some(&levels), None).unwrap();
        column.close().unwrap();
        group.close().unwrap();
    }
    writer.close().unwrap();
}

fn scan(text: &str, from_us: i64, to_us: i64) -> Prescan {
    let columns = vec!["sql".to_owned(), "error".to_owned()];
    Prescan { any: vec![Needle { columns, text: text.to_owned() }], from_us, to_us }
}

fn prescanner() -> Prescanner {
    Prescanner::new(2, Arc::default())
}

/// Eight row groups of ten rows; the third has `rare` in a page, the fourth in its dictionary.
fn groups<'a>(long: &'a str, rare: &'a str) -> Vec<Group<'a>> {
    let common = |at: i64| (at * 10, vec![Some("SELECT common"); 10]);
    let mut groups: Vec<Group> = (0..8).map(common).collect();
    groups[2].1[3] = Some(long);
    groups[2].1[9] = Some(rare);
    groups[3].1[0] = None;
    groups[3].1[1] = Some(rare);
    groups
}

#[test]
fn only_row_groups_that_can_match_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str| dir.path().join(name);
    let (empty, some, none) = (file("empty"), file("some"), file("none"));
    let long = "x".repeat(1_000);
    write(&empty, &[]);
    write(&some, &groups(&long, "say RaRe'1'"));
    write(&none, &groups("-", "-"));
    let files = [empty.clone(), some.clone(), none.clone()];
    let mut scanner = prescanner();
    let mut narrow = |text: &str, from_us, to_us| {
        let parts = scanner.narrow(&scan(text, from_us, to_us), &files).unwrap();
        let part = |FilePart { file, rows }: FilePart| {
            let name = file.file_name().unwrap().to_str().unwrap().to_owned();
            (name, rows)
        };
        assert_eq!(part(parts[0].clone()), ("empty".to_owned(), None));
        parts.into_iter().skip(1).map(part).collect::<Vec<_>>()
    };
    let some = |rows| vec![("some".to_owned(), rows)];
    let all = || vec![("some".to_owned(), None), ("none".to_owned(), None)];
    for text in ["rare'1'", "Y RARE", "say"] {
        assert_eq!(narrow(text, i64::MIN, i64::MAX), some(Some(20..40)), "{text}");
    }
    assert_eq!(narrow("rare'2", i64::MIN, i64::MAX), []);
    assert_eq!(narrow("T COM", i64::MIN, i64::MAX), all());
    // Row groups of the time range, and then those that were not in it.
    assert_eq!(narrow("say", 0, 20), []);
    assert_eq!(narrow("say", 0, 30), some(Some(20..30)));
    assert_eq!(narrow("say", 20, 40), some(None));
    assert_eq!(narrow("say", 30, 80), some(Some(30..40)));
    assert_eq!(narrow("xxxxx", 0, 80), some(Some(20..30)));
    assert_eq!(narrow("xxxxx", 80, 90), []);
    // Of a few rows, nothing is known.
    assert_eq!(narrow("zzzzz", 20, 22), all());
    assert_eq!(narrow("zzzzz", 20, 24), []);
    assert_eq!(narrow("zzzzz", 20, 22), []);
}

#[test]
fn what_is_known_is_not_read_again_and_what_cannot_be_read_is_the_querys() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    write(&file, &groups("-", "rare"));
    let files = [file.clone()];
    let mut scanner = prescanner();
    let part = [FilePart { file: file.clone(), rows: Some(20..40) }];
    let everything = [FilePart { file: file.clone(), rows: None }];
    let (rare, other) = (scan("rare", 0, 80), scan("other", 0, 80));
    assert_eq!(scanner.narrow(&rare, &files).unwrap(), part);
    let bytes = fs::read(&file).unwrap();
    for length in [0, 3, bytes.len() / 2, bytes.len() - 1] {
        fs::write(&file, &bytes[..length]).unwrap();
        assert_eq!(prescanner().narrow(&rare, &files).unwrap(), everything);
    }
    // Damaged pages, a good footer.
    let damaged = |byte: u8| [vec![byte; bytes.len() - 3_000], bytes[bytes.len() - 3_000..].into()];
    for byte in [0, 1, 0x15, 0xFF] {
        fs::write(&file, damaged(byte).concat()).unwrap();
        let parts = prescanner().narrow(&rare, &files).unwrap();
        assert!(!parts.is_empty(), "{byte}");
    }
    fs::remove_file(&file).unwrap();
    assert_eq!(scanner.narrow(&rare, &files).unwrap(), part);
    assert_eq!(scanner.narrow(&other, &files).unwrap(), everything);
    // Only the last texts are remembered.
    assert_eq!(scanner.narrow(&rare, &files).unwrap(), everything);
}

#[test]
fn a_scan_ends_when_it_is_cancelled() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    write(&file, &groups("-", "rare"));
    let flag = Arc::new(AtomicBool::new(true));
    let mut scanner = Prescanner::new(2, Arc::clone(&flag));
    let rare = scan("rare", 0, 80);
    assert!(scanner.narrow(&rare, std::slice::from_ref(&file)).is_err());
    flag.store(false, Ordering::Relaxed);
    let part = FilePart { file: file.clone(), rows: Some(20..40) };
    assert_eq!(scanner.narrow(&rare, &[file]).unwrap(), [part]);
}

#[test]
fn files_in_many_pieces_are_read_whole() {
    let groups: Vec<RowGroup> = (0..100)
        .map(|at: u64| RowGroup {
            first_row: at * 10,
            rows: 10,
            min_us: at as i64,
            max_us: at as i64,
            may_match: Some(at.is_multiple_of(3)),
        })
        .collect();
    let scan = scan("text", 0, 100);
    let count = |most| parts_of(Path::new("file"), &groups, &scan, most).len();
    assert_eq!((count(40), count(34), count(33), count(0)), (34, 34, 1, 1));
}
