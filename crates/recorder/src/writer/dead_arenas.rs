//! Arenas of dead servers, which go when their records are in the file.

use std::path::{Path, PathBuf};

use super::context::Context;
use crate::arena_file::ArenaFile;
use crate::arena_list;
use crate::control::Severity;
use crate::spill;

/// See the module documentation.
#[derive(Default)]
pub(super) struct DeadArenas {
    /// Those whose records are in the batch.
    recovered: Vec<ArenaFile>,
    /// Those that are gone, which a line in the batch says: they may be forgotten with it.
    gone: Vec<PathBuf>,
}

impl DeadArenas {
    /// The records of an arena are in the batch, or in the file.
    pub(super) fn add(&mut self, recovered: ArenaFile) {
        self.recovered.push(recovered);
    }

    /// The batch says that an arena is gone.
    pub(super) fn add_gone(&mut self, path: &Path) {
        self.gone.push(path.to_owned());
    }

    /// The batch is in the file: removes them. `directory`: of the log.
    pub(super) fn remove(&mut self, directory: &Path, context: &Context) {
        for path in std::mem::take(&mut self.gone) {
            forget(directory, &path, context);
            // Pieces of texts whose other pieces are lost.
            if let Err(error) = spill::remove_all(&path) {
                context.say(Severity::Warning, &error.to_string());
            }
        }
        for dead in std::mem::take(&mut self.recovered) {
            forget(directory, dead.path(), context);
            // Only costs memory: all its records are marked as written.
            if let Err(error) = dead.remove() {
                context.say(Severity::Warning, &error.to_string());
            }
        }
    }
}

/// Before an arena is removed: a list without it is right, one with it would miss it.
fn forget(directory: &Path, arena: &Path, context: &Context) {
    if let Err(error) = arena_list::forget(directory, arena) {
        let list = directory.join(arena_list::NAME);
        context.say(Severity::Warning, &format!("{}: {error}", list.display()));
    }
}
