//! DuckDB's vectors to JSON.

use std::marker::PhantomData;
use std::ptr;

use jiff::Timestamp;

use crate::ffi::{Api, Handle};
use crate::frame::Times;

/// The type of a column, as far as values are read without a conversion by DuckDB.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Type {
    /// Only NULL.
    Null,
    /// `BOOLEAN`.
    Bool,
    /// A signed integer of so many bytes.
    Signed(u8),
    /// An unsigned integer of so many bytes.
    Unsigned(u8),
    /// `FLOAT`.
    Float,
    /// `DOUBLE`.
    Double,
    /// A `DECIMAL`: bytes of its integer, digits behind the point.
    Decimal(u8, u8),
    /// `TIMESTAMP`, and `TIMESTAMP WITH TIME ZONE`, µs.
    Time,
    /// `DATE`, in days.
    Date,
    /// `VARCHAR`.
    Text,
    /// `LIST`.
    List(Box<Type>),
    /// `STRUCT`.
    Struct(Vec<(String, Type)>),
    /// Any other.
    Other,
}

impl Type {
    /// Reads and destroys DuckDB's description.
    pub fn take(api: &Api, mut raw: Handle) -> Self {
        if raw.is_null() {
            return Self::Other;
        }
        // SAFETY: a valid handle, destroyed only here.
        unsafe {
            let found = Self::of(api, raw);
            (api.destroy_logical_type)(&mut raw);
            found
        }
    }

    /// # Safety
    /// `raw` is a valid type.
    unsafe fn of(api: &Api, raw: Handle) -> Self {
        // SAFETY: a valid handle; types of children belong to the caller.
        unsafe {
            match (api.get_type_id)(raw) {
                1 => Self::Bool,
                id @ 2..=5 => Self::Signed(1 << (id - 2)),
                id @ 6..=9 => Self::Unsigned(1 << (id - 6)),
                10 => Self::Float,
                11 => Self::Double,
                12 | 31 => Self::Time,
                13 => Self::Date,
                16 => Self::Signed(16),
                17 => Self::Text,
                19 => {
                    let bytes = match (api.decimal_internal_type)(raw) {
                        3 => 2,
                        4 => 4,
                        5 => 8,
                        _ => 16,
                    };
                    Self::Decimal(bytes, (api.decimal_scale)(raw))
                }
                24 => match Self::take(api, (api.list_type_child_type)(raw)) {
                    Self::Other => Self::Other,
                    child => Self::List(Box::new(child)),
                },
                25 => Self::structure(api, raw),
                36 => Self::Null,
                _ => Self::Other,
            }
        }
    }

    /// # Safety
    /// `raw` is a valid type, a `STRUCT`.
    unsafe fn structure(api: &Api, raw: Handle) -> Self {
        let mut members = Vec::new();
        // SAFETY: a valid handle; names and types belong to the caller.
        unsafe {
            for index in 0..(api.struct_type_child_count)(raw) {
                let name = (api.struct_type_child_name)(raw, index);
                let text = std::ffi::CStr::from_ptr(name).to_string_lossy().into_owned();
                (api.free)(name.cast());
                match Self::take(api, (api.struct_type_child_type)(raw, index)) {
                    Self::Other => return Self::Other,
                    child => members.push((text, child)),
                }
            }
        }
        Self::Struct(members)
    }

    /// Its name for clients.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Bool => "boolean",
            Self::Signed(_) | Self::Unsigned(_) => "integer",
            Self::Float | Self::Double | Self::Decimal(..) => "number",
            Self::Time => "time",
            Self::Date => "date",
            Self::List(_) => "list",
            Self::Struct(_) => "object",
            Self::Null | Self::Text | Self::Other => "text",
        }
    }
}

/// `duckdb_list_entry`.
#[repr(C)]
#[derive(Clone, Copy)]
struct ListEntry {
    offset: u64,
    length: u64,
}

/// Texts of up to this many bytes are in the vector itself.
const INLINE_BYTES: usize = 12;

