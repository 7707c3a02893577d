//! Writers that die and are replaced while producers continue, on real threads.

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use support::{DEADLINE, TestLog, drain_while, emit, event, place};
use tacho_probe::{Probe, Thread, tacho_probe_emit};
use tacho_recorder::arena_file::ArenaFile;
use tacho_recorder::control::Severity;
use tacho_recorder::drain::Drain;
use tacho_recorder::spill::{self, ArenaSource};
use tacho_recorder::writer::Writer;
use tacho_ring::arena::Arena;
use tacho_ring::codec::{Event, RecordKind};

/// Another writer, as server and recorder start it when the previous one is gone.
fn successor(place: &TestLog, source: impl Into<ArenaSource>) -> Writer {
    let nothing = ArenaFile::placeholder().expect("memory");
    place.writer(nothing.arena()).take_over(source)
}

/// The end of a statement of connection 1, as the server reports it: without its text.
fn end(query_id: u64) -> Event {
    Event { present: 0, shown_bytes: u32::MAX, ..event(RecordKind::End, 1, query_id, b"") }
}

/// The writer dies, and another one takes over.
fn succeed(writer: &mut Option<Writer>, place: &TestLog, source: impl Into<ArenaSource>) {
    drop(writer.take());
    *writer = Some(successor(place, source));
}

fn round(writer: &mut Option<Writer>) {
    assert!(writer.as_mut().expect("there is one").round());
}

/// Connections that move from thread to thread with each statement, as in a thread pool: the thread
/// that takes a connection out of the queue executes its next statement.
#[test]
fn writers_follow_each_other_while_connections_move_between_threads() {
    const CONNS: u64 = 6;
    const THREADS: usize = 3;
    let place = place();
    let file = place.arena();
    let arena = file.arena();
    let mut writer = place.writer(arena);
    writer.note(tacho_record::EventKind::Start, "");
    let mut writer = Some(writer);
    round(&mut writer);
    let stop = AtomicBool::new(false);
    let queue = std::sync::Mutex::new((1..=CONNS).map(|conn| (conn, 0)).collect::<Vec<_>>());
    let successions = std::thread::scope(|scope| {
        let producer = || {
            scope.spawn(|| {
                let probe = Probe::new(arena, 1);
                let mut thread = Thread::default();
                while !stop.load(Ordering::Relaxed) {
                    let next = queue.lock().expect("no panic").pop();
                    let Some((conn, number)) = next else { continue };
                    let query_id = conn << 32 | number;
                    emit(
                        &probe,
                        &mut thread,
                        &event(RecordKind::Start, conn, query_id, b"SELECT 1"),
                    );
                    emit(&probe, &mut thread, &event(RecordKind::End, conn, query_id, b""));
                    queue.lock().expect("no panic").insert(0, (conn, number + 1));
                }
            })
        };
        let producers: Vec<_> = (0..THREADS).map(|_| producer()).collect();
        let since = Instant::now();
        let mut successions = 0;
        // Rounds of different lengths before each death; a busy machine takes longer.
        while since.elapsed() < Duration::from_secs(3) || successions <= 8 {
            for _ in 0..successions % 4 {
                round(&mut writer);
            }
            succeed(&mut writer, &place, arena);
            successions += 1;
        }
        stop.store(true, Ordering::Relaxed);
        // They may be waiting for a free chunk.
        while !producers.iter().all(|producer| producer.is_finished()) {
            round(&mut writer);
        }
        successions
    });
    assert!(writer.expect("there is one").finish());
    assert!(successions > 8, "{successions}");
    let counters = &arena.shared().counters.0;
    assert_eq!(counters.lost_corrupt.load(Ordering::Relaxed), 0);
    let queue = queue.into_inner().expect("no panic");
    let mut expected: BTreeMap<u64, u64> = queue.into_iter().collect();
    // Each statement has one line, complete and in the order of its connection.
    let mut numbers: BTreeMap<u64, u64> = BTreeMap::new();
    let mut running = BTreeSet::new();
    for (index, line) in place.lines().iter().enumerate() {
        let line: serde_json::Value = serde_json::from_str(line).expect("JSON");
        assert_eq!(line["seq"], index as u64 + 1);
        if line["event"] != "statement" {
            continue;
        }
        let query_id = line["query_id"].as_u64().expect("an id");
        let (conn, number) = (query_id >> 32, query_id & 0xffff_ffff);
        if let Some(seq) = line["running_seq"].as_u64() {
            assert!(running.remove(&seq), "{line}");
            assert_eq!(line["outcome"], "ok", "{line}");
            continue;
        }
        // A statement that is open when chunks are short has two lines.
        if line["outcome"] == "running" {
            running.insert(index as u64 + 1);
        } else {
            assert_eq!(line["outcome"], "ok", "{line}");
        }
        let next = numbers.entry(conn).or_default();
        assert_eq!(number, *next, "{line}");
        *next += 1;
    }
    expected.retain(|_, count| *count > 0);
    assert_eq!(numbers, expected);
    assert!(running.is_empty(), "{running:?}");
}

