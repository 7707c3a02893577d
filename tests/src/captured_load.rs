//! What the sessions of a captured server do in tests.

use std::path::Path;

use anyhow::{Context as _, Result};
use tacho_sandbox::client::{Address, Login, Queryable};

use crate::captured::CLIENT;
use crate::sysbench::Sysbench;

/// An account over TCP that may do everything, and its password.
pub const APP: (&str, &str) = ("app", "right");

/// Sessions of [`run_sysbench`].
pub const SYSBENCH_SESSIONS: usize = 3;

/// Makes the database `shop` with a procedure, the accounts [`APP`] and `guest`, which has no
/// password, and the tables of sysbench.
///
/// # Errors
/// A statement fails, or sysbench.
pub fn prepare(root: &mut impl Queryable, socket: &Path) -> Result<()> {
    for statement in [
        "CREATE DATABASE shop",
        "CREATE DATABASE sbtest",
        "CREATE USER app@'127.0.0.1' IDENTIFIED BY 'right'",
        "GRANT ALL ON *.* TO app@'127.0.0.1' WITH GRANT OPTION",
        "CREATE USER guest@'127.0.0.1'",
        "CREATE PROCEDURE shop.p(n INT) SELECT n, n + 1",
    ] {
        root.query_drop(statement).context(statement)?;
    }
    Sysbench::new(socket, "oltp_read_write").tables(1, 100).fill()
}

/// Statements for the client program of any server, in the database `shop`. Errors are part of it.
/// `set_password`: the statement that does this for the user `u`.
#[must_use]
pub fn script(set_password: &str) -> String {
    format!(
        "
    SELECT 1, 'two', NULL;
    WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < 300) SELECT n FROM s;
    CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(9000));
    INSERT INTO t (v) VALUES ('a'), ('b'), ('c');
    UPDATE t SET v = 'changed' WHERE id < 3;
    UPDATE t SET v = 'changed' WHERE id < 3;
    DELETE FROM t WHERE id = 9999;
    REPLACE INTO t VALUES (1, 'replaced');
    SELECT nosuch FROM t;
    SELEKT;
    INSERT INTO t VALUES (1, 'double');
    SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'own', MYSQL_ERRNO = 4711;
    BEGIN;
    SELECT v FROM t /* in a comment */ FOR UPDATE;
    ROLLBACK;
    SET NAMES latin1;
    SELECT 'ä';
    SET NAMES utf8mb4;
    SELECT 'ä€😀';
    CREATE DATABASE other;
    USE other;
    CREATE TABLE t AS SELECT 1 AS one UNION SELECT 2;
    SELECT * FROM t;
    USE nosuch;
    DROP DATABASE other;
    SELECT 'no database any more';
    USE shop;
    SET @a = 5, @b = @a;
    SELECT REPEAT('x', 70000);
    SHOW TABLES;
    EXPLAIN SELECT * FROM t;
    ANALYZE TABLE t;
    CALL p(3);
    CREATE USER u IDENTIFIED BY 'a secret';
    {set_password};
    DROP USER u;
    KILL 4000000;
    DO 1;
"
    )
}

/// A statement with a literal of so many bytes, and backslashes in it, which are two bytes in the
/// log. Its text has 17 bytes more.
#[must_use]
pub fn large_statement(bytes: usize) -> String {
    const PART: &str = "z\\'y";
    let literal = PART.repeat(bytes / PART.len());
    format!("SELECT LENGTH('{literal}{}');", "x".repeat(bytes % PART.len()))
}

/// Runs sysbench over TCP as [`APP`], with prepared statements (`auto`) or without (`disable`).
///
/// # Panics
/// It fails.
pub fn run_sysbench(port: u16, mode: &str) {
    let (user, password) = APP;
    let login = Login {
        address: Address::Tcp(CLIENT.to_owned(), port),
        user: user.to_owned(),
        password: String::new(),
    };
    let load = Sysbench::on(&login, "sbtest", "oltp_read_write")
        .tables(1, 100)
        .threads(SYSBENCH_SESSIONS as u32)
        .option(&format!("--mysql-password={password}"))
        .option("--events=60")
        .option(&format!("--db-ps-mode={mode}"));
    // 0: as many events as that, however long it takes.
    let status = load.seconds(0).command("run").status().expect("sysbench");
    assert!(status.success(), "sysbench, {mode}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_statement_has_the_length_that_it_says() {
        for bytes in [0, 1, 4, 1001] {
            assert_eq!(large_statement(bytes).trim_end_matches(';').len(), bytes + 17);
        }
    }
}