/// The values of a column in a chunk.
pub struct Vector<'a> {
    api: &'a Api,
    data: *const u8,
    validity: *const u64,
    raw: Handle,
    kind: &'a Type,
    chunk: PhantomData<&'a ()>,
}

impl<'a> Vector<'a> {
    /// # Safety
    /// `raw` is a valid vector of that type for as long as `'a`. Of the vector only rows that
    /// exist may be asked for.
    pub unsafe fn new(api: &'a Api, raw: Handle, kind: &'a Type) -> Self {
        // SAFETY: a valid handle.
        let (data, validity) =
            unsafe { ((api.vector_get_data)(raw), (api.vector_get_validity)(raw)) };
        Self { api, data: data.cast(), validity, raw, kind, chunk: PhantomData }
    }

    fn is_null(&self, row: usize) -> bool {
        // SAFETY: a validity mask has a bit for each row.
        !self.validity.is_null() && unsafe { *self.validity.add(row / 64) } >> (row % 64) & 1 == 0
    }

    fn read<T: Copy>(&self, row: usize) -> T {
        // SAFETY: the callers ask for the type that the vector has; DuckDB's are aligned, but
        // nothing depends on it here.
        unsafe { ptr::read_unaligned(self.data.cast::<T>().add(row)) }
    }

    /// A text. `None`: NULL, or not a text.
    pub fn text(&self, row: usize) -> Option<&str> {
        std::str::from_utf8(self.bytes(row)?).ok()
    }

    /// The bytes of a text, or of a `BLOB` that was declared a text. `None`: NULL.
    pub fn bytes(&self, row: usize) -> Option<&[u8]> {
        if *self.kind != Type::Text || self.is_null(row) {
            return None;
        }
        // SAFETY: `duckdb_string_t` has 16 bytes: the length, and the text or, behind four bytes
        // of it, its address.
        Some(unsafe {
            let entry = self.data.add(row * 16);
            let length = ptr::read_unaligned(entry.cast::<u32>()) as usize;
            let start = match length {
                ..=INLINE_BYTES => entry.add(4),
                _ => ptr::read_unaligned(entry.add(8).cast::<*const u8>()),
            };
            std::slice::from_raw_parts(start, length)
        })
    }

    /// A `UBIGINT`. `None`: NULL, or another type.
    pub fn number(&self, row: usize) -> Option<u64> {
        (*self.kind == Type::Unsigned(8) && !self.is_null(row)).then(|| self.read(row))
    }

    fn integer(&self, row: usize, bytes: u8) -> i128 {
        match bytes {
            1 => self.read::<i8>(row).into(),
            2 => self.read::<i16>(row).into(),
            4 => self.read::<i32>(row).into(),
            8 => self.read::<i64>(row).into(),
            _ => self.read::<i128>(row),
        }
    }

    fn unsigned(&self, row: usize, bytes: u8) -> u64 {
        match bytes {
            1 => self.read::<u8>(row).into(),
            2 => self.read::<u16>(row).into(),
            4 => self.read::<u32>(row).into(),
            _ => self.read::<u64>(row),
        }
    }

    /// Appends the value of a row as JSON.
    pub fn write_json(&self, out: &mut Vec<u8>, row: usize, times: Times) {
        if self.is_null(row) {
            out.extend_from_slice(b"null");
            return;
        }
        match self.kind {
            Type::Null | Type::Other => out.extend_from_slice(b"null"),
            Type::Bool => {
                let is_true = self.read::<u8>(row) != 0;
                out.extend_from_slice(if is_true { b"true" } else { b"false" });
            }
            Type::Signed(bytes) => {
                out.extend_from_slice(self.integer(row, *bytes).to_string().as_bytes());
            }
            Type::Unsigned(bytes) => {
                out.extend_from_slice(self.unsigned(row, *bytes).to_string().as_bytes());
            }
            Type::Float => write_double(out, self.read::<f32>(row).into()),
            Type::Double => write_double(out, self.read::<f64>(row)),
            Type::Decimal(bytes, scale) => {
                write_decimal(out, self.integer(row, *bytes), usize::from(*scale));
            }
            Type::Time => write_time(out, self.read::<i64>(row), times),
            Type::Date => write_date(out, self.read::<i32>(row)),
            Type::Text => write_string(out, self.text(row).unwrap_or_default()),
            Type::List(child) => self.write_list(out, row, child, times),
            Type::Struct(members) => self.write_struct(out, row, members, times),
        }
    }

