//! Character sets of one to three bytes in which bytes below 0x80 are ASCII.
//!
//! The generated source is text, so that a reader can see the characters. It is expanded into
//! directly indexed tables at the first use of the set.

use std::sync::OnceLock;

use super::one_byte::bmp_character;
use super::{Fidelity, TextSink, ascii_prefix_bytes};

/// Well-formed, but the server has no character for it.
const UNASSIGNED: u16 = 0xFFFD;
/// Not well-formed, or the first byte of something longer.
const ILL_FORMED: u16 = 0;
/// First byte of all sequences of three bytes, in the sets that have some.
const THREE_BYTES: u8 = 0x8F;
const PLANE_ENTRIES: usize = 1 << 16;

/// A generated table.
#[derive(Debug)]
pub(super) struct CharsetTable {
    /// Sequences of one byte (0x80 and above) and of two.
    pub(super) one_and_two: Plane,
    /// Sequences of three bytes, without the first, which is 0x8F. Empty in most sets.
    pub(super) three: Plane,
}

/// Part of a generated table. Numbers are byte sequences, most significant byte first.
#[derive(Debug)]
pub(super) struct Plane {
    /// Ranges of the first byte of well-formed pairs, both ends included.
    pub(super) leads: &'static [(u8, u8)],
    /// Ranges of their second byte.
    pub(super) trails: &'static [(u8, u8)],
    /// Pairs that these ranges include, but that are not well-formed.
    pub(super) ill_formed: &'static [u16],
    /// Number of the first sequence, and the characters of it and of those that follow.
    pub(super) runs: &'static [(u16, &'static str)],
    /// Sequences that share their character with another one, which is the usual one. Sorted.
    pub(super) one_way: &'static [u16],
}

impl Plane {
    fn unfold(&self) -> Vec<u16> {
        let mut entries = vec![ILL_FORMED; PLANE_ENTRIES];
        for lead in in_ranges(self.leads) {
            for trail in in_ranges(self.trails) {
                entries[pair_index(lead, trail)] = UNASSIGNED;
            }
        }
        for pair in self.ill_formed {
            entries[usize::from(*pair)] = ILL_FORMED;
        }
        for (number, character) in self.assigned() {
            entries[usize::from(number)] = character as u16;
        }
        entries
    }

    fn assigned(&self) -> impl Iterator<Item = (u16, char)> {
        self.runs.iter().flat_map(|(first, characters)| (*first..).zip(characters.chars()))
    }

    fn is_one_way(&self, number: u16) -> bool {
        self.one_way.binary_search(&number).is_ok()
    }
}

fn in_ranges(ranges: &[(u8, u8)]) -> impl Iterator<Item = u8> {
    ranges.iter().flat_map(|(first, last)| *first..=*last)
}

fn pair_index(lead: u8, trail: u8) -> usize {
    usize::from(lead) << 8 | usize::from(trail)
}

/// A character set ready for use.
#[derive(Debug)]
pub(super) struct Table {
    source: &'static CharsetTable,
    one_and_two: Vec<u16>,
    /// Empty in sets without sequences of three bytes.
    three: Vec<u16>,
    /// Byte sequence of every character of the BMP, 0 for none. Only needed for restoring.
    sequences: OnceLock<Vec<u32>>,
}

/// The meaning of a byte sequence.
struct Unit {
    entry: u16,
    bytes: usize,
    one_way: bool,
}

impl Table {
    pub(super) fn new(source: &'static CharsetTable) -> Self {
        let has_three = !source.three.runs.is_empty();
        Self {
            source,
            one_and_two: source.one_and_two.unfold(),
            three: if has_three { source.three.unfold() } else { Vec::new() },
            sequences: OnceLock::new(),
        }
    }

    pub(super) fn decode<S: TextSink>(&self, bytes: &[u8], sink: &mut S) -> Fidelity {
        let mut exact = true;
        let mut rest = bytes;
        loop {
            let (ascii, other) = rest.split_at(ascii_prefix_bytes(rest));
            if !ascii.is_empty() {
                sink.text(ascii);
            }
            if other.is_empty() {
                return Fidelity::exact_if(exact);
            }
            let unit = self.first_unit(other);
            if unit.entry == ILL_FORMED || unit.entry == UNASSIGNED {
                exact = false;
                sink.character(char::REPLACEMENT_CHARACTER);
            } else {
                exact &= !unit.one_way;
                sink.character(bmp_character(unit.entry));
            }
            rest = &other[unit.bytes..];
        }
    }

    /// See [`super::Charset::cut`]; `bytes` is longer than `bytes_max`.
    pub(super) fn cut(&self, bytes: &[u8], bytes_max: usize) -> usize {
        // No sequence has a byte below this one after its first: the byte after such a byte begins
        // a character.
        const TRAIL_MIN: u8 = 0x40;
        let before = bytes[..bytes_max].iter().rposition(|byte| *byte < TRAIL_MIN);
        let mut end = before.map_or(0, |at| at + 1);
        while end < bytes_max {
            let rest = &bytes[end..];
            let next = if rest[0].is_ascii() { 1 } else { self.first_unit(rest).bytes };
            if end + next > bytes_max {
                break;
            }
            end += next;
        }
        end
    }

    /// The unit at the start of `bytes`, which starts with a byte above 0x7F. As in the server,
    /// a sequence that is not well-formed is one byte, and the next byte may start a new one.
    fn first_unit(&self, bytes: &[u8]) -> Unit {
        let plane = &self.source.one_and_two;
        let found = |entry, bytes, one_way| Unit { entry, bytes, one_way };
        let entry = self.one_and_two[usize::from(bytes[0])];
        if entry != ILL_FORMED {
            return found(entry, 1, plane.is_one_way(u16::from(bytes[0])));
        }
        if let [lead, trail, ..] = *bytes {
            let entry = self.one_and_two[pair_index(lead, trail)];
            if entry != ILL_FORMED {
                return found(entry, 2, plane.is_one_way(u16::from_be_bytes([lead, trail])));
            }
        }
        if let [THREE_BYTES, second, third, ..] = *bytes {
            let entry = self.three.get(pair_index(second, third)).copied().unwrap_or(ILL_FORMED);
            if entry != ILL_FORMED {
                let number = u16::from_be_bytes([second, third]);
                return found(entry, 3, self.source.three.is_one_way(number));
            }
        }
        found(ILL_FORMED, 1, false)
    }

    /// The error is the character that has no byte sequence.
    pub(super) fn encode(&self, text: &str) -> Result<Vec<u8>, char> {
        let sequences = self.sequences.get_or_init(|| self.invert());
        let mut bytes = Vec::with_capacity(text.len());
        for character in text.chars() {
            if character.is_ascii() {
                bytes.push(character as u8);
                continue;
            }
            match sequences.get(character as usize).copied().unwrap_or(0).to_be_bytes() {
                [0, 0, 0, 0] => return Err(character),
                [0, 0, 0, only] => bytes.push(only),
                [0, 0, pair @ ..] => bytes.extend_from_slice(&pair),
                [0, triple @ ..] => bytes.extend_from_slice(&triple),
                _ => return Err(character),
            }
        }
        Ok(bytes)
    }

    fn invert(&self) -> Vec<u32> {
        let mut sequences = vec![0; PLANE_ENTRIES];
        for (plane, prefix) in
            [(&self.source.one_and_two, 0), (&self.source.three, u32::from(THREE_BYTES) << 16)]
        {
            for (number, character) in plane.assigned() {
                if !plane.is_one_way(number) {
                    sequences[character as usize] = prefix | u32::from(number);
                }
            }
        }
        sequences
    }
}
