//! Zone: outside. Sessions of every kind with a real MySQL: cursors, query attributes, character
//! sets, the X protocol, a replica's appliers, and servers that refuse to write or to serve.
//! `scripts/test-mysql.sh` runs them.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

use tacho_event::charset::{Charset, restore};
use tacho_tests::client::{self, Conn, Queryable};
use tacho_tests::mysql_place::Place;
use tacho_tests::mysql_replication;
use tacho_tests::mysql_server::{self, MySql, install, named};
use tacho_tests::raw::{Answer, Login, Raw, com, length_encoded};
use tacho_tests::recorded::{self, Line};
use tacho_tests::wait;

fn start(place: &Place, options: &[&str]) -> (MySql, Conn) {
    let with = |builder: mysql_server::Builder, option: &&str| builder.option(option);
    let server = options.iter().fold(place.builder(), with).start().expect("a server");
    let mut root = server.connect().expect("a connection");
    root.query_drop(install()).expect("installing");
    (server, root)
}

/// Ends the server and reads what it has recorded.
fn end(server: &mut MySql, place: &Place) -> Vec<Line> {
    server.stop().expect("stopping");
    recorded::read(&place.log()).expect("a readable log")
}

fn briefs(lines: &[Line], conn: u64) -> Vec<String> {
    recorded::of_conn(lines, conn).into_iter().map(recorded::brief).collect()
}

/// The texts that one user's sessions have sent.
fn texts<'l>(lines: &'l [Line], user: &str) -> Vec<&'l str> {
    let is_his = |line: &&Line| recorded::text(line, "user") == Some(user);
    lines.iter().filter(is_his).filter_map(|line| recorded::text(line, "sql")).collect()
}

#[test]
#[ignore = "needs MySQL: scripts/test-mysql.sh"]
fn a_cursor_is_recorded_with_its_fetches() {
    let place = Place::new("cursor");
    let (mut server, root) = start(&place, &[]);
    let mut raw = Raw::connect(server.socket(), "root").expect("a session");
    let conn = raw.conn;
    let id = raw.prepare("SELECT 1 UNION SELECT 2 UNION SELECT 3").expect("a packet").expect("it");
    raw.execute(id, &[], true).expect("an answer");
    for _ in 0..2 {
        let body = [id.to_le_bytes(), 2_u32.to_le_bytes()].concat();
        raw.command(com::STMT_FETCH, &body).expect("an answer");
    }
    raw.command(com::QUIT, b"").expect("quitting");
    drop(root);
    let lines = end(&mut server, &place);
    let found = briefs(&lines, conn);
    assert_eq!(found.len(), 7, "{found:?}");
    assert!(found[1].starts_with("Prepare ok \"SELECT 1 UNION"), "{found:?}");
    assert!(found[2].starts_with("Execute select ok \"SELECT 1 UNION"), "{found:?}");
    assert_eq!(found[3..], ["Fetch ok", "Fetch ok", "Quit ok", "disconnect"]);
    server.assert_clean_log(&[]);
    drop(server);
    place.remove();
}

/// Of the protocol.
const CLIENT_QUERY_ATTRIBUTES: u32 = 1 << 27;

/// They are no part of the statement, and may be anything.
#[test]
#[ignore = "needs MySQL: scripts/test-mysql.sh"]
fn query_attributes_are_not_recorded() {
    let place = Place::new("attributes");
    let (mut server, mut root) = start(&place, &[]);
    root.query_drop("CREATE USER visitor").expect("an answer");
    let login = Login { capabilities: CLIENT_QUERY_ATTRIBUTES, ..Login::new("visitor") };
    let mut raw = Raw::login(server.socket(), &login).expect("a connection").expect("a session");
    // One attribute, one set of values, none is NULL, types are sent; a text, its name, its value.
    let mut body = vec![1, 1, 0, 1, 0xfe, 0];
    body.extend(length_encoded(b"token"));
    body.extend(length_encoded(b"hushhush"));
    body.extend(b"DO 'with attributes'");
    let answers = raw.command(com::QUERY, &body).expect("an answer");
    assert_eq!(answers, [Answer::Ok]);
    raw.command(com::QUIT, b"").expect("quitting");
    drop(root);
    let lines = end(&mut server, &place);
    let with = texts(&lines, "visitor").into_iter().filter(|sql| sql.contains("with attributes"));
    assert_eq!(with.collect::<Vec<_>>(), ["DO 'with attributes'"]);
    assert!(lines.iter().all(|line| !format!("{line:?}").contains("hushhush")));
    server.assert_clean_log(&[]);
    drop(server);
    place.remove();
}

