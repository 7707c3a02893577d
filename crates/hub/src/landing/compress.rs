//! Replaces a log file that is complete by its compressed form: `docs/specs/replica.md`. Everything
//! here blocks.
//!
//! The compressed form gets its name when it is on the disk and was read back, and the plain one is
//! removed when that name is on the disk. So a crash leaves the plain file, both, or the compressed
//! one, and a start completes what is between. Requests of the origin wait only while names change.

use std::cmp::Reverse;
use std::fs::{File, Metadata};
use std::io::{self, Read as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{Advice, fadvise};
use sha2::{Digest as _, Sha256};
use tacho_replica::columns::{CONTENT_BYTES, LENGTH_MAX, Writer};
use tacho_replica::{Compressed, ENDING, ReplicaFile, compressed_path, compressed_paths};
use tacho_ship::protocol::{FileName, Origin, Stem};

use super::Landing;
use super::names::{compressed_file, generations, names_in, remove_if_there, remove_or_say};
use super::replica::{Replica, options};
use super::space::{free_bytes, sync_directory};
use crate::say::say;

/// Begins the names of compressed files that are not complete. Unlike other unfinished files they
/// are made while requests of the origin continue, so no listing removes them.
const COMPRESSING: &str = ".compressing-";
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
    /// It stays plain: its compressed form is not smaller, or the format has no room for it, or
    /// there is a compressed form that contradicts it.
    StaysPlain,
    /// It has changed meanwhile, or is not a plain file.
    Changed,
    /// The disk has no space for the compressed form.
    NoSpace,
    /// A step was not permitted.
    Stopped,
}

/// A plain file.
struct PlainFile {
    generation: u64,
    /// Nothing lands in its generation any more, and no later one has the same file.
    is_final: bool,
    directory: PathBuf,
    name: FileName,
    file: File,
    /// As it was when it was opened.
    opened: Metadata,
    length: u64,
}

impl PlainFile {
    fn path(&self) -> PathBuf {
        self.directory.join(self.name.to_string())
    }

    fn unfinished(&self) -> PathBuf {
        self.directory.join(format!("{COMPRESSING}{}{ENDING}", self.name))
    }

