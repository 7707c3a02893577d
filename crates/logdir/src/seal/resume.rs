//! The position where the keys of a key file continue.

use std::io;
use std::path::Path;

use tacho_chain::chain::Position;
use tacho_chain::key_file::{self, Begun, KeyFile};

use super::bury::Removed;
use super::scan::{Scan, read_private, scan, scan_within};
use super::sidecar::{Sidecar, write_all};
use super::sidecar_name;
use crate::error::{At, FileError, FileErrorKind};
use crate::fs::{Fs, FsFile, OpenMode};
use crate::name::FileName;
use crate::sync::sync_tail;

pub(super) fn is_sidecar(name: &str) -> bool {
    FileName::parse(name).is_some_and(|(_, ending)| ending == tacho_chain::SIDECAR_ENDING)
}

pub(super) fn read_key<F: Fs>(fs: &F, path: &Path) -> Result<Option<KeyFile>, FileError> {
    match fs.stat(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        stat => {
            let stat = stat.at("look at", path)?;
            // A second name might outlive the replacement of the file, and files created by SQL
            // have permissions for others.
            if !stat.is_file || stat.links != 1 || stat.mode & 0o077 != 0 {
                return Err(FileError::of_kind(FileErrorKind::KeyNotSecret, "use", path));
            }
        }
    }
    let Some(text) = read_private(fs, path, key_file::BYTES_MAX)? else { return Ok(None) };
    let key = KeyFile::parse(&text)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
        .at("use", path)?;
    Ok(Some(key))
}

/// Where a chain continues.
pub(super) struct ResumedChain<F: Fs> {
    pub(super) position: Position,
    pub(super) sidecar: Sidecar<F>,
    /// The bytes still to be appended to the sidecar; the position is after them.
    pub(super) out: Vec<u8>,
    /// How much of the log file was on the device when the keys were written, bytes.
    pub(super) log_synced_bytes: u64,
}

/// Finds the position where the keys of a key file continue. `None`: the directory lacks entries
/// that the key file knows, or has more than the key file knows.
pub(super) fn resume<F: Fs>(
    fs: &F,
    dir: &Path,
    key: &KeyFile,
    begun: &Begun,
    names: &[String],
) -> Result<Option<ResumedChain<F>>, FileError> {
    let Some(note) = key.note.as_deref() else { return Ok(None) };
    let name = sidecar_name(&begun.file);
    for later in names.iter().filter(|other| is_sidecar(other) && **other > name) {
        let path = dir.join(later);
        if fs.stat(&path).at("look at", &path)?.bytes > 0 {
            return Ok(None);
        }
    }
    let path = dir.join(name);
    let log_path = dir.join(&begun.file);
    let log_bytes = match fs.stat(&log_path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        stat => Some(stat.at("look at", &log_path)?.bytes),
    };
    let after = || Position {
        file: begun.file.clone(),
        offset: begun.offset,
        seq: begun.seq,
        hash: begun.chain.after(note.as_bytes()),
    };
    let limit = log_bytes.unwrap_or(u64::MAX);
    let (position, whole_bytes, synced_bytes, is_noted) =
        match scan_within(fs, &path, &begun.file, Some(note), limit)? {
            Some(Scan { is_damaged: true, .. } | Scan { has_later_note: true, .. }) => {
                return Ok(None);
            }
            // Unsigned frames of lines that a power failure removed from the log are removed from
            // the sidecar, too.
            Some(Scan { has_note: true, fitting: (position, bytes), note_start, .. }) => {
                (position, bytes, note_start, true)
            }
            Some(Scan { position: Position { offset, seq, hash, .. }, whole_bytes, .. })
                if !begun.is_epoch
                    && (hash, offset, seq) == (begun.chain, begun.offset, begun.seq) =>
            {
                (after(), whole_bytes, whole_bytes, false)
            }
            // The log file exists before its epoch.
            None if begun.is_epoch && log_bytes.is_some() => (after(), 0, 0, false),
            _ => return Ok(None),
        };
    if !complete(fs, dir, key)? && !is_noted {
        return Ok(None);
    }
    let sidecar = Sidecar::reopen(fs, path, whole_bytes, synced_bytes)?;
    let out = if is_noted { Vec::new() } else { note.as_bytes().to_vec() };
    Ok(Some(ResumedChain { position, sidecar, out, log_synced_bytes: begun.offset }))
}

/// Appends the last checkpoint of the previous file, if it is missing. `false`: it is missing, and
/// there is no place for it.
fn complete<F: Fs>(fs: &F, dir: &Path, key: &KeyFile) -> Result<bool, FileError> {
    let (Some(closing), Some(closed)) = (&key.closing, key.closed()) else { return Ok(true) };
    let path = dir.join(sidecar_name(&closed.file));
    let Some(scan) = scan(fs, &path, &closed.file, Some(closing))? else {
        // Already removed by retention, which happens after the last checkpoint, not before.
        return Ok(Removed::read(fs, dir)?.has(&closed.file));
    };
    let Position { offset, seq, hash, .. } = scan.position;
    let is_place = (hash, offset, seq) == (closed.chain, closed.offset, closed.seq);
    if scan.is_damaged || !(scan.has_note || is_place) {
        return Ok(false);
    }
    let mut file = fs.open(&path, OpenMode::Append).at("open", &path)?;
    let mut synced_bytes = scan.note_start;
    if !scan.has_note {
        synced_bytes = scan.whole_bytes;
        if file.stat().at("look at", &path)?.bytes > scan.whole_bytes {
            file.set_len(scan.whole_bytes).at("truncate", &path)?;
        }
        write_all(&mut file, closing.as_bytes()).at("append to", &path)?;
    }
    // The key file will soon drop it; and the previous writer may have died after a failed sync.
    sync_tail(&file, &path, synced_bytes, &mut true)?;
    Ok(true)
}
