//! Zone: outside. A client that has no EOF packets (`CLIENT_DEPRECATE_EOF`), one that has them, and
//! one whose ends of results report changes of the session: a capture counts what each has read.

use std::fs;

use serde_json::Value;
use tacho_tests::captured::{Capture, sessions, wait_for_ends};
use tacho_tests::client::Queryable as _;
use tacho_tests::product::Product;
use tacho_tests::raw::{Login, Raw, com};
use tacho_tests::{namespace, unused_directory};

const SESSION_TRACK: u32 = 1 << 23;
const DEPRECATE_EOF: u32 = 1 << 24;

const MORE_RESULTS: u16 = 8;
const CURSOR: u16 = 0x40;
/// Bytes of a packet that continues in another one.
const FULL: usize = 0xff_ffff;

const ROWS: &str = "SELECT id, v FROM t ORDER BY id";
const CALL: &str = "CALL two_results()";

/// Each has an answer of another form.
const STATEMENTS: [&str; 14] = [
    "SELECT 1",
    ROWS,
    "SELECT NULL, 'x' UNION ALL SELECT '', ''",
    "SELECT id FROM t WHERE id > 99",
    "SELECT 1 + '1x', CAST('y' AS SIGNED)",
    // Its row begins with the byte of an EOF packet.
    "SELECT REPEAT('x', 17000000)",
    "SELECT REPEAT('y', 70000) UNION ALL SELECT REPEAT('z', 300)",
    "SELECT 1; SELECT id FROM t; UPDATE t SET v = 'w'; SELECT 2 UNION SELECT 3",
    "SELECT 1; SELECT nosuch; SELECT 2",
    CALL,
    "CALL fails()",
    "SELEKT",
    "BEGIN",
    "SELECT COUNT(*) FROM t",
];

/// A command: what a client has read of its answer, or what its line has.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    command: String,
    sql: String,
    rows: u64,
    warnings: u64,
    errno: u64,
    bytes: u64,
}

impl Seen {
    fn recorded(line: &Value) -> Seen {
        let number = |field: &str| line[field].as_u64().unwrap_or(0);
        let text = |field: &str| line[field].as_str().unwrap_or_default().to_owned();
        Seen {
            command: text("command"),
            sql: text("sql"),
            rows: number("rows_sent"),
            warnings: number("warnings"),
            errno: number("errno"),
            bytes: number("bytes_sent"),
        }
    }
}

/// A client that reads every packet, and notes it.
struct Client {
    raw: Raw,
    omits_eof: bool,
    /// Of the last packet that ended something.
    status: u16,
    warnings: u64,
    bytes: u64,
    seen: Vec<Seen>,
}

/// A length-encoded number below 2^16, and its length.
fn number(bytes: &[u8]) -> (usize, usize) {
    match bytes[0] {
        0xfc => (usize::from(u16::from_le_bytes([bytes[1], bytes[2]])), 3),
        small => (usize::from(small), 1),
    }
}

fn errno(packet: &[u8]) -> u64 {
    u64::from(u16::from_le_bytes([packet[1], packet[2]]))
}

impl Client {
    fn connect(port: u16, capabilities: u32) -> Client {
        let login = Login { db: Some(b"shop"), capabilities, ..Login::new("guest") };
        let raw = Raw::login_tcp(port, &login).expect("a connection").expect("a login");
        let omits_eof = capabilities & DEPRECATE_EOF != 0;
        Client { raw, omits_eof, status: 0, warnings: 0, bytes: 0, seen: Vec::new() }
    }

    fn packet(&mut self) -> Vec<u8> {
        let packet = self.raw.read_packet().expect("a packet");
        self.bytes += (packet.len() + 4 * (packet.len() / FULL + 1)) as u64;
        packet
    }

    /// Takes the numbers of an OK packet, whatever its first byte.
    fn take_ok(&mut self, packet: &[u8]) {
        let (_, affected) = number(&packet[1..]);
        let (_, id) = number(&packet[1 + affected..]);
        self.take_end(&packet[1 + affected + id..]);
    }

    fn take_end(&mut self, numbers: &[u8]) {
        self.status = u16::from_le_bytes([numbers[0], numbers[1]]);
        self.warnings += u64::from(u16::from_le_bytes([numbers[2], numbers[3]]));
    }

