//! Zone: outside. Refused logins: broken handshakes, wrong protocols, blocked hosts, too many
//! connections, sessions that must use TLS. And a login with TLS.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpStream};
use std::path::Path;
use std::process::Command;

use tacho_tests::client::{self, Queryable};
use tacho_tests::raw::{self, Login, Raw, com};
use tacho_tests::recorded::{self, Line, number, text};
use tacho_tests::server::{Builder, TestServer};
use tacho_tests::wait;

const NEIGHBOUR: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
const POOL: &[&str] = &["thread-handling=pool-of-threads", "thread-pool-size=2"];

const ALLOWED: &[&str] = &[
    "max_open_files",
    "Aborted connection",
    "Access denied",
    "IP address '127.0.0.",
    "hostname",
    "Too many connections",
];

fn builder(options: &[&str]) -> Builder {
    let builder = TestServer::builder().option("plugin-load-add=tacho").option("connect-timeout=2");
    options.iter().fold(builder, |builder, option| builder.option(option))
}

fn lines_of(server: &mut TestServer) -> Vec<Line> {
    server.stop().expect("stopping");
    server.assert_clean_log(ALLOWED);
    recorded::read(&server.data_directory().join("tacho")).expect("a good log")
}

/// `event errno` of each line of a connection.
fn events_of(lines: &[Line], conn: u64) -> Vec<String> {
    let short = |line: &&Line| {
        let event = text(line, "event").expect("an event");
        number(line, "errno").map_or(event.to_owned(), |errno| format!("{event} {errno}"))
    };
    recorded::of_conn(lines, conn).iter().map(short).collect()
}

/// The greeting's connection id.
fn greeted(stream: &mut TcpStream) -> u64 {
    let mut header = [0; 4];
    stream.read_exact(&mut header).expect("a greeting");
    let mut greeting = vec![0; usize::from(header[0])];
    stream.read_exact(&mut greeting).expect("a greeting");
    assert_eq!(greeting[0], 10, "the version of the protocol");
    let end = greeting.iter().position(|byte| *byte == 0).expect("the end of the version");
    let id: [u8; 4] = greeting[end + 1..end + 5].try_into().expect("four bytes");
    u64::from(u32::from_le_bytes(id))
}

/// Reads until the server hangs up.
fn read_to_the_end(stream: &mut TcpStream) {
    let mut rest = Vec::new();
    // A reset is also an end: the server may not have read everything.
    let _ = stream.read_to_end(&mut rest);
}

fn broken_handshakes(options: &[&str]) {
    let mut server = builder(options).start().expect("a server");
    let connect = || raw::connect_from(Ipv4Addr::LOCALHOST, server.port()).expect("a connection");
    let ssl_request: Vec<u8> = [
        &[32, 0, 0, 1][..],
        &(0x200_u32 | 0x800 | 0x8000 | 0x8_0000).to_le_bytes(),
        &[0, 0, 0, 1, 45],
        &[0; 23],
    ]
    .concat();
    // The packet after the greeting, and the resulting error.
    let sent: &[(&[u8], u64)] = &[
        (b"", 1158),
        // Half a packet.
        (b"\x40\0\0\x01abc", 1158),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", 1156),
        (b"\x05\0\0\x01abcde", 1043),
        (b"\xff\xff\xff\xff\xff\xff\xff\xff", 1156),
        // Without TLS on the server that is a bad handshake.
        (&ssl_request, 1043),
    ];
    let mut conns = Vec::new();
    for (bytes, errno) in sent {
        let mut stream = connect();
        let conn = greeted(&mut stream);
        stream.write_all(bytes).expect("sending");
        // The server may have hung up before.
        let _ = stream.shutdown(Shutdown::Write);
        read_to_the_end(&mut stream);
        conns.push((conn, *errno));
    }
    // Sends nothing, until the server gives up.
    let mut silent = connect();
    conns.push((greeted(&mut silent), 1159));
    read_to_the_end(&mut silent);
    // The server continues normally.
    let mut raw = Raw::connect(server.socket(), "root").expect("a session");
    raw.must(&["SELECT 'after'"]);
    drop(raw);
    let lines = lines_of(&mut server);
    for (conn, errno) in conns {
        let events = events_of(&lines, conn);
        assert_eq!(events, [format!("connect_failed {errno}"), "disconnect".to_owned()], "{conn}");
        for line in recorded::of_conn(&lines, conn) {
            assert_eq!(text(line, "ip"), Some("127.0.0.1"), "{line:?}");
            assert_eq!(text(line, "user"), None, "{line:?}");
        }
    }
}

