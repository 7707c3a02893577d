//! Counts what passes: segments, connections, servers, and the events that would become records.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::SocketAddr;

use serde::Serialize;

use crate::link::Segment;
use crate::mysql::{Cause, Event, Greeting, Identity, Output, Side};

/// Connections that are counted one by one.
const CONNECTIONS_MAX: usize = 100_000;
/// Servers that are listed: any host can greet as one.
const SERVERS_MAX: usize = 256;

/// Segments, connections and events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Segments with data from clients to servers.
    pub from_clients: u64,
    /// Segments with data from servers to clients.
    pub from_servers: u64,
    /// Connections with data.
    pub connections: u64,
    /// Those that are encrypted.
    pub encrypted: u64,
    /// Logins that succeeded.
    pub logins: u64,
    /// Statements.
    pub statements: u64,
    /// Commands without a text.
    pub commands: u64,
    /// Sessions with statements or commands that began before, or have a gap.
    pub partial_sessions: u64,
    /// Bytes that were sent and not captured.
    pub missing_bytes: u64,
}

impl Counts {
    /// Whether anything was understood that would be recorded as what a client did.
    pub fn has_commands(&self) -> bool {
        self.statements + self.commands > 0
    }
}

/// A server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Server {
    /// The version in its greeting. `None`: no client has connected meanwhile.
    pub version: Option<String>,
    /// Connections with data.
    pub connections: u64,
    /// Those that are encrypted.
    pub encrypted: u64,
    /// Statements.
    pub statements: u64,
}

/// What a connection has shown.
#[derive(Clone, Copy, Default)]
struct Seen {
    is_encrypted: bool,
}

/// Counts, see the module documentation.
#[derive(Default)]
pub struct Tally {
    counts: Counts,
    connections: HashMap<(SocketAddr, SocketAddr), Seen>,
    servers: BTreeMap<String, Server>,
    /// Numbers of the sessions with statements or commands of which a part is missing.
    partial: HashSet<u32>,
}

impl Tally {
    /// Takes a segment of a connection.
    pub fn segment(
        &mut self,
        client: SocketAddr,
        server: SocketAddr,
        side: Side,
        it: &Segment<'_>,
    ) {
        if it.payload.is_empty() {
            return;
        }
        match side {
            Side::Client => self.counts.from_clients += 1,
            Side::Server => self.counts.from_servers += 1,
        }
        let address = SocketAddr::new(server.ip().to_canonical(), server.port()).to_string();
        if side == Side::Server
            && let Some(version) = greeted_version(it.payload)
            && let Some(server) = self.server(&address)
        {
            server.version = Some(version);
        }
        let is_full = self.connections.len() >= CONNECTIONS_MAX;
        let known = self.connections.get(&(client, server)).copied();
        if known.is_none() && is_full {
            return;
        }
        let was = known.unwrap_or_default();
        let now = Seen { is_encrypted: was.is_encrypted || is_encrypted(it.payload) };
        self.connections.insert((client, server), now);
        let is_new = u64::from(known.is_none());
        let is_newly_encrypted = u64::from(now.is_encrypted && !was.is_encrypted);
        self.counts.connections += is_new;
        self.counts.encrypted += is_newly_encrypted;
        if let Some(server) = self.server(&address) {
            server.connections += is_new;
            server.encrypted += is_newly_encrypted;
        }
    }

    fn server(&mut self, address: &str) -> Option<&mut Server> {
        if !self.servers.contains_key(address) && self.servers.len() >= SERVERS_MAX {
            return None;
        }
        Some(self.servers.entry(address.to_owned()).or_default())
    }

    fn command(&mut self, who: &Identity) {
        if who.is_partial && self.partial.len() < CONNECTIONS_MAX {
            self.partial.insert(who.number);
        }
    }

    /// The counts, and the servers by their address.
    pub fn finish(self) -> (Counts, BTreeMap<String, Server>) {
        let partial_sessions = self.partial.len() as u64;
        (Counts { partial_sessions, ..self.counts }, self.servers)
    }
}

impl Output for Tally {
    fn emit(&mut self, who: &Identity, _: i64, event: &Event<'_>) {
        match event {
            Event::Login { failure: None, .. } => self.counts.logins += 1,
            Event::Start { .. } => {
                self.counts.statements += 1;
                self.command(who);
                if let Some(server) = self.server(&who.server_addr) {
                    server.statements += 1;
                }
            }
            Event::Point(_) => {
                self.counts.commands += 1;
                self.command(who);
            }
            Event::Lost { cause: Cause::TcpGap, bytes, .. } => self.counts.missing_bytes += bytes,
            _ => {}
        }
    }
}

/// The version in a greeting, if a segment has all of one.
fn greeted_version(payload: &[u8]) -> Option<String> {
    let (&[a, b, c, 0], rest) = payload.split_first_chunk::<4>()? else { return None };
    let greeting = rest.get(..u32::from_le_bytes([a, b, c, 0]) as usize)?;
    let greeting = Greeting::read(greeting)?;
    // It has only printable ASCII characters.
    String::from_utf8(greeting.version).ok()
}

/// Whether a segment begins with a record of TLS, or has one behind the request for it.
fn is_encrypted(payload: &[u8]) -> bool {
    const REQUEST_BYTES: usize = 36;
    let is_record = |bytes: &[u8]| matches!(bytes, [0x14..=0x17, 3, 0..=4, ..]);
    let is_request = payload.starts_with(&[REQUEST_BYTES as u8 - 4, 0, 0, 1]);
    is_record(payload) || is_request && payload.get(REQUEST_BYTES..).is_some_and(is_record)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> SocketAddr {
        text.parse().expect("an address")
    }

    fn segment(payload: &[u8]) -> Segment<'_> {
        Segment {
            ts_us: 0,
            from: address("192.0.2.1:1"),
            to: address("192.0.2.1:1"),
            seq: 0,
            ack: None,
            syn: false,
            fin: false,
            rst: false,
            payload,
            missing: 0,
        }
    }

    #[test]
    fn servers_and_encrypted_connections_are_counted() {
        let mut tally = Tally::default();
        let server = address("192.0.2.1:3306");
        let greeting =
            b"\x2e\0\0\0\x0a5.5.5-10.11.6\0\x07\0\0\0saltsalt\0\xff\xf7\x08\x02\0\xff\x81\
            \0\0\0\0\0\0\0\0\0\0\0";
        let [plain, packed] = ["192.0.2.7:1", "192.0.2.7:2"].map(address);
        tally.segment(plain, server, Side::Server, &segment(greeting));
        tally.segment(plain, server, Side::Client, &segment(b"\x01\0\0\0\x0e"));
        tally.segment(plain, server, Side::Client, &segment(b""));
        let request = [&[32, 0, 0, 1][..], &[0; 32], b"\x16\x03\x01\0\x05hello"].concat();
        for hello in [&request[..], b"\x17\x03\x03\0\x10", b"\x17\x03\x03\0\x10"] {
            tally.segment(packed, server, Side::Client, &segment(hello));
        }
        let (counts, servers) = tally.finish();
        assert_eq!((counts.connections, counts.encrypted), (2, 1));
        assert_eq!((counts.from_clients, counts.from_servers), (4, 1));
        let server = &servers["192.0.2.1:3306"];
        assert_eq!(server.version.as_deref(), Some("10.11.6"));
        assert_eq!((server.connections, server.encrypted), (2, 1));
        for other in [&b"\x2d\0\0\0\x0acut"[..], b"\x05\0\0\x01\x0a8.0\0", b"HTTP/1.1 200 OK"] {
            assert_eq!(greeted_version(other), None, "{other:?}");
        }
    }
}
