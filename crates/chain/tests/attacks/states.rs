//! The verdicts on logs that were not attacked, or that cannot be verified.

use tacho_chain::entry::EpochReason;
use tacho_chain::verify::LogState;

use crate::support::{TestRecorder, assert_state, line, log, sealed, sidecar};

#[test]
fn an_untouched_log_is_ok() {
    let recorder = sealed();
    let report = recorder.verify();
    assert_state(&report, LogState::Ok);
    assert_eq!((report.files, report.lines, report.last_seq), (3, 18, 18));
    assert!(report.is_closed);
    assert_eq!(report.unsigned_lines, 0);
    assert_eq!(report.checkpoint.expect("one").0.seq, 18);
}

#[test]
fn declared_losses_are_a_state_of_their_own() {
    let mut recorder = sealed();
    recorder.start();
    let lost = line(19).replace("\"statement\"", "\"lost\"");
    recorder.raw_frame(&lost, 19, false);
    recorder.stop();
    let report = recorder.verify();
    assert_state(&report, LogState::Lost);
    assert_eq!(report.lost_lines, 1);
}

#[test]
fn lines_after_the_last_checkpoint_are_an_unsigned_tail() {
    let mut recorder = sealed();
    recorder.start();
    recorder.lines(2);
    let report = recorder.verify();
    assert_state(&report, LogState::UnsignedTail);
    assert_eq!(report.unsigned_lines, 2);
    // In the log and not yet in a frame.
    let mut recorder = sealed();
    recorder.start();
    recorder.dir.file(&log(3)).extend(line(19).as_bytes());
    let report = recorder.verify();
    assert_state(&report, LogState::UnsignedTail);
    assert_eq!(report.unsigned_lines, 1);
}

/// The recorder cannot change its keys (their directory cannot be written), or died between the
/// steps of a rotation: the seal lags behind the log, and nothing else is wrong.
#[test]
fn a_seal_that_lags_behind_is_not_an_attack() {
    // The file was left, but its last checkpoint could not be made.
    let mut recorder = sealed();
    recorder.start();
    recorder.lines(2);
    let whole = recorder.dir.clone();
    recorder.dir.0.insert(log(4), line(21).into_bytes());
    assert_state(&recorder.verify(), LogState::NotSealed);
    // Its last frame, or a part of it, could not be made either.
    recorder.dir.file(&log(3)).extend(line(21).as_bytes());
    assert_state(&recorder.verify(), LogState::NotSealed);
    recorder.dir.file(&sidecar(3)).extend(b"frame 1");
    assert_state(&recorder.verify(), LogState::NotSealed);
    // The last checkpoint was made, but the next sidecar was not, or is empty.
    recorder.dir = whole;
    let step = recorder.chain.next_epoch(EpochReason::Rotate, &log(4), 9_000).expect("randomness");
    recorder.append(&step.closing.expect("another file"));
    for lines in [line(21), String::new()] {
        recorder.dir.0.insert(log(4), lines.into_bytes());
        recorder.dir.0.remove(&sidecar(4));
        assert_state(&recorder.verify(), LogState::NotSealed);
        recorder.dir.0.insert(sidecar(4), Vec::new());
        assert_state(&recorder.verify(), LogState::NotSealed);
    }
    // Without it, this cannot be distinguished from a file that was removed.
    recorder.dir.0.remove(&log(4));
    recorder.dir.0.remove(&sidecar(4));
    assert_state(&recorder.verify(), LogState::Truncated);
}

/// An attacker who kills the server may add lines, which the next start finds. They are sealed and
/// reported.
#[test]
fn recovered_lines_are_a_state_of_their_own() {
    let mut recorder = sealed();
    recorder.start();
    recorder.lines(1);
    recorder.raw_frame(&line(20), 20, true);
    recorder.raw_frame(&(line(21) + &line(22)), 22, true);
    recorder.seq = 22;
    recorder.start();
    recorder.lines(1);
    recorder.raw_frame(&line(24), 24, true);
    recorder.stop();
    let report = recorder.verify();
    assert_state(&report, LogState::Recovered);
    let seqs: Vec<_> = report.findings.iter().map(|finding| finding.seqs).collect();
    assert_eq!(seqs, [Some((20, 22)), Some((24, 24))]);
    assert_eq!((report.recovered_lines, report.lines), (4, 24));
}

