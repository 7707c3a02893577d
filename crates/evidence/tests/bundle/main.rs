//! Bundles that are made from a sealed log, changed, and checked.

mod hostile;
#[path = "../../../chain/tests/support/mod.rs"]
#[expect(dead_code, reason = "the support of another crate's tests")]
mod recorder;
mod states;
mod support;

use tacho_chain::key::SecretKey;
use tacho_chain::verify::LogState;

use support::{Exported, assert_state};

#[test]
fn every_record_of_a_sealed_log_is_proven() {
    let exported = Exported::new(recorder::sealed(), |_| true);
    let report = exported.check();
    assert_state(&report, LogState::Ok);
    assert_eq!((report.records(), report.proven()), (18, 18));
    let manifest = report.manifest.unwrap();
    let part = &manifest.servers[0].generations[0];
    assert_eq!((part.records, part.log_files, part.sealed_seq), (18, 3, Some(18)));
    assert_eq!(part.checkpoint.as_ref().map(|it| it.seq), Some(18));
    assert_eq!(part.findings, []);
    assert_eq!(part.unsigned_bytes, 0);
}

#[test]
fn a_part_of_a_log_is_proven_without_the_rest() {
    let all = Exported::new(recorder::sealed(), |_| true);
    for seq in 1..=18 {
        let exported = Exported::new(recorder::sealed(), |it| it == seq);
        let report = exported.check();
        assert_state(&report, LogState::Ok);
        assert_eq!((report.records(), report.proven()), (1, 1), "{seq}");
        assert!(exported.bytes().len() < all.bytes().len());
        let names: Vec<String> = exported.members().into_iter().map(|it| it.0).collect();
        let lines = names.iter().filter(|name| name.ends_with(".jsonl")).count();
        assert_eq!(lines, 2, "one log file and records.jsonl: {names:?}");
    }
}

#[test]
fn frames_without_records_are_left_out_by_whole_intervals() {
    let mut recorder = recorder::TestRecorder::new(1);
    for _ in 0..50 {
        recorder.lines(1);
        recorder.lines(1);
        recorder.checkpoint(tacho_chain::entry::CheckpointReason::Interval);
    }
    recorder.stop();
    let exported = Exported::new(recorder, |seq| seq == 41);
    let report = exported.check();
    assert_state(&report, LogState::Ok);
    assert_eq!(report.proven(), 1);
    let chain = exported.member(".chain", 1);
    assert_eq!(chain.matches("frame ").count(), 2);
    // The epoch, and the checkpoints up to the one that covers the record.
    assert_eq!(chain.matches("\nreason interval\n").count(), 21);
    assert!(!chain.contains("reason stop"));
}

#[test]
fn an_empty_result_is_a_bundle_too() {
    let exported = Exported::new(recorder::sealed(), |_| false);
    let report = exported.check();
    assert_state(&report, LogState::Ok);
    assert_eq!(report.records(), 0);
    let manifest = report.manifest.unwrap();
    assert_eq!(manifest.servers[0].generations[0].checkpoint.as_ref().map(|it| it.seq), Some(18));
}

#[test]
fn the_key_of_the_hub_can_be_required() {
    let exported = Exported::new(recorder::sealed(), |seq| seq < 4);
    let mut options = exported.options();
    options.hub_key = Some(support::hub_key().root());
    assert_state(&exported.check_with(&options), LogState::Ok);
    options.hub_key = Some(SecretKey::from_bytes(&[77; 32]).root());
    assert_state(&exported.check_with(&options), LogState::WrongKey);
}

#[test]
fn the_root_key_is_the_one_that_is_given() {
    let exported = Exported::new(recorder::sealed(), |seq| seq < 4);
    let mut options = exported.options();
    options.keys = vec![SecretKey::from_bytes(&[77; 32]).root()];
    let report = exported.check_with(&options);
    assert_state(&report, LogState::WrongKey);
    assert_eq!(report.proven(), 0);
    // Without one it is the one that the hub states.
    options.keys.clear();
    assert_state(&exported.check_with(&options), LogState::Ok);
}

#[test]
fn other_programs_read_the_archive() {
    let exported = Exported::new(recorder::sealed(), |seq| seq == 5);
    let out = exported.directory.path().join("out");
    std::fs::create_dir(&out).unwrap();
    let status = std::process::Command::new("tar")
        .arg("-xf")
        .arg(exported.path())
        .arg("-C")
        .arg(&out)
        .status()
        .unwrap();
    assert!(status.success());
    for (name, bytes) in exported.members() {
        assert!(std::fs::read(out.join(&name)).unwrap() == bytes, "{name}");
    }
}
