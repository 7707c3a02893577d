//! Decodes a frame. Nothing in it is trusted: whatever takes memory is taken from the length of the
//! content first, which the file bounds.

use crate::bytes::{Budget, Cursor, Damage, Decoded};
use crate::dictionary::{Column, Dictionary};
use crate::encode::{DELTA, KEYED, PLAIN};
use crate::keyed::{RowKeys, from_deltas, from_differences, from_predicted};
use crate::numbers;
use crate::pattern::PlaceKind;
use crate::read_texts::Texts;
use crate::stream::Unpacker;
use crate::time::Clock;
use crate::write::{LineOutput, put_number};

/// The values of a column in a frame.
#[derive(Default)]
struct CodedValues {
    /// The row of each value.
    rows: Vec<u32>,
    /// Numbers, or codes of texts.
    numbers: Vec<u64>,
    texts: Option<Texts>,
    /// The next value.
    next: usize,
}

/// The lines of a frame.
struct CodedRows {
    /// Of each line the number of its shape, one higher; 0: the line is stored.
    shapes: Vec<u64>,
    lengths: Vec<u64>,
    stored: Vec<u8>,
    tail: Vec<u8>,
    columns: Vec<CodedValues>,
}

/// Decodes a frame whose content has `length` bytes.
pub(crate) fn frame(
    bytes: &[u8],
    length: usize,
    dictionary: &Dictionary,
    unpacker: &mut Unpacker,
) -> Decoded<Vec<u8>> {
    let mut from = Cursor::new(bytes);
    let mut budget = Budget::new(length);
    let mut rows = CodedRows::read(&mut from, &mut budget, dictionary, unpacker)?;
    rows.read_columns(&mut from, &mut budget, dictionary, unpacker)?;
    from.end("it is too long")?;
    rows.write(length, dictionary)
}

impl CodedRows {
    /// Reads which line has which shape, and what has none.
    fn read(
        from: &mut Cursor<'_>,
        budget: &mut Budget,
        dictionary: &Dictionary,
        unpacker: &mut Unpacker,
    ) -> Decoded<Self> {
        let count = from.count(budget.left())?;
        let shapes = numbers::take(from, count, unpacker)?;
        let mut columns = Vec::new();
        columns.resize_with(dictionary.columns.len(), CodedValues::default);
        let mut stored_lines = 0;
        for (row, shape) in (0..).zip(&shapes) {
            let Some(number) = shape.checked_sub(1) else {
                stored_lines += 1;
                budget.spend(1)?;
                continue;
            };
            let shape = usize::try_from(number).ok().and_then(|it| dictionary.shapes.get(it));
            let shape = shape.ok_or(Damage("a line has an unknown shape"))?;
            budget.spend(shape.pattern.line_weight())?;
            for column in &shape.columns {
                columns[*column as usize].rows.push(row);
            }
        }
        let lengths = numbers::take(from, stored_lines, unpacker)?;
        let stored = take_stored(from, &lengths, budget, unpacker)?;
        let tail = from.count(budget.left())?;
        budget.spend(tail)?;
        let tail = unpacker.take(from, tail)?;
        Ok(Self { shapes, lengths, stored, tail, columns })
    }

