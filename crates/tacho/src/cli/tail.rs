//! `tacho tail`.

use clap::builder::PossibleValuesParser;
use clap::{Args, ValueEnum};
use tacho_logdir::read::Lines;
use tacho_record::{EventKind, Outcome};

use super::log::{FollowArgs, IdentityArgs, LogSource, TimeRange};
use super::{number, parse_lines};
use crate::line_limit::LimitArgs;

/// Shown at the end of `tacho tail --help`.
const TAIL_NOTES: &str = "\
WHEN is one of
  2026-11-21T09:30:00+01:00   a time with its offset (RFC 3339), also with Z
  2026-11-21 09:30            without an offset: local time; the time is optional
  09:30, 09:30:15             a time of day, the last one before now
                              (--until after --since: the first one after that)
  90s, 10m, 2h, 1d, 1h30m     that long ago; d and w are calendar days and weeks
  today, yesterday, now       midnight, the midnight before, this moment

Filters can be repeated and take comma-separated lists. A line must match all filters, and for each
filter any of its values. `*` matches any characters. A `lost` line reports missing records, which
might have matched: only --event, --since and --until hide it.

Connection ids start again with each start of the server. With --conn, the table has a line before
the first line of each run, and a message on stderr names the runs if there are several; --run shows
one of them.

Exit code: 0 success, 1 broken lines, or files that cannot be read or decrypted (see stderr),
2 wrong usage.";

/// Arguments of `tacho tail`.
#[derive(Args, Debug)]
#[command(after_help = TAIL_NOTES)]
pub struct TailArgs {
    /// The log.
    #[command(flatten)]
    pub source: LogSource,

    /// Format of the result
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t)]
    pub format: Format,

    /// Times.
    #[command(flatten)]
    pub range: TimeRange,

    /// New lines.
    #[command(flatten)]
    pub follow: FollowArgs,

    /// How many of the newest matching lines: a number or `all` [default: 10; with --since all]
    #[arg(short = 'n', long, value_name = "LINES", value_parser = parse_lines)]
    pub lines: Option<Lines>,

    /// Which lines to show.
    #[command(flatten)]
    pub filter: FilterArgs,

    /// Encrypted files.
    #[command(flatten)]
    pub identity: IdentityArgs,

    /// Long lines.
    #[command(flatten)]
    pub limit: LimitArgs,

    /// Width of the table; 0 shows all of the text [default: the terminal's; 0 into a pipe]
    #[arg(long, value_name = "COLUMNS", value_parser = number::whole::<usize>)]
    pub width: Option<usize>,

    /// Colours in the table
    #[arg(long, value_name = "MODE", value_enum, default_value_t)]
    pub color: Color,

    /// The same as --color never
    #[arg(long, conflicts_with = "color")]
    pub no_color: bool,
}

/// Filters of lines.
#[derive(Args, Debug)]
pub struct FilterArgs {
    /// User name that the client gave, or account name of its privileges
    #[arg(long, value_name = "USER", value_delimiter = ',')]
    pub user: Vec<String>,

    /// Default database, or database of a table in the statement
    #[arg(long, value_name = "DB", value_delimiter = ',')]
    pub db: Vec<String>,

    /// Client host name or address
    #[arg(long, value_name = "HOST", value_delimiter = ',')]
    pub host: Vec<String>,

    /// Connection id
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = number::whole::<u64>)]
    pub conn: Vec<u64>,

    /// Run of the server: the number in the field `run`, or `last`
    #[arg(long, value_name = "N|last", value_delimiter = ',', value_parser = parse_run)]
    pub run: Vec<Run>,

    // A fixed list: a mistyped name must not look like an empty log.
    /// Kind of event
    #[arg(long, value_name = "EVENT", value_delimiter = ',',
          value_parser = PossibleValuesParser::new(EventKind::ALL.map(EventKind::name)))]
    pub event: Vec<String>,

    /// Class of the statement, by the server's name: `select`, `create_*`
    #[arg(long, value_name = "COMMAND", value_delimiter = ',')]
    pub sql_command: Vec<String>,

    /// Server error number
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = number::whole::<u32>)]
    pub errno: Vec<u32>,

    /// Outcome of the statement or connection
    #[arg(long, value_name = "OUTCOME", value_delimiter = ',',
          value_parser = PossibleValuesParser::new(Outcome::ALL.map(Outcome::name)))]
    pub outcome: Vec<String>,

    /// Statement text matches this regular expression; a leading `(?i)` ignores case
    #[arg(long, value_name = "REGEX")]
    pub grep: Option<String>,

    /// Digest of the statement, or its first digits, with or without the version prefix
    #[arg(long, value_name = "HEX", value_delimiter = ',', value_parser = parse_digest)]
    pub digest: Vec<String>,
}

/// Filters of the server's runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Run {
    /// The run whose `start` line has this number.
    Number(u64),
    /// The newest run of the log; with --follow also later ones.
    Last,
}

fn parse_run(text: &str) -> Result<Run, String> {
    if text == "last" {
        return Ok(Run::Last);
    }
    let number = text.parse().map_err(|_| "expected a number, or `last`".to_owned())?;
    Ok(Run::Number(number))
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
    /// Columns for people; control characters are escaped
    #[default]
    Table,
    /// The lines of the log, byte for byte
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
