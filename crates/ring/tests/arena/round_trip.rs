//! Every event comes out as it went in.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use proptest::collection::vec;
use proptest::prelude::*;
use tacho_ring::chunk::OpenChunk;
use tacho_ring::codec::{
    Bytes, Event, PRESENT_FIGURES, RecordKind, STRING_BYTES_MAX, STRING_COUNT, STRING_RESERVED,
};
use tacho_ring::layout::ARENA_BYTES_MIN;
use tacho_ring::producer::{self, Emitted, MESSAGE_BYTES_MAX};
use tacho_ring::session;

use crate::heap::Heap;
use crate::reader::{Reader, Whole};

const EVENTS_MAX: usize = if cfg!(miri) { 4 } else { 12 };

/// An event that owns its bytes.
#[derive(Clone, Debug)]
struct Owned {
    kind: u32,
    present: u32,
    numbers: (u64, u64, i64, i32, u32, u32),
    sqlstate: [u8; 8],
    figures: [u64; 5],
    strings: Vec<Vec<u8>>,
    text_seed: u64,
    text_bytes: usize,
}

impl Owned {
    fn text(&self) -> Vec<u8> {
        let mut state = self.text_seed | 1;
        let mut byte = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 56) as u8
        };
        (0..self.text_bytes).map(|_| byte()).collect()
    }

    /// An error keeps only a message.
    fn kept_bytes(&self) -> usize {
        let is_error = self.kind == RecordKind::Error as u32;
        self.text_bytes.min(if is_error { MESSAGE_BYTES_MAX } else { usize::MAX })
    }

    fn check(&self, conn: u64, whole: &Whole) {
        let (query_id, text_id, ts_us, sql_command, errno, shown_bytes) = self.numbers;
        assert_eq!(whole.kind as u32, self.kind);
        assert_eq!(whole.header.conn, conn);
        assert_eq!(whole.header.query_id, query_id);
        assert_eq!(whole.header.text_id, text_id);
        assert_eq!(whole.header.ts_us, ts_us);
        assert_eq!(whole.body.present, self.present);
        assert_eq!(whole.body.sql_command, sql_command);
        assert_eq!(whole.body.errno, errno);
        assert_eq!(whole.body.shown_bytes, shown_bytes);
        assert_eq!(whole.body.sqlstate, self.sqlstate[..5]);
        assert_eq!(whole.body.text_bytes as usize, self.kept_bytes());
        if self.present & PRESENT_FIGURES != 0 {
            assert_eq!(whole.figures, self.figures);
        } else {
            assert_eq!(whole.figures, [0; 5]);
        }
        for (which, (got, sent)) in whole.strings.iter().zip(&self.strings).enumerate() {
            let wanted = RecordKind::has_strings(self.kind) && which != STRING_RESERVED;
            let kept = if wanted { STRING_BYTES_MAX } else { 0 };
            assert_eq!(got, &sent[..sent.len().min(kept)]);
        }
        let kept = &self.text()[..self.kept_bytes()];
        assert!(whole.text == kept, "another text of {} bytes", whole.text.len());
    }
}

/// The longest text of a change of a setting here, and how many chunks it takes at most.
const CONFIG_BYTES_MAX: usize = 300_000;
const CONFIG_CHUNKS_MAX: u32 = 48;

fn text_bytes() -> impl Strategy<Value = usize> {
    if cfg!(miri) {
        return prop_oneof![4 => 0usize..300, 1 => 7_000usize..10_000].boxed();
    }
    prop_oneof![
        6 => 0usize..300,
        2 => 7_000usize..9_000,
        2 => 0usize..70_000,
        1 => 900_000usize..4_000_000,
    ]
    .boxed()
}

