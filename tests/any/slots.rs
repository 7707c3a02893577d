//! Zone: outside. More connections than a small arena has slots for: their records have no numbers,
//! and are in the chunks of any threads.

use std::collections::BTreeMap;
use std::thread;

use tacho_tests::client::{Conn, Queryable as _};
use tacho_tests::log;
use tacho_tests::recording::Recording;

/// An arena of 1 MiB has 1,024 slots, and the server's own sessions may have some.
const IDLE: usize = 1024;
const THREADS: usize = 8;
const CONNECTIONS: usize = 8;
const ROUNDS: usize = 40;

fn connect(server: &Recording, count: usize) -> Vec<Conn> {
    (0..count).map(|_| server.connect().expect("connects")).collect()
}

/// The lines of one statement.
#[derive(Debug)]
struct Seen {
    seq: u64,
    conn: u64,
    has_number: bool,
    /// The last that is known.
    outcome: String,
    /// Lines with its text.
    texts: usize,
}

/// By its text. If it was running when the writer needed space, the first line says so; the other
/// one completes it.
fn statements(server: &Recording) -> BTreeMap<String, Seen> {
    let mut found: BTreeMap<String, Seen> = BTreeMap::new();
    let mut running: BTreeMap<u64, String> = BTreeMap::new();
    log::read(&server.log_directory(), |line, text| {
        let outcome = line.outcome.as_deref().unwrap_or_default().to_owned();
        let sql = line.sql.as_deref().filter(|sql| sql.starts_with("SELECT 'said "));
        let completed = line.running_seq.and_then(|seq| running.remove(&seq));
        if let Some(text) = completed.or(sql.map(str::to_owned)) {
            if outcome == "running" {
                running.insert(line.seq, text.clone());
            }
            let seen = found.entry(text).or_insert(Seen {
                seq: line.seq,
                conn: line.conn.expect("a connection"),
                has_number: line.conn_seq.is_some(),
                outcome: String::new(),
                texts: 0,
            });
            seen.outcome = outcome;
            seen.texts += usize::from(sql.is_some());
        } else if line.is_statement() && line.command.as_deref() == Some("Query") {
            assert!(line.sql.is_some(), "of what statement is this? {text}");
        }
    })
    .expect("a readable log");
    found
}

#[test]
fn statements_of_sessions_without_a_slot_have_one_line_each() {
    let mut builder =
        Recording::builder().option("tacho-arena-bytes=1M").option("max_connections=1300");
    let product = tacho_tests::product::Product::wanted().expect("a server");
    if product.is_mariadb() {
        // Each statement may be executed by another thread, and so be in another chunk.
        builder = builder.option("thread-handling=pool-of-threads").option("thread-pool-size=4");
    }
    let mut server = builder.start().expect("starts");
    let idle = connect(&server, IDLE);
    thread::scope(|scope| {
        for part in 0..THREADS {
            let mut conns = connect(&server, CONNECTIONS);
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    for (place, conn) in conns.iter_mut().enumerate() {
                        // So long that a chunk has room for two.
                        let text = format!(
                            "SELECT 'said {:03} {round:03}', LENGTH('{}')",
                            part * CONNECTIONS + place,
                            "all that there is to say ".repeat(120)
                        );
                        conn.query_drop(text).expect("an answer");
                    }
                }
            });
        }
    });
    // In hundreds of pieces, more than the arena has room for.
    let huge = format!("SELECT 'said huge statement', LENGTH('{}')", "on and on ".repeat(300_000));
    server.connect().expect("connects").query_drop(&huge).expect("an answer");
    drop(idle);
    server.stop().expect("stops");
    let found = statements(&server);
    assert_eq!(found.len(), THREADS * CONNECTIONS * ROUNDS + 1);
    assert!(!found.get(&huge).expect("all of it").has_number);
    let untracked = found.values().filter(|seen| !seen.has_number).count();
    assert!(untracked > found.len() / 2, "{untracked} statements are of sessions without a slot");
    // By connection, and within it in the order of the client.
    let mut last: BTreeMap<u64, u64> = BTreeMap::new();
    for (text, seen) in &found {
        let text = &text[..24];
        assert_eq!((seen.texts, &*seen.outcome), (1, "ok"), "{text}: {seen:?}");
        let before = last.insert(seen.conn, seen.seq);
        assert!(before.is_none_or(|before| before < seen.seq), "{text}: {before:?} {seen:?}");
    }
    server.assert_clean_log(&["max_open_files", "Aborted connection", "Forcing close of thread"]);
}
