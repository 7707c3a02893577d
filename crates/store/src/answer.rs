//! A row back into the line that it came from.

use std::borrow::Cow;

use serde_json::Value;
use tacho_record::line::{Attribute, LineValue, Touched, write_field, write_string};
use tacho_record::time::TimeFormatter;
use tacho_record::{Field, Kind};

use crate::columns::{COLUMNS, ColumnKind, column_name};

/// Why a row is not one of the view `records`.
#[derive(Debug, thiserror::Error)]
pub enum AnswerError {
    /// It has another number of values than there are columns.
    #[error("the row has {0} values, not one for each column")]
    Length(usize),
    /// A value is not of its column's type.
    #[error("column {0}: unexpected value")]
    Value(&'static str),
}

/// The JSON of a record: its line as in the log, and `server`, the name of its origin.
///
/// `row` has the values of all [`COLUMNS`] in their order; times are µs since 1970 as numbers. The
/// record's own `server` is named `server_version`. A line that is not a record becomes an object
/// with its text, `raw`.
///
/// # Errors
/// If the row does not have these columns.
pub fn record_json(row: &[Value]) -> Result<String, AnswerError> {
    if row.len() != COLUMNS.len() {
        return Err(AnswerError::Length(row.len()));
    }
    let of = |kind: ColumnKind| COLUMNS.iter().position(|column| column.kind == kind);
    let text = |kind| of(kind).and_then(|at| row[at].as_str());
    let server = text(ColumnKind::Server).ok_or(AnswerError::Value("server"))?;
    let mut out = Vec::with_capacity(512);
    match text(ColumnKind::Raw) {
        Some(raw) => write_raw(&mut out, raw, !row[seq_at()].is_null()),
        None => write_row(&mut out, row)?,
    }
    write_server(&mut out, server);
    String::from_utf8(out).map_err(|_| AnswerError::Value("raw"))
}

/// The JSON of a record, from its line: what [`record_json`] makes of its row. A line is a record
/// if its row has a number, `seq`.
#[must_use]
pub fn line_json(server: &str, line: &str, is_record: bool) -> String {
    let mut out = Vec::with_capacity(line.len() + 64);
    write_raw(&mut out, line, is_record);
    write_server(&mut out, server);
    // Made of texts alone.
    String::from_utf8(out).unwrap_or_default()
}

/// Puts the name of the origin at the end of an object.
fn write_server(out: &mut Vec<u8>, server: &str) {
    out.pop();
    out.extend_from_slice(b",\"server\":");
    write_string(out, server);
    out.push(b'}');
}

fn seq_at() -> usize {
    let is_seq = |column: &crate::Column| column.kind == ColumnKind::Field(Field::seq);
    COLUMNS.iter().position(is_seq).unwrap_or(0)
}

fn write_raw(out: &mut Vec<u8>, raw: &str, is_record: bool) {
    if is_record {
        // In JSON these characters are a key: within a text the quotes would be escaped.
        out.extend_from_slice(raw.replacen(",\"server\":", ",\"server_version\":", 1).as_bytes());
    } else {
        out.extend_from_slice(b"{\"raw\":");
        write_string(out, raw);
        out.push(b'}');
    }
}

fn write_row(out: &mut Vec<u8>, row: &[Value]) -> Result<(), AnswerError> {
    let minutes = COLUMNS.iter().position(|column| column.kind == ColumnKind::TsOffset);
    let minutes = minutes.and_then(|at| row[at].as_i64()).unwrap_or(0);
    let mut clock = i16::try_from(minutes)
        .ok()
        .and_then(TimeFormatter::fixed)
        .ok_or(AnswerError::Value("ts_offset"))?;
    out.extend_from_slice(b"{\"v\":1");
    for (column, value) in COLUMNS.iter().zip(row) {
        let ColumnKind::Field(field) = column.kind else { continue };
        let wrong = || AnswerError::Value(column.name);
        let key = column_name(field);
        let mut write = |value| write_field(out, &mut clock, key, value);
        match (field.kind(), value) {
            (_, Value::Null) => {}
            (Kind::Flag, Value::Bool(flag)) => {
                write(if *flag { LineValue::True } else { LineValue::Missing });
            }
            (Kind::Seq | Kind::Number | Kind::Port | Kind::Errno, value) => {
                write(LineValue::Number(value.as_u64().ok_or_else(wrong)?));
            }
            (Kind::Instant | Kind::Time, value) => {
                write(LineValue::Time(value.as_i64().ok_or_else(wrong)?));
            }
            (Kind::Tables, Value::Array(list)) => {
                let tables: Vec<Touched> = list.iter().map(touched).collect();
                write(LineValue::Tables(&tables));
            }
            (Kind::Attributes, Value::Array(list)) => {
                let attributes: Vec<Attribute> = list.iter().map(attribute).collect();
                write(LineValue::Attributes(&attributes));
            }
            // As a line had it.
            (Kind::Params, Value::String(text)) => write(LineValue::Json(text)),
            (_, Value::String(text)) => write(LineValue::Text(text)),
            _ => return Err(wrong()),
        }
    }
    out.push(b'}');
    Ok(())
}

fn member<'a>(object: &'a Value, key: &str) -> Cow<'a, str> {
    Cow::Borrowed(object.get(key).and_then(Value::as_str).unwrap_or_default())
}

fn touched(object: &Value) -> Touched<'_> {
    Touched {
        access: member(object, "access"),
        db: member(object, "db"),
        db_b64: None,
        table: member(object, "table"),
        table_b64: None,
        new_db: member(object, "new_db"),
        new_db_b64: None,
        new_table: member(object, "new_table"),
        new_table_b64: None,
    }
}

fn attribute(object: &Value) -> Attribute<'_> {
    Attribute {
        key: member(object, "key"),
        key_b64: None,
        value: member(object, "value"),
        value_b64: None,
    }
}
