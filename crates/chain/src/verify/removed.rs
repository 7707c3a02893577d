//! The tombstones: their content, and whether it is true.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader};

use super::report::{FINDINGS_MAX, Finding, State};
use super::walk::Walk;
use super::{Directory, GrowingDirectory, open_removed};
use crate::REMOVED_FILE;
use crate::entry::{Checkpoint, Epoch, Tombstone};
use crate::hash::Hash;
use crate::note::Note;
use crate::sidecar::{self, Entries, Meaning};

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
    signature: Cell<Signature>,
}

/// What is known of a signature. It is checked again only if there are more keys.
#[derive(Clone, Copy)]
enum Signature {
    /// It stays good.
    Good,
    /// None of so many keys has made it.
    Bad(usize),
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

/// The content of `removed.chain`. The file grows while the log is read, so [`super::verify`] reads
/// it again when a log file has been removed, and a follower reads on; faults are reported at the
/// end.
#[derive(Default)]
pub struct Removed {
    files: BTreeMap<String, Gone>,
    /// As many as a report keeps; the others are counted.
    findings: Vec<Finding>,
    more_findings: u64,
    end: End,
    /// Tombstones beyond those that are kept.
    ignored: u64,
}

/// Where the reading has come to.
#[derive(Default)]
struct End {
    /// Whole entries that were read.
    bytes: u64,
    lines: u64,
    /// Those that wait for their tombstone.
    epochs: Vec<(Epoch, Note, u64)>,
    /// The last tombstone.
    last: Hash,
    is_torn: bool,
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
        removed.extend(BufReader::new(source), usize::MAX, &mut |_| {})?;
        Ok(removed)
    }

    /// Reads what was appended, and keeps `most` tombstones. `each` gets the names that are new.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn read_on(
        &mut self,
        directory: &dyn GrowingDirectory,
        most: usize,
        each: &mut dyn FnMut(&str),
    ) -> io::Result<()> {
        if directory.length(REMOVED_FILE) <= self.end.bytes {
            return Ok(());
        }
        let source = directory.open_from(REMOVED_FILE, self.end.bytes)?;
        self.extend(BufReader::new(source), most, each)
    }

    /// How much of the file was read.
    pub fn bytes(&self) -> u64 {
        self.end.bytes
    }

    fn extend(
        &mut self,
        source: impl BufRead,
        most: usize,
        each: &mut dyn FnMut(&str),
    ) -> io::Result<()> {
        let mut entries = Entries::resume(source, self.end.lines + 1, self.end.bytes);
        while let Some(entry) = entries.next_entry()? {
            self.end.lines = entries.line() - 1;
            self.entry(entry, most, each);
        }
        self.end.bytes = entries.whole_bytes();
        self.end.is_torn = entries.is_torn();
        Ok(())
    }

    fn entry(&mut self, entry: sidecar::Entry, most: usize, each: &mut dyn FnMut(&str)) {
        let line = entry.line;
        match entry.meaning {
            // A file has one epoch.
            Some(Meaning::Epoch(..)) if !self.end.epochs.is_empty() => {
                self.modified(line, "a tombstone is missing here");
            }
            Some(Meaning::Epoch(epoch, note)) => {
                // An empty list would grow to four, and there may be very many of them.
                self.end.epochs.reserve_exact(1);
                self.end.epochs.push((*epoch, note, line));
            }
            Some(Meaning::Tombstone(tombstone, note)) => {
                if tombstone.previous != self.end.last {
                    self.modified(line, "a tombstone before this one is missing");
                }
                self.end.last = Hash::of(&entry.bytes);
                let epochs = std::mem::take(&mut self.end.epochs);
                if epochs.first().is_none_or(|(epoch, ..)| epoch.file != tombstone.file) {
                    self.modified(line, "the key of the removed file is not here");
                }
                let stem = tombstone.file.trim_end_matches(".jsonl").to_owned();
                if self.files.contains_key(&stem) {
                    self.modified(line, "a second tombstone for the same file");
                } else if self.files.len() >= most {
                    self.ignored += 1;
                } else {
                    each(&stem);
                    let signature = Cell::new(Signature::Bad(0));
                    self.files.insert(stem, Gone { tombstone, epochs, note, line, signature });
                }
            }
            None if entry.bytes.starts_with(REMOVED_HEAD_START) => {
                self.modified(line, "a tombstone of an unknown version or form");
            }
            _ => self.modified(line, "not an entry"),
        }
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
        if self.ignored > 0 {
            let text = format!("there are {} more tombstones than are read", self.ignored);
            walk.tell(finding(State::Gap, None, &text));
        }
        if self.end.is_torn || !self.end.epochs.is_empty() {
            // The recorder completes such an entry, or truncates it, before it removes a file.
            walk.tell(finding(State::UnsignedTail, None, "the last entry is not complete"));
        }
        for gone in self.files.values() {
            let keys = walk.known_keys(&gone.note);
            let is_good = match gone.signature.get() {
                Signature::Good => true,
                Signature::Bad(tried) => keys > tried && walk.is_by_known_key(&gone.note),
            };
            gone.signature.set(if is_good { Signature::Good } else { Signature::Bad(keys) });
            if !is_good {
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
    finding(State::Modified, Some(line), text)
}

fn finding(state: State, line: Option<u64>, text: &str) -> Finding {
    Finding { state, file: REMOVED_FILE.to_owned(), line, seqs: None, text: text.to_owned() }
}
