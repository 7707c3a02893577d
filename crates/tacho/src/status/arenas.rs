//! The arenas of a log, as `tacho arena` and `tacho recover` find them.

use std::io;
use std::path::{Path, PathBuf};

use tacho_recorder::arena_file::ArenaError;
use tacho_recorder::arena_list;

use super::log::{Log, advice};
use crate::arena::show::{self, Picture};
use crate::arena::waiting::{self, Waiting};
use crate::recover::find::{self, Candidates, FoundArena};

/// The arena of a server that runs.
pub struct Living {
    /// Server and version.
    pub server: String,
    /// Its process.
    pub pid: u32,
    /// Its properties.
    pub picture: Picture,
}

/// The arenas of a log.
#[derive(Default)]
pub struct Arenas {
    /// Of servers that run, the newest first.
    pub living: Vec<Living>,
    /// Of servers that ended without stopping the recorder.
    pub dead: Vec<PathBuf>,
    /// Those that the log lists and that no longer exist.
    pub gone: Vec<PathBuf>,
    /// The records of all of them that are not in the log.
    pub waiting: Waiting,
    /// Why others cannot be read.
    pub problems: Vec<String>,
}

/// Finds the arenas of a log.
pub fn find(directory: &Path, log: &Log) -> Arenas {
    let mut arenas = Arenas::default();
    let candidates = match find::candidates(directory, &log.path, log.owner) {
        Ok(candidates) => candidates,
        Err(error) => {
            let (path, advice) = (directory.display(), advice(&error));
            let text = format!("cannot read the arena directory {path}: {error}{advice}");
            arenas.problems.push(text);
            return arenas;
        }
    };
    let Candidates { paths, known } = candidates;
    let known = known.unwrap_or_else(|error| {
        let path = log.path.join(arena_list::NAME);
        let (path, advice) = (path.display(), advice(&error));
        arenas.problems.push(format!("cannot read the list of arenas {path}: {error}{advice}"));
        Vec::new()
    });
    let log_seq = log.newest.as_ref().map_or(0, |newest| newest.seq);
    for path in paths {
        match find::open(&path, log.owner) {
            Ok((found, theirs)) if theirs == log.path => {
                let limit = arena_list::limit(&known, &path, log_seq);
                arenas.add(found, limit);
            }
            // The name has only a hash.
            Ok(_) => {}
            Err(ArenaError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                if arena_list::has(&known, &path) {
                    arenas.gone.push(path);
                }
            }
            // A server is just creating it, or died while it did.
            Err(ArenaError::NotAnArena { .. }) if !arena_list::has(&known, &path) => {}
            // Any user can create such a file.
            Err(ArenaError::Foreign { .. }) if !arena_list::has(&known, &path) => {}
            Err(error) => {
                let advice = match &error {
                    ArenaError::Io { source, .. } => advice(source),
                    _ => "",
                };
                arenas.problems.push(format!("{error}{advice}"));
            }
        }
    }
    // The names have the time at which the arenas were created.
    arenas.living.reverse();
    arenas
}

impl Arenas {
    fn add(&mut self, found: FoundArena, limit: u64) {
        let arena = found.file.arena();
        if found.alive {
            let picture = show::look(&found.file);
            self.waiting.add(waiting::count(&arena, picture.written_seq));
            self.living.push(Living { server: found.server, pid: found.owner_pid, picture });
        } else {
            self.waiting.add(waiting::count(&arena, limit));
            self.dead.push(found.path);
        }
    }
}
