//! An error is stored without a wait, because the server may hold locks when it reports it.

use std::sync::atomic::Ordering;

use tacho_ring::chunk::{self, OpenChunk};
use tacho_ring::codec::{
    Bytes, Event, NOTICE_AUTHID_DROP, NOTICE_SET, PRESENT_FIGURES, PRESENT_TEXT, RecordKind,
    STRING_COMMAND,
};
use tacho_ring::free;
use tacho_ring::layout::{
    ARENA_BYTES_MIN, Counters, OVERFLOW_BLOCK, OVERFLOW_DROP, OVERFLOW_LET_GO, OVERFLOW_TIMEOUT,
};
use tacho_ring::producer::{self, Emitted};

use crate::heap::Heap;

/// The server's longest message.
static MESSAGE: [u8; 512] = [b'e'; 512];
static TEXT: [u8; 8192] = [b't'; 8192];
/// A chunk other than the producer's first one.
const SPARE_CHUNK: u32 = 1;

fn event(kind: RecordKind, text: &'static [u8]) -> Event {
    Event {
        kind: kind as u32,
        present: PRESENT_TEXT,
        conn: 1,
        query_id: 1,
        text_id: 1,
        ts_us: 1,
        sql_command: 0,
        errno_: 1146,
        text: Bytes::of(text),
        ..Event::EMPTY
    }
}

struct Producer {
    heap: Heap,
    open: OpenChunk,
}

impl Producer {
    /// A producer that has the last chunk: none is free.
    fn with_the_last_chunk(overflow: u32) -> Producer {
        let heap = Heap::new(ARENA_BYTES_MIN);
        heap.arena().shared().settings.0.overflow.store(overflow, Ordering::Relaxed);
        let mut producer = Producer { heap, open: OpenChunk::default() };
        assert_eq!(producer.emit(RecordKind::Start, b"SELECT 1"), Emitted::Accepted);
        let arena = producer.heap.arena();
        while free::pop(&arena.shared().free_head.0, arena.controls()).is_some() {}
        producer
    }

    fn emit(&mut self, kind: RecordKind, text: &'static [u8]) -> Emitted {
        let event = event(kind, text);
        // SAFETY: the texts are static, and the chunk is of this thread and this arena.
        unsafe { producer::emit(&self.heap.arena(), &mut self.open, None, &event) }
    }

    /// With figures, as the server's.
    fn end(&mut self) -> Emitted {
        let event = Event { present: PRESENT_FIGURES, ..event(RecordKind::End, b"") };
        // SAFETY: as in `emit`.
        unsafe { producer::emit(&self.heap.arena(), &mut self.open, None, &event) }
    }

    fn count(&self, which: fn(&Counters) -> &std::sync::atomic::AtomicU64) -> u64 {
        which(&self.heap.arena().shared().counters.0).load(Ordering::Relaxed)
    }
}

#[test]
fn a_start_leaves_space_for_an_error() {
    let step = if cfg!(miri) { 701 } else { 7 };
    for bytes in (0..TEXT.len() / 4).step_by(step) {
        // With BLOCK, this test would not end if an error had to wait.
        let mut producer = Producer::with_the_last_chunk(OVERFLOW_DROP);
        let mut began = 0;
        while producer.emit(RecordKind::Start, &TEXT[..bytes]) == Emitted::Accepted {
            let error = producer.emit(RecordKind::Error, &MESSAGE);
            assert_eq!(error, Emitted::Accepted, "statement {began} of {bytes} bytes");
            began += 1;
        }
        assert!(began > 0, "{bytes} bytes");
    }
}

#[test]
fn the_error_of_a_lost_statement_does_not_wait() {
    let mut producer = Producer::with_the_last_chunk(OVERFLOW_DROP);
    while producer.emit(RecordKind::Start, &TEXT[..100]) == Emitted::Accepted {}
    assert_eq!(producer.count(|c| &c.lost_dropped), 1);
    // With BLOCK, losses are not allowed: this used to wait forever.
    producer.heap.arena().shared().settings.0.overflow.store(OVERFLOW_BLOCK, Ordering::Relaxed);
    assert_eq!(producer.emit(RecordKind::Error, &MESSAGE), Emitted::Lost);
    assert_eq!(producer.count(|c| &c.lost_dropped), 2);
    assert_eq!(producer.count(|c| &c.blocked_count), 0);
    // An error without a start does not wait either: there was no chunk to leave space in.
    let next = Event { query_id: 2, ..event(RecordKind::Error, &MESSAGE) };
    // SAFETY: as in `emit`.
    let emitted =
        unsafe { producer::emit(&producer.heap.arena(), &mut producer.open, None, &next) };
    assert_eq!(emitted, Emitted::Lost);
    assert_eq!(producer.count(|c| &c.lost_dropped), 3);
}

