//! Retention: which closed files are removed, and how.
//!
//! Oldest first, one at a time, never the current file, and never the file with the last line: the
//! next start needs its `seq`. After any step of a removal the process may die or the machine may
//! stop; all steps can be repeated:
//!
//! 1. The tombstone is on the device ([`LogFiles::bury`](super::LogFiles::bury)).
//! 2. The log file is removed, in all its forms.
//! 3. When that is on the device, its sidecar is removed
//!    ([`LogFiles::remove`](super::LogFiles::remove)). A sidecar with a tombstone and without a log
//!    file was left by a crash between the two
//!    ([`LogFiles::finish_removals`](super::LogFiles::finish_removals)).
//!
//! A file ended when the next one began, according to the name of that one. Its other times are not
//! used: copying changes the times of modification, and the times of records come from the same
//! clock.
//!
//! Whether a file may be removed although a hub does not have it is the caller's decision
//! ([`Outlook::unshipped`]).

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
use super::shipped::{Shipped, Unshipped};
use super::sizes::is_secondary;
use super::tail;
use super::write::current::Current;
use super::write::directory::{DirView, LogDir};

/// How much is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Keep {
    /// Files that ended longer ago are removed, days; 0: none.
    pub days: u64,
    /// If all files of the log are larger than this together, the oldest are removed; 0: none.
    pub bytes: u64,
    /// If there are more closed files than this, the oldest are removed; 0: none.
    pub files: u64,
}

/// A file that must be removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due {
    /// Its name.
    pub name: FileName,
    /// The reason.
    pub reason: RemovalReason,
}

/// The state of the closed files, for retention.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outlook {
    /// The oldest file, once for each reason to remove it: size, count, age. Empty: it stays.
    pub due: Vec<Due>,
    /// Number of files that are older than the limit.
    pub old_count: u64,
    /// Number of closed files beyond the limit.
    pub excess_count: u64,
    /// Number of closed files.
    pub closed_count: u64,
    /// The newest name is more than a day in the future: a file with such a name does not expire
    /// before that time.
    pub is_ahead: bool,
    /// The oldest entry that is skipped because it is not a regular file.
    pub skipped: Option<FileName>,
    /// When the due file ended, s since 1970-01-01 UTC.
    pub ended_s: i64,
    /// Why the due file does not count as shipped. `None`: all hubs have it, or there is no hub.
    pub unshipped: Option<Unshipped>,
    /// Why `.shipped` is ignored: others may have created it.
    pub shipped_ignored: Option<String>,
}

/// Why a file that is due stays.
#[derive(Debug, thiserror::Error)]
pub enum RetainError {
    /// An operation failed.
    #[error(transparent)]
    File(#[from] FileError),
    /// There is no key to sign its tombstone.
    #[error(
        "{0} is sealed and this recorder is not sealing: it stays, with all that are newer, \
         because nothing could later show why it is gone. Let the recorder seal the log again, or \
         remove the file and its .chain file by hand"
    )]
    NoKey(String),
}

const DAY_S: u64 = 86_400;

/// The closed files, and the parts of every file.
pub(crate) struct ClosedFiles {
    parts: BTreeMap<FileName, Parts>,
    /// Oldest first.
    names: Vec<FileName>,
    current: FileName,
}

impl ClosedFiles {
    pub(crate) fn list<F: Fs>(
        dir: DirView<'_, F>,
        current: FileName,
    ) -> Result<ClosedFiles, FileError> {
        let parts = list_parts(dir.fs, dir.path)?;
        let has_lines = parts.iter().filter(|(_, parts)| parts.has_lines());
        // Files with newer names than the current one are not the recorder's.
        let names = has_lines.map(|(name, _)| *name).filter(|name| *name < current).collect();
        Ok(ClosedFiles { parts, names, current })
    }

    /// The parts of each file of the log.
    pub(crate) fn parts(&self) -> &BTreeMap<FileName, Parts> {
        &self.parts
    }

    /// Determines which file is due next. `total`: length of all files together, bytes.
    pub(crate) fn outlook<F: Fs>(
        &self,
        dir: DirView<'_, F>,
        keep: &Keep,
        total: impl FnOnce() -> Result<u64, FileError>,
    ) -> Result<Outlook, FileError> {
        let now_s = dir.fs.now_s();
        let mut outlook = Outlook {
            is_ahead: self.current.stamp_s() > now_s.saturating_add(DAY_S as i64),
            closed_count: self.names.len() as u64,
            old_count: self.old_count(keep, now_s),
            ..Outlook::default()
        };
        let Some(name) = self.oldest_plain(dir, keep, &mut outlook)? else { return Ok(outlook) };
        // First the reason that is not rate-limited: independent of the clock and of the number of
        // files.
        if keep.bytes > 0 && total()? > keep.bytes {
            outlook.due.push(Due { name, reason: RemovalReason::Size });
        }
        if outlook.excess_count > 0 {
            outlook.due.push(Due { name, reason: RemovalReason::Count });
        }
        // The ends of files are in order, so the expired files are the first ones.
        if outlook.old_count > 0
            && !self.was_written_since(dir, name, now_s, keep.days.saturating_mul(DAY_S))?
        {
            outlook.due.push(Due { name, reason: RemovalReason::Age });
        }
        if !outlook.due.is_empty() {
            self.look_at_hubs(dir, name, &mut outlook);
        }
        Ok(outlook)
    }

