//! `tacho capture`.

use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args};
use tacho_capture::flows::Budget;
use tacho_capture::mysql::Limits;

use super::enrich::EnrichArgs;
use super::report::ReportFormat;
use super::{duration, size};

/// Shown at the end of `tacho capture --help`.
const NOTES: &str = "\
For example
  tacho capture --interface eth0 --server 192.0.2.1:3306 --log /var/log/tacho-capture
  tacho capture --read mysql.pcap | jq .sql
  tacho capture --check --interface eth0

Each line is a record as the plugin writes it, with \"source\":\"capture\" and the address of the
server. What the packets do not show is declared in `lost` lines: bytes that were not captured,
encrypted connections, what is not understood. Sessions that were joined after their login have
\"session\":\"partial\".

With --interface the command runs in the foreground until SIGTERM or Ctrl-C, and writes its messages
to stderr. It needs the capability CAP_NET_RAW to open its socket, and gives up all capabilities
after that. As root, it also switches to the user that owns the log directory, or the directory
above if that is missing; if that is root, --user is required.

With --threads, all packets of a connection reach the same thread, in both directions. The threads
share --ring-size and the limits for memory. --check listens with one thread.

Without --server, --read finds connections to port 3306, and those whose server greets as MySQL.

--check listens for a while, records nothing, and shows what would be recorded: the interface, the
privileges, the servers that greet a client, the share of encrypted connections, statements. It
connects to no server, so it finds only those that have clients. SIGTERM and Ctrl-C end it early.
With --log it also tests whether the log could be written. As root without --log and --user, it
switches to the user id 65534, which owns no file.

With --enrich-socket or --enrich-host and an account, the server is asked for the user, the database
and the prepared statements of sessions that began before the capture, or have a gap. An answer is
used only if it is certain. The account needs the privilege PROCESS, and for prepared statements and
on MySQL also SELECT on performance_schema. Its password comes from a file. Sessions of the server
without packets, on its Unix socket, are counted; --check does so, too.

Exit code: 0 success, with --check: statements would be recorded; 1 failed, with --check: no
statement would be recorded, without it: the file could not be read to its end (see stderr); 2 wrong
usage.";

/// Where packets come from.
fn source() -> ArgGroup {
    ArgGroup::new("source").required(true).args(["read", "interface"])
}

/// Where the server is that is asked about sessions.
fn enrich_address() -> ArgGroup {
    ArgGroup::new("enrich_address").args(["enrich_socket", "enrich_host"])
}

impl CaptureArgs {
    /// Memory and other limits of connections.
    pub fn budget(&self) -> Budget {
        let params_bytes = usize::try_from(self.max_params_size).unwrap_or(usize::MAX);
        let file_bytes = self.max_statement_size;
        let statement_bytes = Limits::default().statement_bytes;
        let in_memory = usize::try_from(file_bytes).unwrap_or(usize::MAX).min(statement_bytes);
        let each =
            Limits { params_bytes, file_bytes, statement_bytes: in_memory, ..Limits::default() };
        Budget { each, ..Budget::default() }
    }
}

/// Arguments of `tacho capture`.
#[derive(Args, Debug)]
#[command(after_help = NOTES, group(source()), group(enrich_address()))]
pub struct CaptureArgs {
    /// Read this packet file (pcap or pcapng; `-` is stdin) and write its records to stdout
    #[arg(long, value_name = "FILE")]
    pub read: Option<PathBuf>,

    /// Capture on this interface, and write its records to a log; `any` is all of them
    #[arg(long, value_name = "INTERFACE")]
    pub interface: Option<String>,

    /// Address and port of a server; 0.0.0.0 or [::] is any address. May be repeated
    #[arg(long, value_name = "IP:PORT", required_unless_present_any = ["read", "check"])]
    pub server: Vec<SocketAddr>,

    /// Directory of the log, made if it is missing
    #[arg(long, value_name = "DIR", requires = "interface",
          required_unless_present_any = ["read", "check"])]
    pub log: Option<PathBuf>,

    /// Record nothing, but listen on the interface and show what would be recorded
    #[arg(long, requires = "interface", conflicts_with = "read")]
    pub check: bool,

    /// How long --check listens
    #[arg(long, value_name = duration::NAME, value_parser = duration::up_to_an_hour,
          default_value = "10s", requires = "check")]
    pub check_time: Duration,

    /// Format of the result of --check
    #[command(flatten)]
    pub report: ReportFormat,

    /// Signing key of the log, made if it is missing [default: tacho-signing.key beside the log
    /// directory]
    #[arg(long, value_name = "FILE", requires = "interface")]
    pub signing_key_file: Option<PathBuf>,

    /// As root: switch to this user [default: the owner of the log directory]
    #[arg(long, value_name = "USER", requires = "interface")]
    pub user: Option<String>,

    /// Threads that take packets; all packets of a connection go to one of them
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=16),
          default_value = "1", requires = "interface")]
    pub threads: u32,

    /// Memory for packets that wait, between the kernel and this command, of all threads together
    #[arg(long, value_name = size::NAME, value_parser = size::between(32 << 20, 4 << 30),
          default_value = "64MiB", requires = "interface")]
    pub ring_size: u64,

    /// As root: also read the encrypted sessions of the server with this process id on this host,
    /// from its OpenSSL
    #[arg(long, value_name = "N", requires = "interface")]
    pub tls_uprobes: Option<NonZeroU32>,

    /// Write counters for Prometheus to this file, every 5 seconds
    #[arg(long, value_name = "FILE", requires = "log")]
    pub metrics_file: Option<PathBuf>,

    /// The server that is asked about sessions.
    #[command(flatten)]
    pub enrich: EnrichArgs,

    /// Record the values of a prepared statement's parameters up to this size; 0: none
    #[arg(long, value_name = size::NAME, value_parser = size::between(0, 1 << 20),
          default_value = "1KiB")]
    pub max_params_size: u64,

    /// Record larger statements without their text, and declare them as lost (`too_large`). Those
    /// over 16MiB are in a file until they are complete; the recorder needs three times the size of
    /// a statement in memory
    #[arg(long, value_name = size::NAME, value_parser = size::between(16 << 20, 1 << 30),
          default_value = "1GiB")]
    pub max_statement_size: u64,

    /// Remove all literals from statements and all parameters, not only secrets
    #[arg(long)]
    pub redact_literals: bool,

    /// Write times in UTC instead of local time
    #[arg(long)]
    pub utc: bool,

    /// Directory of the arena: a file system in memory
    #[arg(long, value_name = "DIR", default_value = "/dev/shm")]
    pub arena_directory: PathBuf,
}