fn event() -> impl Strategy<Value = Owned> {
    (
        1u32..=RecordKind::Notice as u32,
        0u32..2048,
        any::<(u64, u64, i64, i32, u32, u32)>(),
        any::<[u8; 8]>(),
        any::<[u64; 5]>(),
        vec(
            prop_oneof![4 => vec(any::<u8>(), 0..40), 1 => vec(any::<u8>(), 600..700)],
            STRING_COUNT,
        ),
        any::<u64>(),
        text_bytes(),
    )
        .prop_map(
            |(kind, present, numbers, sqlstate, figures, strings, text_seed, text_bytes)| Owned {
                kind,
                present,
                numbers,
                sqlstate,
                figures,
                strings,
                text_seed,
                // It does not wait for the reader, so all of it must fit into the arena.
                text_bytes: match kind == RecordKind::Config as u32 {
                    true => text_bytes % CONFIG_BYTES_MAX,
                    false => text_bytes,
                },
            },
        )
}

/// Sends `events` as connection `conn` while a reader drains, and returns what came out.
fn send(heap: &Heap, conn: u64, events: &[Owned], with_session: bool) -> Vec<Whole> {
    let arena = heap.arena();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut reader = Reader::new(arena);
            while !done.load(Ordering::Acquire) {
                if !reader.pass() {
                    thread::yield_now();
                }
            }
            reader.finish();
            assert_eq!((reader.damaged, reader.incomplete()), (0, 0));
            reader.records
        });
        let session = with_session.then(|| {
            session::claim(arena.sessions(), &arena.shared().settings.0, conn, 1).unwrap()
        });
        let mut open = OpenChunk::default();
        for owned in events {
            let text = owned.text();
            let (query_id, text_id, ts_us, sql_command, errno, shown_bytes) = owned.numbers;
            let event = Event {
                kind: owned.kind,
                present: owned.present,
                conn,
                query_id,
                text_id,
                ts_us,
                sql_command,
                errno_: errno,
                sqlstate: owned.sqlstate,
                shown_bytes,
                reserved: 0,
                figures: owned.figures,
                strings: std::array::from_fn(|i| Bytes::of(&owned.strings[i])),
                text: Bytes::of(&text),
            };
            let is_config = owned.kind == RecordKind::Config as u32;
            while is_config && arena.free_count() < CONFIG_CHUNKS_MAX {
                thread::yield_now();
            }
            // SAFETY: the event borrows from `owned` and `text`; `open` is of this thread.
            let emitted = unsafe { producer::emit(&arena, &mut open, session, &event) };
            // The reader must not wait for a record that was not accepted.
            done.store(emitted != Emitted::Accepted, Ordering::Release);
            assert_eq!(emitted, Emitted::Accepted);
        }
        producer::release(&arena, &mut open);
        done.store(true, Ordering::Release);
        reader.join().expect("the reader")
    })
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 2 } else { 32 },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn events_come_out_as_they_went_in(
        events in vec(event(), 1..EVENTS_MAX),
        conn in 1u64..u64::MAX,
    ) {
        let heap = Heap::new(ARENA_BYTES_MIN);
        let mut records = send(&heap, conn, &events, true);
        records.sort_by_key(|record| record.header.rec_no);
        assert_eq!(records.len(), events.len());
        let mut lines = 0;
        for ((record, owned), n) in records.iter().zip(&events).zip(1u64..) {
            owned.check(conn, record);
            assert_eq!(record.header.rec_no, (1 << session::REC_NO_BITS) + n);
            let begins = RecordKind::begins_line(owned.kind);
            lines += u64::from(begins);
            assert_eq!(record.header.conn_seq, if begins { lines } else { 0 });
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "as the one above, minutes under Miri")]
    fn events_without_a_session_come_out_too(
        events in vec(event(), 1..EVENTS_MAX),
        conn in 1u64..u64::MAX,
    ) {
        let heap = Heap::new(ARENA_BYTES_MIN);
        let records = send(&heap, conn, &events, false);
        assert_eq!(records.len(), events.len());
        for owned in &events {
            let same = |record: &&Whole| {
                record.header.query_id == owned.numbers.0
                    && record.body.text_bytes as usize == owned.kept_bytes()
            };
            let record = records.iter().find(same).expect("the record");
            owned.check(conn, record);
            assert_eq!(record.header.conn_seq, 0);
        }
    }
}
