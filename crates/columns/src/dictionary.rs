//! The dictionary, which all frames of a file share: shapes of lines, and templates of texts.

use std::collections::HashMap;

use crate::bytes::{Budget, Cursor, Damage, Decoded, put_varint};
use crate::line::{SHAPE_BYTES_MAX, VALUES_MAX, paths};
use crate::pattern::{Pattern, PlaceKind};

/// Bytes of a dictionary. It bounds the memory of a reader.
pub(crate) const DICTIONARY_BYTES_MAX: usize = 8 << 20;
/// Patterns of a dictionary.
pub(crate) const PATTERNS_MAX: usize = 1 << 17;
/// Columns of a file.
pub(crate) const COLUMNS_MAX: usize = 4096;

/// The shape of a line.
#[derive(Debug)]
pub(crate) struct LineShape {
    pub(crate) pattern: Pattern,
    /// The column of each place.
    pub(crate) columns: Box<[u32]>,
}

/// The values of one key. Their numbers follow from the shapes, in the order of these.
#[derive(Debug)]
pub(crate) struct Column {
    pub(crate) kind: PlaceKind,
    /// Templates of its texts, and of the texts in quotes in these.
    pub(crate) patterns: [Vec<Pattern>; 2],
}

/// Shapes and templates.
#[derive(Debug, Default)]
pub(crate) struct Dictionary {
    pub(crate) shapes: Vec<LineShape>,
    pub(crate) columns: Vec<Column>,
    numbers: HashMap<(PlaceKind, Vec<u8>), u32>,
}

impl Dictionary {
    /// Adds a shape. `Ok(false)`: its columns are too many.
    pub(crate) fn add_shape(&mut self, bytes: &[u8]) -> Decoded<bool> {
        let pattern = Pattern::parse(bytes)?;
        let paths = paths(bytes);
        let is_known = |place: &crate::pattern::Blank| !place.kind.has_width();
        if bytes.len() > SHAPE_BYTES_MAX
            || pattern.places.len() > VALUES_MAX
            || pattern.places.len() != paths.len()
            || !pattern.places.iter().all(is_known)
        {
            return Err(Damage("a shape is not one of a line"));
        }
        if self.columns.len() + paths.len() > COLUMNS_MAX {
            return Ok(false);
        }
        let columns = pattern.places.iter().zip(paths).map(|(place, path)| {
            *self.numbers.entry((place.kind, path)).or_insert_with(|| {
                self.columns.push(Column { kind: place.kind, patterns: Default::default() });
                self.columns.len() as u32 - 1
            })
        });
        let columns = columns.collect();
        self.shapes.push(LineShape { pattern, columns });
        Ok(true)
    }

    /// Reads what [`put_list`] has written.
    pub(crate) fn read(bytes: &[u8]) -> Decoded<Self> {
        let mut from = Cursor::new(bytes);
        let mut patterns = Budget::new(PATTERNS_MAX);
        let mut dictionary = Self::default();
        for shape in take_list(&mut from, &mut patterns)? {
            if !dictionary.add_shape(shape)? {
                return Err(Damage("the dictionary has too many columns"));
            }
        }
        for column in &mut dictionary.columns {
            if column.kind != PlaceKind::Text {
                continue;
            }
            for list in &mut column.patterns {
                let read = take_list(&mut from, &mut patterns)?;
                *list = read.into_iter().map(Pattern::parse).collect::<Decoded<_>>()?;
            }
        }
        from.end("it is too long").map(|()| dictionary)
    }
}

/// Appends byte strings: their number, their lengths, then the bytes.
pub(crate) fn put_list(out: &mut Vec<u8>, lengths: &[u32], bytes: &[u8]) {
    put_varint(out, lengths.len() as u64);
    lengths.iter().for_each(|length| put_varint(out, u64::from(*length)));
    out.extend_from_slice(bytes);
}

fn take_list<'a>(from: &mut Cursor<'a>, patterns: &mut Budget) -> Decoded<Vec<&'a [u8]>> {
    let count = from.count(patterns.left())?;
    patterns.spend(count)?;
    let lengths = (0..count).map(|_| from.count(DICTIONARY_BYTES_MAX));
    let lengths = lengths.collect::<Decoded<Vec<_>>>()?;
    lengths.into_iter().map(|length| from.take(length)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_follow_from_the_shapes() {
        let mut dictionary = Dictionary::default();
        for shape in [&b"{\"a\":\x01,\"b\":\"\x02\"}"[..], b"{\"b\":\"\x02\",\"a\":\"\x02\"}"] {
            assert_eq!(dictionary.add_shape(shape), Ok(true));
        }
        assert_eq!(*dictionary.shapes[0].columns, [0, 1]);
        assert_eq!(*dictionary.shapes[1].columns, [1, 2]);
        assert!(dictionary.add_shape(b"\x04\x02").is_err());
    }

    #[test]
    fn a_damaged_dictionary_is_refused() {
        let mut bytes = Vec::new();
        put_list(&mut bytes, &[6, 3], b"{\"a\":\x02\"\x02\"");
        put_list(&mut bytes, &[1], b"x");
        for list in [0, 0, 0] {
            put_varint(&mut bytes, list);
        }
        // Two columns of texts, with two lists each.
        assert_eq!(Dictionary::read(&bytes).unwrap().shapes.len(), 2);
        for length in 0..bytes.len() {
            assert!(Dictionary::read(&bytes[..length]).is_err(), "{length}");
        }
        assert!(Dictionary::read(&[bytes, vec![0]].concat()).is_err());
        let many = [0xFF, 0xFF, 0xFF, 0x7F];
        assert!(Dictionary::read(&many).is_err());
    }
}
