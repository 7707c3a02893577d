//! The data directory of a hub.
//!
//! | entry | content |
//! |---|---|
//! | `hub.lock` | locked while a hub serves the directory |
//! | `hub.sqlite` | accounts, tokens, origins, alerts |
//! | `audit/` | the hub's own log |
//! | `audit.key` | the key that signs it |
//! | `replica/<origin>/<generation>/` | the copies of the logs: the truth |
//! | `store/` | the index, which can be rebuilt from the replica |

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use tacho_ship::protocol::Origin;

/// The directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DataError {
    /// A file or directory cannot be made or opened.
    #[error("cannot {what} {path}: {source}", path = path.display())]
    Io {
        /// The operation that failed.
        what: &'static str,
        /// On what.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Another hub has it.
    #[error("another tacho-hub serves {path}: stop it first", path = .0.display())]
    Busy(PathBuf),
}

/// Paths in the data directory.
#[derive(Clone, Debug)]
pub struct DataDirectory {
    path: PathBuf,
}

/// The right to serve a data directory, until it is dropped or the process ends.
#[derive(Debug)]
pub struct DataLock {
    _file: File,
}

impl DataDirectory {
    /// Makes the directory with mode 0700 if it is missing.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn open(path: &Path) -> Result<Self, DataError> {
        make_directory(path)?;
        Ok(Self { path: path.to_owned() })
    }

    /// An existing directory.
    ///
    /// # Errors
    /// There is none.
    pub fn existing(path: &Path) -> Result<Self, DataError> {
        match std::fs::metadata(path) {
            Ok(_) => Ok(Self { path: path.to_owned() }),
            Err(source) => {
                Err(DataError::Io { what: "open the directory", path: path.to_owned(), source })
            }
        }
    }

    /// The directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The database.
    #[must_use]
    pub fn database(&self) -> PathBuf {
        self.path.join("hub.sqlite")
    }

    /// The hub's own log.
    #[must_use]
    pub fn audit(&self) -> PathBuf {
        self.path.join("audit")
    }

    /// The key that signs the hub's own log.
    #[must_use]
    pub fn audit_key(&self) -> PathBuf {
        self.path.join("audit.key")
    }

    /// The index.
    #[must_use]
    pub fn store(&self) -> PathBuf {
        self.path.join("store")
    }

    /// The copies of all logs.
    #[must_use]
    pub fn replica(&self) -> PathBuf {
        self.path.join("replica")
    }

    /// The copy of one log.
    #[must_use]
    pub fn generation(&self, origin: &Origin, generation: u64) -> PathBuf {
        self.replica().join(origin.as_str()).join(generation.to_string())
    }

    /// Takes the lock that only one hub can have.
    ///
    /// # Errors
    /// Another hub has it, or the file cannot be opened.
    pub fn lock(&self) -> Result<DataLock, DataError> {
        let path = self.path.join("hub.lock");
        let error = |what, source| DataError::Io { what, path: path.clone(), source };
        let mut options = OpenOptions::new();
        let file = options.create(true).append(true).mode(0o600).open(&path);
        let file = file.map_err(|source| error("open", source))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(DataLock { _file: file }),
            Err(rustix::io::Errno::WOULDBLOCK) => Err(DataError::Busy(self.path.clone())),
            Err(errno) => Err(error("lock", errno.into())),
        }
    }
}

/// Makes a directory, and those above it, for the owner alone.
///
/// # Errors
/// It cannot be made.
pub fn make_directory(path: &Path) -> Result<(), DataError> {
    DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(|source| DataError::Io {
        what: "make the directory",
        path: path.to_owned(),
        source,
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn only_one_hub_serves_a_directory_and_others_cannot_read_it() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("a/b");
        let data = DataDirectory::open(&path).unwrap();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o700);
        let lock = data.lock().unwrap();
        assert!(matches!(data.lock(), Err(DataError::Busy(_))));
        drop(lock);
        data.lock().unwrap();
    }
}
