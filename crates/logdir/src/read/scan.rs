//! Shows what is in the log already: picks the parts of files that can hold an answer and reads
//! them, oldest line first or newest line first.
//!
//! Lines are written in about the order in which their matter was over; `ts` is when it began.
//! A line of the range can therefore not stand before the place where `since` is, but it can
//! stand behind the place where `until` is, if its statement took long. Reading on to the end
//! of the log for those would make every question about last week one about the whole log, so
//! the range of places ends a margin after `until`: a statement that was still open then is
//! shown by its `running` line.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufRead};
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tacho_record::Line;

use super::content::{self, Access, Opened};
use super::files::LogFile;
use super::line_limit;
use super::reader::{Backward, Forward, Placed, Split, complete_length, split_at};
use super::{Lines, ReadError, Sink, Window};
use crate::form::Form;

/// How far the order of lines and the times in names may be off: the recorder's own buffering,
/// a stall of the disk, a step of the clock.
const MARGIN: SignedDuration = SignedDuration::from_secs(60);

/// How long a line that is being written may take to become complete.
const SETTLE_TIME: Duration = Duration::from_millis(500);
const SETTLE_INTERVAL: Duration = Duration::from_millis(20);

/// The newest file, open, and how much of it was there when it was opened.
pub struct Newest {
    /// The file.
    pub file: File,
    /// The end of what is there now; all after it is new.
    pub end: u64,
}

/// Opens the newest file. When it will be followed, a last line that is not complete yet is
/// left for later. Otherwise its end is waited for a moment, because a busy server is always in
/// the middle of a line; what is not complete after that is broken.
///
/// # Errors
/// When it is the only file and cannot be opened.
pub fn open_newest<S: Sink>(
    files: &[LogFile],
    follow: bool,
    sink: &mut S,
) -> Result<Option<Newest>, ReadError> {
    let Some(newest) = files.last().filter(|newest| newest.form == Form::Plain) else {
        return Ok(None);
    };
    let open = || {
        let file = newest.links().open(&newest.path)?;
        let end = if follow {
            complete_length(&file, file.metadata()?.len())?
        } else {
            settled_length(&file)?
        };
        Ok(Newest { file, end })
    };
    match open() {
        Ok(newest) => Ok(Some(newest)),
        Err(error) if files.len() == 1 => Err(ReadError::Open { path: newest.path.clone(), error }),
        Err(error) => {
            sink.problem(&newest.path, &error.to_string());
            Ok(None)
        }
    }
}

fn settled_length(file: &File) -> io::Result<u64> {
    let length = file.metadata()?.len();
    let complete = complete_length(file, length)?;
    if complete == length {
        return Ok(length);
    }
    for _ in 0..SETTLE_TIME.as_millis() / SETTLE_INTERVAL.as_millis() {
        std::thread::sleep(SETTLE_INTERVAL);
        let grown = complete_length(file, file.metadata()?.len())?;
        if grown > complete {
            return Ok(grown);
        }
    }
    Ok(length)
}

/// Part of a file.
#[derive(Debug, PartialEq, Eq)]
struct Part<'a> {
    file: &'a LogFile,
    start: u64,
    /// `None`: to the end of the file.
    end: Option<u64>,
}

/// The run that a line names. Broken lines are reported when they are shown.
fn run_of(line: Placed) -> Option<u64> {
    Line::parse(line.bytes).ok().and_then(|line| line.run)
}

/// The files of a log, and what their reading needs.
pub struct Scan<'a> {
    /// Oldest first.
    pub files: &'a [LogFile],
    /// The last of them, if it is plain and could be opened.
    pub newest: Option<&'a Newest>,
    /// See [`Access`].
    pub access: &'a Access,
}

impl<'a> Scan<'a> {
    /// Shows the lines that are wanted.
    ///
    /// # Errors
    /// When the sink takes no more. Files that cannot be read are told of and passed over.
    pub fn run<S: Sink>(&self, lines: Lines, window: Window, sink: &mut S) -> Result<(), S::Error> {
        if lines == Lines::Last(0) {
            return Ok(());
        }
        let parts = self.parts(window, sink);
        for part in &parts {
            let length = std::fs::metadata(&part.file.path).map_or(0, |metadata| metadata.len());
            sink.expect(part.end.unwrap_or(length).saturating_sub(part.start));
        }
        match lines {
            Lines::All => self.show_all(&parts, sink)?,
            Lines::Last(count) => self.show_last(&parts, count, sink)?,
        }
        sink.flush()
    }

    /// The run of the newest line that names one.
    pub fn newest_run<S: Sink>(&self, sink: &mut S) -> Option<u64> {
        self.files.iter().rev().find_map(|file| self.last_run(file, sink))
    }

