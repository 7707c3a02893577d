//! Statements generated at random from a grammar, with a marked secret: whatever the spacing,
//! quoting, wrapping, character set, and wherever the text was cut, the mark must be removed.

use proptest::prelude::*;

use super::{Setting, secrets};

/// Occurs only in the secret.
const MARK: &str = "q7Zk9";

/// `$` is the secret as a literal, `@U` a user, other words are split at spaces.
const STATEMENTS: &[&str] = &[
    "CREATE USER @U IDENTIFIED BY $",
    "CREATE OR REPLACE USER @U IDENTIFIED BY $ , @U IDENTIFIED BY $ REQUIRE SSL",
    "CREATE USER IF NOT EXISTS @U IDENTIFIED BY PASSWORD $",
    "CREATE USER @U IDENTIFIED VIA ed25519 USING $ OR unix_socket OR pam USING $",
    "CREATE USER @U IDENTIFIED VIA mysql_native_password USING PASSWORD ( $ )",
    "CREATE USER @U IDENTIFIED WITH caching_sha2_password AS $",
    "ALTER USER @U IDENTIFIED BY $ REPLACE $ RETAIN CURRENT PASSWORD",
    "GRANT ALL ON * . * TO @U IDENTIFIED BY $ WITH GRANT OPTION",
    "SET PASSWORD = $",
    "SET PASSWORD FOR @U = PASSWORD ( $ )",
    "SET @ a = 1 , PASSWORD FOR @U = OLD_PASSWORD ( $ )",
    "SET GLOBAL wsrep_sst_auth = $",
    "SET @@ global . `wsrep_sst_auth` := $ , sql_mode = 'x'",
    "CHANGE MASTER TO MASTER_HOST = 'h' , MASTER_PASSWORD = $ , MASTER_PORT = 1",
    "CHANGE REPLICATION SOURCE TO SOURCE_PASSWORD = $ FOR CHANNEL 'c'",
    "START REPLICA USER = 'u' PASSWORD = $",
    "CREATE SERVER s FOREIGN DATA WRAPPER mysql OPTIONS ( USER 'u' , PASSWORD $ )",
    "UPDATE t SET a = PASSWORD ( $ ) WHERE b = 'c'",
    "SELECT AES_ENCRYPT ( c , CONCAT ( $ , d ) ) , `aes_decrypt` ( c , $ )",
    "INSERT INTO t VALUES ( 'a' , AES_ENCRYPT ( $ , $ ) )",
    "INSERT INTO mysql . user VALUES ( 'h' , $ )",
    "REPLACE `mysql` . `global_priv` SET Priv = $",
    "UPDATE t SET authentication_string = $",
    "EXECUTE s USING $",
    "EXECUTE IMMEDIATE 'ALTER\tUSER\tu\tIDENTIFIED\tBY\t?' USING @a , $",
    "PREPARE s FROM 'CREATE\tUSER\tu\tIDENTIFIED\t' 'BY\t' $",
    "EXECUTE IMMEDIATE CONCAT ( 'a' , $ )",
    "CREATE PROCEDURE p ( ) BEGIN SET PASSWORD = $ ; END",
    "CREATE EVENT e ON SCHEDULE EVERY 1 DAY DO CREATE USER @U IDENTIFIED BY $",
    "CREATE TRIGGER g AFTER INSERT ON t FOR EACH ROW SET PASSWORD = $",
    "BEGIN NOT ATOMIC IF 1 THEN SET PASSWORD = $ ; END IF ; END",
];

/// Beginnings of statements on tables that have words of the rules in them.
const HEADS: &[&str] = &[
    "SELECT v",
    "DELETE",
    "SELECT @pwd:=1, v",
    "SELECT @'pwd':='a' 'b', `v`",
    "SELECT password 'a', v",
    "SELECT source_password, USER() identified, AES_ENCRYPT(v, 'a')",
    "SELECT v /* pwd --é */",
    "SELECT v, 'it''s' -- IDENTIFIED BY a\n",
    "SET @pwd = (SELECT v",
    "CALL p((SELECT @secret:=v",
    "/*!99999 IDENTIFIED BY a */ DELETE",
    "SELECT CONCAT('CREATE USER u IDENTIFIED BY ', v)",
    "SELECT 'a\\\\', --é.v",
    "CREATE TABLE leak (user INT, identified INT, master_password INT) SELECT *",
    "SET @pwd = (TABLE a UNION SELECT v",
    "BEGIN NOT ATOMIC DECLARE user, identified INT; DELETE",
    "SELECT 'pwd ''pwd x \\\\\\\\ \" /*!1 */'' \\\\ \" /*!1 */'",
    "WITH user AS (SELECT 1), identified AS (SELECT 2) DELETE",
];

