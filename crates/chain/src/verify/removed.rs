//! The tombstones: their content, and whether it is true.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader};

use super::report::{FINDINGS_MAX, Finding, LogState, Report};
use super::walk::Walk;
use super::{Directory, GrowingDirectory, open_list};
use crate::entry::{Checkpoint, Epoch, RemovalReason, Tombstone};
use crate::hash::Hash;
use crate::hub_tombstone::HubTombstone;
use crate::note::Note;
use crate::sidecar::{self, Entries, Meaning};
use crate::{HUB_REMOVED_FILE, REMOVED_FILE};

/// The beginning of a tombstone's first line, in any version.
const REMOVED_HEAD_START: &[u8] = b"tachograph-removed-v";
const HUB_REMOVED_HEAD_START: &[u8] = b"tachograph-hub-removed-v";

/// A removed file.
pub struct Gone {
    /// The log file, without its directory.
    pub file: String,
    /// `seq` of its first line.
    pub first_seq: u64,
    /// `seq` of its last line.
    pub last_seq: u64,
    /// The chain at its end.
    pub chain: Hash,
    /// Why the recorder removed it; `None`: a hub removed it from its copy.
    pub reason: Option<RemovalReason>,
    /// Its lines and bytes, and what was found in it, if a hub removed it.
    pub lines: u64,
    pub bytes: u64,
    pub state: Option<LogState>,
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
    fn of(tombstone: Tombstone, note: Note, line: u64) -> Self {
        let Tombstone { file, first_seq, last_seq, chain, reason, .. } = tombstone;
        let gone = Self::new(file, (first_seq, last_seq), chain, note, line);
        Self { reason: Some(reason), ..gone }
    }

    fn of_hub(tombstone: HubTombstone, chain: Hash, note: Note, line: u64) -> Self {
        let HubTombstone { file, first_seq, last_seq, lines, log, state, .. } = tombstone;
        let gone = Self::new(file, (first_seq, last_seq), chain, note, line);
        Self { lines, bytes: log.bytes, state, ..gone }
    }

    fn new(file: String, seqs: (u64, u64), chain: Hash, note: Note, line: u64) -> Self {
        let (first_seq, last_seq) = seqs;
        let (epochs, signature) = (Vec::new(), Cell::new(Signature::Bad(0)));
        let (reason, lines, bytes, state) = (None, 0, 0, None);
        Self {
            file,
            first_seq,
            last_seq,
            chain,
            reason,
            lines,
            bytes,
            state,
            epochs,
            note,
            line,
            signature,
        }
    }

    /// The file that has the tombstone.
    pub fn list(&self) -> &'static str {
        if self.reason.is_some() { REMOVED_FILE } else { HUB_REMOVED_FILE }
    }

    /// Line of the tombstone.
    pub fn line(&self) -> u64 {
        self.line
    }

    /// Whether a checkpoint may have gone with the file.
    pub fn covers(&self, checkpoint: &Checkpoint) -> bool {
        let Self { first_seq, last_seq, .. } = *self;
        // A checkpoint of an idle recorder comes before the first line.
        checkpoint.seq.saturating_add(1) >= first_seq && checkpoint.seq <= last_seq.max(first_seq)
    }

    /// Whether one of `keys` keys has signed the tombstone, as `is_by_one` says.
    fn is_signed(&self, keys: usize, is_by_one: impl Fn(&Note) -> bool) -> bool {
        let is_good = match self.signature.get() {
            Signature::Good => true,
            Signature::Bad(tried) => keys > tried && is_by_one(&self.note),
        };
        self.signature.set(if is_good { Signature::Good } else { Signature::Bad(keys) });
        is_good
    }
}

/// The tombstones of the recorder, and those of a hub. Both files grow while the log is read, so
/// [`super::verify`] reads them again when a log file has been removed, and a follower reads on;
/// faults are reported at the end.
pub struct Removed {
    own: List,
    hub: List,
}

/// One file of tombstones.
struct List {
    name: &'static str,
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

impl Default for Removed {
    fn default() -> Self {
        Self { own: List::new(REMOVED_FILE), hub: List::new(HUB_REMOVED_FILE) }
    }
}

impl Removed {
    /// Reads the files.
    ///
    /// # Errors
    /// If one cannot be read.
    pub fn read(directory: &dyn Directory) -> io::Result<Removed> {
        let mut removed = Removed::default();
        for list in [&mut removed.own, &mut removed.hub] {
            list.read(directory)?;
        }
        Ok(removed)
    }

