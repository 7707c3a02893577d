//! The system clock is set back while recording continues: lines keep their order within a
//! connection, `seq` has no gap, and no record is lost. The times of lines are those that the clock
//! showed.

mod support;

use std::sync::atomic::Ordering;

use support::{TestLog, emit, event, place};
use tacho_probe::{Probe, Thread};
use tacho_record::time::TimeFormatter;
use tacho_ring::codec::{Event, PRESENT_OUTERMOST, RecordKind};
use tacho_ring::sys;

const MINUTE_US: i64 = 60_000_000;

fn at(ts_us: i64, event: Event) -> Event {
    Event { ts_us, ..event }
}

fn start(conn: u64, query_id: u64) -> Event {
    event(RecordKind::Start, conn, query_id, b"SELECT 1")
}

fn end(conn: u64, query_id: u64) -> Event {
    Event { present: 0, shown_bytes: u32::MAX, ..event(RecordKind::End, conn, query_id, b"") }
}

/// The number after the name of a field.
fn number(line: &str, field: &str) -> u64 {
    let (_, rest) = line.split_once(&format!("\"{field}\":")).expect(field);
    let digits = rest.split(|c: char| !c.is_ascii_digit()).next().expect("digits");
    digits.parse().expect("a number")
}

/// Asserts that the lines are numbered without a gap, and that no loss is reported.
fn assert_whole(place: &TestLog, lines: &[String]) {
    for (line, seq) in lines.iter().zip(1..) {
        assert_eq!(number(line, "seq"), seq, "{line}");
        assert!(!line.contains("\"event\":\"lost\""), "{line}");
        assert!(!line.contains("\"outcome\":\"interrupted\""), "{line}");
    }
    assert_eq!(place.said(tacho_recorder::control::Severity::Warning), [""; 0]);
}

/// Query ids of the statements of one connection, in the order of the file.
fn of_conn(lines: &[String], conn: u64) -> Vec<u64> {
    let is_of = |line: &&String| line.contains(&format!("\"conn\":{conn},\"conn_seq\":"));
    lines.iter().filter(is_of).map(|line| number(line, "query_id")).collect()
}

/// Each statement begins a minute before the previous one and ends a minute before its own start.
/// There are enough for many chunks, whose first records are then in the wrong order of time.
fn record(probe: &Probe, conns: u64, statements: u64, mut after_each: impl FnMut(u64)) {
    let now_us = sys::now_us();
    let mut threads: Vec<Thread> = (0..conns).map(|_| Thread::default()).collect();
    for query_id in 1..=statements {
        for (conn, thread) in (1..).zip(&mut threads) {
            let ts_us = now_us - query_id as i64 * MINUTE_US;
            emit(probe, thread, &at(ts_us, start(conn, query_id)));
            emit(probe, thread, &at(ts_us - MINUTE_US, end(conn, query_id)));
        }
        after_each(query_id);
    }
}

#[test]
fn lines_keep_their_order_when_the_clock_goes_back_all_the_time() {
    const CONNS: u64 = 3;
    const STATEMENTS: u64 = 500;
    // Rounds in between, or all in one round.
    for every in [1, 7, STATEMENTS] {
        let place = place();
        let file = place.arena();
        let mut writer = place.writer(file.arena());
        record(&Probe::new(file.arena(), 1), CONNS, STATEMENTS, |done| {
            if done % every == 0 {
                assert!(writer.round());
            }
        });
        assert!(writer.finish());
        let lines = place.lines();
        assert_eq!(lines.len() as u64, CONNS * STATEMENTS + 1, "and `stop`");
        assert_whole(&place, &lines);
        for conn in 1..=CONNS {
            assert!(of_conn(&lines, conn).into_iter().eq(1..=STATEMENTS), "rounds every {every}");
        }
        assert_eq!(file.arena().shared().counters.0.lost_corrupt.load(Ordering::Relaxed), 0);
    }
}

/// The time of a line is that of its start, whatever preceded it; its duration does not come from
/// this clock.
#[test]
fn each_line_has_the_time_that_the_clock_showed() {
    let place = place();
    let file = place.arena();
    let mut writer = place.writer(file.arena());
    let now_us = sys::now_us();
    let times = [now_us, now_us - 90 * MINUTE_US, now_us - 30 * MINUTE_US];
    let probe = Probe::new(file.arena(), 1);
    let mut thread = Thread::default();
    for (query_id, ts_us) in (1..).zip(times) {
        emit(&probe, &mut thread, &at(ts_us, start(1, query_id)));
        emit(&probe, &mut thread, &at(ts_us, end(1, query_id)));
    }
    assert!(writer.finish());
    let lines = place.lines();
    assert_whole(&place, &lines);
    let mut clock = TimeFormatter::system().expect("a zone");
    for (line, ts_us) in lines.iter().zip(times) {
        let text = String::from_utf8(clock.format(ts_us).to_vec()).expect("ASCII");
        assert!(line.contains(&format!("\"ts\":\"{text}\",")), "{text}: {line}");
    }
}

/// A statement that is closed because another one starts follows the statements that ended before,
/// although that start is earlier by the clock.
#[test]
fn a_statement_without_an_end_stands_where_it_was() {
    let place = place();
    let file = place.arena();
    let mut writer = place.writer(file.arena());
    let now_us = sys::now_us();
    let next = start(1, 3);
    let next = Event { present: next.present | PRESENT_OUTERMOST, ..next };
    let probe = Probe::new(file.arena(), 1);
    let mut thread = Thread::default();
    let events = [start(1, 1), start(1, 2), end(1, 2), next, end(1, 3)];
    for (step, event) in (0..).zip(events) {
        emit(&probe, &mut thread, &at(now_us - step * MINUTE_US, event));
    }
    assert!(writer.finish());
    assert_eq!(of_conn(&place.lines(), 1), [2, 1, 3]);
}
