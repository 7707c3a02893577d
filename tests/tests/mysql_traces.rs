//! Zone: outside. What the component, or the plugin, takes from the traces of a real MySQL: figures and errors as
//! the Performance Schema has them, and what stored programs execute; and what is left without
//! them. `scripts/test-mysql.sh` runs them.

use std::thread;

use tacho_tests::client::{self, Conn, Queryable};
use tacho_tests::mysql_place::Place;
use tacho_tests::mysql_server::{Builder, MySql, Release, install, named, release, wait_for_end};
use tacho_tests::recorded::{self, Line};
use tacho_tests::wait;

/// A server with a database `d`, and root's connection.
fn start(place: &Place, options: &[&str]) -> (MySql, Conn) {
    start_with(place.builder(), options)
}

fn start_with(builder: Builder, options: &[&str]) -> (MySql, Conn) {
    let with = |builder: Builder, option: &&str| builder.option(option);
    let server = options.iter().fold(builder, with).start().expect("a server");
    let mut root = server.connect().expect("a connection");
    root.query_drop(install()).expect("installing");
    for sql in [
        "CREATE DATABASE d",
        "CREATE TABLE d.t (id INT PRIMARY KEY, v VARCHAR(20))",
        "CREATE TABLE d.seen (id INT)",
        "INSERT INTO d.t VALUES (1, 'a'), (2, 'b'), (3, 'c')",
    ] {
        root.query_drop(sql).expect("an answer");
    }
    (server, root)
}

fn conn_id(conn: &mut Conn) -> u64 {
    conn.query_first("SELECT CONNECTION_ID()").expect("an answer").expect("a row")
}

fn with_sql<'l>(lines: &'l [Line], sql: &str) -> &'l Line {
    let mut found = lines.iter().filter(|line| recorded::text(line, "sql") == Some(sql));
    let line = found.next().unwrap_or_else(|| panic!("no line of {sql}"));
    assert!(found.next().is_none(), "{sql} has several lines");
    line
}

/// What the Performance Schema has of a statement.
#[derive(Debug, PartialEq)]
struct Seen {
    sent: Option<u64>,
    examined: Option<u64>,
    affected: Option<u64>,
    lock_us: Option<u64>,
    errno: Option<u64>,
    state: Option<String>,
    message: Option<String>,
}

type Row = (Option<String>, u64, u64, u64, u64, u64, Option<String>, Option<String>);

/// The last statement of a connection, when it is this one: the server notes it after its reply.
fn in_performance_schema(root: &mut Conn, id: u64, sql: &str) -> Seen {
    let query = format!(
        "SELECT SQL_TEXT, ROWS_SENT, ROWS_EXAMINED, ROWS_AFFECTED, LOCK_TIME DIV 1000000, MYSQL_ERRNO, \
         RETURNED_SQLSTATE, MESSAGE_TEXT FROM performance_schema.events_statements_history \
         JOIN performance_schema.threads USING (THREAD_ID) WHERE PROCESSLIST_ID = {id} \
         ORDER BY EVENT_ID DESC LIMIT 1"
    );
    let mut last: Option<Row> = None;
    wait::until("the statement is in the history", || {
        last = root.query_first(&query).expect("an answer");
        last.as_ref().is_some_and(|row| row.0.as_deref() == Some(sql))
    });
    let (_, sent, examined, affected, lock_us, errno, state, message) = last.expect("a row");
    let failed = errno != 0;
    Seen {
        sent: Some(sent),
        examined: Some(examined),
        // Of a result set it shows 0, and the log nothing.
        affected: (state.as_deref() == Some("00000")).then_some(affected),
        lock_us: Some(lock_us),
        errno: failed.then_some(errno),
        state: state.filter(|_| failed),
        message: message.filter(|_| failed).map(beginning),
    }
}

/// The Performance Schema keeps 128 bytes of a message.
fn beginning(message: impl AsRef<str>) -> String {
    message.as_ref().chars().take(100).collect()
}

