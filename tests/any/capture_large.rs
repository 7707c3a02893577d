//! Zone: outside. Statements that are too large for the memory of a capture: their texts come from
//! files, and are those of the plugin.

use std::fs;

use tacho_tests::captured::{Capture, assert_same, counter, sessions, wait_for_ends};
use tacho_tests::captured_load::large_statement;
use tacho_tests::client::Queryable as _;
use tacho_tests::command_line::CommandLine;
use tacho_tests::recording::Recording;
use tacho_tests::{namespace, unused_directory};

const GUEST: (&str, &str) = ("guest", "");

/// The capture holds no more memory than before, and leaves no files.
#[test]
fn large_statements_are_recorded_as_a_whole() {
    let test = "capture_large::large_statements_are_recorded_as_a_whole";
    if !namespace::enter(test, "large statements in a capture are not compared with the plugin's") {
        return;
    }
    let server = Recording::builder().option("max-allowed-packet=1G").start().expect("a server");
    let mut root = server.connect().expect("a connection");
    root.query_drop("CREATE USER guest@'127.0.0.1'").expect("an account");
    let directory = unused_directory("capture-large");
    // Other tests run at the same time: what waits for a processor must fit into memory.
    let options = ["--ring-size", "512MiB"];
    let mut capture = Capture::start_with(server.port(), &directory, &options).expect("a capture");
    let client = CommandLine::of(&server);
    let options = ["--max-allowed-packet=1G"];
    assert!(client.run(GUEST, &options, &(large_statement(70 << 20) + "SELECT 'after';")));
    let packed = ["--max-allowed-packet=1G", "--compress"];
    assert!(client.run(GUEST, &packed, &(large_statement(20 << 20) + "DO 1;")));
    wait_for_ends(&server.log_directory(), capture.log(), 2);
    capture.stop().expect("its end");
    let captured = sessions(capture.log());
    assert_same(&sessions(&server.log_directory()), &captured);
    let texts = captured.values().flatten().filter_map(|line| line["sql"].as_str());
    let large = texts.map(str::len).filter(|bytes| *bytes > 16 << 20).collect::<Vec<_>>();
    assert_eq!(large, [(70 << 20) + 17, (20 << 20) + 17]);
    let names = fs::read_dir(capture.log()).expect("the log").map(|it| it.expect("a name"));
    let names = names.map(|it| it.file_name().to_string_lossy().into_owned());
    let others = names.filter(|name| !name.starts_with("audit-") && !name.starts_with('.'));
    assert_eq!(others.collect::<Vec<_>>(), ["removed.chain"]);
    assert_eq!(counter(&directory, "held_bytes"), Some(0));
    fs::remove_dir_all(&directory).expect("removing the log");
}
