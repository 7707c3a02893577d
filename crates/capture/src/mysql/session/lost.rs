//! Gaps, and how a session continues after one.
//!
//! A wrong guess would be a statement that no client sent. So a command after a gap is believed
//! only if the server had the last word before it, the client's last segment before that did not
//! end within a packet, its own segment begins with it, and the server's answer has the right
//! numbers and the right form.
//!
//! Data does not pass that by chance. It is no proof against the client itself: one that pipelines
//! commands can make the data of a large statement look like commands while the server answers the
//! ones before. Hence these records say `partial`.
//!
//! Bytes of the client that were not read may have changed the user: from then on it is unknown.

use std::collections::VecDeque;

use super::{Packing, Phase, Session};
use crate::mysql::inflate::{Algorithm, Inflater};
use crate::mysql::resync::{Ends, may_be_command};
use crate::mysql::{Cause, Event, Output, Side};

impl Session {
    /// So many bytes of a side were not captured.
    pub fn gap(&mut self, side: Side, bytes: u64, ts_us: i64, out: &mut dyn Output) {
        // They were sent after the last byte that was.
        let since_us = self.last_us[side as usize].unwrap_or(ts_us).min(ts_us);
        self.begun_us[side as usize].get_or_insert(since_us);
        match self.phase {
            Phase::Over | Phase::Encrypted { .. } => self.skip(bytes, ts_us),
            Phase::Lost { ref mut is_armed } => {
                *is_armed = false;
                self.ends = Ends::default();
                self.skip(bytes, ts_us);
                self.not_read(side);
            }
            Phase::Commands
                if self.packing.is_none() && self.framers[side as usize].skip(bytes) =>
            {
                // Of the rows of a result nothing is needed but their number.
                if side == Side::Client && !self.is_trial {
                    let lost = Event::Lost { cause: Cause::TcpGap, bytes, since_us };
                    self.emit(out, ts_us, &lost);
                } else if side == Side::Client {
                    self.skip(bytes, ts_us);
                }
                self.messages(side, &[], ts_us, out);
            }
            _ => {
                self.lose(Cause::TcpGap, bytes, ts_us, out);
                self.not_read(side);
            }
        }
        self.note_begin(side);
    }

    /// Bytes of this side were not read. Those of a client may have been `COM_CHANGE_USER`.
    pub(super) fn not_read(&mut self, side: Side) {
        let is_unread = !matches!(self.phase, Phase::Over | Phase::Encrypted { .. });
        if side == Side::Client && is_unread {
            self.forget_user();
        }
    }

    /// Whose session it is now is not known: a record without a user makes the reader look for it
    /// in the `connect` line of the connection, one with a wrong user does not.
    pub(super) fn forget_user(&mut self) {
        self.who.user.clear();
        self.who.os_user.clear();
        self.user_is_unknown();
        // That of the login, which COM_RESET_CONNECTION brings back.
        self.login_charset.clear();
        self.who.is_partial = true;
    }

    /// When the first byte was sent that is not understood, µs.
    fn since_us(&self, ts_us: i64) -> i64 {
        self.begun_us.into_iter().flatten().fold(ts_us, i64::min)
    }

    /// The rest is not understood until the next command that is certain. `bytes` are those that no
    /// framer has.
    #[cold]
    pub(super) fn lose(&mut self, cause: Cause, bytes: u64, ts_us: i64, out: &mut dyn Output) {
        let is_logged_in = self.phase == Phase::Commands;
        let client_bytes = self.arrived_bytes(Side::Client);
        let bytes = bytes.saturating_add(client_bytes + self.arrived_bytes(Side::Server));
        // Otherwise what the client has sent was perhaps not understood.
        let is_client_read =
            matches!(cause, Cause::TcpGap | Cause::Memory) && client_bytes == 0 && !self.is_trial;
        if self.is_trial {
            // Nothing was believed yet: it is a part of the same gap.
            self.skip_queue();
            self.skip(bytes, ts_us);
        } else {
            let since_us = self.since_us(ts_us);
            let rest = self.record_queue(ts_us, out);
            let bytes = bytes.saturating_add(rest.bytes);
            let since_us = since_us.min(rest.since_us);
            self.emit(out, ts_us, &Event::Lost { cause, bytes, since_us });
        }
        if !is_logged_in {
            // The rest of the login is not known.
            self.caps = None;
            self.packing = None;
        }
        self.phase = Phase::Lost { is_armed: false };
        self.forget();
        self.who.is_partial = true;
        if !is_client_read {
            self.forget_user();
        }
        // They may have changed unseen, and so may what the server reports.
        self.is_untracked = true;
        self.forget_db();
        self.who.charset.clear();
    }

