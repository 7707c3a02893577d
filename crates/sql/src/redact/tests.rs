//! Golden pairs: a statement and its redacted text.

use std::borrow::Cow;

use super::Setting;

fn secrets<'t>(sql: &'t [u8], charset: &[u8], db: &[u8]) -> Cow<'t, [u8]> {
    super::secrets(sql, Setting::of(charset, db))
}

/// Each pair in utf8mb4, without a current database.
fn check(pairs: &[(&str, &str)]) {
    for (sql, expected) in pairs {
        check_in(sql.as_bytes(), "utf8mb4", "", expected.as_bytes());
    }
}

fn check_in(sql: &[u8], charset: &str, db: &str, expected: &[u8]) {
    let result = secrets(sql, charset.as_bytes(), db.as_bytes());
    assert!(
        *result == *expected,
        "\n     sql: {}\nexpected: {}\n  result: {}",
        String::from_utf8_lossy(sql),
        String::from_utf8_lossy(expected),
        String::from_utf8_lossy(&result),
    );
    assert_eq!(matches!(result, Cow::Owned(_)), *result != *sql, "owned means changed");
    let again = secrets(&result, charset.as_bytes(), db.as_bytes());
    assert!(*again == *result, "not the same again: {}", String::from_utf8_lossy(&again));
}

/// Each statement is unchanged, and not even copied.
fn check_untouched(statements: &[&str]) {
    for sql in statements {
        let result = secrets(sql.as_bytes(), b"utf8mb4", b"app");
        assert!(
            matches!(result, Cow::Borrowed(_)),
            "\n   sql: {sql}\nresult: {}",
            String::from_utf8_lossy(&result)
        );
        assert_eq!(*result, *sql.as_bytes());
    }
}

#[test]
fn accounts() {
    check(&[
        ("CREATE USER u IDENTIFIED BY 'x'", "CREATE USER u IDENTIFIED BY <secret>"),
        (
            "CREATE USER 'u'@'h' IDENTIFIED BY 'x', 'v'@'%' IDENTIFIED BY 'y'",
            "CREATE USER 'u'@'h' IDENTIFIED BY <secret>, 'v'@'%' IDENTIFIED BY <secret>",
        ),
        (
            "create or replace user u@localhost identified by \"x\", `v`@db1.example.com \
             identified by 'y', w identified by 'z'",
            "create or replace user u@localhost identified by <secret>, `v`@db1.example.com \
             identified by <secret>, w identified by <secret>",
        ),
        (
            "CREATE USER IF NOT EXISTS u IDENTIFIED BY PASSWORD '*94BDCEBE19083CE2A1F959FD02F964C7AF4CFC29'",
            "CREATE USER IF NOT EXISTS u IDENTIFIED BY PASSWORD <secret>",
        ),
        (
            "CREATE USER u IDENTIFIED VIA ed25519 USING PASSWORD('x') OR unix_socket \
             OR mysql_native_password USING '*94BD' REQUIRE SUBJECT '/CN=a' \
             WITH MAX_QUERIES_PER_HOUR 5 PASSWORD EXPIRE INTERVAL 3 DAY ACCOUNT LOCK",
            "CREATE USER u IDENTIFIED VIA ed25519 USING PASSWORD(<secret>) OR unix_socket \
             OR mysql_native_password USING <secret> REQUIRE SUBJECT '/CN=a' \
             WITH MAX_QUERIES_PER_HOUR 5 PASSWORD EXPIRE INTERVAL 3 DAY ACCOUNT LOCK",
        ),
        (
            "CREATE USER u IDENTIFIED WITH 'caching_sha2_password' AS '$A$005$abc'",
            "CREATE USER u IDENTIFIED WITH 'caching_sha2_password' AS <secret>",
        ),
        (
            "ALTER USER u IDENTIFIED BY 'new' REPLACE 'old' RETAIN CURRENT PASSWORD",
            "ALTER USER u IDENTIFIED BY <secret> REPLACE <secret> RETAIN CURRENT PASSWORD",
        ),
        (
            "ALTER USER u ADD 2 FACTOR IDENTIFIED BY 'x' ADD 3 FACTOR IDENTIFIED BY 'y'",
            "ALTER USER u ADD 2 FACTOR IDENTIFIED BY <secret> ADD 3 FACTOR IDENTIFIED BY <secret>",
        ),
        (
            "ALTER USER u 2 FACTOR FINISH REGISTRATION SET CHALLENGE_RESPONSE AS 'x'",
            "ALTER USER u 2 FACTOR FINISH REGISTRATION SET CHALLENGE_RESPONSE AS <secret>",
        ),
        (
            "GRANT ALL ON db.* TO 'u'@'h' IDENTIFIED BY 'x' WITH GRANT OPTION",
            "GRANT ALL ON db.* TO 'u'@'h' IDENTIFIED BY <secret> WITH GRANT OPTION",
        ),
        (
            "CREATE USER u IDENTIFIED BY 'x' AND IDENTIFIED WITH authentication_ldap_simple AS 'y' \
             INITIAL AUTHENTICATION IDENTIFIED BY 'z'",
            "CREATE USER u IDENTIFIED BY <secret> AND IDENTIFIED WITH authentication_ldap_simple AS \
             <secret> INITIAL AUTHENTICATION IDENTIFIED BY <secret>",
        ),
        (
            "CREATE USER u IDENTIFIED WITH caching_sha2_password AS 0x2441",
            "CREATE USER u IDENTIFIED WITH caching_sha2_password AS <redacted>",
        ),
        (
            "clone instance from u@h:3306 identified by 'x' REQUIRE SSL",
            "clone instance from u@h:3306 identified by <secret> REQUIRE SSL",
        ),
        (
            "CLONE INSTANCE FROM 'u'@'h':3306 IDENTIFIED BY 'x'",
            "CLONE INSTANCE FROM 'u'@'h':3306 IDENTIFIED BY <secret>",
        ),
    ]);
}

