//! Zone: outside. `tacho.traces=CHANGES`: a SELECT is recorded without the server's trace of it,
//! and everything else with it, including statements that a SELECT executes.
//! `scripts/test-release.sh` runs it.

use tacho_tests::client::{self, Queryable};
use tacho_tests::mysql_place::LogAndArenas;
use tacho_tests::mysql_rewriting;
use tacho_tests::mysql_server::{Release, conn_id, install, named, release, wait_for_end};
use tacho_tests::recorded;
use tacho_tests::wait;

/// Starts the server with this value.
fn option(traces: &str) -> String {
    named(&format!("loose-tacho.traces={traces}"))
}

/// The fields of a traced statement that an untraced SELECT does not have. In 8.0 an event also
/// reports the message.
const OF_TRACE: [&str; 2] = ["sqlstate", "lock_time_us"];

/// Number of the error that only `noted` runs into: a check constraint is violated.
const IN_FUNCTION: u64 = 3819;

const STATEMENTS: [&str; 21] = [
    "SELECT * FROM t",
    "  select v FROM t WHERE id > 1",
    "/* a remark */ SELECT v FROM t WHERE id > 1",
    "(SELECT 1)",
    "SELECT missing FROM t",
    "SELEC 1",
    "SELECT 1 +",
    "UPDATE t SET v = 'x'",
    "INSERT INTO t VALUES (1, 'again')",
    "SELECT noted(id) FROM t",
    "SELECT noted(-1)",
    "SELECT twice()",
    "SELECT v INTO @v FROM t WHERE id = 1",
    "SELECT v FROM t; UPDATE t SET v = 'y' WHERE id = 1; SELECT noted(7); SELECT 1; INSERT INTO seen VALUES (9)",
    "SELECT 2; SELECT nothing FROM t; SELECT 3",
    "CALL p()",
    "PREPARE s FROM 'SELECT noted(?)'",
    "SET @a = 20",
    "EXECUTE s USING @a",
    "SELECT 4",
    "DO 5",
];

/// The lines of one server that executes `STATEMENTS`, as (brief, line).
fn lines(traces: &str) -> Vec<(String, recorded::Line)> {
    let place = LogAndArenas::new(&format!("traces-{traces}"));
    let mut server = place.builder().option(option(traces)).start().expect("a server");
    let mut root = server.connect().expect("a connection");
    root.query_drop(install()).expect("installing");
    for sql in [
        "CREATE DATABASE d",
        "CREATE TABLE d.t (id INT PRIMARY KEY, v VARCHAR(20))",
        "CREATE TABLE d.seen (id INT CHECK (id >= 0))",
        "INSERT INTO d.t VALUES (1, 'a'), (2, 'b'), (3, 'c')",
        "CREATE FUNCTION d.noted(n INT) RETURNS INT DETERMINISTIC BEGIN INSERT INTO d.seen VALUES (n); \
         RETURN (SELECT COUNT(*) FROM d.t); END",
        "CREATE FUNCTION d.twice() RETURNS INT DETERMINISTIC RETURN (SELECT 1 UNION SELECT 2)",
        "CREATE PROCEDURE d.p() BEGIN SELECT v FROM d.t; SELECT d.noted(8); END",
    ] {
        root.query_drop(sql).expect("an answer");
    }
    let mut conn = client::connect(server.socket(), "root", "d").expect("a connection");
    let id = conn_id(&mut conn);
    for sql in STATEMENTS {
        // Some of them fail.
        let _ = conn.query_drop(sql);
    }
    drop(conn);
    wait_for_end(&mut root, id);
    drop(root);
    server.stop().expect("stopping");
    let all = recorded::read(&place.log()).expect("a readable log");
    let found = recorded::of_conn(&all, id).into_iter().skip(2);
    let found = found.map(|line| (recorded::brief(line), line.clone())).collect();
    server.assert_clean_log(&[]);
    found
}

/// The statements that the procedure, and EXECUTE, execute.
const INSIDE: [&str; 3] = ["SELECT v FROM d.t", "SELECT d.noted(8)", "SELECT noted(20)"];

