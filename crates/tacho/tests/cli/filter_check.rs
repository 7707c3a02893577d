//! `tacho filter check` on filters and logs whose content is known.

use std::process::Output;

use serde_json::Value;

use crate::support::{Log, stderr, stdout, tacho};

const FIRST: &str = "audit-20261121T100000Z-000001.jsonl";
const SECOND: &str = "audit-20261121T110000Z-000002.jsonl";

/// Runs the check of a filter, which is in the directory of the log.
fn check(log: &Log, filter: impl AsRef<[u8]>, args: &[&str]) -> Output {
    let file = log.file("filter.json");
    std::fs::write(&file, filter).unwrap();
    tacho(&[&["filter", "check", file.to_str().unwrap()], args].concat())
}

/// Its result without the path.
fn result(log: &Log, filter: impl AsRef<[u8]>, code: i32, args: &[&str]) -> Vec<String> {
    let output = check(log, filter, args);
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(code), ""), "{args:?}");
    let path = format!("{}: ", log.file("filter.json").display());
    stdout(&output).lines().map(|line| line.replace(&path, "")).collect()
}

fn json(log: &Log, filter: &str, code: i32, args: &[&str]) -> Value {
    let lines = result(log, filter, code, &[args, &["--format", "json"]].concat());
    assert_eq!(lines.len(), 1);
    serde_json::from_str(&lines[0]).unwrap()
}

fn line(seq: u64, fields: &str) -> String {
    format!(
        "{{\"v\":1,\"seq\":{seq},\"ts\":\"2026-11-21T10:00:{seq:02}.000000+00:00\",{fields}}}\n"
    )
}

