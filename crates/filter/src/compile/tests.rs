use proptest::prelude::*;

use super::*;
use crate::decide::{Decision, Ended, Event, Facts, Session};
use crate::program::{Overflow, Program, Treatment};

const COMMANDS: [&str; 6] = ["select", "create_table", "insert", "drop_table", "", "grant"];
const SELECT: i32 = 0;
const CREATE: i32 = 1;
const DROP: i32 = 3;

fn server() -> Server {
    Server { sql_commands: COMMANDS.map(str::to_owned).to_vec(), tables: true, program: false }
}

fn compiled(text: &str) -> Vec<u8> {
    compile(text, &server()).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn wrong(text: &str) -> String {
    compile(text, &server()).expect_err(text).to_string()
}

const APP: Session<'_> = Session {
    user: b"app",
    host: b"web1.example.org",
    ip: b"10.1.2.3",
    db: b"shop",
    command: b"Query",
};
const WHO: Facts<'_> = Facts { session: Some(APP), event: Event::Statement, ended: None };
const OPEN: Decision =
    Decision::Open(Treatment { skip: false, no_text: false, literals: false, overflow: None });

const SKIPPED: Decision =
    Decision::Known(Treatment { skip: true, no_text: false, literals: false, overflow: None });
const RECORDED: Decision =
    Decision::Known(Treatment { skip: false, no_text: false, literals: false, overflow: None });

fn decide(text: &str, facts: &Facts<'_>) -> Decision {
    Program::new(&compiled(text)).decide(facts)
}

fn ended(sql_command: i32, errno: u32, tables: Option<&[(&[u8], &[u8])]>) -> Decision {
    // Only used with one rule set at a time, see below.
    let text = r#"{"rules": [
        {"class": "ddl", "action": "record"},
        {"errno": ["1000-1999", 2013], "action": "record"},
        {"table": ["shop.log_*", "tmp.*"], "action": "skip"},
        {"table": "shop.secret", "action": "no_text"},
        {"class": ["read", "other"], "action": "skip"}
    ]}"#;
    let ended = Some(Ended { sql_command: Some(sql_command), errno, tables });
    decide(text, &Facts { ended, ..WHO })
}

