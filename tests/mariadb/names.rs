//! Zone: outside. Names of all kinds of things with characters of four bytes, quotes, newlines,
//! commas: every line is valid JSON and gives back the bytes that the client sent, whether the
//! server takes the name or not.

use serde_json::Value;
use tacho_record::charset::{Charset, restore};
use tacho_tests::raw::{Login, Raw, UTF8MB4, com};
use tacho_tests::recorded::{self, Line, number, text};
use tacho_tests::server::TestServer;

/// Identifiers and accounts of 10.11 have at most three bytes for a character.
const FOUR_BYTES: &[&str] = &["a\u{1F600}b", "\u{1F69A}\u{1F69A}", "x\u{10FFFF}"];
const ODD: &[&str] = &[
    "quote\"s' and \\",
    "new\nline\r\n\ttab",
    "com,ma;semi",
    "{\"user\":\"root\"}",
    "\u{2028}\u{2029}\u{feff}",
    "\u{202e}right to left",
    "Gr\u{fc}\u{df}e \u{4e2d}\u{6587}",
    "/* not a comment */ -- nor this",
    "\u{1}\u{1f}\u{7f}",
];
/// `ER_INVALID_CHARACTER_STRING`.
const INVALID_CHARACTER: u16 = 1300;
/// `utf8mb3_general_ci`.
const UTF8MB3: u8 = 33;

