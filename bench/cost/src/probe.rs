//! Zone: outside. Cost of one statement for the thread that runs it: Start with a text of 200 bytes
//! and the usual names, and its End, through the C functions, over an arena in shared memory that
//! another thread drains.
//!
//! ```text
//! cargo run -p tacho-cost --profile inproc -- probe time 1 2 64
//! cargo build -p tacho-cost --profile inproc
//! valgrind --tool=callgrind --toggle-collect=cost_of_pairs target/inproc/tacho-cost probe count
//! ```
//!
//! `time` prints median and tail of the pair in ns for each number of threads. Between the calls
//! each thread computes for a moment, as a server would; otherwise the test would measure the speed
//! of the drain. It measures three times: without the calls, which shows the machine's own share of
//! the tail; with a drain that naps, like the writer of a busy server; and with one that sleeps
//! until it is woken, like the writer of a quiet server. `count` runs a fixed number of pairs;
//! callgrind's total divided by that number is the instructions of a pair.

use std::hint::{black_box, spin_loop};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use std::{ptr, thread};

use tacho_probe::{Probe, Thread};
use tacho_ring::arena::Arena;
use tacho_ring::codec::{self, Bytes, Event, RecordKind, STRING_COUNT};
use tacho_ring::consumer::{self, Next};
use tacho_ring::layout::{Geometry, Session};
use tacho_ring::producer::Futex;
use tacho_ring::{chunk, free};

/// Pairs of `count`.
const COUNT_PAIRS: u64 = 10_000;
/// Pairs of `time`, over all threads.
const TIME_PAIRS: u64 = 400_000;
/// How many closed chunks wake a drain that sleeps: 1 MiB, the default of `tacho_flush_bytes`.
const CLOSED_LIMIT: u32 = 32;
/// How long a drain that is not woken naps: as the writer does.
const NAP: Duration = Duration::from_millis(2);
/// Bytes of a large page.
const LARGE_PAGE_BYTES: usize = 2 << 20;
/// `<linux/mman.h>`, Linux 6.1.
const MADV_COLLAPSE: libc::c_int = 25;
/// How long a thread computes between two calls, ns.
const THINK_NS: u64 = 4_000;

fn map_arena(arena_bytes: u64) -> Arena {
    let g = Geometry::for_bytes(arena_bytes);
    // SAFETY: a fresh mapping of a fresh memfd, large enough for the geometry, never unmapped.
    unsafe {
        let fd = libc::memfd_create(c"cost".as_ptr(), 0);
        assert!(fd >= 0 && libc::ftruncate(fd, g.arena_bytes as libc::off_t) == 0);
        // As the recorder maps its arena: aligned to a large page, and on large pages if the kernel
        // has some.
        let bytes = g.arena_bytes as usize;
        let private = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let room =
            libc::mmap(ptr::null_mut(), bytes + LARGE_PAGE_BYTES, libc::PROT_NONE, private, -1, 0);
        assert!(room != libc::MAP_FAILED);
        let base = libc::mmap(
            room.wrapping_byte_add(room.cast::<u8>().align_offset(LARGE_PAGE_BYTES)),
            bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED | libc::MAP_POPULATE | libc::MAP_FIXED,
            fd,
            0,
        );
        assert!(base != libc::MAP_FAILED);
        if libc::madvise(base, bytes, MADV_COLLAPSE) != 0 {
            println!("(no large pages: {})", std::io::Error::last_os_error());
        }
        let arena = Arena::from_raw(base.cast(), g);
        // No other process opens this arena: its identity stays empty.
        arena.initialise(std::mem::zeroed());
        arena.shared().settings.0.logging.store(1, Ordering::Relaxed);
        arena
    }
}

/// What is measured.
#[derive(Clone, Copy, PartialEq)]
enum Load {
    /// No calls.
    Empty,
    /// The drain naps.
    Busy,
    /// The drain is woken.
    Quiet,
}

