//! The epochs of a log: from its sidecars, and of removed files from their tombstones.

use std::collections::{BTreeMap, BTreeSet};

use tacho_chain::key::VerifierKey;
use tacho_chain::proof::Keys;
use tacho_chain::sidecar::{Entries, Entry, Meaning};
use tacho_ship::protocol::{FileName, Stem};

use super::MakeError;
use super::copy::Copy;

/// What `keys.chain` gets.
pub(super) struct Epochs {
    /// The entries up to the newest file that has records, in the order of files.
    pub(super) bytes: Vec<u8>,
    pub(super) keys: Keys,
    /// Log files that have a tombstone.
    pub(super) removed: BTreeSet<String>,
}

/// Reads the epochs up to a file. `root`: the trusted key; if there is none, that of the oldest
/// epoch.
pub(super) fn read(
    copy: &Copy,
    last: &Stem,
    last_with_records: Option<&Stem>,
    root: &mut Option<VerifierKey>,
) -> Result<Epochs, MakeError> {
    let mut epochs: BTreeMap<String, Entry> = BTreeMap::new();
    let mut removed = BTreeSet::new();
    for (list, bytes) in &copy.lists {
        let mut entries = Entries::new(copy.open(list, *bytes)?);
        while let Some(entry) = entries.next_entry().map_err(|error| copy.error(list, error))? {
            match &entry.meaning {
                Some(Meaning::Epoch(epoch, _)) => {
                    epochs.insert(epoch.file.clone(), entry);
                }
                Some(Meaning::Tombstone(tombstone, _)) => {
                    removed.insert(tombstone.file.clone());
                }
                Some(Meaning::HubTombstone(tombstone, _)) => {
                    removed.insert(tombstone.file.clone());
                }
                _ => {}
            }
        }
    }
    for (stem, lengths) in copy.files.range(..=last.clone()) {
        let Some(bytes) = lengths.chain else { continue };
        let name = FileName::Chain(stem.clone());
        let mut entries = Entries::new(copy.open(&name, bytes)?);
        let first = entries.next_entry().map_err(|error| copy.error(&name, error))?;
        if let Some(entry) = first
            && matches!(entry.meaning, Some(Meaning::Epoch(..)))
        {
            epochs.insert(FileName::Lines(stem.clone()).to_string(), entry);
        }
    }
    let end = FileName::Lines(last.clone()).to_string();
    epochs.retain(|file, _| *file <= end);
    if root.is_none()
        && let Some(Meaning::Epoch(epoch, _)) =
            epochs.values().next().and_then(|entry| entry.meaning.as_ref())
    {
        *root = Some(epoch.root.clone());
    }
    let mut keys = Keys::new(root.iter().cloned().collect());
    let mut bytes = Vec::new();
    let file_of = |stem: &Stem| FileName::Lines(stem.clone()).to_string();
    let needed = last_with_records.map(file_of).unwrap_or_default();
    for (file, entry) in epochs {
        if file <= needed {
            bytes.extend_from_slice(&entry.bytes);
        }
        keys.add(entry);
    }
    Ok(Epochs { bytes, keys, removed })
}
