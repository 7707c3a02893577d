//! A hub that is restored from a backup, which was made while it ran.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use serde_json::Value;
use tacho_chain::entry::CheckpointReason;
use tacho_chain::verify::LogState;

use crate::export::{shipped, wait_for_records};
use crate::hub::{Hub, Shipping, assert_same, wait};
use crate::recorder::TestRecorder;
use crate::shipping::Log;

pub fn backup(hub: &Hub, output: &Path) -> Output {
    hub.command("backup", &["--output", output.to_str().unwrap()])
}

/// A hub in another directory, as the guide says.
pub fn restore(from: &Path, options: &[&str]) -> Hub {
    let mut hub = Hub::start();
    assert_eq!(hub.stop(), Some(0));
    let data = hub.data.path();
    std::fs::remove_dir_all(data).unwrap();
    assert!(Command::new("cp").arg("-a").arg(from).arg(data).status().unwrap().success());
    hub.spawn(options);
    hub
}

fn body(hub: &Hub, path: &str, token: &str) -> Value {
    let answer = hub.get(path, token);
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200"), "{answer}");
    serde_json::from_str(body).unwrap()
}

fn records(hub: &Hub, token: &str) -> Value {
    body(hub, "/api/v1/records?server=db1&order=asc&limit=1000", token)["records"].take()
}

/// Nothing contradicts what was there before. The shipper of a test ends, which is an alert if the
/// hub looks in time.
fn assert_no_contradiction(hub: &Hub, token: &str) {
    let alerts = body(hub, "/api/v1/alerts", token);
    for alert in alerts.as_array().unwrap() {
        assert_eq!(alert["rule"], "shipper_stopped", "{alert}");
    }
}

#[test]
fn a_restored_hub_gets_the_rest_from_the_host() {
    let hub = Hub::start();
    let mut log = Log::new(TestRecorder::new(3));
    log.recorder.lines(20);
    log.recorder.checkpoint(CheckpointReason::Interval);
    log.save();
    Shipping::start(&hub, log.path(), "db1", true).finish();
    wait_for_records(&hub, 20);
    let token = hub.token(&["--role", "auditor+admin", "--name", "ann"]);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("backup");
    let output = backup(&hub, &path);
    assert!(output.status.success(), "{output:?}");

    log.recorder.lines(20);
    log.recorder.rotate();
    log.recorder.lines(5);
    log.recorder.stop();
    log.save();
    Shipping::start(&hub, log.path(), "db1", true).finish();
    wait_for_records(&hub, 45);

    let restored = restore(&path, &[]);
    wait_for_records(&restored, 20);
    // The token of the first hub is valid.
    assert_eq!(records(&restored, &token).as_array().unwrap().len(), 20);
    let (verdict, said) = Shipping::start(&restored, log.path(), "db1", true).finish();
    assert_eq!(verdict.problem_count, 0, "{said}");
    wait_for_records(&restored, 45);
    assert_eq!(records(&restored, &token), records(&hub, &token));
    let replica = restored.replica("db1", 1);
    assert_same(log.path(), &replica);
    assert_eq!(log.verify(&replica).state(), LogState::Ok);
    assert_no_contradiction(&restored, &token);
    let key = |hub: &Hub| std::fs::read(hub.data.path().join("hub.key")).unwrap();
    assert_eq!(key(&restored), key(&hub));
}

#[test]
fn a_backup_is_for_its_owner_and_overwrites_nothing() {
    let (hub, _log) = shipped();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("backup");
    assert!(backup(&hub, &path).status.success());
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o700);
    let keys = ["hub.key", "audit.key", "hub.sqlite"];
    for name in keys {
        let mode = path.join(name).metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
    assert!(!path.join("store").exists());
    let failed = |output: &Path, says: &str| {
        let output = backup(&hub, output);
        assert_eq!(output.status.code(), Some(1));
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(text.contains(says), "{text}");
    };
    failed(&path, "is not overwritten");
    failed(&hub.data.path().join("backup"), "outside of it");
    std::fs::create_dir(directory.path().join("next.unfinished")).unwrap();
    failed(&directory.path().join("next"), "did not end");
    let other = tempfile::tempdir().unwrap();
    let output = Command::new(crate::HUB)
        .args(["backup", "--data"])
        .arg(other.path())
        .arg("--output")
        .arg(directory.path().join("none"))
        .output()
        .unwrap();
    assert!(String::from_utf8_lossy(&output.stderr).contains("not the data directory"));
    assert!(!directory.path().join("none").exists());
}

/// People ask, and the log grows, while backups are made: each of them is a hub.
#[test]
fn a_backup_of_a_busy_hub_fits_together() {
    let hub = Hub::start();
    let token = hub.token(&["--role", "auditor"]);
    let mut log = Log::new(TestRecorder::new(3));
    let shipping = Shipping::start(&hub, log.path(), "db1", false);
    let (is_done, asked) = (AtomicBool::new(false), AtomicU64::new(0));
    let directory = tempfile::tempdir().unwrap();
    let path = |round: u32| directory.path().join(format!("backup-{round}"));
    const ROUNDS: u32 = 4;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                assert!(hub.get("/api/v1/records?limit=1", &token).starts_with("HTTP/1.1 200"));
                asked.fetch_add(1, Ordering::Relaxed);
            }
        });
        scope.spawn(|| {
            for batch in 1_u32.. {
                if is_done.load(Ordering::Relaxed) {
                    break;
                }
                log.recorder.lines(10);
                if batch.is_multiple_of(20) {
                    log.recorder.rotate();
                }
                log.save();
                std::thread::sleep(std::time::Duration::from_millis(2));
            }
        });
        for round in 0..ROUNDS {
            let before = asked.load(Ordering::Relaxed);
            let output = backup(&hub, &path(round));
            assert!(output.status.success(), "{output:?}");
            while asked.load(Ordering::Relaxed) < before + 3 {
                std::thread::yield_now();
            }
        }
        is_done.store(true, Ordering::Relaxed);
    });
    shipping.stop();
    log.recorder.stop();
    log.save();
    for round in 0..ROUNDS {
        let restored = restore(&path(round), &[]);
        let (verdict, said) = Shipping::start(&restored, log.path(), "db1", true).finish();
        assert_eq!(verdict.problem_count, 0, "round {round}: {said}");
        wait_until_proven(&restored, &token, log.recorder.seq);
        assert_same(log.path(), &restored.replica("db1", 1));
        assert_no_contradiction(&restored, &token);
    }
}

/// Waits until the log and the hub's own log are verified.
fn wait_until_proven(hub: &Hub, token: &str, records: u64) {
    wait(|| {
        let servers = body(hub, "/api/v1/servers", token);
        let find = |name: &str| {
            let all = servers.as_array().unwrap();
            all.iter().find(|server| server["server"] == name).cloned().unwrap_or_default()
        };
        let is_sealed = |server: &Value| server["seal"] == "sealed";
        let log = find("db1");
        let is_complete = log["verified_to_seq"] == records && log["records"] == records;
        let is_proven = is_complete && is_sealed(&log) && is_sealed(&find("tacho-hub"));
        if is_proven { Ok(()) } else { Err(servers.to_string()) }
    });
}
