//! API tokens. Only the hash of a token is stored.
//!
//! A token has 256 random bits, so a fast hash is enough: there is nothing to guess.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rusqlite::{OptionalExtension as _, ToSql, Transaction, params};
use sha2::{Digest as _, Sha256};
use tacho_ship::protocol::Origin;

use crate::audit::{HUB, Maker, is_hub, outbox};
use crate::database::{Database, DatabaseError};
use crate::roles::{Role, Roles, Scope};

/// Every token begins like this, so that tools that look for secrets can find it.
pub const PREFIX: &str = "tacho_";
const RANDOM_BYTES: usize = 32;

/// A token cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// The database failed.
    #[error(transparent)]
    Database(#[from] DatabaseError),
    /// The system has no random bytes.
    #[error("no random bytes from the system: {0}")]
    Random(getrandom::Error),
    /// A shipper's token without exactly one server, or with another role.
    #[error(
        "a token for shipping has the role agent alone, and exactly one server (--server NAME)"
    )]
    Agent,
    /// The name of the hub's own log.
    #[error("{HUB} is the name of the hub's own log, to which nothing else ships")]
    Hub,
}

/// What a token is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenGrant {
    /// For people.
    pub name: String,
    /// What it permits.
    pub roles: Roles,
    /// For which servers.
    pub scope: Scope,
    /// When it ends, µs since 1970-01-01 UTC; `None`: never.
    pub expires_us: Option<i64>,
}

/// A valid token, as found in the database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// Its number in the database.
    pub id: i64,
    /// What it is for.
    pub grant: TokenGrant,
}

/// Makes a token, and records that. The text is shown once and not stored.
///
/// # Errors
/// The grant is not allowed, or the database or the system's random source fails.
pub fn create(
    database: &Database,
    grant: &TokenGrant,
    by: &Maker,
    now_us: i64,
) -> Result<String, TokenError> {
    let mut servers = grant.scope.servers().unwrap_or_default().iter();
    if grant.roles.has(Role::Agent) && servers.any(is_hub) {
        return Err(TokenError::Hub);
    }
    let entry = by.made("hub.token", &grant.name, grant.roles, &grant.scope);
    insert(database, grant, now_us, |transaction| outbox::put(transaction, &entry))
}

/// Makes a token that the hub itself uses, for any log and without a record.
///
/// # Errors
/// The database or the system's random source fails.
pub fn create_own(
    database: &Database,
    grant: &TokenGrant,
    now_us: i64,
) -> Result<String, TokenError> {
    insert(database, grant, now_us, |_| Ok(()))
}

