//! Which statements match, the new text, and errors in rules.

use tacho_rewrite::compile::{
    Compiler, RuleSource, SHAPE_DATABASES_MAX, SHAPE_RULES_MAX, normalise,
};
use tacho_rewrite::matching::Parameters;
use tacho_rewrite::{Program, Reading, RuleMatch, Statement, compose};

const USUAL: Reading = Reading::USUAL;

fn source<'s>(pattern: &'s str, database: Option<&'s str>, replacement: &'s str) -> RuleSource<'s> {
    RuleSource {
        id: 0,
        pattern: pattern.as_bytes(),
        database: database.map(str::as_bytes),
        replacement: replacement.as_bytes(),
    }
}

/// Rules with the ids 1, 2, 3 …
fn compile(rules: &[RuleSource<'_>]) -> Vec<u8> {
    let mut compiler = Compiler::default();
    for (id, rule) in (1..).zip(rules) {
        compiler
            .add(&RuleSource { id, ..*rule })
            .unwrap_or_else(|error| panic!("{rule:?}: {error}"));
    }
    compiler.finish().unwrap()
}

/// Id of the rule that rewrites a statement, and the new text.
fn ask(program: &[u8], text: &str, reading: Reading, database: &str) -> Option<(u64, String)> {
    let statement = Statement { text: text.as_bytes(), reading, database: database.as_bytes() };
    let mut parameters = Parameters::default();
    let RuleMatch::Rule(rule) = Program::new(program).find(&statement, &mut parameters) else {
        return None;
    };
    let length = compose::length(&rule, text.as_bytes(), &parameters).expect("parameters");
    let mut room = vec![0; length];
    compose::write(&rule, text.as_bytes(), &parameters, &mut room).expect("it was measured");
    assert!(
        compose::write(&rule, text.as_bytes(), &parameters, &mut vec![0; length + 1]).is_none()
    );
    if let Some(shorter) = length.checked_sub(1) {
        let room = &mut vec![0; shorter];
        assert!(compose::write(&rule, text.as_bytes(), &parameters, room).is_none());
    }
    Some((rule.id, String::from_utf8(room).unwrap()))
}

/// The result of one rule for a statement, in the usual mode.
fn rewrite(pattern: &str, replacement: &str, text: &str) -> Option<String> {
    let program = compile(&[source(pattern, None, replacement)]);
    ask(&program, text, USUAL, "test").map(|(_, text)| text)
}

#[test]
fn literals_go_where_the_marks_are() {
    let cases = [
        ("SELECT ?", "SELECT ? + 1", "SELECT 5", "SELECT 5 + 1"),
        ("SELECT ?", "SELECT ? + 1", "select -5 ;", "SELECT -5 + 1"),
        ("SELECT ?, ?", "SELECT ?", "SELECT 'a', 'b'", "SELECT 'a'"),
        ("SELECT ?", "SELECT x?y", "SELECT 5", "SELECT x 5 y"),
        ("SELECT ?, ?", "SELECT ??", "SELECT 'a', 'b'", "SELECT 'a' 'b'"),
        ("SELECT ?", "SELECT 1-?", "SELECT -5", "SELECT 1-(-5)"),
        ("SELECT ?", "SELECT 1--?", "SELECT - 5", "SELECT 1--(- 5)"),
        ("SELECT ?", "SELECT 1-?", "SELECT 5", "SELECT 1-5"),
        ("SELECT ?", "SELECT '?', `?`, /* ? */ ?", "SELECT 5", "SELECT '?', `?`, /* ? */ 5"),
        ("SELECT ?", "SELECT ?; ", "SELECT 5", "SELECT 5"),
        ("SELECT ?", "SELECT (?)", "SELECT NULL", "SELECT (NULL)"),
        ("SELECT ?", "SELECT (?)", "SELECT x'41'", "SELECT (x'41')"),
        ("DELETE FROM t WHERE id = ?", "SELECT ?", "delete from t where id=7", "SELECT 7"),
        ("SELECT 'a', ?", "SELECT ?", "SELECT \"a\", 'it''s'", "SELECT 'it''s'"),
    ];
    for (pattern, replacement, text, expected) in cases {
        assert_eq!(rewrite(pattern, replacement, text).as_deref(), Some(expected), "{text}");
    }
}

#[test]
fn statements_match_whatever_their_white_space_and_case() {
    let pattern = "SELECT COUNT(*) FROM `orders` o WHERE o.state <> 'new' AND price > ?";
    let same = [
        "SELECT COUNT(*) FROM `orders` o WHERE o.state <> 'new' AND price > 1",
        "select count(*)\nfrom orders o where `o`.state != 'new' and price>1.5",
        "SELECT/**/COUNT( * ) FROM orders /* a */ o WHERE o.state<>'new' AND price > 'x' -- b",
        "SELECT COUNT(*) FROM orders o WHERE o.state <> \"new\" AND price > -1e5;;",
    ];
    for text in same {
        assert_eq!(rewrite(pattern, "SELECT 1", text).as_deref(), Some("SELECT 1"), "{text}");
    }
    let others = [
        // A prepared statement with a parameter.
        pattern,
        "SELECT COUNT(*) FROM ORDERS o WHERE o.state <> 'new' AND price > 1",
        "SELECT COUNT (*) FROM orders o WHERE o.state <> 'new' AND price > 1",
        "SELECT COUNT(*) FROM orders o WHERE o.state <> 'old' AND price > 1",
        "SELECT COUNT(*) FROM orders o WHERE o.state <> new AND price > 1",
        "SELECT COUNT(*) FROM orders o WHERE o.state <> 'new' AND price > 1, 2",
        "SELECT COUNT(*) FROM orders o WHERE o.state <> 'new' AND price > now",
        "SELECT COUNT(*) FROM orders o WHERE o.state <> 'new' AND price > 1; SELECT 1",
        "SELECT /*+ NO_MERGE() */ COUNT(*) FROM orders o WHERE o.state <> 'new' AND price > 1",
        "SELECT /*! COUNT(*) */ FROM orders o WHERE o.state <> 'new' AND price > 1",
        "SELECT `COUNT`(*) FROM orders o WHERE o.state <> 'new' AND price > 1",
        "`SELECT` COUNT(*) FROM orders o WHERE o.state <> 'new' AND price > 1",
    ];
    for text in others {
        assert_eq!(rewrite(pattern, "SELECT 1", text), None, "{text}");
    }
}

#[test]
fn lists_have_as_many_values_as_the_pattern() {
    let rewrite = |text| rewrite("SELECT a FROM t WHERE b IN (?, ?)", "SELECT ?", text);
    assert_eq!(rewrite("SELECT a FROM t WHERE b IN (1, 2)").as_deref(), Some("SELECT 1"));
    assert_eq!(rewrite("SELECT a FROM t WHERE b IN (-1,+2)").as_deref(), Some("SELECT -1"));
    assert_eq!(rewrite("SELECT a FROM t WHERE b IN (1)"), None);
    assert_eq!(rewrite("SELECT a FROM t WHERE b IN (1, 2, 3)"), None);
}

#[test]
fn signs_and_null_are_values_where_an_expression_begins() {
    let matches = |pattern, text| rewrite(pattern, "SELECT 1", text).is_some();
    assert!(matches("SELECT a FROM t WHERE b = ?", "SELECT a FROM t WHERE b = - +5"));
    assert!(matches("SELECT a FROM t WHERE b = ?", "SELECT a FROM t WHERE b = null"));
    assert!(!matches("SELECT a FROM t WHERE b = ?", "SELECT a FROM t WHERE b = -'x'"));
    assert!(!matches("SELECT a FROM t WHERE b = ?", "SELECT a FROM t WHERE b = -NULL"));
    assert!(!matches("SELECT a ?", "SELECT a -5"));
    assert!(matches("SELECT a - ?", "SELECT a - 5"));
    assert!(matches("SELECT a FROM t WHERE b IS NULL", "SELECT a FROM t WHERE b is null"));
    assert!(!matches("SELECT a FROM t WHERE b IS ?", "SELECT a FROM t WHERE b IS NULL"));
    assert!(!matches("SELECT a FROM t WHERE b = NULL", "SELECT a FROM t WHERE b = 5"));
    assert!(matches("SELECT a FROM t WHERE b = -5", "SELECT a FROM t WHERE b=- 5"));
    assert!(!matches("SELECT a FROM t WHERE b = -5", "SELECT a FROM t WHERE b = 5"));
}

#[test]
fn names_are_compared_as_they_are_written() {
    let matches = |pattern, text| rewrite(pattern, "SELECT 1", text).is_some();
    assert!(matches("SELECT `a` FROM t", "SELECT a FROM `t`"));
    assert!(!matches("SELECT a FROM t", "SELECT a FROM T"));
    assert!(matches("SELECT `order` FROM t", "SELECT `order` FROM t"));
    assert!(!matches("SELECT `order` FROM t", "SELECT order FROM t"));
    assert!(!matches("SELECT a ORDER BY a", "SELECT a `ORDER` BY a"));
    assert!(matches("SELECT t.order FROM t", "SELECT t.`order` FROM t"));
    assert!(!matches("SELECT t.order FROM t", "SELECT t.ORDER FROM t"));
    assert!(matches("SELECT `a``b`", "SELECT `a``b`"));
    assert!(!matches("SELECT `a``b`", "SELECT `a``c`"));
    assert!(matches("SELECT count FROM t", "SELECT `count` FROM t"));
    assert!(matches("SELECT @a, @@session.sql_mode", "SELECT @a, @@SESSION.sql_mode"));
    assert!(!matches("SELECT @a", "SELECT @b"));
    assert!(!matches("SELECT @'a'", "SELECT @'b'"));
    assert!(matches("SELECT a FOR UPDATE SKIP LOCKED", "select a for update skip locked"));
    assert!(matches("SELECT /*+ a */ 1", "SELECT /*+ a */ 1"));
    assert!(!matches("SELECT /*+ a */ 1", "SELECT /*+ b */ 1"));
    assert!(!matches("SELECT /*+ a */ 1", "SELECT 1"));
}

#[test]
fn the_session_decides_too() {
    let rules = [
        source("SELECT 1", Some("shop"), "SELECT 2"),
        source("SELECT 1", Some("other"), "SELECT 3"),
        source("SELECT 1", None, "SELECT 4"),
        source("SELECT 1", None, "SELECT 5"),
        source("SELECT ?, 'a\\n'", None, "SELECT ?"),
        source("SELECT 7", None, "SELECT \"x\""),
        source("SELECT 8", None, "SELECT '\u{e9}'"),
    ];
    let program = compile(&rules);
    assert_eq!(Program::new(&program).rule_count(), 7);
    let id = |text, reading, database| ask(&program, text, reading, database).map(|(id, _)| id);
    assert_eq!(id("SELECT 1", USUAL, "shop"), Some(1));
    assert_eq!(id("SELECT 1", USUAL, "other"), Some(2));
    // The first rule that matches.
    assert_eq!(id("SELECT 1", USUAL, "Shop"), Some(3));
    assert_eq!(id("SELECT 1", USUAL, ""), Some(3));
    let ansi = Reading { ansi_quotes: true, ..USUAL };
    let no_escapes = Reading { no_escapes: true, ..USUAL };
    let unknown = Reading { is_unknown: true, ..USUAL };
    let latin1 = Reading { is_utf8: false, ..USUAL };
    assert_eq!(id("SELECT 2, 'a\\n'", USUAL, ""), Some(5));
    assert_eq!(id("SELECT 2, 'a\\n'", no_escapes, ""), None);
    assert_eq!(id("SELECT 2, 'a\\n'", unknown, ""), None);
    assert_eq!(id("SELECT \"2\", 'a\\n'", ansi, ""), None);
    // The replacement has another meaning there.
    assert_eq!(id("SELECT 7", USUAL, ""), Some(6));
    for reading in [ansi, no_escapes, unknown] {
        assert_eq!(id("SELECT 7", reading, ""), None);
        assert_eq!(id("SELECT 1", reading, ""), Some(3));
    }
    assert_eq!(id("SELECT 8", USUAL, ""), Some(7));
    assert_eq!(id("SELECT 8", latin1, ""), None);
    assert_eq!(id("SELECT 1", latin1, ""), Some(3));
}

#[test]
fn thousands_of_rules_are_found() {
    let patterns: Vec<String> =
        (0..5000).map(|number| format!("SELECT c{number} FROM t{number} WHERE a = ?")).collect();
    let rules: Vec<RuleSource<'_>> =
        patterns.iter().map(|pattern| source(pattern, None, "SELECT ?")).collect();
    let program = compile(&rules);
    for number in [0, 1, 17, 2500, 4999_u64] {
        let text = format!("select c{number} from t{number} where a=7");
        let (id, text) = ask(&program, &text, USUAL, "").expect("a rule");
        assert_eq!((id, &*text), (number + 1, "SELECT 7"));
    }
    assert_eq!(ask(&program, "select c5000 from t5000 where a=7", USUAL, ""), None);
    assert_eq!(ask(&program, "select c1 from t2 where a=7", USUAL, ""), None);
    assert_eq!(ask(&[], "SELECT 1", USUAL, ""), None);
}

#[test]
fn errors_in_a_rule_have_a_position() {
    let cases = [
        ("", "SELECT 1", "pattern: it is empty"),
        (" -- a\n", "SELECT 1", "pattern: it is empty"),
        ("SELECT 1", ";", "replacement: it is empty"),
        ("SELECT 'a", "SELECT 1", "pattern, character 8: a quote that is not closed"),
        ("SELECT '\u{e9}', `a", "SELECT 1", "pattern, character 13: a quote that is not closed"),
        ("SELECT 1", "SELECT /* a", "replacement, character 8: a comment that is not closed"),
        (
            "SELECT 1; SELECT 2",
            "SELECT 1",
            "pattern, character 11: there must be one statement only",
        ),
        ("SELECT 1", "SELECT 1; SELECT 2", "replacement, character 11: there must be"),
        ("SELECT /*! 1 */", "SELECT 1", "pattern, character 8: a versioned comment"),
        ("SELECT $$ 1 $$", "SELECT 1", "pattern, character 8: a name that begins with `$`"),
        ("SELECT ?", "SELECT ?, ?", "replacement, character 11: there are more parameters than"),
    ];
    let check = |source: &RuleSource<'_>| Compiler::default().add(source).unwrap_err().to_string();
    for (pattern, replacement, expected) in cases {
        let error = check(&source(pattern, None, replacement));
        assert!(error.starts_with(expected), "{error}");
    }
    let many = format!("SELECT ?{}", ", ?".repeat(256));
    assert!(check(&source(&many, None, "SELECT 1")).contains("more than 256 parameters"));
    let long = format!("SELECT '{}'", "a".repeat(32 << 10));
    assert!(check(&source(&long, None, "SELECT 1")).contains("longer than 32768 bytes"));
    assert!(check(&source("SELECT 1", None, &long)).starts_with("replacement: it is longer"));
    assert!(check(&source("SELECT 1", Some(""), "SELECT 1")).starts_with("pattern_database:"));
    assert!(check(&source("SELECT 1", Some(&long), "SELECT 1")).starts_with("pattern_database:"));
    let binary = RuleSource { pattern: b"SELECT '\xFF'", ..source("", None, "SELECT 1") };
    assert_eq!(check(&binary), "pattern, character 9: this is not UTF-8");
}

#[test]
fn the_rules_of_one_shape_are_limited() {
    let mut compiler = Compiler::default();
    let mut add = |number: usize, database: Option<&str>| {
        let pattern = format!("SELECT {number}");
        let added = compiler.add(&source(&pattern, database, "SELECT 'new'"));
        added.map_err(|error| error.to_string())
    };
    let crowded = "pattern: there are 64 rules of this shape already";
    for database in [None, Some("shop")] {
        for number in 0..SHAPE_RULES_MAX {
            add(number, database).unwrap();
        }
        assert_eq!(add(SHAPE_RULES_MAX, database).unwrap_err(), crowded);
    }
    for number in 2 * SHAPE_RULES_MAX..SHAPE_DATABASES_MAX {
        add(0, Some(&format!("d{number}"))).unwrap();
    }
    let full = "pattern: there are 1024 rules of this shape already, of all databases";
    assert_eq!(add(0, Some("another")).unwrap_err(), full);
    // Another shape.
    compiler.add(&source("SELECT 1, 2", None, "SELECT 'other'")).unwrap();
    assert_eq!(compiler.count(), SHAPE_DATABASES_MAX + 1);
    let program = compiler.finish().unwrap();
    for (text, expected) in [("SELECT 63", "SELECT 'new'"), ("SELECT 1, 2", "SELECT 'other'")] {
        assert_eq!(ask(&program, text, USUAL, "shop").unwrap().1, expected);
    }
    assert!(ask(&program, "SELECT 64", USUAL, "shop").is_none());
}

#[test]
fn a_wrong_rule_leaves_the_others() {
    let mut compiler = Compiler::default();
    compiler.add(&source("SELECT 1", None, "SELECT 2")).unwrap();
    compiler.add(&source("SELECT '", None, "SELECT 2")).unwrap_err();
    assert_eq!(compiler.count(), 1);
    assert_eq!(Program::new(&compiler.finish().unwrap()).rule_count(), 1);
}

#[test]
fn patterns_are_normalised_like_statements_in_the_log() {
    let (text, digest) = normalise(b"select a from t where b in (1, ?) and c = 'x'").unwrap();
    assert_eq!(text, "SELECT `a` FROM `t` WHERE `b` IN (...) AND `c` = ?");
    let (_, of_statement) = normalise(b"SELECT a FROM t WHERE b IN (7, 8, 9) AND c = -1").unwrap();
    assert_eq!(digest, of_statement);
    assert!(digest.starts_with("1:") && digest.len() == 34, "{digest}");
    assert!(normalise(b"SELECT 'a").is_err());
}
