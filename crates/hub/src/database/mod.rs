//! `hub.sqlite`: accounts, tokens, origins, alerts. Records are in the replica and the store.
//!
//! Several processes can have it open (`tacho-hub token create` beside a running hub): it is in WAL
//! mode, and readers never wait. Functions here block: an async caller uses [`Database::call`] for
//! writes.

mod migrations;

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior};

/// How long a writer waits for one in another process.
const BUSY: Duration = Duration::from_secs(10);

/// The database failed.
#[derive(Debug, thiserror::Error)]
pub enum DatabaseError {
    /// SQLite's error.
    #[error("hub.sqlite: {0}")]
    Sqlite(#[from] rusqlite::Error),
    /// Written by a later release.
    #[error("hub.sqlite has version {0}, this release knows {known}: use a newer tacho-hub",
        known = migrations::MIGRATIONS.len())]
    TooNew(i64),
    /// A value that this release does not write.
    #[error("hub.sqlite: {what} has an invalid value")]
    Value {
        /// Where.
        what: &'static str,
    },
    /// The thread of a blocking call ended by a panic.
    #[error("hub.sqlite: the call did not end")]
    Aborted,
}

/// The database, shared by all who hold a clone.
#[derive(Clone)]
pub struct Database {
    connections: Arc<Connections>,
}

struct Connections {
    writer: Mutex<Connection>,
    reader: Mutex<Connection>,
}

impl Database {
    /// Opens it, makes it if it is missing, and brings its tables up to date.
    ///
    /// # Errors
    /// It cannot be opened, or a later release has written it.
    pub fn open(path: &Path) -> Result<Self, DatabaseError> {
        let mut writer = Connection::open(path)?;
        writer.busy_timeout(BUSY)?;
        writer.pragma_update(None, "journal_mode", "WAL")?;
        // Each commit is on the disk: an account that was locked stays locked.
        writer.pragma_update(None, "synchronous", "FULL")?;
        writer.pragma_update(None, "foreign_keys", true)?;
        migrations::apply(&mut writer)?;
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let reader = Connection::open_with_flags(path, flags)?;
        reader.busy_timeout(BUSY)?;
        let connections = Connections { writer: Mutex::new(writer), reader: Mutex::new(reader) };
        Ok(Self { connections: Arc::new(connections) })
    }

    /// Runs queries. Does not wait for writers.
    ///
    /// # Errors
    /// What `call` returns.
    pub fn read<T, E>(&self, call: impl FnOnce(&Connection) -> Result<T, E>) -> Result<T, E> {
        call(&hold(&self.connections.reader))
    }

    /// Runs a transaction, which is committed, and on the disk, if `call` succeeds.
    ///
    /// # Errors
    /// What `call` returns, or the commit fails.
    pub fn write<T, E: From<DatabaseError>>(
        &self,
        call: impl FnOnce(&Transaction<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        let mut connection = hold(&self.connections.writer);
        let behavior = TransactionBehavior::Immediate;
        let transaction =
            connection.transaction_with_behavior(behavior).map_err(DatabaseError::from)?;
        let value = call(&transaction)?;
        transaction.commit().map_err(DatabaseError::from)?;
        Ok(value)
    }

    /// Runs `call` on a thread for blocking calls.
    ///
    /// # Errors
    /// What `call` returns.
    pub async fn call<T, E>(
        &self,
        call: impl FnOnce(&Self) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<DatabaseError> + Send + 'static,
    {
        let database = self.clone();
        let result = tokio::task::spawn_blocking(move || call(&database)).await;
        result.unwrap_or_else(|_| Err(DatabaseError::Aborted.into()))
    }
}

/// A panic while the connection was held has rolled its transaction back: it can be used again.
fn hold(connection: &Mutex<Connection>) -> MutexGuard<'_, Connection> {
    connection.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_a_failed_transaction_leaves_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let database = Database::open(&directory.path().join("hub.sqlite")).unwrap();
        let insert = "INSERT INTO setting (name, value) VALUES (?1, 'x')";
        database
            .write(|transaction| Ok::<_, DatabaseError>(transaction.execute(insert, ["a"])?))
            .unwrap();
        let failed: Result<(), DatabaseError> = database.write(|transaction| {
            transaction.execute(insert, ["b"])?;
            Err(DatabaseError::Value { what: "test" })
        });
        assert!(failed.is_err());
        let names: i64 = database
            .read(|connection| {
                connection.query_row("SELECT count(*) FROM setting", [], |row| row.get(0))
            })
            .unwrap();
        assert_eq!(names, 1);
    }

    #[test]
    fn a_database_of_a_later_release_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("hub.sqlite");
        drop(Database::open(&path).unwrap());
        Connection::open(&path).unwrap().pragma_update(None, "user_version", 1000).unwrap();
        assert!(matches!(Database::open(&path), Err(DatabaseError::TooNew(1000))));
    }
}
