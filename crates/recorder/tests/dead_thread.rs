//! A thread of the server that dies while it writes a record: its chunk stays BUSY, and no
//! component waits for it. One record is lost and reported; records before and after it are
//! written.

mod support;

use std::sync::atomic::Ordering;

use support::{TestLog, emit, event, place, round_until};
use tacho_probe::{Probe, Thread};
use tacho_recorder::arena_file::ArenaFile;
use tacho_recorder::control::Severity;
use tacho_recorder::drain::Drain;
use tacho_ring::arena::Arena;
use tacho_ring::chunk::{self, BUSY, IDLE};
use tacho_ring::codec::{Event, RecordKind};

const SECOND_US: i64 = 1_000_000;
const HOUR_US: i64 = 3_600 * SECOND_US;
/// An arbitrary time after the start of the machine.
const NOW_US: i64 = 1_000 * HOUR_US;

fn point(conn: u64, query_id: u64, text: &'static [u8]) -> Event {
    event(RecordKind::Point, conn, query_id, text)
}

/// Turns the only owned, idle chunk into the chunk of an owner that died while it wrote: BUSY, with
/// uncommitted bytes behind the last record.
fn die_inside(arena: &Arena) -> u32 {
    let mut end = None;
    Drain::new(*arena).pass(|_, at| end = Some((at.chunk, at.position + at.bytes)));
    let (index, position) = end.expect("a record");
    let control = &arena.controls()[index as usize];
    let word = chunk::look(control);
    assert_eq!(chunk::state_of(word), IDLE);
    control.state.store(word ^ (IDLE ^ BUSY), Ordering::Relaxed);
    let place = arena.chunk_base(index).wrapping_add(position as usize + 4);
    // SAFETY: behind the commit word of the next record, within its chunk, which is far from full;
    // nothing else uses the arena at this time.
    unsafe { place.write_bytes(0xa5, 100) };
    index
}

/// Records the events on a thread that has ended when this returns.
fn record_and_die<const N: usize>(file: &ArenaFile, events: fn() -> [Event; N]) -> u32 {
    let arena = file.arena();
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let probe = Probe::new(arena, 1);
            let mut thread = Thread::default();
            events().iter().for_each(|event| emit(&probe, &mut thread, event));
        });
        thread.join().expect("it records");
    });
    die_inside(&arena)
}

fn lost_corrupt(arena: &Arena) -> u64 {
    arena.shared().counters.0.lost_corrupt.load(Ordering::Relaxed)
}

fn lines_with(place: &TestLog, part: &str) -> Vec<String> {
    place.lines().into_iter().filter(|line| line.contains(part)).collect()
}

#[test]
fn a_thread_that_died_while_writing_blocks_no_other() {
    let place = place();
    let file = place.arena();
    let arena = file.arena();
    let all_free = arena.free_count();
    let mut writer = place.writer(arena);
    record_and_die(&file, || [point(1, 1, b"SELECT 'before'"), point(2, 2, b"SELECT 'other'")]);
    // Its connection continues on another thread, as in a thread pool, and so do others.
    let probe = Probe::new(arena, 1);
    let mut thread = Thread::default();
    emit(&probe, &mut thread, &point(1, 3, b"SELECT 'behind'"));
    assert!(writer.round());
    // These need not wait until the thread is known to be dead.
    assert_eq!(lines_with(&place, "\"sql\":\"SELECT ").len(), 3, "{:?}", place.lines());
    assert_eq!(lost_corrupt(&arena), 0);

    round_until(&mut writer, || lost_corrupt(&arena) > 0);
    emit(&probe, &mut thread, &point(1, 4, b"SELECT 'afterwards'"));
    assert!(writer.finish());
    assert_eq!(lost_corrupt(&arena), 1, "one record, once");
    let lost = lines_with(&place, "\"event\":\"lost\"");
    assert_eq!(lost.len(), 1, "{lost:?}");
    assert!(lost[0].contains("\"count\":1,\"cause\":\"corrupt\""), "{lost:?}");
    for (text, conn_seq) in [("before", 1), ("behind", 2), ("afterwards", 3)] {
        let lines = lines_with(&place, &format!("SELECT '{text}'"));
        assert_eq!(lines.len(), 1, "{text}");
        assert!(lines[0].contains(&format!("\"conn\":1,\"conn_seq\":{conn_seq},")), "{lines:?}");
    }
    for (line, seq) in place.lines().iter().zip(1..) {
        assert!(line.starts_with(&format!("{{\"v\":1,\"seq\":{seq},")), "{line}");
    }
    let warned = place.said(Severity::Warning);
    assert_eq!(warned.len(), 1, "{warned:?}");
    assert!(warned[0].starts_with("1 records were lost (corrupt)"), "{warned:?}");
    // Its chunk can be reused; only that of the living thread cannot.
    assert_eq!(arena.free_count(), all_free - 1);
}

/// The statement of a dead thread has no end: its line says so, and no other line.
#[test]
fn the_statement_of_a_dead_thread_is_left_open() {
    let place = place();
    let file = place.arena();
    let mut writer = place.writer(file.arena());
    record_and_die(&file, || [event(RecordKind::Start, 1, 1, b"SELECT 'dies'")]);
    round_until(&mut writer, || lost_corrupt(&file.arena()) > 0);
    assert!(writer.finish());
    let lines = lines_with(&place, "SELECT 'dies'");
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].contains("\"outcome\":\"running\""), "{lines:?}");
}

#[test]
fn its_chunk_is_closed_after_a_bounded_wait_and_not_before() {
    let place = place();
    let file = place.arena();
    let index = record_and_die(&file, || [point(1, 1, b"SELECT 1")]);
    let mut drain = Drain::new(file.arena());
    drain.pass(|head, at| assert_eq!((head.query_id, at.chunk), (1, index)));
    assert_eq!(drain.bury_dead(NOW_US), 0, "it may be alive and slow");
    assert_eq!(drain.bury_dead(NOW_US + 2 * SECOND_US), 0, "the wait is not over");
    assert_eq!(drain.bury_dead(NOW_US + 2 * SECOND_US + 1), 1);
    assert_eq!(drain.bury_dead(NOW_US + HOUR_US), 0, "it is counted once");
    drain.pass(|_, _| panic!("uncommitted bytes are not a record"));
}

/// However long it takes: a thread that exists may still be writing.
#[test]
fn a_living_thread_keeps_its_chunk() {
    let place = place();
    let file = place.arena();
    let probe = Probe::new(file.arena(), 1);
    let mut thread = Thread::default();
    emit(&probe, &mut thread, &point(1, 1, b"SELECT 1"));
    die_inside(&file.arena());
    let mut drain = Drain::new(file.arena());
    drain.pass(|_, _| ());
    for hours in 0..100 {
        assert_eq!(drain.bury_dead(NOW_US + hours * HOUR_US), 0);
    }
}

/// Without `/proc` no thread counts as dead.
#[test]
fn without_a_list_of_threads_none_is_taken_for_dead() {
    let place = place();
    let file = place.arena();
    record_and_die(&file, || [point(1, 1, b"SELECT 1")]);
    let mut drain = Drain::new(file.arena());
    for tasks in [None, Some(place.arenas.join("nosuch"))] {
        drain.set_tasks(tasks);
        drain.pass(|_, _| ());
        assert_eq!(drain.bury_dead(NOW_US), 0);
        assert_eq!(drain.bury_dead(NOW_US + HOUR_US), 0);
    }
}
