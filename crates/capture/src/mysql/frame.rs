//! Packets of the protocol: length, sequence number, continuation.

use std::sync::Arc;

use super::Cause;
use super::command::is_text;
use crate::spool::{Growing, Spool, Spooled};

/// A packet of this length continues in the next one.
const LONG: usize = 0xff_ffff;
/// Bytes of a packet's header.
pub const HEAD_BYTES: usize = 4;
/// Bytes of a buffer that stay allocated between messages.
const KEPT_BYTES: usize = 64 << 10;

/// How much of a message is kept.
#[derive(Clone, Copy, Debug)]
pub enum Keep<'k> {
    /// Its first bytes, up to this number.
    First(usize),
    /// Only as much as says what it is, unless it may end a result set: then as `First`.
    Row(usize),
    /// All of a command with a text that has several packets, in a file; others as `First`.
    Command {
        /// The most in memory, bytes.
        memory_bytes: usize,
        /// Where files are made.
        spool: Option<&'k Arc<Spool>>,
        /// The most in a file, bytes.
        room: u64,
    },
}

/// Bytes of a row that are kept.
const ROW_BYTES: usize = 16;

impl Keep<'_> {
    fn limit(self, first: Option<u8>) -> usize {
        match self {
            Keep::First(bytes) | Keep::Command { memory_bytes: bytes, .. } => bytes,
            Keep::Row(bytes) if matches!(first, Some(0xfe | 0xff)) => bytes,
            Keep::Row(_) => ROW_BYTES,
        }
    }
}

/// Where a message of several packets is.
#[derive(Clone, Copy, Debug)]
pub enum Kept<'m> {
    /// In memory, as far as it is kept.
    InMemory,
    /// As a whole in a file.
    InFile(&'m Arc<Spooled>),
    /// Why it is in no file. It may be in memory as a whole all the same.
    NotInFile(Cause),
}

/// A message: the payload of one packet, or of several that continue each other.
#[derive(Clone, Copy, Debug)]
pub struct Message<'m> {
    /// Sequence number of its first packet.
    pub seq: u8,
    /// Sequence number that follows it.
    pub next_seq: u8,
    /// Its first bytes.
    pub bytes: &'m [u8],
    /// How many it has.
    pub total: u64,
    /// Some of its bytes were not captured.
    pub is_damaged: bool,
    /// Where `bytes` are.
    pub kept: Kept<'m>,
}

impl Message<'_> {
    /// All of it is there.
    pub fn is_whole(&self) -> bool {
        !self.is_damaged && self.bytes.len() as u64 == self.total
    }

    /// Its length with the headers of its packets.
    pub fn sent_bytes(&self) -> u64 {
        // A packet of the greatest length is continued, if only by an empty one.
        let packets = self.total / LONG as u64 + 1;
        self.total + packets * HEAD_BYTES as u64
    }
}

/// The place of a message of several packets.
#[derive(Default)]
enum Spooling {
    /// It is kept in memory, at least until the second packet.
    #[default]
    None,
    /// A part of it is in a file.
    Growing(Box<Growing>),
    /// It is in a file.
    Complete(Arc<Spooled>),
    /// There is no file: it is kept in memory as far as that is allowed.
    Refused(Cause),
    /// The file cannot have the rest: nothing is kept.
    Failed(Cause),
}

/// Packets of one direction.
#[derive(Default)]
pub struct Framer {
    head: [u8; HEAD_BYTES],
    head_bytes: usize,
    /// Bytes that the current packet still has.
    left: usize,
    /// The current packet continues in the next one.
    is_long: bool,
    /// A packet of the message has begun.
    is_open: bool,
    seq: u8,
    next_seq: u8,
    body: Vec<u8>,
    spooling: Spooling,
    total: u64,
    is_damaged: bool,
    /// The message in `body` was returned.
    is_done: bool,
    /// A continuation did not have the sequence number that it must have.
    is_broken: bool,
    /// The packets are within compressed ones, which have the sequence numbers that count.
    is_packed: bool,
}

impl Framer {
    /// Whether packets come out of compressed ones: clients then number continuations as they like.
    pub fn set_packed(&mut self, is_packed: bool) {
        self.is_packed = is_packed;
    }

    /// Memory for the message that is arriving, bytes.
    pub fn held_bytes(&self) -> usize {
        let file = if let Spooling::Growing(file) = &self.spooling { file.held_bytes() } else { 0 };
        self.body.capacity() + file
    }

    /// Whether a message has begun and not ended, also between two of its packets.
    pub fn is_within(&self) -> bool {
        self.head_bytes > 0 || self.is_open || self.is_long
    }

    /// Bytes of the message that is arriving, with the header of its current packet.
    pub fn arrived_bytes(&self) -> u64 {
        let head_bytes = if self.is_open { HEAD_BYTES } else { self.head_bytes };
        let total = if self.is_done { 0 } else { self.total };
        total + head_bytes as u64
    }

    /// Whether packets are not numbered as they must be: the bytes are not of this protocol.
    pub fn is_broken(&self) -> bool {
        self.is_broken
    }

