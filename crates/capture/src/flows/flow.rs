//! One connection: its two directions in the order in which they happened.

mod belongs;
mod decrypted;
mod memory;
mod unknown;

use std::collections::VecDeque;
use std::net::SocketAddr;

use super::Key;
use crate::link::Segment;
use crate::mysql::session::Session;
use crate::mysql::{Identity, Limits, Output, Side};
use crate::tcp::half::{Half, Piece};
pub use belongs::Belongs;
use decrypted::Stream;

/// Longest wait for missing bytes, µs: packets may be captured out of order.
const WAIT_US: i64 = 200_000;
/// Longest wait for a sign that bytes are missing at all, µs: they may be sent again.
const DOUBT_US: i64 = 30_000_000;
/// Segments that wait for the other direction.
const HELD_MAX: usize = 256;
/// Bytes that wait in one connection.
const WAITING_BYTES_MAX: usize = 4 << 20;
/// How long a connection that has ended is remembered: late segments of it are no new one, µs.
const ENDED_US: i64 = 10_000_000;
/// How long a connection is remembered that has no data, or a RST that is not certain, µs.
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
    /// It is one, and its bytes come from the server's TLS library: those of packets are not read.
    Decrypted,
}

/// How a connection has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// By both sides, or the capture stops following it.
    Closed,
    /// By a RST of this side. Data of the other one may still be on its way.
    Reset(Side),
}

/// One connection, see the module documentation.
pub struct Flow {
    number: u32,
    sort: Sort,
    session: Session,
    stream: Stream,
    halves: [Half; 2],
    /// Sequence number of the client's first segment.
    first_seq: Option<u32>,
    held: VecDeque<Held>,
    /// Bytes of these segments.
    held_bytes: usize,
    /// Its part of the memory of all connections, as it was counted last.
    counted_bytes: usize,
    end: Option<End>,
    /// A RST that did not have the number that was expected: bytes before it may be missing.
    reset: Option<(Side, u32)>,
    /// Sequence numbers of the next bytes when it ended, if they were of this connection.
    ends: [Option<u32>; 2],
    /// It began with a SYN, and the server has not accepted it yet.
    is_asked: bool,
    /// Its client has sent the SYN of another connection.
    has_other_syn: bool,
    has_data: bool,
    hole_since_us: Option<i64>,
    last_us: i64,
}

