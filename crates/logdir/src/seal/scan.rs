//! The end of a sidecar: where a starting recorder continues.

use std::io::{self, BufReader, Read};
use std::path::Path;

use tacho_chain::chain::{Gone, Position};
use tacho_chain::entry::{CheckpointReason, FRAME_HEAD};
use tacho_chain::hash::Hash;
use tacho_chain::sidecar::{Entries, Meaning};

use crate::error::{At, FileError};
use crate::fs::{Fs, FsFile, OpenMode};

/// Reads a file from a position on.
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
    /// Position and length before the first unsigned frame that exceeds the log file.
    pub(super) fitting: (Position, u64),
    /// The note that was searched for exists.
    pub(super) has_note: bool,
    /// Its position, bytes.
    pub(super) note_start: u64,
    /// A later note exists.
    pub(super) has_later_note: bool,
    /// An entry is malformed.
    pub(super) is_damaged: bool,
    /// `seq` before its first line.
    pub(super) seq_before: u64,
    /// The epoch at its beginning.
    pub(super) epoch: Vec<u8>,
    /// Its last entry is the checkpoint for the end of the file, which covers all its lines.
    pub(super) is_closed: bool,
}

impl Scan {
    /// Content of a tombstone for the file.
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

/// Reads the sidecar of a log file, and searches for a note. `None`: there is none, or it is empty.
pub(super) fn scan<F: Fs>(
    fs: &F,
    path: &Path,
    log: &str,
    note: Option<&str>,
) -> Result<Option<Scan>, FileError> {
    scan_within(fs, path, log, note, u64::MAX)
}

/// `seq` of the last line of a closed file, according to its sidecar; `None`: unknown. It is as
/// trustworthy as the line itself, because a process that can change one can change the other.
pub(crate) fn sealed_seq<F: Fs>(fs: &F, dir: &Path, log: &str) -> Result<Option<u64>, FileError> {
    let scan = scan(fs, &dir.join(super::sidecar_name(log)), log, None)?;
    let scan = scan.filter(|scan| scan.is_closed && !scan.is_damaged);
    Ok(scan.map(|scan| scan.position.seq))
}

/// As [`scan`], for a log file of this length.
pub(super) fn scan_within<F: Fs>(
    fs: &F,
    path: &Path,
    log: &str,
    note: Option<&str>,
    log_bytes: u64,
) -> Result<Option<Scan>, FileError> {
    let position = Position { file: log.to_owned(), offset: 0, seq: 0, hash: Hash::ZERO };
    let mut scan = Scan {
        fitting: (position.clone(), 0),
        position,
        whole_bytes: 0,
        has_note: false,
        note_start: 0,
        has_later_note: false,
        is_damaged: false,
        seq_before: 0,
        epoch: Vec::new(),
        is_closed: false,
    };
    match fs.stat(path) {
        Ok(stat) if stat.is_file => {}
        Ok(_) => {
            scan.is_damaged = true;
            return Ok(Some(scan));
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(FileError::new("look at", path, error)),
    }
    let file = match fs.open(path, OpenMode::Read) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file.at("open", path)?,
    };
    let mut entries = Entries::new(BufReader::new(ReadAt { file: &file, offset: 0 }));
    let mut fits = true;
    while let Some(entry) = entries.next_entry().at("read", path)? {
        let is_first = scan.epoch.is_empty();
        scan.is_closed = false;
        let Position { offset, seq, hash, .. } = &mut scan.position;
        match entry.meaning {
            Some(Meaning::Epoch(epoch, _)) if is_first => {
                scan.is_damaged |= epoch.file != log;
                (*hash, *seq, scan.seq_before) = (epoch.chain, epoch.seq, epoch.seq);
                scan.epoch.clone_from(&entry.bytes);
            }
            Some(Meaning::Frame(frame)) if !is_first => {
                (*offset, *seq) = (frame.end, frame.last_seq);
                fits &= frame.end <= log_bytes;
            }
            Some(Meaning::Checkpoint(checkpoint, _)) if !is_first => {
                fits = true;
                scan.is_closed = checkpoint.reason == CheckpointReason::Rotate;
            }
            _ => {
                scan.is_damaged = true;
                return Ok(Some(scan));
            }
        }
        let is_note = !entry.bytes.starts_with(FRAME_HEAD.as_bytes());
        scan.has_later_note |= scan.has_note && is_note;
        if note.is_some_and(|note| note.as_bytes() == entry.bytes) {
            scan.has_note = true;
            scan.note_start = scan.whole_bytes;
        }
        *hash = hash.after(&entry.bytes);
        scan.whole_bytes = entries.whole_bytes();
        if fits {
            scan.fitting = (scan.position.clone(), scan.whole_bytes);
        }
    }
    Ok((scan.whole_bytes > 0).then_some(scan))
}

/// Reads a small private text file. `None`: it does not exist. A file that is too long is
/// truncated, and thus malformed.
pub(super) fn read_private<F: Fs>(
    fs: &F,
    path: &Path,
    bytes_max: usize,
) -> Result<Option<zeroize::Zeroizing<String>>, FileError> {
    let file = match fs.open(path, OpenMode::Private) {
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
