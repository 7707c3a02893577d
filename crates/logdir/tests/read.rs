//! Results for programs that read a log directory.

use std::collections::VecDeque;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use tacho_logdir::read::content::Access;
use tacho_logdir::read::files::Input;
use tacho_logdir::read::reader::Placed;
use tacho_logdir::read::{Lines, ReadError, Request, Sink, Window, read};

const ONE: &str = "audit-20261121T100000Z-000001";
const TWO: &str = "audit-20261121T110000Z-000002";
const THREE: &str = "audit-20261121T120000Z-000003";

fn line(seq: u64) -> String {
    format!("{{\"v\":1,\"seq\":{seq},\"ts\":\"2026-11-21T10:00:00Z\",\"event\":\"stop\"}}")
}

fn text(seqs: std::ops::RangeInclusive<u64>) -> String {
    seqs.map(|seq| line(seq) + "\n").collect()
}

fn seq_of(line: &[u8]) -> u64 {
    let text = std::str::from_utf8(line).expect("a line of the log");
    let seq = text.strip_prefix("{\"v\":1,\"seq\":").and_then(|rest| rest.split_once(','));
    seq.and_then(|(seq, _)| seq.parse().ok()).expect("a line of the log")
}

/// Wants all lines. At each pause of the reader, it makes the next of `changes`; after the last one
/// it stops the reading.
#[derive(Default)]
struct Collected {
    seqs: Vec<u64>,
    problems: Vec<String>,
    changes: VecDeque<(PathBuf, String)>,
    /// The number of the line that the previous change wrote.
    awaited: Option<u64>,
    is_over: bool,
}

impl Sink for Collected {
    type Error = ReadError;

    fn wants(&mut self, _: &Path, line: Placed<'_>) -> bool {
        !line.is_too_long
    }

    fn show(&mut self, bytes: &[u8]) -> Result<(), ReadError> {
        self.seqs.push(seq_of(bytes));
        Ok(())
    }

    fn flush(&mut self) -> Result<(), ReadError> {
        if self.awaited.is_some_and(|seq| self.seqs.last() != Some(&seq)) {
            return Ok(());
        }
        match self.changes.pop_front() {
            Some((path, text)) => {
                self.awaited = text.lines().last().map(|line| seq_of(line.as_bytes()));
                let file = fs::OpenOptions::new().create(true).append(true).open(path);
                file.expect("opens").write_all(text.as_bytes()).expect("writes");
            }
            None => self.is_over = true,
        }
        Ok(())
    }

    fn problem(&mut self, path: &Path, reason: &str) {
        self.problems.push(format!("{}: {reason}", path.display()));
    }

    fn note(&mut self, text: &str) {
        panic!("{text}")
    }

    fn out_of_room(&mut self, path: &Path, _: usize) {
        panic!("{}: out of room", path.display())
    }

    fn stopped(&self) -> bool {
        self.is_over
    }
}

/// A log of a compressed file and a plain one.
fn log() -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("makes");
    let packed = zstd::encode_all(text(1..=3).as_bytes(), 1).expect("packs");
    fs::write(directory.path().join(format!("{ONE}.jsonl.zst")), packed).expect("writes");
    fs::write(directory.path().join(format!("{TWO}.jsonl")), text(4..=6)).expect("writes");
    directory
}

fn collect(directory: &Path, request: &Request<'_>, mut sink: Collected) -> Collected {
    let place = Input::of(directory).expect("is there");
    assert!(matches!(place, Input::Directory(_)));
    read(place, request, &Access::default(), &mut sink).expect("reads");
    sink
}

const ALL: Request<'static> = Request {
    from: None,
    lines: Lines::All,
    newest_first: false,
    window: Window { since: None, until: None },
    follow: false,
};

#[test]
fn lines_come_in_the_order_of_the_log() {
    let log = log();
    let seqs = |request: &Request<'_>| collect(log.path(), request, Collected::default()).seqs;
    assert_eq!(seqs(&ALL), [1, 2, 3, 4, 5, 6]);
    assert_eq!(seqs(&Request { lines: Lines::Last(4), ..ALL }), [3, 4, 5, 6]);
    assert_eq!(seqs(&Request { from: Some(TWO), ..ALL }), [4, 5, 6]);
}

#[test]
fn the_newest_lines_come_first_if_the_request_says_so() {
    let log = log();
    let newest_first = Request { newest_first: true, ..ALL };
    let seqs = |request: &Request<'_>| collect(log.path(), request, Collected::default()).seqs;
    let check = || {
        assert_eq!(seqs(&newest_first), [6, 5, 4, 3, 2, 1]);
        let last = |count| seqs(&Request { lines: Lines::Last(count), ..newest_first });
        assert_eq!(last(4), [6, 5, 4, 3]);
        assert_eq!((last(0), last(9).len()), (vec![], 6));
        assert_eq!(seqs(&Request { from: Some(TWO), ..newest_first }), [6, 5, 4]);
    };
    // The older file is compressed, and can only be read from its start.
    check();
    fs::remove_file(log.path().join(format!("{ONE}.jsonl.zst"))).expect("removes");
    fs::write(log.path().join(format!("{ONE}.jsonl")), text(1..=3)).expect("writes");
    check();
}

#[test]
fn a_link_is_a_problem_and_not_followed() {
    let log = log();
    let outside = tempfile::NamedTempFile::new().expect("makes");
    fs::write(outside.path(), text(7..=7)).expect("writes");
    symlink(outside.path(), log.path().join(format!("{THREE}.jsonl"))).expect("links");
    let collected = collect(log.path(), &ALL, Collected::default());
    assert_eq!(collected.seqs, [1, 2, 3, 4, 5, 6]);
    assert_eq!(collected.problems.len(), 1);
    assert!(collected.problems[0].contains("a symbolic link"), "{:?}", collected.problems);
}

#[test]
fn later_lines_follow() {
    let log = log();
    let at = |stem: &str| log.path().join(format!("{stem}.jsonl"));
    let changes = [(at(TWO), text(7..=7)), (at(THREE), text(8..=9)), (at(THREE), text(10..=10))];
    let sink = Collected { changes: changes.into(), ..Collected::default() };
    let collected =
        collect(log.path(), &Request { lines: Lines::Last(1), follow: true, ..ALL }, sink);
    assert_eq!(collected.seqs, [6, 7, 8, 9, 10]);
    assert_eq!(collected.problems, [""; 0]);
}