    /// Whether a packet is the end of rows or descriptions.
    fn is_end(&mut self, packet: &[u8]) -> bool {
        if packet[0] != 0xfe || packet.len() >= FULL {
            return false;
        }
        if self.omits_eof {
            self.take_ok(packet);
        } else {
            assert_eq!(packet.len(), 5, "an EOF packet");
            self.take_end(&[packet[3], packet[4], packet[1], packet[2]]);
        }
        true
    }

    /// Packets up to an end or an error: their number, and that of the error.
    fn rows(&mut self) -> (u64, u64) {
        let mut rows = 0;
        loop {
            let packet = self.packet();
            if packet[0] == 0xff {
                return (rows, errno(&packet));
            }
            if self.is_end(&packet) {
                return (rows, 0);
            }
            rows += 1;
        }
    }

    /// All results: their rows, and the number of the error.
    fn results(&mut self) -> (u64, u64) {
        let mut all = 0;
        loop {
            let packet = self.packet();
            match packet[0] {
                0xff => return (all, errno(&packet)),
                0 => self.take_ok(&packet),
                _ => {
                    let (columns, _) = number(&packet);
                    (0..columns).for_each(|_| drop(self.packet()));
                    if !self.omits_eof {
                        let packet = self.packet();
                        // Its warnings are those of the end.
                        let warnings = self.warnings;
                        assert!(self.is_end(&packet), "the end of the columns");
                        if self.status & CURSOR == 0 {
                            self.warnings = warnings;
                        }
                    }
                    if self.omits_eof || self.status & CURSOR == 0 {
                        let (rows, error) = self.rows();
                        all += rows;
                        if error != 0 {
                            return (all, error);
                        }
                    }
                }
            }
            if self.status & MORE_RESULTS == 0 {
                return (all, 0);
            }
        }
    }

    fn begin(&mut self, code: u8, body: &[u8]) {
        (self.bytes, self.warnings, self.status) = (0, 0, 0);
        self.raw.begin(code, body).expect("a command");
    }

    fn note(&mut self, command: &str, sql: &str, (rows, errno): (u64, u64)) {
        let is_text = matches!(command, "Query" | "Execute" | "Prepare");
        let (command, sql) = (command.to_owned(), sql.to_owned());
        let warnings = if is_text && errno == 0 { self.warnings } else { 0 };
        let rows = if is_text { rows } else { 0 };
        self.seen.push(Seen { command, sql, rows, warnings, errno, bytes: self.bytes });
    }

    fn query(&mut self, sql: &str) -> (u64, u64) {
        self.begin(com::QUERY, sql.as_bytes());
        let results = self.results();
        self.note("Query", sql, results);
        results
    }

    fn prepare(&mut self, sql: &str) -> u32 {
        self.begin(com::STMT_PREPARE, sql.as_bytes());
        let packet = self.packet();
        assert_eq!(packet[0], 0, "{sql}");
        let count = |at: usize| usize::from(u16::from_le_bytes([packet[at], packet[at + 1]]));
        for count in [count(5), count(7)] {
            let has_end = !self.omits_eof && count > 0;
            (0..count + usize::from(has_end)).for_each(|_| drop(self.packet()));
        }
        self.note("Prepare", sql, (0, 0));
        u32::from_le_bytes([packet[1], packet[2], packet[3], packet[4]])
    }

    fn execute(&mut self, id: u32, sql: &str, cursor: u8) -> u64 {
        let body = [&id.to_le_bytes()[..], &[cursor], &1_u32.to_le_bytes()].concat();
        self.begin(com::STMT_EXECUTE, &body);
        let results = self.results();
        self.note("Execute", sql, results);
        results.0
    }

    fn fetch(&mut self, id: u32, rows: u32) -> u64 {
        self.begin(com::STMT_FETCH, &[id.to_le_bytes(), rows.to_le_bytes()].concat());
        let fetched = self.rows();
        self.note("Fetch", "", fetched);
        fetched.0
    }

