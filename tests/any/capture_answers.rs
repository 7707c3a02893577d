//! Zone: outside. The fields of an answer in a capture have the values that the client reads in it:
//! last id, warnings, text. Its bytes are those that the server counts (`Bytes_sent`).

use std::fs;

use mysql::consts::CapabilityFlags;
use mysql::{Compression, Conn, OptsBuilder};
use serde_json::Value;
use tacho_sandbox::server::PrivateServer;
use tacho_tests::captured::{Capture, sessions, wait_for_ends};
use tacho_tests::client::Queryable as _;
use tacho_tests::command_line::CommandLine;
use tacho_tests::product::Product;
use tacho_tests::{namespace, unused_directory};

/// Before and behind each statement.
const COUNTER: &str = "SHOW SESSION STATUS LIKE 'Bytes_sent'";
/// The same for a client that hands no rows over.
const KEPT_COUNTER: &str = "INSERT INTO sent SELECT VARIABLE_VALUE FROM STATUS \
                            WHERE VARIABLE_NAME = 'Bytes_sent'";
/// Its second result comes so much later than its first one, s.
const SEVERAL: &str = "INSERT INTO t (v) VALUES ('d'); SELECT 1 + '1x', REPEAT('x', 70000); \
                       UPDATE t SET v = 'too long'; SELECT SLEEP(0.2)";
const SELECT: &str = "SELECT 1 + '1x', REPEAT('x', 70000)";
const SLEEP_US: u64 = 200_000;

/// Statements of one result each. The mode of the session has warnings instead of errors.
const STATEMENTS: [&str; 14] = [
    "CREATE TEMPORARY TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(3))",
    "SET sql_mode = ''",
    "INSERT INTO t (v) VALUES ('a')",
    "INSERT INTO t (v) VALUES ('b'), ('too long'), ('c')",
    "INSERT INTO t VALUES (20, 'x')",
    "UPDATE t SET v = 'too long' WHERE id > 2",
    "UPDATE t SET id = LAST_INSERT_ID(id + 70) WHERE id = 1",
    "DELETE FROM t WHERE id = 9999",
    "SELECT * FROM t",
    SELECT,
    "DROP TABLE IF EXISTS nosuch",
    "ALTER TABLE t ADD COLUMN n INT",
    "PREPARE s FROM 'DO 1'",
    "DO 1",
];

/// What a line has of an answer, without its bytes and times.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Said {
    last_insert_id: u64,
    warnings: u64,
    info: String,
}

impl Said {
    /// According to the client.
    fn last_of(conn: &Conn) -> Said {
        let (last_insert_id, warnings) = (conn.last_insert_id(), conn.warnings().into());
        Said { last_insert_id, warnings, info: conn.info_str().into_owned() }
    }

    fn recorded(line: &Value) -> Said {
        let number = |field: &str| match &line[field] {
            Value::Null => 0,
            // It is left out instead.
            number => number.as_u64().filter(|number| *number > 0).expect("a number above 0"),
        };
        let info = line["info"].as_str().unwrap_or_default().to_owned();
        Said { last_insert_id: number("last_insert_id"), warnings: number("warnings"), info }
    }
}

/// A session: what the client has read in each answer, and what the server has counted.
#[derive(Default)]
struct Load {
    said: Vec<(String, Said)>,
    sent: Vec<u64>,
}

impl Load {
    fn count(&mut self, conn: &mut Conn) {
        let row: Option<(String, u64)> = conn.query_first(COUNTER).expect(COUNTER);
        self.sent.push(row.expect("a row").1);
    }

    fn note(&mut self, conn: &mut Conn, sql: &str, said: Said) {
        self.said.push((sql.to_owned(), said));
        self.count(conn);
    }

    fn run(conn: &mut Conn) -> Load {
        let mut load = Load::default();
        load.count(conn);
        for sql in STATEMENTS {
            conn.query_drop(sql).expect(sql);
            let said = Said::last_of(conn);
            load.note(conn, sql, said);
        }
        // The server's word for it.
        conn.query_drop("INSERT INTO t (v) VALUES ('too long')").expect("a row");
        let said = Said::last_of(conn);
        let of_server = conn.query_first("SELECT @@warning_count, LAST_INSERT_ID()");
        let of_server: Option<(u64, u64)> = of_server.expect("a row");
        assert_eq!(of_server, Some((said.warnings, said.last_insert_id)));
        assert!(said.warnings == 1 && said.last_insert_id > 0, "{said:?}");
        load.note(conn, "INSERT INTO t (v) VALUES ('too long')", said);
        let execute = "INSERT INTO t (v) VALUES (?)";
        conn.exec_drop(execute, ("too long",)).expect(execute);
        let said = Said::last_of(conn);
        load.note(conn, execute, said);
        conn.query_drop("SELEKT").expect_err("an error");
        load.note(conn, "SELEKT", Said::default());
        load.several(conn);
        load
    }

    /// The statements by the server's own client, which has read the same as this one. MySQL's has
    /// no EOF packets.
    fn by_command_line(&self, server: &PrivateServer, root: &mut Conn, counter: &str) -> Load {
        let statements = STATEMENTS.map(|sql| format!("{sql};\n{counter};\n")).concat();
        let script = format!("{counter};\n{statements}");
        assert!(CommandLine::of(server).run(("guest", ""), &["shop"], &script));
        let sent: Vec<u64> =
            root.query("SELECT bytes FROM shop.sent ORDER BY bytes").expect("rows");
        let said = self.said.iter().filter(|(sql, _)| STATEMENTS.contains(&&**sql));
        Load { said: said.cloned().collect(), sent }
    }