/// A started statement can store its end, with and without an error, when no other chunk is free.
#[test]
fn a_start_leaves_space_for_its_end() {
    let step = if cfg!(miri) { 701 } else { 7 };
    for (bytes, fails) in (0..TEXT.len() / 4).step_by(step).flat_map(|n| [(n, false), (n, true)]) {
        let mut producer = Producer::with_the_last_chunk(OVERFLOW_DROP);
        let mut began = 0;
        while producer.emit(RecordKind::Start, &TEXT[..bytes]) == Emitted::Accepted {
            if fails {
                assert_eq!(producer.emit(RecordKind::Error, &MESSAGE), Emitted::Accepted);
            }
            assert_eq!(producer.end(), Emitted::Accepted, "statement {began} of {bytes} bytes");
            began += 1;
        }
        assert!(began > 0, "{bytes} bytes");
    }
}

/// A statement that cannot be prepared has an error, and no start before it.
#[test]
fn an_end_leaves_space_for_an_error_if_a_chunk_is_free() {
    let step = if cfg!(miri) { 701 } else { 7 };
    let mut taken = 0;
    for bytes in (0..TEXT.len() / 4).step_by(step) {
        let mut producer = Producer::with_the_last_chunk(OVERFLOW_DROP);
        let arena = producer.heap.arena();
        let free = &arena.shared().free_head.0;
        loop {
            if producer.emit(RecordKind::Start, &TEXT[..bytes]) == Emitted::Lost {
                break;
            }
            // The end takes the free chunk if it is near the end of its own.
            let index = producer.open.index;
            free::push(free, arena.controls(), SPARE_CHUNK);
            assert_eq!(producer.end(), Emitted::Accepted);
            assert_eq!(free::pop(free, arena.controls()).is_none(), producer.open.index != index);
            let error = producer.emit(RecordKind::Error, &MESSAGE);
            assert_eq!(error, Emitted::Accepted, "{bytes} bytes");
            if producer.open.index != index {
                taken += 1;
                break;
            }
        }
    }
    assert!(taken > 0);
}

/// The writer has taken the chunk, and then can no longer write.
#[test]
#[cfg_attr(miri, ignore = "waits for as long as the constant says")]
fn the_wait_of_an_error_is_bounded() {
    let mut producer = Producer::with_the_last_chunk(OVERFLOW_BLOCK);
    let arena = producer.heap.arena();
    let control = &arena.controls()[producer.open.index as usize];
    assert!(chunk::steal(control, chunk::look(control)));
    assert_eq!(producer.emit(RecordKind::Error, &MESSAGE), Emitted::Lost);
    assert_eq!(producer.count(|c| &c.lost_timeout), 1);
    assert_eq!(producer.count(|c| &c.blocked_count), 1);
    // The next error of the same session does not wait again.
    assert_eq!(producer.emit(RecordKind::Error, &MESSAGE), Emitted::Lost);
    assert_eq!(producer.count(|c| &c.lost_dropped), 1);
    assert_eq!(producer.count(|c| &c.blocked_count), 1);
}

/// No client could log in meanwhile. Other notices wait as statements do.
#[test]
#[cfg_attr(miri, ignore = "waits for as long as the constant says")]
fn the_wait_of_an_account_notice_is_bounded() {
    let mut producer = Producer::with_the_last_chunk(OVERFLOW_BLOCK);
    let notice = |producer: &mut Producer, which| {
        let event = Event { sql_command: which, ..event(RecordKind::Notice, &TEXT[..100]) };
        // SAFETY: as in `emit`.
        unsafe { producer::emit(&producer.heap.arena(), &mut producer.open, None, &event) }
    };
    while notice(&mut producer, NOTICE_AUTHID_DROP) == Emitted::Accepted {}
    assert_eq!(producer.count(|c| &c.lost_timeout), 1);
    producer.open.killed = chunk::Killed { ask: Some(always), session: std::ptr::null() };
    assert_eq!(notice(&mut producer, NOTICE_SET), Emitted::Lost);
    assert_eq!(producer.count(|c| &c.lost_killed), 1, "it waited until it was killed");
}

