//! What the logs need of the disk, now and later.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::Serialize;
use tacho_ship::protocol::{FileName, Origin, Stem};
use tacho_store::Store;

use super::forecast::{DAY_US, Growth, Span, full_in_days};
use super::plan::{Wait, begin_us};
use super::settings;
use super::steps::{RetentionError, key};
use crate::clock::{now_us, rfc3339};
use crate::data::DataDirectory;
use crate::database::Database;
use crate::landing::NewestLine;
use crate::landing::removed::HeldFiles;
use crate::landing::{Landing, free_bytes};

/// How much of a line has its time.
const HEAD_BYTES: u64 = 256;

/// Why the oldest file of a log is not removed although it is due.
pub type Waits = Arc<Mutex<BTreeMap<Origin, Wait>>>;

/// The disk, and each log on it.
#[derive(Clone, Debug, Serialize)]
pub struct Storage {
    /// When it was measured.
    pub measured_ts: String,
    /// Free bytes of the disk.
    pub free_bytes: u64,
    /// With less the hub accepts no logs.
    pub reserve_bytes: u64,
    /// The hub accepts logs.
    pub accepts_logs: bool,
    /// When it will not, at the present rate; `None`: never, as far as can be seen.
    pub full_ts: Option<String>,
    /// The same in days.
    pub full_in_days: Option<u64>,
    /// Bytes that all logs need when as much is removed as arrives; `None`: one is kept for ever.
    pub needed_bytes: Option<u64>,
    /// Bytes of the index.
    pub index_bytes: u64,
    /// The logs.
    pub servers: Vec<ServerStorage>,
}

/// A log.
#[derive(Clone, Debug, Serialize)]
pub struct ServerStorage {
    /// The server.
    pub server: Origin,
    /// Bytes of all generations.
    pub replica_bytes: u64,
    /// Its part of the index, by its part of the records.
    pub index_bytes: u64,
    /// Bytes of log that a day adds.
    pub bytes_per_day: u64,
    /// Time of the oldest record.
    pub oldest_record_ts: Option<String>,
    /// The retention; 0: for ever.
    pub retention_days: u64,
    /// It is that with which the hub was started.
    pub retention_is_default: bool,
    /// What it needs when as much is removed as arrives, with the index.
    pub needed_bytes: Option<u64>,
    /// Log files that the hub has removed.
    pub removed_files: u64,
    /// Why a file that is due is not removed yet.
    pub waits_for: Option<&'static str>,
}

/// Measures; a clone shares the last result.
#[derive(Clone)]
pub struct Meter {
    shared: Arc<Shared>,
}

struct Shared {
    data: Arc<DataDirectory>,
    database: Database,
    landing: Landing,
    store: Store,
    waits: Waits,
    last: Mutex<Option<(Instant, Arc<Storage>)>>,
}

impl Meter {
    /// Has measured nothing yet.
    #[must_use]
    pub fn new(
        data: Arc<DataDirectory>,
        database: Database,
        landing: Landing,
        store: Store,
    ) -> Self {
        let (waits, last) = (Waits::default(), Mutex::default());
        Self { shared: Arc::new(Shared { data, database, landing, store, waits, last }) }
    }

    /// Shared with the thread that removes files.
    #[must_use]
    pub fn waits(&self) -> Waits {
        Arc::clone(&self.shared.waits)
    }

    /// The last result, or another one if that is older. Blocks.
    ///
    /// # Errors
    /// Something cannot be read.
    pub fn measured(&self, max_age: Duration) -> Result<Arc<Storage>, RetentionError> {
        // Those who ask meanwhile wait for the same result.
        let mut last = self.shared.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, storage)) = &*last
            && at.elapsed() <= max_age
        {
            return Ok(Arc::clone(storage));
        }
        let storage = Arc::new(self.shared.measure()?);
        *last = Some((Instant::now(), Arc::clone(&storage)));
        Ok(storage)
    }

    /// The same on a thread for blocking calls.
    ///
    /// # Errors
    /// Something cannot be read.
    pub async fn ask(&self, max_age: Duration) -> Result<Arc<Storage>, crate::api::ApiError> {
        let meter = self.clone();
        let measured = tokio::task::spawn_blocking(move || meter.measured(max_age)).await;
        let measured = measured.map_err(|error| crate::api::ApiError::internal(&error))?;
        measured.map_err(|error| crate::api::ApiError::internal(&error))
    }
}

