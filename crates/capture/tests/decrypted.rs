//! Encrypted connections that are decrypted by the server: packets have the greeting and the
//! request for TLS, pieces have what follows, and each statement is recorded once.

use std::net::SocketAddr;

use tacho_capture::flows::{Budget, Flows};
use tacho_capture::link::Segment;
use tacho_capture::mysql::{Event, Identity, Limits, Output};
use tacho_uprobes::{Kind, Piece};

const OK: &[u8] = b"\0\0\0\x02\0\0\0";
/// Protocol 4.1, TLS.
const CAPS: u32 = 1 << 9 | 1 << 11;

fn client() -> SocketAddr {
    "10.0.0.1:5555".parse().expect("an address")
}

fn server() -> SocketAddr {
    "10.0.0.2:3306".parse().expect("an address")
}

/// Notes events, in a short form.
#[derive(Default)]
struct Notes(Vec<String>);

impl Output for Notes {
    fn emit(&mut self, who: &Identity, _: i64, event: &Event<'_>) {
        let note = match event {
            Event::Login { .. } => format!("login {}", String::from_utf8_lossy(&who.user)),
            Event::Start { text, .. } => {
                String::from_utf8_lossy(text.unwrap_or_default()).into_owned()
            }
            Event::Disconnect => "disconnect".to_owned(),
            Event::Lost { cause, bytes, .. } => format!("lost {} {bytes}", cause.name()),
            Event::Point(end) => end.command.to_owned(),
            _ => return,
        };
        let partial = if who.is_partial { " partial" } else { "" };
        self.0.push(format!("{} {note}{partial}", who.conn));
    }
}

fn packet(seq: u8, payload: &[u8]) -> Vec<u8> {
    [&(payload.len() as u32).to_le_bytes()[..3], &[seq], payload].concat()
}

fn greeting(conn: u8) -> Vec<u8> {
    let caps = CAPS.to_le_bytes();
    let mut greeting = [b"\x0a8.0.1\0", &[conn, 0, 0, 0][..], b"saltsalt\0"].concat();
    greeting.extend(&caps[..2]);
    greeting.extend([33, 2, 0]);
    greeting.extend(&caps[2..]);
    greeting.extend([0; 11]);
    packet(0, &greeting)
}

/// The first bytes of a login are the request for TLS.
fn login() -> Vec<u8> {
    let mut login = CAPS.to_le_bytes().to_vec();
    login.extend([0, 0, 0, 1, 45]);
    login.extend([0; 23]);
    login.extend(b"me\0\0");
    login
}

/// A connection, with its packets and its pieces.
struct Scene {
    flows: Flows,
    notes: Notes,
    now_us: i64,
    sent: [u32; 2],
    offsets: [u64; 2],
    stream: u64,
}

impl Scene {
    fn new() -> Scene {
        let each = Limits { reads_tls: true, ..Limits::default() };
        let flows = Flows::new(vec![server()], Budget { each, ..Budget::default() });
        let mut scene = Scene {
            flows,
            notes: Notes::default(),
            now_us: 1_000_000,
            sent: [100, 200],
            offsets: [0; 2],
            stream: 1,
        };
        scene.begin(7);
        scene
    }

    /// A new connection, up to the request for TLS and a handshake.
    fn begin(&mut self, conn: u8) {
        self.sent = self.sent.map(|sent| sent.wrapping_add(1_000));
        self.offsets = [0; 2];
        self.segment(0, b"", |it| (it.syn, it.ack) = (true, None));
        self.segment(1, b"", |it| it.syn = true);
        self.segment(1, &greeting(conn), |_| {});
        self.segment(0, &packet(1, &login()[..32]), |_| {});
        self.segment(0, b"\x16\x03\x01 handshake", |_| {});
        self.segment(1, b"\x16\x03\x01 handshake", |_| {});
    }