fn in_log(line: &Line) -> Seen {
    let number = |name| recorded::number(line, name);
    let text = |name| recorded::text(line, name).map(str::to_owned);
    Seen {
        sent: number("rows_sent"),
        examined: number("rows_examined"),
        affected: number("rows_affected"),
        lock_us: number("lock_time_us"),
        errno: number("errno"),
        state: text("sqlstate"),
        message: recorded::text(line, "error").map(beginning),
    }
}

#[test]
#[ignore = "needs MySQL: scripts/test-mysql.sh"]
fn figures_and_errors_are_those_of_the_performance_schema() {
    let place = Place::new("figures");
    let (mut server, mut root) = start(&place, &[]);
    let mut conn = client::connect(server.socket(), "root", "d").expect("a connection");
    let id = conn_id(&mut conn);
    let statements = [
        "SELECT * FROM t",
        "SELECT v FROM t WHERE id > 1 ORDER BY v LIMIT 1",
        "UPDATE t SET v = 'same'",
        "UPDATE t SET v = 'same' WHERE id < 3",
        "INSERT INTO t SELECT id + 10, v FROM t",
        "DELETE FROM t WHERE id > 11",
        "CREATE TABLE t2 AS SELECT * FROM t",
        "SET @a = 1",
        "SELECT missing FROM t",
        "SELECT * FROM nothing",
        "SELEC 1",
        "INSERT INTO t VALUES (1, 'again')",
        "SELECT CAST('x' AS SIGNED)",
        "SHOW TABLES",
        "BEGIN",
        "COMMIT",
    ];
    let seen: Vec<Seen> = statements
        .iter()
        .map(|sql| {
            // Some of them fail.
            let _ = conn.query_drop(sql);
            in_performance_schema(&mut root, id, sql)
        })
        .collect();
    drop((conn, root));
    server.stop().expect("stopping");
    let lines = recorded::read(&place.log()).expect("a readable log");
    for (sql, seen) in statements.iter().zip(seen) {
        assert_eq!(in_log(with_sql(&lines, sql)), seen, "{sql}");
    }
    let changed = with_sql(&lines, "UPDATE t SET v = 'same'");
    assert_eq!(recorded::number(changed, "rows_affected"), Some(3));
    let failed = with_sql(&lines, "INSERT INTO t VALUES (1, 'again')");
    assert_eq!(recorded::text(failed, "error"), Some("Duplicate entry '1' for key 't.PRIMARY'"));
    server.assert_clean_log(&[]);
    drop(server);
    place.remove();
}

/// What tells them apart from a client's: their text.
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
#[ignore = "needs MySQL: scripts/test-mysql.sh"]
fn what_stored_programs_execute_is_recorded() {
    let place = Place::new("programs");
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
    server.stop().expect("stopping");
    let lines = recorded::read(&place.log()).expect("a readable log");
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
    drop(server);
    place.remove();
}

/// What a client may send, and a procedure may execute, again and again with the same outcome.
const REPEATED: [&str; 5] = [
    "DELETE FROM seen",
    "SELECT * FROM t",
    "SELECT v FROM t WHERE id > 1 ORDER BY v LIMIT 1",
    "INSERT INTO seen SELECT id FROM t",
    "UPDATE t SET v = 'x' WHERE id < 3",
];

/// How many programs are in each other whose statements have their rows.
const ROW_LEVELS: usize = 8;

fn rows(line: &Line) -> (Option<u64>, Option<u64>) {
    (recorded::number(line, "rows_sent"), recorded::number(line, "rows_examined"))
}

/// The rows of a connection's lines with this text.
fn rows_of(lines: &[&Line], sql: &str) -> Vec<(Option<u64>, Option<u64>)> {
    let with_it = lines.iter().filter(|line| recorded::text(line, "sql") == Some(sql));
    with_it.map(|line| rows(line)).collect()
}

