//! Zone: outside. Digests in the log: statements of one shape share them, as with the server's own
//! digests; and with `tacho_redact=LITERALS` no literal reaches the disk, whatever the statement,
//! whether it succeeded, and whatever the server's error message quotes of it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use tacho_tests::client::Queryable as _;
use tacho_tests::log::all_files;
use tacho_tests::raw::Raw;
use tacho_tests::recorded::{self, text};
use tacho_tests::recording::Recording;
use tacho_tests::wait;

/// Pairs of one shape, and statements of different shapes.
const SHAPES: &[[&str; 2]] = &[
    ["SELECT a FROM d.t WHERE a = 1", "select a  from d.t /* c */ where a=2"],
    ["SELECT a FROM d.t WHERE a IN (1, 2)", "SELECT a FROM d.t WHERE a IN (3, 4, 5)"],
    ["SELECT a FROM d.t WHERE a IN (1)", "SELECT a FROM d.t WHERE a IN (3)"],
    ["INSERT INTO d.t VALUES (1, 'x')", "INSERT INTO d.t VALUES (-2, 'y')"],
    ["INSERT INTO d.t VALUES (1, 'x'), (2, 'y')", "INSERT INTO d.t VALUES (1, 2), (2, 3), (4, 5)"],
    ["SET @a = 'it\\'s'", "SET @b = \"x\""],
    ["SELECT COUNT(*), NOW() FROM d.t", "SELECT count(*), current_timestamp() FROM `d`.`t`"],
    ["SELECT a FROM d.t x WHERE x.a IS NULL", "SELECT a FROM d.t x WHERE x.a IS null"],
];

/// Waits until a text is in the log.
fn wait_for(log: &Path, text: &str) {
    let is_there = |file: &PathBuf| {
        String::from_utf8_lossy(&fs::read(file).unwrap_or_default()).contains(text)
    };
    wait::until(&format!("{text} is in the log"), || all_files(log).iter().any(is_there));
}

#[test]
fn statements_of_one_shape_share_a_digest_as_they_do_there() {
    let mut server = Recording::builder()
        .option("performance-schema=ON")
        .option("performance-schema-consumer-events-statements-current=ON")
        .option("performance-schema-consumer-events-statements-history=ON")
        .option("performance-schema-events-statements-history-size=1024")
        .start()
        .expect("a server");
    let mut raw = Raw::connect(server.socket(), "root").expect("a session");
    raw.must(&["CREATE DATABASE d", "CREATE TABLE d.t (a INT, b VARCHAR(10))"]);
    for sql in SHAPES.as_flattened() {
        assert_eq!(raw.query(sql).expect("an answer")[0].errno(), 0, "{sql}");
    }
    // A statement is added to the history after its answer, and before the next one.
    raw.must(&["DO 1"]);
    let mut conn = server.connect().expect("a connection");
    let theirs: Vec<(String, String)> = conn
        .query(
            "SELECT SQL_TEXT, DIGEST FROM performance_schema.events_statements_history \
             WHERE DIGEST IS NOT NULL",
        )
        .expect("the history");
    let theirs: BTreeMap<String, String> = theirs.into_iter().collect();
    // The setting is that of the time when a line is written.
    let log = server.log_directory();
    wait_for(&log, SHAPES[SHAPES.len() - 1][1]);
    // Off and on again: only the lines between have none.
    server.set("tacho_digest = OFF");
    let off = "SELECT 'without'";
    assert_eq!(raw.query(off).expect("an answer")[0].errno(), 0);
    wait_for(&log, off);
    server.set("tacho_digest = ON");
    drop((raw, conn));
    server.stop().expect("stopping");
    let lines = recorded::read(&log).expect("a good log");
    let ours: BTreeMap<&str, &str> = lines
        .iter()
        .filter_map(|line| Some((text(line, "sql")?, text(line, "digest").unwrap_or_default())))
        .collect();
    assert_eq!(ours[off], "");
    let mut seen = BTreeSet::new();
    for [one, other] in SHAPES {
        assert!(ours[one].len() == 34 && ours[one].starts_with("1:"), "{one}: {}", ours[one]);
        assert_eq!(ours[one], ours[other], "{one}, {other}");
        let there = [one, other].map(|sql| theirs.get(*sql));
        assert!(there[0].is_some(), "{one}: not in the history: {theirs:?}");
        assert_eq!(there[0], there[1], "{one}, {other}");
        assert!(seen.insert(ours[one]), "{one}");
    }
}

