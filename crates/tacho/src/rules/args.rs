//! Arguments of `tacho filter`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use tacho_filter::known;

use crate::cli::log::TimeRange;
use crate::cli::{IdentityArgs, ReportFormat};
use crate::line_limit::LimitArgs;

/// Shown at the end of `tacho filter check --help`.
const NOTES: &str = "\
The filter is compiled by the code of the server's plugin. Errors are shown with line and column,
one for each wrong rule. There is a warning for a rule that can never be the first that matches,
because an earlier one matches everything that it matches, and for a filter that can skip statements
about accounts, privileges, settings or plugins.

With --log, the filter is applied to the statements of a log: how many lines it would have skipped,
by which rule, with examples. A log that was itself written with a filter lacks what that one
skipped. WHEN is described in `tacho tail --help`.

Exit code: 0 the filter is valid, with or without warnings; 1 it has errors, or lines or files of
the log cannot be read (see stderr); 2 wrong usage, or a file cannot be opened.";

/// Arguments of `tacho filter`.
#[derive(Args, Debug)]
pub struct FilterCommandArgs {
    /// What to do.
    #[command(subcommand)]
    pub command: FilterCommand,
}

/// The subcommands of `tacho filter`.
#[derive(Subcommand, Debug)]
pub enum FilterCommand {
    /// Check a filter, and show what it would skip of an existing log
    Check(Box<CheckArgs>),
}

/// Arguments of `tacho filter check`.
#[derive(Args, Debug)]
#[command(after_help = NOTES)]
pub struct CheckArgs {
    /// The filter: the value of tacho_filter, or the file of tacho_filter_file
    #[arg(value_name = "FILE")]
    pub file: PathBuf,

    /// Log directory or log file whose statements are tried
    #[arg(long, value_name = "DIR")]
    pub log: Option<PathBuf>,

    /// Product of the server; without it, the names and actions of both are accepted
    #[arg(long, value_name = "PRODUCT", value_enum)]
    pub product: Option<Product>,

    /// Format.
    #[command(flatten)]
    pub format: ReportFormat,

    /// Times.
    #[command(flatten)]
    pub range: TimeRange,

    /// Encrypted files.
    #[command(flatten)]
    pub identity: IdentityArgs,

    /// Long lines.
    #[command(flatten)]
    pub limit: LimitArgs,
}

/// Values of `--product`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Product {
    /// MariaDB
    Mariadb,
    /// MySQL
    Mysql,
}

impl CheckArgs {
    /// The servers that the filter is for.
    pub fn product(&self) -> known::Product {
        match self.product {
            Some(Product::Mariadb) => known::Product::Mariadb,
            Some(Product::Mysql) => known::Product::Mysql,
            None => known::Product::Any,
        }
    }
}
