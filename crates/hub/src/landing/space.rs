//! Free space of the disk, and syncing it.

use std::fs::File;
use std::io;
use std::path::Path;

/// Free bytes of the file system that a path is on, for a user without privileges.
///
/// # Errors
/// The file system does not say.
pub fn free_bytes(path: &Path) -> io::Result<u64> {
    let space = rustix::fs::statvfs(path)?;
    Ok(space.f_bavail.saturating_mul(space.f_frsize))
}

/// Puts everything of the file system that a directory is on to the disk.
///
/// # Errors
/// It cannot.
pub fn sync_all(directory: &Path) -> io::Result<()> {
    Ok(rustix::fs::syncfs(File::open(directory)?)?)
}

/// Puts the names in a directory to the disk.
///
/// # Errors
/// It cannot.
pub fn sync_directory(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}
