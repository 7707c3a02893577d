//! What a capture records of an answer: its place in a line, and back.

use tacho_record::line::{LineValue, write_values};
use tacho_record::time::TimeFormatter;
use tacho_record::{EventKind, Field, Line, OwnedRecord, Record, json};

fn written(record: &Record) -> String {
    let mut line = Vec::new();
    json::write_line(&mut line, record, &mut TimeFormatter::utc());
    String::from_utf8(line).expect("UTF-8")
}

fn answered() -> Record<'static> {
    Record {
        seq: 7,
        event: Some(EventKind::Statement),
        query_time_us: Some(9),
        first_byte_us: Some(0),
        bytes_sent: Some(u64::MAX),
        warnings: Some(2),
        last_insert_id: Some(3),
        info: b"Rows matched: 1  Changed: 1",
        ..Record::default()
    }
}

const ANSWER: &str = r#","query_time_us":9,"first_byte_us":0,"bytes_sent":18446744073709551615,"warnings":2,"last_insert_id":3,"info":"Rows matched: 1  Changed: 1"}"#;

#[test]
fn the_answer_is_behind_the_cost() {
    assert!(written(&answered()).ends_with(&format!("{ANSWER}\n")), "{}", written(&answered()));
}

#[test]
fn each_field_is_written_alone() {
    let with = |change: &dyn Fn(&mut Record<'static>)| {
        let mut record = Record { event: Some(EventKind::Statement), ..Record::default() };
        change(&mut record);
        let line = written(&record);
        let (_, fields) = line.split_once("\"statement\"").expect("the event");
        fields.to_owned()
    };
    assert_eq!(with(&|_| {}), "}\n");
    assert_eq!(with(&|it| it.first_byte_us = Some(1)), ",\"first_byte_us\":1}\n");
    assert_eq!(with(&|it| it.bytes_sent = Some(1)), ",\"bytes_sent\":1}\n");
    assert_eq!(with(&|it| it.warnings = Some(1)), ",\"warnings\":1}\n");
    assert_eq!(with(&|it| it.last_insert_id = Some(1)), ",\"last_insert_id\":1}\n");
    assert_eq!(with(&|it| it.info = b"\xff"), ",\"info\":\"\u{fffd}\",\"info_b64\":\"/w==\"}\n");
}

#[test]
fn a_line_gives_the_answer_back() {
    let text = written(&answered());
    let line = Line::parse(text.as_bytes()).expect("a line");
    assert!(matches!(line.value(Field::bytes_sent), LineValue::Number(u64::MAX)));
    assert!(matches!(line.value(Field::info), LineValue::Text(info) if info.starts_with("Rows")));
    let mut again = Vec::new();
    write_values(&mut again, &mut TimeFormatter::utc(), |field| line.value(field));
    assert_eq!(String::from_utf8(again).expect("UTF-8"), text.trim_end());
    let record = OwnedRecord::of_line(&line).expect("a record");
    assert_eq!(record.with(written), text);
}
