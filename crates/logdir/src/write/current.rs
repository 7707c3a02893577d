//! The file that is being written.

use std::path::PathBuf;

use crate::name::FileName;

/// The file that is being written.
pub(crate) struct Current<L> {
    pub(crate) file: L,
    pub(crate) name: FileName,
    pub(crate) path: PathBuf,
    /// Length according to this writer.
    pub(crate) bytes: u64,
    /// Length up to the end of the last complete line; the rest is an incomplete line.
    pub(crate) line_end: u64,
}

impl<L> Current<L> {
    /// Whether it ends with an incomplete line.
    pub(crate) fn is_mid_line(&self) -> bool {
        self.bytes > self.line_end
    }

    /// Whether it has a complete line.
    pub(crate) fn has_lines(&self) -> bool {
        self.line_end > 0
    }
}