/// The server adds up what a procedure's statements count, and begins anew in functions and
/// triggers.
#[test]
#[ignore = "needs MySQL: scripts/test-mysql.sh"]
fn rows_of_what_stored_programs_execute_are_their_own() {
    let place = Place::new("rows");
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
    // The second time finds what the first one has left, as all later ones do.
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
        // Of the client, and of `again` by itself and in `around`; two SELECT more are in that,
        // and one in `calls`.
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
    drop(server);
    place.remove();
}

/// How deep a program may be for its statements to be recorded (docs/specs/record.md), and how deep
/// this one goes.
const DEPTH_RECORDED: usize = 126;
const DEPTH: usize = 140;

#[test]
#[ignore = "needs MySQL: scripts/test-mysql.sh"]
fn programs_in_programs_are_recorded_to_a_depth() {
    let place = Place::new("depth");
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
    server.stop().expect("stopping");
    let lines = recorded::read(&place.log()).expect("a readable log");
    let is_insert = |line: &&Line| {
        recorded::text(line, "sql").is_some_and(|sql| sql.starts_with("INSERT INTO d.seen"))
    };
    assert_eq!(lines.iter().filter(is_insert).count(), DEPTH_RECORDED);
    for sql in ["CALL d.deep(1)", "DO 'after'"] {
        assert_eq!(recorded::text(with_sql(&lines, sql), "outcome"), Some("ok"), "{sql}");
    }
    assert_eq!(recorded::problems(&recorded::of_conn(&lines, id)), [""; 0]);
    server.assert_clean_log(&[]);
    drop(server);
    place.remove();
}

#[test]
#[ignore = "needs MySQL: scripts/test-mysql.sh"]
fn programs_of_many_sessions_are_recorded_exactly_once() {
    const SESSIONS: usize = 8;
    const CALLS: usize = 100;
    let place = Place::new("calls");
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
    server.stop().expect("stopping");
    let lines = recorded::read(&place.log()).expect("a readable log");
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
    drop(server);
    place.remove();
}

/// What a failed statement looks like without traces: 8.0 tells the message by an event, too.
fn untraced(brief: &str) -> String {
    match release() {
        Release::Mysql97 => format!("{brief} no-message"),
        Release::Mysql80 => brief.to_owned(),
    }
}

fn switch(root: &mut Conn, value: &str) {
    root.query_drop(named(&format!("SET GLOBAL tacho.traces = {value}"))).expect("an answer");
}

#[test]
#[ignore = "needs MySQL: scripts/test-mysql.sh"]
fn without_traces_every_statement_has_its_line_still() {
    let place = Place::new("switched");
    let (mut server, mut root) = start(&place, &[]);
    root.query_drop("CREATE PROCEDURE d.p() INSERT INTO seen VALUES (1)").expect("an answer");
    let mut conn = client::connect(server.socket(), "root", "d").expect("a connection");
    let id = conn_id(&mut conn);
    for value in ["OFF", "ON"] {
        switch(&mut root, value);
        conn.query_drop(format!("UPDATE t SET v = '{value}'")).expect("an answer");
        conn.query_drop(format!("SELECT missing, '{value}' FROM t")).expect_err("an error");
        conn.query_drop("CALL p()").expect("an answer");
    }
    drop(conn);
    wait_for_end(&mut root, id);
    drop(root);
    server.stop().expect("stopping");
    let lines = recorded::read(&place.log()).expect("a readable log");
    let found: Vec<String> =
        recorded::of_conn(&lines, id).into_iter().skip(2).map(recorded::brief).collect();
    assert_eq!(
        found,
        [
            "Query update ok \"UPDATE t SET v = 'OFF'\" sent=0 examined=3",
            &untraced(
                "Query select error 1054/- \"SELECT missing, 'OFF' FROM t\" sent=0 examined=0"
            ),
            "Query call ok \"CALL p()\" sent=0 examined=0",
            "Query update ok \"UPDATE t SET v = 'ON'\" sent=0 examined=3 affected=3 lock",
            "Query select error 1054/42S22 \"SELECT missing, 'ON' FROM t\" sent=0 examined=0 lock",
            "Query call ok \"CALL p()\" sent=0 examined=0 affected=1 lock",
            "Query insert ok \"INSERT INTO seen VALUES (1)\" sent=0 examined=0 affected=1",
            "Quit ok",
            "disconnect",
        ]
    );
    server.assert_clean_log(&[]);
    drop(server);
    place.remove();
}

