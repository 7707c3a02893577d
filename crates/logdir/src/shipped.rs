//! `.shipped` in the log directory: which log files the hubs have acknowledged completely.
//!
//! ```text
//! audit-20261122T034926Z-000041 https://hub.example:7780 db1
//! - https://other.example db1
//! ```
//!
//! Each line belongs to one shipper (`tacho ship`), which replaces it when it changes: the newest
//! log file that is at the hub together with all older ones (`-`: none yet), the hub, and the name
//! of the log there. The recorder only reads the file, when a log file is due for removal.
//!
//! An account with the privilege FILE can create a file with this name, but not one without
//! permissions for others (see [`crate::private_file`]): such a file is ignored.

use std::fmt;
use std::io;
use std::path::Path;

use super::error::{At, FileError};
use super::fs::{Fs, FsFile, OpenMode, Space};
use super::lines::read_exact_at;
use super::name::FileName;

/// Name of the file.
pub const NAME: &str = ".shipped";
/// Its mode: only its owner may read or write it.
pub const MODE: u32 = 0o600;
/// Larger than any file with a few shippers, bytes.
pub const BYTES_MAX: u64 = 16 << 10;

/// A line of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HubLine {
    /// The newest log file that the hub has completely, as it has all older ones. `None`: it has
    /// none yet.
    pub acknowledged: Option<FileName>,
    /// Address of the hub, without white space.
    pub hub: String,
    /// Name of the log at the hub, without white space.
    pub origin: String,
}

impl HubLine {
    /// Whether the line is about the same log at the same hub.
    #[must_use]
    pub fn is_of(&self, hub: &str, origin: &str) -> bool {
        self.hub == hub && self.origin == origin
    }

    fn parse(line: &str) -> Option<HubLine> {
        let mut words = line.split(' ');
        let (name, hub, origin) = (words.next()?, words.next()?, words.next()?);
        let is_word = |word: &str| !word.is_empty() && !word.contains(char::is_control);
        if words.next().is_some() || !is_word(hub) || !is_word(origin) {
            return None;
        }
        let acknowledged = match name {
            "-" => None,
            name => Some(FileName::parse(&format!("{name}.jsonl"))?.0),
        };
        Some(HubLine { acknowledged, hub: hub.to_owned(), origin: origin.to_owned() })
    }
}

impl fmt::Display for HubLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.acknowledged {
            Some(name) => write!(f, "{name} {} {}", self.hub, self.origin),
            None => write!(f, "- {} {}", self.hub, self.origin),
        }
    }
}

/// The lines of the file; `None`: the text is not valid.
#[must_use]
pub fn parse(text: &[u8]) -> Option<Vec<HubLine>> {
    let text = std::str::from_utf8(text).ok()?;
    text.lines().map(HubLine::parse).collect()
}

/// The text of the file.
#[must_use]
pub fn format(lines: &[HubLine]) -> String {
    lines.iter().map(|line| format!("{line}\n")).collect()
}

/// Files are removed although a hub does not have them while less than this is free, per cent of
/// the file system.
pub const FREE_PERCENT_MIN: u64 = 5;

/// What happens to a due file that a hub does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// It stays until the hubs have it.
    Stays,
    /// It is removed: the setting permits it.
    Permitted,
    /// It is removed: the file system is nearly full.
    NearlyFull,
}

impl Wait {
    /// The decision. `is_permitted`: files that a hub does not have are removed as others.
    ///
    /// # Errors
    /// `space` failed.
    pub fn of<E>(is_permitted: bool, space: impl FnOnce() -> Result<Space, E>) -> Result<Wait, E> {
        Ok(match is_permitted {
            true => Wait::Permitted,
            false if space()?.is_below(FREE_PERCENT_MIN) => Wait::NearlyFull,
            false => Wait::Stays,
        })
    }
}

/// Why a log file does not count as shipped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unshipped {
    /// These hubs have not acknowledged it, the one that is furthest behind first.
    Behind(Vec<HubLine>),
    /// `.shipped` was written by a shipper, but cannot be read: the reason.
    Unknown(String),
}

impl fmt::Display for Unshipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unshipped::Unknown(_) => write!(f, "not known to be shipped"),
            Unshipped::Behind(lines) => {
                let hub = |line: &HubLine| format!("{} as {}", line.hub, line.origin);
                let hubs: Vec<String> = lines.iter().map(hub).collect();
                write!(f, "not shipped to {}", hubs.join(", "))
            }
        }
    }
}

/// The file of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Shipped {
    /// A shipper's, or there is none.
    Lines(Vec<HubLine>),
    /// A shipper's, but it cannot be read: the reason.
    Unreadable(String),
    /// Others may have created it: the reason.
    Foreign(String),
}

impl Shipped {
    /// Reads the file of a directory.
    pub(crate) fn read<F: Fs>(fs: &F, dir: &Path) -> Shipped {
        let path = dir.join(NAME);
        let file = match fs.open(&path, OpenMode::Private) {
            Ok(file) => file,
            Err(error) => {
                return match error.kind() {
                    io::ErrorKind::NotFound => Shipped::Lines(Vec::new()),
                    io::ErrorKind::InvalidData => {
                        Shipped::Foreign(format!("{}: {error}", path.display()))
                    }
                    _ => Shipped::Unreadable(FileError::new("open", &path, error).to_string()),
                };
            }
        };
        match content(&file, &path) {
            Ok(Some(lines)) => Shipped::Lines(lines),
            Ok(None) => Shipped::Unreadable(format!("{} is not valid", path.display())),
            Err(error) => Shipped::Unreadable(error.to_string()),
        }
    }

