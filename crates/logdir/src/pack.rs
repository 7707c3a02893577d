//! Compresses and encrypts closed files: `audit-….jsonl` becomes `audit-….jsonl.zst`, `.jsonl.age`
//! or `.jsonl.zst.age`, with the same lines. Renditions are packed by the same rules.
//!
//! The original is removed only after the new file is on the device under its name, and was read
//! back and compared. So after a death at any place at least one of the two is complete. If both
//! exist, the less processed one is the one to read, and the next attempt begins anew.
//!
//! Encrypted content cannot be read back as lines, because the recorder does not have the key.
//! Instead, the input of the encryption is decompressed in parallel and compared with the lines,
//! and its output is hashed on the way to the file and compared with the device. Only the
//! encryption itself is trusted.
//!
//! A thread that nothing waits for does the work ([`Packer::run`]): it processes a block, checks
//! whether it must end, and continues with the next.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use age::stream::StreamWriter;
use sha2::{Digest as _, Sha256};
use tacho_seekable as seekable;

use super::compressed::{self, Checked};
use super::ending::{Content, Ending, Parts};
use super::error::{At, FileError};
use super::form::Form;
use super::fs::{Fs, FsFile, OpenMode, Stat};
use super::lines;
use super::name::FileName;
use super::recipients::Recipients;
use super::stream::Stream;
use super::write::current::Current;
use super::write::directory::LogDir;

const BLOCK_BYTES: usize = 128 * 1024;

/// Bytes between syncs to the device. A sync cannot be interrupted: a caller that wants the thread
/// to end, for example to hand the log over, waits for this much at most.
const SYNC_BYTES: u64 = 8 << 20;

/// How closed files are packed.
#[derive(Clone, Debug, Default)]
pub struct Packing {
    /// They are compressed.
    pub compress: bool,
    /// Only these recipients can read them.
    pub recipients: Option<Arc<Recipients>>,
}

/// A file that was packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packed {
    /// Its content.
    pub content: Content,
    /// Its form before.
    pub from: Form,
    /// Its form now.
    pub form: Form,
    /// Length before.
    pub bytes: u64,
    /// Length now.
    pub packed_bytes: u64,
}

/// A packed file whose original still exists. The original is removed when that is possible.
#[derive(Clone, Copy, Debug)]
pub struct Unremoved {
    packed: Packed,
    from: Stat,
    form: Stat,
}

/// Why a file was not packed. It is unchanged.
#[derive(Debug, thiserror::Error)]
pub enum PackError {
    /// It is packed, but the original cannot be removed.
    #[error("it is packed, and the file that it was made from cannot be removed: {error}")]
    Unremoved {
        /// For another attempt, without packing.
        unremoved: Box<Unremoved>,
        /// Why.
        error: FileError,
    },
    /// An operation failed.
    #[error(transparent)]
    File(#[from] FileError),
    /// The new file differs from the old one, or the old one was changed meanwhile.
    #[error("{} was read back and is not what it was made from", .0.display())]
    Differs(PathBuf),
    /// Another form exists that was not made from it: it is unknown which of them is complete.
    #[error(
        "{} is beside it and was not made from it, or not completely: remove the one of both that is \
         not whole", .0.display()
    )]
    Beside(PathBuf),
    /// The remaining space is reserved for the log.
    #[error("only {free_bytes} bytes are free, and they are left to the log")]
    Room {
        /// Free space.
        free_bytes: u64,
    },
    /// It was cancelled before its work was done.
    #[error("stopped before it was done")]
    Cancelled,
}

/// Packs one file; can be moved to a thread.
pub struct Packer<F> {
    fs: F,
    dir: PathBuf,
    name: FileName,
    content: Content,
    from: Form,
    form: Form,
    recipients: Option<Arc<Recipients>>,
}

