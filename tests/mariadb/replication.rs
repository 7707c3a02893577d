//! Zone: outside. A primary and a replica, both recording: the events of each, that none of them is
//! lost when the replica dies, and that no log has a password of theirs.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use tacho_tests::audit::Audit;
use tacho_tests::client::{self, Conn, Queryable};
use tacho_tests::recorded::{self, Line, number, text};
use tacho_tests::server::TestServer;
use tacho_tests::tagged::{self, Load};
use tacho_tests::wait;

const PASSWORD: &str = "Repl1cat10nSecret";

/// Messages about replication, its end, and the errors that are caused on purpose.
const ALLOWED: &[&str] = &[
    "max_open_files",
    "Aborted connection",
    "Slave",
    "slave SQL thread aborted",
    "Recovery from master pos",
    "Error reading packet from server",
    "Could not write packet",
    "error_errno",
    "on query. Default database",
    "InnoDB: Starting crash recovery",
    "InnoDB: Transaction",
    "Recovering after a crash",
    "crashed server",
];

struct Pair {
    primary: TestServer,
    replica: TestServer,
    at_primary: Conn,
    at_replica: Conn,
}

impl Pair {
    fn start(format: &str, replica_options: &[&str]) -> Pair {
        let primary = TestServer::builder()
            .option("plugin-load-add=tacho")
            .option("server-id=1")
            .option("log-bin=binlog")
            .option("log-bin-trust-function-creators=1")
            .option(format!("binlog-format={format}"))
            .start()
            .expect("a primary");
        let mut builder = TestServer::builder()
            .option("plugin-load-add=tacho")
            .option("server-id=2")
            .option("relay-log=relay")
            .option("relay-log-recovery=ON");
        for option in replica_options {
            builder = builder.option(option);
        }
        let replica = builder.start().expect("a replica");
        let mut at_primary = primary.connect().expect("a connection");
        let mut at_replica = replica.connect().expect("a connection");
        for sql in [
            format!("CREATE USER repl@'127.0.0.1' IDENTIFIED BY '{PASSWORD}'"),
            "GRANT REPLICATION SLAVE ON *.* TO repl@'127.0.0.1'".to_owned(),
        ] {
            at_primary.query_drop(sql).expect("an account");
        }
        at_replica
            .query_drop(format!(
                "CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT={}, MASTER_USER='repl', \
                 MASTER_CONNECT_RETRY=1, MASTER_USE_GTID=slave_pos, MASTER_PASSWORD='{PASSWORD}'",
                primary.port()
            ))
            .expect("an answer");
        at_replica.query_drop("START SLAVE").expect("a start");
        Pair { primary, replica, at_primary, at_replica }
    }

