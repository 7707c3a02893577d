//! Spellings of earlier releases: each works, and prints a warning.

use std::fs;
use std::path::Path;

use crate::server::ServerDirs;
use crate::support::{Log, command, statement, stderr, stdout, tacho};

const FILE: &str = "audit-20261121T100000Z-000001.jsonl";

/// A log with one statement of 10 µs.
fn log() -> Log {
    let log = Log::new();
    log.append(FILE, statement(1, "2026-11-21T10:00:00.000000+00:00", "SELECT 1") + "\n");
    log
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path")
}

/// Runs both spellings: the same exit code and stdout, and one warning for the old one.
fn same(old: &[&str], new: &[&str], warning: &str) {
    let (old_output, new_output) = (tacho(old), tacho(new));
    assert_eq!(old_output.status.code(), new_output.status.code(), "{}", stderr(&old_output));
    assert_eq!(stdout(&old_output), stdout(&new_output), "{old:?}");
    assert_eq!(stderr(&new_output).matches("warning:").count(), 0, "{}", stderr(&new_output));
    let told = stderr(&old_output);
    let expected = format!("tacho: warning: {warning}; the old form works in this release only\n");
    assert_eq!(told.matches(&expected).count(), 1, "{old:?}: {told}");
}

#[test]
fn the_format_of_a_result() {
    let log = log();
    let log = text(log.path());
    same(
        &["convert", log, "--to", "csv"],
        &["convert", log, "--format", "csv"],
        "--to is now --format",
    );
    let empty = tempfile::tempdir().unwrap();
    let arenas = text(empty.path());
    same(
        &["arena", "--arena-directory", arenas, "--json"],
        &["arena", "--arena-directory", arenas, "--format", "json"],
        "--json is now --format json",
    );
    let key = empty.path().join("key");
    assert!(tacho(&["keygen", "--output", text(&key)]).status.success());
    same(
        &["verify", log, "--key", text(&key), "--json"],
        &["verify", log, "--key", text(&key), "--format", "json"],
        "--json is now --format json",
    );
}

#[test]
fn the_destination_of_an_output() {
    let log = log();
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| text(&directory.path().join(name)).to_owned();
    let folded = path("folded");
    let folded = folded.as_str();
    fs::write(folded, "main;work 3\n").unwrap();
    let (bench_old, bench_new) = (path("bench-old"), path("bench-new"));
    for (args, old, warning) in [
        (&["convert", text(log.path()), "--format", "csv"][..], "--out", "--output"),
        (&["slowlog", text(log.path())], "--out", "--output"),
        (&["man"], "--out", "--output"),
        (&["pmp", "diff", folded, folded], "--svg", "--output"),
    ] {
        let name = args[..args.len().min(2)].join("-").replace('/', "_");
        let (old_path, new_path) = (path(&format!("{name}-old")), path(&format!("{name}-new")));
        let output = tacho(&[args, &[old, &old_path]].concat());
        assert!(output.status.success(), "{args:?}: {}", stderr(&output));
        let told = stderr(&output);
        assert!(told.contains(&format!("warning: {old} is now {warning}; ")), "{told}");
        let output = tacho(&[args, &[warning, &new_path]].concat());
        assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""), "{args:?}");
        for path in [&old_path, &new_path] {
            assert!(Path::new(path).exists(), "{path}");
        }
    }
    let output = tacho(&["keygen", "--out", &path("key")]);
    assert!(output.status.success() && Path::new(&path("key.pub")).exists());
    assert!(stderr(&output).contains("warning: --out is now --output; "), "{}", stderr(&output));
    // The results cannot be read, but the options are valid.
    same(
        &["bench", "--from", "/nonexistent", "--out", &bench_old],
        &["bench", "--results", "/nonexistent", "--output", &bench_new],
        "--from is now --results",
    );
    same(
        &["bench", "--list", "--server-folder", "/x"],
        &["bench", "--list", "--server-directory", "/x"],
        "--server-folder is now --server-directory",
    );
}