    /// Writes the compressed form to the disk. Returns the hash of what it has read, none if a step
    /// was not permitted.
    fn write(&self, go_on: GoOn<'_>) -> io::Result<Option<[u8; 32]>> {
        // A file that is there may have links in former generations: it is not written to.
        remove_if_there(&self.unfinished())?;
        let target = options().create_new(true).open(self.unfinished())?;
        let mut writer = Writer::new(&target)?;
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

    /// Reads the compressed form back, from the disk as far as the system can forget what it has in
    /// memory. `false`: a step was not permitted.
    fn check(&self, wanted: [u8; 32], go_on: GoOn<'_>) -> io::Result<bool> {
        let file = Compressed::open(&self.unfinished())?;
        // Advice: where it is not followed, memory is read.
        let _ = fadvise(file.file(), 0, None, Advice::DontNeed);
        let reader = ReplicaFile::Compressed(Box::new(file));
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
    /// Compresses a log file of a generation that is complete, and its copies in others. One of a
    /// former generation is complete; if the current one has it, too, it stays as it is there.
    /// Blocks.
    ///
    /// # Errors
    /// It stays plain.
    pub fn compress(
        &self,
        origin: &Origin,
        generation: u64,
        stem: &Stem,
        go_on: GoOn<'_>,
    ) -> io::Result<Outcome> {
        let compressible = |replica: &mut Replica| replica.compressible(generation, stem);
        let source = self.with_replica_now(origin, compressible)?;
        let source = match source {
            Ok(source) => source,
            Err(outcome) => return Ok(outcome),
        };
        if free_bytes(&source.directory)? < source.length.saturating_add(SLACK_BYTES) {
            return Ok(Outcome::NoSpace);
        }
        let done = self.compress_source(origin, &source, go_on);
        // After a step that is not permitted everything stays as a crash leaves it.
        if !matches!(done, Ok(Outcome::Stopped | Outcome::Compressed(..))) {
            remove_or_say(&source.unfinished(), "a start removes it");
        }
        done
    }

    fn compress_source(
        &self,
        origin: &Origin,
        source: &PlainFile,
        go_on: GoOn<'_>,
    ) -> io::Result<Outcome> {
        let Some(hash) = source.write(go_on)? else { return Ok(Outcome::Stopped) };
        let stored = source.unfinished().symlink_metadata()?.len();
        if stored >= source.length {
            return Ok(Outcome::StaysPlain);
        }
        if !source.check(hash, go_on)? {
            return Ok(Outcome::Stopped);
        }
        self.with_replica_now(origin, |replica| replica.replace(source, stored, go_on))
    }
}

impl Replica {
    /// The plain form of a log file, or why it is not compressed. If both forms are there, the
    /// plain one is removed if it has the same bytes.
    fn compressible(
        &mut self,
        generation: u64,
        stem: &Stem,
    ) -> io::Result<Result<PlainFile, Outcome>> {
        let name = FileName::Lines(stem.clone());
        let directory = self.root().join(generation.to_string());
        let path = directory.join(name.to_string());
        let file = match options().open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Err(Outcome::Changed));
            }
            file => file?,
        };
        let opened = file.metadata()?;
        let is_final = generation != self.generation();
        let is_removed = || self.with_removed(generation, |removed| Ok(removed.has(&name)));
        let length = match is_final {
            false => self.offset(&name),
            true if is_removed()? || self.has_file(&name, &opened)? => 0,
            true => opened.len(),
        };
        // One without bytes has not landed, or is removed, or is not to be compressed here.
        if length == 0 {
            return Ok(Err(Outcome::Changed));
        }
        for compressed in compressed_paths(&path) {
            match relation(&compressed, &file)? {
                None | Some(Relation::Longer) if length <= LENGTH_MAX => {}
                Some(Relation::Same) => {
                    self.close(&name);
                    std::fs::remove_file(&path)?;
                    sync_parent(&path)?;
                    return Ok(Err(Outcome::Changed));
                }
                // If there are two forms, both are evidence.
                _ => return Ok(Err(Outcome::StaysPlain)),
            }
        }
        Ok(Ok(PlainFile { generation, is_final, directory, name, file, opened, length }))
    }

    /// Whether the current generation has this plain file.
    fn has_file(&self, name: &FileName, file: &Metadata) -> io::Result<bool> {
        match self.path().join(name.to_string()).symlink_metadata() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            other => other.map(|other| (other.dev(), other.ino()) == (file.dev(), file.ino())),
        }
    }

    /// Puts the compressed form in the place of the plain one, in all generations that share it.
    fn replace(&mut self, source: &PlainFile, stored: u64, go_on: GoOn<'_>) -> io::Result<Outcome> {
        let id = |file: &Metadata| (file.dev(), file.ino(), file.mtime(), file.mtime_nsec());
        let is_same =
            |file: &Metadata| id(file) == id(&source.opened) && file.len() == source.length;
        let is_there = source.path().symlink_metadata().is_ok_and(|file| is_same(&file));
        let is_complete = match source.is_final {
            true => !self.has_file(&source.name, &source.opened)?,
            false => {
                source.generation == self.generation() && source.length == self.offset(&source.name)
            }
        };
        if !is_there || !is_complete {
            return Ok(Outcome::Changed);
        }
        self.close(&source.name);
        let (unfinished, name) = (source.unfinished(), source.name.to_string());
        let mut copies = Vec::new();
        let others = generations(self.root())?.into_iter().filter(|it| *it != source.generation);
        for generation in others {
            let path = self.root().join(generation.to_string()).join(&name);
            if path.symlink_metadata().is_ok_and(|file| is_same(&file)) {
                copies.push(path);
            }
        }
        // That of the source is the last one: without its name, all of it is repeated.
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
            // What an earlier hub has compressed is the beginning of the file, or damaged.
            let [_, former] = compressed_paths(path);
            remove_if_there(&former)?;
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
        let mut names = names_in(&directory)?;
        // The forms of earlier hubs first: while the plain file is there, it shows whether they are
        // still needed.
        names.sort_by_key(|name| Reverse(compressed_file(name).map(|(_, rank)| rank)));
        for name in names {
            if name.starts_with(COMPRESSING) {
                std::fs::remove_file(directory.join(name))?;
            } else if let Some((file, _)) = compressed_file(&name) {
                complete_file(&directory.join(file.to_string()), &directory.join(name))?;
            }
        }
    }
    Ok(())
}

/// Removes one of two forms. If they contradict each other, both are evidence.
fn complete_file(path: &Path, compressed: &Path) -> io::Result<()> {
    let plain = match options().open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        plain => plain?,
    };
    match relation(compressed, &plain)? {
        None => {
            let text = "it is damaged; the plain file beside it is used";
            say(&format!("{}: {text}", compressed.display()));
        }
        // Whatever stays, readers find the same bytes.
        Some(Relation::Same) => remove_or_say(path, "its compressed form has the same bytes"),
        Some(Relation::Shorter) => remove_or_say(path, "its compressed form has more bytes"),
        Some(Relation::Longer) => remove_or_say(compressed, "the plain file has more bytes"),
        Some(Relation::Other) => {
            let text = "it has other bytes than the plain file, which is used; both are kept";
            say(&format!("{}: {text}", compressed.display()));
        }
    }
    sync_parent(path)
}

/// What the plain form of a log file is to its compressed one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Relation {
    /// It has the same bytes.
    Same,
    /// It is the beginning: its end was lost.
    Shorter,
    /// It continues the compressed form: more has arrived.
    Longer,
    /// It contradicts the compressed form.
    Other,
}

/// Compares a log file with a compressed form. None: that is not there, or is damaged.
fn relation(compressed: &Path, plain: &File) -> io::Result<Option<Relation>> {
    let plain = ReplicaFile::Plain(plain.try_clone()?);
    let compare = |compressed: Compressed| {
        let compressed = ReplicaFile::Compressed(Box::new(compressed));
        let [plain_bytes, compressed_bytes] = [plain.length()?, compressed.length()?];
        let common = common(&plain, &compressed)?;
        Ok(match (common == plain_bytes, common == compressed_bytes) {
            (true, true) => Relation::Same,
            (true, false) => Relation::Shorter,
            (false, true) => Relation::Longer,
            (false, false) => Relation::Other,
        })
    };
    match Compressed::open(compressed).and_then(compare) {
        Err(error)
            if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidData) =>
        {
            Ok(None)
        }
        relation => relation.map(Some),
    }
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
