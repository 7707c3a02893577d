//! Zone: outside. The traces of statements in stored programs on a real MySQL.
//! `scripts/test-release.sh` runs them.

use std::thread;

use crate::scene::{start, with_sql};
use tacho_tests::client::{self, Queryable};
use tacho_tests::mysql_place::LogAndArenas;
use tacho_tests::mysql_server::conn_id;
use tacho_tests::recorded::{self, Line};
use tacho_tests::wait;

/// The text distinguishes them from a client's.
const PROGRAMS: &[&str] = &[
    "CREATE FUNCTION d.f() RETURNS INT READS SQL DATA \
     BEGIN DECLARE c INT; SELECT COUNT(*) INTO c FROM t; RETURN c; END",
    "CREATE TRIGGER d.tr BEFORE INSERT ON d.t FOR EACH ROW INSERT INTO seen VALUES (NEW.id)",
    "CREATE PROCEDURE d.p() BEGIN \
     SELECT 'in p'; INSERT INTO t VALUES (9, 'z'), (10, 'q'); DELETE FROM t WHERE id > 8; \
     PREPARE s FROM 'DO 7'; EXECUTE s; END",
    "CREATE PROCEDURE d.handled() BEGIN \
     DECLARE CONTINUE HANDLER FOR SQLEXCEPTION SELECT 'handled'; \
     INSERT INTO t VALUES (1, 'dup'); CALL p(); END",
];

const EXECUTED: &[&str] = &[
    "- Query call ok \"CALL d.handled()\" affected=0",
    "d Query insert error 1062/23000 \"INSERT INTO t VALUES (1, 'dup')\"",
    "d Query insert ok \"INSERT INTO seen VALUES (NEW.id)\" affected=1",
    "d Query select ok \"SELECT 'handled'\"",
    "d Query call ok \"CALL p()\" affected=0",
    "d Query select ok \"SELECT 'in p'\"",
    "d Query insert ok \"INSERT INTO t VALUES (9, 'z'), (10, 'q')\" affected=2",
    "d Query insert ok \"INSERT INTO seen VALUES (NEW.id)\" affected=1",
    "d Query insert ok \"INSERT INTO seen VALUES (NEW.id)\" affected=1",
    "d Query delete ok \"DELETE FROM t WHERE id > 8\" affected=2",
    "d Query prepare ok \"PREPARE s FROM ...\" affected=0",
    "d Query execute ok \"EXECUTE s\" affected=0",
    "d Query do ok \"DO 7\"",
    "- Query select ok \"SELECT d.f()\"",
    "d Query select ok \"SELECT COUNT(*) INTO c FROM t\" affected=1",
    "- Query set_option ok \"SET @after = 1\" affected=0",
];

fn executed(line: &Line) -> String {
    let brief = recorded::brief(line);
    let word = |word: &&str| {
        !word.starts_with("sent=") && !word.starts_with("examined=") && *word != "lock"
    };
    let words: Vec<&str> = brief.split(' ').filter(word).collect();
    format!("{} {}", recorded::text(line, "db").unwrap_or("-"), words.join(" "))
}

