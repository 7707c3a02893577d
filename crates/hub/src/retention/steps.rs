//! The steps of a removal, and their completion after a crash.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use tacho_chain::hub_tombstone::HubTombstone;
use tacho_chain::key::SecretKey;
use tacho_ship::protocol::{FileName, Origin, Stem};
use tacho_store::{FileKey, Store, StoreError};

use super::burial::Due;
use super::settings::{self, Settings};
use crate::audit::{Entry, Source};
use crate::clock::now_us;
use crate::data::DataDirectory;
use crate::database::{Database, DatabaseError};
use crate::landing::Landing;
use crate::landing::removed::{Burial, stem_of};
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
    /// Called before each step; `false` ends the removal there, as a crash does. For tests.
    pub may_go_on: Box<dyn Fn(Step) -> bool + Send>,
}

type Burials = BTreeMap<Origin, Vec<Burial>>;

impl Steps {
    /// Removes files that are due.
    ///
    /// # Errors
    /// Something cannot be read or written; what has begun is completed by [`Steps::complete`].
    pub fn remove(&self, due: &[Due]) -> Result<(), RetentionError> {
        let mut burials = Burials::new();
        for file in due {
            for (generation, _) in &file.generations {
                let directory = self.data.generation(&file.origin, *generation);
                let burial = file.read(&directory, *generation).map_err(error(&file.origin))?;
                burials.entry(file.origin.clone()).or_default().push(burial);
            }
        }
        self.go_on(Step::Bury)?;
        let now_s = now_us() / 1_000_000;
        for (origin, burials) in &burials {
            self.landing.bury(origin, burials, &self.key, now_s).map_err(error(origin))?;
        }
        let mut stems: BTreeMap<Origin, BTreeSet<Stem>> = BTreeMap::new();
        for file in due {
            stems.entry(file.origin.clone()).or_default().insert(file.stem.clone());
        }
        let tombstones: Vec<&HubTombstone> =
            burials.values().flatten().map(|burial| &burial.tombstone).collect();
        self.finish(&tombstones, &stems)
    }

    /// Completes removals that a crash has interrupted, and removes rows of removed files that an
    /// older index has.
    ///
    /// # Errors
    /// Something cannot be read or written.
    pub fn complete(&self) -> Result<(), RetentionError> {
        let settings = settings::load(&self.database)?;
        for (origin, ..) in self.landing.origins() {
            self.complete_origin(&origin, &settings)?;
        }
        Ok(())
    }

    fn complete_origin(&self, origin: &Origin, settings: &Settings) -> Result<(), RetentionError> {
        let half_removed = self.landing.half_removed(origin).map_err(error(origin))?;
        let stems: BTreeSet<Stem> = half_removed.keys().cloned().collect();
        let mut tombstones: Vec<HubTombstone> = half_removed.into_values().flatten().collect();
        if !stems.is_empty() {
            say(&format!("{origin}: completing the removal of {} log files", stems.len()));
            // A crash between the tombstones of two generations.
            let held = self.landing.held(origin).map_err(error(origin))?;
            let mut missing = Vec::new();
            for (stem, copies) in held.iter().filter(|(stem, _)| stems.contains(*stem)) {
                let (origin, stem) = (origin.clone(), stem.clone());
                let generations = copies.keys().map(|generation| (*generation, None)).collect();
                let days = settings.days(&origin);
                let newest_us = super::plan::begin_us(&stem);
                let due = Due { origin, stem, generations, newest_us, days };
                for generation in copies.keys() {
                    let directory = self.data.generation(&due.origin, *generation);
                    missing.push(due.read(&directory, *generation).map_err(error(&due.origin))?);
                }
            }
            let now_s = now_us() / 1_000_000;
            self.landing.bury(origin, &missing, &self.key, now_s).map_err(error(origin))?;
            tombstones.extend(missing.into_iter().map(|burial| burial.tombstone));
        }
        let removed = self.landing.removed(origin).map_err(error(origin))?;
        let keys = removed.iter().filter_map(|(generation, stem)| key(origin, *generation, stem));
        self.store.forget(&keys.collect())?;
        let tombstones: Vec<&HubTombstone> = tombstones.iter().collect();
        self.finish(&tombstones, &BTreeMap::from([(origin.clone(), stems)]))
    }

    /// The steps behind the tombstones.
    fn finish(
        &self,
        tombstones: &[&HubTombstone],
        stems: &BTreeMap<Origin, BTreeSet<Stem>>,
    ) -> Result<(), RetentionError> {
        self.go_on(Step::Record)?;
        let records: Vec<Entry> = tombstones.iter().map(|tombstone| record(tombstone)).collect();
        if !records.is_empty() {
            self.database.write(|transaction| {
                records.iter().try_for_each(|entry| crate::audit::outbox::put(transaction, entry))
            })?;
        }
        self.go_on(Step::Forget)?;
        let keys = tombstones.iter().filter_map(|tombstone| {
            key(&tombstone.server.parse().ok()?, tombstone.generation, &stem_of(tombstone)?)
        });
        let forgotten = self.store.forget(&keys.collect())?;
        self.go_on(Step::Unlink)?;
        for (origin, stems) in stems.iter().filter(|(_, stems)| !stems.is_empty()) {
            self.landing.unlink(origin, stems).map_err(error(origin))?;
            let rows = forgotten.rows.get(origin.as_str()).copied().unwrap_or(0);
            say(&format!("{origin}: retention removed {} log files, {rows} records", stems.len()));
        }
        self.go_on(Step::Done)
    }

    fn go_on(&self, step: Step) -> Result<(), RetentionError> {
        if (self.may_go_on)(step) { Ok(()) } else { Err(RetentionError::Stopped(step)) }
    }
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
    Entry::change("", Source::default(), "hub.file_removed", &tombstone.file, &reason)
        .with("server", &tombstone.server)
        .with("generation", &tombstone.generation.to_string())
        .with("first_seq", &tombstone.first_seq.to_string())
        .with("last_seq", &tombstone.last_seq.to_string())
        .with("lines", &tombstone.lines.to_string())
        .with("seal", tombstone.state.map_or("unverified", |state| state.word()))
}
