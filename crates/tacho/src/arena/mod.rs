//! `tacho arena`: what is in shared memory, of living servers and dead ones.
//!
//! Everything shown is read from memory that nobody vouches for. Only `--set-overflow` changes
//! anything.

mod overflow;
mod records;
mod show;

use std::io;
use std::path::{Path, PathBuf};

use tacho_recorder::arena_file::{self, ArenaError, ArenaFile};

use crate::cli::ArenaArgs;
use crate::say;

/// Why `tacho arena` gave up.
#[derive(Debug, thiserror::Error)]
pub enum ArenaCommandError {
    /// The directory cannot be read.
    #[error("{}: {error}", path.display())]
    Place {
        /// The directory.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// The named file cannot be opened as an arena.
    #[error(transparent)]
    Open(#[from] ArenaError),
    /// There is no server whose policy could be changed.
    #[error("the server of {} (process {pid}) has ended; `tacho recover` writes what is left", path.display())]
    Ended {
        /// The arena.
        path: PathBuf,
        /// Its owner.
        pid: u32,
    },
    /// There is no arena to choose.
    #[error("there is no arena in {}; is the server running?", .0.display())]
    None(PathBuf),
    /// There are several.
    #[error("there are {count} arenas in {}; name one of them (`tacho arena` lists them)", path.display())]
    Several {
        /// The directory.
        path: PathBuf,
        /// How many.
        count: usize,
    },
    /// Stdout cannot be written to.
    #[error("writing to stdout")]
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

/// Runs `tacho arena`. Returns the number of problems that were told on stderr.
///
/// # Errors
/// When it cannot go on.
pub fn run(args: &ArenaArgs) -> Result<u64, ArenaCommandError> {
    let is_about_one = args.set_overflow.is_some() || args.records.is_some();
    let path = match &args.file {
        Some(path) => path,
        None if is_about_one => &only(&args.directory)?,
        None => return list(&args.directory, args.json),
    };
    let file = ArenaFile::open_unlocked(path)?;
    if let Some(policy) = args.set_overflow {
        overflow::set(&file, policy)?;
    } else if let Some(lines) = args.records {
        records::show(&file, lines, args.json)?;
    } else {
        show::show(&file, args.json)?;
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
            // The server that just ended has taken it away.
            Err(ArenaError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                problem_count += 1;
                say::problem(error);
            }
        }
    }
    Ok(problem_count)
}
