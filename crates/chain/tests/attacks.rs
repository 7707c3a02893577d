//! Attacks on a sealed log, each by its name. The attacker has all files and no secret key, but
//! for what a test says.

mod support;

use proptest::prelude::*;
use support::{Dir, Recorder, assert_state, check, line, log, sealed, sidecar, thief};
use tacho_chain::chain::Chain;
use tacho_chain::entry::{CheckpointReason, EpochReason};
use tacho_chain::key_file::KeyFile;
use tacho_chain::verify::{self, Directory, Options, State};

#[test]
fn an_untouched_log_is_ok() {
    let recorder = sealed();
    let report = recorder.verify();
    assert_state(&report, State::Ok);
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
    assert_state(&report, State::Lost);
    assert_eq!(report.lost_lines, 1);
}

#[test]
fn what_is_not_under_a_checkpoint_is_an_unsigned_tail() {
    let mut recorder = sealed();
    recorder.start();
    recorder.lines(2);
    let report = recorder.verify();
    assert_state(&report, State::UnsignedTail);
    assert_eq!(report.unsigned_lines, 2);
    // In the log and not yet in a frame.
    let mut recorder = sealed();
    recorder.start();
    recorder.dir.file(&log(3)).extend(line(19).as_bytes());
    let report = recorder.verify();
    assert_state(&report, State::UnsignedTail);
    assert_eq!(report.unsigned_lines, 1);
}

/// The recorder cannot change its keys (their directory cannot be written), or died between the steps
/// of a rotation: what is sealed lags behind what is written, and nothing else.
#[test]
fn a_seal_that_lags_behind_is_no_attack() {
    // The file was left, its last checkpoint could not be made.
    let mut recorder = sealed();
    recorder.start();
    recorder.lines(2);
    let whole = recorder.dir.clone();
    recorder.dir.0.insert(log(4), line(21).into_bytes());
    assert_state(&recorder.verify(), State::NotSealed);
    // Nor its last frame, or not all of it.
    recorder.dir.file(&log(3)).extend(line(21).as_bytes());
    assert_state(&recorder.verify(), State::NotSealed);
    recorder.dir.file(&sidecar(3)).extend(b"frame 1");
    assert_state(&recorder.verify(), State::NotSealed);
    // The last checkpoint was made, and the next sidecar was not, or is empty.
    recorder.dir = whole;
    let step = recorder.chain.next_epoch(EpochReason::Rotate, &log(4), 9_000).expect("randomness");
    recorder.append(&step.closing.expect("another file"));
    for lines in [line(21), String::new()] {
        recorder.dir.0.insert(log(4), lines.into_bytes());
        recorder.dir.0.remove(&sidecar(4));
        assert_state(&recorder.verify(), State::NotSealed);
        recorder.dir.0.insert(sidecar(4), Vec::new());
        assert_state(&recorder.verify(), State::NotSealed);
    }
    // But without it, nobody can tell that from a file that was removed.
    recorder.dir.0.remove(&log(4));
    recorder.dir.0.remove(&sidecar(4));
    assert_state(&recorder.verify(), State::Truncated);
}

/// Who kills the server may add lines, which the next start finds. They are sealed, and told of.
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
    assert_state(&report, State::Recovered);
    let seqs: Vec<_> = report.findings.iter().map(|finding| finding.seqs).collect();
    assert_eq!(seqs, [Some((20, 22)), Some((24, 24))]);
    assert_eq!((report.recovered_lines, report.lines), (4, 24));
}

#[test]
fn lines_that_were_added_while_the_recorder_was_stopped_are_found() {
    // Not sealed yet.
    let mut recorder = sealed();
    recorder.dir.file(&log(3)).extend(line(19).as_bytes());
    assert_state(&recorder.verify(), State::Modified);
    // Sealed at the next start, by a recorder that takes what it finds.
    for recovered in [true, false] {
        let mut recorder = sealed();
        recorder.raw_frame(&line(19), 19, recovered);
        recorder.start();
        recorder.stop();
        assert_state(&recorder.verify(), State::Modified);
    }
}

