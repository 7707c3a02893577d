//! `tacho recorder`: the writer of a server's audit log in a process of its own.
//!
//! Here are the place, the user, the signals and the words; the work is done by
//! `tacho_recorder::external`.

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use signal_hook::consts::{SIGINT, SIGTERM};
use tacho_recorder::control::Severity;
use tacho_recorder::external::recorder::{Ended, Paths, Recorder};

use crate::cli::RecorderArgs;
use crate::recover::user;
use crate::tail::visible::visible;

/// Why `tacho recorder` gave up.
#[derive(Debug, thiserror::Error)]
pub enum RecorderError {
    /// A directory is not where it was looked for.
    #[error("cannot use {}: {error}; name a directory that the user of the server can read", path.display())]
    Place {
        /// The directory.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// Root could not become the owner of the log directory.
    #[error("becoming the owner of {}: {error}", path.display())]
    Owner {
        /// The log directory.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// The system does not let it wait, or start anew.
    #[error(transparent)]
    System(#[from] io::Error),
}

impl RecorderError {
    /// Whether the command line is at fault.
    pub fn is_usage(&self) -> bool {
        matches!(self, Self::Place { .. })
    }
}

/// Runs `tacho recorder` until it is told to end.
///
/// # Errors
/// When it cannot go on.
pub fn run(args: &RecorderArgs) -> Result<(), RecorderError> {
    let log_directory = directory(&args.attach)?;
    let arena_directory = directory(&args.arena_directory)?;
    user::become_owner(&log_directory)
        .map_err(|error| RecorderError::Owner { path: log_directory.clone(), error })?;
    // As that user: what cannot be read now would be waited for without end.
    for directory in [&log_directory, &arena_directory] {
        std::fs::read_dir(directory)
            .map_err(|error| RecorderError::Place { path: directory.clone(), error })?;
    }
    let beside = || log_directory.parent().map(|parent| parent.join("tacho-signing.key"));
    let signing_key_file = args.signing_key_file.clone().or_else(beside).unwrap_or_default();
    // Can be read when a signal has come, and is never read.
    let (stopped, signalled) = UnixStream::pair()?;
    for signal in [SIGTERM, SIGINT] {
        signal_hook::low_level::pipe::register(signal, signalled.try_clone()?)?;
    }
    say(Severity::Note, &format!("waiting for the server of {}", log_directory.display()));
    let place = Paths { log_directory, arena_directory, signing_key_file };
    match Recorder::new(place, stopped.as_raw_fd(), Arc::new(say)).run()? {
        Ended::Stopped => Ok(()),
        Ended::Zone(zone) => Err(begin_anew(zone).into()),
    }
}

fn directory(path: &Path) -> Result<PathBuf, RecorderError> {
    let place = |error| RecorderError::Place { path: path.to_owned(), error };
    let found = path.canonicalize().map_err(place)?;
    if !found.is_dir() {
        return Err(place(io::Error::from(io::ErrorKind::NotADirectory)));
    }
    Ok(found)
}

/// One line a message: of journald, or of a terminal.
fn say(severity: Severity, text: &str) {
    let name = match severity {
        Severity::Note => "note",
        Severity::Warning => "warning",
        Severity::Error => "error",
    };
    // A stderr that is closed has nowhere to say so.
    let _ = writeln!(io::stderr(), "tacho recorder: {name}: {}", visible(text));
}

/// Local time is the server's, also where its `TZ` is not that of this process. What is known of the
/// zone is kept in several places of a process, so that it is another process that has another one.
fn begin_anew(zone: Option<OsString>) -> io::Error {
    let program = match std::env::current_exe() {
        Ok(program) => program,
        Err(error) => return error,
    };
    let mut command = Command::new(program);
    command.args(std::env::args_os().skip(1));
    match zone {
        Some(zone) => command.env("TZ", zone),
        None => command.env_remove("TZ"),
    };
    command.exec()
}
