//! A hub that compresses its replica: everything that it says is the same, and a kill at any moment
//! loses nothing.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use tacho_chain::entry::CheckpointReason;
use tacho_chain::verify::{self, LogState, Options};
use tacho_logdir::read::directory::RealDirectory;
use tacho_logdir::read::identities::Identities;
use tacho_replica::{ENDING, compressed_path};

use crate::backup::{backup, restore};
use crate::export::check_file;
use crate::hub::{Hub, Shipping, assert_same, wait};
use crate::recorder::{TestRecorder, log};
use crate::retention::{
    LINES, alerts, hub_key, old_log, server, set_days, verify_replica, wait_for, wait_until_removed,
};
use crate::search::request;
use crate::shipping::Log;

const FILES: u64 = 4;
const LAST: u64 = FILES * LINES;

/// Waits until only the newest file is plain.
fn wait_until_compressed(replica: &Path, files: u64) {
    let newest = u32::try_from(files).unwrap();
    wait(|| {
        let path = |number: u32| replica.join(log(number));
        let is_done =
            |number: &u32| compressed_path(&path(*number)).exists() && !path(*number).exists();
        match (1..newest).find(|number| !is_done(number)) {
            None => Ok(()),
            Some(number) => Err(format!("file {number} is not compressed")),
        }
    });
    assert!(replica.join(log(newest)).exists());
    assert!(!compressed_path(&replica.join(log(newest))).exists(), "the newest file grows");
}

/// What the hub says of the log: records, a record with its bytes and its proof, the seal.
fn answers(hub: &Hub, auditor: &str) -> Vec<Value> {
    let mut answers: Vec<Value> = Vec::new();
    for path in [
        "records?server=db1&order=asc&limit=1000",
        "records?server=db1&q=seq:7",
        "records/db1/3",
        "records/db1/20",
    ] {
        let (status, body) = request(hub, &format!("GET /api/v1/{path}"), auditor, b"").unwrap();
        assert_eq!(status, 200, "{path}: {body}");
        let mut answer: Value = serde_json::from_str(&body).unwrap();
        if let Some(fields) = answer.as_object_mut() {
            fields.remove("scanned_ms");
        }
        answers.push(answer);
    }
    assert_eq!(answers[0]["records"].as_array().unwrap().len() as u64, LAST);
    assert_eq!(answers[2]["proof"]["state"], "sealed", "{}", answers[2]);
    assert!(answers[2]["bytes"].as_str().unwrap().contains("SELECT 3"), "{}", answers[2]);
    let server = server(hub, auditor);
    for field in ["seal", "findings", "gaps", "bytes", "records", "verified_to_seq"] {
        answers.push(server[field].clone());
    }
    answers
}

/// The bundle of all records, without the time at which it was made.
fn bundle(hub: &Hub, log: &Log) -> Vec<u8> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("bundle.tar");
    let output = hub.command("export", &["--server", "db1", "--output", path.to_str().unwrap()]);
    assert!(output.status.success(), "{output:?}");
    let report = check_file(&path, &log.recorder.root, hub);
    assert_eq!(report.state(), LogState::Ok, "{:?}", report.findings);
    assert_eq!((report.records(), report.proven()), (LAST, LAST));
    let bytes = std::fs::read(&path).unwrap();
    let end = bytes.windows(13).position(|part| part == b"manifest.json").unwrap();
    bytes[..end].to_vec()
}

/// As `tacho verify` does.
fn verify_as_command(replica: &Path, log: &Log) -> verify::Report {
    let directory = RealDirectory::new(replica, Identities::default()).unwrap();
    let options = Options { keys: vec![log.recorder.root.clone()], ..Options::default() };
    verify::verify(&directory, &options, &mut |_| {}).unwrap()
}

fn assert_verified(replica: &Path, log: &Log) {
    let report = verify_as_command(replica, log);
    assert_eq!(report.state(), LogState::Ok, "{:?}", report.findings);
    assert_eq!((report.files, report.last_seq), (FILES, LAST));
}

