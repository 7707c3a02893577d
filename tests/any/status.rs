//! Zone: outside. `tacho status` about the log of a real server: while it runs, after `kill -9`,
//! after an orderly stop, on a full disk, after a loss, without a seal.

use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tacho_tests::client::Queryable as _;
use tacho_tests::disk::{Disk, FAILED_WRITES};
use tacho_tests::recording::Recording;
use tacho_tests::{program, unused_directory, wait};

/// They depend on the disk of this machine.
const OWN_DISK: &str = "disk,disk-full";
const DISK_BYTES: u64 = 96 << 20;

fn ask(mut tacho: Command, log: &Path, args: &[&str]) -> (Option<i32>, Value) {
    let command = tacho.arg("status").arg(log).args(["--format", "json"]).args(args);
    let output = command.output().expect("the command is built");
    let answer = serde_json::from_slice(&output.stdout).expect("JSON");
    (output.status.code(), answer)
}

fn status(log: &Path, args: &[&str]) -> (Option<i32>, Value) {
    ask(Command::new(program("tacho")), log, args)
}

/// State and text of a check.
#[track_caller]
fn check<'a>(answer: &'a Value, name: &str) -> (&'a str, &'a str) {
    let mut checks = answer["checks"].as_array().expect("a list").iter();
    let found = checks.find(|check| check["check"] == name);
    let found = found.unwrap_or_else(|| panic!("no {name} in {answer:#}"));
    (found["state"].as_str().expect("a state"), found["text"].as_str().expect("a text"))
}

/// Asks until the answer fits.
fn wait_for(ask: impl Fn() -> Value, what: &str, fits: impl Fn(&Value) -> bool) -> Value {
    let mut answer = Value::Null;
    wait::until(what, || {
        answer = ask();
        fits(&answer)
    });
    answer
}

#[test]
fn the_state_follows_the_life_of_a_server() {
    let mut server =
        Recording::builder().option("tacho-checkpoint-interval-s=1").start().expect("a server");
    let log = server.log_directory().canonicalize().expect("the log");
    let mut conn = server.connect().expect("a connection");
    for number in 0..50 {
        conn.query_drop(format!("SELECT {number}")).expect("an answer");
    }
    let skip = ["--skip", OWN_DISK];
    let is_quiet = |answer: &Value| {
        let metrics = &answer["metrics"];
        metrics["waiting_records"] == 0
            && metrics["unsigned_lines"] == 0
            && metrics["newest_seq"].as_u64() > Some(50)
    };
    let ask = || status(&log, &skip).1;
    let answer = wait_for(ask, "all is written and signed", is_quiet);
    assert_eq!(answer["exit_code"], 0, "{answer:#}");
    let (_, text) = check(&answer, "recorder");
    let pid = server.pid().expect("it runs");
    assert!(text.starts_with(&format!("runs, process {pid}; server ")), "{text}");
    assert!(text.ends_with(&format!(", process {pid}")), "{text}");
    assert_eq!(check(&answer, "lost"), ("ok", "no loss in all of the log"));
    assert!(check(&answer, "writer").1.starts_with("looked at the arena "), "{answer:#}");

    server.kill9().expect("killing");
    drop(conn);
    let (code, answer) = status(&log, &skip);
    assert_eq!(code, Some(2), "{answer:#}");
    let (_, text) = check(&answer, "recorder");
    assert!(text.contains("left 1 arena; start the server, or run `tacho recover "), "{text}");

    server.restart().expect("a restart");
    let is_up = |answer: &Value| {
        answer["metrics"]["recorder_up"] == 1 && answer["metrics"]["unsigned_lines"] == 0
    };
    let answer = wait_for(ask, "the recorder runs", is_up);
    assert_eq!(answer["exit_code"], 0, "{answer:#}");

    server.stop().expect("stopping");
    let (code, answer) = status(&log, &skip);
    assert_eq!(code, Some(2), "{answer:#}");
    let (_, text) = check(&answer, "recorder");
    assert!(text.starts_with("no recorder runs: it was stopped at "), "{text}");
    assert_eq!(answer["metrics"]["waiting_records"], 0);
    assert_eq!(status(&log, &["--skip", &format!("recorder,{OWN_DISK}")]).0, Some(0));
}

#[test]
fn a_log_that_is_not_sealed_has_a_warning() {
    let server = Recording::builder().option("tacho-signing-key-file=").start().expect("a server");
    let log = server.log_directory();
    let (code, answer) = status(&log, &["--skip", OWN_DISK]);
    assert_eq!(code, Some(1), "{answer:#}");
    let (state, text) = check(&answer, "unsigned");
    assert!(state == "warning" && text.starts_with("the log is not sealed"), "{text}");
    assert_eq!(status(&log, &["--skip", &format!("unsigned,{OWN_DISK}")]).0, Some(0));
}

#[test]
fn a_full_disk_and_a_loss_are_critical() {
    let place = unused_directory("status-full");
    let disk = Disk::small(&place.join("disk"), DISK_BYTES).expect("a disk");
    let options = ["tacho-arena-bytes=1M", "tacho-overflow=DROP"];
    let server = Recording::builder().options(&options).on(&disk).start().expect("a server");
    let mut conn = server.connect().expect("a connection");
    let status = || ask(disk.command(program("tacho")), &disk.log_directory(), &[]);
    let (_, answer) = status();
    if disk.is_small() {
        assert_eq!(check(&answer, "disk").0, "ok", "{answer:#}");
        disk.fill().expect("a full disk");
        let (code, answer) = status();
        assert_eq!(code, Some(2));
        let (state, text) = check(&answer, "disk");
        assert!(state == "critical" && text.starts_with("0 bytes of "), "{text}");
    } else {
        disk.fill().expect("failing writes");
    }
    let text = "x".repeat(10_000);
    wait::until("a record is lost", || {
        conn.query_drop(format!("SELECT '{text}'")).expect("an answer");
        server.number(&mut conn, "Tacho_records_lost") > 0
    });
    disk.free().expect("space");
    let has_loss = |answer: &Value| answer["metrics"]["lost_lines"].as_u64() > Some(0);
    let answer = wait_for(|| status().1, "the loss is declared", has_loss);
    let (state, text) = check(&answer, "lost");
    assert!(state == "critical" && text.contains("(cause: dropped)"), "{text}");
    server.assert_clean_log(&[FAILED_WRITES, &["records were lost"]].concat());
    drop(server);
    drop(disk);
    std::fs::remove_dir_all(place).expect("removing");
}
