//! The open store, and the deletion of segments that nothing reads.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::{FlockOperation, flock};

use crate::catalogue::{Catalogue, FORMAT, FileKey, Listing, OriginTotals, Position};
use crate::forget::Change;
use crate::rollup::{self, Rollups};
use crate::segment::{self, SegmentError, SegmentInfo};
use crate::snapshot::Snapshot;
use crate::{clear, columns};

/// Why the store cannot be opened, or does not work.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Another process has it open for writing.
    #[error("the store {0} is in use by another process")]
    Locked(PathBuf),
    /// There is no store.
    #[error("there is no store in {0}: start the hub, or run `tacho-hub reindex`")]
    Missing(PathBuf),
    /// An earlier release has written it.
    #[error(
        "the store {path} has version {version}, this release has version {FORMAT}: start the hub, \
         or run `tacho-hub reindex`"
    )]
    Old {
        /// The directory.
        path: PathBuf,
        /// Its version.
        version: i64,
    },
    /// A later release has written it.
    #[error(
        "the store {path} has version {version}, this release knows {FORMAT}: use a newer \
         tacho-hub, or build the store again with `tacho-hub reindex`"
    )]
    TooNew {
        /// The directory.
        path: PathBuf,
        /// Its version.
        version: i64,
    },
    /// The operating system's error.
    #[error("{path}: {source}")]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The error.
        source: std::io::Error,
    },
    /// The catalogue's error.
    #[error("catalogue of the store: {0}")]
    Catalogue(#[from] rusqlite::Error),
    /// A segment cannot be written or read.
    #[error("segment {path}: {source}")]
    Segment {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: SegmentError,
    },
}

impl StoreError {
    pub(crate) fn io(path: &Path) -> impl FnOnce(std::io::Error) -> Self + '_ {
        |source| Self::Io { path: path.to_owned(), source }
    }

    /// The store has another version than that of this release.
    pub(crate) fn version(dir: &Path) -> impl FnOnce(i64) -> Self + '_ {
        |version| {
            let path = dir.to_owned();
            if version > FORMAT {
                Self::TooNew { path, version }
            } else {
                Self::Old { path, version }
            }
        }
    }

    pub(crate) fn segment<E: Into<SegmentError>>(path: &Path) -> impl FnOnce(E) -> Self + '_ {
        |source| Self::Segment { path: path.to_owned(), source: source.into() }
    }
}

pub const CATALOGUE: &str = "catalogue.sqlite";
pub const SEGMENTS: &str = "segments";
pub const EMPTY: &str = "empty.parquet";
/// Held exclusively by the process that writes.
const LOCK: &str = "lock";
/// Held shared by other processes while they read, exclusively while files are deleted.
pub const READERS: &str = "readers.lock";

/// Files that no segment of the catalogue names any more.
pub type Trash = Mutex<Vec<PathBuf>>;

/// A segment's files, which exist as long as this.
#[derive(Debug)]
pub struct Segment {
    pub info: SegmentInfo,
    pub path: PathBuf,
    pub rollups: Option<Rollups<PathBuf>>,
    /// The catalogue does not name it any more.
    is_replaced: AtomicBool,
    trash: Arc<Trash>,
}

impl Drop for Segment {
    fn drop(&mut self) {
        if self.is_replaced.load(Ordering::Relaxed) {
            let mut trash = lock(&self.trash);
            trash.push(std::mem::take(&mut self.path));
            trash.extend(self.rollups.take().into_iter().flatten());
        }
    }
}

/// A poisoned lock: the other thread has ended by a panic. The guarded data changes in one step.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Default)]
struct Contents {
    segments: BTreeMap<u64, Arc<Segment>>,
    watermarks: Arc<BTreeMap<FileKey, Position>>,
    origins: Arc<BTreeMap<String, OriginTotals>>,
    /// Files whose rows were removed.
    forgotten: BTreeSet<FileKey>,
}

impl Contents {
    /// Replaces segments by others.
    fn swap(&mut self, old: &[u64], new: Vec<(u64, Arc<Segment>)>) {
        for id in old {
            if let Some(segment) = self.segments.remove(id) {
                segment.is_replaced.store(true, Ordering::Relaxed);
            }
        }
        self.segments.extend(new);
    }
}

