//! Zone: outside. Deaths at chosen moments: during recovery, in the middle of a statement,
//! by a statement; and recovery without a server.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::scene::{Scene, start_load};
use tacho_logdir::{LogFiles, Options, RealFs};
use tacho_recorder::arena_file::ArenaFile;
use tacho_recorder::control::{Control, Status};
use tacho_recorder::recover::{self, Recovered};
use tacho_recorder::writer::Writer;
use tacho_tests::client::{self, Conn, Queryable};
use tacho_tests::log;
use tacho_tests::program;
use tacho_tests::wait;

/// Everything stays in the arena for as long as it fits.
const IN_THE_ARENA: [&str; 2] = ["tacho-flush-interval-ms=60000", "tacho-flush-bytes=16777216"];

/// All lines of the log, parsed.
fn lines(directory: &Path) -> Vec<Value> {
    let mut lines = Vec::new();
    log::read(directory, |_, text| lines.push(serde_json::from_str(text).expect("JSON")))
        .expect("a readable log");
    lines
}

/// Sends a statement that will never be answered.
fn send(mut conn: Conn, sql: String) -> JoinHandle<bool> {
    thread::spawn(move || conn.query_drop(sql).is_ok())
}

fn wait_until_runs(scene: &Scene, conn: u64) {
    let mut watcher = scene.server.connect().expect("a connection");
    let sql = format!(
        "SELECT 1 FROM information_schema.processlist WHERE id={conn} AND state='User sleep'"
    );
    wait::until("the statement runs", || {
        watcher.query_first::<u8, _>(&sql).expect("asking").is_some()
    });
}

/// The one `interrupted` line of this connection. The watcher's may be interrupted, too: its
/// last statement was answered, and the server had no time to announce that it ended.
fn interrupted(lines: &[Value], conn: u64) -> &Value {
    let of_conn = |line: &&Value| line["outcome"] == "interrupted" && line["conn"] == conn;
    let mut found = lines.iter().filter(of_conn);
    let line = found.next().expect("an interrupted line");
    assert!(found.next().is_none(), "more than one interrupted line");
    line
}

fn connect_as(scene: &Scene, user: &str) -> Conn {
    let mut root = scene.server.connect().expect("a connection");
    root.query_drop(format!("CREATE USER {user}@localhost")).expect("creating a user");
    root.query_drop("CREATE DATABASE IF NOT EXISTS logistics").expect("creating a database");
    root.query_drop(format!("GRANT ALL ON logistics.* TO {user}@localhost")).expect("granting");
    client::connect(scene.server.socket(), user, "logistics").expect("a connection")
}