    /// Why a log file does not count as shipped.
    pub(crate) fn unshipped(&self, name: FileName) -> Option<Unshipped> {
        match self {
            Shipped::Foreign(_) => None,
            Shipped::Unreadable(reason) => Some(Unshipped::Unknown(reason.clone())),
            Shipped::Lines(lines) => {
                let is_behind = |line: &&HubLine| line.acknowledged < Some(name);
                let mut behind: Vec<HubLine> = lines.iter().filter(is_behind).cloned().collect();
                behind.sort_by_key(|line| line.acknowledged);
                (!behind.is_empty()).then_some(Unshipped::Behind(behind))
            }
        }
    }
}

fn content<F: FsFile>(file: &F, path: &Path) -> Result<Option<Vec<HubLine>>, FileError> {
    let bytes = file.stat().at("look at", path)?.bytes;
    if bytes > BYTES_MAX {
        return Ok(None);
    }
    let mut text = vec![0; bytes as usize];
    read_exact_at(file, &mut text, 0).at("read", path)?;
    Ok(parse(&text))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::super::faulty::{Fault, FaultyFs};
    use super::super::fs::RealFs;
    use super::*;

    fn name(number: i64) -> FileName {
        (0..number).fold(FileName::after(None, 0), |name, at_s| FileName::after(Some(name), at_s))
    }

    fn line(acknowledged: Option<FileName>, hub: &str) -> HubLine {
        HubLine { acknowledged, hub: hub.to_owned(), origin: "db1".to_owned() }
    }

    #[test]
    fn lines_are_read_as_they_are_written() {
        let lines = vec![line(Some(name(3)), "https://hub:7780"), line(None, "https://other")];
        let text = format(&lines);
        assert!(text.ends_with("- https://other db1\n"), "{text}");
        assert_eq!(parse(text.as_bytes()), Some(lines));
        assert_eq!(parse(b""), Some(Vec::new()));
        for bad in [
            "-\n",
            "- https://hub\n",
            "- https://hub db1 more\n",
            "-  db1\n",
            "audit-1 https://hub db1\n",
            "\n",
            "- h\u{1b}b db1\n",
        ] {
            assert_eq!(parse(bad.as_bytes()), None, "{bad:?}");
        }
        assert_eq!(parse(b"- \xff db1\n"), None);
    }

    #[test]
    fn a_file_is_shipped_when_every_hub_has_it() {
        let (three, two, none) =
            (line(Some(name(3)), "three"), line(Some(name(2)), "two"), line(None, "none"));
        let behind = |lines: &[&HubLine], number| {
            let shipped = Shipped::Lines(lines.iter().copied().cloned().collect());
            shipped.unshipped(name(number)).map(|it| it.to_string())
        };
        assert_eq!(behind(&[], 1), None, "nothing is shipped");
        assert_eq!(behind(&[&three, &two], 2), None);
        assert_eq!(behind(&[&three, &two], 3).unwrap(), "not shipped to two as db1");
        let both = behind(&[&three, &two, &none], 4).unwrap();
        assert_eq!(both, "not shipped to none as db1, two as db1, three as db1");
    }

    #[test]
    fn a_file_that_sql_may_have_created_is_ignored_and_a_damaged_one_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(NAME);
        let read = || Shipped::read(&RealFs, dir.path());
        assert_eq!(read(), Shipped::Lines(Vec::new()));
        let write = |text: &str, mode| {
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        let text = format(&[line(Some(name(1)), "hub")]);
        for mode in [0o644, 0o640] {
            write(&text, mode);
            let Shipped::Foreign(reason) = read() else { panic!("{mode:o}: {:?}", read()) };
            assert!(reason.contains(".shipped: was not made by Tachograph: its mode"), "{reason}");
            assert_eq!(read().unshipped(name(9)), None);
        }
        write(&text, MODE);
        assert_eq!(read(), Shipped::Lines(vec![line(Some(name(1)), "hub")]));
        for damaged in ["x\n".to_owned(), text.repeat(1000)] {
            write(&damaged, MODE);
            assert!(matches!(read(), Shipped::Unreadable(_)), "{:?}", read());
            assert!(matches!(read().unshipped(name(0)), Some(Unshipped::Unknown(_))));
        }
    }

    #[test]
    fn what_cannot_be_read_does_not_count_as_shipped() {
        let fs = FaultyFs::new();
        fs.create_dir(Path::new("/log")).unwrap();
        let path = Path::new("/log").join(NAME);
        fs.replace(&path, format(&[line(None, "hub")]).as_bytes(), true).unwrap();
        let read = || Shipped::read(&fs, Path::new("/log"));
        assert_eq!(read(), Shipped::Lines(vec![line(None, "hub")]));
        for operations in 0..3 {
            fs.fault_after(operations, Fault::Fail(libc::EIO));
            assert!(matches!(read(), Shipped::Unreadable(_)), "{operations}: {:?}", read());
            fs.repair();
        }
    }
}
