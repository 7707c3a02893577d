//! A follower reads what is new, and only that.

// Each test file uses only a part of this.
#[allow(dead_code)]
mod support;

use std::cell::{Cell, RefCell};
use std::io::{self, Read};

use support::{Dir, TestRecorder, assert_state, line, log, sealed, sidecar, stem};
use tacho_chain::entry::{Frame, RemovalReason};
use tacho_chain::hash::Hash;
use tacho_chain::key::SecretKey;
use tacho_chain::note;
use tacho_chain::verify::{Directory, Follower, GrowingDirectory, LogState, Options};

/// Counts the bytes that are read.
struct Counting {
    dir: RefCell<Dir>,
    bytes: Cell<u64>,
}

struct Reader<'a>(io::Cursor<Vec<u8>>, &'a Cell<u64>);

impl Read for Reader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.0.read(buffer)?;
        self.1.set(self.1.get() + count as u64);
        Ok(count)
    }
}

impl Directory for Counting {
    fn names(&self) -> io::Result<Vec<String>> {
        self.dir.borrow().names()
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn Read + '_>> {
        self.open_from(name, 0)
    }
}

impl GrowingDirectory for Counting {
    fn length(&self, name: &str) -> u64 {
        self.dir.borrow().length(name)
    }

    fn open_from(&self, name: &str, offset: u64) -> io::Result<Box<dyn Read + '_>> {
        let mut bytes = Vec::new();
        self.dir.borrow().open_from(name, offset)?.read_to_end(&mut bytes)?;
        Ok(Box::new(Reader(io::Cursor::new(bytes), &self.bytes)))
    }
}

impl Counting {
    fn of(recorder: &TestRecorder) -> (Self, Follower) {
        let options = Options { keys: vec![recorder.root.clone()], ..Default::default() };
        let dir = Self { dir: RefCell::new(recorder.dir.clone()), bytes: Cell::new(0) };
        (dir, Follower::new(options))
    }

    fn append(&self, name: &str, text: &str) {
        self.dir.borrow_mut().0.entry(name.to_owned()).or_default().extend(text.as_bytes());
    }

    /// Bytes that were read by `call`.
    fn read_by<T>(&self, call: impl FnOnce(&Self) -> T) -> (T, u64) {
        self.bytes.set(0);
        let result = call(self);
        (result, self.bytes.get())
    }
}

/// A log of three files that is stopped, whose second file is large.
fn large() -> TestRecorder {
    let mut recorder = TestRecorder::new(1);
    recorder.lines(3);
    recorder.rotate();
    recorder.lines(10_000);
    recorder.rotate();
    recorder.lines(1);
    recorder.stop();
    recorder
}

#[test]
fn a_change_of_an_older_file_reads_nothing_before_a_restart() {
    let recorder = large();
    let (dir, mut follower) = Counting::of(&recorder);
    let (is_stale, bytes) = dir.read_by(|dir| follower.advance(dir).unwrap());
    assert!(!is_stale && bytes > 900_000);
    dir.append(&log(1), "x");
    let (is_stale, bytes) = dir.read_by(|dir| follower.advance(dir).unwrap());
    assert!(is_stale && bytes < 10_000, "{bytes}");
    let (_, bytes) = dir.read_by(|dir| follower.report(dir).unwrap());
    assert!(bytes < 10_000, "{bytes}");
    follower.restart();
    assert_state(&follower.report(&dir).unwrap(), LogState::Modified);
}

/// Tombstones whose signatures are by a key of no log.
fn tombstones(count: u32) -> String {
    let key = SecretKey::from_bytes(&[9; 32]);
    let text = |number: u32| {
        let tombstone = tacho_chain::entry::Tombstone {
            origin: key.root().origin().to_owned(),
            file: format!("audit-20250101T000000Z-{number:06}.jsonl"),
            first_seq: 1,
            last_seq: 1,
            chain: Hash::ZERO,
            time_s: 1,
            reason: RemovalReason::Age,
            previous: Hash::ZERO,
        };
        note::sign(&tombstone.to_text(), key.root().origin(), &key)
    };
    (1..=count).map(text).collect()
}

