//! A server that records, and whose packets are captured: both logs have the same statements,
//! except for the differences that `docs/guide/capture.md` lists.
//!
//! The server, its clients and the capture run in a network namespace, where the capture may open
//! its socket.

use std::process::Command;

use tacho_tests::captured::{
    Capture, PacketFile, SYSBENCH_SESSIONS, assert_same, run_sysbench, sessions, wait_for_ends,
};
use tacho_tests::charsets;
use tacho_tests::client::Queryable as _;
use tacho_tests::command_line::CommandLine;
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

const APP: (&str, &str) = ("app", "right");

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
    let client = CommandLine::of(&server);
    client.run(APP, &["shop"], SCRIPT);
    client.run(APP, &["--compress"], "USE shop; SELECT REPEAT('y', 90000);");
    let long = format!("SELECT LENGTH('{}');", "z".repeat((16 << 20) + 1));
    assert!(client.run(APP, &["--max-allowed-packet=64M"], &long));
    assert!(!client.run(("app", "wrong"), &[], "SELECT 'not sent'"));
    assert!(!client.run(APP, &["nosuch"], "SELECT 'not sent'"));
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
    let client = CommandLine::of(&server);
    client.run(APP, &["shop"], SCRIPT);
    // One of 16 MiB takes tshark many minutes.
    let long = format!("SELECT LENGTH('{}');", "z".repeat(100_000));
    assert!(client.run(APP, &[], &long));
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
