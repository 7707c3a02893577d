//! The writer keeps what it knows of a text for its next line: that changes no byte of a line.

mod support;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use support::{emit, event, place};
use tacho_probe::{Probe, Thread};
use tacho_recorder::control::Control;
use tacho_ring::codec::{Bytes, Event, RecordKind, STRING_CHARSET, STRING_COMMAND, STRING_DB};
use tacho_ring::layout::{REDACT_LITERALS, REDACT_SECRETS};
use tacho_settings::Setting;

/// A statement, and the settings when its line is written.
#[derive(Clone, Copy, Debug)]
struct Case {
    text: &'static [u8],
    charset: &'static str,
    db: &'static str,
    command: &'static str,
    /// The first of several in its packet: the rest of the text does not belong to it.
    has_rest: bool,
    is_failed: bool,
    digest: bool,
    max_bytes: u64,
    literals: bool,
}

const USUAL: Case = Case {
    text: b"SELECT 1",
    charset: "utf8mb4",
    db: "shop",
    command: "Query",
    has_rest: false,
    is_failed: false,
    digest: true,
    max_bytes: 0,
    literals: false,
};

/// Texts with and without secrets, characters to be escaped, and bytes that are no characters.
fn texts() -> Vec<&'static [u8]> {
    // The longest text that is kept, and its neighbours.
    let long = [2047, 2048, 2049].map(|bytes| -> &'static [u8] {
        format!("SELECT '{}'", "x".repeat(bytes - 9)).into_bytes().leak()
    });
    let short: [&[u8]; 15] = [
        b"",
        b"x",
        b"COMMIT",
        b"SELECT c FROM sbtest1 WHERE id=5031",
        b"SELECT c FROM sbtest1 WHERE id=5032",
        b"SELECT \"a\\\\b\",\n\t'\x01'",
        "SELECT 'M\u{fc}ller', '\u{1f600}'".as_bytes(),
        b"SELECT '\xE4\xFF'",
        b"SELECT '\x83\\', 1",
        b"SELECT secret, password FROM t",
        b"CREATE USER a IDENTIFIED BY 'q7Zk9'",
        b"SELECT 1 /* http://u:q7Zk9@host */",
        b"UPDATE user SET plugin='q7Zk9'",
        b"SELECT 'a','sql_charset':'b'",
        b"SELECT 1; SELECT 2",
    ];
    short.into_iter().chain(long).collect()
}

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for text in texts() {
        let usual = Case { text, ..USUAL };
        cases.extend([
            usual,
            Case { charset: "latin1", ..usual },
            Case { charset: "sjis", ..usual },
            Case { charset: "utf16", ..usual },
            Case { charset: "binary", ..usual },
            Case { charset: "utf8", ..usual },
            Case { charset: "klingon", ..usual },
            Case { charset: "", ..usual },
            Case { db: "mysql", ..usual },
            Case { command: "Init DB", ..usual },
            Case { command: "Ping", ..usual },
            Case { has_rest: true, ..usual },
            Case { is_failed: true, ..usual },
            Case { digest: false, ..usual },
            Case { max_bytes: 10, ..usual },
            Case { literals: true, ..usual },
        ]);
    }
    cases
}

/// The lines of the cases, in their order, by one writer, without the parts that count.
fn lines_of(cases: &[Case]) -> Vec<String> {
    let place = place();
    let file = place.arena();
    let control = Arc::new(Control::default());
    let mut writer = place.writer_of(file.arena(), control.clone());
    let (probe, mut thread) = (Probe::new(file.arena(), 1), Thread::default());
    for case in cases {
        control.set(Setting::Digest, case.digest.into());
        control.set(Setting::MaxStatementBytes, case.max_bytes);
        let redact = if case.literals { REDACT_LITERALS } else { REDACT_SECRETS };
        file.arena().shared().settings.0.redact.store(redact, Ordering::Relaxed);
        let ts_us = 1_795_222_923_123_456;
        let mut start = Event { ts_us, ..event(RecordKind::Start, 1, 7, case.text) };
        start.strings[STRING_CHARSET] = Bytes::of(case.charset.as_bytes());
        start.strings[STRING_DB] = Bytes::of(case.db.as_bytes());
        start.strings[STRING_COMMAND] = Bytes::of(case.command.as_bytes());
        emit(&probe, &mut thread, &start);
        let mut end = Event { ts_us: ts_us + 87, present: 0, ..event(RecordKind::End, 1, 7, b"") };
        end.shown_bytes = if case.has_rest { case.text.len() as u32 / 2 } else { u32::MAX };
        if case.is_failed {
            let message = b"You have an error near 'q7Zk9'";
            emit(
                &probe,
                &mut thread,
                &Event { ts_us, errno_: 1064, ..event(RecordKind::Error, 1, 7, message) },
            );
            end.errno_ = 1064;
        }
        emit(&probe, &mut thread, &end);
        assert!(writer.round());
    }
    assert!(writer.finish());
    let mut lines = place.lines();
    let stop = lines.pop().expect("a line");
    assert!(stop.contains("\"event\":\"stop\""), "{stop}");
    lines.iter().map(|line| without_numbers(line)).collect()
}

/// A line without `seq` and `conn_seq`.
fn without_numbers(line: &str) -> String {
    let mut line = line.to_owned();
    for key in ["\"seq\":", ",\"conn_seq\":"] {
        let Some(at) = line.find(key) else { continue };
        let digits = line[at + key.len()..].bytes().take_while(u8::is_ascii_digit).count();
        line.replace_range(at..at + key.len() + digits, "");
    }
    line
}

#[test]
fn lines_of_repeated_texts_are_those_of_new_texts() {
    let cases = cases();
    let alone: Vec<String> = cases
        .iter()
        .map(|case| {
            let [line] = &lines_of(std::slice::from_ref(case))[..] else { panic!("{case:?}") };
            line.clone()
        })
        .collect();
    // Each of them a few times in a row, and all of them again: with other settings in between.
    let several = cases.iter().flat_map(|case| [*case; 3]);
    let repeated: Vec<Case> = several.chain(cases.iter().copied()).collect();
    let expected = alone.iter().flat_map(|line| [line; 3]).chain(&alone);
    let lines = lines_of(&repeated);
    assert_eq!(lines.len(), repeated.len());
    for ((line, expected), case) in lines.iter().zip(expected).zip(&repeated) {
        assert_eq!(line, expected, "{case:?}");
    }
    assert!(!lines.concat().contains("IDENTIFIED BY 'q7Zk9'"), "a secret");
}
