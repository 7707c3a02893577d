//! Where server and recorder meet: a socket beside the arena.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use crate::arena_file::name_prefix;

/// Longer paths do not fit into the address of a socket, bytes.
const PATH_BYTES_MAX: usize = 100;

/// The socket of a log directory (canonical path).
#[must_use]
pub fn path(arena_directory: &Path, log_directory: &Path) -> PathBuf {
    arena_directory.join(format!("{}writer.sock", name_prefix(log_directory)))
}

/// Who is at the other end.
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
    // SAFETY: takes no argument and cannot fail.
    uid == 0 || uid == unsafe { libc::geteuid() }
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

/// Listens. The caller holds the lock of the log: what is there is of a server that died.
///
/// # Errors
/// The system refuses, for example because the file is somebody else's.
pub fn listen(path: &Path) -> io::Result<UnixListener> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = with_short(path, |path| UnixListener::bind(path))?;
    // Until here others could connect: they are asked who they are.
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Connects.
///
/// # Errors
/// Nobody listens, or what is there is not the server's: others may make files in the arena's directory.
pub fn connect(path: &Path) -> io::Result<UnixStream> {
    let found = path.symlink_metadata()?;
    if !found.file_type().is_socket() || !is_trusted(found.uid()) {
        let why = format!("this is no socket of the server (user id {})", found.uid());
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    }
    with_short(path, |path| UnixStream::connect(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_to_a_socket_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let (socket, link) = (dir.path().join("socket"), dir.path().join("link"));
        let _listener = listen(&socket).unwrap();
        assert!(connect(&socket).is_ok());
        std::os::unix::fs::symlink(&socket, &link).unwrap();
        assert_eq!(connect(&link).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
    }

    #[test]
    fn both_know_each_other_however_long_the_path_is() {
        let dir = tempfile::tempdir().unwrap();
        let long = dir.path().join("x".repeat(120));
        std::fs::create_dir(&long).unwrap();
        for place in [dir.path(), &long] {
            let path = path(place, Path::new("/var/lib/x/tacho"));
            assert_eq!(connect(&path).unwrap_err().kind(), io::ErrorKind::NotFound);
            let first = listen(&path).unwrap();
            drop(first);
            assert_eq!(connect(&path).unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
            let listener = listen(&path).unwrap();
            assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
            let here = connect(&path).unwrap();
            let (there, _) = listener.accept().unwrap();
            for peer in [Peer::of(&here).unwrap(), Peer::of(&there).unwrap()] {
                assert_eq!(peer.pid, std::process::id());
                assert!(peer.is_trusted());
            }
        }
    }
}
