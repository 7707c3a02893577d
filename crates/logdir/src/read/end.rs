//! The end of a log: its newest line, its newest `lost` lines, its newest checkpoint.
//!
//! For monitoring, which asks every minute: the amount that is read has a limit, however long the
//! log, its files and its lines are. Nothing is verified.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use jiff::Timestamp;
use memchr::memmem;
use tacho_chain::SIDECAR_ENDING;
use tacho_chain::entry::Checkpoint;
use tacho_chain::sidecar;
use tacho_record::Line;

use super::content::open_in_log;
use super::files::LogFile;
use super::reader::{Backward, Forward};
use super::request::ReadError;
use crate::form::Form;

/// The end of a file is read in these steps until it has what is searched for, bytes.
const STEPS: [u64; 3] = [64 << 10, 2 << 20, 64 << 20];
/// Longest line of which more than its position is used, except the newest one.
const LINE_BYTES_MAX: usize = 1 << 20;
/// `event` of a line ends before this.
const HEAD_BYTES: usize = 128;
/// The first unsigned line is searched in so many files: they are foreign if they have no line.
const TRIES_MAX: u32 = 4;
/// A sidecar without a checkpoint is that of a file that was just begun.
const SIDECARS_MAX: usize = 8;

/// The newest line of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewestLine {
    /// Its number.
    pub seq: u64,
    /// When its event ended, or began if it has no end.
    pub time: Timestamp,
    /// Its event.
    pub event: String,
}

/// The `lost` lines at the end of a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LostLines {
    /// Their number.
    pub lines: u64,
    /// Records that they declare. A line of a lost arena has no number.
    pub records: u64,
    /// Connections that a capture has not read because they are encrypted.
    pub encrypted: u64,
    /// Time and cause of the newest one.
    pub newest: Option<(Timestamp, String)>,
    /// Time of the oldest line that was searched; `None`: there was no line.
    pub searched_since: Option<Timestamp>,
    /// There are older lines, which were not searched.
    pub has_more: bool,
}

/// The newest complete line of a log whose files are `files`, oldest first. `None`: there is none,
/// its file is packed, or it is longer than 64 MiB.
///
/// # Errors
/// A file cannot be read.
pub fn newest_line(files: &[LogFile]) -> Result<Option<NewestLine>, ReadError> {
    for file in files.iter().rev() {
        let Some((content, length)) = open_plain(file)? else { return Ok(None) };
        let read = || {
            for step in STEPS {
                let floor = length.saturating_sub(step);
                match last_line(&content, floor, length)? {
                    LastLine::Line(line) => return Ok(LastLine::Line(line)),
                    LastLine::None => return Ok(LastLine::None),
                    LastLine::Longer => {}
                }
            }
            Ok(LastLine::Longer)
        };
        match read().map_err(ReadError::of(&file.path))? {
            LastLine::Line(line) => return Ok(of_line(&line)),
            LastLine::Longer => return Ok(None),
            // Just begun.
            LastLine::None => {}
        }
    }
    Ok(None)
}

/// The result of a search in the end of a file.
enum LastLine {
    Line(Vec<u8>),
    /// The file has no complete line.
    None,
    /// The line begins before the searched part.
    Longer,
}

fn last_line(file: &File, floor: u64, length: u64) -> io::Result<LastLine> {
    let mut lines = Backward::new(file, floor..length, usize::MAX);
    let mut last = [0; 1];
    if length > 0 {
        file.read_exact_at(&mut last, length - 1)?;
    }
    // What is behind the last newline is being written.
    if length > 0 && last != *b"\n" && lines.next_line()?.is_some_and(|it| it.offset == floor) {
        return Ok(if floor == 0 { LastLine::None } else { LastLine::Longer });
    }
    Ok(match lines.next_line()? {
        None => LastLine::None,
        Some(line) if line.offset == floor && floor > 0 => LastLine::Longer,
        Some(line) => LastLine::Line(line.bytes.to_vec()),
    })
}

fn of_line(line: &[u8]) -> Option<NewestLine> {
    let line = Line::parse(line).ok()?;
    let time = line.end_ts().unwrap_or(line.ts);
    Some(NewestLine { seq: line.seq, time, event: line.event.into_owned() })
}

/// Searches the last `bytes_max` bytes of a log for `lost` lines. Packed files are not searched.
///
/// # Errors
/// A file cannot be read.
pub fn lost_lines(files: &[LogFile], bytes_max: u64) -> Result<LostLines, ReadError> {
    let mut lost = LostLines::default();
    let mut left = bytes_max;
    for (index, file) in files.iter().enumerate().rev() {
        lost.has_more = true;
        if left == 0 {
            break;
        }
        let Some((content, length)) = open_plain(file)? else { break };
        let floor = length.saturating_sub(left);
        left -= length - floor;
        search(&content, floor, length, &mut lost).map_err(ReadError::of(&file.path))?;
        lost.has_more = floor > 0 || index > 0;
    }
    Ok(lost)
}