/// Reads every record as the writer would, and gives closed chunks back.
fn drain(arena: &Arena, done: &AtomicBool, load: Load) -> u64 {
    let g = *arena.geometry();
    let mut cursors = vec![(0, 0); g.chunk_count as usize];
    let mut buffer = vec![0; g.chunk_bytes as usize];
    let mut records = 0;
    loop {
        let last = done.load(Ordering::Acquire);
        let rings = arena.shared().wakeup.0.rings.load(Ordering::Relaxed);
        let mut freed = false;
        for (index, control) in (0..g.chunk_count).zip(arena.controls()) {
            let word = chunk::look(control);
            if chunk::state_of(word) == chunk::FREE {
                continue;
            }
            let generation = chunk::generation_of(word);
            let (seen, mut position) = cursors[index as usize];
            if seen != generation {
                position = 0;
            }
            while let Next::Record(bytes) = consumer::peek(arena, index, position) {
                let record = consumer::fetch(arena, index, position, bytes, &mut buffer);
                black_box(record.and_then(codec::View::decode).expect("a sound record"));
                consumer::settle(arena, index, position, 1);
                position += bytes;
                records += 1;
            }
            cursors[index as usize] = (generation, position);
            if chunk::state_of(word) == chunk::CLOSED {
                chunk::release(control);
                free::push(&arena.shared().free_head.0, arena.controls(), index);
                freed = true;
            }
        }
        if freed {
            arena.shared().backpressure.0.open(&Futex);
        } else if last {
            return records;
        } else if load == Load::Quiet {
            arena.shared().wakeup.0.listen();
            tacho_ring::sys::futex_wait(&arena.shared().wakeup.0.rings, rings, 10_000);
            arena.shared().wakeup.0.awake();
        }
        if load == Load::Busy && !last {
            thread::sleep(NAP);
            arena.shared().wakeup.0.closed.store(0, Ordering::Relaxed);
        }
    }
}

/// The C functions, as an adapter would call them: never inlined.
struct Api {
    session: unsafe extern "C" fn(&Probe, u64, i64) -> Option<&Session>,
    end_known: unsafe extern "C" fn(Option<&Session>, u64, u64, u32) -> bool,
    emit: unsafe extern "C" fn(&Probe, &mut Thread, Option<&Session>, &Event),
}

fn api() -> Api {
    black_box(Api {
        session: tacho_probe::tacho_probe_session,
        end_known: tacho_probe::tacho_probe_end_known,
        emit: tacho_probe::tacho_probe_emit,
    })
}

struct Events {
    start: Event,
    end: Event,
}

fn events(conn: u64, text: &'static [u8]) -> Events {
    let mut strings = [Bytes::EMPTY; STRING_COUNT];
    strings[codec::STRING_USER] = Bytes::of(b"app_user");
    strings[codec::STRING_PRIV_USER] = Bytes::of(b"app_user");
    strings[codec::STRING_HOST] = Bytes::of(b"app-server-17.example.org");
    strings[codec::STRING_IP] = Bytes::of(b"192.168.100.17");
    strings[codec::STRING_DB] = Bytes::of(b"production");
    strings[codec::STRING_COMMAND] = Bytes::of(b"Query");
    strings[codec::STRING_CHARSET] = Bytes::of(b"utf8mb4");
    let start = Event {
        kind: RecordKind::Start as u32,
        present: codec::PRESENT_TEXT,
        conn,
        query_id: 1,
        text_id: text.as_ptr() as u64,
        ts_us: 1,
        strings,
        text: Bytes::of(text),
        ..Event::EMPTY
    };
    let end = Event {
        kind: RecordKind::End as u32,
        present: codec::PRESENT_SQL_COMMAND | codec::PRESENT_FIGURES | codec::PRESENT_ROWS_SENT,
        sql_command: 0,
        figures: [1, 2, 0, 250, 3],
        strings: [Bytes::EMPTY; STRING_COUNT],
        text: Bytes::EMPTY,
        ..start
    };
    Events { start, end }
}

fn start(api: &Api, probe: &Probe, thread: &mut Thread, events: &Events) {
    let event = &events.start;
    // SAFETY: everything is valid and belongs to this thread.
    unsafe {
        let session = (api.session)(probe, event.conn, event.ts_us);
        (api.emit)(probe, thread, session, event);
    }
}

fn end(api: &Api, probe: &Probe, thread: &mut Thread, events: &Events) {
    let event = &events.end;
    // SAFETY: as in `start`.
    unsafe {
        let session = (api.session)(probe, event.conn, event.ts_us);
        assert!((api.end_known)(session, event.text_id, event.query_id, 200));
        (api.emit)(probe, thread, session, event);
    }
}

