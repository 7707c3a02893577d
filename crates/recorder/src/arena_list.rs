//! The file `.arenas` in the log directory: which arenas hold records of this log.
//!
//! The arena directory is a setting and may be another one at the next start. Arenas are also in
//! memory: after a restart of the machine, this list still shows that there was one.
//! `docs/specs/file.md` defines its format.
//!
//! The file has mode 0600. A list that SQL may have created is not trusted, because entries lead to
//! `lost` lines and decide which marks of an arena count.
//!
//! An arena that could not be recovered stays in the list with the number of the log's last line at
//! that time. Later lines get numbers that marks in that arena may also contain, although those
//! marks mean other lines.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use tacho_logdir::private_file::{self, Refusal};

/// Name of the list.
pub const NAME: &str = ".arenas";
const NEW_NAME: &str = ".arenas.new";

/// Longest list that is read: some hundred thousand arenas.
const LIST_BYTES_MAX: u64 = 16 << 20;

/// One entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    /// The arena.
    pub path: PathBuf,
    /// Marks beyond this line mean nothing; `None`: the limit is the last line of the log.
    pub last_seq: Option<u64>,
}

/// The same name for a file, whatever path its directory was given by.
fn canonical(path: &Path) -> PathBuf {
    let directory = path.parent().and_then(|directory| directory.canonicalize().ok());
    match (directory, path.file_name()) {
        (Some(directory), Some(name)) => directory.join(name),
        _ => path.to_owned(),
    }
}

/// The list of a log; empty if there is none.
///
/// # Errors
/// The list cannot be read, is malformed, or the recorder did not create it
/// ([`io::ErrorKind::InvalidData`]).
pub fn read(log_directory: &Path) -> io::Result<Vec<Known>> {
    read_of(log_directory, private_file::user_id())
}

/// As [`read`], of a recorder with the user `owner`.
///
/// # Errors
/// As [`read`].
pub fn read_of(log_directory: &Path, owner: u32) -> io::Result<Vec<Known>> {
    let mut bytes = Vec::new();
    match private_file::open_of(&log_directory.join(NAME), owner) {
        Ok(file) => file.take(LIST_BYTES_MAX).read_to_end(&mut bytes)?,
        Err(Refusal::Io(error)) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(Refusal::Io(error)) => return Err(error),
        Err(refusal) => return Err(io::Error::new(io::ErrorKind::InvalidData, refusal)),
    };
    let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines
        .map(|line| parse(line).ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData)))
        .collect()
}

fn parse(line: &[u8]) -> Option<Known> {
    let space = line.iter().position(|byte| *byte == b' ')?;
    let last_seq = match &line[..space] {
        b"-" => None,
        digits => Some(str::from_utf8(digits).ok()?.parse().ok()?),
    };
    let path = PathBuf::from(OsString::from_vec(line[space + 1..].to_vec()));
    path.is_absolute().then_some(Known { path, last_seq })
}

/// The last line that marks in this arena can mean; `last_seq` is the last line of the log.
pub fn limit(known: &[Known], path: &Path, last_seq: u64) -> u64 {
    let path = canonical(path);
    let found = known.iter().find(|known| known.path == path);
    found.and_then(|known| known.last_seq).map_or(last_seq, |limit| limit.min(last_seq))
}

/// Whether the list has this arena.
pub fn has(known: &[Known], path: &Path) -> bool {
    let path = canonical(path);
    known.iter().any(|known| known.path == path)
}

/// Whether the arena was kept: only its marks up to a certain line count.
pub fn is_kept(known: &[Known], path: &Path) -> bool {
    let path = canonical(path);
    known.iter().any(|known| known.path == path && known.last_seq.is_some())
}

/// Adds an arena that was just created, or whose marks all count.
///
/// # Errors
/// The list cannot be read or written.
pub fn add(log_directory: &Path, path: &Path) -> io::Result<()> {
    change(log_directory, path, |entry| *entry = Some(None))
}

/// Keeps an arena that cannot be recovered now, before lines beyond `last_seq` are written.
///
/// # Errors
/// As [`add`].
pub fn keep(log_directory: &Path, path: &Path, last_seq: u64) -> io::Result<()> {
    change(log_directory, path, |entry| {
        let before = entry.flatten();
        *entry = Some(Some(before.map_or(last_seq, |limit: u64| limit.min(last_seq))));
    })
}

/// Removes an arena whose records are all in the log.
///
/// # Errors
/// As [`add`].
pub fn forget(log_directory: &Path, path: &Path) -> io::Result<()> {
    change(log_directory, path, |entry| *entry = None)
}

