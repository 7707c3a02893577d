//! `tacho capture --read`: a packet file to the lines of the recorder.

use std::path::{Path, PathBuf};
use std::process::Output;

use serde_json::Value;

use crate::support::{stderr, stdout, tacho};

/// Sessions of real clients, see `crates/capture/tests/segments.rs`.
fn packets() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../capture/tests/data/sessions.pcap")
}

/// Reads a packet file; the arena of each call has a directory of its own.
fn read(file: &Path, args: &[&str]) -> Output {
    let arenas = tempfile::tempdir().expect("a directory");
    let (file, arenas) = (file.to_str().unwrap(), arenas.path().to_str().unwrap());
    let common = ["capture", "--read", file, "--arena-directory", arenas, "--utc"];
    tacho(&[&common, args].concat())
}

fn lines(output: &Output) -> Vec<Value> {
    assert!(output.status.success(), "{}", stderr(output));
    stdout(output).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

const SERVER: [&str; 2] = ["--server", "127.0.0.1:33306"];

#[test]
fn a_packet_file_becomes_the_lines_of_a_log() {
    let lines = lines(&read(&packets(), &SERVER));
    assert_eq!(lines.first().map(|line| &line["event"]), Some(&"start".into()));
    assert_eq!(lines.last().map(|line| &line["event"]), Some(&"stop".into()));
    let seqs = lines.iter().map(|line| line["seq"].as_u64().unwrap());
    assert!(seqs.eq(1..=lines.len() as u64), "the lines are numbered without a gap");
    let of = |event: &str| lines.iter().filter(|line| line["event"] == event).collect::<Vec<_>>();
    assert_eq!(of("lost"), Vec::<&Value>::new());
    assert_eq!((of("connect").len(), of("connect_failed").len()), (7, 1));
    for line in of("statement").iter().chain(&of("connect")) {
        assert_eq!(line["source"], "capture", "{line}");
        assert_eq!(line["server_addr"], "127.0.0.1:33306", "{line}");
        assert_eq!(line["user"], "app", "{line}");
        assert!(line["conn"].as_u64().is_some_and(|conn| conn < 1 << 32), "{line}");
        assert!(line["port"].is_u64() && line["session"].is_null(), "{line}");
    }
    let statement = |sql: &str| {
        let found = lines.iter().find(|line| line["sql"] == sql);
        found.unwrap_or_else(|| panic!("{sql}"))
    };
    let update = statement("update t set v = 'c' where id = 1");
    assert_eq!(
        (&update["outcome"], &update["rows_affected"], &update["db"]),
        (&"ok".into(), &1.into(), &"d".into())
    );
    assert!(update["digest"].is_string() && update["query_time_us"].is_u64(), "{update}");
    assert_eq!(statement("select * from t")["sql_charset"], "latin1", "after SET NAMES");
    let failed = statement("select nosuch");
    assert_eq!((&failed["errno"], &failed["sqlstate"]), (&1054.into(), &"42S22".into()));
    assert_eq!(of("connect_failed")[0]["errno"], 1045);
    assert_eq!(of("connect")[0]["program"], "mysql");
    let executed = lines.iter().find(|line| line["command"] == "Execute").expect("an execution");
    assert!(executed["sql"].as_str().is_some_and(|sql| !sql.is_empty()), "{executed}");
}

#[test]
fn literals_can_be_removed() {
    let output = read(&packets(), &[&SERVER[..], &["--redact-literals"]].concat());
    let text = stdout(&output);
    assert!(text.contains("SELECT * FROM `t`"), "{text}");
    assert!(!text.contains("tagged 1"), "{text}");
    assert!(!text.contains("\"params\""), "{text}");
}

#[test]
fn answers_have_bytes_and_times() {
    let statements = |args: &[&str]| {
        let lines = lines(&read(&packets(), &[&SERVER[..], args].concat()));
        lines.into_iter().filter(|line| line["query_time_us"].is_u64()).collect::<Vec<_>>()
    };
    let all = statements(&[]);
    let answered = all.iter().filter(|line| line["bytes_sent"].is_u64()).collect::<Vec<_>>();
    for line in &answered {
        // A packet with one byte at least.
        assert!(line["bytes_sent"].as_u64() >= Some(5), "{line}");
        assert!(line["first_byte_us"].as_u64() <= line["query_time_us"].as_u64(), "{line}");
    }
    let unanswered = ["Quit", "Close stmt", "Long Data"];
    let is_unanswered = |line: &&Value| unanswered.iter().any(|name| line["command"] == *name);
    assert_eq!(answered.len() + all.iter().filter(is_unanswered).count(), all.len());
    // An id may be a literal of the statement.
    let has_id = |lines: &[Value]| lines.iter().any(|line| line["last_insert_id"].is_u64());
    assert!(has_id(&all));
    assert!(!has_id(&statements(&["--redact-literals"])));
}

#[test]
fn executions_have_their_parameters() {
    let executions = |args: &[&str]| {
        let lines = lines(&read(&packets(), &[&SERVER[..], args].concat()));
        let is_execution = |line: &Value| line["command"] == "Execute";
        let has_params = |line: &Value| line["sql"].as_str().is_some_and(|sql| sql.contains('?'));
        lines.into_iter().filter(|line| is_execution(line) && has_params(line)).collect::<Vec<_>>()
    };
    let all = executions(&[]);
    assert!(!all.is_empty());
    for line in &all {
        let count = line["sql"].as_str().map(|sql| sql.matches('?').count());
        assert_eq!(line["params"].as_array().map(Vec::len), count, "{line}");
        assert!(line["params_bytes"].is_null(), "{line}");
    }
    for line in executions(&["--max-params-size", "0"]) {
        assert!(line["params"].is_null() && line["params_bytes"].is_null(), "{line}");
    }
}

#[test]
fn servers_are_recognised_without_being_named() {
    let named = lines(&read(&packets(), &SERVER));
    assert_eq!(lines(&read(&packets(), &[])).len(), named.len());
    let other = read(&packets(), &["--server", "127.0.0.1:1"]);
    assert_eq!(lines(&other).len(), 2, "start and stop");
    assert!(stderr(&other).contains("name the server with --server"), "{}", stderr(&other));
}

#[test]
fn a_file_that_was_cut_is_read_to_its_end() {
    let directory = tempfile::tempdir().expect("a directory");
    let bytes = std::fs::read(packets()).expect("the packets");
    let cut = directory.path().join("cut.pcap");
    std::fs::write(&cut, &bytes[..bytes.len() / 2]).expect("writing");
    let output = read(&cut, &SERVER);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stderr(&output).contains("ends within a packet"), "{}", stderr(&output));
    assert!(stdout(&output).contains("update t set v = 'c'"));
    let other = directory.path().join("other");
    std::fs::write(&other, "this is no packet file").expect("writing");
    let output = read(&other, &SERVER);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stderr(&output).contains("neither pcap nor pcapng"), "{}", stderr(&output));
    let output = read(&directory.path().join("missing"), &SERVER);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
}

