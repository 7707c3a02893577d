//! The files of one origin. Everything here blocks.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use tacho_replica::{ReplicaFile, compressed_paths};
use tacho_ship::protocol::{
    Before, FileName, FileState, Hints, Origin, OriginState, Stored, VERSION,
};

use super::ends::Appending;
use super::names::{UNFINISHED, files, generations, remove_if_there, remove_or_say};
use super::newest_line::NewestLine;
use super::removed::Removed;
use super::space::{free_bytes, sync_directory};
use super::{Incident, Landed, OriginView, Refusal, compress, newest};
use crate::data::{DataDirectory, DataError, make_directory};
use crate::say::say;

/// Files that are kept open: those that a shipper appends to.
const HANDLES_MAX: usize = 3;
/// Most files of a generation, whose list has to fit into an answer, and most that got bytes in all
/// generations: the hub has their names in memory.
const FILES_MAX: usize = 400_000;
const COMPARE_BYTES: usize = 64 << 10;

/// A request to store bytes.
#[derive(Clone, Debug)]
pub struct Put {
    /// The file.
    pub file: FileName,
    /// Where the body begins.
    pub offset: u64,
    /// The generation that is meant; `None`: the current one.
    pub generation: Option<u64>,
    /// Digest of the bytes before; needed if `offset` is not 0.
    pub before: Option<Before>,
    /// The shipper's process.
    pub instance: Option<String>,
}

/// The current generation of one origin.
pub struct Replica {
    pub(super) origin: Origin,
    /// Directory of all generations.
    pub(super) root: PathBuf,
    pub(super) generation: u64,
    /// Durable offsets of the files of the current generation.
    pub(super) offsets: BTreeMap<FileName, u64>,
    /// The newest one is the last.
    handles: Vec<(FileName, ReplicaFile)>,
    bytes: u64,
    /// The last line that is whole.
    newest_line: Option<NewestLine>,
    /// Files of former generations that got bytes there.
    former_files: usize,
    /// Files that got nothing in the current generation.
    inherited: BTreeSet<FileName>,
    incidents: Vec<Incident>,
    /// The name of the current generation, or one in it, may not be on the disk yet.
    is_unsynced: bool,
    appending: Appending,
    /// Files that retention has removed from the current generation.
    pub(super) removed: Removed,
}

impl Replica {
    /// Reads names and lengths. An origin that is not there yet is empty.
    pub fn open(data: &DataDirectory, origin: &Origin) -> io::Result<Self> {
        let root = data.replica().join(origin.as_str());
        super::names::remove_unfinished(&root)?;
        compress::complete(&root)?;
        let appending = Appending::recover(&root)?;
        let generation = generations(&root)?.last().copied().unwrap_or(1);
        let mut replica = Self {
            origin: origin.clone(),
            root,
            generation,
            offsets: BTreeMap::new(),
            handles: Vec::new(),
            bytes: 0,
            newest_line: None,
            former_files: 0,
            inherited: BTreeSet::new(),
            incidents: Vec::new(),
            is_unsynced: false,
            appending,
            removed: Removed::default(),
        };
        replica.removed = Removed::read(&replica.path())?;
        let files = files(&replica.path())?.into_iter();
        let is_here = |name: &FileName, length: u64| length > 0 && !replica.removed.has(name);
        replica.offsets = files.filter(|(name, length)| is_here(name, *length)).collect();
        replica.bytes = replica.offsets.values().sum();
        replica.see_newest_line()?;
        Ok(replica)
    }

    /// Files whose handles are closed may get links.
    pub(super) fn close_all(&mut self) {
        self.handles.clear();
    }

    /// What is known of former generations.
    pub(super) fn set_history(&mut self, former_files: usize, inherited: BTreeSet<FileName>) {
        self.former_files = former_files;
        self.inherited = inherited;
    }

    /// Files that got nothing in the current generation.
    pub(super) fn inherited(&self) -> &BTreeSet<FileName> {
        &self.inherited
    }

    /// Files that got bytes, in all generations.
    fn own_files(&self) -> usize {
        self.former_files + self.offsets.len() - self.inherited.len()
    }

    /// Another generation is the current one, whose name is not on the disk yet.
    pub(super) fn enter(
        &mut self,
        generation: u64,
        offsets: BTreeMap<FileName, u64>,
        removed: Removed,
    ) {
        self.generation = generation;
        self.removed = removed;
        self.bytes = offsets.values().sum();
        self.former_files = self.own_files();
        self.inherited = offsets.keys().cloned().collect();
        self.offsets = offsets;
        self.newest_line = None;
        self.is_unsynced = true;
        self.close_all();
    }

