//! Loom models of the lock-free parts: every interleaving of a few threads, within bounds.
//!
//! Run by `scripts/loom.sh`. The models call the functions that run in the server, with small
//! stand-ins for the rest: a chunk's bytes are cells that loom checks for data races, the futex is
//! a mutex with a condition variable (a lost wakeup is a deadlock, which loom reports).
//!
//! Blind spots: loom explores at most three forced preemptions per run here, and does not cover the
//! mapping, the codec and the timeouts; Miri and the stress test do.

use loom::cell::UnsafeCell;
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;

use crate::chunk::{self, OpenChunk};
use crate::free;
use crate::layout::{
    Backpressure, ChunkControl, OpenStatement, Session, Settings, Telling, Wakeup, WriterState,
};
use crate::session;
use crate::sync::{AtomicI64, AtomicU32, AtomicU64, Ordering};
use crate::wakeup::Park;

fn model(body: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(body);
}

/// The ways a model can end; a model that does not reach all of its endings proves nothing.
struct Endings(std::sync::atomic::AtomicU32);

impl Endings {
    const fn none() -> Endings {
        Endings(std::sync::atomic::AtomicU32::new(0))
    }

    fn reach(&self, ending: u32) {
        self.0.fetch_or(1 << ending, std::sync::atomic::Ordering::Relaxed);
    }

    fn assert_all(&self, count: u32) {
        let reached = self.0.load(std::sync::atomic::Ordering::Relaxed);
        assert_eq!(reached, (1 << count) - 1, "endings reached, as bits: {reached:#b}");
    }
}

/// Records per chunk.
const RECORDS: usize = 2;
/// What a commit word says in these models.
const RECORD_BYTES: u32 = 64;

/// A chunk: its control, and for each record a commit word and a payload.
struct Chunk {
    words: [AtomicU32; RECORDS],
    /// Written whenever a plain store empties the commit word, so that loom detects the race with a
    /// reader of that word.
    emptied: [UnsafeCell<()>; RECORDS],
    payloads: [UnsafeCell<u64>; RECORDS],
}

struct World {
    head: AtomicU64,
    controls: Vec<ChunkControl>,
    chunks: Vec<Chunk>,
}

impl World {
    /// All chunks are free and full of old bytes, as after a first pass.
    fn new(chunk_count: usize) -> World {
        let control = |_| ChunkControl {
            state: AtomicU64::new(7 << 8 | chunk::FREE),
            next_free: AtomicU32::new(0),
            owner: AtomicU32::new(0),
        };
        let chunk = |_| Chunk {
            words: [AtomicU32::new(RECORD_BYTES), AtomicU32::new(RECORD_BYTES)],
            emptied: [UnsafeCell::new(()), UnsafeCell::new(())],
            payloads: [UnsafeCell::new(0), UnsafeCell::new(0)],
        };
        let world = World {
            head: AtomicU64::new(0),
            controls: (0..chunk_count).map(control).collect(),
            chunks: (0..chunk_count).map(chunk).collect(),
        };
        for index in (0..chunk_count as u32).rev() {
            free::push(&world.head, &world.controls, index);
        }
        world
    }

    fn control(&self, open: &OpenChunk) -> &ChunkControl {
        &self.controls[open.index as usize]
    }

    fn empty(&self, index: u32, record: usize) {
        let chunk = &self.chunks[index as usize];
        chunk.emptied[record].with_mut(|_| ());
        chunk.words[record].store(0, Ordering::Relaxed);
    }

    /// As `producer::take_chunk`.
    fn take(&self) -> Option<OpenChunk> {
        let index = free::pop(&self.head, &self.controls)?;
        // Loom compares a store only with the last access to its word. In `acquire` that is a load
        // by the same thread, which would hide the loads of other threads from it.
        self.controls[index as usize].state.fetch_add(0, Ordering::Relaxed);
        self.empty(index, 0);
        let mut open = OpenChunk { owner: 1, ..OpenChunk::default() };
        chunk::acquire(&self.controls[index as usize], index, &mut open);
        Some(open)
    }

    /// As `producer::publish`, without leaving the chunk.
    fn write(&self, open: &mut OpenChunk, value: u64) {
        let chunk = &self.chunks[open.index as usize];
        let at = open.position as usize;
        // SAFETY: loom panics if another thread accesses the cell at the same time.
        chunk.payloads[at].with_mut(|payload| unsafe { *payload = value });
        if at + 1 < RECORDS {
            self.empty(open.index, at + 1);
        }
        chunk::commit(&chunk.words[at], RECORD_BYTES);
        open.position += 1;
    }

