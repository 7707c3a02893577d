//! A generation of a replica, as the verifier sees it: files up to the offsets that are durable.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek as _, SeekFrom};
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;

use tacho_chain::HUB_REMOVED_FILE;
use tacho_chain::key::VerifierKey;
use tacho_chain::sidecar::{Entries, Meaning};
use tacho_chain::verify::{Directory, GrowingDirectory, Sealed};
use tacho_ship::protocol::FileName;

use super::Newest;

/// How much of a line is read for its number and time.
const HEAD_BYTES: usize = 256;
/// How far back the beginning of a line is looked for: longer than any line of a recorder.
const LINE_BYTES_MAX: u64 = 64 << 20;
const BUFFER_BYTES: usize = 64 << 10;

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

    /// The last line that is whole.
    pub fn newest_line(&self) -> io::Result<Option<Newest>> {
        let mut logs = self.lengths.keys().filter(|name| matches!(name, FileName::Lines(_)));
        let Some(name) = logs.next_back() else { return Ok(None) };
        let file = File::open(self.directory.join(name.to_string()))?;
        let newline = |before| newline_before(&file, before);
        let Some(end) = newline(self.lengths[name])? else { return Ok(None) };
        let begin = newline(end)?.map_or(0, |at| at + 1);
        let mut head = vec![0; usize::try_from(end - begin).unwrap_or(HEAD_BYTES).min(HEAD_BYTES)];
        file.read_exact_at(&mut head, begin)?;
        Ok(Newest::of(&head))
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

/// The offset of the last newline before another offset.
fn newline_before(file: &File, before: u64) -> io::Result<Option<u64>> {
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut end = before;
    while end > 0 && before - end < LINE_BYTES_MAX {
        let begin = end.saturating_sub(BUFFER_BYTES as u64);
        let part = &mut buffer[..usize::try_from(end - begin).unwrap_or_default()];
        file.read_exact_at(part, begin)?;
        if let Some(at) = part.iter().rposition(|&byte| byte == b'\n') {
            return Ok(Some(begin + at as u64));
        }
        end = begin;
    }
    Ok(None)
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
        let mut file = File::open(self.directory.join(name))?;
        file.seek(SeekFrom::Start(offset))?;
        Ok(Box::new(file.take(length.saturating_sub(offset))))
    }

    fn news(&self) -> io::Result<Vec<String>> {
        let chains = self.news.iter().filter_map(|name| name.parse().ok());
        let empty = chains.filter_map(|name| self.empty_file_of(&name));
        Ok(self.news.iter().cloned().chain(empty.map(|name| name.to_string())).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_line_may_be_long() {
        let directory = tempfile::tempdir().unwrap();
        let name = "audit-20261121T100000Z-000001.jsonl";
        let line = |seq: u64, bytes: usize| {
            let text = "é".repeat(bytes / 2);
            format!("{{\"v\":1,\"seq\":{seq},\"ts\":\"2026\",\"sql\":\"{text}\"}}\n")
        };
        let text = line(1, 0) + &line(2, 3 << 20) + "{\"v\":1,\"seq\":3,\"ts\":\"2";
        std::fs::write(directory.path().join(name), &text).unwrap();
        let lengths = BTreeMap::from([(name.parse().unwrap(), text.len() as u64)]);
        let view = View::new(directory.path().to_owned(), &lengths, &[]);
        assert_eq!(view.newest_line().unwrap().map(|newest| newest.seq), Some(2));
    }
}
