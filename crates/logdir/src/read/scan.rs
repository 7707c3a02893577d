//! Shows the existing lines of a log: selects the parts of files that can have an answer and reads
//! them, oldest or newest line first.

use std::collections::VecDeque;
use std::io::{self, BufRead};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use tacho_record::Line;

use super::content::{self, Access};
use super::direct::{Direct, ReadAt};
use super::files::LogFile;
use super::kept::Kept;
use super::line_limit;
use super::newest::Newest;
use super::parts::{self, Part};
use super::reader::{Backward, Forward, Placed, Split, split_at};
use super::request::{Lines, ReadError, Sink, Window};
use crate::form::Form;

/// The run that a line names. Broken lines are reported when they are shown.
fn run_of(line: Placed) -> Option<u64> {
    Line::parse(line.bytes).ok().and_then(|line| line.run)
}

/// Which existing lines are shown, and in which order.
#[derive(Clone, Copy)]
pub struct Wanted {
    /// Which.
    pub lines: Lines,
    /// Whether the newest one is shown first.
    pub newest_first: bool,
}

/// The files of a log, and how to read them.
pub struct Scan<'a> {
    /// Oldest first.
    pub files: &'a [LogFile],
    /// The last of them, if it is plain and could be opened.
    pub newest: Option<&'a Newest>,
    /// See [`Access`].
    pub access: &'a Access,
}

impl<'a> Scan<'a> {
    /// Shows the wanted lines.
    ///
    /// # Errors
    /// The sink failed. Files that cannot be read are reported and skipped.
    pub fn run<S: Sink>(
        &self,
        wanted: Wanted,
        window: Window,
        sink: &mut S,
    ) -> Result<(), S::Error> {
        if wanted.lines == Lines::Last(0) {
            return Ok(());
        }
        let parts = self.parts(window, sink);
        for part in &parts {
            sink.expect(part.bytes());
        }
        match wanted.lines {
            Lines::All if wanted.newest_first => self.show_backward(&parts, sink)?,
            Lines::All => parts.iter().try_for_each(|part| self.show_part(part, sink))?,
            Lines::Last(count) => self.show_last(&parts, (count, wanted.newest_first), sink)?,
        }
        sink.flush()
    }

    /// The run of the newest line that names one.
    pub fn newest_run<S: Sink>(&self, sink: &mut S) -> Option<u64> {
        self.files.iter().rev().find_map(|file| self.last_run(file, sink))
    }

