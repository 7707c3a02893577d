//! Zone: outside. `tacho pmp` on MySQL, 9.7 and 8.0: its patterns for MySQL are provoked, and must
//! be found. The frequency depends on the machine, so a test samples until it has found them.
//! `scripts/test-release.sh` runs them with each.

use std::fs;
use std::process::{Command, Stdio};

use tacho_pmp::processlist::SqlStates;
use tacho_pmp::sampler::{Sampler, StopPolicy};
use tacho_pmp::verdict::Patterns;
use tacho_tests::client::Queryable as _;
use tacho_tests::crowd::Crowd;
use tacho_tests::disk::Disk;
use tacho_tests::find::find;
use tacho_tests::mysql_rewriting::install_servers_own;
use tacho_tests::mysql_server::{self, Builder, MySql, install, named};
use tacho_tests::{program, wait};

#[test]
fn the_mutexes_of_the_logs_are_found() {
    let server = MySql::builder().option("long-query-time=0").start().expect("a server");
    let mut conn = server.connect().expect("a connection");
    for log in ["general_log", "slow_query_log"] {
        conn.query_drop(format!("SET GLOBAL {log} = ON")).expect("a log");
        let crowd = Crowd::start(&server, 32, "DO 1");
        find(&server, "log mutex");
        crowd.stop();
        conn.query_drop(format!("SET GLOBAL {log} = OFF")).expect("no log");
    }
}

#[test]
fn the_commit_queue_and_the_redo_log_are_found() {
    // With a binary log, all commits go through its queue.
    for (log, name) in [("log-bin=bin", "commit queue"), ("disable-log-bin", "redo log flush")] {
        let server = MySql::builder()
            .option(log)
            .option("sync-binlog=1")
            .option("innodb-flush-log-at-trx-commit=1")
            .start()
            .expect("a server");
        let mut conn = server.connect().expect("a connection");
        conn.query_drop("CREATE DATABASE test").expect("a database");
        conn.query_drop("CREATE TABLE test.t (id SERIAL, v INT)").expect("a table");
        let crowd = Crowd::start(&server, 32, "INSERT INTO test.t (v) VALUES (1)");
        find(&server, name);
        crowd.stop();
    }
}

#[test]
fn lock_plugin_is_found() {
    let server = MySql::builder().start().expect("a server");
    let crowd = Crowd::start(&server, 16, "SHOW PLUGINS");
    let comers = Crowd::start_connecting(&server, 8);
    find(&server, "LOCK_plugin");
    comers.stop();
    crowd.stop();
}

/// The rules are loaded again and again: meanwhile no statement gets past the plugin.
#[test]
fn the_lock_of_the_query_rewrite_plugin_is_found() {
    let plugins = mysql_server::installation().usr().join("lib/mysql/plugin");
    let server = MySql::builder().plugin(plugins.join("rewriter.so")).start().expect("a server");
    let mut conn = server.connect().expect("a connection");
    install_servers_own(&mut conn, "SELECT ? FROM no_such_table", "SELECT ?");
    let crowd = Crowd::start(&server, 16, "DO 1");
    let loaders = Crowd::start(&server, 4, "SELECT load_rewrite_rules()");
    find(&server, "query rewrite plugin's lock");
    loaders.stop();
    crowd.stop();
}

#[test]
fn sessions_that_wait_for_a_row_or_a_table_are_found_with_their_states() {
    let server = MySql::builder().start().expect("a server");
    let mut conn = server.connect().expect("a connection");
    conn.query_drop("CREATE DATABASE test").expect("a database");
    conn.query_drop("CREATE TABLE test.t (id INT PRIMARY KEY, v INT)").expect("a table");
    conn.query_drop("INSERT INTO test.t VALUES (1, 1)").expect("a row");
    conn.query_drop("BEGIN").expect("a transaction");
    conn.query_drop("UPDATE test.t SET v = 2").expect("a locked row");
    let crowd = Crowd::start_waiting(&server, 4, "UPDATE test.t SET v = v + 1 WHERE id = 1");
    let finding = find(&server, "row lock");
    let says_updating = |text: &String| text.contains("updating");
    assert!(finding.sql.keys().any(says_updating), "{:?}", finding.sql);
    let ddl = Crowd::start_waiting(&server, 1, "ALTER TABLE test.t COMMENT 'x'");
    let finding = find(&server, "metadata lock");
    let says_lock = |text: &String| text.contains("Waiting for table metadata lock");
    assert!(finding.sql.keys().any(says_lock), "{:?}", finding.sql);
    conn.query_drop("ROLLBACK").expect("the row is free");
    ddl.stop();
    crowd.stop();
}

/// The disk of the log fails: under BLOCK every session waits once the arena is full.
#[test]
fn back_pressure_is_found() {
    const NO_SPACE: i32 = 28;
    let place = tacho_tests::unused_directory("mysql-pmp-disk");
    let disk = Disk::plain(&place.join("disk")).expect("a disk");
    let builder = MySql::builder()
        .option(named(&format!("loose-tacho.directory={}", disk.log_directory().display())))
        .option(named("loose-tacho.arena-bytes=8M"));
    let with = |builder: Builder, (name, value): &(&str, String)| builder.environment(name, value);
    let mut server = disk.environment().iter().fold(builder, with).start().expect("a server");
    let mut conn = server.connect().expect("a connection");
    conn.query_drop(install()).expect("installing");
    let patterns = Patterns::built_in().expect("patterns");
    let crowd = Crowd::start(&server, 4, "DO 'a statement to fill the arena with'");
    disk.fail_writes(NO_SPACE, 0).expect("a fault");
    let pid = server.pid().expect("a running server") as i32;
    let mut sampler =
        Sampler::new(pid, "mysqld", StopPolicy::Needed, &patterns).expect("a sampler");
    wait::until("the back-pressure is found", || {
        assert!(sampler.round(&SqlStates::default()).expect("a round"), "the server ended");
        let findings = patterns.findings(sampler.profile());
        findings.iter().any(|f| f.name == "tacho's back-pressure" && f.samples >= 8)
    });
    disk.mend_writes().expect("mending");
    crowd.stop();
    drop(conn);
    server.stop().expect("an orderly end");
    drop((server, disk));
    fs::remove_dir_all(place).expect("removing");
}

#[test]
fn the_command_has_the_functions_and_the_server_states() {
    let server = MySql::builder().option("general-log=1").start().expect("a server");
    let crowd = Crowd::start(&server, 16, "DO 1");
    let out = Command::new(program("tacho"))
        .arg("pmp")
        .arg("--socket")
        .arg(server.socket())
        .args(["--user", "root", "--duration", "2s", "--interval", "20ms"])
        .env("HOME", "/nonexistent")
        .stdin(Stdio::null())
        .output()
        .expect("running tacho");
    let (told, said) = (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    assert!(out.status.success(), "{told}{said}");
    assert!(told.starts_with("mysqld, process "), "{told}");
    for wanted in ["process list:", "Query_logger::general_log_write", "dispatch_command"] {
        assert!(told.contains(wanted), "no {wanted}: {told}");
    }
    crowd.stop();
}
