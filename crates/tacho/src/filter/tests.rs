//! Tests of the filters of lines.

use clap::Parser;
use tacho_record::{EventKind, Line, Outcome};

use super::*;

#[derive(Parser)]
struct Command {
    #[command(flatten)]
    filter: FilterArgs,
}

/// The filters of a command line.
pub(super) fn args(args: &[&str]) -> FilterArgs {
    Command::parse_from(["x"].iter().chain(args)).filter
}

fn fit(args: &[&str], fields: &str) -> Fit {
    let text = format!(r#"{{"v":1,"seq":7,"ts":"2026-11-21T10:00:00Z",{fields}}}"#);
    let filter = Filter::new(&self::args(args), Window::default());
    filter.judge(&Line::parse(text.as_bytes()).unwrap()).unwrap()
}

fn matches(args: &[&str], fields: &str) -> bool {
    fit(args, fields) == Fit::Yes
}

const STATEMENT: &str = r#""event":"statement","outcome":"error","errno":1064,"run":3,"conn":7,
    "user":"app_rw","priv_user":"app","host":"Web1","ip":"10.0.0.5","db":"shop",
    "sql_command":"create_table","sql":"CREATE TABLE t","digest":"1:00ffab",
    "rows_sent":2,"rows_affected":5,"query_time_us":1500,
    "tables":[{"access":"create","db":"archive","table":"t.2026"},
        {"access":"rename","db":"d","table":"old","new_db":"e","new_table":"new"}]"#;

/// Has no member that a filter looks at, except `event`.
const BARE: &str = r#""event":"stop""#;

#[test]
fn each_filter_alone_and_its_opposite() {
    let cases = [
        ("user", "app_rw", "App_rw"),
        ("user", "app", "root"),
        ("db", "shop", "sho"),
        ("db", "arch*", "mysql"),
        ("db", "e", "new"),
        ("table", "archive.t.2026", "archive.t"),
        ("table", "e.*", "shop.*"),
        ("table", "*.old", "d.new"),
        ("table", "*", "x*"),
        ("host", "web*", "db*"),
        ("host", "10.0.0.*", "10.0.1.*"),
        ("conn", "7", "8"),
        ("run", "3", "4"),
        ("event", "statement", "connect"),
        ("sql-command", "CREATE_*", "select"),
        ("errno", "1064", "0"),
        ("outcome", "error", "ok"),
        ("grep", "(?i)create table", "create table"),
        ("digest", "00f", "1:ab"),
    ];
    for (name, yes, no) in cases {
        let option = format!("--{name}");
        let not = format!("--not-{name}");
        assert!(matches(&[&option, yes], STATEMENT), "{option} {yes}");
        assert!(!matches(&[&option, no], STATEMENT), "{option} {no}");
        assert!(!matches(&[&not, yes], STATEMENT), "{not} {yes}");
        assert!(matches(&[&not, no], STATEMENT), "{not} {no}");
        // One matching value of a list suffices.
        assert!(matches(&[&option, no, &option, yes], STATEMENT), "{option} twice");
        assert!(!matches(&[&not, no, &not, yes], STATEMENT), "{not} twice");
        if name != "grep" {
            assert!(matches(&[&option, &format!("{no},{yes}")], STATEMENT), "{option} list");
        }
        // A line without the member has no value, except that of a success.
        if name != "event" && no != "0" {
            assert!(!matches(&[&option, yes], BARE), "{option} without the member");
            assert!(matches(&[&not, yes], BARE), "{not} without the member");
        }
    }
    for by in Criterion::ALL {
        assert!(cases.iter().any(|(name, ..)| *name == by.option(false)), "{by:?} is tested");
    }
    assert!(matches(&["--errno", "0"], BARE) && !matches(&["--not-errno", "0"], BARE));
    assert!(matches(&["--user", ""], BARE) && !matches(&["--user", ""], STATEMENT));
}

#[test]
fn bounds() {
    for (args, statement, bare) in [
        (["--min-time", "1500us"], true, false),
        (["--min-time", "2ms"], false, false),
        (["--min-time", "0s"], true, false),
        (["--min-rows", "5"], true, false),
        (["--min-rows", "6"], false, false),
        (["--seq", "7"], true, true),
        (["--seq", "1-7"], true, true),
        (["--seq", "8-"], false, false),
    ] {
        assert_eq!(matches(&args, STATEMENT), statement, "{args:?}");
        assert_eq!(matches(&args, BARE), bare, "{args:?} without the members");
    }
}

#[test]
fn statements_without_a_time_can_be_kept() {
    let filter = |fields: &str| {
        let text = format!(r#"{{"v":1,"seq":7,"ts":"2026-11-21T10:00:00Z",{fields}}}"#);
        let filter = Filter::new(&args(&["--min-time", "1s"]), Window::default());
        let line = Line::parse(text.as_bytes()).unwrap();
        filter.keeping_unmeasured().judge(&line).unwrap()
    };
    assert_eq!((filter(BARE), filter(STATEMENT)), (Fit::Yes, Fit::No));
}

#[test]
fn every_possible_value_can_be_filtered() {
    for kind in EventKind::ALL.map(EventKind::name) {
        let line = STATEMENT.replace("statement", kind);
        assert!(matches(&["--event", kind], &line), "{kind}");
        assert!(!matches(&["--not-event", kind], &line), "{kind}");
    }
    for outcome in Outcome::ALL.map(Outcome::name) {
        let line = STATEMENT.replace("\"error\"", &format!("\"{outcome}\""));
        assert!(matches(&["--outcome", outcome], &line), "{outcome}");
    }
}

#[test]
fn all_filters_must_match() {
    assert!(matches(&["--user", "app", "--conn", "7", "--not-db", "hr"], STATEMENT));
    assert!(!matches(&["--user", "app", "--conn", "8"], STATEMENT));
    assert!(!matches(&["--user", "app", "--not-conn", "7"], STATEMENT));
}

#[test]
fn only_filters_by_event_and_number_hide_a_gap() {
    let lost = r#""event":"lost","count":3,"cause":"dropped""#;
    let hidden = ["--user", "app", "--grep", "x", "--outcome", "ok", "--min-time", "1s"];
    assert_eq!(fit(&hidden, lost), Fit::Gap);
    assert_eq!(fit(&[], lost), Fit::Yes);
    assert_eq!(fit(&["--event", "lost"], lost), Fit::Yes);
    assert_eq!(fit(&["--event", "statement"], lost), Fit::No);
    assert_eq!(fit(&["--not-event", "lost"], lost), Fit::No);
    assert_eq!(fit(&["--seq", "8-"], lost), Fit::No);
}

#[test]
fn connection_ids_may_be_of_several_runs() {
    let may_mix = |args: &[&str]| Filter::new(&self::args(args), Window::default()).may_mix_runs();
    assert!(may_mix(&["--conn", "7"]) && may_mix(&["--conn", "7", "--run", "3,4"]));
    assert!(may_mix(&["--conn", "7", "--not-run", "3"]));
    assert!(!may_mix(&["--conn", "7", "--run", "3"]) && !may_mix(&["--not-conn", "7"]));
}

#[test]
fn a_filter_reads_the_fields_that_it_looks_at() {
    for by in Criterion::ALL {
        let value = match by {
            Criterion::Event => "statement",
            Criterion::Outcome => "ok",
            Criterion::Table => "a.b",
            _ => "1",
        };
        let args = args(&[&format!("--{}", by.option(false)), value]);
        let fields = Filter::new(&args, Window::default()).fields();
        assert!(fields_of(*by).iter().all(|field| fields.has(*field)), "{by:?}");
    }
}

#[test]
fn wrong_values_are_refused() {
    for args in [
        ["--grep", "("],
        ["--not-grep", "("],
        ["--not-event", "conect"],
        ["--table", "orders"],
        ["--conn", "x"],
        ["--errno", "4294967296"],
        ["--min-time", "soon"],
        ["--min-rows", "-1"],
        ["--seq", "9-7"],
        ["--digest", "xyz"],
        ["--run", "first"],
    ] {
        assert!(Command::try_parse_from(["x"].iter().chain(&args)).is_err(), "{args:?}");
    }
}
