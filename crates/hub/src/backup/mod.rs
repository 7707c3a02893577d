//! Copies a data directory while its hub runs: everything except the index.
//!
//! A hub that starts with the copy must not contradict itself, so the parts are copied in this
//! order:
//!
//! 1. `hub.sqlite`, by SQLite. Entries of the hub's own log wait in it for their place in the log:
//!    they are in the database, in the log, or in both, and never in neither.
//! 2. The replica. Files only grow, and a shipper continues each of them where it ends.
//! 3. The hub's own log, which its copy in the replica must not be ahead of, with its key. A key
//!    continues one chain only: if it has changed in the meantime, both are copied again.
//! 4. The key that signs evidence.
//!
//! | module | contents |
//! |---|---|
//! | [`copy`] | directories and files |

pub mod copy;

use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

use crate::data::{DataDirectory, DataError, make_directory};
use crate::database::{Database, DatabaseError};
use crate::landing::free_bytes;
use copy::Copier;

/// How often the own log is copied again because its key has changed. It changes once a minute.
const ATTEMPTS_MAX: usize = 20;

/// Why there is no backup.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// A file cannot be read or written.
    #[error(transparent)]
    Data(#[from] DataError),
    /// The database cannot be copied.
    #[error(transparent)]
    Database(#[from] DatabaseError),
    /// It would overwrite something.
    #[error("{0} exists and is not overwritten; name another directory")]
    Exists(String),
    /// An earlier backup to the same place was killed.
    #[error("{0} is left of a backup that did not end; delete it")]
    Unfinished(String),
    /// It would lie within what it copies.
    #[error("{0} is in the data directory; name a directory outside of it")]
    Inside(String),
    /// It does not fit.
    #[error("{path} has {free} MB of free space, the backup needs {needed} MB")]
    Space {
        /// Where it would be.
        path: String,
        /// Free there.
        free: u64,
        /// The size of the copy.
        needed: u64,
    },
    /// The key of the own log changes faster than the log is copied.
    #[error("the hub's own log changes too fast to be copied; try again")]
    Restless,
}

/// What was copied.
#[derive(Clone, Copy, Debug, Default)]
pub struct Copied {
    /// Files.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Copies a data directory to `output`, which must not exist. `progress` gets the bytes that are
/// copied, and the bytes of all files.
///
/// # Errors
/// Then `output` does not exist.
pub fn backup(
    data: &DataDirectory,
    database: &Database,
    output: &Path,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Copied, BackupError> {
    let shown = |path: &Path| path.display().to_string();
    let unfinished = unfinished_name(output);
    if std::fs::symlink_metadata(output).is_ok() {
        return Err(BackupError::Exists(shown(output)));
    }
    if std::fs::symlink_metadata(&unfinished).is_ok() {
        return Err(BackupError::Unfinished(shown(&unfinished)));
    }
    check_place(data, output)?;
    make_directory(&unfinished)?;
    let copied = copy_all(data, database, &DataDirectory::existing(&unfinished)?, progress)
        .and_then(|copied| {
            finish(&unfinished, output)?;
            Ok(copied)
        });
    if copied.is_err() {
        // The first error counts; the name says that the directory is not complete.
        let _ = std::fs::remove_dir_all(&unfinished);
    }
    copied
}

fn unfinished_name(output: &Path) -> PathBuf {
    let mut name = output.file_name().unwrap_or_default().to_owned();
    name.push(".unfinished");
    output.with_file_name(name)
}

/// Whether there is room, outside of the data directory.
fn check_place(data: &DataDirectory, output: &Path) -> Result<(), BackupError> {
    let parent = output.parent().filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new("."));
    let error = |what, source| DataError::Io { what, path: parent.to_owned(), source };
    let canonical = parent.canonicalize().map_err(|source| error("open the directory", source))?;
    let own = data.path().canonicalize().map_err(|source| error("open the directory", source))?;
    if canonical.starts_with(&own) {
        return Err(BackupError::Inside(output.display().to_string()));
    }
    let needed = copy::size(&data.replica())? + copy::size(&data.audit())?;
    let free = free_bytes(parent).map_err(|source| error("find the free space of", source))?;
    if free < needed {
        let [free, needed] = [free, needed].map(|bytes| bytes / 1_000_000);
        return Err(BackupError::Space { path: parent.display().to_string(), free, needed });
    }
    Ok(())
}

fn copy_all(
    data: &DataDirectory,
    database: &Database,
    target: &DataDirectory,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Copied, BackupError> {
    let total = copy::size(&data.replica())? + copy::size(&data.audit())?;
    let mut report = |bytes: u64| progress(bytes, total);
    copy_database(database, &target.database())?;
    let mut copier = Copier::new(&mut report);
    copier.directory(&data.replica(), &target.replica())?;
    copy_own_log(data, target, &mut copier)?;
    for name in ["hub.key", "hub.pub"] {
        copier.file(&data.path().join(name), &target.path().join(name))?;
    }
    Ok(copier.copied())
}

/// As of one moment, also while others write.
fn copy_database(database: &Database, target: &Path) -> Result<(), BackupError> {
    let path = target.to_string_lossy().into_owned();
    database.read(|connection| {
        connection.execute("VACUUM INTO ?1", [path]).map_err(DatabaseError::from)
    })?;
    let mode = std::fs::Permissions::from_mode(0o600);
    std::fs::set_permissions(target, mode).map_err(|source| DataError::Io {
        what: "set the mode of",
        path: target.to_owned(),
        source,
    })?;
    Ok(())
}

/// The secrets of the own log, by their names.
type Keys = BTreeMap<String, Zeroizing<Vec<u8>>>;

/// Copies the own log with the key that continues it.
fn copy_own_log(
    data: &DataDirectory,
    target: &DataDirectory,
    copier: &mut Copier<'_>,
) -> Result<(), BackupError> {
    let audit = target.audit();
    for _ in 0..ATTEMPTS_MAX {
        let keys = own_keys(data)?;
        copier.directory(&data.audit(), &audit)?;
        if own_keys(data)? == keys {
            for (name, text) in keys {
                copier.secret(&target.path().join(name), &text)?;
            }
            return Ok(());
        }
        std::fs::remove_dir_all(&audit).map_err(|source| DataError::Io {
            what: "delete",
            path: audit.clone(),
            source,
        })?;
    }
    Err(BackupError::Restless)
}

/// `audit.key`, and the one that a hub makes beside it if that belongs to another log.
fn own_keys(data: &DataDirectory) -> Result<Keys, DataError> {
    let error = |source| DataError::Io { what: "read", path: data.path().to_owned(), source };
    let mut keys = Keys::new();
    for entry in std::fs::read_dir(data.path()).map_err(error)? {
        let Ok(name) = entry.map_err(error)?.file_name().into_string() else { continue };
        if !(name.starts_with("audit") && name.ends_with(".key")) {
            continue;
        }
        let path = data.path().join(&name);
        match std::fs::read(&path) {
            Ok(text) => drop(keys.insert(name, Zeroizing::new(text))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(source) => return Err(DataError::Io { what: "read", path, source }),
        }
    }
    Ok(keys)
}

/// Puts everything on the disk, then gives it its name.
fn finish(unfinished: &Path, output: &Path) -> Result<(), BackupError> {
    let error = |what, path: &Path, source| DataError::Io { what, path: path.to_owned(), source };
    let parent = unfinished.parent().filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new("."));
    copy::sync(unfinished).map_err(|source| error("write", unfinished, source))?;
    std::fs::rename(unfinished, output).map_err(|source| error("make", output, source))?;
    copy::sync(parent).map_err(|source| error("write", parent, source))?;
    Ok(())
}
