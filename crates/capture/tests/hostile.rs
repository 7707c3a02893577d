//! Segments that a client can send although the server discards them: whatever it sends, its
//! statements are recorded, or their absence is declared.

use std::net::SocketAddr;

use tacho_capture::flows::{Budget, Flows};
use tacho_capture::link::Segment;
use tacho_capture::mysql::{Event, Identity, Limits, Output};

const PROTOCOL_41: u16 = 0x0200;
const OK: &[u8] = b"\0\0\0\x02\0\0\0";
/// Sequence numbers of the connection's SYNs.
const CLIENT_FIRST: u32 = 1_000_000;
const SERVER_FIRST: u32 = 4_294_967_000;

/// Notes events, in a short form.
#[derive(Default)]
struct Notes(Vec<String>);

impl Output for Notes {
    fn emit(&mut self, who: &Identity, _: i64, event: &Event<'_>) {
        let note = match event {
            Event::Login { .. } => format!("login {}", String::from_utf8_lossy(&who.user)),
            Event::Start { text, .. } => String::from_utf8_lossy(text.unwrap_or(b"?")).into_owned(),
            Event::End(end) => format!("end {}", end.failure.as_ref().map_or(0, |it| it.errno)),
            Event::Disconnect => "disconnect".to_owned(),
            Event::Lost { cause, bytes, .. } => format!("lost {} {bytes}", cause.name()),
            other => format!("{other:?}"),
        };
        self.0.push(if who.is_partial { format!("{note} partial") } else { note });
    }
}

fn packet(seq: u8, payload: &[u8]) -> Vec<u8> {
    [&(payload.len() as u32).to_le_bytes()[..3], &[seq], payload].concat()
}

fn query(text: &str) -> Vec<u8> {
    packet(0, &[b"\x03", text.as_bytes()].concat())
}

/// One connection, as its packets pass.
struct Wire {
    flows: Flows,
    notes: Notes,
    port: u16,
    now_us: i64,
    /// The next sequence numbers of client and server.
    next: [u32; 2],
}

fn empty(from: SocketAddr, to: SocketAddr) -> Segment<'static> {
    let (ts_us, seq, ack) = (0, 0, None);
    let (syn, fin, rst) = (false, false, false);
    Segment { ts_us, from, to, seq, ack, syn, fin, rst, payload: &[], missing: 0 }
}

impl Wire {
    fn new(budget: Budget) -> Wire {
        let flows = Flows::new(vec!["10.0.0.2:3306".parse().unwrap()], budget);
        let next = [CLIENT_FIRST, SERVER_FIRST];
        Wire { flows, notes: Notes::default(), port: 5555, now_us: 1_000_000, next }
    }

    fn logged_in() -> Wire {
        let mut wire = Wire::new(Budget::default());
        wire.handshake().login();
        assert_eq!(wire.take(), ["login me"]);
        wire
    }

    fn of_client(&self) -> Segment<'static> {
        let client = SocketAddr::new([10, 0, 0, 1].into(), self.port);
        let segment = empty(client, "10.0.0.2:3306".parse().unwrap());
        Segment { seq: self.next[0], ack: Some(self.next[1]), ts_us: self.now_us, ..segment }
    }

    fn of_server(&self) -> Segment<'static> {
        let Segment { from, to, .. } = self.of_client();
        Segment {
            seq: self.next[1],
            ack: Some(self.next[0]),
            ts_us: self.now_us,
            ..empty(to, from)
        }
    }

    /// A segment as it is: it changes nothing of what the sides send next.
    fn raw(&mut self, segment: &Segment<'_>) -> &mut Wire {
        self.flows.segment(segment, &mut self.notes);
        self.now_us += 1_000;
        self
    }

    fn client(&mut self, payload: &[u8]) -> &mut Wire {
        let segment = self.of_client();
        self.raw(&Segment { payload, ..segment });
        self.next[0] = self.next[0].wrapping_add(payload.len() as u32);
        self
    }

    fn server(&mut self, payload: &[u8]) -> &mut Wire {
        let segment = self.of_server();
        self.raw(&Segment { payload, ..segment });
        self.next[1] = self.next[1].wrapping_add(payload.len() as u32);
        self
    }

    fn handshake(&mut self) -> &mut Wire {
        let segment = Segment { syn: true, ack: None, ..self.of_client() };
        self.raw(&segment);
        self.next[0] = self.next[0].wrapping_add(1);
        let segment = Segment { syn: true, ..self.of_server() };
        self.raw(&segment);
        self.next[1] = self.next[1].wrapping_add(1);
        self.raw(&self.of_client())
    }

    fn login(&mut self) -> &mut Wire {
        let caps = PROTOCOL_41.to_le_bytes();
        let mut greeting = b"\x0a8.0.1\0\x07\0\0\0saltsalt\0".to_vec();
        greeting.extend(caps);
        greeting.extend([33, 2, 0, 0, 0]);
        greeting.extend([0; 11]);
        let mut login = caps.to_vec();
        login.extend([0, 0, 0, 0, 0, 1, 45]);
        login.extend([0; 23]);
        login.extend(b"me\0password\0");
        self.server(&packet(0, &greeting)).client(&packet(1, &login)).server(&packet(2, OK))
    }

    /// A statement, and its answer.
    fn statement(&mut self, text: &str) -> &mut Wire {
        self.client(&query(text)).server(&packet(1, OK));
        self.raw(&self.of_client())
    }

    /// Time passes without packets.
    fn wait_ms(&mut self, ms: i64) -> &mut Wire {
        self.now_us += ms * 1_000;
        self.flows.tick(self.now_us, &mut self.notes);
        self
    }

    fn take(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes.0)
    }

    fn finish(&mut self) -> Vec<String> {
        self.flows.finish(&mut self.notes);
        self.take()
    }
}

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
        wire.port = port;
        wire.next = [CLIENT_FIRST, SERVER_FIRST];
        wire.handshake().login();
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
        wire.port = port;
        wire.next = [CLIENT_FIRST, SERVER_FIRST];
        wire.handshake().login().client(&half_sent);
        assert!(wire.flows.held_bytes() <= 4 << 20, "{}", wire.flows.held_bytes());
    }
    wire.take();
    wire.port = 5;
    wire.next = [CLIENT_FIRST, SERVER_FIRST];
    wire.handshake().login();
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
