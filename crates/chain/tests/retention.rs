//! Verification of a log whose closed files are compressed and removed, also during the
//! verification.

// Each test file uses only a part of this.
#[allow(dead_code)]
mod support;

use support::{Dir, TestRecorder, assert_state, log, sealed, sidecar, stem};
use tacho_chain::entry::RemovalReason;
use tacho_chain::verify::{self, LogState, Options};

/// Retention and compression continue while the log is read.
#[test]
fn files_removed_during_the_verification_are_looked_up_again() {
    struct Changing {
        dirs: [Dir; 2],
        trigger: String,
        is_changed: std::cell::Cell<bool>,
    }
    impl verify::Directory for Changing {
        fn names(&self) -> std::io::Result<Vec<String>> {
            self.dirs[usize::from(self.is_changed.get())].names()
        }
        fn open(&self, name: &str) -> std::io::Result<Box<dyn std::io::Read + '_>> {
            self.is_changed.set(self.is_changed.get() || name == self.trigger);
            self.dirs[usize::from(self.is_changed.get())].open(name)
        }
    }
    let mut recorder = sealed();
    recorder.start();
    recorder.stop();
    let before = recorder.dir.clone();
    let root = recorder.root.clone();
    let mut compressed = before.clone();
    let plain = compressed.0.remove(&log(2)).expect("there");
    // The directory returns the content of a compressed file.
    compressed.0.insert(format!("{}.zst", log(2)), plain);
    recorder.start();
    recorder.remove(1);
    recorder.remove(2);
    recorder.stop();
    for (after, gone) in [(recorder.dir, 2), (compressed, 0)] {
        for trigger in [sidecar(1), log(1), sidecar(2), log(2), sidecar(3), log(3)] {
            let dirs = [before.clone(), after.clone()];
            let dir = Changing { dirs, trigger: trigger.clone(), is_changed: false.into() };
            let options = Options { keys: vec![root.clone()], ..Default::default() };
            let report = verify::verify(&dir, &options, &mut |_| {}).expect("reads");
            assert_state(&report, LogState::Ok);
            assert!(report.removed_files <= gone && dir.is_changed.get(), "{trigger}");
        }
    }
    // A file that was removed without a tombstone is missing.
    let mut after = before.clone();
    after.0.retain(|name, _| !name.starts_with(&stem(2)));
    let dirs = [before, after];
    let dir = Changing { dirs, trigger: sidecar(2), is_changed: false.into() };
    let options = Options { keys: vec![root], ..Default::default() };
    let report = verify::verify(&dir, &options, &mut |_| {}).expect("reads");
    assert_state(&report, LogState::Gap);
}

/// A reading of a directory may lack entries that are made meanwhile, and have newer ones.
#[test]
fn files_made_while_the_directory_is_read_are_found() {
    struct Late {
        dir: Dir,
        missed: String,
        reads: std::cell::Cell<u32>,
    }
    impl verify::Directory for Late {
        fn names(&self) -> std::io::Result<Vec<String>> {
            self.reads.set(self.reads.get() + 1);
            let is_missed = |name: &String| self.reads.get() == 1 && name.starts_with(&self.missed);
            Ok(self.dir.names()?.into_iter().filter(|name| !is_missed(name)).collect())
        }
        fn open(&self, name: &str) -> std::io::Result<Box<dyn std::io::Read + '_>> {
            self.dir.open(name)
        }
    }
    let mut recorder = sealed();
    recorder.start();
    recorder.stop();
    for missed in [sidecar(2), log(2), stem(2)] {
        let dir = Late { dir: recorder.dir.clone(), missed: missed.clone(), reads: 0.into() };
        let options = Options { keys: vec![recorder.root.clone()], ..Default::default() };
        let report = verify::verify(&dir, &options, &mut |_| {}).expect("reads");
        assert_eq!(report.state(), LogState::Ok, "{missed}: {report:?}");
    }
}