impl Shared {
    fn measure(&self) -> Result<Storage, RetentionError> {
        let now_us = now_us();
        let settings = settings::load(&self.database)?;
        let snapshot = self.store.snapshot();
        let index_bytes = snapshot.segments().map(segment_bytes).sum();
        let records: u64 = snapshot.origins().values().map(|totals| totals.records).sum();
        let waits = self.waits.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let (mut servers, mut logs) = (Vec::new(), Vec::new());
        for (origin, ..) in self.landing.origins() {
            let error = |source| RetentionError::Replica { origin: origin.clone(), source };
            let held = self.landing.held(&origin).map_err(error)?;
            let removed = self.landing.removed(&origin).map_err(error)?;
            let totals = snapshot.origins().get(origin.as_str());
            let own = u128::from(totals.map_or(0, |totals| totals.records));
            let index = u128::from(index_bytes) * own / u128::from(records.max(1));
            let log = Growth {
                files: self.spans(&origin, &held).map_err(error)?,
                index_bytes: u64::try_from(index).unwrap_or(u64::MAX),
                days: settings.days(&origin),
            };
            servers.push(ServerStorage {
                replica_bytes: log.replica_bytes(),
                index_bytes: log.index_bytes,
                bytes_per_day: log.bytes_per_day(now_us),
                oldest_record_ts: self.oldest(&origin, &held),
                retention_days: log.days,
                retention_is_default: !settings.servers.contains_key(&origin),
                needed_bytes: log.needed_bytes(now_us),
                removed_files: removed.len() as u64,
                waits_for: waits.get(&origin).map(|wait| wait.word()),
                server: origin,
            });
            logs.push(log);
        }
        let free = free_bytes(self.data.path()).map_err(|source| self.error(source))?;
        let reserve_bytes = self.landing.reserve_bytes();
        let full_in_days = full_in_days(&logs, free.saturating_sub(reserve_bytes), now_us);
        let full_us =
            |days: u64| i64::try_from(days).ok()?.checked_mul(DAY_US)?.checked_add(now_us);
        let needed = servers.iter().map(|server| server.needed_bytes);
        Ok(Storage {
            measured_ts: rfc3339(now_us),
            free_bytes: free,
            reserve_bytes,
            accepts_logs: free >= reserve_bytes,
            full_ts: full_in_days.and_then(full_us).map(rfc3339),
            full_in_days,
            needed_bytes: needed.sum(),
            index_bytes,
            servers,
        })
    }

    fn error(&self, source: io::Error) -> RetentionError {
        RetentionError::Disk { path: self.data.path().to_owned(), source }
    }

    /// The files with the times of their records.
    fn spans(&self, origin: &Origin, held: &HeldFiles) -> io::Result<Vec<Span>> {
        let mut spans = Vec::new();
        let mut before_us = None;
        for (stem, copies) in held {
            let begin_us = begin_us(stem);
            let newest = copies.keys().filter_map(|generation| {
                let key = key(origin, *generation, stem)?;
                self.store.indexed(&key).map(|position| position.last_ts_us)
            });
            let to_us = newest.max().filter(|us| *us > 0).unwrap_or(begin_us);
            let from_us = before_us.unwrap_or(begin_us).min(to_us);
            let generations = copies.keys().map(|number| self.data.generation(origin, *number));
            let bytes = generations.map(|directory| (directory, stem));
            spans.push(Span { from_us, to_us, bytes: disk_bytes(bytes)? });
            before_us = Some(to_us);
        }
        Ok(spans)
    }

    /// Time of the first record of the oldest file that has one.
    fn oldest(&self, origin: &Origin, held: &HeldFiles) -> Option<String> {
        held.iter().find_map(|(stem, copies)| {
            let generation = *copies.keys().next_back()?;
            let directory = self.data.generation(origin, generation);
            first_us(&directory.join(FileName::Lines(stem.clone()).to_string())).map(rfc3339)
        })
    }
}

fn segment_bytes(info: &tacho_store::SegmentInfo) -> u64 {
    info.bytes + info.rollup_bytes.iter().flatten().sum::<u64>()
}

/// Bytes of a log file in some directories. A copy that generations share counts once.
fn disk_bytes<'a>(copies: impl Iterator<Item = (std::path::PathBuf, &'a Stem)>) -> io::Result<u64> {
    let (mut seen, mut bytes) = (BTreeSet::new(), 0);
    for (directory, stem) in copies {
        for name in [FileName::Lines(stem.clone()), FileName::Chain(stem.clone())] {
            match directory.join(name.to_string()).symlink_metadata() {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                file => {
                    let file = file?;
                    bytes += if seen.insert(file.ino()) { file.len() } else { 0 };
                }
            }
        }
    }
    Ok(bytes)
}

/// The time of the first line of a file, µs since 1970-01-01 UTC.
fn first_us(path: &Path) -> Option<i64> {
    let mut head = Vec::new();
    File::open(path).ok()?.take(HEAD_BYTES).read_to_end(&mut head).ok()?;
    NewestLine::of(&head)?.ts_us()
}
