//! Zone: outside. A MySQL and its replica, both recording: the statements of the replica's
//! appliers, as statements and as rows, by one worker and by several. `scripts/test-release.sh`
//! runs them.

use std::collections::BTreeMap;
use std::thread;

use tacho_tests::client::{self, Conn, Queryable};
use tacho_tests::mysql_place::LogAndArenas;
use tacho_tests::mysql_replication;
use tacho_tests::mysql_server::{MySql, named};
use tacho_tests::recorded::{self, Line};
use tacho_tests::wait;

/// Sessions at the source, the commits of each, and the replica's workers.
const SESSIONS: u64 = 4;
const COMMITS: u64 = 25;
const WORKERS: u64 = 4;

/// Each has its own log.
struct Pair {
    source: (LogAndArenas, MySql, Conn),
    replica: (LogAndArenas, MySql, Conn),
}

impl Pair {
    /// Replication runs; `options` are for both.
    fn start(name: &str, options: &[&str]) -> Pair {
        let with = |id| [&mysql_replication::OPTIONS[..], options, &[id]].concat();
        let [source_place, replica_place] =
            ["source", "replica"].map(|role| LogAndArenas::new(&format!("{name}-{role}")));
        let (source, mut at_source) = source_place.start(&with("server-id=1"));
        let (mut replica, at_replica) = replica_place.start(&with("server-id=2"));
        drop(at_replica);
        mysql_replication::give_identity(&mut replica);
        let mut at_replica = replica.connect().expect("a connection");
        mysql_replication::connect(&source, &mut at_source, &mut at_replica);
        // Statements from the source are executed whatever the rules are.
        let rule = r#"{"default": "block"}"#;
        at_replica
            .query_drop(named(&format!("SET GLOBAL tacho.filter = '{rule}'")))
            .expect("an answer");
        at_replica.query_drop("START REPLICA").expect("an answer");
        Pair {
            source: (source_place, source, at_source),
            replica: (replica_place, replica, at_replica),
        }
    }

    fn at_source(&mut self, statements: &[&str]) {
        for sql in statements {
            self.source.2.query_drop(sql).expect(sql);
        }
    }

    /// Waits until the replica answers this to a query for a number.
    fn wait_for(&mut self, query: &str, number: u64) {
        let conn = &mut self.replica.2;
        wait::until("the replica has it", || {
            let found: Result<Option<Option<u64>>, _> = conn.query_first(query);
            found.ok().flatten().flatten() == Some(number)
        });
    }

    /// Stops both, and returns the records of the source and of the replica.
    fn end(self) -> (Vec<Line>, Vec<Line>) {
        let [at_replica, at_source] =
            [self.replica, self.source].map(|(place, mut server, conn)| {
                drop(conn);
                place.end(&mut server)
            });
        let secret = |line: &&Line| format!("{line:?}").contains(mysql_replication::SECRET);
        assert_eq!(at_source.iter().chain(&at_replica).find(secret), None);
        (at_source, at_replica)
    }
}

fn succeeded<'l>(lines: &'l [Line], sql: &str) -> Vec<&'l Line> {
    let is_it = |line: &&Line| {
        recorded::text(line, "sql") == Some(sql) && recorded::text(line, "outcome") == Some("ok")
    };
    lines.iter().filter(is_it).collect()
}

#[test]
fn statements_that_a_replica_applies_are_recorded() {
    let mut pair = Pair::start("statements", &["binlog-format=STATEMENT"]);
    let statements = [
        "CREATE DATABASE d",
        "CREATE TABLE d.t (id INT PRIMARY KEY)",
        "INSERT INTO d.t VALUES (1), (2)",
        "UPDATE d.t SET id = id + 10",
    ];
    pair.at_source(&statements);
    pair.wait_for("SELECT SUM(id) FROM d.t", 23);
    let (at_source, at_replica) = pair.end();
    for sql in statements {
        for (lines, who) in [(&at_source, "source"), (&at_replica, "replica")] {
            assert_eq!(succeeded(lines, sql).len(), 1, "{sql} at the {who}");
        }
    }
}

/// Rows have no text and so no line; each transaction that brings some has one, its BEGIN, of the
/// worker that applied it.
#[test]
fn each_transaction_of_rows_has_one_line_at_a_replica_with_several_workers() {
    let workers = format!("replica-parallel-workers={WORKERS}");
    let mut pair = Pair::start("rows", &["binlog-format=ROW", &workers]);
    let tables: Vec<String> =
        (0..SESSIONS).map(|n| format!("CREATE TABLE d.t{n} (id INT PRIMARY KEY)")).collect();
    pair.at_source(&["CREATE DATABASE d"]);
    pair.at_source(&tables.iter().map(String::as_str).collect::<Vec<_>>());
    let socket = pair.source.1.socket().to_owned();
    thread::scope(|scope| {
        for n in 0..SESSIONS {
            let socket = &socket;
            scope.spawn(move || {
                let mut conn = client::connect(socket, "root", "d").expect("a connection");
                for id in 0..COMMITS {
                    let sql = format!("INSERT INTO t{n} VALUES ({id})");
                    conn.query_drop(sql).expect("an answer");
                }
            });
        }
    });
    let counts: Vec<String> =
        (0..SESSIONS).map(|n| format!("(SELECT COUNT(*) FROM d.t{n})")).collect();
    pair.wait_for(&format!("SELECT {}", counts.join(" + ")), SESSIONS * COMMITS);
    let (at_source, at_replica) = pair.end();

    for table in &tables {
        assert_eq!(
            (succeeded(&at_source, table).len(), succeeded(&at_replica, table).len()),
            (1, 1)
        );
    }
    let is_insert = |line: &&Line| {
        recorded::text(line, "sql").is_some_and(|sql| sql.starts_with("INSERT INTO t"))
    };
    let inserts = at_source.iter().filter(is_insert).count() as u64;
    assert_eq!(inserts, SESSIONS * COMMITS);
    assert_eq!(at_replica.iter().filter(is_insert).count(), 0);
    let begins = succeeded(&at_replica, "BEGIN");
    assert_eq!(begins.len() as u64, SESSIONS * COMMITS);
    let mut by_worker = BTreeMap::new();
    for line in &begins {
        assert_eq!(recorded::text(line, "user"), None, "{line:?}");
        *by_worker.entry(recorded::number(line, "conn").expect("a session")).or_insert(0) += 1;
    }
    assert!(by_worker.len() as u64 <= WORKERS, "{by_worker:?}");
    let of_appliers: Vec<&Line> = at_replica
        .iter()
        .filter(|line| {
            recorded::number(line, "conn").is_some_and(|conn| by_worker.contains_key(&conn))
        })
        .collect();
    assert_eq!(recorded::problems(&of_appliers), [""; 0]);
}
