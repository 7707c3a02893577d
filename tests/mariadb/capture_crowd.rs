//! Ten thousand sessions at once, opened as fast as the server accepts them, beside segments of
//! connections that never begin and garbage on the server's port: each session has all its records.

use std::collections::HashMap;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddrV4, TcpStream};
use std::path::Path;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, ipproto};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tacho_tests::captured::{Capture, count, counter, lines};
use tacho_tests::client::Queryable as _;
use tacho_tests::raw::{Login, Raw, com};
use tacho_tests::recording::Recording;
use tacho_tests::{leave_out, namespace, unused_directory, wait};

const SESSIONS: u32 = 10_000;
/// Clients that open them at the same time.
const CLIENTS: usize = 8;
/// They are followed by SYNs after so many.
const GROUP: u32 = 100;
/// SYNs for each session that is opened. All of them are more than a capture follows.
const SYNS_EACH: u32 = 15;
/// Connections that a capture follows at most.
const FOLLOWED: u64 = 100_000;
const GARBAGE: usize = 300;
/// The first of 2^17 addresses for tests of networks (RFC 2544).
const FOREIGN: u32 = u32::from_be_bytes([198, 18, 0, 0]);
/// Private memory of the capture: up to 2 KiB for each connection that it follows, and that of the
/// recorder. All sessions together have no text of more than a few hundred KiB.
const MEMORY_KIB: u64 = 2 * FOLLOWED + (128 << 10);

/// Lets this process and the server, which inherits it, have a file for each session. `false`: the
/// machine does not permit it.
fn raise_limit() -> bool {
    let wanted = u64::from(SESSIONS) + 1_000;
    let limit = getrlimit(Resource::Nofile);
    let is_permitted = limit.maximum.is_none_or(|maximum| maximum >= wanted);
    let raised = Rlimit { current: limit.current.map(|it| it.max(wanted)), ..limit };
    is_permitted && setrlimit(Resource::Nofile, raised).is_ok()
}

/// Sum of 16-bit words, as in the headers of IP.
fn checksum(bytes: &[u8]) -> [u8; 2] {
    let words = bytes.chunks(2).map(|it| u32::from(u16::from_be_bytes([it[0], it[1]])));
    let mut sum = words.sum::<u32>();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    (!(sum as u16)).to_be_bytes()
}

/// A packet that asks for a connection, from an address that is not on this machine.
fn syn(number: u32, port: u16) -> Vec<u8> {
    let (source, target) = (Ipv4Addr::from(FOREIGN | number & 0x1_ffff), Ipv4Addr::LOCALHOST);
    // Numbers behind the last address have other ports.
    let source_port = 1024 + (number >> 8) as u16;
    let mut tcp = [&source_port.to_be_bytes(), &port.to_be_bytes(), &[0; 8][..]].concat();
    tcp.extend([0x50, 0x02, 0xff, 0xff, 0, 0, 0, 0]);
    let pseudo = [&source.octets()[..], &target.octets(), &[0, 6, 0, 20], &tcp].concat();
    tcp[16..18].copy_from_slice(&checksum(&pseudo));
    let mut packet = vec![0x45, 0, 0, 40, 0, 0, 0, 0, 64, 6, 0, 0];
    packet.extend([source.octets(), target.octets()].concat());
    let sum = checksum(&packet);
    packet[10..12].copy_from_slice(&sum);
    [packet, tcp].concat()
}

/// Sends some for each group of sessions that was opened.
fn send_syns(port: u16, opened: &AtomicU32) {
    let flags = SocketFlags::CLOEXEC;
    let socket =
        rustix::net::socket_with(AddressFamily::INET, SocketType::RAW, flags, Some(ipproto::RAW));
    let socket = socket.expect("a raw socket");
    let target = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0);
    for group in 1..=SESSIONS / GROUP {
        wait::until("sessions are opened", || opened.load(Ordering::Relaxed) >= group * GROUP);
        for number in (group - 1) * GROUP * SYNS_EACH..group * GROUP * SYNS_EACH {
            let packet = syn(number, port);
            let sent = rustix::net::sendto(&socket, &packet, SendFlags::empty(), &target);
            assert_eq!(sent, Ok(packet.len()));
        }
    }
}

/// Connections that answer the greeting with something else.
fn send_garbage(port: u16) {
    for number in 0..GARBAGE {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("a connection");
        let garbage = (0..200).map(|at| (at * 31 + number) as u8).collect::<Vec<_>>();
        // The server may have closed it before all is written or read.
        let _ = stream.write_all(&garbage);
        let _ = stream.shutdown(Shutdown::Write);
        let _ = stream.read_to_end(&mut Vec::new());
    }
}

/// The texts of the two statements of a session.
fn texts(number: u32) -> [String; 2] {
    ["first", "second"].map(|round| format!("SELECT '{round} {number}'"))
}

