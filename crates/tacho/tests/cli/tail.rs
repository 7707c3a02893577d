//! `tacho tail` on log directories that do not change.

use std::io::{Read as _, Write as _};
use std::process::Stdio;

use tacho_seekable::Stream;

use crate::support::{Log, command, statement, stderr, stdout, tacho};

const FIRST: &str = "audit-20261121T100000Z-000001.jsonl";
const SECOND: &str = "audit-20261121T110000Z-000002.jsonl";

/// One statement per minute from 10:00 to 11:59, one file per hour.
fn two_hours() -> Log {
    let log = Log::new();
    for minute in 0..120 {
        let name = if minute < 60 { FIRST } else { SECOND };
        let ts = format!("2026-11-21T{}:{:02}:00.000000+00:00", 10 + minute / 60, minute % 60);
        log.append(name, statement(minute, &ts, &format!("SELECT {minute}")) + "\n");
    }
    log
}

fn seqs(log: &Log, args: &[&str]) -> Vec<u64> {
    let output = log.tail(&[args, &["--format", "json"]].concat());
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""));
    let seq = |line: &str| {
        let rest = line.split_once("\"seq\":").unwrap().1;
        rest.split_once(',').unwrap().0.parse().unwrap()
    };
    stdout(&output).lines().map(seq).collect()
}

#[test]
fn shows_the_last_ten_across_files() {
    let log = two_hours();
    assert_eq!(seqs(&log, &[]), (110..120).collect::<Vec<_>>());
    assert_eq!(seqs(&log, &["-n", "62"]), (58..120).collect::<Vec<_>>());
    assert_eq!(seqs(&log, &["-n", "all"]), (0..120).collect::<Vec<_>>());
    assert_eq!(seqs(&log, &["-n", "0"]), [0; 0]);
}

#[test]
fn time_range_is_exact() {
    let log = two_hours();
    assert_eq!(
        seqs(&log, &["--since", "2026-11-21T10:58:00Z", "--until", "2026-11-21T11:02:00Z"]),
        [58, 59, 60, 61]
    );
    assert_eq!(seqs(&log, &["--since", "2026-11-21 11:57"]), [117, 118, 119]);
    assert_eq!(seqs(&log, &["--until", "2026-11-21T11:01:00+00:00", "-n", "2"]), [59, 60]);
    assert_eq!(seqs(&log, &["--since", "2026-11-21", "-n", "1"]), [119]);
}

#[test]
fn local_times_are_in_the_readers_zone() {
    let log = two_hours();
    let path = log.path().to_str().unwrap();
    let args = ["tail", path, "--since", "2026-11-21T12:59", "--width", "120"];
    let output = command(&args).env("TZ", "Europe/Berlin").output().unwrap();
    assert_eq!(stdout(&output).lines().count(), 1 + 1);
    assert!(stdout(&output).contains("\n11-21 12:59:00.000 "), "{}", stdout(&output));
}

#[test]
fn both_sides_of_a_clock_change_are_shown() {
    // 2026-10-25 in Berlin: 02:30 occurs twice, an hour apart.
    let log = Log::new();
    for (seq, ts) in [
        (1, "2026-10-25T01:59:00+02:00"),
        (2, "2026-10-25T02:30:00+02:00"),
        (3, "2026-10-25T02:30:00+01:00"),
        (4, "2026-10-25T03:00:00+01:00"),
    ] {
        log.append("audit-20261024T235900Z-000001.jsonl", statement(seq, ts, "SELECT 1") + "\n");
    }
    let path = log.path().to_str().unwrap();
    let range = ["--since", "2026-10-25T02:30", "--until", "2026-10-25T02:31"];
    let args = [&["tail", path, "--format", "json"], &range[..]].concat();
    let output = command(&args).env("TZ", "Europe/Berlin").output().unwrap();
    let shown: Vec<_> = stdout(&output).lines().map(|line| line[13..14].to_owned()).collect();
    assert_eq!(shown, ["2", "3"]);
}

#[test]
fn json_is_the_original_byte_for_byte() {
    let log = Log::new();
    // Order, blanks, escapes, unknown fields, a raw C1 control and a CR are unchanged.
    let lines = "{ \"ts\" :\"2026-11-21T10:00:00Z\",\"v\":1,\"seq\":1,\"event\":\"statement\",\
                 \"new\":[1.0e0,{\"x\":null}],\"sql\":\"\\u00e4 \u{9b} \\/\"}\r\n\
                 {\"v\":1,\"seq\":2,\"ts\":\"2026-11-21T10:00:00Z\",\"event\":\"later\"}\n";
    log.append(FIRST, lines);
    for args in [&["-n", "10"], &["-n", "all"]] {
        let output = log.tail(&[&args[..], &["--format", "json"]].concat());
        assert_eq!(output.stdout, lines.as_bytes());
        assert_eq!(output.status.code(), Some(0));
    }
}