#[test]
fn statements_of_stored_programs_are_recorded() {
    let place = LogAndArenas::new("programs");
    let (mut server, mut root) = start(&place, &["event-scheduler=ON"]);
    for sql in PROGRAMS {
        root.query_drop(sql).expect("an answer");
    }
    root.query_drop(
        "CREATE EVENT d.e ON SCHEDULE AT NOW() DO BEGIN INSERT INTO seen VALUES (76); \
         PREPARE ev FROM 'UPDATE seen SET id = 77 WHERE id = 76'; EXECUTE ev; \
         UPDATE seen SET id = 78 WHERE id = 77; END",
    )
    .expect("an answer");
    wait::until("the event has run", || {
        let count = "SELECT COUNT(*) FROM d.seen WHERE id = 78";
        root.query_first(count).expect("an answer") == Some(1_u64)
    });
    let mut conn = client::connect(server.socket(), "root", "").expect("a connection");
    let id = conn_id(&mut conn);
    for sql in ["CALL d.handled()", "SELECT d.f()", "SET @after = 1"] {
        conn.query_drop(sql).expect("an answer");
    }
    drop((conn, root));
    let lines = place.end(&mut server);
    let found: Vec<String> = recorded::of_conn(&lines, id)
        .into_iter()
        .filter(|line| line.contains_key("sql"))
        .skip(1)
        .map(executed)
        .collect();
    assert_eq!(found, EXECUTED, "{}", found.join("\n"));
    let executed_by_event = "UPDATE seen SET id = 77 WHERE id = 76";
    for sql in ["EXECUTE ev", executed_by_event, "UPDATE seen SET id = 78 WHERE id = 77"] {
        let of_event = with_sql(&lines, sql);
        assert_eq!(recorded::text(of_event, "outcome"), Some("ok"), "{sql}");
        assert_eq!(recorded::text(of_event, "user"), Some("root"), "{sql}");
        if sql != executed_by_event {
            assert_eq!(recorded::number(of_event, "rows_affected"), Some(1), "{sql}");
        }
        let command = if sql == "EXECUTE ev" { "execute" } else { "update" };
        assert_eq!(recorded::text(of_event, "sql_command"), Some(command), "{sql}");
    }
    let problems = recorded::problems(&lines.iter().collect::<Vec<_>>());
    let lone = |problem: &&String| problem.contains("\"conn\"");
    assert_eq!(problems.iter().find(lone), None);
    server.assert_clean_log(&[]);
}

/// A statement that a client may send, and a procedure may execute, repeatedly with the same
/// outcome.
const REPEATED: [&str; 5] = [
    "DELETE FROM seen",
    "SELECT * FROM t",
    "SELECT v FROM t WHERE id > 1 ORDER BY v LIMIT 1",
    "INSERT INTO seen SELECT id FROM t",
    "UPDATE t SET v = 'x' WHERE id < 3",
];

/// Nesting depth of programs whose statements have their rows.
const ROW_LEVELS: usize = 8;

fn rows(line: &Line) -> (Option<u64>, Option<u64>) {
    (recorded::number(line, "rows_sent"), recorded::number(line, "rows_examined"))
}

/// The rows of a connection's lines with this text.
fn rows_of(lines: &[&Line], sql: &str) -> Vec<(Option<u64>, Option<u64>)> {
    let with_it = lines.iter().filter(|line| recorded::text(line, "sql") == Some(sql));
    with_it.map(|line| rows(line)).collect()
}

