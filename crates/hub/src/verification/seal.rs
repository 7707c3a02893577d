//! The result of the verification of one origin.

use std::collections::BTreeMap;
use std::sync::Arc;

use tacho_chain::verify::{Finding, LogState, Report};
use tacho_ship::protocol::{FileName, Stem};

use crate::landing::removed::Held;

/// Findings that are kept.
const FINDINGS_MAX: usize = 100;

/// The state of the seal, as people see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SealState {
    /// Everything under a frame is what was sealed.
    Sealed,
    /// The log, or a part of it, is not sealed.
    Unsealed,
    /// Files or records are missing.
    Gap,
    /// Something was changed, cut or sealed by another key, or the recorder declared a break.
    Broken,
}

impl SealState {
    /// Its word in JSON.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Sealed => "sealed",
            Self::Unsealed => "unsealed",
            Self::Gap => "gap",
            Self::Broken => "broken",
        }
    }

    /// That of a finding.
    #[must_use]
    pub fn of(state: LogState) -> Self {
        match state {
            LogState::Ok
            | LogState::Lost
            | LogState::UnsignedTail
            | LogState::Recovered
            | LogState::Encrypted => Self::Sealed,
            LogState::NotSealed => Self::Unsealed,
            LogState::Gap => Self::Gap,
            LogState::BrokenChain
            | LogState::Truncated
            | LogState::Modified
            | LogState::WrongKey => Self::Broken,
        }
    }
}

/// The state of one origin.
#[derive(Clone, Debug)]
pub struct Seal {
    /// The generation that was verified.
    pub generation: u64,
    /// The state.
    pub state: SealState,
    /// The word of `tacho verify` for it.
    pub word: &'static str,
    /// The worst finding, for people; empty: none.
    pub message: String,
    /// Whether the worst finding may be only a file in transit.
    pub(super) may_be_transit: bool,
    /// What was found, the first ones.
    pub findings: Vec<String>,
    /// The newest checkpoint whose signature is good: `seq`, and time, s since 1970-01-01 UTC.
    pub checkpoint: Option<(u64, i64)>,
    /// The same, as it is in the sidecar.
    pub checkpoint_note: Option<String>,
    /// `seq` of the last line in a frame.
    pub sealed_seq: u64,
    /// Lines in frames.
    pub lines: u64,
    /// `lost` lines.
    pub lost_lines: u64,
    /// Missing files or runs of records.
    pub gaps: u64,
    /// Bytes of lines that no frame covers.
    pub unsealed_bytes: u64,
    /// The newest entry is the checkpoint of an orderly stop.
    pub is_stopped: bool,
    /// The newest entry announces a file that has not arrived yet.
    pub awaits_file: bool,
    /// Number of findings with the state `broken`. It grows with each further change.
    pub broken: u64,
    /// The newest log file with a seal that was read, without its ending: all before it are final.
    /// `None`: there is none, or an older file has changed since and is not read again yet.
    pub(super) sealed_stem: Option<String>,
    /// How much of each file was read.
    pub(super) lengths: Arc<BTreeMap<FileName, u64>>,
    /// The worst finding of each log file, by its name without ending.
    states: BTreeMap<String, LogState>,
    /// What a file has at least: `Ok`, unless there are more findings than a report keeps.
    least: LogState,
    /// When it was verified, µs since 1970-01-01 UTC.
    pub verified_us: i64,
}

impl Seal {
    /// From a report. `lengths`: how much of each file was read.
    #[must_use]
    pub fn of(
        generation: u64,
        report: &Report,
        sealed_stem: Option<String>,
        lengths: Arc<BTreeMap<FileName, u64>>,
        unsealed_bytes: u64,
        now_us: i64,
    ) -> Self {
        // The file after a rotation arrives later, and how much later depends on the shipper.
        let state = report.state_so_far();
        let findings = || report.findings.iter().filter(|finding| finding.state <= state);
        let worst = findings().rev().max_by_key(|finding| finding.state);
        let checkpoint = report.checkpoint.as_ref();
        let gaps = report.findings.iter().filter(|finding| finding.state == LogState::Gap).count();
        Self {
            generation,
            state: SealState::of(state),
            word: state.word(),
            message: worst.map(ToString::to_string).unwrap_or_default(),
            may_be_transit: state == LogState::Truncated,
            awaits_file: report.awaits_file,
            findings: findings().take(FINDINGS_MAX).map(ToString::to_string).collect(),
            checkpoint: checkpoint.map(|(checkpoint, _)| (checkpoint.seq, checkpoint.time_s)),
            checkpoint_note: checkpoint.map(|(_, note)| note.clone()),
            sealed_seq: report.last_seq,
            lines: report.lines,
            lost_lines: report.lost_lines,
            gaps: gaps as u64,
            unsealed_bytes,
            is_stopped: report.is_closed,
            broken: broken(report, state, sealed_stem.as_deref()),
            sealed_stem,
            lengths,
            states: states(report),
            // Any file may have those that are not kept.
            least: if report.more_findings > 0 { report.state() } else { LogState::Ok },
            verified_us: now_us,
        }
    }

    /// The newest log file with a seal that was read, without its ending: all before it are final.
    #[must_use]
    pub fn newest_sealed(&self) -> Option<&str> {
        self.sealed_stem.as_deref()
    }