    /// Reads what is committed, as the writer does.
    fn drain(&self, index: usize) -> Vec<u64> {
        let chunk = &self.chunks[index];
        let mut values = Vec::new();
        for at in 0..RECORDS {
            chunk.emptied[at].with(|_| ());
            if chunk::committed(&chunk.words[at]) == 0 {
                break;
            }
            // SAFETY: loom panics if another thread writes the cell at the same time.
            values.push(chunk.payloads[at].with(|payload| unsafe { *payload }));
        }
        values
    }

    fn recycle(&self, index: usize) {
        chunk::release(&self.controls[index]);
        free::push(&self.head, &self.controls, index as u32);
    }

    fn look(&self, index: usize) -> u64 {
        chunk::look(&self.controls[index])
    }
}

/// The futex: checking the word and going to sleep are one step, as far as the waker can observe.
struct FakeFutex {
    bucket: Mutex<()>,
    sleepers: Condvar,
}

impl FakeFutex {
    fn new() -> FakeFutex {
        FakeFutex { bucket: Mutex::new(()), sleepers: Condvar::new() }
    }
}

impl Park for FakeFutex {
    fn wait(&self, word: &AtomicU32, expected: u32, _timeout_us: u64) {
        let bucket = self.bucket.lock().unwrap();
        if word.load(Ordering::Relaxed) == expected {
            drop(self.sleepers.wait(bucket).unwrap());
        }
    }

    fn wake(&self, _word: &AtomicU32, _count: u32) {
        let _bucket = self.bucket.lock().unwrap();
        self.sleepers.notify_all();
    }
}

fn slot(conn: u64, seen_us: i64) -> Session {
    let open =
        || OpenStatement { text_id: AtomicU64::new(0), query_id_and_bytes: AtomicU64::new(0) };
    Session {
        conn: AtomicU64::new(conn),
        rec_no: AtomicU64::new(0),
        seen_us: AtomicI64::new(seen_us),
        open_len: AtomicU32::new(0),
        reserved: AtomicU32::new(0),
        open: [open(), open(), open(), open()],
        conn_seq: AtomicU64::new(0),
        early_rec_no: AtomicU64::new(0),
        settled_rec_no: AtomicU64::new(0),
        abandoned_rec_no: AtomicU64::new(0),
    }
}

fn settings() -> Settings {
    Settings {
        logging: AtomicU32::new(1),
        overflow: AtomicU32::new(0),
        overflow_timeout_us: AtomicU64::new(0),
        session_epoch: AtomicU64::new(0),
        redact: AtomicU32::new(0),
        durability: AtomicU32::new(0),
        filter_version: AtomicU64::new(0),
    }
}

fn writer_state() -> WriterState {
    WriterState {
        written_seq: AtomicU64::new(0),
        reported_timeout: AtomicU64::new(0),
        reported_dropped: AtomicU64::new(0),
        reported_corrupt: AtomicU64::new(0),
        heartbeat_us: AtomicI64::new(0),
        written_epoch: AtomicU32::new(0),
        reserved: AtomicU32::new(0),
        telling: [(); 3].map(|()| Telling { seq: AtomicU64::new(0), count: AtomicU64::new(0) }),
        start_seq: AtomicU64::new(0),
        reported_killed: AtomicU64::new(0),
        telling_killed: Telling { seq: AtomicU64::new(0), count: AtomicU64::new(0) },
    }
}

/// A popped chunk belongs to one thread, also when it is popped, pushed and popped again
/// while another pop is under way (ABA).
#[test]
fn free_list_gives_a_chunk_to_one_thread() {
    model(|| {
        let world = Arc::new(World::new(3));
        let pop = |world: &World| {
            let index = free::pop(&world.head, &world.controls);
            if let Some(index) = index {
                let owner = world.controls[index as usize].owner.fetch_add(1, Ordering::Relaxed);
                assert_eq!(owner, 0, "two threads own chunk {index}");
            }
            index
        };
        let slow = thread::spawn({
            let world = world.clone();
            move || pop(&world)
        });
        let busy = thread::spawn({
            let world = world.clone();
            move || {
                let first = pop(&world);
                let second = pop(&world);
                if let Some(index) = first {
                    world.controls[index as usize].owner.store(0, Ordering::Relaxed);
                    free::push(&world.head, &world.controls, index);
                }
                second
            }
        });
        let third = pop(&world);
        let mut held: Vec<u32> =
            [slow.join().unwrap(), busy.join().unwrap(), third].into_iter().flatten().collect();
        while let Some(index) = pop(&world) {
            held.push(index);
        }
        held.sort_unstable();
        assert_eq!(held, [0, 1, 2], "a chunk is lost or doubled");
    });
}

