//! Changes to the user whose files are written.
//!
//! The server could not write files that root created in its log directory, and root must not
//! follow links that the server's user may have created there. So the command becomes the owner of
//! the directory before it opens the first file.

use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// As root: becomes the owner of `directory`, for the rest of the process. Returns the resulting
/// user id of the process.
///
/// # Errors
/// The directory cannot be read, or the system call fails.
pub fn become_owner(directory: &Path) -> io::Result<u32> {
    let metadata = std::fs::metadata(directory)?;
    // SAFETY: takes no argument and cannot fail.
    let user = unsafe { libc::geteuid() };
    if user != 0 || metadata.uid() == 0 {
        return Ok(user);
    }
    let group = metadata.gid();
    // SAFETY: `group` is one valid group id; the call reads only this one. The order matters: only
    // root can change groups.
    check(unsafe { libc::setgroups(1, &raw const group) })?;
    // SAFETY: plain numbers.
    check(unsafe { libc::setgid(group) })?;
    // SAFETY: a plain number. Real, effective and saved id: it cannot be reverted.
    check(unsafe { libc::setuid(metadata.uid()) })?;
    Ok(metadata.uid())
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
