//! The texts of a column in a frame, for reading.

use crate::bytes::{Budget, Cursor, Damage, Decoded};
use crate::decode::take_stored;
use crate::numbers;
use crate::pattern::{Pattern, PlaceKind};
use crate::stream::Unpacker;
use crate::texts::{Groups, Places, undo_deltas};
use crate::write::{LineOutput, put_digits, put_hex, put_number};

/// What the codes of a column stand for.
pub(crate) struct Texts {
    groups: Groups,
    /// Where each stored text ends in `stored`.
    ends: Vec<u32>,
    stored: Vec<u8>,
    numbers: Vec<u64>,
    hex: Vec<u8>,
    quoted: Option<Box<Quoted>>,
}

/// Texts in quotes.
struct Quoted {
    codes: Vec<u64>,
    texts: Texts,
}

impl Texts {
    /// Reads what `codes` need. `patterns`: those of the texts, and of the texts in quotes in them.
    pub(crate) fn read(
        from: &mut Cursor<'_>,
        patterns: &[Vec<Pattern>],
        codes: &[u64],
        budget: &mut Budget,
        unpacker: &mut Unpacker,
    ) -> Decoded<Self> {
        let (of_texts, of_quoted) = patterns.split_first().ok_or(Damage("a text is too deep"))?;
        if codes.iter().any(|code| *code > of_texts.len() as u64) {
            return Err(Damage("a text has an unknown pattern"));
        }
        let groups = Groups::new(codes, of_texts, budget)?;
        let lengths = numbers::take(from, groups.of_code[0].count as usize, unpacker)?;
        let stored = take_stored(from, &lengths, budget, unpacker)?;
        let ends = lengths.iter().scan(0, |end, length| {
            *end += *length as u32;
            Some(*end)
        });
        let ends = ends.collect();
        let is_delta = unpacker.take(from, groups.run_count(of_texts))?;
        let mut numbers = numbers::take(from, groups.numbers, unpacker)?;
        undo_deltas(&mut numbers, &is_delta, &groups, of_texts);
        let hex = unpacker.take(from, groups.hex_bytes)?;
        let quoted = match groups.quoted {
            0 => None,
            count => {
                let codes = numbers::take(from, count, unpacker)?;
                let texts = Self::read(from, of_quoted, &codes, budget, unpacker)?;
                Some(Box::new(Quoted { codes, texts }))
            }
        };
        Ok(Self { groups, ends, stored, numbers, hex, quoted })
    }

    /// Appends a text.
    pub(crate) fn put(
        &self,
        out: &mut LineOutput,
        at: usize,
        code: u64,
        patterns: &[Vec<Pattern>],
    ) -> Decoded<()> {
        let (nth, group) = self.groups.of(at, code);
        let Some(number) = code.checked_sub(1) else {
            let begin = nth.checked_sub(1).map_or(0, |before| self.ends[before]);
            out.put(&self.stored[begin as usize..self.ends[nth] as usize]);
            return Ok(());
        };
        let pattern = &patterns[0][number as usize];
        let (mut places, mut before) = (Places::default(), 0);
        for place in &pattern.places {
            out.put(pattern.text(before..place.before));
            before = place.before;
            match (place.kind, &self.quoted) {
                (PlaceKind::Text, Some(quoted)) => {
                    let at = places.quoted(group, nth);
                    quoted.texts.put(out, at, quoted.codes[at], &patterns[1..])?;
                }
                (PlaceKind::LowerHex | PlaceKind::UpperHex, _) => {
                    let bytes = &self.hex[places.hex(group, nth, place.width)];
                    put_hex(out, bytes, place.kind, place.width);
                }
                (PlaceKind::Digits, _) => {
                    put_digits(out, self.numbers[places.number(group, nth)], place.width)?;
                }
                _ => put_number(out, self.numbers[places.number(group, nth)]),
            }
        }
        out.put(pattern.end());
        Ok(())
    }
}
