//! Zone: outside. The component in a real MySQL 9.7, or the plugin in a real 8.0: the line of each
//! kind of statement and connection. `scripts/test-release.sh` runs them with each.

use tacho_tests::client::{self, Conn, Queryable};
use tacho_tests::mysql_place::LogAndArenas;
use tacho_tests::mysql_server::{Release, conn_id, release, wait_for_end};
use tacho_tests::recorded::{self, Line};

/// How many results several statements in one packet have, and the error that ends them.
fn answers(conn: &mut Conn, sql: &str) -> (usize, Option<u16>) {
    let mut result = conn.query_iter(sql).expect("an answer");
    let mut count = 0;
    while let Some(mut rows) = result.iter() {
        count += 1;
        for row in rows.by_ref() {
            if let Err(mysql::Error::MySqlError(error)) = row {
                return (count - 1, Some(error.code));
            }
        }
    }
    (count, None)
}

#[test]
fn each_kind_of_statement_has_its_line() {
    let place = LogAndArenas::new("kinds");
    let (mut server, mut root) = place.start(&[]);
    root.query_drop("CREATE DATABASE d").expect("an answer");
    let mut conn = client::connect(server.socket(), "root", "d").expect("a connection");
    let id = conn_id(&mut conn);
    for sql in [
        "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20))",
        "INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c')",
        "PREPARE s FROM 'SELECT v FROM t WHERE id = ?'",
        "SET @one = 1",
        "EXECUTE s USING @one",
        "CREATE PROCEDURE p() SELECT COUNT(*) FROM t",
        "CALL p()",
        "USE mysql",
        "DO 1",
        "CREATE USER u IDENTIFIED BY 'secret'",
    ] {
        conn.query_drop(sql).expect("an answer");
    }
    for sql in ["SELECT nothing", "THIS IS NOT SQL", "INSERT INTO d.t VALUES (1, 'again')"] {
        conn.query_drop(sql).expect_err("an error");
    }
    assert_eq!(answers(&mut conn, "SELECT 1; SELECT 2; SELECT 3"), (3, None));
    assert_eq!(answers(&mut conn, "SELECT 4; NOT SQL; SELECT 5"), (1, Some(1064)));
    let statement = conn.prep("SELECT v FROM d.t WHERE id = ?").expect("a statement");
    conn.exec_drop(&statement, (2,)).expect("an answer");
    conn.prep("SELECT v FROM d.nothing").expect_err("an error");
    drop(conn);
    wait_for_end(&mut root, id);
    drop(root);
    let lines = place.end(&mut server);
    let found = recorded::briefs(&lines, id);
    assert_eq!(found, EXPECTED, "{}", found.join("\n"));
    if release() == Release::Mysql80 {
        let message = |sql: &str| {
            let line = lines.iter().find(|line| recorded::text(line, "sql") == Some(sql));
            recorded::text(line.expect("a line"), "error").expect("a message")
        };
        assert_eq!(message("SELECT nothing"), "Unknown column 'nothing' in 'field list'");
        assert!(message("THIS IS NOT SQL").starts_with("You have an error in your SQL syntax"));
        assert_eq!(message("SELECT v FROM d.nothing"), "Table 'd.nothing' doesn't exist");
    }
    let db: Vec<_> = recorded::of_conn(&lines, id)
        .into_iter()
        .filter(|line| matches!(recorded::text(line, "sql"), Some("USE mysql" | "DO 1")))
        .map(|line| recorded::text(line, "db").unwrap_or_default().to_owned())
        .collect();
    assert_eq!(db, ["d", "mysql"]);
    server.assert_clean_log(&[]);
}

const EXPECTED: &[&str] = &[
    "connect ok",
    r#"Query select ok "SELECT CONNECTION_ID()" sent=1 examined=1 lock"#,
    r#"Query create_table ok "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20))" sent=0 examined=0 affected=0 lock"#,
    r#"Query insert ok "INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c')" sent=0 examined=0 affected=3 lock"#,
    r#"Query prepare ok "PREPARE s FROM 'SELECT v FROM t WHERE id = ?'" sent=0 examined=0 affected=0 lock"#,
    r#"Query set_option ok "SET @one = 1" sent=0 examined=0 affected=0 lock"#,
    r#"Query execute ok "EXECUTE s USING @one" sent=1 examined=1 lock"#,
    r#"Query select ok "SELECT v FROM t WHERE id = 1""#,
    r#"Query create_procedure ok "CREATE PROCEDURE p() SELECT COUNT(*) FROM t" sent=0 examined=0 affected=0 lock"#,
    r#"Query call ok "CALL p()" sent=1 examined=0 affected=0 lock"#,
    r#"Query select ok "SELECT COUNT(*) FROM t" sent=1 examined=0"#,
    r#"Query change_db ok "USE mysql" sent=0 examined=0 affected=0 lock"#,
    r#"Query do ok "DO 1" sent=0 examined=1 affected=0 lock"#,
    r#"Query create_user ok "CREATE USER u IDENTIFIED BY <secret>" sent=0 examined=0 affected=0 lock"#,
    r#"Query select error 1054/42S22 "SELECT nothing" sent=0 examined=0 lock"#,
    r#"Query error 1064/42000 "THIS IS NOT SQL" sent=0 examined=0 lock"#,
    r#"Query insert error 1062/23000 "INSERT INTO d.t VALUES (1, 'again')" sent=0 examined=0 lock"#,
    r#"Query select ok "SELECT 1" sent=1 examined=1 lock"#,
    r#"Query select ok "SELECT 2" sent=1 examined=1 lock"#,
    r#"Query select ok "SELECT 3" sent=1 examined=1 lock"#,
    r#"Query select ok "SELECT 4" sent=1 examined=1 lock"#,
    r#"Query error 1064/42000 "NOT SQL; SELECT 5" sent=0 examined=0 lock"#,
    r#"Prepare ok "SELECT v FROM d.t WHERE id = ?" sent=0 examined=0 lock"#,
    r#"Execute select ok "SELECT v FROM d.t WHERE id = 2" sent=1 examined=1 lock"#,
    r#"Prepare error 1146/42S02 "SELECT v FROM d.nothing" sent=0 examined=0 lock"#,
    "Quit ok",
    "disconnect",
];

