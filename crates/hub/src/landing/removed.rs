//! Files that the hub's retention has removed from a generation: `hub-removed.chain` in its
//! directory (`docs/specs/retention.md`).
//!
//! A file counts as removed from the moment in which its tombstone is on the disk, also while it is
//! still there. Its durable offset stays, so that no shipper sends it again.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::io::{self, BufReader};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::{Arc, PoisonError};

use tacho_chain::HUB_REMOVED_FILE;
use tacho_chain::hash::Hash;
use tacho_chain::hub_tombstone::{HubTombstone, RemovedPart};
use tacho_chain::key::SecretKey;
use tacho_chain::note;
use tacho_chain::sidecar::{Entries, Meaning};
use tacho_ship::protocol::{Before, FileName, Origin, Stem, Stored};

use super::names::generations;
use super::replica::{Put, Replica};
use super::space::sync_directory;
use super::{Landing, Refusal};
use crate::say::say;

/// The tombstones of a generation.
#[derive(Default)]
pub(super) struct Removed {
    parts: BTreeMap<FileName, RemovedPart>,
    /// The last tombstone.
    last: Hash,
    /// Bytes of whole entries.
    pub(super) bytes: u64,
}

/// A file that is to be removed from one generation.
#[derive(Clone, Debug)]
pub struct Burial {
    /// The first entry of its sidecar, if it is sealed.
    pub epoch: Option<Vec<u8>>,
    /// Its tombstone; `previous` and `time_s` are set when it is signed.
    pub tombstone: HubTombstone,
}

/// A log file in a generation: the lengths of its parts. `None`: it is not there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// The lines.
    pub lines: Option<u64>,
    /// The sidecar.
    pub chain: Option<u64>,
}

impl Held {
    /// Bytes on the disk.
    #[must_use]
    pub fn bytes(self) -> u64 {
        self.lines.unwrap_or(0) + self.chain.unwrap_or(0)
    }
}

/// The log files of an origin that are not removed: by name, and by generation.
pub type HeldFiles = BTreeMap<Stem, BTreeMap<u64, Held>>;

/// The log file of a tombstone.
#[must_use]
pub fn stem_of(tombstone: &HubTombstone) -> Option<Stem> {
    tombstone.file.strip_suffix(".jsonl")?.parse().ok()
}

impl Removed {
    /// Reads the tombstones in the directory of a generation.
    pub(super) fn read(directory: &Path) -> io::Result<Self> {
        Self::read_while(directory, |_| true)
    }

    /// Reads them up to the first that is not wanted.
    fn read_while(directory: &Path, wanted: impl Fn(&Stem) -> bool) -> io::Result<Self> {
        let mut removed = Self::default();
        let file = match File::open(directory.join(HUB_REMOVED_FILE)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(removed),
            file => file?,
        };
        let mut entries = Entries::new(BufReader::new(file));
        while let Some(entry) = entries.next_entry()? {
            match entry.meaning {
                Some(Meaning::HubTombstone(tombstone, _)) => {
                    let Some(stem) = stem_of(&tombstone) else { continue };
                    if !wanted(&stem) {
                        break;
                    }
                    removed.parts.insert(FileName::Lines(stem.clone()), tombstone.log);
                    removed.parts.insert(FileName::Chain(stem), tombstone.sidecar);
                    removed.last = Hash::of(&entry.bytes);
                    removed.bytes = entries.whole_bytes();
                }
                // It belongs to the tombstone behind it.
                Some(Meaning::Epoch(..)) => {}
                // Another process changed the file. The verification reports it; the hub starts.
                _ => removed.bytes = entries.whole_bytes(),
            }
        }
        Ok(removed)
    }

    pub(super) fn has(&self, name: &FileName) -> bool {
        self.parts.contains_key(name)
    }

    /// The log files.
    pub(super) fn stems(&self) -> impl Iterator<Item = &Stem> {
        let lines = self.parts.keys().filter(|name| matches!(name, FileName::Lines(_)));
        lines.filter_map(FileName::stem)
    }

    /// Those that had bytes, the newest ones, `most` at most.
    pub(super) fn newest(&self, most: usize) -> impl Iterator<Item = (&FileName, u64)> {
        let offsets = self.parts.iter().rev().map(|(name, part)| (name, part.bytes));
        offsets.filter(|(_, bytes)| *bytes > 0).take(most)
    }

    /// How many names there are.
    pub(super) fn len(&self) -> usize {
        self.parts.len()
    }

