//! Zone: outside. Encrypted sessions that `tacho capture --tls-uprobes` reads from the server's
//! OpenSSL: the records are the same as without TLS, and as those of the plugin.
//!
//! Only root may load programs into the kernel, outside of a user namespace.

use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use tacho_tests::captured::{Capture, assert_same, sessions, wait_for_ends};
use tacho_tests::captured_load::{APP, large_statement};
use tacho_tests::client::Queryable as _;
use tacho_tests::command_line::CommandLine;
use tacho_tests::recording::Recording;
use tacho_tests::{leave_out, log, wait};
use tempfile::TempDir;

const SCRIPT: &str = "
    CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(9000));
    INSERT INTO t (v) VALUES ('a'), ('b'), ('c');
    UPDATE t SET v = 'changed' WHERE id < 3;
    SELECT * FROM t;
    SELECT nosuch FROM t;
    SELEKT;
    SET NAMES latin1;
    SELECT 'ä';
    SET NAMES utf8mb4;
    SELECT 'ä€😀';
    USE mysql;
    USE shop;
    SELECT REPEAT('x', 70000);
    DROP TABLE t;
    DO 1;
";

/// The user that owns no file: the capture becomes it, as owner of the directory of its log.
const NOBODY: u32 = 65_534;

/// A server with TLS, a capture of its encrypted sessions, and where both have their files.
struct Scene {
    server: Recording,
    capture: Capture,
    /// Removed at the end.
    _directory: TempDir,
}

/// A certificate, and its key.
fn certificate(directory: &Path) -> (PathBuf, PathBuf) {
    let (certificate, key) = (directory.join("cert.pem"), directory.join("key.pem"));
    let output = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"])
        .args(["-subj", "/CN=localhost", "-keyout"])
        .arg(&key)
        .arg("-out")
        .arg(&certificate)
        .output()
        .expect("openssl");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    (certificate, key)
}

impl Scene {
    /// `None`: this machine does not permit it, which is listed as left out.
    fn new(threads: &str) -> Option<Scene> {
        Scene::with_ring(threads, "32MiB")
    }

    /// The same with two rings of this size, one for packets and one for what is decrypted.
    fn with_ring(threads: &str, ring_size: &str) -> Option<Scene> {
        if !rustix::process::geteuid().is_root() {
            leave_out("encrypted sessions are not captured: only root may attach uprobes");
            return None;
        }
        let directory = TempDir::new().expect("a directory");
        let (certificate, key) = certificate(directory.path());
        let server = Recording::builder()
            .option("max-allowed-packet=64M")
            .option(format!("ssl-cert={}", certificate.display()))
            .option(format!("ssl-key={}", key.display()))
            .start()
            .expect("a server");
        let mut root = server.connect().expect("a connection");
        for statement in [
            "CREATE DATABASE shop",
            "CREATE USER app@'127.0.0.1' IDENTIFIED BY 'right' REQUIRE SSL",
            "CREATE USER plain@'127.0.0.1' IDENTIFIED BY ''",
            "GRANT ALL ON *.* TO app@'127.0.0.1', plain@'127.0.0.1'",
        ] {
            root.query_drop(statement).expect(statement);
        }
        chown(directory.path(), Some(NOBODY), Some(NOBODY)).expect("as root");
        let pid = server.pid().expect("a process").to_string();
        let options = ["--tls-uprobes", &pid, "--ring-size", ring_size, "--threads", threads];
        match Capture::start_with(server.port(), directory.path(), &options) {
            Ok(capture) => Some(Scene { server, capture, _directory: directory }),
            // A container without the privileges.
            Err(error) if format!("{error:#}").contains("Operation not permitted") => {
                leave_out(&format!("encrypted sessions are not captured: {error:#}"));
                None
            }
            Err(error) => panic!("{error:#}"),
        }
    }

    /// Runs a client with TLS as `app`, or without it as `plain`.
    fn run(&self, is_encrypted: bool, args: &[&str], script: &str) -> bool {
        let client = CommandLine::of(&self.server);
        match is_encrypted {
            true => client.encrypted().run(APP, args, script),
            false => client.run(("plain", ""), args, script),
        }
    }
}

