//! Zone: outside. The figures in the log against those of the server's own Performance Schema,
//! statement by statement.

use std::time::Instant;

use tacho_tests::client::Queryable;
use tacho_tests::raw::{Raw, com};
use tacho_tests::recorded::{self, Line, number, text};
use tacho_tests::server::{self, TestServer};
use tacho_tests::wait;

const SETUP: &[&str] = &[
    "CREATE DATABASE d",
    "CREATE TABLE d.t (id INT PRIMARY KEY, k INT, v VARCHAR(50), KEY (k)) ENGINE=InnoDB",
    "INSERT INTO d.t SELECT seq, seq % 10, CONCAT('v', seq) FROM d.seq_1_to_500",
    "CREATE TABLE d.m (id INT) ENGINE=MyISAM",
];

/// `%` is a number that changes from round to round.
const LOAD: &[&str] = &[
    "SELECT * FROM d.t WHERE id = %",
    "SELECT * FROM d.t LIMIT %",
    "SELECT COUNT(*) FROM d.t WHERE k = 3 AND id > %",
    "SELECT a.id FROM d.t a JOIN d.t b USING (k) WHERE a.id < %",
    "SELECT * FROM d.t WHERE id = -1 - %",
    "UPDATE d.t SET v = 'n%' WHERE k = 4",
    "UPDATE d.t SET v = v WHERE id = %",
    "INSERT INTO d.m VALUES (%), (%)",
    "DELETE FROM d.m LIMIT 1",
    "INSERT INTO d.t VALUES (%, 1, 'twice')",
    "SELECT nosuch FROM d.t WHERE id = %",
    "SELEKT %",
    "SIGNAL SQLSTATE '45%%0'",
    "REPLACE INTO d.t VALUES (%, 1, 'r')",
    "SHOW TABLES FROM d LIKE '%'",
    "SET @a = %",
    "DO SLEEP(0.00%)",
    "CREATE TEMPORARY TABLE d.x% AS SELECT * FROM d.t LIMIT 7",
    "DROP TABLE d.x%",
    "SELECT GROUP_CONCAT(v) FROM d.t GROUP BY k LIMIT %",
];
const ROUNDS: u32 = 9;

/// A row of the Performance Schema: rows sent, examined, affected, lock time in µs, error
/// number, SQLSTATE.
type Figures = (u64, u64, u64, u64, u64, Option<String>);

/// Event name, text and figures.
type Row = (String, Option<String>, u64, u64, u64, u64, u64, Option<String>);

fn compare(line: &Line, figures: &Figures) -> Result<(), String> {
    let (sent, examined, affected, lock_us, errno, sqlstate) = figures;
    let found = (
        number(line, "rows_sent"),
        number(line, "rows_examined"),
        // The server has none after a result set or an error, and shows 0.
        number(line, "rows_affected").unwrap_or(0),
        number(line, "lock_time_us"),
        number(line, "errno").unwrap_or(0),
    );
    let examined = server::tells_rows_examined().then_some(*examined);
    let expected = (Some(*sent), examined, *affected, Some(*lock_us), *errno);
    if found != expected {
        return Err(format!("{found:?} is not {expected:?}"));
    }
    if *errno != 0 && text(line, "sqlstate") != sqlstate.as_deref() {
        return Err(format!("{:?} is not {sqlstate:?}", text(line, "sqlstate")));
    }
    Ok(())
}

