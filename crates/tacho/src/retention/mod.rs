//! `tacho retention`: which log files the recorder's retention would remove now, and which is next.
//!
//! `tacho_logdir::preview` asks the recorder's own decision; this module adds whether a file waits
//! for a hub, and shows the result.

mod show;

use std::io;
use std::path::PathBuf;

use tacho_logdir::preview::{Planned, Preview, preview};
use tacho_logdir::shipped::Wait;
use tacho_logdir::{FileError, FileErrorKind, Fs as _, RealFs, Space};

use crate::cli::RetentionArgs;
use crate::cli::log::LogPath;
use crate::limits::Limits;

/// Why `tacho retention` failed.
#[derive(Debug, thiserror::Error)]
pub enum RetentionError {
    /// `--config` cannot be used.
    #[error("{0:#}")]
    Config(anyhow::Error),
    /// There is no log.
    #[error("cannot read the log {log}: {error}")]
    Log {
        /// Its path.
        log: LogPath,
        /// The system's error.
        error: io::Error,
    },
    /// The directory has no log file.
    #[error("no log file (audit-*.jsonl) in {0}: it is not a log directory")]
    NoFiles(LogPath),
    /// A file of the log may not be read.
    #[error("cannot read {0}: permission denied; run as the server's user or root")]
    Denied(PathBuf),
    /// The log cannot be read.
    #[error(transparent)]
    File(FileError),
    /// Stdout cannot be written.
    #[error("cannot write the result")]
    Output(#[source] io::Error),
}

impl From<FileError> for RetentionError {
    fn from(error: FileError) -> Self {
        match error.kind() {
            // The advice of the error is for a writer.
            FileErrorKind::Permission => Self::Denied(error.path().to_owned()),
            _ => Self::File(error),
        }
    }
}

impl RetentionError {
    /// Whether the command line, not the data, is at fault.
    pub fn is_usage(&self) -> bool {
        matches!(self, Self::Config(_) | Self::Log { .. } | Self::NoFiles(_))
    }
}

/// The decision about a due file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// It would be removed. If a hub does not have it: why nevertheless.
    Removed(Option<Wait>),
    /// It stays until the hubs have it.
    Waits,
    /// All hubs have it, but an older file waits.
    WaitsForOlder,
}

/// The due files with their fates.
struct Plan {
    limits: Limits,
    preview: Preview,
    /// Of each of `preview.planned`.
    fates: Vec<Fate>,
}

/// Runs `tacho retention`.
///
/// # Errors
/// See [`RetentionError`].
pub fn run(args: &RetentionArgs) -> Result<(), RetentionError> {
    let mut limits = Limits::of(args.config.as_deref()).map_err(RetentionError::Config)?;
    for (name, value) in &args.set {
        limits.set(name, value).map_err(RetentionError::Config)?;
        limits.is_known = true;
    }
    let log = args.log.find();
    if let Err(error) = std::fs::read_dir(&log.path) {
        return Err(RetentionError::Log { log, error });
    }
    let Some(found) = preview(&RealFs, &log.path, &limits.keep)? else {
        return Err(RetentionError::NoFiles(log));
    };
    let space = RealFs.space(&log.path).map_err(|error| RetentionError::Log { log, error })?;
    let fates = fates(&found.planned, limits.removes_unshipped, space);
    let plan = Plan { limits, preview: found, fates };
    show::show(&plan, args.format.is_json(), args.utc).map_err(RetentionError::Output)
}

/// Decides as the recorder does, one file after the other; each removal gives space.
fn fates(planned: &[Planned], removes_unshipped: bool, mut space: Space) -> Vec<Fate> {
    let mut is_waiting = false;
    let mut fates = Vec::new();
    for planned in planned {
        let fate = match &planned.unshipped {
            _ if is_waiting && planned.unshipped.is_none() => Fate::WaitsForOlder,
            _ if is_waiting => Fate::Waits,
            None => Fate::Removed(None),
            Some(_) => {
                match Wait::of(removes_unshipped, || Ok::<_, std::convert::Infallible>(space)) {
                    Ok(Wait::Stays) => Fate::Waits,
                    Ok(wait) => Fate::Removed(Some(wait)),
                }
            }
        };
        match fate {
            Fate::Removed(_) => {
                space.free_bytes = space.free_bytes.saturating_add(planned.bytes);
            }
            _ => is_waiting = true,
        }
        fates.push(fate);
    }
    fates
}

#[cfg(test)]
mod tests {
    use tacho_logdir::shipped::Unshipped;

    use super::*;

    fn planned(bytes: u64, is_shipped: bool) -> Planned {
        let unshipped = (!is_shipped).then(|| Unshipped::Behind(Vec::new()));
        Planned { due: Vec::new(), bytes, ended_s: 0, unshipped }
    }

    #[test]
    fn a_file_that_waits_keeps_all_newer_ones() {
        let files = [planned(1, true), planned(1, false), planned(1, true), planned(1, false)];
        let free = Space { free_bytes: 500, total_bytes: 1000 };
        let removed = Fate::Removed(None);
        assert_eq!(
            fates(&files, false, free),
            [removed, Fate::Waits, Fate::WaitsForOlder, Fate::Waits]
        );
        let permitted = Fate::Removed(Some(Wait::Permitted));
        assert_eq!(fates(&files, true, free), [removed, permitted, removed, permitted]);
    }

    #[test]
    fn a_disk_that_is_nearly_full_waits_for_no_hub_until_there_is_space() {
        let files = [planned(30, false), planned(30, false), planned(30, false)];
        let full = Space { free_bytes: 10, total_bytes: 1000 };
        let nearly_full = Fate::Removed(Some(Wait::NearlyFull));
        assert_eq!(fates(&files, false, full), [nearly_full, nearly_full, Fate::Waits]);
    }
}
