//! Rows of several segments in one order.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::fs::File;
use std::path::{Path, PathBuf};

use arrow_array::cast::AsArray;
use arrow_array::types::{TimestampMicrosecondType, UInt64Type};
use arrow_array::{Array, RecordBatch};
use arrow_select::interleave::interleave_record_batch;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};

use super::plan::hour_of;
use crate::segment::SegmentError;
use crate::store::StoreError;

/// Rows of a batch of the output at most.
const BATCH_ROWS: usize = 8_192;
/// Memory of the batches of all inputs, in bytes.
const INPUT_BYTES: u64 = 16 << 20;

type Failed = (PathBuf, SegmentError);

fn failed<E: Into<SegmentError>>(path: &Path) -> impl FnOnce(E) -> Failed + '_ {
    |error| (path.to_owned(), error.into())
}

/// The hours with the most rows, at most `max`, sorted.
pub fn hours(paths: &[PathBuf], max: usize) -> Result<Vec<i64>, StoreError> {
    let mut counts: BTreeMap<i64, u64> = BTreeMap::new();
    for path in paths {
        count_hours(path, &mut counts).map_err(StoreError::segment(path))?;
    }
    let mut hours: Vec<(u64, i64)> = counts.into_iter().map(|(hour, rows)| (rows, hour)).collect();
    hours.sort_unstable_by_key(|&(rows, hour)| Reverse((rows, hour)));
    hours.truncate(max);
    let mut hours: Vec<i64> = hours.into_iter().map(|(_, hour)| hour).collect();
    hours.sort_unstable();
    Ok(hours)
}

fn count_hours(path: &Path, counts: &mut BTreeMap<i64, u64>) -> Result<(), SegmentError> {
    let builder = ParquetRecordBatchReaderBuilder::try_new(File::open(path)?)?;
    let only_ts = ProjectionMask::columns(builder.parquet_schema(), ["ts"]);
    for batch in builder.with_projection(only_ts).build()? {
        let batch = batch?;
        for &ts_us in batch.column(0).as_primitive::<TimestampMicrosecondType>().values() {
            *counts.entry(hour_of(ts_us)).or_default() += 1;
        }
    }
    Ok(())
}

/// The order of rows.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    server: String,
    ts_us: i64,
    seq: u64,
}

/// A segment that is read.
struct Input<'a> {
    path: &'a Path,
    reader: ParquetRecordBatchReader,
    batch: RecordBatch,
    row: usize,
    /// The number of `batch` among those of the output.
    number: usize,
}

impl<'a> Input<'a> {
    fn open(path: &'a Path, inputs: usize) -> Result<Self, Failed> {
        let open = || {
            let builder = ParquetRecordBatchReaderBuilder::try_new(File::open(path)?)?;
            let metadata = builder.metadata();
            let groups = metadata.row_groups().iter();
            let bytes: i64 = groups.map(|group| group.total_byte_size()).sum();
            let rows = metadata.file_metadata().num_rows().max(1);
            // In memory values take more than in a page.
            let row_bytes = 256 + 4 * (bytes / rows).unsigned_abs();
            let fitting = INPUT_BYTES / inputs as u64 / row_bytes;
            let size = fitting.clamp(16, BATCH_ROWS as u64) as usize;
            let reader = builder.with_batch_size(size).build()?;
            Ok::<_, SegmentError>(reader)
        };
        let reader = open().map_err(failed(path))?;
        let batch = RecordBatch::new_empty(crate::columns::schema());
        Ok(Self { path, reader, batch, row: 0, number: 0 })
    }

    /// The next batch with rows. `false`: there is none.
    fn load(&mut self) -> Result<bool, Failed> {
        self.row = 0;
        loop {
            match self.reader.next() {
                None => return Ok(false),
                Some(batch) => self.batch = batch.map_err(failed(self.path))?,
            }
            if self.batch.num_rows() > 0 {
                return Ok(true);
            }
        }
    }

