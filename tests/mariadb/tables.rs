//! Zone: outside. `tacho_tables`: which tables each statement touched.

use serde_json::Value;
use tacho_tests::raw::{Raw, com};
use tacho_tests::recorded::{self, Line, text};
use tacho_tests::server::TestServer;

const SETUP: &[&str] = &[
    "CREATE DATABASE d",
    "CREATE TABLE d.a (id INT PRIMARY KEY, v INT)",
    "CREATE TABLE d.b (id INT PRIMARY KEY, v INT)",
    "CREATE TABLE d.log (id INT)",
    "INSERT INTO d.a VALUES (1, 1), (2, 2)",
    "INSERT INTO d.b VALUES (1, 1), (2, 2)",
    "CREATE VIEW d.view_of_a AS SELECT id FROM d.a",
    "CREATE TABLE d.watched (id INT)",
    "CREATE TRIGGER d.tr AFTER INSERT ON d.watched FOR EACH ROW INSERT INTO d.log VALUES (NEW.id)",
    "CREATE FUNCTION d.f() RETURNS INT READS SQL DATA RETURN (SELECT COUNT(*) FROM d.b)",
    "CREATE PROCEDURE d.p() BEGIN INSERT INTO d.log SELECT id FROM d.a; DELETE FROM d.b WHERE id = 9; END",
];

/// A statement, and the expected `tables` of its line, in any order.
const CASES: &[(&str, &[&str])] = &[
    ("SELECT 1", &[]),
    ("SELECT * FROM d.a", &["read d.a"]),
    ("SELECT * FROM d.a JOIN d.b USING (id)", &["read d.a", "read d.b"]),
    ("SELECT * FROM d.a x JOIN d.a y USING (id)", &["read d.a"]),
    ("SELECT * FROM d.a WHERE id IN (SELECT id FROM d.b)", &["read d.a", "read d.b"]),
    ("SELECT * FROM d.a UNION SELECT * FROM d.b", &["read d.a", "read d.b"]),
    ("SELECT * FROM d.view_of_a", &["read d.a"]),
    ("SELECT * FROM d.nosuch", &[]),
    ("INSERT INTO d.log VALUES (1)", &["write d.log"]),
    ("INSERT INTO d.log SELECT id FROM d.a", &["read d.a", "write d.log"]),
    ("UPDATE d.a SET v = v + 1 WHERE id = 1", &["write d.a"]),
    ("UPDATE d.a JOIN d.b USING (id) SET d.a.v = d.b.v", &["read d.b", "write d.a"]),
    ("DELETE FROM d.log", &["write d.log"]),
    ("DELETE d.a FROM d.a JOIN d.b USING (id) WHERE d.b.id = 9", &["read d.b", "write d.a"]),
    ("INSERT INTO d.watched VALUES (7)", &["write d.log", "write d.watched"]),
    ("SELECT d.f()", &["read d.b"]),
    ("CREATE TABLE d.new (id INT)", &["create d.new"]),
    ("ALTER TABLE d.new ADD c INT", &["alter d.new", "read d.new"]),
    ("RENAME TABLE d.new TO d.newer", &["rename d.new to d.newer"]),
    ("ALTER TABLE d.newer RENAME TO d.newest", &["alter d.newer", "rename d.newer to d.newest"]),
    ("TRUNCATE TABLE d.newest", &["write d.newest"]),
    ("DROP TABLE d.newest", &["drop d.newest"]),
    ("CREATE TABLE d.copy AS SELECT * FROM d.a", &["create d.copy", "read d.a", "write d.copy"]),
    // The server does not report temporary tables.
    ("CREATE TEMPORARY TABLE d.tmp (id INT)", &[]),
    ("INSERT INTO d.tmp SELECT id FROM d.b", &["read d.b"]),
    ("DROP TEMPORARY TABLE d.tmp", &[]),
    ("LOCK TABLES d.a READ, d.b WRITE", &["read d.a", "write d.b"]),
    // They were touched by LOCK TABLES.
    ("SELECT id FROM d.a", &[]),
    ("UNLOCK TABLES", &[]),
    ("CALL d.p()", &[]),
    ("CREATE TABLE d.`o'd\"d,\nx` (id INT)", &["create d.o'd\"d,\nx"]),
];