#[test]
fn everything_is_the_same_after_it() {
    let mut hub = Hub::start_with(&["--retention-days", "0", "--no-compression"]);
    let log = old_log(FILES);
    let auditor = hub.token(&["--role", "auditor"]);
    Shipping::start(&hub, log.path(), "db1", true).finish();
    wait_for(&hub, &auditor, 1, LAST);
    let (before, evidence) = (answers(&hub, &auditor), bundle(&hub, &log));
    let replica = hub.replica("db1", 1);
    assert!(replica.join(crate::recorder::log(1)).exists());

    hub.stop();
    hub.spawn(&["--retention-days", "0"]);
    wait_until_compressed(&replica, FILES);
    wait_for(&hub, &auditor, 1, LAST);
    let check = |hub: &Hub| {
        wait_for(hub, &auditor, 1, LAST);
        assert_eq!(answers(hub, &auditor), before);
        assert!(bundle(hub, &log) == evidence, "the bundle has the same bytes");
        let replica = hub.replica("db1", 1);
        assert_verified(&replica, &log);
        assert_same(log.path(), &replica);
        assert!(compressed_path(&replica.join(crate::recorder::log(1))).exists());
        assert_eq!(alerts(hub, &auditor), [""; 0]);
    };
    check(&hub);
    let (verdict, said) = Shipping::start(&hub, log.path(), "db1", true).finish();
    assert_eq!(verdict.problem_count, 0, "{said}");
    assert!(!hub.replica("db1", 2).exists());
    assert_metrics(&hub, &auditor, &replica);

    hub.kill();
    hub.spawn(&["--retention-days", "0"]);
    check(&hub);
    hub.stop();
    let output = hub.command("reindex", &[]);
    assert!(output.status.success(), "{output:?}");
    hub.spawn(&["--retention-days", "0"]);
    check(&hub);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("backup");
    assert!(backup(&hub, &path).status.success());
    // It has the settings of retention that the hub was started with before.
    let restored = restore(&path, &["--retention-days", "0"]);
    check(&restored);

    set_days(&hub, 30);
    wait_until_removed(&replica, 1..=FILES as u32 - 1);
    wait_for(&hub, &auditor, LAST - LINES + 1, LAST);
    let report = verify_replica(&replica, &log.recorder.root, vec![hub_key(&hub)]);
    assert_eq!(report.state(), LogState::Ok, "{:?}", report.findings);
    assert_eq!((report.removed_by_hub, report.files), (FILES - 1, 1));
}

/// The figures of both lengths become those of the files.
fn assert_metrics(hub: &Hub, auditor: &str, replica: &Path) {
    let files = std::fs::read_dir(replica).unwrap();
    let on_disk: u64 = files.map(|entry| entry.unwrap().metadata().unwrap().len()).sum();
    let plain: usize = crate::hub::landed(replica).values().map(Vec::len).sum();
    for (name, bytes) in [("log_bytes", on_disk), ("log_plain_bytes", plain as u64)] {
        let line = format!("tacho_hub_{name}{{server=\"db1\"}} {bytes}\n");
        wait(|| {
            let metrics = hub.get("/metrics", auditor);
            if metrics.contains(&line) { Ok(()) } else { Err(format!("{line}{metrics}")) }
        });
    }
    assert!(on_disk < plain as u64);
}

/// What the disk has lost is said, wherever it is asked for, and the rest is there.
#[test]
fn a_damaged_file_is_reported() {
    let mut hub = Hub::start_with(&["--retention-days", "0"]);
    let log = old_log(FILES);
    let auditor = hub.token(&["--role", "auditor"]);
    Shipping::start(&hub, log.path(), "db1", true).finish();
    wait_for(&hub, &auditor, 1, LAST);
    let replica = hub.replica("db1", 1);
    wait_until_compressed(&replica, FILES);
    hub.stop();
    let path = compressed_path(&replica.join(crate::recorder::log(1)));
    let mut bytes = std::fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0xFF;
    std::fs::write(&path, bytes).unwrap();
    hub.spawn(&["--retention-days", "0"]);
    wait(|| match alerts(&hub, &auditor) {
        found if found == ["seal_broken"] => Ok(()),
        found => Err(format!("{found:?}")),
    });
    let record = |seq: u64| -> Value {
        let path = format!("GET /api/v1/records/db1/{seq}");
        let (status, body) = request(&hub, &path, &auditor, b"").unwrap();
        assert_eq!(status, 200, "{body}");
        serde_json::from_str(&body).unwrap()
    };
    let damaged = record(3);
    assert_eq!((&damaged["proof"]["state"], &damaged["bytes"]), (&json!("broken"), &Value::Null));
    assert_eq!(damaged["record"]["sql"], "SELECT 3", "the index has it");
    assert!(damaged["proof"]["message"].as_str().unwrap().contains("damaged"), "{damaged}");
    assert_eq!(record(LINES + 1)["proof"]["state"], "sealed");
}

