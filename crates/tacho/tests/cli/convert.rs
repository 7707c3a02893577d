//! `tacho convert` and `tacho slowlog`.

use std::io::Write as _;
use std::process::{Command, Output, Stdio};

use crate::support::{Following, Log, command, statement, stderr, stdout, tacho};

const FIRST: &str = "audit-20261121T100000Z-000001.jsonl";
const SECOND: &str = "audit-20261121T100000Z-000002.jsonl";
const TARGETS: [&str; 10] = [
    "csv",
    "json",
    "percona-json",
    "percona-new",
    "percona-old",
    "ocsf",
    "ecs",
    "cef",
    "leef",
    "syslog",
];

/// A running line, a statement of another connection, and the end of the first.
fn long_statement() -> String {
    let head = r#""event":"statement","user":"app","db":"shop","command":"Query""#;
    let running = format!(
        r#"{{"v":1,"seq":1,"ts":"2026-11-21T10:00:00.000000Z","outcome":"running","conn":7,"conn_seq":1,{head},"sql":"SELECT SLEEP(20)","sql_charset":"utf8mb4"}}"#
    );
    let other = statement(2, "2026-11-21T10:00:01.000000Z", "SELECT 2");
    let end = format!(
        r#"{{"v":1,"seq":3,"ts":"2026-11-21T10:00:00.000000Z","outcome":"ok","conn":7,"conn_seq":1,{head},"query_time_us":20000000,"running_seq":1}}"#
    );
    format!("{running}\n{other}\n{end}\n")
}

fn convert(log: &Log, to: &str, args: &[&str]) -> Output {
    let path = log.path().to_str().unwrap();
    tacho(&[&["convert", path, "--format", to, "--server-host", "db1"], args].concat())
}

#[test]
fn a_long_statement_is_one_where_it_ended() {
    let log = Log::new();
    // Also across files.
    let lines = long_statement();
    let (first, second) = lines.split_at(lines.find('\n').unwrap() + 1);
    log.append(FIRST, first);
    log.append(SECOND, second);
    let output = convert(&log, "csv", &["--utc"]);
    assert_eq!(
        stdout(&output),
        "20261121 10:00:01,db1,app,,7,0,QUERY,shop,'SELECT 2',0\n\
         20261121 10:00:20,db1,app,,7,0,QUERY,shop,'SELECT SLEEP(20)',0\n"
    );
    assert_eq!((output.status.code(), stderr(&output)), (Some(0), String::new()));
    for to in TARGETS {
        let output = convert(&log, to, &[]);
        assert_eq!(output.status.code(), Some(0), "{to}");
        assert_eq!(stdout(&output).matches("SELECT").count(), 2, "{to}: {}", stdout(&output));
        // Only syslog can express that a statement is running.
        let running = stdout(&output).to_lowercase().contains("running");
        assert_eq!(running, to == "syslog", "{to}: {}", stdout(&output));
    }
}

#[test]
fn json_is_one_array() {
    let log = Log::new();
    log.append(FIRST, long_statement());
    for (args, expected) in [(&[][..], "[2,3]"), (&["--user", "other"], "[]")] {
        let output = convert(&log, "json", args);
        assert_eq!((output.status.code(), stderr(&output)), (Some(0), String::new()));
        let array: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let seqs: Vec<_> = array.as_array().unwrap().iter().map(|it| it["seq"].clone()).collect();
        assert_eq!(serde_json::Value::from(seqs).to_string(), expected);
    }
    // Ctrl-C ends it.
    let path = log.path().to_str().unwrap();
    let following = Following::run(&["convert", path, "--format", "json", "--follow"]);
    let mut text: String = (0..3).map(|_| following.next()).collect();
    let (code, rest, told) = following.end("-INT");
    assert_eq!((code, told), (Some(0), String::new()));
    text += &rest.concat();
    assert_eq!(serde_json::from_str::<Vec<serde_json::Value>>(&text).unwrap().len(), 2, "{text}");
}