/// The function whose instructions callgrind counts.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn cost_of_pairs(api: &Api, probe: &Probe, thread: &mut Thread, events: &Events) {
    for _ in 0..COUNT_PAIRS {
        start(api, probe, thread, events);
        end(api, probe, thread, events);
    }
}

fn count(text: &'static [u8]) {
    // Large enough for all of it: nothing waits, nothing drains.
    let probe = Probe::new(map_arena(64 << 20), 1);
    let mut thread = Thread::default();
    let (api, events) = (api(), events(1, text));
    start(&api, &probe, &mut thread, &events);
    end(&api, &probe, &mut thread, &events);
    cost_of_pairs(&api, &probe, &mut thread, &events);
    println!("{COUNT_PAIRS} pairs");
}

fn think() {
    let until = Instant::now();
    while until.elapsed().as_nanos() < u128::from(THINK_NS) {
        spin_loop();
    }
}

fn time(thread_count: u64, load: Load, text: &'static [u8]) {
    let probe = Probe::new(map_arena(64 << 20), 1);
    probe.arena.shared().wakeup.0.closed_limit.store(CLOSED_LIMIT, Ordering::Relaxed);
    let done = AtomicBool::new(false);
    let pairs = TIME_PAIRS / thread_count;
    thread::scope(|scope| {
        let reader = scope.spawn(|| drain(&probe.arena, &done, load));
        let threads: Vec<_> = (1..=thread_count)
            .map(|conn| {
                let probe = &probe;
                scope.spawn(move || {
                    let (api, events) = (api(), events(conn, text));
                    let mut thread = Thread::default();
                    let mut spans_ns = Vec::with_capacity(pairs as usize);
                    for _ in 0..pairs {
                        let before = Instant::now();
                        if load != Load::Empty {
                            start(&api, probe, &mut thread, &events);
                        }
                        let started = before.elapsed();
                        think();
                        let before = Instant::now();
                        if load != Load::Empty {
                            end(&api, probe, &mut thread, &events);
                        }
                        spans_ns.push((started + before.elapsed()).as_nanos() as u64);
                        think();
                    }
                    // SAFETY: as in `start`.
                    unsafe {
                        tacho_probe::tacho_probe_forget(probe, &mut thread, None);
                    }
                    spans_ns
                })
            })
            .collect();
        let mut all: Vec<u64> = threads.into_iter().flat_map(|t| t.join().expect("ok")).collect();
        done.store(true, Ordering::Release);
        let records = reader.join().expect("the drain");
        let expected = if load == Load::Empty { 0 } else { 2 * pairs * thread_count };
        assert_eq!(records, expected);
        // Every span includes two readings of the clock.
        let mut clock_ns: Vec<u64> =
            (0..100_001).map(|_| Instant::now().elapsed().as_nanos() as u64).collect();
        clock_ns.sort_unstable();
        let clock_ns = 2 * clock_ns[clock_ns.len() / 2];
        all.sort_unstable();
        let at =
            |per_mille: usize| all[(all.len() - 1) * per_mille / 1_000].saturating_sub(clock_ns);
        let blocked = probe.arena.shared().counters.0.blocked_count.load(Ordering::Relaxed);
        let name = match load {
            Load::Empty => "no calls",
            Load::Busy => "writer naps",
            Load::Quiet => "writer is woken",
        };
        println!(
            "threads {thread_count:2}  {name:15}  median {} ns  p99 {} ns  p99.9 {} ns  \
             (clock {clock_ns} ns taken off, blocked {blocked} times)",
            at(500),
            at(990),
            at(999)
        );
    });
}

/// Measures what the arguments say.
pub fn run(arguments: &[String]) {
    let text: &'static [u8] = format!("SELECT {} FROM orders", "a_column, ".repeat(40))
        .into_bytes()
        .leak()
        .get(..200)
        .expect("long enough");
    match arguments.split_first() {
        Some((what, _)) if what == "count" => count(text),
        Some((what, threads)) if what == "time" => {
            for argument in threads {
                for load in [Load::Empty, Load::Busy, Load::Quiet] {
                    time(argument.parse().expect("a number of threads"), load, text);
                }
            }
        }
        _ => println!("usage: tacho-cost probe time THREADS... | tacho-cost probe count"),
    }
}
