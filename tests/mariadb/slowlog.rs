//! Zone: outside. The server's own slow query log beside the one converted from our log: the
//! results of `pt-query-digest` for the two.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tacho_format::Format;
use tacho_tests::converted;
use tacho_tests::raw::{Login, Raw, com};
use tacho_tests::server::TestServer;

const SETUP: &[&str] = &[
    "CREATE DATABASE d",
    "CREATE TABLE d.t (id INT PRIMARY KEY, v VARCHAR(100))",
    "CREATE USER app@localhost",
    "GRANT ALL ON d.* TO app@localhost",
    "CREATE PROCEDURE d.p() BEGIN INSERT INTO d.t VALUES (9, 'x'); DELETE FROM d.t WHERE v = 'x'; END",
];

const STATEMENTS: &[&str] = &[
    "INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c')",
    "SELECT v FROM t WHERE id = 1",
    "SELECT v FROM t WHERE id = 2",
    "SELECT v FROM t WHERE id = 3",
    "SELECT a.v\n, b.v -- comment\nFROM t a JOIN t b USING (id)",
    "UPDATE t SET v = 'größer' WHERE id = 2",
    "SELECT * FROM nosuch",
    "SELECT 'two'; SELECT 'three'",
    "DELETE FROM t WHERE id = 3",
    "SELECT SLEEP(0.1)",
    "BEGIN",
    "COMMIT",
];

/// Counts by fingerprint.
fn digest(file: &Path) -> BTreeMap<String, u64> {
    let output = Command::new("pt-query-digest")
        .args(["--limit", "100%", "--output", "json", "--no-version-check"])
        .arg(file)
        .output()
        .expect("pt-query-digest (package percona-toolkit)");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let report: Value = serde_json::from_str(&text[text.find('{').expect("JSON")..]).expect("JSON");
    let classes = report["classes"].as_array().expect("classes").iter();
    classes
        .map(|class| {
            let fingerprint = class["fingerprint"].as_str().expect("a fingerprint");
            (fingerprint.to_owned(), class["query_count"].as_u64().expect("a count"))
        })
        .collect()
}

#[test]
fn the_same_queries_are_found() {
    let mut server =
        TestServer::builder().option("plugin-load-add=tacho").start().expect("a server");
    Raw::connect(server.socket(), "root").expect("a session").must(SETUP);
    let mut root = Raw::connect(server.socket(), "root").expect("a session");
    root.must(&[
        "SET GLOBAL slow_query_log_file = 'theirs.log'",
        "SET GLOBAL long_query_time = 0",
        "SET GLOBAL slow_query_log = ON",
    ]);
    let login = Login { db: Some(b"d"), ..Login::new("app") };
    let mut raw = Raw::login(server.socket(), &login).expect("an answer").expect("a session");
    for statement in STATEMENTS {
        raw.query(statement).expect("an answer");
    }
    let id = raw.prepare("SELECT v, 'p' FROM t WHERE id = ?").expect("an answer").expect("an id");
    raw.execute(id, &[Some(b"1")], false).expect("an answer");
    raw.query("CALL p()").expect("an answer");
    raw.command(com::PING, b"").expect("an answer");
    raw.command(com::INIT_DB, b"d").expect("an answer");
    raw.query("").expect("an answer");
    raw.query("use d").expect("an answer");
    raw.begin(com::QUIT, b"").expect("sent");
    let _ = raw.read_packet();
    server.stop().expect("stopping");

    let data = server.data_directory();
    let ours = converted::log(&data.join("tacho"), Format::Slow, "").expect("a good log");
    // From the session on, as in theirs.
    let begin = ours.find("# User@Host: app[app]").expect("the session");
    let begin = ours[..begin].rfind("# Time: ").expect("a header");
    let own = server.directory().join("ours.log");
    fs::write(&own, &ours[begin..]).expect("written");
    let (mut theirs, mut ours) = (digest(&data.join("theirs.log")), digest(&own));
    // The server may end it when the session has begun, after its answer.
    for log in [&mut theirs, &mut ours] {
        log.remove("set global slow_query_log = on");
    }
    // Statements that are only here: those of the program, one without a text, and one that
    // pt-query-digest takes for the name of a database in the server's log.
    for (fingerprint, count) in [
        ("delete from d.t where v = ?", 1),
        ("insert into d.t values(?+)", 1),
        ("", 1),
        ("use d", 1),
    ] {
        assert_eq!(ours.remove(fingerprint), Some(count), "{fingerprint:?}: {ours:#?}");
        assert!(!theirs.contains_key(fingerprint), "{fingerprint:?}: {theirs:#?}");
    }
    assert_eq!(ours, theirs);
    assert!(theirs.len() > 10, "{theirs:#?}");
}
