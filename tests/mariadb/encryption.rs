//! Zone: outside. Encryption of closed files on a real server: a wrong file of keys, `kill -9`,
//! files that were already compressed, and the standard `age` command beside ours.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tacho_tests::client::{self, Conn, Queryable as _};
use tacho_tests::log::file_names as names;
use tacho_tests::server::TestServer;
use tacho_tests::{build_directory, program, wait};

const INSTALL: &str = "INSTALL PLUGIN tacho SONAME 'tacho'";

fn text(conn: &mut Conn, sql: &str) -> String {
    let row: Option<(String, String)> = conn.query_first(sql).expect("an answer");
    row.expect("a row").1
}

fn number(conn: &mut Conn, name: &str) -> u64 {
    client::status_number(conn, name).expect("a number")
}

fn run(program: impl AsRef<Path>, arguments: &[&str]) -> Output {
    let program = program.as_ref();
    Command::new(program).args(arguments).output().unwrap_or_else(|error| {
        panic!("{}: {error}", program.display());
    })
}

fn tacho(arguments: &[&str]) -> Output {
    run(program("tacho"), arguments)
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn load(conn: &mut Conn, round: &str) {
    for number in 0..500 {
        let text = "x".repeat(200);
        conn.query_drop(format!("SELECT '{round} {number}', '{text}'")).expect("an answer");
    }
}

/// A secret key as `age-keygen` makes it, and its public half in a file of recipients.
fn keys(directory: &Path, name: &str) -> (PathBuf, PathBuf, String) {
    let secret = directory.join(format!("{name}.key"));
    let made = run("age-keygen", &["-o", secret.to_str().expect("a path")]);
    assert!(made.status.success(), "{}", stderr(&made));
    let public = stdout(&run("age-keygen", &["-y", secret.to_str().expect("a path")]));
    let recipients = directory.join(format!("{name}.pub"));
    fs::write(&recipients, format!("# who may read\n\n{public}")).expect("written");
    (secret, recipients, public.trim().to_owned())
}

struct Log {
    /// Outside of the log.
    keys: PathBuf,
    path: PathBuf,
}

impl Log {
    fn new(name: &str) -> Log {
        let id = std::process::id();
        let keys = build_directory().join(format!("test/encryption-{name}-{id}"));
        let path = keys.join("log");
        fs::create_dir_all(&path).expect("made");
        Log { keys, path }
    }

    fn path(&self) -> &str {
        self.path.to_str().expect("a path")
    }

    /// Whether all files but the newest are packed, and more than `count` have the ending.
    fn is_packed(&self, ending: &str, count: usize) -> bool {
        names(&self.path, ending).len() > count && names(&self.path, ".jsonl").len() == 1
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            fs::remove_dir_all(&self.keys).expect("removed");
        }
    }
}