/// A flipped byte in the middle of a file: what is before it is indexed, and so are other files.
#[test]
fn an_index_is_built_again_beside_a_damaged_file() {
    const LARGE: u64 = 3;
    let mut hub = Hub::start_with(&["--retention-days", "0"]);
    let auditor = hub.token(&["--role", "auditor"]);
    let log = large_log(LARGE);
    Shipping::start(&hub, log.path(), "db1", true).finish();
    let replica = hub.replica("db1", 1);
    wait_until_compressed(&replica, LARGE);
    hub.stop();
    let name = crate::recorder::log(2);
    let path = compressed_path(&replica.join(&name));
    let good = std::fs::read(&path).unwrap();
    let mut bytes = good.clone();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0xFF;
    std::fs::write(&path, bytes).unwrap();
    let output = hub.command("reindex", &[]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert_eq!(said.matches(&format!("{name}: frame ")).count(), 1, "{said}");
    assert!(said.contains("1 file of the replica is not indexed to the end"), "{said}");
    let records = |hub: &Hub, file: &str| -> u64 {
        let sql = format!("SELECT count(*) AS n FROM records WHERE file = '{file}'");
        let output = hub.command("sql", &["--format", "json", &sql]);
        assert!(output.status.success(), "{output:?}");
        serde_json::from_slice::<Value>(&output.stdout).unwrap()["n"].as_u64().unwrap()
    };
    assert!(records(&hub, &crate::recorder::log(1)) >= 25_000);
    assert!(records(&hub, &crate::recorder::log(3)) >= 25_000);
    let before = records(&hub, &name);
    assert!((1..25_000).contains(&before), "{before}");

    // A hub that runs says it, too, until the file is restored.
    hub.spawn(&["--retention-days", "0"]);
    let health = |expected: &str| {
        wait(|| match request(&hub, "GET /healthz", "", b"").expect("an answer") {
            (200, body) if body == expected => Ok(()),
            other => Err(format!("{other:?}")),
        });
    };
    health("ok\nfiles of the replica that cannot be indexed: 1\n");
    let metrics = hub.get("/metrics", &auditor);
    assert!(metrics.contains("tacho_hub_unindexed_files{server=\"db1\"} 1\n"), "{metrics}");
    std::fs::write(&path, good).unwrap();
    health("ok\n");
    wait(|| match &server(&hub, &auditor)["records"] {
        records if *records == log.recorder.seq => Ok(()),
        records => Err(records.to_string()),
    });
}

/// A log whose files have several frames when they are compressed.
fn large_log(files: u64) -> Log {
    let mut recorder = TestRecorder::new(6);
    for file in 0..files {
        if file > 0 {
            recorder.rotate();
        }
        recorder.lines(25_000);
        recorder.checkpoint(CheckpointReason::Interval);
    }
    recorder.stop();
    Log::new(recorder)
}

/// Names that begin a compression, or complete a part of it.
fn progress(replica: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(replica).unwrap();
    let mut names: Vec<PathBuf> = entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ending| ending == &ENDING[1..]))
        .collect();
    names.sort();
    names
}

/// The hub is killed as soon as something of a compression can be seen from outside, and a little
/// later each time.
#[test]
fn a_kill_at_any_moment_loses_nothing() {
    const LARGE: u64 = 6;
    let mut hub = Hub::start_with(&["--no-compression"]);
    let token = hub.token(&["--role", "auditor"]);
    let log = large_log(LARGE);
    Shipping::start(&hub, log.path(), "db1", true).finish();
    hub.stop();
    let replica = hub.replica("db1", 1);
    for round in 0..8 {
        hub.spawn(&["--retention-days", "0"]);
        let before = progress(&replica);
        let is_done = || !replica.join(crate::recorder::log(LARGE as u32 - 1)).exists();
        wait(|| match progress(&replica) != before || is_done() {
            true => Ok(()),
            false => Err("no progress".to_owned()),
        });
        std::thread::sleep(Duration::from_millis(3 * round));
        hub.kill();
        // Whatever is there now has all bytes.
        assert_same(log.path(), &replica);
    }
    hub.spawn(&["--retention-days", "0"]);
    wait_until_compressed(&replica, LARGE);
    assert_same(log.path(), &replica);
    let report = verify_as_command(&replica, &log);
    assert_eq!(report.state(), LogState::Ok, "{:?}", report.findings);
    wait(|| {
        let server = server(&hub, &token);
        let is_verified = server["verified_to_seq"] == log.recorder.seq;
        if is_verified && server["records"] == log.recorder.seq && server["seal"] == "sealed" {
            return Ok(());
        }
        Err(server.to_string())
    });
    assert_eq!(server(&hub, &token)["findings"], json!([]));
    assert_eq!(alerts(&hub, &token), [""; 0]);
    let unfinished = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().starts_with('.');
    assert!(!progress(&replica).iter().any(unfinished), "{:?}", progress(&replica));
    assert!(!hub.replica("db1", 2).exists());
}

/// A hub of an earlier release does not take compressed files for missing ones.
#[test]
fn an_earlier_release_refuses_the_directory() {
    let mut hub = Hub::start();
    hub.stop();
    let path = hub.data.path().join("hub.sqlite");
    let version = |path: &Path| -> i64 {
        let database = rusqlite::Connection::open(path).unwrap();
        database.query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap()
    };
    assert!(version(&path) >= 10, "version 9 had only plain files");
    // What this release says of a later one, each of its commands alike.
    let later = version(&path) + 1;
    let database = rusqlite::Connection::open(&path).unwrap();
    database.pragma_update(None, "user_version", later).unwrap();
    for command in ["serve", "reindex"] {
        let output = hub.command(command, &[]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains(&format!("has version {later}")), "{said}");
        assert!(said.contains("use a newer tacho-hub"), "{said}");
    }
    assert_eq!(version(&path), later, "it is left as it is");
}