fn statement(seq: u64, fields: &str) -> String {
    let fields =
        format!(r#""event":"statement","outcome":"ok","run":1,"conn":7,"conn_seq":{seq},{fields}"#);
    line(seq, &fields)
}

#[test]
fn every_wrong_rule_has_its_place() {
    let text = "{\"rules\": [\n  {\"usr\": \"a\", \"action\": \"skip\"},\n  {\"user\": \"ü\", \
                \"action\": \"skip\"},\n  {\"name\": \"é\", \"action\": \"stop\"}\n]}";
    let log = Log::new();
    let lines = result(&log, text, 1, &[]);
    assert_eq!(lines.len(), 3, "{lines:?}");
    assert!(lines[0].starts_with("line 2, column 4: unknown key `usr`; there are "), "{lines:?}");
    assert!(lines[1].starts_with("line 4, column 27: `stop` is none of "), "{lines:?}");
    assert_eq!(lines[2], "2 errors");
    let value = json(&log, text, 1, &[]);
    assert_eq!(value["valid"], false);
    assert_eq!(
        (&value["errors"][1]["line"], &value["errors"][1]["column"]),
        (&4.into(), &27.into())
    );
    assert_eq!(result(&log, "{", 1, &[]).len(), 2);
    assert_eq!(result(&log, b"{\n\xff", 1, &[])[0], "line 2, column 1: not UTF-8");
    let many = format!(r#"{{"rules": [{}]}}"#, vec!["7"; 300].join(","));
    assert_eq!(result(&log, many, 1, &[])[100], "100 errors");
}

#[test]
fn a_filter_is_checked_for_a_product() {
    let log = Log::new();
    let blocks = r#"{"rules": [{"sql_command": "replica_x", "action": "block"}]}"#;
    assert!(result(&log, blocks, 1, &[])[0].contains("no SQL command `replica_x`"));
    for (command, action, any, mariadb, mysql) in [
        ("call", "skip", 0, 1, 0),
        ("call_procedure", "skip", 0, 0, 1),
        ("select", "block", 0, 1, 0),
        ("show_*", "skip", 0, 0, 0),
    ] {
        let text =
            format!(r#"{{"rules": [{{"sql_command": "{command}", "action": "{action}"}}]}}"#);
        for (args, code) in
            [(&[][..], any), (&["--product", "mariadb"], mariadb), (&["--product", "mysql"], mysql)]
        {
            assert_eq!(check(&log, &text, args).status.code(), Some(code), "{text} {args:?}");
        }
    }
}

#[test]
fn rules_that_never_match_have_a_warning() {
    let text = "{\"rules\": [\n{\"class\": \"dcl\", \"action\": \"record\"},\n{\"name\": \"apps\", \
                \"user\": \"app_*\", \"db\": \"t\", \"action\": \"skip\"},\n {\"user\": \"app_1\", \
                \"db\": \"t\", \"action\": \"no_text\"}\n]}";
    let log = Log::new();
    assert_eq!(
        result(&log, text, 0, &[]),
        [
            "line 4, column 2: warning: rule 3: it can never be the first rule that matches: rule 2 \
             (\"apps\", line 3) matches everything that it matches",
            "valid, 3 rules, 1 warning",
        ]
    );
    let value = json(&log, text, 0, &[]);
    let warning = &value["warnings"][0];
    assert_eq!((&warning["rule"], &warning["line"]), (&3.into(), &4.into()));
    let skips_all = result(&log, r#"{"default": "skip"}"#, 0, &[]);
    assert!(
        skips_all[0].starts_with("warning: the filter can leave out statements about accounts")
    );
    let tables = r#"{"rules": [{"table": "a.*", "action": "no_text"}]}"#;
    assert!(result(&log, tables, 0, &[])[0].contains("tacho_tables=ON"));
    assert_eq!(result(&log, " \n", 0, &[]), ["valid, 0 rules, 0 warnings"]);
}

/// Eleven lines in two files.
fn sample() -> Log {
    let log = Log::new();
    let monitor = r#""user":"monitor","ip":"10.1.2.3","command":"Query""#;
    log.append(FIRST, line(1, r#""event":"start","run":1,"server":"MariaDB 10.11""#));
    log.append(FIRST, line(2, &format!(r#""event":"connect",{monitor}"#)));
    for seq in 3..=5 {
        let fields = format!(r#"{monitor},"sql_command":"select","sql":"SELECT {seq}""#);
        log.append(FIRST, statement(seq, &fields));
    }
    log.append(FIRST, statement(6, r#""user":"monitor","command":"Ping""#));
    // A statement that ran for long.
    let long = r#""user":"monitor","ip":"10.1.2.3","command":"Query","sql_command":"select""#;
    let running = statement(7, long).replace("\"ok\"", "\"running\"");
    log.append(FIRST, running);
    log.append(SECOND, statement(8, &format!(r#"{long},"running_seq":7"#)));
    log.append(
        SECOND,
        statement(9, r#""user":"app","command":"Query","sql_command":"insert","errno":1062"#),
    );
    log.append(
        SECOND,
        statement(10, r#""user":"app","command":"Query","sql_command":"from_2031""#),
    );
    log.append(SECOND, line(11, r#""event":"statement","outcome":"error","errno":1243"#));
    log
}

const FILTER: &str = r#"{"default": "skip", "rules": [
    {"name": "errors", "errno": "any", "action": "record"},
    {"user": "monitor", "host": "10.0.0.0/8", "action": "skip"},
    {"user": "monitor", "class": "other", "action": "no_text"},
    {"user": "app", "class": "read", "action": "record"}
]}"#;

#[test]
fn a_dry_run_counts_what_each_rule_decides() {
    let log = sample();
    let path = log.path().to_str().unwrap().to_owned();
    let value = json(&log, FILTER, 0, &["--log", &path]);
    let run = &value["dry_run"];
    let lines = |name: &str| run[name]["lines"].as_u64().unwrap();
    assert_eq!(lines("lines"), 11, "{run:#}");
    assert_eq!(lines("skipped"), 3);
    // Its class is not known, so the last rule may match.
    assert_eq!(lines("undecided"), 1);
    // The start, the login, both lines of the long statement, the error without a statement.
    assert_eq!((lines("always_recorded"), lines("default")), (5, 0));
    let by_rule: Vec<u64> =
        run["by_rule"].as_array().unwrap().iter().map(|it| it["lines"].as_u64().unwrap()).collect();
    assert_eq!(by_rule, [1, 3, 1, 0]);
    let bytes = |seqs: &[u64]| -> u64 {
        let text = [FIRST, SECOND].map(|name| std::fs::read_to_string(log.file(name)).unwrap());
        let text = text.concat();
        let is_one = |line: &&str| {
            seqs.iter().any(|seq| line.starts_with(&format!("{{\"v\":1,\"seq\":{seq},")))
        };
        text.lines().filter(is_one).map(|line| line.len() as u64 + 1).sum()
    };
    assert_eq!(run["skipped"]["bytes"], bytes(&[3, 4, 5]));
    assert_eq!(run["lines"]["bytes"], bytes(&(1..=11).collect::<Vec<_>>()));
    let examples = run["examples"].as_array().unwrap();
    assert_eq!(examples.len(), 1);
    assert_eq!(
        (&examples[0]["rule"], &examples[0]["seq"], &examples[0]["sql"], &examples[0]["lines"]),
        (&2.into(), &3.into(), &"SELECT 3".into(), &3.into())
    );
    assert_eq!(run["last"], "2026-11-21T10:00:11.000000+00:00");
}

#[test]
fn the_text_has_the_share_the_rules_and_examples() {
    let log = sample();
    let path = log.path().to_str().unwrap().to_owned();
    let lines = result(&log, FILTER, 0, &["--log", &path]);
    let at = |start: &str| {
        lines
            .iter()
            .position(|line| line.starts_with(start))
            .unwrap_or_else(|| panic!("{lines:#?}"))
    };
    let share = &lines[at("would skip")];
    assert!(share.starts_with("would skip 27.2 % of the lines (3 of 11) and "), "{share}");
    assert!(share.ends_with(" from 2026-11-21 10:00:01 to 2026-11-21 10:00:11"), "{share}");
    let words = |index: usize| lines[index].split_whitespace().collect::<Vec<_>>();
    let table = at("RULE");
    assert_eq!(words(table + 1)[..4], ["1", "2", "record", "1"]);
    assert!(lines[table + 1].ends_with("errors"));
    assert_eq!(words(table + 2)[..6], ["2", "3", "skip", "3", "27.2", "%"]);
    assert!(lines[table + 5].ends_with("no rule matches: default"));
    let examples = at("LINES");
    assert_eq!(words(examples + 1), ["3", "2", "monitor", "select", "3", "SELECT", "3"]);
    // Only the second file has lines of this time.
    let since = ["--log", &path, "--since", "2026-11-21T10:00:08Z"];
    let later = result(&log, FILTER, 0, &since);
    assert!(later.iter().any(|line| line.contains("0.0 % of the lines (0 of 4)")), "{later:#?}");
}

#[test]
fn rules_by_table_see_the_tables_of_a_line() {
    let log = Log::new();
    let with = |tables: &[&str]| {
        let tables: Vec<String> = tables
            .iter()
            .map(|name| format!(r#"{{"access":"read","db":"shop","table":"{name}"}}"#))
            .collect();
        let select = r#""user":"app","command":"Query","sql_command":"select","sql":"SELECT""#;
        format!(r#"{select},"tables":[{}]"#, tables.join(","))
    };
    log.append(FIRST, statement(1, &with(&["cache_1"])));
    log.append(FIRST, statement(2, &with(&["cache_1", "orders"])));
    log.append(FIRST, statement(3, &with(&[])));
    let alone = r#""event":"table","tables":[{"access":"read","db":"shop","table":"cache_2"}]"#;
    log.append(FIRST, line(4, alone));
    let path = log.path().to_str().unwrap().to_owned();
    let text = r#"{"rules": [{"table": "shop.cache_*", "action": "skip"}]}"#;
    let run = json(&log, text, 0, &["--log", &path])["dry_run"].take();
    let count = |name: &str| run[name]["lines"].as_u64().unwrap();
    assert_eq!((count("skipped"), count("default"), count("undecided")), (2, 1, 1), "{run:#}");
}

#[test]
fn problems_have_exit_codes() {
    let log = sample();
    let path = log.path().to_str().unwrap().to_owned();
    log.append(SECOND, "{\"v\":1,broken\n");
    let output = check(&log, FILTER, &["--log", &path]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("broken line"), "{}", stderr(&output));
    assert!(stdout(&output).contains("(3 of 11)"), "{}", stdout(&output));
    let missing = check(&log, "{}", &["--log", "/nonexistent"]);
    assert_eq!(missing.status.code(), Some(2));
    let no_filter = tacho(&["filter", "check", "/nonexistent/filter.json"]);
    assert_eq!(no_filter.status.code(), Some(2));
    assert!(
        stderr(&no_filter).starts_with("tacho: cannot read the filter /nonexistent/filter.json: "),
        "{}",
        stderr(&no_filter)
    );
    assert_eq!(tacho(&["filter"]).status.code(), Some(2));
}
