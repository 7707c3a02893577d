//! The numbers of lines that are passed on, for example sent: detects repeated lines, missing
//! lines, and another log.
//!
//! A file may appear again (`docs/specs/file.md`, "Changes by others"), and a restart reads its
//! last file from the beginning: lines that were already sent are skipped by their `seq`. But a log
//! that was discarded and begun anew has the same numbers, too, and skipping its lines would be a
//! silent loss. So numbers may only repeat in a file that is known, by its name or by its first
//! line.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use jiff::Timestamp;

use tacho_logdir::read::content;

/// A line of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Name of its file, without its ending.
    pub file: Rc<str>,
    /// Its number.
    pub seq: u64,
    /// Its time.
    pub ts: Timestamp,
}

/// Classification of a line.
#[derive(Debug, PartialEq, Eq)]
pub enum Meeting {
    /// The next one.
    Next,
    /// A later one: the lines with these numbers are missing.
    Gap(u64, u64),
    /// A repeated line.
    Known,
    /// A repeated number in a file that should not have it.
    OutOfOrder,
    /// The first line of another log.
    AnotherLog,
}

/// The lines so far.
#[derive(Debug)]
pub struct Order {
    last: Option<u64>,
    /// File of the current line.
    path: PathBuf,
    file: Rc<str>,
    /// Names of files that were read.
    files: HashSet<Rc<str>>,
    /// First lines of files that were read.
    firsts: HashSet<(u64, Timestamp)>,
    /// The current file was read before.
    is_again: bool,
}

impl Order {
    /// Begins after the line `last`, in a file of that name; or anywhere.
    pub fn new(last: Option<&Mark>) -> Self {
        Self {
            last: last.map(|mark| mark.seq),
            path: PathBuf::new(),
            file: "".into(),
            files: last.map(|mark| mark.file.clone()).into_iter().collect(),
            firsts: HashSet::new(),
            is_again: false,
        }
    }

    /// Name of the file of the last line, without its ending.
    pub fn file(&self) -> &Rc<str> {
        &self.file
    }

    /// Whether the line is a repeated one, as far as this is clear without parsing it.
    pub fn skips(&self, path: &Path, offset: u64, bytes: &[u8]) -> bool {
        self.is_again
            && offset > 0
            && self.path == path
            && seq_of(bytes).zip(self.last).is_some_and(|(seq, last)| seq <= last)
    }

    /// Classifies a line that begins at `offset` of its file.
    pub fn meet(&mut self, path: &Path, offset: u64, seq: u64, ts: Timestamp) -> Meeting {
        let was_met = self.last.is_some_and(|last| seq <= last);
        if offset == 0 || self.path != path {
            self.path = path.to_owned();
            self.file = stem(path).into();
            let is_known_name = !self.files.insert(self.file.clone());
            let is_known_line = offset == 0 && !self.firsts.insert((seq, ts));
            self.is_again = was_met;
            if was_met && offset == 0 && !is_known_name && !is_known_line {
                return Meeting::AnotherLog;
            }
        }
        match self.last {
            Some(_) if was_met && self.is_again => Meeting::Known,
            Some(_) if was_met => Meeting::OutOfOrder,
            last => {
                self.last = Some(seq);
                match last {
                    Some(last) if seq - last > 1 => Meeting::Gap(last + 1, seq - 1),
                    _ => Meeting::Next,
                }
            }
        }
    }
}

/// The name of a log file without its ending.
pub fn stem(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let stem = name.strip_suffix(content::form_of(path).ending());
    stem.map_or(&*name, |stem| stem.strip_suffix('.').unwrap_or(stem)).to_owned()
}

