//! How `tacho tail` shows lines: counts, order, fields, context, highlights, several logs.

use std::io::Write as _;
use std::process::{Command, Output, Stdio};

use crate::support::{Log, by_columns, command, statement, stderr, stdout, tacho};

const FIRST: &str = "audit-20261121T100000Z-000001.jsonl";
const SECOND: &str = "audit-20261121T110000Z-000002.jsonl";

/// A statement of a connection.
fn of(conn: u64, seq: u64, sql: &str) -> String {
    let line = statement(seq, &format!("2026-11-21T10:00:{seq:02}.000000+00:00"), sql);
    line.replace("\"conn\":7", &format!("\"run\":1,\"conn\":{conn},\"conn_seq\":{seq}")) + "\n"
}

/// Twelve statements of two connections, the later ones in a second file.
fn log() -> Log {
    let log = Log::new();
    for seq in 1..=12 {
        let conn = if matches!(seq, 2 | 5 | 8) { 8 } else { 7 };
        let sql = format!("SELECT {}", ["a", "b", "c"][usize::try_from(seq % 3).unwrap()]);
        log.append(if seq <= 6 { FIRST } else { SECOND }, of(conn, seq, &sql));
    }
    log
}

fn ok(output: &Output) -> String {
    assert_eq!((output.status.code(), stderr(output).as_str()), (Some(0), ""));
    stdout(output)
}

fn json(log: &Log, args: &[&str]) -> Vec<u64> {
    seqs(&ok(&log.tail(&[&["--format", "json"], args].concat())))
}

fn seqs(text: &str) -> Vec<u64> {
    let seq = |line: &str| line.split("\"seq\":").nth(1)?.split(',').next()?.parse().ok();
    text.lines().map(|line| seq(line).unwrap_or_else(|| panic!("{line}"))).collect()
}

/// Replaces a file by another form of it.
fn pack(log: &Log, name: &str, ending: &str, pack: fn(&[u8]) -> Vec<u8>) {
    let plain = std::fs::read(log.file(name)).unwrap();
    std::fs::write(log.file(&format!("{name}{ending}")), pack(&plain)).unwrap();
    std::fs::remove_file(log.file(name)).unwrap();
}

/// Runs a check with plain files, and with one and two of each other form.
fn in_all_forms(check: impl Fn(&Log)) {
    let compress: fn(&[u8]) -> Vec<u8> = |plain| zstd::encode_all(plain, 1).unwrap();
    check(&log());
    for (ending, form) in [(".zst", compress), (".tcol", by_columns)] {
        let log = log();
        for name in [FIRST, SECOND] {
            pack(&log, name, ending, form);
            check(&log);
        }
    }
}

fn with_input(args: &[&str], input: &str) -> Output {
    let mut command = command(args);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

#[test]
fn matches_are_counted() {
    in_all_forms(|log| {
        assert_eq!(ok(&log.tail(&["--count"])), "12\n");
        assert_eq!(ok(&log.tail(&["--count", "--grep", "b$"])), "4\n");
        assert_eq!(ok(&log.tail(&["--count", "--user", "absent", "--format", "json"])), "0\n");
    });
    // A gap is not a match, but may hide some.
    let log = log();
    let lost = r#"{"v":1,"seq":13,"ts":"2026-11-21T10:00:13Z","event":"lost","count":2}"#;
    log.append(SECOND, format!("{lost}\n"));
    let output = log.tail(&["--count", "--conn", "8"]);
    assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(0), "3\n"));
    assert!(stderr(&output).contains("1 `lost` line not counted"), "{}", stderr(&output));
    assert_eq!(ok(&log.tail(&["--count", "--event", "lost"])), "1\n");
    log.append(SECOND, "nonsense\n");
    let output = log.tail(&["--count"]);
    assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(1), "13\n"));
}

#[test]
fn the_newest_line_can_be_the_first() {
    in_all_forms(|log| {
        assert_eq!(json(log, &["--reverse", "-n", "3"]), [12, 11, 10]);
        let all: Vec<u64> = (1..=12).rev().collect();
        assert_eq!(json(log, &["--reverse", "-n", "all"]), all);
        let some = ["--reverse", "--since", "2026-11-21T10:00:03Z", "--conn", "8", "--run", "1"];
        assert_eq!(json(log, &some), [8, 5]);
    });
    let input = of(7, 1, "a") + &of(7, 2, "b") + &of(7, 3, "c");
    for (lines, expected) in [("all", &[3, 2, 1][..]), ("2", &[3, 2])] {
        let args = ["tail", "-", "--format", "json", "--reverse", "-n", lines];
        assert_eq!(seqs(&ok(&with_input(&args, &input))), expected);
    }
}

