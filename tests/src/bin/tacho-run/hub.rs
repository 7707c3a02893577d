//! The way to the hub: a shipper follows the log while the server runs, and the search has to find
//! every answered statement once.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use tacho_tests::client::{Conn, Queryable as _};
use tacho_tests::hub::{Hub, HubClient, Process};
use tacho_tests::tagged::Tally;
use tacho_tests::verdict::Verdict;
use tacho_tests::wait;

use crate::RUN;

/// Name of the server in the hub.
const SERVER: &str = "run";
/// Pause between two statements whose way is timed.
const LAG_INTERVAL: Duration = Duration::from_millis(50);
const POLL_INTERVAL: Duration = Duration::from_millis(25);
/// A statement may have an earlier time than the moment before it, where a clock is coarse.
const CLOCK_STEP: Duration = Duration::from_millis(100);

/// A hub, and a shipper for the log.
pub struct Central {
    /// The hub.
    pub hub: Hub,
    shipper: Process,
    client: HubClient,
}

/// What the search has found.
pub struct HubRecords {
    /// Records that the hub has.
    pub records: u64,
    /// Answered statements of the tagging client that are not found.
    pub missing: u64,
    /// Those that are found more than once.
    pub duplicate: u64,
    /// Whether the seal of every record is verified.
    pub is_verified: bool,
    /// Violations.
    pub problems: Vec<String>,
}

impl Central {
    /// Starts both.
    pub fn start(directory: &Path, log_directory: &Path) -> Result<Self> {
        let hub = Hub::start(directory)?;
        let shipper = hub.ship(log_directory, SERVER)?;
        let client = hub.client("auditor")?;
        Ok(Self { hub, shipper, client })
    }

    /// Time from the answer of a statement to its search result.
    pub fn time_way(&self, conn: &mut Conn, tag: &str) -> Result<Duration> {
        let before = jiff::Timestamp::now() - CLOCK_STEP;
        conn.query_drop(format!("SELECT '{tag}'"))?;
        let answered = Instant::now();
        // With its time: the search is not to be slower because of what was recorded before.
        let (query, from) = (format!("\"{tag}\""), before.to_string());
        let parameters = [("server", SERVER), ("q", &query), ("from", &from), ("limit", "1")];
        loop {
            let page = self.client.get("/api/v1/records", &parameters)?;
            if page["records"].as_array().is_some_and(|records| !records.is_empty()) {
                return Ok(answered.elapsed());
            }
            ensure!(answered.elapsed() < wait::DEADLINE, "the hub does not find {query}");
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// Times one statement after the other.
    pub fn measure_lag(&self, conn: &mut Conn, duration: Duration) -> Result<Lags> {
        let (begin, mut lags) = (Instant::now(), Vec::new());
        while begin.elapsed() < duration || lags.is_empty() {
            lags.push(self.time_way(conn, &format!("lag-{}-", lags.len()))?);
            std::thread::sleep(LAG_INTERVAL);
        }
        lags.sort();
        let at_ms = |per_cent: usize| lags[(lags.len() - 1) * per_cent / 100].as_millis() as u64;
        Ok(Lags { p50_ms: at_ms(50), p99_ms: at_ms(99) })
    }

    /// Waits until the hub has the whole log, after the server has stopped, and searches it.
    ///
    /// `lines`: how many lines the log has.
    pub fn check(&mut self, log_directory: &Path, tally: &Tally, lines: u64) -> Result<HubRecords> {
        // It ends when everything is acknowledged, and with what it cannot ship as an error.
        self.shipper.stop()?;
        self.hub.ship_once(log_directory, SERVER)?;
        let server = self.client.wait_until_complete(SERVER);
        let verdict = Verdict::new(tally, &self.client.tags(SERVER, RUN)?);
        let records = server["records"].as_u64().context("a number of records")?;
        let is_verified = server["seal"] == "sealed";
        let mut problems = Vec::new();
        if !verdict.is_good() {
            problems.push(format!("tagged statements at the hub: {verdict}"));
        }
        if records != lines {
            problems.push(format!("the log has {lines} lines, the hub {records} records"));
        }
        if !is_verified {
            problems.push(format!("the hub does not find the log sealed: {server}"));
        }
        Ok(HubRecords {
            records,
            missing: verdict.missing.len() as u64,
            duplicate: verdict.duplicate.len() as u64,
            is_verified,
            problems,
        })
    }
}

/// Leaves the web UI open until Ctrl-C.
pub fn leave_open(hub: &mut Hub) -> Result<()> {
    let token = hub.token("auditor", None)?;
    println!("The web UI is open until Ctrl-C: {}/sign-in#{token}\n", hub.url());
    hub.process().wait()
}

/// From a statement's answer to its search result.
pub struct Lags {
    /// Median, ms.
    pub p50_ms: u64,
    /// 99th percentile, ms.
    pub p99_ms: u64,
}
