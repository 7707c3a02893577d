//! Segments that a client can send although the server discards them: whatever it sends, its
//! statements are recorded, or their absence is declared.

mod support;

use support::wire::{OK, Wire, packet, query};
use tacho_capture::flows::Budget;
use tacho_capture::link::Segment;
use tacho_capture::mysql::Limits;

#[test]
fn a_reset_with_another_number_ends_nothing() {
    for off in [1_u32, 1 << 16, 1 << 29, 1 << 31, u32::MAX] {
        let mut wire = Wire::logged_in();
        let forged = wire.of_client();
        wire.raw(&Segment { seq: forged.seq.wrapping_add(off), rst: true, ..forged });
        let forged = wire.of_server();
        wire.raw(&Segment { seq: forged.seq.wrapping_add(off), rst: true, ..forged });
        wire.statement("SELECT 1");
        assert_eq!(wire.finish(), ["SELECT 1", "end 0"], "{off}");
    }
}

#[test]
fn a_reset_with_the_right_number_ends_it() {
    let mut wire = Wire::logged_in();
    let reset = Segment { rst: true, ..wire.of_client() };
    wire.raw(&reset);
    assert_eq!(wire.take(), ["disconnect"]);
    // What the server had sent before it knew.
    wire.server(b"late");
    assert_eq!(wire.finish(), [""; 0]);
}

#[test]
fn a_reset_behind_missing_bytes_waits_for_them() {
    let mut wire = Wire::logged_in();
    wire.next[0] += 10;
    let reset = Segment { rst: true, ..wire.of_client() };
    wire.raw(&reset).wait_ms(1_000);
    assert_eq!(wire.take(), [""; 0]);
    // The server acknowledges them, and the client has said that it sent them.
    wire.raw(&wire.of_server());
    wire.raw(&wire.of_client());
    wire.raw(&reset).wait_ms(1_000);
    assert_eq!(wire.take(), ["lost tcp_gap 10", "disconnect partial"]);
}

#[test]
fn a_connection_that_goes_on_after_its_end_is_followed_again() {
    let mut wire = Wire::logged_in();
    // The server has not got it.
    let forged = Segment { rst: true, ..wire.of_client() };
    wire.raw(&forged);
    assert_eq!(wire.take(), ["disconnect"]);
    for n in 1..=3 {
        wire.wait_ms(9_000).statement(&format!("SELECT {n}"));
    }
    let skipped = query("SELECT 1").len() + packet(1, OK).len();
    let lost = format!("lost resync {skipped} partial");
    let rest = ["SELECT 2 partial", "end 0 partial", "SELECT 3 partial", "end 0 partial"];
    assert_eq!(wire.finish(), [&[&lost[..]], &rest[..]].concat());
}

#[test]
fn a_syn_that_the_server_does_not_accept_begins_nothing() {
    for off in [1_u32, 1 << 20, 1 << 31, u32::MAX - 1000] {
        let mut wire = Wire::logged_in();
        let forged = wire.of_client();
        let syn = Segment { seq: forged.seq.wrapping_add(off), syn: true, ack: None, ..forged };
        wire.raw(&syn).statement("SELECT 1");
        // Nor after a forged end.
        let reset = Segment { rst: true, ..wire.of_client() };
        wire.raw(&reset).raw(&syn).statement("SELECT 2").statement("SELECT 3");
        let notes = wire.finish();
        assert_eq!(notes[..3], ["SELECT 1", "end 0", "disconnect"], "{off}");
        assert_eq!(notes[4..], ["SELECT 3 partial", "end 0 partial"], "{off}: {notes:?}");
    }
}

#[test]
fn a_port_that_is_used_again_is_another_connection() {
    let mut wire = Wire::logged_in();
    // The end of the first was not captured.
    wire.next = [77, 99];
    wire.handshake().login().statement("SELECT 1");
    assert_eq!(wire.finish(), ["disconnect", "login me", "SELECT 1", "end 0"]);
    // Nor the SYN of the second, after the end of the first.
    let mut wire = Wire::logged_in();
    let reset = Segment { rst: true, ..wire.of_client() };
    wire.raw(&reset);
    wire.next = [78, 99];
    let accepted = Segment { syn: true, ..wire.of_server() };
    wire.next[1] += 1;
    wire.raw(&accepted).login().statement("SELECT 1");
    assert_eq!(wire.finish(), ["disconnect", "login me", "SELECT 1", "end 0"]);
}

#[test]
fn a_forged_syn_before_the_real_one_does_no_harm() {
    let mut wire = Wire::new(Budget::default());
    let forged = Segment { seq: 7, syn: true, ack: None, ..wire.of_client() };
    let reset = Segment { seq: 8, rst: true, ..wire.of_client() };
    wire.raw(&forged).raw(&reset).handshake().login().statement("SELECT 1");
    assert_eq!(wire.finish(), ["login me", "SELECT 1", "end 0"]);
}

#[test]
fn a_segment_that_is_far_ahead_hides_nothing() {
    for off in [1_u32 << 16, 500 << 20, 1 << 31, 3 << 30] {
        let mut wire = Wire::logged_in();
        let forged = wire.of_client();
        let seq = forged.seq.wrapping_add(off);
        wire.raw(&Segment { seq, payload: b"forged", ..forged });
        wire.wait_ms(300).statement("SELECT 1").wait_ms(300).statement("SELECT 2");
        // An acknowledgement of what the server has never sent.
        let forged = wire.of_client();
        wire.raw(&Segment { ack: Some(wire.next[1].wrapping_add(off)), ..forged });
        wire.wait_ms(300).statement("SELECT 3").wait_ms(40_000).statement("SELECT 4");
        let wanted = (1..=4).flat_map(|n| [format!("SELECT {n}"), "end 0".to_owned()]);
        let notes = wire.take();
        assert_eq!(notes, wanted.collect::<Vec<_>>(), "{off}");
    }
}