/// Statements of a user, in their order.
fn statements<'l>(lines: impl Iterator<Item = &'l Value>, user: &str) -> Vec<(String, String)> {
    let of = lines.filter(|line| line["event"] == "statement" && line["user"] == user);
    of.map(|line| (line["command"].to_string(), line["sql"].to_string())).collect()
}

#[test]
fn encrypted_sessions_are_recorded_as_others_are() {
    record_encrypted_sessions("1");
}

/// Whichever thread finds a part of a session, it reaches the one that has the connection.
#[test]
fn encrypted_sessions_reach_their_threads() {
    record_encrypted_sessions("3");
}

fn record_encrypted_sessions(threads: &str) {
    let Some(mut scene) = Scene::new(threads) else { return };
    scene.run(true, &["shop"], SCRIPT);
    scene.run(false, &["shop"], SCRIPT);
    scene.run(true, &["--compress", "shop"], "SELECT REPEAT('y', 90000);");
    let large = large_statement((16 << 20) + 1);
    assert!(scene.run(true, &["--max-allowed-packet=64M"], &large));
    let mut ends = 4;
    // MySQL's plugins do not record the end of a refused login.
    if scene.server.product.is_mariadb() {
        assert!(!scene.run(true, &["--password=wrong"], "SELECT 'not sent'"));
        ends += 1;
    }
    wait_for_ends(&scene.server.log_directory(), scene.capture.log(), ends);
    scene.capture.stop().expect("its end");
    let captured = sessions(scene.capture.log());
    assert_same(&sessions(&scene.server.log_directory()), &captured);
    let encrypted = statements(captured.values().flatten(), "app");
    let plain = statements(captured.values().flatten(), "plain");
    assert!(plain.len() > 15, "{plain:?}");
    assert_eq!(encrypted[..plain.len()], plain);
    for line in captured.values().flatten() {
        assert_ne!(line["session"], "partial", "{line}");
    }
}

/// A statement of so many MiB.
fn large(mib: usize) -> String {
    large_statement(mib << 20)
}

/// They come in pieces of up to 16 KiB, and from 16 MiB on in several packets of the protocol.
#[test]
fn large_encrypted_statements_are_recorded_as_a_whole() {
    // All of it fits into the rings: other tests run at the same time.
    let Some(mut scene) = Scene::with_ring("1", "128MiB") else { return };
    let options = ["--max-allowed-packet=64M"];
    assert!(scene.run(true, &options, &(large(2) + &large(20) + "SELECT 'after';")));
    assert!(scene.run(true, &[&options[..], &["--compress"]].concat(), &(large(17) + "DO 1;")));
    wait_for_ends(&scene.server.log_directory(), scene.capture.log(), 2);
    scene.capture.stop().expect("its end");
    let captured = sessions(scene.capture.log());
    assert_same(&sessions(&scene.server.log_directory()), &captured);
    let texts = captured.values().flatten().filter_map(|line| line["sql"].as_str());
    let large = texts.map(str::len).filter(|bytes| *bytes > 1 << 20).collect::<Vec<_>>();
    assert_eq!(large, [2, 20, 17].map(|mib| (mib << 20) + 17));
}

/// The lines of the capture so far; none if the last one is not complete yet.
fn lines(scene: &Scene) -> Vec<Value> {
    let mut lines: Vec<Value> = Vec::new();
    let read = log::read(scene.capture.log(), |_, text| {
        lines.push(serde_json::from_str(text).expect("JSON"));
    });
    read.map_or(Vec::new(), |_| lines)
}

fn wait_for_loss(scene: &Scene) {
    wait::until("a loss is declared", || {
        let is_it = |line: &Value| line["event"] == "lost" && line["cause"] == "uprobes";
        lines(scene).iter().any(is_it)
    });
}