    fn parts<S: Sink>(&self, window: Window, sink: &mut S) -> Vec<Part<'a>> {
        let mut parts: Vec<Part> =
            self.files.iter().map(|file| Part { file, start: 0, end: None }).collect();
        if let Some(until) = window.until {
            self.cut_after(&mut parts, until.saturating_add(MARGIN).unwrap_or(until), sink);
        }
        if let Some(since) = window.since {
            let place = since.saturating_sub(MARGIN).unwrap_or(since);
            parts.drain(..last_begun(&parts, place));
            if let Some(part) = parts.first_mut()
                && let Some(split) = self.split(part.file, place, sink)
            {
                part.start = split.before;
            }
        }
        parts
    }

    /// Ends the parts at the first line that was over at `place`. What a crashed server had not
    /// written yet is at the start of the file begun after the crash, however much later that
    /// was: only a line can tell where to end, not the name of a file.
    fn cut_after<S: Sink>(&self, parts: &mut Vec<Part<'a>>, place: Timestamp, sink: &mut S) {
        for index in last_begun(parts, place)..parts.len() {
            let split = self.split(parts[index].file, place, sink);
            if let Some(after) = split.and_then(|split| split.after) {
                parts[index].end = Some(after);
                parts.truncate(index + 1);
                return;
            }
        }
    }

    fn split<S: Sink>(&self, log: &LogFile, place: Timestamp, sink: &mut S) -> Option<Split> {
        if log.form != Form::Plain {
            return None;
        }
        match self.open(log, sink)? {
            Source::Plain(file, length) => {
                told(split_at(&file, length, place, self.access.line_bytes_max), &log.path, sink)
            }
            Source::Packed(..) => None,
        }
    }

    /// Opens a file, in whatever form it is by now. A failure is told of and gives `None`.
    fn open<S: Sink>(&self, log: &LogFile, sink: &mut S) -> Option<Source> {
        let is_newest = self.files.last().is_some_and(|last| last.path == log.path);
        let open = || {
            if is_newest && log.form == Form::Plain {
                // One that could not be opened was told of.
                let Some(newest) = self.newest else { return Ok(None) };
                return Ok(Some(Source::Plain(newest.file.try_clone()?, newest.end)));
            }
            Ok(Some(match content::open_log(&log.path, log.links(), self.access)? {
                Opened::Plain(file) => {
                    let length = file.metadata()?.len();
                    Source::Plain(file, length)
                }
                Opened::Packed(path, lines) => Source::Packed(path, lines),
            }))
        };
        told(open(), &log.path, sink).flatten()
    }

    fn last_run<S: Sink>(&self, log: &LogFile, sink: &mut S) -> Option<u64> {
        let mut last = None;
        // Errors are reported when the lines are to be shown.
        match self.open(log, sink)? {
            Source::Plain(file, length) => {
                let mut lines = Backward::new(&file, 0..length, self.access.line_bytes_max);
                while let (None, Ok(Some(line))) = (last, lines.next_line()) {
                    last = run_of(line);
                }
            }
            Source::Packed(_, mut lines) => {
                while let Ok(Some(line)) = lines.next_line() {
                    last = run_of(line).or(last);
                }
            }
        }
        last
    }

    fn show_all<S: Sink>(&self, parts: &[Part], sink: &mut S) -> Result<(), S::Error> {
        for part in parts {
            match self.open(part.file, sink) {
                None => {}
                Some(Source::Packed(path, lines)) => {
                    packed(&path, lines, sink, |line, sink| sink.show(line))?;
                }
                Some(Source::Plain(file, length)) => {
                    let range = part.start..part.end.unwrap_or(length);
                    let lines = Forward::new(&file, range, self.access.line_bytes_max);
                    let answer = show_plain(lines, &part.file.path, sink)?;
                    told(answer, &part.file.path, sink);
                }
            }
        }
        Ok(())
    }

    fn show_last<S: Sink>(
        &self,
        parts: &[Part],
        count: usize,
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
                Some(Source::Packed(path, lines)) => {
                    let wanted_count = count - newest_first.len();
                    let mut last = VecDeque::new();
                    packed(&path, lines, sink, |line, _| {
                        kept.push(&mut last, line, wanted_count);
                        Ok(())
                    })?;
                    newest_first.extend(last.into_iter().rev());
                }
                Some(Source::Plain(file, length)) => {
                    let range = part.start..part.end.unwrap_or(length);
                    let lines = Backward::new(&file, range, self.access.line_bytes_max);
                    let path = &part.file.path;
                    let wanted = (count, &mut kept);
                    let answer = take_last(lines, wanted, path, &mut newest_first, sink)?;
                    told(answer, path, sink);
                }
            }
        }
        // What had no room may have been older than what was wanted.
        kept.is_full &= newest_first.len() < count;
        kept.report(parts.first().map_or(Path::new(""), |part| &part.file.path), sink);
        for line in newest_first.iter().rev() {
            sink.show(line)?;
        }
        Ok(())
    }
}

