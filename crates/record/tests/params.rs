//! Parameters are JSON in a line, and come back as they were.

use tacho_record::line::{LineValue, write_values};
use tacho_record::time::TimeFormatter;
use tacho_record::{EventKind, Field, Line, OwnedRecord, Record, json};

const PARAMS: &str = r#"[1,null,"a\"\n",{"b64":"AAE="},18446744073709551615,1.5e-7]"#;

fn line_of(params: &str, params_bytes: Option<u64>) -> String {
    let mut line = Vec::new();
    let record = Record {
        seq: 7,
        event: Some(EventKind::Statement),
        params: params.as_bytes(),
        params_bytes,
        rows_sent: Some(1),
        ..Record::default()
    };
    json::write_line(&mut line, &record, &mut TimeFormatter::utc());
    String::from_utf8(line).expect("UTF-8")
}

#[test]
fn parameters_are_an_array_of_the_line() {
    let line = line_of(PARAMS, Some(9000));
    assert!(line.contains(&format!(r#","params":{PARAMS},"params_bytes":9000,"rows_sent":1"#)));
    assert!(!line_of("", None).contains("params"));
    assert!(line_of("[]", Some(9000)).contains(r#""params":[],"params_bytes":9000"#));
}

#[test]
fn a_line_gives_its_parameters_back() {
    let text = line_of(PARAMS, Some(9000));
    let line = Line::parse(text.as_bytes()).expect("a line");
    assert!(matches!(line.value(Field::params), LineValue::Json(params) if params == PARAMS));
    let mut again = Vec::new();
    write_values(&mut again, &mut TimeFormatter::utc(), |field| line.value(field));
    assert_eq!(String::from_utf8(again).expect("UTF-8"), text.trim_end());
    let record = OwnedRecord::of_line(&line).expect("a record");
    assert_eq!((&record.params[..], record.params_bytes), (PARAMS.as_bytes(), Some(9000)));
    let mut again = Vec::new();
    record.with(|record| json::write_line(&mut again, record, &mut TimeFormatter::utc()));
    assert_eq!(String::from_utf8(again).expect("UTF-8"), text);
}

#[test]
fn other_values_are_refused() {
    for wrong in ["1", "\"[]\"", "{}", "null", "[1", "[01]"] {
        let head = r#""v":1,"seq":1,"ts":"1970-01-01T00:00:01Z","event":"statement""#;
        let text = format!(r#"{{{head},"params":{wrong}}}"#);
        assert!(Line::parse(text.as_bytes()).is_err(), "{wrong}");
    }
}
