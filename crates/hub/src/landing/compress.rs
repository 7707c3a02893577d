//! Replaces a log file that is complete by its compressed form: `docs/specs/replica.md`. Everything
//! here blocks.
//!
//! The compressed form gets its name when it is on the disk and was read back, and the plain one is
//! removed when that name is on the disk. So a crash leaves the plain file, both, or the compressed
//! one, and a start completes what is between. Requests of the origin wait only while names change.

use std::fs::{File, Metadata};
use std::io::{self, Read as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};
use tacho_replica::seekable::{CONTENT_BYTES, Reader, Writer};
use tacho_replica::{ENDING, ReplicaFile, compressed_path};
use tacho_ship::protocol::{FileName, Origin, Stem};

use super::Landing;
use super::names::{generations, names_in, remove_if_there};
use super::replica::{Replica, options};
use super::space::{free_bytes, sync_directory};
use crate::say::say;

/// Begins the names of compressed files that are not complete. Unlike other unfinished files they
/// are made while requests of the origin continue, so no listing removes them.
const COMPRESSING: &str = ".compressing-";
const LEVEL: i32 = 1;
/// Space for the table and for names.
const SLACK_BYTES: u64 = 1 << 20;

/// What is done next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A part of the file is compressed.
    Write,
    /// A part of the compressed form is read back.
    Check,
    /// A generation gets the compressed form.
    Link,
    /// A generation loses the plain form.
    Unlink,
}

/// Called before each step; `false` ends the compression there, as a crash does.
pub type GoOn<'a> = &'a mut dyn FnMut(Step) -> bool;

/// The outcome for a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is compressed: its bytes before and now.
    Compressed(u64, u64),
    /// It stays plain, because the compressed form is not smaller.
    NotSmaller,
    /// It has changed meanwhile, or is not a plain file.
    Changed,
    /// The disk has no space for the compressed form.
    NoSpace,
    /// A step was not permitted.
    Stopped,
}

/// A plain file of the current generation.
struct Source {
    generation: u64,
    directory: PathBuf,
    name: FileName,
    file: File,
    length: u64,
}

impl Source {
    fn path(&self) -> PathBuf {
        self.directory.join(self.name.to_string())
    }

    fn unfinished(&self) -> PathBuf {
        self.directory.join(format!("{COMPRESSING}{}{ENDING}", self.name))
    }

    /// Writes the compressed form to the disk. Returns the hash of what it has read, none if a step
    /// was not permitted.
    fn write(&self, go_on: GoOn<'_>) -> io::Result<Option<[u8; 32]>> {
        let target = options().create(true).truncate(true).open(self.unfinished())?;
        let mut writer = Writer::new(&target, LEVEL)?;
        let (mut hasher, mut offset) = (Sha256::new(), 0);
        let mut buffer = vec![0; CONTENT_BYTES];
        while offset < self.length {
            if !go_on(Step::Write) {
                return Ok(None);
            }
            let left = usize::try_from(self.length - offset).unwrap_or(CONTENT_BYTES);
            let part = &mut buffer[..left.min(CONTENT_BYTES)];
            self.file.read_exact_at(part, offset)?;
            hasher.update(&*part);
            writer.part(part)?;
            offset += part.len() as u64;
        }
        writer.finish()?;
        target.sync_all()?;
        Ok(Some(hasher.finalize().into()))
    }

    /// Reads the compressed form back. `false`: a step was not permitted.
    fn check(&self, wanted: [u8; 32], go_on: GoOn<'_>) -> io::Result<bool> {
        let reader = Reader::open(File::open(self.unfinished())?)?;
        let (mut hasher, mut offset) = (Sha256::new(), 0);
        let mut buffer = vec![0; CONTENT_BYTES];
        loop {
            if !go_on(Step::Check) {
                return Ok(false);
            }
            let count = reader.read_at(&mut buffer, offset)?;
            if count == 0 {
                break;
            }
            hasher.update(&buffer[..count]);
            offset += count as u64;
        }
        if offset != self.length || <[u8; 32]>::from(hasher.finalize()) != wanted {
            let text = format!("{}: the compressed form has other bytes", self.name);
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        Ok(true)
    }
}

impl Landing {
    /// Compresses a log file of the current generation that is complete, and its copies in former
    /// generations. Blocks.
    ///
    /// # Errors
    /// It stays plain.
    pub fn compress(&self, origin: &Origin, stem: &Stem, go_on: GoOn<'_>) -> io::Result<Outcome> {
        let source = self.with_replica_now(origin, |replica| replica.compressible(stem))?;
        let Some(source) = source else { return Ok(Outcome::Changed) };
        if free_bytes(&source.directory)? < source.length.saturating_add(SLACK_BYTES) {
            return Ok(Outcome::NoSpace);
        }
        let done = self.compress_source(origin, &source, go_on);
        // After a step that is not permitted everything stays as a crash leaves it.
        if !matches!(done, Ok(Outcome::Stopped | Outcome::Compressed(..))) {
            remove_if_there(&source.unfinished())?;
        }
        done
    }

