//! Whether a recorder writes a log.

use std::fs::File;
use std::os::fd::AsRawFd as _;
use std::path::Path;

const LOCK: &str = ".lock";

/// Whether a recorder holds the lock of a log directory; `None`: this cannot be found out.
#[must_use]
pub fn runs(directory: &Path) -> Option<bool> {
    let file = match File::open(directory.join(LOCK)) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Some(false),
        file => file.ok()?,
    };
    // SAFETY: flock is made of integers; zero is valid, and F_OFD_GETLK requires l_pid to be 0.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = libc::F_WRLCK as libc::c_short;
    lock.l_whence = libc::SEEK_SET as libc::c_short;
    // SAFETY: the descriptor is open, and F_OFD_GETLK reads and writes one flock.
    let answer = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_GETLK, &raw mut lock) };
    (answer != -1).then_some(i32::from(lock.l_type) != libc::F_UNLCK)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recorder_is_known_by_its_lock() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(runs(directory.path()), Some(false));
        let file = File::create(directory.path().join(LOCK)).unwrap();
        assert_eq!(runs(directory.path()), Some(false));
        // SAFETY: as above.
        let mut lock: libc::flock = unsafe { std::mem::zeroed() };
        lock.l_type = libc::F_WRLCK as libc::c_short;
        // SAFETY: the descriptor is open, and F_OFD_SETLK reads one flock.
        let answer = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw const lock) };
        assert_eq!(answer, 0);
        assert_eq!(runs(directory.path()), Some(true));
    }
}