#[test]
fn recovered_lines_must_have_the_numbers_of_a_recorder() {
    for lines in [
        // Again, out of order, without a number; the last one always fits.
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
        assert_state(&recorder.verify(), State::Modified);
    }
    // The number of a line that is there already.
    let mut recorder = sealed();
    recorder.start();
    recorder.raw_frame(&line(18), 18, true);
    recorder.stop();
    assert_state(&recorder.verify(), State::Modified);
}

/// The newest file has no checkpoint yet: its sidecar can be cut to its first entry.
#[test]
fn a_newest_file_without_a_checkpoint_does_not_vanish() {
    let mut recorder = sealed();
    recorder.start();
    recorder.rotate();
    let epoch = recorder.dir.0[&sidecar(4)].clone();
    recorder.lines(3);
    recorder.dir.0.remove(&log(4));
    assert_state(&recorder.verify(), State::Gap);
    recorder.dir.0.insert(sidecar(4), epoch);
    assert_state(&recorder.verify(), State::Gap);
    recorder.dir.0.insert(sidecar(4), Vec::new());
    assert!(recorder.verify().state() >= State::NotSealed);
    recorder.dir.0.remove(&sidecar(4));
    assert_state(&recorder.verify(), State::Truncated);
}

/// A sidecar, a log file and the tombstones that are no plain files.
#[test]
fn what_is_no_file_is_told_of() {
    struct Pipe(Dir, String);
    impl Directory for Pipe {
        fn names(&self) -> std::io::Result<Vec<String>> {
            Ok([self.0.names()?, vec!["removed.chain".to_owned()]].concat())
        }
        fn open(&self, name: &str) -> std::io::Result<Box<dyn std::io::Read + '_>> {
            if name == self.1 {
                return Err(std::io::Error::new(std::io::ErrorKind::InvalidData, "a pipe"));
            }
            if name == "removed.chain" { Ok(Box::new(&[][..])) } else { self.0.open(name) }
        }
    }
    let recorder = sealed();
    for name in [log(1), log(2), log(3), sidecar(1), sidecar(2), sidecar(3), "removed.chain".into()]
    {
        let options = Options { keys: vec![recorder.root.clone()], expect: None };
        let place = Pipe(recorder.dir.clone(), name);
        let report = verify::verify(&place, &options, &mut |_| {}).expect("an answer");
        assert!(report.state() >= State::Modified, "{}: {:?}", place.1, report.findings);
    }
}

/// Numbers as large as can be, in entries that nobody has signed.
#[test]
fn the_largest_numbers_do_no_harm() {
    let max = u64::MAX;
    let digest = "0".repeat(64);
    for frame in [
        format!("frame {} {max} {max} {max} {digest}\n", max - 1),
        format!("frame 0 {max} {max} 1 {digest} recovered\n"),
        format!("frame 0 {max} 0 {max} {digest}\n"),
    ] {
        let mut recorder = sealed();
        recorder.start();
        for _ in 0..2 {
            recorder.append(&frame);
        }
        assert!(recorder.verify().state() > State::Recovered);
    }
    let mut recorder = sealed();
    recorder.start();
    recorder.raw_frame(&line(max), max, true);
    recorder.start();
    recorder.stop();
    assert!(recorder.verify().state() > State::Recovered);
}

/// A file has one epoch, whose key is kept when the file is removed: nothing there grows without bounds.
#[test]
fn a_file_has_one_epoch() {
    let mut recorder = sealed();
    let epoch = recorder.dir.text(&sidecar(3));
    let epoch = &epoch[..epoch.find("frame").expect("a frame")];
    recorder.append(epoch);
    assert_state(&recorder.verify(), State::Modified);

    let mut recorder = sealed();
    recorder.start();
    recorder.remove(1);
    recorder.stop();
    assert_state(&recorder.verify(), State::Ok);
    let text = recorder.dir.text("removed.chain");
    *recorder.dir.file("removed.chain") = (epoch.repeat(100) + &text).into_bytes();
    assert_state(&recorder.verify(), State::Modified);
}

