//! Arguments of `tacho report`.

use clap::{Args, Subcommand, ValueEnum};

use super::key::By;
use super::query::{Query, Subject};
use super::stats::Measure;
use crate::cli::log::{LogSources, ReadArgs, ZoneArgs};
use crate::cli::number;

/// Shown at the end of `tacho report --help`.
const NOTES: &str = "\
For example
  tacho report --since today --by user,sql_command
  tacho report --since 1d --by digest --sort time --top 10
  tacho report --by hour,user --user 'app*' --format csv
  tacho report logins --since 7d
  tacho report slow --since 09:30 --until 10:00

Statements are counted, or with --event the events that it names. A statement with a `running` line
is counted once. Filters and WHEN are described in `tacho tail --help`.

ROWS are the rows sent and the rows affected. TIME is the sum of the times; percentiles are at most
1.6 % too large. The result ends with what the log is known to lack.

Exit code: 0 success, 1 broken lines, or files that cannot be read or decrypted (see stderr),
2 wrong usage.";

/// Shown at the end of the help of each view.
const VIEW_NOTES: &str = "\
Filters and WHEN are described in `tacho tail --help`. The result ends with what the log is known to
lack.

Exit code: 0 success, 1 broken lines, or files that cannot be read or decrypted (see stderr),
2 wrong usage.";

/// Arguments of `tacho report`.
#[derive(Args, Debug)]
#[command(after_help = NOTES, args_conflicts_with_subcommands = true)]
pub struct ReportArgs {
    /// A built-in view.
    #[command(subcommand)]
    view: Option<View>,

    /// Fields by which lines are grouped
    #[arg(long, value_name = "FIELD", value_enum, value_delimiter = ',', default_value = "user")]
    by: Vec<By>,

    /// Order of the groups, largest first
    #[arg(long, value_name = "MEASURE", value_enum, default_value_t)]
    sort: Measure,

    /// The rest.
    #[command(flatten)]
    options: Options,
}

/// The built-in views.
#[derive(Subcommand, Debug)]
enum View {
    /// Logins and failed logins, by user and host
    Logins(GroupsArgs),
    /// Errors by number, user and database, with the last message
    Errors(GroupsArgs),
    /// Changes of the schema, the newest ones
    Ddl(ListArgs),
    /// Changes of accounts, roles and privileges, the newest ones
    Grants(ListArgs),
    /// Statements by digest, in the order of the time that they took in all
    Slow(GroupsArgs),
    /// Sessions from login to logout, with what they did
    Sessions(GroupsArgs),
}

/// Arguments of a view with a row for each group.
#[derive(Args, Debug)]
#[command(after_help = VIEW_NOTES)]
struct GroupsArgs {
    /// Order of the rows, largest first [default: count; of slow and sessions time]
    #[arg(long, value_name = "MEASURE", value_enum)]
    sort: Option<Measure>,

    /// The rest.
    #[command(flatten)]
    options: Options,
}

/// Arguments of a view with a row for each line.
#[derive(Args, Debug)]
#[command(after_help = VIEW_NOTES)]
struct ListArgs {
    /// All of them.
    #[command(flatten)]
    options: Options,
}

/// The options of all reports.
#[derive(Args, Debug)]
pub struct Options {
    /// The logs.
    #[command(flatten)]
    pub source: LogSources,

    /// Format of the result
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t)]
    pub format: Format,

    /// Which lines to count.
    #[command(flatten)]
    pub read: ReadArgs,

    /// Times of the result.
    #[command(flatten)]
    pub zone: ZoneArgs,

    /// How many rows to show; 0 shows all
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = number::whole::<usize>)]
    pub top: usize,

    /// Width of the table; 0 shows all of the text [default: the terminal's; 0 into a pipe]
    #[arg(long, value_name = "COLUMNS", value_parser = number::whole::<usize>)]
    pub width: Option<usize>,
}

/// Format of a report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Columns for people; control characters are escaped
    #[default]
    Table,
    /// JSON objects, one a line; the last one is a summary
    Json,
    /// Comma-separated values with a header (RFC 4180); the summary is on stderr
    Csv,
}

impl ReportArgs {
    /// The question, and how to answer it.
    pub fn query(&self) -> (Query, &Options) {
        let (subject, sort, options) = match &self.view {
            None => return (Query::by(&self.by, self.sort), &self.options),
            Some(View::Logins(args)) => (Subject::Logins, args.sort, &args.options),
            Some(View::Errors(args)) => (Subject::Errors, args.sort, &args.options),
            Some(View::Ddl(args)) => (Subject::Ddl, None, &args.options),
            Some(View::Grants(args)) => (Subject::Grants, None, &args.options),
            Some(View::Slow(args)) => (Subject::Slow, args.sort, &args.options),
            Some(View::Sessions(args)) => (Subject::Sessions, args.sort, &args.options),
        };
        (Query::view(subject, sort), options)
    }
}
