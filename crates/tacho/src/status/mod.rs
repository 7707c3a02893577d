//! `tacho status`: whether a log is written, complete, signed, and has space.
//!
//! Cron asks every minute, for logs of hundreds of gigabytes: the command reads names, lengths and
//! the ends of the newest files, and a bounded part of the arena. It changes nothing.

mod arenas;
mod log;
mod losses;
mod nagios;
mod output;
mod prometheus;
mod recorder;
pub mod report;
mod seal;
mod show;
mod space;
pub mod spec;

use std::io::{self, Write as _};
use std::process::ExitCode;

use tacho_ring::sys;

use crate::cli::StatusArgs;
use crate::cli::log::LogPath;
use crate::limits::Limits;
pub use log::advice;
use report::{Choice, Health, Report};

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
pub enum StatusError {
    /// `--config` cannot be used.
    #[error("{0:#}")]
    Config(anyhow::Error),
    /// The result cannot be written.
    #[error("cannot write {path}: {error}")]
    Output {
        /// Where to.
        path: String,
        /// Why not.
        error: io::Error,
    },
}

/// Runs `tacho status`. The exit code is that of a plugin of Nagios.
///
/// # Errors
/// See [`StatusError`].
pub fn run(args: &StatusArgs) -> Result<ExitCode, StatusError> {
    let limits = Limits::of(args.config.as_deref()).map_err(StatusError::Config)?;
    let report = look(args, &limits);
    let text = show::render(&report, args.format);
    match &args.output {
        Some(path) => output::replace(path, &text)
            .map_err(|error| StatusError::Output { path: path.display().to_string(), error })?,
        None => match io::stdout().lock().write_all(text.as_bytes()) {
            // The exit code is the answer, also if the reader has gone.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
            written => written
                .map_err(|error| StatusError::Output { path: "the result".to_owned(), error })?,
        },
    }
    Ok(ExitCode::from(report.state().exit_code()))
}

/// The exit code if there is no result.
pub fn exit_code_of_failure() -> u8 {
    Health::Unknown.exit_code()
}

fn look(args: &StatusArgs, limits: &Limits) -> Report {
    let given: LogPath = args.log.find();
    let choice =
        Choice { warn: args.warn.clone(), crit: args.crit.clone(), skip: args.skip.clone() };
    let mut report = Report::new(given.path.clone(), sys::now_us(), choice);
    let Some(mut log) = log::look(&mut report, &given) else { return report };
    report.log.clone_from(&log.path);
    log::look_at_newest(&mut report, &mut log);
    let arenas = arenas::find(&args.arena_directory.path, &log);
    recorder::look(&mut report, &log, &arenas);
    losses::look(&mut report, &log, args.search);
    seal::look(&mut report, &log);
    space::look(&mut report, &log, limits);
    report.sort();
    report
}