#[test]
fn set_password() {
    check(&[
        ("SET PASSWORD = 'x'", "SET PASSWORD = <secret>"),
        ("SET PASSWORD=PASSWORD('x')", "SET PASSWORD=PASSWORD(<secret>)"),
        (
            "set password for 'u'@'h' = old_password(\"x\")",
            "set password for 'u'@'h' = old_password(<secret>)",
        ),
        ("SET PASSWORD FOR 'u' = 'x'", "SET PASSWORD FOR 'u' = <secret>"),
        ("SET PASSWORD FOR u@h = 'x'", "SET PASSWORD FOR u@h = <secret>"),
        (
            "SET sql_mode='ANSI', PASSWORD FOR u = 'x', max_statement_time = 5",
            "SET sql_mode='ANSI', PASSWORD FOR u = <secret>, max_statement_time = 5",
        ),
        ("SET PASSWORD = CONCAT('a', 'b')", "SET PASSWORD = CONCAT(<secret>, <secret>)"),
        ("SET PASSWORD 'x'", "SET PASSWORD <secret>"),
        ("SET PASSWORD = N'x' 'y'\n\"z\"", "SET PASSWORD = <secret>"),
        ("SET PASSWORD = _latin1 x'6162'", "SET PASSWORD = _latin1 <secret>"),
    ]);
}

#[test]
fn variables() {
    check(&[
        ("SET GLOBAL wsrep_sst_auth = 'u:p'", "SET GLOBAL wsrep_sst_auth = <secret>"),
        ("SET @@global.`wsrep_sst_auth` := \"u:p\"", "SET @@global.`wsrep_sst_auth` := <secret>"),
        (
            "SET max_statement_time=1, GLOBAL x_password='a', sql_mode='b'",
            "SET max_statement_time=1, GLOBAL x_password=<secret>, sql_mode='b'",
        ),
        ("SELECT @password := 'x'", "SELECT @password := <secret>"),
        ("SET @old_password = 'x'", "SET @old_password = <secret>"),
        (
            "SET PERSIST authentication_ldap_simple_bind_root_pwd = 'x'",
            "SET PERSIST authentication_ldap_simple_bind_root_pwd = <secret>",
        ),
        (
            "SET GLOBAL telemetry.otel_exporter_otlp_logs_secret_headers = 'k=x'",
            "SET GLOBAL telemetry.otel_exporter_otlp_logs_secret_headers = <secret>",
        ),
        ("SET GLOBAL tacho_chain_key = 'x'", "SET GLOBAL tacho_chain_key = <secret>"),
    ]);
}

#[test]
fn replication_and_servers() {
    check(&[
        (
            "CHANGE MASTER 'c' TO MASTER_HOST='h', MASTER_USER='u', MASTER_PASSWORD='x', \
             MASTER_PORT=3306, MASTER_LOG_FILE='f.1', MASTER_SSL_KEY='/k.pem'",
            "CHANGE MASTER 'c' TO MASTER_HOST='h', MASTER_USER='u', MASTER_PASSWORD=<secret>, \
             MASTER_PORT=3306, MASTER_LOG_FILE='f.1', MASTER_SSL_KEY='/k.pem'",
        ),
        (
            "CHANGE REPLICATION SOURCE TO SOURCE_PASSWORD='x' FOR CHANNEL 'c'",
            "CHANGE REPLICATION SOURCE TO SOURCE_PASSWORD=<secret> FOR CHANNEL 'c'",
        ),
        (
            "START SLAVE USER='u' PASSWORD='x' DEFAULT_AUTH='p'",
            "START SLAVE USER='u' PASSWORD=<secret> DEFAULT_AUTH='p'",
        ),
        (
            "START GROUP_REPLICATION USER='u',PASSWORD='x', DEFAULT_AUTH='p'",
            "START GROUP_REPLICATION USER='u',PASSWORD=<secret>, DEFAULT_AUTH='p'",
        ),
        (
            "start group_replication password = 'x', user = 'u'",
            "start group_replication password = <secret>, user = 'u'",
        ),
        (
            "CREATE SERVER s FOREIGN DATA WRAPPER mysql OPTIONS (USER 'u', PASSWORD 'x', HOST 'h', PORT 3306)",
            "CREATE SERVER s FOREIGN DATA WRAPPER mysql OPTIONS (USER 'u', PASSWORD <secret>, HOST 'h', PORT 3306)",
        ),
        ("ALTER SERVER s OPTIONS (PASSWORD 'x')", "ALTER SERVER s OPTIONS (PASSWORD <secret>)"),
        (
            "CREATE TABLE t (a INT) ENGINE=FEDERATED CONNECTION='mysql://u:x@h/d/t'",
            "CREATE TABLE t (a INT) ENGINE=FEDERATED CONNECTION=<secret>",
        ),
        (
            "CREATE TABLE t (a INT) ENGINE=CONNECT OPTION_LIST='User=u,Password=x'",
            "CREATE TABLE t (a INT) ENGINE=CONNECT OPTION_LIST=<secret>",
        ),
        (
            "CREATE TABLE t (a INT) ENGINE=SPIDER COMMENT='user \"u\", password \"x\"'",
            "CREATE TABLE t (a INT) ENGINE=SPIDER COMMENT=<secret>",
        ),
        (
            "CREATE OR REPLACE TABLE t (a INT) PASSWORD='x'",
            "CREATE OR REPLACE TABLE t (a INT) PASSWORD=<secret>",
        ),
    ]);
}

