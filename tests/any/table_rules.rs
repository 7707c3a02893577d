//! Zone: outside. Rules by table leave out no statement that may have touched another table, although
//! no server reports all tables of every statement. On each release: `scripts/test-release.sh`.

use tacho_tests::client::Queryable as _;
use tacho_tests::recorded::{self, text};
use tacho_tests::recording::Recording;

/// `payroll` is audited, `scratch` is not.
const SETUP: &[&str] = &[
    "CREATE DATABASE payroll",
    "CREATE DATABASE scratch",
    "CREATE DATABASE app",
    "CREATE TABLE payroll.x (id INT PRIMARY KEY, v VARCHAR(20))",
    "CREATE TABLE payroll.log (id INT)",
    "CREATE TABLE payroll.part (id INT) PARTITION BY HASH (id) PARTITIONS 2",
    "INSERT INTO payroll.x VALUES (1, 'a'), (2, 'b')",
    "CREATE TABLE scratch.t (id INT PRIMARY KEY, v VARCHAR(20))",
    "INSERT INTO scratch.t VALUES (1, 'a'), (2, 'b')",
    "CREATE TABLE scratch.emptied (id INT)",
    "CREATE TABLE scratch.watched (id INT)",
    "CREATE TRIGGER scratch.tr AFTER INSERT ON scratch.watched FOR EACH ROW \
     INSERT INTO payroll.log VALUES (NEW.id)",
    "CREATE VIEW scratch.view_of_x AS SELECT * FROM payroll.x",
    "CREATE FUNCTION app.g() RETURNS INT DETERMINISTIC RETURN 1",
    "CREATE FUNCTION app.reads() RETURNS INT READS SQL DATA \
     RETURN (SELECT COUNT(*) FROM payroll.x WHERE app.g() = 1)",
    "CREATE FUNCTION app.writes() RETURNS INT MODIFIES SQL DATA BEGIN \
     UPDATE payroll.x SET v = 'w' WHERE app.g() = 1; RETURN 1; END",
    "CREATE PROCEDURE app.p() BEGIN \
     IF (SELECT COUNT(*) FROM scratch.t) >= 0 THEN UPDATE payroll.x SET v = 'p' WHERE app.g() = 1; \
     END IF; END",
    "CREATE TABLE payroll.mine (id INT) ENGINE=MyISAM",
    "CREATE TABLE scratch.merged (id INT) ENGINE=MERGE UNION=(payroll.mine) INSERT_METHOD=LAST",
    "CREATE TABLE scratch.parent (id INT PRIMARY KEY)",
    "CREATE TABLE payroll.child (id INT, FOREIGN KEY (id) REFERENCES scratch.parent (id) \
     ON DELETE CASCADE)",
    "INSERT INTO scratch.parent VALUES (1), (2), (3)",
    "INSERT INTO payroll.child VALUES (1), (2), (3)",
];

