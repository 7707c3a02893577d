//! A capture of an interface whose addresses change, and which is switched off and on. Sessions
//! that continue afterwards, and new ones, are recorded. Each statement is recorded once, also if
//! its packets had to be sent again.
//!
//! The server has one end of a pair of interfaces, its clients have the other one.

use std::collections::BTreeMap;
use std::fs;
use std::net::{Ipv4Addr, TcpStream};

use tacho_tests::captured::{Capture, count, counter, lines};
use tacho_tests::client::Queryable as _;
use tacho_tests::namespace::{Network, ip};
use tacho_tests::raw::{Login, Raw, com};
use tacho_tests::recording::Recording;
use tacho_tests::{namespace, unused_directory, wait};

/// Addresses of the server, of the range for tests of networks (RFC 2544).
const SERVER: [Ipv4Addr; 2] = [Ipv4Addr::new(198, 18, 0, 1), Ipv4Addr::new(198, 18, 1, 1)];

/// The interfaces `v0` of the server and `v1` of its clients, which have addresses in the networks
/// of both of the server's.
fn make_interfaces(clients: &Network) {
    let own = std::process::id();
    clients.run(|| {
        ip(&format!("link add v1 type veth peer name v0 netns {own}"));
        ip("addr add 198.18.0.2/24 dev v1");
        ip("addr add 198.18.1.2/24 dev v1");
        ip("link set v1 up");
    });
    ip("addr add 198.18.0.1/24 dev v0");
    ip("link set v0 up");
}

fn log_in(clients: &Network, server: Ipv4Addr, port: u16) -> Raw {
    clients.run(|| {
        let stream = TcpStream::connect((server, port)).expect("a connection");
        Raw::login_over(stream, &Login::new("guest")).expect("an answer").expect("a session")
    })
}

/// Sends a statement before a change of the interface, whose answer comes after the next one.
fn send_between(session: &mut Raw, text: &str, first: &str, then: impl FnOnce()) {
    ip(first);
    session.begin(com::QUERY, text.as_bytes()).expect("a packet");
    then();
    let answers = session.finish(com::QUERY).expect("an answer");
    assert!(answers.iter().all(|answer| answer.errno() == 0), "{answers:?}");
}

#[test]
fn sessions_continue_when_addresses_change() {
    let test = "capture_addresses::sessions_continue_when_addresses_change";
    if !namespace::enter(test, "a capture whose interface changes is not tested") {
        return;
    }
    let server = Recording::builder().option("bind-address=0.0.0.0").start().expect("a server");
    let mut root = server.connect().expect("a connection");
    root.query_drop("CREATE USER guest@'198.18.%'").expect("an account");
    let port = server.port();
    let clients = Network::new().expect("a network");
    make_interfaces(&clients);
    let directory = unused_directory("capture-addresses");
    let any = format!("0.0.0.0:{port}");
    let mut capture = Capture::start_on("v0", &any, &directory, &[]).expect("a capture");

    let mut first = log_in(&clients, SERVER[0], port);
    first.must(&["SELECT 'first, before'"]);
    ip("addr add 198.18.1.1/24 dev v0");
    let mut second = None;
    // The client sends it again and again: nothing has this address.
    send_between(&mut first, "SELECT 'first, between'", "addr del 198.18.0.1/24 dev v0", || {
        let mut session = log_in(&clients, SERVER[1], port);
        session.must(&["SELECT 'second, at the new address'"]);
        second = Some(session);
        ip("addr add 198.18.0.1/24 dev v0");
    });
    first.must(&["SELECT 'first, again'"]);
    let mut second = second.expect("a session");
    // Nothing passes.
    send_between(&mut second, "SELECT 'second, between'", "link set v0 down", || {
        ip("link set v0 up");
    });
    second.must(&["SELECT 'second, again'"]);
    let mut third = log_in(&clients, SERVER[0], port);
    third.must(&["SELECT 'third'"]);
    let ids = [(SERVER[0], first.conn), (SERVER[1], second.conn), (SERVER[0], third.conn)];
    for mut session in [first, second, third] {
        session.command(com::QUIT, b"").expect("an end");
    }
    let end = r#""event":"disconnect""#;
    wait::until("all sessions have an end in the log", || count(capture.log(), end) >= ids.len());
    capture.stop().expect("its end");
    assert_eq!(counter(&directory, "dropped_packets_total"), Some(0));
    assert_recorded(&capture, port, ids);
    fs::remove_dir_all(&directory).expect("removing the log");
}

/// Each session has its statements, at the address of the server that its client used. Nothing is
/// lost: what was not seen was sent again.
fn assert_recorded(capture: &Capture, port: u16, ids: [(Ipv4Addr, u64); 3]) {
    let mut found = BTreeMap::<u64, Vec<String>>::new();
    for line in lines(capture.log()) {
        assert_ne!(line["event"], "lost", "{line}");
        let Some(conn) = line["conn"].as_u64() else { continue };
        let (address, _) = ids.iter().find(|(_, id)| *id == conn).expect("a session of ours");
        assert_eq!(line["server_addr"], format!("{address}:{port}"), "{line}");
        assert!(line["user"] == "guest" && line["session"].is_null(), "{line}");
        let text = line["sql"].as_str().unwrap_or_default().replace("SELECT ", "");
        let event = line["event"].as_str().expect("an event");
        let is_answered = line["outcome"].as_str().is_none_or(|outcome| outcome == "ok");
        assert!(is_answered, "{line}");
        found.entry(conn).or_default().push(if text.is_empty() { event.to_owned() } else { text });
    }
    let of_sessions: [&[&str]; 3] = [
        &["'first, before'", "'first, between'", "'first, again'"],
        &["'second, at the new address'", "'second, between'", "'second, again'"],
        &["'third'"],
    ];
    for ((_, conn), texts) in ids.iter().zip(of_sessions) {
        let all = [&["connect"], texts, &["statement", "disconnect"]].concat();
        assert_eq!(found[conn], all, "the command behind the texts is COM_QUIT");
    }
}
