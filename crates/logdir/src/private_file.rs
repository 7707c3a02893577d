//! Trusted files: created by the recorder, and not by an SQL statement.
//!
//! An account with the privilege `FILE` creates and reads files as the server's user, wherever
//! `secure_file_priv` permits it. `SELECT … INTO OUTFILE` and `INTO DUMPFILE` never replace a file,
//! never create a link, and always give the new file permissions for others (0644 on MariaDB and
//! MySQL 8.0, 0640 on newer MySQL). So a file of the server's user without any bit for group and
//! others was not created by SQL. Reading (`LOAD DATA INFILE`, `LOAD_FILE()`) is an `open(2)` as
//! the server's user, which the kernel refuses for a file of mode 0000, also through
//! `/proc/self/fd` and `/proc/self/map_files`. SQL has no `chmod`.
//!
//! The recorder needs no permission for the descriptor from the creation of the file. To open the
//! file again it gives itself the permission for the duration of one `open`. A process that
//! bypasses permissions (root, `CAP_DAC_OVERRIDE`) needs none, and is not protected from its own
//! SQL.

use std::fs::{File, Metadata, OpenOptions, Permissions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Mode of a file that only its creating process uses.
pub const SEALED: u32 = 0;
/// Mode of a private file in versions before 0.2, and of one while it is being opened.
const PRIVATE: u32 = 0o600;
/// Permissions of which a file created by SQL has at least one.
const OTHERS: u32 = 0o077;

/// Why a file is not trusted.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// A system call failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// It belongs to another user: a shared directory accepts files from all users.
    #[error("belongs to user id {uid}, not to the user of this process")]
    Foreign {
        /// Its owner.
        uid: u32,
    },
    /// It is not a regular file, or was not created by the recorder.
    #[error("was not made by Tachograph: {0}")]
    Planted(Reason),
}

/// Why the recorder cannot have created a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    /// A directory, a link, a pipe, a socket or a device.
    #[error("it is not a regular file")]
    NotPlain,
    /// It has another name.
    #[error("it has {0} hard links")]
    Links(u64),
    /// Others may read or write it.
    #[error("its mode is {0:04o}")]
    Mode(u32),
}

/// Checks that a recorder with the user `owner` can have created the file with this metadata.
///
/// # Errors
/// [`Refusal`], never [`Refusal::Io`].
pub fn check(metadata: &Metadata, owner: u32) -> Result<(), Refusal> {
    if metadata.uid() != owner {
        return Err(Refusal::Foreign { uid: metadata.uid() });
    }
    if !metadata.is_file() {
        return Err(Refusal::Planted(Reason::NotPlain));
    }
    if metadata.nlink() != 1 {
        return Err(Refusal::Planted(Reason::Links(metadata.nlink())));
    }
    let mode = metadata.mode() & 0o7777;
    if mode & OTHERS != 0 { Err(Refusal::Planted(Reason::Mode(mode))) } else { Ok(()) }
}

/// The user of this process.
pub fn user_id() -> u32 {
    // SAFETY: geteuid takes no argument and cannot fail.
    unsafe { libc::geteuid() }
}

/// Creates a file for reading and writing that cannot be opened by its name afterwards.
///
/// # Errors
/// The name is taken, or the file cannot be created.
pub fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create_new(true).mode(SEALED).open(path)
}

/// Opens a file for reading and writing if the recorder created it: a regular file of this
/// process's user, with one link, and without permissions for others. The checks apply to the
/// opened file.
///
/// # Errors
/// [`Refusal`]. No call could block, and nothing was changed.
pub fn open(path: &Path) -> Result<File, Refusal> {
    open_of(path, user_id())
}

/// As [`open`], for a recorder with the user `owner`: root reads the files of every recorder.
///
/// # Errors
/// As [`open`].
pub fn open_of(path: &Path, owner: u32) -> Result<File, Refusal> {
    let handle = look_at(path)?;
    let metadata = handle.metadata()?;
    check(&metadata, owner)?;
    let mut options = OpenOptions::new();
    options.read(true).write(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    let file = match options.open(path) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            // The owner may do this. During the next call, other processes of this user could open
            // it, too.
            set_mode(&handle, PRIVATE)?;
            let opened = options.open(path);
            set_mode(&handle, mode_before(&metadata))?;
            opened?
        }
        opened => opened?,
    };
    let opened = file.metadata()?;
    if (opened.dev(), opened.ino()) != (metadata.dev(), metadata.ino()) {
        return Err(Refusal::Io(io::Error::other("another file took its name meanwhile")));
    }
    // It may have got a second name between the first check and this one.
    check(&opened, owner)?;
    Ok(file)
}

/// The mode of a file that its owner was not permitted to open. A mode that permits it was that of
/// another process of this user, which was opening the file at the same time: it must not stay.
fn mode_before(metadata: &Metadata) -> u32 {
    match metadata.mode() & 0o7777 {
        PRIVATE => SEALED,
        mode => mode,
    }
}