/// Changes one entry. The caller holds the lock of the log.
fn change(
    log_directory: &Path,
    path: &Path,
    change: impl FnOnce(&mut Option<Option<u64>>),
) -> io::Result<()> {
    let path = canonical(path);
    // Recovery already reported a malformed list; it is started anew.
    let mut list = match read(log_directory) {
        Err(error) if error.kind() == io::ErrorKind::InvalidData => Vec::new(),
        list => list?,
    };
    let before = list.clone();
    let place = list.iter().position(|known| known.path == path);
    let mut entry = place.map(|place| list.remove(place).last_seq);
    change(&mut entry);
    if let Some(last_seq) = entry {
        list.push(Known { path, last_seq });
    }
    if list == before { Ok(()) } else { write(log_directory, &list) }
}

fn write(log_directory: &Path, list: &[Known]) -> io::Result<()> {
    let path = log_directory.join(NAME);
    if list.is_empty() {
        return match std::fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        };
    }
    let mut text = Vec::new();
    for Known { path, last_seq } in list {
        let path = path.as_os_str().as_bytes();
        if path.contains(&b'\n') {
            return Err(io::Error::from(io::ErrorKind::InvalidInput));
        }
        text.extend_from_slice(last_seq.map_or("-".to_owned(), |seq| seq.to_string()).as_bytes());
        text.push(b' ');
        text.extend_from_slice(path);
        text.push(b'\n');
    }
    // Atomic and durable: the list must survive a power failure.
    let new = log_directory.join(NEW_NAME);
    match std::fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    // A process that created a file with this name could still write to it: create another file.
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
    file.write_all(&text)?;
    file.sync_all()?;
    std::fs::rename(&new, &path)?;
    File::open(log_directory)?.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn known(path: &str, last_seq: Option<u64>) -> Known {
        Known { path: PathBuf::from(path), last_seq }
    }

    #[test]
    fn a_list_that_sql_may_have_created_is_not_trusted_and_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        for mode in [0o644, 0o640] {
            for name in [NAME, NEW_NAME] {
                let planted = dir.path().join(name);
                std::fs::write(&planted, b"- /x/never\n").unwrap();
                std::fs::set_permissions(&planted, std::fs::Permissions::from_mode(mode)).unwrap();
            }
            let error = read(dir.path()).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidData);
            assert!(error.to_string().contains("was not made by Tachograph"), "{error}");
            add(dir.path(), Path::new("/x/a")).unwrap();
            assert_eq!(read(dir.path()).unwrap(), [known("/x/a", None)]);
            forget(dir.path(), Path::new("/x/a")).unwrap();
        }
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn what_was_written_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path();
        assert_eq!(read(log).unwrap(), []);
        forget(log, Path::new("/x/a")).unwrap();
        assert!(!log.join(NAME).exists());
        add(log, Path::new("/x/a b")).unwrap();
        add(log, Path::new("/x/c")).unwrap();
        assert_eq!(std::fs::read(log.join(NAME)).unwrap(), b"- /x/a b\n- /x/c\n");
        keep(log, Path::new("/x/a b"), 7).unwrap();
        assert_eq!(read(log).unwrap(), [known("/x/c", None), known("/x/a b", Some(7))]);
        forget(log, Path::new("/x/c")).unwrap();
        assert_eq!(read(log).unwrap(), [known("/x/a b", Some(7))]);
        // Lines after number 7 were not those of the arena's marks when it was first kept.
        keep(log, Path::new("/x/a b"), 9).unwrap();
        let list = read(log).unwrap();
        assert_eq!(list, [known("/x/a b", Some(7))]);
        let path = Path::new("/x/a b");
        assert_eq!((limit(&list, path, 5), limit(&list, path, 100)), (5, 7));
        assert_eq!(limit(&list, Path::new("/x/other"), 100), 100);
        forget(log, path).unwrap();
        assert_eq!(std::fs::read_dir(log).unwrap().count(), 0, "no list without arenas");
    }

    #[test]
    fn a_directory_with_two_names_is_one() {
        let dir = tempfile::tempdir().unwrap();
        let (log, arenas) = (dir.path().join("log"), dir.path().join("arenas"));
        std::fs::create_dir(&log).unwrap();
        std::fs::create_dir(&arenas).unwrap();
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&arenas, &link).unwrap();
        add(&log, &link.join("a")).unwrap();
        assert!(has(&read(&log).unwrap(), &arenas.join("a")));
        forget(&log, &arenas.join("a")).unwrap();
        assert_eq!(read(&log).unwrap(), []);
    }

    #[test]
    fn a_malformed_list_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path();
        for text in ["x /a\n", "/a\n", "-1 /a\n", "- a\n", "99999999999999999999 /a\n", "-\n"] {
            std::fs::write(log.join(NAME), text).unwrap();
            assert_eq!(read(log).unwrap_err().kind(), io::ErrorKind::InvalidData, "{text}");
        }
        add(log, Path::new("/x/a")).unwrap();
        assert_eq!(read(log).unwrap(), [known("/x/a", None)]);
        let error = add(log, Path::new("/x/a\nb")).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        assert_eq!(read(log).unwrap(), [known("/x/a", None)], "the list is as it was");
    }
}
