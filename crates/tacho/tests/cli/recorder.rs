//! `tacho recorder` without a server: it waits, recovers what is left, and ends on a signal.

use std::io::Read as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::server::ServerDirs;
use crate::support::{stderr, tacho};

#[test]
fn a_missing_directory_is_wrong_usage() {
    let output = tacho(&["recorder", "/nonexistent"]);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(stderr(&output).contains("/nonexistent"), "{}", stderr(&output));
}

#[test]
fn remaining_records_are_written_and_a_signal_ends_it() {
    let place = ServerDirs::new();
    let mut server = place.server();
    server.start_statement(7, 1, b"SELECT 'left'");
    drop(server);
    let arenas = || std::fs::read_dir(place.arenas()).unwrap().count();
    assert_eq!(arenas(), 1);
    let mut child = Command::new(env!("CARGO_BIN_EXE_tacho"))
        .args(["recorder", place.log().to_str().unwrap()])
        .args(["--arena-directory", place.arenas().to_str().unwrap()])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let since = Instant::now();
    while arenas() > 0 {
        assert!(since.elapsed() < Duration::from_secs(600), "nothing is recovered");
        std::thread::sleep(Duration::from_millis(5));
    }
    // SAFETY: a child process that was not waited for yet.
    assert_eq!(unsafe { libc::kill(child.id() as i32, libc::SIGTERM) }, 0);
    let status = child.wait().unwrap();
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!(status.code(), Some(0), "{said}");
    assert!(
        said.contains("waiting for the server") && said.contains("recovered 2 lines"),
        "{said}"
    );
    let log: String = std::fs::read_dir(place.log())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|it| it == "jsonl"))
        .map(|path| std::fs::read_to_string(path).unwrap())
        .collect();
    assert!(log.contains("'left'") && log.contains("\"interrupted\""), "{log}");
}
