//! The dictionary of a file that is being written. A pattern enters it when it is met for the
//! second time; before that, its line or text is stored as it is.

use std::collections::{HashMap, HashSet};

use twox_hash::XxHash3_64;

use crate::dictionary::{DICTIONARY_BYTES_MAX, Dictionary, PATTERNS_MAX, put_list};
use crate::pattern::{Pattern, PlaceKind};

/// Hashes of patterns that were met once. When there are more, all are forgotten.
const ONCE_MAX: usize = 1 << 15;
/// Space for the length of a pattern, bytes.
const LENGTH_BYTES: usize = 5;

/// Space for patterns.
pub(crate) struct Space {
    bytes: usize,
    patterns: usize,
}

impl Space {
    fn has(&self, bytes: usize) -> bool {
        self.bytes >= bytes + LENGTH_BYTES && self.patterns > 0
    }

    fn take(&mut self, bytes: usize) {
        self.bytes -= bytes + LENGTH_BYTES;
        self.patterns -= 1;
    }
}

/// A list of patterns, by their bytes.
#[derive(Default)]
pub(crate) struct Index {
    numbers: HashMap<Box<[u8]>, u32>,
    once: HashSet<u64>,
    lengths: Vec<u32>,
    bytes: Vec<u8>,
}

impl Index {
    pub(crate) fn find(&self, bytes: &[u8]) -> Option<u32> {
        self.numbers.get(bytes).copied()
    }

    /// Whether a pattern that is not in the list was met before.
    pub(crate) fn is_met_again(&mut self, bytes: &[u8]) -> bool {
        if self.once.len() >= ONCE_MAX {
            self.once.clear();
        }
        !self.once.insert(XxHash3_64::oneshot(bytes))
    }

    /// Adds a pattern that is not in the list. There is space for it.
    fn add(&mut self, bytes: &[u8], space: &mut Space) -> u32 {
        space.take(bytes.len());
        let number = self.lengths.len() as u32;
        self.numbers.insert(bytes.into(), number);
        self.lengths.push(bytes.len() as u32);
        self.bytes.extend_from_slice(bytes);
        number
    }
}

/// How the texts of a column are stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Style {
    /// Each text is a pattern without places.
    Whole,
    /// Texts are cut.
    #[default]
    Cut,
}

/// What is known of the texts of a column, or of the texts in quotes in these.
#[derive(Default)]
pub(crate) struct LearnedTexts {
    pub(crate) index: Index,
    pub(crate) style: Style,
    /// Hashes of the texts of the frame in which the style was decided last.
    pub(crate) looked_at: HashSet<u64>,
}

impl LearnedTexts {
    /// The number of a pattern, if it is in the dictionary or enters it now.
    pub(crate) fn learn(
        &mut self,
        bytes: &[u8],
        patterns: &mut Vec<Pattern>,
        space: &mut Space,
    ) -> Option<u32> {
        if let Some(number) = self.index.find(bytes) {
            return Some(number);
        }
        if !self.index.is_met_again(bytes) || !space.has(bytes.len()) {
            return None;
        }
        patterns.push(Pattern::parse(bytes).ok()?);
        Some(self.index.add(bytes, space))
    }
}

/// The dictionary, and what finds patterns in it.
pub(crate) struct Learned {
    pub(crate) dictionary: Dictionary,
    shapes: Index,
    /// Of each column.
    pub(crate) texts: Vec<[LearnedTexts; 2]>,
    pub(crate) space: Space,
}

impl Learned {
    pub(crate) fn new() -> Self {
        // A part for the numbers of patterns in each list.
        let bytes = DICTIONARY_BYTES_MAX - (64 << 10);
        Self {
            dictionary: Dictionary::default(),
            shapes: Index::default(),
            texts: Vec::new(),
            space: Space { bytes, patterns: PATTERNS_MAX },
        }
    }

    /// The number of a shape, if it is in the dictionary or enters it now.
    pub(crate) fn shape(&mut self, bytes: &[u8]) -> Option<u32> {
        if let Some(number) = self.shapes.find(bytes) {
            return Some(number);
        }
        // The columns of a reader follow from the shapes, so nothing may fail behind `add_shape`.
        if !self.shapes.is_met_again(bytes)
            || !self.space.has(bytes.len())
            || self.dictionary.add_shape(bytes) != Ok(true)
        {
            return None;
        }
        self.texts.resize_with(self.dictionary.columns.len(), Default::default);
        Some(self.shapes.add(bytes, &mut self.space))
    }

    /// The bytes of the dictionary.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put_list(&mut out, &self.shapes.lengths, &self.shapes.bytes);
        for (column, texts) in self.dictionary.columns.iter().zip(&self.texts) {
            if column.kind == PlaceKind::Text {
                for list in texts {
                    put_list(&mut out, &list.index.lengths, &list.index.bytes);
                }
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_is_learned_when_it_comes_again() {
        let mut learned = Learned::new();
        let shape = b"{\"a\":\"\x02\"}";
        assert_eq!([learned.shape(shape), learned.shape(shape)], [None, Some(0)]);
        let Learned { dictionary, texts, space, .. } = &mut learned;
        let patterns = &mut dictionary.columns[0].patterns[0];
        for number in [None, Some(0), Some(0)] {
            assert_eq!(texts[0][0].learn(b"x\x01", patterns, space), number);
        }
        let read = Dictionary::read(&learned.bytes()).unwrap();
        assert_eq!((read.shapes.len(), read.columns[0].patterns[0].len()), (1, 1));
    }
}
