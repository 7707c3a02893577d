//! `tacho report` on logs whose content is known.

use std::io::Write as _;
use std::process::Stdio;

use crate::support::{Log, command, stderr, stdout, tacho};

const FIRST: &str = "audit-20261121T100000Z-000001.jsonl";
const SECOND: &str = "audit-20261121T110000Z-000002.jsonl";

/// A line with `fields`.
fn line(seq: u64, time: &str, fields: &str) -> String {
    format!("{{\"v\":1,\"seq\":{seq},\"ts\":\"2026-11-21T{time}.000000+00:00\",{fields}}}\n")
}

fn statement(seq: u64, time: &str, user: &str, fields: &str) -> String {
    let fields = format!(
        r#""event":"statement","outcome":"ok","run":1,"conn":7,"conn_seq":{seq},"user":"{user}","host":"web1",{fields}"#
    );
    line(seq, time, &fields)
}

const START: &str = r#""event":"start","run":1,"server":"MariaDB 10.11""#;
const COST: &str = r#""rows_sent":2,"rows_examined":10,"rows_affected":1,"query_time_us":100"#;

fn report(log: &Log, args: &[&str]) -> String {
    let path = log.path().to_str().unwrap();
    let output = tacho(&[&["report", path, "--utc"], args].concat());
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""), "{args:?}");
    stdout(&output)
}

/// The rows of a report in JSON, and its summary.
fn json(log: &Log, args: &[&str]) -> (Vec<serde_json::Value>, serde_json::Value) {
    let text = report(log, &[args, &["--format", "json"]].concat());
    let mut rows: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let summary = rows.pop().unwrap()["summary"].take();
    (rows, summary)
}

/// `key count` of each row.
fn counts(log: &Log, args: &[&str], key: &str) -> Vec<String> {
    let (rows, _) = json(log, args);
    rows.iter()
        .map(|row| format!("{} {}", row[key].as_str().unwrap_or("-"), row["count"]))
        .collect()
}

