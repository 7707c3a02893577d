//! Rows of files that retention removes from the replica leave the index.
//!
//! A segment all of whose rows are of such files is dropped. One that has other rows, too, is
//! written again without them. Each segment is a transaction of its own, so that a disk that is
//! nearly full needs space for one of them only. The last transaction lists the files, so that the
//! indexer never reads them again; before it, everything can be repeated.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fs::File;
use std::path::{Path, PathBuf};

use arrow_array::cast::AsArray;
use arrow_array::types::{TimestampMicrosecondType, UInt32Type};
use arrow_array::{BooleanArray, RecordBatch};
use arrow_select::filter::filter_record_batch;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::file::metadata::RowGroupMetaData;
use parquet::file::statistics::Statistics;

use crate::catalogue::FileKey;
use crate::rollup::RollupsWriter;
use crate::segment::{Effort, SegmentError, SegmentInfo, SegmentWriter};
use crate::store::{Store, StoreError};

/// The columns that say which file a row is of.
const PLACE: [&str; 3] = ["server", "generation", "file"];
/// Rows that are read at a time.
const BATCH_ROWS: usize = 4_096;

/// What was removed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Forgotten {
    /// Rows, of each origin.
    pub rows: BTreeMap<String, u64>,
    /// Segments that were dropped.
    pub dropped: u64,
    /// Segments that were written again.
    pub rewritten: u64,
}

/// How the catalogue changes, in one transaction.
#[derive(Default)]
pub struct Change {
    /// A segment that is dropped or written again.
    pub old: Option<u64>,
    /// The one that replaces it.
    pub new: Option<SegmentInfo>,
    /// Files of which no segment has rows any more.
    pub files: BTreeSet<FileKey>,
    /// Rows that are gone, of each origin.
    pub rows: BTreeMap<String, u64>,
}

impl Store {
    /// Removes the rows of these files. Those that were removed before do no harm.
    ///
    /// # Errors
    /// If a segment cannot be read or written; then it has to be repeated.
    pub fn forget(&self, files: &BTreeSet<FileKey>) -> Result<Forgotten, StoreError> {
        let files: BTreeSet<FileKey> =
            files.iter().filter(|key| !self.is_forgotten(key)).cloned().collect();
        let mut forgotten = Forgotten::default();
        if files.is_empty() {
            return Ok(forgotten);
        }
        // A merge must not bring rows back that are removed here.
        let _rewriting = self.rewriting();
        let segments: Vec<SegmentInfo> = self.snapshot().segments().cloned().collect();
        for info in segments {
            let Some(change) = self.change_of(&info, &files)? else { continue };
            forgotten.dropped += u64::from(change.new.is_none());
            forgotten.rewritten += u64::from(change.new.is_some());
            for (origin, rows) in &change.rows {
                *forgotten.rows.entry(origin.clone()).or_default() += rows;
            }
            self.commit_forgotten(change)?;
            // The disk may have space for one segment only.
            self.empty_trash()?;
        }
        self.commit_forgotten(Change { files, ..Change::default() })?;
        Ok(forgotten)
    }

    /// How the rows leave a segment; `None`: it has none of them.
    fn change_of(
        &self,
        info: &SegmentInfo,
        files: &BTreeSet<FileKey>,
    ) -> Result<Option<Change>, StoreError> {
        let path = self.segment_path(info.id);
        let error = StoreError::segment;
        let mut change = Change { old: Some(info.id), ..Change::default() };
        let count = count(&path, files, &mut change.rows).map_err(error(&path))?;
        if count == 0 {
            return Ok(None);
        }
        if count < info.rows {
            change.new = Some(self.without(info, &path, files).map_err(error(&path))?);
            self.sync_segments()?;
        }
        Ok(Some(change))
    }

    /// Writes a segment without the rows of these files.
    fn without(
        &self,
        info: &SegmentInfo,
        from: &Path,
        files: &BTreeSet<FileKey>,
    ) -> Result<SegmentInfo, SegmentError> {
        let (id, path) = self.new_segment();
        let written = self.write_without(info, id, from, &path, files);
        if written.is_err() {
            self.discard(id);
        }
        written
    }