#[test]
#[ignore = "needs MySQL: scripts/test-mysql.sh"]
fn without_the_performance_schema_there_are_no_traces() {
    let place = Place::new("no-pfs");
    let (mut server, mut root) = start(&place, &["performance-schema=OFF"]);
    root.query_drop("UPDATE d.t SET v = 'x'").expect("an answer");
    root.query_drop("SELECT missing").expect_err("an error");
    drop(root);
    server.stop().expect("stopping");
    let lines = recorded::read(&place.log()).expect("a readable log");
    let brief = |sql| recorded::brief(with_sql(&lines, sql));
    assert_eq!(
        brief("UPDATE d.t SET v = 'x'"),
        "Query update ok \"UPDATE d.t SET v = 'x'\" sent=0 examined=3"
    );
    assert_eq!(
        brief("SELECT missing"),
        untraced("Query select error 1054/- \"SELECT missing\" sent=0 examined=0")
    );
    drop(server);
    place.remove();
}

#[test]
#[ignore = "needs MySQL: scripts/test-mysql.sh"]
fn tables_are_with_their_statement() {
    let place = Place::new("tables");
    let (mut server, mut root) = start(&place, &[&named("loose-tacho.tables=ON")]);
    root.query_drop("CREATE VIEW d.w AS SELECT id FROM d.t").expect("an answer");
    let statements = [
        ("SELECT * FROM d.t", "read d.t"),
        ("INSERT INTO d.seen SELECT id FROM d.t", "write d.seen, read d.t"),
        ("UPDATE d.t JOIN d.seen USING (id) SET v = 'x'", "write d.t, write d.seen"),
        ("DELETE FROM d.seen", "write d.seen"),
        ("SELECT * FROM d.w", "read d.t"),
        ("DO 1", ""),
    ];
    for (sql, _) in statements {
        root.query_drop(sql).expect("an answer");
    }
    drop(root);
    server.stop().expect("stopping");
    let lines = recorded::read(&place.log()).expect("a readable log");
    for (sql, expected) in statements {
        let touched: Vec<String> = with_sql(&lines, sql)
            .get("tables")
            .and_then(|tables| tables.as_array())
            .into_iter()
            .flatten()
            .map(|table| {
                let field = |name| table[name].as_str().unwrap_or("-");
                format!("{} {}.{}", field("access"), field("db"), field("table"))
            })
            .collect();
        assert_eq!(touched.join(", "), expected, "{sql}");
    }
    server.assert_clean_log(&[]);
    drop(server);
    place.remove();
}

