//! Zone: outside. Rules that rewrite, in a real MySQL: another text is parsed than the one that
//! came, the log has both, and what cannot be rewritten safely is left as it is.
//! `scripts/test-mysql.sh` runs them.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use tacho_tests::client::{self, Conn, Queryable};
use tacho_tests::mysql_place::Place;
use tacho_tests::mysql_replication;
use tacho_tests::mysql_rewriting::{
    DENIED, LOAD, SIGNALLED, WRONG_RULES, add, all, end, error_of, finish, install_servers_own,
    one, one_row, prepare, rewritten, rewritten_count, rule_count, run_script, session, set, start,
};
use tacho_tests::mysql_server::{MySql, Release, install, named, release, uninstall};
use tacho_tests::raw::{Answer, Raw};
use tacho_tests::recorded::{self, Line};
use tacho_tests::wait;

#[test]
#[ignore = "needs MySQL: scripts/test-mysql.sh"]
fn a_statement_is_rewritten_and_its_line_has_both_texts() {
    let place = Place::new("rewritten");
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
    // What was to change something reads.
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
        // That of what was executed.
        assert_eq!(recorded::text(line, "sql_command"), Some("select"), "{line:?}");
        assert!(line.contains_key("conn_seq") && line.contains_key("rewrite_rule"), "{line:?}");
    }
    drop(server);
    place.remove();
}

