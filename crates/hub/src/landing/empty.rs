//! Empty log files. A shipper sends no file without bytes: the hub makes the log file whose sidecar
//! arrives before any line, so that the replica has the same files as the log.

use std::io;
use std::path::Path;

use tacho_chain::sidecar::{Entries, Meaning};
use tacho_ship::protocol::FileName;

use super::replica::{Replica, options};

impl Replica {
    /// Makes the empty log file of a sidecar that is new. Its name is synced with the sidecar's.
    pub(super) fn make_empty_file(&self, sidecar: &FileName, bytes: &[u8]) -> io::Result<()> {
        let Some(lines) = self.without_lines(sidecar) else { return Ok(()) };
        if has_frame(bytes)? {
            return Ok(());
        }
        match options().create_new(true).open(self.path().join(lines.to_string())) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            file => file.map(drop),
        }
    }

    /// Gives another generation the empty log files of its sidecars.
    pub(super) fn link_empty_files<'a>(
        &self,
        names: impl Iterator<Item = &'a FileName>,
        target: &Path,
    ) -> io::Result<()> {
        for lines in names.filter_map(|name| self.without_lines(name)) {
            let name = lines.to_string();
            match std::fs::hard_link(self.path().join(&name), target.join(&name)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    /// The log file of a sidecar, if no line of it has arrived.
    fn without_lines(&self, sidecar: &FileName) -> Option<FileName> {
        let FileName::Chain(stem) = sidecar else { return None };
        let lines = FileName::Lines(stem.clone());
        (self.offset(&lines) == 0).then_some(lines)
    }
}

/// Whether lines are sealed in a sidecar.
fn has_frame(sidecar: &[u8]) -> io::Result<bool> {
    let mut entries = Entries::new(sidecar);
    while let Some(entry) = entries.next_entry()? {
        if matches!(entry.meaning, Some(Meaning::Frame(_))) {
            return Ok(true);
        }
    }
    Ok(false)
}
