//! `tacho ship`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use tacho_ship::hub::Address;
use tacho_ship::protocol::Origin;

use super::log::{IdentityArgs, LogDirectory};
use super::{duration, size};
use crate::login::LoginArgs;

/// Shown at the end of `tacho ship --help`.
const NOTES: &str = "\
For example
  tacho ship --hub https://hub.example:7780 --token-file /etc/tacho/hub.token

The hub gets the bytes of log files, seals and tombstones, and acknowledges what is on its disk.
Nothing that is needed is kept on this machine: after a start, tacho asks the hub where to continue.
Lines are shipped as soon as they are sealed. The file .shipped in the log directory says which log
files the hub has; the server keeps the others (tacho_retention_unshipped).

With --socket, --host or --defaults-file the hub also shows the status of the server and what its
sessions do, without literals. The account needs the privilege PROCESS, and nothing else.

Exit code: 0 success; 1 files that could not be shipped, a log that contradicts the hub's copy, or
--give-up-after has passed (see stderr); 2 wrong usage.";

/// Arguments of `tacho ship`.
#[derive(Args, Debug)]
#[command(after_help = NOTES)]
pub struct ShipArgs {
    /// The log.
    #[command(flatten)]
    pub log: LogDirectory,

    /// Address of the hub, https://HOST[:PORT]. http:// is permitted to a loopback address only
    #[arg(long, value_name = "URL")]
    pub hub: Address,

    /// File with the token that `tacho-hub token create --role agent` printed
    #[arg(long, value_name = "FILE")]
    pub token_file: PathBuf,

    /// Name of this log at the hub [default: the name of this machine]
    #[arg(long, value_name = "NAME")]
    pub name: Option<Origin>,

    /// Ship everything that is there, and exit when the hub has acknowledged it
    #[arg(long, conflicts_with = "check")]
    pub once: bool,

    /// Compare the log with the hub's copy, and exit without shipping
    #[arg(long)]
    pub check: bool,

    /// Send at most this many bytes per second [default: as many as the hub permits]
    #[arg(long, value_name = size::NAME, value_parser = size::between(1024, 1 << 40))]
    pub max_rate: Option<u64>,

    /// Exit with code 1 if the hub has accepted nothing for this long [default: retry without
    /// limit]
    #[arg(long, value_name = duration::NAME, value_parser = duration::any)]
    pub give_up_after: Option<Duration>,

    /// File that caches which log files the hub has completely. It may be deleted
    #[arg(long, value_name = "FILE")]
    pub state: Option<PathBuf>,

    /// Do not make retention on this machine wait until the hub has a log file
    #[arg(long, conflicts_with = "check")]
    pub no_retain: bool,

    /// Certificate authorities to trust for the hub, PEM [default: the system's]
    #[arg(long, value_name = "FILE")]
    pub tls_ca: Option<PathBuf>,

    /// Encrypted files.
    #[command(flatten)]
    pub identity: IdentityArgs,

    /// The server whose status and sessions the hub shows.
    #[command(flatten)]
    pub server: LoginArgs,
}
