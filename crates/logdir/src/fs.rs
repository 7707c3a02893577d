//! The few system calls that log files need, and the trait in front of them.
//!
//! open, fcntl(F_OFD_SETLK), mkdir, readdir, readlink, stat, fstat, read, pread, write, pwrite,
//! ftruncate, fchown, fchmod, futimens, fdatasync, sync_file_range, fsync, rename, unlink, statvfs,
//! clock_gettime. No other module of the writing half makes system calls.

use std::fs::{DirBuilder, File, FileTimes, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::private_file::{self, Refusal};

/// Identity of a file, independent of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileId {
    /// Device number.
    pub device: u64,
    /// Inode number.
    pub inode: u64,
}

/// The part of stat(2) that is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Identity.
    pub id: FileId,
    /// Length in bytes.
    pub bytes: u64,
    /// When the content was last changed, s since 1970-01-01 UTC.
    pub modified_s: i64,
    /// Number of names.
    pub links: u64,
    /// A regular file, not a directory, symbolic link, pipe or device.
    pub is_file: bool,
    /// A directory.
    pub is_dir: bool,
    /// The permission bits.
    pub mode: u32,
}

/// Space that is reserved for the log when other parts want to write: this many bytes, or a part of
/// the file system if it is small.
const SPARE_BYTES_MAX: u64 = 64 << 20;
const SPARE_PART: u64 = 20;

/// Space on a file system, for users without privileges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Space {
    /// Bytes that can still be written.
    pub free_bytes: u64,
    /// Bytes that could be written if it was empty.
    pub total_bytes: u64,
}

impl Space {
    /// Whether less than this part is free, per cent.
    #[must_use]
    pub fn is_below(&self, percent: u64) -> bool {
        self.free_bytes < self.total_bytes / 100 * percent
    }

    /// Whether there is enough space for more than the log.
    #[must_use]
    pub fn is_to_spare(&self) -> bool {
        self.free_bytes >= SPARE_BYTES_MAX.min(self.total_bytes / SPARE_PART)
    }
}

/// How a file is opened. Symbolic links are never followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenMode {
    /// Existing, for reading.
    Read,
    /// Existing and created by [`Fs::replace`], for reading: SQL cannot open it.
    Private,
    /// Existing, for reading, and for writing at its end only.
    Append,
    /// Like `Append`, but the file must not exist yet; mode 0640.
    AppendNew,
    /// For reading and writing from the start, created with mode 0640 if missing.
    Lock,
}

/// A file system and the clock that names its files. Clones refer to the same one, because a
/// separate thread packs closed files.
pub trait Fs: Clone + Send + 'static {
    /// An open file.
    type File: FsFile;

    /// Seconds since 1970-01-01 UTC.
    fn now_s(&self) -> i64;
    /// Creates one directory, mode 0750.
    ///
    /// # Errors
    /// As mkdir(2).
    fn create_dir(&self, path: &Path) -> io::Result<()>;
    /// Names in a directory, in any order, except names that are not UTF-8.
    ///
    /// # Errors
    /// As opendir(3) and readdir(3).
    fn list(&self, dir: &Path) -> io::Result<Vec<String>>;
    /// The canonical path of a directory, without symbolic links.
    ///
    /// # Errors
    /// As realpath(3).
    fn canonical(&self, dir: &Path) -> io::Result<PathBuf>;
    /// Opens a file.
    ///
    /// # Errors
    /// As open(2).
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Self::File>;
    /// Looks at a path, following symbolic links only in the directories above it.
    ///
    /// # Errors
    /// As lstat(2).
    fn stat(&self, path: &Path) -> io::Result<Stat>;
    /// Atomically replaces the file at a path by one that only [`OpenMode::Private`] opens. With
    /// `sync`, it is on the device when this returns.
    ///
    /// # Errors
    /// As open(2), write(2), fsync(2) and rename(2).
    fn replace(&self, path: &Path, bytes: &[u8], sync: bool) -> io::Result<()>;
    /// Removes the name of a file.
    ///
    /// # Errors
    /// As unlink(2).
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Renames a file, replacing any file with the new name.
    ///
    /// # Errors
    /// As rename(2).
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Free space for files in a directory.
    ///
    /// # Errors
    /// As statvfs(3).
    fn space(&self, dir: &Path) -> io::Result<Space>;
    /// Waits until the names in a directory are on the device.
    ///
    /// # Errors
    /// As open(2) and fsync(2).
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
}

