//! Zone: outside. Our digests beside those of a real MySQL: statements are grouped in the same way,
//! except as documented in `docs/specs/digest.md`.

#[path = "../../crates/sql/tests/beside/mod.rs"]
mod beside;

use std::collections::BTreeMap;

use beside::{Row, assert_same_groups, corpus, without_gaps};
use tacho_sql::digest::Normaliser;
use tacho_tests::client::{Conn, Queryable as _};
use tacho_tests::mysql_server::{MySql, Release, release};

/// Statements of MySQL that the corpus, which is MariaDB's, does not have; pairs of one shape among
/// them.
const STATEMENTS: &[&str] = &[
    "SELECT RANK() OVER (PARTITION BY a ORDER BY b) FROM t",
    "select rank() over (partition by a order by b) from t",
    "SELECT a, ROW_NUMBER() OVER w FROM t WINDOW w AS (ORDER BY b)",
    "WITH RECURSIVE c (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 5) SELECT n FROM c",
    "WITH RECURSIVE c (n) AS (SELECT 2 UNION ALL SELECT n + 3 FROM c WHERE n < 9) SELECT n FROM c",
    "SELECT a->'$.b', a->>'$.c' FROM t",
    "SELECT a -> '$.x' , a ->> '$.y' FROM t",
    "INSERT INTO t VALUES (1, 2) AS new ON DUPLICATE KEY UPDATE a = new.a",
    "INSERT INTO t VALUES (3, 4) AS new ON DUPLICATE KEY UPDATE a = new.a",
    "VALUES ROW(1, 2), ROW(3, 4)",
    "VALUES ROW(1, 2), ROW(3, 4), ROW(5, 6)",
    "TABLE t ORDER BY a LIMIT 5",
    "SELECT * FROM t, LATERAL (SELECT 1 AS x WHERE t.a = 2) AS d",
    "SELECT * FROM JSON_TABLE('[1]', '$[*]' COLUMNS (a INT PATH '$')) AS j",
    "SELECT * FROM JSON_TABLE('[2]', '$[*]' COLUMNS (a INT PATH '$.x')) AS j",
    "SELECT 1 MEMBER OF ('[1, 2]')",
    "SELECT 2 member of ('[3]')",
    "SELECT a FROM t FOR UPDATE SKIP LOCKED",
    "SELECT a FROM t FOR SHARE NOWAIT",
    "SELECT /*+ MAX_EXECUTION_TIME(1000) */ a FROM t",
    "SELECT /*+ MAX_EXECUTION_TIME(2000) */ a FROM t",
    "SELECT a FROM t",
    "SELECT a, SUM(b), GROUPING(a) FROM t GROUP BY a WITH ROLLUP",
    "SELECT a FROM t WHERE (a, b) IN ((1, 2), (3, 4))",
    "SELECT a FROM t WHERE (a, b) IN ((1, 2), (3, 4), (5, 6))",
    "SELECT a FROM t WHERE a IN (1, 2, 3) AND b = -1",
    "SELECT a FROM t WHERE a IN (1, 2) AND b = 5",
    "SELECT NULL, TRUE, FALSE",
    "SELECT a FROM t WHERE a IS NOT NULL AND b = NULL",
    "SELECT DATE '2026-01-01', TIMESTAMP '2026-01-01 00:00:00'",
    "SELECT _utf8mb4'x', N'y', X'41', 0x41, b'1'",
    "SELECT @a, @@version, @@global.sql_mode",
    "SELECT a AS rank_, b AS `rank` FROM t",
    "SELECT system FROM t",
    "SELECT SYSTEM FROM t",
    "SELECT description, DESCRIPTION FROM t",
    "SELECT CURRENT_USER(), CURRENT_TIMESTAMP, NOW(), CURDATE()",
    "SELECT COUNT(*), COUNT(DISTINCT a), GROUP_CONCAT(a SEPARATOR ',') FROM t",
    "SELECT CAST(a AS UNSIGNED), CONVERT(a USING utf8mb4), EXTRACT(YEAR FROM b) FROM t",
    "SELECT a FROM t WHERE MATCH (b) AGAINST ('x' IN BOOLEAN MODE)",
    "SELECT a FROM t WHERE a = 'x' COLLATE utf8mb4_bin OR b <=> NULL OR NOT c",
    "SELECT a FROM t WHERE b <> 1 AND c != 2",
    "UPDATE t SET a = a + 1, b = DEFAULT WHERE c BETWEEN 1 AND 2 ORDER BY d LIMIT 3",
    "DELETE FROM t WHERE a = 1 LIMIT 2",
    "REPLACE INTO t (a) SELECT b FROM u",
    "CALL p(1, 'x', NULL)",
    "EXPLAIN ANALYZE SELECT 1",
    "EXPLAIN FORMAT=TREE SELECT 1",
    "CREATE TABLE x (a INT NOT NULL DEFAULT -1, b VARCHAR(10) COMMENT 'x', KEY (a))",
    "CREATE TABLE x (a INTEGER NOT NULL DEFAULT 1, b VARCHAR(20) COMMENT 'y', INDEX (a))",
    "ALTER TABLE t ADD COLUMN c INT, ALGORITHM=INSTANT",
    "ALTER TABLE t ADD INDEX i ((a + 1)) INVISIBLE",
    "CREATE USER u IDENTIFIED BY 'x'",
    "SET PERSIST max_connections = 100",
    "SET @@SESSION.sql_mode = 'x', @a := 1",
    "CREATE ROLE r",
    "SHOW TABLES LIKE 'x'",
    "BEGIN",
    "START TRANSACTION READ ONLY",
    "SELECT a FROM t INTERSECT SELECT b FROM u",
    "SELECT `a` FROM `t` WHERE `a`.`b` = 1",
    "SELECT a FROM t WHERE a=1;",
    "SELECT 1 /*! , 2 */",
    "SELECT 1 /*!80000 , 2 */",
    "SELECT 1 /*!99999 , 2 */",
    "SELECT 1 /*M! , 2 */",
    "SELECT 1",
    "SELECT 1, 2",
];

