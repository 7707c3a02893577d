//! Retention: which closed files have to go, and how they go.
//!
//! Oldest first, one at a time, never the file that is written, and never the one with the last
//! line: the next start needs its `seq`. The steps of a removal, each of which may be the last one
//! before the process dies or the machine stops; all of them are simply done again:
//!
//! 1. The tombstone is on the device ([`LogFiles::bury`](super::LogFiles::bury)).
//! 2. The log file goes, in all its forms.
//! 3. When that is on the device, its sidecar goes ([`LogFiles::remove`](super::LogFiles::remove)). A sidecar with a tombstone
//!    and without a log file is what a crash between the two has left
//!    ([`LogFiles::finish_removals`](super::LogFiles::finish_removals)).
//!
//! A file has ended when the next one began, which the name of that one tells. Nothing else of it
//! is asked: times of modification are changed by copies, and those of records are those of the
//! same clock.

use std::collections::BTreeMap;
use std::io;

use tacho_chain::entry::RemovalReason;

use super::ending::{Ending, Parts, list_parts};
use super::entries;
use super::error::{At, FileError, LastSeqError};
use super::form::Form;
use super::fs::{Fs, FsFile as _};
use super::lines;
use super::name::FileName;
use super::sizes::is_secondary;
use super::tail;
use super::write::current::Current;
use super::write::directory::LogDir;

/// What is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Keep {
    /// Files that ended longer ago go, days; 0: none.
    pub days: u64,
    /// When all files of the log are larger than this together, the oldest go; 0: none.
    pub bytes: u64,
    /// When there are more closed files than this, the oldest go; 0: none.
    pub files: u64,
}

/// A file that is not kept any longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due {
    /// Its name.
    pub name: FileName,
    /// Why it goes.
    pub reason: RemovalReason,
}

/// What retention finds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outlook {
    /// The oldest file, once for each reason for which it has to go: size, count, age. Empty: it stays.
    pub due: Vec<Due>,
    /// How many files are older than what is kept.
    pub old_count: u64,
    /// How many closed files there are beyond the number that is kept.
    pub excess_count: u64,
    /// How many files there are that are not written any more.
    pub closed_count: u64,
    /// The newest name is of a time that has not come yet by more than a day: what was begun at such a
    /// time does not become old until then.
    pub is_ahead: bool,
    /// The oldest one that is not looked at, because it is no plain file.
    pub passed_over: Option<FileName>,
}

/// Why a file that has to go stays.
#[derive(Debug, thiserror::Error)]
pub enum RetainError {
    /// Something did not work.
    #[error(transparent)]
    File(#[from] FileError),
    /// There is no key to sign its tombstone with.
    #[error(
        "{0} is sealed and this recorder is not sealing: it stays, with all that are newer, \
         because nothing could tell later why it is gone. Let the recorder seal the log again, or \
         remove the file and its .chain file by hand"
    )]
    NoKey(String),
}

const DAY_S: u64 = 86_400;

/// The files that are not written any more, and what there is of each file.
pub(crate) struct ClosedFiles {
    parts: BTreeMap<FileName, Parts>,
    /// Oldest first.
    names: Vec<FileName>,
    current: FileName,
}

impl ClosedFiles {
    pub(crate) fn list<F: Fs>(
        dir: &LogDir<F>,
        current: FileName,
    ) -> Result<ClosedFiles, FileError> {
        let parts = list_parts(dir.fs(), dir.path())?;
        let has_lines = parts.iter().filter(|(_, parts)| parts.has_lines());
        // What somebody has put behind the current file is none of ours.
        let names = has_lines.map(|(name, _)| *name).filter(|name| *name < current).collect();
        Ok(ClosedFiles { parts, names, current })
    }

    /// What there is of each file of the log.
    pub(crate) fn parts(&self) -> &BTreeMap<FileName, Parts> {
        &self.parts
    }

    /// Looks which file has to go next. `total`: how long all files are together, bytes.
    pub(crate) fn outlook<F: Fs>(
        &self,
        dir: &LogDir<F>,
        keep: &Keep,
        total: impl FnOnce() -> Result<u64, FileError>,
    ) -> Result<Outlook, FileError> {
        let now_s = dir.fs().now_s();
        let mut outlook = Outlook {
            is_ahead: self.current.stamp_s() > now_s.saturating_add(DAY_S as i64),
            closed_count: self.names.len() as u64,
            old_count: self.old_count(keep, now_s),
            ..Outlook::default()
        };
        let Some(name) = self.oldest_plain(dir, keep, &mut outlook)? else { return Ok(outlook) };
        // First the reason that no brake holds: whatever the clock says, and however many are begun.
        if keep.bytes > 0 && total()? > keep.bytes {
            outlook.due.push(Due { name, reason: RemovalReason::Size });
        }
        if outlook.excess_count > 0 {
            outlook.due.push(Due { name, reason: RemovalReason::Count });
        }
        // The ends of files never go back in time, so the old ones are the first ones.
        if outlook.old_count > 0
            && !self.was_written_since(dir, name, now_s, keep.days.saturating_mul(DAY_S))?
        {
            outlook.due.push(Due { name, reason: RemovalReason::Age });
        }
        Ok(outlook)
    }

