//! The protocol of MySQL and MariaDB, from the bytes of a connection to events.
//!
//! | module | contents |
//! |---|---|
//! | `frame` | packets: length, sequence number, continuation |
//! | `inflate` | compressed packets |
//! | `read` | the values of a packet |
//! | `caps`, `login`, `command`, `answer` | single packets |
//! | `params` | the values of a prepared statement's parameters |
//! | `response` | all packets of one answer |
//! | `session` | a connection from its greeting to its end |
//! | `resync` | what may be a command, after a gap |
//! | `text` | the text of a command, in memory or in a file |
//! | `charset`, `release`, `track` | the character set and the database of a session |

mod answer;
mod caps;
mod charset;
mod command;
mod frame;
mod inflate;
mod login;
mod params;
mod proxy;
mod read;
mod release;
mod response;
mod resync;
pub mod session;
mod text;
mod track;

use std::sync::Arc;

use crate::spool::{COMMAND_BYTES_MAX, Spool};
pub use answer::Failure;
pub use login::{Client, Greeting};

/// The sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The client.
    Client = 0,
    /// The server.
    Server = 1,
}

impl Side {
    /// The other one.
    pub fn other(self) -> Side {
        match self {
            Side::Client => Side::Server,
            Side::Server => Side::Client,
        }
    }
}

/// Whose session it is, as far as packets have said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// The server's id of the connection; 0: not known.
    pub conn: u32,
    /// The capture's own number of the connection.
    pub number: u32,
    /// The user's name.
    pub user: Vec<u8>,
    /// The operating-system user, if the client sends it.
    pub os_user: Vec<u8>,
    /// The default database.
    pub db: Vec<u8>,
    /// The server's name of the character set of statements; empty: not known.
    pub charset: Vec<u8>,
    /// The client's address.
    pub ip: String,
    /// The client's port.
    pub port: u16,
    /// The server's address and port.
    pub server_addr: String,
    /// The capture has not seen all of the session.
    pub is_partial: bool,
}

/// The answer to a command, as bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AnswerBytes {
    /// What the server has sent, with the headers of the packets, and compressed if they are; 0:
    /// there was no answer.
    pub bytes_sent: u64,
    /// From the last byte of the command to the first one of the answer, µs.
    pub first_byte_us: u64,
}

/// What the answer to a statement says besides its rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Remarks {
    /// The last value of an `AUTO_INCREMENT` column, or of `LAST_INSERT_ID(expr)`; 0: none.
    pub last_insert_id: u64,
    /// The number of warnings.
    pub warnings: u64,
    /// The text about the statement, in UTF-8; empty: none.
    pub info: Vec<u8>,
}

/// How a command ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandEnd {
    /// The server's name of the command.
    pub command: &'static str,
    /// The error.
    pub failure: Option<Failure>,
    /// Rows sent.
    pub rows_sent: Option<u64>,
    /// Rows affected.
    pub rows_affected: Option<u64>,
    /// From the last byte of the command to the last one of the answer, µs.
    pub query_time_us: u64,
    /// The answer.
    pub answer: AnswerBytes,
    /// What it says besides the rows; not of commands without a text.
    pub remarks: Remarks,
    /// The text is known to be one statement.
    pub is_one: bool,
}

/// Why a part of a connection is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Bytes were not captured.
    TcpGap,
    /// Bytes are not of the protocol, or of a part of it that is not understood.
    Protocol,
    /// After one of these: bytes up to the next command that is certain.
    Resync,
    /// A statement is longer than the limit.
    TooLarge,
    /// A long statement could not be kept in a file.
    Disk,
    /// The memory of the capture is used up.
    Memory,
    /// The connection is encrypted.
    Tls,
    /// The connection ended before the answer to a login or a command without a text, or within a
    /// command.
    Unanswered,
}

impl Cause {
    /// Its name in a line.
    pub const fn name(self) -> &'static str {
        match self {
            Cause::TcpGap => "tcp_gap",
            Cause::Protocol => "protocol",
            Cause::Resync => "resync",
            Cause::TooLarge => "too_large",
            Cause::Disk => "disk",
            Cause::Memory => "memory",
            Cause::Tls => "tls",
            Cause::Unanswered => "unanswered",
        }
    }
}

/// Something that becomes a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event<'e> {
    /// A login succeeded, or failed.
    Login {
        /// Why it failed.
        failure: Option<Failure>,
        /// What the client says about itself.
        client: Client,
    },
    /// The user was changed, or not.
    ChangeUser {
        /// Why not.
        failure: Option<Failure>,
    },
    /// A command with a text begins.
    Start {
        /// The server's name of the command.
        command: &'static str,
        /// Its text; `None`: it was not captured, or is not known.
        text: Option<&'e [u8]>,
    },
    /// The parameters of the command that has begun.
    Params {
        /// As a record in the arena has them.
        text: &'e [u8],
        /// The length of all of them as they were sent, if some are cut or missing; otherwise 0.
        whole_bytes: u64,
    },
    /// It ended.
    End(CommandEnd),
    /// A command without a text was executed.
    Point(CommandEnd),
    /// The connection ended.
    Disconnect,
    /// A part of the connection is missing.
    Lost {
        /// Why.
        cause: Cause,
        /// How much; 0: not known.
        bytes: u64,
        /// Since when, µs since 1970-01-01 UTC.
        since_us: i64,
    },
}

/// Takes the events.
pub trait Output {
    /// Takes one of them; `ts_us` is when it happened, µs since 1970-01-01 UTC.
    fn emit(&mut self, session: &Identity, ts_us: i64, event: &Event<'_>);

    /// A session has no more events, and its last one was not `Disconnect`.
    fn leave(&mut self, _session: &Identity) {}
}

/// Limits of one connection.
#[derive(Clone, Debug)]
pub struct Limits {
    /// The longest statement in memory, bytes.
    pub statement_bytes: usize,
    /// Where commands of several packets are kept instead; otherwise they are in memory, too.
    pub spool: Option<Arc<Spool>>,
    /// The most in these files, bytes.
    pub file_bytes: u64,
    /// Commands that were sent before the answer to the first of them.
    pub commands: usize,
    /// The bytes of these.
    pub command_bytes: usize,
    /// The values of a statement's parameters that are recorded, bytes; 0: none are.
    pub params_bytes: usize,
    /// Encrypted connections may be decrypted elsewhere; otherwise they are declared at once.
    pub reads_tls: bool,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            statement_bytes: 64 << 20,
            spool: None,
            file_bytes: COMMAND_BYTES_MAX,
            commands: 4096,
            command_bytes: 64 << 20,
            params_bytes: 1 << 10,
            reads_tls: false,
        }
    }
}
