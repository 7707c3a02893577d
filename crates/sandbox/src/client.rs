//! Connections to a server.
//!
//! The `mysql` crate stays visible: callers use its `Queryable` directly.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
pub use mysql::Conn;
pub use mysql::prelude::Queryable;

/// Largest packet that a client sends or accepts; the servers permit as much. Setting it here also
/// avoids the `SELECT @@max_allowed_packet` that the crate would send on every connection.
pub const PACKET_BYTES_MAX: usize = 64 << 20;

/// How long a statement of the bench may take. Switching takes seconds on a busy machine.
pub const ANSWER_DEADLINE: Duration = Duration::from_secs(120);

/// Timeout of any other statement: longer than deliberate waits for space in an arena. Without it,
/// one server that hangs would stop all tests.
const PATIENCE: Duration = Duration::from_secs(300);

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A Unix socket.
    Socket(PathBuf),
    /// A host name or address, and a port.
    Tcp(String, u16),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Socket(path) => write!(f, "{}", path.display()),
            Self::Tcp(host, port) => write!(f, "{host}:{port}"),
        }
    }
}

/// Everything needed to connect.
#[derive(Clone)]
pub struct Login {
    /// The address.
    pub address: Address,
    /// The account.
    pub user: String,
    /// May be empty.
    pub password: String,
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.user, self.address)
    }
}

impl Login {
    /// Without a password.
    pub fn by_socket(socket: &Path, user: &str) -> Self {
        Self {
            address: Address::Socket(socket.to_owned()),
            user: user.to_owned(),
            password: String::new(),
        }
    }

    /// Connects. A server that does not answer within [`ANSWER_DEADLINE`] is an error, so that a
    /// server that hangs does not block the bench.
    pub fn connect(&self) -> mysql::Result<Conn> {
        self.connect_within(ANSWER_DEADLINE)
    }

    /// Connects. A server that is not there, or does not answer, within this time is an error.
    pub fn connect_within(&self, deadline: Duration) -> mysql::Result<Conn> {
        let options = match &self.address {
            Address::Socket(path) => mysql::OptsBuilder::new().socket(path.to_str()),
            Address::Tcp(host, port) => {
                mysql::OptsBuilder::new().ip_or_hostname(Some(host)).tcp_port(*port)
            }
        };
        Conn::new(
            options
                .user(Some(&self.user))
                .pass((!self.password.is_empty()).then_some(&self.password))
                .prefer_socket(false)
                .stmt_cache_size(0)
                .tcp_connect_timeout(Some(deadline))
                .read_timeout(Some(deadline))
                .write_timeout(Some(deadline))
                .max_allowed_packet(Some(PACKET_BYTES_MAX)),
        )
    }
}

/// Connects as `user`, without a password, with `db` as default database if it is not empty.
pub fn connect(socket: &Path, user: &str, db: &str) -> mysql::Result<Conn> {
    connect_by(mysql::OptsBuilder::new().socket(socket.to_str()), user, db)
}

/// The same over TCP, to a port of this machine.
pub fn connect_tcp(port: u16, user: &str, db: &str) -> mysql::Result<Conn> {
    let place = mysql::OptsBuilder::new().ip_or_hostname(Some("127.0.0.1")).tcp_port(port);
    connect_by(place, user, db)
}

fn connect_by(place: mysql::OptsBuilder, user: &str, db: &str) -> mysql::Result<Conn> {
    let options = place
        .user(Some(user))
        .db_name(if db.is_empty() { None } else { Some(db) })
        .prefer_socket(false)
        .stmt_cache_size(0)
        .read_timeout(Some(PATIENCE))
        .max_allowed_packet(Some(PACKET_BYTES_MAX));
    Conn::new(options)
}

/// `SHOW GLOBAL STATUS LIKE pattern`, with the server's spelling of names.
pub fn status(conn: &mut Conn, pattern: &str) -> Result<BTreeMap<String, String>> {
    let rows: Vec<(String, String)> = conn
        .query(format!("SHOW GLOBAL STATUS LIKE '{pattern}'"))
        .with_context(|| format!("cannot read the status variables {pattern}"))?;
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
        .with_context(|| format!("cannot read the variable {name}"))?;
    value.with_context(|| format!("{name} is NULL"))
}