fn search(file: &File, floor: u64, length: u64, lost: &mut LostLines) -> io::Result<()> {
    let finder = memmem::Finder::new(b"\"event\":\"lost\"");
    let with_bytes = memmem::Finder::new(b"\"lost_bytes\":");
    let mut lines = Backward::new(file, floor..length, LINE_BYTES_MAX);
    let mut oldest = None;
    while let Some(line) = lines.next_line()? {
        if line.offset == floor && floor > 0 {
            // Its beginning was not read.
            break;
        }
        oldest = Some(line.offset);
        // A text cannot look like this: its quotation marks are escaped.
        let head = &line.bytes[..line.bytes.len().min(HEAD_BYTES)];
        if finder.find(head).is_none() {
            continue;
        }
        // Such a connection has one line when that is known. The one at its end has a number of
        // bytes.
        let has_bytes = with_bytes.find(line.bytes).is_some();
        let Ok(line) = Line::parse(line.bytes) else { continue };
        lost.lines += 1;
        lost.encrypted += u64::from(&*line.cause == "tls" && !has_bytes);
        lost.records = lost.records.saturating_add(line.count.unwrap_or(0));
        if lost.newest.is_none() {
            lost.newest = Some((line.ts, line.cause.to_string()));
        }
    }
    if let Some(time) = oldest.map(|offset| time_at(file, offset, length)).transpose()?.flatten() {
        lost.searched_since = Some(time);
    }
    Ok(())
}

/// When the event of the line at this offset ended; `None`: there is no complete line, or it is too
/// long.
fn time_at(file: &File, offset: u64, length: u64) -> io::Result<Option<Timestamp>> {
    let end = length.min(offset.saturating_add(LINE_BYTES_MAX as u64 + 1));
    let mut lines = Forward::new(file, offset..end, LINE_BYTES_MAX);
    let Some(line) = lines.next_line()? else { return Ok(None) };
    Ok(Line::parse(line.bytes).ok().map(|line| line.end_ts().unwrap_or(line.ts)))
}

/// The newest checkpoint of a log, according to the ends of its newest sidecars. `None`: there is
/// none.
///
/// # Errors
/// A sidecar cannot be read.
pub fn newest_checkpoint(
    directory: &Path,
    files: &[LogFile],
) -> Result<Option<Checkpoint>, ReadError> {
    let mut found = 0;
    for file in files.iter().rev() {
        let path = directory.join(format!("{}.{SIDECAR_ENDING}", file.stem));
        let sidecar = match open_in_log(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            sidecar => sidecar.map_err(ReadError::of(&path))?,
        };
        let checkpoint = checkpoint_in(&sidecar).map_err(ReadError::of(&path))?;
        found += 1;
        if checkpoint.is_some() || found == SIDECARS_MAX {
            return Ok(checkpoint);
        }
    }
    Ok(None)
}

fn checkpoint_in(sidecar: &File) -> io::Result<Option<Checkpoint>> {
    let length = sidecar.metadata()?.len();
    for step in STEPS {
        let count = length.min(step);
        let mut end = vec![0; usize::try_from(count).unwrap_or_default()];
        sidecar.read_exact_at(&mut end, length - count)?;
        let checkpoint = sidecar::newest_checkpoint(&end, count == length);
        if checkpoint.is_some() || count == length {
            return Ok(checkpoint);
        }
    }
    Ok(None)
}

/// The part of a log that no checkpoint covers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unsigned {
    /// Bytes of plain log files.
    pub bytes: u64,
    /// When the event of its first line ended, if that can be read.
    pub since: Option<Timestamp>,
}

/// The part behind the newest checkpoint; all of the log without one.
///
/// # Errors
/// A file cannot be read.
pub fn unsigned(files: &[LogFile], newest: Option<&Checkpoint>) -> Result<Unsigned, ReadError> {
    let signed = newest.map(|it| (it.file.strip_suffix(".jsonl").unwrap_or(&it.file), it.offset));
    let mut unsigned = Unsigned::default();
    let mut tries = 0;
    for file in files.iter().filter(|file| signed.is_none_or(|(stem, _)| *file.stem >= *stem)) {
        let offset = signed.filter(|(stem, _)| *stem == file.stem).map_or(0, |(_, end)| end);
        let Some((content, length)) = open_plain(file)? else { continue };
        unsigned.bytes += length.saturating_sub(offset);
        if unsigned.since.is_none() && length > offset && tries < TRIES_MAX {
            tries += 1;
            let since = time_at(&content, offset, length);
            unsigned.since = since.map_err(ReadError::of(&file.path))?;
        }
    }
    Ok(unsigned)
}

/// `None`: the file is packed, or was packed or removed since it was listed.
fn open_plain(file: &LogFile) -> Result<Option<(File, u64)>, ReadError> {
    if file.form != Form::Plain {
        return Ok(None);
    }
    let open = || {
        let content = file.links().open(&file.path)?;
        let length = content.metadata()?.len();
        Ok((content, length))
    };
    match open() {
        Err(error) if io::Error::kind(&error) == io::ErrorKind::NotFound => Ok(None),
        opened => opened.map(Some).map_err(ReadError::of(&file.path)),
    }
}

#[cfg(test)]
mod tests;
