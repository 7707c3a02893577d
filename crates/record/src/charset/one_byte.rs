//! Character sets of one byte: a table of 256 characters each.

use std::collections::HashMap;

use super::{Fidelity, TextSink, ascii_prefix_bytes};

/// A byte to which the server assigns no character.
const UNASSIGNED: u16 = 0xFFFD;

/// A character set of one byte.
#[derive(Debug)]
pub(super) struct OneByte {
    /// The character of every byte; U+FFFD if the server has none.
    pub(super) to_unicode: [u16; 256],
    /// Bytes that share their character with another byte, which is the usual one.
    pub(super) one_way: &'static [u8],
    /// Whether bytes below 0x80 are ASCII.
    pub(super) ascii_compatible: bool,
}

impl OneByte {
    pub(super) fn decode<S: TextSink>(&self, bytes: &[u8], sink: &mut S) -> Fidelity {
        let mut exact = true;
        let mut rest = bytes;
        loop {
            if self.ascii_compatible {
                let (ascii, other) = rest.split_at(ascii_prefix_bytes(rest));
                if !ascii.is_empty() {
                    sink.text(ascii);
                }
                rest = other;
            }
            let Some((&byte, tail)) = rest.split_first() else {
                return Fidelity::exact_if(exact);
            };
            let unit = self.to_unicode[usize::from(byte)];
            exact &= unit != UNASSIGNED && !self.one_way.contains(&byte);
            sink.character(bmp_character(unit));
            rest = tail;
        }
    }

    /// The error is the character that has no byte.
    pub(super) fn encode(&self, text: &str) -> Result<Vec<u8>, char> {
        let bytes: HashMap<char, u8> = (0..=255)
            .filter(|byte| !self.one_way.contains(byte))
            .map(|byte| (bmp_character(self.to_unicode[usize::from(byte)]), byte))
            .filter(|(character, _)| *character != char::REPLACEMENT_CHARACTER)
            .collect();
        text.chars().map(|character| bytes.get(&character).copied().ok_or(character)).collect()
    }
}

/// The character of a table entry. The tables contain no surrogates; one would become U+FFFD.
pub(super) fn bmp_character(unit: u16) -> char {
    char::from_u32(u32::from(unit)).unwrap_or(char::REPLACEMENT_CHARACTER)
}
