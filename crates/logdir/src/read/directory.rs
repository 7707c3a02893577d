//! A log directory on a disk, for verification.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tacho_chain::SIDECAR_ENDING;
use tacho_chain::entry::is_stem;
use tacho_chain::verify::Directory;

use super::content;
use super::identities::Identities;
use crate::form::Form;

/// [`LOOKS_MAX`] of these are much longer than a recorder needs from a file to its sidecar.
const BATCH_TIME: Duration = Duration::from_millis(50);
const LOOKS_MAX: u32 = 20;

/// The files of a log directory, all untrusted: links are not followed.
pub struct RealDirectory {
    path: PathBuf,
    identities: Identities,
}

impl RealDirectory {
    /// # Errors
    /// It is not a directory, or cannot be read.
    pub fn new(path: &Path, identities: Identities) -> io::Result<RealDirectory> {
        std::fs::read_dir(path)?;
        Ok(RealDirectory { path: path.to_owned(), identities })
    }

    /// Bytes of all log files, to show progress. Files whose length is unknown do not count.
    pub fn total_bytes(&self) -> u64 {
        let Ok(entries) = std::fs::read_dir(&self.path) else { return 0 };
        let is_log = |name: &str| {
            name.split_once('.').is_some_and(|(_, ending)| Form::of_ending(ending).is_some())
        };
        entries
            .filter_map(Result::ok)
            .filter(|entry| entry.file_name().to_str().is_some_and(is_log))
            .filter_map(|entry| Some(entry.metadata().ok()?.len()))
            .sum()
    }

    /// Names of all sidecars, oldest first.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn sidecars(&self) -> io::Result<Vec<String>> {
        let is_sidecar = |name: &String| {
            let stem = name.strip_suffix(SIDECAR_ENDING).and_then(|name| name.strip_suffix('.'));
            stem.is_some_and(is_stem)
        };
        let mut names: Vec<String> = self.names()?.into_iter().filter(is_sidecar).collect();
        names.sort();
        Ok(names)
    }
}

impl Directory for RealDirectory {
    fn names(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&self.path)? {
            // A name that is not UTF-8 is not a name of the log, and its lossy form must not look
            // like one.
            names.push(entry?.file_name().to_string_lossy().into_owned());
        }
        Ok(names)
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn Read + '_>> {
        let path = self.path.join(name);
        let file = content::open_in_log(&path)?;
        content::unpack_file(file, content::form_of(&path), &self.identities)
    }

    fn look_again(&self, looks: u32) -> bool {
        if looks == 0 {
            return true;
        }
        let is_at_work = looks < LOOKS_MAX && crate::is_locked(&self.path) == Some(true);
        if is_at_work {
            std::thread::sleep(BATCH_TIME);
        }
        is_at_work
    }
}