struct Inner {
    dir: PathBuf,
    catalogue: Mutex<Catalogue>,
    state: Mutex<Contents>,
    trash: Arc<Trash>,
    next_id: AtomicU64,
    /// Held while segments are replaced by others that were made from them.
    rewriting: Mutex<()>,
    rebuilt: Option<String>,
    _lock: File,
}

/// The open store. A clone is the same store.
#[derive(Clone)]
pub struct Store {
    inner: Arc<Inner>,
}

impl Store {
    /// Opens the store in `dir`, or creates it. A damaged store, or one of an earlier version, is
    /// emptied, so that the indexer builds it again: see [`rebuilt`](Self::rebuilt).
    ///
    /// # Errors
    /// If another process has it open, the directory cannot be written, or a later release has
    /// written the store.
    pub fn open(dir: &Path) -> Result<Self, StoreError> {
        fs::create_dir_all(dir).map_err(StoreError::io(dir))?;
        let path = dir.join(LOCK);
        let held = File::create(&path).map_err(StoreError::io(&path))?;
        flock(&held, FlockOperation::NonBlockingLockExclusive)
            .map_err(|_| StoreError::Locked(dir.to_owned()))?;
        match Self::load(dir) {
            Ok((catalogue, listing)) => Self::opened(dir, held, catalogue, listing, None),
            // The directory cannot be used: what is in it may be in order.
            Err(error @ StoreError::Io { .. }) => Err(error),
            // To build it again may take hours, which a downgrade by mistake must not cost.
            Err(error @ StoreError::TooNew { .. }) => Err(error),
            Err(reason) => {
                let reason = clear::reason(&reason);
                clear::clear(dir)?;
                let (catalogue, listing) = Self::load(dir)?;
                Self::opened(dir, held, catalogue, listing, Some(reason))
            }
        }
    }

    fn load(dir: &Path) -> Result<(Catalogue, Listing), StoreError> {
        let segments = dir.join(SEGMENTS);
        fs::create_dir_all(&segments).map_err(StoreError::io(&segments))?;
        let mut catalogue =
            Catalogue::open(&dir.join(CATALOGUE))?.map_err(StoreError::version(dir))?;
        let listing = catalogue.list()?;
        for info in listing.segments.values() {
            let path = segments.join(segment::file_name(info.id));
            segment::check(&path, info.bytes, &columns::schema())
                .map_err(StoreError::segment(&path))?;
            let rollups = rollup_files(&segments, info.id).into_iter();
            for (path, bytes) in rollups.zip(info.rollup_bytes.iter().flatten().copied()) {
                segment::check(&path, bytes, &rollup::schema())
                    .map_err(StoreError::segment(&path))?;
            }
        }
        Ok((catalogue, listing))
    }

