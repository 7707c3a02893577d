//! The fields of one log line, version 1.
//!
//! A [`Record`] borrows its bytes: the writer thread builds one on its stack for every
//! line and formats it at once. Text is kept as the bytes the server gave, together with
//! the character set they are in; conversion is the formatter's work.
//!
//! The normative text is `docs/specs/record.md`.

use crate::charset::Charset;

/// Bytes of a digest as it is written: version, a colon, 32 digits.
pub const DIGEST_BYTES: usize = 34;

/// What a line is about. JSON field `event`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// A session was authenticated.
    Connect,
    /// A session ended.
    Disconnect,
    /// `COM_CHANGE_USER` completed.
    ChangeUser,
    /// A session was refused.
    ConnectFailed,
    /// A statement or another client command.
    Statement,
    /// A table was touched outside any statement the recorder knows of.
    Table,
    /// Records were lost; `count`, `cause`, `start_ts` and `ts` say how many, why and when.
    Lost,
    /// Recording began.
    Start,
    /// Recording ended in an orderly way.
    Stop,
    /// The recorder's own configuration was changed.
    Config,
    /// The server tells of something that is no statement; `class` and `action` say of what.
    Notice,
}

impl EventKind {
    /// All there are, those that most lines have first.
    pub const ALL: [EventKind; 11] = [
        Self::Statement,
        Self::Connect,
        Self::Disconnect,
        Self::ChangeUser,
        Self::ConnectFailed,
        Self::Table,
        Self::Lost,
        Self::Start,
        Self::Stop,
        Self::Config,
        Self::Notice,
    ];

    /// Its name in every log format.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::Disconnect => "disconnect",
            Self::ChangeUser => "change_user",
            Self::ConnectFailed => "connect_failed",
            Self::Statement => "statement",
            Self::Table => "table",
            Self::Lost => "lost",
            Self::Start => "start",
            Self::Stop => "stop",
            Self::Config => "config",
            Self::Notice => "notice",
        }
    }
}

/// How it ended. JSON field `outcome`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Completed without an error.
    Ok,
    /// Completed with `errno`.
    Error,
    /// Not ended yet; a later line with the same `conn` and `conn_seq` completes it.
    Running,
    /// The server died before it ended.
    Interrupted,
}

impl Outcome {
    /// All there are.
    pub const ALL: [Outcome; 4] = [Self::Ok, Self::Error, Self::Running, Self::Interrupted];

    /// Its name in every log format.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Error => "error",
            Self::Running => "running",
            Self::Interrupted => "interrupted",
        }
    }
}

