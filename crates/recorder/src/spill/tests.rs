use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;

use super::*;

const RECORD_BYTES_MAX: u32 = 4_096;

fn record(mark: u8, bytes: u32) -> Vec<u8> {
    let mut record = vec![mark; bytes as usize];
    record[..4].copy_from_slice(&bytes.to_le_bytes());
    record[8..16].fill(0);
    record
}

/// Writes a file as a version before 0.2 left it.
fn write(path: &Path, bytes: &[u8]) {
    std::fs::write(path, bytes).unwrap();
    std::fs::set_permissions(path, Permissions::from_mode(0o600)).unwrap();
}

fn open(arena: &Path) -> Spill {
    Spill::open(arena, RECORD_BYTES_MAX).unwrap()
}

/// Another user who creates and removes files must not block the arena.
#[test]
fn a_file_that_disappears_is_skipped() {
    let dir = tempfile::tempdir().unwrap();
    let arena = dir.path().join("tacho-1.arena");
    let kept = record(b'a', 128);
    write(&part_path(&arena, 2), &kept);
    let listed = [1, 2].map(|number| (number, part_path(&arena, number))).to_vec();
    let mut spill = Spill::of(&arena, RECORD_BYTES_MAX, listed).unwrap();
    assert_eq!(all(&mut spill), [kept]);
    assert!(spill.take_error().is_none());
}

fn all(spill: &mut Spill) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    while let Some(at) = spill.next() {
        let mut buffer = vec![0; at.bytes as usize];
        found.push(spill.fetch(at, &mut buffer).expect("reads").to_vec());
    }
    found
}

fn count(arena: &Path) -> usize {
    files(arena).unwrap().len()
}

#[test]
fn the_next_writer_finds_records_without_a_line() {
    let dir = tempfile::tempdir().unwrap();
    let arena = dir.path().join("tacho-1.arena");
    let mut spill = open(&arena);
    let (first, second) = (record(b'a', 128), record(b'b', RECORD_BYTES_MAX));
    let at = [spill.append(&first).unwrap(), spill.append(&second).unwrap()];
    // It dies, and its successor continues in a file of its own.
    drop(spill);
    let mut spill = open(&arena);
    assert_eq!(all(&mut spill), [first, second]);
    let more = spill.append(&record(b'c', 64)).unwrap();
    assert_eq!(count(&arena), 2);
    spill.settle(at[0], 5);
    spill.settle(more, 6);
    spill.remove_written(5);
    assert_eq!(count(&arena), 2, "one has a record in no line, the other's is not written");
    spill.settle(at[1], 7);
    spill.remove_written(6);
    assert_eq!(count(&arena), 1, "its line is not written");
    drop(spill);
    let mut spill = open(&arena);
    let marks: Vec<_> = all(&mut spill).iter().map(|record| record[8]).collect();
    assert_eq!(marks, [5, 7]);
    spill.settle(at[0], 5);
    spill.settle(at[1], 7);
    spill.remove_written(7);
    assert_eq!(count(&arena), 0);
    assert!(spill.append(&record(b'd', 64)).is_some(), "the next attempt works");
    assert_eq!(count(&arena), 1);
    assert!(spill.take_error().is_none() && spill.take_damaged() == 0);
    remove_all(&arena).unwrap();
    assert_eq!(count(&arena), 0);
}

#[test]
fn one_slow_record_does_not_keep_all_others() {
    let dir = tempfile::tempdir().unwrap();
    let arena = dir.path().join("tacho-1.arena");
    let mut spill = open(&arena);
    let slow = spill.append(&record(b's', 64)).unwrap();
    for seq in 1..=4 * FILE_BYTES_MAX / u64::from(RECORD_BYTES_MAX) {
        let at = spill.append(&record(b'a', RECORD_BYTES_MAX)).unwrap();
        spill.settle(at, seq);
        spill.remove_written(seq);
        assert!(count(&arena) <= 2);
    }
    let mut buffer = [0; 64];
    assert_eq!(spill.fetch(slow, &mut buffer).unwrap(), record(b's', 64));
}

