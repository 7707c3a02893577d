//! Beginning to seal, and going on after a stop or a crash.

use std::collections::VecDeque;
use std::io;
use std::path::Path;

use tacho_chain::chain::{Chain, Position};
use tacho_chain::entry::{Epoch, EpochReason};
use tacho_chain::hash::Hash;
use tacho_chain::key_file::{self, KeyFile};
use tacho_chain::verify::read_checkpoint;

use super::scan::{Scan, read_text, scan};
use super::{
    SealOptions, Sealed, Sealer, Sidecar, Waiting, checkpoint_path, no_randomness, sidecar_name,
};
use crate::files::error::{At, FileError, FileErrorKind};
use crate::files::fs::{Fs, FsFile, OpenMode};
use crate::files::name::FileName;
use crate::files::tail;

/// Longest checkpoint, bytes.
const CHECKPOINT_BYTES_MAX: usize = 4096;

/// What sealing has to begin with.
pub(in crate::files) enum Begin<F: Fs> {
    /// It goes on in the current file.
    Ready(Box<(Sealer<F>, Sealed)>),
    /// It can only begin in a file that nobody has written to.
    NeedsNewFile,
}

/// The log file that is being written.
pub(in crate::files) struct Log<'a, L> {
    pub(in crate::files) file: &'a L,
    /// Its name, without the directory.
    pub(in crate::files) name: &'a str,
    /// Its length, all of it complete lines.
    pub(in crate::files) bytes: u64,
}

/// Opens the seal of a directory, under its lock.
pub(in crate::files) fn open<F: Fs>(
    fs: &F,
    dir: &Path,
    options: &SealOptions,
    log: &Log<'_, F::File>,
    last_seq: u64,
) -> Result<Begin<F>, FileError> {
    let key_path = &options.key_file;
    let names = fs.list(dir).at("list", dir)?;
    let has_sidecar = |log: &str| names.contains(&sidecar_name(log));
    let is_untouched = log.bytes == 0 && !has_sidecar(log.name);
    let is_sealed = |name: &String| FileName::parse(name).is_some_and(|(_, e)| e == "chain");
    let key = match read_text(fs, key_path, key_file::BYTES_MAX)? {
        Some(text) => KeyFile::parse(&text).map_err(|error| {
            FileError::new("use", key_path, io::Error::new(io::ErrorKind::InvalidData, error))
        })?,
        None => {
            let key = KeyFile::generate().map_err(|error| no_randomness(key_path, error))?;
            fs.replace(key_path, key.to_text().as_bytes(), true).at("write", key_path)?;
            key
        }
    };
    let Some(begun) = key.begun() else {
        // A root that has signed nothing yet.
        if !is_untouched {
            return Ok(Begin::NeedsNewFile);
        }
        let is_first = !names.iter().any(is_sealed);
        let reason = if is_first { EpochReason::First } else { EpochReason::NoKey };
        return begin(fs, dir, options, key, reason, log, last_seq);
    };
    let Some(found) = resume(fs, dir, options, &key, &begun)? else {
        if !is_untouched {
            return Ok(Begin::NeedsNewFile);
        }
        return begin(fs, dir, options, key, EpochReason::RolledBack, log, last_seq);
    };
    let (position, sidecar, out) = found;
    let is_shorter = begun.file == log.name && log.bytes < position.offset;
    if is_shorter || (begun.file.as_str() > log.name) {
        return Ok(Begin::NeedsNewFile);
    }
    let (end, seq) = (position.offset, position.seq);
    let root = key.root.clone();
    let mut sealer = Sealer {
        dir: dir.to_owned(),
        options: options.clone(),
        chain: Chain::new(root.clone(), key.epoch, key.secret, position),
        sidecar: Some(sidecar),
        out,
        files: VecDeque::from([Waiting {
            file: begun.file.clone(),
            reason: begun.reason,
            unframed: VecDeque::new(),
            end,
        }]),
        next: None,
        closed: false,
        wanted: None,
        unsaved: None,
        checkpoint_at_s: 0,
        last_seq: seq,
    };
    let recovered_bytes = recover(fs, dir, &mut sealer, &begun, log)?;
    let declared = sealer.files.back().map(|file| file.reason);
    let declared = declared
        .filter(|_| sealer.files.len() > 1 && sealer.files[1].reason != EpochReason::Rotate);
    if sealer.files.len() == 1 {
        // All that was told of before belongs to the key of before.
        sealer.drive(fs)?;
        sealer.begin_epoch(EpochReason::Start, log.name, fs.now_s())?;
    }
    sealer.drive(fs)?;
    let sealed = Sealed { root, is_new_root: false, declared, recovered_bytes };
    Ok(Begin::Ready(Box::new((sealer, sealed))))
}

