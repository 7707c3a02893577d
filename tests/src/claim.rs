//! The directory of a run, for one run at a time.

use std::fs::{self, File};
use std::path::Path;

use anyhow::{Context as _, Result, bail, ensure};
use rustix::fs::{FlockOperation, flock};

/// Empties the directory and keeps a second run out of it, until the result is dropped. A directory
/// that is not empty must have `part`, which each run makes first.
///
/// # Errors
/// Another run uses it, or it is not the directory of an earlier run.
pub fn claim(directory: &Path, part: &str) -> Result<File> {
    let parent = directory.parent().context("the root directory cannot be used for a run")?;
    fs::create_dir_all(parent)?;
    let lock_path = directory.with_extension("lock");
    let lock = File::create(&lock_path).with_context(|| format!("{}", lock_path.display()))?;
    if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
        bail!("another run uses {}", directory.display());
    }
    if directory.exists() {
        // Only files of an earlier run are removed.
        let is_empty = fs::read_dir(directory)?.next().is_none();
        ensure!(
            is_empty || directory.join(part).is_dir(),
            "{} is not the directory of an earlier run",
            directory.display()
        );
        fs::remove_dir_all(directory)?;
    }
    fs::create_dir(directory)?;
    Ok(lock)
}
