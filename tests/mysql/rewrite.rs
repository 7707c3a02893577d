//! Zone: outside. Rules that rewrite, in a real MySQL: the server parses another text than the
//! original, the log has both, and statements that cannot be rewritten safely are unchanged.
//! `scripts/test-release.sh` runs them.

use tacho_tests::client::{self, Conn, Queryable};
use tacho_tests::mysql_place::LogAndArenas;
use tacho_tests::mysql_replication;
use tacho_tests::mysql_rewriting::{
    LOAD, add, all, end, error_of, finish, install_servers_own, one, one_row, prepare, rewritten,
    rewritten_count, rule_count, session, set, start,
};
use tacho_tests::mysql_server::named;
use tacho_tests::raw::{Answer, Raw};
use tacho_tests::recorded::{self, Line};
use tacho_tests::wait;

#[test]
fn a_statement_is_rewritten_and_its_line_has_both_texts() {
    let place = LogAndArenas::new("rewritten");
    let (mut server, mut root) = start(&place, &[]);
    let plus = add(&mut root, "SELECT ?", None, "SELECT ? + 1");
    add(
        &mut root,
        "SELECT note FROM d.t WHERE id = 1 AND note = ?",
        None,
        "SELECT CONCAT('one: ', ?)",
    );
    add(&mut root, "DELETE FROM d.t WHERE id = ?", None, "SELECT id FROM d.t WHERE id = ?");
    add(&mut root, "SELECT ?, ?", None, "SELECT CONCAT(?, '|', ?)");
    let mut app = session(&server, "app");
    assert_eq!(one::<i64>(&mut app, "SELECT 5"), 5, "nothing is in force");
    root.query_drop(LOAD).expect("right rules");
    assert_eq!(rule_count(&mut root), 4);

    assert_eq!(one::<i64>(&mut app, "SELECT 5"), 6);
    let (level, code, note): (String, u16, String) = one_row(&mut app, "SHOW WARNINGS");
    assert_eq!((level.as_str(), code), ("Note", 1105));
    assert_eq!(note, "Query 'SELECT 5' rewritten to 'SELECT 5 + 1' by a query rewrite plugin");
    // However it is written.
    assert_eq!(one::<i64>(&mut app, " select\t/* five */ 5 -- more"), 6);
    // A literal of the pattern is compared.
    app.query_drop("INSERT INTO t VALUES (1, 'x'), (2, 'x')").expect("rows");
    let of = |id| format!("SELECT note FROM d.t WHERE id = {id} AND note = 'x'");
    assert_eq!(one::<String>(&mut app, &of(1)), "one: x");
    assert_eq!(one::<String>(&mut app, &of(2)), "x");
    // Strings with everything in them that could end one.
    let strings = r#"SELECT 'it''s; -- \' no', "a ""quote"" \" ?""#;
    assert_eq!(one::<String>(&mut app, strings), r#"it's; -- ' no|a "quote" " ?"#);
    // A statement that should change data reads instead.
    app.query_drop("DELETE FROM d.t WHERE id = 2").expect("an answer");
    assert_eq!(one::<u64>(&mut root, "SELECT COUNT(*) FROM d.t"), 2);
    // Longer than any buffer.
    let long = "y".repeat(3 << 20);
    set(&mut root, &[("SELECT LENGTH(?)", "SELECT LENGTH(?) + 1")]);
    let length: usize = one(&mut app, &format!("SELECT LENGTH('{long}')"));
    assert_eq!(length, long.len() + 1);
    assert_eq!(one::<i64>(&mut app, "SELECT 5"), 5, "that rule is gone");
    assert_eq!((rewritten_count(&mut root), rule_count(&mut root)), (6, 1));

    let digest: String = one(&mut root, "SELECT tacho_rewrite_digest('SELECT ?')");
    drop((app, root));
    let lines = end(&mut server, &place);
    let found = rewritten(&lines);
    assert_eq!(
        found[..5],
        [
            ("SELECT 5", "SELECT 5 + 1"),
            ("select\t/* five */ 5 -- more", "SELECT 5 + 1"),
            ("SELECT note FROM d.t WHERE id = 1 AND note = 'x'", "SELECT CONCAT('one: ', 'x')"),
            (strings, r#"SELECT CONCAT('it''s; -- \' no', '|', "a ""quote"" \" ?")"#),
            ("DELETE FROM d.t WHERE id = 2", "SELECT id FROM d.t WHERE id = 2"),
        ]
    );
    assert_eq!(found[5].1.len(), long.len() + "SELECT LENGTH('') + 1".len());
    assert_eq!(found.len(), 6);
    let first = lines.iter().find(|line| line.contains_key("rewritten_query")).expect("it");
    assert_eq!(recorded::number(first, "rewrite_rule"), Some(plus));
    assert_eq!(recorded::text(first, "digest"), Some(digest.as_str()));
    for line in lines.iter().filter(|line| line.contains_key("rewritten_query")) {
        assert_eq!(recorded::text(line, "outcome"), Some("ok"), "{line:?}");
        // That of the executed statement.
        assert_eq!(recorded::text(line, "sql_command"), Some("select"), "{line:?}");
        assert!(line.contains_key("conn_seq") && line.contains_key("rewrite_rule"), "{line:?}");
    }
}

/// A packet with several statements, statements that are prepared in both ways, and statements
/// inside stored programs.
#[test]
fn statements_are_rewritten_once_before_parsing() {
    let place = LogAndArenas::new("rewrite-ways");
    let (mut server, mut root) = start(&place, &[]);
    set(
        &mut root,
        &[
            ("SELECT ?", "SELECT ? + 1"),
            ("SELECT n + ? FROM d.one", "SELECT n * 10 + ? FROM d.one"),
            // It matches its own result.
            ("SELECT n, ? FROM d.one", "SELECT n, 7 FROM d.one"),
            ("INSERT INTO d.t VALUES (?, ?)", "INSERT INTO d.t VALUES (? + 1, ?)"),
        ],
    );
    let mut app = session(&server, "app");
    // The server would not find the next statement: only the last is rewritten.
    assert_eq!(all(&mut app, "SELECT 1; SELECT 2; SELECT 3"), [1, 2, 4]);
    assert_eq!(all(&mut app, "SELECT 1; "), [2]);
    assert_eq!(all(&mut app, "SELECT 1; SELECT 2;;"), [1, 3]);
    assert_eq!(rewritten_count(&mut root), 3);

    assert_eq!(app.exec_first::<i64, _, _>("SELECT 10", ()).expect("an answer"), Some(11));
    // With its own parameters the server would not accept the new text.
    let answer: Option<i64> = app.exec_first("SELECT n + ? FROM d.one", (5,)).expect("an answer");
    assert_eq!(answer, Some(6));
    app.query_drop("PREPARE marked FROM 'SELECT n + ? FROM d.one'").expect("it");
    app.query_drop("SET @five = 5").expect("an answer");
    assert_eq!(all(&mut app, "EXECUTE marked USING @five"), [6]);
    let before = rewritten_count(&mut root);
    app.query_drop("PREPARE s FROM 'SELECT n + 4 FROM d.one'").expect("it");
    app.query_drop("PREPARE again FROM 'SELECT n, 3 FROM d.one'").expect("it");
    assert_eq!(all(&mut app, "EXECUTE s"), [14]);
    assert_eq!(rewritten_count(&mut root), before + 2);
    // It is prepared again, from the rewritten text.
    root.query_drop("ALTER TABLE d.one ADD COLUMN more INT").expect("an answer");
    assert_eq!(all(&mut app, "EXECUTE s"), [14]);
    assert_eq!(all(&mut app, "EXECUTE again"), [1]);
    assert_eq!(rewritten_count(&mut root), before + 2);

    for sql in [
        "CREATE PROCEDURE d.p() SQL SECURITY INVOKER BEGIN \
         PREPARE s FROM 'SELECT n + 4 FROM d.one'; EXECUTE s; SELECT n + 4 FROM d.one; END",
        "CREATE EVENT d.e ON SCHEDULE AT NOW() DO INSERT INTO d.t VALUES (70, 'of an event')",
    ] {
        root.query_drop(sql).expect(sql);
    }
    // Statements in a program are not parsed when it is called; statements that it prepares are
    // unchanged.
    assert_eq!(all(&mut app, "CALL p()"), [5, 5]);
    assert_eq!(rewritten_count(&mut root), before + 2);
    // After it has run, a client's is rewritten as before.
    app.query_drop("PREPARE s FROM 'SELECT n + 4 FROM d.one'").expect("it");
    assert_eq!(all(&mut app, "EXECUTE s"), [14]);
    assert_eq!(rewritten_count(&mut root), before + 3);
    let count = "SELECT COUNT(*) FROM d.t WHERE id = 70";
    wait::until("the event has run", || one::<u64>(&mut root, count) == 1);
    root.query_drop("INSERT INTO d.t VALUES (80, 'of a client')").expect("a row");
    assert_eq!(one::<u64>(&mut root, "SELECT COUNT(*) FROM d.t WHERE id = 81"), 1);
    drop((app, root));
    let lines = end(&mut server, &place);
    let found = rewritten(&lines);
    for expected in [
        ("SELECT 3", "SELECT 3 + 1"),
        ("SELECT 10", "SELECT 10 + 1"),
        ("PREPARE s FROM 'SELECT n + 4 FROM d.one'", "SELECT n * 10 + 4 FROM d.one"),
        (
            "INSERT INTO d.t VALUES (80, 'of a client')",
            "INSERT INTO d.t VALUES (80 + 1, 'of a client')",
        ),
    ] {
        assert!(found.contains(&expected), "no {expected:?}: {found:?}");
    }
}

/// The line of the prepare has both texts; those of the executions have the executed one.
#[test]
fn a_prepared_statement_is_rewritten_when_it_is_prepared() {
    let place = LogAndArenas::new("rewrite-prepared");
    let (mut server, mut root) = start(&place, &[]);
    set(&mut root, &[("SELECT n + ? FROM d.one", "SELECT n * 10 + ? FROM d.one")]);
    let rule: u64 = one(&mut root, "SELECT id FROM tacho.rewrite_rules");
    let mut app = session(&server, "app");
    let conn = u64::from(app.connection_id());
    app.query_drop("PREPARE s FROM 'SELECT n + 4 FROM d.one'").expect("it");
    let statement = app.prep("SELECT n + 5 FROM d.one").expect("it");
    for _ in 0..2 {
        assert_eq!(all(&mut app, "EXECUTE s"), [14]);
        assert_eq!(app.exec_first::<i64, _, _>(&statement, ()).expect("an answer"), Some(15));
    }
    assert_eq!(rewritten_count(&mut root), 2);
    // A statement that is prepared before a rule is in force stays unchanged.
    set(&mut root, &[("SELECT n * ? + ? FROM d.one", "SELECT 0")]);
    assert_eq!(all(&mut app, "EXECUTE s"), [14]);
    drop((app, root));
    let lines = end(&mut server, &place);
    let of_app = recorded::of_conn(&lines, conn);
    let found: Vec<(&str, &str, Option<&str>)> = of_app
        .iter()
        .filter_map(|line| {
            let sql = recorded::text(line, "sql")?;
            let is_ours = sql.contains("d.one") || sql.starts_with("EXECUTE");
            let command = recorded::text(line, "command")?;
            is_ours.then_some((command, sql, recorded::text(line, "rewritten_query")))
        })
        .collect();
    let (four, five) = ("SELECT n * 10 + 4 FROM d.one", "SELECT n * 10 + 5 FROM d.one");
    let by_name = [("Query", "EXECUTE s", None), ("Query", four, None)];
    let by_number = [("Execute", five, None)];
    let expected = [
        &[("Query", "PREPARE s FROM 'SELECT n + 4 FROM d.one'", Some(four))][..],
        &[("Prepare", "SELECT n + 5 FROM d.one", Some(five))],
        &by_name,
        &by_number,
        &by_name,
        &by_number,
        &by_name,
    ];
    assert_eq!(found, expected.concat());
    for line in of_app {
        let expected = line.contains_key("rewritten_query").then_some(rule);
        assert_eq!(recorded::number(line, "rewrite_rule"), expected, "{line:?}");
        assert_ne!(recorded::text(line, "outcome"), Some("error"), "{line:?}");
    }
}

/// Though a replica has rules for it: as statements and as rows.
#[test]
fn a_replica_applies_rewritten_statements_and_rewrites_none_of_them() {
    let places = [LogAndArenas::new("rewrite-source"), LogAndArenas::new("rewrite-replica")];
    let with = |id| [&mysql_replication::OPTIONS[..], &[id]].concat();
    let (mut source, mut at_source) = start(&places[0], &with("server-id=1"));
    let (mut replica, at_replica) = start(&places[1], &with("server-id=2"));
    drop(at_replica);
    mysql_replication::give_identity(&mut replica);
    let mut at_replica = replica.connect().expect("a connection");
    let insert = "INSERT INTO d.t VALUES (?, ?)";
    set(&mut at_source, &[(insert, "INSERT INTO d.t VALUES (? + 1, ?)")]);
    set(
        &mut at_replica,
        &[
            (insert, "INSERT INTO d.t VALUES (? + 100, ?)"),
            ("INSERT INTO d.t VALUES (? + 1, ?)", "INSERT INTO d.t VALUES (? + 200, ?)"),
        ],
    );
    mysql_replication::connect(&source, &mut at_source, &mut at_replica);
    at_replica.query_drop("START REPLICA").expect("an answer");
    for sql in [
        "SET SESSION binlog_format = STATEMENT",
        "INSERT INTO d.t VALUES (10, 'a statement')",
        "SET SESSION binlog_format = ROW",
        "INSERT INTO d.t VALUES (20, 'a row')",
    ] {
        at_source.query_drop(sql).expect(sql);
    }
    let ids = "SELECT id FROM d.t ORDER BY id";
    wait::until("the replica has both", || all(&mut at_replica, ids).len() == 2);
    assert_eq!(all(&mut at_source, ids), [11, 21]);
    assert_eq!(all(&mut at_replica, ids), [11, 21]);
    assert_eq!((rewritten_count(&mut at_source), rewritten_count(&mut at_replica)), (2, 0));
    // Its rules are in force for its own clients.
    at_replica.query_drop("INSERT INTO d.t VALUES (30, 'a client')").expect("a row");
    assert_eq!(all(&mut at_replica, ids), [11, 21, 130]);
    drop((at_source, at_replica));
    let [at_source, at_replica] =
        [(&mut source, &places[0]), (&mut replica, &places[1])].map(|(server, place)| {
            server.stop().expect("stopping");
            recorded::read(&place.log()).expect("a readable log")
        });
    let new = ["(10 + 1, 'a statement')", "(20 + 1, 'a row')"]
        .map(|values| format!("INSERT INTO d.t VALUES {values}"));
    assert_eq!(
        rewritten(&at_source),
        [
            ("INSERT INTO d.t VALUES (10, 'a statement')", new[0].as_str()),
            ("INSERT INTO d.t VALUES (20, 'a row')", new[1].as_str()),
        ]
    );
    assert_eq!(
        rewritten(&at_replica),
        [(
            "INSERT INTO d.t VALUES (30, 'a client')",
            "INSERT INTO d.t VALUES (30 + 100, 'a client')"
        )]
    );
    // Row events are not reported.
    let applied: Vec<&str> = at_replica
        .iter()
        .filter(|line| !line.contains_key("user"))
        .filter_map(|line| recorded::text(line, "sql"))
        .filter(|sql| sql.contains("d.t"))
        .collect();
    assert_eq!(applied, [new[0].as_str()]);
}

/// How many rows a statement has: a rewritten one has none.
fn rows(raw: &mut Raw, sql: &[u8]) -> u64 {
    match raw.query(sql).expect("an answer").as_slice() {
        [Answer::Rows { rows, error: None }] => *rows,
        other => panic!("{}: {other:?}", String::from_utf8_lossy(sql)),
    }
}

/// The session determines what a string is, and where it ends.
#[test]
fn a_session_is_read_by_its_own_sql_mode_and_character_set() {
    let place = LogAndArenas::new("rewrite-modes");
    let (server, mut root) = start(&place, &[]);
    set(&mut root, &[("SELECT ? FROM d.one", "SELECT ? FROM d.one WHERE FALSE")]);
    let mut raw = Raw::connect(server.socket(), "app").expect("a session");
    let quoted = br#"SELECT "n" FROM d.one"#;
    let escaped = br"SELECT 'a\'' FROM d.one";
    let backslash = br"SELECT 'a\' FROM d.one";
    let accented = "SELECT 'é' FROM d.one".as_bytes();
    assert_eq!(rows(&mut raw, quoted), 0);
    assert_eq!(rows(&mut raw, escaped), 0);
    assert_eq!(rows(&mut raw, accented), 0);
    // A name.
    raw.must(&["SET SESSION sql_mode = 'ANSI_QUOTES'"]);
    assert_eq!(rows(&mut raw, quoted), 1);
    assert_eq!(rows(&mut raw, escaped), 0);
    raw.must(&["SET SESSION sql_mode = 'NO_BACKSLASH_ESCAPES'"]);
    assert_eq!(rows(&mut raw, backslash), 0);
    assert_eq!(rows(&mut raw, quoted), 0);
    raw.must(&["SET SESSION sql_mode = ''"]);
    assert!(matches!(raw.query(backslash).expect("an answer")[..], [Answer::Error(1064)]));
    // Bytes that mean something else there.
    raw.must(&["SET NAMES latin1"]);
    assert_eq!(rows(&mut raw, b"SELECT 'e' FROM d.one"), 0);
    assert_eq!(rows(&mut raw, b"SELECT '\xe9' FROM d.one"), 1);
    // One character; by its bytes a quote that is escaped, and a string without an end.
    raw.must(&["SET NAMES gbk"]);
    assert_eq!(rows(&mut raw, b"SELECT '\xbf\x5c' FROM d.one"), 1);
    assert_eq!(rows(&mut raw, b"SELECT 'a' FROM d.one"), 0);
    raw.must(&["SET NAMES utf8mb4"]);
    assert_eq!(rows(&mut raw, accented), 0);
    drop((raw, root));
    finish(server, &place, &[]);
}

#[test]
fn a_rule_may_be_for_one_database() {
    let place = LogAndArenas::new("rewrite-db");
    let (server, mut root) = start(&place, &[]);
    add(&mut root, "SELECT n FROM one", Some("d"), "SELECT n + 1 FROM one");
    add(&mut root, "SELECT ?", None, "SELECT ? + 1");
    root.query_drop(LOAD).expect("right rules");
    for sql in ["CREATE DATABASE e", "CREATE TABLE e.one (n INT)", "INSERT INTO e.one VALUES (1)"] {
        root.query_drop(sql).expect(sql);
    }
    assert_eq!(one::<i64>(&mut root, "SELECT 1"), 2, "without a database");
    for (database, expected) in [("d", 2), ("e", 1), ("d", 2)] {
        root.query_drop(format!("USE {database}")).expect("an answer");
        assert_eq!(one::<i64>(&mut root, "SELECT n FROM one"), expected, "{database}");
        assert_eq!(one::<i64>(&mut root, "SELECT 1"), 2, "{database}");
    }
    drop(root);
    finish(server, &place, &[]);
}

/// A statement that is not recorded is still rewritten; a recorded one has no secret in either
/// text.
#[test]
fn rules_do_not_depend_on_recording() {
    let place = LogAndArenas::new("rewrite-off");
    let (mut server, mut root) = start(&place, &[]);
    set(
        &mut root,
        &[
            ("SELECT ?", "SELECT ? + 1"),
            ("SELECT ? FROM d.one", "ALTER USER auditor IDENTIFIED BY ?"),
        ],
    );
    root.query_drop("SELECT 'hunter2' FROM d.one").expect("a new password");
    client::connect(server.socket(), "auditor", "").expect_err("it has a password now");
    let filter = |root: &mut Conn, rules: &str| {
        root.query_drop(named(&format!("SET GLOBAL tacho.filter = '{rules}'"))).expect("a filter");
    };
    let mut app = session(&server, "app");
    filter(&mut root, r#"{"rules": [{"user": "app", "action": "skip"}]}"#);
    assert_eq!(one::<i64>(&mut app, "SELECT 1"), 2);
    filter(&mut root, r#"{"rules": [{"user": "app", "action": "no_text"}]}"#);
    assert_eq!(one::<i64>(&mut app, "SELECT 2"), 3);
    filter(&mut root, "");
    root.query_drop(named("SET GLOBAL tacho.logging = OFF")).expect("an answer");
    assert_eq!(one::<i64>(&mut app, "SELECT 3"), 4);
    root.query_drop(named("SET GLOBAL tacho.logging = ON")).expect("an answer");
    // A rule that blocks applies to the executed statement.
    filter(
        &mut root,
        r#"{"rules": [{"user": "app", "sql_command": "alter_user", "action": "block"}]}"#,
    );
    assert_eq!(error_of(&mut app, "SELECT 'x' FROM d.one").0, 3164);
    filter(&mut root, "");
    assert_eq!(one::<i64>(&mut app, "SELECT 4"), 5);
    assert_eq!(rewritten_count(&mut root), 6);
    drop((app, root));
    let lines = end(&mut server, &place);
    let of_app: Vec<&Line> =
        lines.iter().filter(|line| recorded::text(line, "user") == Some("app")).collect();
    let new: Vec<Option<&str>> = of_app
        .iter()
        .filter(|line| line.contains_key("rewrite_rule"))
        .map(|line| recorded::text(line, "rewritten_query"))
        .filter(Option::is_some)
        .collect();
    assert_eq!(
        new,
        [Some("ALTER USER auditor IDENTIFIED BY <secret>"), Some("SELECT 4 + 1")],
        "{of_app:?}"
    );
    let set = lines
        .iter()
        .find(|line| recorded::text(line, "sql").is_some_and(|sql| sql.contains("hunter2")))
        .expect("its text is a string like any other");
    let text = recorded::text(set, "rewritten_query").expect("both texts");
    assert_eq!(text, "ALTER USER auditor IDENTIFIED BY <secret>");
}

/// MySQL's own plugin rewrites the parsed statement, which is our result.
#[test]
fn the_rewriter_of_the_server_runs_after_ours() {
    let place = LogAndArenas::new("rewrite-both");
    let mut server = place.builder().library("rewriter.so").start().expect("a server");
    let mut root = prepare(&server);
    install_servers_own(&mut root, "SELECT ? + ?", "SELECT ? + ? + 100");
    let message: Option<String> = one(&mut root, "SELECT load_rewrite_rules()");
    assert_eq!(message, None);
    assert_eq!(one::<i64>(&mut root, "SELECT 1 + 1"), 102);
    set(&mut root, &[("SELECT ?", "SELECT ? + 1")]);
    let mut app = session(&server, "app");
    assert_eq!(one::<i64>(&mut app, "SELECT 1"), 102);
    assert_eq!(one::<i64>(&mut app, "SELECT 1 + 1"), 102);
    drop((app, root));
    let lines = end(&mut server, &place);
    assert_eq!(rewritten(&lines), [("SELECT 1", "SELECT 1 + 1")]);
}
