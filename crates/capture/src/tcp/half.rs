//! One direction of a connection: from segments to bytes in order.
//!
//! Overlaps: the byte that was delivered, or that waits at the lower offset, wins; what arrives
//! again is not compared. A keep-alive (one old byte) is such a repetition.
//!
//! Anyone can send a segment with a wrong number, which its receiver discards. So bytes are missing
//! only if both sides say so: the receiver has acknowledged them, and the sender has gone on behind
//! them. Each alone is believed when the connection ends.

use std::collections::BTreeMap;

/// A segment this far ahead of the expected byte is not of this connection: no window is larger.
const AHEAD_BYTES_MAX: i64 = 1 << 30;
/// Nor is one that is older than that.
const BEHIND_BYTES_MAX: i64 = 1 << 28;

/// Memory of a segment that waits, besides its bytes.
const EARLY_BYTES: usize = 64;

/// The next part of a direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece<'p> {
    /// Bytes of one segment.
    Bytes(&'p [u8]),
    /// So many bytes were not captured.
    Gap(u64),
}

/// A segment that arrived before its turn.
struct Early {
    bytes: Vec<u8>,
    missing: u64,
}

/// One direction, see the module documentation.
#[derive(Default)]
pub struct Half {
    /// Sequence number of the byte at offset `next`; `None` before the first segment.
    next_seq: Option<u32>,
    /// Offset of the next byte to deliver.
    next: u64,
    /// Segments beyond `next`, by offset.
    early: BTreeMap<u64, Early>,
    early_bytes: usize,
    /// The receiver says that it has everything before this offset.
    acked: u64,
    /// The sender says that it has sent everything before this offset.
    sent: u64,
    /// Its sender sends nothing from this offset on. FIN itself counts as a byte.
    end: Option<u64>,
    /// The latest numbers of the sender and of the receiver that cannot belong to this connection.
    far: [Option<u32>; 2],
}

impl Half {
    /// Whether its beginning is known.
    pub fn is_known(&self) -> bool {
        self.next_seq.is_some()
    }

    /// It begins with this sequence number.
    pub fn begin(&mut self, seq: u32) {
        *self = Half { next_seq: Some(seq), ..Half::default() };
    }

    /// Bytes that wait for others.
    pub fn waiting_bytes(&self) -> usize {
        self.early_bytes
    }

    /// Everything before this offset was sent, and has arrived at the receiver.
    fn certain(&self) -> u64 {
        self.acked.min(self.sent)
    }

    /// Whether bytes are missing, or later ones wait for them.
    pub fn has_hole(&self) -> bool {
        self.certain() > self.next || !self.early.is_empty()
    }

    /// Offset of the next byte to deliver.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Sequence number of the next byte to deliver.
    pub fn next_seq(&self) -> Option<u32> {
        self.next_seq
    }

    /// Whether its sender would give a segment without data this number now.
    pub fn is_at(&self, seq: u32) -> bool {
        let fin = u32::from(self.end == Some(self.next));
        self.next_seq.is_some_and(|next| seq == next || seq == next.wrapping_add(fin))
    }

    /// Whether a segment has bytes that were not delivered, as far as its numbers tell.
    pub fn is_news(&self, seq: u32, bytes: u64) -> bool {
        self.next_seq.is_none()
            || self.distance(seq).is_none_or(|distance| distance.saturating_add_unsigned(bytes) > 0)
    }

    /// Offset of a sequence number; 0 if that is in the past, or not of this connection.
    pub fn offset(&self, seq: u32) -> u64 {
        let distance = self.distance(seq).and_then(|distance| u64::try_from(distance).ok());
        distance.map_or(0, |distance| (self.next + distance).min(self.end.unwrap_or(u64::MAX)))
    }