/// The server adds up the counters of a procedure's statements, and restarts in functions and
/// triggers.
#[test]
fn statements_of_stored_programs_have_their_own_rows() {
    let place = LogAndArenas::new("rows");
    let (mut server, mut root) = start(&place, &[]);
    let body = REPEATED.join("; ");
    for sql in [
        "CREATE TABLE d.marks (id INT)",
        &format!("CREATE PROCEDURE d.again() BEGIN {body}; END"),
        "CREATE PROCEDURE d.around() BEGIN SELECT * FROM t; CALL again(); SELECT * FROM t; END",
        "CREATE FUNCTION d.own() RETURNS INT READS SQL DATA \
         BEGIN DECLARE c INT; SELECT id INTO c FROM t WHERE id = 2; RETURN c; END",
        "CREATE PROCEDURE d.calls() BEGIN SELECT * FROM t; SELECT id, own() FROM t; END",
    ] {
        root.query_drop(sql).expect(sql);
    }
    // One more than have their rows; the innermost calls nothing.
    for level in (1..=ROW_LEVELS + 1).rev() {
        let calls =
            if level > ROW_LEVELS { String::new() } else { format!("CALL level{}();", level + 1) };
        root.query_drop(format!(
            "CREATE PROCEDURE d.level{level}() BEGIN SELECT 'level {level}'; {calls} END"
        ))
        .expect("a procedure");
    }
    let mut conn = client::connect(server.socket(), "root", "d").expect("a connection");
    let id = conn_id(&mut conn);
    // The second time finds the result of the first one, as all later ones do.
    for sql in REPEATED.iter().chain(&REPEATED) {
        conn.query_drop(sql).expect("an answer");
    }
    for sql in ["CALL again()", "CALL around()", "SELECT id, own() FROM t", "CALL calls()"] {
        conn.query_drop(sql).expect("an answer");
    }
    conn.query_drop("CALL level1()").expect("an answer");
    root.query_drop(
        "CREATE TRIGGER d.mark BEFORE INSERT ON d.seen FOR EACH ROW \
         INSERT INTO marks SELECT id FROM t",
    )
    .expect("a trigger");
    conn.query_drop("INSERT INTO seen VALUES (7), (8), (9)").expect("an answer");
    drop((conn, root));
    server.stop().expect("stopping");

    let all = recorded::read(&place.log()).expect("a readable log");
    let lines = recorded::of_conn(&all, id);
    let mut sent_by_all = 0;
    for sql in REPEATED {
        let found = rows_of(&lines, sql);
        // From the client, and from `again` alone and in `around`; two more SELECT are in that, and
        // one in `calls`.
        let (by_client, by_again) = (found[1], found[2]);
        assert_eq!(by_again, by_client, "{sql}: {found:?}");
        let others = if sql == "SELECT * FROM t" { 3 } else { 0 };
        assert_eq!(found.len(), 4 + others, "{sql}");
        assert!(found[1..].iter().all(|rows| *rows == by_client), "{sql}: {found:?}");
        sent_by_all += by_client.0.expect("rows");
    }
    assert!(sent_by_all > 3, "{sent_by_all}");
    let calls = rows_of(&lines, "CALL again()");
    assert_eq!(calls.iter().map(|rows| rows.0).collect::<Vec<_>>(), [Some(sent_by_all); 2]);
    // A function in a procedure, as a client's.
    let with_function = rows_of(&lines, "SELECT id, own() FROM t");
    assert_eq!(with_function.len(), 2);
    assert_eq!(with_function[0], with_function[1]);
    assert_eq!(with_function[0].0, Some(3));
    let in_function = rows_of(&lines, "SELECT id INTO c FROM t WHERE id = 2");
    assert_eq!(in_function, [(Some(0), Some(1)); 6]);
    assert_eq!(rows_of(&lines, "INSERT INTO marks SELECT id FROM t"), [(Some(0), Some(3)); 3]);
    for level in 1..=ROW_LEVELS + 1 {
        let found = rows_of(&lines, &format!("SELECT 'level {level}'"));
        let sent = (level <= ROW_LEVELS).then_some(1);
        assert_eq!(found.iter().map(|rows| rows.0).collect::<Vec<_>>(), [sent], "{level}");
    }
}

/// The maximum nesting of programs whose statements are recorded (docs/specs/record.md), and the
/// nesting of this one.
const DEPTH_RECORDED: usize = 126;
const DEPTH: usize = 140;

#[test]
fn programs_in_programs_are_recorded_to_a_depth() {
    let place = LogAndArenas::new("depth");
    let (mut server, mut root) = start(&place, &["thread-stack=32M"]);
    let id = conn_id(&mut root);
    for sql in [
        &format!(
            "CREATE PROCEDURE d.deep(n INT) BEGIN INSERT INTO d.seen VALUES (n); \
             IF n < {DEPTH} THEN CALL d.deep(n + 1); END IF; END"
        ),
        "SET SESSION max_sp_recursion_depth = 200",
        "CALL d.deep(1)",
        "DO 'after'",
    ] {
        root.query_drop(sql).expect(sql);
    }
    let done: Option<usize> = root.query_first("SELECT COUNT(*) FROM d.seen").expect("an answer");
    assert_eq!(done, Some(DEPTH));
    drop(root);
    let lines = place.end(&mut server);
    let is_insert = |line: &&Line| {
        recorded::text(line, "sql").is_some_and(|sql| sql.starts_with("INSERT INTO d.seen"))
    };
    assert_eq!(lines.iter().filter(is_insert).count(), DEPTH_RECORDED);
    for sql in ["CALL d.deep(1)", "DO 'after'"] {
        assert_eq!(recorded::text(with_sql(&lines, sql), "outcome"), Some("ok"), "{sql}");
    }
    assert_eq!(recorded::problems(&recorded::of_conn(&lines, id)), [""; 0]);
    server.assert_clean_log(&[]);
}

