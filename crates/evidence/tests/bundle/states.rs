//! What is not proven, and what the hub states about the rest.

use tacho_chain::entry::{CheckpointReason, EpochReason};
use tacho_chain::verify::LogState;
use tacho_evidence::container::WriteError;
use tacho_evidence::make::MakeError;

use crate::recorder::{TestRecorder, line, log, sealed, sidecar};
use crate::support::{Exported, assert_state, request, stem};

fn texts(report: &tacho_evidence::check::Report) -> String {
    report.findings.iter().map(|it| it.to_string() + "\n").collect()
}

#[test]
fn the_end_of_a_log_may_not_be_signed_yet() {
    let mut recorder = TestRecorder::new(1);
    recorder.lines(3);
    recorder.checkpoint(CheckpointReason::Interval);
    recorder.lines(2);
    let exported = Exported::new(recorder, |_| true);
    let report = exported.check();
    assert_state(&report, LogState::UnsignedTail);
    assert_eq!((report.records(), report.proven()), (5, 3));
    assert!(report.manifest.unwrap().servers[0].generations[0].unsigned_bytes > 0);
}

#[test]
fn lines_without_a_seal_are_there_and_not_proven() {
    let mut recorder = sealed();
    recorder.dir.0.remove(&sidecar(3));
    let exported = Exported::new(recorder, |seq| seq > 10);
    let report = exported.check();
    assert_state(&report, LogState::NotSealed);
    assert_eq!((report.records(), report.proven()), (8, 2));
    // Behind the last frame.
    let mut recorder = TestRecorder::new(1);
    recorder.lines(3);
    recorder.checkpoint(CheckpointReason::Interval);
    let text = line(4) + &line(5);
    recorder.dir.file(&log(1)).extend(text.as_bytes());
    let exported = Exported::new(recorder, |seq| seq == 1 || seq == 5);
    let report = exported.check();
    assert_state(&report, LogState::NotSealed);
    assert_eq!((report.records(), report.proven()), (2, 1));
}

#[test]
fn recovered_records_are_named() {
    let mut recorder = TestRecorder::new(1);
    recorder.lines(2);
    recorder.seq = 3;
    recorder.raw_frame(&line(3), 3, true);
    recorder.start();
    recorder.lines(1);
    recorder.stop();
    let report = Exported::new(recorder, |_| true).check();
    assert_state(&report, LogState::Recovered);
    assert_eq!(report.proven(), 4);
    assert!(texts(&report).contains("1 record: they were sealed at a start"), "{}", texts(&report));
}

#[test]
fn a_missing_file_is_a_gap() {
    // The file before the one with the record: its key is missing.
    let mut recorder = sealed();
    recorder.dir.0.remove(&log(2));
    recorder.dir.0.remove(&sidecar(2));
    let exported = Exported::new(recorder, |seq| seq == 15);
    let report = exported.check();
    assert_state(&report, LogState::Gap);
    assert_eq!((report.records(), report.proven()), (1, 0));
    // Its lines alone are missing: the record is proven, and the hub states the gap.
    let mut recorder = sealed();
    recorder.dir.0.remove(&log(2));
    let exported = Exported::new(recorder, |seq| seq == 15);
    let report = exported.check();
    assert_state(&report, LogState::Gap);
    assert_eq!(report.proven(), 1);
    assert!(texts(&report).contains("the hub states: the file is missing"), "{}", texts(&report));
}

#[test]
fn files_that_retention_removed_still_lead_to_the_root() {
    let mut recorder = sealed();
    recorder.remove(1);
    let exported = Exported::new(recorder, |seq| seq == 15);
    let report = exported.check();
    assert_state(&report, LogState::Ok);
    assert_eq!(report.proven(), 1);
}

#[test]
fn a_changed_copy_is_exported_as_it_is() {
    let mut recorder = sealed();
    let text = recorder.dir.text(&log(2)).replacen("SELECT 7", "SELECT 0", 1);
    *recorder.dir.file(&log(2)) = text.into_bytes();
    let exported = Exported::new(recorder, |seq| seq == 2 || seq == 7);
    let report = exported.check();
    assert_state(&report, LogState::Modified);
    assert_eq!((report.records(), report.proven()), (2, 1));
    // A sidecar that was changed proves nothing behind the change.
    let mut recorder = sealed();
    let text = recorder.dir.text(&sidecar(3));
    let at = text.rfind("frame ").unwrap() + 6;
    recorder.dir.file(&sidecar(3))[at] = b'9';
    let exported = Exported::new(recorder, |seq| seq > 12);
    let report = exported.check();
    assert_state(&report, LogState::Modified);
    assert_eq!((report.records(), report.proven()), (6, 5));
}

#[test]
fn declared_breaks_on_the_way_to_the_key_are_reported() {
    let mut recorder = TestRecorder::new(1);
    recorder.lines(2);
    recorder.epoch(EpochReason::Damaged, 2);
    recorder.lines(2);
    recorder.stop();
    let report = Exported::new(recorder, |seq| seq == 4).check();
    assert_state(&report, LogState::BrokenChain);
    assert_eq!(report.proven(), 1);
}

#[test]
fn lost_records_in_the_range_are_stated() {
    let exported = Exported::new(sealed(), |_| true);
    let report = exported.forge(|_, manifest| {
        (manifest.servers[0].lost_lines, manifest.servers[0].lost_records) = (1, 7);
    });
    assert_state(&report, LogState::Lost);
    assert!(texts(&report).contains("declare 7 lost records"), "{}", texts(&report));
}

#[test]
fn the_time_range_decides_which_files_are_covered() {
    let mut exported = Exported::new(sealed(), |seq| seq == 2);
    // All names of this log have the same time: a range behind it has only its last file.
    let mut late = request();
    late.file_times = (Some("20270101T000000Z".to_owned()), None);
    let made = exported.export(&|_| false, late).unwrap();
    let part = &made.manifest.servers[0].generations[0];
    assert_eq!(part.first_file, Some(log(3)));
    assert_eq!(part.log_files, 1);
    let mut early = request();
    early.file_times = (None, Some("20200101T000000Z".to_owned()));
    let made = exported.export(&|_| false, early).unwrap();
    assert_eq!(made.manifest.servers[0].generations[0].log_files, 0);
}

#[test]
fn a_bundle_has_a_limit_and_can_be_cancelled() {
    let mut exported = Exported::new(sealed(), |_| true);
    let mut limited = request();
    limited.bytes_max = 4000;
    let failed = exported.export(&|_| true, limited);
    assert!(matches!(failed, Err(MakeError::Write(WriteError::TooLarge(4000)))), "{failed:?}");
    let file = std::fs::File::create(exported.path()).unwrap();
    let key = crate::support::hub_key();
    let servers = vec![exported.server(&|_| true)];
    let failed =
        tacho_evidence::make::make(&file, &key, request(), servers, &mut |bytes| bytes < 2000);
    assert!(matches!(failed, Err(MakeError::Write(WriteError::Cancelled))), "{failed:?}");
}

/// A line of the index that the copy does not have any more.
#[test]
fn a_record_that_is_not_there_is_an_error() {
    let exported = Exported::new(sealed(), |_| true);
    let file = std::fs::File::create(exported.path()).unwrap();
    let mut server = exported.server(&|_| false);
    server.logs[0].records.insert(stem(3), vec![1 << 20]);
    let key = crate::support::hub_key();
    let failed = tacho_evidence::make::make(&file, &key, request(), vec![server], &mut |_| true);
    assert!(matches!(failed, Err(MakeError::Line { offset: 1048576, .. })), "{failed:?}");
}