/// Statements of one session each. All that touch `payroll`, or may, have to be recorded.
const AUDITED: &[&[&str]] = &[
    // The functions are new to the session: MariaDB reports mysql.proc.
    &["LOCK TABLES payroll.x WRITE", "UPDATE payroll.x SET v = 'hax2' WHERE app.g() = 1"],
    &["LOCK TABLES payroll.x WRITE", "SELECT * FROM payroll.x WHERE app.g() = 1"],
    &["LOCK TABLES payroll.x WRITE", "DELETE FROM payroll.x WHERE app.g() = 0"],
    // The tables are new to the server: MariaDB reports statistics.
    &[
        "LOCK TABLES payroll.x WRITE, scratch.t WRITE",
        "FLUSH TABLES",
        "INSERT INTO payroll.x VALUES (78, 'x')",
        "UPDATE payroll.x JOIN scratch.t USING (id) SET payroll.x.v = 'y'",
        "DELETE FROM payroll.x WHERE id = 78",
    ],
    // A locked table is reopened, and is the only one that MariaDB reports.
    &[
        "LOCK TABLES payroll.x READ, scratch.t WRITE",
        "ALTER TABLE scratch.t COMMENT 'x'",
        "UPDATE scratch.t JOIN payroll.x USING (id) SET scratch.t.v = payroll.x.v",
    ],
    &["LOCK TABLES scratch.view_of_x WRITE", "SELECT * FROM scratch.view_of_x WHERE app.g() = 1"],
    &[
        "LOCK TABLES payroll.x WRITE",
        "PREPARE s FROM 'UPDATE payroll.x SET v = ''prepared'' WHERE app.g() = 1'",
        "EXECUTE s",
    ],
    &[
        "LOCK TABLES scratch.parent WRITE, payroll.child WRITE",
        "DELETE FROM scratch.parent WHERE id = 2",
    ],
    &["FLUSH TABLES payroll.x WITH READ LOCK", "SELECT * FROM payroll.x WHERE app.g() = 1"],
    &["FLUSH TABLES payroll.x FOR EXPORT", "SELECT * FROM payroll.x WHERE app.g() = 1"],
    &["FLUSH TABLES WITH READ LOCK", "SELECT * FROM payroll.x WHERE app.g() = 1"],
    &["SELECT * FROM payroll.x", "SELECT v FROM payroll.x WHERE id = 1 FOR UPDATE"],
    &["SELECT * FROM scratch.view_of_x", "SELECT * FROM scratch.t, scratch.view_of_x"],
    &[
        "INSERT INTO scratch.watched VALUES (1)",
        "INSERT INTO scratch.watched SELECT id FROM scratch.t",
    ],
    &["SET @a = app.reads()", "SET @a = (SELECT v FROM payroll.x LIMIT 1)", "DO app.writes()"],
    &["SELECT app.reads() FROM scratch.t", "SELECT app.writes() FROM scratch.t LIMIT 1"],
    &["DELETE FROM scratch.parent WHERE id = 1"],
    &["CALL app.p()", "CALL app.p()"],
    &[
        "PREPARE s FROM 'UPDATE payroll.x SET v = ''p'' WHERE app.g() = 1'",
        "EXECUTE s",
        "EXECUTE s",
    ],
    &["SELECT * FROM payroll.part WHERE id = 1", "SELECT * FROM payroll.part PARTITION (p0)"],
    &["SELECT * FROM scratch.merged", "INSERT INTO scratch.merged VALUES (1)"],
    &[
        "UPDATE scratch.t JOIN payroll.x USING (id) SET scratch.t.v = 'm'",
        "DELETE scratch.t FROM scratch.t JOIN payroll.x USING (id) WHERE payroll.x.id = 99",
        "INSERT INTO scratch.t SELECT id + 100, v FROM payroll.x",
        "REPLACE INTO scratch.t SELECT id + 100, v FROM payroll.x",
        "WITH c AS (SELECT * FROM payroll.x) SELECT * FROM c",
        "SELECT * FROM scratch.t WHERE EXISTS (SELECT 1 FROM payroll.x)",
        "SELECT 1 FROM scratch.t WHERE 1 = 0 AND EXISTS (SELECT 1 FROM payroll.x)",
    ],
    &["HANDLER payroll.x OPEN", "HANDLER x READ FIRST", "HANDLER x READ NEXT", "HANDLER x CLOSE"],
    // No server reports tables that only exist for the session.
    &[
        "CREATE TEMPORARY TABLE scratch.tmp SELECT * FROM payroll.x",
        "SELECT * FROM scratch.tmp",
        "UPDATE scratch.tmp SET v = 1 WHERE app.g() = 1",
    ],
    &[
        "EXPLAIN SELECT * FROM payroll.x",
        "EXPLAIN UPDATE payroll.x SET v = 1",
        "DESCRIBE payroll.x",
    ],
    &["ANALYZE TABLE payroll.x", "CHECKSUM TABLE payroll.x", "CHECK TABLE payroll.x"],
    // They fail, before or after the tables are open.
    &[
        "SELECT * FROM payroll.nosuch, scratch.t",
        "SELECT nocol FROM payroll.x, scratch.t",
        "SELECT * FROM payroll.x WHERE",
        "INSERT INTO scratch.t VALUES (1, 'a duplicate')",
    ],
    &[
        "SELECT * FROM information_schema.tables t, scratch.t s WHERE table_schema = 'payroll'",
        "SELECT * FROM `information_schema`.processlist, scratch.t",
        "SELECT COUNT(*) FROM performance_schema.threads, scratch.t",
        "USE information_schema",
        "SELECT COUNT(*) FROM processlist, scratch.t",
    ],
    &[
        "CREATE TABLE scratch.c1 LIKE payroll.x",
        "CREATE TABLE scratch.c2 SELECT * FROM payroll.x",
        "RENAME TABLE scratch.c1 TO payroll.c1, payroll.c1 TO scratch.c3",
        "DROP TABLE scratch.c2, scratch.c3",
    ],
    // MariaDB reports tables of mysql for them.
    &[
        "CREATE USER made@localhost",
        "GRANT SELECT ON payroll.* TO made@localhost",
        "REVOKE SELECT ON payroll.* FROM made@localhost",
        "DROP USER made@localhost",
        "FLUSH PRIVILEGES",
        "INSTALL PLUGIN nosuch SONAME 'nosuch.so'",
        "UNINSTALL PLUGIN nosuch",
        "SET GLOBAL max_connections = 200",
        "KILL 99999999",
    ],
    // A literal in one way to read them, a call in another.
    &["SET sql_mode = 'NO_BACKSLASH_ESCAPES'", "SELECT '\\', app.reads(), 1 FROM scratch.t -- '"],
    &["SET sql_mode = 'ANSI_QUOTES'", "SELECT \"app\".\"reads\"() FROM scratch.t"],
    &["SELECT /*!99999 ' */ app.reads() FROM scratch.t /* ' */"],
    &["BEGIN", "UPDATE payroll.x SET v = 't' WHERE app.g() = 1", "ROLLBACK"],
    &["LOCK TABLES mysql.user READ, payroll.x READ", "SELECT COUNT(*) FROM mysql.user, payroll.x"],
];

