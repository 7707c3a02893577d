//! `tacho retention` on log directories whose files are known.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Output;

use serde_json::Value;

use crate::support::{Log, statement, stderr, stdout, tacho};

/// Names of a file for each day from 2026-11-01 on.
fn name(day: u64) -> String {
    format!("audit-202611{day:02}T000000Z-{day:06}")
}

/// Four closed files of 1,000 bytes and more, and the current one.
fn log() -> Log {
    let log = Log::new();
    for day in 1..=5 {
        let line = statement(day, "2026-11-01T00:00:00Z", &"x".repeat(1_000 * day as usize));
        log.append(&format!("{}.jsonl", name(day)), format!("{line}\n"));
    }
    log
}

fn run(log: &Log, args: &[&str]) -> Output {
    let path = log.path().to_str().unwrap();
    tacho(&[&["retention", path, "--utc"], args].concat())
}

fn text(log: &Log, args: &[&str]) -> Vec<String> {
    let output = run(log, args);
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""), "{args:?}");
    stdout(&output).lines().map(str::to_owned).collect()
}

fn json(log: &Log, settings: &[&str]) -> Value {
    let mut args = vec!["--format", "json"];
    settings.iter().for_each(|setting| args.extend(["--set", setting]));
    serde_json::from_str(&text(log, &args).concat()).unwrap()
}

/// The number in the name of each due file, its reasons, and whether it would be removed.
fn due(value: &Value) -> Vec<(u64, String, bool)> {
    let one = |due: &Value| {
        let number = due["file"].as_str().unwrap().rsplit('-').next().unwrap().parse().unwrap();
        let reasons: Vec<&str> =
            due["reasons"].as_array().unwrap().iter().map(|it| it.as_str().unwrap()).collect();
        (number, reasons.join(" "), due["removed"].as_bool().unwrap())
    };
    value["due"].as_array().unwrap().iter().map(one).collect()
}

const NO_AGE: &str = "tacho_retention_days=0";

#[test]
fn each_limit_has_its_files_and_the_next_one() {
    let log = log();
    // There is no other mode.
    assert_eq!(text(&log, &["--dry-run"]), text(&log, &[]));
    let by_count = json(&log, &[NO_AGE, "tacho_retention_files=3"]);
    assert_eq!(due(&by_count), [(1, "count".to_owned(), true)], "{by_count:#}");
    assert_eq!(by_count["due"][0]["begun"], "2026-11-01T00:00:00Z");
    assert_eq!(by_count["due"][0]["ended"], "2026-11-02T00:00:00Z");
    let bytes = std::fs::metadata(log.file(&format!("{}.jsonl", name(1)))).unwrap().len();
    assert_eq!(by_count["due"][0]["bytes"], bytes);
    assert_eq!(by_count["next"]["file"], name(2));
    assert_eq!(by_count["next"]["expires"], Value::Null);
    assert_eq!((&by_count["closed_files"], &by_count["current"]), (&4.into(), &name(5).into()));
    let by_size = json(&log, &[NO_AGE, "tacho_retention_bytes=11000"]);
    let size = |number| (number, "size".to_owned(), true);
    assert_eq!(due(&by_size), [size(1), size(2), size(3)], "{by_size:#}");
    // The files were written just now, whatever their names say.
    let by_age = json(&log, &["tacho_retention_days=1"]);
    assert_eq!(due(&by_age), []);
    for entry in std::fs::read_dir(log.path()).unwrap() {
        let old = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_700_000_000);
        let file = std::fs::File::options().append(true).open(entry.unwrap().path()).unwrap();
        file.set_modified(old).unwrap();
    }
    let forever = json(&log, &["tacho_retention_days=36525"]);
    assert_eq!((due(&forever).len(), &forever["next"]["file"]), (0, &name(1).into()));
    assert_eq!(forever["next"]["expires"], "2126-11-03T00:00:00Z");
    let all = json(&log, &[NO_AGE, "tacho_retention_files=1", "tacho_retention_bytes=1"]);
    assert_eq!(due(&all)[0], (1, "size count".to_owned(), true));
    assert_eq!((due(&all).len(), &all["next"]), (4, &Value::Null));
}

