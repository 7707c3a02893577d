//! Attacks on a log, its seal and its key, by name.

use std::path::Path;

use tacho_chain::entry::EpochReason;
use tacho_chain::verify::LogState;

use super::{
    DIR, KEY, assert_state, check, first, first_sidecar, line, lines, new_fs, options, path, put,
    start, write,
};
use crate::error::FileErrorKind;
use crate::event::Event;
use crate::faulty::{Fault, FaultyFs};
use crate::seal::SealOptions;
use crate::write::{LogFiles, Options};

fn unlink_all(fs: &FaultyFs, paths: &[&Path]) {
    paths.iter().for_each(|path| fs.unlink(path));
}

fn second() -> std::path::PathBuf {
    path("audit-20000229T123456Z-000002.jsonl")
}

fn second_sidecar() -> std::path::PathBuf {
    path("audit-20000229T123456Z-000002.chain")
}

/// A key file from a backup: the log has continued without it.
#[test]
fn a_key_that_is_older_than_the_log_is_declared_or_refused() {
    type Life = fn(&mut LogFiles<FaultyFs>, &FaultyFs);
    let lives: [Life; 3] = [
        // In the same file.
        |files, fs| {
            fs.set_now_s(951_827_696 + 61);
            write(files, &line(2));
        },
        // In a later one, without a checkpoint.
        |files, _| {
            files.rotate_now().expect("rotates");
            write(files, &line(2));
        },
        // Several files later.
        |files, fs| {
            for seq in 2..5 {
                fs.set_now_s(951_827_696 + 61 * i64::try_from(seq).expect("small"));
                write(files, &line(seq));
                files.rotate_now().expect("rotates");
            }
        },
    ];
    for live in lives {
        let fs = new_fs();
        let (mut files, sealed) = start(&fs);
        write(&mut files, &line(1));
        let backup = fs.read(Path::new(KEY));
        live(&mut files, &fs);
        drop(files);
        fs.restart_process();
        put(&fs, Path::new(KEY), &backup);

        // `tacho recover` does not break the chain; its lines are in a file of their own.
        let (mut files, opened) =
            LogFiles::open(fs.clone(), Path::new(DIR), Options { rotate_bytes: 0 }).expect("opens");
        let last_seq = opened.last_seq.expect("known").expect("lines");
        let options = SealOptions { may_break: false, ..options() };
        let error = files.seal(&options, last_seq).expect_err("refused");
        assert_eq!(error.kind(), FileErrorKind::StaleKey);
        assert_eq!(files.current_bytes(), 0);
        drop(files);
        fs.restart_process();
        assert_eq!(fs.read(Path::new(KEY)), backup, "the key was not used");

        let (mut files, again) = start(&fs);
        assert_eq!(again.declared, Some(EpochReason::RolledBack));
        write(&mut files, &line(last_seq + 1));
        files.close().expect("closes");
        assert!(check(&fs, &sealed).state() >= LogState::BrokenChain);
    }
}

/// The newest file has no checkpoint yet, and is deleted with its sidecar between two writers.
#[test]
fn a_newest_file_that_vanishes_is_declared() {
    for with_lines in [false, true] {
        let fs = new_fs();
        let (mut files, sealed) = start(&fs);
        write(&mut files, &line(1));
        files.rotate_now().expect("rotates");
        if with_lines {
            write(&mut files, &lines(2, 9));
        }
        drop(files);
        fs.restart_process();
        unlink_all(&fs, &[&second(), &second_sidecar()]);
        fs.set_now_s(951_827_696 + 5);
        assert_state(&check(&fs, &sealed), LogState::Truncated);
        let (mut files, again) = start(&fs);
        assert_eq!(again.declared, Some(EpochReason::RolledBack));
        write(&mut files, &line(2));
        files.close().expect("closes");
        assert!(check(&fs, &sealed).state() >= LogState::BrokenChain);
    }
}

/// All files are deleted, and the server is restarted: this is not a new log.
#[test]
fn a_log_that_vanishes_is_declared() {
    let fs = new_fs();
    let (mut files, sealed) = start(&fs);
    write(&mut files, &line(1));
    drop(files);
    fs.restart_process();
    unlink_all(&fs, &[&first(), &first_sidecar()]);
    fs.set_now_s(951_827_696 + 5);
    let (files, again) = start(&fs);
    assert_eq!(again.declared, Some(EpochReason::RolledBack));
    files.close().expect("closes");
    assert!(check(&fs, &sealed).state() >= LogState::BrokenChain);
}

/// logrotate with `copytruncate`: there may be as many new lines as removed ones.
#[test]
fn copytruncate_is_detected_however_much_is_written_next() {
    for next in [1, 3, 4, 20] {
        let fs = new_fs();
        let (mut files, sealed) = start(&fs);
        write(&mut files, &lines(1, 3));
        fs.truncate(&first(), 0);
        write(&mut files, &lines(4, 3 + next));
        write(&mut files, &line(4 + next));
        files.close().expect("closes");
        let report = check(&fs, &sealed);
        assert!(
            report.findings.iter().any(|finding| finding.state == LogState::Truncated),
            "{next}"
        );
        let declared = |text: &str| report.findings.iter().any(|f| f.text.contains(text));
        assert!(declared("changed the file"), "{next}: {:#?}", report.findings);
    }
}

