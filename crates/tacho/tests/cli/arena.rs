//! `tacho arena` on arenas of servers that run or died.

use std::path::Path;
use std::process::Output;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tacho_ring::layout::{OVERFLOW_DROP, OVERFLOW_TIMEOUT};

use crate::server::{Process, ServerDirs};
use crate::support::{stderr, stdout, tacho};

/// Only a hang lasts this long; otherwise no test depends on time.
const HANG: Duration = Duration::from_secs(600);

fn arena(path: &Path, args: &[&str]) -> Output {
    tacho(&[&["arena", path.to_str().unwrap()], args].concat())
}

#[track_caller]
fn text_of(output: &Output) -> String {
    assert_eq!((output.status.code(), stderr(output).as_str()), (Some(0), ""));
    stdout(output)
}

fn json_lines(output: &Output) -> Vec<serde_json::Value> {
    text_of(output).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn lists_the_living_and_the_dead() {
    let place = ServerDirs::new();
    let arenas = place.arenas();
    let directory = ["arena", "--arena-directory", arenas.to_str().unwrap()];
    let none = tacho(&directory);
    assert_eq!(text_of(&none), format!("No arena in {}.\n", arenas.display()));

    let dead = Process::start(&place);
    let dead_pid = dead.pid();
    dead.kill();
    let living = Process::start(&place);
    let text = text_of(&tacho(&directory));
    let life = |pid, life| format!("server    MariaDB 10.11.19-test, process {pid}, {life}\n");
    assert!(text.contains(&life(dead_pid, "ended")), "{text}");
    assert!(text.contains(&life(living.pid(), "running")), "{text}");
    assert!(text.contains(&format!("log       {}\n", place.log().display())), "{text}");

    let lines = json_lines(&tacho(&[&directory[..], &["--format", "json"]].concat()));
    assert_eq!(lines.len(), 2);
    assert_eq!(lines[0]["alive"], false);
    assert_eq!(lines[1]["alive"], true);
    assert_eq!(lines[1]["overflow"], "BLOCK");
    assert_eq!(lines[1]["arena_bytes"], 1 << 20);
    let (count, free) = (&lines[1]["chunk_count"], &lines[1]["chunks_free"]);
    assert_eq!(count.as_u64().unwrap() - free.as_u64().unwrap(), 1, "one chunk is open");
}

#[test]
fn files_that_are_not_arenas_are_reported() {
    let place = ServerDirs::new();
    let path = place.arenas().join("tacho-0-1-1.arena");
    std::fs::write(&path, b"something else").unwrap();
    let output = tacho(&["arena", "--arena-directory", place.arenas().to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("is not an arena"), "{}", stderr(&output));
    assert_eq!(arena(&path, &[]).status.code(), Some(1));
    assert_eq!(tacho(&["arena", "--arena-directory", "/nowhere"]).status.code(), Some(2));
}

#[test]
fn records_are_shown_without_secrets_and_controls() {
    let place = ServerDirs::new();
    let mut server = place.server();
    server.start_statement(7, 1, b"SELECT 'a\x1b[31mb'");
    server.end_statement(7, 1, b"SELECT 'a\x1b[31mb'", 0);
    server.start_statement(7, 2, b"CREATE USER u IDENTIFIED BY 'hunter2'");
    server.error(7, 2, 1064, b"You have an error near 'hunter2' at line 1");
    let path = server.file.path().to_owned();

    let text = text_of(&arena(&path, &["--records"]));
    assert!(text.contains("SELECT 'a\\e[31mb'\n"), "{text}");
    assert!(text.contains("You have an error near <quoted>\n"), "{text}");
    assert!(!text.contains("hunter2"), "{text}");
    assert!(
        text.ends_with("4 records in the arena; 4 shown, 4 of them not in the log yet.\n"),
        "{text}"
    );

    let lines = json_lines(&arena(&path, &["--records", "all", "--format", "json"]));
    let kinds: Vec<_> = lines.iter().map(|line| line["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["start", "end", "start", "error"]);
    let numbers: Vec<_> = lines.iter().map(|line| line["rec_no"].as_u64().unwrap()).collect();
    assert_eq!(numbers, [1, 2, 3, 4]);
    assert_eq!((&lines[0]["conn"], &lines[0]["user"]), (&7.into(), &"app".into()));
    assert_eq!(lines[0]["text"], "SELECT 'a\u{1b}[31mb'");
    assert_eq!(lines[3]["errno"], 1064);
    assert!(!format!("{lines:?}").contains("hunter2"));

    let one = text_of(&arena(&path, &["--records", "1"]));
    assert!(one.contains("4 records in the arena; 1 shown"), "{one}");
    assert_eq!(one.lines().count(), 3);
}

/// The word that makes text a secret may be several pieces away from it.
#[test]
fn texts_in_pieces_are_redacted_as_a_whole() {
    let place = ServerDirs::new();
    let mut server = place.server();
    let mut sql = b"CREATE USER u IDENTIFIED /*".to_vec();
    sql.resize(40_000, b'x');
    sql.extend_from_slice(b"*/ BY 'hunter2'");
    server.start_statement(7, 1, &sql);
    server.start_statement(7, 2, &[b"SELECT 'whole' -- ".to_vec(), vec![b'y'; 40_000]].concat());
    let lines = json_lines(&arena(server.file.path(), &["--records", "--format", "json"]));
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert_eq!(lines[0]["text_bytes"], sql.len() as u64);
    let text = |index: usize| lines[index]["text"].as_str().unwrap();
    assert!(!text(0).contains("hunter2"));
    assert!(text(1).starts_with("SELECT 'whole' -- yyy"));
}

#[test]
fn a_waiting_server_is_released() {
    let place = ServerDirs::new();
    let mut server = place.server();
    let path = server.file.path().to_owned();
    let arena_of_test = server.file.arena();
    // No writer: the arena fills, and the session waits forever.
    let session = std::thread::spawn(move || {
        let sql = vec![b'x'; 1_000];
        for id in 1..=2_000 {
            server.start_statement(7, id, &sql);
        }
        server
    });
    let started = Instant::now();
    while arena_of_test.shared().backpressure.0.waiters.load(Ordering::Relaxed) == 0 {
        assert!(started.elapsed() < HANG, "no session waits");
        std::thread::sleep(Duration::from_millis(5));
    }
    let text = text_of(&arena(&path, &["--set-overflow", "DROP"]));
    let pid = std::process::id();
    let expected = format!("The overflow policy of process {pid} is now DROP (was BLOCK); ");
    assert!(text.starts_with(&expected), "{text}");
    assert!(text.contains("SET GLOBAL tacho_overflow"), "{text}");
    let server = session.join().unwrap();
    let shared = arena_of_test.shared();
    assert_eq!(shared.settings.0.overflow.load(Ordering::Relaxed), OVERFLOW_DROP);
    let lost = shared.counters.0.lost_dropped.load(Ordering::Relaxed);
    assert!(lost > 0);
    let shown = text_of(&arena(&path, &[]));
    assert!(shown.contains("overflow DROP\n"), "{shown}");
    assert!(shown.contains("waiting   0 sessions now; 1 wait so far"), "{shown}");

    text_of(&arena(&path, &["--set-overflow", "timeout"]));
    assert_eq!(shared.settings.0.overflow.load(Ordering::Relaxed), OVERFLOW_TIMEOUT);
    drop(server);
    let output = arena(&path, &["--set-overflow", "BLOCK"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("has ended"), "{}", stderr(&output));
}