    /// The distance from the next byte. `None`: it cannot belong to this connection.
    fn distance(&self, seq: u32) -> Option<i64> {
        let distance = i64::from(seq.wrapping_sub(self.next_seq?) as i32);
        (-BEHIND_BYTES_MAX..AHEAD_BYTES_MAX).contains(&distance).then_some(distance)
    }

    /// The receiver expects this sequence number next. Returns its offset.
    pub fn acknowledge(&mut self, ack: u32) -> u64 {
        match self.distance(ack) {
            None if self.is_known() => self.far[1] = Some(ack),
            None => {}
            Some(distance) => {
                let is_beyond = |end: &mut u64| {
                    u64::try_from(distance).is_ok_and(|distance| self.next + distance > *end + 1)
                };
                // The receiver has not taken that for the end.
                self.end.take_if(is_beyond);
            }
        }
        let offset = self.offset(ack);
        self.acked = self.acked.max(offset);
        offset
    }

    /// The sender has sent everything before this sequence number.
    pub fn sends(&mut self, seq: u32) {
        if self.is_known() && self.distance(seq).is_none() {
            self.far[0] = Some(seq);
        }
        self.sent = self.sent.max(self.offset(seq));
    }

    /// Where both sides are now, if that is too far away to be this connection.
    pub fn elsewhere(&self) -> Option<u32> {
        let [Some(sent), Some(acked)] = self.far else { return None };
        let apart = i64::from(sent.wrapping_sub(acked) as i32);
        (-BEHIND_BYTES_MAX..BEHIND_BYTES_MAX).contains(&apart).then_some(sent)
    }

    /// Its sender sends nothing from this sequence number on.
    pub fn end_at(&mut self, seq: u32) {
        let distance = self.distance(seq).and_then(|distance| u64::try_from(distance).ok());
        if let (Some(distance), None) = (distance, self.end) {
            let end = self.next + distance;
            self.end = Some(end);
            self.acked = self.acked.min(end);
            self.sent = self.sent.max(end);
        }
    }

    /// Whether bytes before its end have not arrived.
    pub fn lacks_end(&self) -> bool {
        self.end.is_some_and(|end| self.next < end)
    }

    /// Whether its sender has said that it sends nothing more.
    pub fn has_end(&self) -> bool {
        self.end.is_some()
    }

