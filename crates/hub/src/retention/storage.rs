//! What the logs need of the disk, now and later.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::Metadata;
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::Serialize;
use tacho_replica::{ReplicaFile, stored};
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
use crate::landing::removed::{Held, HeldFiles};
use crate::landing::{Landing, free_bytes};

/// How much of a line has its time.
const HEAD_BYTES: u64 = 256;

/// Reasons for which files that are due are still there; shared with the thread that removes them.
#[derive(Clone, Debug, Default)]
pub struct Obstacles {
    /// Why the oldest file of a log is not removed yet.
    pub waits: Arc<Mutex<BTreeMap<Origin, Wait>>>,
    /// Why the files of a log, or any, cannot be removed.
    pub failures: Arc<Mutex<BTreeMap<Option<Origin>, String>>>,
}

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
    /// Bytes of all generations on the disk.
    pub replica_bytes: u64,
    /// The same without compression.
    pub plain_bytes: u64,
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
    obstacles: Obstacles,
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
        let (obstacles, last) = (Obstacles::default(), Mutex::default());
        Self { shared: Arc::new(Shared { data, database, landing, store, obstacles, last }) }
    }

    /// Shared with the thread that removes files.
    #[must_use]
    pub fn obstacles(&self) -> Obstacles {
        self.shared.obstacles.clone()
    }

    /// Why the files of a log, or any (`None`), cannot be removed.
    #[must_use]
    pub fn failures(&self) -> BTreeMap<Option<Origin>, String> {
        let failures = &self.shared.obstacles.failures;
        failures.lock().unwrap_or_else(PoisonError::into_inner).clone()
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
        let waits = self.obstacles.waits.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let (mut servers, mut logs) = (Vec::new(), Vec::new());
        for (origin, ..) in self.landing.origins() {
            let error = |source| RetentionError::Replica { origin: origin.clone(), source };
            let held = self.landing.held(&origin).map_err(error)?;
            let removed = self.landing.removed(&origin).map_err(error)?;
            let totals = snapshot.origins().get(origin.as_str());
            let own = u128::from(totals.map_or(0, |totals| totals.records));
            let index = u128::from(index_bytes) * own / u128::from(records.max(1));
            let (files, plain_bytes) = self.spans(&origin, &held).map_err(error)?;
            let log = Growth {
                files,
                index_bytes: u64::try_from(index).unwrap_or(u64::MAX),
                days: settings.days(&origin),
            };
            servers.push(ServerStorage {
                replica_bytes: log.replica_bytes(),
                plain_bytes,
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

    /// The files with the times of their records, and their bytes without compression.
    fn spans(&self, origin: &Origin, held: &HeldFiles) -> io::Result<(Vec<Span>, u64)> {
        let (mut spans, mut sizes) = (Vec::new(), Vec::new());
        let mut before_us = None;
        for (stem, copies) in held {
            let begin_us = begin_us(stem);
            let newest = copies.keys().filter_map(|generation| {
                let key = key(origin, *generation, stem)?;
                self.store.indexed(&key).map(|position| position.last_ts_us)
            });
            let to_us = newest.max().filter(|us| *us > 0).unwrap_or(begin_us);
            let from_us = before_us.unwrap_or(begin_us).min(to_us);
            let copies = copies.iter().map(|(number, held)| {
                let directory = self.data.generation(origin, *number);
                (directory, *held)
            });
            let size = Size::of(copies, stem)?;
            spans.push(Span { from_us, to_us, bytes: size.bytes(), later_bytes: 0 });
            sizes.push(size);
            before_us = Some(to_us);
        }
        let compressed = if self.landing.compresses() { compressed(&sizes) } else { (1, 1) };
        for (span, size) in spans.iter_mut().zip(&sizes) {
            span.later_bytes = size.later_bytes(compressed);
        }
        let plain_bytes = sizes.iter().map(|size| size.chain + size.plain + size.lines).sum();
        Ok((spans, plain_bytes))
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

/// Bytes of the copies of a log file. One that generations share counts once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Size {
    /// Sidecars.
    chain: u64,
    /// Lines that are not compressed.
    plain: u64,
    /// Lines that are compressed, on the disk, and without compression.
    compressed: u64,
    lines: u64,
}

impl Size {
    fn of(copies: impl Iterator<Item = (PathBuf, Held)>, stem: &Stem) -> io::Result<Self> {
        let (mut seen, mut size) = (BTreeSet::new(), Self::default());
        for (directory, held) in copies {
            let lines = directory.join(FileName::Lines(stem.clone()).to_string());
            let chain = directory.join(FileName::Chain(stem.clone()).to_string());
            if let Some((inode, bytes)) = disk_bytes(chain.symlink_metadata())? {
                size.chain += if seen.insert(inode) { bytes } else { 0 };
            }
            if let Some((inode, bytes)) = disk_bytes(stored(&lines))?
                && seen.insert(inode)
            {
                // It may have been compressed since the lengths were read.
                match held.lines {
                    Some(length) if length > bytes => {
                        size.compressed += bytes;
                        size.lines += length;
                    }
                    _ => size.plain += bytes,
                }
            }
        }
        Ok(size)
    }

    fn bytes(&self) -> u64 {
        self.chain + self.plain + self.compressed
    }

    /// When all of it is compressed, as so many bytes are to so many without compression.
    fn later_bytes(&self, (compressed, lines): (u64, u64)) -> u64 {
        let plain = u128::from(self.plain) * u128::from(compressed) / u128::from(lines.max(1));
        self.chain + self.compressed + u64::try_from(plain).unwrap_or(u64::MAX)
    }
}

/// Bytes of all compressed files, and without compression. As they are, if there is none.
fn compressed(sizes: &[Size]) -> (u64, u64) {
    let sum = |part: fn(&Size) -> u64| sizes.iter().map(part).sum::<u64>();
    match (sum(|size| size.compressed), sum(|size| size.lines)) {
        (0, _) => (1, 1),
        sums => sums,
    }
}

/// The inode and the bytes of a file that may not be there.
fn disk_bytes(file: io::Result<Metadata>) -> io::Result<Option<(u64, u64)>> {
    match file {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        file => file.map(|file| Some((file.ino(), file.len()))),
    }
}

/// The time of the first line of a file, µs since 1970-01-01 UTC.
fn first_us(path: &Path) -> Option<i64> {
    let mut head = Vec::new();
    let file = ReplicaFile::open(path).ok()?;
    file.read_from(0).take(HEAD_BYTES).read_to_end(&mut head).ok()?;
    NewestLine::of(&head)?.ts_us()
}

#[cfg(test)]
mod tests {
    use tacho_replica::{columns, compressed_path};

    use super::*;

    #[test]
    fn compressed_files_count_with_both_of_their_lengths() {
        let root = tempfile::tempdir().unwrap();
        let stem: Stem = "audit-20261121T100000Z-000001".parse().unwrap();
        let [one, two] = ["1", "2"].map(|name| root.path().join(name));
        for directory in [&one, &two] {
            std::fs::create_dir(directory).unwrap();
        }
        let lines = one.join(format!("{stem}.jsonl"));
        std::fs::write(&lines, [b'x'; 1000]).unwrap();
        std::fs::write(one.join(format!("{stem}.chain")), [b'x'; 30]).unwrap();
        let held = Held { lines: Some(1000), chain: Some(30) };
        let of = || {
            let copies = [&one, &two].map(|directory| (directory.clone(), held));
            Size::of(copies.into_iter(), &stem).unwrap()
        };
        let plain = Size { chain: 30, plain: 1000, ..Size::default() };
        assert_eq!(of(), plain);
        let mut writer = columns::Writer::new(Vec::new()).unwrap();
        writer.part(&[b'x'; 1000]).unwrap();
        let packed = writer.finish().unwrap();
        std::fs::write(compressed_path(&lines), &packed).unwrap();
        std::fs::hard_link(compressed_path(&lines), two.join(format!("{stem}.jsonl.tcol")))
            .unwrap();
        std::fs::remove_file(&lines).unwrap();
        let bytes = packed.len() as u64;
        let size = Size { chain: 30, plain: 0, compressed: bytes, lines: 1000 };
        assert_eq!(of(), size, "generations share it");
        assert_eq!(size.bytes(), 30 + bytes);
        assert_eq!(plain.later_bytes(compressed(&[plain, size])), 30 + bytes);
        assert_eq!(plain.later_bytes(compressed(&[plain])), 1030);
    }
}
