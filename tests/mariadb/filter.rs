//! Zone: outside. Which statements are recorded: `tacho_filter`, on a real server.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use mysql::prelude::Queryable as _;
use mysql::{Conn, OptsBuilder};
use tacho_tests::raw::Raw;
use tacho_tests::recorded::{self, Line, number, text};
use tacho_tests::server::TestServer;

fn start() -> TestServer {
    TestServer::builder().option("plugin-load-add=tacho").start().expect("a server")
}

fn log_of(server: &TestServer) -> PathBuf {
    server.data_directory().join("tacho")
}

fn lines_of(server: &mut TestServer) -> Vec<Line> {
    server.stop().expect("an orderly end");
    server.assert_clean_log(&["max_open_files", "Aborted connection"]);
    recorded::read(&log_of(server)).expect("the log")
}

fn set(conn: &mut Conn, filter: &str) -> mysql::Result<()> {
    conn.exec_drop("SET GLOBAL tacho_filter = ?", (filter,))
}

fn must_set(conn: &mut Conn, filter: &str) {
    set(conn, filter).unwrap_or_else(|error| panic!("{filter}: {error}"));
}

fn refusal(conn: &mut Conn, statement: &str) -> String {
    match conn.query_drop(statement) {
        Err(mysql::Error::MySqlError(error)) => error.message,
        other => panic!("{statement}: {other:?}"),
    }
}

fn status(conn: &mut Conn, name: &str) -> u64 {
    let row: (String, u64) = conn
        .query_first(format!("SHOW GLOBAL STATUS LIKE '{name}'"))
        .expect("an answer")
        .expect("a row");
    row.1
}

/// Texts of the statements with this mark, in the order of the log.
fn marked<'l>(lines: &'l [Line], mark: &str) -> Vec<&'l str> {
    lines.iter().filter_map(|line| text(line, "sql")).filter(|sql| sql.contains(mark)).collect()
}

