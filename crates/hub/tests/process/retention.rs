//! Retention of a real hub: what is removed, what stays, and what proves it.

use std::path::Path;

use serde_json::{Value, json};
use tacho_chain::entry::CheckpointReason;
use tacho_chain::key::VerifierKey;
use tacho_chain::verify::{self, LogState, Options, Report};
use tacho_replica::stored;

use crate::hub::{Hub, Shipping, landed, wait};
use crate::recorder::{Dir, TestRecorder, log, sidecar};
use crate::search::request;
use crate::shipping::Log;

pub const LINES: u64 = 5;

fn line(seq: u64) -> String {
    let (day, second) = (1 + seq / 60, seq % 60);
    format!(
        "{{\"v\":1,\"seq\":{seq},\"ts\":\"2020-01-{day:02}T10:00:{second:02}.000000+00:00\",\
         \"event\":\"statement\",\"sql\":\"SELECT {seq}\"}}\n"
    )
}

/// A log of 2020 with so many files.
pub fn old_log(files: u64) -> Log {
    let mut recorder = TestRecorder::new(1);
    for file in 0..files {
        if file > 0 {
            recorder.rotate();
        }
        let seqs = recorder.seq + 1..=recorder.seq + LINES;
        let text: String = seqs.map(line).collect();
        recorder.seq += LINES;
        recorder.raw_frame(&text, recorder.seq, false);
        recorder.checkpoint(CheckpointReason::Interval);
    }
    recorder.stop();
    Log::new(recorder)
}

fn seqs(hub: &Hub, token: &str) -> Vec<u64> {
    let path = "GET /api/v1/records?server=db1&limit=1000";
    let (_, body) = request(hub, path, token, b"").unwrap_or_default();
    let answer: Value = serde_json::from_str(&body).unwrap_or_default();
    let records = answer["records"].as_array().cloned().unwrap_or_default();
    records.iter().filter_map(|record| record["seq"].as_u64()).collect()
}

pub fn server(hub: &Hub, token: &str) -> Value {
    let (_, body) = request(hub, "GET /api/v1/servers", token, b"").unwrap_or_default();
    let servers: Value = serde_json::from_str(&body).unwrap_or_default();
    let servers = servers.as_array().cloned().unwrap_or_default();
    servers.into_iter().find(|it| it["server"] == "db1").unwrap_or_default()
}

/// Everything is verified and in searches, from `first` on.
pub fn wait_for(hub: &Hub, token: &str, first: u64, last: u64) {
    wait(|| {
        let (state, found) = (server(hub, token), seqs(hub, token));
        let is_verified = state["verified_to_seq"] == last && state["seal"] == "sealed";
        if is_verified && found == (first..=last).collect::<Vec<_>>() {
            return Ok(());
        }
        Err(format!("{state} {found:?}"))
    });
}

pub fn set_days(hub: &Hub, days: u64) {
    let days = days.to_string();
    let output = hub.run(&["retention", "set", "--server", "db1", "--days", &days]);
    assert!(output.status.success(), "{output:?}");
}

pub fn wait_until_removed(replica: &Path, numbers: std::ops::RangeInclusive<u32>) {
    wait(|| {
        let names = numbers.clone().flat_map(|number| [log(number), sidecar(number)]);
        match names.into_iter().find(|name| stored(&replica.join(name)).is_ok()) {
            None => Ok(()),
            Some(name) => Err(format!("{name} is still there")),
        }
    });
}

pub fn verify_replica(replica: &Path, root: &VerifierKey, hub_keys: Vec<VerifierKey>) -> Report {
    let dir = Dir(landed(replica));
    let options = Options { keys: vec![root.clone()], hub_keys, expect: None };
    verify::verify(&dir, &options, &mut |_| {}).unwrap()
}

pub fn hub_key(hub: &Hub) -> VerifierKey {
    let text = std::fs::read_to_string(hub.data.path().join("hub.pub")).unwrap();
    text.trim().parse().unwrap()
}

/// Alerts that say that something of a log is missing or changed.
pub fn alerts(hub: &Hub, token: &str) -> Vec<String> {
    let (_, body) = request(hub, "GET /api/v1/alerts", token, b"").unwrap();
    let alerts: Value = serde_json::from_str(&body).unwrap();
    let bad = ["gap", "seal_broken", "replica_cut", "contradiction", "fork", "tampered"];
    let alerts = alerts.as_array().unwrap().iter().map(|alert| alert["rule"].as_str().unwrap());
    alerts.filter(|rule| bad.contains(rule)).map(str::to_owned).collect()
}