    /// A command that is answered by an end alone, or by an OK packet.
    fn simple(&mut self, code: u8, name: &str, body: &[u8]) {
        self.begin(code, body);
        let packet = self.packet();
        assert!(matches!(packet[0], 0 | 0xfe), "{name}: {packet:?}");
        self.note(name, "", (0, 0));
    }

    fn run(&mut self) {
        let rows = STATEMENTS.map(|sql| self.query(sql).0);
        // What was really sent.
        assert_eq!(rows, [1, 5, 2, 0, 1, 1, 2, 8, 1, 3, 1, 0, 0, 1]);
        self.begin(com::FIELD_LIST, b"t\0");
        assert_eq!(self.rows(), (2, 0));
        self.note("Field List", "", (0, 0));
        self.query("COMMIT");
        let prepared = self.prepare(ROWS);
        assert_eq!(self.execute(prepared, ROWS, 0), 5);
        assert_eq!(self.execute(prepared, ROWS, 1), 0);
        assert_ne!(self.status & CURSOR, 0, "a cursor");
        assert_eq!([2, 2, 2].map(|rows| self.fetch(prepared, rows)), [2, 2, 1]);
        // Without a row.
        assert_eq!(self.fetch(prepared, 2), 0);
        let call = self.prepare(CALL);
        assert_eq!(self.execute(call, CALL, 0), 3);
        self.simple(com::SET_OPTION, "Set option", b"\0\0");
        self.simple(com::PING, "Ping", b"");
        self.query("SELECT 'the end'");
        self.begin(com::QUIT, b"");
        self.note("Quit", "", (0, 0));
    }
}

#[test]
fn results_are_counted_with_and_without_eof_packets() {
    let test = "capture_ends::results_are_counted_with_and_without_eof_packets";
    if !namespace::enter(test, "a capture of clients without EOF packets is not compared") {
        return;
    }
    let product = Product::wanted().expect("a server");
    let builder = product.builder().option("max-allowed-packet=64M");
    let server = builder.start().expect("a server");
    let mut root = server.connect().expect("a connection");
    for statement in [
        "CREATE USER guest@'127.0.0.1'",
        "CREATE DATABASE shop",
        "GRANT ALL ON shop.* TO guest@'127.0.0.1'",
        "CREATE TABLE shop.t (id INT PRIMARY KEY, v VARCHAR(9))",
        "INSERT INTO shop.t VALUES (1, 'a'), (2, NULL), (3, ''), (4, 'd'), (5, 'e')",
        "CREATE PROCEDURE shop.two_results() BEGIN SELECT 1; SELECT 2 UNION SELECT 3; END",
        "CREATE PROCEDURE shop.fails() BEGIN SELECT 1; SELECT * FROM nosuch; END",
    ] {
        root.query_drop(statement).expect(statement);
    }
    let directory = unused_directory("capture-ends");
    let mut capture = Capture::start(server.port(), &directory).expect("a capture");
    let kinds = [0, DEPRECATE_EOF, SESSION_TRACK, DEPRECATE_EOF | SESSION_TRACK];
    let mut clients = Vec::new();
    for capabilities in kinds {
        let mut client = Client::connect(server.port(), capabilities);
        client.query("SET session_track_transaction_info = 'CHARACTERISTICS'");
        client.query("SET session_track_system_variables = '*'");
        client.run();
        // With the client its connection ends.
        clients.push((capabilities, client.raw.conn, client.seen));
    }
    // The end of a result reports the state of the transaction.
    let bytes_of_count = |client: usize| {
        let is_it = |it: &&Seen| it.sql == "SELECT COUNT(*) FROM t";
        clients[client].2.iter().find(is_it).map_or(0, |it| it.bytes)
    };
    assert!(bytes_of_count(3) > bytes_of_count(1));
    wait_for_ends(capture.log(), capture.log(), clients.len());
    capture.stop().expect("its end");
    let mut captured = sessions(capture.log());
    for (capabilities, conn, seen) in clients {
        let lines = captured.remove(&conn).expect("its session");
        let recorded = lines.iter().filter(|line| line["event"] == "statement");
        let recorded = recorded.map(Seen::recorded).collect::<Vec<_>>();
        assert_eq!(recorded, seen, "{capabilities:#x}");
    }
    fs::remove_dir_all(&directory).expect("removing the log");
}
