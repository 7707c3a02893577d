//! The store at one moment.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{FlockOperation, flock};

use crate::catalogue::{Catalogue, FileKey, OriginTotals, Position};
use crate::rollup::{self, Candidate, Part, PartKind};
use crate::segment::SegmentInfo;
use crate::store::{
    CATALOGUE, EMPTY, READERS, SEGMENTS, Segment, StoreError, Trash, opened_segment,
};

/// The store at one moment. Its files exist as long as this.
#[derive(Clone, Debug)]
pub struct Snapshot {
    pub(crate) empty: PathBuf,
    pub(crate) segments: Vec<Arc<Segment>>,
    pub(crate) watermarks: Arc<BTreeMap<FileKey, Position>>,
    pub(crate) origins: Arc<BTreeMap<String, OriginTotals>>,
    /// Held by other processes than the one that writes.
    pub(crate) _reader: Option<Arc<File>>,
}

impl Snapshot {
    /// The files that may have records from `from_us` to before `to_us` (µs since 1970). The first
    /// one has no rows: it gives the columns.
    pub fn files(&self, from_us: i64, to_us: i64) -> Vec<&Path> {
        let segments = self
            .segments
            .iter()
            .filter(|segment| segment.info.max_ts_us >= from_us && segment.info.min_ts_us < to_us);
        std::iter::once(&*self.empty).chain(segments.map(|segment| &*segment.path)).collect()
    }

    /// What a statistic over the records from `from_us` to before `to_us` (µs since 1970) reads:
    /// records, and rollups where there are any and `coarsest` allows them.
    pub fn parts(&self, from_us: i64, to_us: i64, coarsest: PartKind) -> Vec<Part> {
        let candidates = self.segments.iter().map(|segment| Candidate {
            min_ts_us: segment.info.min_ts_us,
            max_ts_us: segment.info.max_ts_us,
            records: &segment.path,
            rollups: segment.rollups.as_ref(),
        });
        let candidates: Vec<Candidate> = candidates.collect();
        rollup::plan(&candidates, self.empty.clone(), (from_us, to_us), coarsest)
    }

    /// The files with records that `before` does not have, and maybe others; and how far each log
    /// file was indexed then and now, if that differs.
    pub fn since(&self, before: &Self) -> (Vec<&Path>, Vec<Advance>) {
        // Both are sorted by number.
        let is_old = |id| before.segments.binary_search_by_key(&id, |old| old.info.id).is_ok();
        let new = self.segments.iter().filter(|segment| !is_old(segment.info.id));
        let files = std::iter::once(&*self.empty).chain(new.map(|segment| &*segment.path));
        let advances = self.watermarks.iter().filter_map(|(file, now)| {
            let from = before.watermarks.get(file).map_or(0, |position| position.offset);
            let (file, to) = (file.clone(), now.offset);
            (from < to).then_some(Advance { file, from, to })
        });
        (files.collect(), advances.collect())
    }

    /// All segments.
    pub fn segments(&self) -> impl Iterator<Item = &SegmentInfo> {
        self.segments.iter().map(|segment| &segment.info)
    }

    /// What is indexed of each origin.
    pub fn origins(&self) -> &BTreeMap<String, OriginTotals> {
        &self.origins
    }
}

/// Lines of a file that were indexed between two snapshots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advance {
    /// The file.
    pub file: FileKey,
    /// The position of the first new line, in bytes.
    pub from: u64,
    /// The end of the last one.
    pub to: u64,
}

/// Reads a store that another process may have open.
pub struct Reader;

impl Reader {
    /// A snapshot of the store in `dir`. The other process deletes no file as long as it lives.
    ///
    /// # Errors
    /// If there is no store, or it cannot be read.
    pub fn snapshot(dir: &Path) -> Result<Snapshot, StoreError> {
        let catalogue = dir.join(CATALOGUE);
        if !catalogue.exists() {
            return Err(StoreError::Missing(dir.to_owned()));
        }
        let path = dir.join(READERS);
        let readers = File::create(&path).map_err(StoreError::io(&path))?;
        flock(&readers, FlockOperation::LockShared)
            .map_err(|error| StoreError::io(&path)(error.into()))?;
        let listing =
            Catalogue::open_existing(&catalogue)?.map_err(StoreError::version(dir))?.list()?;
        let segments = dir.join(SEGMENTS);
        let trash = Arc::new(Trash::default());
        Ok(Snapshot {
            empty: segments.join(EMPTY),
            segments: listing
                .segments
                .into_values()
                .map(|info| Arc::new(opened_segment(&segments, info, &trash)))
                .collect(),
            watermarks: Arc::new(listing.watermarks),
            origins: Arc::new(listing.origins),
            _reader: Some(Arc::new(readers)),
        })
    }
}
