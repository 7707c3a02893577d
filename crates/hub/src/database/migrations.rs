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
    "
    CREATE TABLE account (
        name TEXT PRIMARY KEY,
        password TEXT NOT NULL,         -- argon2id, with salt and parameters
        roles TEXT NOT NULL,
        servers TEXT,                   -- as in token
        created_us INTEGER NOT NULL,
        disabled_us INTEGER
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE session (
        hash BLOB PRIMARY KEY,          -- SHA-256 of the cookie
        kind TEXT NOT NULL,             -- 'account', 'token' or 'link'
        reference TEXT NOT NULL,        -- name of the account, number of the token
        csrf TEXT NOT NULL,
        expires_us INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE sign_in_link (
        hash BLOB PRIMARY KEY,
        expires_us INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
",
    "
    CREATE TABLE alert (
        id INTEGER PRIMARY KEY,
        rule TEXT NOT NULL,
        severity TEXT NOT NULL,
        state TEXT NOT NULL,            -- 'open', 'acknowledged' or 'closed'
        server TEXT,                    -- NULL: the hub
        subject TEXT NOT NULL,
        title TEXT NOT NULL,
        message TEXT NOT NULL,
        first_us INTEGER NOT NULL,
        last_us INTEGER NOT NULL,
        count INTEGER NOT NULL,
        examples TEXT NOT NULL,         -- JSON array of texts
        note TEXT,
        acknowledged_by TEXT
    ) STRICT;
    CREATE UNIQUE INDEX alert_active ON alert (rule, ifnull(server, ''), subject)
        WHERE state <> 'closed';
    CREATE INDEX alert_last ON alert (last_us);
",
    "
    ALTER TABLE alert ADD COLUMN sent_state TEXT;   -- its state when the webhook got it
    ALTER TABLE alert ADD COLUMN sent_us INTEGER;
",
    "
    CREATE TABLE watch (                -- how far lines were watched
        origin TEXT NOT NULL,
        generation INTEGER NOT NULL,
        file TEXT NOT NULL,
        offset INTEGER NOT NULL,
        PRIMARY KEY (origin, generation, file)
    ) STRICT, WITHOUT ROWID;
",
    "
    CREATE TABLE audit_outbox (         -- records that are not in the hub's own log yet
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        entry TEXT NOT NULL             -- JSON
    ) STRICT;
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
