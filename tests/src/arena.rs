//! The few words of a living arena that a test reads, or changes as an operator would.
//!
//! Offsets are those of `docs/specs/arena.md`; no code of the product is used.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::client::{self, Conn};

const WAITERS_AT: u64 = 4096 + 128 + 4;
const OVERFLOW_AT: u64 = 4096 + 384 + 4;

/// An arena of a running server, found by its status variable, or of a capture.
#[derive(Debug)]
pub struct Arena {
    path: PathBuf,
    file: File,
}

impl Arena {
    /// Opens the arena that the server names.
    ///
    /// # Errors
    /// It names none, or the file cannot be opened.
    pub fn of(conn: &mut Conn) -> Result<Self> {
        // Each `_` is any character: one of MySQL 9.7 is a point.
        let values = client::status(conn, "Tacho_arena_file")?;
        let path = values.values().next().context("no Tacho_arena_file")?;
        Self::open(Path::new(path))
    }

    /// Opens the only arena in a directory.
    ///
    /// # Errors
    /// There is none, or it cannot be opened.
    pub fn only_one_in(directory: &Path) -> Result<Self> {
        let mut paths = Vec::new();
        for entry in fs::read_dir(directory)? {
            let path = entry?.path();
            if path.extension().is_some_and(|ending| ending == "arena") {
                paths.push(path);
            }
        }
        let [path] = &paths[..] else { bail!("not one arena: {paths:?}") };
        Self::open(path)
    }

    fn open(path: &Path) -> Result<Self> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(path)
            .with_context(|| format!("opening the arena {}", path.display()))?;
        Ok(Self { path: path.to_owned(), file })
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How many server threads wait for a free chunk at this moment.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn waiters(&self) -> Result<u32> {
        let mut word = [0; 4];
        self.file.read_exact_at(&mut word, WAITERS_AT)?;
        Ok(u32::from_le_bytes(word))
    }

    /// Changes the overflow policy from outside: 0 BLOCK, 1 TIMEOUT, 2 DROP.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn set_overflow(&self, policy: u32) -> Result<()> {
        Ok(self.file.write_all_at(&policy.to_le_bytes(), OVERFLOW_AT)?)
    }
}
