//! Tombstones: `removed.chain` lists files that were removed on purpose.

use std::collections::HashSet;
use std::io::{self, BufReader};
use std::path::Path;

use tacho_chain::entry::RemovalReason;
use tacho_chain::sidecar::{Entries, Meaning};

use super::scan::{ReadAt, scan};
use super::sidecar::write_all;
use super::{Sealer, sidecar_name};
use crate::error::{At, FileError};
use crate::fs::{Fs, FsFile, OpenMode};
use crate::sync::sync_tail;

/// The content of `removed.chain`, as of the last read: it is read again if its length has changed.
#[derive(Default)]
pub(crate) struct Removed {
    /// Length up to the end of the last tombstone.
    bytes: u64,
    /// The last tombstone, as it stands there.
    last: Option<Vec<u8>>,
    /// The log files that have one.
    files: HashSet<String>,
}

impl Removed {
    /// Whether a log file has a tombstone.
    pub(crate) fn has(&self, log: &str) -> bool {
        self.files.contains(log)
    }

    /// Reads the file of a directory, if there is one.
    pub(crate) fn read<F: Fs>(fs: &F, dir: &Path) -> Result<Removed, FileError> {
        let path = dir.join(tacho_chain::REMOVED_FILE);
        match fs.open(&path, OpenMode::Read) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Removed::default()),
            file => Removed::of(&file.at("open", &path)?).at("read", &path),
        }
    }

    fn of<L: FsFile>(file: &L) -> io::Result<Removed> {
        let mut entries = Entries::new(BufReader::new(ReadAt { file, offset: 0 }));
        let mut removed = Removed::default();
        while let Some(entry) = entries.next_entry()? {
            if let Some(Meaning::Tombstone(tombstone, _)) = entry.meaning {
                removed.files.insert(tombstone.file);
                removed.last = Some(entry.bytes);
                removed.bytes = entries.whole_bytes();
            }
        }
        Ok(removed)
    }
}

impl<F: Fs> Sealer<F> {
    /// Whether the sidecar of a log file is complete, and no start needs the log file again.
    pub(crate) fn has_left(&self, log: &str) -> bool {
        // A start continues in the file that the chain is in.
        let is_before = |file: &str| log < file;
        is_before(&self.chain.position().file)
            && self.files.iter().all(|waiting| is_before(&waiting.file))
    }

    /// Records in `removed.chain` that a closed file is about to be removed, unless it is already
    /// recorded, and waits until that is on the device (except for the name of a new
    /// `removed.chain`). Nothing is recorded for a file without a sidecar, which was never sealed.
    pub(crate) fn bury(
        &mut self,
        fs: &F,
        removed: &mut Removed,
        log: &str,
        reason: RemovalReason,
    ) -> Result<(), FileError> {
        let path = self.dir.join(sidecar_name(log));
        let Some(scan) = scan(fs, &path, log, None)? else { return Ok(()) };
        let removed_path = self.dir.join(tacho_chain::REMOVED_FILE);
        let mut file = match fs.open(&removed_path, OpenMode::AppendNew) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                fs.open(&removed_path, OpenMode::Append).at("open", &removed_path)?
            }
            file => file.at("create", &removed_path)?,
        };
        let length = file.stat().at("look at", &removed_path)?.bytes;
        if length != removed.bytes || length == 0 {
            *removed = Removed::of(&file).at("read", &removed_path)?;
        }
        if removed.has(log) {
            // Written by a recorder that died before it removed the file, and perhaps before the
            // sync; or by this one, and the sync failed: another sync would report success without
            // writing.
            return sync_tail(&file, &removed_path, 0, &mut true);
        }
        if length > removed.bytes {
            // The recorder died before this entry was complete: the file was not removed.
            file.set_len(removed.bytes).at("truncate", &removed_path)?;
        }
        if let Some(last) = &removed.last {
            self.chain.set_last_tombstone(last);
        }
        let note = self.chain.tombstone(&scan.gone(), reason, fs.now_s());
        let mut bytes = scan.epoch.clone();
        bytes.extend(note.as_bytes());
        write_all(&mut file, &bytes).at("append to", &removed_path)?;
        file.sync_data().at("sync", &removed_path)?;
        removed.bytes += bytes.len() as u64;
        removed.last = Some(note.into_bytes());
        removed.files.insert(log.to_owned());
        Ok(())
    }
}