/// Those that the server does not take from a client: its parser wants ASCII.
const REFUSED: [&str; 4] = ["ucs2", "utf16", "utf16le", "utf32"];

/// Bytes that are hard for one character set or another.
fn payloads() -> [Vec<u8>; 4] {
    [
        (0x80..=0xff).collect(),
        "Grüße, 中文, 日本語, \u{1F600}".into(),
        b"\xf0\x9f\x98".to_vec(),
        (0x80..=0xff).flat_map(|lead| [lead, 0x5c]).collect(),
    ]
}

#[test]
#[ignore = "needs MySQL: scripts/test-mysql.sh"]
fn every_character_set_gives_its_bytes_back() {
    let place = Place::new("charsets");
    let (mut server, mut root) = start(&place, &[]);
    let sets: Vec<String> = root
        .query("SELECT character_set_name FROM information_schema.character_sets ORDER BY 1")
        .expect("the character sets");
    assert!(sets.len() > 35, "{sets:?}");
    let mut sent: Vec<(&str, Vec<u8>)> = Vec::new();
    for name in sets.iter().filter(|name| !REFUSED.contains(&name.as_str())) {
        let mut raw = Raw::connect(server.socket(), "root").expect("a session");
        let set = raw.query(format!("SET NAMES {name}")).expect("an answer");
        assert_eq!(set[0].errno(), 0, "{name}");
        for payload in payloads() {
            let sql = [
                format!("SELECT /* id:{}. */ _binary '", sent.len()).as_bytes(),
                &payload,
                b"' AS x",
            ]
            .concat();
            // Whether it parses does not matter.
            raw.query(&sql).expect("an answer");
            sent.push((name, sql));
        }
        raw.command(com::QUIT, b"").expect("quitting");
    }
    drop(root);
    let lines = end(&mut server, &place);
    let mut seen = vec![0; sent.len()];
    for line in &lines {
        let Some(sql) = recorded::text(line, "sql") else { continue };
        let Some((id, _)) = sql.split_once("/* id:").and_then(|(_, rest)| rest.split_once('.'))
        else {
            continue;
        };
        let id: usize = id.parse().expect("an id");
        let (name, bytes) = &sent[id];
        assert_eq!(recorded::text(line, "sql_charset"), Some(*name), "{line:?}");
        // One that MariaDB 10.11 does not have is treated as bytes (docs/specs/record.md).
        let charset = Charset::by_name(name.as_bytes())
            .unwrap_or_else(|| Charset::by_name(b"binary").expect("there is binary"));
        let restored = restore(sql, recorded::text(line, "sql_b64"), charset).expect("restorable");
        assert_eq!(&restored, bytes, "{line:?}");
        seen[id] += 1;
    }
    assert!(seen.iter().all(|count| *count == 1), "{seen:?}");
    drop(server);
    place.remove();
}

/// A client of the X protocol: just enough to log in over the socket and to send a statement.
struct XClient(UnixStream);

/// Types of messages (mysqlx.proto).
const X_AUTHENTICATE: u8 = 4;
const X_AUTHENTICATED: u8 = 4;
const X_EXECUTE: u8 = 12;
const X_EXECUTED: u8 = 17;
const X_ERROR: u8 = 1;

impl XClient {
    fn connect(socket: &Path, user: &str) -> Self {
        let mut client = Self(UnixStream::connect(socket).expect("the X socket"));
        // PLAIN is allowed here: nobody can listen to a Unix socket.
        let login = [Self::field(1, b"PLAIN"), Self::field(2, format!("\0{user}\0").as_bytes())];
        assert_eq!(client.send(X_AUTHENTICATE, &login.concat(), X_AUTHENTICATED), 0);
        client
    }

