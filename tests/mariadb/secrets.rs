//! Zone: outside. Passwords and keys never reach the log directory, whatever the statement, whether
//! it succeeded, and whatever the server's error message quotes of it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use tacho_tests::client;
use tacho_tests::hidden::Marks;
use tacho_tests::raw::Raw;
use tacho_tests::recorded;
use tacho_tests::server::{TestServer, installation};

/// `%` is the secret, `#` a user name that must stay visible.
const STATEMENTS: &[&str] = &[
    "CREATE USER '#'@localhost IDENTIFIED BY '%'",
    "create /* c */ user `#`@`localhost` identified/**/by\n'%'",
    "CREATE USER # IDENTIFIED BY '%' WITH MAX_USER_CONNECTIONS 3",
    "CREATE OR REPLACE USER '#'@localhost IDENTIFIED VIA mysql_native_password USING PASSWORD('%')",
    "CREATE USER '#'@localhost IDENTIFIED BY PASSWORD '%'",
    "CREATE USER '#'@localhost IDENTIFIED WITH nosuch_plugin AS '%'",
    "ALTER USER IF EXISTS '#'@localhost IDENTIFIED BY '%'",
    "GRANT SELECT ON *.* TO '#'@localhost IDENTIFIED BY '%'",
    "GRANT SELECT ON nosuch.nosuch TO '#'@localhost IDENTIFIED BY '%'",
    "SET PASSWORD FOR '#'@localhost = PASSWORD('%')",
    "SET PASSWORD FOR '#'@localhost = '%'",
    "SET PASSWORD = '%' /* # */",
    "SELECT PASSWORD('%') AS '#'",
    "SELECT AES_ENCRYPT('#', '%')",
    "SELECT ENCODE('a', '%'), '#'",
    "CREATE SERVER `#` FOREIGN DATA WRAPPER mysql OPTIONS (USER 'u', PASSWORD '%')",
    "CREATE SERVER `#` FOREIGN DATA WRAPPER mysql OPTIONS (HOST 'h', USER 'u', PASSWORD '%', PORT 1)",
    "ALTER SERVER `#` OPTIONS (USER 'u', PASSWORD '%')",
    "aLtEr/**/SERVER `#` oPtIoNs(PaSsWoRd/* c */'%')",
    "CHANGE MASTER TO MASTER_USER = '#', MASTER_PASSWORD = '%'",
    // MariaDB has none of this: an error that quotes it.
    "START SLAVE USER = '#' PASSWORD = '%'",
    "start/**/slave sql_thread user='#' password='%' /* c */",
    // Engines that may be missing: the text is there all the same.
    "CREATE TABLE d.`#` (a INT) ENGINE=FEDERATED CONNECTION='mysql://u:%@127.0.0.1:1/d/t'",
    "CREATE TABLE d.`#` (a INT) ENGINE=FEDERATED CONNECTION='mysql:/u:%@nonsense'",
    "ALTER TABLE d.`#` /* c */ cOnNeCtIoN = 'mysql://u:%@127.0.0.1:1/d/t'",
    "CREATE TABLE d.`#` (a INT) ENGINE=CONNECT TABLE_TYPE=ODBC OPTION_LIST='User=u,Password=%'",
    "CREATE TABLE d.`#` (a INT) ENGINE=CONNECT TABLE_TYPE=MYSQL option_list/**/=/**/'password=%'",
    "CREATE TABLE d.`#` (a INT) ENGINE=SPIDER COMMENT='user \"u\", password \"%\"'",
    // In any case, with comments wherever they are possible.
    "gRaNt SELECT ON *.* TO '#'@localhost iDeNtIfIeD bY '%'",
    "GRANT/**/SELECT ON *.*/* c */TO/**/'#'@localhost/**/IDENTIFIED/* c */BY/**/'%'",
    "GRANT SELECT ON *.* TO '#'@localhost IDENTIFIED -- c\n BY -- c\n '%'",
    "sEt PaSsWoRd FoR '#'@localhost = pAsSwOrD('%')",
    "SET/**/PASSWORD/* c */FOR/**/'#'@localhost/**/=/**/PASSWORD/**/(/**/'%'/**/)",
    "SET -- c\n PASSWORD FOR '#'@localhost = -- c\n '%'",
    "cHaNgE mAsTeR tO mAsTeR_uSeR = '#', MaStEr_PaSsWoRd = '%'",
    "CHANGE/**/MASTER/* c */TO/**/MASTER_USER/**/=/**/'#',/**/MASTER_PASSWORD/* c */=/**/'%'",
    "CHANGE MASTER 'c' TO MASTER_USER = '#', MASTER_PASSWORD -- c\n = '%', MASTER_HOST = 'h'",
    "UPDATE mysql.global_priv SET Priv = '%' WHERE User = 'nosuch' AND 1 = 0 /* # */",
    "SET @my_password := '%', @a = '#'",
    "SET @'my_password' = '%', @a = '#'",
    "SELECT @'pwd' := '%', 1 AS `#`",
    "SELECT '%', 1 INTO @my_password, @`#`",
    "SELECT @pwd := CASE WHEN 1 THEN '%' ELSE '%' END AS `#` FROM mysql.db",
    "CREATE USER x@nowhere IDENTIFIED BY '%', `#`",
    // Names that look like clauses with a secret.
    "DROP TABLE IF EXISTS d.x, master_password, d.`#`",
    "RENAME USER user TO identified, '#'@nowhere TO x@nowhere",
    "CREATE TABLE d.leak (user INT, identified INT) SELECT 1 AS `#`",
    "SELECT @pwd := '%', 1 AS `#` FROM mysql.db WHERE Db = 'x' /* pwd --é */",
    "SET @s = CONCAT('CREATE USER # IDENTIFIED BY ''', '%', '''')",
    "INSERT INTO mysql.spider_tables (db_name, password) VALUES ('#', '%')",
    "CREATE TABLE d.`#` (a INT) ENGINE=CONNECT TABLE_TYPE=JSON HTTP='http://u:%@127.0.0.1:1'",
    "CREATE TABLE d.`#` (a INT) ENGINE=FEDERATED `CONNECTION`='mysql://u:%@127.0.0.1:1/d/t'",
    "CREATE SERVER `#` FOREIGN DATA WRAPPER mysql OPTIONS (`PASSWORD` '%', USER 'u')",
    "SET @`#` = 'CREATE USR u IDENTIFIED BY ''%'''; PREPARE p FROM @`#` /* ' */",
    "BEGIN NOT ATOMIC DECLARE EXIT HANDLER FOR SQLEXCEPTION RESIGNAL SET MESSAGE_TEXT = \
     'IDENTIFIED BY \"%\" failed'; \
     SET PASSWORD FOR '#'@nosuch = PASSWORD('%'); END",
    "SET @password = '%'; SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = @password /* # */",
    // Errors whose message quotes the text.
    "CREATE USER '#'@localhost IDENTIFIED BY '%' nonsense",
    "CREATE USER '#'@localhost nonsense IDENTIFIED BY '%'",
    "SET PASSWORD FOR '#'@localhost = nonsense('%')",
    "GRANT nonsense ON *.* TO '#' IDENTIFIED BY '%'",
    "CREATE USER '#'@localhost IDENTIFIED BY %",
    "CREATE USER '#'@localhost IDENTIFIED BY '%",
    "ALTER USER '#'@localhost IDENTIFIED BY '%' PASSWORD EXPIRE NEVER ACCOUNT",
    // Prepared, several at once, in programs.
    "PREPARE p FROM 'CREATE USER `#` IDENTIFIED BY ''%'''",
    "EXECUTE IMMEDIATE 'CREATE USER `#` IDENTIFIED BY \"%\"'",
    "EXECUTE IMMEDIATE CONCAT('CREATE USER `#` IDENTIFIED BY ', '\"%\"')",
    "SELECT '#'; CREATE USER '#'@localhost IDENTIFIED BY '%'; SELECT 2",
    "SELECT '#'; SET PASSWORD FOR nosuch@nosuch = PASSWORD('%'); SELECT 2",
    "SELECT '#'; SELECT 1; CREATE USER x@localhost IDENTIFIED BY '%' nonsense",
    // The text comes from a variable: the statement that fails does not show it.
    "SET @s = 'CREATE USER # nonsense IDENTIFIED BY ''%'''; EXECUTE IMMEDIATE @s",
    "SET @s = 'CREATE USER # IDENTIFIED BY BY ''%'''; PREPARE p FROM @s",
    "BEGIN NOT ATOMIC DECLARE s TEXT DEFAULT 'CREATE USER # IDENTIFIED BY BY ''%'''; \
     EXECUTE IMMEDIATE s; END",
    "BEGIN NOT ATOMIC CREATE USER '#'@localhost IDENTIFIED BY '%'; END",
    "CREATE PROCEDURE d.`#`() CREATE USER x@localhost IDENTIFIED BY '%'",
    "/*! CREATE USER '#'@localhost IDENTIFIED BY '%' */",
    "/*M!100100 CREATE USER '#'@localhost IDENTIFIED BY '%' */",
    "EXPLAIN EXTENDED SELECT PASSWORD('%'), '#'",
    "CREATE TABLE d.`#` AS SELECT PASSWORD('%') AS p",
    "DO PASSWORD('%') /* # */",
];

