use proptest::prelude::*;

use super::*;
use crate::block::Begun;
use crate::decide::{Decision, Ended, Event, Facts, Session};
use crate::program::{Action, BLOCK_ERRNO, BLOCK_MESSAGE, Block, Overflow, Program};
use crate::tables::{Coverage, Tables};

const COMMANDS: [&str; 6] = ["select", "create_table", "insert", "drop_table", "", "grant"];
const SELECT: i32 = 0;
const CREATE: i32 = 1;
const DROP: i32 = 3;

fn server() -> Server {
    Server {
        sql_commands: COMMANDS.map(str::to_owned).to_vec(),
        setting_prefix: "tacho.",
        tables: true,
        program: false,
        blocks: true,
    }
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
const WHOLE: Action =
    Action { skip: false, no_text: false, literals: false, overflow: None, block: false };
const OPEN: Decision = Decision::Open(WHOLE);
const SKIPPED: Decision = Decision::Known(Action { skip: true, ..WHOLE });
const RECORDED: Decision = Decision::Known(WHOLE);

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
    let tables = tables.map(|reported| Tables { reported, coverage: Coverage::Complete });
    let ended = Some(Ended { sql_command: Some(sql_command), errno, tables });
    decide(text, &Facts { ended, ..WHO })
}

#[test]
fn an_empty_filter_records_everything() {
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
fn facts_known_at_the_start() {
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
fn rules_that_cannot_change_the_result_leave_nothing_open() {
    let text = r#"{"default": "skip", "rules": [{"class": "read", "action": "skip"}]}"#;
    assert_eq!(decide(text, &WHO), SKIPPED);
    let text = r#"{"default": "skip", "rules": [{"class": "ddl", "action": "record"}]}"#;
    assert_eq!(decide(text, &WHO), OPEN);
}

#[test]
fn facts_known_at_the_end() {
    let no_text = Decision::Known(Action { no_text: true, ..Action::default() });
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
    // Without tables it stays open: it is recorded, but perhaps without its text.
    assert_eq!(ended(2, 0, None).action(), Action { no_text: true, ..Action::default() });
    assert!(matches!(ended(2, 0, None), Decision::Open(_)));
}

/// A table that was not reported may be one that a rule is about.
#[test]
fn a_statement_whose_tables_are_not_all_known_is_recorded() {
    let of = |rules: &str, coverage, table| {
        let reported: &[(&[u8], &[u8])] = &[(b"shop", table)];
        let tables = Some(Tables { reported, coverage });
        let ended = Some(Ended { sql_command: Some(SELECT), errno: 0, tables });
        decide(rules, &Facts { ended, ..WHO })
    };
    let skip = r#"{"rules": [{"table": "shop.log", "action": "skip"}]}"#;
    let skip_others = r#"{"rules": [{"not": {"table": "shop.pay"}, "action": "skip"}]}"#;
    let only = r#"{"default": "skip", "rules": [{"table": "shop.pay", "action": "record"}]}"#;
    for (rules, wanted, unwanted) in
        [(skip, "pay", "log"), (skip_others, "pay", "log"), (only, "pay", "log")]
    {
        for coverage in [Coverage::Complete, Coverage::Doubtful, Coverage::Unknown] {
            assert_eq!(of(rules, coverage, wanted.as_bytes()), RECORDED, "{rules}");
            let expected = if coverage == Coverage::Complete { SKIPPED } else { OPEN };
            assert_eq!(of(rules, coverage, unwanted.as_bytes()), expected, "{rules}");
        }
    }
    let no_text = r#"{"rules": [{"table": "shop.pay", "action": "no_text"}]}"#;
    let kept_out = Action { no_text: true, ..Action::default() };
    for (coverage, is_kept_out) in
        [(Coverage::Complete, false), (Coverage::Doubtful, false), (Coverage::Unknown, true)]
    {
        assert_eq!(of(no_text, coverage, b"pay").action(), kept_out);
        assert_eq!(of(no_text, coverage, b"log").action().no_text, is_kept_out);
    }
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

/// A number without a name belongs to a parse error, or to a command that is not SQL.
#[test]
fn a_statement_without_a_class_is_other() {
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

/// Inside a stored program the names are those of its definer.
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
    let action = Action { literals: true, overflow: Some(Overflow::Drop), ..Action::default() };
    assert_eq!(decide(text, &WHO), Decision::Known(action));
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
        (r#""user": "a%""#, "`%` is not a wildcard"),
        (r#""host": "10.0.0.0/33""#, "is not a network"),
        (r#""table": "t""#, "needs a database"),
        (r#""errno": -1"#, "expected an error number"),
        (r#""errno": "2-1""#, "2 is greater than 1"),
        (r#""errno": 4294967296"#, "expected an error number"),
        (r#""event": "connect""#, "always recorded"),
        (r#""sql_command": "selekt""#, "no SQL command `selekt`"),
        (r#""class": "dql""#, "`dql` is none of `ddl`"),
        (r#""program": "x""#, "does not report the program"),
        (r#""overflow": "DROP""#, "a rule that skips has no `overflow`"),
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

/// The name of the rule that blocks it.
fn blocked(text: &str, session: Session<'_>, sql_command: i32, table: Option<&str>) -> String {
    let bytes = compiled(text);
    let program = Program::new(&bytes);
    let table = table.and_then(|table| table.split_once('.'));
    let table = table.map(|(db, name)| (db.as_bytes(), name.as_bytes()));
    let block = program.blocks(&Begun { session, sql_command, table });
    // A statement is only blocked if `may_block` is true for it.
    assert!(block.is_none() || program.may_block(&session).has(sql_command), "{text}");
    block.map_or(String::new(), |block| String::from_utf8(block.name.to_vec()).unwrap())
}

#[test]
fn the_first_rule_that_matches_blocks_or_not() {
    let text = r#"{"rules": [
        {"user": "dba_*", "action": "record"},
        {"user": "monitor", "action": "skip"},
        {"name": "no definitions", "class": "ddl", "action": "block"},
        {"db": "archive", "not": {"class": "read"}, "action": "block"}
    ]}"#;
    let of = |user: &'static [u8], db: &'static [u8], command| {
        blocked(text, Session { user, db, ..APP }, command, None)
    };
    assert_eq!(of(b"app", b"shop", DROP), "no definitions");
    assert_eq!(of(b"app", b"shop", SELECT), "");
    assert_eq!(of(b"app", b"archive", 2), "rule 4");
    assert_eq!(of(b"app", b"archive", -1), "rule 4");
    assert_eq!(of(b"app", b"archive", SELECT), "");
    assert_eq!(of(b"dba_1", b"archive", DROP), "");
    assert_eq!(of(b"monitor", b"archive", DROP), "");
    let bytes = compiled(text);
    let program = Program::new(&bytes);
    let may =
        |user: &'static [u8], command| program.may_block(&Session { user, ..APP }).has(command);
    // No other command needs a request: whatever the database is, it is not blocked.
    assert!(!may(b"app", SELECT) && may(b"app", DROP) && may(b"app", 2) && may(b"app", -1));
    assert!(!may(b"dba_1", DROP) && !may(b"monitor", 2));
}

#[test]
fn blocked_statements_are_recorded() {
    let text = r#"{"default": "skip", "rules": [{"class": "ddl", "action": "block"}]}"#;
    assert_eq!(decide(text, &WHO), OPEN, "its SQL command is not known yet");
    let of = |sql_command| {
        let ended = Some(Ended { sql_command: Some(sql_command), errno: 3164, tables: None });
        decide(text, &Facts { ended, ..WHO }).action()
    };
    assert!(of(DROP).block && !of(DROP).skip && of(SELECT).skip);
}

#[test]
fn statements_that_no_rule_allows_are_blocked() {
    let text =
        r#"{"default": "block", "rules": [{"class": ["read", "other"], "action": "record"}]}"#;
    assert_eq!(blocked(text, APP, SELECT, None), "");
    assert_eq!(blocked(text, APP, -1, None), "");
    assert_eq!(blocked(text, APP, DROP, None), "default");
}

#[test]
fn each_table_has_its_own_request() {
    let text = r#"{"rules": [
        {"user": "app", "table": "payroll.*", "class": "read", "action": "block"},
        {"user": "guest", "not": {"table": "public.*"}, "action": "block"}
    ]}"#;
    assert_eq!(blocked(text, APP, SELECT, None), "");
    assert_eq!(blocked(text, APP, SELECT, Some("shop.t")), "");
    assert_eq!(blocked(text, APP, SELECT, Some("payroll.t")), "rule 1");
    assert_eq!(blocked(text, APP, 2, Some("payroll.t")), "");
    let guest = Session { user: b"guest", ..APP };
    assert_eq!(blocked(text, guest, SELECT, None), "");
    assert_eq!(blocked(text, guest, SELECT, Some("public.t")), "");
    assert_eq!(blocked(text, guest, SELECT, Some("payroll.t")), "rule 2");
}

#[test]
fn the_answer_to_the_client() {
    let told = |rule: &str| {
        let bytes = compiled(&format!(r#"{{"rules": [{{{rule}"action": "block"}}]}}"#));
        let begun = Begun { session: APP, sql_command: SELECT, table: None };
        let Block { errno, name, message } = Program::new(&bytes).blocks(&begun).unwrap();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        (errno, text(name), text(message))
    };
    let usual = (BLOCK_ERRNO, "rule 1".to_owned(), BLOCK_MESSAGE.to_owned());
    assert_eq!(told(""), usual);
    let own = told(r#""name": "é", "error": 1644, "message": "100 % no", "#);
    assert_eq!(own, (1644, "é".to_owned(), "100 % no".to_owned()));
}

#[test]
fn rules_that_cannot_block_are_refused() {
    for (rules, expected) in [
        (r#"{"errno": "any", "action": "block"}"#, "line 1, column 39: a statement has an `errno`"),
        (
            r#"{"errno": "any", "action": "record"}, {"action": "block"}"#,
            "line 1, column 61: a rule that blocks is decided before the statement runs",
        ),
        (
            r#"{"table": "a.b", "action": "skip"}, {"action": "block"}"#,
            "line 1, column 59: a rule that blocks is decided",
        ),
        (r#"{"action": "record", "error": 3164}"#, "line 1, column 42: only a rule that blocks"),
        (r#"{"action": "skip", "message": "no"}"#, "only a rule that blocks"),
        (r#"{"action": "block", "error": 2006}"#, "expected the number of an error"),
        (r#"{"action": "block", "error": "1644"}"#, "expected the number of an error"),
        (r#"{"action": "block", "error": 65536}"#, "expected the number of an error"),
        (r#"{"action": "block", "error": 1615}"#, "retries the statement"),
        (r#"{"action": "block", "message": ""}"#, "expected 1 to 480 bytes"),
        (r#"{"action": "block", "message": "a\u0000b"}"#, "control characters"),
        (r#"{"action": "blok"}"#, "none of `record`, `skip`, `no_text`, `block`"),
    ] {
        let text = format!(r#"{{"rules": [{rules}]}}"#);
        assert!(wrong(&text).contains(expected), "{text}: {}", wrong(&text));
    }
    let late = r#"{"default": "block", "rules": [{"errno": 0, "action": "record"}]}"#;
    assert!(wrong(late).starts_with("line 1, column 13: a rule that blocks is decided"));
    let cannot = Server { blocks: false, ..server() };
    let error = compile(r#"{"rules": [{"action": "block"}]}"#, &cannot).unwrap_err().to_string();
    assert!(error.starts_with("line 1, column 23: this server cannot block"), "{error}");
    // Two rules that block: the tables of the first one are requested later.
    compiled(
        r#"{"rules": [{"table": "a.b", "action": "block"}, {"class": "ddl", "action": "block"}]}"#,
    );
}

#[test]
fn deep_and_long_documents_are_refused() {
    assert!(wrong(&"[".repeat(100_000)).contains("too many nested brackets"));
    assert!(wrong(&format!("// \"\n{}", "[".repeat(100))).contains("too many nested brackets"));
    assert!(wrong(&format!("/* \" */{}", "[".repeat(100))).contains("too many nested brackets"));
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

    /// Damaged bytes lead to some decision, and to nothing worse.
    #[test]
    fn damaged_programs_do_no_harm(at in 0usize..200, byte: u8, cut in 0usize..200) {
        let mut bytes = compiled(r#"{"rules": [
            {"user": ["a*", "b"], "host": ["10.0.0.0/8", "*.org"], "action": "skip"},
            {"class": "ddl", "db": "s*", "action": "block", "message": "no"},
            {"class": "ddl", "table": "a.*", "errno": "1-5", "action": "record"}]}"#);
        if let Some(place) = bytes.get_mut(at) {
            *place = byte;
        }
        bytes.truncate(cut);
        let reported: &[(&[u8], &[u8])] = &[(b"a", b"b")];
        let tables = Some(Tables { reported, coverage: Coverage::Complete });
        let ended = Some(Ended { sql_command: Some(1), errno: 3, tables });
        Program::new(&bytes).decide(&WHO);
        Program::new(&bytes).decide(&Facts { ended, ..WHO });
        let begun = Begun { session: APP, sql_command: 1, table: Some((b"a", b"b")) };
        Program::new(&bytes).blocks(&begun);
        Program::new(&bytes).may_block(&APP);
    }
}

#[test]
fn a_filter_that_leaves_out_accounts_has_a_warning() {
    for (rules, expected) in [
        (r#"{"default": "skip"}"#, Some("the default")),
        (r#"{"rules": [{"class": ["read", "dcl"], "action": "skip"}]}"#, Some("rule 1")),
        (
            r#"{"rules": [{"user": "a", "action": "record"}, {"db": "d", "action": "skip"}]}"#,
            Some("rule 2"),
        ),
        (r#"{"rules": [{"not": {"class": "read"}, "action": "skip"}]}"#, Some("rule 1")),
        (
            r#"{"rules": [{"class": "dcl", "action": "record"}, {"db": "d", "action": "skip"}]}"#,
            None,
        ),
        (r#"{"default": "skip", "rules": [{"sql_command": "grant", "action": "record"}]}"#, None),
        (r#"{"rules": [{"class": "read", "action": "skip"}]}"#, None),
        (r#"{"rules": [{"table": "mysql.*", "action": "skip"}]}"#, None),
        (r#"{"rules": [{"user": "monitor", "action": "skip"}]}"#, None),
        (r#"{"rules": [{"event": "table", "action": "skip"}]}"#, None),
        (r#"{"default": "skip", "rules": [{"table": "a.*", "action": "record"}]}"#, None),
        ("", None),
    ] {
        let bytes = compiled(rules);
        let warning = server().warning(&Program::new(&bytes));
        assert_eq!(warning.is_some(), expected.is_some(), "{rules}: {warning:?}");
        let names = |it: &str| warning.as_ref().is_some_and(|text| text.contains(it));
        assert!(expected.is_none_or(names), "{rules}: {warning:?}");
    }
}
