//! Real shippers to a real hub.

use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::Value;
use tacho_chain::entry::CheckpointReason;
use tacho_chain::verify::{self, LogState, Options};

use crate::hub::{Hub, Shipping, assert_same, landed};
use crate::receiver;
use crate::recorder::{Dir, TestRecorder, sealed};

/// A sealed log on the disk.
pub struct Log {
    pub recorder: TestRecorder,
    pub directory: tempfile::TempDir,
    /// As the recorder of a running server holds it.
    _lock: std::fs::File,
}

impl Log {
    pub fn new(recorder: TestRecorder) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let lock = tacho_logdir::lock(directory.path()).unwrap();
        let log = Self { recorder, directory, _lock: lock };
        log.save();
        log
    }

    /// Appends what is new: lines first, as a recorder does.
    pub fn save(&self) {
        let files = &self.recorder.dir.0;
        for ending in [".jsonl", ".chain"] {
            for (name, bytes) in files.iter().filter(|(name, _)| name.ends_with(ending)) {
                let path = self.directory.path().join(name);
                let mut file =
                    std::fs::OpenOptions::new().create(true).append(true).open(path).unwrap();
                let length = usize::try_from(file.metadata().unwrap().len()).unwrap();
                file.write_all(&bytes[length..]).unwrap();
            }
        }
    }

    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// What `tacho verify` says about a replica of it.
    pub fn verify(&self, replica: &Path) -> verify::Report {
        let dir = Dir(landed(replica));
        let options = Options { keys: vec![self.recorder.root.clone()], ..Default::default() };
        verify::verify(&dir, &options, &mut |_| {}).unwrap()
    }
}

#[test]
fn a_log_arrives_as_it_is_and_verifies() {
    let hub = Hub::start();
    let log = Log::new(sealed());
    let (verdict, said) = Shipping::start(&hub, log.path(), "db1", true).finish();
    assert_eq!(verdict.problem_count, 0, "{said}");
    let replica = hub.replica("db1", 1);
    assert_same(log.path(), &replica);
    assert_eq!(log.verify(&replica).state(), LogState::Ok);
}

#[test]
fn a_log_that_was_changed_is_kept_as_it_was() {
    let hub = Hub::start();
    let log = Log::new(sealed());
    Shipping::start(&hub, log.path(), "db1", true).finish();
    let name = crate::recorder::log(3);
    let changed = log.recorder.dir.text(&name).replacen("SELECT 13", "SELECT 73", 1);
    std::fs::write(log.path().join(&name), changed).unwrap();
    let (verdict, said) = Shipping::start(&hub, log.path(), "db1", true).finish();
    assert!(verdict.problem_count == 1 && said.contains("generation 2"), "{said}");
    let (former, current) = (hub.replica("db1", 1), hub.replica("db1", 2));
    assert_eq!(log.verify(&former).state(), LogState::Ok);
    assert_eq!(log.verify(&current).state(), LogState::Modified);
    assert_same(log.path(), &current);
}

/// The hub is killed again and again while the log grows and rotates.
#[test]
fn nothing_is_lost_when_the_hub_is_killed() {
    let mut hub = Hub::start();
    let mut log = Log::new(TestRecorder::new(3));
    let shipping = Shipping::start(&hub, log.path(), "db1", false);
    let is_done = Arc::new(AtomicBool::new(false));
    let directory = log.directory.path().to_owned();
    let seen = Arc::clone(&is_done);
    let writer = std::thread::spawn(move || {
        let mut batch = 0;
        while !seen.load(Ordering::Relaxed) {
            batch += 1;
            log.recorder.lines(20);
            if batch % 100 == 0 {
                log.recorder.rotate();
            }
            log.save();
            std::thread::sleep(Duration::from_millis(1));
        }
        log.recorder.stop();
        log.save();
        log
    });
    for round in 0..8 {
        std::thread::sleep(Duration::from_millis(150 + 40 * round));
        hub.kill();
        hub.spawn(&[]);
    }
    is_done.store(true, Ordering::Relaxed);
    let log = writer.join().unwrap();
    shipping.stop();
    let (verdict, said) = Shipping::start(&hub, &directory, "db1", true).finish();
    assert_eq!(verdict.problem_count, 0, "{said}");
    let replica = hub.replica("db1", 1);
    assert_same(&directory, &replica);
    let report = log.verify(&replica);
    assert_eq!(report.state(), LogState::Ok, "{:#?}", report.findings);
    assert!(!hub.replica("db1", 2).exists());
}

