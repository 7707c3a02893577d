//! `tacho capture --interface`, in a network namespace of its own: a pair of interfaces, of which
//! one is captured, and the packets of a connection are sent into the other one.

use std::io::{BufRead as _, BufReader};
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::{Duration, Instant};

use etherparse::PacketBuilder;
use serde_json::Value;

/// Only a hang lasts this long; otherwise no test depends on time.
pub const PATIENCE: Duration = Duration::from_secs(600);
pub const SERVER: &str = "10.9.0.2:3306";
pub const OK: &[u8] = b"\0\0\0\x02\0\0\0";

/// Set in the process in the namespace.
const INSIDE: &str = "TACHO_TEST_NAMESPACE";

/// Runs a test in a user and network namespace: with the capabilities for its network, as a user or
/// as root, or without any. The same program is executed there, with only this test.
pub fn in_namespace(user: &str, test: &str, inside: fn()) {
    if std::env::var_os(INSIDE).is_some() {
        return inside();
    }
    let map: &[&str] = match user {
        "root" => &["--map-root-user"],
        "unprivileged" => &["--map-user=1000", "--map-group=1000"],
        _ => &["--map-user=1000", "--map-group=1000", "--keep-caps"],
    };
    let output = Command::new("unshare")
        .args([&["--user", "--net"], map].concat())
        .arg(std::env::current_exe().expect("this program"))
        .args(["--exact", test, "--nocapture"])
        .env(INSIDE, "1")
        .output()
        .expect("unshare");
    let text = String::from_utf8_lossy(&output.stdout);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{text}\n{said}");
}

pub fn ip(args: &str) {
    let status = Command::new("ip").args(args.split(' ')).status().expect("ip");
    assert!(status.success(), "ip {args}");
}

/// The interface `v0` to capture, and `v1` to send into.
pub fn make_interfaces() {
    ip("link add v0 type veth peer name v1");
    ip("link set v0 up");
    ip("link set v1 up");
    wait_for_state("UP");
}