fn user(server: &TestServer, name: &str) -> Conn {
    let options = OptsBuilder::new()
        .socket(Some(server.socket().to_str().expect("a path")))
        .user(Some(name))
        .prefer_socket(false);
    Conn::new(options).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// With general_log=ON the server reports a login before the session has an account: the filter
/// does not decide then. Thread handling: the thread has served other sessions before.
#[test]
fn logins_in_the_general_log_decide_nothing() {
    for handling in ["one-thread-per-connection", "pool-of-threads"] {
        let mut server = TestServer::builder()
            .option("plugin-load-add=tacho")
            .option("general-log=ON")
            .option("thread-cache-size=1")
            .option(format!("thread-handling={handling}"))
            .option("thread-pool-size=1")
            .start()
            .expect("a server");
        let mut root = server.connect().expect("a session");
        root.query_drop("CREATE USER monitor@localhost").expect("a user");
        must_set(&mut root, r#"{"rules": [{"user": "monitor", "action": "skip"}]}"#);
        for round in 0..20 {
            let mut skipped = Raw::connect(server.socket(), "monitor").expect("a session");
            skipped.must(&[&format!("SELECT 'mark skipped {round}'")]);
            drop(skipped);
            let mut recorded = Raw::connect(server.socket(), "root").expect("a session");
            recorded.must(&[&format!("SELECT 'mark {round:02}'")]);
        }
        drop(root);
        let lines = lines_of(&mut server);
        // A statement ends after its answer: the next session's may be before it in the log.
        let mut found = marked(&lines, "mark");
        found.sort_unstable();
        let expected: Vec<String> =
            (0..20).map(|round| format!("SELECT 'mark {round:02}'")).collect();
        assert_eq!(found, expected, "{handling}");
        let odd = |line: &&Line| matches!(text(line, "outcome"), Some("interrupted" | "running"));
        assert_eq!(lines.iter().filter(odd).count(), 0, "{handling}");
    }
}

/// By user and host, for sessions that exist already, and back.
#[test]
fn a_filter_takes_effect_at_once() {
    let mut server = start();
    let mut root = server.connect().expect("a session");
    root.query_drop("CREATE USER monitor@localhost").expect("a user");
    let mut raw = Raw::connect(server.socket(), "monitor").expect("a session");
    raw.must(&["SELECT 'mark 1'"]);
    let filter = r#"{"rules": [{"user": "mon*", "host": "localhost", "action": "skip"}]}"#;
    must_set(&mut root, filter);
    let before = status(&mut root, "Tacho_records_filtered");
    raw.must(&["SELECT 'mark 2'", "SELECT 'mark 3'"]);
    // Errors and commands without a text belong to the skipped statement; logins do not.
    raw.query("SELECT mark FROM nowhere.at_all").expect("an answer");
    let _ping = raw.command(14, b"").expect("an answer");
    drop(raw);
    let mut other = Raw::connect(server.socket(), "monitor").expect("a session");
    other.must(&["SELECT 'mark 4'"]);
    root.query_drop("SELECT 'mark of root'").expect("an answer");
    drop(other);
    let filtered = || status(&mut server.connect().expect("a session"), "Tacho_records_filtered");
    tacho_tests::wait::until("what was skipped is counted", || filtered() - before >= 5);
    assert_eq!(status(&mut root, "Tacho_filter_rules"), 1);
    must_set(&mut root, "");
    Raw::connect(server.socket(), "monitor").expect("a session").must(&["SELECT 'mark 5'"]);
    drop(root);

    let lines = lines_of(&mut server);
    let expected = ["SELECT 'mark 1'", "SELECT 'mark of root'", "SELECT 'mark 5'"];
    assert_eq!(marked(&lines, "mark "), expected);
    let of_skipped = |line: &Line| text(line, "error").is_some_and(|it| it.contains("nowhere"));
    assert!(!lines.iter().any(of_skipped), "the error of a skipped statement");
    let of_monitor = |event: &str| {
        let is_it =
            |l: &&Line| text(l, "user") == Some("monitor") && text(l, "event") == Some(event);
        lines.iter().filter(is_it).count()
    };
    assert_eq!((of_monitor("connect"), of_monitor("disconnect")), (3, 3));
    let changes: Vec<_> = lines
        .iter()
        .filter(|line| text(line, "variable") == Some("tacho_filter"))
        .map(|line| (text(line, "old_value").unwrap_or(""), text(line, "new_value").unwrap_or("")))
        .collect();
    assert_eq!(changes, [("", filter), (filter, "")]);
}

/// Whatever the text looks like (CVE-2026-3494: in another product a comment hid a statement).
#[test]
fn classes_are_those_of_the_server() {
    let mut server = start();
    let mut root = server.connect().expect("a session");
    root.query_drop("CREATE DATABASE d").expect("a database");
    must_set(
        &mut root,
        r#"{"default": "skip", "rules": [{"class": ["ddl", "dcl"], "action": "record"}]}"#,
    );
    let before = status(&mut root, "Tacho_records_filtered");
    for sql in [
        "CREATE TABLE d.t (a INT) /* mark */",
        "-- mark\nDROP TABLE d.t",
        "# mark\nCREATE TABLE d.t (a INT)",
        "/* SELECT */ ALTER TABLE d.t ADD b INT COMMENT 'mark'",
        "/*! CREATE */ /* mark */ TABLE d.u (a INT)",
        "-- mark\n/* x */ GRANT SELECT ON d.* TO 'mark'@localhost IDENTIFIED BY 'x'",
        "/* CREATE TABLE d.fake */ SELECT 'mark, not recorded'",
        "INSERT INTO d.t VALUES (1, 1) -- mark, not recorded",
    ] {
        root.query_drop(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
    // A statement that the server cannot parse has only the class `other`.
    root.query_drop("DROPP TABLE mark_not_recorded").expect_err("a syntax error");
    drop(root);
    let mut root = server.connect().expect("a session");
    tacho_tests::wait::until("what was not wanted is counted", || {
        status(&mut root, "Tacho_records_filtered") - before >= 4
    });
    drop(root);
    let lines = lines_of(&mut server);
    let seen = marked(&lines, "mark");
    assert_eq!(seen.len(), 6, "{seen:#?}");
    assert!(seen.iter().all(|sql| !sql.contains("not recorded")), "{seen:#?}");
}

/// The session's database and user may change while it lives.
#[test]
fn the_filter_decides_again_when_a_session_changes() {
    let mut server = start();
    let mut root = server.connect().expect("a session");
    for sql in [
        "CREATE DATABASE quiet",
        "CREATE DATABASE loud",
        "CREATE DATABASE a_database_with_a_name_that_is_longer_than_what_a_thread_keeps",
        "CREATE USER a@localhost",
        "CREATE USER b@localhost",
        "GRANT ALL ON *.* TO a@localhost",
        "GRANT ALL ON *.* TO b@localhost",
    ] {
        root.query_drop(sql).expect(sql);
    }
    must_set(
        &mut root,
        r#"{"rules": [{"db": ["quiet", "a_database_*"], "action": "skip"},
                      {"user": "b", "action": "skip"}]}"#,
    );
    let mut raw = Raw::connect(server.socket(), "a").expect("a session");
    raw.must(&[
        "SELECT 'mark 1'",
        "USE quiet",
        "SELECT 'mark, skipped'",
        "USE loud",
        "SELECT 'mark 2'",
        "USE a_database_with_a_name_that_is_longer_than_what_a_thread_keeps",
        "SELECT 'mark, skipped'",
        "SELECT 'mark, skipped'",
        "USE loud",
    ]);
    assert_eq!(raw.change_user(b"b", b"", b"loud").expect("an answer"), 0);
    raw.must(&["SELECT 'mark, skipped'"]);
    assert_eq!(raw.change_user(b"a", b"", b"loud").expect("an answer"), 0);
    raw.must(&["SELECT 'mark 3'"]);
    drop((raw, root));
    let lines = lines_of(&mut server);
    assert_eq!(marked(&lines, "'mark"), ["SELECT 'mark 1'", "SELECT 'mark 2'", "SELECT 'mark 3'"]);
}

/// All parts of a statement are skipped with it, and none of them is left open.
#[test]
fn statements_are_skipped_completely() {
    let mut server = start();
    let mut root = server.connect().expect("a session");
    for sql in [
        "CREATE DATABASE d",
        "CREATE TABLE d.t (a INT)",
        "CREATE TABLE d.log (a INT)",
        "CREATE TRIGGER d.tr AFTER INSERT ON d.t FOR EACH ROW INSERT INTO d.log VALUES (NEW.a)",
        "CREATE USER app@localhost",
        "GRANT ALL ON *.* TO app@localhost",
        "CREATE PROCEDURE d.p() BEGIN SELECT 'mark'; INSERT INTO d.t VALUES (7); END",
        "CREATE FUNCTION d.f() RETURNS INT RETURN (SELECT MAX(a) FROM d.t /* mark */)",
    ] {
        root.query_drop(sql).expect(sql);
    }
    let statements = |conn: &mut Conn| {
        for sql in [
            "CALL d.p() /* mark */",
            "SELECT d.f() /* mark */",
            "SELECT 'mark'; SELECT 'mark, too'; USE d; SELECT 'mark, and the last'",
            "PREPARE s FROM 'SELECT ''mark''; '",
            "EXECUTE s",
            "EXECUTE IMMEDIATE 'SELECT ''mark'''",
            "BEGIN NOT ATOMIC SELECT 'mark'; SELECT 'mark'; END",
        ] {
            conn.query_drop(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
        }
        conn.exec_drop("SELECT ?, 'mark'", ("x",)).expect("a prepared statement");
        conn.query_drop("SELECT 'mark' FROM nowhere.at_all").expect_err("no such table");
        conn.query_drop("SELEKT 'mark'").expect_err("a syntax error");
        conn.query_drop("CALL d.nowhere() /* mark */").expect_err("no such procedure");
        conn.ping().expect("an answer");
    };
    let mut app = user(&server, "app");
    must_set(&mut root, r#"{"rules": [{"user": "app", "action": "skip"}]}"#);
    statements(&mut app);
    drop(app);
    let mut app = user(&server, "app");
    statements(&mut app);
    let skipped = app.connection_id();
    drop(app);
    // The server reports its last command after the answer, and so it does with its Quit.
    tacho_tests::wait::until("the session is over", || {
        let there = format!("SELECT 1 FROM information_schema.PROCESSLIST WHERE ID = {skipped}");
        root.query_first::<u64, _>(there).expect("an answer").is_none()
    });
    must_set(&mut root, "");
    let mut app = user(&server, "app");
    statements(&mut app);
    let told = app.connection_id();
    drop((app, root));
    let lines = lines_of(&mut server);
    let of = |conn: u32| recorded::of_conn(&lines, u64::from(conn));
    let events: Vec<_> = of(skipped).iter().map(|line| text(line, "event")).collect();
    assert_eq!(events, [Some("connect"), Some("disconnect")]);
    assert!(of(told).len() > 25, "{:#?}", of(told));
    for conn in [skipped, told] {
        assert_eq!(recorded::problems(&of(conn)), [""; 0]);
    }
}

#[test]
fn a_record_without_text() {
    let mut server = start();
    let mut root = server.connect().expect("a session");
    root.query_drop("CREATE DATABASE d; CREATE TABLE d.t (a INT PRIMARY KEY)").expect("a table");
    must_set(&mut root, r#"{"rules": [{"class": "dml", "action": "no_text"}]}"#);
    root.query_drop("INSERT INTO d.t VALUES (424242)").expect("a row");
    root.query_drop("INSERT INTO d.t VALUES (424242)").expect_err("a duplicate");
    root.query_drop("SELECT 'mark'").expect("an answer");
    drop(root);
    let lines = lines_of(&mut server);
    assert_eq!(marked(&lines, "mark"), ["SELECT 'mark'"]);
    let inserts: Vec<_> =
        lines.iter().filter(|line| text(line, "sql_command") == Some("insert")).collect();
    assert_eq!(inserts.len(), 2);
    for line in inserts {
        assert_eq!(text(line, "sql"), None);
        assert_eq!(number(line, "sql_bytes"), Some(31));
        assert!(!format!("{line:?}").contains("424242"), "{line:?}");
    }
}

/// Inside a stored program the server reports the definer: the caller's rules do not use it. A
/// statement without a known SQL command has the class `other` or is undecided.
#[test]
fn by_caller_and_without_a_class() {
    let mut server = start();
    let mut root = server.connect().expect("a session");
    for sql in [
        "CREATE DATABASE d",
        "CREATE TABLE d.t (a INT)",
        "CREATE USER dba@localhost",
        "CREATE USER app@localhost",
        "GRANT ALL ON *.* TO dba@localhost",
        "GRANT ALL ON *.* TO app@localhost",
        "CREATE DEFINER = app@localhost PROCEDURE d.p() BEGIN SELECT 'mark inside'; END",
    ] {
        root.query_drop(sql).expect(sql);
    }
    must_set(
        &mut root,
        r#"{"default": "skip", "rules": [
            {"user": "dba", "action": "record"},
            {"class": ["other", "program"], "action": "record"}]}"#,
    );
    let mut dba = user(&server, "dba");
    dba.query_drop("CALL d.p() /* mark of the caller */").expect("a result");
    drop(dba);
    let mut app = user(&server, "app");
    app.query_drop("SELECT 'mark of app, skipped'").expect("an answer");
    app.query_drop("SELEKT 'mark of an error'").expect_err("a syntax error");
    app.query_drop("PREPARE s FROM 'INSERT INTO d.t VALUES (?, 1)'").expect_err("a wrong count");
    app.query_drop("EXECUTE IMMEDIATE 'SELECT mark FROM d.nowhere'").expect_err("no such table");
    app.ping().expect("an answer");
    drop((app, root));
    let lines = lines_of(&mut server);
    let expected = [
        "CALL d.p() /* mark of the caller */",
        "SELECT 'mark inside'",
        "SELEKT 'mark of an error'",
        "EXECUTE IMMEDIATE 'SELECT mark FROM d.nowhere'",
    ];
    let seen = marked(&lines, "mark");
    for sql in expected {
        assert!(seen.contains(&sql), "{sql}: {seen:#?}");
    }
    assert!(!seen.contains(&"SELECT 'mark of app, skipped'"), "{seen:#?}");
    let pings = lines.iter().filter(|line| text(line, "command") == Some("Ping")).count();
    assert_eq!(pings, 1);
}

/// Clearing one of the two variables does not clear the other one's filter.
#[test]
fn two_variables_and_one_filter() {
    let mut server = start();
    let mut root = server.connect().expect("a session");
    let file = server.data_directory().join("filter.json");
    std::fs::write(&file, r#"{"rules": [{"db": "d", "action": "skip"}]}"#).expect("a file");
    let file = file.to_str().expect("a path");
    root.query_drop(format!("SET GLOBAL tacho_filter_file = '{file}'")).expect("a file");
    root.query_drop("SET GLOBAL tacho_filter = ''").expect("it is that already");
    assert_eq!(status(&mut root, "Tacho_filter_rules"), 1);
    root.query_drop("SET GLOBAL tacho_filter_file = ''").expect("none");
    assert_eq!(status(&mut root, "Tacho_filter_rules"), 0);
    drop(root);
    lines_of(&mut server);
}

/// The text is also omitted while the statement runs, and in later lines about it.
#[test]
fn without_text_while_it_runs() {
    let mut server = start();
    let mut root = server.connect().expect("a session");
    must_set(&mut root, r#"{"rules": [{"class": "read", "action": "no_text"}]}"#);
    let mut other = server.connect().expect("a session");
    thread::scope(|scope| {
        scope.spawn(|| other.query_drop("SELECT SLEEP(11), 'mark'").expect("an answer"));
    });
    drop((root, other));
    let lines = lines_of(&mut server);
    let running = lines.iter().find(|line| text(line, "outcome") == Some("running"));
    assert_eq!(number(running.expect("a running line"), "sql_bytes"), Some(24));
    assert_eq!(marked(&lines, "mark"), [""; 0]);
}

#[test]
fn wrong_filters_are_refused() {
    let mut server = start();
    let mut root = server.connect().expect("a session");
    let file = server.data_directory().join("filter.json");
    std::fs::write(&file, r#"{"rules": [{"db": "d", "action": "skip"}]}"#).expect("a file");
    let file = file.to_str().expect("a path");
    for (statement, expected) in [
        (
            r#"SET GLOBAL tacho_filter = '{"rules": [{"usr": "a", "action": "skip"}]}'"#,
            "tacho_filter: line 1, column 13: unknown key `usr`",
        ),
        (
            r#"SET GLOBAL tacho_filter = '{"rules": [{"sql_command": "selekt", "action": "skip"}]}'"#,
            "tacho_filter: line 1, column 28: this server has no SQL command `selekt`",
        ),
        (
            r#"SET GLOBAL tacho_filter = '{"rules": [{"table": "d.t", "action": "skip"}]}'"#,
            "needs tacho_tables=ON",
        ),
        (
            r#"SET GLOBAL tacho_filter = '{"rules": [{"program": "x", "action": "skip"}]}'"#,
            "does not report the program",
        ),
        (
            r#"SET GLOBAL tacho_filter = '{"rules": [{"class": "ddl", "action": "block"}]}'"#,
            "tacho_filter: line 1, column 39: this server cannot block statements",
        ),
        ("SET GLOBAL tacho_filter_file = '/nonexistent'", "/nonexistent: No such file"),
    ] {
        let message = refusal(&mut root, statement);
        assert!(message.contains(expected), "{statement}: {message}");
    }
    let shown = |root: &mut Conn| -> (String, String) {
        root.query_first("SELECT @@tacho_filter, @@tacho_filter_file").expect("ok").expect("a row")
    };
    assert_eq!(shown(&mut root), (String::new(), String::new()), "nothing took effect");
    root.query_drop(format!("SET GLOBAL tacho_filter_file = '{file}'")).expect("a good file");
    assert_eq!(shown(&mut root), (String::new(), file.to_owned()));
    assert_eq!(status(&mut root, "Tacho_filter_rules"), 1);
    let message = refusal(&mut root, "SET GLOBAL tacho_filter = '{}'");
    assert!(message.contains("cannot both be set"), "{message}");
    root.query_drop("SET GLOBAL tacho_filter_file = DEFAULT").expect("none");
    assert_eq!(status(&mut root, "Tacho_filter_rules"), 0);
    drop(root);
    lines_of(&mut server);
}

#[test]
fn a_wrong_filter_at_the_start_records_everything() {
    let mut server = TestServer::builder()
        .option("plugin-load-add=tacho")
        .option(r#"tacho-filter={"rules": [{"user": "*", "action": "hide"}]}"#)
        .start()
        .expect("a server");
    server.connect().expect("a session").query_drop("SELECT 'mark'").expect("an answer");
    server.stop().expect("an orderly end");
    let complaints = server.complaints(&["max_open_files"]);
    assert!(
        complaints.iter().any(|line| line.contains("`hide` is none of")
            && line.contains("Everything is recorded until a valid filter is set")),
        "{complaints:?}"
    );
    let lines = recorded::read(&log_of(&server)).expect("the log");
    assert_eq!(marked(&lines, "mark"), ["SELECT 'mark'"]);
}

/// Neither is in effect then; clearing one activates the other.
#[test]
fn a_start_with_both_variables_records_everything() {
    let mut server = TestServer::builder()
        .option("plugin-load-add=tacho")
        .option(r#"tacho-filter={"rules": [{"db": "d", "action": "skip"}]}"#)
        .option("tacho-filter-file=/nonexistent")
        .start()
        .expect("a server");
    let mut root = server.connect().expect("a session");
    assert_eq!(status(&mut root, "Tacho_filter_rules"), 0);
    root.query_drop("SET GLOBAL tacho_filter_file = ''").expect("cleared");
    assert_eq!(status(&mut root, "Tacho_filter_rules"), 1);
    drop(root);
    server.stop().expect("an orderly end");
    let complaints = server.complaints(&["max_open_files", "Aborted connection"]);
    assert_eq!(complaints.len(), 1, "{complaints:?}");
    assert!(complaints[0].contains("cannot both be set"), "{complaints:?}");
}

#[test]
fn by_table_and_error() {
    let mut server = TestServer::builder()
        .option("plugin-load-add=tacho")
        .option("tacho-tables=ON")
        .option(
            r#"tacho-filter={"rules": [{"errno": "any", "action": "record"},
                {"table": ["d.cache*", "mysql.*_stats"], "action": "skip"}]}"#,
        )
        .start()
        .expect("a server");
    let mut root = server.connect().expect("a session");
    for sql in [
        "CREATE DATABASE d",
        "CREATE TABLE d.cache_1 (a INT PRIMARY KEY)",
        "CREATE TABLE d.orders (a INT)",
        "INSERT INTO d.cache_1 VALUES (1) /* mark, skipped */",
        "SELECT * FROM d.cache_1 /* mark, skipped */",
        "SELECT * FROM d.cache_1, d.orders /* mark */",
        "SELECT 1 /* mark */",
    ] {
        root.query_drop(sql).expect(sql);
    }
    root.query_drop("INSERT INTO d.cache_1 VALUES (1) /* mark */").expect_err("a duplicate");
    drop(root);
    let lines = lines_of(&mut server);
    let seen = marked(&lines, "mark");
    assert_eq!(
        seen,
        [
            "SELECT * FROM d.cache_1, d.orders /* mark */",
            "SELECT 1 /* mark */",
            "INSERT INTO d.cache_1 VALUES (1) /* mark */",
        ]
    );
}

/// Sessions of a thread pool move between threads, which have cached decisions for others.
#[test]
fn in_a_thread_pool() {
    let mut server = TestServer::builder()
        .option("plugin-load-add=tacho")
        .option("thread-handling=pool-of-threads")
        .option("thread-pool-size=2")
        .start()
        .expect("a server");
    let mut root = server.connect().expect("a session");
    for name in ["quiet", "loud"] {
        root.query_drop(format!("CREATE USER {name}@localhost")).expect("a user");
    }
    must_set(&mut root, r#"{"rules": [{"user": "quiet", "action": "skip"}]}"#);
    let server_too = &server;
    thread::scope(|scope| {
        for i in 0..8 {
            scope.spawn(move || {
                let name = if i % 2 == 0 { "quiet" } else { "loud" };
                let mut conn = user(server_too, name);
                for n in 0..200 {
                    conn.query_drop(format!("SELECT 'mark of {name}', {n}")).expect("an answer");
                }
            });
        }
    });
    drop(root);
    let lines = lines_of(&mut server);
    assert_eq!(marked(&lines, "mark of loud").len(), 800);
    assert_eq!(marked(&lines, "mark of quiet").len(), 0);
}

/// Filters that change under load: sessions that no filter names are recorded without a gap.
#[test]
fn changed_under_load() {
    let mut server = start();
    let mut root = server.connect().expect("a session");
    for name in ["quiet", "loud"] {
        root.query_drop(format!("CREATE USER {name}@localhost")).expect("a user");
    }
    let over = AtomicBool::new(false);
    let (over, server_too) = (&over, &server);
    let counts: Vec<u64> = thread::scope(|scope| {
        let clients: Vec<_> = (0..4)
            .map(|i| {
                scope.spawn(move || {
                    let name = if i % 2 == 0 { "quiet" } else { "loud" };
                    let mut conn = user(server_too, name);
                    let mut count = 0;
                    while !over.load(Ordering::Relaxed) {
                        conn.query_drop(format!("SELECT 'mark of {name}'")).expect("an answer");
                        count += 1;
                    }
                    if i % 2 == 0 { 0 } else { count }
                })
            })
            .collect();
        for round in 0..300 {
            let action = if round % 3 == 0 { "skip" } else { "no_text" };
            let db = "x".repeat(round % 7 * 100);
            must_set(
                &mut root,
                &format!(
                    r#"{{"rules": [{{"user": "quiet", "action": "{action}"}},
                        {{"db": "no{db}", "action": "skip"}}]}}"#
                ),
            );
            if round % 10 == 0 {
                must_set(&mut root, "");
            }
        }
        over.store(true, Ordering::Relaxed);
        clients.into_iter().map(|client| client.join().expect("a client")).collect()
    });
    drop(root);
    let lines = lines_of(&mut server);
    let expected: u64 = counts.iter().sum();
    assert!(expected > 100, "{expected} statements are no load");
    assert_eq!(marked(&lines, "mark of loud").len() as u64, expected);
}
