//! Attackers with keys of the log, and with older copies of it.

use tacho_chain::chain::Chain;
use tacho_chain::entry::{CheckpointReason, EpochReason};
use tacho_chain::key_file::KeyFile;
use tacho_chain::verify::LogState;

use crate::support::{TestRecorder, assert_state, check, line, log, sealed, sidecar, thief};

#[test]
fn an_older_copy_is_found_by_a_checkpoint_that_was_kept() {
    let mut recorder = sealed();
    let older = recorder.dir.clone();
    let old_checkpoint = recorder.verify().checkpoint.expect("one").1;
    recorder.start();
    let idle = recorder.checkpoint(CheckpointReason::Interval);
    let copy_of_idle = recorder.dir.clone();
    recorder.lines(3);
    let new_checkpoint = recorder.checkpoint(CheckpointReason::Interval);
    let root = &recorder.root;
    assert_state(&check(&older, root, None), LogState::Ok);
    assert_state(&check(&older, root, Some(&old_checkpoint)), LogState::Ok);
    assert_state(&check(&older, root, Some(&idle)), LogState::Truncated);
    assert_state(&check(&older, root, Some(&new_checkpoint)), LogState::Truncated);
    assert_state(&check(&copy_of_idle, root, Some(&new_checkpoint)), LogState::Truncated);
    for expect in [&old_checkpoint, &idle, &new_checkpoint] {
        assert_state(&check(&recorder.dir, root, Some(expect)), LogState::Ok);
    }
}

/// An attacker with the current key can write another future, not another past.
#[test]
fn another_history_is_found_by_a_checkpoint_that_was_kept() {
    let mut recorder = TestRecorder::new(1);
    recorder.lines(1);
    let kept = recorder.checkpoint(CheckpointReason::Interval);
    let mut other = TestRecorder::new(1);
    other.lines(2);
    other.time_s += 1;
    other.checkpoint(CheckpointReason::Interval);
    let report = check(&other.dir, &recorder.root, Some(&kept));
    assert_state(&report, LogState::Modified);
    let foreign = TestRecorder::new(2).checkpoint(CheckpointReason::Interval);
    assert_state(&check(&recorder.dir, &recorder.root, Some(&foreign)), LogState::WrongKey);
    assert_state(&check(&recorder.dir, &recorder.root, Some("nonsense")), LogState::Modified);
}

/// An old key signs new data: what the attacker finds in a backup of the key file.
#[test]
fn an_old_key_cannot_sign_later_data() {
    let mut recorder = TestRecorder::new(1);
    let backup = recorder.key_file.clone();
    recorder.lines(1);
    recorder.checkpoint(CheckpointReason::Interval);
    let end = recorder.dir.0[&sidecar(1)].len();
    let mut thief = thief(&recorder, &backup, 1, end);
    thief.lines(1);
    thief.checkpoint(CheckpointReason::Interval);
    assert_state(&thief.verify(), LogState::Modified);
}

/// The current key signs old data: an attacker who takes over the host cannot rewrite the past.
#[test]
fn a_new_key_cannot_sign_earlier_data() {
    let recorder = sealed();
    // The first file, with its hashes and its checkpoints, in the place of the real one.
    let epoch_end = recorder.dir.text(&sidecar(1)).find("frame").expect("a frame");
    let mut thief = thief(&recorder, &recorder.key_file, 1, epoch_end);
    thief.raw_frame(&(line(1) + &line(2)), 2, false);
    let step = thief.chain.next_epoch(EpochReason::Rotate, &log(2), 1_060).expect("randomness");
    thief.append(&step.closing.expect("another file"));
    assert_state(&thief.verify(), LogState::Modified);
}

/// Entries signed within the file that is being written cannot be signed anew, either: each
/// checkpoint hands over to another key.
#[test]
fn a_key_signs_for_one_interval() {
    let mut recorder = TestRecorder::new(1);
    recorder.lines(3);
    recorder.checkpoint(CheckpointReason::Interval);
    let handover = recorder.dir.0[&sidecar(1)].len();
    recorder.lines(2);
    let stolen = recorder.key_file.clone();
    let epoch_end = recorder.dir.text(&sidecar(1)).find("frame").expect("a frame");
    // From before the newest checkpoint.
    let mut other = thief(&recorder, &stolen, 1, epoch_end);
    other.lines(1);
    other.checkpoint(CheckpointReason::Interval);
    assert_state(&other.verify(), LogState::Modified);
    other.stop();
    assert_state(&other.verify(), LogState::Modified);
    // An attacker with the key controls everything after the checkpoint. The promise covers no
    // more.
    let mut other = thief(&recorder, &stolen, 1, handover);
    other.lines(1);
    other.stop();
    assert_state(&other.verify(), LogState::Ok);
    assert_eq!(other.verify().last_seq, 4);
}

/// The key that signs epochs lives as long as its file. It alone cannot state how the file ended.
#[test]
fn the_key_of_an_epoch_does_not_sign_for_its_file() {
    let mut recorder = TestRecorder::new(1);
    recorder.lines(3);
    recorder.checkpoint(CheckpointReason::Interval);
    recorder.lines(2);
    let stolen = recorder.key_file.clone();
    let epoch_end = recorder.dir.text(&sidecar(1)).find("frame").expect("a frame");
    let mut other = thief(&recorder, &stolen, 1, epoch_end);
    other.lines(1);
    // Without a last checkpoint, as if the recorder had omitted it.
    let position = other.chain.position().clone();
    let mut key = KeyFile::parse(&stolen).expect("a key file");
    key.signer = None;
    other.chain = Chain::new(key, position);
    other.rotate();
    other.lines(1);
    other.stop();
    let report = other.verify();
    assert_state(&report, LogState::Modified);
    // The state of a file is that of the findings that name it.
    let is_named = |text: &str| text.contains("does not end with its last checkpoint");
    let named: Vec<&String> = (report.findings.iter())
        .filter(|finding| is_named(&finding.text))
        .map(|finding| &finding.file)
        .collect();
    assert_eq!(named, [&log(1)]);
}