/// The server's own `component_telemetry` takes them, and gives them back.
#[test]
#[ignore = "needs MySQL: scripts/test-mysql.sh"]
fn another_taker_of_traces_costs_no_line() {
    const TELEMETRY: &str = "COMPONENT 'file://component_telemetry'";
    if release() == Release::Mysql80 {
        // It has no such component.
        return;
    }
    let place = Place::new("taker");
    let builder = place.builder().library("component_telemetry.so");
    let (mut server, mut root) = start_with(builder, &[]);
    let mut conn = client::connect(server.socket(), "root", "d").expect("a connection");
    let id = conn_id(&mut conn);
    let mut run = |text: &str| {
        for number in 0..3 {
            conn.query_drop(format!("UPDATE t SET v = '{text} {number}'")).expect("an answer");
        }
    };
    run("ours");
    root.query_drop(format!("INSTALL {TELEMETRY}")).expect("installing");
    root.query_drop("SET GLOBAL telemetry.trace_enabled = ON").expect("an answer");
    run("theirs");
    switch(&mut root, "OFF");
    switch(&mut root, "ON");
    run("ours again");
    root.query_drop(format!("UNINSTALL {TELEMETRY}")).expect("uninstalling");
    run("still ours");
    drop((conn, root));
    server.stop().expect("stopping");
    let lines = recorded::read(&place.log()).expect("a readable log");
    let of_conn = recorded::of_conn(&lines, id);
    for text in ["ours", "theirs", "ours again", "still ours"] {
        for number in 0..3 {
            let sql = format!("UPDATE t SET v = '{text} {number}'");
            let found: Vec<_> =
                of_conn.iter().filter(|line| recorded::text(line, "sql") == Some(&sql)).collect();
            assert_eq!(found.len(), 1, "{sql}");
            assert_eq!(recorded::text(found[0], "outcome"), Some("ok"), "{sql}");
        }
        // A session notices another taker at one packet, and takes it up at the next.
        let last = with_sql(&lines, &format!("UPDATE t SET v = '{text} 2'"));
        assert_eq!(last.contains_key("rows_affected"), text != "theirs", "{text}");
    }
    assert_eq!(recorded::problems(&of_conn), [""; 0]);
    drop(server);
    place.remove();
}

#[test]
#[ignore = "needs MySQL: scripts/test-mysql.sh"]
fn sessions_of_a_thread_pool_are_recorded_exactly_once() {
    if release() == Release::Mysql80 {
        // It has no such plugin.
        return;
    }
    const SESSIONS: usize = 24;
    const ROUNDS: usize = 50;
    let place = Place::new("pool");
    let builder = place.builder().library("thread_pool.so");
    let options = ["plugin-load-add=thread_pool.so", "thread-pool-size=2"];
    let (mut server, mut root) = start_with(builder, &options);
    root.query_drop("CREATE PROCEDURE d.one(s INT) BEGIN INSERT INTO seen VALUES (s); END")
        .expect("an answer");
    thread::scope(|scope| {
        for session in 0..SESSIONS {
            let mut conn = client::connect(server.socket(), "root", "d").expect("a connection");
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    conn.query_drop(format!("CALL one({session}{round:03})")).expect("an answer");
                    conn.query_drop(format!("SELECT missing_{session}_{round}"))
                        .expect_err("an error");
                }
            });
        }
    });
    drop(root);
    server.stop().expect("stopping");
    let lines = recorded::read(&place.log()).expect("a readable log");
    let count = |begin: &str, outcome: &str| {
        let is_it = |line: &&Line| {
            recorded::text(line, "sql").is_some_and(|sql| sql.starts_with(begin))
                && recorded::text(line, "outcome") == Some(outcome)
        };
        lines.iter().filter(is_it).count()
    };
    let all = SESSIONS * ROUNDS;
    assert_eq!((count("CALL one", "ok"), count("SELECT missing", "error")), (all, all));
    let all_lines: Vec<&Line> = lines.iter().filter(|line| line.contains_key("conn")).collect();
    assert_eq!(recorded::problems(&all_lines), [""; 0]);
    drop(server);
    place.remove();
}

