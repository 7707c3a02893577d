//! Gaps, and how a session continues after one.
//!
//! A wrong guess would be a statement that no client sent. So a command after a gap is believed
//! only if the server had the last word before it, its segment begins with it, and the server's
//! answer has the right numbers and the right form. A part of a large statement cannot pass that:
//! while it is sent, the server is silent.

use super::{Packing, Phase, Prepared, Session};
use crate::mysql::inflate::{Algorithm, Inflater};
use crate::mysql::resync::may_be_command;
use crate::mysql::{Cause, Event, Output, Side};

impl Session {
    /// So many bytes of a side were not captured.
    pub fn gap(&mut self, side: Side, bytes: u64, ts_us: i64, out: &mut dyn Output) {
        match self.phase {
            Phase::Over => {}
            Phase::Lost { ref mut is_armed } => {
                *is_armed = false;
                self.skip(bytes, ts_us);
            }
            Phase::Commands
                if self.packing.is_none() && self.framers[side as usize].skip(bytes) =>
            {
                // Of the rows of a result nothing is needed but their number.
                if side == Side::Client {
                    let lost = Event::Lost { cause: Cause::TcpGap, bytes, since_us: ts_us };
                    self.emit(out, ts_us, &lost);
                }
                self.messages(side, &[], ts_us, out);
            }
            _ => self.lose(Cause::TcpGap, bytes, ts_us, out),
        }
    }

    /// The rest is not understood until the next command that is certain.
    pub(super) fn lose(&mut self, cause: Cause, bytes: u64, ts_us: i64, out: &mut dyn Output) {
        let is_logged_in = self.phase == Phase::Commands;
        let lost = Event::Lost { cause, bytes, since_us: ts_us };
        if self.is_trial {
            // Nothing was believed yet: it is a part of the same gap.
            self.skip(bytes, ts_us);
        } else {
            self.emit(out, ts_us, &lost);
        }
        if !is_logged_in {
            // The rest of the login is not known.
            self.caps = None;
            self.packing = None;
        }
        self.phase = Phase::Lost { is_armed: false };
        self.forget();
        self.who.is_partial = true;
        // They may have changed unseen.
        self.who.db.clear();
        self.who.charset.clear();
    }

    /// Nothing of this connection can be read.
    pub(super) fn give_up(&mut self, cause: Cause, bytes: u64, ts_us: i64, out: &mut dyn Output) {
        self.emit(out, ts_us, &Event::Lost { cause, bytes, since_us: ts_us });
        self.phase = Phase::Over;
        self.has_records = false;
        self.forget();
    }

    /// Gives up what is in memory, because others need the memory.
    pub fn shed(&mut self, ts_us: i64, out: &mut dyn Output) {
        if matches!(self.phase, Phase::Over | Phase::Lost { .. }) {
            self.forget();
        } else {
            let bytes = self.framers.iter().map(|framer| framer.arrived_bytes()).sum();
            self.lose(Cause::Memory, bytes, ts_us, out);
        }
    }

    pub(super) fn forget(&mut self) {
        self.framers.iter_mut().for_each(|framer| framer.reset());
        if let Some(packing) = &mut self.packing {
            *packing = Packing::new(packing.algorithm);
        }
        self.queue.clear();
        self.queue_bytes = 0;
        self.response = None;
        self.is_trial = false;
        self.may_have_eof = false;
        self.prepared = Prepared::default();
        self.proxy = Vec::new();
    }

    pub(super) fn skip(&mut self, bytes: u64, ts_us: i64) {
        if self.skipped.0 == 0 {
            self.skipped.1 = ts_us;
        }
        self.skipped.0 += bytes;
    }

    /// Declares the bytes that were skipped since the gap.
    pub(super) fn report_skipped(&mut self, ts_us: i64, out: &mut dyn Output) {
        let (bytes, since_us) = std::mem::take(&mut self.skipped);
        if bytes > 0 {
            self.emit(out, ts_us, &Event::Lost { cause: Cause::Resync, bytes, since_us });
        }
    }

    pub(super) fn look_for_command(
        &mut self,
        side: Side,
        bytes: &[u8],
        ts_us: i64,
        out: &mut dyn Output,
    ) {
        let Phase::Lost { is_armed } = self.phase else { return };
        let may_begin = side == Side::Client && is_armed;
        if may_begin && self.begins_command(bytes) {
            self.phase = Phase::Commands;
            self.is_trial = true;
            return self.unpack(side, bytes, ts_us, out);
        }
        self.phase = Phase::Lost { is_armed: side == Side::Server };
        self.skip(bytes.len() as u64, ts_us);
    }

    /// Whether a segment may begin with a command; finds out whether it is packed if that is not
    /// known.
    fn begins_command(&mut self, bytes: &[u8]) -> bool {
        let unpacked = |algorithm| {
            let mut inflater = Inflater::default();
            let plain = inflater.next(&mut &bytes[..], algorithm);
            plain.ok().flatten().is_some_and(may_be_command)
        };
        if self.caps.is_some() {
            return match &self.packing {
                Some(packing) => unpacked(packing.algorithm),
                None => may_be_command(bytes),
            };
        }
        self.packing = None;
        if may_be_command(bytes) {
            return true;
        }
        // The sequence number of a packed command.
        if bytes.get(3) != Some(&0) {
            return false;
        }
        let found = [Algorithm::Zlib, Algorithm::Zstd].into_iter().find(|it| unpacked(*it));
        self.packing = found.map(Packing::new);
        found.is_some()
    }
}