    fn column(&self, name: &str) -> &dyn Array {
        match self.batch.column_by_name(name) {
            Some(column) => column,
            // `segment::check` has compared the columns.
            None => unreachable!("the schema has this column"),
        }
    }

    fn ts_us(&self) -> i64 {
        self.column("ts").as_primitive::<TimestampMicrosecondType>().value(self.row)
    }

    fn key(&self) -> Key {
        let seq = self.column("seq").as_primitive::<UInt64Type>();
        let seq = if seq.is_null(self.row) { 0 } else { seq.value(self.row) };
        let server = self.column("server").as_string::<i32>().value(self.row).to_owned();
        Key { server, ts_us: self.ts_us(), seq }
    }
}

/// Rows that go to one place.
#[derive(Default)]
struct Collected {
    rows: Vec<(usize, usize)>,
    min_ts_us: i64,
    max_ts_us: i64,
}

/// Rows for one place, in order.
pub struct Sorted {
    /// The rows.
    pub rows: RecordBatch,
    /// Their earliest time, µs since 1970.
    pub min_ts_us: i64,
    /// Their latest time.
    pub max_ts_us: i64,
}

/// Merges segments that are sorted. `place` says where a row goes, by its time; rows without a
/// place are left out. `take` gets the rows for a place in batches.
pub fn merged(
    paths: &[PathBuf],
    place: impl Fn(i64) -> Option<usize>,
    mut take: impl FnMut(usize, &Sorted) -> Result<(), SegmentError>,
) -> Result<(), Failed> {
    let mut inputs = Vec::with_capacity(paths.len());
    let mut heap = BinaryHeap::new();
    let mut batches: Vec<RecordBatch> = Vec::new();
    for path in paths {
        let mut input = Input::open(path, paths.len())?;
        if input.load()? {
            input.number = batches.len();
            batches.push(input.batch.clone());
            heap.push(Reverse((input.key(), inputs.len())));
            inputs.push(input);
        }
    }
    let mut collected: BTreeMap<usize, Collected> = BTreeMap::new();
    let mut count = 0;
    while let Some(Reverse((key, at))) = heap.pop() {
        let input = &mut inputs[at];
        if let Some(place) = place(key.ts_us) {
            let rows = collected.entry(place).or_insert_with(|| Collected {
                rows: Vec::new(),
                min_ts_us: i64::MAX,
                max_ts_us: i64::MIN,
            });
            rows.rows.push((input.number, input.row));
            rows.min_ts_us = rows.min_ts_us.min(key.ts_us);
            rows.max_ts_us = rows.max_ts_us.max(key.ts_us);
            count += 1;
        }
        input.row += 1;
        let mut is_there = true;
        if input.row == input.batch.num_rows() {
            is_there = input.load()?;
            if is_there {
                input.number = batches.len();
                batches.push(input.batch.clone());
            }
        }
        if is_there {
            let key = input.key();
            heap.push(Reverse((key, at)));
        }
        // Batches that are used up are kept only as long as rows of them wait.
        if count >= BATCH_ROWS || batches.len() > 4 * paths.len() {
            flush(&batches, &mut collected, &mut take)
                .map_err(|error| (paths[0].clone(), error))?;
            count = 0;
            batches.clear();
            for Reverse((_, at)) in &heap {
                inputs[*at].number = batches.len();
                batches.push(inputs[*at].batch.clone());
            }
        }
    }
    flush(&batches, &mut collected, &mut take)
        .map_err(|error| (paths.first().cloned().unwrap_or_default(), error))
}

fn flush(
    batches: &[RecordBatch],
    collected: &mut BTreeMap<usize, Collected>,
    take: &mut impl FnMut(usize, &Sorted) -> Result<(), SegmentError>,
) -> Result<(), SegmentError> {
    let all: Vec<&RecordBatch> = batches.iter().collect();
    for (place, Collected { rows, min_ts_us, max_ts_us }) in std::mem::take(collected) {
        let rows = interleave_record_batch(&all, &rows)?;
        take(place, &Sorted { rows, min_ts_us, max_ts_us })?;
    }
    Ok(())
}