/// Opens its part of the sessions, and runs a statement in each while all are open. Returns the
/// connection id of each session.
fn run_client(client: usize, port: u16, opened: &AtomicU32, all_open: &Barrier) -> Vec<(u32, u64)> {
    let mut sessions = Vec::new();
    for number in (0..SESSIONS).skip(client).step_by(CLIENTS) {
        let session = Raw::login_tcp(port, &Login::new("guest"));
        let mut session = session.expect("a connection").expect("a session");
        session.must(&[&texts(number)[0]]);
        sessions.push((number, session));
        opened.fetch_add(1, Ordering::Relaxed);
    }
    all_open.wait();
    for (number, session) in &mut sessions {
        session.must(&[&texts(*number)[1]]);
    }
    all_open.wait();
    for (_, session) in &mut sessions {
        session.begin(com::QUIT, b"").expect("a packet");
    }
    sessions.iter().map(|(number, session)| (*number, session.conn)).collect()
}

/// The memory that a process shares with no other one, KiB.
fn private_kib(pid: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).expect("a process");
    let line = text.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("its memory");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

/// Opens all sessions beside SYNs and garbage, and ends them. Returns their connection ids.
fn run_crowd(port: u16) -> Vec<(u32, u64)> {
    let (all_open, opened) = (&Barrier::new(CLIENTS), &AtomicU32::new(0));
    thread::scope(|scope| {
        scope.spawn(|| send_syns(port, opened));
        scope.spawn(|| send_garbage(port));
        let client = |client| scope.spawn(move || run_client(client, port, opened, all_open));
        let clients = (0..CLIENTS).map(client).collect::<Vec<_>>();
        clients.into_iter().flat_map(|client| client.join().expect("its sessions")).collect()
    })
}

#[test]
#[ignore = "ten thousand sessions: make test-all, make test SERVER=capture"]
fn each_session_of_a_crowd_is_recorded() {
    let test = "capture_crowd::each_session_of_a_crowd_is_recorded";
    if !namespace::enter(test, "a capture of ten thousand sessions is not tested") {
        return;
    }
    if !raise_limit() {
        leave_out("a capture of ten thousand sessions: the limit of open files is too low");
        return;
    }
    let max_connections = format!("max-connections={}", SESSIONS + 500);
    let options = [
        &max_connections[..],
        "thread-handling=pool-of-threads",
        "back-log=4096",
        "max-connect-errors=1000000",
    ];
    let server = Recording::builder().options(&options).start().expect("a server");
    let mut root = server.connect().expect("a connection");
    root.query_drop("CREATE USER guest@'127.0.0.1'").expect("an account");
    let directory = unused_directory("capture-crowd");
    // Other tests run at the same time: what waits for a processor must fit into memory.
    let options = ["--ring-size", "512MiB"];
    let mut capture = Capture::start_with(server.port(), &directory, &options).expect("a capture");
    let conns = run_crowd(server.port());
    let end = r#""event":"disconnect""#;
    wait::until("all sessions have an end in the log", || {
        count(capture.log(), end) >= SESSIONS as usize
    });
    let memory_kib = private_kib(capture.pid());
    assert!(memory_kib < MEMORY_KIB, "{memory_kib} KiB");
    capture.stop().expect("its end");
    let segments = u64::from(SESSIONS * (1 + SYNS_EACH));
    // Each segment is one. The capture's own limit holds.
    assert!(counter(&directory, "connections_total") >= Some(segments));
    assert!(counter(&directory, "connections").is_some_and(|count| count <= FOLLOWED));
    assert_recorded(capture.log(), &conns);
    fs::remove_dir_all(&directory).expect("removing the log");
}

/// Each statement is recorded once, with its answer, in its session. Only garbage is lost.
fn assert_recorded(log: &Path, conns: &[(u32, u64)]) {
    let mut statements = HashMap::<String, Vec<u64>>::new();
    let (mut connects, mut ends) = (0, 0);
    let mut lost = HashMap::<String, usize>::new();
    for line in lines(log) {
        let is_guest = line["user"] == "guest" && line["session"].is_null();
        match line["event"].as_str().expect("an event") {
            "statement" if is_guest && line["outcome"] == "ok" => {
                let sql = line["sql"].as_str().unwrap_or_default().to_owned();
                statements.entry(sql).or_default().push(line["conn"].as_u64().expect("an id"));
            }
            "connect" if is_guest => connects += 1,
            "disconnect" if is_guest => ends += 1,
            "lost" => {
                let cause = line["cause"].as_str().expect("a cause").to_owned();
                *lost.entry(cause).or_default() += 1;
            }
            _ => {}
        }
    }
    assert_eq!((connects, ends, conns.len()), (SESSIONS, SESSIONS, SESSIONS as usize));
    for (number, conn) in conns {
        for text in texts(*number) {
            assert_eq!(statements.get(&text), Some(&vec![*conn]), "{text}; lost: {lost:?}");
        }
    }
    // The garbage is declared, and nothing else is lost.
    let protocol = lost.get("protocol").copied().unwrap_or(0);
    assert!(protocol >= GARBAGE && lost.len() == 1, "{lost:?}");
}
