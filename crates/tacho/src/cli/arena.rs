//! `tacho recover`, `tacho recorder` and `tacho arena`: the commands that open an arena.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use tacho_logdir::read::Lines;

use super::log::LogDirectory;
use super::parse_lines;
use super::report::ReportFormat;

/// Default of the server's `tacho_arena_directory`.
const ARENA_DIRECTORY: &str = "/dev/shm";

/// Where a server keeps its arena.
#[derive(Args, Debug)]
pub struct ArenaDirectory {
    /// Directory of the server's arenas (tacho_arena_directory)
    #[arg(long = "arena-directory", id = "arena_directory", value_name = "DIR",
          default_value = ARENA_DIRECTORY)]
    pub path: PathBuf,
}

/// The server's signing key.
#[derive(Args, Debug)]
pub struct SigningKeyFile {
    /// Signing key of the server [default: tacho-signing.key beside the log directory, if that
    /// file exists]. Lines written without it are sealed at the next start of the server
    #[arg(long = "signing-key-file", id = "signing_key_file", value_name = "FILE")]
    pub path: Option<PathBuf>,
}

/// Shown at the end of `tacho recover --help`.
const RECOVER_NOTES: &str = "\
A server recovers its log when it starts. Use this command if the server does not start, or not on
this machine. You can interrupt it and run it again: each record is written once.

As root, the command first switches to the user that owns the log directory, so that the server can
write the files later.

Exit code: 0 success, also if there is nothing to recover; 1 something could not be recovered (see
stderr); 2 wrong usage.";

/// Arguments of `tacho recover`.
#[derive(Args, Debug)]
#[command(after_help = RECOVER_NOTES)]
pub struct RecoverArgs {
    /// The log.
    #[command(flatten)]
    pub log: LogDirectory,

    /// Where arenas are searched.
    #[command(flatten)]
    pub arena_directory: ArenaDirectory,

    /// The sealing key.
    #[command(flatten)]
    pub signing_key_file: SigningKeyFile,

    /// Also recover this arena; may be repeated. Recover all arenas of a log together: the first
    /// line that is written takes the sequence numbers that the other arenas count by
    #[arg(long, value_name = "FILE")]
    pub arena: Vec<PathBuf>,

    /// The log directory was moved, or is mounted elsewhere, since the arenas of --arena were
    /// written. Use it only for the log that their server wrote: in another log, records would
    /// be skipped as already written
    #[arg(long, requires = "arena")]
    pub moved: bool,

    /// Write times in UTC instead of local time
    #[arg(long)]
    pub utc: bool,

    /// Report what would be recovered, and change nothing
    #[arg(long)]
    pub dry_run: bool,
}

/// Shown at the end of `tacho recorder --help`.
const RECORDER_NOTES: &str = "\
The recorder runs in the foreground and writes its messages to stderr. A server with
tacho_writer=EXTERNAL hands its log over when both processes run, and takes it back when the
recorder ends, whether by SIGTERM, by Ctrl-C or by kill -9. If the server dies, the recorder writes
its last records within a second. It waits while no server runs, and serves one server after the
other.

As root, the command first switches to the user that owns the log directory. For more, see
docs/guide/recorder.md.

Exit code: 0 ended by a signal, 1 failed, 2 wrong usage.";

/// Arguments of `tacho recorder`.
#[derive(Args, Debug)]
#[command(after_help = RECORDER_NOTES)]
pub struct RecorderArgs {
    /// The log.
    #[command(flatten)]
    pub log: LogDirectory,

    /// The directory of the server's arena.
    #[command(flatten)]
    pub arena_directory: ArenaDirectory,

    /// The key for records of a server that ended before this process started: a running server
    /// names its own.
    #[command(flatten)]
    pub signing_key_file: SigningKeyFile,
}

/// Shown at the end of `tacho arena --help`.
const ARENA_NOTES: &str = "\
With --records, LINE is the sequence number (`seq`) of the log line that has the record, or `-` if
no line has it yet. Secrets are removed from the texts as in the log.

--set-overflow changes the policy of a running server without a session. Use it if all sessions
wait because the log cannot be written. DROP and TIMEOUT lose records; the log counts them in a
`lost` line. `SHOW VARIABLES` keeps showing the old value; once the log can be written again, set
both with `SET GLOBAL tacho_overflow`.

Exit code: 0 success, 1 an arena could not be read, 2 wrong usage.";

/// Arguments of `tacho arena`.
#[derive(Args, Debug)]
#[command(after_help = ARENA_NOTES)]
pub struct ArenaArgs {
    /// One arena (`Tacho_arena_file` in SHOW STATUS) instead of all. Optional with --records and
    /// --set-overflow if there is only one
    #[arg(value_name = "FILE", conflicts_with = "arena_directory")]
    pub file: Option<PathBuf>,

    /// Whose arenas are shown.
    #[command(flatten)]
    pub arena_directory: ArenaDirectory,

    /// How to show them.
    #[command(flatten)]
    pub format: ReportFormat,

    /// Show the newest records in the arena: a number or `all` [default: 20]
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "20",
          value_parser = parse_lines)]
    pub records: Option<Lines>,

    /// What the server does when the arena is full
    #[arg(long, value_name = "POLICY", value_enum, ignore_case = true,
          conflicts_with_all = ["records", "format"])]
    pub set_overflow: Option<Overflow>,
}

/// Values of `tacho_overflow`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "UPPER")]
pub enum Overflow {
    /// Wait; lose nothing
    Block,
    /// Wait for `tacho_overflow_timeout_ms`, then lose the record
    Timeout,
    /// Lose the record at once
    Drop,
}
