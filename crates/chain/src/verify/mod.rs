//! The reading side: is the log what was recorded?
//!
//! Everything in the directory is hostile. Files are read once, from the start to the end, in
//! bounded memory; what is kept is a few words for each file and key. Nothing that a signature
//! does not cover is believed, but after something bad has been found the rest is still read,
//! with what it says of itself, so that one report has all of it.

mod content;
mod end;
mod frames;
mod removed;
mod report;
mod signed;
mod walk;

use std::collections::BTreeMap;
use std::io::{self, Read};

pub use report::{Finding, Report, State};
use walk::Place;

use crate::entry::{Checkpoint, is_stem};
use crate::key::VerifierKey;
use crate::note::Note;
use crate::{REMOVED_FILE, SIDECAR_ENDING};

/// A log directory.
pub trait Directory {
    /// Names in it, in any order.
    ///
    /// # Errors
    /// When it cannot be read.
    fn names(&self) -> io::Result<Vec<String>>;

    /// A file from its start; one that ends in `.zst` decompressed. An error without an error
    /// number of the operating system means that the content makes no sense.
    ///
    /// # Errors
    /// When it cannot be read.
    fn open(&self, name: &str) -> io::Result<Box<dyn Read + '_>>;
}

/// What a verification needs to know.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Root keys that are believed.
    pub keys: Vec<VerifierKey>,
    /// A checkpoint that the log must contain: a note.
    pub expect: Option<String>,
}

/// A text that is no checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a checkpoint")]
pub struct NotACheckpoint;

/// Reads a checkpoint; whether its signature is good is not looked at.
///
/// # Errors
/// [`NotACheckpoint`]
pub fn read_checkpoint(note: &str) -> Result<Checkpoint, NotACheckpoint> {
    let note = Note::parse(note).ok_or(NotACheckpoint)?;
    Checkpoint::parse(&note.text).map_err(|_| NotACheckpoint)
}

/// Verifies a log directory. `progress` is told of bytes that were read since it was last told.
///
/// # Errors
/// When something cannot be read for a reason that lies in the machine, not in the log.
pub fn verify(
    directory: &dyn Directory,
    options: &Options,
    progress: &mut dyn FnMut(u64),
) -> io::Result<Report> {
    let mut walk = walk::Walk::new(directory, options, progress);
    let removed = removed::Removed::read(directory, &mut walk)?;
    let mut stems = list(directory, &removed)?;
    loop {
        let last = stems.keys().next_back().cloned();
        let is_sealed = |(_, parts): &(&String, &Parts)| parts.sidecar;
        let last_sealed = stems.iter().rfind(is_sealed).map(|(stem, _)| stem.clone());
        for (stem, parts) in &stems {
            let is_newest = last.as_ref() == Some(stem);
            let is_last_sealed = last_sealed.as_ref().is_none_or(|last| last <= stem);
            walk.file(stem, parts, &removed, Place { is_newest, is_last_sealed })?;
        }
        // Rotated while it was being read: the rest is read, too.
        let Some(last) = last.filter(|_| walk.expects_more()) else { break };
        stems = list(directory, &removed)?.split_off(&last);
        stems.remove(&last);
        if stems.is_empty() {
            break;
        }
    }
    removed.check(&mut walk);
    Ok(walk.finish(&removed))
}

/// What there is of a log file.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Parts {
    plain: bool,
    compressed: bool,
    sidecar: bool,
}

fn list(
    directory: &dyn Directory,
    removed: &removed::Removed,
) -> io::Result<BTreeMap<String, Parts>> {
    let mut stems: BTreeMap<String, Parts> = BTreeMap::new();
    for name in directory.names()? {
        let Some((stem, ending)) = name.split_once('.') else { continue };
        if !is_stem(stem) {
            continue;
        }
        match ending {
            "jsonl" => stems.entry(stem.to_owned()).or_default().plain = true,
            "jsonl.zst" => stems.entry(stem.to_owned()).or_default().compressed = true,
            SIDECAR_ENDING => stems.entry(stem.to_owned()).or_default().sidecar = true,
            _ => {}
        }
    }
    for stem in removed.stems() {
        stems.entry(stem.to_owned()).or_default();
    }
    Ok(stems)
}

/// Opens the tombstones; `None`: there are none.
fn open_removed(directory: &dyn Directory) -> io::Result<Option<Box<dyn Read + '_>>> {
    if directory.names()?.iter().any(|name| name == REMOVED_FILE) {
        return directory.open(REMOVED_FILE).map(Some);
    }
    Ok(None)
}
