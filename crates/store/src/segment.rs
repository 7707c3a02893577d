//! One Parquet file of records.

use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;

use arrow_array::{RecordBatch, UInt32Array};
use arrow_schema::{ArrowError, Schema};
use arrow_select::take::take_record_batch;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::ColumnPath;

use crate::columns::schema;
use crate::rollup::Rollups;

/// Rows of a row group at most. DuckDB reads row groups in parallel.
pub const GROUP_ROWS: usize = 122_880;
/// Memory of the rows of a row group that is not written yet: statements may be long.
const GROUP_BYTES: usize = 48 << 20;

/// A segment as the catalogue lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentInfo {
    /// Its number, from which its name follows.
    pub id: u64,
    /// 0: as written by the indexer; higher: merged.
    pub level: u8,
    /// Number of rows.
    pub rows: u64,
    /// Bytes of the file.
    pub bytes: u64,
    /// Bytes of the files with its rollups by minute and by hour. `None`: it has none.
    pub rollup_bytes: Option<Rollups<u64>>,
    /// The earliest time, µs since 1970.
    pub min_ts_us: i64,
    /// The latest time, µs since 1970.
    pub max_ts_us: i64,
}

/// Why a segment cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum SegmentError {
    /// The operating system's error.
    #[error("{0}")]
    Io(#[from] std::io::Error),
    /// The Parquet library's error.
    #[error("{0}")]
    Parquet(#[from] ParquetError),
    /// The Arrow library's error.
    #[error("{0}")]
    Arrow(#[from] ArrowError),
    /// The file has other columns.
    #[error("its columns are not those of this version")]
    Columns,
}

/// Name of the file of a segment.
pub fn file_name(id: u64) -> String {
    format!("{id:010}.parquet")
}

/// Names of the files with the rollups of a segment.
pub fn rollup_names(id: u64) -> Rollups<String> {
    ["minutes", "hours"].map(|step| format!("{id:010}.{step}.parquet"))
}

/// How a segment is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    /// The file lives for seconds.
    Fast,
    /// The file stays.
    Small,
}

/// The properties of a file.
///
/// # Errors
/// Never for these.
pub fn properties(effort: Effort) -> Result<WriterProperties, ParquetError> {
    let level = match effort {
        Effort::Fast => 1,
        Effort::Small => 3,
    };
    let mut properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(level)?))
        .set_max_row_group_row_count(Some(GROUP_ROWS))
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_created_by("tachograph".to_owned());
    // Their pages are skipped by these; of texts only the dictionary helps.
    for name in ["server", "seq", "ts", "run", "conn"] {
        let path = ColumnPath::from(name);
        properties = properties.set_column_statistics_enabled(path, EnabledStatistics::Page);
    }
    for name in ["sql", "rewritten_query", "params", "raw", "error"] {
        let path = ColumnPath::from(name);
        properties = properties.set_column_statistics_enabled(path, EnabledStatistics::None);
    }
    for name in ["seq", "query_id", "offset", "conn_seq", "query_time_us", "ts"] {
        // No value repeats.
        let path = ColumnPath::from(name);
        properties = properties.set_column_dictionary_enabled(path, false);
    }
    for name in ["seq", "query_id", "offset", "ts"] {
        // Each value is a little more than the one before: 6 bytes less for each record.
        let path = ColumnPath::from(name);
        properties = properties.set_column_encoding(path, Encoding::DELTA_BINARY_PACKED);
    }
    if effort == Effort::Small {
        for name in ["digest", "conn", "user"] {
            let path = ColumnPath::from(name);
            properties = properties.set_column_bloom_filter_enabled(path, true);
        }
    }
    Ok(properties.build())
}

/// Writes batches into a file, and syncs it.
pub struct SegmentWriter {
    writer: ArrowWriter<File>,
    group_bytes: usize,
    /// What the row group has reserved for its columns, however few its rows are.
    reserved: usize,
}

impl SegmentWriter {
    /// Creates the file; an old one of the name is from an attempt that failed.
    ///
    /// # Errors
    /// If the file cannot be created.
    pub fn create(path: &Path, effort: Effort) -> Result<Self, SegmentError> {
        let file = File::create(path)?;
        let writer = ArrowWriter::try_new(file, schema(), Some(properties(effort)?))?;
        Ok(Self { writer, group_bytes: GROUP_BYTES, reserved: 0 })
    }

