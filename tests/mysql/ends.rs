//! Zone: outside. MySQL's lines for a statement that is ended by force, waits for too long, or
//! loads a file. `scripts/test-release.sh` runs this with each MySQL.

use std::fs;

use tacho_tests::client::{Conn, Queryable};
use tacho_tests::mysql_place::LogAndArenas;
use tacho_tests::mysql_server::{install, wait_for_end};
use tacho_tests::raw::{Raw, com};
use tacho_tests::recorded::{self, Line};
use tacho_tests::wait;

const SETUP: &[&str] = &[
    "CREATE DATABASE d",
    "CREATE TABLE d.t (id INT PRIMARY KEY, v VARCHAR(20))",
    "INSERT INTO d.t VALUES (1, 'a'), (2, 'b'), (3, 'c')",
    "CREATE TABLE d.l (v TEXT)",
    "SET GLOBAL local_infile = ON",
];

const SLEEPS: &str = "SELECT * FROM d.t WHERE SLEEP(100)";

fn wait_for(root: &mut Conn, what: &str, count: &str) {
    wait::until(what, || root.query_first(count).expect("an answer") == Some(1_u64));
}

/// The session executes the statement, and is killed while it sleeps.
fn kill(root: &mut Conn, raw: &mut Raw, how: &str) {
    raw.begin(com::QUERY, SLEEPS.as_bytes()).expect("sending");
    let count = format!(
        "SELECT COUNT(*) FROM performance_schema.processlist \
         WHERE id = {} AND state = 'User sleep'",
        raw.conn
    );
    wait_for(root, "it sleeps", &count);
    root.query_drop(format!("{how} {}", raw.conn)).expect("an answer");
}

/// Two sessions change the same rows in different orders; the one that has changed less is chosen.
fn deadlock(root: &mut Conn, raw: &mut Raw, other: &mut Raw) {
    raw.must(&["BEGIN", "UPDATE d.t SET v = 'one' WHERE id = 1"]);
    other.must(&["BEGIN", "UPDATE d.t SET v = 'two' WHERE id > 1"]);
    other.begin(com::QUERY, b"UPDATE d.t SET v = 'two' WHERE id = 1").expect("sending");
    wait_for(root, "it waits", "SELECT COUNT(*) FROM performance_schema.data_lock_waits");
    raw.query("UPDATE d.t SET v = 'one' WHERE id = 2").expect("an answer");
    other.finish(com::QUERY).expect("an answer");
    other.must(&["ROLLBACK"]);
}

#[test]
fn ends_by_force_and_files_have_their_lines() {
    let place = LogAndArenas::new("ends");
    let file = place.path().join("load.csv");
    fs::write(&file, "x\ny\n").expect("writing");
    let mut server = place.builder().option("secure-file-priv=").start().expect("a server");
    let mut root = server.connect().expect("a connection");
    root.query_drop(install()).expect("installing");
    for sql in SETUP {
        root.query_drop(sql).expect("an answer");
    }
    let session = || Raw::connect(server.socket(), "root").expect("a session");
    let (mut raw, mut gone, mut other) = (session(), session(), session());

    kill(&mut root, &mut raw, "KILL QUERY");
    raw.finish(com::QUERY).expect("an answer");
    raw.query(SLEEPS.replace("SELECT", "SELECT /*+ MAX_EXECUTION_TIME(1000) */"))
        .expect("an answer");
    raw.must(&["SET innodb_lock_wait_timeout = 1"]);
    other.must(&["BEGIN", "UPDATE d.t SET v = 'locked' WHERE id = 3"]);
    raw.query("UPDATE d.t SET v = 'wants' WHERE id = 3").expect("an answer");
    other.must(&["ROLLBACK"]);
    raw.must(&["SET innodb_lock_wait_timeout = 50"]);
    deadlock(&mut root, &mut raw, &mut other);
    raw.query(format!("LOAD DATA INFILE '{}' INTO TABLE d.l", file.display())).expect("an answer");
    raw.query("LOAD DATA INFILE '/nosuch' INTO TABLE d.l").expect("an answer");
    raw.query("LOAD DATA LOCAL INFILE '/proc/sys/kernel/ostype' INTO TABLE d.l")
        .expect("an answer");
    kill(&mut root, &mut gone, "KILL CONNECTION");
    for session in [&mut raw, &mut other] {
        session.command(com::QUIT, b"").expect("quitting");
    }
    for conn in [raw.conn, gone.conn, other.conn] {
        wait_for_end(&mut root, conn);
    }
    drop(root);
    let lines = place.end(&mut server);
    let briefs = |conn: u64| -> Vec<String> {
        let place = place.path().display().to_string();
        let lines: Vec<&Line> = recorded::of_conn(&lines, conn);
        lines.into_iter().map(|line| recorded::brief(line).replace(&place, "")).collect()
    };
    let found = briefs(raw.conn);
    assert_eq!(found, EXPECTED, "{}", found.join("\n"));
    let found = briefs(gone.conn);
    assert_eq!(found, EXPECTED_OF_KILLED, "{}", found.join("\n"));
}

const EXPECTED: &[&str] = &[
    "connect ok",
    r#"Query select error 1317/70100 "SELECT * FROM d.t WHERE SLEEP(100)" sent=0 examined=1 lock"#,
    r#"Query select error 3024/HY000 "SELECT /*+ MAX_EXECUTION_TIME(1000) */ * FROM d.t WHERE SLEEP(100)" sent=0 examined=1 lock"#,
    r#"Query set_option ok "SET innodb_lock_wait_timeout = 1" sent=0 examined=0 affected=0 lock"#,
    r#"Query update error 1205/HY000 "UPDATE d.t SET v = 'wants' WHERE id = 3" sent=0 examined=0 lock"#,
    r#"Query set_option ok "SET innodb_lock_wait_timeout = 50" sent=0 examined=0 affected=0 lock"#,
    r#"Query begin ok "BEGIN" sent=0 examined=0 affected=0 lock"#,
    r#"Query update ok "UPDATE d.t SET v = 'one' WHERE id = 1" sent=0 examined=1 affected=1 lock"#,
    r#"Query update error 1213/40001 "UPDATE d.t SET v = 'one' WHERE id = 2" sent=0 examined=0 lock"#,
    r#"Query load ok "LOAD DATA INFILE '/load.csv' INTO TABLE d.l" sent=0 examined=0 affected=2 lock"#,
    r#"Query load error 13/HY000 "LOAD DATA INFILE '/nosuch' INTO TABLE d.l" sent=0 examined=0 lock"#,
    r#"Query load ok "LOAD DATA LOCAL INFILE '/proc/sys/kernel/ostype' INTO TABLE d.l" sent=0 examined=0 affected=1 lock"#,
    "Quit ok",
    "disconnect",
];

const EXPECTED_OF_KILLED: &[&str] = &[
    "connect ok",
    r#"Query select error 1317/70100 "SELECT * FROM d.t WHERE SLEEP(100)" sent=0 examined=1 lock"#,
    "disconnect",
];
