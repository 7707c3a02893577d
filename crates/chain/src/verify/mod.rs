//! The reading side: is the log unchanged since it was recorded?
//!
//! Everything in the directory is hostile. Files are read once, from start to end, in bounded
//! memory; a few words are kept for each file and key. Only signed data is trusted, but after a bad
//! finding the rest is still read and taken at its word, so that one report covers all of it.

mod content;
mod end;
mod follow;
mod forms;
mod frames;
mod missing;
mod removed;
mod report;
mod signed;
mod strays;
mod walk;

use std::collections::{BTreeMap, HashSet};
use std::io::{self, Read};

pub use follow::{Follower, GrowingDirectory, Sealed};
pub use report::{Finding, LogState, Report};
use walk::FileRank;

use crate::entry::{Checkpoint, is_stem};
use crate::key::VerifierKey;
use crate::note::Note;
use crate::{HUB_REMOVED_FILE, REMOVED_FILE, SIDECAR_ENDING};

/// A log directory.
pub trait Directory {
    /// Names in it, in any order.
    ///
    /// # Errors
    /// If it cannot be read.
    fn names(&self) -> io::Result<Vec<String>>;

    /// A file from its start; one that ends in `.age` decrypted, one that ends in `.zst` before
    /// that decompressed. An error without an error number of the operating system means that the
    /// content cannot be decoded, or, if it is made of [`Locked`], that no given key decrypts it.
    ///
    /// # Errors
    /// If it cannot be read.
    fn open(&self, name: &str) -> io::Result<Box<dyn Read + '_>>;

    /// Whether to list the directory again before a file at the end of the log counts as one
    /// without a sidecar. `looks`: how often that was done. A recorder at work may have begun
    /// several files in one batch; their sidecars follow at its end.
    fn look_again(&self, looks: u32) -> bool {
        looks == 0
    }
}

/// An encrypted file that none of the given secret keys opens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("encrypted, and no --identity opens it")]
pub struct Locked;

impl From<Locked> for io::Error {
    fn from(locked: Locked) -> io::Error {
        io::Error::new(io::ErrorKind::PermissionDenied, locked)
    }
}

impl Locked {
    /// Whether an error is that of such a file.
    #[must_use]
    pub fn is(error: &io::Error) -> bool {
        error.get_ref().is_some_and(|inner| inner.is::<Locked>())
    }
}

/// The endings of log files. If a log file has several forms, readers take the first.
const LOG_ENDINGS: [&str; 5] = ["jsonl", "jsonl.zst", "jsonl.zst.age", "jsonl.age", "jsonl.tcol"];

/// The options of a verification.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Trusted root keys.
    pub keys: Vec<VerifierKey>,
    /// A checkpoint that the log must contain: a note.
    pub expect: Option<String>,
    /// Keys of hubs that may have removed files from their copies of the log.
    pub hub_keys: Vec<VerifierKey>,
}

/// A text that is not a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a checkpoint")]
pub struct NotACheckpoint;

/// Reads a checkpoint without checking its signature.
///
/// # Errors
/// [`NotACheckpoint`]
pub fn read_checkpoint(note: &str) -> Result<Checkpoint, NotACheckpoint> {
    let note = Note::parse(note).ok_or(NotACheckpoint)?;
    Checkpoint::parse(&note.text).map_err(|_| NotACheckpoint)
}

/// Verifies a log directory. `progress` gets the number of bytes read since its last call.
///
/// # Errors
/// If something cannot be read because of the machine, not because of the log.
pub fn verify(
    directory: &dyn Directory,
    options: &Options,
    progress: &mut dyn FnMut(u64),
) -> io::Result<Report> {
    let mut walk = walk::Walk::new(directory, options, progress);
    let mut listing = Listing::read(directory)?;
    let mut again = 0;
    let mut looks = 0;
    while let Some((stem, parts)) = listing.stems.pop_first() {
        if listing.is_in_batch(&stem, &parts, walk.expects_more()) && directory.look_again(looks) {
            looks += 1;
            listing = listing.again_from(directory, &stem)?;
            continue;
        }
        let is_last_sealed = listing.last_sealed.as_ref().is_none_or(|last| *last <= stem);
        let place = FileRank { is_newest: listing.stems.is_empty(), is_last_sealed };
        if walk.file(&stem, &parts, &listing.removed, place)? == walk::Walked::Vanished {
            // Compressed or removed since the names were read: list it again.
            again += 1;
            listing = listing.again_from(directory, &stem)?;
            if again > AGAIN_MAX {
                // No entry of the directory may keep the rest from being read.
                let text = "is listed in the directory, but could not be opened";
                walk.say(LogState::Modified, &format!("{stem}.jsonl"), None, text);
                listing.stems.remove(&stem);
                again = 0;
            }
            continue;
        }
        again = 0;
        if listing.stems.is_empty() && walk.expects_more() {
            // Rotated during the verification: read the new files, too.
            listing = listing.again_from(directory, &stem)?;
            listing.stems.remove(&stem);
        }
    }
    listing.removed.check(&mut walk);
    walk.strays(&listing.names);
    Ok(walk.finish(&listing.removed))
}

