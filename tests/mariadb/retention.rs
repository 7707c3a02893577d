//! Zone: outside. Retention on a real server: under load, through `kill -9`, and by age.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use tacho_chain::key::VerifierKey;
use tacho_chain::verify::LogState;
use tacho_tests::client::{Conn, Queryable as _};
use tacho_tests::log::{bytes, file_names};
use tacho_tests::sealed::{assert_state, check};
use tacho_tests::server::TestServer;
use tacho_tests::wait;

fn text(conn: &mut Conn, sql: &str) -> String {
    let row: Option<(String, String)> = conn.query_first(sql).expect("an answer");
    row.expect("a row").1
}

fn number(conn: &mut Conn, name: &str) -> u64 {
    text(conn, &format!("SHOW GLOBAL STATUS LIKE '{name}'")).parse().expect("a number")
}

fn log_of(conn: &mut Conn) -> PathBuf {
    PathBuf::from(text(conn, "SHOW VARIABLES LIKE 'tacho_directory'"))
}

/// Names of the log files, oldest first.
fn names(log: &Path) -> BTreeSet<String> {
    file_names(log, ".jsonl")
}

/// The files that the log reports as removed, and the numbers of its lines.
fn told(log: &Path) -> (Vec<String>, Vec<u64>) {
    let (mut removed, mut seqs) = (Vec::new(), Vec::new());
    for name in names(log) {
        for line in fs::read_to_string(log.join(name)).expect("a text").lines() {
            let rest = line.strip_prefix("{\"v\":1,\"seq\":").expect("a record");
            seqs.push(rest.split(',').next().expect("a number").parse().expect("a number"));
            if let Some((_, rest)) =
                line.split_once("\"variable\":\"file_removed\",\"old_value\":\"")
            {
                removed.push(rest.split('"').next().expect("its end").to_owned());
            }
        }
    }
    (removed, seqs)
}

fn key_of(server: &TestServer) -> VerifierKey {
    let log = server.error_log();
    let (_, rest) = log.split_once("its public key").expect("a message with the key");
    let (_, rest) = rest.split_once(" is ").expect("the key");
    rest.split_whitespace().next().expect("the key").parse().expect("a public key")
}

#[test]
fn files_removed_by_size_under_load_have_a_tombstone_and_a_line() {
    let mut server = TestServer::builder()
        .option("plugin-load-add=tacho")
        .option("loose-tacho-rotate-bytes=20000")
        .option("loose-tacho-retention-bytes=100000")
        .start()
        .expect("a server");
    for round in 0..2 {
        let mut conn = server.connect().expect("a connection");
        for number in 0..1500 {
            conn.query_drop(format!("SELECT {number}, '{}'", "x".repeat(200))).expect("an answer");
        }
        wait::until("files were removed", || number(&mut conn, "Tacho_files_removed") > 10);
        assert!(round > 0 || number(&mut conn, "Tacho_write_errors") == 0);
        if round == 0 {
            server.kill9().expect("killed");
            server.restart().expect("started again");
        }
    }
    let mut conn = server.connect().expect("a connection");
    let log = log_of(&mut conn);
    let key = key_of(&server);
    // Read while files are created and removed.
    let report = check(&log, &key);
    assert!(report.state() <= LogState::UnsignedTail, "{report:?}");
    wait::until("there is not more than may be", || bytes(&log) <= 100_000);
    conn.query_drop("SET GLOBAL tacho_retention_bytes = 0").expect("an answer");
    wait::until("the change is recorded", || {
        let newest = names(&log).pop_last().expect("a file");
        fs::read_to_string(log.join(newest)).expect("a text").contains("tacho_retention_bytes")
    });
    drop(conn);
    server.stop().expect("stopped");

    let report = check(&log, &key);
    assert_state(&report, LogState::Ok);
    assert!(report.removed_files > 20, "{report:?}");
    let (removed, seqs) = told(&log);
    assert!(seqs.windows(2).all(|pair| pair[1] == pair[0] + 1), "a line is missing or double");
    assert_eq!(report.last_seq, *seqs.last().expect("lines"));
    let left = names(&log);
    let oldest = left.first().expect("a file");
    // The lines about the first removals are in files that were removed later.
    assert!(!removed.is_empty() && removed.iter().all(|name| name < oldest), "{removed:?}");
    assert!(left.len() < 10, "{left:?}");
    let sidecars = fs::read_dir(&log).expect("the log").filter(|entry| {
        let name = entry.as_ref().expect("an entry").file_name();
        name.to_string_lossy().starts_with("audit-") && name.to_string_lossy().ends_with(".chain")
    });
    assert_eq!(sidecars.count(), left.len());
}

#[test]
fn files_that_are_too_old_are_removed_slowly_until_requested() {
    // A log that is much older than the server.
    let log = tacho_tests::unused_directory("retention-age");
    fs::create_dir_all(&log).expect("made");
    for seq in 1..=6 {
        let name = format!("audit-2020010{seq}T000000Z-{seq:06}.jsonl");
        let line = format!("{{\"v\":1,\"seq\":{seq},\"event\":\"statement\"}}\n");
        let path = log.join(name);
        fs::write(&path, line).expect("written");
        let file = fs::File::options().append(true).open(path).expect("a file");
        file.set_modified(UNIX_EPOCH + Duration::from_secs(1_577_840_000)).expect("an old one");
    }
    let mut server = TestServer::builder()
        .option("plugin-load-add=tacho")
        .option(format!("loose-tacho-directory={}", log.display()))
        .start()
        .expect("a server");
    let mut conn = server.connect().expect("a connection");
    // Not in the first hour.
    wait::until("it says why none goes", || server.error_log().contains("is the clock right?"));
    assert_eq!(number(&mut conn, "Tacho_files_removed"), 0);
    conn.query_drop("SET GLOBAL tacho_retention_days = 183").expect("an answer");
    // The sixth has ended when the server began the next one.
    wait::until("the others were removed", || number(&mut conn, "Tacho_files_removed") == 5);
    drop(conn);
    server.stop().expect("stopped");
    let (removed, seqs) = told(&log);
    // The same number as before: it changes nothing except which files are removed.
    let newest = names(&log).pop_last().expect("a file");
    let text = fs::read_to_string(log.join(newest)).expect("a text");
    assert!(text.contains(
        "\"variable\":\"tacho_retention_days\",\"old_value\":\"183\",\"new_value\":\"183\""
    ));
    let days: Vec<&str> = removed.iter().map(|name| &name[..14]).collect();
    assert_eq!(
        days,
        ["audit-20200101", "audit-20200102", "audit-20200103", "audit-20200104", "audit-20200105"]
    );
    assert!(seqs[0] == 6 && seqs.windows(2).all(|pair| pair[1] == pair[0] + 1), "{seqs:?}");
    drop(server);
    fs::remove_dir_all(&log).expect("removed");
}
