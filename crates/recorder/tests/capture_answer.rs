//! What a capture says of an answer is in the line of its statement.

mod support;

use std::sync::atomic::Ordering;

use serde_json::{Value, json};
use support::{emit, event, place};
use tacho_probe::{Probe, Thread};
use tacho_ring::codec::{
    Event, PRESENT_ANSWER, PRESENT_FIGURES, PRESENT_LOCK_TIME, PRESENT_QUERY_TIME, PRESENT_TEXT,
    RecordKind, captured_conn,
};
use tacho_ring::layout::REDACT_LITERALS;

const CONN: u64 = captured_conn(3, 7);
const SQL: &[u8] = b"INSERT INTO t (id) VALUES (4711)";

fn of(kind: RecordKind, text: &'static [u8]) -> Event {
    Event { text_id: 1, ..event(kind, CONN, 0, text) }
}

fn answer(info: &'static [u8]) -> Event {
    let present = PRESENT_TEXT | PRESENT_FIGURES;
    Event { present, figures: [4711, 2, 0, 0, 0], ..of(RecordKind::Answer, info) }
}

fn end(more: u32) -> Event {
    let present = PRESENT_FIGURES | PRESENT_QUERY_TIME | more;
    let end = of(RecordKind::End, b"");
    Event { present, shown_bytes: SQL.len() as u32, figures: [0, 60, 0, 9, 5], ..end }
}

/// The lines of these records, without that of the writer's end.
fn lines(events: &[Event], redacts_literals: bool) -> Vec<Value> {
    let place = place();
    let file = place.arena();
    if redacts_literals {
        file.arena().shared().settings.0.redact.store(REDACT_LITERALS, Ordering::Relaxed);
    }
    let mut writer = place.writer(file.arena());
    let (probe, mut thread) = (Probe::new(file.arena(), 1), Thread::default());
    events.iter().for_each(|event| emit(&probe, &mut thread, event));
    assert!(writer.finish());
    let lines = place.lines();
    let lines = lines.iter().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    lines.filter(|line| line["event"] != "stop").collect()
}

const FIELDS: [&str; 6] =
    ["query_time_us", "first_byte_us", "bytes_sent", "warnings", "last_insert_id", "info"];

fn shown(line: &Value) -> Value {
    Value::Array(FIELDS.map(|field| line[field].clone()).to_vec())
}

const INFO: &str = "Records: 1  Duplicates: 0  Warnings: 2";

#[test]
fn a_statement_has_what_its_answer_says() {
    let events = [of(RecordKind::Start, SQL), answer(INFO.as_bytes()), end(PRESENT_ANSWER)];
    let found = lines(&events, false);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(shown(&found[0]), json!([9, 5, 60, 2, 4711, INFO]));
    // The id is a literal of the statement.
    let found = lines(&events, true);
    assert_eq!(shown(&found[0]), json!([9, 5, 60, 2, null, INFO]));
    let other = [of(RecordKind::Start, SQL), answer(b"id 4711"), end(PRESENT_ANSWER)];
    assert_eq!(shown(&lines(&other, false)[0]), json!([9, 5, 60, 2, 4711, "id 4711"]));
    assert_eq!(shown(&lines(&other, true)[0]), json!([9, 5, 60, 2, null, null]));
}

#[test]
fn figures_without_the_bit_have_their_usual_meaning() {
    let with = |bits| shown(&lines(&[of(RecordKind::Start, SQL), end(bits)], false)[0]);
    let nothing = json!([9, null, null, null, null, null]);
    assert_eq!(with(0), nothing);
    assert_eq!(with(PRESENT_LOCK_TIME | PRESENT_ANSWER), nothing);
    assert_eq!(with(PRESENT_ANSWER), json!([9, 5, 60, null, null, null]));
}

#[test]
fn an_answer_without_its_statement_has_no_line() {
    assert_eq!(lines(&[answer(b"Records: 1")], false), [Value::Null; 0]);
}