/// The file is deleted, its name is taken, and the batch fills the copy and the next file.
#[test]
fn a_copy_that_is_left_in_the_same_batch_is_sealed() {
    let fs = new_fs();
    let (mut files, sealed) = start(&fs);
    write(&mut files, &lines(1, 3));
    files.set_rotate_bytes(100);
    fs.unlink(&first());
    fs.append(&second().with_extension("jsonl.sig"), b"");
    write(&mut files, &lines(4, 12));
    files.close().expect("closes");
    let report = check(&fs, &sealed);
    // Each line is in a frame, including those of the copy.
    assert_eq!(report.lines, 3 + 12);
    let text: Vec<&str> = report.findings.iter().map(|finding| finding.text.as_str()).collect();
    assert!(!text.iter().any(|text| text.contains("not what was sealed")), "{text:#?}");
    assert!(!text.iter().any(|text| text.contains("never sealed")), "{text:#?}");
}

/// The copy of a deleted sidecar cannot be completed at once.
#[test]
fn a_half_written_copy_of_a_sidecar_is_completed() {
    for skipped in 0..30 {
        let fs = new_fs();
        let (mut files, sealed) = start(&fs);
        write(&mut files, &lines(1, 3));
        fs.unlink(&first_sidecar());
        fs.set_now_s(951_827_696 + 61);
        fs.fault_after(skipped, Fault::FailAfter(100, libc::ENOSPC));
        files.tick();
        fs.repair();
        fs.set_now_s(951_827_696 + 62);
        files.tick();
        write(&mut files, &line(4));
        files.close().expect("closes");
        assert_state(&check(&fs, &sealed), LogState::Ok);
    }
}

/// Another process moves the sidecar away, and puts a part of it back.
#[test]
fn a_sidecar_that_is_put_back_in_part_is_written_again_or_declared() {
    let fs = new_fs();
    let (mut files, sealed) = start(&fs);
    write(&mut files, &lines(1, 3));
    let whole = fs.read(&first_sidecar());
    fs.unlink(&first_sidecar());
    fs.append(&first_sidecar(), &whole[..whole.len() / 2]);
    fs.set_now_s(951_827_696 + 61);
    files.tick();
    write(&mut files, &line(4));
    files.close().expect("closes");
    assert_state(&check(&fs, &sealed), LogState::Ok);
    // Between two writers.
    put(&fs, &first_sidecar(), &whole[..whole.len() / 2]);
    let (files, again) = start(&fs);
    assert_eq!(again.declared, Some(EpochReason::RolledBack));
    files.close().expect("closes");
    assert!(check(&fs, &sealed).state() >= LogState::BrokenChain);
}

/// Lines that are added while the recorder is stopped are not taken for its own.
#[test]
fn lines_that_are_added_after_a_stop_are_found() {
    let fs = new_fs();
    let (mut files, sealed) = start(&fs);
    write(&mut files, &lines(1, 3));
    files.close().expect("closes");
    fs.append(&first(), line(4).as_bytes());
    assert_state(&check(&fs, &sealed), LogState::Modified);
    let (mut files, again) = start(&fs);
    assert_eq!(again.recovered_bytes, line(4).len() as u64);
    write(&mut files, &line(5));
    files.close().expect("closes");
    assert_state(&check(&fs, &sealed), LogState::Modified);
}

#[test]
fn the_highest_number_of_all_does_not_come_from_a_recorder() {
    let fs = new_fs();
    let (mut files, _) = start(&fs);
    write(&mut files, &line(1));
    files.close().expect("closes");
    fs.append(&first(), line(u64::MAX).as_bytes());
    let (_, opened) =
        LogFiles::open(fs, Path::new(DIR), Options { rotate_bytes: 0 }).expect("opens");
    opened.last_seq.expect_err("no number can follow");
}

/// The events report it to the operator at once.
#[test]
fn unreadable_parts_of_a_copy_are_reported() {
    let fs = new_fs();
    let (mut files, sealed) = start(&fs);
    write(&mut files, &lines(1, 3));
    files.set_rotate_bytes(100);
    fs.unlink(&first());
    fs.append(&second().with_extension("jsonl.sig"), b"");
    // One operation of the batch fails; the batch is offered until it is in the file.
    for skipped in 0..40 {
        fs.fault_after(skipped, Fault::Fail(libc::EIO));
    }
    let (batch, mut progress) = (lines(4, 12), 0);
    while files.write(batch.as_bytes(), &mut progress).is_err() {}
    fs.repair();
    let events = files.take_events();
    fs.set_now_s(951_827_696 + 61);
    files.tick();
    files.close().expect("closes");
    let report = check(&fs, &sealed);
    let is_whole = report.lines == 3 + 12;
    let is_told = events.iter().any(|event| matches!(event, Event::SealFailed { .. }));
    assert!(is_whole || is_told, "{:#?}", report.findings);
}