#[test]
fn texts_larger_than_the_arena_outlive_their_writers() {
    const CONNS: u64 = 3;
    const EACH: u64 = 3;
    let place = place();
    let file = place.arena();
    let arena = file.arena();
    let is_spilled = || !spill::files(file.path()).expect("lists").is_empty();
    let mut writer = Some(place.writer(arena).with_arena(file.source().expect("reads")));
    let mut succession_count = 0;
    std::thread::scope(|scope| {
        let producers = (1..=CONNS).map(|conn| {
            scope.spawn(move || {
                let probe = Probe::new(arena, 1);
                let mut thread = Thread::default();
                for id in (0..EACH).map(|number| 10 * conn + number) {
                    emit(&probe, &mut thread, &event(RecordKind::Start, conn, id, large(id)));
                    emit(&probe, &mut thread, &Event { conn, ..end(id) });
                }
            })
        });
        let producers: Vec<_> = producers.collect();
        let since = Instant::now();
        for pass in 0_u64.. {
            if producers.iter().all(|producer| producer.is_finished()) {
                break;
            }
            round(&mut writer);
            // Moments of all kinds: some fragments are there, some were just written.
            if (succession_count < 12 || pass % 5 < 2) && is_spilled() {
                let living = file.source().expect("reads");
                succeed(&mut writer, &place, living);
                succession_count += 1;
            }
            if since.elapsed() > DEADLINE {
                arena.shared().settings.0.logging.store(0, Ordering::Relaxed);
                panic!("a producer waits for ever");
            }
            std::thread::yield_now();
        }
    });
    // At least once for each of a connection's texts: those of other connections may arrive at the
    // same time.
    assert!(succession_count >= EACH, "{succession_count}");
    assert!(writer.expect("there is one").finish());
    assert!(!is_spilled(), "all of it is in the log");
    let lines = place.lines();
    for id in (1..=CONNS).flat_map(|conn| (0..EACH).map(move |number| 10 * conn + number)) {
        let is_it = |line: &&String| line.contains(&format!("\"query_id\":{id},"));
        let of: Vec<_> = lines.iter().filter(is_it).collect();
        let whole = format!("\"sql\":\"{}\"", String::from_utf8_lossy(large(id)));
        assert_eq!(of.iter().filter(|line| line.contains(&whole)).count(), 1, "{id}");
        let ok_count = of.iter().filter(|line| line.contains("\"outcome\":\"ok\"")).count();
        assert_eq!(ok_count, 1, "{id}");
    }
    assert!(!lines.iter().any(|line| line.contains("\"event\":\"lost\"")));
    assert_eq!(place.said(Severity::Warning), <[String; 0]>::default());
}

