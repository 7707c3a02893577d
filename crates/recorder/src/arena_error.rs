//! Why an arena or a file of its spill cannot be used.

use std::io;
use std::path::{Path, PathBuf};

use tacho_logdir::private_file::{Reason, Refusal};

/// Why an arena could not be created or opened.
#[derive(Debug, thiserror::Error)]
pub enum ArenaError {
    /// A system call failed.
    #[error("{action} {path}: {source}")]
    Io {
        /// What was attempted.
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file is not an arena of this version.
    #[error("{path} is not an arena that this version can read")]
    NotAnArena {
        /// The file.
        path: PathBuf,
    },
    /// Another process holds it.
    #[error("{path} is in use by process {pid}")]
    InUse {
        /// The file.
        path: PathBuf,
        /// Its owner, as written in the header.
        pid: u32,
    },
    /// The file belongs to another user: a shared directory accepts files from all users.
    #[error("{path} belongs to user id {uid}, not to the user of this process; it is left alone")]
    Foreign {
        /// The file.
        path: PathBuf,
        /// The owner of the file.
        uid: u32,
    },
    /// The file belongs to this user, but the recorder did not create it: an SQL statement may
    /// have.
    #[error("{path} was not made by Tachograph and is ignored: {reason}")]
    Planted {
        /// The file.
        path: PathBuf,
        /// Why the file is suspicious.
        reason: Reason,
    },
}

impl ArenaError {
    /// Whether the file may still be an arena of this log, with records in it.
    #[must_use]
    pub fn may_have_records(&self) -> bool {
        match self {
            ArenaError::Io { source, .. } => source.kind() != io::ErrorKind::NotFound,
            ArenaError::NotAnArena { .. } | ArenaError::InUse { .. } => true,
            ArenaError::Foreign { .. } | ArenaError::Planted { .. } => false,
        }
    }

    /// Advice to the operator about an arena that cannot be read; completes a sentence.
    #[must_use]
    pub fn advice(&self) -> &'static str {
        match self {
            ArenaError::Io { .. } => {
                "let the user of the server read and write it, or move it out of the directory"
            }
            ArenaError::NotAnArena { .. } => {
                "it is damaged, or of another version of the plugin, which can read it"
            }
            ArenaError::InUse { .. } => "end that process",
            ArenaError::Foreign { .. } => {
                "if it is of this server, give it to the user of the server (chown)"
            }
            ArenaError::Planted { .. } => {
                "an account with FILE can create such files; if you copied an arena there \
                 yourself, take the permissions of others away (chmod 600)"
            }
        }
    }
}

/// The error for a file that the recorder did not create.
pub(crate) fn refused(action: &'static str, path: &Path, refusal: Refusal) -> ArenaError {
    let path = path.to_owned();
    match refusal {
        Refusal::Io(source) => ArenaError::Io { action, path, source },
        Refusal::Foreign { uid } => ArenaError::Foreign { path, uid },
        Refusal::Planted(reason) => ArenaError::Planted { path, reason },
    }
}

pub(crate) fn io_error(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> ArenaError {
    let path = path.to_owned();
    move |source| ArenaError::Io { action, path, source }
}