#[test]
fn nothing_is_changed() {
    let log = log();
    let names = || {
        let entries = std::fs::read_dir(log.path()).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let before = names();
    assert_eq!(due(&json(&log, &["tacho_retention_bytes=1"])).len(), 4);
    assert_eq!(names(), before);
}

#[test]
fn a_file_that_a_hub_lacks_stays_with_all_newer_ones() {
    let log = log();
    let shipped = log.file(".shipped");
    std::fs::write(&shipped, format!("{} https://hub db1\n", name(1))).unwrap();
    std::fs::set_permissions(&shipped, Permissions::from_mode(0o600)).unwrap();
    let settings = [NO_AGE, "tacho_retention_files=1"];
    let free = json(&log, &settings);
    let count = |number, is_removed| (number, "count".to_owned(), is_removed);
    assert_eq!(due(&free), [count(1, true), count(2, false), count(3, false)], "{free:#}");
    assert_eq!(free["due"][1]["unshipped"], "not shipped to https://hub as db1");
    let removes = json(&log, &[&settings[..], &["tacho_retention_unshipped=REMOVE"]].concat());
    assert_eq!(due(&removes), [count(1, true), count(2, true), count(3, true)]);
    let args = ["--set", NO_AGE, "--set", "tacho_retention_files=1"];
    let lines = text(&log, &args);
    let has = |part: &str| assert!(lines.iter().any(|line| line.contains(part)), "{lines:#?}");
    has("stays, not shipped to https://hub as db1");
    has("would be removed now: 1 file, 1.1 kB, with the records from 2026-11-01 00:00:00 to ");
    has("due, and stay until the hubs have them: 2 files, ");
    // Another account may have created it.
    std::fs::set_permissions(&shipped, Permissions::from_mode(0o644)).unwrap();
    let ignored = json(&log, &settings);
    assert_eq!(due(&ignored), [count(1, true), count(2, true), count(3, true)]);
    assert!(ignored["notes"][0].as_str().unwrap().contains("it is ignored"), "{ignored:#}");
}

#[test]
fn the_text_names_the_limits_and_what_is_next() {
    let log = log();
    let config = log.file("my.cnf");
    std::fs::write(&config, "[mysqld]\ntacho_retention_days=0\ntacho_retention_files=7\n").unwrap();
    let lines = text(&log, &["--config", config.to_str().unwrap()]);
    assert_eq!(lines[0], "limits: tacho_retention_days=0, _bytes=0, _files=7, _unshipped=KEEP");
    assert!(lines[1].starts_with("log: 4 closed files, "), "{lines:?}");
    assert_eq!(lines[3], "no file would be removed now");
    assert_eq!(lines[4], format!("next: {} is due when 4 more files have ended (count)", name(1)));
    assert!(text(&log, &[])[0].ends_with("(the defaults; see --config and --set)"));
}

#[test]
fn the_last_line_of_the_log_stays() {
    let log = Log::new();
    log.append(&format!("{}.jsonl", name(1)), "{\"v\":1,\"seq\":1}\n");
    log.append(&format!("{}.jsonl", name(2)), "");
    let value = json(&log, &["tacho_retention_bytes=1"]);
    assert_eq!((due(&value), &value["keeps_last_line"]), (vec![], &name(1).into()));
}

#[test]
fn what_is_no_log_has_exit_code_2() {
    let log = Log::new();
    let none = run(&log, &[]);
    assert_eq!(none.status.code(), Some(2));
    assert!(stderr(&none).contains("it is not a log directory"), "{}", stderr(&none));
    let missing = tacho(&["retention", "/nonexistent"]);
    assert_eq!(missing.status.code(), Some(2));
    let wrong = run(&log, &["--set", "tacho_rotate_s=1"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert_eq!(run(&log, &["--config", "/nonexistent/my.cnf"]).status.code(), Some(2));
}
