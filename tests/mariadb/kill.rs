//! Zone: outside. KILL ends the wait for space in the arena, and the losses are declared.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde_json::Value;
use tacho_tests::arena::Arena;
use tacho_tests::audit::Audit;
use tacho_tests::client::{self, Conn, Queryable};
use tacho_tests::disk::{Disk, FAILED_WRITES};
use tacho_tests::server::TestServer;
use tacho_tests::{log, wait};

const NO_SPACE: i32 = 28;
/// How often a statement is killed before that is given up.
const KILLS_MAX: usize = 20;

/// Messages of a server that this test accepts.
const ALLOWED: &[&str] = &["max_open_files", "Aborted connection", "records were lost"];

/// A connection that inserts rows until it gets an error.
struct Victim {
    name: &'static str,
    id: u32,
    answered: Arc<AtomicU64>,
    thread: JoinHandle<(Conn, mysql::Error)>,
}

impl Victim {
    /// `insert` puts row `number` into the table of that name, which is made.
    fn start(
        server: &TestServer,
        name: &'static str,
        insert: impl Fn(&mut Conn, u64) -> mysql::Result<()> + Send + 'static,
    ) -> Self {
        let mut conn = server.connect().expect("a connection");
        conn.query_drop(format!("CREATE TABLE bench.{name} (n INT PRIMARY KEY, pad LONGTEXT)"))
            .expect("a table");
        let id = conn.connection_id();
        let answered = Arc::new(AtomicU64::new(0));
        let count = answered.clone();
        let thread = thread::spawn(move || {
            loop {
                if let Err(error) = insert(&mut conn, count.load(Ordering::Relaxed) + 1) {
                    return (conn, error);
                }
                count.fetch_add(1, Ordering::Relaxed);
            }
        });
        Self { name, id, answered, thread }
    }

    /// Kills until the session returns: a kill may also hit the end of a statement that was
    /// answered, and then the next one waits. Returns the connection, and the number of its error.
    fn kill(self, admin: &mut Conn, how: &str) -> (Conn, Option<u16>, Killed) {
        for _ in 0..KILLS_MAX {
            // It may have ended already.
            let _ = admin.query_drop(format!("KILL {how} {}", self.id));
            for _ in 0..20 {
                if self.thread.is_finished() {
                    let answered = self.answered.load(Ordering::Relaxed);
                    let (conn, error) = self.thread.join().expect("the victim");
                    let code = match error {
                        mysql::Error::MySqlError(error) => Some(error.code),
                        _ => None,
                    };
                    return (conn, code, Killed { name: self.name, answered });
                }
                thread::sleep(Duration::from_millis(50));
            }
        }
        panic!("{} still waits after {KILLS_MAX} kills", self.name);
    }
}

struct Killed {
    name: &'static str,
    answered: u64,
}

impl Killed {
    /// Exactly the answered statements were executed, and all of them are in the log; others are
    /// there with an error, or not at all.
    fn check(&self, admin: &mut Conn, lines: &[Value]) {
        let rows: u64 = admin
            .query_first(format!("SELECT COUNT(*) FROM bench.{}", self.name))
            .expect("an answer")
            .expect("a row");
        assert_eq!(rows, self.answered, "rows of {}", self.name);
        let insert = format!("INSERT INTO bench.{} ", self.name);
        let of_it = |line: &&Value| {
            // A statement that took long has a line before, which the last one names.
            line["command"] != "Prepare"
                && line["running_seq"].is_null()
                && line["sql"].as_str().is_some_and(|sql| sql.starts_with(&insert))
        };
        let (failed, good): (Vec<&Value>, Vec<&Value>) =
            lines.iter().filter(of_it).partition(|line| line["outcome"] == "error");
        assert_eq!(good.len() as u64, self.answered, "lines of {}", self.name);
        assert!(failed.len() <= 1, "{failed:?}");
    }
}

fn pad(bytes: usize) -> String {
    "x".repeat(bytes)
}

