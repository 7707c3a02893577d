//! `tacho tail`: the end of the log, filtered, followed.
//!
//! `tacho_logdir::read` finds and reads the lines; this module says which are wanted, and shows them.

pub mod filter;
pub mod output;
pub mod place;
pub mod since;
mod table;
pub mod visible;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use jiff::Zoned;
use tacho_logdir::read::content::Access;
use tacho_logdir::read::files::Input;
use tacho_logdir::read::{self, Lines, ReadError, Request, Sink as _};

use crate::cli::{IdentityArgs, TailArgs};
use crate::{line_limit, signals};
use filter::Filter;
use output::Output;
use since::WhenError;

/// How many lines are shown when nothing is said.
const LINES_DEFAULT: usize = 10;

/// Why `tacho tail` gave up.
#[derive(Debug, thiserror::Error)]
pub enum TailError {
    /// The log is not where it was looked for.
    #[error("{}{source_of_path}: {error}", path.display())]
    Input {
        /// Where it was looked for.
        path: PathBuf,
        /// Why there.
        source_of_path: &'static str,
        /// What the system says.
        error: io::Error,
    },
    /// It cannot be read, or not be read on.
    #[error(transparent)]
    Log(#[from] ReadError),
    /// It has an end that does not move.
    #[error("a pipe cannot be followed; without --follow it is read to its end")]
    FollowStream,
    /// A time was not understood.
    #[error(transparent)]
    When(#[from] WhenError),
    /// The newest run is known at the end only.
    #[error(
        "--run last needs a log directory or a file: a pipe is read from its start; give the number of the run"
    )]
    LastRunOfStream,
    /// `--identity` is no file with a secret key.
    #[error("{0:#}")]
    Identity(anyhow::Error),
    /// `--grep` was not understood.
    #[error("--grep")]
    Grep(#[from] regex::Error),
    /// What is read has begun anew, so that its numbers say nothing any more.
    #[error(
        "{}: begins with seq {seq}, which was sent before, and is no file of before: another log. \
         To send it from its start, start again, without the state", path.display()
    )]
    AnotherLog {
        /// The file.
        path: PathBuf,
        /// Of its first line.
        seq: u64,
    },
    /// Signal handlers could not be set.
    #[error("setting up Ctrl-C")]
    Signal(#[source] io::Error),
    /// Stdout, or the file given for the result, cannot be written to.
    #[error("writing the output")]
    Output(#[source] io::Error),
}

impl TailError {
    /// Whether the command line, not the data, is at fault.
    pub fn is_usage(&self) -> bool {
        !matches!(self, Self::Log(ReadError::Read { .. }) | Self::Output(_) | Self::Signal(_))
    }
}

/// How it went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Broken lines and unreadable files, all of them already told on stderr.
    pub problem_count: u64,
}

/// Runs `tacho tail`.
///
/// # Errors
/// When it cannot go on. Broken lines are no reason to stop; they are counted in the verdict.
pub fn run(args: &TailArgs) -> Result<Verdict, TailError> {
    args.limit.apply();
    let now = Zoned::now();
    let window = since::window(args.since.as_deref(), args.until.as_deref(), &now)?;
    let filter = Filter::new(args, window)?;
    let place = place::find(args.path.as_deref())?;
    let lines = args.lines.unwrap_or(match window.since {
        Some(_) => Lines::All,
        None => Lines::Last(LINES_DEFAULT),
    });
    let stop = Arc::new(AtomicBool::new(false));
    if args.follow {
        signals::catch(&stop).map_err(TailError::Signal)?;
    }
    let access = access(&args.identity)?;
    let mut output = Output::new(args, filter, now.time_zone().clone(), stop);
    let request = Request { from: None, lines, window, follow: args.follow };
    read(place, &request, &access, &mut output)?;
    Ok(finish(&mut output))
}

/// What files may be read.
///
/// # Errors
/// When a key cannot be read.
pub fn access(identity: &IdentityArgs) -> Result<Access, TailError> {
    let identities = identity.read().map_err(TailError::Identity)?;
    Ok(Access { identities, line_bytes_max: line_limit::get() })
}

/// Shows what is in a place, and what comes.
///
/// # Errors
/// When it cannot go on.
pub fn read(
    place: Input,
    request: &Request<'_>,
    access: &Access,
    output: &mut Output,
) -> Result<(), TailError> {
    match place {
        Input::Stream(_) if request.follow => Err(TailError::FollowStream),
        Input::Stream(_) if output.wants_last_run() => Err(TailError::LastRunOfStream),
        place => read::read(place, request, access, output),
    }
}

/// Tells how it went.
pub fn finish(output: &mut Output) -> Verdict {
    output.clear_progress();
    output.report_runs();
    let problem_count = output.problem_count;
    if problem_count > 0 {
        let problems = crate::say::counted(problem_count, "problem");
        output.note(&format!("{problems} found, listed above"));
    }
    Verdict { problem_count }
}
