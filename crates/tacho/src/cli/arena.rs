//! `tacho recover`, `tacho recorder` and `tacho arena`: what has to do with an arena.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use tacho_logdir::read::Lines;

use super::parse_lines;

/// Where the server keeps its arena unless it is told otherwise.
const ARENA_DIRECTORY: &str = "/dev/shm";

/// Shown at the end of `tacho recover --help`.
const RECOVER_NOTES: &str = "\
A server that starts again recovers by itself: this command is for a server that will not start,
or not here. It may be interrupted and run again: each record gets into the log once.

Root becomes the owner of the log directory first, so that the server can go on writing the files.

Exit code: 0 fine, also when there is nothing to do; 1 something could not be recovered (told on
stderr); 2 wrong usage.";

/// Arguments of `tacho recover`.
#[derive(Args, Debug)]
#[command(after_help = RECOVER_NOTES)]
pub struct RecoverArgs {
    /// Log directory of the server
    #[arg(value_name = "LOG_DIRECTORY")]
    pub log_directory: PathBuf,

    /// Directory that is searched for arenas of this log directory
    #[arg(long, value_name = "DIR", default_value = ARENA_DIRECTORY)]
    pub arena_directory: PathBuf,

    /// Recover this arena, too; may be repeated. All arenas of a log must be recovered together:
    /// the first line that is written takes the numbers that the others count by
    #[arg(long, value_name = "FILE")]
    pub arena: Vec<PathBuf>,

    /// The named arenas know the log directory by another path, because it was moved or is
    /// mounted elsewhere. Only for the very log that their server wrote: in another one, records would be
    /// taken for written
    #[arg(long, requires = "arena")]
    pub moved: bool,

    /// Time stamps in UTC instead of local time
    #[arg(long)]
    pub utc: bool,

    /// Signing key of the server [default: tacho-signing.key beside the log directory, if it is
    /// there]. Without it the server seals at its next start what is written now
    #[arg(long, value_name = "FILE")]
    pub signing_key_file: Option<PathBuf>,

    /// Only say what would be done
    #[arg(long)]
    pub dry_run: bool,
}

/// Shown at the end of `tacho recorder --help`.
const RECORDER_NOTES: &str = "\
It runs in the foreground and tells on stderr what happens. A server with tacho_writer=EXTERNAL
gives its log to it as soon as both are there, and takes it back when this ends: by SIGTERM or
Ctrl-C in the orderly way, by a kill just so. What a server leaves that dies is in the log within
a second. It waits as long as there is no server, and may serve several, one after the other.

As root it becomes the owner of the log directory first. docs/guide/recorder.md has more.

Exit code: 0 it was told to end, 1 it cannot go on, 2 wrong usage.";

/// Arguments of `tacho recorder`.
#[derive(Args, Debug)]
#[command(after_help = RECORDER_NOTES)]
pub struct RecorderArgs {
    /// Log directory of the server
    #[arg(long, value_name = "LOG_DIRECTORY")]
    pub attach: PathBuf,

    /// Directory where the server has its arena (tacho_arena_directory)
    #[arg(long, value_name = "DIR", default_value = ARENA_DIRECTORY)]
    pub arena_directory: PathBuf,

    /// Signing key, for what a server has left that this process never met; a server tells where
    /// its own is [default: tacho-signing.key beside the log directory]
    #[arg(long, value_name = "FILE")]
    pub signing_key_file: Option<PathBuf>,
}

/// Shown at the end of `tacho arena --help`.
const ARENA_NOTES: &str = "\
With --records, LINE is the number of the log line (`seq`) that a record went into; `-`: it is in no
line yet. Secrets are taken out of the texts as in the log.

With --set-overflow, the policy of a running server is changed without a session: for when all of
them wait because the log cannot be written. DROP and TIMEOUT lose records, which are counted and
told in the log. `SHOW VARIABLES` still shows the old value; once the log can be written again,
`SET GLOBAL tacho_overflow` sets both.

Exit code: 0 fine, 1 an arena could not be read, 2 wrong usage.";

/// Arguments of `tacho arena`.
#[derive(Args, Debug)]
#[command(after_help = ARENA_NOTES)]
pub struct ArenaArgs {
    /// One arena (`Tacho_arena_file` in SHOW STATUS) instead of all. With --records or --set-overflow
    /// it may be left out if there is only one
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,

    /// Directory whose arenas are shown
    #[arg(long, value_name = "DIR", default_value = ARENA_DIRECTORY, conflicts_with = "file")]
    pub directory: PathBuf,

    /// Show the newest records in the arena: a number or `all` [default: 20]
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "20",
          value_parser = parse_lines)]
    pub records: Option<Lines>,

    /// One JSON object per arena or record
    #[arg(long)]
    pub json: bool,

    /// What the server shall do when the arena is full
    #[arg(long, value_name = "POLICY", value_enum, ignore_case = true,
          conflicts_with_all = ["records", "json"])]
    pub set_overflow: Option<Overflow>,
}

/// Values of `tacho_overflow`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "UPPER")]
pub enum Overflow {
    /// Wait: nothing is lost
    Block,
    /// Wait for `tacho_overflow_timeout_ms`, then lose the record
    Timeout,
    /// Lose the record at once
    Drop,
}
