//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::bench::BenchArgs;
use crate::convert::Destination;
use crate::digest::DigestArgs;
use crate::migrate::MigrateArgs;
use crate::pmp::args::PmpArgs;

/// The audit recorder's command: read what was recorded, convert it, recover it, look into the
/// arena, measure what auditing costs, profile a server.
#[derive(Parser, Debug)]
#[command(name = "tacho", version, propagate_version = true, max_term_width = 100)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The subcommands.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Show the end of the audit log, filter it, follow it
    Tail(Box<TailArgs>),
    /// Write the audit log in the format of another audit log or of a SIEM
    Convert(Box<ConvertArgs>),
    /// Write the audit log as a slow query log, for pt-query-digest and mariadb-dumpslow
    Slowlog(SlowlogArgs),
    /// Check offline, with a public key, that the audit log was not changed
    Verify(VerifyArgs),
    /// Print the newest signed checkpoint of a log, to keep it elsewhere for `verify --expect`
    Checkpoint(CheckpointArgs),
    /// Make a root key for a log, and print its public half
    Keygen(KeygenArgs),
    /// Write what a dead server left in its arena to the audit log
    Recover(RecoverArgs),
    /// Write the audit log of a server in a process of its own (tacho_writer=EXTERNAL)
    Recorder(RecorderArgs),
    /// Show the arenas, the records in one, or free a server that waits for a full disk
    Arena(ArenaArgs),
    /// Measure what auditing costs on a server
    Bench(Box<BenchArgs>),
    /// Show where a server's threads spend their time, hardly stopping any
    Pmp(Box<PmpArgs>),
    /// Show the digest of statements: the hash of their shape, without literals
    Digest(DigestArgs),
    /// Print the settings of another audit plugin as ours
    Migrate(MigrateArgs),
    /// Write a shell completion script to stdout
    Completions {
        /// The shell to complete for
        shell: clap_complete::Shell,
    },
    /// Write the manual pages
    Man {
        /// Directory for one page per subcommand; without it the main page goes to stdout
        #[arg(long, value_name = "DIR")]
        out: Option<PathBuf>,
    },
}

/// Shown at the end of `tacho tail --help`.
const TAIL_NOTES: &str = "\
WHEN is one of
  2026-11-21T09:30:00+01:00   a time with its offset (RFC 3339), also with Z
  2026-11-21 09:30            without an offset: local time; the time may be left out
  09:30, 09:30:15             a time of day, the last one before now
                              (--until after --since: the first one after that)
  90s, 10m, 2h, 1d, 1h30m     that long ago; d and w are calendar days and weeks
  today, yesterday, now       midnight, the midnight before, this moment

A filter may be repeated and takes comma lists; any of its values may match, and all given
filters must. `*` stands for any characters. A `lost` line says that records are missing, and
they might have matched: only --event, --since and --until hide it.

Exit code: 0 fine, 1 broken lines, or files that cannot be read or decrypted (told on stderr),
2 wrong usage.";

/// Arguments of `tacho tail`.
#[derive(Args, Debug)]
#[command(after_help = TAIL_NOTES)]
pub struct TailArgs {
    /// Log directory, one log file, or `-` for stdin [default: $TACHO_LOG_DIR, then
    /// /var/lib/mysql/tacho]
    #[arg(value_name = "DIR|FILE")]
    pub path: Option<PathBuf>,

    /// Go on showing lines as they are written, across rotation, until Ctrl-C
    #[arg(short, long, conflicts_with = "until")]
    pub follow: bool,

    /// How many of the newest matching lines: a number or `all` [default: 10; with --since all]
    #[arg(short = 'n', long, value_name = "LINES", value_parser = parse_lines)]
    pub lines: Option<Lines>,

    /// Encrypted files.
    #[command(flatten)]
    pub identity: IdentityArgs,

    /// Only lines of this time or later
    #[arg(long, value_name = "WHEN")]
    pub since: Option<String>,

    /// Only lines before this time
    #[arg(long, value_name = "WHEN")]
    pub until: Option<String>,

    /// User name the client gave, or account name its privileges come from
    #[arg(long, value_name = "USER", value_delimiter = ',')]
    pub user: Vec<String>,

    /// Default database, or database of a table that was touched
    #[arg(long, value_name = "DB", value_delimiter = ',')]
    pub db: Vec<String>,

    /// Client host name or address
    #[arg(long, value_name = "HOST", value_delimiter = ',')]
    pub host: Vec<String>,

    /// Connection id
    #[arg(long, value_name = "N", value_delimiter = ',')]
    pub conn: Vec<u64>,

    /// Kind of event
    #[arg(long, value_name = "EVENT", value_delimiter = ',')]
    pub event: Vec<Event>,

