//! Which files retention would remove now, and when the next one is due: what the recorder decides,
//! asked again and again as if each due file had been removed.
//!
//! It needs no lock and changes nothing. Whether a due file waits for a hub is the decision of the
//! caller ([`Planned::unshipped`]), as for the recorder. It lacks the facts that only a running
//! recorder knows: its rate limits, and files that it is packing.

use std::collections::BTreeMap;
use std::path::Path;

use crate::ending::list_parts;
use crate::error::{At, FileError};
use crate::fs::Fs;
use crate::made::{Listed, Made};
use crate::name::FileName;
use crate::retain::{ClosedFiles, Due, Keep};
use crate::shipped::Unshipped;
use crate::sizes::bytes_of;
use crate::write::directory::DirView;

/// A file that would be removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Planned {
    /// The file, once for each reason; the first one is that of the tombstone.
    pub due: Vec<Due>,
    /// Bytes of the file with everything that belongs to it.
    pub bytes: u64,
    /// When it ended, s since 1970-01-01 UTC.
    pub ended_s: i64,
    /// Why it does not count as shipped. `None`: all hubs have it, or there is no hub.
    pub unshipped: Option<Unshipped>,
}

impl Planned {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> Option<FileName> {
        self.due.first().map(|due| due.name)
    }
}

/// The oldest file that stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Next {
    /// Its name.
    pub name: FileName,
    /// When it ended, s since 1970-01-01 UTC.
    pub ended_s: i64,
}

/// The decisions of retention.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preview {
    /// The files that are due, oldest first.
    pub planned: Vec<Planned>,
    /// The oldest closed file that is not due.
    pub next: Option<Next>,
    /// The file that is written, or was written last.
    pub current: FileName,
    /// Number of closed files.
    pub closed_count: u64,
    /// Bytes of all files, as the limit by size counts them.
    pub bytes: u64,
    /// A due file stays because the last line of the log may be in it.
    pub keeps_last_line: Option<FileName>,
    /// The newest name is more than a day in the future, so no file expires before that.
    pub is_ahead: bool,
    /// The oldest entry that is skipped because it is not a regular file.
    pub skipped: Option<FileName>,
    /// Why `.shipped` is ignored: others may have created it.
    pub shipped_ignored: Option<String>,
}

/// Asks what retention would do in a log directory. `None`: it has no log file.
///
/// # Errors
/// The directory cannot be read.
pub fn preview<F: Fs>(fs: &F, path: &Path, keep: &Keep) -> Result<Option<Preview>, FileError> {
    let dir = DirView { fs, path };
    let Some(current) = current(dir)? else { return Ok(None) };
    let mut closed = ClosedFiles::list(dir, current)?;
    let mut sizes = BTreeMap::new();
    for (name, parts) in closed.parts() {
        sizes.insert(*name, bytes_of(dir, *name, *parts)?);
    }
    let total = |sizes: &BTreeMap<FileName, u64>| {
        sizes.values().fold(0_u64, |sum, bytes| sum.saturating_add(*bytes))
    };
    let mut found = Preview {
        planned: Vec::new(),
        next: None,
        current,
        closed_count: closed.names().len() as u64,
        bytes: total(&sizes),
        keeps_last_line: None,
        is_ahead: false,
        skipped: None,
        shipped_ignored: None,
    };
    loop {
        let outlook = closed.outlook(dir, keep, || Ok(total(&sizes)))?;
        found.is_ahead = outlook.is_ahead;
        found.skipped = found.skipped.or(outlook.skipped);
        if outlook.shipped_ignored.is_some() {
            found.shipped_ignored = outlook.shipped_ignored;
        }
        let Some(&Due { name, .. }) = outlook.due.first() else { break };
        if closed.last_lines_may_be_in(dir, name)? {
            found.keeps_last_line = Some(name);
            break;
        }
        let bytes = sizes.remove(&name).unwrap_or(0);
        let (due, ended_s, unshipped) = (outlook.due, outlook.ended_s, outlook.unshipped);
        found.planned.push(Planned { due, bytes, ended_s, unshipped });
        closed.forget(name);
    }
    let is_skipped = |name: &&FileName| found.skipped == Some(**name);
    let next = closed.names().iter().find(|name| !is_skipped(name)).copied();
    found.next = next.map(|name| Next { name, ended_s: closed.ended_s(name) });
    Ok(Some(found))
}

/// The file that is written, or was written last: the newest one that the recorder created.
fn current<F: Fs>(dir: DirView<'_, F>) -> Result<Option<FileName>, FileError> {
    let DirView { fs, path } = dir;
    fs.list(path).at("list", path)?;
    let newest = || -> Result<Option<FileName>, FileError> {
        let parts = list_parts(fs, path)?;
        Ok(parts.iter().rev().find(|(_, parts)| parts.has_lines()).map(|(name, _)| *name))
    };
    match Made::read(fs, path)? {
        Listed::Ours(made) if made.newest().is_some() => Ok(made.newest()),
        // A copy of a log does not have the list.
        Listed::Ours(_) | Listed::Foreign => newest(),
    }
}

#[cfg(test)]
mod tests;
