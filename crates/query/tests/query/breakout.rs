//! Attempts to reach files, the network, settings or the system through SQL.

use std::fs;

use tacho_query::{Cancel, QueryError};

use crate::Hub;

/// What a user might try. `DIR` is a directory with files, outside the store.
const ATTEMPTS: &[&str] = &[
    "COPY records TO 'DIR/out.csv'",
    "COPY (SELECT 1) TO 'DIR/out.parquet'",
    "EXPORT DATABASE 'DIR/out'",
    "SELECT * FROM read_csv('DIR/secret.csv')",
    "SELECT * FROM read_csv_auto('/etc/passwd')",
    "SELECT * FROM read_text('DIR/secret.csv')",
    "SELECT * FROM read_blob('/etc/passwd')",
    "SELECT * FROM read_json('DIR/secret.csv')",
    "SELECT * FROM read_parquet('DIR/../store/segments/*.parquet')",
    "SELECT * FROM parquet_metadata('DIR/secret.csv')",
    "SELECT * FROM sniff_csv('DIR/secret.csv')",
    "SELECT * FROM 'DIR/secret.csv'",
    "FROM \"DIR/secret.csv\"",
    "FROM 'DIR/../store/empty.parquet'",
    "SELECT * FROM glob('/etc/*')",
    "SELECT * FROM (SELECT * FROM glob('/etc/*'))",
    "SELECT (SELECT count(*) FROM glob('/etc/*'))",
    "SELECT * FROM records WHERE seq IN (SELECT count(*) FROM read_text('/etc/passwd'))",
    "WITH x AS (SELECT * FROM read_text('/etc/passwd')) SELECT * FROM x",
    "WITH \"/etc/passwd.csv\" AS (SELECT 1) SELECT * FROM (SELECT 1) JOIN \"/etc/passwd.csv\" ON true",
    "ATTACH 'DIR/other.db'",
    "ATTACH ':memory:' AS other",
    "USE other",
    "INSTALL httpfs",
    "LOAD httpfs",
    "LOAD 'DIR/secret.csv'",
    "FORCE INSTALL httpfs FROM 'DIR'",
    "SELECT * FROM 'http://127.0.0.1:1/x.parquet'",
    "SELECT * FROM read_parquet('s3://bucket/x.parquet')",
    "SET enable_external_access = true",
    "SET lock_configuration = false",
    "SET memory_limit = '100GB'",
    "SET allowed_directories = ['/']",
    "SET temp_directory = 'DIR'",
    "SET GLOBAL threads = 99",
    "RESET ALL",
    "PRAGMA database_list",
    "PRAGMA enable_profiling",
    "PRAGMA profiling_output = 'DIR/out.json'",
    "CALL pragma_version()",
    "CREATE TABLE t AS SELECT 1",
    "CREATE SECRET s (TYPE s3)",
    "CREATE MACRO m() AS TABLE SELECT 1",
    "CREATE VIEW records AS SELECT 1",
    "DROP VIEW records",
    "INSERT INTO records SELECT * FROM records",
    "DELETE FROM records",
    "CHECKPOINT",
    "VACUUM",
    "BEGIN",
    "EXPLAIN ANALYZE SELECT 1",
    "PREPARE p AS SELECT 1",
    "EXECUTE p",
    "SHOW TABLES",
    "DESCRIBE records",
    "SUMMARIZE records",
    "SELECT getenv('HOME')",
    "SELECT current_setting('temp_directory')",
    "SELECT * FROM duckdb_settings()",
    "SELECT * FROM duckdb_secrets()",
    "SELECT * FROM duckdb_settings",
    "SELECT * FROM pragma_database_list",
    "SELECT * FROM sqlite_master",
    "SELECT * FROM information_schema.tables",
    "SELECT * FROM pg_catalog.pg_class",
    "SELECT * FROM system.main.duckdb_settings",
    "SELECT time_histogram(''::BLOB, seq) FROM records",
    "SELECT * FROM query('SELECT 1')",
    "SELECT * FROM query_table('records')",
    "SELECT 1; SELECT 2",
    "SELECT 1; COPY records TO 'DIR/out.csv'",
    "",
    "-- nothing",
    "(SELECT 1",
    "SELECT 1) AS q; COPY (SELECT 1) TO 'DIR/out.csv'; --",
    "SELECT INTERVAL 1 HOUR) AS q, (SELECT * FROM glob('/etc/*')) AS p --",
];

#[test]
fn nothing_but_the_view_can_be_reached() {
    let hub = Hub::new();
    let outside = tempfile::tempdir_in(hub.dir.path()).unwrap();
    fs::write(outside.path().join("secret.csv"), "secret\n1\n").unwrap();
    let path = outside.path().to_str().unwrap();
    for attempt in ATTEMPTS {
        let sql = attempt.replace("DIR", path);
        match hub.users(&sql) {
            Err(QueryError::Sql { .. }) => {}
            other => panic!("{attempt}: {other:?}"),
        }
    }
    let left: Vec<_> = fs::read_dir(outside.path()).unwrap().collect();
    assert_eq!(left.len(), 1, "{left:?}");
    assert_eq!(hub.users("SELECT count(*) FROM records").unwrap().rows[0][0], 300);
}

/// The first lock alone: what DuckDB refuses if the syntax tree is not looked at.
#[test]
fn the_engine_itself_is_locked() {
    let hub = Hub::new();
    let outside = tempfile::tempdir_in(hub.dir.path()).unwrap();
    fs::write(outside.path().join("secret.csv"), "secret\n1\n").unwrap();
    let path = outside.path().to_str().unwrap();
    for attempt in [
        "SELECT * FROM read_csv('DIR/secret.csv')",
        "SELECT * FROM read_text('/etc/passwd')",
        "SELECT * FROM 'DIR/secret.csv'",
        "SELECT * FROM glob('/etc/*')",
        "SELECT * FROM read_parquet('DIR/../store/empty.parquet')",
        "SELECT * FROM 'http://127.0.0.1:1/x.parquet'",
        "SET lock_configuration = false",
        "SET enable_external_access = true",
        "COPY (SELECT 1) TO 'DIR/out.csv'",
        "ATTACH 'DIR/other.db'",
        "INSTALL httpfs",
        "LOAD 'DIR/secret.csv'",
    ] {
        let request = hub.request(&attempt.replace("DIR", path));
        match hub.pool.fetch(&request, &Cancel::default()) {
            Err(QueryError::Sql { .. }) => {}
            // It lists nothing.
            Ok(answer) if attempt.contains("glob") && answer.rows.is_empty() => {}
            other => panic!("{attempt}: {other:?}"),
        }
    }
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1);
}
