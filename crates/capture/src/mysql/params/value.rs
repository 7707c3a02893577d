//! One value of the binary protocol ("Binary Protocol Value"), as clients send it.

use std::fmt::{Display, LowerExp};

use tacho_ring::params::Param;

use super::Values;
use crate::mysql::read::Reader;

/// The bit of a type that says that its value has no sign.
const UNSIGNED: u16 = 1 << 15;
const DATE: u16 = 10;

/// The type of a value.
#[derive(Clone, Copy)]
pub struct Kind {
    number: u16,
    is_unsigned: bool,
}

impl Kind {
    /// From the packet.
    pub fn of(number: u16) -> Kind {
        Kind { number: number & !UNSIGNED, is_unsigned: number & UNSIGNED != 0 }
    }

    /// Whether it is a text in the character set of the session.
    fn is_text(self) -> bool {
        // VARCHAR, JSON, ENUM, SET, VAR_STRING, STRING
        matches!(self.number, 0x0f | 0xf5 | 0xf7 | 0xf8 | 0xfd | 0xfe)
    }

    /// A value that was sent by `COM_STMT_SEND_LONG_DATA`.
    pub fn of_long_data(self, data: &[u8]) -> Param<'_> {
        if self.is_text() { Param::Text(data) } else { Param::Bytes(data) }
    }

    /// Reads a value. `None`: the packet is too short, or servers do not agree on the type. If the
    /// packet `is_whole`, too short is wrong; otherwise its end was not kept.
    pub fn read(self, reader: &mut Reader<'_>, is_whole: bool, values: &mut Values) -> Option<()> {
        let number = |values: &mut Values, text: String, bytes| {
            values.push(Param::Number(text.as_bytes()), bytes);
        };
        match (self.number, self.is_unsigned) {
            (1, true) => number(values, reader.u8()?.to_string(), 1),
            (1, false) => number(values, reader.u8()?.cast_signed().to_string(), 1),
            (2, true) => number(values, reader.u16()?.to_string(), 2),
            (2, false) => number(values, reader.u16()?.cast_signed().to_string(), 2),
            (3, true) => number(values, reader.u32()?.to_string(), 4),
            (3, false) => number(values, reader.u32()?.cast_signed().to_string(), 4),
            (8, true) => number(values, reader.u64()?.to_string(), 8),
            (8, false) => number(values, reader.u64()?.cast_signed().to_string(), 8),
            (4, _) => push_float(values, f32::from_bits(reader.u32()?), 4),
            (5, _) => push_float(values, f64::from_bits(reader.u64()?), 8),
            // DATE, DATETIME, TIMESTAMP
            (7 | DATE | 12, _) => {
                let value = short(reader)?;
                let text = date(value, self.number != DATE)?;
                values.push(Param::Plain(text.as_bytes()), value.len() as u64);
            }
            (11, _) => {
                let value = short(reader)?;
                values.push(Param::Plain(time(value)?.as_bytes()), value.len() as u64);
            }
            // DECIMAL, NEWDECIMAL
            (0 | 0xf6, _) => {
                let value = reader.lenenc_bytes()?;
                values.push(Param::Plain(value), value.len() as u64);
            }
            // Those of text; BIT, VECTOR, BLOBs, GEOMETRY
            (0x10 | 0xf2 | 0xf9..=0xfc | 0xff, _) => self.read_long(reader, is_whole, values)?,
            _ if self.is_text() => self.read_long(reader, is_whole, values)?,
            _ => return None,
        }
        Some(())
    }

    /// A value with its length before it, of which perhaps only the beginning was kept.
    fn read_long(self, reader: &mut Reader<'_>, is_whole: bool, values: &mut Values) -> Option<()> {
        let bytes = reader.lenenc()?;
        let kept = usize::try_from(bytes).ok().and_then(|bytes| reader.take(bytes));
        match kept {
            Some(value) => values.push(self.of_long_data(value), bytes),
            None if is_whole => return None,
            None => {
                values.push(self.of_long_data(reader.rest()), bytes);
                return None;
            }
        }
        Some(())
    }
}

/// A value with one byte of length before it.
fn short<'r>(reader: &mut Reader<'r>) -> Option<&'r [u8]> {
    let bytes = reader.u8()?;
    reader.take(bytes.into())
}

fn push_float<T>(values: &mut Values, value: T, bytes: u64)
where
    T: Copy + Display + Into<f64> + LowerExp,
{
    let number: f64 = value.into();
    // Without an exponent, extreme ones would have hundreds of digits.
    let is_usual = number == 0.0 || (1e-5..1e16).contains(&number.abs());
    let text = if is_usual { value.to_string() } else { format!("{value:e}") };
    // JSON has no infinity.
    let text = text.as_bytes();
    values.push(if number.is_finite() { Param::Number(text) } else { Param::Plain(text) }, bytes);
}

/// Its trailing parts are missing if they are 0.
fn date(value: &[u8], has_time: bool) -> Option<String> {
    if !matches!(value.len(), 0 | 4 | 7 | 11) {
        return None;
    }
    let mut reader = Reader::new(value);
    let year = reader.u16().unwrap_or(0);
    let mut part = || reader.u8().unwrap_or(0);
    let [month, day, hour, minute, second] = [part(), part(), part(), part(), part()];
    let mut text = format!("{year:04}-{month:02}-{day:02}");
    if has_time || value.len() > 4 {
        text += &format!(" {hour:02}:{minute:02}:{second:02}");
    }
    if let Some(micros) = reader.u32() {
        text += &format!(".{micros:06}");
    }
    Some(text)
}

fn time(value: &[u8]) -> Option<String> {
    if !matches!(value.len(), 0 | 8 | 12) {
        return None;
    }
    let mut reader = Reader::new(value);
    let sign = if reader.u8().unwrap_or(0) == 0 { "" } else { "-" };
    let days = u64::from(reader.u32().unwrap_or(0));
    let mut part = || reader.u8().unwrap_or(0);
    let [hour, minute, second] = [part(), part(), part()];
    let hours = days * 24 + u64::from(hour);
    let mut text = format!("{sign}{hours:02}:{minute:02}:{second:02}");
    if let Some(micros) = reader.u32() {
        text += &format!(".{micros:06}");
    }
    Some(text)
}