    /// How many files are older than what is kept.
    fn old_count(&self, keep: &Keep, now_s: i64) -> u64 {
        let ends = self.names.iter().skip(1).copied().chain([self.current]);
        let age_s = |end: FileName| u64::try_from(now_s.saturating_sub(end.stamp_s())).unwrap_or(0);
        let age_max_s = keep.days.saturating_mul(DAY_S);
        let is_old = |end: &FileName| keep.days > 0 && age_s(*end) > age_max_s;
        ends.filter(is_old).count() as u64
    }

    /// The oldest file that is a plain one. Notes what is passed over, and how many files are too many.
    fn oldest_plain<F: Fs>(
        &self,
        dir: &LogDir<F>,
        keep: &Keep,
        outlook: &mut Outlook,
    ) -> Result<Option<FileName>, FileError> {
        for (passed_over, &name) in self.names.iter().enumerate() {
            if is_plain_file(dir, name, self.parts[&name])? {
                if keep.files > 0 {
                    // What is passed over never goes, so it must not take the place of a log file.
                    let count = (self.names.len() - passed_over) as u64;
                    outlook.excess_count = count.saturating_sub(keep.files);
                }
                return Ok(Some(name));
            }
            outlook.passed_over.get_or_insert(name);
        }
        Ok(None)
    }

    /// Whether a file was written within that time, whatever the next one's name says: a clock that
    /// was behind when that one was begun gives it the name of an earlier time.
    fn was_written_since<F: Fs>(
        &self,
        dir: &LogDir<F>,
        name: FileName,
        now_s: i64,
        age_s: u64,
    ) -> Result<bool, FileError> {
        let is_log = |ending: &Ending| !is_secondary(*ending) && *ending != Ending::Sidecar;
        for ending in self.parts[&name].iter().filter(is_log) {
            let path = dir.path().join(format!("{name}.{ending}"));
            match dir.fs().stat(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                stat => {
                    let modified_s = stat.at("look at", &path)?.modified_s;
                    let since_s = u64::try_from(now_s.saturating_sub(modified_s)).unwrap_or(0);
                    if since_s <= age_s {
                        return Ok(true);
                    }
                }
            }
        }
        Ok(false)
    }

    /// Whether the last line of the log may be in this file, the first of the closed ones.
    pub(crate) fn last_lines_are_in<F: Fs>(
        &self,
        dir: &LogDir<F>,
        current: &Current<F::File>,
        name: FileName,
    ) -> Result<bool, FileError> {
        let Current { file, path, line_end, .. } = current;
        // A line that somebody else has put there has no number to go on from.
        if current.has_lines() && lines::seq_before(file, *line_end).at("read", path)?.is_some() {
            return Ok(false);
        }
        // One that is newer may be without a line, too: empty, or with the torn one of a full disk.
        let newer: Vec<entries::Entry> = self
            .names
            .iter()
            .filter(|newer| **newer > name)
            .flat_map(|newer| Form::ALL.map(|form| (*newer, form)).into_iter().rev())
            .collect();
        match tail::last_seq_in(dir.fs(), dir.path(), &newer) {
            Ok(seq) => Ok(seq.is_none()),
            Err(LastSeqError::Unreadable(error)) => Err(error),
            // It is unknown, so nothing goes.
            Err(_) => Ok(true),
        }
    }
}

/// Whether all that there is of a log file are plain files. Something else cannot be removed as
/// one, and must not keep all others from going.
fn is_plain_file<F: Fs>(dir: &LogDir<F>, name: FileName, parts: Parts) -> Result<bool, FileError> {
    for ending in parts.iter() {
        let path = dir.path().join(format!("{name}.{ending}"));
        match dir.fs().stat(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            stat => {
                if !stat.at("look at", &path)?.is_file {
                    return Ok(false);
                }
            }
        }
    }
    Ok(true)
}

/// Whether the current file has its name still.
pub(crate) fn has_name<F: Fs>(
    dir: &LogDir<F>,
    current: &Current<F::File>,
) -> Result<bool, FileError> {
    let path = &current.path;
    match dir.fs().stat(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        named => {
            let id = current.file.stat().at("look at", path)?.id;
            Ok(named.at("look at", path)?.id == id)
        }
    }
}

/// Removes a buried file: the log file first, its sidecar last.
pub(crate) fn remove<F: Fs>(dir: &LogDir<F>, name: FileName) -> Result<(), FileError> {
    let parts = list_parts(dir.fs(), dir.path())?.remove(&name).unwrap_or_default();
    for ending in parts.iter().filter(|ending| *ending != Ending::Sidecar) {
        remove_part(dir, name, ending)?;
    }
    sync_dir(dir)?;
    remove_part(dir, name, Ending::Sidecar)
}

fn remove_part<F: Fs>(dir: &LogDir<F>, name: FileName, ending: Ending) -> Result<(), FileError> {
    let path = dir.path().join(format!("{name}.{ending}"));
    match dir.fs().remove(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed.at("remove", &path),
    }
}

/// Waits until the names in the directory are on the device.
pub(crate) fn sync_dir<F: Fs>(dir: &LogDir<F>) -> Result<(), FileError> {
    dir.fs().sync_dir(dir.path()).at("sync", dir.path())
}

/// Closed files of which only the sidecar is there.
pub(crate) fn orphans<F: Fs>(
    dir: &LogDir<F>,
    current: FileName,
) -> Result<Vec<FileName>, FileError> {
    let parts = list_parts(dir.fs(), dir.path())?;
    let orphans = parts.iter().filter(|(name, parts)| {
        parts.has(Ending::Sidecar) && !parts.has_lines() && **name < current
    });
    Ok(orphans.map(|(name, _)| *name).collect())
}
