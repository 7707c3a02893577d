//! Writers that die and are succeeded while producers go on, on real threads.

mod support;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use support::{DEADLINE, Place, emit, event, place};
use tacho_probe::{Probe, Thread};
use tacho_recorder::arena_file::ArenaFile;
use tacho_recorder::writer::Writer;
use tacho_ring::arena::Arena;
use tacho_ring::codec::RecordKind;
use tacho_ring::sys;

/// Another writer, as the server and the recorder begin when the one before is gone.
fn successor(place: &Place, arena: Arena) -> Writer {
    let nothing = ArenaFile::placeholder().expect("memory");
    place.writer(nothing.arena()).take_over(arena)
}

/// Connections that move from thread to thread with each statement, as in a thread pool: whoever
/// takes a connection out of the queue executes its next statement.
#[test]
fn writers_follow_each_other_while_connections_move_between_threads() {
    const CONNS: u64 = 6;
    const THREADS: usize = 3;
    let place = place();
    let file = place.arena();
    let arena = file.arena();
    let mut writer = place.writer(arena);
    writer.note(tacho_event::record::EventKind::Start, "");
    assert!(writer.round());
    let stop = AtomicBool::new(false);
    let queue = std::sync::Mutex::new((1..=CONNS).map(|conn| (conn, 0)).collect::<Vec<_>>());
    let successions = std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let probe = Probe::new(arena, 1);
                let mut thread = Thread::default();
                while !stop.load(Ordering::Relaxed) {
                    let next = queue.lock().expect("nobody panics").pop();
                    let Some((conn, number)) = next else { continue };
                    let query_id = conn << 32 | number;
                    emit(
                        &probe,
                        &mut thread,
                        &event(RecordKind::Start, conn, query_id, b"SELECT 1"),
                    );
                    emit(&probe, &mut thread, &event(RecordKind::End, conn, query_id, b""));
                    queue.lock().expect("nobody panics").insert(0, (conn, number + 1));
                }
            });
        }
        let since = Instant::now();
        let mut successions = 0;
        // Rounds of all lengths before each death.
        while since.elapsed() < Duration::from_secs(3) {
            for _ in 0..successions % 4 {
                assert!(writer.round());
            }
            drop(writer);
            writer = successor(&place, arena);
            successions += 1;
        }
        assert!(writer.round());
        stop.store(true, Ordering::Relaxed);
        successions
    });
    assert!(writer.finish());
    drop(writer);
    assert!(successions > 5, "{successions}");
    let counters = &arena.shared().counters.0;
    assert_eq!(counters.lost_corrupt.load(Ordering::Relaxed), 0);
    let queue = queue.into_inner().expect("nobody panicked");
    let mut expected: BTreeMap<u64, u64> = queue.into_iter().collect();
    // Each statement in one line, in the order of its connection, and complete.
    let mut numbers: BTreeMap<u64, u64> = BTreeMap::new();
    for (index, line) in place.lines().iter().enumerate() {
        let line: serde_json::Value = serde_json::from_str(line).expect("JSON");
        assert_eq!(line["seq"], index as u64 + 1);
        if line["event"] != "statement" {
            continue;
        }
        let query_id = line["query_id"].as_u64().expect("an id");
        let (conn, number) = (query_id >> 32, query_id & 0xffff_ffff);
        assert_eq!(line["outcome"], "ok", "{line}");
        let next = numbers.entry(conn).or_default();
        assert_eq!(number, *next, "{line}");
        *next += 1;
    }
    expected.retain(|_, count| *count > 0);
    assert_eq!(numbers, expected);
}

/// Its beginning stays in the arena; the rest was in the memory of the writer that died.
#[test]
fn a_text_that_was_taken_out_is_known_by_its_beginning() {
    let text: &'static [u8] = vec![b'x'; 2 << 20].leak();
    let place = place();
    let file = place.arena();
    let arena = file.arena();
    let mut writer = place.writer(arena);
    writer.note(tacho_event::record::EventKind::Start, "");
    let gate = &arena.shared().gate.0;
    std::thread::scope(|scope| {
        let producer = scope.spawn(move || {
            let probe = Probe::new(arena, 1);
            let mut thread = Thread::default();
            emit(&probe, &mut thread, &event(RecordKind::Start, 1, 7, text));
            emit(&probe, &mut thread, &event(RecordKind::End, 1, 7, b""));
            emit(&probe, &mut thread, &event(RecordKind::Start, 1, 8, b"SELECT 'after'"));
            emit(&probe, &mut thread, &event(RecordKind::End, 1, 8, b""));
        });
        let since = Instant::now();
        let mut is_succeeded = false;
        while !producer.is_finished() {
            if !is_succeeded && gate.waiters.load(Ordering::Relaxed) > 0 {
                // It takes pieces out, and dies with them.
                assert!(writer.round());
                assert!(!writer.may_let_go());
                drop(writer);
                writer = successor(&place, arena);
                is_succeeded = true;
            }
            assert!(writer.round());
            if since.elapsed() > DEADLINE {
                arena.shared().settings.0.logging.store(0, Ordering::Relaxed);
                panic!("the producer waits for ever");
            }
            std::thread::yield_now();
        }
        assert!(is_succeeded);
    });
    assert!(writer.finish());
    let lines = place.lines();
    let of = |id: &str| lines.iter().filter(|line| line.contains(id)).collect::<Vec<_>>();
    let whole = of("\"query_id\":7,");
    let completed = whole.iter().filter(|line| line.contains("\"outcome\":\"ok\"")).count();
    assert_eq!(completed, 1, "{whole:?}");
    assert!(whole[0].contains(&format!("\"sql_bytes\":{}", text.len())), "{}", whole[0]);
    assert!(!whole[0].contains("\"sql\":"), "half a text is none");
    assert_eq!(of("'after'").len(), 1);
    let lost = of("\"event\":\"lost\"");
    assert!(lost.len() == 1 && lost[0].contains("\"cause\":\"corrupt\""), "{lost:?}");
    assert!(lost[0].contains("\"count\":1"), "{lost:?}");
}

/// A producer that waits for a line whose writer died before it said that it is there.
#[test]
fn who_waits_for_a_line_is_let_go_by_the_next_writer() {
    let place = place();
    let file = place.arena();
    let arena = file.arena();
    arena
        .shared()
        .settings
        .0
        .durability
        .store(tacho_ring::layout::DURABILITY_SYNC, Ordering::Relaxed);
    let mut writer = place.writer(arena);
    writer.note(tacho_event::record::EventKind::Start, "");
    assert!(writer.round());
    drop(writer);
    std::thread::scope(|scope| {
        let producer = scope.spawn(move || {
            let probe = Probe::new(arena, 1);
            let mut thread = Thread::default();
            for number in 0..50 {
                let mut start = event(RecordKind::Start, 1, number, b"SELECT 1");
                start.present |= tacho_ring::codec::PRESENT_AWAITED;
                emit(&probe, &mut thread, &start);
                emit(&probe, &mut thread, &event(RecordKind::End, 1, number, b""));
            }
        });
        let since = Instant::now();
        while !producer.is_finished() {
            // None of them lives for more than a round.
            assert!(successor(&place, arena).round());
            if since.elapsed() > DEADLINE {
                arena.shared().settings.0.logging.store(0, Ordering::Relaxed);
                panic!("the producer waits for ever");
            }
        }
    });
    let mut writer = successor(&place, arena);
    assert!(writer.finish());
    let ended = place.lines().iter().filter(|line| line.contains("\"outcome\":\"ok\"")).count();
    assert_eq!(ended, 50);
    assert!(sys::now_us() > 0);
}