#[test]
fn a_full_disk_is_waited_for() {
    let mut hub = Hub::start();
    hub.stop();
    let full = (u64::MAX >> 20).to_string();
    hub.spawn(&["--reserve-mib", &full]);
    let log = Log::new(sealed());
    let shipping = Shipping::start(&hub, log.path(), "db1", true);
    let token = hub.token(&["--role", "agent", "--server", "db1"]);
    // Nothing of it is there before there is space.
    std::thread::sleep(Duration::from_millis(300));
    assert!(hub.get("/api/v1/origins/db1", &token).contains("\"files\":[]"));
    hub.stop();
    hub.spawn(&[]);
    let (verdict, said) = shipping.finish();
    assert_eq!(verdict.problem_count, 0, "{said}");
    assert!(said.contains("disk is full"), "{said}");
    assert_same(log.path(), &hub.replica("db1", 1));
}

/// What the hub says of a server.
fn server(hub: &Hub, token: &str, name: &str) -> Value {
    let answer = hub.get("/api/v1/servers", token);
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    let servers: Value = serde_json::from_str(body).expect(&answer);
    servers.as_array().unwrap().iter().find(|it| it["server"] == name).cloned().unwrap_or_default()
}

/// Waits until the hub says so of db1. The test's own time limit ends it otherwise.
fn wait_for(hub: &Hub, token: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    wait_for_server(hub, token, "db1", is_so)
}