#[test]
fn a_changed_byte_is_found_with_its_place() {
    let mut recorder = sealed();
    let file = recorder.dir.file(&log(2));
    let at = file.len() - 4;
    file[at] ^= 1;
    let report = recorder.verify();
    assert_state(&report, State::Modified);
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
    assert!(report.state() >= State::Truncated);
    // Where record 15 was.
    assert_eq!(report.findings[0].line, Some(3));
}

#[test]
fn inserted_and_reordered_lines_are_found() {
    let mut recorder = sealed();
    let text = recorder.dir.text(&log(1)).replace(&line(2), &(line(2) + &line(2)));
    *recorder.dir.file(&log(1)) = text.into_bytes();
    assert_state(&recorder.verify(), State::Modified);

    let mut recorder = sealed();
    let (two, three) = (line(2), line(3));
    let text = recorder.dir.text(&log(1)).replace(&(two.clone() + &three), &(three + &two));
    *recorder.dir.file(&log(1)) = text.into_bytes();
    let report = recorder.verify();
    assert_state(&report, State::Modified);
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
            assert_state(&recorder.verify(), State::Truncated);
        }
    }
}

/// The second half of CVE-2023-31438: truncated, and then sealing is resumed. Here the attacker
/// cuts log and sidecar at a checkpoint, so that what is left is what once was.
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
    // By itself it is the log of a recorder that was killed, and it says so.
    let report = recorder.verify();
    assert_state(&report, State::Ok);
    assert!(!report.is_closed);
    let report = check(&recorder.dir, &recorder.root, Some(&expect));
    assert_state(&report, State::Truncated);
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
    assert_state(&report, State::Modified);
    assert!(report.findings[0].text.contains("checkpoint"), "{:?}", report.findings);

    // With a key of one's own it verifies under that key only.
    let mut own = Recorder::new(2);
    own.lines(3);
    own.stop();
    assert_state(&own.verify(), State::Ok);
    assert_state(&check(&own.dir, &honest.root, None), State::WrongKey);
}

/// CVE-2023-31437: a sealed journal is changed so that some views do not show all of it. Here
/// every line that a reader sees is in a frame: what is hidden is missing, what is added is told.
#[test]
fn cve_2023_31437_lines_that_readers_do_not_see() {
    let mut recorder = sealed();
    // A reader skips what is not a line: zero bytes in the place of a record.
    let place = line(1).len()..2 * line(1).len() - 1;
    recorder.dir.file(&log(1))[place].fill(0);
    assert_state(&recorder.verify(), State::Modified);

    // Plain wins over compressed for every reader: a plain file beside the sealed one.
    let mut recorder = sealed();
    let real = recorder.dir.0[&log(1)].clone();
    recorder.dir.0.insert(format!("{}.zst", log(1)), real);
    recorder.dir.file(&log(1)).clear();
    assert_state(&recorder.verify(), State::Truncated);
}

#[test]
fn files_that_change_places_are_found() {
    let mut recorder = sealed();
    let (one, three) = (recorder.dir.0[&log(1)].clone(), recorder.dir.0[&log(3)].clone());
    *recorder.dir.file(&log(1)) = three;
    *recorder.dir.file(&log(3)) = one;
    assert!(recorder.verify().state() >= State::Truncated);

    let mut recorder = sealed();
    for name in [log, sidecar] {
        let (two, three) = (recorder.dir.0[&name(2)].clone(), recorder.dir.0[&name(3)].clone());
        *recorder.dir.file(&name(2)) = three;
        *recorder.dir.file(&name(3)) = two;
    }
    assert_state(&recorder.verify(), State::Modified);

    let mut recorder = sealed();
    let other = recorder.dir.0[&sidecar(2)].clone();
    *recorder.dir.file(&sidecar(3)) = other;
    assert_state(&recorder.verify(), State::Modified);
}

