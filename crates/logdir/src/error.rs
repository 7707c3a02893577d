//! Errors: operation, file, cause and advice.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Kinds of errors that a caller distinguishes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FileErrorKind {
    /// No space, no inodes or no quota left.
    DiskFull,
    /// A limit on the size of one file is smaller than one line.
    FileTooLarge,
    /// The device reported an error.
    Io,
    /// The file system is mounted read-only.
    ReadOnly,
    /// The directory does not exist and could not be created.
    DirectoryGone,
    /// Something that is not a directory is in the directory's place.
    NotADirectory,
    /// The file no longer exists, or is not a regular file.
    FileGone,
    /// The operating system forbids it.
    Permission,
    /// Another writer has this directory.
    Locked {
        /// Its process id, if it could be read.
        holder_pid: Option<u32>,
    },
    /// A signing key that others may read.
    KeyNotSecret,
    /// A signing key that does not match what is already sealed.
    StaleKey,
    /// The caller's batch does not consist of complete lines.
    InvalidBatch,
    /// Anything else; the error number says more.
    Other,
}

impl FileErrorKind {
    fn of(error: &io::Error) -> FileErrorKind {
        match error.raw_os_error() {
            Some(libc::ENOSPC | libc::EDQUOT) => FileErrorKind::DiskFull,
            Some(libc::EFBIG) => FileErrorKind::FileTooLarge,
            Some(libc::EIO) => FileErrorKind::Io,
            Some(libc::EROFS) => FileErrorKind::ReadOnly,
            Some(libc::ENOENT) => FileErrorKind::DirectoryGone,
            Some(libc::ENOTDIR) => FileErrorKind::NotADirectory,
            Some(libc::ESTALE | libc::ELOOP | libc::EISDIR | libc::ENXIO) => {
                FileErrorKind::FileGone
            }
            Some(libc::EACCES | libc::EPERM) => FileErrorKind::Permission,
            _ => FileErrorKind::Other,
        }
    }

    /// One sentence of advice for the operator.
    #[must_use]
    pub fn advice(&self) -> &'static str {
        match self {
            FileErrorKind::DiskFull => {
                "Free space on this file system or raise the quota; recording then continues \
                 where it stopped."
            }
            FileErrorKind::FileTooLarge => {
                "Raise the limit on file size (ulimit -f) of this process; a single record is \
                 larger than it."
            }
            FileErrorKind::Io => {
                "Look for errors of the device in the kernel log; recording continues when the \
                 device does."
            }
            FileErrorKind::ReadOnly => "Mount this file system read-write.",
            FileErrorKind::DirectoryGone => {
                "Make the parent directory (the log directory and one level above it are made \
                 automatically)."
            }
            FileErrorKind::NotADirectory => "Move away what is in the place of the log directory.",
            FileErrorKind::FileGone => {
                "Move away what is in the place of the log file, or mount its file system again."
            }
            FileErrorKind::Permission => {
                "Let the user of this process write to the log directory and its files."
            }
            FileErrorKind::Locked { .. } => {
                "Stop the other writer, or give this one a directory of its own."
            }
            FileErrorKind::KeyNotSecret => {
                "The signing key must be a regular file with one name, without permissions for group \
                 and others (chmod 0). If another user may have read or created it, remove it; the \
                 server then makes a new one."
            }
            FileErrorKind::StaleKey => {
                "This is not the key that the log was last sealed with; it may be an older copy of \
                 it. Use the current one."
            }
            FileErrorKind::InvalidBatch => "Report this as a bug.",
            FileErrorKind::Other => "See the error number.",
        }
    }
}

/// A failed operation on a log file or its directory.
#[derive(Debug)]
pub struct FileError {
    kind: FileErrorKind,
    operation: &'static str,
    path: PathBuf,
    source: Option<io::Error>,
}

impl FileError {
    pub(crate) fn new(operation: &'static str, path: &Path, source: io::Error) -> FileError {
        let kind = FileErrorKind::of(&source);
        FileError { kind, operation, path: path.to_owned(), source: Some(source) }
    }

