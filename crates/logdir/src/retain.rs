//! Retention: which closed files have to go, and how they go.
//!
//! Oldest first, one at a time, never the file that is written, and never the one with the last
//! line: the next start needs its `seq`. The steps of a removal, each of which may be the last one
//! before the process dies or the machine stops; all of them are simply done again:
//!
//! 1. The tombstone is on the device ([`LogFiles::bury`]).
//! 2. The log file goes, in all its forms.
//! 3. When that is on the device, its sidecar goes ([`LogFiles::remove`]). A sidecar with a tombstone
//!    and without a log file is what a crash between the two has left
//!    ([`LogFiles::finish_removals`]).
//!
//! A file has ended when the next one began, which the name of that one tells. Nothing else of it
//! is asked: times of modification are changed by copies, and those of records are those of the
//! same clock.

use std::collections::BTreeMap;
use std::io;

use tacho_chain::SIDECAR_ENDING;
use tacho_chain::entry::RemovalReason;

use super::current::Current;
use super::ending::{Content, Ending, Parts, list_parts};
use super::entries;
use super::error::{At, FileError, LastSeqError};
use super::form::Form;
use super::fs::{Fs, FsFile as _};
use super::lines;
use super::log::LogFiles;
use super::name::FileName;
use super::seal::Removed;
use super::tail;

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

impl<F: Fs> LogFiles<F> {
    /// Looks which file has to go next.
    ///
    /// # Errors
    /// When the directory cannot be read; and as [`check`](Self::check).
    pub fn outlook(&mut self, keep: &Keep) -> Result<Outlook, FileError> {
        let mut outlook = Outlook::default();
        let now_s = self.fs.now_s();
        outlook.is_ahead = self.current_name().stamp_s() > now_s.saturating_add(DAY_S as i64);
        let parts = list_parts(&self.fs, &self.dir)?;
        let mut files: Vec<FileName> =
            parts.iter().filter(|(_, parts)| parts.has_lines()).map(|(name, _)| *name).collect();
        // What somebody has put behind the current file is none of ours.
        files.retain(|name| *name < self.current_name());
        outlook.closed_count = files.len() as u64;
        let ends = files.iter().skip(1).copied().chain([self.current_name()]);
        let age_s = |end: FileName| u64::try_from(now_s.saturating_sub(end.stamp_s())).unwrap_or(0);
        let age_max_s = keep.days.saturating_mul(DAY_S);
        let is_old = |end: FileName| keep.days > 0 && age_s(end) > age_max_s;
        outlook.old_count = ends.filter(|end| is_old(*end)).count() as u64;
        let mut oldest = None;
        for (passed_over, &name) in files.iter().enumerate() {
            if self.is_plain_file(name, parts[&name])? {
                oldest = Some(name);
                if keep.files > 0 {
                    // What is passed over never goes, so it must not take the place of a log file.
                    let count = (files.len() - passed_over) as u64;
                    outlook.excess_count = count.saturating_sub(keep.files);
                }
                break;
            }
            outlook.passed_over.get_or_insert(name);
        }
        let Some(name) = oldest else { return Ok(outlook) };
        let mut due = Vec::new();
        // First the reason that no brake holds: whatever the clock says, and however many are begun.
        if keep.bytes > 0 && self.total_bytes(&parts)? > keep.bytes {
            due.push(Due { name, reason: RemovalReason::Size });
        }
        if outlook.excess_count > 0 {
            due.push(Due { name, reason: RemovalReason::Count });
        }
        // The ends of files never go back in time, so the old ones are the first ones.
        if outlook.old_count > 0 && !self.was_written_since(name, parts[&name], now_s, age_max_s)? {
            due.push(Due { name, reason: RemovalReason::Age });
        }
        if due.is_empty() {
            return Ok(outlook);
        }
        // Somebody may have removed or cut the current file, and with it the last line.
        self.check()?;
        // One that was moved away and could not be followed by another has its lines elsewhere.
        let path = &self.current.path;
        match self.fs.stat(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(outlook),
            named => {
                if named.at("look at", path)?.id != self.current.file.stat().at("look at", path)?.id
                {
                    return Ok(outlook);
                }
            }
        }
        if self.is_unfinished() || !self.has_left(name) || self.last_lines_are_in(name, &files)? {
            return Ok(outlook);
        }
        outlook.due = due;
        Ok(outlook)
    }

