use proptest::prelude::*;

use super::*;
use crate::compile::{Server, compile};
use crate::decide::{Ended, Facts, Session, Truth};
use crate::tables::{Coverage as Known, Tables};

const COMMANDS: [&str; 4] = ["select", "insert", "create_table", "grant"];

fn compiled(rules: &[String]) -> Vec<u8> {
    let sql_commands = COMMANDS.map(str::to_owned).to_vec();
    let text = format!(r#"{{"rules": [{}]}}"#, rules.join(","));
    compile(&text, &Server { sql_commands, ..Server::default() })
        .unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// Whether the second rule is covered by the first one.
fn is_covered(earlier: &str, later: &str) -> bool {
    let rule = |text: &str| match text.contains("\"action\"") {
        true => format!("{{{text}}}"),
        false if text.is_empty() => r#"{"action": "skip"}"#.to_owned(),
        false => format!(r#"{{{text}, "action": "skip"}}"#),
    };
    let bytes = compiled(&[rule(earlier), rule(later)]);
    let found = Program::new(&bytes).covered();
    assert_eq!(found.incomplete_from, None);
    match &found.covered[..] {
        [] => false,
        [one] => *one == Covered { rule: 1, by: 0 },
        more => panic!("{more:?}"),
    }
}

#[test]
fn a_rule_is_covered_if_each_earlier_condition_follows() {
    for (earlier, later) in [
        ("", r#""user": "app""#),
        (r#""user": "app""#, r#""user": "app", "db": "shop""#),
        (r#""user": "app*""#, r#""user": ["app_1", "app_2*"]"#),
        (r#""user": ["x", "app"]"#, r#""user": "app""#),
        (r#""user": "a*c""#, r#""user": "ab?*c""#),
        (r#""user": "a?""#, r#""user": "ab""#),
        (r#""host": "10.0.0.0/8""#, r#""host": ["10.1.0.0/16", "10.2.3.4"]"#),
        (r#""host": "*.EXAMPLE.org""#, r#""host": "web*.example.ORG""#),
        (r#""command": "QUERY""#, r#""command": "query""#),
        (r#""class": ["read", "dml"]"#, r#""sql_command": "select""#),
        (r#""not": {"class": "ddl"}"#, r#""class": "read""#),
        (r#""not": {"sql_command": "insert"}"#, r#""not": {"class": ["dml", "dcl"]}"#),
        (r#""errno": "any""#, r#""errno": ["1000-1999", 2013]"#),
        (r#""event": ["statement", "table"]"#, r#""event": "table""#),
        (r#""not": {"event": "table"}"#, r#""event": "statement""#),
        (r#""table": "shop.*""#, r#""table": ["shop.a", "shop.b*"]"#),
        (r#""table": "shop.*", "action": "record""#, r#""table": "shop.a""#),
        (r#""not": {"user": "root"}"#, r#""not": {"user": ["root", "dba_*"]}"#),
        (r#""not": {"table": "a.b"}"#, r#""not": {"table": "a.*"}"#),
    ] {
        assert!(is_covered(earlier, later), "{earlier} covers {later}");
    }
}

#[test]
fn a_rule_that_may_match_alone_is_not_covered() {
    for (earlier, later) in [
        (r#""user": "app", "db": "shop""#, r#""user": "app""#),
        (r#""user": "app_?""#, r#""user": "app_*""#),
        (r#""user": "App""#, r#""user": "app""#),
        (r#""user": "a\\*""#, r#""user": "a*""#),
        (r#""db": "app""#, r#""user": "app""#),
        (r#""user": ["a", "b"]"#, r#""user": ["a", "c"]"#),
        (r#""host": "10.1.0.0/16""#, r#""host": "10.0.0.0/8""#),
        (r#""host": "10.*""#, r#""host": "10.0.0.0/8""#),
        (r#""class": "read""#, r#""class": ["read", "dml"]"#),
        (r#""class": "read""#, r#""not": {"class": "ddl"}"#),
        (r#""errno": "1000-1999""#, r#""errno": "1500-2000""#),
        (r#""event": "statement""#, r#""event": ["statement", "table"]"#),
        // It skips if each of the tables matches, and the later rule needs any.
        (r#""table": "shop.*""#, r#""table": "shop.a", "action": "no_text""#),
        (r#""not": {"table": "a.*"}"#, r#""not": {"table": "a.b"}"#),
        // It removes the text as soon as the tables are probably known.
        (
            r#""not": {"table": "a.b"}, "action": "record""#,
            r#""not": {"table": "a.b"}, "action": "no_text""#,
        ),
        (r#""not": {"user": ["root", "dba_*"]}"#, r#""not": {"user": "root"}"#),
        (r#""not": {"user": "root"}"#, r#""user": "app""#),
    ] {
        assert!(!is_covered(earlier, later), "{earlier} and {later}");
    }
}

#[test]
fn each_covered_rule_is_found_once() {
    let rule = |condition: &str| format!(r#"{{{condition}"action": "record"}}"#);
    let rules =
        [r#""user": "a","#, r#""db": "d","#, r#""user": "a", "db": "d","#, "", r#""db": "e","#];
    let bytes = compiled(&rules.map(rule));
    let pairs: Vec<_> =
        Program::new(&bytes).covered().covered.iter().map(|it| (it.rule, it.by)).collect();
    assert_eq!(pairs, [(2, 0), (4, 3)]);
    assert_eq!(Program::new(&[]).covered(), Coverage::default());
}

#[test]
fn a_filter_that_is_too_long_is_compared_in_part() {
    let names: Vec<String> = (0..40).map(|n| format!(r#""a{n}""#)).collect();
    let rule = format!(r#"{{"user": [{}], "action": "skip"}}"#, names.join(","));
    let bytes = compiled(&[rule.clone(), rule.clone(), rule]);
    let found = |steps| Program::new(&bytes).covered_within(steps);
    let covered = |rule| Covered { rule, by: 0 };
    // 1 + 2 + … + 40 pairs of names, and one pair of rules.
    for (steps, count, incomplete_from) in
        [(820, 0, Some(1)), (821, 1, Some(2)), (1641, 1, Some(2)), (1642, 2, None)]
    {
        let expected = (1..=count).map(covered).collect();
        assert_eq!(found(steps), Coverage { covered: expected, incomplete_from }, "{steps}");
    }
}

/// Conditions over a few values, so that they often overlap.
fn condition() -> impl Strategy<Value = String> {
    let pattern = || r"[ab*?]{0,3}|é\?|\?\*";
    prop_oneof![
        pattern().prop_map(|it| format!(r#""user": "{it}""#)),
        (pattern(), pattern()).prop_map(|(one, two)| format!(r#""db": ["{one}", "{two}"]"#)),
        pattern().prop_map(|it| format!(r#""host": "{it}""#)),
        (0..=32u8).prop_map(|bits| format!(r#""host": "10.1.2.3/{bits}""#)),
        prop::sample::select(vec!["read", "dml", "ddl", "other"])
            .prop_map(|it| format!(r#""class": "{it}""#)),
        prop::sample::select(vec!["select", "*", "create_*"])
            .prop_map(|it| format!(r#""sql_command": "{it}""#)),
        (0..3u32, 0..3u32).prop_map(|(a, b)| format!(r#""errno": "{a}-{}""#, a + b)),
        (pattern(), pattern()).prop_map(|(db, table)| format!(r#""table": "{db}.{table}""#)),
        prop::sample::select(vec!["statement", "table"])
            .prop_map(|it| format!(r#""event": "{it}""#)),
    ]
}

fn key(condition: &str) -> &str {
    condition.split_once(':').map_or("", |(key, _)| key)
}

fn rule() -> impl Strategy<Value = String> {
    let conditions = || prop::collection::vec(condition(), 0..3);
    let action = prop::sample::select(vec![
        r#""action": "skip""#,
        r#""action": "record""#,
        r#""action": "no_text""#,
        r#""action": "record", "redact": "LITERALS""#,
    ]);
    (conditions(), conditions(), action).prop_map(|(mut yes, mut no, action)| {
        for list in [&mut yes, &mut no] {
            list.sort();
            list.dedup_by(|one, other| key(one) == key(other));
        }
        if !no.is_empty() {
            yes.push(format!(r#""not": {{{}}}"#, no.join(",")));
        }
        yes.push(action.to_owned());
        format!("{{{}}}", yes.join(","))
    })
}

/// A text that may have bytes that are no characters.
fn text() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(prop::sample::select(vec![b'a', b'b', 0xc3, 0xa9]), 0..4)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// For whatever is known about a statement: where a covered rule matches, so does the other.
    #[test]
    fn a_covered_rule_never_matches_alone(
        rules in [rule(), rule()],
        (user, db, host) in (text(), text(), text()),
        ip in prop::sample::select(vec!["10.1.2.3", "10.1.9.9", "10.200.0.1", "::1"]),
        is_table: bool,
        is_known: bool,
        sql_command in prop::option::of(-1..5i32),
        errno in 0..4u32,
        tables in prop::collection::vec((text(), text()), 0..3),
        coverage in prop::sample::select(vec![Known::Complete, Known::Doubtful, Known::Unknown]),
        has_tables: bool,
        has_ended: bool,
    ) {
        let bytes = compiled(&rules);
        let program = Program::new(&bytes);
        let Some(&Covered { rule, by }) = program.covered().covered.first() else { return Ok(()) };
        let reported: Vec<(&[u8], &[u8])> = tables.iter().map(|(a, b)| (&a[..], &b[..])).collect();
        let tables = has_tables.then_some(Tables { reported: &reported, coverage });
        let session = Session { user: &user, host: &host, ip: ip.as_bytes(), db: &db, command: b"" };
        let facts = Facts {
            session: is_known.then_some(session),
            event: if is_table { Event::Table } else { Event::Statement },
            ended: has_ended.then_some(Ended { sql_command, errno, tables }),
        };
        let holds = |index: usize| program.rules().nth(index).unwrap().holds(&facts);
        if holds(rule) == Truth::Yes {
            prop_assert!(holds(by) == Truth::Yes, "{rules:?}");
        }
    }
}
