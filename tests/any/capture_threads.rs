//! Zone: outside. A capture with several threads. Both directions of a connection, and all of it,
//! are in one thread: otherwise statements would be missing, or have no answer.

use std::fs;
use std::thread;

use tacho_tests::captured::{Capture, assert_same, metrics, sessions, wait_for_ends};
use tacho_tests::captured_load::{APP, SYSBENCH_SESSIONS, large_statement, prepare, run_sysbench};
use tacho_tests::client::Queryable as _;
use tacho_tests::command_line::CommandLine;
use tacho_tests::recording::Recording;
use tacho_tests::{namespace, unused_directory};

const CLIENTS: usize = 8;
const ROUNDS: usize = 6;
const THREADS: usize = 3;
/// Clients that also send a statement of more than one packet, which goes through a file.
const LARGE_CLIENTS: usize = 2;
const LARGE_BYTES: usize = 17 << 20;

/// What each of many sessions does at the same time as the others.
const SESSION: &str = "
    SELECT CONNECTION_ID(), 'two';
    WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < 300) SELECT n FROM s;
    SET NAMES latin1;
    SELECT 'ä';
    SELECT nosuch;
    USE shop;
    CALL p(3);
    SELECT REPEAT('x', 300000);
    INSERT INTO t (v) VALUES (REPEAT('y', 8000)), ('b');
    DO 1;
";

fn start_server() -> Recording {
    let server = Recording::builder().option("max-allowed-packet=64M").start().expect("a server");
    let mut root = server.connect().expect("a connection");
    prepare(&mut root, server.socket()).expect("accounts and tables");
    let table = "CREATE TABLE shop.t (id INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(9000))";
    root.query_drop(table).expect("a table");
    server
}

fn run_clients(client: &CommandLine) {
    let large = large_statement(LARGE_BYTES);
    thread::scope(|scope| {
        for number in 0..CLIENTS {
            let large = &large;
            scope.spawn(move || {
                let args: &[&str] = if number % 2 == 0 { &["--compress"] } else { &[] };
                for _ in 0..ROUNDS {
                    client.run(APP, args, SESSION);
                }
                if number < LARGE_CLIENTS {
                    let args = [args, &["--max-allowed-packet=64M"]].concat();
                    assert!(client.run(APP, &args, large));
                }
            });
        }
    });
}

#[test]
fn several_threads_record_what_the_plugin_records() {
    let test = "capture_threads::several_threads_record_what_the_plugin_records";
    if !namespace::enter(test, "threads of a capture are not compared with the plugin") {
        return;
    }
    let server = start_server();
    let port = server.port();
    let directory = unused_directory("capture-threads");
    // Other tests run at the same time: what waits for a processor must fit into the ring of one
    // thread.
    let options = ["--threads", &THREADS.to_string(), "--ring-size", "384MiB"];
    let mut capture = Capture::start_with(port, &directory, &options).expect("a capture");
    run_clients(&CommandLine::of(&server));
    run_sysbench(port, "disable");
    run_sysbench(port, "auto");
    let sessions_count = CLIENTS * ROUNDS + LARGE_CLIENTS + 2 * SYSBENCH_SESSIONS;
    wait_for_ends(&server.log_directory(), capture.log(), sessions_count);
    capture.stop().expect("its end");
    let captured = sessions(capture.log());
    assert_same(&sessions(&server.log_directory()), &captured);
    let lines = captured.values().flatten().collect::<Vec<_>>();
    assert!(lines.iter().filter(|line| line["event"] == "statement").count() > 2_000);
    assert!(lines.iter().all(|line| line["session"] != "partial"));
    let texts = lines.iter().filter_map(|line| line["sql"].as_str());
    assert_eq!(texts.filter(|text| text.len() > LARGE_BYTES).count(), LARGE_CLIENTS);
    // Each of the threads had a part of them.
    let text = fs::read_to_string(metrics(&directory)).expect("the counters");
    for thread in 0..THREADS {
        let name = format!("thread_packets_total{{interface=\"lo\",thread=\"{thread}\"}} ");
        let packets = text.lines().find_map(|line| line.split_once(&name)?.1.parse::<u64>().ok());
        assert!(packets > Some(100), "{name}: {text}");
    }
    fs::remove_dir_all(&directory).expect("removing the log");
}