/// Whether a line is a client's SELECT that was parsed: these are only traced with `ON`.
fn is_declined(line: &recorded::Line) -> bool {
    let sql = recorded::text(line, "sql").unwrap_or_default();
    let is_parsed = recorded::number(line, "errno") != Some(1064);
    is_parsed && !INSIDE.contains(&sql) && sql.to_ascii_lowercase().starts_with("select")
}

#[test]
fn only_a_select_has_less() {
    let (on, changes) = (lines("ON"), lines("CHANGES"));
    let sql = |lines: &[(String, recorded::Line)]| -> Vec<Option<String>> {
        lines.iter().map(|(_, line)| recorded::text(line, "sql").map(str::to_owned)).collect()
    };
    assert_eq!(sql(&on), sql(&changes));
    let mut declined = 0;
    for ((with, full), (without, line)) in on.iter().zip(&changes) {
        if !is_declined(line) {
            assert_eq!(with, without);
            continue;
        }
        declined += 1;
        for field in OF_TRACE {
            assert!(line.get(field).is_none(), "{without}: {field}");
        }
        let has_message = line.get("error").is_some();
        // A statement that has failed in a function has it in the line of the function's statement.
        let failed = recorded::number(line, "errno").is_some_and(|errno| errno != IN_FUNCTION);
        assert_eq!(has_message, failed && release() == Release::Mysql80, "{without}");
        for field in ["errno", "sql_command", "outcome", "rows_sent", "rows_examined"] {
            assert_eq!(line.get(field), full.get(field), "{without}: {field}");
        }
        assert!(line.get("query_time_us").is_some(), "{without}");
    }
    let found: Vec<&str> = changes.iter().map(|(brief, _)| brief.as_str()).collect();
    let found = found.join("\n");
    // Three rows, one that fails, one in a packet, one of the procedure, one of EXECUTE.
    assert_eq!(found.matches("insert").count() - 2, 7, "{found}");
    // Eight in packets of their own, three in one with others, two in the last.
    assert_eq!(declined, 13, "{found}");
}

/// Its trace was declined, and the next one does not come: there must be no wait for it.
#[test]
fn a_session_that_is_not_traced_any_more_has_its_lines_at_once() {
    let place = LogAndArenas::new("traces-left");
    let mut server = place.builder().option(option("CHANGES")).start().expect("a server");
    let mut root = server.connect().expect("a connection");
    root.query_drop(install()).expect("installing");
    let mut conn = server.connect().expect("a connection");
    conn.query_drop("SELECT 'declined'").expect("an answer");
    root.query_drop(named("SET GLOBAL tacho.traces = OFF")).expect("an answer");
    let untraced = ["SELECT 'not traced'", "DO 'nor this'"];
    for sql in untraced {
        conn.query_drop(sql).expect("an answer");
        wait::until("its end is in the log", || {
            let lines = recorded::read(&place.log()).expect("a readable log");
            let is_it = |line: &recorded::Line| recorded::text(line, "sql") == Some(sql);
            lines.iter().any(|line| is_it(line) && line.contains_key("query_time_us"))
        });
    }
    drop((conn, root));
    server.stop().expect("stopping");
    server.assert_clean_log(&[]);
}

/// The executed text counts.
#[test]
fn a_select_that_is_rewritten_to_a_change_is_traced() {
    let place = LogAndArenas::new("traces-rewritten");
    let (mut server, mut root) = mysql_rewriting::start(&place, &[&option("CHANGES")]);
    let change = "INSERT INTO d.t VALUES (?, 'new')";
    mysql_rewriting::set(&mut root, &[("SELECT note FROM d.t WHERE id = ?", change)]);
    let mut app = mysql_rewriting::session(&server, "app");
    app.query_drop("SELECT note FROM d.t WHERE id = 5").expect("an answer");
    drop((app, root));
    let lines = mysql_rewriting::end(&mut server, &place);
    let line = lines.iter().find(|line| line.contains_key("rewritten_query")).expect("its line");
    assert_eq!(recorded::number(line, "rows_affected"), Some(1), "{line:?}");
}
