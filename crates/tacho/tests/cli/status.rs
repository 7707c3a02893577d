//! `tacho status` on logs that the recorder's library has written. `tests/any/status.rs` has the
//! same with servers.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tacho_logdir::{LogFiles, Options, RealFs, SealOptions};
use tacho_ring::sync::Ordering;

use crate::server::{Process, ServerDirs};
use crate::support::{command, stderr, stdout, tacho};

const OK: i32 = 0;
const WARNING: i32 = 1;
const CRITICAL: i32 = 2;
const UNKNOWN: i32 = 3;
/// They depend on the disk of this machine.
const SKIP: &str = "disk,disk-full";

fn now() -> String {
    jiff::Timestamp::now().to_string()
}

fn line(seq: u64, event: &str, rest: &str) -> String {
    format!("{{\"v\":1,\"seq\":{seq},\"ts\":\"{}\",\"event\":\"{event}\"{rest}}}\n", now())
}

/// A log, its key, and arenas.
struct Scene(ServerDirs);

impl Scene {
    fn new() -> Self {
        let place = ServerDirs::new();
        let key = place.root().join("key");
        let output = tacho(&["keygen", "--output", key.to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        Self(place)
    }

    /// A writer with the lock, which signs at rotation and at the end only.
    fn writer(&self) -> LogFiles {
        let (mut files, opened) =
            LogFiles::open(RealFs, &self.0.log(), Options { rotate_bytes: 0 }).unwrap();
        let options = SealOptions {
            key_file: self.0.root().join("key"),
            checkpoint_interval_s: 0,
            may_break: true,
        };
        files.seal(&options, opened.last_seq.unwrap().unwrap_or(0)).unwrap();
        files
    }

    fn status(&self, args: &[&str]) -> Output {
        let (log, arenas) = (self.0.log(), self.0.arenas());
        let paths = [log.to_str().unwrap(), "--arena-directory", arenas.to_str().unwrap()];
        tacho(&[&["status"], &paths[..], &["--skip", SKIP], args].concat())
    }

    #[track_caller]
    fn json(&self, code: i32, args: &[&str]) -> Value {
        let output = self.status(&[&["--format", "json"], args].concat());
        let answer: Value = serde_json::from_str(&stdout(&output)).unwrap();
        assert_eq!(output.status.code(), Some(code), "{answer:#}");
        assert_eq!((&answer["exit_code"], stderr(&output).as_str()), (&code.into(), ""));
        answer
    }
}

fn append(files: &mut LogFiles, text: &str) {
    files.write(text.as_bytes(), &mut 0).unwrap();
}

/// State and text of a check.
#[track_caller]
fn check<'a>(answer: &'a Value, name: &str) -> (&'a str, &'a str) {
    let checks = answer["checks"].as_array().unwrap();
    let found = checks.iter().find(|check| check["check"] == name);
    let found = found.unwrap_or_else(|| panic!("no {name} in {answer:#}"));
    (found["state"].as_str().unwrap(), found["text"].as_str().unwrap())
}

#[test]
fn a_log_that_is_written_is_ok() {
    let scene = Scene::new();
    let mut files = scene.writer();
    append(&mut files, &(line(1, "start", "") + &line(2, "connect", "")));
    files.rotate_now().unwrap();
    append(&mut files, &line(3, "connect", ""));
    let mut server = scene.0.server();
    let arena = server.file.arena();
    let writer = &arena.shared().writer.0;
    writer.heartbeat_us.store(tacho_ring::sys::now_us(), Ordering::Relaxed);
    writer.written_seq.store(3, Ordering::Relaxed);

    let answer = scene.json(OK, &[]);
    assert_eq!(answer["state"], "ok");
    assert_eq!(answer["log_directory"], scene.0.log().to_str().unwrap());
    let pid = std::process::id();
    let expected = format!("runs, process {pid}; server MariaDB 10.11.19-test, process {pid}");
    assert_eq!(check(&answer, "recorder"), ("ok", expected.as_str()));
    assert_eq!(check(&answer, "lag"), ("ok", "no record waits"));
    assert_eq!(check(&answer, "lost"), ("ok", "no loss in all of the log"));
    let (state, text) = check(&answer, "unsigned");
    assert!(state == "ok" && text.starts_with("not signed yet: 1 line, "), "{text}");
    let metrics = &answer["metrics"];
    for (name, value) in [
        ("files", 2),
        ("recorder_up", 1),
        ("newest_seq", 3),
        ("waiting_records", 0),
        ("lag_seconds", 0),
        ("unsigned_lines", 1),
        ("lost_records_total", 0),
        ("lost_lines", 0),
    ] {
        assert_eq!(metrics[name], value, "{name}: {metrics:#}");
    }
    let sizes = fs::read_dir(scene.0.log()).unwrap().map(|entry| entry.unwrap());
    let sizes = sizes.filter(|entry| entry.file_name().to_string_lossy().starts_with("audit-"));
    let bytes: u64 = sizes.map(|entry| entry.metadata().unwrap().len()).sum();
    assert_eq!(metrics["size_bytes"], bytes);

    // Records that no writer takes.
    server.start_statement(7, 1, b"SELECT 1");
    server.end_statement(7, 1, b"SELECT 1", 0);
    let answer = scene.json(OK, &[]);
    assert_eq!(answer["metrics"]["waiting_records"], 2);
    let answer = scene.json(CRITICAL, &["--crit", "lag=0s"]);
    let (state, text) = check(&answer, "lag");
    assert_eq!(state, "critical");
    assert!(text.starts_with("not in the log yet: 2 records, the oldest for "), "{text}");
    // The writer hangs.
    let long_ago = tacho_ring::sys::now_us() - 30_000_000;
    writer.heartbeat_us.store(long_ago, Ordering::Relaxed);
    assert_eq!(check(&scene.json(WARNING, &[]), "writer").0, "warning");
    scene.json(OK, &["--skip", "writer"]);
    scene.json(OK, &["--warn", "writer=2m"]);
    scene.json(CRITICAL, &["--crit", "writer=20s"]);
    // Logging was switched off.
    arena.shared().settings.0.logging.store(0, Ordering::Relaxed);
    let answer = scene.json(CRITICAL, &["--skip", "writer"]);
    let (state, text) = check(&answer, "recorder");
    assert_eq!(state, "critical");
    assert!(text.contains("nothing is recorded: tacho_logging is OFF"), "{text}");
    assert!(text.ends_with("SET GLOBAL tacho_logging = ON"), "{text}");
}

#[test]
fn a_log_that_is_not_written_is_critical() {
    let scene = Scene::new();
    let mut files = scene.writer();
    append(&mut files, &line(1, "start", ""));
    let dead = Process::start(&scene.0);
    drop(files);
    let answer = scene.json(CRITICAL, &[]);
    let (state, text) = check(&answer, "recorder");
    assert!(state == "critical" && text.contains("records into its arena"), "{text}");

    dead.kill();
    let answer = scene.json(CRITICAL, &[]);
    let (state, text) = check(&answer, "recorder");
    let expected = "no recorder runs: the server ended without stopping the recorder, and left 1 \
                    arena; start the server, or run `tacho recover ";
    assert!(state == "critical" && text.starts_with(expected), "{text}");
    assert_eq!(answer["metrics"]["recorder_up"], 0);
    assert_eq!(answer["metrics"]["waiting_records"], 3);

    let (log, arenas) = (scene.0.log(), scene.0.arenas());
    let arenas = ["--arena-directory", arenas.to_str().unwrap()];
    let recovered = tacho(&[&["recover", log.to_str().unwrap()], &arenas[..]].concat());
    assert_eq!(recovered.status.code(), Some(0), "{}", stderr(&recovered));
    let answer = scene.json(CRITICAL, &[]);
    let expected = "no recorder runs; the log does not end with a `stop` line";
    assert_eq!(check(&answer, "recorder"), ("critical", expected));
    assert_eq!(answer["metrics"]["waiting_records"], 0);

    let mut files = scene.writer();
    let seq = answer["metrics"]["newest_seq"].as_u64().unwrap() + 1;
    append(&mut files, &line(seq, "stop", ""));
    files.close().unwrap();
    let answer = scene.json(CRITICAL, &[]);
    let (_, text) = check(&answer, "recorder");
    assert!(text.starts_with("no recorder runs: it was stopped at 20"), "{text}");
    assert_eq!(answer["metrics"]["unsigned_lines"], 0);
    scene.json(OK, &["--skip", "recorder"]);
}

#[test]
fn losses_are_found_and_expire() {
    let scene = Scene::new();
    let mut files = scene.writer();
    append(&mut files, &line(1, "start", ""));
    append(&mut files, &line(2, "lost", ",\"count\":12,\"cause\":\"timeout\""));
    append(&mut files, &line(3, "connect", ""));
    let answer = scene.json(CRITICAL, &[]);
    let (state, text) = check(&answer, "lost");
    assert_eq!(state, "critical");
    assert!(text.starts_with("1 `lost` line with 12 records; the newest loss is "), "{text}");
    assert!(text.contains("(cause: timeout)"), "{text}");
    assert_eq!(answer["metrics"]["lost_lines"], 1);
    scene.json(OK, &["--crit", "lost=off", "--warn", "lost=0s"]);
    // It is not searched for, and no arena counts.
    let answer = scene.json(OK, &["--search", "100"]);
    assert!(check(&answer, "lost").1.starts_with("no loss since 20"), "{answer:#}");
    // The arena counts it.
    let server = scene.0.server();
    let arena = server.file.arena();
    arena.shared().counters.0.lost_timeout.store(12, Ordering::Relaxed);
    let answer = scene.json(CRITICAL, &["--search", "100"]);
    assert_eq!(answer["metrics"]["lost_records_total"], 12);
    let (_, text) = check(&answer, "lost");
    assert!(text.ends_with("(--search); 12 records lost since the server started"), "{text}");
}

#[test]
fn connections_that_a_capture_could_not_read_come_first() {
    let scene = Scene::new();
    let mut files = scene.writer();
    append(&mut files, &line(1, "start", ""));
    for seq in 2..=4 {
        append(&mut files, &line(seq, "lost", ",\"cause\":\"tls\""));
    }
    append(&mut files, &line(5, "lost", ",\"cause\":\"tls\",\"lost_bytes\":900"));
    let answer = scene.json(CRITICAL, &[]);
    let (_, text) = check(&answer, "lost");
    let gap = "3 connections are encrypted: their statements are not seen; 4 `lost` lines; ";
    assert!(text.starts_with(gap), "{text}");
    assert_eq!(answer["metrics"]["encrypted_connections"], 3);
}

#[test]
fn a_log_without_a_seal_has_a_warning() {
    let scene = Scene::new();
    let options = Options { rotate_bytes: 0 };
    let (mut files, _) = LogFiles::open(RealFs, &scene.0.log(), options).unwrap();
    append(&mut files, &line(1, "start", ""));
    let answer = scene.json(WARNING, &[]);
    assert!(check(&answer, "unsigned").1.starts_with("the log is not sealed"), "{answer:#}");
    assert_eq!(answer["metrics"]["unsigned_lines"], Value::Null);
    scene.json(OK, &["--skip", "unsigned"]);
}

#[test]
fn what_is_no_log_is_unknown_in_every_format() {
    let place = ServerDirs::new();
    let file = place.root().join("file");
    fs::write(&file, "text").unwrap();
    for (path, message) in [
        (place.root().join("missing"), "No such file"),
        (file, "is not a directory"),
        (place.log(), "no log file (audit-*.jsonl) in"),
    ] {
        let path = path.to_str().unwrap();
        let status = |args: &[&str]| {
            let output = tacho(&[&["status", path], args].concat());
            assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(UNKNOWN), ""));
            stdout(&output)
        };
        let text = status(&[]);
        assert!(text.starts_with("UNKNOWN  ") && text.contains(message), "{text}");
        let text = status(&["--format", "nagios"]);
        assert!(text.starts_with("TACHO UNKNOWN - log: ") && text.contains(message), "{text}");
        let text = status(&["--format", "prometheus"]);
        assert!(text.contains(&format!("tacho_log_state{{log=\"{path}\"}} 3\n")), "{text}");
        let answer: Value = serde_json::from_str(&status(&["--format", "json"])).unwrap();
        assert!(check(&answer, "log").1.contains(message), "{answer:#}");
    }
}

