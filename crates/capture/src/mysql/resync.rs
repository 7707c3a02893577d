//! After a gap: which bytes are certainly the beginning of a command.

use super::command::{INIT_DB, Kind, PREPARE, QUERY};

/// Bytes of a packet's header.
const HEAD_BYTES: usize = 4;
/// That of a compressed packet.
const PACKED_HEAD_BYTES: usize = 7;
/// A command that is longer than its segment is believed only if it is a statement.
const TEXT_LOOKED_AT: usize = 64;

/// Whether a segment of the client, sent after the server's last one, is the beginning of a
/// command: its header is there, and what follows fits to it.
///
/// This is not enough to believe it: the answer must fit, too (`Session::trial`).
pub fn may_be_command(segment: &[u8]) -> bool {
    let mut rest = segment;
    loop {
        let Some((command, length)) = next_command(rest) else { return false };
        match command.len().cmp(&length) {
            std::cmp::Ordering::Equal => return true,
            // More commands follow.
            std::cmp::Ordering::Greater => rest = &command[length..],
            // The next segment has the rest of the statement.
            std::cmp::Ordering::Less => {
                let is_statement = matches!(command[0], QUERY | PREPARE | INIT_DB);
                return is_statement && command.len() > TEXT_LOOKED_AT;
            }
        }
    }
}

/// What is behind a header that may be one of a command, and the length that the header says.
fn next_command(bytes: &[u8]) -> Option<(&[u8], usize)> {
    let (&[a, b, c, seq], payload) = bytes.split_first_chunk::<HEAD_BYTES>()?;
    let length = u32::from_le_bytes([a, b, c, 0]) as usize;
    let (&code, rest) = payload.split_first()?;
    if seq != 0 || length == 0 || !Kind::of(code).is_known() {
        return None;
    }
    let is_statement = matches!(code, QUERY | PREPARE | INIT_DB);
    if is_statement && !is_text(&rest[..rest.len().min(TEXT_LOOKED_AT).min(length - 1)]) {
        return None;
    }
    Some((payload, length))
}

/// Where the packets of a client end, if its next segment begins with one.
#[derive(Default)]
pub struct Ends {
    plain: Walk<HEAD_BYTES>,
    packed: Walk<PACKED_HEAD_BYTES>,
}

impl Ends {
    /// The client sends these bytes.
    pub fn add(&mut self, bytes: &[u8]) {
        self.plain.add(bytes);
        self.packed.add(bytes);
    }

    /// Whether the client is not within a packet. `is_packed`: its packets are compressed; `None`:
    /// that is not known. A client that has sent nothing may be.
    pub fn may_be_at_end(&self, is_packed: Option<bool>) -> bool {
        is_packed != Some(true) && self.plain.is_at_end()
            || is_packed != Some(false) && self.packed.is_at_end()
    }
}

/// From header to header; each begins with the length of what is behind it.
struct Walk<const HEAD: usize> {
    head: [u8; HEAD],
    head_bytes: usize,
    /// Bytes that the current packet still has.
    left: usize,
}

impl<const HEAD: usize> Default for Walk<HEAD> {
    fn default() -> Walk<HEAD> {
        Walk { head: [0; HEAD], head_bytes: 0, left: 0 }
    }
}

impl<const HEAD: usize> Walk<HEAD> {
    fn add(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while !rest.is_empty() {
            let skipped = self.left.min(rest.len());
            self.left -= skipped;
            rest = &rest[skipped..];
            let wanted = HEAD - self.head_bytes;
            let (part, behind) = rest.split_at(wanted.min(rest.len()));
            self.head[self.head_bytes..self.head_bytes + part.len()].copy_from_slice(part);
            self.head_bytes += part.len();
            rest = behind;
            if self.head_bytes == HEAD {
                self.head_bytes = 0;
                let [a, b, c, ..] = self.head[..] else { return };
                self.left = u32::from_le_bytes([a, b, c, 0]) as usize;
            }
        }
    }

    fn is_at_end(&self) -> bool {
        self.head_bytes == 0 && self.left == 0
    }
}

/// Whether it may be the beginning of a statement, perhaps after attributes.
fn is_text(bytes: &[u8]) -> bool {
    let bytes = match bytes {
        [0..=0x20, 1, rest @ ..] => rest,
        all => all,
    };
    // In attributes there may be anything.
    let first = bytes.iter().find(|byte| !byte.is_ascii_whitespace());
    first.is_none_or(|byte| byte.is_ascii_graphic() || *byte >= 0x80 || *byte <= 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_recognised_and_parts_of_data_are_not() {
        for command in [
            &b"\x09\0\0\0\x03SELECT 1"[..],
            b"\x0b\0\0\0\x03\0\x01SELECT 1",
            b"\x01\0\0\0\x0e",
            b"\x05\0\0\0\x19\x01\0\0\0\x01\0\0\0\x0e",
        ] {
            assert!(may_be_command(command), "{command:?}");
        }
        for other in [
            &b""[..],
            b"\x09\0\0\0",
            b"\x09\0\0\x01\x03SELECT 1",
            b"\x09\0\0\0\x03SELECT",
            b"\x09\0\0\0\x03SELECT 1x",
            b"\x05\0\0\0\x03\x02\x03\x04\x05",
            b"\x01\0\0\0\x77",
            b"some text of a large statement that continues here, and more of it follows below",
        ] {
            assert!(!may_be_command(other), "{other:?}");
        }
    }

    #[test]
    fn the_ends_of_packets_do_not_depend_on_segments() {
        let plain = b"\x09\0\0\0\x03SELECT 1\0\0\0\x01\x01\0\0\0\x0e";
        let packed = b"\x05\0\0\0\0\0\0\x01\0\0\0\x0e";
        for part in 1..plain.len() {
            let mut ends = Ends::default();
            plain.chunks(part).for_each(|part| ends.add(part));
            assert!(ends.may_be_at_end(Some(false)) && ends.may_be_at_end(None));
            ends.add(&plain[..part]);
            let is_end = part == 13 || part == 17;
            assert_eq!(ends.may_be_at_end(Some(false)), is_end, "{part}");
            let mut ends = Ends::default();
            packed.chunks(part).for_each(|part| ends.add(part));
            assert!(ends.may_be_at_end(Some(true)) && !ends.may_be_at_end(Some(false)));
        }
    }

    #[test]
    fn a_segment_of_millions_of_commands_needs_no_stack() {
        // As much as a compressed packet can have.
        let pings = b"\x01\0\0\0\x0e".repeat((16 << 20) / 5);
        assert!(may_be_command(&pings));
        assert!(!may_be_command(&pings[..pings.len() - 1]));
    }
}