/// Two files: three statements of `app`, one of `batch`.
fn small() -> Log {
    let log = Log::new();
    log.append(FIRST, line(1, "10:00:00", START));
    for (seq, time) in [(2, "10:00:01"), (3, "10:59:59")] {
        let fields = format!(r#""db":"shop","sql_command":"select",{COST}"#);
        log.append(FIRST, statement(seq, time, "app", &fields));
    }
    let fields = format!(r#""sql_command":"update",{COST}"#);
    log.append(SECOND, statement(4, "11:00:00", "app", &fields));
    let fields = r#""db":"shop","command":"Ping","errno":1064,"query_time_us":900"#;
    log.append(SECOND, statement(5, "11:30:00", "batch", fields).replace("\"ok\"", "\"error\""));
    log
}

#[test]
fn a_table_says_who_did_what() {
    assert_eq!(
        report(&small(), &[]),
        "\
USER   COUNT  ERRORS  ROWS  EXAMINED   TIME    P50    P95    P99    MAX
app        3       0     9        30  300µs  100µs  100µs  100µs  100µs
batch      1       1     0         0  900µs  900µs  900µs  900µs  900µs

4 statements from 2026-11-21 10:00:01 to 2026-11-21 11:30:00; 2 groups
"
    );
    let cut = report(&small(), &["--top", "1", "--sort", "errors", "--by", "user,host"]);
    assert!(cut.contains("\nbatch  web1") && !cut.contains("\napp"), "{cut}");
    assert!(cut.ends_with("; 1 of 2 groups shown\n"), "{cut}");
}

#[test]
fn groups_are_of_any_field() {
    let log = small();
    assert_eq!(
        counts(&log, &["--by", "hour"], "hour"),
        ["2026-11-21T10:00+00:00 2", "2026-11-21T11:00+00:00 2"]
    );
    assert_eq!(counts(&log, &["--by", "db"], "db"), ["shop 3", "- 1"]);
    assert_eq!(
        counts(&log, &["--by", "sql_command"], "sql_command"),
        ["select 2", "Ping 1", "update 1"]
    );
    let (rows, summary) = json(&log, &["--by", "errno,user", "--sort", "max"]);
    assert_eq!((&rows[0]["errno"], &rows[0]["user"]), (&1064.into(), &"batch".into()));
    assert_eq!((&rows[1]["rows_sent"], &rows[1]["p95_us"]), (&6.into(), &100.into()));
    assert_eq!((&summary["count"], &summary["complete"]), (&4.into(), &true.into()));
}

#[test]
fn a_program_gets_csv() {
    let log = small();
    log.append(SECOND, statement(6, "11:40:00", r#"a\",b"#, COST));
    let path = log.path().to_str().unwrap();
    let output = tacho(&["report", path, "--utc", "--format", "csv", "--user", "a\"*"]);
    assert_eq!(
        stdout(&output),
        "user,count,errors,rows_sent,rows_affected,rows_examined,query_time_us,p50_us,p95_us,p99_us,\
         max_us,first,last\r\n\"a\"\",b\",1,0,2,1,10,100,100,100,100,100,\
         2026-11-21T11:40:00.000000+00:00,2026-11-21T11:40:00.000000+00:00\r\n"
    );
    assert!(stderr(&output).contains("1 statement from "), "{}", stderr(&output));
}

#[test]
fn filters_are_those_of_tail() {
    let log = small();
    assert_eq!(counts(&log, &["--since", "2026-11-21T10:30:00Z"], "user"), ["app 2", "batch 1"]);
    assert_eq!(counts(&log, &["--until", "2026-11-21T11:00:00Z"], "user"), ["app 2"]);
    assert_eq!(counts(&log, &["--outcome", "error"], "user"), ["batch 1"]);
    assert_eq!(counts(&log, &["--sql-command", "sel*", "--run", "last"], "user"), ["app 2"]);
    assert_eq!(counts(&log, &["--run", "9"], "user"), [""; 0]);
    assert_eq!(counts(&log, &["--event", "start"], "user"), ["- 1"]);
}

/// A statement that ran long has two lines or more, in different files.
#[test]
fn a_long_statement_is_counted_once() {
    let log = Log::new();
    let running = statement(1, "10:00:00", "app", r#""sql":"SELECT 1","digest":"1:aa""#);
    let running = running.replace("\"ok\"", "\"running\"");
    let further = statement(2, "10:00:00", "app", r#""running_seq":1"#);
    let further = further.replace("\"ok\"", "\"running\"");
    let end = statement(4, "10:00:00", "app", r#""running_seq":1,"query_time_us":7000000"#);
    log.append(FIRST, &running);
    log.append(FIRST, further);
    log.append(FIRST, statement(3, "10:00:09", "app", COST));
    log.append(SECOND, end);
    let other = statement(5, "11:20:00", "late", r#""sql":"SELECT 2","digest":"1:bb""#);
    log.append(SECOND, other.replace("\"ok\"", "\"running\""));
    let (rows, summary) = json(&log, &["--by", "digest", "--sort", "max"]);
    assert_eq!(rows.len(), 3, "{rows:?}");
    let facts = |row: &serde_json::Value| {
        (
            row["digest"].clone(),
            row["count"].clone(),
            row["max_us"].clone(),
            row["statement"].clone(),
        )
    };
    let null = serde_json::Value::Null;
    assert_eq!(facts(&rows[0]), ("1:aa".into(), 1.into(), 7_000_000.into(), "SELECT ?".into()));
    assert_eq!(facts(&rows[1]), (null.clone(), 1.into(), 100.into(), null.clone()));
    assert_eq!(facts(&rows[2]), ("1:bb".into(), 1.into(), null, "SELECT ?".into()));
    assert_eq!((&summary["count"], &summary["not_ended"]), (&3.into(), &1.into()));
    // The filter sees the statement, not its lines.
    assert_eq!(counts(&log, &["--outcome", "ok", "--grep", "SELECT"], "user"), ["app 1"]);
    // In one file as well.
    let one = Log::new();
    one.append(FIRST, std::fs::read(log.file(FIRST)).unwrap());
    one.append(FIRST, std::fs::read(log.file(SECOND)).unwrap());
    assert_eq!(counts(&one, &["--by", "user"], "user"), ["app 2", "late 1"]);
}

#[test]
fn a_report_says_what_the_log_lacks() {
    let log = small();
    log.append(SECOND, line(6, "11:31:00", r#""event":"lost","count":17,"cause":"dropped""#));
    log.append(SECOND, "{\"v\":1,\"seq\":7,\"ts\n");
    log.append(SECOND, statement(12, "11:32:00", "app", COST));
    let path = log.path().to_str().unwrap();
    let output = tacho(&["report", path]);
    assert_eq!(output.status.code(), Some(1));
    let missing = "INCOMPLETE: 17 records lost (1 `lost` line, dropped); 1 line damaged; \
                   4 lines missing in the sequence\n";
    assert!(stdout(&output).ends_with(missing), "{}", stdout(&output));
    assert!(stderr(&output).contains("broken line: EOF while parsing"), "{}", stderr(&output));
    let output = tacho(&["report", path, "--format", "json"]);
    let text = stdout(&output);
    let summary = text.lines().last().unwrap();
    for fact in [
        r#""complete":false"#,
        r#""lost_records":17"#,
        r#""damaged_lines":1"#,
        r#""missing_lines":4"#,
    ] {
        assert!(summary.contains(fact), "{summary}");
    }
    // Outside of the range, nothing is missing.
    let output = tacho(&["report", path, "--until", "2026-11-21T10:30:00Z"]);
    assert!(!stdout(&output).contains("INCOMPLETE"), "{}", stdout(&output));
}

#[test]
fn a_report_says_where_the_log_begins() {
    let log = small();
    let begins = "the log begins at 2026-11-21 10:00:00, after --since\n";
    assert!(report(&log, &["--since", "2026-11-20"]).ends_with(begins));
    // 10:00:00 is in the first line, although it is not counted.
    assert!(!report(&log, &["--since", "2026-11-21T10:00:00Z"]).contains("begins"));
    assert!(!report(&log, &["--since", "2026-11-21T11:20:00Z"]).contains("begins"));
}

#[test]
fn all_forms_of_a_log_are_read() {
    let log = small();
    let expected = report(&log, &[]);
    let pipe = |path: &std::path::Path| {
        let mut child = command(&["report", "-", "--utc"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(&std::fs::read(path).unwrap()).unwrap();
        stdout(&child.wait_with_output().unwrap())
    };
    let files = [log.file(FIRST), log.file(SECOND)].map(|file| file.to_str().unwrap().to_owned());
    assert_eq!(stdout(&tacho(&["report", &files[0], &files[1], "--utc"])), expected);
    let all = Log::new();
    for file in &files {
        all.append("all.jsonl", std::fs::read(file).unwrap());
    }
    assert_eq!(pipe(&all.file("all.jsonl")), expected);

    let text = std::fs::read(log.file(FIRST)).unwrap();
    std::fs::write(log.file(&format!("{FIRST}.zst")), zstd::encode_all(&text[..], 3).unwrap())
        .unwrap();
    std::fs::remove_file(log.file(FIRST)).unwrap();
    assert_eq!(report(&log, &[]), expected);

    let identity = age::x25519::Identity::generate();
    let text = std::fs::read(log.file(SECOND)).unwrap();
    let encrypted = age::encrypt(&identity.to_public(), &text).unwrap();
    std::fs::write(log.file(&format!("{SECOND}.age")), encrypted).unwrap();
    std::fs::remove_file(log.file(SECOND)).unwrap();
    let output = tacho(&["report", log.path().to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stdout(&output).contains("INCOMPLETE: 1 file not read"), "{}", stdout(&output));
    use age::secrecy::ExposeSecret as _;
    let keys = Log::new();
    keys.append("key", identity.to_string().expose_secret());
    assert_eq!(report(&log, &["--identity", keys.file("key").to_str().unwrap()]), expected);
}

#[test]
fn no_value_can_reach_the_terminal() {
    let log = Log::new();
    let evil = r"\u001b]0;owned\u0007\n\u202e";
    log.append(FIRST, statement(1, "10:00:00", evil, &format!(r#""sql":"{evil}","digest":"1:a""#)));
    for args in [&["--by", "user,digest"][..], &["--by", "user", "--width", "60"]] {
        let text = report(&log, args);
        let is_bad = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
        assert!(!text.contains(is_bad), "{text:?}");
    }
}