/// `%` is the literal, `#` a name that must stay visible.
const STATEMENTS: &[&str] = &[
    "SELECT '%' AS `#`",
    "SELECT \"%\", N'%', _utf8mb4'%', 'a' '%', 'it\\'s %', 'it''s %', '\\\\', '%' AS `#`",
    "SELECT 0x%%, x'%%', b'01' AS `#`",
    "SELECT '%' `#` -- '%'",
    "SELECT /* % */ '#' # %",
    "SET @% = 1, @`#` = '%'",
    "SELECT 1 AS `#` FROM d.t WHERE b IN ('%', '%') OR b LIKE '%' ESCAPE '|'",
    "INSERT INTO d.t (a, b) VALUES (1, '%'), (2, '%')",
    "INSERT INTO d.t (a, b) VALUES (1, '%')",
    "INSERT INTO d.t SET a = '%' /* # */",
    "UPDATE d.t SET b = '%' WHERE b = '%' ORDER BY '%' LIMIT 1",
    "DELETE FROM d.t WHERE b = '%'",
    "CREATE OR REPLACE TABLE d.`#` (a VARCHAR(90) DEFAULT '%' COMMENT '%') COMMENT '%'",
    "CREATE OR REPLACE VIEW d.`#` AS SELECT '%' AS x",
    "CREATE OR REPLACE PROCEDURE d.`#`() SELECT '%'",
    "CALL d.p('%')",
    "SELECT d.f('%') AS `#`",
    "CREATE USER '%'@localhost IDENTIFIED BY '%'",
    "SHOW TABLES FROM d LIKE '%'",
    "KILL 4%%",
    "LOAD DATA INFILE '/nosuch/%' INTO TABLE d.`#`",
    "SELECT 1 INTO OUTFILE '/nosuch/%'",
    "DO GET_LOCK('%', 0)",
    "PREPARE s FROM 'SELECT ''%'''",
    "EXECUTE IMMEDIATE 'SELECT ''%'', ?' USING '%'",
    "EXECUTE IMMEDIATE 'SELECT nonsense nonsense ''%'''",
    "SELECT '#'; SELECT '%'; SELECT 2, '%'",
    "BEGIN NOT ATOMIC DECLARE x TEXT DEFAULT '%'; SELECT x AS `#`; END",
    "/*! SELECT '%' AS `#` */",
    "/*!99999 SELECT '%' */ SELECT '%' AS `#`",
    "/*M!100100 SELECT '%', '*/', '%' */",
    // Errors, some of whose messages quote the literal.
    "SELECT nonsense nonsense '%'",
    "SELECT '%",
    "SELECT \"%",
    "SELECT /* '%'",
    "SELECT '%' FROM nosuch.`#`",
    "SELECT CAST('%' AS nosuch)",
    "INSERT INTO d.u VALUES ('%'), ('%')",
    "INSERT INTO d.t VALUES ('%', 1, 1)",
    "SELECT EXTRACTVALUE('<%', '%[')",
    "SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = '%'",
    "SIGNAL SQLSTATE '23000' SET MESSAGE_TEXT = '%', MYSQL_ERRNO = 1062",
    "CALL d.s('%')",
    "SELECT d.g('%')",
    "SELECT ST_GEOMFROMTEXT('%')",
    "SET sql_mode = '%'",
    "SET max_join_size = '%'",
    "SELECT JSON_VALUE('{\"a\":\"%\"}', '$.a') AS `#`",
    "SELECT '\\'%\\'' AS `#`, '\\\"%', \"\\\"%\"",
];

/// Client character sets with a way of their own to hide a quote, and the usual ones.
const CHARSETS: &[(&str, &[u8])] = &[
    ("utf8mb4", "\u{1F600}é".as_bytes()),
    ("latin1", b"\xE4\xA0"),
    ("sjis", b"\x95\\\x83\\"),
    ("cp932", b"\x95\\"),
    ("gbk", b"\xBF\\\xBF'"),
    ("big5", b"\xA4\\"),
    ("euckr", b"\xA1A"),
    ("ujis", b"\xA4\xA2"),
    ("koi8r", b"\x9A\xC0"),
    ("binary", b"\xFF\xFE"),
];

const PROGRAMS: &[&str] = &[
    "CREATE DATABASE d",
    "CREATE TABLE d.t (a INT, b VARCHAR(90))",
    "CREATE TABLE d.u (a VARCHAR(90) PRIMARY KEY)",
    "CREATE PROCEDURE d.p(x VARCHAR(90)) SELECT x, CONCAT(x, '!')",
    "CREATE FUNCTION d.f(x VARCHAR(90)) RETURNS VARCHAR(90) RETURN CONCAT(x, '!')",
    "CREATE PROCEDURE d.s(x VARCHAR(90)) SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = x",
    "CREATE FUNCTION d.g(x VARCHAR(90)) RETURNS INT BEGIN \
     SIGNAL SQLSTATE '23000' SET MESSAGE_TEXT = x, MYSQL_ERRNO = 1062; RETURN 1; END",
];