fn identifier(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

fn literal(name: &str) -> String {
    format!("'{}'", name.replace('\\', "\\\\").replace('\'', "''"))
}

/// Statements with the name in every place where one can be.
fn statements(name: &str) -> Vec<String> {
    let (id, text) = (identifier(name), literal(name));
    vec![
        format!("CREATE DATABASE {id}"),
        format!("CREATE TABLE d.{id} ({id} INT COMMENT {text}) COMMENT = {text}"),
        format!("INSERT INTO d.{id} ({id}) VALUES (1)"),
        format!("SELECT x.{id} AS {id}, {text} FROM d.{id} AS x"),
        format!("CREATE VIEW d.`v{name}` AS SELECT {text} AS {id}"),
        format!("CREATE PROCEDURE d.{id}({id} INT) COMMENT {text} SELECT {id}"),
        format!("CALL d.{id}(1)"),
        format!("CREATE TRIGGER d.`t{name}` AFTER INSERT ON d.{id} FOR EACH ROW SET @a = {text}"),
        format!("INSERT INTO d.{id} VALUES (2)"),
        format!("CREATE USER {text}@localhost"),
        format!("GRANT ALL ON *.* TO {text}@localhost"),
        format!("CREATE ROLE {id}"),
        format!("SET @{id} = {text}"),
        format!("PREPARE {id} FROM 'SELECT 1'"),
        format!("SAVEPOINT {id}"),
        format!("SELECT * FROM d.`no such {name}`"),
        format!("SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = {text}"),
        format!("SELEKT {name}"),
    ]
}

struct Scene {
    server: TestServer,
    /// The statements of each session.
    sent: Vec<(u64, Vec<String>)>,
}

impl Scene {
    fn new() -> Scene {
        let server = TestServer::builder()
            .option("plugin-load-add=tacho")
            .option("tacho-tables=ON")
            .start()
            .expect("a server");
        Raw::connect(server.socket(), "root").expect("a session").must(&["CREATE DATABASE d"]);
        Scene { server, sent: Vec::new() }
    }

    /// Sends all of a name's statements; their error numbers.
    fn send(&mut self, collation: u8, name: &str) -> Vec<u16> {
        let login = Login { collation, ..Login::new("root") };
        let mut raw = Raw::login(self.server.socket(), &login).expect("up").expect("a session");
        let statements = statements(name);
        let answers = statements.iter().map(|sql| {
            let answers = raw.query(sql).expect("an answer");
            answers.last().map_or(0, |answer| answer.errno())
        });
        let errors = answers.collect();
        raw.command(com::QUIT, b"").expect("quitting");
        self.sent.push((raw.conn, statements));
        errors
    }

    /// Stops the server. The lines are there, each once, and give the bytes back.
    fn end(mut self) -> Vec<Line> {
        self.server.stop().expect("stopping");
        let lines = recorded::read(&self.server.data_directory().join("tacho")).expect("a log");
        for (conn, statements) in &self.sent {
            let of_conn = recorded::of_conn(&lines, *conn);
            // A statement inside a CALL or a trigger has its own text.
            let mut queries = of_conn.iter().filter(|line| text(line, "command") == Some("Query"));
            for sql in statements {
                let found = queries.find(|line| original(line) == sql.as_bytes());
                assert!(found.is_some(), "{sql:?} is not in its place: {of_conn:#?}");
            }
        }
        lines
    }
}

fn original(line: &Line) -> Vec<u8> {
    let charset = text(line, "sql_charset").expect("a character set");
    let charset = Charset::by_name(charset.as_bytes()).expect("a known one");
    restore(text(line, "sql").expect("a text"), text(line, "sql_b64"), charset).expect("its bytes")
}

#[test]
fn odd_names_are_exact_wherever_they_stand() {
    let mut scene = Scene::new();
    for name in ODD {
        let errors = scene.send(UTF8MB4, name);
        // All but the last three succeed.
        let (good, bad) = errors.split_at(errors.len() - 3);
        assert!(good.iter().all(|errno| *errno == 0), "{name:?}: {errors:?}");
        assert!(bad.iter().all(|errno| *errno != 0), "{name:?}: {errors:?}");
    }
    let lines = scene.end();
    for name in ODD {
        let is_table = |table: &Value| table["db"] == "d" && table["table"] == *name;
        for access in ["create", "write", "read"] {
            let touches = |line: &&Line| {
                let tables = line.get("tables").and_then(Value::as_array);
                let all = tables.into_iter().flatten();
                all.filter(|table| is_table(table)).any(|table| table["access"] == access)
            };
            assert!(lines.iter().any(|line| touches(&line)), "{access} of {name:?}");
        }
        let created = |line: &&Line| text(line, "sql") == Some(&*statements(name)[0]);
        assert!(lines.iter().any(|line| created(&line)), "{name:?}");
    }
}

#[test]
fn names_of_four_bytes_are_exact_also_where_they_are_refused() {
    let mut scene = Scene::new();
    for name in FOUR_BYTES {
        for collation in [UTF8MB4, UTF8MB3] {
            let errors = scene.send(collation, name);
            assert!(errors.contains(&INVALID_CHARACTER), "{name:?}: {errors:?}");
        }
        // As user and as database of a login, in either character set: an unknown user.
        for collation in [UTF8MB4, UTF8MB3] {
            let user = Login { collation, ..Login::new(name) };
            let (conn, errno) = Raw::login(scene.server.socket(), &user)
                .expect("an answer")
                .map_or_else(|refusal| refusal, |raw| (raw.conn, 0));
            let db = Login { collation, db: Some(name.as_bytes()), ..Login::new("root") };
            let refused = Raw::login(scene.server.socket(), &db).expect("an answer");
            let (refused, _) = refused.expect_err("there is no such database");
            scene.sent.push((conn, Vec::new()));
            scene.sent.push((refused, Vec::new()));
            // CREATE USER takes the name with question marks, and so does a login in utf8mb4.
            assert_eq!(errno == 0, collation == UTF8MB4, "{name:?}");
        }
    }
    let sessions: Vec<u64> =
        scene.sent.iter().filter(|(_, sent)| sent.is_empty()).map(|(conn, _)| *conn).collect();
    let lines = scene.end();
    for conn in sessions {
        let lines = recorded::of_conn(&lines, conn);
        let event = text(lines[0], "event").expect("an event");
        assert!(matches!(event, "connect" | "connect_failed"), "{lines:#?}");
        // As the server has it. A database that cannot be a name is refused before there is a user.
        match text(lines[0], "user") {
            None => assert_eq!(number(lines[0], "errno"), Some(u64::from(INVALID_CHARACTER))),
            Some(user) => assert!(user == "root" || user.contains('?'), "{lines:#?}"),
        }
    }
}