/// The recorder makes the sidecars of several files at the end of a batch.
#[test]
fn sidecars_that_follow_a_moment_later_are_found() {
    struct Batch {
        before: Dir,
        after: Dir,
        lists: std::cell::Cell<u32>,
    }
    impl Batch {
        fn now(&self) -> &Dir {
            // The first list is read twice.
            if self.lists.get() <= 2 { &self.before } else { &self.after }
        }
    }
    impl verify::Directory for Batch {
        fn names(&self) -> std::io::Result<Vec<String>> {
            self.lists.set(self.lists.get() + 1);
            self.now().names()
        }
        fn open(&self, name: &str) -> std::io::Result<Box<dyn std::io::Read + '_>> {
            self.now().open(name)
        }
    }
    let mut recorder = sealed();
    recorder.start();
    recorder.stop();
    let after = recorder.dir.clone();
    let newest = after.0.keys().filter(|name| name.ends_with(".jsonl")).count() as u32;
    for first in 2..=newest {
        let mut before = after.clone();
        (first..=newest).for_each(|number| drop(before.0.remove(&sidecar(number))));
        let dir = Batch { before, after: after.clone(), lists: 0.into() };
        let options = Options { keys: vec![recorder.root.clone()], ..Default::default() };
        let report = verify::verify(&dir, &options, &mut |_| {}).expect("reads");
        assert_eq!(report.state(), LogState::Ok, "{first}: {report:?}");
    }
}

/// A rotation at each look: the last sealed file has no end yet, and the next one no sidecar.
#[test]
fn a_file_whose_end_follows_a_moment_later_is_read_to_its_end() {
    struct Rotating {
        dirs: Vec<Dir>,
        looks: std::cell::Cell<usize>,
        looks_max: u32,
    }
    impl verify::Directory for Rotating {
        fn names(&self) -> std::io::Result<Vec<String>> {
            self.dirs[self.looks.get()].names()
        }
        fn open(&self, name: &str) -> std::io::Result<Box<dyn std::io::Read + '_>> {
            self.dirs[self.looks.get()].open(name)
        }
        fn look_again(&self, looks: u32) -> bool {
            let is_again = looks < self.looks_max;
            let next = self.looks.get() + usize::from(is_again);
            self.looks.set(next.min(self.dirs.len() - 1));
            is_again
        }
    }
    let mut recorder = TestRecorder::new(1);
    let mut dirs = Vec::new();
    for number in 1..5 {
        recorder.lines(2);
        let mut dir = recorder.dir.clone();
        dir.0.insert(log(number + 1), support::line(recorder.seq + 1).into_bytes());
        dirs.push(dir);
        recorder.rotate();
    }
    recorder.lines(2);
    recorder.stop();
    dirs.push(recorder.dir);
    for (looks_max, state) in
        [(9, LogState::Ok), (2, LogState::NotSealed), (0, LogState::NotSealed)]
    {
        let dir = Rotating { dirs: dirs.clone(), looks: 0.into(), looks_max };
        let options = Options { keys: vec![recorder.root.clone()], ..Default::default() };
        let report = verify::verify(&dir, &options, &mut |_| {}).expect("reads");
        assert_eq!(report.state(), state, "{looks_max}: {report:?}");
    }
}