    fn write_without(
        &self,
        info: &SegmentInfo,
        id: u64,
        from: &Path,
        path: &Path,
        files: &BTreeSet<FileKey>,
    ) -> Result<SegmentInfo, SegmentError> {
        let effort = if info.level == 0 { Effort::Fast } else { Effort::Small };
        let mut writer = SegmentWriter::create(path, effort)?;
        let mut rollups = match info.rollup_bytes {
            Some(_) => Some(RollupsWriter::create(&self.rollup_paths(id))?),
            None => None,
        };
        let mut new =
            SegmentInfo { id, rows: 0, min_ts_us: i64::MAX, max_ts_us: i64::MIN, ..info.clone() };
        let files = Files::of(files);
        let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(from)?)?;
        for batch in reader.with_batch_size(BATCH_ROWS).build()? {
            let batch = batch?;
            let kept = Places::of(&batch)?.kept(&files);
            let batch = filter_record_batch(&batch, &kept)?;
            let Some(times) = batch.column_by_name("ts") else { return Err(SegmentError::Columns) };
            for &ts_us in times.as_primitive::<TimestampMicrosecondType>().values() {
                new.min_ts_us = new.min_ts_us.min(ts_us);
                new.max_ts_us = new.max_ts_us.max(ts_us);
            }
            new.rows += batch.num_rows() as u64;
            writer.write(&batch)?;
            if let Some(rollups) = &mut rollups {
                rollups.add(&batch)?;
            }
        }
        new.bytes = writer.finish()?;
        new.rollup_bytes = rollups.map(RollupsWriter::finish).transpose()?;
        Ok(new)
    }

    /// Removes the files of a segment that the catalogue does not name. The next start removes what
    /// cannot be removed here.
    pub(crate) fn discard(&self, id: u64) {
        let paths: Vec<PathBuf> =
            self.rollup_paths(id).into_iter().chain([self.segment_path(id)]).collect();
        for path in paths {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// The files of the rows of a batch.
struct Places<'a> {
    servers: &'a arrow_array::StringArray,
    generations: &'a arrow_array::PrimitiveArray<UInt32Type>,
    files: &'a arrow_array::StringArray,
}

impl<'a> Places<'a> {
    fn of(batch: &'a RecordBatch) -> Result<Self, SegmentError> {
        let column = |name| batch.column_by_name(name).ok_or(SegmentError::Columns);
        let [server, generation, file] = PLACE;
        Ok(Self {
            servers: column(server)?.as_string_opt().ok_or(SegmentError::Columns)?,
            generations: column(generation)?.as_primitive_opt().ok_or(SegmentError::Columns)?,
            files: column(file)?.as_string_opt().ok_or(SegmentError::Columns)?,
        })
    }

    fn rows(&self) -> usize {
        self.generations.len()
    }

    fn server(&self, row: usize) -> &str {
        self.servers.value(row)
    }

    fn is_of(&self, row: usize, files: &Files<'_>) -> bool {
        let names = files.0.get(&(self.servers.value(row), self.generations.value(row)));
        names.is_some_and(|names| names.contains(self.files.value(row)))
    }

    fn kept(&self, files: &Files<'_>) -> BooleanArray {
        (0..self.rows()).map(|row| Some(!self.is_of(row, files))).collect()
    }
}

/// Names of files by origin and generation: every row asks for one.
struct Files<'a>(HashMap<(&'a str, u32), HashSet<&'a str>>);

impl<'a> Files<'a> {
    fn of(files: &'a BTreeSet<FileKey>) -> Self {
        let mut names: HashMap<_, HashSet<&str>> = HashMap::new();
        for FileKey { origin, generation, file } in files {
            names.entry((origin.as_str(), *generation)).or_default().insert(file);
        }
        Self(names)
    }
}

/// Counts rows of the files, for each origin, and together.
fn count(
    path: &Path,
    files: &BTreeSet<FileKey>,
    gone: &mut BTreeMap<String, u64>,
) -> Result<u64, SegmentError> {
    let builder = ParquetRecordBatchReaderBuilder::try_new(File::open(path)?)?;
    let groups = builder.metadata().row_groups().iter().enumerate();
    let groups: Vec<usize> =
        groups.filter(|(_, group)| may_have(group, files)).map(|(number, _)| number).collect();
    if groups.is_empty() {
        return Ok(0);
    }
    let places = ProjectionMask::columns(builder.parquet_schema(), PLACE);
    let reader = builder.with_row_groups(groups).with_projection(places);
    let files = Files::of(files);
    let mut count = 0;
    for batch in reader.with_batch_size(BATCH_ROWS).build()? {
        let batch = batch?;
        let places = Places::of(&batch)?;
        for row in (0..places.rows()).filter(|&row| places.is_of(row, &files)) {
            count += 1;
            match gone.get_mut(places.server(row)) {
                Some(rows) => *rows += 1,
                None => drop(gone.insert(places.server(row).to_owned(), 1)),
            }
        }
    }
    Ok(count)
}

/// Whether a row group may have rows of one of the files, by its statistics.
fn may_have(group: &RowGroupMetaData, files: &BTreeSet<FileKey>) -> bool {
    let bounds = |name: &str| {
        let column = group.columns().iter().find(|column| column.column_path().string() == name);
        match column.and_then(|column| column.statistics()) {
            Some(Statistics::ByteArray(values)) => {
                Some((values.min_opt()?.data().to_vec(), values.max_opt()?.data().to_vec()))
            }
            _ => None,
        }
    };
    let is_within = |bounds: &Option<(Vec<u8>, Vec<u8>)>, text: &str| {
        bounds
            .as_ref()
            .is_none_or(|(min, max)| **min <= *text.as_bytes() && *text.as_bytes() <= **max)
    };
    let [server, _, file] = PLACE;
    let (servers, names) = (bounds(server), bounds(file));
    files.iter().any(|key| is_within(&servers, &key.origin) && is_within(&names, &key.file))
}
