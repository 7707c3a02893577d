//! Zone: outside. Rules that block, in a real MySQL: a blocked statement is not executed, its
//! client and its line have the error; no account locks itself out (`scripts/test-release.sh`).

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use mysql::ChangeUserOpts;
use tacho_tests::client::{self, Conn, Queryable};
use tacho_tests::mysql_place::LogAndArenas;
use tacho_tests::mysql_rewriting::end;
use tacho_tests::mysql_server::{MySql, named, status_name};
use tacho_tests::raw::{Answer, Raw, com};
use tacho_tests::recorded::{self, Line};
use tacho_tests::wait;

/// `ER_AUDIT_API_ABORT`, and the default of a rule without a message.
const BLOCKED: u16 = 3164;
const MESSAGE: &str = "The statement was blocked by a rule of the audit recorder";

/// A server that records, and its administrator, who has SUPER.
fn start(place: &LogAndArenas, options: &[&str]) -> (MySql, Conn) {
    let (server, mut root) = place.start(options);
    for sql in [
        "CREATE DATABASE d",
        "CREATE TABLE d.t (id INT PRIMARY KEY)",
        "CREATE TABLE d.kept (id INT)",
        "CREATE USER app, other, dba, auditor",
        "GRANT ALL ON d.* TO app, other, dba, auditor",
    ] {
        root.query_drop(sql).expect("an answer");
    }
    (server, root)
}

fn filter(root: &mut Conn, rules: &str) {
    let quoted = rules.replace('\\', "\\\\").replace('\'', "''");
    root.query_drop(named(&format!("SET GLOBAL tacho.filter = '{quoted}'"))).expect("a filter");
}

fn session(server: &MySql, user: &str) -> Conn {
    client::connect(server.socket(), user, "d").expect("a connection")
}

fn error_of<T>(answer: mysql::Result<T>) -> (u16, String, String) {
    match answer {
        Ok(_) => (0, String::new(), String::new()),
        Err(mysql::Error::MySqlError(error)) => (error.code, error.state, error.message),
        Err(other) => panic!("{other}"),
    }
}

fn code<T>(answer: mysql::Result<T>) -> u16 {
    error_of(answer).0
}

/// All answers to one or several statements: an error may come after the first row or set.
fn all(conn: &mut Conn, sql: &str) -> mysql::Result<()> {
    let mut answer = conn.query_iter(sql)?;
    while let Some(set) = answer.iter() {
        for row in set {
            row?;
        }
    }
    Ok(())
}

fn count(root: &mut Conn, table: &str) -> u64 {
    root.query_first(format!("SELECT COUNT(*) FROM d.{table}")).expect("an answer").expect("a row")
}

fn blocked_count(root: &mut Conn) -> u64 {
    client::status_number(root, &status_name("statements_blocked")).expect("a status")
}

/// The lines that say of a statement that it was blocked: its text, and by which rule.
fn blocked(lines: &[Line]) -> Vec<(&str, &str)> {
    lines
        .iter()
        .filter_map(|line| {
            let rule = recorded::text(line, "blocked_by")?;
            Some((recorded::text(line, "sql").unwrap_or("-"), rule))
        })
        .collect()
}

