//! All connections: which segment belongs to which, and how much memory they may use.

mod budget;
mod flow;
mod memory;
mod table;
mod unknown;

use std::collections::HashSet;
use std::hash::{Hash, Hasher};
use std::net::{IpAddr, SocketAddr};
use std::ops::AddAssign;

use tacho_uprobes::{Kind, Piece};

use crate::link::Segment;
use crate::mysql::{Output, Side};
use budget::Allowances;
pub use budget::Budget;
use flow::{Belongs, Flow};
use table::Table;
pub use unknown::Question;

/// The port of a server if none is named.
const USUAL_PORT: u16 = 3306;
/// How often connections with missing bytes are visited, µs of the packets' clock.
const VISIT_EVERY_US: i64 = 50_000;
/// How often all connections are visited, µs.
const VISIT_ALL_EVERY_US: i64 = 5_000_000;

/// What the connections have used, and what was left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Segments of connections to the servers.
    pub segments: u64,
    /// Segments of other connections.
    pub others: u64,
    /// Connections.
    pub connections: u64,
    /// The most memory that texts and waiting segments have used, bytes; of several threads the
    /// sum, although they may have used it at different times.
    pub peak_bytes: usize,
    /// Bytes that came decrypted from the server's TLS library.
    pub decrypted_bytes: u64,
}

impl AddAssign for Figures {
    fn add_assign(&mut self, other: Figures) {
        let Figures { segments, others, connections, peak_bytes, decrypted_bytes } = other;
        self.segments += segments;
        self.others += others;
        self.connections += connections;
        self.peak_bytes += peak_bytes;
        self.decrypted_bytes += decrypted_bytes;
    }
}

/// Client and server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key(SocketAddr, SocketAddr);

impl Hash for Key {
    /// In one write: the hasher has a secret key, since whoever sends packets chooses addresses,
    /// and takes several times as long for the parts of an address one by one.
    fn hash<H: Hasher>(&self, state: &mut H) {
        let mut bytes = [0; 36];
        for (address, place) in [self.0, self.1].iter().zip(bytes.chunks_exact_mut(18)) {
            let (ip, port) = place.split_at_mut(16);
            match address.ip() {
                IpAddr::V4(it) => ip[..4].copy_from_slice(&it.octets()),
                IpAddr::V6(it) => ip.copy_from_slice(&it.octets()),
            }
            port.copy_from_slice(&address.port().to_be_bytes());
        }
        state.write(&bytes);
    }
}

/// Whether an address is one of these; `0.0.0.0` and `::` are any.
fn is_at(servers: &[SocketAddr], address: SocketAddr) -> bool {
    servers.iter().any(|server| {
        server.port() == address.port()
            && (server.ip().is_unspecified() || server.ip() == address.ip().to_canonical())
    })
}

/// All connections, see the module documentation.
pub struct Flows {
    servers: Vec<SocketAddr>,
    allowances: Allowances,
    flows: Table,
    /// Those with missing bytes.
    holes: HashSet<Key>,
    /// The latest time of a packet, µs since 1970-01-01 UTC.
    now_us: i64,
    visited_us: i64,
    visited_all_us: i64,
    held_bytes: usize,
    /// The number of the last connection, and the distance of the next one.
    number: u32,
    stride: u32,
    figures: Figures,
}

impl Flows {
    /// Of connections to these servers; an address of `0.0.0.0` or `::` is any address. Without
    /// servers they are recognised by port 3306, and by their greeting.
    pub fn new(servers: Vec<SocketAddr>, budget: Budget) -> Flows {
        Flows::part(servers, budget.whole(), 0, 1)
    }

    /// The same for several threads, each of which has its own connections: together they keep the
    /// budget, and no two connections have the same number.
    pub fn of_threads(servers: &[SocketAddr], budget: Budget, threads: u32) -> Vec<Flows> {
        let parts = (0..threads).zip(budget.split(threads));
        let part = |(index, part)| Flows::part(servers.to_vec(), part, index, threads);
        parts.map(part).collect()
    }

    fn part(servers: Vec<SocketAddr>, allowances: Allowances, number: u32, stride: u32) -> Flows {
        Flows {
            servers,
            allowances,
            flows: Table::new(),
            holes: HashSet::new(),
            now_us: i64::MIN,
            visited_us: i64::MIN,
            visited_all_us: i64::MIN,
            held_bytes: 0,
            number,
            stride,
            figures: Figures::default(),
        }
    }

    /// Figures of all connections.
    pub fn figures(&self) -> Figures {
        self.figures
    }

    /// Connections that are followed now.
    pub fn followed(&self) -> usize {
        self.flows.len()
    }