/// The parts of closed files that must still be packed, oldest first.
pub(crate) fn tasks<'a, F: Fs>(
    dir: &LogDir<F>,
    current: &Current<F::File>,
    packing: &Packing,
    all: &'a BTreeMap<FileName, Parts>,
) -> impl Iterator<Item = Task> + use<'a, F> {
    let (compress, encrypt) = (packing.compress, packing.recipients.is_some());
    let mut end = current.name;
    if !current.has_lines() && (compress || encrypt) {
        let newest = all.range(..end).rev();
        let mut lines = newest.filter_map(|(&name, parts)| {
            let form = parts.best_form(Content::Lines)?;
            Some(Task { name, content: Content::Lines, from: form, form })
        });
        end = lines.find(|file| file.may_have_lines(dir)).map_or(end, |file| file.name);
    }
    let closed = all.range(..end).filter(|(_, parts)| parts.has_lines());
    closed.flat_map(move |(&name, parts)| {
        Content::ALL.into_iter().filter_map(move |content| {
            let from = parts.best_form(content)?;
            Some(Task { name, content, from, form: from.target(compress, encrypt)? })
        })
    })
}

/// Removes the original of a packed file, if both are unchanged since. `None`: they are not, and
/// the file must be packed again.
pub(crate) fn remove_unpacked<F: Fs>(
    fs: &F,
    dir: &Path,
    name: FileName,
    unremoved: &Unremoved,
) -> Result<Option<Packed>, FileError> {
    let Unremoved { packed, from, form } = unremoved;
    let content = packed.content;
    let is_as_it_was = |form: Form, was: &Stat| {
        let found = fs.stat(&path_of(dir, name, Ending::File(content, form)));
        // Compared by identity, length and time, at least one of which changes with the file.
        found
            .is_ok_and(|is| (is.id, is.bytes, is.modified_s) == (was.id, was.bytes, was.modified_s))
    };
    if !is_as_it_was(packed.from, from) || !is_as_it_was(packed.form, form) {
        return Ok(None);
    }
    remove_others(fs, dir, name, content, packed.form)?;
    Ok(Some(*packed))
}

/// A file to be packed.
pub(crate) struct Task {
    pub(crate) name: FileName,
    pub(crate) content: Content,
    from: Form,
    form: Form,
}

impl Task {
    /// Its current path.
    pub(crate) fn path(&self, dir: &Path) -> PathBuf {
        path_of(dir, self.name, Ending::File(self.content, self.from))
    }

    /// Whether it may have a complete line: known for a plain file, and true for packed ones. A
    /// file that cannot be read does not block others: packing reports the error.
    pub(crate) fn may_have_lines<F: Fs>(&self, dir: &LogDir<F>) -> bool {
        let path = self.path(dir.path());
        let stat = match dir.fs().stat(&path) {
            Ok(stat) => stat,
            Err(error) => return error.kind() != io::ErrorKind::NotFound,
        };
        let is_plain_log = self.from == Form::Plain && self.content == Content::Lines;
        if !stat.is_file || stat.bytes == 0 || !is_plain_log {
            return stat.is_file && stat.bytes > 0;
        }
        let file = dir.fs().open(&path, OpenMode::Read);
        file.and_then(|file| lines::line_end(&file, stat.bytes)).map_or(true, |end| end > 0)
    }
}

impl<F: Fs> Packer<F> {
    pub(crate) fn new(dir: &LogDir<F>, task: Task, packing: &Packing) -> Packer<F> {
        let Task { name, content, from, form } = task;
        let recipients = packing.recipients.clone();
        let (fs, dir) = (dir.fs().clone(), dir.path().to_owned());
        Packer { fs, dir, name, content, from, form, recipients }
    }

    /// The file's name.
    #[must_use]
    pub fn name(&self) -> FileName {
        self.name
    }

    /// Its content.
    #[must_use]
    pub fn content(&self) -> Content {
        self.content
    }

    /// Packs the file. Ends soon when `cancel` is set, and leaves nothing behind.
    ///
    /// # Errors
    /// See [`PackError`].
    pub fn run(&self, cancel: &AtomicBool) -> Result<Packed, PackError> {
        let new = self.path(Ending::New(self.content, self.form));
        let result = self.run_to(&new, cancel);
        if !matches!(result, Ok(_) | Err(PackError::Unremoved { .. })) {
            // If this fails, too, the next attempt or retention removes it.
            let _: io::Result<()> = self.fs.remove(&new);
        }
        result
    }

