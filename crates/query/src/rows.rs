//! Rows of segments by their numbers, with all columns.
//!
//! DuckDB finds the rows of a page of records with a few columns. If it also read the others, it
//! would decompress most of the pages of their row groups: 40 ms for 100 rows. With the page index
//! only those pages are read that have one of the rows.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use arrow_array::cast::AsArray as _;
use arrow_array::types::{Int16Type, TimestampMicrosecondType, UInt16Type, UInt32Type, UInt64Type};
use arrow_array::{Array, RecordBatch};
use arrow_schema::{DataType, Schema, TimeUnit};
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder, RowSelection,
};
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::metadata::PageIndexPolicy;
use serde::{Deserialize, Serialize};

use crate::frame::{self, ColumnInfo, End, from_worker};
use crate::value::write_string;

/// Rows that are in memory at the same time at most, besides the answer: they may be long.
const BATCH_ROWS: usize = 8;
/// Rows of a frame at most. All rows of an answer fit into one by their bytes.
const ROWS_AT_ONCE: usize = 1_024;

/// A row of a segment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RowPlace {
    /// The file.
    pub file: PathBuf,
    /// The number of the row in it, from 0.
    pub row: u64,
}

/// The rows that were read, and the bytes of their JSON.
struct Read {
    /// Each an array, with a newline.
    rows: Vec<Vec<u8>>,
    bytes: u64,
    columns: Vec<ColumnInfo>,
}

/// Sends rows in the order of `places`, as JSON with times in µs. If they have more than
/// `max_bytes`, none is sent, and the end says that rows were left out.
///
/// # Errors
/// The outer one: the pipe is closed. The inner one: a file cannot be read, or has no such row.
pub fn send(
    places: &[RowPlace],
    max_bytes: u64,
    output: &mut File,
) -> io::Result<Result<End, ParquetError>> {
    let mut files = BTreeMap::<&Path, Vec<(u64, usize)>>::new();
    for (index, place) in places.iter().enumerate() {
        files.entry(&place.file).or_default().push((place.row, index));
    }
    let mut read = Read { rows: vec![Vec::new(); places.len()], bytes: 0, columns: Vec::new() };
    for (file, mut rows) in files {
        rows.sort_unstable();
        match read.add_file(file, &rows, max_bytes) {
            Ok(true) => {}
            Ok(false) => {
                frame::write_json(output, from_worker::COLUMNS, &read.columns)?;
                return Ok(Ok(End { is_truncated: true }));
            }
            Err(error) => return Ok(Err(error)),
        }
    }
    frame::write_json(output, from_worker::COLUMNS, &read.columns)?;
    for rows in read.rows.chunks(ROWS_AT_ONCE) {
        frame::write(output, from_worker::ROWS, &rows.concat())?;
    }
    Ok(Ok(End { is_truncated: false }))
}

impl Read {
    /// Reads rows of a file, sorted by their numbers, each with its place in the answer. `false`:
    /// there are more than `max_bytes`.
    fn add_file(
        &mut self,
        path: &Path,
        rows: &[(u64, usize)],
        max_bytes: u64,
    ) -> ParquetResult<bool> {
        let file = File::open(path)?;
        let options = ArrowReaderOptions::new().with_page_index_policy(PageIndexPolicy::Optional);
        let metadata = ArrowReaderMetadata::load(&file, options)?;
        if self.columns.is_empty() {
            self.columns = columns(metadata.schema());
        }
        let mut rest = rows;
        let mut first_row = 0;
        for (group, described) in metadata.metadata().row_groups().iter().enumerate() {
            let count = u64::try_from(described.num_rows()).unwrap_or(0);
            let end = rest.partition_point(|(row, _)| *row < first_row + count);
            let (here, behind) = rest.split_at(end);
            rest = behind;
            if !here.is_empty() {
                let here = here.chunk_by(|one, next| one.0 == next.0);
                let numbers = here.clone().map(|same| (same[0].0 - first_row) as usize);
                let ranges = numbers.map(|row| row..row + 1);
                let selection = RowSelection::from_consecutive_ranges(ranges, count as usize);
                let reader = ParquetRecordBatchReaderBuilder::new_with_metadata(
                    file.try_clone()?,
                    metadata.clone(),
                )
                .with_row_groups(vec![group])
                .with_row_selection(selection)
                .with_batch_size(BATCH_ROWS)
                .build()?;
                let mut places = here;
                for batch in reader {
                    self.add_batch(&batch?, &mut places)?;
                    if self.bytes > max_bytes {
                        return Ok(false);
                    }
                }
                if places.next().is_some() {
                    let text = format!("{} has fewer rows than it says", path.display());
                    return Err(ParquetError::General(text));
                }
            }
            first_row += count;
        }
        match rest {
            [] => Ok(true),
            [(row, _), ..] => {
                Err(ParquetError::General(format!("{} has no row {row}", path.display())))
            }
        }
    }

