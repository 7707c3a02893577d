//! Statements that were rewritten before they were parsed: their lines have both texts.

mod support;

use std::sync::Arc;

use serde_json::Value;
use support::{TestLog, drain_while, emit, event, place};
use tacho_logdir::{LogFiles, Options, RealFs};
use tacho_probe::{Probe, Thread};
use tacho_recorder::control::Control;
use tacho_recorder::writer::Writer;
use tacho_ring::codec::{
    Bytes, Event, PRESENT_FIGURES, PRESENT_TEXT, RecordKind, STRING_CHARSET, STRING_COMMAND,
};
use tacho_settings::Setting;

fn start(text: &'static [u8], charset: &'static [u8]) -> Event {
    let mut start = event(RecordKind::Start, 1, 7, text);
    start.strings[STRING_CHARSET] = Bytes::of(charset);
    start.strings[STRING_COMMAND] = Bytes::of(b"Query");
    start
}

fn rewrite(text: &'static [u8]) -> Event {
    Event {
        present: PRESENT_FIGURES | PRESENT_TEXT,
        text_id: 0,
        shown_bytes: 0,
        figures: [4711, 0, 0, 0, 0],
        ..event(RecordKind::Rewrite, 1, 7, text)
    }
}

fn error(message: &'static [u8]) -> Event {
    Event { errno_: 1064, ..event(RecordKind::Error, 1, 7, message) }
}

fn end(errno_: u32) -> Event {
    Event { present: 0, shown_bytes: u32::MAX, errno_, ..event(RecordKind::End, 1, 7, b"") }
}

fn parsed(place: &TestLog) -> Vec<Value> {
    let lines = place.lines();
    lines.iter().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// The line of a statement.
fn line(events: &[Event]) -> Value {
    let place = place();
    let file = place.arena();
    let files = LogFiles::open(RealFs, &place.log, Options { rotate_bytes: 0 }).expect("opens").0;
    let control = Arc::new(Control::default());
    control.set(Setting::Digest, 1);
    let mut writer = Writer::new(file.arena(), files, 0, control, Arc::default(), place.log());
    let (probe, mut thread) = (Probe::new(file.arena(), 1), Thread::default());
    events.iter().for_each(|event| emit(&probe, &mut thread, event));
    assert!(writer.finish());
    let lines = parsed(&place);
    assert_eq!(lines.len(), 2, "the statement, stop: {lines:?}");
    lines[0].clone()
}

#[test]
fn a_line_has_both_texts_and_the_rule() {
    let line = line(&[start(b"SELECT 5", b"utf8mb4"), rewrite(b"SELECT 5 + 1"), end(0)]);
    assert_eq!(line["sql"], "SELECT 5");
    assert_eq!(line["rewritten_query"], "SELECT 5 + 1");
    assert_eq!(line["rewrite_rule"], 4711);
    assert_eq!(line["outcome"], "ok");
    // The digest is that of the received statement.
    let other = self::line(&[start(b"SELECT 7", b"utf8mb4"), end(0)]);
    assert_eq!(line["digest"], other["digest"]);
    assert!(line["digest"].is_string());
    for field in ["rewritten_query", "rewrite_rule"] {
        assert!(other.get(field).is_none(), "{other}");
    }
}

#[test]
fn both_texts_are_in_one_character_set() {
    let line = line(&[start(b"SELECT '\xE9'", b"latin1"), rewrite(b"SELECT '\xE9\xE9'"), end(0)]);
    assert_eq!(line["sql"], "SELECT '\u{e9}'");
    assert_eq!(line["rewritten_query"], "SELECT '\u{e9}\u{e9}'");
}

#[test]
fn secrets_of_the_new_text_are_taken_out_too() {
    let new = b"ALTER USER a IDENTIFIED BY 'q7Zk9'";
    let message = b"You have an error near 'q7Zk9'";
    let line = line(&[
        start(b"ALTER USER a ACCOUNT LOCK", b"utf8mb4"),
        rewrite(new),
        error(message),
        end(1064),
    ]);
    assert_eq!(line["rewritten_query"], "ALTER USER a IDENTIFIED BY <secret>");
    assert_eq!(line["error"], "<redacted>");
    // This refers to the received text.
    assert!(line.get("sql_redacted").is_none(), "{line}");
}

#[test]
fn a_running_statement_has_both_in_its_first_line() {
    const A_WHILE_US: i64 = 20_000_000;
    let place = place();
    let file = place.arena();
    let mut writer = place.writer(file.arena());
    let (probe, mut thread) = (Probe::new(file.arena(), 1), Thread::default());
    let start = start(b"SELECT 5", b"utf8mb4");
    emit(&probe, &mut thread, &Event { ts_us: start.ts_us - A_WHILE_US, ..start });
    emit(&probe, &mut thread, &rewrite(b"SELECT SLEEP('q7Zk9')"));
    assert!(writer.round());
    emit(&probe, &mut thread, &error(b"You have an error near 'q7Zk9'"));
    emit(&probe, &mut thread, &end(1064));
    assert!(writer.finish());
    let lines = parsed(&place);
    assert_eq!(lines[0]["outcome"], "running");
    assert_eq!(lines[0]["rewritten_query"], "SELECT SLEEP('q7Zk9')");
    assert_eq!(lines[1]["running_seq"], 1);
    assert_eq!(lines[1]["error"], "<redacted>");
}

/// A rewritten text of several chunks, and one whose start is missing.
#[test]
fn large_and_lone_ones_are_whole_or_nothing() {
    let place = place();
    let file = place.arena();
    let mut writer = place.writer(file.arena());
    let large: &'static [u8] = format!("SELECT '{}'", "x".repeat(300_000)).into_bytes().leak();
    drain_while(file.arena(), &mut writer, |probe| {
        let mut thread = Thread::default();
        emit(probe, &mut thread, &rewrite(b"SELECT 1"));
        emit(probe, &mut thread, &start(b"SELECT 5", b"utf8mb4"));
        emit(probe, &mut thread, &rewrite(large));
        emit(probe, &mut thread, &end(0));
    });
    assert!(writer.finish());
    let lines = parsed(&place);
    assert_eq!(lines.len(), 2, "the statement, stop: {}", lines.len());
    assert_eq!(lines[0]["rewritten_query"].as_str().map(str::as_bytes), Some(large));
}