/// Servers mark every session that ends as killed.
#[test]
#[cfg_attr(miri, ignore = "waits for as long as the constant says")]
fn the_end_of_a_session_waits_longer_than_a_killed_statement() {
    let mut producer = Producer::with_the_last_chunk(OVERFLOW_BLOCK);
    producer.open.killed = chunk::Killed { ask: Some(always), session: std::ptr::null() };
    while producer.emit(RecordKind::Start, &TEXT[..100]) == Emitted::Accepted {}
    // `open` still says that the last record of connection 1 is lost.
    let mut end = |conn, kind, command: &[u8]| {
        let before_us = producer.count(|c| &c.blocked_time_us);
        let mut event = Event { conn, ..event(kind, b"") };
        event.strings[STRING_COMMAND] = Bytes::of(command);
        // SAFETY: as in `emit`; the question needs no session.
        let emitted =
            unsafe { producer::emit(&producer.heap.arena(), &mut producer.open, None, &event) };
        assert_eq!(emitted, Emitted::Lost);
        producer.count(|c| &c.blocked_time_us) - before_us
    };
    let given_up = end(1, RecordKind::Disconnect, b"");
    let unharmed = end(2, RecordKind::Disconnect, b"");
    assert!(given_up < unharmed, "{given_up} µs, {unharmed} µs");
    let quit = end(3, RecordKind::Point, b"Quit");
    assert!(unharmed.min(quit) >= 10_000_000, "{unharmed} µs, {quit} µs");
    let ping = end(4, RecordKind::Point, b"Ping");
    assert!(ping < unharmed, "{ping} µs");
    assert_eq!(producer.count(|c| &c.lost_killed), 5);
}

/// A thread of a pool serves many sessions.
#[test]
fn a_loss_of_another_session_does_not_shorten_the_wait() {
    let mut producer = Producer::with_the_last_chunk(OVERFLOW_DROP);
    while producer.emit(RecordKind::Start, &TEXT[..100]) == Emitted::Accepted {}
    producer.heap.arena().shared().settings.0.overflow.store(OVERFLOW_BLOCK, Ordering::Relaxed);
    producer.open.killed = chunk::Killed { ask: Some(always), session: std::ptr::null() };
    let other = Event { conn: 2, ..event(RecordKind::Error, &MESSAGE) };
    // SAFETY: as in `emit`; the question needs no session.
    let emitted =
        unsafe { producer::emit(&producer.heap.arena(), &mut producer.open, None, &other) };
    assert_eq!(emitted, Emitted::Lost);
    assert_eq!(producer.count(|c| &c.blocked_count), 1, "it waits until it is killed");
    assert_eq!(producer.count(|c| &c.lost_killed), 1);
}

unsafe extern "C" fn always(_session: *const std::ffi::c_void) -> bool {
    true
}

/// The policy of a filter rule overrides the setting, unless all waits must end.
#[test]
fn a_statement_with_an_overflow_policy_of_its_own() {
    let full = |set: u32, own: u32| {
        let mut producer = Producer::with_the_last_chunk(set);
        producer.heap.arena().shared().settings.0.overflow_timeout_us.store(1, Ordering::Relaxed);
        producer.open.overflow = own;
        while producer.emit(RecordKind::Start, &TEXT[..100]) == Emitted::Accepted {}
        assert_eq!(producer.open.overflow, own, "kept over a change of the chunk");
        let count = |which| producer.count(which);
        (count(|c| &c.lost_dropped), count(|c| &c.lost_timeout), count(|c| &c.blocked_count))
    };
    assert_eq!(full(OVERFLOW_BLOCK, OVERFLOW_DROP + 1), (1, 0, 0));
    assert_eq!(full(OVERFLOW_DROP, OVERFLOW_TIMEOUT + 1), (0, 1, 1));
    assert_eq!(full(OVERFLOW_BLOCK, OVERFLOW_TIMEOUT + 1), (0, 1, 1));
    assert_eq!(full(OVERFLOW_LET_GO, OVERFLOW_BLOCK + 1), (1, 0, 0));
    assert_eq!(full(OVERFLOW_DROP, 0), (1, 0, 0));
}