    /// Nothing of this connection can be read.
    pub(super) fn give_up(&mut self, cause: Cause, bytes: u64, ts_us: i64, out: &mut dyn Output) {
        let arrived = self.arrived_bytes(Side::Client) + self.arrived_bytes(Side::Server);
        let (bytes, since_us) = (bytes.saturating_add(arrived), self.since_us(ts_us));
        self.emit(out, ts_us, &Event::Lost { cause, bytes, since_us });
        self.phase = Phase::Over;
        self.skip_cause = cause;
        self.has_records = false;
        self.forget();
    }

    /// Gives up what is in memory, because others need the memory.
    pub fn shed(&mut self, ts_us: i64, out: &mut dyn Output) {
        if self.is_skipping() {
            self.forget();
        } else {
            self.lose(Cause::Memory, 0, ts_us, out);
        }
        // Also the buffers that are otherwise kept for the next message.
        self.framers = Default::default();
        self.queue = Default::default();
    }

    /// The same of a connection that may be none to a server: its loss is declared with what is
    /// skipped, when it is certain that it is one.
    pub fn shed_unsure(&mut self, ts_us: i64) {
        if self.phase == Phase::Greeting {
            self.skip(self.arrived_bytes(Side::Client), ts_us);
            self.phase = Phase::Lost { is_armed: false };
            self.who.is_partial = true;
        }
        self.forget();
    }

    /// Forgets what is in memory.
    pub fn forget(&mut self) {
        self.framers.iter_mut().for_each(|framer| framer.reset());
        if let Some(packing) = &mut self.packing {
            *packing = Packing::new(packing.algorithm);
        }
        self.queue = VecDeque::new();
        self.queue_bytes = 0;
        self.file_bytes = 0;
        self.response = None;
        self.is_trial = false;
        self.may_have_eof = false;
        self.forget_all_prepared();
        self.proxy = Vec::new();
        self.begun_us = [None; 2];
        self.ends = Ends::default();
    }

    pub(super) fn skip(&mut self, bytes: u64, ts_us: i64) {
        self.skip_since(bytes, self.since_us(ts_us));
    }

    pub(super) fn skip_since(&mut self, bytes: u64, since_us: i64) {
        let (skipped, first_us) = self.skipped;
        if bytes > 0 {
            let first_us = if skipped == 0 { since_us } else { first_us.min(since_us) };
            self.skipped = (skipped.saturating_add(bytes), first_us);
        }
    }

    /// The commands of the queue are not believed.
    fn skip_queue(&mut self) {
        while let Some(command) = self.pop() {
            self.skip_since(command.sent_bytes, command.ts_us);
        }
    }

    /// Declares the bytes that were skipped.
    pub(super) fn report_skipped(&mut self, ts_us: i64, out: &mut dyn Output) {
        let (bytes, since_us) = std::mem::take(&mut self.skipped);
        if bytes > 0 {
            let cause = self.skip_cause;
            // A connection that is not read has no end either.
            self.has_records |= self.phase != Phase::Over;
            out.emit(&self.who, ts_us, &Event::Lost { cause, bytes, since_us });
        }
    }

    /// The connection ends, or is no longer followed: declares what has no record.
    pub(super) fn declare_rest(&mut self, ts_us: i64, out: &mut dyn Output) {
        let (mut bytes, mut since_us) = (self.arrived_bytes(Side::Client), self.since_us(ts_us));
        match self.phase {
            Phase::Encrypted { since_us } => self.give_up_tls(since_us, ts_us, out),
            Phase::Commands if self.is_trial => {
                self.skip_queue();
                self.skip(bytes, ts_us);
            }
            Phase::Commands => {
                let rest = self.record_queue(ts_us, out);
                bytes = bytes.saturating_add(rest.bytes);
                since_us = since_us.min(rest.since_us);
                if bytes > 0 {
                    let cause = Cause::Unanswered;
                    self.emit(out, ts_us, &Event::Lost { cause, bytes, since_us });
                }
            }
            Phase::Login(_) => {
                let (cause, sent_us) = (Cause::Unanswered, self.last_us[Side::Client as usize]);
                let since_us = sent_us.map_or(since_us, |it| it.min(since_us));
                out.emit(&self.who, ts_us, &Event::Lost { cause, bytes: 0, since_us });
            }
            _ => {}
        }
        self.report_skipped(ts_us, out);
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
        let is_armed = side == Side::Server && self.ends.may_be_at_end(self.is_packed());
        self.phase = Phase::Lost { is_armed };
        match side {
            Side::Client => self.ends.add(bytes),
            // From here on it is not known again, unless a packet begins here.
            Side::Server => self.ends = Ends::default(),
        }
        self.skip(bytes.len() as u64, ts_us);
        self.not_read(side);
    }

    /// Whether packets are compressed. `None`: that is not known.
    fn is_packed(&self) -> Option<bool> {
        self.caps.map(|_| self.packing.is_some())
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
