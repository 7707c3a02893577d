//! Zone: outside. `tacho_durability`: with SYNC no statement begins before its line is on the
//! device; with GROUP the log is synced automatically.

use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::{fs, iter, thread};

use tacho_tests::audit::Audit;
use tacho_tests::client::{self, Conn, Queryable};
use tacho_tests::disk::Disk;
use tacho_tests::recorded::{self, Line, number, text};
use tacho_tests::recording::Recording;
use tacho_tests::tagged::{self, Load};
use tacho_tests::{log, wait};

const EIO: i32 = 5;
/// Messages of a server that these tests accept. A checkpoint of the seal may become due while the
/// device fails, or not.
const ALLOWED: &[&str] = &["max_open_files", "Aborted connection", "its seal cannot be written"];

struct Scene {
    place: PathBuf,
    disk: Disk,
    server: Recording,
    conn: Conn,
}

impl Scene {
    fn new(name: &str, options: &[&str]) -> Scene {
        let place = tacho_tests::unused_directory(&format!("durable-{name}"));
        let disk = Disk::plain(&place.join("disk")).expect("a disk");
        // The files of a server whose device never recovered are removed with the rest.
        let arenas = place.join("arenas");
        fs::create_dir(&arenas).expect("a directory");
        let builder = Recording::builder()
            .option(format!("tacho-arena-directory={}", arenas.display()))
            .options(options)
            .on(&disk);
        let server = builder.start().expect("a server");
        let conn = server.connect().expect("a connection");
        Scene { place, disk, server, conn }
    }

    fn status(&mut self, name: &str) -> u64 {
        self.server.number(&mut self.conn, name)
    }

    /// With its own names of settings.
    fn named(&self, sql: &str) -> String {
        self.server.product.named(sql)
    }

    /// A statement of the test's own session.
    fn run(&mut self, sql: &str) {
        let sql = self.named(sql);
        self.conn.query_drop(sql).expect("an answer");
    }

    /// Waits until the device has failed a few times more.
    fn wait_for_failures(&self, watcher: &mut Conn) {
        let mut count = || self.server.number(watcher, "Tacho_write_errors");
        let before = count();
        wait::until("the device fails", || count() >= before + 3);
    }

    /// A session that is not recorded, and so waits for nothing.
    fn watcher(&mut self) -> Conn {
        for sql in [
            "CREATE USER watcher@localhost",
            "GRANT ALL ON *.* TO watcher@localhost",
            "SET GLOBAL tacho_filter = \
             '{\"rules\": [{\"user\": \"watcher\", \"action\": \"skip\"}]}'",
        ] {
            self.run(sql);
        }
        client::connect(self.server.socket(), "watcher", "").expect("a connection")
    }

    /// Inserts a row into `d.t`, in the end.
    fn insert(&self, id: u64) -> JoinHandle<()> {
        let socket = self.server.socket().to_owned();
        thread::spawn(move || {
            let mut conn = client::connect(&socket, "root", "").expect("a connection");
            conn.query_drop(format!("INSERT INTO d.t VALUES ({id})")).expect("an answer");
        })
    }

    fn end(self) {
        drop((self.conn, self.server, self.disk));
        fs::remove_dir_all(self.place).expect("removing");
    }
}

/// The error log: a statement would have to wait.
fn complaints(server: &Recording) -> usize {
    server.complaints(ALLOWED).len()
}

fn ids(conn: &mut Conn) -> Vec<u64> {
    conn.query("SELECT id FROM d.t").expect("an answer")
}

fn is_in_log(directory: &Path, text: &str) -> bool {
    let has = |file: &PathBuf| {
        String::from_utf8_lossy(&fs::read(file).unwrap_or_default()).contains(text)
    };
    log::files(directory).expect("files").iter().any(has)
}

/// Whether there is a `running` line of this statement.
fn is_running_in_log(directory: &Path, sql: &str) -> bool {
    let is_it = |line: &str| line.contains(sql) && line.contains("\"outcome\":\"running\"");
    let has = |file: &PathBuf| {
        String::from_utf8_lossy(&fs::read(file).unwrap_or_default()).lines().any(is_it)
    };
    log::files(directory).expect("files").iter().any(has)
}

