//! A connection whose packets a test makes one by one.

use std::net::SocketAddr;

use tacho_capture::flows::{Budget, Flows};
use tacho_capture::link::Segment;
use tacho_capture::mysql::session::unknown::{Completed, Facts};
use tacho_capture::mysql::{Event, Identity, Output};

const PROTOCOL_41: u16 = 0x0200;
pub const OK: &[u8] = b"\0\0\0\x02\0\0\0";
/// Sequence numbers of the connection's SYNs.
pub const CLIENT_FIRST: u32 = 1_000_000;
pub const SERVER_FIRST: u32 = 4_294_967_000;

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

pub fn packet(seq: u8, payload: &[u8]) -> Vec<u8> {
    [&(payload.len() as u32).to_le_bytes()[..3], &[seq], payload].concat()
}

pub fn query(text: &str) -> Vec<u8> {
    packet(0, &[b"\x03", text.as_bytes()].concat())
}

/// One connection, as its packets pass.
pub struct Wire {
    pub flows: Flows,
    notes: Notes,
    pub server: SocketAddr,
    pub port: u16,
    pub now_us: i64,
    /// The next sequence numbers of client and server.
    pub next: [u32; 2],
}

fn empty(from: SocketAddr, to: SocketAddr) -> Segment<'static> {
    let (ts_us, seq, ack) = (0, 0, None);
    let (syn, fin, rst) = (false, false, false);
    Segment { ts_us, from, to, seq, ack, syn, fin, rst, payload: &[], missing: 0 }
}

impl Wire {
    pub fn new(budget: Budget) -> Wire {
        let server = ([10, 0, 0, 2], 3306).into();
        Wire::to(server, Flows::new(vec![server], budget))
    }

    /// To this server.
    pub fn to(server: SocketAddr, flows: Flows) -> Wire {
        let next = [CLIENT_FIRST, SERVER_FIRST];
        Wire { flows, notes: Notes::default(), server, port: 5555, now_us: 1_000_000, next }
    }

    /// The next connection is another one, from this port.
    pub fn connect_from(&mut self, port: u16) -> &mut Wire {
        self.port = port;
        self.next = [CLIENT_FIRST, SERVER_FIRST];
        self.handshake()
    }

    pub fn logged_in() -> Wire {
        let mut wire = Wire::new(Budget::default());
        wire.handshake().login();
        assert_eq!(wire.take(), ["login me"]);
        wire
    }

    pub fn of_client(&self) -> Segment<'static> {
        let client = SocketAddr::new([10, 0, 0, 1].into(), self.port);
        let segment = empty(client, self.server);
        Segment { seq: self.next[0], ack: Some(self.next[1]), ts_us: self.now_us, ..segment }
    }

    pub fn of_server(&self) -> Segment<'static> {
        let Segment { from, to, .. } = self.of_client();
        Segment {
            seq: self.next[1],
            ack: Some(self.next[0]),
            ts_us: self.now_us,
            ..empty(to, from)
        }
    }

    /// A segment as it is: it changes nothing of what the sides send next.
    pub fn raw(&mut self, segment: &Segment<'_>) -> &mut Wire {
        self.flows.segment(segment, &mut self.notes);
        self.now_us += 1_000;
        self
    }

    pub fn client(&mut self, payload: &[u8]) -> &mut Wire {
        let segment = self.of_client();
        self.raw(&Segment { payload, ..segment });
        self.next[0] = self.next[0].wrapping_add(payload.len() as u32);
        self
    }

    pub fn server(&mut self, payload: &[u8]) -> &mut Wire {
        let segment = self.of_server();
        self.raw(&Segment { payload, ..segment });
        self.next[1] = self.next[1].wrapping_add(payload.len() as u32);
        self
    }

    pub fn handshake(&mut self) -> &mut Wire {
        let segment = Segment { syn: true, ack: None, ..self.of_client() };
        self.raw(&segment);
        self.next[0] = self.next[0].wrapping_add(1);
        let segment = Segment { syn: true, ..self.of_server() };
        self.raw(&segment);
        self.next[1] = self.next[1].wrapping_add(1);
        self.raw(&self.of_client())
    }

    pub fn login(&mut self) -> &mut Wire {
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
    pub fn statement(&mut self, text: &str) -> &mut Wire {
        self.client(&query(text)).server(&packet(1, OK));
        self.raw(&self.of_client())
    }

    /// Time passes without packets.
    pub fn wait_ms(&mut self, ms: i64) -> &mut Wire {
        self.now_us += ms * 1_000;
        self.flows.tick(self.now_us, &mut self.notes);
        self
    }

    /// The server answers a question about each session of which something is not known.
    pub fn complete(&mut self, facts: &Facts) -> Vec<Completed> {
        let Wire { flows, notes, server, .. } = self;
        let questions = flows.unknown(&[*server]);
        questions.iter().map(|it| flows.complete(it, facts, notes)).collect()
    }

    pub fn take(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes.0)
    }

    pub fn finish(&mut self) -> Vec<String> {
        self.flows.finish(&mut self.notes);
        self.take()
    }
}