#[test]
fn closed_files_can_only_be_read_with_the_key() {
    let log = Log::new("keys");
    let (secret, recipients, public) = keys(&log.keys, "auditor");
    let (other, _, _) = keys(&log.keys, "stranger");
    let wanted = log.keys.join("recipients");
    fs::copy(&recipients, &wanted).expect("copied");
    let mut server = TestServer::builder()
        .option("loose-tacho-rotate-bytes=20000")
        .option(format!("loose-tacho-directory={}", log.path()))
        .start()
        .expect("a server");
    let mut conn = server.connect().expect("a connection");
    conn.query_drop(INSTALL).expect("installed");
    load(&mut conn, "plain");
    conn.query_drop("SET GLOBAL tacho_compression = 'ZSTD'").expect("an answer");
    load(&mut conn, "compressed");
    wait::until("all that is closed is compressed", || log.is_packed(".zst", 10));
    assert_eq!(names(&log.path, ".age"), BTreeSet::new(), "it was not requested");

    // A text that is not a list of public keys is rejected with the reason.
    let set =
        |path: &Path| format!("SET GLOBAL tacho_encryption_recipients_file = '{}'", path.display());
    for (path, why) in [
        (log.keys.join("missing"), "No such file"),
        (secret.clone(), "SECRET key"),
        (log.path.clone(), "not a regular file"),
    ] {
        let error = conn.query_drop(set(&path)).expect_err("refused").to_string();
        assert!(error.contains("1231") && error.contains(why), "{error}");
    }
    let shown = "SHOW GLOBAL VARIABLES LIKE 'tacho_encryption_recipients_file'";
    assert_eq!(text(&mut conn, shown), "");

    conn.query_drop(set(&wanted)).expect("an answer");
    assert_eq!(text(&mut conn, shown), wanted.display().to_string());
    load(&mut conn, "encrypted");
    wait::until("all that is closed is encrypted", || {
        log.is_packed(".jsonl.zst.age", 20) && names(&log.path, ".zst").is_empty()
    });
    let encrypted = names(&log.path, ".jsonl.zst.age");
    wait::until("they are counted", || {
        number(&mut conn, "Tacho_files_encrypted") == encrypted.len() as u64
    });
    conn.query_drop("SET GLOBAL tacho_compression = 'NONE'").expect("an answer");
    load(&mut conn, "only encrypted");
    wait::until("some are not compressed", || names(&log.path, ".jsonl.age").len() > 5);
    drop(conn);
    server.kill9().expect("killed");
    server.restart().expect("started again");

    let mut conn = server.connect().expect("a connection");
    conn.query_drop(set(&wanted)).expect("an answer");
    load(&mut conn, "after the kill");
    wait::until("all that is closed is encrypted", || names(&log.path, ".jsonl").len() == 1);
    assert_eq!(names(&log.path, ".new"), BTreeSet::new());
    assert_eq!(number(&mut conn, "Tacho_write_errors"), 0);
    drop(conn);
    server.stop().expect("stopped");

    // The standard tool.
    let identity = secret.to_str().expect("a path");
    let plain = names(&log.path, ".jsonl.age");
    let one = log.path.join(plain.first().expect("one"));
    let decrypted = run("age", &["--decrypt", "-i", identity, one.to_str().expect("a path")]);
    assert!(decrypted.status.success(), "{}", stderr(&decrypted));
    assert!(
        decrypted.stdout.starts_with(b"{\"v\":1,\"seq\":") && decrypted.stdout.ends_with(b"}\n")
    );
    for name in encrypted.iter().take(3) {
        let path = log.path.join(name);
        let output = run("age", &["--decrypt", "-i", identity, path.to_str().expect("a path")]);
        assert!(output.stdout.starts_with(b"\x28\xb5\x2f\xfd"), "zstd: {}", stderr(&output));
    }

    // Ours: everything with the key; without it the unread files are listed.
    let tail = ["tail", "-n", "all", "--format", "json", log.path()];
    let output = tacho(&[&tail[..], &["--identity", identity]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    let lines: Vec<String> = stdout(&output).lines().map(str::to_owned).collect();
    for (index, line) in lines.iter().enumerate() {
        assert!(line.starts_with(&format!("{{\"v\":1,\"seq\":{},", index + 1)), "{line}");
    }
    for round in ["plain", "compressed", "encrypted", "only encrypted", "after the kill"] {
        let wanted = format!("\"sql\":\"SELECT '{round} ");
        assert_eq!(lines.iter().filter(|line| line.contains(&wanted)).count(), 500, "{round}");
    }
    let change = format!("\"variable\":\"encryption_recipients\",\"new_value\":\"{public}\"");
    assert_eq!(lines.iter().filter(|line| line.contains(&change)).count(), 2, "{change}");
    for arguments in [vec![], vec!["--identity", other.to_str().expect("a path")]] {
        let output = tacho(&[&tail[..], &arguments].concat());
        assert_eq!(output.status.code(), Some(1));
        for name in encrypted.iter().chain(&plain) {
            assert!(stderr(&output).contains(name.as_str()), "{name}: {}", stderr(&output));
        }
        assert!(stderr(&output).contains("encrypted, and no --identity opens it"));
        assert!(!stdout(&output).contains("SELECT 'plain "));
    }
    let csv = tacho(&["convert", "--format", "csv", "--identity", identity, log.path()]);
    assert!(csv.status.success(), "{}", stderr(&csv));
    assert_eq!(stdout(&csv).matches("SELECT \\'plain ").count(), 500);
    let path = one.to_str().expect("a path");
    let digests = tacho(&["digest", path, "--identity", identity]);
    assert!(digests.status.success() && !digests.stdout.is_empty(), "{}", stderr(&digests));
    assert_eq!(tacho(&["digest", path]).status.code(), Some(1));

    // The seal covers the lines.
    let (_, rest) = lines[0].split_once("\"signing_key\":\"").expect("a start line with the key");
    let key = rest.split('"').next().expect("its end");
    let verify = ["verify", log.path(), "--key", key];
    let output = tacho(&verify);
    assert_eq!(output.status.code(), Some(19), "{output:?}");
    assert!(output.stdout.starts_with(b"ENCRYPTED:"), "{}", stdout(&output));
    let verify = [&verify[..], &["--identity", identity]].concat();
    let output = tacho(&verify);
    // Lines that had no frame yet when the server was killed are sealed at the next start.
    let is_recovered = output.stdout.starts_with(b"RECOVERED:") && output.status.code() == Some(18);
    assert!(output.status.success() || is_recovered, "{output:?}");
    let victim = log.path.join(encrypted.first().expect("one"));
    let mut bytes = fs::read(&victim).expect("read");
    *bytes.last_mut().expect("a byte") ^= 1;
    fs::write(&victim, &bytes).expect("written");
    assert_eq!(tacho(&verify).status.code(), Some(14), "modified");
    drop(server);
}

#[test]
fn a_start_with_a_wrong_file_records_and_says_that_nothing_is_encrypted() {
    let log = Log::new("start");
    let (_, recipients, _) = keys(&log.keys, "auditor");
    let wanted = log.keys.join("recipients");
    fs::write(&wanted, "age1nobody\n").expect("written");
    let server = TestServer::builder()
        .option("plugin-load-add=tacho")
        .option("tacho-rotate-bytes=20000")
        .option(format!("tacho-encryption-recipients-file={}", wanted.display()))
        .option(format!("tacho-directory={}", log.path()))
        .start()
        .expect("a server");
    assert!(server.error_log().contains("recorded and NOT ENCRYPTED until a right file is set"));
    let mut conn = server.connect().expect("a connection");
    load(&mut conn, "recorded");
    wait::until("it is said of closed files", || server.error_log().contains("is NOT ENCRYPTED"));
    assert!(text(&mut conn, "SHOW GLOBAL STATUS LIKE 'Tacho_last_error'").contains("line 1"));
    assert_eq!(names(&log.path, ".age"), BTreeSet::new());
    fs::copy(&recipients, &wanted).expect("copied");
    conn.query_drop(format!(
        "SET GLOBAL tacho_encryption_recipients_file = '{}'",
        wanted.display()
    ))
    .expect("an answer");
    wait::until("all that is closed is encrypted", || names(&log.path, ".jsonl").len() == 1);
    assert!(names(&log.path, ".jsonl.age").len() > 5);

    // The plugin is unloaded only after the thread has ended.
    load(&mut conn, "more");
    conn.query_drop("UNINSTALL PLUGIN tacho").expect("uninstalled");
    drop(conn);
    let threads = format!("/proc/{}/task", server.pid().expect("it runs"));
    wait::until("no thread of ours is left", || {
        // One that has ended meanwhile has no name any more.
        let name = |thread: fs::DirEntry| fs::read_to_string(thread.path().join("comm"));
        let tasks = fs::read_dir(&threads).expect("the threads").map(|task| task.expect("one"));
        !tasks.filter_map(|task| name(task).ok()).any(|name| name.starts_with("tacho"))
    });
    let mut conn = server.connect().expect("a connection");
    wait::until("the plugin can be installed", || conn.query_drop(INSTALL).is_ok());
    drop(conn);
    let mut conn = server.connect().expect("a connection");
    load(&mut conn, "again");
    wait::until("they are encrypted again", || number(&mut conn, "Tacho_files_encrypted") > 2);
    drop(server);
}