#[test]
fn a_renamed_or_doubled_file_is_found() {
    let mut recorder = sealed();
    for name in [log, sidecar] {
        let bytes = recorder.dir.0.remove(&name(3)).expect("there");
        recorder.dir.0.insert(name(4), bytes);
    }
    assert_state(&recorder.verify(), State::Modified);

    let mut recorder = sealed();
    for name in [log, sidecar] {
        let bytes = recorder.dir.0[&name(2)].clone();
        recorder.dir.0.insert(name(4), bytes);
    }
    assert_state(&recorder.verify(), State::Modified);

    let mut recorder = sealed();
    let bytes = recorder.dir.0[&log(2)].clone();
    recorder.dir.0.insert(log(4), bytes);
    assert_state(&recorder.verify(), State::NotSealed);
}

#[test]
fn a_missing_file_is_a_gap_and_a_missing_end_a_truncation() {
    for (number, state) in [(1, State::Gap), (2, State::Gap), (3, State::Truncated)] {
        let mut recorder = sealed();
        recorder.dir.0.remove(&log(number));
        recorder.dir.0.remove(&sidecar(number));
        assert_state(&recorder.verify(), state);
        let mut recorder = sealed();
        recorder.dir.0.remove(&log(number));
        assert_state(&recorder.verify(), State::Gap);
        let mut recorder = sealed();
        recorder.dir.0.remove(&sidecar(number));
        assert!(recorder.verify().state() >= State::NotSealed);
    }
    let mut recorder = sealed();
    recorder.dir.0.remove(&log(2));
    recorder.dir.0.remove(&sidecar(2));
    let finding = &recorder.verify().findings[0];
    assert_eq!(finding.seqs, Some((6, 12)));
}

#[test]
fn a_directory_without_a_seal_is_never_ok() {
    let mut recorder = sealed();
    recorder.dir.0.retain(|name, _| name.ends_with(".jsonl"));
    assert_state(&recorder.verify(), State::NotSealed);
    recorder.dir.0.clear();
    assert_state(&recorder.verify(), State::NotSealed);
}

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
    assert_state(&check(&older, root, None), State::Ok);
    assert_state(&check(&older, root, Some(&old_checkpoint)), State::Ok);
    assert_state(&check(&older, root, Some(&idle)), State::Truncated);
    assert_state(&check(&older, root, Some(&new_checkpoint)), State::Truncated);
    assert_state(&check(&copy_of_idle, root, Some(&new_checkpoint)), State::Truncated);
    for expect in [&old_checkpoint, &idle, &new_checkpoint] {
        assert_state(&check(&recorder.dir, root, Some(expect)), State::Ok);
    }
}

/// Who has the current key can write another future, not another past.
#[test]
fn another_history_is_found_by_a_checkpoint_that_was_kept() {
    let mut recorder = Recorder::new(1);
    recorder.lines(1);
    let kept = recorder.checkpoint(CheckpointReason::Interval);
    let mut other = Recorder::new(1);
    other.lines(2);
    other.time_s += 1;
    other.checkpoint(CheckpointReason::Interval);
    let report = check(&other.dir, &recorder.root, Some(&kept));
    assert_state(&report, State::Modified);
    let foreign = Recorder::new(2).checkpoint(CheckpointReason::Interval);
    assert_state(&check(&recorder.dir, &recorder.root, Some(&foreign)), State::WrongKey);
    assert_state(&check(&recorder.dir, &recorder.root, Some("nonsense")), State::Modified);
}

/// An old key signs new data: what the attacker finds in a backup of the key file.
#[test]
fn an_old_key_cannot_sign_later_data() {
    let mut recorder = Recorder::new(1);
    let backup = recorder.key_file.clone();
    recorder.lines(1);
    recorder.checkpoint(CheckpointReason::Interval);
    let end = recorder.dir.0[&sidecar(1)].len();
    let mut thief = thief(&recorder, &backup, 1, end);
    thief.lines(1);
    thief.checkpoint(CheckpointReason::Interval);
    assert_state(&thief.verify(), State::Modified);
}