    /// Adds the rows of a batch. `places` says where each of them is in the answer, maybe more than
    /// once.
    fn add_batch<'a>(
        &mut self,
        batch: &RecordBatch,
        places: &mut impl Iterator<Item = &'a [(u64, usize)]>,
    ) -> ParquetResult<()> {
        for (row, places) in (0..batch.num_rows()).zip(places) {
            let mut out = Vec::new();
            for (index, column) in batch.columns().iter().enumerate() {
                out.push(if index == 0 { b'[' } else { b',' });
                write_value(&mut out, &**column, row)?;
            }
            out.extend_from_slice(b"]\n");
            for (_, place) in places {
                self.bytes += out.len() as u64;
                if let Some(at) = self.rows.get_mut(*place) {
                    at.clone_from(&out);
                }
            }
        }
        Ok(())
    }
}

/// The columns of a file, with their types as DuckDB's.
fn columns(schema: &Schema) -> Vec<ColumnInfo> {
    let kind = |kind: &DataType| match kind {
        DataType::Boolean => "boolean",
        DataType::Timestamp(..) => "time",
        DataType::Utf8 | DataType::LargeUtf8 => "text",
        DataType::List(_) => "list",
        DataType::Struct(_) => "object",
        _ => "integer",
    };
    let describe = |field: &arrow_schema::Field| ColumnInfo {
        name: field.name().clone(),
        kind: kind(field.data_type()).to_owned(),
    };
    schema.fields().iter().map(|field| describe(field)).collect()
}

/// Appends a value as JSON. All types of the columns of a segment are here.
fn write_value(out: &mut Vec<u8>, column: &dyn Array, row: usize) -> ParquetResult<()> {
    if column.is_null(row) {
        out.extend_from_slice(b"null");
        return Ok(());
    }
    let mut number = |text: String| out.extend_from_slice(text.as_bytes());
    match column.data_type() {
        DataType::Boolean => number(column.as_boolean().value(row).to_string()),
        DataType::Int16 => number(column.as_primitive::<Int16Type>().value(row).to_string()),
        DataType::UInt16 => number(column.as_primitive::<UInt16Type>().value(row).to_string()),
        DataType::UInt32 => number(column.as_primitive::<UInt32Type>().value(row).to_string()),
        DataType::UInt64 => number(column.as_primitive::<UInt64Type>().value(row).to_string()),
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            number(column.as_primitive::<TimestampMicrosecondType>().value(row).to_string());
        }
        DataType::Utf8 => write_string(out, column.as_string::<i32>().value(row)),
        DataType::LargeUtf8 => write_string(out, column.as_string::<i64>().value(row)),
        DataType::List(_) => {
            let values = column.as_list::<i32>().value(row);
            out.push(b'[');
            for index in 0..values.len() {
                if index > 0 {
                    out.push(b',');
                }
                write_value(out, &*values, index)?;
            }
            out.push(b']');
        }
        DataType::Struct(fields) => {
            let members = column.as_struct();
            for (index, (field, member)) in fields.iter().zip(members.columns()).enumerate() {
                out.push(if index == 0 { b'{' } else { b',' });
                write_string(out, field.name());
                out.push(b':');
                write_value(out, &**member, row)?;
            }
            out.push(b'}');
        }
        other => return Err(ParquetError::NYI(format!("a column of type {other}"))),
    }
    Ok(())
}
