//! The filters of lines, which all commands that read a log share.

use std::fs;
use std::io::Write as _;
use std::process::{Output, Stdio};

use crate::support::{Log, command, stderr, stdout, tacho};

const FIRST: &str = "audit-20261121T100000Z-000001.jsonl";
const SECOND: &str = "audit-20261121T110000Z-000002.jsonl";

fn line(seq: u64, fields: &str) -> String {
    format!(
        "{{\"v\":1,\"seq\":{seq},\"ts\":\"2026-11-21T10:00:{seq:02}.000000+00:00\",{fields}}}\n"
    )
}

fn query(seq: u64, user: &str, fields: &str) -> String {
    let head = r#""event":"statement","outcome":"ok","run":1,"conn":7"#;
    let rest = r#""command":"Query","sql_command":"select""#;
    line(seq, &format!(r#"{head},"user":"{user}",{rest},{fields}"#))
}

/// Lines with and without each member; a statement of 20 s in two lines.
fn lines() -> String {
    let tables = r#""tables":[{"access":"read","db":"shop","table":"orders"}]"#;
    let start = r#""event":"start","run":1,"server":"10.11""#;
    let connect = r#""event":"connect","outcome":"ok","run":1,"conn":7,"user":"app","host":"web1""#;
    let running = r#""event":"statement","outcome":"running","run":1,"conn":8,"user":"batch","command":"Query","sql_command":"update","sql":"UPDATE t","sql_charset":"utf8mb4","digest":"1:bb""#;
    let end = r#""event":"statement","outcome":"ok","run":1,"conn":8,"rows_affected":500,"query_time_us":20000000,"running_seq":4"#;
    [
        line(1, start),
        line(2, connect),
        query(3, "app", &format!(r#""sql":"SELECT 1","sql_charset":"utf8mb4","digest":"1:aa",{tables},"rows_sent":3,"query_time_us":1500"#)),
        line(4, running),
        query(5, "root", r#""sql":"SELECT 2","sql_charset":"utf8mb4","digest":"1:ab","rows_sent":900,"query_time_us":90"#),
        line(6, end),
        line(7, r#""event":"lost","count":2,"cause":"dropped""#),
        query(8, "app", r#""errno":1064,"sql":"SELEC","sql_charset":"utf8mb4","query_time_us":10"#),
    ]
    .concat()
}

fn log() -> Log {
    let log = Log::new();
    log.append(FIRST, lines());
    log
}

fn ok(output: &Output) -> String {
    assert_eq!((output.status.code(), stderr(output).as_str()), (Some(0), ""));
    stdout(output)
}

fn seqs(text: &str) -> Vec<u64> {
    let seq = |line: &str| line.strip_prefix("{\"v\":1,\"seq\":")?.split(',').next()?.parse().ok();
    text.lines().map(|line| seq(line).unwrap_or_else(|| panic!("{line}"))).collect()
}

/// The lines that `tacho tail` shows, without the gap.
fn tail(log: &Log, args: &[&str]) -> Vec<u64> {
    let all = ok(&log.tail(&[&["--format", "json", "-n", "all"], args].concat()));
    seqs(&all).into_iter().filter(|seq| *seq != 7).collect()
}

/// Filters, the lines that pass them, and the statements that do: those of one in two lines as one.
const CASES: &[(&[&str], &[u64], &[&str])] = &[
    (&["--user", "app"], &[2, 3, 8], &["SELECT 1", "SELEC"]),
    (&["--not-user", "app,root"], &[1, 4, 6], &["UPDATE t"]),
    (&["--table", "shop.*"], &[3], &["SELECT 1"]),
    (&["--not-table", "shop.orders"], &[1, 2, 4, 5, 6, 8], &["SELECT 2", "UPDATE t", "SELEC"]),
    (&["--db", "shop"], &[3], &["SELECT 1"]),
    (&["--host", "WEB*"], &[2], &[]),
    (&["--conn", "8"], &[4, 6], &["UPDATE t"]),
    (&["--run", "last"], &[1, 2, 3, 4, 5, 6, 8], &["SELECT 1", "SELECT 2", "UPDATE t", "SELEC"]),
    (&["--not-run", "1"], &[], &[]),
    (&["--event", "connect"], &[2], &[]),
    (&["--not-event", "statement,lost"], &[1, 2], &[]),
    (&["--sql-command", "upd*"], &[4], &["UPDATE t"]),
    (&["--errno", "1064"], &[8], &["SELEC"]),
    (&["--outcome", "running"], &[4], &[]),
    (&["--digest", "aa,1:bb"], &[3, 4], &["SELECT 1", "UPDATE t"]),
    (&["--grep", "^SELECT", "--not-grep", "2"], &[3], &["SELECT 1"]),
    (&["--min-time", "1ms"], &[3, 6], &["SELECT 1", "UPDATE t"]),
    // Each line has one of the two.
    (&["--min-time", "1s", "--user", "batch"], &[], &["UPDATE t"]),
    (&["--min-rows", "500"], &[5, 6], &["SELECT 2", "UPDATE t"]),
    (&["--seq", "3-5"], &[3, 4, 5], &["SELECT 1", "SELECT 2"]),
    (&["--since", "2026-11-21T10:00:08Z"], &[8], &["SELEC"]),
];

#[test]
fn tail_shows_lines_that_pass() {
    let log = log();
    for (args, expected, _) in CASES {
        assert_eq!(tail(&log, args), *expected, "{args:?}");
    }
}

/// The ends of the lines that `digest` and `slowlog` print, and the column of `convert`.
#[test]
fn other_commands_take_statements_that_pass() {
    let log = log();
    let path = log.path().to_str().unwrap();
    for (args, _, expected) in CASES {
        let run = |command: &[&str]| stdout(&tacho(&[command, &[path], args].concat()));
        let slow = run(&["slowlog"]);
        let slow: Vec<&str> = slow
            .lines()
            .filter_map(|line| line.strip_suffix(';'))
            .filter(|line| !line.starts_with("SET ") && !line.starts_with("use "))
            .collect();
        assert_eq!(slow, *expected, "slowlog {args:?}");

        let digests = run(&["digest"]);
        assert_eq!(digests.lines().count(), expected.len(), "digest {args:?}: {digests}");

        let events = run(&["convert", "--format", "percona-json"]);
        let sql = |line: &str| {
            let record: serde_json::Value = serde_json::from_str(line).unwrap();
            let record = &record["audit_record"];
            let sql = record["sqltext"].as_str().filter(|_| record["name"] == "Query");
            sql.map(str::to_owned)
        };
        let converted: Vec<String> = events.lines().filter_map(sql).collect();
        assert_eq!(converted, *expected, "convert {args:?}");

        if !args.contains(&"--event") {
            let report = run(&["report", "--format", "json", "--by", "user"]);
            let summary = report.lines().last().unwrap();
            let summary: serde_json::Value = serde_json::from_str(summary).unwrap();
            assert_eq!(summary["summary"]["count"], expected.len(), "report {args:?}: {report}");
        }
    }
}

#[test]
fn messages_are_filtered_line_by_line() {
    let log = log();
    let path = log.path().to_str().unwrap();
    let syslog = |args: &[&str]| {
        let text = ok(&tacho(&[&["convert", path, "--format", "syslog"], args].concat()));
        let seq = |line: &str| line.split("\"seq\":").nth(1)?.split(',').next()?.parse().ok();
        text.lines().filter_map(seq).collect::<Vec<u64>>()
    };
    assert_eq!(syslog(&["--user", "batch"]), [4, 7]);
    assert_eq!(syslog(&["--min-time", "1s", "--not-event", "lost"]), [6]);
}

#[test]
fn compressed_and_encrypted_files_are_filtered() {
    let log = Log::new();
    let identity = age::x25519::Identity::generate();
    let key = log.path().join("key");
    {
        use age::secrecy::ExposeSecret as _;
        fs::write(&key, identity.to_string().expose_secret()).unwrap();
    }
    let packed = zstd::encode_all(lines().as_bytes(), 1).unwrap();
    fs::write(log.file(&format!("{FIRST}.zst")), &packed).unwrap();
    let sealed = age::encrypt(&identity.to_public(), &packed).unwrap();
    fs::write(log.file(&format!("{SECOND}.zst.age")), sealed).unwrap();
    let key = key.to_str().unwrap();
    for (args, expected, _) in CASES {
        let twice = [*expected, *expected].concat();
        assert_eq!(tail(&log, &[&["--identity", key], *args].concat()), twice, "{args:?}");
        let reverse: Vec<u64> = twice.iter().rev().copied().collect();
        let args = [&["--identity", key, "--reverse"], *args].concat();
        assert_eq!(tail(&log, &args), reverse, "{args:?}");
    }
    // Without the key, one file is read.
    let output = log.tail(&["--format", "json", "-n", "all", "--user", "root"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(seqs(&stdout(&output)), [5, 7]);
}

#[test]
fn a_pipe_is_filtered() {
    let mut child = command(&["tail", "-", "--format", "json", "--min-rows", "500"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(lines().as_bytes()).unwrap();
    assert_eq!(seqs(&ok(&child.wait_with_output().unwrap())), [5, 6, 7]);
    for command in [&["tail", "-"][..], &["digest", "-"], &["convert", "-", "--format", "ecs"]] {
        let output = tacho(&[command, &["--run", "last"]].concat());
        assert_eq!(output.status.code(), Some(2), "{command:?}");
        assert!(stderr(&output).contains("cannot find the last run in a pipe"));
    }
}

#[test]
fn a_broken_line_is_reported_even_if_the_filter_excludes_it() {
    let log = log();
    log.append(FIRST, "{\"v\":1,\"seq\":9,\"ts\n");
    let path = log.path().to_str().unwrap();
    for command in [
        &["tail", "-n", "all"][..],
        &["convert", "--format", "ecs"],
        &["slowlog"],
        &["digest"],
        &["report"],
    ] {
        let output = tacho(&[command, &[path, "--user", "absent", "--not-event", "lost"]].concat());
        assert_eq!(output.status.code(), Some(1), "{command:?}");
        assert!(stderr(&output).contains("broken line: "), "{command:?}: {}", stderr(&output));
    }
}

#[test]
fn wrong_filters_are_refused_by_every_command() {
    let log = log();
    let path = log.path().to_str().unwrap();
    for (args, reason) in [
        (["--table", "orders"], "expected DB.TABLE; in any database: *.orders"),
        (["--not-grep", "["], "not a regular expression"),
        (["--not-event", "conect"], "a similar value exists: 'connect'"),
        (["--seq", "5-3"], "the second number is smaller"),
        (["--seq", "x"], "expected numbers of lines such as 100-200"),
        (["--min-time", "soon"], "expected a duration such as 10s"),
        (["--min-rows", "-1"], "unexpected argument"),
        (["--not-usr", "x"], "a similar argument exists: '--not-user'"),
    ] {
        for command in [
            &["tail"][..],
            &["convert", "--format", "ecs"],
            &["slowlog"],
            &["digest"],
            &["report"],
            &["report", "slow"],
        ] {
            let output = tacho(&[command, &[path], &args[..]].concat());
            assert_eq!(output.status.code(), Some(2), "{command:?} {args:?}");
            assert!(stderr(&output).contains(reason), "{args:?}: {}", stderr(&output));
        }
    }
    let output = tacho(&["digest", "--sql", "SELECT 1", "--user", "x"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("filters need a log"), "{}", stderr(&output));
}
