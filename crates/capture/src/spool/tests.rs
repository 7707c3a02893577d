use std::fs::OpenOptions;

use super::*;

fn directory() -> tempfile::TempDir {
    tempfile::tempdir().expect("a directory")
}

/// Bytes that differ from place to place.
fn bytes(count: usize) -> Vec<u8> {
    (0..count).map(|at| (at ^ (at >> 8) ^ (at >> 16)) as u8).collect()
}

#[test]
fn a_command_comes_back_as_it_was() {
    let (directory, whole) = (directory(), bytes(5 << 20));
    let spool = Spool::new(directory.path());
    for part in [1000, 4096, 65_536, WRITE_BYTES - 1, WRITE_BYTES, WRITE_BYTES + 1, 3 << 20] {
        let (head, rest) = whole.split_at(100_000);
        let mut growing = spool.begin(head, COMMAND_BYTES_MAX).expect("a file");
        for part in rest.chunks(part) {
            growing.add(part).expect("space");
            assert!(growing.held_bytes() <= WRITE_BYTES + size_of::<Growing>(), "{part:?}");
        }
        let spooled = growing.complete().expect("a file");
        assert!(spooled[..] == whole[..], "{part}");
        assert_eq!(spool.used_bytes(), whole.len() as u64);
        // It has no name under which another process could open it.
        assert_eq!(directory.path().read_dir().expect("a list").count(), 0);
        drop(spooled);
        assert_eq!(spool.used_bytes(), 0);
    }
    assert!(spool.take_problem().is_none());
}

#[test]
fn one_command_and_all_together_have_limits() {
    let directory = directory();
    let spool = Spool::with_limit(directory.path(), 5 << 20);
    let (head, part) = (bytes(1 << 20), bytes(1 << 20));
    assert_eq!(spool.begin(&head, 1 << 19).expect_err("too large"), Cause::TooLarge);
    let mut one = spool.begin(&head, 2 << 20).expect("a file");
    one.add(&part).expect("space");
    // What is in memory is found to be too much when it is written.
    let failed = one.add(&part).or_else(|_| one.add(&part)).map_or_else(Err, |()| one.add(&part));
    assert_eq!(failed, Err(Cause::TooLarge));
    drop(one);
    assert_eq!(spool.used_bytes(), 0);
    let mut growing = [(); 2].map(|()| spool.begin(&head, COMMAND_BYTES_MAX).expect("a file"));
    let mut add = |which: usize| growing[which].add(&part).and_then(|()| growing[which].flush());
    assert_eq!([add(0), add(1), add(0), add(1)], [Ok(()), Ok(()), Ok(()), Err(Cause::TooLarge)]);
    assert_eq!(spool.begin(&head, COMMAND_BYTES_MAX).expect_err("full"), Cause::TooLarge);
    drop(growing);
    assert_eq!(spool.used_bytes(), 0);
    // A limit is no problem of the disk.
    assert!(spool.take_problem().is_none());
}

#[test]
fn a_disk_that_fails_is_reported_once() {
    let directory = directory();
    let spool = Spool::new(directory.path());
    for _ in 0..2 {
        let mut growing = spool.begin(&bytes(1000), COMMAND_BYTES_MAX).expect("a file");
        growing.file = Some(OpenOptions::new().write(true).open("/dev/full").expect("a device"));
        growing.add(b"more").expect("memory");
        assert_eq!(growing.complete().expect_err("no space"), Cause::Disk);
        assert_eq!(spool.used_bytes(), 0);
    }
    let said = spool.take_problem().expect("a problem");
    assert!(said.contains("No space left"), "{said}");
    assert!(said.contains(&*directory.path().to_string_lossy()), "{said}");
    let _ = spool.fail(io::ErrorKind::StorageFull.into());
    assert!(spool.take_problem().is_none(), "not again at once");
}

#[test]
fn a_directory_that_is_missing_is_an_error() {
    let directory = directory();
    let spool = Spool::new(&directory.path().join("nosuch"));
    assert_eq!(spool.begin(b"text", COMMAND_BYTES_MAX).expect_err("no file"), Cause::Disk);
    assert!(spool.take_problem().is_some_and(|said| said.contains("nosuch")));
}

/// Otherwise reading the mapping would end the process.
#[test]
fn a_file_that_is_shorter_is_not_mapped() {
    let directory = directory();
    let spool = Spool::new(directory.path());
    let growing = spool.begin(&bytes(1 << 20), COMMAND_BYTES_MAX).expect("a file");
    growing.file.as_ref().expect("a file").set_len(4096).expect("another length");
    assert_eq!(growing.complete().expect_err("shorter"), Cause::Disk);
}

#[test]
fn the_log_has_space_left() {
    let directory = directory();
    let spool = Spool::with_limit(directory.path(), u64::MAX);
    spool.check_space().expect("a disk with space");
    let Space { free_bytes, .. } = RealFs.space(directory.path()).expect("its space");
    spool.used_bytes.store(free_bytes / LINE_PER_BYTE, Ordering::Relaxed);
    let error = spool.check_space().expect_err("all of it is needed for the lines");
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
}
