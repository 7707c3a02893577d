//! Zone: outside. Passwords and keys never reach the log directory of a real MySQL 9.7 or 8.0,
//! whatever the statement, its way to the server, and whether it succeeded: the counterpart of
//! `secrets.rs` for MariaDB.

use tacho_tests::client::Queryable as _;
use tacho_tests::hidden::Marks;
use tacho_tests::mysql_place::LogAndArenas;
use tacho_tests::mysql_server::{install, named, wait_for_end};
use tacho_tests::raw::Raw;
use tacho_tests::recorded;

/// `%` is the secret, `#` a name that must be kept. Most are statements of both releases; if one of
/// them does not have it, it is an error there, whose message quotes it.
const STATEMENTS: &[&str] = &[
    // Accounts.
    "CREATE USER '#'@localhost IDENTIFIED BY '%'",
    "create /* c */ user `#`@`localhost` identified/**/by\n'%'",
    "CREATE USER IF NOT EXISTS # IDENTIFIED BY '%' WITH MAX_USER_CONNECTIONS 3 COMMENT 'c'",
    "CREATE USER '#'@localhost IDENTIFIED BY '%', x@localhost IDENTIFIED BY '%'",
    "CREATE USER '#'@localhost IDENTIFIED BY '%' DEFAULT ROLE r REQUIRE X509 PASSWORD HISTORY 3",
    "CREATE USER '#'@localhost IDENTIFIED WITH caching_sha2_password BY '%'",
    "CREATE USER '#'@localhost IDENTIFIED WITH 'caching_sha2_password' AS '%'",
    "CREATE USER '#'@localhost IDENTIFIED WITH mysql_native_password AS '%'",
    "CREATE USER '#'@localhost IDENTIFIED WITH sha256_password BY '%'",
    "CREATE USER '#'@localhost IDENTIFIED WITH nosuch_plugin AS '%'",
    "CREATE USER '#'@localhost IDENTIFIED WITH caching_sha2_password BY '%' \
     AND IDENTIFIED WITH authentication_ldap_simple AS '%'",
    "CREATE USER '#'@localhost IDENTIFIED BY '%' AND IDENTIFIED BY '%' AND IDENTIFIED BY '%'",
    "CREATE USER '#'@localhost IDENTIFIED WITH authentication_fido \
     INITIAL AUTHENTICATION IDENTIFIED BY '%'",
    "CREATE USER '#'@localhost IDENTIFIED WITH authentication_webauthn \
     INITIAL AUTHENTICATION IDENTIFIED WITH caching_sha2_password AS '%'",
    "ALTER USER IF EXISTS '#'@localhost IDENTIFIED BY '%' REPLACE '%' RETAIN CURRENT PASSWORD",
    "ALTER USER '#'@localhost IDENTIFIED WITH caching_sha2_password BY '%' REPLACE '%'",
    "ALTER USER '#'@localhost ADD 2 FACTOR IDENTIFIED BY '%'",
    "ALTER USER '#'@localhost MODIFY 2 FACTOR IDENTIFIED WITH caching_sha2_password BY '%' \
     MODIFY 3 FACTOR IDENTIFIED WITH caching_sha2_password AS '%'",
    "alter user '#'@localhost add 2 factor identified/**/by '%' add 3 factor identified by \"%\"",
    "ALTER USER '#'@localhost 2 FACTOR FINISH REGISTRATION SET CHALLENGE_RESPONSE AS '%'",
    "ALTER USER USER() IDENTIFIED BY '%' REPLACE '%' /* # */",
    "GRANT SELECT ON *.* TO '#'@localhost IDENTIFIED BY '%'",
    "SET PASSWORD FOR '#'@localhost = '%'",
    "SET PASSWORD FOR '#'@localhost = '%' REPLACE '%' RETAIN CURRENT PASSWORD",
    "set sql_safe_updates = 0, password for '#'@localhost = '%'",
    "SET PASSWORD = '%' REPLACE '%' /* # */",
    "SET PASSWORD FOR '#'@localhost = PASSWORD('%')",
    // Replication, other servers.
    "CHANGE REPLICATION SOURCE TO SOURCE_USER = '#', SOURCE_PASSWORD = '%' FOR CHANNEL 'c'",
    "change replication source to source_password='%', source_user='#', source_port=1, \
     source_public_key_path='/k', get_source_public_key=1 for channel 'c'",
    "CHANGE MASTER TO MASTER_USER = '#', MASTER_PASSWORD = '%' FOR CHANNEL 'c'",
    "START REPLICA IO_THREAD USER = '#' PASSWORD = '%' FOR CHANNEL 'nosuch'",
    "START SLAVE UNTIL SQL_AFTER_MTS_GAPS USER = '#' PASSWORD = '%' DEFAULT_AUTH = 'a' \
     PLUGIN_DIR = '/b' FOR CHANNEL 'nosuch'",
    "START GROUP_REPLICATION USER = '#', PASSWORD = '%'",
    "start/**/group_replication user='#',password='%',default_auth='a'",
    "CLONE INSTANCE FROM '#'@'127.0.0.1':1 IDENTIFIED BY '%'",
    "clone instance from `#`@`127.0.0.1`:1 identified by \"%\" data directory = '/d' require no ssl",
    "CREATE SERVER `#` FOREIGN DATA WRAPPER mysql OPTIONS (USER 'u', PASSWORD '%', HOST 'h')",
    "ALTER SERVER `#` OPTIONS (PASSWORD '%')",
    "CREATE TABLE d.`#` (a INT) ENGINE=FEDERATED CONNECTION='mysql://u:%@h:1/d/t'",
    // Variables.
    "SET PERSIST authentication_ldap_simple_bind_root_pwd = '%' /* # */",
    "SET @@global.authentication_ldap_sasl_bind_root_pwd = '%', @a = '#'",
    "SET GLOBAL telemetry.otel_exporter_otlp_traces_secret_headers = '%' /* # */",
    "SET PERSIST_ONLY nosuch.nosuch_password = '%' /* # */",
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
    "CREATE TABLE d.`#` (a INT) ENGINE=FEDERATED `CONNECTION`='mysql://u:%@h:1/d/t'",
    "CREATE SERVER `#` FOREIGN DATA WRAPPER mysql OPTIONS (`PASSWORD` '%', USER 'u')",
    "SELECT 'http://u:%@h/' AS `#`",
    "SET @`#` = 'CREATE USR u IDENTIFIED BY ''%'''; PREPARE p FROM @`#` /* ' */",
    "SET @password = '%'; SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = @password /* # */",
    // Functions and tables.
    "SELECT AES_ENCRYPT(1, '%'), 2 AS `#`",
    "SELECT AES_DECRYPT('a', '%', '', 'pbkdf2_hmac', 'salt'), 2 AS `#`",
    "DO VALIDATE_PASSWORD_STRENGTH('%') /* # */",
    "SELECT keyring_key_store('k', 'AES', '%') AS `#`",
    "SELECT ASYMMETRIC_SIGN('RSA', '%', 'k', 'SHA256') AS `#`",
    "UPDATE mysql.user SET authentication_string = '%' WHERE User = 'nosuch' /* # */",
    "INSERT INTO mysql.servers (Server_name, Password) VALUES ('x', '%') /* # */",
    "EXPLAIN SELECT AES_ENCRYPT(1, '%') AS `#`",
    "CREATE TABLE d.`#` AS SELECT AES_ENCRYPT(1, '%') AS p",
    // Text that cannot be parsed.
    "CREATE USER '#'@localhost IDENTIFIED BY '%' nonsense",
    "CREATE USER '#'@localhost nonsense IDENTIFIED BY '%'",
    "CREATE USER '#'@localhost IDENTIFIED BY %",
    "CREATE USER '#'@localhost IDENTIFIED BY '%",
    "ALTER USER '#'@localhost IDENTIFIED BY '%' PASSWORD EXPIRE NEVER ACCOUNT",
    "ALTER USER '#'@localhost ADD 2 FACTOR IDENTIFIED '%' BY",
    "SET PASSWORD FOR '#'@localhost = nonsense('%')",
    "CHANGE REPLICATION SOURCE TO SOURCE_USER = '#', SOURCE_PASSWORD = '%' nonsense",
    "START REPLICA USER = '#', PASSWORD = '%'",
    "START GROUP_REPLICATION USER = '#' PASSWORD '%'",
    "CLONE INSTANCE FROM '#'@'127.0.0.1':1 IDENTIFIED WITH '%'",
    // Several at once, in programs, in comments.
    "SELECT '#'; CREATE USER '#'@localhost IDENTIFIED BY '%'; SELECT 2",
    "SELECT '#'; CLONE INSTANCE FROM 'u'@'127.0.0.1':1 IDENTIFIED BY '%'; SELECT 2",
    "SELECT '#'; SELECT 1; CREATE USER x@localhost IDENTIFIED BY '%' nonsense",
    "PREPARE p FROM 'CREATE USER `#` IDENTIFIED BY ''%'''",
    "SET @s = 'CREATE USER # IDENTIFIED BY BY ''%'''; PREPARE p FROM @s",
    "CREATE PROCEDURE d.`#`() CREATE USER x@localhost IDENTIFIED BY '%'",
    "CREATE PROCEDURE d.`#`() SET PASSWORD FOR x@localhost = '%'; CALL d.`#`()",
    "CREATE EVENT d.`#` ON SCHEDULE EVERY 9 DAY STARTS '2099-01-01' \
     DO ALTER USER x@localhost IDENTIFIED BY '%'",
    "/*! CREATE USER '#'@localhost IDENTIFIED BY '%' */",
    "/*!80000 CREATE USER '#'@localhost IDENTIFIED BY '%' */",
    "/*!99999 x */ CREATE USER '#'@localhost IDENTIFIED BY '%'",
    "SELECT STATEMENT_DIGEST('CREATE USER u IDENTIFIED BY \"%\"') AS `#`",
];