#[test]
fn what_overflows_is_declared_and_later_statements_are_recorded() {
    let Some(mut scene) = Scene::new("2") else { return };
    scene.capture.pause(true).expect("a running capture");
    let row = format!("SELECT REPEAT('x', {});\n", 1 << 20);
    assert!(scene.run(true, &["--max-allowed-packet=64M"], &row.repeat(80)));
    scene.capture.pause(false).expect("a stopped capture");
    wait_for_loss(&scene);
    scene.run(true, &["shop"], "SELECT 'later';");
    wait::until("a later statement is recorded", || {
        lines(&scene).iter().any(|line| line["sql"] == "SELECT 'later'" && line["user"] == "app")
    });
    let lost = lines(&scene).into_iter().filter(|line| line["cause"] == "uprobes");
    assert!(lost.map(|line| line["lost_packets"].as_u64().unwrap_or(0)).sum::<u64>() > 0);
    scene.capture.stop().expect("its end");
}

/// Its text is never recorded as if it was whole, and its session continues.
#[test]
fn a_large_encrypted_statement_that_does_not_fit_is_declared() {
    let Some(mut scene) = Scene::new("1") else { return };
    let mut session =
        CommandLine::of(&scene.server).encrypted().start(APP, &["--max-allowed-packet=64M"]);
    session.send("SELECT 'before';\n");
    wait::until("a statement is recorded", || {
        lines(&scene).iter().any(|line| line["sql"] == "SELECT 'before'")
    });
    scene.capture.pause(true).expect("a running capture");
    session.send(&(large(48) + "\nSELECT 'executed';\n"));
    wait::until("the server has executed it", || {
        let is_it = |line: &log::Line<'_>| line.sql.as_deref() == Some("SELECT 'executed'");
        let mut is_there = false;
        let read = log::read(&scene.server.log_directory(), |line, _| is_there |= is_it(line));
        read.is_ok() && is_there
    });
    scene.capture.pause(false).expect("a stopped capture");
    wait_for_loss(&scene);
    wait::until("the session is recorded again", || {
        session.send("SELECT 'later';\n");
        lines(&scene).iter().any(|line| line["sql"] == "SELECT 'later'")
    });
    assert!(session.end());
    wait::until("it ends", || lines(&scene).iter().any(|line| line["event"] == "disconnect"));
    scene.capture.stop().expect("its end");
    let lines = lines(&scene);
    let texts = lines.iter().filter_map(|line| line["sql"].as_str());
    assert_eq!(texts.filter(|text| text.starts_with("SELECT LENGTH")).count(), 0);
    let lost = lines.iter().filter(|line| line["event"] == "lost" && line["conn"].is_u64());
    let lost = lost.filter_map(|line| line["lost_bytes"].as_u64()).sum::<u64>();
    assert!(lost > 16 << 20, "{lost} bytes are declared of 48 MiB, and a ring has 32 MiB");
}

/// What `tacho capture --check` says of a process while a client runs a statement with TLS.
fn check(scene: &Scene, process: u32) -> (Option<i32>, Value) {
    let mut command = Command::new(tacho_tests::program("tacho"));
    let server = format!("127.0.0.1:{}", scene.server.port());
    command
        .args(["capture", "--check", "--interface", "lo", "--format", "json"])
        .args(["--server", &server, "--check-time", "2s"])
        .args(["--tls-uprobes", &process.to_string()])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut running = command.spawn().expect("tacho");
    let mut said = BufReader::new(running.stderr.take().expect("a pipe"));
    let mut text = String::new();
    while !text.contains("listening on") {
        assert!(said.read_line(&mut text).expect("its messages") > 0, "{text}");
    }
    assert!(scene.run(true, &[], "DO 1;"));
    let output = running.wait_with_output().expect("its end");
    (output.status.code(), serde_json::from_slice(&output.stdout).expect("JSON"))
}

#[test]
fn a_check_shows_whether_encrypted_sessions_can_be_read() {
    let Some(mut scene) = Scene::new("1") else { return };
    let (code, result) = check(&scene, scene.server.pid().expect("a process"));
    assert_eq!((code, &result["reason"]), (Some(0), &"recorded".into()), "{result}");
    assert!(result["notes"][0].as_str().is_some_and(|it| it.contains("1 of 1")), "{result}");
    // This one has no OpenSSL.
    let (code, result) = check(&scene, std::process::id());
    assert_eq!((code, &result["reason"]), (Some(1), &"no_uprobes".into()), "{result}");
    assert!(result["result"].as_str().is_some_and(|it| it.contains("libssl")), "{result}");
    scene.capture.stop().expect("its end");
}
