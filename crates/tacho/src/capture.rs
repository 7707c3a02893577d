//! `tacho capture`: `tacho_capture` records; this module has the command line and the messages.

mod check;
mod enrich;
mod figures;
mod live;
mod seccomp;

use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use tacho_capture::live::CaptureError as Live;
use tacho_capture::replay::{self, Replay, ReplayError};
use tacho_capture::source::file::FileError;
use tacho_capture::source::live::LiveError;

use crate::cli::CaptureArgs;
use crate::say;

/// Why `tacho capture` failed.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// The packet file, or the recorder.
    #[error(transparent)]
    Replay(ReplayError),
    /// The interface, or the recorder.
    #[error(transparent)]
    Live(#[from] Live),
    /// The log directory.
    #[error("cannot use the log directory {}: {error}", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// The user to become.
    #[error("cannot switch to the user {name}: {error}")]
    User {
        /// Its name.
        name: String,
        /// The system's error.
        error: io::Error,
    },
    /// Everything would run as root.
    #[error(
        "{} belongs to root, and packets must not be decoded as root; give the log a directory of \
         a user, for example with `install -d -o USER -g GROUP {}`, or use --user USER",
        owned.display(),
        log.display()
    )]
    AsRoot {
        /// The directory of root.
        owned: PathBuf,
        /// The log directory.
        log: PathBuf,
    },
    /// The log would not be sealed.
    #[error(
        "cannot make or read the signing key {}: {error}; name one with --signing-key-file that \
         user {uid} can make or read",
        path.display()
    )]
    Key {
        /// The key.
        path: PathBuf,
        /// The user id of the process.
        uid: u32,
        /// The system's error.
        error: io::Error,
    },
    /// Capabilities cannot be given up.
    #[error("cannot give up privileges: {0}")]
    Privileges(io::Error),
    /// The account for questions to the server.
    #[error("{0:#}")]
    Enrich(anyhow::Error),
    /// Which sessions are those of the server that is asked.
    #[error(
        "--enrich-socket and --enrich-host need the address of that server in the packets: add \
         --enrich-server IP:PORT"
    )]
    EnrichServer,
    /// A thread cannot be started.
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
    /// Signals cannot be handled.
    #[error("cannot handle signals: {0}")]
    Signal(io::Error),
    /// An option of `--check` without it.
    #[error("--format is for --check: records are always JSON")]
    Format,
    /// Stdout cannot be written to.
    #[error("cannot write the output")]
    Output(#[source] io::Error),
}

impl From<ReplayError> for CaptureError {
    fn from(error: ReplayError) -> CaptureError {
        match error {
            ReplayError::Output(error) => CaptureError::Output(error),
            other => CaptureError::Replay(other),
        }
    }
}

impl CaptureError {
    /// Whether the command line, not the data, is at fault.
    pub fn is_usage(&self) -> bool {
        matches!(
            self,
            Self::Replay(ReplayError::File(FileError::Io { .. }))
                | Self::Live(Live::Live(LiveError::NoInterface(_) | LiveError::TooManyPorts(_)))
                | Self::Format
                | Self::Enrich(_)
                | Self::EnrichServer
                | Self::AsRoot { .. }
                | Self::User { .. }
        )
    }
}

/// Runs `tacho capture`.
///
/// # Errors
/// See [`CaptureError`].
pub fn run(args: &CaptureArgs) -> anyhow::Result<ExitCode> {
    if let (Some(interface), true) = (&args.interface, args.check) {
        return Ok(check::run(args, interface)?);
    }
    if args.report.is_json() {
        return Err(CaptureError::Format.into());
    }
    if let (Some(interface), Some(log)) = (&args.interface, &args.log) {
        live::run(args, interface, log)?;
        return Ok(ExitCode::SUCCESS);
    }
    let file = args.read.clone().unwrap_or_default();
    let replay = Replay {
        file: file.clone(),
        servers: args.server.clone(),
        arena_directory: args.arena_directory.clone(),
        redact_literals: args.redact_literals,
        utc: args.utc,
        budget: args.budget(),
        say: |text| say::problem(text),
    };
    let mut output = BufWriter::new(io::stdout().lock());
    let summary = replay.run(&mut output).map_err(CaptureError::from)?;
    Ok(if report(&file, &summary) { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// Says what a reader of the output must know. `false`: a part of the file was not read.
fn report(file: &Path, summary: &replay::Summary) -> bool {
    let file = file.display();
    if summary.is_torn {
        say::problem(format!("{file} ends within a packet: its writer was stopped, or still runs"));
    }
    if summary.unknown_link > 0 {
        say::problem(format!(
            "{} of {} packets of {file} have a link type that is not supported, and were not read; \
             capture on an Ethernet interface, on lo or on any",
            summary.unknown_link, summary.frames
        ));
    }
    if summary.figures.connections == 0 {
        say::problem(format!(
            "{file} has no connection to a server; name the server with --server IP:PORT"
        ));
    }
    !summary.is_torn && summary.unknown_link == 0
}