#[test]
fn a_blocked_statement_is_not_executed_and_has_an_error() {
    let place = LogAndArenas::new("blocked");
    let (mut server, mut root) = start(&place, &[]);
    let mut app = session(&server, "app");
    let mut other = session(&server, "other");
    filter(
        &mut root,
        r#"{"rules": [
            {"name": "no definitions", "user": "app", "class": "ddl", "action": "block",
             "error": 1644, "message": "ask the DBA's team: 100 % of it, \"please\""},
            {"user": "app", "sql_command": ["delete", "truncate"], "action": "block"}
        ]}"#,
    );
    let told = error_of(app.query_drop("DROP TABLE kept"));
    let message = "ask the DBA's team: 100 % of it, \"please\"".to_owned();
    assert_eq!(told, (1644, "HY000".to_owned(), message));
    assert_eq!(code(app.query_drop("CREATE TABLE x (i INT)")), 1644);
    let told = error_of(app.query_drop("/* SELECT */ DELETE FROM t"));
    assert_eq!(told, (BLOCKED, "HY000".to_owned(), MESSAGE.to_owned()));
    // The server continues, and so does the session.
    app.query_drop("INSERT INTO t VALUES (1)").expect("no rule blocks it");
    other.query_drop("DELETE FROM t WHERE id = 2").expect("a rule for others");
    assert_eq!(count(&mut root, "t"), 1);
    assert_eq!(count(&mut root, "kept"), 0, "it is there");
    // Prepared statements are prepared, and not executed.
    assert_eq!(code(app.exec_drop("DELETE FROM t WHERE id = ?", (1,))), BLOCKED);
    app.query_drop("PREPARE s FROM 'DELETE FROM t'").expect("it is only prepared");
    assert_eq!(code(app.query_drop("EXECUTE s")), BLOCKED);
    // The rest of its packet is not executed either, as after any error.
    assert_eq!(
        code(all(&mut app, "INSERT INTO t VALUES (2); DELETE FROM t; DROP TABLE t")),
        BLOCKED
    );
    assert_eq!(count(&mut root, "t"), 2);
    // A transaction continues after a statement that does not end it.
    app.query_drop("BEGIN; INSERT INTO t VALUES (3)").expect("an answer");
    assert_eq!(code(app.query_drop("DELETE FROM t")), BLOCKED);
    app.query_drop("ROLLBACK").expect("an answer");
    assert_eq!(count(&mut root, "t"), 2);
    assert_eq!(blocked_count(&mut root), 7);
    // Without the rules it is executed: in the session that is there.
    filter(&mut root, "");
    app.query_drop("DELETE FROM t").expect("nothing blocks it");
    assert_eq!((count(&mut root, "t"), blocked_count(&mut root)), (0, 7));
    drop((app, other, root));
    let lines = end(&mut server, &place);
    let rule = "rule 2";
    assert_eq!(
        blocked(&lines),
        [
            ("DROP TABLE kept", "no definitions"),
            ("CREATE TABLE x (i INT)", "no definitions"),
            ("/* SELECT */ DELETE FROM t", rule),
            ("DELETE FROM t WHERE id = 1", rule),
            ("DELETE FROM t", rule),
            ("DELETE FROM t", rule),
            ("DELETE FROM t", rule),
        ]
    );
    for line in lines.iter().filter(|line| line.contains_key("blocked_by")) {
        let number = recorded::number(line, "errno");
        assert!(matches!(number, Some(1644 | 3164)), "{line:?}");
        assert_eq!(recorded::text(line, "outcome"), Some("error"), "{line:?}");
        assert!(line.contains_key("sql_command") && line.contains_key("conn_seq"), "{line:?}");
    }
    let drop_table =
        lines.iter().find(|line| recorded::text(line, "sql") == Some("DROP TABLE kept"));
    let message = drop_table.and_then(|line| recorded::text(line, "error"));
    assert_eq!(message, Some("ask the DBA's team: 100 % of it, \"please\""));
}