/// Of all lines of a statement.
fn outcomes<'l>(lines: &'l [Line], sql: &str) -> Vec<&'l str> {
    let with_text = lines.iter().filter(|line| text(line, "sql") == Some(sql));
    let mut outcomes = Vec::new();
    for line in with_text {
        let seq = number(line, "seq");
        let completes = |other: &&Line| number(other, "running_seq") == seq;
        let of_it = iter::once(line).chain(lines.iter().filter(completes));
        outcomes.extend(of_it.filter_map(|line| text(line, "outcome")));
    }
    outcomes
}

#[test]
fn with_sync_a_statement_waits_for_the_device() {
    let mut scene = Scene::new("waits", &["tacho-durability=SYNC"]);
    scene.run("CREATE DATABASE d");
    scene.run("CREATE TABLE d.t (id INT)");
    // A running statement is in the log before it ends.
    let asleep = "SELECT SLEEP(3600) AS 'not over yet'";
    let socket = scene.server.socket().to_owned();
    let sleeper = thread::spawn(move || {
        let mut conn = client::connect(&socket, "root", "").expect("a connection");
        conn.query_drop(asleep)
    });
    let sql = "SELECT id FROM information_schema.processlist WHERE state = 'User sleep'";
    let mut victim = None;
    wait::until("it sleeps", || {
        victim = scene.conn.query_first::<u64, _>(sql).expect("an answer");
        victim.is_some()
    });
    let log_directory = scene.disk.log_directory();
    assert!(is_running_in_log(&log_directory, "not over yet"));
    let victim = victim.expect("the session that sleeps");
    scene.run(&format!("KILL {victim}"));
    assert!(sleeper.join().expect("the sleeper").is_err(), "it was killed");
    assert!(scene.status("Tacho_sync_count") > 3);

    // A statement inside of a program does not wait: its caller has.
    scene
        .conn
        .query_drop("CREATE PROCEDURE d.p() BEGIN INSERT INTO d.t VALUES (8); DELETE FROM d.t; END")
        .expect("a procedure");
    let before = scene.status("Tacho_sync_count");
    scene.run("CALL d.p()");
    // Two statements of this session, and one due to the interval.
    let after = scene.status("Tacho_sync_count");
    assert!(after >= before + 2, "{before}, {after}");
    assert!(!is_running_in_log(&log_directory, "INSERT INTO d.t VALUES (8)\""));

    // The device fails: the statement does not begin. A session that is not recorded can check.
    let mut watcher = scene.watcher();
    scene.disk.fail_syncs(EIO).expect("a fault");
    let insert = scene.insert(77);
    wait::until("its line is in the file", || {
        is_running_in_log(&log_directory, "INSERT INTO d.t VALUES (77)")
    });
    scene.wait_for_failures(&mut watcher);
    assert!(!insert.is_finished(), "it runs, and its line is not on the device");
    assert_eq!(ids(&mut watcher), [0; 0]);
    scene.disk.mend_writes().expect("a fault");
    insert.join().expect("the insert");
    assert_eq!(ids(&mut watcher), [77]);
    assert_eq!(scene.status("Tacho_sync_given_up"), 0);

    // A waiting statement continues when SYNC is switched off.
    scene.disk.fail_syncs(EIO).expect("a fault");
    let insert = scene.insert(79);
    scene.wait_for_failures(&mut watcher);
    watcher.query_drop(scene.named("SET GLOBAL tacho_durability = 'GROUP'")).expect("setting");
    insert.join().expect("the insert");
    scene.disk.mend_writes().expect("a fault");
    watcher.query_drop(scene.named("SET GLOBAL tacho_durability = 'SYNC'")).expect("setting");

    // As long as the policy permits, and no longer; and it is counted.
    scene.run("SET GLOBAL tacho_overflow_timeout_ms = 20");
    scene.run("SET GLOBAL tacho_overflow = 'TIMEOUT'");
    scene.disk.fail_syncs(EIO).expect("a fault");
    scene.run("INSERT INTO d.t VALUES (78)");
    assert!(scene.status("Tacho_sync_given_up") >= 1);
    scene.disk.mend_writes().expect("a fault");
    // Without SYNC there is no wait.
    scene.run("SET GLOBAL tacho_durability = 'ASYNC'");
    scene.run("SELECT 'not waited for'");
    wait::until("it is written", || is_in_log(&log_directory, "not waited for"));
    assert!(!is_running_in_log(&log_directory, "not waited for"));

    scene.server.stop().expect("stopping");
    let lines = recorded::read(&log_directory).expect("a good log");
    let outcomes = |sql: &str| outcomes(&lines, sql);
    assert_eq!(outcomes("INSERT INTO d.t VALUES (77)"), ["running", "ok"]);
    // The writer may have written it after its end.
    assert_eq!(outcomes("INSERT INTO d.t VALUES (78)").last(), Some(&"ok"));
    assert_eq!(outcomes("INSERT INTO d.t VALUES (8)"), ["ok"]);
    assert_eq!(outcomes("SELECT 'not waited for'"), ["ok"]);
    scene.end();
}