#[test]
fn a_broken_handshake_is_a_failed_connection() {
    broken_handshakes(&[]);
}

#[test]
fn a_broken_handshake_in_a_pool_of_threads_is_one_as_well() {
    broken_handshakes(POOL);
}

/// A prefix of a server that finds the name of `NEIGHBOUR` in a file: a name server that is silent
/// leaves ETIMEDOUT in `errno`, which the server takes for its own, and keeps no host in the cache
/// that counts refusals. None: there are no namespaces here.
fn with_a_known_neighbour(hosts: &Path) -> Option<Vec<String>> {
    fs::write(hosts, format!("127.0.0.1 localhost\n{NEIGHBOUR} neighbour\n")).expect("a file");
    let script =
        "mount --bind \"$0\" /etc/hosts && exec setpriv --pdeathsig TERM \"$@\"".to_owned();
    let prefix: Vec<_> = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]
        .map(str::to_owned)
        .into_iter()
        .chain([script, hosts.to_str().expect("UTF-8").to_owned()])
        .collect();
    let probe = Command::new(&prefix[0]).args(&prefix[1..]).arg("true").status();
    probe.expect("unshare").success().then_some(prefix)
}

#[test]
fn a_blocked_host_is_recorded() {
    let files = tempfile::tempdir().expect("a directory");
    let Some(prefix) = with_a_known_neighbour(&files.path().join("hosts")) else {
        tacho_tests::without_namespaces("a blocked host is not tested");
        return;
    };
    let mut server = builder(&["max-connect-errors=2"])
        .prefix(prefix)
        .option("user=root")
        .start()
        .expect("a server");
    let mut root = Raw::connect(server.socket(), "root").expect("a session");
    let login = || Raw::login_tcp_from(NEIGHBOUR, server.port(), &Login::new("any"));
    // There is no account for this host, so it is refused before it can identify itself.
    assert_eq!(login().expect("a connection").expect_err("a refusal"), (0, 1130));
    root.must(&["CREATE USER any@'%'"]);
    login().expect("a connection").expect("a session");
    for _ in 0..2 {
        let mut stream = raw::connect_from(NEIGHBOUR, server.port()).expect("a connection");
        greeted(&mut stream);
    }
    // A login that succeeds would count as proof that all is well.
    let log = server.data_directory().join("tacho");
    wait::until("the server has seen both", || {
        let is_one = |line: &&Line| {
            text(line, "event") == Some("connect_failed") && number(line, "errno") == Some(1158)
        };
        recorded::read(&log).is_ok_and(|lines| lines.iter().filter(is_one).count() == 2)
    });
    assert_eq!(login().expect("a connection").expect_err("a refusal"), (0, 1129));
    root.must(&["FLUSH HOSTS"]);
    login().expect("a connection").expect("a session again");
    drop(root);
    let lines = lines_of(&mut server);
    let failed: Vec<_> = lines
        .iter()
        .filter(|line| text(line, "event") == Some("connect_failed"))
        .inspect(|line| assert_eq!(text(line, "ip"), Some("127.0.0.2"), "{line:?}"))
        .map(|line| (number(line, "errno").expect("errno"), text(line, "error").expect("error")))
        .collect();
    let count = |errno| failed.iter().filter(|(number, _)| *number == errno).count();
    assert_eq!((count(1130), count(1158), count(1129)), (1, 2, 1), "{failed:?}");
    assert!(failed.iter().any(|(_, error)| error.contains("is blocked")), "{failed:?}");
}

