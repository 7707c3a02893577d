//! Capabilities: what server and client have agreed upon.

/// Server and client are MySQL, or speak as it: without it, MariaDB has capabilities of its own.
pub const MYSQL: u64 = 1;
/// The login names a database.
pub const CONNECT_WITH_DB: u64 = 1 << 3;
/// Packets are compressed by zlib.
pub const COMPRESS: u64 = 1 << 5;
/// The protocol since 4.1.
pub const PROTOCOL_41: u64 = 1 << 9;
/// The connection continues with TLS.
pub const SSL: u64 = 1 << 11;
/// Passwords of 4.1.
pub const SECURE_CONNECTION: u64 = 1 << 15;
/// The login names an authentication plugin.
pub const PLUGIN_AUTH: u64 = 1 << 19;
/// The login has attributes.
pub const CONNECT_ATTRS: u64 = 1 << 20;
/// The length of the authentication data may have more than one byte.
pub const PLUGIN_AUTH_LENENC: u64 = 1 << 21;
/// OK packets report changes of the session.
pub const SESSION_TRACK: u64 = 1 << 23;
/// Result sets end with an OK packet instead of an EOF packet.
pub const DEPRECATE_EOF: u64 = 1 << 24;
/// Result sets may come without the description of their columns.
pub const OPTIONAL_METADATA: u64 = 1 << 25;
/// Packets are compressed by zstd.
pub const ZSTD: u64 = 1 << 26;
/// Statements have attributes.
pub const QUERY_ATTRIBUTES: u64 = 1 << 27;
/// MariaDB: the server reports progress.
pub const MARIADB_PROGRESS: u64 = 1 << 32;
/// MariaDB: the client can keep the description of columns.
pub const MARIADB_CACHE_METADATA: u64 = 1 << 36;

/// OK and EOF: another result follows.
pub const STATUS_MORE_RESULTS: u16 = 8;
/// The rows of a result are fetched later.
pub const STATUS_CURSOR: u16 = 0x40;
/// The OK packet says what has changed in the session.
pub const STATUS_SESSION_CHANGED: u16 = 0x4000;
