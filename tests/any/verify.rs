//! Zone: outside. The log of a real server is sealed from its first start: through rotation, `kill
//! -9`, recovery and a stop; and later changes to it are detected.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tacho_chain::key::VerifierKey;
use tacho_chain::verify::LogState;
use tacho_tests::client::{self, Queryable as _};
use tacho_tests::program;
use tacho_tests::recording::Recording;
use tacho_tests::sealed::{assert_state, check, key_in};
use tacho_tests::wait;

/// The exit codes of the command.
const TRUNCATED: Option<i32> = Some(13);
const MODIFIED: Option<i32> = Some(14);

/// The exit code of `tacho verify` (`docs/guide/verify.md`).
fn verify(log: &Path, key: &VerifierKey) -> Option<i32> {
    let mut command = Command::new(program("tacho"));
    command.arg("verify").arg(log).args(["--key", &key.to_string()]).stdout(Stdio::null());
    command.status().expect("the command is built").code()
}

fn files(log: &Path, ending: &str) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = fs::read_dir(log)
        .expect("the log")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|found| found == ending))
        .collect();
    paths.sort();
    paths
}

/// Foreign files beside those of the recorder. `good`: one of its log files.
fn planted_files_are_found(log: &Path, key: &VerifierKey, good: &Path, whole_code: Option<i32>) {
    for ending in ["zst", "age"] {
        let other = PathBuf::from(format!("{}.{ending}", good.display()));
        fs::write(&other, "junk").expect("written");
        assert_eq!(verify(log, key), MODIFIED, "{ending}");
        fs::remove_file(other).expect("removed");
    }
    let newer = log.join("audit-20991231T235959Z-000009.jsonl");
    std::os::unix::fs::symlink("/nonexistent", &newer).expect("a link");
    assert_eq!(verify(log, key), MODIFIED);
    fs::remove_file(newer).expect("removed");
    let elsewhere = log.with_extension("elsewhere");
    for path in [good.to_owned(), good.with_extension("chain")] {
        fs::rename(&path, &elsewhere).expect("moved");
        std::os::unix::fs::symlink(&elsewhere, &path).expect("a link");
        assert_eq!(verify(log, key), MODIFIED, "{}", path.display());
        fs::rename(&elsewhere, &path).expect("moved back");
    }
    assert_eq!(verify(log, key), whole_code);
}

/// Text of the newest log file; empty if there is none yet.
fn newest_text(log: &Path) -> String {
    let newest = files(log, "jsonl").pop();
    newest.and_then(|path| fs::read_to_string(path).ok()).unwrap_or_default()
}

#[test]
fn the_log_of_a_server_verifies_through_all_its_life() {
    let mut server =
        Recording::builder().option("tacho-checkpoint-interval-s=1").start().expect("a server");
    let mut conn = server.connect().expect("a connection");
    let mut path = |name: &str| {
        let name = server.product.named(name);
        // An absolute path replaces the data directory, a relative one is below it.
        let path = client::variable(&mut conn, &name).expect("the variable");
        server.data_directory().join(path)
    };
    let (log, key_file) = (path("tacho_directory"), path("tacho_signing_key_file"));
    assert!(!key_file.starts_with(&log), "{}", key_file.display());
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = fs::metadata(&key_file).expect("the key").permissions().mode();
        assert_eq!(mode & 0o777, 0, "SQL cannot open it");
    }
    for number in 0..200 {
        conn.query_drop(format!("SELECT {number}")).expect("an answer");
        if number % 50 == 20 {
            // Each file has to have statements of its own: one of them is looked for below.
            wait::until("the newest file has the statement", || {
                newest_text(&log).contains(&format!("\"SELECT {number}\""))
            });
            let before = files(&log, "jsonl").len();
            server.set("tacho_rotate_now = 1");
            wait::until("there is a new file", || files(&log, "jsonl").len() > before);
        }
    }
    server.kill9().expect("killed");
    server.restart().expect("started again");
    let mut conn = server.connect().expect("a connection");
    server.set("tacho_checkpoint_interval_s = 0");
    conn.query_drop("SELECT 'after the crash'").expect("an answer");
    drop(conn);
    let key = key_in(&log);
    assert!(server.error_log().contains(&key.to_string()), "the error log does not name the key");
    server.stop().expect("stopped");

    let report = check(&log, &key);
    // Lines without a frame because of the kill are reported; usually there are none.
    let whole = if report.recovered_lines > 0 { LogState::Recovered } else { LogState::Ok };
    assert_state(&report, whole);
    assert!(report.is_closed && report.lines > 200 && report.files >= 4, "{report:?}");
    assert_eq!(report.lines, report.last_seq);

    // One byte of one file in the middle.
    let file = &files(&log, "jsonl")[1];
    let text = fs::read_to_string(file).expect("a text");
    fs::write(file, text.replacen("SELECT ", "SELEKT ", 1)).expect("written");
    assert_state(&check(&log, &key), LogState::Modified);
    assert_eq!(verify(&log, &key), MODIFIED);
    // One line of it: the file is shorter, or another line is where it was.
    let (first, rest) = text.split_once('\n').expect("lines");
    let (_, rest) = rest.split_once('\n').expect("lines");
    fs::write(file, format!("{first}\n{rest}")).expect("written");
    assert_state(&check(&log, &key), LogState::Modified);
    assert_eq!(verify(&log, &key), MODIFIED);
    // Its last line made shorter, which is in its last frame; and another file in its place.
    let (before, last) = text.trim_end().rsplit_once('\n').expect("lines");
    let shorter = &last[..last.len() - 2];
    fs::write(file, format!("{before}\n{shorter}}}\n")).expect("written");
    assert_eq!(verify(&log, &key), MODIFIED);
    fs::write(file, "{\"v\":1,\"seq\":1}\n").expect("written");
    assert_eq!(verify(&log, &key), MODIFIED);
    fs::write(file, before).expect("written");
    assert_eq!(verify(&log, &key), TRUNCATED);
    fs::write(file, &text).expect("written");
    assert_state(&check(&log, &key), whole);
    let whole_code = Some(if report.recovered_lines > 0 { 18 } else { 0 });
    assert_eq!(verify(&log, &key), whole_code);
    planted_files_are_found(&log, &key, file, whole_code);
    // The newest file with its sidecar.
    let newest = files(&log, "jsonl").pop().expect("one");
    fs::remove_file(newest.with_extension("chain")).expect("removed");
    fs::remove_file(newest).expect("removed");
    assert_state(&check(&log, &key), LogState::Truncated);
}