#[test]
fn a_record_that_a_dying_writer_had_begun_is_not_read() {
    let dir = tempfile::tempdir().unwrap();
    let arena = dir.path().join("tacho-1.arena");
    let whole = record(b'a', 256);
    for torn_bytes in [0, 1, 4, 63, 64, 100, 1_023] {
        let mut bytes = whole.clone();
        bytes.extend_from_slice(&record(b'b', 1_024)[..torn_bytes]);
        write(&part_path(&arena, 0), &bytes);
        let mut spill = open(&arena);
        assert_eq!(all(&mut spill), std::slice::from_ref(&whole));
        let next = record(b'c', 64);
        assert!(spill.append(&next).is_some());
        assert!(spill.take_error().is_none() && spill.take_damaged() == 0);
        drop(spill);
        assert_eq!(all(&mut open(&arena)), [whole.clone(), next]);
        remove_all(&arena).unwrap();
    }
}

#[test]
fn a_record_that_cannot_be_written_is_not_there() {
    let dir = tempfile::tempdir().unwrap();
    let gone = dir.path().join("gone");
    std::fs::create_dir(&gone).unwrap();
    let arena = gone.join("tacho-1.arena");
    let mut spill = open(&arena);
    std::fs::remove_dir(&gone).unwrap();
    assert!(spill.append(&record(b'a', 64)).is_none());
    let error = spill.take_error().unwrap().to_string();
    assert!(error.contains("making") && error.contains("tacho-1.0.annex"), "{error}");
    // Not every arena has a place for a spill.
    let mut none = Spill { record_bytes_max: RECORD_BYTES_MAX, ..Spill::default() };
    assert!(none.append(&record(b'a', 64)).is_none() && none.take_error().is_none());
}

/// Every user who can list the directory knows the names that follow.
#[test]
fn a_record_is_spilled_although_names_are_taken() {
    let dir = tempfile::tempdir().unwrap();
    let arena = dir.path().join("tacho-1.arena");
    let mut spill = open(&arena);
    for number in 0..5_000 {
        std::fs::create_dir(part_path(&arena, number)).unwrap();
    }
    let at = spill.append(&record(b'a', 64)).unwrap();
    assert!(spill.take_error().is_none());
    let mut buffer = [0; 64];
    assert_eq!(spill.fetch(at, &mut buffer).unwrap(), record(b'a', 64));
    drop(spill);
    assert_eq!(all(&mut open(&arena)), [record(b'a', 64)]);
}

#[test]
fn files_of_other_users_are_neither_read_nor_written() {
    let dir = tempfile::tempdir().unwrap();
    let arena = dir.path().join("tacho-1.arena");
    let target = dir.path().join("target");
    std::fs::write(&target, record(b'a', 64)).unwrap();
    std::os::unix::fs::symlink(&target, part_path(&arena, 4)).unwrap();
    std::fs::create_dir(part_path(&arena, 5)).unwrap();
    let mut spill = open(&arena);
    assert!(spill.next().is_none() && spill.take_error().is_some());
    assert!(spill.append(&record(b'b', 64)).is_some(), "beside it");
    spill.remove_written(u64::MAX);
    assert_eq!(std::fs::read(&target).unwrap(), record(b'a', 64));
    // Owned by this user, but not a record that a writer writes.
    let mut strange = record(b'a', 64);
    strange.extend([7; 640]);
    write(&part_path(&arena, 6), &strange);
    let mut spill = open(&arena);
    let found = all(&mut spill);
    assert!(found.contains(&record(b'a', 64)) && spill.take_damaged() == 1, "{found:?}");
    // An SQL statement may have created this one.
    std::fs::write(part_path(&arena, 7), record(b'f', 64)).unwrap();
    let mut spill = open(&arena);
    assert!(!all(&mut spill).contains(&record(b'f', 64)));
    assert!(matches!(&*spill.take_error().unwrap(), ArenaError::Planted { .. }));
}
