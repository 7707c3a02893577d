//! A server that records, and whose packets are captured: both logs have the same statements,
//! except for the differences that `docs/guide/capture.md` lists.
//!
//! The server, its clients and the capture run in a network namespace, where the capture may open
//! its socket.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tacho_sandbox::client::{Address, Login};
use tacho_tests::client::Queryable as _;
use tacho_tests::recording::Recording;
use tacho_tests::sysbench::Sysbench;
use tacho_tests::{build_directory, log, unused_directory, wait};

/// Set in the process in the namespace.
const INSIDE: &str = "TACHO_TEST_NAMESPACE";

#[test]
fn the_capture_records_what_the_plugin_records() {
    if std::env::var_os(INSIDE).is_some() {
        return inside();
    }
    let output = Command::new("unshare")
        .args(["--user", "--net", "--map-user=1000", "--map-group=1000", "--keep-caps"])
        .arg(std::env::current_exe().expect("this program"))
        .args(["--exact", "capture::the_capture_records_what_the_plugin_records", "--nocapture"])
        .env(INSIDE, "1")
        .output()
        .expect("unshare");
    let text = String::from_utf8_lossy(&output.stdout);
    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("unshare failed") {
        tacho_tests::without_namespaces("captured sessions are not compared with the plugin's");
        return;
    }
    assert!(output.status.success() && text.contains("1 passed"), "{text}\n{said}");
}

/// `tacho capture` on lo.
struct Capture(Child);

impl Capture {
    fn start(port: u16, directory: &Path) -> Capture {
        let mut child = Command::new(build_directory().join("bin/tacho"))
            .args(["capture", "--interface", "lo", "--server", &format!("127.0.0.1:{port}")])
            .args(["--utc", "--log", directory.join("log").to_str().expect("a name")])
            .stderr(Stdio::piped())
            .spawn()
            .expect("the command is built");
        let mut said = BufReader::new(child.stderr.take().expect("a pipe")).lines();
        assert!(said.any(|line| line.expect("text").contains("capturing on lo")), "it ended");
        Capture(child)
    }