/// Waits until `v0` is in this state: the kernel follows a changed link up to a second later.
pub fn wait_for_state(state: &str) {
    let since = Instant::now();
    loop {
        let output = Command::new("ip").args(["-o", "link", "show", "v0"]).output().expect("ip");
        let shown = String::from_utf8_lossy(&output.stdout);
        if shown.contains(&format!(" state {state} ")) {
            return;
        }
        assert!(since.elapsed() < PATIENCE, "{shown}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A running `tacho capture`.
pub struct Capture {
    pub child: Child,
    said: BufReader<ChildStderr>,
    log: PathBuf,
}

impl Capture {
    pub fn start(directory: &Path) -> Capture {
        Capture::start_with(directory, &[])
    }

    pub fn start_with(directory: &Path, options: &[&str]) -> Capture {
        let log = directory.join("log");
        let mut child = Command::new(env!("CARGO_BIN_EXE_tacho"))
            .args(["capture", "--interface", "v0", "--server", SERVER, "--utc"])
            .args(["--ring-size", "32MiB", "--log", log.to_str().unwrap()])
            .args(["--metrics-file", directory.join("m.prom").to_str().unwrap()])
            .args(["--arena-directory", directory.to_str().unwrap()])
            .args(options)
            .stderr(Stdio::piped())
            .spawn()
            .expect("tacho");
        let said = BufReader::new(child.stderr.take().unwrap());
        let mut capture = Capture { child, said, log };
        capture.wait_for_message("capturing on v0");
        capture
    }

    pub fn wait_for_message(&mut self, text: &str) {
        let mut said = String::new();
        while self.said.read_line(&mut said).expect("its messages") > 0 {
            if said.contains(text) {
                return;
            }
        }
        panic!("it ended and never said {text:?}: {said}");
    }

    pub fn lines(&self) -> Vec<Value> {
        let files = std::fs::read_dir(&self.log).expect("the log");
        let mut files = files.map(|entry| entry.unwrap().path()).collect::<Vec<_>>();
        files.retain(|path| path.extension().is_some_and(|it| it == "jsonl"));
        files.sort();
        let text = files.iter().map(|path| std::fs::read_to_string(path).expect("the log"));
        let text = text.collect::<String>();
        // The last one may still be written.
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    pub fn wait_for_line(&self, wanted: impl Fn(&Value) -> bool) -> Value {
        let since = Instant::now();
        loop {
            let lines = self.lines();
            if let Some(line) = lines.iter().find(|line| wanted(line)) {
                return line.clone();
            }
            assert!(since.elapsed() < PATIENCE, "{lines:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    pub fn wait_for_statement(&self, sql: &str) -> Value {
        self.wait_for_line(|line| line["event"] == "statement" && line["sql"] == sql)
    }

    /// Waits until the start of a statement is in the arena: it has no line before its end.
    pub fn wait_for_start(&self, arenas: &Path, sql: &str) {
        let since = Instant::now();
        loop {
            let files = std::fs::read_dir(arenas).expect("the arenas");
            let files = files.map(|entry| entry.unwrap().path());
            for file in files.filter(|path| path.extension().is_some_and(|it| it == "arena")) {
                let shown = ["arena", file.to_str().unwrap(), "--records", "all"];
                if crate::support::stdout(&crate::support::tacho(&shown)).contains(sql) {
                    return;
                }
            }
            assert!(since.elapsed() < PATIENCE, "no {sql} in the arena");
        }
    }

    pub fn signal(&self, signal: i32) {
        // SAFETY: a child process that was not waited for yet.
        assert_eq!(unsafe { libc::kill(self.child.id() as i32, signal) }, 0);
    }

    pub fn stop(mut self) -> Vec<Value> {
        self.signal(libc::SIGTERM);
        assert!(self.child.wait().expect("its end").success());
        self.lines()
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        // Already reaped, unless a test has failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn packet(seq: u8, payload: &[u8]) -> Vec<u8> {
    [&(payload.len() as u32).to_le_bytes()[..3], &[seq], payload].concat()
}

/// What is different about a segment.
#[derive(Clone, Copy, Default)]
pub struct Odd {
    syn: bool,
    is_first: bool,
    /// Its checksum is wrong.
    is_damaged: bool,
    /// The IP header says that it is longer than its frame.
    is_too_long: bool,
}

/// A connection, whose packets are sent into `v1`.
pub struct Wire {
    socket: OwnedFd,
    port: u16,
    next: [u32; 2],
    /// VLAN tags of its frames.
    pub tags: usize,
}

impl Wire {
    pub fn open(port: u16) -> Wire {
        // SAFETY: no pointers; the result is checked.
        let socket = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW, 0) };
        assert!(socket >= 0, "{}", std::io::Error::last_os_error());
        // SAFETY: a fresh descriptor that nothing else owns.
        let socket = unsafe { OwnedFd::from_raw_fd(socket) };
        // SAFETY: all-zero bytes are a valid address; the name is terminated.
        let address = unsafe {
            let mut address: libc::sockaddr_ll = std::mem::zeroed();
            address.sll_family = libc::AF_PACKET as u16;
            address.sll_ifindex = libc::if_nametoindex(c"v1".as_ptr()) as i32;
            address
        };
        let bytes = size_of_val(&address) as u32;
        // SAFETY: the pointer is valid for that many bytes.
        let rc = unsafe {
            let address = std::ptr::from_ref(&address).cast();
            libc::bind(socket.as_raw_fd(), address, bytes)
        };
        assert_eq!(rc, 0, "{}", std::io::Error::last_os_error());
        Wire { socket, port, next: [1_000, 2_000], tags: 0 }
    }

    /// A session after its login.
    pub fn log_in(port: u16) -> Wire {
        Wire::open(port).log_in_here()
    }

    pub fn log_in_here(self) -> Wire {
        let mut wire = self;
        wire.send(0, b"", Odd { syn: true, is_first: true, ..Odd::default() });
        wire.next[0] += 1;
        wire.send(1, b"", Odd { syn: true, ..Odd::default() });
        wire.next[1] += 1;
        let caps = [0, 2];
        let greeting = b"\x0a8.0.1\0\x07\0\0\0saltsalt\0";
        let greeting = [&greeting[..], &caps, &[33, 2, 0, 0, 0], &[0; 11]].concat();
        let login = [&caps[..], &[0; 5], &[1, 45], &[0; 23], b"me\0password\0"].concat();
        wire.server(&packet(0, &greeting)).client(&packet(1, &login)).server(&packet(2, OK));
        wire
    }

    fn send(&self, side: usize, payload: &[u8], odd: Odd) {
        let (client, server) = (([10, 9, 0, 1], self.port), ([10, 9, 0, 2], 3306));
        let (from, to) = if side == 0 { (client, server) } else { (server, client) };
        let builder = PacketBuilder::ethernet2([2; 6], [0xff; 6]).ipv4(from.0, to.0, 64).tcp(
            from.1,
            to.1,
            self.next[side],
            1_000,
        );
        let builder = if odd.syn { builder.syn() } else { builder };
        let builder = if odd.is_first { builder } else { builder.ack(self.next[1 - side]) };
        let mut frame = Vec::new();
        builder.write(&mut frame, payload).expect("a frame");
        if odd.is_damaged {
            frame[14 + 20 + 16] ^= 1;
        }
        if odd.is_too_long {
            frame[14 + 3] += 1;
        }
        let tags = [0x81, 0, 0, 5].repeat(self.tags);
        frame.splice(12..12, tags);
        // SAFETY: the pointer is valid for that many bytes.
        let sent =
            unsafe { libc::send(self.socket.as_raw_fd(), frame.as_ptr().cast(), frame.len(), 0) };
        assert_eq!(usize::try_from(sent), Ok(frame.len()), "{}", std::io::Error::last_os_error());
    }

    pub fn client(&mut self, payload: &[u8]) -> &mut Wire {
        self.send(0, payload, Odd::default());
        self.next[0] += payload.len() as u32;
        self
    }

    pub fn server(&mut self, payload: &[u8]) -> &mut Wire {
        self.send(1, payload, Odd::default());
        self.next[1] += payload.len() as u32;
        self
    }

    pub fn statement(&mut self, text: &str) -> &mut Wire {
        self.client(&query(text)).server(&packet(1, OK))
    }
}

pub fn query(text: &str) -> Vec<u8> {
    packet(0, &[b"\x03", text.as_bytes()].concat())
}

pub fn of<'l>(lines: &'l [Value], event: &str) -> Vec<&'l Value> {
    lines.iter().filter(|line| line["event"] == event).collect()
}

#[test]
fn what_the_server_discards_is_not_recorded() {
    in_namespace("user", "capture_live::what_the_server_discards_is_not_recorded", inside_forged);
}

fn inside_forged() {
    make_interfaces();
    let directory = tempfile::tempdir().expect("a directory");
    let capture = Capture::start(directory.path());
    let mut wire = Wire::log_in(7001);
    let (is_damaged, is_too_long) = (true, true);
    wire.send(0, &query("SELECT 'forged 1'"), Odd { is_damaged, ..Odd::default() });
    wire.statement("SELECT 'true 1'  ");
    wire.send(0, &query("SELECT 'forged 2'"), Odd { is_too_long, ..Odd::default() });
    wire.statement("SELECT 'true 2'  ");
    capture.wait_for_statement("SELECT 'true 2'");
    let lines = capture.stop();
    let statements = of(&lines, "statement");
    let statements = statements.iter().map(|line| line["sql"].as_str().unwrap());
    assert_eq!(statements.collect::<Vec<_>>(), ["SELECT 'true 1'", "SELECT 'true 2'"]);
    assert_eq!(of(&lines, "lost"), Vec::<&Value>::new());
}

#[test]
fn an_interface_that_is_made_again_is_captured_again() {
    in_namespace(
        "user",
        "capture_live::an_interface_that_is_made_again_is_captured_again",
        inside_new_interface,
    );
}

fn inside_new_interface() {
    make_interfaces();
    let directory = tempfile::tempdir().expect("a directory");
    let mut capture = Capture::start(directory.path());
    Wire::log_in(7001).statement("SELECT 'before'");
    capture.wait_for_statement("SELECT 'before'");
    ip("link del v0");
    capture.wait_for_message("there is no interface v0 any more");
    make_interfaces();
    capture.wait_for_message("capturing on the new interface v0");
    Wire::log_in(7002).statement("SELECT 'after'");
    capture.wait_for_statement("SELECT 'after'");
    let lines = capture.stop();
    let lost = of(&lines, "lost");
    assert_eq!(lost.len(), 1, "{lost:?}");
    assert_eq!((&lost[0]["cause"], &lost[0]["source"]), (&"interface".into(), &"capture".into()));
    assert!(lost[0]["start_ts"].as_str() < lost[0]["ts"].as_str(), "{}", lost[0]);
}

#[test]
fn the_time_without_a_capture_is_declared() {
    in_namespace("user", "capture_live::the_time_without_a_capture_is_declared", inside_restart);
}

fn inside_restart() {
    make_interfaces();
    let directory = tempfile::tempdir().expect("a directory");
    let mut capture = Capture::start(directory.path());
    let mut wire = Wire::log_in(7001);
    wire.statement("SELECT 'before'");
    let before = capture.wait_for_statement("SELECT 'before'");
    assert_eq!(of(&capture.lines(), "lost"), Vec::<&Value>::new(), "there was no capture before");
    // It runs on when it is killed, and has written nothing of it yet.
    wire.client(&query("SELECT 'running'"));
    capture.wait_for_start(directory.path(), "SELECT 'running'");
    capture.signal(libc::SIGKILL);
    capture.child.wait().expect("its end");
    wire.server(&packet(1, OK)).statement("SELECT 'unseen'");
    let capture = Capture::start(directory.path());
    let recovered = capture.wait_for_statement("SELECT 'running'");
    assert_eq!(recovered["outcome"], "interrupted", "{recovered}");
    let lost = capture.wait_for_line(|line| line["cause"] == "not_running");
    assert!(before["ts"].as_str() <= lost["start_ts"].as_str(), "{before} {lost}");
    assert!(lost["start_ts"].as_str() < lost["ts"].as_str(), "{lost}");
    wire.statement("SELECT 'first'").statement("SELECT 'second'");
    capture.wait_for_statement("SELECT 'second'");
    let stopped = capture.stop();
    assert_eq!(of(&stopped, "lost").iter().filter(|it| it["cause"] == "not_running").count(), 1);
    assert!(!stopped.iter().any(|line| line["sql"] == "SELECT 'unseen'"));
    // After an orderly end too: from its `stop` line on.
    let stop = of(&stopped, "stop").last().map(|line| line["ts"].clone()).expect("a stop line");
    let capture = Capture::start(directory.path());
    let lost = capture.wait_for_line(|line| {
        line["cause"] == "not_running" && line["seq"].as_u64() > Some(stopped.len() as u64)
    });
    assert_eq!(lost["start_ts"], stop, "{lost}");
    capture.stop();
}

#[test]
fn its_counters_are_in_a_file() {
    in_namespace("user", "capture_live::its_counters_are_in_a_file", inside_counters);
}

fn inside_counters() {
    make_interfaces();
    let directory = tempfile::tempdir().expect("a directory");
    let capture = Capture::start(directory.path());
    // A connection that is joined in its middle, and is not understood.
    Wire::open(7002).server(&packet(1, OK)).client(b"text");
    Wire::log_in(7001).statement("SELECT 1").statement("SELECT 2");
    capture.wait_for_statement("SELECT 2");
    capture.stop();
    // At the end they are complete.
    let file = std::fs::read_to_string(directory.path().join("m.prom")).expect("the counters");
    let value = |name: &str| {
        let line = file.lines().find(|line| line.starts_with(&format!("tacho_capture_{name}{{")));
        let value = line.and_then(|line| line.rsplit(' ').next()?.parse::<u64>().ok());
        value.unwrap_or_else(|| panic!("{name}: {file}"))
    };
    assert_eq!((value("statements_total"), value("logins_total")), (2, 1), "{file}");
    assert_eq!((value("connections_total"), value("interface_up")), (2, 1), "{file}");
    assert!(value("packets_total") >= 9, "{file}");
    let lost = "tacho_capture_lost_lines_total{interface=\"v0\",cause=\"resync\"} 1";
    assert!(file.lines().any(|line| line == lost), "{file}");
}

/// No privilege is left when packets are decoded.
#[test]
fn it_gives_up_its_capabilities() {
    in_namespace("user", "capture_live::it_gives_up_its_capabilities", inside_capabilities);
}

fn inside_capabilities() {
    make_interfaces();
    let directory = tempfile::tempdir().expect("a directory");
    let capture = Capture::start(directory.path());
    let status = format!("/proc/{}/status", capture.child.id());
    let status = std::fs::read_to_string(status).expect("its status");
    let value = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name)).expect(name);
        line.split_whitespace().nth(1).unwrap().to_owned()
    };
    for set in ["CapInh:", "CapPrm:", "CapEff:", "CapAmb:"] {
        assert_eq!(value(set), "0000000000000000", "{set}");
    }
    assert_eq!((&*value("NoNewPrivs:"), &*value("Seccomp:")), ("1", "2"));
    capture.stop();
}

