//! Arenas of dead servers, which are removed when their records are in the file.

use std::path::{Path, PathBuf};

use super::context::Context;
use crate::arena_file::ArenaFile;
use crate::arena_list;
use crate::control::Severity;
use crate::spill;

/// Dead arenas that wait for the batch, see the module documentation.
#[derive(Default)]
pub(super) struct DeadArenas {
    /// Arenas whose records are in the batch.
    recovered: Vec<ArenaFile>,
    /// Missing arenas, reported by a line in the batch: forget them once it is written.
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

    /// The batch is in the file: removes these arenas. `directory`: the log directory.
    pub(super) fn remove(&mut self, directory: &Path, context: &Context) {
        for path in std::mem::take(&mut self.gone) {
            forget(directory, &path, context);
            // Fragments of texts whose other fragments are lost.
            if let Err(error) = spill::remove_all(&path) {
                context.say(Severity::Warning, &error.to_string());
            }
        }
        for dead in std::mem::take(&mut self.recovered) {
            forget(directory, dead.path(), context);
            // The arena only occupies memory: all its records are marked as written.
            if let Err(error) = dead.remove() {
                context.say(Severity::Warning, &error.to_string());
            }
        }
    }
}

/// Called before an arena is removed: the list must not name an arena that no longer exists.
fn forget(directory: &Path, arena: &Path, context: &Context) {
    if let Err(error) = arena_list::forget(directory, arena) {
        let list = directory.join(arena_list::NAME);
        context.say(Severity::Warning, &format!("{}: {error}", list.display()));
    }
}
