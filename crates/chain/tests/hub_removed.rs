//! A hub's copy of a log, from which the hub has removed files.

// Each test file uses only a part of this.
#[allow(dead_code)]
mod support;

use support::{Dir, assert_state, log, sealed, sidecar};
use tacho_chain::HUB_REMOVED_FILE;
use tacho_chain::hash::Hash;
use tacho_chain::hub_tombstone::{HubTombstone, RemovedPart};
use tacho_chain::key::{SecretKey, VerifierKey};
use tacho_chain::note;
use tacho_chain::sidecar::{Entries, Meaning};
use tacho_chain::verify::{self, Follower, LogState, Options, Report};

fn hub() -> SecretKey {
    SecretKey::from_bytes(&[9; 32])
}

fn part(bytes: &[u8]) -> RemovedPart {
    let end = &bytes[bytes.len().saturating_sub(4096)..];
    RemovedPart { bytes: bytes.len() as u64, digest: Hash::of(bytes), end: Hash::of(end) }
}

/// The tombstone of a file, and its epoch.
fn tombstone(dir: &Dir, number: u32, previous: Hash) -> (Vec<u8>, HubTombstone) {
    let chain = &dir.0[&sidecar(number)];
    let lines = &dir.0[&log(number)];
    let mut entries = Entries::new(&chain[..]);
    let first = entries.next_entry().unwrap().unwrap();
    let Some(Meaning::Epoch(epoch, _)) = first.meaning else { panic!("an epoch") };
    let (mut hash, mut last_seq) = (epoch.chain.after(&first.bytes), epoch.seq);
    while let Some(entry) = entries.next_entry().unwrap() {
        hash = hash.after(&entry.bytes);
        if let Some(Meaning::Frame(frame)) = entry.meaning {
            last_seq = frame.last_seq;
        }
    }
    let tombstone = HubTombstone {
        server: "db1".to_owned(),
        generation: 1,
        file: log(number),
        first_seq: epoch.seq + 1,
        last_seq,
        lines: lines.iter().filter(|&&byte| byte == b'\n').count() as u64,
        newest_us: 5,
        seal: Some((epoch.root.origin().to_owned(), hash)),
        log: part(lines),
        sidecar: part(chain),
        state: Some(LogState::Ok),
        days: 183,
        time_s: 1_000,
        previous,
    };
    (first.bytes, tombstone)
}

/// Removes the first files as a hub does; `change` what the tombstones say.
fn remove(dir: &mut Dir, numbers: &[u32], change: impl Fn(&mut HubTombstone)) {
    let mut last = Hash::ZERO;
    for &number in numbers {
        let (epoch, mut tombstone) = tombstone(dir, number, last);
        change(&mut tombstone);
        let key = hub();
        let note = note::sign(&tombstone.to_text(), key.root().origin(), &key);
        last = Hash::of(note.as_bytes());
        let list = dir.0.entry(HUB_REMOVED_FILE.to_owned()).or_default();
        list.extend(epoch);
        list.extend(note.as_bytes());
        dir.0.remove(&log(number));
        dir.0.remove(&sidecar(number));
    }
}

fn options(root: &VerifierKey, hubs: &[VerifierKey]) -> Options {
    Options { keys: vec![root.clone()], hub_keys: hubs.to_vec(), expect: None }
}

fn check(dir: &Dir, root: &VerifierKey) -> Report {
    let options = options(root, &[hub().root()]);
    support::follow::assert_follows(dir, &options);
    verify::verify(dir, &options, &mut |_| {}).unwrap()
}

#[test]
fn what_is_left_continues_what_the_hub_has_removed() {
    for count in 1..=2 {
        let recorder = sealed();
        let mut dir = recorder.dir.clone();
        let numbers: Vec<u32> = (1..=count).collect();
        remove(&mut dir, &numbers, |_| {});
        let report = check(&dir, &recorder.root);
        assert_state(&report, LogState::Ok);
        let counts = (report.removed_by_hub, report.removed_files, report.files);
        assert_eq!(counts, (count.into(), count.into(), 3 - u64::from(count)));
        assert_eq!(report.last_seq, 18);
    }
}

