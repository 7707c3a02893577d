//! `tacho-hub convert`: logs as a database or a Parquet file. The content of the latter is verified
//! where it is written, in `tacho_store`.

use std::path::Path;
use std::process::{Command, Output};

use rusqlite::Connection;

use crate::hub::HUB;

const LOG: &str = concat!(
    r#"{"v":1,"seq":1,"ts":"2026-11-27T10:00:00.000000+01:00","event":"start","run":1}"#,
    "\n",
    r#"{"v":1,"seq":2,"ts":"2026-11-27T10:00:01.500000+01:00","event":"statement","outcome":"running","run":1,"conn":7,"user":"o'neil","sql":"SELECT SLEEP(20)"}"#,
    "\n",
    r#"{"v":1,"seq":3,"ts":"2026-11-27T10:00:02.000000+01:00","event":"statement","outcome":"error","run":1,"conn":8,"user":"x","errno":1146,"sql":"SELECT '\"\u0000;--'","tables":[{"access":"read","db":"shop","table":"card"}],"rows_sent":0}"#,
    "\n",
    r#"{"v":1,"seq":4,"ts":"2026-11-27T10:00:01.500000+01:00","event":"statement","outcome":"ok","run":1,"conn":7,"user":"o'neil","running_seq":2,"rows_sent":1,"query_time_us":20000000}"#,
    "\n",
);

fn convert(log: &Path, format: &str, output: &Path) -> Output {
    let mut command = Command::new(HUB);
    command.arg("convert").arg(log).args(["--format", format, "--server", "db1", "-o"]);
    command.arg(output).output().unwrap()
}

#[test]
fn records_become_rows_of_a_database() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("audit-20261127T090000Z-000001.jsonl");
    std::fs::write(&log, LOG).unwrap();
    let output = directory.path().join("log.db");
    let made = convert(directory.path(), "sqlite", &output);
    assert!(made.status.success(), "{made:?}");
    assert!(String::from_utf8_lossy(&made.stdout).contains("log.db: 3 records, "), "{made:?}");
    let database = Connection::open(&output).unwrap();
    let one = |sql: &str| database.query_row(sql, [], |row| row.get::<_, String>(0)).unwrap();
    assert_eq!(one("SELECT count(*) || server FROM records GROUP BY server"), "3db1");
    // The long statement is one row, with what both of its lines have.
    let long = "SELECT ts || '|' || sql || '|' || rows_sent || '|' || outcome FROM records \
                WHERE user = 'o''neil'";
    assert_eq!(one(long), "2026-11-27 09:00:01.500000|SELECT SLEEP(20)|1|ok");
    let hostile = one("SELECT hex(sql) FROM records WHERE errno = 1146");
    assert_eq!(hostile, "53454C454354202722003B2D2D27");
    let table = "SELECT t.value ->> 'db' || '.' || (t.value ->> 'table') \
                 FROM records, json_each(records.tables) AS t";
    assert_eq!(one(table), "shop.card");
    assert_eq!(one("SELECT count(*) || '' FROM records WHERE rows_sent IS NULL"), "1");

    let again = convert(directory.path(), "sqlite", &output);
    assert_eq!(again.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&again.stderr).contains("exists and is not overwritten"));
}

#[test]
fn what_cannot_be_read_is_named_and_the_rest_converted() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("audit-20261127T090000Z-000001.jsonl");
    std::fs::write(&log, format!("{LOG}no line\n")).unwrap();
    let output = directory.path().join("log.parquet");
    let made = convert(directory.path(), "parquet", &output);
    let said = String::from_utf8_lossy(&made.stderr).into_owned();
    assert_eq!(made.status.code(), Some(1), "{said}");
    assert!(said.contains("broken line at byte") && said.contains("1 lines or files"), "{said}");
    let bytes = std::fs::read(&output).unwrap();
    assert!(bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"));
    // Nothing else is left.
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 2);
    let missing = convert(Path::new("/nonexistent"), "parquet", &directory.path().join("x"));
    assert!(String::from_utf8_lossy(&missing.stderr).contains("cannot read /nonexistent"));
    assert!(!directory.path().join("x").exists());
}
