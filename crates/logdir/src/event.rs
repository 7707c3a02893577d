//! Events of the files that the caller must report.

use std::path::PathBuf;

use super::error::FileError;
use super::seal::Sealed;

/// An event that the caller should report to the operator, or handle.
#[derive(Debug)]
pub enum Event {
    /// A file was completed and another one begun.
    Rotated {
        /// The completed file.
        closed: PathBuf,
        /// Its length.
        closed_bytes: u64,
        /// The file that is being written now.
        opened: PathBuf,
    },
    /// A new file was needed and could not be created; the old one stays the current one. Reported
    /// once until the cause changes; retried with every batch.
    RotateFailed {
        /// Why.
        error: FileError,
    },
    /// The current file was unlinked by another process; its content was written again.
    Recreated {
        /// Where the content is now.
        path: PathBuf,
        /// How much was written again, bytes.
        bytes: u64,
    },
    /// Another process renamed the current file, which keeps its lines there.
    Moved {
        /// Its old name.
        from: PathBuf,
        /// The file that is being written now.
        opened: PathBuf,
    },
    /// Another process truncated the current file.
    Truncated {
        /// The file.
        path: PathBuf,
        /// Accepted bytes that are lost.
        gone_bytes: u64,
        /// Bytes of the batch being written, which are written again.
        rewritten_bytes: u64,
    },
    /// Another process wrote into the current file.
    Foreign {
        /// The file.
        path: PathBuf,
        /// Foreign bytes that were left in it, all of them complete lines.
        kept_bytes: u64,
        /// Foreign bytes that had torn a line of the log or were not a complete line, and were cut
        /// off.
        removed_bytes: u64,
    },
    /// A file that the recorder did not create had the name of a newer log file; it was renamed.
    SetAside {
        /// Its old name.
        from: PathBuf,
        /// Its new name.
        to: PathBuf,
    },
    /// The log continues, but its seal cannot be written. Reported once until the cause changes;
    /// nothing is lost, and it is retried with every batch.
    SealFailed {
        /// Why.
        error: FileError,
    },
    /// The seal is complete again.
    SealResumed,
    /// The log is sealed from this file on; this failed when the log was opened.
    SealBegun {
        /// The key and its use.
        sealed: Sealed,
    },
}
