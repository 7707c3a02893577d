//! The command line of `tacho-hub`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use tacho_ship::protocol::Origin;

use crate::alerts::AlertArgs;
use crate::local::LocalLog;
use crate::retention::{DAYS_DEFAULT, DAYS_MAX, OWN_LOG_DAYS_DEFAULT};
use crate::roles::Roles;

/// Keep, verify and search the audit logs of many servers.
#[derive(Parser, Debug)]
#[command(name = "tacho-hub", version, propagate_version = true, max_term_width = 100)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The subcommands.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Serve: receive logs, answer requests
    Serve(Box<ServeArgs>),
    /// Manage accounts of people
    #[command(subcommand)]
    Account(AccountCommand),
    /// Manage API tokens
    #[command(subcommand)]
    Token(TokenCommand),
    /// Send alerts
    #[command(subcommand)]
    Alert(AlertCommand),
    /// Show and set how long the logs of servers are kept
    #[command(subcommand)]
    Retention(RetentionCommand),
    /// Run one SELECT over the view `records`; works beside a running hub
    Sql(SqlArgs),
    /// Write the records that a search finds, with their proof, into a file for `tacho verify`;
    /// works beside a running hub
    Export(ExportArgs),
    /// Convert a log to Parquet or SQLite, for analysis by other programs; needs no hub
    Convert(ConvertArgs),
    /// Copy everything that a hub keeps, except the index, to a new directory; works beside a
    /// running hub
    Backup(BackupArgs),
    /// Build the index again from the replica; the hub must not run
    Reindex(DataArgs),
    /// Print the completion script of a shell
    Completions {
        /// The shell
        shell: tacho_manual::Shell,
    },
    /// Write the manual pages
    Man {
        /// Directory for one page per command, which is made if necessary [default: the main page
        /// to stdout]
        #[arg(long, short, value_name = "DIR")]
        output: Option<PathBuf>,
    },
    /// Run queries of the hub
    #[command(hide = true)]
    QueryWorker,
}

/// Where everything is.
#[derive(Args, Debug)]
pub struct DataArgs {
    /// Directory with everything that the hub keeps
    #[arg(long = "data", value_name = "DIR")]
    pub directory: PathBuf,
}

/// `tacho-hub serve`
#[derive(Args, Debug)]
pub struct ServeArgs {
    /// Where everything is.
    #[command(flatten)]
    pub data: DataArgs,
    /// Address and port to listen on. Port 0: any free one, which is printed
    #[arg(long, value_name = "IP:PORT", default_value = "127.0.0.1:7780")]
    pub listen: SocketAddr,
    /// Certificate of the hub, and those between it and its authority (PEM); needed to listen on an
    /// address that is not loopback
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,
    /// Key of the certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
    /// Connections that one address may have at a time
    #[arg(long, value_name = "NUMBER", default_value_t = 256)]
    pub connections_per_address: usize,
    /// Log directory of this machine, served without a shipper, as the server NAME [default: the
    /// name of this machine]; can be repeated
    #[arg(long = "log", value_name = "[NAME=]DIR")]
    pub logs: Vec<LocalLog>,
    /// Free space in MiB that the hub leaves on the disk: with less it accepts no logs
    #[arg(long, value_name = "MIB", default_value_t = 1024, overrides_with = "reserve_mib")]
    pub reserve_mib: u64,
    /// Days for which the hub keeps the log of a server without a setting of its own (see
    /// `tacho-hub retention`); 0: for ever
    #[arg(long, value_name = "DAYS", default_value_t = DAYS_DEFAULT, value_parser = days())]
    pub retention_days: u64,
    /// Days for which the hub keeps its own log; 0: for ever
    #[arg(long, value_name = "DAYS", default_value_t = OWN_LOG_DAYS_DEFAULT, value_parser = days())]
    pub audit_days: u64,
    /// Keep log files as they arrive: without it, the hub compresses those that are complete
    #[arg(long)]
    pub no_compression: bool,
    /// Where alerts are sent.
    #[command(flatten)]
    pub alerts: AlertArgs,
}

/// `tacho-hub sql`
#[derive(Args, Debug)]
pub struct SqlArgs {
    /// Where everything is.
    #[command(flatten)]
    pub data: DataArgs,
    /// Format of the rows
    #[arg(long, value_enum, default_value_t = RowFormat::Csv)]
    pub format: RowFormat,
    /// Seconds that the query may take
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    pub timeout: u64,
    /// The query
    #[arg(value_name = "SELECT")]
    pub sql: String,
}

/// `tacho-hub export`
#[derive(Args, Debug)]
pub struct ExportArgs {
    /// Where everything is.
    #[command(flatten)]
    pub data: DataArgs,
    /// Search, as in the web UI [default: all records]
    #[arg(long, value_name = "SEARCH", default_value = "", hide_default_value = true)]
    pub q: String,
    /// First time: RFC 3339, or before now as -2h [default: the first record]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub from: Option<String>,
    /// End, not included [default: the last record]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub to: Option<String>,
    /// This server only; can be repeated
    #[arg(long = "server", value_name = "NAME")]
    pub servers: Vec<Origin>,
    /// New file for the bundle; an existing file is not overwritten
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
    /// Fails if the search finds more records
    #[arg(long, value_name = "NUMBER", default_value_t = 1_000_000)]
    pub max_records: u64,
    /// Fails if the bundle would have more MiB
    #[arg(long, value_name = "MIB", default_value_t = 8_000)]
    pub max_mib: u64,
}

