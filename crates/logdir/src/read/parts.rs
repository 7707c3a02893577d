//! Which parts of the files can hold an answer.
//!
//! Lines are written in about the order in which their events ended, but `ts` is the beginning. A
//! line of the range can therefore not precede the position of `since`, but it can follow the
//! position of `until`, if its statement took long. Reading to the end of the log for such lines
//! would turn every question about last week into one about the whole log, so the range of
//! positions ends a margin after `until`: a statement that was still open then is shown by its
//! `running` line.

use jiff::{SignedDuration, Timestamp};

use super::direct;
use super::files::LogFile;
use super::reader::Split;
use super::request::Window;

/// How much the order of lines and the times in names may be off: buffering in the recorder, a
/// stall of the disk, a step of the clock.
const MARGIN: SignedDuration = SignedDuration::from_secs(60);

/// Part of a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Part<'a> {
    pub(super) file: &'a LogFile,
    pub(super) start: u64,
    /// `None`: to the end of the file.
    pub(super) end: Option<u64>,
}

impl Part<'_> {
    /// The bytes that are read of it.
    pub(super) fn bytes(&self) -> u64 {
        self.end.unwrap_or_else(|| direct::bytes(self.file)).saturating_sub(self.start)
    }
}

/// The parts to read, oldest first. `split`: position of a time in a file, if it can be determined.
pub(super) fn parts(
    files: &[LogFile],
    window: Window,
    mut split: impl FnMut(&LogFile, Timestamp) -> Option<Split>,
) -> Vec<Part<'_>> {
    let mut parts: Vec<Part> =
        files.iter().map(|file| Part { file, start: 0, end: None }).collect();
    if let Some(until) = window.until {
        cut_after(&mut parts, until.saturating_add(MARGIN).unwrap_or(until), &mut split);
    }
    if let Some(since) = window.since {
        let place = since.saturating_sub(MARGIN).unwrap_or(since);
        parts.drain(..last_begun(&parts, place));
        if let Some(part) = parts.first_mut()
            && let Some(split) = split(part.file, place)
        {
            part.start = split.before;
        }
    }
    parts
}

/// Ends the parts at the first line that ended at `place` or later. Lines that a crashed server had
/// not written are at the start of the file begun after the crash, however much later that was:
/// only a line can determine the end, not the name of a file.
fn cut_after(
    parts: &mut Vec<Part<'_>>,
    place: Timestamp,
    split: &mut impl FnMut(&LogFile, Timestamp) -> Option<Split>,
) {
    for index in last_begun(parts, place)..parts.len() {
        let split = split(parts[index].file, place);
        if let Some(after) = split.and_then(|split| split.after) {
            parts[index].end = Some(after);
            parts.truncate(index + 1);
            return;
        }
    }
}

/// The last file that was begun before `place`, or the first one. All earlier files were finished
/// by then.
fn last_begun(parts: &[Part], place: Timestamp) -> usize {
    parts.iter().rposition(|part| part.file.begun.is_some_and(|b| b <= place)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;
    use std::path::Path;

    use super::super::content::Access;
    use super::super::newest::open_newest;
    use super::super::scan::Scan;
    use super::super::test_sink::{Kept, columns, compress};
    use super::*;
    use crate::form::Form;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    /// Ten files of 1000 s each with one line per second, and the offset of a line by its second.
    fn log(directory: &Path, form: Form) -> impl Fn(i64) -> u64 {
        let mut length = 0;
        for number in 0..10 {
            let begun = at(number * 1000);
            let (begun, ending) = (begun.strftime("%Y%m%dT%H%M%SZ"), form.ending());
            let name = format!("audit-{begun}-{number:06}.{ending}");
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
            let path = directory.join(name);
            match form {
                Form::Compressed => compress(&path, text.as_bytes()),
                Form::Columns => columns(&path, text.as_bytes()),
                _ => std::fs::write(path, text).unwrap(),
            }
        }
        move |second| length * u64::try_from(second % 1000).unwrap()
    }

    fn parts(
        directory: &Path,
        since: Option<i64>,
        until: Option<i64>,
    ) -> Vec<(usize, u64, Option<u64>)> {
        let files = super::super::files::list(directory).unwrap().files;
        let newest = open_newest(&files, false, &mut Kept::default()).unwrap();
        let access = Access::default();
        let scan = Scan { files: &files, newest: newest.as_ref(), access: &access };
        let window = Window { since: since.map(at), until: until.map(at) };
        let parts = scan.parts(window, &mut Kept::default());
        let index = |part: &Part| files.iter().position(|file| file == part.file).unwrap();
        parts.iter().map(|part| (index(part), part.start, part.end)).collect()
    }

    #[test]
    fn only_the_parts_that_can_answer_are_read() {
        for form in [Form::Plain, Form::Compressed, Form::Columns] {
            only_these_parts_are_read(form);
        }
    }

    fn only_these_parts_are_read(form: Form) {
        let directory = tempfile::tempdir().unwrap();
        let offset = log(directory.path(), form);
        let parts = |since, until| parts(directory.path(), since, until);
        assert_eq!(parts(None, None).len(), 10);
        assert_eq!(parts(Some(9500), None), [(9, offset(440), None)]);
        assert_eq!(parts(Some(3500), Some(3600)), [(3, offset(440), Some(offset(660)))]);
        assert_eq!(
            parts(Some(3990), Some(4010)),
            [(3, offset(930), None), (4, 0, Some(offset(70)))]
        );
        // The margin extends into the neighbours.
        assert_eq!(parts(Some(4010), Some(4100))[0], (3, offset(950), None));
        assert_eq!(parts(None, Some(990)).last(), Some(&(1, 0, Some(offset(50)))));
        assert_eq!(parts(Some(-1000), None).len(), 10);
        assert_eq!(parts(None, Some(-1000)), [(0, 0, Some(0))]);
        // There is nothing yet, but there may be in a file whose clock is ahead.
        assert_eq!(parts(Some(20_000), None), [(9, offset(999) + offset(1), None)]);
    }

    #[test]
    fn lines_recovered_after_a_crash_are_found() {
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
        // The server died at 510 and was restarted at 9000.
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