    /// Answers a `PUT` of a removed file. Only its end can be compared.
    pub(super) fn put(
        &self,
        put: &Put,
        body_bytes: u64,
        generation: u64,
    ) -> Option<Result<Stored, Refusal>> {
        let part = self.parts.get(&put.file)?;
        let offset = part.bytes;
        if put.offset > offset {
            return Some(Err(Refusal::Offset { offset, generation }));
        }
        // The file was complete: more of it contradicts what the hub has verified.
        let is_longer = put.offset.saturating_add(body_bytes) > offset;
        let is_other = put.offset == offset
            && put.before.is_some_and(|before| before != Before::from_hash(part.end.0));
        Some(match is_longer || is_other {
            true => Err(Refusal::Contradiction { offset, generation }),
            false => Ok(Stored { generation, offset }),
        })
    }

    /// Signs and appends tombstones; when it returns, they are on the disk. If it fails, none is.
    /// Returns the names of the files that are removed by them.
    pub(super) fn append(
        &mut self,
        directory: &Path,
        burials: &[&Burial],
        key: &SecretKey,
        time_s: i64,
    ) -> io::Result<Vec<FileName>> {
        let mut options = OpenOptions::new();
        let path = directory.join(HUB_REMOVED_FILE);
        let file = options.create(true).truncate(false).write(true).mode(0o600).open(&path)?;
        let (mut bytes, mut last, mut parts) = (Vec::new(), self.last, Vec::new());
        for burial in burials {
            let Some(stem) = stem_of(&burial.tombstone) else { continue };
            let tombstone = HubTombstone { previous: last, time_s, ..burial.tombstone.clone() };
            let note = note::sign(&tombstone.to_text(), key.root().origin(), key);
            bytes.extend_from_slice(burial.epoch.as_deref().unwrap_or_default());
            bytes.extend_from_slice(note.as_bytes());
            last = Hash::of(note.as_bytes());
            parts.push((FileName::Lines(stem.clone()), tombstone.log));
            parts.push((FileName::Chain(stem), tombstone.sidecar));
        }
        let end = self.bytes;
        append_synced(&file, &path, end, || {
            file.write_all_at(&bytes, end)?;
            file.sync_all()?;
            sync_directory(directory)
        })?;
        self.bytes += bytes.len() as u64;
        self.last = last;
        let names = parts.iter().map(|(name, _)| name.clone()).collect();
        self.parts.extend(parts);
        Ok(names)
    }
}

/// Writes behind the end of what counts. If that fails, nothing of it stays: after a sync that
/// failed, a later one proves nothing about these bytes.
fn append_synced(
    file: &File,
    path: &Path,
    end: u64,
    write: impl FnOnce() -> io::Result<()>,
) -> io::Result<()> {
    // An entry that a crash has left incomplete.
    file.set_len(end)?;
    let written = write();
    if written.is_err()
        && let Err(error) = file.set_len(end).and_then(|()| file.sync_all())
    {
        say(&format!("cannot cut {} back to {end} bytes: {error}", path.display()));
    }
    written
}

impl Replica {
    /// Gives another generation the tombstones of the files that it shares.
    pub(super) fn copy_removed(
        &self,
        target: &Path,
        is_shared: impl Fn(&FileName) -> bool,
    ) -> io::Result<Removed> {
        let is_wanted = |stem: &Stem| is_shared(&FileName::Lines(stem.clone()));
        let removed = Removed::read_while(&self.path(), is_wanted)?;
        if removed.bytes > 0 {
            let mut copy = File::create_new(target.join(HUB_REMOVED_FILE))?;
            let source = File::open(self.path().join(HUB_REMOVED_FILE))?;
            io::copy(&mut io::Read::take(source, removed.bytes), &mut copy)?;
            copy.sync_all()?;
        }
        Ok(removed)
    }
}

/// The removed log files in the directory of an origin, with their generations.
fn removed_in(root: &Path) -> io::Result<Vec<(u64, Stem)>> {
    let mut stems = Vec::new();
    for generation in generations(root)? {
        let removed = Removed::read(&root.join(generation.to_string()))?;
        stems.extend(removed.stems().map(|stem| (generation, stem.clone())));
    }
    Ok(stems)
}

/// All removed log files of a hub.
///
/// # Errors
/// The replica cannot be read.
pub fn all(replica: &Path) -> io::Result<Vec<(Origin, u64, Stem)>> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(replica)? {
        let name = entry?.file_name();
        let Some(origin) = name.to_str().and_then(|name| name.parse::<Origin>().ok()) else {
            continue;
        };
        let stems = removed_in(&replica.join(&name))?.into_iter();
        all.extend(stems.map(|(generation, stem)| (origin.clone(), generation, stem)));
    }
    Ok(all)
}

