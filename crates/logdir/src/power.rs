//! Random histories with power failures: synced lines exist afterwards, in exactly one file.

use std::path::Path;

use proptest::prelude::*;

use super::faulty::{Fault, FaultyFs, NamesAfter};
use super::fs::Fs;
use super::write::SyncMark;
use super::write::{LogFiles, Options};

const DIR: &str = "/data/tacho";

#[derive(Clone, Debug)]
enum Step {
    /// Writes this many lines.
    Write(u8),
    Rotate,
    Sync,
    Fault(u64, i32),
    /// Power fails; names that were created since the last sync may survive.
    Cut(bool),
    Unlink,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (1u8..6).prop_map(Step::Write),
        2 => Just(Step::Rotate),
        6 => Just(Step::Sync),
        4 => (0u64..12, prop::sample::select(vec![libc::EIO, libc::ENOSPC]))
            .prop_map(|(skipped, number)| Step::Fault(skipped, number)),
        2 => any::<bool>().prop_map(Step::Cut),
        1 => Just(Step::Unlink),
    ]
}

/// Every `seq` in the files, in their order.
fn seqs(fs: &FaultyFs) -> Vec<u64> {
    let mut seqs = Vec::new();
    for path in fs.files_in(Path::new(DIR)) {
        if path.extension().is_some_and(|ending| ending == "jsonl") {
            let data = fs.read(&path);
            let text = String::from_utf8_lossy(&data);
            let whole = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
            let seq = |line: &str| {
                line.strip_prefix("{\"v\":1,\"seq\":")?.strip_suffix("}\n")?.parse::<u64>().ok()
            };
            seqs.extend(whole.filter_map(seq));
        }
    }
    seqs
}

struct Machine {
    fs: FaultyFs,
    files: Option<LogFiles<FaultyFs>>,
    next_seq: u64,
    /// Number of accepted lines.
    accepted: u64,
    /// Number of lines that a sync has confirmed.
    synced: u64,
    pending: Option<(String, usize)>,
}

impl Machine {
    fn start(&mut self) {
        if self.files.is_some() {
            return;
        }
        let Ok((mut files, opened)) =
            LogFiles::open(self.fs.clone(), Path::new(DIR), Options { rotate_bytes: 200 })
        else {
            return;
        };
        let Ok(last_seq) = opened.last_seq else { return };
        files.set_durable(true);
        self.accepted = last_seq.unwrap_or(0);
        assert!(self.accepted >= self.synced, "{} of {} synced", self.accepted, self.synced);
        // The arena is lost with the machine: lines that are not in the file are gone, and their
        // numbers are used again.
        self.next_seq = self.accepted + 1;
        self.pending = None;
        self.files = Some(files);
    }

