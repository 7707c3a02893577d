//! A generation of a replica, as the verifier sees it: files up to the offsets that are durable.

use std::collections::BTreeMap;
use std::io::{self, BufReader, Read};
use std::path::PathBuf;

use tacho_chain::HUB_REMOVED_FILE;
use tacho_chain::key::VerifierKey;
use tacho_chain::sidecar::{Entries, Meaning};
use tacho_chain::verify::{Directory, GrowingDirectory, Sealed};
use tacho_replica::ReplicaFile;
use tacho_ship::protocol::FileName;

/// One moment of a generation.
pub struct View<'a> {
    directory: PathBuf,
    lengths: &'a BTreeMap<FileName, u64>,
    news: &'a [String],
}

impl<'a> View<'a> {
    /// `news`: names of files that are longer than before.
    pub fn new(
        directory: PathBuf,
        lengths: &'a BTreeMap<FileName, u64>,
        news: &'a [String],
    ) -> Self {
        Self { directory, lengths, news }
    }

    /// The root key in the oldest sidecar.
    pub fn first_root(&self) -> io::Result<Option<VerifierKey>> {
        let chains = self.lengths.keys().filter(|name| matches!(name, FileName::Chain(_)));
        for name in chains.take(1) {
            let mut entries = Entries::new(BufReader::new(self.open(&name.to_string())?));
            if let Some(entry) = entries.next_entry()?
                && let Some(Meaning::Epoch(epoch, _)) = entry.meaning
            {
                return Ok(Some(epoch.root));
            }
        }
        Ok(None)
    }

    /// Bytes of lines behind the last frame.
    pub fn unsealed_bytes(&self, sealed: Option<&Sealed>) -> u64 {
        let bytes = |(name, length): (&FileName, &u64)| {
            let FileName::Lines(stem) = name else { return 0 };
            match sealed {
                Some(sealed) if stem.as_str() < sealed.stem.as_str() => 0,
                Some(sealed) if stem.as_str() == sealed.stem => {
                    length.saturating_sub(sealed.offset)
                }
                _ => *length,
            }
        };
        self.lengths.iter().map(bytes).sum()
    }
}

impl View<'_> {
    /// The empty log file that a sidecar belongs to: it is there, and nothing of it is to arrive.
    fn empty_file_of(&self, name: &FileName) -> Option<FileName> {
        let FileName::Chain(stem) = name else { return None };
        let lines = FileName::Lines(stem.clone());
        let is_empty = || {
            let file = std::fs::metadata(self.directory.join(lines.to_string()));
            file.is_ok_and(|file| file.len() == 0)
        };
        (!self.lengths.contains_key(&lines) && is_empty()).then_some(lines)
    }
}

impl Directory for View<'_> {
    fn names(&self) -> io::Result<Vec<String>> {
        let empty = self.lengths.keys().filter_map(|name| self.empty_file_of(name));
        let names = self.lengths.keys().cloned().chain(empty).map(|name| name.to_string());
        let tombstones = (self.length(HUB_REMOVED_FILE) > 0).then(|| HUB_REMOVED_FILE.to_owned());
        Ok(names.chain(tombstones).collect())
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn Read + '_>> {
        self.open_from(name, 0)
    }
}

impl GrowingDirectory for View<'_> {
    fn length(&self, name: &str) -> u64 {
        // It is the hub's own, and does not land.
        if name == HUB_REMOVED_FILE {
            return std::fs::metadata(self.directory.join(name)).map_or(0, |file| file.len());
        }
        let name = name.parse::<FileName>().ok();
        name.and_then(|name| self.lengths.get(&name).copied()).unwrap_or(0)
    }

    fn open_from(&self, name: &str, offset: u64) -> io::Result<Box<dyn Read + '_>> {
        let length = self.length(name);
        if length == 0 {
            if let Ok(FileName::Lines(stem)) = name.parse()
                && self.lengths.contains_key(&FileName::Chain(stem.clone()))
                && self.empty_file_of(&FileName::Chain(stem)).is_some()
            {
                return Ok(Box::new(io::empty()));
            }
            // With a number of the operating system: not a fault of the content.
            return Err(io::Error::from(rustix::io::Errno::NOENT));
        }
        let file = ReplicaFile::open(&self.directory.join(name))?.into_reader(offset);
        Ok(Box::new(file.take(length.saturating_sub(offset))))
    }

    fn news(&self) -> io::Result<Vec<String>> {
        let chains = self.news.iter().filter_map(|name| name.parse().ok());
        let empty = chains.filter_map(|name| self.empty_file_of(&name));
        Ok(self.news.iter().cloned().chain(empty.map(|name| name.to_string())).collect())
    }
}
