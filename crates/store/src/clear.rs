//! A store of another version is emptied, to be built again from the replica.

use std::fs;
use std::path::Path;

use crate::catalogue::FORMAT;
use crate::store::{CATALOGUE, SEGMENTS, StoreError};

/// Why a store is emptied, for people.
pub(crate) fn reason(reason: &StoreError) -> String {
    match reason {
        StoreError::Old { version, .. } => {
            format!("it has version {version}, this release has version {FORMAT}")
        }
        reason => reason.to_string(),
    }
}

/// Removes everything but the locks.
pub(crate) fn clear(dir: &Path) -> Result<(), StoreError> {
    let segments = dir.join(SEGMENTS);
    let files = ["", "-wal", "-shm"].map(|end| dir.join(format!("{CATALOGUE}{end}")));
    let removed = files.iter().map(|path| (path, fs::remove_file(path)));
    for (path, result) in removed.chain([(&segments, fs::remove_dir_all(&segments))]) {
        match result {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(StoreError::io(path)(error));
            }
            _ => {}
        }
    }
    Ok(())
}
