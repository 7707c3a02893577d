//! The socket beside the arena that connects server and recorder.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use tacho_logdir::private_file;
use tacho_ring::sys;

use crate::arena_file::name_prefix;

/// Longest path that fits into a socket address, bytes.
const PATH_BYTES_MAX: usize = 100;

const ENDING: &str = ".sock";

/// A new name for the socket of a log directory (canonical path). It contains the time and the
/// process id: the directory may be writable for all users, and another user could take a
/// predictable name.
fn new_path(arena_directory: &Path, log_directory: &Path) -> PathBuf {
    let (prefix, now_us, pid) = (name_prefix(log_directory), sys::now_us(), std::process::id());
    arena_directory.join(format!("{prefix}{now_us}-{pid}{ENDING}"))
}

/// The sockets of a log directory that were created by this process's user or root, newest first.
/// If a server is alive, one of them is its socket. Sockets of other users are skipped.
///
/// # Errors
/// The directory cannot be listed.
pub fn files(arena_directory: &Path, log_directory: &Path) -> io::Result<Vec<PathBuf>> {
    let prefix = name_prefix(log_directory);
    let mut found = Vec::new();
    for entry in std::fs::read_dir(arena_directory)? {
        let entry = entry?;
        let name = entry.file_name();
        let is_named = name.to_str().is_some_and(|n| n.starts_with(&prefix) && n.ends_with(ENDING));
        if !is_named {
            continue;
        }
        match entry.metadata() {
            Ok(found) if !found.file_type().is_socket() || !is_trusted(found.uid()) => {}
            Ok(_) => found.push(entry.path()),
            // Removed while the directory was being read.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    found.sort();
    found.reverse();
    Ok(found)
}

/// The process at the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Process id, as it is known to this process.
    pub pid: u32,
    /// User id.
    pub uid: u32,
}

impl Peer {
    /// The peer of a connection: the process that called `connect` or `listen`.
    ///
    /// # Errors
    /// The system call failed.
    pub fn of(stream: &UnixStream) -> io::Result<Peer> {
        let mut found = libc::ucred { pid: 0, uid: 0, gid: 0 };
        let mut bytes = size_of::<libc::ucred>() as libc::socklen_t;
        // SAFETY: both pointers are valid for the bytes that the call writes, as given by `bytes`.
        let result = unsafe {
            libc::getsockopt(
                stream.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_PEERCRED,
                (&raw mut found).cast(),
                &raw mut bytes,
            )
        };
        match result {
            0 => Ok(Peer { pid: found.pid as u32, uid: found.uid }),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Whether the peer may receive everything: it has this process's user, or is root.
    #[must_use]
    pub fn is_trusted(&self) -> bool {
        is_trusted(self.uid)
    }
}

fn is_trusted(uid: u32) -> bool {
    uid == 0 || uid == private_file::user_id()
}

/// Calls `f` with a path to the same file that fits into an address.
fn with_short<T>(path: &Path, f: impl FnOnce(&Path) -> io::Result<T>) -> io::Result<T> {
    let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    };
    if path.as_os_str().as_bytes().len() <= PATH_BYTES_MAX {
        return f(path);
    }
    let directory = File::options().read(true).custom_flags(libc::O_DIRECTORY).open(directory)?;
    f(&PathBuf::from(format!("/proc/self/fd/{}", directory.as_raw_fd())).join(name))
}

/// Listens, and returns the socket's path. The caller holds the lock of the log: existing sockets
/// belong to servers that died.
///
/// # Errors
/// The system call failed.
pub fn listen(arena_directory: &Path, log_directory: &Path) -> io::Result<(UnixListener, PathBuf)> {
    for path in files(arena_directory, log_directory)? {
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    let path = new_path(arena_directory, log_directory);
    let listener = with_short(&path, |path| UnixListener::bind(path))?;
    // Until here other users could connect; the identity of each peer is checked.
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
    listener.set_nonblocking(true)?;
    Ok((listener, path))
}

/// Connects to the server.
///
/// # Errors
/// No process listens, or the system call failed.
pub fn connect(arena_directory: &Path, log_directory: &Path) -> io::Result<UnixStream> {
    let mut refused = io::Error::from(io::ErrorKind::NotFound);
    for path in files(arena_directory, log_directory)? {
        match with_short(&path, |path| UnixStream::connect(path)) {
            Ok(stream) => return Ok(stream),
            Err(error) => refused = error,
        }
    }
    Err(refused)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "/var/lib/x/tacho";

    #[test]
    fn sockets_of_other_users_are_skipped() {
        let dir = tempfile::tempdir().unwrap();
        let (arenas, log) = (dir.path(), Path::new(LOG));
        let name = |end: &str| arenas.join(format!("{}{end}{ENDING}", name_prefix(log)));
        let (_elsewhere, theirs) = listen(arenas, Path::new("/another/log")).unwrap();
        std::os::unix::fs::symlink(&theirs, name("writer")).unwrap();
        std::fs::create_dir(name("9")).unwrap();
        std::fs::write(name("8"), b"").unwrap();
        assert_eq!(connect(arenas, log).unwrap_err().kind(), io::ErrorKind::NotFound);
        let (_listener, path) = listen(arenas, log).unwrap();
        assert_eq!(files(arenas, log).unwrap(), [path]);
        assert!(connect(arenas, log).is_ok());
        // Only root can change the owner of a file.
        if is_root() {
            let _theirs = UnixListener::bind(name("z")).unwrap();
            std::os::unix::fs::chown(name("z"), Some(12_345), None).unwrap();
            assert_eq!(files(arenas, log).unwrap().len(), 1);
            assert!(connect(arenas, log).is_ok());
        }
    }

    fn is_root() -> bool {
        tacho_logdir::private_file::user_id() == 0
    }

    #[test]
    fn peers_are_identified_with_paths_of_any_length() {
        let dir = tempfile::tempdir().unwrap();
        let long = dir.path().join("x".repeat(120));
        std::fs::create_dir(&long).unwrap();
        let log = Path::new(LOG);
        for place in [dir.path(), &long] {
            assert_eq!(connect(place, log).unwrap_err().kind(), io::ErrorKind::NotFound);
            let first = listen(place, log).unwrap();
            drop(first);
            assert_eq!(connect(place, log).unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
            let (listener, path) = listen(place, log).unwrap();
            assert_eq!(
                files(place, log).unwrap(),
                std::slice::from_ref(&path),
                "the old one is removed"
            );
            assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
            let here = connect(place, log).unwrap();
            let (there, _) = listener.accept().unwrap();
            for peer in [Peer::of(&here).unwrap(), Peer::of(&there).unwrap()] {
                assert_eq!(peer.pid, std::process::id());
                assert!(peer.is_trusted());
            }
        }
    }
}