/// The key of now signs old data: who takes over the host cannot rewrite what was before.
#[test]
fn a_new_key_cannot_sign_earlier_data() {
    let recorder = sealed();
    // The first file, with its hashes and its checkpoints, in the place of the real one.
    let epoch_end = recorder.dir.text(&sidecar(1)).find("frame").expect("a frame");
    let mut thief = thief(&recorder, &recorder.key_file, 1, epoch_end);
    thief.raw_frame(&(line(1) + &line(2)), 2, false);
    let step = thief.chain.next_epoch(EpochReason::Rotate, &log(2), 1_060).expect("randomness");
    thief.append(&step.closing.expect("another file"));
    assert_state(&thief.verify(), State::Modified);
}

/// What was signed within the file that is being written cannot be signed anew, either: each
/// checkpoint hands over to another key.
#[test]
fn a_key_signs_for_one_interval() {
    let mut recorder = Recorder::new(1);
    recorder.lines(3);
    recorder.checkpoint(CheckpointReason::Interval);
    let handover = recorder.dir.0[&sidecar(1)].len();
    recorder.lines(2);
    let stolen = recorder.key_file.clone();
    let epoch_end = recorder.dir.text(&sidecar(1)).find("frame").expect("a frame");
    // From before the newest checkpoint on.
    let mut other = thief(&recorder, &stolen, 1, epoch_end);
    other.lines(1);
    other.checkpoint(CheckpointReason::Interval);
    assert_state(&other.verify(), State::Modified);
    other.stop();
    assert_state(&other.verify(), State::Modified);
    // What is behind it is in the hands of who has the key. That is the promise, and no more.
    let mut other = thief(&recorder, &stolen, 1, handover);
    other.lines(1);
    other.stop();
    assert_state(&other.verify(), State::Ok);
    assert_eq!(other.verify().last_seq, 4);
}

/// The key that signs epochs lives as long as its file. Alone it cannot say how the file ended.
#[test]
fn the_key_of_an_epoch_does_not_sign_for_its_file() {
    let mut recorder = Recorder::new(1);
    recorder.lines(3);
    recorder.checkpoint(CheckpointReason::Interval);
    recorder.lines(2);
    let stolen = recorder.key_file.clone();
    let epoch_end = recorder.dir.text(&sidecar(1)).find("frame").expect("a frame");
    let mut other = thief(&recorder, &stolen, 1, epoch_end);
    other.lines(1);
    // Without a last checkpoint, as if the recorder had left it out.
    let position = other.chain.position().clone();
    let mut key = KeyFile::parse(&stolen).expect("a key file");
    key.signer = None;
    other.chain = Chain::new(key, position);
    other.rotate();
    other.lines(1);
    other.stop();
    assert_state(&other.verify(), State::Modified);
}

/// Who may sign tombstones says that the current file was removed, and writes its records anew in
/// the next one. No retention removes a file and keeps older ones.
#[test]
fn a_tombstone_for_a_file_between_others_is_found() {
    let mut recorder = sealed();
    recorder.start();
    recorder.rotate();
    recorder.lines(1);
    recorder.remove(3);
    recorder.stop();
    assert_state(&recorder.verify(), State::Gap);
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
    assert_state(&report, State::Ok);
    assert_eq!((report.removed_files, report.files), (2, 1));

    let mut without = recorder.dir.clone();
    without.0.remove("removed.chain");
    assert_state(&check(&without, &recorder.root, None), State::Gap);

    // The first of two tombstones taken out.
    let removed = recorder.dir.text("removed.chain");
    let second = removed.rfind(&format!("file {}\n", log(2))).expect("the second");
    let second = removed[..second].rfind("tachograph-epoch-v1").expect("its key");
    let mut without = recorder.dir.clone();
    *without.file("removed.chain") = removed.as_bytes()[second..].to_vec();
    assert!(check(&without, &recorder.root, None).state() >= State::Gap);

    // A checkpoint of a removed file is no reason to complain.
    let old = sealed_checkpoint_of_file_1(&recorder);
    assert_state(&check(&recorder.dir, &recorder.root, Some(&old)), State::Ok);
}

