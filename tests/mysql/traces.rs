//! Zone: outside. The data that the component, or the plugin, takes from the traces of a real
//! MySQL: figures and errors as in the Performance Schema; and what remains without traces.
//! `scripts/test-release.sh` runs them.

use std::thread;

use crate::scene::{start, with_sql, with_tables};
use tacho_tests::client::{self, Conn, Queryable};
use tacho_tests::mysql_place::{self, LogAndArenas};
use tacho_tests::mysql_server::{Release, conn_id, named, release, wait_for_end};
use tacho_tests::recorded::{self, Line};
use tacho_tests::wait;

/// The Performance Schema's data of a statement.
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
fn figures_and_errors_are_those_of_the_performance_schema() {
    let place = LogAndArenas::new("figures");
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
    let lines = place.end(&mut server);
    for (sql, seen) in statements.iter().zip(seen) {
        assert_eq!(in_log(with_sql(&lines, sql)), seen, "{sql}");
    }
    let changed = with_sql(&lines, "UPDATE t SET v = 'same'");
    assert_eq!(recorded::number(changed, "rows_affected"), Some(3));
    let failed = with_sql(&lines, "INSERT INTO t VALUES (1, 'again')");
    assert_eq!(recorded::text(failed, "error"), Some("Duplicate entry '1' for key 't.PRIMARY'"));
    server.assert_clean_log(&[]);
}

/// The line of a failed statement without traces: 8.0 also reports the message by an event.
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
fn without_traces_every_statement_has_its_line_still() {
    let place = LogAndArenas::new("switched");
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
    let lines = place.end(&mut server);
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
}

#[test]
fn without_the_performance_schema_there_are_no_traces() {
    let place = LogAndArenas::new("no-pfs");
    let (mut server, mut root) = start(&place, &["performance-schema=OFF"]);
    root.query_drop("UPDATE d.t SET v = 'x'").expect("an answer");
    root.query_drop("SELECT missing").expect_err("an error");
    drop(root);
    let lines = place.end(&mut server);
    let brief = |sql| recorded::brief(with_sql(&lines, sql));
    assert_eq!(
        brief("UPDATE d.t SET v = 'x'"),
        "Query update ok \"UPDATE d.t SET v = 'x'\" sent=0 examined=3"
    );
    assert_eq!(
        brief("SELECT missing"),
        untraced("Query select error 1054/- \"SELECT missing\" sent=0 examined=0")
    );
}

#[test]
fn tables_are_with_their_statement() {
    let place = LogAndArenas::new("tables");
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
    let lines = place.end(&mut server);
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
}

#[test]
fn statements_within_a_skipped_statement_are_skipped() {
    let place = LogAndArenas::new("skipped");
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
    let lines = place.end(&mut server);
    let count =
        |sql: &str| lines.iter().filter(|line| recorded::text(line, "sql") == Some(sql)).count();
    // Root's, and the robot's last one.
    assert_eq!((count("DO 'in p'"), count("DO 7"), count("CALL p()")), (2, 2, 1));
    assert_eq!((count("CALL d.p()"), count("SELECT missing")), (1, 0));
}

mod v97 {
    use super::*;

    /// The server's own `component_telemetry` takes them, and gives them back.
    #[test]
    fn another_taker_of_traces_costs_no_line() {
        const TELEMETRY: &str = "COMPONENT 'file://component_telemetry'";
        let place = LogAndArenas::new("taker");
        let builder = place.builder().library("component_telemetry.so");
        let (mut server, mut root) = with_tables(mysql_place::start(builder));
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
        let lines = place.end(&mut server);
        let of_conn = recorded::of_conn(&lines, id);
        for text in ["ours", "theirs", "ours again", "still ours"] {
            for number in 0..3 {
                let sql = format!("UPDATE t SET v = '{text} {number}'");
                let found: Vec<_> = of_conn
                    .iter()
                    .filter(|line| recorded::text(line, "sql") == Some(&sql))
                    .collect();
                assert_eq!(found.len(), 1, "{sql}");
                assert_eq!(recorded::text(found[0], "outcome"), Some("ok"), "{sql}");
            }
            // A session notices another taker at one packet, and takes it up at the next.
            let last = with_sql(&lines, &format!("UPDATE t SET v = '{text} 2'"));
            assert_eq!(last.contains_key("rows_affected"), text != "theirs", "{text}");
        }
        assert_eq!(recorded::problems(&of_conn), [""; 0]);
    }

    #[test]
    fn sessions_of_a_thread_pool_are_recorded_exactly_once() {
        const SESSIONS: usize = 24;
        const ROUNDS: usize = 50;
        let place = LogAndArenas::new("pool");
        let builder = place.builder().library("thread_pool.so");
        let builder = builder.option("plugin-load-add=thread_pool.so").option("thread-pool-size=2");
        let (mut server, mut root) = with_tables(mysql_place::start(builder));
        root.query_drop("CREATE PROCEDURE d.one(s INT) BEGIN INSERT INTO seen VALUES (s); END")
            .expect("an answer");
        thread::scope(|scope| {
            for session in 0..SESSIONS {
                let mut conn = client::connect(server.socket(), "root", "d").expect("a connection");
                scope.spawn(move || {
                    for round in 0..ROUNDS {
                        conn.query_drop(format!("CALL one({session}{round:03})"))
                            .expect("an answer");
                        conn.query_drop(format!("SELECT missing_{session}_{round}"))
                            .expect_err("an error");
                    }
                });
            }
        });
        drop(root);
        let lines = place.end(&mut server);
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
    }
}
