//! `tacho status`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::arena::ArenaDirectory;
use super::log::LogDirectory;
use super::{duration, size};
use crate::status::report::Threshold;
use crate::status::spec::{self, Check, Unit};

/// Shown at the end of `tacho status --help`.
fn notes() -> String {
    format!(
        "\
The checks, and their default thresholds for a warning and for the critical state:

  CHECK        WHAT IT FINDS OUT                                    WARNING  CRITICAL
{}

Change a threshold with --warn or --crit: `--warn lag=1m --crit disk=2%`, `--crit lost=off`. Leave a
check out with --skip. A check that does not apply is not shown.

The command reads names and lengths of files, the ends of the newest ones, and the arena. Run it as
the user of the server, or as root: other users cannot read the arena. It verifies no signature;
`tacho verify` does.

Exit code: 0 ok; 1 warning; 2 critical; 3 unknown: something could not be found out, or wrong usage.
A check that is critical outweighs one that is unknown.",
        spec::help_lines()
    )
}

/// Arguments of `tacho status`.
#[derive(Args, Debug)]
#[command(after_help = notes())]
pub struct StatusArgs {
    /// The log.
    #[command(flatten)]
    pub log: LogDirectory,

    /// Write the result to this file instead of stdout. It is replaced as a whole, so that a reader
    /// never finds a part of it
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// Format of the result
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t)]
    pub format: StatusFormat,

    /// The directory of the server's arena.
    #[command(flatten)]
    pub arena_directory: ArenaDirectory,

    /// Threshold of a check for a warning, or `off`; may be repeated
    #[arg(long, value_name = "CHECK=VALUE", value_parser = threshold)]
    pub warn: Vec<Threshold>,

    /// Threshold of a check for the critical state, or `off`; may be repeated
    #[arg(long, value_name = "CHECK=VALUE", value_parser = threshold)]
    pub crit: Vec<Threshold>,

    /// Leave this check out; may be repeated
    #[arg(long, value_name = "CHECK", value_parser = check, value_delimiter = ',')]
    pub skip: Vec<Check>,

    /// Read the retention settings from the server's option file (my.cnf) and its includes, for the
    /// forecasts. Missing settings have the recorder's default
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// How much of the end of the log is searched for `lost` lines
    #[arg(long, value_name = size::NAME, default_value = "16MiB", value_parser = size::any::<u64>)]
    pub search: u64,
}

/// Values of `--format`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum StatusFormat {
    /// Text for people
    #[default]
    Text,
    /// A plugin's output, with performance data
    Nagios,
    /// Metrics for the textfile collector
    Prometheus,
    /// One JSON object
    Json,
}

fn check(name: &str) -> Result<Check, String> {
    Check::named(name).ok_or_else(|| {
        let names = Check::ALL.iter().map(|check| check.spec().name).collect::<Vec<_>>();
        format!("expected one of {}", names.join(", "))
    })
}

fn threshold(text: &str) -> Result<Threshold, String> {
    let (name, value) = text.split_once('=').ok_or("expected CHECK=VALUE, such as lag=30s")?;
    let check = check(name)?;
    let Some(measure) = check.spec().measure else {
        return Err(format!("{name} has no threshold; --skip {name} leaves it out"));
    };
    if value == "off" {
        return Ok(Threshold { check, value: None });
    }
    let value = match measure.metric.spec().unit {
        Unit::Seconds => duration::any(value)?.as_secs_f64(),
        Unit::Percent => percent(value).ok_or("expected a percentage from 0% to 100%")?,
        _ => value.parse::<u64>().map_err(|_| "expected a whole number")? as f64,
    };
    Ok(Threshold { check, value: Some(value) })
}

fn percent(text: &str) -> Option<f64> {
    let number = text.strip_suffix('%').unwrap_or(text);
    number.parse().ok().filter(|number| (0.0..=100.0).contains(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thresholds_have_the_unit_of_their_check() {
        let value = |text: &str| threshold(text).unwrap().value;
        assert_eq!(value("lag=1m30s"), Some(90.0));
        assert_eq!(value("lag=500ms"), Some(0.5));
        assert_eq!(value("disk=2.5%"), Some(2.5));
        assert_eq!(value("disk=2"), Some(2.0));
        assert_eq!(value("disk=off"), None);
        for (wrong, message) in [
            ("lag", "expected CHECK=VALUE"),
            ("lag=", "expected a duration"),
            ("lag=10%", "expected a duration"),
            ("disk=101", "expected a percentage"),
            ("disk=nan", "expected a percentage"),
            ("recorder=1", "recorder has no threshold; --skip recorder leaves it out"),
            ("load=1", "expected one of log, recorder, "),
        ] {
            let error = threshold(wrong).unwrap_err();
            assert!(error.starts_with(message), "{wrong}: {error}");
        }
    }
}
