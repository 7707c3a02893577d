//! Copies directories and files that others append to.

use std::collections::HashMap;
use std::fs::{File, FileTimes, Metadata, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use tacho_chain::HUB_REMOVED_FILE;
use tacho_replica::ENDINGS;

use super::Copied;
use crate::data::{DataError, make_directory};

/// Bytes between two reports of the progress.
const CHUNK_BYTES: u64 = 32 << 20;
/// Ends the name of a log file.
const LINES_ENDING: &str = ".jsonl";

/// Copies, and counts.
pub struct Copier<'p> {
    copied: Copied,
    progress: &'p mut dyn FnMut(u64),
    /// Files with several names: generations of a log share files.
    links: HashMap<Id, PathBuf>,
}

/// Device, inode and time of the last change of the content: a file that is removed meanwhile
/// leaves its inode to another one.
type Id = (u64, u64, i64, i64);

fn id(metadata: &Metadata) -> Id {
    (metadata.dev(), metadata.ino(), metadata.mtime(), metadata.mtime_nsec())
}

fn error(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> DataError {
    let path = path.to_owned();
    move |source| DataError::Io { what, path, source }
}

/// Locks, states of processes, and what is not complete yet: a hub makes them again.
fn is_left_out(name: &str) -> bool {
    name.starts_with('.')
}

/// Names of the entries to copy. Sidecars are first: the lines that a sidecar seals are then never
/// missing in the copy. Tombstones of the hub are last: every file that is removed meanwhile has
/// one in the copy. None if there is no such directory.
fn names(directory: &Path) -> Result<Vec<String>, DataError> {
    let names = match tacho_replica::names(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        names => names.map_err(error("read", directory))?,
    };
    let mut names: Vec<String> = names.into_iter().filter(|name| !is_left_out(name)).collect();
    names.sort_by_key(|name| (name == HUB_REMOVED_FILE, !name.ends_with(".chain")));
    Ok(names)
}

/// The other forms of a log file; none of another file.
fn other_forms(name: &str) -> Vec<String> {
    let plain = ENDINGS.iter().find_map(|ending| name.strip_suffix(ending)).unwrap_or(name);
    if !plain.ends_with(LINES_ENDING) {
        return Vec::new();
    }
    let packed = ENDINGS.map(|ending| format!("{plain}{ending}"));
    [plain.to_owned()].into_iter().chain(packed).filter(|form| form != name).collect()
}

/// Bytes of all files of a directory and of those in it. A file with several names counts once for
/// each.
///
/// # Errors
/// A directory cannot be read.
pub fn size(directory: &Path) -> Result<u64, DataError> {
    let mut bytes = 0;
    for name in names(directory)? {
        let path = directory.join(name);
        match std::fs::symlink_metadata(&path) {
            Ok(metadata) if metadata.is_dir() => bytes += size(&path)?,
            Ok(metadata) => bytes += metadata.len(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(source) => return Err(error("look at", &path)(source)),
        }
    }
    Ok(bytes)
}

/// Puts everything of the file system that a directory is on to the disk.
///
/// # Errors
/// As syncfs(2).
pub fn sync(directory: &Path) -> io::Result<()> {
    Ok(rustix::fs::syncfs(File::open(directory)?)?)
}

impl<'p> Copier<'p> {
    /// `progress` gets the bytes that are copied.
    pub fn new(progress: &'p mut dyn FnMut(u64)) -> Self {
        Self { copied: Copied::default(), progress, links: HashMap::new() }
    }

    /// What was copied.
    #[must_use]
    pub fn copied(&self) -> Copied {
        self.copied
    }

    /// Copies a directory with all that is in it. Files that disappear meanwhile are left out.
    ///
    /// # Errors
    /// Something cannot be read or written.
    pub fn directory(&mut self, from: &Path, to: &Path) -> Result<(), DataError> {
        make_directory(to)?;
        let names = names(from)?;
        for name in &names {
            if self.entry(&from.join(name), &to.join(name))? {
                continue;
            }
            // The hub may have compressed it.
            for other in other_forms(name).into_iter().filter(|other| !names.contains(other)) {
                self.entry(&from.join(&other), &to.join(&other))?;
            }
        }
        Ok(())
    }

    /// Copies what is in a directory. `false`: it is not there any more.
    fn entry(&mut self, from: &Path, to: &Path) -> Result<bool, DataError> {
        match std::fs::symlink_metadata(from) {
            Ok(metadata) if metadata.is_dir() => self.directory(from, to).map(|()| true),
            Ok(metadata) if metadata.is_file() => self.file(from, to),
            // A hub makes no other entries.
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(source) => Err(error("look at", from)(source)),
        }
    }

    /// Copies a file as long as it is now. `false`: it is not there.
    ///
    /// # Errors
    /// It cannot be read or written.
    pub fn file(&mut self, from: &Path, to: &Path) -> Result<bool, DataError> {
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed());
        let source = match options.open(from) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            source => source.map_err(error("open", from))?,
        };
        let metadata = source.metadata().map_err(error("look at", from))?;
        let is_shared = metadata.nlink() > 1;
        if let Some(first) = self.links.get(&id(&metadata)).filter(|_| is_shared) {
            std::fs::hard_link(first, to).map_err(error("make", to))?;
            return Ok(true);
        }
        let mut target = create(to, metadata.mode())?;
        let mut left = metadata.len();
        while left > 0 {
            let part = (&source).take(left.min(CHUNK_BYTES));
            let bytes = io::copy(&mut { part }, &mut target).map_err(error("copy", from))?;
            if bytes == 0 {
                break;
            }
            left -= bytes;
            self.copied.bytes += bytes;
            (self.progress)(self.copied.bytes);
        }
        let modified = metadata.modified().map_err(error("look at", from))?;
        let times = FileTimes::new().set_modified(modified);
        target.set_times(times).map_err(error("set the times of", to))?;
        self.copied.files += 1;
        if is_shared {
            self.links.insert(id(&metadata), to.to_owned());
        }
        Ok(true)
    }

    /// Writes a secret.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn secret(&mut self, to: &Path, text: &[u8]) -> Result<(), DataError> {
        create(to, 0o600)?.write_all(text).map_err(error("write", to))?;
        self.copied.files += 1;
        self.copied.bytes += text.len() as u64;
        Ok(())
    }
}

