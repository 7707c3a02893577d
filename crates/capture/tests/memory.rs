//! The limit of memory: whatever passes, no more is held than it allows, and the bytes that are
//! counted are those that are allocated.

mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use proptest::prelude::*;
use support::packet_file::{Owned, SEGMENTS, SERVER, arrival, fate, port};
use support::wire::{Wire, packet, query};
use tacho_capture::flows::{Budget, Flows};
use tacho_capture::link::Segment;
use tacho_capture::mysql::session::unknown::{Completed, Facts};
use tacho_capture::mysql::{Event, Identity, Limits, Output};

thread_local! {
    /// Bytes that this thread has allocated and not freed.
    static USED: Cell<isize> = const { Cell::new(0) };
}

struct Counting;

fn count(bytes: isize) {
    // A thread that ends frees more after this.
    let _ = USED.try_with(|used| used.set(used.get() + bytes));
}

// SAFETY: all memory is the system's.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: as promised by the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: as promised by the caller.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        count(bytes as isize - layout.size() as isize);
        // SAFETY: as promised by the caller.
        unsafe { System.realloc(at, layout, bytes) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn used() -> isize {
    USED.with(Cell::get)
}

/// What a connection may need beside the bytes that are counted: itself, and its place in tables
/// that have grown.
const CONNECTION_BYTES: usize = 6 << 10;
/// The tables of all of them.
const TABLE_BYTES: usize = 32 << 10;

/// Keeps nothing.
struct Nothing;

impl Output for Nothing {
    fn emit(&mut self, _: &Identity, _: i64, _: &Event<'_>) {}
}

/// The connections of the file so many times at once, each from ports of its own.
fn copies(count: u16) -> Vec<Owned> {
    let server = SERVER.parse().expect("an address");
    let of_all = SEGMENTS.iter().flat_map(|it| {
        (0..count).map(|copy| {
            let mut it = it.clone();
            for address in [&mut it.segment.from, &mut it.segment.to] {
                if *address != server {
                    address.set_port(address.port().wrapping_add(copy * 1000));
                }
            }
            it
        })
    });
    of_all.collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    /// Of 200 bytes nothing fits, so connections have to go, of 100,000 some statements.
    #[test]
    fn no_more_is_held_than_allowed(
        fates in prop::collection::vec(fate(), 1..400),
        first in 0..60_usize,
        bytes in prop_oneof![200..3_000_usize, 3_000..100_000_usize],
        threads in 1..4_u32,
        copied in 1..6_u16,
        tick in prop::option::of(1..20_usize),
    ) {
        let arriving = arrival(&copies(copied)[first..], &fates);
        let budget = Budget { bytes, ..Budget::default() };
        let servers = [SERVER.parse().expect("an address")];
        let before = used();
        let mut parts = Flows::of_threads(&servers, budget, threads);
        for (at, it) in arriving.iter().enumerate() {
            let part = usize::from(port(it)) % parts.len();
            parts[part].segment(&it.segment(), &mut Nothing);
            if tick.is_some_and(|every| at % every == 0) {
                // So much later that missing bytes are given up.
                let now_us = it.segment.ts_us + 300_000;
                parts.iter_mut().for_each(|flows| flows.tick(now_us, &mut Nothing));
            }
            let held = parts.iter().map(Flows::held_bytes).sum::<usize>();
            prop_assert!(held <= bytes, "{held} of {bytes} bytes");
            let connections = parts.iter().map(Flows::followed).sum::<usize>();
            let beside = connections * CONNECTION_BYTES + parts.len() * TABLE_BYTES;
            let allocated = (used() - before) as usize;
            prop_assert!(allocated <= 2 * held + beside, "{allocated} for {held}, {connections}");
        }
        parts.iter_mut().for_each(|flows| flows.finish(&mut Nothing));
        prop_assert_eq!(parts.iter().map(Flows::held_bytes).sum::<usize>(), 0);
    }
}

/// A budget of so many bytes.
fn bytes(bytes: usize) -> Budget {
    Budget { bytes, ..Budget::default() }
}

/// The client sends commands behind bytes of a result that were not captured.
#[test]
fn segments_that_waited_are_commands_within_the_limit() {
    const LIMIT: usize = 20_000;
    let mut wire = Wire::new(bytes(LIMIT));
    wire.handshake().login().client(&query("SELECT 1"));
    let result = [packet(1, b"\x01"), packet(2, b"\x03def"), packet(3, b"\xfe\0\0\x02\0")];
    let row = packet(4, &[b'r'; 100]);
    wire.server(&result.concat()).server(&row[..50]);
    wire.next[1] += 54;
    // Each is larger in memory than on the wire.
    wire.client(&packet(0, b"\x0e").repeat(280));
    wire.raw(&wire.of_server());
    assert_eq!(wire.take(), ["login me", "SELECT 1"]);
    assert!(wire.flows.held_bytes() > 1_400, "they wait");
    wire.wait_ms(300);
    assert_eq!(wire.take()[..1], ["lost memory 1400"]);
    assert!(wire.flows.held_bytes() <= LIMIT, "{}", wire.flows.held_bytes());
    assert!(wire.flows.figures().peak_bytes > LIMIT, "the test has reached the limit");
}

/// A server says which statements were prepared.
#[test]
fn texts_of_the_server_are_within_the_limit() {
    const LIMIT: usize = 20_000;
    let mut wire = Wire::new(bytes(LIMIT));
    wire.statement("SELECT 1").statement("SELECT 2");
    let texts = (1..=30).map(|id| (id, vec![b'x'; 900])).collect();
    let facts =
        Facts { conn: 7, user: Some(b"me".to_vec()), db: Some(Vec::new()), texts: Some(texts) };
    wire.take();
    assert_eq!(wire.complete(&facts), [Completed::Yes]);
    assert!(wire.flows.held_bytes() <= LIMIT, "{}", wire.flows.held_bytes());
    assert_eq!(wire.take(), ["lost memory 0 partial"]);
}

/// Connections to another port may begin with a PROXY header that never ends, and never say whether
/// they are connections of MySQL.
#[test]
fn headers_of_proxies_are_within_the_limit() {
    const LIMIT: usize = 100_000;
    let begun = [&b"\r\n\r\n\0\r\nQUIT\n\x21\x11\xff\xff"[..], &[7; 40_000]].concat();
    let mut wire = Wire::to(([10, 0, 0, 2], 4000).into(), Flows::new(Vec::new(), bytes(LIMIT)));
    for port in 1..=10 {
        wire.connect_from(port).client(&begun);
        assert!(wire.flows.held_bytes() <= LIMIT, "{}", wire.flows.held_bytes());
    }
    assert_eq!(wire.take(), [""; 0]);
    // Of equal ones, those with a higher port are given up. One of these is one of MySQL after all.
    let next = wire.next;
    wire.port = 5;
    wire.login().statement("SELECT 1").statement("SELECT 2");
    let notes = wire.take();
    assert!(notes[0].starts_with("lost resync 4"), "{notes:?}");
    assert_eq!(notes[1..3], ["SELECT 1 partial", "end 0 partial"], "{notes:?}");
    // And the first one is not.
    let held = wire.flows.held_bytes();
    (wire.port, wire.next) = (1, next);
    wire.server(b"220 not MySQL\r\n");
    assert!(wire.flows.held_bytes() + 40_000 < held, "{}", wire.flows.held_bytes());
}

/// What a burst has needed does not stay with its connection.
#[test]
fn segments_that_waited_leave_no_memory() {
    const CONNECTIONS: u16 = 200;
    let before = used();
    let mut wire = Wire::new(Budget::default());
    for port in 1..=CONNECTIONS {
        wire.connect_from(port).login();
        // Acknowledgements of bytes that never come, so the segments behind them are dropped.
        let ack = Some(wire.next[1].wrapping_add(1000));
        for _ in 0..200 {
            let segment = Segment { ack, payload: b"x", ..wire.of_client() };
            wire.raw(&segment);
            wire.next[0] += 1;
        }
        wire.now_us -= 200_000;
        wire.take();
    }
    let waiting = wire.flows.held_bytes();
    assert!(
        (used() - before) as usize <= 2 * waiting + usize::from(CONNECTIONS) * CONNECTION_BYTES
    );
    wire.wait_ms(1_000).wait_ms(40_000).take();
    assert!(wire.flows.held_bytes() < waiting / 10, "{} of {waiting}", wire.flows.held_bytes());
    let allocated = (used() - before) as usize;
    assert!(allocated < usize::from(CONNECTIONS) * CONNECTION_BYTES, "{allocated}");
}

/// Only what one segment brings can be held beyond the limit, and for no longer than it is read.
#[test]
fn a_segment_adds_no_more_than_itself() {
    const LIMIT: usize = 1 << 20;
    let limits = Limits { statement_bytes: 256 << 10, ..Limits::default() };
    let mut wire = Wire::new(Budget { bytes: LIMIT, each: limits, ..Budget::default() });
    let half_sent = [&[0, 0, 16, 0, 3][..], &[b'x'; 60_000]].concat();
    for port in 1..=40 {
        wire.connect_from(port).login().client(&half_sent).take();
        assert!(wire.flows.held_bytes() <= LIMIT, "{}", wire.flows.held_bytes());
    }
    let peak = wire.flows.figures().peak_bytes;
    assert!((LIMIT..LIMIT + 2 * half_sent.len()).contains(&peak), "{peak}");
}
