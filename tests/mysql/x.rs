//! Zone: outside. Sessions of the X protocol with a real MySQL: statements, prepared ones, messages
//! about documents and rows, and rewritten ones. `scripts/test-release.sh` runs them.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use tacho_tests::client::{Conn, Queryable};
use tacho_tests::mysql_place::LogAndArenas;
use tacho_tests::mysql_rewriting::{self, rewritten};
use tacho_tests::mysql_server::{self, MySql, Release, named, release, status_name};
use tacho_tests::recorded::{self, Line};
use tacho_tests::wait;

/// A client of the X protocol: just enough to log in over the socket and to send a few messages.
struct XClient(UnixStream);

/// Types of messages (mysqlx.proto): what is sent,
const AUTHENTICATE: u8 = 4;
const EXECUTE: u8 = 12;
const FIND: u8 = 17;
const INSERT: u8 = 18;
const PREPARE: u8 = 40;
const EXECUTE_PREPARED: u8 = 41;
const DEALLOCATE: u8 = 42;
/// and what is answered.
const OK: u8 = 0;
const ERROR: u8 = 1;
const AUTHENTICATED: u8 = 4;
const EXECUTED: u8 = 17;

/// A field of bytes, or a message, as protocol buffers have it; short.
fn field(number: u8, bytes: impl AsRef<[u8]>) -> Vec<u8> {
    let bytes = bytes.as_ref();
    let length = u8::try_from(bytes.len()).expect("a short text");
    assert!(length < 128, "one byte says how long it is");
    [&[number << 3 | 2, length], bytes].concat()
}

/// A field that is a small number.
fn number(field: u8, value: u8) -> Vec<u8> {
    assert!(value < 128, "one byte");
    vec![field << 3, value]
}

/// A scalar: an unsigned number.
fn scalar(value: u8) -> Vec<u8> {
    [number(1, 2), number(3, value)].concat()
}

/// A table, which is a collection of rows.
fn table(schema: &str, name: &str) -> Vec<u8> {
    [field(1, name), field(2, schema)].concat()
}

/// Its rows, not documents.
const ROWS: u8 = 2;

impl XClient {
    fn connect(socket: &Path, user: &str) -> Self {
        let mut client = Self(UnixStream::connect(socket).expect("the X socket"));
        // PLAIN is permitted here: a Unix socket cannot be eavesdropped.
        let login = [field(1, "PLAIN"), field(2, format!("\0{user}\0"))];
        assert_eq!(client.send(AUTHENTICATE, &login.concat(), AUTHENTICATED), 0);
        client
    }

    /// Sends a message and reads until `last` arrives, or an error: 1.
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
                Some(&ERROR) => return 1,
                _ => {}
            }
        }
    }

    /// Whether it fails: 1.
    fn query(&mut self, sql: &str) -> u8 {
        self.send(EXECUTE, &field(1, sql), EXECUTED)
    }
}

/// A server with the X protocol and the table of rules, a user `app`, and where it listens.
fn start(place: &LogAndArenas) -> (MySql, Conn, PathBuf) {
    let socket = place.path().join("x.sock");
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let port = 20_000 + (std::process::id() * 8 + count) % 20_000;
    let with = |builder: mysql_server::Builder, option: &String| builder.option(option);
    let server = [
        "mysqlx=ON".to_owned(),
        format!("mysqlx-socket={}", socket.display()),
        format!("mysqlx-port={port}"),
        "mysqlx-bind-address=127.0.0.1".to_owned(),
    ]
    .iter()
    .fold(place.builder(), with)
    .start()
    .expect("a server");
    let root = mysql_rewriting::prepare(&server);
    (server, root, socket)
}

/// Stops the server when the session has ended, and returns the statements of `app`, except those
/// that the server makes it execute at login.
fn end(mut server: MySql, mut root: Conn, place: &LogAndArenas, client: XClient) -> Vec<Line> {
    drop(client);
    // A session of the X protocol that waits for its client does not block signals: the SIGTERM
    // that should stop the server would kill it (docs/specs/mysql-events.md).
    wait::until("its session has ended", || {
        let sessions = "SELECT COUNT(*) FROM performance_schema.threads \
                        WHERE PROCESSLIST_USER = 'app'";
        root.query_first(sessions).expect("an answer") == Some(0_u64)
    });
    drop(root);
    let mut lines = place.end(&mut server);
    lines.retain(|line| {
        let sql = recorded::text(line, "sql");
        recorded::text(line, "user") == Some("app")
            && (recorded::text(line, "event") != Some("statement")
                || sql.is_none_or(|sql| !sql.starts_with("SET ")))
    });
    lines
}

