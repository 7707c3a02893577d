//! Bytes, lines and files that were changed or moved, also by attackers who compute all hashes
//! anew.

use tacho_chain::entry::CheckpointReason;
use tacho_chain::verify::LogState;

use crate::support::{TestRecorder, assert_state, check, line, log, sealed, sidecar};

/// The newest file has no checkpoint yet: its sidecar can be cut to its first entry.
#[test]
fn a_newest_file_without_a_checkpoint_does_not_vanish() {
    let mut recorder = sealed();
    recorder.start();
    recorder.rotate();
    let epoch = recorder.dir.0[&sidecar(4)].clone();
    recorder.lines(3);
    recorder.dir.0.remove(&log(4));
    assert_state(&recorder.verify(), LogState::Gap);
    recorder.dir.0.insert(sidecar(4), epoch);
    assert_state(&recorder.verify(), LogState::Gap);
    recorder.dir.0.insert(sidecar(4), Vec::new());
    assert!(recorder.verify().state() >= LogState::NotSealed);
    recorder.dir.0.remove(&sidecar(4));
    assert_state(&recorder.verify(), LogState::Truncated);
}

#[test]
fn a_changed_byte_is_found_with_its_place() {
    let mut recorder = sealed();
    let file = recorder.dir.file(&log(2));
    let at = file.len() - 4;
    file[at] ^= 1;
    let report = recorder.verify();
    assert_state(&report, LogState::Modified);
    let [finding] = &report.findings[..] else { panic!("{:?}", report.findings) };
    assert_eq!((finding.file.as_str(), finding.line), (log(2).as_str(), Some(6)));
    assert_eq!(finding.seqs, Some((11, 12)));
}

#[test]
fn a_deleted_line_is_found_with_its_place() {
    let mut recorder = sealed();
    let text = recorder.dir.text(&log(3)).replace(&line(15), "");
    *recorder.dir.file(&log(3)) = text.into_bytes();
    let report = recorder.verify();
    assert!(report.state() >= LogState::Truncated);
    // Where record 15 was.
    assert_eq!(report.findings[0].line, Some(3));
}

#[test]
fn inserted_and_reordered_lines_are_found() {
    let mut recorder = sealed();
    let text = recorder.dir.text(&log(1)).replace(&line(2), &(line(2) + &line(2)));
    *recorder.dir.file(&log(1)) = text.into_bytes();
    assert_state(&recorder.verify(), LogState::Modified);

    let mut recorder = sealed();
    let (two, three) = (line(2), line(3));
    let text = recorder.dir.text(&log(1)).replace(&(two.clone() + &three), &(three + &two));
    *recorder.dir.file(&log(1)) = text.into_bytes();
    let report = recorder.verify();
    assert_state(&report, LogState::Modified);
    assert_eq!(report.findings[0].line, Some(2));
}

/// CVE-2023-31438: a sealed journal could be truncated without notice.
#[test]
fn cve_2023_31438_truncation_of_a_sealed_log() {
    let untouched = sealed();
    for number in 1..=3 {
        let length = untouched.dir.0[&log(number)].len();
        // In lines, at line ends, at frame edges and to nothing.
        let mut recorder = sealed();
        for end in (0..length).rev() {
            recorder.dir.file(&log(number)).truncate(end);
            assert_state(&recorder.verify(), LogState::Truncated);
        }
    }
}

/// The second half of CVE-2023-31438: truncated, and then sealing is resumed. Here the attacker
/// cuts log and sidecar at a checkpoint, so that the rest is an earlier state of the log.
#[test]
fn cve_2023_31438_truncation_at_a_checkpoint() {
    let mut recorder = sealed();
    let expect = recorder.checkpoint(CheckpointReason::Interval);
    let whole = recorder.dir.text(&sidecar(3));
    let first = whole.find("reason interval").expect("a checkpoint");
    let end = first + whole[first..].find("\nframe").expect("a frame") + 1;
    recorder.dir.file(&sidecar(3)).truncate(end);
    let kept = (13..=17).map(line).collect::<String>().len();
    recorder.dir.file(&log(3)).truncate(kept);
    // On its own it is the log of a recorder that was killed, and the report says so.
    let report = recorder.verify();
    assert_state(&report, LogState::Ok);
    assert!(!report.is_closed);
    let report = check(&recorder.dir, &recorder.root, Some(&expect));
    assert_state(&report, LogState::Truncated);
    assert_eq!(report.findings[0].seqs, Some((18, 18)));
}