    fn opened(
        dir: &Path,
        held: File,
        catalogue: Catalogue,
        listing: Listing,
        rebuilt: Option<String>,
    ) -> Result<Self, StoreError> {
        let segments = dir.join(SEGMENTS);
        remove_strangers(&segments, &listing)?;
        let empty = segments.join(EMPTY);
        segment::write_empty(&empty).map_err(StoreError::segment(&empty))?;
        segment::sync_directory(dir).map_err(StoreError::io(dir))?;
        let trash = Arc::new(Trash::default());
        let state = Contents {
            segments: listing
                .segments
                .into_iter()
                .map(|(id, info)| (id, Arc::new(opened_segment(&segments, info, &trash))))
                .collect(),
            watermarks: Arc::new(listing.watermarks),
            origins: Arc::new(listing.origins),
            forgotten: catalogue.forgotten()?,
        };
        let inner = Inner {
            dir: dir.to_owned(),
            next_id: AtomicU64::new(catalogue.next_id()?),
            catalogue: Mutex::new(catalogue),
            state: Mutex::new(state),
            trash,
            rewriting: Mutex::default(),
            rebuilt,
            _lock: held,
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Why the store was emptied when it was opened, if it was.
    pub fn rebuilt(&self) -> Option<&str> {
        self.inner.rebuilt.as_deref()
    }

    /// The directory.
    pub fn dir(&self) -> &Path {
        &self.inner.dir
    }

    /// The directory of the files that a [`Snapshot`] names.
    pub fn segments_dir(&self) -> PathBuf {
        self.inner.dir.join(SEGMENTS)
    }

    /// Its state at one moment.
    pub fn snapshot(&self) -> Snapshot {
        let state = lock(&self.inner.state);
        Snapshot {
            empty: self.segments_dir().join(EMPTY),
            segments: state.segments.values().cloned().collect(),
            watermarks: Arc::clone(&state.watermarks),
            origins: Arc::clone(&state.origins),
            _reader: None,
        }
    }

    /// How far a file has been indexed.
    pub fn watermark(&self, origin: &str, generation: u32, file: &str) -> u64 {
        let key = FileKey { origin: origin.to_owned(), generation, file: file.to_owned() };
        self.position(&key).offset
    }

    /// How far a file has been indexed; `None`: it is not known.
    pub fn indexed(&self, key: &FileKey) -> Option<Position> {
        lock(&self.inner.state).watermarks.get(key).copied()
    }

    /// What is indexed of each origin.
    pub fn origins(&self) -> BTreeMap<String, OriginTotals> {
        BTreeMap::clone(&lock(&self.inner.state).origins)
    }

    /// The texts of digests, statements without their literals; those that are known.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn digest_texts<'a>(
        &self,
        digests: impl IntoIterator<Item = &'a str>,
    ) -> Result<BTreeMap<String, String>, StoreError> {
        let catalogue = lock(&self.inner.catalogue);
        let mut texts = BTreeMap::new();
        for digest in digests {
            if let Some(text) = catalogue.digest_text(digest)? {
                texts.insert(digest.to_owned(), text);
            }
        }
        Ok(texts)
    }

    /// The digests whose texts `matches` finds, `max` of them at most, sorted. A snapshot that was
    /// taken before has no other digests with such a text, except those that the dictionary had no
    /// room for.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn digests_like(
        &self,
        matches: impl Fn(&str) -> bool,
        max: usize,
    ) -> Result<Vec<String>, StoreError> {
        // A connection of its own: the indexer does not wait for a large dictionary.
        let catalogue = Catalogue::open_existing(&self.inner.dir.join(CATALOGUE))?;
        let catalogue = catalogue.map_err(StoreError::version(&self.inner.dir))?;
        Ok(catalogue.digests_like(&matches, max)?)
    }

    /// All digests of the dictionary.
    pub(crate) fn digests(&self) -> Result<Vec<String>, StoreError> {
        Ok(lock(&self.inner.catalogue).digests()?)
    }

    pub(crate) fn position(&self, key: &FileKey) -> Position {
        lock(&self.inner.state).watermarks.get(key).copied().unwrap_or_default()
    }

    /// The file of a segment.
    pub(crate) fn segment_path(&self, id: u64) -> PathBuf {
        self.segments_dir().join(segment::file_name(id))
    }

    /// The files with the rollups of a segment.
    pub(crate) fn rollup_paths(&self, id: u64) -> Rollups<PathBuf> {
        rollup_files(&self.segments_dir(), id)
    }

    /// The path of a segment that is about to be written, and its number.
    pub(crate) fn new_segment(&self) -> (u64, PathBuf) {
        let id = self.inner.next_id.fetch_add(1, Ordering::Relaxed);
        (id, self.segment_path(id))
    }

    /// Makes the names of segments that were written durable.
    pub(crate) fn sync_segments(&self) -> Result<(), StoreError> {
        let dir = self.segments_dir();
        segment::sync_directory(&dir).map_err(StoreError::io(&dir))
    }

    /// Makes what the indexer has written visible: a segment, the watermarks that it moves, and
    /// the totals that it changes.
    pub(crate) fn add(
        &self,
        segment: Option<SegmentInfo>,
        watermarks: BTreeMap<FileKey, Position>,
        origins: BTreeMap<String, OriginTotals>,
        digests: &BTreeMap<String, String>,
    ) -> Result<(), StoreError> {
        lock(&self.inner.catalogue).add(segment.as_ref(), &watermarks, &origins, digests)?;
        let segment = segment.map(|info| Arc::new(self.opened_segment(info)));
        let mut state = lock(&self.inner.state);
        state.segments.extend(segment.map(|segment| (segment.info.id, segment)));
        // Copied if a snapshot has them.
        Arc::make_mut(&mut state.watermarks).extend(watermarks);
        Arc::make_mut(&mut state.origins).extend(origins);
        Ok(())
    }