/// The user's name is within text that cannot be distinguished from a secret.
const GIVEN_UP: &[&str] = &[
    "PREPARE p FROM",
    "EXECUTE IMMEDIATE",
    "/*",
    "SELECT AES_ENCRYPT",
    "SELECT ENCODE",
    "SET PASSWORD = ",
    "UPDATE mysql.global_priv",
    "DO PASSWORD",
    "SELECT PASSWORD",
    "SET @my_password",
    "SET @",
    "INSERT INTO mysql",
    "EXPLAIN EXTENDED",
    "BEGIN NOT ATOMIC",
    "CREATE TABLE d.`#` AS",
];

#[test]
fn secrets_never_reach_the_log_directory() {
    let mut builder = TestServer::builder().option("plugin-load-add=tacho");
    // With it, errors quote the other server's address.
    let federated = installation().usr().join("lib/mysql/plugin/ha_federatedx.so");
    let has_federated = federated.exists();
    if has_federated {
        builder = builder.plugin(federated);
    }
    let mut server = builder.start().expect("a server");
    let mut raw = Raw::connect(server.socket(), "root").expect("a session");
    raw.must(&["CREATE DATABASE d"]);
    if has_federated {
        raw.must(&["INSTALL SONAME 'ha_federatedx'"]);
    }
    let mut marks = Marks::new();
    for statement in STATEMENTS {
        for way in 0..3 {
            let is_given_up = GIVEN_UP.iter().any(|begin| statement.starts_with(begin));
            let sql = marks.fill(statement, way == 0 && !is_given_up);
            match way {
                0 => {
                    raw.query(&sql).expect("an answer");
                }
                1 => {
                    if let Ok(id) = raw.prepare(&sql).expect("an answer") {
                        raw.execute(id, &[], false).expect("an answer");
                    }
                }
                // In a separate string: another quoting, and an error quotes all of it.
                _ => {
                    let inner = sql.replace('\\', "\\\\").replace('\'', "''");
                    raw.query(format!("EXECUTE IMMEDIATE '{inner}'")).expect("an answer");
                }
            }
        }
    }
    // In digits: the log would have the digits of the secret.
    for way in ["EXECUTE IMMEDIATE", "PREPARE p FROM"] {
        for (open, close) in [("x'", "'"), ("X'", "'"), ("0x", "")] {
            let sql = marks.fill("CREATE USER # IDENTIFIED BY '%'", false);
            let digits: String = sql.bytes().map(|byte| format!("{byte:02x}")).collect();
            raw.query(format!("{way} {open}{digits}{close}")).expect("an answer");
            marks.hide(digits);
        }
    }
    // As parameters of a prepared statement.
    for sql in ["SELECT PASSWORD(?)", "SET PASSWORD FOR nosuch@nosuch = PASSWORD(?)"] {
        let secret = marks.secret();
        if let Ok(id) = raw.prepare(sql).expect("an answer") {
            raw.execute(id, &[Some(secret.as_bytes())], false).expect("an answer");
        }
    }
    let secret = marks.secret();
    raw.query(format!("SET @p = 'x'; EXECUTE IMMEDIATE 'SELECT PASSWORD(?)' USING '{secret}'"))
        .expect("an answer");

    // A text that is in no statement: an error of a prepared statement is that of the CALL.
    let secret = marks.secret();
    let reversed: String = secret.chars().rev().collect();
    raw.must(&["CREATE PROCEDURE d.misspelt(r TEXT) BEGIN SET @s = \
         CONCAT('CREATE USR u IDENTIFIED BY ''', REVERSE(r), ''''); PREPARE s FROM @s; END"]);
    let answers = raw.query(format!("CALL d.misspelt('{reversed}')")).expect("an answer");
    assert!(format!("{answers:?}").contains("1064"), "{answers:?}");

    // While the server runs the arena has the raw texts: no other user may read it. After an
    // orderly stop it is removed.
    let mut conn = server.connect().expect("a connection");
    let arena = client::status(&mut conn, "Tacho_arena_file").expect("the status");
    let arena = PathBuf::from(&arena["Tacho_arena_file"]);
    let mode = fs::metadata(&arena).expect("the arena").permissions().mode();
    assert_eq!(mode & 0o777, 0, "{}", arena.display());
    drop(conn);
    drop(raw);
    server.stop().expect("stopping");
    assert!(!arena.exists(), "{} is left", arena.display());

    let directory = server.data_directory().join("tacho");
    let lines = recorded::read(&directory).expect("a good log");
    marks.assert_hidden(&directory);
    let redacted = lines.iter().filter(|line| line.contains_key("sql_redacted")).count();
    assert!(redacted > STATEMENTS.len(), "only {redacted} lines had a secret");
    marks.assert_named(&lines);
    // Whatever was removed from it.
    for line in lines.iter().filter(|line| recorded::text(line, "command") == Some("Query")) {
        assert!(!line.contains_key("sql") || line.contains_key("digest"), "{line:?}");
    }
}
