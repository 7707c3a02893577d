//! A SQLite database with the table `records`: a column for each field of the record.
//!
//! Numbers and flags are INTEGER, everything else is TEXT. Times are UTC in the form that SQLite's
//! functions take, `2026-11-27 10:00:00.000000`. The tables of a statement and the attributes of a
//! connection are arrays of JSON objects, for `json_each`.

use std::path::Path;

use anyhow::Context as _;
use jiff::Timestamp;
use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};
use serde_json::json;
use tacho_record::line::{Line, LineValue};
use tacho_record::{Field, Kind};
use tacho_store::{COLUMNS, Column, ColumnKind};

use super::Target;

/// Rows between two commits.
const COMMIT_ROWS: u64 = 50_000;

/// Indexes, which are made when all rows are there.
const INDEXES: [&str; 5] = ["ts", "user", "digest", "conn", "errno"];

/// Writes records into a database.
pub struct Database {
    connection: Connection,
    server: String,
    columns: Vec<Column>,
    insert: String,
    rows: u64,
}

impl Database {
    /// Creates the table in a new file. `server`: the value of the column `server`.
    ///
    /// # Errors
    /// It cannot be created.
    pub fn create(path: &Path, server: &str) -> anyhow::Result<Self> {
        let columns: Vec<Column> =
            COLUMNS.iter().filter(|column| column.kind.is_of_record()).copied().collect();
        let list = |text: &dyn Fn(&Column) -> String| {
            columns.iter().map(text).collect::<Vec<_>>().join(", ")
        };
        let definitions = list(&|column| format!("\"{}\" {}", column.name, type_of(column.kind)));
        let places = list(&|_| "?".to_owned());
        let insert = format!("INSERT INTO records VALUES ({places})");
        let connection = Connection::open(path).context("cannot create the database")?;
        // A file that is not complete is removed: it needs no journal.
        connection.execute_batch(&format!(
            "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA locking_mode = EXCLUSIVE;
             CREATE TABLE records ({definitions}); BEGIN"
        ))?;
        Ok(Self { connection, server: server.to_owned(), columns, insert, rows: 0 })
    }

    /// Makes the indexes, and closes the file.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn finish(self) -> anyhow::Result<()> {
        self.connection.execute_batch("COMMIT")?;
        for name in INDEXES {
            let sql = format!("CREATE INDEX records_{name} ON records (\"{name}\")");
            self.connection.execute_batch(&sql)?;
        }
        self.connection.close().map_err(|(_, error)| error)?;
        Ok(())
    }
}

impl Target for Database {
    fn push(&mut self, line: &Line<'_>) -> anyhow::Result<()> {
        let values = self.columns.iter().map(|column| match column.kind {
            ColumnKind::Server => Value::Text(self.server.clone()),
            ColumnKind::Field(field) => value_of(line.value(field)),
            _ => Value::Null,
        });
        let mut insert = self.connection.prepare_cached(&self.insert)?;
        insert.execute(params_from_iter(values)).context("cannot write to the database")?;
        self.rows += 1;
        if self.rows.is_multiple_of(COMMIT_ROWS) {
            self.connection.execute_batch("COMMIT; BEGIN")?;
        }
        Ok(())
    }
}

fn type_of(kind: ColumnKind) -> &'static str {
    let ColumnKind::Field(field) = kind else { return "TEXT" };
    match field.kind() {
        Kind::Seq if field == Field::seq => "INTEGER NOT NULL",
        Kind::Seq | Kind::Number | Kind::Port | Kind::Errno | Kind::Flag => "INTEGER",
        _ => "TEXT",
    }
}

fn value_of(value: LineValue<'_>) -> Value {
    match value {
        LineValue::Missing => Value::Null,
        // SQLite has signed numbers.
        LineValue::Number(number) => {
            i64::try_from(number).map_or_else(|_| Value::Text(number.to_string()), Value::Integer)
        }
        LineValue::True => Value::Integer(1),
        LineValue::Time(us) => match Timestamp::from_microsecond(us) {
            Ok(time) => Value::Text(time.strftime("%Y-%m-%d %H:%M:%S.%6f").to_string()),
            Err(_) => Value::Null,
        },
        LineValue::Text(text) | LineValue::Json(text) => Value::Text(text.to_owned()),
        LineValue::Tables(tables) => {
            let tables = tables.iter().map(|used| {
                let names = [
                    ("access", &used.access),
                    ("db", &used.db),
                    ("table", &used.table),
                    ("new_db", &used.new_db),
                    ("new_table", &used.new_table),
                ];
                let names = names.into_iter().filter(|(_, name)| !name.is_empty());
                names.map(|(key, name)| (key, json!(name))).collect::<serde_json::Value>()
            });
            Value::Text(tables.collect::<serde_json::Value>().to_string())
        }
        LineValue::Attributes(attributes) => {
            let pairs = attributes.iter().map(|it| json!({"key": it.key, "value": it.value}));
            Value::Text(pairs.collect::<serde_json::Value>().to_string())
        }
    }
}
