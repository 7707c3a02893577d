//! `tacho capture --check`, in a network namespace as in `capture_live.rs`.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::capture_live::{
    SERVER, Wire, in_namespace, ip, make_interfaces, packet, wait_for_state,
};
use crate::support::{stderr, stdout, tacho};

/// Only a hang lasts this long; otherwise no test depends on time.
const PATIENCE: Duration = Duration::from_secs(600);
/// A record of TLS.
const TLS: &[u8] = b"\x17\x03\x03\0\x05hello";

/// A check that listens for longer than any test takes.
struct Check {
    child: Child,
    _said: BufReader<ChildStderr>,
}

impl Check {
    fn start(args: &[&str]) -> Check {
        let mut child = Command::new(env!("CARGO_BIN_EXE_tacho"))
            .args(["capture", "--check", "--interface", "v0", "--check-time", "50m"])
            .args(["--ring-size", "32MiB"])
            .args(args)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("tacho");
        let mut said = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        said.read_line(&mut line).expect("its messages");
        assert!(line.contains("listening on v0"), "{line}");
        Check { child, _said: said }
    }

    /// Ends it after this number of packets has arrived. Returns its exit code and its result.
    fn stop(mut self, packets: u64) -> (i32, String) {
        let since = Instant::now();
        while arrived() < packets {
            assert!(since.elapsed() < PATIENCE, "{} packets", arrived());
            std::thread::yield_now();
        }
        // SAFETY: a child process that was not waited for yet.
        assert_eq!(unsafe { libc::kill(self.child.id() as i32, libc::SIGTERM) }, 0);
        let mut result = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut result).expect("its result");
        let code = self.child.wait().expect("its end").code().expect("no signal");
        (code, result)
    }

    fn json(packets: u64, run: impl FnOnce()) -> (i32, Value) {
        let check = Check::start(&["--server", SERVER, "--format", "json"]);
        run();
        let (code, result) = check.stop(packets);
        (code, serde_json::from_str(&result).expect("JSON"))
    }
}

