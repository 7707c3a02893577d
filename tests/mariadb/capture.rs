//! A server that records, and whose packets are captured: both logs have the same statements,
//! except for the differences that `docs/guide/capture.md` lists.
//!
//! The server, its clients and the capture run in a network namespace, where the capture may open
//! its socket.

use std::process::Command;

use tacho_tests::captured::{Capture, PacketFile, assert_same, sessions, wait_for_ends};
use tacho_tests::captured_load::{
    APP, SYSBENCH_SESSIONS, large_statement, prepare, run_sysbench, script,
};
use tacho_tests::charsets;
use tacho_tests::command_line::CommandLine;
use tacho_tests::recording::Recording;
use tacho_tests::{namespace, program, source_root, unused_directory};

/// How this server changes a password.
const SET_PASSWORD: &str = "SET PASSWORD FOR u = PASSWORD('another secret')";

/// A server with what the script needs.
fn start_server() -> Recording {
    let server = Recording::builder().option("skip-ssl");
    let server = server.option("max-allowed-packet=64M").start().expect("a server");
    let mut root = server.connect().expect("a connection");
    prepare(&mut root, server.socket()).expect("accounts and tables");
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
    client.run(APP, &["shop"], &script(SET_PASSWORD));
    client.run(APP, &["--compress"], "USE shop; SELECT REPEAT('y', 90000);");
    let large = large_statement((16 << 20) + 1);
    assert!(client.run(APP, &["--max-allowed-packet=64M"], &large));
    assert!(!client.run(("app", "wrong"), &[], "SELECT 'not sent'"));
    assert!(!client.run(APP, &["nosuch"], "SELECT 'not sent'"));
    run_sysbench(port, "disable");
    run_sysbench(port, "auto");
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
    client.run(APP, &["shop"], &script(SET_PASSWORD));
    // One of 16 MiB takes tshark many minutes.
    assert!(client.run(APP, &[], &large_statement(100_000)));
    run_sysbench(port, "disable");
    run_sysbench(port, "auto");
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