/// Hub with a log of four files, of which retention has removed the first three.
fn removed() -> (Hub, Log, String) {
    let hub = Hub::start_with(&["--retention-days", "0"]);
    let log = old_log(4);
    let auditor = hub.token(&["--role", "auditor"]);
    Shipping::start(&hub, log.path(), "db1", true).finish();
    wait_for(&hub, &auditor, 1, 4 * LINES);
    set_days(&hub, 30);
    wait_until_removed(&hub.replica("db1", 1), 1..=3);
    wait_for(&hub, &auditor, 3 * LINES + 1, 4 * LINES);
    (hub, log, auditor)
}

#[test]
fn what_is_left_of_a_log_still_verifies() {
    let (mut hub, log, auditor) = removed();
    let (replica, root) = (hub.replica("db1", 1), log.recorder.root.clone());
    // Also without a restart.
    wait(|| {
        let server = server(&hub, &auditor);
        if server["records"] == LINES { Ok(()) } else { Err(server.to_string()) }
    });
    // With both public keys.
    let report = verify_replica(&replica, &root, vec![hub_key(&hub)]);
    assert_eq!(report.state(), LogState::Ok, "{:?}", report.findings);
    assert_eq!((report.removed_by_hub, report.files, report.lines), (3, 1, LINES));
    // With that of the log alone, it could be any hub.
    let report = verify_replica(&replica, &root, Vec::new());
    assert_eq!(report.state(), LogState::Gap);
    assert_eq!(report.findings[0].seqs, Some((1, 3 * LINES)));
    // The shipper still has all files, and is asked for none of them.
    let (verdict, said) = Shipping::start(&hub, log.path(), "db1", true).finish();
    assert_eq!(verdict.problem_count, 0, "{said}");
    assert!(
        stored(&replica.join(crate::recorder::log(1))).is_err() && !hub.replica("db1", 2).exists()
    );
    // A hub that reads everything again finds nothing missing.
    hub.stop();
    hub.spawn(&[]);
    wait_for(&hub, &auditor, 3 * LINES + 1, 4 * LINES);
    assert_eq!(server(&hub, &auditor)["findings"], json!([]));
    assert_eq!(alerts(&hub, &auditor), [""; 0]);
}

#[test]
fn the_index_can_be_built_again_and_records_exported() {
    let (mut hub, log, auditor) = removed();
    hub.stop();
    assert!(hub.command("reindex", &[]).status.success());
    hub.spawn(&[]);
    wait_for(&hub, &auditor, 3 * LINES + 1, 4 * LINES);
    let path = log.path().join("bundle.tar");
    let output = path.display().to_string();
    let output = hub.command("export", &["--server", "db1", "--output", &output]);
    assert!(output.status.success(), "{output:?}");
    let options = tacho_evidence::check::Options {
        keys: vec![log.recorder.root.clone()],
        hub_key: Some(hub_key(&hub)),
    };
    let file = std::fs::File::open(&path).unwrap();
    let report = tacho_evidence::check::check(&file, &options, &mut |_| {}).unwrap();
    assert_eq!(report.state(), LogState::Ok, "{:?}", report.findings);
    assert_eq!((report.records(), report.proven()), (LINES, LINES));
    // The proof of one record, too.
    let path = format!("GET /api/v1/records/db1/{}", 3 * LINES + 1);
    let (status, body) = request(&hub, &path, &auditor, b"").unwrap();
    let answer: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((status, &answer["proof"]["state"]), (200, &json!("sealed")), "{body}");
    assert_eq!(request(&hub, "GET /api/v1/records/db1/1", &auditor, b"").unwrap().0, 404);
}

