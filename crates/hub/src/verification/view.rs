//! A generation of a replica, as the verifier sees it: files up to the offsets that are durable.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek as _, SeekFrom};
use std::path::PathBuf;

use tacho_chain::key::VerifierKey;
use tacho_chain::sidecar::{Entries, Meaning};
use tacho_chain::verify::{Directory, GrowingDirectory, Sealed};
use tacho_ship::protocol::FileName;

use super::Newest;

/// How much of a file's end is read for its last line.
const TAIL_BYTES: u64 = 1 << 20;

/// One moment of a generation.
pub struct View<'a> {
    directory: PathBuf,
    lengths: &'a BTreeMap<FileName, u64>,
}

impl<'a> View<'a> {
    pub fn new(directory: PathBuf, lengths: &'a BTreeMap<FileName, u64>) -> Self {
        Self { directory, lengths }
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

    /// The last line that is whole.
    pub fn newest_line(&self) -> io::Result<Option<Newest>> {
        let mut logs = self.lengths.keys().filter(|name| matches!(name, FileName::Lines(_)));
        let Some(name) = logs.next_back() else { return Ok(None) };
        let from = self.lengths[name].saturating_sub(TAIL_BYTES);
        let mut tail = Vec::new();
        self.open_from(&name.to_string(), from)?.read_to_end(&mut tail)?;
        let Some(end) = tail.iter().rposition(|&byte| byte == b'\n') else { return Ok(None) };
        let begin = tail[..end].iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        Ok(Newest::of(&tail[begin..end]))
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

impl Directory for View<'_> {
    fn names(&self) -> io::Result<Vec<String>> {
        Ok(self.lengths.keys().map(ToString::to_string).collect())
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn Read + '_>> {
        self.open_from(name, 0)
    }
}

impl GrowingDirectory for View<'_> {
    fn length(&self, name: &str) -> u64 {
        let name = name.parse::<FileName>().ok();
        name.and_then(|name| self.lengths.get(&name).copied()).unwrap_or(0)
    }

    fn open_from(&self, name: &str, offset: u64) -> io::Result<Box<dyn Read + '_>> {
        let length = self.length(name);
        if length == 0 {
            // With a number of the operating system: not a fault of the content.
            return Err(io::Error::from(rustix::io::Errno::NOENT));
        }
        let mut file = File::open(self.directory.join(name))?;
        file.seek(SeekFrom::Start(offset))?;
        Ok(Box::new(file.take(length.saturating_sub(offset))))
    }
}
