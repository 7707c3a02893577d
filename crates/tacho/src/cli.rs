//! The command line.

mod arena;
mod convert;
pub mod number;
mod tail;
mod verify;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use tacho_logdir::read::Lines;
use tacho_logdir::read::content::Identities;

use crate::bench::BenchArgs;
use crate::digest::DigestArgs;
use crate::migrate::MigrateArgs;
use crate::pmp::args::PmpArgs;
use crate::problem;
pub use arena::{ArenaArgs, Overflow, RecorderArgs, RecoverArgs};
pub use convert::{ConvertArgs, LogArgs, SendArgs, SlowlogArgs, SyslogBody, Target};
pub use tail::{Color, Format, Run, TailArgs};
pub use verify::{CheckpointArgs, KeygenArgs, VerifyArgs};

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

/// How encrypted files are opened.
#[derive(Args, Debug, Default)]
pub struct IdentityArgs {
    /// Secret key that opens encrypted files (.age), in a file as `age-keygen` makes it; may be
    /// repeated
    #[arg(long, value_name = "FILE")]
    pub identity: Vec<PathBuf>,
}

impl IdentityArgs {
    /// Reads the keys.
    ///
    /// # Errors
    /// When a file cannot be read, or has no key.
    pub fn read(&self) -> anyhow::Result<Identities> {
        Identities::read(&self.identity)
            .map_err(|error| anyhow::anyhow!("--identity {}", problem::text(&error.into())))
    }
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
    fn one_arena_is_looked_into_or_changed() {
        let parse = |args: &[&str]| Cli::try_parse_from([&["tacho"], args].concat());
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
