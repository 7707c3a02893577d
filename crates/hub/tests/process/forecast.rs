//! The disk will be full: said in time, and taken back when the retention makes space before.

use serde_json::{Value, json};
use tacho_chain::entry::CheckpointReason;
use tacho_hub::clock::{now_us, rfc3339};

use crate::hub::{Hub, Shipping, wait};
use crate::recorder::TestRecorder;
use crate::retention::set_days;
use crate::search::request;
use crate::shipping::Log;

const STATEMENT_BYTES: usize = 100 << 10;

/// A record of now.
fn line(seq: u64, sql: &str) -> String {
    let ts = rfc3339(now_us());
    format!("{{\"v\":1,\"seq\":{seq},\"ts\":\"{ts}\",\"event\":\"statement\",\"sql\":\"{sql}\"}}\n")
}

/// A log of today of about 24 MiB. Its first file is short: when the second one began is known from
/// the last record of the first.
fn log_of_today() -> Log {
    let mut recorder = TestRecorder::new(1);
    recorder.raw_frame(&line(1, "SELECT 1"), 1, false);
    recorder.checkpoint(CheckpointReason::Interval);
    recorder.rotate();
    let long = format!("SELECT '{}'", "x".repeat(STATEMENT_BYTES));
    for seq in 2..=241 {
        recorder.raw_frame(&line(seq, &long), seq, false);
    }
    recorder.seq = 241;
    recorder.stop();
    Log::new(recorder)
}

/// The disk has 48 MiB. A week's rate is that of the 24 MiB that are there, and 23 MiB are free.
#[test]
fn a_disk_that_will_be_full_is_an_alert_until_the_retention_is_short_enough() {
    let Some(hub) = Hub::start_on_disk(48, &[]) else { return };
    let auditor = hub.token(&["--role", "auditor"]);
    let log = log_of_today();
    let (verdict, said) = Shipping::start(&hub, log.path(), "db1", true).finish();
    assert_eq!(verdict.problem_count, 0, "{said}");
    let storage = || {
        let (_, body) = request(&hub, "GET /api/v1/storage", &auditor, b"").unwrap();
        serde_json::from_str::<Value>(&body).unwrap()
    };
    let alert = |state: &str| {
        // The answer to this is what the hub looks at next.
        let measured = storage();
        let path = format!("GET /api/v1/alerts?state={state}");
        let (_, body) = request(&hub, &path, &auditor, b"").unwrap();
        let alerts: Vec<Value> = serde_json::from_str(&body).unwrap();
        let found = alerts.into_iter().find(|alert| alert["rule"] == "disk_forecast");
        found.ok_or_else(|| format!("{measured} {body}"))
    };
    let raised = wait(|| alert("open"));
    let days = storage()["full_in_days"].as_u64().unwrap();
    assert!((1..7).contains(&days), "{days}");
    assert!(raised["message"].as_str().unwrap().contains("shorten the retention"), "{raised}");
    set_days(&hub, 1);
    wait(|| alert("closed"));
    assert_eq!(storage()["full_in_days"], json!(null));
}