impl Flow {
    /// `is_whole`: its first packet was captured. `is_sure`: it is one to a server.
    pub fn new(
        Key(client, server): Key,
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
            stream: Stream::default(),
            halves: Default::default(),
            first_seq: None,
            held: VecDeque::new(),
            held_bytes: 0,
            counted_bytes: 0,
            end: None,
            reset: None,
            ends: [None; 2],
            is_asked: is_whole,
            has_other_syn: false,
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

    /// Whether it is certain that it is one to a server.
    pub fn is_to_server(&self) -> bool {
        matches!(self.sort, Sort::MySql | Sort::Decrypted)
    }

    /// Whether there was any data.
    pub fn has_data(&self) -> bool {
        self.has_data
    }

    /// Whether bytes are missing.
    pub fn has_hole(&self) -> bool {
        self.hole_since_us.is_some()
    }

    /// Whether it can be forgotten.
    pub fn is_over(&self, now_us: i64) -> bool {
        let idle_us = now_us.saturating_sub(self.last_us);
        let is_silent = !self.has_data || self.reset.is_some();
        (self.end.is_some() && idle_us > ENDED_US)
            || (is_silent && idle_us > SILENT_US)
            || self.is_stream_over(idle_us)
    }

    /// Takes the next segment.
    pub fn add(&mut self, side: Side, segment: &Segment<'_>, out: &mut dyn Output) {
        // After the end the clock stands still: late segments do not keep it.
        if self.end.is_some() {
            return;
        }
        self.last_us = self.last_us.max(segment.ts_us);
        if self.sort == Sort::Other {
            if segment.fin || segment.rst {
                self.end = Some(End::Closed);
            }
            return;
        }
        let mut seq = segment.seq;
        if segment.syn {
            seq = seq.wrapping_add(1);
            if !self.open(side, seq, segment) {
                return;
            }
        }
        if !self.halves[side as usize].is_known() && !self.join(side, segment, out) {
            return;
        }
        if segment.rst {
            return self.reset(side, segment, out);
        }
        // Its sender has not ended it.
        self.reset.take_if(|(by, seq)| *by == side && *seq != segment.seq);
        let needs = self.count(side, seq, segment);
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
        self.settle(segment.ts_us, out);
    }

    /// Takes the numbers of a SYN. `false`: it is not the one of this connection.
    fn open(&mut self, side: Side, seq: u32, segment: &Segment<'_>) -> bool {
        let first_seq = match side {
            Side::Client => Some(segment.seq),
            Side::Server => segment.ack.map(|ack| ack.wrapping_sub(1)),
        };
        self.first_seq = self.first_seq.or(first_seq);
        let half = &mut self.halves[side as usize];
        // A SYN in the middle of a connection says nothing.
        if !half.is_known() && (side == Side::Server || self.is_asked) {
            half.begin(seq);
        }
        self.is_asked &= side == Side::Client || first_seq != self.first_seq;
        half.is_at(seq)
    }

    /// The first segment of a side whose beginning was not captured. Only the server says where
    /// both are: what it sends is not the client's choice. `false`: that is still unknown.
    fn join(&mut self, side: Side, segment: &Segment<'_>, out: &mut dyn Output) -> bool {
        if side == Side::Server && !segment.rst {
            self.halves[side as usize].begin(segment.seq);
            return true;
        }
        let bytes = segment.payload.len() as u64 + u64::from(segment.missing);
        if bytes > 0 {
            self.has_data = true;
            let Flow { session, sort, .. } = self;
            pass(session, sort, side, Piece::Gap(bytes), segment.ts_us, out);
        }
        segment.rst
    }

    /// Notes what the numbers of a segment say. Returns the offset of the other side before which
    /// its sender has everything.
    fn count(&mut self, side: Side, seq: u32, segment: &Segment<'_>) -> u64 {
        let bytes = segment.payload.len() as u32;
        let end = seq.wrapping_add(bytes).wrapping_add(segment.missing);
        let half = &mut self.halves[side as usize];
        half.sends(end);
        if segment.fin {
            half.end_at(end);
        }
        let Some(ack) = segment.ack else { return 0 };
        let other = &mut self.halves[side.other() as usize];
        if !other.is_known() && side == Side::Server {
            other.begin(ack);
        }
        other.acknowledge(ack)
    }

    /// A RST: its receiver believes it only if it has the number that is expected.
    fn reset(&mut self, side: Side, segment: &Segment<'_>, out: &mut dyn Output) {
        let half = &self.halves[side as usize];
        let is_believed = if half.is_known() {
            half.is_at(segment.seq)
        } else {
            // The server refuses the connection.
            let other = &self.halves[side.other() as usize];
            segment.ack.is_some() && segment.ack == other.next_seq()
        };
        if is_believed {
            self.close_as(End::Reset(side), out);
        } else {
            self.reset = Some((side, segment.seq));
        }
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

    /// Delivers held segments if nothing is missing before them.
    fn release(&mut self, out: &mut dyn Output) {
        while let Some(index) = self.held.iter().position(|it| {
            let other = &self.halves[it.side.other() as usize];
            other.next() >= it.needs
        }) {
            self.release_one(index, out);
        }
    }

    fn release_one(&mut self, index: usize, out: &mut dyn Output) {
        if let Some(next) = self.held.remove(index) {
            self.held_bytes -= next.bytes.len();
            if self.held.is_empty() {
                // Its memory would stay with each connection for ever.
                self.held = VecDeque::new();
            }
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
        let is_ended = self.halves.iter().all(Half::has_end);
        if !self.is_waiting() {
            self.hole_since_us = None;
            match self.reset.filter(|(side, seq)| self.halves[*side as usize].is_at(*seq)) {
                Some((side, _)) => self.close_as(End::Reset(side), out),
                None if is_ended => self.close_as(End::Closed, out),
                None => {}
            }
            return;
        }
        let since_us = *self.hole_since_us.get_or_insert(now_us);
        let waited_us = now_us.saturating_sub(since_us);
        let is_full = self.held.len() > HELD_MAX || self.waiting_bytes() > WAITING_BYTES_MAX;
        if !is_full && waited_us <= WAIT_US {
            return;
        }
        if is_ended {
            return self.close_as(End::Closed, out);
        }
        if self.give_up_certain(now_us, out) {
            self.hole_since_us = None;
            return self.settle(now_us, out);
        }
        let is_full = self.held.len() > HELD_MAX || self.waiting_bytes() > WAITING_BYTES_MAX;
        if is_full || waited_us > DOUBT_US {
            // Nothing but these segments says that anything is missing before them. If there is,
            // the other side will say so.
            self.held = VecDeque::new();
            self.held_bytes = 0;
            self.halves.iter_mut().for_each(Half::drop_early);
            self.hole_since_us = None;
        }
    }

    fn is_waiting(&self) -> bool {
        let is_ended = self.halves.iter().all(Half::has_end);
        let waits = |half: &Half| half.has_hole() || (is_ended && half.lacks_end());
        !self.held.is_empty() || self.halves.iter().any(waits)
    }

    /// Bytes that are certainly missing become gaps. `false`: there are none.
    fn give_up_certain(&mut self, now_us: i64, out: &mut dyn Output) -> bool {
        let mut has_given_up = false;
        for side in [Side::Client, Side::Server] {
            loop {
                let end = self.end_of_gap(side);
                let Flow { halves, session, sort, .. } = self;
                let is_given_up = halves[side as usize].give_up_certain(end, &mut |piece| {
                    pass(session, sort, side, piece, now_us, out);
                });
                if !is_given_up {
                    break;
                }
                has_given_up = true;
                self.release(out);
            }
        }
        has_given_up
    }

    /// The gap of a side ends where one of its segments waits itself, or where the first segment
    /// that waits for it needs it to be.
    fn end_of_gap(&self, side: Side) -> u64 {
        let half = &self.halves[side as usize];
        let own = self.held.iter().filter(|held| held.side == side);
        let own = own.map(|held| half.offset(held.seq)).filter(|at| *at >= half.next());
        let others = self.held.iter().filter(|held| held.side != side).map(|held| held.needs);
        let others = others.filter(|needs| *needs > half.next());
        own.chain(others).min().unwrap_or(u64::MAX)
    }

    /// All missing bytes become gaps: nothing more will come.
    fn give_up_all(&mut self, now_us: i64, out: &mut dyn Output) {
        self.hole_since_us = None;
        while let Some(first) = self.held.front() {
            let side = first.side.other();
            let end = self.end_of_gap(side).min(first.needs);
            let Flow { halves, session, sort, .. } = self;
            let is_given_up = halves[side as usize].give_up_to(end, &mut |piece| {
                pass(session, sort, side, piece, now_us, out);
            });
            if !is_given_up {
                self.release_one(0, out);
            }
            self.release(out);
        }
        for side in [Side::Client, Side::Server] {
            let Flow { halves, session, sort, .. } = self;
            halves[side as usize].give_up_all(&mut |piece| {
                pass(session, sort, side, piece, now_us, out);
            });
        }
    }

    /// The clock of the packets has advanced.
    pub fn visit(&mut self, now_us: i64, out: &mut dyn Output) {
        if self.end.is_none() {
            self.settle(now_us, out);
        }
    }

    /// It has ended.
    pub fn close(&mut self, out: &mut dyn Output) {
        self.close_as(End::Closed, out);
        self.end_stream(self.last_us, out);
    }

    fn close_as(&mut self, end: End, out: &mut dyn Output) {
        if self.end.is_some() {
            return;
        }
        self.give_up_certain(self.last_us, out);
        for (end, half) in self.ends.iter_mut().zip(&self.halves) {
            let is_known = !self.is_asked && half.elsewhere().is_none();
            *end = half.next_seq().filter(|_| is_known);
        }
        self.give_up_all(self.last_us, out);
        self.end = Some(end);
        if self.sort == Sort::MySql {
            self.session.close(self.last_us, out);
        }
    }

    /// The capture ends.
    pub fn leave(&mut self, out: &mut dyn Output) {
        let is_stream_open = self.is_stream_open();
        if self.end.is_some() && !is_stream_open {
            return;
        }
        self.give_up_all(self.last_us, out);
        self.end = Some(End::Closed);
        if self.sort == Sort::MySql || is_stream_open {
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
        if *sort == Sort::Other {
            session.forget();
        }
    }
    match (*sort, piece) {
        (Sort::Other | Sort::Decrypted, _) => {}
        // A PROXY header: nothing is recorded of it.
        (_, Piece::Bytes(bytes)) => session.data(side, bytes, ts_us, out),
        (_, Piece::Gap(bytes)) => session.gap(side, bytes, ts_us, out),
    }
}
