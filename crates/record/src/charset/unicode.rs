//! UTF-8, UTF-16, UCS-2 and UTF-32. Needs no tables; only ill-formed input needs care.

use super::{Fidelity, TextSink};

/// Character sets in which every character has the same number of bytes, big-endian.
#[derive(Clone, Copy, Debug)]
pub(super) enum Width {
    /// Two bytes; the BMP only.
    Ucs2,
    /// Four bytes.
    Utf32,
}

impl Width {
    /// Bytes of each character.
    pub(super) fn bytes(self) -> usize {
        match self {
            Width::Ucs2 => 2,
            Width::Utf32 => 4,
        }
    }
}

/// See [`super::Charset::cut`]; `bytes` is longer than `bytes_max`.
pub(super) fn cut_utf8(bytes: &[u8], bytes_max: usize) -> usize {
    // Ill-formed bytes are not characters, and may be cut anywhere.
    let begins_here = |start: &usize| {
        let rest = &bytes[*start..bytes.len().min(start + 4)];
        let chunk = rest.utf8_chunks().next().map_or("", |chunk| chunk.valid());
        chunk.chars().next().is_some_and(|character| start + character.len_utf8() > bytes_max)
    };
    (bytes_max.saturating_sub(3)..bytes_max).find(begins_here).unwrap_or(bytes_max)
}

/// See [`super::Charset::cut`].
pub(super) fn cut_utf16(bytes: &[u8], bytes_max: usize, big_endian: bool) -> usize {
    let end = bytes_max - bytes_max % 2;
    let unit = |at: usize| {
        let unit = bytes.get(at..)?.first_chunk().copied()?;
        Some(if big_endian { u16::from_be_bytes(unit) } else { u16::from_le_bytes(unit) })
    };
    let before = end.checked_sub(2).and_then(unit);
    let is_pair = matches!((before, unit(end)), (Some(0xD800..=0xDBFF), Some(0xDC00..=0xDFFF)));
    if is_pair { end - 2 } else { end }
}

pub(super) fn decode_utf8<S: TextSink>(bytes: &[u8], sink: &mut S) -> Fidelity {
    // Nearly all text is valid, and checking it as a whole is many times faster than in chunks.
    if std::str::from_utf8(bytes).is_ok() {
        sink.text(bytes);
        return Fidelity::Exact;
    }
    for chunk in bytes.utf8_chunks() {
        sink.text(chunk.valid().as_bytes());
        if !chunk.invalid().is_empty() {
            sink.character(char::REPLACEMENT_CHARACTER);
        }
    }
    Fidelity::Inexact
}

pub(super) fn decode_utf16<S: TextSink>(bytes: &[u8], big_endian: bool, sink: &mut S) -> Fidelity {
    let (units, odd) = bytes.as_chunks::<2>();
    let units = units
        .iter()
        .map(|unit| if big_endian { u16::from_be_bytes(*unit) } else { u16::from_le_bytes(*unit) });
    let mut exact = true;
    for decoded in char::decode_utf16(units) {
        exact &= decoded.is_ok();
        sink.character(decoded.unwrap_or(char::REPLACEMENT_CHARACTER));
    }
    finish(odd, exact, sink)
}

pub(super) fn decode_fixed_width<S: TextSink>(
    bytes: &[u8],
    width: Width,
    sink: &mut S,
) -> Fidelity {
    let mut exact = true;
    let mut append = |number| {
        let character = char::from_u32(number);
        exact &= character.is_some();
        sink.character(character.unwrap_or(char::REPLACEMENT_CHARACTER));
    };
    let odd = match width {
        Width::Ucs2 => {
            let (units, odd) = bytes.as_chunks::<2>();
            units.iter().for_each(|unit| append(u32::from(u16::from_be_bytes(*unit))));
            odd
        }
        Width::Utf32 => {
            let (units, odd) = bytes.as_chunks::<4>();
            units.iter().for_each(|unit| append(u32::from_be_bytes(*unit)));
            odd
        }
    };
    finish(odd, exact, sink)
}

/// The remaining bytes at the end are one ill-formed character.
fn finish<S: TextSink>(odd: &[u8], exact: bool, sink: &mut S) -> Fidelity {
    if !odd.is_empty() {
        sink.character(char::REPLACEMENT_CHARACTER);
    }
    Fidelity::exact_if(exact && odd.is_empty())
}

pub(super) fn encode_utf16(text: &str, big_endian: bool) -> Vec<u8> {
    text.encode_utf16()
        .flat_map(|unit| if big_endian { unit.to_be_bytes() } else { unit.to_le_bytes() })
        .collect()
}

/// The error is the character that does not fit.
pub(super) fn encode_fixed_width(text: &str, width: Width) -> Result<Vec<u8>, char> {
    let mut bytes = Vec::with_capacity(text.len() * 2);
    for character in text.chars() {
        let number = u32::from(character);
        match width {
            Width::Ucs2 => {
                let unit = u16::try_from(number).map_err(|_| character)?;
                bytes.extend_from_slice(&unit.to_be_bytes());
            }
            Width::Utf32 => bytes.extend_from_slice(&number.to_be_bytes()),
        }
    }
    Ok(bytes)
}