#[test]
fn the_path_of_a_log() {
    let log = log();
    let log = text(log.path());
    same(
        &["digest", "--log", log],
        &["digest", log],
        "--log DIR|FILE is now the argument DIR|FILE",
    );
    same(
        &["recorder", "--attach", "/nonexistent"],
        &["recorder", "/nonexistent"],
        "--attach DIR is now the argument DIR",
    );
    same(
        &["arena", "--directory", "/nonexistent"],
        &["arena", "--arena-directory", "/nonexistent"],
        "--directory is now --arena-directory",
    );
    same(
        &["digest", "--charset", "latin1", "SELECT 1", "COMMIT"],
        &["digest", "--charset", "latin1", "--sql", "SELECT 1", "--sql", "COMMIT"],
        "a statement is now the option --sql SQL",
    );
}

#[test]
fn sizes_and_durations() {
    let log = log();
    let log = text(log.path());
    for command in [&["tail", log][..], &["convert", log, "--format", "cef"], &["slowlog", log]] {
        same(
            &[command, &["--max-line-bytes", "4096"]].concat(),
            &[command, &["--max-line-size", "4KiB"]].concat(),
            "--max-line-bytes is now --max-line-size",
        );
    }
    same(
        &["digest", log, "--max-line-bytes=4096"],
        &["digest", log, "--max-line-size=4KiB"],
        "--max-line-bytes is now --max-line-size",
    );
    same(
        &["digest", "--sql", "SELECT customer", "--text-bytes", "8"],
        &["digest", "--sql", "SELECT customer", "--text-size", "8"],
        "--text-bytes is now --text-size",
    );
    for (us, now) in [("10", "10us"), ("11", "11us")] {
        same(
            &["slowlog", log, "--min-query-time-us", us],
            &["slowlog", log, "--min-time", now],
            &format!("--min-query-time-us is now --min-time, with a unit: --min-time {us}us"),
        );
    }
    same(
        &["slowlog", log, "--min-query-time", "11us"],
        &["slowlog", log, "--min-time", "11us"],
        "--min-query-time is now --min-time",
    );
    let rows = |time: &str| stdout(&tacho(&["slowlog", log, "--min-time", time]));
    assert!(rows("10us").contains("SELECT 1") && !rows("11us").contains("SELECT 1"));
    same(
        &["bench", "--list", "--block", "0.5"],
        &["bench", "--list", "--block", "500ms"],
        "--block 0.5 is now --block 0.5s",
    );
    same(
        &["pmp", "--pid", "2147483647", "--duration", "10"],
        &["pmp", "--pid", "2147483647", "--duration", "10s"],
        "--duration 10 is now --duration 10s",
    );
    let syslog = ["convert", log, "--format", "syslog", "--send", "udp://127.0.0.1:9"];
    same(
        &[&syslog[..], &["--give-up-after", "30"]].concat(),
        &[&syslog[..], &["--give-up-after", "30s"]].concat(),
        "--give-up-after 30 is now --give-up-after 30s",
    );
}

#[test]
fn every_command_finds_the_log_by_the_environment() {
    let log = log();
    let place = ServerDirs::new();
    let arenas = place.arenas();
    let key = place.root().join("key");
    assert!(tacho(&["keygen", "--output", text(&key)]).status.success());
    for (args, code) in [
        (&["tail"][..], 0),
        (&["convert", "--format", "csv"], 0),
        (&["slowlog"], 0),
        // Not sealed.
        (&["verify", "--key", text(&key)], 15),
        // No checkpoint.
        (&["checkpoint"], 1),
        (&["recover", "--arena-directory", text(&arenas)], 0),
    ] {
        let output = command(args).env("TACHO_LOG_DIR", log.path()).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{args:?}: {}", stderr(&output));
        let output = command(args).env("TACHO_LOG_DIR", "/nonexistent").output().unwrap();
        assert!(stderr(&output).contains("/nonexistent (from TACHO_LOG_DIR)"), "{args:?}");
    }
    let output = command(&["recorder"]).env("TACHO_LOG_DIR", "/nonexistent").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("/nonexistent"), "{}", stderr(&output));
}

#[test]
fn inputs_of_a_digest_exclude_each_other() {
    let log = log();
    let log = text(log.path());
    for (args, reason) in [
        (&["digest", log, "--sql", "SELECT 1"][..], "--sql excludes a log"),
        (&["digest", log, "--null"], "--null excludes a log"),
        (&["digest", log, "--charset", "latin1"], "--charset excludes a log"),
        (&["digest", "SELECT 1", "--null"], "--null excludes statements"),
    ] {
        let output = tacho(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(stderr(&output).contains(reason), "{args:?}: {}", stderr(&output));
    }
}