    /// Puts the name of the current generation, and those in it, to the disk.
    pub(super) fn sync_name(&mut self) -> io::Result<()> {
        if self.is_unsynced {
            sync_directory(&self.path())?;
            sync_directory(&self.root)?;
            self.is_unsynced = false;
        }
        Ok(())
    }

    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Directory of all generations.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Directory of the current generation.
    pub fn path(&self) -> PathBuf {
        self.root.join(self.generation.to_string())
    }

    pub fn names(&self) -> Vec<FileName> {
        self.offsets.keys().cloned().collect()
    }

    /// The durable offset of a file that is here.
    pub fn offset(&self, name: &FileName) -> u64 {
        self.offsets.get(name).copied().unwrap_or(0)
    }

    /// These files are not here any more.
    pub(super) fn drop_names(&mut self, names: &[FileName]) {
        for name in names {
            self.bytes -= self.offsets.remove(name).unwrap_or(0);
            self.inherited.remove(name);
            self.close(name);
        }
    }

    pub fn view(&self) -> OriginView {
        OriginView {
            generation: self.generation,
            files: self.offsets.len(),
            removed: self.listed_removed(),
            bytes: self.bytes,
            newest_line: self.newest_line.clone(),
        }
    }

    fn newest_log(&self) -> Option<&FileName> {
        self.offsets.keys().rfind(|name| matches!(name, FileName::Lines(_)))
    }

    /// Reads the last line that is whole. A new file may have none yet: then the one that is known
    /// stays.
    pub(super) fn see_newest_line(&mut self) -> io::Result<()> {
        let Some(name) = self.newest_log().cloned() else { return Ok(()) };
        let length = self.offset(&name);
        match self.handle(&name).and_then(|file| NewestLine::in_file(file, length)) {
            // A damaged file keeps no hub from starting.
            Err(error) if is_damaged(&error) => say(&format!("{}: {name}: {error}", self.origin)),
            found => self.newest_line = found?.or(self.newest_line.take()),
        }
        Ok(())
    }

    /// What a file has.
    pub fn landed(&self, file: &FileName) -> Landed {
        let (origin, generation) = (self.origin.clone(), self.generation);
        let offset = self.offset(file);
        Landed { origin, generation, file: file.clone(), offset, was_cut: false }
    }

    /// Names of removed files that a list has room for.
    fn listed_removed(&self) -> usize {
        self.removed.len().min(FILES_MAX.saturating_sub(self.offsets.len()))
    }

    /// The answer to a shipper that asks. A removed file that is not listed any more is offered
    /// again, and acknowledged at its first bytes.
    pub fn state(&self, hints: Hints) -> Result<OriginState, Refusal> {
        let here = self.offsets.iter().map(|(name, offset)| (name, *offset));
        let removed = self.removed.newest(self.listed_removed());
        let files: BTreeMap<&FileName, u64> = here.chain(removed).collect();
        let file = |(name, offset): (&FileName, u64)| FileState { name: name.clone(), offset };
        Ok(OriginState {
            protocol: VERSION,
            origin: self.origin.clone(),
            generation: self.generation,
            files: files.into_iter().map(file).collect(),
            checkpoint: newest::checkpoint(&self.path(), &self.names())?,
            hints,
        })
    }

    /// Checks and stores a body, in the order of the specification.
    pub fn put(&mut self, put: &Put, body: &[u8], reserve_bytes: u64) -> Result<Stored, Refusal> {
        let generation = self.generation;
        if put.generation.is_some_and(|wanted| wanted != generation) {
            return Err(Refusal::Generation { generation });
        }
        if let Some(answer) = self.removed.put(put, body.len() as u64, generation) {
            return answer;
        }
        self.check_length(&put.file)?;
        let durable = self.offset(&put.file);
        if put.offset > durable {
            return Err(Refusal::Offset { offset: durable, generation });
        }
        if put.offset > 0 {
            let Some(before) = &put.before else {
                let text = "Tacho-Before is needed where the offset is not 0";
                return Err(Refusal::BadRequest(text.to_owned()));
            };
            self.check_before(put, before)?;
        }
        let known = usize::try_from(durable - put.offset).unwrap_or(usize::MAX).min(body.len());
        let (known, rest) = body.split_at(known);
        if !self.has(&put.file, put.offset, known)? {
            return Err(Refusal::Contradiction { offset: durable, generation });
        }
        if !rest.is_empty() {
            self.append(&put.file, rest, reserve_bytes)?;
        }
        Ok(Stored { generation, offset: self.offset(&put.file) })
    }