    /// Several results: the warnings are added up, and the last id and text count.
    fn several(&mut self, conn: &mut Conn) {
        let counts = "SELECT COUNT(*) + 1, CAST(SUM(v <> 'too') + 1 AS UNSIGNED) FROM t";
        let counts = conn.query_first(counts).expect("a row");
        let (rows, changed): (u64, u64) = counts.expect("a row");
        let mut results = conn.query_iter(SEVERAL).expect(SEVERAL);
        while let Some(result) = results.iter() {
            let rows = result.map(|row| row.map(drop));
            rows.collect::<Result<(), _>>().expect("rows");
        }
        drop(results);
        let id = conn.query_first("SELECT LAST_INSERT_ID()").expect("a row");
        let of_select = self.said.iter().find(|(sql, _)| sql == SELECT).expect("it");
        let said = Said {
            last_insert_id: id.expect("a row"),
            // The update has one for each row.
            warnings: of_select.1.warnings + rows,
            info: format!("Rows matched: {rows}  Changed: {changed}  Warnings: {rows}"),
        };
        self.note(conn, SEVERAL, said);
    }
}

fn assert_recorded(load: &Load, lines: &[Value], counter: &str, name: &str) {
    let is = |line: &&Value, sql: &str| line["sql"] == sql && line["command"] != "Prepare";
    for (sql, said) in &load.said {
        let line = lines.iter().find(|line| is(line, sql)).expect(sql);
        assert_eq!(Said::recorded(line), *said, "{name}: {line}");
    }
    let ends = lines.iter().filter(|line| line["bytes_sent"].is_u64());
    for line in ends {
        assert!(line["first_byte_us"].as_u64() <= line["query_time_us"].as_u64(), "{line}");
    }
    // The server counts an answer after it is sent, so the value is that before its own answer.
    let counters = lines.iter().enumerate().filter(|(_, line)| is(line, counter));
    let counters = counters.map(|(index, _)| index).collect::<Vec<_>>();
    assert_eq!(counters.len(), load.sent.len());
    for (between, sent) in counters.windows(2).zip(load.sent.windows(2)) {
        let lines = &lines[between[0]..between[1]];
        let bytes = lines.iter().filter_map(|line| line["bytes_sent"].as_u64()).sum::<u64>();
        assert_eq!(bytes, sent[1] - sent[0], "{name}: {lines:?}");
    }
    if let Some(several) = lines.iter().find(|line| is(line, SEVERAL)) {
        let time = |field: &str| several[field].as_u64().expect("a time");
        assert!(time("query_time_us") - time("first_byte_us") >= SLEEP_US, "{several}");
    }
}

#[test]
fn answers_are_recorded_as_client_and_server_have_them() {
    let test = "capture_answers::answers_are_recorded_as_client_and_server_have_them";
    if !namespace::enter(test, "what a capture records of answers is not compared") {
        return;
    }
    let product = Product::wanted().expect("a server");
    let server = product.builder().start().expect("a server");
    let mut root = server.connect().expect("a connection");
    for statement in [
        "CREATE USER guest@'127.0.0.1'",
        "CREATE DATABASE shop",
        "CREATE TABLE shop.sent (bytes BIGINT UNSIGNED NOT NULL)",
        "GRANT ALL ON shop.* TO guest@'127.0.0.1'",
    ] {
        root.query_drop(statement).expect(statement);
    }
    let directory = unused_directory("capture-answers");
    let mut capture = Capture::start(server.port(), &directory).expect("a capture");
    let kinds = [
        ("plain", CapabilityFlags::empty(), None),
        ("session tracking", CapabilityFlags::CLIENT_SESSION_TRACK, None),
        ("zlib", CapabilityFlags::empty(), Some(Compression::default())),
    ];
    let mut loads = Vec::new();
    for (name, capabilities, compression) in kinds {
        let options = OptsBuilder::new()
            .ip_or_hostname(Some("127.0.0.1"))
            .tcp_port(server.port())
            .user(Some("guest"))
            .db_name(Some("shop"))
            .prefer_socket(false)
            .additional_capabilities(capabilities)
            .compress(compression);
        let mut conn = Conn::new(options).expect(name);
        loads.push((name, u64::from(conn.connection_id()), Load::run(&mut conn)));
    }
    let is_mariadb = product.is_mariadb();
    let schema = if is_mariadb { "information_schema" } else { "performance_schema" };
    let counter = KEPT_COUNTER.replace("STATUS", &format!("{schema}.session_status"));
    let by_command_line = loads[0].2.by_command_line(&server, &mut root, &counter);
    wait_for_ends(capture.log(), capture.log(), loads.len() + 1);
    capture.stop().expect("its end");
    let mut captured = sessions(capture.log());
    for (name, conn, load) in &loads {
        let lines = captured.remove(conn).expect(name);
        assert_recorded(load, &lines, COUNTER, name);
    }
    let (_, lines) = captured.pop_first().expect("the last session");
    assert_recorded(&by_command_line, &lines, &counter, "the server's own client");
    fs::remove_dir_all(&directory).expect("removing the log");
}