/// Runs the command as a user who obeys permissions, also if the tests run as root.
fn unprivileged(args: &[&str]) -> Output {
    let mut tacho = command(args);
    if !rustix::process::geteuid().is_root() {
        return tacho.output().unwrap();
    }
    let mut command = Command::new("setpriv");
    command.arg("--bounding-set=-dac_override,-dac_read_search,-fowner");
    command.arg(tacho.get_program()).args(tacho.get_args()).env("TZ", "UTC");
    command.output().expect("util-linux is installed")
}

#[test]
fn what_must_not_be_read_is_unknown_with_an_advice() {
    let scene = Scene::new();
    let mut files = scene.writer();
    append(&mut files, &line(1, "start", ""));
    let (log, arenas) = (scene.0.log(), scene.0.arenas());
    let status = |log: &Path| {
        let paths = [log.to_str().unwrap(), "--arena-directory", arenas.to_str().unwrap()];
        let args = [&["status"], &paths[..], &["--skip", SKIP, "--format", "json"]].concat();
        let output = unprivileged(&args);
        let answer: Value = serde_json::from_str(&stdout(&output)).unwrap();
        assert_eq!(output.status.code(), Some(UNKNOWN), "{answer:#}");
        answer
    };
    let forbid = |path: &Path, mode: u32| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    let advice = "Permission denied (os error 13); run as the server's user or root";
    let newest: PathBuf = fs::read_dir(&log)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| path.extension().is_some_and(|it| it == "jsonl"))
        .unwrap();
    for (path, before, checks) in [
        (&log, 0o755, &["log"][..]),
        (&arenas, 0o755, &["arena"][..]),
        (&newest, 0o640, &["newest-line", "lost"][..]),
        (&log.join(".lock"), 0o640, &[][..]),
    ] {
        forbid(path, 0);
        let answer = status(&log);
        for name in checks {
            let (state, text) = check(&answer, name);
            assert!(state == "unknown" && text.ends_with(advice), "{name}: {text}");
        }
        if checks.is_empty() {
            let (state, text) = check(&answer, "recorder");
            assert!(state == "unknown" && text.contains("/.lock; run as"), "{text}");
        }
        forbid(path, before);
    }
}