#[test]
fn running_statements_come_last() {
    let log = Log::new();
    log.append(
        FIRST,
        long_statement().lines().take(2).map(|l| format!("{l}\n")).collect::<String>(),
    );
    let output = convert(&log, "csv", &["--utc"]);
    assert!(
        stdout(&output)
            .ends_with("\n20261121 10:00:00,db1,app,,7,0,RUNNING,shop,'SELECT SLEEP(20)',\n"),
        "{}",
        stdout(&output)
    );
}

#[test]
fn following_continues_until_ctrl_c() {
    let log = Log::new();
    let lines = long_statement();
    let (first, rest) = lines.split_at(lines.find('\n').unwrap() + 1);
    log.append(FIRST, first);
    let path = log.path().to_str().unwrap();
    let following = Following::run(&["convert", path, "--format", "leef", "--follow"]);
    // The long statement is held until it ends, in the next file.
    log.append(SECOND, rest);
    assert!(following.next().contains("SELECT 2"));
    assert!(following.next().contains("SELECT SLEEP(20)"));
    log.append(SECOND, first.replace("\"seq\":1,", "\"seq\":4,"));
    log.append(SECOND, statement(5, "2026-11-21T10:01:00.000000Z", "SELECT 3") + "\n");
    assert!(following.next().contains("SELECT 3"));
    let (code, left, told) = following.end("-INT");
    assert_eq!((code, left.len(), told.as_str()), (Some(0), 1, ""));
    assert!(left[0].contains("outcome=running"), "{}", left[0]);
}

#[test]
fn messages_are_sent() {
    let log = Log::new();
    log.append(FIRST, long_statement());
    let receiver = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    // Only a failed test waits.
    receiver.set_read_timeout(Some(std::time::Duration::from_secs(60))).unwrap();
    let to = format!("udp://{}", receiver.local_addr().unwrap());
    let output = convert(&log, "syslog", &["--send", &to, "--utc"]);
    assert_eq!((output.status.code(), stdout(&output)), (Some(0), String::new()));
    for seq in 1..=3 {
        let mut message = [0; 2000];
        let length = receiver.recv(&mut message).unwrap();
        let message = std::str::from_utf8(&message[..length]).unwrap();
        let (header, line) = message.split_once(" - statement - ").unwrap();
        assert!(header.starts_with("<110>1 2026-11-21T10:00:0"), "{header}");
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(line["seq"], seq);
    }
    assert_eq!(convert(&log, "csv", &["--send", &to]).status.code(), Some(2));
    assert_eq!(convert(&log, "syslog", &["--send", "ssl://x:1"]).status.code(), Some(2));
}

