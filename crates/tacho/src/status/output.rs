//! The destination of the result.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// A file that other users may read: the node exporter of Prometheus has its own user.
const MODE: u32 = 0o644;

/// Replaces a file as a whole: a reader finds the old or the new content, never a part.
///
/// # Errors
/// The file cannot be written. It is unchanged then.
pub fn replace(path: &Path, text: &str) -> io::Result<()> {
    let new = new_name(path)?;
    let written = write(&new, text).and_then(|()| std::fs::rename(&new, path));
    if written.is_err() {
        // The first error is the one that matters. Without a new file there is nothing to remove.
        let _ = std::fs::remove_file(&new);
    }
    written
}

/// In the same directory. The textfile collector reads only names that end in `.prom`.
fn new_name(path: &Path) -> io::Result<PathBuf> {
    let name = path.file_name().ok_or(io::ErrorKind::IsADirectory)?;
    let mut new = name.to_owned();
    new.push(format!(".{}.new", std::process::id()));
    Ok(path.with_file_name(new))
}

fn write(new: &Path, text: &str) -> io::Result<()> {
    // A process with this number that died in the middle may have left it.
    match std::fs::remove_file(new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut options = OpenOptions::new();
    let mut file: File = options.write(true).create_new(true).mode(MODE).open(new)?;
    file.write_all(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_file_is_replaced_and_nothing_is_left() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("tacho.prom");
        replace(&path, "one\n").unwrap();
        let open = File::open(&path).unwrap();
        replace(&path, "two\n").unwrap();
        assert_eq!(io::read_to_string(open).unwrap(), "one\n", "a reader has the old one");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "two\n");
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o444, 0o444);

        std::fs::create_dir(directory.path().join("taken")).unwrap();
        assert!(replace(&directory.path().join("taken"), "x").is_err());
        assert!(replace(Path::new("/"), "x").is_err());
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 2);
    }
}
