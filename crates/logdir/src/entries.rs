//! The files of a log that hold its lines, by age.

use std::path::Path;

use super::error::{At, FileError};
use super::form::Form;
use super::fs::Fs;
use super::name::FileName;

/// A file of the log: its name and its form.
pub(crate) type Entry = (FileName, Form);

/// The files of the log, oldest first: all files with a name of the recorder and an ending for
/// lines. Sidecars have other endings.
pub(crate) fn list<F: Fs>(fs: &F, dir: &Path) -> Result<Vec<Entry>, FileError> {
    Ok(of_names(&fs.list(dir).at("list", dir)?))
}

/// As [`list`], from the names in a directory.
pub(crate) fn of_names(names: &[String]) -> Vec<Entry> {
    let mut entries: Vec<Entry> = names
        .iter()
        .filter_map(|entry| FileName::parse(entry))
        .filter_map(|(name, ending)| Some((name, Form::of_ending(ending)?)))
        .filter(|(_, form)| Form::ALL.contains(form))
        .collect();
    // While a file is being packed both forms exist; the trusted one sorts last.
    entries.sort_by(|a, b| a.0.cmp(&b.0).then(b.1.cmp(&a.1)));
    entries
}
