//! Random histories against a simple oracle: conservation.
//!
//! Numbered lines are offered in order, as the writer thread offers them: a batch is offered until
//! it is accepted; after a death, everything after `last_seq` is offered again. Meanwhile writes
//! fail, the disk fills up, the process dies at any operation, and other processes unlink,
//! truncate, rename and write the files. At the end every line must exist once, whole and in order,
//! except for lines that another process destroyed.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use proptest::prelude::*;

use super::aside::last_seq;
use super::error::LastSeqError;
use super::event::Event;
use super::faulty::{Fault, FaultyFs};
use super::fs::Fs;
use super::name::FileName;
use super::retain::Keep;
use super::write::{LogFiles, Options};

const DIR: &str = "/data/tacho";
const FOREIGN: &str = "# not ours";

#[derive(Clone, Debug)]
enum Step {
    /// New lines with this much padding each.
    Write(Vec<usize>),
    Check,
    RotateNow,
    SetRotateBytes(u64),
    Fault(u64, Fault),
    Room(Option<u64>),
    FileBytesMax(Option<u64>),
    Repair,
    /// The process ends, orderly or not, and another one starts.
    Close,
    Kill,
    Clock(i64),
    /// Retention with these limits of days, bytes and files looks once.
    Retain(u64, u64, u64),
    Unlink,
    RemoveDir,
    /// Truncates the newest file to this many 256ths of its length.
    Truncate(u8),
    /// Another process writes into the newest file, with or without a newline at the end.
    Foreign(bool),
    Move,
    /// Another process creates a file that uses up the next number.
    TakeName,
}

