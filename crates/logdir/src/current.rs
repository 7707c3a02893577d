//! The file that is being written, a copy of it on its way, and files before it.

use std::path::PathBuf;

use super::name::FileName;

/// The file that is being written.
pub(crate) struct Current<L> {
    pub(crate) file: L,
    pub(crate) name: FileName,
    pub(crate) path: PathBuf,
    /// Length as far as we made it.
    pub(crate) bytes: u64,
    /// Length up to the end of the last complete line; the rest is a line begun.
    pub(crate) line_end: u64,
}

impl<L> Current<L> {
    pub(crate) fn is_mid_line(&self) -> bool {
        self.bytes > self.line_end
    }
}

/// A copy of an unlinked file on its way. It outlives a failed call, so that a full disk
/// in the middle costs nothing but time.
pub(crate) struct Rescue<L> {
    pub(crate) target: Current<L>,
    pub(crate) copied_bytes: u64,
}

/// A file that another one has followed.
pub(crate) struct Left {
    /// Its path.
    pub(crate) path: PathBuf,
    /// It is a copy of an unlinked file, under a name that the sealer did not know.
    pub(crate) rewritten: bool,
    /// Somebody else had changed it.
    pub(crate) damaged: bool,
    /// Its length.
    pub(crate) bytes: u64,
    /// How many bytes before that belong to the batch.
    pub(crate) batch_bytes: u64,
    /// Where in the batch they end.
    pub(crate) batch_end: usize,
    /// The name of the file that follows.
    pub(crate) next: FileName,
}