/// The statement of a cursor is executed by other code of the server.
#[test]
fn rules_hold_for_cursors_and_for_another_user() {
    let place = LogAndArenas::new("cursors");
    let (mut server, mut root) = start(&place, &[]);
    filter(&mut root, r#"{"rules": [{"user": "app", "class": "read", "action": "block"}]}"#);
    let mut raw = Raw::connect(server.socket(), "app").expect("a session");
    for with_cursor in [false, true] {
        let id = raw.prepare("SELECT 1 UNION SELECT 2").expect("a packet").expect("it");
        let answers = raw.execute(id, &[], with_cursor).expect("an answer");
        assert_eq!(answers, [Answer::Error(BLOCKED)], "with a cursor: {with_cursor}");
    }
    raw.command(com::QUIT, b"").expect("quitting");
    // Of the same session with another user.
    let mut changing = session(&server, "other");
    assert_eq!(code(all(&mut changing, "SELECT 1")), 0);
    for (user, expected) in [("app", BLOCKED), ("other", 0), ("app", BLOCKED)] {
        changing
            .change_user(ChangeUserOpts::default().with_user(Some(user.into())))
            .expect("a user");
        assert_eq!(code(all(&mut changing, "SELECT 1")), expected, "{user}");
    }
    assert_eq!(blocked_count(&mut root), 4);
    drop((changing, root));
    assert_eq!(blocked(&end(&mut server, &place)).len(), 4);
}

#[test]
fn rules_hold_inside_of_stored_programs() {
    let place = LogAndArenas::new("nested");
    let (mut server, mut root) = start(&place, &["loose-tacho.traces=ON"]);
    for sql in [
        "USE d",
        "CREATE PROCEDURE plain() SQL SECURITY INVOKER DELETE FROM t",
        // Its definer is not an exempt account: the rule applies to its caller.
        "CREATE DEFINER = other PROCEDURE lent() DELETE FROM t",
        "CREATE DEFINER = dba PROCEDURE door() DELETE FROM t",
        "CREATE PROCEDURE caught() SQL SECURITY INVOKER BEGIN DECLARE CONTINUE HANDLER FOR 3164 \
         INSERT INTO kept VALUES (1); DELETE FROM t; END",
        "CREATE FUNCTION f() RETURNS INT DETERMINISTIC SQL SECURITY INVOKER BEGIN DELETE FROM t; RETURN 1; END",
        "CREATE DEFINER = other TRIGGER tr AFTER INSERT ON kept FOR EACH ROW DELETE FROM t WHERE id = NEW.id",
        "GRANT TACHO_EXEMPT ON *.* TO dba",
        "INSERT INTO t VALUES (1), (2), (3)",
    ] {
        root.query_drop(sql).expect("an answer");
    }
    filter(
        &mut root,
        r#"{"rules": [{"user": "app", "sql_command": "delete", "action": "block"}]}"#,
    );
    let mut app = session(&server, "app");
    for sql in ["CALL plain()", "CALL lent()", "SELECT f()", "INSERT INTO kept VALUES (2)"] {
        assert_eq!(code(all(&mut app, sql)), BLOCKED, "{sql}");
    }
    assert_eq!((count(&mut root, "t"), count(&mut root, "kept")), (3, 0));
    // Rules hold when nothing is recorded, too.
    root.query_drop(named("SET GLOBAL tacho.logging = OFF")).expect("an answer");
    let mut late = session(&server, "app");
    for sql in ["CALL plain()", "CALL lent()", "DELETE FROM t"] {
        assert_eq!(code(all(&mut late, sql)), BLOCKED, "{sql}");
    }
    root.query_drop(named("SET GLOBAL tacho.logging = ON")).expect("an answer");
    root.query_drop("DROP TRIGGER tr").expect("an answer");
    app.query_drop("CALL caught()").expect("it catches the error");
    assert_eq!((count(&mut root, "t"), count(&mut root, "kept")), (3, 1));
    // An exempt definer opens a door for others.
    app.query_drop("CALL door()").expect("its definer is exempt");
    assert_eq!(count(&mut root, "t"), 0);
    let mut other = session(&server, "other");
    other.query_drop("CALL plain()").expect("no rule is about this user");
    drop((app, late, other, root));
    let lines = end(&mut server, &place);
    let nested: Vec<(&str, &str)> =
        blocked(&lines).into_iter().filter(|(sql, _)| sql.starts_with("DELETE")).collect();
    assert_eq!(nested.len(), 5, "{:?}", blocked(&lines));
    assert!(nested.iter().all(|(_, rule)| *rule == "rule 1"), "{nested:?}");
}

#[test]
fn rules_hold_for_scheduled_events_by_their_definer() {
    let place = LogAndArenas::new("event");
    let (mut server, mut root) = start(&place, &[]);
    filter(&mut root, r#"{"rules": [{"user": "app", "class": "dml", "action": "block"}]}"#);
    for sql in [
        "USE d",
        "CREATE DEFINER = app EVENT blocked ON SCHEDULE AT NOW() DO INSERT INTO kept VALUES (1)",
        "CREATE DEFINER = app EVENT prepared ON SCHEDULE AT NOW() DO BEGIN \
         PREPARE s FROM 'INSERT INTO kept VALUES (2)'; EXECUTE s; END",
    ] {
        root.query_drop(sql).expect("an answer");
    }
    wait::until("both were blocked", || blocked_count(&mut root) == 2);
    root.query_drop(
        "CREATE DEFINER = other EVENT d.runs ON SCHEDULE AT NOW() DO INSERT INTO d.t VALUES (1)",
    )
    .expect("an answer");
    wait::until("the other one runs", || count(&mut root, "t") == 1);
    // Rules hold when nothing is recorded, too.
    root.query_drop(named("SET GLOBAL tacho.logging = OFF")).expect("an answer");
    root.query_drop(
        "CREATE DEFINER = app EVENT d.off ON SCHEDULE AT NOW() DO INSERT INTO d.kept VALUES (3)",
    )
    .expect("an answer");
    wait::until("it was blocked", || blocked_count(&mut root) == 3);
    assert_eq!(count(&mut root, "kept"), 0);
    drop(root);
    server.stop().expect("stopping");
}

/// Without traces the statements of programs have no lines: the line of the CALL has the rule, and
/// an event has none.
#[test]
fn rules_hold_without_traces() {
    let place = LogAndArenas::new("untraced");
    let (mut server, mut root) = start(&place, &["loose-tacho.traces=OFF"]);
    root.query_drop("CREATE PROCEDURE d.p() SQL SECURITY INVOKER DELETE FROM d.t").expect("it");
    filter(
        &mut root,
        r#"{"rules": [{"name": "r", "user": "app", "class": "dml", "action": "block"}]}"#,
    );
    let mut app = session(&server, "app");
    for sql in ["DELETE FROM t WHERE id = 7", "CALL p()", "INSERT INTO t VALUES (1); DO 1"] {
        assert_eq!(code(all(&mut app, sql)), BLOCKED, "{sql}");
    }
    root.query_drop("CREATE DEFINER = app EVENT d.e ON SCHEDULE AT NOW() DO DELETE FROM d.t")
        .expect("it");
    wait::until("the event was blocked", || blocked_count(&mut root) == 4);
    // A rule that excludes the caller does not exclude that the statement was blocked.
    filter(
        &mut root,
        r#"{"rules": [{"class": "program", "action": "skip"},
                      {"name": "inside", "user": "app", "class": "dml", "action": "block"}]}"#,
    );
    assert_eq!(code(all(&mut app, "CALL d.p()")), BLOCKED);
    // The database is that of the program, and then that of the session again.
    root.query_drop("CREATE DATABASE payroll").expect("it");
    root.query_drop("CREATE PROCEDURE payroll.p() SQL SECURITY INVOKER DELETE FROM d.t")
        .expect("it");
    root.query_drop("GRANT EXECUTE ON payroll.* TO app").expect("it");
    filter(
        &mut root,
        r#"{"rules": [{"name": "db", "db": "payroll", "class": "dml", "action": "block"}]}"#,
    );
    app.query_drop("DELETE FROM t").expect("it is not in that database");
    assert_eq!(code(all(&mut app, "CALL payroll.p()")), BLOCKED);
    app.query_drop("DELETE FROM t").expect("it is not in that database");
    drop((app, root));
    let lines = place.end(&mut server);
    let mut found = blocked(&lines);
    found.sort_unstable();
    let expected = [
        ("-", "r"),
        ("CALL d.p()", "inside"),
        ("CALL p()", "r"),
        ("CALL payroll.p()", "db"),
        ("DELETE FROM t WHERE id = 7", "r"),
        ("INSERT INTO t VALUES (1)", "r"),
    ];
    assert_eq!(found, expected);
}