/// One chunk passes from a thread through the writer to another thread, and no thread reads or
/// writes its bytes while another one may.
#[test]
fn chunk_is_handed_over() {
    static ENDINGS: Endings = Endings::none();
    model(|| {
        let world = Arc::new(World::new(1));
        let first = thread::spawn({
            let world = world.clone();
            move || {
                let Some(mut open) = world.take() else { return 0 };
                world.write(&mut open, 1);
                chunk::leave(world.control(&open), &open);
                assert!(chunk::enter(world.control(&open), &open), "no thread steals here");
                world.write(&mut open, 2);
                let index = open.index as usize;
                chunk::close(&world.controls[index], &mut open);
                1
            }
        });
        let second = thread::spawn({
            let world = world.clone();
            move || {
                let Some(mut open) = world.take() else { return 0 };
                world.write(&mut open, 3);
                let index = open.index as usize;
                chunk::close(&world.controls[index], &mut open);
                1
            }
        });
        let mut closed = 0;
        for _ in 0..2 {
            let word = world.look(0);
            if chunk::state_of(word) == chunk::FREE {
                continue;
            }
            let values = world.drain(0);
            match (chunk::state_of(word), values.as_slice()) {
                (chunk::CLOSED, [1, 2] | [3]) => {
                    world.recycle(0);
                    closed += 1;
                }
                (chunk::CLOSED, _) => panic!("closed with {values:?}"),
                (_, [] | [1] | [1, 2] | [3]) => {}
                _ => panic!("open with {values:?}"),
            }
        }
        let taken = first.join().unwrap() + second.join().unwrap();
        assert!(taken >= 1 && closed <= taken);
        ENDINGS.reach(closed as u32);
        let generation = chunk::generation_of(world.look(0));
        assert_eq!(generation, 7 + taken, "each acquire is a generation");
    });
    // No chunk came back, one did, or both did.
    ENDINGS.assert_all(3);
}

/// A reader that follows a chunk from record to record sees whole records and never an old
/// commit word behind them.
#[test]
fn commit_publishes_the_record_and_empties_the_next() {
    model(|| {
        let world = Arc::new(World::new(1));
        let mut open = world.take().unwrap();
        let owner = thread::spawn({
            let world = world.clone();
            move || {
                world.write(&mut open, 1);
                chunk::leave(world.control(&open), &open);
            }
        });
        let values = world.drain(0);
        assert!(values.is_empty() || values == [1], "{values:?}");
        owner.join().unwrap();
        assert_eq!(world.drain(0), [1]);
    });
}

/// The writer takes a chunk from an idle owner, never from one that is inside; the owner
/// notices, and the chunk may already belong to another thread.
#[test]
fn steal_takes_only_idle_chunks() {
    static ENDINGS: Endings = Endings::none();
    model(|| {
        let world = Arc::new(World::new(1));
        let mut open = world.take().unwrap();
        world.write(&mut open, 1);
        chunk::leave(world.control(&open), &open);
        let owner = thread::spawn({
            let world = world.clone();
            move || {
                if chunk::enter(world.control(&open), &open) {
                    world.write(&mut open, 2);
                    chunk::leave(world.control(&open), &open);
                    return true;
                }
                false
            }
        });
        let other = thread::spawn({
            let world = world.clone();
            move || {
                if let Some(mut open) = world.take() {
                    world.write(&mut open, 9);
                    chunk::leave(world.control(&open), &open);
                }
            }
        });
        let mut seen = None;
        if chunk::steal(&world.controls[0], world.look(0)) {
            let values = world.drain(0);
            world.recycle(0);
            seen = Some(values);
        }
        let entered = owner.join().unwrap();
        other.join().unwrap();
        ENDINGS.reach(match (&seen, entered) {
            (None, _) => 0,
            (Some(_), true) => 1,
            (Some(_), false) => 2,
        });
        match seen {
            Some(values) if entered => assert_eq!(values, [1, 2]),
            Some(values) => assert_eq!(values, [1]),
            None => {
                assert!(entered, "only the owner inside can have been in the way");
                assert_eq!(world.drain(0), [1, 2]);
            }
        }
    });
    ENDINGS.assert_all(3);
}

