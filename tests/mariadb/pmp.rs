//! Zone: outside. `tacho pmp` on a real server: each known pattern is provoked, and must be found;
//! and no thread of the server stays stopped, even if the command is killed.
//!
//! The frequency of a pattern depends on the machine and its load, so no share is asserted: a test
//! samples until it was found.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use tacho_pmp::processlist::SqlStates;
use tacho_pmp::sampler::{Sampler, StopPolicy};
use tacho_pmp::verdict::{Finding, Patterns};
use tacho_tests::arena::Arena;
use tacho_tests::client::Queryable;
use tacho_tests::crowd::Crowd;
use tacho_tests::disk::{Disk, FAILED_WRITES};
use tacho_tests::find::find;
use tacho_tests::program;
use tacho_tests::server::{TestServer, installation};
use tacho_tests::wait;

const ALLOWED: &[&str] = &["max_open_files", "Aborted connection"];

#[test]
fn the_time_zone_lock_is_found() {
    let server = TestServer::builder().start().expect("a server");
    let sql = "SELECT BENCHMARK(100000, FROM_UNIXTIME(RAND() * 1000000000))";
    let crowd = Crowd::start(&server, 16, sql);
    let finding = find(&server, "time-zone lock");
    assert!(finding.advice.contains("time_zone"));
    crowd.stop();
    server.assert_clean_log(ALLOWED);
}

#[test]
fn the_mutex_of_the_general_log_is_found() {
    let server = TestServer::builder().option("general-log=1").start().expect("a server");
    let crowd = Crowd::start(&server, 32, "DO 1");
    find(&server, "log mutex");
    crowd.stop();
    server.assert_clean_log(ALLOWED);
}

#[test]
fn the_mutex_of_the_slow_log_is_found() {
    let builder = TestServer::builder().option("slow-query-log=1").option("long-query-time=0");
    let server = builder.start().expect("a server");
    let crowd = Crowd::start(&server, 32, "DO 1");
    find(&server, "log mutex");
    crowd.stop();
    server.assert_clean_log(ALLOWED);
}

#[test]
fn the_lock_of_server_audit_is_found() {
    let server = TestServer::builder()
        .plugin(installation().usr().join("lib/mysql/plugin/server_audit.so"))
        .option("plugin-load-add=server_audit")
        .option("server-audit-logging=ON")
        .option("server-audit-file-rotate-size=1G")
        .start()
        .expect("a server");
    let crowd = Crowd::start(&server, 32, "DO 1");
    find(&server, "server_audit's lock");
    crowd.stop();
    server.assert_clean_log(ALLOWED);
}

#[test]
fn the_commit_queue_and_the_redo_log_are_found() {
    let server = TestServer::builder()
        .option("log-bin=bin")
        .option("sync-binlog=1")
        .option("innodb-flush-log-at-trx-commit=1")
        .start()
        .expect("a server");
    let mut conn = server.connect().expect("a connection");
    conn.query_drop("CREATE DATABASE test").expect("a database");
    conn.query_drop("CREATE TABLE test.t (id SERIAL, v INT)").expect("a table");
    let insert = "INSERT INTO test.t (v) VALUES (1)";
    let crowd = Crowd::start(&server, 32, insert);
    find(&server, "commit queue");
    crowd.stop();
    let crowd = Crowd::start_with(&server, 32, &["SET sql_log_bin = 0"], insert);
    find(&server, "redo log flush");
    crowd.stop();
    server.assert_clean_log(ALLOWED);
}

#[test]
fn lock_plugin_is_found() {
    let server = TestServer::builder().start().expect("a server");
    let crowd = Crowd::start(&server, 16, "SHOW PLUGINS");
    let comers = Crowd::start_connecting(&server, 8);
    find(&server, "LOCK_plugin");
    comers.stop();
    crowd.stop();
    server.assert_clean_log(ALLOWED);
}

#[test]
fn sessions_that_wait_for_a_row_or_a_table_are_found_with_their_states() {
    let server = TestServer::builder().start().expect("a server");
    let mut conn = server.connect().expect("a connection");
    conn.query_drop("CREATE DATABASE test").expect("a database");
    conn.query_drop("CREATE TABLE test.t (id INT PRIMARY KEY, v INT)").expect("a table");
    conn.query_drop("INSERT INTO test.t VALUES (1, 1)").expect("a row");
    conn.query_drop("BEGIN").expect("a transaction");
    conn.query_drop("UPDATE test.t SET v = 2").expect("a locked row");
    let crowd = Crowd::start_waiting(&server, 4, "UPDATE test.t SET v = v + 1 WHERE id = 1");
    let finding = find(&server, "row lock");
    let says_updating = |finding: &Finding| finding.sql.keys().any(|s| s.contains("Updating"));
    assert!(says_updating(&finding), "{:?}", finding.sql);
    let ddl = Crowd::start_waiting(&server, 1, "ALTER TABLE test.t COMMENT 'x'");
    let finding = find(&server, "metadata lock");
    let says_lock = |text: &String| text.contains("Waiting for table metadata lock");
    assert!(finding.sql.keys().any(says_lock), "{:?}", finding.sql);
    conn.query_drop("ROLLBACK").expect("the row is free");
    ddl.stop();
    crowd.stop();
    server.assert_clean_log(ALLOWED);
}

