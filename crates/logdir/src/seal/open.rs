//! Beginning to seal, and continuing after a stop or a crash.

use std::io;
use std::path::{Path, PathBuf};

use tacho_chain::chain::{Chain, Position};
use tacho_chain::entry::{CheckpointReason, EpochReason};
use tacho_chain::hash::Hash;
use tacho_chain::key_file::KeyFile;

use super::key_of::{self, KeyOf, KeyPlace};
use super::resume::{ResumedChain, is_sidecar, resume};
use super::{SealOptions, Sealed, Sealer, no_randomness, sidecar_name};
use crate::entries;
use crate::error::{At, FileError, FileErrorKind};
use crate::form::Form;
use crate::fs::{Fs, FsFile, OpenMode};
use crate::lines;
use crate::made::Made;
use crate::name::FileName;

/// How sealing can begin.
pub(crate) enum Begin<F: Fs> {
    /// It continues in the current file.
    Ready(Box<(Sealer<F>, Sealed)>),
    /// It can only begin in a file without lines.
    NeedsNewFile,
}

/// The current log file.
pub(crate) struct Log<'a, L> {
    pub(crate) file: &'a L,
    /// Its name, without the directory.
    pub(crate) name: &'a str,
    /// Its length, all of it complete lines.
    pub(crate) bytes: u64,
    /// The recorder's own files.
    pub(crate) made: &'a Made,
}

/// Opens the seal of a directory, under its lock.
pub(crate) fn open<F: Fs>(
    fs: &F,
    dir: &Path,
    options: &SealOptions,
    log: &Log<'_, F::File>,
    last_seq: u64,
) -> Result<Begin<F>, FileError> {
    let mut names = fs.list(dir).at("list", dir)?;
    names.retain(|entry| FileName::parse(entry).is_none_or(|(name, _)| log.made.may_be_ours(name)));
    let is_untouched = log.bytes == 0 && !names.contains(&sidecar_name(log.name));
    let is_sealed = names.iter().any(|name| is_sidecar(name));
    let found = key_of::find(fs, dir, &options.key_file, &names)?;
    if is_sealed && !options.may_break && !found.is_there() {
        // Without a key that fits, a caller that must not break the chain cannot seal.
        return Err(stale_key(&options.key_file));
    }
    let (key_file, key) = take_key(fs, &options.key_file, found)?;
    reserve_removed(fs, dir)?;
    let options = &SealOptions { key_file, ..options.clone() };
    let key_path = &options.key_file;
    let mut reason = if is_sealed { EpochReason::NoKey } else { EpochReason::First };
    if let Some(begun) = key.begun() {
        if let Some(found) = resume(fs, dir, &key, &begun, &names)? {
            return continue_chain(fs, dir, options, key, found, log);
        }
        reason = EpochReason::RolledBack;
    }
    if reason != EpochReason::First && !options.may_break {
        return Err(stale_key(key_path));
    }
    if !is_untouched {
        return Ok(Begin::NeedsNewFile);
    }
    begin(fs, dir, options, key, reason, log, last_seq)
}

/// Creates `removed.chain` before it is needed, so that SQL cannot create it.
fn reserve_removed<F: Fs>(fs: &F, dir: &Path) -> Result<(), FileError> {
    let path = dir.join(tacho_chain::REMOVED_FILE);
    match fs.open(&path, OpenMode::AppendNew) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made.map(drop).at("create", &path),
    }
}

/// Returns the key that was found, or a new one, for this log directory only.
fn take_key<F: Fs>(fs: &F, named: &Path, found: KeyOf) -> Result<(PathBuf, KeyFile), FileError> {
    let KeyOf { directory, place } = found;
    let is_beside = match place {
        KeyPlace::There(path, key) => {
            return Ok((path, KeyFile { directory: Some(directory), ..*key }));
        }
        KeyPlace::Named => false,
        KeyPlace::Beside => true,
    };
    let key = KeyFile::generate().map_err(|error| no_randomness(named, error))?;
    let key = KeyFile { directory: Some(directory), ..key };
    let path = if is_beside { key_of::beside(named, &key.root) } else { named.to_owned() };
    fs.replace(&path, key.to_text().as_bytes(), true).at("write", &path)?;
    Ok((path, key))
}

/// Whether there is a key for the log of a directory.
pub(crate) fn has_key<F: Fs>(fs: &F, dir: &Path, named: &Path) -> Result<bool, FileError> {
    let names = fs.list(dir).at("list", dir)?;
    Ok(key_of::find(fs, dir, named, &names)?.is_there())
}

