//! Arenas that the recorder outside checks repeatedly until their server is gone.

use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::arena_file::ArenaFile;

/// Each is opened only once: opening briefly makes it accessible to all processes of this user
/// (`private_file`).
#[derive(Default)]
pub(super) struct WatchedArenas(HashMap<PathBuf, Watched>);

struct Watched {
    file: ArenaFile,
    /// Device and inode: another file may get the same name.
    id: (u64, u64),
}

impl WatchedArenas {
    /// Closes arenas that are not among these paths.
    pub(super) fn keep_only(&mut self, paths: &[PathBuf]) {
        self.0.retain(|path, _| paths.contains(path));
    }

    /// Whether there is an arena of this log (canonical path) that no process owns. An arena that
    /// cannot be opened or read is not retried; the next process that starts reports it.
    pub(super) fn is_dead(&mut self, path: &Path, log_directory: &Path) -> bool {
        let Ok(metadata) = path.symlink_metadata() else { return false };
        let id = (metadata.dev(), metadata.ino());
        if self.0.get(path).is_none_or(|watched| watched.id != id) {
            let Ok(file) = ArenaFile::open_living(path) else { return false };
            self.0.insert(path.to_owned(), Watched { file, id });
        }
        self.0.get(path).is_some_and(|Watched { file, .. }| {
            let info = file.info();
            !info.owned && info.log_directory == *log_directory && file.source().is_ok()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_arena_is_dead_when_its_owner_is_gone() {
        let dir = tempfile::tempdir().unwrap();
        let log = Path::new("/var/lib/x/tacho");
        let made = ArenaFile::create(dir.path(), 1 << 20, log, "").unwrap();
        let path = made.path().to_owned();
        let mut watched = WatchedArenas::default();
        assert!(!watched.is_dead(&path, log));
        assert_eq!(watched.0.len(), 1, "it stays open");
        drop(made);
        assert!(watched.is_dead(&path, log));
        assert!(!watched.is_dead(&path, Path::new("/another/log")));
        // Another arena with its name.
        std::fs::remove_file(&path).unwrap();
        assert!(!watched.is_dead(&path, log));
        let next = ArenaFile::create(dir.path(), 1 << 20, log, "").unwrap();
        std::fs::rename(next.path(), &path).unwrap();
        assert!(!watched.is_dead(&path, log));
        watched.keep_only(&[]);
        assert!(watched.0.is_empty());
    }
}
