//! A report for programs: JSON lines or CSV.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use tacho_record::line::write_string;

use super::answer::{Answer, Cell, Column, Shown};

/// A moment with its offset; `None`: not one.
pub fn time(us: i64, zone: &TimeZone) -> Option<String> {
    let ts = Timestamp::from_microsecond(us).ok()?;
    Some(ts.to_zoned(zone.clone()).strftime("%Y-%m-%dT%H:%M:%S.%6f%:z").to_string())
}

fn is_data(column: &Column) -> bool {
    column.shown != Shown::Table
}

/// A JSON object for each row, with its members in the order of the columns. A value that is not
/// known is absent.
pub fn json(answer: &Answer, zone: &TimeZone) -> String {
    let mut out = Vec::new();
    for row in &answer.rows {
        let mut before = b'{';
        for (column, cell) in answer.columns.iter().zip(row).filter(|(column, _)| is_data(column)) {
            let (number, text) = match cell {
                Cell::Missing => continue,
                Cell::Text(text) | Cell::Digest(text) if text.is_empty() => continue,
                Cell::Text(text) | Cell::Digest(text) => (None, text.clone()),
                Cell::Number(number) | Cell::Duration(number) => (Some(number), String::new()),
                Cell::Time(us) => match time(*us, zone) {
                    Some(time) => (None, time),
                    None => continue,
                },
            };
            out.push(std::mem::replace(&mut before, b','));
            write_string(&mut out, column.name);
            out.push(b':');
            match number {
                Some(number) => out.extend_from_slice(number.to_string().as_bytes()),
                None => write_string(&mut out, &text),
            }
        }
        out.extend_from_slice(if before == b'{' { b"{}\n" } else { b"}\n" });
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// Comma-separated values with a header, as in RFC 4180.
pub fn csv(answer: &Answer, zone: &TimeZone) -> String {
    let mut text = String::new();
    let names = answer.columns.iter().filter(|column| is_data(column));
    push_record(&mut text, names.map(|column| column.name.to_owned()));
    for row in &answer.rows {
        let cells = answer.columns.iter().zip(row).filter(|(column, _)| is_data(column));
        let cells = cells.map(|(_, cell)| match cell {
            Cell::Missing => String::new(),
            Cell::Text(text) | Cell::Digest(text) => text.clone(),
            Cell::Number(number) | Cell::Duration(number) => number.to_string(),
            Cell::Time(us) => time(*us, zone).unwrap_or_default(),
        });
        push_record(&mut text, cells);
    }
    text
}

fn push_record(text: &mut String, values: impl Iterator<Item = String>) {
    for (index, value) in values.enumerate() {
        if index > 0 {
            text.push(',');
        }
        if value.contains(['"', ',', '\n', '\r']) {
            text.push('"');
            text.push_str(&value.replace('"', "\"\""));
            text.push('"');
        } else {
            text.push_str(&value);
        }
    }
    text.push_str("\r\n");
}
