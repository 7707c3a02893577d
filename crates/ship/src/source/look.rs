//! The files of a log directory at a moment.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::Bound;
use std::path::{Path, PathBuf};

use tacho_chain::sidecar::{Entries, Meaning};
use tacho_logdir::read::content;
use tacho_logdir::read::files::{self, LogFile};

use crate::protocol::FileName;
use crate::protocol::names::Stem;

/// Tombstones.
const REMOVED: &str = "removed.chain";

/// The files of a log directory that matter to a hub.
#[derive(Debug, Default)]
pub struct Look {
    directory: PathBuf,
    /// Log files, whatever their form.
    pub logs: BTreeMap<Stem, LogFile>,
    /// Sidecars, and their length.
    pub chains: BTreeMap<Stem, u64>,
    /// Length of the tombstones.
    pub removed: Option<u64>,
}

impl Look {
    /// Looks at a directory.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn at(directory: &Path) -> io::Result<Self> {
        let mut look = Self { directory: directory.to_owned(), ..Self::default() };
        // Sidecars first: a file is removed before its sidecar, and its sidecar begun after it.
        for entry in std::fs::read_dir(directory)? {
            let entry = entry?;
            let name = entry.file_name();
            let Some(Ok(name)) = name.to_str().map(str::parse) else { continue };
            let length = match entry.metadata() {
                Ok(metadata) if metadata.is_file() => metadata.len(),
                // Reported by `tacho verify`; it is not the recorder's.
                Ok(_) => continue,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            match name {
                FileName::Lines(_) => {}
                FileName::Chain(stem) => drop(look.chains.insert(stem, length)),
                FileName::Removed => look.removed = Some(length),
            }
        }
        for file in files::list(directory)?.files {
            if let Ok(stem) = file.stem.parse() {
                look.logs.insert(stem, file);
            }
        }
        Ok(look)
    }

    /// Names of all files that have lines or a sidecar, oldest first.
    pub fn stems(&self) -> Vec<Stem> {
        let all: BTreeSet<_> = self.logs.keys().chain(self.chains.keys()).collect();
        all.into_iter().cloned().collect()
    }

    /// Whether a newer log file has lines: the recorder has left this one.
    pub fn is_left(&self, stem: &Stem) -> bool {
        let has_lines =
            |log: &LogFile| std::fs::metadata(&log.path).is_ok_and(|metadata| metadata.len() > 0);
        self.logs.range((Bound::Excluded(stem), Bound::Unbounded)).any(|(_, log)| has_lines(log))
    }

    /// Where a sidecar is, or the tombstones.
    pub fn path(&self, name: &FileName) -> PathBuf {
        self.directory.join(name.to_string())
    }

    /// Names of the log files that were removed on purpose, by what the tombstones say.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn tombstones(&self) -> io::Result<BTreeSet<Stem>> {
        let file = match content::open_in_log(&self.directory.join(REMOVED)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeSet::new()),
            file => file?,
        };
        let mut entries = Entries::new(io::BufReader::new(file));
        let mut stems = BTreeSet::new();
        while let Some(entry) = entries.next_entry()? {
            if let Some(Meaning::Tombstone(tombstone, _)) = entry.meaning
                && let Ok(FileName::Lines(stem)) = tombstone.file.parse()
            {
                stems.insert(stem);
            }
        }
        Ok(stems)
    }
}