#[test]
fn stdin_and_several_files_are_read() {
    let log = Log::new();
    log.append("one", statement(1, "2026-11-21T10:00:00.000000Z", "SELECT 'one'") + "\n");
    log.append("two", statement(2, "2026-11-21T10:00:01.000000Z", "SELECT 'two'") + "\n");
    let (one, two) = (log.file("one"), log.file("two"));
    let paths = [one.to_str().unwrap(), two.to_str().unwrap()];
    let output = tacho(&["convert", paths[0], paths[1], "--format", "leef"]);
    let text = stdout(&output);
    assert!(text.find("'one'").unwrap() < text.find("'two'").unwrap());

    let mut child = command(&["convert", "-", "--format", "cef"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let line = statement(1, "2026-11-21T10:00:00.000000Z", "SELECT 'in'") + "\n";
    child.stdin.take().unwrap().write_all(line.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(stdout(&output).contains("cs1=SELECT 'in' "));

    let output = tacho(&["convert", paths[0], paths[1], "--format", "csv", "--follow"]);
    assert_eq!(output.status.code(), Some(2));
    let output = tacho(&["convert", "-", "--format", "csv", "--follow"]);
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn an_xml_file_is_whole_even_without_a_record() {
    let log = Log::new();
    log.append(FIRST, "");
    let expected = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<AUDIT>\n</AUDIT>\n";
    assert_eq!(stdout(&convert(&log, "percona-new", &[])), expected);
    assert_eq!(stdout(&convert(&log, "percona-json", &[])), "");
}

#[test]
fn no_file_is_overwritten() {
    let log = Log::new();
    log.append(FIRST, long_statement());
    let out = log.file("out.csv");
    let out = out.to_str().unwrap();
    assert_eq!(convert(&log, "csv", &["--output", out]).status.code(), Some(0));
    let written = std::fs::read_to_string(out).unwrap();
    assert_eq!(written.lines().count(), 2);
    let output = convert(&log, "csv", &["--output", out]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("File exists"), "{}", stderr(&output));
    assert_eq!(std::fs::read_to_string(out).unwrap(), written);
}

#[test]
fn broken_lines_and_broken_files_are_reported() {
    let log = Log::new();
    log.append(FIRST, long_statement());
    log.append(FIRST, "{\"v\":1,\"seq\":4,\"ts\":\"2026-11-21T10:00:02Z\",\"event\":\"party\"}\n");
    log.append(FIRST, statement(5, "2026-11-21T10:00:03.000000Z", "SELECT 3") + "\n");
    let output = convert(&log, "csv", &[]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(stdout(&output).lines().count(), 3);
    assert!(stderr(&output).contains("broken line: `event` is \"party\""), "{}", stderr(&output));

    let log = Log::new();
    let text = statement(1, "2026-11-21T09:00:00.000000Z", "SELECT 'compressed'") + "\n";
    let compressed = zstd::encode_all(text.as_bytes(), 3).unwrap();
    let name = "audit-20261121T090000Z-000001.jsonl.zst";
    log.append(name, &compressed);
    log.append(SECOND, long_statement());
    let output = convert(&log, "csv", &[]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stdout(&output).lines().next().unwrap().contains("compressed"));
    // A part of it is missing.
    std::fs::write(log.file(name), &compressed[..compressed.len() - 3]).unwrap();
    let output = convert(&log, "csv", &[]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains(name), "{}", stderr(&output));
}

#[test]
fn a_range_of_time() {
    let log = Log::new();
    for second in 0..5 {
        let ts = format!("2026-11-21T10:00:0{second}.000000Z");
        log.append(FIRST, statement(second + 1, &ts, &format!("SELECT {second}")) + "\n");
    }
    let range = ["--since", "2026-11-21T10:00:01Z", "--until", "2026-11-21T10:00:03Z"];
    assert_eq!(stdout(&convert(&log, "csv", &range)).lines().count(), 2);
}

fn slowlog(log: &Log, args: &[&str]) -> Output {
    let path = log.path().to_str().unwrap();
    tacho(&[&["slowlog", path, "--utc"], args].concat())
}

#[test]
fn the_slow_log_reports_what_it_omits() {
    let log = Log::new();
    log.append(FIRST, long_statement());
    let interrupted = r#"{"v":1,"seq":4,"ts":"2026-11-21T10:00:02.000000Z","event":"statement","outcome":"interrupted","command":"Query","sql":"SELECT 4"}"#;
    let lost = r#"{"v":1,"seq":5,"ts":"2026-11-21T10:00:02.000000Z","event":"lost","count":3,"cause":"dropped"}"#;
    log.append(FIRST, format!("{interrupted}\n{lost}\n"));
    let output = slowlog(&log, &[]);
    let text = stdout(&output);
    assert_eq!(text.matches("# Query_time: ").count(), 2);
    assert!(text.contains("# Time: 261121 10:00:20\n"));
    assert!(text.contains("# Query_time: 20.000000  Lock_time: 0.000000  Rows_sent: 0"));
    // The database is that of the previous statement.
    assert!(text.starts_with("# Time: 261121 10:00:01\n"), "{text}");
    assert!(text.contains("\nuse shop;\nSET timestamp=1795255201;\nSELECT 2;\n"), "{text}");
    assert!(text.contains("\nSET timestamp=1795255200;\nSELECT SLEEP(20);\n"), "{text}");
    let told = stderr(&output);
    assert!(told.contains("1 statement without a query time left out"), "{told}");
    assert!(told.contains("1 `lost` line in the log"), "{told}");
    let slow = stdout(&slowlog(&log, &["--min-time", "1s"]));
    assert_eq!(slow.matches("# Query_time: ").count(), 1);
}

/// A program's result for the slow log; `None`: it is not installed.
fn analyse(program: &str, args: &[&str], input: &str) -> Option<String> {
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            eprintln!("skipped: {program} is not installed (scripts/setup.sh test)");
            return None;
        }
        Err(error) => panic!("{program}: {error}"),
    };
    let input = input.to_owned();
    let mut stdin = child.stdin.take().unwrap();
    let writer = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    assert!(output.status.success(), "{program}: {}", stderr(&output));
    Some(stdout(&output))
}

/// Statements that look like parts of a slow log, and how often each occurs in the log.
const ODD: [(&str, usize); 8] = [
    ("SELECT a FROM t WHERE id = 4711", 3),
    (
        "UPDATE t SET a = 1;\\n# Time: 261121 10:00:00\\n# User@Host: root[root] @ evil []\\nWHERE id = 2",
        2,
    ),
    ("use shop", 1),
    ("# a comment first\\nINSERT INTO t VALUES (1)", 2),
    ("DELETE FROM t\\n/usr/sbin/mysqld, Version: 10.11 started with:\\nWHERE id = 1", 1),
    ("SELECT b\\nTime                 Id Command    Argument\\nFROM t", 1),
    ("SELECT c FROM t;", 1),
    ("", 1),
];

fn odd_log() -> Log {
    let log = Log::new();
    let mut seq = 0;
    for (sql, count) in ODD {
        for _ in 0..count {
            seq += 1;
            let ts = format!("2026-11-21T10:00:{seq:02}.000000Z");
            log.append(FIRST, statement(seq, &ts, sql) + "\n");
        }
    }
    log
}

#[test]
fn pt_query_digest_finds_every_statement() {
    let total: usize = ODD.iter().map(|(_, count)| count).sum();
    let text = stdout(&slowlog(&odd_log(), &[]));
    let args = ["--limit", "100%", "--output", "json", "--no-version-check", "-"];
    let Some(report) = analyse("pt-query-digest", &args, &text) else { return };
    let report = &report[report.find('{').expect("JSON")..];
    let report: serde_json::Value = serde_json::from_str(report).expect("JSON");
    assert_eq!(report["global"]["query_count"], total, "{report:#}");
    let mut found: Vec<(String, u64)> = report["classes"]
        .as_array()
        .expect("classes")
        .iter()
        .map(|class| {
            let fingerprint = class["fingerprint"].as_str().expect("a fingerprint").to_owned();
            (fingerprint, class["query_count"].as_u64().expect("a count"))
        })
        .collect();
    found.sort();
    let fingerprints: Vec<&str> =
        found.iter().map(|(fingerprint, _)| fingerprint.as_str()).collect();
    for (fingerprint, count) in
        [("select a from t where id = ?", 3), ("select c from t", 1), ("use shop", 1)]
    {
        let found = found.iter().find(|(found, _)| found.trim_end_matches(';') == fingerprint);
        assert_eq!(found.map(|(_, count)| *count), Some(count), "{fingerprint}: {fingerprints:#?}");
    }
    assert_eq!(found.len(), ODD.len(), "{fingerprints:#?}");
}

#[test]
fn mariadb_dumpslow_finds_every_statement() {
    let log = odd_log();
    let file = log.file("slow.log");
    let path = file.to_str().unwrap();
    assert_eq!(slowlog(&log, &["--output", path]).status.code(), Some(0));
    let Some(report) = analyse("mariadb-dumpslow", &["-s", "c", path], "") else { return };
    let counts = report.lines().filter_map(|line| {
        line.strip_prefix("Count: ")?.split_whitespace().next()?.parse::<usize>().ok()
    });
    let mut counts: Vec<usize> = counts.collect();
    counts.sort_unstable();
    let mut expected: Vec<usize> = ODD.iter().map(|(_, count)| *count).collect();
    expected.sort_unstable();
    assert_eq!(counts, expected, "{report}");
    assert!(report.contains("SELECT a FROM t WHERE id = N"), "{report}");
    assert!(!report.contains("root[root]@evil"), "{report}");
}