#[test]
fn no_account_is_locked_out() {
    let place = LogAndArenas::new("exempt");
    let (mut server, mut root) = start(&place, &[]);
    for sql in [
        "CREATE ROLE free",
        "GRANT TACHO_EXEMPT ON *.* TO free",
        "GRANT free TO other",
        "GRANT TACHO_EXEMPT ON *.* TO dba",
        "GRANT SYSTEM_VARIABLES_ADMIN, TACHO_ADMIN ON *.* TO auditor",
    ] {
        root.query_drop(sql).expect("an answer");
    }
    let mut app = session(&server, "app");
    let mut dba = session(&server, "dba");
    let mut auditor = session(&server, "auditor");
    // SET ROLE would be blocked, too.
    let mut other = session(&server, "other");
    filter(
        &mut root,
        r#"{"default": "block", "rules": [{"sql_command": "set_role", "action": "record"}]}"#,
    );
    assert_eq!(code(app.query_drop("SELECT 1")), BLOCKED);
    assert_eq!(code(app.query_drop("SET @a = 1")), BLOCKED);
    assert_eq!(code(app.ping()), 0, "that is no statement");
    dba.query_drop("INSERT INTO t VALUES (1)").expect("exempt");
    root.query_drop("INSERT INTO d.t VALUES (2)").expect("SUPER");
    // Roles count as they do everywhere.
    assert_eq!(code(other.query_drop("SELECT 1")), BLOCKED);
    other.query_drop("SET ROLE free").expect("allowed");
    other.query_drop("SELECT 1").expect("exempt");
    other.query_drop("SET ROLE NONE").expect("allowed");
    assert_eq!(code(other.query_drop("SELECT 1")), BLOCKED);
    // Checked each time.
    root.query_drop("REVOKE TACHO_EXEMPT ON *.* FROM dba").expect("an answer");
    assert_eq!(code(dba.query_drop("INSERT INTO t VALUES (3)")), BLOCKED);
    root.query_drop("GRANT TACHO_EXEMPT ON *.* TO dba").expect("an answer");
    dba.query_drop("INSERT INTO t VALUES (3)").expect("exempt");
    // Accounts that may change the rules can always do so, and no more.
    assert_eq!(code(auditor.query_drop("SELECT 1")), BLOCKED);
    auditor.query_drop(named("SET GLOBAL tacho.filter = ''")).expect("an answer");
    app.query_drop("SELECT 1").expect("nothing blocks it");
    assert_eq!(count(&mut root, "t"), 3);
    drop((app, dba, auditor, other, root));
    let lines = end(&mut server, &place);
    let found = blocked(&lines);
    assert_eq!(found.len(), 6, "{found:?}");
    assert!(found.iter().all(|(_, rule)| *rule == "default"), "{found:?}");
}

