//! Zone: outside. The component in a real MySQL 9.7, or the plugin in a real 8.0, under load:
//! everything is recorded, exactly once, however the server ends, and it can be installed and
//! removed. `scripts/test-release.sh` runs them with each.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use tacho_tests::audit::Audit;
use tacho_tests::client::{self, Conn, Queryable};
use tacho_tests::disk::Disk;
use tacho_tests::log;
use tacho_tests::mysql_place::LogAndArenas;
use tacho_tests::mysql_server::{
    Builder, MySql, Release, has_plugin, install, named, release, status_name, uninstall,
};
use tacho_tests::recorded::{self, Line};
use tacho_tests::sysbench::Sysbench;
use tacho_tests::tagged::{self, Load, Running};
use tacho_tests::wait;

/// `ENOSPC`.
const NO_SPACE: i32 = 28;

fn start_load(socket: &Path, run: &str) -> Running {
    Load { big_every: 200, ..Load::new(socket, run) }.start().expect("a load")
}

#[test]
fn a_load_is_recorded_exactly_once() {
    let place = LogAndArenas::new("load");
    let (mut server, mut root) = place.start(&[]);
    tagged::prepare(&mut root, 4).expect("a table");
    let running = start_load(server.socket(), "load");
    running.wait_for_more(3000);
    let tally = running.stop().expect("a tally");
    assert!(tally.error_count > 0, "some of its statements fail");
    drop(root);
    server.stop().expect("stopping");
    Audit::of(&place.log(), "load").expect("a readable log").assert_complete(&tally);
    assert_eq!(place.arena_count(), 0);
    server.assert_clean_log(&[]);
}

/// The server's own counters are the witness.
#[test]
fn sysbench_with_sixteen_sessions_is_recorded_exactly_once() {
    let place = LogAndArenas::new("sysbench");
    let mut server = place.builder().start().expect("a server");
    let mut root = server.connect().expect("a connection");
    let bench = Sysbench::new(server.socket(), "oltp_read_write").threads(16).seconds(3);
    bench.prepare(&mut root).expect("tables");
    root.query_drop(install()).expect("installing");
    let names = ["Com_stmt_execute", "Com_stmt_prepare", "Com_stmt_close"];
    let counted =
        |root: &mut Conn| names.map(|name| client::status_number(root, name).expect("a status"));
    let before = counted(&mut root);
    bench.run(|_| {}).expect("a run");
    let after = counted(&mut root);
    drop(root);
    let lines = place.end(&mut server);
    let count = |command: &str| {
        let is = |line: &&Line| recorded::text(line, "command") == Some(command);
        lines.iter().filter(is).count() as u64
    };
    assert!(after[0] - before[0] > 1000, "it has worked: {before:?} {after:?}");
    let expected = [0, 1, 2].map(|i| after[i] - before[i]);
    assert_eq!(["Execute", "Prepare", "Close stmt"].map(count), expected);
    let statements: Vec<&Line> =
        lines.iter().filter(|line| recorded::text(line, "command") == Some("Execute")).collect();
    assert_eq!(recorded::problems(&statements), [""; 0]);
    server.assert_clean_log(&[]);
}

/// Nothing at all is missing: not even a Prepare, which MariaDB answers before it reports it.
/// Returns the number of files of the log.
fn survive_kills(name: &str, options: &[&str]) -> usize {
    let place = LogAndArenas::new(name);
    let (mut server, mut root) = place.start(options);
    tagged::prepare(&mut root, 4).expect("a table");
    drop(root);
    let running = start_load(server.socket(), name);
    for _ in 0..5 {
        running.wait_for_more(500);
        server.kill9().expect("killing");
        assert_eq!(place.arena_count(), 1, "what the server leaves behind");
        // The server remembers the component, which recovers the arena before it starts recording.
        server.restart().expect("restarting");
    }
    running.wait_for_more(500);
    let tally = running.stop().expect("a tally");
    server.stop().expect("stopping");
    Audit::of(&place.log(), name).expect("a readable log").assert_complete(&tally);
    assert_eq!(place.arena_count(), 0);
    log::files(&place.log()).expect("files").len()
}

#[test]
fn a_kill_under_load_loses_nothing() {
    survive_kills("kill", &[]);
}

#[test]
fn a_kill_when_nearly_everything_is_in_the_arena_loses_nothing() {
    let late = ["loose-tacho.flush-interval-ms=60000", "loose-tacho.flush-bytes=16777216"];
    survive_kills("late", &late);
}

#[test]
fn a_kill_amid_rotations_loses_nothing() {
    let often = ["loose-tacho.rotate-bytes=65536", "loose-tacho.flush-interval-ms=1"];
    assert!(survive_kills("rotate", &often) > 20, "there were rotations");
}

#[test]
fn it_is_installed_and_removed_under_load() {
    match release() {
        Release::Mysql97 => component_comes_and_goes(),
        Release::Mysql80 => plugin_comes_and_goes(),
    }
}