impl Drop for Check {
    fn drop(&mut self) {
        // Already reaped, unless a test has failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Packets that have arrived at `v0`.
fn arrived() -> u64 {
    let interfaces = std::fs::read_to_string("/proc/self/net/dev").expect("the interfaces");
    let line = interfaces.lines().find_map(|line| line.trim().strip_prefix("v0:"));
    let packets = line.expect("v0").split_whitespace().nth(1).expect("its packets");
    packets.parse().expect("a number")
}

#[test]
fn a_check_shows_what_would_be_recorded() {
    let name = "capture_check::a_check_shows_what_would_be_recorded";
    in_namespace("user", name, inside_recorded);
}

fn inside_recorded() {
    make_interfaces();
    // No server is named: it is found by its greeting.
    let check = Check::start(&["--format", "json"]);
    let before = arrived();
    Wire::log_in(7001).statement("SELECT 1").statement("SELECT 2");
    Wire::open(7002).server(TLS).client(TLS);
    let (code, result) = check.stop(before + 11);
    let result = serde_json::from_str::<Value>(&result).expect("JSON");
    assert_eq!(code, 0, "{result}");
    assert_eq!((&result["recorded"], &result["reason"]), (&true.into(), &"recorded".into()));
    let counts = &result["counts"];
    assert_eq!((&counts["statements"], &counts["logins"]), (&2.into(), &1.into()), "{result}");
    assert_eq!((&counts["connections"], &counts["encrypted"]), (&2.into(), &1.into()));
    let server = &result["servers"][SERVER];
    assert_eq!((&server["version"], &server["statements"]), (&"8.0.1".into(), &2.into()));
    assert!(result["notes"][0].as_str().is_some_and(|it| it.starts_with("1 of 2 connections")));
    let interface = &result["interface"];
    assert_eq!((&interface["name"], &interface["is_up"]), (&"v0".into(), &true.into()));
    assert_eq!((&interface["link"], &interface["mtu"]), (&"Ethernet".into(), &1500.into()));

    // The same for a reader, with a session that began before.
    let account = ["--enrich-socket", "/nosuch/socket", "--enrich-user", "me"];
    let check = Check::start(&[&["--server", SERVER], &account[..]].concat());
    let before = arrived();
    let mut wire = Wire::open(7003);
    wire.server(b"\x07\0\0\x01\0\0\0\x02\0\0\0").statement("SELECT 1");
    let (code, result) = check.stop(before + 3);
    assert_eq!(code, 0, "{result}");
    for line in [
        "interface: v0 is up, Ethernet, MTU 1500",
        "server 10.9.0.2:3306: version unknown",
        "note: 1 session began before: records say `partial`, the server would be asked",
        "note: cannot ask the server at /nosuch/socket: ",
        "result: statements would be recorded",
    ] {
        assert!(result.contains(line), "{line}: {result}");
    }
}

#[test]
fn a_check_says_why_nothing_would_be_recorded() {
    let name = "capture_check::a_check_says_why_nothing_would_be_recorded";
    in_namespace("user", name, inside_not_recorded);
}

fn inside_not_recorded() {
    make_interfaces();
    let reason = |packets, run: &dyn Fn()| {
        let (code, result) = Check::json(arrived() + packets, run);
        assert_eq!((code, &result["recorded"]), (1, &false.into()), "{result}");
        assert!(result["result"].as_str().is_some_and(|it| it.starts_with("no statement would")));
        result["reason"].as_str().expect("a reason").to_owned()
    };
    assert_eq!(reason(0, &|| {}), "no_packets");
    let encrypted = || {
        Wire::open(7001).server(TLS).client(TLS);
    };
    assert_eq!(reason(2, &encrypted), "encrypted");
    let ping = packet(0, b"\x0e");
    let by_client = || {
        Wire::open(7002).client(&ping);
    };
    assert_eq!(reason(1, &by_client), "only_clients");
    let by_server = || {
        Wire::open(7003).server(&ping);
    };
    assert_eq!(reason(1, &by_server), "only_servers");
    let login = || {
        Wire::log_in(7004);
    };
    assert_eq!(reason(5, &login), "no_commands");
    ip("link set v1 down");
    wait_for_state("LOWERLAYERDOWN");
    assert_eq!(reason(0, &|| {}), "interface_down");
}

#[test]
fn a_check_without_privileges_says_how_to_get_them() {
    let name = "capture_check::a_check_without_privileges_says_how_to_get_them";
    in_namespace("unprivileged", name, inside_unprivileged);
}

fn inside_unprivileged() {
    let check = ["capture", "--check", "--interface", "lo"];
    let output = tacho(&check);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let result = stdout(&output);
    assert!(result.contains("interface: lo is down, loopback"), "{result}");
    assert!(result.contains("setcap cap_net_raw=ep"), "{result}");
    let output = tacho(&[&check[..], &["--format", "json"]].concat());
    let result = serde_json::from_str::<Value>(&stdout(&output)).expect("JSON");
    assert_eq!(result["reason"], "no_privileges");
}

#[test]
fn a_check_does_not_decode_packets_as_root() {
    let name = "capture_check::a_check_does_not_decode_packets_as_root";
    in_namespace("root", name, inside_as_root);
}

fn inside_as_root() {
    let output = tacho(&["capture", "--check", "--interface", "lo", "--user", "root"]);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(stderr(&output).contains("must not be decoded as root"), "{}", stderr(&output));
}

#[test]
fn wrong_usage_of_a_check_is_refused() {
    for (args, why) in [
        (&["--check"][..], "--interface"),
        (&["--check", "--read", "f"], "--check"),
        (&["--check", "--interface", "no-such-if"], "there is no interface no-such-if"),
        (&["--read", "f", "--format", "json"], "--format is for --check"),
        (&["--interface", "lo", "--server", SERVER], "--log"),
        (&["--interface", "lo", "--log", "d"], "--server"),
        (&["--interface", "lo", "--check-time", "1s"], "--check"),
    ] {
        let output = tacho(&[&["capture"], args].concat());
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(why), "{args:?}: {}", stderr(&output));
    }
}