#[test]
fn a_rule_may_ask_for_tables() {
    let place = LogAndArenas::new("tables");
    let (mut server, mut root) = start(&place, &["loose-tacho.tables=ON"]);
    for sql in [
        "CREATE TABLE d.secret (id INT)",
        "INSERT INTO d.secret VALUES (1)",
        "CREATE VIEW d.v AS SELECT * FROM d.secret",
        "CREATE DEFINER = other PROCEDURE d.p() INSERT INTO d.kept SELECT * FROM d.secret",
    ] {
        root.query_drop(sql).expect("an answer");
    }
    filter(
        &mut root,
        r#"{"rules": [{"name": "secrets", "user": "app", "table": "d.secret", "action": "block"}]}"#,
    );
    let mut app = session(&server, "app");
    for sql in [
        "SELECT * FROM secret",
        "SELECT * FROM t JOIN secret USING (id)",
        "SELECT * FROM v",
        "INSERT INTO kept SELECT * FROM secret",
        "UPDATE secret SET id = 2",
        "CALL p()",
    ] {
        assert_eq!(code(all(&mut app, sql)), BLOCKED, "{sql}");
    }
    assert_eq!(code(app.exec_drop("DELETE FROM secret WHERE id = ?", (1,))), BLOCKED);
    app.query_drop("INSERT INTO t SELECT 1").expect("another table");
    assert_eq!((count(&mut root, "kept"), count(&mut root, "secret")), (0, 1));
    drop((app, root));
    let lines = end(&mut server, &place);
    let found = blocked(&lines);
    assert!(found.iter().all(|(_, rule)| *rule == "secrets"), "{found:?}");
    assert!(found.iter().any(|(sql, _)| *sql == "UPDATE secret SET id = 2"), "{found:?}");
}

/// Inserts from one connection until stopped: how many were executed, and how many blocked.
fn insert(socket: &Path, user: &str, first: u64, stop: &AtomicBool) -> (u64, u64) {
    let mut conn = client::connect(socket, user, "d").expect("a connection");
    let (mut executed, mut blocked) = (0, 0);
    while !stop.load(Ordering::Relaxed) {
        match code(conn.query_drop(format!("INSERT INTO t VALUES ({})", first + executed))) {
            0 => executed += 1,
            BLOCKED => blocked += 1,
            other => panic!("error {other}"),
        }
    }
    (executed, blocked)
}

