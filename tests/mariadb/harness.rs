//! Zone: outside. The harness itself, compared with the general query log: the server's own record,
//! so these tests verify the tagging client. That log has no failed Prepare, so these are excluded.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;

use tacho_tests::client::{self, Queryable};
use tacho_tests::server::TestServer;
use tacho_tests::sysbench::Sysbench;
use tacho_tests::tagged::{self, Command, Load, Tag};
use tacho_tests::verdict::{TagCounts, Verdict};

/// A session that a killed client or server leaves is expected.
const ALLOWED: &[&str] = &["max_open_files", "Aborted connection"];

/// Statements of the general log as (connection, command, text), text over several lines joined.
fn general_log(path: &Path) -> Vec<(u64, String, String)> {
    let text = String::from_utf8_lossy(&fs::read(path).expect("the general log")).into_owned();
    let mut entries: Vec<(u64, String, String)> = Vec::new();
    for line in text.lines() {
        // "<time or nothing>\t<blanks><connection> <command>\t<text>"
        let fields = line.trim_start_matches('\t');
        let fields = match fields.split_once('\t') {
            // A line that starts with a time has it before the first tab.
            Some((time, rest)) if time.contains(':') && rest.contains('\t') => rest,
            _ => fields,
        };
        let entry = fields.split_once('\t').and_then(|(head, text)| {
            let (conn, command) = head.trim_start().split_once(' ')?;
            Some((conn.parse().ok()?, command.trim().to_owned(), text.to_owned()))
        });
        match (entry, entries.last_mut()) {
            (Some(entry), _) => entries.push(entry),
            (None, Some((_, _, text))) => {
                text.push('\n');
                text.push_str(line);
            }
            (None, None) => {}
        }
    }
    entries
}

fn count_tags(path: &Path, run: &str) -> TagCounts {
    let mut counts = TagCounts::new();
    for (_, command, text) in general_log(path) {
        let Some(command) = Command::from_name(&command) else { continue };
        if let Some(id) = tagged::find_id(&text, run) {
            *counts.entry(Tag { id: id.to_owned(), command }).or_default() += 1;
        }
    }
    counts
}

#[test]
fn a_server_starts_stops_and_starts_again() {
    let mut server = TestServer::builder().option("max_connections=77").start().expect("a server");
    let mut conn = server.connect().expect("a connection");
    assert_eq!(client::variable(&mut conn, "max_connections").expect("a variable"), "77");
    conn.query_drop("CREATE DATABASE kept").expect("creating");
    drop(conn);
    server.stop().expect("stopping");
    assert!(server.connect().is_err(), "a stopped server answers");
    assert!(server.stop().is_err(), "stopping twice is not an error");
    server.add_option("max_connections=78");
    server.restart().expect("restarting");
    let mut conn = server.connect().expect("a connection");
    assert_eq!(client::variable(&mut conn, "max_connections").expect("a variable"), "78");
    let kept: Option<String> = conn.query_first("SHOW DATABASES LIKE 'kept'").expect("asking");
    assert_eq!(kept.as_deref(), Some("kept"));
    server.assert_clean_log(ALLOWED);
}

#[test]
fn servers_run_side_by_side_and_clean_up() {
    let one = TestServer::builder().start().expect("a server");
    let two = TestServer::builder().start().expect("another server");
    assert_ne!(one.port(), two.port());
    one.connect().expect("a connection").query_drop("CREATE DATABASE one").expect("creating");
    let mut conn = two.connect().expect("a connection");
    let seen: Option<String> = conn.query_first("SHOW DATABASES LIKE 'one'").expect("asking");
    assert_eq!(seen, None);
    let directory = two.directory().to_owned();
    drop(two);
    assert!(!directory.exists(), "{} is left", directory.display());
}

#[test]
fn a_server_that_cannot_start_says_why() {
    let result = TestServer::builder().option("no-such-option-at-all=1").start();
    let message = format!("{:#}", result.expect_err("it started"));
    assert!(message.contains("no-such-option-at-all"), "{message}");
}