#[test]
fn functions() {
    check(&[
        (
            "UPDATE users SET p = PASSWORD('x') WHERE id = 1",
            "UPDATE users SET p = PASSWORD(<secret>) WHERE id = 1",
        ),
        (
            "SELECT AES_ENCRYPT(card, CONCAT('k', id)), 'y' FROM t WHERE z = 'w'",
            "SELECT AES_ENCRYPT(card, CONCAT(<secret>, id)), 'y' FROM t WHERE z = 'w'",
        ),
        ("SELECT `aes_decrypt` (c, 0x6b6579)", "SELECT `aes_decrypt` (c, <secret>)"),
        ("SELECT \"des_encrypt\"(c, 12345)", "SELECT \"des_encrypt\"(c, <secret>)"),
        (
            "SELECT ENCODE('a', 'k'), ENCRYPT('b')",
            "SELECT ENCODE(<secret>, <secret>), ENCRYPT(<secret>)",
        ),
        ("SELECT ed25519_password('x')", "SELECT ed25519_password(<secret>)"),
        ("SELECT PASSWORD('x', 'y' FROM t", "SELECT PASSWORD(<secret>, <secret> FROM t"),
    ]);
}

#[test]
fn tables_of_the_server() {
    check(&[
        (
            "INSERT INTO mysql.user VALUES ('h', 'u', '*94BD')",
            "INSERT INTO mysql.user VALUES (<secret>, <secret>, <secret>)",
        ),
        (
            "WITH c AS (SELECT 'x' p) UPDATE `mysql` . /**/ `global_priv`, c SET Priv = p",
            "WITH c AS (SELECT <secret> p) UPDATE `mysql` . /**/ `global_priv`, c SET Priv = p",
        ),
        (
            "USE mysql; UPDATE user SET plugin='', authentication_string='*94BD'",
            "USE mysql; UPDATE user SET plugin=<secret>, authentication_string=<secret>",
        ),
        (
            "REPLACE INTO \"mysql\".servers VALUES ('s', 'x')",
            "REPLACE INTO <secret>.servers VALUES (<secret>, <secret>)",
        ),
    ]);
    check_in(b"UPDATE user SET x='s'", "latin1", "mysql", b"UPDATE user SET x=<secret>");
}

#[test]
fn dynamic_sql_and_stored_programs() {
    check(&[
        ("PREPARE s FROM 'SET PASSWORD = ''x'''", "PREPARE s FROM <secret>"),
        ("PREPARE s FROM 'SET PASS\\WORD = \"x\"'", "PREPARE s FROM <secret>"),
        ("PREPARE s FROM 'SET PASS' 'WORD = ''x'''", "PREPARE s FROM <secret>"),
        (
            "EXECUTE IMMEDIATE CONCAT('SET PASS', 'WORD = ''x''')",
            "EXECUTE IMMEDIATE CONCAT(<secret>, <secret>)",
        ),
        ("EXECUTE IMMEDIATE 0x5345542050415353574F52443D277827", "EXECUTE IMMEDIATE <secret>"),
        ("EXECUTE IMMEDIATE 'SELECT ?' USING 'x'", "EXECUTE IMMEDIATE 'SELECT ?' USING <secret>"),
        ("EXECUTE s USING 'x', @y", "EXECUTE s USING <secret>, @y"),
        ("EXECUTE s USING 1234", "EXECUTE s USING <secret>"),
        (
            "EXECUTE `s` USING -1, 2.5e3, 0x31, @y, 'x'",
            "EXECUTE `s` USING -<secret>, <secret>, <secret>, @y, <secret>",
        ),
        (
            "EXECUTE IMMEDIATE 'ALTER USER u IDENTIFIED BY ?' USING 1234",
            "EXECUTE IMMEDIATE 'ALTER USER u IDENTIFIED BY ?' USING <secret>",
        ),
        (
            "EXECUTE IMMEDIATE CONCAT('ALTER USER u IDENTIFIED BY ''', 1234, '''')",
            "EXECUTE IMMEDIATE CONCAT(<secret>, <secret>, <secret>)",
        ),
        (
            "CREATE PROCEDURE p() BEGIN EXECUTE s USING 1234; SELECT 5; END",
            "CREATE PROCEDURE p() BEGIN EXECUTE s USING <secret>; SELECT 5; END",
        ),
        ("PREPARE s FROM 'CREATE USER u IDENTIFIED ' 'BY ''x'''", "PREPARE s FROM <secret>"),
        ("PREPARE s FROM _latin1'SELECT 1' ' + 1'", "PREPARE s FROM _latin1'SELECT 1' ' + 1'"),
        // The server does not accept this one.
        (
            "PREPARE s FROM 'CREATE USER u IDENTIFIED BY ' _latin1'x'",
            "PREPARE s FROM <secret> _latin1<secret>",
        ),
        (
            "EXECUTE IMMEDIATE 'SET PASS' /* c */ \"WORD = 'x'\" USING @y",
            "EXECUTE IMMEDIATE <secret> USING @y",
        ),
        ("SET @q = 'CREATE USER u IDENTIFIED BY ''x'''", "SET @q = <secret>"),
        (
            "CREATE PROCEDURE p() BEGIN SET PASSWORD = 'x'; UPDATE t SET password = 'y'; END",
            "CREATE PROCEDURE p() BEGIN SET PASSWORD = <secret>; UPDATE t SET password = 'y'; END",
        ),
        (
            "CREATE OR REPLACE EVENT e ON SCHEDULE EVERY 1 DAY DO ALTER USER u IDENTIFIED BY 'x'",
            "CREATE OR REPLACE EVENT e ON SCHEDULE EVERY 1 DAY DO ALTER USER u IDENTIFIED BY <secret>",
        ),
        (
            "CREATE TRIGGER g BEFORE UPDATE ON t FOR EACH ROW SET PASSWORD = 'x'",
            "CREATE TRIGGER g BEFORE UPDATE ON t FOR EACH ROW SET PASSWORD = <secret>",
        ),
        (
            "SET STATEMENT max_statement_time=1 FOR SET PASSWORD = 'x'",
            "SET STATEMENT max_statement_time=1 FOR SET PASSWORD = <secret>",
        ),
        (
            "IF (SELECT CASE WHEN 1 THEN 2 END) THEN SET PASSWORD = 'x'; END IF",
            "IF (SELECT CASE WHEN 1 THEN 2 END) THEN SET PASSWORD = <secret>; END IF",
        ),
        (
            "IF (SELECT 1) > 1e-5THEN SET PASSWORD = 'x'; END IF",
            "IF (SELECT 1) > 1e-5THEN SET PASSWORD = <secret>; END IF",
        ),
    ]);
}