/// The file without the packet that has `text`.
fn without(text: &str) -> Vec<u8> {
    const HEAD_BYTES: usize = 24;
    const FRAME_HEAD_BYTES: usize = 16;
    let bytes = std::fs::read(packets()).expect("the packets");
    let (head, mut rest) = bytes.split_at(HEAD_BYTES);
    let mut kept = head.to_vec();
    while let Some(length) = rest.get(8..12) {
        let length = u32::from_le_bytes(length.try_into().unwrap()) as usize;
        let (frame, others) = rest.split_at(FRAME_HEAD_BYTES + length);
        rest = others;
        if !frame.windows(text.len()).any(|part| part == text.as_bytes()) {
            kept.extend_from_slice(frame);
        }
    }
    assert!(kept.len() < bytes.len(), "the packet was found");
    kept
}

#[test]
fn what_was_not_captured_is_declared() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("gap.pcap");
    std::fs::write(&file, without("select 'tagged 1'")).expect("writing");
    let lines = lines(&read(&file, &SERVER));
    assert!(!lines.iter().any(|line| line["sql"] == "select 'tagged 1'"));
    let lost = lines.iter().filter(|line| line["event"] == "lost").collect::<Vec<_>>();
    let causes = lost.iter().map(|line| line["cause"].as_str().unwrap()).collect::<Vec<_>>();
    assert_eq!(causes.first(), Some(&"tcp_gap"), "{lost:?}");
    // The header of the packet, the command, the statement.
    assert_eq!(lost[0]["lost_bytes"], 4 + 1 + "select 'tagged 1'".len());
    let conn = &lost[0]["conn"];
    assert_eq!(lost[0]["user"], "app", "the user before the gap");
    for line in lost {
        assert!(line["conn"] == *conn && line["start_ts"].is_string(), "{line}");
        assert_eq!(line["source"], "capture", "{line}");
    }
    // The next one is certain: the server answered before it.
    let next = lines.iter().find(|line| line["sql"] == "select 'tagged 2'").expect("the next one");
    assert_eq!((&next["session"], &next["rows_sent"]), (&"partial".into(), &1.into()), "{next}");
    assert!(next["user"].is_null(), "it may have changed in the gap: {next}");
    let after = lines.iter().rev().find(|line| line["conn"] == *conn).expect("the disconnect");
    assert_eq!((&after["event"], &after["session"]), (&"disconnect".into(), &"partial".into()));
    assert!(lines.iter().any(|line| line["sql"] == "select 'after'"), "another session");
}

#[test]
fn a_server_that_is_asked_must_be_a_certain_one() {
    let run = |args: &[&str]| {
        let directory = tempfile::tempdir().expect("a directory");
        let log = directory.path().join("log");
        let log = log.to_str().unwrap();
        let common = ["capture", "--interface", "nosuch0", "--log", log, "--user", "daemon"];
        let output = tacho(&[&common, args].concat());
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        stderr(&output)
    };
    let (one, other) = (["--server", "127.0.0.1:3306"], ["--server", "127.0.0.2:3306"]);
    let socket = ["--enrich-socket", "/s", "--enrich-user", "me"];
    for servers in [&[one, other].concat()[..], &["--server", "0.0.0.0:3306"]] {
        let said = run(&[servers, &socket].concat());
        assert!(said.contains("add --enrich-server IP:PORT"), "{said}");
        // Then only the interface is missing.
        let named = ["--enrich-server", "127.0.0.1:3306"];
        let said = run(&[servers, &socket, &named].concat());
        assert!(said.contains("no interface nosuch0"), "{said}");
    }
    for (args, problem) in [
        (&["--enrich-socket", "/s"][..], "no account: add --enrich-user"),
        (&["--enrich-user", "me"], "required"),
        (&["--enrich-host", "db", "--enrich-user", "me"], "expected HOST:PORT"),
        (&["--enrich-host", "db:1", "--enrich-socket", "/s"], "cannot be used with"),
        (
            &[
                "--enrich-socket",
                "/s",
                "--enrich-user",
                "me",
                "--enrich-password-file",
                "/nosuch/f",
            ],
            "cannot read the password file /nosuch/f",
        ),
    ] {
        let said = run(&[&one[..], args].concat());
        assert!(said.contains(problem), "{said}");
    }
}