/// A log directory as it was at one moment.
struct Listing {
    names: Vec<String>,
    removed: removed::Removed,
    /// The files that are still to be read.
    stems: BTreeMap<String, Parts>,
    /// The newest file with a sidecar. Computed once: there may be a million tombstones.
    last_sealed: Option<String>,
}

impl Listing {
    /// First the names, then the tombstones: a file that is removed in between has one.
    fn read(directory: &dyn Directory) -> io::Result<Self> {
        let names = names_in(directory)?;
        let removed = removed::Removed::read(directory)?;
        let stems = list(&names, &removed);
        let last_sealed = newest_sidecar(&stems);
        Ok(Self { names, removed, stems, last_sealed })
    }

    /// Whether the recorder may be between a file and its sidecar, before `stem` is read.
    /// `is_ended`: the file before it is sealed to its end.
    ///
    /// The last sealed file is not read then, either: the entry that ends it is written with the
    /// sidecar of the next file. Without that entry, the next file would not continue it.
    fn is_in_batch(&self, stem: &str, parts: &Parts, is_ended: bool) -> bool {
        let Some(last) = self.last_sealed.as_deref() else { return false };
        let is_last = last == stem && self.stems.values().any(Parts::has_log);
        is_last || (last < stem && parts.has_log() && is_ended)
    }

    /// The directory as it is now, from a file on.
    fn again_from(self, directory: &dyn Directory, stem: &str) -> io::Result<Self> {
        let mut now = Self::read(directory)?;
        now.stems = now.stems.split_off(stem);
        let before = self.last_sealed.filter(|last| last.as_str() < stem);
        now.last_sealed = newest_sidecar(&now.stems).or(before);
        Ok(now)
    }
}

/// Names in a directory to which files are being added. An entry that is made while a directory is
/// read may be missing although a newer one is there (readdir(3)), so it is read twice: whatever is
/// as old as the newest file of the first reading is complete in the second one. That holds for log
/// files and for sidecars separately: sidecars are made later.
fn names_in(directory: &dyn Directory) -> io::Result<Vec<String>> {
    let mut names = directory.names()?;
    let first: HashSet<String> = names.iter().cloned().collect();
    let stems = || first.iter().filter_map(|name| Some((stem_of(name)?, name)));
    let Some(newest) = stems().map(|(stem, _)| stem).max() else {
        return Ok(names);
    };
    let sidecars = stems().filter(|(_, name)| is_sidecar(name)).map(|(stem, _)| stem);
    let newest_sidecar = sidecars.max().unwrap_or(newest);
    let is_late = |name: &String| {
        let newest = if is_sidecar(name) { newest_sidecar } else { newest };
        !first.contains(name) && stem_of(name).is_some_and(|stem| stem <= newest)
    };
    names.extend(directory.names()?.into_iter().filter(is_late));
    Ok(names)
}

fn is_sidecar(name: &str) -> bool {
    name.split_once('.').is_some_and(|(_, ending)| ending == SIDECAR_ENDING)
}

fn stem_of(name: &str) -> Option<&str> {
    name.split_once('.').map(|(stem, _)| stem).filter(|stem| is_stem(stem))
}

fn newest_sidecar(stems: &BTreeMap<String, Parts>) -> Option<String> {
    stems.iter().rev().find(|(_, parts)| parts.sidecar).map(|(stem, _)| stem.clone())
}

/// How often to retry a file that was there a moment ago.
const AGAIN_MAX: u32 = 3;

/// The existing parts of a log file.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Parts {
    /// Which of [`LOG_ENDINGS`] exist.
    logs: [bool; LOG_ENDINGS.len()],
    sidecar: bool,
}

impl Parts {
    fn has_log(&self) -> bool {
        self.logs.contains(&true)
    }
}

fn list(names: &[String], removed: &removed::Removed) -> BTreeMap<String, Parts> {
    let mut stems: BTreeMap<String, Parts> = BTreeMap::new();
    for name in names {
        note_name(&mut stems, name);
    }
    for stem in removed.stems() {
        stems.entry(stem.to_owned()).or_default();
    }
    stems
}

/// Notes a part of a log file. Returns its name without ending.
fn note_name<'a>(stems: &mut BTreeMap<String, Parts>, name: &'a str) -> Option<&'a str> {
    let (stem, ending) = name.split_once('.').filter(|(stem, _)| is_stem(stem))?;
    if ending == SIDECAR_ENDING {
        stems.entry(stem.to_owned()).or_default().sidecar = true;
    } else {
        let form = LOG_ENDINGS.iter().position(|known| *known == ending)?;
        stems.entry(stem.to_owned()).or_default().logs[form] = true;
    }
    Some(stem)
}

/// Opens a list of tombstones; `None`: there are none.
fn open_list<'a>(
    directory: &'a dyn Directory,
    list: &str,
) -> io::Result<Option<Box<dyn Read + 'a>>> {
    if directory.names()?.iter().any(|name| name == list) {
        return directory.open(list).map(Some);
    }
    Ok(None)
}
