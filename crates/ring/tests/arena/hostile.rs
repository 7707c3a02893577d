//! The consumer reads untrusted memory: it may return nonsense, but it terminates, stays within the
//! mapping and does not panic.
//!
//! [`drive`] is also the body of the fuzz target `arena_hostile`. Here it runs over the
//! target's seeds and some thousand mutations of them, the same ones each time.

use std::sync::atomic::Ordering;

use tacho_ring::arena::Arena;
use tacho_ring::chunk::{self, OpenChunk};
use tacho_ring::codec::{Bytes, Event, RecordKind, STRING_COUNT, View};
use tacho_ring::consumer::{self, Next};
use tacho_ring::layout::{ARENA_BYTES_MIN, Geometry, Header, NAME_COUNT, RECORD_HEADER_BYTES};
use tacho_ring::producer::{self, Futex};
use tacho_ring::{free, session};

use crate::damage::damage;
use crate::heap::Heap;

/// Makes an arena with some records in it, damages it as `input` says ([`damage`]), and reads it.
pub fn drive(input: &[u8]) {
    let heap = Heap::new(ARENA_BYTES_MIN);
    let arena = heap.arena();
    write_some(&arena);
    damage(&arena, input);

    check_header(&arena.header(), arena.geometry());
    read_tables(&arena);
    read_chunks(&arena);
    move_chunks(&arena);
    // A producer over the same memory: recording is off, so that it does not wait.
    arena.shared().settings.0.logging.store(0, Ordering::Relaxed);
    write_some(&arena);
    read_chunks(&arena);
}

fn write_some(arena: &Arena) {
    let text = [b'x'; 20_000];
    let mut open = OpenChunk::default();
    let slot = session::find(arena.sessions(), 1)
        .filter(|slot| session::touch(slot, 1, 1))
        .or_else(|| session::claim(arena.sessions(), &arena.shared().settings.0, 1, 1));
    for (n, bytes) in [(1, 10), (2, 300), (3, 20_000), (4, 0)] {
        let event = Event {
            kind: if n == 4 { RecordKind::End as u32 } else { RecordKind::Start as u32 },
            present: 0x3ff,
            conn: 1,
            query_id: n,
            text_id: n,
            ts_us: 1,
            sql_command: 3,
            errno_: 0,
            sqlstate: *b"00000\0\0\0",
            shown_bytes: 0,
            reserved: 0,
            figures: [1; 5],
            strings: [Bytes::of(b"name"); STRING_COUNT],
            text: Bytes::of(&text[..bytes]),
        };
        if let Some(slot) = slot {
            session::note_start(slot, n, n, bytes as u32);
            session::note_end(slot, n ^ 1, n, bytes as u32);
        }
        // SAFETY: the event borrows from this function; `open` is of this thread.
        unsafe { producer::emit(arena, &mut open, slot, &event) };
    }
}

/// For any header: an accepted geometry is the only one of that size.
fn check_header(damaged: &Header, real: &Geometry) {
    for file_bytes in [0, 4096, real.arena_bytes - 1, real.arena_bytes, u64::MAX] {
        if let Some(accepted) = Geometry::checked(damaged, file_bytes) {
            assert!(accepted.arena_bytes <= file_bytes);
            assert_eq!(accepted, Geometry::for_bytes(accepted.arena_bytes));
            let chunks = u64::from(accepted.chunk_count) * u64::from(accepted.chunk_bytes);
            assert!(accepted.chunks_offset + chunks <= accepted.arena_bytes);
        }
    }
    assert!(Geometry::checked(&Header::of(real), real.arena_bytes).is_some());
    assert!(Geometry::checked(&Header::of(real), real.arena_bytes - 1).is_none());
}

fn read_tables(arena: &Arena) {
    for number in [0, 1, NAME_COUNT - 1, NAME_COUNT, usize::MAX] {
        assert_eq!(arena.name(number).is_some(), number < NAME_COUNT);
    }
    assert!(arena.free_count() <= arena.geometry().chunk_count);
    let running = arena.running().iter().filter(|r| r.running_seq.load(Ordering::Relaxed) != 0);
    assert!(running.count() <= arena.geometry().running_count as usize);
    for conn in [0, 1, 7, u64::MAX] {
        if let Some(slot) = session::find(arena.sessions(), conn) {
            session::touch(slot, conn, i64::MAX);
            session::note_start(slot, 1, 2, 3);
            session::note_end(slot, 1, 2, 3);
            session::abandoned(slot, u64::MAX);
            session::unsettled(slot, &arena.shared().writer.0, 1);
        }
        if let Some(slot) = session::claim(arena.sessions(), &arena.shared().settings.0, conn, 1) {
            session::forget(slot);
        }
    }
}