/// Statements that only MariaDB has.
const AUDITED_BY_MARIADB: &[&[&str]] = &[
    // Its tables are those of `scratch.t`: dropped, created, written.
    &[
        "LOCK TABLES payroll.x READ, scratch.replaced WRITE",
        "CREATE OR REPLACE TABLE scratch.replaced SELECT * FROM payroll.x",
        "INSERT INTO scratch.replaced SELECT id, v FROM payroll.x",
    ],
    // An UPDATE adds a partition.
    &[
        "LOCK TABLES payroll.x READ, scratch.versioned WRITE",
        "SET timestamp = UNIX_TIMESTAMP() + 1000000",
        "UPDATE scratch.versioned JOIN payroll.x USING (id) SET scratch.versioned.v = payroll.x.v",
    ],
    // The locked table is reported again, others would not be.
    &["LOCK TABLES scratch.emptied WRITE", "TRUNCATE TABLE scratch.emptied"],
    &["EXECUTE IMMEDIATE 'UPDATE payroll.x SET v = ''i'' WHERE app.g() = 1'"],
    // The second answer is the query cache's.
    &[
        "SELECT SQL_CACHE v FROM payroll.x WHERE id = 2",
        "SELECT SQL_CACHE v FROM payroll.x WHERE id = 2",
    ],
    &[
        "SELECT NEXTVAL(payroll.seq)",
        "INSERT INTO scratch.t VALUES (NEXTVAL(payroll.seq) + 1000, '')",
    ],
    &["BEGIN NOT ATOMIC UPDATE payroll.x SET v = 'p' WHERE app.g() = 1; END"],
];