    /// Memory for texts and waiting segments, bytes.
    pub fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    fn is_server(&self, address: SocketAddr) -> bool {
        is_at(&self.servers, address)
    }

    /// The connection of a segment, and who sends it. `None`: not one to a server.
    fn place(&self, segment: &Segment<'_>) -> Option<(Key, Side)> {
        // Without named servers no two connections have the same addresses.
        if self.servers.is_empty()
            && let Some(found) = self.flows.recent(&segment.from, &segment.to)
        {
            return Some(found);
        }
        let Segment { from, to, .. } = *segment;
        let by_client = (Key(from, to), Side::Client);
        let by_server = (Key(to, from), Side::Server);
        if !self.servers.is_empty() {
            return match (self.is_server(to), self.is_server(from)) {
                (true, false) => Some(by_client),
                (false, true) => Some(by_server),
                // One server is the client of another.
                (true, true) => Some(self.known(by_client, by_server).unwrap_or_else(|| {
                    if segment.syn && segment.ack.is_some() { by_server } else { by_client }
                })),
                (false, false) => None,
            };
        }
        self.known(by_client, by_server).or(match (segment.syn, segment.ack) {
            (true, None) => Some(by_client),
            (true, Some(_)) => Some(by_server),
            _ if to.port() == USUAL_PORT => Some(by_client),
            _ if from.port() == USUAL_PORT => Some(by_server),
            _ => None,
        })
    }

    /// Client, server and sender of a segment, if its connection is one to a server. Without named
    /// servers, only those count that have greeted, and all of port 3306.
    pub(crate) fn sides(&self, segment: &Segment<'_>) -> Option<(SocketAddr, SocketAddr, Side)> {
        let (key, side) = self.place(segment)?;
        let is_sure = !self.servers.is_empty() || key.1.port() == USUAL_PORT;
        let is_sure = is_sure || self.flows.get(&key).is_some_and(Flow::is_to_server);
        is_sure.then_some((key.0, key.1, side))
    }

    fn known(&self, by_client: (Key, Side), by_server: (Key, Side)) -> Option<(Key, Side)> {
        [by_client, by_server].into_iter().find(|(key, _)| self.flows.get(key).is_some())
    }

    /// Takes the next segment.
    pub fn segment(&mut self, segment: &Segment<'_>, out: &mut dyn Output) {
        self.now_us = self.now_us.max(segment.ts_us);
        if let Some((key, side)) = self.place(segment) {
            self.figures.segments += 1;
            self.add(key, side, segment, out);
        } else {
            self.figures.others += 1;
        }
        if self.now_us >= self.visited_us.saturating_add(VISIT_EVERY_US) {
            self.visit(out);
        }
    }

    /// No packet has come for a while: it is this time, µs since 1970-01-01 UTC.
    pub fn tick(&mut self, now_us: i64, out: &mut dyn Output) {
        self.now_us = self.now_us.max(now_us);
        self.visit(out);
    }

    fn add(&mut self, key: Key, side: Side, segment: &Segment<'_>, out: &mut dyn Output) {
        let found = self.flows.find(&key);
        let flow = found.and_then(|index| self.flows.at(index));
        let index = match (found, flow.map(|flow| flow.belongs(side, segment))) {
            (Some(index), Some(Belongs::Here)) => index,
            (_, Some(Belongs::Joins)) => self.rejoin(key, out),
            // Only an acknowledgement: nothing is lost without it.
            (_, None) if !segment.syn && segment.payload.is_empty() && segment.missing == 0 => {
                return;
            }
            (_, None | Some(_)) => self.begin(key, segment.syn, out),
        };
        if self.give(key, index, side, segment, out) {
            let index = self.rejoin(key, out);
            self.give(key, index, side, segment, out);
        }
        self.keep_limit(segment.ts_us, out);
    }

    /// A connection begins, or is joined in its middle. It may have had a predecessor. Returns its
    /// index.
    fn begin(&mut self, key: Key, is_whole: bool, out: &mut dyn Output) -> usize {
        // The port is used again.
        self.remove(key, out, Flow::close);
        self.make_room(out);
        let is_sure = !self.servers.is_empty() || key.1.port() == USUAL_PORT;
        let number = self.next_number();
        let flow = Flow::new(key, number, is_whole, is_sure, self.allowances.each.clone());
        self.flows.insert(key, flow)
    }

    fn next_number(&mut self) -> u32 {
        self.number = self.number.wrapping_add(self.stride);
        self.figures.connections += 1;
        self.number
    }

