//! The findings of a verification.

use std::collections::BTreeMap;
use std::fmt;

use super::removed::Gone;
use crate::entry::{Checkpoint, RemovalReason};

/// Findings that are kept with their texts; the others are counted.
pub(super) const FINDINGS_MAX: usize = 1000;

/// The state of a sealed log, from good to bad. The worst finding decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogState {
    /// Everything is there, unchanged, and under a signature.
    Ok,
    /// As `Ok`, and the recorder itself reports lost records in it.
    Lost,
    /// The newest lines are not under a signature yet.
    UnsignedTail,
    /// Lines were sealed when a recorder started, not when they were written.
    Recovered,
    /// The seals are good, and some of the files could not be decrypted to compare them.
    Encrypted,
    /// The recorder declared that the chain was broken.
    BrokenChain,
    /// A log file has no sidecar, or nothing is sealed at all.
    NotSealed,
    /// Files or records are missing, and no tombstone explains it.
    Gap,
    /// Sealed data is missing at the end.
    Truncated,
    /// Something was changed.
    Modified,
    /// The log was sealed with another key.
    WrongKey,
}

impl LogState {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::Ok,
        Self::Lost,
        Self::UnsignedTail,
        Self::Recovered,
        Self::Encrypted,
        Self::BrokenChain,
        Self::NotSealed,
        Self::Gap,
        Self::Truncated,
        Self::Modified,
        Self::WrongKey,
    ];

    /// The state of a word for programs.
    #[must_use]
    pub fn of_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.word() == word)
    }

    /// The word for programs.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            LogState::Ok => "ok",
            LogState::Lost => "lost",
            LogState::UnsignedTail => "unsigned_tail",
            LogState::Recovered => "recovered",
            LogState::Encrypted => "encrypted",
            LogState::BrokenChain => "broken_chain",
            LogState::NotSealed => "not_sealed",
            LogState::Gap => "gap",
            LogState::Truncated => "truncated",
            LogState::Modified => "modified",
            LogState::WrongKey => "wrong_key",
        }
    }
}

/// A fault of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// How bad it is.
    pub state: LogState,
    /// The file, without its directory.
    pub file: String,
    /// Number of the line in that file, from 1, where it begins.
    pub line: Option<u64>,
    /// `seq` of the first and the last record concerned.
    pub seqs: Option<(u64, u64)>,
    /// Its description.
    pub text: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.file.is_empty() && self.line.is_none() && self.seqs.is_none() {
            return f.write_str(&self.text);
        }
        f.write_str(if self.file.is_empty() { "the log" } else { &self.file })?;
        if let Some(line) = self.line {
            write!(f, ", line {line}")?;
        }
        match self.seqs {
            Some((first, last)) if first == last => write!(f, ", record {first}")?,
            Some((first, last)) => write!(f, ", records {first} to {last}")?,
            None => {}
        }
        write!(f, ": {}", self.text)
    }
}

/// The result of a verification.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// What was found, in the order of the log.
    pub findings: Vec<Finding>,
    /// Findings beyond those.
    pub more_findings: u64,
    worst: Option<LogState>,
    /// The worst one that more files cannot mend.
    worst_so_far: Option<LogState>,
    /// Remarks that are not faults of the log.
    pub notes: Vec<String>,
    /// Notes beyond those.
    pub more_notes: u64,
    /// Sealed log files that were read.
    pub files: u64,
    /// Files that could not be decrypted.
    pub encrypted_files: u64,
    /// Lines in frames.
    pub lines: u64,
    /// Bytes in frames.
    pub bytes: u64,
    /// Removed files that have a tombstone.
    pub removed_files: u64,
    /// Number of those that the recorder removed, for each reason.
    pub removed_by: BTreeMap<RemovalReason, u64>,
    /// Number of those that a hub removed from its copy.
    pub removed_by_hub: u64,
    /// `seq` of the last record in a frame.
    pub last_seq: u64,
    /// `lost` lines.
    pub lost_lines: u64,
    /// Lines that were sealed when a recorder started, not when they were written.
    pub recovered_lines: u64,
    /// Lines after the last checkpoint.
    pub unsigned_lines: u64,
    /// The newest good checkpoint, and its note.
    pub checkpoint: Option<(Checkpoint, String)>,
    /// The newest entry is the checkpoint of an orderly stop.
    pub is_closed: bool,
    /// The newest entry announces a file that is missing.
    pub awaits_file: bool,
}

impl Report {
    /// The state of the log.
    #[must_use]
    pub fn state(&self) -> LogState {
        self.at_least_lost(self.worst)
    }

    /// The state of a copy that is still growing: that the next file is missing counts for nothing.
    #[must_use]
    pub fn state_so_far(&self) -> LogState {
        self.at_least_lost(self.worst_so_far)
    }

    fn at_least_lost(&self, worst: Option<LogState>) -> LogState {
        let lost = if self.lost_lines > 0 { LogState::Lost } else { LogState::Ok };
        worst.unwrap_or(LogState::Ok).max(lost)
    }

    /// Counts a file that has a tombstone.
    pub(super) fn add_removed(&mut self, gone: &Gone) {
        self.removed_files += 1;
        match gone.reason {
            Some(reason) => *self.removed_by.entry(reason).or_default() += 1,
            None => self.removed_by_hub += 1,
        }
    }

    /// Takes back what was counted of a sealed file that was read.
    pub(super) fn forget(&mut self, lines: u64, bytes: u64) {
        self.files = self.files.saturating_sub(1);
        self.lines = self.lines.saturating_sub(lines);
        self.bytes = self.bytes.saturating_sub(bytes);
    }

    pub(super) fn add(&mut self, finding: Finding) {
        self.worst_so_far = self.worst_so_far.max(Some(finding.state));
        self.keep(finding);
    }

    /// Adds that the file is missing which the newest entry announces.
    pub(super) fn add_awaited(&mut self, finding: Finding) {
        self.awaits_file = true;
        self.keep(finding);
    }

    fn keep(&mut self, finding: Finding) {
        self.worst = self.worst.max(Some(finding.state));
        if self.findings.len() < FINDINGS_MAX {
            self.findings.push(finding);
        } else {
            self.more_findings += 1;
        }
    }

    /// Counts findings that were not kept, each no worse than one that was added.
    pub(super) fn add_uncounted(&mut self, count: u64) {
        self.more_findings += count;
    }

    pub(super) fn add_note(&mut self, text: String) {
        if self.notes.len() < FINDINGS_MAX {
            self.notes.push(text);
        } else {
            self.more_notes += 1;
        }
    }
}