    pub(crate) fn of_kind(kind: FileErrorKind, operation: &'static str, path: &Path) -> FileError {
        FileError { kind, operation, path: path.to_owned(), source: None }
    }

    /// The kind of the error.
    #[must_use]
    pub fn kind(&self) -> FileErrorKind {
        self.kind
    }

    /// The operating system's error number, if it gave one.
    #[must_use]
    pub fn errno(&self) -> Option<i32> {
        self.source.as_ref().and_then(io::Error::raw_os_error)
    }

    /// The file or directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot {} {}: ", self.operation, self.path.display())?;
        match (&self.kind, &self.source) {
            (FileErrorKind::Locked { holder_pid: Some(pid) }, _) => {
                write!(f, "process {pid} is writing this log directory")?;
            }
            (FileErrorKind::Locked { holder_pid: None }, _) => {
                f.write_str("another process is writing this log directory")?;
            }
            (FileErrorKind::InvalidBatch, _) => f.write_str("not complete lines")?,
            (FileErrorKind::NotADirectory, None) => f.write_str("not a directory")?,
            (FileErrorKind::FileGone, None) => f.write_str("not a regular file")?,
            (FileErrorKind::KeyNotSecret, _) => f.write_str("others can read it, or made it")?,
            (FileErrorKind::StaleKey, _) => f.write_str("not the newest key of this log")?,
            (_, Some(source)) => write!(f, "{source}")?,
            (_, None) => f.write_str("not possible")?,
        }
        write!(f, ". {}", self.kind.advice())
    }
}

impl Error for FileError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_ref().map(|source| source as _)
    }
}

/// The last reported error: reported again only when the cause changes.
#[derive(Debug, Default)]
pub(crate) struct Reported(Option<(FileErrorKind, Option<i32>)>);

impl Reported {
    /// Whether the cause of an error differs from the last one.
    pub(crate) fn is_news(&mut self, error: &FileError) -> bool {
        let cause = Some((error.kind(), error.errno()));
        std::mem::replace(&mut self.0, cause) != cause
    }

    /// The operation works. `true`: a failure was reported before.
    pub(crate) fn clear(&mut self) -> bool {
        self.0.take().is_some()
    }
}

/// Adds operation and path to an I/O error.
pub(crate) trait At<T> {
    /// Names the operation ("append to") and its path.
    fn at(self, operation: &'static str, path: &Path) -> Result<T, FileError>;
}

impl<T> At<T> for io::Result<T> {
    fn at(self, operation: &'static str, path: &Path) -> Result<T, FileError> {
        self.map_err(|source| FileError::new(operation, path, source))
    }
}

/// Why the last `seq` is unknown.
#[derive(Debug)]
pub enum LastSeqError {
    /// A file could not be read.
    Unreadable(FileError),
    /// The last complete line does not begin like a record of version 1.
    Unparsable {
        /// The file.
        path: PathBuf,
        /// Where the line begins, bytes from the start of the file.
        offset: u64,
    },
    /// The newest lines are encrypted, and no sidecar gives the number of the last one.
    Encrypted {
        /// The file.
        path: PathBuf,
    },
    /// The newest lines are not in a regular file (but a symbolic link, for example).
    NotPlain {
        /// The file.
        path: PathBuf,
    },
}

impl fmt::Display for LastSeqError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LastSeqError::Unreadable(error) => write!(f, "last sequence number unknown: {error}"),
            LastSeqError::Unparsable { path, offset } => write!(
                f,
                "last sequence number unknown: the line at byte {offset} of {} is not a record \
                 of version 1",
                path.display()
            ),
            LastSeqError::Encrypted { path } => write!(
                f,
                "last sequence number unknown: {} is the newest file, it is encrypted, and there is \
                 no sidecar (.chain) that tells. Put back what was removed, or decrypt it beside \
                 itself (age --decrypt), or move all files of this log elsewhere",
                path.display()
            ),
            LastSeqError::NotPlain { path } => write!(
                f,
                "last sequence number unknown: {} is the newest file and is not a regular file of \
                 lines",
                path.display()
            ),
        }
    }
}

impl Error for LastSeqError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            LastSeqError::Unreadable(error) => Some(error),
            _ => None,
        }
    }
}