/// The name is within text that cannot be distinguished from a secret: in a literal, a comment, or
/// after one.
const GIVEN_UP: &[&str] = &[
    "ALTER USER USER()",
    "SET PASSWORD = ",
    "SET PERSIST",
    "SET @",
    "SET GLOBAL",
    "DO VALIDATE",
    "UPDATE mysql.user",
    "INSERT INTO mysql",
    "PREPARE p FROM",
    "/*!99999",
    "START REPLICA USER = '#', ",
];

/// Sends each statement in every way that there is.
fn send_all(raw: &mut Raw, marks: &mut Marks) {
    for statement in STATEMENTS {
        let is_given_up = GIVEN_UP.iter().any(|begin| statement.starts_with(begin));
        for way in 0..4 {
            let sql = marks.fill(statement, way == 0 && !is_given_up);
            // In a separate string: another quoting, and an error quotes all of it.
            let inner = sql.replace('\\', "\\\\").replace('\'', "''");
            match way {
                0 => drop(raw.query(&sql).expect("an answer")),
                1 => {
                    if let Ok(id) = raw.prepare(&sql).expect("an answer") {
                        raw.execute(id, &[], false).expect("an answer");
                    }
                }
                2 => {
                    raw.query(format!("PREPARE s FROM '{inner}'")).expect("an answer");
                    raw.query("EXECUTE s; DEALLOCATE PREPARE s").expect("an answer");
                }
                _ => {
                    raw.query(format!("SET @s = '{inner}'")).expect("an answer");
                    raw.query("PREPARE s FROM @s").expect("an answer");
                    raw.query("EXECUTE s; DEALLOCATE PREPARE s").expect("an answer");
                }
            }
        }
    }
    // As parameters of a prepared statement.
    for sql in ["SELECT AES_ENCRYPT(1, ?)", "SELECT VALIDATE_PASSWORD_STRENGTH(?)"] {
        let secret = marks.secret();
        let id = raw.prepare(sql).expect("an answer").expect("a statement");
        raw.execute(id, &[Some(secret.as_bytes())], false).expect("an answer");
        let secret = marks.secret();
        raw.query(format!("PREPARE s FROM '{sql}'; SET @password = '{secret}'"))
            .expect("an answer");
        raw.query("EXECUTE s USING @password; DEALLOCATE PREPARE s").expect("an answer");
    }
    // A text that is in no statement: an error of a statement that a procedure prepares is that of
    // its CALL.
    let secret = marks.secret();
    let reversed: String = secret.chars().rev().collect();
    let answers = raw.query(format!("CALL d.misspelt('{reversed}')")).expect("an answer");
    assert!(format!("{answers:?}").contains("1064"), "{answers:?}");
}

