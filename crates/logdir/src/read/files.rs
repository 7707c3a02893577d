//! The input of a reader, and its log files.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

use super::content::{Links, form_of, not_plain};
use super::request::Sink;
use crate::form::Form;

/// The path that stands for standard input.
pub const STDIN: &str = "-";

/// What is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// All log files of a directory.
    Directory(PathBuf),
    /// One file of any name.
    File(PathBuf),
    /// Something that can only be read once: stdin (`-`) or a pipe.
    Stream(PathBuf),
}

impl Input {
    /// Classifies a path.
    ///
    /// # Errors
    /// It does not exist, or must not be read.
    pub fn of(path: &Path) -> io::Result<Self> {
        let kind = std::fs::metadata(path)?.file_type();
        let path = path.to_owned();
        Ok(if kind.is_dir() {
            Self::Directory(path)
        } else if kind.is_file() {
            Self::File(path)
        } else {
            Self::Stream(path)
        })
    }
}

/// A log file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LogFile {
    /// Its name, `audit-<YYYYMMDDTHHMMSSZ>-<number>.jsonl` without the ending. Names sort by age.
    pub stem: String,
    /// Its form: any form except the plain one can only be read from the start.
    pub form: Form,
    /// Its path.
    pub path: PathBuf,
    /// When it was begun, in whole seconds, from its name; `None` for a file given by the user.
    pub begun: Option<Timestamp>,
}

impl LogFile {
    /// A file that the user named; its name need not be that of a log file.
    pub fn named(path: &Path) -> Self {
        Self { stem: String::new(), path: path.to_owned(), begun: None, form: form_of(path) }
    }

    /// Whether links are followed to it: only if the user named it.
    pub fn links(&self) -> Links {
        if self.begun.is_none() { Links::Follow } else { Links::Refuse }
    }

    /// A directory entry; `None` if it is not a log file in JSON lines.
    fn in_directory(directory: &Path, name: &OsStr) -> Option<Self> {
        let name = name.to_str()?;
        let (stem, ending) = name.split_once('.')?;
        let form = Form::of_ending(ending)?;
        // Exactly the names that `tacho verify` knows: no line is shown that it would skip.
        if !tacho_chain::entry::is_stem(stem) {
            return None;
        }
        let (time, _) = stem.strip_prefix("audit-")?.split_once('-')?;
        let begun = DateTime::strptime("%Y%m%dT%H%M%SZ", time).ok()?;
        Some(Self {
            stem: stem.to_owned(),
            path: directory.join(name),
            begun: Some(begun.to_zoned(TimeZone::UTC).ok()?.timestamp()),
            form,
        })
    }
}

/// The entries of a log directory.
#[derive(Debug, Default)]
pub struct Listing {
    /// The log files, oldest first.
    pub files: Vec<LogFile>,
    /// Entries that have the name of a log file but are not regular files, and what they are.
    refused: Vec<(PathBuf, &'static str)>,
}

impl Listing {
    /// Reports each entry that is not a regular file, once.
    pub(super) fn report<S: Sink>(&self, reported: &mut BTreeSet<PathBuf>, sink: &mut S) {
        for (path, reason) in &self.refused {
            if reported.insert(path.clone()) {
                sink.problem(path, reason);
            }
        }
    }
}

/// The log files of a directory. While a file is being packed both of its forms exist; the first
/// one is used.
///
/// An entry that is made while a directory is read may be missing although a newer one is there
/// (readdir(3)). A reader that follows the log would never return to it, so the directory is read
/// twice: whatever is as old as the newest file of the first reading is complete in the second one.
///
/// # Errors
/// The directory cannot be read.
pub fn list(directory: &Path) -> io::Result<Listing> {
    let mut listing = read(directory)?;
    if let Some(newest) = listing.files.iter().map(|file| &file.stem).max().cloned() {
        let again = read(directory)?;
        listing.files.extend(again.files.into_iter().filter(|file| file.stem <= newest));
        listing.refused.extend(again.refused);
    }
    listing.files.sort();
    listing.files.dedup_by(|later, earlier| later.stem == earlier.stem);
    listing.refused.sort();
    listing.refused.dedup();
    Ok(listing)
}

/// One reading, in any order.
fn read(directory: &Path) -> io::Result<Listing> {
    let mut listing = Listing::default();
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        let Some(file) = LogFile::in_directory(directory, &entry.file_name()) else { continue };
        match entry.file_type() {
            Ok(kind) => match not_plain(kind) {
                Some(reason) => listing.refused.push((file.path, reason)),
                None => listing.files.push(file),
            },
            // Packed or removed since its name was read.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(listing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_sort_by_age_and_foreign_files_are_skipped() {
        let directory = tempfile::tempdir().unwrap();
        for name in [
            "audit-20261121T100000Z-000002.jsonl",
            "audit-20261121T100000Z-000001.jsonl",
            "audit-20251121T100000Z-000009.jsonl.zst",
            "audit-20261121T100000Z-000001.jsonl.zst",
            "audit-20251121T100000Z-000009.jsonl.zst.age",
            "audit-20251121T100000Z-000009.jsonl.age",
            "audit-20251121T100000Z-000009.jsonl.zst.age.new",
            "audit-20261121T100000Z-000001.csv",
            "audit-20261121T100000Z-000001.jsonl.chain",
            "audit-20261121T100000Z-01.jsonl",
            "audit-20261121T100000Z-0000003.jsonl",
            "audit-20261321T100000Z-000001.jsonl",
            "audit.log",
        ] {
            std::fs::write(directory.path().join(name), "").unwrap();
        }
        let files = list(directory.path()).unwrap().files;
        let names: Vec<_> =
            files.iter().map(|f| f.path.file_name().unwrap().to_str().unwrap()).collect();
        assert_eq!(
            names,
            [
                "audit-20251121T100000Z-000009.jsonl.zst",
                "audit-20261121T100000Z-000001.jsonl",
                "audit-20261121T100000Z-000002.jsonl",
            ]
        );
        assert!(files[0].form == Form::Compressed && files[1].form == Form::Plain);
        assert_eq!(files[1].begun.unwrap().to_string(), "2026-11-21T10:00:00Z");
    }
}