fn sealed_checkpoint_of_file_1(recorder: &Recorder) -> String {
    let mut other = Recorder::new(1);
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
    // The tombstone is there, the sidecar still is, the log is not.
    after.dir.0.insert(sidecar(1), before.dir.0[&sidecar(1)].clone());
    assert_state(&after.verify(), State::Ok);
    // And neither has gone.
    after.dir.0.insert(log(1), before.dir.0[&log(1)].clone());
    assert_state(&after.verify(), State::Ok);
}

#[test]
fn a_break_that_the_recorder_declares_is_never_ok() {
    for reason in [EpochReason::RolledBack, EpochReason::GivenUp] {
        let mut recorder = sealed();
        recorder.epoch(reason, 4);
        recorder.lines(1);
        recorder.stop();
        // The last one before it promised no other file.
        let report = recorder.verify();
        assert_state(&report, State::BrokenChain);
    }
    // Without the key: another root, which may be named, too.
    let mut recorder = sealed();
    let mut other = Recorder::new(2);
    other.seq = recorder.seq;
    other.epoch(EpochReason::NoKey, 4);
    other.stop();
    for name in [log(4), sidecar(4)] {
        recorder.dir.0.insert(name.clone(), other.dir.0[&name].clone());
    }
    assert!(recorder.verify().state() >= State::BrokenChain);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    /// Any change of one byte of any file is noticed.
    #[test]
    fn no_byte_can_be_changed(place in any::<prop::sample::Index>(), change in 1u8..) {
        let mut recorder = sealed();
        recorder.start();
        recorder.remove(1);
        recorder.stop();
        assert_state(&recorder.verify(), State::Ok);
        let total: usize = recorder.dir.0.values().map(Vec::len).sum();
        let mut at = place.index(total);
        for (name, bytes) in &mut recorder.dir.0 {
            if at < bytes.len() {
                bytes[at] ^= change;
                let name = name.clone();
                let report = recorder.verify();
                prop_assert!(report.state() > State::Lost, "{} byte {}", name, at);
                break;
            }
            at -= bytes.len();
        }
    }

    /// Any file cut or made longer is noticed.
    #[test]
    fn no_file_can_be_cut_or_made_longer(
        which in any::<prop::sample::Index>(),
        place in any::<prop::sample::Index>(),
        more in proptest::collection::vec(any::<u8>(), 1..50),
    ) {
        let mut recorder = sealed();
        let names: Vec<String> = recorder.dir.0.keys().cloned().collect();
        let name = which.get(&names);
        let untouched = recorder.dir.clone();
        let file = recorder.dir.file(name);
        let end = place.index(file.len());
        file.truncate(end);
        // The newest sidecar alone, cut at a checkpoint, makes the lines behind it unsigned.
        prop_assert!(recorder.verify().state() > State::Lost, "{} to {}", name, end);
        recorder.dir = untouched;
        recorder.dir.file(name).extend(more);
        prop_assert!(recorder.verify().state() > State::Lost, "{} longer", name);
    }

    /// Whatever bytes, there is an answer, and it is not that all is well.
    #[test]
    fn noise_is_no_log(
        noise in proptest::collection::vec((0usize..6, any::<prop::sample::Index>(), any::<u8>()), 1..20),
    ) {
        let mut recorder = sealed();
        let untouched = recorder.dir.clone();
        for (which, place, byte) in noise {
            let name = recorder.dir.0.keys().nth(which).expect("six files").clone();
            let file = recorder.dir.file(&name);
            let at = place.index(file.len());
            file[at] = byte;
        }
        if recorder.dir != untouched {
            prop_assert!(recorder.verify().state() > State::Lost);
        }
    }
}
