//! Encodes a frame: content of any bytes, mostly lines. `docs/specs/columns.md` has the format.

use std::io;

use crate::bytes::{Damage, put_varint};
use crate::keyed::{RowKeys, deltas, differences, predicted};
use crate::learn::Learned;
use crate::numbers;
use crate::plan::{KeyColumn, KeyPlan, Method, Series};
use crate::rows::Rows;
use crate::stream::Packer;
use crate::texts::TextParts;

/// Frames after which columns are looked at again: their styles, and which follows from which.
const LOOK_EACH: u64 = 32;

/// How a column is stored: one of these, or `KEYED` and the position of its key. The shapes have
/// position 0, the columns of the frame 1, 2 … in their order.
pub(crate) const PLAIN: u64 = 0;
pub(crate) const DELTA: u64 = 1;
pub(crate) const KEYED: u64 = 2;

/// Encodes the frames of a file, in order.
pub(crate) struct Encoder {
    learned: Learned,
    packer: Packer,
    plan: KeyPlan,
    frames: u64,
}

fn fault(damage: Damage) -> io::Error {
    io::Error::other(damage)
}

impl Encoder {
    pub(crate) fn new(level: i32) -> io::Result<Self> {
        let (learned, packer) = (Learned::new(), Packer::new(level)?);
        Ok(Self { learned, packer, plan: KeyPlan::default(), frames: 0 })
    }

    /// The bytes of the dictionary that the frames need.
    pub(crate) fn dictionary(&self) -> Vec<u8> {
        self.learned.bytes()
    }

    /// Appends the frame of some content, which has less than 4 GiB.
    pub(crate) fn frame(&mut self, content: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        let looks = self.frames.is_multiple_of(LOOK_EACH) || self.frames.is_power_of_two();
        self.frames += 1;
        let rows = Rows::cut(content, &mut self.learned, looks).map_err(fault)?;
        self.put_rows(out, content, &rows)?;
        let every: Vec<u32> = (0..rows.shapes.len() as u32).collect();
        let shapes = RowKeys::new(rows.shapes.len(), &every, &rows.shapes);
        let present = rows.present();
        if looks {
            let series =
                present.iter().map(|column| rows.columns[*column as usize].series(*column));
            let series: Vec<_> = series.collect();
            self.plan = KeyPlan::find(rows.shapes.len(), &shapes, &series);
        }
        let order = self.plan.order(&present);
        put_varint(out, order.len() as u64);
        // RowKeys that were made already, in the order of the columns.
        let mut keys: Vec<(u32, Option<RowKeys>)> = Vec::new();
        for (column, key) in order {
            let values = &rows.columns[column as usize];
            let series = values.series(column);
            put_varint(out, u64::from(column));
            let key = match key {
                None => None,
                Some(KeyColumn::Shape) => Some((0, &shapes)),
                Some(KeyColumn::Number(key)) => {
                    let series = rows.columns[key as usize].series(key);
                    let new = || RowKeys::new(rows.shapes.len(), series.rows, series.values);
                    let found = keys.iter_mut().zip(1..).find(|((column, _), _)| *column == key);
                    found.map(|((_, keys), position)| (position, &*keys.get_or_insert_with(new)))
                }
            };
            self.put_series(out, &series, key)?;
            if series.is_text {
                self.put_texts(out, content, &values.parts[0], false)?;
                if !values.parts[0].quoted.is_empty() {
                    self.put_texts(out, content, &values.parts[1], true)?;
                }
            }
            keys.push((column, None));
        }
        Ok(())
    }

    /// Appends which line has which shape, and what has none.
    fn put_rows(&mut self, out: &mut Vec<u8>, content: &[u8], rows: &Rows) -> io::Result<()> {
        put_varint(out, rows.shapes.len() as u64);
        numbers::put(out, &rows.shapes, &mut self.packer)?;
        let lengths: Vec<u64> = rows.stored.iter().map(|range| range.len() as u64).collect();
        numbers::put(out, &lengths, &mut self.packer)?;
        let stored: Vec<&[u8]> = rows.stored.iter().map(|range| &content[range.clone()]).collect();
        self.packer.put(out, &stored.concat())?;
        put_varint(out, rows.tail.len() as u64);
        self.packer.put(out, &content[rows.tail.clone()])
    }

    /// Appends numbers, or codes.
    fn put_series(
        &mut self,
        out: &mut Vec<u8>,
        series: &Series<'_>,
        key: Option<(usize, &RowKeys)>,
    ) -> io::Result<()> {
        let (method, simple) = series.simple();
        let keyed = key.map(|(position, keys)| match series.is_text {
            true => (position, predicted(keys, series.rows, series.values)),
            false => (position, differences(keys, series.rows, series.values)),
        });
        let keyed = keyed.filter(|(_, values)| numbers::cost(values.iter().copied()) < simple);
        if let Some((position, values)) = keyed {
            put_varint(out, KEYED + position as u64);
            return numbers::put(out, &values, &mut self.packer);
        }
        match method {
            Method::Plain => {
                put_varint(out, PLAIN);
                numbers::put(out, series.values, &mut self.packer)
            }
            Method::Delta => {
                put_varint(out, DELTA);
                let deltas: Vec<u64> = deltas(series.values).collect();
                numbers::put(out, &deltas, &mut self.packer)
            }
        }
    }

    /// Appends what codes stand for. Those of texts in quotes come first, because nothing predicts
    /// them.
    fn put_texts(
        &mut self,
        out: &mut Vec<u8>,
        content: &[u8],
        parts: &TextParts,
        is_quoted: bool,
    ) -> io::Result<()> {
        if is_quoted {
            numbers::put(out, &parts.codes, &mut self.packer)?;
        }
        let lengths = parts.stored.iter().map(|span| u64::from(span.end - span.start));
        numbers::put(out, &lengths.collect::<Vec<_>>(), &mut self.packer)?;
        let text = |span: &std::ops::Range<u32>| &content[span.start as usize..span.end as usize];
        let stored: Vec<&[u8]> = parts.stored.iter().map(text).collect();
        self.packer.put(out, &stored.concat())?;
        self.packer.put(out, &parts.is_delta)?;
        numbers::put(out, &parts.numbers, &mut self.packer)?;
        self.packer.put(out, &parts.hex)
    }
}