    /// A field of bytes, as protocol buffers have it; short.
    fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
        let length = u8::try_from(bytes.len()).expect("a short text");
        assert!(length < 128, "one byte says how long it is");
        [&[number << 3 | 2, length], bytes].concat()
    }

    /// Sends a message and reads until `last` came, or an error: 1.
    fn send(&mut self, kind: u8, body: &[u8], last: u8) -> u8 {
        let length = u32::try_from(body.len() + 1).expect("a short message");
        self.0.write_all(&length.to_le_bytes()).expect("writing");
        self.0.write_all(&[&[kind], body].concat()).expect("writing");
        loop {
            let mut length = [0; 4];
            self.0.read_exact(&mut length).expect("an answer");
            let mut message = vec![0; u32::from_le_bytes(length) as usize];
            self.0.read_exact(&mut message).expect("an answer");
            match message.first() {
                Some(kind) if *kind == last => return 0,
                Some(&X_ERROR) => return 1,
                _ => {}
            }
        }
    }

    /// Whether it fails: 1.
    fn query(&mut self, sql: &str) -> u8 {
        self.send(X_EXECUTE, &Self::field(1, sql.as_bytes()), X_EXECUTED)
    }
}

#[test]
#[ignore = "needs MySQL: scripts/test-mysql.sh"]
fn sessions_of_the_x_protocol_are_recorded() {
    let place = Place::new("x");
    let socket = place.path().join("x.sock");
    let port = 20_000 + std::process::id() % 20_000;
    let (mut server, mut root) = start(
        &place,
        &[
            "mysqlx=ON",
            &format!("mysqlx-socket={}", socket.display()),
            &format!("mysqlx-port={port}"),
            "mysqlx-bind-address=127.0.0.1",
        ],
    );
    root.query_drop("CREATE USER visitor").expect("an answer");
    let mut visitor = XClient::connect(&socket, "visitor");
    assert_eq!(visitor.query("DO 'over X'"), 0);
    assert_eq!(visitor.query("SELECT nothing, 'over X'"), 1);
    assert_eq!(visitor.query("DO 'again'"), 0);
    let rule = r#"{"rules": [{"user": "visitor", "sql_command": "do", "action": "block"}]}"#;
    root.query_drop(named(&format!("SET GLOBAL tacho.filter = '{rule}'"))).expect("an answer");
    assert_eq!(visitor.query("DO 'blocked'"), 1);
    assert_eq!(visitor.query("SELECT 'not blocked'"), 0);
    drop(visitor);
    // A session of the X protocol that waits for its client lets every signal through: the SIGTERM
    // that is to stop the server would kill it (docs/specs/mysql-events.md).
    wait::until("its session has ended", || {
        let sessions = "SELECT COUNT(*) FROM performance_schema.threads \
                        WHERE PROCESSLIST_USER = 'visitor'";
        root.query_first(sessions).expect("an answer") == Some(0_u64)
    });
    drop(root);
    let lines = end(&mut server, &place);
    let found: Vec<String> = lines
        .iter()
        .filter(|line| recorded::text(line, "user") == Some("visitor"))
        .filter(|line| {
            recorded::text(line, "sql").is_some_and(|sql| !sql.starts_with("SET "))
                || recorded::text(line, "event") != Some("statement")
        })
        .map(recorded::brief)
        .collect();
    let statement = |text: &str| found.iter().filter(|brief| brief.contains(text)).count();
    assert_eq!(statement("Query do ok \"DO 'over X'\""), 1, "{found:?}");
    assert_eq!(statement("Query select error 1054/- "), 1, "{found:?}");
    assert_eq!(statement("Query do ok \"DO 'again'\""), 1, "{found:?}");
    assert_eq!(statement("Query do error 3164/"), 1, "{found:?}");
    assert_eq!(statement("connect ok"), 1, "{found:?}");
    assert_eq!(statement("disconnect"), 1, "{found:?}");
    drop(server);
    place.remove();
}

/// `ER_SERVER_OFFLINE_MODE`, `ER_OPTION_PREVENTS_STATEMENT`.
const OFFLINE: u64 = 3032;
const PREVENTED: u64 = 1290;

