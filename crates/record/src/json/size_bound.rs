//! An upper bound for the memory that a line needs, before it is written.
//!
//! The texts of a record may be huge, and growing the batch must not end a process that is short of
//! memory. Short lines share one number; long texts are measured.

use super::escape::EscapedText;
use crate::charset::{Charset, Fidelity, TextSink};
use crate::record::{Attribute, Length, Record, TableUse};

/// Enough for a line without a long text and without tables: its names are at most as large as
/// a record's fixed part in the arena (32 KiB), and grow at most by [`GROWTH_MAX`].
const USUAL_BYTES: usize = 320 << 10;
/// Texts up to this length need not be measured.
const SHORT_BYTES: usize = 4 << 10;
/// Texts that are all shorter than this are covered by [`USUAL_BYTES`]. A power of two.
const USUAL_TEXT_BYTES: usize = 1 << 10;
/// Most bytes that one byte of text can become: an escape like \u0000, and its base64.
const GROWTH_MAX: usize = 8;

/// An upper bound for the line of `record`, bytes.
#[inline(always)]
pub(super) fn size_bound(record: &Record) -> usize {
    let mut lengths = 0;
    record.each_text(|length, text| {
        if length != Length::Name {
            lengths |= text.len();
        }
    });
    // No bit of any length is as high.
    if lengths < USUAL_TEXT_BYTES && record.tables.is_empty() && record.attributes.is_empty() {
        return USUAL_BYTES;
    }
    measured(record)
}

#[inline(never)]
fn measured(record: &Record) -> usize {
    let charset = record.text_charset().unwrap_or(Charset::BINARY);
    let mut bytes = USUAL_BYTES;
    record.each_text(|length, text| {
        let of_text = match length {
            Length::Name => 0,
            Length::Message => text_bound(text, Charset::UTF8MB4),
            Length::Statement => text_bound(text, charset),
        };
        bytes = bytes.saturating_add(of_text);
    });
    let tables = record.tables.iter().map(table_bound);
    let attributes = record.attributes.iter().map(attribute_bound);
    tables.chain(attributes).fold(bytes, usize::saturating_add)
}

fn attribute_bound(attribute: &Attribute) -> usize {
    const KEYS: usize = 64;
    (attribute.key.len() + attribute.value.len()).saturating_mul(GROWTH_MAX).saturating_add(KEYS)
}

fn table_bound(used: &TableUse) -> usize {
    const KEYS: usize = 128;
    let names = used.db.len() + used.table.len() + used.new_db.len() + used.new_table.len();
    names * GROWTH_MAX + KEYS
}

/// Exact for long texts.
fn text_bound(bytes: &[u8], charset: &Charset) -> usize {
    if bytes.len() <= SHORT_BYTES {
        return bytes.len() * GROWTH_MAX;
    }
    let mut counter = Counter { bytes: 0, piece: Vec::with_capacity(8 * PIECE_BYTES) };
    let fidelity = charset.decode(bytes, &mut counter);
    let base64 = match fidelity {
        Fidelity::Exact => 0,
        Fidelity::Inexact => bytes.len().div_ceil(3) * 4,
    };
    // Memory for the unescaped text is reserved once more before it is written.
    counter.bytes.max(bytes.len()).saturating_add(base64)
}

const PIECE_BYTES: usize = 1024;

/// Counts the escaped text by escaping it in pieces.
struct Counter {
    bytes: usize,
    piece: Vec<u8>,
}

impl Counter {
    fn count(&mut self, append: impl FnOnce(&mut EscapedText<'_>)) {
        self.piece.clear();
        append(&mut EscapedText::new(&mut self.piece));
        self.bytes = self.bytes.saturating_add(self.piece.len());
    }
}

impl TextSink for Counter {
    fn text(&mut self, utf8: &[u8]) {
        for piece in utf8.chunks(PIECE_BYTES) {
            self.count(|sink| sink.text(piece));
        }
    }

    fn character(&mut self, character: char) {
        self.count(|sink| sink.character(character));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::write_line;
    use crate::record::{EventKind, TableAccess};
    use crate::time::TimeFormatter;

    fn line_bytes(record: &Record) -> usize {
        let mut line = Vec::new();
        write_line(&mut line, record, &mut TimeFormatter::utc());
        line.len()
    }

    #[test]
    fn no_line_is_larger_than_its_bound() {
        let texts: [Vec<u8>; 6] = [
            vec![b'x'; 20_000],
            vec![0; 20_000],
            vec![0xFF; 20_000],
            b"\x01\xFF\"\\".repeat(5_000),
            "ソ\u{1F600}".repeat(4_000).into_bytes(),
            vec![0x80; SHORT_BYTES],
        ];
        for text in &texts {
            for charset in Charset::all() {
                let sql_charset = charset.name().as_bytes();
                let name = &text[..4096];
                let used = TableUse {
                    access: TableAccess::Rename,
                    db: name,
                    table: name,
                    new_db: name,
                    new_table: name,
                };
                let tables = [used; 3];
                let plain = Record { sql: Some(text), sql_charset, ..Record::default() };
                let attributes = [Attribute { key: name, value: name }; 3];
                let notice = Record {
                    event: Some(EventKind::Notice),
                    detail: text,
                    attributes: &attributes,
                    ..Record::default()
                };
                let full = Record { error: text, user: name, tables: &tables, ..plain.clone() };
                for record in [plain, full, notice] {
                    let (bound, bytes) = (size_bound(&record), line_bytes(&record));
                    assert!(
                        bytes <= bound,
                        "{} {:x?}: {bound} {bytes}",
                        charset.name(),
                        &text[..4]
                    );
                    // The bound must not be so much larger that it is useless.
                    let slack = 2 * USUAL_BYTES + text.len();
                    assert!(bound <= bytes + slack, "{}: {bound} {bytes}", charset.name());
                }
            }
        }
    }
}
