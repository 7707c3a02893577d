//! Many threads, a small arena. Conservation: accepted + lost = sent.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::c_void;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use tacho_ring::arena::Arena;
use tacho_ring::chunk::{Killed, OpenChunk};
use tacho_ring::codec::{Bytes, Event, PRESENT_TEXT, RecordKind, STRING_COUNT, STRING_USER};
use tacho_ring::layout::{ARENA_BYTES_MIN, OVERFLOW_BLOCK, OVERFLOW_DROP, OVERFLOW_TIMEOUT};
use tacho_ring::producer::{self, Emitted};
use tacho_ring::session;

use crate::heap::Heap;
use crate::reader::{Reader, Whole};

const THREADS: usize = 6;
const CONNECTIONS: u64 = 16;
const EVENTS: u64 = 1_500;

/// Sum that the reader can compute again (FNV-1a).
fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum, byte| {
        (sum ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
    })
}

/// Text of event `n` of a connection: mostly short, sometimes of several chunks.
fn text_of(conn: u64, n: u64) -> Vec<u8> {
    let bytes = match (conn * 31 + n) % 97 {
        0 => 40_000,
        1 => 8_192,
        2 => 0,
        other => other as usize * 5,
    };
    (0..bytes).map(|i| (i as u64).wrapping_mul(conn + 7).wrapping_add(n) as u8).collect()
}

/// Event `n` of a connection. Its checksum travels in `query_id`.
fn emit(arena: &Arena, open: &mut OpenChunk, conn: u64, n: u64) -> Emitted {
    let text = text_of(conn, n);
    let user = format!("user_{conn}");
    let mut strings = [Bytes::EMPTY; STRING_COUNT];
    strings[STRING_USER] = Bytes::of(user.as_bytes());
    let kind = if n.is_multiple_of(2) { RecordKind::Start } else { RecordKind::End };
    let event = Event {
        kind: kind as u32,
        present: PRESENT_TEXT,
        conn,
        query_id: checksum(&text),
        text_id: n + 1,
        ts_us: n as i64,
        sql_command: -1,
        errno_: 0,
        sqlstate: [0; 8],
        shown_bytes: 0,
        reserved: 0,
        figures: [0; 5],
        strings,
        text: Bytes::of(&text),
    };
    let sessions = arena.sessions();
    let slot = session::find(sessions, conn)
        .or_else(|| session::claim(sessions, &arena.shared().settings.0, conn, 1))
        .expect("more slots than connections");
    // SAFETY: the event borrows from this function; `open` is of this thread.
    unsafe { producer::emit(arena, open, Some(slot), &event) }
}

/// Runs connections on a pool of threads, a few events at a time, so that each connection
/// moves from thread to thread. Returns how many events were accepted.
fn run_pool(arena: &Arena, events: u64) -> usize {
    let waiting: Mutex<VecDeque<(u64, u64)>> =
        Mutex::new((1..=CONNECTIONS).map(|conn| (conn, 0)).collect());
    let accepted = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let mut open = OpenChunk::default();
                loop {
                    let next = waiting.lock().unwrap().pop_front();
                    let Some((conn, first)) = next else { break };
                    let end = events.min(first + 1 + (conn + first) % 5);
                    for n in first..end {
                        if emit(arena, &mut open, conn, n) == Emitted::Accepted {
                            accepted.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                    if end < events {
                        waiting.lock().unwrap().push_back((conn, end));
                    }
                }
                // Half of the threads keep their chunk open, as a thread cache does.
                if open.index.is_multiple_of(2) {
                    producer::release(arena, &mut open);
                }
            });
        }
    });
    accepted.into_inner()
}

