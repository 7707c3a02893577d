//! `tacho tail`: the end of the log, filtered, followed.
//!
//! The log may be hundreds of gigabytes and the question is nearly always about its end or a
//! few minutes of it, so nothing is read that the answer does not need: whole files are passed
//! over by their names, a place in a file is found by binary search, and the newest lines are
//! found by reading blocks backwards.

pub mod files;
pub mod filter;
pub mod follow;
pub mod output;
pub mod reader;
mod scan;
pub mod since;
mod table;
pub mod visible;

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use jiff::Zoned;

use crate::cli::{Lines, TailArgs};
use crate::content::{self, Identities};
use files::{LogFile, Place};
use filter::Filter;
use follow::Follower;
use output::Output;
use since::{WhenError, Window};

/// How many lines are shown when nothing is said.
const LINES_DEFAULT: usize = 10;

/// Why `tacho tail` gave up.
#[derive(Debug, thiserror::Error)]
pub enum TailError {
    /// The log is not where it was looked for.
    #[error("{}{source_of_path}: {error}", path.display())]
    Place {
        /// Where it was looked for.
        path: PathBuf,
        /// Why there.
        source_of_path: &'static str,
        /// What the system says.
        error: io::Error,
    },
    /// The directory has no log file.
    #[error("{}: no log file (audit-*.jsonl) in this directory", .0.display())]
    NoFiles(PathBuf),
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
    /// The directory, or stdin, cannot be read any more.
    #[error("{}: {error}", path.display())]
    Read {
        /// What was being read.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
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
        !matches!(self, Self::Read { .. } | Self::Output(_) | Self::Signal(_))
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
    let window = Window::parse(args.since.as_deref(), args.until.as_deref(), &now)?;
    let filter = Filter::new(args, window)?;
    let place = Place::find(args.path.as_deref())?;
    let lines = args.lines.unwrap_or(match window.since {
        Some(_) => Lines::All,
        None => Lines::Last(LINES_DEFAULT),
    });
    let stop = Arc::new(AtomicBool::new(false));
    if args.follow {
        follow::catch_signals(&stop).map_err(TailError::Signal)?;
    }
    let identities = Identities::read(&args.identity.identity).map_err(TailError::Identity)?;
    let mut output = Output::new(args, filter, now.time_zone().clone(), stop);
    output.identities = identities;
    read(place, None, lines, window, args.follow, &mut output)?;
    Ok(finish(&mut output))
}

/// Shows what is in a place, and with `follow` what comes. Files of a directory that are older
/// than the one called `from` (without an ending) are passed over.
///
/// # Errors
/// When it cannot go on.
pub fn read(
    place: Place,
    from: Option<&str>,
    lines: Lines,
    window: Window,
    follow: bool,
    output: &mut Output,
) -> Result<(), TailError> {
    let mut refused = BTreeSet::new();
    let files = match &place {
        Place::Stream(_) if follow => return Err(TailError::FollowStream),
        Place::Stream(_) if output.wants_last_run() => return Err(TailError::LastRunOfStream),
        Place::Stream(path) => {
            let mut input: Box<dyn BufRead> = if path == Path::new(files::STDIN) {
                Box::new(io::stdin().lock())
            } else {
                let file = File::open(path)
                    .map_err(|error| TailError::Read { path: path.clone(), error })?;
                Box::new(BufReader::new(file))
            };
            return scan::stream(path, &mut input, lines, output);
        }
        Place::File(path) => {
            content::check_is_log(path)
                .map_err(|error| TailError::Read { path: path.clone(), error })?;
            vec![LogFile::named(path)]
        }
        Place::Directory(path) => {
            let listing =
                files::list(path).map_err(|error| TailError::Read { path: path.clone(), error })?;
            listing.report(&mut refused, output);
            let files = listing.files;
            if files.is_empty() {
                if !follow {
                    return Err(TailError::NoFiles(path.clone()));
                }
                output.note(&format!("{}: no log file yet, waiting for one", path.display()));
            }
            files
        }
    };
    // The newest file is opened first and its length taken once: what is there now is scanned,
    // what comes after it is followed, and no line falls between the two.
    let newest = scan::open_newest(&files, follow, output)?;
    if output.wants_last_run() {
        match scan::last_run(&files, newest.as_ref(), output) {
            Some(run) => output.set_last_run(run),
            None => output.note("no line of this log names its run; lines of all runs are shown"),
        }
    }
    let older = from.map_or(0, |from| files.partition_point(|file| *file.stem < *from));
    scan::run(&files[older..], newest.as_ref(), lines, window, output)?;
    output.flush()?;
    if follow {
        Follower::new(place, &files, refused, newest).run(output)?;
    }
    Ok(())
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
