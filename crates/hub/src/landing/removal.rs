//! The steps of a removal in the files of one origin. Everything here blocks.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, BufReader, Read as _};
use std::path::Path;

use tacho_chain::HUB_REMOVED_FILE;
use tacho_chain::hub_tombstone::HubTombstone;
use tacho_chain::key::SecretKey;
use tacho_chain::sidecar::{Entries, Meaning};
use tacho_ship::protocol::{FileName, Stem};

use super::names::{files, generations, remove};
use super::removed::{Burial, HeldFiles, Removed, stem_of};
use super::replica::Replica;
use super::space::sync_directory;

impl Replica {
    /// Those of a generation. For the current one they are in memory: what is there counts.
    pub(super) fn with_removed<T>(
        &self,
        generation: u64,
        call: impl FnOnce(&Removed) -> io::Result<T>,
    ) -> io::Result<T> {
        if generation == self.generation {
            return call(&self.removed);
        }
        call(&Removed::read(&self.root.join(generation.to_string()))?)
    }

    /// The files that are not removed, of all generations.
    pub(super) fn held(&self) -> io::Result<HeldFiles> {
        let mut held = HeldFiles::new();
        for generation in generations(&self.root)? {
            let mut files = files(&self.root.join(generation.to_string()))?;
            self.with_removed(generation, |removed| {
                files.retain(|name, _| !removed.has(name));
                Ok(())
            })?;
            for (name, length) in files {
                let Some(stem) = name.stem() else { continue };
                let parts = held.entry(stem.clone()).or_default().entry(generation).or_default();
                match name {
                    FileName::Lines(_) => parts.lines = Some(length),
                    _ => parts.chain = Some(length),
                }
            }
        }
        Ok(held)
    }

    /// Files whose removal has begun: they have a tombstone, and are still there.
    pub(super) fn half_removed(&self) -> io::Result<BTreeMap<Stem, Vec<HubTombstone>>> {
        let mut half_removed: BTreeMap<Stem, Vec<HubTombstone>> = BTreeMap::new();
        for generation in generations(&self.root)? {
            let directory = self.root.join(generation.to_string());
            let files = files(&directory)?;
            let found = self.with_removed(generation, |removed| {
                let there = files.keys().filter(|name| removed.has(name));
                let stems = there.filter_map(|name| name.stem().cloned()).collect();
                tombstones(&directory, removed.bytes, &stems)
            })?;
            for (stem, tombstone) in found {
                half_removed.entry(stem).or_default().push(tombstone);
            }
        }
        Ok(half_removed)
    }

    /// The removed log files, with their generations.
    pub(super) fn removed_stems(&self) -> io::Result<Vec<(u64, Stem)>> {
        let mut stems = Vec::new();
        for generation in generations(&self.root)? {
            self.with_removed(generation, |removed| {
                stems.extend(removed.stems().map(|stem| (generation, stem.clone())));
                Ok(())
            })?;
        }
        Ok(stems)
    }

    /// Puts tombstones to the disk. From then on the files are removed.
    pub(super) fn bury(
        &mut self,
        burials: &[Burial],
        key: &SecretKey,
        time_s: i64,
    ) -> io::Result<()> {
        let current = self.generation;
        burials
            .iter()
            .filter(|burial| burial.tombstone.generation == current)
            .try_for_each(|burial| self.check_read(&burial.tombstone))?;
        for generation in generations(&self.root)? {
            let of_it = |burial: &&Burial| burial.tombstone.generation == generation;
            let burials: Vec<&Burial> = burials.iter().filter(of_it).collect();
            if burials.is_empty() {
                continue;
            }
            let directory = self.root.join(generation.to_string());
            if generation != self.generation {
                let mut removed = Removed::read(&directory)?;
                removed.append(&directory, &burials, key, time_s)?;
                continue;
            }
            let names = self.removed.append(&directory, &burials, key, time_s)?;
            self.drop_names(&names);
        }
        Ok(())
    }

    /// Whether a tombstone is about everything that was acknowledged. A file that another program
    /// has cut is an incident, and evidence.
    fn check_read(&mut self, tombstone: &HubTombstone) -> io::Result<()> {
        let Some(stem) = stem_of(tombstone) else { return Ok(()) };
        for (name, part) in [
            (FileName::Lines(stem.clone()), tombstone.log),
            (FileName::Chain(stem), tombstone.sidecar),
        ] {
            let durable = self.offset(&name);
            if part.bytes != durable {
                self.check_length(&name)?;
                return Err(io::Error::other(format!(
                    "{name}: {} bytes were read, {durable} were acknowledged: it has changed, and \
                     is not removed",
                    part.bytes
                )));
            }
        }
        Ok(())
    }

    /// Removes files that have a tombstone in some generation, from all of those. `gone`: those
    /// that are removed, also if it fails.
    pub(super) fn unlink(
        &self,
        stems: &BTreeSet<Stem>,
        gone: &mut Vec<(u64, FileName)>,
    ) -> io::Result<()> {
        let mut unlinked = Ok(());
        for generation in generations(&self.root)? {
            let directory = self.root.join(generation.to_string());
            let is_due = |removed: &Removed, name: &FileName| {
                name.stem().is_some_and(|stem| stems.contains(stem)) && removed.has(name)
            };
            let mut due: Vec<FileName> = files(&directory)?.into_keys().collect();
            self.with_removed(generation, |removed| {
                due.retain(|name| is_due(removed, name));
                Ok(())
            })?;
            for name in due {
                match remove(&directory, &name) {
                    Ok(()) => gone.push((generation, name)),
                    // The others do not wait for it.
                    Err(error) => unlinked = unlinked.and(Err(error)),
                }
            }
            sync_directory(&directory)?;
        }
        unlinked
    }
}

/// The tombstones of some files of a generation, in the first `bytes` of the list.
fn tombstones(
    directory: &Path,
    bytes: u64,
    stems: &BTreeSet<Stem>,
) -> io::Result<Vec<(Stem, HubTombstone)>> {
    let mut found = Vec::new();
    if stems.is_empty() {
        return Ok(found);
    }
    let file = File::open(directory.join(HUB_REMOVED_FILE))?;
    let mut entries = Entries::new(BufReader::new(file.take(bytes)));
    while let Some(entry) = entries.next_entry()? {
        let Some(Meaning::HubTombstone(tombstone, _)) = entry.meaning else { continue };
        let stem = stem_of(&tombstone);
        found.extend(stem.filter(|stem| stems.contains(stem)).map(|stem| (stem, *tombstone)));
    }
    Ok(found)
}
