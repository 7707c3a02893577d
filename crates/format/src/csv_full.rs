//! All fields of the record as columns (RFC 4180), in the order of a line. The header and the
//! columns follow from the table of fields in `crates/record`.
//!
//! Texts are in quotes, so that an empty one differs from a missing one; numbers, times and words
//! are not. Lists are the JSON of the line.

use tacho_record::time::TimeFormatter;
use tacho_record::{Attribute, Field, Record, TableUse, Value};

use crate::Formatter;
use crate::escape::{Escape, Json, name, statement};
use crate::place::Place;
use crate::words::number;

/// Inside quotes.
struct Cell;

impl Escape for Cell {
    fn is_special(byte: u8) -> bool {
        byte == b'"'
    }

    fn append(out: &mut Vec<u8>, _rest: &[u8]) -> usize {
        out.extend_from_slice(b"\"\"");
        1
    }
}

/// A text that begins with one of these is a formula for some spreadsheet. Some of them skip white
/// space at its beginning, and some convert full-width characters.
const FORMULA: [&str; 11] = ["=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠"];

/// Appends the header.
pub fn begin(out: &mut Vec<u8>) {
    for (index, field) in Field::ALL.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        out.extend_from_slice(field.name().as_bytes());
    }
    out.extend_from_slice(b"\r\n");
}

pub fn write(by: &Formatter, out: &mut Vec<u8>, record: &Record, clock: &mut TimeFormatter) {
    for (index, field) in Field::ALL.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        match record.value(*field) {
            Value::Number(None) | Value::Time(None) | Value::Flag(false) => {}
            Value::Name(None) | Value::Statement(None) => {}
            Value::Text(b"") | Value::Tables([]) | Value::Attributes([]) => {}
            Value::Number(Some(value)) => number(out, value),
            Value::Time(Some(us)) => out.extend_from_slice(clock.format(us)),
            Value::Name(Some(word)) => out.extend_from_slice(word.as_bytes()),
            Value::Flag(true) => out.extend_from_slice(b"true"),
            Value::Text(text) => quoted(by, out, |out| name::<Cell>(out, text)),
            Value::Statement(Some(text)) => {
                quoted(by, out, |out| statement::<Cell>(out, record, text));
            }
            Value::Tables(tables) => list(by, out, tables, table),
            Value::Attributes(attributes) => list(by, out, attributes, attribute),
        }
    }
    out.extend_from_slice(b"\r\n");
}

/// Appends a cell that `append` fills.
fn quoted(by: &Formatter, out: &mut Vec<u8>, append: impl FnOnce(&mut Vec<u8>)) {
    out.push(b'"');
    let begin = out.len();
    append(out);
    if by.guards_formulas && FORMULA.iter().any(|it| out[begin..].starts_with(it.as_bytes())) {
        out.insert(begin, b'\'');
    }
    out.push(b'"');
}

/// Appends a list as an array of JSON.
fn list<T>(by: &Formatter, out: &mut Vec<u8>, list: &[T], append: fn(&mut Vec<u8>, &T)) {
    quoted(by, out, |out| {
        for (index, entry) in list.iter().enumerate() {
            out.push(if index == 0 { b'[' } else { b',' });
            append(out, entry);
        }
        out.push(b']');
    });
}

fn table(out: &mut Vec<u8>, used: &TableUse) {
    member(out, b"{", "access", used.access.name().as_bytes());
    for (key, value) in [
        ("db", used.db),
        ("table", used.table),
        ("new_db", used.new_db),
        ("new_table", used.new_table),
    ] {
        if !value.is_empty() {
            member(out, b",", key, value);
        }
    }
    out.push(b'}');
}

fn attribute(out: &mut Vec<u8>, attribute: &Attribute) {
    member(out, b"{", "key", attribute.key);
    member(out, b",", "value", attribute.value);
    out.push(b'}');
}

/// Appends a member of an object, with the quotes of JSON doubled.
fn member(out: &mut Vec<u8>, before: &[u8], key: &str, value: &[u8]) {
    out.extend_from_slice(before);
    for part in [b"\"\"", key.as_bytes(), b"\"\":\"\""] {
        out.extend_from_slice(part);
    }
    name::<JsonInCell>(out, value);
    out.extend_from_slice(b"\"\"");
}

/// Inside a string of JSON, inside quotes.
struct JsonInCell;

