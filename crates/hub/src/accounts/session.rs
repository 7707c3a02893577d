//! Sessions. The cookie has a random text, of which the hash is stored. Each request reads the
//! roles of the session's account or token again, so a disabled account or a revoked token ends it.

use rusqlite::{OptionalExtension as _, params};

use super::{Account, find};
use crate::audit::{Entry, RequestSource, outbox};
use crate::database::{Database, DatabaseError};
use crate::roles::{Role, Roles, Scope};
use crate::tokens::{self, TokenError};

/// Name of the cookie.
pub const COOKIE: &str = "tacho_session";
/// How long a session lasts, µs.
pub const SESSION_US: i64 = 12 * 3600 * 1_000_000;
/// User of a session that began with the first link.
pub const SETUP_USER: &str = "setup";

/// What a session belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owner {
    /// An account, by its name.
    Account(String),
    /// A token, by its number.
    Token(i64),
    /// The link for the first sign-in: administrator and auditor.
    Link,
}

/// A session that is valid now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// Who it is, and what they may do.
    pub account: Account,
    /// What a request that changes something must send in `X-Tacho-Csrf`.
    pub csrf: String,
}

/// Begins a session. Returns the text of the cookie.
///
/// # Errors
/// The database or the system's random source fails.
pub fn begin(database: &Database, owner: &Owner, now_us: i64) -> Result<String, TokenError> {
    let (cookie, csrf) = (tokens::random_text("")?, tokens::random_text("")?);
    let (kind, reference) = match owner {
        Owner::Account(name) => ("account", name.clone()),
        Owner::Token(id) => ("token", id.to_string()),
        Owner::Link => ("link", String::new()),
    };
    database.write(|transaction| {
        let insert = "INSERT INTO session (hash, kind, reference, csrf, expires_us)
            VALUES (?1, ?2, ?3, ?4, ?5)";
        let expires_us = now_us.saturating_add(SESSION_US);
        let values = params![tokens::hash(&cookie), kind, reference, csrf, expires_us];
        transaction.execute(insert, values).map_err(DatabaseError::from)?;
        Ok::<_, TokenError>(())
    })?;
    Ok(cookie)
}

/// The session of a cookie.
///
/// # Errors
/// The database fails.
pub fn find_session(
    database: &Database,
    cookie: &str,
    now_us: i64,
) -> Result<Option<Session>, DatabaseError> {
    let row = database.read(|connection| {
        let select = "SELECT kind, reference, csrf FROM session
            WHERE hash = ?1 AND expires_us > ?2";
        let mut statement = connection.prepare_cached(select)?;
        let row = |row: &rusqlite::Row<'_>| {
            Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?, row.get(2)?))
        };
        statement.query_row(params![tokens::hash(cookie), now_us], row).optional()
    })?;
    let Some((kind, reference, csrf)) = row else { return Ok(None) };
    let account = match kind.as_str() {
        "account" => find(database, &reference)?,
        "token" => {
            let id = reference.parse().map_err(|_| DatabaseError::Value { what: "session" })?;
            let grant = tokens::grant(database, id, now_us)?;
            grant.map(|it| Account { name: it.name, roles: it.roles, scope: it.scope })
        }
        _ => {
            let roles = Roles::from(Role::Admin).with(Role::Auditor);
            Some(Account { name: SETUP_USER.to_owned(), roles, scope: Scope::All })
        }
    };
    Ok(account.map(|account| Session { account, csrf }))
}

/// Ends the session of a cookie, and records that.
///
/// # Errors
/// The database fails.
pub fn end(database: &Database, cookie: &str, record: &Entry) -> Result<(), DatabaseError> {
    database.write(|transaction| {
        let delete = "DELETE FROM session WHERE hash = ?1";
        if transaction.execute(delete, [tokens::hash(cookie)])? > 0 {
            outbox::put(transaction, record)?;
        }
        Ok(())
    })
}

/// A session that has expired.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expired {
    /// Its identification in records.
    pub id: String,
    /// The account, or the name of the token.
    pub user: String,
    /// When, µs since 1970-01-01 UTC.
    pub expires_us: i64,
}

/// Ends sessions that have expired, and records each.
///
/// # Errors
/// The database fails.
pub fn expire(
    database: &Database,
    now_us: i64,
    record: impl Fn(Expired) -> Entry,
) -> Result<(), DatabaseError> {
    let is_due = database.read(|connection| {
        let select = "SELECT EXISTS (SELECT 1 FROM session WHERE expires_us <= ?1)";
        let mut statement = connection.prepare_cached(select)?;
        statement.query_row([now_us], |row| row.get::<_, bool>(0))
    })?;
    if !is_due {
        return Ok(());
    }
    database.write(|transaction| {
        let delete = "DELETE FROM session WHERE expires_us <= ?1 RETURNING hash, expires_us,
            CASE kind WHEN 'account' THEN reference
                WHEN 'token' THEN (SELECT name FROM token WHERE id = reference) END";
        let mut statement = transaction.prepare_cached(delete)?;
        let row = |row: &rusqlite::Row<'_>| {
            let (hash, user): (Vec<u8>, Option<String>) = (row.get(0)?, row.get(2)?);
            let user = user.unwrap_or_else(|| SETUP_USER.to_owned());
            Ok(Expired { id: RequestSource::session_of(&hash), user, expires_us: row.get(1)? })
        };
        let expired: Vec<Expired> =
            statement.query_map([now_us], row)?.collect::<Result<_, _>>()?;
        expired.into_iter().try_for_each(|it| outbox::put(transaction, &record(it)))
    })
}
