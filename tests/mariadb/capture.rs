//! A server that records, and whose packets are captured: both logs have the same statements,
//! except for the differences that `docs/guide/capture.md` lists.
//!
//! The server, its clients and the capture run in a network namespace, where the capture may open
//! its socket.

use std::process::Command;

use tacho_tests::captured::{
    Capture, PacketFile, SYSBENCH_SESSIONS, assert_same, run_script, run_sysbench, sessions,
    wait_for_ends,
};
use tacho_tests::charsets;
use tacho_tests::client::Queryable as _;
use tacho_tests::recording::Recording;
use tacho_tests::sysbench::Sysbench;
use tacho_tests::{namespace, program, source_root, unused_directory};

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
    let mut client = Command::new("mariadb");
    client
        .args(["--no-defaults", "--protocol=tcp", "--host=127.0.0.1", "--force"])
        .arg(format!("--port={port}"))
        .args([format!("--user={user}"), format!("--password={password}")])
        .args(args);
    run_script(&mut client, script)
}

/// A server with what the script needs.
fn start_server() -> Recording {
    let server = Recording::builder().option("skip-ssl");
    let server = server.option("max-allowed-packet=64M").start().expect("a server");
    let mut root = server.connect().expect("a connection");
    for statement in [
        "CREATE DATABASE shop",
        "CREATE DATABASE sbtest",
        "CREATE USER app@'127.0.0.1' IDENTIFIED BY 'right'",
        "GRANT ALL ON *.* TO app@'127.0.0.1' WITH GRANT OPTION",
        "CREATE USER guest@'127.0.0.1'",
        "CREATE PROCEDURE shop.p(n INT) SELECT n, n + 1",
    ] {
        root.query_drop(statement).expect(statement);
    }
    Sysbench::new(server.socket(), "oltp_read_write").tables(1, 100).fill().expect("tables");
    server
}

#[test]
fn the_capture_records_what_the_plugin_records() {
    let test = "capture::the_capture_records_what_the_plugin_records";
    if !namespace::enter(test, "captured sessions are not compared with the plugin's") {
        return;
    }
    let server = start_server();
    let port = server.port();
    let directory = unused_directory("capture");
    let mut capture = Capture::start(port, &directory).expect("a capture");
    run_client(port, "app", "right", &["shop"], SCRIPT);
    run_client(port, "app", "right", &["--compress"], "USE shop; SELECT REPEAT('y', 90000);");
    let long = format!("SELECT LENGTH('{}');", "z".repeat((16 << 20) + 1));
    assert!(run_client(port, "app", "right", &["--max-allowed-packet=64M"], &long));
    assert!(!run_client(port, "app", "wrong", &[], "SELECT 'not sent'"));
    assert!(!run_client(port, "app", "right", &["nosuch"], "SELECT 'not sent'"));
    run_sysbench(port, "app", "right", "disable");
    run_sysbench(port, "app", "right", "auto");
    let mut root = server.connect().expect("a connection");
    let of_charsets = charsets::send_all(&mut root, port, "guest");
    // Two of them are refused logins.
    let sessions_count = 3 + 2 + 2 * SYSBENCH_SESSIONS + of_charsets;
    wait_for_ends(&server.log_directory(), capture.log(), sessions_count);
    capture.stop().expect("its end");
    let captured = sessions(capture.log());
    assert_same(&sessions(&server.log_directory()), &captured);
    let statements = captured.values().flatten().filter(|line| line["event"] == "statement");
    assert!(statements.count() > 2_000);
    std::fs::remove_dir_all(&directory).expect("removing the log");
}

/// Statements that are too large for the memory of the capture: their texts come from files, and
/// are those of the plugin. The capture holds no more memory than before, and leaves no files.
#[test]
fn large_statements_are_recorded_as_a_whole() {
    let test = "capture::large_statements_are_recorded_as_a_whole";
    if !namespace::enter(test, "large statements in a capture are not compared with the plugin's") {
        return;
    }
    let server = Recording::builder().option("skip-ssl");
    let server = server.option("max-allowed-packet=1G").start().expect("a server");
    let mut root = server.connect().expect("a connection");
    root.query_drop("CREATE USER guest@'127.0.0.1'").expect("an account");
    let port = server.port();
    let directory = unused_directory("capture-large");
    let metrics = directory.join("metrics");
    // Other tests run at the same time: what waits for a processor must fit into memory.
    let options = ["--metrics-file", &metrics.to_string_lossy(), "--ring-size", "512MiB"];
    let mut capture = Capture::start_with(port, &directory, &options).expect("a capture");
    let large = |mib: usize| format!("SELECT LENGTH('{}');", "z\\'y".repeat(mib << 18));
    let options = ["--max-allowed-packet=1G"];
    assert!(run_client(port, "guest", "", &options, &(large(70) + "SELECT 'after';")));
    let packed = ["--max-allowed-packet=1G", "--compress"];
    assert!(run_client(port, "guest", "", &packed, &(large(20) + "DO 1;")));
    wait_for_ends(&server.log_directory(), capture.log(), 2);
    capture.stop().expect("its end");
    let captured = sessions(capture.log());
    assert_same(&sessions(&server.log_directory()), &captured);
    let texts = captured.values().flatten().filter_map(|line| line["sql"].as_str());
    let large = texts.map(str::len).filter(|bytes| *bytes > 16 << 20).collect::<Vec<_>>();
    assert_eq!(large, [(70 << 20) + 17, (20 << 20) + 17]);
    let names = std::fs::read_dir(capture.log()).expect("the log").map(|it| it.expect("a name"));
    let names = names.map(|it| it.file_name().to_string_lossy().into_owned());
    let others = names.filter(|name| !name.starts_with("audit-") && !name.starts_with('.'));
    assert_eq!(others.collect::<Vec<_>>(), ["removed.chain"]);
    let counted = std::fs::read_to_string(&metrics).expect("counters");
    assert!(counted.contains("tacho_capture_held_bytes{interface=\"lo\"} 0"), "{counted}");
    std::fs::remove_dir_all(&directory).expect("removing the log");
}