    fn on_primary(&mut self, statements: &[&str]) {
        for sql in statements {
            self.at_primary.query_drop(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
        }
    }

    /// Waits until the replica has applied everything that the primary has.
    fn wait_for_replica(&mut self) {
        let position = client::variable(&mut self.at_primary, "gtid_binlog_pos").expect("a place");
        let done: Option<i64> = self
            .at_replica
            .query_first(format!("SELECT MASTER_GTID_WAIT('{position}', 170)"))
            .expect("an answer");
        let status = self.slave_status();
        assert_eq!(done, Some(0), "{position} was never applied: {status:?}");
    }

    fn slave_status(&mut self) -> BTreeMap<String, String> {
        let row: Option<mysql::Row> =
            self.at_replica.query_first("SHOW SLAVE STATUS").expect("an answer");
        let row = row.expect("a replica");
        let wanted = ["Last_SQL_Errno", "Last_Error", "Last_IO_Error", "Slave_SQL_Running"];
        let value = |name: &str| row.get::<Option<String>, _>(name).flatten().unwrap_or_default();
        wanted.into_iter().map(|name| (name.to_owned(), value(name))).collect()
    }

    /// Stops both; the lines of the primary's log and those of the replica's.
    fn end(self) -> (Vec<Line>, Vec<Line>) {
        let Pair { mut primary, mut replica, at_primary, at_replica } = self;
        drop((at_primary, at_replica));
        replica.stop().expect("stopping");
        primary.stop().expect("stopping");
        for server in [&primary, &replica] {
            assert_no_secret(&log_directory(server));
            server.assert_clean_log(ALLOWED);
        }
        let read = |server| recorded::read(&log_directory(server)).expect("a good log");
        (read(&primary), read(&replica))
    }
}

fn log_directory(server: &TestServer) -> PathBuf {
    server.data_directory().join("tacho")
}

fn assert_no_secret(directory: &Path) {
    for entry in fs::read_dir(directory).expect("the log directory") {
        let path = entry.expect("an entry").path();
        let bytes = fs::read(&path).expect("a file");
        let found = bytes.windows(PASSWORD.len()).any(|part| part == PASSWORD.as_bytes());
        assert!(!found, "a password is in {}", path.display());
    }
}

/// No applied statement may seem to run forever, or to have been interrupted.
fn assert_all_ended(lines: &[Line]) {
    for line in lines {
        let outcome = text(line, "outcome");
        assert!(!matches!(outcome, Some("running" | "interrupted")), "{line:?}");
    }
}

/// Lines of statements that the replica applied.
fn applied(lines: &[Line]) -> Vec<&Line> {
    let is_applied = |line: &&Line| text(line, "user") == Some("<replication_slave>");
    lines.iter().filter(is_applied).collect()
}

fn briefs(lines: &[&Line]) -> Vec<String> {
    lines.iter().map(|line| recorded::brief(line)).collect()
}

#[test]
fn each_side_records_its_events() {
    let mut pair = Pair::start("STATEMENT", &["tacho-tables=ON"]);
    pair.on_primary(&[
        "CREATE DATABASE d",
        "CREATE TABLE d.t (id INT PRIMARY KEY, v VARCHAR(50)) ENGINE=InnoDB",
        "CREATE TABLE d.seen (id INT) ENGINE=InnoDB",
        "CREATE TRIGGER d.tr AFTER INSERT ON d.t FOR EACH ROW INSERT INTO d.seen VALUES (NEW.id)",
        "INSERT INTO d.t VALUES (1, 'as a statement')",
        "BEGIN",
        "UPDATE d.t SET v = 'in a transaction'",
        "DELETE FROM d.seen",
        "COMMIT",
        "SET SESSION binlog_format = ROW",
        "UPDATE d.t SET v = 'as a row'",
        "SET SESSION binlog_format = STATEMENT",
    ]);
    pair.wait_for_replica();
    // An error only on the replica: it stops.
    pair.at_replica.query_drop("INSERT INTO d.t VALUES (7, 'mine')").expect("an answer");
    pair.on_primary(&["INSERT INTO d.t VALUES (7, 'twice')"]);
    wait::until("the replica stops", || pair.slave_status()["Last_SQL_Errno"] == "1062");
    pair.at_replica.query_drop("DELETE FROM d.t WHERE id = 7").expect("an answer");
    pair.at_replica.query_drop("START SLAVE").expect("an answer");
    pair.wait_for_replica();
    pair.at_replica.query_drop("STOP SLAVE").expect("an answer");
    let stops = |line: &Line| text(line, "command") == Some("Binlog Dump");
    let log = log_directory(&pair.primary);
    wait::until("the primary has seen it go", || {
        // It sees that when it has something to send.
        pair.at_primary.query_drop("UPDATE d.t SET v = 'late' WHERE id = 99").expect("an answer");
        recorded::read(&log).is_ok_and(|lines| lines.iter().any(stops))
    });
    let (primary, replica) = pair.end();
    assert_all_ended(&primary);
    assert_all_ended(&replica);

    // The primary: a session like any other, with the dump as its last command.
    let registered = |line: &&Line| text(line, "command") == Some("Register Slave");
    let conn = primary.iter().find(registered).and_then(|line| number(line, "conn"));
    let session = recorded::of_conn(&primary, conn.expect("a connection"));
    assert!(session.iter().all(|line| text(line, "user") == Some("repl")), "{session:#?}");
    let shown = briefs(&session);
    assert_eq!(shown[0], "connect ok");
    assert_eq!(shown[shown.len() - 3], "Register Slave ok");
    assert!(shown[shown.len() - 2].starts_with("Binlog Dump "), "{shown:#?}");
    assert!(shown[shown.len() - 1].starts_with("disconnect"), "{shown:#?}");

    // The replica: events that were logged as statements, with their outcome.
    let expected = [
        "Query create_db ok \"CREATE DATABASE d\"",
        "Query create_table ok \"CREATE TABLE d.t (id INT PRIMARY KEY, v VARCHAR(50)) ENGINE=InnoDB\"",
        "Query create_table ok \"CREATE TABLE d.seen (id INT) ENGINE=InnoDB\"",
        "Query create_trigger ok \"CREATE DEFINER=`root`@`localhost` TRIGGER d.tr AFTER INSERT ON d.t \
         FOR EACH ROW INSERT INTO d.seen VALUES (NEW.id)\"",
        "Query begin ok \"BEGIN\"",
        "Query insert ok \"INSERT INTO d.t VALUES (1, 'as a statement')\"",
        "Query begin ok \"BEGIN\"",
        "Query update ok \"UPDATE d.t SET v = 'in a transaction'\"",
        "Query delete ok \"DELETE FROM d.seen\"",
        // Of rows only the begin of their transaction.
        "Query begin ok \"BEGIN\"",
        "Query begin ok \"BEGIN\"",
        "Query insert error 1062/23000 \"INSERT INTO d.t VALUES (7, 'twice')\"",
        "Query begin ok \"BEGIN\"",
        "Query insert ok \"INSERT INTO d.t VALUES (7, 'twice')\"",
    ];
    let found = briefs(&applied(&replica));
    let without_accounts =
        |shown: &&String| !shown.contains("CREATE USER") && !shown.contains("GRANT");
    let found: Vec<String> = found
        .iter()
        .filter(without_accounts)
        .map(|shown| shown.trim_end_matches(" no-time").to_owned())
        .collect();
    assert_eq!(found, expected);
    let failed = applied(&replica).into_iter().find(|line| text(line, "outcome") == Some("error"));
    let message = failed.and_then(|line| text(line, "error")).expect("a message");
    assert!(message.contains("Duplicate entry '7'"), "{message}");
    // The statements of the trigger have a definer.
    let inner = |line: &&Line| text(line, "sql") == Some("INSERT INTO d.seen VALUES (NEW.id)");
    let inner: Vec<&Line> = replica.iter().filter(inner).collect();
    assert!(inner.len() >= 2, "{inner:#?}");
    for line in inner {
        assert_eq!(text(line, "user"), Some("root"), "{line:?}");
        assert_eq!(text(line, "outcome"), Some("ok"), "{line:?}");
    }
    // Tables that are reported without a statement: lines of their own.
    let touches = |line: &&Line| {
        let is_t = |table: &serde_json::Value| table["db"] == "d" && table["table"] == "t";
        text(line, "event") == Some("table")
            && number(line, "conn").is_some()
            && line["tables"].as_array().is_some_and(|tables| tables.iter().any(is_t))
    };
    assert!(replica.iter().filter(touches).count() >= 4, "{replica:#?}");
    for sql in ["CHANGE MASTER TO", "START SLAVE", "STOP SLAVE"] {
        let is_it = |line: &&Line| text(line, "sql").is_some_and(|text| text.starts_with(sql));
        let line = replica.iter().find(is_it).unwrap_or_else(|| panic!("no {sql}"));
        assert_eq!(text(line, "user"), Some("root"), "{line:?}");
        assert_eq!(text(line, "outcome"), Some("ok"), "{line:?}");
        assert_eq!(line.contains_key("sql_redacted"), sql.starts_with("CHANGE"), "{line:?}");
    }
}

const WRITERS: u64 = 3;
/// A replica that applies with one thread must be able to follow.
const PAUSE: Duration = Duration::from_millis(2);

/// Writes on the primary, each statement with a unique text, until stopped.
fn write_rows(socket: &Path, writer: u64, stop: &AtomicBool, count: &AtomicU64) {
    let mut conn = client::connect(socket, "root", "d").expect("a connection");
    for row in 0_u64.. {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        let sql = format!("INSERT INTO rows{writer} VALUES ({row}, 'row {writer} {row}')");
        conn.query_drop(sql).expect("an answer");
        count.fetch_add(1, Ordering::Relaxed);
        thread::sleep(PAUSE);
    }
}

/// A load of writes and one of everything on the primary, and a replica that is killed.
fn survive(format: &str, replica_options: &[&str], kills: u64) {
    let mut pair = Pair::start(format, replica_options);
    tagged::prepare(&mut pair.at_primary, 2).expect("tables");
    pair.on_primary(&["CREATE DATABASE d"]);
    for writer in 0..WRITERS {
        let sql = format!("CREATE TABLE d.rows{writer} (id INT PRIMARY KEY, v TEXT) ENGINE=InnoDB");
        pair.on_primary(&[&sql]);
    }
    let load = Load { threads: 2, pause: PAUSE, ..Load::new(pair.primary.socket(), "primary") };
    let running = load.start().expect("a load");
    let (stop, count) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (socket, stop, count) = (pair.primary.socket().to_owned(), &stop, &count);
            scope.spawn(move || write_rows(&socket, writer, stop, count));
        }
        for _ in 0..kills {
            let goal = count.load(Ordering::Relaxed) + 300;
            wait::until("rows are written", || count.load(Ordering::Relaxed) >= goal);
            wait::until("the replica applies some of them", || applied_rows(&mut pair) > 0);
            pair.replica.kill9().expect("killing");
            pair.replica.restart().expect("restarting");
            pair.at_replica = pair.replica.connect().expect("a connection");
        }
        let goal = count.load(Ordering::Relaxed) + 300;
        wait::until("rows are written", || count.load(Ordering::Relaxed) >= goal);
        stop.store(true, Ordering::Relaxed);
    });
    let tally = running.stop().expect("a tally");
    pair.wait_for_replica();
    let written = count.load(Ordering::Relaxed);
    assert_eq!(applied_rows(&mut pair), written);
    let primary_log = log_directory(&pair.primary);
    // Read before the directories go with their servers.
    let Pair { mut primary, mut replica, at_primary, at_replica } = pair;
    drop((at_primary, at_replica));
    replica.stop().expect("stopping");
    primary.stop().expect("stopping");
    Audit::of(&primary_log, "primary").expect("a log").assert_complete(&tally);
    let lines = recorded::read(&log_directory(&replica)).expect("a good log");
    assert!(lines.iter().all(|line| text(line, "event") != Some("lost")));
    let mut seen: BTreeMap<&str, u64> = BTreeMap::new();
    for line in applied(&lines) {
        assert!(matches!(text(line, "outcome"), Some("ok" | "error")), "{line:?}");
        if text(line, "outcome") == Some("ok") && text(line, "sql_command") == Some("insert") {
            *seen.entry(text(line, "sql").expect("a text")).or_default() += 1;
        }
    }
    // A statement that was applied a second time, because the first one was rolled back, occurs
    // twice.
    let rows = seen.keys().filter(|sql| sql.contains("'row ")).count() as u64;
    if format == "ROW" {
        assert_eq!(rows, 0, "rows have no text");
    } else {
        assert_eq!(rows, written, "statements that were applied and are not in the log");
    }
    for server in [&primary, &replica] {
        assert_no_secret(&log_directory(server));
        server.assert_clean_log(ALLOWED);
    }
}

/// How many rows of the writers the replica has.
fn applied_rows(pair: &mut Pair) -> u64 {
    (0..WRITERS)
        .map(|writer| {
            let sql = format!("SELECT COUNT(*) FROM d.rows{writer}");
            // The table may not be there yet.
            pair.at_replica.query_first::<u64, _>(sql).ok().flatten().unwrap_or(0)
        })
        .sum()
}

#[test]
fn a_replica_that_is_killed_has_everything_in_its_log() {
    survive("MIXED", &["log-bin=binlog", "log-slave-updates=ON"], 3);
}

#[test]
fn threads_that_apply_in_parallel_lose_nothing() {
    let options = ["slave-parallel-threads=4", "slave-parallel-mode=optimistic"];
    survive("STATEMENT", &options, 2);
}

#[test]
fn rows_are_applied_without_a_text() {
    survive("ROW", &["slave-parallel-threads=2", "tacho-tables=ON"], 1);
}
