//! `tacho convert` and `tacho slowlog`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use tacho_ship::syslog::Destination;

use super::duration;
use super::log::{FollowArgs, LogSources, OutputFile, ReadArgs, ZoneArgs};

/// How the log is read by commands that convert it.
#[derive(Args, Debug)]
pub struct LogArgs {
    /// New lines.
    #[command(flatten)]
    pub follow: FollowArgs,

    /// Which lines; WHEN and filters as in `tacho tail`.
    #[command(flatten)]
    pub read: ReadArgs,

    /// Times of the result.
    #[command(flatten)]
    pub zone: ZoneArgs,
}

/// Shown at the end of `tacho convert --help`.
const CONVERT_NOTES: &str = "\
WHEN and filters are described in `tacho tail --help`.

A long statement has two lines in the log, `running` and its end. The result has one, at the end;
with --follow, it appears when the statement ends. Filters apply to that one, but with `--format
syslog` to each line. Fields that the format has no name for are
written as extensions: docs/specs/formats.md has a table for each format.

Parquet files and SQLite databases: `tacho-hub convert`, of the package tacho-hub.

Bytes that are not text, which the log keeps in base64, become U+FFFD, except in `--format json`.
The log itself is the exact record.

To send the log continuously, use --follow and --state; docs/guide/syslog.md describes the
guarantees. Each line of the log is one message, with any --syslog-body: a long statement is two.
The receiver's certificate is always verified.

Exit code: 0 success; 1 broken lines or unreadable files (see stderr), which are missing from the
result, or lines missing from the log that was sent, or --give-up-after has passed; 2 wrong usage.";

/// Arguments of `tacho convert`.
#[derive(Args, Debug)]
#[command(after_help = CONVERT_NOTES)]
pub struct ConvertArgs {
    /// The logs.
    #[command(flatten)]
    pub source: LogSources,

    /// The destination of the result.
    #[command(flatten)]
    pub output: OutputFile,

    /// Format of the result
    #[arg(long, value_name = "FORMAT", value_enum)]
    pub format: Target,

    /// How it is read.
    #[command(flatten)]
    pub log: LogArgs,

    /// Name of the server's machine, in formats that have one [default: this machine's]
    #[arg(long, value_name = "NAME")]
    pub server_host: Option<String>,

    /// With `--format csv-full`: put ' before texts that a spreadsheet would execute as formulas
    #[arg(long)]
    pub guard_formulas: bool,

    /// Body of a message of `--format syslog`
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t)]
    pub syslog_body: SyslogBody,

    /// The destination of messages.
    #[command(flatten)]
    pub send: SendArgs,
}

/// The destination of syslog messages.
#[derive(Args, Debug)]
pub struct SendArgs {
    /// Send the messages of `--format syslog` to udp://HOST:PORT, tcp://HOST:PORT, tls://HOST:PORT
    /// or a socket such as /dev/log. Retries until the receiver is reachable
    #[arg(id = "send", long = "send", value_name = "RECEIVER", conflicts_with = "output")]
    pub to: Option<Destination>,

    /// File that stores the send position. The next run resumes there; --since applies to the
    /// first run only
    #[arg(long, value_name = "FILE", requires = "send")]
    pub state: Option<PathBuf>,

    /// Exit with code 1 if the receiver is not reachable for this long [default: retry without
    /// limit]
    #[arg(long, value_name = duration::NAME, requires = "send", value_parser = duration::any)]
    pub give_up_after: Option<Duration>,

    /// Certificate authorities to trust for the receiver, PEM [default: the system's]
    #[arg(long, value_name = "FILE", requires = "send")]
    pub tls_ca: Option<PathBuf>,

    /// Client certificate with its intermediate certificates, PEM
    #[arg(long, value_name = "FILE", requires = "send", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,

    /// Key of --tls-cert, PEM
    #[arg(long, value_name = "FILE", requires = "send", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,

    /// Name that the receiver's certificate must have [default: HOST]
    #[arg(long, value_name = "NAME", requires = "send")]
    pub tls_server_name: Option<String>,
}

/// The body of syslog messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum SyslogBody {
    /// The line of the log
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
    /// Comma-separated lines of MariaDB's server_audit
    Csv,
    /// All fields of the log as columns with a header (RFC 4180)
    CsvFull,
    /// One JSON array of all records; the log itself has a JSON object a line
    Json,
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
    /// RFC 5424 messages, one a line, with the body of --syslog-body
    Syslog,
}

/// Shown at the end of `tacho slowlog --help`.
const SLOWLOG_NOTES: &str = "\
For example
  tacho slowlog --since today | pt-query-digest
  tacho slowlog --min-time 1s -o slow.log && mariadb-dumpslow slow.log

WHEN and filters are described in `tacho tail --help`. A statement with two lines in the log is
filtered as one.

The result has all statements that have ended, including those in stored programs, but not commands
such as Ping. Statements without a query time are left out; stderr has their number.

Exit code: 0 success; 1 broken lines or unreadable files (see stderr); 2 wrong usage.";

/// Arguments of `tacho slowlog`.
#[derive(Args, Debug)]
#[command(after_help = SLOWLOG_NOTES)]
pub struct SlowlogArgs {
    /// The logs.
    #[command(flatten)]
    pub source: LogSources,

    /// The destination of the result.
    #[command(flatten)]
    pub output: OutputFile,

    /// How it is read.
    #[command(flatten)]
    pub log: LogArgs,
}