#[test]
fn secrets_never_reach_the_log_directory() {
    let place = LogAndArenas::new("secrets");
    let builder = place.builder().option(named("loose-tacho.arena-bytes=1M"));
    // A replica's threads are not to look for their source.
    let mut server = builder.option("skip-replica-start").start().expect("a server");
    let mut root = server.connect().expect("a connection");
    for sql in [
        install(),
        "CREATE DATABASE d",
        "CREATE PROCEDURE d.misspelt(r TEXT) BEGIN SET @s = \
         CONCAT('CREATE USR u IDENTIFIED BY ''', REVERSE(r), ''''); PREPARE s FROM @s; END",
    ] {
        root.query_drop(sql).expect("an answer");
    }
    let mut marks = Marks::new();
    // With the general log the server fills in the parameters of prepared statements.
    for general_log in ["OFF", "ON"] {
        // They change their own password.
        let user = format!("tester_{general_log}");
        for sql in [
            format!("SET GLOBAL general_log = {general_log}"),
            format!("CREATE USER {user}"),
            format!("GRANT ALL ON *.* TO {user}"),
        ] {
            root.query_drop(sql).expect("an answer");
        }
        let mut raw = Raw::connect(server.socket(), &user).expect("a session");
        send_all(&mut raw, &mut marks);
        // Larger than the arena: it passes through files beside the arena.
        let large = "x".repeat(3 << 20);
        let sql = format!("CREATE USER # IDENTIFIED BY '%' /* {large} */");
        raw.query(marks.fill(&sql, false)).expect("an answer");
        let conn = raw.conn;
        drop(raw);
        wait_for_end(&mut root, conn);
    }
    // Records of a dead server are recovered as they would have been written.
    root.query_drop(named("SET GLOBAL tacho.flush_interval_ms = 60000")).expect("an answer");
    let mut raw = Raw::connect(server.socket(), "root").expect("a session");
    for statement in ["CREATE USER # IDENTIFIED BY '%'", "CREATE USER # nonsense BY PASSWORD '%'"] {
        raw.query(marks.fill(statement, true)).expect("an answer");
    }
    drop((raw, root));
    server.kill9().expect("killing");
    assert_eq!(place.arena_count(), 1, "what the server leaves behind");
    server.restart().expect("restarting");
    server.stop().expect("stopping");
    assert_eq!(place.arena_count(), 0, "the texts as they came are gone");

    let lines = recorded::read(&place.log()).expect("a good log");
    marks.assert_hidden(&place.log());
    let redacted = lines.iter().filter(|line| line.contains_key("sql_redacted")).count();
    assert!(redacted > 2 * STATEMENTS.len(), "only {redacted} lines had a secret");
    marks.assert_named(&lines);
    // Whatever was removed from it.
    for line in lines.iter().filter(|line| recorded::text(line, "command") == Some("Query")) {
        assert!(!line.contains_key("sql") || line.contains_key("digest"), "{line:?}");
    }
}
