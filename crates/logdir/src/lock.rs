//! One writer per directory.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use super::error::{At, FileError, FileErrorKind};
use super::fs::{self, Fs, FsFile, OpenMode, RealFs};

/// The file that is locked. It is never removed: if it was removed while a second writer waits to
/// open it, each would get a lock of its own.
pub(crate) const LOCK_FILE: &str = ".lock";

/// Follows the process id in that file: see [`announce_recovery`].
const RECOVERY: &str = "recovers\n";
/// How much of the file is read, bytes.
const NOTE_BYTES_MAX: usize = 32;

/// Creates the directory, and at most one directory above it, if they are missing.
pub(crate) fn ensure_dir<F: Fs>(fs: &F, dir: &Path) -> Result<(), FileError> {
    let made = match fs.create_dir(dir) {
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => match dir.parent() {
            Some(parent) => match fs.create_dir(parent) {
                Ok(()) => fs.create_dir(dir),
                // Another process was faster; any error now concerns the directory itself.
                Err(other) if other.raw_os_error() == Some(libc::EEXIST) => fs.create_dir(dir),
                Err(other) => return Err(FileError::new("make directory", parent, other)),
            },
            None => Err(error),
        },
        made => made,
    };
    match made {
        Ok(()) => Ok(()),
        Err(error) if error.raw_os_error() == Some(libc::EEXIST) => is_dir(fs, dir),
        // A read-only file system or directory gives this error before it looks for the name.
        Err(error) => is_dir(fs, dir).map_err(|_| FileError::new("make directory", dir, error)),
    }
}

fn is_dir<F: Fs>(fs: &F, dir: &Path) -> Result<(), FileError> {
    // The entry "." follows a symbolic link to a directory, which is a valid log directory.
    let inside = dir.join(".");
    match fs.stat(&inside) {
        Ok(stat) if stat.is_dir => Ok(()),
        Ok(_) => Err(FileError::of_kind(FileErrorKind::NotADirectory, "use", dir)),
        Err(error) => Err(FileError::new("use", dir, error)),
    }
}

/// Takes the lock of a directory; the lock ends with the returned file.
pub(crate) fn acquire<F: Fs>(fs: &F, dir: &Path) -> Result<F::File, FileError> {
    let path = dir.join(LOCK_FILE);
    loop {
        let mut file = fs.open(&path, OpenMode::Lock).at("open", &path)?;
        if !file.try_lock().at("lock", &path)? {
            let kind = FileErrorKind::Locked { holder_pid: read_holder(&file) };
            return Err(FileError::of_kind(kind, "lock", dir));
        }
        let locked = file.stat().at("look at", &path)?.id;
        match fs.stat(&path) {
            Ok(named) if named.id == locked => {
                write_holder(&mut file);
                return Ok(file);
            }
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(FileError::new("look at", &path, error)),
        }
        // Another process removed it between open and lock: a lock on a file without a name
        // excludes no other writer. Every further iteration needs another such removal.
    }
}

/// Keeps every recorder from writing a directory, until the returned file is closed.
///
/// # Errors
/// If a writer holds the lock, and as open(2).
pub fn lock(dir: &Path) -> Result<File, FileError> {
    acquire(&RealFs, dir)
}

/// Stores this process's id for the error message of the next writer. The lock works without it, so
/// a full disk is no reason to refuse: the file is then empty, and the message has no number.
fn write_holder<L: FsFile>(file: &mut L) {
    if file.set_len(0).is_ok() {
        let line = format!("{}\n", std::process::id());
        let _: io::Result<usize> = file.write(line.as_bytes());
    }
}

fn read_holder<L: FsFile>(file: &L) -> Option<u32> {
    let mut buffer = [0; NOTE_BYTES_MAX];
    let count = file.read_at(&mut buffer, 0).ok()?;
    // Without the newline, the holder is still writing it.
    std::str::from_utf8(&buffer[..count]).ok()?.split_once('\n')?.0.parse().ok()
}

/// Notes in the file that the holder of the lock is recovering what a dead server left. As with the
/// process id, only messages depend on it.
pub(crate) fn announce_recovery<L: FsFile>(file: &mut L) {
    let _: io::Result<usize> = file.write(RECOVERY.as_bytes());
}

/// Whether the holder of a directory's lock, if any, is recovering what a dead server left.
#[must_use]
pub fn is_recovering(dir: &Path) -> bool {
    let Ok(file) = File::open(dir.join(LOCK_FILE)) else { return false };
    let mut note = String::new();
    // A longer file is not the recorder's.
    let read = file.take(NOTE_BYTES_MAX as u64).read_to_string(&mut note);
    read.is_ok() && note.ends_with(RECOVERY)
}

/// The process that last took the lock of a directory, for messages; `None`: unknown.
#[must_use]
pub fn last_holder(dir: &Path) -> Option<u32> {
    read_holder(&File::open(dir.join(LOCK_FILE)).ok()?)
}

/// Whether a writer in any process holds the lock of a directory; `None`: unknown.
#[must_use]
pub fn is_locked(dir: &Path) -> Option<bool> {
    match File::open(dir.join(LOCK_FILE)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Some(false),
        file => fs::is_locked(&file.ok()?).ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_writer_is_known_by_its_lock() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(is_locked(dir.path()), Some(false));
        let lock = lock(dir.path()).unwrap();
        assert_eq!(is_locked(dir.path()), Some(true));
        assert_eq!(last_holder(dir.path()), Some(std::process::id()));
        drop(lock);
        assert_eq!(is_locked(dir.path()), Some(false));
    }
}