    fn run_to(&self, new: &Path, cancel: &AtomicBool) -> Result<Packed, PackError> {
        let path = self.file(self.from);
        let source = self.fs.open(&path, OpenMode::Read).at("open", &path)?;
        let before = source.stat().at("look at", &path)?;
        self.look_beside(&before)?;
        // Also files that were begun with other settings: they are as readable as the lines.
        for form in Form::ALL {
            self.remove(Ending::New(self.content, form))?;
        }
        let file = self.fs.open(new, OpenMode::AppendNew).at("create", new)?;
        let written = self.write(&source, &before, file, cancel, (&path, new))?;
        written.file.copy_attributes(&source).at("set the attributes of", new)?;
        written.file.sync_data().at("sync", new)?;
        let packed_bytes = written.bytes;
        if read_back(&written.file, cancel, new)? != (written.digest(), packed_bytes) {
            return Err(PackError::Differs(new.to_owned()));
        }
        // Another process may have changed the file, or put another one in its place.
        let after = self.fs.stat(&path).at("look at", &path)?;
        if (after.id, after.bytes) != (before.id, before.bytes) {
            return Err(PackError::Differs(path));
        }
        let named = self.fs.stat(new).at("look at", new)?;
        if named.id != written.file.stat().at("look at", new)?.id {
            return Err(PackError::Differs(new.to_owned()));
        }
        let target = self.path(Ending::File(self.content, self.form));
        self.fs.rename(new, &target).at("rename", new)?;
        self.fs.sync_dir(&self.dir).at("sync", &self.dir)?;
        let (content, from, form) = (self.content, self.from, self.form);
        let packed = Packed { content, from, form, bytes: before.bytes, packed_bytes };
        match remove_others(&self.fs, &self.dir, self.name, content, form) {
            Ok(()) => Ok(packed),
            Err(error) => {
                let unremoved = Box::new(Unremoved { packed, from: before, form: named });
                Err(PackError::Unremoved { unremoved, error })
            }
        }
    }

    /// A file that an interrupted attempt left has the time stamp of its original. Any other file
    /// is not overwritten, for example one that an operator decrypted in place, perhaps partly.
    fn look_beside(&self, source: &Stat) -> Result<(), PackError> {
        for form in Form::ALL.into_iter().filter(|form| *form != self.from) {
            let path = self.file(form);
            match self.fs.stat(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                stat => {
                    if stat.at("look at", &path)?.modified_s != source.modified_s {
                        return Err(PackError::Beside(path));
                    }
                }
            }
        }
        Ok(())
    }

    /// Checks that there is enough space for more than the log.
    fn look_for_room(&self) -> Result<(), PackError> {
        let space = self.fs.space(&self.dir).at("ask for the room in", &self.dir)?;
        if space.is_to_spare() {
            return Ok(());
        }
        Err(PackError::Room { free_bytes: space.free_bytes })
    }

    fn path(&self, ending: Ending) -> PathBuf {
        path_of(&self.dir, self.name, ending)
    }

    /// The path of its content in that form.
    fn file(&self, form: Form) -> PathBuf {
        self.path(Ending::File(self.content, form))
    }

    fn remove(&self, ending: Ending) -> Result<(), FileError> {
        remove(&self.fs, &self.path(ending))
    }

