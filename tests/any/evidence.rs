//! Zone: outside. Evidence of a real server: its log goes to a hub, is exported there, and verified
//! by the command on a copy of the bundle, which is then changed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tacho_tests::client::Queryable as _;
use tacho_tests::hub::Hub;
use tacho_tests::recording::Recording;
use tacho_tests::wait;

const ROWS: u64 = 300;

fn command(name: &str) -> Command {
    Command::new(tacho_tests::program(name))
}

fn text(output: &Output) -> String {
    let [out, err] = [&output.stdout, &output.stderr].map(|it| String::from_utf8_lossy(it));
    format!("{out}{err}")
}

/// The root key: in the first line of the log.
fn key_in_log(log: &Path) -> String {
    let names = tacho_tests::log::file_names(log, ".jsonl");
    let first = fs::read_to_string(log.join(names.first().expect("a file"))).expect("a text");
    let (_, rest) = first.split_once("\"signing_key\":\"").expect("a start line with the key");
    rest.split_once('"').expect("its end").0.to_owned()
}

struct Evidence {
    directory: tempfile::TempDir,
    root: String,
    hub: String,
}

impl Evidence {
    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The exit code and the result of `tacho verify`.
    fn verify(&self, name: &str, options: &[&str]) -> (Option<i32>, Value) {
        let mut command = command("tacho");
        command.arg("verify").arg(self.path(name)).args(["--format", "json"]).args(options);
        let output = command.output().expect("the command is built");
        let answer = serde_json::from_slice(&output.stdout);
        (output.status.code(), answer.unwrap_or_else(|error| panic!("{error}: {}", text(&output))))
    }

    fn verify_with_keys(&self, name: &str) -> (Option<i32>, Value) {
        self.verify(name, &["--key", &self.root, "--hub-key", &self.hub])
    }

    fn export(&self, hub: &Hub, name: &str, options: &[&str]) {
        let mut command = command("tacho-hub");
        command.arg("export").arg("--data").arg(hub.data()).args(options);
        let output = command.arg("--output").arg(self.path(name)).output().expect("runs");
        assert!(output.status.success(), "{}", text(&output));
    }
}

#[test]
fn a_bundle_of_a_real_log_proves_its_records_and_no_change_passes() {
    let mut server =
        Recording::builder().option("tacho-checkpoint-interval-s=1").start().expect("a server");
    let log = server.log_directory();
    let mut conn = server.connect().expect("a connection");
    for number in 0..ROWS {
        conn.query_drop(format!("SELECT {number}, 'evidence'")).expect("an answer");
        if number == ROWS / 2 {
            let before = tacho_tests::log::file_names(&log, ".jsonl").len();
            server.set("tacho_rotate_now = 1");
            let names = || tacho_tests::log::file_names(&log, ".jsonl").len();
            wait::until("there is a new file", || names() > before);
        }
    }
    drop(conn);
    server.stop().expect("stopped");

    let directory = tempfile::tempdir().expect("a directory");
    let mut hub = Hub::start(&directory.path().join("hub")).expect("a hub");
    hub.ship_once(&log, "db1").expect("shipped");
    let client = hub.client("auditor").expect("a client");
    wait::until("the hub has verified and indexed everything", || {
        let mut count = 0;
        let search = client.records("db1", "\"'evidence'\"", |_| {
            count += 1;
            Ok(())
        });
        let state = client.server("db1").expect("an answer").unwrap_or_default();
        search.is_ok()
            && count >= ROWS
            && state["verified_to_seq"].is_u64()
            && state["verified_to_seq"] == state["landed_seq"]
    });
    let public = fs::read_to_string(hub.data().join("hub.pub")).expect("the key of the hub");
    let evidence = Evidence { directory, root: key_in_log(&log), hub: public.trim().to_owned() };
    let all = ["--q", "\"'evidence'\"", "--server", "db1"];
    evidence.export(&hub, "all.tar", &all);
    evidence.export(&hub, "one.tar", &["--q", "\"SELECT 17, 'evidence'\"", "--server", "db1"]);
    hub.process().stop().expect("stopped");
    evidence.export(&hub, "without.tar", &all);
    // Nothing of the hub or the server is needed any more.
    fs::remove_dir_all(evidence.path("hub")).expect("removed");
    for (name, records) in [("all.tar", ROWS), ("without.tar", ROWS), ("one.tar", 1)] {
        let (code, answer) = evidence.verify_with_keys(name);
        assert_eq!((code, &answer["state"]), (Some(0), &"ok".into()), "{name}: {answer}");
        assert_eq!(answer["records"], answer["proven"]);
        assert!(answer["records"].as_u64() >= Some(records), "{name}: {answer}");
    }
    let size = |name: &str| fs::metadata(evidence.path(name)).expect("a bundle").len();
    assert!(size("one.tar") < size("all.tar") / 2);
    keys_are_required(&evidence);
    changes_are_found(&evidence);
}

fn keys_are_required(evidence: &Evidence) {
    let other = tempfile::tempdir().expect("a directory");
    let path = other.path().join("key");
    let made = command("tacho").arg("keygen").arg("--output").arg(&path).output().expect("runs");
    let wrong = String::from_utf8(made.stdout).expect("a key").trim().to_owned();
    let (root, hub) = (&*evidence.root, &*evidence.hub);
    let code = |options: &[&str]| evidence.verify("one.tar", options).0;
    assert_eq!(code(&["--key", root]), Some(0));
    assert_eq!(code(&["--hub-key", hub]), Some(0));
    assert_eq!(code(&["--key", &wrong, "--hub-key", hub]), Some(16));
    assert_eq!(code(&["--key", root, "--hub-key", &wrong]), Some(16));
    let without = command("tacho").arg("verify").arg(evidence.path("one.tar")).output();
    assert_eq!(without.expect("runs").status.code(), Some(2));
    let plain = command("tacho")
        .arg("verify")
        .arg(evidence.path("one.tar"))
        .args(["--key", root])
        .output()
        .expect("runs");
    let said = text(&plain);
    assert!(said.starts_with("OK: every record is what was recorded, and signed\n"), "{said}");
    assert!(said.contains(&format!("signed with a key that is in the bundle itself: {hub}")));
}

/// One byte in each part of the bundle, and cuts.
fn changes_are_found(evidence: &Evidence) {
    let good = fs::read(evidence.path("one.tar")).expect("a bundle");
    let step = good.len() / 200;
    for at in (0..good.len()).step_by(step.max(1)) {
        let mut bytes = good.clone();
        bytes[at] ^= 1 << (at % 8);
        fs::write(evidence.path("changed.tar"), &bytes).expect("written");
        let (code, answer) = evidence.verify_with_keys("changed.tar");
        assert!(matches!(code, Some(14 | 16)), "byte {at}: {code:?} {answer}");
    }
    for length in [0, 1, 511, 512, good.len() / 2, good.len() - 1] {
        fs::write(evidence.path("changed.tar"), &good[..length]).expect("written");
        assert_eq!(evidence.verify_with_keys("changed.tar").0, Some(14), "{length} bytes");
    }
}
