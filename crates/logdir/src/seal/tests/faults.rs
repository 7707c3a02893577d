//! Failures that pass.

use std::path::Path;

use tacho_chain::verify::{LogState, Report};

use super::{DIR, KEY, assert_state, check, first, line, lines, new_fs, options, start, write};
use crate::event::Event;
use crate::faulty::{Fault, FaultyFs, NamesAfter};
use crate::write::{LogFiles, Options};

fn open(fs: &FaultyFs) -> (LogFiles<FaultyFs>, u64) {
    let (files, opened) =
        LogFiles::open(fs.clone(), Path::new(DIR), Options { rotate_bytes: 0 }).expect("opens");
    (files, opened.last_seq.expect("known").unwrap_or(0))
}

#[track_caller]
fn assert_lags(report: &Report) {
    let findings: Vec<String> = report.findings.iter().map(ToString::to_string).collect();
    assert!(
        [LogState::UnsignedTail, LogState::NotSealed].contains(&report.state()),
        "{findings:#?}"
    );
}

/// The directory of the key cannot be written: nothing is signed, and nothing looks like an attack.
#[test]
fn keys_that_cannot_be_changed_leave_the_end_unsigned() {
    let fs = new_fs();
    let (mut files, sealed) = start(&fs);
    write(&mut files, &line(1));
    let mut now_s = 951_827_696 + 61;
    fs.set_now_s(now_s);
    fs.forbid(Some(Path::new(KEY)));
    files.tick();
    assert!(matches!(files.take_events()[..], [Event::SealFailed { .. }]));
    for seq in 2..10 {
        write(&mut files, &line(seq));
        // Frames continue as long as the file does.
        assert!(seq > 5 || check(&fs, &sealed).lines == seq);
        assert_lags(&check(&fs, &sealed));
        if seq >= 5 {
            files.rotate_now().expect("rotates");
            assert_lags(&check(&fs, &sealed));
        }
        now_s += 1;
        fs.set_now_s(now_s);
    }
    // Killing and restarting changes nothing.
    drop(files);
    fs.restart_process();
    let (mut files, last_seq) = open(&fs);
    files.seal(&options(), last_seq).expect_err("the keys cannot be changed");
    assert_lags(&check(&fs, &sealed));
    drop(files);
    fs.restart_process();
    fs.forbid(None);
    let (mut files, again) = start(&fs);
    assert_eq!(again.declared, None);
    write(&mut files, &line(10));
    files.close().expect("closes");
    let report = check(&fs, &sealed);
    // A recorder that did not see the lines being written cannot confirm them.
    assert_state(&report, LogState::Recovered);
    assert_eq!(report.lines, 10);
}

#[test]
fn keys_that_can_be_changed_again_sign_everything() {
    let fs = new_fs();
    let (mut files, sealed) = start(&fs);
    fs.forbid(Some(Path::new(KEY)));
    for seq in 1..5 {
        write(&mut files, &line(seq));
        files.rotate_now().expect("rotates");
    }
    assert!(files.take_events().iter().any(|event| matches!(event, Event::SealFailed { .. })));
    fs.forbid(None);
    fs.set_now_s(951_827_696 + 1);
    files.tick();
    assert!(matches!(files.take_events()[..], [Event::SealResumed]));
    files.close().expect("closes");
    assert_state(&check(&fs, &sealed), LogState::Ok);
}

/// Sealing could not begin: it begins with a later file, and the lines until then are marked.
#[test]
fn sealing_that_could_not_begin_begins_at_a_rotation() {
    let fs = new_fs();
    let (mut files, sealed) = start(&fs);
    write(&mut files, &lines(1, 2));
    files.close().expect("closes");

    fs.forbid(Some(Path::new(KEY)));
    let (mut files, last_seq) = open(&fs);
    files.seal(&options(), last_seq).expect_err("the keys cannot be changed");
    // Not after sealed lines, where it would look like an addition.
    assert!(files.current_file() != first());
    write(&mut files, &line(3));
    assert_lags(&check(&fs, &sealed));
    files.take_events();
    files.rotate_now().expect("rotates");
    let events = files.take_events();
    assert!(matches!(events[..], [Event::Rotated { .. }, Event::SealFailed { .. }]), "{events:?}");
    write(&mut files, &line(4));
    assert_lags(&check(&fs, &sealed));

    fs.forbid(None);
    files.set_rotate_bytes(30);
    // In the middle of a batch.
    write(&mut files, &lines(5, 9));
    let events = files.take_events();
    let begun: Vec<_> = events.iter().filter(|e| matches!(e, Event::SealBegun { .. })).collect();
    assert_eq!(begun.len(), 1, "{events:?}");
    files.close().expect("closes");
    let report = check(&fs, &sealed);
    assert_state(&report, LogState::Recovered);
    assert_eq!((report.lines, report.recovered_lines), (9, 2));
    assert!(report.is_closed);
}

