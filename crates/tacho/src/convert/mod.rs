//! `tacho convert` and `tacho slowlog`: the log in the formats that other programs read.
//!
//! Files are found, read and followed as by `tacho tail`, from their beginning. A line becomes a
//! record without loss, `running` lines are joined with their ends, and `tacho_format` writes what
//! comes out.

mod converter;
mod send;

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use jiff::Zoned;
use tacho_event::time::TimeFormatter;
use tacho_format::{Format, Formatter};

use crate::cli::{ConvertArgs, Lines, LogArgs, SlowlogArgs, Target};
use crate::content::Identities;
use crate::say;
use crate::tail::files::Place;
use crate::tail::filter::Filter;
use crate::tail::output::Output;
use crate::tail::since::Window;
use crate::tail::{self, TailError, Verdict, follow};
pub use converter::Converter;
pub use send::Destination;
use send::Sender;

/// Why a conversion gave up.
#[derive(Debug, thiserror::Error)]
pub enum ConvertError {
    /// The log cannot be read or the result not be written.
    #[error(transparent)]
    Log(#[from] TailError),
    /// Only one place can be followed.
    #[error("--follow takes one directory or file")]
    FollowSeveral,
    /// Only messages can be sent.
    #[error("--send goes with --to syslog only")]
    SendFormat,
    /// The file for the result cannot be made.
    #[error("{}: {error}", path.display())]
    Out {
        /// The file.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
}

impl ConvertError {
    /// Whether the command line, not the data, is at fault.
    pub fn is_usage(&self) -> bool {
        match self {
            Self::Log(error) => error.is_usage(),
            Self::FollowSeveral | Self::SendFormat | Self::Out { .. } => true,
        }
    }
}

/// Runs `tacho convert`.
///
/// # Errors
/// When it cannot go on. Broken lines are no reason to stop; they are counted in the verdict.
pub fn run(args: &ConvertArgs) -> Result<Verdict, ConvertError> {
    let format = match args.to {
        Target::Csv => Format::Csv,
        Target::PerconaJson => Format::PerconaJson,
        Target::PerconaNew => Format::PerconaNew,
        Target::PerconaOld => Format::PerconaOld,
        Target::Ocsf => Format::Ocsf,
        Target::Ecs => Format::Ecs,
        Target::Cef => Format::Cef,
        Target::Leef => Format::Leef,
        Target::Syslog => Format::Syslog,
    };
    let host = args.server_host.clone().unwrap_or_else(host_name);
    if args.send.is_some() && format != Format::Syslog {
        return Err(ConvertError::SendFormat);
    }
    let converter = Converter::new(format, Formatter::new(format, &host), clock(&args.log), 0);
    convert(&args.log, args.send.as_ref(), converter)
}

/// Runs `tacho slowlog`.
///
/// # Errors
/// As [`run`].
pub fn slowlog(args: &SlowlogArgs) -> Result<Verdict, ConvertError> {
    let formatter = Formatter::new(Format::Slow, "");
    let clock = clock(&args.log);
    convert(&args.log, None, Converter::new(Format::Slow, formatter, clock, args.min_query_time_us))
}

fn clock(args: &LogArgs) -> TimeFormatter {
    if args.utc { TimeFormatter::utc() } else { say::clock() }
}

/// This machine, because conversions are usually made on the server; an unnamed one is `-`.
fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = name.trim();
    if name.is_empty() { "-".to_owned() } else { name.to_owned() }
}

fn convert(
    args: &LogArgs,
    send: Option<&Destination>,
    converter: Converter,
) -> Result<Verdict, ConvertError> {
    let window = Window::parse(args.since.as_deref(), args.until.as_deref(), &Zoned::now())
        .map_err(TailError::When)?;
    if args.follow && args.paths.len() > 1 {
        return Err(ConvertError::FollowSeveral);
    }
    let places = match &args.paths[..] {
        [] => vec![Place::find(None)?],
        paths => paths.iter().map(|path| Place::find(Some(path))).collect::<Result<_, _>>()?,
    };
    let identities = Identities::read(&args.identity.identity).map_err(TailError::Identity)?;
    let stop = Arc::new(AtomicBool::new(false));
    let too_large = Arc::new(AtomicU64::new(0));
    if args.follow || send.is_some() {
        follow::catch_signals(&stop).map_err(TailError::Signal)?;
    }
    let out: Box<dyn Write> = match (&args.out, send) {
        (_, Some(to)) => {
            Box::new(Sender::new(to.clone(), Arc::clone(&stop), Arc::clone(&too_large)))
        }
        (None, None) => Box::new(io::stdout()),
        // Never over another file: a slip of the keyboard must not cost a log.
        (Some(path), None) => Box::new(
            OpenOptions::new()
                .write(true)
                .create_new(true)
                .open(path)
                .map_err(|error| ConvertError::Out { path: path.clone(), error })?,
        ),
    };
    let mut output = Output::converted(converter, out, Filter::of_window(window), stop);
    output.identities = identities;
    for place in places {
        tail::read(place, Lines::All, window, args.follow, &mut output)?;
    }
    let told = output.finish_conversion()?.map(Converter::left_out).unwrap_or_default();
    for sentence in told {
        output.note(&sentence);
    }
    // Told when they were met.
    output.problem_count += too_large.load(Ordering::Relaxed);
    Ok(tail::finish(&mut output))
}
