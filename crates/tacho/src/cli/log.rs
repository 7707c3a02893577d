//! The options for the part of a log that a command reads, and the destination of its result. Every
//! command that has one of them takes it from here, in this order.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

use clap::Args;
use jiff::Zoned;
use jiff::tz::TimeZone;
use tacho_logdir::read::files::{Input, STDIN};
use tacho_logdir::read::identities::Identities;
use tacho_record::time::TimeFormatter;

use super::filter::FilterArgs;
use crate::line_limit::LimitArgs;
use crate::tail::TailError;
use crate::{problem, say};

/// The environment variable that names the log directory.
const VARIABLE: &str = "TACHO_LOG_DIR";

/// The default log directory of a server with Debian's data directory.
const DEFAULT_DIRECTORY: &str = "/var/lib/mysql/tacho";

/// A log directory, for commands that need all of it.
#[derive(Args, Debug)]
pub struct LogDirectory {
    /// Log directory [default: $TACHO_LOG_DIR, then /var/lib/mysql/tacho]
    #[arg(value_name = "DIR")]
    directory: Option<PathBuf>,
}

impl LogDirectory {
    /// The directory, which need not exist.
    pub fn find(&self) -> LogPath {
        LogPath::find(self.directory.as_deref())
    }

    /// The directory, for reading.
    ///
    /// # Errors
    /// It does not exist or cannot be read.
    pub fn input(&self) -> Result<Input, TailError> {
        self.find().place()
    }
}

/// A log directory, or an evidence bundle of a hub.
#[derive(Args, Debug)]
pub struct LogOrBundle {
    /// Log directory, or evidence bundle of a hub [default: $TACHO_LOG_DIR, then
    /// /var/lib/mysql/tacho]
    #[arg(value_name = "DIR|BUNDLE")]
    path: Option<PathBuf>,
}

impl LogOrBundle {
    /// The directory or file, which need not exist.
    pub fn find(&self) -> LogPath {
        LogPath::find(self.path.as_deref())
    }
}

/// Logs, for commands that read one after the other.
#[derive(Args, Debug)]
pub struct LogSources {
    /// Log directories, log files, or `-` for stdin [default: $TACHO_LOG_DIR, then
    /// /var/lib/mysql/tacho]
    #[arg(value_name = "DIR|FILE")]
    pub paths: Vec<PathBuf>,
}

impl LogSources {
    /// Finds the logs.
    ///
    /// # Errors
    /// A path does not exist or cannot be read.
    pub fn find(&self) -> Result<Vec<Input>, TailError> {
        match &self.paths[..] {
            [] => Ok(vec![LogPath::find(None).place()?]),
            paths => find_all(paths),
        }
    }
}

/// Finds logs that were named.
///
/// # Errors
/// A path does not exist or cannot be read.
pub fn find_all(paths: &[PathBuf]) -> Result<Vec<Input>, TailError> {
    paths.iter().map(|path| LogPath::find(Some(path)).place()).collect()
}

/// The path of a log, and its origin.
#[derive(Clone, Debug)]
pub struct LogPath {
    /// The path.
    pub path: PathBuf,
    origin: &'static str,
}

impl LogPath {
    /// The argument, otherwise the environment variable, otherwise the default.
    fn find(given: Option<&Path>) -> Self {
        let variable = || std::env::var_os(VARIABLE).filter(|value| !value.is_empty());
        Self::choose(given, variable)
    }

    fn choose(given: Option<&Path>, variable: impl Fn() -> Option<OsString>) -> Self {
        match (given, variable()) {
            (Some(path), _) => Self { path: path.to_owned(), origin: "" },
            (None, Some(path)) => Self { path: path.into(), origin: " (from TACHO_LOG_DIR)" },
            (None, None) => Self {
                path: DEFAULT_DIRECTORY.into(),
                origin: " (the default; name another as an argument or in TACHO_LOG_DIR)",
            },
        }
    }

    fn place(self) -> Result<Input, TailError> {
        if self.path == Path::new(STDIN) {
            return Ok(Input::Stream(self.path));
        }
        Input::of(&self.path).map_err(|error| TailError::Input { log: self, error })
    }
}

impl fmt::Display for LogPath {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        write!(formatter, "{}{}", self.path.display(), self.origin)
    }
}

/// The destination of the result.
#[derive(Args, Debug)]
pub struct OutputFile {
    /// Write to this new file instead of stdout; an existing file is not overwritten
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// The range of times.
#[derive(Args, Debug)]
pub struct TimeRange {
    /// Only lines of this time or later
    #[arg(long, value_name = "WHEN")]
    pub since: Option<String>,

    /// Only lines before this time
    #[arg(long, value_name = "WHEN")]
    pub until: Option<String>,
}

/// Which lines of a log a command reads, and how.
#[derive(Args, Debug)]
pub struct ReadArgs {
    /// Times.
    #[command(flatten)]
    pub range: TimeRange,

    /// Encrypted files.
    #[command(flatten)]
    pub identity: IdentityArgs,

    /// Long lines.
    #[command(flatten)]
    pub limit: LimitArgs,

    /// Which lines.
    #[command(flatten)]
    pub filter: FilterArgs,
}

/// The zone of the times in the result.
#[derive(Args, Clone, Copy, Debug)]
pub struct ZoneArgs {
    /// Write times in UTC instead of local time
    #[arg(long)]
    utc: bool,
}

impl ZoneArgs {
    /// The zone; `now` has the reader's.
    pub fn zone(self, now: &Zoned) -> TimeZone {
        if self.utc { TimeZone::UTC } else { now.time_zone().clone() }
    }

    /// A clock that writes times in it.
    pub fn clock(self) -> TimeFormatter {
        if self.utc { TimeFormatter::utc() } else { say::clock() }
    }
}

/// Whether a command waits for new lines.
#[derive(Args, Debug)]
pub struct FollowArgs {
    /// Keep reading new lines, across rotation, until Ctrl-C
    #[arg(short, long, conflicts_with = "until")]
    pub follow: bool,
}

/// How to open encrypted files.
#[derive(Args, Debug, Default)]
pub struct IdentityArgs {
    /// File with a secret key for encrypted files (.age), as `age-keygen` writes it; may be
    /// repeated
    #[arg(long, value_name = "FILE")]
    pub identity: Vec<PathBuf>,
}

impl IdentityArgs {
    /// Reads the keys.
    ///
    /// # Errors
    /// A file cannot be read, or has no key.
    pub fn read(&self) -> anyhow::Result<Identities> {
        Identities::read(&self.identity)
            .map_err(|error| anyhow::anyhow!("--identity {}", problem::text(&error.into())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_argument_precedes_the_variable_which_precedes_the_default() {
        let shown = |given: Option<&str>, variable: Option<&str>| {
            LogPath::choose(given.map(Path::new), || variable.map(OsString::from)).to_string()
        };
        assert_eq!(shown(Some("a"), Some("b")), "a");
        assert_eq!(shown(None, Some("b")), "b (from TACHO_LOG_DIR)");
        assert!(shown(None, None).starts_with("/var/lib/mysql/tacho (the default; "));
    }
}
