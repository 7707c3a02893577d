//! The steps of a removal, and their completion after a crash.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tacho_chain::hub_tombstone::HubTombstone;
use tacho_chain::key::SecretKey;
use tacho_ship::protocol::{FileName, Origin, Stem};
use tacho_store::{FileKey, Store, StoreError};

use super::burial::Due;
use crate::audit::{Entry, RequestSource};
use crate::clock::now_us;
use crate::data::DataDirectory;
use crate::database::{Database, DatabaseError};
use crate::landing::Landing;
use crate::landing::removed::{Burial, Held, HeldFiles, stem_of};
use crate::say::say;

/// Why nothing more is removed now.
#[derive(Debug, thiserror::Error)]
pub enum RetentionError {
    /// A file of a replica.
    #[error("the replica of {origin}: {source}")]
    Replica {
        /// The log.
        origin: Origin,
        /// Why.
        source: io::Error,
    },
    /// The disk.
    #[error("cannot read the free space of {path}: {source}", path = path.display())]
    Disk {
        /// A directory on it.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The index.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The database.
    #[error(transparent)]
    Database(#[from] DatabaseError),
    /// A test stops here.
    #[error("stopped before {0:?}")]
    Stopped(Step),
}

/// What is done next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The tombstones are signed.
    Bury,
    /// The hub's own log gets its records.
    Record,
    /// The rows leave the index.
    Forget,
    /// The files are unlinked.
    Unlink,
    /// Nothing: it is done.
    Done,
}

/// Removes files.
pub struct Steps {
    /// Where the replicas are.
    pub data: Arc<DataDirectory>,
    /// Settings and records.
    pub database: Database,
    /// The replicas.
    pub landing: Landing,
    /// The index.
    pub store: Store,
    /// Signs tombstones.
    pub key: SecretKey,
    /// Removals that are in the hub's own log, and whose files are still there.
    pub recorded: Recorded,
    /// Called before each step; `false` ends the removal there, as a crash does. For tests.
    pub may_go_on: Box<dyn Fn(Step) -> bool + Send>,
}

/// Logs of which something cannot be read or removed now, and why. The others do not wait for them.
pub type Failures = BTreeMap<Origin, RetentionError>;

/// Log, generation and file.
type Removal = (String, u64, String);

/// Removals.
pub type Recorded = Mutex<BTreeSet<Removal>>;

type Burials = BTreeMap<Origin, Vec<Burial>>;

impl Steps {
    /// Removes files that are due. [`Steps::complete`] completes a removal that fails halfway.
    ///
    /// # Errors
    /// The index or the database cannot be read or written.
    pub fn remove(&self, due: &[Due]) -> Result<Failures, RetentionError> {
        let (mut burials, mut failures) = (Burials::new(), Failures::new());
        for file in due {
            // Newer files of the log wait for this one.
            if failures.contains_key(&file.origin) {
                continue;
            }
            let read: io::Result<Vec<Burial>> =
                file.generations.iter().map(|(number, _)| self.read(file, *number)).collect();
            match read {
                Ok(read) => burials.entry(file.origin.clone()).or_default().extend(read),
                Err(source) => fail(&mut failures, &file.origin, source),
            }
        }
        self.go_on(Step::Bury)?;
        let now_s = now_us() / 1_000_000;
        burials.retain(|origin, burials| {
            match self.landing.bury(origin, burials, &self.key, now_s) {
                Ok(()) => true,
                Err(source) => {
                    fail(&mut failures, origin, source);
                    false
                }
            }
        });
        let stems = |burials: &Vec<Burial>| {
            burials.iter().filter_map(|burial| stem_of(&burial.tombstone)).collect()
        };
        let stems = burials.iter().map(|(origin, burials)| (origin.clone(), stems(burials)));
        let stems: BTreeMap<Origin, BTreeSet<Stem>> = stems.collect();
        let tombstones: Vec<&HubTombstone> =
            burials.values().flatten().map(|burial| &burial.tombstone).collect();
        self.finish(&tombstones, &stems, &mut failures)?;
        Ok(failures)
    }