#[test]
fn lines_that_were_added_while_the_recorder_was_stopped_are_found() {
    // Not sealed yet.
    let mut recorder = sealed();
    recorder.dir.file(&log(3)).extend(line(19).as_bytes());
    assert_state(&recorder.verify(), LogState::Modified);
    // Sealed at the next start, by a recorder that seals whatever it finds.
    for recovered in [true, false] {
        let mut recorder = sealed();
        recorder.raw_frame(&line(19), 19, recovered);
        recorder.start();
        recorder.stop();
        assert_state(&recorder.verify(), LogState::Modified);
    }
}

#[test]
fn recovered_lines_must_have_the_numbers_of_a_recorder() {
    for lines in [
        // Repeated, out of order, without a number; the last one always fits.
        line(19) + &line(19) + &line(20),
        line(20) + &line(19) + &line(20),
        line(19) + "{}\n" + &line(20),
        line(18) + &line(19) + &line(20),
    ] {
        let mut recorder = sealed();
        recorder.start();
        recorder.raw_frame(&lines, 20, true);
        recorder.seq = 20;
        recorder.start();
        recorder.stop();
        assert_state(&recorder.verify(), LogState::Modified);
    }
    // The number of a line that already exists.
    let mut recorder = sealed();
    recorder.start();
    recorder.raw_frame(&line(18), 18, true);
    recorder.stop();
    assert_state(&recorder.verify(), LogState::Modified);
}

#[test]
fn a_directory_without_a_seal_is_never_ok() {
    let mut recorder = sealed();
    recorder.dir.0.retain(|name, _| name.ends_with(".jsonl"));
    assert_state(&recorder.verify(), LogState::NotSealed);
    recorder.dir.0.clear();
    assert_state(&recorder.verify(), LogState::NotSealed);
}

#[test]
fn a_break_that_the_recorder_declares_is_never_ok() {
    for reason in [EpochReason::RolledBack, EpochReason::GivenUp] {
        let mut recorder = sealed();
        recorder.epoch(reason, 4);
        recorder.lines(1);
        recorder.stop();
        // The last entry before it announced no other file.
        let report = recorder.verify();
        assert_state(&report, LogState::BrokenChain);
    }
    // Without the key: another root, which the user may also trust.
    let mut recorder = sealed();
    let mut other = TestRecorder::new(2);
    other.seq = recorder.seq;
    other.epoch(EpochReason::NoKey, 4);
    other.stop();
    for name in [log(4), sidecar(4)] {
        recorder.dir.0.insert(name.clone(), other.dir.0[&name].clone());
    }
    assert!(recorder.verify().state() >= LogState::BrokenChain);
}

/// A reader without the secret key for encrypted files learns that their seals are good, but never
/// gets `ok`.
#[test]
fn files_that_cannot_be_decrypted_are_a_state_of_their_own() {
    let mut recorder = sealed();
    for number in [1, 2] {
        let plain = recorder.dir.0.remove(&log(number)).expect("there");
        recorder.dir.0.insert(format!("{}.zst.age", log(number)), plain);
    }
    let report = recorder.verify();
    assert_state(&report, LogState::Encrypted);
    assert_eq!((report.files, report.encrypted_files, report.last_seq), (3, 2, 18));
    let [finding] = &report.findings[..] else { panic!("one: {:?}", report.findings) };
    assert!(finding.file.starts_with(&log(1)) && finding.text.starts_with("2 files"), "{finding}");
    assert_eq!(finding.seqs.map(|seqs| seqs.0), Some(1));
    // Everything else is checked: the sidecar,
    let mut changed = recorder.dir.clone();
    let bytes = changed.file(&sidecar(1));
    let last = bytes.len() - 3;
    bytes[last] ^= 1;
    let told = crate::support::check(&changed, &recorder.root, None);
    assert_state(&told, LogState::Modified);
    // the lines that can be read,
    let mut changed = recorder.dir.clone();
    changed.file(&log(3))[9] ^= 1;
    assert_state(&crate::support::check(&changed, &recorder.root, None), LogState::Modified);
    // and that nothing is missing.
    let mut changed = recorder.dir.clone();
    changed.0.remove(&format!("{}.zst.age", log(2))).expect("there");
    assert_state(&crate::support::check(&changed, &recorder.root, None), LogState::Gap);
    // A readable form wins, so that an encrypted one cannot hide it.
    let mut changed = recorder.dir.clone();
    changed.0.insert(log(1), b"not what was sealed\n".to_vec());
    assert!(crate::support::check(&changed, &recorder.root, None).state() > LogState::Encrypted);
    // An encrypted file without a seal is no better.
    recorder.dir.0.remove(&sidecar(1)).expect("there");
    assert!(recorder.verify().state() > LogState::Encrypted);
}
