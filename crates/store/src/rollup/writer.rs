//! The files of rollups.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::builder::{
    ArrayBuilder, BinaryBuilder, ListBuilder, StringBuilder, TimestampMicrosecondBuilder,
    UInt32Builder, UInt64Builder,
};
use arrow_array::cast::AsArray;
use arrow_array::types::{TimestampMicrosecondType, UInt64Type};
use arrow_array::{Array, ArrayRef, RecordBatch, StringArray, UInt64Array};
use arrow_schema::DataType;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use tacho_histogram::encode;

use super::groups::{Groups, Row};
use super::{CONNECTION_DIMENSIONS, DIMENSIONS, PartKind, SUMS, schema};
use crate::segment::{GROUP_ROWS, SegmentError};

/// Keys and connections in memory; with more of them there are several rows of one key.
const GROUPS_MAX: usize = 1 << 17;
/// Rows that become a batch.
const BATCH_ROWS: usize = 4_096;
/// Memory of a row group that is not written yet at most. Smaller ones make larger files.
const GROUP_BYTES: usize = 16 << 20;

/// The rollups of a segment, by minute and by hour: paths, writers, or bytes of the files.
pub type Rollups<T> = [T; 2];

const STEPS_US: Rollups<i64> = [PartKind::Minutes.step_us(), PartKind::Hours.step_us()];

/// Counts the rows of a segment, and writes the files.
pub struct RollupsWriter {
    files: Rollups<Output>,
    key: Vec<u8>,
}

impl RollupsWriter {
    /// Creates the files; an old one of the name is from an attempt that failed.
    ///
    /// # Errors
    /// If a file cannot be created.
    pub fn create(paths: &Rollups<PathBuf>) -> Result<Self, SegmentError> {
        let [minutes, hours] = STEPS_US;
        let files = [Output::create(&paths[0], minutes)?, Output::create(&paths[1], hours)?];
        Ok(Self { files, key: Vec::new() })
    }

    /// The same with smaller row groups: `bytes` is the memory of both files.
    pub fn with_groups(mut self, bytes: usize) -> Self {
        for file in &mut self.files {
            file.group_bytes = file.group_bytes.min(bytes / STEPS_US.len());
        }
        self
    }

    /// Counts rows of the segment, which are sorted by server and time.
    ///
    /// # Errors
    /// If the disk is full, or any other I/O error.
    pub fn add(&mut self, batch: &RecordBatch) -> Result<(), SegmentError> {
        let source = RecordColumns::of(batch)?;
        for row in 0..batch.num_rows() {
            self.key.clear();
            let prefix = source.write_key(row, &mut self.key);
            let values = source.sums.map(|column| number(column, row));
            let (server, ts_us) = (text(source.server, row), source.ts.value(row));
            let connection = number(source.conn, row);
            for file in &mut self.files {
                file.begin(server, ts_us)?;
                file.groups.add(&self.key, prefix, &values, connection);
            }
        }
        Ok(())
    }

    /// Ends and syncs the files. Returns their bytes.
    ///
    /// # Errors
    /// If the disk is full, or any other I/O error.
    pub fn finish(self) -> Result<Rollups<u64>, SegmentError> {
        let [minutes, hours] = self.files;
        Ok([minutes.finish()?, hours.finish()?])
    }
}

/// A file, and what is not in it yet.
struct Output {
    step_us: i64,
    writer: ArrowWriter<File>,
    group_bytes: usize,
    rows: Rows,
    server: Option<String>,
    /// The begin of the minute or hour that is counted.
    begin_us: i64,
    groups: Groups,
}

impl Output {
    fn create(path: &Path, step_us: i64) -> Result<Self, SegmentError> {
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::try_new(3)?))
            .set_max_row_group_row_count(Some(GROUP_ROWS))
            .set_statistics_enabled(EnabledStatistics::Chunk)
            .set_created_by("tachograph".to_owned())
            .build();
        let writer = ArrowWriter::try_new(File::create(path)?, schema(), Some(properties))?;
        let (rows, groups) = (Rows::new(), Groups::default());
        let group_bytes = GROUP_BYTES;
        Ok(Self { step_us, writer, group_bytes, rows, server: None, begin_us: 0, groups })
    }

    /// Prepares for a record of this server and time.
    fn begin(&mut self, server: Option<&str>, ts_us: i64) -> Result<(), SegmentError> {
        let begin_us = ts_us.div_euclid(self.step_us).saturating_mul(self.step_us);
        let is_other = begin_us != self.begin_us || server != self.server.as_deref();
        if is_other || self.groups.len() >= GROUPS_MAX {
            self.flush()?;
            self.begin_us = begin_us;
            self.server = server.map(str::to_owned);
        }
        Ok(())
    }

    fn finish(mut self) -> Result<u64, SegmentError> {
        self.flush()?;
        self.write_rows()?;
        let file = self.writer.into_inner()?;
        file.sync_all()?;
        Ok(file.metadata()?.len())
    }

    fn flush(&mut self) -> Result<(), SegmentError> {
        for row in self.groups.take() {
            self.rows.append(self.begin_us, self.server.as_deref(), &row);
        }
        if self.rows.count() >= BATCH_ROWS {
            self.write_rows()?;
        }
        Ok(())
    }

    fn write_rows(&mut self) -> Result<(), SegmentError> {
        self.writer.write(&self.rows.finish()?)?;
        if self.writer.memory_size() > self.group_bytes {
            self.writer.flush()?;
        }
        Ok(())
    }
}

