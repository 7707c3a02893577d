//! A log file of the replica in one of its forms: `audit-….jsonl`, or the same bytes by columns in
//! `audit-….jsonl.tcol`, or compressed in `audit-….jsonl.zst`, as earlier hubs did.
//!
//! A running hub replaces one form by the other: it gives the new one its name, and then removes
//! the old one. So at every moment at least one is there, and both have the same bytes.

use std::borrow::Borrow;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use tacho_columns as columns;
use tacho_seekable as seekable;

/// Behind the name of a log file: the compressed form that a hub makes.
pub const ENDING: &str = ".tcol";
/// The form that earlier hubs made.
pub const FORMER_ENDING: &str = ".zst";
/// All compressed forms, in the order in which readers look for them.
pub const ENDINGS: [&str; 2] = [ENDING, FORMER_ENDING];

/// Links are not followed, and a FIFO is not waited for.
const FLAGS: i32 = libc::O_NOFOLLOW | libc::O_NONBLOCK;

/// The compressed form of the log file at a path, as a hub makes it.
#[must_use]
pub fn compressed_path(path: &Path) -> PathBuf {
    with_ending(path, ENDING)
}

/// All compressed forms that the log file at a path may have.
#[must_use]
pub fn compressed_paths(path: &Path) -> [PathBuf; 2] {
    ENDINGS.map(|ending| with_ending(path, ending))
}

fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(ending);
    name.into()
}

/// Calls `open` with the path of a form, and whether it is a compressed one, until one is there.
fn either<T>(path: &Path, mut open: impl FnMut(&Path, bool) -> io::Result<T>) -> io::Result<T> {
    let [columns, former] = compressed_paths(path);
    // The plain one again: it may have replaced the compressed one meanwhile.
    for (path, is_compressed) in [(path, false), (&columns, true), (&former, true)] {
        match open(path, is_compressed) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            result => return result,
        }
    }
    open(path, false)
}

/// A compressed form of a log file.
#[derive(Debug)]
pub enum Compressed {
    /// By columns.
    Columns(columns::ColumnsReader),
    /// In zstd's seekable format.
    Zstd(seekable::Reader),
}

impl Compressed {
    /// Opens the compressed form at a path, whose name says which one it is. Links are not
    /// followed, and a FIFO is not waited for.
    ///
    /// # Errors
    /// There is none, it cannot be read, or it is damaged (kind `InvalidData`).
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = open_compressed(path)?;
        match is_columns(path) {
            true => columns::ColumnsReader::open(file).map(Self::Columns),
            false => seekable::Reader::open(file).map(Self::Zstd),
        }
    }

    /// The file.
    #[must_use]
    pub fn file(&self) -> &File {
        match self {
            Self::Columns(reader) => reader.file(),
            Self::Zstd(reader) => reader.file(),
        }
    }

    fn length_now(&self) -> io::Result<u64> {
        match self {
            Self::Columns(reader) => reader.length_now(),
            Self::Zstd(reader) => reader.length_now(),
        }
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        match self {
            Self::Columns(reader) => reader.read_at(buffer, offset),
            Self::Zstd(reader) => reader.read_at(buffer, offset),
        }
    }
}

fn is_columns(path: &Path) -> bool {
    path.as_os_str().as_encoded_bytes().ends_with(ENDING.as_bytes())
}

/// Bytes of the log file whose compressed form is at a path, from its table alone.
///
/// # Errors
/// There is none, it cannot be read, or it is damaged (kind `InvalidData`).
pub fn compressed_length(path: &Path) -> io::Result<u64> {
    let file = open_compressed(path)?;
    if is_columns(path) { columns::length(&file) } else { seekable::length(&file) }
}

/// Opens a compressed form. Links are not followed, and a FIFO is not waited for.
fn open_compressed(path: &Path) -> io::Result<File> {
    match OpenOptions::new().read(true).custom_flags(FLAGS).open(path) {
        Err(error) if error.raw_os_error() == Some(libc::ELOOP) => {
            Err(io::Error::new(io::ErrorKind::InvalidData, "a link instead of a file"))
        }
        file => file,
    }
}

/// The file on the disk, whichever form is there.
///
/// # Errors
/// There is none, or it cannot be looked at.
pub fn stored(path: &Path) -> io::Result<Metadata> {
    either(path, |path, _| path.symlink_metadata())
}

/// Bytes of the log file at a path, whichever form is there. Cheaper than to open it.
///
/// # Errors
/// There is none, it cannot be looked at, or it is damaged (kind `InvalidData`).
pub fn length(path: &Path) -> io::Result<u64> {
    either(path, |path, is_compressed| match is_compressed {
        false => path.symlink_metadata().map(|file| file.len()),
        true => compressed_length(path),
    })
}

