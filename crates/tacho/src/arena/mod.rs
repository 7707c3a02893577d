//! `tacho arena`: the contents of shared memory, of living and dead servers.
//!
//! The memory that is read may hold anything. Only `--set-overflow` changes it.

mod overflow;
mod records;
pub mod running;
pub mod show;
pub mod waiting;

use std::io;
use std::path::{Path, PathBuf};

use tacho_recorder::arena_file::{self, ArenaError, ArenaFile};

use crate::cli::ArenaArgs;
use crate::say;

/// Why `tacho arena` failed.
#[derive(Debug, thiserror::Error)]
pub enum ArenaCommandError {
    /// The directory cannot be read.
    #[error("cannot read the arena directory {}: {error}", path.display())]
    Place {
        /// The directory.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// The named file cannot be opened as an arena.
    #[error(transparent)]
    Open(#[from] ArenaError),
    /// There is no server with a policy to change.
    #[error("the server of {} (process {pid}) has ended; write its records to the log with `tacho recover`", path.display())]
    Ended {
        /// The arena.
        path: PathBuf,
        /// Its owner.
        pid: u32,
    },
    /// There is no arena to choose.
    #[error("no arena in {}; start the server, or name its directory with --arena-directory", .0.display())]
    None(PathBuf),
    /// There are several arenas.
    #[error("{count} arenas in {}; name one of them (`tacho arena` lists them)", path.display())]
    Several {
        /// The directory.
        path: PathBuf,
        /// Their number.
        count: usize,
    },
    /// Stdout cannot be written to.
    #[error("cannot write to stdout")]
    Output(#[from] io::Error),
}

impl ArenaCommandError {
    /// Whether the command line, not the data, is at fault.
    pub fn is_usage(&self) -> bool {
        matches!(
            self,
            Self::Place { .. } | Self::Ended { .. } | Self::None(_) | Self::Several { .. }
        )
    }
}

/// Runs `tacho arena`. Returns the number of problems that were reported on stderr.
///
/// # Errors
/// See [`ArenaCommandError`].
pub fn run(args: &ArenaArgs) -> Result<u64, ArenaCommandError> {
    let json = args.format.is_json();
    let is_about_one = args.set_overflow.is_some() || args.records.is_some();
    let path = match &args.file {
        Some(path) => path,
        None if is_about_one => &only(&args.arena_directory.path)?,
        None => return list(&args.arena_directory.path, json),
    };
    let file = ArenaFile::open_unlocked(path)?;
    if let Some(policy) = args.set_overflow {
        overflow::set(&file, policy)?;
    } else if let Some(lines) = args.records {
        records::show(&file, lines, json)?;
    } else {
        show::show(&file, json)?;
    }
    Ok(0)
}

/// The arena of a directory that has just one.
fn only(directory: &Path) -> Result<PathBuf, ArenaCommandError> {
    let place = |error| ArenaCommandError::Place { path: directory.to_owned(), error };
    let mut paths = arena_file::files(directory, None).map_err(place)?;
    match (paths.pop(), paths.len()) {
        (Some(path), 0) => Ok(path),
        (None, _) => Err(ArenaCommandError::None(directory.to_owned())),
        (Some(_), others) => {
            Err(ArenaCommandError::Several { path: directory.to_owned(), count: others + 1 })
        }
    }
}

fn list(directory: &Path, json: bool) -> Result<u64, ArenaCommandError> {
    let place = |error| ArenaCommandError::Place { path: directory.to_owned(), error };
    let paths = arena_file::files(directory, None).map_err(place)?;
    if paths.is_empty() && !json {
        say::result(&format!("No arena in {}.", directory.display()))?;
    }
    let mut problem_count = 0;
    for path in paths {
        match ArenaFile::open_unlocked(&path) {
            Ok(file) => show::show(&file, json)?,
            // The server that just ended has removed it.
            Err(ArenaError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                problem_count += 1;
                say::problem(error);
            }
        }
    }
    Ok(problem_count)
}
