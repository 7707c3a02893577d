//! Thousands of connections of strangers: shipping continues, and the hub stays small.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::fd::OwnedFd;

use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
use rustix::process::{Resource, getrlimit, setrlimit};

use crate::hub::{Hub, Shipping, assert_same};
use crate::recorder::sealed;
use crate::shipping::Log;

/// As many connections as one address may have.
const PER_ADDRESS: usize = 256;
/// Nearly as many as the hub accepts at all (`CONNECTIONS_MAX`).
const CROWD: usize = 9_900;
/// Files that the test and the hub need beside the connections.
const OTHER_FILES: u64 = 100;
/// Memory of a hub with a crowd, kB: what it needs without one, and some kB for each connection.
const MEMORY_KB_MAX: u64 = 400_000;

/// From an address of its own on the loopback network.
fn connect_from(source: Ipv4Addr, hub: SocketAddr) -> TcpStream {
    let socket: OwnedFd = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    bind(&socket, &SocketAddr::from((source, 0))).unwrap();
    connect(&socket, &hub).unwrap();
    socket.into()
}

fn memory_kb(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Raises this process's limit of open files, and those of its children.
fn allow_files(count: u64) {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).unwrap();
    let maximum = limit.maximum.unwrap_or(u64::MAX);
    assert!(maximum >= count, "this test needs {count} open files: ulimit -Hn {count}");
}

#[test]
fn ten_thousand_connections_stop_nothing() {
    allow_files(CROWD as u64 + OTHER_FILES);
    let hub = Hub::start();
    let address: SocketAddr = hub.address.parse().unwrap();
    let mut crowd = Vec::with_capacity(CROWD);
    for number in 0..CROWD {
        let [high, low] = u16::try_from(number / PER_ADDRESS).unwrap().to_be_bytes();
        let mut stream = connect_from(Ipv4Addr::new(127, 1, high, low), address);
        // A request that does not end.
        stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\nX: ").unwrap();
        crowd.push(stream);
    }
    // One more of an address is closed at once, while the others are open.
    let mut extra = connect_from(Ipv4Addr::new(127, 1, 0, 0), address);
    assert_eq!(extra.read(&mut [0; 1]).unwrap_or(0), 0);
    crowd[0].set_nonblocking(true).unwrap();
    let open = crowd[0].read(&mut [0; 1]).map_err(|error| error.kind());
    assert_eq!(open, Err(ErrorKind::WouldBlock), "the crowd took too long to come");

    let log = Log::new(sealed());
    let (verdict, said) = Shipping::start(&hub, log.path(), "db1", true).finish();
    assert_eq!(verdict.problem_count, 0, "{said}");
    assert_same(log.path(), &hub.replica("db1", 1));
    assert!(hub.get("/healthz", "").starts_with("HTTP/1.1 200"));
    let memory_kb = memory_kb(hub.pid());
    assert!(memory_kb < MEMORY_KB_MAX, "{memory_kb} kB");
    println!("{memory_kb} kB with {CROWD} connections");
}
