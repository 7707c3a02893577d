//! Where the log is: which place to read, and which files in it.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use tacho_recorder::files::Form;

use super::TailError;
use crate::content::form_of;

/// The environment variable that names the log directory.
const VARIABLE: &str = "TACHO_LOG_DIR";

/// Where a server with Debian's data directory writes by default.
const DEFAULT_DIRECTORY: &str = "/var/lib/mysql/tacho";

/// The argument that stands for standard input.
pub const STDIN: &str = "-";

/// What is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// All log files of a directory.
    Directory(PathBuf),
    /// One file of any name.
    File(PathBuf),
    /// Something that can only be read once: stdin (`-`) or a pipe.
    Stream(PathBuf),
}

impl Place {
    /// Finds the place: what was given, else the environment, else the default.
    ///
    /// # Errors
    /// When it is not there or may not be looked at.
    pub fn find(given: Option<&Path>) -> Result<Self, TailError> {
        let variable = std::env::var_os(VARIABLE).filter(|value| !value.is_empty());
        let (path, source) = match (given, &variable) {
            (Some(path), _) if path == Path::new(STDIN) => {
                return Ok(Self::Stream(path.to_owned()));
            }
            (Some(path), _) => (path, ""),
            (None, Some(value)) => (Path::new(value), " (from TACHO_LOG_DIR)"),
            (None, None) => (
                Path::new(DEFAULT_DIRECTORY),
                " (the default; give another as argument or in TACHO_LOG_DIR)",
            ),
        };
        let metadata = std::fs::metadata(path).map_err(|error| TailError::Place {
            path: path.to_owned(),
            source_of_path: source,
            error,
        })?;
        let path = path.to_owned();
        Ok(if metadata.is_dir() {
            Self::Directory(path)
        } else if metadata.is_file() {
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
    /// In what form it is: any but the plain one can only be read from its start.
    pub form: Form,
    /// Where it is.
    pub path: PathBuf,
    /// When it was begun, to the second, from its name; `None` for a file given by the user.
    pub begun: Option<Timestamp>,
}

impl LogFile {
    /// A file that the user named; its name need not be that of a log file.
    pub fn named(path: &Path) -> Self {
        Self { stem: String::new(), path: path.to_owned(), begun: None, form: form_of(path) }
    }

    /// A directory entry; `None` if it is not a log file in JSON lines.
    fn in_directory(directory: &Path, name: &OsStr) -> Option<Self> {
        let name = name.to_str()?;
        let (stem, ending) = name.split_once('.')?;
        let form = Form::of_ending(ending)?;
        let (time, number) = stem.strip_prefix("audit-")?.split_once('-')?;
        if number.len() < 6 || !number.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let begun = DateTime::strptime("%Y%m%dT%H%M%SZ", time).ok()?;
        Some(Self {
            stem: stem.to_owned(),
            path: directory.join(name),
            begun: Some(begun.to_zoned(TimeZone::UTC).ok()?.timestamp()),
            form,
        })
    }
}

/// The log files of a directory, oldest first. While a file is being packed both of its forms are
/// there; the first is taken.
///
/// # Errors
/// When the directory cannot be read.
pub fn list(directory: &Path) -> io::Result<Vec<LogFile>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        files.extend(LogFile::in_directory(directory, &entry?.file_name()));
    }
    files.sort();
    files.dedup_by(|later, earlier| later.stem == earlier.stem);
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_sort_by_age_and_strangers_are_passed_over() {
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
            "audit-20261321T100000Z-000001.jsonl",
            "audit.log",
        ] {
            std::fs::write(directory.path().join(name), "").unwrap();
        }
        let files = list(directory.path()).unwrap();
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