#[test]
fn prometheus_and_nagios_read_it() {
    let scene = Scene::new();
    let mut files = scene.writer();
    append(&mut files, &line(1, "start", ""));
    let file = scene.0.root().join("tacho.prom");
    fs::write(&file, "old").unwrap();
    let output = scene.status(&["--format", "prometheus", "-o", file.to_str().unwrap()]);
    assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(OK), ""));
    let text = fs::read_to_string(&file).unwrap();
    let log = scene.0.log();
    let log = log.to_str().unwrap();
    assert!(text.contains(&format!("\ntacho_log_recorder_up{{log=\"{log}\"}} 1\n")), "{text}");
    let of_check = format!("tacho_log_check_state{{log=\"{log}\",check=\"lag\"}} 0\n");
    assert!(text.contains(&of_check), "{text}");
    let mut described = "";
    for line in text.lines() {
        match line.strip_prefix("# TYPE ") {
            Some(rest) => described = rest.split(' ').next().unwrap(),
            None if line.starts_with("# HELP ") => {}
            None => {
                assert!(line.starts_with(&format!("{described}{{log=\"")), "{line}");
                let value = line.rsplit(' ').next().unwrap();
                assert!(value.parse::<f64>().is_ok_and(f64::is_finite), "{line}");
            }
        }
    }

    let output = scene.status(&["--format", "nagios", "--warn", "newest-line=1h"]);
    assert_eq!(output.status.code(), Some(OK));
    let text = stdout(&output);
    let first = text.lines().next().unwrap();
    assert!(first.starts_with("TACHO OK - log: 1 file, ") && first.contains("; recorder: runs"));
    let (_, data) = first.split_once(" | ").unwrap();
    let of = |name: &str| data.split(' ').find(|it| it.starts_with(&format!("{name}="))).unwrap();
    assert_eq!(of("lag_seconds"), "lag_seconds=0s;30;120");
    assert_eq!(of("newest_seq"), "newest_seq=1");
    assert!(of("newest_line_age_seconds").ends_with("s;3600;"), "{data}");
    assert!(of("disk_free_percent").ends_with("%;10:;5:"), "{data}");
    assert!(text.contains("\nok lag: no record waits\n"), "{text}");

    drop(files);
    let output = scene.status(&["--format", "nagios"]);
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(CRITICAL));
    assert!(text.starts_with("TACHO CRITICAL - recorder: no recorder runs"), "{text}");
}

