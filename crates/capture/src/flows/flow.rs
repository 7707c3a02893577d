//! One connection: its two directions in the order in which they happened.

use std::collections::VecDeque;
use std::net::SocketAddr;

use crate::link::Segment;
use crate::mysql::session::Session;
use crate::mysql::{Identity, Limits, Output, Side};
use crate::tcp::half::{Half, Piece};

/// Longest wait for missing bytes, µs: packets may be captured out of order.
const WAIT_US: i64 = 200_000;
/// Segments that wait for the other direction.
const HELD_MAX: usize = 256;
/// Bytes that wait in one connection.
const WAITING_BYTES_MAX: usize = 4 << 20;
/// How long a connection that has ended is remembered: late segments of it are no new one, µs.
const ENDED_US: i64 = 10_000_000;
/// How long a connection without any data is remembered, µs.
const SILENT_US: i64 = 60_000_000;

/// A segment that waits: the other side has sent something before it that is missing.
struct Held {
    side: Side,
    ts_us: i64,
    seq: u32,
    bytes: Vec<u8>,
    missing: u32,
    /// Its sender has everything of the other side before this offset.
    needs: u64,
}

/// Whether it is one to a MySQL server.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sort {
    /// Not known yet.
    Unknown,
    MySql,
    Other,
}

/// One connection, see the module documentation.
pub struct Flow {
    number: u32,
    sort: Sort,
    session: Session,
    halves: [Half; 2],
    /// Sequence number of the client's first segment.
    first_seq: Option<u32>,
    held: VecDeque<Held>,
    held_bytes: usize,
    fins: [bool; 2],
    is_closed: bool,
    has_data: bool,
    hole_since_us: Option<i64>,
    last_us: i64,
}

impl Flow {
    /// `is_whole`: its first packet was captured. `is_sure`: it is one to a server.
    pub fn new(
        (client, server): (SocketAddr, SocketAddr),
        number: u32,
        is_whole: bool,
        is_sure: bool,
        limits: Limits,
    ) -> Flow {
        let who = Identity {
            number,
            ip: client.ip().to_canonical().to_string(),
            port: client.port(),
            server_addr: SocketAddr::new(server.ip().to_canonical(), server.port()).to_string(),
            ..Identity::default()
        };
        Flow {
            number,
            sort: if is_sure { Sort::MySql } else { Sort::Unknown },
            session: Session::new(who, !is_whole, limits),
            halves: Default::default(),
            first_seq: None,
            held: VecDeque::new(),
            held_bytes: 0,
            fins: [false; 2],
            is_closed: false,
            has_data: false,
            hole_since_us: None,
            last_us: i64::MIN,
        }
    }

    /// The capture's own number of it.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// When its last segment was captured, µs.
    pub fn last_us(&self) -> i64 {
        self.last_us
    }

    /// Whether its first segment has this sequence number.
    pub fn begins_with(&self, seq: u32) -> bool {
        self.first_seq == Some(seq)
    }

    /// Memory that it holds, bytes.
    pub fn held_bytes(&self) -> usize {
        self.waiting_bytes() + self.session.held_bytes()
    }

    fn waiting_bytes(&self) -> usize {
        self.held_bytes + self.halves.iter().map(Half::waiting_bytes).sum::<usize>()
    }

    /// Whether bytes are missing.
    pub fn has_hole(&self) -> bool {
        self.hole_since_us.is_some()
    }

    /// Whether it can be forgotten.
    pub fn is_over(&self, now_us: i64) -> bool {
        let idle_us = now_us.saturating_sub(self.last_us);
        (self.is_closed && idle_us > ENDED_US) || (!self.has_data && idle_us > SILENT_US)
    }

    /// Takes the next segment.
    pub fn add(&mut self, side: Side, segment: &Segment<'_>, out: &mut dyn Output) {
        self.last_us = self.last_us.max(segment.ts_us);
        if self.is_closed || self.sort == Sort::Other {
            return;
        }
        let mut seq = segment.seq;
        if segment.syn {
            seq = seq.wrapping_add(1);
            if side == Side::Client {
                self.first_seq = Some(segment.seq);
            }
            if !self.halves[side as usize].is_known() {
                self.halves[side as usize].begin(seq);
            }
        }
        let mut needs = 0;
        if let Some(ack) = segment.ack {
            let other = &mut self.halves[side.other() as usize];
            // A segment without SYN: the connection was joined in its middle.
            if !other.is_known() {
                other.begin(ack);
            }
            needs = other.acknowledge(ack);
        }
        if segment.rst {
            return self.close(out);
        }
        if segment.fin {
            let bytes = segment.payload.len() as u32;
            let end = seq.wrapping_add(bytes).wrapping_add(segment.missing);
            self.halves[side as usize].end_at(end);
        }
        if !segment.payload.is_empty() || segment.missing > 0 {
            self.has_data = true;
            let held = Held {
                side,
                ts_us: segment.ts_us,
                seq,
                bytes: Vec::new(),
                missing: segment.missing,
                needs,
            };
            self.take(held, segment.payload, out);
        }
        self.fins[side as usize] |= segment.fin;
        self.settle(segment.ts_us, out);
    }

