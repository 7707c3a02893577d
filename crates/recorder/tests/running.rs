//! Statements that run for long: which lines have what their start and their end recorded.

mod support;

use support::{emit, event, place};
use tacho_probe::{Probe, Thread};
use tacho_ring::codec::{Event, PRESENT_BLOCKED, PRESENT_TEXT, RecordKind};

const A_WHILE_US: i64 = 20_000_000;
const ERRNO: u32 = 1242;

fn start(text: &'static [u8]) -> Event {
    let start = event(RecordKind::Start, 1, 7, text);
    Event { ts_us: start.ts_us - A_WHILE_US, ..start }
}

fn error(message: &'static [u8]) -> Event {
    Event { errno_: ERRNO, ..event(RecordKind::Error, 1, 7, message) }
}

fn end(errno_: u32) -> Event {
    Event { present: 0, shown_bytes: u32::MAX, errno_, ..event(RecordKind::End, 1, 7, b"") }
}

/// The lines of a statement that is written as `running` between `before` and `after`: the first
/// one, and the one that completes it.
fn lines(before: &[Event], after: &[Event]) -> (String, String) {
    let place = place();
    let file = place.arena();
    let mut writer = place.writer(file.arena());
    let probe = Probe::new(file.arena(), 1);
    let mut thread = Thread::default();
    before.iter().for_each(|event| emit(&probe, &mut thread, event));
    assert!(writer.round());
    after.iter().for_each(|event| emit(&probe, &mut thread, event));
    assert!(writer.finish());
    let lines = place.lines();
    assert_eq!(lines.len(), 3, "running, completed, stop: {lines:?}");
    assert!(lines[0].contains("\"outcome\":\"running\""), "{lines:?}");
    assert!(lines[1].contains("\"running_seq\":1"), "{lines:?}");
    (lines[0].clone(), lines[1].clone())
}

#[test]
fn the_message_of_its_outcome_is_in_the_completing_line() {
    let message = b"Subquery returns more than 1 row";
    let outcome = "\"outcome\":\"error\"";
    let shown = "\"errno\":1242,\"error\":\"Subquery returns more than 1 row\"";
    // Whether it was recorded before or after the `running` line.
    let (_, line) = lines(&[start(b"CALL p()"), error(message)], &[end(ERRNO)]);
    assert!(line.contains(outcome) && line.contains(shown), "{line}");
    let (_, line) = lines(&[start(b"CALL p()")], &[error(message), end(ERRNO)]);
    assert!(line.contains(outcome) && line.contains(shown), "{line}");
}

#[test]
fn a_handled_error_is_not_its_outcome() {
    let (_, line) = lines(&[start(b"CALL p()"), error(b"Subquery returns")], &[end(0)]);
    assert!(line.contains("\"outcome\":\"ok\""), "{line}");
    assert!(!line.contains("\"error\":"), "{line}");
}

#[test]
fn a_message_that_may_quote_a_secret_is_cut_in_the_completing_line_too() {
    const MESSAGE: &[u8] = b"You have an error near 'q7Zk9'";
    let cut = "\"error\":\"<redacted>\"";
    let text = b"SET PASSWORD = 'q7Zk9'";
    for (before, after) in [
        (&[start(text), error(MESSAGE)][..], &[end(ERRNO)][..]),
        (&[start(text)], &[error(MESSAGE), end(ERRNO)]),
    ] {
        let (first, line) = lines(before, after);
        assert!(line.contains(cut), "{line}");
        assert!(!first.contains("q7Zk9") && !line.contains("q7Zk9"), "{first} {line}");
    }
}

/// The name of the rule that blocks it is not the message of its error.
#[test]
fn the_rule_that_blocks_it_is_in_one_of_its_lines() {
    const MESSAGE: &[u8] = b"ask the DBA";
    let rule = Event { present: PRESENT_TEXT | PRESENT_BLOCKED, ..error(b"no definitions") };
    let outcome = "\"errno\":1242,\"error\":\"ask the DBA\"";
    let by = "\"blocked_by\":\"no definitions\"";
    let start = start(b"DROP TABLE t");
    let (_, line) = lines(&[start], &[rule, error(MESSAGE), end(ERRNO)]);
    assert!(line.contains(&format!("{outcome},{by}")), "{line}");
    let (_, line) = lines(&[start], &[error(MESSAGE), rule, end(ERRNO)]);
    assert!(line.contains(&format!("{outcome},{by}")), "{line}");
    // Already written with the `running` line.
    let (first, line) = lines(&[start, error(MESSAGE), rule], &[end(ERRNO)]);
    assert!(first.contains(by) && line.contains(outcome) && !line.contains(by), "{first} {line}");
}
