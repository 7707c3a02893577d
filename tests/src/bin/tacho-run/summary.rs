//! The result as text and as JSON.

use std::path::Path;
use std::time::Duration;

use serde_json::json;
use tacho_tests::paired::Measured;

use crate::check::Findings;
use crate::hub::{HubRecords, Lags};

/// Longest part of a sample line that is shown.
const SAMPLE_CHARS_MAX: usize = 500;

/// The complete result.
pub struct Summary<'a> {
    /// The recorded server, by the name that `SERVER=` has.
    pub server: &'static str,
    /// Answers that sysbench and the tagging client got while recording was on.
    pub statements_acknowledged: u64,
    /// Where the log is.
    pub log_directory: &'a Path,
    /// What is in it.
    pub findings: &'a Findings,
    /// What the hub has.
    pub found: &'a HubRecords,
    /// How long after the full load the hub had caught up.
    pub caught_up: Duration,
    /// How long a record took to be found, beside a moderate load.
    pub lags: &'a Lags,
    /// The cost.
    pub measured: &'a Measured,
    /// Figures that have another meaning with this server.
    pub notes: &'a [&'static str],
    /// Warnings and errors of the server.
    pub complaints: Vec<String>,
}

impl Summary<'_> {
    /// `result.json`. `records_written` is the number of lines in the log, which has been
    /// checked against the server's own counter.
    pub fn to_json(&self) -> String {
        let one_decimal = |value: f64| (value * 10.0).round() / 10.0;
        let result = json!({
            "server": self.server,
            "statements_acknowledged": self.statements_acknowledged,
            "records_written": self.findings.lines,
            "records_lost": self.findings.lost,
            "missing_ids": self.findings.missing,
            "duplicate_ids": self.findings.duplicate,
            "log_bytes": self.findings.bytes,
            "log_dir": self.log_directory,
            "tps_off": one_decimal(self.measured.tps_off()),
            "tps_on": one_decimal(self.measured.tps_on()),
            "tps_ratio": (self.measured.ratio() * 1000.0).round() / 1000.0,
            "pairs_left_out": self.measured.stood_still,
            "hub_records": self.found.records,
            "hub_missing": self.found.missing,
            "hub_duplicates": self.found.duplicate,
            "hub_lag_ms_p50": self.lags.p50_ms,
            "hub_lag_ms_p99": self.lags.p99_ms,
            "hub_catch_up_ms": self.caught_up.as_millis() as u64,
            "hub_verified": self.found.is_verified,
            "notes": self.notes,
            "problems": self.problems(),
        });
        format!("{result:#}")
    }

    /// All violations.
    pub fn problems(&self) -> Vec<&String> {
        self.findings.problems.iter().chain(&self.found.problems).collect()
    }

    /// Prints a summary.
    pub fn print(&self, result_path: &Path, elapsed: Duration) {
        let findings = self.findings;
        let log_directory = self.log_directory.display();
        println!("\nThree of its lines:\n");
        for sample in &findings.samples {
            let mut shown: String = sample.chars().take(SAMPLE_CHARS_MAX).collect();
            if shown.len() < sample.len() {
                shown.push('…');
            }
            println!("  {shown}");
        }
        println!();
        println!("  answered statements  {:>12}", grouped(self.statements_acknowledged));
        println!("  missing in the log   {:>12}", grouped(findings.missing));
        println!("  twice in the log     {:>12}", grouped(findings.duplicate));
        println!("  records written      {:>12}", grouped(findings.lines));
        println!("  records lost         {:>12}", grouped(findings.lost));
        self.print_hub();
        println!("  size of the log      {:>12} MB", grouped(findings.bytes / 1_000_000));
        println!(
            "  transactions/s       {:>12} off, {} on: {:.3} (median of {} paired ratios)",
            grouped(self.measured.tps_off() as u64),
            grouped(self.measured.tps_on() as u64),
            self.measured.ratio(),
            self.measured.pairs.len(),
        );
        if self.measured.stood_still > 0 {
            println!(
                "  pairs left out       {:>12}, because nothing happened for a whole block",
                self.measured.stood_still
            );
        }
        println!("  took                 {:>12} s", elapsed.as_secs());
        for note in self.notes {
            println!("  note                 {note}");
        }
        for complaint in &self.complaints {
            println!("  the server says      {complaint}");
        }
        println!();
        let problems = self.problems();
        if problems.is_empty() {
            println!("Good: every answered statement is in the log and at the hub, once.");
        } else {
            println!("NOT GOOD:");
            for problem in problems {
                println!("  {problem}");
            }
        }
        println!("\nThe log    {log_directory}\nThe result {}\n", result_path.display());
        println!("Next:");
        println!("  build/bin/tacho tail {log_directory}");
        println!("  grep -h '\"outcome\":\"error\"' {log_directory}/audit-*.jsonl | tail -3");
        println!("  docs/guide/install.md    # into a server of your own");
    }
}

impl Summary<'_> {
    fn print_hub(&self) {
        let HubRecords { records, missing, duplicate, is_verified, .. } = self.found;
        let Lags { p50_ms, p99_ms } = self.lags;
        let seal = if *is_verified { "verified" } else { "NOT verified" };
        println!("  records at the hub   {:>12}, {seal}", grouped(*records));
        println!("  missing at the hub   {:>12}, {duplicate} twice", grouped(*missing));
        println!("  found there after    {p50_ms:>12} ms (median), {p99_ms} ms (99 %)");
        println!(
            "  caught up after      {:>12} ms, behind the full load",
            grouped(self.caught_up.as_millis() as u64)
        );
    }
}

/// `1234567` as `1,234,567`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::grouped;

    #[test]
    fn groups_thousands() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(1000), "1,000");
        assert_eq!(grouped(1_234_567), "1,234,567");
    }
}
