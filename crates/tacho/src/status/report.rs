//! The result: what each check found, and the metrics.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::spec::{Bad, Check, Metric};

/// The state of a check, in the order of exit codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Health {
    /// Nothing to do.
    Ok,
    /// Look at it soon.
    Warning,
    /// Look at it now.
    Critical,
    /// It could not be found out.
    Unknown,
}

impl Health {
    /// The exit code, as for plugins of Nagios.
    pub fn exit_code(self) -> u8 {
        match self {
            Health::Ok => 0,
            Health::Warning => 1,
            Health::Critical => 2,
            Health::Unknown => 3,
        }
    }

    /// In small letters.
    pub fn word(self) -> &'static str {
        match self {
            Health::Ok => "ok",
            Health::Warning => "warning",
            Health::Critical => "critical",
            Health::Unknown => "unknown",
        }
    }

    /// The worst is the highest: what is known to be bad outweighs what is not known.
    pub fn severity(self) -> u8 {
        match self {
            Health::Ok => 0,
            Health::Unknown => 1,
            Health::Warning => 2,
            Health::Critical => 3,
        }
    }
}

/// What a check found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Which check.
    pub check: Check,
    /// Its state.
    pub state: Health,
    /// What was found, and what to do.
    pub text: String,
}

/// A threshold of a check.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Threshold {
    /// Which check.
    pub check: Check,
    /// `None`: off.
    pub value: Option<f64>,
}

/// The thresholds that differ from their defaults, and the checks that are left out.
#[derive(Clone, Debug, Default)]
pub struct Choice {
    /// For a warning.
    pub warn: Vec<Threshold>,
    /// For the critical state.
    pub crit: Vec<Threshold>,
    /// Left out.
    pub skip: Vec<Check>,
}

impl Choice {
    /// The thresholds of a check, for a warning and the critical state.
    pub fn of(&self, check: Check) -> [Option<f64>; 2] {
        let Some(measure) = check.spec().measure else { return [None, None] };
        let last = |given: &[Threshold], default| {
            let found = given.iter().rev().find(|threshold| threshold.check == check);
            found.map_or(default, |threshold| threshold.value)
        };
        [last(&self.warn, measure.warn), last(&self.crit, measure.crit)]
    }
}

/// The result, while it is being made and after.
#[derive(Debug)]
pub struct Report {
    /// The log directory.
    pub log: PathBuf,
    /// When the command looked, µs since 1970-01-01 UTC.
    pub now_us: i64,
    /// Thresholds.
    pub choice: Choice,
    /// What was found, in the order of the table.
    pub outcomes: Vec<Outcome>,
    /// The metrics that are known.
    pub values: BTreeMap<Metric, f64>,
}

impl Report {
    /// An empty one.
    pub fn new(log: PathBuf, now_us: i64, choice: Choice) -> Self {
        Self { log, now_us, choice, outcomes: Vec::new(), values: BTreeMap::new() }
    }

    /// Notes a metric.
    pub fn set(&mut self, metric: Metric, value: f64) {
        self.values.insert(metric, value);
    }

    /// Notes what a check found.
    pub fn note(&mut self, check: Check, state: Health, text: impl Into<String>) {
        if !self.choice.skip.contains(&check) {
            self.outcomes.push(Outcome { check, state, text: text.into() });
        }
    }

    /// Notes the metric of a check, whose thresholds decide about its state.
    pub fn measure(&mut self, check: Check, value: f64, text: impl Into<String>) {
        let Some(measure) = check.spec().measure else { return };
        self.set(measure.metric, value);
        let [warn, crit] = self.choice.of(check);
        let is_bad = |threshold: Option<f64>| {
            threshold.is_some_and(|threshold| match measure.bad {
                Bad::Above => value > threshold,
                Bad::Below => value < threshold,
            })
        };
        let state = match (is_bad(crit), is_bad(warn)) {
            (true, _) => Health::Critical,
            (_, true) => Health::Warning,
            _ => Health::Ok,
        };
        self.note(check, state, text);
    }

    /// Time since a moment, s. A moment in the future is now.
    pub fn age_s(&self, us: i64) -> f64 {
        self.now_us.saturating_sub(us).max(0) as f64 / 1e6
    }

    /// The worst state.
    pub fn state(&self) -> Health {
        let states = self.outcomes.iter().map(|outcome| outcome.state);
        states.max_by_key(|state| state.severity()).unwrap_or(Health::Ok)
    }

    /// Puts the outcomes into the order of the table.
    pub fn sort(&mut self) {
        self.outcomes.sort_by_key(|outcome| outcome.check);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(choice: Choice) -> Report {
        Report::new(PathBuf::from("/log"), 5_000_000, choice)
    }

    #[test]
    fn thresholds_decide_in_their_direction() {
        let mut report = report(Choice::default());
        let states = [(Check::Lag, 30.0), (Check::Lag, 30.1), (Check::Lag, 120.1)];
        let low = [(Check::Disk, 10.0), (Check::Disk, 9.9), (Check::Disk, 4.0)];
        for (check, value) in states.into_iter().chain(low) {
            report.measure(check, value, "");
        }
        let found: Vec<u8> = report.outcomes.iter().map(|it| it.state.exit_code()).collect();
        assert_eq!(found, [0, 1, 2, 0, 1, 2]);
        assert_eq!(report.values[&Metric::Lag], 120.1);
        assert_eq!(report.age_s(4_000_000), 1.0);
        assert_eq!(report.age_s(6_000_000), 0.0);
    }

    #[test]
    fn the_last_threshold_counts_and_checks_can_be_left_out() {
        let lag = |value| Threshold { check: Check::Lag, value };
        let warn = vec![lag(Some(1.0)), lag(Some(2.0))];
        let choice = Choice { warn, crit: vec![lag(None)], skip: vec![Check::Disk] };
        assert_eq!(choice.of(Check::Lag), [Some(2.0), None]);
        assert_eq!(choice.of(Check::Arena), [Some(90.0), Some(98.0)]);
        let mut report = report(choice);
        report.measure(Check::Lag, 1_000.0, "");
        report.measure(Check::Disk, 0.0, "");
        assert_eq!(report.outcomes.len(), 1);
        assert_eq!(report.state(), Health::Warning);
        assert_eq!(report.values[&Metric::DiskFreePercent], 0.0, "its metric is shown");
    }

    #[test]
    fn what_is_bad_outweighs_what_is_not_known() {
        let mut report = report(Choice::default());
        assert_eq!(report.state(), Health::Ok);
        for (state, worst) in [
            (Health::Unknown, Health::Unknown),
            (Health::Ok, Health::Unknown),
            (Health::Warning, Health::Warning),
            (Health::Critical, Health::Critical),
            (Health::Unknown, Health::Critical),
        ] {
            report.note(Check::Log, state, "");
            assert_eq!(report.state(), worst);
        }
    }
}
