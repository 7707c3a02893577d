//! Names in the directory of an origin: its generations, and the files of each. Blocks.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io;
use std::path::Path;

use tacho_replica::{ENDINGS, compressed_paths};
use tacho_ship::protocol::FileName;

use crate::say::say;

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

/// The files of a generation and their lengths. Of a log file that is compressed it is the length
/// of its lines.
pub fn files(directory: &Path) -> io::Result<BTreeMap<FileName, u64>> {
    let mut files = BTreeMap::new();
    let mut compressed = Vec::new();
    for name in names_in(directory)? {
        if name.starts_with(UNFINISHED) {
            std::fs::remove_file(directory.join(name))?;
        } else if let Ok(file) = name.parse::<FileName>() {
            let metadata = directory.join(name).symlink_metadata()?;
            if metadata.is_file() {
                files.insert(file, metadata.len());
            }
        } else if let Some((file, rank)) = compressed_file(&name) {
            compressed.push((rank, file, name));
        }
    }
    compressed.sort_by_key(|(rank, ..)| *rank);
    for (_, file, name) in compressed {
        // Both forms are there after a crash, or if they contradict each other: readers take the
        // plain one.
        if let Entry::Vacant(entry) = files.entry(file) {
            entry.insert(compressed_length(&directory.join(name))?);
        }
    }
    Ok(files)
}

/// The log file that a name is a compressed form of, and which one.
pub(super) fn compressed_file(name: &str) -> Option<(FileName, usize)> {
    let plain = |(rank, ending): (usize, &&str)| Some((name.strip_suffix(*ending)?, rank));
    let (plain, rank) = ENDINGS.iter().enumerate().find_map(plain)?;
    let file = plain.parse().ok().filter(|file| matches!(file, FileName::Lines(_)))?;
    Some((file, rank))
}

/// A damaged file has no bytes: the verification reports the log file as missing, and a shipper
/// that still has it sends it again.
fn compressed_length(path: &Path) -> io::Result<u64> {
    match tacho_replica::compressed_length(path) {
        Err(error) if error.kind() == io::ErrorKind::InvalidData => Ok(0),
        length => length,
    }
}

/// Gives another directory a link to a file, in the form in which it is there.
pub fn link(from: &Path, to: &Path, name: &FileName) -> io::Result<()> {
    let [from, to] = [from, to].map(|directory| directory.join(name.to_string()));
    let mut linked = std::fs::hard_link(&from, &to);
    for (from, to) in compressed_paths(&from).iter().zip(compressed_paths(&to)) {
        match linked {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                linked = std::fs::hard_link(from, to);
            }
            _ => break,
        }
    }
    linked
}

/// Removes a file in all of its forms.
pub fn remove(directory: &Path, name: &FileName) -> io::Result<()> {
    let path = directory.join(name.to_string());
    let [columns, former] = &compressed_paths(&path);
    let removed = [&path, columns, former].map(|path| {
        let text = |error| format!("cannot remove {}: {error}", path.display());
        remove_if_there(path).map_err(|error| io::Error::new(error.kind(), text(error)))
    });
    removed.into_iter().collect()
}

/// Removes a file that may not be there.
pub fn remove_if_there(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// A file that is not needed any more, and cannot be removed, is no reason to stop.
pub(super) fn remove_or_say(path: &Path, why: &str) {
    if let Err(error) = remove_if_there(path) {
        say(&format!("cannot remove {} ({why}): {error}", path.display()));
    }
}

pub(super) fn names_in(directory: &Path) -> io::Result<Vec<String>> {
    let entries = match std::fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    entries
        .filter_map(|entry| entry.map(|entry| entry.file_name().into_string().ok()).transpose())
        .collect()
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use tacho_replica::{columns, compressed_path};

    use super::*;

    const NAME: &str = "audit-20261121T100000Z-000001.jsonl";

    #[test]
    fn a_compressed_file_has_the_length_of_its_lines() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(NAME);
        let name: FileName = NAME.parse().unwrap();
        let length = || files(directory.path()).unwrap().get(&name).copied();
        assert_eq!(length(), None);
        let file = File::create(compressed_path(&path)).unwrap();
        let mut writer = columns::Writer::new(&file).unwrap();
        writer.part(b"one\ntwo\n").unwrap();
        writer.finish().unwrap();
        assert_eq!(length(), Some(8));
        std::fs::write(&path, "one\n").unwrap();
        assert_eq!(length(), Some(4), "the plain form counts");
        std::fs::remove_file(&path).unwrap();
        file.set_len(20).unwrap();
        assert_eq!(length(), Some(0), "it is damaged");
        // What a host may have in this form is no file of a replica.
        for other in ["removed.chain.zst", "audit-20261121T100000Z-000001.chain.zst"] {
            std::fs::write(directory.path().join(other), "x").unwrap();
        }
        remove(directory.path(), &name).unwrap();
        assert_eq!(files(directory.path()).unwrap(), BTreeMap::new());
    }

    #[test]
    fn a_link_is_to_the_form_that_is_there() {
        let root = tempfile::tempdir().unwrap();
        let [from, to] = ["1", "2"].map(|name| root.path().join(name));
        for directory in [&from, &to] {
            std::fs::create_dir(directory).unwrap();
        }
        let name: FileName = NAME.parse().unwrap();
        assert!(link(&from, &to, &name).is_err());
        std::fs::write(compressed_path(&from.join(NAME)), "x").unwrap();
        link(&from, &to, &name).unwrap();
        assert!(compressed_path(&to.join(NAME)).exists() && !to.join(NAME).exists());
    }
}
