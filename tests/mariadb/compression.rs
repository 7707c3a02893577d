//! Zone: outside. Compression on a real server: under load, through UNINSTALL and `kill -9`, and read
//! by the command as if nothing were compressed.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tacho_tests::client::{self, Conn, Queryable as _};
use tacho_tests::log::file_names as names;
use tacho_tests::server::TestServer;
use tacho_tests::{program, wait};

fn number(conn: &mut Conn, name: &str) -> u64 {
    client::status_number(conn, name).expect("a number")
}

fn tacho(arguments: &[&str]) -> Output {
    Command::new(program("tacho")).args(arguments).output().expect("it runs")
}

/// All lines of the log. Fails if one is missing, double or unreadable.
#[track_caller]
fn lines(log: &Path) -> Vec<String> {
    let output = tacho(&["tail", "-n", "all", "--format", "json", log.to_str().expect("a path")]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines: Vec<String> =
        String::from_utf8(output.stdout).expect("UTF-8").lines().map(str::to_owned).collect();
    for (index, line) in lines.iter().enumerate() {
        assert!(line.starts_with(&format!("{{\"v\":1,\"seq\":{},", index + 1)), "{line}");
    }
    lines
}

/// How many lines record that compression was switched on.
fn changes(lines: &[String]) -> usize {
    let change = "\"variable\":\"tacho_compression\",\"old_value\":\"NONE\",\"new_value\":\"ZSTD\"";
    lines.iter().filter(|line| line.contains(change)).count()
}

fn load(conn: &mut Conn, round: &str) {
    for number in 0..1000 {
        let text = "x".repeat(200);
        conn.query_drop(format!("SELECT '{round} {number}', '{text}'")).expect("an answer");
    }
}

#[test]
fn closed_files_become_smaller_and_are_read_as_before() {
    const INSTALL: &str = "INSTALL PLUGIN tacho SONAME 'tacho'";
    let log = tacho_tests::unused_directory("compression");
    fs::create_dir_all(&log).expect("made");
    let mut server = TestServer::builder()
        .option("loose-tacho-rotate-bytes=20000")
        .option(format!("loose-tacho-directory={}", log.display()))
        .start()
        .expect("a server");
    let mut conn = server.connect().expect("a connection");
    conn.query_drop(INSTALL).expect("installed");
    load(&mut conn, "first");
    assert_eq!(names(&log, ".zst"), BTreeSet::new(), "who says nothing keeps them as they are");
    conn.query_drop("SET GLOBAL tacho_compression = 'ZSTD'").expect("an answer");
    wait::until("it has begun", || number(&mut conn, "Tacho_files_compressed") > 0);
    load(&mut conn, "second");
    // The library is unloaded only after the thread has ended.
    conn.query_drop("UNINSTALL PLUGIN tacho").expect("uninstalled");
    drop(conn);
    let mut conn = server.connect().expect("a connection");
    wait::until("the plugin can be installed", || conn.query_drop(INSTALL).is_ok());
    // A session that has seen the plugin go is not recorded (docs/guide/install.md).
    let mut conn = server.connect().expect("a connection");
    conn.query_drop("SET GLOBAL tacho_compression = 'ZSTD'").expect("an answer");
    load(&mut conn, "third");
    // The line of a change is not in the arena.
    wait::until("both changes are recorded", || changes(&lines(&log)) == 2);
    server.kill9().expect("killed");
    server.restart().expect("started again");
    let mut conn = server.connect().expect("a connection");
    conn.query_drop("SET GLOBAL tacho_compression = 'ZSTD'").expect("an answer");
    load(&mut conn, "fourth");
    wait::until("all that is closed is compressed", || names(&log, ".jsonl").len() == 1);
    assert_eq!(names(&log, ".new"), BTreeSet::new());
    assert_eq!(number(&mut conn, "Tacho_write_errors"), 0);
    drop(conn);
    server.stop().expect("stopped");

    let lines = lines(&log);
    for round in ["first", "second", "third", "fourth"] {
        let wanted = format!("\"sql\":\"SELECT '{round} ");
        assert_eq!(lines.iter().filter(|line| line.contains(&wanted)).count(), 1000, "{round}");
    }
    assert_eq!(changes(&lines), 3);
    let compressed = names(&log, ".jsonl.zst");
    assert!(compressed.len() > 40, "{compressed:?}");

    // The seal covers the lines.
    let (_, rest) = lines[0].split_once("\"signing_key\":\"").expect("a start line with the key");
    let key = rest.split('"').next().expect("its end");
    let directory = log.to_str().expect("a path");
    let output = tacho(&["verify", directory, "--key", key]);
    // Lines that had no frame yet when the server was killed are sealed at the next start.
    let is_recovered = output.stdout.starts_with(b"RECOVERED:") && output.status.code() == Some(18);
    assert!(output.status.success() || is_recovered, "{output:?}");
    let victim: PathBuf = log.join(compressed.first().expect("one"));
    let whole = fs::read(&victim).expect("read");
    fs::write(&victim, &whole[..whole.len() - 5]).expect("written");
    let output = tacho(&["verify", directory, "--key", key]);
    let code = output.status.code();
    assert!(code.is_some_and(|code| code >= 10 && code != 18), "{output:?}");
    drop(server);
    fs::remove_dir_all(&log).expect("removed");
}
