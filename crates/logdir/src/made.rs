//! `.log-files` in the log directory: the names of the newest log files that the recorder created.
//!
//! ```text
//! audit-20261122T034926Z-000041
//! audit-20261122T035510Z-000042
//! ```
//!
//! An account with the privilege FILE creates files in the log directory as the server's user. This
//! list tells a start which files are the recorder's own: SQL can neither read nor replace it (see
//! [`crate::private_file`]). A name is on the device before its file is created, so a power failure
//! leaves no file of the recorder that is missing in the list.

use std::collections::VecDeque;
use std::io;
use std::path::Path;

use super::error::{At, FileError};
use super::fs::{Fs, FsFile as _, OpenMode};
use super::lines::read_exact_at;
use super::name::FileName;

/// Name of the list.
pub(crate) const LIST: &str = ".log-files";

/// Most names that it has. Only files that are not sealed yet matter, which are two or three.
const NAMES_MAX: usize = 100;

/// Larger than any list that is written, bytes.
const BYTES_MAX: u64 = 64 << 10;

/// The list, see the module documentation. Empty: there is no list yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Made {
    /// Oldest first.
    names: VecDeque<FileName>,
}

/// The list of a directory.
#[derive(Debug)]
pub(crate) enum Listed {
    /// A list of the recorder, or none, which is an empty one.
    Ours(Made),
    /// A file with the name of the list that the recorder did not write.
    Foreign,
}

impl Made {
    /// Reads the list of a directory.
    pub(crate) fn read<F: Fs>(fs: &F, dir: &Path) -> Result<Listed, FileError> {
        let path = dir.join(LIST);
        let file = match fs.open(&path, OpenMode::Private) {
            Err(error) => match error.kind() {
                io::ErrorKind::NotFound => return Ok(Listed::Ours(Made::default())),
                io::ErrorKind::InvalidData => return Ok(Listed::Foreign),
                _ => return Err(FileError::new("open", &path, error)),
            },
            Ok(file) => file,
        };
        let bytes = file.stat().at("look at", &path)?.bytes;
        if bytes > BYTES_MAX {
            return Ok(Listed::Foreign);
        }
        let mut text = vec![0; bytes as usize];
        read_exact_at(&file, &mut text, 0).at("read", &path)?;
        Ok(Made::parse(&text).map_or(Listed::Foreign, Listed::Ours))
    }

    fn parse(text: &[u8]) -> Option<Made> {
        let text = std::str::from_utf8(text).ok()?;
        let name = |line: &str| Some(FileName::parse(&format!("{line}.jsonl"))?.0);
        let names: VecDeque<FileName> = text.lines().map(name).collect::<Option<_>>()?;
        let is_sorted = names.iter().zip(names.iter().skip(1)).all(|(a, b)| a < b);
        is_sorted.then_some(Made { names })
    }

    /// The newest name.
    pub(crate) fn newest(&self) -> Option<FileName> {
        self.names.back().copied()
    }

    /// The oldest name: older files are unknown.
    pub(crate) fn oldest(&self) -> Option<FileName> {
        self.names.front().copied()
    }

    /// Whether the list has a name.
    pub(crate) fn has(&self, name: FileName) -> bool {
        self.names.binary_search(&name).is_ok()
    }

    /// Whether a name may be the recorder's: it is in the list, or older than all names in it.
    pub(crate) fn may_be_ours(&self, name: FileName) -> bool {
        self.oldest().is_none_or(|oldest| name < oldest) || self.has(name)
    }

    /// Adds the newest name, and waits until the list is on the device. After an error the name is
    /// not added.
    pub(crate) fn add<F: Fs>(
        &mut self,
        fs: &F,
        dir: &Path,
        name: FileName,
    ) -> Result<(), FileError> {
        let mut with = self.clone();
        with.names.push_back(name);
        if with.names.len() > NAMES_MAX {
            with.names.pop_front();
        }
        with.write(fs, dir)?;
        *self = with;
        Ok(())
    }

    /// Removes the newest name: another process has created the file. The list is written with the
    /// next name.
    pub(crate) fn take_back(&mut self) {
        self.names.pop_back();
    }

    /// Writes the list, and waits until it is on the device.
    pub(crate) fn write<F: Fs>(&self, fs: &F, dir: &Path) -> Result<(), FileError> {
        let path = dir.join(LIST);
        let text: String = self.names.iter().map(|name| format!("{name}\n")).collect();
        fs.replace(&path, text.as_bytes(), true).at("replace", &path)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::super::fs::RealFs;
    use super::*;

    fn names(count: i64) -> Vec<FileName> {
        let mut names = vec![FileName::after(None, 1000)];
        for now_s in 1..count {
            names.push(FileName::after(names.last().copied(), 1000 + now_s));
        }
        names
    }

    fn read(dir: &Path) -> Option<Made> {
        match Made::read(&RealFs, dir).unwrap() {
            Listed::Ours(made) => Some(made),
            Listed::Foreign => None,
        }
    }

    #[test]
    fn a_list_has_the_newest_names() {
        let dir = tempfile::tempdir().unwrap();
        let names = names(NAMES_MAX as i64 + 2);
        let mut made = read(dir.path()).unwrap();
        assert_eq!(made, Made::default());
        assert!(made.may_be_ours(names[0]), "there is no list yet");
        for name in &names {
            made.add(&RealFs, dir.path(), *name).unwrap();
        }
        assert_eq!(read(dir.path()), Some(made.clone()));
        assert_eq!((made.oldest(), made.newest()), (Some(names[2]), names.last().copied()));
        assert!(made.may_be_ours(names[1]) && !made.has(names[1]));
        let later = FileName::after(made.newest(), 9000);
        assert!(!made.may_be_ours(later));
        made.take_back();
        assert!(!made.may_be_ours(names[NAMES_MAX + 1]));
    }

    #[test]
    fn a_file_that_sql_may_have_created_is_not_a_list() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(LIST);
        let name = names(1)[0];
        for (mode, text) in [
            (0o640, format!("{name}\n")),
            (0o600, "x\n".to_owned()),
            (0o600, format!("{name}\n{name}\n")),
            (0o600, format!("{name}\n").repeat(5000)),
        ] {
            std::fs::write(&path, &text).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(read(dir.path()), None, "{mode:o} {}", text.len());
        }
        std::fs::remove_file(&path).unwrap();
        Made::default().add(&RealFs, dir.path(), name).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0);
        assert!(read(dir.path()).unwrap().has(name));
    }
}