/// Checks the content and numbers of the records, and that each connection is complete except for
/// what was lost.
fn check(records: &[Whole]) {
    let mut by_conn: BTreeMap<u64, Vec<&Whole>> = BTreeMap::new();
    for record in records {
        assert_eq!(record.header.query_id, checksum(&record.text));
        let user = match record.kind {
            RecordKind::End => String::new(),
            _ => format!("user_{}", record.header.conn),
        };
        assert_eq!(record.strings[STRING_USER], user.as_bytes());
        assert!(record.text == text_of(record.header.conn, record.header.text_id - 1));
        by_conn.entry(record.header.conn).or_default().push(record);
    }
    for (conn, mut records) in by_conn {
        records.sort_by_key(|record| record.header.rec_no);
        let mut last_rec_no = session::epoch_of(records[0].header.rec_no) << session::REC_NO_BITS;
        let (mut last_line, mut last_n) = (0, 0);
        for record in records {
            // A number may be used up by a record that was given up half-way, but never used twice.
            assert!(record.header.rec_no > last_rec_no, "connection {conn}");
            last_rec_no = record.header.rec_no;
            assert!(record.header.text_id > last_n, "order of connection {conn}");
            last_n = record.header.text_id;
            if record.kind == RecordKind::Start {
                last_line += 1;
                assert_eq!(record.header.conn_seq, last_line, "connection {conn}");
            }
        }
    }
}

fn dense(records: &[Whole]) -> bool {
    let mut numbers: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    for record in records {
        numbers.entry(record.header.conn).or_default().push(record.header.rec_no);
    }
    numbers.into_values().all(|mut numbers| {
        numbers.sort_unstable();
        numbers.windows(2).all(|pair| pair[1] == pair[0] + 1)
    })
}

fn heap(overflow: u32, timeout_us: u64) -> Heap {
    let heap = Heap::new(ARENA_BYTES_MIN);
    let arena = heap.arena();
    let settings = &arena.shared().settings.0;
    settings.overflow.store(overflow, Ordering::Relaxed);
    settings.overflow_timeout_us.store(timeout_us, Ordering::Relaxed);
    heap
}

fn lost(arena: &Arena) -> (usize, usize) {
    let counters = &arena.shared().counters.0;
    let count = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed) as usize;
    (count(&counters.lost_timeout), count(&counters.lost_dropped))
}

/// Producers and a reader at the same time; returns accepted, and what came out.
fn run_with_reader(arena: &Arena, events: u64) -> (usize, Vec<Whole>) {
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut reader = Reader::new(*arena);
            while !done.load(Ordering::Acquire) {
                if !reader.pass() {
                    thread::yield_now();
                }
            }
            reader.finish();
            // Chunks that threads left open are taken from them, as the writer does at its end.
            for control in arena.controls() {
                tacho_ring::chunk::steal(control, tacho_ring::chunk::look(control));
            }
            reader.finish();
            assert_eq!((reader.damaged, reader.incomplete()), (0, 0));
            reader.records
        });
        let accepted = run_pool(arena, events);
        done.store(true, Ordering::Release);
        (accepted, reader.join().expect("the reader"))
    })
}

#[test]
#[cfg_attr(miri, ignore = "needs more records than Miri can write in a minute")]
fn block_loses_nothing() {
    let heap = heap(OVERFLOW_BLOCK, 0);
    let arena = heap.arena();
    let (accepted, records) = run_with_reader(&arena, EVENTS);
    assert_eq!(accepted as u64, CONNECTIONS * EVENTS);
    assert_eq!(records.len(), accepted);
    assert_eq!(lost(&arena), (0, 0));
    assert!(dense(&records));
    check(&records);
    assert_eq!(arena.free_count(), arena.geometry().chunk_count, "every chunk came back");
}

#[test]
#[cfg_attr(miri, ignore = "needs more records than Miri can write in a minute")]
fn drop_counts_every_record_it_drops() {
    let heap = heap(OVERFLOW_DROP, 0);
    let arena = heap.arena();
    // First without a reader: everything that does not fit must be counted.
    let accepted = run_pool(&arena, EVENTS);
    let mut reader = Reader::new(arena);
    reader.finish();
    assert_eq!((reader.damaged, reader.incomplete()), (0, 0));
    assert_eq!(reader.records.len(), accepted);
    let (timeout, dropped) = lost(&arena);
    assert_eq!(timeout, 0);
    assert!(dropped > 0, "the arena is too large for this test");
    assert_eq!((accepted + dropped) as u64, CONNECTIONS * EVENTS);
    check(&reader.records);
    // Then with one: fewer are lost, and the sum is the same.
    let (accepted, records) = run_with_reader(&arena, EVENTS);
    let now_dropped = lost(&arena).1 - dropped;
    assert_eq!((accepted + now_dropped) as u64, CONNECTIONS * EVENTS);
    assert_eq!(records.len(), accepted);
}

