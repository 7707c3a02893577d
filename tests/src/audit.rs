//! The state of one log directory: read once, strictly.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::log::{self, Invariants, TagCounter};
use crate::tagged::{Command, Tally};
use crate::verdict::{TagCounts, Verdict};

/// What a log directory holds.
#[derive(Debug)]
pub struct Audit {
    /// How often each tagged statement of the run occurs.
    pub counts: TagCounts,
    /// Violations of what must always be true.
    pub problems: Vec<String>,
    /// Lines that are not about statements or connections, parsed.
    pub others: Vec<Value>,
    /// All lines.
    pub line_count: u64,
}

/// One `lost` line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lost {
    /// Records.
    pub count: u64,
    /// `timeout`, `dropped`, `corrupt`, `killed`.
    pub cause: String,
    /// First moment.
    pub start_ts: String,
    /// Last moment.
    pub ts: String,
}

impl Audit {
    /// Reads every file of the directory.
    ///
    /// # Errors
    /// As [`log::read`].
    pub fn of(directory: &Path, run: &str) -> Result<Self> {
        let mut counter = TagCounter::new(run);
        let mut invariants = Invariants::default();
        let mut others = Vec::new();
        log::read(directory, |line, text| {
            counter.see(line);
            invariants.see(line);
            if matches!(&*line.event, "start" | "stop" | "lost" | "config") {
                others.extend(serde_json::from_str::<Value>(text));
            }
        })?;
        let line_count = invariants.last_seq();
        Ok(Self { counts: counter.finish(), problems: invariants.finish(), others, line_count })
    }

    /// The `lost` lines, oldest first.
    ///
    /// # Errors
    /// One lacks a field, or ends before it begins.
    pub fn lost(&self) -> Result<Vec<Lost>> {
        let text = |line: &Value, name: &str| -> Result<String> {
            let value = line[name].as_str();
            Ok(value.with_context(|| format!("no {name} in {line}"))?.to_owned())
        };
        let mut all = Vec::new();
        for line in self.others.iter().filter(|line| line["event"] == "lost") {
            let lost = Lost {
                count: line["count"].as_u64().with_context(|| format!("no count in {line}"))?,
                cause: text(line, "cause")?,
                start_ts: text(line, "start_ts")?,
                ts: text(line, "ts")?,
            };
            // Tests do not cross a change of daylight saving time: texts compare as times.
            ensure!(lost.start_ts <= lost.ts, "a range that ends before it begins: {line}");
            all.push(lost);
        }
        Ok(all)
    }

    /// Records declared lost for one cause.
    ///
    /// # Errors
    /// As [`Audit::lost`].
    pub fn lost_count(&self, cause: &str) -> Result<u64> {
        Ok(self.lost()?.iter().filter(|lost| lost.cause == cause).map(|lost| lost.count).sum())
    }

    /// # Panics
    /// Some acknowledged statement does not occur exactly once, or anything else is wrong.
    pub fn assert_complete(&self, tally: &Tally) {
        self.assert_complete_but(tally, 0);
    }

    /// The same after kills of the server. It answers a Prepare before it reports the event, so
    /// each cut connection may lack one.
    ///
    /// # Panics
    /// As [`Audit::assert_complete`].
    pub fn assert_complete_but(&self, tally: &Tally, late_prepares_max: usize) {
        let mut verdict = Verdict::new(tally, &self.counts);
        let late = verdict.missing.extract_if(.., |tag| tag.command == Command::Prepare).count();
        assert!(late <= late_prepares_max, "{late} prepared statements are missing");
        assert!(verdict.is_good(), "{verdict}");
        assert_eq!(self.problems, [""; 0]);
        let lost: Vec<&Value> = self.others.iter().filter(|l| l["event"] == "lost").collect();
        assert!(lost.is_empty(), "declared lost: {lost:?}");
    }

    /// Checks that missing statements are declared: no more are missing than records are declared
    /// lost, and none occurs twice. Returns both numbers; the first is without Prepares, which the
    /// server answers before it reports the event.
    ///
    /// # Panics
    /// It is not so.
    pub fn assert_declared(&self, tally: &Tally) -> (u64, u64) {
        let mut verdict = Verdict::new(tally, &self.counts);
        let declared: u64 = self.lost().expect("lost lines").iter().map(|lost| lost.count).sum();
        let missing = verdict.missing.len() as u64;
        assert!(missing <= declared, "{declared} records declared lost, but {verdict}");
        let late = verdict.missing.extract_if(.., |tag| tag.command == Command::Prepare).count();
        let missing = missing - late as u64;
        assert!(verdict.duplicate.is_empty() && verdict.unknown.is_empty(), "{verdict}");
        assert_eq!(self.problems, [""; 0]);
        (missing, declared)
    }
}
