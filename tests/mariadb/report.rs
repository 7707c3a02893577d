//! Zone: outside. `tacho report` on the log of a server with a known load, beside counts that share
//! no code with it.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tacho_tests::log;
use tacho_tests::program;
use tacho_tests::raw::{Login, Raw};
use tacho_tests::server::TestServer;

const SETUP: &[&str] = &[
    "CREATE DATABASE d",
    "CREATE TABLE d.t (id INT PRIMARY KEY, v VARCHAR(100))",
    "CREATE USER app@localhost",
    "GRANT ALL ON d.* TO app@localhost",
    "CREATE USER locked@localhost IDENTIFIED BY 'secret'",
];

/// The rows of a report, and its summary.
fn report(log: &Path, args: &[&str]) -> (Vec<Value>, Value) {
    let mut command = Command::new(program("tacho"));
    let output = command.arg("report").args(args).arg(log).args(["--format", "json", "--top", "0"]);
    let output = output.output().expect("tacho");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let mut rows: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let summary = rows.pop().expect("a summary")["summary"].take();
    assert_eq!(summary["complete"], true, "{summary}");
    (rows, summary)
}

/// The counts of a report by the values of one of its fields.
fn counts(rows: &[Value], field: &str) -> BTreeMap<String, u64> {
    let count = |row: &Value| {
        let value = row[field].as_str().unwrap_or_default().to_owned();
        (value, row["count"].as_u64().expect("a count"))
    };
    rows.iter().map(count).collect()
}

#[test]
fn a_report_counts_what_the_clients_did() {
    let mut server =
        TestServer::builder().option("plugin-load-add=tacho").start().expect("a server");
    Raw::connect(server.socket(), "root").expect("a session").must(SETUP);
    let login = Login { db: Some(b"d"), ..Login::new("app") };
    let mut app = Raw::login(server.socket(), &login).expect("an answer").expect("a session");
    for id in 0..20 {
        app.must(&[&format!("INSERT INTO t VALUES ({id}, 'x')")]);
    }
    app.query("INSERT INTO t VALUES (3, 'twice')").expect("an answer");
    app.must(&["SELECT * FROM t", "SELECT id FROM t WHERE id = 4"]);
    // Longer than the recorder waits before it writes a `running` line.
    app.must(&["SELECT SLEEP(10.5)"]);
    let refused = Raw::login(server.socket(), &Login::new("locked")).expect("an answer");
    assert!(refused.is_err(), "a login without a password");
    server.stop().expect("stopping");

    let log = server.data_directory().join("tacho");
    let mut expected = BTreeMap::new();
    let mut running_count = 0;
    log::read(&log, |line, _| {
        running_count += u64::from(line.outcome.as_deref() == Some("running"));
        if line.is_statement() {
            *expected.entry(line.user.as_deref().unwrap_or_default().to_owned()).or_default() += 1;
        }
    })
    .expect("a good log");
    assert_eq!(running_count, 1, "of the SLEEP");
    let (rows, summary) = report(&log, &["--by", "user"]);
    assert_eq!(counts(&rows, "user"), expected);
    assert_eq!((&summary["not_ended"], &summary["missing_lines"]), (&0.into(), &0.into()));

    let (rows, _) = report(&log, &["--by", "digest", "--user", "app"]);
    let digests = counts(&rows, "statement");
    assert_eq!(digests["INSERT INTO `t` VALUES (...)"], 21, "{digests:?}");
    assert_eq!(digests["SELECT `SLEEP` (?)"], 1, "{digests:?}");
    let insert = rows.iter().find(|row| row["count"] == 21).expect("the inserts");
    assert_eq!((&insert["errors"], &insert["rows_affected"]), (&1.into(), &20.into()));
    let sleep = rows.iter().max_by_key(|row| row["max_us"].as_u64()).expect("rows");
    assert_eq!(sleep["statement"], "SELECT `SLEEP` (?)");
    assert!(sleep["max_us"].as_u64() >= Some(10_500_000), "{sleep}");

    let (errors, _) = report(&log, &["errors"]);
    let duplicate = errors.iter().find(|row| row["errno"] == 1062).expect("the duplicate");
    assert_eq!((&duplicate["user"], &duplicate["db"]), (&"app".into(), &"d".into()));
    let (logins, _) = report(&log, &["logins"]);
    let failed = logins.iter().find(|row| row["user"] == "locked").expect("the refused login");
    assert_eq!((&failed["logins"], &failed["failed"]), (&0.into(), &1.into()));

    let (ddl, _) = report(&log, &["ddl"]);
    let commands: Vec<_> = ddl.iter().map(|row| row["sql_command"].as_str()).collect();
    assert_eq!(commands, [Some("create_db"), Some("create_table")]);
    let (grants, _) = report(&log, &["grants"]);
    assert_eq!(grants.len(), 3, "{grants:?}");
    let (sessions, _) = report(&log, &["sessions", "--user", "app"]);
    let [session] = &sessions[..] else { panic!("one session: {sessions:?}") };
    assert_eq!((&session["state"], &session["errors"]), (&"closed".into(), &1.into()));
    assert!(session["duration_us"].as_u64() >= Some(10_500_000), "{session}");
}