    fn compress_source(
        &self,
        origin: &Origin,
        source: &Source,
        go_on: GoOn<'_>,
    ) -> io::Result<Outcome> {
        let Some(hash) = source.write(go_on)? else { return Ok(Outcome::Stopped) };
        let stored = source.unfinished().symlink_metadata()?.len();
        if stored >= source.length {
            return Ok(Outcome::NotSmaller);
        }
        if !source.check(hash, go_on)? {
            return Ok(Outcome::Stopped);
        }
        self.with_replica_now(origin, |replica| replica.replace(source, stored, go_on))
    }
}

impl Replica {
    /// The plain form of a log file; none if it has no bytes, is not here, or is compressed.
    fn compressible(&mut self, stem: &Stem) -> io::Result<Option<Source>> {
        let name = FileName::Lines(stem.clone());
        let (length, directory) = (self.offset(&name), self.path());
        if length == 0 {
            return Ok(None);
        }
        let file = match options().open(directory.join(name.to_string())) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        Ok(Some(Source { generation: self.generation(), directory, name, file, length }))
    }

    /// Puts the compressed form in the place of the plain one, in all generations that share it.
    fn replace(&mut self, source: &Source, stored: u64, go_on: GoOn<'_>) -> io::Result<Outcome> {
        let read = source.file.metadata()?;
        let is_same = |file: &Metadata| {
            (file.dev(), file.ino(), file.len()) == (read.dev(), read.ino(), source.length)
        };
        let is_current = source.generation == self.generation()
            && source.length == self.offset(&source.name)
            && source.path().symlink_metadata().is_ok_and(|file| is_same(&file));
        if !is_current {
            return Ok(Outcome::Changed);
        }
        self.close(&source.name);
        let (unfinished, name) = (source.unfinished(), source.name.to_string());
        let mut copies = Vec::new();
        for generation in generations(self.root())?.into_iter().filter(|it| *it < source.generation)
        {
            let path = self.root().join(generation.to_string()).join(&name);
            if path.symlink_metadata().is_ok_and(|file| is_same(&file)) {
                copies.push(path);
            }
        }
        // The current generation is the last one: without its name, all of it is repeated.
        for path in &copies {
            if !go_on(Step::Link) {
                return Ok(Outcome::Stopped);
            }
            let compressed = compressed_path(path);
            remove_if_there(&compressed)?;
            std::fs::hard_link(&unfinished, &compressed)?;
            sync_parent(path)?;
        }
        if !go_on(Step::Link) {
            return Ok(Outcome::Stopped);
        }
        std::fs::rename(&unfinished, compressed_path(&source.path()))?;
        sync_parent(&source.path())?;
        copies.push(source.path());
        for path in &copies {
            if !go_on(Step::Unlink) {
                return Ok(Outcome::Stopped);
            }
            std::fs::remove_file(path)?;
            sync_parent(path)?;
        }
        Ok(Outcome::Compressed(source.length, stored))
    }
}

fn sync_parent(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), sync_directory)
}

/// Completes in all generations of an origin what a crash has interrupted.
pub(super) fn complete(root: &Path) -> io::Result<()> {
    for generation in generations(root)? {
        let directory = root.join(generation.to_string());
        for name in names_in(&directory)? {
            if name.starts_with(COMPRESSING) {
                std::fs::remove_file(directory.join(name))?;
            } else if let Some(plain) = name.strip_suffix(ENDING)
                && matches!(plain.parse(), Ok(FileName::Lines(_)))
            {
                complete_file(&directory.join(plain))?;
            }
        }
    }
    Ok(())
}

/// Removes one of two forms. If they contradict each other, both are evidence.
fn complete_file(path: &Path) -> io::Result<()> {
    let plain = match options().open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        file => ReplicaFile::Plain(file?),
    };
    let compressed = compressed_path(path);
    let surplus = File::open(&compressed)
        .and_then(Reader::open)
        .and_then(|reader| surplus(&plain, &ReplicaFile::Compressed(reader)));
    match surplus {
        Ok(Some(Form::Plain)) => std::fs::remove_file(path)?,
        Ok(Some(Form::Compressed)) => std::fs::remove_file(&compressed)?,
        Ok(None) => {
            let text = "it has other bytes than the plain file, which is used; both are kept";
            say(&format!("{}: {text}", compressed.display()));
        }
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            say(&format!("{}: {error}; the plain file is used", compressed.display()));
        }
        Err(error) => return Err(error),
    }
    sync_parent(path)
}

/// A form of a log file.
enum Form {
    Plain,
    Compressed,
}

/// The form that has nothing that the other one has not.
fn surplus(plain: &ReplicaFile, compressed: &ReplicaFile) -> io::Result<Option<Form>> {
    let common = common(plain, compressed)?;
    Ok(if common < compressed.length()? {
        None
    } else if common == plain.length()? {
        Some(Form::Plain)
    } else {
        // More has arrived in the plain one.
        Some(Form::Compressed)
    })
}

/// How many bytes two files have in common at their beginning, in whole blocks or to the end of one
/// of them.
fn common(one: &ReplicaFile, two: &ReplicaFile) -> io::Result<u64> {
    let mut same = 0;
    let mut buffers = [vec![0; CONTENT_BYTES], vec![0; CONTENT_BYTES]];
    loop {
        let [first, second] = &mut buffers;
        let left = one.length()?.min(two.length()?) - same;
        let count = usize::try_from(left).unwrap_or(CONTENT_BYTES).min(CONTENT_BYTES);
        one.read_from(same).read_exact(&mut first[..count])?;
        two.read_from(same).read_exact(&mut second[..count])?;
        if count == 0 || first[..count] != second[..count] {
            return Ok(same);
        }
        same += count as u64;
    }
}