    /// Delivers a segment, or holds it until the other side is complete up to it.
    fn take(&mut self, segment: Held, bytes: &[u8], out: &mut dyn Output) {
        if self.halves[segment.side.other() as usize].next() < segment.needs {
            self.held_bytes += bytes.len();
            self.held.push_back(Held { bytes: bytes.to_vec(), ..segment });
            return;
        }
        self.deliver(&segment, bytes, out);
        self.release(out);
    }

    /// Delivers held segments, as long as nothing is missing before them.
    fn release(&mut self, out: &mut dyn Output) {
        while let Some(next) = self.held.front() {
            if self.halves[next.side.other() as usize].next() < next.needs {
                return;
            }
            self.release_one(out);
        }
    }

    fn release_one(&mut self, out: &mut dyn Output) {
        if let Some(next) = self.held.pop_front() {
            self.held_bytes -= next.bytes.len();
            self.deliver(&next, &next.bytes, out);
        }
    }

    fn deliver(&mut self, segment: &Held, bytes: &[u8], out: &mut dyn Output) {
        let Held { side, ts_us, seq, missing, .. } = *segment;
        let Flow { halves, session, sort, .. } = self;
        halves[side as usize].add(seq, bytes, missing, &mut |piece| {
            pass(session, sort, side, piece, ts_us, out);
        });
    }

    /// Looks whether bytes are missing, or everything is complete.
    fn settle(&mut self, now_us: i64, out: &mut dyn Output) {
        let is_missing = !self.held.is_empty() || self.halves.iter().any(Half::has_hole);
        if !is_missing {
            self.hole_since_us = None;
            if self.fins == [true; 2] {
                self.close(out);
            }
            return;
        }
        let since_us = *self.hole_since_us.get_or_insert(now_us);
        let is_full = self.held.len() > HELD_MAX || self.waiting_bytes() > WAITING_BYTES_MAX;
        if is_full || now_us.saturating_sub(since_us) > WAIT_US {
            self.give_up_holes(now_us, out);
            if self.fins == [true; 2] {
                self.close(out);
            }
        }
    }

    /// Missing bytes become gaps.
    fn give_up_holes(&mut self, now_us: i64, out: &mut dyn Output) {
        self.hole_since_us = None;
        while let Some(first) = self.held.front() {
            let side = first.side.other();
            let half = &self.halves[side as usize];
            // Bytes that wait themselves are not missing.
            let waiting = self.held.iter().filter(|held| held.side == side);
            let waiting = waiting.map(|held| half.offset(held.seq)).filter(|at| *at >= half.next());
            let end = waiting.min().unwrap_or(u64::MAX).min(first.needs);
            let Flow { halves, session, sort, .. } = self;
            let is_given_up = halves[side as usize].give_up_one(end, &mut |piece| {
                pass(session, sort, side, piece, now_us, out);
            });
            if !is_given_up {
                self.release_one(out);
            }
            self.release(out);
        }
        let Flow { halves, session, sort, .. } = self;
        for side in [Side::Client, Side::Server] {
            halves[side as usize].give_up_hole(&mut |piece| {
                pass(session, sort, side, piece, now_us, out);
            });
        }
    }

    /// The clock of the packets has gone on.
    pub fn visit(&mut self, now_us: i64, out: &mut dyn Output) {
        if !self.is_closed {
            self.settle(now_us, out);
        }
    }

    /// Gives up what is in memory.
    pub fn shed(&mut self, now_us: i64, out: &mut dyn Output) {
        self.give_up_holes(now_us, out);
        if self.sort == Sort::MySql {
            self.session.shed(now_us, out);
        }
    }

    /// It has ended.
    pub fn close(&mut self, out: &mut dyn Output) {
        if self.is_closed {
            return;
        }
        self.give_up_holes(self.last_us, out);
        self.is_closed = true;
        if self.sort == Sort::MySql {
            self.session.close(self.last_us, out);
        }
    }

    /// The capture stops following it.
    pub fn leave(&mut self, out: &mut dyn Output) {
        if self.is_closed {
            return;
        }
        self.give_up_holes(self.last_us, out);
        self.is_closed = true;
        if self.sort == Sort::MySql {
            self.session.leave(self.last_us, out);
        }
    }
}

/// Passes a piece to the session, as soon as it is certain that it is one of MySQL.
fn pass(
    session: &mut Session,
    sort: &mut Sort,
    side: Side,
    piece: Piece<'_>,
    ts_us: i64,
    out: &mut dyn Output,
) {
    if *sort == Sort::Unknown {
        *sort = match (side, piece) {
            (Side::Server, Piece::Bytes([_, _, _, 0, 10, ..])) => Sort::MySql,
            (Side::Client, Piece::Bytes([b'P', b'R', b'O', b'X', ..] | [b'\r', b'\n', ..])) => {
                Sort::Unknown
            }
            _ => Sort::Other,
        };
    }
    match (*sort, piece) {
        (Sort::Other, _) => {}
        // A PROXY header: nothing is recorded of it.
        (_, Piece::Bytes(bytes)) => session.data(side, bytes, ts_us, out),
        (_, Piece::Gap(bytes)) => session.gap(side, bytes, ts_us, out),
    }
}