/// An open file.
pub trait FsFile: Send {
    /// One write(2): may write less than requested, and may be interrupted.
    ///
    /// # Errors
    /// As write(2).
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize>;
    /// Opens the same file again, whatever its name is now, for [`write_at`](Self::write_at).
    ///
    /// # Errors
    /// As open(2).
    fn reopen(&self) -> io::Result<Self>
    where
        Self: Sized;
    /// One pwrite(2), to a file returned by [`reopen`](Self::reopen): files that are open for
    /// appending append regardless of the position.
    ///
    /// # Errors
    /// As pwrite(2).
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize>;
    /// One pread(2).
    ///
    /// # Errors
    /// As pread(2).
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Truncates the file.
    ///
    /// # Errors
    /// As ftruncate(2).
    fn set_len(&self, bytes: u64) -> io::Result<()>;
    /// Looks at the open file.
    ///
    /// # Errors
    /// As fstat(2).
    fn stat(&self) -> io::Result<Stat>;
    /// Copies mode and times from another file, and the owner if this process may do that.
    ///
    /// # Errors
    /// As fstat(2), fchmod(2) and futimens(3).
    fn copy_attributes(&self, from: &Self) -> io::Result<()>;
    /// Waits until the content is on the device.
    ///
    /// # Errors
    /// As fdatasync(2).
    fn sync_data(&self) -> io::Result<()>;
    /// Starts writing cached data to the device, without waiting. [`FsFile::sync_data`] reports the
    /// errors.
    fn start_sync(&self);
    /// Takes a whole-file lock that ends with this open file. `false`: another process has it.
    ///
    /// # Errors
    /// As fcntl(2), F_OFD_SETLK.
    fn try_lock(&self) -> io::Result<bool>;
    /// Releases that lock, also for processes that inherited the open file.
    ///
    /// # Errors
    /// As fcntl(2), F_OFD_SETLK.
    fn unlock(&self) -> io::Result<()>;
}

/// The operating system's files.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealFs;

impl Fs for RealFs {
    type File = File;

    fn now_s(&self) -> i64 {
        match SystemTime::now().duration_since(UNIX_EPOCH) {
            Ok(since) => i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
            // A clock before 1970 is unusable; names keep their order without it.
            Err(_) => 0,
        }
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        DirBuilder::new().mode(0o750).create(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(dir)? {
            names.extend(entry?.file_name().into_string());
        }
        Ok(names)
    }

    fn canonical(&self, dir: &Path) -> io::Result<PathBuf> {
        std::fs::canonicalize(dir)
    }

    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<File> {
        if mode == OpenMode::Private {
            return private_file::open(path).map_err(|refusal| match refusal {
                Refusal::Io(error) => error,
                refusal => io::Error::new(io::ErrorKind::InvalidData, refusal),
            });
        }
        let mut options = OpenOptions::new();
        // O_NONBLOCK has no effect on a regular file; it keeps a pipe that another process put in
        // the place of a log file from blocking the open.
        options.read(true).mode(0o640).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
        match mode {
            OpenMode::Read | OpenMode::Private => &mut options,
            OpenMode::Append => options.append(true),
            OpenMode::AppendNew => options.append(true).create_new(true),
            OpenMode::Lock => options.write(true).create(true).truncate(false),
        };
        options.open(path)
    }

    fn stat(&self, path: &Path) -> io::Result<Stat> {
        Ok(Stat::from(&std::fs::symlink_metadata(path)?))
    }

    fn replace(&self, path: &Path, bytes: &[u8], sync: bool) -> io::Result<()> {
        let mut name = path.as_os_str().to_owned();
        name.push(".new");
        let new = PathBuf::from(name);
        // A file that a crash left may have any mode and any owner: it is removed first.
        match std::fs::remove_file(&new) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = private_file::create(&new)?;
        let written = file
            .write_all(bytes)
            .and_then(|()| if sync { file.sync_all() } else { Ok(()) })
            .and_then(|()| std::fs::rename(&new, path));
        if let Err(error) = written {
            // It may hold a secret, and must not be left behind. If this fails, too, the next
            // attempt removes it.
            let _: io::Result<()> = std::fs::remove_file(&new);
            return Err(error);
        }
        match path.parent() {
            Some(dir) if sync => self.sync_dir(dir),
            _ => Ok(()),
        }
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let dir = if dir.as_os_str().is_empty() { Path::new(".") } else { dir };
        File::open(dir)?.sync_all()
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::rename(from, to)
    }

    fn space(&self, dir: &Path) -> io::Result<Space> {
        let path = std::ffi::CString::new(dir.as_os_str().as_encoded_bytes())?;
        // SAFETY: statvfs is a plain C struct of integers, for which all zero is a value.
        let mut stat: libc::statvfs = unsafe { std::mem::zeroed() };
        // SAFETY: the path is terminated, and both outlive the call.
        if unsafe { libc::statvfs(path.as_ptr(), &raw mut stat) } != 0 {
            return Err(io::Error::last_os_error());
        }
        let bytes = |blocks: u64| blocks.saturating_mul(stat.f_frsize);
        // Space that only root may use does not count.
        let reserved = stat.f_bfree.saturating_sub(stat.f_bavail);
        Ok(Space {
            free_bytes: bytes(stat.f_bavail),
            total_bytes: bytes(stat.f_blocks.saturating_sub(reserved)),
        })
    }
}

impl FsFile for File {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Write::write(self, bytes)
    }

