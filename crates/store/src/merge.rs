//! The merger: small segments into larger ones.
//!
//! | level | made from | content |
//! |---|---|---|
//! | 0 | lines | everything that is new, every 400 ms |
//! | 1 | segments of level 0 | everything of some seconds |
//! | 2 | segments of level 1 | records of one hour of `ts` |
//! | 3 and higher | segments of an hour | the same |
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

/// Segments that a merge writes at once at most. Rows of further hours share one.
const OUTPUTS_MAX: usize = 32;
/// Memory of row groups that are not written yet, of all outputs, in bytes.
const BUFFER_BYTES: usize = 96 << 20;

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
    id: u64,
    path: PathBuf,
    writer: SegmentWriter,
    rollup_paths: Rollups<PathBuf>,
    rollups: RollupsWriter,
    rows: u64,
    min_ts_us: i64,
    max_ts_us: i64,
}

impl Output {
    fn create(store: &Store, group_bytes: usize) -> Result<Self, SegmentError> {
        let (id, path) = store.new_segment();
        let rollup_paths = store.rollup_paths(id);
        Ok(Self {
            id,
            writer: SegmentWriter::create(&path, Effort::Small)?.with_groups(group_bytes),
            path,
            rollups: RollupsWriter::create(&rollup_paths)?,
            rollup_paths,
            rows: 0,
            min_ts_us: i64::MAX,
            max_ts_us: i64::MIN,
        })
    }
}

/// Writes the outputs of a merge. If it fails, their files are removed.
fn write(store: &Store, merge: &Merge, inputs: &[PathBuf]) -> Result<Vec<SegmentInfo>, StoreError> {
    let mut outputs = Vec::new();
    let result = write_outputs(store, merge, inputs, &mut outputs);
    if result.is_err() {
        for output in outputs {
            // The next start removes the rest.
            let _ = std::fs::remove_file(&output.path);
            for path in output.rollup_paths {
                let _ = std::fs::remove_file(path);
            }
        }
        return result;
    }
    let mut infos = Vec::new();
    for output in outputs {
        let bytes = output.writer.finish().map_err(StoreError::segment(&output.path))?;
        let rollup_bytes =
            output.rollups.finish().map_err(StoreError::segment(&output.rollup_paths[0]))?;
        infos.push(SegmentInfo {
            id: output.id,
            level: merge.level,
            rows: output.rows,
            bytes,
            rollup_bytes: Some(rollup_bytes),
            min_ts_us: output.min_ts_us,
            max_ts_us: output.max_ts_us,
        });
    }
    store.sync_segments()?;
    Ok(infos)
}

fn write_outputs(
    store: &Store,
    merge: &Merge,
    inputs: &[PathBuf],
    outputs: &mut Vec<Output>,
) -> Result<Vec<SegmentInfo>, StoreError> {
    let hours = match merge.split {
        Split::No => Vec::new(),
        Split::Hours => rows::hours(inputs, OUTPUTS_MAX - 1)?,
    };
    // Which output a row goes to: its hour, or the one for all others.
    let place = |ts_us: i64| hours.binary_search(&hour_of(ts_us)).unwrap_or(hours.len());
    let mut by_place: Vec<Option<usize>> = vec![None; hours.len() + 1];
    let group_bytes = BUFFER_BYTES / (hours.len() + 1);
    rows::merged(inputs, place, |place, batch, min_ts_us, max_ts_us| {
        let at = match by_place[place] {
            Some(at) => at,
            None => {
                outputs.push(Output::create(store, group_bytes)?);
                by_place[place] = Some(outputs.len() - 1);
                outputs.len() - 1
            }
        };
        let output = &mut outputs[at];
        output.rows += batch.num_rows() as u64;
        output.min_ts_us = output.min_ts_us.min(min_ts_us);
        output.max_ts_us = output.max_ts_us.max(max_ts_us);
        output.writer.write(batch)?;
        output.rollups.add(batch)
    })
    .map_err(|(path, source): (PathBuf, SegmentError)| StoreError::Segment { path, source })?;
    Ok(Vec::new())
}
