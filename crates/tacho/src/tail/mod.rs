//! `tacho tail`: shows the end of the log, filters it, follows it.
//!
//! `tacho_logdir::read` finds and reads the lines; this module filters and shows them.

mod around;
mod columns;
mod context;
mod form;
pub mod output;
mod row;
pub mod sanitize;
pub mod since;
pub mod table;

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use jiff::Zoned;
use tacho_logdir::read::content::Access;
use tacho_logdir::read::files::Input;
use tacho_logdir::read::{self, Lines, ReadError, Request};

use crate::cli::log::LogPath;
use crate::cli::{IdentityArgs, TailArgs};
use crate::filter::Filter;
use crate::{line_limit, signals};
use around::{Around, Found, Start};
use context::Context;
use output::Output;
use row::Role;
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
    /// Only one log can be followed.
    #[error("--follow reads one log directory or file; remove the others")]
    FollowSeveral,
    /// The lines before a match are older, and the log would be read to its start for each.
    #[error("--context with --reverse needs -n LINES")]
    ContextReverse,
    /// It would have to be read twice.
    #[error("--context of a pipe, which is read once, needs -n all")]
    ContextOfStream,
    /// Signal handlers could not be set.
    #[error("cannot handle signals")]
    Signal(#[source] io::Error),
    /// Stdout, or the file given for the result, cannot be written to.
    #[error("cannot write the output")]
    Output(#[source] io::Error),
}

impl TailError {
    /// A line that was read before cannot be parsed.
    fn changed(reason: String) -> Self {
        Self::Output(io::Error::other(reason))
    }

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
    args.read.limit.apply();
    let now = Zoned::now();
    let window = since::window(&args.read.range, &now)?;
    let filter = Filter::new(&args.read.filter, window);
    let follow = args.follow.follow;
    if follow && args.source.paths.len() > 1 {
        return Err(TailError::FollowSeveral);
    }
    let places = args.source.find()?;
    places.iter().try_for_each(|place| check(place, &filter, follow))?;
    let lines = args.lines.unwrap_or(match window.since {
        _ if args.count => Lines::All,
        Some(_) => Lines::All,
        None => Lines::Last(LINES_DEFAULT),
    });
    let stop = Arc::new(AtomicBool::new(false));
    if follow {
        signals::catch(&stop).map_err(TailError::Signal)?;
    }
    let access = access(&args.read.identity)?;
    let mut output = Output::new(args, filter, args.zone.zone(&now), stop);
    let newest_first = args.reverse;
    let request = Request { from: None, lines, newest_first, window, follow };
    match (lines, args.context()) {
        (_, Some(context)) if follow => {
            for place in places {
                follow_around(place, context, &request, &access, &mut output)?;
            }
        }
        (Lines::Last(count), Some(context)) => {
            let is_stream = |place: &Input| matches!(place, Input::Stream(_));
            if places.iter().any(is_stream) {
                return Err(TailError::ContextOfStream);
            }
            let find = |place, count, output: &mut Output| {
                let around = Around::new(context, &mut output.gate, &mut output.scan);
                around.find(place, count, &access)
            };
            show_newest(places, count, newest_first, &mut output, find)?;
        }
        (Lines::All, Some(_)) if newest_first => return Err(TailError::ContextReverse),
        // Those of one log need not be kept.
        (Lines::Last(count), None) if places.len() > 1 => {
            let find = |place, count, output: &mut Output| {
                let request = Request { lines: Lines::Last(count), newest_first: false, ..request };
                output.keep();
                read::read(place, &request, &access, output)?;
                let kept = output.kept();
                Ok((kept.len(), kept.into_iter().map(|line| (Role::Match, line)).collect()))
            };
            show_newest(places, count, newest_first, &mut output, find)?;
        }
        (_, context) => {
            if let Some(context) = context {
                output.show_context(Context::new(context));
            }
            let mut places = places;
            if newest_first {
                places.reverse();
            }
            for place in places {
                read::read(place, &request, &access, &mut output)?;
            }
        }
    }
    output.finish()
}

/// Follows a log, and shows lines around each match.
fn follow_around(
    place: Input,
    context: usize,
    request: &Request<'_>,
    access: &Access,
    output: &mut Output,
) -> Result<(), TailError> {
    let mut start = Start::default();
    let mut lines = request.lines;
    if let Lines::Last(count @ 1..) = lines {
        let around = Around::new(context, &mut output.gate, &mut output.scan);
        start = around.start(place.clone(), count, access)?;
        output.scan.report_each();
        // What is older than the first of the matches is read and not shown.
        lines = Lines::All;
    }
    output.show_context(Context::new(context).beginning_with(start.matches));
    // A single file has no name to begin from.
    let stem = start.stem.filter(|_| matches!(place, Input::Directory(_)));
    let request = Request { from: stem.as_deref(), lines, ..*request };
    read::read(place, &request, access, output)
}

/// Shows the newest lines of several logs, which are read as if they were one. `find` returns those
/// of one log, and how many of them count.
fn show_newest(
    places: Vec<Input>,
    count: usize,
    newest_first: bool,
    output: &mut Output,
    mut find: impl FnMut(Input, usize, &mut Output) -> Result<Found, TailError>,
) -> Result<(), TailError> {
    let mut wanted = count;
    let mut found = Vec::new();
    for place in places.into_iter().rev() {
        if wanted > 0 {
            let (count, lines) = find(place, wanted, output)?;
            wanted = wanted.saturating_sub(count);
            found.extend(lines.into_iter().rev());
        }
    }
    if !newest_first {
        found.reverse();
    }
    output.scan.clear_progress();
    found.iter().try_for_each(|(role, line)| output.write(line, *role))
}

/// Refuses what a place cannot do.
///
/// # Errors
/// A pipe is to be followed, or its newest run to be found.
pub fn check(place: &Input, filter: &Filter, follow: bool) -> Result<(), TailError> {
    match place {
        Input::Stream(_) if follow => Err(TailError::FollowStream),
        Input::Stream(_) if filter.wants_last_run() => Err(TailError::LastRunOfStream),
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