/// The names in a directory, as far as they are text. A file whose form is being replaced has at
/// least one of its names among them.
///
/// # Errors
/// The directory cannot be read.
pub fn names(directory: &Path) -> io::Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    // A listing may miss a name that is made meanwhile, and so both forms of a file. The new one is
    // there before the old one is removed, so the next listing has it.
    for _ in 0..2 {
        for entry in std::fs::read_dir(directory)? {
            names.extend(entry?.file_name().into_string());
        }
    }
    Ok(names)
}

/// A log file that is open.
#[derive(Debug)]
pub enum ReplicaFile {
    /// As it has landed.
    Plain(File),
    /// Compressed.
    Compressed(Box<Compressed>),
}

impl ReplicaFile {
    /// Opens the log file at a path in the form that is there.
    ///
    /// # Errors
    /// There is none, it cannot be read, or it is damaged (kind `InvalidData`).
    pub fn open(path: &Path) -> io::Result<Self> {
        Self::open_with(path, OpenOptions::new().read(true))
    }

    /// The same with other options for the plain form. The compressed one is never written to.
    ///
    /// # Errors
    /// As [`ReplicaFile::open`].
    pub fn open_with(path: &Path, plain: &OpenOptions) -> io::Result<Self> {
        either(path, |path, is_compressed| {
            if !is_compressed {
                return plain.clone().custom_flags(FLAGS).open(path).map(Self::Plain);
            }
            Ok(Self::Compressed(Box::new(Compressed::open(path)?)))
        })
    }

    /// The plain file.
    #[must_use]
    pub fn plain(&self) -> Option<&File> {
        match self {
            Self::Plain(file) => Some(file),
            Self::Compressed(_) => None,
        }
    }

    /// The file on the disk.
    ///
    /// # Errors
    /// It cannot be looked at.
    pub fn metadata(&self) -> io::Result<Metadata> {
        match self {
            Self::Plain(file) => file.metadata(),
            Self::Compressed(reader) => reader.file().metadata(),
        }
    }

    /// Bytes of the log file, not of its form.
    ///
    /// # Errors
    /// It cannot be looked at, or its compressed form was cut (kind `InvalidData`).
    pub fn length(&self) -> io::Result<u64> {
        match self {
            Self::Plain(file) => Ok(file.metadata()?.len()),
            Self::Compressed(reader) => reader.length_now(),
        }
    }

    /// Reads at an offset of the log file, as pread(2).
    ///
    /// # Errors
    /// It cannot be read, or is damaged (kind `InvalidData`).
    pub fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        match self {
            Self::Plain(file) => file.read_at(buffer, offset),
            Self::Compressed(reader) => reader.read_at(buffer, offset),
        }
    }

    /// Fills the buffer.
    ///
    /// # Errors
    /// As [`ReplicaFile::read_at`], or the file ends before.
    pub fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.read_from(offset).read_exact(buffer)
    }

    /// The log file from an offset on.
    #[must_use]
    pub fn read_from(&self, offset: u64) -> Reader<&Self> {
        Reader { file: self, offset }
    }

    /// The same, and keeps the file open.
    #[must_use]
    pub fn into_reader(self, offset: u64) -> Reader<Self> {
        Reader { file: self, offset }
    }
}

/// Reads a log file from one offset to the next.
#[derive(Debug)]
pub struct Reader<F> {
    file: F,
    offset: u64,
}

impl<F: Borrow<ReplicaFile>> Read for Reader<F> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.borrow().read_at(buffer, self.offset)?;
        self.offset += count as u64;
        Ok(count)
    }
}