impl Landing {
    /// The log files of an origin that are not removed. Blocks.
    ///
    /// # Errors
    /// The replica cannot be read.
    pub fn held(&self, origin: &Origin) -> io::Result<HeldFiles> {
        self.with_replica_now(origin, |replica| replica.held())
    }

    /// Files of an origin whose removal has begun. Blocks.
    ///
    /// # Errors
    /// The replica cannot be read.
    pub fn half_removed(&self, origin: &Origin) -> io::Result<BTreeMap<Stem, Vec<HubTombstone>>> {
        self.with_replica_now(origin, |replica| replica.half_removed())
    }

    /// Removed files of an origin, by generation: names of log files. Blocks.
    ///
    /// # Errors
    /// The replica cannot be read.
    pub fn removed(&self, origin: &Origin) -> io::Result<Vec<(u64, Stem)>> {
        self.with_replica_now(origin, |replica| replica.removed_stems())
    }

    /// Signs tombstones, and puts them to the disk. Blocks.
    ///
    /// # Errors
    /// They are not all on the disk, or one is not about all that was acknowledged of its file.
    pub fn bury(
        &self,
        origin: &Origin,
        burials: &[Burial],
        key: &SecretKey,
        time_s: i64,
    ) -> io::Result<()> {
        self.with_replica_now(origin, |replica| replica.bury(burials, key, time_s))
    }

    /// Removes files that have tombstones from the disk. Blocks.
    ///
    /// # Errors
    /// Some are still there.
    pub fn unlink(&self, origin: &Origin, stems: &BTreeSet<Stem>) -> io::Result<()> {
        let mut gone = Vec::new();
        let result = self.with_replica_now(origin, |replica| replica.unlink(stems, &mut gone));
        for (generation, name) in gone {
            self.shared.feed.remove(origin, generation, &name);
        }
        result
    }

    /// The current generation of an origin, and how much of a log file in it was acknowledged.
    /// Blocks.
    ///
    /// # Errors
    /// There is no such origin.
    pub fn durable(&self, origin: &Origin, stem: &Stem) -> io::Result<(u64, Held)> {
        self.with_replica_now(origin, |replica| {
            let lines = Some(replica.offset(&FileName::Lines(stem.clone())));
            let chain = Some(replica.offset(&FileName::Chain(stem.clone())));
            Ok((replica.generation(), Held { lines, chain }))
        })
    }

    pub(super) fn with_replica_now<T>(
        &self,
        origin: &Origin,
        call: impl FnOnce(&mut Replica) -> io::Result<T>,
    ) -> io::Result<T> {
        let origins = self.shared.origins.read().unwrap_or_else(PoisonError::into_inner);
        let entry = origins.get(origin).map(Arc::clone);
        drop(origins);
        let entry = entry.ok_or(io::ErrorKind::NotFound)?;
        let mut replica = entry.replica.blocking_lock();
        let result = call(&mut replica);
        self.shared.report_incidents(&mut replica);
        entry.see(&replica);
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_names_are_listed() {
        let part = |bytes| RemovedPart { bytes, digest: Hash::ZERO, end: Hash::ZERO };
        let name = |number: u64, ending: &str| {
            format!("audit-20261121T100000Z-00000{number}.{ending}").parse::<FileName>().unwrap()
        };
        let mut removed = Removed::default();
        for number in 1..=3 {
            removed.parts.insert(name(number, "jsonl"), part(number));
            removed.parts.insert(name(number, "chain"), part(0));
        }
        let newest = |most| removed.newest(most).map(|(_, bytes)| bytes).collect::<Vec<_>>();
        assert_eq!((newest(2), newest(9)), (vec![3, 2], vec![3, 2, 1]));
    }

    /// A disk that is full, or fails.
    #[test]
    fn an_append_that_fails_leaves_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(HUB_REMOVED_FILE);
        std::fs::write(&path, "kept").unwrap();
        let file = OpenOptions::new().write(true).open(&path).unwrap();
        let append = |text: &str, result: io::Result<()>| {
            let write = || file.write_all_at(text.as_bytes(), 4).and(result);
            append_synced(&file, &path, 4, write).is_ok()
        };
        assert!(!append("tombstones", Err(io::ErrorKind::StorageFull.into())));
        assert_eq!(std::fs::read(&path).unwrap(), b"kept");
        assert!(append("one", Ok(())));
        assert_eq!(std::fs::read(&path).unwrap(), b"keptone");
        // What a crash has left is cut.
        assert!(append("2", Ok(())));
        assert_eq!(std::fs::read(&path).unwrap(), b"kept2");
    }
}