#[test]
fn a_failure_is_unknown_and_not_critical() {
    for args in [
        &["--warn", "load=1"][..],
        &["--crit", "recorder=1"],
        &["--frmt"],
        &["--config", "/missing/my.cnf"],
        &["-o", "/missing/tacho.prom"],
    ] {
        let output = tacho(&[&["status", "/missing"], args].concat());
        assert_eq!(output.status.code(), Some(UNKNOWN), "{args:?}: {}", stderr(&output));
        assert!(!stderr(&output).is_empty(), "{args:?}");
    }
    assert_eq!(tacho(&["status", "--help"]).status.code(), Some(0));
    assert_eq!(tacho(&["tail", "--frmt"]).status.code(), Some(2));
}

/// Reading a terabyte would take minutes of processor time, which `ulimit` ends.
#[test]
fn files_are_not_read_as_a_whole() {
    let scene = Scene::new();
    let mut files = scene.writer();
    append(&mut files, &line(1, "start", ""));
    files.rotate_now().unwrap();
    drop(files);
    let newest = fs::read_dir(scene.0.log()).unwrap().map(|entry| entry.unwrap().path());
    let newest = newest.filter(|path| path.extension().is_some_and(|it| it == "jsonl")).max();
    for path in [newest.clone().unwrap(), newest.unwrap().with_extension("chain")] {
        fs::OpenOptions::new().append(true).open(path).unwrap().set_len(1 << 40).unwrap();
    }
    let tacho = command(&["status", scene.0.log().to_str().unwrap(), "--format", "json"]);
    let mut limited = Command::new("sh");
    limited.args(["-c", "ulimit -t 20; exec \"$0\" \"$@\""]);
    limited.arg(tacho.get_program()).args(tacho.get_args());
    let output = limited.output().unwrap();
    let answer: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(output.status.code(), Some(CRITICAL), "{answer:#}");
    assert_eq!(check(&answer, "newest-line").0, "unknown");
}