fn wait_for_server(hub: &Hub, token: &str, name: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    loop {
        let server = server(hub, token, name);
        if is_so(&server) {
            return server;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_log_is_verified_while_it_arrives() {
    let mut hub = Hub::start();
    let token = hub.token(&["--role", "admin"]);
    let mut log = Log::new(TestRecorder::new(4));
    log.recorder.lines(5);
    log.recorder.checkpoint(CheckpointReason::Interval);
    log.save();
    let shipping = Shipping::start(&hub, log.path(), "db1", false);
    let seen = wait_for(&hub, &token, |it| it["verified_to_seq"] == 5);
    assert_eq!(
        (&seen["seal"], &seen["records"], &seen["landed_seq"]),
        (&"sealed".into(), &5.into(), &5.into())
    );
    assert_eq!(seen["last_record_ts"], "2026-11-21T03:03:07.599976Z");
    log.recorder.lines(2);
    log.save();
    let seen = wait_for(&hub, &token, |it| it["records"] == 7);
    assert_eq!((&seen["seal"], &seen["verified_to_seq"]), (&"sealed".into(), &5.into()));
    assert_eq!(seen["shipper"]["host"], "test");
    log.recorder.stop();
    log.save();
    wait_for(&hub, &token, |it| it["verified_to_seq"] == 7);
    shipping.stop();
    hub.kill();
    hub.spawn(&[]);
    wait_for(&hub, &token, |it| it["verified_to_seq"] == 7);
    let metrics = hub.get("/metrics", &token);
    assert!(metrics.contains("tacho_hub_verified_seq{server=\"db1\"} 7\n"), "{metrics}");
    assert!(metrics.contains("tacho_hub_seal_ok{server=\"db1\"} 1\n"), "{metrics}");
    let none = "tacho_hub_alerts_open{rule=\"tampered\",severity=\"critical\"} 0\n";
    assert!(metrics.contains(none), "{metrics}");
}

/// The file that follows is empty until there is a line, and its files arrive when the shipper has
/// them.
#[test]
fn a_log_that_ends_with_a_rotation_is_not_broken() {
    let mut hub = Hub::start_with(&["--no-compression"]);
    let token = hub.token(&["--role", "viewer"]);
    for (server, has_next) in [("db1", true), ("db2", false)] {
        let mut recorder = TestRecorder::new(1);
        recorder.lines(3);
        recorder.rotate();
        if !has_next {
            let is_newest = |name: &str| name.contains("-000002.");
            recorder.dir.0.retain(|name, _| !is_newest(name));
        }
        let log = Log::new(recorder);
        Shipping::start(&hub, log.path(), server, true).finish();
        if has_next {
            let mut names: Vec<String> = std::fs::read_dir(hub.replica(server, 1))
                .unwrap()
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .collect();
            names.sort();
            assert!(names.iter().eq(log.recorder.dir.0.keys()), "{names:?}");
        }
    }
    for _ in 0..2 {
        for name in ["db1", "db2"] {
            let seen = wait_for_server(&hub, &token, name, |it| !it["seal"].is_null());
            assert_eq!((&seen["seal"], &seen["gaps"]), (&"sealed".into(), &0.into()), "{seen}");
        }
        let alerts = hub.get("/api/v1/alerts", &token);
        assert!(!alerts.contains("seal_broken") && !alerts.contains("gap"), "{alerts}");
        hub.kill();
        hub.spawn(&[]);
    }
}

#[test]
fn a_changed_log_is_broken() {
    let hub = Hub::start();
    let token = hub.token(&["--role", "viewer"]);
    let mut log = Log::new(sealed());
    Shipping::start(&hub, log.path(), "db1", true).finish();
    wait_for(&hub, &token, |it| it["seal"] == "sealed");
    let other = Log::new(TestRecorder::new(9));
    log.recorder = other.recorder;
    log.directory = other.directory;
    log.recorder.lines(1);
    log.recorder.stop();
    log.save();
    let (_, said) = Shipping::start(&hub, log.path(), "db1", true).finish();
    assert!(said.contains("generation 2"), "{said}");
    let seen = wait_for(&hub, &token, |it| it["seal"] == "broken");
    assert!(seen["seal_message"].as_str().unwrap().contains("another root key"), "{seen}");
    assert_eq!(seen["state"], "broken");
    // The fork, the broken seal, and the shipper that has ended.
    let rules = ["seal_broken", "shipper_stopped"];
    while !rules.iter().all(|rule| hub.get("/api/v1/alerts?state=open", &token).contains(rule)) {
        std::thread::sleep(Duration::from_millis(100));
    }
    let alerts = hub.get("/api/v1/alerts", &token);
    assert!(alerts.contains("\"rule\":\"tampered\""), "{alerts}");
}

#[test]
fn a_local_log_needs_no_shipper() {
    let mut hub = Hub::start();
    let token = hub.token(&["--role", "admin"]);
    let mut log = Log::new(TestRecorder::new(5));
    log.recorder.lines(3);
    log.recorder.checkpoint(CheckpointReason::Interval);
    log.save();
    let argument = format!("db1={}", log.path().display());
    hub.stop();
    hub.spawn(&["--log", &argument]);
    wait_for(&hub, &token, |it| it["verified_to_seq"] == 3);
    log.recorder.lines(3);
    log.recorder.stop();
    log.save();
    wait_for(&hub, &token, |it| it["verified_to_seq"] == 6);
    assert_eq!(hub.stop(), Some(0));
    assert_same(log.path(), &hub.replica("db1", 1));
    assert!(!hub.data.path().join("local/db1.token").exists());
    hub.spawn(&["--log", &argument]);
    wait_for(&hub, &token, |it| it["verified_to_seq"] == 6);
}

#[test]
fn alerts_are_sent_to_a_webhook_until_it_takes_them() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/alerts", listener.local_addr().unwrap());
    let mut hub = Hub::start();
    let log = Log::new(sealed());
    Shipping::start(&hub, log.path(), "db1", true).finish();
    hub.stop();
    hub.spawn(&["--webhook", &url, "--webhook-allow-private", "--alert-wait", "0"]);
    // The shipper has ended in order. The first delivery fails.
    for status in ["500 Internal Server Error", "200 OK"] {
        let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        let body = receiver::answer(&listener, &answer);
        assert_eq!(body["alerts"][0]["labels"]["alertname"], "shipper_stopped", "{body}");
    }
}