    /// Forgets everything.
    pub fn reset(&mut self) {
        let mut body = std::mem::take(&mut self.body);
        body.clear();
        *self = Framer { body, ..Framer::default() };
        self.shrink();
    }

    fn shrink(&mut self) {
        if self.body.capacity() > KEPT_BYTES {
            self.body = Vec::new();
        }
    }

    /// Takes bytes from `input` up to the end of the next message. `None`: `input` is empty, or the
    /// framing is broken.
    pub fn next<'m, 'i: 'm>(
        &'m mut self,
        input: &mut &'i [u8],
        keep: Keep<'_>,
    ) -> Option<Message<'m>> {
        self.end_message();
        while !self.is_broken {
            if !self.is_open {
                self.take_head(input)?;
            }
            self.take_body(input, keep);
            if self.left > 0 {
                return None;
            }
            self.is_open = false;
            if !self.is_long {
                self.is_done = true;
                return Some(self.done());
            }
        }
        None
    }

    /// Forgets the message that was returned, if no other one has begun.
    pub fn end_message(&mut self) {
        if self.is_done {
            self.is_done = false;
            self.body.clear();
            self.spooling = Spooling::None;
            self.shrink();
            self.total = 0;
            self.is_damaged = false;
        }
    }

    fn done(&mut self) -> Message<'_> {
        let Framer { seq, next_seq, total, is_damaged, .. } = *self;
        let (bytes, kept) = match &self.spooling {
            Spooling::None => (&self.body[..], Kept::InMemory),
            _ => self.done_in_file(),
        };
        Message { seq, next_seq, bytes, total, is_damaged, kept }
    }

    #[cold]
    fn done_in_file(&mut self) -> (&[u8], Kept<'_>) {
        self.complete();
        match &self.spooling {
            Spooling::None | Spooling::Growing(_) => (&self.body[..], Kept::InMemory),
            Spooling::Complete(file) => (&file[..], Kept::InFile(file)),
            Spooling::Refused(cause) | Spooling::Failed(cause) => {
                (&self.body[..], Kept::NotInFile(*cause))
            }
        }
    }

    fn take_head(&mut self, input: &mut &[u8]) -> Option<()> {
        let wanted = HEAD_BYTES - self.head_bytes;
        let (part, rest) = input.split_at(wanted.min(input.len()));
        *input = rest;
        self.head[self.head_bytes..self.head_bytes + part.len()].copy_from_slice(part);
        self.head_bytes += part.len();
        if self.head_bytes < HEAD_BYTES {
            return None;
        }
        self.head_bytes = 0;
        let [a, b, c, seq] = self.head;
        self.left = u32::from_le_bytes([a, b, c, 0]) as usize;
        if !self.is_long {
            self.seq = seq;
        } else if seq != self.next_seq && !self.is_packed {
            self.is_broken = true;
            self.is_open = true;
            return None;
        }
        self.next_seq = seq.wrapping_add(1);
        self.is_long = self.left == LONG;
        self.is_open = true;
        Some(())
    }

    fn take_body(&mut self, input: &mut &[u8], keep: Keep<'_>) {
        let (part, rest) = input.split_at(self.left.min(input.len()));
        *input = rest;
        self.left -= part.len();
        self.total += part.len() as u64;
        // Nothing behind a gap is kept: it would close up with what is before.
        if self.is_damaged || self.total > LONG as u64 && self.spool(part, keep) {
            return;
        }
        let first = self.body.first().or(part.first()).copied();
        let room = keep.limit(first).saturating_sub(self.body.len());
        self.body.extend_from_slice(&part[..part.len().min(room)]);
    }

    /// Takes bytes of a second or later packet. `false`: they are for memory.
    #[cold]
    fn spool(&mut self, part: &[u8], keep: Keep<'_>) -> bool {
        if let (Spooling::None, Keep::Command { spool: Some(spool), room, .. }) =
            (&self.spooling, keep)
        {
            // Not if a part was left out.
            let is_whole = self.body.len() as u64 + part.len() as u64 == self.total;
            if !is_whole || !self.body.first().copied().is_some_and(is_text) {
                return false;
            }
            match spool.begin(&self.body, room) {
                Ok(file) => {
                    self.body = Vec::new();
                    self.spooling = Spooling::Growing(Box::new(file));
                }
                Err(cause) => self.spooling = Spooling::Refused(cause),
            }
        }
        match &mut self.spooling {
            Spooling::None | Spooling::Refused(_) => false,
            Spooling::Complete(_) | Spooling::Failed(_) => true,
            Spooling::Growing(file) => {
                if let Err(cause) = file.add(part) {
                    self.end_file(Spooling::Failed(cause));
                }
                true
            }
        }
    }

    /// The file that grows, if there is one, is of no use any more.
    fn end_file(&mut self, next: Spooling) {
        if let Spooling::Growing(file) = &self.spooling {
            // The byte that says which command it is.
            self.body = vec![file.first()];
            self.spooling = next;
        }
    }

    /// The file has all bytes, if there is one.
    fn complete(&mut self) {
        self.spooling = match std::mem::take(&mut self.spooling) {
            Spooling::Growing(file) => {
                self.body = vec![file.first()];
                match file.complete() {
                    Ok(spooled) => Spooling::Complete(Arc::new(spooled)),
                    Err(cause) => Spooling::Failed(cause),
                }
            }
            other => other,
        };
    }

    /// So many bytes were not captured. `false`: the next header is not known any more. Otherwise
    /// call `next`, for the message may be complete.
    pub fn skip(&mut self, bytes: u64) -> bool {
        if !self.is_open || bytes > self.left as u64 {
            return false;
        }
        self.left -= bytes as usize;
        self.total += bytes;
        self.is_damaged = true;
        self.end_file(Spooling::None);
        true
    }
}

