//! Where the durable bytes of a file end after a power failure.
//!
//! A file system may keep the length of an append whose bytes it has lost: they read as zeros. No
//! append was acknowledged before it was synced, so only the end of the file that was being
//! appended to is in question. `appending.json` beside the generations names it.

use std::collections::VecDeque;
use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use serde::{Deserialize, Serialize};
use tacho_ship::protocol::{BODY_BYTES_MAX, FileName};

use super::generation::write_json;
use super::space::sync_directory;
use crate::say::say;

const NAME: &str = "appending.json";
/// Names that are kept, so that a shipper that takes turns does not cost a write each time.
const NAMES_MAX: usize = 8;
/// No file system has smaller blocks.
const BLOCK_BYTES: u64 = 512;

/// The files that were appended to last.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Appending {
    generation: u64,
    files: VecDeque<FileName>,
}

impl Appending {
    /// Puts the name of a file to the disk before something is appended to it.
    pub fn note(&mut self, root: &Path, generation: u64, name: &FileName) -> io::Result<()> {
        if self.generation == generation && self.files.contains(name) {
            return Ok(());
        }
        let mut next = self.clone();
        if next.generation != generation {
            next = Self { generation, files: VecDeque::new() };
        }
        if next.files.len() >= NAMES_MAX {
            next.files.pop_front();
        }
        next.files.push_back(name.clone());
        write_json(root, NAME, &next)?;
        sync_directory(root)?;
        *self = next;
        Ok(())
    }

    /// Reads the names, and cuts what those files have lost.
    pub fn recover(root: &Path) -> io::Result<Self> {
        let text = match std::fs::read(root.join(NAME)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            text => text?,
        };
        let appending: Self = serde_json::from_slice(&text)?;
        for name in &appending.files {
            let path = root.join(appending.generation.to_string()).join(name.to_string());
            match cut_zeros(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                result => result?,
            }
        }
        Ok(appending)
    }
}

/// Cuts a file where zeros begin that reach the end of a block.
fn cut_zeros(path: &Path) -> io::Result<()> {
    let file = OpenOptions::new().read(true).write(true).open(path)?;
    let length = file.metadata()?.len();
    let from = length.saturating_sub(BODY_BYTES_MAX as u64);
    let mut end = vec![0; usize::try_from(length - from).unwrap_or_default()];
    file.read_exact_at(&mut end, from)?;
    if let Some(at) = lost_from(&end, from) {
        say(&format!("{}: cut from {length} to {at} bytes: the rest was lost", path.display()));
        file.set_len(at)?;
        file.sync_all()?;
    }
    Ok(())
}

/// Where the first zeros begin that reach the end of a block, or of the file.
fn lost_from(bytes: &[u8], offset: u64) -> Option<u64> {
    let mut begin = None;
    for (at, byte) in (offset..).zip(bytes) {
        if begin.is_some() && at % BLOCK_BYTES == 0 {
            return begin;
        }
        begin = if *byte == 0 { begin.or(Some(at)) } else { None };
    }
    begin
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_zeros_to_the_end_of_a_block_are_lost_bytes() {
        let text = |zeros: std::ops::Range<usize>, length: usize| {
            let mut text = vec![b'x'; length];
            text[zeros].fill(0);
            text
        };
        assert_eq!(lost_from(&text(0..0, 2000), 0), None);
        assert_eq!(lost_from(&text(500..511, 2000), 0), None);
        assert_eq!(lost_from(&text(500..512, 2000), 0), Some(500));
        assert_eq!(lost_from(&text(500..600, 2000), 0), Some(500));
        assert_eq!(lost_from(&text(1999..2000, 2000), 100), Some(2099));
        assert_eq!(lost_from(&text(0..2000, 2000), 7), Some(7));
        assert_eq!(lost_from(&[], 7), None);
    }
}