    fn reopen(&self) -> io::Result<File> {
        let path = format!("/proc/self/fd/{}", self.as_raw_fd());
        OpenOptions::new().read(true).write(true).open(path)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        FileExt::write_at(self, bytes, offset)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        FileExt::read_at(self, buffer, offset)
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        File::set_len(self, bytes)
    }

    fn stat(&self) -> io::Result<Stat> {
        Ok(Stat::from(&self.metadata()?))
    }

    fn copy_attributes(&self, from: &File) -> io::Result<()> {
        let of = from.metadata()?;
        // Before the mode, because a change of the owner changes the mode. Only root may change the
        // owner; otherwise the new file belongs to the user that writes the log, as the old one
        // once did.
        for (uid, gid) in [(Some(of.uid()), None), (None, Some(of.gid()))] {
            match std::os::unix::fs::fchown(self, uid, gid) {
                Err(error) if error.raw_os_error() == Some(libc::EPERM) => {}
                changed => changed?,
            }
        }
        self.set_permissions(of.permissions())?;
        self.set_times(FileTimes::new().set_accessed(of.accessed()?).set_modified(of.modified()?))
    }

    fn sync_data(&self) -> io::Result<()> {
        File::sync_data(self)
    }

    fn start_sync(&self) {
        // SAFETY: the descriptor is open while `self` is borrowed, and no memory is passed.
        // fdatasync reports every error that the result would report.
        unsafe { libc::sync_file_range(self.as_raw_fd(), 0, 0, libc::SYNC_FILE_RANGE_WRITE) };
    }

    fn try_lock(&self) -> io::Result<bool> {
        match set_lock(self, libc::F_WRLCK) {
            Ok(()) => Ok(true),
            Err(error) => match error.raw_os_error() {
                Some(libc::EAGAIN | libc::EACCES) => Ok(false),
                _ => Err(error),
            },
        }
    }

    fn unlock(&self) -> io::Result<()> {
        set_lock(self, libc::F_UNLCK)
    }
}

/// A lock of a whole file.
fn whole_file(kind: libc::c_int) -> libc::flock {
    // SAFETY: flock is a plain C struct of integers, for which all zero is a value (the commands
    // for open file descriptions require l_pid to be 0).
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = kind as libc::c_short;
    lock.l_whence = libc::SEEK_SET as libc::c_short;
    lock
}

fn set_lock(file: &File, kind: libc::c_int) -> io::Result<()> {
    let lock = whole_file(kind);
    // SAFETY: the descriptor is open while `file` is borrowed, and the kernel only reads `lock`,
    // which outlives the call.
    match unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw const lock) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Whether another open file holds the lock of [`FsFile::try_lock`].
///
/// # Errors
/// As fcntl(2), F_OFD_GETLK.
pub(crate) fn is_locked(file: &File) -> io::Result<bool> {
    let mut lock = whole_file(libc::F_WRLCK);
    // SAFETY: the descriptor is open while `file` is borrowed, and the kernel reads and writes
    // `lock` alone, which outlives the call.
    match unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_GETLK, &raw mut lock) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(i32::from(lock.l_type) != libc::F_UNLCK),
    }
}

impl From<&std::fs::Metadata> for Stat {
    fn from(metadata: &std::fs::Metadata) -> Stat {
        Stat {
            id: FileId { device: metadata.dev(), inode: metadata.ino() },
            bytes: metadata.len(),
            modified_s: metadata.mtime(),
            links: metadata.nlink(),
            is_file: metadata.is_file(),
            is_dir: metadata.is_dir(),
            mode: metadata.mode() & 0o7777,
        }
    }
}