fn show(line: &Line) -> Vec<String> {
    let Some(tables) = line.get("tables") else { return Vec::new() };
    let tables = tables.as_array().expect("an array");
    let mut shown: Vec<String> = tables
        .iter()
        .map(|table| {
            let field = |name: &str| table.get(name).and_then(Value::as_str);
            let name = |db: &str, table: &str| Some(format!("{}.{}", field(db)?, field(table)?));
            let mut shown = field("access").expect("access").to_owned();
            shown += &format!(" {}", name("db", "table").expect("a name"));
            if let Some(new) = name("new_db", "new_table") {
                shown += &format!(" to {new}");
            }
            shown
        })
        // The server's own: statistics and routines, which it opens when it has forgotten them.
        .filter(|shown| !shown.contains(" mysql."))
        .collect();
    shown.sort();
    shown
}

fn run(options: &[&str]) -> Vec<Line> {
    let mut builder = TestServer::builder().option("plugin-load-add=tacho");
    for option in options {
        builder = builder.option(option);
    }
    let mut server = builder.start().expect("a server");
    let mut raw = Raw::connect(server.socket(), "root").expect("a session");
    raw.must(SETUP);
    for (sql, _) in CASES {
        raw.query(sql).expect("an answer");
    }
    raw.command(com::QUIT, b"").expect("quitting");
    server.stop().expect("stopping");
    let lines = recorded::read(&server.data_directory().join("tacho")).expect("a good log");
    recorded::of_conn(&lines, raw.conn).into_iter().cloned().collect()
}

#[test]
fn each_statement_has_its_tables() {
    let lines = run(&["tacho-tables=ON"]);
    let mut wrong = Vec::new();
    for (sql, expected) in CASES {
        let line = lines.iter().find(|line| text(line, "sql") == Some(sql));
        let found = show(line.unwrap_or_else(|| panic!("no line of {sql}")));
        if found != *expected {
            wrong.push(format!("{sql}: {found:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // Of a CALL they are with the statements inside.
    let inner = |begin: &str| {
        let is_it = |line: &&Line| text(line, "sql").is_some_and(|sql| sql.starts_with(begin));
        show(lines.iter().rfind(is_it).expect("a line"))
    };
    assert_eq!(inner("DELETE FROM d.b WHERE id = 9"), ["write d.b"]);
    assert!(lines.iter().all(|line| text(line, "event") != Some("table")), "{lines:#?}");
}

#[test]
fn no_tables_unless_asked_for() {
    assert!(run(&[]).iter().all(|line| !line.contains_key("tables")));
}

/// A thread of the server inserts delayed rows for sessions, in their names, while they continue:
/// it must not touch data of their own threads.
#[test]
fn insert_delayed_takes_nothing_from_its_session() {
    const ROUNDS: usize = 400;
    let mut server = TestServer::builder()
        .option("plugin-load-add=tacho")
        .option("tacho-tables=ON")
        .start()
        .expect("a server");
    let mut root = Raw::connect(server.socket(), "root").expect("a session");
    root.must(&["CREATE DATABASE d", "CREATE TABLE d.late (id INT) ENGINE=MyISAM"]);
    // Longer than a chunk of the arena: a record in pieces.
    let long = "x".repeat(100_000);
    std::thread::scope(|scope| {
        for client in 0..4 {
            let (server, long) = (&server, &long);
            scope.spawn(move || {
                let mut raw = Raw::connect(server.socket(), "root").expect("a session");
                for round in 0..ROUNDS {
                    let id = client * ROUNDS + round;
                    raw.must(&[
                        &format!("INSERT DELAYED INTO d.late VALUES ({id})"),
                        &format!("SELECT {id}, '{long}' IS NULL"),
                    ]);
                }
            });
        }
    });
    drop(root);
    server.stop().expect("an orderly end");
    let lines = recorded::read(&server.data_directory().join("tacho")).expect("the log");
    let of = |start: &str| {
        let mut found: Vec<&str> = lines
            .iter()
            .filter(|line| text(line, "outcome") == Some("ok"))
            .filter_map(|line| text(line, "sql"))
            .filter(|sql| sql.starts_with(start))
            .collect();
        found.sort_unstable();
        let all = found.len();
        found.dedup();
        (all, found.len())
    };
    assert_eq!(of("INSERT DELAYED INTO d.late VALUES ("), (4 * ROUNDS, 4 * ROUNDS));
    let whole = |line: &&Line| text(line, "sql").is_some_and(|sql| sql.ends_with("x' IS NULL"));
    assert_eq!(lines.iter().filter(whole).count(), 4 * ROUNDS, "long statements, whole");
    assert_eq!(of("SELECT ").1, of("SELECT ").0);
    let lost = lines.iter().filter(|line| text(line, "event") == Some("lost"));
    assert_eq!(lost.count(), 0);
}
