//! `tacho tail`: shows the end of the log, filters it, follows it.
//!
//! `tacho_logdir::read` finds and reads the lines; this module filters and shows them.

pub mod output;
pub mod sanitize;
pub mod since;
pub mod table;

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use jiff::Zoned;
use tacho_logdir::read::content::Access;
use tacho_logdir::read::files::Input;
use tacho_logdir::read::{self, Lines, ReadError, Request, Sink as _};

use crate::cli::log::LogPath;
use crate::cli::{IdentityArgs, TailArgs};
use crate::filter::Filter;
use crate::{line_limit, signals};
use output::Output;
use since::WhenError;

/// Default number of lines.
const LINES_DEFAULT: usize = 10;

/// Why `tacho tail` failed.
#[derive(Debug, thiserror::Error)]
pub enum TailError {
    /// The log does not exist or cannot be opened.
    #[error("cannot read the log {log}: {error}")]
    Input {
        /// Its path.
        log: LogPath,
        /// The system's error.
        error: io::Error,
    },
    /// It cannot be read.
    #[error(transparent)]
    Log(#[from] ReadError),
    /// A pipe does not grow.
    #[error("cannot follow a pipe: it is read to its end without --follow")]
    FollowStream,
    /// A time could not be parsed.
    #[error(transparent)]
    When(#[from] WhenError),
    /// The newest run is known at the end only.
    #[error(
        "cannot find the last run in a pipe, which is read from its start; give --run the number of \
         the run, or read a log directory or file"
    )]
    LastRunOfStream,
    /// `--identity` is not a file with a secret key.
    #[error("{0:#}")]
    Identity(anyhow::Error),
    /// `--grep` could not be parsed.
    #[error("--grep is not a regular expression")]
    Grep(#[from] regex::Error),
    /// Signal handlers could not be set.
    #[error("cannot handle signals")]
    Signal(#[source] io::Error),
    /// Stdout, or the file given for the result, cannot be written to.
    #[error("cannot write the output")]
    Output(#[source] io::Error),
}

impl TailError {
    /// Whether the command line, not the data, is at fault.
    pub fn is_usage(&self) -> bool {
        !matches!(self, Self::Log(ReadError::Read { .. }) | Self::Output(_) | Self::Signal(_))
    }
}

/// The result of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Broken lines and unreadable files, each already reported on stderr.
    pub problem_count: u64,
}

/// Runs `tacho tail`.
///
/// # Errors
/// See [`TailError`]. Broken lines do not stop it; the verdict has their number.
pub fn run(args: &TailArgs) -> Result<Verdict, TailError> {
    args.limit.apply();
    let now = Zoned::now();
    let window = since::window(&args.range, &now)?;
    let filter = Filter::new(&args.filter, window)?;
    let place = args.source.find()?;
    let lines = args.lines.unwrap_or(match window.since {
        Some(_) => Lines::All,
        None => Lines::Last(LINES_DEFAULT),
    });
    let stop = Arc::new(AtomicBool::new(false));
    if args.follow.follow {
        signals::catch(&stop).map_err(TailError::Signal)?;
    }
    let access = access(&args.identity)?;
    let mut output = Output::new(args, filter, now.time_zone().clone(), stop);
    let request = Request { from: None, lines, window, follow: args.follow.follow };
    check(&place, &request)?;
    if output.wants_last_run() && matches!(place, Input::Stream(_)) {
        return Err(TailError::LastRunOfStream);
    }
    read::read(place, &request, &access, &mut output)?;
    Ok(output.finish())
}

/// Refuses what a place cannot do.
///
/// # Errors
/// A pipe is to be followed.
pub fn check(place: &Input, request: &Request<'_>) -> Result<(), TailError> {
    match place {
        Input::Stream(_) if request.follow => Err(TailError::FollowStream),
        _ => Ok(()),
    }
}

/// The files that may be read.
///
/// # Errors
/// A key cannot be read.
pub fn access(identity: &IdentityArgs) -> Result<Access, TailError> {
    let identities = identity.read().map_err(TailError::Identity)?;
    Ok(Access { identities, line_bytes_max: line_limit::get() })
}
