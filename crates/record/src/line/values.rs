//! The values of a line, field by field, and the line written from them again.
//!
//! An index keeps the values in columns. A line that [`write_values`] gives back byte for byte
//! needs nothing else; any other line (with original bytes in base64, with fields of a later
//! release, changed by hand) has to be kept verbatim.

use crate::fields::{Field, fields};
use crate::line::{Attribute, Line, SqlText, Touched};
use crate::time::TimeFormatter;

/// The value of a field of a line that was read.
#[derive(Clone, Copy, Debug)]
pub enum LineValue<'a> {
    /// The line does not have the field.
    Missing,
    /// A number.
    Number(u64),
    /// µs since 1970-01-01 UTC.
    Time(i64),
    /// A text or a word. Original bytes in base64 are not included.
    Text(&'a str),
    /// The field is `true`.
    True,
    /// Tables in the order of their first use; never empty.
    Tables(&'a [Touched<'a>]),
    /// Keys and values in their original order; never empty.
    Attributes(&'a [Attribute<'a>]),
    /// The text of an array of JSON.
    Json(&'a str),
}

/// The [`LineValue`] of a field.
macro_rules! line_value {
    (Seq $value:expr) => {
        LineValue::Number($value)
    };
    (Instant $value:expr) => {
        LineValue::Time($value.as_microsecond())
    };
    (Number $value:expr) => {
        $value.map_or(LineValue::Missing, LineValue::Number)
    };
    (Port $value:expr) => {
        $value.map_or(LineValue::Missing, |port| LineValue::Number(port.into()))
    };
    (Errno $value:expr) => {
        match $value {
            0 => LineValue::Missing,
            errno => LineValue::Number(errno.into()),
        }
    };
    (Flag $value:expr) => {
        if $value { LineValue::True } else { LineValue::Missing }
    };
    (Statement $value:expr) => {
        match &$value {
            SqlText { text: Some(text), .. } => LineValue::Text(text),
            SqlText { text: None, .. } => LineValue::Missing,
        }
    };
    (Tables $value:expr) => {
        match &$value[..] {
            [] => LineValue::Missing,
            tables => LineValue::Tables(tables),
        }
    };
    (Attributes $value:expr) => {
        match &$value[..] {
            [] => LineValue::Missing,
            attributes => LineValue::Attributes(attributes),
        }
    };
    (Params $value:expr) => {
        match &*$value {
            "" => LineValue::Missing,
            text => LineValue::Json(text),
        }
    };
    (Time $value:expr) => {
        $value.map_or(LineValue::Missing, |time| LineValue::Time(time.as_microsecond()))
    };
    ($text:ident $value:expr) => {
        match &*$value {
            "" => LineValue::Missing,
            text => LineValue::Text(text),
        }
    };
}

macro_rules! values {
    ($($group:ident { $($key:ident => $field:ident: $kind:ident,
        $what:literal, $present:literal, $source:literal;)* })*) => {
        impl Line<'_> {
            /// The value of a field.
            pub fn value(&self, field: Field) -> LineValue<'_> {
                match field {
                    $($(Field::$key => line_value!($kind self.$key),)*)*
                }
            }
        }
    };
}
fields!(values);

/// Appends the line that has these values, without its newline. `clock` writes its times.
pub fn write_values<'a>(
    out: &mut Vec<u8>,
    clock: &mut TimeFormatter,
    value: impl Fn(Field) -> LineValue<'a>,
) {
    out.extend_from_slice(b"{\"v\":1");
    for &field in Field::ALL {
        write_field(out, clock, field.name(), value(field));
    }
    out.push(b'}');
}

/// Appends `,"key":value`, if there is a value.
pub fn write_field(out: &mut Vec<u8>, clock: &mut TimeFormatter, key: &str, value: LineValue) {
    if let LineValue::Missing = value {
        return;
    }
    out.extend_from_slice(b",\"");
    out.extend_from_slice(key.as_bytes());
    out.extend_from_slice(b"\":");
    match value {
        LineValue::Missing => {}
        LineValue::Number(number) => write_number(out, number),
        LineValue::Time(time_us) => {
            out.push(b'"');
            out.extend_from_slice(clock.format(time_us));
            out.push(b'"');
        }
        LineValue::Text(text) => write_string(out, text),
        LineValue::True => out.extend_from_slice(b"true"),
        LineValue::Tables(tables) => write_tables(out, tables),
        LineValue::Attributes(attributes) => write_attributes(out, attributes),
        LineValue::Json(text) => out.extend_from_slice(text.as_bytes()),
    }
}

fn write_number(out: &mut Vec<u8>, mut number: u64) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

fn write_tables(out: &mut Vec<u8>, tables: &[Touched]) {
    for (index, used) in tables.iter().enumerate() {
        out.extend_from_slice(if index == 0 { b"[{\"access\":" } else { b",{\"access\":" });
        write_string(out, &used.access);
        let names = [
            (&b",\"db\":"[..], &used.db),
            (b",\"table\":", &used.table),
            (b",\"new_db\":", &used.new_db),
            (b",\"new_table\":", &used.new_table),
        ];
        for (key, name) in names {
            if !name.is_empty() {
                out.extend_from_slice(key);
                write_string(out, name);
            }
        }
        out.push(b'}');
    }
    out.push(b']');
}

fn write_attributes(out: &mut Vec<u8>, attributes: &[Attribute]) {
    for (index, attribute) in attributes.iter().enumerate() {
        out.extend_from_slice(if index == 0 { b"[{\"key\":" } else { b",{\"key\":" });
        write_string(out, &attribute.key);
        out.extend_from_slice(b",\"value\":");
        write_string(out, &attribute.value);
        out.push(b'}');
    }
    out.push(b']');
}

/// Appends a JSON string with the escapes that a line has.
pub fn write_string(out: &mut Vec<u8>, text: &str) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let bytes = text.as_bytes();
    out.push(b'"');
    let mut done = 0;
    for (at, &byte) in bytes.iter().enumerate() {
        if byte >= 0x20 && byte != b'"' && byte != b'\\' {
            continue;
        }
        out.extend_from_slice(&bytes[done..at]);
        done = at + 1;
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            0x08 => out.extend_from_slice(b"\\b"),
            0x0C => out.extend_from_slice(b"\\f"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            control => {
                let [high, low] = [control >> 4, control & 15].map(|digit| HEX[digit as usize]);
                out.extend_from_slice(&[b'\\', b'u', b'0', b'0', high, low]);
            }
        }
    }
    out.extend_from_slice(&bytes[done..]);
    out.push(b'"');
}
