//! What happens to the files that the caller has to report.

use std::path::PathBuf;

use super::error::FileError;
use super::seal::Sealed;

/// Something the caller should tell the operator, or act on.
#[derive(Debug)]
pub enum Event {
    /// A file was completed and another one begun.
    Rotated {
        /// The completed file.
        closed: PathBuf,
        /// Its length.
        closed_bytes: u64,
        /// The file that is written now.
        opened: PathBuf,
    },
    /// A new file was wanted and could not be made; the old one stays the current one. Said once
    /// until the cause changes; tried again with every batch.
    RotateFailed {
        /// Why.
        error: FileError,
    },
    /// The current file was unlinked by another process; its content was written again.
    Recreated {
        /// Where the content is now.
        path: PathBuf,
        /// How much was written again.
        bytes: u64,
    },
    /// The current file was renamed by another process and keeps its lines there.
    Moved {
        /// The name it had.
        from: PathBuf,
        /// The file that is written now.
        opened: PathBuf,
    },
    /// The current file was cut short by another process.
    Truncated {
        /// The file.
        path: PathBuf,
        /// Accepted bytes that are gone for good.
        gone_bytes: u64,
        /// Bytes of the batch being written, which are simply written again.
        rewritten_bytes: u64,
    },
    /// Another process wrote into the current file.
    Foreign {
        /// The file.
        path: PathBuf,
        /// Their bytes that were left in it, all of them complete lines.
        kept_bytes: u64,
        /// Their bytes that had torn a line of ours or were no complete line, and were cut off.
        removed_bytes: u64,
    },
    /// A file that the recorder has not made had the name of a newer log file; it was renamed.
    SetAside {
        /// The name it had.
        from: PathBuf,
        /// The name it has.
        to: PathBuf,
    },
    /// The log continues, and its seal cannot be written. Said once until the cause changes;
    /// nothing is forgotten, and it is tried again with every batch.
    SealFailed {
        /// Why.
        error: FileError,
    },
    /// The seal is complete again.
    SealResumed,
    /// The log is sealed from this file on: it could not be when it was opened.
    SealBegun {
        /// With what.
        sealed: Sealed,
    },
}