fn statements() -> Vec<String> {
    let mut all: Vec<String> = corpus().iter().map(|entry| entry["sql"].clone()).collect();
    all.extend(STATEMENTS.iter().map(|sql| (*sql).to_owned()));
    all
}

/// Digest and text as the server makes them, unless it cannot parse the statement.
fn theirs(conn: &mut Conn, sql: &str) -> Option<(String, String)> {
    conn.exec_first("SELECT STATEMENT_DIGEST(?), STATEMENT_DIGEST_TEXT(?)", (sql, sql)).ok()?
}

/// Operators of JSON have one token there.
fn in_our_words(text: &str) -> String {
    beside::in_our_words(text).replace("->", "- >")
}

/// The classes of `docs/specs/digest.md`: why the texts differ.
fn class(row: &Row) -> &'static str {
    let texts = [in_our_words(&row.their_text), without_gaps(&row.our_text)];
    let are_same = |change: fn(&str) -> String| change(&texts[0]) == change(&texts[1]);
    let has = |mark: &str| row.sql.contains(mark);
    match () {
        () if are_same(str::to_owned) => "",
        () if has("/*+") => "hint",
        () if are_same(|text| text.replace("IN(?)", "IN(...)")) => "one",
        () if are_same(|text| text.replace("BY 1", "BY ?")) => "position",
        () if are_same(|text| text.trim_end_matches(" ;").to_owned()) => "end",
        () if has("/*!") || has("/*M!") => "version",
        () if are_same(|text| text.replace("- ", "").replace("+ ", "")) => "sign",
        () if are_same(|text| text.replace('`', "").to_uppercase()) => "word",
        () if are_same(|text| text.replace("REPLICA", "SLAVE")) => "word",
        () => "?",
    }
}

#[test]
fn statements_are_grouped_as_the_server_groups_them() {
    let server = MySql::builder().option("max-digest-length=1048576").start().expect("a server");
    let mut conn = server.connect().expect("a connection");
    // Names of tables need a database.
    conn.query_drop("USE mysql").expect("an answer");
    let mut normaliser = Normaliser::default();
    let mut rows = Vec::new();
    for sql in statements() {
        let Some((their_digest, their_text)) = theirs(&mut conn, &sql) else { continue };
        rows.push(Row::new(&mut normaliser, &sql, &their_digest, &their_text));
    }
    assert!(rows.len() > 350, "only {} are statements of this server", rows.len());

    let mut count_of_class: BTreeMap<&str, usize> = BTreeMap::new();
    for row in &rows {
        *count_of_class.entry(class(row)).or_default() += 1;
        if !class(row).is_empty() {
            println!("{}: {}", class(row), row.sql);
            println!("    there {}\n    here  {}", row.their_text, row.our_text);
        }
    }
    println!("{count_of_class:?}");
    let names: Vec<&str> = count_of_class.keys().copied().collect();
    match release() {
        Release::Mysql97 => {
            assert_eq!(names, ["", "hint", "one", "position", "sign", "version", "word"]);
        }
        Release::Mysql80 => {
            assert_eq!(names, ["", "end", "hint", "one", "sign", "version", "word"]);
        }
    }

    let count = assert_same_groups(rows.iter().filter(|row| class(row).is_empty()));
    assert!(count > 200, "only {count} shapes");
}