/// A text that is larger than the arena.
fn large(id: u64) -> &'static [u8] {
    format!("{id:x} ").repeat(700_000).into_bytes().leak()
}

/// A writer dies while it moves the fragments of a text: some are in both places, and some of these
/// are marked.
#[test]
fn fragments_in_two_places_are_in_one_line() {
    let text: &'static [u8] = b"piece ".repeat(100_000).leak();
    for (moved, marked) in [(1, 0), (1, 1), (5, 0), (5, 3), (5, 5), (60, 59)] {
        for is_alive in [true, false] {
            let place = place();
            let file = place.arena();
            let mut writer = place.writer(file.arena());
            writer.note(tacho_record::EventKind::Start, "");
            assert!(writer.round());
            let written_seq = writer.last_seq();
            drop(writer);
            let probe = Probe::new(file.arena(), 1);
            let mut thread = Thread::default();
            emit(&probe, &mut thread, &event(RecordKind::Start, 1, 7, text));
            emit(&probe, &mut thread, &end(7));
            emit(&probe, &mut thread, &event(RecordKind::Point, 1, 8, b"SELECT 'after'"));
            let mut drain = Drain::new(file.source().expect("reads"));
            let mut found = Vec::new();
            drain.pass(|head, at| found.push((head.rec_no, head.fragment_number, at)));
            found.sort_by_key(|(rec_no, fragment, _)| (*rec_no, *fragment));
            assert!(found.len() > 60);
            for (number, (_, _, at)) in found.iter().take(moved).enumerate() {
                drain.spill(*at).expect("there is room");
                if number < marked {
                    drain.settle(*at, written_seq);
                }
            }
            drop(drain);
            if is_alive {
                let mut writer = successor(&place, file.source().expect("reads"));
                assert!(writer.round() && writer.finish());
                assert_eq!(spill::files(file.path()).expect("lists"), []);
            } else {
                drop(file);
                let (_writer, recovered) = place.recover();
                recovered.expect("recovers");
            }
            let lines = place.lines();
            let whole = format!("\"sql\":\"{}\"", String::from_utf8_lossy(text));
            let of = lines.iter().filter(|line| line.contains(&whole)).collect::<Vec<_>>();
            assert!(of.len() == 1 && of[0].contains("\"outcome\":\"ok\""), "{moved} {marked}");
            let after = lines.iter().filter(|line| line.contains("'after'")).count();
            assert_eq!((after, lines.iter().any(|line| line.contains("\"lost\""))), (1, false));
            let left = std::fs::read_dir(&place.arenas).expect("lists").count();
            assert_eq!(left, usize::from(is_alive), "the arena of a living server");
        }
    }
}

/// If there is no space for fragments beside the arena, they are kept in memory.
#[test]
fn a_text_is_whole_without_a_spill() {
    let place = place();
    let file = place.arena();
    let mut writer = place.writer(file.arena()).with_arena(file.source().expect("reads"));
    // No file can be created there, not even by root.
    let elsewhere = place.arenas.with_extension("moved");
    std::fs::rename(&place.arenas, &elsewhere).expect("moves");
    drain_while(file.arena(), &mut writer, |probe| {
        let mut thread = Thread::default();
        emit(probe, &mut thread, &event(RecordKind::Start, 1, 7, large(7)));
        emit(probe, &mut thread, &end(7));
    });
    assert!(writer.finish());
    std::fs::rename(&elsewhere, &place.arenas).expect("moves back");
    let whole = format!("\"sql\":\"{}\"", String::from_utf8_lossy(large(7)));
    assert_eq!(place.lines().iter().filter(|line| line.contains(&whole)).count(), 1);
    let said = place.said(Severity::Warning);
    assert!(said.len() == 1 && said[0].contains(".0.annex: "), "{said:?}");
}