#[test]
fn tombstones_are_read_once() {
    let recorder = large();
    let (dir, mut follower) = Counting::of(&recorder);
    dir.append("removed.chain", &tombstones(2000));
    follower.report(&dir).unwrap();
    dir.append("removed.chain", "torn");
    let (_, bytes) = dir.read_by(|dir| follower.advance(dir).unwrap());
    assert_eq!(bytes, 4);
    let report = follower.report(&dir).unwrap();
    let torn = |text: &str| text.contains("the last entry is not complete");
    assert!(report.findings.iter().any(|found| torn(&found.text)) || report.more_findings > 0);
}

#[test]
fn only_so_many_tombstones_are_kept() {
    let recorder = sealed();
    let (dir, mut follower) = Counting::of(&recorder);
    let text = tombstones(3);
    follower.keep_tombstones(2);
    dir.append("removed.chain", &text);
    let report = follower.report(&dir).unwrap();
    let is_said = |text: &str| text == "there are 1 more tombstones than are read";
    assert!(report.findings.iter().any(|found| is_said(&found.text)), "{:?}", report.findings);
    assert_eq!(report.removed_files, 2);
}

#[test]
fn lines_without_a_seal_are_counted_once_and_in_steps() {
    let mut recorder = TestRecorder::new(1);
    recorder.lines(1);
    let (dir, mut follower) = Counting::of(&recorder);
    let unsealed: String = (2..=10_000).map(line).collect();
    dir.append(&log(1), &unsealed);
    // The end of the newest sealed file.
    follower.advance(&dir).unwrap();
    let (is_done, bytes) = dir.read_by(|dir| follower.prepare(dir, 1000).unwrap());
    assert!(!is_done && bytes == 1000, "{bytes}");
    let (first, bytes) = dir.read_by(|dir| follower.report(dir).unwrap());
    assert!(bytes + 2000 > unsealed.len() as u64, "{bytes}");
    let (again, bytes) = dir.read_by(|dir| follower.report(dir).unwrap());
    assert!(bytes < 100_000, "{bytes}");
    assert_eq!((first.unsigned_lines, again.unsigned_lines), (10_000, 10_000));
    // A file without a sidecar, and one whose sidecar has no entry yet.
    dir.append(&log(2), &unsealed);
    dir.append(&log(3), &unsealed);
    dir.append(&sidecar(3), "t");
    follower.advance(&dir).unwrap();
    let (is_done, bytes) = dir.read_by(|dir| follower.prepare(dir, 1000).unwrap());
    assert!(!is_done && bytes <= 2000, "{bytes}");
    let (report, bytes) = dir.read_by(|dir| follower.report(dir).unwrap());
    assert!(bytes + 2000 > unsealed.len() as u64, "{bytes}");
    let (again, bytes) = dir.read_by(|dir| follower.report(dir).unwrap());
    assert!(bytes < 100_000, "{bytes}");
    assert_eq!(report.unsigned_lines, again.unsigned_lines);
    let text = |report: &tacho_chain::verify::Report| {
        report.findings.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(text(&report), text(&again));
    let verified = tacho_chain::verify::verify(
        &*dir.dir.borrow(),
        &Options { keys: vec![recorder.root.clone()], ..Default::default() },
        &mut |_| {},
    );
    assert_eq!(text(&verified.unwrap()), text(&report));
}

#[test]
fn a_frame_does_not_wait_for_ever() {
    let mut recorder = TestRecorder::new(1);
    recorder.lines(1);
    let (dir, mut follower) = Counting::of(&recorder);
    let frame = Frame {
        start: recorder.dir.0[&log(1)].len() as u64,
        end: 1 << 62,
        last_seq: 2,
        lines: 1,
        digest: Hash::ZERO,
        recovered: false,
    };
    dir.append(&sidecar(1), &frame.to_line());
    dir.append(&sidecar(1), &tombstones(5000));
    let before = follower.report(&dir).unwrap();
    let (after, bytes) = dir.read_by(|dir| follower.report(dir).unwrap());
    assert!(bytes < 100_000, "{bytes}");
    assert_eq!((before.state(), after.state()), (LogState::Modified, LogState::Modified));
    // Its lines come after all.
    dir.append(&log(1), &line(2));
    assert!(follower.advance(&dir).unwrap(), "{}", stem(1));
}