#[test]
#[ignore = "needs MySQL: scripts/test-mysql.sh"]
fn what_a_server_refuses_that_is_read_only_or_offline_is_recorded() {
    let place = Place::new("refusing");
    let (mut server, mut root) = start(&place, &[]);
    for sql in ["CREATE DATABASE d", "CREATE TABLE d.t (id INT)", "CREATE USER visitor"] {
        root.query_drop(sql).expect("an answer");
    }
    root.query_drop("SET GLOBAL super_read_only = ON").expect("an answer");
    root.query_drop("INSERT INTO d.t VALUES (1)").expect_err("read only");
    root.query_drop("SET GLOBAL super_read_only = OFF, GLOBAL read_only = OFF").expect("an answer");
    root.query_drop("SET GLOBAL offline_mode = ON").expect("an answer");
    client::connect(server.socket(), "visitor", "").expect_err("offline");
    root.query_drop("DO 'still here'").expect("an answer");
    drop(root);
    let lines = end(&mut server, &place);
    let errno = |line: &Line| recorded::number(line, "errno");
    let refused =
        lines.iter().find(|line| recorded::text(line, "sql") == Some("INSERT INTO d.t VALUES (1)"));
    assert_eq!(refused.and_then(errno), Some(PREVENTED));
    let offline = lines.iter().filter(|line| errno(line) == Some(OFFLINE)).count();
    assert!(offline > 0, "the refused login is not recorded");
    assert_eq!(texts(&lines, "root").iter().filter(|sql| **sql == "DO 'still here'").count(), 1);
    drop(server);
    place.remove();
}

/// Sources of replication have their own servers, with a log each.
#[test]
#[ignore = "needs MySQL: scripts/test-mysql.sh"]
fn what_a_replica_applies_is_recorded() {
    let source_place = Place::new("source");
    let replica_place = Place::new("replica");
    let with = |id| [&mysql_replication::OPTIONS[..], &["binlog-format=STATEMENT", id]].concat();
    let (mut source, mut at_source) = start(&source_place, &with("server-id=1"));
    let (mut replica, at_replica) = start(&replica_place, &with("server-id=2"));
    drop(at_replica);
    mysql_replication::give_identity(&mut replica);
    let mut at_replica = replica.connect().expect("a connection");
    mysql_replication::connect(&source, &mut at_source, &mut at_replica);
    // What comes from the source is executed whatever the rules are.
    let rule = r#"{"default": "block"}"#;
    at_replica
        .query_drop(named(&format!("SET GLOBAL tacho.filter = '{rule}'")))
        .expect("an answer");
    at_replica.query_drop("START REPLICA").expect("an answer");
    for sql in [
        "CREATE DATABASE d",
        "CREATE TABLE d.t (id INT PRIMARY KEY)",
        "INSERT INTO d.t VALUES (1), (2)",
        "UPDATE d.t SET id = id + 10",
    ] {
        at_source.query_drop(sql).expect("an answer");
    }
    wait::until("the replica has it", || {
        let sum: Result<Option<Option<u64>>, _> = at_replica.query_first("SELECT SUM(id) FROM d.t");
        sum.ok().flatten().flatten() == Some(23)
    });
    drop((at_source, at_replica));
    let at_replica = end(&mut replica, &replica_place);
    let at_source = end(&mut source, &source_place);
    for sql in [
        "CREATE DATABASE d",
        "CREATE TABLE d.t (id INT PRIMARY KEY)",
        "INSERT INTO d.t VALUES (1), (2)",
        "UPDATE d.t SET id = id + 10",
    ] {
        for (lines, who) in [(&at_source, "source"), (&at_replica, "replica")] {
            let is_it = |line: &&Line| {
                recorded::text(line, "sql") == Some(sql)
                    && recorded::text(line, "outcome") == Some("ok")
            };
            assert_eq!(lines.iter().filter(is_it).count(), 1, "{sql} at the {who}");
        }
    }
    let secret = |line: &&Line| format!("{line:?}").contains(mysql_replication::SECRET);
    assert_eq!(at_source.iter().chain(&at_replica).find(secret), None);
    drop((source, replica));
    source_place.remove();
    replica_place.remove();
}
