//! From the bytes of a segment to messages, which may be compressed or in several segments.

use super::{Phase, Session};
use crate::mysql::frame::{self, Keep, Message};
use crate::mysql::response::Response;
use crate::mysql::{Cause, Output, Side};

impl Session {
    pub(super) fn unpack(&mut self, side: Side, bytes: &[u8], ts_us: i64, out: &mut dyn Output) {
        let mut input = bytes;
        let Some(packing) = &mut self.packing else {
            return self.messages(side, input, ts_us, out);
        };
        let algorithm = packing.algorithm;
        let mut inflater = std::mem::take(&mut packing.inflaters[side as usize]);
        loop {
            let before = inflater.arrived_bytes() + input.len() as u64;
            match inflater.next(&mut input, algorithm) {
                Ok(Some(plain)) => {
                    if side == Side::Server {
                        // The whole packet. A server sends the end of an answer in one of its own.
                        self.answer_bytes += before - input.len() as u64;
                    }
                    self.messages(side, plain, ts_us, out);
                }
                Ok(None) => break,
                Err(_) => {
                    self.lose(Cause::Protocol, inflater.arrived_bytes(), ts_us, out);
                    break;
                }
            }
            if self.is_skipping() {
                break;
            }
        }
        let goes_on = !self.is_skipping();
        if !goes_on && !input.is_empty() {
            self.skip(input.len() as u64, ts_us);
            self.not_read(side);
        }
        if let Some(packing) = self.packing.as_mut().filter(|_| goes_on) {
            packing.inflaters[side as usize] = inflater;
        }
    }

    pub(super) fn messages(&mut self, side: Side, bytes: &[u8], ts_us: i64, out: &mut dyn Output) {
        let mut input = bytes;
        let mut is_within = self.framers[side as usize].is_within();
        let mut goes_on = true;
        while goes_on && (is_within || !input.is_empty()) {
            // Most messages are in one segment, and read where they are.
            let whole = if is_within { None } else { frame::whole(&mut input) };
            goes_on = match whole {
                Some(message) => self.take_message(side, &message, ts_us, out),
                None => self.frame(side, &mut input, ts_us, out),
            };
            is_within = false;
        }
        if goes_on || input.is_empty() {
            // Everything was read.
        } else if self.is_skipping() {
            self.skip(input.len() as u64, ts_us);
            self.not_read(side);
        } else {
            // The rest of the segment is packed.
            self.unpack(side, input, ts_us, out);
        }
    }

    /// Takes bytes up to the end of a message that is in several segments, or up to that of the
    /// input. `false`: what follows has another meaning.
    fn frame(&mut self, side: Side, input: &mut &[u8], ts_us: i64, out: &mut dyn Output) -> bool {
        let mut framer = std::mem::take(&mut self.framers[side as usize]);
        framer.set_packed(self.packing.is_some());
        let message = framer.next(input, self.keep(side));
        let goes_on = message.is_none_or(|it| self.take_message(side, &it, ts_us, out));
        if goes_on {
            framer.end_message();
        } else {
            framer.reset();
        }
        let is_broken = framer.is_broken();
        self.framers[side as usize] = framer;
        if is_broken {
            // `lose` adds what has arrived, and resets the framer.
            self.lose(Cause::Protocol, std::mem::take(input).len() as u64, ts_us, out);
        }
        goes_on
    }

    /// Takes a message. `false`: what follows it in the segment has another meaning.
    fn take_message(
        &mut self,
        side: Side,
        message: &Message<'_>,
        ts_us: i64,
        out: &mut dyn Output,
    ) -> bool {
        let had_packing = self.packing.is_some();
        self.message(side, message, ts_us, out);
        !self.is_skipping() && self.packing.is_some() == had_packing
    }

    /// How much of the next message of a side is needed.
    fn keep(&self, side: Side) -> Keep<'_> {
        /// A greeting, the packets of a login.
        const LOGIN_BYTES: usize = 128 << 10;
        match (&self.phase, side) {
            (Phase::Commands, Side::Client) => self.keep_of_command(),
            (Phase::Commands, Side::Server) => {
                self.response.as_ref().map_or(Keep::First(64 << 10), Response::keep)
            }
            // An authentication response is not kept at all.
            (Phase::Login(_), Side::Client) => Keep::First(0),
            _ => Keep::First(LOGIN_BYTES),
        }
    }
}