#[test]
fn comments() {
    check(&[
        (
            "/* a */CREATE#b\nUSER-- c\nu/**/IDENTIFIED/*\n*/BY--\t\n'x'",
            "/* a */CREATE#b\nUSER-- c\nu/**/IDENTIFIED/*\n*/BY--\t\n<secret>",
        ),
        ("/*! SET PASSWORD = 'x' */", "/*! SET PASSWORD = <secret> */"),
        (
            "/*!50003 CREATE USER u IDENTIFIED BY 'x'*/; SELECT 'y'",
            "/*!50003 CREATE USER u IDENTIFIED BY <secret>*/; SELECT 'y'",
        ),
        ("/*M!100100 SET PASSWORD='x'*/", "/*M!100100 SET PASSWORD=<secret>*/"),
        ("SET/*!50000PASSWORD*/='x'", "SET/*!50000PASSWORD*/=<secret>"),
        // Whether the first comment is executed decides where the literals are.
        ("/*!99999 ' */ SET PASSWORD = 'x' /* ' */", "/*!99999 <secret>*/"),
        // The words of one comment only hide those of the other when one is run and one is not.
        (
            "SET /*!99999 x */ /*!50000 PASSWORD */ = 'x', y = 'z'",
            "SET /*!99999 x */ /*!50000 PASSWORD */ = <secret>, <secret> = <secret>",
        ),
        ("-- SET PASSWORD = 'x'\nSELECT 1", "--<secret>\nSELECT 1"),
        ("/* CREATE USER u IDENTIFIED BY 'x' */ SELECT 1", "/*<secret>*/ SELECT 1"),
        ("CREATE USER u IDENTIFIED BY #hunter2", "CREATE USER u IDENTIFIED BY #<secret>"),
    ]);
}

#[test]
fn statements_that_do_not_parse() {
    check(&[
        ("CREATE USER u IDENTIFIED BY 'x", "CREATE USER u IDENTIFIED BY <secret>"),
        ("CREATE USER u IDENTIFIED BY x", "CREATE USER u IDENTIFIED BY <redacted>"),
        ("CREATE USER u IDENTIFIED BY my secret; p@ss", "CREATE USER u IDENTIFIED BY <redacted>"),
        ("CREATE USER u IDENTIFIED BY 12345", "CREATE USER u IDENTIFIED BY <redacted>"),
        ("CREATE USER u IDENTIFIED 'x' BY", "CREATE USER u IDENTIFIED <secret> BY"),
        ("CREATE USR u IDENTIFIED BY 'x'", "CREATE USR u IDENTIFIED BY <secret>"),
        ("SET PASSWORD = hunter2", "SET PASSWORD = <redacted>"),
        ("SET PASSWORD FOR u@h 'x'", "SET PASSWORD FOR u@h <secret>"),
        (
            "CHANGE MASTER TO MASTER_PASSWORD='x, MASTER_USER='u'",
            "CHANGE MASTER TO MASTER_PASSWORD=<redacted>",
        ),
    ]);
}

#[test]
fn modes() {
    check(&[
        // With escapes one literal; without, a word and a literal follow the first.
        ("SET PASSWORD = 'a\\'c'", "SET PASSWORD = <secret>"),
        ("SET PASSWORD = 'a\\\\'", "SET PASSWORD = <secret>"),
        // The mode decides where the first statement ends.
        ("SELECT 'a\\'; SET PASSWORD = 'x'; -- '", "SELECT 'a\\'; SET PASSWORD = <secret>; -- '"),
        ("SELECT \"a\\\"; SET PASSWORD = 'x'; -- \"", "SELECT <secret>"),
        // ANSI_QUOTES alone: escapes in one kind of quotes only.
        ("SELECT \"a\\\", 'b\\'\"', PASSWORD('x')", "SELECT \"a\\\", 'b\\'\"', PASSWORD(<secret>)"),
    ]);
}