/// Its beginning stays in the arena; the rest was in the memory of the writer that died.
#[test]
fn a_text_that_was_moved_out_is_identified_by_its_beginning() {
    let text: &'static [u8] = vec![b'x'; 2 << 20].leak();
    let place = place();
    let file = place.arena();
    let arena = file.arena();
    let mut writer = place.writer(arena);
    writer.note(tacho_record::EventKind::Start, "");
    let mut writer = Some(writer);
    let backpressure = &arena.shared().backpressure.0;
    std::thread::scope(|scope| {
        let producer = scope.spawn(move || {
            let probe = Probe::new(arena, 1);
            let mut thread = Thread::default();
            emit(&probe, &mut thread, &event(RecordKind::Start, 1, 7, text));
            emit(&probe, &mut thread, &end(7));
            emit(&probe, &mut thread, &event(RecordKind::Start, 1, 8, b"SELECT 'after'"));
            emit(&probe, &mut thread, &end(8));
        });
        let since = Instant::now();
        let mut is_succeeded = false;
        while !producer.is_finished() {
            // Fragments are moved out only when the arena is full: with a quick writer, no producer
            // would wait.
            if !is_succeeded && backpressure.waiters.load(Ordering::Relaxed) > 0 {
                // It moves fragments out, and dies with them.
                round(&mut writer);
                assert!(!writer.as_mut().expect("there is one").may_release());
                succeed(&mut writer, &place, arena);
                is_succeeded = true;
            }
            if is_succeeded {
                round(&mut writer);
            }
            if since.elapsed() > DEADLINE {
                arena.shared().settings.0.logging.store(0, Ordering::Relaxed);
                panic!("the producer waits for ever");
            }
            std::thread::yield_now();
        }
        assert!(is_succeeded);
    });
    assert!(writer.expect("there is one").finish());
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

/// A producer that waits for a line whose writer died before it could release the producer.
#[test]
fn the_next_writer_releases_a_producer_that_waits_for_a_line() {
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
    writer.note(tacho_record::EventKind::Start, "");
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
            // None of them lives longer than a round.
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
}

/// A recorder that recovers what dead servers left may run between the death of a writer and the
/// return of its server.
#[test]
fn marks_of_lines_that_were_never_written_do_not_outlive_the_lock() {
    let place = place();
    let file = place.arena();
    let arena = file.arena();
    let mut writer = place.writer(arena);
    writer.note(tacho_record::EventKind::Start, "");
    assert!(writer.round());
    let last_seq = writer.last_seq();
    drop(writer);
    let state = &arena.shared().writer.0;
    let written = state.start_seq.load(Ordering::Relaxed);
    assert!((1..=last_seq).contains(&written));
    let unwritten = &arena.shared().successor.0.stop_seq;
    unwritten.store(last_seq + 1, Ordering::Relaxed);
    let (writer, recovered) = place.recover();
    recovered.expect("nothing is dead");
    drop(writer);
    assert_eq!(unwritten.load(Ordering::Relaxed), 0);
    assert_eq!(state.start_seq.load(Ordering::Relaxed), written);
}

/// A connection that found no slot, as with thousands of connections: its records have no numbers.
fn emit_without_slot(probe: &Probe, thread: &mut Thread, event: &Event) {
    // SAFETY: everything is valid, and of this thread.
    unsafe { tacho_probe_emit(probe, thread, None, event) };
}

/// Statements of a connection without a slot, on two threads: the chunk with the end of each begins
/// with an older record than the chunk with its start, and is read before it. `text`: also one in
/// fragments.
fn on_two_threads(arena: Arena, text: &'static [u8]) {
    let probe = Probe::new(arena, 1);
    let (mut first, mut second) = (Thread::default(), Thread::default());
    let ts_us = tacho_ring::sys::now_us();
    emit(&probe, &mut second, &event(RecordKind::Point, 9, 1, b"SELECT 'another one'"));
    let at = |kind, query_id, text, after_us| Event {
        ts_us: ts_us + after_us,
        ..event(kind, 7, query_id, text)
    };
    for number in 0..20 {
        let (query_id, after_us) = (100 + number, 100 * number as i64);
        let text = if number % 4 == 0 { text } else { b"SELECT 'without a slot'" };
        emit_without_slot(
            &probe,
            &mut first,
            &at(RecordKind::Start, query_id, text, after_us + 10),
        );
        // The clock of errors lags by less time than passes until the next statement.
        let error = at(RecordKind::Error, query_id, b"a message", after_us);
        emit_without_slot(&probe, &mut first, &error);
        let mut end = at(RecordKind::Point, query_id, text, after_us + 20);
        end.errno_ = 1242;
        emit_without_slot(&probe, &mut second, &end);
    }
}

/// Asserts that each of them has one line, with its text, its outcome and its message.
fn assert_whole(place: &TestLog) {
    let lines = place.lines();
    for query_id in 100..120 {
        let id = format!("\"query_id\":{query_id},");
        let of: Vec<_> = lines.iter().filter(|line| line.contains(&id)).collect();
        assert_eq!(of.len(), 1, "{of:#?}");
        let line: serde_json::Value = serde_json::from_str(of[0]).expect("JSON");
        assert_eq!(line["outcome"], "error", "{}", &of[0][..200]);
        assert_eq!(line["error"], "a message");
        assert!(line["sql"].as_str().is_some_and(|sql| sql.starts_with("SELECT")));
    }
}

#[test]
fn records_without_a_slot_are_ordered_by_the_next_writer() {
    let text: &'static [u8] = [b"SELECT ", &*vec![b'x'; 20_000]].concat().leak();
    let place = place();
    let file = place.arena();
    let arena = file.arena();
    let mut writer = place.writer(arena);
    writer.note(tacho_record::EventKind::Start, "");
    assert!(writer.round());
    drop(writer);
    on_two_threads(arena, text);
    let mut writer = successor(&place, arena);
    assert!(writer.round());
    assert!(writer.finish());
    assert_whole(&place);
}

#[test]
fn records_without_a_slot_are_ordered_by_recovery() {
    let text: &'static [u8] = [b"SELECT ", &*vec![b'x'; 20_000]].concat().leak();
    let place = place();
    let file = place.arena();
    on_two_threads(file.arena(), text);
    drop(file);
    let (_writer, recovered) = place.recover();
    assert_eq!(recovered.expect("recovers").arenas, 1);
    assert_whole(&place);
}

/// The fragments of a text are gone with a directory that was not moved along: this is counted.
#[test]
fn a_text_whose_beginning_is_missing_is_counted() {
    let place = place();
    let file = place.arena();
    let text: &'static [u8] = b"piece ".repeat(100_000).leak();
    let mut writer = place.writer(file.arena());
    writer.note(tacho_record::EventKind::Start, "");
    assert!(writer.round());
    let written_seq = writer.last_seq();
    drop(writer);
    let probe = Probe::new(file.arena(), 1);
    emit(&probe, &mut Thread::default(), &event(RecordKind::Start, 1, 7, text));
    let mut drain = Drain::new(file.source().expect("reads"));
    let mut found = Vec::new();
    drain.pass(|head, at| found.push((head.fragment_number, at)));
    found.sort_by_key(|(fragment, _)| *fragment);
    for (_, at) in found.iter().take(3) {
        drain.spill(*at).expect("there is room");
        drain.settle(*at, written_seq);
    }
    drop(drain);
    spill::remove_all(file.path()).expect("removes");
    drop(file);
    let (_writer, recovered) = place.recover();
    recovered.expect("recovers");
    let lines = place.lines();
    let lost: Vec<_> = lines.iter().filter(|l| l.contains("\"event\":\"lost\"")).collect();
    assert!(lost.len() == 1 && lost[0].contains("\"count\":1,\"cause\":\"corrupt\""), "{lines:?}");
}
