//! A server whose traces are tested, and its lines.

use tacho_tests::client::{Conn, Queryable};
use tacho_tests::mysql_place::LogAndArenas;
use tacho_tests::mysql_server::MySql;
use tacho_tests::recorded::{self, Line};

/// A server with a database `d`, and root's connection.
pub fn start(place: &LogAndArenas, options: &[&str]) -> (MySql, Conn) {
    with_tables(place.start(options))
}

/// The same, of a server that records.
pub fn with_tables((server, mut root): (MySql, Conn)) -> (MySql, Conn) {
    for sql in [
        "CREATE DATABASE d",
        "CREATE TABLE d.t (id INT PRIMARY KEY, v VARCHAR(20))",
        "CREATE TABLE d.seen (id INT)",
        "INSERT INTO d.t VALUES (1, 'a'), (2, 'b'), (3, 'c')",
    ] {
        root.query_drop(sql).expect("an answer");
    }
    (server, root)
}

/// The only line of this text.
pub fn with_sql<'l>(lines: &'l [Line], sql: &str) -> &'l Line {
    let mut found = lines.iter().filter(|line| recorded::text(line, "sql") == Some(sql));
    let line = found.next().unwrap_or_else(|| panic!("no line of {sql}"));
    assert!(found.next().is_none(), "{sql} has several lines");
    line
}
