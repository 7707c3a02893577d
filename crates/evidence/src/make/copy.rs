//! The files of one generation as they are at one moment. They may grow meanwhile.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Take};
use std::path::{Path, PathBuf};

use tacho_chain::{HUB_REMOVED_FILE, REMOVED_FILE};
use tacho_ship::protocol::{FileName, Stem};

use super::MakeError;
use crate::record::LINE_BYTES_MAX;

/// Files of tombstones.
const LISTS: [&str; 2] = [REMOVED_FILE, HUB_REMOVED_FILE];

/// Names and lengths.
#[derive(Default)]
pub(super) struct Copy {
    pub(super) directory: PathBuf,
    pub(super) files: BTreeMap<Stem, Lengths>,
    /// Tombstones of the recorder, and of the hub: the name of the list and its length.
    pub(super) lists: Vec<(&'static str, u64)>,
}

/// Lengths of the parts of a log file, bytes; none: it is not there.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Lengths {
    pub(super) lines: Option<u64>,
    pub(super) chain: Option<u64>,
}

impl Copy {
    /// Lists a directory; one that is missing has no files.
    pub(super) fn read(directory: &Path) -> Result<Self, MakeError> {
        let error = |source| MakeError::Read { path: directory.to_owned(), source };
        let mut copy = Self { directory: directory.to_owned(), ..Self::default() };
        let entries = match std::fs::read_dir(directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(copy),
            entries => entries.map_err(error)?,
        };
        for entry in entries {
            let entry = entry.map_err(error)?;
            let name = entry.file_name();
            let Some(text) = name.to_str() else { continue };
            if let Some(list) = LISTS.into_iter().find(|list| *list == text) {
                copy.lists.push((list, entry.metadata().map_err(error)?.len()));
                continue;
            }
            let Ok(name) = text.parse::<FileName>() else { continue };
            let length = entry.metadata().map_err(error)?.len();
            match name {
                FileName::Lines(stem) => copy.files.entry(stem).or_default().lines = Some(length),
                FileName::Chain(stem) => copy.files.entry(stem).or_default().chain = Some(length),
                FileName::Removed => {}
            }
        }
        Ok(copy)
    }

    /// A file from its start up to a length.
    pub(super) fn open(
        &self,
        name: &dyn Display,
        bytes: u64,
    ) -> Result<BufReader<Take<File>>, MakeError> {
        let path = self.directory.join(name.to_string());
        let file = File::open(&path).map_err(|source| MakeError::Read { path, source })?;
        Ok(BufReader::new(file.take(bytes)))
    }

    pub(super) fn error(&self, name: &dyn Display, source: io::Error) -> MakeError {
        MakeError::Read { path: self.directory.join(name.to_string()), source }
    }
}

/// Lines of a log file.
pub(super) struct Lines {
    path: PathBuf,
    file: BufReader<File>,
    line: Vec<u8>,
}

impl Lines {
    pub(super) fn open(directory: &Path, name: &FileName) -> Result<Self, MakeError> {
        let path = directory.join(name.to_string());
        match File::open(&path) {
            Ok(file) => Ok(Self { path, file: BufReader::new(file), line: Vec::new() }),
            Err(source) => Err(MakeError::Read { path, source }),
        }
    }

    /// The line that begins at an offset, with its newline.
    pub(super) fn line(&mut self, offset: u64) -> Result<&[u8], MakeError> {
        let error = |source| MakeError::Read { path: self.path.clone(), source };
        // Short ways forward stay in the buffer.
        let at = self.file.stream_position().map_err(error)?;
        let way = i128::from(offset) - i128::from(at);
        match i64::try_from(way) {
            Ok(way) => self.file.seek_relative(way).map_err(error)?,
            Err(_) => drop(self.file.seek(SeekFrom::Start(offset)).map_err(error)?),
        }
        self.line.clear();
        let mut rest = self.file.by_ref().take(LINE_BYTES_MAX);
        rest.read_until(b'\n', &mut self.line).map_err(error)?;
        if self.line.last() != Some(&b'\n') {
            return Err(MakeError::Line { path: self.path.clone(), offset });
        }
        Ok(&self.line)
    }
}
