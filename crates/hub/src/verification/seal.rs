//! The result of the verification of one origin.

use std::collections::BTreeMap;

use tacho_chain::verify::{Report, State};

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

    fn of(state: State) -> Self {
        match state {
            State::Ok | State::Lost | State::UnsignedTail | State::Recovered | State::Encrypted => {
                Self::Sealed
            }
            State::NotSealed => Self::Unsealed,
            State::Gap => Self::Gap,
            State::BrokenChain | State::Truncated | State::Modified | State::WrongKey => {
                Self::Broken
            }
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
    /// The newest log file with a seal that was read, without its ending: all before it are final.
    pub sealed_stem: Option<String>,
    /// The worst finding of each log file, by its name without ending.
    states: BTreeMap<String, State>,
    /// When it was verified, µs since 1970-01-01 UTC.
    pub verified_us: i64,
}

impl Seal {
    /// From a report.
    #[must_use]
    pub fn of(
        generation: u64,
        report: &Report,
        sealed_stem: Option<String>,
        unsealed_bytes: u64,
        now_us: i64,
    ) -> Self {
        // The file after a rotation arrives later, and how much later depends on the shipper.
        let state = report.state_so_far();
        let findings = || report.findings.iter().filter(|finding| finding.state <= state);
        let worst = findings().rev().max_by_key(|finding| finding.state);
        let checkpoint = report.checkpoint.as_ref();
        let gaps = report.findings.iter().filter(|finding| finding.state == State::Gap).count();
        Self {
            generation,
            state: SealState::of(state),
            word: state.word(),
            message: worst.map(ToString::to_string).unwrap_or_default(),
            may_be_transit: state == State::Truncated,
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
            sealed_stem,
            states: states(report),
            verified_us: now_us,
        }
    }

    /// What was found in a log file that has a sidecar, or has none. `None`: it is not known yet.
    #[must_use]
    pub fn state_of(&self, stem: &str, has_sidecar: bool) -> Option<State> {
        if !has_sidecar {
            return Some(State::NotSealed);
        }
        let is_final = self.sealed_stem.as_deref().is_some_and(|sealed| stem < sealed);
        is_final.then(|| self.states.get(stem).copied().unwrap_or(State::Ok))
    }
}

fn states(report: &Report) -> BTreeMap<String, State> {
    let mut states = BTreeMap::new();
    for finding in &report.findings {
        let stem = finding.file.split('.').next().unwrap_or_default().to_owned();
        let worst = states.entry(stem).or_insert(finding.state);
        *worst = finding.state.max(*worst);
    }
    states
}
