//! Changes to the user whose files are written, and gives up privileges.
//!
//! The server could not write files that root created in its log directory, and root must not
//! follow links that the server's user may have created there. So the command becomes the owner of
//! the directory before it opens the first file.

use std::ffi::CString;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rustix::thread::{CapabilitySet, CapabilitySets};

/// A user and its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct User {
    /// The user id.
    pub uid: u32,
    /// Its group id.
    pub gid: u32,
}

impl User {
    /// The owner of a file.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn owner_of(path: &Path) -> io::Result<User> {
        let metadata = std::fs::metadata(path)?;
        Ok(User { uid: metadata.uid(), gid: metadata.gid() })
    }

    /// The user of this name.
    ///
    /// # Errors
    /// There is none, or the system's list of users cannot be read.
    pub fn named(name: &str) -> io::Result<User> {
        const TEXT_BYTES: usize = 64 << 10;
        let name = CString::new(name).map_err(|_| io::ErrorKind::InvalidInput)?;
        let mut texts = vec![0; TEXT_BYTES];
        let mut found = std::ptr::null_mut();
        // SAFETY: all-zero bytes are a valid entry.
        let mut entry: libc::passwd = unsafe { std::mem::zeroed() };
        // SAFETY: all pointers are valid during the call; `texts` has the length that is passed.
        let rc = unsafe {
            libc::getpwnam_r(name.as_ptr(), &mut entry, texts.as_mut_ptr(), texts.len(), &mut found)
        };
        match (rc, found.is_null()) {
            (0, false) => Ok(User { uid: entry.pw_uid, gid: entry.pw_gid }),
            (0, true) => Err(io::Error::new(io::ErrorKind::NotFound, "there is no such user")),
            (error, _) => Err(io::Error::from_raw_os_error(error)),
        }
    }

    /// Becomes this user, for the rest of the process. Only root can.
    ///
    /// # Errors
    /// A system call fails.
    pub fn become_it(self) -> io::Result<()> {
        // SAFETY: `gid` is one valid group id; the call reads only this one. The order matters:
        // only root can change groups.
        check(unsafe { libc::setgroups(1, &raw const self.gid) })?;
        // SAFETY: plain numbers.
        check(unsafe { libc::setgid(self.gid) })?;
        // SAFETY: a plain number. Real, effective and saved id: it cannot be reverted.
        check(unsafe { libc::setuid(self.uid) })
    }
}

/// Whether the process is root.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// As root: becomes the owner of `directory`, for the rest of the process. Returns the resulting
/// user id of the process.
///
/// # Errors
/// The directory cannot be read, or the system call fails.
pub fn become_owner(directory: &Path) -> io::Result<u32> {
    let owner = User::owner_of(directory)?;
    if !is_root() || owner.uid == 0 {
        return Ok(rustix::process::geteuid().as_raw());
    }
    owner.become_it()?;
    Ok(owner.uid)
}

/// Gives up all capabilities of this thread and of those that it starts, also such as the file of
/// the program has, and the possibility to get others.
///
/// # Errors
/// A system call fails.
pub fn drop_privileges() -> io::Result<()> {
    rustix::thread::set_no_new_privs(true)?;
    let none = CapabilitySet::empty();
    let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
    rustix::thread::set_capabilities(None, sets)?;
    Ok(())
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_found_by_name() {
        assert_eq!(User::named("root").unwrap(), User { uid: 0, gid: 0 });
        let error = User::named("no such user").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}
