//! One JSON array of all records. An element is the line of the log, so it has the fields of
//! `docs/specs/record.md` and, unlike other formats, the bytes of texts that are not text.
//!
//! The comma is written before an element, so that each line is complete as soon as it is written.

use std::collections::TryReserveError;

use tacho_record::json::{try_write_line, write_line};
use tacho_record::time::TimeFormatter;
use tacho_record::{Field, Record};

use crate::Formatter;
use crate::place::Place;

pub const fn place(field: Field) -> Place {
    Place::In(field.name())
}

/// Appends the beginning.
pub fn begin(by: &mut Formatter, out: &mut Vec<u8>) {
    by.has_elements = false;
    out.extend_from_slice(b"[\n");
}

pub fn write(by: &mut Formatter, out: &mut Vec<u8>, record: &Record, clock: &mut TimeFormatter) {
    separate(by, out);
    write_line(out, record, clock);
}

pub fn try_write(
    by: &mut Formatter,
    out: &mut Vec<u8>,
    record: &Record,
    clock: &mut TimeFormatter,
) -> Result<(), TryReserveError> {
    let mut line = std::mem::take(&mut by.scratch);
    line.clear();
    let written = try_write_line(&mut line, record, clock)
        .and_then(|()| out.try_reserve(line.len().saturating_add(1)));
    if written.is_ok() {
        separate(by, out);
        out.extend_from_slice(&line);
    }
    by.scratch = line;
    written
}

fn separate(by: &mut Formatter, out: &mut Vec<u8>) {
    if std::mem::replace(&mut by.has_elements, true) {
        out.push(b',');
    }
}

/// Appends the end.
pub fn end(out: &mut Vec<u8>) {
    out.extend_from_slice(b"]\n");
}

#[cfg(test)]
mod tests {
    use tacho_record::EventKind;

    use super::*;
    use crate::Format;

    fn record(seq: u64) -> Record<'static> {
        // 0xFF is no character: the bytes are kept beside the text.
        let sql = Some(&b"SELECT '\xFF\n'"[..]);
        Record { seq, event: Some(EventKind::Statement), sql, ..Record::default() }
    }

    #[test]
    fn the_result_is_one_array_with_any_number_of_records() {
        let clock = &mut TimeFormatter::utc();
        let mut by = Formatter::new(Format::Json, "db1");
        for count in [0, 1, 3, 0] {
            let (mut out, mut tried) = (Vec::new(), Vec::new());
            by.begin(&mut out, 0, clock);
            (0..count).for_each(|seq| by.write(&mut out, &record(seq), clock));
            by.end(&mut out);
            by.begin(&mut tried, 0, clock);
            (0..count).for_each(|seq| by.try_write(&mut tried, &record(seq), clock).unwrap());
            by.end(&mut tried);
            assert_eq!(out, tried);
            let array: Vec<serde_json::Value> = serde_json::from_slice(&out).unwrap();
            assert_eq!(array.len() as u64, count);
            let lines: Vec<&[u8]> = out.split_inclusive(|byte| *byte == b'\n').collect();
            assert_eq!(lines.len() as u64, count + 2);
            for (seq, line) in (0..count).zip(&lines[1..]) {
                let mut own = Vec::new();
                write_line(&mut own, &record(seq), clock);
                assert_eq!(line.strip_prefix(b",").unwrap_or(line), own);
            }
        }
    }
}
