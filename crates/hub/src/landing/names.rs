//! Names in the directory of an origin: its generations, and the files of each. Blocks.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use tacho_ship::protocol::FileName;

/// Begins the names of what is not complete yet. No file of a log begins like this.
pub const UNFINISHED: &str = ".unfinished-";

/// Removes what a generation that could not begin has left: its links to files of the former one.
pub fn remove_unfinished(root: &Path) -> io::Result<()> {
    for name in names_in(root)?.into_iter().filter(|name| name.starts_with(UNFINISHED)) {
        let path = root.join(name);
        if path.symlink_metadata()?.is_dir() {
            std::fs::remove_dir_all(path)?;
        } else {
            std::fs::remove_file(path)?;
        }
    }
    Ok(())
}

/// The generations of an origin, oldest first.
pub fn generations(root: &Path) -> io::Result<Vec<u64>> {
    let names = names_in(root)?;
    let number = |name: String| name.parse::<u64>().ok().filter(|n| n.to_string() == name);
    let mut generations: Vec<u64> = names.into_iter().filter_map(number).collect();
    generations.sort_unstable();
    Ok(generations)
}

/// The files of a generation and their lengths.
pub fn files(directory: &Path) -> io::Result<BTreeMap<FileName, u64>> {
    let mut files = BTreeMap::new();
    for name in names_in(directory)? {
        if name.starts_with(UNFINISHED) {
            std::fs::remove_file(directory.join(name))?;
        } else if let Ok(file) = name.parse::<FileName>() {
            let metadata = directory.join(name).symlink_metadata()?;
            if metadata.is_file() {
                files.insert(file, metadata.len());
            }
        }
    }
    Ok(files)
}

fn names_in(directory: &Path) -> io::Result<Vec<String>> {
    let entries = match std::fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    entries
        .filter_map(|entry| entry.map(|entry| entry.file_name().into_string().ok()).transpose())
        .collect()
}
