//! Zone: outside. Many connections, huge statements, pools of threads: all in a small arena.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;
use std::thread;

use tacho_tests::audit::Audit;
use tacho_tests::client::{self, Conn, Queryable};
use tacho_tests::log::{self, Invariants};
use tacho_tests::server::{Builder, TestServer};
use tacho_tests::tagged::{self, Load};
use tacho_tests::wait;

/// Messages of a server that these tests accept.
const ALLOWED: &[&str] = &["max_open_files", "Aborted connection"];

fn builder(arena_bytes: u64) -> Builder {
    TestServer::builder()
        .option("plugin-load-add=tacho.so")
        .option(format!("tacho-arena-bytes={arena_bytes}"))
}

fn log_directory(server: &TestServer) -> PathBuf {
    server.data_directory().join("tacho")
}

/// The lines of one statement.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Seen {
    conn: u64,
    conn_seq: u64,
    outcome: String,
    /// The line that completes it, if this one is `running`.
    completed_as: Option<String>,
}

impl Seen {
    /// The outcome. With a small arena the writer also writes statements that have not ended.
    fn ended(&self) -> &str {
        self.completed_as.as_deref().unwrap_or(&self.outcome)
    }
}

/// Every statement whose text contains `mark`, by text.
fn find(server: &TestServer, mark: &str) -> BTreeMap<String, Vec<Seen>> {
    let mut found: BTreeMap<String, Vec<Seen>> = BTreeMap::new();
    let mut invariants = Invariants::default();
    let mut running: BTreeMap<u64, String> = BTreeMap::new();
    log::read(&log_directory(server), |line, _| {
        invariants.see(line);
        let outcome = line.outcome.as_deref().unwrap_or_default().to_owned();
        if let Some(text) = line.running_seq.and_then(|seq| running.remove(&seq)) {
            let seen = found.get_mut(&text).and_then(|all| all.last_mut());
            seen.expect("the running line").completed_as = Some(outcome);
            return;
        }
        let Some(sql) = line.sql.as_deref().filter(|sql| sql.contains(mark)) else { return };
        if outcome == "running" {
            running.insert(line.seq, sql.to_owned());
        }
        found.entry(sql.to_owned()).or_default().push(Seen {
            conn: line.conn.expect("a connection"),
            conn_seq: line.conn_seq.expect("a number"),
            outcome,
            completed_as: None,
        });
    })
    .expect("a readable log");
    assert_eq!(invariants.finish(), [""; 0]);
    found
}

fn connect_many(server: &TestServer, count: usize) -> Vec<Conn> {
    (0..count).map(|_| server.connect().expect("a connection")).collect()
}

/// Each connection sends `rounds` statements; eight threads serve all of them.
fn let_all_speak(conns: &mut [Conn], rounds: usize) {
    let share = conns.len().div_ceil(8);
    thread::scope(|scope| {
        for (part, some) in conns.chunks_mut(share).enumerate() {
            scope.spawn(move || {
                for round in 0..rounds {
                    for (place, conn) in some.iter_mut().enumerate() {
                        let name = part * share + place;
                        let text = format!("SELECT 'said {name:04} {round:04}'");
                        conn.query_drop(text).expect("an answer");
                    }
                }
            });
        }
    });
}

fn many_connections(arena_bytes: u64) {
    const COUNT: usize = 1200;
    const ROUNDS: usize = 4;
    let mut server = builder(arena_bytes).option("max_connections=1300").start().expect("a server");
    let mut observer = server.connect().expect("a connection");
    let mut used =
        || client::status_number(&mut observer, "Tacho_arena_bytes_used").expect("status");
    let mut conns = connect_many(&server, COUNT);
    let_all_speak(&mut conns, ROUNDS);
    assert!(used() <= arena_bytes, "more than all of it is used");
    drop(conns);
    // The threads have given their chunks back; some thread or other has just taken one.
    wait::until("the arena is empty again", || used() <= 512 << 10);
    drop(observer);
    server.stop().expect("stopping");
    let found = find(&server, "said ");
    assert_eq!(found.len(), COUNT * ROUNDS);
    for (text, seen) in &found {
        assert!(seen.len() == 1 && seen[0].ended() == "ok", "{text}: {seen:?}");
    }
    server.assert_clean_log(ALLOWED);
}

#[test]
fn twelve_hundred_connections_in_an_ordinary_arena() {
    many_connections(64 << 20);
}