/// A statement that only the writer can filter has a line by then, and keeps it.
#[test]
fn with_sync_a_filter_leaves_no_statement_half() {
    let filter = r#"{"rules": [{"table": "d.quiet", "action": "skip"}]}"#;
    let option = format!("tacho-filter={filter}");
    let mut scene = Scene::new("filter", &["tacho-durability=SYNC", "tacho-tables=ON", &option]);
    for sql in ["CREATE DATABASE d", "CREATE TABLE d.quiet (id INT)", "SELECT * FROM d.quiet"] {
        scene.conn.query_drop(sql).expect("an answer");
    }
    scene.server.stop().expect("stopping");
    let lines = recorded::read(&scene.disk.log_directory()).expect("a good log");
    assert_eq!(outcomes(&lines, "SELECT * FROM d.quiet"), ["running", "ok"]);
    scene.end();
}

#[test]
fn with_group_the_log_is_synced_automatically() {
    let options = ["tacho-durability=GROUP", "tacho-sync-interval-ms=5"];
    let mut scene = Scene::new("group", &options);
    let before = scene.status("Tacho_sync_count");
    wait::until("it is brought there", || scene.status("Tacho_sync_count") > before + 3);
    assert!(scene.status("Tacho_sync_time_us") > 0);
    // A failing device stops no session, and is reported once.
    let complaints_before = complaints(&scene.server);
    scene.disk.fail_syncs(EIO).expect("a fault");
    scene.run("SELECT 'continues'");
    wait::until("it fails", || scene.status("Tacho_write_errors") > 3);
    assert_eq!(complaints(&scene.server), complaints_before + 1);
    scene.disk.mend_writes().expect("a fault");
    let before = scene.status("Tacho_sync_count");
    wait::until("it is brought there", || scene.status("Tacho_sync_count") > before);
    scene.end();
}

/// With many sessions at once, through a kill and a stop: nothing waits forever, nothing is
/// missing.
#[test]
fn with_sync_nothing_is_missing_after_a_kill() {
    let mut scene = Scene::new("kill", &["tacho-durability=SYNC", "tacho-rotate-bytes=65536"]);
    let threads = 8;
    tagged::prepare(&mut scene.conn, threads).expect("preparing");
    let load = Load { threads, ..Load::new(scene.server.socket(), "sync") };
    let running = load.start().expect("a load");
    running.wait_for_more(300);
    scene.server.kill9().expect("killing");
    let tally = running.stop().expect("a tally");
    scene.server.restart().expect("starting again");
    scene.server.stop().expect("stopping");
    let audit = Audit::of(&scene.disk.log_directory(), "sync").expect("a readable log");
    // MariaDB answers a Prepare before it reports it.
    let late = if scene.server.product.is_mariadb() { threads } else { 0 };
    audit.assert_complete_but(&tally, usize::try_from(late).expect("few"));
    scene.end();
}

/// A server that shuts down releases sessions that wait for a failing device.
#[test]
fn with_sync_a_server_stops_while_the_device_fails() {
    let mut scene = Scene::new("stop", &["tacho-durability=SYNC"]);
    scene.run("CREATE DATABASE d");
    scene.run("CREATE TABLE d.t (id INT)");
    let mut watcher = scene.watcher();
    scene.disk.fail_syncs(EIO).expect("a fault");
    let socket = scene.server.socket().to_owned();
    let insert = thread::spawn(move || {
        let mut conn = client::connect(&socket, "root", "").expect("a connection");
        // The server may end before it answers.
        conn.query_drop("INSERT INTO d.t VALUES (1)").is_ok()
    });
    scene.wait_for_failures(&mut watcher);
    drop(watcher);
    scene.server.stop().expect("stopping");
    let _answered_or_not: bool = insert.join().expect("the insert");
    let lines = recorded::read(&scene.disk.log_directory()).expect("a good log");
    assert!(!outcomes(&lines, "INSERT INTO d.t VALUES (1)").is_empty());
    scene.end();
}

