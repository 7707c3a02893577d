//! What may not be on the device, and bringing the end of a file there.

use std::path::{Path, PathBuf};

use super::error::{At, FileError};
use super::fs::FsFile;
use super::name::FileName;

/// Rewritten at once, bytes.
const BLOCK_BYTES: usize = 64 * 1024;

/// What may not be on the device.
pub(crate) struct Unsynced<L> {
    /// Files that were left, oldest first.
    pub(crate) left: Vec<Tail<L>>,
    /// How much of the current file needs no care any more, bytes.
    pub(crate) current_bytes: u64,
    /// Part of what fdatasync(2) would call clean of the current file is not on the device.
    pub(crate) is_doubtful: bool,
    /// Names of files were made, or nothing was synced yet.
    pub(crate) names: bool,
}

/// The end of a file that was left.
pub(crate) struct Tail<L> {
    pub(crate) name: FileName,
    pub(crate) file: L,
    pub(crate) path: PathBuf,
    /// Where it begins, bytes.
    pub(crate) from: u64,
    /// See [`Unsynced::is_doubtful`].
    pub(crate) is_doubtful: bool,
}

/// Waits until a file is on the device from `from` on. `is_doubtful`: part of what fdatasync(2)
/// would call clean may not be.
pub(crate) fn sync_tail<L: FsFile>(
    file: &L,
    path: &Path,
    from: u64,
    is_doubtful: &mut bool,
) -> Result<(), FileError> {
    // Until it has succeeded.
    if std::mem::replace(is_doubtful, true) {
        rewrite(file, path, from)?;
    }
    file.sync_data().at("sync", path)?;
    *is_doubtful = false;
    Ok(())
}

/// Makes every page of the end of a file dirty again.
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