    /// The parts to read, oldest first.
    pub(super) fn parts<S: Sink>(&self, window: Window, sink: &mut S) -> Vec<Part<'a>> {
        parts::parts(self.files, window, |log, place| self.split(log, place, sink))
    }

    fn split<S: Sink>(&self, log: &LogFile, place: Timestamp, sink: &mut S) -> Option<Split> {
        if log.form.is_encrypted() {
            return None;
        }
        match self.open(log, sink)? {
            OpenedFile::Direct(file, length) => reported(
                split_at(&file, length, place, self.access.line_bytes_max),
                &log.path,
                sink,
            ),
            OpenedFile::Packed(..) => None,
        }
    }

    /// Opens a file in its current form. A failure is reported and returns `None`.
    fn open<S: Sink>(&self, log: &LogFile, sink: &mut S) -> Option<OpenedFile> {
        let is_newest = self.files.last().is_some_and(|last| last.path == log.path);
        let open = || {
            if is_newest && log.form == Form::Plain {
                // A failure to open it was already reported.
                let Some(newest) = self.newest else { return Ok(None) };
                let file = Direct::Plain(newest.file.try_clone()?);
                return Ok(Some(OpenedFile::Direct(file, newest.end)));
            }
            let (path, file) = content::open_form(&log.path, log.links())?;
            let form = content::form_of(&path);
            Ok(Some(match Direct::of(&file, form)? {
                Some(file) => {
                    let length = file.length()?;
                    OpenedFile::Direct(file, length)
                }
                None => {
                    let lines = content::Lines::of(file, form, self.access)?;
                    OpenedFile::Packed(path, lines)
                }
            }))
        };
        reported(open(), &log.path, sink).flatten()
    }

    fn last_run<S: Sink>(&self, log: &LogFile, sink: &mut S) -> Option<u64> {
        let mut last = None;
        // Errors are reported when the lines are shown.
        match self.open(log, sink)? {
            OpenedFile::Direct(file, length) => {
                let mut lines = Backward::new(&file, 0..length, self.access.line_bytes_max);
                while let (None, Ok(Some(line))) = (last, lines.next_line()) {
                    last = run_of(line);
                }
            }
            OpenedFile::Packed(_, mut lines) => {
                while let Ok(Some(line)) = lines.next_line() {
                    last = run_of(line).or(last);
                }
            }
        }
        last
    }

    /// Shows the wanted lines of a part, oldest first.
    ///
    /// # Errors
    /// The sink failed. A file that cannot be read is reported.
    pub(super) fn show_part<S: Sink>(&self, part: &Part, sink: &mut S) -> Result<(), S::Error> {
        match self.open(part.file, sink) {
            None => Ok(()),
            Some(OpenedFile::Packed(path, lines)) => {
                packed(&path, lines, sink, |line, sink| sink.show(line))
            }
            Some(OpenedFile::Direct(file, length)) => {
                let range = part.start..part.end.unwrap_or(length);
                let lines = Forward::new(&file, range, self.access.line_bytes_max);
                let answer = show_direct(lines, &part.file.path, sink)?;
                reported(answer, &part.file.path, sink);
                Ok(())
            }
        }
    }

    /// Shows all wanted lines, newest first. Those of a packed file are kept in memory until it was
    /// read.
    fn show_backward<S: Sink>(&self, parts: &[Part], sink: &mut S) -> Result<(), S::Error> {
        for part in parts.iter().rev() {
            if sink.stopped() {
                break;
            }
            match self.open(part.file, sink) {
                None => {}
                Some(OpenedFile::Packed(path, lines)) => {
                    let mut kept = Kept::new(self.access.line_bytes_max);
                    let mut all = VecDeque::new();
                    packed(&path, lines, sink, |line, _| {
                        kept.push(&mut all, line, usize::MAX);
                        Ok(())
                    })?;
                    kept.report(&path, sink);
                    all.iter().rev().try_for_each(|line| sink.show(line))?;
                }
                Some(OpenedFile::Direct(file, length)) => {
                    let range = part.start..part.end.unwrap_or(length);
                    let mut lines = Backward::new(&file, range, self.access.line_bytes_max);
                    let path = &part.file.path;
                    let answer = show_lines(&mut lines, path, sink)?;
                    reported(answer, path, sink);
                }
            }
        }
        Ok(())
    }

    fn show_last<S: Sink>(
        &self,
        parts: &[Part],
        (count, is_newest_first): (usize, bool),
        sink: &mut S,
    ) -> Result<(), S::Error> {
        let mut newest_first: Vec<Vec<u8>> = Vec::new();
        let mut kept = Kept::new(self.access.line_bytes_max);
        for part in parts.iter().rev() {
            if newest_first.len() == count || kept.is_full || sink.stopped() {
                break;
            }
            match self.open(part.file, sink) {
                None => {}
                Some(OpenedFile::Packed(path, lines)) => {
                    let wanted_count = count - newest_first.len();
                    let mut last = VecDeque::new();
                    packed(&path, lines, sink, |line, _| {
                        kept.push(&mut last, line, wanted_count);
                        Ok(())
                    })?;
                    newest_first.extend(last.into_iter().rev());
                }
                Some(OpenedFile::Direct(file, length)) => {
                    let range = part.start..part.end.unwrap_or(length);
                    let lines = Backward::new(&file, range, self.access.line_bytes_max);
                    let path = &part.file.path;
                    let wanted = (count, &mut kept);
                    let answer = take_last(lines, wanted, path, &mut newest_first, sink)?;
                    reported(answer, path, sink);
                }
            }
        }
        // Lines that did not fit may have been older than the requested ones.
        kept.is_full &= newest_first.len() < count;
        kept.report(parts.first().map_or(Path::new(""), |part| &part.file.path), sink);
        if is_newest_first {
            newest_first.iter().try_for_each(|line| sink.show(line))
        } else {
            newest_first.iter().rev().try_for_each(|line| sink.show(line))
        }
    }
}

/// A file that was opened.
enum OpenedFile {
    /// It is read at any offset of its content, up to that length.
    Direct(Direct, u64),
    /// It is read from its start; with its current path.
    Packed(PathBuf, content::Lines),
}

/// Reports a failure to read.
fn reported<T, S: Sink>(answer: io::Result<T>, path: &Path, sink: &mut S) -> Option<T> {
    match answer {
        Ok(answer) => Some(answer),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            sink.note(&format!("{}: removed before it was read", path.display()));
            None
        }
        Err(error) => {
            sink.problem(path, &error.to_string());
            None
        }
    }
}

/// Lines of a file in one of the two directions.
trait NextLine {
    fn next_line(&mut self) -> io::Result<Option<Placed<'_>>>;
}

impl<F: ReadAt> NextLine for Forward<F> {
    fn next_line(&mut self) -> io::Result<Option<Placed<'_>>> {
        Forward::next_line(self)
    }
}