/// Sessions that do nothing hold references to the component's services; sessions that work are
/// inside of it.
fn component_comes_and_goes() {
    let place = LogAndArenas::new("uninstall");
    let (mut server, mut root) = place.start(&[]);
    tagged::prepare(&mut root, 4).expect("a table");
    let mut idle = server.connect().expect("a connection");
    idle.query_drop("DO 'before'").expect("an answer");
    let running = start_load(server.socket(), "uninstall");
    for round in 0..5 {
        running.wait_for_more(200);
        root.query_drop(uninstall()).expect("uninstalling");
        assert_eq!(place.arena_count(), 0, "round {round}");
        running.wait_for_more(200);
        idle.query_drop("DO 'between'").expect("an answer");
        root.query_drop(install()).expect("installing again");
        idle.query_drop(format!("DO 'round {round}'")).expect("an answer");
    }
    let before = running.acknowledged_count();
    running.wait_for_more(200);
    let tally = running.stop().expect("a tally");
    drop((idle, root));
    server.stop().expect("stopping");
    let audit = Audit::of(&place.log(), "uninstall").expect("a readable log");
    assert_eq!(audit.problems, [""; 0]);
    assert!(audit.counts.values().all(|count| *count == 1), "nothing is there twice");
    assert!(audit.counts.len() as u64 >= tally.acknowledged.len() as u64 - before);
    let lines = recorded::read(&place.log()).expect("a readable log");
    let count =
        |sql: &str| lines.iter().filter(|line| recorded::text(line, "sql") == Some(sql)).count();
    assert_eq!(count("DO 'before'"), 1);
    assert_eq!(count("DO 'between'"), 0);
    for round in 0..5 {
        assert_eq!(count(&format!("DO 'round {round}'")), 1);
    }
    // Those that install it and take it away have their lines, too.
    assert_eq!((count(install()), count(uninstall())), (6, 5));
    let running = |line: &&Line| recorded::text(line, "outcome") == Some("running");
    let open: Vec<_> = lines.iter().filter(running).collect();
    // The statements that the sessions of the load were executing when it was removed: one each.
    assert!(open.len() <= 5 * 4, "{open:?}");
    assert!(open.iter().all(|line| recorded::text(line, "sql") != Some(uninstall())));
    server.assert_clean_log(&[]);
}

/// The answers to a client that reconnects repeatedly: its answered statements, by whether the
/// plugin was fully installed when the client connected.
#[derive(Default)]
struct Visits {
    stop: AtomicBool,
    for_good: AtomicBool,
    answered: AtomicU64,
    kept: Mutex<Vec<String>>,
}

fn come_and_go(socket: &Path, thread: usize, visits: &Visits) {
    let mut number = 0_u64;
    while !visits.stop.load(Ordering::Acquire) {
        let for_good = visits.for_good.load(Ordering::Acquire);
        let mut conn = client::connect(socket, "root", "").expect("a connection");
        for _ in 0..3 {
            number += 1;
            let sql = format!("DO 'visit {thread} {number}'");
            conn.query_drop(&sql).expect("an answer");
            visits.answered.fetch_add(1, Ordering::AcqRel);
            if for_good {
                visits.kept.lock().expect("no panic").push(sql);
            }
        }
    }
}

/// Each session holds the plugin from its first event to its end, and the server removes the plugin
/// when the last one has ended: so new sessions connect while it is being removed.
fn plugin_comes_and_goes() {
    const ROUNDS: usize = 50;
    let place = LogAndArenas::new("uninstall");
    let mut server = place.builder().start().expect("a server");
    let socket = server.socket().to_owned();
    let is_there = || has_plugin(&mut client::connect(&socket, "root", "").expect("a connection"));
    let change = |sql: &str| {
        let mut conn = client::connect(&socket, "root", "").expect("a connection");
        conn.query_drop(sql).expect("an answer");
    };
    let visits = Visits::default();
    let more = |count: u64| {
        let goal = visits.answered.load(Ordering::Acquire) + count;
        wait::until("the load has gone on", || visits.answered.load(Ordering::Acquire) >= goal);
    };
    change(install());
    thread::scope(|scope| {
        for thread in 0..4 {
            let (socket, visits) = (&socket, &visits);
            scope.spawn(move || come_and_go(socket, thread, visits));
        }
        for round in 0..ROUNDS {
            more(10);
            change(uninstall());
            wait::until("the last session has released it", || !is_there());
            assert_eq!(place.arena_count(), 0, "round {round}");
            more(10);
            change(install());
        }
        visits.for_good.store(true, Ordering::Release);
        more(100);
        visits.stop.store(true, Ordering::Release);
    });
    let lines = place.end(&mut server);
    let mut counts = BTreeMap::new();
    for sql in lines.iter().filter_map(|line| recorded::text(line, "sql")) {
        *counts.entry(sql).or_insert(0_usize) += 1;
    }
    assert_eq!(counts.get(install()), Some(&(ROUNDS + 1)));
    assert_eq!(counts.get(uninstall()), Some(&ROUNDS));
    let visit = |sql: &str| sql.starts_with("DO 'visit");
    assert!(counts.iter().all(|(sql, count)| *count == 1 || !visit(sql)), "none is there twice");
    let kept = visits.kept.lock().expect("no panic");
    assert!(kept.len() > 50, "{}", kept.len());
    assert!(kept.iter().all(|sql| counts.get(sql.as_str()) == Some(&1)), "all of them are there");
    let open = lines.iter().filter(|line| recorded::text(line, "outcome") == Some("running"));
    assert_eq!(open.count(), 0, "it is removed when no session uses it");
    server.assert_clean_log(&[]);
}

