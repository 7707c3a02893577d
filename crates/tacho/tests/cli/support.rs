//! Creates log directories and runs the built command on them.

use std::fs::OpenOptions;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

/// A statement line of connection 7 without its newline.
pub fn statement(seq: u64, ts: &str, sql: &str) -> String {
    let sql = sql.replace('"', "\\\"");
    format!(
        r#"{{"v":1,"seq":{seq},"ts":"{ts}","event":"statement","outcome":"ok","conn":7,"user":"app","db":"shop","command":"Query","sql_command":"select","sql":"{sql}","query_time_us":10}}"#
    )
}

/// A log file as a hub stores it.
pub fn by_columns(lines: &[u8]) -> Vec<u8> {
    let mut writer = tacho_columns::Writer::new(Vec::new()).unwrap();
    lines.chunks(tacho_columns::CONTENT_BYTES).for_each(|part| writer.part(part).unwrap());
    writer.finish().unwrap()
}

/// A log directory that is removed at the end of the test.
pub struct Log {
    directory: tempfile::TempDir,
}

impl Log {
    pub fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap() }
    }

    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    /// Appends to a file, which is created if it does not exist.
    pub fn append(&self, name: &str, text: impl AsRef<[u8]>) {
        let mut file = OpenOptions::new().append(true).create(true).open(self.file(name)).unwrap();
        file.write_all(text.as_ref()).unwrap();
    }

    /// Runs `tacho tail <directory> <args>` to its end.
    pub fn tail(&self, args: &[&str]) -> Output {
        let path = self.path().to_str().unwrap();
        tacho(&[&["tail", path], args].concat())
    }
}

/// A command with an environment that does not depend on the user who runs the tests.
pub fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tacho"));
    command.args(args).env_remove("TACHO_LOG_DIR").env_remove("NO_COLOR").env("TZ", "UTC");
    command.stdin(Stdio::null());
    command
}

pub fn tacho(args: &[&str]) -> Output {
    command(args).output().unwrap()
}

pub fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// A `tacho tail --follow` that runs during the test.
pub struct Following {
    child: Child,
    lines: Receiver<String>,
}

/// Only a hang lasts this long; otherwise no test depends on time.
const HANG: Duration = Duration::from_secs(600);

impl Following {
    /// Follows with `--format json` and further arguments.
    pub fn start(path: &Path, args: &[&str]) -> Self {
        let path = path.to_str().unwrap();
        Self::run(&[&["tail", path, "--follow", "--format", "json"], args].concat())
    }

    /// Runs a command that follows.
    pub fn run(args: &[&str]) -> Self {
        let mut child =
            command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (sender, lines) = channel();
        let out: BufReader<ChildStdout> = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            for line in out.lines() {
                if sender.send(line.unwrap()).is_err() {
                    break;
                }
            }
        });
        Self { child, lines }
    }

    /// The next line it shows.
    pub fn next(&self) -> String {
        match self.lines.recv_timeout(HANG) {
            Ok(line) => line,
            Err(RecvTimeoutError::Timeout) => panic!("no line came"),
            Err(RecvTimeoutError::Disconnected) => panic!("it ended"),
        }
    }

    /// Kills it without a chance to react.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Sends a signal, waits for the end, and returns the exit code, the unread lines and stderr.
    pub fn end(mut self, signal: &str) -> (Option<i32>, Vec<String>, String) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
        let mut errors = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
        let code = self.child.wait().unwrap().code();
        (code, self.lines.iter().collect(), errors)
    }
}

impl Drop for Following {
    /// A failed test must not leave a process behind.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
