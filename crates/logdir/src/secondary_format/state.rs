//! `.renditions` in the log directory: the state from which all unfinished renditions can be made.
//!
//! ```text
//! csv audit-20261122T034926Z-000042        the oldest file without a complete rendition
//! csv audit-20261122T035510Z-000043        further files, in order
//! json audit-20261122T040102Z-000044       this and later ones have none
//! {"v":1,"seq":7,…,"outcome":"running",…}  held events when the first of them began
//! ```
//!
//! It is replaced as a whole, so it is always consistent.

use std::collections::VecDeque;
use std::io;
use std::path::Path;

use tacho_format::Format;

use super::super::ending::SECONDARY_LIST;
use super::super::error::{At as _, FileError};
use super::super::fs::{Fs, FsFile as _, OpenMode};
use super::super::lines::read_exact_at;
use super::super::name::FileName;

/// The words for formats.
const WORDS: [(&str, Option<Format>); 5] = [
    ("json", None),
    ("csv", Some(Format::Csv)),
    ("percona_json", Some(Format::PerconaJson)),
    ("percona_new", Some(Format::PerconaNew)),
    ("percona_old", Some(Format::PerconaOld)),
];

/// Larger than any list that is written, bytes: held events have 64 MiB at most, and six times as
/// much if all of it must be escaped.
const BYTES_MAX: u64 = 512 << 20;

/// The list, see the module documentation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PendingFiles {
    /// Files without a complete rendition, and its format, oldest first.
    pub pending: VecDeque<(FileName, Option<Format>)>,
    /// Lines of statements that were running when the first of them began.
    pub(super) held: Vec<u8>,
}

impl PendingFiles {
    /// Reads the list. Skips lines that the recorder cannot have written.
    pub(crate) fn read<F: Fs>(fs: &F, dir: &Path) -> Result<PendingFiles, FileError> {
        let path = dir.join(SECONDARY_LIST);
        let file = match fs.open(&path, OpenMode::Private) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(PendingFiles::default());
            }
            file => file.at("open", &path)?,
        };
        let stat = file.stat().at("look at", &path)?;
        if !stat.is_file || stat.bytes > BYTES_MAX {
            let error = io::Error::new(io::ErrorKind::InvalidData, "not a file of the recorder");
            return Err(FileError::new("read", &path, error));
        }
        let mut text = Vec::new();
        let bytes = stat.bytes as usize;
        text.try_reserve_exact(bytes).map_err(io::Error::other).at("read", &path)?;
        text.resize(bytes, 0);
        read_exact_at(&file, &mut text, 0).at("read", &path)?;
        let mut state = PendingFiles::default();
        for line in text.split_inclusive(|byte| *byte == b'\n') {
            if line.starts_with(b"{") && line.ends_with(b"\n") {
                state.held.extend_from_slice(line);
            } else {
                state.pending.extend(parse(line));
            }
        }
        Ok(state)
    }

    /// Replaces the list.
    pub(crate) fn write<F: Fs>(&self, fs: &F, dir: &Path) -> Result<(), FileError> {
        let path = dir.join(SECONDARY_LIST);
        if self.pending.is_empty() {
            return match fs.remove(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
                removed => removed.at("remove", &path),
            };
        }
        let mut text = Vec::new();
        for (name, format) in &self.pending {
            let word = WORDS.iter().find(|(_, of)| of == format).map_or("json", |(word, _)| word);
            text.extend_from_slice(format!("{word} {name}\n").as_bytes());
        }
        text.extend_from_slice(&self.held);
        fs.replace(&path, &text, true).at("replace", &path)
    }
}

fn parse(line: &[u8]) -> Option<(FileName, Option<Format>)> {
    let line = std::str::from_utf8(line).ok()?.strip_suffix('\n')?;
    let (word, stem) = line.split_once(' ')?;
    let (_, format) = WORDS.iter().find(|(known, _)| *known == word)?;
    let (name, _) = FileName::parse(&format!("{stem}.jsonl"))?;
    Some((name, *format))
}
