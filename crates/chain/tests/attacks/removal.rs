//! Tombstones: true ones and false ones.

use tacho_chain::entry::CheckpointReason;
use tacho_chain::verify::LogState;

use crate::support::{TestRecorder, assert_state, check, log, sealed, sidecar};

/// A file has one epoch, whose key is kept when the file is removed: the tombstones are bounded.
#[test]
fn a_file_has_one_epoch() {
    let mut recorder = sealed();
    let epoch = recorder.dir.text(&sidecar(3));
    let epoch = &epoch[..epoch.find("frame").expect("a frame")];
    recorder.append(epoch);
    assert_state(&recorder.verify(), LogState::Modified);

    let mut recorder = sealed();
    recorder.start();
    recorder.remove(1);
    recorder.stop();
    assert_state(&recorder.verify(), LogState::Ok);
    let text = recorder.dir.text("removed.chain");
    *recorder.dir.file("removed.chain") = (epoch.repeat(100) + &text).into_bytes();
    assert_state(&recorder.verify(), LogState::Modified);
}

/// An attacker who may sign tombstones claims that the current file was removed, and writes its
/// records anew in the next one. No retention removes a file and keeps older ones.
#[test]
fn a_tombstone_for_a_file_between_others_is_found() {
    let mut recorder = sealed();
    recorder.start();
    recorder.rotate();
    recorder.lines(1);
    recorder.remove(3);
    recorder.stop();
    assert_state(&recorder.verify(), LogState::Gap);
}

#[test]
fn removal_with_a_tombstone_is_fine_and_without_one_a_gap() {
    let mut recorder = sealed();
    recorder.start();
    recorder.remove(1);
    recorder.lines(1);
    recorder.remove(2);
    recorder.stop();
    let report = recorder.verify();
    assert_state(&report, LogState::Ok);
    assert_eq!((report.removed_files, report.files), (2, 1));

    let mut without = recorder.dir.clone();
    without.0.remove("removed.chain");
    assert_state(&check(&without, &recorder.root, None), LogState::Gap);

    // The first of two tombstones is removed.
    let removed = recorder.dir.text("removed.chain");
    let second = removed.rfind(&format!("file {}\n", log(2))).expect("the second");
    let second = removed[..second].rfind("tachograph-epoch-v1").expect("its key");
    let mut without = recorder.dir.clone();
    *without.file("removed.chain") = removed.as_bytes()[second..].to_vec();
    assert!(check(&without, &recorder.root, None).state() >= LogState::Gap);

    // A checkpoint of a removed file is accepted.
    let old = sealed_checkpoint_of_file_1(&recorder);
    assert_state(&check(&recorder.dir, &recorder.root, Some(&old)), LogState::Ok);
}

fn sealed_checkpoint_of_file_1(recorder: &TestRecorder) -> String {
    let mut other = TestRecorder::new(1);
    other.lines(3);
    assert_eq!(other.root, recorder.root);
    other.checkpoint(CheckpointReason::Interval)
}

#[test]
fn an_interrupted_removal_is_fine() {
    let before = {
        let mut recorder = sealed();
        recorder.start();
        recorder
    };
    let mut after = sealed();
    after.dir = before.dir.clone();
    after.chain = before.chain;
    after.remove(1);
    after.stop();
    // The tombstone exists, the sidecar still does, the log does not.
    after.dir.0.insert(sidecar(1), before.dir.0[&sidecar(1)].clone());
    assert_state(&after.verify(), LogState::Ok);
    // Neither was removed.
    after.dir.0.insert(log(1), before.dir.0[&log(1)].clone());
    assert_state(&after.verify(), LogState::Ok);
}
