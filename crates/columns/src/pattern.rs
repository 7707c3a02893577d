//! A text with places for values: the shape of a line, or the template of a text.
//!
//! In its bytes a place is a byte below 0x20, which no line has that is split, and for some kinds
//! another byte with a width.

use std::ops::Range;

use crate::bytes::{Damage, Decoded};

/// The value of a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum PlaceKind {
    /// A number in decimal digits, without zeros before it.
    Number,
    /// A text of any length.
    Text,
    /// A time with microseconds: `time`.
    Time,
    /// A number with as many digits as the width says.
    Digits,
    /// As many hexadecimal digits, lower case.
    LowerHex,
    /// The same, upper case.
    UpperHex,
}

/// The most digits that surely fit a number.
pub(crate) const DIGITS_MAX: usize = 19;

const KINDS: [PlaceKind; 6] = [
    PlaceKind::Number,
    PlaceKind::Text,
    PlaceKind::Time,
    PlaceKind::Digits,
    PlaceKind::LowerHex,
    PlaceKind::UpperHex,
];

impl PlaceKind {
    /// Its byte in a pattern.
    pub(crate) fn mark(self) -> u8 {
        self as u8 + 1
    }

    fn of_mark(mark: u8) -> Option<Self> {
        KINDS.get(usize::from(mark).checked_sub(1)?).copied()
    }

    pub(crate) fn has_width(self) -> bool {
        matches!(self, Self::Digits | Self::LowerHex | Self::UpperHex)
    }

    /// Whether its values are numbers. Those of hexadecimal digits are bytes.
    pub(crate) fn is_number(self) -> bool {
        matches!(self, Self::Number | Self::Time | Self::Digits)
    }
}

/// A place for a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Blank {
    /// How many bytes of the pattern's own text are before it.
    pub(crate) before: u32,
    pub(crate) kind: PlaceKind,
    /// Of digits: how many.
    pub(crate) width: u8,
}

/// A pattern, taken apart.
#[derive(Debug)]
pub(crate) struct Pattern {
    /// Its own text, without the places.
    text: Box<[u8]>,
    pub(crate) places: Box<[Blank]>,
    /// Numbers that a text of this pattern has.
    pub(crate) numbers: u32,
    /// Bytes of hexadecimal digits.
    pub(crate) hex_bytes: u32,
    /// Texts.
    pub(crate) texts: u32,
    /// Length of the shortest text of this pattern, bytes.
    length_min: u32,
}

impl Pattern {
    pub(crate) fn parse(bytes: &[u8]) -> Decoded<Self> {
        let mut text = Vec::with_capacity(bytes.len());
        let mut places = Vec::new();
        let (mut numbers, mut hex_bytes, mut texts, mut length_min) = (0, 0, 0, 0);
        let mut rest = bytes.iter();
        while let Some(byte) = rest.next() {
            if *byte >= 0x20 {
                text.push(*byte);
                continue;
            }
            let kind = PlaceKind::of_mark(*byte).ok_or(Damage("a pattern has an unknown place"))?;
            let width = match (kind.has_width(), kind) {
                (false, _) => 0,
                (true, kind) => {
                    let width = *rest.next().ok_or(Damage("a pattern was cut"))?;
                    let max = if kind == PlaceKind::Digits { DIGITS_MAX as u8 } else { u8::MAX };
                    if width == 0 || width > max {
                        return Err(Damage("a place has a wrong width"));
                    }
                    width
                }
            };
            length_min += match kind {
                PlaceKind::Number => 1,
                PlaceKind::Text => 0,
                PlaceKind::Time => crate::time::TIME_BYTES as u32,
                _ => u32::from(width),
            };
            numbers += u32::from(kind.is_number());
            texts += u32::from(kind == PlaceKind::Text);
            hex_bytes += if kind.is_number() { 0 } else { u32::from(width.div_ceil(2)) };
            places.push(Blank { before: text.len() as u32, kind, width });
        }
        length_min += text.len() as u32;
        let (text, places) = (text.into(), places.into());
        Ok(Self { text, places, numbers, hex_bytes, texts, length_min })
    }

    /// What a text of this pattern takes of the content at least. It bounds the number of places,
    /// too: there is always a byte for each.
    pub(crate) fn weight(&self) -> usize {
        (self.length_min as usize).max(self.places.len())
    }

    /// The same of a line, with its line feed.
    pub(crate) fn line_weight(&self) -> usize {
        (self.length_min as usize + 1).max(self.places.len())
    }

    /// The text from one place to the next.
    pub(crate) fn text(&self, range: Range<u32>) -> &[u8] {
        &self.text[range.start as usize..range.end as usize]
    }

    /// The text behind the last place.
    pub(crate) fn end(&self) -> &[u8] {
        let last = self.places.last().map_or(0, |place| place.before);
        &self.text[last as usize..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_is_taken_apart() {
        let pattern = Pattern::parse(b"a\x01bc'\x02'\x04\x02\x05\x03.").unwrap();
        let kinds: Vec<_> = pattern.places.iter().map(|it| (it.before, it.kind)).collect();
        let expected = [
            (1, PlaceKind::Number),
            (4, PlaceKind::Text),
            (5, PlaceKind::Digits),
            (5, PlaceKind::LowerHex),
        ];
        assert_eq!(kinds, expected);
        assert_eq!(pattern.text(1..4), b"bc'");
        assert_eq!(pattern.end(), b".");
        assert_eq!((pattern.numbers, pattern.texts, pattern.hex_bytes), (2, 1, 2));
        assert_eq!(pattern.weight(), 6 + 1 + 2 + 3);
        for kind in KINDS {
            assert_eq!(PlaceKind::of_mark(kind.mark()), Some(kind));
        }
    }

    #[test]
    fn what_is_no_pattern_is_damage() {
        for bytes in [&b"\x00"[..], b"\x07", b"\x1f", b"\x04", b"\x04\x00", b"\x04\x14", b"\x05\0"]
        {
            assert!(Pattern::parse(bytes).is_err(), "{bytes:?}");
        }
    }
}