fn create(path: &Path, mode: u32) -> Result<File, DataError> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(mode & 0o777);
    options.open(path).map_err(error("make", path))
}

#[cfg(test)]
mod tests {
    use tacho_replica::ENDING;

    use super::*;

    #[test]
    fn files_keep_their_bytes_links_and_modes() {
        let root = tempfile::tempdir().unwrap();
        let (from, to) = (root.path().join("from"), root.path().join("to"));
        std::fs::create_dir_all(from.join("1")).unwrap();
        std::fs::create_dir_all(from.join("2")).unwrap();
        std::fs::write(from.join("1/a.jsonl"), "lines").unwrap();
        std::fs::hard_link(from.join("1/a.jsonl"), from.join("2/a.jsonl")).unwrap();
        std::fs::write(from.join(".lock"), "1").unwrap();
        std::fs::write(from.join("empty"), "").unwrap();
        let mut seen = 0;
        let mut progress = |bytes| seen = bytes;
        let mut copier = Copier::new(&mut progress);
        copier.directory(&from, &to).unwrap();
        let copied = copier.copied();
        assert_eq!((copied.files, copied.bytes), (2, 5));
        assert_eq!(seen, 5);
        let inode = |name: &str| std::fs::metadata(to.join(name)).unwrap().ino();
        assert_eq!(inode("1/a.jsonl"), inode("2/a.jsonl"));
        assert_eq!(std::fs::read_to_string(to.join("2/a.jsonl")).unwrap(), "lines");
        assert!(to.join("empty").exists() && !to.join(".lock").exists());
        assert_eq!(std::fs::metadata(&to).unwrap().mode() & 0o777, 0o700);
        assert_eq!(size(&from).unwrap(), 10);
    }

    /// A hub compresses files while they are copied.
    #[test]
    fn a_file_is_copied_in_the_form_that_is_there() {
        let root = tempfile::tempdir().unwrap();
        let (from, to) = (root.path().join("from"), root.path().join("to"));
        const FILES: usize = 300;
        let plain = |at: usize| from.join(format!("{at}.jsonl"));
        std::fs::create_dir(&from).unwrap();
        for at in 0..FILES {
            std::fs::write(plain(at), format!("{at}")).unwrap();
        }
        let mut progress = |_| {};
        let mut copier = Copier::new(&mut progress);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for at in (0..FILES).rev() {
                    std::fs::write(from.join(format!("{at}.jsonl{ENDING}")), "packed").unwrap();
                    std::fs::remove_file(plain(at)).unwrap();
                }
            });
            copier.directory(&from, &to).unwrap();
        });
        for at in 0..FILES {
            let [plain, packed] = ["", ENDING]
                .map(|ending| std::fs::read_to_string(to.join(format!("{at}.jsonl{ending}"))).ok());
            assert!(plain.is_none_or(|text| text == at.to_string()));
            assert!(packed.as_deref().is_none_or(|text| text.is_empty() || text == "packed"));
            let is_there = |ending: &str| to.join(format!("{at}.jsonl{ending}")).exists();
            assert!(is_there("") || is_there(ENDING), "{at}");
        }
    }

    #[test]
    fn sidecars_come_before_their_lines() {
        let root = tempfile::tempdir().unwrap();
        for name in ["hub-removed.chain", "a.jsonl", "a.chain", "b.jsonl", "b.chain"] {
            std::fs::write(root.path().join(name), "").unwrap();
        }
        let names = names(root.path()).unwrap();
        assert!(names[..2].iter().all(|name| name.ends_with(".chain")), "{names:?}");
        assert_eq!(names[4], "hub-removed.chain");
    }

    /// The file system gives the inode of a file that was removed to the next one.
    #[test]
    fn a_new_file_in_the_place_of_a_removed_one_has_its_own_bytes() {
        let root = tempfile::tempdir().unwrap();
        let path = |name: &str| root.path().join(name);
        for name in ["removed", "new", "new-and-shared"] {
            std::fs::write(path(name), name).unwrap();
        }
        std::fs::hard_link(path("new-and-shared"), path("link")).unwrap();
        let mut progress = |_| {};
        let mut copier = Copier::new(&mut progress);
        copier.file(&path("removed"), &path("copy")).unwrap();
        for name in ["new", "new-and-shared"] {
            let (dev, ino, mtime, nsec) = id(&path(name).metadata().unwrap());
            let earlier = if name == "new" { mtime } else { mtime - 1 };
            copier.links.insert((dev, ino, earlier, nsec), path("copy"));
            let copy = path(&format!("copy of {name}"));
            copier.file(&path(name), &copy).unwrap();
            assert_eq!(std::fs::read_to_string(copy).unwrap(), name);
        }
    }
}
