//! Zone: outside. The run of a line, and the key of a log: a server that is killed, restarted,
//! given another log directory and the old one again. `TACHO_SERVER` selects the server;
//! `scripts/test-release.sh` runs this with MySQL.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tacho_chain::key::VerifierKey;
use tacho_chain::verify::LogState;
use tacho_tests::client::{self, Queryable as _};
use tacho_tests::recording::Recording;
use tacho_tests::{log, program, sealed, wait};

fn tacho() -> Command {
    let mut command = Command::new(program("tacho"));
    command.stdin(Stdio::null());
    command
}

fn lines(directory: &Path) -> Vec<Value> {
    let mut lines = Vec::new();
    log::read(directory, |_, text| lines.push(serde_json::from_str(text).expect("JSON")))
        .expect("a readable log");
    lines
}

/// The `start` lines: number and key.
fn starts(directory: &Path) -> Vec<(u64, VerifierKey)> {
    let lines = lines(directory);
    let starts = lines.iter().filter(|line| line["event"] == "start");
    let key = |line: &Value| line["signing_key"].as_str().expect("a key").parse().expect("a key");
    starts.map(|line| (line["seq"].as_u64().expect("a number"), key(line))).collect()
}

fn tail(log: &Path, args: &[&str]) -> (Output, String, String) {
    let output = tacho().arg("tail").arg(log).args(args).output().expect("the command is built");
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("text");
    let (shown, told) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{told}");
    (output, shown, told)
}

/// A connection with this id, as another run of the server had one.
fn connection(server: &Recording, id: u64) -> client::Conn {
    loop {
        let mut conn = server.connect().expect("a connection");
        let now = conn.query_first::<u64, _>("SELECT CONNECTION_ID()").expect("an answer");
        let now = now.expect("a number");
        if now == id {
            return conn;
        }
        assert!(now < id, "there was no connection {id} in this run");
    }
}

/// Two runs of one server, the first of which is killed while a statement runs.
fn runs_are_distinguished(server: &mut Recording) -> (u64, u64) {
    let log = server.log_directory();
    let mut conn = server.connect().expect("a connection");
    conn.query_drop("SELECT 'in the first run'").expect("an answer");
    let id = conn.query_first::<u64, _>("SELECT CONNECTION_ID()").expect("an answer");
    let id = id.expect("a number");
    let sleeper = std::thread::spawn(move || {
        let _killed = conn.query_drop("DO SLEEP(1000) /* killed */");
    });
    let mut other = server.connect().expect("a connection");
    wait::until("the statement runs", || {
        let all = other.query::<(u64, Option<String>), _>(
            "SELECT ID, INFO FROM information_schema.PROCESSLIST",
        );
        let all = all.expect("an answer");
        let is_sleep = |text: &String| text.contains("SLEEP");
        all.iter().any(|(conn, text)| *conn == id && text.as_ref().is_some_and(is_sleep))
    });
    drop(other);
    server.kill9().expect("killed");
    sleeper.join().expect("it ends");
    server.restart().expect("started again");
    connection(server, id).query_drop("SELECT 'in the second run'").expect("an answer");
    wait::until("it is in the log", || {
        lines(&log).iter().any(|line| line["sql"] == "SELECT 'in the second run'")
    });

    let starts = starts(&log);
    let [(first, _), (second, _)] = &starts[..] else { panic!("{starts:?}") };
    for line in lines(&log) {
        assert!(line["run"] == *first || line["run"] == *second, "{line}");
    }
    let id = id.to_string();
    let of = |args: &[&str]| {
        let args = [&["--conn", &id, "--format=json", "-n", "all"], args].concat();
        let (_, shown, told) = tail(&log, &args);
        (shown, told)
    };
    let texts = ["in the first run", "DO SLEEP(1000)", "in the second run"];
    let are_there = |shown: &str| texts.map(|text| shown.contains(text));
    let (shown, told) = of(&[]);
    assert_eq!(are_there(&shown), [true; 3], "{shown}");
    assert!(told.contains("of 2 runs of the server"), "{told}");
    assert!(told.contains(&format!("{first}, {second};")), "{told}");
    // Lines of the first run that the second run has written belong to the first.
    let (shown, told) = of(&["--run", &first.to_string()]);
    assert_eq!((are_there(&shown), &*told), ([true, true, false], ""), "{shown}");
    assert!(shown.contains("\"interrupted\""), "{shown}");
    for run in [&second.to_string(), "last"] {
        let (shown, told) = of(&["--run", run]);
        assert_eq!((are_there(&shown), &*told), ([false, false, true], ""), "{shown}");
    }
    let (_, table, _) = tail(&log, &["--conn", &id, "-n", "all"]);
    let place = |text: &str| table.find(text).unwrap_or_else(|| panic!("{text}: {table}"));
    let order = [
        place(&format!("--- run {first} of the server ---")),
        place(texts[0]),
        place(&format!("--- run {second} of the server ---")),
        place(texts[2]),
    ];
    assert!(order.is_sorted(), "{table}");
    (*first, *second)
}