    /// The server's class of the statement: `select`, `create_*`
    #[arg(long, value_name = "COMMAND", value_delimiter = ',')]
    pub sql_command: Vec<String>,

    /// Server error number
    #[arg(long, value_name = "N", value_delimiter = ',')]
    pub errno: Vec<u32>,

    /// How it ended
    #[arg(long, value_name = "OUTCOME", value_delimiter = ',')]
    pub outcome: Vec<Outcome>,

    /// Statement text matches this regular expression; `(?i)` in front ignores case
    #[arg(long, value_name = "REGEX")]
    pub grep: Option<String>,

    /// Digest of the statement, or its first digits; with or without the version in front
    #[arg(long, value_name = "HEX", value_delimiter = ',', value_parser = parse_digest)]
    pub digest: Vec<String>,

    /// How to show a line
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,

    /// Columns of the table; 0 shows all of the text [default: the terminal's; 0 into a pipe]
    #[arg(long, value_name = "COLUMNS")]
    pub width: Option<usize>,

    /// Colours in the table
    #[arg(long, value_name = "WHEN", value_enum, default_value_t)]
    pub color: Color,

    /// The same as --color never
    #[arg(long, conflicts_with = "color")]
    pub no_color: bool,
}

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
missing from the result, or lines missing from the log that was sent; 2 wrong usage.";

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
    /// socket such as /dev/log. A receiver that is away is waited for
    #[arg(id = "send", long = "send", value_name = "RECEIVER", conflicts_with = "out")]
    pub to: Option<Destination>,

    /// Where the sending got to is kept in this file; a new start goes on there, and --since is for
    /// the first start only
    #[arg(long, value_name = "FILE", requires = "send")]
    pub state: Option<PathBuf>,

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
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub min_query_time_us: u64,
}

/// Shown at the end of `tacho verify --help`.
const VERIFY_NOTES: &str = "\
The public key is in the server's error log and in the `start` lines of the log; take it from a
place where nobody who can change the log can change it. Several --key may be given, for a log
whose key was lost once.

Exit code, the worst of what was found:
   0  OK
  10  OK, and the log itself says that records were lost (`lost` lines)
  11  unsigned tail: the newest lines are under no checkpoint yet. Normal while the server runs
  12  gap: a file or records are missing, and no tombstone covers them
  13  truncated: there is less than what was sealed, or than --expect knows of
  14  modified: the log, a sidecar or a tombstone was changed (named with file, line and records)
  15  not sealed: a log file has no sidecar, or nothing is sealed
  16  wrong key: sealed under another root key
  17  broken chain: the recorder was started without its key, or on another state of the directory
  18  recovered: lines were sealed at a start, and not when they were written
  19  encrypted: seals, signatures and tombstones are good; files that no --identity opens were not
      compared with them
   1  it could not be carried out;  2  wrong usage

What cannot be seen without --expect: that the whole directory is an older copy of itself, or was
cut back to an old checkpoint. Keep what `tacho checkpoint` prints on another machine.";

/// How encrypted files are opened.
#[derive(Args, Debug, Default)]
pub struct IdentityArgs {
    /// Secret key that opens encrypted files (.age), in a file as `age-keygen` makes it; may be
    /// repeated
    #[arg(long, value_name = "FILE")]
    pub identity: Vec<PathBuf>,
}

/// Arguments of `tacho verify`.
#[derive(Args, Debug)]
#[command(after_help = VERIFY_NOTES)]
pub struct VerifyArgs {
    /// Log directory; sidecars, compressed (.zst) and encrypted files (.age) with it
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,

    /// Public root key, or a file that has it; may be repeated
    #[arg(long, value_name = "KEY|FILE", required = true)]
    pub key: Vec<String>,

    /// A checkpoint that was kept elsewhere: the log must contain it
    #[arg(long, value_name = "FILE")]
    pub expect: Option<PathBuf>,

    /// Encrypted files.
    #[command(flatten)]
    pub identity: IdentityArgs,

    /// One JSON object
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `tacho checkpoint`.
#[derive(Args, Debug)]
#[command(
    after_help = "The checkpoint is printed as it stands in the log; `tacho verify` checks it."
)]
pub struct CheckpointArgs {
    /// Log directory
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
}

/// Shown at the end of `tacho keygen --help`.
const KEYGEN_NOTES: &str = "\
The server makes its key itself when `tacho_signing_key_file` does not exist. Make it here to know
the public key before the first start: give the file to the server's user, and keep PATH.pub.

The first start replaces the root key in the file by the key of its first epoch: only who has kept
a copy has the root's secret half then. Nothing needs it any more.";