    /// Replaces segments by others with the same records.
    pub(crate) fn replace(&self, old: &[u64], new: Vec<SegmentInfo>) -> Result<(), StoreError> {
        lock(&self.inner.catalogue).replace(old, &new)?;
        let new: Vec<_> = new.into_iter().map(|info| Arc::new(self.opened_segment(info))).collect();
        let new = new.into_iter().map(|segment| (segment.info.id, segment)).collect();
        lock(&self.inner.state).swap(old, new);
        Ok(())
    }

    /// The right to replace segments, until it is dropped.
    pub(crate) fn rewriting(&self) -> MutexGuard<'_, ()> {
        lock(&self.inner.rewriting)
    }

    /// Whether the rows of a file were removed.
    pub fn is_forgotten(&self, key: &FileKey) -> bool {
        lock(&self.inner.state).forgotten.contains(key)
    }

    /// Says which files are removed from the replica, before anything is indexed. The rows of
    /// others can be indexed again: the replica was restored from an older copy.
    ///
    /// # Errors
    /// If the catalogue cannot be written.
    pub fn keep_forgotten(&self, files: &BTreeSet<FileKey>) -> Result<(), StoreError> {
        lock(&self.inner.catalogue).keep_forgotten(files)?;
        lock(&self.inner.state).forgotten.retain(|key| files.contains(key));
        Ok(())
    }

    /// Commits that the rows of files are gone.
    pub(crate) fn commit_forgotten(&self, change: Change) -> Result<(), StoreError> {
        lock(&self.inner.catalogue).forget(&change)?;
        let new = change.new.into_iter().map(|info| Arc::new(self.opened_segment(info)));
        let new: Vec<_> = new.map(|segment| (segment.info.id, segment)).collect();
        let mut state = lock(&self.inner.state);
        state.swap(change.old.as_slice(), new);
        let watermarks = Arc::make_mut(&mut state.watermarks);
        watermarks.retain(|key, _| !change.files.contains(key));
        let origins = Arc::make_mut(&mut state.origins);
        for (origin, rows) in change.rows {
            if let Some(totals) = origins.get_mut(&origin) {
                totals.records = totals.records.saturating_sub(rows);
            }
        }
        state.forgotten.extend(change.files);
        Ok(())
    }

    fn opened_segment(&self, info: SegmentInfo) -> Segment {
        opened_segment(&self.segments_dir(), info, &self.inner.trash)
    }

    /// Deletes the files of replaced segments that no snapshot has. While another process reads,
    /// nothing is deleted. Returns how many files are left.
    ///
    /// # Errors
    /// If a file cannot be deleted; it is tried again.
    pub fn empty_trash(&self) -> Result<usize, StoreError> {
        let mut trash = lock(&self.inner.trash);
        if trash.is_empty() {
            return Ok(0);
        }
        let path = self.inner.dir.join(READERS);
        let readers = File::create(&path).map_err(StoreError::io(&path))?;
        if flock(&readers, FlockOperation::NonBlockingLockExclusive).is_err() {
            return Ok(trash.len());
        }
        while let Some(path) = trash.last() {
            fs::remove_file(path).map_err(StoreError::io(path))?;
            trash.pop();
        }
        Ok(0)
    }
}

fn rollup_files(dir: &Path, id: u64) -> Rollups<PathBuf> {
    segment::rollup_names(id).map(|name| dir.join(name))
}

pub fn opened_segment(dir: &Path, info: SegmentInfo, trash: &Arc<Trash>) -> Segment {
    Segment {
        path: dir.join(segment::file_name(info.id)),
        rollups: info.rollup_bytes.map(|_| rollup_files(dir, info.id)),
        info,
        is_replaced: AtomicBool::new(false),
        trash: Arc::clone(trash),
    }
}

/// Removes files that a crash has left before the catalogue named them, or after it did.
fn remove_strangers(segments: &Path, listing: &Listing) -> Result<(), StoreError> {
    for entry in fs::read_dir(segments).map_err(StoreError::io(segments))? {
        let path = entry.map_err(StoreError::io(segments))?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let id = name.split('.').next().and_then(|id| id.parse::<u64>().ok());
        let is_listed = id.and_then(|id| listing.segments.get(&id)).is_some_and(|info| {
            let is_rollup = segment::rollup_names(info.id).iter().any(|rollup| rollup == name);
            (is_rollup && info.rollup_bytes.is_some()) || name == segment::file_name(info.id)
        });
        if !is_listed {
            fs::remove_file(&path).map_err(StoreError::io(&path))?;
        }
    }
    Ok(())
}