#[test]
fn several_logs_are_read_as_one() {
    let (one, two) = (log(), log());
    two.append(SECOND, of(9, 13, "x"));
    let paths = [one.path().to_str().unwrap(), two.path().to_str().unwrap()];
    let tail =
        |args: &[&str]| seqs(&ok(&tacho(&[&["tail", "--format", "json"], args, &paths].concat())));
    assert_eq!(tail(&["-n", "2"]), [12, 13]);
    assert_eq!(tail(&["-n", "15"]), [&[11, 12][..], &(1..=13).collect::<Vec<_>>()].concat());
    assert_eq!(tail(&["-n", "14", "--reverse"])[12..], [1, 12]);
    assert_eq!(tail(&["-n", "all", "--seq", "12-"]), [12, 12, 13]);
    assert_eq!(tail(&["-n", "all", "--seq", "12-", "--reverse"]), [13, 12, 12]);
    assert_eq!(tail(&["-n", "3", "--conn", "8,9", "--context", "1"])[..2], [2, 5]);
    let count = tacho(&[&["tail", "--count"], &paths[..]].concat());
    assert_eq!(ok(&count), "25\n");
    let follow = tacho(&[&["tail", "--follow"], &paths[..]].concat());
    assert_eq!(follow.status.code(), Some(2));
    assert!(stderr(&follow).contains("--follow reads one log"), "{}", stderr(&follow));
}

#[test]
fn lines_of_the_same_connection_are_context() {
    in_all_forms(|log| {
        let context = |args: &[&str]| json(log, &[&["--seq", "5-7"], args].concat());
        // 5 is of connection 8, 6 and 7 are of 7.
        for lines in ["all", "10"] {
            assert_eq!(context(&["-n", lines, "--context", "0"]), [5, 6, 7]);
            let mut shown = context(&["-n", lines, "-C", "1"]);
            shown.sort_unstable();
            assert_eq!(shown, [2, 4, 5, 6, 7, 8, 9], "{lines}");
            let mut shown = context(&["-n", lines, "-C", "9"]);
            shown.sort_unstable();
            assert_eq!(shown, (1..=12).collect::<Vec<_>>(), "{lines}");
        }
        // The newest ones only, in the order of the log.
        assert_eq!(context(&["-n", "1", "-C", "2"]), [4, 6, 7, 9, 10]);
        assert_eq!(context(&["-n", "1", "-C", "2", "--reverse"]), [10, 9, 7, 6, 4]);
        // Context does not leave the range of times.
        let since = ["--since", "2026-11-21T10:00:05Z", "-C", "2"];
        assert_eq!(context(&[&since[..], &["-n", "1"]].concat()), [6, 7, 9, 10]);
        assert_eq!(context(&since), [5, 6, 7, 8, 9, 10]);
    });
}

#[test]
fn context_is_marked_in_the_table() {
    let log = log();
    let shown = ok(&log.tail(&["--seq", "7", "-C", "1", "--fields", "seq,sql"]));
    let rows: Vec<&str> = shown.lines().collect();
    assert_eq!(rows.len(), 4, "{shown}");
    assert!(rows[0].starts_with("       SEQ SQL"), "{shown}");
    assert!(rows[1].starts_with("         6 ") && rows[3].starts_with("         9 "), "{shown}");
    assert!(rows[2].starts_with(">        7 "), "{shown}");
    for (args, reason) in [
        (&["-C", "1", "--reverse", "-n", "all"][..], "--context with --reverse needs -n LINES"),
        (&["-C", "1", "--count"], "cannot be used with"),
        (&["--reverse", "--follow"], "cannot be used with"),
        (&["--count", "-n", "3"], "cannot be used with"),
        (&["-C", "x"], "expected a whole number"),
    ] {
        let output = log.tail(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(stderr(&output).contains(reason), "{args:?}: {}", stderr(&output));
    }
    let input = of(7, 1, "a") + &of(7, 2, "b") + &of(8, 3, "c");
    let pipe = ["tail", "-", "--format", "json", "--seq", "1", "-C", "1"];
    let output = with_input(&pipe, &input);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("needs -n all"), "{}", stderr(&output));
    assert_eq!(seqs(&ok(&with_input(&[&pipe[..], &["-n", "all"]].concat(), &input))), [1, 2]);
}

