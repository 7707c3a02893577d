//! A packet file to JSON lines.
//!
//! The recorder is the one of a server: it writes a log into a directory of its own, which is
//! copied to the output and removed as it grows.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tacho_embed::Recorder;
use tacho_settings::Setting;
use tempfile::TempDir;

use crate::flows::{Budget, Figures, Flows};
use crate::link;
use crate::probe::Probe;
use crate::recording::Recording;
use crate::source::file::{self, End, FileError};
use crate::spool::Spool;

/// Why a file could not be read to its end.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The packet file.
    #[error(transparent)]
    File(#[from] FileError),
    /// The recorder.
    #[error("cannot start the recorder in {}: {why}", directory.display())]
    Recorder {
        /// Where it was to write.
        directory: PathBuf,
        /// Why it cannot.
        why: String,
    },
    /// The directory for the log, before it is copied.
    #[error(
        "cannot use the temporary directory {}: {error}; set TMPDIR to another one",
        directory.display()
    )]
    Directory {
        /// The directory.
        directory: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// The output.
    #[error("cannot write the output: {0}")]
    Output(io::Error),
}

/// What to read, and how.
#[derive(Clone, Debug)]
pub struct Replay {
    /// The packet file; `-` is stdin.
    pub file: PathBuf,
    /// The servers; none: they are recognised.
    pub servers: Vec<SocketAddr>,
    /// Where the arena is: a file system in memory.
    pub arena_directory: PathBuf,
    /// Removes all literals, not only secrets.
    pub redact_literals: bool,
    /// Times in UTC instead of local time.
    pub utc: bool,
    /// Memory for connections.
    pub budget: Budget,
    /// Says something to the person who runs it.
    pub say: fn(&str),
}

/// What was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Frames of the file.
    pub frames: u64,
    /// Those without TCP, or that cannot be read.
    pub other_frames: u64,
    /// Those of a link type that is not supported.
    pub unknown_link: u64,
    /// Its connections.
    pub figures: Figures,
    /// Whether the file ends within a packet.
    pub is_torn: bool,
}

/// Size of the arena, bytes.
const ARENA_BYTES: u64 = 16 << 20;
/// Size of a log file, after which a new one begins and this one is removed when copied, bytes.
const ROTATE_BYTES: u64 = 64 << 20;
/// The output is copied after so many frames.
const COPY_EVERY: u64 = 1 << 14;
/// How long the writer may take at the end.
const STOP_TIMEOUT_MS: u64 = 600_000;

impl Replay {
    /// Reads the file, and writes its records to `output`.
    ///
    /// # Errors
    /// See [`ReplayError`].
    pub fn run(&self, output: &mut dyn Write) -> Result<Summary, ReplayError> {
        let directory = TempDir::with_prefix("tacho-capture-")
            .map_err(|error| ReplayError::Directory { directory: std::env::temp_dir(), error })?;
        let recorder = self.recorder(directory.path())?;
        let mut copy = Copy::new(directory.path(), output);
        let spool = Spool::new(directory.path());
        let mut budget = self.budget.clone();
        budget.each.spool = Some(Arc::clone(&spool));
        let mut flows = Flows::new(self.servers.clone(), budget);
        let mut summary = Summary {
            frames: 0,
            other_frames: 0,
            unknown_link: 0,
            figures: Figures::default(),
            is_torn: false,
        };
        let mut probe = Probe::new(&recorder);
        let read = file::read(&self.file, |frame| {
            summary.frames += 1;
            match frame.link {
                None => summary.unknown_link += 1,
                Some(link) => {
                    match link::segment(link, frame.bytes, frame.frame_bytes, frame.ts_us) {
                        Some(segment) => flows.segment(&segment, &mut probe),
                        None => summary.other_frames += 1,
                    }
                }
            }
            if summary.frames.is_multiple_of(COPY_EVERY) { copy.more() } else { Ok(()) }
        });
        // What was read before an error is a part of the output, too.
        flows.finish(&mut probe);
        drop(probe);
        recorder.stop(STOP_TIMEOUT_MS);
        if let Some(problem) = spool.take_problem() {
            (self.say)(&problem);
        }
        copy.more()?;
        summary.is_torn = read? == End::Torn;
        summary.figures = flows.figures();
        Ok(summary)
    }

    fn recorder(&self, directory: &Path) -> Result<Recorder, ReplayError> {
        let recording = Recording {
            log_directory: directory.join("log"),
            arena_directory: self.arena_directory.clone(),
            // Not sealed: no other process writes to it.
            signing_key_file: PathBuf::new(),
            arena_bytes: ARENA_BYTES,
            redact_literals: self.redact_literals,
            utc: self.utc,
            replay: true,
        };
        let recorder = recording
            .start("")
            .map_err(|why| ReplayError::Recorder { directory: directory.to_owned(), why })?;
        recorder.set(Setting::RotateBytes, ROTATE_BYTES);
        recorder.set(Setting::RetentionDays, 0);
        recorder.set(Setting::DiskWarnPercent, 0);
        recorder.set(Setting::Logging, 1);
        Ok(recorder)
    }
}

/// Copies a growing log to the output.
struct Copy<'o> {
    directory: PathBuf,
    output: &'o mut dyn Write,
    current: Option<(PathBuf, File)>,
    buffer: Vec<u8>,
}

impl<'o> Copy<'o> {
    fn new(directory: &Path, output: &'o mut dyn Write) -> Copy<'o> {
        Copy { directory: directory.join("log"), output, current: None, buffer: vec![0; 1 << 20] }
    }

    /// Copies what is new. Files that are complete are removed.
    fn more(&mut self) -> Result<(), ReplayError> {
        loop {
            // Found before the rest of the current one is read: then that is complete.
            let next = self.next_file()?;
            if let Some((path, file)) = &mut self.current {
                let read = |error| ReplayError::Directory { directory: path.clone(), error };
                loop {
                    let bytes = file.read(&mut self.buffer).map_err(read)?;
                    if bytes == 0 {
                        break;
                    }
                    self.output.write_all(&self.buffer[..bytes]).map_err(ReplayError::Output)?;
                }
            }
            let Some(next) = next else { break };
            if let Some((old, _)) = self.current.take() {
                std::fs::remove_file(&old)
                    .map_err(|error| ReplayError::Directory { directory: old, error })?;
            }
            let file = File::open(&next)
                .map_err(|error| ReplayError::Directory { directory: next.clone(), error })?;
            self.current = Some((next, file));
        }
        self.output.flush().map_err(ReplayError::Output)
    }

    /// The file after the current one.
    fn next_file(&self) -> Result<Option<PathBuf>, ReplayError> {
        let failed = |error| ReplayError::Directory { directory: self.directory.clone(), error };
        let mut next: Option<PathBuf> = None;
        for entry in std::fs::read_dir(&self.directory).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            let is_later = self.current.as_ref().is_none_or(|(current, _)| path > *current);
            let is_log = path.extension().is_some_and(|extension| extension == "jsonl");
            if is_log && is_later && next.as_ref().is_none_or(|next| path < *next) {
                next = Some(path);
            }
        }
        Ok(next)
    }
}