    fn run(&mut self, step: &Step) {
        self.start();
        let Some(files) = &mut self.files else { return };
        match step {
            Step::Write(count) => {
                if self.pending.is_none() {
                    let end = self.next_seq + u64::from(*count);
                    let lines =
                        (self.next_seq..end).map(|seq| format!("{{\"v\":1,\"seq\":{seq}}}\n"));
                    self.pending = Some((lines.collect(), 0));
                    self.next_seq = end;
                }
                if let Some((batch, progress)) = &mut self.pending
                    && files.write(batch.as_bytes(), progress).is_ok()
                {
                    self.pending = None;
                    self.accepted = self.next_seq - 1;
                }
            }
            Step::Rotate => {
                let _: Result<(), _> = files.rotate_now();
            }
            Step::Sync => {
                if files.sync().is_ok() {
                    self.synced = self.accepted;
                }
            }
            Step::Fault(skipped, number) => self.fs.fault_after(*skipped, Fault::Fail(*number)),
            Step::Cut(names_kept) => {
                self.files = None;
                let names = if *names_kept { NamesAfter::AllChanges } else { NamesAfter::NoChange };
                self.fs.cut_power(names);
                let found = seqs(&self.fs);
                let expected = (1..=self.synced).collect::<Vec<_>>();
                assert!(found.starts_with(&expected), "{} synced, found {found:?}", self.synced);
                // Later lines may have survived as well.
                assert!(found.is_sorted_by(|a, b| a < b), "double: {found:?}");
            }
            Step::Unlink => {
                // The current file only: the others are not watched. Until the writer notices this,
                // the content has no name, and a power failure loses it.
                let current = files.current_file().to_owned();
                if self.fs.files_in(Path::new(DIR)).contains(&current) {
                    self.fs.unlink(&current);
                    // The copy is not on the device before the next sync.
                    self.synced = 0;
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn synced_lines_survive_a_power_cut(steps in prop::collection::vec(step(), 1..60)) {
        let fs = FaultyFs::new();
        fs.set_now_s(50_000);
        fs.create_dir(Path::new("/data")).expect("an empty file system");
        let mut machine =
            Machine { fs, files: None, next_seq: 1, accepted: 0, synced: 0, pending: None };
        for step in &steps {
            machine.run(step);
        }
        machine.fs.repair();
        machine.run(&Step::Sync);
        machine.run(&Step::Cut(false));
    }
}

fn lines(seqs: std::ops::RangeInclusive<u64>) -> String {
    seqs.map(|seq| format!("{{\"v\":1,\"seq\":{seq}}}\n")).collect()
}

/// Another process renames or deletes a file whose sync failed: other files can still be synced,
/// and the content of a renamed file is on the device.
#[test]
fn a_failed_file_may_be_renamed_or_deleted() {
    let mut failed = 0;
    for (skipped, is_renamed) in (0..12).flat_map(|skipped| [(skipped, true), (skipped, false)]) {
        let fs = FaultyFs::new();
        fs.create_dir(Path::new("/data")).expect("an empty file system");
        let options = Options { rotate_bytes: 0 };
        let (mut files, _) = LogFiles::open(fs.clone(), Path::new(DIR), options).expect("opens");
        files.set_durable(true);
        files.write(lines(1..=3).as_bytes(), &mut 0).expect("writes");
        let first = files.current_file().to_owned();
        fs.fault_after(skipped, Fault::Fail(libc::EIO));
        failed += u32::from(files.sync().is_err());
        fs.repair();
        files.rotate_now().expect("rotates");
        let other = first.with_extension("moved");
        if is_renamed {
            fs.rename(&first, &other);
        } else {
            fs.unlink(&first);
        }
        files.write(lines(4..=6).as_bytes(), &mut 0).expect("writes");
        files.sync().expect("nothing fails any more");
        let second = files.current_file().to_owned();
        drop(files);
        fs.cut_power(NamesAfter::AllChanges);
        if is_renamed {
            assert_eq!(fs.read(&other), lines(1..=3).as_bytes(), "{skipped}");
        }
        assert_eq!(fs.read(&second), lines(4..=6).as_bytes(), "{skipped}");
    }
    assert!(failed > 4, "nothing failed");
}

/// Data that a sync could not write is remembered while syncs are off.
#[test]
fn a_failure_is_remembered_while_it_is_off() {
    let fs = FaultyFs::new();
    fs.create_dir(Path::new("/data")).expect("an empty file system");
    let options = Options { rotate_bytes: 0 };
    let (mut files, _) = LogFiles::open(fs.clone(), Path::new(DIR), options).expect("opens");
    files.set_durable(true);
    files.sync().expect("an empty file");
    files.write(lines(1..=3).as_bytes(), &mut 0).expect("writes");
    let faults = (0..12).filter(|skipped| {
        fs.fault_after(*skipped, Fault::Fail(libc::EIO));
        let failed = files.sync().is_err();
        fs.repair();
        failed
    });
    assert!(faults.count() > 0, "nothing failed");
    files.set_durable(false);
    files.set_durable(true);
    files.sync().expect("nothing fails any more");
    let path = files.current_file().to_owned();
    drop(files);
    fs.cut_power(NamesAfter::AllChanges);
    assert_eq!(fs.read(&path), lines(1..=3).as_bytes());
}

/// A writer dies after a failed sync, in that file or just after it: its successor syncs pages that
/// the kernel considers clean.
#[test]
fn a_failure_is_not_forgotten_with_the_writer() {
    for (is_rotated, is_marked) in [(false, false), (false, true), (true, false), (true, true)] {
        let mut failed = 0;
        for skipped in 0..12 {
            let fs = FaultyFs::new();
            fs.create_dir(Path::new("/data")).expect("an empty file system");
            let options = Options { rotate_bytes: 0 };
            let open = || LogFiles::open(fs.clone(), Path::new(DIR), options).expect("opens").0;
            let mut files = open();
            files.set_durable(true);
            files.sync().expect("an empty file");
            files.write(lines(1..=3).as_bytes(), &mut 0).expect("writes");
            let first = files.current_file().to_owned();
            fs.fault_after(skipped, Fault::Fail(libc::EIO));
            failed += u32::from(files.sync().is_err());
            fs.repair();
            if is_rotated {
                files.rotate_now().expect("rotates");
                files.write(lines(4..=6).as_bytes(), &mut 0).expect("writes");
            }
            let mark = files.sync_mark().filter(|_| is_marked);
            drop(files);
            let mut files = open();
            files.doubt_predecessor(mark).expect("nothing fails any more");
            files.sync().expect("nothing fails any more");
            let second = files.current_file().to_owned();
            drop(files);
            fs.cut_power(NamesAfter::AllChanges);
            assert_eq!(fs.read(&first), lines(1..=3).as_bytes(), "{skipped}");
            if is_rotated {
                assert_eq!(fs.read(&second), lines(4..=6).as_bytes(), "{skipped}");
            }
        }
        assert!(failed > 0, "nothing failed");
    }
}

/// Data that was synced before is not written again, even if it was in an earlier file; without a
/// mark, the successor checks the end of two files only.
#[test]
fn a_successor_writes_again_what_was_not_synced_and_nothing_else() {
    let fs = FaultyFs::new();
    fs.create_dir(Path::new("/data")).expect("an empty file system");
    let options = Options { rotate_bytes: 0 };
    let open = || LogFiles::open(fs.clone(), Path::new(DIR), options).expect("opens").0;
    let mut files = open();
    files.set_durable(true);
    files.write(lines(1..=3).as_bytes(), &mut 0).expect("writes");
    files.sync().expect("syncs");
    let synced = files.sync_mark().expect("it is durable");
    assert_eq!((synced.file, synced.bytes), (files.current_name(), files.current_bytes()));
    drop(files);

    // As after an orderly hand-over: there is nothing to write.
    let mut files = open();
    assert_eq!(files.doubt_predecessor(Some(synced)).expect("looks"), 0);
    assert_eq!(files.doubted(), [(synced.file, synced.bytes)]);
    // It continues to write, over three files, and dies.
    let mut names = vec![synced.file];
    for seq in [4, 5, 6] {
        files.write(lines(seq..=seq).as_bytes(), &mut 0).expect("writes");
        files.rotate_now().expect("rotates");
        names.push(files.current_name());
    }
    assert_eq!(files.sync_mark(), Some(synced), "nothing was synced since");
    drop(files);
    let mut files = open();
    assert_eq!(files.doubt_predecessor(Some(synced)).expect("looks"), 0);
    let doubted = [(names[0], synced.bytes), (names[1], 0), (names[2], 0), (names[3], 0)];
    assert_eq!(files.doubted(), doubted);
    files.sync().expect("syncs");
    let mark = files.sync_mark().expect("it is durable");
    assert_eq!((mark.file, mark.bytes), (names[3], 0), "all of them");
    drop(files);
    let mut files = open();
    files.doubt_predecessor(None).expect("looks");
    assert_eq!(files.doubted(), [(names[2], 0), (names[3], 0)]);
    drop(files);
    // A mark of a missing or shorter file is ignored.
    let mut files = open();
    let wrong = SyncMark { file: names[3], bytes: 1 << 40 };
    files.doubt_predecessor(Some(wrong)).expect("looks");
    assert_eq!(files.doubted(), [(names[2], 0), (names[3], 0)]);
}
