//! `make demo`: the hub has what the logs have, and it ends as it should.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tacho_tests::unused_directory;

/// A tenth of the traffic has all incidents.
fn demo(directory: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tacho-demo"));
    command.args(["--density", "0.1", "--directory"]).arg(directory);
    command
}

/// Removed at the end of a test that has not failed.
struct Directory(PathBuf);

impl Drop for Directory {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            fs::remove_dir_all(&self.0).expect("removing the files of the demonstration");
            fs::remove_file(self.0.with_extension("lock")).expect("removing the lock");
        }
    }
}

#[test]
fn a_demonstration_shows_what_its_logs_have() {
    let directory = Directory(unused_directory("demo-check"));
    let output = demo(&directory.0).arg("--check").output().expect("runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    let result = fs::read_to_string(directory.0.join("result.json")).expect("a result");
    let result: Value = serde_json::from_str(&result).expect("JSON");
    assert_eq!(result["problems"], Value::Array(Vec::new()));
    for server in ["shop-db1", "shop-db2", "crm-db1", "billing-db1", "staging-db1"] {
        assert!(result["records"][server].as_u64() > Some(500), "{server}: {result}");
    }
    assert!(result["records"]["live-db1"].as_u64() > Some(0), "{result}");
}

#[test]
fn a_demonstration_that_is_open_ends_by_an_interrupt() {
    let directory = Directory(unused_directory("demo-open"));
    let mut child = demo(&directory.0)
        .args(["--open"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("starts");
    let mut lines = BufReader::new(child.stdout.take().expect("its output")).lines();
    let link = lines.by_ref().map_while(Result::ok).find(|line| line.contains("/sign-in#"));
    let link = link.unwrap_or_else(|| {
        let mut error = String::new();
        let stderr = child.stderr.as_mut().expect("its messages");
        stderr.read_to_string(&mut error).expect("a text");
        panic!("no link: {error}");
    });
    let (url, _) = link.trim().split_once("/sign-in#").expect("a link");
    let health = format!("{url}/healthz");
    assert_eq!(ureq::get(&health).call().expect("the hub answers").status(), 200);
    kill_process(Pid::from_child(&child), Signal::INT).expect("it runs");
    assert!(child.wait().expect("it ends").success());
    ureq::get(&health).call().expect_err("the hub has ended");
}
