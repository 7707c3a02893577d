//! `tacho recorder`: the writer of a server's audit log in a separate process.
//!
//! `tacho_recorder::external` writes; this module has the directories, the user, the signals and
//! the messages.

use std::ffi::OsString;
use std::fmt;
use std::io::{self, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use signal_hook::consts::{SIGINT, SIGTERM};
use tacho_recorder::control::Severity;
use tacho_recorder::external::recorder::{Ended, ExternalRecorder, Paths};

use crate::cli::RecorderArgs;
use crate::recover::user;
use crate::tail::sanitize::sanitize;

/// Why `tacho recorder` failed.
#[derive(Debug, thiserror::Error)]
pub enum RecorderError {
    /// A directory cannot be used.
    #[error("cannot use {place}: {error}; name a directory that the server's user can read")]
    Place {
        /// The directory, and its origin.
        place: String,
        /// The system's error.
        error: io::Error,
    },
    /// Root could not become the owner of the log directory.
    #[error("cannot switch to the user that owns {}: {error}", path.display())]
    Owner {
        /// The log directory.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// It cannot wait or restart.
    #[error(transparent)]
    System(#[from] io::Error),
}

impl RecorderError {
    /// Whether the command line is at fault.
    pub fn is_usage(&self) -> bool {
        matches!(self, Self::Place { .. })
    }
}

/// Runs `tacho recorder` until a signal ends it.
///
/// # Errors
/// See [`RecorderError`].
pub fn run(args: &RecorderArgs) -> Result<(), RecorderError> {
    let log = args.log.find();
    let log_directory = directory(&log.path, &log)?;
    let arenas = args.arena_directory.path.as_path();
    let arena_directory = directory(arenas, &arenas.display())?;
    user::become_owner(&log_directory)
        .map_err(|error| RecorderError::Owner { path: log_directory.clone(), error })?;
    // After the change of the user: the recorder would wait forever for a directory that it cannot
    // read.
    for directory in [&log_directory, &arena_directory] {
        std::fs::read_dir(directory).map_err(|error| RecorderError::Place {
            place: directory.display().to_string(),
            error,
        })?;
    }
    let beside = || log_directory.parent().map(|parent| parent.join("tacho-signing.key"));
    let signing_key_file = args.signing_key_file.path.clone().or_else(beside).unwrap_or_default();
    // Becomes readable on a signal; it is never read.
    let (stopped, signalled) = UnixStream::pair()?;
    for signal in [SIGTERM, SIGINT] {
        signal_hook::low_level::pipe::register(signal, signalled.try_clone()?)?;
    }
    say(Severity::Note, &format!("waiting for the server of {}", log_directory.display()));
    let place = Paths { log_directory, arena_directory, signing_key_file };
    match ExternalRecorder::new(place, stopped.as_raw_fd(), Arc::new(say)).run()? {
        Ended::Stopped => Ok(()),
        Ended::Zone(zone) => Err(begin_anew(zone).into()),
    }
}

fn directory(path: &Path, shown: &dyn fmt::Display) -> Result<PathBuf, RecorderError> {
    let place = |error| RecorderError::Place { place: shown.to_string(), error };
    let found = path.canonicalize().map_err(place)?;
    if !found.is_dir() {
        return Err(place(io::Error::from(io::ErrorKind::NotADirectory)));
    }
    Ok(found)
}

/// One line for each message, for journald or a terminal.
fn say(severity: Severity, text: &str) {
    let name = match severity {
        Severity::Note => "note",
        Severity::Warning => "warning",
        Severity::Error => "error",
    };
    // There is no other place to report a closed stderr.
    let _ = writeln!(io::stderr(), "tacho recorder: {name}: {}", sanitize(text));
}

/// The times are in the server's zone, even if its `TZ` differs from that of this process. A
/// process keeps the zone in several places, so another zone needs another process.
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