#[test]
fn kill_ends_a_wait_for_the_log() {
    let place = tacho_tests::unused_directory("kill");
    let disk = Disk::plain(&place.join("disk")).expect("a disk");
    // In an arena of this size the writer is not short of chunks before the disk fails, so the
    // session of the test keeps its own, and can say KILL when the others wait.
    let builder =
        TestServer::builder().option("plugin-load-add=tacho.so").option("tacho-arena-bytes=8M");
    let mut server = disk.server(builder).start().expect("a server");
    let mut admin = server.connect().expect("a connection");
    admin.query_drop("CREATE DATABASE bench").expect("a database");
    let arena = Arena::of(&mut admin).expect("an arena");

    let text = |name: &'static str, bytes: usize| {
        move |conn: &mut Conn, number: u64| {
            conn.query_drop(format!("INSERT INTO bench.{name} VALUES ({number}, '{}')", pad(bytes)))
        }
    };
    let query = Victim::start(&server, "query", text("query", 4_000));
    let connection = Victim::start(&server, "connection", text("connection", 4_000));
    let huge = Victim::start(&server, "huge", text("huge", 3_000_000));
    let prepared = Victim::start(&server, "prepared", |conn, number| {
        let statement = conn.prep("INSERT INTO bench.prepared VALUES (?, ?)")?;
        let done = conn.exec_drop(&statement, (number, "y"));
        conn.close(statement)?;
        done
    });
    wait::until("all of them work", || {
        [&query, &connection, &huge, &prepared]
            .iter()
            .all(|victim| victim.answered.load(Ordering::Relaxed) > 3)
    });
    admin.query_drop("SELECT 'a chunk of its own'").expect("an answer");
    disk.fail_writes(NO_SPACE, 0).expect("a fault");
    let total = || {
        [&query, &connection, &huge, &prepared]
            .iter()
            .map(|victim| victim.answered.load(Ordering::Relaxed))
            .sum()
    };
    wait::until("connections wait", || arena.waiters().expect("the arena") >= 3);
    wait::until_steady("answers stop", total);

    let (mut survivor, code, query) = query.kill(&mut admin, "QUERY");
    assert_eq!(code, Some(1317));
    let (_, code, prepared) = prepared.kill(&mut admin, "QUERY");
    assert_eq!(code, Some(1317));
    let (_, code, huge) = huge.kill(&mut admin, "QUERY");
    assert_eq!(code, Some(1317));
    let (_, code, connection) = connection.kill(&mut admin, "CONNECTION");
    // The connection is cut, or the server announces it first.
    assert!(matches!(code, None | Some(1927)), "{code:?}");

    disk.mend_writes().expect("mending");
    survivor.query_drop("SELECT 'as if nothing had happened'").expect("an answer");
    let mut number = |name: &str| client::status_number(&mut admin, name).expect("status");
    let lost = wait::until_steady("losses end", || number("Tacho_records_lost"));
    assert_eq!(number("Tacho_records_lost_killed"), lost);
    assert!(lost >= 4, "{lost} records");
    let mut lines = Vec::new();
    wait::until("what was lost is in the log", || {
        lines.clear();
        log::read(&disk.log_directory(), |_, text| {
            lines.push(serde_json::from_str::<Value>(text).expect("JSON"));
        })
        .expect("a readable log");
        let told = lines.iter().filter(|line| line["event"] == "lost");
        told.map(|line| line["count"].as_u64().expect("a count")).sum::<u64>() == lost
    });
    for killed in [query, prepared, huge, connection] {
        killed.check(&mut admin, &lines);
    }
    drop((admin, survivor));
    server.stop().expect("stopping");
    let audit = Audit::of(&disk.log_directory(), "kill").expect("a readable log");
    assert_eq!(audit.problems, [""; 0]);
    assert_eq!(audit.lost_count("killed").expect("lost lines"), lost);
    server.assert_clean_log(&[ALLOWED, FAILED_WRITES].concat());
    drop(server);
    fs::remove_dir_all(place).expect("removing");
}
