//! Another generation: after a log directory contradicts its replica.
//!
//! `<generation>.json` beside the directory of a generation says why it began.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;

use serde::{Deserialize, Serialize};
use tacho_ship::protocol::FileName;
use tacho_ship::protocol::answers::NewGeneration;

use super::Refusal;
use super::names::{UNFINISHED, files, generations, link, remove_unfinished};
use super::removed::Removed;
use super::replica::{Replica, make};
use super::space::sync_directory;
use crate::say::say;

/// What a name in a directory may need on the disk.
const LINK_BYTES: u64 = 256;

/// Why a generation began.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Beginning {
    /// When, µs since 1970-01-01 UTC.
    pub time_us: i64,
    /// What the shipper has found.
    #[serde(flatten)]
    pub request: NewGeneration,
}

impl Replica {
    /// Begins the next generation, which has the older files in common with the current one. A
    /// crash leaves either both generations or the current one alone.
    pub(super) fn begin_generation(
        &mut self,
        request: &NewGeneration,
        now_us: i64,
        reserve_bytes: u64,
    ) -> Result<(), Refusal> {
        let names = self.offsets.len() as u64;
        self.require_space(reserve_bytes, names.saturating_mul(LINK_BYTES))?;
        let result = self.try_begin_generation(request, now_us);
        if result.is_err()
            && let Err(error) = remove_unfinished(&self.root)
        {
            say(&format!("{}: cannot remove an unfinished generation: {error}", self.origin));
        }
        Ok(result?)
    }

    fn try_begin_generation(&mut self, request: &NewGeneration, now_us: i64) -> io::Result<()> {
        let next = self.generation + 1;
        let unfinished = self.root.join(format!("{UNFINISHED}{next}"));
        remove_unfinished(&self.root)?;
        make(&unfinished)?;
        self.close_all();
        let offsets: BTreeMap<FileName, u64> = (self.offsets.iter())
            .filter(|(name, _)| is_shared(name, &request.file))
            .map(|(name, offset)| (name.clone(), *offset))
            .collect();
        for name in offsets.keys() {
            link(&self.path(), &unfinished, name)?;
        }
        self.link_empty_files(offsets.keys(), &unfinished)?;
        let removed = self.copy_removed(&unfinished, |name| is_shared(name, &request.file))?;
        sync_directory(&unfinished)?;
        let beginning = Beginning { time_us: now_us, request: request.clone() };
        write_json(&self.root, &format!("{next}.json"), &beginning)?;
        std::fs::rename(&unfinished, self.root.join(next.to_string()))?;
        self.enter(next, offsets, removed);
        self.sync_name()?;
        self.see_newest_line()
    }
}

/// The files of all generations, as they are on the disk.
#[derive(Default)]
pub struct History {
    /// Generation, file and length: all files of the current generation, and those of former ones
    /// that got bytes there.
    pub files: Vec<(u64, FileName, u64)>,
    /// How many of them are in former generations.
    pub former_files: usize,
    /// Files of the current generation that got nothing in it.
    pub inherited: BTreeSet<FileName>,
}

/// Reads names and lengths in the directory of all generations of an origin.
pub fn history(root: &Path) -> io::Result<History> {
    let mut history = History::default();
    let mut former = BTreeMap::new();
    for generation in generations(root)? {
        let directory = root.join(generation.to_string());
        let removed = Removed::read(&directory)?;
        let mut files = files(&directory)?;
        files.retain(|name, _| !removed.has(name));
        let contradicted = contradicted(root, generation)?;
        let is_inherited = |name: &FileName, length: u64| {
            let is_shared = contradicted.as_ref().is_some_and(|first| is_shared(name, first));
            is_shared && former.get(name) == Some(&length)
        };
        // The generation before is a former one.
        let inherited = std::mem::take(&mut history.inherited);
        history.files.retain(|(at, name, _)| at + 1 < generation || !inherited.contains(name));
        history.former_files = history.files.len();
        for (name, length) in files.iter().filter(|(_, length)| **length > 0) {
            history.files.push((generation, name.clone(), *length));
            if is_inherited(name, *length) {
                history.inherited.insert(name.clone());
            }
        }
        former = files;
    }
    Ok(history)
}

/// Why each later generation of an origin began. `root`: the directory of all generations.
///
/// # Errors
/// A file cannot be read.
pub fn beginnings(root: &Path) -> io::Result<Vec<(u64, Beginning)>> {
    let mut beginnings = Vec::new();
    for generation in generations(root)? {
        beginnings.extend(beginning(root, generation)?.map(|it| (generation, it)));
    }
    Ok(beginnings)
}

/// The file because of which a generation began.
fn contradicted(root: &Path, generation: u64) -> io::Result<Option<FileName>> {
    Ok(beginning(root, generation)?.map(|beginning| beginning.request.file))
}

fn beginning(root: &Path, generation: u64) -> io::Result<Option<Beginning>> {
    let text = match std::fs::read(root.join(format!("{generation}.json"))) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        text => text?,
    };
    let beginning = serde_json::from_slice::<Beginning>(&text);
    if let Err(error) = &beginning {
        say(&format!("{}: {generation}.json: {error}", root.display()));
    }
    Ok(beginning.ok())
}

/// Whether both generations have a file: it is older than the one that contradicts.
fn is_shared(name: &FileName, contradicted: &FileName) -> bool {
    match (name.stem(), contradicted.stem()) {
        (None, _) => false,
        (Some(_), None) => true,
        (Some(stem), Some(first)) => stem < first,
    }
}

pub(super) fn write_json(directory: &Path, name: &str, value: &impl Serialize) -> io::Result<()> {
    let unfinished = directory.join(format!("{UNFINISHED}{name}"));
    let mut file = File::create(&unfinished)?;
    serde_json::to_writer(&mut file, value)?;
    file.write_all(b"\n")?;
    file.sync_all()?;
    std::fs::rename(&unfinished, directory.join(name))
}