    /// What was found in a log file that has such lengths. `None`: it is not known yet.
    #[must_use]
    pub fn state_of(&self, stem: &Stem, held: Held) -> Option<LogState> {
        let parts = [
            (FileName::Lines(stem.clone()), held.lines),
            (FileName::Chain(stem.clone()), held.chain),
        ];
        let [is_lines_read, is_chain_read] = parts.map(|(name, length)| {
            self.lengths.get(&name).copied().unwrap_or(0) == length.unwrap_or(0)
        });
        let found = self.states.get(stem.as_str()).copied().unwrap_or(LogState::Ok);
        if held.chain.unwrap_or(0) == 0 {
            // One that the verification has read is gone. It may have been gone before: the next
            // file then says that there was one.
            return is_chain_read.then_some(found.max(LogState::NotSealed));
        }
        let is_final = self.sealed_stem.as_deref().is_some_and(|sealed| stem.as_str() < sealed);
        let state = found.max(self.least);
        (is_final && is_lines_read && is_chain_read).then_some(state)
    }
}

/// The log file of a finding, without ending.
fn stem(finding: &Finding) -> &str {
    finding.file.split('.').next().unwrap_or_default()
}

/// Findings of the state `broken`. Of the newest sealed file the rest may be in transit.
fn broken(report: &Report, state: LogState, sealed: Option<&str>) -> u64 {
    let is_transit = |finding: &Finding| {
        finding.state == LogState::Truncated && sealed.is_none_or(|sealed| stem(finding) >= sealed)
    };
    let is_broken = |finding: &&Finding| {
        finding.state <= state
            && SealState::of(finding.state) == SealState::Broken
            && !is_transit(finding)
    };
    report.findings.iter().filter(is_broken).count() as u64 + report.more_findings
}

fn states(report: &Report) -> BTreeMap<String, LogState> {
    let mut states = BTreeMap::new();
    for finding in &report.findings {
        let worst = states.entry(stem(finding).to_owned()).or_insert(finding.state);
        *worst = finding.state.max(*worst);
    }
    states
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEMS: [&str; 2] = ["audit-20261121T100000Z-000001", "audit-20261121T110000Z-000002"];

    fn finding(state: LogState, file: &str) -> Finding {
        Finding { state, file: file.to_owned(), line: None, seqs: None, text: String::new() }
    }

    fn report(findings: impl IntoIterator<Item = Finding>) -> Report {
        let mut report = Report::default();
        report.findings.extend(findings);
        report
    }

    /// The seal of a log whose first file has 10 bytes and a sidecar of 5.
    fn seal(report: &Report) -> Seal {
        let name = |ending: &str| format!("{}.{ending}", STEMS[0]).parse().unwrap();
        let lengths = BTreeMap::from([(name("jsonl"), 10), (name("chain"), 5)]);
        Seal::of(1, report, Some(STEMS[1].to_owned()), Arc::new(lengths), 0, 0)
    }

    #[test]
    fn the_state_of_a_file_is_that_of_the_bytes_that_were_read() {
        let stem: Stem = STEMS[0].parse().unwrap();
        for state in [LogState::Ok, LogState::Modified] {
            let mut seal = seal(&report([finding(state, &format!("{stem}.chain"))]));
            let state_of = |lines, chain| seal.state_of(&stem, Held { lines, chain });
            assert_eq!(state_of(Some(10), Some(5)), Some(state));
            for (lines, chain) in
                [(Some(11), Some(5)), (Some(9), Some(5)), (None, Some(5)), (Some(10), Some(6))]
            {
                assert_eq!(state_of(lines, chain), None);
            }
            assert_eq!(state_of(Some(10), None), None, "a sidecar that was read is gone");
            let other = STEMS[1].parse().unwrap();
            let held = Held { lines: Some(10), chain: None };
            assert_eq!(seal.state_of(&other, held), Some(LogState::NotSealed));
            seal.sealed_stem = None;
            let held = Held { lines: Some(10), chain: Some(5) };
            assert_eq!(seal.state_of(&stem, held), None);
        }
    }

    #[test]
    fn a_file_that_has_lost_its_sidecar_is_not_one_that_was_never_sealed() {
        let file = format!("{}.jsonl", STEMS[1]);
        let found = [LogState::NotSealed, LogState::Gap].map(|state| finding(state, &file));
        let held = Held { lines: Some(0), chain: None };
        let state = seal(&report(found)).state_of(&STEMS[1].parse().unwrap(), held);
        assert_eq!(state, Some(LogState::Gap));
    }

    #[test]
    fn a_file_is_not_good_because_its_finding_was_not_kept() {
        let (stem, held) = (STEMS[0].parse().unwrap(), Held { lines: Some(10), chain: Some(5) });
        let mut report = report([]);
        report.more_findings += 1;
        let of = |least| Seal { least, ..seal(&report) }.state_of(&stem, held);
        assert_eq!(of(LogState::Modified), Some(LogState::Modified));
        assert_eq!(seal(&report).broken, 1);
    }

    #[test]
    fn what_may_be_in_transit_is_not_counted_as_broken() {
        let [first, second] = STEMS.map(|stem| format!("{stem}.jsonl"));
        let report = report([
            finding(LogState::Truncated, &first),
            finding(LogState::Truncated, &second),
            finding(LogState::Gap, &first),
            finding(LogState::WrongKey, &second),
        ]);
        assert_eq!(broken(&report, LogState::WrongKey, Some(STEMS[1])), 2);
    }
}