fn too_many_connections(options: &[&str]) -> Vec<Vec<String>> {
    let mut server = builder(&[&["max-connections=10"], options].concat()).start().expect("up");
    let mut root = server.connect().expect("a session");
    root.query_drop("CREATE USER any@localhost").expect("a user");
    wait::until("there is no other connection", || {
        client::status_number(&mut root, "Threads_connected").expect("status") == 1
    });
    let mut held = Vec::new();
    let first = loop {
        match Raw::login(server.socket(), &Login::new("any")).expect("a connection") {
            Ok(raw) => held.push(raw),
            Err(refusal) => break refusal,
        }
    };
    assert_eq!(first.1, 1040);
    // One more connection is reserved for administrators, once the server has noticed the end of
    // the other one.
    let mut saver = None;
    wait::until("root gets in", || {
        saver = Raw::login(server.socket(), &Login::new("root")).expect("a connection").ok();
        saver.is_some()
    });
    let second = Raw::login(server.socket(), &Login::new("any")).expect("a connection");
    assert_eq!(second.as_ref().err().map(|(_, errno)| *errno), Some(1040), "{second:?}");
    let third = Raw::login(server.socket(), &Login::new("root")).expect("a connection");
    assert_eq!(third.as_ref().err().map(|(_, errno)| *errno), Some(1040), "{third:?}");
    // Those without an event.
    let status = "Connection_errors_max_connections";
    wait::until("both are counted", || {
        client::status_number(&mut root, status).expect("status") >= 2
    });
    drop((saver, held, root));
    let lines = lines_of(&mut server);
    let mut conns: Vec<u64> = lines
        .iter()
        .filter(|line| text(line, "event") == Some("connect_failed"))
        .filter_map(|line| number(line, "conn"))
        .collect();
    conns.dedup();
    conns.into_iter().map(|conn| events_of(&lines, conn)).collect()
}

#[test]
fn one_connection_too_many_is_recorded_while_the_reserve_is_free() {
    // Beyond the reserve the server hangs up before there is a session: no event.
    for options in [&[][..], POOL] {
        let refused = too_many_connections(options);
        assert_eq!(refused, [["connect_failed 1040", "disconnect"]], "{options:?}");
    }
}

fn make_certificate(directory: &Path) {
    fs::create_dir_all(directory).expect("a directory");
    let output = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "3650"])
        .args(["-subj", "/CN=localhost", "-keyout"])
        .arg(directory.join("key.pem"))
        .arg("-out")
        .arg(directory.join("cert.pem"))
        .output()
        .expect("openssl");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn sessions_with_tls_are_recorded_and_those_without_are_refused() {
    let place = tacho_tests::unused_directory("refusals-tls");
    make_certificate(&place);
    let file = |name: &str| place.join(name).display().to_string();
    let mut server = builder(&[
        &format!("ssl-cert={}", file("cert.pem")),
        &format!("ssl-key={}", file("key.pem")),
    ])
    .start()
    .expect("a server");
    let mut root = Raw::connect(server.socket(), "root").expect("a session");
    root.must(&["CREATE USER safe@localhost REQUIRE SSL"]);
    let port = server.port();
    let (plain, errno) =
        Raw::login_tcp(port, &Login::new("safe")).expect("a connection").expect_err("a refusal");
    assert_eq!(errno, 1045);
    let output = Command::new("mariadb")
        .args(["--no-defaults", "--ssl", "--protocol=tcp", "--host=127.0.0.1", "--user=safe"])
        .arg(format!("--port={port}"))
        .args(["--batch", "--skip-column-names", "--execute"])
        .arg(
            "SELECT CONNECTION_ID(); SELECT 'in TLS', variable_value FROM \
              information_schema.session_status WHERE variable_name = 'Ssl_version'",
        )
        .output()
        .expect("a client");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains("in TLS\tTLSv1"), "{said} {}", String::from_utf8_lossy(&output.stderr));
    let conn: u64 = said.lines().next().and_then(|id| id.parse().ok()).expect("an id");
    // A client that asks for TLS and then speaks something else.
    let mut stream = raw::connect_from(Ipv4Addr::LOCALHOST, port).expect("a connection");
    let broken = greeted(&mut stream);
    let flags = (0x200_u32 | 0x800 | 0x8000 | 0x8_0000).to_le_bytes();
    let request = [&[32, 0, 0, 1][..], &flags, &[0, 0, 0, 1, 45], &[0; 23], b"no TLS"].concat();
    stream.write_all(&request).expect("sending");
    read_to_the_end(&mut stream);
    root.command(com::QUIT, b"").expect("quitting");
    let lines = lines_of(&mut server);
    assert_eq!(events_of(&lines, plain), ["connect_failed 1045", "disconnect"]);
    assert_eq!(events_of(&lines, broken), ["connect_failed 1043", "disconnect"]);
    let session = recorded::of_conn(&lines, conn);
    assert!(session.iter().any(|l| text(l, "sql").is_some_and(|sql| sql.contains("'in TLS'"))));
    for line in session {
        assert_eq!(text(line, "user"), Some("safe"), "{line:?}");
        // The audit API of 10.11 has no information about TLS.
        assert!(!line.contains_key("tls"), "{line:?}");
    }
    fs::remove_dir_all(place).expect("removing");
}
