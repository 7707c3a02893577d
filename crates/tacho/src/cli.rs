//! The command line.

mod arena;
mod capture;
#[cfg(test)]
mod consistency;
mod convert;
pub mod duration;
mod enrich;
mod fields;
mod filter;
pub mod log;
pub mod number;
mod old;
mod report;
mod retention;
mod ship;
pub mod size;
mod status;
mod tail;
mod top;
mod verify;

use std::path::PathBuf;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use tacho_logdir::read::Lines;

use crate::bench::BenchArgs;
use crate::digest::DigestArgs;
use crate::migrate::MigrateArgs;
use crate::pmp::args::PmpArgs;
use crate::report::ReportArgs;
use crate::rules::FilterCommandArgs;
use crate::say;
pub use arena::{ArenaArgs, Overflow, RecorderArgs, RecoverArgs};
pub use capture::CaptureArgs;
pub use convert::{ConvertArgs, LogArgs, SendArgs, SlowlogArgs, SyslogBody, Target};
pub use filter::{Condition, Criterion, FilterArgs};
pub use log::IdentityArgs;
pub use report::ReportFormat;
pub use retention::RetentionArgs;
pub use ship::ShipArgs;
pub use status::{StatusArgs, StatusFormat};
pub use tail::{Color, Format, TailArgs};
pub use top::TopArgs;
pub use verify::{CheckpointArgs, KeygenArgs, VerifyArgs};

/// Read, summarize, convert, ship, verify and recover the audit log of MariaDB and MySQL, measure
/// the overhead of auditing, profile a server.
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
    /// Show the newest lines of the audit log, filtered, and follow it
    Tail(Box<TailArgs>),
    /// Summarize the log: statements by user or digest, logins, errors, changes, sessions
    Report(Box<ReportArgs>),
    /// Show what runs now and what ran in the last minute, as it happens
    Top(Box<TopArgs>),
    /// Convert the audit log to the format of another audit plugin or a SIEM, or send it
    Convert(Box<ConvertArgs>),
    /// Ship the audit log to a hub, which keeps, verifies and searches the logs of many servers
    Ship(Box<ShipArgs>),
    /// Convert the audit log to a slow query log, for pt-query-digest and mariadb-dumpslow
    Slowlog(SlowlogArgs),
    /// Verify offline, with the public key, that the audit log was not changed
    Verify(VerifyArgs),
    /// Print the newest signed checkpoint of a log, for `verify --expect`
    Checkpoint(CheckpointArgs),
    /// Make the root key of a log, and print its public half
    Keygen(KeygenArgs),
    /// Check a filter (tacho_filter), and try it on an existing log
    Filter(FilterCommandArgs),
    /// Show whether the log is written, complete, signed, and has space; for monitoring, too
    Status(StatusArgs),
    /// Show which log files retention would remove now, why, and which is next; removes nothing
    Retention(RetentionArgs),
    /// Write the records that a dead server left in its arena to the audit log
    Recover(RecoverArgs),
    /// Write a server's audit log in a separate process (tacho_writer=EXTERNAL)
    Recorder(RecorderArgs),
    /// Record statements from network packets, without a plugin in the server
    Capture(Box<CaptureArgs>),
    /// Show the arenas and their records, or release a server that waits for a full disk
    Arena(ArenaArgs),
    /// Measure the overhead of auditing on a server
    Bench(Box<BenchArgs>),
    /// Profile a server's threads with minimal pauses
    Pmp(Box<PmpArgs>),
    /// Show the digest of statements: the hash of their form without literals
    Digest(DigestArgs),
    /// Convert the settings of another audit plugin
    Migrate(MigrateArgs),
    /// Write a shell completion script to stdout
    Completions {
        /// The shell to complete for
        shell: tacho_manual::Shell,
    },
    /// Write the manual pages
    Man {
        /// Directory for one page per subcommand [default: the main page to stdout]
        #[arg(short, long, value_name = "DIR")]
        output: Option<PathBuf>,
    },
}

/// Parses the command line of this process.
///
/// # Errors
/// It is wrong, or requests help.
pub fn parse() -> Result<Cli, clap::Error> {
    let (args, warnings) = old::rewrite(std::env::args_os());
    warnings.iter().for_each(say::old_spelling);
    let mut command = Cli::command();
    let matches = command.try_get_matches_from_mut(args)?;
    old::without_unit(&command, &matches).iter().for_each(say::old_spelling);
    Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut command))
}

fn parse_lines(text: &str) -> Result<Lines, String> {
    if text == "all" {
        return Ok(Lines::All);
    }
    text.parse().map(Lines::Last).map_err(|_| "expected a number or `all`".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definition_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn filters_take_lists_and_repetition() {
        let cli = Cli::parse_from(["tacho", "tail", "--user", "a,b", "--user", "c", "-n", "all"]);
        let Command::Tail(args) = cli.command else { panic!("another command") };
        let [user] = &args.read.filter.fields.0[..] else { panic!("several conditions") };
        assert_eq!((user.by, user.is_not, user.values.len()), (Criterion::User, false, 3));
        assert_eq!(args.lines, Some(Lines::All));
    }

    #[test]
    fn a_conversion_needs_a_format() {
        assert!(Cli::try_parse_from(["tacho", "convert", "d"]).is_err());
        assert!(Cli::try_parse_from(["tacho", "convert", "d", "--format", "html"]).is_err());
        let cli = Cli::parse_from(["tacho", "convert", "a", "b", "--format", "percona-json"]);
        let Command::Convert(args) = cli.command else { panic!("another command") };
        assert_eq!((args.format, args.source.paths.len()), (Target::PerconaJson, 2));
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
    fn one_arena_is_shown_or_changed() {
        let parse = |args: &[&str]| Cli::try_parse_from([&["tacho"], args].concat());
        assert!(parse(&["arena", "f", "--set-overflow", "LOSE"]).is_err());
        assert!(parse(&["arena", "f", "--arena-directory", "d"]).is_err());
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