#[test]
fn what_the_hub_had_found_is_not_forgotten_with_the_file() {
    for state in LogState::ALL {
        let recorder = sealed();
        let mut dir = recorder.dir.clone();
        remove(&mut dir, &[1, 2], |it| {
            it.state = Some(if it.file == log(2) { state } else { LogState::Ok });
        });
        let report = check(&dir, &recorder.root);
        if state < LogState::BrokenChain {
            assert_state(&report, LogState::Ok);
            continue;
        }
        assert_state(&report, state);
        let found: Vec<_> =
            report.findings.iter().map(|finding| (finding.file.clone(), finding.seqs)).collect();
        assert_eq!(found, [(log(2), Some((6, 12)))]);
        // Of an unknown hub nothing is believed.
        let options = options(&recorder.root, &[]);
        let report = verify::verify(&dir, &options, &mut |_| {}).unwrap();
        assert_state(&report, LogState::Gap);
    }
}

/// A file that was changed, and followed while it is removed, is one finding.
#[test]
fn what_was_found_in_a_removed_file_is_said_once() {
    let recorder = sealed();
    let mut dir = recorder.dir.clone();
    let text = dir.text(&log(1)).replacen("SELECT 2", "SELECT 7", 1);
    *dir.file(&log(1)) = text.into_bytes();
    let mut follower = Follower::new(options(&recorder.root, &[hub().root()]));
    assert!(!follower.advance(&dir).unwrap());
    let before = follower.report(&dir).unwrap();
    assert_state(&before, LogState::Modified);
    remove(&mut dir, &[1], |it| it.state = Some(LogState::Modified));
    assert!(!follower.advance(&dir).unwrap());
    let after = follower.report(&dir).unwrap();
    assert_eq!(after.findings, before.findings);
    assert_state(&check(&dir, &recorder.root), LogState::Modified);
}

/// A hub removes files for years, and no other program writes its tombstones.
#[test]
fn the_limit_for_tombstones_of_the_recorder_is_not_that_of_the_hub() {
    let recorder = sealed();
    let mut dir = recorder.dir.clone();
    remove(&mut dir, &[1, 2], |_| {});
    let mut follower = Follower::new(options(&recorder.root, &[hub().root()]));
    follower.keep_tombstones(1);
    assert_state(&follower.report(&dir).unwrap(), LogState::Ok);
}

#[test]
fn without_the_key_of_the_hub_the_files_are_missing() {
    let recorder = sealed();
    let mut dir = recorder.dir.clone();
    remove(&mut dir, &[1, 2], |_| {});
    for hubs in [vec![], vec![recorder.root.clone()]] {
        let options = options(&recorder.root, &hubs);
        let report = verify::verify(&dir, &options, &mut |_| {}).unwrap();
        assert_state(&report, LogState::Gap);
        assert_eq!(report.findings.len(), 1);
        assert_eq!(report.findings[0].seqs, Some((1, 12)));
    }
}

#[test]
fn a_file_that_the_recorder_has_removed_too_needs_no_key_of_a_hub() {
    let mut recorder = sealed();
    let mut dir = recorder.dir.clone();
    recorder.start();
    recorder.remove(1);
    recorder.stop();
    // The hub has the tombstone of the recorder, and the newer entries, too.
    remove(&mut dir, &[1], |_| {});
    for name in ["removed.chain".to_owned(), sidecar(3)] {
        dir.0.insert(name.clone(), recorder.dir.0[&name].clone());
    }
    let report = verify::verify(&dir, &options(&recorder.root, &[]), &mut |_| {}).unwrap();
    assert_state(&report, LogState::Ok);
    assert_eq!((report.removed_files, report.removed_by_hub), (1, 0));
}