/// CVE-2023-31439: events are changed and the file is adjusted so that verification passes.
/// The attacker computes every hash anew, and cannot sign.
#[test]
fn cve_2023_31439_changed_content_with_hashes_made_anew() {
    let honest = sealed();
    let mut forged = sealed();
    let text = forged.dir.text(&log(1)).replace("SELECT 2", "SELECT 9");
    let digest = |text: &str| tacho_chain::hash::Hash::of(text.as_bytes()).to_string();
    let (old, new) = ((1..=3).map(line).collect::<String>(), text[..3 * line(1).len()].to_owned());
    let side = forged.dir.text(&sidecar(1));
    assert!(side.contains(&digest(&old)));
    *forged.dir.file(&sidecar(1)) = side.replace(&digest(&old), &digest(&new)).into_bytes();
    *forged.dir.file(&log(1)) = text.into_bytes();
    let report = forged.verify();
    assert_state(&report, LogState::Modified);
    assert!(report.findings[0].text.contains("checkpoint"), "{:?}", report.findings);

    // With the attacker's own key it verifies under that key only.
    let mut own = TestRecorder::new(2);
    own.lines(3);
    own.stop();
    assert_state(&own.verify(), LogState::Ok);
    assert_state(&check(&own.dir, &honest.root, None), LogState::WrongKey);
}

/// CVE-2023-31437: a sealed journal is changed so that some views do not show all of it. Here every
/// line that a reader sees is in a frame: a hidden line is missing, an added line is reported.
#[test]
fn cve_2023_31437_lines_that_readers_do_not_see() {
    let mut recorder = sealed();
    // A reader skips data that is not a line: zero bytes instead of a record.
    let place = line(1).len()..2 * line(1).len() - 1;
    recorder.dir.file(&log(1))[place].fill(0);
    assert_state(&recorder.verify(), LogState::Modified);

    // Plain wins over compressed for every reader: a plain file beside the sealed one.
    let mut recorder = sealed();
    let real = recorder.dir.0[&log(1)].clone();
    recorder.dir.0.insert(format!("{}.zst", log(1)), real);
    recorder.dir.file(&log(1)).clear();
    assert_state(&recorder.verify(), LogState::Modified);
}

#[test]
fn swapped_files_are_found() {
    let mut recorder = sealed();
    let (one, three) = (recorder.dir.0[&log(1)].clone(), recorder.dir.0[&log(3)].clone());
    *recorder.dir.file(&log(1)) = three;
    *recorder.dir.file(&log(3)) = one;
    assert!(recorder.verify().state() >= LogState::Truncated);

    let mut recorder = sealed();
    for name in [log, sidecar] {
        let (two, three) = (recorder.dir.0[&name(2)].clone(), recorder.dir.0[&name(3)].clone());
        *recorder.dir.file(&name(2)) = three;
        *recorder.dir.file(&name(3)) = two;
    }
    assert_state(&recorder.verify(), LogState::Modified);

    let mut recorder = sealed();
    let other = recorder.dir.0[&sidecar(2)].clone();
    *recorder.dir.file(&sidecar(3)) = other;
    assert_state(&recorder.verify(), LogState::Modified);
}

#[test]
fn a_renamed_or_doubled_file_is_found() {
    let mut recorder = sealed();
    for name in [log, sidecar] {
        let bytes = recorder.dir.0.remove(&name(3)).expect("there");
        recorder.dir.0.insert(name(4), bytes);
    }
    assert_state(&recorder.verify(), LogState::Modified);

    let mut recorder = sealed();
    for name in [log, sidecar] {
        let bytes = recorder.dir.0[&name(2)].clone();
        recorder.dir.0.insert(name(4), bytes);
    }
    assert_state(&recorder.verify(), LogState::Modified);

    let mut recorder = sealed();
    let bytes = recorder.dir.0[&log(2)].clone();
    recorder.dir.0.insert(log(4), bytes);
    assert_state(&recorder.verify(), LogState::NotSealed);
}

#[test]
fn a_missing_file_is_a_gap_and_a_missing_end_a_truncation() {
    for (number, state) in [(1, LogState::Gap), (2, LogState::Gap), (3, LogState::Truncated)] {
        let mut recorder = sealed();
        recorder.dir.0.remove(&log(number));
        recorder.dir.0.remove(&sidecar(number));
        assert_state(&recorder.verify(), state);
        let mut recorder = sealed();
        recorder.dir.0.remove(&log(number));
        assert_state(&recorder.verify(), LogState::Gap);
        let mut recorder = sealed();
        recorder.dir.0.remove(&sidecar(number));
        assert!(recorder.verify().state() >= LogState::NotSealed);
    }
    let mut recorder = sealed();
    recorder.dir.0.remove(&log(2));
    recorder.dir.0.remove(&sidecar(2));
    let finding = &recorder.verify().findings[0];
    assert_eq!(finding.seqs, Some((6, 12)));
}

/// The file after it says that the file was sealed.
#[test]
fn a_file_whose_sidecar_was_deleted_is_not_one_that_was_never_sealed() {
    for (number, seqs) in [(1, (1, 5)), (2, (6, 12))] {
        let mut recorder = sealed();
        recorder.dir.0.remove(&sidecar(number));
        let report = recorder.verify();
        assert_state(&report, LogState::Gap);
        let gaps: Vec<_> = report.findings.iter().filter(|it| it.state == LogState::Gap).collect();
        let [gap] = &gaps[..] else { panic!("{gaps:?}") };
        assert_eq!((&gap.file, gap.seqs), (&log(number), Some(seqs)));
        assert!(gap.text.contains("its sidecar is missing"), "{}", gap.text);
    }
}