    /// A file that another program has cut has a smaller offset: the shipper sends the rest again.
    pub(super) fn check_length(&mut self, name: &FileName) -> io::Result<()> {
        let offset = self.offset(name);
        if offset == 0 {
            return Ok(());
        }
        let length = match self.handle(name).and_then(ReplicaFile::length) {
            Err(error) if is_damaged(&error) => 0,
            Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
            length => length?,
        };
        if length < offset {
            let (origin, file) = (self.origin.clone(), name.clone());
            self.incidents.push(Incident::ReplicaCut { origin, file, offset, length });
            self.bytes -= offset - length;
            if length == 0 {
                self.offsets.remove(name);
                self.inherited.remove(name);
            } else {
                self.offsets.insert(name.clone(), length);
            }
        }
        Ok(())
    }

    /// What was noticed since the last call.
    pub fn take_incidents(&mut self) -> Vec<Incident> {
        std::mem::take(&mut self.incidents)
    }

    fn check_before(&mut self, put: &Put, before: &Before) -> Result<(), Refusal> {
        let (offset, generation) = (self.offset(&put.file), self.generation);
        let length = Before::length(put.offset);
        let mut bytes = vec![0; usize::try_from(length).unwrap_or_default()];
        match self.handle(&put.file)?.read_exact_at(&mut bytes, put.offset - length) {
            Ok(()) if Before::of(&bytes) == *before => Ok(()),
            Err(error) if !is_damaged(&error) => Err(error.into()),
            _ => Err(Refusal::Contradiction { offset, generation }),
        }
    }

    /// Whether a file has these bytes at an offset.
    fn has(&mut self, name: &FileName, mut offset: u64, bytes: &[u8]) -> io::Result<bool> {
        if bytes.is_empty() {
            return Ok(true);
        }
        let file = self.handle(name)?;
        let mut buffer = vec![0; COMPARE_BYTES.min(bytes.len())];
        for part in bytes.chunks(COMPARE_BYTES) {
            let stored = &mut buffer[..part.len()];
            match file.read_exact_at(stored, offset) {
                Ok(()) if stored == part => {}
                Err(error) if !is_damaged(&error) => return Err(error),
                _ => return Ok(false),
            }
            offset += part.len() as u64;
        }
        Ok(true)
    }

    fn append(&mut self, name: &FileName, bytes: &[u8], reserve: u64) -> Result<(), Refusal> {
        let is_new = self.offset(name) == 0;
        let is_other = is_new || self.inherited.contains(name);
        if is_other && self.own_files() >= FILES_MAX || is_new && self.offsets.len() >= FILES_MAX {
            return Err(Refusal::BadRequest(format!("there are {FILES_MAX} files already")));
        }
        if is_new {
            make(&self.path())?;
        }
        self.require_space(reserve, bytes.len() as u64)?;
        self.sync_name()?;
        if is_new {
            self.make_empty_file(name, bytes)?;
        }
        let offset = self.offset(name);
        self.make_alone(name, reserve, bytes.len() as u64)?;
        self.appending.note(&self.root, self.generation, name)?;
        let directory = self.path();
        let Some(file) = self.handle(name)?.plain() else {
            return Err(io::Error::other(format!("{name} is compressed")).into());
        };
        let written = cut_to(file, offset).and_then(|()| write_synced(file, offset, bytes));
        let written = written.and_then(|()| if is_new { sync_new(&directory) } else { Ok(()) });
        if let Err(error) = written {
            // After a sync that failed, a later one proves nothing about these bytes: they must not
            // stay. If this fails, too, the next append finds a file that is too long.
            let cut = file.set_len(offset).and_then(|()| file.sync_all());
            if let Err(error) = cut {
                say(&format!("{}: cannot cut {name} back to {offset}: {error}", self.origin));
            }
            self.close(name);
            return Err(error.into());
        }
        self.inherited.remove(name);
        self.offsets.insert(name.clone(), offset + bytes.len() as u64);
        self.bytes += bytes.len() as u64;
        if Some(name) == self.newest_log() {
            self.see_newest_line()?;
        }
        Ok(())
    }