#[test]
fn character_sets() {
    // The second byte of the character is not a backslash: the literal ends at the quote.
    check_in(
        b"SET PASSWORD = 'x\x83\x5C', b = 'y'",
        "sjis",
        "",
        b"SET PASSWORD = <secret>, b = 'y'",
    );
    check_in(
        b"SET PASSWORD = 'x\xBF\x5C', b = 'y'",
        "gbk",
        "",
        b"SET PASSWORD = <secret>, b = 'y'",
    );
    check_in(
        b"SET PASSWORD = 'x\xA4\x5C', b = 'y'",
        "big5",
        "",
        b"SET PASSWORD = <secret>, b = 'y'",
    );
    check_in(b"SET PASSWORD = 'x\x81\x30\x81\x30'", "gb18030", "", b"SET PASSWORD = <secret>");
    // The character set is unknown: in one of them the literal ends at the quote.
    check_in(b"SET PASSWORD = 'x\x83\x5C', b = 'y'", "", "", b"SET PASSWORD = <secret>");
    check_in(b"SET PASSWORD = 'x', b = 'y'", "", "", b"SET PASSWORD = <secret>, b = 'y'");
    // A no-break space is a space in latin1.
    check_in(b"SET\xA0PASSWORD\xA0=\xA0'x'", "latin1", "", b"SET\xA0PASSWORD\xA0=\xA0<secret>");
    check_in(b"S\0E\0L\0", "utf16le", "", b"<redacted>");
    check_in(b"SET PASSWORD\0= 'x\0y'\0", "utf8", "", b"SET PASSWORD\0= <secret>\0");
}

#[test]
fn application_data_stays() {
    check_untouched(&[
        "SELECT password FROM t WHERE x = 'y' AND password = 'z'",
        "UPDATE app.users SET password = 'x' WHERE name = 'it\\'s'",
        "INSERT INTO users (name, password) VALUES ('a', 'b')",
        "INSERT INTO users SET password = 'x' ON DUPLICATE KEY UPDATE password = 'y'",
        "UPDATE t SET a = CASE WHEN b THEN 'c' ELSE 'd' END, password = 'x'",
        "CREATE TABLE t (id INT, password VARCHAR(255) NOT NULL DEFAULT 'x', KEY password (password))",
        "INSERT INTO password (a) VALUES ('x')",
        "INSERT INTO notes VALUES ('He was identified by the police')",
        "INSERT INTO notes VALUES ('Reset your password (2 attempts left)')",
        "INSERT INTO log VALUES ('{\"password\": \"x\"}')",
        "SELECT identified FROM cases WHERE identified = 'y'",
        "SELECT user, host FROM mysql.user WHERE user = 'root'",
        "DELETE FROM mysql.user WHERE user = 'x'",
        "DROP USER 'u'@'h'",
        "GRANT EXECUTE ON PROCEDURE p TO 'u'@'h'",
        "SET old_passwords = 0, sql_mode = 'ANSI'",
        "SET GLOBAL validate_password_length = 8",
        "UPDATE app.users SET pwd = 'x' WHERE name = 'y'",
        "SELECT * FROM t WHERE connection = 'keep-alive'",
        "CREATE TABLE t (a INT) ENGINE=FEDERATED CONNECTION='server1/t'",
        "KILL CONNECTION 5",
        "PREPARE s FROM 'SELECT * FROM t WHERE a = ''b'''",
        "CREATE TRIGGER g BEFORE INSERT ON t FOR EACH ROW SET NEW.password = 'x'",
        "SET STATEMENT max_statement_time=1 FOR UPDATE users SET password = 'x'",
        "SELECT 1 /* who forgot the password */",
    ]);
}

#[test]
fn the_quick_check_finds_words_at_every_offset() {
    // The text is checked in pieces; no word may be missed between two.
    for before in 0..1200 {
        let sql = format!("{}; SeT PaSsWoRd = 'x'", " ".repeat(before));
        assert!(secrets(sql.as_bytes(), b"utf8mb4", b"").ends_with(b"= <secret>"), "{before}");
    }
}

#[test]
fn texts_crafted_to_have_many_readings_lose_their_literals() {
    let sql = format!("SELECT password, {}", "'\\';".repeat(100_000));
    check_in(sql.as_bytes(), "utf8mb4", "", b"SELECT password, <secret>");
}

/// A word of the table cannot hide what a statement is about.
#[test]
fn ambiguity_hides_no_names() {
    check_untouched(&[
        "DELETE FROM hr.salary WHERE id=1 /* pwd --é */",
        "SELECT v AS pwd, --é.x FROM hr.salary",
        "SELECT user, identified FROM hr.salary WHERE x = 'y'",
        "SELECT v, USER() identified FROM hr.salary",
    ]);
    check(&[
        ("SELECT @pwd:=1, v FROM hr.salary", "SELECT @pwd:=<secret>, v FROM hr.salary"),
        (
            "SELECT @pwd:='x' 'y', `v` FROM `hr`.`salary` WHERE id = 'v'",
            "SELECT @pwd:=<secret>, `v` FROM `hr`.`salary` WHERE id = 'v'",
        ),
        (
            "SELECT password 'x', v FROM hr.salary WHERE id = v",
            "SELECT password <secret>, v FROM hr.salary WHERE id = v",
        ),
        (
            "SELECT source_password, v FROM hr.salary WHERE id = 'x'",
            "SELECT source_password, v FROM hr.salary WHERE id = 'x'",
        ),
        (
            "SET @pwd = (SELECT v FROM hr.salary WHERE id = 1)",
            "SET @pwd = (SELECT v FROM hr.salary WHERE id = <secret>)",
        ),
        (
            "BEGIN NOT ATOMIC SET @pwd = 1; DELETE FROM hr.salary; END",
            "BEGIN NOT ATOMIC SET @pwd = <secret>; DELETE FROM hr.salary; END",
        ),
        ("CALL hr.raise(@pwd:=1, hr.f())", "CALL hr.raise(@pwd:=<secret>, hr.f())"),
        (
            "/*!99999 IDENTIFIED BY x */ DELETE FROM hr.salary",
            "/*!99999 IDENTIFIED BY <secret> */ DELETE FROM hr.salary",
        ),
        (
            "SELECT 'a\\'; SET PASSWORD = x; -- ', v FROM hr.salary",
            "SELECT <secret>, v FROM hr.salary",
        ),
    ]);
    // A space and a comment in one character set, no comment in another.
    check_in(
        b"SELECT v --\xA0 it's\n, PASSWORD('x') FROM hr.salary",
        "latin1",
        "",
        b"SELECT v --\xA0 it's\n, PASSWORD(<secret>) FROM hr.salary",
    );
    check_in(
        b"DELETE FROM hr.salary WHERE a = '\x83\x5C' AND pwd = 'b'",
        "",
        "",
        b"DELETE FROM hr.salary WHERE a = '\x83\x5C' AND pwd = 'b'",
    );
}

