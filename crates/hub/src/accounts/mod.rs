//! Accounts of people, their sessions, and the link for the first sign-in.
//!
//! | module | what it owns |
//! |---|---|
//! | [`password`] | hashes of passwords |
//! | [`session`] | sessions in cookies |
//! | [`attempts`] | limits of failed sign-ins |

pub mod attempts;
pub mod password;
pub mod session;

use rusqlite::{OptionalExtension as _, params};

use crate::audit::{Maker, outbox};
use crate::database::{Database, DatabaseError};
use crate::roles::{Role, Roles, Scope};
use crate::tokens::{self, TokenError};

/// Begins a token for the first sign-in.
pub const LINK_PREFIX: &str = "tacho_signin_";
/// How long a link is valid, µs.
const LINK_US: i64 = 15 * 60 * 1_000_000;
/// Longest name of an account, characters.
const NAME_MAX: usize = 64;

/// An account cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum AccountError {
    /// The database failed.
    #[error(transparent)]
    Database(#[from] DatabaseError),
    /// The system has no random bytes.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// The password is too short or too long.
    #[error(transparent)]
    Password(#[from] password::PasswordError),
    /// The name is none.
    #[error("the name of an account has 1 to {NAME_MAX} of the characters A-Z a-z 0-9 . _ - @")]
    Name,
    /// It exists.
    #[error("there is an account with this name already")]
    Exists,
    /// Shippers have tokens.
    #[error("an account cannot have the role agent: make a token for a shipper")]
    Agent,
}

/// An account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// Its name.
    pub name: String,
    /// What it may do.
    pub roles: Roles,
    /// Which servers it may see.
    pub scope: Scope,
}

/// Whether a text can be the name of an account.
#[must_use]
pub fn is_name(text: &str) -> bool {
    let is_good = |char: char| char.is_ascii_alphanumeric() || "._-@".contains(char);
    (1..=NAME_MAX).contains(&text.chars().count()) && text.chars().all(is_good)
}

/// Makes an account, and records that.
///
/// # Errors
/// The name, the role or the password is not allowed, or the name exists.
pub fn create(
    database: &Database,
    account: &Account,
    password: &str,
    by: &Maker,
    now_us: i64,
) -> Result<(), AccountError> {
    let name = &account.name;
    if !is_name(name) {
        return Err(AccountError::Name);
    }
    if account.roles.has(Role::Agent) {
        return Err(AccountError::Agent);
    }
    let hash = password::hash(password)?;
    database.write(|transaction| {
        let insert = "INSERT INTO account (name, password, roles, servers, created_us)
            VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT (name) DO NOTHING";
        let servers = tokens::servers_to_json(&account.scope);
        let values = params![name, hash, account.roles.to_string(), servers, now_us];
        if transaction.execute(insert, values).map_err(DatabaseError::from)? == 0 {
            return Err(AccountError::Exists);
        }
        let entry = by.made("hub.account", name, account.roles, &account.scope);
        Ok(outbox::put(transaction, &entry)?)
    })
}

/// Checks a password. Takes as long for an account that does not exist. Blocks for some 50 ms.
///
/// # Errors
/// The database fails.
pub fn check(database: &Database, name: &str, text: &str) -> Result<bool, DatabaseError> {
    let hash = database.read(|connection| {
        let select = "SELECT password FROM account WHERE name = ?1 AND disabled_us IS NULL";
        connection.query_row(select, [name], |row| row.get::<_, String>(0)).optional()
    })?;
    Ok(password::verify(hash.as_deref(), text))
}

/// An account that is not disabled.
///
/// # Errors
/// The database fails.
pub fn find(database: &Database, name: &str) -> Result<Option<Account>, DatabaseError> {
    let row = database.read(|connection| {
        let select = "SELECT roles, servers FROM account WHERE name = ?1 AND disabled_us IS NULL";
        let row = |row: &rusqlite::Row<'_>| {
            Ok((row.get::<_, String>(0)?, row.get::<_, Option<String>>(1)?))
        };
        connection.query_row(select, [name], row).optional()
    })?;
    let Some((roles, servers)) = row else { return Ok(None) };
    let roles = roles.parse().map_err(|_| DatabaseError::Value { what: "account.roles" })?;
    let scope = tokens::servers_from_json(servers.as_deref())?;
    Ok(Some(Account { name: name.to_owned(), roles, scope }))
}

/// A token for the first sign-in, as long as the hub has neither account nor administrator's token.
///
/// # Errors
/// The database or the system's random source fails.
pub fn first_link(database: &Database, now_us: i64) -> Result<Option<String>, TokenError> {
    let has_admin: bool = database
        .read(|connection| {
            let select = "SELECT
                EXISTS (SELECT 1 FROM account WHERE disabled_us IS NULL)
                OR EXISTS (SELECT 1 FROM token WHERE roles LIKE '%admin%' AND revoked_us IS NULL
                    AND (expires_us IS NULL OR expires_us > ?1))";
            connection.query_row(select, [now_us], |row| row.get(0))
        })
        .map_err(DatabaseError::from)?;
    if has_admin {
        return Ok(None);
    }
    let text = tokens::random_text(LINK_PREFIX)?;
    database.write(|transaction| {
        let insert = "INSERT INTO sign_in_link (hash, expires_us) VALUES (?1, ?2)";
        let values = params![tokens::hash(&text), now_us.saturating_add(LINK_US)];
        transaction.execute("DELETE FROM sign_in_link", []).map_err(DatabaseError::from)?;
        transaction.execute(insert, values).map_err(DatabaseError::from)?;
        Ok::<_, TokenError>(())
    })?;
    Ok(Some(text))
}

/// Uses up a link.
///
/// # Errors
/// The database fails.
pub fn use_link(database: &Database, text: &str, now_us: i64) -> Result<bool, DatabaseError> {
    database.write(|transaction| {
        let delete = "DELETE FROM sign_in_link WHERE hash = ?1 AND expires_us > ?2";
        Ok(transaction.execute(delete, params![tokens::hash(text), now_us])? > 0)
    })
}

#[cfg(test)]
mod tests;