#[test]
fn figures_are_those_of_the_performance_schema() {
    let mut server = TestServer::builder()
        .option("plugin-load-add=tacho")
        .option("performance-schema=ON")
        .option("performance-schema-events-statements-history-long-size=5000")
        .option("performance-schema-consumer-events-statements-current=ON")
        .option("performance-schema-consumer-events-statements-history-long=ON")
        .option("performance-schema-instrument=statement/%=ON")
        .start()
        .expect("a server");
    let mut raw = Raw::connect(server.socket(), "root").expect("a session");
    raw.must(&SETUP[..1]);
    raw.must(&["USE d"]);
    raw.must(&SETUP[1..]);
    for round in 1..=ROUNDS {
        for sql in LOAD {
            let sql = sql.replace('%', &round.to_string());
            raw.query(&sql).expect("an answer");
            if let Ok(statement) = raw.prepare(&sql).expect("an answer") {
                raw.execute(statement, &[], false).expect("an answer");
            }
        }
    }
    // The server ends a statement, which makes its row, after it has answered: only when the thread
    // has gone do all of its statements have one. The history keeps them.
    let mut root = server.connect().expect("a connection");
    let thread: u64 = root
        .exec_first(
            "SELECT thread_id FROM performance_schema.threads WHERE processlist_id = ?",
            (raw.conn,),
        )
        .expect("an answer")
        .expect("a thread");
    raw.command(com::QUIT, b"").expect("quitting");
    wait::until("a thread has gone", || {
        let threads = "SELECT COUNT(*) FROM performance_schema.threads WHERE thread_id = ?";
        root.exec_first(threads, (thread,)).expect("an answer") == Some(0_u64)
    });
    let rows: Vec<Row> = root
        .exec(
            "SELECT event_name, sql_text, rows_sent, rows_examined, rows_affected, \
             lock_time DIV 1000000, mysql_errno, returned_sqlstate \
             FROM performance_schema.events_statements_history_long \
             WHERE thread_id = ? AND nesting_event_id IS NULL \
             AND event_name <> 'statement/com/Quit' ORDER BY event_id",
            (thread,),
        )
        .expect("the history");
    server.stop().expect("stopping");
    let lines = recorded::read(&server.data_directory().join("tacho")).expect("a good log");
    let lines = recorded::of_conn(&lines, raw.conn);
    let is_statement = |line: &&&Line| {
        text(line, "event") == Some("statement") && text(line, "command") != Some("Quit")
    };
    let mut wrong = Vec::new();
    let mut lines = lines.iter().filter(is_statement);
    let count = rows.len();
    for (event, sql, sent, examined, affected, lock_us, errno, sqlstate) in rows {
        let line = lines.next().unwrap_or_else(|| panic!("no line for {event} {sql:?}"));
        if let Some(sql) = &sql {
            assert_eq!(text(line, "sql"), Some(&**sql), "{event}");
        }
        let figures = (sent, examined, affected, lock_us, errno, sqlstate);
        if let Err(why) = compare(line, &figures) {
            wrong.push(format!("{event} {:?}: {why}", text(line, "sql")));
        }
    }
    assert!(lines.next().is_none(), "more lines than rows");
    assert!(wrong.is_empty(), "{} of {count}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(count > 2 * ROUNDS as usize * LOAD.len(), "only {count} were compared");
}

/// A statement takes at least as long as it sleeps, and no longer than its client waits.
#[test]
fn query_times_are_possible() {
    let mut server =
        TestServer::builder().option("plugin-load-add=tacho").start().expect("a server");
    let mut raw = Raw::connect(server.socket(), "root").expect("a session");
    let began = Instant::now();
    raw.must(&["SELECT SLEEP(0.2)", "SELECT SLEEP(0.05); DO SLEEP(0.1)"]);
    let id = raw.prepare("DO SLEEP(0.15)").expect("an answer").expect("prepared");
    raw.execute(id, &[], false).expect("an answer");
    raw.command(com::QUIT, b"").expect("quitting");
    let elapsed_us = began.elapsed().as_micros() as u64;
    server.stop().expect("stopping");
    let lines = recorded::read(&server.data_directory().join("tacho")).expect("a good log");
    let time_of = |command: &str, sql: &str| {
        let is_it =
            |line: &&Line| text(line, "sql") == Some(sql) && text(line, "command") == Some(command);
        let line = lines.iter().find(is_it).unwrap_or_else(|| panic!("no {sql}"));
        number(line, "query_time_us").unwrap_or_else(|| panic!("no time: {line:?}"))
    };
    let slept = [
        (time_of("Query", "SELECT SLEEP(0.2)"), 200_000),
        (time_of("Query", "SELECT SLEEP(0.05)"), 50_000),
        (time_of("Query", "DO SLEEP(0.1)"), 100_000),
        (time_of("Execute", "DO SLEEP(0.15)"), 150_000),
    ];
    for (time_us, at_least_us) in slept {
        assert!(time_us >= at_least_us, "{slept:?}");
    }
    let sum: u64 = slept.iter().map(|(time_us, _)| time_us).sum();
    assert!(sum <= elapsed_us, "{slept:?} in {elapsed_us}");
}
