//! Which segments belong to a connection.
//!
//! Its client can send any segment, also such as the server discards. So no single segment of a
//! client ends it: a RST must have the number that is expected, a SYN needs the server's answer,
//! and a connection that continues after its end is followed again.

use super::{End, Flow, Sort};
use crate::flows::Key;
use crate::link::Segment;
use crate::mysql::{Limits, Output, Side};

/// What a segment is, by its numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Belongs {
    /// It belongs to this connection, or to none.
    Here,
    /// It begins another connection between the same ports.
    Begins,
    /// It belongs to a connection whose beginning was not captured.
    Joins,
}

impl Flow {
    /// Whether a segment belongs to it.
    pub fn belongs(&mut self, side: Side, segment: &Segment<'_>) -> Belongs {
        if segment.syn {
            return self.belongs_syn(side, segment);
        }
        let bytes = segment.payload.len() as u64 + u64::from(segment.missing);
        let goes_on = match self.end {
            None => false,
            Some(End::Closed) => true,
            Some(End::Reset(by)) => by == side,
        };
        let is_news = bytes > 0 && self.halves[side as usize].is_news(segment.seq, bytes);
        // A connection that the server has not accepted has no data: its SYN is not the one.
        let is_other = if self.is_asked { bytes > 0 } else { goes_on && is_news };
        if is_other { Belongs::Joins } else { Belongs::Here }
    }

    fn belongs_syn(&mut self, side: Side, segment: &Segment<'_>) -> Belongs {
        match (side, segment.ack) {
            (Side::Client, _) => self.has_other_syn |= self.first_seq != Some(segment.seq),
            // The server accepts a connection, and says which.
            (Side::Server, Some(ack)) => {
                let is_same = self.first_seq == Some(ack.wrapping_sub(1));
                let is_other = !is_same && (self.has_other_syn || self.is_asked);
                if is_other || (self.end.is_some() && (!is_same || self.is_asked)) {
                    return Belongs::Begins;
                }
            }
            (Side::Server, None) => {}
        }
        Belongs::Here
    }

    /// The rest of a connection that continues after its end, or elsewhere: its bytes are counted
    /// from where they ended, if that is known.
    pub fn rejoined(&mut self, key: Key, number: u32, limits: Limits) -> Flow {
        let mut flow = Flow::new(key, number, false, self.is_to_server(), limits);
        flow.take_over(self);
        for (half, end) in flow.halves.iter_mut().zip(self.ends) {
            if let Some(seq) = end {
                half.begin(seq);
            }
        }
        flow
    }

    /// Whether its segments have left the numbers that are possible.
    pub fn is_elsewhere(&self) -> bool {
        self.end.is_none() && self.halves.iter().any(|half| half.elsewhere().is_some())
    }

    /// It is followed no more, although it continues: there are too many, or it is elsewhere.
    pub fn abandon(&mut self, out: &mut dyn Output) {
        let is_open = self.end.is_none() && self.sort == Sort::MySql;
        if is_open && let Some((side, bytes)) = self.jump() {
            self.session.gap(side, bytes, self.last_us, out);
        } else if is_open && self.has_data {
            self.session.shed(self.last_us, out);
        }
        self.close(out);
    }

    /// The side that is elsewhere, and how many bytes it has sent since; numbers may have gone
    /// round, so it may be more.
    fn jump(&self) -> Option<(Side, u64)> {
        [Side::Client, Side::Server].into_iter().find_map(|side| {
            let half = &self.halves[side as usize];
            let bytes = half.elsewhere()?.wrapping_sub(half.next_seq()?);
            Some((side, bytes.into()))
        })
    }
}