/// How much of the newest lines is in memory until they are shown.
struct Kept {
    bytes: usize,
    bytes_max: usize,
    /// There are more lines, and no room for them.
    is_full: bool,
}

impl Kept {
    fn new(line_bytes_max: usize) -> Self {
        // Twice: the longest line, and as much of others.
        Self { bytes: 0, bytes_max: line_bytes_max.saturating_mul(2), is_full: false }
    }

    fn fits(&self, line: &[u8]) -> bool {
        self.bytes.saturating_add(line.len()) <= self.bytes_max
    }

    /// Adds a newer line to the newest `count` of a file, and lets older ones go.
    fn push(&mut self, last: &mut VecDeque<Vec<u8>>, line: &[u8], count: usize) {
        while last.len() >= count.max(1) {
            self.bytes -= last.pop_front().map_or(0, |oldest| oldest.len());
        }
        while !self.fits(line) {
            self.is_full = true;
            let Some(oldest) = last.pop_front() else { return };
            self.bytes -= oldest.len();
        }
        self.bytes += line.len();
        last.push_back(line.to_vec());
    }

    fn report<S: Sink>(&self, path: &Path, sink: &mut S) {
        if self.is_full {
            sink.out_of_room(path, self.bytes_max);
        }
    }
}

/// A file that was opened.
enum Source {
    /// It is read at any place, up to that length.
    Plain(File, u64),
    /// It is read from its start, and this is where it is.
    Packed(PathBuf, content::Lines),
}

