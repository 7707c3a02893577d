//! Connections whose bytes come from the server's TLS library instead of from packets.
//!
//! Its packets still say when the connection ends. But the server may read what has arrived after
//! that, so the session ends with its TLS session, or when the connection is forgotten.

use tacho_uprobes::{Kind, Piece};

use super::{ENDED_US, Flow, Sort};
use crate::mysql::{Output, Side};

/// Servers read the header of a packet alone: 4 bytes, or 7 if it is compressed.
const HEAD_BYTES_MAX: usize = 7;

/// The TLS session of a connection.
#[derive(Default)]
pub(super) struct Stream {
    id: u64,
    /// Bytes before the next one, in each direction.
    next: [u64; 2],
    /// The header of a packet, during the search for a command: that is looked for in a header and
    /// what follows.
    head: Vec<u8>,
    head_us: i64,
    has_ended: bool,
}

impl Flow {
    /// Whether its bytes are decrypted.
    pub fn is_decrypted(&self) -> bool {
        self.sort == Sort::Decrypted
    }

    /// Whether a TLS session may be that of this connection.
    pub fn may_have(&self, stream: u64) -> bool {
        if self.is_decrypted() { self.stream.id == stream } else { self.end.is_none() }
    }

    /// Its TLS session has not ended.
    pub(super) fn is_stream_open(&self) -> bool {
        self.is_decrypted() && !self.stream.has_ended
    }

    /// Its TLS session has ended, and it was silent since.
    pub(super) fn is_stream_over(&self, idle_us: i64) -> bool {
        self.is_decrypted() && self.stream.has_ended && idle_us > ENDED_US
    }

    /// Takes the next piece of its TLS session.
    pub fn decrypted(&mut self, ts_us: i64, piece: &Piece<'_>, out: &mut dyn Output) {
        self.last_us = self.last_us.max(ts_us);
        let side = match piece.kind {
            Kind::FromClient => Side::Client,
            Kind::ToClient => Side::Server,
            Kind::End => return self.end_stream(ts_us, out),
        };
        if !self.is_decrypted() {
            self.session.decrypt(ts_us, out);
            self.sort = Sort::Decrypted;
            self.has_data = true;
            self.stream = Stream { id: piece.stream, ..Stream::default() };
        }
        let missing = piece.offset.saturating_sub(self.stream.next[side as usize]);
        self.stream.next[side as usize] = piece.offset + piece.bytes.len() as u64;
        let is_first_of_two = side == Side::Client
            && piece.bytes.len() <= HEAD_BYTES_MAX
            && self.session.is_searching();
        if missing > 0 {
            self.pass_head(out);
            self.session.gap(side, missing, ts_us, out);
        }
        if is_first_of_two {
            self.pass_head(out);
            self.stream.head.extend_from_slice(piece.bytes);
            self.stream.head_us = ts_us;
        } else if side == Side::Client && !self.stream.head.is_empty() {
            let mut bytes = std::mem::take(&mut self.stream.head);
            bytes.extend_from_slice(piece.bytes);
            self.session.data(side, &bytes, ts_us, out);
        } else {
            self.pass_head(out);
            self.session.data(side, piece.bytes, ts_us, out);
        }
    }

    /// Nothing follows the header: it is passed as it is.
    fn pass_head(&mut self, out: &mut dyn Output) {
        if !self.stream.head.is_empty() {
            let bytes = std::mem::take(&mut self.stream.head);
            self.session.data(Side::Client, &bytes, self.stream.head_us, out);
        }
    }

    /// Ends the session, if it is decrypted and has not ended.
    pub(super) fn end_stream(&mut self, ts_us: i64, out: &mut dyn Output) {
        if self.is_stream_open() {
            self.pass_head(out);
            self.stream.has_ended = true;
            self.session.close(ts_us, out);
        }
    }

    /// Nothing more of it is decrypted: the server's process has ended.
    pub fn end_decryption(&mut self, ts_us: i64, out: &mut dyn Output) {
        self.end_stream(ts_us, out);
    }

    /// Declares it if nothing of it is decrypted in time.
    pub fn expect_decrypted(&mut self, now_us: i64, out: &mut dyn Output) {
        self.session.expect_decrypted(now_us, out);
    }

    /// Goes on with the session of a flow whose segments are elsewhere: they carry nothing of it.
    pub(super) fn take_over(&mut self, old: &mut Flow) {
        if old.is_decrypted() {
            self.sort = Sort::Decrypted;
            self.number = old.number;
            self.has_data = true;
            std::mem::swap(&mut self.session, &mut old.session);
            std::mem::swap(&mut self.stream, &mut old.stream);
        }
    }
}