    fn write_list(&self, out: &mut Vec<u8>, row: usize, child: &Type, times: Times) {
        let ListEntry { offset, length } = self.read(row);
        // SAFETY: a valid list; its child has the rows that the entry names.
        let values = unsafe {
            let raw = (self.api.list_vector_get_child)(self.raw);
            Vector::new(self.api, raw, child)
        };
        out.push(b'[');
        for index in 0..length {
            if index > 0 {
                out.push(b',');
            }
            values.write_json(out, (offset + index) as usize, times);
        }
        out.push(b']');
    }

    fn write_struct(
        &self,
        out: &mut Vec<u8>,
        row: usize,
        members: &[(String, Type)],
        times: Times,
    ) {
        out.push(b'{');
        for (index, (name, kind)) in members.iter().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            write_string(out, name);
            out.push(b':');
            // SAFETY: a valid struct; its children have the same rows.
            let child = unsafe {
                let raw = (self.api.struct_vector_get_child)(self.raw, index as u64);
                Vector::new(self.api, raw, kind)
            };
            child.write_json(out, row, times);
        }
        out.push(b'}');
    }
}

/// Appends a JSON string.
pub fn write_string(out: &mut Vec<u8>, text: &str) {
    // Writing to a vector does not fail.
    let _ = serde_json::to_writer(out, text);
}

/// JSON has neither infinity nor NaN: they become texts.
fn write_double(out: &mut Vec<u8>, number: f64) {
    if number.is_finite() {
        let _ = serde_json::to_writer(out, &number);
    } else {
        write_string(out, &number.to_string());
    }
}

fn write_decimal(out: &mut Vec<u8>, number: i128, scale: usize) {
    if number < 0 {
        out.push(b'-');
    }
    let digits = format!("{:0width$}", number.unsigned_abs(), width = scale + 1);
    let (whole, fraction) = digits.split_at(digits.len() - scale);
    out.extend_from_slice(whole.as_bytes());
    if scale > 0 {
        out.push(b'.');
        out.extend_from_slice(fraction.as_bytes());
    }
}

fn write_time(out: &mut Vec<u8>, time_us: i64, times: Times) {
    match (times, Timestamp::from_microsecond(time_us)) {
        (Times::Text, Ok(time)) => write_string(out, &format!("{time:.6}")),
        _ => out.extend_from_slice(time_us.to_string().as_bytes()),
    }
}

fn write_date(out: &mut Vec<u8>, days: i32) {
    match Timestamp::from_second(i64::from(days) * 86_400) {
        Ok(time) => write_string(out, time.to_string().split('T').next().unwrap_or_default()),
        Err(_) => out.extend_from_slice(b"null"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(write: impl Fn(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn numbers_and_times_are_json() {
        assert_eq!(written(|out| write_decimal(out, -5, 2)), "-0.05");
        assert_eq!(written(|out| write_decimal(out, 12345, 2)), "123.45");
        assert_eq!(written(|out| write_decimal(out, 7, 0)), "7");
        assert_eq!(written(|out| write_double(out, f64::NAN)), "\"NaN\"");
        assert_eq!(written(|out| write_date(out, -1)), "\"1969-12-31\"");
        let time = |times| written(|out| write_time(out, 1_795_222_923_123_400, times));
        assert_eq!(time(Times::Text), "\"2026-11-21T01:02:03.123400Z\"");
        assert_eq!(time(Times::Micros), "1795222923123400");
    }
}