/// Tells of a failure to read.
fn told<T, S: Sink>(answer: io::Result<T>, path: &Path, sink: &mut S) -> Option<T> {
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

fn show_plain<S: Sink>(
    mut lines: Forward<&File>,
    path: &Path,
    sink: &mut S,
) -> Result<io::Result<()>, S::Error> {
    loop {
        match lines.next_line() {
            Ok(Some(line)) => {
                if sink.wants(path, line) {
                    sink.show(line.bytes)?;
                }
                if !sink.scanned(line.bytes.len() as u64 + 1)? {
                    return Ok(Ok(()));
                }
            }
            Ok(None) => break,
            Err(error) => return Ok(Err(error)),
        }
    }
    let rest = lines.unfinished();
    if (rest.is_too_long || !rest.bytes.is_empty()) && sink.wants(path, rest) {
        sink.show(rest.bytes)?;
    }
    Ok(Ok(()))
}

/// Takes wanted lines from the end, until there are `count`.
fn take_last<S: Sink>(
    mut lines: Backward<'_>,
    (count, kept): (usize, &mut Kept),
    path: &Path,
    newest_first: &mut Vec<Vec<u8>>,
    sink: &mut S,
) -> Result<io::Result<()>, S::Error> {
    while newest_first.len() < count {
        match lines.next_line() {
            Ok(Some(line)) => {
                if sink.wants(path, line) {
                    if !kept.fits(line.bytes) {
                        kept.is_full = true;
                        break;
                    }
                    kept.bytes += line.bytes.len();
                    newest_first.push(line.bytes.to_vec());
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

/// Calls `take` with the wanted lines of a packed file. One that makes no sense is told of.
///
/// # Errors
/// As `take`, and when the sink takes no more.
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

/// The last file that was begun before `place`, or the first one. All files before it were
/// finished when it was begun.
fn last_begun(parts: &[Part], place: Timestamp) -> usize {
    parts.iter().rposition(|part| part.file.begun.is_some_and(|b| b <= place)).unwrap_or(0)
}

/// Shows the wanted lines of something that can only be read once, from its start.
///
/// # Errors
/// When it cannot be read or the sink takes no more.
pub fn stream<S: Sink>(
    path: &Path,
    input: &mut dyn BufRead,
    lines: Lines,
    line_bytes_max: usize,
    sink: &mut S,
) -> Result<(), S::Error> {
    let mut last = VecDeque::new();
    let mut kept = Kept::new(line_bytes_max);
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
            match lines {
                Lines::All => sink.show(bytes)?,
                Lines::Last(count) => kept.push(&mut last, bytes, count),
            }
        }
        offset += length.bytes;
    }
    kept.is_full &= matches!(lines, Lines::Last(count) if last.len() < count);
    kept.report(path, sink);
    for bytes in &last {
        sink.show(bytes)?;
    }
    sink.flush()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write as _;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    /// Wants no line, and must be told of no problem.
    struct Untroubled;

    impl Sink for Untroubled {
        type Error = ReadError;

        fn wants(&mut self, _: &Path, _: Placed<'_>) -> bool {
            false
        }

        fn show(&mut self, _: &[u8]) -> Result<(), ReadError> {
            panic!("no line was wanted")
        }

        fn flush(&mut self) -> Result<(), ReadError> {
            Ok(())
        }

        fn problem(&mut self, path: &Path, reason: &str) {
            panic!("{}: {reason}", path.display())
        }

        fn note(&mut self, text: &str) {
            panic!("{text}")
        }

        fn out_of_room(&mut self, path: &Path, _: usize) {
            panic!("{}: out of room", path.display())
        }

        fn scanned(&mut self, _: u64) -> Result<bool, ReadError> {
            Ok(true)
        }

        fn stopped(&self) -> bool {
            false
        }
    }

    /// Ten files of 1000 s each with a line a second, and the offset of a line by its second.
    fn log(directory: &Path) -> impl Fn(i64) -> u64 {
        let mut length = 0;
        for number in 0..10 {
            let begun = at(number * 1000);
            let name = format!("audit-{}-{number:06}.jsonl", begun.strftime("%Y%m%dT%H%M%SZ"));
            let mut text = String::new();
            for second in number * 1000..(number + 1) * 1000 {
                let ts = at(second);
                writeln!(
                    text,
                    r#"{{"v":1,"seq":1,"ts":"{ts}","event":"statement","outcome":"ok"}}"#
                )
                .unwrap();
            }
            length = text.len() as u64 / 1000;
            std::fs::write(directory.join(name), text).unwrap();
        }
        move |second| length * u64::try_from(second % 1000).unwrap()
    }

    fn parts(
        directory: &Path,
        since: Option<i64>,
        until: Option<i64>,
    ) -> Vec<(usize, u64, Option<u64>)> {
        let files = super::super::files::list(directory).unwrap().files;
        let newest = open_newest(&files, false, &mut Untroubled).unwrap();
        let access = Access::default();
        let scan = Scan { files: &files, newest: newest.as_ref(), access: &access };
        let window = Window { since: since.map(at), until: until.map(at) };
        let parts = scan.parts(window, &mut Untroubled);
        let index = |part: &Part| files.iter().position(|file| file == part.file).unwrap();
        parts.iter().map(|part| (index(part), part.start, part.end)).collect()
    }

    #[test]
    fn only_the_parts_that_can_answer_are_read() {
        let directory = tempfile::tempdir().unwrap();
        let offset = log(directory.path());
        let parts = |since, until| parts(directory.path(), since, until);
        assert_eq!(parts(None, None).len(), 10);
        assert_eq!(parts(Some(9500), None), [(9, offset(440), None)]);
        assert_eq!(parts(Some(3500), Some(3600)), [(3, offset(440), Some(offset(660)))]);
        assert_eq!(
            parts(Some(3990), Some(4010)),
            [(3, offset(930), None), (4, 0, Some(offset(70)))]
        );
        // The margin reaches into the neighbours.
        assert_eq!(parts(Some(4010), Some(4100))[0], (3, offset(950), None));
        assert_eq!(parts(None, Some(990)).last(), Some(&(1, 0, Some(offset(50)))));
        assert_eq!(parts(Some(-1000), None).len(), 10);
        assert_eq!(parts(None, Some(-1000)), [(0, 0, Some(0))]);
        // Nothing is there yet, but it may be for a file whose clock is ahead.
        assert_eq!(parts(Some(20_000), None), [(9, offset(999) + offset(1), None)]);
    }

    #[test]
    fn what_was_recovered_after_a_crash_is_found() {
        let directory = tempfile::tempdir().unwrap();
        let line = |ts: i64, event: &str, outcome: &str| {
            let ts = at(ts);
            format!(r#"{{"v":1,"seq":1,"ts":"{ts}","event":"{event}","outcome":"{outcome}"}}"#)
                + "\n"
        };
        let write = |begun: i64, number: u32, text: &str| {
            let begun = at(begun).strftime("%Y%m%dT%H%M%SZ").to_string();
            let name = format!("audit-{begun}-{number:06}.jsonl");
            std::fs::write(directory.path().join(name), text).unwrap();
        };
        write(0, 1, &line(500, "statement", "ok"));
        // The server died at 510 and was started at 9000.
        let recovered = line(9000, "start", "")
            + &line(509, "statement", "ok")
            + &line(505, "statement", "interrupted");
        write(9000, 2, &(recovered.clone() + &line(9001, "statement", "ok")));
        write(9100, 3, &line(9100, "statement", "ok"));
        assert_eq!(
            parts(directory.path(), None, Some(600)),
            [(0, 0, None), (1, 0, Some(recovered.len() as u64))]
        );
    }
}