#[test]
fn it_does_not_decode_packets_as_root() {
    in_namespace("root", "capture_live::it_does_not_decode_packets_as_root", inside_as_root);
}

fn inside_as_root() {
    make_interfaces();
    let directory = tempfile::tempdir().expect("a directory");
    let log = directory.path().join("log");
    let log = log.to_str().unwrap();
    let capture = ["capture", "--interface", "v0", "--server", SERVER, "--log", log];
    let refused = |args: &[&str], why: &str| {
        let output = crate::support::tacho(&[&capture, args].concat());
        let said = crate::support::stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(why), "{said}");
        assert!(!Path::new(log).exists());
    };
    refused(&[], "belongs to root, and packets must not be decoded as root");
    refused(&["--user", "root"], "must not be decoded as root");
    refused(&["--user", "no-such-user"], "cannot switch to the user no-such-user");
}

/// A log that cannot be sealed is not begun.
#[test]
fn it_needs_a_place_for_its_key() {
    in_namespace("user", "capture_live::it_needs_a_place_for_its_key", inside_key);
}

fn inside_key() {
    make_interfaces();
    let directory = tempfile::tempdir().expect("a directory");
    let log = directory.path().join("log");
    let output = crate::support::tacho(&[
        "capture",
        "--interface",
        "v0",
        "--server",
        SERVER,
        "--log",
        log.to_str().unwrap(),
        "--signing-key-file",
        "/proc/tacho-signing.key",
    ]);
    let said = crate::support::stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("cannot make or read the signing key"), "{said}");
}
