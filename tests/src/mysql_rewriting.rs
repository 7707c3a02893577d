//! Rules that rewrite, in a real MySQL: the script of the package, run by the server's own client;
//! rules inserted into the table; the lines of statements that were rewritten.

use std::fs::File;
use std::process::{Command, Stdio};

use mysql::prelude::{FromRow, FromValue};

use crate::client::{self, Conn, Queryable as _};
use crate::mysql_place::LogAndArenas;
use crate::mysql_server::{MySql, install, installation, status_name};
use crate::recorded::{self, Line};
use crate::source_root;

/// `ER_SPECIFIC_ACCESS_DENIED_ERROR`.
pub const DENIED: u16 = 1227;
/// What `SIGNAL` of the procedure raises.
pub const SIGNALLED: u16 = 1644;

/// The server's message about wrong rules.
pub const WRONG_RULES: &str = "left out of rewrite_rules";

/// The command that puts the rules in force.
pub const LOAD: &str = "CALL tacho.load_rewrite_rules()";

/// A server that records, with the table of the rules, and its administrator, who has SUPER.
///
/// # Panics
/// It does not come up.
pub fn start(place: &LogAndArenas, options: &[&str]) -> (MySql, Conn) {
    let builder = options.iter().fold(place.builder(), |builder, option| builder.option(option));
    let server = builder.start().expect("a server");
    let root = prepare(&server);
    (server, root)
}

/// Does the same as [`start`] with a running server: a database `d` with two tables, and users.
///
/// # Panics
/// It does not answer as it should.
pub fn prepare(server: &MySql) -> Conn {
    let mut root = server.connect().expect("a connection");
    root.query_drop(install()).expect("installing");
    run_script(server);
    for sql in [
        "CREATE DATABASE d",
        "CREATE TABLE d.one (n INT)",
        "INSERT INTO d.one VALUES (1)",
        "CREATE TABLE d.t (id INT PRIMARY KEY, note VARCHAR(100))",
        "CREATE USER app, dba, auditor",
        "GRANT ALL ON d.* TO app, dba, auditor",
    ] {
        root.query_drop(sql).expect(sql);
    }
    root
}