impl<F: Borrow<ReplicaFile>> Seek for Reader<F> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let offset = match to {
            SeekFrom::Start(offset) => Some(offset),
            SeekFrom::Current(way) => self.offset.checked_add_signed(way),
            SeekFrom::End(way) => self.file.borrow().length()?.checked_add_signed(way),
        };
        self.offset = offset.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compressed(path: &Path, content: &[u8]) {
        let mut writer = columns::Writer::new(File::create(path).unwrap()).unwrap();
        content.chunks(columns::CONTENT_BYTES).for_each(|part| writer.part(part).unwrap());
        writer.finish().unwrap();
    }

    #[test]
    fn the_form_of_earlier_hubs_is_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("audit-1.jsonl");
        let [_, former] = compressed_paths(&path);
        let mut writer = seekable::Writer::new(File::create(&former).unwrap(), 1).unwrap();
        writer.part(b"one\n").unwrap();
        writer.finish().unwrap();
        assert_eq!((text(&path), length(&path).unwrap()), ("one\n".to_owned(), 4));
        compressed(&compressed_path(&path), b"one\ntwo\n");
        assert_eq!((text(&path), length(&path).unwrap()), ("one\ntwo\n".to_owned(), 8));
    }

    fn text(path: &Path) -> String {
        let mut text = String::new();
        ReplicaFile::open(path).unwrap().read_from(0).read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn the_form_that_is_there_is_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("audit-1.jsonl");
        let missing = ReplicaFile::open(&path).unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
        compressed(&compressed_path(&path), b"one\ntwo\n");
        assert_eq!(text(&path), "one\ntwo\n");
        let file = ReplicaFile::open(&path).unwrap();
        assert_eq!((file.length().unwrap(), file.plain().is_none()), (8, true));
        assert_eq!(length(&path).unwrap(), 8);
        assert_eq!(stored(&path).unwrap().len(), file.metadata().unwrap().len());
        std::fs::write(&path, "one\n").unwrap();
        assert_eq!((text(&path), stored(&path).unwrap().len()), ("one\n".to_owned(), 4));
        // A form that is damaged is not a missing one.
        std::fs::remove_file(&path).unwrap();
        std::fs::write(compressed_path(&path), "one\ntwo\nthree\n").unwrap();
        assert_eq!(ReplicaFile::open(&path).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn links_are_not_followed() {
        let directory = tempfile::tempdir().unwrap();
        let (path, other) = (directory.path().join("a"), directory.path().join("b"));
        std::fs::write(&other, "x").unwrap();
        std::os::unix::fs::symlink(&other, &path).unwrap();
        assert!(ReplicaFile::open(&path).is_err());
    }

    /// What is no file in the place of a compressed form is damage, and is not waited for.
    #[test]
    fn only_files_are_read() {
        let directory = tempfile::tempdir().unwrap();
        let good = directory.path().join("good");
        compressed(&good, b"one\n");
        let path = |name: &str| directory.path().join(name);
        std::os::unix::fs::symlink(&good, compressed_path(&path("link"))).unwrap();
        std::fs::create_dir(compressed_path(&path("directory"))).unwrap();
        for fifo in [compressed_path(&path("fifo")), path("plain-fifo")] {
            assert!(std::process::Command::new("mkfifo").arg(fifo).status().unwrap().success());
        }
        for name in ["link", "directory", "fifo"] {
            let path = path(name);
            let errors = [ReplicaFile::open(&path).map(drop), length(&path).map(drop)];
            let is_damage = |result: io::Result<()>| {
                result.is_err_and(|error| error.kind() == io::ErrorKind::InvalidData)
            };
            assert!(errors.into_iter().all(is_damage), "{name}");
        }
        let fifo = ReplicaFile::open(&path("plain-fifo")).unwrap();
        assert!(fifo.read_at(&mut [0], 0).is_err());
    }

    #[test]
    fn a_compressed_form_that_is_cut_while_it_is_open_is_damaged() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a");
        compressed(&compressed_path(&path), b"0123456789");
        let file = ReplicaFile::open(&path).unwrap();
        assert_eq!(file.length().unwrap(), 10);
        let stored = OpenOptions::new().write(true).open(compressed_path(&path)).unwrap();
        stored.set_len(5).unwrap();
        let errors = [file.length().map(drop), file.read_exact_at(&mut [0], 3)];
        for error in errors.map(Result::unwrap_err) {
            assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{error}");
        }
    }

    #[test]
    fn a_reader_goes_where_it_is_sent() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a");
        compressed(&compressed_path(&path), b"0123456789");
        let mut reader = ReplicaFile::open(&path).unwrap().into_reader(3);
        let mut two = || {
            let mut buffer = [0; 2];
            reader.read_exact(&mut buffer).map(|()| buffer).ok()
        };
        assert_eq!((two(), two()), (Some(*b"34"), Some(*b"56")));
        assert_eq!(reader.seek(SeekFrom::Current(-6)).unwrap(), 1);
        assert_eq!(reader.seek(SeekFrom::End(-1)).unwrap(), 9);
        let mut rest = String::new();
        reader.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "9");
        assert!(reader.seek(SeekFrom::Current(-11)).is_err());
    }

    #[test]
    fn a_listing_has_a_form_of_a_file_that_is_being_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let path = |at: usize| directory.path().join(format!("{at}.jsonl"));
        const FILES: usize = 300;
        for at in 0..FILES {
            std::fs::write(path(at), "x").unwrap();
        }
        std::thread::scope(|scope| {
            let replaced = scope.spawn(|| {
                for at in 0..FILES {
                    std::fs::write(compressed_path(&path(at)), "x").unwrap();
                    std::fs::remove_file(path(at)).unwrap();
                }
            });
            while !replaced.is_finished() {
                let names = names(directory.path()).unwrap();
                for at in 0..FILES {
                    let name = format!("{at}.jsonl");
                    assert!(names.contains(&name) || names.contains(&format!("{name}{ENDING}")));
                }
            }
        });
    }
}