/// The disk of the log fails: under BLOCK every session waits once the arena is full.
#[test]
fn back_pressure_is_found_and_the_writer_is_idle() {
    const NO_SPACE: i32 = 28;
    let place = tacho_tests::unused_directory("pmp-disk");
    let disk = Disk::plain(&place.join("disk")).expect("a disk");
    let builder =
        TestServer::builder().option("plugin-load-add=tacho.so").option("tacho-arena-bytes=8M");
    let mut server = disk.server(builder).start().expect("a server");
    let mut conn = server.connect().expect("a connection");
    let arena = Arena::of(&mut conn).expect("an arena");
    // Opens a session before the others wait: its statement would wait, too.
    let patterns = Patterns::built_in().expect("patterns");
    let crowd = Crowd::start(&server, 4, "DO 'a statement to fill the arena with'");
    disk.fail_writes(NO_SPACE, 0).expect("a fault");
    wait::until("all sessions wait", || arena.waiters().expect("the arena") >= 4);
    let pid = server.pid().expect("a running server") as i32;
    let mut sampler =
        Sampler::new(pid, "mariadbd", StopPolicy::Needed, &patterns).expect("a sampler");
    let mut findings = Vec::new();
    wait::until("the back-pressure is found", || {
        assert!(sampler.round(&SqlStates::default()).expect("a round"), "the server ended");
        findings = patterns.findings(sampler.profile());
        findings.iter().any(|f| f.name == "tacho's back-pressure" && f.samples >= 8)
    });
    let writer = sampler.profile().entries.iter().find(|entry| entry.thread == "tacho-writer");
    assert!(writer.is_some(), "the writer's thread has its name");
    disk.mend_writes().expect("mending");
    crowd.stop();
    drop(conn);
    server.stop().expect("an orderly end");
    server.assert_clean_log(&[ALLOWED, FAILED_WRITES, &["records were lost"]].concat());
    drop(server);
    fs::remove_dir_all(place).expect("removing");
}

/// The built command.
fn tacho_pmp(arguments: &[&str]) -> Command {
    let mut command = Command::new(program("tacho"));
    command.arg("pmp").args(arguments).env("HOME", "/nonexistent").stdin(Stdio::null());
    command
}