fn read_chunks(arena: &Arena) {
    let chunk_bytes = arena.geometry().chunk_bytes;
    let mut buffer = vec![0; chunk_bytes as usize];
    for index in 0..arena.geometry().chunk_count {
        let mut position = 0;
        let mut records = 0;
        while let Next::Record(bytes) = consumer::peek(arena, index, position) {
            let record = consumer::fetch(arena, index, position, bytes, &mut buffer)
                .expect("peek has checked the length");
            if let Some(view) = View::decode(record) {
                let strings: usize = (0..STRING_COUNT + 2).map(|n| view.string(n).len()).sum();
                assert!(RECORD_HEADER_BYTES + strings + view.text.len() <= bytes as usize);
            }
            consumer::settle(arena, index, position, 1);
            position += bytes;
            records += 1;
            assert!(records <= chunk_bytes as usize / RECORD_HEADER_BYTES, "no progress");
        }
    }
    // Positions and chunks that do not exist.
    for position in [0, 1, 4, chunk_bytes - 8, chunk_bytes - 4, chunk_bytes, u32::MAX - 7] {
        for index in [0, arena.geometry().chunk_count, u32::MAX] {
            consumer::peek(arena, index, position);
            consumer::fetch(arena, index, position, 64, &mut buffer);
            consumer::line_seq(arena, index, position);
        }
    }
}

fn move_chunks(arena: &Arena) {
    let head = &arena.shared().free_head.0;
    for (control, index) in arena.controls().iter().zip(0..) {
        let word = chunk::look(control);
        match chunk::state_of(word) {
            chunk::IDLE => assert!(chunk::steal(control, word)),
            chunk::BUSY => assert!(chunk::bury(control, word)),
            _ => {}
        }
        if chunk::state_of(chunk::look(control)) == chunk::CLOSED {
            chunk::release(control);
            free::push(head, arena.controls(), index);
        }
    }
    free::push(head, arena.controls(), u32::MAX);
    arena.shared().backpressure.0.open(&Futex);
    arena.shared().wakeup.0.chunk_closed(&Futex);
    arena.shared().wakeup.0.listen();
    arena.shared().wakeup.0.awake();
    // The list may be a cycle by now; each pop still ends.
    for _ in 0..2 * arena.geometry().chunk_count {
        if free::pop(head, arena.controls()).is_none() {
            break;
        }
    }
}

#[cfg(not(fuzzing))]
mod tests {
    use std::{fs, path};

    use super::drive;
    use crate::damage::Random;

    fn seeds() -> Vec<Vec<u8>> {
        let folder =
            path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/arena_hostile");
        let mut files: Vec<_> = fs::read_dir(folder)
            .expect("the folder of seeds")
            .map(|entry| entry.expect("a seed").path())
            .collect();
        files.sort();
        files.iter().map(|file| fs::read(file).expect("a seed")).collect()
    }

    /// Changes a few bytes, lengths and orders of `input`.
    fn mutate(input: &mut Vec<u8>, random: &mut Random) {
        for _ in 0..1 + random.next() % 4 {
            let r = random.next();
            let at = (r >> 8) as usize % (input.len() + 1);
            let byte = (r >> 56) as u8;
            match r % 6 {
                0 => input.insert(at, byte),
                1 if at < input.len() => input[at] = byte,
                2 if at < input.len() => input[at] ^= 1 << (byte % 8),
                3 if at < input.len() => drop(input.remove(at)),
                // One more patch: region, offset, length, and that many bytes.
                4 => {
                    let length = byte % 24;
                    let offset = (r >> 40) as u16 & [0xffff, 0x00f8, 0x1ff8][byte as usize % 3];
                    input.push((r >> 32) as u8 % 16);
                    input.extend(offset.to_le_bytes());
                    input.push(length);
                    input.extend((0..length).map(|_| random.next() as u8));
                }
                _ => input.extend(random.next().to_le_bytes()),
            }
        }
    }

    #[test]
    fn nonsense_does_no_harm() {
        let seeds = seeds();
        assert!(seeds.len() >= 8, "the seeds are missing");
        let mut random = Random(1);
        // Miri is some thousand times slower: a few seeds, as they are, without noise.
        let (rounds, step) = if cfg!(miri) { (0, 3) } else { (120, 1) };
        let quiet = |seed: &&Vec<u8>| cfg!(not(miri)) || seed.first() != Some(&1);
        for seed in seeds.iter().filter(quiet).step_by(step) {
            drive(seed);
            let mut input = seed.clone();
            for round in 0..rounds {
                if round % 10 == 0 {
                    input.clone_from(seed);
                }
                mutate(&mut input, &mut random);
                drive(&input);
            }
        }
    }
}