    /// Whether a file was written within that time, whatever the next one's name says: a clock that
    /// was behind when that one was begun gives it the name of an earlier time.
    fn was_written_since(
        &self,
        name: FileName,
        parts: Parts,
        now_s: i64,
        age_s: u64,
    ) -> Result<bool, FileError> {
        let is_log = |ending: &Ending| !is_rendition(*ending) && *ending != Ending::Sidecar;
        for ending in parts.iter().filter(is_log) {
            let path = self.dir.join(format!("{name}.{ending}"));
            match self.fs.stat(&path) {
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

    /// Says in the chain that a file will be removed. When this has succeeded, [`LogFiles::remove`]
    /// may do so.
    ///
    /// # Errors
    /// When it cannot be said. The file must stay then.
    pub fn bury(&mut self, due: Due) -> Result<(), RetainError> {
        let log = due.name.log_file();
        match &mut self.sealer {
            Some(sealer) => sealer.bury(&self.fs, &mut self.removed, &log, due.reason)?,
            None => {
                let sidecar = self.dir.join(format!("{}.{SIDECAR_ENDING}", due.name));
                match self.fs.stat(&sidecar) {
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    stat => {
                        stat.at("look at", &sidecar)?;
                        return Err(RetainError::NoKey(log));
                    }
                }
            }
        }
        // The tombstone's file may be a new one.
        Ok(self.fs.sync_dir(&self.dir).at("sync", &self.dir)?)
    }

    /// Removes a buried file: the log file first, its sidecar last. Can be called again after any
    /// error.
    ///
    /// # Errors
    /// When something of it is still there.
    pub fn remove(&mut self, name: FileName) -> Result<(), FileError> {
        // What the next start goes on from, and the line that tells of the removal, must not be
        // only in memory when older lines go.
        self.sync_current()?;
        let parts = list_parts(&self.fs, &self.dir)?.remove(&name).unwrap_or_default();
        for ending in parts.iter().filter(|ending| *ending != Ending::Sidecar) {
            self.remove_part(name, ending)?;
        }
        self.fs.sync_dir(&self.dir).at("sync", &self.dir)?;
        self.remove_part(name, Ending::Sidecar)
    }

    /// Removes the sidecars of removed files that a crash has left. Returns how many those were.
    ///
    /// # Errors
    /// When the directory cannot be read, or one of them is still there.
    pub fn finish_removals(&mut self) -> Result<u64, FileError> {
        let parts = list_parts(&self.fs, &self.dir)?;
        let orphans: Vec<FileName> = parts
            .iter()
            .filter(|(name, parts)| {
                parts.has(Ending::Sidecar) && !parts.has_lines() && **name < self.current_name()
            })
            .map(|(name, _)| *name)
            .collect();
        if orphans.is_empty() {
            return Ok(0);
        }
        self.removed = Removed::read(&self.fs, &self.dir)?;
        let mut count = 0;
        for name in orphans {
            // Any other is what shows that its log file is missing.
            if self.removed.has(&name.log_file()) {
                self.remove(name)?;
                count += 1;
            }
        }
        Ok(count)
    }

    /// Whether nothing but the file itself is needed of it any more.
    pub(crate) fn has_left(&self, name: FileName) -> bool {
        self.sealer.as_ref().is_none_or(|sealer| sealer.has_left(&name.log_file()))
            && self.left.is_empty()
    }

    /// Whether the last line of the log may be in this file, the first of the closed ones.
    fn last_lines_are_in(&self, name: FileName, closed: &[FileName]) -> Result<bool, FileError> {
        let Current { file, path, line_end, .. } = &self.current;
        // A line that somebody else has put there has no number to go on from.
        if self.has_lines() && lines::seq_before(file, *line_end).at("read", path)?.is_some() {
            return Ok(false);
        }
        // One that is newer may be without a line, too: empty, or with the torn one of a full disk.
        let newer: Vec<entries::Entry> = closed
            .iter()
            .filter(|newer| **newer > name)
            .flat_map(|newer| Form::ALL.map(|form| (*newer, form)).into_iter().rev())
            .collect();
        match tail::last_seq_in(&self.fs, &self.dir, &newer) {
            Ok(seq) => Ok(seq.is_none()),
            Err(LastSeqError::Unreadable(error)) => Err(error),
            // Nobody knows, so nothing goes.
            Err(_) => Ok(true),
        }
    }

    fn remove_part(&self, name: FileName, ending: Ending) -> Result<(), FileError> {
        let path = self.dir.join(format!("{name}.{ending}"));
        match self.fs.remove(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed.at("remove", &path),
        }
    }

    /// What is beside closed files from this one on may have become longer.
    pub fn forget_sizes(&mut self, from: FileName) {
        drop(self.sizes.0.split_off(&from));
    }

    pub(crate) fn total_bytes(
        &mut self,
        parts: &BTreeMap<FileName, Parts>,
    ) -> Result<u64, FileError> {
        let mut before = std::mem::take(&mut self.sizes.0);
        let mut sum = 0_u64;
        // A rendition without a log file does not go with one either.
        for (name, parts) in parts.iter().filter(|(_, parts)| !parts.iter().all(is_rendition)) {
            let known = before.remove(name).filter(|(known, _)| known == parts);
            let bytes = match known {
                Some((_, bytes)) => bytes,
                None => parts.iter().try_fold(0_u64, |sum, ending| {
                    Ok(sum.saturating_add(self.part_bytes(*name, ending)?))
                })?,
            };
            if *name < self.current_name() && !parts.has_new() && self.has_left(*name) {
                self.sizes.0.insert(*name, (*parts, bytes));
            }
            sum = sum.saturating_add(bytes);
        }
        Ok(sum)
    }

    /// Whether all that there is of a log file are plain files. Something else cannot be removed as
    /// one, and must not keep all others from going.
    fn is_plain_file(&self, name: FileName, parts: Parts) -> Result<bool, FileError> {
        for ending in parts.iter() {
            let path = self.dir.join(format!("{name}.{ending}"));
            match self.fs.stat(&path) {
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

    /// Length of a part; 0 if it is not there any more.
    fn part_bytes(&self, name: FileName, ending: Ending) -> Result<u64, FileError> {
        let path = self.dir.join(format!("{name}.{ending}"));
        match self.fs.stat(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
            stat => Ok(stat.at("look at", &path)?.bytes),
        }
    }
}

fn is_rendition(ending: Ending) -> bool {
    matches!(ending, Ending::File(content, _) | Ending::New(content, _) if content != Content::Lines)
}