#[test]
fn the_command_writes_all_its_files_and_compares_two() {
    let server = TestServer::builder().start().expect("a server");
    let directory = server.directory().join("profiles");
    let socket = server.socket().to_str().expect("a path");
    let mut outputs = Vec::new();
    // The difference is where the sessions are all the time: a profile of two seconds may miss what
    // they only pass through.
    for (name, sql) in [("before", "DO 1"), ("after", "DO SLEEP(0.5)")] {
        let crowd = Crowd::start(&server, 8, sql);
        let output = directory.join(name);
        let out = tacho_pmp(&["--socket", socket, "--user", "root", "--duration", "2s"])
            .args(["--interval", "20ms", "--output"])
            .arg(&output)
            .output()
            .expect("running tacho");
        crowd.stop();
        let (stdout, stderr) =
            (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
        assert!(out.status.success(), "{stdout}{stderr}");
        assert!(stdout.contains("Stopped for it:") && stdout.contains("process list:"), "{stdout}");
        for file in [
            "stacks.folded",
            "pt-pmp.txt",
            "flame.svg",
            "report.html",
            "profile.json",
            "summary.txt",
        ] {
            let length = fs::metadata(output.join(file)).expect(file).len();
            assert!(length > 0, "{file} is empty");
        }
        let pmp = fs::read_to_string(output.join("pt-pmp.txt")).expect("pt-pmp's text");
        assert!(
            pmp.contains(",do_command,do_handle_one_connection,handle_one_connection,"),
            "{pmp}"
        );
        let json = fs::read(output.join("profile.json")).expect("JSON");
        let json: serde_json::Value = serde_json::from_slice(&json).expect("one JSON object");
        assert_eq!(json["v"], 1);
        outputs.push(output);
    }
    let svg = directory.join("diff.svg");
    let out = tacho_pmp(&["diff"])
        .args(&outputs)
        .arg("--top=1000")
        .arg("--output")
        .arg(&svg)
        .output()
        .expect("running tacho");
    let text = String::from_utf8_lossy(&out.stdout);
    assert!(out.status.success(), "{text}");
    let line = text.lines().find(|line| line.ends_with("  Item_func_sleep::val_int"));
    let line = line.unwrap_or_else(|| panic!("sleeping is no difference:\n{text}"));
    assert!(line.trim_start().starts_with("0.0 %") && line.contains('+'), "{line}");
    assert!(fs::read_to_string(&svg).expect("a picture").contains("Item_func_sleep"));
    server.assert_clean_log(ALLOWED);
}

/// If bpftrace works on the machine, it must work here; elsewhere the command must report why not.
#[test]
fn the_kernel_is_asked_by_bpftrace() {
    let server = TestServer::builder().start().expect("a server");
    let pid = server.pid().expect("a running server").to_string();
    let crowd = Crowd::start(&server, 4, "DO 1");
    let bpftrace = Command::new("bpftrace").args(["-e", "BEGIN { exit(); }"]).output();
    let works = bpftrace.expect("bpftrace is installed").status.success();
    for (what, unit) in [("off-cpu", "µs"), ("on-cpu", "samples")] {
        let directory = server.directory().join(what);
        let out = tacho_pmp(&["--pid", &pid, "--duration", "3s", "--bpftrace", what, "--output"])
            .arg(&directory)
            .output()
            .expect("running tacho");
        let (stdout, stderr) =
            (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
        if !works {
            assert!(!out.status.success() && stderr.contains("bpftrace"), "{stdout}{stderr}");
            continue;
        }
        assert!(out.status.success(), "{stdout}{stderr}");
        assert!(stdout.lines().next().is_some_and(|line| line.ends_with(unit)), "{stdout}");
        let folded = fs::read_to_string(directory.join(format!("{what}.folded"))).expect("stacks");
        if what == "off-cpu" {
            assert!(folded.contains("schedule_[k]"), "{folded}");
        }
    }
    crowd.stop();
    server.assert_clean_log(ALLOWED);
}

/// Threads of a process that are stopped, by a tracer or by a signal.
fn stopped_threads(pid: u32) -> Vec<String> {
    let mut stopped = Vec::new();
    for entry in fs::read_dir(format!("/proc/{pid}/task")).expect("its threads") {
        let path = entry.expect("a thread").path();
        // A thread may end while we look.
        let Ok(status) = fs::read_to_string(path.join("status")) else { continue };
        let line = |name| status.lines().find(|line: &&str| line.starts_with(name));
        let state = line("State:").expect("a state");
        let tracer = line("TracerPid:").expect("a tracer");
        if state.contains(" (tracing stop)")
            || state.contains(" (stopped)")
            || tracer != "TracerPid:\t0"
        {
            stopped.push(format!("{}: {state} {tracer}", path.display()));
        }
    }
    stopped
}

/// Starts the command and lets it run for a while.
fn start_sampling(pid: u32, worked: Duration) -> Child {
    let child = tacho_pmp(&["--pid", &pid.to_string(), "--stop", "always"])
        .args(["--interval", "1ms", "--duration", "10m", "--quiet"])
        .stdout(Stdio::null())
        .spawn()
        .expect("running tacho");
    let schedstat = format!("/proc/{}/schedstat", child.id());
    wait::until("it has worked", || {
        let text = fs::read_to_string(Path::new(&schedstat)).expect("it runs");
        let run_ns: u64 = text.split(' ').next().and_then(|n| n.parse().ok()).expect("a number");
        u128::from(run_ns) >= worked.as_nanos()
    });
    child
}

#[test]
fn killed_in_the_middle_it_leaves_no_thread_stopped() {
    let server = TestServer::builder().start().expect("a server");
    let pid = server.pid().expect("a running server");
    // A few are enough: with more, sampler and test wait for a processor most of the time.
    let crowd = Crowd::start(&server, 4, "DO 1");
    let mut held_when_killed = 0;
    for round in 0..12_u64 {
        // Reading 26 MB of server takes some 100 ms of it; then each moment is as good.
        let mut child = start_sampling(pid, Duration::from_millis(150 + round * 10));
        // The first ones are killed at any moment, the others in the middle of a stop.
        if round >= 4 {
            wait::until("a thread is held", || !stopped_threads(pid).is_empty());
            held_when_killed += 1;
        }
        child.kill().expect("killing it");
        child.wait().expect("its end");
        // The kernel releases them when the tracer's last thread has ended, which the wait above
        // ensures.
        assert_eq!(stopped_threads(pid), Vec::<String>::new());
        crowd.wait_until_each_continues();
    }
    assert_eq!(held_when_killed, 8);
    crowd.stop();
    server.assert_clean_log(ALLOWED);
}

#[test]
fn many_threads_are_sampled_while_they_come_and_go() {
    let server = TestServer::builder().option("thread-cache-size=0").start().expect("a server");
    let comers = Crowd::start_connecting(&server, 16);
    let patterns = Patterns::built_in().expect("patterns");
    let pid = server.pid().expect("a running server") as i32;
    let mut sampler =
        Sampler::new(pid, "mariadbd", StopPolicy::Always, &patterns).expect("a sampler");
    for _ in 0..200 {
        assert!(sampler.round(&SqlStates::default()).expect("a round"), "the server ended");
        thread::sleep(Duration::from_millis(2));
    }
    comers.wait_until_each_continues();
    comers.stop();
    server.assert_clean_log(ALLOWED);
}