#[test]
fn twelve_hundred_connections_in_a_small_arena() {
    many_connections(2 << 20);
}

/// A text of this length, in which no part is like another.
fn long_text(bytes: usize) -> String {
    let mut text = String::with_capacity(bytes + 32);
    text.push_str("SELECT LENGTH('huge ");
    let mut number = 0_u64;
    while text.len() < bytes - 2 {
        number += 1;
        write!(text, "{:x},", number.wrapping_mul(0x9e37_79b9_7f4a_7c15)).expect("a string");
    }
    text.truncate(bytes - 2);
    text.push_str("')");
    text
}

#[test]
fn statements_far_larger_than_the_arena_are_whole() {
    let mut server = builder(1 << 20).start().expect("a server");
    tagged::prepare(&mut server.connect().expect("a connection"), 2).expect("preparing");
    let load = Load { threads: 2, ..Load::new(server.socket(), "beside") };
    let running = load.start().expect("a load");
    let texts = [(16 << 20) + 1, 3 << 20, 60 << 20].map(long_text);
    thread::scope(|scope| {
        for text in &texts {
            let mut conn = server.connect().expect("a connection");
            scope.spawn(move || {
                let length: Option<u64> = conn.query_first(text).expect("an answer");
                assert_eq!(length, Some(text.len() as u64 - 17));
            });
        }
    });
    let tally = running.stop().expect("a tally");
    server.stop().expect("stopping");
    let found = find(&server, "'huge ");
    assert_eq!(found.len(), texts.len());
    for text in &texts {
        let seen = found.get(text).unwrap_or_else(|| panic!("{} bytes are missing", text.len()));
        assert_eq!(seen.len(), 1, "{seen:?}");
        assert_eq!(seen[0].ended(), "ok");
    }
    Audit::of(&log_directory(&server), "beside").expect("a log").assert_complete(&tally);
    server.assert_clean_log(ALLOWED);
}

#[test]
fn connections_keep_their_order_in_a_pool_of_threads() {
    const ROUNDS: usize = 30;
    let mut server = builder(1 << 20)
        .option("thread-handling=pool-of-threads")
        .option("thread-pool-size=4")
        .option("max_connections=300")
        .start()
        .expect("a server");
    let mut conns = connect_many(&server, 200);
    let_all_speak(&mut conns, ROUNDS);
    drop(conns);
    server.stop().expect("stopping");
    let found = find(&server, "said ");
    assert_eq!(found.len(), 200 * ROUNDS);
    // Sorted by text: by connection, and within it in the order of the client.
    let mut last: BTreeMap<u64, u64> = BTreeMap::new();
    for (text, seen) in &found {
        let [Seen { conn, conn_seq, .. }] = seen[..] else { panic!("{text}: {seen:?}") };
        let before = last.insert(conn, conn_seq);
        assert!(before.is_none_or(|before| before < conn_seq), "{text}: {before:?} {seen:?}");
    }
    assert_eq!(last.len(), 200);
    server.assert_clean_log(ALLOWED);
}

#[test]
fn many_long_statements_do_not_stop_a_small_arena() {
    const COUNT: usize = 100;
    let mut server = builder(1 << 20).option("max_connections=200").start().expect("a server");
    tagged::prepare(&mut server.connect().expect("a connection"), 4).expect("preparing");
    let running = Load::new(server.socket(), "beside").start().expect("a load");
    let conns = connect_many(&server, COUNT);
    thread::scope(|scope| {
        for (number, mut conn) in conns.into_iter().enumerate() {
            scope.spawn(move || {
                let text = format!("SELECT SLEEP(12), 'slept {number}'");
                conn.query_drop(text).expect("an answer");
            });
        }
    });
    assert!(running.acknowledged_count() > 500, "the load did not continue");
    let tally = running.stop().expect("a tally");
    server.stop().expect("stopping");
    let found = find(&server, "'slept ");
    assert_eq!(found.len(), COUNT);
    for (text, seen) in &found {
        let [seen] = &seen[..] else { panic!("{text}: {seen:?}") };
        assert_eq!(seen.outcome, "running", "{text}");
        assert_eq!(seen.completed_as.as_deref(), Some("ok"), "{text}");
    }
    Audit::of(&log_directory(&server), "beside").expect("a log").assert_complete(&tally);
    server.assert_clean_log(ALLOWED);
}