/// Shown at the end of `tacho-hub convert --help`.
const CONVERT_NOTES: &str = "\
Each record is a row with a column for each field of the log (docs/specs/record.md), and the column
`server`. A long statement, which has two lines in the log, is one row.

To convert a part of a log, choose its lines with `tacho tail`:
  tacho tail -n all --since 7d --user 'app*' --format json |
      tacho-hub convert - --format sqlite -o app.db";

/// `tacho-hub convert`
#[derive(Args, Debug)]
#[command(after_help = CONVERT_NOTES)]
pub struct ConvertArgs {
    /// Log directories, log files, or `-` for a log on stdin
    #[arg(value_name = "DIR|FILE", required = true)]
    pub logs: Vec<PathBuf>,
    /// Format of the result
    #[arg(long, value_name = "FORMAT", value_enum)]
    pub format: FileFormat,
    /// New file for the result; an existing file is not overwritten
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
    /// Name of the server, for the column `server` [default: the name of this machine]
    #[arg(long, value_name = "NAME")]
    pub server: Option<String>,
    /// File with a secret key for encrypted files (.age), as `age-keygen` writes it; may be
    /// repeated
    #[arg(long, value_name = "FILE")]
    pub identity: Vec<PathBuf>,
}

/// Formats of `tacho-hub convert`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum FileFormat {
    /// Apache Parquet: DuckDB, Spark, pandas, ClickHouse
    Parquet,
    /// A SQLite database with the table `records`
    Sqlite,
}

/// `tacho-hub backup`
#[derive(Args, Debug)]
pub struct BackupArgs {
    /// Where everything is.
    #[command(flatten)]
    pub data: DataArgs,
    /// New directory for the copy, which is a data directory; an existing one is not overwritten
    #[arg(short, long, value_name = "DIR")]
    pub output: PathBuf,
}

/// How rows are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum RowFormat {
    /// Comma-separated values with a head line
    Csv,
    /// One JSON object for each row
    Json,
}

/// `tacho-hub token …`
#[derive(Subcommand, Debug)]
pub enum TokenCommand {
    /// Make a token and print it; works beside a running hub
    Create(TokenCreateArgs),
}

/// `tacho-hub token create`
#[derive(Args, Debug)]
pub struct TokenCreateArgs {
    /// Where everything is.
    #[command(flatten)]
    pub data: DataArgs,
    /// What it permits: agent (ship to one server), viewer (search without literals), auditor
    /// (search everything) or admin (manage, no statements); several with + between them
    #[arg(long, value_name = "ROLE")]
    pub role: Roles,
    /// For this server only; can be repeated. A token for shipping needs exactly one
    #[arg(long = "server", value_name = "NAME")]
    pub servers: Vec<Origin>,
    /// Name of the token, for people
    #[arg(long, value_name = "TEXT")]
    pub name: Option<String>,
    /// Days until it expires [default: never]
    #[arg(long, value_name = "DAYS", value_parser = clap::value_parser!(u32).range(1..=36_500))]
    pub days: Option<u32>,
}

/// `tacho-hub alert …`
#[derive(Subcommand, Debug)]
pub enum AlertCommand {
    /// Send a test to each channel with which a hub was last started on DIR, and print the outcome
    Test(DataArgs),
}

/// `tacho-hub retention …`
#[derive(Subcommand, Debug)]
pub enum RetentionCommand {
    /// Print how long the log of each server is kept; works beside a running hub
    Show(DataArgs),
    /// Set how long the log of a server is kept; works beside a running hub, which removes older
    /// files within seconds
    Set(RetentionSetArgs),
}

/// `tacho-hub retention set`
#[derive(Args, Debug)]
pub struct RetentionSetArgs {
    /// Where everything is.
    #[command(flatten)]
    pub data: DataArgs,
    /// The server
    #[arg(long, value_name = "NAME")]
    pub server: Origin,
    /// Days for which its log is kept; 0: for ever
    #[arg(long, value_name = "DAYS", value_parser = days(), required_unless_present = "default")]
    pub days: Option<u64>,
    /// As long as the hub was started with
    #[arg(long, conflicts_with = "days")]
    pub default: bool,
}

/// A number of days.
fn days() -> clap::builder::RangedU64ValueParser<u64> {
    clap::builder::RangedU64ValueParser::new().range(0..=DAYS_MAX)
}

/// `tacho-hub account …`
#[derive(Subcommand, Debug)]
pub enum AccountCommand {
    /// Make an account; its password is the first line of stdin
    Create(AccountCreateArgs),
}

/// `tacho-hub account create`
#[derive(Args, Debug)]
pub struct AccountCreateArgs {
    /// Where everything is.
    #[command(flatten)]
    pub data: DataArgs,
    /// What it may do: viewer (search without literals), auditor (search everything) or admin
    /// (manage, no statements); several with + between them
    #[arg(long, value_name = "ROLE")]
    pub role: Roles,
    /// For this server only; can be repeated
    #[arg(long = "server", value_name = "NAME")]
    pub servers: Vec<Origin>,
    /// Name of the account
    pub name: String,
}