/// The message that `input` begins with, if it is there as a whole: not copied.
pub fn whole<'m>(input: &mut &'m [u8]) -> Option<Message<'m>> {
    let (&[a, b, c, seq], rest) = input.split_first_chunk::<HEAD_BYTES>()?;
    let length = u32::from_le_bytes([a, b, c, 0]) as usize;
    let (bytes, rest) = rest.split_at_checked(length)?;
    if length == LONG {
        return None;
    }
    *input = rest;
    let next_seq = seq.wrapping_add(1);
    let (total, kept) = (length as u64, Kept::InMemory);
    Some(Message { seq, next_seq, bytes, total, is_damaged: false, kept })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(seq: u8, payload: &[u8]) -> Vec<u8> {
        let length = (payload.len() as u32).to_le_bytes();
        [&length[..3], &[seq], payload].concat()
    }

    /// All messages of `bytes`, passed in parts of `part` bytes.
    fn messages(bytes: &[u8], part: usize, keep: Keep<'_>) -> Vec<(u8, Vec<u8>, u64)> {
        let mut framer = Framer::default();
        let mut found = Vec::new();
        for mut input in bytes.chunks(part) {
            while let Some(message) = framer.next(&mut input, keep) {
                assert!(!message.is_damaged);
                found.push((message.seq, message.bytes.to_vec(), message.total));
            }
        }
        assert!(!framer.is_within());
        found
    }

    #[test]
    fn messages_do_not_depend_on_how_bytes_arrive() {
        let bytes = [packet(0, b"\x03SELECT 1"), packet(1, b""), packet(2, &[7; 300])].concat();
        let whole = messages(&bytes, bytes.len(), Keep::First(1000));
        assert_eq!(whole.len(), 3);
        assert_eq!(whole[0], (0, b"\x03SELECT 1".to_vec(), 9));
        for part in 1..bytes.len() {
            assert_eq!(messages(&bytes, part, Keep::First(1000)), whole, "{part}");
        }
    }

    #[test]
    fn a_long_message_continues_in_the_next_packet() {
        let payload = vec![b'x'; LONG + 5];
        let bytes = [packet(0, &payload[..LONG]), packet(1, &payload[LONG..])].concat();
        // Also in segments that end where the first packet does.
        for part in [bytes.len(), 1460, 65_536, HEAD_BYTES + LONG] {
            let found = messages(&bytes, part, Keep::First(usize::MAX));
            assert_eq!(found, [(0, payload.clone(), payload.len() as u64)]);
        }
        // A message of just that length ends with an empty packet.
        let bytes = [packet(0, &payload[..LONG]), packet(1, b"")].concat();
        let found = messages(&bytes, 9000, Keep::First(3));
        assert_eq!(found, [(0, b"xxx".to_vec(), LONG as u64)]);
        let bytes = [packet(0, &payload[..LONG]), packet(7, b"")].concat();
        let mut framer = Framer::default();
        assert!(framer.next(&mut &bytes[..], Keep::First(3)).is_none());
        assert!(framer.is_broken());
    }

    #[test]
    fn of_rows_only_the_beginning_is_kept() {
        let bytes = [packet(3, &[b'r'; 100]), packet(4, &[&[0xff][..], &[b'e'; 100]].concat())];
        let found = messages(&bytes.concat(), 7, Keep::Row(1000));
        assert_eq!(found[0].1.len(), ROW_BYTES);
        assert_eq!((found[0].2, found[1].1.len()), (100, 101));
    }

    #[test]
    fn a_gap_within_a_packet_keeps_the_framing() {
        let bytes = [packet(0, b"0123456789"), packet(1, b"next")].concat();
        let mut framer = Framer::default();
        let mut input = &bytes[..7];
        assert!(framer.next(&mut input, Keep::First(99)).is_none());
        assert!(framer.skip(7));
        let mut input = &bytes[14..];
        let message = framer.next(&mut input, Keep::First(99)).expect("the end of the first");
        assert_eq!((message.bytes, message.total, message.is_damaged), (&b"012"[..], 10, true));
        let message = framer.next(&mut input, Keep::First(99)).expect("the second");
        assert_eq!((message.bytes, message.is_damaged), (&b"next"[..], false));
        assert!(!framer.skip(1), "between packets");
        let mut input = &bytes[..5];
        assert!(framer.next(&mut input, Keep::First(99)).is_none());
        assert!(!framer.skip(10), "beyond the packet");
    }
}