#[test]
fn filters_take_lists_and_stars() {
    let log = Log::new();
    for (seq, user, host) in [(1, "app_ro", "web1"), (2, "app_rw", "web2"), (3, "root", "db1")] {
        log.append(
            FIRST,
            format!(
                "{{\"v\":1,\"seq\":{seq},\"ts\":\"2026-11-21T10:00:00Z\",\"event\":\"connect\",\
                 \"outcome\":\"ok\",\"conn\":{seq},\"user\":\"{user}\",\"host\":\"{host}\"}}\n"
            ),
        );
    }
    assert_eq!(seqs(&log, &["--user", "app_*"]), [1, 2]);
    assert_eq!(seqs(&log, &["--user", "root,app_ro"]), [1, 3]);
    assert_eq!(seqs(&log, &["--user", "app_*", "--host", "web2", "--host", "db*"]), [2]);
    assert_eq!(seqs(&log, &["--conn", "2,3", "--event", "connect"]), [2, 3]);
    assert_eq!(seqs(&log, &["--event", "statement"]), [0; 0]);
}

#[test]
fn no_field_reaches_the_terminal_raw() {
    let log = Log::new();
    let evil = r"\u001b]0;x\u0007\u009b31m\u202e\r\nforged";
    log.append(
        FIRST,
        format!(
            "{{\"v\":1,\"seq\":1,\"ts\":\"2026-11-21T10:00:00Z\",\"event\":\"{evil}\",\
             \"outcome\":\"{evil}\",\"user\":\"{evil}\",\"db\":\"{evil}\",\"sql\":\"{evil}\",\
             \"command\":\"{evil}\",\"sql_command\":\"{evil}\"}}\n"
        ),
    );
    // Broken lines are reported on stderr, without their contents.
    log.append(FIRST, "{\"v\":\"\\u001b[31m\x1b[31m\"}\n\x1b[31m\n{\"\u{9b}31m\":1}\n");
    for width in ["0", "80", "150"] {
        let output = log.tail(&["--width", width, "--no-color"]);
        let shown = stdout(&output) + &stderr(&output);
        assert_eq!(stdout(&output).lines().count(), 2);
        assert!(!shown.contains(|c: char| c != '\n' && (c.is_control() || c == '\u{202e}')));
        assert_eq!(output.status.code(), Some(1));
    }
}

#[test]
fn broken_lines_are_reported_and_skipped() {
    let log = Log::new();
    let good = |seq| statement(seq, "2026-11-21T10:00:00Z", "SELECT 1") + "\n";
    log.append(FIRST, good(1) + "{\"v\":1,\n" + &good(2));
    log.append(FIRST, b"\0\0\0\xff\n");
    log.append(FIRST, good(3));
    let offset = good(1).len();
    for args in [&["-n", "10"], &["-n", "all"]] {
        let output = log.tail(&[&args[..], &["--format", "json"]].concat());
        assert_eq!(stdout(&output), good(1) + &good(2) + &good(3));
        let errors = stderr(&output);
        assert!(errors.contains(&format!("{FIRST} at byte {offset}: broken line")), "{errors}");
        assert!(errors.contains("2 problems found"), "{errors}");
        assert_eq!(output.status.code(), Some(1));
    }
    // Irrelevant lines are not checked.
    assert_eq!(seqs(&log, &["-n", "1"]), [3]);
}

