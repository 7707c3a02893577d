//! `tacho digest`, and `tacho tail --digest`.

use std::io::Write as _;
use std::process::Stdio;

use crate::support::{Log, command, statement, stderr, stdout, tacho};

const FILE: &str = "audit-20261121T100000Z-000001.jsonl";

fn digest_of(sql: &str) -> String {
    let output = tacho(&["digest", "--sql", sql]);
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""));
    stdout(&output).split('\t').next().unwrap().to_owned()
}

fn with_input(args: &[&str], input: &[u8]) -> (Option<i32>, String, String) {
    let mut command = command(args);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    let output = child.wait_with_output().unwrap();
    (output.status.code(), stdout(&output), stderr(&output))
}

#[test]
fn prints_digest_and_text() {
    let output =
        tacho(&["digest", "--sql", "select 1,'x' from t", "--sql", "SELECT -2, 3.5 FROM `t` -- c"]);
    assert_eq!(output.status.code(), Some(0));
    let digest = digest_of("SELECT 1, 2 FROM t");
    let line = format!("{digest}\tSELECT ?, ... FROM `t`\n");
    assert_eq!(stdout(&output), line.repeat(2));
    assert!(digest.len() == 34 && digest.starts_with("1:"), "{digest}");
}

#[test]
fn reads_statements_from_its_input() {
    let (code, out, err) = with_input(&["digest"], b"SELECT 1\n\nSELECT 2\n");
    assert_eq!((code, err.as_str(), out.lines().count()), (Some(0), "", 2));
    let (_, out, _) = with_input(&["digest", "--null"], b"SELECT\n1\0SELECT a\x1b[2J\nFROM t");
    assert_eq!(out.lines().count(), 2);
    assert!(out.contains("\tSELECT `a` [ `2J` FROM `t`"), "{out}");
    let (_, out, _) = with_input(&["digest", "--text-size", "8"], b"SELECT customer");
    assert!(out.ends_with("\tSELECT `\n"), "{out}");
    let modes =
        ["digest", "--ansi-quotes", "--no-backslash-escapes", "--sql", "SELECT \"a\" FROM 'b\\'"];
    assert!(stdout(&tacho(&modes)).ends_with("\tSELECT `a` FROM ?\n"));
    assert_eq!(
        tacho(&["digest", "--charset", "nosuch", "--sql", "SELECT 1"]).status.code(),
        Some(2)
    );
}

#[test]
fn reads_statements_from_the_log() {
    let log = Log::new();
    let ts = "2026-11-21T10:00:00.000000+00:00";
    log.append(FILE, statement(1, ts, "SELECT 1") + "\nnonsense\n");
    let recorded =
        statement(2, ts, "SELECT <secret>").replace("\"sql\"", "\"digest\":\"1:ab\",\"sql\"");
    log.append(FILE, recorded.replace("\"v\":1", "\"v\":1,\"sql_redacted\":true") + "\n");
    let output = tacho(&["digest", log.file(FILE).to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains(" broken line: "), "{}", stderr(&output));
    assert_eq!(stdout(&output), format!("{}\tSELECT ?\n1:ab\tSELECT ?\n", digest_of("SELECT 2")));
}

#[test]
fn tail_finds_the_statements_of_a_digest() {
    let log = Log::new();
    for (seq, digest) in [(1, "1:0123abcd"), (2, "1:01ffabcd"), (3, "1:99ffabcd")] {
        let ts = format!("2026-11-21T10:00:0{seq}.000000+00:00");
        let line = statement(seq, &ts, "SELECT 1");
        log.append(
            FILE,
            line.replace("\"sql\"", &format!("\"digest\":\"{digest}\",\"sql\"")) + "\n",
        );
    }
    let count = |digest: &str| {
        let output = log.tail(&["--format", "json", "--digest", digest]);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        stdout(&output).lines().count()
    };
    assert_eq!((count("01"), count("0123ABCD"), count("1:01ff"), count("ee")), (2, 1, 1, 0));
    assert_eq!(count("01,99"), 3);
    assert_eq!(log.tail(&["--digest", "xyz"]).status.code(), Some(2));
}
