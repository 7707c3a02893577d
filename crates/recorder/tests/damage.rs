//! Records with a valid header and a damaged body: each is counted as lost, and no line claims what
//! is unknown.

mod support;

use std::sync::atomic::Ordering;

use support::{TestLog, emit, event, place};
use tacho_probe::{Probe, Thread};
use tacho_recorder::arena_file::ArenaFile;
use tacho_recorder::drain::{Drain, Ref};
use tacho_ring::arena::Arena;
use tacho_ring::codec::{Event, RecordKind};
use tacho_ring::layout::{FRAGMENT_FIRST, FRAGMENT_LAST};

/// An end as the adapter sends it: the statement's properties are in its start.
fn end(conn: u64, query_id: u64) -> Event {
    Event { present: 0, shown_bytes: u32::MAX, ..event(RecordKind::End, conn, query_id, b"") }
}

/// Makes the record unreadable: its strings are longer than the record.
fn damage(arena: &Arena, at: Ref) {
    const STRING_BYTES_AT: usize = 80;
    let place = arena.chunk_base(at.chunk).wrapping_add(at.position as usize + STRING_BYTES_AT);
    // SAFETY: within a committed record; nothing else uses the arena at this time.
    unsafe { place.cast::<u16>().write(u16::MAX) };
}

/// Records these events, damages those of `kind`, and returns the lines that are written and the
/// number of damaged records.
fn lines_with_damaged(kind: RecordKind, events: &[Event]) -> (Vec<String>, u64) {
    let place = place();
    let file = place.arena();
    let mut writer = place.writer(file.arena());
    record(&file, events);
    let mut damaged = 0;
    let arena = file.arena();
    Drain::new(arena).pass(|head, at| {
        if head.kind == kind && head.fragment <= FRAGMENT_FIRST {
            damage(&arena, at);
            damaged += 1;
        }
    });
    assert!(damaged > 0, "nothing was damaged");
    assert!(writer.finish());
    let counted = arena.shared().counters.0.lost_corrupt.load(Ordering::Relaxed);
    assert_eq!(counted, damaged, "each is counted once");
    (told(&place, counted), counted)
}

fn record(file: &ArenaFile, events: &[Event]) {
    let probe = Probe::new(file.arena(), 1);
    let mut thread = Thread::default();
    for event in events {
        emit(&probe, &mut thread, event);
    }
}

/// The lines before the one that reports the loss.
fn told(place: &TestLog, count: u64) -> Vec<String> {
    let mut lines = place.lines();
    let last = lines.pop().expect("a line");
    assert!(last.contains("\"event\":\"stop\""), "{last}");
    let lost = lines.pop().expect("a line");
    let expected = format!("\"count\":{count},\"cause\":\"corrupt\"");
    assert!(lost.contains("\"event\":\"lost\"") && lost.contains(&expected), "{lost}");
    lines
}

#[test]
fn a_statement_with_an_unreadable_end_is_not_reported_as_successful() {
    let (lines, _) = lines_with_damaged(
        RecordKind::End,
        &[event(RecordKind::Start, 1, 7, b"DELETE FROM t"), end(1, 7)],
    );
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].contains("\"sql\":\"DELETE FROM t\""), "{lines:?}");
    assert!(lines[0].contains("\"outcome\":\"interrupted\""), "{lines:?}");
    assert!(!lines[0].contains("query_time_us"), "{lines:?}");
}

#[test]
fn an_unreadable_start_is_counted_and_its_end_has_a_line() {
    let (lines, _) = lines_with_damaged(
        RecordKind::Start,
        &[event(RecordKind::Start, 1, 7, b"DELETE FROM t"), end(1, 7)],
    );
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].contains("\"query_id\":7") && lines[0].contains("\"outcome\":\"ok\""));
    assert!(!lines[0].contains("DELETE"), "{lines:?}");
}

#[test]
fn unreadable_messages_on_the_way_are_counted() {
    let (lines, counted) = lines_with_damaged(
        RecordKind::Error,
        &[
            event(RecordKind::Start, 1, 7, b"CALL p()"),
            event(RecordKind::Error, 1, 7, b"Subquery returns more than 1 row"),
            event(RecordKind::Error, 1, 7, b"Subquery returns more than 1 row"),
            end(1, 7),
        ],
    );
    assert_eq!((lines.len(), counted), (1, 2), "{lines:?}");
    assert!(lines[0].contains("CALL p()"), "{lines:?}");
}

#[test]
fn an_unreadable_single_record_is_counted_and_its_message_has_a_line() {
    let (lines, _) = lines_with_damaged(
        RecordKind::Connect,
        &[
            event(RecordKind::Error, 1, 0, b"Subquery returns more than 1 row"),
            event(RecordKind::Connect, 1, 0, b""),
            event(RecordKind::Point, 1, 8, b"SELECT 1"),
        ],
    );
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines[0].contains("Subquery returns more than 1 row"), "{lines:?}");
    assert!(lines[1].contains("SELECT 1"), "{lines:?}");
    assert!(lines[0].starts_with("{\"v\":1,\"seq\":1,") && lines[1].contains("\"seq\":2,"));
}

#[test]
fn an_unreadable_piece_of_a_large_text_is_counted() {
    static TEXT: [u8; 40_000] = [b'x'; 40_000];
    let place = place();
    let file = place.arena();
    let mut writer = place.writer(file.arena());
    let start = event(RecordKind::Start, 1, 7, &TEXT);
    record(&file, &[start, end(1, 7)]);
    let arena = file.arena();
    let mut pieces = 0;
    Drain::new(arena).pass(|head, at| {
        if head.fragment == FRAGMENT_LAST {
            // The length of the text.
            let base = arena.chunk_base(at.chunk).wrapping_add(at.position as usize + 64);
            // SAFETY: as in `damage`.
            unsafe { base.cast::<u32>().write(u32::MAX) };
            pieces += 1;
        }
    });
    assert_eq!(pieces, 1);
    assert!(writer.finish());
    let lines = told(&place, 1);
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].contains("\"outcome\":\"ok\"") && !lines[0].contains("\"sql\""), "{lines:?}");
    assert!(lines[0].contains("\"sql_bytes\":40000,"), "{lines:?}");
}