/// The texts of stored programs and the messages of errors have secrets in them, too.
#[test]
#[ignore = "needs MySQL: scripts/test-mysql.sh"]
fn no_secret_is_in_a_program_or_in_a_message() {
    const SECRET: &str = "hush-hush";
    let place = Place::new("secrets");
    let (mut server, mut root) = start(&place, &[]);
    let create = format!("CREATE USER w IDENTIFIED BY '{SECRET}'");
    root.query_drop(format!("CREATE PROCEDURE d.make() {create}")).expect("an answer");
    root.query_drop("CALL d.make()").expect("an answer");
    root.query_drop("CALL d.make()").expect_err("it is there");
    root.query_drop(format!("{create} NONSENSE")).expect_err("an error");
    root.query_drop(format!("CREATE USER v IDENTIFIED BY NONSENSE '{SECRET}'"))
        .expect_err("an error");
    root.query_drop(format!("SET PASSWORD FOR nobody = '{SECRET}'")).expect_err("an error");
    root.query_drop(format!("PREPARE s FROM \"ALTER USER w IDENTIFIED BY '{SECRET}'\""))
        .expect("an answer");
    root.query_drop("EXECUTE s").expect("an answer");
    // The text is in no statement, and the error of what is prepared is that of the CALL, too.
    let reversed: String = SECRET.chars().rev().collect();
    root.query_drop(
        "CREATE PROCEDURE d.misspelt(r TEXT) BEGIN SET @s = \
         CONCAT('CREATE USR u IDENTIFIED BY ''', REVERSE(r), ''''); PREPARE s FROM @s; END",
    )
    .expect("an answer");
    root.query_drop(format!("CALL d.misspelt('{reversed}')")).expect_err("it is misspelt");
    drop(root);
    server.stop().expect("stopping");
    let lines = recorded::read(&place.log()).expect("a readable log");
    let secret = lines.iter().find(|line| format!("{line:?}").contains(SECRET));
    assert_eq!(secret, None);
    let inner = |line: &&Line| {
        recorded::text(line, "sql").is_some_and(|sql| sql.starts_with("CREATE USER"))
            && recorded::text(line, "sql_command") == Some("create_user")
    };
    assert_eq!(lines.iter().filter(inner).count(), 2, "those of the procedure");
    let messages = lines.iter().filter(|line| line.contains_key("error")).count();
    assert!(messages >= 4, "the errors have their messages still");
    drop(server);
    place.remove();
}

#[test]
#[ignore = "needs MySQL: scripts/test-mysql.sh"]
fn what_a_skipped_statement_executes_is_skipped() {
    let place = Place::new("skipped");
    let (mut server, mut root) = start(&place, &[]);
    for sql in [
        "CREATE PROCEDURE d.p() BEGIN DO 'in p'; PREPARE s FROM 'DO 7'; EXECUTE s; END",
        "CREATE USER robot",
        "GRANT ALL ON d.* TO robot",
        r#"SET GLOBAL tacho.filter = '{"rules": [{"user": "robot", "action": "skip"}]}'"#,
    ] {
        root.query_drop(named(sql)).expect("an answer");
    }
    let mut robot = client::connect(server.socket(), "robot", "d").expect("a connection");
    robot.query_drop("CALL p()").expect("an answer");
    robot.query_drop("SELECT missing").expect_err("an error");
    let call = robot.prep("CALL p()").expect("a statement");
    robot.exec_drop(&call, ()).expect("an answer");
    root.query_drop("CALL d.p()").expect("an answer");
    root.query_drop(named("SET GLOBAL tacho.filter = ''")).expect("an answer");
    robot.query_drop("CALL p()").expect("an answer");
    drop((robot, root));
    server.stop().expect("stopping");
    let lines = recorded::read(&place.log()).expect("a readable log");
    let count =
        |sql: &str| lines.iter().filter(|line| recorded::text(line, "sql") == Some(sql)).count();
    // Root's, and the robot's last one.
    assert_eq!((count("DO 'in p'"), count("DO 7"), count("CALL p()")), (2, 2, 1));
    assert_eq!((count("CALL d.p()"), count("SELECT missing")), (1, 0));
    drop(server);
    place.remove();
}

#[test]
#[ignore = "needs MySQL: scripts/test-mysql.sh"]
fn a_kill_inside_of_a_program_leaves_it_interrupted() {
    let place = Place::new("killed");
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
    server.stop().expect("stopping");
    let lines = recorded::read(&place.log()).expect("a readable log");
    let outcome = |sql: &str| recorded::text(with_sql(&lines, sql), "outcome");
    assert_eq!(outcome("CALL p()"), Some("interrupted"));
    assert_eq!(outcome("DO 'done'"), Some("ok"));
    assert_eq!(outcome("DO SLEEP(1000)"), Some("interrupted"));
    drop(server);
    place.remove();
}