/// Whether a line of the log has all of this in it.
fn has_line(directory: &Path, parts: &[&str]) -> bool {
    let is_it = |line: &str| parts.iter().all(|part| line.contains(part));
    let has = |file: &PathBuf| {
        String::from_utf8_lossy(&fs::read(file).unwrap_or_default()).lines().any(is_it)
    };
    log::files(directory).expect("files").iter().any(has)
}

/// The binary protocol: MariaDB reports an Execute before its reply, MySQL before it runs.
#[test]
fn with_sync_a_prepared_statement_is_answered_when_it_is_on_the_device() {
    let mut scene = Scene::new("prepared", &["tacho-durability=SYNC"]);
    scene.run("CREATE DATABASE d");
    scene.run("CREATE TABLE d.t (id INT)");
    let log_directory = scene.disk.log_directory();
    for id in 0..20_u64 {
        let sql = format!("INSERT INTO d.t VALUES (? + {id})");
        scene.conn.exec_drop(&sql, (id,)).expect("an answer");
        // With the value of its parameter, or without.
        let end = format!(" + {id})\"");
        let parts = ["\"command\":\"Execute\"", "\"sql\":\"INSERT INTO d.t VALUES (", &end];
        assert!(has_line(&log_directory, &parts), "{sql} is answered, and not in the log");
    }
    scene.end();
}

/// MySQL reports a Prepare before it is parsed, an Execute before it runs, and each statement of a
/// packet.
#[test]
fn with_sync_mysql_begins_nothing_that_is_not_on_the_device() {
    let mut scene = Scene::new("begins", &["tacho-durability=SYNC"]);
    if scene.server.product.is_mariadb() {
        return scene.end();
    }
    scene.run("CREATE DATABASE d");
    scene.run("CREATE TABLE d.t (id INT)");
    let mut watcher = scene.watcher();
    let [mut executes, mut prepares, mut sends] =
        [0; 3].map(|_| scene.server.connect().expect("a connection"));
    let statement = executes.prep("INSERT INTO d.t VALUES (?)").expect("a statement");
    scene.disk.fail_syncs(EIO).expect("a fault");
    let threads = [
        thread::spawn(move || executes.exec_drop(&statement, (5,)).expect("an answer")),
        thread::spawn(move || drop(prepares.prep("SELECT id FROM d.t").expect("a statement"))),
        thread::spawn(move || sends.query_drop("DO 1; INSERT INTO d.t VALUES (6)").expect("it")),
    ];
    let log_directory = scene.disk.log_directory();
    let begins = [("Execute", "INSERT INTO d.t VALUES ("), ("Prepare", "SELECT id FROM d.t")];
    for (command, sql) in begins {
        let parts = [&format!("\"command\":\"{command}\"") as &str, sql, "\"outcome\":\"running\""];
        wait::until("its line is in the file", || has_line(&log_directory, &parts));
    }
    wait::until("the packet's, too", || is_running_in_log(&log_directory, "DO 1"));
    scene.wait_for_failures(&mut watcher);
    let begun = |threads: &[JoinHandle<()>]| threads.iter().any(JoinHandle::is_finished);
    assert!(!begun(&threads), "it runs, and its line is not on the device");
    assert_eq!(ids(&mut watcher), [0; 0]);
    if scene.server.product.name == "mysql-9.7" {
        // Removing the component must not remove what the sessions wait for.
        watcher.query_drop(scene.server.product.uninstall).expect_err("sessions are inside");
        assert!(!begun(&threads), "they still wait");
    }
    scene.disk.mend_writes().expect("a fault");
    for thread in threads {
        thread.join().expect("the statement");
    }
    let mut all = ids(&mut watcher);
    all.sort_unstable();
    assert_eq!(all, [5, 6]);
    assert_eq!(scene.status("Tacho_sync_given_up"), 0);
    drop(watcher);
    scene.end();
}