    fn segment(&mut self, side: usize, payload: &[u8], change: impl FnOnce(&mut Segment<'_>)) {
        self.now_us += 100;
        let (from, to) = if side == 0 { (client(), server()) } else { (server(), client()) };
        let mut segment = Segment {
            ts_us: self.now_us,
            from,
            to,
            seq: self.sent[side],
            ack: Some(self.sent[1 - side]),
            syn: false,
            fin: false,
            rst: false,
            payload,
            missing: 0,
        };
        change(&mut segment);
        let counted = u32::from(segment.syn) + u32::from(segment.fin);
        self.sent[side] = self.sent[side].wrapping_add(payload.len() as u32 + counted);
        self.flows.segment(&segment, &mut self.notes);
    }

    /// Bytes of the client (0) or the server (1); they are also in a packet, as noise.
    fn piece(&mut self, side: usize, bytes: &[u8]) {
        self.segment(side, &vec![0x17; bytes.len() + 22], |_| {});
        let kind = if side == 0 { Kind::FromClient } else { Kind::ToClient };
        self.put(kind, self.offsets[side], bytes);
        self.offsets[side] += bytes.len() as u64;
    }

    fn put(&mut self, kind: Kind, offset: u64, bytes: &[u8]) {
        self.now_us += 100;
        let piece = Piece {
            at_ns: 0,
            stream: self.stream,
            offset,
            kind,
            client: client(),
            server: server(),
            bytes,
        };
        self.flows.decrypted(self.now_us, &piece, &mut self.notes);
    }

    fn lose(&mut self, side: usize, bytes: u64) {
        self.offsets[side] += bytes;
    }

    fn end_stream(&mut self) {
        self.put(Kind::End, 0, b"");
    }

    fn log_in(&mut self) {
        self.piece(0, &packet(2, &login()));
        self.piece(1, &packet(3, OK));
    }

    /// A statement, as a server reads it: the header, then the rest.
    fn query(&mut self, text: &str) {
        let packet_ = packet(0, &[b"\x03", text.as_bytes()].concat());
        self.piece(0, &packet_[..4]);
        self.piece(0, &packet_[4..]);
        self.piece(1, &packet(1, OK));
    }

    fn fin(&mut self) {
        self.segment(0, b"", |it| it.fin = true);
        self.segment(1, b"", |it| it.fin = true);
    }

    fn wait(&mut self, us: i64) {
        self.now_us += us;
        self.flows.tick(self.now_us, &mut self.notes);
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
fn a_session_is_recorded_once_and_ends_with_its_tls_session() {
    let mut scene = Scene::new();
    scene.log_in();
    scene.query("SELECT 1");
    // The client's last packets arrive before the server has read its last command.
    scene.fin();
    scene.query("SELECT 2");
    assert_eq!(scene.take(), ["7 login me", "7 SELECT 1", "7 SELECT 2"]);
    scene.end_stream();
    assert_eq!(scene.take(), ["7 disconnect"]);
    scene.wait(60_000_000);
    assert_eq!(scene.flows.followed(), 0);
    assert_eq!(scene.finish(), [""; 0]);
}

#[test]
fn a_session_whose_end_was_lost_ends_with_its_connection() {
    let mut scene = Scene::new();
    scene.log_in();
    scene.query("SELECT 1");
    scene.fin();
    scene.wait(5_000_000);
    assert_eq!(scene.take(), ["7 login me", "7 SELECT 1"]);
    scene.wait(30_000_000);
    assert_eq!(scene.take(), ["7 disconnect"]);
}

#[test]
fn what_nobody_decrypts_is_declared() {
    let mut scene = Scene::new();
    scene.wait(29_000_000);
    scene.segment(0, &[0x17; 50], |_| {});
    assert_eq!(scene.take(), [""; 0]);
    scene.wait(10_000_000);
    assert_eq!(scene.take(), ["7 lost tls 0"]);
    // It comes after all.
    scene.query("SELECT 'not certain'");
    scene.query("SELECT 1");
    let taken = scene.take();
    assert!(taken[0].starts_with("7 lost tls "), "{taken:?}");
    assert_eq!(taken.last().map(String::as_str), Some("7 SELECT 1 partial"));
}

#[test]
fn a_connection_that_ends_before_anything_is_decrypted_is_declared() {
    let mut scene = Scene::new();
    scene.fin();
    let taken = scene.take();
    assert_eq!(taken[0], "7 lost tls 0");
    let mut scene = Scene::new();
    assert_eq!(scene.finish()[0], "7 lost tls 0");
}

#[test]
fn missing_pieces_are_a_gap_and_the_session_goes_on_after_it() {
    let mut scene = Scene::new();
    scene.log_in();
    scene.query("SELECT 1");
    scene.take();
    // The ring was full.
    scene.lose(0, 40);
    scene.lose(1, 11);
    scene.query("SELECT 'not certain'");
    scene.query("SELECT 2");
    scene.query("SELECT 3");
    scene.end_stream();
    let taken = scene.take();
    assert_eq!(taken[0], "7 lost tcp_gap 40");
    assert!(taken.contains(&"7 SELECT 2 partial".to_owned()), "{taken:?}");
    assert!(taken.contains(&"7 SELECT 3 partial".to_owned()), "{taken:?}");
    assert!(!taken.contains(&"7 SELECT 'not certain'".to_owned()), "{taken:?}");
}

#[test]
fn a_session_that_began_before_is_partial() {
    let mut scene = Scene::new();
    // Its packets were not captured, nor the header of its first command.
    scene.flows = {
        let each = Limits { reads_tls: true, ..Limits::default() };
        Flows::new(vec![server()], Budget { each, ..Budget::default() })
    };
    scene.put(Kind::FromClient, 0, b"\x03SELECT 'no header'");
    scene.put(Kind::ToClient, 0, &packet(1, OK));
    scene.offsets = [19, 11];
    scene.query("SELECT 'not certain'");
    scene.query("SELECT 1");
    scene.end_stream();
    let taken = scene.finish();
    assert_eq!(taken.iter().filter(|note| note.contains("SELECT")).count(), 1, "{taken:?}");
    assert!(taken.contains(&"0 SELECT 1 partial".to_owned()), "{taken:?}");
}

#[test]
fn the_port_is_used_again() {
    let mut scene = Scene::new();
    scene.log_in();
    // Its end was lost, and so was that of its connection.
    scene.begin(8);
    assert_eq!(scene.take(), ["7 login me", "7 disconnect"]);
    // The end of the old one, which came late.
    scene.end_stream();
    scene.stream = 2;
    scene.log_in();
    scene.query("SELECT 2");
    scene.end_stream();
    assert_eq!(scene.take(), ["8 login me", "8 SELECT 2", "8 disconnect"]);
}

#[test]
fn other_servers_of_the_process_are_not_read() {
    let mut scene = Scene::new();
    let piece = Piece {
        at_ns: 0,
        stream: 9,
        offset: 0,
        kind: Kind::FromClient,
        client: client(),
        server: "10.0.0.2:33060".parse().expect("an address"),
        bytes: b"\x05\0\0\0\x03SELECT 1",
    };
    scene.flows.decrypted(scene.now_us, &piece, &mut scene.notes);
    assert_eq!(scene.flows.followed(), 1);
    assert_eq!(scene.flows.figures().decrypted_bytes, 0);
}

#[test]
fn sessions_end_with_the_process() {
    let mut scene = Scene::new();
    scene.log_in();
    scene.take();
    scene.flows.end_decryption(scene.now_us, &mut scene.notes);
    assert_eq!(scene.take(), ["7 disconnect"]);
    assert_eq!(scene.finish(), [""; 0]);
}