/// Possible texts after the table.
const TAILS: &[&str] = &[
    " WHERE pwd = 'a'",
    " /* pwd --é */",
    " -- it's a password\n",
    " WHERE a = PASSWORD('a')",
    " /*!99999 IDENTIFIED BY a */",
    " WHERE `password` = 5 AND é = \"a\"",
    ") ; SET PASSWORD = 'a';",
];

/// Possible texts between two tokens.
const GAPS: &[&str] =
    &[" ", "\n", "\t ", " \r\n", "/**/", " /* it's */ ", "-- don't \"\n", "# `\n", "\x0B", "/*;*/"];

/// Possible texts before and after a statement.
const NEIGHBOURS: &[&str] = &[
    "",
    "SELECT 1",
    "SELECT 'a''b', \"c\"",
    "UPDATE users SET password = 'it\\'s; x'",
    "SELECT 'a\\\\'",
    "/*!40101 SET NAMES utf8 */",
    "SET sql_mode = 'NO_BACKSLASH_ESCAPES'",
    // More to read than the limit of reads permits.
    "SELECT 'pwd ''pwd x \\\\\\\\ \" /*!1 */'' \\\\ \" /*!1 */'",
];

const USERS: &[&str] = &["u", "u@h", "'u'@'h'", "`u`@localhost", "\"u\"@'%'", "CURRENT_USER()"];

const CHARSETS: &[&str] =
    &["utf8mb4", "latin1", "sjis", "cp932", "gbk", "big5", "gb18030", "euckr", "ujis", ""];

/// A secret's text, as a client would write it in a literal of the given style.
fn literal(style: usize, tail: &str) -> String {
    match style % 9 {
        0 | 1 => format!("'{MARK}{tail}'"),
        2 => format!("\"{MARK}{tail}\""),
        3 => format!("N'{MARK}{tail}'"),
        4 => format!("_latin1'{MARK}{tail}'"),
        5 => format!("'a' '{MARK}{tail}'"),
        6 => format!("'a''b{MARK}{tail}'"),
        7 => format!("'a\\'b{MARK}{tail}'"),
        _ => format!("\"a;'b{MARK}{tail}\""),
    }
}

/// Ends of secrets: each one is inside the quotes under every reading, or ends the literal
/// early and leaves only itself outside.
fn tail() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["", ";", "--", " ", "#", "/*", "*/", "\\\\", "\0", ",@", "<secret>"])
}

