//! The writer when the arena is short, the log cannot be written, or several arenas are left: each
//! of these histories once blocked the producers or lost records without a report.

mod support;

use std::sync::atomic::Ordering;
use std::time::Instant;

use support::{DEADLINE, TestLog, drain_while, emit, event, place};
use tacho_probe::{Probe, Thread, tacho_probe_forget, tacho_probe_session};
use tacho_recorder::arena_file::ArenaFile;
use tacho_recorder::recover::{self, RecoverError, Recovered};
use tacho_ring::arena::Arena;
use tacho_ring::codec::RecordKind;
use tacho_ring::layout::ARENA_BYTES_MIN;
use tacho_ring::{consumer, sys};

#[test]
fn a_routine_that_handles_errors_without_end_does_not_fill_the_arena() {
    let place = place();
    let file = place.arena();
    let mut writer = place.writer(file.arena());
    drain_while(file.arena(), &mut writer, |probe| {
        let mut thread = Thread::default();
        emit(probe, &mut thread, &event(RecordKind::Start, 1, 7, b"CALL p()"));
        for _ in 0..20_000 {
            emit(probe, &mut thread, &event(RecordKind::Error, 1, 7, b"Subquery returns rows"));
        }
        emit(probe, &mut thread, &event(RecordKind::End, 1, 7, b""));
    });
    assert!(writer.finish());
    let lines = place.lines();
    let first = lines.iter().position(|l| l.contains("CALL p()")).expect("is written");
    let first_seq = format!("\"running_seq\":{}", first + 1);
    let ended: Vec<_> = lines.iter().filter(|l| l.contains("\"outcome\":\"ok\"")).collect();
    assert_eq!(ended.len(), 1);
    assert!(ended[0].contains(&first_seq), "{}", ended[0]);
    assert_eq!(file.arena().shared().counters.0.lost_corrupt.load(Ordering::Relaxed), 0);
}

#[test]
fn errors_without_later_records_do_not_fill_the_arena() {
    const CONNS: u64 = 2_000;
    let place = place();
    let file = place.arena();
    let mut writer = place.writer(file.arena());
    drain_while(file.arena(), &mut writer, |probe| {
        for conn in 1..=CONNS {
            // Each call is a connection and a thread of its own.
            let mut thread = Thread::default();
            emit(probe, &mut thread, &event(RecordKind::Error, conn, 0, b"no definer 'x'"));
            // SAFETY: everything is valid, and of this thread.
            unsafe { tacho_probe_forget(probe, &mut thread, None) };
        }
    });
    assert!(writer.finish());
    let lines = place.lines();
    let told = lines.iter().filter(|l| l.contains("\"error\":\"<redacted>\"")).count();
    assert_eq!(told as u64, CONNS, "each in a line");
}

#[test]
fn connections_without_an_end_are_forgotten() {
    let place = place();
    let file = place.arena();
    let mut writer = place.writer(file.arena());
    let probe = Probe::new(file.arena(), 1);
    let mut thread = Thread::default();
    for conn in 1..=10_000 {
        emit(&probe, &mut thread, &event(RecordKind::Start, conn, conn, b"SELECT 1"));
        emit(&probe, &mut thread, &event(RecordKind::End, conn, conn, b""));
        // As `connection` in the adapter does while recording is off.
        // SAFETY: everything is valid, and of this thread.
        unsafe {
            let session = tacho_probe_session(&probe, conn, sys::now_us());
            tacho_probe_forget(&probe, &mut thread, session);
        }
        if conn % 50 == 0 {
            assert!(writer.round());
        }
    }
    assert!(writer.connection_count() < 3_000, "{}", writer.connection_count());

    assert!(writer.finish());
    assert_eq!(place.lines().len(), 10_001, "the statements and `stop`");
}

fn mark_all(arena: &Arena, seq: u64) {
    // As a writer does before a write that a crash prevents.
    consumer::settle(arena, 0, 0, seq);
}

fn dead_arena(place: &TestLog, text: &'static [u8], marked_with: u64) {
    let file = place.arena();
    let probe = Probe::new(file.arena(), 1);
    emit(&probe, &mut Thread::default(), &event(RecordKind::Start, 1, 1, text));
    mark_all(&file.arena(), marked_with);
}

#[test]
fn marks_of_one_arena_are_not_taken_for_lines_of_another() {
    let place = place();
    // Both died while they wrote line 1. The first could not be recovered before the second died,
    // because the disk was full all the time.
    dead_arena(&place, b"SELECT 'first'", 1);
    dead_arena(&place, b"SELECT 'second'", 1);
    let (_writer, result) = place.recover();
    assert_eq!(result.expect("recovers"), Recovered { arenas: 2, lines: 4 });
    // Each after the `start` line that its server had not written.
    let lines = place.lines();
    assert!(lines[1].contains("'first'") && lines[3].contains("'second'"), "{lines:?}");
}

#[test]
fn lines_that_recovery_could_not_write_do_not_affect_the_next_arena() {
    // More than one batch, so that some records are formatted and some are not.
    let place = place();
    let old = place.arena();
    let probe = Probe::new(old.arena(), 1);
    let mut thread = Thread::default();
    for n in 1..=3_000 {
        emit(&probe, &mut thread, &event(RecordKind::Point, n, n, b"SELECT 'of the dead server'"));
    }
    drop(old);
    let new = ArenaFile::create(&place.arenas, ARENA_BYTES_MIN, &place.log, "").expect("makes");
    let writer = place.writer(new.arena());
    place.break_log();
    let (writer, result) = recover::recover_all(writer, &place.arenas, &place.log);
    assert!(matches!(result, Err(RecoverError::NotWritten(_))), "{result:?}");
    let mut writer = writer.with_arena(new.arena());
    place.mend_log();
    let start = Instant::now();
    while !writer.finish() {
        assert!(start.elapsed() < DEADLINE, "the log can be written again");
        std::thread::yield_now();
    }
    writer.close().expect("closes");
    drop(new);
    let (_writer, result) = place.recover();
    result.expect("recovers");
    let count = place.lines().iter().filter(|l| l.contains("of the dead server")).count();
    assert_eq!(count, 3_000, "each once");
    assert!(!place.lines().iter().any(|l| l.contains("\"lost\"")));
}

#[test]
fn a_loss_is_reported_even_if_its_line_could_not_be_written_at_first() {
    let place = place();
    let file = place.arena();
    let mut writer = place.writer(file.arena());
    let probe = Probe::new(file.arena(), 1);
    let mut thread = Thread::default();
    emit(&probe, &mut thread, &event(RecordKind::Point, 1, 1, b"SELECT 1"));
    // As producers do when there is no space.
    file.arena().shared().counters.0.lost_dropped.fetch_add(5, Ordering::Relaxed);
    place.break_log();
    assert!(!writer.round());
    // The server is killed.
    drop(writer);
    drop(file);
    place.mend_log();
    let (_writer, result) = place.recover();
    result.expect("recovers");
    let lines = place.lines();
    let lost: Vec<_> = lines.iter().filter(|l| l.contains("\"event\":\"lost\"")).collect();
    assert_eq!(lost.len(), 1, "{lost:?}");
    assert!(lost[0].contains("\"count\":5,\"cause\":\"dropped\""), "{}", lost[0]);
}
