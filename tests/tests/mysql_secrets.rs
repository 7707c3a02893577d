//! Zone: outside. What MySQL has of statements with passwords, and MariaDB has not: none of them
//! reaches the log directory. `scripts/test-mysql.sh` runs this with each MySQL.

use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

use tacho_tests::client::{Conn, Queryable};
use tacho_tests::log::all_files;
use tacho_tests::mysql_place::Place;
use tacho_tests::mysql_server::install;
use tacho_tests::recorded::{self, text};

/// `%` is the secret, `#` a name before it that must stay visible.
const STATEMENTS: &[&str] = &[
    "CREATE USER '#'@localhost IDENTIFIED BY '%'",
    "CREATE USER '#'@localhost IDENTIFIED WITH caching_sha2_password BY '%' PASSWORD HISTORY 5",
    "CREATE USER '#'@localhost IDENTIFIED BY '%' nonsense",
    "ALTER USER '#'@localhost IDENTIFIED BY '%' RETAIN CURRENT PASSWORD",
    "ALTER USER '#'@localhost IDENTIFIED BY '%' REPLACE '%'",
    "aLtEr UsEr '#'@localhost iDeNtIfIeD/**/bY/* c */'%'",
    "ALTER USER '#'@localhost ADD 2 FACTOR IDENTIFIED WITH authentication_ldap_simple BY '%'",
    "SET PASSWORD FOR '#'@localhost = '%'",
    "sEt/**/PaSsWoRd/* c */FOR '#'@localhost = '%' REPLACE '%'",
    "CREATE SERVER `#` FOREIGN DATA WRAPPER mysql OPTIONS (HOST 'h', USER 'u', PASSWORD '%')",
    "ALTER SERVER `#` OPTIONS (PASSWORD '%')",
    "CHANGE REPLICATION SOURCE TO SOURCE_USER = '#', SOURCE_PASSWORD = '%'",
    "cHaNgE/**/rEpLiCaTiOn SOURCE TO SOURCE_USER='#', sOuRcE_pAsSwOrD/* c */=/**/'%'",
    "START REPLICA USER = '#' PASSWORD = '%'",
    "sTaRt/**/REPLICA IO_THREAD uSeR='#' pAsSwOrD/* c */=/**/'%'",
    "START REPLICA USER = '#' PASSWORD = '%' nonsense",
    "START GROUP_REPLICATION USER = '#', PASSWORD = '%'",
    "CLONE INSTANCE FROM '#'@'127.0.0.1':1 IDENTIFIED BY '%'",
    "CREATE TABLE d.`#` (a INT) ENGINE=FEDERATED CONNECTION='mysql://u:%@127.0.0.1:1/d/t'",
];

/// What it answers is the server's matter; that it does is ours.
fn say(conn: &mut Conn, sql: &str) {
    match conn.query_drop(sql) {
        Ok(()) | Err(mysql::Error::MySqlError(_)) => {}
        Err(error) => panic!("{sql}: {error}"),
    }
}

#[test]
#[ignore = "needs MySQL: scripts/test-mysql.sh"]
fn secrets_never_reach_the_log_directory() {
    let place = Place::new("secrets");
    let mut server = place.builder().start().expect("a server");
    let mut conn = server.connect().expect("a connection");
    conn.query_drop(install()).expect("installing");
    conn.query_drop("CREATE DATABASE d").expect("an answer");
    let random = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock").as_nanos() as u64;
    let mut count = 0_u64;
    let mut next = |prefix: &str| {
        count += 1;
        let spread = (random ^ count).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        format!("{prefix}{spread:016x}{count}")
    };
    let (mut secrets, mut names) = (Vec::new(), Vec::new());
    for statement in STATEMENTS {
        let mut fill = || {
            let (secret, name) = (next("S3"), next("u"));
            let sql = statement.replace('%', &secret).replace('#', &name);
            secrets.push(secret);
            (sql, name)
        };
        let (sql, name) = fill();
        say(&mut conn, &sql);
        names.push((name, *statement));
        if let Ok(prepared) = conn.prep(fill().0) {
            let _ = conn.exec_drop(&prepared, ());
        }
        say(&mut conn, &format!("PREPARE p FROM '{}'", fill().0.replace('\'', "''")));
        say(&mut conn, "EXECUTE p");
    }
    drop(conn);
    server.stop().expect("stopping");

    let lines = recorded::read(&place.log()).expect("a good log");
    for file in all_files(&place.log()) {
        let contents = fs::read(&file).expect("a file");
        for line in contents.split(|byte| *byte == b'\n') {
            let line = String::from_utf8_lossy(line);
            let found = secrets.iter().find(|secret| line.contains(&***secret));
            assert!(found.is_none(), "{}: {line}", file.display());
        }
    }
    let redacted = lines.iter().filter(|line| line.contains_key("sql_redacted")).count();
    assert!(redacted >= 3 * STATEMENTS.len(), "only {redacted} lines had a secret");
    for (name, statement) in names {
        let is_visible = |sql: &str| sql.contains(&name);
        assert!(
            lines.iter().filter_map(|line| text(line, "sql")).any(is_visible),
            "nobody knows any more whom this was about: {statement}"
        );
    }
    drop(server);
    place.remove();
}