#[test]
fn quoted_names_are_names() {
    check(&[
        ("SET @'my_password'='x'", "SET @'my_password'=<secret>"),
        ("SELECT @'pwd':='x'", "SELECT @'pwd':=<secret>"),
        ("SELECT @\"pwd\":='x', @`pwd`:='x'", "SELECT @\"pwd\":=<secret>, @`pwd`:=<secret>"),
        (
            "CREATE SERVER s FOREIGN DATA WRAPPER mysql OPTIONS (`PASSWORD` 'x', USER 'u')",
            "CREATE SERVER s FOREIGN DATA WRAPPER mysql OPTIONS (`PASSWORD` <secret>, USER 'u')",
        ),
        (
            "CREATE TABLE t (a INT) ENGINE=FEDERATED `CONNECTION`='mysql://u:x@h/d/t'",
            "CREATE TABLE t (a INT) ENGINE=FEDERATED `CONNECTION`=<secret>",
        ),
        (
            "BEGIN NOT ATOMIC IF (SELECT @case IS NULL) THEN SET PASSWORD='x'; END IF; END",
            "BEGIN NOT ATOMIC IF (SELECT @case IS NULL) THEN SET PASSWORD=<secret>; END IF; END",
        ),
    ]);
}

#[test]
fn digits_are_read() {
    let hex = |sql: &str| sql.bytes().map(|byte| format!("{byte:02X}")).collect::<String>();
    let secret = hex("SET PASSWORD = 'x'");
    let bits: String = "SET PASSWORD = 'x'".bytes().map(|byte| format!("{byte:08b}")).collect();
    for literal in [
        format!("x'{secret}'"),
        format!("X'{secret}'"),
        format!("0x{secret}"),
        format!("b'{bits}'"),
    ] {
        check(&[
            (&format!("EXECUTE IMMEDIATE {literal}"), "EXECUTE IMMEDIATE <secret>"),
            (&format!("PREPARE p FROM {literal}"), "PREPARE p FROM <secret>"),
            (
                &format!("SET @s = {literal}; PREPARE p FROM @s"),
                "SET @s = <secret>; PREPARE p FROM @s",
            ),
        ]);
    }
}

#[test]
fn concatenated_texts_lose_every_literal() {
    check(&[
        (
            "SET @s=CONCAT('CREATE USER u IDENTIFIED BY ''','x','''')",
            "SET @s=CONCAT(<secret>,<secret>,<secret>)",
        ),
        (
            "SET @s='a' || 'CREATE USER u IDENTIFIED BY ' || QUOTE('x')",
            "SET @s=<secret> || <secret> || QUOTE(<secret>)",
        ),
        (
            "SELECT CONCAT('SELECT PASSWORD(', QUOTE('x'), ')') FROM hr.salary",
            "SELECT CONCAT(<secret>, QUOTE(<secret>), <secret>) FROM hr.salary",
        ),
        (
            "INSERT INTO log VALUES ('CREATE USER u IDENTIFIED BY ''x''', 'y')",
            "INSERT INTO log VALUES (<secret>, 'y')",
        ),
    ]);
}

#[test]
fn urls_with_passwords() {
    check(&[
        (
            "CREATE TABLE t (a INT) ENGINE=CONNECT HTTP='http://u:x@h' FILE_NAME='f'",
            "CREATE TABLE t (a INT) ENGINE=CONNECT HTTP=<secret> FILE_NAME='f'",
        ),
        ("SELECT 'y', 'see ftp://u:x@h/d' FROM t", "SELECT 'y', <secret> FROM t"),
        ("SELECT 1 /* http://u:x@h */", "SELECT 1 /*<secret>*/"),
        (
            "INSERT INTO mysql.spider_tables VALUES ('h', 'x')",
            "INSERT INTO mysql.spider_tables VALUES (<secret>, <secret>)",
        ),
    ]);
    check_untouched(&["SELECT 'http://h:80/a@b', 'u@h'"]);
}

