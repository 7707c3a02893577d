//! Searches, their conditions and their errors.

use proptest::prelude::*;
use tacho_search::{Expr, Search, TargetKind, parse, targets};

fn condition(text: &str) -> String {
    parse(text).unwrap_or_else(|error| panic!("{text}: {error}")).condition()
}

#[test]
fn the_language_becomes_sql() {
    for (text, sql) in [
        ("", "true"),
        ("  ", "true"),
        ("user:app", r#""user" = 'app'"#),
        ("USER:app", r#""user" = 'app'"#),
        ("user:app db:shop", r#""user" = 'app' AND "db" = 'shop'"#),
        ("user:app and db:shop", r#""user" = 'app' AND "db" = 'shop'"#),
        ("user:a or user:b db:c", r#""user" = 'a' OR ("user" = 'b' AND "db" = 'c')"#),
        ("(user:a OR user:b) db:c", r#"("user" = 'a' OR "user" = 'b') AND "db" = 'c'"#),
        ("user:(a or b c)", r#""user" = 'a' OR "user" = 'b' OR "user" = 'c'"#),
        ("errno:>0", r#""errno" > 0"#),
        ("errno:0", r#""errno" IS NULL"#),
        ("errno:*", r#""errno" IS NOT NULL"#),
        ("sql_command:drop_*", r#"starts_with("sql_command", 'drop_')"#),
        ("rows_sent:>1e5", r#""rows_sent" > 100000"#),
        ("rows_sent:10..20", r#"("rows_sent" >= 10 AND "rows_sent" <= 20)"#),
        ("time:>2s", r#""query_time_us" > 2000000"#),
        ("query_time_us:>=1500", r#""query_time_us" >= 1500"#),
        (
            "-host:10.0.*",
            r#"((starts_with("host", '10.0.') OR starts_with("ip", '10.0.'))) IS NOT TRUE"#,
        ),
        ("not not user:a", r#""user" = 'a'"#),
        ("digest:AB12", r#"starts_with("digest", '1:ab12')"#),
        (
            "digest:1:00112233445566778899aabbccddeeff",
            r#""digest" = '1:00112233445566778899aabbccddeeff'"#,
        ),
        (
            r#""it's""#,
            r#"(contains(lower("sql"), lower('it''s')) OR contains(lower("error"), lower('it''s')))"#,
        ),
        ("sql:ab12c", r#"contains(lower("sql"), lower('ab12c'))"#),
        (
            "sql:K-42é2026é17.c",
            r#"(contains("sql", '2026') AND contains(lower("sql"), lower('K-42é2026é17.c')))"#,
        ),
        (
            "sql:x12*y-345?6",
            r#"(contains("sql", '-345') AND "sql" ILIKE '%x12%y-345_6%' ESCAPE '\')"#,
        ),
        ("sql:a*b_c", r#""sql" ILIKE '%a%b\_c%' ESCAPE '\'"#),
        ("user:a?b*", r#""user" LIKE 'a_b%' ESCAPE '\'"#),
        (r#"user:"a*""#, r#""user" = 'a*'"#),
        (r"user:a\*", r#""user" = 'a*'"#),
        ("user:o'brien", r#""user" = 'o''brien'"#),
        ("ip:::1", r#""ip" = '::1'"#),
        ("ts:>2026-11-21", r#""ts" > TIMESTAMPTZ '2026-11-21T00:00:00+00:00'"#),
        ("sql_redacted:true", r#""sql_redacted""#),
        ("event:connect_failed", r#""event" = 'connect_failed'"#),
        ("server:db1", r#""server" = 'db1'"#),
        (
            "table:card",
            r#"len(list_filter("tables", lambda t: t."table" = 'card' OR t.new_table = 'card')) > 0"#,
        ),
        (
            "table:shop.card",
            r#"len(list_filter("tables", lambda t: (t."db" = 'shop' AND t."table" = 'card') OR (t.new_db = 'shop' AND t.new_table = 'card'))) > 0"#,
        ),
    ] {
        assert_eq!(condition(text), sql, "{text}");
    }
}

#[test]
fn errors_say_where_and_what_was_expected() {
    for (text, position, length, message, expected) in [
        ("usr:x", 0, 4, "there is no field usr", "user:"),
        ("ä user:", 2, 5, "user: has no value", "a value"),
        ("user: x", 0, 5, "user: has no value", "a value"),
        ("rows_sent:many", 10, 4, "\"many\" is not a value of rows_sent", "a number"),
        ("time:>2", 5, 2, "\">2\" is not a value of time", "a duration with its unit"),
        ("event:party", 6, 5, "is not a value of event", "one of statement, connect"),
        ("ts:yesterday", 3, 9, "is not a value of ts", "a time"),
        ("digest:xyz", 7, 3, "is not a value of digest", "hexadecimal"),
        ("sql_redacted:maybe", 13, 5, "is not a value of sql_redacted", "true or false"),
        ("(user:a", 0, 1, "the bracket is not closed", ")"),
        ("user:a)", 6, 1, "has no opening bracket", ""),
        ("user:a or", 9, 0, "the search ends too early", "a word"),
        ("or x", 0, 2, "unexpected \"or\"", "a word"),
        ("user:(a or )", 11, 1, "unexpected \")\"", "a value of user"),
        ("-", 1, 0, "the search ends too early", "a word"),
        ("\"x", 0, 2, "the quotation mark is not closed", "\""),
        ("\"\"", 0, 2, "the text is empty", "a text"),
        ("a\0b", 1, 1, "zero byte", ""),
        ("table:.x", 6, 2, "is not a value of table", "shop.card"),
    ] {
        let error = parse(text).expect_err(text);
        assert_eq!((error.position, error.length), (position, length), "{text}: {error}");
        assert!(error.message.contains(message), "{text}: {error}");
        assert!(error.expected.contains(expected), "{text}: {}", error.expected);
    }
    let deep = "(".repeat(10_000) + "x";
    assert!(parse(&deep).unwrap_err().message.contains("bytes"));
    let deep = "(".repeat(60) + "x" + &")".repeat(60);
    assert!(parse(&deep).unwrap_err().message.contains("50"));
    assert!(parse(&"not ".repeat(60)).unwrap_err().message.contains("50"));
}

#[test]
fn required_terms_are_those_outside_of_or_and_not() {
    let names = |text: &str| -> Vec<_> {
        let search = parse(text).unwrap();
        search.required().iter().filter_map(|term| term.target).map(|it| it.name).collect()
    };
    assert_eq!(names("user:a -db:b (host:c or ip:d) run:1"), ["user", "run"]);
    assert_eq!(names("user:a"), ["user"]);
    assert_eq!(names("user:a or user:b"), [""; 0]);
}

/// The SQL without its literals and quoted names: a hostile text would leave something here.
fn skeleton(sql: &str) -> String {
    let mut out = String::new();
    let mut quote = None;
    for c in sql.chars() {
        match quote {
            Some(open) if c == open => quote = None,
            Some(_) => {}
            None if c == '\'' || c == '"' => quote = Some(c),
            None => out.push(c),
        }
    }
    assert_eq!(quote, None, "{sql}");
    out
}

fn any_search() -> impl Strategy<Value = String> {
    let names: Vec<&str> = targets().iter().map(|target| target.name).collect();
    let piece = prop_oneof![
        proptest::sample::select(names).prop_map(|name| format!("{name}:")),
        Just("(".to_owned()),
        Just(")".to_owned()),
        Just(" ".to_owned()),
        Just("-".to_owned()),
        Just(" or ".to_owned()),
        Just(" not ".to_owned()),
        Just("\"".to_owned()),
        Just("'; DROP TABLE x; --".to_owned()),
        Just("\\".to_owned()),
        Just("*".to_owned()),
        Just(">1e5".to_owned()),
        Just("1..2".to_owned()),
        Just("2s".to_owned()),
        Just("2026-11-21T10:00:00Z".to_owned()),
        Just("ab12".to_owned()),
        Just("true".to_owned()),
        any::<String>(),
        "[a-z'\"\\\\%_*?]{0,6}",
    ];
    proptest::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4_000, ..ProptestConfig::default() })]

    #[test]
    fn any_text_is_a_search_or_an_error_with_a_place(text in any_search()) {
        match parse(&text) {
            Ok(search) => {
                let left = skeleton(&search.condition());
                let is_ours = |c: char| c.is_ascii_alphanumeric() || " ()<>=_.,:".contains(c);
                prop_assert!(left.chars().all(is_ours), "{left}");
                let words = left.split(|c: char| !c.is_ascii_alphabetic());
                for word in words.filter(|word| word.len() > 1) {
                    prop_assert!([
                        "AND", "OR", "IS", "NOT", "NULL", "TRUE", "LIKE", "ILIKE", "ESCAPE", "len",
                        "list", "filter", "lambda", "starts", "ends", "with", "contains", "lower",
                        "TIMESTAMPTZ", "new", "db", "table", "true", "error",
                    ].contains(&word), "{word} in {left}");
                }
            }
            Err(error) => {
                let count = text.chars().count();
                prop_assert!(error.position + error.length <= count, "{error:?}");
                prop_assert!(!error.message.is_empty());
            }
        }
    }

    #[test]
    fn a_quoted_value_is_found_as_it_is(value in "[^\0]{1,20}") {
        let quoted = value.replace('\\', "\\\\").replace('"', "\\\"");
        let search = parse(&format!("user:\"{quoted}\"")).unwrap();
        let wanted = format!("\"user\" = '{}'", value.replace('\'', "''"));
        prop_assert_eq!(search.condition(), wanted);
    }
}

#[test]
fn digest_texts_become_digests() {
    let mut search = parse("user:a (digest_text:\"from card\" or -digest_text:x*)").unwrap();
    assert!(search.needs_look_up());
    assert!(search.condition().contains("error('digest_text was not looked up')"));
    let find = |pattern: &tacho_search::DigestPattern| match pattern.is_in("FROM `card`") {
        true => Ok(vec!["1:ab".to_owned(), "1:cd".to_owned()]),
        false => Ok::<_, ()>(Vec::new()),
    };
    search.look_up(find).unwrap();
    assert!(!search.needs_look_up());
    let wanted = r#""user" = 'a' AND ("digest" IN ('1:ab', '1:cd') OR (false) IS NOT TRUE)"#;
    assert_eq!(search.condition(), wanted);
    assert_eq!(parse("digest_text:y").unwrap().look_up(|_| Err(7)), Err(7));
    assert!(parse("digest_text:\"` `\"").is_err());
    assert_eq!(condition("digest_text:*"), "\"digest\" IS NOT NULL");
}

#[test]
fn the_columns_of_a_search_are_known() {
    let columns = |text: &str| parse(text).unwrap().columns().into_iter().collect::<Vec<_>>();
    assert_eq!(columns(""), [""; 0]);
    assert_eq!(columns("user:a -(db:b or host:c)"), ["db", "host", "ip", "user"]);
    assert_eq!(columns("card digest_text:x"), ["digest", "error", "sql"]);
    assert_eq!(columns("table:card time:>2s"), ["query_time_us", "tables"]);
}

#[test]
fn every_target_takes_the_star() {
    for target in targets() {
        let Search { expr } = parse(&format!("{}:*", target.name)).unwrap();
        assert!(matches!(expr, Some(Expr::Term(_))), "{}", target.name);
        assert!(!target.columns.is_empty() && target.kind != TargetKind::Word(vec![]));
    }
}