#[test]
fn nothing_records_everything() {
    assert_eq!(compiled(" \n"), []);
    assert_eq!(Program::new(&[]).decide(&WHO), RECORDED);
    assert_eq!(decide("{}", &WHO), RECORDED);
    assert_eq!(decide(r#"{"default": "skip"}"#, &WHO), SKIPPED);
}

#[test]
fn the_first_rule_that_matches_counts() {
    let text = r#"{
        // Comments are allowed.
        "rules": [
            {"name": "ours", "user": "app", "host": "10.1.0.0/16", "action": "record"},
            {"user": "a*", "action": "skip"}
        ]
    }"#;
    assert_eq!(decide(text, &WHO), RECORDED);
    assert_eq!(
        decide(text, &Facts { session: Some(Session { ip: b"10.2.0.1", ..APP }), ..WHO }),
        SKIPPED
    );
    assert_eq!(
        decide(text, &Facts { session: Some(Session { user: b"root", ..APP }), ..WHO }),
        RECORDED
    );
}

#[test]
fn what_is_known_at_the_start() {
    for (condition, expected) in [
        (r#""db": "shop""#, SKIPPED),
        (r#""db": "Shop""#, RECORDED),
        (r#""db": ["a", "s*"]"#, SKIPPED),
        (r#""host": "*.EXAMPLE.org""#, SKIPPED),
        (r#""host": "10.1.2.?""#, SKIPPED),
        (r#""host": "10.1.2.3""#, SKIPPED),
        (r#""host": "10.1.2.4""#, RECORDED),
        (r#""command": "query""#, SKIPPED),
        (r#""event": "table""#, RECORDED),
        (r#""event": ["table", "statement"]"#, SKIPPED),
        (r#""not": {"user": "app"}"#, RECORDED),
        (r#""not": {"user": "root", "db": "mysql"}"#, SKIPPED),
        (r#""sql_command": "select""#, OPEN),
        (r#""errno": 0"#, OPEN),
        (r#""table": "a.b""#, OPEN),
        (r#""user": "root", "class": "read""#, RECORDED),
    ] {
        let text = format!(r#"{{"rules": [{{{condition}, "action": "skip"}}]}}"#);
        assert_eq!(decide(&text, &WHO), expected, "{text}");
    }
}

#[test]
fn what_cannot_change_the_end_is_not_open() {
    let text = r#"{"default": "skip", "rules": [{"class": "read", "action": "skip"}]}"#;
    assert_eq!(decide(text, &WHO), SKIPPED);
    let text = r#"{"default": "skip", "rules": [{"class": "ddl", "action": "record"}]}"#;
    assert_eq!(decide(text, &WHO), OPEN);
}

#[test]
fn what_is_known_at_the_end() {
    let no_text = Decision::Known(Treatment { no_text: true, ..Treatment::default() });
    fn shop(table: &[u8]) -> (&[u8], &[u8]) {
        (b"shop", table)
    }
    assert_eq!(ended(CREATE, 0, Some(&[shop(b"log_1")])), RECORDED);
    assert_eq!(ended(SELECT, 1146, Some(&[])), RECORDED);
    assert_eq!(ended(SELECT, 2013, Some(&[])), RECORDED);
    assert_eq!(ended(SELECT, 0, Some(&[shop(b"log_1")])), SKIPPED);
    assert_eq!(ended(2, 0, Some(&[shop(b"log_1"), (b"tmp", b"x")])), SKIPPED);
    // Skipping needs all of its tables; a rule that records, any of them.
    assert_eq!(ended(2, 0, Some(&[shop(b"log_1"), shop(b"secret")])), no_text);
    assert_eq!(ended(2, 0, Some(&[])), RECORDED);
    assert_eq!(ended(-1, 0, Some(&[])), SKIPPED, "of class other");
    // Without tables it stays open: it is recorded, but perhaps its text must not be.
    assert_eq!(ended(2, 0, None).treatment(), Treatment { no_text: true, ..Treatment::default() });
    assert!(matches!(ended(2, 0, None), Decision::Open(_)));
}

#[test]
fn a_class_is_that_of_the_command_whatever_the_text() {
    let text = r#"{"default": "skip", "rules": [{"class": "ddl", "action": "record"}]}"#;
    let of = |sql_command| {
        let ended = Some(Ended { sql_command: Some(sql_command), errno: 0, tables: None });
        decide(text, &Facts { ended, ..WHO })
    };
    assert_eq!(of(DROP), RECORDED);
    assert_eq!(of(SELECT), SKIPPED);
    let text = r#"{"rules": [{"sql_command": "*_table", "action": "skip"}]}"#;
    let ended = Some(Ended { sql_command: Some(DROP), errno: 0, tables: None });
    assert_eq!(decide(text, &Facts { ended, ..WHO }), SKIPPED);
}

/// A number without a name is that of a parse error, or of a command that is not SQL.
#[test]
fn what_has_no_class_is_other() {
    let text = r#"{"default": "skip", "rules": [{"class": "other", "action": "record"}]}"#;
    let of = |sql_command| {
        let ended = Some(Ended { sql_command, errno: 0, tables: None });
        decide(text, &Facts { ended, ..WHO })
    };
    assert_eq!(of(Some(165)), RECORDED);
    assert_eq!(of(Some(-1)), RECORDED);
    assert_eq!(of(Some(SELECT)), SKIPPED);
    assert!(matches!(of(None), Decision::Open(_)));
}

/// Inside of a stored program the names are those of its definer.
#[test]
fn of_an_unknown_session_nothing_is_skipped_by_name() {
    let ended = Some(Ended { sql_command: Some(SELECT), errno: 0, tables: None });
    let nested = Facts { session: None, ended, ..WHO };
    let text = r#"{"default": "skip", "rules": [{"user": "dba", "action": "record"}]}"#;
    assert_eq!(decide(text, &nested), OPEN);
    let text = r#"{"rules": [{"user": "monitor", "action": "skip"}]}"#;
    assert_eq!(decide(text, &nested), OPEN);
    let text = r#"{"rules": [{"class": "read", "action": "skip"}]}"#;
    assert_eq!(decide(text, &nested), SKIPPED);
}

#[test]
fn overflow_and_redaction() {
    let text = r#"{"rules": [{"user": "app", "action": "record", "overflow": "DROP",
                              "redact": "LITERALS"}]}"#;
    let treatment =
        Treatment { literals: true, overflow: Some(Overflow::Drop), ..Treatment::default() };
    assert_eq!(decide(text, &WHO), Decision::Known(treatment));
}

#[test]
fn errors_say_where_and_what() {
    for (text, expected) in [
        ("[", "line 1, column 1: "),
        ("{\"rules\": [],}", "line 1, column 13: "),
        ("[]", "line 1, column 1: expected an object with `rules`"),
        ("{\"rule\": []}", "line 1, column 2: unknown key `rule`; there are `default`, `rules`"),
        ("{\"rules\": 1}", "line 1, column 11: expected an array of rules"),
        ("{\n \"rules\": [{}]}", "line 2, column 12: a rule needs an `action`"),
        ("{\"rules\": [{\"action\": \"no\"}]}", "line 1, column 23: `no` is none of `record`"),
        ("{\"rules\": [], \"rules\": []}", "line 1, column 15: key `rules` occurs twice"),
        ("{\"rules\": [{\"usér\": 1}]}", "line 1, column 13: unknown key `usér`"),
    ] {
        assert!(wrong(text).starts_with(expected), "{text}: {}", wrong(text));
    }
    for (condition, expected) in [
        (r#""user": 1"#, "expected a string"),
        (r#""user": []"#, "an empty list"),
        (r#""user": "a%""#, "`%` is no wildcard"),
        (r#""host": "10.0.0.0/33""#, "is no network"),
        (r#""table": "t""#, "needs a database"),
        (r#""errno": -1"#, "expected an error number"),
        (r#""errno": "2-1""#, "2 is greater than 1"),
        (r#""errno": 4294967296"#, "expected an error number"),
        (r#""event": "connect""#, "always recorded"),
        (r#""sql_command": "selekt""#, "no SQL command `selekt`"),
        (r#""class": "dql""#, "`dql` is none of `ddl`"),
        (r#""program": "x""#, "does not tell which program"),
        (r#""overflow": "DROP""#, "what is skipped has no `overflow`"),
        (r#""not": 1"#, "expected an object of conditions"),
        (r#""not": {"action": "skip"}"#, "unknown key `action`"),
    ] {
        let text = format!(r#"{{"rules": [{{{condition}, "action": "skip"}}]}}"#);
        assert!(wrong(&text).contains(expected), "{text}: {}", wrong(&text));
    }
    let late = r#"{"rules": [{"class": "read", "action": "record"},
                              {"user": "a", "action": "record", "overflow": "DROP"}]}"#;
    assert!(wrong(late).contains("before the statement runs"));
}

#[test]
fn deep_and_long_documents_are_refused() {
    assert!(wrong(&"[".repeat(100_000)).contains("too many brackets"));
    assert!(wrong(&format!("// \"\n{}", "[".repeat(100))).contains("too many brackets"));
    assert!(wrong(&format!("/* \" */{}", "[".repeat(100))).contains("too many brackets"));
    assert!(wrong(&format!("[\"\\\"{}", "[".repeat(100))).contains("line 1, column"));
    assert!(wrong(&" {".repeat(TEXT_BYTES_MAX)).contains("more than 1 MiB"));
    let rule = r#"{"action":"skip"},"#;
    let many = format!("{{\"rules\": [{}{{\"action\":\"skip\"}}]}}", rule.repeat(RULES_MAX));
    assert!(wrong(&many).contains("more than 10000 rules"));
}

proptest! {
    #[test]
    fn any_text_compiles_or_is_refused(text in r#"[{}\[\]":,a-z/*\\ \n0-9é]{0,60}"#) {
        let _ = compile(&text, &server());
    }

    /// Damaged bytes decide something, and nothing worse.
    #[test]
    fn damaged_programs_do_no_harm(at in 0usize..200, byte: u8, cut in 0usize..200) {
        let mut bytes = compiled(r#"{"rules": [
            {"user": ["a*", "b"], "host": ["10.0.0.0/8", "*.org"], "action": "skip"},
            {"class": "ddl", "table": "a.*", "errno": "1-5", "action": "record"}]}"#);
        if let Some(place) = bytes.get_mut(at) {
            *place = byte;
        }
        bytes.truncate(cut);
        let tables: &[(&[u8], &[u8])] = &[(b"a", b"b")];
        let ended = Some(Ended { sql_command: Some(1), errno: 3, tables: Some(tables) });
        Program::new(&bytes).decide(&WHO);
        Program::new(&bytes).decide(&Facts { ended, ..WHO });
    }
}
