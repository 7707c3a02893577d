//! Which arenas belong to a log directory, and which of them can be recovered.

use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use tacho_logdir::private_file::{self, Refusal};
use tacho_recorder::arena_file::{self, ArenaError, ArenaFile};
use tacho_recorder::arena_list::{self, Known};
use tacho_recorder::drain::Drain;
use tacho_ring::layout::FRAGMENT_FIRST;
use tacho_ring::sync::Ordering;

use super::RecoverCommandError;
use crate::cli::RecoverArgs;

/// An arena of the log directory.
pub struct FoundArena {
    /// The file.
    pub path: PathBuf,
    /// Server and version.
    pub server: String,
    /// Process id of its owner.
    pub owner_pid: u32,
    /// When it was created, µs since 1970-01-01 UTC.
    created_us: i64,
    /// Whether its server lives.
    pub alive: bool,
    /// Opened for reading. Not locked: a server that starts now must be able to recover it.
    pub file: ArenaFile,
}

/// The result of a search.
#[derive(Default)]
pub struct Search {
    /// The arenas, oldest first.
    pub found: Vec<FoundArena>,
    /// Why others could not be opened.
    pub problems: Vec<ArenaError>,
    /// Files of other users with names of this log's arenas: any user can create them.
    pub foreign: Vec<ArenaError>,
    /// Those problems' arenas that may have records of this log.
    pub unread: Vec<PathBuf>,
    /// The log directory's list of its arenas.
    pub known: Vec<Known>,
    /// Arenas in that list whose files are missing.
    pub gone: Vec<PathBuf>,
}

impl Search {
    /// A file may be both named and found.
    fn add(&mut self, found: FoundArena) {
        let id = |path: &Path| path.metadata().ok().map(|m| (m.dev(), m.ino()));
        if self.found.iter().all(|other| id(&other.path) != id(&found.path)) {
            self.found.push(found);
        }
    }
}

/// A server that died while it created its arena had recorded nothing yet.
fn is_unfinished(path: &Path) -> bool {
    private_file::open(path).is_ok_and(|file| arena_file::is_unfinished(&file))
}

/// Files that may be arenas of a log.
pub struct Candidates {
    /// Those with fitting names in the arena directory, and those that the log lists.
    pub paths: Vec<PathBuf>,
    /// The log directory's list of its arenas.
    pub known: io::Result<Vec<Known>>,
}

/// The candidates for a log of the user `user_id`.
///
/// # Errors
/// The directory of the arenas cannot be read.
pub fn candidates(
    arena_directory: &Path,
    log_directory: &Path,
    user_id: u32,
) -> io::Result<Candidates> {
    let mut paths = arena_file::files(arena_directory, Some(log_directory))?;
    let known = arena_list::read_of(log_directory, user_id);
    // Those in other directories: the server's setting differed when they were created.
    let listed = paths.iter().filter_map(|path| path.canonicalize().ok()).collect::<Vec<_>>();
    let names = known.iter().flatten().map(|known| &known.path);
    paths.extend(names.filter(|path| !listed.contains(path)).cloned());
    Ok(Candidates { paths, known })
}

/// Finds the arenas for a command line, of the user `user_id`.
///
/// # Errors
/// The directory of the arenas cannot be read, or a named arena belongs to another log.
pub fn search(
    args: &RecoverArgs,
    log_directory: &Path,
    user_id: u32,
) -> Result<Search, RecoverCommandError> {
    let mut search = Search::default();
    let directory = &args.arena_directory.path;
    let place = |error| RecoverCommandError::Place { path: directory.clone(), error };
    let Candidates { paths, known } =
        candidates(directory, log_directory, user_id).map_err(place)?;
    let list = log_directory.join(arena_list::NAME);
    match known {
        Ok(known) => search.known = known,
        // Arenas at their current location are found without it.
        Err(source) if source.kind() == io::ErrorKind::InvalidData => {
            search.problems.push(ArenaError::Io { action: "reading", path: list, source });
        }
        Err(error) => return Err(RecoverCommandError::Place { path: list, error }),
    }
    for path in paths {
        match open(&path, user_id) {
            Ok((found, theirs)) if theirs == log_directory => search.add(found),
            // The name is only a hash: the header decides.
            Ok(_) => {}
            Err(ArenaError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                // Otherwise, a server that starts now has recovered and removed it.
                if arena_list::has(&search.known, &path) {
                    search.gone.push(path);
                }
            }
            Err(ArenaError::NotAnArena { path }) if is_unfinished(&path) => {}
            // Any user may create files in a shared directory, and many of them.
            Err(error @ ArenaError::Foreign { .. }) if !arena_list::has(&search.known, &path) => {
                search.foreign.push(error);
            }
            Err(error) => {
                if error.may_have_records() {
                    search.unread.push(path);
                }
                search.problems.push(error);
            }
        }
    }
    for path in &args.arena {
        match open(path, user_id) {
            Ok((found, theirs)) if theirs == log_directory || args.moved => {
                search.add(found);
            }
            Ok((_, theirs)) => {
                return Err(RecoverCommandError::OtherLog { path: path.clone(), theirs });
            }
            Err(error) => search.problems.push(error),
        }
    }
    search.found.sort_by_key(|found| found.created_us);
    Ok(search)
}

/// Opens an arena of the user `user_id`. Returns also the log directory that it names.
///
/// # Errors
/// It is not such an arena, or cannot be read.
pub fn open(path: &Path, user_id: u32) -> Result<(FoundArena, PathBuf), ArenaError> {
    if let Ok(metadata) = path.symlink_metadata() {
        let path = path.to_owned();
        private_file::check(&metadata, user_id).map_err(|refusal| match refusal {
            Refusal::Foreign { uid } => ArenaError::Foreign { path, uid },
            Refusal::Planted(reason) => ArenaError::Planted { path, reason },
            Refusal::Io(source) => ArenaError::Io { action: "looking at", path, source },
        })?;
    }
    let file = ArenaFile::open_unlocked(path)?;
    let info = file.info();
    let found = FoundArena {
        path: info.path,
        server: info.server,
        owner_pid: info.owner_pid,
        created_us: file.arena().header().created_us,
        alive: info.owned,
        file,
    };
    Ok((found, info.log_directory))
}

/// The unwritten records in a dead arena.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    /// Records that are in no line of the log.
    pub records: u64,
    /// Statements that have a `running` line and no end.
    pub running: u64,
    /// Chunks with an invalid record.
    pub damaged: u64,
}

/// Counts the records that are not in the log, whose last line has the number `last_seq`.
pub fn waiting(dead: &ArenaFile, last_seq: u64) -> Result<Waiting, ArenaError> {
    let arena = dead.arena();
    let mut drain = Drain::new(dead.source()?);
    let mut waiting = Waiting::default();
    drain.pass(|head, _| {
        let begins = head.fragment <= FRAGMENT_FIRST;
        if begins && (head.line_seq == 0 || head.line_seq > last_seq) {
            waiting.records += 1;
        }
    });
    waiting.damaged = drain.take_damaged();
    for entry in arena.running() {
        let seq = entry.running_seq.load(Ordering::Relaxed);
        let done_seq = entry.done_seq.load(Ordering::Relaxed);
        if seq != 0 && seq <= last_seq && (done_seq == 0 || done_seq > last_seq) {
            waiting.running += 1;
        }
    }
    Ok(waiting)
}