fn fault() -> impl Strategy<Value = Fault> {
    let mut numbers = vec![libc::EIO, libc::ENOSPC, libc::EACCES, libc::EROFS, libc::EDQUOT];
    let after_bytes = prop::sample::select(numbers.clone());
    // According to POSIX, EINTR means that no byte was written.
    numbers.push(libc::EINTR);
    let before_bytes = prop::sample::select(numbers);
    prop_oneof![
        3 => before_bytes.prop_map(Fault::Fail),
        2 => (1usize..200).prop_map(Fault::Short),
        3 => (0usize..300, after_bytes)
            .prop_map(|(bytes, number)| Fault::FailAfter(bytes, number)),
        3 => (0usize..300).prop_map(Fault::Die),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let lines = prop::collection::vec(prop_oneof![9 => 0usize..60, 1 => 60usize..700], 1..8);
    prop_oneof![
        20 => lines.prop_map(Step::Write),
        2 => Just(Step::Check),
        2 => Just(Step::RotateNow),
        1 => prop_oneof![Just(0u64), 1u64..1000].prop_map(Step::SetRotateBytes),
        12 => (0u64..14, fault()).prop_map(|(skipped, fault)| Step::Fault(skipped, fault)),
        4 => prop::option::of(0u64..400).prop_map(Step::Room),
        2 => prop::option::of(0u64..500).prop_map(Step::FileBytesMax),
        2 => Just(Step::Repair),
        2 => Just(Step::Close),
        2 => Just(Step::Kill),
        1 => (0i64..100_000).prop_map(Step::Clock),
        3 => (0u64..2, prop_oneof![Just(0u64), 1u64..2000], 0u64..4)
            .prop_map(|(days, bytes, files)| Step::Retain(days, bytes, files)),
        3 => Just(Step::Unlink),
        2 => Just(Step::RemoveDir),
        3 => any::<u8>().prop_map(Step::Truncate),
        2 => any::<bool>().prop_map(Step::Foreign),
        2 => Just(Step::Move),
        1 => Just(Step::TakeName),
    ]
}

fn line(seq: u64, padding: usize) -> String {
    format!("{{\"v\":1,\"seq\":{seq},\"sql\":\"{}\"}}\n", "x".repeat(padding))
}

/// Complete lines of the log as `seq`, and whether the data ends with a complete line.
fn seqs_in(data: &[u8]) -> (Vec<u64>, bool) {
    let text = std::str::from_utf8(data).expect("tests write ASCII");
    let whole = text.is_empty() || text.ends_with('\n');
    let mut seqs = Vec::new();
    for line in text.split_inclusive('\n').filter(|line| line.ends_with('\n')) {
        if line.trim_end() == FOREIGN {
            continue;
        }
        let seq = line.strip_prefix("{\"v\":1,\"seq\":").and_then(|rest| rest.split_once(','));
        let (seq, rest) = seq.unwrap_or_else(|| panic!("not a line: {line:?}"));
        assert!(
            rest.strip_prefix("\"sql\":\"")
                .and_then(|rest| rest.strip_suffix("\"}\n"))
                .is_some_and(|padding| padding.bytes().all(|byte| byte == b'x')),
            "not one line: {line:?}"
        );
        seqs.push(seq.parse().expect("a number"));
    }
    (seqs, whole)
}

struct Model {
    fs: FaultyFs,
    rotate_bytes: u64,
    files: Option<LogFiles<FaultyFs>>,
    next_seq: u64,
    /// The offered batch and its progress.
    pending: Option<(Vec<u8>, usize)>,
    /// Lines that another process may have destroyed.
    destroyed: BTreeSet<u64>,
    /// Lines in files that were moved away in earlier lives.
    archived: Vec<u64>,
    moves: u32,
    /// Another process has changed the content since the writer last looked: a second change could
    /// hide the first.
    touched: bool,
    /// Another process wrote a last line that has no `seq`.
    foreign: bool,
}

impl Model {
    fn new(rotate_bytes: u64) -> Model {
        let fs = FaultyFs::new();
        fs.set_now_s(50_000);
        Model {
            fs,
            rotate_bytes,
            files: None,
            next_seq: 1,
            pending: None,
            destroyed: BTreeSet::new(),
            archived: Vec::new(),
            moves: 0,
            touched: false,
            foreign: false,
        }
    }

    fn log_paths(&self) -> Vec<PathBuf> {
        let is_log = |path: &PathBuf| {
            let entry = path.file_name().and_then(|name| name.to_str());
            entry.and_then(FileName::parse).is_some_and(|(_, ending)| ending == "jsonl")
        };
        self.fs.files_in(Path::new(DIR)).into_iter().filter(is_log).collect()
    }

    /// Lines that a reader of the directory finds, in the order of names.
    fn lines_in_dir(&self) -> Vec<u64> {
        self.log_paths().iter().flat_map(|path| seqs_in(&self.fs.read(path)).0).collect()
    }

    /// Starts a process, if the file system permits it.
    fn start(&mut self) {
        if self.files.is_some() {
            return;
        }
        let options = Options { rotate_bytes: self.rotate_bytes };
        let opened = match LogFiles::open(self.fs.clone(), Path::new(DIR), options) {
            Ok((files, opened)) => {
                self.files = Some(files);
                opened
            }
            Err(_) => return self.notice_death(),
        };
        let expected = self.lines_in_dir().last().copied();
        let last = match opened.last_seq {
            Ok(last) => {
                assert_eq!(last, expected, "last_seq");
                last
            }
            Err(LastSeqError::Unparsable { .. }) if self.foreign => expected,
            // The operation was made to fail; a careful process gives up.
            Err(LastSeqError::Unreadable(_)) => {
                self.files = None;
                return self.notice_death();
            }
            Err(error) => panic!("{error}"),
        };
        let last = last.unwrap_or(0);
        // The arena still holds everything after `last`: it is offered again. Files that others
        // moved away may hold such lines, too; for the recorder they do not exist.
        for path in self.fs.files_in(Path::new("/")) {
            let (seqs, _) = seqs_in(&self.fs.read(&path));
            self.archived.extend(seqs.into_iter().filter(|seq| *seq <= last));
            self.fs.unlink(&path);
        }
        self.archived.retain(|seq| *seq <= last);
        self.pending = None;
        let end = std::mem::replace(&mut self.next_seq, last + 1);
        if self.next_seq < end {
            let batch = (self.next_seq..end).map(|seq| line(seq, 3)).collect::<String>();
            self.pending = Some((batch.into_bytes(), 0));
            self.next_seq = end;
        }
        self.touched = false;
    }

    fn notice_death(&mut self) {
        if self.fs.is_dead() {
            self.files = None;
            self.fs.restart_process();
            self.touched = false;
        }
    }

    fn offer(&mut self) {
        let (Some(files), Some((batch, progress))) = (&mut self.files, &mut self.pending) else {
            return;
        };
        match files.write(batch, progress) {
            Ok(()) => {
                assert_eq!(*progress, batch.len());
                self.pending = None;
                self.touched = false;
            }
            Err(_) => assert!(*progress <= batch.len()),
        }
        self.check_names();
        self.notice_death();
    }

    fn check_names(&mut self) {
        if let Some(files) = &mut self.files {
            for event in files.take_events() {
                if let Event::Rotated { closed, opened, .. } = event {
                    assert!(closed < opened);
                }
            }
        }
    }

    /// Marks the lines of a file that exist only there.
    fn destroy(&mut self, data: &[u8]) {
        let (seqs, _) = seqs_in(data);
        self.destroyed.extend(seqs);
    }

    fn run(&mut self, step: Step) {
        match step {
            Step::Write(paddings) => {
                self.start();
                self.offer();
                if self.pending.is_none() && self.files.is_some() {
                    let mut batch = String::new();
                    for padding in paddings {
                        batch.push_str(&line(self.next_seq, padding));
                        self.next_seq += 1;
                    }
                    self.pending = Some((batch.into_bytes(), 0));
                    self.offer();
                }
            }
            Step::Check => {
                if let Some(files) = &mut self.files {
                    // An error is harmless: the next write meets it again.
                    if files.check().is_ok() && self.pending.is_none() {
                        self.touched = false;
                    }
                    self.notice_death();
                }
            }
            Step::RotateNow => {
                if let Some(files) = &mut self.files {
                    if files.rotate_now().is_ok() && self.pending.is_none() {
                        self.touched = false;
                    }
                    self.notice_death();
                }
            }
            Step::SetRotateBytes(bytes) => {
                self.rotate_bytes = bytes;
                if let Some(files) = &mut self.files {
                    files.set_rotate_bytes(bytes);
                }
            }
            Step::Fault(skipped, fault) => self.fs.fault_after(skipped, fault),
            Step::Room(room) => self.fs.set_room(room),
            Step::FileBytesMax(bytes) => self.fs.set_file_bytes_max(bytes),
            Step::Repair => self.fs.repair(),
            Step::Close => {
                if let Some(files) = self.files.take() {
                    let _: Result<(), _> = files.close();
                    self.notice_death();
                    // The process ends, whatever close returned.
                    self.fs.restart_process();
                }
            }
            Step::Kill => {
                self.files = None;
                self.fs.restart_process();
            }
            Step::Clock(now_s) => self.fs.set_now_s(now_s),
            Step::Retain(days, bytes, count) => self.retain(Keep { days, bytes, files: count }),
            outsider => self.interfere(outsider),
        }
    }

    /// Removes the oldest file if it is due: only that file, and never the last line.
    fn retain(&mut self, keep: Keep) {
        let Some(files) = &mut self.files else { return };
        if let Ok(Some(due)) = files.outlook(&keep).map(|outlook| outlook.due.first().copied()) {
            let path = Path::new(DIR).join(due.name.log_file());
            let there = self.fs.files_in(Path::new(DIR)).contains(&path);
            assert!(!there || !self.fs.is_open(&path), "the file that is written goes");
            let before = self.lines_in_dir();
            let gone = if there { seqs_in(&self.fs.read(&path)).0 } else { Vec::new() };
            assert!(before.starts_with(&gone), "not the oldest");
            let Some(files) = &mut self.files else { return };
            if files.bury(due).is_ok() {
                self.destroyed.extend(&gone);
                let _: Result<(), _> = files.remove(due.name);
            }
            let after = self.lines_in_dir();
            assert_eq!(after.last(), before.last(), "the last line");
            assert!(before.ends_with(&after) && after.len() + gone.len() >= before.len());
        }
        self.notice_death();
    }

    fn interfere(&mut self, step: Step) {
        let Some(newest) = self.log_paths().pop() else { return };
        let data = self.fs.read(&newest);
        let open = self.fs.is_open(&newest);
        // Closed files are not watched while the current one is elsewhere.
        let watched = open || self.files.is_none();
        match step {
            Step::Unlink => {
                if !open {
                    self.destroy(&data);
                }
                self.fs.unlink(&newest);
            }
            Step::RemoveDir => {
                for path in self.log_paths() {
                    if !self.fs.is_open(&path) {
                        self.destroy(&self.fs.read(&path));
                    }
                }
                self.fs.remove_dir_all(Path::new(DIR));
            }
            Step::Truncate(part) if watched && !self.touched => {
                self.touched = true;
                self.destroy(&data);
                self.fs.truncate(&newest, data.len() * usize::from(part) / 256);
            }
            Step::Foreign(complete) if watched && !self.touched => {
                self.touched = true;
                // After a torn line of the log it forms a line that no repair can tell from a
                // complete one, if the process dies before it can look.
                if seqs_in(&data).1 {
                    self.foreign = true;
                    self.fs.append(&newest, FOREIGN.as_bytes());
                    if complete {
                        self.fs.append(&newest, b"\n");
                    }
                }
            }
            // A file with a torn tail that only a dead process could have repaired stays torn;
            // every other case is fair.
            Step::Move => {
                self.moves += 1;
                self.fs.rename(&newest, Path::new(&format!("/moved-{:06}", self.moves)));
            }
            Step::TakeName => {
                let entry = newest.file_name().and_then(|name| name.to_str());
                let name = entry.and_then(FileName::parse).map(|(name, _)| name);
                let taken = FileName::after(name, self.fs.now_s());
                self.fs.append(&Path::new(DIR).join(format!("{taken}.jsonl.sig")), b"");
            }
            _ => {}
        }
    }

    fn finish(mut self) {
        // A fault can affect the first of these calls only until it is repaired.
        self.fs.repair();
        self.start();
        let files = self.files.as_mut().expect("nothing fails any more");
        if let Some((batch, progress)) = &mut self.pending {
            files.write(batch, progress).expect("nothing fails any more");
        }
        let end = line(self.next_seq, 0);
        files.write(end.as_bytes(), &mut 0).expect("nothing fails any more");
        self.files.take().expect("still there").close().expect("nothing fails any more");

        let dir = Path::new(DIR);
        assert_eq!(
            last_seq(&self.fs, dir, Path::new("")).expect("our line is the last"),
            Some(self.next_seq)
        );
        for path in self.log_paths() {
            assert!(seqs_in(&self.fs.read(&path)).1, "torn: {}", path.display());
        }
        let in_dir = self.lines_in_dir();
        assert!(in_dir.is_sorted_by(|a, b| a < b), "order or double: {in_dir:?}");
        let mut all = in_dir;
        all.append(&mut self.archived);
        for path in self.fs.files_in(Path::new("/")) {
            all.extend(seqs_in(&self.fs.read(&path)).0);
        }
        all.sort_unstable();
        assert!(all.is_sorted_by(|a, b| a < b), "double: {all:?}");
        let found: BTreeSet<u64> = all.into_iter().collect();
        for seq in 1..=self.next_seq {
            assert!(found.contains(&seq) || self.destroyed.contains(&seq), "missing: {seq}");
        }
    }
}

/// `PROPTEST_CASES` sets another number.
fn config() -> ProptestConfig {
    match std::env::var_os("PROPTEST_CASES") {
        Some(_) => ProptestConfig::default(),
        None => ProptestConfig::with_cases(2000),
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn every_line_is_there_once_whole_and_in_order(
        rotate_bytes in prop_oneof![Just(0u64), 100u64..2000],
        steps in prop::collection::vec(step(), 1..60),
    ) {
        let mut model = Model::new(rotate_bytes);
        model.fs.create_dir(Path::new("/data")).expect("an empty file system");
        for step in steps {
            model.run(step);
        }
        model.finish();
    }
}