/// A thread that dies between enter and commit loses only that record: what it committed before is
/// drained, the chunk comes back, other threads are not held up.
#[test]
fn a_dead_owner_is_buried() {
    model(|| {
        let world = Arc::new(World::new(2));
        let dying = thread::spawn({
            let world = world.clone();
            move || {
                let mut open = world.take().unwrap();
                world.write(&mut open, 1);
                chunk::leave(world.control(&open), &open);
                assert!(chunk::enter(world.control(&open), &open));
                open.index
            }
        });
        let mut open = world.take().unwrap();
        world.write(&mut open, 5);
        // The writer may look at any moment; it must not bury a chunk whose owner is alive.
        let index = 1 - open.index as usize;
        let word = world.look(index);
        if chunk::state_of(word) != chunk::FREE {
            let values = world.drain(index);
            assert!(values.is_empty() || values == [1]);
        }
        assert_eq!(dying.join().unwrap() as usize, index);
        let word = world.look(index);
        assert!(!chunk::steal(&world.controls[index], word), "its owner is inside");
        assert!(chunk::bury(&world.controls[index], word));
        assert_eq!(world.drain(index), [1]);
        world.recycle(index);
        let again = world.take().unwrap();
        assert_eq!(again.index as usize, index);
        assert_eq!(world.drain(open.index as usize), [5]);
    });
}

/// Producers that wait for a chunk get one: no wakeup is lost.
fn wait_for_chunks(producer_count: usize) {
    struct Waiting {
        world: World,
        backpressure: Backpressure,
        futex: FakeFutex,
    }
    model(move || {
        let all = Arc::new(Waiting {
            world: World::new(producer_count),
            backpressure: Backpressure { epoch: AtomicU32::new(0), waiters: AtomicU32::new(0) },
            futex: FakeFutex::new(),
        });
        while all.world.take().is_some() {}
        let producers: Vec<_> = (0..producer_count)
            .map(|_| {
                let all = all.clone();
                thread::spawn(move || {
                    loop {
                        let epoch = all.backpressure.announce();
                        let open = all.world.take();
                        if open.is_none() {
                            all.futex.wait(&all.backpressure.epoch, epoch, 0);
                        }
                        all.backpressure.retract();
                        if open.is_some() {
                            return;
                        }
                    }
                })
            })
            .collect();
        for index in 0..producer_count {
            all.world.recycle(index);
        }
        all.backpressure.open(&all.futex);
        for producer in producers {
            producer.join().unwrap();
        }
        assert_eq!(all.backpressure.waiters.load(Ordering::Relaxed), 0);
    });
}

#[test]
fn a_waiting_producer_is_woken() {
    wait_for_chunks(1);
}

#[test]
fn all_waiting_producers_are_woken() {
    wait_for_chunks(2);
}

/// A writer that goes to sleep does not miss a chunk that is closed at the same time.
fn close_chunks(producer_count: usize, tell: fn(&Wakeup, &FakeFutex)) {
    struct Sleeping {
        world: World,
        wakeup: Wakeup,
        futex: FakeFutex,
    }
    model(move || {
        let all = Arc::new(Sleeping {
            world: World::new(producer_count),
            wakeup: Wakeup {
                rings: AtomicU32::new(0),
                asleep: AtomicU32::new(0),
                closed: AtomicU32::new(0),
                closed_limit: AtomicU32::new(1),
            },
            futex: FakeFutex::new(),
        });
        let producers: Vec<_> = (0..producer_count)
            .map(|_| {
                let mut open = all.world.take().unwrap();
                let all = all.clone();
                thread::spawn(move || {
                    let index = open.index as usize;
                    all.world.write(&mut open, 1);
                    chunk::close(&all.world.controls[index], &mut open);
                    tell(&all.wakeup, &all.futex);
                })
            })
            .collect();
        let mut drained = 0;
        while drained < producer_count {
            let rings = all.wakeup.listen();
            let before = drained;
            for index in 0..producer_count {
                if chunk::state_of(all.world.look(index)) == chunk::CLOSED {
                    assert_eq!(all.world.drain(index), [1]);
                    chunk::release(&all.world.controls[index]);
                    drained += 1;
                }
            }
            if drained == before {
                all.futex.wait(&all.wakeup.rings, rings, 0);
            }
            all.wakeup.awake();
        }
        for producer in producers {
            producer.join().unwrap();
        }
    });
}

#[test]
fn the_wakeup_reaches_the_writer() {
    close_chunks(1, Wakeup::chunk_closed);
}

#[test]
fn two_producers_wake_the_writer() {
    close_chunks(2, Wakeup::chunk_closed);
}

#[test]
fn a_call_wakes_the_writer() {
    close_chunks(2, Wakeup::call);
}

