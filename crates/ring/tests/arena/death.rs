//! A thread that dies in the middle of a record loses that record, and nothing else.

use std::sync::atomic::Ordering;
use std::{fs, thread};

use tacho_ring::arena::Arena;
use tacho_ring::chunk::{self, OpenChunk};
use tacho_ring::codec::{Bytes, Event, RecordKind};
use tacho_ring::consumer::{self, Next};
use tacho_ring::layout::ARENA_BYTES_MIN;
use tacho_ring::producer::{self, Emitted};

use crate::heap::Heap;
use crate::reader::Reader;

fn emit(arena: &Arena, open: &mut OpenChunk, n: u64) {
    let event = Event {
        kind: RecordKind::Point as u32,
        conn: 1,
        query_id: n,
        text: Bytes::of(b"select 1"),
        ..Event::EMPTY
    };
    // SAFETY: the text is static; `open` is of this thread.
    let emitted = unsafe { producer::emit(arena, open, None, &event) };
    assert_eq!(emitted, Emitted::Accepted);
}

fn query_ids(reader: &Reader) -> Vec<u64> {
    let mut ids: Vec<u64> = reader.records.iter().map(|record| record.header.query_id).collect();
    ids.sort_unstable();
    ids
}

#[test]
fn a_dead_thread_takes_one_record_with_it() {
    let heap = Heap::new(ARENA_BYTES_MIN);
    let arena = heap.arena();
    let index = thread::spawn(move || {
        let mut open = OpenChunk::default();
        emit(&arena, &mut open, 1);
        emit(&arena, &mut open, 2);
        // Dies with the third record half written: everything but the commit word.
        let control = &arena.controls()[open.index as usize];
        assert!(chunk::enter(control, &open));
        let at = arena.chunk_base(open.index).wrapping_add(open.position as usize);
        // SAFETY: the place is this thread's, within its chunk.
        unsafe { at.add(4).write_bytes(0xee, 400) };
        open.index
    })
    .join()
    .expect("the thread");

    let control = &arena.controls()[index as usize];
    let owner = control.owner.load(Ordering::Relaxed);
    if cfg!(not(miri)) {
        // The thread may still be listed for a moment after it was joined.
        while fs::exists(format!("/proc/self/task/{owner}")).unwrap() {
            thread::yield_now();
        }
    }
    let mut open = OpenChunk::default();
    emit(&arena, &mut open, 7);
    let mut reader = Reader::new(arena);
    reader.pass();
    assert_eq!(query_ids(&reader), [1, 2, 7], "no thread waits for the dead one");

    let seen = chunk::look(control);
    assert_eq!(chunk::state_of(seen), chunk::BUSY);
    assert!(!chunk::steal(control, seen), "a BUSY chunk is never stolen");
    assert!(chunk::bury(control, seen));
    producer::release(&arena, &mut open);
    reader.finish();
    assert_eq!(query_ids(&reader), [1, 2, 7]);
    assert_eq!(reader.damaged, 0);
    assert_eq!(arena.free_count(), arena.geometry().chunk_count);

    // The chunk serves again, and the half record is gone.
    loop {
        let mut again = OpenChunk::default();
        emit(&arena, &mut again, 8);
        if again.index == index {
            break;
        }
        // Takes another chunk and keeps it open, so that the list yields the next.
        assert!(arena.free_count() > 0, "the chunk never came back");
    }
    let first = consumer::peek(&arena, index, 0);
    let Next::Record(bytes) = first else { panic!("{first:?}") };
    assert_eq!(consumer::peek(&arena, index, bytes), Next::Empty);
}
