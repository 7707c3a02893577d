//! Zone: outside. Every kind of client command on a real server: which lines it has, with which
//! fields. The expected lines are `docs/specs/commands.md`, which is also for readers; with
//! `TACHO_BLESS=1` it is rewritten, to be reviewed before it is committed.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use crate::command_cases::{CASES, World};
use tacho_tests::raw::{Raw, com};
use tacho_tests::recorded::{self, Line};
use tacho_tests::server::{Release, TestServer, release};

/// Errors that the cases cause on purpose.
const ALLOWED: &[&str] = &[
    "Aborted connection",
    "Access denied",
    "max_open_files",
    "Deadlock",
    "Event Scheduler",
    "[root@localhost]",
    "mariadbd: Got error",
    "skip-name-resolve",
];

fn spec_path() -> PathBuf {
    tacho_tests::source_root().join("docs/specs/commands.md")
}

fn differences_path() -> PathBuf {
    tacho_tests::source_root().join("docs/specs/commands-11.8.md")
}

fn server(options: &[&str]) -> TestServer {
    let mut builder = TestServer::builder()
        .option("plugin-load-add=tacho")
        .option("log-bin=binlog")
        .option("server-id=1")
        .option("log-bin-trust-function-creators=1")
        .option("event-scheduler=ON")
        .option("query-cache-type=ON")
        .option("query-cache-size=1M")
        .option("local-infile=1")
        .option("max-statement-time=0")
        .option("max-recursive-iterations=100")
        .option("max-sp-recursion-depth=20")
        .option("innodb-lock-wait-timeout=1");
    for option in options {
        builder = builder.option(option);
    }
    builder.start().expect("a server")
}

/// Runs all cases and gives the lines of each.
fn record_cases(options: &[&str]) -> Vec<Recorded> {
    let mut server = server(options);
    let world = World::new(&server);
    world.root().must(crate::command_cases::SETUP);
    let mut conns = Vec::new();
    for case in CASES {
        let raw = Raw::connect(server.socket(), "root").expect("a session");
        let conn = raw.conn;
        // Shown only if the test fails.
        println!("{conn}: {}", case.name);
        if let Some(mut raw) = (case.run)(&world, raw) {
            raw.command(com::QUIT, b"").expect("quitting");
        }
        let mut shown = world.shown.take();
        shown.push(conn);
        conns.push(shown);
    }
    let directory = server.data_directory().join("tacho");
    server.stop().expect("stopping");
    server.assert_clean_log(ALLOWED);
    let lines = recorded::read(&directory).expect("a good log");
    let of_conns = |conns: Vec<u64>| {
        conns.into_iter().flat_map(|conn| recorded::of_conn(&lines, conn)).cloned().collect()
    };
    let all = CASES
        .iter()
        .zip(conns)
        .map(|(case, conns)| Recorded { name: case.name, lines: of_conns(conns) });
    all.collect()
}

/// The lines of one case.
struct Recorded {
    name: &'static str,
    lines: Vec<Line>,
}

fn describe(recorded: &[Recorded]) -> String {
    let mut out = String::from(crate::command_cases::PREFACE);
    let mut group = "";
    for (case, recorded) in CASES.iter().zip(recorded) {
        if case.group != group {
            group = case.group;
            let _ = write!(out, "\n## {group}\n");
        }
        let _ = write!(out, "\n### {}\n\n", case.name);
        if !case.note.is_empty() {
            let _ = write!(out, "{}\n\n", case.note);
        }
        let _ = writeln!(out, "```text");
        for line in &recorded.lines {
            let _ = writeln!(out, "{}", recorded::brief(line));
        }
        let _ = writeln!(out, "```");
    }
    out
}

/// `same` removes what may differ.
fn assert_as_specified(recorded: &[Recorded], same: fn(&str) -> String) {
    let found = describe(recorded);
    for Recorded { name, lines } in recorded {
        let problems = recorded::problems(&lines.iter().collect::<Vec<_>>());
        assert!(problems.is_empty(), "{name}: {}", problems.join("\n"));
    }
    let expected = specified();
    for (found, expected) in found.split("\n### ").zip(expected.split("\n### ")) {
        assert_eq!(same(found), same(expected));
    }
    assert_eq!(
        same(&found).len(),
        same(&expected).len(),
        "cases are missing from docs/specs/commands.md"
    );
}

/// The expected lines of the tested server: `docs/specs/commands.md`, and on 11.8 the cases of
/// `docs/specs/commands-11.8.md` instead of those.
fn specified() -> String {
    let all = std::fs::read_to_string(spec_path()).expect("docs/specs/commands.md");
    if release() == Release::System {
        return all;
    }
    let others = std::fs::read_to_string(differences_path()).expect("commands-11.8.md");
    let name = |case: &str| case.split('\n').next().map(str::to_owned);
    let others: BTreeMap<_, _> = others.split("\n### ").map(|case| (name(case), case)).collect();
    let all = without_examined(&all);
    let cases: Vec<String> = all
        .split("\n### ")
        .map(|case| match (lines_of(case), others.get(&name(case)).and_then(|it| lines_of(it))) {
            (Some(lines), Some(others)) => case.replace(lines, others),
            _ => case.to_owned(),
        })
        .collect();
    cases.join("\n### ")
}

/// The block of lines in a case.
fn lines_of(case: &str) -> Option<&str> {
    let (_, rest) = case.split_once("```text\n")?;
    rest.split_once("```").map(|(lines, _)| lines)
}

fn without_examined(text: &str) -> String {
    let mut words = Vec::new();
    for word in text.split(' ') {
        match word.strip_prefix("examined=") {
            None => words.push(word.to_owned()),
            // The line may end with it.
            Some(rest) => {
                let end = rest.trim_start_matches(|digit: char| digit.is_ascii_digit());
                if let (false, Some(last)) = (end.is_empty(), words.last_mut()) {
                    last.push_str(end);
                }
            }
        }
    }
    words.join(" ")
}

#[test]
fn every_command_is_recorded_as_specified() {
    let recorded = record_cases(&[]);
    // The differences of 11.8 are written by hand.
    if std::env::var_os("TACHO_BLESS").is_some() && release() == Release::System {
        std::fs::write(spec_path(), describe(&recorded)).expect("writing");
    }
    assert_as_specified(&recorded, str::to_owned);
}

/// A connection moves between threads there. Only the reason why an idle session ended is reported
/// in fewer cases; and a statement whose connection is killed may fail when its row is sent, if the
/// socket was closed first.
#[test]
fn a_pool_of_threads_makes_no_difference() {
    let recorded = record_cases(&["thread-handling=pool-of-threads", "thread-pool-size=2"]);
    assert_as_specified(&recorded, |text| {
        text.replace("disconnect 1927/-", "disconnect")
            .replace("disconnect 1158/-", "disconnect")
            .replace(
                "error 1160/08S01 \"SELECT SLEEP(100)\" sent=1",
                "error 1927/70100 \"SELECT SLEEP(100)\" sent=0",
            )
    });
}

/// With it, the server also announces logins and commands that have no text, and shows parameters in
/// their places.
#[test]
fn the_general_log_makes_no_difference_but_for_parameters() {
    let recorded = record_cases(&["general-log=ON"]);
    assert_as_specified(&recorded, |text| {
        let lines = text.split('\n').map(|line| match (line.find('"'), line.rfind('"')) {
            (Some(begin), Some(end)) if line.contains("xecute ") => {
                format!("{}{}", &line[..begin], &line[end..])
            }
            _ => line.to_owned(),
        });
        lines.collect::<Vec<_>>().join("\n")
    });
}
