//! The tombstones: their content, and whether it is true.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io::{self, BufReader};

use super::report::{FINDINGS_MAX, Finding, State};
use super::walk::Walk;
use super::{Directory, open_removed};
use crate::REMOVED_FILE;
use crate::entry::{Checkpoint, Epoch, Tombstone};
use crate::hash::Hash;
use crate::note::Note;
use crate::sidecar::{Entries, Meaning};

/// The beginning of a tombstone's first line, in any version.
const REMOVED_HEAD_START: &[u8] = b"tachograph-removed-v";

/// A removed file.
pub struct Gone {
    /// What the tombstone says.
    pub tombstone: Tombstone,
    /// The file's only epoch: the next keys depend on it.
    pub epochs: Vec<(Epoch, Note, u64)>,
    note: Note,
    line: u64,
    /// A signature that is good stays good.
    is_checked: Cell<bool>,
}

impl Gone {
    /// Line of the tombstone.
    pub fn line(&self) -> u64 {
        self.line
    }

    /// Whether a checkpoint may have gone with the file.
    pub fn covers(&self, checkpoint: &Checkpoint) -> bool {
        let Tombstone { first_seq, last_seq, .. } = self.tombstone;
        // A checkpoint of an idle recorder comes before the first line.
        checkpoint.seq.saturating_add(1) >= first_seq && checkpoint.seq <= last_seq.max(first_seq)
    }
}

/// The content of `removed.chain`. The file grows while the log is read, so it is read again when a
/// log file has been removed; faults are reported at the end, as of the last reading.
#[derive(Default)]
pub struct Removed {
    files: BTreeMap<String, Gone>,
    /// As many as a report keeps; the others are counted.
    findings: Vec<Finding>,
    more_findings: u64,
}

impl Removed {
    /// Reads the file.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn read(directory: &dyn Directory) -> io::Result<Removed> {
        let mut removed = Removed::default();
        let source = match open_removed(directory) {
            Err(error) if error.raw_os_error().is_none() => {
                removed.modified(1, &format!("cannot be read: {error}"));
                return Ok(removed);
            }
            source => source?,
        };
        let Some(source) = source else { return Ok(removed) };
        let mut entries = Entries::new(BufReader::new(source));
        // Capacity for one: an empty list would grow to four, and there may be very many of them.
        let mut epochs = Vec::with_capacity(1);
        let mut last = Hash::ZERO;
        while let Some(entry) = entries.next_entry()? {
            let line = entry.line;
            match entry.meaning {
                // A file has one epoch.
                Some(Meaning::Epoch(..)) if !epochs.is_empty() => {
                    removed.modified(line, "a tombstone is missing here");
                }
                Some(Meaning::Epoch(epoch, note)) => epochs.push((*epoch, note, line)),
                Some(Meaning::Tombstone(tombstone, note)) => {
                    if tombstone.previous != last {
                        removed.modified(line, "a tombstone before this one is missing");
                    }
                    last = Hash::of(&entry.bytes);
                    if epochs.first().is_none_or(|(epoch, ..)| epoch.file != tombstone.file) {
                        removed.modified(line, "the key of the removed file is not here");
                    }
                    let stem = tombstone.file.trim_end_matches(".jsonl").to_owned();
                    let epochs = std::mem::replace(&mut epochs, Vec::with_capacity(1));
                    match removed.files.entry(stem) {
                        Entry::Vacant(place) => {
                            let is_checked = Cell::new(false);
                            place.insert(Gone { tombstone, epochs, note, line, is_checked });
                        }
                        Entry::Occupied(_) => {
                            removed.modified(line, "a second tombstone for the same file");
                        }
                    }
                }
                None if entry.bytes.starts_with(REMOVED_HEAD_START) => {
                    removed.modified(line, "a tombstone of an unknown version or form");
                }
                _ => removed.modified(line, "not an entry"),
            }
        }
        if entries.is_torn() || !epochs.is_empty() {
            // The recorder completes such an entry, or truncates it, before it removes a file.
            removed.add(Finding {
                state: State::UnsignedTail,
                file: REMOVED_FILE.to_owned(),
                line: None,
                seqs: None,
                text: "the last entry is not complete".to_owned(),
            });
        }
        Ok(removed)
    }

    /// The removed file of a name.
    pub fn get(&self, stem: &str) -> Option<&Gone> {
        self.files.get(stem)
    }

    /// The names of the removed files, without their endings.
    pub fn stems(&self) -> impl Iterator<Item = &str> {
        self.files.keys().map(String::as_str)
    }

    /// Reports faults, and checks the signatures, now that all keys are known.
    pub fn check(&self, walk: &mut Walk<'_>) {
        self.findings.iter().for_each(|finding| walk.tell(finding.clone()));
        walk.report.add_uncounted(self.more_findings);
        for gone in self.files.values() {
            if gone.is_checked.get() {
                continue;
            }
            if walk.is_by_known_key(&gone.note) {
                gone.is_checked.set(true);
            } else {
                walk.tell(modified(gone.line, "no key of this log has signed this tombstone"));
            }
        }
    }

    fn modified(&mut self, line: u64, text: &str) {
        self.add(modified(line, text));
    }

    fn add(&mut self, finding: Finding) {
        if self.findings.len() < FINDINGS_MAX {
            self.findings.push(finding);
        } else {
            self.more_findings += 1;
        }
    }
}

fn modified(line: u64, text: &str) -> Finding {
    Finding {
        state: State::Modified,
        file: REMOVED_FILE.to_owned(),
        line: Some(line),
        seqs: None,
        text: text.to_owned(),
    }
}
