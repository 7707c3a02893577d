//! The messages for wrong input: once, in one line, and with the permitted values.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use crate::server::ServerDirs;
use crate::support::{self, Log, statement, stdout, tacho};

fn stderr(args: &[&str]) -> String {
    let output = tacho(args);
    assert!(!output.status.success(), "{args:?}");
    support::stderr(&output)
}

#[test]
fn a_file_that_is_not_a_log_has_one_message() {
    for args in [
        &["tail", "/bin/ls"][..],
        &["convert", "--format", "ecs", "/bin/ls"],
        &["slowlog", "/bin/ls"],
        &["digest", "/bin/ls"],
    ] {
        assert_eq!(stderr(args), "tacho: /bin/ls: not a Tachograph log\n", "{args:?}");
    }
}

/// A log that is damaged at its start is still a log.
#[test]
fn a_damaged_log_is_read() {
    let log = Log::new();
    let ts = "2026-11-21T10:00:00.000000+00:00";
    log.append("damaged", "junk\n".repeat(100_000) + &statement(1, ts, "SELECT 'left'") + "\n");
    let output = tacho(&["tail", log.file("damaged").to_str().unwrap(), "-n", "1"]);
    assert!(stdout(&output).contains("'left'"), "{}", support::stderr(&output));
    log.append("empty", "");
    let output = tacho(&["tail", log.file("empty").to_str().unwrap()]);
    assert_eq!((output.status.code(), support::stderr(&output).as_str()), (Some(0), ""));
}

#[test]
fn a_cause_is_reported_once() {
    let empty = tempfile::tempdir().unwrap();
    let path = empty.path().to_str().unwrap();
    let told = stderr(&["checkpoint", path]);
    assert_eq!(told.matches("no checkpoint").count(), 1, "{told}");
    let told = stderr(&["keygen", "--output", "/nonexistent/key"]);
    assert_eq!(told.matches("No such file").count(), 1, "{told}");
    let told = stderr(&["arena", "/nonexistent/arena"]);
    assert_eq!(told.matches("/nonexistent/arena").count(), 1, "{told}");
}

#[test]
fn a_wrong_number_has_a_message_with_the_permitted_values() {
    for (args, permitted) in [
        (&["tail", "--conn", "x"][..], "from 0 to 18446744073709551615"),
        (&["tail", "--errno", "-1"], "from 0 to 4294967295"),
        (&["bench", "--threads", "0"], "from 1 to 4096"),
        (&["pmp", "--pid", "x"], "from 0 to 2147483647"),
    ] {
        let told = stderr(args);
        let is_said = told.contains(&format!("expected a whole number {permitted}"))
            // A number with a sign looks like an option.
            || told.contains("unexpected argument '-1'");
        assert!(is_said, "{args:?}: {told}");
    }
}

#[test]
fn an_option_is_suggested_only_if_it_is_like_the_wrong_one() {
    let told = stderr(&["convert", "--format", "ecs", "--tsl-ca", "f"]);
    assert!(told.contains("'--tsl-ca'") && !told.contains("--tls"), "{told}");
    let told = stderr(&["tail", "--usr", "app"]);
    assert!(told.contains("'--user'"), "{told}");
}

#[test]
fn the_digests_of_a_whole_directory_are_printed() {
    let log = Log::new();
    let ts = "2026-11-21T10:00:00.000000+00:00";
    for (seq, name) in
        [(1, "audit-20261121T100000Z-000001.jsonl"), (2, "audit-20261121T110000Z-000002.jsonl")]
    {
        log.append(name, statement(seq, ts, "SELECT 1") + "\n");
    }
    let output = tacho(&["digest", log.path().to_str().unwrap()]);
    assert!(output.status.success(), "{}", support::stderr(&output));
    assert_eq!(stdout(&output).lines().count(), 2);
    let empty = tempfile::tempdir().unwrap();
    let told = stderr(&["digest", empty.path().to_str().unwrap()]);
    assert!(told.contains("no log file"), "{told}");
}

#[test]
fn the_only_arena_needs_no_name() {
    let empty = tempfile::tempdir().unwrap();
    let directory = empty.path().to_str().unwrap();
    let told = stderr(&["arena", "--arena-directory", directory, "--records"]);
    assert!(told.contains("no arena in"), "{told}");
    let of_two = ["tacho-1-1.arena", "tacho-2-1.arena"].map(|name| empty.path().join(name));
    for path in &of_two {
        fs::write(path, "").unwrap();
    }
    let told = stderr(&["arena", "--arena-directory", directory, "--records"]);
    assert!(told.contains("2 arenas in"), "{told}");
}