    fn stop(mut self) {
        let id = Pid::from_child(&self.0);
        kill_process(id, Signal::TERM).expect("a signal");
        assert!(self.0.wait().expect("its end").success());
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        // Already reaped, unless the test has failed.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The address of all clients.
const CLIENT: &str = "127.0.0.1";

/// Statements for the client `mariadb`. Errors are part of it.
const SCRIPT: &str = "
    SELECT 1, 'two', NULL;
    SELECT * FROM seq_1_to_300;
    CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(9000)) ENGINE=InnoDB;
    INSERT INTO t (v) VALUES ('a'), ('b'), ('c');
    UPDATE t SET v = 'changed' WHERE id < 3;
    UPDATE t SET v = 'changed' WHERE id < 3;
    DELETE FROM t WHERE id = 9999;
    REPLACE INTO t VALUES (1, 'replaced');
    SELECT nosuch FROM t;
    SELEKT;
    INSERT INTO t VALUES (1, 'double');
    SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'own', MYSQL_ERRNO = 4711;
    BEGIN;
    SELECT v FROM t /* in a comment */ FOR UPDATE;
    ROLLBACK;
    SET NAMES latin1;
    SELECT 'ä';
    SET NAMES utf8mb4;
    SELECT 'ä€😀';
    CREATE DATABASE other;
    USE other;
    CREATE TABLE t AS SELECT 1 AS one UNION SELECT 2;
    SELECT * FROM t;
    USE nosuch;
    DROP DATABASE other;
    SELECT 'no database any more';
    USE shop;
    SET @a = 5, @b = @a;
    SELECT REPEAT('x', 70000);
    SHOW TABLES;
    EXPLAIN SELECT * FROM t;
    ANALYZE TABLE t;
    CALL p(3);
    CREATE USER u IDENTIFIED BY 'a secret';
    SET PASSWORD FOR u = PASSWORD('another secret');
    DROP USER u;
    KILL 4000000;
    DO 1;
";

fn run_client(port: u16, user: &str, password: &str, args: &[&str], script: &str) -> bool {
    let mut child = Command::new("mariadb")
        .args(["--no-defaults", "--protocol=tcp", "--host=127.0.0.1", "--force"])
        .arg(format!("--port={port}"))
        .args([format!("--user={user}"), format!("--password={password}")])
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the client mariadb");
    child.stdin.take().expect("a pipe").write_all(script.as_bytes()).expect("a script");
    child.wait().expect("its end").success()
}

fn run_sysbench(port: u16, mode: &str) {
    let login = Login {
        address: Address::Tcp("127.0.0.1".to_owned(), port),
        user: "app".to_owned(),
        password: String::new(),
    };
    let load = Sysbench::on(&login, "sbtest", "oltp_read_write")
        .tables(1, 100)
        .threads(3)
        .option("--mysql-password=right")
        .option("--events=60")
        .option(&format!("--db-ps-mode={mode}"));
    // 0: as many events as that, however long it takes.
    let status = load.seconds(0).command("run").status().expect("sysbench");
    assert!(status.success(), "sysbench, {mode}");
}

/// Fields that both logs must have alike.
const FIELDS: [&str; 13] = [
    "event",
    "user",
    "db",
    "command",
    "sql",
    "sql_b64",
    "sql_charset",
    "outcome",
    "errno",
    "sqlstate",
    "error",
    "rows_sent",
    "rows_affected",
];

/// Whether the guide lists a difference ("Compared with the plugin").
fn is_explained(field: &str, plugin: &Value, captured: &Value) -> bool {
    let is = |name: &str, value: &str| captured[name] == value;
    match field {
        "sqlstate" | "db" if is("event", "connect_failed") => plugin[field].is_null(),
        // Of a connection whose login was refused: no other has a database that does not exist.
        "db" if is("event", "disconnect") => plugin["db"].is_null() && is("db", "nosuch"),
        "db" => is("command", "Init DB") && plugin["db"] == captured["sql"],
        "sql" | "sql_charset" => {
            is("command", "Init DB") && is("outcome", "error") && plugin[field].is_null()
        }
        "rows_sent" => is("sql", "ANALYZE TABLE t") && plugin[field] == 0,
        _ => false,
    }
}

/// The lines of each connection over TCP, in their order.
fn sessions(directory: &Path) -> BTreeMap<u64, Vec<Value>> {
    const EVENTS: [&str; 5] =
        ["statement", "connect", "connect_failed", "change_user", "disconnect"];
    let mut sessions = BTreeMap::<u64, Vec<Value>>::new();
    log::read(directory, |_, text| {
        let line = serde_json::from_str::<Value>(text).expect("JSON");
        assert_ne!(line["event"], "lost", "{line}");
        let is_session = EVENTS.iter().any(|event| line["event"] == *event);
        if let Some(conn) = line["conn"].as_u64().filter(|_| is_session && line["ip"] == CLIENT) {
            sessions.entry(conn).or_default().push(line);
        }
    })
    .expect("a readable log");
    sessions
}

fn ended(directory: &Path) -> usize {
    let mut count = 0;
    let read = log::read(directory, |_, text| {
        count += usize::from(text.contains(r#""event":"disconnect""#) && text.contains(CLIENT));
    });
    read.map_or(0, |_| count)
}

fn inside() {
    let up = Command::new("ip").args(["link", "set", "lo", "up"]).status().expect("ip");
    assert!(up.success());
    let server = Recording::builder().option("skip-ssl");
    let server = server.option("max-allowed-packet=64M").start().expect("a server");
    let mut root = server.connect().expect("a connection");
    for statement in [
        "CREATE DATABASE shop",
        "CREATE DATABASE sbtest",
        "CREATE USER app@'127.0.0.1' IDENTIFIED BY 'right'",
        "GRANT ALL ON *.* TO app@'127.0.0.1' WITH GRANT OPTION",
        "CREATE PROCEDURE shop.p(n INT) SELECT n, n + 1",
    ] {
        root.query_drop(statement).expect(statement);
    }
    let port = server.port();
    Sysbench::new(server.socket(), "oltp_read_write").tables(1, 100).fill().expect("tables");
    let directory = unused_directory("capture");
    std::fs::create_dir_all(&directory).expect("a directory");
    let capture = Capture::start(port, &directory);
    run_client(port, "app", "right", &["shop"], SCRIPT);
    run_client(port, "app", "right", &["--compress"], "USE shop; SELECT REPEAT('y', 90000);");
    let long = format!("SELECT LENGTH('{}');", "z".repeat((16 << 20) + 1));
    assert!(run_client(port, "app", "right", &["--max-allowed-packet=64M"], &long));
    assert!(!run_client(port, "app", "wrong", &[], "SELECT 'not sent'"));
    assert!(!run_client(port, "app", "right", &["nosuch"], "SELECT 'not sent'"));
    run_sysbench(port, "disable");
    run_sysbench(port, "auto");
    drop(root);
    let (plugin, captured) = (server.log_directory(), directory.join("log"));
    // The failed logins have no end of their own.
    const SESSIONS: usize = 3 + 2 * 4;
    wait::until("both have recorded the end of all sessions", || {
        ended(&plugin) >= SESSIONS && ended(&captured) >= SESSIONS
    });
    capture.stop();
    let (plugin, captured) = (sessions(&plugin), sessions(&captured));
    compare(&plugin, &captured);
    let statements = captured.values().flatten().filter(|line| line["event"] == "statement");
    assert!(statements.count() > 2_000);
    std::fs::remove_dir_all(&directory).expect("removing the log");
}

fn compare(plugin: &BTreeMap<u64, Vec<Value>>, captured: &BTreeMap<u64, Vec<Value>>) {
    let mut differences = Vec::new();
    for conn in plugin.keys().chain(captured.keys()).collect::<BTreeSet<_>>() {
        let none = Vec::new();
        let one = plugin.get(conn).unwrap_or(&none);
        let other = captured.get(conn).unwrap_or(&none);
        if one.len() != other.len() {
            differences.push(format!("{conn}: {} and {} lines", one.len(), other.len()));
        }
        for (one, other) in one.iter().zip(other) {
            let differs =
                |field: &&str| one[*field] != other[*field] && !is_explained(field, one, other);
            if let Some(field) = FIELDS.into_iter().find(|field| differs(field)) {
                differences.push(format!("{field}:\nplugin  {one}\ncapture {other}"));
            }
        }
    }
    let shown = differences.iter().take(20).map(String::as_str).collect::<Vec<_>>();
    assert!(differences.is_empty(), "{} differences:\n{}", differences.len(), shown.join("\n"));
}
