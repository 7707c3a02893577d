//! The pages of a segment, as the Parquet library decompresses them.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use parquet::basic::{Encoding, Type as PhysicalType};
use parquet::column::page::{Page, PageReader};
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData, ParquetMetaDataReader};
use parquet::file::reader::{ChunkReader, Length};
use parquet::file::serialized_reader::SerializedPageReader;
use parquet::file::statistics::Statistics;

use super::Texts;

/// A column of a row group with more bytes is not read, for the memory of its pages. The store
/// writes smaller ones, unless a single statement is as long.
const COLUMN_BYTES_MAX: i64 = 64 << 20;
/// Bytes of the header of a page, about.
const HEADER_BYTES: usize = 256;

/// A segment that is open.
pub struct OpenSegment {
    file: Arc<SharedFile>,
    metadata: ParquetMetaData,
}

/// Rows of a segment that are pruned together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowGroup {
    /// Number of rows before it in the file.
    pub first_row: u64,
    /// Number of its rows.
    pub rows: u64,
    /// The earliest time, µs since 1970. The lowest number: unknown.
    pub min_us: i64,
    /// The latest time. The highest number: unknown.
    pub max_us: i64,
    /// Whether it may have one of the texts. `None`: not known yet.
    pub may_match: Option<bool>,
}

/// The scan is to end.
#[derive(Debug)]
pub struct Cancelled;

impl OpenSegment {
    /// Opens a segment, and reads its footer.
    ///
    /// # Errors
    /// It is missing or damaged.
    pub fn open(path: &Path) -> ParquetResult<Self> {
        let file = File::open(path)?;
        let bytes = file.metadata()?.len();
        let file = Arc::new(SharedFile { file: Arc::new(file), bytes });
        let metadata = ParquetMetaDataReader::new().parse_and_finish(&*file)?;
        Ok(Self { file, metadata })
    }

    /// Its row groups.
    pub fn row_groups(&self) -> Vec<RowGroup> {
        let time = self.column("ts");
        let mut first_row = 0;
        let describe = |group: &parquet::file::metadata::RowGroupMetaData| {
            let statistics = time.and_then(|at| group.columns().get(at)?.statistics());
            let range = match statistics {
                Some(Statistics::Int64(it)) => it.min_opt().zip(it.max_opt()),
                _ => None,
            };
            let (min_us, max_us) = range.map_or((i64::MIN, i64::MAX), |(min, max)| (*min, *max));
            let rows = u64::try_from(group.num_rows()).unwrap_or(0);
            let described = RowGroup { first_row, rows, min_us, max_us, may_match: None };
            first_row += rows;
            described
        };
        self.metadata.row_groups().iter().map(describe).collect()
    }

    /// The number of a column that is no list.
    fn column(&self, name: &str) -> Option<usize> {
        let schema = self.metadata.file_metadata().schema_descr();
        schema.columns().iter().position(|column| column.path().parts() == [name])
    }

    /// Whether a row group may have one of the texts. What is not understood may have it.
    ///
    /// # Errors
    /// The scan is to end.
    pub fn may_match(
        &self,
        group: usize,
        texts: &Texts,
        is_cancelled: &AtomicBool,
    ) -> Result<bool, Cancelled> {
        let Some(group) = self.metadata.row_groups().get(group) else { return Ok(true) };
        for column in &texts.columns {
            let chunk = self.column(&column.name).and_then(|at| group.columns().get(at));
            let Some(chunk) = chunk else { return Ok(true) };
            let is_in =
                |bytes: &[u8]| column.texts.iter().any(|&text| texts.finders[text].is_in(bytes));
            match may_have(&self.file, chunk, group.num_rows(), &is_in, is_cancelled) {
                Ok(Some(false)) => {}
                Ok(Some(true)) => return Ok(true),
                Ok(None) => return Err(Cancelled),
                // The query itself has the error.
                Err(_) => return Ok(true),
            }
        }
        Ok(false)
    }
}

/// Whether `is_in` is true for the bytes of a value of the column, or may be. `None`: cancelled.
fn may_have(
    file: &Arc<SharedFile>,
    column: &ColumnChunkMetaData,
    rows: i64,
    is_in: &dyn Fn(&[u8]) -> bool,
    is_cancelled: &AtomicBool,
) -> ParquetResult<Option<bool>> {
    let description = column.column_descr();
    let is_text =
        description.physical_type() == PhysicalType::BYTE_ARRAY && description.max_rep_level() == 0;
    if !is_text || column.uncompressed_size().max(column.compressed_size()) > COLUMN_BYTES_MAX {
        return Ok(Some(true));
    }
    let rows = usize::try_from(rows)?;
    let mut pages = SerializedPageReader::new(Arc::clone(file), column, rows, None)?;
    let (mut has_dictionary, mut values) = (false, 0);
    while let Some(page) = pages.get_next_page()? {
        if is_cancelled.load(Ordering::Relaxed) {
            return Ok(None);
        }
        // A value is its length and its bytes. Each is in one page, and a needle that is found
        // across two of them is only one more row group to read.
        let bytes = match &page {
            Page::DictionaryPage {
                buf,
                encoding: Encoding::PLAIN | Encoding::PLAIN_DICTIONARY,
                ..
            } => {
                has_dictionary = true;
                buf
            }
            Page::DataPage { buf, encoding, num_values, .. }
            | Page::DataPageV2 { buf, encoding, num_values, .. } => {
                values += i64::from(*num_values);
                match encoding {
                    Encoding::PLAIN => buf,
                    // Numbers of values of the dictionary.
                    Encoding::RLE_DICTIONARY | Encoding::PLAIN_DICTIONARY if has_dictionary => {
                        continue;
                    }
                    _ => return Ok(Some(true)),
                }
            }
            Page::DictionaryPage { .. } => return Ok(Some(true)),
        };
        if is_in(bytes) {
            return Ok(Some(true));
        }
    }
    Ok(Some(values != column.num_values()))
}

/// A file that several threads read, each at its own position.
struct SharedFile {
    file: Arc<File>,
    bytes: u64,
}

impl Length for SharedFile {
    fn len(&self) -> u64 {
        self.bytes
    }
}

impl ChunkReader for SharedFile {
    type T = BufReader<ReadAt>;

    fn get_read(&self, start: u64) -> ParquetResult<Self::T> {
        let reader = ReadAt { file: Arc::clone(&self.file), at: start };
        Ok(BufReader::with_capacity(HEADER_BYTES, reader))
    }

    fn get_bytes(&self, start: u64, length: usize) -> ParquetResult<Bytes> {
        if start.checked_add(length as u64).is_none_or(|end| end > self.bytes) {
            return Err(ParquetError::EOF("the file is too short".to_owned()));
        }
        let mut bytes = vec![0; length];
        self.file.read_exact_at(&mut bytes, start)?;
        Ok(bytes.into())
    }
}

/// A position in the file.
struct ReadAt {
    file: Arc<File>,
    at: u64,
}

impl Read for ReadAt {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read_at(buffer, self.at)?;
        self.at += count as u64;
        Ok(count)
    }
}
