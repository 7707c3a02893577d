//! `tacho tail`.

use clap::{Args, ValueEnum};
use tacho_logdir::read::Lines;
use tacho_record::Field;

use super::log::{FollowArgs, LogSources, ReadArgs, ZoneArgs};
use super::{fields, number, parse_lines};

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
filter any of its values. `*` matches any characters. Each filter by a field, --user to --digest,
has an opposite, --not-user to --not-digest, which leaves out the lines that the filter shows. A
`lost` line reports missing records, which might have matched: only --event, --seq, --since and
--until hide it.

Several logs are read one after the other, as if they were one.

Connection ids start again with each start of the server. With --conn, the table has a line before
the first line of each run, and a message on stderr names the runs if there are several; --run shows
one of them.

Exit code: 0 success, 1 broken lines, or files that cannot be read or decrypted (see stderr),
2 wrong usage.";

/// Arguments of `tacho tail`.
#[derive(Args, Debug)]
#[command(after_help = TAIL_NOTES)]
pub struct TailArgs {
    /// The logs.
    #[command(flatten)]
    pub source: LogSources,

    /// Format of the result
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t)]
    pub format: Format,

    /// New lines.
    #[command(flatten)]
    pub follow: FollowArgs,

    /// Which lines.
    #[command(flatten)]
    pub read: ReadArgs,

    /// Times of the table.
    #[command(flatten)]
    pub zone: ZoneArgs,

    /// How many of the newest matching lines: a number or `all` [default: 10; with --since all]
    #[arg(short = 'n', long, value_name = "LINES", value_parser = parse_lines)]
    pub lines: Option<Lines>,

    /// Show the newest line first
    #[arg(long, conflicts_with = "follow")]
    pub reverse: bool,

    /// Show only how many lines match
    #[arg(long, conflicts_with_all = ["follow", "lines", "reverse", "context", "fields"])]
    pub count: bool,

    /// Also show this many lines of the same connection before and after each line that matches
    #[arg(short = 'C', long, value_name = "N", value_parser = number::whole::<usize>)]
    context: Option<usize>,

    /// Show only these fields, in this order: `ts,user,sql`
    #[arg(long, value_name = "FIELD", value_delimiter = ',', value_parser = fields::parse)]
    pub fields: Vec<Field>,

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

impl TailArgs {
    /// How many lines are shown on each side of a match, if there are any.
    pub fn context(&self) -> Option<usize> {
        self.context.filter(|count| *count > 0)
    }
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