/// The server concatenates adjacent literals.
#[test]
fn urls_with_passwords_in_parts() {
    check(&[
        ("SELECT 'https:' '//u:x@h'", "SELECT <secret>"),
        ("SELECT 'https:/' '/u:x@h', 'y'", "SELECT <secret>, 'y'"),
        ("SELECT 'https' ':' '/' '/' 'u' ':' 'x' '@' 'h'", "SELECT <secret>"),
        ("SELECT 'https://u:'\"x@h\"", "SELECT <secret>"),
        ("SELECT _latin1'https://u'\n':x@h'", "SELECT _latin1<secret>"),
        ("SELECT 'https:' /* ' */ '//u:x@h'", "SELECT <secret>"),
        ("SELECT 'https:' -- it's\n'//u:x@h'", "SELECT <secret>"),
        ("PREPARE s FROM 'SELECT ''https:'' ''//u:x@h'''", "PREPARE s FROM <secret>"),
        ("SELECT 'SELECT ''https:'' ''//u:x@h'''", "SELECT <secret>"),
        ("SELECT CONCAT('https:', '//u:x@h'), 'y'", "SELECT CONCAT(<secret>, <secret>), 'y'"),
        (
            "SELECT concat /**/ (a, IF(b, 'c', 'd'), 'https://', 'u:' 'x', '@h', e)",
            "SELECT concat /**/ (a, IF(b, 'c', 'd'), <secret>, <secret>, <secret>, e)",
        ),
        (
            "SELECT CONCAT(CONCAT('a', 'b'), 'https:', '//u:x@h')",
            "SELECT CONCAT(CONCAT('a', 'b'), <secret>, <secret>)",
        ),
        ("SELECT 'https:' || '//u:x@h'", "SELECT <secret> || <secret>"),
        ("SELECT 'https://u:x\\\\y@h'", "SELECT <secret>"),
        ("SELECT /*! 'https:' */ '//u:x@h'", "SELECT /*! <secret>"),
    ]);
    check_in(b"SELECT 'https:'\xA0'//u:x@h'", "latin1", "", b"SELECT <secret>");
    check_untouched(&[
        "INSERT INTO t VALUES ('https:', '//u:x@h')",
        "INSERT INTO t VALUES ('http://h:80', 'a@b')",
        "SELECT REPLACE('http://h:80', 'a@b', '')",
        "SELECT CONCAT(a, 'b') FROM t WHERE c IN ('http://h:80', 'a@b')",
        "SELECT CONCAT('http://h:80/', 'a@b', ' it''s')",
        "SELECT 'http://h:80/' 'a@b'",
    ]);
}

#[test]
fn the_beginning_of_a_text_has_no_literal() {
    let setting = Setting::of(b"utf8mb4", b"").of_part();
    let part = b"SELECT 'a', \"b\", 0x41 /* c */ FROM t WHERE d = 'e";
    let text = super::secrets(part, setting);
    let expected = "SELECT <secret>, <secret>, <secret> /*<secret>*/ FROM t WHERE d = <secret>";
    assert_eq!(String::from_utf8_lossy(&text), expected);
    assert_eq!(*super::secrets(&text, setting), *text);
}

#[test]
fn a_prepared_text_may_be_hidden() {
    let shows = |sql: &str| super::shows_prepared(sql.as_bytes(), Setting::of(b"utf8mb4", b""));
    assert!(shows("PREPARE p FROM 'x'") && shows("EXECUTE IMMEDIATE /* c */ \"x\" USING 1"));
    for sql in
        ["PREPARE p FROM @s /* ' */", "EXECUTE IMMEDIATE @s USING 'x'", "PREPARE `'` FROM @'s'"]
    {
        assert!(!shows(sql), "{sql}");
    }
}

/// Whatever words a valid statement uses for names, it is not hidden.
#[test]
fn names_that_look_like_clauses_hide_nothing() {
    check_untouched(&[
        "CREATE TABLE leak (user INT, identified INT) SELECT * FROM hr.salary",
        "DROP TABLE IF EXISTS user, identified, hr.salary",
        "DROP TABLE master_password, hr.salary",
        "CALL app.p(user, identified, hr.salary())",
        "DO user, identified, challenge_response, hr.salary()",
        "ALTER TABLE hr.salary CHANGE password _x INT, DROP COLUMN amount",
        "ALTER TABLE hr.salary ADD user INT, ADD identified INT, DROP COLUMN amount",
        "RENAME TABLE user TO identified, hr.salary TO app.stolen",
        "LOCK TABLES user READ, identified READ, hr.salary WRITE",
        "FLUSH TABLES source_password, hr.salary WITH READ LOCK",
        "GRANT identified, dba TO eve",
        "GRANT ALL ON master_password.* TO eve",
        "CREATE USER identified, eve@h",
        "CREATE ROLE master_password, eve",
        "DROP USER user, identified, eve",
        "SET ROLE challenge_response, dba",
        "BEGIN NOT ATOMIC DECLARE user, identified INT; DELETE FROM hr.salary; END",
        "BEGIN NOT ATOMIC DECLARE master_password INT; DROP TABLE hr.salary; END",
        "CREATE VIEW user AS TABLE identified UNION TABLE hr.salary",
        "HANDLER challenge_response READ salary FIRST",
        "INSTALL PLUGIN master_password SONAME 'evil.so'",
        "CREATE EVENT master_password ON SCHEDULE EVERY 1 DAY DO DROP TABLE hr.salary",
    ]);
    check(&[
        (
            "BEGIN NOT ATOMIC SET user = 1, challenge_response = hr.f(1); DELETE FROM hr.salary; END",
            "BEGIN NOT ATOMIC SET user = 1, challenge_response = hr.f(<secret>); DELETE FROM hr.salary; END",
        ),
        ("SET @pwd = `hr`.`salary`(1)", "SET @pwd = `hr`.`salary`(<secret>)"),
        ("SET @pwd = (TABLE hr.salary LIMIT 1)", "SET @pwd = (TABLE hr.salary LIMIT <secret>)"),
    ]);
}