    /// Writes the new file, and checks its content as far as possible without reading it back.
    fn write<L: FsFile>(
        &self,
        source: &L,
        stat: &Stat,
        file: L,
        cancel: &AtomicBool,
        (path, new): (&Path, &Path),
    ) -> Result<Written<L>, PackError> {
        let failed = |error| FileError::new("write", new, error);
        let reading = |error| FileError::new("read", path, error);
        let written = Written { file, hasher: Sha256::new(), bytes: 0, synced: 0 };
        let recipients = self.recipients.as_deref().filter(|_| self.form.is_encrypted());
        let mut envelope = match recipients {
            Some(recipients) => Envelope::Sealed(recipients.encrypt(written).map_err(failed)?),
            None => Envelope::Open(written),
        };
        // Not a byte more than its length at the beginning: later writes by another process are
        // detected by the length.
        let lines = Stream::new(source).take(stat.bytes);
        if self.from == Form::Plain && self.form.is_compressed() {
            let checked = Checked::new(envelope).map_err(failed)?;
            let mut encoder = seekable::Stream::new(checked, compressed::LEVEL).map_err(failed)?;
            let mut hasher = Sha256::new();
            let take = |block: &[u8]| {
                hasher.update(block);
                self.look_for_room()?;
                Ok(encoder.write_all(block).map_err(failed)?)
            };
            for_each_block(lines, cancel, take, reading)?;
            let (inner, digest, bytes) =
                encoder.finish().and_then(Checked::finish).map_err(failed)?;
            if (digest, bytes) != (hasher.finalize().into(), stat.bytes) {
                return Err(PackError::Differs(new.to_owned()));
            }
            envelope = inner;
        } else {
            let take = |block: &[u8]| {
                self.look_for_room()?;
                Ok(envelope.write_all(block).map_err(failed)?)
            };
            for_each_block(lines, cancel, take, reading)?;
        }
        Ok(envelope.finish().map_err(failed)?)
    }
}

fn remove<F: Fs>(fs: &F, path: &Path) -> Result<(), FileError> {
    match fs.remove(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed.at("remove", path),
    }
}

/// Removes all forms of a file except one, including the rest of interrupted attempts. The plain
/// form first, because it must not stay readable.
fn remove_others<F: Fs>(
    fs: &F,
    dir: &Path,
    name: FileName,
    content: Content,
    kept: Form,
) -> Result<(), FileError> {
    let mut others = Form::ALL.into_iter().filter(|form| *form != kept);
    others.try_for_each(|form| remove(fs, &path_of(dir, name, Ending::File(content, form))))
}

fn path_of(dir: &Path, name: FileName, ending: Ending) -> PathBuf {
    dir.join(format!("{name}.{ending}"))
}

/// A file that is being written, and the hash of its content.
struct Written<L> {
    file: L,
    hasher: Sha256,
    bytes: u64,
    /// How much of it is on the device, bytes.
    synced: u64,
}

impl<L> Written<L> {
    fn digest(&self) -> [u8; 32] {
        self.hasher.clone().finalize().into()
    }
}

impl<L: FsFile> Write for Written<L> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.file.write(bytes)?;
        self.hasher.update(&bytes[..count]);
        self.bytes += count as u64;
        if self.bytes - self.synced >= SYNC_BYTES {
            self.file.sync_data()?;
            self.synced = self.bytes;
        }
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The encoding around the bytes of a file.
enum Envelope<W: Write> {
    /// None.
    Open(W),
    /// Encryption.
    Sealed(StreamWriter<W>),
}

impl<W: Write> Envelope<W> {
    fn finish(self) -> io::Result<W> {
        match self {
            Envelope::Open(to) => Ok(to),
            Envelope::Sealed(to) => to.finish(),
        }
    }
}

impl<W: Write> Write for Envelope<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Envelope::Open(to) => to.write(bytes),
            Envelope::Sealed(to) => to.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Envelope::Open(to) => to.flush(),
            Envelope::Sealed(to) => to.flush(),
        }
    }
}

/// Calls `take` with each block of the source.
fn for_each_block(
    mut from: impl Read,
    cancel: &AtomicBool,
    mut take: impl FnMut(&[u8]) -> Result<(), PackError>,
    failed: impl Fn(io::Error) -> FileError,
) -> Result<(), PackError> {
    let mut buffer = vec![0; BLOCK_BYTES];
    loop {
        if cancel.load(Ordering::Relaxed) {
            return Err(PackError::Cancelled);
        }
        match from.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(count) => take(&buffer[..count])?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(failed(error).into()),
        }
    }
}

/// Hash and length of the content of a file.
fn read_back<L: FsFile>(
    file: &L,
    cancel: &AtomicBool,
    path: &Path,
) -> Result<([u8; 32], u64), PackError> {
    let (mut hasher, mut bytes) = (Sha256::new(), 0);
    let take = |block: &[u8]| {
        hasher.update(block);
        bytes += block.len() as u64;
        Ok(())
    };
    for_each_block(Stream::new(file), cancel, take, |error| FileError::new("read", path, error))?;
    Ok((hasher.finalize().into(), bytes))
}