#[test]
fn a_broken_line_is_reported_once_with_context() {
    let log = log();
    log.append(FIRST, "nonsense\n");
    let output = log.tail(&["--format", "json", "--seq", "3", "-C", "9", "-n", "1"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(stderr(&output).matches("broken line").count(), 1, "{}", stderr(&output));
}

#[test]
fn fields_are_chosen() {
    let log = Log::new();
    let tables = r#""tables":[{"access":"rename","db":"a","table":"b","new_db":"c","new_table":"d"},{"access":"read","db":"a","table":"e"}]"#;
    let line = of(7, 1, "SELECT 'ü'").replace("\"command\"", &format!("{tables},\"command\""));
    log.append(FIRST, line);
    log.append(FIRST, "{\"v\":1,\"seq\":2,\"ts\":\"2026-11-21T10:00:00Z\",\"event\":\"stop\"}\n");
    let json = |fields: &str| ok(&log.tail(&["--format", "json", "--fields", fields]));
    assert_eq!(
        json("user,seq,sql"),
        "{\"user\":\"app\",\"seq\":1,\"sql\":\"SELECT 'ü'\"}\n{\"seq\":2}\n"
    );
    assert_eq!(json("tables"), format!("{{{tables}}}\n{{}}\n"));
    let table = |fields: &str| ok(&log.tail(&["--fields", fields, "--utc"]));
    assert_eq!(
        table("ts,conn,query_time_us,tables"),
        "TS                                   CONN QUERY_TIME_US TABLES\n\
         2026-11-21T10:00:01.000000+00:00        7          10µs rename a.b -> c.d, read a.e\n\
         2026-11-21T10:00:00.000000+00:00\n"
    );
    for (wrong, near) in [("usr", "user"), ("seq,query_tim", "query_time_us"), ("User", "user")] {
        let output = log.tail(&["--fields", wrong]);
        assert_eq!(output.status.code(), Some(2));
        let expected = format!("the nearest is `{near}`");
        assert!(stderr(&output).contains(&expected), "{}", stderr(&output));
    }
}

#[test]
fn no_chosen_field_reaches_the_terminal_raw() {
    let log = Log::new();
    let evil = r"\u001b]0;x\u0007\u009b31m\u202e\r\nforged";
    let line = of(7, 1, "x").replace("app", evil).replace("\"x\"", &format!("\"{evil}\""));
    log.append(FIRST, line);
    for width in ["0", "80"] {
        let shown = ok(&log.tail(&["--fields", "user,sql,command", "--width", width]));
        assert_eq!(shown.lines().count(), 2, "{shown}");
        assert!(!shown.contains(|c: char| c != '\n' && (c.is_control() || c == '\u{202e}')));
    }
}

#[test]
fn what_was_searched_for_is_highlighted() {
    let log = log();
    let found = "\u{1b}[1m\u{1b}[35mb\u{1b}[0m";
    let shown =
        |args: &[&str]| ok(&log.tail(&[&["--seq", "4", "--color", "always"], args].concat()));
    assert!(shown(&["--grep", "b$"]).contains(&format!("SELECT {found}")));
    assert!(shown(&["--grep", "b$", "--fields", "seq,sql"]).contains(&format!("SELECT {found}")));
    for without in [&["--not-grep", "x"][..], &["--grep", "b$", "--format", "json"]] {
        assert!(!shown(without).contains("[35m"), "{without:?}");
    }
    assert!(!ok(&log.tail(&["--grep", "b$"])).contains('\u{1b}'));
}

/// On a terminal, which `script` provides.
#[test]
fn a_terminal_has_highlights_unless_no_color_is_set() {
    let log = log();
    let path = log.path().to_str().unwrap();
    let shown = |no_color: &str| {
        let tail = format!("{} tail {path} --grep 'b$'", env!("CARGO_BIN_EXE_tacho"));
        let output = Command::new("script")
            .args(["-qec", &tail, "/dev/null"])
            .env("TERM", "xterm")
            .env("NO_COLOR", no_color)
            .stdin(Stdio::null())
            .output()
            .expect("script, of util-linux");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    assert!(shown("").contains("\u{1b}[35mb"), "{:?}", shown(""));
    let plain = shown("1");
    assert!(plain.contains("SELECT b") && !plain.contains('\u{1b}'), "{plain:?}");
}