#[test]
fn programs_of_many_sessions_are_recorded_exactly_once() {
    const SESSIONS: usize = 8;
    const CALLS: usize = 100;
    let place = LogAndArenas::new("calls");
    let (mut server, mut root) = start(&place, &[]);
    root.query_drop("CREATE PROCEDURE d.one() BEGIN DO 'first'; DO 'second'; END")
        .expect("an answer");
    thread::scope(|scope| {
        for _ in 0..SESSIONS {
            let mut conn = client::connect(server.socket(), "root", "d").expect("a connection");
            scope.spawn(move || {
                for _ in 0..CALLS {
                    conn.query_drop("CALL one()").expect("an answer");
                }
            });
        }
    });
    drop(root);
    let lines = place.end(&mut server);
    let count = |sql: &str| {
        let is_it = |line: &&Line| {
            recorded::text(line, "sql") == Some(sql)
                && recorded::text(line, "outcome") == Some("ok")
        };
        lines.iter().filter(is_it).count()
    };
    let calls = SESSIONS * CALLS;
    assert_eq!(
        (count("CALL one()"), count("DO 'first'"), count("DO 'second'")),
        (calls, calls, calls)
    );
}

/// The texts of stored programs and the messages of errors have secrets in them, too.
#[test]
fn no_secret_is_in_a_program_or_in_a_message() {
    const SECRET: &str = "hush-hush";
    let place = LogAndArenas::new("secrets");
    let (mut server, mut root) = start(&place, &[]);
    let create = format!("CREATE USER w IDENTIFIED BY '{SECRET}'");
    root.query_drop(format!("CREATE PROCEDURE d.make() {create}")).expect("an answer");
    root.query_drop("CALL d.make()").expect("an answer");
    root.query_drop("CALL d.make()").expect_err("it is there");
    root.query_drop(format!("{create} NONSENSE")).expect_err("an error");
    root.query_drop(format!("CREATE USER v IDENTIFIED BY NONSENSE '{SECRET}'"))
        .expect_err("an error");
    root.query_drop(format!("SET PASSWORD FOR stranger = '{SECRET}'")).expect_err("an error");
    root.query_drop(format!("PREPARE s FROM \"ALTER USER w IDENTIFIED BY '{SECRET}'\""))
        .expect("an answer");
    root.query_drop("EXECUTE s").expect("an answer");
    // The text is in no statement, and the error of a prepared statement is also that of the CALL.
    let reversed: String = SECRET.chars().rev().collect();
    root.query_drop(
        "CREATE PROCEDURE d.misspelt(r TEXT) BEGIN SET @s = \
         CONCAT('CREATE USR u IDENTIFIED BY ''', REVERSE(r), ''''); PREPARE s FROM @s; END",
    )
    .expect("an answer");
    root.query_drop(format!("CALL d.misspelt('{reversed}')")).expect_err("it is misspelt");
    drop(root);
    let lines = place.end(&mut server);
    let secret = lines.iter().find(|line| format!("{line:?}").contains(SECRET));
    assert_eq!(secret, None);
    let inner = |line: &&Line| {
        recorded::text(line, "sql").is_some_and(|sql| sql.starts_with("CREATE USER"))
            && recorded::text(line, "sql_command") == Some("create_user")
    };
    assert_eq!(lines.iter().filter(inner).count(), 2, "those of the procedure");
    let messages = lines.iter().filter(|line| line.contains_key("error")).count();
    assert!(messages >= 4, "the errors have their messages still");
}

#[test]
fn a_kill_inside_of_a_program_leaves_it_interrupted() {
    let place = LogAndArenas::new("killed");
    let (mut server, mut root) = start(&place, &[]);
    root.query_drop("CREATE PROCEDURE d.p() BEGIN DO 'done'; DO SLEEP(1000); END")
        .expect("an answer");
    let mut conn = client::connect(server.socket(), "root", "d").expect("a connection");
    let caller = thread::spawn(move || conn.query_drop("CALL p()"));
    wait::until("it sleeps", || {
        let query =
            "SELECT COUNT(*) FROM performance_schema.processlist WHERE STATE = 'User sleep'";
        root.query_first(query).expect("an answer") == Some(1_u64)
    });
    drop(root);
    server.kill9().expect("killing");
    caller.join().expect("its thread").expect_err("the server is gone");
    server.restart().expect("restarting");
    let lines = place.end(&mut server);
    let outcome = |sql: &str| recorded::text(with_sql(&lines, sql), "outcome");
    assert_eq!(outcome("CALL p()"), Some("interrupted"));
    assert_eq!(outcome("DO 'done'"), Some("ok"));
    assert_eq!(outcome("DO SLEEP(1000)"), Some("interrupted"));
}