/// The number of a line, from the fixed beginning of lines (`docs/specs/file.md`).
pub fn seq_of(line: &[u8]) -> Option<u64> {
    let rest = line.strip_prefix(br#"{"v":1,"seq":"#)?;
    let length = rest.iter().position(|byte| !byte.is_ascii_digit())?;
    std::str::from_utf8(&rest[..length]).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "/log/audit-20261121T100000Z-000001.jsonl";
    const TWO: &str = "/log/audit-20261121T110000Z-000002.jsonl";
    const THREE: &str = "/log/audit-20261121T120000Z-000003.jsonl";

    fn meet(order: &mut Order, path: &str, offset: u64, seq: u64) -> Meeting {
        let ts = Timestamp::from_second(i64::try_from(seq).unwrap()).unwrap();
        order.meet(Path::new(path), offset, seq, ts)
    }

    fn mark(file: &str, seq: u64) -> Mark {
        Mark { file: file.into(), seq, ts: Timestamp::UNIX_EPOCH }
    }

    #[test]
    fn gaps_are_detected_within_files_and_between_them() {
        let mut order = Order::new(None);
        assert_eq!(meet(&mut order, ONE, 0, 5), Meeting::Next);
        assert_eq!(meet(&mut order, ONE, 10, 6), Meeting::Next);
        assert_eq!(meet(&mut order, ONE, 20, 9), Meeting::Gap(7, 8));
        assert_eq!(meet(&mut order, TWO, 0, 10), Meeting::Next);
        assert_eq!(meet(&mut order, THREE, 0, 20), Meeting::Gap(11, 19));
        assert_eq!(&**order.file(), "audit-20261121T120000Z-000003");
    }

    #[test]
    fn a_file_that_appears_again_is_skipped() {
        // The same file, compressed; and one with the same lines under the next name.
        for again in [&format!("{TWO}.zst"), THREE] {
            let mut order = Order::new(None);
            for (offset, seq) in [(0, 1), (10, 2), (20, 3)] {
                assert_eq!(meet(&mut order, TWO, offset, seq), Meeting::Next);
            }
            for (offset, seq) in [(0, 1), (10, 2)] {
                assert_eq!(meet(&mut order, again, offset, seq), Meeting::Known);
            }
            let line = br#"{"v":1,"seq":3,"ts":"#;
            assert!(order.skips(Path::new(again), 20, line));
            assert_eq!(meet(&mut order, again, 30, 4), Meeting::Next);
        }
    }

    #[test]
    fn a_restart_continues_in_its_file() {
        let mut order = Order::new(Some(&mark("audit-20261121T100000Z-000001", 2)));
        assert_eq!(meet(&mut order, ONE, 0, 1), Meeting::Known);
        assert_eq!(meet(&mut order, ONE, 10, 2), Meeting::Known);
        assert_eq!(meet(&mut order, ONE, 20, 3), Meeting::Next);
    }

    #[test]
    fn the_file_may_be_gone() {
        let mut order = Order::new(Some(&mark("audit-20261121T100000Z-000001", 2)));
        assert_eq!(meet(&mut order, TWO, 0, 7), Meeting::Gap(3, 6));
    }

    #[test]
    fn another_log_is_not_skipped() {
        let mut order = Order::new(Some(&mark("audit-20261121T100000Z-000001", 2)));
        assert_eq!(meet(&mut order, TWO, 0, 1), Meeting::AnotherLog);
        let mut order = Order::new(None);
        assert_eq!(meet(&mut order, ONE, 0, 1), Meeting::Next);
        assert_eq!(meet(&mut order, ONE, 10, 2), Meeting::Next);
        let begun_anew = order.meet(Path::new(TWO), 0, 1, Timestamp::UNIX_EPOCH);
        assert_eq!(begun_anew, Meeting::AnotherLog);
    }

    #[test]
    fn an_inserted_line_is_not_a_repeated_line() {
        let mut order = Order::new(None);
        assert_eq!(meet(&mut order, ONE, 0, 5), Meeting::Next);
        assert_eq!(meet(&mut order, ONE, 10, 5), Meeting::OutOfOrder);
        assert_eq!(meet(&mut order, ONE, 20, 6), Meeting::Next);
    }

    #[test]
    fn only_lines_that_begin_as_ours_have_a_number() {
        assert_eq!(seq_of(br#"{"v":1,"seq":17,"ts""#), Some(17));
        assert_eq!(seq_of(br#"{"v":1,"seq":17"#), None);
        assert_eq!(seq_of(br#"{"seq":17,"#), None);
    }
}
