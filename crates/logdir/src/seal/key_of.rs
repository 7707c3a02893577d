//! Which key file belongs to a log directory.
//!
//! The setting names one file, and a server may get another log directory. A key that signs two
//! logs breaks the chains of both. So each key file names its log directory. If the named key file
//! belongs to another directory, this directory has a key file of its own beside it: `<name>-<16
//! digits>.<extension>`, with the digits of the log's origin.
//!
//! A directory that was renamed, moved or mounted elsewhere has sidecars that name the root of its
//! key. A key file of this root that names another directory is used only if it continues exactly
//! where the sidecars end: a copy of a log must not take the key from its original.

use std::ffi::OsString;
use std::io::BufReader;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use tacho_chain::key::VerifierKey;
use tacho_chain::key_file::KeyFile;
use tacho_chain::sidecar::{Entries, Meaning};

use super::resume::{is_sidecar, read_key, resume};
use super::scan::ReadAt;
use crate::error::{At, FileError};
use crate::fs::{Fs, OpenMode};

/// Digits in an origin.
const DIGITS: usize = 16;

/// The key file of a log directory.
pub(super) struct KeyOf {
    /// Path of the log directory, as stored in the key file.
    pub(super) directory: Vec<u8>,
    pub(super) place: KeyPlace,
}

/// Path of the key file.
pub(super) enum KeyPlace {
    There(PathBuf, Box<KeyFile>),
    /// There is none; a new one belongs into the named file.
    Named,
    /// There is none, and the named file belongs to another log.
    Beside,
}

impl KeyOf {
    /// Whether there is a key.
    pub(super) fn is_there(&self) -> bool {
        matches!(self.place, KeyPlace::There(..))
    }
}

/// Finds the key file of the log directory `dir`, which has the files `names`. `named`: the file in
/// the setting.
pub(super) fn find<F: Fs>(
    fs: &F,
    dir: &Path,
    named: &Path,
    names: &[String],
) -> Result<KeyOf, FileError> {
    let directory = fs.canonical(dir).at("look at", dir)?.as_os_str().as_bytes().to_vec();
    let place = place(fs, dir, &directory, named, names)?;
    Ok(KeyOf { directory, place })
}

fn place<F: Fs>(
    fs: &F,
    dir: &Path,
    directory: &[u8],
    named: &Path,
    names: &[String],
) -> Result<KeyPlace, FileError> {
    let is_of = |key: &KeyFile| key.directory.as_deref() == Some(directory);
    let there = |path: &Path, key| Ok(KeyPlace::There(path.to_owned(), Box::new(key)));
    let at_name = match read_key(fs, named) {
        Ok(Some(key)) if is_of(&key) => return there(named, key),
        at_name => at_name,
    };
    let mut others = Vec::new();
    for (path, digits) in siblings(fs, named)? {
        match read_key(fs, &path) {
            Ok(Some(key)) if is_of(&key) => return there(&path, key),
            other => others.push((path, digits, other)),
        }
    }
    let at_name = match at_name? {
        // Created by `tacho keygen`.
        Some(key) if key.directory.is_none() && key.epoch == 0 => return there(named, key),
        at_name => at_name,
    };
    let roots = roots(fs, dir, names)?;
    let is_ours = |key: &KeyFile| -> Result<bool, FileError> {
        // Key files of version 1 do not name their directory.
        Ok(roots.contains(&key.root)
            && (key.directory.is_none() || continues(fs, dir, key, names)?))
    };
    let none = if at_name.is_some() { KeyPlace::Beside } else { KeyPlace::Named };
    if let Some(key) = at_name
        && is_ours(&key)?
    {
        return there(named, key);
    }
    for (path, digits, other) in others {
        let is_of_root = |root: &VerifierKey| root.origin().ends_with(&digits);
        match other {
            Ok(Some(key)) if is_ours(&key)? => return there(&path, key),
            // SQL can create files with such names in the data directory, but not private ones.
            Err(error) if roots.iter().any(is_of_root) => return Err(error),
            _ => {}
        }
    }
    Ok(none)
}

/// Whether a key continues exactly where the sidecars of a directory end.
fn continues<F: Fs>(
    fs: &F,
    dir: &Path,
    key: &KeyFile,
    names: &[String],
) -> Result<bool, FileError> {
    let Some(begun) = key.begun() else { return Ok(false) };
    Ok(resume(fs, dir, key, &begun, names)?.is_some())
}

/// The parts before and after the digits.
fn parts(named: &Path) -> (OsString, OsString) {
    let mut head = named.file_stem().unwrap_or_default().to_owned();
    head.push("-");
    let mut tail = OsString::new();
    if let Some(extension) = named.extension() {
        tail.push(".");
        tail.push(extension);
    }
    (head, tail)
}

/// Path of the key if the named file belongs to another log.
pub(super) fn beside(named: &Path, root: &VerifierKey) -> PathBuf {
    let (mut name, tail) = parts(named);
    let origin = root.origin();
    name.push(&origin[origin.len().saturating_sub(DIGITS)..]);
    name.push(tail);
    named.with_file_name(name)
}

/// All key files beside the named one with the digits of an origin in their names, and these
/// digits.
fn siblings<F: Fs>(fs: &F, named: &Path) -> Result<Vec<(PathBuf, String)>, FileError> {
    let dir = match named.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir,
        _ => Path::new("."),
    };
    let (head, tail) = parts(named);
    let digits = |name: &str| {
        let rest = name.as_bytes().strip_prefix(head.as_bytes());
        let digits = rest.and_then(|rest| rest.strip_suffix(tail.as_bytes()))?;
        let is_origin = digits.len() == DIGITS
            && digits.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        is_origin.then(|| String::from_utf8_lossy(digits).into_owned())
    };
    let mut names = fs.list(dir).at("list", dir)?;
    names.sort();
    let found = names.iter().filter_map(|name| Some((named.with_file_name(name), digits(name)?)));
    Ok(found.collect())
}

/// The roots in the sidecars of a directory.
fn roots<F: Fs>(fs: &F, dir: &Path, names: &[String]) -> Result<Vec<VerifierKey>, FileError> {
    let mut roots = Vec::new();
    for name in names.iter().filter(|name| is_sidecar(name)) {
        let path = dir.join(name);
        if !fs.stat(&path).at("look at", &path)?.is_file {
            continue;
        }
        let file = fs.open(&path, OpenMode::Read).at("open", &path)?;
        let mut entries = Entries::new(BufReader::new(ReadAt { file: &file, offset: 0 }));
        let entry = entries.next_entry().at("read", &path)?;
        if let Some(Meaning::Epoch(epoch, _)) = entry.and_then(|entry| entry.meaning)
            && !roots.contains(&epoch.root)
        {
            roots.push(epoch.root);
        }
    }
    Ok(roots)
}
