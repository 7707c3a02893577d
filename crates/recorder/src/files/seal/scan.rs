//! What a sidecar ends with: where a recorder that starts goes on.

use std::io::{self, BufReader, Read};
use std::path::Path;

use tacho_chain::chain::{Gone, Position};
use tacho_chain::entry::Epoch;
use tacho_chain::hash::Hash;
use tacho_chain::sidecar::{Entries, Meaning};

use crate::files::error::{At, FileError};
use crate::files::fs::{Fs, FsFile, OpenMode};

/// Reads a file from a place on.
pub(super) struct ReadAt<'a, L> {
    pub(super) file: &'a L,
    pub(super) offset: u64,
}

impl<L: FsFile> Read for ReadAt<'_, L> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read_at(buffer, self.offset)?;
        self.offset += count as u64;
        Ok(count)
    }
}

/// The end of a sidecar.
pub(super) struct Scan {
    pub(super) position: Position,
    /// Length up to the end of the last complete entry, bytes.
    pub(super) whole_bytes: u64,
    /// The newest epoch in it.
    pub(super) epoch_note: Option<Vec<u8>>,
    /// The checkpoint that was looked for is in it.
    pub(super) has_checkpoint: bool,
    /// Something in it makes no sense.
    pub(super) is_damaged: bool,
    /// `seq` before its first line.
    pub(super) seq_before: u64,
    /// The epochs that begin in it.
    pub(super) epochs: Vec<Vec<u8>>,
}

impl Scan {
    /// What a tombstone tells of the file.
    pub(super) fn gone(&self) -> Gone {
        let Position { file, seq, hash, .. } = &self.position;
        Gone {
            file: file.clone(),
            first_seq: self.seq_before.saturating_add(1),
            last_seq: *seq,
            chain: *hash,
        }
    }
}

/// Reads the sidecar of a log file. `None`: there is none, or nothing in it.
pub(super) fn scan<F: Fs>(
    fs: &F,
    path: &Path,
    log: &str,
    checkpoint: Option<&str>,
) -> Result<Option<Scan>, FileError> {
    let file = match fs.open(path, OpenMode::Read) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file.at("open", path)?,
    };
    let mut entries = Entries::new(BufReader::new(ReadAt { file: &file, offset: 0 }));
    let position = Position { file: log.to_owned(), offset: 0, seq: 0, hash: Hash::ZERO };
    let mut scan = Scan {
        position,
        whole_bytes: 0,
        epoch_note: None,
        has_checkpoint: false,
        is_damaged: false,
        seq_before: 0,
        epochs: Vec::new(),
    };
    while let Some(entry) = entries.next_entry().at("read", path)? {
        let Position { offset, seq, hash, .. } = &mut scan.position;
        match entry.meaning {
            Some(Meaning::Epoch(epoch, _)) => {
                let Epoch { chain, .. } = *epoch;
                if scan.epoch_note.is_none() {
                    (*hash, scan.seq_before) = (chain, epoch.seq);
                }
                scan.is_damaged |= *hash != chain || epoch.file != log;
                (*offset, *seq) = (epoch.offset, epoch.seq);
                scan.epoch_note = Some(entry.bytes.clone());
                scan.epochs.push(entry.bytes.clone());
            }
            Some(Meaning::Frame(frame)) => (*offset, *seq) = (frame.end, frame.last_seq),
            Some(Meaning::Checkpoint(..)) => {
                scan.has_checkpoint |= checkpoint.is_some_and(|c| c.as_bytes() == entry.bytes);
            }
            Some(Meaning::Tombstone(..)) | None => scan.is_damaged = true,
        }
        scan.is_damaged |= scan.epoch_note.is_none();
        *hash = hash.after(&entry.bytes);
    }
    scan.whole_bytes = entries.whole_bytes();
    Ok((scan.whole_bytes > 0).then_some(scan))
}

/// Reads a small text file. `None`: it is not there. One that is too long is cut, and makes no
/// sense then.
pub(super) fn read_text<F: Fs>(
    fs: &F,
    path: &Path,
    bytes_max: usize,
) -> Result<Option<zeroize::Zeroizing<String>>, FileError> {
    let file = match fs.open(path, OpenMode::Read) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file.at("open", path)?,
    };
    let mut bytes = zeroize::Zeroizing::new(vec![0; bytes_max]);
    let mut count = 0;
    while count < bytes_max {
        match file.read_at(&mut bytes[count..], count as u64) {
            Ok(0) => break,
            Ok(more) => count += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(FileError::new("read", path, error)),
        }
    }
    let text = std::str::from_utf8(&bytes[..count]).unwrap_or("");
    Ok(Some(zeroize::Zeroizing::new(text.to_owned())))
}