    /// Adds a segment, and delivers what is in order now. `false`: it cannot belong to this
    /// connection.
    pub fn add(
        &mut self,
        seq: u32,
        bytes: &[u8],
        missing: u32,
        deliver: &mut impl FnMut(Piece<'_>),
    ) -> bool {
        if !self.is_known() {
            self.begin(seq);
        }
        let Some(distance) = self.distance(seq) else { return false };
        let (bytes, missing) = match usize::try_from(-distance) {
            Ok(old) => without_old(bytes, u64::from(missing), old),
            Err(_) => (bytes, u64::from(missing)),
        };
        if bytes.is_empty() && missing == 0 {
            return true;
        }
        match u64::try_from(distance) {
            Ok(ahead @ 1..) => self.keep(self.next + ahead, bytes, missing),
            _ => {
                self.deliver(bytes, missing, deliver);
                self.deliver_early(deliver);
            }
        }
        true
    }

    fn keep(&mut self, at: u64, bytes: &[u8], missing: u64) {
        let new_bytes = bytes.len() as u64 + missing;
        if let Some(old) = self.early.get(&at) {
            if old.bytes.len() as u64 + old.missing >= new_bytes {
                return;
            }
            self.early_bytes -= EARLY_BYTES + old.bytes.len();
        }
        self.early_bytes += EARLY_BYTES + bytes.len();
        self.early.insert(at, Early { bytes: bytes.to_vec(), missing });
    }

    fn deliver(&mut self, bytes: &[u8], missing: u64, deliver: &mut impl FnMut(Piece<'_>)) {
        self.advance(bytes.len() as u64 + missing);
        if !bytes.is_empty() {
            deliver(Piece::Bytes(bytes));
        }
        if missing > 0 {
            deliver(Piece::Gap(missing));
        }
    }

    fn advance(&mut self, bytes: u64) {
        self.next += bytes;
        self.next_seq = self.next_seq.map(|seq| seq.wrapping_add(bytes as u32));
        // It was not the end after all.
        self.end.take_if(|end| *end < self.next);
    }

    fn deliver_early(&mut self, deliver: &mut impl FnMut(Piece<'_>)) {
        while let Some(entry) = self.early.first_entry() {
            let Some(old) = self.next.checked_sub(*entry.key()) else { return };
            let Early { bytes, missing } = entry.remove();
            self.early_bytes -= EARLY_BYTES + bytes.len();
            let old = usize::try_from(old).unwrap_or(usize::MAX);
            let (bytes, missing) = without_old(&bytes, missing, old);
            self.deliver(bytes, missing, deliver);
        }
    }

    /// Gives up the next bytes that are missing, up to `end`: they become a gap. `false`: there are
    /// none.
    pub fn give_up_to(&mut self, end: u64, deliver: &mut impl FnMut(Piece<'_>)) -> bool {
        let first = self.early.first_key_value().map_or(end, |(at, _)| end.min(*at));
        let bytes = first.saturating_sub(self.next);
        if bytes > 0 {
            self.advance(bytes);
            deliver(Piece::Gap(bytes));
        }
        self.deliver_early(deliver);
        bytes > 0
    }

    /// Gives up the next bytes that are certainly missing, up to `end`. `false`: there are none.
    pub fn give_up_certain(&mut self, end: u64, deliver: &mut impl FnMut(Piece<'_>)) -> bool {
        self.give_up_to(end.min(self.certain()), deliver)
    }

    /// Gives up all bytes that are missing, also as far as only one side says so.
    pub fn give_up_all(&mut self, deliver: &mut impl FnMut(Piece<'_>)) {
        let mut end = self.acked.max(self.sent);
        while end > self.next || !self.early.is_empty() {
            let first = self.early.first_key_value().map(|(at, _)| *at);
            end = end.max(first.unwrap_or(end));
            self.give_up_to(end, deliver);
        }
    }

    /// Forgets the segments that wait for bytes that are not known to be missing.
    pub fn drop_early(&mut self) {
        self.early.clear();
        self.early_bytes = 0;
    }
}

/// The rest of a segment whose first `old` bytes were delivered before.
fn without_old(bytes: &[u8], missing: u64, old: usize) -> (&[u8], u64) {
    match bytes.get(old..) {
        Some(rest) => (rest, missing),
        None => (&[], missing.saturating_sub((old - bytes.len()) as u64)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Delivers segments, given as sequence number and text; a gap is shown as `[n]`.
    struct Delivery {
        half: Half,
        text: String,
    }

    impl Delivery {
        fn after(seq: u32) -> Delivery {
            let mut half = Half::default();
            half.begin(seq);
            Delivery { half, text: String::new() }
        }

        fn show(text: &mut String, piece: Piece<'_>) {
            match piece {
                Piece::Bytes(bytes) => text.push_str(std::str::from_utf8(bytes).unwrap()),
                Piece::Gap(bytes) => text.push_str(&format!("[{bytes}]")),
            }
        }

        fn add(&mut self, seq: u32, bytes: &str) -> bool {
            let Delivery { half, text } = self;
            half.add(seq, bytes.as_bytes(), 0, &mut |piece| Self::show(text, piece))
        }

        fn give_up(&mut self) {
            let Delivery { half, text } = self;
            half.give_up_all(&mut |piece| Self::show(text, piece));
        }

        /// Gives up only what is certain.
        fn give_up_certain(&mut self) {
            let Delivery { half, text } = self;
            while half.give_up_certain(u64::MAX, &mut |piece| Self::show(text, piece)) {}
        }
    }

    #[test]
    fn any_order_overlap_and_repetition_gives_the_same_bytes() {
        let mut to = Delivery::after(100);
        for (seq, bytes) in [
            (106, "ghi"),
            (103, "defg"),
            (99, "x"),
            (100, "abc"),
            (100, "abcdefghij"),
            (110, "kl"),
            (105, "f"),
        ] {
            assert!(to.add(seq, bytes));
        }
        assert_eq!(to.text, "abcdefghijkl");
        assert!(!to.half.has_hole());
        assert_eq!(to.half.waiting_bytes(), 0);
    }

    #[test]
    fn sequence_numbers_wrap_around() {
        let mut to = Delivery::after(u32::MAX - 2);
        to.add(1, "ef");
        to.add(u32::MAX - 2, "abcd");
        assert_eq!(to.text, "abcdef");
        assert!(!to.add(5 << 29, "far away"));
        assert_eq!(to.text, "abcdef");
    }

    #[test]
    fn what_does_not_come_is_a_gap() {
        let mut to = Delivery::after(0);
        to.add(0, "ab");
        to.add(5, "fg");
        to.add(9, "j");
        assert!(to.half.has_hole());
        to.give_up();
        assert_eq!(to.text, "ab[3]fg[2]j");
        // The receiver has more than was ever captured.
        to.half.acknowledge(14);
        assert!(!to.half.has_hole(), "nothing says that it was sent");
        to.half.sends(14);
        assert!(to.half.has_hole());
        to.give_up();
        assert_eq!(to.text, "ab[3]fg[2]j[4]");
        to.add(14, "o");
        assert_eq!(to.text, "ab[3]fg[2]j[4]o");
    }

    #[test]
    fn one_side_alone_makes_no_gap() {
        let mut to = Delivery::after(0);
        // A forged acknowledgement, and a forged segment.
        to.half.acknowledge(500 << 20);
        to.half.sends(12);
        to.add(10, "zz");
        to.give_up_certain();
        assert_eq!(to.text, "[10]zz");
        let mut to = Delivery::after(0);
        to.half.sends(500 << 20);
        to.add(500 << 20, "zz");
        to.give_up_certain();
        to.half.acknowledge(3);
        to.give_up_certain();
        to.add(3, "de");
        assert_eq!(to.text, "[3]de");
    }

    #[test]
    fn both_sides_together_are_elsewhere() {
        let mut half = Half::default();
        half.begin(0);
        half.sends(3 << 30);
        assert_eq!(half.elsewhere(), None);
        half.acknowledge(1 << 31);
        assert_eq!(half.elsewhere(), None);
        half.acknowledge((3 << 30) + 9);
        assert_eq!(half.elsewhere(), Some(3 << 30));
    }

    #[test]
    fn an_end_that_the_receiver_does_not_believe_is_none() {
        let mut to = Delivery::after(0);
        to.half.end_at(2);
        to.add(0, "abcd");
        assert!(!to.half.has_end());
        to.half.end_at(4);
        assert!(to.half.is_at(4) && to.half.is_at(5) && !to.half.is_at(6));
        to.half.acknowledge(7);
        assert!(!to.half.has_end());
    }

    #[test]
    fn the_end_of_a_direction_is_not_a_byte() {
        let mut to = Delivery::after(u32::MAX);
        to.half.end_at(2);
        to.half.acknowledge(3);
        assert!(to.half.has_hole());
        to.add(u32::MAX, "abc");
        assert!(!to.half.has_hole());
        assert_eq!(to.text, "abc");
    }

    #[test]
    fn bytes_beyond_the_captured_length_are_a_gap() {
        let mut to = Delivery::after(0);
        let Delivery { half, text } = &mut to;
        half.add(0, b"ab", 3, &mut |piece| Delivery::show(text, piece));
        half.add(2, b"cdefg", 0, &mut |piece| Delivery::show(text, piece));
        assert_eq!(to.text, "ab[3]fg");
    }
}