#[test]
fn a_hub_cannot_state_another_end_of_a_file() {
    let changes: [&dyn Fn(&mut HubTombstone); 3] =
        [&|it| it.last_seq += 1, &|it| it.first_seq += 1, &|it| {
            it.seal.as_mut().unwrap().1 = Hash::ZERO
        }];
    for change in changes {
        let recorder = sealed();
        let mut dir = recorder.dir.clone();
        remove(&mut dir, &[1], change);
        assert_state(&check(&dir, &recorder.root), LogState::Modified);
    }
}

#[test]
fn a_list_that_was_changed_is_noticed() {
    let recorder = sealed();
    let mut whole = recorder.dir.clone();
    remove(&mut whole, &[1, 2], |_| {});
    let text = whole.text(HUB_REMOVED_FILE);
    let second = text.rfind("tachograph-epoch-v1").unwrap();
    // The first tombstone, then the second; the order; a removed file in the middle; a torn end.
    for (list, state) in [
        (text[second..].to_owned(), LogState::Modified),
        (text[..second].to_owned(), LogState::Gap),
        (format!("{}{}", &text[second..], &text[..second]), LogState::Modified),
        (text.replace("state ok", "state lost"), LogState::Gap),
        (format!("{text}tachograph-hub"), LogState::UnsignedTail),
        (format!("{text}{}", &text[second..]), LogState::Modified),
    ] {
        let mut dir = whole.clone();
        *dir.file(HUB_REMOVED_FILE) = list.clone().into_bytes();
        let report = check(&dir, &recorder.root);
        assert!(report.state() >= state, "{:?} {list}", report.state());
    }
    let mut dir = recorder.dir.clone();
    remove(&mut dir, &[2], |_| {});
    let report = check(&dir, &recorder.root);
    assert_state(&report, LogState::Gap);
    assert!(report.findings[0].text.contains("older files were kept"), "{:?}", report.findings);
}

#[test]
fn a_file_that_is_still_there_is_read() {
    let recorder = sealed();
    let mut dir = recorder.dir.clone();
    remove(&mut dir, &[1], |_| {});
    dir.0.extend(recorder.dir.0.clone());
    let report = check(&dir, &recorder.root);
    assert_state(&report, LogState::Ok);
    assert_eq!((report.files, report.removed_by_hub), (3, 0));
    dir.file(&log(1)).truncate(3);
    assert!(check(&dir, &recorder.root).state() >= LogState::Truncated);
}

#[test]
fn a_follower_counts_what_is_removed_while_it_follows() {
    let recorder = sealed();
    let options = options(&recorder.root, &[hub().root()]);
    let mut follower = Follower::new(options.clone());
    assert!(!follower.advance(&recorder.dir).unwrap());
    assert_eq!(follower.report(&recorder.dir).unwrap().lines, 18);
    let mut removed = recorder.dir.clone();
    remove(&mut removed, &[1, 2], |_| {});
    // First the tombstones, or both at once.
    let mut buried = recorder.dir.clone();
    buried.0.insert(HUB_REMOVED_FILE.to_owned(), removed.0[HUB_REMOVED_FILE].clone());
    assert!(!follower.advance(&buried).unwrap(), "nothing has to be read again");
    let report = follower.report(&buried).unwrap();
    assert_eq!((report.lines, report.removed_by_hub), (18, 0));
    let mut at_once = Follower::new(options.clone());
    assert!(!at_once.advance(&recorder.dir).unwrap());
    let verified = verify::verify(&removed, &options, &mut |_| {}).unwrap();
    for mut follower in [follower, at_once] {
        assert!(!follower.advance(&removed).unwrap(), "nothing has to be read again");
        for report in [follower.report(&removed).unwrap(), verified.clone()] {
            assert_state(&report, LogState::Ok);
            assert_eq!((report.lines, report.files, report.removed_by_hub), (6, 1, 2));
        }
    }
}
