//! The keys of a log: from its root, epoch by epoch.

use std::collections::BTreeMap;

use super::finding;
use crate::entry::{Epoch, EpochReason};
use crate::key::VerifierKey;
use crate::known::KnownKeys;
use crate::note::Note;
use crate::sidecar::{Entry, Meaning};
use crate::verify::{Finding, LogState};

/// Findings that are kept; the others are counted.
const FINDINGS_MAX: usize = 1000;

/// The epochs of the files of a log, from the oldest to the newest.
#[derive(Debug)]
pub struct Keys {
    trusted: Vec<VerifierKey>,
    /// Keys of epochs that a trusted root leads to.
    known: KnownKeys,
    files: BTreeMap<String, FileKeys>,
    last: Option<String>,
    findings: Vec<Finding>,
    more_findings: u64,
    is_wrong_key_told: bool,
}

/// The epoch of one file.
#[derive(Debug)]
pub(super) struct FileKeys {
    pub(super) bytes: Vec<u8>,
    pub(super) epoch: Epoch,
    /// A trusted root leads to it.
    pub(super) is_believed: bool,
}

impl Keys {
    /// Nothing yet. `trusted`: root keys.
    #[must_use]
    pub fn new(trusted: Vec<VerifierKey>) -> Self {
        Self {
            trusted,
            known: KnownKeys::default(),
            files: BTreeMap::new(),
            last: None,
            findings: Vec::new(),
            more_findings: 0,
            is_wrong_key_told: false,
        }
    }

    /// What was found, in the order of the files.
    #[must_use]
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// Findings beyond those.
    #[must_use]
    pub fn more_findings(&self) -> u64 {
        self.more_findings
    }

    /// Whether a trusted root leads to the key of a log file.
    #[must_use]
    pub fn is_believed(&self, file: &str) -> bool {
        self.files.get(file).is_some_and(|keys| keys.is_believed)
    }

    /// The epoch of a log file.
    #[must_use]
    pub fn epoch(&self, file: &str) -> Option<&Epoch> {
        self.files.get(file).map(|keys| &keys.epoch)
    }

    pub(super) fn of(&self, file: &str) -> Option<&FileKeys> {
        self.files.get(file)
    }

    /// Adds the first entry of the next file's sidecar.
    pub fn add(&mut self, entry: Entry) {
        let Entry { bytes, meaning, .. } = entry;
        let Some(Meaning::Epoch(epoch, note)) = meaning else {
            self.say(LogState::Modified, "", None, "an entry that should begin an epoch does not");
            return;
        };
        if self.last.as_ref().is_some_and(|last| *last >= epoch.file) {
            self.say(
                LogState::Modified,
                &epoch.file,
                None,
                "its epoch is not in the order of files",
            );
            return;
        }
        self.declared(&epoch);
        let is_believed = self.is_signed(&epoch, &note);
        if is_believed {
            self.known.add(&epoch.key);
        }
        self.last = Some(epoch.file.clone());
        self.files.insert(epoch.file.clone(), FileKeys { bytes, epoch: *epoch, is_believed });
    }

    /// Whether the key that must sign an epoch has signed it, and a trusted root leads to that key.
    fn is_signed(&mut self, epoch: &Epoch, note: &Note) -> bool {
        let is_root_trusted = self.trusted.contains(&epoch.root);
        if !is_root_trusted && !self.is_wrong_key_told {
            self.is_wrong_key_told = true;
            let text = format!("sealed under another root key: {}", epoch.root);
            self.say(LogState::WrongKey, &epoch.file, None, &text);
        }
        let last = self.last.as_ref().and_then(|file| self.files.get(file));
        let (key, number, is_path_believed) = if epoch.reason.is_by_root() {
            (Some(epoch.root.clone()), 1, true)
        } else if !epoch.reason.continues() {
            let key = self.known.signer(note);
            if key.is_none() {
                let text = "the key that has signed its epoch is missing";
                self.say(LogState::Gap, &epoch.file, None, text);
                return false;
            }
            if last.is_some_and(|last| epoch.number <= last.epoch.number) {
                let text = "an old key begins a new epoch";
                self.say(LogState::Modified, &epoch.file, None, text);
                return false;
            }
            (key, epoch.number, true)
        } else {
            let before = last.filter(|last| epoch.previous.as_ref() == Some(&last.epoch.file));
            let Some(before) = before else {
                let seqs = (last.map_or(1, |last| last.epoch.seq.saturating_add(1)), epoch.seq);
                let text = match &epoch.previous {
                    Some(file) => format!("it continues {file}, which is missing"),
                    None => "it does not continue any file".to_owned(),
                };
                self.say(LogState::Gap, &epoch.file, Some(seqs), &text);
                return false;
            };
            let number = before.epoch.number.saturating_add(1);
            (Some(before.epoch.key.clone()), number, before.is_believed)
        };
        if !key.is_some_and(|key| note.is_by(&key)) {
            let text = "its epoch is not signed by the key before";
            self.say(LogState::Modified, &epoch.file, None, text);
            return false;
        }
        if epoch.number != number {
            let text = format!("its epoch has number {}, not {number}", epoch.number);
            self.say(LogState::Modified, &epoch.file, None, &text);
            return false;
        }
        is_path_believed && is_root_trusted
    }

    /// Breaks that the recorder itself declares.
    fn declared(&mut self, epoch: &Epoch) {
        let text = match epoch.reason {
            EpochReason::First if self.last.is_some() => "another log begins here",
            EpochReason::First | EpochReason::Rotate => return,
            EpochReason::NoKey => "the recorder was started without its signing key",
            EpochReason::RolledBack => "the directory, or its key file, was rolled back before it",
            EpochReason::Damaged => "another process had changed the file before this one",
            EpochReason::GivenUp => "files before it could not be sealed and were given up",
        };
        self.say(LogState::BrokenChain, &epoch.file, None, text);
    }

    fn say(&mut self, state: LogState, file: &str, seqs: Option<(u64, u64)>, text: &str) {
        if self.findings.len() < FINDINGS_MAX {
            self.findings.push(finding(state, file, seqs, text));
        } else {
            self.more_findings += 1;
        }
    }
}
