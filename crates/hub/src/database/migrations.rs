//! Tables of the database. An entry is never changed once it is released: add another one.

use rusqlite::{Connection, TransactionBehavior};

use super::DatabaseError;

/// Number n brings a database from version n to n + 1 (SQLite's `user_version`).
pub const MIGRATIONS: &[&str] = &[
    "
    CREATE TABLE setting (
        name TEXT PRIMARY KEY,
        value TEXT NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE token (
        id INTEGER PRIMARY KEY,
        hash BLOB NOT NULL UNIQUE,      -- SHA-256 of the token
        name TEXT NOT NULL,
        roles TEXT NOT NULL,            -- 'admin+auditor'
        servers TEXT,                   -- JSON array of origins; NULL: all
        created_us INTEGER NOT NULL,
        expires_us INTEGER,             -- NULL: never
        revoked_us INTEGER
    ) STRICT;
",
    "
    CREATE TABLE origin_root (
        origin TEXT PRIMARY KEY,
        root TEXT NOT NULL,             -- the verifier key that the log began with
        seen_us INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
",
];

/// Brings the tables up to date. Two processes may do it at the same time.
pub fn apply(connection: &mut Connection) -> Result<(), DatabaseError> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let version: i64 = transaction.pragma_query_value(None, "user_version", |row| row.get(0))?;
    let done = usize::try_from(version).map_err(|_| DatabaseError::TooNew(version))?;
    let missing = MIGRATIONS.get(done..).ok_or(DatabaseError::TooNew(version))?;
    for migration in missing {
        transaction.execute_batch(migration)?;
    }
    transaction.pragma_update(None, "user_version", MIGRATIONS.len() as i64)?;
    transaction.commit()?;
    Ok(())
}
