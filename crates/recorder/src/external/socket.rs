//! Where server and recorder meet: a socket beside the arena.

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

/// Longer paths do not fit into the address of a socket, bytes.
const PATH_BYTES_MAX: usize = 100;

const ENDING: &str = ".sock";

/// A new name for the socket of a log directory (canonical path). It has the time and the process
/// in it: the directory may be open to everybody, and a name that is known beforehand can be taken
/// by another user.
fn new_path(arena_directory: &Path, log_directory: &Path) -> PathBuf {
    let (prefix, now_us, pid) = (name_prefix(log_directory), sys::now_us(), std::process::id());
    arena_directory.join(format!("{prefix}{now_us}-{pid}{ENDING}"))
}

/// The sockets of a log directory that this process's user, or root, has made, the newest first.
/// One of them is of the server that lives, if one lives. What others put there is passed over.
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
    /// Of a connection: who called `connect`, or `listen`.
    ///
    /// # Errors
    /// The system does not say.
    pub fn of(stream: &UnixStream) -> io::Result<Peer> {
        let mut found = libc::ucred { pid: 0, uid: 0, gid: 0 };
        let mut bytes = size_of::<libc::ucred>() as libc::socklen_t;
        // SAFETY: both pointers are valid for what the call writes, which `bytes` says.
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

    /// Whether it may be told everything: it has this process's user, or is root.
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

/// Listens, and says where. The caller holds the lock of the log: sockets that are there are of
/// servers that died.
///
/// # Errors
/// The system refuses.
pub fn listen(arena_directory: &Path, log_directory: &Path) -> io::Result<(UnixListener, PathBuf)> {
    for path in files(arena_directory, log_directory)? {
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    let path = new_path(arena_directory, log_directory);
    let listener = with_short(&path, |path| UnixListener::bind(path))?;
    // Until here others could connect: they are asked who they are.
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
    listener.set_nonblocking(true)?;
    Ok((listener, path))
}

/// Connects.
///
/// # Errors
/// No process listens, or the system refuses.
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
    fn what_others_put_there_is_passed_over() {
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
        // Only root can give a file away.
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
    fn both_know_each_other_however_long_the_path_is() {
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
