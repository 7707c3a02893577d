//! How long the log of each server is kept: a default, which the hub is started with, and settings
//! of single servers, which administrators change. Each change is a record in the hub's own log.

use std::collections::BTreeMap;

use rusqlite::{OptionalExtension as _, params};
use tacho_ship::protocol::Origin;

use crate::audit::{Entry, HUB, is_hub, outbox};
use crate::database::{Database, DatabaseError};

/// Half a year.
pub const DAYS_DEFAULT: u64 = 183;
/// Of the hub's own log: a year.
pub const OWN_LOG_DAYS_DEFAULT: u64 = 365;
/// A hundred years. More is a typing error.
pub const DAYS_MAX: u64 = 36_500;
/// The name of a server's setting in the hub's own log.
pub const VARIABLE: &str = "hub.retention";
/// Names in the table `setting`.
const DEFAULT: &str = "retention_days";
const OWN_LOG: &str = "audit_days";

/// All settings, at one moment. 0 days: for ever.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// For servers that have no setting of their own.
    pub default_days: u64,
    /// For the hub's own log, if it has none.
    pub own_log_days: u64,
    /// Servers that have one.
    pub servers: BTreeMap<Origin, u64>,
}

impl Settings {
    /// The retention of a server, days.
    #[must_use]
    pub fn days(&self, origin: &Origin) -> u64 {
        let default = if is_hub(origin) { self.own_log_days } else { self.default_days };
        self.servers.get(origin).copied().unwrap_or(default)
    }
}

/// Reads them.
///
/// # Errors
/// The database fails.
pub fn load(database: &Database) -> Result<Settings, DatabaseError> {
    database.read(|connection| {
        let number = |name: &str| {
            let select = "SELECT CAST(value AS INTEGER) FROM setting WHERE name = ?1";
            connection.query_row(select, [name], |row| row.get::<_, i64>(0)).optional()
        };
        let days = |days: i64| days.unsigned_abs();
        let mut servers = BTreeMap::new();
        let mut statement = connection.prepare_cached("SELECT origin, days FROM retention")?;
        let rows = statement.query_map([], |row| Ok((row.get::<_, String>(0)?, row.get(1)?)))?;
        for row in rows {
            let (origin, set): (String, i64) = row?;
            let invalid = DatabaseError::Value { what: "retention.origin" };
            servers.insert(origin.parse().map_err(|_| invalid)?, days(set));
        }
        Ok(Settings {
            default_days: number(DEFAULT)?.map_or(DAYS_DEFAULT, days),
            own_log_days: number(OWN_LOG)?.map_or(OWN_LOG_DAYS_DEFAULT, days),
            servers,
        })
    })
}

/// Stores the defaults that the hub was started with, for commands beside it. A change is recorded.
///
/// # Errors
/// The database fails.
pub fn save_defaults(
    database: &Database,
    default_days: u64,
    own_log_days: u64,
) -> Result<(), DatabaseError> {
    let before = load(database)?;
    let changes = [
        (DEFAULT, "hub.retention_days", before.default_days, default_days),
        (OWN_LOG, "hub.audit_days", before.own_log_days, own_log_days),
    ];
    database.write(|transaction| {
        for (name, variable, old, new) in changes {
            let select = "SELECT EXISTS (SELECT 1 FROM setting WHERE name = ?1)";
            let is_known: bool = transaction.query_row(select, [name], |row| row.get(0))?;
            let insert = "INSERT INTO setting (name, value) VALUES (?1, ?2)
                ON CONFLICT (name) DO UPDATE SET value = excluded.value";
            transaction.execute(insert, [name, &new.to_string()])?;
            if old != new {
                let old = if is_known { old.to_string() } else { String::new() };
                let source = crate::audit::RequestSource::command("serve");
                let entry = Entry::change("", source, variable, &old, &new.to_string());
                outbox::put(transaction, &entry)?;
            }
        }
        Ok(())
    })
}

/// Sets the retention of a server, or returns it to the default (`None`). `record`: the change,
/// without its values.
///
/// # Errors
/// The database fails.
pub fn set(
    database: &Database,
    origin: &Origin,
    days: Option<u64>,
    record: Entry,
) -> Result<(), DatabaseError> {
    // The name of the hub's own log has one spelling.
    let name = if is_hub(origin) { HUB } else { origin.as_str() };
    database.write(|transaction| {
        let select = "SELECT days FROM retention WHERE origin = ?1";
        let before: Option<i64> =
            transaction.query_row(select, [name], |row| row.get(0)).optional()?;
        match days {
            Some(days) => {
                let insert = "INSERT INTO retention (origin, days) VALUES (?1, ?2)
                    ON CONFLICT (origin) DO UPDATE SET days = excluded.days";
                transaction.execute(insert, params![name, days.cast_signed()])?;
            }
            None => {
                transaction.execute("DELETE FROM retention WHERE origin = ?1", [name])?;
            }
        }
        let word = |days: Option<u64>| days.map_or("default".to_owned(), |days| days.to_string());
        let mut record = record;
        record.old_value = word(before.map(i64::unsigned_abs));
        record.new_value = word(days);
        outbox::put(transaction, &record.with("server", name))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::{Kind, RequestSource};

    #[test]
    fn a_server_has_its_own_retention_until_it_returns_to_the_default() {
        let directory = tempfile::tempdir().unwrap();
        let database = Database::open(&directory.path().join("hub.sqlite")).unwrap();
        let (one, two): (Origin, Origin) = ("db1".parse().unwrap(), "db2".parse().unwrap());
        let record = || Entry::new(Kind::Config, "ann", RequestSource::default());
        save_defaults(&database, 90, 400).unwrap();
        set(&database, &one, Some(30), record()).unwrap();
        set(&database, &"Tacho-Hub".parse().unwrap(), Some(0), record()).unwrap();
        let settings = load(&database).unwrap();
        assert_eq!((settings.days(&one), settings.days(&two)), (30, 90));
        assert_eq!(settings.days(&HUB.parse().unwrap()), 0);
        set(&database, &one, None, record()).unwrap();
        assert_eq!(load(&database).unwrap().days(&one), 90);
        let records: i64 = database
            .read(|connection| {
                connection.query_row("SELECT count(*) FROM audit_outbox", [], |row| row.get(0))
            })
            .unwrap();
        assert_eq!(records, 2 + 3, "each change is recorded");
    }
}