    /// Reads what was appended, and keeps `most` tombstones of the recorder, and of a hub. `each`
    /// gets the names that are new.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn read_on(
        &mut self,
        directory: &dyn GrowingDirectory,
        most: (usize, usize),
        each: &mut dyn FnMut(&str, &Gone),
    ) -> io::Result<()> {
        self.own.read_on(directory, most.0, each)?;
        self.hub.read_on(directory, most.1, each)
    }

    /// Whether one of the files is shorter than what was read of it.
    pub fn is_cut(&self, directory: &dyn GrowingDirectory) -> bool {
        [&self.own, &self.hub].iter().any(|list| directory.length(list.name) < list.end.bytes)
    }

    /// A file that was read was removed by a hub since.
    pub fn forget(&self, stem: &str, report: &mut Report) {
        if let Some(gone) = self.hub.files.get(stem) {
            report.forget(gone.lines, gone.bytes);
            report.add_removed(self.get(stem).unwrap_or(gone));
        }
    }

    /// The removed file of a name.
    pub fn get(&self, stem: &str) -> Option<&Gone> {
        self.own.files.get(stem).or_else(|| self.hub.files.get(stem))
    }

    /// The names of the removed files, without their endings.
    pub fn stems(&self) -> impl Iterator<Item = &str> {
        self.own.files.keys().chain(self.hub.files.keys()).map(String::as_str)
    }

    /// Reports faults, and checks the signatures, now that all keys are known.
    pub fn check(&self, walk: &mut Walk<'_>) {
        self.own.report(walk);
        self.hub.report(walk);
        for gone in self.own.files.values() {
            let keys = walk.known_keys(&gone.note);
            if !gone.is_signed(keys, |note| walk.is_by_known_key(note)) {
                let text = "no key of this log has signed this tombstone";
                walk.tell(modified(REMOVED_FILE, gone.line, text));
            }
        }
        let hub_keys = &walk.options.hub_keys;
        let is_by_hub = |note: &Note| hub_keys.iter().any(|key| note.is_by(key));
        self.found_before(walk, &is_by_hub);
        let only_here =
            self.hub.files.iter().filter(|(stem, _)| !self.own.files.contains_key(*stem));
        let foreign: Vec<&Gone> = only_here
            .map(|(_, gone)| gone)
            .filter(|gone| !gone.is_signed(hub_keys.len(), is_by_hub))
            .collect();
        if let (Some(first), Some(last)) = (foreign.first(), foreign.last()) {
            let text = format!(
                "{} files were removed by a hub, {}, whose public key is not given",
                foreign.len(),
                first.note.name
            );
            let (list, seqs) = (HUB_REMOVED_FILE, (first.first_seq, last.last_seq));
            walk.say_of(LogState::Gap, list, seqs, text);
        }
    }
}

impl Removed {
    /// Reports what hubs had found in files before they removed them, unless it is found in what is
    /// left, too.
    fn found_before(&self, walk: &mut Walk<'_>, is_by_hub: &dyn Fn(&Note) -> bool) {
        let keys = walk.options.hub_keys.len();
        let is_bad = |state: &LogState| *state >= LogState::BrokenChain;
        let bad = self.hub.files.iter().filter_map(|(stem, gone)| {
            let state = gone.state.filter(is_bad)?;
            gone.is_signed(keys, is_by_hub).then_some((stem, gone, state))
        });
        let findings = &walk.report.findings;
        let is_found = |stem: &str, state: LogState| {
            let is_it = |finding: &Finding| {
                finding.state >= state && finding.file.split('.').next() == Some(stem)
            };
            findings.iter().any(is_it)
        };
        let new: Vec<Finding> = bad
            .filter(|(stem, _, state)| !is_found(stem, *state))
            .map(|(_, gone, state)| {
                let text = "a hub found this before it removed the file".to_owned();
                let (file, seqs) = (gone.file.clone(), (gone.first_seq, gone.last_seq));
                let seqs = (seqs.0 <= seqs.1).then_some(seqs);
                Finding { state, file, line: None, seqs, text }
            })
            .collect();
        new.into_iter().for_each(|finding| walk.tell(finding));
    }
}

