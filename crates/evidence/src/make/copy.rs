//! The files of one generation as they are at one moment. They may grow meanwhile.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Take};
use std::path::{Path, PathBuf};

use tacho_chain::{HUB_REMOVED_FILE, REMOVED_FILE};
use tacho_replica::{ENDING, Reader, ReplicaFile};
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
        Self::list(directory, true)
    }

    /// The same without lengths of lines, for which compressed files have to be opened.
    pub(super) fn sidecars(directory: &Path) -> Result<Self, MakeError> {
        Self::list(directory, false)
    }

    fn list(directory: &Path, has_lines: bool) -> Result<Self, MakeError> {
        let error = |source| MakeError::Read { path: directory.to_owned(), source };
        let mut copy = Self { directory: directory.to_owned(), ..Self::default() };
        let names = match tacho_replica::names(directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(copy),
            names => names.map_err(error)?,
        };
        for text in names {
            let length = || std::fs::metadata(directory.join(&text)).map(|file| file.len());
            if let Some(list) = LISTS.into_iter().find(|list| *list == text) {
                copy.lists.push((list, length().map_err(error)?));
                continue;
            }
            // Its form may be another one by now, and both forms may be listed.
            match text.strip_suffix(ENDING).unwrap_or(&text).parse::<FileName>() {
                Ok(FileName::Lines(stem)) if has_lines => {
                    let name = FileName::Lines(stem.clone());
                    if let Some(length) = copy.lines(&name)? {
                        copy.files.entry(stem).or_default().lines = Some(length);
                    }
                }
                Ok(FileName::Chain(stem)) if !text.ends_with(ENDING) => {
                    let length = length().map_err(error)?;
                    copy.files.entry(stem).or_default().chain = Some(length);
                }
                _ => {}
            }
        }
        Ok(copy)
    }

    /// Length of the lines of a log file. None: it was removed meanwhile. A damaged one has none
    /// that can be shown.
    fn lines(&self, name: &FileName) -> Result<Option<u64>, MakeError> {
        match tacho_replica::length(&self.directory.join(name.to_string())) {
            Ok(length) => Ok(Some(length)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => Ok(Some(0)),
            Err(error) => Err(self.error(name, error)),
        }
    }

    /// A sidecar or a list from its start up to a length.
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
    file: BufReader<Reader<ReplicaFile>>,
    line: Vec<u8>,
}

impl Lines {
    pub(super) fn open(directory: &Path, name: &FileName) -> Result<Self, MakeError> {
        let path = directory.join(name.to_string());
        match ReplicaFile::open(&path) {
            Ok(file) => {
                let file = BufReader::new(file.into_reader(0));
                Ok(Self { path, file, line: Vec::new() })
            }
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