#[test]
fn the_tagging_client_agrees_with_the_server() {
    let mut server = TestServer::builder().option("general-log=1").start().expect("a server");
    tagged::prepare(&mut server.connect().expect("a connection"), 4).expect("preparing");
    let ids = server.directory().join("ids");
    let load = Load {
        acknowledged_file: Some(ids.clone()),
        failing_prepares: false,
        ..Load::new(server.socket(), "calm")
    };
    let running = load.start().expect("a load");
    while running.acknowledged_count() < 2000 {
        thread::sleep(Duration::from_millis(10));
    }
    let tally = running.stop().expect("a tally");
    server.stop().expect("stopping");

    assert!(tally.in_flight.is_empty(), "in flight after an orderly end: {:?}", tally.in_flight);
    assert!(tally.error_count > 0 && tally.connect_count == 4);
    let general_log = fs::read_dir(server.data_directory())
        .expect("the data directory")
        .map(|entry| entry.expect("an entry").path())
        .find(|path| path.extension().is_some_and(|extension| extension == "log"))
        .expect("a general log");
    let verdict = Verdict::new(&tally, &count_tags(&general_log, "calm"));
    assert!(verdict.is_good(), "{verdict}");

    // The file agrees with the memory.
    let mut lines: Vec<String> =
        fs::read_to_string(ids).expect("the ids").lines().map(str::to_owned).collect();
    let mut tags: Vec<String> =
        tally.acknowledged.iter().map(|tag| format!("{} {:?}", tag.id, tag.command)).collect();
    lines.sort();
    tags.sort();
    assert_eq!(lines, tags);
}

#[test]
fn the_tagging_client_survives_kills_of_the_server() {
    let mut server = TestServer::builder()
        .option("general-log=1")
        .option("general-log-file=general.log")
        .start()
        .expect("a server");
    tagged::prepare(&mut server.connect().expect("a connection"), 4).expect("preparing");
    let load = Load { failing_prepares: false, ..Load::new(server.socket(), "wild") };
    let running = load.start().expect("a load");
    for _ in 0..3 {
        running.wait_for_more(500);
        server.kill9().expect("killing");
        server.restart().expect("restarting");
    }
    running.wait_for_more(200);
    let tally = running.stop().expect("a tally");
    assert!(tally.connect_count > 4, "no thread had to reconnect");
    assert!(tally.in_flight.len() <= 4 * 3, "more in flight than connections were cut");
    let mut verdict =
        Verdict::new(&tally, &count_tags(&server.data_directory().join("general.log"), "wild"));
    // The witness is weaker than the client here: the server answers a Prepare first and then
    // writes it to the general log, so each cut connection may have one that it lacks.
    let late = verdict.missing.extract_if(.., |tag| tag.command == Command::Prepare).count();
    assert!(late <= 4 * 3, "{late} prepared statements are missing");
    assert!(verdict.is_good(), "{verdict}");
}

#[test]
fn a_verdict_notices_a_statement_that_the_log_lacks() {
    let server = TestServer::builder()
        .option("general-log=1")
        .option("general-log-file=general.log")
        .start()
        .expect("a server");
    let mut conn = server.connect().expect("a connection");
    tagged::prepare(&mut conn, 2).expect("preparing");
    let running = Load { threads: 2, failing_prepares: false, ..Load::new(server.socket(), "gap") }
        .start()
        .expect("a load");
    running.wait_for_more(200);
    conn.query_drop("SET GLOBAL general_log=OFF").expect("switching off");
    running.wait_for_more(200);
    let tally = running.stop().expect("a tally");
    let verdict =
        Verdict::new(&tally, &count_tags(&server.data_directory().join("general.log"), "gap"));
    assert!(verdict.missing.len() >= 200, "{verdict}");
    assert!(verdict.duplicate.is_empty() && verdict.unknown.is_empty(), "{verdict}");
}

#[test]
fn sysbench_agrees_with_the_server() {
    let mut server = TestServer::builder()
        .option("general-log=1")
        .option("general-log-file=general.log")
        .start()
        .expect("a server");
    let load = Sysbench::new(server.socket(), "oltp_read_write")
        .user("load")
        .tables(2, 500)
        .threads(8)
        .seconds(3);
    load.prepare(&mut server.connect().expect("a connection")).expect("preparing");
    let mut seconds = 0;
    let report = load.run(|_| seconds += 1).expect("a run");
    server.stop().expect("stopping");
    assert!(seconds > 0 && report.transactions > 0);
    assert_eq!(report.reconnects, 0);

    let log = general_log(&server.data_directory().join("general.log"));
    let is_ours = |(_, command, text): &&(u64, String, String)| {
        command == "Connect" && text.starts_with("load@")
    };
    let ours: Vec<u64> = log.iter().filter(is_ours).map(|(conn, _, _)| *conn).collect();
    let count = log
        .iter()
        .filter(|(conn, command, _)| {
            ours.contains(conn) && (command == "Execute" || command == "Query")
        })
        .count();
    assert_eq!(count as u64, report.answered());
}