#[test]
fn no_literal_reaches_the_log_directory() {
    let mut server = Recording::builder()
        .option("tacho-redact=LITERALS")
        // With it the server fills in the parameters of prepared statements.
        .option("general-log=ON")
        .start()
        .expect("a server");
    let mut raw = Raw::connect(server.socket(), "root").expect("a session");
    raw.must(PROGRAMS);
    let mut count = 10_000_000_u64;
    let mut next = || {
        count += 7;
        format!("{count}")
    };
    let mut marks = Vec::new();
    let mut names = Vec::new();
    for mode in ["", "NO_BACKSLASH_ESCAPES", "ANSI_QUOTES", "NO_BACKSLASH_ESCAPES,ANSI_QUOTES"] {
        raw.must(&[&format!("SET sql_mode = '{mode}'")]);
        for statement in STATEMENTS {
            let (mark, name) = (next(), format!("n{}", next()));
            let sql = statement.replace('%', &mark).replace('#', &name);
            raw.query(&sql).expect("an answer");
            // Cut at places inside of literals, too: that is mostly an error.
            for part in 1..5 {
                let cut = sql.len() * part / 5;
                if sql.is_char_boundary(cut) {
                    raw.query(&sql[..cut]).expect("an answer");
                }
            }
            if let Ok(id) = raw.prepare(&sql).expect("an answer") {
                raw.execute(id, &[], false).expect("an answer");
            }
            marks.push(mark);
            // The name of a user variable may be a secret, too.
            let is_name = statement.contains("`#`") && !statement.contains("@`#`");
            if mode.is_empty() && is_name && !statement.contains("*/', '") {
                names.push((name, *statement));
            }
        }
    }
    raw.must(&["SET sql_mode = DEFAULT"]);
    // As parameters, which the server puts into the text.
    for sql in ["SELECT ?", "INSERT INTO d.t (b) VALUES (?)", "INSERT INTO d.u VALUES (?)"] {
        for begin in ["", "it's \\", "\" "] {
            let (mark, id) = (next(), raw.prepare(sql).expect("an answer").expect("prepared"));
            let value = format!("{begin}{mark}");
            raw.execute(id, &[Some(value.as_bytes())], false).expect("an answer");
            raw.execute(id, &[Some(value.as_bytes())], false).expect("an answer");
            marks.push(mark);
        }
    }
    for (charset, bytes) in CHARSETS {
        assert_eq!(raw.query(format!("SET NAMES {charset}")).expect("an answer")[0].errno(), 0);
        for (before, after) in
            [("'", "'"), ("\"", "\""), ("'\\'", "'"), ("/* '", "*/ 1, '"), ("--", "")]
        {
            let mark = next();
            let sql =
                [b"SELECT ", before.as_bytes(), bytes, mark.as_bytes(), bytes, after.as_bytes()];
            raw.query(sql.concat()).expect("an answer");
            raw.query([sql.concat(), b", x FROM d.t".to_vec()].concat()).expect("an answer");
            marks.push(mark);
        }
    }
    drop(raw);
    // Records of a dead server are recovered as they would have been written.
    let mut raw = Raw::connect(server.socket(), "root").expect("a session");
    server.set("tacho_flush_interval_ms = 60000");
    let mark = next();
    raw.query(format!("SELECT 'at the end {mark}'")).expect("an answer");
    raw.query(format!("SELECT nonsense nonsense '{mark}'")).expect("an answer");
    let arena = PathBuf::from(server.status("Tacho_arena_file"));
    marks.push(mark);
    drop(raw);
    server.kill9().expect("killing");
    assert!(arena.exists());
    server.restart().expect("a second start");
    server.stop().expect("stopping");

    let directory = server.log_directory();
    let lines = recorded::read(&directory).expect("a good log");
    let mut checked = 0;
    for file in all_files(&directory) {
        let contents = fs::read(&file).expect("a file");
        for line in contents.split(|byte| *byte == b'\n') {
            let line = String::from_utf8_lossy(line);
            // Times and numbers of the server's own have as many digits.
            let texts = ["\"sql\":", "\"error\":"].map(|key| line.find(key));
            checked += texts.iter().flatten().count();
            let line = match line.find("\"error\":").or(line.find("\"sql\":")) {
                Some(at) => &line[at..],
                None => &line[..],
            };
            let line = line.split(",\"rows_sent\":").next().unwrap_or_default();
            let line = line.split(",\"digest\":").next().unwrap_or_default();
            let found = marks.iter().find(|mark| line.contains(&***mark));
            assert!(found.is_none(), "{}: {line}", file.display());
        }
    }
    assert!(checked > 1000, "only {checked} texts");
    let shown: Vec<&str> = lines.iter().filter_map(|line| text(line, "sql")).collect();
    for (name, statement) in names {
        assert!(shown.iter().any(|sql| sql.contains(&name)), "its name is gone: {statement}");
    }
    let recovered = shown.iter().filter(|sql| **sql == "SELECT ?").count();
    assert!(recovered > 0);
}