    /// Completes removals that a crash has interrupted, and removes rows of removed files that an
    /// older index has.
    ///
    /// # Errors
    /// The index or the database cannot be read or written.
    pub fn complete(&self) -> Result<Failures, RetentionError> {
        let mut failures = Failures::new();
        for (origin, ..) in self.landing.origins() {
            match self.complete_origin(&origin, &mut failures) {
                Err(RetentionError::Replica { origin, source }) => {
                    fail(&mut failures, &origin, source);
                }
                result => result?,
            }
        }
        Ok(failures)
    }

    fn complete_origin(
        &self,
        origin: &Origin,
        failures: &mut Failures,
    ) -> Result<(), RetentionError> {
        let half_removed = self.landing.half_removed(origin).map_err(error(origin))?;
        let stems: BTreeSet<Stem> = half_removed.keys().cloned().collect();
        let mut tombstones: Vec<HubTombstone> = half_removed.values().flatten().cloned().collect();
        if !stems.is_empty() {
            // One that failed a moment ago was reported.
            if tombstones.iter().any(|tombstone| !self.is_recorded(tombstone)) {
                say(&format!("{origin}: completing the removal of {} log files", stems.len()));
            }
            let copies = self.copies(origin, &half_removed).map_err(error(origin))?;
            let now_s = now_us() / 1_000_000;
            self.landing.bury(origin, &copies, &self.key, now_s).map_err(error(origin))?;
            tombstones.extend(copies.into_iter().map(|burial| burial.tombstone));
        }
        let removed = self.landing.removed(origin).map_err(error(origin))?;
        let keys = removed.iter().filter_map(|(generation, stem)| key(origin, *generation, stem));
        self.store.forget(&keys.collect())?;
        let tombstones: Vec<&HubTombstone> = tombstones.iter().collect();
        self.finish(&tombstones, &BTreeMap::from([(origin.clone(), stems)]), failures)
    }

    /// Copies of files whose removal has begun, in generations that have no tombstone of them,
    /// because the hub ended in between. Only those with the same bytes, and not the newest file of
    /// the current generation: another file of the same name is not due because of this one.
    fn copies(
        &self,
        origin: &Origin,
        half_removed: &BTreeMap<Stem, Vec<HubTombstone>>,
    ) -> io::Result<Vec<Burial>> {
        let held = self.landing.held(origin)?;
        let mut found = Vec::new();
        for (stem, tombstones) in half_removed {
            let newest = tombstones.iter().max_by_key(|tombstone| tombstone.newest_us);
            let (Some(copies), Some(newest)) = (held.get(stem), newest) else { continue };
            let (current, _) = self.landing.durable(origin, stem)?;
            for &generation in copies.keys().filter(|it| is_older(&held, stem, **it, current)) {
                let due = Due {
                    origin: origin.clone(),
                    stem: stem.clone(),
                    generations: vec![(generation, None)],
                    newest_us: newest.newest_us,
                    days: newest.days,
                };
                let burial = self.read(&due, generation)?;
                let is_same = |removed: &HubTombstone| {
                    let copy = &burial.tombstone;
                    (removed.log.digest, removed.sidecar.digest)
                        == (copy.log.digest, copy.sidecar.digest)
                };
                if tombstones.iter().any(is_same) {
                    found.push(burial);
                }
            }
        }
        Ok(found)
    }

    /// Reads a file as its tombstone describes it. Of a former generation nothing is acknowledged
    /// any more.
    fn read(&self, file: &Due, generation: u64) -> io::Result<Burial> {
        let (current, durable) = self.landing.durable(&file.origin, &file.stem)?;
        let durable = if generation == current { durable } else { Held::default() };
        file.read(&self.data.generation(&file.origin, generation), generation, durable)
    }