#[test]
fn a_torn_last_line_is_reported() {
    let log = Log::new();
    let good = statement(1, "2026-11-21T10:00:00Z", "SELECT 1") + "\n";
    log.append(FIRST, good.clone() + "{\"v\":1,\"se");
    let output = log.tail(&["--format", "json"]);
    assert_eq!(stdout(&output), good);
    assert!(stderr(&output).contains(&format!("at byte {}: broken line: EOF", good.len())));
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn a_last_line_without_newline_is_shown_when_it_is_whole() {
    let log = Log::new();
    let line = statement(1, "2026-11-21T10:00:00Z", "SELECT 1");
    log.append(FIRST, &line);
    let output = log.tail(&["--format", "json"]);
    assert_eq!((stdout(&output), output.status.code()), (line + "\n", Some(0)));
}

#[test]
fn compressed_files_are_read_when_they_matter() {
    let log = two_hours();
    let name = "audit-20261121T090000Z-000000.jsonl.zst";
    log.append(name, "no answer needs it");
    assert_eq!(stderr(&log.tail(&[])), "");
    let output = log.tail(&["-n", "121"]);
    assert!(stderr(&output).contains(name), "{}", stderr(&output));
    assert_eq!(output.status.code(), Some(1));

    let text: String = (1..=9)
        .map(|n| statement(n, &format!("2026-11-21T09:00:0{n}Z"), &format!("SELECT {n}")) + "\n")
        .collect();
    std::fs::write(log.file(name), zstd::encode_all(text.as_bytes(), 3).unwrap()).unwrap();
    let json = |args: &[&str]| stdout(&log.tail(&[&["--format", "json"], args].concat()));
    let all = json(&["-n", "all"]);
    assert!(all.starts_with(&text) && all.lines().count() == 129, "{all}");
    let some = json(&["-n", "122"]);
    assert!(some.starts_with(text.lines().nth(7).unwrap()) && some.lines().count() == 122);
    let range = json(&["--since", "2026-11-21T09:00:03Z", "--until", "2026-11-21T09:00:05Z"]);
    assert_eq!(range.lines().collect::<Vec<_>>(), [2, 3].map(|n| text.lines().nth(n).unwrap()));
    // Given by its name.
    let path = log.file(name);
    let output = tacho(&["tail", path.to_str().unwrap(), "-n", "2", "--format", "json"]);
    assert!(text.ends_with(&stdout(&output)) && stdout(&output).lines().count() == 2);
}

/// The middle of the file is damaged, which a question about its end does not touch.
#[test]
fn of_a_compressed_file_only_what_is_shown_is_decompressed() {
    const COUNT: u64 = 30_000;
    let ts =
        |seq: u64| format!("2026-11-21T{:02}:{:02}:{:02}Z", seq / 3600, seq / 60 % 60, seq % 60);
    let line = |seq: u64| statement(seq, &ts(seq), &format!("SELECT {seq}, '{}'", "x".repeat(800)));
    let log = Log::new();
    let path = log.file("audit-20261121T000000Z-000001.jsonl.zst");
    let mut stream = Stream::new(Vec::new(), 1).unwrap();
    (0..COUNT).for_each(|seq| stream.write_all((line(seq) + "\n").as_bytes()).unwrap());
    let mut bytes = stream.finish().unwrap();
    let (first, last) = (bytes.len() / 4, bytes.len() * 3 / 4);
    let middle = bytes[first..last].to_vec();
    bytes[first..last].fill(0);
    std::fs::write(&path, &bytes).unwrap();

    let newest = [COUNT - 2, COUNT - 1];
    assert_eq!(seqs(&log, &["-n", "2"]), newest);
    assert_eq!(seqs(&log, &["-n", "2", "--reverse"]), [newest[1], newest[0]]);
    let output = log.tail(&["-n", "all"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("of the file is damaged"), "{}", stderr(&output));

    bytes[first..last].copy_from_slice(&middle);
    std::fs::write(&path, &bytes).unwrap();
    assert_eq!(seqs(&log, &["--since", &ts(newest[0])]), newest);
    assert_eq!(seqs(&log, &["--until", &ts(2)]), [0, 1]);
    let all: Vec<u64> = (0..COUNT).collect();
    assert_eq!(seqs(&log, &["-n", "all"]), all);
    let reverse: Vec<u64> = all.into_iter().rev().collect();
    assert_eq!(seqs(&log, &["-n", "all", "--reverse"]), reverse);
}

#[test]
fn a_huge_directory_is_read_at_its_end() {
    // Ten files of 1 TiB without a line in them, except at the very end: reading any of them
    // completely would not end.
    let log = Log::new();
    for number in 0..10 {
        let name = format!("audit-202611{:02}T000000Z-{number:06}.jsonl", number + 1);
        let file = std::fs::File::create(log.file(&name)).unwrap();
        file.set_len(1 << 40).unwrap();
    }
    let line = statement(1, "2026-11-10T10:00:00Z", "SELECT 1") + "\n";
    log.append("audit-20261110T000000Z-000009.jsonl", format!("\n{line}"));
    assert_eq!(seqs(&log, &["-n", "1"]), [1]);
}

#[test]
fn stdin_and_single_files_are_read() {
    let log = two_hours();
    let path = log.file(FIRST);
    let output = tacho(&["tail", path.to_str().unwrap(), "-n", "2", "--format", "json"]);
    let expected = stdout(&output);
    assert!(expected.contains("SELECT 58\"") && expected.contains("SELECT 59\""));

    let mut child = command(&["tail", "-", "-n", "2", "--format", "json"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(&std::fs::read(&path).unwrap()).unwrap();
    assert_eq!(stdout(&child.wait_with_output().unwrap()), expected);
}

#[test]
fn the_directory_comes_from_the_environment() {
    let log = two_hours();
    let output = command(&["tail", "-n", "1"]).env("TACHO_LOG_DIR", log.path()).output().unwrap();
    assert!(stdout(&output).contains("SELECT 119"));
    let missing = log.file("missing");
    let output = command(&["tail"]).env("TACHO_LOG_DIR", &missing).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("(from TACHO_LOG_DIR): No such file"), "{}", stderr(&output));
}

#[test]
fn wrong_usage_is_code_two_and_says_why() {
    let log = two_hours();
    for (args, reason) in [
        (&["--since", "soon"][..], "`soon` is not a time"),
        (&["--grep", "("], "unclosed group"),
        (&["--event", "conect"], "a similar value exists: 'connect'"),
        (&["--follow", "--until", "now"], "cannot be used with"),
        (&["--since", "1h", "--until", "2h"], "so no line can match"),
        (&["--lines", "many"], "expected a number or `all`"),
    ] {
        let output = log.tail(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(stderr(&output).contains(reason), "{args:?}: {}", stderr(&output));
        assert!(output.stdout.is_empty());
    }
    let empty = Log::new();
    let output = empty.tail(&[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("no log file"));
    assert_eq!(tacho(&["tail", "-", "-f"]).status.code(), Some(2));
}

#[test]
fn colours_only_when_wanted() {
    let log = two_hours();
    let colored = |args: &[&str]| stdout(&log.tail(args)).contains('\u{1b}');
    assert!(!colored(&[]));
    assert!(!colored(&["--no-color"]));
    assert!(!colored(&["--color", "never"]));
    assert!(colored(&["--color", "always"]));
    assert!(!colored(&["--color", "always", "--format", "json"]));
}

#[test]
fn a_closed_stdout_is_not_an_error() {
    let log = Log::new();
    let line = statement(1, "2026-11-21T10:00:00Z", &"x".repeat(1000)) + "\n";
    log.append(FIRST, line.repeat(5000));
    let path = log.path().to_str().unwrap();
    let mut child = command(&["tail", path, "-n", "all"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = [0; 10];
    let mut out = child.stdout.take().unwrap();
    out.read_exact(&mut first).unwrap();
    drop(out);
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""));
}

#[test]
fn a_full_disk_is_an_error() {
    let log = two_hours();
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let path = log.path().to_str().unwrap();
    let output = command(&["tail", path]).stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).contains("cannot write the output: No space left"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn help_names_every_option_and_the_forms_of_a_time() {
    let output = tacho(&["tail", "--help"]);
    assert_eq!(output.status.code(), Some(0));
    let help = stdout(&output);
    for word in [
        "--follow",
        "--lines",
        "--since",
        "--until",
        "--user",
        "--db",
        "--host",
        "--conn",
        "--event",
        "--sql-command",
        "--errno",
        "--outcome",
        "--grep",
        "--format",
        "--color",
        "--no-color",
        "--width",
        "TACHO_LOG_DIR",
        "2026-11-21T09:30:00+01:00",
        "yesterday",
        "Exit code",
    ] {
        assert!(help.contains(word), "{word}");
    }
    assert!(help.lines().all(|line| line.chars().count() <= 100));
    let main = stdout(&tacho(&["--help"]));
    for word in ["tail", "recover", "arena", "completions", "man"] {
        assert!(main.contains(word), "{word}");
    }
    assert_eq!(tacho(&[]).status.code(), Some(2));
}

#[test]
fn completions_and_pages_are_made() {
    for shell in ["bash", "zsh", "fish"] {
        let output = tacho(&["completions", shell]);
        assert_eq!(output.status.code(), Some(0));
        for option in ["sql-command", "dry-run", "set-overflow"] {
            assert!(stdout(&output).contains(option), "{shell} {option}");
        }
    }
    assert!(stdout(&tacho(&["man"])).contains(".TH tacho 1"));
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("man1");
    let output = tacho(&["man", "--output", out.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let page = std::fs::read_to_string(out.join("tacho-tail.1")).unwrap();
    assert!(page.contains("sql\\-command"));
    for page in ["tacho", "tacho-recover", "tacho-arena"] {
        assert!(out.join(format!("{page}.1")).exists(), "{page}");
    }
}