/// A packet with several statements, statements that are prepared in both ways, and what is inside
/// of stored programs.
#[test]
#[ignore = "needs MySQL: scripts/test-mysql.sh"]
fn what_comes_to_the_parser_is_rewritten_once() {
    let place = Place::new("rewrite-ways");
    let (mut server, mut root) = start(&place, &[]);
    set(
        &mut root,
        &[
            ("SELECT ?", "SELECT ? + 1"),
            ("SELECT n + ? FROM d.one", "SELECT n * 10 + ? FROM d.one"),
            // It matches what it makes.
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
    // With parameters of its own the server would not take the new text.
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
    // It is prepared anew, of the text that was rewritten.
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
    // What stands in a program is not parsed when it is called; what it prepares is left alone.
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
    drop(server);
    place.remove();
}

/// The line of the prepare has both texts; those of the executions what is executed.
#[test]
#[ignore = "needs MySQL: scripts/test-mysql.sh"]
fn a_prepared_statement_is_rewritten_when_it_is_prepared() {
    let place = Place::new("rewrite-prepared");
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
    // What is prepared before a rule is in force stays as it was.
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
    drop(server);
    place.remove();
}

/// Though a replica has rules for it: as statements and as rows.
#[test]
#[ignore = "needs MySQL: scripts/test-mysql.sh"]
fn a_replica_applies_what_its_source_has_rewritten_and_rewrites_none_of_it() {
    let places = [Place::new("rewrite-source"), Place::new("rewrite-replica")];
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
    // Of rows nothing is told.
    let applied: Vec<&str> = at_replica
        .iter()
        .filter(|line| !line.contains_key("user"))
        .filter_map(|line| recorded::text(line, "sql"))
        .filter(|sql| sql.contains("d.t"))
        .collect();
    assert_eq!(applied, [new[0].as_str()]);
    drop((source, replica));
    places.into_iter().for_each(Place::remove);
}

/// How many rows a statement has: a rewritten one has none.
fn rows(raw: &mut Raw, sql: &[u8]) -> u64 {
    match raw.query(sql).expect("an answer").as_slice() {
        [Answer::Rows { rows, error: None }] => *rows,
        other => panic!("{}: {other:?}", String::from_utf8_lossy(sql)),
    }
}

/// What is a string, and where one ends, depends on the session.
#[test]
#[ignore = "needs MySQL: scripts/test-mysql.sh"]
fn a_session_is_read_by_its_own_sql_mode_and_character_set() {
    let place = Place::new("rewrite-modes");
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
    finish(server, place, &[]);
}

#[test]
#[ignore = "needs MySQL: scripts/test-mysql.sh"]
fn a_rule_may_be_for_one_database() {
    let place = Place::new("rewrite-db");
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
    finish(server, place, &[]);
}

/// id, message, whether there are a digest and a normal form.
type Row = (u64, Option<String>, bool, bool);

fn table(root: &mut Conn) -> Vec<Row> {
    root.query(
        "SELECT id, message, pattern_digest IS NOT NULL, normalized_pattern IS NOT NULL \
         FROM tacho.rewrite_rules ORDER BY id",
    )
    .expect("rows")
}

#[test]
#[ignore = "needs MySQL: scripts/test-mysql.sh"]
fn a_wrong_rule_says_so_in_its_row_and_the_others_are_in_force() {
    let place = Place::new("rewrite-wrong");
    let (server, mut root) = start(&place, &[]);
    let right = add(&mut root, "SELECT ?", None, "SELECT ? + 1");
    let open = add(&mut root, "SELECT 'without an end", None, "SELECT 1");
    let more = add(&mut root, "SELECT n FROM d.one WHERE n = ?", None, "SELECT ? + ?");
    let two = add(&mut root, "SELECT 1, 2", None, "SELECT 1; DROP TABLE d.t");
    let off = add(&mut root, "SELECT n FROM d.one", None, "SELECT 99");
    root.exec_drop("UPDATE tacho.rewrite_rules SET enabled = 'NO' WHERE id = ?", (off,))
        .expect("an answer");
    let (code, message) = error_of(&mut root, LOAD);
    assert_eq!(code, SIGNALLED);
    assert!(message.starts_with("3 of 4 rules are wrong and not in force"), "{message}");
    assert_eq!(one::<i64>(&mut root, "SELECT 5"), 6);
    assert_eq!(one::<i64>(&mut root, "SELECT n FROM d.one"), 1);
    assert_eq!(rule_count(&mut root), 1);
    let rows = table(&mut root);
    assert_eq!(rows[0], (right, None, true, true));
    for (row, id) in rows[1..4].iter().zip([open, more, two]) {
        assert_eq!(row.0, id);
        assert!(row.1.as_ref().is_some_and(|message| message.len() > 10), "{row:?}");
    }
    assert_eq!(rows[4], (off, None, false, false));
    // Mended, they lose their messages.
    root.exec_drop("DELETE FROM tacho.rewrite_rules WHERE id IN (?, ?)", (open, two))
        .expect("an answer");
    root.exec_drop("UPDATE tacho.rewrite_rules SET replacement = 'SELECT ?' WHERE id = ?", (more,))
        .expect("an answer");
    root.query_drop(LOAD).expect("right rules");
    assert!(table(&mut root).iter().all(|row| row.1.is_none()), "{:?}", table(&mut root));
    assert_eq!(rule_count(&mut root), 2);
    // Where nothing can be written, rules can be loaded.
    root.query_drop("DELETE FROM tacho.rewrite_rules WHERE enabled = 'NO'").expect("an answer");
    add(&mut root, "SELECT 'without an end", None, "SELECT 1");
    root.query_drop("SET GLOBAL super_read_only = ON").expect("an answer");
    let (code, message) = error_of(&mut root, LOAD);
    assert_eq!(code, SIGNALLED);
    assert!(message.starts_with("1 of 3 rules are wrong"), "{message}");
    root.query_drop("SET GLOBAL super_read_only = OFF, GLOBAL read_only = OFF").expect("an answer");
    let rows = table(&mut root);
    assert_eq!((rows.len(), &rows[2].1), (3, &None));
    // No rules at all are right, too.
    root.query_drop("DELETE FROM tacho.rewrite_rules").expect("an answer");
    root.query_drop(LOAD).expect("no rules");
    assert_eq!((one::<i64>(&mut root, "SELECT 5"), rule_count(&mut root)), (5, 0));
    drop(root);
    finish(server, place, &[WRONG_RULES]);
}

/// Whatever the session is like that calls the procedure, and whatever its ids are.
#[test]
#[ignore = "needs MySQL: scripts/test-mysql.sh"]
fn a_load_is_not_in_the_binary_log() {
    let place = Place::new("rewrite-binlog");
    let (server, mut root) = start(&place, &["log-bin=binlog", "server-id=7"]);
    let written = |root: &mut Conn| {
        let files: Vec<mysql::Row> = root.query("SHOW BINARY LOGS").expect("files");
        files.iter().map(|row| row.get::<u64, _>(1).expect("a size")).sum::<u64>()
    };
    for sql in [
        "SET SESSION sql_mode = CONCAT(@@SESSION.sql_mode, ',NO_AUTO_VALUE_ON_ZERO')",
        "INSERT INTO tacho.rewrite_rules (id, pattern, replacement) VALUES \
         (0, 'SELECT ?', 'SELECT ? + 1'), (4294967295, 'SELECT ?, ?', 'SELECT ?')",
    ] {
        root.query_drop(sql).expect(sql);
    }
    let start = written(&mut root);
    for sql in [
        "SET SESSION binlog_format = STATEMENT, SESSION sql_safe_updates = 1",
        "SET SESSION autocommit = 0",
        "SET SESSION completion_type = CHAIN",
        "SET SESSION completion_type = NO_CHAIN, SESSION autocommit = 1",
    ] {
        root.query_drop(sql).expect(sql);
        root.query_drop(LOAD).unwrap_or_else(|error| panic!("{sql}: {error}"));
        assert_eq!(one::<i64>(&mut root, "SELECT @@SESSION.sql_log_bin FROM d.one"), 1, "{sql}");
        root.query_drop("COMMIT AND NO CHAIN").expect("an answer");
    }
    assert_eq!(table(&mut root), [(0, None, true, true), (4_294_967_295, None, true, true)]);
    assert_eq!(one::<i64>(&mut root, "SELECT 5"), 6);
    assert_eq!(written(&mut root), start);
    // An error in the middle leaves nothing behind.
    root.query_drop(
        "CREATE TRIGGER tacho.refuse BEFORE UPDATE ON tacho.rewrite_rules FOR EACH ROW \
         SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'not now'",
    )
    .expect("a trigger");
    let (code, message) = error_of(&mut root, LOAD);
    assert_eq!((code, message.as_str()), (SIGNALLED, "not now"));
    assert_eq!(one::<i64>(&mut root, "SELECT @@SESSION.sql_log_bin FROM d.one"), 1);
    let start = written(&mut root);
    root.query_drop("INSERT INTO d.t VALUES (1, 'is written again')").expect("a row");
    assert!(written(&mut root) > start);
    drop(root);
    finish(server, place, &[]);
}

/// The procedure says what is missing when the recorder is.
#[test]
#[ignore = "needs MySQL: scripts/test-mysql.sh"]
fn without_the_recorder_the_procedure_says_so() {
    let place = Place::new("rewrite-before");
    let server = place.builder().start().expect("a server");
    run_script(&server);
    let mut root = server.connect().expect("a connection");
    let (code, message) = error_of(&mut root, LOAD);
    assert_eq!(code, SIGNALLED);
    assert!(message.contains("install it, then connect anew"), "{message}");
    assert_eq!(one::<i64>(&mut root, "SELECT @@SESSION.sql_log_bin"), 1);
    root.query_drop(install()).expect("installing");
    add(&mut root, "SELECT ?", None, "SELECT ? + 1");
    let mut anew = server.connect().expect("a connection");
    anew.query_drop(LOAD).expect("right rules");
    assert_eq!(one::<i64>(&mut anew, "SELECT 5"), 6);
    drop((root, anew));
    finish(server, place, &[]);
}

#[test]
#[ignore = "needs MySQL: scripts/test-mysql.sh"]
fn only_who_has_the_privilege_loads_rules() {
    let place = Place::new("rewrite-who");
    let (mut server, mut root) = start(&place, &[]);
    set(&mut root, &[("SELECT ?", "SELECT ? + 1")]);
    for sql in [
        "CREATE USER half",
        "GRANT ALL ON tacho.* TO dba, half, auditor",
        "GRANT SYSTEM_VARIABLES_ADMIN ON *.* TO dba",
        "GRANT TACHO_ADMIN ON *.* TO half",
        "GRANT TACHO_ADMIN, SYSTEM_VARIABLES_ADMIN ON *.* TO auditor",
    ] {
        root.query_drop(sql).expect(sql);
    }
    let mut dba = session(&server, "dba");
    let mut auditor = session(&server, "auditor");
    dba.query_drop("DELETE FROM tacho.rewrite_rules").expect("that is a table");
    // Each has one half of what is needed.
    let mut half = client::connect(server.socket(), "half", "tacho").expect("a connection");
    for conn in [&mut dba, &mut half] {
        for sql in [LOAD, "SELECT tacho_rewrite_load(1, 'SELECT 1', NULL, 'SELECT 2')"] {
            let (code, message) = error_of(conn, sql);
            assert_eq!(code, DENIED, "{sql}: {message}");
            assert!(message.contains("TACHO_ADMIN and SYSTEM_VARIABLES_ADMIN"), "{message}");
        }
    }
    assert_eq!((one::<i64>(&mut root, "SELECT 5"), rule_count(&mut root)), (6, 1));
    auditor.query_drop(LOAD).expect("who may");
    assert_eq!((one::<i64>(&mut root, "SELECT 5"), rule_count(&mut root)), (5, 0));
    drop((dba, half, auditor, root));
    let lines = end(&mut server, &place);
    let changes: Vec<Option<&str>> = lines
        .iter()
        .filter(|line| recorded::text(line, "event") == Some("config"))
        .filter(|line| recorded::text(line, "variable").is_some_and(|it| it.contains("rewrite")))
        .map(|line| recorded::text(line, "user"))
        .collect();
    assert_eq!(changes, [Some("root"), Some("auditor")]);
    drop(server);
    place.remove();
}

/// A rule may keep everybody from loading others, but for those who are exempt.
#[test]
#[ignore = "needs MySQL: scripts/test-mysql.sh"]
fn nobody_is_locked_out_for_good() {
    let place = Place::new("rewrite-locked-out");
    let (server, mut root) = start(&place, &[]);
    for sql in [
        "CREATE USER rescue",
        "GRANT ALL ON tacho.* TO rescue",
        "GRANT TACHO_ADMIN, SYSTEM_VARIABLES_ADMIN, TACHO_EXEMPT ON *.* TO rescue",
    ] {
        root.query_drop(sql).expect(sql);
    }
    set(&mut root, &[(LOAD, "DO 0"), ("SELECT ?", "SELECT ? + 1")]);
    root.query_drop("DELETE FROM tacho.rewrite_rules").expect("that is a table");
    root.query_drop(LOAD).expect("nothing is done");
    assert_eq!((one::<i64>(&mut root, "SELECT 5"), rule_count(&mut root)), (6, 2));
    let before = rewritten_count(&mut root);
    let mut rescue = client::connect(server.socket(), "rescue", "tacho").expect("a connection");
    assert_eq!(one::<i64>(&mut rescue, "SELECT 5"), 5);
    assert_eq!(rewritten_count(&mut root), before);
    rescue.query_drop(LOAD).expect("no rules");
    assert_eq!((one::<i64>(&mut root, "SELECT 5"), rule_count(&mut root)), (5, 0));
    // Whoever has not got that, too: in a comment that the server executes it is not rewritten.
    set(&mut root, &[(LOAD, "DO 0")]);
    root.query_drop("DELETE FROM tacho.rewrite_rules").expect("that is a table");
    root.query_drop("CALL /*! tacho.load_rewrite_rules() */").expect("no rules");
    assert_eq!(rule_count(&mut root), 0);
    drop((rescue, root));
    finish(server, place, &[]);
}

/// Asks until told to stop, in sessions of some statements each: answers by how much they were
/// raised, none, one or two.
fn ask(socket: &Path, stop: &AtomicBool, done: &AtomicU64) -> [u64; 3] {
    let mut tally = [0; 3];
    while !stop.load(Ordering::Relaxed) {
        let mut conn = client::connect(socket, "app", "d").expect("a connection");
        for n in 0..50_u64 {
            let answer: u64 = one(&mut conn, &format!("SELECT {n} FROM d.one"));
            let raised = usize::try_from(answer - n).expect("a small number");
            tally[raised] += 1;
            done.fetch_add(1, Ordering::Relaxed);
        }
    }
    tally
}

/// Runs `change` while eight sessions ask: how often they were answered by which rule.
fn under_load(server: &MySql, change: impl FnOnce(&AtomicU64)) -> [u64; 3] {
    let (stop, done) = (AtomicBool::new(false), AtomicU64::new(0));
    let socket = server.socket().to_owned();
    let tallies: Vec<[u64; 3]> = thread::scope(|scope| {
        let workers: Vec<_> = (0..8).map(|_| scope.spawn(|| ask(&socket, &stop, &done))).collect();
        change(&done);
        stop.store(true, Ordering::Relaxed);
        workers.into_iter().map(|worker| worker.join().expect("a tally")).collect()
    });
    let sum = |which: usize| tallies.iter().map(|tally| tally[which]).sum();
    [sum(0), sum(1), sum(2)]
}

/// Waits until some more statements were answered.
fn wait_for_answers(done: &AtomicU64) {
    let before = done.load(Ordering::Relaxed);
    wait::until("some statements were answered", || done.load(Ordering::Relaxed) > before + 20);
}

/// Each statement is rewritten by the rules of before or by those of after.
#[test]
#[ignore = "needs MySQL: scripts/test-mysql.sh"]
fn rules_change_under_load() {
    let place = Place::new("rewrite-load");
    let (mut server, mut root) = start(&place, &[]);
    let by = |n: u64| format!("SELECT ? + {n} FROM d.one");
    set(&mut root, &[("SELECT ? FROM d.one", &by(1))]);
    let tally = under_load(&server, |done| {
        for round in 1..=30_u64 {
            wait_for_answers(done);
            set(&mut root, &[("SELECT ? FROM d.one", &by(1 + round % 2))]);
        }
    });
    assert!(tally[0] == 0 && tally[1] > 100 && tally[2] > 100, "{tally:?}");
    assert_eq!(rewritten_count(&mut root), tally[1] + tally[2]);
    drop(root);
    let lines = end(&mut server, &place);
    let raised =
        |end: &str| rewritten(&lines).iter().filter(|it| it.1.ends_with(end)).count() as u64;
    assert_eq!([raised("+ 1 FROM d.one"), raised("+ 2 FROM d.one")], tally[1..]);
    drop(server);
    place.remove();
}

/// The recorder comes and goes: no statement fails, and the rules are there again with it.
#[test]
#[ignore = "needs MySQL: scripts/test-mysql.sh"]
fn the_recorder_comes_and_goes_under_load() {
    let place = Place::new("rewrite-uninstall");
    let (server, mut root) = start(&place, &[]);
    set(&mut root, &[("SELECT ? FROM d.one", "SELECT ? + 1 FROM d.one")]);
    let socket = server.socket().to_owned();
    let admin = move || client::connect(&socket, "root", "").expect("a connection");
    drop(root);
    let tally = under_load(&server, |done| {
        for _ in 0..5 {
            wait_for_answers(done);
            // A plugin goes when the last session ends that has used it; ours is one.
            admin().query_drop(uninstall()).expect("uninstalling");
            wait_for_answers(done);
            wait::until("it is installed again", || admin().query_drop(install()).is_ok());
            // Its functions, too.
            admin().query_drop(LOAD).expect("the rules");
        }
        wait_for_answers(done);
    });
    assert!(tally[0] > 0 && tally[1] > 0 && tally[2] == 0, "{tally:?}");
    finish(server, place, &["UNINSTALL PLUGIN"]);
}

/// A session that has called the procedure, and keeps it, does not keep the recorder from leaving.
#[test]
#[ignore = "needs MySQL: scripts/test-mysql.sh"]
fn a_session_that_has_loaded_rules_uninstalls_and_installs() {
    let place = Place::new("rewrite-again");
    let (server, mut root) = start(&place, &[]);
    if release() == Release::Mysql80 {
        // The session that uninstalls holds the plugin itself, until it ends.
        drop(root);
        root = server.connect().expect("a connection");
    }
    set(&mut root, &[("SELECT ?", "SELECT ? + 1")]);
    root.query_drop("PREPARE s FROM 'SELECT tacho_rewrite_digest(\"SELECT 1\")'").expect("it");
    let digest: String = one(&mut root, "EXECUTE s");
    root.query_drop(uninstall()).expect("uninstalling");
    if release() == Release::Mysql97 {
        assert_eq!(one::<i64>(&mut root, "SELECT 5"), 5, "rules go with the recorder");
        assert_ne!(error_of(&mut root, LOAD).0, 0);
        assert_ne!(error_of(&mut root, "SELECT tacho_rewrite_digest('SELECT 1')").0, 0);
        root.query_drop(install()).expect("installing");
        assert_eq!(one::<i64>(&mut root, "SELECT 5"), 6, "and come with it");
        root.query_drop(LOAD).expect("the rules");
        assert_eq!(one::<String>(&mut root, "SELECT tacho_rewrite_digest('SELECT 1')"), digest);
    }
    drop(root);
    finish(server, place, &["UNINSTALL PLUGIN"]);
}

/// A function that a statement still uses is not registered anew: the error log says why, and
/// installing again later helps.
#[test]
#[ignore = "needs MySQL: scripts/test-mysql.sh"]
fn a_function_in_use_is_registered_anew_when_its_statement_has_ended() {
    if release() == Release::Mysql80 {
        // That statement holds the plugin.
        return;
    }
    let place = Place::new("rewrite-in-use");
    let (mut server, mut root) = start(&place, &[]);
    let mut app = session(&server, "app");
    let id: u64 = one(&mut app, "SELECT CONNECTION_ID()");
    let answer = thread::scope(|scope| {
        let sleeper = scope.spawn(move || {
            error_of(&mut app, "SELECT tacho_rewrite_digest(CONCAT('SELECT ', SLEEP(600)))")
        });
        let state = format!(
            "SELECT COUNT(*) FROM performance_schema.processlist \
             WHERE id = {id} AND state = 'User sleep'"
        );
        wait::until("it sleeps", || one::<u64>(&mut root, &state) == 1);
        root.query_drop(uninstall()).expect("uninstalling");
        root.query_drop(install()).expect("installing");
        root.query_drop(format!("KILL QUERY {id}")).expect("an answer");
        sleeper.join().expect("an answer")
    });
    // Of SLEEP, which ends with 1 when it is killed, or of the statement.
    assert!(answer.0 == 0 || answer.0 == 1317, "{answer:?}");
    root.query_drop(uninstall()).expect("uninstalling");
    root.query_drop(install()).expect("installing");
    let _: String = one(&mut root, "SELECT tacho_rewrite_digest('SELECT 1')");
    root.query_drop(uninstall()).expect("uninstalling");
    assert_ne!(error_of(&mut root, "SELECT tacho_rewrite_digest('SELECT 1')").0, 0);
    drop(root);
    server.stop().expect("stopping");
    let why = "the function tacho_rewrite_digest was not registered anew: a statement";
    let log = server.error_log();
    assert_eq!(log.matches(why).count(), 1, "{log}");
    server.assert_clean_log(&[why]);
    drop(server);
    place.remove();
}

#[test]
#[ignore = "needs MySQL: scripts/test-mysql.sh"]
fn rules_survive_a_crash() {
    let place = Place::new("rewrite-crash");
    let (mut server, mut root) = start(&place, &["loose-tacho.flush-interval-ms=60000"]);
    set(&mut root, &[("SELECT ?", "SELECT ? + 1"), ("SELECT n FROM d.one", "SELECT 99")]);
    // Not loaded, and so not in force.
    add(&mut root, "SELECT ?, ?", None, "SELECT ?");
    for n in 0..5 {
        assert_eq!(one::<i64>(&mut root, &format!("SELECT {n}")), n + 1);
    }
    server.kill9().expect("killing");
    drop(root);
    server.restart().expect("restarting");
    let mut root = server.connect().expect("a connection");
    assert_eq!(rule_count(&mut root), 2);
    assert_eq!(one::<i64>(&mut root, "SELECT 5"), 6);
    assert_eq!(all(&mut root, "SELECT n FROM d.one"), [99]);
    root.query_drop(LOAD).expect("all three");
    assert_eq!(rule_count(&mut root), 3);
    drop(root);
    server.stop().expect("stopping");
    let lines = recorded::read(&place.log()).expect("a readable log");
    let found = rewritten(&lines);
    let mut expected: Vec<(String, String)> =
        (0..=5).map(|n| (format!("SELECT {n}"), format!("SELECT {n} + 1"))).collect();
    expected.push(("SELECT n FROM d.one".to_owned(), "SELECT 99".to_owned()));
    let found: Vec<(String, String)> =
        found.iter().map(|it| (it.0.to_owned(), it.1.to_owned())).collect();
    assert_eq!(found, expected);
    drop(server);
    place.remove();
}

/// What is not recorded is rewritten all the same; what is recorded has no secret in either text.
#[test]
#[ignore = "needs MySQL: scripts/test-mysql.sh"]
fn rules_do_not_depend_on_recording() {
    let place = Place::new("rewrite-off");
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
    // A rule that blocks is asked about what is executed.
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
    drop(server);
    place.remove();
}

/// MySQL's own plugin rewrites what was parsed: what ours has made.
#[test]
#[ignore = "needs MySQL: scripts/test-mysql.sh"]
fn the_servers_own_rewriter_comes_after_ours() {
    let place = Place::new("rewrite-both");
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
    drop(server);
    place.remove();
}
