//! The documented position of a field in a format is where it is written.

use serde_json::{Map, Value, json};
use tacho_format::{Format, Formatter, Place};
use tacho_record::time::TimeFormatter;
use tacho_record::{EventKind, Field, Kind, Line, OwnedRecord};

const FORMATS: [Format; 12] = [
    Format::Csv,
    Format::CsvFull,
    Format::Json,
    Format::PerconaJson,
    Format::PerconaNew,
    Format::PerconaOld,
    Format::Ocsf,
    Format::Ecs,
    Format::Cef,
    Format::Leef,
    Format::Syslog,
    Format::Slow,
];

type Object = Map<String, Value>;

/// Lines with few fields: each event, and those in which only some formats have fields.
fn bases() -> Vec<Object> {
    let head = json!({"v": 1, "seq": 5, "ts": "2026-11-21T00:02:03.123456+00:00"});
    let with = |fields: Value| {
        let [Value::Object(mut base), Value::Object(fields)] = [head.clone(), fields] else {
            unreachable!("both are objects");
        };
        base.extend(fields);
        base
    };
    let mut bases: Vec<Object> = EventKind::ALL
        .iter()
        .map(|event| with(json!({"event": event.name(), "outcome": "ok"})))
        .collect();
    bases.push(with(json!({"event": "connect", "outcome": "ok", "proxy_user": "p"})));
    bases.push(with(json!({
        "event": "statement", "outcome": "ok", "command": "Query", "sql": "SELECT 0",
        "sql_charset": "utf8mb4", "query_time_us": 1,
    })));
    bases
}

/// Values of a field that differ in every format that writes the field.
fn values(field: Field) -> Vec<Value> {
    match field.kind() {
        Kind::Event => EventKind::ALL.map(|event| json!(event.name())).to_vec(),
        Kind::Outcome => vec![json!("ok"), json!("running"), json!("interrupted")],
        Kind::Port | Kind::Errno => vec![json!(2_000), json!(30_000)],
        // As µs they differ by more than a second.
        Kind::Seq | Kind::Number => vec![json!(2_000_000), json!(30_000_000)],
        Kind::Instant | Kind::Time => vec![
            json!("2026-11-21T00:02:03.000000+00:00"),
            json!("2026-11-21T00:02:04.000000+00:00"),
        ],
        Kind::Flag => vec![json!(false), json!(true)],
        Kind::Name | Kind::Word | Kind::Message | Kind::Statement => {
            ["", "Query", "Execute", "one", "other"].map(|text| json!(text)).to_vec()
        }
        Kind::CharsetName => vec![json!("utf8mb4"), json!("utf8mb3")],
        Kind::Digest => vec![json!("1:00"), json!("1:11")],
        Kind::Tables => ["one", "other"]
            .map(|table| json!([{"access": "read", "db": "d", "table": table}]))
            .to_vec(),
        Kind::Params => vec![json!([1, null]), json!(["one"])],
        Kind::Attributes => {
            ["one", "other"].map(|key| json!([{"key": key, "value": "v"}])).to_vec()
        }
    }
}

fn written(format: Format, line: &Object) -> Vec<u8> {
    let text = Value::from(line.clone()).to_string();
    let line = Line::parse(text.as_bytes()).unwrap_or_else(|e| panic!("{e}: {text}"));
    let record = OwnedRecord::of_line(&line).unwrap_or_else(|e| panic!("{e}: {text}"));
    let mut out = Vec::new();
    let clock = &mut TimeFormatter::utc();
    record.with(|record| Formatter::new(format, "db1").write(&mut out, record, clock));
    out
}

/// Whether the output differs if only this field does.
fn is_written(format: Format, field: Field) -> bool {
    bases().into_iter().any(|base| {
        let mut lines = values(field).into_iter().map(|value| {
            let mut line = base.clone();
            line.insert(field.name().to_owned(), value);
            written(format, &line)
        });
        // Fields that decide whether there is a record at all do not count.
        let mut lines: Vec<Vec<u8>> = lines.by_ref().filter(|line| !line.is_empty()).collect();
        lines.dedup();
        lines.len() > 1
    })
}

#[test]
fn each_format_writes_its_documented_fields() {
    let mut wrong = Vec::new();
    for format in FORMATS {
        for &field in Field::ALL {
            let place = format.place(field);
            if is_written(format, field) == (place == Place::Nowhere) {
                wrong.push((format, field, place));
            }
        }
    }
    assert_eq!(wrong, []);
}
