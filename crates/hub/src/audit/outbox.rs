//! Entries in the database that are not in the log yet.
//!
//! An entry is stored in the transaction of its change. The thread of the log moves it: it writes
//! the line, puts it on the disk, and deletes the entry. If the hub dies between the last two, the
//! next start writes the line again.

use rusqlite::{Connection, Transaction, params};

use super::Entry;
use crate::database::DatabaseError;

/// Entries that are moved at a time.
const MOVE_MAX: usize = 1_000;

/// Stores an entry.
///
/// # Errors
/// The database fails.
pub fn put(transaction: &Transaction<'_>, entry: &Entry) -> Result<(), DatabaseError> {
    let text = serde_json::to_string(entry);
    let text = text.map_err(|_| DatabaseError::Value { what: "audit_outbox.entry" })?;
    let mut statement =
        transaction.prepare_cached("INSERT INTO audit_outbox (entry) VALUES (?1)")?;
    statement.execute([text])?;
    Ok(())
}

/// The oldest entries, and the number of the last one.
pub(super) fn read(connection: &Connection) -> Result<Option<(Vec<Entry>, i64)>, DatabaseError> {
    let select = "SELECT id, entry FROM audit_outbox ORDER BY id LIMIT ?1";
    let mut statement = connection.prepare_cached(select)?;
    let mut rows = statement.query(params![MOVE_MAX])?;
    let (mut entries, mut last) = (Vec::new(), None);
    while let Some(row) = rows.next()? {
        let text: String = row.get(1)?;
        let entry = serde_json::from_str(&text);
        entries.push(entry.map_err(|_| DatabaseError::Value { what: "audit_outbox.entry" })?);
        last = Some(row.get(0)?);
    }
    Ok(last.map(|last| (entries, last)))
}

/// Deletes the entries up to a number.
pub(super) fn delete(transaction: &Transaction<'_>, last: i64) -> Result<(), DatabaseError> {
    transaction.execute("DELETE FROM audit_outbox WHERE id <= ?1", [last])?;
    Ok(())
}