/// Under load, with the filter changing all the time: each statement is executed or blocked, and
/// the client's answer and the log agree.
#[test]
fn each_is_executed_or_blocked_while_the_filter_changes() {
    let place = LogAndArenas::new("changing");
    let (mut server, mut root) = start(&place, &[]);
    let stop = AtomicBool::new(false);
    let socket = server.socket().to_owned();
    let tallies: Vec<(u64, u64)> = thread::scope(|scope| {
        let workers: Vec<_> = (0..4)
            .map(|n| {
                let (socket, stop) = (&socket, &stop);
                scope.spawn(move || insert(socket, "app", n * 100_000_000, stop))
            })
            .collect();
        let mut before = 0;
        for round in 0..40 {
            let name = format!("round {round}");
            filter(
                &mut root,
                &format!(
                    r#"{{"rules": [{{"name": "{name}", "class": "dml", "action": "block"}}]}}"#
                ),
            );
            wait::until("some are blocked", || blocked_count(&mut root) > before + 8);
            filter(&mut root, r#"{"rules": [{"user": "app", "action": "record"}]}"#);
            before = blocked_count(&mut root);
        }
        stop.store(true, Ordering::Relaxed);
        workers.into_iter().map(|worker| worker.join().expect("a tally")).collect()
    });
    let executed: u64 = tallies.iter().map(|tally| tally.0).sum();
    let refused: u64 = tallies.iter().map(|tally| tally.1).sum();
    assert!(executed > 0 && refused > 8 * 40, "{tallies:?}");
    assert_eq!((count(&mut root, "t"), blocked_count(&mut root)), (executed, refused));
    drop(root);
    let lines = end(&mut server, &place);
    assert_eq!(blocked(&lines).len() as u64, refused);
    let inserted = lines.iter().filter(|line| {
        recorded::text(line, "sql_command") == Some("insert")
            && recorded::text(line, "outcome") == Some("ok")
    });
    assert_eq!(inserted.count() as u64, executed);
}

/// A blocked statement is in the arena before the answer, and so in the log after a crash.
#[test]
fn blocked_statements_survive_a_crash() {
    let place = LogAndArenas::new("crash");
    let (mut server, mut root) = start(&place, &["loose-tacho.flush-interval-ms=60000"]);
    filter(
        &mut root,
        r#"{"rules": [{"name": "no inserts", "user": "app", "class": "dml", "action": "block"}]}"#,
    );
    let mut app = session(&server, "app");
    for id in 0..5 {
        assert_eq!(code(app.query_drop(format!("INSERT INTO t VALUES ({id})"))), BLOCKED);
    }
    server.kill9().expect("killing");
    drop((app, root));
    server.restart().expect("restarting");
    let mut root = server.connect().expect("a connection");
    assert_eq!(count(&mut root, "t"), 0);
    drop(root);
    let lines = place.end(&mut server);
    let found = blocked(&lines);
    let expected: Vec<String> = (0..5).map(|id| format!("INSERT INTO t VALUES ({id})")).collect();
    assert_eq!(found.iter().map(|it| it.0).collect::<Vec<_>>(), expected);
    assert!(found.iter().all(|(_, rule)| *rule == "no inserts"), "{found:?}");
    for line in lines.iter().filter(|line| line.contains_key("blocked_by")) {
        assert_eq!(recorded::number(line, "errno"), Some(u64::from(BLOCKED)), "{line:?}");
    }
}

/// A rule with an unsupported condition is rejected, and the previous filter stays in effect.
#[test]
fn wrong_rules_are_refused() {
    let place = LogAndArenas::new("wrong");
    let (mut server, mut root) = start(&place, &[]);
    filter(&mut root, r#"{"rules": [{"user": "app", "class": "dml", "action": "block"}]}"#);
    for (rules, expected) in [
        (r#"{"errno": "any", "action": "record"}, {"action": "block"}"#, "is decided before"),
        (r#"{"table": "d.t", "action": "block"}"#, "needs tacho.tables=ON"),
        (r#"{"action": "block", "error": 2013}"#, "1000 to 1999"),
    ] {
        let sql = named(&format!(r#"SET GLOBAL tacho.filter = '{{"rules": [{rules}]}}'"#));
        let error = root.query_drop(sql).expect_err("wrong");
        assert!(error.to_string().contains(&named(expected)), "{error}");
    }
    let mut app = session(&server, "app");
    assert_eq!(code(app.query_drop("INSERT INTO t VALUES (1)")), BLOCKED);
    drop((app, root));
    end(&mut server, &place);
}