#[test]
fn tables_and_empty_settings_are_shown() {
    let log = Log::new();
    let line = |seq: u64, fields: &str| {
        format!(r#"{{"v":1,"seq":{seq},"ts":"2026-11-21T10:00:00.000000+00:00",{fields}}}"#) + "\n"
    };
    let table =
        r#""event":"table","conn":7,"tables":[{"access":"read","db":"hr","table":"salary"}]"#;
    let config = r#""event":"config","variable":"tacho_filter","old_value":"","new_value":"{\n  \"rules\": []\n}""#;
    let killed = r#""event":"statement","outcome":"interrupted","conn":7,"sql":"SELECT 1""#;
    let name = "audit-20261121T100000Z-000001.jsonl";
    for (seq, fields) in [(1, table), (2, config), (3, killed)] {
        log.append(name, line(seq, fields));
    }
    let shown = stdout(&log.tail(&["--width", "150"]));
    assert!(shown.contains("read hr.salary"), "{shown}");
    assert!(shown.contains("tacho_filter: '' -> { \"rules\": [] }"), "{shown}");
    assert!(shown.contains(" interrupted "), "{shown}");
}

/// It would wait for the server forever.
#[test]
fn a_recorder_that_cannot_read_its_directory_ends() {
    let place = ServerDirs::new();
    let log = place.log();
    // SAFETY: it only reads the user id of this process.
    if unsafe { libc::geteuid() } == 0 {
        // Root becomes the owner of the directory, and then has no more permissions than it.
        std::os::unix::fs::chown(&log, Some(65_534), Some(65_534)).unwrap();
        fs::set_permissions(place.root(), fs::Permissions::from_mode(0o755)).unwrap();
    }
    fs::set_permissions(&log, fs::Permissions::from_mode(0o000)).unwrap();
    let output = Command::new("timeout")
        .args(["60", env!("CARGO_BIN_EXE_tacho"), "recorder"])
        .arg(&log)
        .arg("--arena-directory")
        .arg(place.arenas())
        .output()
        .unwrap();
    fs::set_permissions(&log, fs::Permissions::from_mode(0o700)).unwrap();
    let told = support::stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{told}");
    assert!(told.contains("cannot use") && told.contains("ermission denied"), "{told}");
}

#[test]
fn sending_gives_up_after_the_time_limit() {
    let log = Log::new();
    log.append(
        "audit-20261121T100000Z-000001.jsonl",
        statement(1, "2026-11-21T10:00:00.000000+00:00", "SELECT 1") + "\n",
    );
    // Nothing listens on port 1.
    let output = Command::new("timeout")
        .args(["60", env!("CARGO_BIN_EXE_tacho"), "convert"])
        .arg(log.path())
        .args(["--format", "syslog", "--send", "tcp://127.0.0.1:1", "--give-up-after", "0s"])
        .output()
        .unwrap();
    let told = support::stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.contains("giving up (--give-up-after)"), "{told}");
    assert!(told.contains("the run ended before the receiver accepted 1 message\n"), "{told}");
    assert!(told.contains("1 problem found"), "{told}");
}

#[test]
fn a_finding_without_a_file_has_no_empty_name() {
    let directory = tempfile::tempdir().unwrap();
    let key = directory.path().join("key");
    let key = key.to_str().unwrap();
    assert!(tacho(&["keygen", "--output", key]).status.success());
    let told = stdout(&tacho(&["verify", directory.path().to_str().unwrap(), "--key", key]));
    assert!(told.contains("not_sealed: there is no sealed log"), "{told}");
}

#[test]
fn a_key_that_cannot_be_used_is_named_with_its_option() {
    let log = Log::new();
    log.append("audit-20261121T100000Z-000001.jsonl", "");
    log.append("empty", "");
    let (directory, key) = (log.path().to_str().unwrap(), log.file("empty"));
    let key = key.to_str().unwrap();
    let expected =
        format!("tacho: --identity {key}: there is no secret key (AGE-SECRET-KEY-1...) in it\n");
    for args in [
        &["tail", directory, "--identity", key][..],
        &["slowlog", directory, "--identity", key],
        &["digest", directory, "--identity", key],
    ] {
        assert_eq!(stderr(args), expected, "{args:?}");
    }
    let told = stderr(&["tail", directory, "--identity", "/nowhere"]);
    assert_eq!(told, "tacho: --identity /nowhere: No such file or directory (os error 2)\n");
}

#[test]
fn a_file_that_was_encrypted_before_it_was_sent_is_named_with_the_remedy() {
    let log = Log::new();
    let key = age::x25519::Identity::generate().to_public();
    let line = statement(1, "2026-11-21T10:00:00.000000+00:00", "SELECT 1") + "\n";
    let encrypted = age::encrypt(&key, line.as_bytes()).unwrap();
    log.append("audit-20261121T100000Z-000001.jsonl.age", encrypted);
    let state =
        r#"{"v":1,"file":"audit-20261121T100000Z-000001","seq":1,"ts":"2026-11-21T10:00:00Z"}"#;
    log.append("state", state);
    let state = log.file("state");
    let told = stderr(&[
        "convert",
        log.path().to_str().unwrap(),
        "--format",
        "syslog",
        "--send",
        "udp://127.0.0.1:1",
        "--state",
        state.to_str().unwrap(),
    ]);
    let expected = "encrypted before all of it was sent; the missing lines are reported as a \
                    gap; name the key with --identity to read such files\n";
    assert!(told.contains(expected), "{told}");
}
