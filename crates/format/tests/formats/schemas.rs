//! Validates lines with the published schemas.

use std::collections::BTreeMap;

use serde_json::Value;
use tacho_format::{Format, Formatter};
use tacho_record::EventKind;
use tacho_record::OwnedRecord;
use tacho_record::time::TimeFormatter;

use crate::arbitrary::record;
use crate::samples::samples;

fn object(format: Format, record: &OwnedRecord) -> Value {
    let mut out = Vec::new();
    let mut by = Formatter::new(format, "db1");
    record.with(|record| by.write(&mut out, record, &mut TimeFormatter::utc()));
    serde_json::from_slice(&out).unwrap_or_else(|e| panic!("{e}: {:?}", out.escape_ascii()))
}

/// The violations of an OCSF event.
fn ocsf_problems(validator: &jsonschema::Validator, event: &Value) -> Vec<String> {
    let mut problems: Vec<String> = validator.iter_errors(event).map(|e| e.to_string()).collect();
    let number = |name: &str| event[name].as_u64().unwrap_or(u64::MAX);
    let (class, activity) = (number("class_uid"), number("activity_id"));
    if number("type_uid") != class * 100 + activity {
        problems.push("type_uid is not class_uid * 100 + activity_id".to_owned());
    }
    if number("category_uid") != class / 1000 {
        problems.push("category_uid is not that of the class".to_owned());
    }
    problems
}

#[test]
fn ocsf() {
    let schema = include_str!("../fixtures/ocsf-1.5.0.schema.json");
    let schema: Value = serde_json::from_str(schema).expect("JSON");
    let validator = jsonschema::validator_for(&schema).expect("a schema");
    for record in samples() {
        let event = object(Format::Ocsf, &record);
        let problems = ocsf_problems(&validator, &event);
        assert!(problems.is_empty(), "{problems:#?}\n{event:#}");
    }
    // The schema can detect a violation.
    let mut event = object(Format::Ocsf, &samples()[6]);
    event["class_uid"] = 6006.into();
    assert!(!ocsf_problems(&validator, &event).is_empty());
    let mut event = object(Format::Ocsf, &samples()[6]);
    event["usr"] = "x".into();
    assert!(!ocsf_problems(&validator, &event).is_empty());

    let mut runner = proptest::test_runner::TestRunner::default();
    let checked = runner.run(&record(), |record| {
        let event = object(Format::Ocsf, &record);
        let problems = ocsf_problems(&validator, &event);
        proptest::prop_assert!(problems.is_empty(), "{:#?}\n{:#}", problems, event);
        Ok(())
    });
    checked.expect("every event is valid");
}

/// Published fields and their types.
fn ecs_fields() -> BTreeMap<&'static str, &'static str> {
    let list = include_str!("../fixtures/ecs-9.4.0.fields.txt");
    list.lines().filter(|line| !line.starts_with('#')).filter_map(|l| l.split_once(' ')).collect()
}

/// Every value with its dotted name, except our own.
fn leaves(prefix: &str, value: &Value, out: &mut Vec<(String, Value)>) {
    match value {
        Value::Object(fields) if prefix != "tacho" => {
            for (name, value) in fields {
                let dot = if prefix.is_empty() { "" } else { "." };
                leaves(&format!("{prefix}{dot}{name}"), value, out);
            }
        }
        _ => out.push((prefix.to_owned(), value.clone())),
    }
}

/// "Expected event types" of the used categories, ECS 9.4, "Event Categorization Values".
fn expected_types(category: &str) -> &'static [&'static str] {
    match category {
        "authentication" => &["start", "end", "info"],
        "configuration" => &["access", "change", "creation", "deletion", "info"],
        "database" => &["access", "change", "info", "error"],
        "process" => &["access", "change", "end", "info", "start"],
        "session" => &["start", "end", "info"],
        _ => &[],
    }
}

#[test]
fn ecs() {
    let fields = ecs_fields();
    assert!(fields.len() > 50);
    for record in samples() {
        let event = object(Format::Ecs, &record);
        let mut found = Vec::new();
        leaves("", &event, &mut found);
        for (name, value) in found.iter().filter(|(name, _)| name != "tacho") {
            let kind = fields.get(&**name).unwrap_or_else(|| panic!("ECS has no {name}"));
            let fits = match value {
                Value::String(text) => {
                    kind.starts_with("string") || **kind == format!("'{text}' required")
                }
                Value::Number(_) => kind.starts_with("number"),
                Value::Array(items) => kind.contains("Array") && items.iter().all(Value::is_string),
                _ => false,
            };
            assert!(fits, "{name} is {kind}, not {value}");
        }
        for (name, _) in fields.iter().filter(|(_, kind)| kind.ends_with("required")) {
            assert!(found.iter().any(|(found, _)| found == name), "no {name}: {event:#}");
        }
        assert!(
            ["success", "failure", "unknown"]
                .iter()
                .any(|word| event["event"]["outcome"].is_null()
                    || event["event"]["outcome"] == **word)
        );
        for category in event["event"]["category"].as_array().expect("a list") {
            let expected = expected_types(category.as_str().expect("a word"));
            for kind in event["event"]["type"].as_array().expect("a list") {
                assert!(expected.contains(&kind.as_str().expect("a word")), "{category} {kind}");
            }
        }
    }
}

#[test]
fn fields_outside_a_schema_are_kept() {
    for record in samples() {
        let mut line = Vec::new();
        record.with(|r| tacho_record::json::write_line(&mut line, r, &mut TimeFormatter::utc()));
        let own: Value = serde_json::from_slice(&line).expect("JSON");
        for format in [Format::Ocsf, Format::Ecs] {
            let text = object(format, &record).to_string();
            for (name, value) in own.as_object().expect("an object") {
                // Expressed in other words: the time in ms, the class of the event, the format's
                // version.
                if matches!(
                    name.as_str(),
                    "v" | "ts" | "start_ts" | "event" | "outcome" | "sql_charset"
                ) {
                    continue;
                }
                assert!(
                    text.contains(&value.to_string()),
                    "{format:?} has lost {name} {value}: {text}"
                );
            }
        }
        assert!(record.event != Some(EventKind::Lost) || own["cause"].is_string());
    }
}