impl<F: ReadAt> NextLine for Backward<F> {
    fn next_line(&mut self) -> io::Result<Option<Placed<'_>>> {
        Backward::next_line(self)
    }
}

/// Shows the wanted lines. Returns whether there are no more; `false`: the sink wants none.
fn show_lines<S: Sink>(
    lines: &mut impl NextLine,
    path: &Path,
    sink: &mut S,
) -> Result<io::Result<bool>, S::Error> {
    loop {
        match lines.next_line() {
            Ok(Some(line)) => {
                if sink.wants(path, line) {
                    sink.show(line.bytes)?;
                }
                if !sink.scanned(line.bytes.len() as u64 + 1)? {
                    return Ok(Ok(false));
                }
            }
            Ok(None) => return Ok(Ok(true)),
            Err(error) => return Ok(Err(error)),
        }
    }
}

/// Shows the wanted lines, the first one first, and what is behind the last newline.
fn show_direct<S: Sink>(
    mut lines: Forward<impl ReadAt>,
    path: &Path,
    sink: &mut S,
) -> Result<io::Result<()>, S::Error> {
    let shown = show_lines(&mut lines, path, sink)?;
    let rest = lines.unfinished();
    let has_rest = rest.is_too_long || !rest.bytes.is_empty();
    if matches!(shown, Ok(true)) && has_rest && sink.wants(path, rest) {
        sink.show(rest.bytes)?;
    }
    Ok(shown.map(|_| ()))
}

/// Takes wanted lines from the end, up to `count`.
fn take_last<S: Sink>(
    mut lines: Backward<impl ReadAt>,
    (count, kept): (usize, &mut Kept),
    path: &Path,
    newest_first: &mut Vec<Vec<u8>>,
    sink: &mut S,
) -> Result<io::Result<()>, S::Error> {
    while newest_first.len() < count {
        match lines.next_line() {
            Ok(Some(line)) => {
                if sink.wants(path, line) && !kept.add(newest_first, line.bytes) {
                    break;
                }
                if !sink.scanned(line.bytes.len() as u64 + 1)? {
                    break;
                }
            }
            Ok(None) => break,
            Err(error) => return Ok(Err(error)),
        }
    }
    Ok(Ok(()))
}

/// Calls `take` with the wanted lines of a packed file. A malformed file is reported.
///
/// # Errors
/// As `take`, or the sink failed.
pub fn packed<S: Sink>(
    path: &Path,
    mut lines: content::Lines,
    sink: &mut S,
    mut take: impl FnMut(&[u8], &mut S) -> Result<(), S::Error>,
) -> Result<(), S::Error> {
    loop {
        match lines.next_line() {
            Ok(Some(line)) => {
                if sink.wants(path, line) {
                    take(line.bytes, sink)?;
                }
            }
            Ok(None) => return Ok(()),
            Err(error) => {
                sink.problem(path, &error.to_string());
                return Ok(());
            }
        }
        if !sink.scanned(lines.take_read_bytes())? {
            return Ok(());
        }
    }
}

/// Shows the wanted lines of an input that can only be read once, from its start.
///
/// # Errors
/// It cannot be read, or the sink failed.
pub fn stream<S: Sink>(
    path: &Path,
    input: &mut dyn BufRead,
    wanted: Wanted,
    line_bytes_max: usize,
    sink: &mut S,
) -> Result<(), S::Error> {
    let mut last = VecDeque::new();
    let mut kept = Kept::new(line_bytes_max);
    // `None`: each is shown at once.
    let kept_max = match wanted.lines {
        Lines::All if wanted.newest_first => Some(usize::MAX),
        Lines::All => None,
        Lines::Last(count) => Some(count),
    };
    let mut offset = 0;
    let mut line = Vec::new();
    loop {
        let length = line_limit::read_until(input, b'\n', &mut line, line_bytes_max)
            .map_err(ReadError::of(path))?;
        if length.bytes == 0 {
            break;
        }
        let bytes = line.strip_suffix(b"\n").unwrap_or(&line);
        let is_too_long = length.is_too_long;
        if sink.wants(path, Placed { offset, bytes, is_too_long }) {
            match kept_max {
                None => sink.show(bytes)?,
                Some(count) => kept.push(&mut last, bytes, count),
            }
        }
        offset += length.bytes;
    }
    kept.is_full &= kept_max.is_some_and(|count| last.len() < count);
    kept.report(path, sink);
    if wanted.newest_first {
        last.iter().rev().try_for_each(|bytes| sink.show(bytes))?;
    } else {
        last.iter().try_for_each(|bytes| sink.show(bytes))?;
    }
    sink.flush()
}