/// The fragments of a record leave the arena before it is complete: its producer waits until the
/// line is in the file, unless the writer detected the end of the record in time.
#[test]
fn a_producer_waits_for_its_early_record() {
    struct Early {
        world: World,
        session: Session,
        state: WriterState,
        futex: FakeFutex,
        in_file: UnsafeCell<bool>,
    }
    const REC_NO: u64 = 1 << 48 | 3;
    static ENDINGS: Endings = Endings::none();
    model(|| {
        let all = Arc::new(Early {
            world: World::new(1),
            session: slot(5, 0),
            state: writer_state(),
            futex: FakeFutex::new(),
            in_file: UnsafeCell::new(false),
        });
        let producer = thread::spawn({
            let all = all.clone();
            move || {
                // The last fragment.
                let mut open = all.world.take().unwrap();
                all.world.write(&mut open, 1);
                chunk::leave(all.world.control(&open), &open);
                if !session::taken_early(&all.session, REC_NO) {
                    return false;
                }
                while let Some(epoch) = session::unsettled(&all.session, &all.state, REC_NO) {
                    all.futex.wait(&all.state.written_epoch, epoch, 0);
                }
                // SAFETY: loom panics if the writer may still be writing the cell.
                assert!(all.in_file.with(|in_file| unsafe { *in_file }));
                true
            }
        });
        session::announce_early(&all.session, REC_NO);
        let complete =
            chunk::state_of(all.world.look(0)) != chunk::FREE && all.world.drain(0) == [1];
        // SAFETY: as above; if the record is complete, the cell is not touched.
        all.in_file.with_mut(|in_file| unsafe { *in_file = true });
        session::announce_settled(&all.session, REC_NO);
        session::wake_settled(&all.state, &all.futex);
        let waited = producer.join().unwrap();
        ENDINGS.reach(match (waited, complete) {
            (true, false) => 0,
            (false, _) => 1,
            (true, true) => 2,
        });
        assert!(waited || complete, "the writer missed the record and no producer waited");
    });
    ENDINGS.assert_all(3);
}

/// A record in fragments that its producer gives up is recognised, and its number is used up.
#[test]
fn an_abandoned_record_is_recognised() {
    const REC_NO: u64 = 1 << 48 | 3;
    model(|| {
        let session = Arc::new(slot(5, 0));
        let producer = thread::spawn({
            let session = session.clone();
            move || session::abandon(&session, REC_NO)
        });
        if session::abandoned(&session, REC_NO) {
            assert_eq!(session.rec_no.load(Ordering::Relaxed), REC_NO);
        }
        producer.join().unwrap();
        assert!(session::abandoned(&session, REC_NO));
        assert!(!session::abandoned(&session, REC_NO + 1));
        assert!(!session::abandoned(&session, 2 << 48 | 1), "another epoch");
    });
}

/// Two connections that compete for one slot: one gets it, and its contents are its own.
#[test]
fn a_slot_is_claimed_once() {
    model(|| {
        let all = Arc::new((vec![slot(0, 0)], settings()));
        let claim = |conn: u64| {
            let all = all.clone();
            move || {
                // By now every slot that was free at first would be stale.
                let slot = session::claim(&all.0, &all.1, conn, 1 << 50)?;
                let first = slot.rec_no.load(Ordering::Relaxed);
                slot.rec_no.store(first + 1, Ordering::Relaxed);
                let own = slot.conn.load(Ordering::Relaxed) == conn
                    && slot.rec_no.load(Ordering::Relaxed) == first + 1;
                assert!(own, "the slot of {conn} was taken away");
                Some(conn)
            }
        };
        let other = thread::spawn(claim(2));
        let mine = claim(1)();
        let other = other.join().unwrap();
        let got: Vec<u64> = [mine, other].into_iter().flatten().collect();
        assert_eq!(got.len(), 1, "{got:?}");
        assert!(session::find(&all.0, got[0]).is_some());
    });
}

/// A connection becomes active after a long time, while another one takes its slot because it was
/// inactive for so long: one of the two gets it.
#[test]
fn a_stale_slot_has_one_user() {
    const NOW_US: i64 = 1 << 50;
    static ENDINGS: Endings = Endings::none();
    model(|| {
        let all = Arc::new((vec![slot(1, 0)], settings()));
        let back = thread::spawn({
            let all = all.clone();
            move || session::find(&all.0, 1).is_some_and(|slot| session::touch(slot, 1, NOW_US))
        });
        let taken = session::claim(&all.0, &all.1, 2, NOW_US).is_some();
        let kept = back.join().unwrap();
        ENDINGS.reach(u32::from(taken));
        assert!(!(taken && kept), "both use the slot");
        let conn = all.0[0].conn.load(Ordering::Relaxed);
        assert_eq!(conn, if taken { 2 } else { 1 });
    });
    ENDINGS.assert_all(2);
}
