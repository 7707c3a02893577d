//! `tacho top`.

use std::time::Duration;

use clap::Args;

use super::FilterArgs;
use super::arena::ArenaDirectory;
use super::duration;
use super::log::{IdentityArgs, LogDirectory, ZoneArgs};
use super::number;
use crate::line_limit::LimitArgs;
use crate::report::key::By;
use crate::report::stats::Measure;

/// Shown at the end of `tacho top --help`.
const NOTES: &str = "\
For example
  tacho top                              statements by digest, of the last minute
  tacho top --by user,host --sort count  who sends the most statements
  tacho top --table hr.salary --window 5m
  tacho top --batch --updates 1          once, as text

Keys
  < >              the measure by which groups are ordered: the one before, the next one
  c e r x t m      order by count, errors, rows, examined rows, time, longest time
  d u h b a o n    group by digest, user, host, db, table, sql_command, errno
  space            pause, and continue
  ?                help
  q                quit

RUNNING has the statements that have not ended, the longest first, whatever the filter. Those that
run for less than ten seconds are only in the arena, which the server's user and root can read.
ROWS are the rows sent and the rows affected. TIME is the sum of the times. Filters are described in
`tacho tail --help`.

Exit code: 0 success, 1 the log cannot be read any further, 2 wrong usage.";

/// Arguments of `tacho top`.
#[derive(Args, Debug)]
#[command(after_help = NOTES)]
pub struct TopArgs {
    /// The log.
    #[command(flatten)]
    pub log: LogDirectory,

    /// Fields by which statements are grouped
    #[arg(long, value_name = "FIELD", value_enum, value_delimiter = ',', default_value = "digest")]
    pub by: Vec<By>,

    /// Order of the groups, largest first
    #[arg(long, value_name = "MEASURE", value_enum, default_value = "time")]
    pub sort: Measure,

    /// How far back statements count, an hour at most
    #[arg(long, value_name = duration::NAME, default_value = "1m", value_parser = window)]
    pub window: Duration,

    /// Time between two updates
    #[arg(long, value_name = duration::NAME, default_value = "1s",
          value_parser = duration::positive)]
    pub interval: Duration,

    /// Print each update as text, one after the other; also if there is no terminal
    #[arg(long)]
    pub batch: bool,

    /// End after this many updates
    #[arg(long, value_name = "N", value_parser = number::between(1, u32::MAX))]
    pub updates: Option<u32>,

    /// Encrypted files.
    #[command(flatten)]
    pub identity: IdentityArgs,

    /// Long lines.
    #[command(flatten)]
    pub limit: LimitArgs,

    /// Which statements are counted.
    #[command(flatten)]
    pub filter: FilterArgs,

    /// The directory of the server's arena.
    #[command(flatten)]
    pub arena_directory: ArenaDirectory,

    /// The clock.
    #[command(flatten)]
    pub zone: ZoneArgs,
}

fn window(text: &str) -> Result<Duration, String> {
    match duration::up_to_an_hour(text)? {
        short if short < Duration::from_secs(1) => Err("expected 1s at least".to_owned()),
        duration => Ok(duration),
    }
}