/// A recorder outside the server.
struct RecorderProcess(Child);

impl RecorderProcess {
    fn start(server: &Recording, log: &Path) -> RecorderProcess {
        let arena = server.status("Tacho_arena_file");
        let arenas = Path::new(&arena).parent().expect("a directory").to_owned();
        let mut command = tacho();
        command.args(["recorder"]).arg(log).arg("--arena-directory").arg(arenas);
        let child = command.stderr(Stdio::null()).spawn().expect("the command is built");
        let writes = format!("EXTERNAL {}", child.id());
        wait::until("the recorder writes", || server.status("Tacho_writer") == writes);
        RecorderProcess(child)
    }

    fn end(mut self) {
        let pid = Pid::from_raw(self.0.id() as i32).expect("a process id");
        kill_process(pid, Signal::TERM).expect("it lives");
        assert!(self.0.wait().expect("it is ours").success());
    }
}

impl Drop for RecorderProcess {
    fn drop(&mut self) {
        let _gone = self.0.kill();
        let _gone = self.0.wait();
    }
}

#[track_caller]
fn assert_verified(log: &Path, key: &VerifierKey, states: &[LogState]) {
    let report = sealed::check(log, key);
    let findings: Vec<String> = report.findings.iter().map(ToString::to_string).collect();
    assert!(states.contains(&report.state()), "{:?} {findings:#?}", report.state());
    let output = tacho().arg("verify").arg(log).args(["--key", &key.to_string()]).output();
    let code = output.expect("the command is built").status.code();
    let codes = states.iter().map(|state| match state {
        LogState::Ok => Some(0),
        _ => Some(18),
    });
    assert!(codes.clone().any(|expected| expected == code), "{code:?}");
}

#[test]
fn runs_and_logs_keep_their_names() {
    let mut server = Recording::builder().start().expect("a server");
    runs_are_distinguished(&mut server);
    let old_log = server.log_directory();
    let old_key = starts(&old_log)[0].1.clone();

    // As the guides recommend: a separate directory, and no setting of the key.
    let new_log = server.data_directory().join("elsewhere");
    server.add_option(&format!("tacho-directory={}", new_log.display()));
    server.restart().expect("started again");
    server.connect().expect("a connection").query_drop("SELECT 1").expect("an answer");
    // The log is handed over to an external process and back.
    server.set("tacho_writer = 'EXTERNAL'");
    let recorder = RecorderProcess::start(&server, &new_log);
    server.connect().expect("a connection").query_drop("SELECT 2").expect("an answer");
    recorder.end();
    wait::until("the log is back", || server.status("Tacho_writer") == "EMBEDDED");
    server.stop().expect("stopped");
    let new_key = starts(&new_log)[0].1.clone();
    assert_ne!(new_key, old_key);
    let first = fs::read_to_string(&log::files(&new_log).expect("files")[0]).expect("a file");
    assert!(first.starts_with("{\"v\":1,\"seq\":1,"), "{first}");
    assert!(first.lines().next().is_some_and(|line| line.contains("\"event\":\"start\"")));
    assert_verified(&new_log, &new_key, &[LogState::Ok]);
    // The kill may have left lines without a frame.
    assert_verified(&old_log, &old_key, &[LogState::Ok, LogState::Recovered]);

    // Back, and forth once more.
    for (log, key) in [(&old_log, &old_key), (&new_log, &new_key)] {
        server.add_option(&format!("tacho-directory={}", log.display()));
        server.restart().expect("started again");
        server.connect().expect("a connection").query_drop("SELECT 3").expect("an answer");
        server.stop().expect("stopped");
        assert!(starts(log).iter().all(|(_, found)| found == key));
        assert_verified(log, key, &[LogState::Ok, LogState::Recovered]);
    }
    assert_verified(&new_log, &new_key, &[LogState::Ok]);
    server.assert_clean_log(&["kill", "signal"]);
}