fn text(column: &StringArray, row: usize) -> Option<&str> {
    column.is_valid(row).then(|| column.value(row))
}

fn number(column: &UInt64Array, row: usize) -> Option<u64> {
    column.is_valid(row).then(|| column.value(row))
}

/// A dimension's column of records.
enum Dimension<'a> {
    Text(&'a StringArray),
    Number(&'a UInt64Array),
    Half(&'a arrow_array::UInt32Array),
}

/// The columns of records that a rollup needs.
struct RecordColumns<'a> {
    ts: &'a arrow_array::TimestampMicrosecondArray,
    server: &'a StringArray,
    conn: &'a UInt64Array,
    /// All but the server.
    dimensions: Vec<Dimension<'a>>,
    sums: [&'a UInt64Array; SUMS.len()],
}

impl<'a> RecordColumns<'a> {
    fn of(batch: &'a RecordBatch) -> Result<Self, SegmentError> {
        let column = |name: &str| batch.column_by_name(name).ok_or(SegmentError::Columns);
        let number = |name: &str| {
            column(name)?.as_primitive_opt::<UInt64Type>().ok_or(SegmentError::Columns)
        };
        let mut dimensions = Vec::with_capacity(DIMENSIONS.len());
        for name in &DIMENSIONS[1..] {
            let array = column(name)?;
            dimensions.push(match array.data_type() {
                DataType::Utf8 => Dimension::Text(array.as_string()),
                DataType::UInt64 => Dimension::Number(array.as_primitive()),
                DataType::UInt32 => Dimension::Half(array.as_primitive()),
                _ => return Err(SegmentError::Columns),
            });
        }
        let mut sums = [number("conn")?; SUMS.len()];
        for (sum, name) in sums.iter_mut().zip(SUMS) {
            *sum = number(name)?;
        }
        let ts = column("ts")?.as_primitive_opt::<TimestampMicrosecondType>();
        let server = column("server")?.as_string_opt::<i32>();
        Ok(Self {
            ts: ts.ok_or(SegmentError::Columns)?,
            server: server.ok_or(SegmentError::Columns)?,
            conn: number("conn")?,
            dimensions,
            sums,
        })
    }

    /// Appends a row's dimensions without the server. Returns the length of the connection key.
    fn write_key(&self, row: usize, key: &mut Vec<u8>) -> usize {
        let mut prefix = 0;
        for (at, dimension) in self.dimensions.iter().enumerate() {
            if at + 1 == CONNECTION_DIMENSIONS.len() {
                prefix = key.len();
            }
            match dimension {
                Dimension::Text(column) => write_text(key, text(column, row)),
                Dimension::Number(column) => write_number(key, number(column, row)),
                Dimension::Half(column) => {
                    let value = column.is_valid(row).then(|| column.value(row).into());
                    write_number(key, value);
                }
            }
        }
        prefix
    }
}

/// A value in a key: 0, or 1 and the value.
fn write_number(key: &mut Vec<u8>, number: Option<u64>) {
    key.push(u8::from(number.is_some()));
    key.extend(number.map(u64::to_be_bytes).iter().flatten());
}

/// A value in a key: 0, or 1, the length and the text.
fn write_text(key: &mut Vec<u8>, text: Option<&str>) {
    key.push(u8::from(text.is_some()));
    if let Some(text) = text {
        // A column of texts has 32-bit offsets.
        key.extend_from_slice(&(text.len() as u32).to_be_bytes());
        key.extend_from_slice(text.as_bytes());
    }
}

/// Takes the bytes of a value from the front of a key; `None`: the value is missing.
fn take<'a>(key: &mut &'a [u8], length: impl FnOnce(&mut &'a [u8]) -> usize) -> Option<&'a [u8]> {
    if *key.split_off_first()? == 0 {
        return None;
    }
    let length = length(key);
    key.split_off(..length)
}

fn take_number(key: &mut &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(take(key, |_| 8)?.try_into().ok()?))
}

fn take_text<'a>(key: &mut &'a [u8]) -> Option<&'a str> {
    let length = |key: &mut &'a [u8]| {
        let bytes = key.split_off(..4).and_then(|bytes| bytes.try_into().ok());
        bytes.map_or(0, u32::from_be_bytes) as usize
    };
    std::str::from_utf8(take(key, length)?).ok()
}

