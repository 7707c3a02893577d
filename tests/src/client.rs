//! Connections to a private server, over its socket.
//!
//! The `mysql` crate stays visible: tests use its `Queryable` directly.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
pub use mysql::Conn;
pub use mysql::prelude::Queryable;

/// Largest packet a client sends or takes; the servers allow as much. Saying it here also
/// spares the `SELECT @@max_allowed_packet` which the crate would send on every connection.
pub const PACKET_BYTES_MAX: usize = 64 << 20;

/// Connects as `user`, without a password, with `db` as default database if it is not empty.
pub fn connect(socket: &Path, user: &str, db: &str) -> mysql::Result<Conn> {
    let options = mysql::OptsBuilder::new()
        .socket(socket.to_str())
        .user(Some(user))
        .db_name(if db.is_empty() { None } else { Some(db) })
        .prefer_socket(false)
        .stmt_cache_size(0)
        .max_allowed_packet(Some(PACKET_BYTES_MAX));
    Conn::new(options)
}

/// `SHOW GLOBAL STATUS LIKE pattern`, names as the server writes them.
pub fn status(conn: &mut Conn, pattern: &str) -> Result<BTreeMap<String, String>> {
    let rows: Vec<(String, String)> = conn
        .query(format!("SHOW GLOBAL STATUS LIKE '{pattern}'"))
        .with_context(|| format!("reading the status variables {pattern}"))?;
    Ok(rows.into_iter().collect())
}

/// One status variable that is a number.
pub fn status_number(conn: &mut Conn, name: &str) -> Result<u64> {
    let values = status(conn, name)?;
    let value = values.get(name).with_context(|| format!("the server has no status {name}"))?;
    value.parse().with_context(|| format!("{name} is {value:?}, not a number"))
}

/// One global system variable, as text.
pub fn variable(conn: &mut Conn, name: &str) -> Result<String> {
    let value: Option<String> = conn
        .query_first(format!("SELECT CAST(@@GLOBAL.{name} AS CHAR)"))
        .with_context(|| format!("reading the variable {name}"))?;
    value.with_context(|| format!("{name} is NULL"))
}