/// What each of many sessions does at the same time as the others.
const SESSION: &str = "
    SELECT CONNECTION_ID(), 'two';
    SELECT * FROM seq_1_to_300;
    SET NAMES latin1;
    SELECT 'ä';
    SELECT nosuch;
    USE shop;
    CALL p(3);
    SELECT REPEAT('x', 300000);
    INSERT INTO t (v) VALUES (REPEAT('y', 8000)), ('b');
    DO 1;
";

/// Both directions of a connection, and all of it, are in one thread: otherwise statements would
/// be missing, or have no answer.
#[test]
fn several_threads_record_what_the_plugin_records() {
    let test = "capture::several_threads_record_what_the_plugin_records";
    if !namespace::enter(test, "threads of a capture are not compared with the plugin") {
        return;
    }
    const CLIENTS: usize = 8;
    const ROUNDS: usize = 6;
    const THREADS: usize = 3;
    let server = start_server();
    let port = server.port();
    let mut root = server.connect().expect("a connection");
    let table = "CREATE TABLE shop.t (id INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(9000))";
    root.query_drop(table).expect(table);
    let directory = unused_directory("capture-threads");
    let metrics = directory.join("m.prom");
    let options = ["--threads", "3", "--metrics-file", metrics.to_str().expect("a path")];
    let mut capture = Capture::start_with(port, &directory, &options).expect("a capture");
    std::thread::scope(|scope| {
        for client in 0..CLIENTS {
            scope.spawn(move || {
                let args: &[&str] = if client % 2 == 0 { &["--compress"] } else { &[] };
                for _ in 0..ROUNDS {
                    run_client(port, "app", "right", args, SESSION);
                }
            });
        }
    });
    run_sysbench(port, "app", "right", "disable");
    run_sysbench(port, "app", "right", "auto");
    let sessions_count = CLIENTS * ROUNDS + 2 * SYSBENCH_SESSIONS;
    wait_for_ends(&server.log_directory(), capture.log(), sessions_count);
    capture.stop().expect("its end");
    let captured = sessions(capture.log());
    assert_same(&sessions(&server.log_directory()), &captured);
    let lines = captured.values().flatten().collect::<Vec<_>>();
    assert!(lines.iter().filter(|line| line["event"] == "statement").count() > 2_000);
    assert!(lines.iter().all(|line| line["session"] != "partial"));
    // Each of the threads had a part of them.
    let text = std::fs::read_to_string(&metrics).expect("the counters");
    for thread in 0..THREADS {
        let name = format!("thread_packets_total{{interface=\"lo\",thread=\"{thread}\"}} ");
        let packets = text.lines().find_map(|line| line.split_once(&name)?.1.parse::<u64>().ok());
        assert!(packets > Some(100), "{name}: {text}");
    }
    std::fs::remove_dir_all(&directory).expect("removing the log");
}

/// An implementation that shares nothing with ours.
#[test]
fn tshark_shows_the_commands_that_a_capture_records() {
    let test = "capture::tshark_shows_the_commands_that_a_capture_records";
    if !namespace::enter(test, "a capture is not compared with tshark") {
        return;
    }
    let server = start_server();
    let port = server.port();
    let directory = unused_directory("capture-tshark");
    let mut packets = PacketFile::start(port, &directory).expect("tcpdump");
    run_client(port, "app", "right", &["shop"], SCRIPT);
    // One of 16 MiB takes tshark many minutes.
    let long = format!("SELECT LENGTH('{}');", "z".repeat(100_000));
    assert!(run_client(port, "app", "right", &[], &long));
    run_sysbench(port, "app", "right", "disable");
    run_sysbench(port, "app", "right", "auto");
    let file = packets.stop_after(2 + 2 * SYSBENCH_SESSIONS).expect("its end");
    let output = Command::new(source_root().join("tests/clients/against_tshark.py"))
        .args(["--port", &port.to_string(), "--tacho"])
        .arg(program("tacho"))
        .arg(file)
        .output()
        .expect("against_tshark.py");
    let text = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&text));
    std::fs::remove_dir_all(&directory).expect("removing the packets");
}