const SETUP_OF_MARIADB: &[&str] = &[
    "CREATE TABLE scratch.replaced (id INT, v VARCHAR(20))",
    "CREATE SEQUENCE payroll.seq",
    "CREATE TABLE scratch.versioned (id INT, v VARCHAR(20)) WITH SYSTEM VERSIONING \
     PARTITION BY SYSTEM_TIME INTERVAL 1 HOUR AUTO",
    "INSERT INTO scratch.versioned VALUES (1, 'a'), (2, 'b')",
    "SET GLOBAL query_cache_size = 1000000",
    "SET GLOBAL query_cache_type = DEMAND",
];

/// Statements that rules about the tables of `scratch` must exclude.
const OTHERS: &[&str] = &[
    "SELECT id FROM scratch.t",
    "SELECT id FROM scratch.t WHERE v = (SELECT MAX(v) FROM scratch.t)",
    "REPLACE INTO scratch.t (id, v) VALUES (2000, 'x')",
    "UPDATE scratch.t SET v = 'y' WHERE id = 2000",
    "DELETE FROM scratch.t WHERE id = 2000",
];

/// The guide's "Everything about some tables", and two that skip.
const FILTERS: &[(&str, bool)] = &[
    (
        r#"{"default": "skip", "rules": [
            {"errno": "any", "action": "record"},
            {"table": ["payroll.*", "*.customers"], "action": "record"},
            {"class": ["ddl", "dcl"], "action": "record"}]}"#,
        true,
    ),
    (r#"{"rules": [{"table": "mysql.*", "action": "skip"}]}"#, false),
    (r#"{"rules": [{"table": "scratch.*", "action": "skip"}]}"#, true),
    (r#"{"rules": [{"not": {"table": "payroll.*"}, "action": "skip"}]}"#, true),
];

#[test]
fn rules_by_table_exclude_only_statements_with_known_tables() {
    let mut server = Recording::builder()
        .option("tacho-tables=ON")
        .option("performance-schema=ON")
        .start()
        .expect("a server");
    let is_mariadb = server.product.is_mariadb();
    let cases: Vec<&[&str]> = match is_mariadb {
        true => AUDITED.iter().chain(AUDITED_BY_MARIADB).copied().collect(),
        false => AUDITED.to_vec(),
    };
    let mut root = server.connect().expect("a session");
    for sql in SETUP.iter().chain(SETUP_OF_MARIADB.iter().filter(|_| is_mariadb)) {
        root.query_drop(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
    for (phase, (filter, leaves_out)) in FILTERS.iter().enumerate() {
        server.set(&format!("tacho_filter = '{filter}'"));
        for (number, case) in cases.iter().enumerate() {
            let mut conn = server.connect().expect("a session");
            for (step, sql) in case.iter().enumerate() {
                // Some fail, and must be recorded, too.
                let _ = conn.query_drop(format!("{sql} /* {phase}-{number}-{step} */"));
            }
        }
        if *leaves_out {
            let mut conn = server.connect().expect("a session");
            // MySQL 8.0 does not report what a foreign key changes, so it records all changes.
            let changes = server.product.name != "mysql-8.0";
            for sql in OTHERS.iter().filter(|sql| changes || sql.starts_with("SELECT")) {
                // The server may have to open the table, and read its statistics, for the first one.
                for mark in ["maybe", "out"] {
                    let _ = conn.query_drop(format!("{sql} /* {mark} {phase} */"));
                }
            }
        }
        server.set("tacho_filter = ''");
    }
    drop(root);
    server.stop().expect("an orderly end");
    let lines = recorded::read(&server.log_directory()).expect("the log");
    let texts: Vec<&str> = lines.iter().filter_map(|line| text(line, "sql")).collect();
    let mut wrong = Vec::new();
    for (phase, (filter, _)) in FILTERS.iter().enumerate() {
        for (number, case) in cases.iter().enumerate() {
            for (step, sql) in case.iter().enumerate() {
                let mark = format!("/* {phase}-{number}-{step} */");
                if !texts.iter().any(|text| text.contains(&mark)) {
                    wrong.push(format!("not recorded: {sql}\n    by {filter}"));
                }
            }
        }
    }
    wrong.extend(
        texts.iter().filter(|it| it.contains("/* out ")).map(|it| format!("recorded: {it}")),
    );
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
