//! The command `tacho-hub` as a process.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

const HUB: &str = env!("CARGO_BIN_EXE_tacho-hub");

/// A hub that is killed when the test ends.
struct Hub {
    child: Child,
    address: String,
}

impl Hub {
    fn start(data: &Path) -> Self {
        let mut child = Command::new(HUB)
            .args(["serve", "--listen", "127.0.0.1:0", "--data"])
            .arg(data)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let (_, address) = line.trim_end().split_once("http://").unwrap();
        Self { address: address.to_owned(), child }
    }

    fn get(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let head = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn it_serves_and_stops_in_order() {
    let directory = tempfile::tempdir().unwrap();
    let mut hub = Hub::start(directory.path());
    assert!(hub.get("/healthz").starts_with("HTTP/1.1 200"));
    let pid = hub.child.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    assert_eq!(hub.child.wait().unwrap().code(), Some(0));
}

#[test]
fn two_hubs_do_not_share_a_directory() {
    let directory = tempfile::tempdir().unwrap();
    let _hub = Hub::start(directory.path());
    let second = Command::new(HUB)
        .args(["serve", "--listen", "127.0.0.1:0", "--data"])
        .arg(directory.path())
        .output()
        .unwrap();
    assert_eq!(second.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&second.stderr).contains("another tacho-hub"));
}

#[test]
fn a_token_is_made_beside_a_running_hub() {
    let directory = tempfile::tempdir().unwrap();
    let _hub = Hub::start(directory.path());
    let create = |more: &[&str]| {
        let mut command = Command::new(HUB);
        command.args(["token", "create", "--data"]).arg(directory.path()).args(more);
        command.output().unwrap()
    };
    let made = create(&["--role", "agent", "--server", "db1"]);
    assert!(String::from_utf8(made.stdout).unwrap().starts_with("tacho_"));
    assert_eq!(create(&["--role", "agent"]).status.code(), Some(1));
    assert_eq!(create(&["--role", "king"]).status.code(), Some(2));
}

#[test]
fn without_tls_it_listens_only_on_loopback() {
    let directory = tempfile::tempdir().unwrap();
    let output = Command::new(HUB)
        .args(["serve", "--listen", "0.0.0.0:0", "--data"])
        .arg(directory.path())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("loopback"));
}