/// Ends the server by a signal while a statement of this many bytes runs, and returns its line.
fn end_in_statement(options: &[&str], text_bytes: usize, signal: Signal, wait_s: u64) -> Value {
    let mut scene = Scene::new(options);
    let conn = connect_as(&scene, "driver");
    let id = u64::from(conn.connection_id());
    let sql = format!("SELECT SLEEP(600) /* {} */", "no end ".repeat(text_bytes / 7));
    let client = send(conn, sql.clone());
    wait_until_runs(&scene, id);
    if wait_s > 0 {
        let directory = scene.log_directory();
        // Of this session: on a busy machine a definition may run for long, too.
        let parts = [format!(r#""conn":{id},"#), r#""outcome":"running""#.to_owned()];
        wait::until("a running line", || {
            let so_far = lines_so_far(&directory);
            so_far.lines().any(|line| parts.iter().all(|part| line.contains(part)))
        });
    }
    let pid = scene.server.pid().expect("a running server");
    let pid = Pid::from_raw(pid as i32).expect("a process id");
    kill_process(pid, signal).expect("a signal");
    let status = scene.server.wait_for_exit().expect("an end");
    assert!(!status.success());
    assert!(!client.join().expect("the client"), "the statement was answered");
    scene.server.restart().expect("restarting");
    scene.server.stop().expect("stopping");
    assert_eq!(scene.arena_files(), Vec::<PathBuf>::new(), "arenas are left");

    let lines = lines(&scene.log_directory());
    let line = interrupted(&lines, id);
    let whole = match line["running_seq"].as_u64() {
        Some(seq) => {
            let running = &lines[seq as usize - 1];
            assert_eq!(running["outcome"], "running");
            assert_eq!(running["conn"], line["conn"]);
            assert_eq!(running["conn_seq"], line["conn_seq"]);
            assert_eq!(running["query_id"], line["query_id"]);
            running
        }
        None => line,
    };
    assert_eq!(whole["sql"], sql, "the text");
    assert_eq!((&whole["user"], &whole["db"]), (&"driver".into(), &"logistics".into()));
    assert_eq!((&whole["event"], &whole["command"]), (&"statement".into(), &"Query".into()));
    let told = lines.iter().filter(|l| l["sql"] == whole["sql"]).count();
    assert_eq!(told, 1, "the text is in the log {told} times");
    line.clone()
}

/// The current contents of the files; the last line may be incomplete.
fn lines_so_far(directory: &Path) -> String {
    let files = log::files(directory).expect("the log directory");
    files.iter().map(|path| fs::read_to_string(path).expect("a log file")).collect()
}

#[test]
fn a_statement_that_runs_at_the_kill_is_interrupted() {
    let line = end_in_statement(&[], 7, Signal::KILL, 0);
    assert!(line["running_seq"].is_null());
}

#[test]
fn a_running_line_is_completed_as_interrupted() {
    let line = end_in_statement(&[], 7, Signal::KILL, 12);
    assert!(line["running_seq"].is_u64());
}

#[test]
fn a_statement_larger_than_a_chunk_is_there_whole() {
    end_in_statement(&IN_THE_ARENA, 100_000, Signal::KILL, 0);
}

#[test]
fn a_statement_larger_than_the_arena_is_there_whole() {
    end_in_statement(&["tacho-arena-bytes=1M"], 3_000_000, Signal::KILL, 0);
}

#[test]
fn a_large_part_of_a_small_arena_is_there_whole() {
    end_in_statement(
        &["tacho-arena-bytes=1M", "tacho-flush-interval-ms=60000"],
        300_000,
        Signal::KILL,
        0,
    );
}

#[test]
fn the_statement_that_crashed_the_server_is_in_the_log() {
    end_in_statement(&[], 7, Signal::SEGV, 0);
    end_in_statement(&IN_THE_ARENA, 7, Signal::ABORT, 0);
}

/// The process id of the server of this scene, found by its data directory, which no other
/// process has.
fn find_server(scene_data: &str) -> Option<Pid> {
    let wanted = format!("--datadir={scene_data}");
    for entry in fs::read_dir("/proc").expect("/proc") {
        let entry = entry.expect("an entry");
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        // A process may end while it is looked at.
        let Ok(command_line) = fs::read(entry.path().join("cmdline")) else { continue };
        if command_line.split(|byte| *byte == 0).any(|word| word == wanted.as_bytes()) {
            return Pid::from_raw(pid);
        }
    }
    None
}

/// Kills the server that is starting, as soon as it has the lock of the log directory
/// (recovery comes next) or a little later.
fn kill_at_recovery(scene: &Scene, delay: Duration) -> (Arc<AtomicBool>, JoinHandle<bool>) {
    let data = scene.server.data_directory().display().to_string();
    let lock = scene.log_directory().join(".lock");
    // Its holder writes its process id.
    let before = fs::read(&lock).expect("the lock");
    let give_up = Arc::new(AtomicBool::new(false));
    let is_over = give_up.clone();
    let killer = thread::spawn(move || {
        while fs::read(&lock).expect("the lock") == before {
            if is_over.load(Ordering::Relaxed) {
                return false;
            }
            thread::sleep(Duration::from_micros(200));
        }
        thread::sleep(delay);
        match find_server(&data) {
            Some(pid) => kill_process(pid, Signal::KILL).is_ok(),
            None => false,
        }
    });
    (give_up, killer)
}

#[test]
fn recovery_that_is_killed_again_and_again_brings_everything_once() {
    let options = [IN_THE_ARENA[0], IN_THE_ARENA[1], "tacho-rotate-bytes=300000"];
    let mut scene = Scene::new(&options);
    let running = start_load(&scene, "again");
    let mut killed = 0;
    for round in 0..3 {
        scene.kill_under_load(&running, 1500);
        for attempt in 0..6 {
            let delay = Duration::from_micros(scene.below(1_000) * (1 << attempt));
            let (give_up, killer) = kill_at_recovery(&scene, delay);
            let started = scene.server.restart();
            give_up.store(true, Ordering::Relaxed);
            let hit = killer.join().expect("the killer");
            if hit {
                killed += 1;
                if started.is_ok() {
                    scene.server.wait_for_exit().expect("the death");
                }
            } else {
                started.expect("restarting");
            }
            if !hit {
                break;
            }
        }
        if scene.server.pid().is_none() {
            scene.server.restart().expect("restarting");
        }
        println!("round {round}: {killed} starts killed so far");
    }
    running.wait_for_more(100);
    let tally = running.stop().expect("a tally");
    assert!(killed > 0, "no start was killed");
    println!("{killed} starts killed");
    scene.finish(&tally, "again");
}

/// Recovers as the command does: with the library, without a server.
fn recover_offline(scene: &Scene) -> Recovered {
    let directory = fs::canonicalize(scene.log_directory()).expect("the log directory");
    let (files, opened) =
        LogFiles::open(RealFs, &directory, Options { rotate_bytes: 0 }).expect("the log");
    let last_seq = opened.last_seq.expect("a last line").unwrap_or(0);
    // A writer needs its own arena, although no thread will write into this one.
    let unused =
        ArenaFile::create(&scene.arenas, 1 << 20, &directory, "offline").expect("an arena");
    let writer = Writer::new(
        unused.arena(),
        files,
        last_seq,
        Arc::new(Control::default()),
        Arc::new(Status::default()),
        Box::new(|_, text| println!("recovery: {text}")),
    );
    let (writer, recovered) = recover::recover_all(writer, &scene.arenas, &directory);
    writer.close().expect("closing the log");
    unused.remove().expect("removing the arena");
    recovered.expect("recovering")
}

fn copy(from: &Path, to: &Path) {
    let status = Command::new("cp").arg("-a").arg(from).arg(to).status().expect("cp");
    assert!(status.success());
}

#[test]
fn recovery_without_a_server_brings_the_same_lines() {
    let mut scene = Scene::new(&IN_THE_ARENA);
    let running = start_load(&scene, "offline");
    scene.kill_under_load(&running, 500);
    let tally = running.stop().expect("a tally");
    let arenas = scene.arena_files();
    let [arena] = arenas.as_slice() else { panic!("{} arenas", arenas.len()) };
    let aside = scene.arenas.join("aside");
    fs::create_dir(&aside).expect("a directory");
    copy(arena, &aside.join("arena"));
    copy(&scene.log_directory(), &aside.join("log"));

    let recovered = recover_offline(&scene);
    assert_eq!(recovered.arenas, 1);
    assert!(recovered.lines > 100, "{recovered:?}");
    assert_eq!(scene.arena_files(), Vec::<PathBuf>::new(), "arenas are left");
    assert_eq!(recover_offline(&scene), Recovered::default(), "there was something left to do");
    let offline = lines(&scene.log_directory());

    // A server that starts now has nothing to do.
    scene.server.restart().expect("restarting");
    let summary = scene.finish(&tally, "offline");
    assert!(!scene.server.error_log().contains("lines that a server"), "recovered once more");
    assert!(summary.acknowledged > 500);
    let then = lines(&scene.log_directory());
    assert_eq!(then[..offline.len()], offline);
    assert_eq!(then[offline.len()]["event"], "start");

    // The same, by a server.
    fs::remove_dir_all(scene.log_directory()).expect("removing the log");
    copy(&aside.join("log"), &scene.log_directory());
    copy(&aside.join("arena"), arena);
    scene.server.restart().expect("restarting");
    scene.finish(&tally, "offline");
    let online = lines(&scene.log_directory());
    assert_eq!(online[..offline.len()], offline);
    assert_eq!(online[offline.len()]["event"], "start");
}

/// A server that will not start any more: the command does it.
#[test]
fn the_command_recovers_without_a_server() {
    let mut scene = Scene::new(&IN_THE_ARENA);
    let running = start_load(&scene, "command");
    scene.kill_under_load(&running, 500);
    let tally = running.stop().expect("a tally");
    let recover = Command::new(program("tacho")).arg("recover").arg(scene.log_directory()).status();
    assert!(recover.expect("the command is built").success());
    assert_eq!(scene.arena_files(), Vec::<PathBuf>::new(), "arenas are left");
    let recovered = crate::scene::check(&scene.log_directory(), &tally, "command");
    assert!(recovered.acknowledged > 500, "{recovered:?}");
    scene.server.restart().expect("restarting");
    let summary = scene.finish(&tally, "command");
    assert_eq!(summary.interrupted, recovered.interrupted, "recovered once more");
}

/// Other servers have no pool of threads.
mod mariadb_only {
    use super::*;

    #[test]
    fn the_running_statement_of_a_pooled_thread_is_interrupted() {
        end_in_statement(&["thread-handling=pool-of-threads"], 7, Signal::KILL, 0);
    }
}