fn stale_key(key_path: &Path) -> FileError {
    FileError::of_kind(FileErrorKind::StaleKey, "continue sealing with", key_path)
}

/// The newest file of a log directory that is sealed according to its key. `names`: the directory's
/// files.
pub(crate) fn newest_sealed<F: Fs>(
    fs: &F,
    dir: &Path,
    key_file: &Path,
    names: &[String],
) -> Option<FileName> {
    if key_file.as_os_str().is_empty() {
        return None;
    }
    let KeyPlace::There(_, key) = key_of::find(fs, dir, key_file, names).ok()?.place else {
        return None;
    };
    let begun = key.begun()?;
    // After a crash between key file and sidecar, the sidecar is empty or missing.
    let is_here = names.contains(&begun.file) || names.contains(&sidecar_name(&begun.file));
    let (name, _) = FileName::parse(&begun.file).filter(|_| is_here)?;
    Some(name)
}

/// Continues the chain where it was found, which may be in an older file than the current one.
fn continue_chain<F: Fs>(
    fs: &F,
    dir: &Path,
    options: &SealOptions,
    key: KeyFile,
    found: ResumedChain<F>,
    log: &Log<'_, F::File>,
) -> Result<Begin<F>, FileError> {
    let ResumedChain { position, sidecar, out, log_synced_bytes } = found;
    let is_shorter = position.file == log.name && log.bytes < position.offset;
    if is_shorter || position.file.as_str() > log.name {
        return Ok(Begin::NeedsNewFile);
    }
    let root = key.root.clone();
    let file = position.file.clone();
    let chain = Chain::new(key, position);
    let mut sealer = Sealer::new(dir, options, chain, Some(sidecar), out, fs.now_s());
    if let Some(begun) = sealer.files.front_mut() {
        begun.synced = log_synced_bytes;
    }
    let recovered_bytes = recover(fs, dir, &mut sealer, &file, log)?;
    // The previous writer may have died after a failed sync.
    sealer.doubt_logs();
    let next = sealer.files.get(1).map(|file| file.reason);
    let declared = next.filter(|reason| *reason != EpochReason::Rotate);
    if sealer.files.len() == 1 {
        // Everything that was reported before belongs to the previous key.
        sealer.wanted = Some(CheckpointReason::Start);
    }
    sealer.drive(fs)?;
    // Lines after the checkpoint of a stop belong to no epoch until this entry is there, too.
    sealer.sync(fs)?;
    let key_file = options.key_file.clone();
    let sealed = Sealed { root, key_file, is_new_root: false, declared, recovered_bytes };
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
    let chain = Chain::new(key, position);
    let mut sealer = Sealer::new(dir, options, chain, None, Vec::new(), fs.now_s());
    sealer.begin_epoch(fs, reason, log.name)?;
    sealer.drive(fs)?;
    let declared = (reason != EpochReason::First).then_some(reason);
    let is_new_root = reason.is_by_root();
    let key_file = options.key_file.clone();
    let sealed = Sealed { root, key_file, is_new_root, declared, recovered_bytes: 0 };
    Ok(Begin::Ready(Box::new((sealer, sealed))))
}

/// Reports all lines without a frame to the sealer: at the end of the chain's file, and in later
/// files up to the current one. Returns their total length, bytes.
fn recover<F: Fs>(
    fs: &F,
    dir: &Path,
    sealer: &mut Sealer<F>,
    begun: &str,
    log: &Log<'_, F::File>,
) -> Result<u64, FileError> {
    let mut bytes = 0;
    for (name, form) in entries::list(fs, dir)? {
        let entry = name.log_file();
        let is_between = entry.as_str() >= begun && entry.as_str() <= log.name;
        if form != Form::Plain || !is_between || !log.made.may_be_ours(name) {
            continue;
        }
        if entry.as_str() > begun {
            // A file that was truncated below its seal is left for a new one.
            let end = sealer.end();
            let path = dir.join(begun);
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
        let end = lines::line_end(&file, length).at("read", &path)?;
        if end > start {
            sealer.appended_in_file(&file, &path, start, end)?;
            bytes += end - start;
        }
    }
    if sealer.files.back().is_some_and(|file| file.file != log.name) {
        // Another process changed the directory meanwhile; the lock excludes other writers only.
        return Err(FileError::of_kind(FileErrorKind::FileGone, "seal", &dir.join(log.name)));
    }
    Ok(bytes)
}