    pub(super) fn require_space(&self, reserve: u64, bytes: u64) -> Result<(), Refusal> {
        let needed = reserve.saturating_add(bytes);
        if free_bytes(&self.root)? < needed { Err(Refusal::DiskFull) } else { Ok(()) }
    }

    /// Makes a file writable: it exists, is plain, and no other generation has it. One that is
    /// shared or compressed becomes a copy, because the other generation must stay as it is.
    fn make_alone(&mut self, name: &FileName, reserve: u64, more: u64) -> Result<(), Refusal> {
        let durable = self.offset(name);
        let path = self.path().join(name.to_string());
        if durable == 0 {
            self.close(name);
            open_new(&path)?;
            return Ok(());
        }
        let file = self.handle(name)?;
        if file.plain().is_some() && file.metadata()?.nlink() <= 1 {
            return Ok(());
        }
        self.require_space(reserve, durable.saturating_add(more))?;
        let copy = path.with_file_name(format!("{UNFINISHED}{name}"));
        let copied = copy_synced(self.handle(name)?, durable, &copy);
        self.close(name);
        if let Err(error) = copied.and_then(|()| std::fs::rename(&copy, &path)) {
            remove_or_say(&copy, "it is not complete");
            let generation = self.generation;
            return Err(match is_damaged(&error) {
                true => Refusal::Contradiction { offset: durable, generation },
                false => error.into(),
            });
        }
        // Nothing is appended before the name is on the disk, also if a step fails from here on.
        self.is_unsynced = true;
        self.sync_name()?;
        // Both have the same bytes until then.
        for compressed in compressed_paths(&path) {
            remove_if_there(&compressed)?;
        }
        Ok(sync_directory(&self.path())?)
    }

    pub(super) fn close(&mut self, name: &FileName) {
        self.handles.retain(|(other, _)| other != name);
    }

    /// The file, open for reading and, if it is plain, for writing. Other generations may have it,
    /// too, and it may be longer than its durable offset.
    fn handle(&mut self, name: &FileName) -> io::Result<&ReplicaFile> {
        let known = self.handles.iter().position(|(other, _)| other == name);
        let handle = known.map(|at| self.handles.remove(at));
        // Another program may have removed it.
        if let Some(handle) = handle
            && handle.1.metadata()?.nlink() > 0
        {
            self.handles.push(handle);
        } else {
            let path = self.path().join(name.to_string());
            let file = ReplicaFile::open_with(&path, &options())?;
            // A compressed file keeps some MiB of its content, and nothing is appended to it.
            self.handles.retain(|(_, other)| other.plain().is_some());
            if self.handles.len() >= HANDLES_MAX {
                self.handles.remove(0);
            }
            self.handles.push((name.clone(), file));
        }
        match self.handles.last() {
            Some((_, file)) => Ok(file),
            None => Err(io::Error::other("no handle")),
        }
    }
}

/// A compressed file is not as the hub has written it. What was acknowledged is not there any more.
fn is_damaged(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::InvalidData
}

pub(super) fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600);
    options.custom_flags(OFlags::NOFOLLOW.bits().cast_signed());
    options
}

/// An empty file. What was there has no durable bytes, and may belong to another generation.
fn open_new(path: &Path) -> io::Result<()> {
    remove_if_there(path)?;
    options().create_new(true).open(path).map(drop)
}

/// The first bytes of a file in another one, on the disk.
fn copy_synced(file: &ReplicaFile, bytes: u64, copy: &Path) -> io::Result<()> {
    let mut target = options().create(true).truncate(true).open(copy)?;
    let copied = io::copy(&mut file.read_from(0).take(bytes), &mut target)?;
    if copied != bytes {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    target.sync_all()
}

/// Cuts what an append that failed has left.
fn cut_to(file: &File, durable: u64) -> io::Result<()> {
    if file.metadata()?.len() > durable { file.set_len(durable) } else { Ok(()) }
}

fn write_synced(file: &File, offset: u64, bytes: &[u8]) -> io::Result<()> {
    file.write_all_at(bytes, offset)?;
    file.sync_data()
}

/// The directory of a file that is new, and those above it, which may be new as well.
fn sync_new(directory: &Path) -> io::Result<()> {
    directory.ancestors().take(3).try_for_each(sync_directory)
}

/// Makes a directory and those above it.
pub fn make(directory: &Path) -> io::Result<()> {
    make_directory(directory).map_err(|error| match error {
        // With its number: a full disk is another answer.
        DataError::Io { source, .. } => source,
        error @ DataError::Busy(_) => io::Error::other(error),
    })
}