    /// The same with smaller row groups, in bytes of memory.
    pub fn with_groups(self, bytes: usize) -> Self {
        Self { group_bytes: self.group_bytes.min(bytes), ..self }
    }

    /// Appends rows.
    ///
    /// # Errors
    /// If the disk is full, or any other I/O error.
    pub fn write(&mut self, batch: &RecordBatch) -> Result<(), SegmentError> {
        let is_first = self.writer.in_progress_rows() == 0;
        self.writer.write(batch)?;
        if is_first {
            let rows = self.writer.in_progress_size();
            self.reserved = self.writer.memory_size().saturating_sub(rows);
        }
        if self.rows_memory() > self.group_bytes {
            self.writer.flush()?;
        }
        Ok(())
    }

    /// Memory of the rows of the row group. Their dictionaries and pages take several times the
    /// bytes that they become in the file.
    fn rows_memory(&self) -> usize {
        self.writer.memory_size().saturating_sub(self.reserved)
    }

    /// Ends and syncs the file. Returns its bytes.
    ///
    /// # Errors
    /// If the disk is full, or any other I/O error.
    pub fn finish(self) -> Result<u64, SegmentError> {
        let file = self.writer.into_inner()?;
        file.sync_all()?;
        Ok(file.metadata()?.len())
    }
}

/// The rows of `batch` in the order of `order`.
///
/// # Errors
/// If the texts of a column are together too long for its offsets.
pub fn reordered(batch: &RecordBatch, order: Vec<u32>) -> Result<RecordBatch, SegmentError> {
    Ok(take_record_batch(batch, &UInt32Array::from(order))?)
}

/// Whether the file is the one that the catalogue lists: its bytes, its columns.
///
/// # Errors
/// If it is missing, damaged, or from another version.
pub fn check(path: &Path, bytes: u64, columns: &Schema) -> Result<(), SegmentError> {
    let file = File::open(path)?;
    if file.metadata()?.len() != bytes {
        let message = format!("it does not have {bytes} bytes");
        return Err(std::io::Error::other(message).into());
    }
    let metadata = ArrowReaderMetadata::load(&file, ArrowReaderOptions::new())?;
    if metadata.schema().fields() != columns.fields() {
        return Err(SegmentError::Columns);
    }
    Ok(())
}

/// Makes the names in a directory durable.
///
/// # Errors
/// If the directory cannot be synced.
pub fn sync_directory(dir: &Path) -> std::io::Result<()> {
    File::open(dir)?.sync_all()
}

/// Writes the segment without rows, from which readers take the columns.
///
/// # Errors
/// If the file cannot be written.
pub fn write_empty(path: &Path) -> Result<(), SegmentError> {
    let temporary = path.with_extension("tmp");
    let mut writer = SegmentWriter::create(&temporary, Effort::Fast)?;
    writer.write(&RecordBatch::new_empty(Arc::clone(&schema())))?;
    writer.finish()?;
    fs::rename(&temporary, path)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use arrow_array::{ArrayRef, StringArray, new_null_array};

    use super::*;

    #[test]
    fn a_row_group_has_its_memory_and_no_more() {
        const ROWS: usize = 2_000;
        const BYTES: usize = 1 << 20;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("segment");
        let mut writer = SegmentWriter::create(&path, Effort::Small).unwrap().with_groups(BYTES);
        for round in 0..30 {
            let users = (0..ROWS).map(|row| format!("user{}", round * ROWS + row));
            let users: ArrayRef = Arc::new(StringArray::from_iter_values(users));
            let column = |name: &str, data_type| match name {
                "user" => Arc::clone(&users),
                _ => new_null_array(data_type, ROWS),
            };
            let columns =
                schema().fields().iter().map(|it| column(it.name(), it.data_type())).collect();
            writer.write(&RecordBatch::try_new(schema(), columns).unwrap()).unwrap();
            assert!(writer.rows_memory() <= BYTES, "{}", writer.rows_memory());
        }
        let groups = writer.writer.flushed_row_groups().len();
        assert!((1..5).contains(&groups), "{groups}");
    }
}
