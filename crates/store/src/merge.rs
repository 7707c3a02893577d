//! The merger: small segments into larger ones.
//!
//! | level | made from | content |
//! |---|---|---|
//! | 0 | lines | everything that is new, every 400 ms |
//! | 1 | segments of level 0 | everything of some seconds |
//! | 2 | segments of level 1 | records of one hour of `ts` |
//! | 3 and higher | segments of an hour | the same |
//!
//! Rows of too many hours are divided by several merges: what is left is a segment of level 1.
//!
//! Rows stay sorted by server, `ts` and `seq`, and the rollups of each output are made from them. A
//! merge reads and writes in streams, so its memory does not depend on the size of the segments. It
//! is committed in one transaction: a snapshot has either the old segments or the new ones.

mod plan;
mod rows;

use std::path::PathBuf;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::catalogue::now_us;
use crate::rollup::{Rollups, RollupsWriter};
use crate::segment::{Effort, SegmentError, SegmentInfo, SegmentWriter};
use crate::store::{Store, StoreError};
pub use plan::MergeOptions;
use plan::{Merge, Split, hour_of};
use rows::Sorted;

/// Hours that are written at once. Each has row groups and rollups in memory, so more of them take
/// another pass over the inputs.
const HOURS_AT_ONCE: usize = 8;
/// Hours that a merge takes out of mixed segments. Rows of further ones stay mixed.
const HOURS_MAX: usize = 32;
/// Memory of row groups that are not written yet, of all outputs, in bytes.
const BUFFER_BYTES: usize = 48 << 20;
/// The same for the rollups of all outputs.
const ROLLUP_BUFFER_BYTES: usize = 64 << 20;

/// The merger yields to threads that receive and index records, and to queries, which someone waits
/// for. Those have 5, so it keeps a quarter of a processor that is asked all the time.
const NICE: i32 = 10;

/// What the merger has done since it was started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MergeReport {
    /// Segments that were replaced.
    pub merged: u64,
    /// Segments that replaced them.
    pub written: u64,
    /// Rows that were read and written.
    pub rows: u64,
    /// The error of the last merge, if it failed.
    pub error: Option<String>,
}

/// The running merger. It ends when this is dropped.
pub struct Merger {
    stop: Option<Sender<()>>,
    report: Arc<Mutex<MergeReport>>,
    thread: Option<JoinHandle<()>>,
}

impl Merger {
    /// Starts the thread.
    ///
    /// # Errors
    /// If the system has no thread.
    pub fn start(store: Store, options: MergeOptions) -> Result<Self, StoreError> {
        let (stop, stopped) = mpsc::channel();
        let report = Arc::new(Mutex::new(MergeReport::default()));
        let shared = Arc::clone(&report);
        let dir = store.dir().to_owned();
        let run = move || {
            // Of this thread alone. If it fails, merges compete with other threads.
            let _ = rustix::process::nice(NICE);
            let mut pause = Duration::ZERO;
            while stopped.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
                let result = step(&store, &options);
                let mut report = shared.lock().unwrap_or_else(PoisonError::into_inner);
                pause = options.pause;
                match result {
                    Ok(Some(done)) => {
                        report.merged += done.merged;
                        report.written += done.written;
                        report.rows += done.rows;
                        report.error = None;
                        // There may be more to merge.
                        pause = Duration::ZERO;
                    }
                    Ok(None) => report.error = None,
                    Err(error) => report.error = Some(error.to_string()),
                }
            }
        };
        let thread = std::thread::Builder::new()
            .name("tacho-merge".to_owned())
            .spawn(run)
            .map_err(StoreError::io(&dir))?;
        Ok(Self { stop: Some(stop), report, thread: Some(thread) })
    }

    /// What it has done.
    pub fn report(&self) -> MergeReport {
        self.report.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Merger {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // A panic has been printed.
            let _ = thread.join();
        }
    }
}

/// Does the most urgent merge, and deletes what no snapshot has any more. `None`: there is nothing
/// to merge.
///
/// # Errors
/// If a segment cannot be read or written; then nothing has changed.
pub fn step(store: &Store, options: &MergeOptions) -> Result<Option<MergeReport>, StoreError> {
    store.empty_trash()?;
    let _rewriting = store.rewriting();
    let snapshot = store.snapshot();
    let segments: Vec<SegmentInfo> = snapshot.segments().cloned().collect();
    let Some(merge) = plan::next(&segments, options, now_us()) else { return Ok(None) };
    let inputs: Vec<PathBuf> = merge.ids.iter().map(|&id| store.segment_path(id)).collect();
    let written = write(store, &merge, &inputs)?;
    let rows = written.iter().map(|info| info.rows).sum();
    let report = MergeReport {
        merged: merge.ids.len() as u64,
        written: written.len() as u64,
        rows,
        error: None,
    };
    store.replace(&merge.ids, written)?;
    drop(snapshot);
    store.empty_trash()?;
    Ok(Some(report))
}