/// Begins a chain in a new file.
fn begin<F: Fs>(
    fs: &F,
    dir: &Path,
    options: &SealOptions,
    key: KeyFile,
    reason: EpochReason,
    log: &Log<'_, F::File>,
    last_seq: u64,
) -> Result<Begin<F>, FileError> {
    let position =
        Position { file: log.name.to_owned(), offset: 0, seq: last_seq, hash: Hash::ZERO };
    let root = key.root.clone();
    let mut sealer = Sealer {
        dir: dir.to_owned(),
        options: options.clone(),
        chain: Chain::new(root.clone(), key.epoch, key.secret, position),
        sidecar: None,
        out: Vec::new(),
        files: VecDeque::from([Waiting {
            file: log.name.to_owned(),
            reason,
            unframed: VecDeque::new(),
            end: 0,
        }]),
        next: None,
        closed: false,
        wanted: None,
        unsaved: None,
        checkpoint_at_s: 0,
        last_seq,
    };
    sealer.begin_epoch(reason, log.name, fs.now_s())?;
    sealer.drive(fs)?;
    let declared = (reason != EpochReason::First).then_some(reason);
    let is_new_root = reason.is_by_root();
    let sealed = Sealed { root, is_new_root, declared, recovered_bytes: 0 };
    Ok(Begin::Ready(Box::new((sealer, sealed))))
}

type Found<L> = (Position, Sidecar<L>, Vec<u8>);

/// Finds the place where the key's epoch goes on. `None`: the directory does not have what is
/// known to have been in it.
fn resume<F: Fs>(
    fs: &F,
    dir: &Path,
    options: &SealOptions,
    key: &KeyFile,
    begun: &Epoch,
) -> Result<Option<Found<F::File>>, FileError> {
    let Some(note) = key.note.as_deref() else { return Ok(None) };
    let path = dir.join(sidecar_name(&begun.file));
    let saved = read_text(fs, &checkpoint_path(&options.key_file), CHECKPOINT_BYTES_MAX)?;
    let saved = saved.as_deref().map(String::as_str);
    // One that makes no sense was torn by a power failure: it says nothing.
    let checkpoint = saved.and_then(|note| read_checkpoint(note).ok());
    let scanned = scan(fs, &path, &begun.file, saved)?;
    if let Some(checkpoint) = checkpoint
        && checkpoint.origin == key.root.origin()
        && checkpoint.file >= begun.file
        && !scanned.as_ref().is_some_and(|scan| scan.has_checkpoint)
    {
        return Ok(None);
    }
    let (position, whole_bytes, out) = match scanned {
        Some(Scan { is_damaged: true, .. }) => return Ok(None),
        Some(scan) if scan.epoch_note.as_deref() == Some(note.as_bytes()) => {
            (scan.position, scan.whole_bytes, Vec::new())
        }
        Some(scan) => {
            let Position { offset, seq, hash, .. } = scan.position;
            if (hash, offset, seq) != (begun.chain, begun.offset, begun.seq) {
                return Ok(None);
            }
            (after(note, begun), scan.whole_bytes, note.as_bytes().to_vec())
        }
        None if begun.offset == 0 => (after(note, begun), 0, note.as_bytes().to_vec()),
        None => return Ok(None),
    };
    let file = match fs.open(&path, OpenMode::AppendNew) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            fs.open(&path, OpenMode::Append).at("open", &path)?
        }
        file => file.at("create", &path)?,
    };
    if file.stat().at("look at", &path)?.bytes > whole_bytes {
        file.set_len(whole_bytes).at("truncate", &path)?;
    }
    Ok(Some((position, Sidecar { file, path, bytes: whole_bytes, unsure: false }, out)))
}

/// The position after a note that is still to be written.
fn after(note: &str, begun: &Epoch) -> Position {
    Position {
        file: begun.file.clone(),
        offset: begun.offset,
        seq: begun.seq,
        hash: begun.chain.after(note.as_bytes()),
    }
}

/// Tells the sealer of all lines that are in no frame: at the end of the file that its chain
/// is in, and in later files up to the current one. Returns how many bytes those were.
fn recover<F: Fs>(
    fs: &F,
    dir: &Path,
    sealer: &mut Sealer<F>,
    begun: &Epoch,
    log: &Log<'_, F::File>,
) -> Result<u64, FileError> {
    let mut bytes = 0;
    for (name, ending) in tail::list(fs, dir)? {
        let entry = format!("{name}.{ending}");
        if ending != "jsonl" || entry < begun.file || entry.as_str() > log.name {
            continue;
        }
        if entry > begun.file {
            // A file that was cut under its seal is left for a new one.
            let end = sealer.end();
            let path = dir.join(&begun.file);
            let is_cut =
                sealer.files.len() == 1 && fs.stat(&path).is_ok_and(|stat| stat.bytes < end);
            let reason = if is_cut { EpochReason::Damaged } else { EpochReason::Rotate };
            sealer.rotated(&entry, reason);
        }
        let start = sealer.end();
        if entry == log.name {
            if log.bytes > start {
                let path = dir.join(&entry);
                sealer.appended_in_file(log.file, &path, start, log.bytes)?;
                bytes += log.bytes - start;
            }
            continue;
        }
        let path = dir.join(&entry);
        let file = fs.open(&path, OpenMode::Read).at("open", &path)?;
        let length = file.stat().at("look at", &path)?.bytes;
        let end = tail::line_end(&file, length).at("read", &path)?;
        if end > start {
            sealer.appended_in_file(&file, &path, start, end)?;
            bytes += end - start;
        }
    }
    if sealer.files.back().is_some_and(|file| file.file != log.name) {
        // The directory changed under our hands; the lock excludes other writers.
        return Err(FileError::of_kind(FileErrorKind::FileGone, "seal", &dir.join(log.name)));
    }
    Ok(bytes)
}