/// Creates the table and the procedure, as an administrator would.
///
/// # Panics
/// The client says that something is wrong.
pub fn run_script(server: &MySql) {
    let script = File::open(source_root().join("packaging/rewrite_rules.sql")).expect("a script");
    let output = Command::new(installation().usr().join("bin/mysql"))
        .arg("--no-defaults")
        .arg("--user=root")
        .arg(format!("--socket={}", server.socket().display()))
        .stdin(Stdio::from(script))
        .output()
        .expect("running mysql");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Adds a rule to the table, which changes nothing before it is loaded. Returns its id.
///
/// # Panics
/// The table does not take it.
pub fn add(root: &mut Conn, pattern: &str, database: Option<&str>, replacement: &str) -> u64 {
    root.exec_drop(
        "INSERT INTO tacho.rewrite_rules (pattern, pattern_database, replacement) VALUES (?, ?, ?)",
        (pattern, database, replacement),
    )
    .expect("a rule");
    root.last_insert_id()
}

/// Puts exactly these rules in force: patterns and replacements, for any database.
///
/// # Panics
/// One of them is wrong.
pub fn set(root: &mut Conn, rules: &[(&str, &str)]) {
    root.query_drop("DELETE FROM tacho.rewrite_rules").expect("an answer");
    for (pattern, replacement) in rules {
        add(root, pattern, None, replacement);
    }
    root.query_drop(LOAD).expect("right rules");
}

/// The lines of statements that were rewritten: the original text, and the new one.
pub fn rewritten(lines: &[Line]) -> Vec<(&str, &str)> {
    lines
        .iter()
        .filter_map(|line| {
            let new = recorded::text(line, "rewritten_query")?;
            Some((recorded::text(line, "sql").unwrap_or("-"), new))
        })
        .collect()
}

/// Installs MySQL's own plugin with one rule, as its script does. `SELECT load_rewrite_rules()`
/// puts it in force.
///
/// # Panics
/// The server refuses it.
pub fn install_servers_own(conn: &mut Conn, pattern: &str, replacement: &str) {
    for sql in [
        "CREATE DATABASE query_rewrite",
        "CREATE TABLE query_rewrite.rewrite_rules (id INT AUTO_INCREMENT PRIMARY KEY, \
         pattern VARCHAR(5000) NOT NULL, pattern_database VARCHAR(20), \
         replacement VARCHAR(5000) NOT NULL, \
         enabled ENUM('YES', 'NO') NOT NULL DEFAULT 'YES', message VARCHAR(1000), \
         pattern_digest VARCHAR(64), normalized_pattern VARCHAR(100)) CHARACTER SET utf8mb4",
        &format!(
            "INSERT INTO query_rewrite.rewrite_rules (pattern, replacement) \
             VALUES ('{pattern}', '{replacement}')"
        ),
        "INSTALL PLUGIN rewriter SONAME 'rewriter.so'",
        "CREATE FUNCTION load_rewrite_rules RETURNS STRING SONAME 'rewriter.so'",
    ] {
        conn.query_drop(sql).expect(sql);
    }
}

/// A session of a user in the database `d`.
///
/// # Panics
/// The server refuses it.
pub fn session(server: &MySql, user: &str) -> Conn {
    client::connect(server.socket(), user, "d").expect("a connection")
}

/// The first value of the first row.
///
/// # Panics
/// There is none.
pub fn one<T: FromValue>(conn: &mut Conn, sql: &str) -> T {
    conn.query_first(sql).expect(sql).expect(sql)
}

/// The first row.
///
/// # Panics
/// There is none.
pub fn one_row<T: FromRow>(conn: &mut Conn, sql: &str) -> T {
    conn.query_first(sql).expect(sql).expect(sql)
}

/// The first column of all rows of all results.
///
/// # Panics
/// The statement fails.
pub fn all(conn: &mut Conn, sql: &str) -> Vec<i64> {
    let mut results = conn.query_iter(sql).expect(sql);
    let mut found = Vec::new();
    while let Some(result) = results.iter() {
        found.extend(result.map(|row| row.expect("a row").get::<i64, _>(0).expect("a number")));
    }
    found
}

/// The number and the text of a statement's error; 0: none.
///
/// # Panics
/// There is no answer.
pub fn error_of(conn: &mut Conn, sql: &str) -> (u16, String) {
    match conn.query_drop(sql) {
        Ok(()) => (0, String::new()),
        Err(mysql::Error::MySqlError(error)) => (error.code, error.message),
        Err(other) => panic!("{sql}: {other}"),
    }
}

/// How many statements were rewritten.
///
/// # Panics
/// There is no such figure.
pub fn rewritten_count(root: &mut Conn) -> u64 {
    client::status_number(root, &status_name("statements_rewritten")).expect("a status")
}

/// How many rules are in force.
///
/// # Panics
/// There is no such figure.
pub fn rule_count(root: &mut Conn) -> u64 {
    client::status_number(root, &status_name("rewrite_rules")).expect("a status")
}

/// Ends the server and reads what it has recorded.
///
/// # Panics
/// It complains, or the log cannot be read.
pub fn end(server: &mut MySql, place: &LogAndArenas) -> Vec<Line> {
    end_but(server, place, &[])
}

fn end_but(server: &mut MySql, place: &LogAndArenas, allowed: &[&str]) -> Vec<Line> {
    let lines = place.end(server);
    server.assert_clean_log(allowed);
    lines
}

/// Ends the server.
///
/// # Panics
/// It complains of anything that is not `allowed`, or the log cannot be read.
pub fn finish(mut server: MySql, place: &LogAndArenas, allowed: &[&str]) {
    end_but(&mut server, place, allowed);
}