/// Sealing is off for a while.
#[test]
fn unsealed_lines_are_in_files_of_their_own() {
    let fs = new_fs();
    let (mut files, sealed) = start(&fs);
    write(&mut files, &line(1));
    files.close().expect("closes");
    for seq in 2..4 {
        let (mut files, _) = open(&fs);
        files.leave_sealed_file();
        write(&mut files, &line(seq));
        files.close().expect("closes");
        assert_state(&check(&fs, &sealed), LogState::NotSealed);
    }
    assert_eq!(
        fs.files_in(Path::new(DIR)).len(),
        3 + 2 + 1,
        "lock, two lists, two logs, a sidecar"
    );
    let (files, again) = start(&fs);
    assert_eq!(again.declared, None);
    files.close().expect("closes");
    assert_state(&check(&fs, &sealed), LogState::Recovered);
}

/// Everything that the key file knows is on the disk in log and sidecar, too.
#[test]
fn a_power_failure_is_not_a_rollback() {
    for names in [NamesAfter::NoChange, NamesAfter::Removals, NamesAfter::AllChanges] {
        let fs = new_fs();
        let (mut files, sealed) = start(&fs);
        let mut now_s = 951_827_696;
        for seq in 1..=3 {
            write(&mut files, &line(seq));
            now_s += 61;
            fs.set_now_s(now_s);
            files.tick();
        }
        files.rotate_now().expect("rotates");
        write(&mut files, &line(4));
        fs.cut_power(names);
        drop(files);
        let (mut files, again) = start(&fs);
        assert_eq!(again.declared, None);
        write(&mut files, &line(4));
        files.close().expect("closes");
        let report = check(&fs, &sealed);
        assert_state(&report, LogState::Ok);
        assert_eq!(report.lines, 4);
    }
}

/// The disk has kept frames of lines that it has not kept, and nothing has signed them.
#[test]
fn frames_of_lines_lost_in_a_power_failure_are_removed() {
    for kept in [0, 1, 2] {
        let fs = new_fs();
        let (mut files, sealed) = start(&fs);
        write(&mut files, &line(1));
        fs.set_now_s(951_827_696 + 61);
        files.tick();
        write(&mut files, &line(2));
        write(&mut files, &lines(3, 4));
        drop(files);
        fs.restart_process();
        fs.truncate(&first(), lines(1, 1 + kept).len() + 5);
        let (mut files, again) = start(&fs);
        assert_eq!(again.declared, None);
        write(&mut files, &lines(2 + kept, 4));
        files.close().expect("closes");
        let report = check(&fs, &sealed);
        // Half of the second frame exists.
        assert_state(&report, if kept == 2 { LogState::Recovered } else { LogState::Ok });
        assert_eq!(report.lines, 4);
    }
}

/// Linux reports a page that it could not write once, and then considers it clean. Whichever
/// process got the report, signed content is on the device.
#[test]
fn unsynced_pages_are_written_again_before_they_are_signed() {
    #[derive(Clone, Copy, PartialEq)]
    enum Receiver {
        Sealer,
        SealerThatDied,
        Durability,
    }
    let mut failed = 0;
    let receivers = [Receiver::Sealer, Receiver::SealerThatDied, Receiver::Durability];
    for (skipped, receiver) in
        (0..16).flat_map(|skipped| receivers.map(|receiver| (skipped, receiver)))
    {
        let fs = new_fs();
        let (mut files, sealed) = start(&fs);
        files.set_durable(receiver == Receiver::Durability);
        write(&mut files, &lines(1, 3));
        fs.fault_after(skipped, Fault::Fail(libc::EIO));
        if receiver == Receiver::Durability {
            failed += u32::from(files.sync().is_err());
        } else {
            fs.set_now_s(951_827_696 + 61);
            files.tick();
            let is_failure = |event: &Event| matches!(event, Event::SealFailed { .. });
            failed += u32::from(files.take_events().iter().any(is_failure));
        }
        fs.repair();
        if receiver == Receiver::SealerThatDied {
            drop(files);
            fs.restart_process();
            files = start(&fs).0;
        }
        fs.set_now_s(951_827_696 + 183);
        files.tick();
        drop(files);
        fs.cut_power(NamesAfter::NoChange);
        let (files, again) = start(&fs);
        assert_eq!(again.declared, None, "{skipped}");
        files.close().expect("closes");
        let report = check(&fs, &sealed);
        assert_state(&report, LogState::Ok);
        assert_eq!(report.lines, 3, "{skipped}");
    }
    assert!(failed > 6, "{failed} failed");
}