    fn read_columns(
        &mut self,
        from: &mut Cursor<'_>,
        budget: &mut Budget,
        dictionary: &Dictionary,
        unpacker: &mut Unpacker,
    ) -> Decoded<()> {
        let present = self.columns.iter().filter(|values| !values.rows.is_empty()).count();
        if from.count(present)? != present {
            return Err(Damage("a frame has another number of columns"));
        }
        let every: Vec<u32> = (0..self.shapes.len() as u32).collect();
        // Of the shapes, and of the columns that were read.
        let mut keys = vec![(None, Some(RowKeys::new(every.len(), &every, &self.shapes)))];
        for _ in 0..present {
            let at = from.count(dictionary.columns.len())?;
            let column = dictionary.columns.get(at).ok_or(Damage("a column is not known"))?;
            let values = &self.columns[at];
            if values.rows.is_empty() || !values.numbers.is_empty() {
                return Err(Damage("a column has no values, or comes twice"));
            }
            let method = from.varint()?;
            let mut numbers = numbers::take(from, values.rows.len(), unpacker)?;
            if let Some(position) = method.checked_sub(KEYED) {
                let key = usize::try_from(position).ok().and_then(|it| keys.get_mut(it));
                let (column_of_key, keys) = key.ok_or(Damage("a key is not there"))?;
                let keys = keys.get_or_insert_with(|| {
                    let key = &self.columns[column_of_key.unwrap_or(0)];
                    RowKeys::new(every.len(), &key.rows, &key.numbers)
                });
                match column.kind {
                    PlaceKind::Text => from_predicted(keys, &values.rows, &mut numbers),
                    _ => from_differences(keys, &values.rows, &mut numbers),
                }
            } else if method == DELTA && column.kind != PlaceKind::Text {
                from_deltas(&mut numbers);
            } else if method != PLAIN {
                return Err(Damage("a column has an unknown method"));
            }
            let texts = read_texts(from, column, &numbers, budget, unpacker)?;
            let values = &mut self.columns[at];
            (values.numbers, values.texts) = (numbers, texts);
            keys.push((Some(at), None));
        }
        Ok(())
    }

    /// Puts the lines together.
    fn write(mut self, length: usize, dictionary: &Dictionary) -> Decoded<Vec<u8>> {
        let mut out = LineOutput::new(length);
        let mut clock = Clock::new();
        let (mut lengths, mut stored) = (self.lengths.iter(), &self.stored[..]);
        for number in &self.shapes {
            let Some(number) = number.checked_sub(1) else {
                let length = lengths.next().map_or(0, |length| *length as usize);
                let (line, rest) = stored.split_at_checked(length).unwrap_or_default();
                stored = rest;
                out.put(line);
                out.end_line()?;
                continue;
            };
            let shape = &dictionary.shapes[number as usize];
            let mut before = 0;
            for (place, column) in shape.pattern.places.iter().zip(&shape.columns) {
                out.put(shape.pattern.text(before..place.before));
                before = place.before;
                let values = &mut self.columns[*column as usize];
                let at = values.next;
                values.next += 1;
                match (place.kind, &values.texts) {
                    (PlaceKind::Text, Some(texts)) => {
                        let patterns = &dictionary.columns[*column as usize].patterns;
                        texts.put(&mut out, at, values.numbers[at], patterns)?;
                    }
                    (PlaceKind::Time, _) => {
                        let time = clock.text(values.numbers[at]);
                        out.put(time.ok_or(Damage("a time is after the year 9999"))?);
                    }
                    _ => put_number(&mut out, values.numbers[at]),
                }
            }
            out.put(shape.pattern.end());
            out.end_line()?;
        }
        out.put(&self.tail);
        out.finish()
    }
}

/// The next bytes that are stored in pieces of these lengths.
pub(crate) fn take_stored(
    from: &mut Cursor<'_>,
    lengths: &[u64],
    budget: &mut Budget,
    unpacker: &mut Unpacker,
) -> Decoded<Vec<u8>> {
    let mut sum = 0;
    for length in lengths {
        let length = usize::try_from(*length).map_err(|_| Damage("a text is too long"))?;
        budget.spend(length)?;
        sum += length;
    }
    unpacker.take(from, sum)
}

fn read_texts(
    from: &mut Cursor<'_>,
    column: &Column,
    codes: &[u64],
    budget: &mut Budget,
    unpacker: &mut Unpacker,
) -> Decoded<Option<Texts>> {
    match column.kind {
        PlaceKind::Text => Texts::read(from, &column.patterns, codes, budget, unpacker).map(Some),
        _ => Ok(None),
    }
}