    /// Notes whether the hubs have the due file.
    fn look_at_hubs<F: Fs>(&self, dir: DirView<'_, F>, name: FileName, outlook: &mut Outlook) {
        outlook.ended_s = self.ended_s(name);
        let shipped = Shipped::read(dir.fs, dir.path);
        outlook.unshipped = shipped.unshipped(name);
        if let Shipped::Foreign(reason) = shipped {
            outlook.shipped_ignored = Some(reason);
        }
    }

    /// Number of files that are older than the limit.
    fn old_count(&self, keep: &Keep, now_s: i64) -> u64 {
        let ends = self.names.iter().skip(1).copied().chain([self.current]);
        let age_s = |end: FileName| u64::try_from(now_s.saturating_sub(end.stamp_s())).unwrap_or(0);
        let age_max_s = keep.days.saturating_mul(DAY_S);
        let is_old = |end: &FileName| keep.days > 0 && age_s(*end) > age_max_s;
        ends.filter(is_old).count() as u64
    }

    /// The oldest regular file. Notes which entry was skipped, and the number of surplus files.
    fn oldest_plain<F: Fs>(
        &self,
        dir: DirView<'_, F>,
        keep: &Keep,
        outlook: &mut Outlook,
    ) -> Result<Option<FileName>, FileError> {
        for (skipped, &name) in self.names.iter().enumerate() {
            if is_plain_file(dir, name, self.parts[&name])? {
                if keep.files > 0 {
                    // Skipped entries are never removed, so they must not take the place of log
                    // files.
                    let count = (self.names.len() - skipped) as u64;
                    outlook.excess_count = count.saturating_sub(keep.files);
                }
                return Ok(Some(name));
            }
            outlook.skipped.get_or_insert(name);
        }
        Ok(None)
    }

    /// Whether a file was written within that time, regardless of the next one's name: a clock that
    /// was behind when that one was begun gave it an earlier time.
    fn was_written_since<F: Fs>(
        &self,
        dir: DirView<'_, F>,
        name: FileName,
        now_s: i64,
        age_s: u64,
    ) -> Result<bool, FileError> {
        let is_log = |ending: &Ending| !is_secondary(*ending) && *ending != Ending::Sidecar;
        for ending in self.parts[&name].iter().filter(is_log) {
            let path = dir.path.join(format!("{name}.{ending}"));
            match dir.fs.stat(&path) {
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

    /// Whether the last line of the log may be in this file, the first closed one.
    pub(crate) fn last_lines_are_in<F: Fs>(
        &self,
        dir: DirView<'_, F>,
        current: &Current<F::File>,
        name: FileName,
    ) -> Result<bool, FileError> {
        let Current { file, path, line_end, .. } = current;
        // A line that another process appended has no number to continue from.
        if current.has_lines() && lines::seq_before(file, *line_end).at("read", path)?.is_some() {
            return Ok(false);
        }
        self.no_line_is_after(dir, name)
    }

    /// Whether no closed file after this one is known to have a line.
    fn no_line_is_after<F: Fs>(
        &self,
        dir: DirView<'_, F>,
        name: FileName,
    ) -> Result<bool, FileError> {
        // Newer files may have no line either: empty ones, or one with a torn line after a full
        // disk.
        let newer = self.names.iter().filter(|newer| **newer > name).copied();
        has_no_line(dir, newer)
    }

    /// As [`Self::last_lines_are_in`], without the open current file.
    pub(crate) fn last_lines_may_be_in<F: Fs>(
        &self,
        dir: DirView<'_, F>,
        name: FileName,
    ) -> Result<bool, FileError> {
        let of_current = has_no_line(dir, [self.current].into_iter())?;
        Ok(of_current && self.no_line_is_after(dir, name)?)
    }

    /// When a file ended: when the next one began, s since 1970-01-01 UTC.
    pub(crate) fn ended_s(&self, name: FileName) -> i64 {
        self.names.iter().find(|newer| **newer > name).unwrap_or(&self.current).stamp_s()
    }

    /// The names, oldest first.
    pub(crate) fn names(&self) -> &[FileName] {
        &self.names
    }

    /// As if a file had been removed.
    pub(crate) fn forget(&mut self, name: FileName) {
        self.names.retain(|other| *other != name);
    }
}

/// Whether none of these files, oldest first, is known to have a line.
fn has_no_line<F: Fs>(
    dir: DirView<'_, F>,
    names: impl Iterator<Item = FileName>,
) -> Result<bool, FileError> {
    let entries: Vec<entries::Entry> =
        names.flat_map(|name| Form::ALL.map(|form| (name, form)).into_iter().rev()).collect();
    match tail::last_seq_in(dir.fs, dir.path, &entries) {
        Ok(seq) => Ok(seq.is_none()),
        Err(LastSeqError::Unreadable(error)) => Err(error),
        // Unknown, so no file is removed.
        Err(_) => Ok(true),
    }
}

/// Whether all parts of a log file are regular files. Other entries cannot be removed in the same
/// way, and must not block the removal of the rest.
fn is_plain_file<F: Fs>(
    dir: DirView<'_, F>,
    name: FileName,
    parts: Parts,
) -> Result<bool, FileError> {
    for ending in parts.iter() {
        let path = dir.path.join(format!("{name}.{ending}"));
        match dir.fs.stat(&path) {
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

/// Whether the current file still has its name.
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

/// Closed files of which only the sidecar exists.
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
