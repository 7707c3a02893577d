//! The lines of a frame, by columns.

use std::ops::Range;

use memchr::memchr_iter;

use crate::bytes::Decoded;
use crate::learn::Learned;
use crate::line::{LineParts, PlaceValue};
use crate::plan::Series;
use crate::template::{Cut, Level};
use crate::texts::{Cutter, Span, TextParts};

const LEVELS: [Level; 2] = [Level::Outer, Level::Quoted];

/// The values of a column in a frame.
#[derive(Default)]
pub(crate) struct Values {
    /// The row of each value.
    rows: Vec<u32>,
    numbers: Vec<u64>,
    texts: Vec<Span>,
    /// Of the texts, and of the texts in quotes in these.
    pub(crate) parts: [TextParts; 2],
}

impl Values {
    /// Numbers, or codes of texts.
    pub(crate) fn series(&self, column: u32) -> Series<'_> {
        let is_text = !self.texts.is_empty();
        let values = if is_text { &self.parts[0].codes } else { &self.numbers };
        Series { column, is_text, rows: &self.rows, values }
    }

    /// Cuts the texts. `looks`: whether they are cut is decided again.
    fn cut(
        &mut self,
        cutter: &mut Cutter<'_>,
        learned: &mut Learned,
        column: usize,
        looks: bool,
    ) -> Decoded<()> {
        let space = &mut learned.space;
        let patterns = learned.dictionary.columns[column].patterns.iter_mut();
        let levels = learned.texts[column].iter_mut().zip(patterns).zip(LEVELS);
        for (at, ((texts, patterns), level)) in levels.enumerate() {
            let spans = if at == 0 { &self.texts } else { &self.parts[0].quoted };
            if looks && !spans.is_empty() {
                cutter.decide_style(spans, texts);
            }
            self.parts[at] = cutter.parts(spans, texts, patterns, space, level)?;
        }
        Ok(())
    }
}

/// The lines of a frame.
#[derive(Default)]
pub(crate) struct Rows {
    /// Of each line the number of its shape, one higher; 0: the line is stored.
    pub(crate) shapes: Vec<u64>,
    /// Lines without a shape.
    pub(crate) stored: Vec<Range<usize>>,
    /// What is behind the last line feed.
    pub(crate) tail: Range<usize>,
    /// By their numbers.
    pub(crate) columns: Vec<Values>,
}

impl Rows {
    /// Cuts content into columns.
    pub(crate) fn cut(content: &[u8], learned: &mut Learned, looks: bool) -> Decoded<Self> {
        let mut rows = Self::default();
        let mut parts = LineParts::default();
        let mut begin = 0;
        for end in memchr_iter(b'\n', content) {
            let is_cut = parts.cut(content, begin..end);
            let shape = if is_cut { learned.shape(&parts.shape) } else { None };
            match shape {
                Some(shape) => rows.add(shape, &mut parts, learned),
                None => {
                    rows.shapes.push(0);
                    rows.stored.push(begin..end);
                }
            }
            begin = end + 1;
        }
        rows.tail = begin..content.len();
        let mut cut = Cut::default();
        let mut cutter = Cutter { content, cut: &mut cut };
        for (at, values) in rows.columns.iter_mut().enumerate() {
            if !values.texts.is_empty() {
                values.cut(&mut cutter, learned, at, looks)?;
            }
        }
        Ok(rows)
    }

    fn add(&mut self, shape: u32, parts: &mut LineParts, learned: &Learned) {
        let row = self.shapes.len() as u32;
        self.shapes.push(u64::from(shape) + 1);
        let count = learned.dictionary.columns.len();
        if self.columns.len() < count {
            self.columns.resize_with(count, Values::default);
        }
        let columns = &learned.dictionary.shapes[shape as usize].columns;
        for (column, value) in columns.iter().zip(parts.values.drain(..)) {
            let values = &mut self.columns[*column as usize];
            values.rows.push(row);
            match value {
                PlaceValue::Number(number) => values.numbers.push(number),
                PlaceValue::Text(span) => values.texts.push(span),
            }
        }
    }

    /// The columns that have values.
    pub(crate) fn present(&self) -> Vec<u32> {
        let all = (0..).zip(&self.columns);
        all.filter(|(_, values)| !values.rows.is_empty()).map(|(column, _)| column).collect()
    }
}
