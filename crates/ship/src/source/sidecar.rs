//! Whole entries of a sidecar, and the lines that they cover.

use std::io::{self, BufReader, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use tacho_chain::entry::{Checkpoint, CheckpointReason};
use tacho_chain::sidecar::{Entries, Meaning};
use tacho_logdir::read::content;

use crate::protocol::BEFORE_BYTES;

/// Longest run of entries that is read at once, bytes.
const ENTRIES_BYTES_MAX: usize = 1 << 20;
/// More than a checkpoint has.
const CHECKPOINT_BYTES_MAX: u64 = 4096;

/// Some entries.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// The bytes in front of them.
    pub before: Vec<u8>,
    /// Whole entries.
    pub bytes: Vec<u8>,
    /// Where the last frame among them ends in the log file.
    pub covered: u64,
    /// The last of them says that nothing follows.
    pub is_end: bool,
}

/// Whole entries from `from` on, until they cover the lines up to `wanted`.
///
/// # Errors
/// When it cannot be read.
pub fn read(path: &Path, from: u64, wanted: u64) -> io::Result<Part> {
    let mut file = content::open_in_log(path)?;
    let mut part = Part { before: before(&file, from)?, ..Part::default() };
    file.seek(SeekFrom::Start(from))?;
    let mut entries = Entries::new(BufReader::new(file.take(2 * ENTRIES_BYTES_MAX as u64)));
    while let Some(entry) = entries.next_entry()? {
        part.bytes.extend_from_slice(&entry.bytes);
        part.is_end = false;
        match entry.meaning {
            Some(Meaning::Frame(frame)) => part.covered = part.covered.max(frame.end),
            Some(Meaning::Checkpoint(checkpoint, _)) => {
                part.is_end = checkpoint.reason == CheckpointReason::Rotate;
            }
            _ => {}
        }
        if part.covered >= wanted || part.bytes.len() >= ENTRIES_BYTES_MAX {
            break;
        }
    }
    Ok(part)
}

/// The bytes before `offset`, as many as `Tacho-Before` covers.
///
/// # Errors
/// When they cannot be read, or the file ends before `offset` (`UnexpectedEof`).
pub fn before(file: &std::fs::File, offset: u64) -> io::Result<Vec<u8>> {
    let count = offset.min(BEFORE_BYTES);
    let mut bytes = vec![0; usize::try_from(count).unwrap_or_default()];
    file.read_exact_at(&mut bytes, offset - count)?;
    Ok(bytes)
}

/// If the sidecar of `length` bytes ends with a `rotate` checkpoint: the end of its log file.
///
/// # Errors
/// When it cannot be read.
pub fn end_of_file(path: &Path, length: u64) -> io::Result<Option<u64>> {
    let file = content::open_in_log(path)?;
    let count = length.min(CHECKPOINT_BYTES_MAX);
    let mut bytes = vec![0; usize::try_from(count).unwrap_or_default()];
    file.read_exact_at(&mut bytes, length - count)?;
    // Of a note that ends with its signature: the text before the last blank line.
    let text = String::from_utf8_lossy(&bytes);
    let Some((text, _)) = text.rsplit_once("\n\n") else { return Ok(None) };
    let start = text.rfind("\ntachograph/").map_or(0, |newline| newline + 1);
    let checkpoint = Checkpoint::parse(&format!("{}\n", &text[start..])).ok();
    let last = checkpoint.filter(|checkpoint| checkpoint.reason == CheckpointReason::Rotate);
    Ok(last.map(|checkpoint| checkpoint.offset))
}