    /// A connection continues after its end, or elsewhere: it is another one, joined in its middle.
    /// Returns its index.
    fn rejoin(&mut self, key: Key, out: &mut dyn Output) -> usize {
        let Some(mut old) = self.flows.remove(&key) else { return self.begin(key, false, out) };
        self.holes.remove(&key);
        self.held_bytes -= old.counted_bytes();
        if !old.is_decrypted() {
            old.abandon(out);
        }
        let number = self.next_number();
        let mut flow = old.rejoined(key, number, self.allowances.each.clone());
        flow.count_memory(&mut self.held_bytes);
        self.flows.insert(key, flow)
    }

    /// Passes a segment to its connection. `true`: that continues elsewhere.
    fn give(
        &mut self,
        key: Key,
        index: usize,
        side: Side,
        segment: &Segment<'_>,
        out: &mut dyn Output,
    ) -> bool {
        let states = self.change(index, |flow| {
            let had_hole = flow.has_hole();
            flow.add(side, segment, out);
            (had_hole, flow.has_hole(), flow.is_elsewhere())
        });
        let Some((had_hole, has_hole, is_elsewhere)) = states else { return false };
        if has_hole {
            self.holes.insert(key);
        } else if had_hole {
            self.holes.remove(&key);
        }
        is_elsewhere
    }

    /// Changes a connection, and counts the memory that it holds afterwards.
    fn change<T>(&mut self, index: usize, change: impl FnOnce(&mut Flow) -> T) -> Option<T> {
        let flow = self.flows.at(index)?;
        let changed = change(flow);
        flow.count_memory(&mut self.held_bytes);
        Some(changed)
    }

    /// Takes the next piece of an encrypted connection, at a time in µs since 1970-01-01 UTC.
    pub fn decrypted(&mut self, ts_us: i64, piece: &Piece<'_>, out: &mut dyn Output) {
        let key = Key(piece.client, piece.server);
        if !self.is_server(piece.server) {
            return;
        }
        self.figures.decrypted_bytes += piece.bytes.len() as u64;
        let may_have = |flow: &mut Flow| flow.may_have(piece.stream);
        let found = self.flows.find(&key);
        let known = found.filter(|index| self.flows.at(*index).is_some_and(may_have));
        let index = match known {
            Some(index) => index,
            None if piece.kind == Kind::End => return,
            // Its packets do not pass the interface, or it is another one than theirs.
            None => self.begin(key, false, out),
        };
        self.change(index, |flow| flow.decrypted(ts_us, piece, out));
        self.keep_limit(ts_us, out);
    }

    /// Nothing more is decrypted: the server's process has ended.
    pub fn end_decryption(&mut self, ts_us: i64, out: &mut dyn Output) {
        for index in 0..self.flows.index_end() {
            self.change(index, |flow| flow.end_decryption(ts_us, out));
            self.keep_limit(ts_us, out);
        }
    }

    fn remove(
        &mut self,
        key: Key,
        out: &mut dyn Output,
        end: impl FnOnce(&mut Flow, &mut dyn Output),
    ) {
        if let Some(mut flow) = self.flows.remove(&key) {
            self.held_bytes -= flow.counted_bytes();
            end(&mut flow, out);
        }
        self.holes.remove(&key);
    }

    fn visit(&mut self, out: &mut dyn Output) {
        if self.now_us < self.visited_us.saturating_add(VISIT_EVERY_US) {
            return;
        }
        self.visited_us = self.now_us;
        for key in self.holes.iter().copied().collect::<Vec<_>>() {
            let Some(flow) = self.flows.get_mut(&key) else { continue };
            flow.visit(self.now_us, out);
            flow.count_memory(&mut self.held_bytes);
            if !flow.has_hole() {
                self.holes.remove(&key);
            }
            // Segments that waited may be a part of a statement now, which needs more memory.
            self.keep_limit(self.now_us, out);
        }
        if self.now_us >= self.visited_all_us.saturating_add(VISIT_ALL_EVERY_US) {
            self.visited_all_us = self.now_us;
            for flow in self.flows.values_mut() {
                flow.expect_decrypted(self.now_us, out);
                flow.count_memory(&mut self.held_bytes);
            }
            // This also gives back what other threads may need.
            self.keep_limit(self.now_us, out);
            self.allowances.connections.allows(self.flows.len());
            let over = self.flows.iter().filter(|(_, flow)| flow.is_over(self.now_us));
            for key in over.map(|(key, _)| *key).collect::<Vec<_>>() {
                self.remove(key, out, Flow::close);
            }
        }
    }

    /// No more packets will come.
    pub fn finish(&mut self, out: &mut dyn Output) {
        let mut keys =
            self.flows.iter().map(|(key, flow)| (flow.number(), *key)).collect::<Vec<_>>();
        keys.sort_unstable();
        for (_, key) in keys {
            self.remove(key, out, Flow::leave);
        }
    }
}