/// The same while the directory is read: the listing has the later sidecar, not the earlier one.
#[test]
fn a_sidecar_that_is_made_while_the_directory_is_read_is_found() {
    struct Making {
        dirs: [Dir; 3],
        reads: std::cell::Cell<usize>,
    }
    impl verify::Directory for Making {
        fn names(&self) -> std::io::Result<Vec<String>> {
            let read = self.reads.replace(self.reads.get() + 1);
            self.dirs[read.min(2)].names()
        }
        fn open(&self, name: &str) -> std::io::Result<Box<dyn std::io::Read + '_>> {
            self.dirs[2].open(name)
        }
    }
    let mut recorder = sealed();
    recorder.start();
    recorder.stop();
    let all = recorder.dir.clone();
    let (mut none, mut one) = (all.clone(), all.clone());
    none.0.retain(|name, _| !name.ends_with(".chain") || *name == sidecar(1));
    one.0.remove(&sidecar(2)).expect("there");
    let dir = Making { dirs: [none, one, all], reads: 0.into() };
    let options = Options { keys: vec![recorder.root.clone()], ..Default::default() };
    let report = verify::verify(&dir, &options, &mut |_| {}).expect("reads");
    assert_eq!(report.state(), LogState::Ok, "{report:?}");
    assert!(dir.reads.get() > 2);
}

/// A tombstone may be signed by any key that depends on the root: also by the key of a file that
/// was removed.
#[test]
fn a_tombstone_may_be_signed_by_an_earlier_key() {
    let mut recorder = TestRecorder::new(1);
    recorder.lines(1);
    recorder.rotate();
    recorder.lines(1);
    // Signed by the key that began with the second file.
    recorder.remove(1);
    recorder.rotate();
    recorder.lines(1);
    recorder.rotate();
    recorder.remove(2);
    recorder.remove(3);
    recorder.lines(1);
    recorder.stop();
    let report = recorder.verify();
    assert_state(&report, LogState::Ok);
    assert_eq!((report.removed_files, report.files), (3, 1));
    // Not by any other.
    let text = recorder.dir.text("removed.chain");
    let at = text.rfind("tachograph-removed-v1").expect("the last tombstone");
    let (note, _) = text[at..].split_once("\n\n").expect("a note");
    let secret = tacho_chain::key::SecretKey::from_bytes(&[9; 32]);
    let forged = tacho_chain::note::sign(&format!("{note}\n"), recorder.root.origin(), &secret);
    *recorder.dir.file("removed.chain") = format!("{}{forged}", &text[..at]).into_bytes();
    assert_state(&recorder.verify(), LogState::Modified);
}

/// Tombstones of both versions are in one file, in the order of the removals.
#[test]
fn the_report_counts_removals_by_reason() {
    let mut recorder = TestRecorder::new(1);
    for _ in 0..4 {
        recorder.lines(1);
        recorder.rotate();
    }
    recorder.remove_by(1, RemovalReason::Age);
    recorder.remove_by(2, RemovalReason::Count);
    recorder.remove_by(3, RemovalReason::Size);
    recorder.remove_by(4, RemovalReason::Count);
    recorder.lines(1);
    recorder.stop();
    let report = recorder.verify();
    assert_state(&report, LogState::Ok);
    assert_eq!(report.removed_files, 4);
    let by = |reason| report.removed_by.get(&reason).copied();
    assert_eq!(by(RemovalReason::Count), Some(2));
    assert_eq!((by(RemovalReason::Age), by(RemovalReason::Size)), (Some(1), Some(1)));
    assert_eq!(by(RemovalReason::Request), None);

    // The reason is signed: neither the reason nor the version can be replaced.
    let text = recorder.dir.text("removed.chain");
    for (from, to) in [
        ("reason count\n", "reason whim\n"),
        ("reason age\n", "reason size\n"),
        ("tachograph-removed-v2\n", "tachograph-removed-v1\n"),
        ("tachograph-removed-v2\n", "tachograph-removed-v3\n"),
    ] {
        let mut changed = TestRecorder::new(1);
        changed.root = recorder.root.clone();
        changed.dir = recorder.dir.clone();
        *changed.dir.file("removed.chain") = text.replacen(from, to, 1).into_bytes();
        let report = changed.verify();
        assert_state(&report, LogState::Modified);
        let findings: Vec<String> = report.findings.iter().map(ToString::to_string).collect();
        let says_version = findings.iter().any(|it| it.contains("unknown version or form"));
        assert_eq!(says_version, !from.contains("age"), "{to}: {findings:#?}");
    }
}