impl List {
    fn new(name: &'static str) -> Self {
        Self {
            name,
            files: BTreeMap::new(),
            findings: Vec::new(),
            more_findings: 0,
            end: End::default(),
            ignored: 0,
        }
    }

    fn read(&mut self, directory: &dyn Directory) -> io::Result<()> {
        let source = match open_list(directory, self.name) {
            Err(error) if error.raw_os_error().is_none() => {
                self.modified(1, &format!("cannot be read: {error}"));
                return Ok(());
            }
            source => source?,
        };
        let Some(source) = source else { return Ok(()) };
        self.extend(BufReader::new(source), usize::MAX, &mut |_, _| {})
    }

    fn read_on(
        &mut self,
        directory: &dyn GrowingDirectory,
        most: usize,
        each: &mut dyn FnMut(&str, &Gone),
    ) -> io::Result<()> {
        if directory.length(self.name) <= self.end.bytes {
            return Ok(());
        }
        let source = directory.open_from(self.name, self.end.bytes)?;
        self.extend(BufReader::new(source), most, each)
    }

    fn extend(
        &mut self,
        source: impl BufRead,
        most: usize,
        each: &mut dyn FnMut(&str, &Gone),
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

    fn entry(&mut self, entry: sidecar::Entry, most: usize, each: &mut dyn FnMut(&str, &Gone)) {
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
            Some(Meaning::Tombstone(tombstone, note)) if self.name == REMOVED_FILE => {
                self.follows(line, tombstone.previous, &entry.bytes);
                self.add_gone(Gone::of(tombstone, note, line), most, each);
            }
            Some(Meaning::HubTombstone(tombstone, note)) if self.name == HUB_REMOVED_FILE => {
                self.follows(line, tombstone.previous, &entry.bytes);
                // Nothing depends on a file that was not sealed.
                if let Some((_, chain)) = tombstone.seal {
                    self.add_gone(Gone::of_hub(*tombstone, chain, note, line), most, each);
                }
            }
            None if entry.bytes.starts_with(REMOVED_HEAD_START)
                || entry.bytes.starts_with(HUB_REMOVED_HEAD_START) =>
            {
                self.modified(line, "a tombstone of an unknown version or form");
            }
            _ => self.modified(line, "not an entry"),
        }
    }

    /// A tombstone names the one before it.
    fn follows(&mut self, line: u64, previous: Hash, bytes: &[u8]) {
        if previous != self.end.last {
            self.modified(line, "a tombstone before this one is missing");
        }
        self.end.last = Hash::of(bytes);
    }

    fn add_gone(&mut self, mut gone: Gone, most: usize, each: &mut dyn FnMut(&str, &Gone)) {
        gone.epochs = std::mem::take(&mut self.end.epochs);
        if gone.epochs.first().is_none_or(|(epoch, ..)| epoch.file != gone.file) {
            self.modified(gone.line, "the key of the removed file is not here");
        }
        let stem = gone.file.trim_end_matches(".jsonl").to_owned();
        if self.files.contains_key(&stem) {
            self.modified(gone.line, "a second tombstone for the same file");
        } else if self.files.len() >= most {
            self.ignored += 1;
        } else {
            each(&stem, &gone);
            self.files.insert(stem, gone);
        }
    }

    fn report(&self, walk: &mut Walk<'_>) {
        self.findings.iter().for_each(|finding| walk.tell(finding.clone()));
        walk.report.add_uncounted(self.more_findings);
        if self.ignored > 0 {
            let text = format!("there are {} more tombstones than are read", self.ignored);
            walk.tell(finding(self.name, LogState::Gap, None, &text));
        }
        if self.end.is_torn || !self.end.epochs.is_empty() {
            // It is completed or cut off before a file is removed.
            let text = "the last entry is not complete";
            walk.tell(finding(self.name, LogState::UnsignedTail, None, text));
        }
    }

    fn modified(&mut self, line: u64, text: &str) {
        if self.findings.len() < FINDINGS_MAX {
            self.findings.push(modified(self.name, line, text));
        } else {
            self.more_findings += 1;
        }
    }
}

fn modified(list: &str, line: u64, text: &str) -> Finding {
    finding(list, LogState::Modified, Some(line), text)
}

fn finding(list: &str, state: LogState, line: Option<u64>, text: &str) -> Finding {
    Finding { state, file: list.to_owned(), line, seqs: None, text: text.to_owned() }
}