/// One line of the log, borrowed.
///
/// `None` and empty strings are left out of the line. All names (`user`, `db`, `tables`
/// and so on) are in the server's system character set, UTF-8; `sql` is in `sql_charset`.
#[derive(Clone, Debug, Default)]
pub struct Record<'a> {
    /// Number of the line: 1, 2, 3 … over all files of a log directory, without a gap.
    pub seq: u64,
    /// When it happened (statements: when it started), µs since 1970-01-01 UTC.
    pub ts_us: i64,
    /// What it is about.
    pub event: Option<EventKind>,
    /// How it ended.
    pub outcome: Option<Outcome>,
    /// `seq` of the `start` line of the recorder that this happened under: connection ids begin
    /// again with each start of the server.
    pub run: Option<u64>,
    /// Connection id, as in `SHOW PROCESSLIST`.
    pub conn: Option<u64>,
    /// Number of the event within its connection: 1, 2, 3 …
    pub conn_seq: Option<u64>,
    /// The server's query id.
    pub query_id: Option<u64>,
    /// The fields from `user` to `command` as `json::write_identity` wrote them for the same
    /// values before; empty: they are written from the values.
    pub identity: &'a [u8],
    /// User name the client gave.
    pub user: &'a [u8],
    /// Account name the privileges come from.
    pub priv_user: &'a [u8],
    /// Proxy user.
    pub proxy_user: &'a [u8],
    /// Operating-system or external user.
    pub os_user: &'a [u8],
    /// Client host name.
    pub host: &'a [u8],
    /// Client address.
    pub ip: &'a [u8],
    /// Client port, where the server tells it.
    pub port: Option<u16>,
    /// Default database.
    pub db: &'a [u8],
    /// Client command, in the server's words ("Query", "Execute", "Init DB" …).
    pub command: &'a [u8],
    /// The server's own class of the statement ("select", "create_table" …).
    pub sql_command: &'a [u8],
    /// The same field as `json::write_sql_command` wrote it before; empty: it is written from the
    /// value.
    pub sql_command_json: &'a [u8],
    /// Server error number; 0 is left out.
    pub errno: u32,
    /// SQLSTATE of the error, five characters.
    pub sqlstate: &'a [u8],
    /// Error message.
    pub error: &'a [u8],
    /// The rule that has kept it from being executed.
    pub blocked_by: &'a [u8],
    /// Statement text, in `sql_charset`, already redacted. `None`: no text at all;
    /// `Some(b"")` is written as an empty string.
    pub sql: Option<&'a [u8]>,
    /// Length of the original text in bytes, when `sql` is not all of it.
    pub sql_bytes: Option<u64>,
    /// True when `sql` is not as it came: secrets, or all literals, were taken out.
    pub sql_redacted: bool,
    /// Character set of `sql`, the server's name for it ("utf8mb4", "latin1" …).
    pub sql_charset: &'a [u8],
    /// The character set of that name, when the caller has looked it up; then `sql_charset` is not
    /// looked at.
    pub charset: Option<&'static Charset>,
    /// Digest of the statement, as `tacho_sql::digest::Digest` is written: digits and a colon.
    pub digest: &'a [u8],
    /// Id of the rule that has rewritten the statement before it was parsed.
    pub rewrite_rule: Option<u64>,
    /// What was parsed instead of `sql`; in the same character set, already redacted.
    pub rewritten_query: Option<&'a [u8]>,
    /// Tables touched, in the order they were first touched.
    pub tables: &'a [TableUse<'a>],
    /// Rows sent to the client.
    pub rows_sent: Option<u64>,
    /// Rows read by the server for it.
    pub rows_examined: Option<u64>,
    /// Rows changed, inserted or deleted.
    pub rows_affected: Option<u64>,
    /// From the start of the statement to its end, µs.
    pub query_time_us: Option<u64>,
    /// Waiting for table locks, µs.
    pub lock_time_us: Option<u64>,
    /// Start of the time range of a `lost` line, µs since 1970-01-01 UTC.
    pub start_ts_us: Option<i64>,
    /// `seq` of the `running` line that this line completes (and that has the text).
    pub running_seq: Option<u64>,
    /// Number of records of a `lost` line.
    pub count: Option<u64>,
    /// Cause of a `lost` line ("timeout", "dropped", "corrupt").
    pub cause: &'a [u8],
    /// Server and version of a `start` line ("MariaDB 10.11.19 …").
    pub server: &'a [u8],
    /// Public key that the log can be verified with, for `start`.
    pub signing_key: &'a [u8],
    /// Program name from the connection attributes, where the server tells it.
    pub program: &'a [u8],
    /// TLS version of the session, where the server tells it.
    pub tls: &'a [u8],
    /// Variable of a `config` line.
    pub variable: &'a [u8],
    /// Its value before.
    pub old_value: &'a [u8],
    /// Its value after.
    pub new_value: &'a [u8],
    /// Of a `notice`: the server's class of such events ("authentication", "message" …).
    pub class: &'a [u8],
    /// What has happened ("authid_create", "set" …).
    pub action: &'a [u8],
    /// To what: an account, a variable, a stored program; of a message, the component that sends it.
    pub object: &'a [u8],
    /// Which part of the component sends it.
    pub producer: &'a [u8],
    /// The value, the message, the arguments.
    pub detail: &'a [u8],
    /// Length of the original in bytes with the attributes, when not all of it is there.
    pub detail_bytes: Option<u64>,
    /// What a message says besides, in the order in which it came.
    pub attributes: &'a [Attribute<'a>],
}

/// A key and a value that a message has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attribute<'a> {
    /// Its name.
    pub key: &'a [u8],
    /// Its value; a number in decimal digits.
    pub value: &'a [u8],
}

impl Record<'_> {
    /// The character set of `sql`. `None`: the server has none of that name.
    pub fn text_charset(&self) -> Option<&'static Charset> {
        self.charset.or_else(|| Charset::by_name(self.sql_charset))
    }
}

/// How a statement used a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableAccess {
    /// Locked for reading.
    Read,
    /// Locked for writing.
    Write,
    /// Created.
    Create,
    /// Dropped.
    Drop,
    /// Renamed, to `new_db`.`new_table`.
    Rename,
    /// Altered.
    Alter,
}

impl TableAccess {
    /// Its name in every log format.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Create => "create",
            Self::Drop => "drop",
            Self::Rename => "rename",
            Self::Alter => "alter",
        }
    }
}

/// One entry of `tables`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableUse<'a> {
    /// How it was used.
    pub access: TableAccess,
    /// Database.
    pub db: &'a [u8],
    /// Table.
    pub table: &'a [u8],
    /// New database of a rename.
    pub new_db: &'a [u8],
    /// New name of a rename.
    pub new_table: &'a [u8],
}