#[test]
fn sessions_of_the_x_protocol_are_recorded() {
    let place = LogAndArenas::new("x");
    let (server, mut root, socket) = start(&place);
    let mut app = XClient::connect(&socket, "app");
    assert_eq!(app.query("DO 'over X'"), 0);
    assert_eq!(app.query("SELECT nothing, 'over X'"), 1);
    assert_eq!(app.query("DO 'again'"), 0);
    let rule = r#"{"rules": [{"user": "app", "sql_command": "do", "action": "block"}]}"#;
    root.query_drop(named(&format!("SET GLOBAL tacho.filter = '{rule}'"))).expect("an answer");
    assert_eq!(app.query("DO 'blocked'"), 1);
    assert_eq!(app.query("SELECT 'not blocked'"), 0);
    let lines = end(server, root, &place, app);
    let found: Vec<String> = lines.iter().map(recorded::brief).collect();
    let statement = |text: &str| found.iter().filter(|brief| brief.contains(text)).count();
    assert_eq!(statement("Query do ok \"DO 'over X'\""), 1, "{found:?}");
    assert_eq!(statement("Query select error 1054/- "), 1, "{found:?}");
    assert_eq!(statement("Query do ok \"DO 'again'\""), 1, "{found:?}");
    assert_eq!(statement("Query do error 3164/"), 1, "{found:?}");
    assert_eq!(statement("connect ok"), 1, "{found:?}");
    assert_eq!(statement("disconnect"), 1, "{found:?}");
    // These sessions are not traced; 8.0 reports the message of an error by an event.
    let has_message = |line: &&Line| line.contains_key("error");
    let messages = lines.iter().filter(has_message).count();
    assert_eq!(messages, if release() == Release::Mysql80 { 2 } else { 0 }, "{found:?}");
}

#[test]
fn prepared_statements_and_rows_over_the_x_protocol_are_recorded() {
    let place = LogAndArenas::new("xcrud");
    let (server, mut root, socket) = start(&place);
    let mut app = XClient::connect(&socket, "app");
    // Of the kinds of messages that can be prepared, the one with SQL, with a parameter.
    let sql = "SELECT id, 'prepared' FROM d.t WHERE id = ?";
    let statement = [number(1, 5), field(6, field(1, sql))].concat();
    let prepare = [number(1, 1), field(2, statement)].concat();
    assert_eq!(app.send(PREPARE, &prepare, OK), 0);
    let argument = [number(1, 1), field(2, scalar(7))].concat();
    let execute = [number(1, 1), field(2, argument)].concat();
    for _ in 0..2 {
        assert_eq!(app.send(EXECUTE_PREPARED, &execute, EXECUTED), 0);
    }
    assert_eq!(app.send(DEALLOCATE, &number(1, 1), OK), 0);
    // A row, and all rows: the server makes SQL of that.
    let literal = [number(1, 2), field(4, scalar(9))].concat();
    let insert = [field(1, table("d", "one")), number(2, ROWS), field(4, field(1, literal))];
    assert_eq!(app.send(INSERT, &insert.concat(), EXECUTED), 0);
    let find = [field(2, table("d", "one")), number(3, ROWS)];
    assert_eq!(app.send(FIND, &find.concat(), EXECUTED), 0);
    let sum: Option<u64> = root.query_first("SELECT SUM(n) FROM d.one").expect("an answer");
    assert_eq!(sum, Some(10));
    let lines = end(server, root, &place, app);
    let found: Vec<String> = lines.iter().map(recorded::brief).collect();
    let count = |text: &str| found.iter().filter(|brief| brief.contains(text)).count();
    assert_eq!(count(&format!("Prepare ok \"{sql}\"")), 1, "{found:#?}");
    assert_eq!(
        count("Execute select ok \"SELECT id, 'prepared' FROM d.t WHERE id = "),
        2,
        "{found:#?}"
    );
    assert_eq!(count("Close stmt ok"), 1, "{found:#?}");
    assert_eq!(count("Query insert ok \"INSERT INTO `d`.`one` VALUES (9)\""), 1, "{found:#?}");
    assert_eq!(count("Query select ok \"SELECT * FROM `d`.`one`"), 1, "{found:#?}");
    assert_eq!(recorded::problems(&lines.iter().collect::<Vec<_>>()), [""; 0]);
}

#[test]
fn a_rule_rewrites_statements_of_the_x_protocol() {
    let place = LogAndArenas::new("xrewrite");
    let (server, mut root, socket) = start(&place);
    mysql_rewriting::set(
        &mut root,
        &[
            ("SELECT n, 'came' FROM d.one", "SELECT n, 'instead' FROM d.one"),
            ("SELECT * FROM `d`.`one`", "SELECT n + 1 FROM d.one"),
        ],
    );
    let mut app = XClient::connect(&socket, "app");
    assert_eq!(app.query("SELECT n, 'came' FROM d.one"), 0);
    // Prepared statements, and those that the server creates from a message.
    let statement = [number(1, 5), field(6, field(1, "SELECT n, 'came' FROM d.one"))].concat();
    let prepare = [number(1, 1), field(2, statement)].concat();
    assert_eq!(app.send(PREPARE, &prepare, OK), 0);
    assert_eq!(app.send(EXECUTE_PREPARED, &number(1, 1), EXECUTED), 0);
    let find = [field(2, table("d", "one")), number(3, ROWS)];
    assert_eq!(app.send(FIND, &find.concat(), EXECUTED), 0);
    let name = status_name("statements_rewritten");
    let count = tacho_tests::client::status_number(&mut root, &name).expect("a status");
    assert_eq!(count, 3);
    let lines = end(server, root, &place, app);
    let both = ("SELECT n, 'came' FROM d.one", "SELECT n, 'instead' FROM d.one");
    assert_eq!(
        rewritten(&lines),
        [both, both, ("SELECT * FROM `d`.`one`", "SELECT n + 1 FROM d.one")]
    );
}
