//! `tacho capture`: `tacho_capture` records; this module has the command line, the user, the
//! signals and the messages.

use std::io::{self, BufWriter};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use signal_hook::consts::{SIGINT, SIGTERM};
use tacho_capture::flows::Budget;
use tacho_capture::live::{Capture, CaptureError as Live};
use tacho_capture::recording::Recording;
use tacho_capture::replay::{self, Replay, ReplayError};
use tacho_capture::source::file::FileError;
use tacho_capture::source::live::LiveError;

use crate::cli::CaptureArgs;
use crate::recover::user;
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
    /// Signals cannot be handled.
    #[error("cannot handle signals: {0}")]
    Signal(io::Error),
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
                | Self::Live(Live::Live(LiveError::NoInterface(_)))
        )
    }
}

/// Runs `tacho capture`.
///
/// # Errors
/// See [`CaptureError`].
pub fn run(args: &CaptureArgs) -> anyhow::Result<ExitCode> {
    if let (Some(interface), Some(log)) = (&args.interface, &args.log) {
        live(args, interface, log)?;
        return Ok(ExitCode::SUCCESS);
    }
    let file = args.read.clone().unwrap_or_default();
    let replay = Replay {
        file: file.clone(),
        servers: args.server.clone(),
        arena_directory: args.arena_directory.clone(),
        redact_literals: args.redact_literals,
        utc: args.utc,
        budget: Budget::default(),
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

/// Arena of a live capture, bytes.
const ARENA_BYTES: u64 = 64 << 20;

/// Records an interface until a signal ends it.
fn live(args: &CaptureArgs, interface: &str, log: &Path) -> Result<(), CaptureError> {
    let directory = |error| CaptureError::Directory { path: log.to_owned(), error };
    std::fs::create_dir_all(log).map_err(directory)?;
    let log = log.canonicalize().map_err(directory)?;
    let capture = Capture {
        interface: interface.to_owned(),
        servers: args.server.clone(),
        ring_bytes: usize::try_from(args.ring_size).unwrap_or(usize::MAX),
        budget: Budget::default(),
    };
    // The socket needs privileges; nothing after it does.
    let open = capture.open().map_err(Live::from)?;
    user::become_owner(&log).map_err(directory)?;
    let beside = || log.parent().map(|parent| parent.join("tacho-signing.key"));
    let signing_key_file = args.signing_key_file.clone().or_else(beside).unwrap_or_default();
    let recording = Recording {
        log_directory: log.clone(),
        arena_directory: args.arena_directory.clone(),
        signing_key_file,
        arena_bytes: ARENA_BYTES,
        redact_literals: args.redact_literals,
        utc: args.utc,
        replay: false,
    };
    // Becomes readable on a signal; it is never read.
    let (stopped, signalled) = UnixStream::pair().map_err(CaptureError::Signal)?;
    for signal in [SIGTERM, SIGINT] {
        let signalled = signalled.try_clone().map_err(CaptureError::Signal)?;
        signal_hook::low_level::pipe::register(signal, signalled).map_err(CaptureError::Signal)?;
    }
    let summary = open.run(&recording, stopped.as_fd(), || {
        say::problem(format!("capturing on {interface} into {}", log.display()));
    })?;
    say::problem(format!(
        "{} packets of {} connections; {} packets dropped by the kernel",
        summary.packets, summary.figures.connections, summary.dropped
    ));
    Ok(())
}
