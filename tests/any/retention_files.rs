//! Zone: outside. `tacho_retention_files` on a real server: under load, against a flood of rotations, and
//! with the other limits. On each release: `scripts/test-release.sh`.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use tacho_chain::entry::RemovalReason;
use tacho_chain::verify::LogState;
use tacho_tests::client::{Conn, Queryable as _};
use tacho_tests::log::{bytes, file_names};
use tacho_tests::recorded::{self, text};
use tacho_tests::recording::Recording;
use tacho_tests::sealed::{assert_state, check, key_in};
use tacho_tests::{program, wait};

/// Names of the log files, oldest first.
fn names(log: &Path) -> BTreeSet<String> {
    file_names(log, ".jsonl")
}

/// The first log file as long as it is there.
fn first_text(log: &Path) -> String {
    fs::read_to_string(log.join(names(log).first().expect("a file"))).expect("a text")
}

/// Begins a new file on command, with a line in it.
fn rotate(server: &Recording, conn: &mut Conn) {
    let before = server.status_over(conn, "Tacho_current_file");
    server.set("tacho_rotate_now = 1");
    wait::until("there is another file", || {
        server.status_over(conn, "Tacho_current_file") != before
    });
}

fn removed(server: &Recording, conn: &mut Conn) -> u64 {
    server.number(conn, "Tacho_files_removed")
}

#[test]
fn as_many_closed_files_stay_under_load_as_are_set() {
    let mut server = Recording::builder()
        .option("tacho-rotate-bytes=20000")
        .option("tacho-retention-files=3")
        .start()
        .expect("a server");
    let log = server.log_directory();
    wait::until("there is a log", || log.exists() && !names(&log).is_empty());
    wait::until("it has begun", || first_text(&log).contains("signing_key"));
    let key = key_in(&log);
    let mut conn = server.connect().expect("a connection");
    for number in 0..1500 {
        conn.query_drop(format!("SELECT {number}, '{}'", "x".repeat(200))).expect("an answer");
    }
    wait::until("files were removed", || removed(&server, &mut conn) > 10);
    wait::until("no more are there than may be", || names(&log).len() <= 4);
    wait::until("as many as may be stay", || server.number(&mut conn, "Tacho_files") == 4);
    // Its change has a line with the user, and a higher limit removes nothing.
    server.set("tacho_retention_files = 100");
    let before = removed(&server, &mut conn);
    for number in 0..500 {
        conn.query_drop(format!("SELECT {number}, '{}'", "y".repeat(200))).expect("an answer");
    }
    wait::until("there are more", || server.number(&mut conn, "Tacho_files") > 6);
    assert_eq!(removed(&server, &mut conn), before);
    drop(conn);
    server.stop().expect("stopped");
    server.assert_clean_log(&[]);

    let report = check(&log, &key);
    assert_state(&report, LogState::Ok);
    assert_eq!(report.removed_files, before);
    assert_eq!(report.removed_by.get(&RemovalReason::Count), Some(&before));
    let mut command = Command::new(program("tacho"));
    let output = command.arg("verify").arg(&log).args(["--key", &key.to_string()]).output();
    let said = String::from_utf8(output.expect("the command is built").stdout).expect("UTF-8");
    let counted = format!("{before} files removed with a tombstone ({before} by count)");
    assert!(said.contains(&counted), "{said}");

    let lines: Vec<recorded::Line> = names(&log)
        .iter()
        .flat_map(|name| {
            let text = fs::read_to_string(log.join(name)).expect("a text");
            text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect::<Vec<_>>()
        })
        .collect();
    let config = |variable: &str| {
        let is_it = move |line: &&recorded::Line| text(line, "variable") == Some(variable);
        lines.iter().filter(is_it).collect::<Vec<_>>()
    };
    let told = config("file_removed");
    assert!(!told.is_empty() && told.iter().all(|line| text(line, "new_value") == Some("count")));
    let changed = config(&server.product.named("tacho_retention_files"));
    assert_eq!(changed.len(), 1, "{changed:?}");
    assert_eq!(
        (text(changed[0], "old_value"), text(changed[0], "user")),
        (Some("3"), Some("root"))
    );
}

/// An account cannot displace its earlier records by repeating an action: the files from before the
/// flood stay until full ones have replaced them.
#[test]
fn a_flood_of_rotations_does_not_displace_earlier_records() {
    let server = Recording::builder().option("tacho-retention-files=3").start().expect("a server");
    let log = server.log_directory();
    let mut conn = server.connect().expect("a connection");
    conn.query_drop("SELECT 'the evidence'").expect("an answer");
    wait::until("it is recorded", || {
        names(&log).first().is_some() && first_text(&log).contains("the evidence")
    });
    for _ in 0..8 {
        rotate(&server, &mut conn);
    }
    let told = server.product.named("more closed log files than tacho_retention_files=3");
    wait::until("it says why none goes", || server.error_log().contains(&told));
    assert!(server.error_log().contains(&server.product.named("was tacho_rotate_now set again")));
    wait::until("there are nine", || server.number(&mut conn, "Tacho_files") == 9);
    assert_eq!(removed(&server, &mut conn), 0);
    assert!(first_text(&log).contains("the evidence"));

    // A higher number removes nothing; the same one, which has a line, removes all excess files.
    server.set("tacho_retention_files = 4");
    rotate(&server, &mut conn);
    assert_eq!(removed(&server, &mut conn), 0);
    server.set("tacho_retention_files = 4");
    wait::until("the others were removed", || server.number(&mut conn, "Tacho_files") == 5);
    assert_eq!(removed(&server, &mut conn), 5);
    assert_eq!(names(&log).len(), 5);
    let variable = server.product.named("\"variable\":\"tacho_retention_files\"");
    wait::until("the change is recorded", || {
        names(&log).iter().any(|name| {
            let text = fs::read_to_string(log.join(name)).expect("a text");
            text.contains(&variable) && text.contains("\"old_value\":\"4\",\"new_value\":\"4\"")
        })
    });
}

/// A file is removed as soon as one limit requires it, and any limit is lower than none.
#[test]
fn the_limits_by_count_and_size_hold_side_by_side() {
    let server = Recording::builder().option("tacho-rotate-bytes=20000").start().expect("a server");
    let log = server.log_directory();
    let mut conn = server.connect().expect("a connection");
    let mut load = |count: u32| {
        for number in 0..count {
            conn.query_drop(format!("SELECT {number}, '{}'", "x".repeat(200))).expect("an answer");
        }
        server.number(&mut conn, "Tacho_files_removed")
    };
    assert_eq!(load(1500), 0);
    wait::until("there are many", || names(&log).len() > 20);
    // By count, at once.
    server.set("tacho_retention_files = 10");
    wait::until("ten closed ones are left", || names(&log).len() == 11);
    // By size, with the lower number holding.
    let limit = bytes(&log) / 2;
    server.set(&format!("tacho_retention_bytes = {limit}"));
    wait::until("half of it is left", || bytes(&log) <= limit && names(&log).len() < 8);
    server.set("tacho_retention_files = 2");
    wait::until("two closed ones are left", || names(&log).len() == 3);
    server.set("tacho_retention_files = 0");
    load(1500);
    wait::until("there are more", || names(&log).len() > 3);
    wait::until("and not more than may be", || bytes(&log) <= limit);
    let shown = fs::read_to_string(log.join("removed.chain")).expect("tombstones");
    assert!(shown.contains("\nreason count\n") && shown.contains("\nreason size\n"));
}