impl Escape for JsonInCell {
    fn is_special(byte: u8) -> bool {
        Json::is_special(byte)
    }

    fn append(out: &mut Vec<u8>, rest: &[u8]) -> usize {
        let length = Json::append(out, rest);
        if rest[0] == b'"' {
            out.push(b'"');
        }
        length
    }
}

/// The position of each field.
pub const fn place(field: Field) -> Place {
    Place::In(field.name())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Format;
    use tacho_record::{EventKind, Outcome, TableAccess};

    fn lines(guard: bool, record: &Record) -> String {
        let mut out = Vec::new();
        let mut by = Formatter::new(Format::CsvFull, "db1").guarding_formulas(guard);
        let mut clock = TimeFormatter::utc();
        by.begin(&mut out, 0, &mut clock);
        by.write(&mut out, record, &mut clock);
        String::from_utf8(out).unwrap()
    }

    /// The cells of a row that are not empty, by their names.
    fn cells(text: &str) -> Vec<(String, String)> {
        let mut rows = vec![vec![String::new()]];
        let mut is_quoted = false;
        for character in text.chars() {
            let row = rows.last_mut().unwrap();
            match character {
                '"' => is_quoted = !is_quoted,
                ',' if !is_quoted => row.push(String::new()),
                '\n' if !is_quoted => rows.push(vec![String::new()]),
                '\r' if !is_quoted => {}
                _ => {}
            }
            if !matches!(character, ',' | '\n' | '\r') || is_quoted {
                rows.last_mut().unwrap().last_mut().unwrap().push(character);
            }
        }
        assert_eq!(
            (rows.len(), rows[0].len(), rows[1].len()),
            (3, Field::ALL.len(), rows[0].len())
        );
        let cells = rows[0].iter().cloned().zip(rows[1].iter().cloned());
        cells.filter(|(_, value)| !value.is_empty()).collect()
    }

    fn base() -> Record<'static> {
        Record { seq: 7, event: Some(EventKind::Statement), ..Record::default() }
    }

    #[test]
    fn every_field_is_a_column() {
        let tables = [TableUse {
            access: TableAccess::Read,
            db: b"d\"q",
            table: b"t\\",
            new_db: b"",
            new_table: b"",
        }];
        let record = Record {
            outcome: Some(Outcome::Ok),
            user: b"a,b\"c\"",
            sql: Some(b"SELECT 1,\r\n '\"'"),
            sql_charset: b"utf8mb4",
            sql_redacted: true,
            tables: &tables,
            rows_sent: Some(3),
            ..base()
        };
        let expected = [
            ("seq", "7"),
            ("ts", "1970-01-01T00:00:00.000000+00:00"),
            ("event", "statement"),
            ("outcome", "ok"),
            ("user", r#""a,b""c""""#),
            ("sql", "\"SELECT 1,\r\n '\"\"'\""),
            ("sql_redacted", "true"),
            ("sql_charset", "\"utf8mb4\""),
            ("tables", r#""[{""access"":""read"",""db"":""d\""q"",""table"":""t\\""}]""#),
            ("rows_sent", "3"),
        ];
        let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(cells(&lines(false, &record)), expected);
    }

    #[test]
    fn an_empty_statement_differs_from_a_missing_one() {
        let sql = |sql| {
            let all = cells(&lines(false, &Record { sql, ..base() }));
            all.into_iter().find(|(name, _)| name == "sql").map(|(_, value)| value)
        };
        assert_eq!((sql(None), sql(Some(b"")).as_deref()), (None, Some("\"\"")));
    }

    #[test]
    fn formulas_are_guarded_on_request() {
        for (text, is_formula) in [
            ("=1+1", true),
            ("+1", true),
            ("-- c", true),
            ("@x", true),
            ("\t=1", true),
            ("\n=1", true),
            ("＝1", true),
            ("SELECT =1", false),
            ("'=1", false),
            ("", false),
        ] {
            let record = Record { sql: Some(text.as_bytes()), ..base() };
            let cell = |guard| {
                let all = cells(&lines(guard, &record));
                all.into_iter().find(|(name, _)| name == "sql").expect("a cell").1
            };
            assert_eq!(cell(false), format!("\"{text}\""));
            let mark = if is_formula { "'" } else { "" };
            assert_eq!(cell(true), format!("\"{mark}{text}\""));
        }
    }
}
