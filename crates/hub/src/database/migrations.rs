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
    "
    CREATE TABLE channel (              -- where alerts are sent
        name TEXT PRIMARY KEY,          -- 'webhook', 'syslog', 'mail:ann@example.com'
        since_us INTEGER NOT NULL       -- when it was configured
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE notification (         -- one message to one channel
        id INTEGER PRIMARY KEY,
        channel TEXT NOT NULL,
        rule TEXT NOT NULL,             -- alerts of one rule are one message
        state TEXT NOT NULL,            -- 'pending', 'sent' or 'failed'
        created_us INTEGER NOT NULL,
        tries INTEGER NOT NULL,
        next_us INTEGER NOT NULL,       -- of a pending one: when it is tried
        last_us INTEGER,                -- the last try
        last_error TEXT
    ) STRICT;
    CREATE INDEX notification_group ON notification (channel, rule, id);
    CREATE INDEX notification_pending ON notification (channel, id) WHERE state = 'pending';
    CREATE TABLE notified_alert (       -- the alerts of a message
        alert INTEGER NOT NULL REFERENCES alert (id),
        notification INTEGER NOT NULL REFERENCES notification (id),
        alert_state TEXT NOT NULL,      -- 'open' or 'closed', as the message says
        PRIMARY KEY (alert, notification)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX notified_alert_notification ON notified_alert (notification);
    INSERT INTO notification
        SELECT id, 'webhook', rule, 'sent', sent_us, 1, sent_us, sent_us, NULL
        FROM alert WHERE sent_state IS NOT NULL;
    INSERT INTO notified_alert
        SELECT id, id, CASE sent_state WHEN 'closed' THEN 'closed' ELSE 'open' END
        FROM alert WHERE sent_state IS NOT NULL;
    ALTER TABLE alert DROP COLUMN sent_state;
    ALTER TABLE alert DROP COLUMN sent_us;
",
    "
    CREATE TABLE retention (            -- servers with a retention of their own
        origin TEXT PRIMARY KEY,
        days INTEGER NOT NULL           -- 0: for ever
    ) STRICT, WITHOUT ROWID;
",
    "-- No table: log files of the replica may be compressed, which earlier releases do not read.",
    "-- No table: log files of the replica may be by columns, which earlier releases do not read.",
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
