//! State of what may not be on the device, and syncing the end of a file.

use std::path::{Path, PathBuf};

use super::error::{At, FileError};
use super::fs::FsFile;
use super::name::FileName;

/// Bytes that are rewritten at once.
const BLOCK_BYTES: usize = 64 * 1024;

/// The parts of the log that may not be on the device.
pub(crate) struct Unsynced<L> {
    /// Files that were left, oldest first.
    pub(crate) left: Vec<Tail<L>>,
    /// How much of the current file is done, bytes.
    pub(crate) current_bytes: u64,
    /// The rest of the current file may have parts that fdatasync(2) would consider clean.
    pub(crate) is_doubtful: bool,
    /// Files were created since the last sync, or there was none yet.
    pub(crate) names: bool,
}

/// The end of a file that was left.
pub(crate) struct Tail<L> {
    pub(crate) name: FileName,
    pub(crate) file: L,
    pub(crate) path: PathBuf,
    /// Its beginning, bytes.
    pub(crate) from: u64,
    /// See [`Unsynced::is_doubtful`].
    pub(crate) is_doubtful: bool,
}

/// Waits until a file is on the device from `from` on. `is_doubtful`: it may have parts that
/// fdatasync(2) would consider clean.
pub(crate) fn sync_tail<L: FsFile>(
    file: &L,
    path: &Path,
    from: u64,
    is_doubtful: &mut bool,
) -> Result<(), FileError> {
    // Until the sync has succeeded.
    if std::mem::replace(is_doubtful, true) {
        rewrite(file, path, from)?;
    }
    file.sync_data().at("sync", path)?;
    *is_doubtful = false;
    Ok(())
}

/// Marks every page of the end of a file as dirty again.
fn rewrite<L: FsFile>(file: &L, path: &Path, from: u64) -> Result<(), FileError> {
    let end = file.stat().at("look at", path)?.bytes;
    if from >= end {
        return Ok(());
    }
    let again = file.reopen().at("open", path)?;
    let mut block = vec![0; BLOCK_BYTES];
    let mut at = from;
    while at < end {
        let wanted = block.len().min(usize::try_from(end - at).unwrap_or(usize::MAX));
        let count = file.read_at(&mut block[..wanted], at).at("read", path)?;
        if count == 0 {
            break;
        }
        let written = again.write_at(&block[..count], at).at("write", path)?;
        at += written.max(1) as u64;
    }
    Ok(())
}
