//! `tacho convert` and `tacho slowlog`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::IdentityArgs;
use super::number;
use crate::convert::Destination;
use crate::line_limit::LimitArgs;

/// What commands that convert the log have in common.
#[derive(Args, Debug)]
pub struct LogArgs {
    /// Log directory, log files, or `-` for stdin [default: $TACHO_LOG_DIR, then
    /// /var/lib/mysql/tacho]
    #[arg(value_name = "DIR|FILE")]
    pub paths: Vec<PathBuf>,

    /// Write to this file, which must not be there yet, instead of stdout
    #[arg(short, long, value_name = "FILE")]
    pub out: Option<PathBuf>,

    /// Encrypted files.
    #[command(flatten)]
    pub identity: IdentityArgs,

    /// Long lines.
    #[command(flatten)]
    pub limit: LimitArgs,

    /// Only lines of this time or later; WHEN as in `tacho tail`
    #[arg(long, value_name = "WHEN")]
    pub since: Option<String>,

    /// Only lines before this time
    #[arg(long, value_name = "WHEN")]
    pub until: Option<String>,

    /// Go on with lines as they are written, across rotation, until Ctrl-C
    #[arg(short, long, conflicts_with = "until")]
    pub follow: bool,

    /// Time stamps in UTC instead of local time
    #[arg(long)]
    pub utc: bool,
}

/// Shown at the end of `tacho convert --help`.
const CONVERT_NOTES: &str = "\
A statement that ran long has two lines in the log and one in the result, where it ended; with
--follow it is shown then. What a format has no name for is written as an extension of it:
docs/specs/formats.md has a table for each.

Bytes that are not text, which the log keeps in base64, are shown as U+FFFD: the log itself is the
exact record.

Sending with --follow and --state is for a service that runs for months: docs/guide/syslog.md says
what it promises. Every line of the log is a message, whatever --syslog-body it has: a statement that ran long
is two. The receiver's certificate is always verified.

Exit code: 0 fine; 1 broken lines or unreadable files (told on stderr), which are
missing from the result, lines missing from the log that was sent, or --give-up-after has passed; 2
wrong usage.";

/// Arguments of `tacho convert`.
#[derive(Args, Debug)]
#[command(after_help = CONVERT_NOTES)]
pub struct ConvertArgs {
    /// The log.
    #[command(flatten)]
    pub log: LogArgs,

    /// Format of the result
    #[arg(long, value_name = "FORMAT", value_enum)]
    pub to: Target,

    /// Name of the server's machine, in formats that have one [default: this machine's]
    #[arg(long, value_name = "NAME")]
    pub server_host: Option<String>,

    /// What a message of `--to syslog` holds
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t)]
    pub syslog_body: SyslogBody,

    /// Where to send.
    #[command(flatten)]
    pub send: SendArgs,
}

/// Where syslog messages go, and how.
#[derive(Args, Debug)]
pub struct SendArgs {
    /// Send the messages of `--to syslog` to udp://HOST:PORT, tcp://HOST:PORT, tls://HOST:PORT or a
    /// socket such as /dev/log. Retries until the receiver is reachable
    #[arg(id = "send", long = "send", value_name = "RECEIVER", conflicts_with = "out")]
    pub to: Option<Destination>,

    /// Where the sending got to is kept in this file; a new start goes on there, and --since is for
    /// the first start only
    #[arg(long, value_name = "FILE", requires = "send")]
    pub state: Option<PathBuf>,

    /// Give up when the receiver was not reachable for so many seconds; exit code 1 [default: retry
    /// until it is reachable]
    #[arg(long, value_name = "SECONDS", requires = "send", value_parser = number::whole::<u32>)]
    pub give_up_after: Option<u32>,

    /// Authorities that the receiver's certificate may come from, PEM [default: the system's]
    #[arg(long, value_name = "FILE", requires = "send")]
    pub tls_ca: Option<PathBuf>,

    /// Certificate to show to the receiver, PEM, with those up to its authority
    #[arg(long, value_name = "FILE", requires = "send", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,

    /// Key of --tls-cert, PEM
    #[arg(long, value_name = "FILE", requires = "send", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,

    /// Name that the receiver's certificate must have [default: HOST]
    #[arg(long, value_name = "NAME", requires = "send")]
    pub tls_server_name: Option<String>,
}

/// What syslog messages hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum SyslogBody {
    /// The log's own line
    #[default]
    Json,
    /// ArcSight Common Event Format
    Cef,
    /// QRadar Log Event Extended Format 2.0
    Leef,
    /// Elastic Common Schema 9.4.0
    Ecs,
    /// Open Cybersecurity Schema Framework 1.5.0
    Ocsf,
}

/// Formats of `tacho convert`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Target {
    /// MariaDB server_audit's comma-separated lines
    Csv,
    /// Percona audit_log, JSON
    PerconaJson,
    /// Percona audit_log, new XML: elements
    PerconaNew,
    /// Percona audit_log, old XML: attributes
    PerconaOld,
    /// Open Cybersecurity Schema Framework 1.5.0, one JSON object a line
    Ocsf,
    /// Elastic Common Schema 9.4.0, one JSON object a line
    Ecs,
    /// ArcSight Common Event Format
    Cef,
    /// QRadar Log Event Extended Format 2.0
    Leef,
    /// RFC 5424 messages, one a line, around what --syslog-body says
    Syslog,
}

/// Shown at the end of `tacho slowlog --help`.
const SLOWLOG_NOTES: &str = "\
For example
  tacho slowlog --since today | pt-query-digest
  tacho slowlog --min-query-time-us 1000000 -o slow.log && mariadb-dumpslow slow.log

All statements that have ended are in it, those within stored programs, too; commands such as Ping
are not. Statements without a query time are counted on stderr and left out.

Exit code: 0 fine; 1 broken lines or unreadable files (told on stderr); 2 wrong usage.";

/// Arguments of `tacho slowlog`.
#[derive(Args, Debug)]
#[command(after_help = SLOWLOG_NOTES)]
pub struct SlowlogArgs {
    /// The log.
    #[command(flatten)]
    pub log: LogArgs,

    /// Only statements that took at least this long, in microseconds
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = number::whole::<u64>)]
    pub min_query_time_us: u64,
}