#[test]
fn a_forged_end_hides_nothing() {
    let mut wire = Wire::logged_in();
    let forged = Segment { fin: true, ..wire.of_client() };
    wire.raw(&forged).statement("SELECT 1").statement("SELECT 2");
    assert_eq!(wire.take(), ["SELECT 1", "end 0", "SELECT 2", "end 0"]);
    // The server ends it.
    let fin = Segment { fin: true, ..wire.of_server() };
    wire.raw(&fin);
    wire.next[1] = wire.next[1].wrapping_add(1);
    let fin = Segment { fin: true, ..wire.of_client() };
    wire.raw(&fin);
    assert_eq!(wire.take(), ["disconnect"]);
}

#[test]
fn an_outage_of_gigabytes_is_declared() {
    const BYTES: u32 = 1_500_000_000;
    let mut wire = Wire::logged_in();
    wire.next[1] = wire.next[1].wrapping_add(BYTES);
    wire.statement("SELECT 1").statement("SELECT 2").statement("SELECT 3");
    let notes = wire.finish();
    let lost = notes.iter().find(|note| note.starts_with("lost tcp_gap")).expect("declared");
    let bytes = lost.split(' ').nth(2).unwrap().parse::<u32>().unwrap();
    assert!((BYTES..BYTES + 100).contains(&bytes), "{notes:?}");
    assert_eq!(notes[notes.len() - 2..], ["SELECT 3 partial", "end 0 partial"], "{notes:?}");
}

/// The capture begins in the middle, and the client's first segment is one that the server
/// discards.
#[test]
fn only_the_server_says_where_a_joined_connection_is() {
    for off in [0, 100 << 20, 1 << 31] {
        let mut wire = Wire::new(Budget::default());
        let forged = wire.of_client();
        let (seq, ack) = (forged.seq.wrapping_add(off), wire.next[1].wrapping_add(off));
        wire.raw(&Segment { seq, ack: Some(ack), payload: b"forged", ..forged });
        let syn = Segment { seq, ack: None, syn: true, ..forged };
        wire.raw(&syn);
        wire.statement("SELECT 1").statement("SELECT 2");
        let notes = wire.finish();
        assert_eq!(notes[1..], ["SELECT 2 partial", "end 0 partial"], "{off}: {notes:?}");
    }
    // The SYN alone.
    let mut wire = Wire::new(Budget::default());
    let forged = wire.of_client();
    let seq = forged.seq.wrapping_add(100);
    wire.raw(&Segment { seq, ack: None, syn: true, ..forged });
    wire.statement("SELECT 1").statement("SELECT 2");
    let notes = wire.finish();
    assert_eq!(notes[1..], ["SELECT 2 partial", "end 0 partial"], "{notes:?}");
}

#[test]
fn bytes_that_arrive_late_are_not_missing_before_the_server_has_them() {
    let mut wire = Wire::logged_in();
    let first = query("SELECT 'first'");
    let at = wire.of_client();
    // The first segment is lost in the network, and sent again after a second.
    wire.next[0] += first.len() as u32;
    wire.client(&query("SELECT 'second'")).wait_ms(1_000);
    wire.raw(&Segment { payload: &first, ts_us: wire.now_us, ..at });
    wire.server(&packet(1, OK)).server(&packet(1, OK));
    assert_eq!(wire.take(), ["SELECT 'first'", "end 0", "SELECT 'second'", "end 0"]);
}

#[test]
fn a_flood_of_syns_displaces_no_session() {
    let mut wire = Wire::new(Budget { connections: 50, ..Budget::default() });
    wire.handshake().login();
    wire.take();
    for port in 1..500 {
        let mut from = wire.of_client().from;
        from.set_port(port);
        wire.raw(&Segment { from, syn: true, ack: None, ..wire.of_client() });
    }
    wire.statement("SELECT 1");
    assert_eq!(wire.take(), ["SELECT 1", "end 0"]);
}

#[test]
fn a_session_that_is_displaced_says_so() {
    let mut wire = Wire::new(Budget { connections: 2, ..Budget::default() });
    for port in 1..=3 {
        wire.connect_from(port).login();
    }
    let evicted = ["lost memory 0", "disconnect partial"];
    assert_eq!(wire.take(), [&["login me"; 2][..], &evicted, &["login me"]].concat());
}

/// Connections that hold much and say nothing more must not silence the others.
#[test]
fn who_holds_the_most_memory_loses_it() {
    let limits = Limits { statement_bytes: 1 << 20, ..Limits::default() };
    let mut wire = Wire::new(Budget { bytes: 4 << 20, each: limits, ..Budget::default() });
    let half_sent = [&[0, 0, 16, 0, 3][..], &vec![b'x'; 1_000_000]].concat();
    for port in 1..=4 {
        wire.connect_from(port).login().client(&half_sent);
        assert!(wire.flows.held_bytes() <= 4 << 20, "{}", wire.flows.held_bytes());
    }
    wire.take();
    wire.connect_from(5).login();
    let long = query(&format!("SELECT '{}'", "y".repeat(300_000)));
    for part in long.chunks(1_400) {
        wire.client(part);
    }
    wire.server(&packet(1, OK));
    let notes = wire.take();
    let of_last = notes.iter().filter(|note| !note.starts_with("lost memory"));
    let of_last = of_last.map(|note| &note[..note.len().min(8)]).collect::<Vec<_>>();
    assert_eq!(of_last, ["login me", "SELECT '", "end 0"]);
    assert!(wire.flows.held_bytes() <= 4 << 20);
}