/// Rules depend on it, so it must not be possible to hide it.
#[test]
fn the_database_is_right_wherever_it_changes() {
    let place = LogAndArenas::new("database");
    let (mut server, mut root) = place.start(&[]);
    for sql in ["CREATE DATABASE d", "CREATE DATABASE e", "CREATE DATABASE f"] {
        root.query_drop(sql).expect("an answer");
    }
    root.query_drop("CREATE PROCEDURE e.p() BEGIN PREPARE s FROM 'DO 5'; EXECUTE s; END")
        .expect("an answer");
    root.query_drop("CREATE PROCEDURE e.gone() DROP DATABASE f").expect("an answer");
    let mut conn = client::connect(server.socket(), "root", "d").expect("a connection");
    let id = conn_id(&mut conn);
    for sql in ["DO 1", "USE e; DO 2", "DO 3", "USE d", "DO 4", "CALL e.p()", "DO 6"] {
        assert_eq!(answers(&mut conn, sql).1, None, "{sql}");
    }
    for sql in ["USE f", "CALL e.gone()", "DO 7"] {
        conn.query_drop(sql).expect("an answer");
    }
    drop((conn, root));
    let lines = place.end(&mut server);
    let db: Vec<(&str, &str)> = recorded::of_conn(&lines, id)
        .into_iter()
        .filter_map(|line| {
            let sql = recorded::text(line, "sql").filter(|sql| sql.starts_with("DO "))?;
            Some((sql, recorded::text(line, "db").unwrap_or_default()))
        })
        .collect();
    let expected = [
        ("DO 1", "d"),
        ("DO 2", "e"),
        ("DO 3", "e"),
        ("DO 4", "d"),
        ("DO 5", "e"),
        ("DO 6", "d"),
        ("DO 7", ""),
    ];
    assert_eq!(db, expected);
    server.assert_clean_log(&[]);
}

/// The server tries its execution twice, and reports both.
#[test]
fn a_statement_that_must_be_prepared_again_has_one_line() {
    let place = LogAndArenas::new("anew");
    let (mut server, mut root) = place.start(&[]);
    root.query_drop("CREATE DATABASE d").expect("an answer");
    root.query_drop("CREATE TABLE d.t (id INT PRIMARY KEY)").expect("an answer");
    root.query_drop("INSERT INTO d.t VALUES (1), (2)").expect("an answer");
    let mut conn = server.connect().expect("a connection");
    let id = conn_id(&mut conn);
    let statement = conn.prep("DELETE FROM d.t WHERE id = ?").expect("a statement");
    conn.exec_drop(&statement, (1,)).expect("an answer");
    root.query_drop("ALTER TABLE d.t ADD COLUMN v INT").expect("an answer");
    conn.exec_drop(&statement, (2,)).expect("an answer");
    let left: Option<u64> = conn.query_first("SELECT COUNT(*) FROM d.t").expect("an answer");
    assert_eq!(left, Some(0));
    drop((conn, root));
    let lines = place.end(&mut server);
    let found = recorded::briefs(&lines, id);
    let executed: Vec<_> = found.iter().filter(|brief| brief.starts_with("Execute")).collect();
    assert_eq!(executed.len(), 2, "{}", found.join("\n"));
    assert!(executed.iter().all(|brief| brief.starts_with("Execute delete ok")), "{executed:?}");
}

#[test]
fn connections_are_recorded() {
    let place = LogAndArenas::new("connections");
    let (mut server, mut root) = place.start(&[]);
    root.query_drop("CREATE USER visitor").expect("an answer");
    let mut conn = client::connect(server.socket(), "visitor", "").expect("a connection");
    let id = conn_id(&mut conn);
    conn.change_user(mysql::ChangeUserOpts::default().with_user(Some("root".to_owned())))
        .expect("another user");
    drop(conn);
    client::connect(server.socket(), "stranger", "").expect_err("refused");
    drop(root);
    let lines = place.end(&mut server);
    let who = |line: &Line| {
        let field = |name| recorded::text(line, name).unwrap_or("-").to_owned();
        format!("{} {} {}", field("event"), field("user"), field("priv_user"))
    };
    let found: Vec<String> = recorded::of_conn(&lines, id)
        .into_iter()
        .filter(|line| recorded::text(line, "event") != Some("statement"))
        .map(who)
        .collect();
    assert_eq!(found, ["connect visitor visitor", "change_user root root", "disconnect root root"]);
    let refused: Vec<&Line> = lines
        .iter()
        .filter(|line| recorded::text(line, "event") == Some("connect_failed"))
        .collect();
    assert_eq!(refused.len(), 1);
    assert_eq!(who(refused[0]), "connect_failed stranger -");
    assert_eq!(recorded::number(refused[0], "errno"), Some(1045));
    assert_eq!(recorded::text(refused[0], "host"), Some("localhost"));
    // For a user that does not exist the server asks for a password of this kind.
    server.assert_clean_log(&["'sha256_password' is deprecated"]);
}