/// A dimension's column of the rollup.
enum Column {
    Text(StringBuilder),
    Number(UInt64Builder),
    Half(UInt32Builder),
}

/// Rows that become a batch.
struct Rows {
    begins: TimestampMicrosecondBuilder,
    dimensions: Vec<Column>,
    counts: UInt64Builder,
    sums: [UInt64Builder; SUMS.len()],
    times: BinaryBuilder,
    connections: ListBuilder<UInt64Builder>,
    /// The times of a row, reused.
    encoded: Vec<u8>,
}

impl Rows {
    fn new() -> Self {
        let types = schema();
        let types = types.fields()[1..=DIMENSIONS.len()].iter().map(|field| field.data_type());
        let column = |data_type: &DataType| match data_type {
            DataType::UInt64 => Column::Number(UInt64Builder::new()),
            DataType::UInt32 => Column::Half(UInt32Builder::new()),
            _ => Column::Text(StringBuilder::new()),
        };
        Self {
            begins: TimestampMicrosecondBuilder::new().with_timezone("UTC"),
            dimensions: types.map(column).collect(),
            counts: UInt64Builder::new(),
            sums: std::array::from_fn(|_| UInt64Builder::new()),
            times: BinaryBuilder::new(),
            connections: ListBuilder::new(UInt64Builder::new())
                .with_field(super::item(DataType::UInt64)),
            encoded: Vec::new(),
        }
    }

    fn count(&self) -> usize {
        self.counts.len()
    }

    fn append(&mut self, begin_us: i64, server: Option<&str>, row: &Row) {
        self.begins.append_value(begin_us);
        let mut key = &*row.key;
        for (at, column) in self.dimensions.iter_mut().enumerate() {
            match column {
                Column::Text(builder) if at == 0 => builder.append_option(server),
                Column::Text(builder) => builder.append_option(take_text(&mut key)),
                Column::Number(builder) => builder.append_option(take_number(&mut key)),
                Column::Half(builder) => {
                    let value = take_number(&mut key).and_then(|value| u32::try_from(value).ok());
                    builder.append_option(value);
                }
            }
        }
        self.counts.append_value(row.sums.count);
        for (builder, &sum) in self.sums.iter_mut().zip(&row.sums.sums) {
            builder.append_value(sum);
        }
        let times = &row.sums.times;
        if times.is_empty() {
            self.times.append_null();
        } else {
            self.encoded.clear();
            encode(times.iter().copied(), &mut self.encoded);
            self.times.append_value(&self.encoded);
        }
        match row.connections.is_empty() {
            true => self.connections.append_null(),
            false => self.connections.append_value(row.connections.iter().map(|&it| Some(it))),
        }
    }

    fn finish(&mut self) -> Result<RecordBatch, SegmentError> {
        let mut arrays: Vec<ArrayRef> = vec![Arc::new(self.begins.finish())];
        arrays.extend(self.dimensions.iter_mut().map(|column| -> ArrayRef {
            match column {
                Column::Text(builder) => Arc::new(builder.finish()),
                Column::Number(builder) => Arc::new(builder.finish()),
                Column::Half(builder) => Arc::new(builder.finish()),
            }
        }));
        arrays.push(Arc::new(self.counts.finish()));
        arrays.extend(self.sums.iter_mut().map(|builder| Arc::new(builder.finish()) as ArrayRef));
        arrays.push(Arc::new(self.times.finish()));
        arrays.push(Arc::new(self.connections.finish()));
        Ok(RecordBatch::try_new(schema(), arrays)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_gives_its_values_back() {
        let mut key = Vec::new();
        write_text(&mut key, Some("app"));
        write_text(&mut key, None);
        write_number(&mut key, Some(1064));
        write_text(&mut key, Some(""));
        write_number(&mut key, None);
        write_number(&mut key, Some(u64::MAX));
        let mut rest = &key[..];
        assert_eq!(take_text(&mut rest), Some("app"));
        assert_eq!(take_text(&mut rest), None);
        assert_eq!(take_number(&mut rest), Some(1064));
        assert_eq!(take_text(&mut rest), Some(""));
        assert_eq!(take_number(&mut rest), None);
        assert_eq!(take_number(&mut rest), Some(u64::MAX));
        assert!(rest.is_empty());
    }
}