/// Arguments of `tacho keygen`.
#[derive(Args, Debug)]
#[command(after_help = KEYGEN_NOTES)]
pub struct KeygenArgs {
    /// Where the secret key goes (mode 0600); the public one goes to PATH.pub. Neither may exist
    #[arg(long, value_name = "PATH")]
    pub out: PathBuf,
}

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

/// Where the server keeps its arena unless it is told otherwise.
const ARENA_DIRECTORY: &str = "/dev/shm";

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
    /// One arena (`Tacho_arena_file` in SHOW STATUS) instead of all
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,

    /// Directory whose arenas are shown
    #[arg(long, value_name = "DIR", default_value = ARENA_DIRECTORY, conflicts_with = "file")]
    pub directory: PathBuf,

    /// Show the newest records in the arena: a number or `all` [default: 20]
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "20", requires = "file",
          value_parser = parse_lines)]
    pub records: Option<Lines>,

    /// One JSON object per arena or record
    #[arg(long)]
    pub json: bool,

    /// What the server shall do when the arena is full
    #[arg(long, value_name = "POLICY", value_enum, ignore_case = true, requires = "file",
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

/// How many lines to show before following.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lines {
    /// All that match.
    All,
    /// The newest that match, at most this many.
    Last(usize),
}

fn parse_lines(text: &str) -> Result<Lines, String> {
    if text == "all" {
        return Ok(Lines::All);
    }
    text.parse().map(Lines::Last).map_err(|_| "expected a number or `all`".to_owned())
}

fn parse_digest(text: &str) -> Result<String, String> {
    let text = text.to_ascii_lowercase();
    let hash = text.split_once(':').map_or(&*text, |(_, hash)| hash);
    if hash.is_empty() || !hash.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err("expected hexadecimal digits, as in the field `digest`".to_owned());
    }
    Ok(text)
}

/// Format of the output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Columns for people; control characters are made visible
    #[default]
    Table,
    /// The log's own lines, byte for byte
    Json,
}

/// When to colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Color {
    /// On a terminal, unless NO_COLOR is set
    #[default]
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

/// Values of `event`. Closed on purpose: a mistyped name must not look like an empty log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum Event {
    Connect,
    Disconnect,
    ChangeUser,
    ConnectFailed,
    Statement,
    Table,
    Lost,
    Start,
    Stop,
    Config,
}

/// Values of `outcome`, closed for the same reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum Outcome {
    Ok,
    Error,
    Running,
    Interrupted,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn definition_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn filters_take_lists_and_repetition() {
        let cli = Cli::parse_from(["tacho", "tail", "--user", "a,b", "--user", "c", "-n", "all"]);
        let Command::Tail(args) = cli.command else { panic!("another command") };
        assert_eq!(args.user, ["a", "b", "c"]);
        assert_eq!(args.lines, Some(Lines::All));
    }

    #[test]
    fn a_conversion_needs_a_format() {
        assert!(Cli::try_parse_from(["tacho", "convert", "d"]).is_err());
        assert!(Cli::try_parse_from(["tacho", "convert", "d", "--to", "html"]).is_err());
        let cli = Cli::parse_from(["tacho", "convert", "a", "b", "--to", "percona-json"]);
        let Command::Convert(args) = cli.command else { panic!("another command") };
        assert_eq!((args.to, args.log.paths.len()), (Target::PerconaJson, 2));
    }

    #[test]
    fn mistyped_values_are_refused() {
        for args in [
            ["--event", "conect"],
            ["--outcome", "fine"],
            ["--lines", "-3"],
            ["--conn", "x"],
            ["--format", "xml"],
        ] {
            assert!(Cli::try_parse_from(["tacho", "tail"].iter().chain(&args)).is_err());
        }
    }

    #[test]
    fn one_arena_is_needed_to_look_into_it_or_change_it() {
        let parse = |args: &[&str]| Cli::try_parse_from([&["tacho"], args].concat());
        assert!(parse(&["arena", "--records"]).is_err());
        assert!(parse(&["arena", "--set-overflow", "DROP"]).is_err());
        assert!(parse(&["arena", "f", "--set-overflow", "LOSE"]).is_err());
        assert!(parse(&["arena", "f", "--directory", "d"]).is_err());
        assert!(parse(&["recover", "d", "--moved"]).is_err());
        let arena = |args: &[&str]| match parse(args).unwrap().command {
            Command::Arena(args) => args,
            _ => panic!("another command"),
        };
        assert_eq!(arena(&["arena", "f", "--records"]).records, Some(Lines::Last(20)));
        assert_eq!(arena(&["arena", "f", "--records", "all"]).records, Some(Lines::All));
        let drop = arena(&["arena", "f", "--set-overflow", "drop"]);
        assert_eq!(drop.set_overflow, Some(Overflow::Drop));
    }
}
