use super::*;

#[test]
fn simple_statements_are_understood() {
    let db = |text| change(text).db.map(|db| String::from_utf8_lossy(db).into_owned());
    assert_eq!(db(b"USE a").as_deref(), Some("a"));
    assert_eq!(db(b" /* x */ use `b c`;").as_deref(), Some("b c"));
    assert_eq!(db(b"SELECT 1"), None);
    let charset = |text| change(text).charset.map(|set| String::from_utf8_lossy(set).into_owned());
    assert_eq!(charset(b"SET NAMES latin1").as_deref(), Some("latin1"));
    assert_eq!(charset(b"set names 'utf8mb4' collate 'utf8mb4_bin'").as_deref(), Some("utf8mb4"));
    assert_eq!(charset(b"SET CHARACTER SET utf8").as_deref(), Some("utf8"));
    for text in [&b"DROP DATABASE shop"[..], b"/* x */ drop schema if exists `shop` ;"] {
        let change = change(text);
        assert_eq!((change.dropped_db, change.is_doubtful), (Some(&b"shop"[..]), false));
    }
}

#[test]
fn a_set_statement_keeps_the_database() {
    for (text, keeps) in [
        (&b"SET character_set_client = latin1"[..], true),
        (b"SET NAMES DEFAULT", true),
        (b"SET NAMES latin1; USE b", false),
        (b"SET NAMES latin1 /*! ; USE b */", false),
        (b"SET STATEMENT max_statement_time = 1 FOR SET NAMES latin1", false),
        (b"DO 1; SET NAMES latin1", false),
    ] {
        let change = change(text);
        assert!(change.is_doubtful, "{}", String::from_utf8_lossy(text));
        assert_eq!(change.keeps_db, keeps, "{}", String::from_utf8_lossy(text));
    }
}

#[test]
fn what_may_end_the_reports_of_the_server() {
    let padded = [&b"SELECT '"[..], &[b'x'; 100_000], b"'; SET session_track_schema = OFF"];
    // Drivers choose what is reported when they connect: that changes neither of them.
    for text in [
        &b"SET session_track_schema = OFF"[..],
        b"set autocommit=1,session_track_schema=1,session_track_system_variables=CONCAT('x')",
        &padded.concat(),
    ] {
        let change = change(text);
        assert!(change.ends_tracking && !change.is_doubtful);
        assert_eq!((change.db, change.charset), (None, None));
    }
    for text in [
        &b"SET @@Session.SESSION_TRACK_SYSTEM_VARIABLES = ''; SET NAMES latin1"[..],
        b"SET session_track_schema = OFF; USE b",
        b"SET session_track_schema = OFF, character_set_client = latin1",
        b"USE b; SET session_track_schema = OFF",
        b"EXECUTE s",
        b"execute immediate @x",
        b"SELECT 1; /* y */ EXECUTE s USING @a",
    ] {
        let change = change(text);
        let shown = String::from_utf8_lossy(&text[..text.len().min(50)]);
        assert!(change.ends_tracking && change.is_doubtful, "{shown}");
        assert_eq!((change.db, change.charset), (None, None));
    }
    assert!(!change(b"SELECT 1; USE other").ends_tracking);
}

#[test]
fn what_is_not_understood_is_doubtful() {
    for text in [
        &b"USE a; USE b"[..],
        b"SELECT 1; use b",
        b"SET NAMES latin1; SELECT 1",
        b"SET NAMES DEFAULT",
        b"SET character_set_client = latin1",
        b"SET sql_mode = '', character_set_client = @x",
        b"SELECT 1;\tUSE\tb",
        b"SELECT 1 -- x\nuse b",
        b"SELECT 1;/* x */USE`b`",
        b"/*!50000USE b */",
        b"/*!40101 SET  NAMES latin1 */",
        b"SELECT 1; SET /* x */ CHARSET latin1",
        b"SET autocommit = 0, NAMES DEFAULT",
        b"SELECT @@character_set_client; SET character_set_client = latin1",
        b"DROP DATABASE a; USE b",
        b"DROP DATABASE /*!50000 a */",
        b"DROP /*!50000 DATABASE */ a",
        b"SELECT 1; drop schema a",
        b"DROP TABLE a; DROP DATABASE IF EXISTS a",
        b"/*!50000 DROP */ DATABASE shop",
        b"SELECT 1; DROP /*! DATABASE */ shop",
        b"CREATE OR REPLACE DATABASE shop",
        b"create or replace schema shop",
        b"CREATE OR REPLACE /*! DATABASE */ shop",
        b"SELECT 1; CREATE OR REPLACE DATABASE shop",
        b"SET STATEMENT max_statement_time=1 FOR DROP DATABASE shop",
        b"SET STATEMENT max_statement_time=1 FOR USE b",
        b"set statement sql_mode='' for EXECUTE s",
        b"BEGIN NOT ATOMIC DROP DATABASE shop; END",
        b"IF 1 THEN DROP SCHEMA shop; END IF",
    ] {
        let change = change(text);
        assert!(change.is_doubtful, "{}", String::from_utf8_lossy(text));
        assert_eq!((change.db, change.charset), (None, None));
    }
    for text in [
        &b"SELECT 1"[..],
        b"INSERT INTO t VALUES ('use x')",
        b"SET autocommit = 0",
        b"",
        b"SELECT * FROM t /* q1 */ USE INDEX (i)",
        b"SELECT names, user FROM users; SELECT used",
        b"UPDATE t1 SET names = 'a'",
        b"UPDATE t\n  SET names = 'a'\n  WHERE charset = 'b'",
        b"SET character_set_results = NULL",
        b"/* mysql-connector-j-9.7.0 */SELECT  @@session.auto_increment_increment AS a, \
          @@character_set_client AS character_set_client",
        b"INSERT INTO t VALUES ('to execute it')",
        b"DROP TABLE `database`",
        b"SELECT 1; DROP TABLE t; DROP VIEW v",
        b"ALTER TABLE t DROP `schema`",
        b"CREATE OR REPLACE TABLE t (a INT)",
        b"SELECT 1; REPLACE INTO t VALUES (1); SELECT REPLACE(a, 'b', 'c') FROM t",
        b"SET STATEMENT max_statement_time=1 FOR SELECT 1",
    ] {
        assert_eq!(change(text), Change::default(), "{}", String::from_utf8_lossy(text));
    }
}

const PARTS: [&str; 20] = [
    "use",
    "drop",
    "database",
    "execute",
    "SET",
    "names",
    "charset",
    "session_track_",
    "SELECT",
    " ",
    " ",
    "\n",
    ";",
    "/*",
    "*/",
    "!",
    "--",
    "#",
    "9",
    "x",
];

proptest::proptest! {
    #[test]
    fn a_statement_that_is_alone_mentions_the_same(
        parts in proptest::collection::vec(proptest::sample::select(&PARTS[..]), 0..9),
    ) {
        let text = parts.concat();
        let all = Mentions::find(text.as_bytes(), false);
        assert_eq!(Mentions::of(text.as_bytes(), false), all);
    }
}