    /// The steps behind the tombstones.
    fn finish(
        &self,
        tombstones: &[&HubTombstone],
        stems: &BTreeMap<Origin, BTreeSet<Stem>>,
        failures: &mut Failures,
    ) -> Result<(), RetentionError> {
        self.go_on(Step::Record)?;
        // A file that cannot be unlinked is tried again, and not recorded again.
        let new = tombstones.iter().filter(|tombstone| !self.is_recorded(tombstone));
        let new: Vec<&HubTombstone> = new.copied().collect();
        if !new.is_empty() {
            let records: Vec<Entry> = new.iter().map(|tombstone| record(tombstone)).collect();
            self.database.write(|transaction| {
                records.iter().try_for_each(|entry| crate::audit::outbox::put(transaction, entry))
            })?;
            self.recorded().extend(new.into_iter().map(removal));
        }
        self.go_on(Step::Forget)?;
        let keys = tombstones.iter().filter_map(|tombstone| {
            key(&tombstone.server.parse().ok()?, tombstone.generation, &stem_of(tombstone)?)
        });
        let forgotten = self.store.forget(&keys.collect())?;
        self.go_on(Step::Unlink)?;
        for (origin, stems) in stems.iter().filter(|(_, stems)| !stems.is_empty()) {
            if let Err(source) = self.landing.unlink(origin, stems) {
                fail(failures, origin, source);
                continue;
            }
            self.recorded().retain(|(server, ..)| server != origin.as_str());
            let rows = forgotten.rows.get(origin.as_str()).copied().unwrap_or(0);
            say(&format!("{origin}: retention removed {} log files, {rows} records", stems.len()));
        }
        self.go_on(Step::Done)
    }

    fn recorded(&self) -> MutexGuard<'_, BTreeSet<Removal>> {
        self.recorded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_recorded(&self, tombstone: &HubTombstone) -> bool {
        self.recorded().contains(&removal(tombstone))
    }

    fn go_on(&self, step: Step) -> Result<(), RetentionError> {
        if (self.may_go_on)(step) { Ok(()) } else { Err(RetentionError::Stopped(step)) }
    }
}

/// Whether a copy of a file is not the newest file of the current generation.
fn is_older(held: &HeldFiles, stem: &Stem, generation: u64, current: u64) -> bool {
    let is_newer = |(other, copies): (&Stem, &BTreeMap<u64, Held>)| {
        other > stem && copies.contains_key(&current)
    };
    generation != current || held.iter().any(is_newer)
}

fn removal(tombstone: &HubTombstone) -> Removal {
    (tombstone.server.clone(), tombstone.generation, tombstone.file.clone())
}

fn fail(failures: &mut Failures, origin: &Origin, source: io::Error) {
    failures.insert(origin.clone(), error(origin)(source));
}

fn error(origin: &Origin) -> impl FnOnce(io::Error) -> RetentionError + '_ {
    |source| RetentionError::Replica { origin: origin.clone(), source }
}

/// A file as the index names it.
#[must_use]
pub fn key(origin: &Origin, generation: u64, stem: &Stem) -> Option<FileKey> {
    let file = FileName::Lines(stem.clone()).to_string();
    // Generations beyond are not indexed.
    let generation = u32::try_from(generation).ok()?;
    Some(FileKey { origin: origin.to_string(), generation, file })
}

/// The record in the hub's own log.
fn record(tombstone: &HubTombstone) -> Entry {
    let reason = format!("retention of {} days", tombstone.days);
    Entry::change("", RequestSource::default(), "hub.file_removed", &tombstone.file, &reason)
        .with("server", &tombstone.server)
        .with("generation", &tombstone.generation.to_string())
        .with("first_seq", &tombstone.first_seq.to_string())
        .with("last_seq", &tombstone.last_seq.to_string())
        .with("lines", &tombstone.lines.to_string())
        .with("seal", tombstone.state.map_or("unverified", |state| state.word()))
}