fn insert(
    database: &Database,
    grant: &TokenGrant,
    now_us: i64,
    record: impl FnOnce(&Transaction<'_>) -> Result<(), DatabaseError>,
) -> Result<String, TokenError> {
    let server_count = grant.scope.servers().map(<[Origin]>::len);
    if grant.roles.has(Role::Agent)
        && (grant.roles != Roles::from(Role::Agent) || server_count != Some(1))
    {
        return Err(TokenError::Agent);
    }
    let text = random_text(PREFIX)?;
    let servers = servers_to_json(&grant.scope);
    database.write(|transaction| {
        let insert = "INSERT INTO token (hash, name, roles, servers, created_us, expires_us)
            VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
        let roles = grant.roles.to_string();
        let values = params![hash(&text), grant.name, roles, servers, now_us, grant.expires_us];
        transaction.execute(insert, values).map_err(DatabaseError::from)?;
        record(transaction)?;
        Ok::<_, TokenError>(())
    })?;
    Ok(text)
}

/// Finds a token that is neither revoked nor expired.
///
/// # Errors
/// The database fails.
pub fn find(database: &Database, text: &str, now_us: i64) -> Result<Option<Token>, DatabaseError> {
    if !text.starts_with(PREFIX) {
        return Ok(None);
    }
    one(database, "hash = ?1", params![hash(text), now_us])
}

/// What a token is for, by its number, if it is neither revoked nor expired.
///
/// # Errors
/// The database fails.
pub fn grant(
    database: &Database,
    id: i64,
    now_us: i64,
) -> Result<Option<TokenGrant>, DatabaseError> {
    Ok(one(database, "id = ?1", params![id, now_us])?.map(|token| token.grant))
}

/// Ends all tokens with a name.
///
/// # Errors
/// The database fails.
pub fn revoke(database: &Database, name: &str, now_us: i64) -> Result<(), DatabaseError> {
    database.write(|transaction| {
        let update = "UPDATE token SET revoked_us = ?2 WHERE name = ?1 AND revoked_us IS NULL";
        transaction.execute(update, params![name, now_us])?;
        Ok(())
    })
}

fn one(
    database: &Database,
    which: &'static str,
    values: &[&dyn ToSql],
) -> Result<Option<Token>, DatabaseError> {
    let row = database.read(|connection| {
        let select = format!(
            "SELECT id, name, roles, servers, expires_us FROM token
            WHERE {which} AND revoked_us IS NULL AND (expires_us IS NULL OR expires_us > ?2)"
        );
        let mut statement = connection.prepare_cached(&select)?;
        statement
            .query_row(values, |row| {
                let roles: String = row.get(2)?;
                let servers: Option<String> = row.get(3)?;
                Ok((row.get(0)?, row.get(1)?, roles, servers, row.get(4)?))
            })
            .optional()
    })?;
    let Some((id, name, roles, servers, expires_us)) = row else { return Ok(None) };
    let roles = roles.parse().map_err(|_| DatabaseError::Value { what: "token.roles" })?;
    let scope = servers_from_json(servers.as_deref())?;
    Ok(Some(Token { id, grant: TokenGrant { name, roles, scope, expires_us } }))
}

/// A secret: `prefix` and 256 random bits.
///
/// # Errors
/// The system has no random bytes.
pub fn random_text(prefix: &str) -> Result<String, TokenError> {
    let mut bytes = [0; RANDOM_BYTES];
    getrandom::fill(&mut bytes).map_err(TokenError::Random)?;
    Ok(format!("{prefix}{}", URL_SAFE_NO_PAD.encode(bytes)))
}

/// What is stored of a secret.
#[must_use]
pub fn hash(text: &str) -> [u8; 32] {
    Sha256::digest(text.as_bytes()).into()
}

/// A scope as it is stored.
#[must_use]
pub fn servers_to_json(scope: &Scope) -> Option<String> {
    scope.servers().map(|servers| serde_json::json!(servers).to_string())
}

/// A scope as it was stored.
///
/// # Errors
/// It is not a list of origins.
pub fn servers_from_json(text: Option<&str>) -> Result<Scope, DatabaseError> {
    let Some(text) = text else { return Ok(Scope::All) };
    let servers = serde_json::from_str(text);
    servers.map(Scope::Servers).map_err(|_| DatabaseError::Value { what: "servers" })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn database() -> (tempfile::TempDir, Database) {
        let directory = tempfile::tempdir().unwrap();
        let database = Database::open(&directory.path().join("hub.sqlite")).unwrap();
        (directory, database)
    }

    fn grant(roles: &str, servers: &[&str]) -> TokenGrant {
        let servers: Vec<_> = servers.iter().map(|name| name.parse().unwrap()).collect();
        let scope = if servers.is_empty() { Scope::All } else { Scope::Servers(servers) };
        TokenGrant {
            name: "test".to_owned(),
            roles: roles.parse().unwrap(),
            scope,
            expires_us: None,
        }
    }

    #[test]
    fn a_token_is_found_until_it_expires_and_its_text_is_not_stored() {
        let (directory, database) = database();
        let mut wanted = grant("viewer", &["db1", "db2"]);
        wanted.expires_us = Some(100);
        let text = create(&database, &wanted, &Maker::default(), 1).unwrap();
        assert_eq!(find(&database, &text, 99).unwrap().unwrap().grant, wanted);
        assert_eq!(find(&database, &text, 100).unwrap(), None);
        assert_eq!(find(&database, "tacho_x", 1).unwrap(), None);
        for entry in std::fs::read_dir(directory.path()).unwrap() {
            let bytes = std::fs::read(entry.unwrap().path()).unwrap();
            let secret = text.strip_prefix(PREFIX).unwrap().as_bytes();
            assert!(!bytes.windows(secret.len()).any(|part| part == secret));
        }
    }

    #[test]
    fn a_token_for_shipping_is_for_one_server() {
        let (_directory, database) = database();
        create(&database, &grant("agent", &["db1"]), &Maker::default(), 1).unwrap();
        for (roles, servers) in
            [("agent", &[][..]), ("agent", &["a", "b"]), ("admin+agent", &["db1"])]
        {
            let error =
                create(&database, &grant(roles, servers), &Maker::default(), 1).unwrap_err();
            assert!(matches!(error, TokenError::Agent), "{roles} {servers:?}");
        }
    }

    #[test]
    fn nothing_ships_to_the_hubs_own_log() {
        let (_directory, database) = database();
        for name in ["tacho-hub", "Tacho-Hub"] {
            let error =
                create(&database, &grant("agent", &[name]), &Maker::default(), 1).unwrap_err();
            assert!(matches!(error, TokenError::Hub), "{name}");
        }
        create(&database, &grant("auditor", &["tacho-hub"]), &Maker::default(), 1).unwrap();
    }
}