#[derive(Clone, Debug)]
enum Wrap {
    Plain,
    Versioned(&'static str),
    Prepared,
    Immediate,
    UserVariable,
}

fn wrap() -> impl Strategy<Value = Wrap> {
    prop_oneof![
        4 => Just(Wrap::Plain),
        1 => prop::sample::select(vec!["/*!", "/*!50003 ", "/*!99999", "/*M!", "/*M!100200 "])
            .prop_map(Wrap::Versioned),
        1 => Just(Wrap::Prepared),
        1 => Just(Wrap::Immediate),
        1 => Just(Wrap::UserVariable),
    ]
}

fn quote(sql: &str) -> String {
    format!("'{}'", sql.replace('\\', "\\\\").replace('\'', "''"))
}

/// A statement with the mark in it.
fn statement() -> impl Strategy<Value = String> {
    let template = prop::sample::select(STATEMENTS);
    let noise = prop::collection::vec((any::<u16>(), any::<bool>()), 64);
    (template, noise, any::<usize>(), tail(), prop::sample::select(USERS), wrap()).prop_map(
        |(template, noise, style, tail, user, wrap)| {
            let mut sql = String::new();
            for (index, word) in template.split(' ').enumerate() {
                let (gap, is_lower) = noise[index];
                if index > 0 {
                    sql.push_str(GAPS[gap as usize % GAPS.len()]);
                }
                match word {
                    "$" => sql.push_str(&literal(style, tail)),
                    "@U" => sql.push_str(user),
                    word if is_lower => sql.push_str(&word.to_lowercase()),
                    word => sql.push_str(word),
                }
            }
            match wrap {
                Wrap::Plain => sql,
                Wrap::Versioned(opener) => format!("{opener} {sql} */"),
                Wrap::Prepared => format!("PREPARE s FROM {}", quote(&sql)),
                Wrap::Immediate => format!("EXECUTE /**/ IMMEDIATE {}", quote(&sql)),
                Wrap::UserVariable => format!("SET @q = {}", quote(&sql)),
            }
        },
    )
}

fn text() -> impl Strategy<Value = String> {
    let neighbour = || prop::sample::select(NEIGHBOURS);
    (neighbour(), statement(), neighbour())
        .prop_map(|(before, sql, after)| format!("{before};{sql};{after}"))
}

/// A URL with a marked password, as the pieces of a concatenated text.
const URL: &[&str] = &["h", "ttps", ":", "/", "/", "u", "\\\\", ":", "é", MARK, "\\\\", "@", "h"];

/// An expression that concatenates [`URL`] from literals.
fn url_in_parts() -> impl Strategy<Value = String> {
    let gaps = prop::collection::vec(prop::option::of((0..GAPS.len(), 0..4_usize)), URL.len());
    (gaps, 0..3_u8).prop_map(|(gaps, style)| {
        let operator = [",", "||", ""][usize::from(style)];
        let mut sql = String::from(if style == 0 { "CONCAT(a, '" } else { "'" });
        let mut quote = '\'';
        for (piece, gap) in URL.iter().zip(gaps) {
            sql.push_str(piece);
            let Some((gap, kind)) = gap else { continue };
            sql.push(quote);
            sql.push_str(GAPS[gap]);
            // Adjacent literals are one, also in CONCAT.
            sql.push_str(if kind < 2 { operator } else { "" });
            sql.push_str(GAPS[(gap + kind) % GAPS.len()]);
            quote = if kind % 2 == 0 { '\'' } else { '"' };
            sql.push(quote);
        }
        sql.push(quote);
        sql.push_str(if style == 0 { ", b)" } else { "" });
        sql
    })
}

fn has_mark(text: &[u8]) -> bool {
    text.windows(MARK.len()).any(|part| part == MARK.as_bytes())
}

fn check_form(sql: &[u8], charset: &[u8], db: &[u8]) -> Result<Vec<u8>, TestCaseError> {
    let setting = Setting::of(charset, db);
    let result = secrets(sql, setting).into_owned();
    let again = secrets(&result, setting);
    prop_assert_eq!(String::from_utf8_lossy(&again), String::from_utf8_lossy(&result));
    prop_assert!(result.len() <= 8 * sql.len() + 10);
    Ok(result)
}

/// Enough for every change; PROPTEST_CASES requests more.
fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(4000)
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: cases(),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn no_mark_comes_through(
        sql in text(),
        charset in prop::sample::select(CHARSETS),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let bytes = match cut {
            Some(cut) => &sql.as_bytes()[..cut.index(sql.len() + 1)],
            None => sql.as_bytes(),
        };
        let result = check_form(bytes, charset.as_bytes(), b"")?;
        prop_assert!(!has_mark(&result), "{sql:?} -> {:?}", String::from_utf8_lossy(&result));
    }

    #[test]
    fn no_url_in_parts_comes_through(
        expression in url_in_parts(),
        frame in prop::sample::select(vec!["SELECT $", "/*! SELECT */ $", "INSERT t SET a = $ ;"]),
        is_quoted in any::<bool>(),
        charset in prop::sample::select(CHARSETS),
    ) {
        let sql = frame.replace('$', &expression);
        let sql = if is_quoted { format!("SET @q = {}", quote(&sql)) } else { sql };
        let result = check_form(sql.as_bytes(), charset.as_bytes(), b"")?;
        prop_assert!(!has_mark(&result), "{sql:?} -> {:?}", String::from_utf8_lossy(&result));
    }

    #[test]
    fn names_come_through(
        head in prop::sample::select(HEADS),
        tails in prop::collection::vec(prop::sample::select(TAILS), 0..4),
        charset in prop::sample::select(CHARSETS),
    ) {
        let sql = format!("{head} FROM hr.{MARK} {}", tails.concat());
        let result = check_form(sql.as_bytes(), charset.as_bytes(), b"")?;
        prop_assert!(has_mark(&result), "{sql:?} -> {:?}", String::from_utf8_lossy(&result));
    }

    #[test]
    fn any_bytes_are_survived(
        sql in prop::collection::vec(any::<u8>(), 0..200),
        charset in prop::sample::select(CHARSETS),
    ) {
        check_form(&sql, charset.as_bytes(), b"mysql")?;
    }

    #[test]
    fn any_tokens_are_survived(
        parts in prop::collection::vec(prop::sample::select(vec![
            "'", "\"", "`", "\\", ";", "/*", "*/", "/*!", "/*!50000", "-- ", "#", "\n", " ", "(",
            ")", "=", ",", "@", ".", "IDENTIFIED", "BY", "PASSWORD", "SET", "PREPARE s FROM",
            "mysql", "user", "INSERT", "AES_ENCRYPT(", "1", "x", "N'", "FOR", "CONNECTION",
            "<secret>", "<redacted>", "UPDATE", "EXECUTE s USING", "MASTER_HOST", "é",
        ]), 0..40),
        charset in prop::sample::select(CHARSETS),
    ) {
        check_form(parts.concat().as_bytes(), charset.as_bytes(), b"")?;
    }
}
