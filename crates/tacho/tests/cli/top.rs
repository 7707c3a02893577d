//! `tacho top` on logs that grow: as text, and in a terminal.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::process::{Child, Stdio};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};

use crate::support::{Following, Log, command, stderr, stdout, tacho};

const FILE: &str = "audit-20261121T100000Z-000001.jsonl";

/// A statement that began so long ago.
fn line(seq: u64, ago: Duration, rest: &str) -> String {
    let ts = Timestamp::now() - SignedDuration::try_from(ago).unwrap();
    format!(r#"{{"v":1,"seq":{seq},"ts":"{ts:.6}","event":"statement",{rest}}}"#) + "\n"
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Arguments for a log without an arena.
fn arguments<'a>(log: &'a Log, arenas: &'a Log, more: &[&'a str]) -> Vec<&'a str> {
    let arenas = arenas.path().to_str().unwrap();
    let fixed = ["top", log.path().to_str().unwrap(), "--arena-directory", arenas];
    [&fixed, more].concat()
}

#[test]
fn statements_of_the_window_are_grouped_and_ordered() {
    let (log, arenas) = (Log::new(), Log::new());
    let short = r#""outcome":"ok","conn":7,"user":"app","sql":"SELECT 1","query_time_us":1000"#;
    let long = r#""outcome":"error","errno":1205,"conn":8,"user":"batch","sql":"DELETE FROM t","query_time_us":2000000"#;
    log.append(FILE, line(1, seconds(7200), short));
    for seq in 2..5 {
        log.append(FILE, line(seq, seconds(20), short));
    }
    log.append(FILE, line(5, seconds(10), long));
    let running =
        r#""outcome":"running","conn":9,"user":"bi","db":"shop","sql":"SELECT COUNT(*) FROM big""#;
    log.append(FILE, line(6, seconds(15), running));
    let once = ["--batch", "--updates", "1", "--by", "user"];
    let output = tacho(&arguments(&log, &arenas, &once));
    let shown = stdout(&output);
    assert_eq!((output.status.code(), &*stderr(&output)), (Some(0), ""), "{shown}");
    assert!(shown.contains("last 1m00s: 4 statements, 0.1/s; 1 error; "), "{shown}");
    assert!(shown.contains("RUNNING: 1\n"), "{shown}");
    let rows: Vec<Vec<&str>> =
        shown.lines().map(|line| line.split_whitespace().collect()).collect();
    let at = |word: &str| rows.iter().position(|row| row.first() == Some(&word)).expect(word);
    assert_eq!(rows[at("9")][1..4], ["bi", "-", "shop"], "{shown}");
    assert_eq!(rows[at("9")][5..], ["SELECT", "COUNT(*)", "FROM", "big"], "{shown}");
    // By time: the failed one took longer.
    assert!(at("batch") < at("app"), "{shown}");
    assert_eq!(rows[at("app")][1..3], ["3", "0"], "{shown}");
    assert_eq!(rows[at("batch")][1..3], ["1", "1"], "{shown}");

    let filtered = [&once[..], &["--sort", "count", "--user", "app"]].concat();
    let shown = stdout(&tacho(&arguments(&log, &arenas, &filtered)));
    assert!(shown.contains(": 3 statements") && !shown.contains("batch"), "{shown}");
    let hour = [&once[..], &["--window", "1h"]].concat();
    let shown = stdout(&tacho(&arguments(&log, &arenas, &hour)));
    assert!(shown.contains(": 4 statements"), "{shown}");
}

#[test]
fn new_lines_count_and_losses_are_shown() {
    let (log, arenas) = (Log::new(), Log::new());
    let rest = r#""outcome":"ok","conn":7,"user":"app","sql":"SELECT 1","query_time_us":1000"#;
    log.append(FILE, line(1, seconds(1), rest));
    let following = Following::run(&arguments(&log, &arenas, &["--interval", "50ms"]));
    let wait_for = |text: &str| while !following.next().contains(text) {};
    wait_for("1 statement, ");
    log.append(FILE, line(2, seconds(0), rest));
    wait_for("2 statements, ");
    let ts = Timestamp::now();
    let lost = format!(
        r#"{{"v":1,"seq":3,"ts":"{ts:.6}","event":"lost","cause":"dropped","count":12,"start_ts":"{ts:.6}"}}"#
    );
    log.append(FILE, lost + "\n");
    wait_for("LOST in this time: 12 records (dropped)");
    log.append(FILE, "no line\n");
    wait_for("broken line");
    let (code, _rest, errors) = following.end("-INT");
    assert_eq!((code, &*errors), (Some(0), ""));
}

#[test]
fn a_log_that_is_missing_is_wrong_usage() {
    let output = tacho(&["top", "/nonexistent", "--batch"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("cannot read the log /nonexistent"), "{}", stderr(&output));
    for wrong in ["0s", "2h"] {
        assert_eq!(tacho(&["top", "--window", wrong]).status.code(), Some(2), "{wrong}");
    }
}

/// A program with a terminal of its own.
struct Session {
    terminal: File,
    child: Child,
    shown: String,
}

impl Session {
    fn start(args: &[&str], columns: u16) -> Self {
        let main = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&main).unwrap();
        unlockpt(&main).unwrap();
        let name = ptsname(&main, Vec::new()).unwrap().into_string().unwrap();
        let size = Winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&main, size).unwrap();
        let side =
            || -> OwnedFd { File::options().read(true).write(true).open(&name).unwrap().into() };
        let mut command = command(args);
        command.stdin(Stdio::from(side())).stdout(Stdio::from(side()));
        let child = command.spawn().unwrap();
        Self { terminal: main.into(), child, shown: String::new() }
    }

    /// Reads until the terminal has shown a text.
    fn wait_for(&mut self, text: &str) {
        let mut bytes = [0; 4096];
        while !self.shown.contains(text) {
            let count = self.terminal.read(&mut bytes).expect(text);
            self.shown.push_str(&String::from_utf8_lossy(&bytes[..count]));
        }
        self.shown.clear();
    }

    fn press(&mut self, key: &str) {
        self.terminal.write_all(key.as_bytes()).unwrap();
    }
}

impl Drop for Session {
    /// A failed test must not leave a process behind.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn keys_change_what_is_shown_and_the_terminal_is_restored() {
    let (log, arenas) = (Log::new(), Log::new());
    let rest = r#""outcome":"ok","conn":7,"user":"app","sql":"SELECT 1","digest":"1:5c","query_time_us":1000"#;
    log.append(FILE, line(1, seconds(1), rest));
    let mut session = Session::start(&arguments(&log, &arenas, &["--interval", "100ms"]), 100);
    session.wait_for("ENDED, by digest, ordered by time");
    for (key, text) in [
        ("c", "ordered by count"),
        (">", "ordered by errors"),
        ("<", "ordered by count"),
        ("u", "ENDED, by user"),
        ("?", "Any key: back"),
        (" ", "ENDED, by user"),
        (" ", "PAUSED at"),
        ("m", "ordered by longest time"),
        // An arrow is not a key of this program.
        ("\x1b[A", "PAUSED at"),
    ] {
        session.press(key);
        session.wait_for(text);
    }
    let modes = |session: &Session| tcgetattr(&session.terminal).unwrap().local_modes;
    assert!(!modes(&session).contains(LocalModes::ECHO));
    session.press("q");
    session.wait_for("\x1b[?1049l");
    assert_eq!(session.child.wait().unwrap().code(), Some(0));
    assert!(modes(&session).contains(LocalModes::ECHO | LocalModes::ICANON));
}