/// A descriptor that refers to the entry itself, which may be a link, a pipe or a device, without
/// opening it.
fn look_at(path: &Path) -> io::Result<File> {
    let flags = libc::O_PATH | libc::O_NOFOLLOW;
    OpenOptions::new().read(true).custom_flags(flags).open(path)
}

/// Changes the mode of the entry that [`look_at`] found, whatever its path refers to now.
fn set_mode(handle: &File, mode: u32) -> io::Result<()> {
    let name = PathBuf::from(format!("/proc/self/fd/{}", handle.as_raw_fd()));
    match std::fs::set_permissions(name, Permissions::from_mode(mode)) {
        // In a chroot without /proc.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            set_mode_without_proc(handle, mode)
        }
        done => done,
    }
}

/// `fchmodat2(2)`, available since Linux 6.6.
fn set_mode_without_proc(handle: &File, mode: u32) -> io::Result<()> {
    let (fd, empty) = (handle.as_raw_fd(), c"".as_ptr());
    // SAFETY: an open descriptor and a terminated path; the call changes no memory of this process.
    let answer =
        unsafe { libc::syscall(libc::SYS_fchmodat2, fd, empty, mode, libc::AT_EMPTY_PATH) };
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::fs::symlink;

    use super::*;

    fn mode(path: &Path) -> u32 {
        path.metadata().unwrap().mode() & 0o7777
    }

    #[test]
    fn a_created_file_is_opened_again_and_stays_sealed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        create(&path).unwrap().write_all(b"content").unwrap();
        assert_eq!(mode(&path), SEALED);
        let mut text = String::new();
        open(&path).unwrap().read_to_string(&mut text).unwrap();
        assert_eq!((text.as_str(), mode(&path)), ("content", SEALED));
        assert_eq!(create(&path).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        std::fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        open(&path).unwrap();
        assert_eq!(mode(&path), 0o600, "as an earlier version left it");
    }

    #[test]
    fn two_readers_at_once_leave_the_file_sealed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        create(&path).unwrap();
        for (found, left) in [(SEALED, SEALED), (PRIVATE, SEALED), (0o400, 0o400)] {
            std::fs::set_permissions(&path, Permissions::from_mode(found)).unwrap();
            assert_eq!(mode_before(&path.metadata().unwrap()), left, "{found:o}");
        }
    }

    #[test]
    fn a_mode_is_changed_with_proc_and_without() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        create(&path).unwrap();
        let handle = look_at(&path).unwrap();
        set_mode(&handle, PRIVATE).unwrap();
        assert_eq!(mode(&path), PRIVATE);
        match set_mode_without_proc(&handle, SEALED) {
            Ok(()) => assert_eq!(mode(&path), SEALED),
            // Before Linux 6.6.
            Err(error) => assert_eq!(error.raw_os_error(), Some(libc::ENOSYS)),
        }
    }

    #[test]
    fn files_that_sql_may_have_created_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        for planted in [0o644, 0o640, 0o660, 0o666, 0o604, 0o610, 0o001] {
            let path = dir.path().join(format!("{planted:o}"));
            std::fs::write(&path, b"forged").unwrap();
            std::fs::set_permissions(&path, Permissions::from_mode(planted)).unwrap();
            let refusal = open(&path).unwrap_err();
            assert!(
                matches!(refusal, Refusal::Planted(Reason::Mode(m)) if m == planted),
                "{planted:o}: {refusal}"
            );
            assert_eq!(mode(&path), planted, "nothing was changed");
        }
    }

    #[test]
    fn links_pipes_and_directories_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        create(&at("file")).unwrap();
        symlink(at("file"), at("link")).unwrap();
        symlink(at("nowhere"), at("dangling")).unwrap();
        std::fs::create_dir(at("directory")).unwrap();
        let name = std::ffi::CString::new(at("pipe").to_str().unwrap()).unwrap();
        // SAFETY: a terminated name; the call makes a pipe there.
        assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
        for name in ["link", "dangling", "directory", "pipe"] {
            let refusal = open(&at(name)).unwrap_err();
            assert!(matches!(refusal, Refusal::Planted(Reason::NotPlain)), "{name}: {refusal}");
        }
        std::fs::hard_link(at("file"), at("second")).unwrap();
        let refusal = open(&at("file")).unwrap_err();
        assert!(matches!(refusal, Refusal::Planted(Reason::Links(2))), "{refusal}");
    }

    #[test]
    fn files_of_others_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        create(&path).unwrap();
        if user_id() == 0 {
            // Only root can change the owner of a file.
            std::os::unix::fs::chown(&path, Some(12_345), None).unwrap();
            let refusal = open(&path).unwrap_err();
            assert!(matches!(refusal, Refusal::Foreign { uid: 12_345 }), "{refusal}");
        }
    }
}