#[test]
#[cfg_attr(miri, ignore = "needs more records than Miri can write in a minute")]
fn timeout_counts_every_record_it_gives_up() {
    let heap = heap(OVERFLOW_TIMEOUT, 200);
    let arena = heap.arena();
    let events = EVENTS.min(300);
    let accepted = run_pool(&arena, events);
    let mut reader = Reader::new(arena);
    reader.finish();
    assert_eq!((reader.damaged, reader.incomplete()), (0, 0));
    assert_eq!(reader.records.len(), accepted);
    let (timeout, dropped) = lost(&arena);
    assert_eq!(dropped, 0);
    assert!(timeout > 0, "the arena is too large for this test");
    assert_eq!((accepted + timeout) as u64, CONNECTIONS * events);
    let blocked = arena.shared().counters.0.blocked_count.load(Ordering::Relaxed) as usize;
    assert!(blocked >= timeout);
    check(&reader.records);
}

/// Turning recording off ends the waits for a chunk.
#[test]
fn switching_off_ends_the_wait() {
    let heap = heap(OVERFLOW_BLOCK, 0);
    let arena = heap.arena();
    while tacho_ring::free::pop(&arena.shared().free_head.0, arena.controls()).is_some() {}
    thread::scope(|scope| {
        let blocked = scope.spawn(|| emit(&arena, &mut OpenChunk::default(), 1, 3));
        while arena.shared().backpressure.0.waiters.load(Ordering::Relaxed) == 0 {
            thread::yield_now();
        }
        arena.shared().settings.0.logging.store(0, Ordering::Relaxed);
        arena.shared().backpressure.0.open(&producer::Futex);
        assert_eq!(blocked.join().unwrap(), Emitted::Lost);
    });
    assert_eq!(lost(&arena), (0, 1));
}

unsafe extern "C" fn is_killed(session: *const c_void) -> bool {
    // SAFETY: the test gives the address of a flag that outlives the wait.
    unsafe { &*session.cast::<AtomicBool>() }.load(Ordering::Relaxed)
}

/// A killed session stops waiting for a chunk, whatever the policy, and has a counter of its own.
#[test]
fn a_kill_ends_the_wait() {
    for (overflow, timeout_us) in [(OVERFLOW_BLOCK, 0), (OVERFLOW_TIMEOUT, 3_600_000_000)] {
        let heap = heap(overflow, timeout_us);
        let arena = heap.arena();
        while tacho_ring::free::pop(&arena.shared().free_head.0, arena.controls()).is_some() {}
        let kill = AtomicBool::new(false);
        thread::scope(|scope| {
            let blocked = scope.spawn(|| {
                let session = (&raw const kill).cast();
                let killed = Killed { ask: Some(is_killed), session };
                emit(&arena, &mut OpenChunk { killed, ..OpenChunk::default() }, 1, 3)
            });
            while arena.shared().backpressure.0.waiters.load(Ordering::Relaxed) == 0 {
                thread::yield_now();
            }
            assert!(!blocked.is_finished(), "it is not killed yet");
            kill.store(true, Ordering::Relaxed);
            assert_eq!(blocked.join().unwrap(), Emitted::Lost);
        });
        assert_eq!(lost(&arena), (0, 0));
        assert_eq!(arena.shared().counters.0.lost_killed.load(Ordering::Relaxed), 1);
    }
}

/// A session that was killed before still gets a chunk that becomes free in time.
#[test]
fn a_kill_gives_up_nothing_that_has_room() {
    let heap = heap(OVERFLOW_BLOCK, 0);
    let arena = heap.arena();
    let kill = AtomicBool::new(true);
    let killed = Killed { ask: Some(is_killed), session: (&raw const kill).cast() };
    let mut open = OpenChunk { killed, ..OpenChunk::default() };
    assert_eq!(emit(&arena, &mut open, 1, 3), Emitted::Accepted);
    producer::release(&arena, &mut open);
    assert!(open.killed.is_true(), "the question does not belong to the chunk");
}