/// A server with a small arena, whose log is on a separate disk.
fn start_with_disk(place: &LogAndArenas) -> (MySql, Disk) {
    let disk = Disk::plain(&place.path().join("disk")).expect("a disk");
    let builder = MySql::builder()
        .option(named(&format!("loose-tacho.directory={}", disk.log_directory().display())))
        .option(named(&format!("loose-tacho.arena-directory={}/arenas", place.path().display())))
        .option(named("loose-tacho.arena-bytes=1M"));
    let with = |builder: Builder, (name, value): &(&str, String)| builder.environment(name, value);
    let server = disk.environment().iter().fold(builder, with).start().expect("a server");
    (server, disk)
}

/// Prepares a session that must wait while root must not.
fn prepare_workers(root: &mut Conn) {
    tagged::prepare(root, 4).expect("a table");
    root.query_drop("CREATE USER worker").expect("an answer");
    root.query_drop("GRANT ALL ON tagged.* TO worker").expect("an answer");
    // Root must not wait.
    root.query_drop(named(
        r#"SET GLOBAL tacho.filter = '{"rules": [{"user": "root", "action": "record", "overflow": "DROP"}]}'"#,
    ))
    .expect("an answer");
}

/// A server whose arena is full because its log cannot be written.
struct Full {
    server: MySql,
    disk: Disk,
    root: Conn,
    /// All of its sessions wait.
    running: Running,
    /// The number of answers until then.
    answered: u64,
}

fn fill_arena(place: &LogAndArenas, run: &str) -> Full {
    let (server, disk) = start_with_disk(place);
    let mut root = server.connect().expect("a connection");
    root.query_drop(install()).expect("installing");
    prepare_workers(&mut root);
    disk.fail_writes(NO_SPACE, 0).expect("a fault");
    let load = Load { user: "worker".to_owned(), big_every: 3, ..Load::new(server.socket(), run) };
    let running = load.start().expect("a load");
    let answered = wait::until_steady("all sessions wait", || running.acknowledged_count());
    Full { server, disk, root, running, answered }
}

/// UNINSTALL must not remove the arena while a session waits for space in it.
#[test]
fn it_stays_while_a_session_waits_for_room() {
    let place = LogAndArenas::new("full");
    let Full { mut server, disk, mut root, running, answered } = fill_arena(&place, "full");
    let uninstalled = root.query_drop(uninstall());
    // 8.0 marks it, and takes it away when the last of its sessions has ended.
    assert_eq!(uninstalled.is_ok(), release() == Release::Mysql80, "sessions are inside");
    assert_eq!(running.acknowledged_count(), answered, "they still wait");
    disk.mend_writes().expect("a mended disk");
    running.wait_for_more(200);
    let tally = running.stop().expect("a tally");
    if release() == Release::Mysql97 {
        root.query_drop(uninstall()).expect("uninstalling");
    }
    drop(root);
    wait::until("it is gone", || place.arena_count() == 0);
    server.stop().expect("stopping");
    let audit = Audit::of(&disk.log_directory_here(), "full").expect("a readable log");
    audit.assert_declared(&tally);
    let missing = tally.acknowledged.iter().filter(|tag| !audit.counts.contains_key(tag)).count();
    assert_eq!(missing, 0, "only root's statements were dropped");
    let says_so = server.complaints(&[]).iter().any(|line| line.contains("recording continues"));
    assert_eq!(says_so, release() == Release::Mysql97);
    assert_eq!(place.arena_count(), 0);
}

/// A session that is killed while it waits for space gives its record up, and that is counted.
#[test]
fn a_killed_session_waits_no_longer() {
    let place = LogAndArenas::new("killed");
    let Full { mut server, disk, mut root, running, .. } = fill_arena(&place, "killed");
    let sessions: Vec<u64> = root
        .query("SELECT id FROM information_schema.processlist WHERE user = 'worker'")
        .expect("an answer");
    let first = sessions.first().expect("a session");
    root.query_drop(format!("KILL {first}")).expect("an answer");
    wait::until("it is counted", || {
        let name = status_name("records_lost_killed");
        client::status_number(&mut root, &name).expect("a status") > 0
    });
    disk.mend_writes().expect("a mended disk");
    running.wait_for_more(100);
    let tally = running.stop().expect("a tally");
    drop(root);
    server.stop().expect("stopping");
    let audit = Audit::of(&disk.log_directory_here(), "killed").expect("a readable log");
    audit.assert_declared(&tally);
}