#[test]
fn removals_and_settings_are_in_the_log_of_the_hub() {
    let (hub, _log, auditor) = removed();
    let find = "GET /api/v1/records?server=tacho-hub&limit=1000&q=event:config";
    let records = wait(|| {
        let (_, body) = request(&hub, find, &auditor, b"").unwrap();
        let answer: Value = serde_json::from_str(&body).unwrap();
        let records = answer["records"].as_array().cloned().unwrap_or_default();
        let removed = records.iter().filter(|it| it["variable"] == "hub.file_removed").count();
        if removed == 3 { Ok(records) } else { Err(body) }
    });
    let set = records.iter().find(|it| it["variable"] == "hub.retention").unwrap();
    assert_eq!((&set["old_value"], &set["new_value"]), (&json!("default"), &json!("30")));
    let first = records.iter().find(|it| it["variable"] == "hub.file_removed").unwrap();
    assert_eq!(
        (&first["old_value"], &first["new_value"]),
        (&json!(log(1)), &json!("retention of 30 days"))
    );
    let has = |key: &str, value: &str| {
        first["attributes"].as_array().unwrap().contains(&json!({"key": key, "value": value}))
    };
    assert!(has("server", "db1") && has("last_seq", "5") && has("seal", "ok"), "{first}");
    let output = hub.run(&["retention", "show"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("default: for ever\n") && text.contains("db1: 30 days\n"), "{text}");
}

/// The hub is killed as soon as the removal can be seen from outside.
#[test]
fn a_removal_is_completed_after_kill_9() {
    let mut hub = Hub::start_with(&["--retention-days", "0"]);
    const FILES: u64 = 60;
    let log = old_log(FILES);
    let auditor = hub.token(&["--role", "auditor"]);
    Shipping::start(&hub, log.path(), "db1", true).finish();
    wait_for(&hub, &auditor, 1, FILES * LINES);
    let replica = hub.replica("db1", 1);
    let tombstones = replica.join("hub-removed.chain");
    let length = || std::fs::metadata(&tombstones).map_or(0, |file| file.len());
    set_days(&hub, 30);
    for _ in 0..4 {
        let before = length();
        let is_done = || stored(&replica.join(crate::recorder::log(FILES as u32 - 1))).is_err();
        wait(|| if length() > before || is_done() { Ok(()) } else { Err("no tombstone".into()) });
        hub.kill();
        hub.spawn(&[]);
    }
    wait_until_removed(&replica, 1..=FILES as u32 - 1);
    wait_for(&hub, &auditor, (FILES - 1) * LINES + 1, FILES * LINES);
    let report = verify_replica(&replica, &log.recorder.root, vec![hub_key(&hub)]);
    assert_eq!(report.state(), LogState::Ok, "{:?}", report.findings);
    assert_eq!(report.removed_by_hub, FILES - 1);
    assert_eq!(alerts(&hub, &auditor), [""; 0]);
}

/// A log that was changed is not removed before its alert is acknowledged.
#[test]
fn evidence_of_a_change_is_kept() {
    let mut hub = Hub::start_with(&["--retention-days", "0", "--no-compression"]);
    let log = old_log(3);
    let auditor = hub.token(&["--role", "auditor"]);
    Shipping::start(&hub, log.path(), "db1", true).finish();
    wait_for(&hub, &auditor, 1, 3 * LINES);
    hub.stop();
    let (replica, name) = (hub.replica("db1", 1), crate::recorder::log(1));
    let text = std::fs::read_to_string(replica.join(&name)).unwrap();
    std::fs::write(replica.join(&name), text.replacen("SELECT 2", "SELECT 7", 1)).unwrap();
    hub.spawn(&["--retention-days", "0"]);
    let alert = wait(|| {
        let (_, body) = request(&hub, "GET /api/v1/alerts?state=open", &auditor, b"").unwrap();
        let alerts: Value = serde_json::from_str(&body).unwrap();
        let found =
            alerts.as_array().unwrap().iter().find(|it| it["rule"] == "seal_broken").cloned();
        found.ok_or(body)
    });
    set_days(&hub, 30);
    let admin = hub.token(&["--role", "admin"]);
    wait(|| {
        let (_, body) = request(&hub, "GET /api/v1/storage", &admin, b"").unwrap();
        if body.contains("\"waits_for\":\"alert\"") { Ok(()) } else { Err(body) }
    });
    assert!(replica.join(&name).exists());
    let path = format!("POST /api/v1/alerts/{}/acknowledge", alert["id"]);
    let note = json!({"note": "a test"}).to_string();
    assert_eq!(request(&hub, &path, &admin, note.as_bytes()).unwrap().0, 200);
    wait_until_removed(&replica, 1..=2);
    let tombstones = std::fs::read_to_string(replica.join("hub-removed.chain")).unwrap();
    assert_eq!(tombstones.matches("\nstate modified\n").count(), 1, "{tombstones}");
}

/// A file that cannot be unlinked is an alert until it can.
#[test]
fn a_removal_that_fails_is_an_alert_until_it_succeeds() {
    let hub = Hub::start_with(&["--retention-days", "0", "--no-compression"]);
    let log = old_log(3);
    let auditor = hub.token(&["--role", "auditor"]);
    Shipping::start(&hub, log.path(), "db1", true).finish();
    wait_for(&hub, &auditor, 1, 3 * LINES);
    // A directory in the place of a form of the file: what unlink(2) does not remove.
    let replica = hub.replica("db1", 1);
    let obstacle = replica.join(format!("{}.zst", crate::recorder::log(1)));
    std::fs::create_dir(&obstacle).unwrap();
    set_days(&hub, 30);
    let alert = |state: &str| {
        let path = format!("GET /api/v1/alerts?state={state}");
        let (_, body) = request(&hub, &path, &auditor, b"").unwrap();
        let alerts: Vec<Value> = serde_json::from_str(&body).unwrap();
        let found = alerts.into_iter().find(|alert| alert["rule"] == "retention_failed");
        found.ok_or(body)
    };
    let raised = wait(|| alert("open"));
    let cause = raised["examples"][0].as_str().unwrap();
    assert!(raised["server"] == "db1" && cause.contains(obstacle.to_str().unwrap()), "{raised}");
    std::fs::remove_dir(&obstacle).unwrap();
    wait(|| alert("closed"));
    wait_until_removed(&replica, 1..=2);
}

/// A disk of 48 MiB, of which 24 are reserved.
#[test]
fn a_full_disk_is_reported_everywhere_and_shippers_wait() {
    let Some(hub) = Hub::start_on_disk(48, &["--reserve-mib", "24"]) else { return };
    let auditor = hub.token(&["--role", "auditor"]);
    assert!(hub.get("/healthz", "").starts_with("HTTP/1.1 200"));
    let ballast = hub.directory().join("ballast");
    std::fs::write(&ballast, vec![0; 28 << 20]).unwrap();
    let health = hub.get("/healthz", "");
    assert!(health.starts_with("HTTP/1.1 503") && health.contains("--reserve-mib"), "{health}");
    let log = old_log(2);
    let shipping = Shipping::start(&hub, log.path(), "db1", false);
    let alert = |state: &str| {
        let path = format!("GET /api/v1/alerts?state={state}");
        let (_, body) = request(&hub, &path, &auditor, b"").unwrap();
        if body.contains("\"rule\":\"disk_full\"") { Ok(()) } else { Err(body) }
    };
    wait(|| alert("open"));
    wait(|| {
        let metrics = hub.get("/metrics", &auditor);
        let refused =
            metrics.lines().find_map(|it| it.strip_prefix("tacho_hub_landing_refused_total "));
        let has_refused = refused.is_some_and(|count| count != "0");
        if has_refused && metrics.contains("tacho_hub_accepts_logs 0\n") {
            return Ok(());
        }
        Err(metrics)
    });
    let (_, body) = request(&hub, "GET /api/v1/storage", &auditor, b"").unwrap();
    let storage: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(
        (&storage["accepts_logs"], &storage["reserve_bytes"]),
        (&json!(false), &json!(24 << 20))
    );
    assert_eq!(seqs(&hub, &auditor), [0; 0]);
    // Shippers continue, without a restart of anything.
    std::fs::remove_file(&ballast).unwrap();
    wait(|| {
        let health = hub.get("/healthz", "");
        if health.starts_with("HTTP/1.1 200") { Ok(()) } else { Err(health) }
    });
    wait(|| alert("closed"));
    wait_for_replica(&hub, &log);
    shipping.stop();
}

/// The newest file of a log of 2020 arrives; the older one is removed at once.
fn wait_for_replica(hub: &Hub, log: &Log) {
    let name = crate::recorder::log(2);
    let wanted = log.recorder.dir.0[&name].clone();
    let path = hub.replica("db1", 1).join(name);
    wait(|| {
        let there = std::fs::read(&path).unwrap_or_default();
        if there == wanted { Ok(()) } else { Err(format!("{} bytes", there.len())) }
    });
}