/// A segment that is being written.
struct Output {
    info: SegmentInfo,
    path: PathBuf,
    writer: SegmentWriter,
    rollup_paths: Rollups<PathBuf>,
    rollups: RollupsWriter,
}

impl Output {
    /// One of so many outputs.
    fn create(store: &Store, id: u64, level: u8, outputs: usize) -> Result<Self, SegmentError> {
        let (path, rollup_paths) = (store.segment_path(id), store.rollup_paths(id));
        let info = SegmentInfo {
            id,
            level,
            rows: 0,
            bytes: 0,
            rollup_bytes: None,
            min_ts_us: i64::MAX,
            max_ts_us: i64::MIN,
        };
        Ok(Self {
            info,
            writer: SegmentWriter::create(&path, Effort::Small)?
                .with_groups(BUFFER_BYTES / outputs),
            path,
            rollups: RollupsWriter::create(&rollup_paths)?
                .with_groups(ROLLUP_BUFFER_BYTES / outputs),
            rollup_paths,
        })
    }

    fn add(&mut self, batch: &Sorted) -> Result<(), SegmentError> {
        self.info.rows += batch.rows.num_rows() as u64;
        self.info.min_ts_us = self.info.min_ts_us.min(batch.min_ts_us);
        self.info.max_ts_us = self.info.max_ts_us.max(batch.max_ts_us);
        self.writer.write(&batch.rows)?;
        self.rollups.add(&batch.rows)
    }

    fn finish(self) -> Result<SegmentInfo, StoreError> {
        let bytes = self.writer.finish().map_err(StoreError::segment(&self.path))?;
        let rollup_bytes =
            self.rollups.finish().map_err(StoreError::segment(&self.rollup_paths[0]))?;
        Ok(SegmentInfo { bytes, rollup_bytes: Some(rollup_bytes), ..self.info })
    }
}

/// Writes the outputs of a merge. If it fails, their files are removed.
fn write(store: &Store, merge: &Merge, inputs: &[PathBuf]) -> Result<Vec<SegmentInfo>, StoreError> {
    let mut ids = Vec::new();
    let written = write_outputs(store, merge, inputs, &mut ids);
    if written.is_err() {
        ids.into_iter().for_each(|id| store.discard(id));
        return written;
    }
    store.sync_segments()?;
    written
}

fn write_outputs(
    store: &Store,
    merge: &Merge,
    inputs: &[PathBuf],
    ids: &mut Vec<u64>,
) -> Result<Vec<SegmentInfo>, StoreError> {
    if merge.split == Split::No {
        return write_pass(store, inputs, &[merge.level], |_| Some(0), ids);
    }
    let hours = rows::hours(inputs, HOURS_MAX)?;
    let mut written = Vec::new();
    for (pass, at_once) in hours.chunks(HOURS_AT_ONCE).enumerate() {
        let mut levels = vec![merge.level; at_once.len()];
        // The first pass also writes the rows of all hours that no pass has.
        let mut rest = None;
        if pass == 0 && hours.len() == HOURS_MAX {
            rest = Some(levels.len());
            levels.push(merge.level - 1);
        }
        let place = |ts_us: i64| {
            let hour = hour_of(ts_us);
            match at_once.binary_search(&hour) {
                Ok(at) => Some(at),
                Err(_) => rest.filter(|_| hours.binary_search(&hour).is_err()),
            }
        };
        written.extend(write_pass(store, inputs, &levels, place, ids)?);
    }
    Ok(written)
}

/// Writes the rows that have a place, each place into a segment of its level. The segments' numbers
/// are added to `ids` before there are files.
fn write_pass(
    store: &Store,
    inputs: &[PathBuf],
    levels: &[u8],
    place: impl Fn(i64) -> Option<usize>,
    ids: &mut Vec<u64>,
) -> Result<Vec<SegmentInfo>, StoreError> {
    let mut outputs: Vec<Option<Output>> = levels.iter().map(|_| None).collect();
    rows::merged(inputs, place, |place, batch| {
        let output = match &mut outputs[place] {
            Some(output) => output,
            none => {
                let (id, _) = store.new_segment();
                ids.push(id);
                none.insert(Output::create(store, id, levels[place], levels.len())?)
            }
        };
        output.add(batch)
    })
    .map_err(|(path, source): (PathBuf, SegmentError)| StoreError::Segment { path, source })?;
    outputs.into_iter().flatten().map(Output::finish).collect()
}
