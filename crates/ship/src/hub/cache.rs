//! The file that stores which log files the hub has completely (`--state`).
//!
//! It is a cache: without it, the shipper finds that out again, which takes the time to unpack all
//! compressed files of a log without a seal. An entry counts only if the hub has exactly as much as
//! when it was written.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::protocol::names::Stem;
use crate::small_file;

/// Largest file that is read, bytes. A log file needs 60.
const BYTES_MAX: u64 = 16 << 20;

/// Lines and sidecar of a file that is complete at the hub: bytes.
pub type Lengths = (u64, u64);

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Content {
    v: u32,
    hub: String,
    generation: u64,
    complete: BTreeMap<Stem, Lengths>,
}

/// The file, and what was written last.
pub struct Cache {
    path: PathBuf,
    hub: String,
    saved: Option<Content>,
}

impl Cache {
    /// `hub` names the hub and the origin: a file of another one has no entries.
    pub fn open(path: &Path, hub: String) -> Self {
        let bytes = small_file::read(path, BYTES_MAX).unwrap_or_default();
        let saved: Option<Content> = serde_json::from_slice(&bytes).ok();
        let saved = saved.filter(|content| content.v == 1 && content.hub == hub);
        Self { path: path.to_owned(), hub, saved }
    }

    /// The complete files of a generation.
    pub fn complete(&self, generation: u64) -> BTreeMap<Stem, Lengths> {
        let saved = self.saved.as_ref().filter(|saved| saved.generation == generation);
        saved.map(|saved| saved.complete.clone()).unwrap_or_default()
    }

    /// Writes the file if something has changed.
    ///
    /// # Errors
    /// When it cannot be written. The shipper does not need it.
    pub fn save(&mut self, generation: u64, complete: BTreeMap<Stem, Lengths>) -> io::Result<()> {
        let content = Content { v: 1, hub: self.hub.clone(), generation, complete };
        if self.saved.as_ref() == Some(&content) {
            return Ok(());
        }
        let mut new = self.path.as_os_str().to_owned();
        new.push(".new");
        let mut file = File::create(&new)?;
        file.write_all(&serde_json::to_vec(&content)?)?;
        file.write_all(b"\n")?;
        std::fs::rename(&new, &self.path)?;
        self.saved = Some(content);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_another_hub_or_generation_has_no_entries() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("state");
        let stem: Stem = "audit-20261121T100000Z-000001".parse().unwrap();
        let complete = BTreeMap::from([(stem, (7, 9))]);
        let mut cache = Cache::open(&path, "https://hub db1".to_owned());
        assert_eq!(cache.complete(1), BTreeMap::new());
        cache.save(1, complete.clone()).unwrap();
        for (hub, generation, expected) in [
            ("https://hub db1", 1, complete),
            ("https://hub db1", 2, BTreeMap::new()),
            ("https://hub db2", 1, BTreeMap::new()),
        ] {
            assert_eq!(Cache::open(&path, hub.to_owned()).complete(generation), expected);
        }
        std::fs::write(&path, "damaged").unwrap();
        assert_eq!(Cache::open(&path, "https://hub db1".to_owned()).complete(1), BTreeMap::new());
    }
}