/// By the grammar, the accounts and objects of the statement follow a secret.
#[test]
fn text_after_a_secret_is_kept() {
    check(&[
        (
            "CREATE USER a IDENTIFIED BY 'x', `b`, c@h, d DEFAULT ROLE r, 's'@'%' REQUIRE SSL",
            "CREATE USER a IDENTIFIED BY <secret>, `b`, c@h, d DEFAULT ROLE r, 's'@'%' REQUIRE SSL",
        ),
        (
            "GRANT ALL ON hr.* TO a IDENTIFIED BY 'x', eve WITH GRANT OPTION",
            "GRANT ALL ON hr.* TO a IDENTIFIED BY <secret>, eve WITH GRANT OPTION",
        ),
        (
            "ALTER USER a IDENTIFIED WITH my_plugin BY 'x'",
            "ALTER USER a IDENTIFIED WITH my_plugin BY <secret>",
        ),
        (
            "SET PASSWORD = 'x', GLOBAL general_log = OFF",
            "SET PASSWORD = <secret>, GLOBAL general_log = OFF",
        ),
        (
            "SET PASSWORD = 'x', @@global.general_log = OFF",
            "SET PASSWORD = <secret>, @@global.general_log = OFF",
        ),
        (
            "CHANGE MASTER TO MASTER_PASSWORD='x', MASTER_USE_GTID=slave_pos, \
             IGNORE_SERVER_IDS=(1,2), MASTER_HOST='h'",
            "CHANGE MASTER TO MASTER_PASSWORD=<secret>, MASTER_USE_GTID=slave_pos, \
             IGNORE_SERVER_IDS=(1,2), MASTER_HOST='h'",
        ),
        (
            "CHANGE REPLICATION SOURCE TO SOURCE_PASSWORD='x', REQUIRE_ROW_FORMAT=1, \
             ASSIGN_GTIDS_TO_ANONYMOUS_TRANSACTIONS=LOCAL, PRIVILEGE_CHECKS_USER='u', SOURCE_HOST='h'",
            "CHANGE REPLICATION SOURCE TO SOURCE_PASSWORD=<secret>, REQUIRE_ROW_FORMAT=1, \
             ASSIGN_GTIDS_TO_ANONYMOUS_TRANSACTIONS=LOCAL, PRIVILEGE_CHECKS_USER='u', SOURCE_HOST='h'",
        ),
    ]);
}

#[test]
fn secrets_assigned_to_variables_in_other_ways() {
    check(&[
        (
            "SELECT 'a', 'x' INTO @a, @my_password",
            "SELECT <secret>, <secret> INTO @a, @my_password",
        ),
        (
            "SELECT @pwd := CASE WHEN 1 THEN 'x' ELSE 'y' END FROM hr.salary",
            "SELECT @pwd := CASE WHEN <secret> THEN <secret> ELSE <secret> END FROM hr.salary",
        ),
        (
            "BEGIN NOT ATOMIC DECLARE a, my_pwd TEXT DEFAULT 'x'; SELECT 'y'; END",
            "BEGIN NOT ATOMIC DECLARE a, my_pwd TEXT DEFAULT <secret>; SELECT 'y'; END",
        ),
        // Without quotes.
        ("START REPLICA USER='u' PASSWORD=x", "START REPLICA USER='u' PASSWORD=<secret>"),
        ("START REPLICA USER='u' PASSWORD x y", "START REPLICA USER='u' PASSWORD <redacted>"),
        (
            "GRANT SELECT ON t TO u IDENTIFIED BY x y",
            "GRANT SELECT ON t TO u IDENTIFIED BY <redacted>",
        ),
        (
            "CREATE PROCEDURE p() BEGIN CREATE USER u IDENTIFIED BY x y; SELECT 1; END",
            "CREATE PROCEDURE p() BEGIN CREATE USER u IDENTIFIED BY <secret>; SELECT 1; END",
        ),
        (
            "CREATE EVENT e ON SCHEDULE EVERY 1 DAY DO CREATE USER u IDENTIFIED BY x",
            "CREATE EVENT e ON SCHEDULE EVERY 1 DAY DO CREATE USER u IDENTIFIED BY <secret>",
        ),
    ]);
}

/// A text that is crafted to take too long, or to have too many secrets, hides no statement.
#[test]
fn a_text_beyond_the_limits_keeps_its_words() {
    let mut nested = "pwd \\ \" /*!1 */ --\u{e9}".to_owned();
    for _ in 0..4 {
        nested = format!("'pwd {}'", nested.replace('\\', "\\\\").replace('\'', "''"));
    }
    let many = ["PASSWORD(1)"; 70_000].join(",");
    for value in [nested.as_str(), many.as_str()] {
        let sql = format!("DELETE FROM hr.salary WHERE a IN ({value}) /* b */ OR hr.f('x')");
        let text = secrets(sql.as_bytes(), b"utf8mb4", b"");
        let text = String::from_utf8_lossy(&text);
        assert!(
            text.starts_with("DELETE FROM hr.salary WHERE a IN (") && text.len() < sql.len() * 8
        );
        assert!(text.ends_with("*/ OR hr.f(<secret>)"), "{}", &text[..text.len().min(200)]);
    }
    let sql = format!("SELECT {nested}; CREATE USER u IDENTIFIED BY hunter2 'x'");
    let text = secrets(sql.as_bytes(), b"utf8mb4", b"").into_owned();
    let text = String::from_utf8(text).unwrap();
    assert!(!text.contains("hunter2") && text.contains("CREATE USER u IDENTIFIED BY"), "{text}");
}
